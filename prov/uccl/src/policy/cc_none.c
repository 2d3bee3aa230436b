/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* No congestion control: as much in flight as the flow's window holds. For measurements, and networks that do it. */
#include "policy/policies.h"

struct none {
	uint64_t window; /* bytes */
};

_Static_assert(sizeof(struct none) <= UCCL_CC_STATE, "state too large");

static void none_init(void *cc, const struct uccl_policy_cfg *cfg, uint64_t now)
{
	struct none *c = cc;

	(void)now;
	c->window = cfg->window_max;
}

static uint64_t none_window(const void *cc)
{
	const struct none *c = cc;

	return c->window;
}

const struct uccl_cc_ops uccl_cc_none = {
	.name = "none",
	.init = none_init,
	.window = none_window,
};
