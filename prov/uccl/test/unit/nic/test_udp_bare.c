/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The udp back end where the kernel takes no programs for sockets (an old kernel, a sandbox): without the filter,
 * without the doors, without both. What is refused is refused with EPERM in a child of this process, by seccomp.
 */
#include "nic/udp.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <poll.h>
#include <rdma/fi_errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "core/wire.h"
#include "engine/engine.h"
#include "sandbox.h"

#define TOP 0xa55a
#define INCARNATION 0x1122334455667788
#define QUIET 200
#define NONSENSE 300

static const struct uccl_nic_addr v4_loopback = {.ip = {[10] = 0xff, [11] = 0xff, [12] = 127, [15] = 1}};
static struct uccl_nic_guard guard = {.magic = UCCL_MAGIC,
				      .version = UCCL_VERSION,
				      .hello = UCCL_PKT_HELLO,
				      .init = UCCL_PKT_INIT,
				      .token_top = TOP,
				      .incarnation = INCARNATION};

/* What this child has. */
static bool has_filter, has_doors;

static struct uccl_nic *nic;
static struct sockaddr_storage to;
static socklen_t to_len;
static int out;

static int open_one(void **state)
{
	struct uccl_nic_attr attr = {.bind = v4_loopback};
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

static void shoot(uint8_t type, size_t len)
{
	uint8_t p[UCCL_HDR_LEN], rec[UCCL_REC_LEN] = {0};
	struct uccl_hdr h = {.type = type, .token = (uint64_t)TOP << 48 | 1, .rec = rec};

	uccl_put64(rec + (type == UCCL_PKT_HELLO ? 16 : 8), INCARNATION);
	uccl_hdr_encode(p, &h);
	assert_int_equal(sendto(out, p, len, 0, (struct sockaddr *)&to, to_len), (ssize_t)len);
}

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

/* What the sandbox should have taken away is away, and nothing else. */
static void guard__parts(void **state)
{
	int by_type[256];

	(void)state;
	assert_int_equal(udp_of(nic)->door[0].fd >= 0, has_doors);
	shoot(UCCL_PKT_ACK, UCCL_HDR_LEN - 1);
	assert_int_equal(take(by_type), !has_filter);
	assert_int_equal(refused(), has_filter);
}

/* Every type of packet comes all the same, once; of what is none of ours only what the filter does not see. */
static void rx__every_type(void **state)
{
	int by_type[256];

	(void)state;
	for (int type = 0; type < 256; type++) {
		bool known = uccl_type_known((uint8_t)type);

		shoot((uint8_t)type, UCCL_HDR_LEN);
		assert_int_equal(take(by_type), known || !has_filter);
		assert_int_equal(by_type[type], known || !has_filter);
	}
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
static void answer__leaves(void **state)
{
	struct uccl_nic_addr at = v4_loopback, own;
	struct uccl_tx t = {.kind = UCCL_TX_PACKET, .answer = true, .hdr_len = UCCL_HDR_LEN, .to = &at};
	struct sockaddr_in from;
	socklen_t len = sizeof(from);
	struct pollfd p = {.fd = out, .events = POLLIN};
	uint8_t buf[128];

	(void)state;
	nic->ops->addr(nic, &own);
	at.port = out_bound();
	assert_int_equal(nic->ops->tx(nic, &t, 1), 1);
	assert_int_equal(poll(&p, 1, 5000), 1);
	assert_int_equal(recvfrom(out, buf, sizeof(buf), 0, (struct sockaddr *)&from, &len), UCCL_HDR_LEN);
	assert_int_equal(ntohs(from.sin_port), own.port);
}

/* What comes back because of answers to strangers is none of the labels' business: no work, and no news of anybody. */
static void answer__to_a_closed_port(void **state)
{
	struct uccl_nic_addr closed = v4_loopback;
	struct uccl_tx t = {.kind = UCCL_TX_PACKET, .answer = true, .hdr_len = UCCL_HDR_LEN, .to = &closed};
	int by_type[256];

	(void)state;
	closed.port = 9;
	for (int i = 0; i < 50; i++)
		assert_int_equal(nic->ops->tx(nic, &t, 1), 1);
	assert_int_equal(recvmsg(udp_of(nic)->sock[0].fd, &(struct msghdr){0}, MSG_ERRQUEUE | MSG_DONTWAIT), -1);
	assert_int_equal(take(by_type), 0);
}

/* Nobody joins the port, with or without sockets of ours beside. */
static void guard__port_stays_ours(void **state)
{
	struct uccl_nic_attr attr = {0};
	struct uccl_nic *other;

	(void)state;
	nic->ops->addr(nic, &attr.bind);
	assert_int_equal(uccl_nic_udp_open(&attr, &other), -FI_EADDRINUSE);
}

static void wait_fd__wakes(void **state)
{
	static const uint8_t types[] = {UCCL_PKT_HELLO, UCCL_PKT_INIT, UCCL_PKT_CHUNK};
	struct pollfd p = {.fd = nic->ops->wait_fd(nic), .events = POLLIN};
	struct uccl_rx v[8];

	(void)state;
	assert_int_equal(poll(&p, 1, 0), 0);
	for (size_t i = 0; i < sizeof(types); i++) {
		shoot(types[i], UCCL_HDR_LEN);
		assert_int_equal(poll(&p, 1, 5000), 1);
		assert_int_equal(nic->ops->rx(nic, v, 8, NULL, 0), 1);
		assert_int_equal(v[0].data[3], types[i]);
		assert_int_equal(poll(&p, 1, 0), 0);
	}
}

/* An engine over it: what no filter keeps from it, it refuses and counts by itself. */

static void bytes(void *arg, void *buf, size_t len)
{
	(void)arg;
	assert_int_equal(getrandom(buf, len, 0), (ssize_t)len);
}

static uint64_t now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * UCCL_NS_PER_S + (uint64_t)t.tv_nsec;
}

static void engine__refuses_by_itself(void **state)
{
	struct uccl_nic_attr at = {.bind = v4_loopback};
	struct uccl_config cfg;
	struct uccl_engine_attr attr = {.config = &cfg, .random = bytes};
	const struct uccl_stats *s;
	struct uccl_nic *mine;
	struct uccl_engine *e;
	uint64_t end;

	(void)state;
	uccl_config_default(&cfg);
	assert_int_equal(uccl_nic_udp_open(&at, &mine), 0);
	attr.nic = mine;
	assert_int_equal(uccl_engine_open(&attr, now(), &e), 0);
	to_len = uccl_ifaddr_to_sock(&to, &uccl_engine_addr(e)->nic, AF_INET);
	s = uccl_engine_stats(e);
	/* Too short; of no type; a token of nobody; INIT to another incarnation. */
	for (int i = 0; i < NONSENSE; i++) {
		shoot(UCCL_PKT_ACK, 10);
		shoot(200, UCCL_HDR_LEN);
		shoot(UCCL_PKT_ACK, UCCL_HDR_LEN);
		shoot(UCCL_PKT_INIT, UCCL_HDR_LEN);
		uccl_engine_poll(e, now());
	}
	for (end = now() + 100 * UCCL_NS_PER_MS; now() < end;)
		uccl_engine_poll(e, now());
	assert_int_equal(s->dropped[UCCL_DROP_SHORT], has_filter ? 0 : NONSENSE);
	assert_int_equal(s->dropped[UCCL_DROP_TYPE], has_filter ? 0 : NONSENSE);
	assert_int_equal(s->dropped[UCCL_DROP_TOKEN], has_filter ? 0 : NONSENSE);
	/* Without a payload. */
	assert_int_equal(s->dropped[UCCL_DROP_LENGTH], has_filter ? 0 : NONSENSE);
	assert_int_equal(s->tx_packets, 0);
	uccl_engine_close(e);
}

static int here(bool filter, bool doors)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(guard__parts, open_one, close_one),
		cmocka_unit_test_setup_teardown(rx__every_type, open_one, close_one),
		cmocka_unit_test_setup_teardown(answer__leaves, open_one, close_one),
		cmocka_unit_test_setup_teardown(answer__to_a_closed_port, open_one, close_one),
		cmocka_unit_test_setup_teardown(guard__port_stays_ours, open_one, close_one),
		cmocka_unit_test_setup_teardown(wait_fd__wakes, open_one, close_one),
		cmocka_unit_test_setup_teardown(engine__refuses_by_itself, open_one, close_one),
	};

	has_filter = filter;
	has_doors = doors;
	if ((!filter && !sandbox_refuse(SO_ATTACH_FILTER)) || (!doors && !sandbox_refuse(SO_ATTACH_REUSEPORT_CBPF)))
		return 77;
	return cmocka_run_group_tests_name("nic/udp_bare", tests, NULL, NULL);
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
