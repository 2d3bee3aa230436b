/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Which trees there are of a number of hosts, for people whose wish is none. */
#ifndef UCCL_SIM_FABRIC_SIZES_H
#define UCCL_SIM_FABRIC_SIZES_H

#include <stdio.h>

#include "sim/fabric.h"

/* The full fat tree of k-port switches has 2 * half^tiers hosts. The `half` that gives `hosts` hosts; 0: none does. */
uint32_t uccl_fab_sizes_half(uint8_t tiers, uint32_t hosts);

/*
 * Returns false, and prints nothing, if the tree that was asked for exists. Otherwise it prints why there is none, and
 * which trees there are: first all trees of this number of hosts whose links between switches are as fast as those to
 * hosts, then trees of the nearest numbers of hosts. They agree with the fields of `asked` that are not 0: with `tiers`
 * only if `tiers_asked`, with `hosts` as far as possible.
 */
bool uccl_fab_sizes_refuse(const struct uccl_fab_topo *asked, bool tiers_asked, FILE *out);

#endif
