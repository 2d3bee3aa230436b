/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The receiving side. Envelopes are matched in message order, whatever order the paths deliver them in; payload is
 * placed as it comes. The common case, a whole message in order for a posted receive, touches nothing but the receive.
 */
#include "msg/recv/recv.h"

#include <rdma/fi_errno.h>

#include "base/seq.h"
#include "base/units.h"
#include "lanes/lanes.h"
#include "msg/iov.h"
#include "msg/recv/posted.h"
#include "msg/recv/unexpected.h"

static void recv_to(struct uccl_msg_rx *rx, struct uccl_op *op)
{
	msg_rx_unhold(rx);
	rx->recv.op = op;
	msg_rx_to(rx, op->iov, op->iov_count, op->device, uccl_min(rx->env.len, op->len));
}

/* Lanes cannot copy to a device: what they bring stays until it is whole. */
static bool recv_keeps(const struct uccl_msg_rx *rx)
{
	return rx->lanes.senders && rx->place.device && !rx->recv.failed;
}

/*
 * It has a place, or needs none: lanes may bring its unsolicited data (PROTOCOL R266), and the rest is asked for. Its
 * envelope was acknowledged, so without memory the sender would wait for ever. PROTOCOL R312
 */
static void recv_rest(struct uccl_msg_rx *rx, bool ask, uint64_t now)
{
	struct uccl_peer *p = rx->peer;

	if ((rx->lanes.senders && !lanes_rx_post_unsolicited(rx)) || (ask && msg_rx_cts(rx, now))) {
		p->msg_ep->ops->broken(p, FI_ENOMEM);
		return;
	}
	msg_rx_check(rx, now);
}

/* The receive for this message is known. */
static void recv_matched(struct uccl_msg_rx *rx, struct uccl_op *op, uint64_t now)
{
	recv_to(rx, op);
	if (rx->hold.buf && !recv_keeps(rx)) {
		/* A gap in it is filled by payload still to come. */
		msg_rx_move(rx, uccl_min(rx->lanes.senders ? rx->arrived.got : rx->hold.buf_len, rx->place.limit));
		msg_rx_buffer_free(rx);
	}
	if (rx->recv.failed) {
		msg_rx_failed(rx, rx->recv.failed);
		return;
	}
	/* Of a peer that ended all is here, or it had failed. */
	recv_rest(rx, !(rx->env.flags & UCCL_ENV_EAGER) && !rx->peer->dead, now);
}

/* The rest of a message that nobody wants is not asked for; what still comes is dropped. */
static void recv_unwanted(struct uccl_msg_rx *rx, uint64_t now)
{
	rx->recv.discarded = true;
	msg_rx_nowhere(rx, 0);
	msg_rx_buffer_free(rx);
	if (rx->recv.failed) {
		msg_rx_free(rx);
		return;
	}
	if (!(rx->env.flags & UCCL_ENV_EAGER) && !rx->peer->dead) {
		msg_rx_nowhere(rx, rx->arrived.eager);
		recv_rest(rx, true, now);
		return;
	}
	msg_rx_check(rx, now);
}

/* An envelope whose turn it is, its message in memory of ours: match it or list it. */
static void recv_turn(struct uccl_msg_rx *rx, uint64_t now)
{
	struct uccl_msg_ep *m = rx->peer->msg_ep;
	struct uccl_op *recv, *op;

	recv = uccl_match_posted(&m->match, uccl_env_kind(rx->env.flags), rx->peer, rx->env.tag);
	op = recv ? msg_posted_take(m, recv, rx->env.len) : NULL;
	if (op) {
		recv_matched(rx, op, now);
		return;
	}
	m->stats->unexpected++;
	rx->recv.unexpected = true;
	uccl_match_list(&m->match, rx);
}

static void recv_whole(struct uccl_msg_rx *rx, uint64_t now)
{
	if (rx->recv.op || rx->recv.discarded)
		msg_rx_check(rx, now);
}

static void recv_placed(struct uccl_msg_rx *rx, uint64_t now)
{
	struct uccl_peer *p = rx->peer;
	struct uccl_op *op = rx->recv.op;

	(void)now;
	msg_rx_fin(rx, 0);
	rx->recv.op = NULL;
	if (op) {
		int err = msg_posted_result(op, rx->env.flags, rx->env.tag, rx->env.data, rx->env.len, rx->place.limit);

		err = rx->place.copy.err ? rx->place.copy.err : err;
		/* The message first: done() may post and match again. */
		msg_rx_release(rx);
		msg_posted_done(op, p, err);
	} else {
		msg_rx_release(rx);
	}
}

static void recv_failed(struct uccl_msg_rx *rx, int err)
{
	struct uccl_peer *p = rx->peer;
	struct uccl_op *op = rx->recv.op;

	if (op) {
		rx->recv.op = NULL;
		op->tag = rx->env.tag;
		op->refusal = p->dead ? UCCL_REFUSED_NOT : UCCL_TAKEN_BACK;
		msg_rx_free(rx);
		msg_posted_none(op, p, err);
		return;
	}
	/* What is whole can still be received; what is not fails the receive that will match it. */
	if (rx->in_order && !rx->recv.discarded && !rx->finished) {
		msg_rx_unhash(rx);
		rx->recv.failed = rx->arrived.got < rx->env.len ? err : 0;
		return;
	}
	msg_rx_free(rx);
}

static const struct msg_rx_ops recv_rx_ops = {
	.turn = recv_turn,
	.whole = recv_whole,
	.matched = recv_matched,
	.unwanted = recv_unwanted,
	.placed = recv_placed,
	.failed = recv_failed,
};

/* A whole message in order, and a receive waits for it. */
static void recv_at_once(struct uccl_peer *p, const struct uccl_env *env, struct uccl_op *op, const uint8_t *data)
{
	uint64_t n = uccl_min(env->len, op->len);
	int err;

	if (n)
		msg_copy_in(op->iov, op->iov_count, 0, data, n);
	err = msg_posted_result(op, env->flags, env->tag, env->data, env->len, n);
	msg_posted_done(op, p, err);
}

/* PROTOCOL R110 */
static enum uccl_drop recv_cm(const struct uccl_peer *p, const struct uccl_env *env)
{
	if (!p->msg_ep->sole.only)
		return UCCL_DROP_UNWANTED;
	return env->len > UCCL_CM_MAX || !(env->flags & UCCL_ENV_EAGER) ? UCCL_DROP_RECORD : UCCL_DROP_COUNT;
}

/* So much of it comes without CTS. */
static uint64_t env_unsolicited(const struct uccl_env *env, uint32_t here)
{
	if (env->flags & UCCL_ENV_EAGER)
		return env->len;
	return env->flags & UCCL_ENV_UNSOLICITED ? env->unsolicited : here;
}

/* With so much payload it says nothing that cannot be. PROTOCOL R28 R263 */
static bool env_fits(const struct uccl_env *env, uint32_t here)
{
	if (here > env->len || (!env->id && env->flags & UCCL_ENV_DELIVERY))
		return false;
	if (env->flags & UCCL_ENV_LANES && !env->lanes)
		return false;
	if (env->flags & UCCL_ENV_UNSOLICITED)
		return env->id && !(env->flags & UCCL_ENV_EAGER) && here < env->unsolicited &&
		       env->unsolicited <= UCCL_UNSOLICITED_MAX;
	/* All of it, and not eager: nobody could tell whether it still waits for CTS. */
	if (!(env->flags & UCCL_ENV_EAGER))
		return env->id && here < env->len;
	return env->len <= uccl_max(here, UCCL_EAGER_MAX);
}

enum uccl_drop msg_recv_env(struct uccl_peer *p, const struct uccl_chunk_in *in, uint64_t now)
{
	struct uccl_msg_ep *m = p->msg_ep;
	struct uccl_msg_rx *rx;
	struct uccl_env env;
	uint64_t mseq, eager;
	bool turn, by_lanes;

	uccl_env_decode(&env, in->rec);
	uccl_msg_lone(m);
	mseq = uccl_seq_expand(p->rx.mseq, env.mseq, 32);
	eager = env_unsolicited(&env, in->len);
	if (mseq < p->rx.mseq || mseq - p->rx.mseq >= UCCL_MSG_LIMIT || !env_fits(&env, in->len) ||
	    env.lanes & ~lanes_of_peer(p))
		return UCCL_DROP_RECORD;
	if (env.flags & UCCL_ENV_CM) {
		enum uccl_drop reason = recv_cm(p, &env);

		if (reason != UCCL_DROP_COUNT)
			return reason;
	} else if (uccl_sole_peer_bars(&m->sole, p)) {
		return UCCL_DROP_UNWANTED;
	}
	if (env.flags & UCCL_ENV_UNSOLICITED && !env.lanes && p->flow.cfg.packet.chunk_bytes >= UCCL_PLACEMENT_MIN)
		uccl_msg_followed(m);
	turn = mseq == p->rx.mseq;
	rx = msg_rx_any(p) ? msg_rx_find(p, mseq) : NULL;
	if (!rx && turn && eager == in->len && (env.flags & UCCL_ENV_EAGER) && !(env.flags & UCCL_ENV_DELIVERY)) {
		struct uccl_op *recv = uccl_match_posted(&m->match, uccl_env_kind(env.flags), p, env.tag);
		struct uccl_op *op = recv && !recv->device ? msg_posted_take(m, recv, env.len) : NULL;

		if (op) {
			msg_rx_next(p);
			recv_at_once(p, &env, op, in->data);
			msg_rx_drain(p, now);
			return UCCL_DROP_COUNT;
		}
	}
	/* More of it came before: the envelope must agree with that, and bring what is missing. */
	if (rx && (rx->env.have || env.lanes || rx->arrived.eager != eager ||
		   !(env.flags & (UCCL_ENV_EAGER | UCCL_ENV_UNSOLICITED)) || in->len > eager - rx->arrived.got))
		return UCCL_DROP_RECORD;
	if (!rx) {
		/* It must be found again if its turn has not come, or more of it comes by message sequence. */
		rx = msg_rx_new(p, mseq, eager, !turn || (eager > in->len && !env.lanes));
		if (!rx)
			return UCCL_DROP_MEMORY;
		lanes_rx_senders(rx, env.lanes);
	}
	if (!msg_rx_range_new(rx, 0, in->len, eager))
		return UCCL_DROP_OVERLAP;
	if (turn && !rx->hold.buf && !rx->arrived.got && msg_rx_meets(env.flags, in->len, eager)) {
		/* Straight to the receive if there is one. */
		struct uccl_op *recv = uccl_match_posted(&m->match, uccl_env_kind(env.flags), p, env.tag);
		bool keeps = recv && recv->device && rx->lanes.senders;
		struct uccl_op *op = recv && !keeps ? msg_posted_take(m, recv, env.len) : NULL;

		if (op) {
			msg_rx_set_env(rx, &recv_rx_ops, &env, eager);
			msg_rx_turn(rx);
			recv_to(rx, op);
			if (in->len)
				msg_rx_place(rx, 0, in->data, in->len);
			recv_matched(rx, op, now);
			msg_rx_drain(p, now);
			return UCCL_DROP_COUNT;
		}
	}
	/* What lanes bring stays with them until it has a place, or may have to be kept for a device. */
	by_lanes = rx->lanes.senders && !m->device.ops;
	if ((by_lanes && msg_rx_unplaced(rx, eager - in->len)) ||
	    msg_rx_buffer(rx, by_lanes ? in->len : eager, in->len)) {
		msg_rx_free(rx);
		return UCCL_DROP_MEMORY;
	}
	msg_rx_set_env(rx, &recv_rx_ops, &env, eager);
	if (in->len)
		msg_rx_place(rx, 0, in->data, in->len);
	if (turn && !rx->hashed) {
		msg_rx_turn(rx);
		recv_turn(rx, now);
	}
	msg_rx_drain(p, now);
	return UCCL_DROP_COUNT;
}

/* Receives behind a buffer that is posted no more. These need no room. */
static void recv_passed(struct uccl_msg_ep *m, uint64_t now)
{
	struct uccl_msg_rx *rx;
	struct uccl_op *recv;

	while ((recv = TAILQ_FIRST(&m->match.passed))) {
		rx = uccl_match_left(&m->match, recv);
		if (rx)
			msg_rx_match(m, rx, recv, now);
		else
			uccl_match_unstarve(&m->match, recv);
	}
}

void msg_recv_retry(struct uccl_msg_ep *m, uint64_t now)
{
	struct uccl_msg_rx *rx;
	struct uccl_op *recv;

	recv_passed(m, now);
	if (!msg_posted_room(m))
		return;
	msg_posted_fed(m);
	while (!m->posted.starved && (recv = TAILQ_FIRST(&m->match.starved))) {
		rx = uccl_match_left(&m->match, recv);
		uccl_match_unstarve(&m->match, recv);
		if (!rx)
			continue;
		/* The next room is for the next one. */
		uccl_match_starve(&m->match, recv);
		msg_rx_match(m, rx, recv, now);
		/* It may be used up, and nobody comes back for those behind it. */
		recv_passed(m, now);
	}
}

/* The first unexpected message for this receive. Those that wait for an op belong to receives posted before it. */
static struct uccl_msg_rx *unexpected_for(struct uccl_msg_ep *m, const struct uccl_op *op)
{
	return m->posted.starved ? uccl_match_left(&m->match, op) : uccl_match_unexpected(&m->match, op);
}

int msg_recv(struct uccl_msg_ep *m, struct uccl_op *op, uint64_t now)
{
	struct uccl_msg_rx *rx;

	msg_posted_fresh(op);
	while ((rx = unexpected_for(m, op))) {
		bool multi = op->flags & UCCL_OPF_MULTI;
		struct uccl_op *taken;

		/* msg_posted_take takes it off the queue again, so that there is one way to do so. */
		uccl_match_post(&m->match, op);
		taken = msg_posted_take(m, op, rx->env.len);
		if (!taken)
			return 0;
		if (multi && !op->recv.multi.closed)
			uccl_match_unpost(&m->match, op);
		uccl_match_unlist(&m->match, rx);
		multi = multi && !op->recv.multi.closed;
		rx->ops->matched(rx, taken, now);
		if (!multi)
			return 0;
	}
	if ((op->flags & UCCL_OPF_DIRECTED) && op->peer->dead)
		msg_posted_none(op, op->peer, op->peer->dead);
	else if (m->gone)
		msg_posted_none(op, NULL, m->gone);
	else
		uccl_match_post(&m->match, op);
	return 0;
}

int uccl_msg_peek(struct uccl_msg_ep *m, struct uccl_op *op, bool claim, bool discard, uint64_t now)
{
	struct uccl_msg_rx *rx = unexpected_for(m, op);

	if (!rx)
		return -FI_ENOMSG;
	msg_posted_result(op, rx->env.flags, rx->env.tag, rx->env.data, rx->env.len, rx->env.len);
	op->from = rx->peer;
	if (discard) {
		uccl_match_unlist(&m->match, rx);
		rx->ops->unwanted(rx, now);
	} else if (claim) {
		uccl_match_claim(&m->match, rx, op->context);
	}
	return 0;
}

int uccl_msg_recv_claimed(struct uccl_msg_ep *m, struct uccl_op *op, bool discard, uint64_t now)
{
	struct uccl_msg_rx *rx = uccl_match_claimed(&m->match, op->context);

	if (!rx)
		return -FI_ENOMSG;
	if (discard) {
		struct uccl_peer *from = rx->peer;

		op->tag = rx->env.tag;
		rx->ops->unwanted(rx, now);
		msg_posted_none(op, from, 0);
		return 0;
	}
	msg_posted_whole(op);
	rx->ops->matched(rx, op, now);
	return 0;
}
