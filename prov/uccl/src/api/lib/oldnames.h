/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Constants of libfabric 1 that programs still use and the provider still supports. libfabric 2 keeps their values, but
 * the compiler warns of every use of its names, and no option turns that off. So these names are defined again here.
 */
#ifndef UCCL_API_OLDNAMES_H
#define UCCL_API_OLDNAMES_H

#include <rdma/fabric.h>
#include <rdma/fi_domain.h>

/* Values of fi_domain_attr.mr_mode from the time before it was a set of bits. */
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
