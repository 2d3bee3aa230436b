/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Chunks in segments: a train is one chunk, its packets leave in a row on one path, and so do those that are sent
 * again, of a train, of a direct write, and of what is too long for the path. PROTOCOL R170 R171 R172
 */
#include <stddef.h>
#include <string.h>

#include "flow/send/tx_internal.h"

/* This one of its cut, in a packet of its own. */
static void tx_segment(struct uccl_flow *f, struct uccl_tx *tx, struct uccl_sent *e, uint64_t csn, uint8_t index,
		       uint8_t flags, uint64_t now)
{
	const struct uccl_segment_map *cut = uccl_sent_cut_map(&e->cut);
	bool sub = e->cut.subs.count, alone = sub || flags & UCCL_FLAG_RTX;
	struct uccl_segment s = {
		.index = sub ? e->cut.subs.of : index,
		.count = e->cut.segments.count,
		.sub = sub ? index : 0,
		.subs = e->cut.subs.count,
		.total = e->cut.segments.total,
	};
	uint8_t rec[UCCL_REC_LEN];
	struct uccl_hdr h = {
		.type = UCCL_PKT_SEGMENT,
		.flags = flags,
		.rtype = e->rtype,
		.csn = (uint32_t)csn,
		.rec = rec,
	};

	uccl_segment_encode(rec, e->rec, &s);
	tx->control = flow_tx_payload_kind(flags);
	/* PROTOCOL R160 */
	tx->single = alone;
	tx->payload =
		e->payload + uccl_segment_map_at(cut, index) +
		(sub ? uccl_segment_map_at(&e->cut.segments, e->cut.subs.of) : 0);
	tx->mr = e->item->mr;
	tx->ours = e->item->ours;
	tx->payload_len = uccl_segment_map_len(cut, index);
	tx->cookie = csn;
	flow_tx_prefetch(f, tx->payload, tx->payload_len);
	if (!f->cfg.tx_sync)
		uccl_sent_read(e);
	flow_tx_packet(f, tx, &h, e->path, alone ? FLOW_BLOCK_DUE : FLOW_BLOCK_NEVER, now);
	tx->queue = sub ? 0 : flow_tx_queue(e, flags);
	f->cfg.stats->subsegments_tx += sub;
}

int flow_tx_run(struct uccl_flow *f, struct uccl_tx *tx, uint64_t now)
{
	const struct uccl_sent_run *r = &f->sent.out;
	struct uccl_sent *e = uccl_sent_at(&f->sent, r->csn);
	uint8_t flags = (uint8_t)(r->flags | (uccl_sent_run_last(&f->sent) ? r->last : 0));
	bool again = r->flags & UCCL_FLAG_RTX;
	uint32_t pseq = e->packet.pseq;

	tx_segment(f, tx, e, r->csn, uccl_sent_run_at(&f->sent), flags, now);
	if (flags & UCCL_FLAG_DELAY)
		uccl_path_quiet(&f->paths.list[e->path]);
	uccl_sent_run_next(&f->sent);
	/* While it leaves, the number of its last packet is what will be. */
	uccl_sent_packet_left(&e->packet, r->left ? pseq : f->paths.list[e->path].next_seq - 1);
	f->cfg.stats->rtx_packets += again;
	f->cfg.stats->rtx_bytes += again ? tx->payload_len : 0;
	return 1;
}

/* Of a packet nothing else differs from the one before it in its train. */
static void tx_follow(struct uccl_tx *tx, const struct uccl_tx *before, uint32_t each)
{
	memcpy(tx, before, offsetof(struct uccl_tx, hdr) + UCCL_HDR_LEN);
	tx->burst = UCCL_BURST_FOLLOWS;
	tx->payload = (const uint8_t *)before->payload + each;
	uccl_tx_row_count(tx->hdr, before->hdr, 1);
}

/* So many packets, `most` at most, follow the one that left last and are like it: they leave. `each`: their payload. */
static int tx_followers(struct uccl_flow *f, uint32_t most, uint32_t *each)
{
	const struct uccl_sent_run *r = &f->sent.out;
	const struct uccl_sent *e;
	uint32_t n;

	/* Those that are sent again are seldom, and so is a trace, which names each. */
	if (!r->left || r->flags || f->close.seen || f->cfg.trace)
		return 0;
	e = uccl_sent_at(&f->sent, r->csn);
	if (e->cut.subs.count)
		return 0;
	*each = e->cut.segments.each;
	/* What leaves first leaves whole: these are all from here to the end, and the last is not among them. */
	n = (uint32_t)uccl_min(most, e->cut.segments.count - 1u - uccl_sent_run_at(&f->sent));
	uccl_path_sent(&f->paths.list[e->path], n, *each);
	uccl_sent_run_skip(&f->sent, (uint8_t)n);
	f->cfg.stats->tx_packets += n;
	return (int)n;
}

int uccl_flow_tx_follow(struct uccl_flow *f, struct uccl_tx *tx, int n)
{
	uint32_t each;
	int i;

	n = tx_followers(f, (uint32_t)n, &each);
	for (i = 0; i < n; i++, tx++) {
		tx_follow(tx + 1, tx, each);
		flow_tx_prefetch(f, tx[1].payload, each);
	}
	return n;
}

int uccl_flow_tx_row(struct uccl_flow *f, struct uccl_tx *tx)
{
	uint32_t each;
	int n = tx_followers(f, UINT16_MAX, &each);

	if (!n)
		return 0;
	tx->row = (uint16_t)n;
	if (f->cfg.tx_sync && each <= UCCL_TX_PREFETCH_MAX)
		uccl_prefetch_read(uccl_tx_row_payload(tx, 1), (uint32_t)n * each);
	return n;
}

void flow_tx_segments_again(struct uccl_flow *f, struct uccl_sent *e, uint64_t csn, uint64_t map, uint64_t now)
{
	const struct uccl_run_cfg cfg = {
		.pseq = f->paths.list[e->path].next_seq,
		.flags = e->ntx ? UCCL_FLAG_RTX : 0,
		.last = UCCL_FLAG_AR,
	};

	uccl_sent_run(&f->sent, csn, map, &cfg, now);
	uccl_rate_sent(flow_rate(f, e->path), &e->rate, false, now);
	uccl_sent_packet_long(&e->packet, UCCL_HDR_LEN + uccl_sent_cut_map(&e->cut)->each, true);
}

uint32_t flow_tx_train_len(struct uccl_flow *f, const struct uccl_item *item, uint32_t len, uint32_t want,
			   uint64_t now)
{
	uint32_t most = flow_tx_packets_room(f), room, total;
	uint64_t left = uccl_event_credit_left(f);
	const uint8_t *payload;

	if (f->cfg.train.segments_tx < 2 || f->train.state != UCCL_TRAINS_ON || most < 2 ||
	    len < flow_tx_each(f, item) || item->len - item->off < 2ull * len)
		return len;
	most = (uint32_t)uccl_min(most, f->cfg.train.segments_tx);
	most = (uint32_t)uccl_min(most, uccl_max(flow_tx_burst_left(f, len) / len, 1));
	/* A credit of any size lets a packet go. */
	most = (uint32_t)uccl_min(most, left / len + 1);
	total = (uint32_t)uccl_min(item->len - item->off, (uint64_t)most * len);
	total = uccl_item_payload(item, item->off, total, &payload);
	/* What fills no packet is the next chunk: only packets of one length share a train. PROTOCOL R167 */
	total -= total % len;
	for (room = total / len; total > want && room > 1 && !flow_tx_allowed(f, total, now); total = room * len)
		room /= 2;
	return total;
}

int flow_tx_train(struct uccl_flow *f, struct uccl_tx *tx, struct uccl_sent *e, uint32_t packet, uint8_t ar,
		  uint64_t now)
{
	const struct uccl_run_cfg cfg = {.pseq = f->paths.list[e->path].next_seq, .last = ar};

	uccl_sent_train(&f->sent, (uint8_t)((e->len + packet - 1) / packet), &cfg);
	uccl_sent_packet_long(&e->packet, UCCL_HDR_LEN + e->cut.segments.each, false);
	return flow_tx_run(f, tx, now);
}
