/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Liveness on loopback. Time is ours: `now` jumps as the test likes, only the kernel's sockets are real. */
#include "nic/udp_live.h"

#include "../tests.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <rdma/fi_errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/log.h"
#include "base/units.h"
#include "nic/ifaddr.h"

#define ROUNDS 2000 /* of about a millisecond; far more than loopback needs */

static const struct uccl_ports any_port;

static struct uccl_nic_addr loopback(uint16_t port)
{
	return (struct uccl_nic_addr){.ip = {[10] = 0xff, [11] = 0xff, [12] = 127, [15] = 1}, .port = port};
}

/* A listening TCP socket at a port of the kernel's choice; `port` 0: any. */
static int listener(uint16_t *port)
{
	struct sockaddr_in sa = {.sin_family = AF_INET, .sin_port = htons(*port)};
	socklen_t len = sizeof(sa);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), one = 1;

	sa.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	assert_true(fd >= 0);
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	assert_int_equal(bind(fd, (struct sockaddr *)&sa, len), 0);
	assert_int_equal(listen(fd, 16), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&sa, &len), 0);
	*port = ntohs(sa.sin_port);
	return fd;
}

static int dial(uint16_t port)
{
	struct sockaddr_in sa = {.sin_family = AF_INET, .sin_port = htons(port)};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	sa.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	assert_int_equal(connect(fd, (struct sockaddr *)&sa, sizeof(sa)), 0);
	return fd;
}

static struct uccl_udp_live *open_at(struct uccl_nic_addr *at, uint64_t id)
{
	struct uccl_udp_live *live;
	uint16_t port = 0;

	close(listener(&port));
	*at = loopback(port);
	assert_int_equal(uccl_udp_live_open(at, id, &any_port, &live), 0);
	return live;
}

/* Poll both (b may be NULL) until a reports or `rounds` are over; the clock runs 1 ms a round. */
static int poll_until_gone(struct uccl_udp_live *a, struct uccl_udp_live *b, uint64_t *now, void **gone, int rounds)
{
	void *other[4];
	int n = 0;

	while (!n && rounds--) {
		n = uccl_udp_live_poll(a, *now, gone, 4);
		if (b)
			assert_int_equal(uccl_udp_live_poll(b, *now, other, 4), 0);
		*now += UCCL_NS_PER_MS;
		if (!n)
			poll(NULL, 0, 1);
	}
	return n;
}

static void settle(struct uccl_udp_live *a, struct uccl_udp_live *b, uint64_t *now)
{
	void *gone[4];

	assert_int_equal(poll_until_gone(a, b, now, gone, 20), 0);
}

TEST(open__port_taken)
{
	struct uccl_udp_live *live = NULL;
	struct uccl_nic_addr at;
	uint16_t port = 0;
	int fd = listener(&port);

	at = loopback(port);
	assert_int_equal(uccl_udp_live_open(&at, 1, &any_port, &live), -FI_EADDRINUSE);
	assert_null(live);
	close(fd);
}

/* The kernel takes connections for a process that makes no calls; it speaks when the process does. */
TEST(held__process_computes)
{
	struct uccl_nic_addr at_a, at_b;
	struct uccl_udp_live *a = open_at(&at_a, 1), *b = open_at(&at_b, 2);
	struct uccl_udp_live_peer *p;
	uint64_t now = 1000;
	int x;

	assert_int_equal(uccl_udp_live_connect(a, &at_b, &x, now, &p), 0);
	assert_false(uccl_udp_live_held(p));
	settle(a, NULL, &now);
	assert_true(uccl_udp_live_held(p));
	assert_false(uccl_udp_live_up(p));
	settle(a, b, &now);
	assert_false(uccl_udp_live_held(p));
	assert_true(uccl_udp_live_up(p));
	uccl_udp_live_disconnect(a, p);
	uccl_udp_live_close(a);
	uccl_udp_live_close(b);
}

TEST(poll__peer_closed)
{
	struct uccl_nic_addr at_a, at_b;
	struct uccl_udp_live *a = open_at(&at_a, 1), *b = open_at(&at_b, 2);
	struct uccl_udp_live_peer *pa, *pb;
	uint64_t now = 1000;
	void *gone[4];
	int x, y;

	assert_int_equal(uccl_udp_live_connect(a, &at_b, &x, now, &pa), 0);
	assert_int_equal(uccl_udp_live_connect(b, &at_a, &y, now, &pb), 0);
	settle(a, b, &now);
	uccl_udp_live_close(b);
	assert_int_equal(poll_until_gone(a, NULL, &now, gone, ROUNDS), 1);
	assert_ptr_equal(gone[0], &x);
	/* Once, and never again. */
	settle(a, NULL, &now);
	uccl_udp_live_disconnect(a, pa);
	uccl_udp_live_close(a);
}

/* A peer that stops to watch us is as alive as before. */
TEST(disconnect__says_nothing)
{
	struct uccl_nic_addr at_a, at_b;
	struct uccl_udp_live *a = open_at(&at_a, 1), *b = open_at(&at_b, 2);
	struct uccl_udp_live_peer *pa, *pb;
	uint64_t now = 1000;

	assert_int_equal(uccl_udp_live_connect(a, &at_b, NULL, now, &pa), 0);
	assert_int_equal(uccl_udp_live_connect(b, &at_a, NULL, now, &pb), 0);
	settle(a, b, &now);
	uccl_udp_live_disconnect(b, pb);
	settle(a, b, &now);
	uccl_udp_live_disconnect(a, pa);
	uccl_udp_live_close(b);
	settle(a, NULL, &now);
	uccl_udp_live_close(a);
}

/* Gone is known, but the owner lets the peer go before it hears of it. */
TEST(disconnect__before_report)
{
	struct uccl_nic_addr at_a, at_b, at_c;
	struct uccl_udp_live *a = open_at(&at_a, 1), *b = open_at(&at_b, 2), *c = open_at(&at_c, 3);
	struct uccl_udp_live_peer *pb, *pc;
	uint64_t now = 1000;
	void *gone[4];
	int x, y, i;

	assert_int_equal(uccl_udp_live_connect(a, &at_b, &x, now, &pb), 0);
	assert_int_equal(uccl_udp_live_connect(a, &at_c, &y, now, &pc), 0);
	settle(a, b, &now);
	settle(a, c, &now);
	uccl_udp_live_close(b);
	uccl_udp_live_close(c);
	for (i = 0; i < ROUNDS && uccl_udp_live_expiry(a) != 0; i++, now += UCCL_NS_PER_MS) {
		assert_int_equal(uccl_udp_live_poll(a, now, gone, 0), 0);
		poll(NULL, 0, 1);
	}
	assert_int_equal(uccl_udp_live_expiry(a), 0);
	uccl_udp_live_disconnect(a, pb);
	assert_int_equal(poll_until_gone(a, NULL, &now, gone, ROUNDS), 1);
	assert_ptr_equal(gone[0], &y);
	uccl_udp_live_disconnect(a, pc);
	uccl_udp_live_close(a);
}

/* Nothing listens, and never did: that may be a peer without liveness. */
TEST(connect__refused_first)
{
	struct uccl_nic_addr at_a, to;
	struct uccl_udp_live *a = open_at(&at_a, 1);
	struct uccl_udp_live_peer *p;
	uint64_t now = 1000;
	uint16_t port = 0;

	close(listener(&port));
	to = loopback(port);
	assert_int_equal(uccl_udp_live_connect(a, &to, NULL, now, &p), 0);
	settle(a, NULL, &now);
	assert_true(uccl_udp_live_expiry(a) == UCCL_NEVER);
	uccl_udp_live_close(a);
}

/* It listens if it lives: one refusal is enough, also the first. */
TEST(ask__refused)
{
	struct uccl_nic_addr at_a, at_b;
	struct uccl_udp_live *a = open_at(&at_a, 1), *b = open_at(&at_b, 2);
	struct uccl_udp_live_peer *p;
	uint64_t now = 1000;
	void *gone[4];
	int x;

	assert_int_equal(uccl_udp_live_ask(a, &at_b, &x, now, &p), 0);
	settle(a, b, &now);
	uccl_udp_live_disconnect(a, p);
	uccl_udp_live_close(b);
	assert_int_equal(uccl_udp_live_ask(a, &at_b, &x, now, &p), 0);
	assert_int_equal(poll_until_gone(a, NULL, &now, gone, ROUNDS), 1);
	assert_ptr_equal(gone[0], &x);
	settle(a, NULL, &now);
	uccl_udp_live_disconnect(a, p);
	uccl_udp_live_close(a);
}

/* The same port, another process: the one that we knew is gone. */
TEST(poll__restarted)
{
	struct uccl_nic_addr at_a, at_b;
	struct uccl_udp_live *a = open_at(&at_a, 1), *b = open_at(&at_b, 2);
	struct uccl_udp_live_peer *p;
	uint64_t now = 1000;
	void *gone[4];
	int x;

	assert_int_equal(uccl_udp_live_connect(a, &at_b, &x, now, &p), 0);
	settle(a, b, &now);
	uccl_udp_live_close(b);
	assert_int_equal(uccl_udp_live_open(&at_b, 3, &any_port, &b), 0);
	assert_int_equal(poll_until_gone(a, b, &now, gone, ROUNDS), 1);
	assert_ptr_equal(gone[0], &x);
	uccl_udp_live_close(a);
	uccl_udp_live_close(b);
}

/* A broken connection alone (here: reset by a middle) proves nothing. */
TEST(poll__broken_but_alive)
{
	struct linger hard = {.l_onoff = 1};
	uint8_t hello[16] = "UCCLlive\1\2\3\4\5\6\7";
	struct uccl_udp_live_peer *p;
	struct uccl_udp_live *a;
	struct uccl_nic_addr at_a, to;
	uint64_t now = 1000;
	void *gone[4];
	uint16_t port = 0;
	int fd = listener(&port), conn, i;

	a = open_at(&at_a, 1);
	to = loopback(port);
	assert_int_equal(uccl_udp_live_connect(a, &to, &port, now, &p), 0);
	for (i = 0; i < 3; i++) {
		struct pollfd pfd = {.fd = fd, .events = POLLIN};
		int round;

		/* Each time it comes back by itself. */
		for (round = 0; round < ROUNDS && poll(&pfd, 1, 0) == 0; round++)
			assert_int_equal(poll_until_gone(a, NULL, &now, gone, 1), 0);
		conn = accept(fd, NULL, NULL);
		assert_true(conn >= 0);
		assert_int_equal(send(conn, hello, 16, 0), 16);
		settle(a, NULL, &now);
		setsockopt(conn, SOL_SOCKET, SO_LINGER, &hard, sizeof(hard));
		close(conn);
	}
	/* Only when its port is shut. */
	close(fd);
	assert_int_equal(poll_until_gone(a, NULL, &now, gone, ROUNDS), 1);
	assert_ptr_equal(gone[0], &port);
	uccl_udp_live_close(a);
}

/* What listens there does not speak our language, or speaks too much: not watched, never reported. */
TEST(poll__foreign_listener)
{
	static const char *const words[] = {"220 mail.example ESMTP", "UCCLlive12345678 and more"};
	struct uccl_udp_live_peer *p;
	struct uccl_udp_live *a;
	struct uccl_nic_addr at_a, to;
	uint64_t now = 1000;
	uint16_t port = 0;
	int fd, conn;
	size_t i;

	for (i = 0; i < 2; i++) {
		port = 0;
		fd = listener(&port);
		a = open_at(&at_a, 1);
		to = loopback(port);
		assert_int_equal(uccl_udp_live_connect(a, &to, NULL, now, &p), 0);
		conn = accept(fd, NULL, NULL);
		assert_true(conn >= 0);
		assert_true(send(conn, words[i], strlen(words[i]), 0) > 0);
		settle(a, NULL, &now);
		close(conn);
		close(fd);
		settle(a, NULL, &now);
		assert_true(uccl_udp_live_expiry(a) == UCCL_NEVER);
		uccl_udp_live_close(a);
	}
}

/* Always accepted and dropped at once: tried some times, ever more seldom, then left alone. */
TEST(poll__gives_up)
{
	struct uccl_udp_live_peer *p;
	struct uccl_udp_live *a;
	struct uccl_nic_addr at_a, to;
	uint64_t now = 1000, start = now;
	void *gone[4];
	uint16_t port = 0;
	int fd = listener(&port), conn, seen = 0, round;

	a = open_at(&at_a, 1);
	to = loopback(port);
	assert_int_equal(fcntl(fd, F_SETFL, O_NONBLOCK), 0);
	assert_int_equal(uccl_udp_live_connect(a, &to, NULL, now, &p), 0);
	for (round = 0; round < 300; round++) {
		while ((conn = accept(fd, NULL, NULL)) >= 0) {
			seen++;
			close(conn);
		}
		assert_int_equal(poll_until_gone(a, NULL, &now, gone, 1), 0);
		now += 500 * UCCL_NS_PER_MS;
	}
	assert_int_equal(seen, 13);
	assert_true(uccl_udp_live_expiry(a) == UCCL_NEVER);
	assert_true(now - start > 20 * UCCL_NS_PER_S);
	close(fd);
	uccl_udp_live_close(a);
}

TEST(poll__garbage_costs_its_connection)
{
	struct uccl_nic_addr at_a;
	struct uccl_udp_live *a = open_at(&at_a, 0x1122334455667788ull);
	int quiet = dial(at_a.port), noisy = dial(at_a.port);
	struct pollfd pfd = {.fd = uccl_udp_live_fd(a), .events = POLLIN};
	uint64_t now = 1000;
	uint8_t buf[32];

	assert_int_equal(poll(&pfd, 1, 5000), 1);
	settle(a, NULL, &now);
	assert_int_equal(send(noisy, "x", 1, MSG_NOSIGNAL), 1);
	settle(a, NULL, &now);
	/* Both hear the hello; then the noisy one finds its connection ended and the quiet one does not. */
	assert_int_equal(recv(quiet, buf, sizeof(buf), 0), 16);
	assert_memory_equal(buf, "UCCLlive\x88\x77\x66\x55\x44\x33\x22\x11", 16);
	assert_int_equal(recv(quiet, buf, sizeof(buf), MSG_DONTWAIT), -1);
	assert_int_equal(recv(noisy, buf, sizeof(buf), 0), 16);
	assert_true(recv(noisy, buf, sizeof(buf), 0) <= 0);
	close(quiet);
	close(noisy);
	settle(a, NULL, &now);
	uccl_udp_live_close(a);
}

static char told[512];
static int ntold;

static void hear(int level, const char *func, int line, const char *text)
{
	if (level != UCCL_LOG_WARN)
		return;
	ntold++;
	snprintf(told, sizeof(told), "%s", text);
}

/* Who comes by libfabric's provider tcp waits for ever: one line says so. Other strangers' bytes mean nothing. */
TEST(accept__tcp_provider)
{
	static const uint8_t request[32] = {3}, scan[32] = {3, 1};
	struct uccl_nic_addr at;
	struct uccl_udp_live *a = open_at(&at, 1);
	uint64_t now = 1000;
	int fd[3];

	uccl_log_set(hear, UCCL_LOG_WARN);
	for (int i = 0; i < 3; i++) {
		fd[i] = dial(at.port);
		assert_int_equal(send(fd[i], i ? request : scan, sizeof(request), MSG_NOSIGNAL), sizeof(request));
		settle(a, NULL, &now);
		assert_int_equal(ntold, i > 0);
		close(fd[i]);
	}
	assert_non_null(strstr(told, "a program at 127.0.0.1 connects"));
	assert_non_null(strstr(told, "FI_UCCL_ALIAS"));
	uccl_log_set(NULL, 0);
	uccl_udp_live_close(a);
}

/* From a loopback address. */
static int dial_from(uint8_t last, uint16_t port)
{
	struct sockaddr_in sa = {.sin_family = AF_INET, .sin_port = htons(port)}, from = {.sin_family = AF_INET};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	sa.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	from.sin_addr.s_addr = htonl(0x7f000000 + last);
	assert_int_equal(bind(fd, (struct sockaddr *)&from, sizeof(from)), 0);
	assert_int_equal(connect(fd, (struct sockaddr *)&sa, sizeof(sa)), 0);
	return fd;
}

/* Has its other end ended it? */
static bool is_closed(int fd)
{
	uint8_t buf[16];
	ssize_t n;

	while ((n = recv(fd, buf, sizeof(buf), MSG_DONTWAIT)) > 0)
		;
	return !n;
}

#define DIALS 150 /* more than strangers are held */

static void strangers_come(struct uccl_udp_live *live, uint16_t port, uint64_t *now, int fd[DIALS])
{
	for (int i = 0; i < DIALS; i++) {
		fd[i] = dial_from(9, port);
		if (i % 30 == 29)
			settle(live, NULL, now);
	}
}

/* Anybody can connect, and is held for a while only: the latest 64. */
TEST(accept__few_unauthenticated)
{
	struct uccl_nic_addr at;
	struct uccl_udp_live *a = open_at(&at, 1);
	uint64_t now = 1000;
	int fd[DIALS];

	strangers_come(a, at.port, &now, fd);
	for (int i = 0; i < DIALS; i++) {
		assert_int_equal(is_closed(fd[i]), i < DIALS - 64);
		close(fd[i]);
	}
	uccl_udp_live_close(a);
}

/* Those that come from where a peer is stay, whether they came before we knew it or after; not any number of them. */
TEST(accept__peers_stay)
{
	struct uccl_nic_addr at, to = loopback(1);
	struct uccl_udp_live *a = open_at(&at, 1);
	struct uccl_udp_live_peer *p;
	uint64_t now = 1000;
	int fd[DIALS], early, late, more[4];

	early = dial_from(1, at.port);
	settle(a, NULL, &now);
	assert_int_equal(uccl_udp_live_connect(a, &to, NULL, now, &p), 0);
	late = dial_from(1, at.port);
	settle(a, NULL, &now);
	strangers_come(a, at.port, &now, fd);
	assert_false(is_closed(early));
	assert_false(is_closed(late));
	for (int i = 0; i < 4; i++)
		more[i] = dial_from(1, at.port);
	settle(a, NULL, &now);
	assert_true(is_closed(early));
	assert_true(is_closed(late));
	for (int i = 0; i < 4; i++) {
		assert_false(is_closed(more[i]));
		close(more[i]);
	}
	for (int i = 0; i < DIALS; i++)
		close(fd[i]);
	close(early);
	close(late);
	uccl_udp_live_close(a);
}

/* It connects from the address by which peers know it. */
TEST(connect__from_own_address)
{
	struct uccl_nic_addr at = loopback(0), to = loopback(0);
	struct sockaddr_in from;
	socklen_t len = sizeof(from);
	struct uccl_udp_live_peer *p;
	struct uccl_udp_live *live;
	int fd = listener(&to.port), conn;

	at.ip[15] = 7;
	do
		close(listener(&at.port));
	while (uccl_udp_live_open(&at, 1, &any_port, &live));
	assert_int_equal(uccl_udp_live_connect(live, &to, NULL, 1000, &p), 0);
	conn = accept(fd, (struct sockaddr *)&from, &len);
	assert_true(conn >= 0);
	assert_int_equal(ntohl(from.sin_addr.s_addr), 0x7f000007);
	close(conn);
	close(fd);
	uccl_udp_live_close(live);
}

/* With the lower half of the table used up nobody is watched, nobody is let in, and nothing fails. */
TEST(connect__no_descriptors)
{
	struct rlimit old, tight;
	struct uccl_nic_addr at_a, at_b;
	struct uccl_udp_live *a, *b = open_at(&at_b, 2);
	struct uccl_udp_live_peer *p;
	uint64_t now = 1000;
	int conn;
	uint8_t byte;

	assert_int_equal(getrlimit(RLIMIT_NOFILE, &old), 0);
	tight = old;
	tight.rlim_cur = 24;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &tight), 0);
	a = open_at(&at_a, 1);
	while ((conn = dup(0)) < 12)
		assert_true(conn >= 0);
	close(conn);
	assert_int_equal(uccl_udp_live_connect(a, &at_b, NULL, now, &p), 0);
	assert_true(uccl_udp_live_expiry(a) == UCCL_NEVER);
	conn = dial(at_a.port);
	settle(a, b, &now);
	assert_int_equal(recv(conn, &byte, 1, 0), 0);
	close(conn);
	/* Not one left: the caller is turned away, so that the listener does not stay readable. */
	conn = dial(at_a.port);
	while (dup(0) >= 0)
		;
	settle(a, b, &now);
	assert_int_equal(recv(conn, &byte, 1, 0), 0);
	uccl_udp_live_close(a);
	uccl_udp_live_close(b);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &old), 0);
}

/* Two ports in a row where nobody listens. */
static struct uccl_ports range_find(void)
{
	uint16_t port = 0;

	for (;;) {
		struct sockaddr_in sa = {.sin_family = AF_INET};
		int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), rc;

		close(listener(&port));
		if (port == UINT16_MAX) {
			port = 0;
			continue;
		}
		sa.sin_port = htons(++port);
		rc = bind(fd, (struct sockaddr *)&sa, sizeof(sa));
		close(fd);
		if (!rc)
			return (struct uccl_ports){(uint16_t)(port - 1), port};
		port = 0;
	}
}

/* The port that the other end of a connection has. */
static uint16_t accept_from(int fd)
{
	struct sockaddr_in sa;
	socklen_t len = sizeof(sa);
	int conn;

	assert_int_equal(poll(&(struct pollfd){.fd = fd, .events = POLLIN}, 1, 5000), 1);
	conn = accept(fd, (struct sockaddr *)&sa, &len);
	assert_true(conn >= 0);
	close(conn);
	return ntohs(sa.sin_port);
}

/* We listen at one of two ports: the other one serves connections to several peers, and a new one to each of them. */
TEST(connect__from_range)
{
	struct uccl_ports range = range_find();
	struct uccl_nic_addr at = loopback(range.first), to[3];
	struct uccl_udp_live_peer *p;
	struct uccl_udp_live *live;
	int peer[3];

	assert_int_equal(uccl_udp_live_open(&at, 1, &range, &live), 0);
	for (int i = 0; i < 3; i++) {
		uint16_t port = 0;

		peer[i] = listener(&port);
		to[i] = loopback(port);
		assert_int_equal(uccl_udp_live_connect(live, &to[i], NULL, 1000, &p), 0);
		assert_int_equal(accept_from(peer[i]), range.last);
	}
	uccl_udp_live_close(live);
	for (int i = 0; i < 3; i++)
		close(peer[i]);
}

/* Somebody listens at both: no connection is made from elsewhere, and the peer is just not watched. */
TEST(connect__range_taken)
{
	struct uccl_ports range = range_find();
	uint16_t second = range.last, port = 0;
	struct uccl_nic_addr at = loopback(range.first), to;
	struct uccl_udp_live_peer *p;
	struct uccl_udp_live *live;
	int other = listener(&second), peer = listener(&port);

	to = loopback(port);
	assert_int_equal(uccl_udp_live_open(&at, 1, &range, &live), 0);
	assert_int_equal(uccl_udp_live_connect(live, &to, NULL, 1000, &p), 0);
	assert_int_equal(poll(&(struct pollfd){.fd = peer, .events = POLLIN}, 1, 50), 0);
	assert_true(uccl_udp_live_expiry(live) == UCCL_NEVER);
	uccl_udp_live_close(live);
	close(other);
	close(peer);
}

TESTS_MAIN
