/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "base/keyvalue.h"

#include <string.h>

#define SEPARATORS ",:"

static const char first[] = "abcdefghijklmnopqrstuvwxyz";
static const char others[] = "abcdefghijklmnopqrstuvwxyz0123456789_";

size_t uccl_keyvalue_head(const char *text)
{
	return strcspn(text, SEPARATORS);
}

bool uccl_keyvalue_begins(const char *text)
{
	return strspn(text, first) && text[strspn(text, others)] == '=';
}

size_t uccl_keyvalue_long_head(const char *text)
{
	size_t len = strcspn(text, SEPARATORS);

	while (text[len] && !uccl_keyvalue_begins(text + len + 1))
		len += 1 + strcspn(text + len + 1, SEPARATORS);
	return len;
}

bool uccl_keyvalue_next(const char **at, struct uccl_keyvalue *item)
{
	const char *text = *at, *equals;
	size_t len;

	if (!text)
		return false;
	len = strcspn(text, SEPARATORS);
	equals = memchr(text, '=', len);
	*item = (struct uccl_keyvalue){.key = text, .key_len = len, .len = len};
	if (equals) {
		item->key_len = (size_t)(equals - text);
		item->value = equals + 1;
		item->value_len = len - item->key_len - 1;
	}
	*at = text[len] ? text + len + 1 : NULL;
	return true;
}

bool uccl_keyvalue_is(const struct uccl_keyvalue *item, const char *key)
{
	return item->value && strlen(key) == item->key_len && !memcmp(key, item->key, item->key_len);
}
