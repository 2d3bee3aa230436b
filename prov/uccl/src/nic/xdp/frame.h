/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Ethernet frames with a UDP datagram over IPv4 or IPv6, for a back end that bypasses the kernel. Parses frames with
 * the checks that the kernel would make, and builds frames. No I/O.
 */
#ifndef UCCL_NIC_XDP_FRAME_H
#define UCCL_NIC_XDP_FRAME_H

#include "flow/wire/io.h"

#define UCCL_MAC_LEN 6
#define UCCL_FRAME_ETHER 14
#define UCCL_FRAME_V4 (UCCL_FRAME_ETHER + 20 + 8) /* bytes of headers before the UDP payload */
#define UCCL_FRAME_V6 (UCCL_FRAME_ETHER + 40 + 8)

/* What is wrong with a frame. */
enum uccl_frame_fault {
	UCCL_FRAME_GOOD,
	UCCL_FRAME_SHORT,    /* it ends before what its headers promise */
	UCCL_FRAME_FOREIGN,  /* neither IPv4 nor IPv6, not UDP, with options or extension headers, or a fragment */
	UCCL_FRAME_LENGTHS,  /* a length field contradicts the frame or another header */
	UCCL_FRAME_CHECKSUM, /* wrong checksum of the IPv4 header or of UDP */
	UCCL_FRAME_SOURCE,   /* impossible source address: multicast, unspecified, IPv4 inside IPv6, port 0 */
};

/* A parsed frame. */
struct uccl_frame {
	struct uccl_nic_addr src, dst; /* scope 0 */
	const uint8_t *data;	       /* the UDP payload, inside the frame */
	uint32_t len;		       /* bytes of the payload */
	bool marked;		       /* congestion experienced (RFC 3168) */
};

/*
 * Parse f[0..len). *out is filled only if the frame is good. Bytes behind the datagram are padding. Accepted besides a
 * correct UDP checksum: none (IPv4 only), and the sum of the pseudo header alone. The latter comes from a sender on
 * this host that left the checksum to the NIC, over a virtual link (veth) that never completes it.
 */
enum uccl_frame_fault uccl_frame_parse(const uint8_t *f, uint32_t len, struct uccl_frame *out);

/* The next hop of a frame: Ethernet addresses of both ends of the link, and the IP source address. */
struct uccl_frame_route {
	uint8_t to_mac[UCCL_MAC_LEN], from_mac[UCCL_MAC_LEN];
	struct uccl_nic_addr from; /* the port is not used */
};

/* Bytes of headers before the UDP payload in a frame to this address. */
uint32_t uccl_frame_headers(const struct uccl_nic_addr *to);

/*
 * Build a frame at `out`, which has room for the headers and for piece[0..n): from way->from and `from_port` to `to`;
 * both addresses must be of one family. Routers must not fragment it. `tos`: TOS byte with the ECN bits. Returns the
 * length of the frame; 0: too long for IP, or two families.
 */
uint32_t uccl_frame_build(uint8_t *out, const struct uccl_frame_route *way, uint16_t from_port,
			  const struct uccl_nic_addr *to, uint8_t tos, const struct iovec *piece, int n);

#endif
