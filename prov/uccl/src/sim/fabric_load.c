/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "sim/fabric_load.h"

#include <math.h>
#include <rdma/fi_errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/units.h"

const struct uccl_fab_sizes uccl_fab_sizes[] = {
	/*
	 * Alizadeh et al., "Data Center TCP (DCTCP)", SIGCOMM 2010, section 2.2: a cluster of 6,000 servers that
	 * answers queries; the points that simulations have taken from it since (HPCC, SIGCOMM 2019, among others).
	 */
	{"websearch",
	 "queries and what they need (DCTCP, 2010)",
	 {{0, 0},
	  {10e3, 15},
	  {20e3, 20},
	  {30e3, 30},
	  {50e3, 40},
	  {80e3, 53},
	  {200e3, 60},
	  {1e6, 70},
	  {2e6, 80},
	  {5e6, 90},
	  {10e6, 97},
	  {30e6, 100}}},
	/*
	 * Greenberg et al., "VL2", SIGCOMM 2009, section 3.1: a cluster of 1,500 nodes that mines data; half are of one
	 * packet, and nearly all bytes are in transfers of more than 100 MB. The points are those of pFabric (SIGCOMM
	 * 2013), in packets of 1460 bytes.
	 */
	{"datamining",
	 "data mining (VL2, 2009)",
	 {{1460, 0},
	  {1460, 50},
	  {2 * 1460, 60},
	  {3 * 1460, 70},
	  {7 * 1460, 80},
	  {267 * 1460, 90},
	  {2107 * 1460, 95},
	  {66667 * 1460.0, 99},
	  {666667 * 1460.0, 100}}},
	/*
	 * Li et al., "HPCC", SIGCOMM 2019: storage in Alibaba's data centres, the points that come with the paper's
	 * simulator.
	 */
	{"storage",
	 "blocks of distributed storage (HPCC, 2019)",
	 {{0, 0},
	  {4e3, 22.93},
	  {8e3, 69.21},
	  {16e3, 80.61},
	  {32e3, 90.47},
	  {64e3, 93.53},
	  {128e3, 96.77},
	  {256e3, 97.53},
	  {2e6, 100}}},
	/*
	 * Ours: no distribution was published that we know of, only sizes, and these are joined here. Up to 8 KB, small
	 * collectives; to 64 KB, the tokens for one expert, 7 KB each (DeepSeek-V3, 2024: hidden size 7168 in FP8); to
	 * 512 KB, steps of NCCL's buffer of 4 MiB (8 of them); to 25 MiB, buckets of gradients (Li et al., "PyTorch
	 * Distributed", VLDB 2020).
	 */
	{"ai",
	 "a mix of training and inference (ours, of published parts)",
	 {{64, 0}, {8192, 30}, {65536, 60}, {524288, 80}, {4u << 20, 95}, {25u << 20, 100}}},
	{NULL, NULL, {{0, 0}}},
};

const struct uccl_fab_sizes *uccl_fab_sizes_find(const char *name)
{
	for (const struct uccl_fab_sizes *d = uccl_fab_sizes; d->name; d++)
		if (!strcmp(d->name, name))
			return d;
	return NULL;
}

/* In [0, 1). */
static double uniform(struct uccl_rng *rng)
{
	return (double)(uccl_rng_next(rng) >> 11) * 0x1p-53;
}

uint64_t uccl_fab_sizes_draw(const struct uccl_fab_sizes *d, struct uccl_rng *rng)
{
	double percent = 100 * uniform(rng), bytes;
	int i = 1;

	while (d->points[i].percent <= percent)
		i++;
	bytes = d->points[i - 1].bytes + (d->points[i].bytes - d->points[i - 1].bytes) *
						 (percent - d->points[i - 1].percent) /
						 (d->points[i].percent - d->points[i - 1].percent);
	return bytes > 1 ? (uint64_t)bytes : 1;
}

double uccl_fab_sizes_mean(const struct uccl_fab_sizes *d)
{
	double sum = 0;

	for (int i = 1; d->points[i - 1].percent < 100; i++)
		sum += (d->points[i].percent - d->points[i - 1].percent) / 100 *
		       (d->points[i].bytes + d->points[i - 1].bytes) / 2;
	return sum;
}

double uccl_fab_exponential(struct uccl_rng *rng, double mean)
{
	return -mean * log(1 - uniform(rng));
}

/* One number that ends with a blank or with the line. False: it is none, or not in [least, most]. */
static bool number(char **at, double least, double most, double *v)
{
	char *end;

	*v = strtod(*at, &end);
	if (end == *at || !strchr(" \t\r\n", *end) || !(*v >= least && *v <= most))
		return false;
	*at = end;
	return true;
}

/* What is wrong with a line. NULL: nothing; *some: it has a transfer. */
static const char *line_read(char *line, uint32_t hosts, struct uccl_fab_transfer *t, bool *some)
{
	double start, src, dst, bytes;

	line[strcspn(line, "#")] = 0;
	*some = line[strspn(line, " \t\r\n")] != 0;
	if (!*some)
		return NULL;
	if (!number(&line, 0, 1e12, &start))
		return "the start is no time in us";
	if (!number(&line, 0, hosts - 1.0, &src) || src != floor(src))
		return "the sender is no host of this network";
	if (!number(&line, 0, hosts - 1.0, &dst) || dst != floor(dst))
		return "the receiver is no host of this network";
	if (src == dst)
		return "a host sends to itself";
	if (!number(&line, 1, 0x1p40, &bytes) || bytes != floor(bytes))
		return "the size is no number of bytes from 1 to 2^40";
	if (line[strspn(line, " \t\r\n")])
		return "more than start, sender, receiver and bytes";
	*t = (struct uccl_fab_transfer){
		.start_ns = (uint64_t)(start * 1000 + 0.5),
		.bytes = (uint64_t)bytes,
		.src = (uint32_t)src,
		.dst = (uint32_t)dst,
	};
	return NULL;
}

int uccl_fab_list_read(FILE *f, const char *name, uint32_t hosts, struct uccl_fab_transfer **list, uint32_t *n,
		       char *why, size_t room)
{
	struct uccl_fab_transfer *v = NULL, t, *more;
	const char *wrong = NULL;
	uint32_t at = 0, cap = 0;
	char line[256];
	bool some;
	int rc = 0;

	*n = 0;
	while (!rc && fgets(line, sizeof(line), f)) {
		at++;
		if (!strchr(line, '\n') && strlen(line) + 1 == sizeof(line))
			wrong = "a line of more than 254 characters";
		else
			wrong = line_read(line, hosts, &t, &some);
		if (wrong) {
			snprintf(why, room, "%s:%u: %s", name, at, wrong);
			rc = -FI_EINVAL;
		} else if (some && *n == cap) {
			cap = cap ? 2 * cap : 1024;
			more = realloc(v, cap * sizeof(*v));
			rc = more ? 0 : -FI_ENOMEM;
			v = more ? more : v;
		}
		if (!rc && some)
			v[(*n)++] = t;
	}
	if (!rc && (ferror(f) || !*n)) {
		snprintf(why, room, "%s:%u: %s", name, at, ferror(f) ? "it cannot be read" : "no transfer in it");
		rc = -FI_EINVAL;
	}
	if (rc) {
		free(v);
		v = NULL;
	}
	*list = v;
	return rc;
}
