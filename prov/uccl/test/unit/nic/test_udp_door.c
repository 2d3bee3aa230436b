/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* What strangers send to a udp back end on loopback: the kernel's programs and the doors. */
#include "nic/udp.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <poll.h>
#include <rdma/fi_errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "core/conn.h"
#include "core/wire.h"

#define TOP 0xa55a
#define INCARNATION 0x1122334455667788
#define QUIET 400 /* calls of rx(): whatever is there has come */
#define MANY 3000 /* HELLOs: more than a door holds */

static const struct uccl_nic_addr v4_loopback = {.ip = {[10] = 0xff, [11] = 0xff, [12] = 127, [15] = 1}};
/* All types that there are. */
static struct uccl_nic_guard guard = {.magic = UCCL_MAGIC,
				      .version = UCCL_VERSION,
				      .hello = UCCL_PKT_HELLO,
				      .init = UCCL_PKT_INIT,
				      .token_top = TOP,
				      .incarnation = INCARNATION};

static struct uccl_nic *nic;
static struct sockaddr_storage to;
static socklen_t to_len;
static int out;

static uint64_t ns_now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * UCCL_NS_PER_S + (uint64_t)t.tv_nsec;
}

static int open_one(void **state)
{
	/* A queue that MANY packets would fill. */
	struct uccl_nic_attr attr = {.bind = v4_loopback, .rx_bytes = 64 << 10};
	struct uccl_nic_addr at;

	(void)state;
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

static int close_one(void **state)
{
	(void)state;
	nic->ops->close(nic);
	close(out);
	return 0;
}

static void shoot(const void *data, size_t len)
{
	assert_int_equal(sendto(out, data, len, 0, (struct sockaddr *)&to, to_len), (ssize_t)len);
}

/* A packet of this type, right in every respect. `about`: what INIT or HELLO say of an incarnation. */
static void packet(uint8_t p[UCCL_HDR_LEN], uint8_t type, uint64_t about)
{
	uint8_t rec[UCCL_REC_LEN] = {0};
	struct uccl_hdr h = {.type = type, .token = (uint64_t)TOP << 48 | 0x123456789abc, .rec = rec};

	if (type == UCCL_PKT_INIT)
		h.token = 0;
	uccl_put64(rec + (type == UCCL_PKT_HELLO ? 16 : 8), about);
	uccl_hdr_encode(p, &h);
}

/* HELLO from who never asked before. */
static void shoot_new_hello(uint64_t about)
{
	static uint64_t nonce = 1;
	uint8_t p[UCCL_HDR_LEN];

	packet(p, UCCL_PKT_HELLO, about);
	uccl_put64(p + 32, nonce++);
	shoot(p, sizeof(p));
}

static void shoot_packet(uint8_t type, uint64_t about)
{
	uint8_t p[UCCL_HDR_LEN];

	packet(p, type, about);
	shoot(p, sizeof(p));
}

/* Whatever comes in some time; counted by type. */
static int take(int by_type[256])
{
	struct uccl_rx v[64];
	int n, total = 0;

	memset(by_type, 0, 256 * sizeof(*by_type));
	for (int i = 0; i < QUIET; i++) {
		n = nic->ops->rx(nic, v, 64, NULL, 0);
		assert_true(n >= 0);
		for (int k = 0; k < n; k++)
			by_type[v[k].len > 3 ? v[k].data[3] : 0]++;
		total += n;
	}
	return total;
}

static uint64_t refused(void)
{
	struct uccl_stats s = {0};

	nic->ops->count(nic, &s);
	return s.dropped[UCCL_DROP_KERNEL];
}

static void filter__types(void **state)
{
	int by_type[256], good = 0, known = 0;

	(void)state;
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
static void filter__shape(void **state)
{
	uint8_t p[UCCL_HDR_LEN];
	int by_type[256], n = 0;

	(void)state;
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

/* Every bit of a token's beginning counts, and those of the rest do not; so with INIT and all of an incarnation. */
static void filter__tokens_and_incarnations(void **state)
{
	static const uint8_t types[] = {UCCL_PKT_COOKIE, UCCL_PKT_INIT_ACK, UCCL_PKT_ELSEWHERE, UCCL_PKT_ACK,
					UCCL_PKT_CHUNK};
	uint8_t p[UCCL_HDR_LEN];
	int by_type[256], n = 0;

	(void)state;
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
static void doors__apart(void **state)
{
	int by_type[256];

	(void)state;
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

/* However many come, and however often one looks: no more than so many a second are taken, whoever sends them. */
static void doors__rate(void **state)
{
	uint64_t began = ns_now(), took;
	int by_type[256], hellos = 0;

	(void)state;
	while ((took = ns_now() - began) < 100 * UCCL_NS_PER_MS) {
		for (int i = 0; i < 512; i++)
			shoot_packet(UCCL_PKT_HELLO, 0);
		take(by_type);
		hellos += by_type[UCCL_PKT_HELLO];
	}
	took = ns_now() - began;
	/* What a pause allows, 20 a millisecond, and one step of the coarse clock. */
	assert_true((uint64_t)hellos <= 300 + 20 * (took / UCCL_NS_PER_MS + 11));
	assert_true(hellos >= 300);
	/* After some time there is room again, in the end for a burst only. */
	poll(NULL, 0, 200);
	for (int i = 0; i < MANY; i++)
		shoot_packet(UCCL_PKT_HELLO, 0);
	began = ns_now();
	take(by_type);
	took = ns_now() - began;
	assert_in_range(by_type[UCCL_PKT_HELLO], 250, 300 + 20 * (took / UCCL_NS_PER_MS + 11));
}

/* Of those that say something new each time only few are answered, and who repeats himself is among the answered. */
static void doors__first_and_again(void **state)
{
	uint64_t began, took;
	int by_type[256], news = 0, again = 0;

	(void)state;
	/* On a usual day everybody is. */
	for (int i = 0; i < 100; i++)
		shoot_new_hello(0);
	take(by_type);
	assert_int_equal(by_type[UCCL_PKT_HELLO], 100);
	began = ns_now();
	do {
		for (int i = 0; i < 200; i++)
			shoot_new_hello(0);
		take(by_type);
		news += by_type[UCCL_PKT_HELLO];
	} while ((took = ns_now() - began) < 200 * UCCL_NS_PER_MS);
	assert_in_range(news, 100, 300 + 2 * (took / UCCL_NS_PER_MS + 11));
	for (int i = 0; i < 10; i++, poll(NULL, 0, 10))
		take(by_type);
	for (int k = 0; k < 10; k++) {
		uint64_t end = udp_of(nic)->door_read + 451;

		for (int i = 0; i < 450; i++)
			shoot_new_hello(0);
		shoot_packet(UCCL_PKT_HELLO, 0);
		for (int i = 0; i < 10 * QUIET && udp_of(nic)->door_read < end; i++) {
			struct uccl_rx v[64];
			int n = nic->ops->rx(nic, v, 64, NULL, 0);

			for (int j = 0; j < n; j++)
				again += !uccl_get64(v[j].data + 32);
			if (i % QUIET == QUIET - 1)
				poll(NULL, 0, 20);
		}
	}
	/* The first time it is as good as the rest, and a busy host may lose some. */
	assert_true(again >= 6);
}

/* A flood of INIT fills its door only, and takes a bounded part of the work, too. */
static void doors__init(void **state)
{
	uint64_t began, took;
	int by_type[256], inits = 0;
	struct uccl_rx v[64];

	(void)state;
	began = ns_now();
	for (int i = 0; i < MANY; i++)
		shoot_packet(UCCL_PKT_INIT, INCARNATION);
	shoot_packet(UCCL_PKT_CHUNK, 0);
	assert_int_equal(nic->ops->rx(nic, v, 64, NULL, 0), 1);
	assert_int_equal(v[0].data[3], UCCL_PKT_CHUNK);
	assert_true(refused() > 0);
	/* A busy host may have had no time for more than one round. */
	do {
		for (int i = 0; i < 512; i++)
			shoot_packet(UCCL_PKT_INIT, INCARNATION);
		take(by_type);
		inits += by_type[UCCL_PKT_INIT];
	} while ((took = ns_now() - began) < 100 * UCCL_NS_PER_MS);
	assert_in_range(inits, 200, 300 + 40 * (took / UCCL_NS_PER_MS + 11));
}

/* The longest INIT comes whole. */
static void doors__longest_init(void **state)
{
	uint8_t p[UCCL_HDR_LEN + UCCL_INIT_MAX] = {0};
	struct uccl_rx v[8];
	int n;

	(void)state;
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
static void answers__from_the_door(void **state)
{
	struct uccl_nic_addr at, own;
	struct sockaddr_storage from;
	struct uccl_tx t = {.kind = UCCL_TX_PACKET, .answer = true, .hdr_len = UCCL_HDR_LEN, .to = &at};
	struct uccl_rx v[8];
	socklen_t len = sizeof(from);
	uint8_t buf[128];

	(void)state;
	nic->ops->addr(nic, &own);
	at = own;
	at.port = 9;
	for (int i = 0; i < 20; i++) {
		assert_int_equal(nic->ops->tx(nic, &t, 1), 1);
		poll(NULL, 0, 1);
	}
	assert_int_equal(recvmsg(udp_of(nic)->sock[0].fd, &(struct msghdr){0}, MSG_ERRQUEUE | MSG_DONTWAIT), -1);
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
static void guard__port_stays_ours(void **state)
{
	struct uccl_nic_attr attr = {0};
	struct uccl_nic *other;

	(void)state;
	nic->ops->addr(nic, &attr.bind);
	assert_int_equal(uccl_nic_udp_open(&attr, &other), -FI_EADDRINUSE);
}

/* HELLO wakes who sleeps, and when it was taken the next sleep is one. */
static void wait_fd__hello(void **state)
{
	struct pollfd p = {.fd = nic->ops->wait_fd(nic), .events = POLLIN};
	struct uccl_rx v[8];

	(void)state;
	assert_int_equal(poll(&p, 1, 0), 0);
	for (int i = 0; i < 3; i++) {
		shoot_packet(UCCL_PKT_HELLO, i & 1 ? INCARNATION : 0);
		assert_int_equal(poll(&p, 1, 5000), 1);
		assert_int_equal(nic->ops->rx(nic, v, 8, NULL, 0), 1);
		assert_int_equal(poll(&p, 1, 0), 0);
	}
}

/* However many come, who sleeps is woken a bounded number of times a second for them; for others at once. */
static void wait_fd__flood(void **state)
{
	struct pollfd p = {.fd = nic->ops->wait_fd(nic), .events = POLLIN};
	static const uint8_t types[] = {UCCL_PKT_HELLO, UCCL_PKT_INIT};
	struct uccl_rx v[16];
	uint64_t began, took;
	int wakes, n;

	(void)state;
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
	assert_int_equal(v[0].data[3], UCCL_PKT_HELLO);
	/* Then there is silence. */
	for (int i = 0; i < 100 && poll(&p, 1, 50); i++)
		nic->ops->rx(nic, v, 16, NULL, 0);
	assert_int_equal(poll(&p, 1, 0), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(filter__types, open_one, close_one),
		cmocka_unit_test_setup_teardown(filter__shape, open_one, close_one),
		cmocka_unit_test_setup_teardown(filter__tokens_and_incarnations, open_one, close_one),
		cmocka_unit_test_setup_teardown(doors__apart, open_one, close_one),
		cmocka_unit_test_setup_teardown(doors__rate, open_one, close_one),
		cmocka_unit_test_setup_teardown(doors__first_and_again, open_one, close_one),
		cmocka_unit_test_setup_teardown(doors__init, open_one, close_one),
		cmocka_unit_test_setup_teardown(doors__longest_init, open_one, close_one),
		cmocka_unit_test_setup_teardown(answers__from_the_door, open_one, close_one),
		cmocka_unit_test_setup_teardown(guard__port_stays_ours, open_one, close_one),
		cmocka_unit_test_setup_teardown(wait_fd__hello, open_one, close_one),
		cmocka_unit_test_setup_teardown(wait_fd__flood, open_one, close_one),
	};

	return cmocka_run_group_tests_name("nic/udp_door", tests, NULL, NULL);
}
