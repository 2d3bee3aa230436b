/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* What the fault wrapper did; uccl_nic_fault_open itself is declared in nic/nic.h. */
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
	uint64_t overflow; /* dropped because too many were held, or memory was out */
};

/* `nic` must come from uccl_nic_fault_open; the result lives as long as it. */
const struct uccl_fault_stats *uccl_nic_fault_stats(const struct uccl_nic *nic);

#endif
