/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "oob.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "endpoint.h"

/* The other side may begin some seconds later. */
#define DIAL_US 50000
#define DIAL_TRIES 600

void oob_send(const struct oob *o, const void *buf, size_t len)
{
	const char *p = buf;

	while (len) {
		ssize_t n = send(o->fd, p, len, MSG_NOSIGNAL);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			die("the other side is gone: %s", strerror(errno));
		p += n;
		len -= (size_t)n;
	}
}

void oob_recv(const struct oob *o, void *buf, size_t len)
{
	char *p = buf;

	while (len) {
		ssize_t n = recv(o->fd, p, len, o->progress ? MSG_DONTWAIT : 0);

		if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) {
			if (o->progress)
				o->progress(o->arg);
			continue;
		}
		if (n <= 0)
			die("the other side is gone: %s", n ? strerror(errno) : "closed");
		p += n;
		len -= (size_t)n;
	}
}

void oob_barrier(const struct oob *o)
{
	char c = 'b';

	oob_send(o, &c, 1);
	oob_recv(o, &c, 1);
}

static int oob_dial(struct addrinfo *list)
{
	for (int tries = 0;; tries++) {
		struct addrinfo *ai;

		for (ai = list; ai; ai = ai->ai_next) {
			int fd = socket(ai->ai_family, ai->ai_socktype, ai->ai_protocol);

			if (fd < 0)
				continue;
			if (!connect(fd, ai->ai_addr, ai->ai_addrlen))
				return fd;
			close(fd);
		}
		if (tries == DIAL_TRIES)
			die("cannot connect: %s", strerror(errno));
		usleep(DIAL_US);
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

void oob_open(struct oob *o, const char *host, const char *port, bool v6)
{
	struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE};
	struct addrinfo *list;
	int one = 1, rc;

	hints.ai_family = v6 ? AF_INET6 : AF_INET;
	rc = getaddrinfo(host, port, &hints, &list);
	if (rc)
		die("%s: %s", host ? host : "any", gai_strerror(rc));
	o->fd = host ? oob_dial(list) : oob_accept(list);
	setsockopt(o->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	freeaddrinfo(list);
}

bool oob_ready(const struct oob *o, void *buf, size_t len)
{
	ssize_t n = recv(o->fd, buf, len, MSG_DONTWAIT | MSG_PEEK);

	if (n == 0 || (n < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR))
		die("the other side is gone: %s", n ? strerror(errno) : "closed");
	if (n < (ssize_t)len)
		return false;
	oob_recv(o, buf, len);
	return true;
}

void oob_local(const struct oob *o, char *node, size_t size)
{
	struct sockaddr_storage local;
	socklen_t len = sizeof(local);

	if (getsockname(o->fd, (struct sockaddr *)&local, &len) ||
	    getnameinfo((struct sockaddr *)&local, len, node, (socklen_t)size, NULL, 0, NI_NUMERICHOST))
		die("no local address");
}
