/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Endpoints: one engine each. The lock of an endpoint covers its engine and everything below; the program takes it over
 * under FI_THREAD_DOMAIN and FI_THREAD_COMPLETION.
 */
#ifndef UCCL_API_EP_H
#define UCCL_API_EP_H

#include <pthread.h>
#include <rdma/fi_endpoint.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "api/idle.h"
#include "api/progress.h"
#include "base/units.h"
#include "engine/engine.h"

struct uccl_av;
struct uccl_cm;
struct uccl_cntr;
struct uccl_colls;
struct uccl_cq;
struct uccl_domain;
struct uccl_ep;
struct uccl_eq;
struct uccl_hmem_ops;
struct uccl_named;
struct uccl_sep;
struct uccl_srx;
struct uccl_stage;
struct uccl_stx;

/* Directions. */
#define UCCL_TX 1u
#define UCCL_RX 2u

/* The handle that a program has: of the endpoint itself, or an alias with other default flags. */
struct uccl_ep_fid {
	struct fid_ep fid;
	struct uccl_ep *ep;		/* NULL: of a shared receive context */
	struct uccl_srx *srx;		/* that context */
	uint64_t tx_flags, rx_flags;	/* for calls without flags of their own */
};

static inline struct uccl_ep *uccl_ep_of(struct fid_ep *fid)
{
	return uccl_container_of(fid, struct uccl_ep_fid, fid)->ep;
}

enum uccl_cntr_slot {
	UCCL_CNTR_SEND, UCCL_CNTR_RECV, UCCL_CNTR_READ, UCCL_CNTR_WRITE, UCCL_CNTR_REMOTE_READ,
	UCCL_CNTR_REMOTE_WRITE, UCCL_CNTR_SLOTS
};

/* Wait objects that an endpoint may have to wake: two queues, the counters, an event queue, its own thread. */
#define UCCL_EP_WAITS (2 + UCCL_CNTR_SLOTS + 2)

struct uccl_ep {
	struct uccl_ep_fid self;
	struct uccl_sep *sep;		/* the endpoint that it is a context of; NULL: none */
	struct uccl_domain *domain;
	struct uccl_engine *engine;	/* NULL: not made yet */
	struct uccl_cm *cm;		/* FI_EP_MSG; NULL: connectionless */
	struct uccl_peer *sole;		/* whom that is connected to, or NULL */
	struct uccl_live *live;		/* NULL: nobody watches */
	struct uccl_linkshare *linkshare; /* NULL: none */
	struct uccl_named *named;	/* who tells its address at src.port, NULL: not on an RDMA NIC, or no port */
	struct uccl_tracefile *trace;	/* NULL: no trace */
	const struct uccl_hmem_ops *hmem; /* devices whose memory may be passed; NULL: none */
	struct uccl_stage *stage;	/* what copies from and to them; NULL: not yet */
	pthread_mutex_t lock;
	bool locking;
	uint8_t ways;			/* UCCL_TX, UCCL_RX: a context has one of them */
	uint8_t enabled;		/* the same, or 0 */
	bool closing;			/* what completes now is not reported */
	bool directed, source, strangers; /* FI_DIRECTED_RECV, FI_SOURCE, FI_SOURCE_ERR */
	bool data_takes;		/* FI_RX_CQ_DATA */
	bool can_send, can_recv;	/* messages */
	bool can_rma;			/* begin RMA or atomics */
	bool tx_selective, rx_selective;
	bool rx_shared;			/* the program will bind a shared receive context */
	_Atomic bool srx_waits;		/* messages wait for receives of that context */
	bool srx_look;			/* more may have come */
	uint32_t addr_format;
	unsigned int forks;		/* uccl_forks when it was opened */
	_Atomic int refs;		/* open aliases, groups of collectives */
	size_t msg_max;			/* longest message that it sends */
	size_t inject_max, min_multi;
	uint32_t tx_size, rx_size;	/* operations that may be open */
	uint32_t tx_open, rx_open;
	struct uccl_idle idle;		/* of those that drive it */
	_Atomic uint64_t called_ns;	/* when the program last drove the engine */
	bool rescue_more;		/* the rescue thread's own: its last look found packets */
	uint8_t group[UCCL_KEY_LEN];	/* as of the domain, or of its own authorization key */
	struct uccl_nic_addr src;	/* where to bind; port 0: any. RDMA NICs: pad 0, the port to be found by */
	bool src_row;			/* the port is one of a row, of which the program chose none */

	struct uccl_av *av;
	struct uccl_cq *tx_cq, *rx_cq;
	struct uccl_srx *srx;		/* whose receives take what comes; NULL: its own */
	struct uccl_stx *stx;
	struct uccl_eq *eq;
	struct uccl_colls *colls;	/* NULL: no group was joined yet */
	struct uccl_cntr *cntr[UCCL_CNTR_SLOTS];
	struct uccl_wait *waits[UCCL_EP_WAITS];
	unsigned int nwaits;
	struct uccl_auto autop;

	/* fi_addr_t to peer, as of `av_generation` of the address vector */
	struct uccl_peer **peers;	/* by uccl_ep_slot() */
	uint64_t npeers;
	struct uccl_peer **sources;	/* contexts of scalable endpoints that have sent something */
	uint64_t nsources;
	uint8_t ctx_bits;		/* as the address vector has */
	uint32_t av_generation;
};

/* Smallest room that is left in a multi-receive buffer before it is given back, unless the program says otherwise. */
#define UCCL_MIN_MULTI_DEFAULT 64

/* One with these directions only. -FI_ENOMEM; -FI_EINVAL: `info` does not fit. */
int uccl_ep_new(struct uccl_domain *d, const struct fi_info *info, uint8_t ways, size_t fclass, void *context,
		struct uccl_ep **out);
/* Make the engine, if it is not there; undo that. The lock is held. */
int uccl_ep_start(struct uccl_ep *ep, const struct uccl_addr *identity);
void uccl_ep_stop(struct uccl_ep *ep);
int uccl_ep_bind_av(struct uccl_ep *ep, struct uccl_av *av);
int uccl_ep_bind_eq(struct uccl_ep *ep, struct uccl_eq *eq);
/* Begin to work, with what is bound: what fi_enable does when nothing is missing. No lock is held. */
int uccl_ep_activate(struct uccl_ep *ep);

int uccl_ep_open(struct fid_domain *domain, struct fi_info *info, struct fid_ep **ep, void *context);

/* Run the engine once, for the program that calls; the number of events. */
int uccl_ep_progress(struct uccl_ep *ep);
/* The same, for a thread of ours. */
int uccl_ep_drive(struct uccl_ep *ep);
/* When the engine wants to run without anything arriving; UCCL_NEVER. */
uint64_t uccl_ep_expiry(struct uccl_ep *ep);
/* Readable when something arrived; -1: there is no such descriptor. */
int uccl_ep_fd(struct uccl_ep *ep);

/* The value of an option of type size_t, as fi_getopt returns it. */
int uccl_ep_give_size(void *optval, size_t *optlen, size_t value);

/* Wake those who sleep longer than the engine now wants. The lock is held. */
void uccl_ep_kick(struct uccl_ep *ep);

/* For a handle that was not looked up yet; NULL: no such handle, or out of memory. The lock is held. */
struct uccl_peer *uccl_ep_peer_lookup(struct uccl_ep *ep, fi_addr_t fi_addr);
/* The handle of a peer that has sent something; FI_ADDR_NOTAVAIL: not in the address vector. The lock is held. */
fi_addr_t uccl_ep_source(struct uccl_ep *ep, struct uccl_peer *peer);
/* Forget everything that was looked up. The lock is held. */
void uccl_ep_forget(struct uccl_ep *ep);

/* The place of a handle in the list of peers: bits that name a receive context come last, so that places stay few. */
static inline uint64_t uccl_ep_slot(const struct uccl_ep *ep, fi_addr_t addr)
{
	return addr << ep->ctx_bits | addr >> ((64 - ep->ctx_bits) & 63);
}

static inline void uccl_ep_lock(struct uccl_ep *ep)
{
	if (ep->locking)
		pthread_mutex_lock(&ep->lock);
}

static inline void uccl_ep_unlock(struct uccl_ep *ep)
{
	if (ep->locking)
		pthread_mutex_unlock(&ep->lock);
}

#endif
