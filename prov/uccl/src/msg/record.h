/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Records of the message layer: what the 32 bytes behind the fixed header say (docs/protocol/packets.md). */
#ifndef UCCL_MSG_RECORD_H
#define UCCL_MSG_RECORD_H

#include <stdint.h>

#include "flow/wire/wire.h"
#include "msg/op.h"

enum uccl_rec_type {
	UCCL_REC_MSG = 1,   /* envelope, with the first bytes of the message as payload */
	UCCL_REC_EAGER = 2, /* more of an eager message: bulk rec, id = message sequence */
	UCCL_REC_DATA = 3,  /* payload after CTS: bulk rec, id and gen = the receiver's handle and message sequence */
	UCCL_REC_CTS = 4,   /* receiver -> sender: send up to `limit` bytes in all */
	UCCL_REC_FIN = 5,   /* receiver -> sender: delivered */
	UCCL_REC_REQ = 6,   /* RMA or atomic: an envelope, then segments and the first bytes of the payload */
	UCCL_REC_RESP = 7,  /* target -> initiator: it is done, or refused */
	UCCL_REC_REPLY = 8, /* payload of a read: bulk rec, id and gen = the initiator's handle and message sequence */
	UCCL_REC_ABORT = 9,  /* initiator -> target: a message or request is taken back */
	UCCL_REC_ABORTED = 10, /* target -> initiator: taken back (err 1), or complete before (err 0) */
};

#define UCCL_ENV_TAGGED 1u
#define UCCL_ENV_DATA 2u
#define UCCL_ENV_DELIVERY 4u /* wants FIN */
#define UCCL_ENV_EAGER 8u    /* all of it comes without CTS */
#define UCCL_ENV_COLL 16u    /* of a collective: its tags are apart */
#define UCCL_ENV_CM 32u	     /* of connection management: tag and data are its own */
#define UCCL_ENV_UNSOLICITED 64u    /* some of it, more than the envelope has, comes without CTS */
#define UCCL_ENV_LANES 128u  /* with UNSOLICITED: by lanes */
/*
 * The length of a message with unsolicited data is below 2^40; behind it is that of these data, in words of 8 bytes,
 * rounded up.
 */
#define UCCL_ENV_UNSOLICITED_AT 40
#define UCCL_ENV_UNSOLICITED_WORD 8u
/* With LANES its length is below 2^24; between both are the lanes, by bits. */
#define UCCL_ENV_LANES_AT 24

struct uccl_env {
	uint64_t tag;
	uint64_t data;
	uint64_t len;	/* of the message, below 2^56 */
	uint32_t unsolicited; /* UNSOLICITED: bytes that come without CTS; a multiple of 8, or all of it */
	uint16_t lanes;	/* UNSOLICITED, LANES: over these, by bits, what of it is not in the envelope */
	uint8_t flags;
	uint32_t mseq;	/* place in the order of the endpoint pair, low 32 bits */
	uint32_t id;	/* the sender's handle, for CTS and FIN; 0: none */
};

static inline enum uccl_match_kind uccl_env_kind(uint8_t flags)
{
	if (flags & (UCCL_ENV_COLL | UCCL_ENV_CM))
		return flags & UCCL_ENV_CM ? UCCL_KIND_CM : UCCL_KIND_COLL;
	return flags & UCCL_ENV_TAGGED ? UCCL_KIND_TAGGED : UCCL_KIND_UNTAGGED;
}

/* What an operation says of itself in its envelope. */
static inline uint8_t uccl_env_flags_of(const struct uccl_op *op)
{
	return (uint8_t)((op->flags & UCCL_OPF_TAGGED ? UCCL_ENV_TAGGED : 0) |
			 (op->flags & UCCL_OPF_DATA ? UCCL_ENV_DATA : 0) |
			 (op->flags & UCCL_OPF_COLL ? UCCL_ENV_COLL : 0) |
			 (op->flags & UCCL_OPF_CM ? UCCL_ENV_CM : 0));
}

static inline void uccl_env_encode(uint8_t *rec, const struct uccl_env *e)
{
	uint64_t words = e->flags & UCCL_ENV_UNSOLICITED
				? (e->unsolicited + UCCL_ENV_UNSOLICITED_WORD - 1) / UCCL_ENV_UNSOLICITED_WORD
				: 0;
	uint64_t lanes = e->flags & UCCL_ENV_LANES ? e->lanes : 0;

	uccl_put64(rec, e->tag);
	uccl_put64(rec + 8, e->data);
	uccl_put64(rec + 16,
		   e->len | lanes << UCCL_ENV_LANES_AT | words << UCCL_ENV_UNSOLICITED_AT | (uint64_t)e->flags << 56);
	uccl_put32(rec + 24, e->mseq);
	uccl_put32(rec + 28, e->id);
}

static inline void uccl_env_decode(struct uccl_env *e, const uint8_t *rec)
{
	e->tag = uccl_get64(rec);
	e->data = uccl_get64(rec + 8);
	e->len = uccl_get64(rec + 16) & ((1ull << 56) - 1);
	e->flags = rec[23];
	e->unsolicited = e->lanes = 0;
	if (e->flags & UCCL_ENV_UNSOLICITED) {
		uint64_t words = e->len >> UCCL_ENV_UNSOLICITED_AT;

		e->len &= (1ull << UCCL_ENV_UNSOLICITED_AT) - 1;
		if (e->flags & UCCL_ENV_LANES) {
			e->lanes = (uint16_t)(e->len >> UCCL_ENV_LANES_AT);
			e->len &= (1ull << UCCL_ENV_LANES_AT) - 1;
		}
		e->unsolicited =
			(uint32_t)(words * UCCL_ENV_UNSOLICITED_WORD < e->len ? words * UCCL_ENV_UNSOLICITED_WORD
									      : e->len);
	}
	e->mseq = uccl_get32(rec + 24);
	e->id = uccl_get32(rec + 28);
}

/* What a REQ asks for; the first byte of its `tag`. */
enum uccl_rma_kind {
	UCCL_RMA_WRITE = 1, UCCL_RMA_READ, UCCL_RMA_ATOMIC, UCCL_RMA_FETCH, UCCL_RMA_COMPARE
};

/* A REQ, without what its envelope says. */
struct uccl_req {
	uint8_t kind, nseg, datatype, atomic;
	uint32_t rx;		/* the initiator's handle for what comes back, 0: nothing does */
	uint64_t rkey, raddr;	/* direct writes, with `rx`: as in CTS */
	uint64_t len;		/* of all segments */
	struct uccl_seg seg[UCCL_SEG_MAX];
};

#define UCCL_SEG_LEN 24
#define UCCL_REQ_DIRECT_LEN 16
/* Most bytes in front of the payload. */
#define UCCL_REQ_HEAD_MAX (UCCL_SEG_MAX * UCCL_SEG_LEN + UCCL_REQ_DIRECT_LEN)

static inline uint64_t uccl_req_tag(const struct uccl_req *r)
{
	return r->kind | (uint64_t)r->nseg << 8 | (uint64_t)r->datatype << 16 | (uint64_t)r->atomic << 24 |
	       (uint64_t)r->rx << 32;
}

static inline uint32_t uccl_req_head_len(uint8_t nseg, bool comes_back)
{
	return nseg * UCCL_SEG_LEN + (comes_back ? UCCL_REQ_DIRECT_LEN : 0);
}

static inline void uccl_req_encode(uint8_t *head, const struct uccl_req *r)
{
	for (uint8_t i = 0; i < r->nseg; i++, head += UCCL_SEG_LEN) {
		uccl_put64(head, r->seg[i].addr);
		uccl_put64(head + 8, r->seg[i].len);
		uccl_put64(head + 16, r->seg[i].key);
	}
	if (r->rx) {
		uccl_put64(head, r->rkey);
		uccl_put64(head + 8, r->raddr);
	}
}

/* From the envelope's tag and the first `len` bytes of the payload. Bytes taken; -1: it is no request. */
static inline int uccl_req_decode(struct uccl_req *r, uint64_t tag, const uint8_t *head, uint32_t len)
{
	uint32_t need;

	r->kind = (uint8_t)tag;
	r->nseg = (uint8_t)(tag >> 8);
	r->datatype = (uint8_t)(tag >> 16);
	r->atomic = (uint8_t)(tag >> 24);
	r->rx = (uint32_t)(tag >> 32);
	r->rkey = r->raddr = r->len = 0;
	need = uccl_req_head_len(r->nseg, r->rx);
	if (r->kind < UCCL_RMA_WRITE || r->kind > UCCL_RMA_COMPARE || r->nseg > UCCL_SEG_MAX || len < need)
		return -1;
	for (uint8_t i = 0; i < r->nseg; i++, head += UCCL_SEG_LEN) {
		r->seg[i].addr = uccl_get64(head);
		r->seg[i].len = uccl_get64(head + 8);
		r->seg[i].key = uccl_get64(head + 16);
		if (r->seg[i].len >> 56)
			return -1;
		r->len += r->seg[i].len;
	}
	if (r->rx) {
		r->rkey = uccl_get64(head);
		r->raddr = uccl_get64(head + 8);
	}
	return (int)need;
}

/* A message or request is taken back: the sender's handle, and its place in the order. */
static inline void uccl_abort_encode(uint8_t *rec, uint32_t id, uint32_t mseq)
{
	uccl_put32(rec, id);
	uccl_put32(rec + 4, mseq);
}

struct uccl_resp {
	uint32_t id;	/* the initiator's handle */
	uint32_t err;	/* 0, or enum uccl_refusal */
};

static inline void uccl_resp_encode(uint8_t *rec, const struct uccl_resp *r)
{
	uccl_put32(rec, r->id);
	uccl_put32(rec + 4, r->err);
}

static inline void uccl_resp_decode(struct uccl_resp *r, const uint8_t *rec)
{
	r->id = uccl_get32(rec);
	r->err = uccl_get32(rec + 4);
}

/*
 * CTS and requests have a field for the place of direct writes. Without direct writes it may name the queue pair that
 * puts payload into memory of a device; 0: there is none. PROTOCOL R291
 */
static inline uint64_t uccl_place_of_queue(uint32_t queue)
{
	return (uint64_t)queue << 32;
}

static inline uint32_t uccl_queue_of_place(uint64_t rkey, uint64_t raddr)
{
	return rkey ? 0 : (uint32_t)(raddr >> 32);
}

/* In CTS: a receive waited for the message. */
#define UCCL_CTS_MET 1u

struct uccl_cts {
	uint32_t id;	/* the sender's handle */
	uint32_t rx;	/* the receiver's handle */
	uint64_t limit;	/* bytes of the message that have a place */
	uint8_t flags;	/* UCCL_CTS_MET */
	uint64_t rkey;	/* direct writes: where byte 0 of the message belongs; rkey 0: packets only */
	uint64_t raddr;
};

static inline void uccl_cts_encode(uint8_t *rec, const struct uccl_cts *c)
{
	uccl_put32(rec, c->id);
	uccl_put32(rec + 4, c->rx);
	uccl_put64(rec + 8, c->limit | (uint64_t)c->flags << 56);
	uccl_put64(rec + 16, c->rkey);
	uccl_put64(rec + 24, c->raddr);
}

static inline void uccl_cts_decode(struct uccl_cts *c, const uint8_t *rec)
{
	c->id = uccl_get32(rec);
	c->rx = uccl_get32(rec + 4);
	c->limit = uccl_get64(rec + 8) & ((1ull << 56) - 1);
	c->flags = rec[15];
	c->rkey = uccl_get64(rec + 16);
	c->raddr = uccl_get64(rec + 24);
}

#endif
