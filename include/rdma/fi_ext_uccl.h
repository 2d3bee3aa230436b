/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* What a program may want to know about the uccl provider beyond libfabric's own headers. */
#ifndef FI_EXT_UCCL_H
#define FI_EXT_UCCL_H

#include <rdma/fabric.h>

#define FI_UCCL_PROV_NAME "uccl"
#define FI_UCCL_FABRIC_NAME "uccl"

/*
 * fi_info.addr_format of the provider's own addresses: FI_UCCL_ADDR_LEN opaque bytes that hold the place, the
 * incarnation and the connect key of one endpoint. Copy them as they are.
 */
#define FI_ADDR_UCCL (FI_PROV_SPECIFIC | 0x7563636cu)
#define FI_UCCL_ADDR_LEN 56

/* fi_ep_attr.protocol and .protocol_version. */
#define FI_PROTO_UCCL (FI_PROV_SPECIFIC | 0x7563636cu)
#define FI_UCCL_PROTO_VERSION 1

#endif
