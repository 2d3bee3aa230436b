/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The credit pacer of a NIC (EQDS, NSDI 2022; UCCL section 4.2): it hands out, one quantum after the other and no
 * faster than the link can take them, what the senders to this NIC may send. Senders whose data was lost come first,
 * then those that want more, then those that want nothing and only get their speculative window back; within each list
 * they take turns. Grants are positions in a flow's bytes, so a lost one is made good by the next.
 *
 * What was lost is what senders say. So a loss brings a sender's turn forward, but it has one in a round like the
 * others, and bytes that are told to be lost take no room on the link.
 *
 * A sender that takes grants and sends nothing seems to lose all of it. If the losses of a sender exceed what came
 * from it by more than two windows, it is served last, with senders that want nothing: one grant in sixteen (R322).
 *
 * The link is taken by grants to senders that want to send, and by unsolicited data from the moment the receiver hears
 * of them. Later grants wait until these have passed.
 *
 * Where credits only help to converge (uccl_pull_cfg.senders), a busy sender is told a turn in which it needs no
 * credits. It is told a turn in which credits count again when `senders` are busy at once, or when it has been quiet
 * and others were busy since. The latest few quiet senders stay free, so that the next burst of a neighbour in a ring,
 * or of a lone sender, does not wait a round trip for its credit.
 *
 * A credit policy may rank those that want more (uccl_credit_ops.rank): then the lowest rank is granted first. The more
 * of them may have grants under way at once, the less of the link is lost where one has nothing to send after all.
 *
 * Bounded: what a sender may be ahead of what has arrived from it, and the sum of that over all. What was granted to a
 * sender that has fallen silent is written off after a while, and it gets no more before it is heard again.
 */
#ifndef UCCL_FLOW_SEND_PACER_H
#define UCCL_FLOW_SEND_PACER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "base/heap.h"
#include "flow/policy.h"
#include "flow/send/pull_rank.h"

/* TELL: has to hear of its turn. */
enum uccl_pull_list { UCCL_PULL_TELL, UCCL_PULL_RTX, UCCL_PULL_ACTIVE, UCCL_PULL_IDLE, UCCL_PULL_NONE };

/* One sender, as the receiver's pacer sees it. Embedded in the flow. */
struct uccl_pull {
	TAILQ_ENTRY(uccl_pull) link;  /* of its list */
	TAILQ_ENTRY(uccl_pull) owing; /* of those that have grants beyond their idle window */
	struct uccl_pull_cfg cfg;
	uint64_t granted;	   /* cumulative; what a sender may begin with counts as granted */
	uint64_t received, demand; /* likewise */
	uint64_t heard_ns;
	uint64_t counted; /* its share of uccl_pacer.out */
	uint64_t charged; /* bytes of it that the pacer has made room for on the link */
	uint64_t served;  /* the round of its latest turn */
	uint64_t wasted;  /* bytes that it said were lost, less those that came; not below 0 */
	struct uccl_pull_rank rank; /* with a policy that ranks */
	/* with cfg.senders */
	TAILQ_ENTRY(uccl_pull) busy; /* of the busy or of the quiet free ones */
	uint64_t turn;	  /* changes between held (even) and free (odd) */
	uint64_t base;	  /* received when it was last found to be quiet */
	uint64_t busy_ns; /* when it was last known to be busy */
	uint64_t turn_sent_ns; /* when its turn was last told */
	bool is_busy;	  /* wants more than it was granted, or more than its idle window has come since then */
	bool tell;	  /* its turn is to be told */
	bool answered;	  /* it wanted more since it was held: it knows */
	uint8_t list;	  /* enum uccl_pull_list */
	bool owes;	  /* in the list of owing ones */
	bool rtx;	  /* something of it was lost since then */
	bool silent;	  /* its grants were written off */
};

TAILQ_HEAD(uccl_pull_head, uccl_pull);

struct uccl_pacer {
	struct uccl_pull_head lists[UCCL_PULL_NONE];
	uint64_t (*rank)(const struct uccl_sender *s); /* NULL: those that want more take turns */
	struct uccl_heap ranked;     /* those in ACTIVE, by rank */
	struct uccl_pull_head owing; /* least recently heard first */
	struct uccl_pull_head busy;  /* likewise */
	uint32_t pulls;		     /* senders in all */
	uint32_t nbusy, senders;     /* busy senders; the number of senders that converge */
	bool converged;
	struct uccl_pull_head kept;  /* quiet ones that may send freely, linked as busy ones, the latest last */
	uint32_t nkept;
	uint64_t round;		     /* in which each that wants more has one turn, from 1 on */
	uint64_t bps;		     /* payload; 0: unknown, nothing is paced */
	uint64_t next_ns;	     /* when the next quantum may be handed out, */
	uint32_t next_ps;	     /* picoseconds to add to that, below 1000 */
	uint64_t out;		     /* bytes granted beyond idle windows and not received, without silent senders */
	uint64_t out_max;	     /* upper bound of `out` */
	uint64_t grants, expired;    /* counters */
};

/* link_bps: of the NIC, 0: unknown. */
void uccl_pacer_init(struct uccl_pacer *p, uint64_t link_bps);
/* Nobody is left. */
void uccl_pacer_fini(struct uccl_pacer *p);
/* Rank all senders by this function. Call before the first one is there. */
void uccl_pacer_rank(struct uccl_pacer *p, uint64_t (*rank)(const struct uccl_sender *s));
/* From now on it has another rate, for example because others share the link. */
void uccl_pacer_link(struct uccl_pacer *p, uint64_t link_bps);
/* 0 or, where senders are ranked, -FI_ENOMEM. */
int uccl_pull_init(struct uccl_pacer *p, struct uccl_pull *u, const struct uccl_pull_cfg *cfg, uint64_t now);
/* The flow ends. */
void uccl_pull_fini(struct uccl_pacer *p, struct uccl_pull *u);
/*
 * Something came of this sender: bytes that have come, or are known never to come, and bytes demanded, in all; `lost`:
 * what is new of the first is said to be lost.
 */
void uccl_pacer_heard(struct uccl_pacer *p, struct uccl_pull *u, uint64_t received, uint64_t demand, bool lost,
		      uint64_t now);
/*
 * The sender `u` is asked for `demand` bytes in all. It wants credit for them as soon as it hears of that; this does
 * not say which grants it has heard of. PROTOCOL R248
 */
void uccl_pacer_asked(struct uccl_pacer *p, struct uccl_pull *u, uint64_t demand, uint64_t now);
/* Hand out one quantum if its time has come, or tell a turn; whose credit is to leave. NULL: not now. */
struct uccl_pull *uccl_pacer_next(struct uccl_pacer *p, uint64_t now);
/* What it sends needs no grant now. */
static inline bool uccl_pull_free(const struct uccl_pull *u)
{
	return u->turn & 1;
}

/* Nobody wants, owes, or has to hear of anything: uccl_pacer_next does nothing, and no timer runs. */
static inline bool uccl_pacer_rests(const struct uccl_pacer *p)
{
	if (p->converged)
		return false;
	return !p->pulls || (TAILQ_EMPTY(&p->lists[UCCL_PULL_TELL]) && TAILQ_EMPTY(&p->lists[UCCL_PULL_RTX]) &&
			     TAILQ_EMPTY(&p->lists[UCCL_PULL_ACTIVE]) && TAILQ_EMPTY(&p->lists[UCCL_PULL_IDLE]) &&
			     TAILQ_EMPTY(&p->owing) && TAILQ_EMPTY(&p->busy));
}

/* When uccl_pacer_next must be called; UCCL_NEVER: when something is heard. */
uint64_t uccl_pacer_expiry(const struct uccl_pacer *p, uint64_t now);

#endif
