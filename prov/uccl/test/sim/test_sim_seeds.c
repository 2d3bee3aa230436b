/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Seeds: the swarm, the same run twice, and whether the checkers see anything at all. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "holds.h"

/* One seed; its trace. */
static uint64_t run_seed(uint64_t seed, const char *forced)
{
	static struct uccl_sim_world w;
	struct uccl_sim_options o;
	uint64_t trace;

	memset(&w, 0, sizeof(w));
	uccl_sim_options_draw(&o, seed, forced);
	if (uccl_sim_seed(&w, &o, seed))
		fail_msg("seed %llu: %s; see uccl_sim --seed %llu", (unsigned long long)seed, w.first,
			 (unsigned long long)seed);
	trace = w.net.trace;
	uccl_sim_world_close(&w);
	return trace;
}

static void seed__same_trace_twice(void **state)
{
	uint64_t seed, a, last = 0;

	(void)state;
	for (seed = 1; seed <= 30; seed++) {
		a = run_seed(seed, NULL);
		assert_int_equal(a, run_seed(seed, NULL));
		assert_int_not_equal(a, last);
		last = a;
	}
}

static void seed__many(void **state)
{
	uint64_t seed;

	(void)state;
	for (seed = 1000; seed < 1100; seed++)
		run_seed(seed, NULL);
}

/* Flipped bits that no checksum finds: whatever it does, it stays inside its buffers. */
static void seed__hostile_bits(void **state)
{
	uint64_t seed;

	(void)state;
	for (seed = 1; seed <= 40; seed++)
		run_seed(seed, "corrupt=0.05,corrupt_pass=1,bound_ms=2000,peer_timeout_ms=1000");
}

/* Paced credit: what leaves without it is small, or one chunk alone; the rest waits, and nothing stalls. */
static void seed__paced_credit(void **state)
{
	uint64_t seed;

	(void)state;
	for (seed = 1; seed <= 80; seed++) {
		run_seed(seed, "credit=eqds");
		run_seed(seed, "credit=auto");
	}
}

#ifdef HAVE_LANES
/* Payload over lanes, whose commands are late and which stop for a while. */
static void seed__lanes(void **state)
{
	uint64_t seed;

	(void)state;
	for (seed = 1; seed <= 40; seed++)
		run_seed(seed, seed % 2 ? "lanes=1" : "lanes=2");
	for (seed = 1; seed <= 20; seed++)
		run_seed(seed, "lanes=2,corrupt=0.05,corrupt_pass=1,bound_ms=2000,peer_timeout_ms=1000");
	for (seed = 1; seed <= 15; seed++)
		run_seed(seed, "predict=1,lanes=1");
}
#endif

/* Payload that NICs scatter to predicted places, where something else comes, too. PROTOCOL R44 R276 */
static void seed__predicted(void **state)
{
	uint64_t seed;

	(void)state;
	for (seed = 1; seed <= 60; seed++)
		run_seed(seed, "predict=1");
	for (seed = 1; seed <= 15; seed++)
		run_seed(seed, "predict=1,corrupt=0.05,corrupt_pass=1,bound_ms=2000,peer_timeout_ms=1000");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		HOLDS_BOTH("sabotage-bytes"),
		HOLDS_WRITE("sabotage-vanished"),
		HOLDS_WRITE("sabotage-writes"),
		HOLDS_PACKET("sabotage-places"),
		cmocka_unit_test(seed__same_trace_twice),
		cmocka_unit_test(seed__many),
		cmocka_unit_test(seed__hostile_bits),
		cmocka_unit_test(seed__paced_credit),
#ifdef HAVE_LANES
		cmocka_unit_test(seed__lanes),
#endif
		cmocka_unit_test(seed__predicted),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
