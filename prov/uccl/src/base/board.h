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
#ifndef UCCL_BASE_BOARD_H
#define UCCL_BASE_BOARD_H

#include <stdatomic.h>
#include <stdint.h>

/* What was moved counts less and less, and after so long not at all. */
#define UCCL_BOARD_NS 4000000ull

#define UCCL_BOARD_SEATS 17

enum uccl_board_way { UCCL_BOARD_OUT, UCCL_BOARD_IN, UCCL_BOARD_WAYS };

struct uccl_board_seat {
	_Atomic uint64_t at_ns;			 /* when it said something last, */
	_Atomic uint64_t bytes[UCCL_BOARD_WAYS]; /* and what then counted as moved */
	uint32_t busy[UCCL_BOARD_WAYS];		 /* its own: what it heard last */
};

struct uccl_board {
	uint8_t n; /* seats */
	struct uccl_board_seat seat[UCCL_BOARD_SEATS];
};

/* Seat 0 is home's; then come `lanes` ones, UCCL_BOARD_SEATS - 1 at most. */
void uccl_board_init(struct uccl_board *b, uint8_t lanes);

/*
 * At `now`, the engine at `seat` has moved so many bytes each way since it said so last. As how many engines, one at
 * least, all are busy with each way. Where nobody is, that is what was heard last: who begins anew begins as it ended.
 * At first home is alone, and lanes are all busy, as payload is spread over them. By the owner of the engine.
 */
void uccl_board_busy(struct uccl_board *b, uint8_t seat, const uint64_t moved[UCCL_BOARD_WAYS],
		     uint32_t busy[UCCL_BOARD_WAYS], uint64_t now);

#endif
