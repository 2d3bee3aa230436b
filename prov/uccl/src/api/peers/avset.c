/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* See avset.h. A member is in a set once. */
#include "api/peers/avset.h"

#include <rdma/fi_errno.h>
#include <stdlib.h>
#include <string.h>

#include "api/lib/nosys.h"
#include "api/peers/av.h"

static size_t find(const struct uccl_avset *s, fi_addr_t addr)
{
	size_t i = 0;

	while (i < s->n && s->v[i] != addr)
		i++;
	return i;
}

static int append(struct uccl_avset *s, fi_addr_t addr)
{
	if (find(s, addr) < s->n)
		return 0;
	if (s->n == s->cap) {
		size_t cap = s->cap ? 2 * s->cap : 16;
		fi_addr_t *v = realloc(s->v, cap * sizeof(*v));

		if (!v)
			return -FI_ENOMEM;
		s->v = v;
		s->cap = cap;
	}
	s->v[s->n++] = addr;
	return 0;
}

fi_addr_t *uccl_avset_members(struct uccl_avset *s, size_t *n)
{
	fi_addr_t *v;

	pthread_mutex_lock(&s->lock);
	*n = s->n;
	v = malloc((s->n + 1) * sizeof(*v));
	if (v && s->n)
		memcpy(v, s->v, s->n * sizeof(*v));
	pthread_mutex_unlock(&s->lock);
	return v;
}

static int set_union(struct fid_av_set *dst, const struct fid_av_set *src)
{
	struct uccl_avset *s = uccl_avset_of(&dst->fid);
	size_t n;
	fi_addr_t *v = uccl_avset_members(uccl_avset_of(&src->fid), &n);
	int rc = v ? 0 : -FI_ENOMEM;

	pthread_mutex_lock(&s->lock);
	for (size_t i = 0; !rc && i < n; i++)
		rc = append(s, v[i]);
	pthread_mutex_unlock(&s->lock);
	free(v);
	return rc;
}

/* Keep the members whose address is in `src`, or the others. */
static int filter(struct fid_av_set *dst, const struct fid_av_set *src, bool has)
{
	struct uccl_avset *s = uccl_avset_of(&dst->fid), other = { 0 };
	size_t n = 0;

	other.v = uccl_avset_members(uccl_avset_of(&src->fid), &other.n);
	if (!other.v)
		return -FI_ENOMEM;
	pthread_mutex_lock(&s->lock);
	for (size_t i = 0; i < s->n; i++)
		if ((find(&other, s->v[i]) < other.n) == has)
			s->v[n++] = s->v[i];
	s->n = n;
	pthread_mutex_unlock(&s->lock);
	free(other.v);
	return 0;
}

static int set_intersect(struct fid_av_set *dst, const struct fid_av_set *src)
{
	return filter(dst, src, true);
}

static int set_diff(struct fid_av_set *dst, const struct fid_av_set *src)
{
	return filter(dst, src, false);
}

static int set_insert(struct fid_av_set *fid, fi_addr_t addr)
{
	struct uccl_avset *s = uccl_avset_of(&fid->fid);
	struct uccl_addr known;
	int rc = uccl_av_get(s->av, addr, &known);

	if (rc)
		return rc;
	pthread_mutex_lock(&s->lock);
	rc = append(s, addr);
	pthread_mutex_unlock(&s->lock);
	return rc;
}

static int set_remove(struct fid_av_set *fid, fi_addr_t addr)
{
	struct uccl_avset *s = uccl_avset_of(&fid->fid);
	int rc = -FI_EINVAL;
	size_t i;

	pthread_mutex_lock(&s->lock);
	i = find(s, addr);
	if (i < s->n) {
		memmove(s->v + i, s->v + i + 1, (--s->n - i) * sizeof(*s->v));
		rc = 0;
	}
	pthread_mutex_unlock(&s->lock);
	return rc;
}

/* The name of the set as it is now. A join has to pass the set, too. */
static int set_addr(struct fid_av_set *fid, fi_addr_t *coll_addr)
{
	*coll_addr = (uintptr_t)fid;
	return 0;
}

static int set_close(struct fid *fid)
{
	struct uccl_avset *s = uccl_avset_of(fid);

	atomic_fetch_sub(&s->av->refs, 1);
	pthread_mutex_destroy(&s->lock);
	free(s->v);
	free(s);
	return 0;
}

static struct fi_ops set_fid_ops = UCCL_FID_OPS(set_close, uccl_no_bind, uccl_no_control);

static struct fi_ops_av_set set_ops = {
	.size = sizeof(struct fi_ops_av_set),
	.set_union = set_union,
	.intersect = set_intersect,
	.diff = set_diff,
	.insert = set_insert,
	.remove = set_remove,
	.addr = set_addr,
};

/* Every stride-th handle of the range that is an address. Handles beyond the vector's end are none. */
static int set_range(struct uccl_avset *s, const struct fi_av_set_attr *attr)
{
	fi_addr_t end = uccl_av_end(s->av);
	struct uccl_addr known;
	int rc = 0;

	end = attr->end_addr < end ? attr->end_addr + 1 : end;
	for (fi_addr_t a = attr->start_addr; !rc && a < end; a += attr->stride) {
		if (!uccl_av_get(s->av, a, &known))
			rc = append(s, a);
		if (attr->stride > end - a)
			break;
	}
	return rc;
}

int uccl_avset_open(struct fid_av *av, struct fi_av_set_attr *attr, struct fid_av_set **out, void *context)
{
	struct uccl_avset *s;
	int rc = 0;

	if (!attr || attr->comm_key_size || attr->flags)
		return -FI_EINVAL;
	if (attr->start_addr != FI_ADDR_NOTAVAIL && (!attr->stride || attr->end_addr == FI_ADDR_NOTAVAIL))
		return -FI_EINVAL;
	s = calloc(1, sizeof(*s));
	if (!s)
		return -FI_ENOMEM;
	s->av = uccl_av_of(&av->fid);
	if (attr->start_addr != FI_ADDR_NOTAVAIL)
		rc = set_range(s, attr);
	if (rc) {
		free(s->v);
		free(s);
		return rc;
	}
	pthread_mutex_init(&s->lock, NULL);
	s->fid.fid.fclass = FI_CLASS_AV_SET;
	s->fid.fid.context = context;
	s->fid.fid.ops = &set_fid_ops;
	s->fid.ops = &set_ops;
	atomic_fetch_add(&s->av->refs, 1);
	*out = &s->fid;
	return 0;
}
