/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "base/multimap.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include "../tests.h"

#include "base/rng.h"
#include "base/units.h"

static const uint64_t secret[2] = {0x123456789abcdef0, 0xfedcba9876543211};

TEST(init__empty)
{
	struct uccl_multimap m;

	uccl_multimap_init(&m, secret);
	assert_null(uccl_multimap_find(&m, 0, 0));
	assert_int_equal(m.keys, 0);
	uccl_multimap_fini(&m);
}

TEST(fini__starts_over)
{
	static struct uccl_multinode n[100];
	struct uccl_multimap m;

	uccl_multimap_init(&m, secret);
	for (int i = 0; i < 100; i++)
		uccl_multimap_add(&m, &n[i], (uint64_t)i, 0);
	uccl_multimap_fini(&m);
	assert_null(uccl_multimap_find(&m, 5, 0));
	uccl_multimap_add(&m, &n[5], 5, 0);
	assert_ptr_equal(uccl_multimap_find(&m, 5, 0), &n[5]);
	assert_int_equal(m.nodes, 1);
	uccl_multimap_fini(&m);
}

TEST(add__in_order_of_its_key)
{
	struct uccl_multinode n[6];
	struct uccl_multimap m;

	uccl_multimap_init(&m, secret);
	for (int i = 0; i < 6; i++)
		uccl_multimap_add(&m, &n[i], 7, (uint64_t)(i & 1));
	assert_ptr_equal(uccl_multimap_find(&m, 7, 0), &n[0]);
	assert_ptr_equal(n[0].next, &n[2]);
	assert_ptr_equal(n[2].next, &n[4]);
	assert_null(n[4].next);
	assert_ptr_equal(uccl_multimap_find(&m, 7, 1), &n[1]);
	assert_null(uccl_multimap_find(&m, 7, 2));
	assert_null(uccl_multimap_find(&m, 6, 0));
	assert_int_equal(m.keys, 2);
	uccl_multimap_fini(&m);
}

/* Keys that differ in a single bit, wherever it is, are spread. */
TEST(add__spreads_keys)
{
	static struct uccl_multinode n[4096];
	struct uccl_multimap m;

	for (int shift = 0; shift < 52; shift += 4) {
		uint32_t most = 0;

		uccl_multimap_init(&m, secret);
		for (uint64_t i = 0; i < 4096; i++)
			uccl_multimap_add(&m, &n[i], shift % 8 ? 1 : i << shift, shift % 8 ? i << shift : 1);
		assert_int_equal(m.keys, 4096);
		for (uint32_t b = 0; b < 1u << m.bits; b++) {
			uint32_t count = 0;

			for (const struct uccl_multinode *k = m.more[b]; k; k = k->chain)
				count++;
			most = uccl_max(most, count);
		}
		assert_in_range(most, 1, 32);
		uccl_multimap_fini(&m);
	}
}

TEST(remove__from_any_place)
{
	static const uint8_t order[6][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
	struct uccl_multinode n[3], more;
	struct uccl_multimap m;

	for (int o = 0; o < 6; o++) {
		bool in[3] = {true, true, true};

		uccl_multimap_init(&m, secret);
		for (int i = 0; i < 3; i++)
			uccl_multimap_add(&m, &n[i], 1, 2);
		for (int k = 0; k < 3; k++) {
			const struct uccl_multinode *at;

			uccl_multimap_remove(&m, &n[order[o][k]]);
			in[order[o][k]] = false;
			/* What is added goes behind the rest. */
			uccl_multimap_add(&m, &more, 1, 2);
			at = uccl_multimap_find(&m, 1, 2);
			for (int i = 0; i < 3; i++) {
				if (!in[i])
					continue;
				assert_ptr_equal(at, &n[i]);
				at = at->next;
			}
			assert_ptr_equal(at, &more);
			assert_null(at->next);
			uccl_multimap_remove(&m, &more);
		}
		assert_null(uccl_multimap_find(&m, 1, 2));
		assert_int_equal(m.keys, 0);
		assert_int_equal(m.nodes, 0);
		uccl_multimap_fini(&m);
	}
}

/* Against a list, with many keys in few buckets as well as in many. */
TEST(find__as_a_list)
{
	enum { N = 600 };
	static struct uccl_multinode n[N];
	static int order[N];
	struct uccl_multimap m;
	struct uccl_rng rng;
	int used = 0;
	bool in[N] = {false};

	uccl_rng_seed(&rng, 5);
	uccl_multimap_init(&m, secret);
	for (int step = 0; step < 20000; step++) {
		int i = (int)uccl_rng_below(&rng, N);
		uint64_t a = (uint64_t)(i % 97), b = (uint64_t)(i % 3);
		int first = -1;

		if (in[i]) {
			uccl_multimap_remove(&m, &n[i]);
			for (int k = 0, to = 0; k < used; k++)
				if (order[k] != i)
					order[to++] = order[k];
			used--;
		} else {
			uccl_multimap_add(&m, &n[i], a, b);
			order[used++] = i;
		}
		in[i] = !in[i];
		for (int k = 0; k < used && first < 0; k++)
			if ((uint64_t)(order[k] % 97) == a && (uint64_t)(order[k] % 3) == b)
				first = order[k];
		assert_ptr_equal(uccl_multimap_find(&m, a, b), first < 0 ? NULL : &n[first]);
		assert_int_equal(m.nodes, used);
	}
	uccl_multimap_fini(&m);
}

TESTS_MAIN
