/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* See trigger.h. */
#include "api/transfer/trigger.h"

#include <stdlib.h>
#include <string.h>

#include "api/event/cntr.h"
#include "api/object/domain.h"
#include "api/object/ep.h"

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

struct uccl_deferred *uccl_deferred_new(struct fid_cntr *fid, uint64_t threshold)
{
	struct uccl_cntr *cntr = uccl_cntr_of(&fid->fid);
	struct uccl_deferred *t = calloc(1, sizeof(*t));

	if (!t)
		return NULL;
	t->trigger.value = &cntr->good;
	t->trigger.refs = &cntr->refs;
	t->trigger.threshold = threshold;
	atomic_fetch_add(&cntr->refs, 1);
	return t;
}

void uccl_deferred_on(struct uccl_deferred *t, struct uccl_ep_fid *f)
{
	t->f = f;
	t->trigger.of = f->ep;
}

/* The counter and threshold that a call with FI_TRIGGER names by its context. */
static int trigger_of(struct uccl_ep_fid *f, void *context, struct uccl_deferred **out)
{
	struct fi_triggered_context *ctx = context;

	if (!ctx || ctx->event_type != FI_TRIGGER_THRESHOLD || !ctx->trigger.threshold.cntr)
		return -FI_EINVAL;
	*out = uccl_deferred_new(ctx->trigger.threshold.cntr, ctx->trigger.threshold.threshold);
	if (!*out)
		return -FI_ENOMEM;
	uccl_deferred_on(*out, f);
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

bool uccl_deferred_xfer(struct uccl_deferred *t, const struct uccl_xfer *x,
			ssize_t (*post)(struct uccl_ep_fid *f, const struct uccl_xfer *x))
{
	t->trigger.post = post_xfer;
	t->post_xfer = post;
	t->x = *x;
	t->x.flags &= ~FI_TRIGGER;
	t->x.iov = t->iov;
	t->x.desc = NULL; /* they are the caller's */
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

ssize_t uccl_trigger_xfer(struct uccl_ep_fid *f, const struct uccl_xfer *x,
			  ssize_t (*post)(struct uccl_ep_fid *f, const struct uccl_xfer *x))
{
	struct uccl_deferred *t;
	int rc = trigger_of(f, x->context, &t);

	return rc ? rc : trigger_begin(t, uccl_deferred_xfer(t, x, post));
}

ssize_t uccl_trigger_rma(struct uccl_ep_fid *f, const struct uccl_rma *x,
			 ssize_t (*post)(struct uccl_ep_fid *f, const struct uccl_rma *x))
{
	struct uccl_deferred *t;
	int rc = trigger_of(f, x->context, &t);

	return rc ? rc : trigger_begin(t, uccl_deferred_rma(t, x, post));
}
