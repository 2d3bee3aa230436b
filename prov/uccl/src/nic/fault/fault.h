/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Counters of the fault wrapper. nic/nic.h declares uccl_nic_fault_open(). */
#ifndef UCCL_NIC_FAULT_FAULT_H
#define UCCL_NIC_FAULT_FAULT_H

#include "nic/nic.h"

/* Packets, counted since open. One packet may count in several. */
struct uccl_fault_stats {
	uint64_t passed;  /* given to the inner back end, copies included */
	uint64_t dropped; /* by drop, drop_control or burst */
	uint64_t blackholed;
	uint64_t duplicated;
	uint64_t reordered;
	uint64_t corrupted;
	uint64_t overflow; /* dropped because too many packets were held, or memory ran out */
};

/* `nic` must come from uccl_nic_fault_open(). The result is valid until `nic` is closed. */
const struct uccl_fault_stats *uccl_nic_fault_stats(const struct uccl_nic *nic);

#endif
