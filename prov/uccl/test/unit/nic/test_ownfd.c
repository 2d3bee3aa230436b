/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "nic/ownfd.h"

#include "../tests.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* A child that does nothing. */
static pid_t sleeper(void)
{
	pid_t child = fork();

	assert_true(child >= 0);
	if (!child) {
		alarm(60);
		pause();
		_exit(0);
	}
	return child;
}

static void end(pid_t child)
{
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
}

static int listener(struct sockaddr_in *at)
{
	socklen_t len = sizeof(*at);
	int fd = uccl_own_socket(AF_INET, SOCK_STREAM);

	*at = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	assert_true(fd >= 0);
	assert_int_equal(bind(fd, (struct sockaddr *)at, sizeof(*at)), 0);
	assert_int_equal(listen(fd, 8), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)at, &len), 0);
	return fd;
}

/* Does whoever is connected see within `ms` that the other side is gone? */
static bool sees_end(int fd, int ms)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};
	char c;

	return poll(&p, 1, ms) == 1 && recv(fd, &c, 1, MSG_DONTWAIT) <= 0;
}

/* A child sleeps. The connection ends with the parent's descriptor, both that it made and that it accepted. */
TEST(own_socket__child_sleeps)
{
	struct sockaddr_in at;
	int l = listener(&at), other, fd;
	pid_t child;

	other = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(connect(other, (struct sockaddr *)&at, sizeof(at)), 0);
	fd = uccl_own_accept(l, 0);
	assert_true(fd >= 0);
	child = sleeper();
	assert_false(sees_end(other, 50));
	uccl_own_close(fd);
	assert_true(sees_end(other, 5000));
	close(other);
	/* Nobody listens any more. */
	uccl_own_close(l);
	other = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(connect(other, (struct sockaddr *)&at, sizeof(at)), -1);
	close(other);
	end(child);
}

/* An ordinary socket is what it would be otherwise: so the test above can fail. */
TEST(own_socket__others_are_left_alone)
{
	struct sockaddr_in at;
	int l = listener(&at), other, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	pid_t child;

	assert_int_equal(connect(fd, (struct sockaddr *)&at, sizeof(at)), 0);
	other = uccl_own_accept(l, 0);
	child = sleeper();
	close(fd);
	assert_false(sees_end(other, 100));
	end(child);
	assert_true(sees_end(other, 5000));
	uccl_own_close(other);
	uccl_own_close(l);
}

static int run(pid_t child)
{
	int status = -1;

	waitpid(child, &status, 0);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static bool is_null(int fd)
{
	struct stat st, null;

	return !fstat(fd, &st) && !stat("/dev/null", &null) && st.st_rdev == null.st_rdev && S_ISCHR(st.st_mode);
}

/* The numbers stay taken there, end with exec, and what the child puts there is not touched by forks of its own. */
TEST(own_socket__in_the_child)
{
	int fd = uccl_own_socket(AF_INET, SOCK_DGRAM), pipes[2];
	pid_t child;

	assert_true(fd >= 0);
	child = fork();
	if (!child) {
		if (!is_null(fd) || !(fcntl(fd, F_GETFD) & FD_CLOEXEC))
			_exit(1);
		if (pipe(pipes) || dup2(pipes[0], fd) != fd)
			_exit(2);
		child = fork();
		if (!child)
			_exit(is_null(fd) ? 3 : 0);
		if (run(child))
			_exit(4);
		uccl_own_close(fd);
		_exit(fcntl(fd, F_GETFD) >= 0 ? 5 : 0);
	}
	assert_int_equal(run(child), 0);
	/* Ours is what it was. */
	assert_false(is_null(fd));
	uccl_own_close(fd);
	assert_int_equal(fcntl(fd, F_GETFD), -1);
}

TEST(own_socket__error)
{
	assert_int_equal(uccl_own_socket(-1, SOCK_STREAM), -1);
	assert_int_equal(uccl_own_accept(-1, 0), -1);
}

TESTS_MAIN
