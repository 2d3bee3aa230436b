/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Operations that are taken back: whatever peers and networks do, they end in time, and nothing of them comes later. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "holds.h"

/* Runs with these options; 99 of 100 ends are in time. At least `least` operations are judged. */
static void aborts(uint64_t seeds, const char *forced, uint64_t least)
{
	static struct uccl_sim_world w;
	uint64_t prompt = 0, late = 0;
	struct uccl_sim_options o;

	for (uint64_t seed = 1; seed <= seeds; seed++) {
		memset(&w, 0, sizeof(w));
		uccl_sim_options_draw(&o, seed, forced);
		if (uccl_sim_seed(&w, &o, seed))
			fail_msg("%s; see uccl_sim --seed %llu --set %s", w.first, (unsigned long long)seed, forced);
		prompt += w.aborts.prompt;
		late += w.aborts.late;
		uccl_sim_world_close(&w);
	}
	assert_true(prompt >= least);
	assert_true(late * 100 <= prompt);
}

static void aborts__drawn(void **state)
{
	(void)state;
	aborts(12, "aborts=1,messages=300", 1000);
}

/* Nobody answers: the end comes all the same. */
static void aborts__stopped(void **state)
{
	(void)state;
	aborts(4, "aborts=1,messages=200,sleeps=3,sleep_ms=4000,kills=0,restarts=0", 0);
}

static void aborts__writes_of_nics(void **state)
{
	(void)state;
	aborts(4, "aborts=1,messages=300,nic=1,lanes=0,loss=0.01", 300);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(aborts__drawn),
		cmocka_unit_test(aborts__stopped),
		cmocka_unit_test(aborts__writes_of_nics),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
