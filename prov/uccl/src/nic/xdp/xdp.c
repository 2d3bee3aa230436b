/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The xdp back end: the datagrams of the udp back end, past the kernel's stack, on a queue of an Ethernet NIC. It
 * stands on a udp back end, which holds the port, the label sockets (their ports are ours to send from, and what
 * routers report comes to them) and the liveness connections, and receives from unauthenticated hosts.
 *
 * A packet to a place whose route is known (routes.h) is written as a frame. Others leave by a socket: those to places
 * of this host, to neighbours that the kernel has to find first, and answers to unauthenticated hosts. An XDP program
 * (xdp_prog.h) takes packets with a token of ours from our queue. Other packets for us come by udp's sockets: HELLO and
 * INIT, packets of other queues, packets longer than a frame. So both are always polled. Lanes share queues (xskset.h).
 */
#include <errno.h>
#include <inttypes.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>

#include <rdma/fi_errno.h>

#include "base/log.h"
#include "nic/xdp/frame.h"
#include "nic/nic.h"
#include "nic/gso.h"
#include "nic/udp/udp_reports.h"
#include "nic/xdp/routes.h"
#include "nic/xdp/xdp.h"
#include "nic/xdp/xdp_prog.h"
#include "nic/xdp/xsk.h"
#include "nic/xdp/xskset.h"

/* If there are frames, one of so many calls polls the sockets. */
#define SOCKETS_EVERY 8
#define EVENTS_EVERY_NS (4 * UCCL_NS_PER_MS)
#define AGE_MAX_NS UCCL_NS_PER_S /* beyond: no time stamp of this frame */
#define DOWN_NS (100 * UCCL_NS_PER_MS) /* after an error all goes by sockets for so long */

struct xdp {
	struct uccl_nic nic;
	struct uccl_nic *inner; /* a udp back end */
	struct udp *udp;	/* the same */
	char ifname[IF_NAMESIZE];
	struct uccl_nic_addr self;
	struct uccl_xsk_member *member;
	struct uccl_xsk *xsk; /* its own; NULL: no queue yet, or none was left: all goes by sockets */
	int ifindex;
	bool tried; /* to get a queue */
	bool guarded;
	struct uccl_nic_guard guard;
	struct uccl_routes *routes;
	bool timestamps;
	bool long_packets; /* the MTU lets packets be longer than a frame */
	uint16_t port_of[UDP_LABELS]; /* 0: not asked yet */
	uint64_t now;		      /* when the clock was read last, coarse */
	uint64_t events_at, down_until;
	uint32_t calls;
	bool wakes_tx; /* wait_fd is readable when there is room to send, too */
	int wait_fd;   /* epoll of both; -1 */
	struct uccl_xdp_stats stats; /* all but kicks */
};

static struct xdp *xdp_of(struct uccl_nic *nic)
{
	return uccl_container_of(nic, struct xdp, nic);
}

/* Sending. */

/* The source port of a label: that of its socket. */
static uint16_t label_port(struct xdp *x, uint16_t label)
{
	uint16_t *port = &x->port_of[label % UDP_LABELS];
	struct sockaddr_storage sa;
	socklen_t len = sizeof(sa);
	struct uccl_nic_addr a;

	if (*port)
		return *port;
	if (!getsockname(uccl_udp_sock(x->udp, label)->fd, (struct sockaddr *)&sa, &len) &&
	    !uccl_ifaddr_from_sock(&a, (struct sockaddr *)&sa, len))
		*port = a.port;
	return *port;
}

static bool same_ip(const struct uccl_nic_addr *a, const struct uccl_nic_addr *b)
{
	return a == b || uccl_nic_addr_same_ip(a, b);
}

/* NULL: by a socket. `last`: the packet before, whose route was `route`. */
static const struct uccl_frame_route *route_of(struct xdp *x, const struct uccl_tx *t, const struct uccl_tx *last,
					     const struct uccl_frame_route *route)
{
	if (t->answer || uccl_tx_len(t) + uccl_frame_headers(t->to) > x->xsk->most || x->now < x->down_until)
		return NULL;
	return route && last && same_ip(last->to, t->to) ? route : uccl_routes_find(x->routes, t->to, x->now);
}

/* One packet as a frame. False: no room now. */
static bool frame_put(struct xdp *x, const struct uccl_frame_route *route, const struct uccl_tx *t, uint16_t port)
{
	struct iovec piece[3] = {{(void *)t->hdr, t->hdr_len},
				 {(void *)t->payload, t->payload_len},
				 {(void *)t->tail, t->tail_len}};
	uint8_t *room = uccl_xsk_room(x->xsk, uccl_tx_len(t) + uccl_frame_headers(t->to));
	uint32_t len;

	if (!room)
		return false;
	len = uccl_frame_build(room, route, port, t->to, uccl_udp_tos(x->udp, t), piece, 3);
	if (len)
		uccl_xsk_put(x->xsk, len);
	return true;
}

static void kick(struct xdp *x)
{
	int err = uccl_xsk_kick(x->xsk);

	if (!err || err == -FI_EAGAIN)
		return;
	if (x->now >= x->down_until)
		UCCL_LOG(UCCL_LOG_INFO, "xdp: %s: sending failed: %s; by sockets for now", x->ifname, strerror(-err));
	x->down_until = x->now + DOWN_NS;
}

/* While frames wait to leave, a sleeper is woken when there is room for them. */
static void tx_wake_set(struct xdp *x)
{
	bool want = uccl_xsk_waits(x->xsk) && x->now >= x->down_until;
	struct epoll_event ev = {.events = want ? EPOLLIN | EPOLLOUT : EPOLLIN};

	if (want == x->wakes_tx || x->wait_fd < 0)
		return;
	x->wakes_tx = want;
	(void)epoll_ctl(x->wait_fd, EPOLL_CTL_MOD, x->xsk->rx.fd, &ev);
}

static int xdp_tx(struct uccl_nic *nic, struct uccl_tx *v, int n)
{
	struct xdp *x = xdp_of(nic);
	const struct uccl_frame_route *route = NULL;
	int done = 0, rc = 0;
	bool put = false;

	if (!x->xsk)
		return x->inner->ops->tx(x->inner, v, n);
	x->now = uccl_udp_now();
	while (done < n) {
		uint16_t port;
		int run = 1;

		route = route_of(x, &v[done], done ? &v[done - 1] : NULL, route);
		port = route ? label_port(x, v[done].label) : 0;
		if (port) {
			if (!frame_put(x, route, &v[done], port)) {
				kick(x);
				if (!frame_put(x, route, &v[done], port))
					break;
			}
			put = true;
			x->stats.frames_out++;
			done++;
			continue;
		}
		/* With the packets behind it that have the same place: the route is sought once. */
		while (done + run < n && same_ip(v[done].to, v[done + run].to) &&
		       v[done].answer == v[done + run].answer && uccl_tx_len(&v[done]) <= uccl_tx_len(&v[done + run]))
			run++;
		rc = x->inner->ops->tx(x->inner, v + done, run);
		if (rc <= 0)
			break;
		done += rc;
		x->stats.sockets_out += (uint64_t)rc;
		route = NULL;
	}
	if (put) {
		uccl_udp_reports_sent(x->udp); /* what is reported of it comes to the label sockets */
		kick(x);
	}
	return done || rc >= 0 ? done : rc;
}

/* Receiving. */

static uint64_t monotonic_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * UCCL_NS_PER_S + (uint64_t)t.tv_nsec;
}

/* How long a frame has waited for us; 0: unknown. The kernel keeps room in front of each frame (xsk.h). */
static uint64_t frame_age(const uint8_t *frame, uint64_t now)
{
	struct uccl_xdp_stamp s;

	memcpy(&s, frame - sizeof(s), sizeof(s));
	return s.mark == UCCL_XDP_STAMPED && s.at_ns < now && now - s.at_ns <= AGE_MAX_NS ? now - s.at_ns : 0;
}

static int frames_take(struct xdp *x, struct uccl_rx *v, int n)
{
	struct uccl_xsk_frame got[UCCL_XSK_FRAMES_LENT];
	int k = 0, count = uccl_xsk_member_rx(x->member, got, n);
	uint64_t now = count && x->timestamps ? monotonic_ns() : 0;

	for (int i = 0; i < count; i++) {
		struct uccl_rx *r = &v[k];
		struct uccl_frame f;

		if (uccl_frame_parse(got[i].data, got[i].len, &f) != UCCL_FRAME_GOOD || f.dst.port != x->self.port ||
		    memcmp(f.dst.ip, x->self.ip, sizeof(f.dst.ip))) {
			x->stats.refused++;
			continue;
		}
		memset(r, 0, offsetof(struct uccl_rx, src));
		r->kind = UCCL_RX_PACKET;
		r->data = f.data;
		r->len = f.len;
		r->marked = f.marked;
		r->src = f.src;
		r->age_ns = now ? frame_age(got[i].data, now) : 0;
		k++;
	}
	x->stats.frames_in += (uint64_t)k;
	return k;
}

static int xdp_rx(struct uccl_nic *nic, struct uccl_rx *v, int n, const struct uccl_rx_placement *places, int nplaces)
{
	struct xdp *x = xdp_of(nic);
	int k = 0, got;

	(void)places;
	(void)nplaces;
	x->inner->watched = nic->watched;
	x->inner->empty = nic->empty;
	if (!x->xsk)
		return x->inner->ops->rx(x->inner, v, n, NULL, 0);
	if (uccl_xsk_waits(x->xsk)) {
		x->now = uccl_udp_now();
		kick(x);
	}
	if (x->now >= x->events_at) {
		x->events_at = x->now + EVENTS_EVERY_NS;
		uccl_routes_poll(x->routes);
	}
	if (!nic->empty)
		k = frames_take(x, v, n);
	if (k < n && (!k || ++x->calls % SOCKETS_EVERY == 0)) {
		got = x->inner->ops->rx(x->inner, v + k, n - k, NULL, 0);
		if (got < 0 && !k)
			return got;
		k += got > 0 ? got : 0;
		x->stats.sockets_in += (uint64_t)(got > 0 ? got : 0);
	}
	tx_wake_set(x);
	return k;
}

/* The rest. */

/*
 * A packet with all its headers. Before there is a queue it is not known whether that can be several frames; if it
 * cannot, longer ones go by sockets.
 */
static uint32_t most_of(const struct xdp *x)
{
	if (x->xsk)
		return x->xsk->most;
	return x->long_packets && !x->tried ? UCCL_XSK_LONG : UCCL_XSK_MOST;
}

/* What a packet of so many bytes takes of a receive queue, at most. */
static uint32_t frames_for(uint32_t bytes)
{
	uint32_t frames = (bytes + UCCL_FRAME_V6 + UCCL_XSK_MOST - 1) / UCCL_XSK_MOST;

	return (uint32_t)uccl_min(frames, UCCL_XSK_PARTS);
}

static uint32_t xdp_path_mtu(struct uccl_nic *nic, const struct uccl_nic_addr *to, uint32_t *known)
{
	struct xdp *x = xdp_of(nic);
	uint32_t most = x->inner->ops->path_mtu(x->inner, to, known);

	/* A packet that fits no frame would be as slow as udp. */
	if ((x->xsk || !x->tried) && uccl_routes_ours(x->routes, to))
		most = (uint32_t)uccl_min(most, most_of(x) - uccl_frame_headers(to));
	*known = (uint32_t)uccl_min(*known, most);
	return most;
}

static bool xdp_same_host(struct uccl_nic *nic, const struct uccl_nic_addr *to)
{
	struct xdp *x = xdp_of(nic);

	return x->inner->ops->same_host(x->inner, to);
}

static uint32_t xdp_slots(struct uccl_nic *nic, uint32_t bytes)
{
	struct xdp *x = xdp_of(nic);

	return (uint32_t)uccl_min(x->inner->ops->slots(x->inner, bytes), UCCL_XSK_RX / frames_for(bytes));
}

/* The text that says what was refused, in the log; returns err. */
static int refuse(const char *ifname, const char *what, int err)
{
	UCCL_LOG(UCCL_LOG_WARN, "xdp: %s was refused: %s: %s; FI_UCCL_BACKEND=udp needs no such thing", ifname,
		 what, strerror(-err));
	return err;
}

static struct uccl_xdp_rule rule_of(const struct xdp *x)
{
	struct uccl_xdp_rule rule;

	uccl_xdp_rule_fill(&rule, most_of(x), x->guarded ? &x->guard : NULL);
	return rule;
}

/*
 * Take a queue, once. Programs open endpoints that they never use, as Open MPI does, and queues are few: so that is not
 * done before there is a peer. Without a queue all goes by sockets.
 */
static void queue_take(struct xdp *x)
{
	struct uccl_xdp_rule rule = rule_of(x);
	const struct uccl_xdp_prog *prog = uccl_xsk_prog(x->member);
	const char *what;
	int err;

	if (x->tried)
		return;
	x->tried = true;
	err = uccl_xsk_take(x->member, x->long_packets, &rule, &what);
	if (err == -FI_EBUSY) {
		UCCL_LOG(UCCL_LOG_WARN,
			 "xdp: all queues of %s are taken (one for each endpoint and lane that has peers), this "
			 "endpoint uses kernel sockets; with \"ethtool -L %s combined N\" there may be more",
			 x->ifname, x->ifname);
		return;
	}
	if (err) {
		refuse(x->ifname, what, err);
		return;
	}
	x->xsk = uccl_xsk_own(x->member);
	if (x->long_packets && x->xsk->most == UCCL_XSK_MOST)
		UCCL_LOG(UCCL_LOG_WARN,
			 "xdp: %s: packets stay below %u bytes, whatever its MTU: more takes multi-buffer (Linux 6.6, "
			 "and the driver)",
			 x->ifname, UCCL_XSK_MOST);
	/* The kernel would join what the program must see one by one. */
	if (!prog->native)
		uccl_udp_rx_trains_off(x->udp);
	UCCL_LOG(UCCL_LOG_INFO, "xdp: %s, queue %u of at most %u, %s XDP, %s", x->ifname, x->xsk->queue, prog->queues,
		 prog->native ? "native" : "generic", x->xsk->zero_copy ? "zero copy" : "by copies");
}

static int xdp_connect(struct uccl_nic *nic, const struct uccl_nic_addr *to, uint64_t id, uint16_t paths,
		       struct uccl_nic_peer **peer)
{
	struct xdp *x = xdp_of(nic);

	queue_take(x);
	return x->inner->ops->connect(x->inner, to, id, paths, peer);
}

static void xdp_disconnect(struct uccl_nic *nic, struct uccl_nic_peer *peer)
{
	struct uccl_nic *inner = xdp_of(nic)->inner;

	inner->ops->disconnect(inner, peer);
}

static bool xdp_alive(struct uccl_nic *nic, struct uccl_nic_peer *peer)
{
	struct uccl_nic *inner = xdp_of(nic)->inner;

	return inner->ops->alive(inner, peer);
}

static bool xdp_held(struct uccl_nic *nic, struct uccl_nic_peer *peer)
{
	struct uccl_nic *inner = xdp_of(nic)->inner;

	return inner->ops->held(inner, peer);
}

static void xdp_count(struct uccl_nic *nic, struct uccl_stats *s)
{
	struct xdp *x = xdp_of(nic);

	x->inner->ops->count(x->inner, s);
	if (x->xsk)
		s->dropped[UCCL_DROP_KERNEL] += uccl_xsk_member_dropped(x->member) + x->stats.refused;
}

static void xdp_guard(struct uccl_nic *nic, const struct uccl_nic_guard *g)
{
	struct xdp *x = xdp_of(nic);
	struct uccl_xdp_rule rule;
	int err;

	x->inner->ops->guard(x->inner, g);
	x->guard = *g;
	x->guarded = true;
	if (!x->xsk)
		return;
	rule = rule_of(x);
	err = uccl_xsk_rule(x->member, &rule);
	if (err)
		UCCL_LOG(UCCL_LOG_INFO, "xdp: %s: no filter for unauthenticated packets: %s", x->ifname,
			 strerror(-err));
}

static uint64_t xdp_expiry(struct uccl_nic *nic)
{
	struct uccl_nic *inner = xdp_of(nic)->inner;

	return inner->ops->expiry(inner);
}

static int xdp_wait_fd(struct uccl_nic *nic)
{
	struct xdp *x = xdp_of(nic);
	struct epoll_event ev = {.events = EPOLLIN};
	int inner = x->inner->ops->wait_fd(x->inner), fd, err;

	if (inner < 0 || x->wait_fd >= 0)
		return inner < 0 ? inner : x->wait_fd;
	fd = epoll_create1(EPOLL_CLOEXEC);
	if (fd < 0)
		return -errno;
	err = epoll_ctl(fd, EPOLL_CTL_ADD, inner, &ev) ? -errno : uccl_xsk_watch(x->member, fd);
	if (err) {
		close(fd);
		return err;
	}
	x->wait_fd = fd;
	return fd;
}

static void xdp_addr(struct uccl_nic *nic, struct uccl_nic_addr *out)
{
	*out = xdp_of(nic)->self;
}

struct uccl_xdp_stats uccl_xdp_stats(struct uccl_nic *nic)
{
	struct xdp *x = xdp_of(nic);
	struct uccl_xdp_stats s = x->stats;

	s.most = most_of(x);
	s.kicks = x->xsk ? x->xsk->kicks : 0;
	return s;
}

static void xdp_close(struct uccl_nic *nic)
{
	struct xdp *x = xdp_of(nic);
	struct uccl_xdp_stats s;

	if (x->xsk) {
		(void)uccl_xsk_kick(x->xsk);
		s = uccl_xdp_stats(nic);
		UCCL_LOG(UCCL_LOG_INFO,
			 "xdp: %s, queue %u and %u more: %" PRIu64 " frames sent with %" PRIu64 " calls, %" PRIu64
			 " received, %" PRIu64 " refused; by sockets %" PRIu64 " sent, %" PRIu64 " received",
			 x->ifname, x->xsk->queue, uccl_xsk_heard(x->member) - 1, s.frames_out, s.kicks, s.frames_in,
			 s.refused, s.sockets_out, s.sockets_in);
	}
	if (x->member)
		uccl_xsk_leave(x->member);
	if (x->wait_fd >= 0)
		close(x->wait_fd);
	if (x->routes)
		uccl_routes_close(x->routes);
	x->inner->ops->close(x->inner);
	free(x);
}

static const struct uccl_nic_ops xdp_ops = {
	.name = "xdp",
	.tx = xdp_tx,
	.rx = xdp_rx,
	.path_mtu = xdp_path_mtu,
	.same_host = xdp_same_host,
	.slots = xdp_slots,
	.connect = xdp_connect,
	.disconnect = xdp_disconnect,
	.alive = xdp_alive,
	.held = xdp_held,
	.count = xdp_count,
	.guard = xdp_guard,
	.wait_fd = xdp_wait_fd,
	.expiry = xdp_expiry,
	.addr = xdp_addr,
	.close = xdp_close,
};

/* Opening. */

/* What takes privileges is tried at once. */
static int program_open(struct xdp *x, const struct uccl_nic_attr *attr)
{
	const char *what;
	int err = uccl_xsk_may(&what);

	if (!err)
		err = uccl_xsk_join(attr->queues, x->ifindex, attr->xdp_mode, &x->self, &x->member, &what);
	return err ? refuse(x->ifname, what, err) : 0;
}

static int inner_open(struct xdp *x, const struct uccl_nic_attr *attr)
{
	int err = uccl_nic_udp_open(attr, &x->inner);
	uint32_t mtu;

	if (err)
		return err;
	x->udp = udp_of(x->inner);
	x->inner->ops->addr(x->inner, &x->self);
	x->nic.caps = x->inner->caps;
	/* Frames leave one by one, and are handed up where they lie. */
	uccl_udp_tx_trains_off(x->udp);
	x->inner->caps.placements = false;
	x->nic.caps.placements = false;
	x->nic.caps.train_bytes = x->inner->caps.train_bytes = 0;
	/* Slots are packets: a frame holds one, but for long ones. */
	memset(&x->nic.caps.queue, 0, sizeof(x->nic.caps.queue));
	/* What can arrive may be longer: that goes by sockets. */
	mtu = (uint32_t)uccl_min(x->nic.caps.mtu, x->udp->place_mtu);
	x->long_packets = frames_for(mtu) > 1;
	x->nic.caps.rx_slots = (uint32_t)uccl_min(x->nic.caps.rx_slots, UCCL_XSK_RX / frames_for(mtu));
	x->timestamps = attr->timestamps;
	return 0;
}

int uccl_nic_xdp_open(const struct uccl_nic_attr *attr, struct uccl_nic **nic)
{
	int ifindex = attr->ifname ? (int)if_nametoindex(attr->ifname) : 0, err;
	struct xdp *x;

	if (!attr->ifname || !ifindex)
		return -FI_ENODEV;
	x = calloc(1, sizeof(*x));
	if (!x)
		return -FI_ENOMEM;
	x->nic.ops = &xdp_ops;
	x->ifindex = ifindex;
	x->wait_fd = -1;
	strncpy(x->ifname, attr->ifname, sizeof(x->ifname) - 1);
	err = inner_open(x, attr);
	if (err) {
		free(x);
		return err;
	}
	err = uccl_routes_open(ifindex, x->ifname, &x->self, &x->routes);
	if (err)
		err = refuse(x->ifname, "to learn its Ethernet address and routes", err);
	else
		err = program_open(x, attr);
	if (err) {
		xdp_close(&x->nic);
		return err;
	}
	*nic = &x->nic;
	return 0;
}
