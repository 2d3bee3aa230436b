/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Buffers of any length that come and go in bursts. What the C library gives back to the system it has to ask for
 * again, page by page, and a page that is new costs more than to fill it. So the latest that are given back are kept,
 * up to a bound. Not thread safe.
 */
#ifndef UCCL_BASE_SPARE_H
#define UCCL_BASE_SPARE_H

#include <stddef.h>
#include <stdint.h>

/* Shorter ones the C library keeps itself; longer ones are mapped and are seldom. */
#define UCCL_SPARE_LEAST 4096u
#define UCCL_SPARE_CLASSES 5
#define UCCL_SPARE_MOST (UCCL_SPARE_LEAST << (UCCL_SPARE_CLASSES - 1))

struct uccl_spare {
	void *list[UCCL_SPARE_CLASSES];	/* kept, by length */
	size_t kept, max;		/* bytes */
};

/* Keeps so many bytes at most. */
void uccl_spare_init(struct uccl_spare *s, size_t max);
/* What is kept is freed. */
void uccl_spare_fini(struct uccl_spare *s);
/* So many bytes, whose content is anything but for those from `filled` on, which are 0. NULL: no memory. */
void *uccl_spare_get(struct uccl_spare *s, size_t len, size_t filled);
/* A buffer that was taken with this length. */
void uccl_spare_put(struct uccl_spare *s, void *buf, size_t len);

#endif
