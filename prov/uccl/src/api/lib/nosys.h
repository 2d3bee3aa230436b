/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Functions that return -FI_ENOSYS, for entries of libfabric's tables that the provider does not support. Programs call
 * most entries without a test for NULL, so no entry is NULL.
 */
#ifndef UCCL_API_NOSYS_H
#define UCCL_API_NOSYS_H

#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>

/* struct fi_ops */
int uccl_no_bind(struct fid *fid, struct fid *bfid, uint64_t flags);
int uccl_no_control(struct fid *fid, int command, void *arg);
int uccl_no_ops_open(struct fid *fid, const char *name, uint64_t flags, void **ops, void *context);
int uccl_no_ops_set(struct fid *fid, const char *name, uint64_t flags, void *ops, void *context);
int uccl_no_tostr(const struct fid *fid, char *buf, size_t len);
/* The table of an object that closes, and may bind or control. */
#define UCCL_FID_OPS(close_fid, bind_fid, control_fid)                                                                 \
	{                                                                                                              \
		.size = sizeof(struct fi_ops), .close = close_fid, .bind = bind_fid, .control = control_fid,           \
		.ops_open = uccl_no_ops_open, .tostr = uccl_no_tostr, .ops_set = uccl_no_ops_set,                      \
	}

/*
 * libfabric 2.7 added one entry to four tables, for programs that run on a GPU (FI_XPU). Its inline functions call the
 * entry without a look at the size of the table, so these tables have it also when earlier headers do not know it.
 */
#ifdef FI_XPU
#define UCCL_XPU_ROOM
#define UCCL_XPU_ENTRY(entry, none) .known.entry = none
#else
#define UCCL_XPU_ROOM void (*entry_of_later_headers)(void);
#define UCCL_XPU_ENTRY(entry, none) .entry_of_later_headers = (void (*)(void))none
#endif
struct uccl_ops_domain {
	struct fi_ops_domain known;
	UCCL_XPU_ROOM
};
struct uccl_ops_ep {
	struct fi_ops_ep known;
	UCCL_XPU_ROOM
};
struct uccl_ops_cq {
	struct fi_ops_cq known;
	UCCL_XPU_ROOM
};
struct uccl_ops_cntr {
	struct fi_ops_cntr known;
	UCCL_XPU_ROOM
};
struct fi_xpu_attr;
struct fid_xpu_ctx;
struct fid_xpu_ep;
struct fid_xpu_cq;
struct fid_xpu_cntr;
int uccl_no_xpu_ctx(struct fid_domain *domain, struct fi_xpu_attr *attr, struct fid_xpu_ctx **ctx, void *context);
int uccl_no_xpu_ep(struct fid_ep *ep, uint64_t flags, struct fid_xpu_ep *out);
int uccl_no_xpu_cq(struct fid_cq *cq, uint64_t flags, struct fid_xpu_cq *out);
int uccl_no_xpu_cntr(struct fid_cntr *cntr, uint64_t flags, struct fid_xpu_cntr *out);

/* struct fi_ops_ep */
int uccl_no_tx_ctx(struct fid_ep *sep, int index, struct fi_tx_attr *attr, struct fid_ep **tx_ep, void *context);
int uccl_no_rx_ctx(struct fid_ep *sep, int index, struct fi_rx_attr *attr, struct fid_ep **rx_ep, void *context);
ssize_t uccl_no_size_left(struct fid_ep *ep);
extern struct uccl_ops_ep uccl_no_ep_ops;

/* struct fi_ops_cm */
int uccl_no_getpeer(struct fid_ep *ep, void *addr, size_t *addrlen);
int uccl_no_connect(struct fid_ep *ep, const void *addr, const void *param, size_t paramlen);
int uccl_no_listen(struct fid_pep *pep);
int uccl_no_accept(struct fid_ep *ep, const void *param, size_t paramlen);
int uccl_no_reject(struct fid_pep *pep, fid_t handle, const void *param, size_t paramlen);
int uccl_no_shutdown(struct fid_ep *ep, uint64_t flags);

extern struct fi_ops_cm uccl_no_cm_ops;

#endif
