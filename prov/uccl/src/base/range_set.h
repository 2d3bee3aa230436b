/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Which bytes of something came: proves that pieces which arrive in any order are all of it, each byte once, in a fixed
 * amount of memory. A few runs of neighbouring pieces are kept as they are. For one that has no place any more the
 * difference of a keyed hash of its two ends is added to a sum: of pieces that follow each other all ends but the first
 * and the last cancel out, and without the key nobody finds others with the same sum. Pieces go forward, so equal sums
 * are one way from the first byte to the last, and nothing beside it.
 */
#ifndef UCCL_BASE_RANGE_SET_H
#define UCCL_BASE_RANGE_SET_H

#include <stdbool.h>
#include <stdint.h>

#include "base/mac.h"

#define UCCL_RANGE_SET_MAX 3

/* All zero: nothing came. */
struct uccl_range_set {
	struct uccl_range {
		uint64_t from, to; /* empty: free */
	} run[UCCL_RANGE_SET_MAX];
	uint64_t sum; /* of the runs that had to go */
	uint8_t next; /* the one that makes room */
	bool summed;
};

/*
 * Bytes `from` to `to` (not with it) came; from <= to. False: some of them had come, nothing is noted. True says no
 * more than that this could not be seen.
 */
bool uccl_range_set_add(struct uccl_range_set *c, uint64_t from, uint64_t to, const uint8_t key[UCCL_KEY_LEN]);
/* Did bytes 0 to `len` (not with it) come, each once, and no others? */
bool uccl_range_set_whole(const struct uccl_range_set *c, uint64_t len, const uint8_t key[UCCL_KEY_LEN]);

#endif
