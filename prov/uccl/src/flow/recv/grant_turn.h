/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Part of a grant (slots.h): the turns of one peer, where there are fewer slots than senders. A turn begins when the
 * peer is given a slot for which it waited, or with the first chunk that it sends with that slot. What the peer asked
 * for and did not use is counted; a chunk of it ends all of that (PROTOCOL R320).
 */
#ifndef UCCL_FLOW_RECV_GRANT_TURN_H
#define UCCL_FLOW_RECV_GRANT_TURN_H

#include <stdbool.h>
#include <stdint.h>

#include "base/units.h"

/* A turn ends after this many chunks, or this time. By then all quiet peers were asked to return unused slots. */
#define UCCL_GRANT_TURN_CHUNKS 16
#define UCCL_GRANT_TURN_NS (100 * UCCL_NS_PER_MS)
/* A turn begins anew so often because its peer asks again: the block that told it of its slot may be lost. */
#define UCCL_GRANT_RENEWALS 3
/* Questions that are answered at once, and after how long without a block a further one is. */
#define UCCL_GRANT_QUESTIONS 3
#define UCCL_GRANT_ASK_AGAIN_NS (90 * UCCL_NS_PER_MS)
/* Turns in a row that nothing came of: the first is forgiven, then it waits so long, and twice as long each time. */
#define UCCL_GRANT_WASTED_FREE 1
#define UCCL_GRANT_WASTED_NS UCCL_GRANT_TURN_NS
#define UCCL_GRANT_WASTED_DOUBLINGS 7

struct uccl_grant_turn {
	uint64_t began_ns;	/* when the turn began, */
	uint32_t came;		/* and chunks since then */
	bool served;		/* the peer was given its slot because it waited */
	bool proven;		/* it sent a chunk, ever */
	uint8_t renewals;	/* times that this turn began anew */
	uint8_t questions;	/* that the peer asked in a row, sooner than it should */
	uint8_t wasted;		/* turns in a row that passed without a chunk */
	uint64_t again_ns;	/* before that it does not wait for a slot */
};

/* Is the turn going on while others wait? `hurry_ns`: how long it may last without a chunk if others waited long. */
static inline bool uccl_grant_turn_lasts(const struct uccl_grant_turn *t, bool hurry, uint64_t hurry_ns, uint64_t now)
{
	bool is_short = hurry && (t->came || !t->proven);

	return t->came < UCCL_GRANT_TURN_CHUNKS && now - t->began_ns < (is_short ? hurry_ns : UCCL_GRANT_TURN_NS);
}

/* The peer waited, and has a slot now. */
static inline void uccl_grant_turn_begin(struct uccl_grant_turn *t, uint64_t now)
{
	t->served = true;
	t->renewals = 0;
	t->began_ns = now;
	t->came = 0;
}

/* Chunks came, one at least. */
static inline void uccl_grant_turn_came(struct uccl_grant_turn *t, uint32_t came, uint64_t now)
{
	t->wasted = t->renewals = t->questions = 0;
	t->proven = true;
	if (!t->came)
		t->began_ns = now;
	t->came += came;
}

/* The peer asks though it has a slot: the block that told of it was lost. */
static inline void uccl_grant_turn_renew(struct uccl_grant_turn *t, uint64_t now)
{
	if (t->came || t->renewals == UCCL_GRANT_RENEWALS)
		return;
	t->renewals++;
	t->began_ns = now;
}

/* It let turns pass: it may not wait for another slot yet. Ends the turn that passed. PROTOCOL R320 */
static inline bool uccl_grant_turn_barred(struct uccl_grant_turn *t, uint64_t now)
{
	if (t->served && !t->came) {
		t->served = false;
		t->wasted = (uint8_t)uccl_min(t->wasted + 1, UCCL_GRANT_WASTED_FREE + 1 + UCCL_GRANT_WASTED_DOUBLINGS);
		if (t->wasted > UCCL_GRANT_WASTED_FREE)
			t->again_ns =
				now + ((uint64_t)UCCL_GRANT_WASTED_NS << (t->wasted - UCCL_GRANT_WASTED_FREE - 1));
	}
	return t->wasted > UCCL_GRANT_WASTED_FREE && now < t->again_ns;
}

/*
 * Is a question of the peer answered? `told_ns`: when the latest block left. A peer that knows its grant does not ask
 * for a while; a block that was lost is worth a few questions. PROTOCOL R320
 */
static inline bool uccl_grant_turn_answers(struct uccl_grant_turn *t, uint64_t told_ns, uint64_t now)
{
	if (now - told_ns >= UCCL_GRANT_ASK_AGAIN_NS)
		return true;
	t->questions = (uint8_t)uccl_min(t->questions + 1, UCCL_GRANT_QUESTIONS + 1);
	return t->questions <= UCCL_GRANT_QUESTIONS;
}

#endif
