/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The request that travels from api down and back. api takes one with uccl_op_get(), fills the first
 * part and posts it; msg owns it until it calls op->done(op), which hands it back (api then puts it).
 */
#ifndef UCCL_MSG_OP_H
#define UCCL_MSG_OP_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>
#include <sys/uio.h>

#include "base/heap.h"
#include "base/multimap.h"
#include "flow/wire/addr.h"
#include "flow/flow.h"
#include "msg/device/copy.h"

#define UCCL_IOV_MAX 4
/* Segments of remote memory in one operation. */
#define UCCL_SEG_MAX 4
/*
 * The target executes RMA up to this size, and all atomics, in the order in which they were posted. Operands of an
 * atomic, and operands to compare with, are no larger.
 */
#define UCCL_ORDER_MAX 65536

/* Longest message of connection management: an address, and what the program says with it. */
#define UCCL_CM_DATA_MAX 256
#define UCCL_CM_MAX (UCCL_ADDR_LEN + UCCL_CM_DATA_MAX)

enum uccl_op_type {
	UCCL_OP_SEND, UCCL_OP_RECV,
	UCCL_OP_WRITE, UCCL_OP_READ,
	UCCL_OP_ATOMIC,		/* nothing comes back */
	UCCL_OP_FETCH,		/* what was there before comes back, */
	UCCL_OP_COMPARE		/* and operands are compared with it */
};

/* A segment of remote memory: an address or offset, as the target's registration says, under a key. */
struct uccl_seg {
	uint64_t addr, len, key;
};

/* The sources of an atomic operation, read while it is posted. */
struct uccl_atomic_args {
	const struct iovec *operand, *compare;
	uint8_t noperand, ncompare;
	uint16_t operand_device, compare_device; /* which of them are memory of a device */
};

/* Rights that a registration must give. */
#define UCCL_ACCESS_READ 1u
#define UCCL_ACCESS_WRITE 2u

/* Why a target refused: travels in RESP, and becomes a text. */
enum uccl_refusal {
	UCCL_REFUSED_NOT, UCCL_REFUSED_KEY, UCCL_REFUSED_ACCESS, UCCL_REFUSED_RANGE, UCCL_REFUSED_REVOKED,
	UCCL_REFUSED_ATOMIC, UCCL_REFUSED_MEMORY, UCCL_REFUSED_COUNT,
	/* Never on the wire. A receive: its sender took the message back; an abort that the target has not answered. */
	UCCL_TAKEN_BACK, UCCL_UNPROVEN
};

/* Buffers of local memory that the segments of one operation may lie in. */
#define UCCL_PLACE_IOV_MAX (UCCL_SEG_MAX * UCCL_IOV_MAX)

/* Something a peer did to our memory. */
struct uccl_rma_event {
	struct uccl_peer *from;
	bool write;		/* it changed memory; else it read */
	bool fetch;		/* an atomic that did both */
	bool atomic;
	bool has_data;		/* remote CQ data came with it */
	struct uccl_op *recv;	/* the receive that the data take, which is completed after the event; NULL: none */
	uint8_t nregions;
	uint64_t data;
	uint64_t len;
	void *regions[UCCL_SEG_MAX];
};

/* A part of the rights to a region. */
struct uccl_revoke {
	uint64_t key, addr, len;	  /* these bytes of it, as requests name them */
	const struct uccl_nic_addr *from; /* all of the peer at this place instead; NULL: of everybody */
};

/* The registered memory of this side, and the listener for what happens to it. All calls by the engine's owner. */
struct uccl_target_ops {
	/*
	 * Where a segment (not empty) lies: fills at most UCCL_IOV_MAX buffers and the region, and returns how many, or
	 * -enum uccl_refusal. The memory stays valid until uccl_engine_revoke() is called for that region. `from` has
	 * made the request; NULL: we have.
	 */
	int (*resolve)(void *arg, const struct uccl_nic_addr *from, const struct uccl_seg *seg, uint32_t access,
		       struct iovec *iov, void **region);
	/* Is this region memory of a device? NULL: none is. */
	bool (*device)(void *arg, const void *region);
	/*
	 * May parts of this region that resolve() found be unmapped while it stays? They are read at once only. NULL:
	 * never.
	 */
	bool (*sparse)(void *arg, const void *region);
	/* Around every atomic operation: nobody else's may come between. */
	void (*lock)(void *arg);
	void (*unlock)(void *arg);
	/*
	 * The same for memory of a device. An operation there takes longer than a call, so it claims the memory; no
	 * other claim succeeds until it ends. Never waits; false: another claim is there. NULL, both: nothing else can
	 * claim.
	 */
	bool (*claim)(void *arg);
	void (*release)(void *arg);
	void (*event)(void *arg, const struct uccl_rma_event *ev);
};

/* Flags of an operation. */
#define UCCL_OPF_TAGGED	  (1u << 0)
#define UCCL_OPF_DATA	  (1u << 1) /* send: carries remote CQ data. done: `data` is valid */
#define UCCL_OPF_INJECT	  (1u << 2) /* send: the buffer is the caller's again when post returns */
#define UCCL_OPF_EARLY	  (1u << 3) /* send: complete early if a copy is worth it (FI_INJECT_COMPLETE, or no level) */
#define UCCL_OPF_ACKED	  (1u << 8) /* send: complete when acknowledged, also if it is copied (FI_TRANSMIT_COMPLETE) */
#define UCCL_OPF_DELIVERY (1u << 4) /* send: complete when the peer has placed it (FI_DELIVERY_COMPLETE) */
#define UCCL_OPF_MULTI	  (1u << 5) /* recv: FI_MULTI_RECV buffer. done: the buffer is released with this one */
#define UCCL_OPF_DIRECTED (1u << 6) /* recv: only from `peer` */
#define UCCL_OPF_CHILD	  (1u << 7) /* recv: one message in a multi-receive buffer; made by msg */
#define UCCL_OPF_COLL	  (1u << 10) /* of a collective: tagged, and never for a receive of the application */
#define UCCL_OPF_CM	  (1u << 11) /* of connection management: never for a receive of the application */
#define UCCL_OPF_FENCE	  (1u << 9) /* not before all that was posted to this peer is complete */

struct uccl_peer;
struct uccl_pump;
struct uccl_abort;
struct uccl_msg_rx;
struct uccl_match_table;
struct msg_tx_ops;

TAILQ_HEAD(uccl_op_list, uccl_op);

/*
 * What one kind of operation needs beside what all have. Each part names the file that alone writes it; others call
 * that file's functions.
 */

/* A posted receive in its queue and tables: recv/match.c. */
struct uccl_op_match {
	uint64_t posted;		      /* its number among those posted; 0: it is not */
	TAILQ_ENTRY(uccl_op) directed_link;   /* in uccl_peer.directed, if DIRECTED */
	struct uccl_match_table *in_class;    /* which holds it; NULL: none */
	struct uccl_multinode class_node;     /* there, */
	struct uccl_multinode context_node;   /* and by its context */
	TAILQ_ENTRY(uccl_op) unclassified_link; /* in no class */
	TAILQ_ENTRY(uccl_op) wait_link;	      /* in uccl_match.starved or .passed, */
	uint8_t waits;			      /* which of them; 0: in none */
};

/* A multi-receive buffer, and a message in one: recv/posted.c. */
struct uccl_op_multi {
	uint64_t used;		/* bytes handed out */
	uint32_t children;	/* messages not yet complete */
	bool closed;		/* it takes no more messages */
	struct uccl_op *parent; /* CHILD: the buffer that it is in */
};

/* A receive. api fills the first three, and reads olen and done_buf in done(). recv/posted.c writes it. */
struct uccl_op_recv {
	uint64_t ignore;	/* tag bits that do not matter */
	uint64_t min_multi;	/* MULTI: release the buffer when less room than this is left */
	void *done_buf;		/* where the bytes placed begin */
	uint64_t olen;		/* FI_ETRUNC: bytes that did not fit */
	struct uccl_op_match match;
	struct uccl_op_multi multi;
};

/* Stripes of the payload that lanes send; NULL: they send none. lanes/primary.c */
struct uccl_op_striped {
	struct uccl_striped *rest;	  /* behind CTS */
	struct uccl_striped *unsolicited; /* ahead of it */
};

/* A large payload that comes from a device in several buffers: device/pump.c. */
struct uccl_op_pumped {
	struct uccl_pump *by;
	TAILQ_ENTRY(uccl_op) link; /* in uccl_msg_ep.pumps.waiting, */
	bool waits;		   /* if this: there is no memory to do so */
};

/* What goes to a peer, send or request: send/msg_tx.c. Items are filled by the file that submits them. */
struct uccl_op_tx {
	const struct msg_tx_ops *ops; /* what it is */
	uint32_t mseq;		/* place in the pair's message order; before it begins: that of posting */
	uint32_t id;		/* handle that the peer uses for this op, 0: none */
	uint8_t wait;		/* what must still happen before it is complete: MSG_WAIT_* */
	bool loading;		/* its payload is on its way from a device; it is not begun before */
	int fail;		/* why it ends when what is under way has come back */
	uint32_t unsolicited_bytes; /* its share of the peer's */
	uint32_t bounce_len;
	void *bounce;		/* our copy of the payload, or of a write's beginning, if it does not fit `small` */
	struct uccl_copy copy;	/* of the payload from a device, or of a request to ourselves */
	const struct uccl_abort *abort; /* it is being taken back (abort.c); else NULL: */
	bool told;		/* ABORT left, or is to leave next; */
	bool late;		/* because its time is over: limit_ns */
	struct uccl_timer timer; /* when its time is over; of one taken back: when its payload is not read any more */
	struct uccl_multinode context_node; /* in uccl_ep_tx.by_context; prev NULL: it is not */
	void *source;		/* as the NIC reads its payload on a device; NULL: it does not */
	struct uccl_op_pumped pumped;
	struct uccl_op_striped striped;
	uint8_t small[128];
	struct uccl_item env;	/* the envelope, or a control record */
	struct uccl_item bulk;	/* the rest of the payload */
};

/* A send: send/send.c. */
struct uccl_op_send {
	bool unsolicited;	/* counted in uccl_peer.send.unsolicited */
	struct uccl_msg_rx *self; /* to ourselves: the message, until a receive takes it */
	struct uccl_item lead;	/* leaves after `env` and before `bulk`: payload that does not wait for CTS */
};

/* RMA and atomics: rma/initiator.c. api fills all to args. */
struct uccl_op_rma {
	uint8_t nseg;
	uint8_t datatype, atomic; /* libfabric's numbers: enum uccl_datatype, enum uccl_atomic (rma/atomic_math.h) */
	struct uccl_seg seg[UCCL_SEG_MAX]; /* where in the peer's memory */
	const struct uccl_atomic_args *args;
	struct uccl_msg_rx *rx;	  /* what comes back */
	uint32_t head_len;	  /* segments, and as much of the payload as was copied behind them */
	struct iovec head, body;  /* what the first record carries, and the copied payload */
};

/* What all kinds have, and what is of one kind. */
struct uccl_op {
	/* filled by api before the post */
	uint8_t type;
	uint8_t iov_count;
	uint16_t device;	/* which of iov are memory of a device, by bits */
	uint32_t flags;
	struct uccl_peer *peer;	/* send: destination. recv: the source if DIRECTED */
	uint64_t tag;
	uint64_t data;
	uint64_t len;		/* sum of the iov lengths */
	struct iovec iov[UCCL_IOV_MAX]; /* FETCH, COMPARE: for what comes back. ATOMIC: none */
	void *context;		/* the application's */
	uint64_t limit_ns;	/* it is taken back if it is not complete after this time; 0: never */
	uint64_t api_flags;	/* api's own; msg does not read it */
	void *api;		/* api's own, */
	void *api_more;		/* too */
	void (*done)(struct uccl_op *op);

	/* result, valid in done() */
	int err;		/* 0 or a positive FI_Exxx */
	uint8_t refusal;	/* why it failed: enum uccl_refusal */
	bool busy;		/* msg's own: it still needs a send although done() was called, */
	bool orphan;		/* and api has put it back meanwhile */
	uint64_t done_len;	/* recv: bytes placed */
	struct uccl_peer *from;	/* recv: the sender. send: the destination. NULL: not known */

	TAILQ_ENTRY(uccl_op) link; /* in the queue of its peer or its kind */
	union {
		struct uccl_op_recv recv;
		struct {
			struct uccl_op_tx tx;
			union {
				struct uccl_op_send send;
				struct uccl_op_rma rma;
			};
		};
	};
};

/*
 * A receive, or a send, begins: zero what msg writes later and may read before. What api fills is not zeroed, and no
 * buffer or record that is written as a whole when it is used; so a short message costs no more than it has.
 */
static inline void uccl_op_begin_recv(struct uccl_op *op)
{
	uccl_zero(&op->err, offsetof(struct uccl_op, recv) + sizeof(op->recv) - offsetof(struct uccl_op, err));
}

static inline void uccl_op_begin_send(struct uccl_op *op)
{
	uccl_zero(&op->err, offsetof(struct uccl_op, tx.small) - offsetof(struct uccl_op, err));
	uccl_item_unused(&op->tx.env);
	uccl_item_unused(&op->tx.bulk);
	uccl_item_unused(&op->send.lead);
	op->send.unsolicited = false;
	op->send.self = NULL;
}

/* Messages of different kinds never meet. Those of collectives and of connections have tags of their own. */
enum uccl_match_kind { UCCL_KIND_UNTAGGED, UCCL_KIND_TAGGED, UCCL_KIND_COLL, UCCL_KIND_CM, UCCL_KINDS };

static inline enum uccl_match_kind uccl_op_kind(const struct uccl_op *op)
{
	if (op->flags & (UCCL_OPF_COLL | UCCL_OPF_CM))
		return op->flags & UCCL_OPF_CM ? UCCL_KIND_CM : UCCL_KIND_COLL;
	return op->flags & UCCL_OPF_TAGGED ? UCCL_KIND_TAGGED : UCCL_KIND_UNTAGGED;
}

#endif
