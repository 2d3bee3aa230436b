/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Completion queues. The ring grows when it must, so no completion is lost; the size that the program asked for (at
 * least UCCL_CQ_MIN, UCCL_CQ_DEFAULT if it did not ask) is where posting says -FI_EAGAIN until some are read.
 */
#ifndef UCCL_API_CQ_H
#define UCCL_API_CQ_H

#include <pthread.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_eq.h>
#include <stdatomic.h>

#include "api/event/waitobj.h"
#include "base/units.h"
#include "progress/drivers.h"

#define UCCL_CQ_MIN 64
#define UCCL_CQ_DEFAULT 65536

struct uccl_domain;
struct uccl_ep;
struct uccl_cq_error;

/* One completion in all detail; the program gets the first part of it in its own format. */
struct uccl_cq_entry {
	struct fi_cq_tagged_entry e;
	fi_addr_t src;
	struct uccl_cq_error *error;	/* not NULL: it failed */
};

struct uccl_cq {
	struct fid_cq fid;
	struct uccl_domain *domain;
	_Atomic int refs;		/* bound endpoints, poll sets */
	bool locking;
	enum fi_cq_format format;
	uint32_t limit;			/* unread entries at which posting stops */
	struct uccl_waitobj wait;
	struct uccl_drivers drivers;
	_Atomic bool signalled;		/* by fi_cq_signal */

	pthread_mutex_t lock;		/* of what follows; taken last */
	struct uccl_cq_entry *ring;
	uint32_t cap;			/* a power of two */
	_Atomic uint32_t head, tail;	/* free-running; atomic for uccl_cq_full and ring_bare only */
	_Atomic bool overrun;		/* memory ran out: completions were lost */
	uint32_t failures;		/* unread entries that failed */
	uint32_t cancel_next;		/* index at which uccl_cq_cancel() begins: cancels often come in order */
	struct uccl_cq_error *last;	/* its err_data belongs to the program until the next read */
};

static inline struct uccl_cq *uccl_cq_of(struct fid *fid)
{
	return uccl_container_of(fid, struct uccl_cq, fid.fid);
}

int uccl_cq_open(struct fid_domain *domain, struct fi_cq_attr *attr, struct fid_cq **cq, void *context);

/* Add a success. */
void uccl_cq_push(struct uccl_cq *cq, const struct fi_cq_tagged_entry *e, fi_addr_t src);
/*
 * Add a failure of an operation of `ep`, with a text that a person can read. `err` is positive; olen as in
 * fi_cq_err_entry.
 */
void uccl_cq_push_error(struct uccl_cq *cq, const struct uccl_ep *ep, const struct fi_cq_tagged_entry *e, int err,
			size_t olen, const char *text);
/*
 * Cancel an operation of `ep` that has failed and whose error is unread: the entry stays where it is, and its error
 * becomes FI_ECANCELED. -FI_ENOENT: there is none. An operation that has consumed a message (FI_ETRUNC), or that is
 * cancelled already, is none. The lock of the endpoint's driver is held, so that nothing is between both.
 */
int uccl_cq_cancel(struct uccl_cq *cq, const struct uccl_ep *ep, const void *context);

/* A receive is complete, but the address vector does not have its source: err_data is that address. */
void uccl_cq_push_unknown_source(struct uccl_cq *cq, const struct fi_cq_tagged_entry *e, const void *addr, size_t len);

static inline bool uccl_cq_full(struct uccl_cq *cq)
{
	return atomic_load_explicit(&cq->tail, memory_order_relaxed) -
		       atomic_load_explicit(&cq->head, memory_order_relaxed) >= cq->limit;
}

/* Something to read, an error included? Runs the engines if not. */
bool uccl_cq_ready(struct uccl_cq *cq);
/* 0: the program may sleep; -FI_EAGAIN: there is something to read. */
int uccl_cq_trywait(struct uccl_cq *cq);

#endif
