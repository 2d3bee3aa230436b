/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* See trigger.h. */
#include "api/trigger.h"

#include <stdlib.h>
#include <string.h>

#include "api/atomic.h"
#include "api/cntr.h"
#include "api/domain.h"
#include "api/lib.h"

enum kind { SEND, RECV, RMA, ATOMIC, CNTR_ADD, CNTR_SET };

struct uccl_trigger {
	TAILQ_ENTRY(uccl_trigger) link;
	struct uccl_cntr *cntr;
	uint64_t threshold;
	enum kind kind;
	struct uccl_ep_fid *f;		/* not for counters */
	const void *work;		/* the program's, by which it is cancelled */
	struct uccl_xfer x;
	struct uccl_rma rma;
	struct uccl_atomic_args args;
	struct iovec iov[UCCL_IOV_MAX], operand[UCCL_IOV_MAX], compare[UCCL_IOV_MAX];
	struct uccl_cntr *target;	/* counters */
	uint64_t value;
};

void uccl_triggers_init(struct uccl_triggers *t)
{
	pthread_mutex_init(&t->lock, NULL);
	TAILQ_INIT(&t->list);
}

static void trigger_free(struct uccl_trigger *t)
{
	atomic_fetch_sub(&t->cntr->refs, 1);
	free(t);
}

/* Take off the list all that `work` (NULL: any) and `ep` (NULL: any) name. Returns how many. */
static int remove_all(struct uccl_triggers *ts, const void *work, const struct uccl_ep *ep)
{
	struct uccl_trigger *t, *next;
	int n = 0;

	pthread_mutex_lock(&ts->lock);
	for (t = TAILQ_FIRST(&ts->list); t; t = next) {
		next = TAILQ_NEXT(t, link);
		if ((work && t->work != work) || (ep && (!t->f || t->f->ep != ep)))
			continue;
		TAILQ_REMOVE(&ts->list, t, link);
		atomic_fetch_sub(&ts->n, 1);
		trigger_free(t);
		n++;
	}
	pthread_mutex_unlock(&ts->lock);
	return n;
}

void uccl_triggers_fini(struct uccl_triggers *t)
{
	remove_all(t, NULL, NULL);
	pthread_mutex_destroy(&t->lock);
}

void uccl_triggers_forget(struct uccl_domain *d, const struct uccl_ep *ep)
{
	remove_all(&d->triggers, NULL, ep);
}

static ssize_t trigger_post(struct uccl_trigger *t)
{
	switch (t->kind) {
	case SEND:
		return uccl_xfer_send(t->f, &t->x);
	case RECV:
		return uccl_xfer_recv(t->f, &t->x);
	case RMA:
		return uccl_xfer_rma(t->f, &t->rma);
	case ATOMIC:
		return uccl_atomic_work(t->work);
	case CNTR_ADD:
		return fi_cntr_add(&t->target->fid, t->value);
	default:
		return fi_cntr_set(&t->target->fid, t->value);
	}
}

static struct uccl_trigger *first_due(struct uccl_triggers *ts)
{
	struct uccl_trigger *t;

	pthread_mutex_lock(&ts->lock);
	TAILQ_FOREACH(t, &ts->list, link)
		if (atomic_load(&t->cntr->good) >= t->threshold)
			break;
	if (t) {
		TAILQ_REMOVE(&ts->list, t, link);
		atomic_fetch_sub(&ts->n, 1);
	}
	pthread_mutex_unlock(&ts->lock);
	return t;
}

void uccl_triggers_run(struct uccl_domain *d)
{
	struct uccl_triggers *ts = &d->triggers;
	struct uccl_trigger *t;

	if (!atomic_exchange(&ts->due, false))
		return;
	while ((t = first_due(ts))) {
		ssize_t rc = trigger_post(t);

		if (rc == -FI_EAGAIN) {
			/* Its place is in front of what was posted after it. */
			pthread_mutex_lock(&ts->lock);
			TAILQ_INSERT_HEAD(&ts->list, t, link);
			atomic_fetch_add(&ts->n, 1);
			pthread_mutex_unlock(&ts->lock);
			atomic_store(&ts->due, true);
			return;
		}
		if (rc)
			uccl_warn(FI_LOG_EP_DATA, "a triggered operation cannot be posted: %s\n",
				  uccl_lib.strerror((int)-rc));
		trigger_free(t);
	}
}

static struct uccl_trigger *trigger_new(struct fid_cntr *cntr, uint64_t threshold)
{
	struct uccl_trigger *t = calloc(1, sizeof(*t));

	if (!t)
		return NULL;
	t->cntr = uccl_container_of(cntr, struct uccl_cntr, fid);
	t->threshold = threshold;
	atomic_fetch_add(&t->cntr->refs, 1);
	return t;
}

static void trigger_arm(struct uccl_domain *d, struct uccl_trigger *t)
{
	struct uccl_triggers *ts = &d->triggers;

	pthread_mutex_lock(&ts->lock);
	TAILQ_INSERT_TAIL(&ts->list, t, link);
	atomic_fetch_add(&ts->n, 1);
	pthread_mutex_unlock(&ts->lock);
	/* The threshold may be reached already. */
	atomic_store(&ts->due, true);
	uccl_triggers_run(d);
}

/* The counter and threshold that a call with FI_TRIGGER names by its context. */
static int trigger_of(struct uccl_ep_fid *f, void *context, struct uccl_trigger **out)
{
	struct fi_triggered_context *ctx = context;

	if (!ctx || ctx->event_type != FI_TRIGGER_THRESHOLD || !ctx->trigger.threshold.cntr)
		return -FI_EINVAL;
	*out = trigger_new(ctx->trigger.threshold.cntr, ctx->trigger.threshold.threshold);
	if (!*out)
		return -FI_ENOMEM;
	(*out)->f = f;
	return 0;
}

static bool keep_iov(struct iovec *to, const struct iovec *from, size_t n)
{
	if (n > UCCL_IOV_MAX)
		return false;
	if (n)
		memcpy(to, from, n * sizeof(*to));
	return true;
}

static bool keep_xfer(struct uccl_trigger *t, const struct uccl_xfer *x)
{
	t->x = *x;
	t->x.flags &= ~FI_TRIGGER;
	t->x.iov = t->iov;
	t->x.desc = NULL; /* they are the caller's */
	return keep_iov(t->iov, x->iov, x->count);
}

static bool keep_rma(struct uccl_trigger *t, const struct uccl_rma *x)
{
	t->rma = *x;
	t->rma.flags &= ~FI_TRIGGER;
	t->rma.iov = t->iov;
	t->rma.desc = NULL;
	t->kind = RMA;
	if (x->args) {
		t->args = *x->args;
		t->args.operand = t->operand;
		t->args.compare = t->compare;
		t->rma.args = &t->args;
		memcpy(t->operand, x->args->operand, x->args->noperand * sizeof(*t->operand));
		memcpy(t->compare, x->args->compare, x->args->ncompare * sizeof(*t->compare));
	}
	return keep_iov(t->iov, x->iov, x->count);
}

ssize_t uccl_trigger_xfer(struct uccl_ep_fid *f, const struct uccl_xfer *x, bool recv)
{
	struct uccl_trigger *t;
	int rc = trigger_of(f, x->context, &t);

	if (rc)
		return rc;
	t->kind = recv ? RECV : SEND;
	if (!keep_xfer(t, x)) {
		trigger_free(t);
		return -FI_EINVAL;
	}
	trigger_arm(f->ep->domain, t);
	return 0;
}

ssize_t uccl_trigger_rma(struct uccl_ep_fid *f, const struct uccl_rma *x)
{
	struct uccl_trigger *t;
	int rc = trigger_of(f, x->context, &t);

	if (rc)
		return rc;
	if (!keep_rma(t, x)) {
		trigger_free(t);
		return -FI_EINVAL;
	}
	trigger_arm(f->ep->domain, t);
	return 0;
}

/* deferred work */

static struct uccl_ep_fid *handle(struct fid_ep *ep)
{
	return uccl_container_of(ep, struct uccl_ep_fid, fid);
}

static int work_msg(struct uccl_trigger *t, const struct fi_op_msg *op, bool recv)
{
	const struct fi_msg *msg = &op->msg;
	struct uccl_xfer x = {
		.iov = msg->msg_iov, .count = msg->iov_count, .addr = msg->addr, .data = msg->data,
		.context = msg->context, .flags = op->flags | FI_MSG,
	};

	t->f = handle(op->ep);
	t->kind = recv ? RECV : SEND;
	return keep_xfer(t, &x) ? 0 : -FI_EINVAL;
}

static int work_tagged(struct uccl_trigger *t, const struct fi_op_tagged *op, bool recv)
{
	const struct fi_msg_tagged *msg = &op->msg;
	struct uccl_xfer x = {
		.iov = msg->msg_iov, .count = msg->iov_count, .addr = msg->addr, .tag = msg->tag,
		.ignore = msg->ignore, .data = msg->data, .context = msg->context, .flags = op->flags | FI_TAGGED,
	};

	t->f = handle(op->ep);
	t->kind = recv ? RECV : SEND;
	return keep_xfer(t, &x) ? 0 : -FI_EINVAL;
}

static int work_rma(struct uccl_trigger *t, const struct fi_op_rma *op, enum uccl_op_type type)
{
	const struct fi_msg_rma *msg = &op->msg;
	struct uccl_rma x = {
		.type = type, .iov = msg->msg_iov, .count = msg->iov_count, .addr = msg->addr, .data = msg->data,
		.context = msg->context, .flags = op->flags, .nseg = (uint8_t)msg->rma_iov_count,
	};

	if (msg->rma_iov_count > UCCL_SEG_MAX)
		return -FI_EINVAL;
	for (uint8_t i = 0; i < x.nseg; i++)
		x.seg[i] = (struct uccl_seg){ .addr = msg->rma_iov[i].addr, .len = msg->rma_iov[i].len,
					      .key = msg->rma_iov[i].key };
	t->f = handle(op->ep);
	return keep_rma(t, &x) ? 0 : -FI_EINVAL;
}

static int work_cntr(struct uccl_trigger *t, const struct fi_op_cntr *op, enum kind kind)
{
	t->kind = kind;
	t->target = uccl_container_of(op->cntr, struct uccl_cntr, fid);
	t->value = op->value;
	return 0;
}

static int work_fill(struct uccl_trigger *t, const struct fi_deferred_work *w)
{
	switch (w->op_type) {
	case FI_OP_SEND:
	case FI_OP_RECV:
		return work_msg(t, w->op.msg, w->op_type == FI_OP_RECV);
	case FI_OP_TSEND:
	case FI_OP_TRECV:
		return work_tagged(t, w->op.tagged, w->op_type == FI_OP_TRECV);
	case FI_OP_READ:
		return work_rma(t, w->op.rma, UCCL_OP_READ);
	case FI_OP_WRITE:
		return work_rma(t, w->op.rma, UCCL_OP_WRITE);
	case FI_OP_ATOMIC:
	case FI_OP_FETCH_ATOMIC:
	case FI_OP_COMPARE_ATOMIC:
		/* The program's structures are ours until it is done. */
		t->f = handle(w->op.atomic->ep);
		t->kind = ATOMIC;
		return 0;
	case FI_OP_CNTR_ADD:
		return work_cntr(t, w->op.cntr, CNTR_ADD);
	case FI_OP_CNTR_SET:
		return work_cntr(t, w->op.cntr, CNTR_SET);
	default:
		return -FI_ENOSYS;
	}
}

static int work_queue(struct uccl_domain *d, struct fi_deferred_work *w)
{
	struct uccl_trigger *t;
	int rc;

	if (!w->triggering_cntr)
		return -FI_EINVAL;
	t = trigger_new(w->triggering_cntr, w->threshold);
	if (!t)
		return -FI_ENOMEM;
	t->work = w;
	rc = work_fill(t, w);
	if (rc) {
		trigger_free(t);
		return rc;
	}
	t->x.done_cntr = t->rma.done_cntr = w->completion_cntr;
	if (t->target && w->completion_cntr) {
		trigger_free(t);
		return -FI_EINVAL;
	}
	trigger_arm(d, t);
	return 0;
}

int uccl_trigger_control(struct uccl_domain *d, int command, void *arg)
{
	switch (command) {
	case FI_QUEUE_WORK:
		return work_queue(d, arg);
	case FI_CANCEL_WORK:
		return remove_all(&d->triggers, arg, NULL) ? 0 : -FI_ENOENT;
	case FI_FLUSH_WORK:
		remove_all(&d->triggers, NULL, NULL);
		return 0;
	default:
		return -FI_ENOSYS;
	}
}
