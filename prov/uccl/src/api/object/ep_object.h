/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The endpoint object. It has one engine and its driver. The driver's lock also protects the endpoint. */
#ifndef UCCL_API_OBJECT_EP_OBJECT_H
#define UCCL_API_OBJECT_EP_OBJECT_H

#include <rdma/fi_endpoint.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "base/units.h"
#include "engine/engine.h"
#include "progress/driver.h"

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

/* Directions. */
#define UCCL_TX 1u
#define UCCL_RX 2u

/* A handle of the program: the endpoint itself, or an alias with other default flags. */
struct uccl_ep_fid {
	struct fid_ep fid;
	struct uccl_ep *ep;		/* NULL: the handle is of a shared receive context */
	struct uccl_srx *srx;		/* this context; else NULL */
	uint64_t tx_flags, rx_flags;	/* default flags, for calls without a flags argument */
};

static inline struct uccl_ep_fid *uccl_ep_fid_of(struct fid *fid)
{
	return uccl_container_of(fid, struct uccl_ep_fid, fid.fid);
}

enum uccl_cntr_slot {
	UCCL_CNTR_SEND, UCCL_CNTR_RECV, UCCL_CNTR_READ, UCCL_CNTR_WRITE, UCCL_CNTR_REMOTE_READ,
	UCCL_CNTR_REMOTE_WRITE, UCCL_CNTR_SLOTS
};

/* Operations that a context calls on its scalable endpoint. No lock of an endpoint is held. */
struct uccl_whole_ops {
	/* Open the engines of all contexts, unless they are open. 0 or a negative error. */
	int (*start)(struct uccl_sep *whole);
	/* fi_getname(3): all contexts have the same name. */
	int (*getname)(struct uccl_sep *whole, void *addr, size_t *addrlen);
	/* This context is about to be closed. */
	void (*left)(struct uccl_sep *whole, const struct uccl_ep *ep);
};

/* What the program chose (fi_info) and set (fi_setopt). endpoint/option.c writes it. */
struct uccl_ep_attr {
	const struct uccl_hmem_ops *hmem; /* devices whose memory the program may pass; NULL: none */
	bool direct;			/* the NIC may write to device memory itself */
	uint8_t dirs;			/* UCCL_TX | UCCL_RX; a context has one of them */
	bool directed, source, source_err; /* FI_DIRECTED_RECV, FI_SOURCE, FI_SOURCE_ERR */
	bool data_takes;		/* FI_RX_CQ_DATA: remote CQ data consumes a receive */
	bool can_send, can_recv;	/* it may send, and receive, messages */
	bool can_rma;			/* it may begin RMA or atomics */
	bool rx_shared;			/* the program will bind a shared receive context */
	bool peer_events;		/* FI_OPT_UCCL_PEER_EVENTS */
	uint32_t addr_format;
	size_t msg_max;			/* longest message that it may send, bytes */
	size_t inject_max, min_multi;	/* bytes: longest injected message; FI_OPT_MIN_MULTI_RECV */
	uint64_t op_timeout_ns;		/* FI_OPT_UCCL_OP_TIMEOUT */
	uint32_t tx_size, rx_size;	/* most operations that may be open */
	uint8_t group[UCCL_KEY_LEN];	/* from its own authorization key, or the domain's */
};

/* The objects that the program bound. endpoint/bind.c writes it. NULL: none was bound. */
struct uccl_ep_bound {
	struct uccl_av *av;
	struct uccl_cq *tx_cq, *rx_cq;
	struct uccl_srx *srx;		/* shared receive context; NULL: it has its own receives */
	struct uccl_eq *eq;
	struct uccl_cntr *cntr[UCCL_CNTR_SLOTS];
	bool tx_selective, rx_selective; /* FI_SELECTIVE_COMPLETION */
	bool tx_shared;			/* a shared transmit context was bound */
};

/* Cache of the address vector's entries, as of `av_generation`. peers/lookup.c writes it. */
struct uccl_ep_cache {
	struct uccl_peer **peers;	/* by uccl_ep_slot() of a fi_addr_t; NULL: not looked up yet */
	uint64_t npeers;
	struct uccl_peer **sources;	/* contexts of scalable endpoints that have sent something */
	uint64_t nsources;
	uint8_t ctx_bits;		/* as uccl_av.ctx_bits */
	uint32_t av_generation;
};

/* Where the engine is bound, and what is open beside it. endpoint/start.c writes it. NULL: not open. */
struct uccl_ep_run {
	struct uccl_nic_addr src;	/* address to bind; port 0: any. RDMA NICs: pad 0, port for `named` */
	bool src_port_range;		/* the provider chose the port, one of consecutive ports */
	bool src_port_again;		/* if it is taken, another one is tried */
	struct uccl_xsk_set *queues;	/* AF_XDP queues of its NIC and its lanes */
	struct uccl_live *live;		/* file for uccl_top */
	struct uccl_named *named;	/* responder at src.port that tells its address (RDMA NICs) */
	struct uccl_tracefile *trace;
	struct uccl_stage *stage;	/* copies from and to the devices of `hmem` */
};

struct uccl_ep {
	struct uccl_ep_fid self;
	const struct uccl_whole_ops *whole_ops; /* operations on `whole`; NULL: this is no context */
	struct uccl_sep *whole;		/* the scalable endpoint, if this is one of its contexts */
	struct uccl_domain *domain;
	struct uccl_driver driver;
	struct uccl_cm *cm;		/* connection of an FI_EP_MSG endpoint; NULL: connectionless */
	bool listens;			/* it listens for connections, for a passive endpoint */
	struct uccl_peer *sole;		/* FI_EP_MSG: the connected peer; NULL: none */
	uint8_t enabled;		/* as `attr.dirs`, once enabled; before that 0 */
	bool closing;			/* completions are not reported any more */
	_Atomic int refs;		/* open aliases, groups of collectives */
	struct uccl_colls *colls;	/* NULL: no group was joined yet */
	struct uccl_ep_attr attr;
	struct uccl_ep_bound bound;
	struct uccl_ep_run run;
	struct uccl_ep_cache cache;
	uint32_t tx_open, rx_open;	/* open operations; transfer/report.h has the functions that write them */
	_Atomic bool srx_waits;		/* messages wait for receives of the shared context */
	bool srx_poll;			/* new ones may wait, see uccl_ep_srx_poll() */
};

static inline struct uccl_ep *uccl_ep_of_driver(struct uccl_driver *d)
{
	return uccl_container_of(d, struct uccl_ep, driver);
}

/* An alias, or a group of collectives, that keeps the endpoint open. */
static inline void uccl_ep_hold(struct uccl_ep *ep)
{
	atomic_fetch_add(&ep->refs, 1);
}

static inline void uccl_ep_release(struct uccl_ep *ep)
{
	atomic_fetch_sub(&ep->refs, 1);
}

/* `poll`: the next round looks for messages that wait for receives of the shared context. */
static inline void uccl_ep_srx_poll(struct uccl_ep *ep, bool poll)
{
	ep->srx_poll = poll;
}

/* Default of FI_OPT_MIN_MULTI_RECV: a multi-receive buffer with less room left, in bytes, is given back. */
#define UCCL_MIN_MULTI_DEFAULT 64

/* Index of a handle in `peers`: its upper bits, which name a receive context, become the lowest, to keep it small. */
static inline uint64_t uccl_ep_slot(const struct uccl_ep *ep, fi_addr_t addr)
{
	return addr << ep->cache.ctx_bits | addr >> ((64 - ep->cache.ctx_bits) & 63);
}

#endif
