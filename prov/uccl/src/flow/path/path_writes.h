/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Part of a path: does it carry direct writes? Where the NIC makes paths ready for them (uccl_write_cfg.later), a path
 * goes through these states; else it is always ON.
 *
 *	OFF --the NIC can write--> TRIAL --a write leaves--> TRYING --it came--> ON
 *	 ^-------------------------- it was lost, or several in a row ----------'
 */
#ifndef UCCL_FLOW_PATH_PATH_WRITES_H
#define UCCL_FLOW_PATH_PATH_WRITES_H

#include <stdbool.h>
#include <stdint.h>

#include "base/units.h"

/* After this many losses in a row a path carries no direct writes any more. PROTOCOL R84 */
#define UCCL_WRITE_LOSSES_MAX 3
/* After this many failed trials the back-off grows no more. */
#define UCCL_WRITE_STRIKES_MAX 8

enum uccl_path_write {
	UCCL_WRITE_OFF,		/* not made, or broken: the NIC is asked to make it anew */
	UCCL_WRITE_TRIAL,	/* made: one write may go, from trial_at on */
	UCCL_WRITE_TRYING,	/* that one is under way */
	UCCL_WRITE_ON,
};

struct uccl_path_writes {
	uint8_t state;		/* enum uccl_path_write */
	uint8_t losses;		/* in a row */
	uint8_t strikes;	/* trials that failed: the back-off */
	union {
		uint64_t trial_at;	/* TRIAL: not before */
		uint64_t trial_csn;	/* TRYING: of the trial */
	};
	uint64_t acked_csn;	/* highest CSN that the peer reported on this path + 1 */
};

/* The path is ready for writes from the beginning, or not. */
static inline void uccl_path_writes_init(struct uccl_path_writes *w, bool on)
{
	w->state = on ? UCCL_WRITE_ON : UCCL_WRITE_OFF;
}

/* The NIC can write now, or can no longer. After trials that failed the next one waits. */
static inline void uccl_path_writes_ready(struct uccl_path_writes *w, bool on, uint64_t rto_ns, uint64_t now)
{
	w->losses = 0;
	w->state = on ? UCCL_WRITE_TRIAL : UCCL_WRITE_OFF;
	if (on)
		w->trial_at = w->strikes ? now + (rto_ns << w->strikes) : now;
}

/* Another path works again: a trial need not wait. */
static inline void uccl_path_writes_hasten(struct uccl_path_writes *w)
{
	if (w->state == UCCL_WRITE_TRIAL)
		w->trial_at = 0;
}

static inline bool uccl_path_writes_may(const struct uccl_path_writes *w, uint64_t now)
{
	return w->state == UCCL_WRITE_ON || (w->state == UCCL_WRITE_TRIAL && now >= w->trial_at);
}

/* A write with this CSN leaves. */
static inline void uccl_path_writes_left(struct uccl_path_writes *w, uint64_t csn)
{
	if (w->state != UCCL_WRITE_TRIAL)
		return;
	w->state = UCCL_WRITE_TRYING;
	w->trial_csn = csn;
}

/* The peer reports the write with this CSN. False: no news. */
static inline bool uccl_path_writes_acked(struct uccl_path_writes *w, uint64_t csn)
{
	if (csn + 1 <= w->acked_csn)
		return false;
	w->acked_csn = csn + 1;
	return true;
}

/* A write was lost. Does the path not carry writes any more? */
static inline bool uccl_path_writes_lost(struct uccl_path_writes *w, uint64_t csn)
{
	/* A later one came: the path works. Or what was written before a trial tells of what the path was before. */
	if (csn < w->acked_csn || w->state == UCCL_WRITE_TRIAL ||
	    (w->state == UCCL_WRITE_TRYING && csn < w->trial_csn))
		return false;
	if (w->losses < UINT8_MAX)
		w->losses++;
	return w->state == UCCL_WRITE_TRYING || w->losses >= UCCL_WRITE_LOSSES_MAX;
}

/* The NIC is to make the path anew. */
static inline void uccl_path_writes_off(struct uccl_path_writes *w)
{
	if (w->state == UCCL_WRITE_TRYING && w->strikes < UCCL_WRITE_STRIKES_MAX)
		w->strikes++;
	w->state = UCCL_WRITE_OFF;
	w->losses = 0;
}

/* A write arrived. True: the path had failed before, and works now. */
static inline bool uccl_path_writes_came(struct uccl_path_writes *w, uint64_t csn)
{
	bool failed = w->strikes;

	w->losses = 0;
	/* What was written before tells of what the path was before. */
	if (w->state != UCCL_WRITE_TRYING || csn < w->trial_csn)
		return false;
	w->state = UCCL_WRITE_ON;
	w->strikes = 0;
	return failed;
}

#endif
