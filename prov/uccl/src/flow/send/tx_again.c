/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What leaves once more, as it was lost: chunks, and segments of them; and what leaves in segments as if it were lost,
 * because it is too long, or was to be written where that is not possible now.
 */
#include "flow/send/tx_internal.h"

/* Bytes in flight up to which a path that answered a time-out is preferred. */
#define ALIVE_BYTES (2 * UCCL_TX_BURST_BYTES)

/*
 * What was lost goes where an answer came from, in a silence the last one, as long as that path is not loaded with it,
 * and its rail is not in doubt; but where writes have queue pairs of their own, this may be what proves the rail.
 * PROTOCOL R59 R401
 */
static bool tx_rtx_there(const struct uccl_flow *f, uint16_t path)
{
	const struct uccl_path *p = &f->paths.list[path];

	return p->inflight < ALIVE_BYTES && (f->cfg.write.later || !uccl_paths_rail_doubted(&f->paths, p->rail));
}

static uint16_t tx_rtx_path(struct uccl_flow *f, const struct uccl_sent *e, uint64_t now)
{
	uint16_t alive = f->paths.alive;

	if (e->timed_out && uccl_path_usable(&f->paths.list[alive]) && tx_rtx_there(f, alive))
		return alive;
	if (f->paths.control.n) {
		uint16_t path = uccl_paths_control_next(&f->paths);

		if (tx_rtx_there(f, path))
			return path;
	}
	return flow_tx_path(f, e->len, 0, now);
}

/*
 * So many bytes that were lost may leave now. What could not leave as it was has spent its credit already: spent twice,
 * and received once, it would be missing for ever.
 */
static bool tx_lost_allowed(struct uccl_flow *f, uint32_t bytes, const struct uccl_sent *e, uint64_t now)
{
	return uccl_event_tx_rtx_chunk(f, e->unsent ? 0 : bytes, e->type == UCCL_PKT_DESC, now);
}

/*
 * So many bytes of what waits first have left; `lost`: once more. If nothing follows a long one, a PROBE does: its
 * answer shows whether they were lost again. PROTOCOL R410
 */
static void tx_again_left(struct uccl_flow *f, const struct uccl_sent *e, uint32_t bytes, bool lost, uint64_t now)
{
	flow_path_fly(f, e->path, bytes);
	uccl_pto_resent(&f->loss.pto, &f->loss.times, now);
	if (lost && e->len > UCCL_CONTROL_BYTES && !uccl_sendq_waits(&f->sendq) && !uccl_sent_waits(&f->sent))
		uccl_paths_probe(&f->paths, e->path);
}

/*
 * Make it fit: what was written leaves in segments, and a segment, or a chunk that was not cut, in sub-segments if it
 * is too long for the path. False: the peer puts together as many as it may have. PROTOCOL R153 R154
 */
static bool tx_fit(struct uccl_flow *f, struct uccl_sent *e)
{
	uint32_t most = uccl_words(f->pmtu.bytes - UCCL_HDR_LEN), len = e->len;
	uint8_t first = 0;

	if (e->write && !e->cut.segments.count)
		uccl_sent_cut_segments(&e->cut, e->len,
				       (uint8_t)((e->len + f->cfg.packet.chunk_bytes - 1) / f->cfg.packet.chunk_bytes));
	if (e->cut.segments.count) {
		first = (uint8_t)__builtin_ctzll(uccl_segment_map_missing(&e->cut.segments));
		len = uccl_segment_map_len(&e->cut.segments, first);
	}
	if (!flow_tx_long(f, e->cut.subs.count ? e->cut.subs.each : len))
		return true;
	if (!e->kept && f->sent.kept == UCCL_KEPT_MAX)
		return false;
	if (!e->cut.segments.count)
		uccl_sent_cut_segments(&e->cut, e->len, 1);
	uccl_sent_divide(&f->sent, e, first, (uint8_t)((len + most - 1) / most));
	return true;
}

/* The next one that may leave. What must wait for others lets those pass. */
static struct uccl_sent *tx_lost_next(struct uccl_flow *f, uint64_t *csn)
{
	const struct uccl_rtxq *q = &f->sent.rtxq[UCCL_RTX_LONG];
	struct uccl_sent *e = uccl_sent_next(&f->sent, csn);

	for (uint32_t n = q->tail - q->head; e && !tx_fit(f, e); e = uccl_sent_next(&f->sent, csn)) {
		if (!n--)
			return NULL;
		uccl_sent_next_later(&f->sent);
	}
	return e;
}

/* Segments that are missing: as many as may leave. */
static int tx_segments_again(struct uccl_flow *f, struct uccl_tx *tx, struct uccl_sent *e, uint64_t csn, uint64_t now)
{
	const struct uccl_segment_map *cut = uccl_sent_cut_map(&e->cut);
	uint32_t room = flow_tx_packets_room(f), bytes;
	bool first = e->unsent;
	uint64_t map;

	/* A credit of any size lets one go. PROTOCOL R63 */
	if (f->cfg.policy.credit->pull && !first)
		room = (uint32_t)uccl_min(room, uccl_event_credit_left(f) / cut->each + 1);
	map = uccl_segment_map_first(uccl_segment_map_missing(cut), room);
	if (!map)
		return 0;
	bytes = uccl_segment_map_bytes(cut, map);
	if (!tx_lost_allowed(f, bytes, e, now))
		return 0;
	uccl_sent_route(e, tx_rtx_path(f, e, now));
	flow_tx_segments_again(f, e, csn, map, now);
	/* The rest will spend credit once more, so it counts as lost. */
	if (first && bytes < e->len)
		uccl_credit_lost(&f->credit, e->len - bytes);
	tx_again_left(f, e, bytes, !first, now);
	return flow_tx_run(f, tx, now);
}

int flow_tx_retransmit(struct uccl_flow *f, struct uccl_tx *tx, uint64_t now)
{
	struct uccl_sent *e;
	uint64_t csn;
	bool lost;

	e = tx_lost_next(f, &csn);
	if (!e)
		return 0;
	if (e->cut.segments.count)
		return tx_segments_again(f, tx, e, csn, now);
	if (!tx_lost_allowed(f, e->len, e, now))
		return 0;
	lost = !e->unsent;
	uccl_sent_route(e, tx_rtx_path(f, e, now));
	f->cfg.stats->rtx_packets++;
	f->cfg.stats->rtx_bytes += e->len;
	uccl_sent_again(&f->sent, e, now);
	uccl_rate_sent(flow_rate(f, e->path), &e->rate, false, now);
	flow_tx_chunk(f, tx, e, csn, UCCL_FLAG_RTX | UCCL_FLAG_AR, now);
	tx_again_left(f, e, e->len, lost, now);
	return 1;
}

int flow_tx_wait(struct uccl_flow *f, struct uccl_tx *tx, const struct uccl_sent *e, uint64_t now)
{
	flow_path_land(f, e->path, e->len);
	uccl_sent_wait(&f->sent, f->sent.nxt - 1);
	return flow_tx_retransmit(f, tx, now);
}
