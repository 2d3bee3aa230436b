/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Liveness connections, see udp_live.h. One epoll descriptor holds the listener, the connections we made and
 * those we accepted.
 *
 * DESIGN NOTES. One connection for each direction costs a second descriptor a peer, but needs no statement of identity,
 * which a third process on the same host could forge. Time-outs (keepalive, connect) never count as an end: a
 * TCP connection lives on one network path, and a path may die while the peer lives.
 * Descriptors are taken only from the lower half of the process's table: numbers are given lowest first, so
 * this bounds all liveness connections of the process to half of it without a counter shared by endpoints.
 * Any host can connect. A connection from the address of a peer is kept for that peer. A few others are kept, as a peer
 * may connect a moment before we know it. A peer whose connection ended for a later one connects again. PROTOCOL R159
 */
#include "nic/udp_live.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/queue.h>
#include <sys/resource.h>
#include <unistd.h>

#include <rdma/fi_errno.h>

#include "base/le.h"
#include "base/log.h"
#include "base/units.h"
#include "nic/ifaddr.h"
#include "nic/ownfd.h"

#define LIVE_BACKLOG 512
#define LIVE_EVENTS 64		/* events handled a poll */
#define LIVE_UNAUTHENTICATED 64 /* connections kept that come from no peer's address; one more, and the oldest ends */
#define LIVE_EACH 4	  /* and for each peer: one, and those of earlier incarnations whose end is not known yet */
#define LIVE_HELLO_LEN 16
#define LIVE_TRIES 12			    /* consecutive broken connections before a peer is left unwatched */
#define LIVE_RETRY_NS (10 * UCCL_NS_PER_MS) /* wait before the second try; doubles */
#define LIVE_RETRY_MAX_NS (10 * UCCL_NS_PER_S)
#define LIVE_STABLE_NS (10 * UCCL_NS_PER_S) /* a connection that lasted so long clears the count of tries */
#define LIVE_PORT_TRIES 64 /* connections from here to there may exist from so many ports, still or already */
#define LIVE_KEEP_IDLE_S 10
#define LIVE_KEEP_EVERY_S 5
#define LIVE_KEEP_PROBES 3

static const char live_magic[8] = {'U', 'C', 'C', 'L', 'l', 'i', 'v', 'e'};
/* Version and type of the request by which libfabric's provider tcp begins a connection (xnet_proto.h, ofi_proto.h). */
static const uint8_t tcp_provider_hello[2] = {3, 0};

enum entry_kind { ENTRY_LISTENER, ENTRY_ACCEPTED, ENTRY_PEER };

/* What epoll's data points to; first member of its owner. */
struct entry {
	enum entry_kind kind;
	int fd; /* -1: none */
};

/* A connection made to us: kept open, and read only to see that it ends. */
struct accepted {
	struct entry entry;
	bool of_peer;	/* its source address was that of a peer, then or later */
	uint8_t ip[16];
	TAILQ_ENTRY(accepted) link;
};

TAILQ_HEAD(accepted_list, accepted); /* the oldest first */

enum peer_state {
	PEER_WAIT,	 /* no connection, next try at retry_at */
	PEER_CONNECTING, /* TCP handshake under way */
	PEER_HELLO,	 /* connected, its 16 bytes not complete */
	PEER_UP,	 /* its number is known and right */
	PEER_GONE,	 /* proven; on the list of those to report or reported */
	PEER_OFF,	 /* not watched */
};

struct uccl_udp_live_peer {
	struct entry entry;
	enum peer_state state;
	bool known;	    /* `id` is known */
	bool asked;	    /* it listens, or is no more */
	bool queued;	    /* on the gone list */
	uint8_t tries;	    /* broken connections since the last stable one */
	uint8_t hello_have; /* bytes of hello */
	uint8_t hello[LIVE_HELLO_LEN];
	uint64_t id;	   /* the peer's number */
	uint64_t retry_at; /* PEER_WAIT */
	uint64_t up_at;	   /* PEER_UP: since when */
	struct uccl_nic_addr to;
	void *user;
	struct uccl_udp_live_peer *prev, *next; /* all peers */
	struct uccl_udp_live_peer *gone_next;	/* to be reported */
};

struct uccl_udp_live {
	struct entry listener;
	int epoll_fd;
	int reserve_fd; /* closed for a moment to turn a connection away when descriptors are out */
	int fd_limit; /* liveness descriptors stay below */
	struct uccl_ports ports; /* of the connections that we make */
	struct uccl_nic_addr self;
	struct accepted_list of_peers, unauthenticated;
	uint32_t nof_peers, nunauthenticated;
	uint32_t npeers;
	uint64_t retry_at; /* not later than the earliest retry_at of a waiting peer */
	uint8_t hello[LIVE_HELLO_LEN];
	struct uccl_udp_live_peer *peers;
	struct uccl_udp_live_peer *gone_head, **gone_tail;
	struct accepted_list dead; /* ended in this poll, freed after its events */
	bool tcp_provider_told; /* that a program over another provider connects */
};

/* Taken out of epoll by hand: a forked child may hold the descriptor, and then close() would not do it. */
static void entry_close(struct uccl_udp_live *live, struct entry *entry)
{
	if (entry->fd < 0)
		return;
	epoll_ctl(live->epoll_fd, EPOLL_CTL_DEL, entry->fd, NULL);
	uccl_own_close(entry->fd);
	entry->fd = -1;
}

static void option_set(int fd, int level, int name, int value)
{
	/* All of these only tune; a kernel that refuses one still gives a working connection. */
	if (setsockopt(fd, level, name, &value, sizeof(value)))
		UCCL_LOG(UCCL_LOG_DEBUG, "liveness socket option %d/%d: errno %d", level, name, errno);
}

static void keepalive_set(int fd)
{
	option_set(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
	option_set(fd, IPPROTO_TCP, TCP_KEEPIDLE, LIVE_KEEP_IDLE_S);
	option_set(fd, IPPROTO_TCP, TCP_KEEPINTVL, LIVE_KEEP_EVERY_S);
	option_set(fd, IPPROTO_TCP, TCP_KEEPCNT, LIVE_KEEP_PROBES);
	option_set(fd, SOL_SOCKET, SO_RCVBUF, 4096);
	option_set(fd, SOL_SOCKET, SO_SNDBUF, 4096);
}

static int watch(struct uccl_udp_live *live, struct entry *entry, uint32_t events, int op)
{
	struct epoll_event ev = {.events = events, .data.ptr = entry};

	return epoll_ctl(live->epoll_fd, op, entry->fd, &ev) ? -errno : 0;
}

/* Peers we watch. */

static void peer_gone(struct uccl_udp_live *live, struct uccl_udp_live_peer *p)
{
	entry_close(live, &p->entry);
	p->state = PEER_GONE;
	p->queued = true;
	p->gone_next = NULL;
	*live->gone_tail = p;
	live->gone_tail = &p->gone_next;
}

static void peer_off(struct uccl_udp_live *live, struct uccl_udp_live_peer *p)
{
	entry_close(live, &p->entry);
	p->state = PEER_OFF;
}

/* The connection, or the try to make one, broke: ask again, at once the first time. */
static void peer_retry(struct uccl_udp_live *live, struct uccl_udp_live_peer *p, uint64_t now)
{
	entry_close(live, &p->entry);
	if (p->state == PEER_UP && now - p->up_at >= LIVE_STABLE_NS)
		p->tries = 0;
	if (p->tries >= LIVE_TRIES) {
		UCCL_LOG(UCCL_LOG_INFO, "a peer's liveness connection does not hold, going without");
		p->state = PEER_OFF;
		return;
	}
	p->retry_at = now;
	if (p->tries)
		p->retry_at += uccl_min(LIVE_RETRY_NS << (p->tries - 1), LIVE_RETRY_MAX_NS);
	p->tries++;
	p->state = PEER_WAIT;
	live->retry_at = uccl_min(live->retry_at, p->retry_at);
}

static void peer_refused(struct uccl_udp_live *live, struct uccl_udp_live_peer *p)
{
	if (p->known || p->asked)
		peer_gone(live, p);
	else
		peer_off(live, p); /* it may simply have no listener */
}

static void peer_error(struct uccl_udp_live *live, struct uccl_udp_live_peer *p, int error, uint64_t now)
{
	if (error == ECONNREFUSED)
		peer_refused(live, p);
	else
		peer_retry(live, p, now);
}

/*
 * A socket that may be connected, from our own address, by which the peer knows us, and from the next port of the range
 * if there is one. Negative: a shortage.
 */
static int peer_socket(const struct uccl_udp_live *live, int family, struct uccl_ports_walk *walk)
{
	struct sockaddr_storage from = {0};
	socklen_t len = uccl_ifaddr_to_sock(&from, &live->self, AF_UNSPEC);
	bool own = !uccl_ifaddr_is_any(&live->self) && from.ss_family == family;
	int fd = uccl_own_socket(family, SOCK_STREAM | SOCK_NONBLOCK), err = 0;

	if (!own) {
		from = (struct sockaddr_storage){.ss_family = (sa_family_t)family};
		len = family == AF_INET6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in);
	}

	if (fd < 0)
		return -errno;
	keepalive_set(fd);
	if (uccl_ports_limited(&live->ports)) {
		/* Connections to other places may begin at the same port. */
		option_set(fd, SOL_SOCKET, SO_REUSEADDR, 1);
		err = uccl_ports_bind(fd, &from, len, &live->ports, walk);
	} else if (own) {
		/* The port is chosen when it is known to where: as many connections as without this. */
		option_set(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, 1);
		err = bind(fd, (struct sockaddr *)&from, len) ? -errno : 0;
	}
	if (!err && fd >= live->fd_limit)
		err = -FI_EMFILE;
	if (!err)
		return fd;
	uccl_own_close(fd);
	return err;
}

static void peer_start(struct uccl_udp_live *live, struct uccl_udp_live_peer *p, uint64_t now)
{
	struct uccl_ports_walk walk = uccl_ports_walk();
	struct sockaddr_storage sa;
	socklen_t len = uccl_ifaddr_to_sock(&sa, &p->to, AF_UNSPEC);
	int fd, tries, error = 0;

	for (tries = 0;; tries++) {
		fd = peer_socket(live, sa.ss_family, &walk);
		if (fd < 0) {
			UCCL_LOG(UCCL_LOG_INFO, "no liveness connection to a peer: error %d", -fd);
			/* Before the first contact go without; later a shortage may pass. */
			if (p->known)
				peer_retry(live, p, now);
			else
				p->state = PEER_OFF;
			return;
		}
		error = connect(fd, (struct sockaddr *)&sa, len) ? errno : 0;
		/* The remains of an earlier connection have this pair of ports. */
		if (error != EADDRNOTAVAIL || !uccl_ports_limited(&live->ports) || tries == LIVE_PORT_TRIES)
			break;
		uccl_own_close(fd);
	}
	p->entry.fd = fd;
	p->hello_have = 0;
	if (error && error != EINPROGRESS && error != EINTR) {
		peer_error(live, p, error, now);
		return;
	}
	p->state = PEER_CONNECTING;
	if (watch(live, &p->entry, EPOLLIN | EPOLLOUT, EPOLL_CTL_ADD))
		peer_off(live, p);
}

static void peer_hello(struct uccl_udp_live *live, struct uccl_udp_live_peer *p, uint64_t now)
{
	uint64_t id = uccl_get64(p->hello + sizeof(live_magic));

	if (memcmp(p->hello, live_magic, sizeof(live_magic)) || (p->known && id != p->id)) {
		/* Another process has the port now. */
		peer_refused(live, p);
		return;
	}
	p->id = id;
	p->known = true;
	p->state = PEER_UP;
	p->up_at = now;
}

static void peer_readable(struct uccl_udp_live *live, struct uccl_udp_live_peer *p, uint64_t now)
{
	uint8_t buf[LIVE_HELLO_LEN + 1];
	size_t need = p->state == PEER_HELLO ? (size_t)(LIVE_HELLO_LEN - p->hello_have) : 1;
	ssize_t got = recv(p->entry.fd, buf, need, MSG_DONTWAIT);

	if (got < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (got <= 0) {
		peer_retry(live, p, now);
		return;
	}
	if (p->state == PEER_UP) { /* nothing may follow the hello */
		peer_off(live, p);
		return;
	}
	memcpy(p->hello + p->hello_have, buf, (size_t)got);
	p->hello_have += (uint8_t)got;
	if (p->hello_have == LIVE_HELLO_LEN)
		peer_hello(live, p, now);
}

static void peer_event(struct uccl_udp_live *live, struct uccl_udp_live_peer *p, uint32_t events, uint64_t now)
{
	socklen_t len = sizeof(int);
	int error = 0;

	if (p->entry.fd < 0)
		return;
	if (p->state == PEER_CONNECTING) {
		if (getsockopt(p->entry.fd, SOL_SOCKET, SO_ERROR, &error, &len))
			error = errno;
		if (error) {
			peer_error(live, p, error, now);
			return;
		}
		if (!(events & EPOLLOUT))
			return;
		p->state = PEER_HELLO;
		if (watch(live, &p->entry, EPOLLIN, EPOLL_CTL_MOD)) {
			peer_off(live, p);
			return;
		}
	}
	if (events & (EPOLLIN | EPOLLERR | EPOLLHUP))
		peer_readable(live, p, now);
}

static void retries_run(struct uccl_udp_live *live, uint64_t now)
{
	struct uccl_udp_live_peer *p;

	live->retry_at = UCCL_NEVER;
	for (p = live->peers; p; p = p->next)
		if (p->state == PEER_WAIT && p->retry_at <= now)
			peer_start(live, p, now);
	for (p = live->peers; p; p = p->next)
		if (p->state == PEER_WAIT)
			live->retry_at = uccl_min(live->retry_at, p->retry_at);
}

/* Connections of others. */

static void accepted_put(struct uccl_udp_live *live, struct accepted *a, bool of_peer)
{
	a->of_peer = of_peer;
	TAILQ_INSERT_TAIL(of_peer ? &live->of_peers : &live->unauthenticated, a, link);
	++*(of_peer ? &live->nof_peers : &live->nunauthenticated);
}

static void accepted_take(struct uccl_udp_live *live, struct accepted *a)
{
	TAILQ_REMOVE(a->of_peer ? &live->of_peers : &live->unauthenticated, a, link);
	--*(a->of_peer ? &live->nof_peers : &live->nunauthenticated);
}

static void accepted_end(struct uccl_udp_live *live, struct accepted *a)
{
	entry_close(live, &a->entry);
	accepted_take(live, a);
	TAILQ_INSERT_TAIL(&live->dead, a, link);
}

static bool same_ip(const struct uccl_nic_addr *at, const uint8_t ip[16])
{
	return !memcmp(at->ip, ip, sizeof(at->ip));
}

/* Make room for one more connection, from this address. Returns whether it is kept for a peer. PROTOCOL R159 */
static bool room_make(struct uccl_udp_live *live, const uint8_t ip[16])
{
	const struct uccl_udp_live_peer *p = live->peers;

	while (p && !same_ip(&p->to, ip))
		p = p->next;
	if (!p && live->nunauthenticated >= LIVE_UNAUTHENTICATED)
		accepted_end(live, TAILQ_FIRST(&live->unauthenticated));
	if (p && live->nof_peers >= LIVE_EACH * live->npeers)
		accepted_end(live, TAILQ_FIRST(&live->of_peers));
	return p;
}

/* A peer is at this address from now on: connections that came from it before may be the peer's. */
static void accepted_assign(struct uccl_udp_live *live, const struct uccl_nic_addr *at)
{
	struct accepted *a, *next;

	for (a = TAILQ_FIRST(&live->unauthenticated); a; a = next) {
		next = TAILQ_NEXT(a, link);
		if (!same_ip(at, a->ip))
			continue;
		accepted_take(live, a);
		accepted_put(live, a, true);
	}
}

/*
 * A program over libfabric's provider tcp took our address for one of its own, as it may if FI_UCCL_ALIAS gives us that
 * name here alone. Its provider connects again and again and says nothing, so the line is ours.
 */
static void tcp_provider_reported(struct uccl_udp_live *live, int fd)
{
	struct sockaddr_storage sa;
	socklen_t len = sizeof(sa);
	char host[INET6_ADDRSTRLEN];

	if (live->tcp_provider_told || getpeername(fd, (struct sockaddr *)&sa, &len) ||
	    getnameinfo((struct sockaddr *)&sa, len, host, sizeof(host), NULL, 0, NI_NUMERICHOST))
		return;
	live->tcp_provider_told = true;
	UCCL_LOG(UCCL_LOG_WARN,
		 "a program at %s connects by libfabric's own provider tcp and will wait for ever: run it over uccl, "
		 "too, with the same FI_PROVIDER, FI_UCCL_ALIAS and FI_PROVIDER_PATH", host);
}

static void accepted_event(struct uccl_udp_live *live, struct accepted *a)
{
	uint8_t said[sizeof(tcp_provider_hello)];
	ssize_t got;

	if (a->entry.fd < 0)
		return;
	got = recv(a->entry.fd, said, sizeof(said), MSG_DONTWAIT);
	if (got < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (got == sizeof(said) && !memcmp(said, tcp_provider_hello, sizeof(said)))
		tcp_provider_reported(live, a->entry.fd);
	accepted_end(live, a); /* it ended, or sent something, which it must not */
}

/* Takes over the descriptor. */
static void accepted_add(struct uccl_udp_live *live, int fd)
{
	struct sockaddr_storage sa;
	socklen_t len = sizeof(sa);
	struct uccl_nic_addr from;
	struct accepted *a;

	if (fd >= live->fd_limit || getpeername(fd, (struct sockaddr *)&sa, &len) ||
	    uccl_ifaddr_from_sock(&from, (struct sockaddr *)&sa, len))
		goto refuse;
	keepalive_set(fd);
	if (send(fd, live->hello, LIVE_HELLO_LEN, MSG_DONTWAIT | MSG_NOSIGNAL) != LIVE_HELLO_LEN)
		goto refuse;
	a = calloc(1, sizeof(*a));
	if (!a)
		goto refuse;
	a->entry.kind = ENTRY_ACCEPTED;
	a->entry.fd = fd;
	memcpy(a->ip, from.ip, sizeof(a->ip));
	if (watch(live, &a->entry, EPOLLIN, EPOLL_CTL_ADD)) {
		free(a);
		goto refuse;
	}
	accepted_put(live, a, room_make(live, a->ip));
	return;
refuse:
	uccl_own_close(fd);
}

static void listener_event(struct uccl_udp_live *live)
{
	int i, fd;

	for (i = 0; i < LIVE_EVENTS; i++) {
		fd = uccl_own_accept(live->listener.fd, SOCK_NONBLOCK);
		if (fd >= 0) {
			accepted_add(live, fd);
			continue;
		}
		if (errno == EINTR || errno == ECONNABORTED)
			continue;
		if ((errno != EMFILE && errno != ENFILE) || live->reserve_fd < 0)
			return;
		/* Without this the listener would stay readable, and no thread could sleep on our descriptor. */
		close(live->reserve_fd);
		fd = accept4(live->listener.fd, NULL, NULL, SOCK_CLOEXEC);
		if (fd >= 0)
			close(fd);
		live->reserve_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	}
}

static void dead_free(struct uccl_udp_live *live)
{
	struct accepted *a;

	while ((a = TAILQ_FIRST(&live->dead))) {
		TAILQ_REMOVE(&live->dead, a, link);
		free(a);
	}
}

static int listener_open(struct uccl_udp_live *live, const struct uccl_nic_addr *self)
{
	struct sockaddr_storage sa;
	socklen_t len = uccl_ifaddr_to_sock(&sa, self, AF_UNSPEC);
	int fd;

	fd = uccl_own_socket(sa.ss_family, SOCK_STREAM | SOCK_NONBLOCK);
	if (fd < 0)
		return -errno;
	live->listener.fd = fd;
	/* Ended connections of an earlier process at a fixed port must not keep us out. */
	option_set(fd, SOL_SOCKET, SO_REUSEADDR, 1);
	if (sa.ss_family == AF_INET6)
		option_set(fd, IPPROTO_IPV6, IPV6_V6ONLY, !uccl_ifaddr_is_any(self));
	if (bind(fd, (struct sockaddr *)&sa, len) || listen(fd, LIVE_BACKLOG))
		return -errno;
	return watch(live, &live->listener, EPOLLIN, EPOLL_CTL_ADD);
}

int uccl_udp_live_open(const struct uccl_nic_addr *self, uint64_t id, const struct uccl_ports *ports,
		       struct uccl_udp_live **out)
{
	struct uccl_udp_live *live = calloc(1, sizeof(*live));
	struct rlimit limit;
	int err;

	if (!live)
		return -FI_ENOMEM;
	live->listener.kind = ENTRY_LISTENER;
	live->listener.fd = -1;
	live->gone_tail = &live->gone_head;
	live->retry_at = UCCL_NEVER;
	live->ports = *ports;
	live->self = *self;
	live->self.port = 0;
	TAILQ_INIT(&live->of_peers);
	TAILQ_INIT(&live->unauthenticated);
	TAILQ_INIT(&live->dead);
	memcpy(live->hello, live_magic, sizeof(live_magic));
	uccl_put64(live->hello + sizeof(live_magic), id);
	live->fd_limit = 512;
	if (!getrlimit(RLIMIT_NOFILE, &limit))
		live->fd_limit = (int)uccl_min(limit.rlim_cur / 2, 1 << 30);
	live->reserve_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	live->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	err = live->epoll_fd < 0 ? -errno : listener_open(live, self);
	if (err) {
		uccl_udp_live_close(live);
		return err;
	}
	*out = live;
	return 0;
}

void uccl_udp_live_close(struct uccl_udp_live *live)
{
	struct uccl_udp_live_peer *p;
	struct accepted *a;

	/* The listener is closed first: a peer that sees its connection end connects at once, and must be refused. */
	entry_close(live, &live->listener);
	while ((a = TAILQ_FIRST(&live->of_peers)) || (a = TAILQ_FIRST(&live->unauthenticated)))
		accepted_end(live, a);
	dead_free(live);
	while ((p = live->peers))
		uccl_udp_live_disconnect(live, p);
	if (live->epoll_fd >= 0)
		close(live->epoll_fd);
	if (live->reserve_fd >= 0)
		close(live->reserve_fd);
	free(live);
}

static int peer_add(struct uccl_udp_live *live, const struct uccl_nic_addr *to, bool asked, void *user, uint64_t now,
		    struct uccl_udp_live_peer **peer)
{
	struct uccl_udp_live_peer *p = calloc(1, sizeof(*p));

	if (!p)
		return -FI_ENOMEM;
	p->entry.kind = ENTRY_PEER;
	p->entry.fd = -1;
	p->to = *to;
	p->asked = asked;
	p->user = user;
	p->next = live->peers;
	if (p->next)
		p->next->prev = p;
	live->peers = p;
	live->npeers++;
	accepted_assign(live, to);
	peer_start(live, p, now);
	*peer = p;
	return 0;
}

int uccl_udp_live_connect(struct uccl_udp_live *live, const struct uccl_nic_addr *to, void *user, uint64_t now,
			  struct uccl_udp_live_peer **peer)
{
	return peer_add(live, to, false, user, now, peer);
}

int uccl_udp_live_ask(struct uccl_udp_live *live, const struct uccl_nic_addr *to, void *user, uint64_t now,
		      struct uccl_udp_live_peer **peer)
{
	return peer_add(live, to, true, user, now, peer);
}

void uccl_udp_live_disconnect(struct uccl_udp_live *live, struct uccl_udp_live_peer *p)
{
	struct uccl_udp_live_peer **at;

	entry_close(live, &p->entry);
	if (p->queued) {
		for (at = &live->gone_head; *at != p; at = &(*at)->gone_next)
			;
		*at = p->gone_next;
		if (live->gone_tail == &p->gone_next)
			live->gone_tail = at;
	}
	if (p->prev)
		p->prev->next = p->next;
	else
		live->peers = p->next;
	if (p->next)
		p->next->prev = p->prev;
	live->npeers--;
	free(p);
}

bool uccl_udp_live_up(const struct uccl_udp_live_peer *p)
{
	return p->state == PEER_UP;
}

bool uccl_udp_live_held(const struct uccl_udp_live_peer *p)
{
	return p->state == PEER_HELLO;
}

int uccl_udp_live_poll(struct uccl_udp_live *live, uint64_t now, void **gone, int max)
{
	struct epoll_event ev[LIVE_EVENTS];
	struct uccl_udp_live_peer *p;
	struct entry *entry;
	int i, n;

	/* No peer is freed below, and accepted ones only at the end: the pointers in ev stay good. */
	n = epoll_wait(live->epoll_fd, ev, LIVE_EVENTS, 0);
	for (i = 0; i < n; i++) {
		entry = ev[i].data.ptr;
		if (entry->kind == ENTRY_LISTENER)
			listener_event(live);
		else if (entry->kind == ENTRY_ACCEPTED)
			accepted_event(live, (struct accepted *)entry);
		else
			peer_event(live, (struct uccl_udp_live_peer *)entry, ev[i].events, now);
	}
	dead_free(live);
	if (live->retry_at <= now)
		retries_run(live, now);
	for (n = 0; n < max && (p = live->gone_head); n++) {
		live->gone_head = p->gone_next;
		if (!live->gone_head)
			live->gone_tail = &live->gone_head;
		p->queued = false;
		gone[n] = p->user;
	}
	return n;
}

uint64_t uccl_udp_live_expiry(const struct uccl_udp_live *live)
{
	return live->gone_head ? 0 : live->retry_at;
}

int uccl_udp_live_fd(const struct uccl_udp_live *live)
{
	return live->epoll_fd;
}
