/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "sim/fabric_queue.h"

#include "../tests.h"

#include "base/rng.h"
#include "base/units.h"

#define N 20000

static struct uccl_fab_event events[N];

TEST(get__by_time_and_order)
{
	static const uint64_t at[] = {5000000000ull, 7, 7, 0, 600, 512, 511, 5000000000ull, 70000000, 67108864, 1};
	static const uint32_t want[] = {3, 10, 1, 2, 6, 5, 4, 9, 8, 0, 7};
	struct uccl_fab_queue q;

	for (uint64_t slot_ps = 0; slot_ps <= 4096; slot_ps = slot_ps ? 4 * slot_ps : 1) {
		assert_int_equal(uccl_fab_queue_init(&q, slot_ps), 0);
		for (uint32_t i = 0; i < uccl_array_len(at); i++) {
			events[i].kind = i;
			uccl_fab_queue_put(&q, &events[i], at[i]);
		}
		for (uint32_t i = 0; i < uccl_array_len(at); i++) {
			struct uccl_fab_event *next = uccl_fab_queue_peek(&q, 0), *e = uccl_fab_queue_get(&q);

			assert_non_null(e);
			assert_true(!next || next == e);
			assert_int_equal(e->kind, want[i]);
			assert_int_equal(q.now, at[want[i]]);
		}
		assert_null(uccl_fab_queue_peek(&q, 0));
		assert_null(uccl_fab_queue_get(&q));
		uccl_fab_queue_fini(&q);
	}
}

/* Events that come out are put in again, near and far: nothing is lost, doubled, or out of order. */
static void against_the_clock(uint64_t slot_ps)
{
	/* Below a slot, some slots, near the horizon on both sides, far beyond. */
	static const uint64_t span[] = {1, 400, 5000, 67108864 - 700, 67108864 + 700, 300000000, 90000000000ull};
	struct uccl_fab_queue q;
	struct uccl_rng rng;
	uint64_t last = 0, last_order = 0, got = 0;
	struct uccl_fab_event *e;

	uccl_rng_seed(&rng, 42);
	assert_int_equal(uccl_fab_queue_init(&q, slot_ps), 0);
	for (uint32_t i = 0; i < N; i++)
		uccl_fab_queue_put(&q, &events[i], uccl_rng_below(&rng, span[i % uccl_array_len(span)]));
	while ((e = uccl_fab_queue_get(&q))) {
		assert_true(e->at > last || (e->at == last && (!got || e->order > last_order)));
		last = e->at;
		last_order = e->order;
		if (got++ < 20 * N)
			uccl_fab_queue_put(&q, e, q.now + uccl_rng_below(&rng, span[got % uccl_array_len(span)]));
	}
	assert_int_equal(got, 21 * N);
	assert_int_equal(q.count, 0);
	uccl_fab_queue_fini(&q);
}

TEST(get__random_against_the_clock)
{
	against_the_clock(512);
	against_the_clock(8);
	against_the_clock(1);
}

TESTS_MAIN
