/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The receive slots that an endpoint grants to its peers, by need: how much of the receive queue each peer may fill.
 *
 * A grant is a promise: until a peer has heard of a smaller one, and has no more in flight than that, its packets
 * need their places. So the sum is over `believed`, the most slots that a peer may still believe to have. It grows
 * when more is told, and shrinks when the peer says that it has met the smaller grant. Smaller grants are numbered by
 * turns, and a peer echoes the turn that it has met (PROTOCOL R140 to R143).
 *
 * A quarter of what is granted in all is for tokens: every connected peer has an equal part of it, at least one slot,
 * whether it sends or not, and begins with that. The rest goes in equal parts to busy peers: those that lately sent
 * half a token or more. While not all peers are busy, a quarter of a part stays free for the next one: its first
 * acknowledgement brings that quarter, and the rest comes as soon as the other busy peers have heard of theirs.
 *
 * With so many peers that not even one slot for each fits, some peers have none. Such a peer asks when it has
 * something to send (`want`), waits in a line, and is given one slot when there is one (`serve`). While there is a
 * line no peer is told more than before, a peer that has nothing more to send gives all of its slots back, and if
 * there are fewer slots than senders, the senders take turns. So the sum of what is told never exceeds the queue
 * (PROTOCOL R177 to R179).
 *
 * A slot costs as much of the queue as the longest packet that may come. But the first slot of a peer costs only as
 * much as the packets that came lately. So many peers that send short packets have one slot each, where slots for
 * long packets would not fit. If they send long packets after all, one packet of each may be lost (PROTOCOL R247).
 *
 * A peer may ask and never send (PROTOCOL R320). Turns that pass unused are counted: after such turns the peer may
 * ask anew only after twice the time, up to 13 s. A turn in which nothing comes begins anew a few times only, and the
 * turn of a peer that never sent is short. A peer that goes on asking but does not meet what it is told is awake, so
 * what it was told is written off until it does. Silence alone writes nothing off, unless the peer has been silent
 * from the start.
 *
 * Slots that no other peer needs are not taken back. When a busy peer cannot have its part, busy peers with more than
 * their parts are told less with their next acknowledgements, and quiet peers are asked, some of them every
 * millisecond. A peer that does not answer (it computes, or is hostile) keeps what it was told, and no more.
 *
 * No call takes longer because there are more peers, but for `resize` of each peer when the NIC's queue changes.
 *
 * Parts: grant_share.h (what slots cost), grant_need.h (is a peer busy), grant_turn.h (turns).
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
	bool written_off;	/* what it was told does not count: it is deaf, or has been silent from the start */
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
	struct uccl_grant_list busy, quiet; /* least recently busy first; in the order of their next question */
	struct uccl_grant_list waiting;	    /* quiet peers that wait for a slot: first come, first served */
	uint32_t npeers, nbusy, nwaiting;
	uint32_t change;	/* counts changes of those three */
	uint64_t used, quiet_used; /* what is told, in all and to quiet peers */
	uint64_t floors;	/* one slot for each */
	uint64_t short_ns;	/* when a peer could last not have its part */
	uint64_t ask_at;	/* when uccl_slots_ask has something to do; UCCL_NEVER: no peer lacks slots */
	uint32_t looked;	/* quiet peers that were considered in the present millisecond */
	uint64_t asked, returned; /* counters: quiet peers that were asked, and grants that came back */
};

void uccl_slots_init(struct uccl_slots *s);

/*
 * A peer may send from now on. The queue holds `room` of its packets, and the peer can have `max_slots` of them in
 * flight. Its first grant is g->slots, perhaps 0.
 */
void uccl_slots_open(struct uccl_slots *s, struct uccl_grant *g, uint32_t room, uint32_t max_slots);
/*
 * The queue holds another number of the peer's longest packets, `room`, or of packets such as came lately, `usual`,
 * which is at least `room`. The first slot of a peer costs one of the latter, so that many peers with short packets
 * have one.
 */
void uccl_slots_resize(struct uccl_grant *g, uint32_t room, uint32_t usual);
/*
 * From now on a slot is a unit of bytes, of which the queue holds so many. What was granted in packets is granted anew
 * in units, `packet` for each; later calls have 1 there. `usual`: packets such as came lately that the queue holds: the
 * first slot costs as much as one of them, as a sender with a slot may send a packet of any length.
 */
void uccl_slots_resize_units(struct uccl_grant *g, uint32_t units, uint32_t usual, uint32_t packet);
/* The peer has ended. Harmless if the grant is not open. */
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
 * The peer asks: it has something to send, and no slot. False: its last question is so recent that this one is not
 * answered; the peer has been told (PROTOCOL R320).
 */
bool uccl_slots_want(struct uccl_grant *g, uint64_t now);
/* The peer knows of no grant of 0: from now on it has at least one slot, even if none is left. */
void uccl_slots_least(struct uccl_grant *g);
/*
 * What the peer was told counts no more, as others lack slots and this peer has never sent anything. If it sends after
 * all, the next block grants none. Grants after the peer has met that one count again (PROTOCOL R135).
 */
void uccl_slots_write_off(struct uccl_grant *g);
/* The newest block of the peer says that it has met this turn. */
void uccl_slots_met(struct uccl_grant *g, uint8_t turn);

/* Call from s->ask_at on, until NULL: the next peer that needs a block, as it is to give back unused slots. */
struct uccl_grant *uccl_slots_ask(struct uccl_slots *s, uint64_t now);
/* Call before that, until NULL: the next peer that waited and has a slot now; it is to be told at once. */
struct uccl_grant *uccl_slots_serve(struct uccl_slots *s, uint64_t now);

#endif
