/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Deaths: every operation ends, the living are not hurt. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "engine/impl.h"
#include "holds.h"

/*
 * A program sends to an endpoint that ended before anybody connected, again and again: each attempt fails, and nothing
 * is left but the last one, which the program's address still names. PROTOCOL R133 R295
 */
static void absent__attempts_forgotten(void **state)
{
	static struct uccl_sim_world w;
	struct uccl_sim_options o;
	struct uccl_sim_plan p = {.src = 0, .dst = 1, .len = 100, .recv_len = 100, .no_recv = true};
	uint64_t start;

	(void)state;
	uccl_sim_options_default(&o);
	assert_int_equal(uccl_sim_world_open(&w, &o, 1), 0);
	start = w.net.now;
	for (uint32_t i = 0; i < 40; i++) {
		p.send_ns = start + UCCL_NS_PER_MS + i * UCCL_NS_PER_S / 4;
		uccl_sim_plan(&w, &p);
	}
	uccl_sim_kill(&w, 1);
	uccl_sim_go(&w, start + 11 * UCCL_NS_PER_S, false);
	assert_int_equal(w.work.failed, 40);
	assert_int_equal(w.node[0].e->conns.n, 1);
	uccl_sim_go(&w, start + 60 * UCCL_NS_PER_S, false);
	assert_int_equal(w.node[0].e->conns.n, 1);
	assert_int_equal(w.violations, 0);
	uccl_sim_world_close(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		HOLDS_WRITE("vanished"),
		HOLDS_WRITE("vanished-full"),
		HOLDS_BOTH("death-gone"),
		HOLDS_BOTH("death-unreach"),
		HOLDS_BOTH("death-silent"),
		HOLDS_BOTH("restart"),
		HOLDS_ASYNC("restart"),
		HOLDS_BOTH("restart-work"),
		HOLDS_ASYNC("restart-work"),
		cmocka_unit_test(absent__attempts_forgotten),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
