/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Sockets connected to peers of this host. Linux looks up the route of each packet that leaves a socket without a peer.
 * It keeps no route to an address of this host whose interface is not the loopback (__mkroute_output()), so it makes
 * one for each packet: a fifth of the time that a short packet takes. A connected socket has its route.
 *
 * The places with most packets have a socket: a place counts its packets, and loses one when another place looks for
 * room and finds none.
 */
#include <errno.h>
#include <string.h>

#include "base/log.h"
#include "nic/ownfd.h"
#include "nic/udp/udp_state.h"

/* A place gets a socket with this packet: to make one takes as long as some twenty of them. */
#define CONNECT_AFTER 32
#define PACKETS_MAX 4096
#define WAYS 4 /* entries that may have a place */

enum { NOT_OPEN = -1, REFUSED = -2 };

static void entry_clear(struct udp_connected_socket *e)
{
	if (e->sock.fd >= 0)
		uccl_own_close(e->sock.fd);
	*e = (struct udp_connected_socket){.sock.fd = NOT_OPEN};
}

static void entry_connect(struct udp *u, struct udp_connected_socket *e, const struct uccl_nic_addr *to, uint8_t tos)
{
	struct sockaddr_storage sa;
	socklen_t len = uccl_ifaddr_to_sock(&sa, to, u->family);
	int fd = uccl_udp_sending_socket(u);

	e->sock.fd = REFUSED;
	if (fd < 0)
		return;
	if (!len || connect(fd, (struct sockaddr *)&sa, len) || !uccl_udp_tos_set(u, fd, tos)) {
		UCCL_LOG(UCCL_LOG_INFO, "no connected socket for a peer of this host: %s", strerror(errno));
		uccl_own_close(fd);
		return;
	}
	e->sock.fd = fd;
	e->tos = tos;
}

/* The entry of this port, or one that it may have now; NULL: other ports have all of them. */
static struct udp_connected_socket *entry_find(struct udp_connected *c, uint16_t port)
{
	struct udp_connected_socket *e, *least = NULL;

	for (unsigned int i = 0; i < WAYS; i++) {
		e = &c->socket[(port + i) % UDP_CONNECTED];
		if (e->port == port)
			return e;
		if (!least || e->packets < least->packets)
			least = e;
	}
	if (least->packets) {
		least->packets--;
		return NULL;
	}
	entry_clear(least);
	least->port = port;
	return least;
}

struct udp_connected_socket *uccl_udp_connected_find(struct udp *u, const struct uccl_tx *t, uint8_t tos)
{
	struct udp_connected_socket *e = entry_find(&u->connected, t->to->port);

	if (!e)
		return NULL;
	e->packets += e->packets < PACKETS_MAX;
	if (e->sock.fd == NOT_OPEN && e->packets >= CONNECT_AFTER)
		entry_connect(u, e, t->to, tos);
	return e->sock.fd >= 0 && e->tos == tos ? e : NULL;
}

void uccl_udp_connected_open(struct udp *u)
{
	for (int i = 0; i < UDP_CONNECTED; i++)
		u->connected.socket[i].sock.fd = NOT_OPEN;
	/* Ports of a range are for what the network is to see. */
	u->connected.off = uccl_ports_limited(&u->ports);
}

void uccl_udp_connected_close(struct udp *u)
{
	for (int i = 0; i < UDP_CONNECTED; i++)
		entry_clear(&u->connected.socket[i]);
}
