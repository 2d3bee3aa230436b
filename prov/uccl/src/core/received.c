/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What was received, and is owed for it: the window, and when an acknowledgement is due. Chunks come here from packets
 * (rx.c) and from direct writes (direct.c). The acknowledgement itself is put together where packets are made (tx.c).
 */
#include "core/internal.h"

/* Chunks received before an acknowledgement is owed at once, at most. */
#define ACK_EVERY_MAX 128
/* Out of order, with many paths, is normal: tell soon, not at once. */
#define ACK_REORDER_NS (20 * UCCL_NS_PER_US)

/* A chunk has come, of so many bytes, perhaps sent again: move the window. */
void flow_received(struct uccl_flow *f, uint64_t csn, uint32_t bytes, bool rtx, uint64_t now)
{
	uint64_t mask = f->cfg.window - 1;

	/* What is known of this chunk must not be taken for the one that has its place a window later. */
	if (f->rx_slots)
		f->rx_slots[csn & mask] = (struct uccl_rx_slot){ 0 };
	if (f->npieces)
		flow_pieces_end(f, csn);
	f->rcv_map[(csn & mask) / 64] |= 1ull << (csn % 64);
	if (csn >= f->rcv_high)
		f->rcv_high = csn + 1;
	while (rcv_has(f, f->rcv_nxt)) {
		uint64_t i = f->rcv_nxt & mask;

		f->rcv_map[i / 64] &= ~(1ull << (i % 64));
		f->rcv_nxt++;
	}
	if (rtx)
		uccl_event_rx_rtx_chunk(f, bytes, now);
	else
		uccl_event_rx_chunk(f, bytes, now);
}

/*
 * Who asks is answered in the same round: the sender's application waits for it, and ours may not come back to poll
 * before it has heard of that by other means.
 */
void flow_owe_ack(struct uccl_flow *f, uint64_t csn, bool ar, uint64_t now)
{
	uint32_t every = (uint32_t)uccl_clamp(f->cfg.slots_rx / 4, 1, ACK_EVERY_MAX);

	f->owed++;
	if (ar || f->owed >= every)
		f->ack_now = true;
	else if (csn > f->rcv_nxt || csn + 1 < f->rcv_high) /* a gap is there, or was filled (RFC 5681 section 4.2) */
		f->ack_at = uccl_min(f->ack_at, now + ACK_REORDER_NS);
	else
		f->ack_at = uccl_min(f->ack_at, now + UCCL_ACK_DELAY_NS);
}

/* A duplicate always owes an acknowledgement: ours may have been lost. PROTOCOL R22 */
void flow_rx_dup(struct uccl_flow *f, bool excused, uint64_t now)
{
	flow_drop(f, UCCL_DROP_DUPLICATE, 0, now);
	if (!excused)
		f->dups++;
	f->owed++;
	f->ack_at = uccl_min(f->ack_at, now + 1);
}

void flow_rx_paths_again(struct uccl_flow *f)
{
	for (uint16_t i = 0; i < f->cfg.paths_rx; i++) {
		struct uccl_rx_path *r = &f->rx_paths[i];
		bool listed = r->dirty || r->write_dirty;

		if (r->arrived_ns && r->arrived_ns >= f->reacted_ns)
			r->dirty = true;
		if (r->high_csn && r->write_ns >= f->reacted_ns)
			r->write_dirty = true;
		if (!listed && (r->dirty || r->write_dirty))
			f->dirty[f->ndirty++] = i;
	}
}
