/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* What strangers send to a udp back end on loopback: the kernel's programs and the doors. */
#include "nic/udp/udp_state.h"

#include "../../tests.h"

#include <poll.h>
#include <stdlib.h>

#include "../foreign_qp.h"

#define MANY 3000 /* HELLOs: more than a door holds */

/* A queue that MANY packets would fill. */
static int open_one(void **state)
{
	return stranger_open(64 << 10);
}

TEST_IN(filter__types, open_one, stranger_close)
{
	int by_type[256], good = 0, known = 0;

	for (int type = 0; type < 256; type++) {
		shoot_packet((uint8_t)type, INCARNATION);
		good += uccl_type_known((uint8_t)type);
		known += uccl_type_known((uint8_t)type);
		if (type % 32 == 31) {
			int got = take(by_type);

			assert_int_equal(got, good);
			for (int t = 0; t < 256; t++)
				assert_int_equal(by_type[t], uccl_type_known((uint8_t)t) && t > type - 32 && t <= type);
			good = 0;
		}
	}
	assert_int_equal(refused(), 256 - known);
}

/* Shorter than a header, of another magic or version: no call of rx() hears of it. */
TEST_IN(filter__shape, open_one, stranger_close)
{
	uint8_t p[UCCL_HDR_LEN];
	int by_type[256], n = 0;

	packet(p, UCCL_PKT_ACK, 0);
	for (size_t len = 0; len < UCCL_HDR_LEN; len++, n++)
		shoot(p, len);
	for (int i = 0; i < 3; i++, n++) {
		packet(p, UCCL_PKT_ACK, 0);
		p[i] ^= 1;
		shoot(p, sizeof(p));
	}
	assert_int_equal(take(by_type), 0);
	assert_int_equal(refused(), n);
}

/*
 * Of other versions those handshakes come that are read: HELLO, COOKIE with a token of ours, and INIT of the first one.
 * PROTOCOL R333 R335
 */
TEST_IN(filter__other_versions, open_one, stranger_close)
{
	static const uint8_t types[] = {UCCL_PKT_HELLO, UCCL_PKT_INIT, UCCL_PKT_COOKIE};
	uint8_t p[UCCL_HDR_LEN];
	int by_type[256];

	for (int version = 0; version < 4; version++) {
		for (int i = 0; i < 3; i++) {
			packet(p, types[i], INCARNATION);
			p[2] = (uint8_t)version;
			shoot(p, sizeof(p));
		}
		packet(p, UCCL_PKT_COOKIE, 0);
		p[2] = (uint8_t)version;
		p[15] ^= 1;
		shoot(p, sizeof(p));
		assert_int_equal(take(by_type), version == UCCL_VERSION || version == UCCL_VERSION_FORMER ? 3 : 2);
	}
	assert_int_equal(refused(), 2 + 4);
}

/* Every bit of a token's beginning counts, and those of the rest do not; so with INIT and all of an incarnation. */
TEST_IN(filter__tokens_and_incarnations, open_one, stranger_close)
{
	static const uint8_t types[] = {UCCL_PKT_COOKIE, UCCL_PKT_INIT_ACK, UCCL_PKT_ELSEWHERE, UCCL_PKT_ACK,
					UCCL_PKT_CHUNK};
	uint8_t p[UCCL_HDR_LEN];
	int by_type[256], n = 0;

	for (size_t t = 0; t < sizeof(types); t++) {
		for (int bit = 0; bit < 16; bit++, n++) {
			packet(p, types[t], 0);
			p[14 + bit / 8] ^= (uint8_t)(1 << bit % 8);
			shoot(p, sizeof(p));
		}
	}
	for (int bit = 0; bit < 64; bit++, n++)
		shoot_packet(UCCL_PKT_INIT, INCARNATION ^ 1ull << bit);
	assert_int_equal(take(by_type), 0);
	assert_int_equal(refused(), n);
	for (int bit = 0; bit < 48; bit++) {
		packet(p, UCCL_PKT_ACK, 0);
		p[8 + bit / 8] ^= (uint8_t)(1 << bit % 8);
		shoot(p, sizeof(p));
	}
	assert_int_equal(take(by_type), 48);
}

/* A flood of HELLO fills its door, and what peers send finds room; who knows us is not behind strangers. */
TEST_IN(doors__apart, open_one, stranger_close)
{
	int by_type[256];

	for (int i = 0; i < MANY; i++)
		shoot_packet(UCCL_PKT_HELLO, i & 1 ? 0 : INCARNATION ^ 1);
	shoot_packet(UCCL_PKT_CHUNK, 0);
	shoot_packet(UCCL_PKT_HELLO, INCARNATION);
	for (int round = 0;; round++) {
		struct uccl_rx v[64];
		int n = nic->ops->rx(nic, v, 64, NULL, 0), known = 0;

		for (int i = 0; i < n; i++)
			known += uccl_get64(v[i].data + 32 + 16) == INCARNATION;
		if (!round) {
			assert_int_equal(n, 1);
			assert_int_equal(v[0].data[3], UCCL_PKT_CHUNK);
		}
		if (known)
			break;
		assert_true(round < 16);
	}
	assert_true(refused() > 0);
	take(by_type);
}

/* A flood of INIT fills its door only. */
TEST_IN(doors__init, open_one, stranger_close)
{
	struct uccl_rx v[64];

	for (int i = 0; i < MANY; i++)
		shoot_packet(UCCL_PKT_INIT, INCARNATION);
	shoot_packet(UCCL_PKT_CHUNK, 0);
	assert_int_equal(nic->ops->rx(nic, v, 64, NULL, 0), 1);
	assert_int_equal(v[0].data[3], UCCL_PKT_CHUNK);
	assert_true(refused() > 0);
}

/* The longest INIT comes whole. */
TEST_IN(doors__longest_init, open_one, stranger_close)
{
	uint8_t p[UCCL_HDR_LEN + UCCL_INIT_MAX] = {0};
	struct uccl_rx v[8];
	int n;

	packet(p, UCCL_PKT_INIT, INCARNATION);
	memset(p + UCCL_HDR_LEN, 0x5a, UCCL_INIT_MAX);
	shoot(p, sizeof(p));
	while (!(n = nic->ops->rx(nic, v, 8, NULL, 0)))
		;
	assert_int_equal(n, 1);
	assert_int_equal(v[0].len, sizeof(p));
	assert_memory_equal(v[0].data, p, sizeof(p));
}

/* What comes back because of answers to strangers is none of the labels' business; answers come from our port. */
TEST_IN(answers__from_the_door, open_one, stranger_close)
{
	struct uccl_nic_addr at, own;
	struct sockaddr_storage from;
	struct uccl_tx t = {.kind = UCCL_TX_PACKET, .answer = true, .hdr_len = UCCL_HDR_LEN, .to = &at};
	struct uccl_rx v[8];
	socklen_t len = sizeof(from);
	uint8_t buf[128];

	nic->ops->addr(nic, &own);
	at = own;
	at.port = 9;
	for (int i = 0; i < 20; i++) {
		assert_int_equal(nic->ops->tx(nic, &t, 1), 1);
		poll(NULL, 0, 1);
	}
	assert_int_equal(recvmsg(udp_of(nic)->labels.sock[0].fd, &(struct msghdr){0}, MSG_ERRQUEUE | MSG_DONTWAIT), -1);
	for (int i = 0; i < QUIET; i++)
		assert_int_equal(nic->ops->rx(nic, v, 8, NULL, 0), 0);
	shoot_packet(UCCL_PKT_HELLO, 0);
	while (!nic->ops->rx(nic, v, 8, NULL, 0))
		;
	t.to = &v[0].src;
	assert_int_equal(nic->ops->tx(nic, &t, 1), 1);
	assert_int_equal(recvfrom(out, buf, sizeof(buf), 0, (struct sockaddr *)&from, &len), UCCL_HDR_LEN);
	uccl_ifaddr_from_sock(&at, (struct sockaddr *)&from, len);
	assert_int_equal(at.port, own.port);
}

/* The doors share our port with us and with nobody else. */
TEST_IN(guard__port_stays_ours, open_one, stranger_close)
{
	struct uccl_nic_attr attr = {0};
	struct uccl_nic *other;

	nic->ops->addr(nic, &attr.bind);
	assert_int_equal(uccl_nic_udp_open(&attr, &other), -FI_EADDRINUSE);
}

/* HELLO wakes who sleeps, and when it was taken the next sleep is one. */
TEST_IN(wait_fd__hello, open_one, stranger_close)
{
	struct pollfd p = {.fd = nic->ops->wait_fd(nic), .events = POLLIN};
	struct uccl_rx v[8];

	nic->watched = true;
	assert_int_equal(poll(&p, 1, 0), 0);
	for (int i = 0; i < 3; i++) {
		shoot_packet(UCCL_PKT_HELLO, i & 1 ? INCARNATION : 0);
		assert_int_equal(poll(&p, 1, 5000), 1);
		assert_int_equal(nic->ops->rx(nic, v, 8, NULL, 0), 1);
		assert_int_equal(poll(&p, 1, 0), 0);
	}
}

/* However many come, who sleeps is woken a bounded number of times a second for them; for others at once. */
TEST_IN(wait_fd__flood, open_one, stranger_close)
{
	struct pollfd p = {.fd = nic->ops->wait_fd(nic), .events = POLLIN};
	static const uint8_t types[] = {UCCL_PKT_HELLO, UCCL_PKT_INIT};
	struct uccl_rx v[16];
	uint64_t began, took;
	int wakes, n;

	nic->watched = true;
	for (int k = 0; k < 2; k++) {
		began = ns_now();
		for (wakes = 0; (took = ns_now() - began) < 300 * UCCL_NS_PER_MS;) {
			shoot_packet(types[k], INCARNATION);
			if (!poll(&p, 1, 0))
				continue;
			wakes++;
			/* As an engine does. */
			while (nic->ops->rx(nic, v, 16, NULL, 0) == 16)
				;
		}
		/* 1000 a second and a timer every 10 ms, after 64; twice that for a coarse clock. */
		assert_in_range(wakes, 1, 2 * (64 + took / UCCL_NS_PER_MS + took / UCCL_NS_PER_MS / 10));
	}
	/* Again until they rest: what peers send wakes nevertheless. */
	for (int i = 0; i < 100000; i++) {
		shoot_packet(UCCL_PKT_HELLO, INCARNATION);
		if (!poll(&p, 1, 0))
			break;
		nic->ops->rx(nic, v, 16, NULL, 0);
	}
	assert_int_equal(poll(&p, 1, 0), 0);
	shoot_packet(UCCL_PKT_CHUNK, 0);
	assert_int_equal(poll(&p, 1, 0), 1);
	assert_true(nic->ops->rx(nic, v, 16, NULL, 0) >= 1);
	assert_int_equal(v[0].data[3], UCCL_PKT_CHUNK);
	/* And what is left at the doors is not forgotten: it wakes by itself. */
	for (n = 0; n < 1;) {
		assert_int_equal(poll(&p, 1, 5000), 1);
		n = nic->ops->rx(nic, v, 16, NULL, 0);
	}
	assert_true(v[0].data[3] == UCCL_PKT_HELLO || v[0].data[3] == UCCL_PKT_INIT);
	/* Then there is silence. */
	for (int i = 0; i < 100 && poll(&p, 1, 50); i++)
		nic->ops->rx(nic, v, 16, NULL, 0);
	assert_int_equal(poll(&p, 1, 0), 0);
}

TESTS_MAIN
