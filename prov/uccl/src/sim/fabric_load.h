/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* What networks are asked to carry: sizes as they were published, arrivals by chance, and transfers listed in files. */
#ifndef UCCL_SIM_FABRIC_LOAD_H
#define UCCL_SIM_FABRIC_LOAD_H

#include <stdint.h>
#include <stdio.h>

#include "base/rng.h"

struct uccl_fab_sizes {
	const char *name, *text;
	/* The cumulative distribution, straight between points: `percent` of the transfers have at most `bytes`. */
	struct {
		double bytes, percent;
	} points[16];
};

extern const struct uccl_fab_sizes uccl_fab_sizes[]; /* ends with a name of NULL */

/* NULL: there is none of this name. */
const struct uccl_fab_sizes *uccl_fab_sizes_find(const char *name);
/* Bytes, 1 or more. */
uint64_t uccl_fab_sizes_draw(const struct uccl_fab_sizes *d, struct uccl_rng *rng);
double uccl_fab_sizes_mean(const struct uccl_fab_sizes *d);

/* Draw from an exponential distribution: the time between two arrivals by chance. */
double uccl_fab_exponential(struct uccl_rng *rng, double mean);

struct uccl_fab_transfer {
	uint64_t start_ns, bytes;
	uint32_t src, dst;
};

/*
 * Read lines of "start_us src dst bytes". Empty lines, and text behind a '#', are ignored. 0: the caller frees *list,
 * of *n entries. -FI_EINVAL: why[] has "name:line: " and the error. -FI_ENOMEM.
 */
int uccl_fab_list_read(FILE *f, const char *name, uint32_t hosts, struct uccl_fab_transfer **list, uint32_t *n,
		       char *why, size_t room);

#endif
