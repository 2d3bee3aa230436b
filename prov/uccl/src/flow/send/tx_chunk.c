/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Chunks: their entry in the log, the request for their acknowledgement, and the packet in which they leave. */
#include <string.h>

#include "flow/send/tx_internal.h"

/* So many chunks in flight at most have acknowledgements that may wait. */
#define DELAY_CHUNKS 16

/* A window so small that nothing else asks for its acknowledgement is full, and more waits. */
static bool tx_window_full(struct uccl_flow *f, uint16_t path, uint64_t now)
{
	if (!uccl_sendq_waits(&f->sendq) || f->sent.inflight_bytes >= 2 * UCCL_AR_BYTES * f->policy.rails)
		return false;
	return f->policy.rail ? !uccl_event_rail_room(f, f->paths.list[path].rail, f->chunk_bytes, now)
			      : !flow_tx_allowed(f, f->chunk_bytes, now);
}

/*
 * Nobody waits for the acknowledgement of the chunk that was entered last: no operation ends with it, little is in
 * flight, window and half of the slots are free, nothing waits to be sent, and its path is known. PROTOCOL R340
 */
static bool tx_may_delay(const struct uccl_flow *f, const struct uccl_item *item, const struct uccl_sent *e, bool more)
{
	return !more && f->sent.inflight_bytes <= UCCL_RIDE_BYTES && !item->want_ack && !f->loss.pto.hurry &&
	       f->cfg.wire.delays_tx && !f->loss.pto.backoff && f->sent.inflight_chunks <= DELAY_CHUNKS &&
	       f->sent.inflight_bytes + UCCL_LITTLE_BYTES <= uccl_event_window(f) &&
	       2 * uccl_sent_slots(&f->sent) <= uccl_peer_limits_most(&f->limits) && f->paths.list[e->path].srtt_ns;
}

uint8_t flow_tx_ack_flags(struct uccl_flow *f, struct uccl_sent *e, bool last, uint32_t len, uint64_t now)
{
	bool again = uccl_sent_waits(&f->sent), more = again || !uccl_sendq_empty(&f->sendq) || f->write_tx.item;
	bool arm = uccl_pto_left(&f->loss.pto, f->sent.inflight_chunks == 1 && !again, now);

	/* What was acknowledged meanwhile needs no question. */
	f->since_ar = uccl_min(f->since_ar + len, f->sent.inflight_bytes);
	if (tx_may_delay(f, e->item, e, more)) {
		uccl_sent_packet_delayed(&e->packet);
		uccl_pto_ack_delayed(&f->loss.pto, &f->loss.times, now);
		return UCCL_FLAG_DELAY;
	}
	if (arm)
		uccl_pto_arm(&f->loss.pto, &f->loss.times, true, now);
	if (f->since_ar < flow_tx_ask_bytes(f) && !flow_slots_full(f, e->slots, 1) &&
	    !(last && e->item->want_ack) && !tx_window_full(f, e->path, now))
		return 0;
	f->since_ar = 0;
	uccl_pto_ack_requested(&f->loss.pto, &f->loss.times, now);
	return UCCL_FLAG_AR;
}

/* Trains to this peer are in doubt: must this chunk, which is new, leave by itself? */
static bool tx_single(struct uccl_flow *f, struct uccl_sent *e, uint64_t now)
{
	const struct uccl_item *item = e->item;
	uint32_t rest = (UCCL_TRAIN_TRIAL - 1) * f->chunk_bytes;
	struct uccl_train_chunk c = { .csn = e->number, .una = uccl_sent_number_una(&f->sent), .path = e->path };

	c.more = item->bulk && item->len - item->off >= rest &&
		 flow_tx_packets_room(f) >= UCCL_TRAIN_TRIAL && flow_tx_allowed(f, rest, now);
	uccl_sent_single(e, uccl_train_single(&f->train, &c, &f->rng, f->cfg.stats, now));
	return e->single;
}

void flow_tx_chunk(struct uccl_flow *f, struct uccl_tx *tx, struct uccl_sent *e, uint64_t csn, uint8_t flags,
		   uint64_t now)
{
	uint32_t queue = flow_tx_queue(e, flags);
	/* More of its train follows, and those have one length; or nothing but payload may. PROTOCOL R259 R291 */
	bool alone = queue || flags & UCCL_FLAG_PADDED || (e->item->each && e->item->more);
	struct uccl_hdr h;

	h.type = e->type;
	h.flags = flags;
	h.rtype = e->rtype;
	h.csn = (uint32_t)csn;
	h.rec = e->rec;
	h.tail_len = flags & UCCL_FLAG_PADDED ? (uint16_t)(flow_tx_each(f, e->item) - e->len) : 0;
	/* A copy of ours was just made. */
	if (!e->item->ours)
		flow_tx_prefetch(f, e->payload, e->len);
	tx->control = flow_tx_payload_kind(flags);
	/* PROTOCOL R160 */
	tx->single = flags & UCCL_FLAG_RTX || csn + 1 == f->pmtu.trial ||
		     (f->train.state != UCCL_TRAINS_ON && tx_single(f, e, now));
	tx->payload = e->payload;
	tx->mr = e->item->mr;
	tx->ours = e->item->ours;
	tx->payload_len = e->len;
	/* With tx_sync nobody tells of it, but the engine asks by it what became of a chunk that waits for the NIC. */
	tx->cookie = e->len ? csn : UCCL_NEVER;
	if (!f->cfg.tx_sync && e->len)
		uccl_sent_read(e);
	if (h.tail_len)
		memset(tx->tail, 0, h.tail_len);
	flow_tx_packet(f, tx, &h, e->path, alone ? FLOW_BLOCK_NEVER : FLOW_BLOCK_DUE, now);
	tx->queue = queue;
	/* When it is reported says nothing of the peer's host. PROTOCOL R99 */
	if (flags & UCCL_FLAG_DELAY)
		uccl_path_quiet(&f->paths.list[e->path]);
	uccl_sent_packet_left(&e->packet, h.pseq);
	uccl_sent_packet_long(&e->packet, UCCL_HDR_LEN + e->len + tx->tail_len, tx->single || !f->cfg.train.bytes);
}
