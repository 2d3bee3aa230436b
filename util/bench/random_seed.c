/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "random_seed.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <unistd.h>

static bool seeded;
static _Atomic uint64_t state;

void random_seed(uint64_t seed)
{
	atomic_store(&state, seed);
	seeded = true;
}

/* splitmix64 */
static uint64_t next(void)
{
	uint64_t x = atomic_fetch_add(&state, 0x9e3779b97f4a7c15ull) + 0x9e3779b97f4a7c15ull;

	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ull;
	x = (x ^ x >> 27) * 0x94d049bb133111ebull;
	return x ^ x >> 31;
}

/* A program's own function is taken before the C library's, by all libraries that are loaded into it. */
__attribute__((visibility("default"))) ssize_t getrandom(void *buf, size_t len, unsigned int flags)
{
	uint8_t *p = buf;
	size_t at, n;

	if (!seeded)
		return syscall(SYS_getrandom, buf, len, flags);
	for (at = 0; at < len; at += n) {
		uint64_t x = next();

		n = len - at < sizeof(x) ? len - at : sizeof(x);
		memcpy(p + at, &x, n);
	}
	return (ssize_t)len;
}
