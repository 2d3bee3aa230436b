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

#include "core/flow.h"

#define UCCL_IOV_MAX 4

enum uccl_op_type { UCCL_OP_SEND, UCCL_OP_RECV };

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

struct uccl_peer;
struct uccl_msg_rx;

TAILQ_HEAD(uccl_op_list, uccl_op);

struct uccl_op {
	/* filled by api before the post */
	uint8_t type;
	uint8_t iov_count;
	uint32_t flags;
	struct uccl_peer *peer;	/* send: destination. recv: the source if DIRECTED */
	uint64_t tag;
	uint64_t ignore;	/* recv: tag bits that do not matter */
	uint64_t data;
	uint64_t len;		/* sum of the iov lengths */
	struct iovec iov[UCCL_IOV_MAX];
	uint64_t min_multi;	/* MULTI: release the buffer when less room than this is left */
	void *context;		/* the application's */
	uint64_t api_flags;	/* api's own; msg does not look */
	void *api;		/* api's own */
	void (*done)(struct uccl_op *op);

	/* result, valid in done() */
	int err;		/* 0 or a positive FI_Exxx */
	uint64_t done_len;	/* recv: bytes placed */
	uint64_t olen;		/* recv, FI_ETRUNC: bytes that did not fit */
	void *done_buf;		/* recv: where they begin */
	struct uccl_peer *from;	/* recv: who sent it. send: the destination. NULL: not known */

	/* msg's own */
	TAILQ_ENTRY(uccl_op) link;
	uint32_t mseq;		/* send: place in the pair's message order */
	uint32_t id;		/* handle that the peer uses for this op, 0: none */
	uint64_t multi_used;	/* MULTI parent: bytes handed out */
	uint32_t children;	/* MULTI parent: messages not yet complete */
	bool multi_closed;	/* MULTI parent: takes no more messages */
	struct uccl_op *parent;
	struct uccl_msg_rx *rx;	/* recv: the message that it matched */
	bool busy;		/* send: msg still needs it although done() was called */
	bool orphan;		/* api has put it back meanwhile */
	uint8_t wait;		/* send: what must still happen before it is complete */
	void *bounce;		/* send: our copy of an injected payload, if it does not fit `small` */
	uint8_t small[128];
	struct uccl_item env;	/* the envelope, or a control record */
	struct uccl_item bulk;	/* the rest of the payload */
};

#endif
