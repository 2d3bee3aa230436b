/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What holds a peer back, and for how long: time is added up when the reason changes, not per packet. The times of all
 * reasons (UCCL_STALL_NOT among them) add up to the time since uccl_stall_init, never to more.
 */
#ifndef UCCL_FLOW_OBSERVE_STALL_H
#define UCCL_FLOW_OBSERVE_STALL_H

#include <stdint.h>

struct uccl_flow;

/* X(symbol, text for people) */
#define UCCL_STALL_REASONS(X)                                                                                          \
	X(NOT, "nothing")                                                                                              \
	X(WINDOW, "window")	     /* data waits: the congestion window is full */                                   \
	X(PACE, "pacing")	     /* data waits: congestion control spreads it in time */                           \
	X(CREDIT, "credit")	     /* data waits: the receiver grants no more */                                     \
	X(SLOTS, "slots")	     /* data waits: the receiver has no more places for packets */                     \
	X(CHUNKS, "chunks under way") /* data waits: no more may be under way (window of FI_UCCL_PATHS) */             \
	X(LIMIT, "message limit")    /* messages wait: the peer takes no more at once */                               \
	X(LOSS, "losses")	     /* something is lost and not yet repaired */                                      \
	X(SILENT, "peer not calling") /* the peer does not answer, asked more than once */                             \
	X(ANSWER, "no receive or reply") /* the peer has everything, and its program has not taken it */               \
	X(CONNECT, "connecting")     /* the handshake is not done */                                                   \
	X(NIC, "NIC queue full")     /* of an endpoint: this host's NIC takes no more */                               \
	X(AWAY, "own process late")   /* any of the above, while nobody called the provider here */

enum uccl_stall {
#define X(sym, text) UCCL_STALL_##sym,
	UCCL_STALL_REASONS(X)
#undef X
		UCCL_STALL_COUNT
};

/* "?": no such reason. */
const char *uccl_stall_text(uint8_t why);

struct uccl_stall_clock {
	uint64_t ns[UCCL_STALL_COUNT];
	uint64_t from_ns;	/* added up until then */
	uint64_t away_ns;	/* the owner's sum of absence until then */
	uint64_t began_ns;	/* when the present reason began */
	uint8_t why;		/* enum uccl_stall */
};

void uccl_stall_init(struct uccl_stall_clock *h, uint64_t away_ns, uint64_t now);
/* From now on. `away_ns`: for how long in all, up to now, the owner was late because nobody called it. */
void uccl_stall_change(struct uccl_stall_clock *h, uint8_t why, uint64_t away_ns, uint64_t now);
static inline void uccl_stall_set(struct uccl_stall_clock *h, uint8_t why, uint64_t away_ns, uint64_t now)
{
	if (why != h->why)
		uccl_stall_change(h, why, away_ns, now);
}
/* The sums as they are now. */
void uccl_stall_read(const struct uccl_stall_clock *h, uint64_t ns[UCCL_STALL_COUNT], uint64_t away_ns, uint64_t now);

/*
 * Why a flow whose uccl_flow_tx has just returned 0 sends nothing more. UCCL_STALL_NOT: nothing waits, or what waits is
 * on its way.
 */
enum uccl_stall uccl_flow_stall(const struct uccl_flow *f, uint64_t now);

#endif
