/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Parts that the verbs back ends share: a slab is registered memory cut into buffers of equal size; a send queue holds
 * a buffer for each request until the NIC has read it. verbs_sq.c alone writes their fields.
 */
#ifndef UCCL_NIC_VERBS_VERBS_SQ_H
#define UCCL_NIC_VERBS_VERBS_SQ_H

#ifdef HAVE_VERBS

#include <stdatomic.h>
#include <stddef.h>

#include "nic/verbs/verbs_ah.h"
#include "nic/verbs/verbs_lib.h"

#define UCCL_VERBS_SQ_DEPTH 128 /* requests of one queue pair, at most */

struct uccl_mrcache_entry;

struct uccl_verbs_sent;

/* What a slab is to be. */
struct uccl_verbs_slab_attr {
	uint32_t stride; /* bytes of a buffer */
	uint32_t count;	 /* buffers; halved until they fit, if the limit on locked memory is too low, */
	uint32_t least;	 /* but no fewer than these */
	uint64_t nodes;	 /* as in uccl_nic_attr */
	int access;	 /* IBV_ACCESS_ rights */
	bool sends;	 /* it is for sends: it keeps the unused buffers in a stack */
	/* Called when the NIC no longer reads a request's payload. NULL: nobody needs that. */
	void (*freed)(const struct uccl_verbs_sent *sent);
};

/* Registered memory cut into equal buffers. */
struct uccl_verbs_slab {
	uint8_t *base;
	size_t len;
	struct ibv_mr *mr;
	uint32_t stride, count; /* bytes of a buffer; number of buffers */
	uint32_t *unused; /* stack of unused buffers; NULL: of a slab for receives */
	uint32_t nunused;
	/* Bytes of requests at the NIC for which a completion will come. Any thread may read it. */
	_Atomic uint64_t bytes;
	void (*freed)(const struct uccl_verbs_sent *sent);
};

/*
 * Allocate and register the buffers. `name`: the device, for the log. 0 or -FI_ENOMEM; call uccl_verbs_slab_close() in
 * both cases.
 */
int uccl_verbs_slab_open(const struct uccl_verbs *lib, struct ibv_pd *pd, const char *name, struct uccl_verbs_slab *s,
			 const struct uccl_verbs_slab_attr *attr);
void uccl_verbs_slab_close(const struct uccl_verbs *lib, struct uccl_verbs_slab *s);

static inline uint8_t *uccl_verbs_buffer(const struct uccl_verbs_slab *s, uint32_t buffer)
{
	return s->base + (size_t)buffer * s->stride;
}

/* Take an unused buffer; there is one. */
static inline uint32_t uccl_verbs_slab_take(struct uccl_verbs_slab *s)
{
	return s->unused[--s->nunused];
}

/* A send that the NIC may still read. */
struct uccl_verbs_sent {
	uint32_t buffer;
	uint32_t signaled;	  /* bytes that its completion covers; 0: it has no completion of its own */
	struct uccl_verbs_ah *ah; /* NULL: it needs none */
	/* For uccl_verbs_slab.freed(): */
	const struct uccl_mrcache_entry *source; /* registration of the payload; NULL: it was copied */
	uint64_t cookie; /* of a write: its uccl_tx.cookie */
	void *owner;	 /* of a write: its peer */
};

/* The sending half of a queue pair. */
struct uccl_verbs_sq {
	struct ibv_qp *qp;	      /* NULL: not made yet, or it broke and could not be replaced */
	struct uccl_verbs_sent *sent; /* ring of UCCL_VERBS_SQ_DEPTH */
	uint32_t head, tail;	      /* numbers of the next request, and of the first that is not done, modulo 2^32 */
	uint32_t signaled;	      /* a completion will cover all requests before this number */
	uint32_t unsignalled;	      /* requests since the last one that asks for a completion */
	uint32_t unsignaled_bytes;    /* bytes of these requests */
	uint16_t generation;	      /* counts queue pairs; a completion with another number is stale */
	/* The chain of requests that is being built. */
	struct ibv_send_wr *first, *last;
};

/* The wr_id of the next request: generation (16 bits), `which` queue pair (16 bits), number of the request (32). */
static inline uint64_t uccl_verbs_sq_name(const struct uccl_verbs_sq *q, uint16_t which)
{
	return (uint64_t)q->generation << 48 | (uint64_t)which << 32 | q->head;
}

static inline uint16_t uccl_verbs_sq_which(uint64_t name)
{
	return (uint16_t)(name >> 32);
}

/* True if there is room for one more request in a queue of `depth`. */
static inline bool uccl_verbs_sq_room(const struct uccl_verbs_sq *q, uint32_t depth)
{
	return q->head - q->tail < (depth < UCCL_VERBS_SQ_DEPTH ? depth : UCCL_VERBS_SQ_DEPTH);
}

/* True if a completion is still to come that covers requests not yet done. */
static inline bool uccl_verbs_sq_awaits(const struct uccl_verbs_sq *q)
{
	return q->qp && (int32_t)(q->signaled - q->tail) > 0;
}

/* Bytes of requests at the NIC. Requests that no completion covers yet are not counted. */
static inline uint64_t uccl_verbs_slab_backlog(const struct uccl_verbs_slab *s)
{
	return atomic_load_explicit(&s->bytes, memory_order_relaxed);
}

/* Make the queue pair; `generation` is in the names of its requests. 0 or an error. */
int uccl_verbs_sq_create(const struct uccl_verbs *lib, struct ibv_pd *pd, struct uccl_verbs_sq *q,
			 struct ibv_qp_init_attr *init, uint16_t generation);
/* Destroy a queue pair again that has no requests yet, because it could not be connected. */
void uccl_verbs_sq_destroy(const struct uccl_verbs *lib, struct uccl_verbs_sq *q);
/* Free the memory of a queue without queue pair. */
void uccl_verbs_sq_fini(struct uccl_verbs_sq *q);
/*
 * Append a request, with its wr_id set, to the chain; it holds `sent` until it is done. `signal`: ask for a completion,
 * which covers it and all before. Returns true if the chain was empty.
 */
bool uccl_verbs_sq_add(struct uccl_verbs_sq *q, struct uccl_verbs_slab *s, struct ibv_send_wr *wr,
		       struct uccl_verbs_sent sent, bool signal);
/* Ask for a completion for the last request of the chain. */
void uccl_verbs_sq_signal(struct uccl_verbs_sq *q, struct uccl_verbs_slab *s);
/*
 * Hand the chain to the NIC. 0, or an errno value: the NIC refused some requests. These are removed, and *lost grows by
 * their number. The request that should ask for a completion may be among them, so the next one should ask.
 */
int uccl_verbs_sq_post(const struct uccl_verbs *lib, struct uccl_verbs_sq *q, struct uccl_verbs_slab *s,
		       uint64_t *lost);
/* May a request that is not known to be done read this memory? */
bool uccl_verbs_sq_reads(const struct uccl_verbs_sq *q, const struct uccl_mrcache_entry *source);
/* False: the completion belongs to an earlier queue pair (stale generation). */
bool uccl_verbs_sq_known(const struct uccl_verbs_sq *q, const struct ibv_wc *wc);
/* Complete all requests up to and including the one of this completion. */
void uccl_verbs_sq_done(struct uccl_verbs_sq *q, struct uccl_verbs_slab *s, const struct ibv_wc *wc);
/* The request of this completion; NULL: it is done already, or unknown. */
const struct uccl_verbs_sent *uccl_verbs_sq_sent(const struct uccl_verbs_sq *q, const struct ibv_wc *wc);
/* Destroy the queue pair. The NIC then reads nothing of it, and all requests are completed. */
void uccl_verbs_sq_end(const struct uccl_verbs *lib, struct uccl_verbs_sq *q, struct uccl_verbs_slab *s);

#endif

#endif
