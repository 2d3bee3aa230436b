/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Which trees there are of a number of hosts, for people whose wish is none. */
#ifndef UCCL_SIM_FABRIC_SIZES_H
#define UCCL_SIM_FABRIC_SIZES_H

#include <stdio.h>

#include "sim/fabric.h"

/* The full fat tree of k-port switches has 2 * half^tiers hosts. The `half` that gives `hosts` hosts; 0: none does. */
uint32_t uccl_fab_sizes_half(uint8_t tiers, uint32_t hosts);

/*
 * False if the tree that was asked for exists: nothing is printed then. Otherwise prints why it does not, and which do:
 * all trees of so many hosts whose links between switches carry what those to hosts carry, then the nearest numbers of
 * hosts that have trees. Fields of `asked` that are not 0 are kept: `tiers` only if `tiers_asked`, `hosts` as far as
 * possible.
 */
bool uccl_fab_sizes_refuse(const struct uccl_fab_topo *asked, bool tiers_asked, FILE *out);

#endif
