/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "api/offer/nicnames.h"

#include <fnmatch.h>
#include <stdio.h>
#include <string.h>

bool uccl_nicnames_next(const char *list, const char **at, struct uccl_nicname *one)
{
	size_t len = strcspn(*at, ",");
	const char *s = *at;

	if (!*s)
		return false;
	*at += len + (s[len] == ',');
	one->excludes = *list == '^' || *s == '^';
	if (*s == '^') {
		s++;
		len--;
	}
	snprintf(one->text, sizeof(one->text), "%.*s", (int)len, s);
	if (len >= sizeof(one->text))
		*one->text = '\0';
	return true;
}

bool uccl_nicname_matches(const struct uccl_nicname *one, const char *name)
{
	return !fnmatch(one->text, name, 0);
}

bool uccl_nicnames_allow(const char *list, const char *name, unsigned int *rank)
{
	struct uccl_nicname one;
	bool named = false;
	unsigned int i = 0;

	*rank = 0;
	for (const char *at = list; uccl_nicnames_next(list, &at, &one); i++) {
		if (!uccl_nicname_matches(&one, name))
			continue;
		if (one.excludes)
			return false;
		if (!named)
			*rank = i;
		named = true;
	}
	return named || !uccl_nicnames_name(list);
}

bool uccl_nicnames_name(const char *list)
{
	return *list && *list != '^';
}

bool uccl_nicnames_exclude(const char *list)
{
	struct uccl_nicname one;

	for (const char *at = list; uccl_nicnames_next(list, &at, &one);)
		if (one.excludes)
			return true;
	return false;
}
