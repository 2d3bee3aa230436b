/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Units of time and small helpers. All times in the provider are uint64_t nanoseconds. */
#ifndef UCCL_BASE_UNITS_H
#define UCCL_BASE_UNITS_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define UCCL_NS_PER_US 1000ull
#define UCCL_NS_PER_MS 1000000ull
#define UCCL_NS_PER_S 1000000000ull

/* The deadline of a timer that is not armed: never. */
#define UCCL_NEVER UINT64_MAX

#define uccl_container_of(ptr, type, field) ((type *)((char *)(ptr) - offsetof(type, field)))
#define uccl_array_len(a) (sizeof(a) / sizeof((a)[0]))

static inline uint64_t uccl_min(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static inline uint64_t uccl_max(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

static inline uint64_t uccl_clamp(uint64_t v, uint64_t lo, uint64_t hi)
{
	return uccl_max(lo, uccl_min(v, hi));
}

/* Of a step of the usual message: it is no call there, though others take it, too. */
#define uccl_inline inline __attribute__((always_inline))

/* Zero `n` bytes, a constant of some hundred at most: by stores, where a call or a string instruction begins slowly. */
static uccl_inline void uccl_zero(void *p, size_t n)
{
#pragma GCC unroll 8
	for (size_t i = 0; i < n; i += 64)
		memset((uint8_t *)p + i, 0, n - i < 64 ? n - i : 64);
}

#endif
