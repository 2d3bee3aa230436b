/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Receiving side of chunks that come in segments: each is delivered when it comes, by its place in the message, and a
 * map says which have. Nothing of them is kept here. PROTOCOL R170 R171
 */
#include <string.h>

#include "flow/internal.h"

/* A write that is sent again, as a segment of it has it. */
static struct uccl_rewrite rewrite_of(uint64_t csn, const struct uccl_segment_map *segments, const uint8_t *rec)
{
	return (struct uccl_rewrite){
		.csn = csn,
		.at = uccl_get64(rec + 8),
		.id = uccl_get32(rec),
		.gen = uccl_get32(rec + 4),
		.len = segments->total,
		.path = uccl_get16(rec + UCCL_SEGMENT_PATH),
	};
}

/* One segment, or some in a row, of a chunk. `segments` has its numbers, and says whether they are taken. */
static enum uccl_drop segments_take(struct uccl_flow *f, uint64_t csn, struct uccl_segment_map *segments,
				    const struct uccl_segment *s, const struct uccl_chunk_in *in, uint64_t now)
{
	uint32_t before = (in->segments - 1u) * in->each, last = s->index + in->segments - 1u;
	struct uccl_chunk_in one = *in;
	struct uccl_rewrite w;
	uint8_t rec[UCCL_REC_LEN];
	enum uccl_drop reason;
	uint64_t map;
	bool took;

	if (last >= segments->count || !uccl_segment_map_fits(segments, (uint8_t)last, in->len - before) ||
	    (before && in->each != segments->each))
		return UCCL_DROP_RECORD;
	map = uccl_segment_map_run(s->index, (uint8_t)last);
	if (segments->have & map)
		return UCCL_DROP_DUPLICATE;
	if (f->cfg.write.bytes) {
		w = rewrite_of(csn, segments, in->rec);
		one.doubtful = !(uccl_segment_map_missing(segments) & ~map);
		reason = uccl_write_rx_rewrite(&f->rx.write, &w, one.doubtful, now);
		if (reason != UCCL_DROP_COUNT)
			return reason;
	}
	memcpy(rec, in->rec, UCCL_SEGMENT_REC);
	memset(rec + UCCL_SEGMENT_REC, 0, UCCL_REC_LEN - UCCL_SEGMENT_REC);
	uccl_put64(rec + 8, uccl_get64(rec + 8) + uccl_segment_map_at(segments, s->index));
	one.rec = rec;
	reason = f->cfg.ops->deliver(f, &one, now);
	took = flow_took(reason) && (in->segments == 1 || reason == UCCL_DROP_COUNT);
	if (took)
		uccl_segment_map_took(segments, map);
	if (one.doubtful)
		uccl_write_rx_rewrite_end(&f->rx.write, &w, took ? reason : UCCL_DROP_MEMORY,
					  f->rx.ack_tracker.paths[w.path].seen_csn > csn + 1, now);
	return reason;
}

enum uccl_drop flow_segment_rx(struct uccl_flow *f, uint64_t csn, const struct uccl_segment *s,
			       const struct uccl_chunk_in *in, bool *taken, uint64_t now)
{
	struct uccl_segment_map *segments, was;
	enum uccl_drop reason;

	*taken = false;
	if (!f->cfg.train.segments_rx && !f->cfg.write.bytes)
		return UCCL_DROP_STATE;
	if (!uccl_rx_segments_open(&f->rx.segments, f->cfg.window))
		return UCCL_DROP_MEMORY;
	segments = flow_segment_map(f, csn);
	was = *segments;
	/* Of those that follow it is enough that they are cut likewise, as `take` sees the rest. */
	if (was.count ? was.count != s->count || was.total != s->total
		      : !uccl_segment_fits(s, in->segments > 1 ? in->each : in->len))
		return UCCL_DROP_RECORD;
	if (!was.count)
		uccl_segment_map_init(segments, s->total, s->count);
	reason = segments_take(f, csn, segments, s, in, now);
	*taken = segments->have != was.have;
	/* What is refused leaves no trace: the first segment of a chunk would decide how it is cut. PROTOCOL R315 */
	if (!*taken)
		*segments = was;
	if (!was.count && segments->count)
		uccl_rx_segments_began(&f->rx.segments);
	return reason;
}

bool flow_segments_begun(const struct uccl_flow *f, uint64_t csn)
{
	return f->rx.segments.n && flow_segment_map(f, csn)->count;
}

bool flow_segments_whole(const struct uccl_flow *f, uint64_t csn)
{
	return !uccl_segment_map_missing(flow_segment_map(f, csn));
}

bool flow_segments_gap(const struct uccl_flow *f, uint64_t csn)
{
	uint64_t have = flow_segment_map(f, csn)->have;

	return have & (have + 1);
}

bool flow_segments_had(const struct uccl_flow *f, uint64_t csn, uint8_t index)
{
	return f->rx.segments.n && uccl_segment_map_has(flow_segment_map(f, csn), index);
}

void flow_segments_end(struct uccl_flow *f, uint64_t csn)
{
	struct uccl_segment_map *segments = flow_segment_map(f, csn);

	if (segments->count)
		uccl_rx_segments_ended(&f->rx.segments);
	*segments = (struct uccl_segment_map){0};
}

void flow_segments_tell(struct uccl_flow *f, struct uccl_ack *a, uint8_t most)
{
	uint32_t seen = 0, all = f->rx.segments.n + f->rx.subsegments.n;
	/* Those of a chunk are told together: its own, and what came of the one that leaves in sub-segments. */
	uint8_t lines = f->rx.subsegments.n ? 2 : 1;
	uint64_t csn = f->rx.arrived.nxt;

	/* Not all of them fit: each has its turn, or a sender that must know of a later one waits. PROTOCOL R171 */
	if (all > most && f->rx.segments.next > csn && f->rx.segments.next - csn < f->cfg.window)
		csn = f->rx.segments.next;
	a->nsegments = 0;
	for (uint32_t i = 0; i < f->cfg.window && seen < all && most - a->nsegments >= lines; i++, csn++) {
		const struct uccl_segment_map *segments = flow_segment_map(f, csn);
		uint8_t n = a->nsegments;

		if (csn - f->rx.arrived.nxt == f->cfg.window)
			csn = f->rx.arrived.nxt;
		seen += segments->count > 0;
		if (segments->have)
			a->segments[a->nsegments++] = (struct uccl_ack_segments){.have = segments->have};
		if (f->rx.subsegments.n)
			a->nsegments += uccl_subsegments_tell(&f->rx.subsegments, csn, &a->segments[a->nsegments],
							      (uint8_t)(most - a->nsegments), &seen);
		for (; n < a->nsegments; n++)
			a->segments[n].ahead = (uint16_t)(csn - f->rx.arrived.nxt);
	}
	uccl_rx_segments_told(&f->rx.segments, csn);
}
