/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * How many of its paths a flow uses, where each is a 5-tuple that firewalls and clouds must remember. All flows of a
 * process share one budget: half of it evenly, the other half goes to flows that have much to send. PROTOCOL R374
 *
 * The grammar: init; `spread` before payload is spread over paths; `scan` about once a second; `silent` while questions
 * stay unanswered or answers unheard, `heard` when the peer reported something; fini.
 */
#ifndef UCCL_FLOW_PATH_TUPLES_H
#define UCCL_FLOW_PATH_TUPLES_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* Of a process; flows in any thread use it. All zero at first. tuples.c writes it, uccl_engine_budget tuples_max. */
struct uccl_tuple_budget {
	_Atomic uint32_t tuples_max; /* paths of all flows together */
	_Atomic uint32_t flows;
	_Atomic uint32_t taken; /* by flows that have much to send, beyond the even shares */
};

/* Of a flow. tuples.c writes it. */
struct uccl_tuples {
	struct uccl_tuple_budget *budget; /* NULL: no limit */
	uint16_t n;		/* paths of the flow */
	uint16_t width;		/* paths that it may use now */
	uint16_t grown;		/* width that it has grown to while it had much to send */
	uint16_t taken;		/* beyond its even share */
	uint16_t reach;		/* the first so many paths are tried while the peer is silent */
	uint16_t tried;		/* likewise, while the peer was silent */
	uint16_t labels;	/* new labels that paths were given meanwhile */
	uint64_t tried_ns;	/* when one of both last grew, or could have */
	uint64_t spread_ns;	/* when it last spread payload; 0: not lately */
	uint64_t silent_ns;	/* since when the peer is silent; 0: it is not */
	uint64_t asked_ns;	/* when it was last asked */
};

void uccl_tuples_init(struct uccl_tuples *t, struct uccl_tuple_budget *budget, uint16_t n);
void uccl_tuples_fini(struct uccl_tuples *t);
/* Payload is spread now. Returns whether the width changed. */
bool uccl_tuples_spread(struct uccl_tuples *t, uint64_t now);
/* Time has passed: the width grows, or the 5-tuples are forgotten. Returns whether the width changed. */
bool uccl_tuples_scan(struct uccl_tuples *t, uint64_t now);
/* A question is asked, or an answer was not heard: `reach` grows while the silence lasts. */
void uccl_tuples_silent(struct uccl_tuples *t, uint64_t now);
/*
 * After that, and with all paths within reach: may a path have a new label of `labels`, which is one more 5-tuple? Not
 * if there are no more labels than paths.
 */
bool uccl_tuples_label(struct uccl_tuples *t, uint16_t labels);

static inline void uccl_tuples_heard(struct uccl_tuples *t)
{
	t->silent_ns = 0;
}

#endif
