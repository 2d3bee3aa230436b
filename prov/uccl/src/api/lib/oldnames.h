/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What programs written for libfabric 1 still ask for, and what we still answer. libfabric 2 keeps the values, but
 * every use of one of its own names for them is a warning of the compiler that no option turns off.
 */
#ifndef UCCL_API_OLDNAMES_H
#define UCCL_API_OLDNAMES_H

#include <rdma/fabric.h>
#include <rdma/fi_domain.h>

/* fi_domain_attr.mr_mode as one number, before it was a set of bits. */
#undef FI_MR_BASIC
#undef FI_MR_SCALABLE
#define FI_MR_BASIC (1 << 0)
#define FI_MR_SCALABLE (1 << 1)

/* fi_tx_attr.comp_order and fi_rx_attr.comp_order */
#undef FI_ORDER_NONE
#undef FI_ORDER_STRICT
#undef FI_ORDER_DATA
#define FI_ORDER_NONE 0ULL
#define FI_ORDER_STRICT 0x1FF
#define FI_ORDER_DATA (1ULL << 16)

/* A flag of fi_domain_bind. */
#undef FI_REG_MR
#define FI_REG_MR (1ULL << 59)

#endif
