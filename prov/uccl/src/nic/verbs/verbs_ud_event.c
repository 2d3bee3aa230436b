/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What the NIC says of itself: its link, its address, queues and queue pairs that broke, its removal; and what hosts
 * say of peers. Read by whoever drives progress; nothing here blocks.
 *
 * The GID of RoCE v2 is an IP address, so hosts can hold a TCP connection for each peer, which tells of the end of a
 * process at once (udp_live.h); InfiniBand without IP has none, and there silence is all that is heard. Who ended
 * before it ever answered has none either, and no host sends ICMP for a queue pair: so its host is asked.
 *
 * A device that is taken away says so by an event or by an error, or not at all: Soft-RoCE lets those who have it open
 * go on and waits for them. So its place in sysfs is looked at too.
 */
#include "nic/verbs/ud_state.h"

#ifdef HAVE_VERBS

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include <rdma/fi_errno.h>

#include "base/log.h"
#include "nic/ifaddr.h"

#define LIVE_NS (10 * UCCL_NS_PER_MS) /* between two looks at the connections of hosts */
#define LIVE_TRIES 16		      /* ports, until there is one that is free */
#define ASK_HELLOS 16		      /* that nobody answered, until the host there is asked: most of a second */
#define ASK_FORGET_NS (2 * UCCL_NS_PER_S) /* after the latest HELLO */
#define LOOK_NS (500 * UCCL_NS_PER_MS) /* between two looks at whether the device is there */

/* Peers. */

/* A place as hosts know it. */
static struct uccl_nic_addr host_place(const struct uccl_nic_addr *a)
{
	struct uccl_nic_addr h = {.port = a->port};

	memcpy(h.ip, a->ip, sizeof(h.ip));
	return h;
}

/* A port to try, of the range if there is one. 0: none is left. */
static uint16_t live_port(const struct uccl_ports *ports, struct uccl_ports_walk *walk, int tries)
{
	if (uccl_ports_limited(ports))
		return uccl_ports_next(ports, walk);
	return tries < LIVE_TRIES ? (uint16_t)(uccl_ports_walk().start | 0x8000) : 0;
}

void uccl_ud_live_open(struct ud *u, const struct uccl_ports *ports)
{
	struct uccl_ports_walk walk = uccl_ports_walk();
	struct uccl_nic_addr at;
	uint64_t id;
	int err = -FI_EADDRINUSE;

	/* Link-local addresses would need the interface, too. */
	if (!u->port.roce_v2 || (u->self.ip[0] == 0xfe && u->self.ip[1] == 0x80))
		return;
	for (int i = 0; err == -FI_EADDRINUSE; i++) {
		uint16_t port = live_port(ports, &walk, i);

		if (!port || getrandom(&id, sizeof(id), 0) != sizeof(id))
			break;
		u->self.port = port;
		at = host_place(&u->self);
		err = uccl_udp_live_open(&at, id, ports, &u->live);
	}
	if (!err)
		return;
	u->live = NULL;
	if (walk.tried)
		UCCL_LOG(UCCL_LOG_WARN, "FI_UCCL_PORTS=%u-%u: none of %u ports can be had for liveness connections",
			 ports->first, ports->last, walk.tried);
	UCCL_LOG(UCCL_LOG_INFO, "%s: no liveness connections, so the end of a peer's process may be noticed late: %s",
		 u->port.name, strerror(-err));
}

/* What is asked of its host ends. */
static void ask_end(struct ud *u, struct ud_ask *a)
{
	if (a->w.live)
		uccl_udp_live_disconnect(u->live, a->w.live);
	a->w.live = NULL;
}

static void ask_forget(struct ud *u, struct ud_ask *a)
{
	ask_end(u, a);
	u->nrefused -= a->refused;
	a->refused = false;
	a->hellos = 0;
	a->at = 0;
}

static bool ask_is(const struct ud_ask *a, const struct uccl_nic_addr *to)
{
	return a->at && uccl_ifaddr_equal(&a->w.to, to);
}

/* The entry of a place, a new one if need be. NULL: there are too many others now. */
static struct ud_ask *ask_of(struct ud *u, const struct uccl_nic_addr *to)
{
	struct ud_ask *unused = NULL, *a;

	for (a = u->ask; a < u->ask + UD_ASKS; a++) {
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
	struct uccl_nic_addr at = host_place(&hello->to);
	struct ud_ask *a = hello->to.pad & UD_LISTENS ? ask_of(u, &hello->to) : NULL;

	if (!a)
		return;
	a->at = now;
	memcpy(a->hdr, hello->hdr, sizeof(a->hdr));
	/* When that was refused the next HELLO asks again. */
	if (++a->hellos >= ASK_HELLOS && !a->w.live && uccl_udp_live_ask(u->live, &at, &a->w, now, &a->w.live))
		a->w.live = NULL;
}

struct ud_watch *uccl_ud_watch(struct ud *u, const struct uccl_nic_addr *to)
{
	struct uccl_nic_addr at = host_place(to);
	struct ud_watch *w = u->live ? calloc(1, sizeof(*w)) : NULL;

	if (!w)
		return NULL;
	w->to = *to;
	if (uccl_udp_live_connect(u->live, &at, w, u->clock(), &w->live)) {
		free(w);
		return NULL;
	}
	u->live_at = 0;
	/* It has answered. */
	for (struct ud_ask *a = u->ask; a < u->ask + UD_ASKS; a++)
		if (ask_is(a, to))
			ask_forget(u, a);
	return w;
}

void uccl_ud_unwatch(struct ud *u, struct ud_watch *w)
{
	if (!w)
		return;
	uccl_udp_live_disconnect(u->live, w->live);
	free(w);
}

static void live_look(struct ud *u)
{
	uint64_t now = u->clock();
	void *gone[UD_GONE];
	int n;

	if (!u->live || now < u->live_at)
		return;
	u->live_at = now + LIVE_NS;
	for (struct ud_ask *a = u->ask; a < u->ask + UD_ASKS; a++)
		if (a->at && now - a->at >= ASK_FORGET_NS)
			ask_forget(u, a);
	for (int i = 0; i < u->nhellos; i++)
		ask(u, &u->hello[i], now);
	u->nhellos = 0;
	n = uccl_udp_live_poll(u->live, now, gone, UD_GONE - u->ngone);
	for (int i = 0; i < n; i++) {
		struct ud_watch *w = gone[i];

		if (w->ask) {
			struct ud_ask *a = uccl_container_of(w, struct ud_ask, w);

			u->nrefused += !a->refused;
			a->refused = true;
			ask_end(u, a);
		} else {
			u->gone[u->ngone++] = w->to;
		}
	}
}

bool uccl_ud_gone_tell(struct ud *u, struct uccl_rx *r)
{
	struct ud_ask *a = u->ask;

	if (!u->ngone && !u->nrefused)
		return false;
	memset(r, 0, sizeof(*r));
	if (u->ngone) {
		r->kind = UCCL_RX_GONE;
		r->src = u->gone[--u->ngone];
		return true;
	}
	while (!a->refused)
		a++;
	u->nrefused--;
	a->refused = false;
	r->kind = UCCL_RX_UNREACH;
	r->src = a->w.to;
	r->data = a->hdr;
	r->len = sizeof(a->hdr);
	return true;
}

/* The NIC. */

/* The port or its address has changed, or both are back. */
static void port_look(struct ud *u)
{
	uint32_t before = u->port.gid_index;
	enum uccl_link link = uccl_verbs_look(u->lib, u->ctx, &u->port);

	if (u->port.gid_index != before) {
		UCCL_LOG(UCCL_LOG_INFO, "%s: the index of the NIC's GID was %u and is %u now", u->port.name, before,
			 u->port.gid_index);
		/* Handles by the old number go when no send uses them. */
		if (uccl_ud_tx_renew(u)) {
			uccl_ud_gone(u, "its queues cannot be made again");
			return;
		}
	}
	if (link == UCCL_LINK_UP)
		uccl_verbs_ahs_refresh(u->ahs, u->port.gid_index);
	uccl_ud_link_set(u, link,
			 link == UCCL_LINK_UP ? "the link is back" : "the link is down, or the address is gone");
}

static void cq_broke(struct ud *u, const struct ibv_async_event *e)
{
	/* The queue pair that receives belongs to its queue, and its number is known to all. */
	if (e->element.cq == u->rx_cq)
		uccl_ud_gone(u, "the completion queue of received packets failed");
	else if (e->element.cq == u->tx_cq && uccl_ud_tx_renew(u))
		uccl_ud_gone(u, "its queues cannot be made again");
}

static void qp_broke(struct ud *u, const struct ibv_async_event *e)
{
	if (e->element.qp == u->rq.qp)
		u->rq.broken = true;
	else if (e->element.qp == u->device_rq.qp)
		u->device_rq.broken = true;
	else
		uccl_ud_qp_broke(u, e->element.qp);
}

static void event_take(struct ud *u, const struct ibv_async_event *e)
{
	switch (e->event_type) {
	case IBV_EVENT_QP_FATAL:
	case IBV_EVENT_QP_REQ_ERR:
	case IBV_EVENT_QP_ACCESS_ERR:
		qp_broke(u, e);
		break;
	case IBV_EVENT_CQ_ERR:
		cq_broke(u, e);
		break;
	case IBV_EVENT_DEVICE_FATAL:
		uccl_ud_gone(u, "the device was removed, or it failed");
		break;
	case IBV_EVENT_PORT_ACTIVE:
	case IBV_EVENT_PORT_ERR:
	case IBV_EVENT_LID_CHANGE:
	case IBV_EVENT_GID_CHANGE:
		port_look(u);
		break;
	default:
		break;
	}
}

bool uccl_ud_events_due(const struct ud *u)
{
	uint64_t now = u->clock();

	return now >= u->check_at || (u->live && now >= u->live_at);
}

void uccl_ud_events(struct ud *u)
{
	struct ibv_async_event e;
	uint64_t now = u->clock();

	if (u->link == UCCL_LINK_GONE)
		return;
	live_look(u);
	errno = 0;
	while (!u->lib->get_async_event(u->ctx, &e)) {
		UCCL_LOG(UCCL_LOG_INFO, "%s: the NIC reports event %d", u->port.name, e.event_type);
		/* Before a queue or a queue pair goes, all news of it must be acknowledged. */
		u->lib->ack_async_event(&e);
		event_take(u, &e);
		errno = 0;
	}
	if (errno && errno != EAGAIN && errno != EINTR)
		uccl_ud_gone(u, "the device was removed");
	if (now < u->check_at)
		return;
	u->check_at = now + LOOK_NS;
	if (u->shown && !uccl_verbs_present(u->ctx))
		uccl_ud_gone(u, "the device was removed");
}

#endif
