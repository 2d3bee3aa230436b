/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Receiving side of chunks that come in pieces, because they are too long for the way. They are put together here, and
 * there is room for few of them: who sends more than it may loses them. PROTOCOL R153 R154
 */
#include <stdlib.h>
#include <string.h>

#include "core/internal.h"

struct uccl_pieced {
	uint64_t csn;
	uint64_t have;		/* pieces, a bit each */
	uint32_t total;
	uint8_t count, rtype;
	uint8_t rec[UCCL_REC_LEN];
	uint8_t data[];
};

static struct uccl_pieced **place_of(struct uccl_flow *f, uint64_t csn)
{
	for (int i = 0; i < UCCL_PIECED_MAX; i++)
		if (f->pieces[i] && f->pieces[i]->csn == csn)
			return &f->pieces[i];
	return NULL;
}

void flow_pieces_end(struct uccl_flow *f, uint64_t csn)
{
	struct uccl_pieced **place = place_of(f, csn);

	if (!place)
		return;
	free(*place);
	*place = NULL;
	f->npieces--;
}

/* A free place, or that of the latest chunk, if it is later than this: the first that is missing always goes on. */
static struct uccl_pieced **place_new(struct uccl_flow *f, uint64_t csn)
{
	struct uccl_pieced **last = NULL;

	for (int i = 0; i < UCCL_PIECED_MAX; i++) {
		if (!f->pieces[i])
			return &f->pieces[i];
		if (f->pieces[i]->csn > csn && (!last || f->pieces[i]->csn > (*last)->csn))
			last = &f->pieces[i];
	}
	return last;
}

static struct uccl_pieced *pieced_new(struct uccl_flow *f, uint64_t csn, const struct uccl_piece *piece, uint8_t rtype)
{
	struct uccl_pieced **place = place_new(f, csn);

	if (!place)
		return NULL;
	if (*place)
		flow_pieces_end(f, (*place)->csn);
	*place = malloc(sizeof(**place) + piece->total);
	if (!*place)
		return NULL;
	**place = (struct uccl_pieced){ .csn = csn, .total = piece->total, .count = piece->count, .rtype = rtype };
	f->npieces++;
	return *place;
}

enum uccl_drop flow_piece_rx(struct uccl_flow *f, const struct uccl_hdr *h, uint64_t csn, const uint8_t *payload,
			     struct uccl_chunk_in *in)
{
	struct uccl_pieced **place = place_of(f, csn), *p;
	struct uccl_piece piece;

	in->data = NULL;
	if (uccl_piece_decode(&piece, h->rec, h->payload_len) != UCCL_DROP_COUNT ||
	    piece.total > f->cfg.mtu_rx - UCCL_HDR_LEN)
		return UCCL_DROP_RECORD;
	/* The way got narrower, or wider, since: it was cut in another way. */
	if (place && ((*place)->count != piece.count || (*place)->total != piece.total ||
		      (*place)->rtype != h->rtype)) {
		flow_pieces_end(f, csn);
		place = NULL;
	}
	p = place ? *place : pieced_new(f, csn, &piece, h->rtype);
	if (!p)
		return UCCL_DROP_MEMORY;
	f->cfg.stats->pieces_rx++;
	memcpy(p->rec + piece.index % 2 * UCCL_PIECE_REC, piece.half, UCCL_PIECE_REC);
	memcpy(p->data + piece.index * uccl_piece_len(p->total, p->count), payload, h->payload_len);
	p->have |= 1ull << piece.index;
	if (p->have != ~0ull >> (64 - p->count))
		return UCCL_DROP_COUNT;
	in->rec = p->rec;
	in->data = p->data;
	in->len = p->total;
	return UCCL_DROP_COUNT;
}
