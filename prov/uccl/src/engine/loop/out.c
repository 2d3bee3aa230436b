/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* What leaves: the flows whose turn it is, and the batch of packets that the NIC gets next. */
#include <rdma/fi_errno.h>
#include <stddef.h>
#include <string.h>

#include "base/units.h"
#include "engine/impl.h"

/* A full batch would cut the train that begins, so from here on the first of a burst sends what there is. */
#define TX_BREAK (TX_BATCH / 4)

void engine_ready(struct conn *c)
{
	struct uccl_flow *f = &c->peer.flow;

	if (!c->peer.open || f->is_ready)
		return;
	f->is_ready = true;
	TAILQ_INSERT_TAIL(&c->e->ready, f, ready);
}

bool engine_tx_flush(struct uccl_engine *e)
{
	while (e->tx_head < e->tx_n) {
		int k = e->nic->ops->tx(e->nic, e->txv + e->tx_head, e->tx_n - e->tx_head);

		engine_backlog(e);
		if (!k)
			return false;
		if (k == -FI_EFAULT)
			conn_broken(uccl_container_of(e->txv[e->tx_head].to, struct conn, peer.addr.nic), FI_EFAULT);
		/* Any other error is a loss: what was in flight will be sent again. */
		e->tx_head += k > 0 ? k : 1;
	}
	e->tx_head = e->tx_n = 0;
	return true;
}

void engine_tx_settle(struct uccl_engine *e)
{
	int n = e->tx_head;

	if (!e->nic->caps.tx_sync)
		return;
	for (int i = e->tx_head; i < e->tx_n; i++) {
		const struct uccl_tx *tx = &e->txv[i];
		const struct conn *c = uccl_container_of(tx->to, struct conn, peer.addr.nic);

		if (tx->cookie != UCCL_NEVER && !(tx->kind == UCCL_TX_WRITE && e->nic->caps.write_async) &&
		    uccl_flow_acked(&c->peer.flow, tx->cookie))
			continue;
		if (n != i)
			e->txv[n] = *tx;
		n++;
	}
	e->tx_n = n;
}

void engine_tx_moved(struct uccl_engine *e, struct iovec from, const uint8_t *to)
{
	for (int i = e->tx_head; i < e->tx_n; i++) {
		size_t at = (size_t)((uintptr_t)e->txv[i].payload - (uintptr_t)from.iov_base);

		if (at < from.iov_len)
			e->txv[i].payload = to + at;
	}
}

void engine_tx_forget(struct conn *c)
{
	struct uccl_engine *e = c->e;
	int n = e->tx_head;

	for (int i = e->tx_head; i < e->tx_n; i++)
		if (e->txv[i].to != &c->peer.addr.nic) {
			if (n != i)
				e->txv[n] = e->txv[i];
			n++;
		}
	e->tx_n = n;
}

struct uccl_tx *engine_tx_slot(struct uccl_engine *e)
{
	if (e->tx_n == TX_BATCH && !engine_tx_flush(e))
		return NULL;
	return &e->txv[e->tx_n];
}

bool engine_tx_add(struct uccl_engine *e)
{
	struct uccl_tx *tx = &e->txv[e->tx_n];

	if (e->tx_n - e->tx_head < TX_BREAK || !tx->burst) {
		e->tx_n++;
		return true;
	}
	if (!engine_tx_flush(e)) {
		e->tx_n++;
		return false;
	}
	e->txv[e->tx_n++] = *tx;
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
	tx.control = true;
	tx.hdr_len = UCCL_HDR_LEN;
	tx.cookie = UCCL_NEVER;
	tx.to = &c->peer.addr.nic;
	uccl_hdr_encode(tx.hdr, &h);
	if (c->seal)
		uccl_seal_put(c->seal, &tx);
	engine_tx_raw(c->e, &tx);
}
