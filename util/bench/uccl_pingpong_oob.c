/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The TCP connection beside the transport. */
#include "uccl_pingpong.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

void die(const char *fmt, ...)
{
	char text[512];
	va_list ap;

	fflush(stdout);
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	/* In one piece: the other side may die at the same moment, on the same terminal. */
	fprintf(stderr, "uccl_pingpong: %s\n", text);
	exit(1);
}

double now_s(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec * 1e-9;
}

void oob_send(struct bench *b, const void *buf, size_t len)
{
	const char *p = buf;

	while (len) {
		ssize_t n = send(b->oob, p, len, MSG_NOSIGNAL);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			die("the other side is gone: %s", strerror(errno));
		p += n;
		len -= (size_t)n;
	}
}

void oob_recv(struct bench *b, void *buf, size_t len)
{
	char *p = buf;

	while (len) {
		ssize_t n = recv(b->oob, p, len, MSG_DONTWAIT);

		if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) {
			if (b->open)
				b->transport->progress(b);
			continue;
		}
		if (n <= 0)
			die("the other side is gone: %s", n ? strerror(errno) : "closed");
		p += n;
		len -= (size_t)n;
	}
}

int oob_mss(const struct bench *b)
{
	socklen_t len = sizeof(int);
	int mss = 0;

	if (getsockopt(b->oob, IPPROTO_TCP, TCP_MAXSEG, &mss, &len))
		die("TCP_MAXSEG: %s", strerror(errno));
	return mss;
}

void barrier(struct bench *b)
{
	char c = 'b';

	oob_send(b, &c, 1);
	oob_recv(b, &c, 1);
}

static int oob_dial(struct addrinfo *list, double until)
{
	for (;;) {
		struct addrinfo *ai;

		for (ai = list; ai; ai = ai->ai_next) {
			int fd = socket(ai->ai_family, ai->ai_socktype, ai->ai_protocol);

			if (fd < 0)
				continue;
			if (!connect(fd, ai->ai_addr, ai->ai_addrlen))
				return fd;
			close(fd);
		}
		if (now_s() > until)
			die("cannot connect: %s", strerror(errno));
		usleep(50000);
	}
}

static int oob_accept(struct addrinfo *ai)
{
	int one = 1, fd, conn;

	fd = socket(ai->ai_family, ai->ai_socktype, ai->ai_protocol);
	if (fd < 0)
		die("socket: %s", strerror(errno));
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (bind(fd, ai->ai_addr, ai->ai_addrlen) || listen(fd, 1))
		die("cannot listen: %s", strerror(errno));
	conn = accept(fd, NULL, NULL);
	if (conn < 0)
		die("accept: %s", strerror(errno));
	close(fd);
	return conn;
}

void oob_open(struct bench *b)
{
	struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE};
	struct addrinfo *list;
	int one = 1, rc;

	hints.ai_family = b->v6 ? AF_INET6 : AF_INET;
	rc = getaddrinfo(b->host, b->port, &hints, &list);
	if (rc)
		die("%s: %s", b->host ? b->host : "any", gai_strerror(rc));
	b->oob = b->client ? oob_dial(list, now_s() + 10) : oob_accept(list);
	setsockopt(b->oob, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	freeaddrinfo(list);
}

bool oob_ready(struct bench *b, void *buf, size_t len)
{
	ssize_t n = recv(b->oob, buf, len, MSG_DONTWAIT | MSG_PEEK);

	if (n == 0 || (n < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR))
		die("the other side is gone: %s", n ? strerror(errno) : "closed");
	if (n < (ssize_t)len)
		return false;
	oob_recv(b, buf, len);
	return true;
}
