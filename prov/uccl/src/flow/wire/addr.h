/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The address of an endpoint: where it is, which incarnation of it, and the key that lets one connect.
 * On the wire and in fi_getname it is UCCL_ADDR_LEN bytes, little endian (docs/protocol/packets.md).
 */
#ifndef UCCL_FLOW_WIRE_ADDR_H
#define UCCL_FLOW_WIRE_ADDR_H

#include <stdbool.h>

#include "base/mac.h"
#include "flow/wire/io.h"

#define UCCL_ADDR_LEN 56

struct uccl_addr {
	struct uccl_nic_addr nic;
	uint64_t incarnation;		/* random per endpoint; 0: not known (an address made from IP:port) */
	uint8_t key[UCCL_KEY_LEN];	/* connect key; all zero with incarnation 0: keyless */
	bool indirect;			/* nic is another one's place, who knows where this one is; not encoded */
};

void uccl_addr_encode(uint8_t out[UCCL_ADDR_LEN], const struct uccl_addr *a);
/* -FI_EINVAL: not an address (magic, version, checksum, port 0). */
int uccl_addr_decode(struct uccl_addr *a, const uint8_t in[UCCL_ADDR_LEN]);

/* True if both name the same place: IP and port, and on RDMA NICs the queue pair. */
bool uccl_nic_addr_equal(const struct uccl_nic_addr *a, const struct uccl_nic_addr *b);

static inline bool uccl_addr_keyless(const struct uccl_addr *a)
{
	return a->incarnation == 0;
}

#endif
