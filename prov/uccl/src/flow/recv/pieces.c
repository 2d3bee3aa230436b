/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "flow/recv/pieces.h"

#include <stdlib.h>
#include <string.h>

void uccl_pieces_init(struct uccl_pieces *p, uint32_t most)
{
	*p = (struct uccl_pieces){ .most = most };
}

/* Where this segment is kept; NULL: nowhere. */
static struct uccl_pieced **place_of(struct uccl_pieces *p, uint64_t csn, uint8_t index)
{
	for (int i = 0; i < UCCL_KEPT_MAX; i++)
		if (p->list[i] && p->list[i]->csn == csn && p->list[i]->index == index)
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
	for (int i = 0; i < UCCL_KEPT_MAX; i++)
		if (p->list[i])
			place_free(p, &p->list[i]);
}

void uccl_pieces_part_end(struct uccl_pieces *p, uint64_t csn, uint8_t index)
{
	struct uccl_pieced **place = place_of(p, csn, index);

	if (place)
		place_free(p, place);
}

void uccl_pieces_drop(struct uccl_pieces *p, uint64_t csn)
{
	for (int i = 0; i < UCCL_KEPT_MAX; i++)
		if (p->list[i] && p->list[i]->csn == csn)
			place_free(p, &p->list[i]);
}

static struct uccl_pieced *pieced_new(struct uccl_pieces *p, uint64_t csn, const struct uccl_segment *s, uint8_t rtype)
{
	uint32_t len = uccl_segment_len(s->total, s->index, s->count);
	struct uccl_pieced **place = p->list;

	while (place < p->list + UCCL_KEPT_MAX && *place)
		place++;
	if (place == p->list + UCCL_KEPT_MAX)
		return NULL;
	*place = malloc(sizeof(**place) + len);
	if (!*place)
		return NULL;
	**place = (struct uccl_pieced){
		.csn = csn, .total = s->total, .index = s->index, .count = s->count, .rtype = rtype};
	uccl_parts_init(&(*place)->parts, len, s->subs);
	p->n++;
	return *place;
}

enum uccl_drop uccl_pieces_take(struct uccl_pieces *p, const struct uccl_segment *s, const struct uccl_hdr *h,
				uint64_t csn, const uint8_t *payload, const struct uccl_pieced **whole)
{
	struct uccl_pieced **place = place_of(p, csn, s->index), *c = place ? *place : NULL;

	*whole = NULL;
	if (uccl_segment_len(s->total, s->index, s->count) > p->most)
		return UCCL_DROP_RECORD;
	if (c && (c->count != s->count || c->total != s->total || c->rtype != h->rtype))
		return UCCL_DROP_RECORD;
	/* The path got narrower since: what comes now is cut into more, what is cut into fewer is old. PROTOCOL R331 */
	if (c && s->subs > c->parts.count) {
		place_free(p, place);
		c = NULL;
	}
	if (c && (s->subs < c->parts.count || uccl_parts_has(&c->parts, s->sub)))
		return UCCL_DROP_DUPLICATE;
	if (!c)
		c = pieced_new(p, csn, s, h->rtype);
	if (!c)
		return UCCL_DROP_MEMORY;
	memcpy(c->rec + uccl_segment_rec_at(s->sub), h->rec, UCCL_SEGMENT_REC);
	memcpy(c->data + uccl_parts_at(&c->parts, s->sub), payload, h->payload_len);
	uccl_parts_took(&c->parts, 1ull << s->sub);
	if (!uccl_parts_missing(&c->parts))
		*whole = c;
	return UCCL_DROP_COUNT;
}

void uccl_pieces_untake(struct uccl_pieces *p, uint64_t csn, const struct uccl_segment *s)
{
	struct uccl_pieced **place = place_of(p, csn, s->index);

	if (place)
		(*place)->parts.have &= ~(1ull << s->sub);
}

uint8_t uccl_pieces_tell(const struct uccl_pieces *p, uint64_t csn, struct uccl_ack_parts *a, uint8_t most,
			 uint32_t *seen)
{
	uint8_t n = 0;

	for (int i = 0; i < UCCL_KEPT_MAX; i++) {
		const struct uccl_pieced *c = p->list[i];

		if (!c || c->csn != csn)
			continue;
		++*seen;
		if (c->parts.have && n < most)
			a[n++] = (struct uccl_ack_parts){ .of = c->index, .subs = c->parts.count,
							  .have = c->parts.have };
	}
	return n;
}
