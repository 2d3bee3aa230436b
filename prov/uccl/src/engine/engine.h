/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The progress engine: one NIC, one message endpoint, run to completion. All calls are made by one thread at a
 * time (api holds the endpoint's lock). `now` is CLOCK_MONOTONIC in ns in the product, virtual in the simulator; one
 * that lies before an earlier one counts as that one. Errors are -FI_Exxx.
 */
#ifndef UCCL_ENGINE_ENGINE_H
#define UCCL_ENGINE_ENGINE_H

#include <stdio.h>

#include "base/rng.h"
#include "flow/wire/addr.h"
#include "flow/observe/stats.h"
#include "engine/config.h"
#include "msg/op.h"
#include "nic/nic.h"

struct uccl_engine;
struct uccl_lane_channel;

struct uccl_engine_attr {
	struct uccl_nic *nic;			/* taken over: closed with the engine, also when open fails */
	const struct uccl_config *config;	/* copied */
	/* Fills buf with len unpredictable bytes (getrandom in the product, seeded in the simulator). */
	void (*random)(void *arg, void *buf, size_t len);
	void *random_arg;
	/* Whose incarnation and key to have; NULL: random ones. */
	const struct uccl_addr *identity;
	const uint8_t *group;			/* see uccl_listener, UCCL_KEY_LEN bytes; NULL: none */
	struct uccl_trace *trace;		/* borrowed until close; NULL: none */
	/* Memory that peers may reach; NULL: none. */
	const struct uccl_target_ops *target;
	void *target_arg;
	/*
	 * Credit is handed out for the NIC's line rate at `now`: how many endpoints do that at this time, this one
	 * included. Asked at most once in a millisecond, and by its lanes, too, in their threads. NULL: it is alone.
	 */
	uint32_t (*sharers)(void *arg, uint64_t now);
	void *sharers_arg;
	/* Of a connected endpoint, or a listening one: see uccl_engine_pair. */
	bool connected;
	/* Memory of devices; NULL: there is none. */
	const struct uccl_device_ops *device;
	void *device_arg;
	/* See uccl_msg_ep.room; NULL: there always is. */
	bool (*room)(void *arg);
	void *room_arg;
	bool data_takes;			/* see uccl_msg_ep.data_takes */
	/* Short messages may wait for each other: whoever sees uccl_engine_waits() polls within 1 ms. PROTOCOL R420 */
	bool may_gather;
	/* A peer has ended, for this reason: a positive FI_Exxx. Not to call the engine. NULL: nobody wants to know. */
	void (*ended)(void *arg, const struct uccl_peer *p, int err);
	void *ended_arg;
	struct uccl_tuple_budget *budget;	/* of flows whose labels are 5-tuples; outlives them. NULL: no limit */
	const char *interface;			/* its name, for messages; borrowed until close; NULL: none */
	/* This engine is lane `lane_number` of another engine, to which the channel leads. NULL: it is no lane. */
	struct uccl_lane_channel *lane_channel;
	uint8_t lane_number;
};

/* Set how many 5-tuples all engines with this budget may open together. In any thread. */
void uccl_engine_budget(struct uccl_tuple_budget *b, uint32_t tuples_max);
int uccl_engine_open(const struct uccl_engine_attr *attr, uint64_t now, struct uccl_engine **e);

/*
 * End: operations still open complete with FI_ECANCELED through done(). Peers hear of it before (uccl_engine_drain).
 */
void uccl_engine_close(struct uccl_engine *e);

/* This endpoint's address. */
const struct uccl_addr *uccl_engine_addr(const struct uccl_engine *e);
/*
 * Others may ask this engine, by an indirect address, for those at at[0..n), with incarnations from `first` on and the
 * same key. Lives longer than the engine.
 */
void uccl_engine_run(struct uccl_engine *e, uint64_t first, const struct uccl_nic_addr *at, uint32_t n);

/* One round: receive, timers, send, completions. Returns the number of events handled; 0: nothing happened. */
int uccl_engine_poll(struct uccl_engine *e, uint64_t now);
/* Has the program posted enough since the last poll to read what arrived? Not within a poll. PROTOCOL R245 */
bool uccl_engine_unread(const struct uccl_engine *e);

/* Does something that was posted wait for others, or for the NIC, and leave in the next poll? Not within a poll. */
bool uccl_engine_waits(const struct uccl_engine *e);

/* The last poll's first packet had been at the host for so long, ns; 0: none came, or it is unknown. */
uint64_t uccl_engine_first_age(const struct uccl_engine *e);

/* When poll must run again even if nothing arrives; UCCL_NEVER: no need. */
uint64_t uccl_engine_expiry(const struct uccl_engine *e);

/* Readable when something arrived; -FI_ENOSYS without one. */
int uccl_engine_wait_fd(const struct uccl_engine *e);
/* The same for a short sleep: it may miss all but packets of peers. */
int uccl_engine_nap_fd(const struct uccl_engine *e);
/* `yes`: a thread sleeps on wait_fd or nap_fd, or is about to. Then a round takes out all that would wake it again. */
void uccl_engine_watched(struct uccl_engine *e, bool yes);
/* `yes`: the descriptor was polled just now and is not readable. Then the next rounds need not look for packets. */
void uccl_engine_empty(struct uccl_engine *e, bool yes);

/*
 * Begin to close: tell every peer that this endpoint goes. Poll until uccl_engine_drained() or the linger time is over.
 */
void uccl_engine_drain(struct uccl_engine *e, uint64_t now);
bool uccl_engine_drained(const struct uccl_engine *e);

/*
 * A peer is one incarnation at an address. The one at `addr`, held for the caller; made if there is none and `create`.
 * NULL: none, or out of memory. An address that names an incarnation which has ended gives that peer, whose operations
 * fail. One that names a place only, or an incarnation that never was connected, gives a new peer then.
 */
struct uccl_peer *uccl_engine_peer(struct uccl_engine *e, const struct uccl_addr *addr, bool create);
/*
 * `p`, which the caller holds, has ended. Returns the peer that is at its address from now on, which the caller holds
 * instead. If `p` was never connected, the first packet waits for a back-off of 1 to 100 ms. NULL: out of memory; `p`
 * is still held.
 */
struct uccl_peer *uccl_peer_reconnect(struct uccl_peer *p, const struct uccl_addr *addr);
/* 0: it has not ended; else the positive FI_Exxx that ended it. */
int uccl_peer_ended(const struct uccl_peer *p);
/* The peer has ended. Does the program know: by an operation that failed, or by uccl_peer_mark_reported()? */
bool uccl_peer_error_reported(const struct uccl_peer *p);
void uccl_peer_mark_reported(struct uccl_peer *p);
const struct uccl_addr *uccl_peer_addr(const struct uccl_peer *p);
/*
 * Do both stand for one peer? An endpoint that is known by its place and by its whole address has two names, until a
 * packet proves that it is at that place. After that either name stands for the endpoint, and completions report one of
 * them.
 */
bool uccl_peer_same(const struct uccl_peer *p, const struct uccl_peer *q);
/* Did it end by closing its endpoint? */
bool uccl_peer_closed(const struct uccl_peer *p);
/*
 * A peer stays as long as it is held. One that was only named by a completion must be held before the callback returns
 * if it is to stay. After the last uccl_peer_release() the engine frees it: at once if no operation needs it and it
 * was not asked for a connection, else some time after its end.
 */
void uccl_peer_hold(struct uccl_peer *p);
void uccl_peer_release(struct uccl_peer *p);
/* A word that api keeps with a peer (its fi_addr_t); UINT64_MAX at first. */
uint64_t uccl_peer_user(const struct uccl_peer *p);
void uccl_peer_set_user(struct uccl_peer *p, uint64_t user);

struct uccl_op *uccl_op_get(struct uccl_engine *e); /* zeroed; NULL: too many are out (-FI_EAGAIN) */
/* The same for a receive, or a send, whose first part api fills, all of it (msg/op.h). */
struct uccl_op *uccl_op_get_recv(struct uccl_engine *e);
struct uccl_op *uccl_op_get_send(struct uccl_engine *e);
void uccl_op_put(struct uccl_engine *e, struct uccl_op *op);

/*
 * Post. 0: msg owns the op and will call done() once, perhaps before the call returns. Otherwise nothing happened:
 * -FI_EAGAIN too much is queued for this peer; other errors say that this peer is gone.
 */
int uccl_engine_send(struct uccl_engine *e, struct uccl_op *op, uint64_t now);
int uccl_engine_recv(struct uccl_engine *e, struct uccl_op *op, uint64_t now);
/* The same of a receive for which nothing is here, as usual; it needs no time. False: nothing was done. */
bool uccl_engine_recv_waits(struct uccl_engine *e, struct uccl_op *op);

int uccl_engine_rma(struct uccl_engine *e, struct uccl_op *op, uint64_t now);

/*
 * Copy from or to memory of a device, in the order of all such copies. done() comes from a later poll, or
 * when the engine is closed; then c->err is 0 or a positive FI_Exxx. Both places stay valid until then.
 */
void uccl_engine_copy(struct uccl_engine *e, struct uccl_copy *c, struct iovec to, bool to_device, struct iovec from,
		      bool from_device, void (*done)(struct uccl_copy *c, uint64_t now));

/*
 * A registered region goes away, or some of it (NULL: all): when this returns, nothing reads or writes it any more.
 */
void uccl_engine_revoke(struct uccl_engine *e, const void *region, const struct uccl_revoke *part, uint64_t now);

/* Cancel a posted receive by its context: done() with FI_ECANCELED; -FI_ENOENT: none is waiting. */
int uccl_engine_cancel(struct uccl_engine *e, const void *context, uint64_t now);

/*
 * Take back, by its context, the first operation to a peer that is not complete: done() once, with FI_ECANCELED or what
 * was first. -FI_ENOENT: there is none, or the peer does not know how; -FI_EAGAIN: no memory now.
 */
int uccl_engine_abort(struct uccl_engine *e, const void *context, uint64_t now);

/*
 * Look for an unexpected message that `op` (a filled receive, not posted) would match. 0: found, the result part
 * of *op is filled (done_len = message length, tag, data, from). -FI_ENOMSG: none. `claim` keeps it for
 * a later uccl_engine_recv_claimed() with the same context; `discard` drops it.
 */
int uccl_engine_peek(struct uccl_engine *e, struct uccl_op *op, bool claim, bool discard, uint64_t now);
/* Does a message wait for a receive that takes it? */
bool uccl_engine_unexpected(const struct uccl_engine *e, bool tagged);
/* Receive the message claimed under op->context into op's buffer, or drop it. -FI_ENOMSG: none claimed. */
int uccl_engine_recv_claimed(struct uccl_engine *e, struct uccl_op *op, bool discard, uint64_t now);

/*
 * For an endpoint that was opened as `connected`: from now on accept messages and requests of this peer only. NULL: of
 * no peer, as in the beginning. Messages of connection management (UCCL_OPF_CM) are accepted from all.
 */
void uccl_engine_pair(struct uccl_engine *e, struct uccl_peer *p);
/* Nothing more is received: receives end with `err` (positive FI_Exxx). Sends go on. Not from within done(). */
void uccl_engine_shut(struct uccl_engine *e, int err);
/* So many things from the wire were refused by api. */
void uccl_engine_refuse(struct uccl_engine *e, enum uccl_drop reason, uint64_t n);

/* Can its NIC tell which packets the network marked? */
bool uccl_engine_marks(const struct uccl_engine *e);
/* Counters. Both may be read at any time by the owner. */
const struct uccl_stats *uccl_engine_stats(struct uccl_engine *e);
/* Print counters and peers for a person. `each_path`: with all paths of each peer. */
void uccl_engine_report(const struct uccl_engine *e, FILE *f, bool each_path, uint64_t now);

#endif
