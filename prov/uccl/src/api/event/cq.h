/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Completion queues. The ring grows on demand, so no completion is lost. At the size that the program asked for (at
 * least UCCL_CQ_MIN; UCCL_CQ_DEFAULT if it did not ask) posting returns -FI_EAGAIN until some entries are read.
 */
#ifndef UCCL_API_CQ_H
#define UCCL_API_CQ_H

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

/* A completion. The program reads the first part of `e`, as far as its format goes. */
struct uccl_cq_entry {
	struct fi_cq_tagged_entry e;
	fi_addr_t src;
	struct uccl_cq_error *error;	/* NULL: success */
};

struct uccl_cq {
	struct fid_cq fid;
	struct uccl_domain *domain;
	_Atomic int refs;		/* bound endpoints, poll sets */
	bool locking;
	enum fi_cq_format format;
	size_t entry_size;		/* bytes that a reader gets of a completion */
	uint32_t limit;			/* unread entries at which posting stops */
	struct uccl_waitobj wait;
	struct uccl_drivers drivers;
	_Atomic bool signalled;		/* by fi_cq_signal */
	_Atomic bool gave;		/* the latest read gave entries */

	struct uccl_lock lock;		/* of what follows; taken last */
	struct uccl_cq_entry *ring;
	uint32_t cap;			/* a power of two */
	_Atomic uint32_t head, tail;	/* modulo 2^32; atomic because uccl_cq_full() and ring_bare() take no lock */
	_Atomic bool overrun;		/* memory ran out, so completions were lost */
	uint32_t failures;		/* unread entries with an error */
	uint32_t cancel_next;		/* index at which uccl_cq_cancel() begins: cancels often come in order */
	struct uccl_cq_error *last;	/* its err_data belongs to the program until the next read */
};

static inline struct uccl_cq *uccl_cq_of(struct fid *fid)
{
	return uccl_container_of(fid, struct uccl_cq, fid.fid);
}

int uccl_cq_open(struct fid_domain *domain, struct fi_cq_attr *attr, struct fid_cq **cq, void *context);

/* Add a completion. `src`: source address of a receive, or FI_ADDR_NOTAVAIL. */
void uccl_cq_push(struct uccl_cq *cq, const struct fi_cq_tagged_entry *e, fi_addr_t src);
/*
 * Add an error of an operation of `ep`. `err`: positive FI_Exxx; `olen`: as in fi_cq_err_entry; `text`: the reason, for
 * fi_cq_strerror(3).
 */
void uccl_cq_push_error(struct uccl_cq *cq, const struct uccl_ep *ep, const struct fi_cq_tagged_entry *e, int err,
			size_t olen, const char *text);
/*
 * Cancel a failed operation of `ep` whose error is unread: the entry keeps its place, and its error becomes
 * FI_ECANCELED. -FI_ENOENT: there is none with this context. Operations that consumed a message (FI_ETRUNC) or are
 * cancelled already do not count. The caller holds the lock of the endpoint's driver, so that no completion comes
 * between its own search and this one.
 */
int uccl_cq_cancel(struct uccl_cq *cq, const struct uccl_ep *ep, const void *context);

/* Add the error of a receive whose source is not in the address vector: err_data is the source's address. */
void uccl_cq_push_unknown_source(struct uccl_cq *cq, const struct fi_cq_tagged_entry *e, const void *addr, size_t len);

/* True: the size that the program asked for is reached. Needs no lock. */
static inline bool uccl_cq_full(struct uccl_cq *cq)
{
	return atomic_load_explicit(&cq->tail, memory_order_relaxed) -
		       atomic_load_explicit(&cq->head, memory_order_relaxed) >= cq->limit;
}

/* True if a completion or an error can be read. If not, runs the engines and checks again. */
bool uccl_cq_ready(struct uccl_cq *cq);
/* 0: the program may sleep; -FI_EAGAIN: there is something to read. */
int uccl_cq_trywait(struct uccl_cq *cq);

#endif
