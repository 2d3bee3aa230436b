/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* See srx.h. */
#include "api/transfer/srx.h"

#include <string.h>

#include "api/event/cq.h"
#include "api/object/domain.h"
#include "api/offer/attr.h"
#include "api/transfer/report.h"
#include "api/transfer/request.h"
#include "progress/thread.h"

static bool tagged(const struct uccl_xfer *x)
{
	return x->flags & FI_TAGGED;
}

static bool multi(const struct uccl_xfer *x)
{
	return x->flags & FI_MULTI_RECV;
}

/* Take it off the list. It is freed when no message is being received into it. The lock is held. */
static void unpost(struct uccl_srx *srx, struct uccl_srx_recv *r)
{
	TAILQ_REMOVE(&srx->posted[tagged(&r->x)], r, link);
	r->posted = false;
	if (!r->children)
		uccl_pool_put(&srx->pool, r);
}

/* A message in a multi-receive buffer is complete. */
static void child_done(struct uccl_op *op)
{
	struct uccl_srx *srx = ((struct uccl_ep *)op->api)->bound.srx;
	struct uccl_srx_recv *r = op->api_more;

	pthread_mutex_lock(&srx->lock);
	if (!--r->children && !r->posted) {
		op->flags |= UCCL_OPF_MULTI;
		uccl_pool_put(&srx->pool, r);
	}
	pthread_mutex_unlock(&srx->lock);
	op->api_more = NULL;
	uccl_report_recv(op);
}

/* Use r for a message of `len` bytes: all of r, or the next bytes of a multi-receive buffer. The lock is held. */
static void take(struct uccl_srx *srx, struct uccl_srx_recv *r, struct uccl_op *op, uint64_t len)
{
	uint64_t used = uccl_min(len, r->iov[0].iov_len);

	if (!multi(&r->x)) {
		unpost(srx, r);
		return;
	}
	op->api_more = r;
	op->done = child_done;
	r->children++;
	r->iov[0].iov_base = (uint8_t *)r->iov[0].iov_base + used;
	r->iov[0].iov_len -= used;
	if (r->iov[0].iov_len < uccl_max(srx->min_multi, 1))
		unpost(srx, r);
}

/* Fill a request for this receive. False: it names a source that this endpoint does not know. */
static bool fill(struct uccl_ep *ep, struct uccl_op *op, const struct uccl_srx_recv *r)
{
	struct uccl_xfer x = r->x;

	x.flags &= ~FI_MULTI_RECV;
	return !uccl_request_recv_fill(ep, op, &x);
}

/* Whether messages of this endpoint wait for receives. The endpoint's lock is held. */
static void waits_set(struct uccl_ep *ep, bool waits)
{
	if (atomic_load_explicit(&ep->srx_waits, memory_order_relaxed) == waits)
		return;
	atomic_store_explicit(&ep->srx_waits, waits, memory_order_relaxed);
	atomic_fetch_add(&ep->bound.srx->nwaiting, waits ? 1 : -1);
}

void uccl_srx_leave(struct uccl_ep *ep)
{
	waits_set(ep, false);
	atomic_fetch_sub(&ep->bound.srx->refs, 1);
}

/* Match one waiting message with the first receive that fits. */
static bool serve_one(struct uccl_ep *ep, bool kind, uint64_t now)
{
	struct uccl_op *op = uccl_op_get(ep->driver.engine);
	struct uccl_srx *srx = ep->bound.srx;
	struct uccl_srx_recv *r;

	if (!op) {
		uccl_ep_srx_poll(ep, true);
		return false;
	}
	pthread_mutex_lock(&srx->lock);
	TAILQ_FOREACH(r, &srx->posted[kind], link) {
		if (!fill(ep, op, r) || uccl_engine_peek(ep->driver.engine, op, false, false, now))
			continue;
		/* The peek wrote the message's values into the request: fill it again for the receive. */
		uint64_t len = op->done_len;

		fill(ep, op, r);
		op->from = NULL;
		op->done_len = 0;
		take(srx, r, op, len);
		break;
	}
	if (!r)
		waits_set(ep, true);
	pthread_mutex_unlock(&srx->lock);
	if (!r) {
		uccl_op_put(ep->driver.engine, op);
		return false;
	}
	uccl_report_rx_opened(ep);
	uccl_engine_recv(ep->driver.engine, op, now);
	return true;
}

int uccl_srx_serve(struct uccl_ep *ep, uint64_t now)
{
	int n = 0;

	uccl_ep_srx_poll(ep, false);
	waits_set(ep, false);
	for (int kind = 0; kind < 2; kind++)
		while (uccl_engine_unexpected(ep->driver.engine, kind) && serve_one(ep, kind, now))
			n++;
	return n;
}

ssize_t uccl_srx_recv(struct uccl_srx *srx, const struct uccl_xfer *x)
{
	struct uccl_srx_recv *r;

	if (srx->domain->forks != uccl_forks)
		return -FI_EOPBADSTATE;
	if (x->count > UCCL_IOV_MAX || (multi(x) && (tagged(x) || x->count != 1)) || x->flags & FI_TRIGGER)
		return -FI_EINVAL;
	for (size_t i = 0; i < x->count; i++)
		if (x->iov[i].iov_len > UCCL_MSG_MAX)
			return -FI_EMSGSIZE;
	pthread_mutex_lock(&srx->lock);
	r = uccl_pool_get(&srx->pool);
	if (r) {
		r->x = *x;
		r->x.iov = r->iov;
		r->x.desc = NULL; /* the array is the caller's */
		if (x->count)
			memcpy(r->iov, x->iov, x->count * sizeof(*x->iov));
		r->posted = true;
		r->children = 0;
		TAILQ_INSERT_TAIL(&srx->posted[tagged(x)], r, link);
	}
	pthread_mutex_unlock(&srx->lock);
	/* Messages that found no receive have set srx_waits before we took the lock. */
	if (!atomic_load(&srx->nwaiting))
		return r ? 0 : -FI_EAGAIN;
	uccl_lock_take(&srx->drivers.lock);
	for (unsigned int i = 0; i < srx->drivers.n; i++) {
		struct uccl_ep *ep = uccl_ep_of_driver(srx->drivers.v[i]);

		if (!atomic_load_explicit(&ep->srx_waits, memory_order_relaxed))
			continue;
		uccl_driver_lock(&ep->driver);
		if (ep->enabled && uccl_srx_serve(ep, uccl_clock()))
			uccl_driver_kick(&ep->driver);
		uccl_driver_unlock(&ep->driver);
	}
	uccl_lock_give(&srx->drivers.lock);
	return r ? 0 : -FI_EAGAIN;
}

/* Report the end of a receive that no endpoint has taken, in the first endpoint's queue. The list's lock is held. */
static void report_untaken(struct uccl_srx *srx, const struct uccl_xfer *x, int err, uint64_t flags, const char *text)
{
	struct fi_cq_tagged_entry e = {
		.op_context = x->context, .flags = FI_RECV | (x->flags & (FI_TAGGED | FI_MSG)) | flags, .tag = x->tag,
	};

	struct uccl_cq *cq = srx->drivers.n ? uccl_ep_of_driver(srx->drivers.v[0])->bound.rx_cq : NULL;

	if (cq)
		uccl_cq_push_error(cq, NULL, &e, err, 0, text);
}

ssize_t uccl_srx_peek(struct uccl_srx *srx, const struct uccl_xfer *x)
{
	ssize_t rc = -FI_ENOMSG;

	if (srx->domain->forks != uccl_forks)
		return -FI_EOPBADSTATE;
	uccl_lock_take(&srx->drivers.lock);
	for (unsigned int i = 0; i < srx->drivers.n && rc == -FI_ENOMSG; i++) {
		struct uccl_ep *ep = uccl_ep_of_driver(srx->drivers.v[i]);

		if (!ep->enabled)
			continue;
		uccl_driver_lock(&ep->driver);
		rc = uccl_request_peek(ep, x, true);
		uccl_driver_unlock(&ep->driver);
	}
	if (rc == -FI_ENOMSG && srx->drivers.n) {
		report_untaken(srx, x, FI_ENOMSG, 0, "no such message");
		rc = 0;
	}
	uccl_lock_give(&srx->drivers.lock);
	return rc;
}

/* Cancel a receive that an endpoint has taken, or whose error is unread. The lock of the drivers is held. */
static ssize_t cancel_taken(struct uccl_srx *srx, const void *context)
{
	ssize_t rc = -FI_ENOENT;

	for (unsigned int i = 0; i < srx->drivers.n && rc == -FI_ENOENT; i++) {
		struct uccl_ep *ep = uccl_ep_of_driver(srx->drivers.v[i]);

		if (!ep->enabled)
			continue;
		uccl_driver_lock(&ep->driver);
		rc = uccl_request_cancel(ep, context);
		uccl_driver_unlock(&ep->driver);
	}
	return rc;
}

ssize_t uccl_srx_cancel(struct uccl_srx *srx, void *context)
{
	struct uccl_srx_recv *r = NULL;
	ssize_t rc = 0;

	if (srx->domain->forks != uccl_forks)
		return -FI_EOPBADSTATE;
	uccl_lock_take(&srx->drivers.lock);
	pthread_mutex_lock(&srx->lock);
	for (int kind = 0; kind < 2 && !r; kind++)
		TAILQ_FOREACH(r, &srx->posted[kind], link)
			if (r->x.context == context)
				break;
	if (r) {
		/* With messages still arriving in a multi-receive buffer, the last of them reports its end. */
		if (!r->children)
			report_untaken(srx, &r->x, FI_ECANCELED, multi(&r->x) ? FI_MULTI_RECV : 0, "canceled");
		unpost(srx, r);
	}
	pthread_mutex_unlock(&srx->lock);
	if (!r)
		rc = cancel_taken(srx, context);
	uccl_lock_give(&srx->drivers.lock);
	return rc;
}

ssize_t uccl_srx_size_left(struct uccl_srx *srx)
{
	ssize_t left;

	pthread_mutex_lock(&srx->lock);
	left = srx->size - srx->pool.used;
	pthread_mutex_unlock(&srx->lock);
	return left;
}
