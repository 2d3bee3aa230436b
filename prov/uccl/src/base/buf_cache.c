/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The first word of what is kept leads to the next. Under AddressSanitizer nothing is kept: it finds use after free. */
#include "base/buf_cache.h"

#include <stdlib.h>
#include <string.h>

#ifndef __has_feature
#define __has_feature(x) 0
#endif

#if defined(__SANITIZE_ADDRESS__) || __has_feature(address_sanitizer)
#define SPARE_KEEPS 0
#else
#define SPARE_KEEPS 1
#endif

struct cached_free {
	struct cached_free *next;
};

/* The class of this length, or UCCL_BUF_CACHE_CLASSES: it is not kept. */
static unsigned int cached_class(size_t len)
{
	unsigned int c = 0;

	if (!SPARE_KEEPS || len < UCCL_BUF_CACHE_LEAST)
		return UCCL_BUF_CACHE_CLASSES;
	while (c < UCCL_BUF_CACHE_CLASSES && UCCL_BUF_CACHE_BYTES(c) < len)
		c++;
	return c;
}

void uccl_buf_cache_init(struct uccl_buf_cache *s, size_t max)
{
	*s = (struct uccl_buf_cache){.max = max};
}

void uccl_buf_cache_fini(struct uccl_buf_cache *s)
{
	for (unsigned int c = 0; c < UCCL_BUF_CACHE_CLASSES; c++)
		for (struct cached_free *f = s->list[c], *next; f; f = next) {
			next = f->next;
			free(f);
		}
	uccl_buf_cache_init(s, s->max);
}

void *uccl_buf_cache_get(struct uccl_buf_cache *s, size_t len, size_t filled)
{
	unsigned int c = cached_class(len);
	struct cached_free *f;
	uint8_t *buf;

	if (c == UCCL_BUF_CACHE_CLASSES)
		return filled < len ? calloc(1, len) : malloc(len);
	f = s->list[c];
	if (f) {
		s->list[c] = f->next;
		s->kept -= UCCL_BUF_CACHE_BYTES(c);
	}
	buf = f ? (void *)f : malloc(UCCL_BUF_CACHE_BYTES(c));
	if (buf && filled < len)
		memset(buf + filled, 0, len - filled);
	return buf;
}

void uccl_buf_cache_put(struct uccl_buf_cache *s, void *buf, size_t len)
{
	unsigned int c = cached_class(len);
	struct cached_free *f = buf;

	if (c == UCCL_BUF_CACHE_CLASSES || s->kept + UCCL_BUF_CACHE_BYTES(c) > s->max) {
		free(buf);
		return;
	}
	f->next = s->list[c];
	s->list[c] = f;
	s->kept += UCCL_BUF_CACHE_BYTES(c);
}
