/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* conn_state.c: connections come, end, and are forgotten. */
#ifndef UCCL_ENGINE_CONN_CONN_STATE_IMPL_H
#define UCCL_ENGINE_CONN_CONN_STATE_IMPL_H

#include <sys/queue.h>

#include "base/heap.h"
#include "flow/closing.h"
#include "flow/path/path.h"
#include "flow/wire/conn.h"

struct conn;
struct uccl_engine;

TAILQ_HEAD(conn_list, conn);

/* A part of struct conn. */
struct conn_state {
	uint32_t refs;			/* see conn_hold(), conn_release() */
	bool requested;			/* the program looked it up at some time: we know it */
	TAILQ_ENTRY(conn) unref_link;
	bool unreferenced;		/* in engine_conns.unreferenced */
	TAILQ_ENTRY(conn) all;		/* in live, dead or kept of engine_conns, or half-open in engine_table.half */
	TAILQ_ENTRY(conn) hsq;
	bool in_hsq;
	bool asks;			/* HELLO or INIT is repeated until it is answered: see conn_asks() */
	struct uccl_timer hs_timer;
	uint64_t ended_ns;
	uint64_t forget_ns;		/* since then nobody holds it, and it is remembered for some time more */
	bool kept;			/* in engine_conns.kept */
	bool final;			/* ended: its incarnation was connected, or is proven to be replaced */
	bool closed;			/* ended by the peer's CLOSE, */
	uint8_t reason;			/* which said why: enum uccl_close_reason */
	uint8_t close_why;		/* ended by us: the reason in our CLOSE; UCCL_CLOSE_ENDPOINT: nothing to say */
	uint64_t close_sent_ns;		/* when we last sent it */
	struct uccl_path *last_paths;	/* ended: what its paths had carried, for the report */
	uint16_t nlast_paths;
};

/* A part of struct uccl_engine. */
struct engine_conns {
	struct conn_list live, hsq;	/* all that are not dead; those with a handshake packet to send */
	/*
	 * Connections that have ended. `dead`: in the order of their ends, until nothing refers to them any more.
	 * `kept`: those that somebody holds, or that are second names of others.
	 */
	struct conn_list dead, kept;
	struct conn_list unreferenced;	/* not connected, refs 0: see conns_reap() */
	uint32_t n, ndead, nopen;
	uint32_t nasking;		/* connections that this side asks for, and that are not open yet */
	uint64_t cookie_ns;		/* what COOKIE took of late, smoothed; 0: not known */
	enum uccl_link link;		/* of the NIC */
};

void engine_conns_init(struct engine_conns *s);
/* The engine closes: all end without CLOSE, as drain.c has sent it. */
void conns_end(struct uccl_engine *e);
/* Free all connections: nothing refers to one any more. */
void conns_free(struct uccl_engine *e);

static inline void conn_hold(struct conn_state *s)
{
	s->refs++;
}

/* Somebody here asks for it. */
static inline void conn_request(struct conn_state *s)
{
	s->requested = true;
}

/* Another connection has a flow now. */
static inline void conns_opened(struct engine_conns *s)
{
	s->nopen++;
}

/* What this side says of itself in a handshake. */
void conn_params(struct uccl_engine *e, struct uccl_conn_params *p);
/* `keyed`: it is found by its address. NULL: the table is full, or no memory. */
struct conn *conn_new(struct uccl_engine *e, const struct uccl_addr *addr, bool keyed);
/* Free `c`, which stands in `list`. */
void conn_free(struct conn *c, struct conn_list *list);
/* `c`, known by its place only, is `first` by another name: there is one peer, and one connection. PROTOCOL R134 */
void conn_join(struct conn *c, struct conn *first, uint64_t now);
/* This side asks for the connection from now on, or (false) no longer. */
void conn_asks(struct conn *c, bool asks);
/* COOKIE came. */
void conn_cookie_came(struct conn *c);
/* HELLO or INIT may be repeated now, unless answers of others show that it is too soon. PROTOCOL R416 */
void conn_asks_again(struct conn *c, uint64_t now);
/* The connection has a handshake packet to send, or waits for one. */
void conn_due(struct conn *c);
/* The connection has no handshake packet to send for now. */
void conn_handshake_sent(struct conn *c);
/*
 * The connection ends for this reason (positive FI_Exxx), and so do all operations with the peer. A peer that may be
 * alive is told by CLOSE. PROTOCOL R311
 */
void conn_fail(struct conn *c, int err, uint64_t now);
/* The same as conn_fail, without CLOSE. */
void conn_fail_silently(struct conn *c, int err, uint64_t now);
/* The peer said CLOSE, for this reason. */
void conn_close_seen(struct conn *c, enum uccl_close_reason reason, uint64_t now);
/* A packet came for a connection that has ended, or is not open yet. */
void conn_late_rx(struct conn *c, const struct uccl_hdr *h, uint64_t now);
/* Likewise an INIT_ACK, whose sender takes the connection for open. */
void conn_late_ack(struct conn *c, const struct uccl_hdr *h, uint64_t now);
/* The caller's hold ends: one less in `refs`. */
void conn_release(struct conn *c, uint64_t now);
/* Frees connections of engine_conns.unreferenced that no operation needs. */
void conns_reap(struct uccl_engine *e);
/* All half-open connections end; each peer gets CLOSE, once. */
void conns_half_end(struct uccl_engine *e, uint64_t now);
/* The NIC's link went, came, or is gone for ever, which ends everything. */
void conn_link(struct uccl_engine *e, enum uccl_link link, uint64_t now);
/* Forgets those whose time is over; when the next one's is. */
uint64_t conns_forget(struct uccl_engine *e, uint64_t now);

#endif
