/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "nic/xdp/frame.h"

#include <string.h>

#include "nic/ifaddr.h"

#define ETHER_V4 0x0800
#define ETHER_V6 0x86dd
#define IP_UDP 17
#define V4_LEN 20
#define V6_LEN 40
#define UDP_LEN 8
#define TTL 64
#define ECN_MASK 3
#define ECN_CE 3
#define V4_DF 0x4000
#define V4_FRAGMENT 0x3fff /* more fragments, and the offset */

static uint32_t get16be(const uint8_t *p)
{
	return (uint32_t)p[0] << 8 | p[1];
}

static void put16be(uint8_t *p, uint32_t v)
{
	p[0] = (uint8_t)(v >> 8);
	p[1] = (uint8_t)v;
}

/* Checksums (RFC 1071). */

/*
 * Sum of 16-bit words as they lie in memory, not yet folded; an odd last byte counts as if a zero followed. `len` is
 * below 2^16, and several such sums may be added up.
 */
static uint64_t words_sum(const uint8_t *p, uint32_t len)
{
	uint64_t a = 0, b = 0, w[4];
	uint16_t half;

	for (; len >= sizeof(w); p += sizeof(w), len -= sizeof(w)) {
		memcpy(w, p, sizeof(w));
		a += (w[0] & UINT32_MAX) + (w[1] & UINT32_MAX) + (w[2] & UINT32_MAX) + (w[3] & UINT32_MAX);
		b += (w[0] >> 32) + (w[1] >> 32) + (w[2] >> 32) + (w[3] >> 32);
	}
	for (; len >= sizeof(half); p += sizeof(half), len -= sizeof(half)) {
		memcpy(&half, p, sizeof(half));
		a += half;
	}
	if (len) {
		half = 0;
		memcpy(&half, p, 1);
		a += half;
	}
	return a + b;
}

/* In memory order; all ones for a sum that is right. */
static uint16_t folded(uint64_t sum)
{
	sum = (sum & UINT32_MAX) + (sum >> 32);
	sum = (sum & UINT32_MAX) + (sum >> 32);
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	return (uint16_t)sum;
}

/* `ips`: source and destination, one behind the other. */
static uint64_t pseudo_sum(const uint8_t *ips, uint32_t ips_len, uint32_t udp_len)
{
	uint8_t rest[4] = {0, IP_UDP};

	put16be(rest + 2, udp_len);
	return words_sum(ips, ips_len) + words_sum(rest, sizeof(rest));
}

static bool udp_sum_good(const uint8_t *udp, uint32_t udp_len, uint64_t pseudo, bool v4)
{
	uint16_t given;

	memcpy(&given, udp + 6, sizeof(given));
	if (!given)
		return v4;
	return given == folded(pseudo) || folded(pseudo + words_sum(udp, udp_len)) == UINT16_MAX;
}

/* Taking apart. */

static void addr_fill(struct uccl_nic_addr *a, const uint8_t *ip, bool v4, uint32_t port)
{
	memset(a, 0, sizeof(*a));
	if (v4) {
		a->ip[10] = a->ip[11] = 0xff;
		memcpy(a->ip + 12, ip, 4);
	} else {
		memcpy(a->ip, ip, 16);
	}
	a->port = (uint16_t)port;
}

static bool source_possible(const struct uccl_nic_addr *a)
{
	bool multicast = uccl_ifaddr_is_v4(a) ? a->ip[12] >= 224 : a->ip[0] == 0xff;

	return a->port && !multicast && !uccl_ifaddr_is_any(a);
}

/* Addresses, and the UDP datagram udp[0..len) of one IP packet, whose addresses are at `ips`. */
static enum uccl_frame_fault udp_parse(const uint8_t *udp, uint32_t len, const uint8_t *ips, bool v4,
				       struct uccl_frame *out)
{
	uint32_t ip_len = v4 ? 4 : 16, udp_len;
	struct uccl_frame f;

	if (len < UDP_LEN)
		return UCCL_FRAME_LENGTHS;
	udp_len = get16be(udp + 4);
	if (udp_len < UDP_LEN || udp_len > len)
		return UCCL_FRAME_LENGTHS;
	addr_fill(&f.src, ips, v4, get16be(udp));
	addr_fill(&f.dst, ips + ip_len, v4, get16be(udp + 2));
	if (!source_possible(&f.src) || uccl_ifaddr_is_v4(&f.src) != v4 || uccl_ifaddr_is_v4(&f.dst) != v4)
		return UCCL_FRAME_SOURCE;
	if (!udp_sum_good(udp, udp_len, pseudo_sum(ips, 2 * ip_len, udp_len), v4))
		return UCCL_FRAME_CHECKSUM;
	f.data = udp + UDP_LEN;
	f.len = udp_len - UDP_LEN;
	f.marked = false;
	*out = f;
	return UCCL_FRAME_GOOD;
}

static enum uccl_frame_fault v4_parse(const uint8_t *ip, uint32_t len, struct uccl_frame *out)
{
	enum uccl_frame_fault fault;
	uint32_t total;

	if (len < V4_LEN)
		return UCCL_FRAME_SHORT;
	if (ip[0] != 0x45 || ip[9] != IP_UDP || get16be(ip + 6) & V4_FRAGMENT)
		return UCCL_FRAME_FOREIGN;
	total = get16be(ip + 2);
	if (total < V4_LEN)
		return UCCL_FRAME_LENGTHS;
	if (total > len)
		return UCCL_FRAME_SHORT;
	if (folded(words_sum(ip, V4_LEN)) != UINT16_MAX)
		return UCCL_FRAME_CHECKSUM;
	fault = udp_parse(ip + V4_LEN, total - V4_LEN, ip + 12, true, out);
	if (fault == UCCL_FRAME_GOOD)
		out->marked = (ip[1] & ECN_MASK) == ECN_CE;
	return fault;
}

static enum uccl_frame_fault v6_parse(const uint8_t *ip, uint32_t len, struct uccl_frame *out)
{
	enum uccl_frame_fault fault;
	uint32_t body;

	if (len < V6_LEN)
		return UCCL_FRAME_SHORT;
	if (ip[0] >> 4 != 6 || ip[6] != IP_UDP)
		return UCCL_FRAME_FOREIGN;
	body = get16be(ip + 4);
	if (body > len - V6_LEN)
		return UCCL_FRAME_SHORT;
	fault = udp_parse(ip + V6_LEN, body, ip + 8, false, out);
	/* The traffic class begins in the middle of the first byte. */
	if (fault == UCCL_FRAME_GOOD)
		out->marked = (ip[1] >> 4 & ECN_MASK) == ECN_CE;
	return fault;
}

enum uccl_frame_fault uccl_frame_parse(const uint8_t *f, uint32_t len, struct uccl_frame *out)
{
	if (len < UCCL_FRAME_ETHER)
		return UCCL_FRAME_SHORT;
	switch (get16be(f + 12)) {
	case ETHER_V4:
		return v4_parse(f + UCCL_FRAME_ETHER, len - UCCL_FRAME_ETHER, out);
	case ETHER_V6:
		return v6_parse(f + UCCL_FRAME_ETHER, len - UCCL_FRAME_ETHER, out);
	default:
		return UCCL_FRAME_FOREIGN;
	}
}

/* Putting together. */

uint32_t uccl_frame_headers(const struct uccl_nic_addr *to)
{
	return uccl_ifaddr_is_v4(to) ? UCCL_FRAME_V4 : UCCL_FRAME_V6;
}

static void v4_header(uint8_t *ip, uint32_t udp_len, const struct uccl_nic_addr *from, const struct uccl_nic_addr *to,
		      uint8_t tos)
{
	uint16_t sum;

	memset(ip, 0, V4_LEN);
	ip[0] = 0x45;
	ip[1] = tos;
	put16be(ip + 2, V4_LEN + udp_len);
	put16be(ip + 6, V4_DF); /* so it needs no identification (RFC 6864) */
	ip[8] = TTL;
	ip[9] = IP_UDP;
	memcpy(ip + 12, from->ip + 12, 4);
	memcpy(ip + 16, to->ip + 12, 4);
	sum = (uint16_t)~folded(words_sum(ip, V4_LEN));
	memcpy(ip + 10, &sum, sizeof(sum));
}

static void v6_header(uint8_t *ip, uint32_t udp_len, const struct uccl_nic_addr *from, const struct uccl_nic_addr *to,
		      uint16_t from_port, uint8_t tos)
{
	/* Networks that hash the flow label and no ports see different ones, too. */
	uint32_t flow = (from_port * 0x9e3779b1u ^ to->port * 0x85ebca6bu) >> 12;

	ip[0] = (uint8_t)(0x60 | tos >> 4);
	ip[1] = (uint8_t)(tos << 4 | flow >> 16);
	put16be(ip + 2, flow & 0xffff);
	put16be(ip + 4, udp_len);
	ip[6] = IP_UDP;
	ip[7] = TTL;
	memcpy(ip + 8, from->ip, 16);
	memcpy(ip + 24, to->ip, 16);
}

uint32_t uccl_frame_build(uint8_t *out, const struct uccl_frame_route *way, uint16_t from_port,
			  const struct uccl_nic_addr *to, uint8_t tos, const struct iovec *piece, int n)
{
	bool v4 = uccl_ifaddr_is_v4(to);
	uint8_t *ip = out + UCCL_FRAME_ETHER, *udp = ip + (v4 ? V4_LEN : V6_LEN), *at = udp + UDP_LEN;
	size_t udp_len = UDP_LEN;
	uint16_t sum;

	for (int i = 0; i < n; i++)
		udp_len += piece[i].iov_len;
	if (udp_len > UINT16_MAX - (v4 ? V4_LEN : 0) || v4 != uccl_ifaddr_is_v4(&way->from))
		return 0;
	memcpy(out, way->to_mac, UCCL_MAC_LEN);
	memcpy(out + UCCL_MAC_LEN, way->from_mac, UCCL_MAC_LEN);
	put16be(out + 12, v4 ? ETHER_V4 : ETHER_V6);
	if (v4)
		v4_header(ip, (uint32_t)udp_len, &way->from, to, tos);
	else
		v6_header(ip, (uint32_t)udp_len, &way->from, to, from_port, tos);
	put16be(udp, from_port);
	put16be(udp + 2, to->port);
	put16be(udp + 4, (uint32_t)udp_len);
	memset(udp + 6, 0, 2);
	for (int i = 0; i < n; i++) {
		if (piece[i].iov_len)
			memcpy(at, piece[i].iov_base, piece[i].iov_len);
		at += piece[i].iov_len;
	}
	sum = (uint16_t)~folded(pseudo_sum(ip + (v4 ? 12 : 8), v4 ? 8 : 32, (uint32_t)udp_len) +
				words_sum(udp, (uint32_t)udp_len));
	/* Zero would say that there is none (RFC 768). */
	if (!sum)
		sum = UINT16_MAX;
	memcpy(udp + 6, &sum, sizeof(sum));
	return (uint32_t)(at - out);
}
