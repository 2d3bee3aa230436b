/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* See poll.h. Deprecated by libfabric 2.x, used by programs written for 1.x. */
#include "api/event/poll.h"

#include <pthread.h>
#include <stdlib.h>

#include "api/event/cntr.h"
#include "api/event/cq.h"
#include "api/lib/nosys.h"
#include "api/object/domain.h"

struct poll_set {
	struct fid_poll fid;
	struct uccl_domain *domain;
	pthread_mutex_t lock;
	struct fid **v;
	size_t n;
};

static struct poll_set *set_of(struct fid *fid)
{
	return uccl_container_of(fid, struct poll_set, fid.fid);
}

/* The count of references of what can be in a set; NULL: it cannot. */
static _Atomic int *refs_of(struct fid *fid)
{
	if (fid->fclass == FI_CLASS_CQ)
		return &uccl_cq_of(fid)->refs;
	if (fid->fclass == FI_CLASS_CNTR)
		return &uccl_cntr_of(fid)->refs;
	return NULL;
}

static bool has_event(struct fid *fid)
{
	struct uccl_cntr *c;
	uint64_t now;

	if (fid->fclass == FI_CLASS_CQ)
		return uccl_cq_ready(uccl_cq_of(fid));
	c = uccl_cntr_of(fid);
	now = fi_cntr_read(&c->fid) + fi_cntr_readerr(&c->fid);
	if (now == c->seen)
		return false;
	c->seen = now;
	return true;
}

static int set_poll(struct fid_poll *fid, void **context, int count)
{
	struct poll_set *s = set_of(&fid->fid);
	int n = 0;

	pthread_mutex_lock(&s->lock);
	for (size_t i = 0; i < s->n && n < count; i++)
		if (has_event(s->v[i]))
			context[n++] = s->v[i]->context;
	pthread_mutex_unlock(&s->lock);
	return n;
}

static int set_add(struct fid_poll *fid, struct fid *event, uint64_t flags)
{
	struct poll_set *s = set_of(&fid->fid);
	_Atomic int *refs = refs_of(event);
	struct fid **v;

	if (!refs || flags)
		return -FI_EINVAL;
	pthread_mutex_lock(&s->lock);
	v = realloc(s->v, (s->n + 1) * sizeof(*v));
	if (v) {
		s->v = v;
		v[s->n++] = event;
		atomic_fetch_add(refs, 1);
	}
	pthread_mutex_unlock(&s->lock);
	return v ? 0 : -FI_ENOMEM;
}

static int set_del(struct fid_poll *fid, struct fid *event, uint64_t flags)
{
	struct poll_set *s = set_of(&fid->fid);
	int rc = -FI_EINVAL;

	(void)flags;
	pthread_mutex_lock(&s->lock);
	for (size_t i = 0; i < s->n && rc; i++) {
		if (s->v[i] != event)
			continue;
		s->v[i] = s->v[--s->n];
		atomic_fetch_sub(refs_of(event), 1);
		rc = 0;
	}
	pthread_mutex_unlock(&s->lock);
	return rc;
}

static int set_close(struct fid *fid)
{
	struct poll_set *s = set_of(fid);

	for (size_t i = 0; i < s->n; i++)
		atomic_fetch_sub(refs_of(s->v[i]), 1);
	atomic_fetch_sub(&s->domain->refs, 1);
	pthread_mutex_destroy(&s->lock);
	free(s->v);
	free(s);
	return 0;
}

static struct fi_ops set_fid_ops = UCCL_FID_OPS(set_close, uccl_no_bind, uccl_no_control);

static struct fi_ops_poll set_ops = {
	.size = sizeof(struct fi_ops_poll),
	.poll = set_poll,
	.poll_add = set_add,
	.poll_del = set_del,
};

int uccl_poll_open(struct fid_domain *domain, struct fi_poll_attr *attr, struct fid_poll **out)
{
	struct poll_set *s;

	if (attr && attr->flags)
		return -FI_EINVAL;
	s = calloc(1, sizeof(*s));
	if (!s)
		return -FI_ENOMEM;
	s->domain = uccl_domain_of(&domain->fid);
	pthread_mutex_init(&s->lock, NULL);
	s->fid.fid.fclass = FI_CLASS_POLL;
	s->fid.fid.ops = &set_fid_ops;
	s->fid.ops = &set_ops;
	atomic_fetch_add(&s->domain->refs, 1);
	*out = &s->fid;
	return 0;
}
