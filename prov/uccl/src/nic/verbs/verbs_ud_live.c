/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Liveness connections. The GID of RoCE v2 is an IP address, so hosts can hold a TCP connection for each peer, which
 * reports the end of a process at once (udp_live.h); InfiniBand without IP has none, and there only silence shows it. A
 * peer that ended before it ever answered has no connection, and no host sends ICMP for a queue pair. So an address
 * that answers no HELLO gets a connection, too, which its host refuses if nobody listens.
 */
#include "nic/verbs/ud_state.h"

#ifdef HAVE_VERBS

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include <rdma/fi_errno.h>

#include "base/log.h"
#include "nic/ifaddr.h"

#define POLL_NS (10 * UCCL_NS_PER_MS) /* between two polls of the connections */
#define PORT_TRIES 16		      /* ports tried, until one is free */
#define ASK_HELLOS 16 /* HELLOs without answer until the host is asked: most of a second */
#define ASK_FORGET_NS (2 * UCCL_NS_PER_S) /* after the latest HELLO */

/* The TCP address of an endpoint. */
static struct uccl_nic_addr tcp_addr(const struct uccl_nic_addr *a, uint16_t port)
{
	struct uccl_nic_addr h = {.port = port};

	memcpy(h.ip, a->ip, sizeof(h.ip));
	return h;
}

/* The next port to try, of the range if there is one. 0: none is left. */
static uint16_t live_port(const struct uccl_ports *ports, struct uccl_ports_walk *walk, int tries)
{
	if (uccl_ports_limited(ports))
		return uccl_ports_next(ports, walk);
	return tries < PORT_TRIES ? (uint16_t)(uccl_ports_walk().start | 0x8000) : 0;
}

uint16_t uccl_ud_live_open(struct ud *u, const struct uccl_ports *ports)
{
	struct uccl_ports_walk walk = uccl_ports_walk();
	struct uccl_nic_addr at;
	uint64_t id;
	int err = -FI_EADDRINUSE;

	/* Link-local addresses would need the interface, too. */
	if (!u->port.roce_v2 || (u->self.ip[0] == 0xfe && u->self.ip[1] == 0x80))
		return 0;
	for (int i = 0; err == -FI_EADDRINUSE; i++) {
		uint16_t port = live_port(ports, &walk, i);

		if (!port || getrandom(&id, sizeof(id), 0) != sizeof(id))
			break;
		at = tcp_addr(&u->self, port);
		err = uccl_udp_live_open(&at, id, ports, &u->live.udp);
	}
	if (!err)
		return at.port;
	u->live.udp = NULL;
	if (walk.tried)
		UCCL_LOG(UCCL_LOG_WARN,
			 "FI_UCCL_PORTS=%u-%u: none of %u ports is free for liveness connections; give a larger range",
			 ports->first, ports->last, walk.tried);
	UCCL_LOG(UCCL_LOG_INFO, "%s: no liveness connections, so the end of a peer's process may be noticed late: %s",
		 u->port.name, strerror(-err));
	return 0;
}

void uccl_ud_live_close(struct ud *u)
{
	if (u->live.udp)
		uccl_udp_live_close(u->live.udp);
}

/* End the connection. */
static void ask_end(struct ud *u, struct ud_ask *a)
{
	if (a->w.live)
		uccl_udp_live_disconnect(u->live.udp, a->w.live);
	a->w.live = NULL;
}

static void ask_forget(struct ud *u, struct ud_ask *a)
{
	ask_end(u, a);
	u->live.nrefused -= a->refused;
	a->refused = false;
	a->hellos = 0;
	a->at = 0;
}

static bool ask_is(const struct ud_ask *a, const struct uccl_nic_addr *to)
{
	return a->at && uccl_ifaddr_equal(&a->w.to, to);
}

/* The entry of an address, a new one if necessary. NULL: all are in use. */
static struct ud_ask *ask_of(struct ud *u, const struct uccl_nic_addr *to)
{
	struct ud_ask *unused = NULL, *a;

	for (a = u->live.ask; a < u->live.ask + UD_ASKS; a++) {
		if (ask_is(a, to))
			return a;
		if (!a->at)
			unused = a;
	}
	if (unused)
		unused->w = (struct ud_watch){.to = *to, .ask = true};
	return unused;
}

/* PROTOCOL R251 */
static void ask(struct ud *u, const struct ud_hello *hello, uint64_t now)
{
	struct uccl_nic_addr at = tcp_addr(&hello->to, hello->to.port);
	struct ud_ask *a = hello->to.pad & UD_LISTENS ? ask_of(u, &hello->to) : NULL;

	if (!a)
		return;
	a->at = now;
	memcpy(a->hdr, hello->hdr, sizeof(a->hdr));
	/* If the host refuses the connection, the next HELLO asks again. */
	if (++a->hellos >= ASK_HELLOS && !a->w.live && uccl_udp_live_ask(u->live.udp, &at, &a->w, now, &a->w.live))
		a->w.live = NULL;
}

struct ud_watch *uccl_ud_watch(struct ud *u, const struct uccl_nic_addr *to)
{
	struct uccl_nic_addr at = tcp_addr(to, to->port);
	struct ud_watch *w = u->live.udp ? calloc(1, sizeof(*w)) : NULL;

	if (!w)
		return NULL;
	w->to = *to;
	if (uccl_udp_live_connect(u->live.udp, &at, w, u->clock(), &w->live)) {
		free(w);
		return NULL;
	}
	u->live.poll_at = 0;
	/* It has answered. */
	for (struct ud_ask *a = u->live.ask; a < u->live.ask + UD_ASKS; a++)
		if (ask_is(a, to))
			ask_forget(u, a);
	return w;
}

void uccl_ud_unwatch(struct ud *u, struct ud_watch *w)
{
	if (!w)
		return;
	uccl_udp_live_disconnect(u->live.udp, w->live);
	free(w);
}

void uccl_ud_hello(struct ud *u, const struct uccl_tx *t)
{
	struct ud_hello *h = &u->live.hello[u->live.nhellos];

	if (!u->live.udp || u->live.nhellos == UD_ASKS)
		return;
	h->to = *t->to;
	memcpy(h->hdr, t->hdr, sizeof(h->hdr));
	u->live.nhellos++;
}

void uccl_ud_live_poll(struct ud *u)
{
	uint64_t now = u->clock();
	void *gone[UD_GONE];
	int n;

	if (!u->live.udp || now < u->live.poll_at)
		return;
	u->live.poll_at = now + POLL_NS;
	for (struct ud_ask *a = u->live.ask; a < u->live.ask + UD_ASKS; a++)
		if (a->at && now - a->at >= ASK_FORGET_NS)
			ask_forget(u, a);
	for (int i = 0; i < u->live.nhellos; i++)
		ask(u, &u->live.hello[i], now);
	u->live.nhellos = 0;
	n = uccl_udp_live_poll(u->live.udp, now, gone, UD_GONE - u->live.ngone);
	for (int i = 0; i < n; i++) {
		struct ud_watch *w = gone[i];

		if (w->ask) {
			struct ud_ask *a = uccl_container_of(w, struct ud_ask, w);

			u->live.nrefused += !a->refused;
			a->refused = true;
			ask_end(u, a);
		} else {
			u->live.gone[u->live.ngone++] = w->to;
		}
	}
}

bool uccl_ud_gone_report(struct ud *u, struct uccl_rx *r)
{
	struct ud_ask *a = u->live.ask;

	if (!u->live.ngone && !u->live.nrefused)
		return false;
	memset(r, 0, sizeof(*r));
	if (u->live.ngone) {
		r->kind = UCCL_RX_GONE;
		r->src = u->live.gone[--u->live.ngone];
		return true;
	}
	while (!a->refused)
		a++;
	u->live.nrefused--;
	a->refused = false;
	r->kind = UCCL_RX_UNREACH;
	r->src = a->w.to;
	r->data = a->hdr;
	r->len = sizeof(a->hdr);
	return true;
}

#endif

uint64_t uccl_ud_live_expiry(const struct ud *u)
{
	uint64_t at = u->live.udp ? uccl_udp_live_expiry(u->live.udp) : UCCL_NEVER;

	return at == UCCL_NEVER ? at : uccl_max(at, u->live.poll_at);
}
