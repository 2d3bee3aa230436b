/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Inside of the verbs-uc and verbs-rc back ends: everything of verbs-ud, and RDMA WRITE WITH IMM over connected queue
 * pairs. verbs_uc.c opens, closes and has the peers of one endpoint; verbs_uc_dev.c has what all endpoints of this
 * process share of a NIC; verbs_uc_join.c finds out which set of queue pairs a flow uses; verbs_uc_set.c makes their
 * queue pairs together with the peer. Nobody else includes this. Files call only those after them:
 *
 *	verbs_uc.c		the table of functions
 *	verbs_uc_join.c		which set
 *	verbs_uc_rx.c		what came
 *	verbs_uc_tx.c		writes, and that they have left
 *	verbs_uc_dev.c		what is shared
 *	verbs_uc_set.c		queue pairs
 *	verbs_uc_ring.c		what waits for an endpoint, which all of them fill
 *
 * A path to a peer is a pair of queue pairs, one on each side, of the same number, for both directions; a set is all of
 * them between two processes and their NICs, whatever endpoints they have: the flows of a set have numbers, which go in
 * the highest bits of the immediate. One side leads: it makes its own, counts the generations and offers it; the other
 * one makes one for just this offer, connects it and answers; the leader connects and says so. A queue pair never gets
 * a second partner. With two that begin on their own, each could for ever replace what the other one has just answered
 * (docs/protocol/direct-writes.md).
 *
 * Endpoints of a process may have a thread each: all that is shared is under uc_dev.lock.
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

#define UC_CHAIN 32	  /* requests a doorbell, at most; receives likewise */
#define UC_RX_BATCH 32	  /* completions that are taken at once, at most */
#define UC_TX_SLOTS 512	  /* writes on their way into the NIC */
#define UC_DONE 2048	  /* those, and what is to be told of them */
#define UC_QPS 1024	  /* queue pairs of all sets together, if nothing is wished */
#define UC_QPS_MAX 16384
#define UC_ENTRY 16	  /* bytes of one thing that is said */
#define UC_PSN_MASK 0xffffffu
#define UC_FLOWS 16	  /* of a set, at most: the bits of the immediate above the flow's own */
#define UC_PROOF 8	  /* bytes of a proof that a set is known */

/* The first five are of a set, the others of the flow that they come by. */
enum uc_kind {
	UC_OFFER = 1,
	UC_ANSWER,
	UC_READY,
	UC_WANT,
	UC_GONE,
	UC_PROCESS,
	UC_NEW,
	UC_JOIN,
	UC_JOINED,
	UC_REFUSED,
};

struct uc;
struct uc_dev;
struct uc_set;

struct uc_path {
	struct uccl_verbs_sq sq;
	struct uc_set *set;
	uint16_t index;
	uint16_t slot;	/* in uc_dev.slot, the name of its requests */
	uint32_t qpn, psn;
	uint32_t flow;	/* label of what we send there; 0: the next queue pair draws one */
	uint32_t gen;	/* of the pair, or of the last one; 0: there was none */
	struct {
		uint32_t qpn, psn;
		uint8_t mtu;
	} theirs;	/* offered or answered last */
	bool joined;	/* ours is connected to theirs */
	uint32_t may;	/* who does not lead: the generation that the leader has connected */
	bool pair_due, ready_due, want_due, gone_due; /* to be said; pair: OFFER or ANSWER */
	bool able;	/* writes can go */
	bool waits;
	TAILQ_ENTRY(uc_path) wait; /* to be made when sq.retry_at has come */
	UT_hash_handle hh;	   /* by qpn, while there is a queue pair */
};

/* One flow's end here: a peer of one endpoint. */
struct uc_peer {
	TAILQ_ENTRY(uc_peer) all;
	struct uc *w;
	struct uccl_nic_addr to;
	uint64_t id;
	uint16_t n;
	struct ud_watch *watch; /* NULL: its host says nothing of it */
	struct uc_set *set; /* NULL: there is none yet */
	uint8_t number;	    /* there */
	bool joined;	    /* both sides know that */
	bool old;	    /* the set was there before */
	uint8_t refusals;   /* of the other side, to join one */
	uint32_t granted;   /* prepared and not finished */
	/* What is known and said while a set is looked for; nonces are not 0. */
	uint64_t process;
	uint32_t nonce, their_nonce;
	bool process_due, choice_due, joined_due, refused_due;
	uint32_t refused_serial;
	uint8_t early[UC_ENTRY]; /* a choice that came before the process was named; kind 0: none */
	/* Paths of which the endpoint is to be told. */
	uint64_t events[UCCL_PATHS_MAX / 64];
	uint64_t fenced[UCCL_PATHS_MAX / 64];
	bool has_events;
	TAILQ_ENTRY(uc_peer) events_link;
};

struct uc_set {
	TAILQ_ENTRY(uc_set) all;
	struct uccl_nic_addr to; /* a place on the peer's NIC */
	uint64_t process;	 /* of the peer */
	uint32_t serial;	 /* its name, by the leader */
	uint8_t key[UCCL_KEY_LEN];
	uint64_t used_ns; /* when something was written, or wanted */
	uint32_t nqps;
	bool leads; /* we do, */
	bool known; /* and the other side has it as well */
	uint16_t n;
	uint8_t nflows, next_flow;
	struct uc_peer *flow[UC_FLOWS];
	struct uc_path path[];
};

struct uc_slot {
	struct uc_path *path;
	uint16_t generation;
};

struct uccl_verbs_uc_stats {
	uint64_t tx_lost;   /* writes that could not go */
	uint64_t tx_errors; /* completions in error of writes */
	uint64_t rx_errors; /* of receives, late writes to closed places among them */
	uint64_t rx_bad;    /* writes on queue pairs that are no more, or of no flow */
	uint64_t made, joined, reclaimed;
	uint64_t renewed; /* broken queues */
	uint64_t doorbells;
	uint64_t tx_direct; /* writes that the NIC read from the caller's own memory */
	uint64_t refused;   /* claims to know a set that are not proved */
};

/* A write of which the NIC has read the payload, or that is lost: the flow is to be told. */
struct uc_done {
	uint64_t cookie, id;
};

/* A write that came, until its endpoint asks. */
struct uc_arrived {
	struct uc_peer *peer; /* NULL: gone since */
	uint32_t imm, len;
	uint16_t path;
};

/* Endpoints for which all of this is the same share; no byte of it is undefined. */
struct uc_dev_key {
	const struct uccl_verbs *lib;
	uint64_t (*clock)(void);
	const struct uccl_qp_budget *budget;
	uint32_t type, max_qp, srq_depth, write_bytes, windows;
	struct uccl_verbs_mark mark;
	uint8_t port, ip[16];
	char name[UCCL_VERBS_NAME];
};

/* What all endpoints of this process share of one NIC. */
struct uc_dev {
	TAILQ_ENTRY(uc_dev) all;
	struct uc_dev_key key;
	pthread_mutex_t lock; /* of all that follows */
	const struct uccl_verbs *lib;
	uint64_t (*clock)(void);
	enum ibv_qp_type type;
	struct uccl_verbs_port port;
	struct uccl_verbs_mark mark;
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	enum uccl_link link;
	bool labels;	  /* flow labels make paths here */
	uint64_t process; /* our name, random */
	uint32_t serials;
	struct uccl_verbs_uc_stats stats;
	TAILQ_HEAD(, uc) endpoints;
	uint32_t nendpoints;
	struct uc *serving; /* who has the lock, and needs no waking */
	struct ibv_comp_channel *channel;
	struct ibv_cq *tx_cq, *rx_cq;
	struct ibv_srq *srq;
	uint32_t srq_depth, srq_due; /* receives to be posted again */
	bool rx_armed, tx_armed; /* an event was asked for */
	uint32_t calls;
	struct uccl_verbs_slab tx; /* a piece for each write under way, its payload in it if it had to be copied */
	struct uccl_mrcache *sources;
	uint64_t copy_until; /* nothing can be registered */
	struct uccl_verbs_mws *windows; /* for what peers write to; NULL: that is registered each time */
	struct uccl_verbs_gpus gpus;
	struct uccl_verbs_gpu_keep gpu_sources; /* memory of devices that writes are sent from */
	TAILQ_HEAD(, uc_set) sets;
	TAILQ_HEAD(, uc_path) waiting;
	struct uc_path *by_qpn;
	struct uc_slot *slot;
	uint32_t max_qp, nqps, next_slot;
	struct uccl_qp_budget *budget, own_budget;
	uint64_t yield_at;
};

/* One endpoint's back end. */
struct uc {
	struct uccl_nic nic;
	struct uccl_nic *packets; /* the verbs-ud back end */
	struct ud *ud;
	struct uc_dev *dev;
	TAILQ_ENTRY(uc) all;
	uint64_t tx_direct;
	uint32_t writers; /* flows that were granted writes */
	struct uc_done *done; /* ring */
	uint32_t done_head, done_tail, done_size;
	struct uc_arrived *arrived; /* ring: a receive is posted again when it is taken out */
	uint32_t arrived_head, arrived_tail, arrived_size;
	struct ibv_send_wr wr[UC_CHAIN];
	struct ibv_sge sge[UC_CHAIN];
	struct uc_path *chain[UC_CHAIN];
	int nchains;
	TAILQ_HEAD(, uc_peer) peers; /* that are connected */
	TAILQ_HEAD(, uc_peer) events;
	bool packets_filled; /* the last call of rx() found more packets than it had room for */
	bool waiting_fd, kicked;
	int kick_fd; /* readable: another endpoint's thread found something for this one; -1 */
};

static inline struct uc *uc_of(struct uccl_nic *nic)
{
	return uccl_container_of(nic, struct uc, nic);
}

/* With another table and clock, for tests; IBV_QPT_UC or IBV_QPT_RC. */
int uccl_verbs_uc_open(const struct uccl_verbs *lib, uint64_t (*clock)(void), enum ibv_qp_type type,
		       const struct uccl_nic_attr *attr, struct uccl_nic **nic);
/* Of all endpoints of the process on this NIC; live as long as the back end. */
const struct uccl_verbs_uc_stats *uccl_verbs_uc_stats(struct uccl_nic *nic);

/* verbs_uc_tx.c */

/* Send writes; how many were taken. Without the lock. */
int uccl_uc_tx(struct uc *w, struct uccl_tx *v, int n);
/* Take in which writes the NIC has read. With the lock held. */
void uccl_uc_reap(struct uc_dev *d);

/* verbs_uc_rx.c: uccl_nic_ops.rx and wait_fd. */

int uccl_uc_rx(struct uccl_nic *nic, struct uccl_rx *v, int n, const struct uccl_rx_placement *hints, int nhints);
int uccl_uc_wait_fd(struct uccl_nic *nic);

/* verbs_uc_ring.c: with the lock held. */

/* When the device is known; undone by close, whether it succeeded or not. */
int uccl_uc_ring_open(struct uc *w);
void uccl_uc_ring_close(struct uc *w);
/* There is something for an endpoint: wake its thread if that is another one, and sleeps. */
void uccl_uc_kick(struct uc *w);
/* The endpoint is told that the NIC reads the payload of `cookie` no more; there is room. */
void uccl_uc_done(struct uc *w, uint64_t cookie, uint64_t id);
/* A write came. Its endpoint is woken. */
void uccl_uc_arrived(struct uc_peer *peer, uint32_t imm, uint32_t len, uint16_t path);
/* The peer goes: nothing of it is told any more. */
void uccl_uc_arrived_forget(struct uc *w, const struct uc_peer *peer);
/* Tell of paths, of what was sent, of what came; how much of v was filled. */
int uccl_uc_tell(struct uc *w, struct uccl_rx *v, int n);

/* verbs_uc_dev.c: with the lock held, if nothing else is said. */

/* The largest write that is made on such a port; `wanted` 0: as suits it. */
uint32_t uccl_verbs_write_max(const struct uccl_verbs_port *port, uint32_t wanted);
/* uccl_nic_caps.write_brittle; with a wanted it is the person's affair. */
bool uccl_verbs_write_brittle(const struct uccl_verbs_port *port, enum ibv_qp_type type, uint32_t wanted);

/*
 * Give w->dev that of the NIC of w->ud, made if there is none; it is to be put back. -FI_ENOSYS: there are no such
 * queue pairs, or another error. Without the lock.
 */
int uccl_uc_dev_get(const struct uccl_verbs *lib, uint64_t (*clock)(void), enum ibv_qp_type type,
		    const struct uccl_nic_attr *attr, struct uc *w);
/* Without the lock. */
void uccl_uc_dev_put(struct uc *w);
/* Post receives for those that were taken. */
void uccl_uc_dev_post(struct uc_dev *d);
/* Take in what the NIC says of itself. */
void uccl_uc_dev_events(struct uc_dev *d);
/* Empty the channel, if it is ready, and ask for the next event. */
void uccl_uc_dev_arm(struct uc_dev *d, bool ready);

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

struct uc_path *uccl_uc_path_find(struct uc_dev *d, uint32_t qpn);
/* The queue pair of a path broke: it is made anew, now or soon. */
void uccl_uc_path_broke(struct uc_dev *d, struct uc_path *p);
/* Give back what is idle if another back end of this process found none left. */
void uccl_uc_yield(struct uc_dev *d);
/* All of them end, and are made anew soon. */
void uccl_uc_paths_end(struct uc_dev *d);
/* Make those whose time has come. */
void uccl_uc_paths_retry(struct uc_dev *d);
/* Is there a kind of queue pair on this NIC at all? 0, or an error. */
int uccl_uc_probe(struct uc_dev *d);
/* NULL: no memory. */
struct uc_set *uccl_uc_set_new(struct uc_dev *d, const struct uc_peer *peer, bool leads);
/* A number for one more flow; -1: it has no room. */
int uccl_uc_set_room(const struct uc_set *s);
void uccl_uc_set_add(struct uc_set *s, struct uc_peer *peer, uint8_t number);
/* The flow leaves: no write of it is under way afterwards, and the last one takes the set along. */
void uccl_uc_set_leave(struct uc_dev *d, struct uc_peer *peer);
/* A flow that has joined is to be told of the paths that can be used. */
void uccl_uc_set_event(struct uc_peer *peer);
/* No earlier write on a path can come any more: its queue pair ends, and all flows are told. */
void uccl_uc_set_fence(struct uc_dev *d, struct uc_set *s, uint16_t path);
/* Writes of this peer, of so many bytes at most, seem to be swallowed (uccl_nic_ops.renew). */
void uccl_uc_set_renew(struct uc_dev *d, struct uc_peer *peer, uint16_t path, bool stays, uint32_t write_max);
/* Begin what is needed to be written to: can it be, already? */
bool uccl_uc_set_prepare(struct uc_dev *d, struct uc_set *s);
/* The next thing that a set has to say; false: nothing. */
bool uccl_uc_set_say(struct uc_dev *d, struct uc_set *s, uint8_t *at);
/* Could the other side of a flow say this of the set? */
bool uccl_uc_set_valid(const struct uc_peer *peer, const uint8_t *at);
void uccl_uc_set_take(struct uc_dev *d, struct uc_set *s, const uint8_t *at);

/* verbs_uc_join.c, with the lock held. */

/* Look for a set, if that has not begun. */
void uccl_uc_join_begin(struct uc_dev *d, struct uc_peer *peer);
/* The next thing to say of it; false: nothing. */
bool uccl_uc_join_say(struct uc_dev *d, struct uc_peer *peer, uint8_t *at);
/* Could the other side say this now? */
bool uccl_uc_join_valid(const struct uc_peer *peer, const uint8_t *at);
void uccl_uc_join_take(struct uc_dev *d, struct uc_peer *peer, const uint8_t *at);

#endif

#endif
