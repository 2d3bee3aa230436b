/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "flow/recv/pieces.h"

#include <stdlib.h>
#include <string.h>

void uccl_pieces_init(struct uccl_pieces *p, uint32_t most)
{
	*p = (struct uccl_pieces){ .most = most };
}

static struct uccl_pieced **place_of(struct uccl_pieces *p, uint64_t csn, uint8_t part)
{
	for (int i = 0; i < UCCL_PIECED_MAX; i++)
		if (p->list[i] && p->list[i]->csn == csn && p->list[i]->part == part)
			return &p->list[i];
	return NULL;
}

static void place_free(struct uccl_pieces *p, struct uccl_pieced **place)
{
	free(*place);
	*place = NULL;
	p->n--;
}

void uccl_pieces_fini(struct uccl_pieces *p)
{
	for (int i = 0; i < UCCL_PIECED_MAX; i++)
		if (p->list[i])
			place_free(p, &p->list[i]);
}

void uccl_pieces_part_end(struct uccl_pieces *p, uint64_t csn, uint8_t part)
{
	struct uccl_pieced **place = place_of(p, csn, part);

	if (place)
		place_free(p, place);
}

void uccl_pieces_drop(struct uccl_pieces *p, uint64_t csn)
{
	for (int i = 0; i < UCCL_PIECED_MAX; i++)
		if (p->list[i] && p->list[i]->csn == csn)
			place_free(p, &p->list[i]);
}

/* A free place, or that of the latest chunk, if it is later than this: the first that is missing always goes on. */
static struct uccl_pieced **place_new(struct uccl_pieces *p, uint64_t csn)
{
	struct uccl_pieced **last = NULL;

	for (int i = 0; i < UCCL_PIECED_MAX; i++) {
		if (!p->list[i])
			return &p->list[i];
		if (p->list[i]->csn > csn && (!last || p->list[i]->csn > (*last)->csn))
			last = &p->list[i];
	}
	return last;
}

static struct uccl_pieced *pieced_new(struct uccl_pieces *p, uint64_t csn, const struct uccl_piece *piece,
				      uint8_t rtype)
{
	struct uccl_pieced **place = place_new(p, csn);

	if (!place)
		return NULL;
	if (*place)
		place_free(p, place);
	*place = malloc(sizeof(**place) + piece->total);
	if (!*place)
		return NULL;
	**place = (struct uccl_pieced){ .csn = csn, .total = piece->total, .count = piece->count,
					.part = piece->part, .rtype = rtype };
	p->n++;
	return *place;
}

enum uccl_drop uccl_pieces_take(struct uccl_pieces *p, const struct uccl_hdr *h, uint64_t csn, const uint8_t *payload,
				const struct uccl_pieced **whole)
{
	struct uccl_pieced **place, *c;
	struct uccl_piece piece;

	*whole = NULL;
	if (uccl_piece_decode(&piece, h->rec, h->payload_len) != UCCL_DROP_COUNT || piece.total > p->most)
		return UCCL_DROP_RECORD;
	place = place_of(p, csn, piece.part);
	/* The way got narrower, or wider, since: it was cut in another way. */
	if (place && ((*place)->count != piece.count || (*place)->total != piece.total ||
		      (*place)->rtype != h->rtype)) {
		place_free(p, place);
		place = NULL;
	}
	c = place ? *place : pieced_new(p, csn, &piece, h->rtype);
	if (!c)
		return UCCL_DROP_MEMORY;
	memcpy(c->rec + piece.index % 2 * UCCL_PIECE_REC, piece.half, UCCL_PIECE_REC);
	memcpy(c->data + piece.index * uccl_piece_len(c->total, c->count), payload, h->payload_len);
	c->have |= 1ull << piece.index;
	if (c->have == ~0ull >> (64 - c->count))
		*whole = c;
	return UCCL_DROP_COUNT;
}
