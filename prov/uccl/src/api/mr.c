/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * See mr.h. Keys of regions that peers may reach are unique in their domain; those of local regions mean nothing, and
 * programs that use no RMA give them all the same key.
 */
#include "api/mr.h"

#include <stdlib.h>
#include <string.h>

#include "api/domain.h"
#include "api/lib.h"
#include "api/nosys.h"

#define REMOTE_ACCESS (FI_REMOTE_READ | FI_REMOTE_WRITE)
/* Flags of libfabric versions after 1.17. */
#define MR_DMABUF (1ull << 40)

static int mr_close(struct fid *fid)
{
	struct uccl_mr *mr = uccl_container_of(fid, struct uccl_mr, fid.fid), **link;
	struct uccl_domain *d = mr->domain;

	pthread_mutex_lock(&d->mr_lock);
	for (link = &d->mrs; *link; link = &(*link)->next) {
		if (*link == mr) {
			*link = mr->next;
			break;
		}
	}
	pthread_mutex_unlock(&d->mr_lock);
	atomic_fetch_sub(&d->refs, 1);
	free(mr);
	return 0;
}

/* Endpoints are taken as an offer that we do not need; counters would count RMA, which is not there. */
static int mr_bind(struct fid *fid, struct fid *bfid, uint64_t flags)
{
	(void)fid;
	(void)flags;
	return bfid->fclass == FI_CLASS_EP ? 0 : bfid->fclass == FI_CLASS_CNTR ? -FI_ENOSYS : -FI_EINVAL;
}

static int mr_control(struct fid *fid, int command, void *arg)
{
	(void)fid;
	(void)arg;
	return command == FI_ENABLE || command == FI_REFRESH ? 0 : -FI_ENOSYS;
}

static struct fi_ops mr_fid_ops = {
	.size = sizeof(struct fi_ops),
	.close = mr_close,
	.bind = mr_bind,
	.control = mr_control,
	.ops_open = uccl_no_ops_open,
	.tostr = uccl_no_tostr,
	.ops_set = uccl_no_ops_set,
};

static struct uccl_mr *find_key(const struct uccl_domain *d, uint64_t key)
{
	for (struct uccl_mr *m = d->mrs; m; m = m->next)
		if (m->fid.key == key)
			return m;
	return NULL;
}

/* Give the region its key and, if peers may reach it, its place in the domain. */
static int mr_enter(struct uccl_domain *d, struct uccl_mr *mr, uint64_t key)
{
	int rc = 0;

	pthread_mutex_lock(&d->mr_lock);
	if (d->mr_mode & FI_MR_PROV_KEY || d->mr_mode == FI_MR_BASIC)
		key = ++d->next_key;
	mr->fid.key = key;
	if (mr->access & REMOTE_ACCESS) {
		if (find_key(d, key)) {
			rc = -FI_ENOKEY;
		} else {
			mr->next = d->mrs;
			d->mrs = mr;
		}
	}
	pthread_mutex_unlock(&d->mr_lock);
	return rc;
}

static int mr_open(struct fid *fid, const struct iovec *iov, size_t count, uint64_t access, uint64_t offset,
		   uint64_t key, uint64_t flags, struct fid_mr **out, void *context)
{
	struct uccl_domain *d = uccl_container_of(fid, struct uccl_domain, fid.fid);
	struct uccl_mr *mr;
	int rc;

	if (fid->fclass != FI_CLASS_DOMAIN || !iov || !count || count > UCCL_IOV_LIMIT)
		return -FI_EINVAL;
	if (flags & MR_DMABUF)
		return -FI_EOPNOTSUPP;
	mr = calloc(1, sizeof(*mr));
	if (!mr)
		return -FI_ENOMEM;
	mr->domain = d;
	mr->access = access;
	mr->offset = offset;
	mr->iov_count = count;
	memcpy(mr->iov, iov, count * sizeof(*iov));
	mr->fid.fid.fclass = FI_CLASS_MR;
	mr->fid.fid.context = context;
	mr->fid.fid.ops = &mr_fid_ops;
	mr->fid.mem_desc = mr;
	rc = mr_enter(d, mr, key);
	if (rc) {
		free(mr);
		return rc;
	}
	atomic_fetch_add(&d->refs, 1);
	*out = &mr->fid;
	return 0;
}

static int mr_reg(struct fid *fid, const void *buf, size_t len, uint64_t access, uint64_t offset, uint64_t key,
		  uint64_t flags, struct fid_mr **mr, void *context)
{
	struct iovec iov = { .iov_base = (void *)buf, .iov_len = len };

	return mr_open(fid, &iov, 1, access, offset, key, flags, mr, context);
}

/* iface and the fields behind it are not read: they exist only for programs that have FI_HMEM, which is not offered. */
static int mr_regattr(struct fid *fid, const struct fi_mr_attr *attr, uint64_t flags, struct fid_mr **mr)
{
	return mr_open(fid, attr->mr_iov, attr->iov_count, attr->access, attr->offset, attr->requested_key, flags, mr,
		       attr->context);
}

struct fi_ops_mr uccl_mr_ops = {
	.size = sizeof(struct fi_ops_mr),
	.reg = mr_reg,
	.regv = mr_open,
	.regattr = mr_regattr,
};
