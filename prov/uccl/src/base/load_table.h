/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Which engines of an endpoint are busy: home and lanes share one link, and each may have its part of it. Each has a
 * seat, says there how many bytes it moved lately, and hears as how many engines all of them are busy. Threads need no
 * lock: each writes at its own seat only.
 *
 * They count by what they carry: as many as the busiest one are as busy as all together, rounded. So neither home,
 * which sends the envelopes of what lanes carry, nor a lane that has the last bytes of a message takes a part from
 * others. What leaves and what arrives are counted apart, as a link has both ways at once.
 */
#ifndef UCCL_BASE_LOAD_TABLE_H
#define UCCL_BASE_LOAD_TABLE_H

#include <stdatomic.h>
#include <stdint.h>

/* What was moved counts less and less, and after so long not at all. */
#define UCCL_LOAD_NS 4000000ull

#define UCCL_LOAD_ENTRIES 17

enum uccl_load_dir { UCCL_LOAD_OUT, UCCL_LOAD_IN, UCCL_LOAD_DIRS };

struct uccl_load_entry {
	_Atomic uint64_t at_ns;			 /* when it said something last, */
	_Atomic uint64_t bytes[UCCL_LOAD_DIRS];	 /* and what then counted as moved */
	uint32_t busy[UCCL_LOAD_DIRS];		 /* its own: what it heard last */
};

struct uccl_load_table {
	uint8_t n; /* seats */
	struct uccl_load_entry entry[UCCL_LOAD_ENTRIES];
};

/* Seat 0 is home's; then come `lanes` ones, UCCL_LOAD_ENTRIES - 1 at most. */
void uccl_load_table_init(struct uccl_load_table *b, uint8_t lanes);

/*
 * At `now`, the engine at `seat` has moved so many bytes each way since it said so last. As how many engines, one at
 * least, all are busy with each way. Where nobody is, that is what was heard last: who begins anew begins as it ended.
 * At first home is alone, and lanes are all busy, as payload is spread over them. By the owner of the engine.
 */
void uccl_load_table_update(struct uccl_load_table *b, uint8_t entry, const uint64_t moved[UCCL_LOAD_DIRS],
			    uint32_t busy[UCCL_LOAD_DIRS], uint64_t now);

#endif
