/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* For the tests of the simulator: named scenarios hold. Include after cmocka.h. */
#ifndef UCCL_TEST_SIM_HOLDS_H
#define UCCL_TEST_SIM_HOLDS_H

#include <string.h>

#include "sim/scenario.h"

struct holds {
	const char *scenario, *forced; /* options that override */
};

/* Fails with the text of the first violation. */
static inline void scenario_holds(void **state)
{
	static struct uccl_sim_world w;
	const struct holds *h = *state;
	const struct uccl_sim_scenario *s = uccl_sim_scenario_find(h->scenario);

	assert_non_null(s);
	memset(&w, 0, sizeof(w));
	if (uccl_sim_scenario_run(s, &w, 1, h->forced))
		fail_msg("%s (%s): %s; see uccl_sim --scenario %s --set %s -v", h->scenario, h->forced, w.first,
			 h->scenario, h->forced);
}

/* A test of its own: this scenario holds, with these options. Its name is both. */
#define HOLDS(name_, forced_)                                                                                          \
	{.name = name_ " " forced_, .test_func = scenario_holds, .initial_state = &(struct holds){name_, forced_}}
#define HOLDS_PACKET(name_) HOLDS(name_, "nic=0")
#define HOLDS_WRITE(name_) HOLDS(name_, "nic=1")
#define HOLDS_BOTH(name_) HOLDS_PACKET(name_), HOLDS_WRITE(name_)
#define HOLDS_ASYNC(name_) HOLDS(name_, "nic=0,tx_sync=0")

#endif
