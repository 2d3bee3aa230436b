/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Counters of the xdp back end (uccl_nic_xdp_open), for tests and for its log. */
#ifndef UCCL_NIC_XDP_XDP_H
#define UCCL_NIC_XDP_XDP_H

#include "nic/nic.h"

struct uccl_xdp_stats {
	uint64_t frames_out, frames_in;
	uint64_t kicks;	  /* system calls that sent frames */
	uint64_t refused; /* frames that the XDP program passed up and uccl_frame_parse() refused */
	uint64_t sockets_out, sockets_in; /* packets sent by sockets; packets and events received by sockets */
	uint32_t most; /* most bytes of a packet by AF_XDP, with all headers */
};

/* `nic` must be an xdp back end. */
struct uccl_xdp_stats uccl_xdp_stats(struct uccl_nic *nic);

#endif
