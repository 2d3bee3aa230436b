/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Part of a flow: rounds in which all payload is lost. The peer answers, so this is no silence (flow/ack/pto.h). No
 * policy ends it, because a window is never less than a packet. An example is a full queue that serves control packets
 * first: more payload only makes it worse. So after some such rounds in a row (RFC 9002 section 7.6 calls it persistent
 * congestion) payload rests, each time twice as long, until a chunk or a part of one arrives. PROTOCOL R294
 *
 * The grammar: all zero at first. `lost` for each lost chunk of any length, `came` for each acknowledged one. While it
 * `rests` no chunk leaves, and the peer is probed only if `ask` says so. `over` at `at`.
 */
#ifndef UCCL_FLOW_ACK_PERSISTENT_LOSS_H
#define UCCL_FLOW_ACK_PERSISTENT_LOSS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/units.h"
#include "flow/ack/times.h"

/*
 * Payload rests after this many rounds in a row. By then the sender has tried shorter packets (UCCL_PMTU_ROUNDS) and
 * other paths, in case packets are too long or some paths are dead.
 */
#define UCCL_PERSISTENT_LOSS_ROUNDS 8

struct uccl_persistent_loss {
	uint32_t rounds;	/* in a row */
	uint64_t round_ns;	/* end of the latest round: what left before says nothing new */
	uint64_t at;		/* payload rests until then; 0: it does not */
	uint32_t asked;		/* rounds after which the peer was last asked while it rested */
};

/* A chunk that left at sent_ns is lost. */
static inline void uccl_persistent_loss_lost(struct uccl_persistent_loss *b, const struct uccl_times *t,
					     uint64_t sent_ns, uint64_t now)
{
	if (sent_ns < b->round_ns)
		return;
	b->round_ns = uccl_max(now, sent_ns + 1);
	if (++b->rounds <= UCCL_PERSISTENT_LOSS_ROUNDS)
		return;
	/* The time-out has a host's pauses in it, which are none of the network's. */
	b->at = now +
		uccl_min(uccl_times_pto(t) << uccl_min(b->rounds - UCCL_PERSISTENT_LOSS_ROUNDS, 16), UCCL_RTO_MAX_NS);
}

static inline void uccl_persistent_loss_came(struct uccl_persistent_loss *b)
{
	b->rounds = b->asked = 0;
	b->at = 0;
}

/* Once in each rest. */
static inline bool uccl_persistent_loss_ask(struct uccl_persistent_loss *b)
{
	bool first = b->asked != b->rounds;

	b->asked = b->rounds;
	return first;
}

static inline void uccl_persistent_loss_over(struct uccl_persistent_loss *b)
{
	b->at = 0;
}

static inline bool uccl_persistent_loss_rests(const struct uccl_persistent_loss *b, uint64_t now)
{
	return now < b->at;
}

#endif
