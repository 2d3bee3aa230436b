/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Sockets connected to peers of this host. Linux looks up the route of each packet that leaves a socket without a peer.
 * To an address of this host whose interface is not the loopback it makes the route anew each time
 * (__mkroute_output()), which is a fifth of the time that a short packet takes. A connected socket keeps its route.
 * With 127.0.0.1 it saves the lookup only.
 *
 * The places to which most is sent have sockets. A place may have one of WAYS entries, which counts what is sent there.
 * A place that finds them all taken makes the least of their counts smaller.
 *
 * A firewall of this host may drop what does not come from the endpoint's port. So what is sent again, and all that has
 * no payload, never leaves by these sockets. If much is sent again, the place goes without a connected socket for a
 * while, which gets longer each time, and shorter when such a socket works.
 */
#include <errno.h>
#include <string.h>

#include "base/log.h"
#include "nic/ownfd.h"
#include "nic/udp/udp_state.h"

/* The 32nd packet to a place opens its socket: to open one takes as long as ten to twenty packets. */
#define CONNECT_AFTER 32
/* Upper limit of udp_connected_socket.sends. */
#define SENDS_MAX 4096
/* Value of `sends` when the socket is opened: below it other places would close the socket too soon. */
#define SENDS_CONNECTED 512
/* Entries that one place may have. */
#define WAYS 16
/* The socket is closed when `again` reaches AGAIN_LEAST and exceeds fresh / AGAIN_PART. */
#define AGAIN_LEAST 8
#define AGAIN_PART 4
/* When `fresh` reaches this, both counts are halved, and the place has one refusal less. */
#define FRESH_MAX 1024
/* After the first refusal the place gets another socket with this packet; each refusal doubles the number. */
#define RETRY_AFTER 4096
#define RETRY_SHIFT_MAX 16

static void entry_disconnect(struct udp_connected *c, struct udp_connected_socket *e)
{
	if (e->sock.fd < 0)
		return;
	uccl_own_close(e->sock.fd);
	e->sock.fd = -1;
	c->open--;
}

/* Close the socket of this place. The place gets another one after RETRY_AFTER packets, or a multiple of it. */
static void entry_refuse(struct udp_connected *c, struct udp_connected_socket *e)
{
	entry_disconnect(c, e);
	e->fresh = e->again = 0;
	e->wait = RETRY_AFTER << e->refusals;
	e->refusals += e->refusals < RETRY_SHIFT_MAX;
}

static void entry_connect(struct udp *u, struct udp_connected_socket *e, const struct uccl_nic_addr *to, uint8_t tos)
{
	struct sockaddr_storage sa;
	socklen_t len = uccl_ifaddr_to_sock(&sa, to, u->family);
	int fd = u->connected.open < u->connected.most ? uccl_udp_sending_socket(u) : -1;

	/* Liveness connections need the lower descriptors, and labels some of the others. */
	if (fd >= 0 && (fd >= u->labels.fd_limit / 3 || !len || connect(fd, (struct sockaddr *)&sa, len) ||
			!uccl_udp_tos_set(u, fd, tos))) {
		uccl_own_close(fd);
		fd = -1;
	}
	if (fd < 0) {
		UCCL_LOG(UCCL_LOG_DEBUG, "no connected socket for port %u of this host", to->port);
		entry_refuse(&u->connected, e);
		return;
	}
	u->connected.open++;
	e->sock.fd = fd;
	e->tos = tos;
	e->sends = SENDS_CONNECTED;
}

/* The entry of this place. NULL: it has none, and *least is the one with least sends of those that it may have. */
static struct udp_connected_socket *entry_of(struct udp_connected *c, uint16_t port,
					     struct udp_connected_socket **least)
{
	*least = NULL;
	for (unsigned int i = 0; i < WAYS; i++) {
		struct udp_connected_socket *e = &c->socket[(port + i) % UDP_CONNECTED];

		if (e->port == port)
			return e;
		if (!*least || e->sends < (*least)->sends)
			*least = e;
	}
	return NULL;
}

/* As entry_of(), but a place without an entry takes one that is free. NULL: none is. */
static struct udp_connected_socket *entry_find(struct udp_connected *c, uint16_t port)
{
	struct udp_connected_socket *least, *e = entry_of(c, port, &least);

	if (e)
		return e;
	if (least->sends) {
		least->sends--;
		return NULL;
	}
	entry_disconnect(c, least);
	*least = (struct udp_connected_socket){.sock.fd = -1, .port = port, .wait = CONNECT_AFTER};
	return least;
}

struct udp_connected_socket *uccl_udp_connected_find(struct udp *u, const struct uccl_tx *t, uint8_t tos)
{
	struct udp_connected_socket *e = entry_find(&u->connected, t->to->port);

	if (!e)
		return NULL;
	e->sends += e->sends < SENDS_MAX;
	e->wait -= e->wait > 0;
	/* Another incarnation may have its payload marked, or not. */
	if (e->sock.fd >= 0 && e->tos != tos)
		entry_refuse(&u->connected, e);
	if (e->sock.fd < 0 && !e->wait)
		entry_connect(u, e, t->to, tos);
	if (e->sock.fd < 0)
		return NULL;
	if (e->fresh >= FRESH_MAX) {
		e->fresh /= 2;
		e->again /= 2;
		e->refusals -= e->refusals > 0;
	}
	return e;
}

void uccl_udp_connected_again(struct udp *u, uint16_t port, uint32_t packets)
{
	struct udp_connected_socket *least, *e = entry_of(&u->connected, port, &least);

	if (!e || e->sock.fd < 0)
		return;
	e->again += packets;
	if (e->again >= AGAIN_LEAST && e->again > e->fresh / AGAIN_PART)
		entry_refuse(&u->connected, e);
}

void uccl_udp_connected_open(struct udp *u)
{
	for (int i = 0; i < UDP_CONNECTED; i++)
		u->connected.socket[i].sock.fd = -1;
	/* A range of ports is for packets that a network sees. FI_UCCL_PATHS bounds labels, and so also these ports. */
	u->connected.most = uccl_ports_limited(&u->ports) ? 0 : (int)uccl_min(u->nic.caps.labels, UDP_CONNECTED);
}

void uccl_udp_connected_close(struct udp *u)
{
	for (int i = 0; i < UDP_CONNECTED; i++)
		entry_disconnect(&u->connected, &u->connected.socket[i]);
}
