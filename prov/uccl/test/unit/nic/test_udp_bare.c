/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The udp back end where the kernel takes no programs for sockets (an old kernel, a sandbox): without the filter,
 * without the doors, without both. What is refused is refused with EPERM in a child of this process, by seccomp.
 */
#include "nic/udp/udp_state.h"

#include "../tests.h"

#include <netinet/in.h>
#include <netinet/udp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>
#include <sys/wait.h>

#include "engine/engine.h"
#include "sandbox.h"
#include "foreign_qp.h"

#define NONSENSE 300
#define MANY 3000

/* What this child has. */
static bool has_filter, has_handshake_sockets;

static int open_one(void **state)
{
	return stranger_open(0);
}

static void shoot_short(void)
{
	uint8_t p[UCCL_HDR_LEN];

	packet(p, UCCL_PKT_ACK, 0);
	shoot(p, sizeof(p) - 1);
}

/* What the sandbox should have taken away is away, and nothing else. */
TEST_IN(guard__parts, open_one, stranger_close)
{
	int by_type[256];

	assert_int_equal(udp_of(nic)->handshake.socket[0].fd >= 0, has_handshake_sockets);
	shoot_short();
	assert_int_equal(take(by_type), !has_filter);
	assert_int_equal(refused(), has_filter);
}

/* Every type of packet comes all the same, once; of what is none of ours only what the filter does not see. */
TEST_IN(rx__every_type, open_one, stranger_close)
{
	int by_type[256];

	for (int type = 0; type < 256; type++) {
		bool known = uccl_type_known((uint8_t)type);

		shoot_packet((uint8_t)type, INCARNATION);
		assert_int_equal(take(by_type), known || !has_filter);
		assert_int_equal(by_type[type], known || !has_filter);
	}
}

/* However many come, and however often one looks: no more than so many a second are taken, whoever sends them. */
TEST_IN(hello__rate, open_one, stranger_close)
{
	uint64_t began = ns_now(), took;
	int by_type[256], hellos = 0;

	/* A busy host may have no time for more than one round in that time. */
	for (int i = 0; i < 3 || (took = ns_now() - began) < 100 * UCCL_NS_PER_MS; i++) {
		for (int k = 0; k < 512; k++)
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
	/* Looks are bound to the clock, too: a fast machine makes many calls between two of them. */
	for (began = ns_now(), hellos = 0; (took = ns_now() - began) < (hellos < 250 ? 20000 : 50) * UCCL_NS_PER_MS;) {
		take(by_type);
		hellos += by_type[UCCL_PKT_HELLO];
	}
	took = ns_now() - began;
	assert_in_range(hellos, 250, 300 + 20 * (took / UCCL_NS_PER_MS + 11));
}

/* Those that come as one are counted one by one; more than is allowed go together. */
TEST_IN(hello__in_trains, open_one, stranger_close)
{
	uint8_t p[50 * UCCL_HDR_LEN];
	uint64_t began = ns_now(), took;
	int each = UCCL_HDR_LEN, hellos = 0;

	assert_int_equal(setsockopt(out, IPPROTO_UDP, UDP_SEGMENT, &each, sizeof(each)), 0);
	for (int i = 0; i < 50; i++)
		packet(p + i * UCCL_HDR_LEN, UCCL_PKT_HELLO, 0);
	for (int round = 0; round < 40; round++) {
		struct uccl_rx v[16];
		int n;

		shoot(p, sizeof(p));
		while ((n = nic->ops->rx(nic, v, 16, NULL, 0)) > 0)
			for (int i = 0; i < n; i++)
				hellos += v[i].kind == UCCL_RX_PACKET ? (int)(v[i].len / UCCL_HDR_LEN) : 0;
	}
	took = ns_now() - began;
	assert_in_range(hellos, 50, 300 + 20 * (took / UCCL_NS_PER_MS + 11));
}

/* Of those that say something new each time only few are answered, and who repeats himself is among the answered. */
TEST_IN(hello__first_and_again, open_one, stranger_close)
{
	uint64_t began, took;
	int by_type[256], news = 0, again = 0;

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
		uint64_t end = udp_of(nic)->handshake.read + 451;

		/* Also after a pause, when there is room for many. */
		poll(NULL, 0, k % 2 ? 200 : 0);
		for (int i = 0; i < 450; i++)
			shoot_new_hello(0);
		shoot_packet(UCCL_PKT_HELLO, 0);
		for (int i = 0; i < 10 * QUIET && udp_of(nic)->handshake.read < end; i++) {
			struct uccl_rx v[64];
			int n = nic->ops->rx(nic, v, 64, NULL, 0);

			for (int j = 0; j < n; j++)
				again += v[j].kind == UCCL_RX_PACKET && !uccl_get64(v[j].data + 32);
			if (i % QUIET == QUIET - 1)
				poll(NULL, 0, 20);
		}
	}
	/* The first time it is as good as the rest, and a busy host may lose some. */
	assert_true(again >= 6);
}

/* INIT takes a bounded part of the work, too. */
TEST_IN(init__rate, open_one, stranger_close)
{
	uint64_t began = ns_now(), took;
	int by_type[256], inits = 0;

	/* A busy host may have had no time for more than one round. */
	do {
		for (int i = 0; i < 512; i++)
			shoot_packet(UCCL_PKT_INIT, INCARNATION);
		take(by_type);
		inits += by_type[UCCL_PKT_INIT];
	} while ((took = ns_now() - began) < 100 * UCCL_NS_PER_MS);
	assert_in_range(inits, 200, 300 + 40 * (took / UCCL_NS_PER_MS + 11));
}

/* `out` gets a port. */
static uint16_t out_bound(void)
{
	struct sockaddr_in from = {.sin_family = AF_INET};
	socklen_t len = sizeof(from);

	assert_int_equal(bind(out, (struct sockaddr *)&from, len), 0);
	assert_int_equal(getsockname(out, (struct sockaddr *)&from, &len), 0);
	return ntohs(from.sin_port);
}

/* An answer to a stranger leaves from our port. */
TEST_IN(answer__leaves, open_one, stranger_close)
{
	struct uccl_nic_addr at = v4_loopback, own;
	struct uccl_tx t = {.kind = UCCL_TX_PACKET, .answer = true, .hdr_len = UCCL_HDR_LEN, .to = &at};
	struct sockaddr_in from;
	socklen_t len = sizeof(from);
	struct pollfd p = {.fd = out, .events = POLLIN};
	uint8_t buf[128];

	nic->ops->addr(nic, &own);
	at.port = out_bound();
	assert_int_equal(nic->ops->tx(nic, &t, 1), 1);
	assert_int_equal(poll(&p, 1, 5000), 1);
	assert_int_equal(recvfrom(out, buf, sizeof(buf), 0, (struct sockaddr *)&from, &len), UCCL_HDR_LEN);
	assert_int_equal(ntohs(from.sin_port), own.port);
}

/* What comes back because of answers to strangers is none of the labels' business: no work, and no news of anybody. */
TEST_IN(answer__to_a_closed_port, open_one, stranger_close)
{
	struct uccl_nic_addr closed = v4_loopback;
	struct uccl_tx t = {.kind = UCCL_TX_PACKET, .answer = true, .hdr_len = UCCL_HDR_LEN, .to = &closed};
	int by_type[256];

	closed.port = 9;
	for (int i = 0; i < 50; i++)
		assert_int_equal(nic->ops->tx(nic, &t, 1), 1);
	assert_int_equal(recvmsg(udp_of(nic)->labels.sock[0].fd, &(struct msghdr){0}, MSG_ERRQUEUE | MSG_DONTWAIT), -1);
	assert_int_equal(take(by_type), 0);
}

/* Nobody joins the port, with or without sockets of ours beside. */
TEST_IN(guard__port_stays_ours, open_one, stranger_close)
{
	struct uccl_nic_attr attr = {0};
	struct uccl_nic *other;

	nic->ops->addr(nic, &attr.bind);
	assert_int_equal(uccl_nic_udp_open(&attr, &other), -FI_EADDRINUSE);
}

TEST_IN(wait_fd__wakes, open_one, stranger_close)
{
	static const uint8_t types[] = {UCCL_PKT_HELLO, UCCL_PKT_INIT, UCCL_PKT_CHUNK};
	struct pollfd p = {.fd = nic->ops->wait_fd(nic), .events = POLLIN};
	struct uccl_rx v[8];

	nic->watched = true;
	assert_int_equal(poll(&p, 1, 0), 0);
	for (size_t i = 0; i < sizeof(types); i++) {
		shoot_packet(types[i], INCARNATION);
		assert_int_equal(poll(&p, 1, 5000), 1);
		assert_int_equal(nic->ops->rx(nic, v, 8, NULL, 0), 1);
		assert_int_equal(v[0].data[3], types[i]);
		assert_int_equal(poll(&p, 1, 0), 0);
	}
}

/* An engine over it: what no filter keeps from it, it refuses and counts by itself. */

static void bytes(void *arg, void *buf, size_t len)
{
	assert_int_equal(getrandom(buf, len, 0), (ssize_t)len);
}

/* To which the stranger sends from now on. It closes the back end. */
static struct uccl_engine *engine_open(struct uccl_nic **mine)
{
	struct uccl_nic_attr at = {.bind = v4_loopback};
	struct uccl_config cfg;
	struct uccl_engine_attr attr = {.config = &cfg, .random = bytes};
	struct uccl_engine *e;

	uccl_config_default(&cfg);
	assert_int_equal(uccl_nic_udp_open(&at, mine), 0);
	attr.nic = *mine;
	assert_int_equal(uccl_engine_open(&attr, ns_now(), &e), 0);
	to_len = uccl_ifaddr_to_sock(&to, &uccl_engine_addr(e)->nic, AF_INET);
	return e;
}

TEST_IN(engine__refuses_by_itself, open_one, stranger_close)
{
	const struct uccl_stats *s;
	struct uccl_nic *mine;
	struct uccl_engine *e;
	uint64_t end;

	e = engine_open(&mine);
	s = uccl_engine_stats(e);
	/* Too short; of no type; a token of nobody; INIT to another incarnation. */
	for (int i = 0; i < NONSENSE; i++) {
		shoot_short();
		shoot_packet(200, 0);
		shoot_packet(UCCL_PKT_ACK, 0);
		shoot_packet(UCCL_PKT_INIT, INCARNATION);
		uccl_engine_poll(e, ns_now());
	}
	for (end = ns_now() + 100 * UCCL_NS_PER_MS; ns_now() < end;)
		uccl_engine_poll(e, ns_now());
	/* A busy host may have left some where they wait. */
	for (end += 20 * UCCL_NS_PER_S; !has_filter && s->dropped[UCCL_DROP_LENGTH] < NONSENSE && ns_now() < end;)
		uccl_engine_poll(e, ns_now());
	assert_int_equal(s->dropped[UCCL_DROP_SHORT], has_filter ? 0 : NONSENSE);
	assert_int_equal(s->dropped[UCCL_DROP_TYPE], has_filter ? 0 : NONSENSE);
	assert_int_equal(s->dropped[UCCL_DROP_TOKEN], has_filter ? 0 : NONSENSE);
	/* Without a payload. */
	assert_int_equal(s->dropped[UCCL_DROP_LENGTH], has_filter ? 0 : NONSENSE);
	assert_int_equal(s->tx_packets, 0);
	uccl_engine_close(e);
}

/* Of HELLOs that are new it answers few, whoever sorts them; what it does not answer is counted, as nothing else. */
TEST_IN(engine__answers_few, open_one, stranger_close)
{
	const struct uccl_stats *s;
	struct uccl_stats kernel = {0};
	uint64_t answered = 0;
	struct uccl_nic *mine;
	struct uccl_engine *e;
	uint8_t p[UCCL_HDR_LEN];
	uint64_t took, began;
	uint16_t port = out_bound();

	e = engine_open(&mine);
	s = uccl_engine_stats(e);
	began = ns_now();
	for (int i = 0; i < MANY; i++) {
		packet(p, UCCL_PKT_HELLO, 0);
		uccl_put64(p + 32, (uint64_t)i + 1);
		uccl_put64(p + 40, 5); /* whose incarnation is that */
		uccl_put16(p + 56, port);
		shoot(p, sizeof(p));
		uccl_engine_poll(e, ns_now());
		answered += recv(out, p, sizeof(p), MSG_DONTWAIT) == UCCL_HDR_LEN;
	}
	/* A busy host may have left some at the doors. */
	do {
		uccl_engine_poll(e, ns_now());
		while (recv(out, p, sizeof(p), MSG_DONTWAIT) == UCCL_HDR_LEN)
			answered++;
		mine->ops->count(mine, &kernel);
		took = ns_now() - began;
	} while (answered + kernel.dropped[UCCL_DROP_KERNEL] < MANY && took < 20 * UCCL_NS_PER_S);
	assert_in_range(answered, 150, 200 + 2 * (took / UCCL_NS_PER_MS + 11));
	assert_int_equal(answered + kernel.dropped[UCCL_DROP_KERNEL], MANY);
	for (int i = 0; i < UCCL_DROP_COUNT; i++)
		assert_true(i == UCCL_DROP_KERNEL || !s->dropped[i]);
	uccl_engine_close(e);
}

static int here(bool filter, bool handshake_sockets)
{
	has_filter = filter;
	has_handshake_sockets = handshake_sockets;
	if ((!filter && !sandbox_refuse(SO_ATTACH_FILTER)) ||
	    (!handshake_sockets && !sandbox_refuse(SO_ATTACH_REUSEPORT_CBPF)))
		return 77;
	return tests_run(NULL, NULL);
}

int main(void)
{
	int status, bad = 0;

	for (int parts = 0; parts < 4; parts++) {
		pid_t pid = fork();

		if (!pid)
			exit(here(parts & 1, parts & 2));
		if (pid < 0 || waitpid(pid, &status, 0) != pid || !WIFEXITED(status))
			return 1;
		if (WEXITSTATUS(status) == 77)
			return 77;
		bad += WEXITSTATUS(status);
	}
	return bad ? 1 : 0;
}
