/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Internals of the verbs-uc and verbs-rc back ends. They send packets as verbs-ud does, and direct writes by RDMA WRITE
 * WITH IMM over connected queue pairs. No other files include this. A file calls only those below it. Each part of
 * struct uc and struct uc_dev has an owner file, which alone writes its fields:
 *
 *	verbs_uc.c		the table of functions; opens and closes an endpoint's back end, and has its peers
 *	verbs_uc_join.c		finds the set of queue pairs that a flow uses
 *	verbs_uc_rx.c		receives writes
 *	verbs_uc_dev.c		what all endpoints of the process share of a NIC
 *	verbs_uc_tx.c		sends writes, and reads their completions
 *	verbs_uc_queue.c	the completion queues and the shared receive queue
 *	verbs_uc_set.c		makes the queue pairs of a set, together with the peer
 *	verbs_uc_ring.c		events that wait for an endpoint, from any thread
 *
 * A path to a peer is two connected queue pairs, one on each side, with the same index, for both directions. A set is
 * all paths between two processes and their NICs. The flows of all their endpoints share the set; each has a number,
 * which is in the highest bits of the immediate.
 *
 * One side leads. It makes its queue pair, counts the generation and offers it. The other side makes a queue pair for
 * just this offer, connects it and answers. The leader connects its own and confirms. A queue pair never gets a second
 * partner. Without a leader both sides could for ever replace what the other one has just answered
 * (docs/protocol/direct-writes.md).
 *
 * Endpoints of a process may have different threads: uc_dev.lock protects all that they share.
 */
#ifndef UCCL_NIC_VERBS_UC_STATE_H
#define UCCL_NIC_VERBS_UC_STATE_H

#ifdef HAVE_VERBS

#include <pthread.h>
#include <stdatomic.h>
#include <sys/queue.h>

#include "base/hash.h"
#include "base/mac.h"
#include "nic/verbs/mrcache.h"
#include "nic/verbs/verbs_mw.h"
#include "nic/verbs/ud_state.h"

#define UC_CHAIN 32	  /* most requests, or receives, of one doorbell */
#define UC_RX_BATCH 32	  /* most completions of one poll */
#define UC_TX_SLOTS 512	  /* most writes at the NIC */
#define UC_DONE 2048	  /* a power of 2: most writes at the NIC, or done and not yet reported */
#define UC_QPS 1024	  /* default limit on queue pairs of all sets together */
#define UC_QPS_MAX 16384
#define UC_ENTRY 16	  /* bytes of one entry of a record */
#define UC_PSN_MASK 0xffffffu
#define UC_FLOWS 16	  /* most flows of a set, from the bits of the immediate above the flow's own */
#define UC_PROOF 8	  /* bytes of a proof that a side knows a set */

/* Kinds of entries (docs/protocol/direct-writes.md). OFFER to GONE concern a set, the others the flow they come by. */
enum uc_kind {
	UC_OFFER = 1, /* the leader's queue pair of a path */
	UC_ANSWER,    /* the other side's queue pair for this offer */
	UC_READY,     /* the leader has connected its queue pair */
	UC_WANT,      /* asks the leader for a new pair */
	UC_GONE,      /* a queue pair ended */
	UC_PROCESS,   /* names the process and its NIC */
	UC_NEW,	      /* the leader begins a new set */
	UC_JOIN,      /* the leader proposes a set that both have */
	UC_JOINED,    /* the other side agrees */
	UC_REFUSED,   /* the other side does not know the set */
};

struct uc;
struct uc_dev;
struct uc_set;

/* One queue pair of a set. verbs_uc_set.c writes it. */
struct uc_path {
	struct uccl_verbs_sq sq;
	uint64_t retry_at; /* when to try again to make the queue pair, ns */
	struct uc_set *set;
	uint16_t index; /* in uc_set.path */
	uint16_t slot;	/* in uc_sets.slot, part of the wr_id of its requests */
	uint32_t qpn, psn; /* of our queue pair */
	uint32_t flow;	/* flow label of our writes; 0: the next queue pair draws a new one */
	uint32_t gen;	/* generation of the present or last pair; 0: there was none */
	struct {
		uint32_t qpn, psn;
		uint8_t mtu;
	} theirs;	/* the peer's queue pair, from its last offer or answer */
	bool joined;	/* our queue pair is connected to theirs */
	uint32_t may;	/* if we do not lead: the generation that the leader has confirmed */
	bool pair_due, ready_due, want_due, gone_due; /* entries to send; pair_due: OFFER or ANSWER */
	bool able;	/* writes can be sent */
	bool waits;	/* it is in uc_sets.waiting */
	TAILQ_ENTRY(uc_path) wait; /* in uc_sets.waiting: its queue pair is made at retry_at */
	UT_hash_handle hh;	   /* in uc_sets.by_qpn while there is a queue pair */
};

/* A peer's state while a set is looked for. Nonces are never 0. verbs_uc_join.c writes it. */
struct uc_join {
	uint64_t process;   /* name of the peer's process */
	uint32_t nonce, their_nonce;
	bool process_due, choice_due, joined_due, refused_due; /* entries to send; choice_due: NEW or JOIN */
	bool old;	    /* the set existed before the flow */
	uint8_t refusals;   /* times that the peer refused to join a set */
	uint32_t refused_serial; /* serial for REFUSED */
	uint8_t early[UC_ENTRY]; /* a NEW or JOIN that came before PROCESS; kind 0: none */
};

/* Paths of a peer to report to the endpoint, one bit each. verbs_uc_ring.c writes it. */
struct uc_events {
	uint64_t changed[UCCL_PATHS_MAX / 64]; /* their state changed */
	uint64_t fenced[UCCL_PATHS_MAX / 64];
	bool queued; /* the peer is in uc_ring.events */
	TAILQ_ENTRY(uc_peer) link;
};

/* A peer of one endpoint: our end of a flow. Owner of what is no part: verbs_uc.c. */
struct uc_peer {
	TAILQ_ENTRY(uc_peer) all; /* in uc.peers */
	struct uc *w;
	struct uccl_nic_addr to;
	uint64_t id;	    /* argument of uccl_nic_ops.connect() */
	uint16_t n;	    /* paths */
	struct ud_watch *watch; /* NULL: the peer has no liveness connection */
	uint32_t prepared;  /* writes prepared and not finished */
	/* verbs_uc_set.c */
	struct uc_set *set; /* NULL: none yet */
	uint8_t number;	    /* number of the flow in the set */
	bool joined;	    /* both sides know that the flow is in the set */
	struct uc_join join;
	struct uc_events events;
};

/* The queue pairs of two processes. verbs_uc_set.c writes it. */
struct uc_set {
	TAILQ_ENTRY(uc_set) all; /* in uc_sets.all */
	struct uccl_nic_addr to; /* an address on the peer's NIC */
	uint64_t process;	 /* name of the peer's process */
	uint32_t serial;	 /* name of the set, chosen by the leader */
	uint8_t key[UCCL_KEY_LEN]; /* secret of the two processes, for proofs */
	uint64_t used_ns; /* last time that a write was sent, received or prepared */
	uint32_t nqps;	  /* queue pairs that exist */
	bool leads; /* this side leads */
	bool known; /* the other side has the set, too */
	uint16_t n; /* paths */
	uint8_t nflows, next_flow; /* flows in it; number to try for the next one */
	struct uc_peer *flow[UC_FLOWS]; /* by number */
	struct uc_path path[];
};

/* Finds the path of a completion from its wr_id. */
struct uc_slot {
	struct uc_path *path;
	uint16_t generation;
};

/* The payload of a write was read by the NIC, or the write is lost: to be reported to the flow. */
struct uc_done {
	uint64_t cookie, id;
};

/* A write that arrived and that the endpoint has not fetched yet. */
struct uc_arrived {
	struct uc_peer *peer; /* NULL: disconnected since */
	uint32_t imm, len;
	uint16_t path;
};

/*
 * Endpoints with an equal key share a uc_dev. It is compared bytewise, so padding is zeroed.
 * verbs_uc_dev.c writes it.
 */
struct uc_dev_key {
	const struct uccl_verbs *lib;
	uint64_t (*clock)(void);
	const struct uccl_qp_budget *budget;
	uint32_t type, max_qp, srq_depth, write_bytes, windows; /* type: enum ibv_qp_type */
	struct uccl_verbs_mark mark;
	uint8_t port, ip[16];
	char name[UCCL_VERBS_NAME];
};

/* verbs_uc_queue.c writes it. */
struct uc_queues {
	struct ibv_comp_channel *channel;
	struct ibv_cq *tx_cq, *rx_cq;
	struct ibv_srq *srq;
	uint32_t srq_depth, srq_due; /* receives to be posted again */
	bool rx_armed, tx_armed; /* the completion queue will signal its next completion on `channel` */
	uint64_t renewed; /* broken queues replaced */
};

/* Sending, of all endpoints. verbs_uc_tx.c writes it. */
struct uc_dev_tx {
	struct uccl_verbs_slab slab; /* one buffer for each write at the NIC; has the payload if that was copied */
	struct uccl_mrcache *sources; /* registrations of memory that writes are sent from */
	uint64_t copy_until; /* registering failed, so payload is copied until this time, ns */
	struct uccl_verbs_gpu_keep gpu_sources; /* registrations of device memory that writes are sent from */
	uint64_t lost, errors; /* writes that could not be sent, or completed in error */
	uint64_t direct; /* writes that the NIC read from the caller's memory, without a copy */
	uint64_t doorbells;
};

/* Receiving, of all endpoints. verbs_uc_rx.c writes it. */
struct uc_dev_rx {
	uint32_t calls; /* calls of rx() */
	uint64_t errors; /* receives that completed in error, for example late writes to closed places */
	uint64_t bad;	 /* writes on queue pairs that ended, or of an unknown flow */
};

/* Sets, and the queue pairs of all of them. verbs_uc_set.c writes it. */
struct uc_sets {
	TAILQ_HEAD(, uc_set) all;
	uint32_t serials; /* last serial of a set that we lead */
	TAILQ_HEAD(, uc_path) waiting; /* paths whose queue pair is to be made */
	struct uc_path *by_qpn;	       /* hash table of the paths with a queue pair */
	struct uc_slot *slot;	       /* max_qp entries */
	uint32_t max_qp, nqps, next_slot;
	struct uccl_qp_budget *budget, own_budget;
	uint64_t yield_at; /* when to check next whether another back end needs queue pairs, ns */
	uint64_t made, joined, reclaimed; /* queue pairs made, connected, taken back because idle */
};

/* What all endpoints of this process share of one NIC. Owner of what is no part: verbs_uc_dev.c. */
struct uc_dev {
	TAILQ_ENTRY(uc_dev) all;
	struct uc_dev_key key;
	pthread_mutex_t lock; /* protects all fields below */
	const struct uccl_verbs *lib;
	uint64_t (*clock)(void);
	struct uccl_verbs_port port;
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	enum uccl_link link;
	bool labels;	  /* the flow label selects a path in the network */
	uint64_t process; /* random name of this process */
	TAILQ_HEAD(, uc) endpoints;
	uint32_t nendpoints;
	struct uc *serving; /* endpoint whose thread holds the lock, so it needs no wakeup; see uc_lock() */
	struct uccl_verbs_mws *windows; /* memory windows for peers' writes; NULL: memory is registered each time */
	struct uccl_verbs_gpus gpus;
	struct uc_queues queues;
	struct uc_dev_tx tx;
	struct uc_dev_rx rx;
	struct uc_sets sets;
	uint64_t refused; /* verbs_uc_join.c: JOINs without a valid proof */
};

/* Requests that one tx() makes. verbs_uc_tx.c writes it. */
struct uc_tx {
	struct ibv_send_wr wr[UC_CHAIN];
	struct ibv_sge sge[UC_CHAIN];
	struct uc_path *chain[UC_CHAIN];
	int nchains;
	uint64_t direct; /* this endpoint's part of uc_dev_tx.direct */
};

/* Events that wait for an endpoint. verbs_uc_ring.c writes it. */
struct uc_ring {
	struct uc_done *done; /* UC_DONE entries */
	uint32_t done_head, done_tail;
	struct uc_arrived *arrived; /* its receive is posted again when an entry is taken out */
	uint32_t arrived_head, arrived_tail, arrived_size;
	TAILQ_HEAD(, uc_peer) events; /* peers with events to report */
	bool waiting_fd, kicked; /* wait_fd() was called; kick_fd is readable */
	int kick_fd; /* readable: another endpoint's thread found something for this one; -1: none */
};

/* One endpoint's back end. Owner of what is no part: verbs_uc.c. */
struct uc {
	struct uccl_nic nic;
	struct uccl_nic *packets; /* the verbs-ud back end */
	struct ud *ud;
	struct uc_dev *dev; /* verbs_uc_dev.c */
	TAILQ_ENTRY(uc) all; /* verbs_uc_dev.c: in uc_dev.endpoints */
	uint32_t writers; /* flows with prepared writes */
	TAILQ_HEAD(, uc_peer) peers; /* connected peers */
	bool packets_filled; /* verbs_uc_rx.c: the last rx() found more packets than it had room for */
	struct uc_tx tx;
	struct uc_ring ring;
};

static inline struct uc *uc_of(struct uccl_nic *nic)
{
	return uccl_container_of(nic, struct uc, nic);
}

/* Open with another table and clock, for tests. `type`: IBV_QPT_UC or IBV_QPT_RC. */
int uccl_verbs_uc_open(const struct uccl_verbs *lib, uint64_t (*clock)(void), enum ibv_qp_type type,
		       const struct uccl_nic_attr *attr, struct uccl_nic **nic);

/* verbs_uc_rx.c: uccl_nic_ops.rx and wait_fd. */

int uccl_uc_rx(struct uccl_nic *nic, struct uccl_rx *v, int n, const struct uccl_rx_placement *places, int nplaces);
int uccl_uc_wait_fd(struct uccl_nic *nic);

/* verbs_uc_dev.c: with the lock held, if nothing else is said. */

/* Most bytes of a write on such a port. `wanted`: what the user set; 0: what suits the port. */
uint32_t uccl_verbs_write_max(const struct uccl_verbs_port *port, uint32_t wanted);
/* The value of uccl_nic_caps.write_brittle; false if the user set `wanted`. */
bool uccl_verbs_write_brittle(const struct uccl_verbs_port *port, enum ibv_qp_type type, uint32_t wanted);

/*
 * Set w->dev to the shared state of the NIC of w->ud; make it if it does not exist. To be given back by
 * uccl_uc_dev_put(). -FI_ENOSYS: the NIC has no such queue pairs; or another error. Without the lock.
 */
int uccl_uc_dev_get(const struct uccl_verbs *lib, uint64_t (*clock)(void), enum ibv_qp_type type,
		    const struct uccl_nic_attr *attr, struct uc *w);
/* Without the lock. */
void uccl_uc_dev_put(struct uc *w);
/* Read the asynchronous events of the NIC. */
void uccl_uc_dev_events(struct uc_dev *d);

/* The NIC is gone for ever, or cannot be used any more. */
static inline void uc_dev_gone(struct uc_dev *d)
{
	d->link = UCCL_LINK_GONE;
}

/* verbs_uc_tx.c */

/* Send writes; returns how many were taken. Without the lock. */
int uccl_uc_tx(struct uc *w, struct uccl_tx *v, int n);
/* Read the completions of writes. With the lock held. */
void uccl_uc_reap(struct uc_dev *d);
/* Writes have up to `write_max` bytes. 0 or an error; call uccl_uc_tx_close() in both cases. */
int uccl_uc_tx_open(struct uc_dev *d, uint32_t write_max, uint64_t nodes);
void uccl_uc_tx_close(struct uc_dev *d);

/* verbs_uc_queue.c, with the lock held. */

/* Make the queues, `depth` receives deep. 0 or an error; call uccl_uc_queues_close() in both cases. */
int uccl_uc_queues_open(struct uc_dev *d, uint32_t depth);
void uccl_uc_queues_close(struct uc_dev *d);
/* A queue broke: replace all of them. False: that failed. */
bool uccl_uc_queues_renew(struct uc_dev *d);
/* Post receives in place of those that completed. */
void uccl_uc_queues_post(struct uc_dev *d);
/* Arm the completion queues. `ready`: read the events of the channel first. */
void uccl_uc_queues_arm(struct uc_dev *d, bool ready);
/* So many receives are to be posted again. */
static inline void uc_queues_return(struct uc_dev *d, uint32_t n)
{
	d->queues.srq_due += n;
}

/* verbs_uc_ring.c: with the lock held. */

/* Allocate the rings, after w->dev is set. 0 or an error; call uccl_uc_ring_close() in both cases. */
int uccl_uc_ring_open(struct uc *w);
void uccl_uc_ring_close(struct uc *w);
/* The descriptor that becomes readable when another thread finds something for this endpoint; or an error. */
int uccl_uc_ring_fd(struct uc *w);
/* From now on the endpoint's thread may sleep until that descriptor is readable. */
void uccl_uc_ring_wait(struct uc *w);
/* An endpoint has something to fetch: wake its thread if that is another one and sleeps. */
void uccl_uc_kick(struct uc *w);
/* The endpoint's thread is awake. */
void uccl_uc_kick_read(struct uc *w);
/* Queue for the endpoint: the state of a path changed, or the path is `fenced`. Wakes the endpoint. */
void uccl_uc_event(struct uc_peer *peer, uint16_t path, bool fenced);
/* Queue for the endpoint: the NIC no longer reads the payload of `cookie`. The ring has room for all writes. */
void uccl_uc_done(struct uc *w, uint64_t cookie, uint64_t id);
/* Queue a write that arrived, and wake its endpoint. */
void uccl_uc_arrived(struct uc_peer *peer, uint32_t imm, uint32_t len, uint16_t path);
/* The receive queue was replaced: forget the writes that arrived. */
void uccl_uc_ring_renew(struct uc *w);
/* The peer disconnects: nothing about it is reported any more. */
void uccl_uc_ring_forget(struct uc *w, struct uc_peer *peer);
/* Fill v[0..n) with queued events: of paths, of sent writes, of arrived writes. Returns how many. */
int uccl_uc_ring_report(struct uc *w, struct uccl_rx *v, int n);

static inline void uc_lock(struct uc *w)
{
	pthread_mutex_lock(&w->dev->lock);
	w->dev->serving = w;
}

static inline void uc_unlock(struct uc *w)
{
	w->dev->serving = NULL;
	pthread_mutex_unlock(&w->dev->lock);
}

/* verbs_uc_set.c, all with the lock held. */

/* Up to max_qp queue pairs, within a budget (NULL: of its own). 0 or -FI_ENOMEM; uccl_uc_sets_close() in both cases. */
int uccl_uc_sets_open(struct uc_dev *d, uint32_t max_qp, struct uccl_qp_budget *budget);
void uccl_uc_sets_close(struct uc_dev *d);
/* The path with this queue pair; NULL: none. */
struct uc_path *uccl_uc_path_find(struct uc_dev *d, uint32_t qpn);
/* The queue pair of a path broke: replace it, now or soon. */
void uccl_uc_path_broke(struct uc_dev *d, struct uc_path *p);
/* The same; the new one takes another route through the network. */
void uccl_uc_path_reroute(struct uc_dev *d, struct uc_path *p);
/* Destroy idle queue pairs if another back end of this process found none left (uccl_qp_budget). */
void uccl_uc_yield(struct uc_dev *d);
/* End all queue pairs, and make new ones soon. */
void uccl_uc_paths_end(struct uc_dev *d);
/* Make the queue pairs that are due. */
void uccl_uc_paths_retry(struct uc_dev *d);
/* 0: the NIC can make a queue pair of this kind; or an error. */
int uccl_uc_probe(struct uc_dev *d);
/* A set that we lead gets a new serial, another one that of the leader. NULL: out of memory. */
struct uc_set *uccl_uc_set_new(struct uc_dev *d, const struct uc_peer *peer, bool leads, uint32_t serial,
			       const uint8_t secret[8]);
/* Writes use the set now. */
static inline void uc_set_used(struct uc_set *s, uint64_t now)
{
	s->used_ns = now;
}
/* A free number for one more flow; -1: the set is full. */
int uccl_uc_set_room(const struct uc_set *s);
void uccl_uc_set_add(struct uc_set *s, struct uc_peer *peer, uint8_t number);
/* End the queue pairs in which writes of this flow are under way. */
void uccl_uc_set_stop(struct uc_dev *d, struct uc_peer *peer);
/* A flow leaves its set: no write of it is under way afterwards. The last flow frees the set. */
void uccl_uc_set_leave(struct uc_dev *d, struct uc_peer *peer);
/* Both sides know that the flow is in its set. Queues events: the paths that can be used. */
void uccl_uc_set_joined(struct uc_peer *peer);
/* Fence a path: end its queue pair, so that no earlier write can arrive, and queue an event for all flows. */
void uccl_uc_set_fence(struct uc_dev *d, struct uc_set *s, uint16_t path);
/* Implements uccl_nic_ops.renew(). `write_max`: most bytes of the peer's writes. */
void uccl_uc_set_renew(struct uc_dev *d, struct uc_peer *peer, uint16_t path, bool stays, uint32_t write_max);
/* Begin what is needed to receive writes. True: the set is ready. */
bool uccl_uc_set_prepare(struct uc_dev *d, struct uc_set *s);
/* Write the next entry of a set, UC_ENTRY bytes, to `at`. False: there is none. */
bool uccl_uc_set_say(struct uc_dev *d, struct uc_set *s, uint8_t *at);
/* True if the entry at `at` from the peer is valid for its set. */
bool uccl_uc_set_valid(const struct uc_peer *peer, const uint8_t *at);
/* Handle a valid entry. */
void uccl_uc_set_take(struct uc_dev *d, struct uc_set *s, const uint8_t *at);

/* verbs_uc_join.c, with the lock held. */

/* Begin to look for a set for this flow, if that has not begun. */
void uccl_uc_join_begin(struct uc_dev *d, struct uc_peer *peer);
/* Write the flow's next entry, UC_ENTRY bytes, to `at`. False: there is none. */
bool uccl_uc_join_say(struct uc_dev *d, struct uc_peer *peer, uint8_t *at);
/* True if the entry at `at` from the peer is valid now. */
bool uccl_uc_join_valid(const struct uc_peer *peer, const uint8_t *at);
/* Handle a valid entry. */
void uccl_uc_join_take(struct uc_dev *d, struct uc_peer *peer, const uint8_t *at);

#endif

#endif
