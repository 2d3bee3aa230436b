/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "uccl_doctor_side.h"

#include <errno.h>
#include <netinet/udp.h>
#include <poll.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/units.h"
#include "nic/udp/udp_state.h"

#define V4_HEADERS 28
#define V6_HEADERS 48
#define PORT_TRIES 32
#define CONNECT_MS 1500
#define ROOM 65536
#define MTU_USUAL 1500 /* where the kernel does not say */

uint64_t doctor_now_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000;
}

uint32_t doctor_headers(const struct doctor_side *s)
{
	return uccl_ifaddr_is_v4(&s->self) ? V4_HEADERS : V6_HEADERS;
}

static bool option_set(int fd, int level, int name, int value)
{
	return !setsockopt(fd, level, name, &value, sizeof(value));
}

static void queue_set(int fd, int force, int plain, uint32_t bytes)
{
	if (!option_set(fd, SOL_SOCKET, force, (int)bytes))
		option_set(fd, SOL_SOCKET, plain, (int)bytes);
}

/*
 * A socket at the port `want`, 0: the next of the walk, or without a walk any. The descriptor, or a negative errno
 * value; *port is what it got.
 */
static int socket_bind(const struct doctor_side *s, int type, uint16_t want, struct uccl_ports_walk *walk,
		       uint16_t *port)
{
	static const struct uccl_ports any;
	struct uccl_nic_addr at = s->self;
	struct sockaddr_storage sa;
	socklen_t len;
	int fd, err;

	at.port = want;
	len = uccl_ifaddr_to_sock(&sa, &at, AF_UNSPEC);
	fd = socket(sa.ss_family, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return -errno;
	err = uccl_ports_bind(fd, &sa, len, walk ? &s->ports : &any, walk);
	if (!err && getsockname(fd, (struct sockaddr *)&sa, &len))
		err = -errno;
	if (err) {
		close(fd);
		return err;
	}
	uccl_ifaddr_from_sock(&at, (struct sockaddr *)&sa, len);
	*port = at.port;
	return fd;
}

/* The receiving socket and a TCP listener of the same number; without the latter if there is no such pair. */
static int receiver_open(struct doctor_side *s, uint32_t rx_bytes)
{
	struct uccl_ports_walk walk = uccl_ports_walk();
	uint16_t port;

	for (int i = 0; i < PORT_TRIES && s->live < 0; i++) {
		int fd = socket_bind(s, SOCK_DGRAM, 0, &walk, &port);

		if (fd < 0 && s->rx < 0)
			return fd;
		if (fd < 0)
			break;
		if (s->rx >= 0)
			close(s->rx);
		s->rx = fd;
		s->self.port = port;
		s->live = socket_bind(s, SOCK_STREAM, s->self.port, &walk, &port);
	}
	if (s->live >= 0 && listen(s->live, 8)) {
		close(s->live);
		s->live = -1;
	}
	queue_set(s->rx, SO_RCVBUFFORCE, SO_RCVBUF, rx_bytes ? rx_bytes : UDP_RX_DEFAULT);
	option_set(s->rx, IPPROTO_UDP, UDP_GRO, 1);
	option_set(s->rx, IPPROTO_IP, IP_RECVTOS, 1);
	option_set(s->rx, IPPROTO_IPV6, IPV6_RECVTCLASS, 1);
	return 0;
}

static int label_open(struct doctor_side *s, int i)
{
	struct uccl_ports_walk walk = uccl_ports_walk();
	int fd = socket_bind(s, SOCK_DGRAM, 0, &walk, &s->label_port[i]);

	if (fd < 0)
		return fd;
	option_set(fd, IPPROTO_IP, IP_RECVERR, 1);
	option_set(fd, IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_DO);
	option_set(fd, IPPROTO_IPV6, IPV6_RECVERR, 1);
	option_set(fd, IPPROTO_IPV6, IPV6_MTU_DISCOVER, IPV6_PMTUDISC_DO);
	queue_set(fd, SO_SNDBUFFORCE, SO_SNDBUF, UDP_TX_QUEUE);
	s->label[i] = fd;
	return 0;
}

/* What the provider goes by: the interface that packets leave by, and what the route's entry says. */
static uint32_t link_mtu(const struct doctor_side *s)
{
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	struct ifreq req = { 0 };
	struct doctor_route route;
	uint32_t mtu = MTU_USUAL;

	doctor_route(&s->self, &s->peer, &route);
	if (fd >= 0 && route.oif && if_indextoname((unsigned int)route.oif, req.ifr_name) &&
	    !ioctl(fd, SIOCGIFMTU, &req) && req.ifr_mtu > 0)
		mtu = (uint32_t)uccl_min(req.ifr_mtu, ROOM);
	if (fd >= 0)
		close(fd);
	return route.mtu && route.mtu < mtu ? route.mtu : mtu;
}

int doctor_side_open(struct doctor_side *s, int tcp, int nlabels, const struct uccl_ports *ports, uint32_t rx_bytes)
{
	struct sockaddr_storage sa;
	socklen_t len = sizeof(sa);
	int rc = 0;

	memset(s, 0, sizeof(*s));
	s->tcp = tcp;
	s->ports = *ports;
	s->rx = s->live = -1;
	s->end_ms = doctor_now_ms() + DOCTOR_SESSION_MS;
	if (getsockname(tcp, (struct sockaddr *)&sa, &len) ||
	    uccl_ifaddr_from_sock(&s->self, (struct sockaddr *)&sa, len))
		rc = -EADDRNOTAVAIL;
	len = sizeof(sa);
	if (getpeername(tcp, (struct sockaddr *)&sa, &len) ||
	    uccl_ifaddr_from_sock(&s->peer, (struct sockaddr *)&sa, len))
		rc = -ENOTCONN;
	s->mtu = rc ? 0 : link_mtu(s);
	if (!rc)
		rc = receiver_open(s, rx_bytes);
	for (int i = 0; i < nlabels && !rc; i++) {
		rc = label_open(s, i);
		s->nlabels += !rc;
	}
	if (rc && s->nlabels) /* short of descriptors or ports: fewer will do */
		rc = 0;
	if (rc)
		doctor_side_close(s);
	return rc;
}

void doctor_side_close(struct doctor_side *s)
{
	for (int i = 0; i < s->nlabels; i++)
		close(s->label[i]);
	s->nlabels = 0;
	if (s->rx >= 0)
		close(s->rx);
	if (s->live >= 0)
		close(s->live);
	if (s->tcp >= 0)
		close(s->tcp);
	s->rx = s->live = s->tcp = -1;
}

void doctor_side_hello(const struct doctor_side *s, struct doctor_hello *h)
{
	memset(h, 0, sizeof(*h));
	h->token = s->token;
	h->version = DOCTOR_VERSION;
	h->udp_port = s->self.port;
	h->live_port = s->live >= 0 ? s->self.port : 0;
	h->mtu = s->mtu;
	h->nlabels = (uint16_t)s->nlabels;
	memcpy(h->label_port, s->label_port, sizeof(h->label_port));
}

/* Probes. */

static struct sockaddr_storage peer_sock(const struct doctor_side *s, socklen_t *len)
{
	struct sockaddr_storage sa;

	*len = uccl_ifaddr_to_sock(&sa, &s->peer, AF_UNSPEC);
	return sa;
}

static void cmsg_add(struct msghdr *m, size_t room, int level, int type, const void *data, size_t n)
{
	struct cmsghdr *c = (struct cmsghdr *)((char *)m->msg_control + m->msg_controllen);

	if (m->msg_controllen + CMSG_SPACE(n) > room)
		return;
	m->msg_controllen += CMSG_SPACE(n);
	c->cmsg_level = level;
	c->cmsg_type = type;
	c->cmsg_len = CMSG_LEN(n);
	memcpy(CMSG_DATA(c), data, n);
}

/* What one call sends: bytes, and what is special about it. */
struct burst {
	const uint8_t *data;
	size_t bytes;
	uint16_t segment; /* 0: one packet */
	uint8_t ecn, ttl;
};

static int burst_send(struct doctor_side *s, int fd, const struct burst *b)
{
	_Alignas(struct cmsghdr) uint8_t control[128] = { 0 };
	bool v4 = uccl_ifaddr_is_v4(&s->peer);
	struct iovec iov = { .iov_base = (void *)b->data, .iov_len = b->bytes };
	struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = control };
	struct sockaddr_storage sa = peer_sock(s, &m.msg_namelen);
	int ecn = b->ecn, ttl = b->ttl, level = v4 ? IPPROTO_IP : IPPROTO_IPV6;
	ssize_t n;

	m.msg_name = &sa;
	if (b->segment)
		cmsg_add(&m, sizeof(control), IPPROTO_UDP, UDP_SEGMENT, &b->segment, sizeof(b->segment));
	if (ecn)
		cmsg_add(&m, sizeof(control), level, v4 ? IP_TOS : IPV6_TCLASS, &ecn, sizeof(ecn));
	if (ttl)
		cmsg_add(&m, sizeof(control), level, v4 ? IP_TTL : IPV6_HOPLIMIT, &ttl, sizeof(ttl));
	if (!m.msg_controllen)
		m.msg_control = NULL;
	s->sent_bytes += b->bytes;
	for (int tries = 0;; tries++) {
		n = sendmsg(fd, &m, MSG_NOSIGNAL | MSG_DONTWAIT);
		if (n == (ssize_t)b->bytes)
			return 0;
		/* The queue is full, or this is the news of an earlier packet. */
		if (tries == 3 || (errno != EAGAIN && errno != ENOBUFS && errno != ECONNREFUSED &&
				   errno != EHOSTUNREACH))
			return -errno;
		usleep(500);
	}
}

/* The bound of what is sent holds for both ends. */
static bool may_send(const struct doctor_side *s, uint64_t bytes)
{
	return s->sent_bytes + bytes <= DOCTOR_SESSION_BYTES && doctor_now_ms() < s->end_ms;
}

static void sleep_until(uint64_t us)
{
	uint64_t now = doctor_now_us();

	if (now < us)
		usleep((useconds_t)(us - now));
}

/* What the kernel knows of the route after a run: the interface's size, or a smaller one that a router told. */
static uint32_t route_mtu(const struct doctor_side *s)
{
	bool v4 = uccl_ifaddr_is_v4(&s->peer);
	socklen_t len, size = sizeof(int);
	struct sockaddr_storage sa = peer_sock(s, &len);
	uint16_t port;
	int fd = socket_bind(s, SOCK_DGRAM, 0, NULL, &port), mtu = 0;

	if (fd < 0)
		return 0;
	if (connect(fd, (struct sockaddr *)&sa, len) ||
	    getsockopt(fd, v4 ? IPPROTO_IP : IPPROTO_IPV6, v4 ? IP_MTU : IPV6_MTU, &mtu, &size))
		mtu = 0;
	close(fd);
	return mtu > 0 && mtu <= ROOM ? (uint32_t)mtu : 0;
}

bool doctor_run_send(struct doctor_side *s, const struct doctor_run *run, struct doctor_sent *sent)
{
	static uint8_t buf[ROOM];
	uint64_t start = doctor_now_us();
	uint32_t seq = 0;
	int labels = run->labels < s->nlabels ? run->labels : s->nlabels;

	memset(sent, 0, sizeof(*sent));
	if (!may_send(s, (uint64_t)run->count * run->size))
		return false;
	while (seq < run->count) {
		uint32_t k = (uint32_t)uccl_min(run->train, run->count - seq);
		uint16_t label = (uint16_t)(seq / run->burst % (uint32_t)labels);
		struct burst b = { .data = buf, .bytes = (size_t)k * run->size, .ecn = run->ecn };
		int rc;

		for (uint32_t i = 0; i < k; i++) {
			struct doctor_probe p = { .token = s->token, .kind = DOCTOR_DATA, .id = run->id, .label = label,
						  .seq = seq + i, .size = run->size };

			doctor_put_probe(buf + (size_t)i * run->size, &p);
		}
		b.segment = k > 1 ? (uint16_t)run->size : 0;
		rc = burst_send(s, s->label[label], &b);
		seq += k;
		if (rc) {
			sent->refused += k;
			sent->error = (uint32_t)-rc;
		} else {
			sent->sent += k;
		}
		/* A sleep takes longer than asked: not one for each packet. */
		if (seq % 16 < k)
			sleep_until(start + (uint64_t)seq * run->gap_us);
	}
	sent->span_us = (uint32_t)(doctor_now_us() - start);
	sent->mtu = route_mtu(s);
	return true;
}

static bool small_send(struct doctor_side *s, int label, struct doctor_probe *p)
{
	uint8_t buf[64];
	struct burst b = { .data = buf, .bytes = sizeof(buf), .ttl = p->kind == DOCTOR_PING ? p->ttl : 0 };

	p->token = s->token;
	p->size = sizeof(buf);
	doctor_put_probe(buf, p);
	return may_send(s, sizeof(buf)) && !burst_send(s, s->label[label], &b);
}

bool doctor_ping_send(struct doctor_side *s, int label, uint32_t seq, uint8_t ttl)
{
	struct doctor_probe p = { .kind = DOCTOR_PING, .ttl = ttl, .label = (uint16_t)label, .seq = seq };

	return small_send(s, label, &p);
}

/* A message of the kernel that holds several probes (UDP_GRO) is taken apart. */
static struct {
	uint8_t buf[ROOM];
	size_t len, off, segment;
	uint8_t ecn;
} message;

static bool message_read(int fd)
{
	_Alignas(struct cmsghdr) uint8_t control[128];
	struct iovec iov = { .iov_base = message.buf, .iov_len = sizeof(message.buf) };
	struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = control,
			    .msg_controllen = sizeof(control) };
	ssize_t n = recvmsg(fd, &m, MSG_DONTWAIT);

	message.off = message.len = 0;
	if (n <= 0)
		return n == 0;
	message.len = message.segment = (size_t)n;
	message.ecn = 0;
	for (struct cmsghdr *c = CMSG_FIRSTHDR(&m); c; c = CMSG_NXTHDR(&m, c)) {
		int value = 0;

		if (c->cmsg_level == IPPROTO_IP && c->cmsg_type == IP_TOS) {
			message.ecn = *CMSG_DATA(c) & 3;
			continue;
		}
		memcpy(&value, CMSG_DATA(c), uccl_min(sizeof(value), c->cmsg_len - CMSG_LEN(0)));
		if (c->cmsg_level == IPPROTO_IPV6 && c->cmsg_type == IPV6_TCLASS)
			message.ecn = value & 3;
		if (c->cmsg_level == IPPROTO_UDP && c->cmsg_type == UDP_GRO && value > 0)
			message.segment = (size_t)value;
	}
	return true;
}

static void ping_answer(struct doctor_side *s, const struct doctor_probe *ping)
{
	struct doctor_probe p = *ping;

	/* As long as the question at the most: nobody can be flooded through us. */
	p.kind = DOCTOR_PONG;
	if (ping->size >= 64)
		small_send(s, (int)(ping->seq % (uint32_t)s->nlabels), &p);
}

bool doctor_probe_take(struct doctor_side *s, struct doctor_probe *p, uint8_t *ecn, bool *right)
{
	for (;;) {
		size_t n;

		if (message.off >= message.len && !message_read(s->rx))
			return false;
		n = uccl_min(message.segment, message.len - message.off);
		message.off += n;
		if (!n || !doctor_get_probe(message.buf + message.off - n, n, s->token, p, right))
			continue;
		*ecn = message.ecn;
		if (p->kind == DOCTOR_PING && *right)
			ping_answer(s, p);
		return true;
	}
}

static void tally_time(struct doctor_tally *tally)
{
	uint64_t now = doctor_now_us();

	if (!tally->began_us)
		tally->began_us = now;
	tally->span_us = (uint32_t)(now - tally->began_us);
}

/* Returns how many were taken. */
static int probes_take(struct doctor_side *s, uint16_t id, struct doctor_tally *tally)
{
	struct doctor_probe p;
	uint8_t ecn;
	bool right;
	int n = 0;

	for (; n < 4096 && doctor_probe_take(s, &p, &ecn, &right); n++) {
		if (!tally || p.kind != DOCTOR_DATA || p.id != id)
			continue;
		doctor_tally_add(tally, p.label, p.seq, ecn, right);
		tally_time(tally);
		s->queue.merged = (uint32_t)uccl_max(s->queue.merged,
						     (message.len + message.segment - 1) / message.segment);
	}
	return n;
}

bool doctor_gone(struct doctor_side *s)
{
	uint8_t c;

	probes_take(s, 0, NULL);
	return recv(s->tcp, &c, 1, MSG_PEEK | MSG_DONTWAIT) == 0;
}

void doctor_settle(struct doctor_side *s, uint16_t id, struct doctor_tally *tally)
{
	uint64_t now = doctor_now_ms(), end = now + 1000, quiet = now + DOCTOR_GRACE_MS;
	struct pollfd p = { .fd = s->rx, .events = POLLIN };

	while ((now = doctor_now_ms()) < uccl_min(end, quiet)) {
		poll(&p, 1, (int)(uccl_min(end, quiet) - now));
		if (probes_take(s, id, tally))
			quiet = doctor_now_ms() + DOCTOR_GRACE_MS;
	}
	probes_take(s, id, tally);
	tally->overflowed = doctor_queue_overflowed(s);
}

/* The TCP connections: the one to talk over, and those that prove that a port can be reached. */

int doctor_send(struct doctor_side *s, size_t len)
{
	size_t at = 0;

	while (at < len) {
		struct pollfd p = { .fd = s->tcp, .events = POLLOUT };
		ssize_t n = send(s->tcp, s->out + at, len - at, MSG_NOSIGNAL | MSG_DONTWAIT);

		if (n > 0) {
			at += (size_t)n;
			continue;
		}
		if (n < 0 && errno != EAGAIN && errno != EINTR)
			return -errno;
		if (doctor_now_ms() >= s->end_ms)
			return -ETIMEDOUT;
		poll(&p, 1, 100);
	}
	return 0;
}

/* Whoever connects gets one byte and is sent away: that is all the proof it wants. */
static void live_accept(struct doctor_side *s)
{
	int fd = s->live < 0 ? -1 : accept4(s->live, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

	if (fd < 0)
		return;
	(void)!send(fd, "U", 1, MSG_NOSIGNAL | MSG_DONTWAIT);
	close(fd);
}

/* Wait for something to do, and do what is not a message. True: the TCP connection can be read. */
static bool wait_work(struct doctor_side *s, int ms, uint16_t id, struct doctor_tally *tally)
{
	struct pollfd p[3] = { { .fd = s->tcp, .events = POLLIN }, { .fd = s->rx, .events = POLLIN },
			       { .fd = s->live, .events = POLLIN } };

	poll(p, 3, ms);
	probes_take(s, id, tally);
	if (p[2].revents)
		live_accept(s);
	return p[0].revents;
}

int doctor_receive(struct doctor_side *s, enum doctor_msg_type *type, int ms, uint16_t id, struct doctor_tally *tally)
{
	uint64_t end = uccl_min(doctor_now_ms() + (uint64_t)ms, s->end_ms), now;
	uint8_t head[DOCTOR_MSG_HEAD];
	size_t have = 0;
	int body = -1;

	while ((now = doctor_now_ms()) < end) {
		bool in_head = have < sizeof(head);
		ssize_t n;

		if (!wait_work(s, (int)uccl_min(end - now, 100), id, tally))
			continue;
		n = recv(s->tcp, in_head ? head + have : s->in + have - sizeof(head),
			 in_head ? sizeof(head) - have : sizeof(head) + (size_t)body - have, MSG_DONTWAIT);
		if (n < 0 && (errno == EAGAIN || errno == EINTR))
			continue;
		if (n <= 0)
			return -EPIPE;
		have += (size_t)n;
		if (have == sizeof(head) && body < 0) {
			body = doctor_get_head(head, type);
			if (body < 0)
				return -EPROTO;
		}
		if (body >= 0 && have == sizeof(head) + (size_t)body)
			return body;
	}
	return -ETIMEDOUT;
}

int doctor_connect_try(struct doctor_side *s, uint16_t port)
{
	uint64_t end = doctor_now_ms() + CONNECT_MS;
	struct uccl_nic_addr to = s->peer;
	struct sockaddr_storage sa;
	socklen_t len, size = sizeof(int);
	int err = ETIMEDOUT, soerr = 0;
	uint16_t own;
	uint8_t byte;
	struct uccl_ports_walk walk = uccl_ports_walk();
	struct pollfd p = { .events = POLLIN, .fd = socket_bind(s, SOCK_STREAM, 0, &walk, &own) };

	if (p.fd < 0)
		return -p.fd;
	to.port = port;
	len = uccl_ifaddr_to_sock(&sa, &to, AF_UNSPEC);
	if (connect(p.fd, (struct sockaddr *)&sa, len) && errno != EINPROGRESS)
		err = errno;
	while (err == ETIMEDOUT && doctor_now_ms() < end) {
		if (poll(&p, 1, 50) <= 0)
			continue;
		if (getsockopt(p.fd, SOL_SOCKET, SO_ERROR, &soerr, &size))
			soerr = errno;
		err = soerr ? soerr : recv(p.fd, &byte, 1, MSG_DONTWAIT) == 1 ? 0 : ECONNRESET;
	}
	close(p.fd);
	return err;
}
