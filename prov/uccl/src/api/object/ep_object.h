/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Endpoints: one engine each, and who drives it. The lock of that driver covers the endpoint, too. */
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

/* The handle that a program has: of the endpoint itself, or an alias with other default flags. */
struct uccl_ep_fid {
	struct fid_ep fid;
	struct uccl_ep *ep;		/* NULL: of a shared receive context */
	struct uccl_srx *srx;		/* that context */
	uint64_t tx_flags, rx_flags;	/* for calls without flags of their own */
};

static inline struct uccl_ep_fid *uccl_ep_fid_of(struct fid *fid)
{
	return uccl_container_of(fid, struct uccl_ep_fid, fid.fid);
}

enum uccl_cntr_slot {
	UCCL_CNTR_SEND, UCCL_CNTR_RECV, UCCL_CNTR_READ, UCCL_CNTR_WRITE, UCCL_CNTR_REMOTE_READ,
	UCCL_CNTR_REMOTE_WRITE, UCCL_CNTR_SLOTS
};

/* What a context asks of the scalable endpoint that it belongs to. No lock of an endpoint is held. */
struct uccl_whole_ops {
	/* All contexts begin together: make their engines, if they are not there. */
	int (*start)(struct uccl_sep *whole);
	/* They have one name, as fi_getname(3) gives it. */
	int (*getname)(struct uccl_sep *whole, void *addr, size_t *addrlen);
	/* This context is about to be closed. */
	void (*left)(struct uccl_sep *whole, const struct uccl_ep *ep);
};

struct uccl_ep {
	struct uccl_ep_fid self;
	const struct uccl_whole_ops *whole_ops; /* of the endpoint that it is a context of; NULL: it is none */
	struct uccl_sep *whole;
	struct uccl_domain *domain;
	struct uccl_driver driver;
	struct uccl_cm *cm;		/* FI_EP_MSG; NULL: connectionless */
	bool listens;			/* for connections */
	struct uccl_peer *sole;		/* whom that is connected to, or NULL */
	struct uccl_xsk_set *queues;	/* of its NIC and its lanes', NULL: none of their own */
	struct uccl_live *live;		/* NULL: nobody watches */
	struct uccl_named *named;	/* who tells its address at src.port, NULL: not on an RDMA NIC, or no port */
	struct uccl_tracefile *trace;	/* NULL: no trace */
	const struct uccl_hmem_ops *hmem; /* devices whose memory may be passed; NULL: none */
	struct uccl_stage *stage;	/* what copies from and to them; NULL: not yet */
	bool direct;			/* the NIC may write to them by itself */
	uint8_t dirs;			/* UCCL_TX, UCCL_RX: a context has one of them */
	uint8_t enabled;		/* the same, or 0 */
	bool closing;			/* what completes now is not reported */
	bool directed, source, source_err; /* FI_DIRECTED_RECV, FI_SOURCE, FI_SOURCE_ERR */
	bool data_takes;		/* FI_RX_CQ_DATA */
	bool can_send, can_recv;	/* messages */
	bool can_rma;			/* begin RMA or atomics */
	bool tx_selective, rx_selective;
	bool tx_shared;			/* a shared transmit context was bound */
	bool rx_shared;			/* the program will bind a shared receive context */
	_Atomic bool srx_waits;		/* messages wait for receives of that context */
	bool srx_poll;			/* more may have come */
	uint32_t addr_format;
	_Atomic int refs;		/* open aliases, groups of collectives */
	size_t msg_max;			/* longest message that it sends */
	size_t inject_max, min_multi;
	uint32_t tx_size, rx_size;	/* operations that may be open */
	uint32_t tx_open, rx_open;
	uint8_t group[UCCL_KEY_LEN];	/* as of the domain, or of its own authorization key */
	struct uccl_nic_addr src;	/* where to bind; port 0: any. RDMA NICs: pad 0, the port to be found by */
	bool src_port_range;		/* the port is one of a row, of which the program chose none */

	struct uccl_av *av;
	struct uccl_cq *tx_cq, *rx_cq;
	struct uccl_srx *srx;		/* whose receives take what comes; NULL: its own */
	struct uccl_eq *eq;
	struct uccl_colls *colls;	/* NULL: no group was joined yet */
	struct uccl_cntr *cntr[UCCL_CNTR_SLOTS];

	/* fi_addr_t to peer, as of `av_generation` of the address vector */
	struct uccl_peer **peers;	/* by uccl_ep_slot() */
	uint64_t npeers;
	struct uccl_peer **sources;	/* contexts of scalable endpoints that have sent something */
	uint64_t nsources;
	uint8_t ctx_bits;		/* as the address vector has */
	uint32_t av_generation;
};

static inline struct uccl_ep *uccl_ep_of_driver(struct uccl_driver *d)
{
	return uccl_container_of(d, struct uccl_ep, driver);
}

/* Smallest room that is left in a multi-receive buffer before it is given back, unless the program says otherwise. */
#define UCCL_MIN_MULTI_DEFAULT 64

/* The place of a handle in the list of peers: bits that name a receive context come last, so that places stay few. */
static inline uint64_t uccl_ep_slot(const struct uccl_ep *ep, fi_addr_t addr)
{
	return addr << ep->ctx_bits | addr >> ((64 - ep->ctx_bits) & 63);
}

#endif
