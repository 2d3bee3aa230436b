/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* See work.h. */
#include "api/transfer/work.h"

#include "api/event/cntr.h"
#include "api/transfer/atomic.h"
#include "api/transfer/flags.h"
#include "api/transfer/trigger.h"
#include "api/transfer/xfer.h"
#include "progress/thread.h"

static struct uccl_deferred *deferred(struct uccl_trigger *t)
{
	return uccl_container_of(t, struct uccl_deferred, trigger);
}

static ssize_t post_atomic(struct uccl_trigger *t)
{
	return uccl_atomic_work(t->work);
}

static ssize_t post_add(struct uccl_trigger *t)
{
	return fi_cntr_add(&deferred(t)->target->fid, deferred(t)->value);
}

static ssize_t post_set(struct uccl_trigger *t)
{
	return fi_cntr_set(&deferred(t)->target->fid, deferred(t)->value);
}

/* Its flags are those of the call that it stands for, posted later as with FI_TRIGGER. */
static int work_flags(enum uccl_call call, uint64_t flags)
{
	return uccl_flags_check(call, flags | FI_TRIGGER);
}

static int work_msg(struct uccl_deferred *t, const struct fi_op_msg *op, bool recv)
{
	const struct fi_msg *msg = &op->msg;
	struct uccl_xfer x = {
		.iov = msg->msg_iov, .count = msg->iov_count, .addr = msg->addr, .data = msg->data,
		.context = msg->context, .flags = op->flags | FI_MSG,
	};
	int rc = work_flags(recv ? UCCL_CALL_RECVMSG : UCCL_CALL_SENDMSG, op->flags);

	if (rc)
		return rc;
	if (recv)
		return uccl_deferred_xfer(t, &x, FI_RECV, uccl_xfer_recv) ? 0 : -FI_EINVAL;
	return uccl_deferred_xfer(t, &x, FI_SEND, uccl_xfer_send) ? 0 : -FI_EINVAL;
}

static int work_tagged(struct uccl_deferred *t, const struct fi_op_tagged *op, bool recv)
{
	const struct fi_msg_tagged *msg = &op->msg;
	struct uccl_xfer x = {
		.iov = msg->msg_iov, .count = msg->iov_count, .addr = msg->addr, .tag = msg->tag,
		.ignore = msg->ignore, .data = msg->data, .context = msg->context, .flags = op->flags | FI_TAGGED,
	};
	int rc = work_flags(recv ? UCCL_CALL_TRECVMSG : UCCL_CALL_TSENDMSG, op->flags);

	if (rc)
		return rc;
	if (recv)
		return uccl_deferred_xfer(t, &x, FI_RECV, uccl_xfer_recv) ? 0 : -FI_EINVAL;
	return uccl_deferred_xfer(t, &x, FI_SEND, uccl_xfer_send) ? 0 : -FI_EINVAL;
}

static int work_rma(struct uccl_deferred *t, const struct fi_op_rma *op, enum uccl_op_type type)
{
	const struct fi_msg_rma *msg = &op->msg;
	struct uccl_rma x = {
		.type = type, .iov = msg->msg_iov, .count = msg->iov_count, .addr = msg->addr, .data = msg->data,
		.context = msg->context, .flags = op->flags, .nseg = (uint8_t)msg->rma_iov_count,
	};

	int rc = work_flags(type == UCCL_OP_READ ? UCCL_CALL_READMSG : UCCL_CALL_WRITEMSG, op->flags);

	if (rc)
		return rc;
	if (msg->rma_iov_count > UCCL_SEG_MAX)
		return -FI_EINVAL;
	for (uint8_t i = 0; i < x.nseg; i++)
		x.seg[i] = (struct uccl_seg){ .addr = msg->rma_iov[i].addr, .len = msg->rma_iov[i].len,
					      .key = msg->rma_iov[i].key };
	return uccl_deferred_rma(t, &x, uccl_xfer_rma) ? 0 : -FI_EINVAL;
}

/* The program's structures are ours until it is done. */
static int work_atomic(struct uccl_deferred *t, const struct fi_deferred_work *w)
{
	t->trigger.post = post_atomic;
	t->end.op_context = w->op.atomic->msg.context;
	t->end.flags = FI_ATOMIC | (w->op_type == FI_OP_ATOMIC ? FI_WRITE : FI_READ);
	switch (w->op_type) {
	case FI_OP_FETCH_ATOMIC:
		return work_flags(UCCL_CALL_FETCHMSG, w->op.fetch_atomic->flags);
	case FI_OP_COMPARE_ATOMIC:
		return work_flags(UCCL_CALL_COMPAREMSG, w->op.compare_atomic->flags);
	default:
		return work_flags(UCCL_CALL_ATOMICMSG, w->op.atomic->flags);
	}
}

static int work_cntr(struct uccl_deferred *t, const struct uccl_domain *d, const struct fi_deferred_work *w,
		     ssize_t (*post)(struct uccl_trigger *t))
{
	/* It is done as soon as it is posted: nothing else is counted. */
	if (w->completion_cntr)
		return -FI_EINVAL;
	t->trigger.post = post;
	t->value = w->op.cntr->value;
	return uccl_deferred_target(t, d, w->op.cntr->cntr);
}

/* Endpoint and counters of the work, which is no work on counters alone. */
static int work_on(struct uccl_deferred *t, const struct uccl_domain *d, const struct fi_deferred_work *w)
{
	/* The endpoint is the first field of each. */
	int rc = uccl_deferred_on(t, d, w->op.msg->ep);

	/* A shared receive context counts nothing of its own. */
	if (!rc && w->completion_cntr && t->f->srx)
		rc = -FI_ENOSYS;
	if (!rc && w->completion_cntr)
		rc = uccl_deferred_target(t, d, w->completion_cntr);
	t->x.done_cntr = t->rma.done_cntr = w->completion_cntr;
	return rc;
}

static int work_fill(struct uccl_deferred *t, const struct fi_deferred_work *w)
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
		return work_atomic(t, w);
	default:
		return -FI_ENOSYS;
	}
}

static int work_read(struct uccl_deferred *t, const struct uccl_domain *d, const struct fi_deferred_work *w)
{
	int rc;

	if (w->op_type == FI_OP_CNTR_ADD)
		return work_cntr(t, d, w, post_add);
	if (w->op_type == FI_OP_CNTR_SET)
		return work_cntr(t, d, w, post_set);
	rc = work_fill(t, w);
	return rc ? rc : work_on(t, d, w);
}

static int work_queue(struct uccl_domain *d, struct fi_deferred_work *w)
{
	struct uccl_deferred *t;
	int rc;

	if (!w->triggering_cntr || uccl_cntr_of(&w->triggering_cntr->fid)->domain != d)
		return -FI_EINVAL;
	t = uccl_deferred_new(w->triggering_cntr, w->threshold);
	if (!t)
		return -FI_ENOMEM;
	t->trigger.work = w;
	rc = work_read(t, d, w);
	if (rc) {
		uccl_trigger_free(&t->trigger);
		return rc;
	}
	uccl_triggers_arm(&d->triggers, &t->trigger);
	return 0;
}

int uccl_work_control(struct uccl_domain *d, int command, void *arg)
{
	if (d->forks != uccl_forks)
		return -FI_EOPBADSTATE;
	switch (command) {
	case FI_QUEUE_WORK:
		return work_queue(d, arg);
	case FI_CANCEL_WORK:
		return uccl_triggers_cancel(&d->triggers, arg) ? 0 : -FI_ENOENT;
	case FI_FLUSH_WORK:
		uccl_triggers_flush(&d->triggers);
		return 0;
	default:
		return -FI_ENOSYS;
	}
}
