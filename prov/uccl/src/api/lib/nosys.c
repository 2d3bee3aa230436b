/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* See nosys.h. */
#include "api/lib/nosys.h"

#include <rdma/fi_errno.h>

/* No stub uses its arguments. */
#pragma GCC diagnostic ignored "-Wunused-parameter"

int uccl_no_bind(struct fid *fid, struct fid *bfid, uint64_t flags)
{
	return -FI_ENOSYS;
}

int uccl_no_control(struct fid *fid, int command, void *arg)
{
	return -FI_ENOSYS;
}

int uccl_no_ops_open(struct fid *fid, const char *name, uint64_t flags, void **ops, void *context)
{
	return -FI_ENOSYS;
}

int uccl_no_ops_set(struct fid *fid, const char *name, uint64_t flags, void *ops, void *context)
{
	return -FI_ENOSYS;
}

int uccl_no_tostr(const struct fid *fid, char *buf, size_t len)
{
	if (len)
		buf[0] = '\0';
	return -FI_ENOSYS;
}

int uccl_no_xpu_ctx(struct fid_domain *domain, struct fi_xpu_attr *attr, struct fid_xpu_ctx **ctx, void *context)
{
	return -FI_ENOSYS;
}

int uccl_no_xpu_ep(struct fid_ep *ep, uint64_t flags, struct fid_xpu_ep *out)
{
	return -FI_ENOSYS;
}

int uccl_no_xpu_cq(struct fid_cq *cq, uint64_t flags, struct fid_xpu_cq *out)
{
	return -FI_ENOSYS;
}

int uccl_no_xpu_cntr(struct fid_cntr *cntr, uint64_t flags, struct fid_xpu_cntr *out)
{
	return -FI_ENOSYS;
}

int uccl_no_tx_ctx(struct fid_ep *sep, int index, struct fi_tx_attr *attr, struct fid_ep **tx_ep, void *context)
{
	return -FI_ENOSYS;
}

int uccl_no_rx_ctx(struct fid_ep *sep, int index, struct fi_rx_attr *attr, struct fid_ep **rx_ep, void *context)
{
	return -FI_ENOSYS;
}

int uccl_no_getpeer(struct fid_ep *ep, void *addr, size_t *addrlen)
{
	return -FI_ENOSYS;
}

int uccl_no_connect(struct fid_ep *ep, const void *addr, const void *param, size_t paramlen)
{
	return -FI_ENOSYS;
}

int uccl_no_listen(struct fid_pep *pep)
{
	return -FI_ENOSYS;
}

int uccl_no_accept(struct fid_ep *ep, const void *param, size_t paramlen)
{
	return -FI_ENOSYS;
}

int uccl_no_reject(struct fid_pep *pep, fid_t handle, const void *param, size_t paramlen)
{
	return -FI_ENOSYS;
}

int uccl_no_shutdown(struct fid_ep *ep, uint64_t flags)
{
	return -FI_ENOSYS;
}

static int no_join(struct fid_ep *ep, const void *addr, uint64_t flags, struct fid_mc **mc, void *context)
{
	return -FI_ENOSYS;
}

static int no_name(fid_t fid, void *addr, size_t *addrlen)
{
	return -FI_ENOSYS;
}

static int no_setname(fid_t fid, void *addr, size_t addrlen)
{
	return -FI_ENOSYS;
}

struct fi_ops_cm uccl_no_cm_ops = {
	.size = sizeof(struct fi_ops_cm),
	.setname = no_setname,
	.getname = no_name,
	.getpeer = uccl_no_getpeer,
	.connect = uccl_no_connect,
	.listen = uccl_no_listen,
	.accept = uccl_no_accept,
	.reject = uccl_no_reject,
	.shutdown = uccl_no_shutdown,
	.join = no_join,
};

static ssize_t no_cancel(fid_t fid, void *context)
{
	return -FI_ENOSYS;
}

static int no_getopt(fid_t fid, int level, int optname, void *optval, size_t *optlen)
{
	return -FI_ENOPROTOOPT;
}

static int no_setopt(fid_t fid, int level, int optname, const void *optval, size_t optlen)
{
	return -FI_ENOPROTOOPT;
}

ssize_t uccl_no_size_left(struct fid_ep *ep)
{
	return -FI_ENOSYS;
}

struct uccl_ops_ep uccl_no_ep_ops = {
	.known = {
		.size = sizeof(struct uccl_ops_ep),
		.cancel = no_cancel,
		.getopt = no_getopt,
		.setopt = no_setopt,
		.tx_ctx = uccl_no_tx_ctx,
		.rx_ctx = uccl_no_rx_ctx,
		.rx_size_left = uccl_no_size_left,
		.tx_size_left = uccl_no_size_left,
	},
	UCCL_XPU_ENTRY(export_xpu, uccl_no_xpu_ep),
};
