/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The syntax of all texts that a person sets: "value", "key=value,key=value" or "value,key=value". A ':' separates as a
 * ',' does.
 */
#ifndef UCCL_BASE_KEYVALUE_H
#define UCCL_BASE_KEYVALUE_H

#include <stdbool.h>
#include <stddef.h>

struct uccl_keyvalue {
	const char *key;	/* also the begin of the whole item */
	size_t key_len;		/* equal to `len` where the item has no '=' */
	const char *value;	/* ends with the item; NULL where there is no '=' */
	size_t value_len;
	size_t len;		/* of the whole item */
};

/* Length of the value at the begin of a text, up to the first separator. */
size_t uccl_keyvalue_head(const char *text);
/* Length of such a value that may hold separators itself: it ends before one with "key=" behind it. */
size_t uccl_keyvalue_long_head(const char *text);
/* Does "key=" begin here? A key has small letters, digits and '_', the first is a letter. */
bool uccl_keyvalue_begins(const char *text);
/* The item at *at; *at is moved to the next one, NULL after the last. False: *at is NULL. */
bool uccl_keyvalue_next(const char **at, struct uccl_keyvalue *item);
bool uccl_keyvalue_is(const struct uccl_keyvalue *item, const char *key);

#endif
