/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Ethernet frames with a UDP datagram in them, over IPv4 or IPv6, for a back end that talks to the NIC past the kernel:
 * taken apart with the checks that the kernel would make, and put together. No I/O.
 */
#ifndef UCCL_NIC_XDP_FRAME_H
#define UCCL_NIC_XDP_FRAME_H

#include "flow/wire/io.h"

#define UCCL_MAC_LEN 6
#define UCCL_FRAME_ETHER 14
#define UCCL_FRAME_V4 (UCCL_FRAME_ETHER + 20 + 8) /* bytes before the datagram */
#define UCCL_FRAME_V6 (UCCL_FRAME_ETHER + 40 + 8)

/* What is wrong with a frame. */
enum uccl_frame_fault {
	UCCL_FRAME_GOOD,
	UCCL_FRAME_SHORT,    /* it ends before what its headers promise */
	UCCL_FRAME_FOREIGN,  /* neither IPv4 nor IPv6, not UDP, with options or extension headers, or a fragment */
	UCCL_FRAME_LENGTHS,  /* a length that cannot be */
	UCCL_FRAME_CHECKSUM, /* of the IPv4 header or of UDP */
	UCCL_FRAME_SOURCE,   /* nobody can be there: multicast, unspecified, IPv4 inside IPv6, port 0 */
	UCCL_FRAME_FAULTS,
};

/* What a good frame says. */
struct uccl_frame {
	struct uccl_nic_addr src, dst; /* scope 0 */
	const uint8_t *data;	       /* the datagram, inside the frame */
	uint32_t len;
	bool marked; /* congestion experienced (RFC 3168) */
};

/*
 * Take f[0..len) apart. *out is only filled in when it is good. What follows the datagram is padding. A UDP checksum
 * may be missing (IPv4), or be the sum of the pseudo header alone: so it comes from a sender on this host, who left the
 * rest to a NIC that there is not (veth).
 */
enum uccl_frame_fault uccl_frame_parse(const uint8_t *f, uint32_t len, struct uccl_frame *out);

/* The way of a frame: Ethernet addresses of both ends of the next link, and the IP address that it comes from. */
struct uccl_frame_route {
	uint8_t to_mac[UCCL_MAC_LEN], from_mac[UCCL_MAC_LEN];
	struct uccl_nic_addr from; /* the port is not used */
};

/* Bytes before the datagram in a frame to there. */
uint32_t uccl_frame_headers(const struct uccl_nic_addr *to);

/*
 * Put a frame together at `out`, which has room for the headers and all pieces: from a port of way->from to `to`, both
 * of one family. It is never fragmented on its way; `tos` is its traffic class, with the bits of ECN. The length of the
 * frame; 0: longer than IP can be, or of two families.
 */
uint32_t uccl_frame_build(uint8_t *out, const struct uccl_frame_route *way, uint16_t from_port,
			  const struct uccl_nic_addr *to, uint8_t tos, const struct iovec *piece, int n);

#endif
