/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* What the xdp back end (uccl_nic_xdp_open) did, for tests and for its log. */
#ifndef UCCL_NIC_XDP_XDP_H
#define UCCL_NIC_XDP_XDP_H

#include "nic/nic.h"

struct uccl_xdp_stats {
	uint64_t frames_out, frames_in;
	uint64_t kicks;	  /* system calls that sent frames */
	uint64_t refused; /* frames that the program let pass and a check did not */
	uint64_t sockets_out, sockets_in; /* packets and events that took sockets */
	uint32_t most; /* bytes of a packet that is no socket's, with all headers */
};

/* Of this back end, which is one of that kind. */
struct uccl_xdp_stats uccl_xdp_stats(struct uccl_nic *nic);

#endif
