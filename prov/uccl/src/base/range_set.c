/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "base/range_set.h"

#include "base/le.h"

static uint64_t end_hash(uint64_t at, const uint8_t key[UCCL_KEY_LEN])
{
	uint8_t in[8], out[UCCL_MAC_LEN];

	uccl_put64(in, at);
	uccl_mac(out, in, sizeof(in), key);
	return uccl_get64(out);
}

static uint64_t run_sum(const struct uccl_range *r, const uint8_t key[UCCL_KEY_LEN])
{
	return r->from == r->to ? 0 : end_hash(r->to, key) - end_hash(r->from, key);
}

bool uccl_range_set_add(struct uccl_range_set *c, uint64_t from, uint64_t to, const uint8_t key[UCCL_KEY_LEN])
{
	struct uccl_range *before = NULL, *after = NULL, *place = NULL;

	if (from == to)
		return true;
	for (int i = 0; i < UCCL_RANGE_SET_MAX; i++) {
		struct uccl_range *r = &c->run[i];

		if (r->from == r->to) {
			place = r;
			continue;
		}
		if (from < r->to && r->from < to)
			return false;
		if (r->to == from)
			before = r;
		else if (r->from == to)
			after = r;
	}
	if (before && after) {
		before->to = after->to;
		after->from = after->to;
	} else if (before) {
		before->to = to;
	} else if (after) {
		after->from = from;
	} else {
		if (!place) {
			place = &c->run[c->next];
			c->next = (uint8_t)((c->next + 1) % UCCL_RANGE_SET_MAX);
			c->sum += run_sum(place, key);
			c->summed = true;
		}
		*place = (struct uccl_range){.from = from, .to = to};
	}
	return true;
}

bool uccl_range_set_whole(const struct uccl_range_set *c, uint64_t len, const uint8_t key[UCCL_KEY_LEN])
{
	const struct uccl_range all = {.from = 0, .to = len};
	bool one = !c->summed && len;
	uint64_t sum = c->sum;

	/* The common case: one run. */
	for (int i = 0; i < UCCL_RANGE_SET_MAX; i++)
		one = one && (c->run[i].from == c->run[i].to || (!c->run[i].from && c->run[i].to == len));
	for (int i = 0; one && i < UCCL_RANGE_SET_MAX; i++)
		if (c->run[i].to == len)
			return true;
	for (int i = 0; i < UCCL_RANGE_SET_MAX; i++)
		sum += run_sum(&c->run[i], key);
	return sum == run_sum(&all, key);
}
