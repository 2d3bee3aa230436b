/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Sending: handshakes first, then the flows that have something to send, in turns. */
#include "engine/impl.h"

/*
 * Payload of a turn: about a train, which is not cut. With turns of packets, who sends long ones would have most of the
 * NIC. PROTOCOL R163
 */
#define TX_TURN 65536
/* What is shorter costs as much as so many bytes. */
#define TX_LEAST 1024

/* The next place in the batch; NULL: the NIC is full. */
static inline struct uccl_tx *tx_slot(struct uccl_engine *e)
{
	if (e->out.n == TX_BATCH && !engine_tx_flush(e))
		return NULL;
	return &e->out.v[e->out.n];
}

/* The packet in the batch's free place was filled in. False: the NIC is full. */
static inline bool tx_add(struct uccl_engine *e)
{
	if (e->out.n - e->out.head + e->out.rows >= TX_BREAK && e->out.v[e->out.n].burst == UCCL_BURST_FIRST)
		return engine_tx_add_first(e);
	engine_out_filled(&e->out, 1);
	return true;
}

/* Handshake packets. */
static bool tx_handshakes(struct uccl_engine *e, uint64_t now)
{
	struct conn *c;

	while ((c = TAILQ_FIRST(&e->conns.hsq))) {
		struct uccl_tx *tx = tx_slot(e);

		if (!tx)
			return false;
		if (!uccl_conn_tx(&c->hs, &e->identity.listener, tx, c->tx.init_buf, now)) {
			conn_handshake_sent(c);
			continue;
		}
		tx->label = (uint16_t)(tx->label % e->nic->caps.labels);
		tx->peer = c->opened.nic_peer;
		tx->to = &c->peer.addr.nic;
		engine_out_filled(&e->out, 1);
		/* init_buf is one: it must leave before the next step writes it. */
		if (!engine_tx_flush(e))
			return false;
	}
	return true;
}

/* This peer has sent all that it may; `rests`: all that there is. */
static void tx_held(struct conn *c, bool rests, uint64_t now)
{
	enum uccl_stall why = rests ? UCCL_STALL_NOT : uccl_flow_stall(&c->peer.flow, now);

	if (why == UCCL_STALL_NOT && !c->peer.flow.sent.inflight_chunks) {
		if (!TAILQ_EMPTY(&c->peer.tx.sends))
			why = UCCL_STALL_ANSWER;
		else if (!TAILQ_EMPTY(&c->peer.tx.pending) && !TAILQ_FIRST(&c->peer.tx.pending)->tx.loading)
			why = UCCL_STALL_LIMIT;
	}
	/* Questions that could not leave are no silence of the peer. */
	if (why == UCCL_STALL_SILENT && c->e->out.nic_stall.why == UCCL_STALL_NIC)
		why = UCCL_STALL_NOT;
	conn_stalled(c, why, now);
}

/* Why a turn ended: the NIC takes no more, nothing may leave any more, nothing is left, or others wait. */
enum tx_end { TX_FULL, TX_NOTHING, TX_RESTS, TX_OTHERS };

/* What follows the packet that was added last in its train. Returns how many packets. */
static int32_t tx_follow(struct uccl_engine *e, struct conn *c)
{
	struct uccl_tx *tx;
	int n;

	/* A seal is of each. */
	if (c->opened.seal || !e->out.n)
		return 0;
	tx = &e->out.v[e->out.n - 1];
	if (e->nic->ops->tx_rows) {
		n = uccl_flow_tx_row(&c->peer.flow, tx);
		engine_out_row(&e->out, n);
		return n;
	}
	n = uccl_flow_tx_follow(&c->peer.flow, tx, TX_BATCH - e->out.n);
	engine_out_filled(&e->out, n);
	return n;
}

static enum tx_end tx_turn(struct uccl_engine *e, struct conn *c, uint64_t now)
{
	struct uccl_flow *f = &c->peer.flow;
	enum tx_end end = TX_OTHERS;
	int32_t left = c->tx.turn;

	/* The packets of a train leave together. */
	while (left > 0 || f->sent.out.left) {
		struct uccl_tx *tx = tx_slot(e);

		end = TX_FULL;
		if (!tx)
			break;
		end = TX_RESTS;
		if (uccl_flow_rests(f))
			break;
		end = TX_NOTHING;
		if (!uccl_flow_tx(f, tx, now))
			break;
		tx->peer = c->opened.nic_peer;
		tx->to = &c->peer.addr.nic;
		tx->ect = c->opened.ect;
		if (c->opened.seal && tx->kind == UCCL_TX_PACKET)
			uccl_seal_put(c->opened.seal, tx);
		left -= (int32_t)uccl_max(tx->payload_len, TX_LEAST);
		end = TX_FULL;
		if (!tx_add(e))
			break;
		if (f->sent.out.left)
			left -= tx_follow(e, c) *
				(int32_t)uccl_max(e->out.v[e->out.n - 1].payload_len, TX_LEAST);
		end = TX_OTHERS;
	}
	c->tx.turn = left;
	return end;
}

/*
 * Deficit round robin among peers (Shreedhar and Varghese 1995). A turn that the NIC stops goes on in the next poll: if
 * it began anew, who sends to a NIC that is always full would never let go of it.
 */
void engine_tx(struct uccl_engine *e, uint64_t now)
{
	struct uccl_flow *f;

	if ((e->out.head && !engine_tx_flush(e)) || !tx_handshakes(e, now)) {
		engine_out_full(&e->out, true, e->poll.away_ns, now);
		return;
	}
	while ((f = TAILQ_FIRST(&e->out.ready))) {
		struct conn *c = peer_conn(f->user);
		enum tx_end end;

		if (f->share != e->share.nbusy[UCCL_LOAD_OUT])
			uccl_flow_share(f, e->share.nbusy[UCCL_LOAD_OUT]);
		end = tx_turn(e, c, now);
		if (end == TX_FULL)
			break;
		if (f->train.changed)
			conn_trains(c);
		if (uccl_pmtu_take_changed(&f->pmtu))
			conn_pmtu(c);
		if (end == TX_OTHERS) {
			c->tx.turn += TX_TURN;
			engine_ready_last(&e->out, f);
			continue;
		}
		engine_unready(&e->out, f);
		c->tx.turn = TX_TURN;
		c->tx.gathered = 0;
		f->is_ready = false;
		uccl_heap_set(&e->heap, &f->timer, uccl_flow_expiry(f));
		tx_held(c, end == TX_RESTS, now);
		if (f->close.seen && !f->close.ack_due) {
			/* Its answer is in the batch: let it leave, then this peer is history. */
			engine_tx_flush(e);
			conn_close_seen(c, f->close.reason, now);
		}
	}
	engine_out_full(&e->out, !engine_tx_flush(e), e->poll.away_ns, now);
}
