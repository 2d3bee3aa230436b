/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The sending side. Every message begins with an envelope that carries as many of its first bytes as fit in a chunk. Up
 * to the eager limit the rest follows at once; beyond it the rest waits for CTS. If a receive waits for it, probably,
 * the first bytes of that rest, the unsolicited data, do not. Completion waits for: the acknowledgement of envelope,
 * unsolicited data and rest, CTS, and FIN if delivery was asked for.
 */
#include "msg/send/send.h"

#include <rdma/fi_errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/units.h"
#include "lanes/lanes.h"
#include "msg/iov.h"
#include "msg/recv/posted.h"
#include "msg/send/msg_tx.h"

/* Up to this size a copy is cheaper than anything else. */
#define COPY_ALWAYS 1024
/* Whatever FI_UCCL_EAGER says, so much goes with the envelope. */
#define EAGER_LEAST 64

/* Bring the payload from a device. An injected buffer is the caller's again at once: stay until it is there. */
static void send_load(struct uccl_msg_ep *m, struct uccl_op *op, uint8_t *to)
{
	msg_get(m, &op->tx.copy, op->iov, op->iov_count, op->device, 0, to, op->len);
	op->device = 0;
	msg_tx_loads(m, op, !(op->flags & UCCL_OPF_INJECT));
}

/*
 * The peer need not wait for the copy: what leaves within this call may leave from the program's buffer. With nothing
 * else in flight it is all that has to be told of the copy.
 */
static bool copy_may_be_deferred(const struct uccl_msg_ep *m, const struct uccl_op *op)
{
	struct uccl_peer *p = op->peer;

	return m->tx.may_defer && op->iov_count == 1 && TAILQ_EMPTY(&p->tx.pending) && msg_tx_may_begin(p, op) &&
	       uccl_flow_idle(&p->flow);
}

/* Copy the payload, so that the application has its buffer back. */
static int send_copy(struct uccl_msg_ep *m, struct uccl_op *op)
{
	uint8_t *to = msg_tx_room(m, op, op->len);

	if (!to)
		return -FI_EAGAIN;
	if (op->tx.bounce && !op->device && copy_may_be_deferred(m, op)) {
		msg_tx_defer(m, op);
		return 0;
	}
	if (op->device)
		send_load(m, op, to);
	else if (op->iov_count == 1 && op->len)
		memcpy(to, op->iov[0].iov_base, op->len);
	else
		msg_copy_out(op->iov, op->iov_count, 0, to, op->len);
	op->iov[0] = (struct iovec){ .iov_base = to, .iov_len = op->len };
	op->iov_count = 1;
	if (!op->tx.copy.err)
		return 0;
	msg_copy_end(m, &op->tx.copy);
	msg_tx_room_put(m, op);
	return -op->tx.copy.err;
}

/*
 * Does all of it leave with this call? The program may make no other one for long when it hears that the message is
 * complete.
 */
static bool leaves_at_once(const struct uccl_op *op)
{
	const struct uccl_peer *p = op->peer;

	return TAILQ_EMPTY(&p->tx.pending) && msg_tx_may_begin(p, op) && uccl_flow_has_room(&p->flow, op->len);
}

/*
 * Does a copy cost less than the acknowledgement? For a small message always; for a larger one while little else is
 * under way, when the sender waits for just this completion: among many, one acknowledgement completes several. With no
 * more than UCCL_RIDE_BYTES in flight nobody asks for that of a copy, and it rides on what the peer sends.
 */
static bool copy_pays(const struct uccl_op *op)
{
	return op->len <= COPY_ALWAYS ||
	       (op->len <= UCCL_COPY_MAX && op->peer->open &&
		uccl_flow_little(&op->peer->flow, UCCL_COPY_IN_FLIGHT - op->len) && leaves_at_once(op));
}

/* Peers that do not answer hold their copies for long: what has to be copied still finds memory. */
static bool copy_has_room(const struct uccl_msg_ep *m, const struct uccl_op *op)
{
	return op->len <= sizeof(op->tx.small) || m->tx.copied_bytes + op->len <= UCCL_COPIED_OPTIONAL;
}

/* It is complete at once: copied, and nobody asked to wait for more than that. */
static bool send_is_early(const struct uccl_op *op, int copied)
{
	return copied && !(op->flags & (UCCL_OPF_ACKED | UCCL_OPF_DELIVERY));
}

/*
 * The usual message: short, in one piece of memory that the processor reads, to a peer that takes what it does not
 * expect, and too short for lanes. Its envelope has all of it, so nothing is to be decided, and nobody names it.
 */
static inline bool send_is_usual(const struct uccl_op *op)
{
	const struct uccl_peer *p = op->peer;

	return op->len <= p->msg_ep->eager_max && op->len <= p->flow.chunk_bytes && op->iov_count <= 1 &&
	       !op->device && !p->flow.limits.envelopes_only && (!p->lanes.peers || op->len < UCCL_LANES_FIRST);
}

/* It is short enough to leave without an answer of the peer. */
static bool is_short(const struct uccl_msg_ep *m, const struct uccl_op *op)
{
	return op->len <= uccl_max(m->eager_max, EAGER_LEAST);
}

/* What goes without CTS must be where the processor can read it. */
static bool must_copy(const struct uccl_msg_ep *m, const struct uccl_op *op)
{
	return op->flags & UCCL_OPF_INJECT || (op->device && !op->peer->self && is_short(m, op));
}

/* While others that lanes could carry are under way the primary has enough to do. */
static bool primary_is_busy(const struct uccl_peer *p)
{
	return p->lanes.nstriped > 1 || p->send.unsolicited >= UCCL_LANES_UNSOLICITED;
}

/*
 * May the program hear of it before the peer has it? Who hears may make no call for long, and what the peer has to ask
 * for would lie here until somebody answers.
 */
static bool may_be_early(const struct uccl_msg_ep *m, const struct uccl_op *op)
{
	const struct uccl_peer *p = op->peer;

	if (!(op->flags & UCCL_OPF_EARLY) || op->device)
		return false;
	return p->self || (is_short(m, op) && !p->flow.limits.envelopes_only &&
			   !(primary_is_busy(p) && lanes_may(op)));
}

/*
 * 1: copied, or being copied; the op may complete when it is. 0: it completes when acknowledged. -FI_EAGAIN: no memory
 * to copy it now; or why its memory cannot be read.
 */
static uccl_inline int send_may_copy(struct uccl_msg_ep *m, struct uccl_op *op)
{
	bool must = must_copy(m, op);
	int rc;

	if (!must && (!may_be_early(m, op) || !copy_pays(op) || !copy_has_room(m, op)))
		return 0;
	rc = send_copy(m, op);
	return !rc ? 1 : must ? rc : 0;
}

/* Tell api that the op is complete although msg keeps it until the peer has everything. */
static void send_early(struct uccl_op *op)
{
	msg_op_done(op, op->peer, 0);
}

static void send_loaded(struct uccl_op *op)
{
	if (!send_is_early(op, true))
		return;
	msg_tx_keep(op, true);
	send_early(op);
}

/*
 * A message that lanes may carry: how much of it goes without an answer, and in *first how much its envelope holds.
 * The fewer bytes the primary carries while others are under way the sooner it is at the next one.
 */
static uint32_t eager_beside_lanes(const struct uccl_op *op, uint64_t *first)
{
	const struct uccl_peer *p = op->peer;

	if (op->len <= p->msg_ep->eager_max && !primary_is_busy(p))
		return (uint32_t)p->msg_ep->eager_max;
	*first = uccl_flow_idle(&p->flow) && !p->lanes.nstriped ? uccl_min(*first, UCCL_LANES_FIRST) : 0;
	return 0;
}

static void unsolicited_drop(struct uccl_op *op)
{
	if (op->send.unsolicited)
		op->peer->send.unsolicited -= op->len;
	op->send.unsolicited = false;
	msg_tx_unsolicited(op, 0);
}

/*
 * How many bytes of a message go without an answer although it has to wait for CTS; no more than the envelope has if it
 * probably meets no receive: then it would fill memory, and be copied. PROTOCOL R263 R264
 */
static uint64_t unsolicited_bytes(const struct uccl_op *op, uint64_t first)
{
	const struct uccl_peer *p = op->peer;
	uint64_t most = uccl_min(4 * p->msg_ep->eager_max, UCCL_UNSOLICITED_MAX), bytes = op->len;

	if (!p->takes_unsolicited || p->tx.met_streak < UCCL_UNSOLICITED_MET || op->device ||
	    p->flow.limits.envelopes_only || op->len >> UCCL_ENV_UNSOLICITED_AT || most <= first)
		return first;
	/* While others leave CTS comes in time. */
	if (!TAILQ_EMPTY(&p->flow.sendq.bulk))
		return first;
	/* Its packets are full, so that a receiver predicts the place of those behind it. */
	if (bytes > most)
		bytes = uccl_words((uint32_t)(most - (most - first) % p->flow.chunk_bytes));
	return bytes <= first || p->tx.unsolicited_bytes + bytes > UCCL_UNSOLICITED_PEER_MAX ? first : bytes;
}

/*
 * How many bytes of a message, from the first on, lanes may bring without an answer, as stripes; 0: none. It may meet
 * no receive: lanes keep what they bring until it does, and copy it then. PROTOCOL R265
 */
static uint64_t striped_bytes(const struct uccl_op *op)
{
	const struct uccl_peer *p = op->peer;
	uint64_t bytes = op->len <= UCCL_UNSOLICITED_MAX ? op->len : (uint64_t)UCCL_STRIPE_FULL * UCCL_STRIPE_SHARES;

	if (!p->lanes_unsolicited || p->flow.limits.envelopes_only || op->len >> UCCL_ENV_LANES_AT ||
	    p->tx.unsolicited_bytes + bytes > UCCL_UNSOLICITED_PEER_MAX)
		return 0;
	return bytes;
}

/* What follows the envelope at once. */
static void send_rest(struct uccl_op *op, struct uccl_item *item, uint64_t first, uint64_t end)
{
	msg_item_bulk(item, UCCL_REC_EAGER, op->iov, op->iov_count, end - first);
	item->ours = op->busy;
	item->skip = first;
	uccl_rec_set_bulk(item->rec, op->tx.mseq, 0, first);
	uccl_put64(item->rec + 16, end);
	uccl_flow_submit(&op->peer->flow, item);
}

/* How a message can be sent. */
enum send_protocol {
	SEND_ALL_IN_ENVELOPE,	   /* its envelope has all of it */
	SEND_REST_AT_ONCE,	   /* the rest follows its envelope at once: it is short */
	SEND_UNSOLICITED,	   /* the first bytes of the rest do, if a receive probably waits; the others do not */
	SEND_UNSOLICITED_BY_LANES, /* likewise, and lanes bring them */
	SEND_RENDEZVOUS		   /* what its envelope does not have waits for CTS */
};

struct send_plan {
	enum send_protocol protocol;
	bool for_lanes;	/* lanes could carry it */
	uint32_t each;	/* REST_AT_ONCE: payload of each packet but the last; 0: all that it holds */
	uint64_t first; /* bytes that the envelope has, */
	uint64_t ahead; /* and that go without CTS, with these */
};

/* Of so many bytes that lie together the envelope takes these, in packets of `each` bytes if that is not 0. */
static uint64_t envelope_bytes(const struct uccl_op *op, uint64_t together, uint32_t each)
{
	const struct uccl_flow *f = &op->peer->flow;
	uint32_t most = (uint32_t)uccl_max(op->peer->msg_ep->eager_max, EAGER_LEAST);

	if ((f->limits.envelopes_only && !(op->flags & UCCL_OPF_CM)) || op->device)
		return 0;
	together = uccl_min(together, op->len > most ? uccl_words(most) : most);
	return uccl_min(together, each ? each : f->cfg.packet.chunk_bytes);
}

/* Which way does this message go? Nothing is changed here. */
static struct send_plan send_decide(const struct uccl_op *op)
{
	const struct uccl_peer *p = op->peer;
	struct send_plan plan = { .protocol = SEND_RENDEZVOUS, .for_lanes = lanes_may(op) };
	uint64_t together = op->iov_count ? uccl_min(op->iov[0].iov_len, op->len) : 0, eager;
	uint32_t each;

	eager = plan.for_lanes ? eager_beside_lanes(op, &together) : p->msg_ep->eager_max;
	each = op->len <= eager ? uccl_flow_even(&p->flow, op->len) : 0;
	plan.first = plan.ahead = envelope_bytes(op, together, each);
	if (op->len == plan.first) {
		plan.protocol = SEND_ALL_IN_ENVELOPE;
	} else if (op->flags & UCCL_OPF_CM || (op->len <= eager && !p->flow.limits.envelopes_only)) {
		/* Nobody asks for the rest of what connection management says. PROTOCOL R110 */
		plan.protocol = SEND_REST_AT_ONCE;
		plan.each = each;
		plan.ahead = op->len;
	} else if (plan.for_lanes) {
		uint64_t striped = striped_bytes(op);

		plan.protocol = striped ? SEND_UNSOLICITED_BY_LANES : SEND_RENDEZVOUS;
		plan.ahead = striped ? striped : plan.first;
	} else {
		plan.ahead = unsolicited_bytes(op, plan.first);
		plan.protocol = plan.ahead > plan.first ? SEND_UNSOLICITED : SEND_RENDEZVOUS;
		/*
		 * CTS comes before its turn does. A short envelope leaves at once, and not between payload whose
		 * place the receiver predicts. PROTOCOL R263
		 */
		if (plan.protocol == SEND_RENDEZVOUS && uccl_sendq_waits(&p->flow.sendq))
			plan.first = plan.ahead = 0;
	}
	return plan;
}

/*
 * The envelope, with the first bytes of the message; `more` of them follow at once. The message is complete when what
 * `wait` says has come, too.
 */
static uccl_inline void envelope_send(struct uccl_op *op, struct uccl_env env, uint8_t wait, uint64_t first,
				      uint64_t more, uint32_t each)
{
	struct uccl_item *item = &op->tx.env;

	env.flags |= uccl_env_flags_of(op);
	/* Acknowledged is what the peer has, which is not yet what it has put into a device's memory. */
	if (op->flags & UCCL_OPF_DELIVERY) {
		env.flags |= UCCL_ENV_DELIVERY;
		wait |= MSG_WAIT_FIN;
	}
	env.tag = op->tag;
	env.data = op->data;
	env.len = op->len;
	env.mseq = op->tx.mseq;
	env.id = wait & (MSG_WAIT_CTS | MSG_WAIT_FIN) ? op->tx.id : 0;
	msg_tx_expect(op, wait | MSG_WAIT_ENV);
	uccl_item_clear(item);
	item->rtype = UCCL_REC_MSG;
	item->ours = op->busy;
	/* What follows at once asks for the acknowledgement of both. */
	item->want_ack = !op->busy && !more && !(wait & MSG_WAIT_FIN);
	item->iov = op->iov;
	item->iov_count = op->iov_count;
	item->len = first;
	item->more = more;
	item->each = each;
	uccl_env_encode(item->rec, &env);
	uccl_flow_submit(&op->peer->flow, item);
}

static void send_env(struct uccl_op *op, struct uccl_env env, uint8_t wait, uint64_t first, uint64_t more,
		     uint32_t each)
{
	envelope_send(op, env, wait, first, more, each);
}

/*
 * While the primary carries it, it counts as what lanes could carry. Not so a copy: its acknowledgement may come late,
 * and little of them is in flight.
 */
static void send_count(struct uccl_op *op, const struct send_plan *plan)
{
	op->send.unsolicited = plan->for_lanes;
	if (plan->for_lanes)
		op->peer->send.unsolicited += op->len;
}

static void send_all_in_envelope(struct uccl_op *op, const struct send_plan *plan)
{
	send_count(op, plan);
	send_env(op, (struct uccl_env){ .flags = UCCL_ENV_EAGER }, 0, plan->first, 0, 0);
}

static void send_rest_at_once(struct uccl_op *op, const struct send_plan *plan)
{
	send_count(op, plan);
	send_env(op, (struct uccl_env){ .flags = UCCL_ENV_EAGER }, MSG_WAIT_BULK, plan->first, op->len - plan->first,
		 plan->each);
	op->tx.bulk.each = plan->each;
	op->tx.bulk.want_ack = !op->busy && !(op->tx.wait & MSG_WAIT_FIN);
	send_rest(op, &op->tx.bulk, plan->first, op->len);
}

/* CTS continues from where it ends. */
static void send_rendezvous(struct uccl_op *op, const struct send_plan *plan)
{
	send_env(op, (struct uccl_env){ .flags = 0 }, MSG_WAIT_CTS, plan->first, 0, 0);
	op->tx.bulk.skip = plan->first;
}

static void send_unsolicited(struct uccl_op *op, const struct send_plan *plan)
{
	struct uccl_env env = { .flags = UCCL_ENV_UNSOLICITED, .unsolicited = (uint32_t)plan->ahead };

	msg_tx_unsolicited(op, env.unsolicited);
	send_env(op, env, MSG_WAIT_CTS | MSG_WAIT_LEAD, plan->first, plan->ahead - plan->first, 0);
	uccl_item_clear(&op->send.lead);
	op->send.lead.lead = true;
	/* Behind it comes what asks for both. */
	op->send.lead.want_ack = !op->busy && plan->ahead == op->len && !(op->tx.wait & MSG_WAIT_FIN);
	send_rest(op, &op->send.lead, plan->first, plan->ahead);
	op->tx.bulk.skip = plan->ahead;
}

/* False: no lane takes it. */
static bool send_unsolicited_by_lanes(struct uccl_op *op, const struct send_plan *plan)
{
	struct uccl_env env = { .flags = UCCL_ENV_UNSOLICITED | UCCL_ENV_LANES, .unsolicited = (uint32_t)plan->ahead };

	env.lanes = lanes_for_unsolicited(op->peer, plan->ahead);
	if (!env.lanes || !lanes_send(op, 0, plan->ahead, 0, UCCL_CTS_LANES | env.lanes, MSG_WAIT_LEAD))
		return false;
	msg_tx_unsolicited(op, env.unsolicited);
	/* The sooner the envelope is there the fewer of them come before it. */
	send_env(op, env, MSG_WAIT_CTS | MSG_WAIT_LEAD, 0, 0, 0);
	op->tx.bulk.skip = plan->ahead;
	return true;
}

/* Its turn has come: hand the message to the flow. */
static void send_submit(struct uccl_op *op)
{
	struct send_plan plan = send_decide(op);

	uccl_item_clear(&op->tx.bulk);
	op->tx.bulk.ours = op->busy;
	switch (plan.protocol) {
	case SEND_ALL_IN_ENVELOPE:
		send_all_in_envelope(op, &plan);
		break;
	case SEND_REST_AT_ONCE:
		send_rest_at_once(op, &plan);
		break;
	case SEND_UNSOLICITED:
		send_unsolicited(op, &plan);
		break;
	case SEND_UNSOLICITED_BY_LANES:
		if (send_unsolicited_by_lanes(op, &plan))
			break;
		/* fall through */
	case SEND_RENDEZVOUS:
		send_rendezvous(op, &plan);
		break;
	}
}

/* Take an eager message back from the flow. False: some of it has left, as what lanes have did. */
static bool send_withdraw(struct uccl_op *op)
{
	struct uccl_flow *f = &op->peer->flow;
	struct uccl_item *rest = op->tx.wait & MSG_WAIT_LEAD ? &op->send.lead : &op->tx.bulk;

	/* The rest may go first, where the window has room for it and not for the envelope's payload. */
	if (op->len > op->tx.env.len &&
	    (!(op->tx.wait & (MSG_WAIT_BULK | MSG_WAIT_LEAD)) || !uccl_flow_withdraw(f, rest)))
		return false;
	if (uccl_flow_withdraw(f, &op->tx.env))
		return true;
	if (op->tx.wait & (MSG_WAIT_BULK | MSG_WAIT_LEAD))
		uccl_flow_submit(f, rest);
	return false;
}

/*
 * A peer may run short again and again. What had begun the last time became what it can be then, so only what has begun
 * since is looked at: it is behind the others.
 */
static struct uccl_op *hold_first(struct uccl_peer *p)
{
	uint64_t since = p->tx.mseq - p->send.hold_mseq;
	struct uccl_op *op, *first = NULL;

	for (op = TAILQ_LAST(&p->tx.sends, uccl_op_list); op; op = TAILQ_PREV(op, uccl_op_list, link)) {
		if ((uint32_t)p->tx.mseq - op->tx.mseq > since)
			break;
		first = op;
	}
	p->send.hold_mseq = p->tx.mseq;
	return first;
}

/*
 * What waits in the flow would fill the peer's memory as surely as what is sent from now on: it becomes envelopes
 * too. So what still comes unsolicited is at most what is in flight. PROTOCOL R42
 */
void uccl_msg_hold(struct uccl_peer *p)
{
	struct uccl_op *op, *next;
	struct uccl_op_list again;

	TAILQ_INIT(&again);
	for (op = hold_first(p); op; op = next) {
		next = TAILQ_NEXT(op, link);
		uccl_match_step(&p->msg_ep->match);
		if (op->type != UCCL_OP_SEND || op->tx.abort || !op->len || !op->tx.env.queued ||
		    (op->tx.wait & (MSG_WAIT_CTS | MSG_WAIT_LEAD)) == MSG_WAIT_CTS)
			continue;
		if ((!op->tx.id && !msg_tx_id(p->msg_ep, op)) || !send_withdraw(op))
			continue;
		unsolicited_drop(op);
		msg_tx_unbegun(op);
		TAILQ_INSERT_TAIL(&again, op, link);
	}
	while ((op = TAILQ_FIRST(&again))) {
		TAILQ_REMOVE(&again, op, link);
		msg_tx_begun(op);
		send_submit(op);
	}
}

static void self_end(struct uccl_op *op, int err)
{
	msg_tx_expect(op, 0);
	msg_tx_finish(op, err);
}

static void self_copied(struct uccl_copy *c, uint64_t now)
{
	struct uccl_msg_rx *rx = uccl_container_of(c, struct uccl_msg_rx, place.copy);
	struct uccl_op *send = rx->self.send, *op = rx->self.recv;
	int err = msg_posted_result(op, rx->env.flags, rx->env.tag, rx->env.data, rx->env.len,
				    uccl_min(rx->env.len, op->len));
	struct uccl_peer *p = rx->peer;
	int failed = c->err;

	(void)now;
	msg_rx_free(rx);
	self_end(send, failed);
	msg_posted_done(op, p, failed ? failed : err);
}

/* Memory to memory. */
static void self_matched(struct uccl_msg_rx *rx, struct uccl_op *op, uint64_t now)
{
	struct uccl_op *send = rx->self.send;
	struct uccl_msg_ep *m = rx->peer->msg_ep;

	send->send.self = NULL;
	rx->self.recv = op;
	msg_move(m, &rx->place.copy, op->iov, op->iov_count, op->device, send->iov, send->iov_count, send->device,
		 uccl_min(rx->env.len, op->len));
	if (msg_copied(m, &rx->place.copy))
		self_copied(&rx->place.copy, now);
	else
		msg_copy_wait(m, &rx->place.copy, self_copied);
}

void msg_self_drop(struct uccl_msg_rx *rx, int err)
{
	struct uccl_op *send = rx->self.send;

	msg_rx_free(rx);
	self_end(send, err);
}

static void self_unwanted(struct uccl_msg_rx *rx, uint64_t now)
{
	(void)now;
	msg_self_drop(rx, 0);
}

static const struct msg_rx_ops self_rx_ops = {
	.matched = self_matched,
	.unwanted = self_unwanted,
};

/* A message to ourselves: it waits for its receive as those of peers do. */
static int send_self(struct uccl_msg_ep *m, struct uccl_op *op, uint64_t now)
{
	struct uccl_peer *p = op->peer;
	struct uccl_env env = {
		.tag = op->tag,
		.data = op->data,
		.len = op->len,
		.flags = uccl_env_flags_of(op) | UCCL_ENV_EAGER,
	};
	struct uccl_msg_rx *rx = msg_rx_own(p, &self_rx_ops);
	struct uccl_op *recv;
	bool early;
	int copied;

	if (!rx)
		return -FI_EAGAIN;
	copied = send_may_copy(m, op);
	if (copied < 0) {
		msg_rx_free(rx);
		return copied;
	}
	early = send_is_early(op, copied);
	msg_tx_keep(op, early);
	msg_rx_set_env(rx, &self_rx_ops, &env, 0);
	rx->self.send = op;
	op->send.self = rx;
	msg_tx_begun(op);
	msg_tx_list(op);
	msg_tx_limit(op, now);
	if (early)
		send_early(op);
	uccl_match_list(&m->match, rx);
	/*
	 * The receive that waits for it, if there is one, takes it off the list as a receive that is posted later
	 * would.
	 */
	recv = uccl_match_posted(&m->match, uccl_env_kind(rx->env.flags), p, rx->env.tag);
	if (recv)
		msg_rx_match(m, rx, recv, now);
	else
		m->stats->unexpected++;
	return 0;
}

static enum uccl_drop send_answered(struct uccl_op *op, const struct uccl_resp *resp)
{
	(void)resp;
	msg_tx_arrived(op, MSG_WAIT_FIN);
	return UCCL_DROP_COUNT;
}

static const struct msg_tx_ops send_tx_ops = {
	.submit = send_submit,
	.loaded = send_loaded,
	.answered = send_answered,
	.ended = unsolicited_drop,
};

/* A usual message that begins at once. */
static void send_submit_usual(struct uccl_op *op)
{
	envelope_send(op, (struct uccl_env){ .flags = UCCL_ENV_EAGER }, 0, op->len, 0, 0);
}

static const struct msg_tx_ops usual_tx_ops = {
	.submit = send_submit_usual,
	.answered = send_answered,
	.ended = unsolicited_drop,
};

int uccl_msg_send(struct uccl_msg_ep *m, struct uccl_op *op, uint64_t now)
{
	struct uccl_peer *p = op->peer;
	bool begins, usual, early;
	int copied;

	if (p->dead)
		return -p->dead;
	if (!msg_tx_may_limit(m, op))
		return -FI_EAGAIN;
	if (p->self) {
		msg_tx_make(op, &send_tx_ops);
		return send_self(m, op, now);
	}
	/* What has to wait may find the peer short of memory when its turn comes; lanes may be wanted. */
	begins = msg_tx_may_begin(p, op) && TAILQ_EMPTY(&p->tx.pending);
	usual = begins && send_is_usual(op);
	msg_tx_make(op, usual ? &usual_tx_ops : &send_tx_ops);
	if ((!usual || op->flags & UCCL_OPF_DELIVERY) && !msg_tx_id(m, op))
		return -FI_EAGAIN;
	copied = send_may_copy(m, op);
	if (copied < 0) {
		msg_tx_id_put(m, op);
		return copied;
	}
	early = !op->tx.loading && send_is_early(op, copied);
	msg_tx_keep(op, early);
	if (op->tx.loading)
		msg_tx_load(m, op);
	if (begins && !op->tx.loading)
		msg_tx_begin(m, op, now);
	else
		msg_tx_post(m, op, now);
	if (early && m->tx.deferred != op)
		send_early(op);
	return 0;
}

struct iovec uccl_msg_deferred_from(const struct uccl_msg_ep *m, const uint8_t **to)
{
	*to = m->tx.deferred->tx.bounce;
	return m->tx.deferred->iov[0];
}

void uccl_msg_copy_deferred(struct uccl_msg_ep *m)
{
	struct uccl_op *op = m->tx.deferred;

	msg_tx_defer(m, NULL);
	memcpy(op->tx.bounce, op->iov[0].iov_base, op->len);
	uccl_flow_moved(&op->peer->flow, op->iov[0].iov_base, op->tx.bounce);
	op->iov[0].iov_base = op->tx.bounce;
	if (op->busy)
		send_early(op);
}
