/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What the verbs back ends share: registered memory cut into pieces, and send queues whose requests each hold a piece
 * until the NIC has read it.
 */
#ifndef UCCL_NIC_VERBS_VERBS_SQ_H
#define UCCL_NIC_VERBS_VERBS_SQ_H

#ifdef HAVE_VERBS

#include <stdatomic.h>
#include <stddef.h>

#include "nic/verbs/verbs_ah.h"
#include "nic/verbs/verbs_lib.h"

#define UCCL_VERBS_SQ_DEPTH 128 /* requests of one queue pair, at most */

struct uccl_devcache_entry;
struct uccl_mrcache_entry;

/* Registered memory cut into equal pieces. */
struct uccl_verbs_sent;

struct uccl_verbs_slab {
	uint8_t *base;
	size_t len;
	struct ibv_mr *mr;
	uint64_t nodes;	  /* set before it is opened: as in uccl_nic_attr */
	uint32_t stride, count;
	uint32_t *unused; /* stack of pieces that nobody has; NULL: not kept */
	uint32_t nunused;
	/* Of requests that the NIC was handed and will tell of. Read from anywhere, written as the rest. */
	_Atomic uint64_t bytes;
	/* The NIC reads it no more; NULL: nobody needs to know. */
	void (*freed)(void *arg, const struct uccl_verbs_sent *sent);
	void *freed_arg;
};

/*
 * As many pieces as may be locked, from `count` down to `least`; `stack`: keep those that are free. `name` is of the
 * device, for the log. -FI_ENOMEM, then what there is goes with uccl_verbs_slab_close().
 */
int uccl_verbs_slab_open(const struct uccl_verbs *lib, struct ibv_pd *pd, const char *name, struct uccl_verbs_slab *s,
			 uint32_t stride, uint32_t count, uint32_t least, int access, bool stack);
void uccl_verbs_slab_close(const struct uccl_verbs *lib, struct uccl_verbs_slab *s);

static inline uint8_t *uccl_verbs_piece(const struct uccl_verbs_slab *s, uint32_t piece)
{
	return s->base + (size_t)piece * s->stride;
}

/* A send that the NIC may still read. */
struct uccl_verbs_sent {
	uint32_t piece;
	uint32_t signaled;	  /* bytes that its completion tells of; 0: none will come for it alone */
	struct uccl_verbs_ah *ah; /* NULL: it needs none */
	struct uccl_devcache_entry *gpu; /* payload that is read from a device, for uccl_verbs_slab.freed; NULL */
	/* Of a write, likewise. */
	const struct uccl_mrcache_entry *source; /* NULL: what is in the piece */
	uint64_t cookie;
	void *owner;
};

/* The sending half of a queue pair. */
struct uccl_verbs_sq {
	struct ibv_qp *qp;	      /* NULL: not made yet, or it broke and could not be made anew */
	struct uccl_verbs_sent *sent; /* ring of UCCL_VERBS_SQ_DEPTH */
	uint32_t head, tail;	      /* of the ring: next, and first not done; both only grow */
	uint32_t signaled;	      /* requests before this one will be told of by a completion */
	uint32_t unsignalled;	      /* since the last that asks for a completion, */
	uint32_t unsignaled_bytes;    /* and their bytes */
	uint16_t generation;	      /* completions of an earlier life are stale */
	uint64_t retry_at;	      /* when to try again to make it */
	/* The chain that is being built. */
	struct ibv_send_wr *first, *last;
};

/* A request's name: life of the queue pair (16 bits), which one (16), its number there (32). */
static inline uint64_t uccl_verbs_sq_name(const struct uccl_verbs_sq *q, uint16_t which)
{
	return (uint64_t)q->generation << 48 | (uint64_t)which << 32 | q->head;
}

static inline uint16_t uccl_verbs_sq_which(uint64_t name)
{
	return (uint16_t)(name >> 32);
}

/* Room for one more, in a queue of `depth`. */
static inline bool uccl_verbs_sq_room(const struct uccl_verbs_sq *q, uint32_t depth)
{
	return q->head - q->tail < (depth < UCCL_VERBS_SQ_DEPTH ? depth : UCCL_VERBS_SQ_DEPTH);
}

/* Some will not be told of before a later one is sent. False: all are done, or will be told of. */
static inline bool uccl_verbs_sq_awaits(const struct uccl_verbs_sq *q)
{
	return q->qp && (int32_t)(q->signaled - q->tail) > 0;
}

/* Bytes of requests that were handed to the NIC; those that no completion will tell of alone are not counted. */
static inline uint64_t uccl_verbs_slab_backlog(const struct uccl_verbs_slab *s)
{
	return atomic_load_explicit(&s->bytes, memory_order_relaxed);
}

/* Memory for it. -FI_ENOMEM. */
int uccl_verbs_sq_init(struct uccl_verbs_sq *q);
void uccl_verbs_sq_fini(struct uccl_verbs_sq *q);
/*
 * Put a request, which has its name, at the end of the chain; it holds `sent`. With `signal` a completion will tell of
 * it and of those before. True: the chain is new.
 */
bool uccl_verbs_sq_add(struct uccl_verbs_sq *q, struct uccl_verbs_slab *s, struct ibv_send_wr *wr,
		       struct uccl_verbs_sent sent, bool signal);
/* A completion will tell of the last of the chain. */
void uccl_verbs_sq_signal(struct uccl_verbs_sq *q, struct uccl_verbs_slab *s);
/*
 * Hand the chain to the NIC. What it refuses is as if it had never been, and *lost grows by it; then also an errno
 * value is returned. The next that is added should ask for a completion if uccl_verbs_sq.told was set back.
 */
int uccl_verbs_sq_post(const struct uccl_verbs *lib, struct uccl_verbs_sq *q, struct uccl_verbs_slab *s,
		       uint64_t *lost);
/* A completion came: *at is the number of its request. False: it is of an earlier life. */
bool uccl_verbs_sq_known(const struct uccl_verbs_sq *q, const struct ibv_wc *wc);
/* All up to and with the request of this completion are done. */
void uccl_verbs_sq_done(struct uccl_verbs_sq *q, struct uccl_verbs_slab *s, const struct ibv_wc *wc);
/* The request of this completion, if it is one that is not done; else NULL. */
const struct uccl_verbs_sent *uccl_verbs_sq_sent(const struct uccl_verbs_sq *q, const struct ibv_wc *wc);
/* Destroy the queue pair: the NIC reads nothing of it any more. */
void uccl_verbs_sq_end(const struct uccl_verbs *lib, struct uccl_verbs_sq *q, struct uccl_verbs_slab *s);

#endif

#endif
