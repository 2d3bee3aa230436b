/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Part of a path: which of its packets ask the peer for an answer, and which do not. */
#ifndef UCCL_FLOW_PATH_PATH_ASKS_H
#define UCCL_FLOW_PATH_PATH_ASKS_H

#include <stdbool.h>
#include <stdint.h>

struct uccl_path_asks {
	uint64_t since_ns;	/* when the first control packet left that was not reported yet; 0: none */
	uint32_t seq;		/* its number */
	uint32_t quiet_seq;	/* number of the latest packet that asks for no answer */
	uint8_t quiet;		/* of the eight packets up to quiet_seq those that ask for none, by bits */
};

/* The control packet with this number left: it should be reported. */
static inline void uccl_path_asks_left(struct uccl_path_asks *a, uint32_t seq, uint64_t now)
{
	if (a->since_ns)
		return;
	a->since_ns = now;
	a->seq = seq;
}

/* Nothing is asked any more. */
static inline void uccl_path_asks_end(struct uccl_path_asks *a)
{
	a->since_ns = 0;
}

/* The peer reports all up to this number. */
static inline void uccl_path_asks_reported(struct uccl_path_asks *a, uint32_t seq)
{
	if (a->since_ns && (int32_t)(seq - a->seq) >= 0)
		a->since_ns = 0;
}

/* The packet with this number asks for no answer: when it is reported tells nothing of the peer's host. PROTOCOL R99 */
static inline void uccl_path_asks_quiet(struct uccl_path_asks *a, uint32_t seq)
{
	uint32_t on = seq - a->quiet_seq;

	a->quiet = (uint8_t)((on < 8 ? a->quiet << on : 0) | 1);
	a->quiet_seq += on;
}

static inline bool uccl_path_asks_was_quiet(const struct uccl_path_asks *a, uint32_t seq)
{
	uint32_t back = a->quiet_seq - seq;

	return back < 8 && a->quiet >> back & 1;
}

#endif
