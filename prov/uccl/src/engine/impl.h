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

#define TX_BATCH 64
#define RX_BATCH 16

/* uccl_timer.kind */
enum { TIMER_FLOW, TIMER_HANDSHAKE, TIMER_PACER };

/* A place and an incarnation: what a connection is found by. */
struct conn_key {
	uint8_t ip[16];
	uint64_t incarnation;
	uint64_t port;			/* and the queue pair of an RDMA NIC */
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
	struct uccl_held_clock held;
	struct uccl_path *last_paths;	/* ended: what its paths had carried, for the report */
	uint16_t nlast_paths;
	uint32_t number;		/* in the trace; 0: never connected */
	struct conn_key key;
	UT_hash_handle hh_key, hh_token;
	struct uccl_seal *seal;		/* NULL: without security, or never connected */
	uint8_t init_buf[UCCL_INIT_MAX];
};

TAILQ_HEAD(conn_list, conn);

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
	struct uccl_pacer pacer;	/* of credits to those who send to us */
	struct uccl_timer pacer_timer;
	uint32_t (*sharers)(void *arg, uint64_t now);	/* of the line rate */
	void *sharers_arg;
	uint64_t sharers_at;				/* when to ask again */
	struct conn_list conns, hsq;	/* all that are not dead; those with a handshake packet to send */
	/* Ended: in the order of their ends, until nothing refers to them any more; and those that somebody holds. */
	struct conn_list dead, kept;
	uint32_t ndead;
	struct conn *by_key, *by_token;
	struct conn *last;		/* what conn_by_token found last: trains come from one peer */
	uint32_t nconns, nopen;
	const char *interface;		/* see uccl_engine_attr */
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

/* engine.c */
void engine_ready(struct conn *c);
void engine_tx(struct uccl_engine *e, uint64_t now);
/* Send one packet that belongs to no flow; lost if the NIC is busy. */
void engine_tx_raw(struct uccl_engine *e, struct uccl_tx *tx);

/* conn.c */
extern const struct uccl_mep_ops engine_mep_ops;
struct conn *conn_find(struct uccl_engine *e, const struct uccl_nic_addr *at, uint64_t incarnation);
struct conn *conn_new(struct uccl_engine *e, const struct uccl_addr *addr);
struct conn *conn_by_token(struct uccl_engine *e, uint64_t token);
/* It stands in `list`. */
void conn_free(struct conn *c, struct conn_list *list);
void conn_fail(struct conn *c, int err, uint64_t now);
void conn_due(struct conn *c);
/* Send what the back end has to say to its like at the peer. */
void conn_say(struct conn *c);
/* A handshake packet. */
enum uccl_drop conn_rx(struct uccl_engine *e, const struct uccl_hdr *h, const uint8_t *payload,
		       const struct uccl_nic_addr *src, uint64_t now);
/* The host reports about `at`: nothing listens there, or (gone) its process ended. */
void conn_report(struct uccl_engine *e, const struct uccl_nic_addr *at, bool gone, uint64_t now);
/* Keepalives, time-outs, suspects; sets e->scan_at. */
void conn_scan(struct uccl_engine *e, uint64_t now);
void conn_close_seen(struct conn *c, uint64_t now);
/* Trains to this peer ended, or began again. */
void conn_trains(struct conn *c);
/* The NIC's link went, came, or is gone for ever, which ends everything. */
void conn_link(struct uccl_engine *e, enum uccl_link link, uint64_t now);

#endif
