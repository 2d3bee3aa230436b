/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* What the files of engine share; nobody else includes this. */
#ifndef UCCL_ENGINE_IMPL_H
#define UCCL_ENGINE_IMPL_H

#include "base/load_table.h"
#include "base/hash.h"
#include "base/heap.h"
#include "base/le.h"
#include "flow/wire/conn.h"
#include "flow/observe/stall.h"
#include "flow/observe/trace.h"
#include "engine/engine.h"
#include "lanes/worker.h"
#include "lanes/lane_replies.h"

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

/* Record type of what back ends say to each other; docs/protocol/direct-writes.md. The rest belongs to msg. */
#define UCCL_REC_NIC 64
/* Where a lane is; docs/protocol/lanes.md. */
#define UCCL_REC_LANE 65

/* Small enough to pass as control, wherever payload has to wait. */
#define CONN_RECORD_MAX 256

struct conn_record {
	struct uccl_item item;
	struct iovec iov;
	LIST_ENTRY(conn_record) link;
	uint8_t data[CONN_RECORD_MAX];
};

TAILQ_HEAD(conn_list, conn);

/* A remote endpoint: message side, handshake, liveness. `peer` is first. Who writes what stands before it. */
struct conn {
	struct uccl_peer peer;
	struct uccl_engine *e;
	struct uccl_conn hs;
	struct uccl_stall_clock stall; /* see conn_stalled() */
	/* calls.c */
	uint32_t refs;			/* uccl_peer_hold() less uccl_peer_release() */
	bool requested;			/* the program looked it up at some time: it is no stranger */
	uint8_t failed_attempts;	/* before it, in a row: connections to its address that never opened */
	uint64_t not_before_ns;		/* its first packet leaves no earlier */
	TAILQ_ENTRY(conn) unref_link;
	bool unreferenced;		/* in uccl_engine.unreferenced */
	int broken;			/* see conn_broken(); 0: it is not */
	/* conn_state.c */
	TAILQ_ENTRY(conn) all;		/* in uccl_engine.conns, or when dead in dead or kept */
	TAILQ_ENTRY(conn) hsq;
	bool in_hsq;
	struct uccl_timer hs_timer;
	uint64_t ended_ns;
	uint64_t forget_ns;		/* since then nobody holds it, and it is remembered for some time more */
	bool kept;			/* in uccl_engine.kept */
	bool final;			/* ended: its incarnation was connected, or is proven to be replaced */
	bool closed;			/* ended by the peer's CLOSE, */
	uint8_t reason;			/* which said why: enum uccl_close_reason */
	uint8_t close_why;		/* ended by us: the reason in our CLOSE; UCCL_CLOSE_ENDPOINT: nothing to say */
	uint64_t close_sent_ns;		/* when we last sent it */
	struct uccl_path *last_paths;	/* ended: what its paths had carried, for the report */
	uint16_t nlast_paths;
	/* conn_table.c */
	struct conn_key key;		/* as it was told to us, or learnt; see conns_key_set(), conns_key_clear() */
	UT_hash_handle hh_key, hh_token;
	struct conn_place *place;	/* where it is; dead: NULL */
	TAILQ_ENTRY(conn) place_link;	/* in place->conns */
	bool half;			/* half-open: see conns_half_enter() */
	bool unvalidated;		/* handshake.c: open, and no packet with our token has come */
	uint64_t init_ack_ns;		/* liveness.c: when INIT_ACK was sent last */
	uint64_t peer_lived_ns;		/* handshake.c: uccl_init.asked_ns of the handshake */
	struct conn_source *source;	/* of one that a stranger made, as long as it lives; else NULL */
	TAILQ_ENTRY(conn) near;		/* half-open: in source->half */
	/* open.c */
	struct uccl_nic_peer *nic_peer;
	struct uccl_seal *seal;		/* NULL: without security, or never connected */
	uint32_t number;		/* in the trace; 0: never connected */
	bool ect;			/* packets to it may be marked by the network: it tells us, and we listen */
	/* drain.c; see conn_drain_set() */
	TAILQ_ENTRY(conn) drain;
	struct conn_list *draining;	/* where: uccl_engine.untold or told; NULL: in none */
	/* recv_slots.c */
	struct uccl_grant grant;	/* from the handshake on */
	uint32_t typical_len;		/* so long are its packets lately, */
	uint32_t longest, came;		/* and of so many that came since that was set none was longer than this */
	/* records.c */
	LIST_HEAD(, conn_record) records; /* of the back end and about lanes, not acknowledged yet */
	bool lanes_due;			/* it will be told of our lanes when they could carry something, see R314 */
	/* liveness.c: proof of death, reports of the host, confirmed by silence */
	uint32_t unreach;
	uint64_t unreach_ns;		/* first report since anything was heard */
	uint64_t unreach_last;
	uint64_t gone_ns;		/* the liveness connection broke */
	uint64_t suspect_at;		/* next probe of a suspect */
	uint64_t kept_ns;		/* last keepalive */
	uint64_t checked_ns;		/* last look while something was expected of it; 0: nothing is */
	uint64_t unanswered_ns;		/* it has let us wait so long, our own absences left out */
	/* engine_tx.c */
	int32_t turn;			/* bytes left of its turn among peers; < 0: of the next one, taken already */
	uint32_t gathered;		/* bytes of messages that wait for others to fill a train */
	uint8_t init_buf[UCCL_INIT_MAX];
};

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

/* A slot that a packet came to, and the last of the copies that may read it. */
struct engine_device_rx_slot {
	uint64_t ticket;
	uint32_t slot;
};

/* Memory of a device that the NIC was lent. */
struct engine_device_rx {
	void *mem;			/* NULL: none */
	int device;
	uint32_t queue;			/* by which peers name it; 0: none is told of it any more */
	bool tried;
	bool seen;			/* the device sees all that came up to the latest look at the NIC */
	/* Those that are copied from, a ring of caps.lend_slots in the order of their copies. */
	struct engine_device_rx_slot *slots;
	uint32_t first, n;
};

/* Who writes what stands before it; all may read. */
struct uccl_engine {
	/* engine.c: as it was opened */
	struct uccl_nic *nic;
	struct uccl_config cfg;
	const struct uccl_cc_ops *cc;
	const struct uccl_path_ops *pathsel;
	const struct uccl_credit_ops *credit;
	double params[UCCL_POLICY_KINDS][UCCL_CONSTANTS_MAX]; /* values of their constants */
	void (*random)(void *arg, void *buf, size_t len);
	void *random_arg;
	uint32_t (*sharers)(void *arg, uint64_t now);	/* of the line rate */
	void *sharers_arg;
	struct uccl_trace *trace;
	const char *interface;		/* see uccl_engine_attr */
	struct uccl_addr addr;		/* as others are given it */
	uint16_t token_top;		/* the highest bits of all our tokens */
	struct uccl_listener listener;
	struct uccl_lanes lanes;	/* msg_ep.lanes, if it has some, */
	struct uccl_addr *lane_addr;	/* and where they are */
	struct uccl_lane lane;		/* msg_ep.lane, if it is one */
	struct uccl_load_table *load;	/* its lanes' and its, or that of its the primary; NULL: it is alone */
	uint8_t load_entry;		/* there */
	/* of all: messages, counters, timers, the time */
	struct uccl_msg_ep msg_ep;
	struct uccl_stats stats;
	struct uccl_heap heap;
	uint64_t now;			/* see engine_time() */
	/* poll.c */
	bool polling;			/* inside poll: sends posted by callbacks wait for its end */
	uint64_t behind_ns;		/* since when each poll has left something in the NIC's queue; 0: not */
	uint64_t polled_ns;		/* the last poll */
	uint64_t posted;		/* bytes that the program gave us to send since */
	uint64_t away_ns;		/* in all: how late polls were for a timer, if that was not little */
	struct uccl_pacer pacer;	/* of credits to those who send to us */
	struct uccl_timer pacer_timer;
	uint64_t sharers_at;		/* when to ask again who shares the line rate, */
	uint32_t nsharers;		/* and how many did, this endpoint included */
	uint64_t load_at;		/* when to look at the board again; UCCL_NEVER: there is none */
	uint64_t moved[UCCL_LOAD_DIRS]; /* bytes of payload when we last did, */
	uint32_t nbusy[UCCL_LOAD_DIRS]; /* and as how many engines of this endpoint all were busy */
	/* engine_rx.c */
	int rx_refused;			/* packets of this poll that went to nobody */
	bool rx_more;			/* the last poll left something in the NIC's queue */
	uint8_t *bounce;		/* mispredicted payloads, or rows, of one round */
	/* device_rx.c */
	struct engine_device_rx device_rx;
	/* drain.c */
	uint64_t drain_ns;		/* 0: open; else when draining began */
	struct conn_list close_unsent, close_sent; /* draining: who is to be told, and who was, and may answer */
	/* open.c */
	uint32_t nopen;
	uint32_t numbered;		/* peers that got a number for the trace */
	/* liveness.c; see engine_scan_at() */
	uint64_t scan_at;		/* next look at keepalives, time-outs, suspects */
	/* conn_state.c */
	struct conn_list conns, hsq;	/* all that are not dead; those with a handshake packet to send */
	/*
	 * Ended: in the order of their ends, until nothing refers to them any more; and those that somebody holds, or
	 * that are second names of others.
	 */
	struct conn_list dead, kept;
	struct conn_list unreferenced;	/* not connected, refs 0: see conns_reap() */
	uint32_t nconns, ndead;
	enum uccl_link link;		/* of the NIC */
	/* recv_slots.c */
	struct uccl_slots slots;	/* of the receive queue, */
	uint32_t room;			/* which holds so many of the largest packets */
	/* peer_log.c */
	bool mtu_reported;    /* a person knows that a network is narrow */
	bool trains_reported; /* a person knows that trains are broken here */
	/* conn_table.c */
	struct conn_list half;		/* half-open, in no other list; the oldest first */
	uint32_t nhalf;
	struct conn_source *by_ip;
	struct conn *by_key, *by_token;
	struct conn_place *by_place;
	struct conn *last;		/* what conn_by_token found last: trains come from one peer */
	/* engine_tx.c, out.c */
	struct uccl_stall_clock nic_stall; /* UCCL_STALL_NIC: the NIC takes no more */
	TAILQ_HEAD(, uccl_flow) ready;
	int tx_head, tx_n;
	uint64_t backlog;		/* the NIC's, as it told last; 0: it does not */
	struct uccl_tx txv[TX_BATCH];
	/* base/load_table.h: of it and its lanes */
	struct uccl_load_table lanes_load;
};

/* The NIC was handed something, or had time to send it. */
static inline void engine_backlog(struct uccl_engine *e)
{
	if (e->nic->ops->backlog)
		e->backlog = e->nic->ops->backlog(e->nic);
}

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
static inline void conn_stalled(struct conn *c, enum uccl_stall why, uint64_t now)
{
	uccl_stall_set(&c->stall, (uint8_t)why, c->e->away_ns, now);
}

/* Callers that took the time and then waited for their turn are late; in here it never goes back. */
static inline uint64_t engine_time(struct uccl_engine *e, uint64_t now)
{
	return e->now = now > e->now ? now : e->now;
}

/* Peers are looked at no later than that. */
static inline void engine_scan_at(struct uccl_engine *e, uint64_t at)
{
	if (at < e->scan_at)
		e->scan_at = at;
}

/* While the endpoint drains: it is in this list from now on; NULL: in none, nobody waits for it. */
static inline void conn_drain_set(struct conn *c, struct conn_list *list)
{
	if (c->draining)
		TAILQ_REMOVE(c->draining, c, drain);
	c->draining = list;
	if (list)
		TAILQ_INSERT_TAIL(list, c, drain);
}

static inline uint64_t engine_random64(struct uccl_engine *e)
{
	uint64_t v;

	do
		e->random(e->random_arg, &v, sizeof(v));
	while (!v);
	return v;
}

/* The stream to or from this peer cannot go on: it ends with this error in the next look. The first error counts. */
static inline void conn_broken(struct conn *c, int err)
{
	if (!c->broken)
		c->broken = err;
	engine_scan_at(c->e, c->e->now);
}

/*
 * Files call only those below them:
 *
 *	engine.c			an endpoint opens and closes
 *	loop/poll.c, conn/lane_worker.c	what a poll does; what the primary says to its lane
 *	loop/calls.c			what api asks for
 *	loop/engine_rx.c, conn/drain.c	receiving; closing
 *	loop/engine_tx.c, loop/msg_ops.c sending; what msg asks of a peer
 *	conn/handshake.c		who is there, and under which names
 *	conn/open.c			what both sides said becomes a flow
 *	conn/liveness.c			is it there? From the first doubt to the proof of death
 *	conn/conn_state.c		connections come, end, and are forgotten
 *	conn/records.c, conn/recv_slots.c what NICs tell each other; receive slots
 *	observe/peer_log.c		what a person is told
 *	loop/device_rx.c		memory of devices that payload comes to
 *	conn/conn_table.c, loop/out.c	how peers are found; what leaves
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
/* What the NIC has not taken yet of a buffer was or will be copied: it is read there. */
void engine_tx_moved(struct uccl_engine *e, struct iovec from, const uint8_t *to);
/* Packets of this peer that the NIC has not taken yet must not leave any more: their payload goes back. */
void engine_tx_forget(struct conn *c);
/* The next place in the batch; NULL: the NIC is full. */
struct uccl_tx *engine_tx_slot(struct uccl_engine *e);
/* It was filled. False: the NIC is full. */
bool engine_tx_add(struct uccl_engine *e);
/* Send one packet that belongs to no flow; lost if the NIC is busy. */
void engine_tx_raw(struct uccl_engine *e, struct uccl_tx *tx);
/* Likewise, to a peer without a flow: CLOSE for this reason (enum uccl_close_reason), or CLOSE_ACK (0). */
void engine_tell(struct conn *c, uint8_t type, uint8_t reason);

/* conn_table.c */
struct conn *conn_find(struct uccl_engine *e, const struct uccl_nic_addr *at, uint64_t incarnation);
struct conn *conn_by_token(struct uccl_engine *e, uint64_t token);
/* The first of those living at a place; TAILQ_NEXT(c, there) is the next. NULL: none. */
struct conn *conns_at(struct uccl_engine *e, const struct uccl_nic_addr *at);
/* To be found from now on, by token, and by address if `keyed`; -FI_ENOMEM: nothing happened. */
int conns_add(struct conn *c, bool keyed);
/* To be found no more, if it still was. */
void conns_remove(struct conn *c);
/* Its incarnation is known now. Without memory it is found by token and place only. */
void conns_key_set(struct conn *c, uint64_t incarnation);
/* From now on it is found by token and place only: its key is free for another connection. */
void conns_key_clear(struct conn *c);
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

/* recv_slots.c */
/* What the handshake grants is a promise from then on. Once for a connection; later calls do nothing. */
void conn_grant(struct conn *c);
/* What the peer takes is known. */
void conn_slots_known(struct conn *c);
/* Its packets have at most so many bytes. */
void conn_slots_fit(struct conn *c, uint32_t mtu);
/* A packet of a chunk came, so long. */
void conn_slots_came(struct conn *c, uint32_t bytes);
/* The queue may be shared with other endpoints of the process, which come and go. */
void slots_refit(struct uccl_engine *e);
/* Who waited for a receive slot hears of it; quiet peers give back those that busy ones need. */
void conn_slots_ask(struct uccl_engine *e, uint64_t now);

/* records.c: of a flow on a NIC that has to agree before it writes */
extern const struct uccl_flow_ops conn_flow_ops;
/* Send what the back end has to say to its like at the peer. */
void conn_say(struct conn *c);
void conn_records_free(struct conn *c);
/* The connection is open: tell a peer that has lanes, too, where ours are, now or when it has a use for them. */
void conn_lanes_say(struct conn *c);

/* lane_worker.c: of a lane */
extern const struct uccl_lane_ops engine_lane_ops;

/* device_rx.c */
/* The NIC's queue whose payload comes to the device of this address; 0: none now. PROTOCOL R291 */
uint32_t engine_device_rx_queue(struct uccl_engine *e, const void *buf);
/* May the slot of a packet that came be copied from? UCCL_DROP_COUNT, or why not now. PROTOCOL R191 R293 */
enum uccl_drop engine_device_rx_may(struct uccl_engine *e);
/* The packet in it was taken in: it is the NIC's again when all is done that was queued since `before`. */
void engine_device_rx_keep(struct uccl_engine *e, uint32_t slot, uint64_t before);
/* Slots whose copies are done are the NIC's again. */
void engine_device_rx_settle(struct uccl_engine *e);
/* The NIC is closed. */
void engine_device_rx_close(struct uccl_engine *e);

/* peer_log.c */
/* It ended, for this reason (FI_Exxx). */
void conn_end_reported(struct conn *c, int err);
/* Trains to this peer ended, or began again. */
void conn_trains(struct conn *c);
/* Packets to this peer have another length now. */
void conn_pmtu(struct conn *c);

/* conn_state.c */
/* What this side says of itself in a handshake. */
void conn_params(struct uccl_engine *e, struct uccl_params *p);
/* `keyed`: it is found by its address. NULL: the table is full, or no memory. */
struct conn *conn_new(struct uccl_engine *e, const struct uccl_addr *addr, bool keyed);
/* It stands in `list`. */
void conn_free(struct conn *c, struct conn_list *list);
/* It has no part in handshakes any more. */
void conn_rest(struct conn *c);
/* It has a handshake packet to send, or waits for one. */
void conn_due(struct conn *c);
/*
 * The connection ends for this reason (positive FI_Exxx), and so do all operations with the peer. A peer that may be
 * alive is told by CLOSE. PROTOCOL R311
 */
void conn_fail(struct conn *c, int err, uint64_t now);
/* The peer said CLOSE, for this reason. */
void conn_close_seen(struct conn *c, enum uccl_close_reason reason, uint64_t now);
/* A packet came for a connection that has ended, or is not open yet. */
void conn_late_rx(struct conn *c, const struct uccl_hdr *h, uint64_t now);
/* The caller's hold ends: one less in `refs`. */
void conn_release(struct conn *c, uint64_t now);
/* Frees connections of uccl_engine.unreferenced that no operation needs. */
void conns_reap(struct uccl_engine *e);
/* All half-open connections end; their peers are told, but not twice. */
void conns_half_end(struct uccl_engine *e, uint64_t now);
/* The NIC's link went, came, or is gone for ever, which ends everything. */
void conn_link(struct uccl_engine *e, enum uccl_link link, uint64_t now);
/* Forgets those whose time is over; when the next one's is. */
uint64_t conns_forget(struct uccl_engine *e, uint64_t now);

/* liveness.c */
/* From now on somebody looks whether it is there. */
void conn_watch(struct conn *c, uint64_t now);
/* The liveness connection to the process at `at` ended. */
void conn_gone(struct uccl_engine *e, const struct uccl_nic_addr *at, uint64_t now);
/* A report of the network (ICMP). UCCL_DROP_REPORT: what it quotes is none of our packets. */
enum uccl_drop conn_icmp(struct uccl_engine *e, const struct uccl_rx *rx, uint64_t now);
/* Somebody answered at the place of `c`: what was reported of it before is forgotten. */
void conn_reached(struct conn *c);
/* A COOKIE of a peer that is connected: the answer to the question who is there. */
enum uccl_drop conn_answer(struct conn *c, const struct uccl_hdr *h, uint64_t now);
/* Keepalives, time-outs, suspects; sets e->scan_at. */
void conn_scan(struct uccl_engine *e, uint64_t now);

/* open.c */
/* Both sides know what they need: its key for sealing, if there is one, and then its flow. It fails without memory. */
int conn_seal(struct conn *c);
void conn_begin(struct conn *c, uint64_t now);
/* A half-open connection is needed: its peer sent something, or somebody here asks for it. Without memory it fails. */
void conn_wake(struct conn *c, uint64_t now);

/* handshake.c */
/*
 * The first packet with our token came, so the peer has received our INIT_ACK. Older connections to the same place end.
 */
void conn_validated(struct conn *c, uint64_t now);
enum uccl_drop conn_rx(struct uccl_engine *e, const struct uccl_hdr *h, const uint8_t *payload,
		       const struct uccl_nic_addr *src, uint64_t now);

/* msg_ops.c */
extern const struct uccl_engine_ops engine_msg_ops;

/* engine_tx.c */
void engine_tx(struct uccl_engine *e, uint64_t now);

/* engine_rx.c */
/* Returns how many packets and events came; sets e->rx_more. */
int engine_rx(struct uccl_engine *e, uint64_t now);

/* drain.c */
/* Tell those peers that have all of what was accepted for them. */
void engine_drain_step(struct uccl_engine *e, uint64_t now);

#endif
