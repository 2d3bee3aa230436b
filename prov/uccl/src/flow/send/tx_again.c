/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What leaves once more, as it was lost: chunks, and parts of them; and what leaves in fragments or pieces, as if it
 * were lost.
 */
#include "flow/send/tx_internal.h"

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
	return flow_tx_path(f, e->len, 0, now);
}

/*
 * So many bytes that were lost may leave now. What leaves in pieces for the first time has spent its credit already:
 * spent twice, and received once, it would be missing for ever.
 */
static bool tx_lost_allowed(struct uccl_flow *f, uint32_t bytes, const struct uccl_sent *e, uint64_t now)
{
	return uccl_event_tx_rtx_chunk(f, e->ntx ? bytes : 0, e->type == UCCL_PKT_DESC, now);
}

static bool tx_full(const struct uccl_flow *f)
{
	return uccl_sent_packets(&f->sent) >= f->limits.slots;
}

/* All of what waits first has left, so many bytes. */
static void tx_again_left(struct uccl_flow *f, const struct uccl_sent *e, uint32_t bytes, uint64_t now)
{
	uccl_path_fly(&f->paths.list[e->path], bytes);
	uccl_pto_resent(&f->pto, &f->times, now);
}

/* A part in more pieces than the peer has places: as many of them at a time. PROTOCOL R165 */
static int tx_part_again(struct uccl_flow *f, struct uccl_tx *tx, struct uccl_sent *e, uint64_t csn, uint64_t now)
{
	uint8_t part = (uint8_t)__builtin_ctzll(uccl_parts_missing(&e->parts));
	uint32_t bytes = uccl_parts_len(&e->parts, part);
	bool done;

	/* It came after all, in an earlier row. */
	if (f->sent.begun.next && f->sent.begun.part != part)
		uccl_sent_parts_anew(&f->sent);
	if (!f->sent.begun.next && !tx_lost_allowed(f, bytes, e, now))
		return 0;
	if (!f->sent.begun.flying)
		uccl_sent_route(e, tx_rtx_path(f, e, now));
	f->sent.begun.part = part;
	done = flow_tx_part(f, tx, e, csn, part, UCCL_FLAG_RTX, now);
	uccl_sent_flies(&f->sent, e, now);
	f->cfg.stats->rtx_packets++;
	f->cfg.stats->rtx_bytes += tx->payload_len;
	if (done) {
		uccl_sent_run_left(&f->sent, csn, now);
		tx_again_left(f, e, bytes, now);
	}
	return 1;
}

/* Parts of a chunk that are missing: as many as may leave. */
static int tx_parts_again(struct uccl_flow *f, struct uccl_tx *tx, struct uccl_sent *e, uint64_t csn, uint64_t now)
{
	uint32_t each = flow_tx_packets(f, e->parts.each), room = flow_tx_parts_room(f, each), bytes;
	uint64_t map;

	if (f->sent.begun.next || (each > f->limits.slots && !f->sent.inflight_chunks))
		return tx_part_again(f, tx, e, csn, now);
	/* A credit of any size lets one go. PROTOCOL R63 */
	if (f->cfg.credit->pull)
		room = (uint32_t)uccl_min(room, uccl_event_credit_left(f) / e->parts.each + 1);
	map = uccl_parts_first(uccl_parts_missing(&e->parts), room);
	/* Those of several packets have their turn, too. PROTOCOL R165 */
	f->pieces_wait = !map && each > 1;
	if (!map)
		return 0;
	bytes = uccl_parts_bytes(&e->parts, map);
	if (!tx_lost_allowed(f, bytes, e, now))
		return 0;
	uccl_sent_route(e, tx_rtx_path(f, e, now));
	flow_tx_parts_again(f, e, csn, map, now);
	tx_again_left(f, e, bytes, now);
	return flow_tx_run(f, tx, now);
}

int flow_tx_retransmit(struct uccl_flow *f, struct uccl_tx *tx, uint64_t now)
{
	bool done = true, parts, again;
	struct uccl_sent *e;
	uint64_t csn;

	e = uccl_sent_next(&f->sent, &csn);
	/* What is begun waits for places. They may be of writes that wait for a descriptor. PROTOCOL R166 */
	if (e && f->sent.begun.next && tx_full(f))
		e = uccl_sent_next_small(&f->sent, &csn);
	if (!e)
		return 0;
	if (e->parts.count)
		return tx_parts_again(f, tx, e, csn, now);
	parts = e->write || flow_tx_long(f, e->len);
	if (!parts || !f->sent.begun.next) {
		/* The receiver keeps no more in part. PROTOCOL R154 */
		if (parts && f->sent.pieced == UCCL_PIECED_MAX)
			return 0;
		/* Each piece takes a place of the receive queue. PROTOCOL R165 */
		f->pieces_wait = parts && !e->write && f->sent.inflight_chunks &&
				 uccl_sent_packets(&f->sent) + flow_tx_packets(f, e->len) > f->limits.slots;
		if (f->pieces_wait)
			return 0;
		if (!tx_lost_allowed(f, e->len, e, now))
			return 0;
	}
	/* What is begun goes on where it works, too. */
	if (!parts || !f->sent.begun.flying)
		uccl_sent_route(e, tx_rtx_path(f, e, now));
	again = e->ntx > 0;
	if (e->write)
		done = flow_tx_frag(f, tx, e, csn, now);
	else if (parts)
		done = flow_tx_pieces(f, tx, e, csn, now);
	if (parts)
		uccl_sent_flies(&f->sent, e, now);
	f->cfg.stats->rtx_packets += again;
	f->cfg.stats->rtx_bytes += !again ? 0 : parts ? tx->payload_len : e->len;
	if (done) {
		if (parts)
			uccl_sent_pieces(&f->sent, e, !e->write);
		uccl_sent_again(&f->sent, e, now);
		uccl_rate_sent(&f->rate, &e->rate, false, now);
		if (!parts)
			flow_tx_chunk(f, tx, e, csn, UCCL_FLAG_RTX | UCCL_FLAG_AR, now);
		tx_again_left(f, e, e->len, now);
	}
	return 1;
}

int flow_tx_parts(struct uccl_flow *f, struct uccl_tx *tx, const struct uccl_sent *e, uint64_t now)
{
	uccl_path_land(&f->paths.list[e->path], e->len);
	uccl_sent_parts(&f->sent, f->sent.nxt - 1);
	return flow_tx_retransmit(f, tx, now);
}
