/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * See mr.h. Keys of regions that peers may reach are unique in their domain; those of local regions mean nothing, and
 * programs that use no RMA give them all the same key.
 */
#include "api/memory/mr.h"

#include <rdma/fi_ext_uccl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "api/event/cntr.h"
#include "api/lib/nosys.h"
#include "api/lib/oldnames.h"
#include "api/memory/device.h"
#include "api/memory/revoke.h"
#include "api/object/domain.h"
#include "api/object/ep_object.h"
#include "api/offer/attr.h"
#include "api/offer/place.h"
#include "api/peers/lookup.h"
#include "progress/thread.h"

#define REMOTE_ACCESS (FI_REMOTE_READ | FI_REMOTE_WRITE)
/* Flags of libfabric versions after 1.17. */
#define MR_DMABUF (1ull << 40)

/* What mr_iov points to then. */
struct mr_dmabuf {
	int fd;
	uint64_t offset;
	size_t len;
	void *base_addr;
};

/* A larger region stands for all addresses. Most of them are not mapped. */
#define SPARSE_BYTES (1ull << 40)

/*
 * After this no engine of the domain reads or writes the region, or this part of it, for peers. -FI_EOPBADSTATE: a
 * part, in a forked child.
 */
static int mr_quiet(struct uccl_mr *mr, const struct uccl_revoke *part)
{
	struct uccl_domain *d = mr->domain;

	/* In a forked child the endpoints are the parent's, and their locks may be held for ever. */
	if (d->forks != uccl_forks)
		return part ? -FI_EOPBADSTATE : 0;
	uccl_lock_take(&d->all.lock);
	for (unsigned int i = 0; i < d->all.n; i++) {
		struct uccl_driver *driver = d->all.v[i];

		uccl_driver_lock(driver);
		uccl_engine_revoke(driver->engine, mr, part, uccl_clock());
		uccl_driver_unlock(driver);
	}
	uccl_lock_give(&d->all.lock);
	return 0;
}

/* After this no engine of the domain reads or writes the region, and no peer finds it. */
static void mr_leave(struct uccl_mr *mr)
{
	struct uccl_domain *d = mr->domain;

	if (!mr->entered)
		return;
	pthread_mutex_lock(&d->mr_lock);
	HASH_DEL(d->mrs, mr);
	mr->entered = false;
	pthread_mutex_unlock(&d->mr_lock);
	mr_quiet(mr, NULL);
}

static int mr_close(struct fid *fid)
{
	struct uccl_mr *mr = uccl_mr_of(fid);

	mr_leave(mr);
	for (int i = 0; i < 2; i++)
		if (mr->cntr[i])
			atomic_fetch_sub(&mr->cntr[i]->refs, 1);
	if (mr->given)
		uccl_dmabufs_take(&mr->domain->dmabufs, mr->given);
	atomic_fetch_sub(&mr->domain->refs, 1);
	uccl_mr_revoked_free(mr->revoked);
	free(mr);
	return 0;
}

static int mr_bind_cntr(struct uccl_mr *mr, struct uccl_cntr *cntr, uint64_t flags)
{
	struct uccl_domain *d = mr->domain;

	if (cntr->domain != d || !flags || flags & ~REMOTE_ACCESS)
		return -FI_EINVAL;
	pthread_mutex_lock(&d->mr_lock);
	for (int i = 0; i < 2; i++) {
		if (!(flags & (i ? FI_REMOTE_WRITE : FI_REMOTE_READ)))
			continue;
		if (mr->cntr[i])
			atomic_fetch_sub(&mr->cntr[i]->refs, 1);
		mr->cntr[i] = cntr;
		atomic_fetch_add(&cntr->refs, 1);
	}
	pthread_mutex_unlock(&d->mr_lock);
	uccl_cntr_of_mr(cntr);
	return 0;
}

/* Endpoints are taken as an offer that we do not need. */
static int mr_bind(struct fid *fid, struct fid *bfid, uint64_t flags)
{
	struct uccl_mr *mr = uccl_mr_of(fid);

	if (bfid->fclass == FI_CLASS_EP || bfid->fclass == FI_CLASS_SEP || bfid->fclass == FI_CLASS_RX_CTX)
		return 0;
	if (bfid->fclass != FI_CLASS_CNTR)
		return -FI_EINVAL;
	return mr_bind_cntr(mr, uccl_cntr_of(bfid), flags);
}

static int mr_control(struct fid *fid, int command, void *arg)
{
	(void)fid;
	(void)arg;
	return command == FI_ENABLE || command == FI_REFRESH ? 0 : -FI_ENOSYS;
}

/* Nobody begins anything there, and then nothing that has begun goes on. */
static int mr_revoke(struct uccl_mr *mr, const struct uccl_revoke *part)
{
	struct uccl_domain *d = mr->domain;
	int rc;

	if (!mr->entered)
		return 0;
	pthread_mutex_lock(&d->mr_lock);
	rc = uccl_mr_revoked_add(&mr->revoked, part->from, part->addr - mr->base, part->len);
	pthread_mutex_unlock(&d->mr_lock);
	return rc ? rc : mr_quiet(mr, part);
}

static int ops_revoke(struct fid_mr *fid, uint64_t offset, uint64_t len)
{
	struct uccl_mr *mr = uccl_mr_of(&fid->fid);
	struct uccl_revoke part = {.key = fid->key, .addr = mr->base + offset, .len = len};

	if (!len || offset > mr->len || len > mr->len - offset)
		return -FI_EINVAL;
	return mr_revoke(mr, &part);
}

static int ops_revoke_peer(struct fid_mr *fid, struct fid_ep *ep_fid, fi_addr_t peer)
{
	struct uccl_mr *mr = uccl_mr_of(&fid->fid);
	struct uccl_ep *ep = uccl_ep_fid_of(&ep_fid->fid)->ep;
	struct uccl_nic_addr from;
	int rc = -FI_EOPBADSTATE;
	struct uccl_peer *p;

	if (ep->domain != mr->domain)
		return -FI_EINVAL;
	uccl_driver_lock(&ep->driver);
	if (ep->driver.engine && ep->bound.av)
		rc = uccl_ep_peer_lookup(ep, peer, false, &p);
	if (!rc)
		from = uccl_peer_addr(p)->nic;
	uccl_driver_unlock(&ep->driver);
	return rc ? rc : mr_revoke(mr, &(struct uccl_revoke){.key = fid->key, .from = &from});
}

static struct fi_uccl_ops_mr ops_mr = {
	.size = sizeof(struct fi_uccl_ops_mr),
	.revoke = ops_revoke,
	.revoke_peer = ops_revoke_peer,
};

static int mr_ops_open(struct fid *fid, const char *name, uint64_t flags, void **ops, void *context)
{
	(void)fid;
	(void)context;
	if (flags)
		return -FI_EINVAL;
	if (!name || strcmp(name, FI_UCCL_OPS_MR))
		return -FI_ENOSYS;
	*ops = &ops_mr;
	return 0;
}

static struct fi_ops mr_fid_ops = {
	.size = sizeof(struct fi_ops), .close = mr_close, .bind = mr_bind, .control = mr_control,
	.ops_open = mr_ops_open, .tostr = uccl_no_tostr, .ops_set = uccl_no_ops_set,
};

static struct uccl_mr *find_key(const struct uccl_domain *d, uint64_t key)
{
	struct uccl_mr *mr = NULL;

	HASH_FIND(hh, d->mrs, &key, sizeof(key), mr);
	return mr;
}

/* Give the region its key and, if peers may reach it, its place in the domain. */
static int mr_enter(struct uccl_domain *d, struct uccl_mr *mr, uint64_t key)
{
	int rc = 0;

	pthread_mutex_lock(&d->mr_lock);
	if (uccl_attr_mr_virtual(d->mr_mode))
		key = ++d->next_key;
	mr->fid.key = key;
	if (mr->access & REMOTE_ACCESS) {
		if (find_key(d, key)) {
			rc = -FI_ENOKEY;
		} else {
			HASH_ADD(hh, d->mrs, fid.key, sizeof(mr->fid.key), mr);
			mr->entered = mr->hh.tbl != NULL;
			rc = mr->entered ? 0 : -FI_ENOMEM;
		}
	}
	pthread_mutex_unlock(&d->mr_lock);
	return rc;
}

/* The pieces of [off, off + len), which lies inside. */
static int mr_pieces(const struct uccl_mr *mr, uint64_t off, uint64_t len, struct iovec *iov)
{
	int n = 0;

	for (size_t i = 0; i < mr->iov_count && len; i++) {
		uint64_t part;

		if (off >= mr->iov[i].iov_len) {
			off -= mr->iov[i].iov_len;
			continue;
		}
		part = uccl_min(len, mr->iov[i].iov_len - off);
		iov[n].iov_base = (void *)((uintptr_t)mr->iov[i].iov_base + off);
		iov[n++].iov_len = part;
		len -= part;
		off = 0;
	}
	return n;
}

/* Linux 5.14 has MADV_POPULATE_READ and _WRITE. It succeeds for any page of ours then. */
static bool can_populate(uintptr_t page)
{
	static _Atomic int known;

	if (!known) {
		uint8_t here = 0;

		known = madvise((void *)((uintptr_t)&here & ~(page - 1)), page, MADV_POPULATE_WRITE) ? -1 : 1;
	}
	return known > 0;
}

bool uccl_mr_sparse(const struct uccl_mr *mr)
{
	return mr->len >= SPARSE_BYTES && !mr->device;
}

/* Can these bytes be read, or written? A peer that names others must not end the process. */
static bool mapped(const struct iovec *iov, bool write)
{
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), start = (uintptr_t)iov->iov_base & ~(page - 1);
	size_t len = (uintptr_t)iov->iov_base + iov->iov_len - start;
	unsigned char there;

	if (len < iov->iov_len)
		return false;
	if (can_populate(page))
		return !madvise((void *)start, len, write ? MADV_POPULATE_WRITE : MADV_POPULATE_READ);
	/* What may be done with a page cannot be asked here, but each must be there. */
	for (uintptr_t at = start; at < start + len; at += page)
		if (mincore((void *)at, page, &there))
			return false;
	return true;
}

int uccl_mr_resolve(struct uccl_domain *d, const struct uccl_nic_addr *from, const struct uccl_seg *seg,
		    uint32_t access, bool devices, struct iovec *iov, void **region)
{
	uint64_t need = (access & UCCL_ACCESS_READ ? FI_REMOTE_READ : 0) |
			(access & UCCL_ACCESS_WRITE ? FI_REMOTE_WRITE : 0);
	struct uccl_mr *mr;
	bool sparse = false;
	uint64_t off;
	int rc;

	pthread_mutex_lock(&d->mr_lock);
	mr = find_key(d, seg->key);
	if (!mr) {
		rc = -UCCL_REFUSED_KEY;
	} else if (need & ~mr->access || (mr->device && !devices)) {
		rc = -UCCL_REFUSED_ACCESS;
	} else {
		off = seg->addr - mr->base;
		if (seg->addr < mr->base || off > mr->len || seg->len > mr->len - off)
			rc = -UCCL_REFUSED_RANGE;
		else if (mr->revoked && from && uccl_mr_is_revoked(mr->revoked, from, off, seg->len))
			rc = -UCCL_REFUSED_REVOKED;
		else
			rc = mr_pieces(mr, off, seg->len, iov);
		*region = mr;
		sparse = uccl_mr_sparse(mr);
	}
	pthread_mutex_unlock(&d->mr_lock);
	for (int i = 0; sparse && i < rc; i++)
		if (!mapped(&iov[i], access & UCCL_ACCESS_WRITE))
			return -UCCL_REFUSED_RANGE;
	return rc;
}

/* 1: all of it is memory of a device; 0: nothing is; -FI_EINVAL: some is. */
static int on_device(const struct uccl_domain *d, const struct iovec *iov, size_t count)
{
	const struct uccl_hmem_ops *hmem = d->hmem;
	size_t n = 0;

	for (size_t i = 0; hmem && i < count; i++)
		n += hmem->where(iov[i].iov_base) >= 0;
	return !n ? 0 : n == count ? 1 : -FI_EINVAL;
}

static int mr_open(struct fid *fid, const struct iovec *iov, size_t count, uint64_t access, uint64_t offset,
		   uint64_t key, uint64_t flags, struct fid_mr **out, void *context)
{
	struct uccl_domain *d = uccl_domain_of(fid);
	struct uccl_mr *mr;
	int rc, device;

	if (fid->fclass != FI_CLASS_DOMAIN || !iov || !count || count > UCCL_IOV_LIMIT)
		return -FI_EINVAL;
	if (flags & MR_DMABUF)
		return -FI_EOPNOTSUPP;
	device = on_device(d, iov, count);
	if (device < 0)
		return device;
	mr = calloc(1, sizeof(*mr));
	if (!mr)
		return -FI_ENOMEM;
	mr->domain = d;
	mr->device = device;
	for (size_t i = 0; device && i < count; i++)
		d->hmem->sync(iov[i].iov_base);
	mr->access = access;
	mr->offset = offset;
	mr->iov_count = count;
	memcpy(mr->iov, iov, count * sizeof(*iov));
	for (size_t i = 0; i < count; i++)
		mr->len += uccl_min(iov[i].iov_len, UINT64_MAX - mr->len);
	/* Pieces follow each other, whatever their own addresses are. */
	mr->base = uccl_attr_mr_virtual(d->mr_mode) ? (uintptr_t)iov[0].iov_base : offset;
	mr->fid.fid.fclass = FI_CLASS_MR;
	mr->fid.fid.context = context;
	mr->fid.fid.ops = &mr_fid_ops;
	mr->fid.mem_desc = mr;
	atomic_fetch_add(&d->refs, 1);
	rc = mr_enter(d, mr, key);
	if (rc) {
		atomic_fetch_sub(&d->refs, 1);
		free(mr);
		return rc;
	}
	*out = &mr->fid;
	return 0;
}

static int mr_reg(struct fid *fid, const void *buf, size_t len, uint64_t access, uint64_t offset, uint64_t key,
		  uint64_t flags, struct fid_mr **mr, void *context)
{
	struct iovec iov = { .iov_base = (void *)buf, .iov_len = len };

	return mr_open(fid, &iov, 1, access, offset, key, flags, mr, context);
}

/*
 * A region that is passed as a dmabuf is copied by its address; the descriptor is for NICs that write to devices. One
 * that has no address, or is not a device's, cannot be. Without such NICs the descriptor is not used.
 */
static int mr_dmabuf(struct fid *fid, const struct fi_mr_attr *attr, uint64_t flags, struct fid_mr **mr)
{
	struct uccl_domain *d = uccl_domain_of(fid);
	const struct mr_dmabuf *buf = (const void *)attr->mr_iov;
	struct iovec iov;
	int rc;

	if (!d->hmem)
		return -FI_EOPNOTSUPP;
	if (!buf || attr->iov_count != 1)
		return -FI_EINVAL;
	iov = (struct iovec){ .iov_base = (char *)buf->base_addr + buf->offset, .iov_len = buf->len };
	if (!buf->base_addr || on_device(d, &iov, 1) != 1)
		return -FI_EOPNOTSUPP;
	rc = mr_open(fid, &iov, 1, attr->access, attr->offset, attr->requested_key, flags & ~MR_DMABUF, mr,
		     attr->context);
	if (rc || !uccl_place_rdma(&d->params))
		return rc;
	rc = uccl_dmabufs_give(&d->dmabufs, iov.iov_base, iov.iov_len, buf->fd, buf->offset,
			       &uccl_mr_of(&(*mr)->fid)->given);
	if (rc)
		mr_close(&(*mr)->fid);
	return rc;
}

/* iface and the fields behind it are there for programs that have FI_HMEM; those of others are not read. */
static int iface_check(const struct uccl_domain *d, const struct fi_mr_attr *attr)
{
	if (!d->hmem || attr->iface == FI_HMEM_SYSTEM)
		return 0;
	if (attr->iface != FI_HMEM_CUDA)
		return -FI_EOPNOTSUPP;
	return attr->device.cuda >= 0 && attr->device.cuda < d->hmem->count() ? 0 : -FI_EINVAL;
}

/* The driver knows the kind of memory: programs name FI_HMEM_CUDA for pinned host memory, too. */
static int mr_regattr(struct fid *fid, const struct fi_mr_attr *attr, uint64_t flags, struct fid_mr **mr)
{
	struct uccl_domain *d = uccl_domain_of(fid);
	int rc = fid->fclass == FI_CLASS_DOMAIN ? iface_check(d, attr) : -FI_EINVAL;

	if (rc)
		return rc;
	if (flags & MR_DMABUF)
		return mr_dmabuf(fid, attr, flags, mr);
	return mr_open(fid, attr->mr_iov, attr->iov_count, attr->access, attr->offset, attr->requested_key, flags, mr,
		       attr->context);
}

struct fi_ops_mr uccl_mr_ops = {
	.size = sizeof(struct fi_ops_mr),
	.reg = mr_reg,
	.regv = mr_open,
	.regattr = mr_regattr,
};
