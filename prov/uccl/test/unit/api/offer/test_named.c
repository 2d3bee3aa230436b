/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* On loopback, with the real thread and sockets; what is waited for comes, or the test fails after PATIENCE_NS. */
#include "../world.h"

#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "api/offer/named.h"
#include "engine/engine.h"
#include "nic/ifaddr.h"
#include "../../tests.h"

/* Nobody answers: long enough for some questions, short enough for a test. */
#define SHORT_NS (150 * UCCL_NS_PER_MS)

static struct uccl_nic_addr loopback(uint16_t port)
{
	return (struct uccl_nic_addr){.ip = {[10] = 0xff, [11] = 0xff, [12] = 127, [15] = 1}, .port = port};
}

static struct uccl_addr sample(uint64_t incarnation)
{
	struct uccl_addr a = {.nic = loopback(99), .incarnation = incarnation};

	a.nic.pad = 0xc001;
	a.nic.scope = 0x12000011;
	memset(a.key, 5, sizeof(a.key));
	return a;
}

/* A UDP socket at a port of the kernel's choice. */
static int socket_open(uint16_t *port)
{
	struct sockaddr_in sa = {.sin_family = AF_INET};
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	socklen_t len = sizeof(sa);

	sa.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	assert_true(fd >= 0);
	assert_int_equal(bind(fd, (struct sockaddr *)&sa, len), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&sa, &len), 0);
	*port = ntohs(sa.sin_port);
	return fd;
}

/* A port that nobody has now. */
static uint16_t free_port(void)
{
	uint16_t port;

	close(socket_open(&port));
	return port;
}

static const struct uccl_ports any_port;

/* Another process may take the port between two steps of a test: then another one. */
static struct uccl_named *named_open(const struct uccl_addr *a, struct uccl_nic_addr *at)
{
	struct uccl_named *nd = NULL;
	int rc;

	do {
		*at = loopback(free_port());
		rc = uccl_named_open(at, 1, a, &nd);
	} while (rc == -FI_EADDRINUSE);
	assert_int_equal(rc, 0);
	return nd;
}

static void params_of(struct uccl_params *p, const char *keyless, const char *security)
{
	char why[UCCL_PARAM_TEXT], value[64];

	snprintf(value, sizeof(value), "%s,keyless=%s", security, keyless);
	setenv("FI_UCCL_SECURITY", value, 1);
	assert_int_equal(uccl_params_read(p, why, sizeof(why)), 0);
	unsetenv("FI_UCCL_SECURITY");
}

TEST(named_allowed__by_mode)
{
	struct uccl_params p;

	params_of(&p, "auto", "trusted");
	assert_true(uccl_named_allowed(&p));
	params_of(&p, "yes", "trusted");
	assert_true(uccl_named_allowed(&p));
	params_of(&p, "no", "trusted");
	assert_false(uccl_named_allowed(&p));
	params_of(&p, "auto", "control");
	assert_false(uccl_named_allowed(&p));
	params_of(&p, "auto", "packets");
	assert_false(uccl_named_allowed(&p));
}

/* The own address comes first, each with the port. */
TEST(named_places__own_first)
{
	struct uccl_nic_addr own = loopback(7000), *list;
	struct uccl_params p;
	int n;

	params_of(&p, "auto", "trusted");
	snprintf(p.nic.backend, sizeof(p.nic.backend), "verbs-ud");
	n = uccl_named_places(&p, &own, &list);
	assert_true(n >= 1);
	assert_memory_equal(list[0].ip, own.ip, sizeof(own.ip));
	for (int i = 0; i < n; i++)
		assert_int_equal(list[i].port, 7000);
	free(list);
}

TEST(named_ask__answered)
{
	struct uccl_addr a = sample(77), got;
	struct uccl_nic_addr at;
	struct uccl_named *nd = named_open(&a, &at);

	assert_int_equal(uccl_named_ask(&at, 1, &any_port, PATIENCE_NS, &got), 0);
	assert_memory_equal(&got.nic, &a.nic, sizeof(a.nic));
	assert_true(got.incarnation == 77);
	assert_memory_equal(got.key, a.key, sizeof(a.key));
	uccl_named_close(nd, NULL);
}

/* One of several addresses of a name answers. */
TEST(named_ask__any_of_them)
{
	struct uccl_addr a = sample(78), got;
	struct uccl_nic_addr at[3] = {[0] = loopback(0)};
	struct uccl_named *nd = named_open(&a, &at[2]);

	at[1] = loopback(free_port());
	assert_int_equal(uccl_named_ask(at, 3, &any_port, PATIENCE_NS, &got), 0);
	assert_true(got.incarnation == 78);
	uccl_named_close(nd, NULL);
}

/* Questions come from the range; where none of it is free nothing is asked. */
TEST(named_ask__from_range)
{
	struct uccl_addr a = sample(79), got;
	struct uccl_nic_addr at;
	struct uccl_named *nd = named_open(&a, &at);
	struct sockaddr_in sa = { .sin_family = AF_INET };
	struct uccl_ports range;
	int fd[2] = { -1, -1 };

	do {
		range.first = free_port();
		range.last = (uint16_t)(range.first + 1);
		for (int i = 0; i < 2; i++) {
			close(fd[i]);
			fd[i] = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
		}
		sa.sin_port = htons(range.first);
		if (range.last && !bind(fd[0], (struct sockaddr *)&sa, sizeof(sa)))
			sa.sin_port = htons(range.last);
	} while (sa.sin_port != htons(range.last) || bind(fd[1], (struct sockaddr *)&sa, sizeof(sa)));
	assert_int_equal(uccl_named_ask(&at, 1, &range, PATIENCE_NS, &got), -FI_ENODATA);
	close(fd[1]);
	assert_int_equal(uccl_named_ask(&at, 1, &range, PATIENCE_NS, &got), 0);
	assert_true(got.incarnation == 79);
	close(fd[0]);
	uccl_named_close(nd, NULL);
}

/* A socket of IPv4 takes no port of the range from questions over IPv6. */
TEST(named_ask__range_of_each_family)
{
	struct uccl_addr a = sample(80), got;
	struct uccl_nic_addr at = {.ip = {[15] = 1}};
	struct sockaddr_in any = {.sin_family = AF_INET};
	struct uccl_ports range;
	struct uccl_named *nd;
	int fd, rc;

	do {
		at.port = free_port();
		rc = uccl_named_open(&at, 1, &a, &nd);
	} while (rc == -FI_EADDRINUSE);
	if (rc)
		skip(); /* no IPv6 */
	fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	do {
		range.first = range.last = free_port();
		any.sin_port = htons(range.first);
	} while (bind(fd, (struct sockaddr *)&any, sizeof(any)));
	assert_int_equal(uccl_named_ask(&at, 1, &range, PATIENCE_NS, &got), 0);
	assert_true(got.incarnation == 80);
	close(fd);
	uccl_named_close(nd, NULL);
}

TEST(named_ask__nobody)
{
	struct uccl_nic_addr at = loopback(free_port());
	struct uccl_addr got;

	assert_int_equal(uccl_named_ask(&at, 1, &any_port, SHORT_NS, &got), -FI_ENODATA);
	at.port = 0;
	assert_int_equal(uccl_named_ask(&at, 1, &any_port, PATIENCE_NS, &got), -FI_ENODATA);
	assert_int_equal(uccl_named_ask(NULL, 0, &any_port, PATIENCE_NS, &got), -FI_ENODATA);
}

/* Who hears the first questions, answers them wrongly, and then rightly. */
struct liar {
	int fd;
	struct uccl_addr truth;
};

static void *liar_main(void *arg)
{
	struct liar *l = arg;
	uint8_t ask[UCCL_NAME_LEN], out[UCCL_NAME_LEN + 1] = {0}, address[UCCL_ADDR_LEN];

	for (int i = 0; i < 5; i++) {
		struct sockaddr_storage from;
		socklen_t len = sizeof(from);
		size_t n = UCCL_NAME_LEN;

		if (recvfrom(l->fd, ask, sizeof(ask), 0, (struct sockaddr *)&from, &len) != UCCL_NAME_LEN)
			return NULL;
		uccl_addr_encode(address, &l->truth);
		if (uccl_name_answer(out, ask, sizeof(ask), address) != UCCL_DROP_COUNT)
			return NULL;
		if (i == 0)
			out[8] ^= 1; /* another question's nonce */
		else if (i == 1)
			n++;
		else if (i == 2)
			n--;
		else if (i == 3)
			out[60] ^= 1; /* a damaged address */
		sendto(l->fd, out, n, 0, (struct sockaddr *)&from, len);
	}
	return l;
}

TEST(named_ask__wrong_answers)
{
	struct liar l = {.truth = sample(79)};
	struct uccl_nic_addr at = loopback(0);
	struct uccl_addr got;
	pthread_t thread;
	void *told;

	l.fd = socket_open(&at.port);
	assert_int_equal(pthread_create(&thread, NULL, liar_main, &l), 0);
	assert_int_equal(uccl_named_ask(&at, 1, &any_port, PATIENCE_NS, &got), 0);
	assert_true(got.incarnation == 79);
	assert_int_equal(pthread_join(thread, &told), 0);
	assert_ptr_equal(told, &l); /* it was asked five times: none of the wrong ones was taken */
	close(l.fd);
}

/* An answer from anywhere but the place that was asked: it never gets to who asked. */
TEST(named_ask__another_source)
{
	uint8_t ask[UCCL_NAME_LEN], out[UCCL_NAME_LEN], address[UCCL_ADDR_LEN];
	struct uccl_addr a = sample(80), got;
	struct uccl_nic_addr at = loopback(0);
	uint16_t other;
	int fd = socket_open(&at.port), fd2 = socket_open(&other), status;
	pid_t pid = fork();

	if (!pid) {
		struct sockaddr_storage from;
		socklen_t len = sizeof(from);
		ssize_t n = recvfrom(fd, ask, sizeof(ask), 0, (struct sockaddr *)&from, &len);

		uccl_addr_encode(address, &a);
		if (n != UCCL_NAME_LEN || uccl_name_answer(out, ask, sizeof(ask), address) != UCCL_DROP_COUNT)
			_exit(1);
		_exit(sendto(fd2, out, sizeof(out), 0, (struct sockaddr *)&from, len) != UCCL_NAME_LEN);
	}
	assert_int_equal(uccl_named_ask(&at, 1, &any_port, SHORT_NS, &got), -FI_ENODATA);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	close(fd);
	close(fd2);
}

/* What is no question is dropped, counted, and leaves the next one unharmed. */
TEST(named_open__garbage)
{
	struct uccl_addr a = sample(81), got;
	struct uccl_nic_addr at;
	struct uccl_named *nd = named_open(&a, &at);
	uint8_t junk[2 * UCCL_NAME_LEN] = {1};
	struct sockaddr_storage ss;
	socklen_t len = uccl_ifaddr_to_sock(&ss, &at, AF_INET);
	uint16_t port;
	int fd = socket_open(&port);

	for (size_t n = 0; n <= sizeof(junk); n += 8)
		assert_int_equal(sendto(fd, junk, n, 0, (struct sockaddr *)&ss, len), n);
	assert_int_equal(uccl_named_ask(&at, 1, &any_port, PATIENCE_NS, &got), 0);
	/* All of it was before that question in the socket: no answer came. */
	assert_int_equal(recv(fd, junk, sizeof(junk), MSG_DONTWAIT), -1);
	assert_int_equal(errno, EAGAIN);
	close(fd);
	uccl_named_close(nd, NULL);
}

TEST(named_open__taken)
{
	struct uccl_addr a = sample(82), got;
	struct uccl_nic_addr at[2], second;
	struct uccl_named *nd = named_open(&a, &at[1]), *other = NULL;

	assert_int_equal(uccl_named_open(&at[1], 1, &a, &other), -FI_EADDRINUSE);
	assert_null(other);
	assert_int_equal(uccl_named_open(NULL, 0, &a, &other), -FI_EADDRNOTAVAIL);
	assert_null(other);
	/* Places behind the first may be another's. */
	a.incarnation = 83;
	do
		at[0] = loopback(free_port());
	while (uccl_named_open(at, 2, &a, &other));
	second = at[0];
	assert_int_equal(uccl_named_ask(&second, 1, &any_port, PATIENCE_NS, &got), 0);
	assert_true(got.incarnation == 83);
	assert_int_equal(uccl_named_ask(&at[1], 1, &any_port, PATIENCE_NS, &got), 0);
	assert_true(got.incarnation == 82);
	uccl_named_close(other, NULL);
	uccl_named_close(nd, NULL);
	uccl_named_close(NULL, NULL);
}

static _Atomic int signals;

static void on_signal(int sig)
{
	signals++;
}

/* Signals of the program come to its own threads. */
TEST(named_open__no_signals)
{
	struct uccl_addr a = sample(84), got;
	struct uccl_nic_addr at;
	struct uccl_named *nd;
	sigset_t set, old;

	signal(SIGUSR1, on_signal);
	nd = named_open(&a, &at);
	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	assert_int_equal(pthread_sigmask(SIG_BLOCK, &set, &old), 0);
	assert_int_equal(kill(getpid(), SIGUSR1), 0);
	/* The thread ran meanwhile, and would have taken it. */
	assert_int_equal(uccl_named_ask(&at, 1, &any_port, PATIENCE_NS, &got), 0);
	assert_int_equal(signals, 0);
	assert_int_equal(pthread_sigmask(SIG_SETMASK, &old, NULL), 0);
	assert_int_equal(signals, 1);
	signal(SIGUSR1, SIG_DFL);
	uccl_named_close(nd, NULL);
}

/* A child closes what it got without waiting for a thread that it has not. */
TEST(named_close__in_a_child)
{
	struct uccl_addr a = sample(85), got;
	struct uccl_nic_addr at;
	struct uccl_named *nd;
	int status;
	pid_t pid;

	fi_prov_ini();
	nd = named_open(&a, &at);
	pid = fork();
	if (!pid) {
		alarm(20);
		uccl_named_close(nd, NULL);
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_int_equal(uccl_named_ask(&at, 1, &any_port, PATIENCE_NS, &got), 0);
	uccl_named_close(nd, NULL);
	/* Nobody has the port any more. */
	assert_int_equal(uccl_named_ask(&at, 1, &any_port, SHORT_NS, &got), -FI_ENODATA);
}

/* A child that sleeps does not keep the port: whoever opens it next is asked, and answers. */
TEST(named_close__child_sleeps)
{
	struct uccl_addr a = sample(86), next = sample(87), got;
	struct uccl_nic_addr at;
	struct uccl_named *nd;
	int up[2];
	pid_t pid;
	char c;

	assert_int_equal(pipe(up), 0);
	nd = named_open(&a, &at);
	pid = fork();
	if (!pid) {
		alarm(60);
		assert_int_equal(write(up[1], "x", 1), 1);
		pause();
		_exit(0);
	}
	assert_true(pid > 0);
	assert_int_equal(read(up[0], &c, 1), 1);
	uccl_named_close(nd, NULL);
	assert_int_equal(uccl_named_open(&at, 1, &next, &nd), 0);
	assert_int_equal(uccl_named_ask(&at, 1, &any_port, PATIENCE_NS, &got), 0);
	assert_int_equal(got.incarnation, next.incarnation);
	uccl_named_close(nd, NULL);
	kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	close(up[0]);
	close(up[1]);
}

TESTS_MAIN
