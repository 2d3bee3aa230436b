/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Who may fill the receive queue: the receive slots that an endpoint grants to its peers, by need.
 *
 * A grant is a promise: until a peer has heard of a smaller one, and has no more in flight than that, its packets need
 * their places. So what counts is `told`, the most that a peer may still believe. It grows when more is told, and
 * shrinks when the peer says that it has met the smaller grant: grants are numbered by turns, a new one for each that
 * is smaller, and a peer echoes the turn that it has met (PROTOCOL R140 to R143).
 *
 * A quarter of what is granted in all is for tokens: every connected peer has an equal part of it, at least one slot,
 * whether it sends or not, and begins with that. The rest goes in equal parts to peers that are busy: those that lately
 * sent half a token or more. While not all are busy, a quarter of a part stays free for the next one: its first
 * acknowledgement brings it that, and the rest comes as soon as others have heard of it.
 *
 * Nobody is asked to give back what nobody needs. When a busy peer cannot have its part, busy ones that have more than
 * theirs are told less with their next acknowledgements, and quiet ones are asked, some of them every millisecond. Who
 * does not answer (it computes, or is hostile) keeps what it was told, and no more.
 *
 * Nothing here depends on how many peers there are, but opening and closing one when the NIC's queue changes.
 */
#ifndef UCCL_CORE_SLOTS_H
#define UCCL_CORE_SLOTS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

struct uccl_slots;

/* What one peer may have in flight towards us. Its owner's; zero before uccl_slots_open. */
struct uccl_grant {
	struct uccl_slots *of;	/* NULL: not open */
	TAILQ_ENTRY(uccl_grant) link;
	uint64_t cost;		/* of one of its packets, see slots.c */
	uint32_t most;		/* slots that it can use */
	uint32_t told;		/* slots that it may believe to have */
	uint32_t slots;		/* slots that it is told now: fewer while it is to give some back */
	uint32_t token, fair;	/* its token, and its part if it is busy, */
	uint32_t fair_change;	/* as of this change of uccl_slots */
	uint8_t turn;
	uint8_t asks;		/* in a row that were not answered */
	bool returning;		/* a smaller grant was told, and is not known to be met */
	bool busy;
	uint32_t came;		/* chunks since from_ns */
	uint64_t from_ns, busy_ns; /* when counting began; when it was last known to be busy */
	uint64_t quiet_ns;	/* who sent little for so long is not busy */
	uint64_t told_ns;
	uint64_t ask_at;
};

TAILQ_HEAD(uccl_grant_list, uccl_grant);

struct uccl_slots {
	struct uccl_grant_list busy, quiet; /* least recently busy first; quiet ones in the order of being looked at */
	uint32_t npeers, nbusy;
	uint32_t change;	/* counts changes of those two */
	uint64_t used, quiet_used; /* what is told, in all and to quiet peers */
	uint64_t floors;	/* one slot for each */
	uint64_t short_ns;	/* when somebody could last not have its part */
	uint64_t ask_at;	/* when uccl_slots_ask has something to do; UCCL_NEVER: nobody lacks anything */
	uint32_t looked;
	uint64_t asked, returned; /* counters: quiet peers that were asked, and grants that came back */
};

void uccl_slots_init(struct uccl_slots *s);

/*
 * A peer that may send from now on, in packets of which the queue holds `room`, and of which it can have `most` in
 * flight. Its first grant is g->slots.
 */
void uccl_slots_open(struct uccl_slots *s, struct uccl_grant *g, uint32_t room, uint32_t most);
/* The queue holds another number of its packets. */
void uccl_slots_resize(struct uccl_grant *g, uint32_t room);
/* It has ended. Harmless if it is not open. */
void uccl_slots_close(struct uccl_grant *g);

/*
 * The grant for a block that leaves now. `came`: chunks that arrived since the last one; `srtt_ns` of the flow, 0: not
 * known. The block's turn is g->turn.
 */
uint16_t uccl_slots_tell(struct uccl_grant *g, uint32_t came, uint64_t srtt_ns, uint64_t now);
/* The newest block of the peer says that it has met this turn. */
void uccl_slots_met(struct uccl_grant *g, uint8_t turn);

/* Call from s->ask_at on, until NULL: the next peer to send a block to, as it is to give back what it does not use. */
struct uccl_grant *uccl_slots_ask(struct uccl_slots *s, uint64_t now);

#endif
