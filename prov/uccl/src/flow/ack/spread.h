/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Part of a flow: how fast the network lets packets through that leave as a burst. The slowest link of the way spreads
 * them (packet train dispersion), so a sender that begins knows the rate of this link before it has filled it.
 *
 * An acknowledgement reports packets. The flow knows when the latest of them left and, by the round trip, when it came,
 * up to a constant. The bytes that the next acknowledgement reports came between its latest packet and this one. If the
 * two packets left in much less time than they came, the link was busy all the time.
 *
 * The grammar: all zero at first. For each acknowledgement `reported` for the packets that it has a round trip of, then
 * `take`.
 */
#ifndef UCCL_FLOW_ACK_SPREAD_H
#define UCCL_FLOW_ACK_SPREAD_H

#include <stdbool.h>
#include <stdint.h>

#include "base/units.h"

/* Of less, clocks and hosts that wait make more than the network does. */
#define UCCL_SPREAD_BYTES 32768
#define UCCL_SPREAD_NS (200 * UCCL_NS_PER_US)

struct uccl_spread {
	uint64_t sent_ns, came_ns;	 /* of the latest packet that the present acknowledgement reports; 0: none */
	uint64_t from_sent, from_came;	 /* of the one with which the sample began; 0: none has begun */
	uint64_t bytes;			 /* that came since */
};

struct uccl_spread_sample {
	uint64_t bytes;
	uint64_t ns; /* 0: no sample */
};

/* A packet left at sent_ns; its round trip, without what its acknowledgement waited, took rtt_ns. */
static inline void uccl_spread_reported(struct uccl_spread *s, uint64_t sent_ns, uint64_t rtt_ns)
{
	if (sent_ns < s->sent_ns)
		return;
	s->sent_ns = sent_ns;
	s->came_ns = sent_ns + rtt_ns;
}

/* `bytes`: what the acknowledgement reports for the first time. */
static inline struct uccl_spread_sample uccl_spread_take(struct uccl_spread *s, uint64_t bytes)
{
	struct uccl_spread_sample out = { 0 };
	uint64_t left = s->sent_ns - s->from_sent, came = s->came_ns - s->from_came;
	bool more = false;

	s->bytes += bytes;
	if (!s->sent_ns)
		return out;
	if (s->from_sent && s->sent_ns >= s->from_sent && s->came_ns > s->from_came && came >= 2 * left) {
		more = s->bytes < UCCL_SPREAD_BYTES || came < UCCL_SPREAD_NS;
		if (!more)
			out = (struct uccl_spread_sample){.bytes = s->bytes, .ns = came};
	}
	if (!more) {
		s->from_sent = s->sent_ns;
		s->from_came = s->came_ns;
		s->bytes = 0;
	}
	s->sent_ns = 0;
	return out;
}

#endif
