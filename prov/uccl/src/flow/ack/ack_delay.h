/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Part of a flow: how long acknowledgements wait on their way here. A round trip is the way there, which our data
 * fills and our choices change, and the way back, whose queues are made of other data. Congestion control and path
 * choice are to know the first alone.
 *
 * The peer's clock and ours have nothing in common, but of each block we know when it left by the one and came by the
 * other: the difference, less the least that there was lately, is what it waited. Lately, because clocks drift, and
 * because what stands in a queue all the time is then told apart from nothing: it counts as the way there.
 *
 * A window bounds what is in the network. What has come, while the acknowledgement waits on its way back, is there no
 * more, so a window may be larger by the same part as the wait makes round trips longer.
 *
 * The grammar: init; `way` whenever it may have become long, or short again; `back` for each block, then `rtt` for each
 * of its samples; `more` at any time.
 */
#ifndef UCCL_FLOW_ACK_ACK_DELAY_H
#define UCCL_FLOW_ACK_ACK_DELAY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/units.h"
#include "flow/wire/wire.h"

/* The least is over this epoch and the one before. Two clocks that drift by 50 ppm each add up to 2 us. */
#define UCCL_ACK_DELAY_EPOCH_NS (10 * UCCL_NS_PER_MS)
/*
 * On a long way an epoch lasts 32 round trips, because the queue of the way back may be empty only now and then. It
 * lasts 2 s at most: two epochs are 0.4 ms of drift.
 */
#define UCCL_ACK_DELAY_EPOCH_RTTS 32
#define UCCL_ACK_DELAY_EPOCH_MAX_NS (2 * UCCL_NS_PER_S)

/* A whole. */
#define UCCL_ACK_DELAY_WHOLE 256

struct uccl_ack_delay {
	uint32_t least[2];	/* by both clocks, units of ts: in the present epoch, in the last one */
	uint64_t until;		/* end of the present epoch; 0: none has begun */
	uint64_t epoch_ns;	/* length of the next one */
	uint64_t queue_ns;	/* of the latest block */
	uint64_t wait_ns;	/* smoothed, of samples */
	uint64_t srtt_ns;	/* round trips without that: smoothed, */
	uint64_t last_rtt_ns;	/* the latest; 0: none yet */
	uint64_t min_rtt_ns;	/* and the least, or the handshake's; UCCL_NEVER: none yet */
	uint32_t share; /* what is waited on average, of a round trip without that, UCCL_ACK_DELAY_WHOLE at most */
};

/*
 * first_rtt_ns: round trip of the handshake, 0: not known. The least is no longer than that: payload may find queues,
 * and fill them with its first burst. PROTOCOL R413
 */
void uccl_ack_delay_init(struct uccl_ack_delay *o, uint64_t first_rtt_ns);
/* Is the way long? */
static inline void uccl_ack_delay_way(struct uccl_ack_delay *o, bool far)
{
	o->epoch_ns = far ? uccl_min(UCCL_ACK_DELAY_EPOCH_RTTS * o->min_rtt_ns, UCCL_ACK_DELAY_EPOCH_MAX_NS)
			  : UCCL_ACK_DELAY_EPOCH_NS;
}

/* Of two differences of clocks, of which only the low 32 bits are known, that which is less. */
static inline uint32_t uccl_ack_delay_less(uint32_t a, uint32_t b)
{
	return (int32_t)(a - b) < 0 ? a : b;
}

/* A block came at `arrived`, in a packet that left at `ts` by the peer's clock. */
static inline void uccl_ack_delay_back(struct uccl_ack_delay *o, uint32_t ts, uint64_t arrived)
{
	uint32_t took = uccl_ts(arrived) - ts, more;

	if (o->srtt_ns)
		o->share = (uint32_t)uccl_min(o->wait_ns * UCCL_ACK_DELAY_WHOLE / o->srtt_ns, UCCL_ACK_DELAY_WHOLE);
	if (arrived >= o->until) {
		o->least[1] = o->until && arrived < o->until + o->epoch_ns ? o->least[0] : took;
		o->least[0] = took;
		o->until = arrived + o->epoch_ns;
	}
	o->least[0] = uccl_ack_delay_less(o->least[0], took);
	more = took - uccl_ack_delay_less(o->least[0], o->least[1]);
	/* Both clocks are rounded, so one unit is nothing. */
	o->queue_ns = (uint64_t)(more ? more - 1 : 0) << UCCL_TS_SHIFT;
}

/* A round trip that ends with that block, without what the block waited. > 0, as rtt_ns is. */
static inline uint64_t uccl_ack_delay_rtt(struct uccl_ack_delay *o, uint64_t rtt_ns)
{
	/* No block waits longer than the round trip that it ends: a clock was set, or the peer makes times up. */
	if (o->queue_ns >= rtt_ns)
		o->until = o->queue_ns = 0;
	rtt_ns -= o->queue_ns;
	o->last_rtt_ns = rtt_ns;
	o->min_rtt_ns = uccl_min(o->min_rtt_ns, rtt_ns);
	o->wait_ns = o->wait_ns - o->wait_ns / 8 + o->queue_ns / 8;
	o->srtt_ns = o->srtt_ns ? o->srtt_ns - o->srtt_ns / 8 + rtt_ns / 8 : rtt_ns;
	return rtt_ns;
}

/* So long packets wait in queues on their way there, ns, on average; 0: nothing is known. */
static inline uint64_t uccl_ack_delay_queue(const struct uccl_ack_delay *o)
{
	return o->srtt_ns > o->min_rtt_ns ? o->srtt_ns - o->min_rtt_ns : 0;
}

/* Bytes that may be unacknowledged beyond a window of `bytes` bytes. */
static inline uint64_t uccl_ack_delay_more(const struct uccl_ack_delay *o, uint64_t bytes)
{
	return bytes / UCCL_ACK_DELAY_WHOLE * o->share;
}

#endif
