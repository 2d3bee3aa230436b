/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* What the files of engine share; nobody else includes this. */
#ifndef UCCL_ENGINE_IMPL_H
#define UCCL_ENGINE_IMPL_H

#include "base/hash.h"
#include "base/heap.h"
#include "base/le.h"
#include "core/conn.h"
#include "core/held.h"
#include "core/trace.h"
#include "engine/engine.h"
#include "msg/mep.h"

/* Remote endpoints that one endpoint remembers, dead ones included: what strangers can make it keep is bounded. */
#define CONNS_MAX (1u << 17)
#define TX_BATCH 64
#define RX_BATCH 16

/* uccl_timer.kind */
enum { TIMER_FLOW, TIMER_HANDSHAKE, TIMER_PACER };

/* Where an endpoint is, as far as it tells it from others. */
struct place_key {
	uint8_t ip[16];
	uint64_t port;			/* and the queue pair of an RDMA NIC */
};

/* A place and an incarnation: what a connection is found by. */
struct conn_key {
	struct place_key at;
	uint64_t incarnation;
};

/* Record type of what back ends say to each other; PROTOCOL.md section 5. The rest belongs to msg. */
#define UCCL_REC_NIC 64

/* Small enough to pass as control, wherever payload has to wait. */
#define CONN_RECORD_MAX 256

struct conn_record {
	struct uccl_item item;
	struct iovec iov;
	LIST_ENTRY(conn_record) link;
	uint8_t data[CONN_RECORD_MAX];
};

/* A remote endpoint: message side, handshake, liveness. `peer` is first. */
struct conn {
	struct uccl_peer peer;
	struct uccl_engine *e;
	struct uccl_conn hs;
	struct uccl_timer hs_timer;
	struct uccl_nic_peer *nic_peer;
	TAILQ_ENTRY(conn) all;		/* in uccl_engine.conns, or when dead in dead or kept */
	TAILQ_ENTRY(conn) hsq;
	bool in_hsq;
	bool known;			/* somebody outside of the engine holds it */
	bool half;			/* half-open: see conns_half_enter() */
	struct conn_source *source;	/* of one that a stranger made, as long as it lives; else NULL */
	TAILQ_ENTRY(conn) near;		/* half-open: in source->half */
	uint64_t ended_ns;
	bool closed;			/* ended by the peer's CLOSE */
	bool bad_memory;		/* an operation to it has a buffer that cannot be read */
	/* proof of death: reports of the host, confirmed by silence */
	uint32_t unreach;
	uint64_t unreach_ns;		/* first report since anything was heard */
	uint64_t unreach_last;
	uint64_t gone_ns;		/* the liveness connection broke */
	uint64_t suspect_at;		/* next probe of a suspect */
	uint64_t kept_ns;		/* last keepalive */
	uint64_t looked_ns;		/* last look while something was expected of it; 0: nothing is */
	uint64_t unanswered_ns;		/* it has let us wait so long, our own absences left out */
	LIST_HEAD(, conn_record) records; /* of the back end, not acknowledged yet */
	struct uccl_grant grant;	/* from the handshake on */
	struct uccl_held_clock held;
	struct uccl_path *last_paths;	/* ended: what its paths had carried, for the report */
	uint16_t nlast_paths;
	uint32_t number;		/* in the trace; 0: never connected */
	struct conn_key key;		/* as it was told to us, or learnt */
	UT_hash_handle hh_key, hh_token;
	struct conn_place *place;	/* where it is; dead: NULL */
	TAILQ_ENTRY(conn) there;	/* in place->conns */
	struct uccl_seal *seal;		/* NULL: without security, or never connected */
	uint8_t init_buf[UCCL_INIT_MAX];
};

TAILQ_HEAD(conn_list, conn);

/* The living at one place: seldom more than one. */
struct conn_place {
	struct place_key key;
	struct conn_list conns;
	UT_hash_handle hh;
};

/* The connections that strangers made from one IP address. */
struct conn_source {
	uint8_t ip[16];
	uint32_t n, nhalf;
	struct conn_list half;		/* the oldest first */
	UT_hash_handle hh;
};

struct uccl_engine {
	struct uccl_nic *nic;
	struct uccl_config cfg;
	const struct uccl_cc_ops *cc;
	const struct uccl_path_ops *pathsel;
	const struct uccl_credit_ops *credit;
	double k[UCCL_POLICY_KINDS][UCCL_CONSTANTS_MAX]; /* values of their constants */
	void (*random)(void *arg, void *buf, size_t len);
	void *random_arg;
	struct uccl_listener listener;
	struct uccl_addr addr;		/* as others are given it */
	struct uccl_mep mep;
	struct uccl_stats stats;
	struct uccl_trace *trace;
	struct uccl_heap heap;
	struct uccl_slots slots;	/* of the receive queue, */
	uint32_t room;			/* which holds so many of the largest packets */
	struct uccl_pacer pacer;	/* of credits to those who send to us */
	struct uccl_timer pacer_timer;
	uint32_t (*sharers)(void *arg, uint64_t now);	/* of the line rate */
	void *sharers_arg;
	uint64_t sharers_at;				/* when to ask again */
	struct conn_list conns, hsq;	/* all that are not dead; those with a handshake packet to send */
	/*
	 * Ended: in the order of their ends, until nothing refers to them any more; and those that somebody holds, or
	 * that are second names of others.
	 */
	struct conn_list dead, kept;
	uint32_t ndead;
	struct conn_list half;		/* half-open, in no other list; the oldest first */
	uint32_t nhalf;
	struct conn_source *by_ip;
	struct conn *by_key, *by_token;
	struct conn_place *by_place;
	uint16_t token_top;		/* the highest bits of all our tokens */
	struct conn *last;		/* what conn_by_token found last: trains come from one peer */
	uint32_t nconns, nopen;
	const char *interface;		/* see uccl_engine_attr */
	bool mtu_told;			/* a person knows that a network is narrow */
	bool trains_told;		/* a person knows that trains are broken here */
	uint32_t numbered;		/* peers that got a number for the trace */
	TAILQ_HEAD(, uccl_flow) ready;
	uint64_t now;
	uint64_t scan_at;		/* next look at keepalives, time-outs, suspects */
	uint64_t drain_ns;		/* 0: open; else when draining began */
	enum uccl_link link;		/* of the NIC */
	bool rx_more;			/* the last poll left something in the NIC's queue */
	uint64_t behind_ns;		/* since when each poll has; 0: not */
	uint64_t polled_ns;		/* the last poll */
	uint64_t away_ns;		/* in all: how late polls were for a timer, if that was not little */
	struct uccl_held_clock nic_held; /* UCCL_HELD_NIC: the NIC takes no more */
	bool polling;			/* inside poll: sends posted by callbacks wait for its end */
	uint8_t *bounce;		/* mispredicted payloads of one round */
	int tx_head, tx_n;
	struct uccl_tx txv[TX_BATCH];
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
		rec.peer = c->number;
		rec.seq = uccl_get64(c->peer.addr.nic.ip + 8);
		rec.len = c->peer.addr.nic.port;
	}
	uccl_trace_put(e->trace, &rec);
}

/* What holds this peer back, from now on. */
static inline void conn_held(struct conn *c, enum uccl_held why, uint64_t now)
{
	uccl_held_set(&c->held, (uint8_t)why, c->e->away_ns, now);
}

/*
 * Files call only those below them:
 *
 *	engine.c	a turn: receive, timers, send
 *	conn.c		peers: from the first packet to the last
 *	conns.c out.c	how peers are found; what leaves
 */

/* out.c */
/* The flow has something to send: it has a turn. */
void engine_ready(struct conn *c);
/* Hand the batch to the NIC. False: it is full, the rest waits. */
bool engine_tx_flush(struct uccl_engine *e);
/*
 * Chunks that the NIC did not take at once may have been acknowledged meanwhile, by an earlier copy: the application
 * has their payload back, so they must not be read any more. NICs that read later keep it until UCCL_RX_SENT.
 */
void engine_tx_settle(struct uccl_engine *e);
/* The next place in the batch; NULL: the NIC is full. */
struct uccl_tx *engine_tx_slot(struct uccl_engine *e);
/* It was filled. False: the NIC is full. */
bool engine_tx_add(struct uccl_engine *e);
/* Send one packet that belongs to no flow; lost if the NIC is busy. */
void engine_tx_raw(struct uccl_engine *e, struct uccl_tx *tx);
/* Likewise, to a peer without a flow: a packet that is nothing but its type. */
void engine_tell(struct conn *c, uint8_t type);

/* conns.c */
struct conn *conn_find(struct uccl_engine *e, const struct uccl_nic_addr *at, uint64_t incarnation);
struct conn *conn_by_token(struct uccl_engine *e, uint64_t token);
/* The first of those living at a place; TAILQ_NEXT(c, there) is the next. NULL: none. */
struct conn *conns_at(struct uccl_engine *e, const struct uccl_nic_addr *at);
/* To be found from now on, by address and token; -FI_ENOMEM: nothing happened. */
int conns_add(struct conn *c);
/* To be found no more, if it still was. */
void conns_remove(struct conn *c);
/* Its incarnation is known now. Without memory it is found by token and place only. */
void conns_learn(struct conn *c, uint64_t incarnation);
/* It is dead: found, but no more at its place, nor counted for its address. */
void conns_leave(struct conn *c);
/* It is where peer.addr says, and we were told otherwise; -FI_ENOMEM: it is at no place. */
int conns_move(struct conn *c);

/*
 * A handshake costs its sender two packets, so what it costs us is little and bounded: a connection that somebody made
 * to us, and that nobody here has asked for, is half-open until its first packet comes. Until then it has no flow and
 * no receive slots, and nobody looks after it. -FI_ENOMEM: nothing happened.
 */
int conns_half_enter(struct conn *c);
void conns_half_leave(struct conn *c);
/*
 * May a stranger at `ip` make one more? *first: who, being half-open, has to go before; NULL: nobody. The last part of
 * the table is for those that are asked for here.
 */
bool conns_half_room(struct uccl_engine *e, const uint8_t ip[16], struct conn **first);

/* conn.c */
extern const struct uccl_mep_ops engine_mep_ops;
struct conn *conn_new(struct uccl_engine *e, const struct uccl_addr *addr);
/* It stands in `list`. */
void conn_free(struct conn *c, struct conn_list *list);
void conn_fail(struct conn *c, int err, uint64_t now);
/* A half-open connection is needed: its peer sent something, or somebody here asks for it. Without memory it fails. */
void conn_wake(struct conn *c, uint64_t now);
/* All half-open connections end; their peers are told, but not twice. */
void conns_half_end(struct uccl_engine *e, uint64_t now);
void conn_due(struct conn *c);
/* Send what the back end has to say to its like at the peer. */
void conn_say(struct conn *c);
/* A handshake packet. */
enum uccl_drop conn_rx(struct uccl_engine *e, const struct uccl_hdr *h, const uint8_t *payload,
		       const struct uccl_nic_addr *src, uint64_t now);
/* The liveness connection to the process at `at` ended. */
void conn_gone(struct uccl_engine *e, const struct uccl_nic_addr *at, uint64_t now);
/* A report of the network (ICMP). UCCL_DROP_REPORT: what it quotes is none of our packets. */
enum uccl_drop conn_icmp(struct uccl_engine *e, const struct uccl_rx *rx, uint64_t now);
/* Quiet peers give back receive slots that busy ones need. */
void conn_slots_ask(struct uccl_engine *e, uint64_t now);
/* Keepalives, time-outs, suspects; sets e->scan_at. */
void conn_scan(struct uccl_engine *e, uint64_t now);
void conn_close_seen(struct conn *c, uint64_t now);
/* Trains to this peer ended, or began again. */
void conn_trains(struct conn *c);
/* Packets to this peer have another length now. */
void conn_pmtu(struct conn *c);
/* The NIC's link went, came, or is gone for ever, which ends everything. */
void conn_link(struct uccl_engine *e, enum uccl_link link, uint64_t now);

#endif
