/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The specification of the fault wrapper (FI_UCCL_FAULT), as a text and as numbers.
 *
 * Keys of the specification, separated by commas:
 *   drop=P            every packet is lost with probability P
 *   drop_control=P    control packets are also lost with probability P
 *   burst=L           the losses of drop come in bursts of L packets on average (Gilbert's model); their share stays P
 *   dup=P             the packet is sent twice
 *   reorder=P         the packet is held for up to reorder_us, so that later ones overtake it
 *   reorder_us=N      default 100
 *   corrupt=P         one bit is flipped
 *   delay_us=N        every packet is delayed by N us
 *   jitter_us=N       every packet is delayed by up to N us more, at random
 *   train=HOW         packets of a train are lost: drop: all; first: all but the first; last: all but the last; equal:
 *                     all, but only if all have one length. corrupt: one bit of each is flipped
 *   path=K            all of the above hit only packets of entropy label K
 *   blackhole=L@S-E   packets of label L (*: of all labels) are lost from S to E ms after open (E empty: for ever)
 *   blackhole_path=I@S-E  as blackhole, for the sender's path with index I. Both keys may be given several times
 *   seed=N            seed of the random generator
 */
#ifndef UCCL_NIC_FAULT_FAULTSPEC_H
#define UCCL_NIC_FAULT_FAULTSPEC_H

#include <stdbool.h>
#include <stdint.h>

#include "nic/gso.h"

#define UCCL_FAULT_BLACKHOLES 16
#define UCCL_FAULT_ANY UINT64_MAX

/* A blackhole. */
struct uccl_fault_hole {
	bool by_path;	/* `which` is a path index, not a label */
	uint64_t which; /* UCCL_FAULT_ANY: all */
	uint64_t from_ns, to_ns;
};

/* The values of the keys; probabilities from 0 to 1, times in ns. */
struct uccl_fault_spec {
	double drop, drop_control, burst, dup, reorder, corrupt;
	uint64_t reorder_ns, delay_ns, jitter_ns, seed;
	uint64_t label; /* UCCL_FAULT_ANY: all */
	enum uccl_train_fault train;
	struct uccl_fault_hole hole[UCCL_FAULT_BLACKHOLES];
	int holes;
};

/* Read `text`. Returns NULL, or what is wrong with it, a static text. */
const char *uccl_fault_spec_read(struct uccl_fault_spec *spec, const char *text);

#endif
