/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* What has not been sent yet: records and bulk. */
#include "flow/send/tx_internal.h"

/* Chunks of one descriptor of direct writes at most. */
#define DESC_CHUNKS_MAX 32

/*
 * The record that leaves next: the oldest, but a small one does not wait for a longer one that is held back, by window,
 * pacing or credit, or because it is bulk's turn. PROTOCOL R14
 */
static struct uccl_item *tx_next_record(struct uccl_flow *f, uint64_t now)
{
	struct uccl_item *item = uccl_sendq_long_first(&f->sendq);

	if (item && !f->sendq.bulk_turn &&
	    (item->len <= UCCL_CONTROL_BYTES || flow_tx_allowed(f, (uint32_t)item->len, now)))
		return item;
	if (item)
		f->app_limited = false;
	return TAILQ_FIRST(&f->sendq.small);
}

static int tx_record(struct uccl_flow *f, struct uccl_tx *tx, uint64_t now)
{
	const uint8_t *payload = NULL;
	struct uccl_item *item, *more;
	struct uccl_sent *e;
	uint16_t path;
	bool trial;

	if (!uccl_sendq_has_records(&f->sendq))
		return 0;
	if (!flow_tx_room(f)) {
		f->app_limited = false;
		return 0;
	}
	item = tx_next_record(f, now);
	if (!item)
		return 0;
	/* What fits the path is no trial, whatever it carries. */
	trial = flow_tx_long(f, (uint32_t)item->len) && f->cfg.packet.find_mtu;
	if (trial && !uccl_pmtu_may(&f->pmtu, UCCL_HDR_LEN + (uint32_t)item->len, now)) {
		/* In segments, as soon as those before it have left. */
		if (!uccl_rtxq_empty(&f->sent.rtxq[UCCL_RTX_LONG]) || f->sent.kept == UCCL_KEPT_MAX)
			item = TAILQ_FIRST(&f->sendq.small);
		if (!item)
			return 0;
		trial = false;
	}
	if (item->len)
		uccl_item_payload(item, 0, (uint32_t)item->len, &payload);
	uccl_sendq_record(&f->sendq, item, UCCL_HDR_LEN + (uint32_t)item->len);
	more = TAILQ_FIRST(&f->sendq.bulk);
	if (more && !more->off)
		flow_tx_burst_align(f, item->len + more->len);
	path = flow_tx_path(f, (uint32_t)item->len, item->len + item->more, now);
	/* Small ones wait for nothing, but what they take is counted, as it is at the receiver. */
	if (item->len > UCCL_CONTROL_BYTES) {
		flow_tx_paced(f, path, (uint32_t)item->len, now);
	} else {
		uccl_credit_spend_free(&f->credit, (uint32_t)item->len);
	}
	e = flow_tx_enter(f, item, UCCL_PKT_CHUNK, item->rec, payload, (uint32_t)item->len, path, now);
	if (trial)
		uccl_pmtu_try(&f->pmtu, f->sent.nxt - 1, UCCL_HDR_LEN + e->len);
	else if (flow_tx_long(f, e->len)) {
		flow_tx_timer(f, now);
		return flow_tx_wait(f, tx, e, now);
	}
	flow_tx_chunk(f, tx, e, f->sent.nxt - 1, flow_tx_ack_flags(f, e, true, e->len, now), now);
	return 1;
}

/* Is it bulk that leaves next, and do its packets leave as trains? */
static bool tx_trains_go_on(const struct uccl_flow *f)
{
	return !uccl_sendq_has_records(&f->sendq) && f->train.state == UCCL_TRAINS_ON;
}

/*
 * All of this range has left. Does that of the next message leave right behind it, in packets of the same length? Then
 * both share a train, and what asks for the next one's acknowledgement asks for both. PROTOCOL R259 R261
 */
static bool tx_followed(struct uccl_flow *f, const struct uccl_item *item, uint64_t now)
{
	const struct uccl_item *next = TAILQ_FIRST(&f->sendq.bulk);

	if (!item->each || !next || next->each != item->each || next->off || item->each > f->chunk_bytes)
		return false;
	return tx_trains_go_on(f) && f->paths.burst.left >= next->len &&
	       flow_tx_allowed(f, (uint32_t)next->len, now);
}

/*
 * The rest of this range, which is one piece, ends a message. Does a long one go on behind it in the same train? Every
 * train costs the kernels of both sides some microseconds, beside its bytes. PROTOCOL R287
 */
static bool tx_joined(struct uccl_flow *f, const struct uccl_item *item, uint64_t now)
{
	const struct uccl_item *next = TAILQ_NEXT(item, link);
	uint64_t rest = item->len - item->off;
	const uint8_t *payload;

	if (!f->cfg.train.pads_tx || item->each || item->more || !next || next->each || next->off ||
	    !flow_tx_burst_joins(f, rest, next))
		return false;
	return tx_trains_go_on(f) && uccl_item_payload(item, item->off, (uint32_t)rest, &payload) == rest &&
	       flow_tx_packets_room(f) > rest / f->chunk_bytes + 2 &&
	       flow_tx_allowed(f, (uint32_t)rest + f->chunk_bytes, now);
}

/*
 * So much of it leaves now, `len` as full packets. If what fills none lacks more than may be padded, the last two
 * packets are of one length.
 */
static uint32_t tx_joined_len(const struct uccl_flow *f, const struct uccl_item *item, uint32_t len)
{
	uint32_t each = f->chunk_bytes, tail = (uint32_t)((item->len - item->off) % each);
	uint32_t half = uccl_words((each + tail) / 2 + UCCL_WORD - 1);

	if (!tail || each - tail <= UCCL_TAIL_MAX || half - tail > UCCL_TAIL_MAX ||
	    item->len - item->off - len != tail)
		return len;
	return len > each ? len - each : half;
}

static int tx_bulk(struct uccl_flow *f, struct uccl_tx *tx, uint64_t now)
{
	struct uccl_item *item = TAILQ_FIRST(&f->sendq.bulk);
	const uint8_t *payload;
	struct uccl_sent *e;
	uint32_t len, want, most, trial, packet;
	bool last, followed, joined = false;
	uint64_t left;
	uint16_t path;
	uint8_t flags;

	if (!item)
		return 0;
	if (!flow_tx_room(f)) {
		f->app_limited = false;
		return 0;
	}
	most = item->direct && f->cfg.write.bytes ? uccl_paths_writes_allowed(&f->paths, DESC_CHUNKS_MAX, now) : 0;
	if (most)
		return flow_tx_desc(f, tx, item, most, now);
	trial = f->cfg.packet.find_mtu ? uccl_pmtu_next(&f->pmtu, now) : 0;
	len = trial ? flow_payload(f, trial) : 0;
	if (item->len - item->off < len || uccl_item_payload(item, item->off, len, &payload) < len)
		trial = 0;
	if (!trial)
		len = uccl_item_payload(item, item->off,
					(uint32_t)uccl_min(flow_tx_each(f, item), item->len - item->off), &payload);
	if (!item->off)
		flow_tx_burst_align(f, item->len);
	want = flow_tx_want(f, item, len);
	if (!want || !flow_tx_allowed(f, want, now)) {
		f->app_limited = false;
		return 0;
	}
	packet = len;
	if (!trial) {
		len = flow_tx_train_len(f, item, packet, want, now);
		joined = tx_joined(f, item, now);
	}
	if (joined)
		len = tx_joined_len(f, item, len);
	left = uccl_item_left(item);
	flow_tx_bulk_left(f, item, len);
	uccl_sendq_share(&f->sendq, item, len);
	path = flow_tx_path(f, len, left, now);
	flow_tx_paced(f, path, len, now);
	e = flow_tx_enter(f, item, UCCL_PKT_CHUNK, item->rec, payload, len, path, now);
	uccl_sent_from(e, item->off - len);
	if (trial)
		uccl_pmtu_try(&f->pmtu, f->sent.nxt - 1, len < f->cfg.packet.chunk_bytes ? UCCL_HDR_LEN + len : trial);
	last = item->off == item->len;
	followed = last && tx_followed(f, item, now);
	flags = flow_tx_ack_flags(f, e, last && !followed, len, now);
	if (len > packet)
		return flow_tx_train(f, tx, e, packet, flags, now);
	packet = flow_tx_each(f, item);
	if ((followed || joined) && len < packet && packet - len <= UCCL_TAIL_MAX)
		flags |= UCCL_FLAG_PADDED;
	flow_tx_chunk(f, tx, e, f->sent.nxt - 1, flags, now);
	return 1;
}

int flow_tx_new(struct uccl_flow *f, struct uccl_tx *tx, uint64_t now)
{
	if (uccl_sendq_turn(&f->sendq) && tx_bulk(f, tx, now))
		return 1;
	return tx_record(f, tx, now) || tx_bulk(f, tx, now);
}
