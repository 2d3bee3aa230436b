/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* See waitset.h. Members keep their own wait objects, which the set's one watches. */
#include "api/event/waitset.h"

#include <poll.h>
#include <pthread.h>
#include <stdlib.h>

#include "api/lib/nosys.h"
#include "api/object/fabric.h"

struct member {
	struct fid *fid;
	struct uccl_waitobj *wait;
};

struct uccl_waitset {
	struct fid_wait fid;
	struct uccl_fabric *fabric;
	struct uccl_waitobj wait;
	pthread_mutex_t lock; /* of what follows; taken before all others */
	struct member *v;
	size_t n;
};

static struct uccl_waitset *set_of(struct fid *fid)
{
	return uccl_container_of(fid, struct uccl_waitset, fid.fid);
}

static int member_add(struct uccl_waitset *s, struct uccl_waitobj *w, struct fid *fid)
{
	struct member *v;
	int rc = -FI_ENOMEM;

	pthread_mutex_lock(&s->lock);
	v = realloc(s->v, (s->n + 1) * sizeof(*v));
	if (v) {
		s->v = v;
		rc = uccl_wait_add(&s->wait.w, w->w.epfd);
	}
	if (!rc)
		s->v[s->n++] = (struct member){ .fid = fid, .wait = w };
	pthread_mutex_unlock(&s->lock);
	return rc;
}

int uccl_waitset_add(struct uccl_waitobj *w, enum fi_wait_obj obj, struct fid_wait *set, struct fid *member)
{
	int rc = uccl_waitobj_open(w, obj == FI_WAIT_SET && set ? FI_WAIT_FD : obj);

	if (rc || obj != FI_WAIT_SET)
		return rc;
	rc = member_add(set_of(&set->fid), w, member);
	if (rc) {
		uccl_waitobj_close(w);
		return rc;
	}
	w->set = set_of(&set->fid);
	/* Its own descriptor is not for the program. */
	w->obj = FI_WAIT_SET;
	return 0;
}

void uccl_waitset_remove(struct uccl_waitobj *w)
{
	struct uccl_waitset *s = w->set;

	if (s) {
		pthread_mutex_lock(&s->lock);
		uccl_wait_remove(&s->wait.w, w->w.epfd);
		for (size_t i = 0; i < s->n; i++) {
			if (s->v[i].wait == w) {
				s->v[i] = s->v[--s->n];
				break;
			}
		}
		pthread_mutex_unlock(&s->lock);
	}
	uccl_waitobj_close(w);
}

int uccl_waitset_trywait(struct fid_wait *set)
{
	struct uccl_waitset *s = set_of(&set->fid);
	int rc = 0;

	pthread_mutex_lock(&s->lock);
	for (size_t i = 0; i < s->n && !rc; i++) {
		/* What it reported before is checked again. */
		uccl_wait_leave_outside(&s->v[i].wait->w);
		rc = fi_trywait(&s->fabric->fid, &s->v[i].fid, 1);
	}
	pthread_mutex_unlock(&s->lock);
	return rc;
}

static void set_awake(struct uccl_waitset *s)
{
	pthread_mutex_lock(&s->lock);
	for (size_t i = 0; i < s->n; i++)
		uccl_wait_leave_outside(&s->v[i].wait->w);
	pthread_mutex_unlock(&s->lock);
}

static int set_wait(struct fid_wait *fid, int timeout)
{
	uint64_t until = timeout < 0 ? UCCL_NEVER : uccl_clock() + timeout * UCCL_NS_PER_MS;
	struct uccl_waitset *s = set_of(&fid->fid);
	int rc;

	while (!(rc = uccl_waitset_trywait(fid))) {
		if (until != UCCL_NEVER && uccl_clock() >= until)
			break;
		uccl_wait_sleep(&s->wait.w, until);
	}
	set_awake(s);
	return rc == -FI_EAGAIN ? 0 : rc ? rc : -FI_ETIMEDOUT;
}

static int set_close(struct fid *fid)
{
	struct uccl_waitset *s = set_of(fid);

	if (s->n)
		return -FI_EBUSY;
	atomic_fetch_sub(&s->fabric->refs, 1);
	uccl_waitobj_close(&s->wait);
	pthread_mutex_destroy(&s->lock);
	free(s->v);
	free(s);
	return 0;
}

static int set_control(struct fid *fid, int command, void *arg)
{
	return uccl_waitobj_control(&set_of(fid)->wait, command, arg);
}

static struct fi_ops set_fid_ops = UCCL_FID_OPS(set_close, uccl_no_bind, set_control);

static struct fi_ops_wait set_ops = {
	.size = sizeof(struct fi_ops_wait),
	.wait = set_wait,
};

int uccl_waitset_open(struct fid_fabric *fabric, struct fi_wait_attr *attr, struct fid_wait **out)
{
	enum fi_wait_obj obj = attr ? attr->wait_obj : FI_WAIT_UNSPEC;
	struct uccl_waitset *s;
	int rc;

	if ((attr && attr->flags) || obj == FI_WAIT_NONE)
		return -FI_EINVAL;
	s = calloc(1, sizeof(*s));
	if (!s)
		return -FI_ENOMEM;
	rc = uccl_waitobj_open(&s->wait, obj);
	if (rc) {
		free(s);
		return rc;
	}
	s->fabric = uccl_fabric_of(&fabric->fid);
	pthread_mutex_init(&s->lock, NULL);
	s->fid.fid.fclass = FI_CLASS_WAIT;
	s->fid.fid.ops = &set_fid_ops;
	s->fid.ops = &set_ops;
	atomic_fetch_add(&s->fabric->refs, 1);
	*out = &s->fid;
	return 0;
}
