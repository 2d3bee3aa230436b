/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "flow/ack/ack_delay.h"

#include "base/units.h"
#include "flow/wire/wire.h"

void uccl_ack_delay_init(struct uccl_ack_delay *o, uint64_t first_rtt_ns)
{
	*o = (struct uccl_ack_delay){
		.min_rtt_ns = first_rtt_ns ? first_rtt_ns : UCCL_NEVER,
		.epoch_ns = UCCL_ACK_DELAY_EPOCH_NS,
	};
}

/* Of two differences of clocks, of which only the low 32 bits are known, that which is less. */
static uint32_t less(uint32_t a, uint32_t b)
{
	return (int32_t)(a - b) < 0 ? a : b;
}

void uccl_ack_delay_back(struct uccl_ack_delay *o, uint32_t ts, uint64_t arrived)
{
	uint32_t took = uccl_ts(arrived) - ts, more;

	if (o->srtt_ns)
		o->share = (uint32_t)uccl_min(o->wait_ns * UCCL_ACK_DELAY_WHOLE / o->srtt_ns, UCCL_ACK_DELAY_WHOLE);
	if (arrived >= o->until) {
		o->least[1] = o->until && arrived < o->until + o->epoch_ns ? o->least[0] : took;
		o->least[0] = took;
		o->until = arrived + o->epoch_ns;
	}
	o->least[0] = less(o->least[0], took);
	more = took - less(o->least[0], o->least[1]);
	/* Both clocks are rounded, so one unit is nothing. */
	o->queue_ns = (uint64_t)(more ? more - 1 : 0) << UCCL_TS_SHIFT;
}

uint64_t uccl_ack_delay_rtt(struct uccl_ack_delay *o, uint64_t rtt_ns)
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
