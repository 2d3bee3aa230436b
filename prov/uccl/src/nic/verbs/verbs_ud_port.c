/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The port as an endpoint uses it: the state of its link, and queue pairs that start on it. */
#include "nic/verbs/ud_state.h"

#ifdef HAVE_VERBS

#include <string.h>

#include "base/log.h"

void uccl_ud_link_set(struct ud *u, enum uccl_link link, const char *why)
{
	if (u->link.state == link || u->link.state == UCCL_LINK_GONE)
		return;
	UCCL_LOG(link == UCCL_LINK_UP ? UCCL_LOG_INFO : UCCL_LOG_WARN, "%s: %s", u->port.name, why);
	u->link.lost += link != UCCL_LINK_UP;
	u->link.state = link;
	u->link.changed = true;
}

bool uccl_ud_link_report(struct ud *u, struct uccl_rx *r)
{
	if (!u->link.changed)
		return false;
	u->link.changed = false;
	memset(r, 0, sizeof(*r));
	r->kind = UCCL_RX_LINK;
	r->imm = u->link.state;
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
