/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * A cache of buffers of any length, for buffers that come and go in bursts. The C library returns freed pages to the
 * system. A new page then costs a page fault, which takes longer than filling the page. So the cache keeps the buffers
 * that were returned last, up to a bound. Not thread safe.
 */
#ifndef UCCL_BASE_BUF_CACHE_H
#define UCCL_BASE_BUF_CACHE_H

#include <stddef.h>
#include <stdint.h>

/*
 * Lengths in bytes of the buffers that are kept. The C library keeps shorter ones itself; longer ones are rare. Users
 * have payloads of round lengths, some of them with a header, so a class has room for that.
 */
#define UCCL_BUF_CACHE_LEAST 4096u
#define UCCL_BUF_CACHE_CLASSES 5
#define UCCL_BUF_CACHE_BYTES(c) ((size_t)(UCCL_BUF_CACHE_LEAST + UCCL_BUF_CACHE_LEAST / 2) << (c))
#define UCCL_BUF_CACHE_MOST UCCL_BUF_CACHE_BYTES(UCCL_BUF_CACHE_CLASSES - 1)

struct uccl_buf_cache {
	void *list[UCCL_BUF_CACHE_CLASSES]; /* kept buffers; those of class i have UCCL_BUF_CACHE_BYTES(i) each */
	size_t kept, max;		/* bytes: kept now, kept at most */
};

/* An empty cache, which keeps at most `max` bytes. */
void uccl_buf_cache_init(struct uccl_buf_cache *s, size_t max);
/* Frees all kept buffers. Buffers that are still out stay with their users. */
void uccl_buf_cache_fini(struct uccl_buf_cache *s);
/* A buffer of `len` bytes. The first `filled` bytes are undefined, the rest is 0. NULL: out of memory. */
void *uccl_buf_cache_get(struct uccl_buf_cache *s, size_t len, size_t filled);
/* Return a buffer that uccl_buf_cache_get() gave for the same `len`. */
void uccl_buf_cache_put(struct uccl_buf_cache *s, void *buf, size_t len);

#endif
