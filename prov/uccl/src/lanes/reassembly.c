/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "lanes/reassembly.h"

#include <stdlib.h>
#include <string.h>

#include "base/units.h"
#include "msg/iov.h"

/* A few equal ones, of whole KiB. */
static uint32_t stripe_short(uint32_t bytes)
{
	uint32_t n = uccl_clamp(bytes / UCCL_STRIPE_LEAST, 1, UCCL_STRIPE_SHARES);

	return ((bytes + n - 1) / n + 1023) & ~1023u;
}

uint32_t lanes_stripe_bytes(uint64_t bytes, bool short_stripes)
{
	uint32_t stripe = UCCL_STRIPE_MOST;

	if (!short_stripes)
		return UCCL_STRIPE_BYTES;
	if (bytes < UCCL_STRIPE_FULL * UCCL_STRIPE_SHARES)
		return stripe_short((uint32_t)bytes);
	while (bytes < (uint64_t)stripe * UCCL_STRIPE_SHARES)
		stripe /= 2;
	return stripe;
}

struct uccl_reassembly *reassembly_new(uint8_t *to, uint64_t from, uint64_t limit, uint32_t stripe, uint32_t id,
				       uint32_t gen, uint8_t nlanes)
{
	uint64_t n = (limit - from + stripe - 1) / stripe;
	struct uccl_reassembly *b;

	if (n > UINT32_MAX)
		return NULL;
	b = calloc(1, sizeof(*b) + n * sizeof(*b->stripe) + nlanes * sizeof(*b->lane));
	if (!b)
		return NULL;
	b->lane = (struct uccl_reassembly_lane *)(b->stripe + n);
	b->nlanes = nlanes;
	b->to = to;
	b->from = from;
	b->limit = b->room = limit;
	b->id = id;
	b->gen = gen;
	b->nstripes = (uint32_t)n;
	b->stripe_bytes = stripe;
	return b;
}

struct uccl_reassembly_lane *reassembly_lane(struct uccl_reassembly *b, uint8_t k, struct uccl_peer *from)
{
	struct uccl_reassembly_lane *l = &b->lane[k];

	l->reassembly = b;
	l->from = from;
	l->key = reassembly_key(b->id, b->gen);
	return l;
}

static bool stripe_claim(struct uccl_stripe *u, uint8_t owner)
{
	uint8_t was = 0;

	return atomic_compare_exchange_strong(&u->owner, &was, owner) || was == owner;
}

bool reassembly_claim(struct uccl_reassembly *b)
{
	for (uint32_t i = 0; i < b->nstripes && !b->mine; i++)
		if (!stripe_claim(&b->stripe[i], UCCL_STRIPE_PRIMARY))
			return false;
	b->mine = true;
	return true;
}

void reassembly_close(struct uccl_reassembly *b, void (*rest)(uint32_t times))
{
	for (int k = 0; k < b->nlanes; k++)
		uccl_rundown_close(&b->lane[k].rundown, rest);
}

uint32_t reassembly_stripe(const struct uccl_reassembly *b, uint32_t i, uint64_t *end)
{
	uint64_t begin = b->from + (uint64_t)i * b->stripe_bytes;

	*end = uccl_min(begin + b->stripe_bytes, b->limit);
	return (uint32_t)(*end - begin);
}

static inline void bytes_copy(const struct uccl_reassembly *b, uint64_t off, const uint8_t *data, uint64_t len)
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
static void payload_copy(const struct uccl_reassembly *b, uint64_t off, const struct uccl_chunk_in *in)
{
	uint32_t each = in->segments > 1 ? in->each : in->len;
	const uint8_t *data = in->data;

	for (uint32_t at = 0; at < in->len; at += each) {
		bytes_copy(b, off + at, data, uccl_min(each, in->len - at));
		data += each + UCCL_HDR_LEN;
	}
}

enum uccl_drop reassembly_put(struct uccl_reassembly *b, uint8_t k, uint64_t off, const struct uccl_chunk_in *in,
			      const uint8_t key[UCCL_KEY_LEN], bool *whole)
{
	uint32_t len = in->len;
	struct uccl_stripe *u;
	uint64_t end, at;
	uint32_t bytes;

	*whole = false;
	if (off < b->from || off >= b->limit || len > b->limit - off)
		return UCCL_DROP_RANGE;
	u = &b->stripe[(off - b->from) / b->stripe_bytes];
	bytes = reassembly_stripe(b, (uint32_t)(u - b->stripe), &end);
	if (!len || len > end - off)
		return UCCL_DROP_RANGE;
	if (!stripe_claim(u, (uint8_t)(k + 1)) || len > bytes - u->got)
		return UCCL_DROP_OVERLAP;
	at = off - (end - bytes);
	if (!uccl_range_set_add(&u->ranges, at, at + len, key) ||
	    (u->got + len == bytes && !uccl_range_set_whole(&u->ranges, bytes, key)))
		return UCCL_DROP_OVERLAP;
	if (!uccl_rundown_enter(&b->lane[k].rundown))
		return UCCL_DROP_UNWANTED;
	payload_copy(b, off, in);
	uccl_rundown_leave(&b->lane[k].rundown);
	u->got += len;
	*whole = u->got == bytes;
	return UCCL_DROP_COUNT;
}
