/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The set of byte ranges that arrived, in a fixed amount of memory. It proves that ranges which arrived in any order
 * cover a message completely, and each byte once.
 *
 * The set keeps UCCL_RANGE_SET_MAX ranges as they are, and merges neighbours. A range that finds no room evicts one.
 * Of the evicted range [from, to) the set adds h(to) - h(from) to a sum, where h is a keyed hash. If ranges follow each
 * other, all inner ends cancel out, and the sum is h(len) - h(0). Without the key nobody can choose other ranges with
 * this sum. Each range goes forward, so an equal sum means one chain of ranges from byte 0 to len and nothing else.
 */
#ifndef UCCL_BASE_RANGE_SET_H
#define UCCL_BASE_RANGE_SET_H

#include <stdbool.h>
#include <stdint.h>

#include "base/mac.h"

#define UCCL_RANGE_SET_MAX 3

/* All zero: empty. */
struct uccl_range_set {
	struct uccl_range {
		uint64_t from, to; /* bytes [from, to); equal: this place is free */
	} run[UCCL_RANGE_SET_MAX];
	uint64_t sum; /* sum of h(to) - h(from) over the evicted ranges */
	uint8_t next; /* index of the range to evict next */
	bool summed;  /* a range was evicted */
};

/*
 * Add bytes [from, to), from <= to. False: the range overlaps one that the set still keeps, and nothing changed. An
 * overlap with an evicted range is not detected here; uccl_range_set_whole() then returns false.
 */
bool uccl_range_set_add(struct uccl_range_set *c, uint64_t from, uint64_t to, const uint8_t key[UCCL_KEY_LEN]);
/* True if exactly the bytes [0, len) were added, each once. */
bool uccl_range_set_whole(const struct uccl_range_set *c, uint64_t len, const uint8_t key[UCCL_KEY_LEN]);

#endif
