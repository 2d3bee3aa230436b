/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * A udp back end on loopback and a stranger who sends to it, for the tests of udp_handshake_socket.c. cmocka.h comes
 * before.
 */
#ifndef UCCL_TEST_UNIT_NIC_FOREIGN_QP_H
#define UCCL_TEST_UNIT_NIC_FOREIGN_QP_H

#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <rdma/fi_errno.h>

#include "flow/wire/conn.h"
#include "flow/wire/wire.h"
#include "nic/udp/udp_state.h"

#define TOP 0xa55a
#define INCARNATION 0x1122334455667788
#define QUIET 400 /* calls of rx(): whatever is there has come */

static const struct uccl_nic_addr v4_loopback = {.ip = {[10] = 0xff, [11] = 0xff, [12] = 127, [15] = 1}};
/* All types that there are. */
static struct uccl_nic_guard guard = {.magic = UCCL_MAGIC,
				      .version = UCCL_VERSION,
				      .former = UCCL_VERSION_FORMER,
				      .hello = UCCL_PKT_HELLO,
				      .cookie = UCCL_PKT_COOKIE,
				      .init = UCCL_PKT_INIT,
				      .token_top = TOP,
				      .incarnation = INCARNATION};

static struct uccl_nic *nic;
static struct sockaddr_storage to; /* its place */
static socklen_t to_len;
static int out; /* the stranger's socket */

static inline uint64_t ns_now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * UCCL_NS_PER_S + (uint64_t)t.tv_nsec;
}

/* `rx_bytes`: of its queue; 0: as usual. */
static inline int stranger_open(uint32_t rx_bytes)
{
	struct uccl_nic_attr attr = {.bind = v4_loopback, .rx_bytes = rx_bytes};
	struct uccl_nic_addr at;

	for (uint8_t type = 0; type < 32; type++)
		if (uccl_type_known(type) && type != guard.hello && type != guard.init)
			guard.types |= 1u << type;
	assert_int_equal(uccl_nic_udp_open(&attr, &nic), 0);
	nic->ops->guard(nic, &guard);
	nic->ops->addr(nic, &at);
	to_len = uccl_ifaddr_to_sock(&to, &at, AF_INET);
	out = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	assert_true(out >= 0);
	return 0;
}

static inline int stranger_close(void **state)
{
	nic->ops->close(nic);
	close(out);
	return 0;
}

static inline void shoot(const void *data, size_t len)
{
	assert_int_equal(sendto(out, data, len, 0, (struct sockaddr *)&to, to_len), (ssize_t)len);
}

/* A packet of this type, right in every respect. `about`: what INIT or HELLO say of an incarnation. */
static inline void packet(uint8_t p[UCCL_HDR_LEN], uint8_t type, uint64_t about)
{
	uint8_t rec[UCCL_REC_LEN] = {0};
	struct uccl_hdr h = {.type = type, .token = (uint64_t)TOP << 48 | 0x123456789abc, .rec = rec};

	if (type == UCCL_PKT_INIT)
		h.token = 0;
	uccl_put64(rec + (type == UCCL_PKT_HELLO ? 16 : 8), about);
	uccl_hdr_encode(p, &h);
}

/* HELLO from who never asked before. */
static inline void shoot_new_hello(uint64_t about)
{
	static uint64_t nonce = 1;
	uint8_t p[UCCL_HDR_LEN];

	packet(p, UCCL_PKT_HELLO, about);
	uccl_put64(p + 32, nonce++);
	shoot(p, sizeof(p));
}

static inline void shoot_packet(uint8_t type, uint64_t about)
{
	uint8_t p[UCCL_HDR_LEN];

	packet(p, type, about);
	shoot(p, sizeof(p));
}

/* Whatever comes in some time; counted by type. */
static inline int take(int by_type[256])
{
	struct uccl_rx v[64];
	int n, total = 0;

	memset(by_type, 0, 256 * sizeof(*by_type));
	for (int i = 0; i < QUIET; i++) {
		n = nic->ops->rx(nic, v, 64, NULL, 0);
		assert_true(n >= 0);
		for (int k = 0; k < n; k++) {
			if (v[k].kind != UCCL_RX_PACKET)
				continue;
			by_type[v[k].len > 3 ? v[k].data[3] : 0]++;
			total++;
		}
	}
	return total;
}

static inline uint64_t refused(void)
{
	struct uccl_stats s = {0};

	nic->ops->count(nic, &s);
	return s.dropped[UCCL_DROP_KERNEL];
}

#endif
