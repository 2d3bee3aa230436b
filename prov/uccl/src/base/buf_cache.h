/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Buffers of any length that come and go in bursts. What the C library gives back to the system it has to ask for
 * again, page by page, and a page that is new costs more than to fill it. So the latest that are given back are kept,
 * up to a bound. Not thread safe.
 */
#ifndef UCCL_BASE_BUF_CACHE_H
#define UCCL_BASE_BUF_CACHE_H

#include <stddef.h>
#include <stdint.h>

/* Shorter ones the C library keeps itself; longer ones are mapped and are seldom. */
#define UCCL_BUF_CACHE_LEAST 4096u
#define UCCL_BUF_CACHE_CLASSES 5
#define UCCL_BUF_CACHE_MOST (UCCL_BUF_CACHE_LEAST << (UCCL_BUF_CACHE_CLASSES - 1))

struct uccl_buf_cache {
	void *list[UCCL_BUF_CACHE_CLASSES]; /* kept, by length */
	size_t kept, max;		/* bytes */
};

/* Keeps so many bytes at most. */
void uccl_buf_cache_init(struct uccl_buf_cache *s, size_t max);
/* What is kept is freed. */
void uccl_buf_cache_fini(struct uccl_buf_cache *s);
/* So many bytes, whose content is anything but for those from `filled` on, which are 0. NULL: no memory. */
void *uccl_buf_cache_get(struct uccl_buf_cache *s, size_t len, size_t filled);
/* A buffer that was taken with this length. */
void uccl_buf_cache_put(struct uccl_buf_cache *s, void *buf, size_t len);

#endif
