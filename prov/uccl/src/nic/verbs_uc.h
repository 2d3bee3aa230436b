/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Inside of the verbs-uc and verbs-rc back ends: everything of verbs-ud, and RDMA WRITE WITH IMM over connected queue
 * pairs. verbs_uc.c opens, closes, sends and receives, verbs_uc_set.c makes queue pairs together with the peer. Nobody
 * else includes this.
 *
 * A path to a peer is a pair of queue pairs, one on each side, of the same number, for both directions; a set is all of
 * a peer. One side leads: it makes its own, counts the generations and offers it; the other one makes one for just this
 * offer, connects it and answers; the leader connects and says so. A queue pair never gets a second partner. With two
 * that begin on their own, each could for ever replace what the other one has just answered (PROTOCOL.md section 5).
 */
#ifndef UCCL_NIC_VERBS_UC_H
#define UCCL_NIC_VERBS_UC_H

#ifdef HAVE_VERBS

#include <sys/queue.h>

#include "base/hash.h"
#include "nic/mrcache.h"
#include "nic/verbs_ud.h"

#define UC_CHAIN 32	  /* requests a doorbell, at most; receives likewise */
#define UC_RX_BATCH 32	  /* completions that one call of rx() takes, at most */
#define UC_TX_SLOTS 512	  /* writes on their way into the NIC */
#define UC_TOLD 2048	  /* those, and what is to be told of them */
#define UC_QPS 1024	  /* queue pairs of all sets together, if nothing is wished */
#define UC_QPS_MAX 16384
#define UC_ENTRY 16	  /* bytes of one thing that is said */
#define UC_PSN_MASK 0xffffffu

enum uc_kind { UC_OFFER = 1, UC_ANSWER, UC_READY, UC_WANT, UC_GONE };

struct uc_peer;

struct uc_path {
	struct uccl_verbs_sq sq;
	struct uc_peer *peer;
	uint16_t index;
	uint16_t slot;	/* in uc.slot, the name of its requests */
	uint32_t qpn, psn;
	uint32_t gen;	/* of the pair, or of the last one; 0: there was none */
	struct {
		uint32_t qpn, psn;
		uint8_t mtu;
	} theirs;	/* offered or answered last */
	bool joined;	/* ours is connected to theirs */
	uint32_t may;	/* who does not lead: the generation that the leader has connected */
	bool pair_due, ready_due, want_due, gone_due; /* to be said; pair: OFFER or ANSWER */
	bool able;	/* writes can go */
	bool has_news, waits;
	TAILQ_ENTRY(uc_path) news; /* the flow is to be told */
	TAILQ_ENTRY(uc_path) wait; /* to be made when sq.retry_at has come */
	UT_hash_handle hh;	   /* by qpn, while there is a queue pair */
};

struct uc_peer {
	TAILQ_ENTRY(uc_peer) all;
	struct uccl_nic_addr to;
	uint64_t id;
	uint64_t used_ns; /* when something was written, or wanted */
	uint32_t nqps;
	bool leads; /* we do */
	uint16_t n;
	struct uc_path path[];
};

struct uc_slot {
	struct uc_path *path;
	uint16_t life;
};

struct uccl_verbs_uc_stats {
	uint64_t tx_lost;   /* writes that could not go */
	uint64_t tx_errors; /* completions in error of writes */
	uint64_t rx_errors; /* of receives, late writes to closed places among them */
	uint64_t rx_bad;    /* writes on queue pairs that are no more */
	uint64_t made, joined, reclaimed;
	uint64_t renewed; /* broken queues */
	uint64_t doorbells;
	uint64_t tx_direct; /* writes that the NIC read from the caller's own memory */
};

/* A write of which the NIC has read the payload, or that is lost: the flow is to be told. */
struct uc_told {
	uint64_t cookie, id;
};

struct uc {
	struct uccl_nic nic;
	struct uccl_nic *packets; /* the verbs-ud back end */
	struct ud *ud;
	const struct uccl_verbs *lib;
	enum ibv_qp_type type;
	struct uccl_verbs_uc_stats stats;
	struct ibv_comp_channel *channel;
	struct ibv_cq *tx_cq, *rx_cq;
	struct ibv_srq *srq;
	uint32_t srq_depth, srq_due; /* receives to be posted again */
	struct uccl_verbs_slab tx; /* a piece for each write under way, its payload in it if it had to be copied */
	struct uccl_mrcache *sources;
	uint64_t copy_until; /* nothing can be registered */
	struct uc_told *told; /* ring */
	uint32_t told_head, told_tail, told_size;
	struct ibv_send_wr wr[UC_CHAIN];
	struct ibv_sge sge[UC_CHAIN];
	struct uc_path *chain[UC_CHAIN];
	int nchains;
	TAILQ_HEAD(, uc_peer) peers; /* that are connected */
	TAILQ_HEAD(, uc_path) news, waiting;
	struct uc_path *by_qpn;
	struct uc_slot *slot;
	uint32_t max_qp, nqps, next_slot;
	struct uccl_qp_budget *budget, own_budget;
	uint64_t yield_at;
	bool packets_filled; /* the last call of rx() found more packets than it had room for */
	bool waiting_fd, armed;
};

static inline struct uc *uc_of(struct uccl_nic *nic)
{
	return uccl_container_of(nic, struct uc, nic);
}

/* The NIC's packet size as verbs know it: 128 << n. */
static inline uint8_t uccl_uc_mtu(const struct uc *w)
{
	uint8_t n = IBV_MTU_256;

	while (n < IBV_MTU_4096 && 256u << n <= w->ud->port.mtu)
		n++;
	return n;
}

/* With another table and clock, for tests; IBV_QPT_UC or IBV_QPT_RC. */
int uccl_verbs_uc_open(const struct uccl_verbs *lib, uint64_t (*clock)(void), enum ibv_qp_type type,
		       const struct uccl_nic_attr *attr, struct uccl_nic **nic);
/* The largest write that it makes on such a port. */
uint32_t uccl_verbs_write_max(const struct uccl_verbs_port *port, enum ibv_qp_type type);
/* Live as long as the back end. */
const struct uccl_verbs_uc_stats *uccl_verbs_uc_stats(struct uccl_nic *nic);

/* verbs_uc_set.c */
struct uc_path *uccl_uc_path_find(struct uc *w, uint32_t qpn);
/* The queue pair of a path broke: it is made anew, now or soon. */
void uccl_uc_path_broke(struct uc *w, struct uc_path *p);
/* Give back what is idle if another back end of this process found none left. */
void uccl_uc_yield(struct uc *w);
/* All of them end, and are made anew soon. */
void uccl_uc_paths_end(struct uc *w);
/* Make those whose time has come. */
void uccl_uc_paths_retry(struct uc *w);
/* Is there a kind of queue pair on this NIC at all? 0, or an error. */
int uccl_uc_probe(struct uc *w);
void uccl_uc_peer_free(struct uc *w, struct uc_peer *peer);
int uccl_uc_prepare(struct uccl_nic *nic, struct uccl_nic_peer *peer);
uint32_t uccl_uc_offer(struct uccl_nic *nic, struct uccl_nic_peer *peer, uint8_t *buf, uint32_t n);
int uccl_uc_accept(struct uccl_nic *nic, struct uccl_nic_peer *peer, const uint8_t *buf, uint32_t len);
void uccl_uc_renew(struct uccl_nic *nic, struct uccl_nic_peer *peer, uint16_t path);

#endif

#endif
