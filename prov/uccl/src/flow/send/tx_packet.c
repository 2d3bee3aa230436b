/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Packets: the header, the acknowledgement that goes along, and packets that are no chunk. */
#include "flow/send/tx_internal.h"

/*
 * Encode what we owe into the tail. Behind payload: all of it or nothing; else as much as `room` bytes hold, what is
 * left goes with the next block. With a probe of a path that may be dead (not `sure`) all stays owed. Returns its
 * length.
 */
static uint16_t tx_ack(struct uccl_flow *f, uint8_t *tail, uint32_t room, bool payload, bool sure, uint64_t now)
{
	struct uccl_ack a;
	uint32_t lines = uccl_ack_tracker_entries(&f->rx.ack_tracker);
	uint8_t nwords = uccl_arrived_words(&f->rx.arrived, UCCL_ACK_WORDS_MAX);

	if (uccl_ack_len((uint8_t)lines, nwords, 0) > room) {
		if (payload)
			return 0;
		/* A path may need two lines. */
		lines = (uint32_t)uccl_min(lines, uccl_max((room - UCCL_ACK_FIXED) / 2 / UCCL_ACK_PATH_LEN, 2));
		nwords = (uint8_t)uccl_min(nwords, (room - uccl_ack_len((uint8_t)lines, 0, 0)) / 8);
	}
	uccl_arrived_tell(&f->rx.arrived, &a, nwords);
	a.nsegments = 0;
	if (f->rx.segments.n + f->rx.subsegments.n)
		flow_segments_tell(f, &a, uccl_ack_segments_fit((uint8_t)lines, nwords, room));
	a.turn = 0;
	if (f->cfg.grant) {
		f->cfg.slots_rx = uccl_slots_tell(f->cfg.grant, f->rx.ack_tracker.slots, f->loss.times.srtt_ns, now);
		a.turn = f->cfg.grant->turn;
	}
	a.slots = f->cfg.slots_rx;
	a.met = f->limits.met;
	uccl_ack_tracker_tell(&f->rx.ack_tracker, &a, lines, sure, now);
	f->cfg.stats->acks_tx++;
	return (uint16_t)uccl_ack_encode(tail, &a);
}

void flow_tx_packet(struct uccl_flow *f, struct uccl_tx *tx, struct uccl_hdr *h, uint16_t path, enum flow_block block,
		    uint64_t now)
{
	struct uccl_path *p = &f->paths.list[path];
	bool room;

	tx->kind = UCCL_TX_PACKET;
	tx->row = 0;
	tx->queue = 0;
	tx->burst = uccl_burst_take_fresh(&f->paths.burst) ? UCCL_BURST_FIRST : UCCL_BURST_NONE;
	tx->path = path;
	tx->label = p->label;
	tx->hdr_len = UCCL_HDR_LEN;
	tx->tail_len = h->tail_len;
	/* Behind a full packet there is no room even for the shortest block. */
	room = block != FLOW_BLOCK_NEVER && UCCL_HDR_LEN + tx->payload_len + UCCL_ACK_FIXED <= f->pmtu.bytes;
	if (room && (block == FLOW_BLOCK_ALWAYS || uccl_ack_tracker_due(&f->rx.ack_tracker)))
		tx->tail_len = tx_ack(f, tx->tail, f->pmtu.bytes - UCCL_HDR_LEN - tx->payload_len, tx->payload_len,
				      h->type != UCCL_PKT_PROBE || p->control, now);
	if (!room || !tx->tail_len)
		uccl_ack_tracker_pass(&f->rx.ack_tracker);
	if (room && h->type >= UCCL_PKT_CHUNK)
		uccl_reverse_gap_left(&f->rx.reverse_gap, now);
	/* PROTOCOL R178 R246 */
	if (h->flags && h->type >= UCCL_PKT_CHUNK) {
		bool learns = h->flags & ~UCCL_FLAG_DELAY, more = flow_more(f);

		if (more || uccl_peer_limits_expects(&f->limits))
			h->flags |= UCCL_FLAG_WANT;
		if (learns && !more)
			uccl_peer_limits_last(&f->limits, now);
	}
	h->path = path;
	h->token = f->cfg.wire.token_tx;
	h->pseq = uccl_path_sent(p, 1, tx->payload_len);
	h->ts = uccl_ts(now);
	h->payload_len = (uint16_t)tx->payload_len;
	h->tail_len = tx->tail_len;
	uccl_hdr_encode(tx->hdr, h);
	f->cfg.stats->tx_packets++;
	flow_trace(f, h->flags & UCCL_FLAG_RTX ? UCCL_TRACE_TX_AGAIN : UCCL_TRACE_TX, h->type, path, h->csn,
		   tx->payload_len, h->pseq, now);
}

int flow_tx_control(struct uccl_flow *f, struct uccl_tx *tx, uint8_t type, uint8_t flags, const uint8_t *rec,
		    uint16_t path, bool want_ack, uint64_t now)
{
	struct uccl_hdr h = { .type = type, .flags = flags, .rec = rec };

	/* In a class of its own a PROBE overtakes what it asks for, and proves losses that are none. PROTOCOL R400 */
	tx->control = type == UCCL_PKT_PROBE ? UCCL_TX_BEHIND : UCCL_TX_CONTROL;
	/* What asks for lost packets must not be lost with them. PROTOCOL R160 */
	tx->single = type == UCCL_PKT_PROBE || f->train.state != UCCL_TRAINS_ON;
	tx->payload = NULL;
	tx->mr = NULL;
	tx->ours = false;
	tx->payload_len = 0;
	tx->cookie = UCCL_NEVER;
	flow_tx_packet(f, tx, &h, path, want_ack ? FLOW_BLOCK_ALWAYS : FLOW_BLOCK_DUE, now);
	uccl_path_asked(&f->paths.list[path], now);
	f->cfg.stats->acks_alone += type == UCCL_PKT_ACK;
	if (type != UCCL_PKT_PROBE)
		uccl_path_quiet(&f->paths.list[path]);
	return 1;
}
