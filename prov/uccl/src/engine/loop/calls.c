/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* What api calls: peers by address, and operations. */
#include <rdma/fi_errno.h>
#include <string.h>

#include "engine/impl.h"
#include "msg/abort.h"
#include "msg/send/msg_tx.h"

/*
 * Who is asked for by its place: the one that we are connected to, if there is one. `incarnation`: 0, or of one that
 * is found by another address, and is there for us because something on the way translates it (PROTOCOL R373).
 */
static struct conn *peer_there(struct uccl_engine *e, const struct uccl_nic_addr *at, uint64_t incarnation)
{
	struct conn *c, *found = NULL;

	for (c = conns_at(e, at); c; c = TAILQ_NEXT(c, entry.place_link))
		if (!c->hs.remote.indirect && (!found || c->peer.open) &&
		    (!incarnation || c->hs.remote.incarnation == incarnation))
			found = c;
	return found;
}

/* PROTOCOL R295 */
#define BACKOFF_MIN_NS UCCL_NS_PER_MS
#define BACKOFF_MAX_NS (100 * UCCL_NS_PER_MS)

/* `c` follows `last`, which has ended. If that never opened, `c` waits before its first packet. */
static void conn_back_off(struct conn *c, const struct conn *last)
{
	uint64_t wait = BACKOFF_MAX_NS;

	if (c->hs.state != UCCL_CONN_IDLE || last->opened.number)
		return;
	c->failed_attempts = (uint8_t)uccl_min(last->failed_attempts + 1, 16);
	if (c->failed_attempts < 8)
		wait = uccl_min(BACKOFF_MIN_NS << (c->failed_attempts - 1), BACKOFF_MAX_NS);
	c->not_before_ns = last->state.ended_ns + wait;
}

struct uccl_peer *uccl_engine_peer(struct uccl_engine *e, const struct uccl_addr *addr, bool create)
{
	struct conn *c;

	/* Who is at our own place is known. */
	if (uccl_addr_keyless(addr) && uccl_nic_addr_equal(&addr->nic, &e->identity.addr.nic))
		addr = &e->identity.addr;
	c = conn_find(e, &addr->nic, addr->incarnation);
	if (!c)
		c = peer_there(e, &addr->nic, addr->incarnation);
	if (!c && create)
		c = conn_new(e, addr, true);
	/* It connected to us first, without showing its key: now we know it. */
	if (c && c->hs.state != UCCL_CONN_OPEN && !uccl_addr_keyless(addr)) {
		memcpy(c->hs.remote.key, addr->key, UCCL_KEY_LEN);
		uccl_key_mix(c->hs.remote.key, e->identity.listener.group);
	}
	if (!c)
		return NULL;
	conn_request(&c->state);
	if (c->entry.half)
		conn_wake(c, e->now);
	uccl_peer_hold(&c->peer);
	return &c->peer;
}

struct uccl_peer *uccl_peer_reconnect(struct uccl_peer *p, const struct uccl_addr *addr)
{
	struct conn *last = peer_conn(uccl_peer_first(p));
	struct uccl_peer *again = uccl_engine_peer(last->e, addr, true);

	if (!again)
		return NULL;
	if (peer_conn(again) != last)
		conn_back_off(peer_conn(again), last);
	uccl_peer_release(p);
	return again;
}

void uccl_peer_hold(struct uccl_peer *p)
{
	conn_hold(&peer_conn(p)->state);
}

void uccl_peer_release(struct uccl_peer *p)
{
	struct conn *c = peer_conn(p);

	conn_release(c, c->e->now);
}

int uccl_peer_ended(const struct uccl_peer *p)
{
	return uccl_peer_first(p)->dead;
}

bool uccl_peer_error_reported(const struct uccl_peer *p)
{
	return uccl_peer_first(p)->error_reported;
}

void uccl_peer_mark_reported(struct uccl_peer *p)
{
	uccl_peer_first(p)->error_reported = true;
}

const struct uccl_addr *uccl_peer_addr(const struct uccl_peer *p)
{
	return &uccl_peer_first(p)->addr;
}

bool uccl_peer_same(const struct uccl_peer *p, const struct uccl_peer *q)
{
	return uccl_peer_first(p) == uccl_peer_first(q);
}

bool uccl_peer_closed(const struct uccl_peer *p)
{
	const struct conn *c = peer_conn(uccl_peer_first(p));

	return c->state.closed && c->state.reason == UCCL_CLOSE_ENDPOINT;
}

uint64_t uccl_peer_user(const struct uccl_peer *p)
{
	return uccl_peer_first(p)->user;
}

void uccl_peer_set_user(struct uccl_peer *p, uint64_t user)
{
	uccl_peer_first(p)->user = user;
}

struct uccl_op *uccl_op_get(struct uccl_engine *e)
{
	return uccl_msg_ep_op_get(&e->msg_ep);
}

struct uccl_op *uccl_op_get_recv(struct uccl_engine *e)
{
	return uccl_msg_ep_op_recv(&e->msg_ep);
}

struct uccl_op *uccl_op_get_send(struct uccl_engine *e)
{
	return uccl_msg_ep_op_send(&e->msg_ep);
}

void uccl_op_put(struct uccl_engine *e, struct uccl_op *op)
{
	uccl_msg_ep_op_put(&e->msg_ep, op);
}

/* Does something wait to leave that no poll further up takes with it? */
static inline bool engine_pushes(const struct uccl_engine *e)
{
	return !e->poll.polling && (!TAILQ_EMPTY(&e->out.ready) || !TAILQ_EMPTY(&e->conns.hsq));
}

/* What a call queued leaves at once. */
static inline void engine_push(struct uccl_engine *e, uint64_t now)
{
	if (engine_pushes(e))
		engine_tx(e, now);
}

bool uccl_engine_waits(const struct uccl_engine *e)
{
	return !TAILQ_EMPTY(&e->out.ready) && !e->poll.polling;
}

/*
 * A program that sends for long without a round hears of no loss meanwhile, and what is behind it waits at the peer. A
 * round costs some us, so it is worth as much as a message of so many bytes. PROTOCOL R245
 */
#define UNREAD_BYTES (1u << 20)

bool uccl_engine_unread(const struct uccl_engine *e)
{
	return e->poll.posted >= UNREAD_BYTES && !e->poll.polling;
}

/* An operation comes in, for whom it really is; call_end follows it. Returns its time. */
static uint64_t call_begin(struct uccl_engine *e, struct uccl_op *op, uint64_t now)
{
	op->peer = uccl_peer_first(op->peer);
	return engine_time(e, now);
}

static int call_end(struct uccl_engine *e, int rc, uint64_t now)
{
	engine_push(e, now);
	return rc;
}

/*
 * A stream: the program has posted this many short messages to a peer in a row, with at most this time between two of
 * them, and received nothing. It is ahead of its peer.
 */
#define STREAM_MESSAGES 16
#define STREAM_GAP_NS (50 * UCCL_NS_PER_US)
/* Most bytes that wait together; what a shorter message counts; and the longest wait while more messages are posted. */
#define STREAM_BYTES 32768
#define STREAM_LEAST 2048
#define STREAM_WAIT_NS (20 * UCCL_NS_PER_US)

/*
 * A message that one packet holds was submitted: may it wait for others to fill a train? A call of the kernel costs as
 * much as some of them. PROTOCOL R420
 */
static bool send_streams(struct conn *c, uint32_t flags, uint64_t len, uint64_t now)
{
	const struct uccl_engine *e = c->e;
	struct uccl_flow *f = &c->peer.flow;

	if (conn_tx_stream(&c->tx, e->rx.chunks, STREAM_GAP_NS, now) < STREAM_MESSAGES || !e->poll.may_gather ||
	    e->poll.polling || e->nic->watched || !c->peer.open || f->train.state != UCCL_TRAINS_ON ||
	    flags & (UCCL_OPF_FENCE | UCCL_OPF_CM | UCCL_OPF_COLL))
		return false;
	len = uccl_max(len, STREAM_LEAST);
	if (conn_tx_gather(&c->tx, len, now) + len <= STREAM_BYTES && now - c->tx.waits_ns <= STREAM_WAIT_NS)
		return true;
	uccl_flow_gathered(f);
	return false;
}

/* What was sent from the program's buffer is copied. */
static void send_late(struct uccl_engine *e)
{
	const uint8_t *to;
	struct iovec from = uccl_msg_deferred_from(&e->msg_ep, &to);

	engine_tx_moved(e, from, to);
	uccl_msg_copy_deferred(&e->msg_ep);
}

/*
 * A message of so many bytes was submitted, in several packets. The peer has enough to do, and a program that sends so
 * much will read its acknowledgements: may it wait for others to fill a train? PROTOCOL R262
 */
static bool send_gathers(struct conn *c, uint32_t flags, uint64_t len, uint64_t now)
{
	struct uccl_flow *f = &c->peer.flow;

	if (len <= f->chunk_bytes)
		return send_streams(c, flags, len, now);
	if (len > c->e->msg_ep.eager_max || !uccl_flow_even(f, len))
		return false;
	/* One more like it fits. */
	if (conn_tx_gather(&c->tx, len, now) + len <= f->train_bytes)
		return true;
	uccl_flow_gathered(f);
	return false;
}

int uccl_engine_send(struct uccl_engine *e, struct uccl_op *op, uint64_t now)
{
	struct conn *c;
	uint64_t len = op->len;
	uint32_t flags = op->flags;
	int rc;

	now = call_begin(e, op, now);
	c = peer_conn(op->peer);
	engine_posted(&e->poll, len);
	/* What the NIC has read when it returns is its own, so a copy for later need not come first. */
	e->msg_ep.tx.may_defer = e->nic->caps.tx_sync && !e->poll.polling;
	rc = uccl_msg_send(&e->msg_ep, op, now);
	if (rc || !send_gathers(c, flags, len, now))
		engine_push(e, now);
	e->msg_ep.tx.may_defer = false;
	if (e->msg_ep.tx.deferred)
		send_late(e);
	return rc;
}

bool uccl_engine_recv_waits(struct uccl_engine *e, struct uccl_op *op)
{
	op->peer = uccl_peer_first(op->peer);
	return !engine_pushes(e) && uccl_msg_recv_waits(&e->msg_ep, op);
}

int uccl_engine_recv(struct uccl_engine *e, struct uccl_op *op, uint64_t now)
{
	now = call_begin(e, op, now);
	return call_end(e, uccl_msg_recv(&e->msg_ep, op, now), now);
}

/* Number of operations under way to a peer at which a program is taken for busy: it will read their completions. */
#define GATHER_OPS 32
/* Bytes of a train that a request takes beside its payload. */
#define GATHER_LEAST 1024

/*
 * A request was submitted. Many are under way to this peer, so it has enough to do: may this one wait for others to
 * fill a train? PROTOCOL R392
 */
static bool rma_gathers(struct conn *c, uint64_t payload, bool fence, uint64_t now)
{
	struct uccl_flow *f = &c->peer.flow;
	uint64_t bytes = payload + GATHER_LEAST;

	if (fence || !c->e->nic->caps.train_bytes || msg_tx_under_way(&c->peer) < GATHER_OPS ||
	    f->train.state != UCCL_TRAINS_ON)
		return false;
	if (conn_tx_gather(&c->tx, bytes, now) + bytes <= uccl_flow_burst_least(f))
		return true;
	uccl_flow_gathered(f);
	return false;
}

int uccl_engine_rma(struct uccl_engine *e, struct uccl_op *op, uint64_t now)
{
	uint64_t payload = op->type == UCCL_OP_READ ? 0 : op->len;
	bool fence = op->flags & UCCL_OPF_FENCE;
	struct conn *c;
	int rc;

	now = call_begin(e, op, now);
	c = peer_conn(op->peer);
	engine_posted(&e->poll, op->len);
	rc = uccl_msg_rma(&e->msg_ep, op, now);
	/* Of a short write that waits for CTS only the request leaves. One to ourselves may be done. */
	if (!rc && !c->peer.self && payload <= UCCL_ORDER_MAX && op->tx.wait & MSG_WAIT_CTS)
		payload = 0;
	if (rc || !rma_gathers(c, payload, fence, now))
		engine_push(e, now);
	return rc;
}

int uccl_engine_peek(struct uccl_engine *e, struct uccl_op *op, bool claim, bool discard, uint64_t now)
{
	now = call_begin(e, op, now);
	return call_end(e, uccl_msg_peek(&e->msg_ep, op, claim, discard, now), now);
}

int uccl_engine_recv_claimed(struct uccl_engine *e, struct uccl_op *op, bool discard, uint64_t now)
{
	/* Of whom it is was found out when it was claimed. */
	now = engine_time(e, now);
	return call_end(e, uccl_msg_recv_claimed(&e->msg_ep, op, discard, now), now);
}

void uccl_engine_pair(struct uccl_engine *e, struct uccl_peer *p)
{
	uccl_sole_peer_set(&e->msg_ep.sole, uccl_peer_first(p));
}

void uccl_engine_shut(struct uccl_engine *e, int err)
{
	uccl_msg_ep_gone(&e->msg_ep, err);
}

void uccl_engine_refuse(struct uccl_engine *e, enum uccl_drop reason, uint64_t n)
{
	e->stats.dropped[reason] += n;
}

bool uccl_engine_unexpected(const struct uccl_engine *e, bool tagged)
{
	return !TAILQ_EMPTY(&e->msg_ep.match.unexpected[tagged]);
}

void uccl_engine_copy(struct uccl_engine *e, struct uccl_copy *c, struct iovec to, bool to_device, struct iovec from,
		      bool from_device, void (*done)(struct uccl_copy *c, uint64_t now))
{
	*c = (struct uccl_copy){ 0 };
	msg_move(&e->msg_ep, c, &to, 1, to_device, &from, 1, from_device, uccl_min(to.iov_len, from.iov_len));
	msg_copy_wait(&e->msg_ep, c, done);
}

void uccl_engine_revoke(struct uccl_engine *e, const void *region, const struct uccl_revoke *part, uint64_t now)
{
	now = engine_time(e, now);
	uccl_msg_revoke(&e->msg_ep, region, part, now);
	engine_push(e, now);
}

int uccl_engine_abort(struct uccl_engine *e, const void *context, uint64_t now)
{
	struct conn *c;

	now = engine_time(e, now);
	if (!e->msg_ep.tx.listing)
		TAILQ_FOREACH(c, &e->conns.live, state.all)
			msg_tx_listing(&c->peer);
	return call_end(e, uccl_msg_abort(&e->msg_ep, context, now), now);
}

int uccl_engine_cancel(struct uccl_engine *e, const void *context, uint64_t now)
{
	(void)now;
	return uccl_msg_cancel(&e->msg_ep, context);
}
