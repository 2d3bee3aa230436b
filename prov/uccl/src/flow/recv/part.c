/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Receiving side of chunks that come in parts: each part is delivered when it comes, by its place in the message, and a
 * map says which have. Nothing of them is kept here. PROTOCOL R170 R171
 */
#include <string.h>

#include "flow/internal.h"

static struct uccl_parts *parts_of(const struct uccl_flow *f, uint64_t csn)
{
	return &f->rx_parts[csn & (f->cfg.window - 1)];
}

/* The numbers of the chunk as a part tells them; of one that has begun, they must be the same. */
static enum uccl_drop parts_open(struct uccl_parts *parts, const struct uccl_chunk_part *part, const uint8_t *rec,
				 uint32_t len)
{
	struct uccl_chunk_part first;

	if (parts->count)
		return parts->count != part->count || parts->total != part->total ? UCCL_DROP_RECORD : UCCL_DROP_COUNT;
	if (uccl_part_decode(&first, rec, len) != UCCL_DROP_COUNT)
		return UCCL_DROP_RECORD;
	uccl_parts_init(parts, part->total, part->count);
	return UCCL_DROP_COUNT;
}

/* One part, or some in a row, of a chunk whose numbers `parts` has. `parts` says whether they are taken. */
static enum uccl_drop parts_take(struct uccl_flow *f, struct uccl_parts *parts, const struct uccl_chunk_part *part,
				 const struct uccl_chunk_in *in, uint64_t now)
{
	uint32_t before = (in->parts - 1u) * in->each, last = part->index + in->parts - 1u;
	struct uccl_chunk_in one = *in;
	uint8_t rec[UCCL_REC_LEN];
	enum uccl_drop reason;
	uint64_t map;

	if (last >= parts->count || !uccl_parts_fits(parts, (uint8_t)last, in->len - before) ||
	    (before && in->each != parts->each))
		return UCCL_DROP_RECORD;
	map = uccl_parts_run(part->index, (uint8_t)last);
	if (parts->have & map)
		return UCCL_DROP_DUPLICATE;
	memcpy(rec, in->rec, UCCL_PART_REC);
	memset(rec + UCCL_PART_REC, 0, UCCL_REC_LEN - UCCL_PART_REC);
	uccl_put64(rec + 8, uccl_get64(rec + 8) + uccl_parts_at(parts, part->index));
	one.rec = rec;
	reason = f->cfg.ops->deliver(f, &one, now);
	if (flow_took(reason) && (in->parts == 1 || reason == UCCL_DROP_COUNT))
		uccl_parts_took(parts, map);
	return reason;
}

enum uccl_drop flow_part_rx(struct uccl_flow *f, uint64_t csn, const struct uccl_chunk_in *in, bool *taken,
			    uint64_t now)
{
	struct uccl_parts *parts, was;
	struct uccl_chunk_part part;
	enum uccl_drop reason;

	*taken = false;
	if (!f->rx_parts)
		return UCCL_DROP_STATE;
	uccl_part_read(&part, in->rec);
	parts = parts_of(f, csn);
	was = *parts;
	reason = parts_open(parts, &part, in->rec, in->parts > 1 ? in->each : in->len);
	if (reason == UCCL_DROP_COUNT)
		reason = parts_take(f, parts, &part, in, now);
	*taken = parts->have != was.have;
	/* What is refused leaves no trace: the first part of a chunk would decide how it is cut. PROTOCOL R315 */
	if (!*taken)
		*parts = was;
	f->nrx_parts += !was.count && parts->count;
	return reason;
}

bool flow_parts_begun(const struct uccl_flow *f, uint64_t csn)
{
	return f->nrx_parts && parts_of(f, csn)->count;
}

bool flow_parts_whole(const struct uccl_flow *f, uint64_t csn)
{
	return !uccl_parts_missing(parts_of(f, csn));
}

bool flow_parts_gap(const struct uccl_flow *f, uint64_t csn)
{
	uint64_t have = parts_of(f, csn)->have;

	return have & (have + 1);
}

bool flow_parts_piece_had(const struct uccl_flow *f, uint64_t csn, const uint8_t *rec)
{
	uint8_t part = uccl_piece_part(rec);

	return part && part <= UCCL_PART_COUNT && flow_parts_begun(f, csn) &&
	       uccl_parts_has(parts_of(f, csn), (uint8_t)(part - 1));
}

void flow_parts_end(struct uccl_flow *f, uint64_t csn)
{
	struct uccl_parts *parts = parts_of(f, csn);

	f->nrx_parts -= parts->count > 0;
	*parts = (struct uccl_parts){ 0 };
}

void flow_parts_tell(const struct uccl_flow *f, struct uccl_ack *a, uint8_t most)
{
	uint32_t seen = 0;

	a->nparts = 0;
	for (uint64_t csn = f->rcv.nxt; seen < f->nrx_parts && a->nparts < most; csn++) {
		const struct uccl_parts *parts = parts_of(f, csn);

		seen += parts->count > 0;
		if (parts->have)
			a->parts[a->nparts++] = (struct uccl_ack_parts){ .ahead = (uint16_t)(csn - f->rcv.nxt),
									 .have = parts->have };
	}
}
