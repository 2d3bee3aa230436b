/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "msg/park.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/units.h"

void msg_park_init(struct uccl_park *k, _Atomic uint32_t *n)
{
	TAILQ_INIT(&k->list);
	k->n = n;
}

enum uccl_drop msg_park(struct uccl_park *k, struct uccl_peer *from, const struct uccl_chunk_in *in)
{
	uint32_t each = in->parts > 1 ? in->each : in->len;
	const uint8_t *data = in->data;
	struct uccl_parked *d;

	if (from->parked + in->len + UCCL_PARK_COST > UCCL_PARK_MAX)
		return UCCL_DROP_MEMORY;
	d = malloc(sizeof(*d) + in->len);
	if (!d)
		return UCCL_DROP_MEMORY;
	d->from = from;
	d->mseq = uccl_get32(in->rec);
	d->off = uccl_get64(in->rec + 8);
	d->total = uccl_get64(in->rec + 16);
	d->len = in->len;
	/* Between parts in a row there are headers. */
	for (uint32_t at = 0; at < in->len; at += each) {
		memcpy(d->data + at, data, uccl_min(each, in->len - at));
		data += each + UCCL_HDR_LEN;
	}
	from->parked += in->len + UCCL_PARK_COST;
	TAILQ_INSERT_TAIL(&k->list, d, link);
	atomic_fetch_add(k->n, 1);
	return UCCL_DROP_COUNT;
}

static void park_remove(struct uccl_park *k, struct uccl_parked *d)
{
	TAILQ_REMOVE(&k->list, d, link);
	d->from->parked -= d->len + UCCL_PARK_COST;
	atomic_fetch_sub(k->n, 1);
}

struct uccl_parked *msg_park_take(struct uccl_park *k, const struct uccl_peer *from, uint32_t mseq)
{
	struct uccl_parked *d;

	TAILQ_FOREACH(d, &k->list, link)
		if (d->from == from && d->mseq == mseq) {
			park_remove(k, d);
			return d;
		}
	return NULL;
}

void msg_park_end(struct uccl_park *k, const struct uccl_peer *from)
{
	struct uccl_parked *d, *next;

	for (d = TAILQ_FIRST(&k->list); d; d = next) {
		next = TAILQ_NEXT(d, link);
		if (d->from != from)
			continue;
		park_remove(k, d);
		free(d);
	}
}
