/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Hints to the processor about what will be copied soon. They change nothing but time. */
#ifndef UCCL_BASE_CACHE_H
#define UCCL_BASE_CACHE_H

#include <stdint.h>

/* Bytes of a cache line, as common processors have them. */
#define UCCL_CACHE_LINE 64
/* A longer piece is foreseen by the processor itself, once it has begun. */
#define UCCL_PREFETCH_MAX 4096

/* These bytes will be read, by somebody who does not need them at once. */
static inline void uccl_prefetch_read(const void *p, uint64_t len)
{
	if (len <= UCCL_PREFETCH_MAX)
		for (uint64_t i = 0; i < len; i += UCCL_CACHE_LINE)
			__builtin_prefetch((const uint8_t *)p + i, 0, 2);
}

/* These bytes will be written. */
static inline void uccl_prefetch_write(void *p, uint64_t len)
{
	if (len <= UCCL_PREFETCH_MAX)
		for (uint64_t i = 0; i < len; i += UCCL_CACHE_LINE)
			__builtin_prefetch((uint8_t *)p + i, 1, 3);
}

#endif
