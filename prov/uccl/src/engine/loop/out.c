/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* What leaves: the flows whose turn it is, and the batch of packets that the NIC gets next. */
#include <rdma/fi_errno.h>
#include <stddef.h>
#include <string.h>

#include "base/units.h"
#include "engine/impl.h"

void engine_ready(struct conn *c)
{
	struct uccl_flow *f = &c->peer.flow;

	if (!c->peer.open || f->is_ready)
		return;
	f->is_ready = true;
	TAILQ_INSERT_TAIL(&c->e->out.ready, f, ready);
}

bool engine_tx_flush(struct uccl_engine *e)
{
	while (e->out.head < e->out.n) {
		int n = e->out.n - e->out.head, k = e->nic->ops->tx(e->nic, e->out.v + e->out.head, n);

		engine_backlog(&e->out, e->nic);
		if (k == n)
			break;
		if (!k)
			return false;
		if (k == -FI_EFAULT)
			conn_broken(uccl_container_of(e->out.v[e->out.head].to, struct conn, peer.addr.nic), FI_EFAULT);
		/* Any other error is a loss: what was in flight will be sent again. */
		e->out.head += k > 0 ? k : 1;
	}
	e->out.head = e->out.n = e->out.rows = 0;
	return true;
}

void engine_tx_settle(struct uccl_engine *e)
{
	int n = e->out.head;

	if (!e->nic->caps.tx_sync)
		return;
	for (int i = e->out.head; i < e->out.n; i++) {
		const struct uccl_tx *tx = &e->out.v[i];
		const struct conn *c = uccl_container_of(tx->to, struct conn, peer.addr.nic);

		if (tx->cookie != UCCL_NEVER && !(tx->kind == UCCL_TX_WRITE && e->nic->caps.write_async) &&
		    uccl_flow_acked(&c->peer.flow, tx->cookie))
			continue;
		if (n != i)
			e->out.v[n] = *tx;
		n++;
	}
	e->out.n = n;
}

void engine_tx_moved(struct uccl_engine *e, struct iovec from, const uint8_t *to)
{
	for (int i = e->out.head; i < e->out.n; i++) {
		size_t at = (size_t)((uintptr_t)e->out.v[i].payload - (uintptr_t)from.iov_base);

		if (at < from.iov_len)
			e->out.v[i].payload = to + at;
	}
}

void engine_tx_forget(struct conn *c)
{
	struct uccl_engine *e = c->e;
	int n = e->out.head;

	for (int i = e->out.head; i < e->out.n; i++)
		if (e->out.v[i].to != &c->peer.addr.nic) {
			if (n != i)
				e->out.v[n] = e->out.v[i];
			n++;
		}
	e->out.n = n;
}

bool engine_tx_add_first(struct uccl_engine *e)
{
	struct uccl_tx *tx = &e->out.v[e->out.n];

	if (!engine_tx_flush(e)) {
		e->out.n++;
		return false;
	}
	e->out.v[e->out.n++] = *tx;
	return true;
}

void engine_tx_raw(struct uccl_engine *e, struct uccl_tx *tx)
{
	if (engine_tx_flush(e))
		e->nic->ops->tx(e->nic, tx, 1);
}

void engine_tell(struct conn *c, uint8_t type, uint8_t reason)
{
	uint8_t rec[UCCL_REC_LEN] = { reason };
	struct uccl_hdr h = { .type = type, .token = c->hs.token_remote, .rec = rec };
	struct uccl_tx tx;

	memset(&tx, 0, offsetof(struct uccl_tx, hdr));
	tx.kind = UCCL_TX_PACKET;
	tx.control = UCCL_TX_CONTROL;
	tx.hdr_len = UCCL_HDR_LEN;
	tx.cookie = UCCL_NEVER;
	/* The other rail may carry nothing. PROTOCOL R390 */
	tx.label = c->hs.rail;
	tx.to = &c->peer.addr.nic;
	uccl_hdr_encode(tx.hdr, &h);
	if (c->opened.seal)
		uccl_seal_put(c->opened.seal, &tx);
	engine_tx_raw(c->e, &tx);
}
