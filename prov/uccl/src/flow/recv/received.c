/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What was received, and is owed for it: the window, and when an acknowledgement is due. Chunks come here from packets
 * (flow_rx.c) and from direct writes (direct.c). The acknowledgement itself is put together in tx_packet.c.
 */
#include "flow/internal.h"

/* Out of order, with many paths, is normal: tell soon, not at once. */
#define ACK_REORDER_NS (20 * UCCL_NS_PER_US)

/* So many bytes of a chunk came, `whole`: and with them all of it. Perhaps they were sent again. */
static inline void flow_received(struct uccl_flow *f, uint64_t csn, uint32_t bytes, bool whole, bool rtx, uint64_t now)
{
	if (whole) {
		uccl_write_rx_forget(&f->rx.write, csn);
		uccl_subsegments_end(&f->rx.subsegments, csn);
		if (f->rx.segments.n)
			flow_segments_end(f, csn);
		uccl_arrived_take(&f->rx.arrived, csn);
	}
	if (rtx)
		uccl_event_rx_rtx_chunk(f, bytes, now);
	else
		uccl_event_rx_chunk(f, bytes, now);
}

/*
 * A sender that asks is answered in the same round: its application waits for that, and ours may not come back to poll
 * before it has heard of that by other means. A sender that waits for nothing has slots left, so its packets are not
 * counted against them. PROTOCOL R22 R340
 */
static inline void flow_owe_ack(struct uccl_flow *f, uint64_t csn, uint32_t slots, uint8_t flags, uint64_t now)
{
	uint32_t most = f->rx.ack_slots_max, every;
	uint64_t wait = UCCL_ACK_DELAY_NS;
	/* A gap is there, or was filled (RFC 5681 section 4.2). */
	bool gap = csn > f->rx.arrived.nxt || csn + 1 < f->rx.arrived.high ||
		   (f->rx.segments.n && csn == f->rx.arrived.nxt && flow_segments_gap(f, csn));

	uccl_flow_rx_delays(&f->rx, flags & UCCL_FLAG_DELAY, now);
	if (f->rx.delays) {
		every = most;
		wait = uccl_reverse_gap_limit(&f->rx.reverse_gap);
	} else {
		every = (uint32_t)uccl_clamp(f->cfg.slots_rx / 4, 1, most);
	}
	/*
	 * A lost packet of a long way is a gap for thousands of those behind it, and a block for each of them would
	 * fill the way back. PROTOCOL R394
	 */
	if (gap)
		wait = flow_long_way(f) ? UCCL_ACK_DELAY_NS : ACK_REORDER_NS;
	uccl_ack_tracker_chunk(&f->rx.ack_tracker, slots, flags & UCCL_FLAG_AR ? 0 : every, now + wait);
}

void flow_taken(struct uccl_flow *f, uint64_t csn, uint32_t bytes, bool whole, uint32_t slots, uint8_t flags,
		uint64_t now)
{
	flow_received(f, csn, bytes, whole, flags & UCCL_FLAG_RTX, now);
	uccl_write_rx_age(&f->rx.write, csn, now);
	flow_owe_ack(f, csn, slots, flags, now);
}

void flow_rx_dup(struct uccl_flow *f, bool excused, uint64_t now)
{
	flow_drop(f, UCCL_DROP_DUPLICATE, 0, now);
	uccl_ack_tracker_dup(&f->rx.ack_tracker, excused, now);
}
