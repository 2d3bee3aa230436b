/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Whether an endpoint uses its lanes. A lane that sleeps may be late: where other threads spin, the kernel may let it
 * wait for a time slice of some ms before it runs. Then the primary would have carried the payload sooner.
 *
 * What lanes carry is weighed against how late they were. If they cost more than they save, the endpoint leaves them
 * for a pause. Then lanes are woken several times without work, which tells how late they would be. If they are late
 * the pause doubles, else the endpoint uses them again.
 */
#ifndef UCCL_LANES_LATENESS_H
#define UCCL_LANES_LATENESS_H

#include "base/pause.h"

/* The first pause, and the longest. */
#define UCCL_LATENESS_PAUSE (10 * UCCL_NS_PER_MS)
#define UCCL_LATENESS_PAUSE_MOST (4 * UCCL_NS_PER_S)
/* Trials after which lanes are used again, and the time from one to the next: lanes are asleep again by then. */
#define UCCL_LATENESS_TRIALS 8
#define UCCL_LATENESS_TRIAL_NS UCCL_NS_PER_MS

/* All zero: lanes are used. lateness.c writes it. */
struct uccl_lateness {
	int64_t balance;	/* ns that lanes saved, less those that they were late; within bounds */
	struct uccl_pause pause; /* the latest one */
	uint64_t used_since;	/* the end of the latest pause */
	uint64_t counted_until;	/* lateness before this time has been counted */
	uint64_t trial_at;	/* the next trial is not before this time */
	uint8_t trials;		/* that are over, since the pause */
	bool left;		/* lanes are not used, */
	bool wanted;		/* there was payload for them since then, */
	bool trial;		/* and they have been woken, to see how late they are */
};

/* Are they to be used? */
static inline bool lateness_uses(const struct uccl_lateness *l)
{
	return !l->left;
}

/* There is payload that they could carry. Without it, nobody asks how late they are. */
void lateness_want(struct uccl_lateness *l);
/* They have carried so many bytes. */
void lateness_carried(struct uccl_lateness *l, uint64_t bytes);
/* The latest of them was late by this time until now. True: they are left with this. */
bool lateness_late(struct uccl_lateness *l, uint64_t late_ns, uint64_t now);
/* True: a trial begins, so the caller wakes all lanes. */
bool lateness_try(struct uccl_lateness *l, uint64_t now);
/* All lanes were up since the trial began, and lateness_late() was told of those that were late. */
void lateness_tried(struct uccl_lateness *l, uint64_t now);

#endif
