/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* See trigger.h. */
#include "api/transfer/trigger.h"

#include <stdlib.h>
#include <string.h>

#include "api/event/cntr.h"
#include "api/event/cq.h"
#include "api/object/domain.h"
#include "api/object/ep_object.h"
#include "api/transfer/srx.h"

static ssize_t post_xfer(struct uccl_trigger *trigger)
{
	struct uccl_deferred *t = uccl_container_of(trigger, struct uccl_deferred, trigger);

	return t->post_xfer(t->f, &t->x);
}

static ssize_t post_rma(struct uccl_trigger *trigger)
{
	struct uccl_deferred *t = uccl_container_of(trigger, struct uccl_deferred, trigger);

	return t->post_rma(t->f, &t->rma);
}

/*
 * The post was accepted long ago, so an error of posting is reported as the end of the operation. A shared receive
 * context has no queue of its own.
 */
static void deferred_fail(struct uccl_trigger *trigger, int err)
{
	static const struct {
		uint64_t flag;
		enum uccl_cntr_slot slot;
	} slots[] = {
		{ FI_SEND, UCCL_CNTR_SEND }, { FI_RECV, UCCL_CNTR_RECV },
		{ FI_READ, UCCL_CNTR_READ }, { FI_WRITE, UCCL_CNTR_WRITE },
	};
	struct uccl_deferred *t = uccl_container_of(trigger, struct uccl_deferred, trigger);
	struct uccl_ep *ep = t->f->ep;
	struct uccl_cq *cq = !ep ? NULL : t->end.flags & FI_RECV ? ep->bound.rx_cq : ep->bound.tx_cq;

	if (cq)
		uccl_cq_push_error(cq, ep, &t->end, err, 0, "the triggered operation cannot be posted");
	for (size_t i = 0; ep && i < uccl_array_len(slots); i++)
		if (t->end.flags & slots[i].flag && ep->bound.cntr[slots[i].slot])
			uccl_cntr_count(ep->bound.cntr[slots[i].slot], false);
	if (t->target)
		uccl_cntr_count(t->target, false);
}

static void deferred_drop(struct uccl_trigger *trigger)
{
	struct uccl_deferred *t = uccl_container_of(trigger, struct uccl_deferred, trigger);

	if (t->target)
		atomic_fetch_sub(&t->target->refs, 1);
}

struct uccl_deferred *uccl_deferred_new(struct fid_cntr *fid, uint64_t threshold)
{
	struct uccl_cntr *cntr = uccl_cntr_of(&fid->fid);
	struct uccl_deferred *t = calloc(1, sizeof(*t));

	if (!t)
		return NULL;
	t->trigger.drop = deferred_drop;
	t->trigger.value = &cntr->good;
	t->trigger.refs = &cntr->refs;
	t->trigger.threshold = threshold;
	atomic_fetch_add(&cntr->refs, 1);
	return t;
}

int uccl_deferred_on(struct uccl_deferred *t, const struct uccl_domain *d, struct fid_ep *ep)
{
	struct uccl_ep_fid *f = ep ? uccl_ep_fid_of(&ep->fid) : NULL;

	if (!ep || (ep->fid.fclass != FI_CLASS_EP && ep->fid.fclass != FI_CLASS_TX_CTX &&
		    ep->fid.fclass != FI_CLASS_RX_CTX && ep->fid.fclass != FI_CLASS_SRX_CTX))
		return -FI_EINVAL;
	if ((f->srx ? f->srx->domain : f->ep->domain) != d)
		return -FI_EINVAL;
	t->f = f;
	t->trigger.of = f->ep;
	t->trigger.via = f;
	t->trigger.fail = deferred_fail;
	return 0;
}

int uccl_deferred_target(struct uccl_deferred *t, const struct uccl_domain *d, struct fid_cntr *cntr)
{
	if (uccl_cntr_of(&cntr->fid)->domain != d)
		return -FI_EINVAL;
	t->target = uccl_cntr_of(&cntr->fid);
	atomic_fetch_add(&t->target->refs, 1);
	return 0;
}

/* The counter and threshold that a call with FI_TRIGGER names by its context. */
static int trigger_of(struct uccl_ep_fid *f, void *context, struct uccl_deferred **out)
{
	struct fi_triggered_context *ctx = context;

	if (!ctx || ctx->event_type != FI_TRIGGER_THRESHOLD || !ctx->trigger.threshold.cntr)
		return -FI_EINVAL;
	/* A change of a counter of another domain does not run the operations that wait in this one. */
	if (uccl_cntr_of(&ctx->trigger.threshold.cntr->fid)->domain != f->ep->domain)
		return -FI_EINVAL;
	*out = uccl_deferred_new(ctx->trigger.threshold.cntr, ctx->trigger.threshold.threshold);
	return *out ? uccl_deferred_on(*out, f->ep->domain, &f->fid) : -FI_ENOMEM;
}

static bool keep_iov(struct iovec *to, const struct iovec *from, size_t n)
{
	if (n > UCCL_IOV_MAX)
		return false;
	if (n)
		memcpy(to, from, n * sizeof(*to));
	return true;
}

bool uccl_deferred_xfer(struct uccl_deferred *t, const struct uccl_xfer *x, uint64_t way,
			ssize_t (*post)(struct uccl_ep_fid *f, const struct uccl_xfer *x))
{
	t->trigger.post = post_xfer;
	t->post_xfer = post;
	t->x = *x;
	t->x.flags &= ~FI_TRIGGER;
	t->x.iov = t->iov;
	t->x.desc = NULL; /* they are the caller's */
	t->end.op_context = x->context;
	t->end.flags = way | (x->flags & (FI_TAGGED | FI_MSG));
	t->end.tag = way & FI_RECV && x->flags & FI_TAGGED ? x->tag : 0;
	return keep_iov(t->iov, x->iov, x->count);
}

bool uccl_deferred_rma(struct uccl_deferred *t, const struct uccl_rma *x,
		       ssize_t (*post)(struct uccl_ep_fid *f, const struct uccl_rma *x))
{
	t->trigger.post = post_rma;
	t->post_rma = post;
	t->rma = *x;
	t->rma.flags &= ~FI_TRIGGER;
	t->rma.iov = t->iov;
	t->rma.desc = NULL;
	t->end.op_context = x->context;
	t->end.flags = (x->args ? FI_ATOMIC : FI_RMA) |
		       (x->type == UCCL_OP_WRITE || x->type == UCCL_OP_ATOMIC ? FI_WRITE : FI_READ);
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

/* Its arguments were kept, or were too many. */
static ssize_t trigger_begin(struct uccl_deferred *t, bool kept)
{
	if (!kept) {
		uccl_trigger_free(&t->trigger);
		return -FI_EINVAL;
	}
	uccl_triggers_arm(&t->f->ep->domain->triggers, &t->trigger);
	return 0;
}

ssize_t uccl_trigger_xfer(struct uccl_ep_fid *f, const struct uccl_xfer *x, uint64_t way,
			  ssize_t (*post)(struct uccl_ep_fid *f, const struct uccl_xfer *x))
{
	struct uccl_deferred *t;
	int rc = trigger_of(f, x->context, &t);

	return rc ? rc : trigger_begin(t, uccl_deferred_xfer(t, x, way, post));
}

ssize_t uccl_trigger_rma(struct uccl_ep_fid *f, const struct uccl_rma *x,
			 ssize_t (*post)(struct uccl_ep_fid *f, const struct uccl_rma *x))
{
	struct uccl_deferred *t;
	int rc = trigger_of(f, x->context, &t);

	return rc ? rc : trigger_begin(t, uccl_deferred_rma(t, x, post));
}
