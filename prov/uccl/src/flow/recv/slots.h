/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Who may fill the receive queue: the receive slots that an endpoint grants to its peers, by need.
 *
 * A grant is a promise: until a peer has heard of a smaller one, and has no more in flight than that, its packets need
 * their places. So what counts is `believed`, the most slots that a peer may still believe to have. It grows when more
 * is told, and shrinks when the peer says that it has met the smaller grant: grants are numbered by turns, a new one
 * for each that is smaller, and a peer echoes the turn that it has met (PROTOCOL R140 to R143).
 *
 * A quarter of what is granted in all is for tokens: every connected peer has an equal part of it, at least one slot,
 * whether it sends or not, and begins with that. The rest goes in equal parts to peers that are busy: those that lately
 * sent half a token or more. While not all are busy, a quarter of a part stays free for the next one: its first
 * acknowledgement brings it that, and the rest comes as soon as others have heard of it.
 *
 * With so many peers that not even one slot for each fits, some have none. Who has none and something to send asks
 * (`want`), waits in a line, and is given one slot when there is one (`serve`). While there is a line nobody is told
 * more than before; who says that nothing of its own waits gives all of it back; and if not all who send can have one,
 * they take turns. So the sum of what is told never exceeds the queue (PROTOCOL R177 to R179).
 *
 * A slot costs as much of the queue as the longest packet that may come. But the first slot of a peer costs only as
 * much as what did come lately: so many peers that send short packets have one each where long ones would not fit, and
 * if they send long ones after all, it is one of each that may be lost (PROTOCOL R247).
 *
 * A peer may ask and never send (PROTOCOL R320). Each turn that passes unused is counted: its owner may ask anew only
 * after twice the time, up to 13 s. A turn begins anew a few times only, if nothing comes, and is short for who never
 * sent. A peer that goes on asking but does not meet what it is told is awake: what it was told is written off until it
 * does. Silence is no proof of that.
 *
 * Nobody is asked to give back what nobody needs. When a busy peer cannot have its part, busy ones that have more than
 * theirs are told less with their next acknowledgements, and quiet ones are asked, some of them every millisecond. Who
 * does not answer (it computes, or is hostile) keeps what it was told, and no more.
 *
 * Nothing here depends on how many peers there are, but opening and closing one when the NIC's queue changes.
 */
#ifndef UCCL_FLOW_RECV_SLOTS_H
#define UCCL_FLOW_RECV_SLOTS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "flow/recv/grant_need.h"
#include "flow/recv/grant_share.h"
#include "flow/recv/grant_turn.h"

struct uccl_slots;

/* What one peer may have in flight towards us. Its owner's; zero before uccl_slots_open. */
struct uccl_grant {
	struct uccl_slots *of;	/* NULL: not open */
	TAILQ_ENTRY(uccl_grant) link; /* in uccl_slots.busy or quiet */
	TAILQ_ENTRY(uccl_grant) wait_link; /* in uccl_slots.waiting, */
	uint64_t wait_ns;	/* since then, */
	bool waits;		/* if it is in that list */
	bool busy;		/* in which of the first two lists it is */
	uint32_t slots;		/* slots that the peer is told now: fewer while it is to give some back */
	uint32_t believed;	/* slots that it may believe to have */
	uint8_t turn;		/* number of the latest smaller grant */
	bool returning;		/* that one was told, and is not known to be met */
	uint8_t deaf;		/* times that the peer asked without having met it */
	bool written_off;	/* so often that what it was told does not count any more */
	bool overbooked;	/* its first slot is promised twice: it does not count */
	uint8_t asks;		/* times in a row that it was asked to give back, and did not answer */
	uint64_t ask_at;	/* not before then is it asked again */
	uint64_t told_ns;	/* when the latest block left */
	struct uccl_grant_share share;
	struct uccl_grant_need need;
	struct uccl_grant_turn turns;	/* if there are fewer slots than senders */
};

TAILQ_HEAD(uccl_grant_list, uccl_grant);

struct uccl_slots {
	struct uccl_grant_list busy, quiet; /* least recently busy first; quiet ones in the order of being looked at */
	struct uccl_grant_list waiting;	    /* who waits for a slot, and is quiet: first come, first served */
	uint32_t npeers, nbusy, nwaiting;
	uint32_t change;	/* counts changes of those three */
	uint64_t used, quiet_used; /* what is told, in all and to quiet peers */
	uint64_t floors;	/* one slot for each */
	uint64_t short_ns;	/* when somebody could last not have its part */
	uint64_t ask_at;	/* when uccl_slots_ask has something to do; UCCL_NEVER: nobody lacks anything */
	uint32_t looked;
	uint64_t asked, returned; /* counters: quiet peers that were asked, and grants that came back */
};

void uccl_slots_init(struct uccl_slots *s);

/*
 * A peer that may send from now on, in packets of which the queue holds `room`, and of which it can have `max_slots` in
 * flight. Its first grant is g->slots, perhaps 0.
 */
void uccl_slots_open(struct uccl_slots *s, struct uccl_grant *g, uint32_t room, uint32_t max_slots);
/*
 * The queue holds another number of its packets, `room`, or of those that came lately, `usual`: as many or more. By
 * that counts one slot of each, so that many peers with short packets all have one.
 */
void uccl_slots_resize(struct uccl_grant *g, uint32_t room, uint32_t usual);
/* It has ended. Harmless if it is not open. */
void uccl_slots_close(struct uccl_grant *g);

/*
 * The grant for a block that leaves now. `came`: chunks that arrived since the last one; `srtt_ns` of the flow, 0: not
 * known. The block's turn is g->turn.
 */
uint16_t uccl_slots_tell(struct uccl_grant *g, uint32_t came, uint64_t srtt_ns, uint64_t now);
/* A chunk came, and says whether more waits to be sent. */
static inline void uccl_slots_more(struct uccl_grant *g, bool more)
{
	g->need.has_more = more;
}
/*
 * It has nothing left to send with, and something to send. False: it asked so short a time ago that its question is not
 * answered; it has been told (PROTOCOL R320).
 */
bool uccl_slots_want(struct uccl_grant *g, uint64_t now);
/* It knows of no grant of 0: from now on it has one at least, whatever there is. */
void uccl_slots_least(struct uccl_grant *g);
/* The newest block of the peer says that it has met this turn. */
void uccl_slots_met(struct uccl_grant *g, uint8_t turn);

/* Call from s->ask_at on, until NULL: the next peer to send a block to, as it is to give back what it does not use. */
struct uccl_grant *uccl_slots_ask(struct uccl_slots *s, uint64_t now);
/* Before that, until NULL: the next one that waited and has a slot now, to be told at once. */
struct uccl_grant *uccl_slots_serve(struct uccl_slots *s, uint64_t now);

#endif
