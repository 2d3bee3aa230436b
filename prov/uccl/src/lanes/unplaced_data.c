/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "lanes/unplaced_data.h"

#include <stdlib.h>
#include <string.h>

#include "base/units.h"

/*
 * Room for so many bytes more of this peer. At each lane it has no more than is left to all others at all lanes: so a
 * peer that floods leaves room for others, and n of them leave one part of n + 1 (see msg/recv/unexpected.c). PROTOCOL
 * R313
 */
static bool room_take(struct uccl_lane_channel *l, struct uccl_peer *from, uint64_t bytes)
{
	struct uccl_unplaced_data *all = l->unplaced;
	uint64_t used, left;

	if (from->lane.unplaced_bytes + bytes > UCCL_UNPLACED_MAX)
		return false;
	used = atomic_fetch_add(&all->bytes, bytes);
	left = all->max > used ? all->max - used : 0;
	if (bytes > left || from->lane.unplaced_bytes + bytes > left) {
		atomic_fetch_sub(&all->bytes, bytes);
		return false;
	}
	from->lane.unplaced_bytes += (uint32_t)bytes;
	return true;
}

static void room_give(struct uccl_lane_channel *l, struct uccl_peer *from, uint64_t bytes)
{
	atomic_fetch_sub(&l->unplaced->bytes, bytes);
	from->lane.unplaced_bytes -= (uint32_t)bytes;
}

enum uccl_drop unplaced_data_keep(struct uccl_lane_channel *l, struct uccl_peer *from, const struct uccl_chunk_in *in)
{
	uint32_t each = in->segments > 1 ? in->each : in->len;
	uint64_t bytes = (uint64_t)in->len + UCCL_UNPLACED_COST;
	const uint8_t *data = in->data;
	struct uccl_unplaced_chunk *d;

	if (!room_take(l, from, bytes))
		return UCCL_DROP_MEMORY;
	d = malloc(sizeof(*d) + in->len);
	if (!d) {
		room_give(l, from, bytes);
		return UCCL_DROP_MEMORY;
	}
	d->mseq = uccl_get32(in->rec);
	d->off = uccl_get64(in->rec + 8);
	d->total = uccl_get64(in->rec + 16);
	d->len = in->len;
	/* Between parts in a row there are headers. */
	for (uint32_t at = 0; at < in->len; at += each) {
		memcpy(d->data + at, data, uccl_min(each, in->len - at));
		data += each + UCCL_HDR_LEN;
	}
	TAILQ_INSERT_TAIL(&from->lane.unplaced, d, link);
	atomic_fetch_add(&l->nunplaced, 1);
	return UCCL_DROP_COUNT;
}

static void unplaced_data_remove(struct uccl_lane_channel *l, struct uccl_peer *from, struct uccl_unplaced_chunk *d)
{
	TAILQ_REMOVE(&from->lane.unplaced, d, link);
	room_give(l, from, (uint64_t)d->len + UCCL_UNPLACED_COST);
	atomic_fetch_sub(&l->nunplaced, 1);
}

struct uccl_unplaced_chunk *unplaced_data_take(struct uccl_lane_channel *l, struct uccl_peer *from, uint32_t mseq)
{
	struct uccl_unplaced_chunk *d;

	TAILQ_FOREACH(d, &from->lane.unplaced, link)
		if (d->mseq == mseq) {
			unplaced_data_remove(l, from, d);
			return d;
		}
	return NULL;
}

void unplaced_data_drop(struct uccl_lane_channel *l, struct uccl_peer *from)
{
	struct uccl_unplaced_chunk *d;

	while ((d = TAILQ_FIRST(&from->lane.unplaced))) {
		unplaced_data_remove(l, from, d);
		free(d);
	}
}
