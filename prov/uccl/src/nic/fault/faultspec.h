/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What the fault wrapper is to do, as a text and as numbers.
 *
 * Keys of the specification, separated by commas:
 *   drop=P            every packet is lost with probability P
 *   drop_control=P    control packets are lost with probability P besides
 *   burst=L           the losses of drop come in bursts of L packets on average (Gilbert's model), their share stays P
 *   dup=P             a copy follows
 *   reorder=P         the packet is held for up to reorder_us more, so that later ones overtake it
 *   reorder_us=N      default 100
 *   corrupt=P         one bit is flipped
 *   delay_us=N        every packet comes N us later; jitter_us=N: and up to N more
 *   train=HOW         packets that the inner back end would send as a train are lost: all (drop), all but the first
 *                     (first) or last (last), all of trains of equal packets (equal), or a bit of each is flipped
 *                     (corrupt)
 *   path=K            all of the above hit only packets of entropy label K
 *   blackhole=L@S-E   packets of label L (*: of all) are lost from S to E ms after open (E empty: for ever)
 *   blackhole_path=I@S-E  the same by the sender's path index; both may be given several times
 *   seed=N
 */
#ifndef UCCL_NIC_FAULT_FAULTSPEC_H
#define UCCL_NIC_FAULT_FAULTSPEC_H

#include <stdbool.h>
#include <stdint.h>

#include "nic/gso.h"

#define UCCL_FAULT_BLACKHOLES 16
#define UCCL_FAULT_ANY UINT64_MAX

struct uccl_fault_hole {
	bool by_path;
	uint64_t which; /* label or path index, UCCL_FAULT_ANY: all */
	uint64_t from_ns, to_ns;
};

struct uccl_fault_spec {
	double drop, drop_control, burst, dup, reorder, corrupt;
	uint64_t reorder_ns, delay_ns, jitter_ns, seed;
	uint64_t label; /* UCCL_FAULT_ANY: all */
	enum uccl_train_fault train;
	struct uccl_fault_hole hole[UCCL_FAULT_BLACKHOLES];
	int holes;
};

/* NULL, or what is wrong. */
const char *uccl_fault_spec_read(struct uccl_fault_spec *spec, const char *text);

#endif
