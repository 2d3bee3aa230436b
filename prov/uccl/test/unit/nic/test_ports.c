/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The range of ports. Which ports are free is the system's business: tests look for a free range and hold it. */
#include "nic/ports.h"

#include "../tests.h"

#include <netinet/in.h>
#include <sched.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <rdma/fi_errno.h>

#define N 8

static struct sockaddr_storage loopback(uint16_t port)
{
	struct sockaddr_storage ss = {0};
	struct sockaddr_in *sa = (struct sockaddr_in *)&ss;

	sa->sin_family = AF_INET;
	sa->sin_port = htons(port);
	sa->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	return ss;
}

static int udp_socket(void)
{
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	assert_true(fd >= 0);
	return fd;
}

static uint16_t port_of(int fd)
{
	struct sockaddr_in sa;
	socklen_t len = sizeof(sa);

	assert_int_equal(getsockname(fd, (struct sockaddr *)&sa, &len), 0);
	return ntohs(sa.sin_port);
}

static int bind_next(const struct uccl_ports *range, struct uccl_ports_walk *walk, int *fd)
{
	struct sockaddr_storage at = loopback(0);

	*fd = udp_socket();
	return uccl_ports_bind(*fd, &at, sizeof(struct sockaddr_in), range, walk);
}

static void close_all(const int *fd, int n)
{
	while (n--)
		close(fd[n]);
}

/* N ports in a row, all of them taken by fd[0..N). */
static struct uccl_ports range_hold(int *fd)
{
	for (uint32_t first = 20000; first < 60000; first += N) {
		struct uccl_ports r = {(uint16_t)first, (uint16_t)(first + N - 1)};
		int n = 0;

		for (n = 0; n < N; n++) {
			struct uccl_ports_walk walk = {0};
			struct sockaddr_storage at = loopback((uint16_t)(first + (uint32_t)n));

			fd[n] = udp_socket();
			if (uccl_ports_bind(fd[n], &at, sizeof(struct sockaddr_in), &r, &walk))
				break;
			assert_int_equal(port_of(fd[n]), first + (uint32_t)n);
		}
		if (n == N)
			return r;
		close_all(fd, n + 1);
	}
	fail();
	return (struct uccl_ports){0};
}

TEST(parse__good)
{
	struct uccl_ports p = {7, 7};

	assert_int_equal(uccl_ports_parse("", &p), 0);
	assert_false(uccl_ports_limited(&p));
	assert_int_equal(uccl_ports_count(&p), 0);
	assert_int_equal(uccl_ports_parse("1-65535", &p), 0);
	assert_true(uccl_ports_limited(&p));
	assert_int_equal(uccl_ports_count(&p), 65535);
	assert_int_equal(uccl_ports_parse("47000-47001", &p), 0);
	assert_int_equal(p.first, 47000);
	assert_int_equal(p.last, 47001);
	assert_int_equal(uccl_ports_count(&p), 2);
}

TEST(parse__bad)
{
	static const char *const bad[] = {
		"abc",	"5-1",	"0-99999", "5-5", "0-5",  "5",	   "-5",    "5-",		      "5-65536",
		" 5-6", "5 -6", "5- 6",	   "5-6 ", "5-+6", "5-6-7", "0x5-6", "99999999999999999999-5",
	};
	struct uccl_ports p = {3, 4};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		assert_int_equal(uccl_ports_parse(bad[i], &p), -FI_EINVAL);
		assert_int_equal(p.first, 3);
		assert_int_equal(p.last, 4);
	}
}

/* Processes that start together must not all ask for the same port first. */
TEST(walk__begins_anywhere)
{
	uint32_t first = uccl_ports_walk().start;
	int others = 0;

	for (int i = 0; i < 16; i++)
		others += uccl_ports_walk().start != first;
	assert_true(others > 12);
	assert_int_equal(uccl_ports_walk().tried, 0);
}

TEST(next__once_each)
{
	struct uccl_ports r = {65534, 65535}, none = {0};
	struct uccl_ports_walk walk = {.start = UINT32_MAX};

	assert_int_equal(uccl_ports_next(&r, &walk), 65535);
	assert_int_equal(uccl_ports_next(&r, &walk), 65534);
	assert_int_equal(uccl_ports_next(&r, &walk), 0);
	walk.tried = 0;
	assert_int_equal(uccl_ports_next(&none, &walk), 0);
}

/* From its start on and round the end, each port once. */
TEST(bind__order)
{
	struct uccl_ports_walk walk = {.start = N * 5 + 6};
	int held[N], fd[N];
	struct uccl_ports r = range_hold(held);

	close_all(held, N);
	for (int i = 0; i < N; i++) {
		assert_int_equal(bind_next(&r, &walk, &fd[i]), 0);
		assert_int_equal(port_of(fd[i]), r.first + (i + 6) % N);
		assert_int_equal(walk.tried, i + 1);
	}
	close_all(fd, N);
}

TEST(bind__passes_neighbours)
{
	struct uccl_ports_walk walk = {.start = 1};
	int held[N], fd;
	struct uccl_ports r = range_hold(held);

	close(held[4]);
	assert_int_equal(bind_next(&r, &walk, &fd), 0);
	assert_int_equal(port_of(fd), r.first + 4);
	assert_int_equal(walk.tried, 4);
	held[4] = fd;
	close_all(held, N);
}

TEST(bind__exhausted)
{
	struct uccl_ports_walk walk = {.start = 3};
	int held[N], fd;
	struct uccl_ports r = range_hold(held);

	assert_int_equal(bind_next(&r, &walk, &fd), -FI_EADDRINUSE);
	assert_int_equal(walk.tried, N);
	close(fd);
	close_all(held, N);
}

/* Errors of the address are none of the port: nothing is tried further. */
TEST(bind__other_error)
{
	struct uccl_ports r = {20000, 30000};
	struct uccl_ports_walk walk = {0};
	struct sockaddr_storage at = loopback(0);
	int fd = udp_socket();

	((struct sockaddr_in *)&at)->sin_addr.s_addr = htonl(0xc6336401); /* 198.51.100.1 is nobody's */
	assert_int_equal(uccl_ports_bind(fd, &at, sizeof(struct sockaddr_in), &r, &walk), -FI_EADDRNOTAVAIL);
	assert_int_equal(walk.tried, 1);
	close(fd);
}

/* What the application chose goes first, and without a range the system chooses. */
TEST(bind__outside)
{
	struct uccl_ports r = {1, 2}, none = {0};
	struct uccl_ports_walk walk = {0};
	struct sockaddr_storage at;
	int held, fd = udp_socket();

	assert_int_equal(bind_next(&none, &walk, &held), 0);
	assert_true(port_of(held) > 2);
	at = loopback(port_of(held));
	close(held);
	assert_int_equal(uccl_ports_bind(fd, &at, sizeof(struct sockaddr_in), &r, &walk), 0);
	assert_int_equal(walk.tried, 0);
	close(fd);
}

/* In a network namespace of its own: whether it is so. */
static bool range_set(const char *range)
{
	FILE *f = unshare(CLONE_NEWNET) ? NULL : fopen("/proc/sys/net/ipv4/ip_local_port_range", "w");

	return f && fputs(range, f) >= 0 && !fclose(f);
}

/* Of 40 ports 10 are left to others, whoever has the rest; sockets of the other family do not count. */
static int spare_child(void)
{
	struct sockaddr_storage any = {.ss_family = AF_INET};

	if (!range_set("40000 40039"))
		return 77;
	for (int i = 0; i < 30; i++) {
		if (!uccl_ports_spare(AF_INET))
			return 1;
		if (bind(udp_socket(), (struct sockaddr *)&any, sizeof(struct sockaddr_in)))
			return 2;
	}
	return uccl_ports_spare(AF_INET) || !uccl_ports_spare(AF_INET6);
}

TEST(spare__a_quarter)
{
	int status = 0;
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (!pid)
		_exit(spare_child());
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	if (WEXITSTATUS(status) == 77)
		skip(); /* needs root */
	assert_int_equal(WEXITSTATUS(status), 0);
}

TESTS_MAIN
