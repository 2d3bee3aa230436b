/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Random numbers of the whole process, provider included, that follow from a seed: so that a run can be had again. */
#ifndef UCCL_UTIL_RANDOM_SEED_H
#define UCCL_UTIL_RANDOM_SEED_H

#include <stdint.h>

/* From now on whoever calls getrandom() gets numbers that follow from `seed`. */
void random_seed(uint64_t seed);

#endif
