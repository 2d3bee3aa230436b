/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Packets and liveness connections from this host to itself, over each address that is offered: the receiving side is
 * the provider's own back end, so the ports are those that it uses.
 */
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "api/offer/address.h"
#include "api/offer/place.h"
#include "base/units.h"
#include "uccl_doctor_host.h"

#define PATIENCE_MS 1500
#define AGAIN_MS 200 /* packets may be lost on a busy host: one each so often */
#define LIVE_BYTES 16
#define EVENTS 32

static uint64_t now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / UCCL_NS_PER_MS;
}

/* What came to the NIC: true, if one of the packets is ours. */
static bool packet_seen(struct uccl_nic *nic, const uint8_t *token, size_t size)
{
	struct uccl_rx v[EVENTS];
	int n = nic->ops->rx(nic, v, EVENTS, NULL, 0);
	bool seen = false;

	for (int i = 0; i < n; i++)
		if (v[i].kind == UCCL_RX_PACKET && v[i].len == size && !memcmp(v[i].data, token, size))
			seen = true;
	return seen;
}

static int udp_socket(const struct uccl_nic_addr *from)
{
	struct uccl_nic_addr at = *from;
	struct sockaddr_storage sa;
	socklen_t len;
	int fd;

	at.port = 0;
	len = uccl_ifaddr_to_sock(&sa, &at, AF_UNSPEC);
	fd = socket(sa.ss_family, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd >= 0 && bind(fd, (struct sockaddr *)&sa, len)) {
		close(fd);
		return -1;
	}
	return fd;
}

static bool packet_passes(struct uccl_nic *nic, const struct uccl_nic_addr *to)
{
	uint64_t end = now_ms() + PATIENCE_MS, again = 0;
	struct sockaddr_storage sa;
	socklen_t len = uccl_ifaddr_to_sock(&sa, to, AF_UNSPEC);
	struct pollfd p = { .fd = nic->ops->wait_fd(nic), .events = POLLIN };
	int fd = udp_socket(to);
	uint8_t token[32];
	bool seen = false;

	if (fd < 0 || getrandom(token, sizeof(token), 0) != sizeof(token)) {
		if (fd >= 0)
			close(fd);
		return false;
	}
	while (!seen && now_ms() < end) {
		if (now_ms() >= again) {
			again = now_ms() + AGAIN_MS;
			(void)!sendto(fd, token, sizeof(token), MSG_NOSIGNAL, (struct sockaddr *)&sa, len);
		}
		poll(&p, 1, 10);
		seen = packet_seen(nic, token, sizeof(token));
	}
	close(fd);
	return seen;
}

/* A liveness connection as a peer makes it: 0 when its first bytes came, else an errno value. */
static int connection_passes(struct uccl_nic *nic, const struct uccl_nic_addr *to)
{
	uint64_t end = now_ms() + PATIENCE_MS;
	struct sockaddr_storage sa;
	socklen_t len = uccl_ifaddr_to_sock(&sa, to, AF_UNSPEC), size = sizeof(int);
	struct pollfd p = { .events = POLLIN };
	uint8_t hello[LIVE_BYTES];
	int err = ETIMEDOUT, soerr;

	p.fd = socket(sa.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (p.fd < 0)
		return errno;
	if (connect(p.fd, (struct sockaddr *)&sa, len) && errno != EINPROGRESS) {
		err = errno;
		close(p.fd);
		return err;
	}
	while (err == ETIMEDOUT && now_ms() < end) {
		packet_seen(nic, hello, sizeof(hello)); /* the back end accepts when it is called */
		if (poll(&p, 1, 10) <= 0)
			continue;
		if (getsockopt(p.fd, SOL_SOCKET, SO_ERROR, &soerr, &size))
			soerr = errno;
		if (soerr)
			err = soerr;
		else if (recv(p.fd, hello, sizeof(hello), MSG_DONTWAIT) > 0)
			err = 0;
		else
			err = ECONNRESET;
	}
	close(p.fd);
	return err;
}

static void place_check(const struct doctor_host *h, const struct uccl_ifaddr *place, struct doctor_report *r)
{
	struct uccl_nic_attr attr = { .ifname = place->name, .bind = place->addr, .liveness = true,
				      .ports = h->params.nic.ports };
	char where[UCCL_ADDRESS_TEXT];
	struct doctor_finding *f;
	struct uccl_nic_addr to;
	struct uccl_nic *nic;
	unsigned int lo, hi;
	bool packets;
	int live;

	doctor_ports(h, &lo, &hi);
	if (uccl_place_open(&h->params, &attr, &nic))
		return; /* doctor_offer() has told why */
	nic->ops->addr(nic, &to);
	uccl_address_place_text(&to, where, sizeof(where));
	packets = packet_passes(nic, &to);
	live = connection_passes(nic, &to);
	nic->ops->close(nic);
	if (!packets) {
		f = doctor_add(r, DOCTOR_BAD, "host", "own-ports", place->name,
			       "a UDP packet to the provider's own port (%s) does not arrive: a firewall?", where);
		doctor_advise(f, "nft insert rule inet filter input udp dport %u-%u accept", lo, hi);
	} else if (live) {
		f = doctor_add(r, DOCTOR_WARN, "host", "own-ports", place->name,
			       "a TCP connection to the provider's own port (%s) fails (%s): the end of a peer's "
			       "process will be noticed late", where, strerror(live));
		doctor_advise(f, "nft insert rule inet filter input tcp dport %u-%u accept; or "
			      "FI_UCCL_PEER_TIMEOUT=liveness=0", lo, hi);
	} else {
		f = doctor_add(r, DOCTOR_OK, "host", "own-ports", place->name,
			       "packets and connections to the provider's own port arrive (%s; from here only)", where);
	}
	doctor_number(f, "udp", packets);
	doctor_number(f, "tcp", !live);
}

void doctor_own_ports(const struct doctor_host *h, struct doctor_report *r)
{
	for (int i = 0; i < h->nplaces && !h->rdma; i++)
		place_check(h, &h->place[i], r);
}
