/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The messages of a named scene: sender, receiver, length and time; and how fast they could be at best. */
#ifndef UCCL_SIM_FABRIC_SCRIPT_H
#define UCCL_SIM_FABRIC_SCRIPT_H

#include "sim/fabric_play.h"

/* The group that the scene is about. */
static inline uint8_t uccl_fab_play_group(const struct uccl_fab_play *p)
{
	return p->alone ? UCCL_FAB_OTHER : UCCL_FAB_MAIN;
}

/* Give the open p->scene its operations and its faults. -FI_EINVAL: the network is too small for it; -FI_ENOMEM. */
int uccl_fab_script(struct uccl_fab_play *p);
/*
 * What no transport can beat, ns: from the main group's first start to its last arrival. Faults are not counted, or, of
 * switches that stay ill, what they take of the links that lead up.
 */
uint64_t uccl_fab_script_ideal(const struct uccl_fab_play *p, bool faults);

#endif
