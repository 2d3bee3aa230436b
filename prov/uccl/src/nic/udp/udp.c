/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The udp back end: kernel UDP sockets. One socket receives; one for each entropy label sends, so a label is a source
 * port and the network's ECMP hash spreads labels over its paths. Label 0 sends by the socket that receives. Payload to
 * peers of this host leaves by connected sockets (udp_connected.c). This file opens, closes and describes.
 */
#include "nic/gso.h"
#include "nic/udp/udp_reports.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/udp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <unistd.h>

#include <rdma/fi_errno.h>

#include "base/log.h"
#include "base/slot_unit.h"
#include "nic/ownfd.h"

#define UDP_MTU_MIN 512
#define UDP_V4_MAX 65507
#define UDP_V6_MAX 65487
#define UDP_HINT_MTU 16384 /* from here on copying a payload costs more than a guess */
#define UDP_PORT_TRIES 32
#define UDP_UNITS_MAX 16384 /* slots of the receive queue at most: a grant has 15 bits */

/* Operations. */

/*
 * The interface's MTU, or the route's if that is longer: a place on this host is reached through the loopback, whatever
 * interface has the address. A route's MTU is shorter after a report of a router, or of an attacker.
 */
static uint32_t udp_path_mtu(struct uccl_nic *nic, const struct uccl_nic_addr *to, uint32_t *known)
{
	struct udp *u = udp_of(nic);
	bool v4 = uccl_ifaddr_is_v4(to);
	uint32_t headers = uccl_udp_headers(to), most = u->place_mtu;
	struct sockaddr_storage sa;
	socklen_t len = uccl_ifaddr_to_sock(&sa, to, u->family), size = sizeof(int);
	int fd = len ? uccl_udp_bind(u, &u->local, NULL, false) : -1, mtu;

	*known = most;
	if (fd >= 0) {
		if (!connect(fd, (struct sockaddr *)&sa, len) &&
		    !getsockopt(fd, v4 ? IPPROTO_IP : IPPROTO_IPV6, v4 ? IP_MTU : IPV6_MTU, &mtu, &size) &&
		    mtu > UDP_MTU_MIN)
			*known = (uint32_t)mtu - headers;
		uccl_own_close(fd);
	}
	most = (uint32_t)uccl_min(uccl_max(most, *known), nic->caps.mtu);
	*known = (uint32_t)uccl_min(*known, most);
	return most;
}

static bool udp_same_host(struct uccl_nic *nic, const struct uccl_nic_addr *to)
{
	return !memcmp(udp_of(nic)->self.ip, to->ip, sizeof(to->ip));
}

static uint32_t slots_of(uint64_t granted, uint32_t bytes)
{
	return (uint32_t)uccl_max(granted / uccl_slot_bytes(bytes), 2);
}

static uint32_t udp_slots(struct uccl_nic *nic, uint32_t bytes)
{
	return slots_of(udp_of(nic)->granted, bytes);
}

static int udp_connect(struct uccl_nic *nic, const struct uccl_nic_addr *to, uint64_t id, uint16_t paths,
		       struct uccl_nic_peer **peer)
{
	struct udp *u = udp_of(nic);
	struct uccl_nic_peer *p = calloc(1, sizeof(*p));

	(void)paths;
	if (!p)
		return -FI_ENOMEM;
	p->to = *to;
	p->id = id;
	if (u->live && uccl_udp_live_connect(u->live, to, p, uccl_udp_now(), &p->live)) {
		free(p);
		return -FI_ENOMEM;
	}
	uccl_udp_reports_live_soon(u);
	*peer = p;
	return 0;
}

static void udp_disconnect(struct uccl_nic *nic, struct uccl_nic_peer *peer)
{
	struct udp *u = udp_of(nic);

	if (peer->live)
		uccl_udp_live_disconnect(u->live, peer->live);
	uccl_udp_events_forget(u, peer);
	free(peer);
}

static bool udp_alive(struct uccl_nic *nic, struct uccl_nic_peer *peer)
{
	(void)nic;
	return peer->live && uccl_udp_live_up(peer->live);
}

static bool udp_held(struct uccl_nic *nic, struct uccl_nic_peer *peer)
{
	(void)nic;
	return peer->live && uccl_udp_live_held(peer->live);
}

static int udp_wait_fd(struct uccl_nic *nic)
{
	struct udp *u = udp_of(nic);
	struct epoll_event ev = {.events = EPOLLIN};
	int fd, err;

	/* Made at the first call only: with epoll each packet costs more. */
	if (u->wait_fd >= 0)
		return u->wait_fd;
	fd = epoll_create1(EPOLL_CLOEXEC);
	if (fd < 0)
		return -errno;
	if (epoll_ctl(fd, EPOLL_CTL_ADD, u->rx_fd, &ev) ||
	    (u->live && epoll_ctl(fd, EPOLL_CTL_ADD, uccl_udp_live_fd(u->live), &ev))) {
		err = -errno;
		close(fd);
		return err;
	}
	u->wait_fd = fd;
	err = uccl_udp_handshake_wait(u);
	if (err) {
		u->wait_fd = -1;
		close(fd);
		return err;
	}
	return fd;
}

static uint64_t udp_expiry(struct uccl_nic *nic)
{
	return uccl_udp_reports_expiry(udp_of(nic));
}

static int udp_nap_fd(struct uccl_nic *nic)
{
	return udp_of(nic)->rx_fd;
}

static void udp_addr(struct uccl_nic *nic, struct uccl_nic_addr *out)
{
	*out = udp_of(nic)->self;
}

static void udp_close(struct uccl_nic *nic)
{
	struct udp *u = udp_of(nic);
	int i;

	/* The port is closed before the liveness connections: a peer that then connects again is refused. */
	if (u->rx_fd >= 0)
		uccl_own_close(u->rx_fd);
	uccl_udp_handshake_close(u);
	if (u->live)
		uccl_udp_live_close(u->live);
	for (i = 1; i < u->labels.nsocks; i++)
		uccl_own_close(u->labels.sock[i].fd);
	uccl_udp_connected_close(u);
	if (u->wait_fd >= 0)
		close(u->wait_fd);
	uccl_udp_rx_close(u);
	free(u->tx.batch);
	free(u->tx.lone);
	free(u);
}

static const struct uccl_nic_ops udp_ops = {
	.name = "udp",
	.tx_rows = true,
	.rx_one = true,
	.tx = uccl_udp_tx,
	.rx = uccl_udp_rx,
	.path_mtu = udp_path_mtu,
	.same_host = udp_same_host,
	.slots = udp_slots,
	.connect = udp_connect,
	.disconnect = udp_disconnect,
	.alive = udp_alive,
	.held = udp_held,
	.count = uccl_udp_count,
	.guard = uccl_udp_guard,
	.wait_fd = udp_wait_fd,
	.nap_fd = udp_nap_fd,
	.expiry = udp_expiry,
	.addr = udp_addr,
	.close = udp_close,
};

/* Opening. */

/*
 * Settle what to bind to, which address to give out, and the interface that bounds the packet size. `out` is the
 * interface of the address given out, with the least MTU that traffic may meet.
 */
static int place_choose(const struct uccl_nic_attr *attr, struct uccl_nic_addr *bind_to, struct uccl_ifaddr *out)
{
	struct uccl_ifaddr *list = NULL;
	bool any = uccl_ifaddr_is_any(&attr->bind), found = false;
	int i, n, err;

	*bind_to = attr->bind;
	if (!any && !attr->ifname) {
		err = uccl_ifaddr_find(&attr->bind, out);
		out->addr = attr->bind;
		return err;
	}
	n = uccl_ifaddr_list(&list);
	if (n < 0)
		return n;
	for (i = 0; i < n; i++) {
		if (attr->ifname && strcmp(attr->ifname, list[i].name))
			continue;
		if (uccl_ifaddr_is_v4(&attr->bind) && any && !uccl_ifaddr_is_v4(&list[i].addr))
			continue;
		if (!found) {
			*out = list[i];
			found = true;
		} else if (list[i].mtu < out->mtu && list[i].loopback == out->loopback) {
			out->mtu = list[i].mtu;
		}
	}
	free(list);
	if (!found)
		return -FI_ENODEV;
	if (!any) {
		out->addr = attr->bind;
	} else if (attr->ifname) {
		*bind_to = out->addr;
		bind_to->port = attr->bind.port;
	}
	return 0;
}

/* Bind the receive socket, and with it the liveness listener to the same port. */
static int ports_open(struct udp *u, const struct uccl_nic_addr *at, enum uccl_nic_liveness liveness)
{
	struct uccl_ports_walk walk = uccl_ports_walk();
	struct sockaddr_storage sa;
	struct uccl_nic_addr bound;
	socklen_t len;
	uint64_t id;
	int tries, err;

	for (tries = 1;; tries++) {
		u->rx_fd = uccl_udp_bind(u, at, &walk, false);
		if (u->rx_fd == -FI_EADDRINUSE && tries > 1) {
			UCCL_LOG(UCCL_LOG_WARN, "FI_UCCL_PORTS=%u-%u: no port is free for UDP and TCP both, so the "
						"end of a peer's process is noticed late; give a larger range",
				 u->ports.first, u->ports.last);
			return ports_open(u, at, UCCL_LIVENESS_OFF);
		}
		if (u->rx_fd < 0)
			return u->rx_fd;
		len = sizeof(sa);
		if (getsockname(u->rx_fd, (struct sockaddr *)&sa, &len))
			return -errno;
		uccl_ifaddr_from_sock(&bound, (struct sockaddr *)&sa, len);
		u->self.port = bound.port;
		if (!liveness)
			return 0;
		if (getrandom(&id, sizeof(id), 0) != sizeof(id))
			return -FI_EIO;
		bound = *at;
		bound.port = u->self.port;
		err = uccl_udp_live_open(&bound, id, &u->ports, &u->live);
		if (!err)
			return 0;
		if (err == -FI_EADDRINUSE && at->port && liveness == UCCL_LIVENESS_MUST) {
			uccl_own_close(u->rx_fd);
			u->rx_fd = -1;
			return err;
		}
		if (err != -FI_EADDRINUSE || at->port ||
		    (tries == UDP_PORT_TRIES && !uccl_ports_limited(&u->ports))) {
			UCCL_LOG(UCCL_LOG_WARN, "TCP port %u: %s, so the end of a peer's process is noticed late; free "
						"this port, or take another one",
				 u->self.port, strerror(-err));
			u->live = NULL;
			return 0;
		}
		uccl_own_close(u->rx_fd);
		u->rx_fd = -1;
	}
}

/* Packets tell how the network marked them. What goes to an IPv4 address comes by the same socket. */
static bool ecn_tune(const struct udp *u)
{
	return uccl_udp_option_set(u->rx_fd, IPPROTO_IP, IP_RECVTOS, 1) &&
	       (u->family != AF_INET6 || uccl_udp_option_set(u->rx_fd, IPPROTO_IPV6, IPV6_RECVTCLASS, 1));
}

/* Classes that the kernel does not let us use are best effort. */
static void classes_tune(struct udp *u, const struct uccl_nic_attr *attr)
{
	const uint8_t wanted[2] = {attr->data_class, attr->control_class};

	for (int k = 0; k < 2; k++) {
		if (uccl_udp_tos_set(u, u->rx_fd, wanted[k]))
			u->classes[k] = wanted[k];
		else
			UCCL_LOG(UCCL_LOG_WARN, "packets leave without the traffic class %u: %s; set FI_UCCL_DSCP to a "
						"class that this user may use",
				 wanted[k] >> 2, strerror(errno));
	}
	u->tos = (uint8_t)(u->classes[0] | (u->ecn ? IPTOS_ECN_ECT0 : 0));
	uccl_udp_tos_set(u, u->rx_fd, u->tos);
}

static int caps_fill(struct udp *u, const struct uccl_nic_attr *attr, const struct uccl_ifaddr *place)
{
	struct uccl_nic_caps *caps = &u->nic.caps;
	uint32_t headers = u->family == AF_INET ? UDP_V4_HEADERS : UDP_V6_HEADERS;
	socklen_t len = sizeof(int);
	int granted = 0;

	if (place->mtu < UDP_MTU_MIN + headers || (attr->mtu && attr->mtu < UDP_MTU_MIN))
		return -FI_EINVAL;
	u->place_mtu = place->mtu - headers;
	caps->mtu = u->family == AF_INET ? UDP_V4_MAX : UDP_V6_MAX;
	if (attr->mtu)
		caps->mtu = (uint32_t)uccl_min(caps->mtu, attr->mtu);
	if (getsockopt(u->rx_fd, SOL_SOCKET, SO_RCVBUF, &granted, &len))
		return -errno;
	u->granted = (uint64_t)granted;
	/* The kernel counts its own structures, too, so it doubles what it grants. */
	if ((uint32_t)granted / 2 < attr->rx_bytes)
		UCCL_LOG(UCCL_LOG_WARN,
			 "FI_UCCL_BACKEND=udp,rcvbuf=%u: the kernel grants %d bytes; the remedy is sysctl "
			 "net.core.rmem_max=%u",
			 attr->rx_bytes, granted / 2, attr->rx_bytes);
	caps->two_way = true;
	caps->connect_early = u->live;
	caps->rx_slots = slots_of(u->granted, caps->mtu);
	for (caps->queue.unit = 10; u->granted >> caps->queue.unit > UDP_UNITS_MAX; caps->queue.unit++)
		;
	caps->queue.units = (uint32_t)(u->granted >> caps->queue.unit);
	caps->tx_sync = true;
	caps->find_mtu = true;
	caps->marks = u->ecn;
	caps->placements = caps->mtu > UDP_HINT_MTU;
	caps->link_bps = place->link_bps;
	caps->link_real = place->link_real;
	caps->delay_ns = UCCL_UDP_DELAY_US * UCCL_NS_PER_US;
	caps->rto_min_ns = UCCL_UDP_RTO_MIN_US * UCCL_NS_PER_US;
	return 0;
}

/* An address to bind to, for the family that it has; the IPv6 wildcard also takes IPv4 if it can. */
static int family_of(const struct uccl_nic_addr *at)
{
	return uccl_ifaddr_is_v4(at) ? AF_INET : AF_INET6;
}

/* Labels are ports. The second one, also of endpoints with one path, is for HELLOs whose ICMP errors must be heard. */
static uint16_t labels_of(const struct uccl_nic_attr *attr)
{
	uint32_t n = attr->labels ? uccl_max(uccl_min(attr->labels, UDP_LABELS), 2) : UDP_LABELS;

	return (uint16_t)(uccl_ports_limited(&attr->ports) ? uccl_min(n, uccl_ports_count(&attr->ports)) : n);
}

int uccl_nic_udp_open(const struct uccl_nic_attr *attr, struct uccl_nic **nic)
{
	struct uccl_nic_addr at;
	struct uccl_ifaddr place;
	struct udp *u;
	int err;

	err = place_choose(attr, &at, &place);
	if (err)
		return err;
	u = calloc(1, sizeof(*u));
	if (!u)
		return -FI_ENOMEM;
	u->nic.ops = &udp_ops;
	u->rx_fd = -1;
	u->wait_fd = -1;
	uccl_udp_handshake_init(u);
	u->self = place.addr;
	u->family = family_of(&at);
	u->ports = attr->ports;
	u->nic.caps.labels = labels_of(attr);
	uccl_udp_connected_open(u);
	err = ports_open(u, &at, attr->liveness);
	if (err == -EAFNOSUPPORT && u->family == AF_INET6 && uccl_ifaddr_is_any(&at)) {
		/* A host without IPv6. */
		at.ip[10] = 0xff;
		at.ip[11] = 0xff;
		u->family = AF_INET;
		err = ports_open(u, &at, attr->liveness);
	}
	if (err)
		goto fail;
	u->local = at;
	u->local.port = 0;
	uccl_udp_rx_tune(u, attr);
	u->ecn = attr->ecn && ecn_tune(u);
	classes_tune(u, attr);
	err = caps_fill(u, attr, &place);
	if (!err) {
		uccl_udp_labels_open(u);
		err = uccl_udp_tx_open(u);
	}
	if (!err)
		err = uccl_udp_rx_open(u);
	if (err)
		goto fail;
	u->nic.caps.train_bytes = u->tx.gso ? UCCL_TRAIN_BYTES : 0;
	*nic = &u->nic;
	return 0;
fail:
	if (err == -FI_EADDRINUSE && uccl_ports_limited(&u->ports) && (!at.port || u->rx_fd >= 0))
		uccl_udp_ports_short_say(u, "is free");
	if (err == -FI_EACCES && u->ports.first < 1024)
		UCCL_LOG(UCCL_LOG_WARN, "FI_UCCL_PORTS=%u-%u: this user may not use ports below 1024; give higher ones",
			 u->ports.first, u->ports.last);
	udp_close(&u->nic);
	return err;
}
