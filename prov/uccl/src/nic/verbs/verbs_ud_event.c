/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Reads what the NIC reports: its link, its address, broken queues and queue pairs, its removal. The thread that drives
 * progress calls; nothing here blocks.
 *
 * A removed device reports that by an event or by an error, or not at all: Soft-RoCE waits for processes that still
 * have it open. So its directory in sysfs is checked, too.
 */
#include "nic/verbs/ud_state.h"

#ifdef HAVE_VERBS

#include "base/log.h"

#define CHECK_NS (500 * UCCL_NS_PER_MS) /* between two checks whether the device is there */

/* The port or its address has changed. */
static void port_check(struct ud *u)
{
	uint32_t before = u->port.gid_index;
	enum uccl_link link = uccl_verbs_port_state(u->lib, u->ctx, &u->port);

	if (u->port.gid_index != before) {
		UCCL_LOG(UCCL_LOG_INFO, "%s: the index of the NIC's GID was %u and is %u now", u->port.name, before,
			 u->port.gid_index);
		/* Handles with the old index end when no send uses them. */
		if (uccl_ud_tx_renew(u)) {
			uccl_ud_link_set(u, UCCL_LINK_GONE, "its queues cannot be made again");
			return;
		}
	}
	if (link == UCCL_LINK_UP)
		uccl_verbs_ahs_refresh(u->tx.ahs, u->port.gid_index);
	uccl_ud_link_set(u, link,
			 link == UCCL_LINK_UP ? "the link is back" : "the link is down, or the address is gone");
}

static void cq_broke(struct ud *u, const struct ibv_async_event *e)
{
	/* It belongs to the queue pair that receives, which cannot be replaced: peers know its number. */
	if (e->element.cq == u->rx.cq)
		uccl_ud_link_set(u, UCCL_LINK_GONE, "the completion queue of received packets failed");
	else if (e->element.cq == u->tx.cq && uccl_ud_tx_renew(u))
		uccl_ud_link_set(u, UCCL_LINK_GONE, "its queues cannot be made again");
}

static void qp_broke(struct ud *u, const struct ibv_async_event *e)
{
	if (!ud_rq_broke(&u->rx.rq, e->element.qp) && !ud_rq_broke(&u->device.rq, e->element.qp))
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
		uccl_ud_link_set(u, UCCL_LINK_GONE, "the device was removed, or it failed");
		break;
	case IBV_EVENT_PORT_ACTIVE:
	case IBV_EVENT_PORT_ERR:
	case IBV_EVENT_LID_CHANGE:
	case IBV_EVENT_GID_CHANGE:
		port_check(u);
		break;
	default:
		break;
	}
}

bool uccl_ud_events_due(const struct ud *u)
{
	uint64_t now = u->clock();

	return now >= u->check_at || (u->live.udp && now >= u->live.poll_at);
}

void uccl_ud_events(struct ud *u)
{
	struct ibv_async_event e;
	uint64_t now = u->clock();
	int rc;

	if (u->link.state == UCCL_LINK_GONE)
		return;
	uccl_ud_live_poll(u);
	while ((rc = uccl_verbs_event(u->lib, u->ctx, &e)) > 0) {
		UCCL_LOG(UCCL_LOG_INFO, "%s: the NIC reports event %d", u->port.name, e.event_type);
		event_take(u, &e);
	}
	if (rc)
		uccl_ud_link_set(u, UCCL_LINK_GONE, "the device was removed");
	if (now < u->check_at)
		return;
	u->check_at = now + CHECK_NS;
	if (u->shown && !uccl_verbs_present(u->ctx))
		uccl_ud_link_set(u, UCCL_LINK_GONE, "the device was removed");
}

#endif
