/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "msg/berth.h"

#include <stdlib.h>
#include <string.h>

#include "base/units.h"
#include "msg/iov.h"

/* A few equal ones, of whole KiB. */
static uint32_t unit_short(uint32_t bytes)
{
	uint32_t n = uccl_clamp(bytes / UCCL_UNIT_LEAST, 1, UCCL_UNIT_SHARES);

	return ((bytes + n - 1) / n + 1023) & ~1023u;
}

uint32_t msg_unit_bytes(uint64_t bytes, bool units)
{
	uint32_t unit = UCCL_UNIT_MOST;

	if (!units)
		return UCCL_UNIT_BYTES;
	if (bytes < UCCL_UNIT_FULL * UCCL_UNIT_SHARES)
		return unit_short((uint32_t)bytes);
	while (bytes < (uint64_t)unit * UCCL_UNIT_SHARES)
		unit /= 2;
	return unit;
}

struct uccl_berth *msg_berth_new(uint8_t *to, uint64_t from, uint64_t limit, uint32_t unit, uint32_t id, uint32_t gen)
{
	uint64_t units = (limit - from + unit - 1) / unit;
	struct uccl_berth *b;

	if (units > UINT32_MAX)
		return NULL;
	b = calloc(1, sizeof(*b) + units * sizeof(*b->unit));
	if (!b)
		return NULL;
	b->to = to;
	b->from = from;
	b->limit = b->room = limit;
	b->id = id;
	b->gen = gen;
	b->units = (uint32_t)units;
	b->unit_bytes = unit;
	return b;
}

struct uccl_berth_lane *msg_berth_lane(struct uccl_berth *b, uint8_t k, struct uccl_peer *from)
{
	struct uccl_berth_lane *l = &b->lane[k];

	l->berth = b;
	l->from = from;
	l->key = msg_berth_key(b->id, b->gen);
	return l;
}

static bool unit_claim(struct uccl_berth_unit *u, uint8_t owner)
{
	uint8_t was = 0;

	return atomic_compare_exchange_strong(&u->owner, &was, owner) || was == owner;
}

bool msg_berth_claim(struct uccl_berth *b)
{
	for (uint32_t i = 0; i < b->units && !b->mine; i++)
		if (!unit_claim(&b->unit[i], UCCL_UNIT_HOME))
			return false;
	b->mine = true;
	return true;
}

void msg_berth_shut(struct uccl_berth *b, void (*rest)(uint32_t times))
{
	for (int k = 0; k < UCCL_LANES_MAX; k++)
		uccl_gate_shut(&b->lane[k].gate, rest);
}

uint32_t msg_berth_unit(const struct uccl_berth *b, uint32_t i, uint64_t *end)
{
	uint64_t begin = b->from + (uint64_t)i * b->unit_bytes;

	*end = uccl_min(begin + b->unit_bytes, b->limit);
	return (uint32_t)(*end - begin);
}

static inline void bytes_copy(const struct uccl_berth *b, uint64_t off, const uint8_t *data, uint64_t len)
{
	if (off >= b->room)
		return;
	len = uccl_min(len, b->room - off);
	if (b->niov)
		msg_copy_in(b->iov, b->niov, off, data, len);
	else
		memcpy(b->to + (off - b->from), data, len);
}

/* Between parts in a row there are headers. */
static void payload_copy(const struct uccl_berth *b, uint64_t off, const struct uccl_chunk_in *in)
{
	uint32_t each = in->parts > 1 ? in->each : in->len;
	const uint8_t *data = in->data;

	for (uint32_t at = 0; at < in->len; at += each) {
		bytes_copy(b, off + at, data, uccl_min(each, in->len - at));
		data += each + UCCL_HDR_LEN;
	}
}

enum uccl_drop msg_berth_put(struct uccl_berth *b, uint8_t k, uint64_t off, const struct uccl_chunk_in *in,
			     const uint8_t key[UCCL_KEY_LEN], bool *whole)
{
	uint32_t len = in->len;
	struct uccl_berth_unit *u;
	uint64_t end, at;
	uint32_t bytes;

	*whole = false;
	if (off < b->from || off >= b->limit || len > b->limit - off)
		return UCCL_DROP_RANGE;
	u = &b->unit[(off - b->from) / b->unit_bytes];
	bytes = msg_berth_unit(b, (uint32_t)(u - b->unit), &end);
	if (!len || len > end - off)
		return UCCL_DROP_RANGE;
	if (!unit_claim(u, (uint8_t)(k + 1)) || len > bytes - u->got)
		return UCCL_DROP_OVERLAP;
	at = off - (end - bytes);
	if (!uccl_cover_add(&u->cover, at, at + len, key) ||
	    (u->got + len == bytes && !uccl_cover_whole(&u->cover, bytes, key)))
		return UCCL_DROP_OVERLAP;
	if (!uccl_gate_enter(&b->lane[k].gate))
		return UCCL_DROP_UNWANTED;
	payload_copy(b, off, in);
	uccl_gate_leave(&b->lane[k].gate);
	u->got += len;
	*whole = u->got == bytes;
	return UCCL_DROP_COUNT;
}
