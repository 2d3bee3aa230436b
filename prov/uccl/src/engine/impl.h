/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What the files of engine share; nobody else includes this. A connection and an engine are made of parts. Each part
 * has an owner file: that of liveness_impl.h is liveness.c. Only these two write to it, or a function below.
 */
#ifndef UCCL_ENGINE_IMPL_H
#define UCCL_ENGINE_IMPL_H

#include "base/le.h"
#include "engine/conn/conn_state_impl.h"
#include "engine/conn/conn_table_impl.h"
#include "engine/conn/drain_impl.h"
#include "engine/conn/handshake_impl.h"
#include "engine/conn/liveness_impl.h"
#include "engine/conn/open_impl.h"
#include "engine/conn/records_impl.h"
#include "engine/conn/conn_slots_impl.h"
#include "engine/conn/silence_impl.h"
#include "engine/engine.h"
#include "engine/identity_impl.h"
#include "engine/loop/device_rx_impl.h"
#include "engine/loop/engine_rx_impl.h"
#include "engine/loop/engine_tx_impl.h"
#include "engine/loop/link_share_impl.h"
#include "engine/loop/out_impl.h"
#include "engine/loop/poll_impl.h"
#include "engine/observe/peer_log_impl.h"
#include "flow/observe/stall.h"
#include "flow/observe/trace.h"
#include "lanes/lanes.h"

/*
 * Remote endpoints that one endpoint remembers, dead ones included. The bound limits what unauthenticated peers can
 * make it keep.
 */
#define CONNS_MAX (1u << 17)

/* uccl_timer.kind */
enum { TIMER_FLOW, TIMER_HANDSHAKE, TIMER_PACER };

/* A remote endpoint: message side, handshake, liveness. `peer` is first. */
struct conn {
	struct uccl_peer peer;
	struct uccl_engine *e;
	struct uccl_conn hs;
	struct uccl_stall_clock stall; /* see conn_stalled() */
	/* calls.c */
	uint8_t failed_attempts;	/* before it, in a row: connections to its address that never opened */
	uint64_t not_before_ns;		/* its first packet leaves no earlier */
	/* See their headers. */
	struct conn_state state;
	struct conn_entry entry;
	struct conn_handshake handshake;
	struct conn_opened opened;
	struct conn_drain drain;
	struct conn_slots slots;
	struct conn_records records;
	bool lanes_due;			/* engine_lanes.c: it will be told of our lanes when they have a use */
	struct conn_liveness liveness;
	struct conn_silence silence;
	struct conn_tx tx;
};

struct uccl_engine {
	/* engine.c: as it was opened */
	struct uccl_nic *nic;
	struct uccl_config cfg;
	const struct uccl_cc_ops *cc;
	const struct uccl_path_ops *pathsel;
	const struct uccl_credit_ops *credit;
	double params[UCCL_POLICY_KINDS][UCCL_CONSTANTS_MAX]; /* values of their constants */
	struct uccl_trace *trace;
	struct engine_identity identity;
	/* of all: messages, counters, timers, the time */
	struct uccl_msg_ep msg_ep;
	struct uccl_stats stats;
	struct uccl_heap heap;
	uint64_t now;			/* see engine_time() */
	/* See their headers. */
	struct engine_poll poll;
	struct engine_share share;
	struct engine_rx rx;
	struct engine_device_rx device_rx;
	struct engine_drain drain;
	uint32_t numbered;		/* open.c: peers that got a number for the trace */
	uint64_t scan_at;		/* next scan: keepalives, time-outs, suspects; see engine_scan_at() */
	struct engine_conns conns;
	struct engine_slots slots;
	struct engine_peer_log peer_log;
	struct engine_table table;
	struct engine_out out;
};

static inline struct conn *peer_conn(struct uccl_peer *p)
{
	return (struct conn *)p;
}

static inline void engine_trace(struct uccl_engine *e, enum uccl_trace_kind kind, uint8_t what, const struct conn *c,
				uint32_t arg)
{
	struct uccl_trace_rec rec = { .ns = e->now, .arg = arg, .kind = (uint8_t)kind, .what = what };

	if (!e->trace)
		return;
	if (c) {
		rec.peer = c->opened.number;
		rec.seq = uccl_get64(c->peer.addr.nic.ip + 8);
		rec.len = c->peer.addr.nic.port;
	}
	uccl_trace_put(e->trace, &rec);
}

/* What holds this peer back, from now on. */
static inline void conn_stalled(struct conn *c, enum uccl_stall why, uint64_t now)
{
	uccl_stall_set(&c->stall, (uint8_t)why, c->e->poll.away_ns, now);
}

/* Callers that took the time and then waited for their turn are late; in here it never goes back. */
static inline uint64_t engine_time(struct uccl_engine *e, uint64_t now)
{
	return e->now = now > e->now ? now : e->now;
}

/* Peers are looked at not before that. */
static inline void engine_scan_first(struct uccl_engine *e, uint64_t at)
{
	e->scan_at = at;
}

/* Peers are looked at no later than that. */
static inline void engine_scan_at(struct uccl_engine *e, uint64_t at)
{
	if (at < e->scan_at)
		e->scan_at = at;
}

/* Move a connection from the list of one state to that of another. */
static inline void conn_list_move(struct conn *c, struct conn_list *from, struct conn_list *to)
{
	TAILQ_REMOVE(from, c, state.all);
	TAILQ_INSERT_TAIL(to, c, state.all);
}

/* The NIC forgets the peer. */
static inline void conn_disconnect(struct conn_opened *o, struct uccl_nic *nic)
{
	if (o->nic_peer && nic->ops->disconnect)
		nic->ops->disconnect(nic, o->nic_peer);
	o->nic_peer = NULL;
}

/* While the endpoint drains: it is in this list from now on; NULL: in none, nobody waits for it. */
static inline void conn_drain_set(struct conn *c, struct conn_list *list)
{
	if (c->drain.list)
		TAILQ_REMOVE(c->drain.list, c, drain.link);
	c->drain.list = list;
	if (list)
		TAILQ_INSERT_TAIL(list, c, drain.link);
}

/* The stream to or from this peer cannot go on: it ends with this error in the next scan. The first error counts. */
static inline void conn_broken(struct conn *c, int err)
{
	if (!c->liveness.broken)
		c->liveness.broken = err;
	engine_scan_at(c->e, c->e->now);
}

/*
 * Files call only those below them:
 *
 *	engine.c			an endpoint opens and closes
 *	engine_lanes.c			its lanes, or that it is one: lanes/lanes.h
 *	loop/poll.c			what a poll does
 *	loop/calls.c			what api asks for
 *	loop/engine_rx.c, conn/drain.c	receiving; closing
 *	loop/engine_tx.c, loop/msg_ops.c sending; what msg asks of a peer
 *	conn/handshake.c		unknown senders, and the names of a peer
 *	conn/open.c			what both sides said becomes a flow
 *	conn/liveness.c			is it there? From the first doubt to the proof of death
 *	conn/conn_state.c		connections come, end, and are forgotten
 *	conn/records.c, conn/conn_slots.c what NICs tell each other; receive slots
 *	conn/silence.c			tells a person which peer does not answer
 *	observe/peer_log.c		what a person is told
 *	loop/device_rx.c		memory of devices that payload comes to
 *	conn/conn_table.c, loop/out.c	how peers are found; what leaves
 *	loop/link_share.c		which part of the link is ours
 *	identity.c			name and keys of this endpoint
 */

/* msg_ops.c */
extern const struct uccl_engine_ops engine_msg_ops;

#endif
