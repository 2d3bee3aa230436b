/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Part of a message endpoint: is it connected, or listening (FI_EP_MSG)? Then it takes messages of connection
 * management, and others from its one peer only. PROTOCOL R110
 */
#ifndef UCCL_MSG_SOLE_PEER_H
#define UCCL_MSG_SOLE_PEER_H

#include <stdbool.h>

struct uccl_peer;

struct uccl_sole_peer {
	bool only;			/* messages of others are not taken */
	const struct uccl_peer *peer;	/* NULL: not connected */
};

static inline void uccl_sole_peer_init(struct uccl_sole_peer *s, bool only)
{
	s->only = only;
}

/* Connected to this peer. */
static inline void uccl_sole_peer_set(struct uccl_sole_peer *s, const struct uccl_peer *p)
{
	s->peer = p;
}

/* `p` turned out to be another name of `first`. */
static inline void uccl_sole_peer_join(struct uccl_sole_peer *s, const struct uccl_peer *p,
				       const struct uccl_peer *first)
{
	if (s->peer == p)
		s->peer = first;
}

/* Messages of this peer are not taken. */
static inline bool uccl_sole_peer_bars(const struct uccl_sole_peer *s, const struct uccl_peer *p)
{
	return s->only && p != s->peer;
}

#endif
