/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Deterministic random numbers (xoshiro256**, Blackman and Vigna 2018, seeded by splitmix64). Not for secrets. */
#ifndef UCCL_BASE_RNG_H
#define UCCL_BASE_RNG_H

#include <stdint.h>

struct uccl_rng {
	uint64_t s[4];
};

void uccl_rng_seed(struct uccl_rng *r, uint64_t seed);
uint64_t uccl_rng_next(struct uccl_rng *r);
/* Uniform in [0, n), n >= 1. */
uint64_t uccl_rng_below(struct uccl_rng *r, uint64_t n);
/* True with probability p (p <= 0 never, p >= 1 always). */
int uccl_rng_chance(struct uccl_rng *r, double p);

#endif
