/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The port as an endpoint uses it: how its link is, and queue pairs that begin on it. */
#include "nic/verbs/ud_state.h"

#ifdef HAVE_VERBS

#include <string.h>

#include "base/log.h"

void uccl_ud_link_set(struct ud *u, enum uccl_link link, const char *why)
{
	if (u->link == link || u->link == UCCL_LINK_GONE)
		return;
	UCCL_LOG(link == UCCL_LINK_UP ? UCCL_LOG_INFO : UCCL_LOG_WARN, "%s: %s", u->port.name, why);
	u->stats.link_lost += link != UCCL_LINK_UP;
	u->link = link;
	u->link_changed = true;
}

void uccl_ud_gone(struct ud *u, const char *why)
{
	uccl_ud_link_set(u, UCCL_LINK_GONE, why);
}

bool uccl_ud_link_tell(struct ud *u, struct uccl_rx *r)
{
	if (!u->link_changed)
		return false;
	u->link_changed = false;
	memset(r, 0, sizeof(*r));
	r->kind = UCCL_RX_LINK;
	r->imm = u->link;
	return true;
}

int uccl_ud_qp_start(struct ud *u, struct ibv_qp *qp, bool sends, uint32_t qkey)
{
	struct ibv_qp_attr a = {.qp_state = IBV_QPS_INIT, .port_num = u->port.port, .qkey = qkey};
	int rc = u->lib->modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY);

	if (!rc) {
		a.qp_state = IBV_QPS_RTR;
		rc = u->lib->modify_qp(qp, &a, IBV_QP_STATE);
	}
	if (!rc && sends) {
		a.qp_state = IBV_QPS_RTS;
		rc = u->lib->modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_SQ_PSN);
	}
	return -rc;
}

#endif
