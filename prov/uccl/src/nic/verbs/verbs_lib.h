/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The functions of libibverbs that the verbs back ends call, as a table. It is filled when a program asks for an RDMA
 * NIC, so the module also runs on hosts without the library. Tests replace the table. Signatures, errors and ownership
 * are those of ibv_*. The table also has the calls that verbs.h makes through a device's own operations.
 */
#ifndef UCCL_NIC_VERBS_VERBS_LIB_H
#define UCCL_NIC_VERBS_VERBS_LIB_H

#ifdef HAVE_VERBS

#include <errno.h>
#include <stdbool.h>

#include <infiniband/verbs.h>
#include <rdma/fi_errno.h>

#define UCCL_VERBS_FILE "libibverbs.so.1"

struct uccl_verbs {
	/* devices */
	struct ibv_device **(*get_device_list)(int *n);
	void (*free_device_list)(struct ibv_device **list);
	struct ibv_context *(*open_device)(struct ibv_device *dev);
	int (*close_device)(struct ibv_context *ctx);
	int (*query_device)(struct ibv_context *ctx, struct ibv_device_attr *attr);
	int (*query_port)(struct ibv_context *ctx, uint8_t port, struct ibv_port_attr *attr);
	/* 0, or an errno value; ENODATA: the entry is empty */
	int (*query_gid)(struct ibv_context *ctx, uint32_t port, uint32_t index, struct ibv_gid_entry *entry);
	int (*get_async_event)(struct ibv_context *ctx, struct ibv_async_event *event);
	void (*ack_async_event)(struct ibv_async_event *event);
	/* objects */
	struct ibv_pd *(*alloc_pd)(struct ibv_context *ctx);
	int (*dealloc_pd)(struct ibv_pd *pd);
	struct ibv_mr *(*reg_mr)(struct ibv_pd *pd, void *addr, size_t len, int access);
	struct ibv_mr *(*reg_mr_iova)(struct ibv_pd *pd, void *addr, size_t len, uint64_t iova, int access);
	/* NULL: the library is too old to have it */
	struct ibv_mr *(*reg_dmabuf_mr)(struct ibv_pd *pd, uint64_t offset, size_t len, uint64_t iova, int fd,
					int access);
	int (*dereg_mr)(struct ibv_mr *mr);
	struct ibv_mw *(*alloc_mw)(struct ibv_pd *pd, enum ibv_mw_type type);
	int (*dealloc_mw)(struct ibv_mw *mw);
	int (*bind_mw)(struct ibv_qp *qp, struct ibv_mw *mw, struct ibv_mw_bind *bind); /* of type 1 */
	struct ibv_comp_channel *(*create_comp_channel)(struct ibv_context *ctx);
	int (*destroy_comp_channel)(struct ibv_comp_channel *channel);
	struct ibv_cq *(*create_cq)(struct ibv_context *ctx, int entries, void *user, struct ibv_comp_channel *channel,
				    int vector);
	int (*destroy_cq)(struct ibv_cq *cq);
	int (*get_cq_event)(struct ibv_comp_channel *channel, struct ibv_cq **cq, void **user);
	void (*ack_cq_events)(struct ibv_cq *cq, unsigned int n);
	struct ibv_srq *(*create_srq)(struct ibv_pd *pd, struct ibv_srq_init_attr *attr);
	int (*destroy_srq)(struct ibv_srq *srq);
	struct ibv_qp *(*create_qp)(struct ibv_pd *pd, struct ibv_qp_init_attr *attr);
	int (*modify_qp)(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask);
	int (*destroy_qp)(struct ibv_qp *qp);
	struct ibv_ah *(*create_ah)(struct ibv_pd *pd, struct ibv_ah_attr *attr);
	int (*destroy_ah)(struct ibv_ah *ah);
	/* the data path */
	int (*poll_cq)(struct ibv_cq *cq, int n, struct ibv_wc *wc);
	int (*req_notify_cq)(struct ibv_cq *cq, int solicited);
	int (*post_send)(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad);
	int (*post_recv)(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);
	int (*post_srq_recv)(struct ibv_srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);
};

/* The error of a call that just failed, from errno; -FI_EIO if the library did not set errno. */
static inline int uccl_verbs_error(void)
{
	return errno > 0 ? -errno : -FI_EIO;
}

/* End a registration. A failure is only logged, with the device `name`, since no caller could repair it. */
void uccl_verbs_dereg(const struct uccl_verbs *lib, struct ibv_mr *mr, const char *name);

/* Make a completion channel; reads of it and of the device's asynchronous events never block. 0 or an error. */
int uccl_verbs_channel_open(const struct uccl_verbs *lib, struct ibv_context *ctx, struct ibv_comp_channel **channel);
/*
 * Read and acknowledge the next asynchronous event: before a queue or a queue pair ends, all its events must have been
 * acknowledged. 1: *event is set; 0: there is none; -FI_ENODEV: the device was removed.
 */
int uccl_verbs_event(const struct uccl_verbs *lib, struct ibv_context *ctx, struct ibv_async_event *event);

/*
 * Fill a table from the library `file`, which stays loaded. -FI_ENOSYS: no such library, or it lacks a function (then
 * it is unloaded); *missing names the library or the function.
 */
int uccl_verbs_load(struct uccl_verbs *v, const char *file, const char **missing);

/* The table of this process; the first call loads it. NULL: the host has no usable libibverbs. */
const struct uccl_verbs *uccl_verbs_lib(void);

#endif

#endif
