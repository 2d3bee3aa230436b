/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Receiving side of chunks that come in segments: each is delivered when it comes, by its place in the message, and a
 * map says which have. Nothing of them is kept here. PROTOCOL R170 R171
 */
#include <string.h>

#include "flow/internal.h"

/* A write that is sent again, as a segment of it has it. */
static struct uccl_rewrite rewrite_of(uint64_t csn, const struct uccl_parts *parts, const uint8_t *rec)
{
	return (struct uccl_rewrite){
		.csn = csn,
		.at = uccl_get64(rec + 8),
		.id = uccl_get32(rec),
		.gen = uccl_get32(rec + 4),
		.len = parts->total,
		.path = uccl_get16(rec + UCCL_SEGMENT_PATH),
	};
}

/* One segment, or some in a row, of a chunk whose numbers `parts` has. `parts` says whether they are taken. */
static enum uccl_drop parts_take(struct uccl_flow *f, uint64_t csn, struct uccl_parts *parts,
				 const struct uccl_segment *s, const struct uccl_chunk_in *in, uint64_t now)
{
	uint32_t before = (in->parts - 1u) * in->each, last = s->index + in->parts - 1u;
	struct uccl_chunk_in one = *in;
	struct uccl_rewrite w;
	uint8_t rec[UCCL_REC_LEN];
	enum uccl_drop reason;
	uint64_t map;
	bool took;

	if (last >= parts->count || !uccl_parts_fits(parts, (uint8_t)last, in->len - before) ||
	    (before && in->each != parts->each))
		return UCCL_DROP_RECORD;
	map = uccl_parts_run(s->index, (uint8_t)last);
	if (parts->have & map)
		return UCCL_DROP_DUPLICATE;
	if (f->cfg.write_bytes) {
		w = rewrite_of(csn, parts, in->rec);
		one.doubtful = !(uccl_parts_missing(parts) & ~map);
		reason = uccl_write_rx_rewrite(&f->write_rx, &w, one.doubtful, now);
		if (reason != UCCL_DROP_COUNT)
			return reason;
	}
	memcpy(rec, in->rec, UCCL_SEGMENT_REC);
	memset(rec + UCCL_SEGMENT_REC, 0, UCCL_REC_LEN - UCCL_SEGMENT_REC);
	uccl_put64(rec + 8, uccl_get64(rec + 8) + uccl_parts_at(parts, s->index));
	one.rec = rec;
	reason = f->cfg.ops->deliver(f, &one, now);
	took = flow_took(reason) && (in->parts == 1 || reason == UCCL_DROP_COUNT);
	if (took)
		uccl_parts_took(parts, map);
	if (one.doubtful)
		uccl_write_rx_rewrite_end(&f->write_rx, &w, took ? reason : UCCL_DROP_MEMORY,
					  f->ack_tracker.paths[w.path].seen_csn > csn + 1, now);
	return reason;
}

enum uccl_drop flow_part_rx(struct uccl_flow *f, uint64_t csn, const struct uccl_segment *s,
			    const struct uccl_chunk_in *in, bool *taken, uint64_t now)
{
	struct uccl_parts *parts = flow_parts(f, csn), was = *parts;
	enum uccl_drop reason;

	*taken = false;
	if (!f->cfg.parts_rx && !f->cfg.write_bytes)
		return UCCL_DROP_STATE;
	/* Of those that follow it is enough that they are cut likewise, as `take` sees the rest. */
	if (was.count ? was.count != s->count || was.total != s->total
		      : !uccl_segment_fits(s, in->parts > 1 ? in->each : in->len))
		return UCCL_DROP_RECORD;
	if (!was.count)
		uccl_parts_init(parts, s->total, s->count);
	reason = parts_take(f, csn, parts, s, in, now);
	*taken = parts->have != was.have;
	/* What is refused leaves no trace: the first segment of a chunk would decide how it is cut. PROTOCOL R315 */
	if (!*taken)
		*parts = was;
	f->nrx_parts += !was.count && parts->count;
	return reason;
}

bool flow_parts_begun(const struct uccl_flow *f, uint64_t csn)
{
	return f->nrx_parts && flow_parts(f, csn)->count;
}

bool flow_parts_whole(const struct uccl_flow *f, uint64_t csn)
{
	return !uccl_parts_missing(flow_parts(f, csn));
}

bool flow_parts_gap(const struct uccl_flow *f, uint64_t csn)
{
	uint64_t have = flow_parts(f, csn)->have;

	return have & (have + 1);
}

bool flow_parts_had(const struct uccl_flow *f, uint64_t csn, uint8_t index)
{
	return f->nrx_parts && uccl_parts_has(flow_parts(f, csn), index);
}

void flow_parts_end(struct uccl_flow *f, uint64_t csn)
{
	struct uccl_parts *parts = flow_parts(f, csn);

	f->nrx_parts -= parts->count > 0;
	*parts = (struct uccl_parts){ 0 };
}

void flow_parts_tell(struct uccl_flow *f, struct uccl_ack *a, uint8_t most)
{
	uint32_t seen = 0, all = f->nrx_parts + f->pieces.n;
	/* Those of a chunk are told together: its own, and what came of the one that leaves in sub-segments. */
	uint8_t lines = f->pieces.n ? 2 : 1;
	uint64_t csn = f->rcv.nxt;

	/* Not all of them fit: each has its turn, or a sender that must know of a later one waits. PROTOCOL R171 */
	if (all > most && f->parts_told > csn && f->parts_told - csn < f->cfg.window)
		csn = f->parts_told;
	a->nparts = 0;
	for (uint32_t i = 0; i < f->cfg.window && seen < all && most - a->nparts >= lines; i++, csn++) {
		const struct uccl_parts *parts = flow_parts(f, csn);
		uint8_t n = a->nparts;

		if (csn - f->rcv.nxt == f->cfg.window)
			csn = f->rcv.nxt;
		seen += parts->count > 0;
		if (parts->have)
			a->parts[a->nparts++] = (struct uccl_ack_parts){ .have = parts->have };
		if (f->pieces.n)
			a->nparts += uccl_pieces_tell(&f->pieces, csn, &a->parts[a->nparts],
						      (uint8_t)(most - a->nparts), &seen);
		for (; n < a->nparts; n++)
			a->parts[n].ahead = (uint16_t)(csn - f->rcv.nxt);
	}
	f->parts_told = csn;
}
