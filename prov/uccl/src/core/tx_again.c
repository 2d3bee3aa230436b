/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What leaves once more, as it was lost: chunks, and parts of them; and what leaves in fragments or pieces, as if it
 * were lost.
 */
#include "core/tx.h"

/* Bytes in flight up to which a path that answered a time-out is preferred. */
#define ALIVE_BYTES (2 * UCCL_TX_BURST_BYTES)

/*
 * What was lost goes where an answer came from, in a silence the last one, as long as that path is not loaded with it.
 * PROTOCOL R59
 */
static uint16_t tx_rtx_path(struct uccl_flow *f, const struct uccl_sent *e, uint64_t now)
{
	const struct uccl_path *p = &f->paths.list[f->paths.alive];

	if (e->timed_out && uccl_path_usable(p) && p->inflight < ALIVE_BYTES)
		return f->paths.alive;
	if (f->paths.ncontrol) {
		uint16_t path = uccl_paths_control_next(&f->paths);

		if (f->paths.list[path].inflight < ALIVE_BYTES)
			return path;
	}
	return flow_tx_path(f, e->len, now);
}

/* So many bytes that were lost may leave now. */
static bool tx_lost_allowed(struct uccl_flow *f, uint32_t bytes, bool desc, uint64_t now)
{
	return uccl_event_tx_rtx_chunk(f, bytes, desc, now);
}

/* Parts of a chunk that are missing: as many as may leave. */
static int tx_parts_again(struct uccl_flow *f, struct uccl_tx *tx, struct uccl_sent *e, uint64_t csn, uint64_t now)
{
	uint32_t each = flow_tx_packets(f, e->parts.each), room = flow_tx_parts_room(f, each), bytes;
	uint64_t map;

	/* A credit of any size lets one go. PROTOCOL R63 */
	if (f->cfg.credit->pull)
		room = (uint32_t)uccl_min(room, uccl_event_credit_left(f) / e->parts.each + 1);
	map = uccl_parts_first(uccl_parts_missing(&e->parts), room);
	/* Those of several packets have their turn, too. PROTOCOL R165 */
	f->pieces_wait = !map && each > 1;
	if (!map)
		return 0;
	bytes = uccl_parts_bytes(&e->parts, map);
	if (!tx_lost_allowed(f, bytes, false, now))
		return 0;
	uccl_sent_route(e, tx_rtx_path(f, e, now));
	uccl_path_fly(&f->paths.list[e->path], bytes);
	flow_tx_parts_again(f, e, csn, map, now);
	if (!f->asking.backoff)
		uccl_asking_arm(&f->asking, &f->times, true, now);
	return flow_tx_row(f, tx, now);
}

int flow_tx_retransmit(struct uccl_flow *f, struct uccl_tx *tx, uint64_t now)
{
	bool done = true, parts, again;
	struct uccl_sent *e;
	uint64_t csn;

	e = uccl_sent_next(&f->sent, &csn);
	if (!e)
		return 0;
	if (e->parts.count)
		return tx_parts_again(f, tx, e, csn, now);
	parts = e->write || flow_tx_long(f, e->len);
	if (!f->sent.frag_next) {
		/* The receiver keeps no more in part. PROTOCOL R154 */
		if (parts && f->sent.pieced == UCCL_PIECED_MAX)
			return 0;
		/* Each piece takes a place of the receive queue. PROTOCOL R165 */
		f->pieces_wait = parts && !e->write && f->sent.inflight_chunks &&
				 uccl_sent_packets(&f->sent) + flow_tx_packets(f, e->len) > f->granted.slots;
		if (f->pieces_wait)
			return 0;
		if (!tx_lost_allowed(f, e->len, e->type == UCCL_PKT_DESC, now))
			return 0;
		uccl_sent_route(e, tx_rtx_path(f, e, now));
	}
	again = e->ntx > 0;
	if (e->write)
		done = flow_tx_frag(f, tx, e, csn, now);
	else if (parts)
		done = flow_tx_pieces(f, tx, e, csn, now);
	f->cfg.stats->rtx_packets += again;
	f->cfg.stats->rtx_bytes += !again ? 0 : parts ? tx->payload_len : e->len;
	if (done) {
		uccl_sent_again(&f->sent, e, now);
		uccl_path_fly(&f->paths.list[e->path], e->len);
		if (!parts)
			flow_tx_chunk(f, tx, e, csn, UCCL_FLAG_RTX | UCCL_FLAG_AR, now);
		if (!f->asking.backoff)
			uccl_asking_arm(&f->asking, &f->times, true, now);
	}
	return 1;
}

int flow_tx_parts(struct uccl_flow *f, struct uccl_tx *tx, const struct uccl_sent *e, uint64_t now)
{
	uccl_path_land(&f->paths.list[e->path], e->len);
	uccl_sent_parts(&f->sent, f->sent.nxt - 1);
	return flow_tx_retransmit(f, tx, now);
}
