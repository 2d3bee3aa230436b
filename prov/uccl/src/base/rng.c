/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * xoshiro256** with a splitmix64 seed. The same seed gives the same numbers on every machine: simulator runs and
 * tests are replayed by their seed alone.
 */
#include "base/rng.h"

#include <assert.h>

static uint64_t rng_rotl(uint64_t x, unsigned int k)
{
	return x << k | x >> (64 - k);
}

/* One step of splitmix64; spreads a seed of few set bits over the whole state. */
static uint64_t rng_splitmix(uint64_t *x)
{
	uint64_t z = *x += 0x9e3779b97f4a7c15ull;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ z >> 27) * 0x94d049bb133111ebull;
	return z ^ z >> 31;
}

void uccl_rng_seed(struct uccl_rng *r, uint64_t seed)
{
	/* splitmix64 is a bijection of its counter, so the four words are never all zero. */
	for (int i = 0; i < 4; i++)
		r->s[i] = rng_splitmix(&seed);
}

uint64_t uccl_rng_next(struct uccl_rng *r)
{
	uint64_t *s = r->s;
	uint64_t result = rng_rotl(s[1] * 5, 7) * 9;
	uint64_t t = s[1] << 17;

	s[2] ^= s[0];
	s[3] ^= s[1];
	s[1] ^= s[2];
	s[0] ^= s[3];
	s[2] ^= t;
	s[3] = rng_rotl(s[3], 45);
	return result;
}

uint64_t uccl_rng_below(struct uccl_rng *r, uint64_t n)
{
	unsigned __int128 m;
	uint64_t floor;

	assert(n >= 1);
	/* Lemire's multiplication: the high word is the result; low words below 2^64 mod n would bias it. */
	m = (unsigned __int128)uccl_rng_next(r) * n;
	if ((uint64_t)m < n) {
		floor = (0 - n) % n;
		while ((uint64_t)m < floor)
			m = (unsigned __int128)uccl_rng_next(r) * n;
	}
	return (uint64_t)(m >> 64);
}

int uccl_rng_chance(struct uccl_rng *r, double p)
{
	/* Written so that a NaN is "never". */
	if (!(p > 0))
		return 0;
	if (p >= 1)
		return 1;
	return (double)(uccl_rng_next(r) >> 11) * 0x1p-53 < p;
}
