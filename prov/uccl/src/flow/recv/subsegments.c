/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "flow/recv/subsegments.h"

#include <stdlib.h>
#include <string.h>

void uccl_subsegments_init(struct uccl_subsegments *p, uint32_t most)
{
	*p = (struct uccl_subsegments){.most = most};
}

/* Where this segment is kept; NULL: nowhere. */
static struct uccl_partial_segment **place_of(struct uccl_subsegments *p, uint64_t csn, uint8_t index)
{
	for (int i = 0; i < UCCL_KEPT_MAX; i++)
		if (p->list[i] && p->list[i]->csn == csn && p->list[i]->index == index)
			return &p->list[i];
	return NULL;
}

static void place_free(struct uccl_subsegments *p, struct uccl_partial_segment **place)
{
	free(*place);
	*place = NULL;
	p->n--;
}

void uccl_subsegments_fini(struct uccl_subsegments *p)
{
	for (int i = 0; i < UCCL_KEPT_MAX; i++)
		if (p->list[i])
			place_free(p, &p->list[i]);
}

void uccl_subsegments_segment_end(struct uccl_subsegments *p, uint64_t csn, uint8_t index)
{
	struct uccl_partial_segment **place = place_of(p, csn, index);

	if (place)
		place_free(p, place);
}

void uccl_subsegments_drop(struct uccl_subsegments *p, uint64_t csn)
{
	for (int i = 0; i < UCCL_KEPT_MAX; i++)
		if (p->list[i] && p->list[i]->csn == csn)
			place_free(p, &p->list[i]);
}

static struct uccl_partial_segment *partial_segment_new(struct uccl_subsegments *p, uint64_t csn,
							const struct uccl_segment *s, uint8_t rtype)
{
	uint32_t len = uccl_segment_len(s->total, s->index, s->count);
	struct uccl_partial_segment **place = p->list;

	while (place < p->list + UCCL_KEPT_MAX && *place)
		place++;
	if (place == p->list + UCCL_KEPT_MAX)
		return NULL;
	*place = malloc(sizeof(**place) + len);
	if (!*place)
		return NULL;
	**place = (struct uccl_partial_segment){
		.csn = csn, .total = s->total, .index = s->index, .count = s->count, .rtype = rtype};
	uccl_segment_map_init(&(*place)->segments, len, s->subs);
	p->n++;
	return *place;
}

enum uccl_drop uccl_subsegments_take(struct uccl_subsegments *p, const struct uccl_segment *s, const struct uccl_hdr *h,
				     uint64_t csn, const uint8_t *payload, const struct uccl_partial_segment **whole)
{
	struct uccl_partial_segment **place = place_of(p, csn, s->index), *c = place ? *place : NULL;

	*whole = NULL;
	if (uccl_segment_len(s->total, s->index, s->count) > p->most)
		return UCCL_DROP_RECORD;
	if (c && (c->count != s->count || c->total != s->total || c->rtype != h->rtype))
		return UCCL_DROP_RECORD;
	/* The path got narrower since: what comes now is cut into more, what is cut into fewer is old. PROTOCOL R331 */
	if (c && s->subs > c->segments.count) {
		place_free(p, place);
		c = NULL;
	}
	if (c && (s->subs < c->segments.count || uccl_segment_map_has(&c->segments, s->sub)))
		return UCCL_DROP_DUPLICATE;
	if (!c)
		c = partial_segment_new(p, csn, s, h->rtype);
	if (!c)
		return UCCL_DROP_MEMORY;
	memcpy(c->rec + uccl_segment_rec_at(s->sub), h->rec, UCCL_SEGMENT_REC);
	memcpy(c->data + uccl_segment_map_at(&c->segments, s->sub), payload, h->payload_len);
	uccl_segment_map_took(&c->segments, 1ull << s->sub);
	if (!uccl_segment_map_missing(&c->segments))
		*whole = c;
	return UCCL_DROP_COUNT;
}

void uccl_subsegments_untake(struct uccl_subsegments *p, uint64_t csn, const struct uccl_segment *s)
{
	struct uccl_partial_segment **place = place_of(p, csn, s->index);

	if (place)
		(*place)->segments.have &= ~(1ull << s->sub);
}

uint8_t uccl_subsegments_tell(const struct uccl_subsegments *p, uint64_t csn, struct uccl_ack_segments *a, uint8_t most,
			      uint32_t *seen)
{
	uint8_t n = 0;

	for (int i = 0; i < UCCL_KEPT_MAX; i++) {
		const struct uccl_partial_segment *c = p->list[i];

		if (!c || c->csn != csn)
			continue;
		++*seen;
		if (c->segments.have && n < most)
			a[n++] = (struct uccl_ack_segments){.of = c->index,
							    .subs = c->segments.count,
							    .have = c->segments.have};
	}
	return n;
}
