/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Records of the message layer: what the 32 bytes behind the fixed header say (PROTOCOL.md section 6). */
#ifndef UCCL_MSG_RECORD_H
#define UCCL_MSG_RECORD_H

#include <stdint.h>

#include "core/wire.h"

enum uccl_rec_type {
	UCCL_REC_MSG = 1,   /* envelope, with the first bytes of the message as payload */
	UCCL_REC_EAGER = 2, /* more of an eager message: bulk rec, id = message sequence */
	UCCL_REC_DATA = 3,  /* payload after CTS: bulk rec, id and gen = the receiver's handle and message sequence */
	UCCL_REC_CTS = 4,   /* receiver -> sender: send up to `limit` bytes in all */
	UCCL_REC_FIN = 5,   /* receiver -> sender: delivered */
	/* 6..31 are reserved for RMA and atomics */
};

#define UCCL_ENV_TAGGED 1u
#define UCCL_ENV_DATA 2u
#define UCCL_ENV_DELIVERY 4u /* wants FIN */
#define UCCL_ENV_EAGER 8u    /* all of it comes without CTS */

struct uccl_env {
	uint64_t tag;
	uint64_t data;
	uint64_t len;	/* of the message, below 2^56 */
	uint8_t flags;
	uint32_t mseq;	/* place in the order of the endpoint pair, low 32 bits */
	uint32_t id;	/* the sender's handle, for CTS and FIN; 0: none */
};

static inline void uccl_env_encode(uint8_t *rec, const struct uccl_env *e)
{
	uccl_put64(rec, e->tag);
	uccl_put64(rec + 8, e->data);
	uccl_put64(rec + 16, e->len | (uint64_t)e->flags << 56);
	uccl_put32(rec + 24, e->mseq);
	uccl_put32(rec + 28, e->id);
}

static inline void uccl_env_decode(struct uccl_env *e, const uint8_t *rec)
{
	e->tag = uccl_get64(rec);
	e->data = uccl_get64(rec + 8);
	e->len = uccl_get64(rec + 16) & ((1ull << 56) - 1);
	e->flags = rec[23];
	e->mseq = uccl_get32(rec + 24);
	e->id = uccl_get32(rec + 28);
}

struct uccl_cts {
	uint32_t id;	/* the sender's handle */
	uint32_t rx;	/* the receiver's handle */
	uint64_t limit;	/* bytes of the message that have a place */
	uint64_t rkey;	/* direct writes: where byte 0 of the message belongs; rkey 0: packets only */
	uint64_t raddr;
};

static inline void uccl_cts_encode(uint8_t *rec, const struct uccl_cts *c)
{
	uccl_put32(rec, c->id);
	uccl_put32(rec + 4, c->rx);
	uccl_put64(rec + 8, c->limit);
	uccl_put64(rec + 16, c->rkey);
	uccl_put64(rec + 24, c->raddr);
}

static inline void uccl_cts_decode(struct uccl_cts *c, const uint8_t *rec)
{
	c->id = uccl_get32(rec);
	c->rx = uccl_get32(rec + 4);
	c->limit = uccl_get64(rec + 8);
	c->rkey = uccl_get64(rec + 16);
	c->raddr = uccl_get64(rec + 24);
}

#endif
