/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* For the tests of the simulator: a named scenario holds. Include after cmocka.h. */
#ifndef UCCL_TEST_SIM_HOLDS_H
#define UCCL_TEST_SIM_HOLDS_H

#include <string.h>

#include "sim/scenario.h"

/* Fails with the text of the first violation; `forced` overrides options. */
static inline void scenario_holds(const char *name, const char *forced)
{
	static struct uccl_sim_world w;
	const struct uccl_sim_scenario *s = uccl_sim_scenario_find(name);
	uint32_t bad;

	assert_non_null(s);
	memset(&w, 0, sizeof(w));
	bad = uccl_sim_scenario_run(s, &w, 1, forced);
	if (bad)
		fail_msg("%s (%s): %s; see uccl_sim --scenario %s --set %s -v", name, forced, w.first, name, forced);
}

#endif
