/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What the NIC says of itself: its link, its address, queues and queue pairs that broke, its removal. Read by whoever
 * drives progress; nothing here blocks.
 *
 * A device that is taken away says so by an event or by an error, or not at all: Soft-RoCE lets those who have it open
 * go on and waits for them. So its place in sysfs is looked at too.
 */
#include "nic/verbs_ud.h"

#ifdef HAVE_VERBS

#include <errno.h>
#include <string.h>

#include "base/log.h"

#define LOOK_NS (500 * UCCL_NS_PER_MS) /* between two looks at whether the device is there */

static void link_set(struct ud *u, enum uccl_link link, const char *why)
{
	if (u->link == link || u->link == UCCL_LINK_GONE)
		return;
	UCCL_LOG(link == UCCL_LINK_UP ? UCCL_LOG_INFO : UCCL_LOG_WARN, "%s: %s", u->port.name, why);
	u->stats.link_lost += link != UCCL_LINK_UP;
	u->link = link;
	u->link_news = true;
}

void uccl_ud_gone(struct ud *u, const char *why)
{
	link_set(u, UCCL_LINK_GONE, why);
}

/* The port or its address has changed, or both are back. */
static void port_look(struct ud *u)
{
	uint32_t before = u->port.gid_index;
	enum uccl_link link = uccl_verbs_look(u->lib, u->ctx, &u->port);

	if (u->port.gid_index != before) {
		UCCL_LOG(UCCL_LOG_INFO, "%s: our GID has number %u now, not %u", u->port.name, u->port.gid_index,
			 before);
		/* Handles by the old number go when no send uses them. */
		if (uccl_ud_tx_renew(u)) {
			uccl_ud_gone(u, "its queues cannot be made anew");
			return;
		}
	}
	if (link == UCCL_LINK_UP)
		uccl_verbs_ahs_refresh(u->ahs, u->port.gid_index);
	link_set(u, link, link == UCCL_LINK_UP ? "the link is back" : "the link is down, or the address is gone");
}

static void cq_broke(struct ud *u, const struct ibv_async_event *e)
{
	/* The queue pair that receives belongs to its queue, and its number is known to all. */
	if (e->element.cq == u->rx_cq)
		uccl_ud_gone(u, "the queue of received packets broke");
	else if (e->element.cq == u->tx_cq && uccl_ud_tx_renew(u))
		uccl_ud_gone(u, "its queues cannot be made anew");
}

static void qp_broke(struct ud *u, const struct ibv_async_event *e)
{
	if (e->element.qp == u->rx_qp)
		u->rx_broken = true;
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
		uccl_ud_gone(u, "the device is gone, or broke");
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

void uccl_ud_events(struct ud *u)
{
	struct ibv_async_event e;
	uint64_t now = u->clock();

	if (u->link == UCCL_LINK_GONE)
		return;
	errno = 0;
	while (!u->lib->get_async_event(u->ctx, &e)) {
		UCCL_LOG(UCCL_LOG_INFO, "%s: event %d of the NIC", u->port.name, e.event_type);
		/* Before a queue or a queue pair goes, all news of it must be acknowledged. */
		u->lib->ack_async_event(&e);
		event_take(u, &e);
		errno = 0;
	}
	if (errno && errno != EAGAIN && errno != EINTR)
		uccl_ud_gone(u, "the device was taken away");
	if (now < u->look_at)
		return;
	u->look_at = now + LOOK_NS;
	if (u->shown && !uccl_verbs_present(u->ctx))
		uccl_ud_gone(u, "the device was taken away");
}

bool uccl_ud_link_tell(struct ud *u, struct uccl_rx *r)
{
	if (!u->link_news)
		return false;
	u->link_news = false;
	memset(r, 0, sizeof(*r));
	r->kind = UCCL_RX_LINK;
	r->imm = u->link;
	return true;
}

#endif
