/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Scenes that retell what users of other transports reported of ports that fail and return. */
#ifndef UCCL_SIM_STORIES_H
#define UCCL_SIM_STORIES_H

#include "sim/scenario.h"

/* Each is a `run` of struct uccl_sim_scenario; `arg` is not used. The names are those of the reports. */
#define UCCL_SIM_STORIES(X) X(nccl_2044) X(nccl_2157) X(nccl_2323) X(mooncake_2960) X(mooncake_3523) X(mooncake_3596)

#define X(name)                                                                                                        \
	uint32_t uccl_sim_##name(struct uccl_sim_world *w, const struct uccl_sim_options *o, uint64_t seed,            \
				 const void *arg);
UCCL_SIM_STORIES(X)
#undef X

#endif
