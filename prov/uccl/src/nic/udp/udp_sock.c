/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Sockets of the udp back end: how they are bound and set, and one for each label that is in use. */
#include "nic/udp/udp_state.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include <rdma/fi_errno.h>

#include "base/log.h"
#include "nic/ownfd.h"

#define UDP_LABEL_QUEUE (64 << 10) /* bytes of a label's receive queue: room for some twenty ICMP errors */

bool uccl_udp_option_set(int fd, int level, int name, int value)
{
	return !setsockopt(fd, level, name, &value, sizeof(value));
}

void uccl_udp_queue_set(int fd, int force, int plain, uint32_t bytes)
{
	if (!uccl_udp_option_set(fd, SOL_SOCKET, force, (int)bytes))
		uccl_udp_option_set(fd, SOL_SOCKET, plain, (int)bytes);
}

bool uccl_udp_tos_set(const struct udp *u, int fd, uint8_t tos)
{
	/* What goes to an IPv4 address by a socket of IPv6 has the class of IPv4. */
	return uccl_udp_option_set(fd, IPPROTO_IP, IP_TOS, tos) &&
	       (u->family != AF_INET6 || uccl_udp_option_set(fd, IPPROTO_IPV6, IPV6_TCLASS, tos));
}

/*
 * No router fragments our packets, and the kernel believes no report about their length (RFC 4821, RFC 8899): packets
 * that the interface carries leave, and reports come to us, as only we can check whether they quote a packet of ours.
 */
static void mtu_discover_set(int family, int fd)
{
	uccl_udp_option_set(fd, IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_PROBE);
	if (family != AF_INET6)
		return;
	uccl_udp_option_set(fd, IPPROTO_IPV6, IPV6_MTU_DISCOVER, IPV6_PMTUDISC_PROBE);
	uccl_udp_option_set(fd, IPPROTO_IPV6, IPV6_DONTFRAG, 1);
}

uint64_t uccl_udp_now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC_COARSE, &t);
	return (uint64_t)t.tv_sec * UCCL_NS_PER_S + (uint64_t)t.tv_nsec;
}

int uccl_udp_bind(const struct udp *u, const struct uccl_nic_addr *at, struct uccl_ports_walk *walk, bool beside)
{
	struct sockaddr_storage sa;
	socklen_t len = uccl_ifaddr_to_sock(&sa, at, u->family);
	static const struct uccl_ports any;
	int fd, err;

	fd = uccl_own_socket(u->family, SOCK_DGRAM | SOCK_NONBLOCK);
	if (fd < 0)
		return -errno;
	if (u->family == AF_INET6)
		uccl_udp_option_set(fd, IPPROTO_IPV6, IPV6_V6ONLY, !uccl_ifaddr_is_any(at));
	if (beside)
		uccl_udp_option_set(fd, SOL_SOCKET, SO_REUSEPORT, 1);
	err = uccl_ports_bind(fd, &sa, len, walk ? &u->ports : &any, walk);
	if (err) {
		uccl_own_close(fd);
		return err;
	}
	return fd;
}

void uccl_udp_ports_short_say(const struct udp *u, const char *what)
{
	UCCL_LOG(UCCL_LOG_WARN,
		 "FI_UCCL_PORTS=%u-%u: no port %s, all %u were tried; give a larger range: an endpoint needs up to "
		 "%u ports of this host with FI_UCCL_PATHS as it is",
		 u->ports.first, u->ports.last, what, uccl_ports_count(&u->ports), u->nic.caps.labels);
}

/* Labels. */

static void sending_set(const struct udp *u, int fd)
{
	mtu_discover_set(u->family, fd);
	uccl_udp_queue_set(fd, SO_SNDBUFFORCE, SO_SNDBUF, UDP_TX_QUEUE);
}

int uccl_udp_sending_socket(const struct udp *u)
{
	struct uccl_ports_walk walk = uccl_ports_walk();
	int fd;

	/* Of its own ports a host with many endpoints needs some for others. Of FI_UCCL_PORTS all are for us. */
	if (!uccl_ports_limited(&u->ports) && !uccl_ports_spare(u->family))
		return -FI_EADDRINUSE;
	fd = uccl_udp_bind(u, &u->local, &walk, false);
	if (fd < 0)
		return fd;
	if (fd >= u->labels.fd_limit) {
		uccl_own_close(fd);
		return -FI_EMFILE;
	}
	uccl_udp_option_set(fd, IPPROTO_IP, IP_RECVERR, 1);
	if (u->family == AF_INET6)
		uccl_udp_option_set(fd, IPPROTO_IPV6, IPV6_RECVERR, 1);
	uccl_udp_tos_set(u, fd, u->tos);
	sending_set(u, fd);
	/* No peer sends to this port, so packets must not pile up; but ICMP errors are queued here, too. */
	uccl_udp_option_set(fd, SOL_SOCKET, SO_RCVBUF, UDP_LABEL_QUEUE);
	return fd;
}

struct udp_sock *uccl_udp_sock_open(struct udp *u, uint16_t label)
{
	struct udp_labels *l = &u->labels;
	int fd = uccl_udp_sending_socket(u);

	if (fd < 0) {
		/* Packets flow on, with less entropy; the label stays with the socket it got. */
		l->sock_of[label] = (int16_t)(label % l->nsocks);
		UCCL_LOG(UCCL_LOG_INFO, "no socket for label %u, it shares one of the other %d: %s", label, l->nsocks,
			 strerror(-fd));
		if (fd == -FI_EADDRINUSE && uccl_ports_limited(&u->ports) && !l->ports_short) {
			l->ports_short = true;
			uccl_udp_ports_short_say(u, "left for another path");
		}
	} else {
		l->sock[l->nsocks].fd = fd;
		l->sock_of[label] = (int16_t)l->nsocks++;
	}
	return &l->sock[l->sock_of[label]];
}

/*
 * Room in the table of descriptors for all sockets that send. Where threads share a table, Linux waits for all
 * processors (RCU, expand_fdtable()) whenever it grows: 10 to 40 ms in the middle of a transfer, as such sockets are
 * opened when they are needed for the first time.
 */
static void table_grow(const struct udp *u, int fd)
{
	int any = eventfd(0, EFD_CLOEXEC), high = fd + u->nic.caps.labels + u->connected.most;

	if (any < 0)
		return;
	high = fcntl(any, F_DUPFD_CLOEXEC, (int)uccl_min(high, u->labels.fd_limit - 1));
	if (high >= 0)
		close(high);
	close(any);
}

/*
 * Label 0 sends from the port that peers send to, so its packets and those of the peer's label 0 are one two-way flow
 * for firewalls and flow tables. The socket has no RECVERR: each ICMP error would be the error of its next receive.
 * PROTOCOL R370
 */
void uccl_udp_labels_open(struct udp *u)
{
	struct rlimit limit;

	memset(u->labels.sock_of, 0xff, sizeof(u->labels.sock_of));
	u->labels.fd_limit = 768;
	if (!getrlimit(RLIMIT_NOFILE, &limit)) /* the last quarter is the application's */
		u->labels.fd_limit = (int)uccl_min(limit.rlim_cur / 4 * 3, 1 << 30);
	sending_set(u, u->rx_fd);
	u->labels.sock[0].fd = u->rx_fd;
	u->labels.sock_of[0] = 0;
	u->labels.nsocks = 1;
	table_grow(u, u->rx_fd);
}
