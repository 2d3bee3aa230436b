/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The fake verbs for several threads: one call at a time. */
#include "fake_verbs.h"

#ifdef HAVE_VERBS

#include <pthread.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

#define LOCKED(type, name, params, ...)                                                                                \
	static type locked_##name params                                                                               \
	{                                                                                                              \
		type r;                                                                                                \
                                                                                                                       \
		fake_verbs_lock();                                                                                     \
		r = fake_verbs_lib()->name(__VA_ARGS__);                                                               \
		fake_verbs_unlock();                                                                                   \
		return r;                                                                                              \
	}

#define LOCKED_VOID(name, params, ...)                                                                                 \
	static void locked_##name params                                                                               \
	{                                                                                                              \
		fake_verbs_lock();                                                                                     \
		fake_verbs_lib()->name(__VA_ARGS__);                                                                   \
		fake_verbs_unlock();                                                                                   \
	}

LOCKED(struct ibv_device **, get_device_list, (int *n), n)
LOCKED_VOID(free_device_list, (struct ibv_device **list), list)
LOCKED(struct ibv_context *, open_device, (struct ibv_device *dev), dev)
LOCKED(int, close_device, (struct ibv_context *ctx), ctx)
LOCKED(int, query_device, (struct ibv_context *ctx, struct ibv_device_attr *attr), ctx, attr)
LOCKED(int, query_port, (struct ibv_context *ctx, uint8_t port, struct ibv_port_attr *attr), ctx, port, attr)
LOCKED(int, query_gid, (struct ibv_context *ctx, uint32_t port, uint32_t i, struct ibv_gid_entry *e), ctx, port, i, e)
LOCKED(int, get_async_event, (struct ibv_context *ctx, struct ibv_async_event *event), ctx, event)
LOCKED_VOID(ack_async_event, (struct ibv_async_event *event), event)
LOCKED(struct ibv_pd *, alloc_pd, (struct ibv_context *ctx), ctx)
LOCKED(int, dealloc_pd, (struct ibv_pd *pd), pd)
LOCKED(struct ibv_mr *, reg_mr, (struct ibv_pd *pd, void *addr, size_t len, int access), pd, addr, len, access)
LOCKED(struct ibv_mr *, reg_mr_iova, (struct ibv_pd *pd, void *addr, size_t len, uint64_t iova, int access), pd, addr,
       len, iova, access)
LOCKED(int, dereg_mr, (struct ibv_mr *mr), mr)
LOCKED(struct ibv_comp_channel *, create_comp_channel, (struct ibv_context *ctx), ctx)
LOCKED(int, destroy_comp_channel, (struct ibv_comp_channel *channel), channel)
LOCKED(struct ibv_cq *, create_cq,
       (struct ibv_context *ctx, int entries, void *user, struct ibv_comp_channel *channel, int vector), ctx, entries,
       user, channel, vector)
LOCKED(int, destroy_cq, (struct ibv_cq *cq), cq)
LOCKED(int, get_cq_event, (struct ibv_comp_channel *channel, struct ibv_cq **cq, void **user), channel, cq, user)
LOCKED_VOID(ack_cq_events, (struct ibv_cq *cq, unsigned int n), cq, n)
LOCKED(struct ibv_srq *, create_srq, (struct ibv_pd *pd, struct ibv_srq_init_attr *attr), pd, attr)
LOCKED(int, destroy_srq, (struct ibv_srq *srq), srq)
LOCKED(struct ibv_qp *, create_qp, (struct ibv_pd *pd, struct ibv_qp_init_attr *attr), pd, attr)
LOCKED(int, modify_qp, (struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask), qp, attr, mask)
LOCKED(int, destroy_qp, (struct ibv_qp *qp), qp)
LOCKED(struct ibv_ah *, create_ah, (struct ibv_pd *pd, struct ibv_ah_attr *attr), pd, attr)
LOCKED(int, destroy_ah, (struct ibv_ah *ah), ah)
LOCKED(int, poll_cq, (struct ibv_cq *cq, int n, struct ibv_wc *wc), cq, n, wc)
LOCKED(int, req_notify_cq, (struct ibv_cq *cq, int solicited), cq, solicited)
LOCKED(int, post_send, (struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad), qp, wr, bad)
LOCKED(int, post_recv, (struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad), qp, wr, bad)
LOCKED(int, post_srq_recv, (struct ibv_srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad), srq, wr, bad)

/* No memory windows, and no memory of devices. */
static const struct uccl_verbs locked = {
	.get_device_list = locked_get_device_list,
	.free_device_list = locked_free_device_list,
	.open_device = locked_open_device,
	.close_device = locked_close_device,
	.query_device = locked_query_device,
	.query_port = locked_query_port,
	.query_gid = locked_query_gid,
	.get_async_event = locked_get_async_event,
	.ack_async_event = locked_ack_async_event,
	.alloc_pd = locked_alloc_pd,
	.dealloc_pd = locked_dealloc_pd,
	.reg_mr = locked_reg_mr,
	.reg_mr_iova = locked_reg_mr_iova,
	.dereg_mr = locked_dereg_mr,
	.create_comp_channel = locked_create_comp_channel,
	.destroy_comp_channel = locked_destroy_comp_channel,
	.create_cq = locked_create_cq,
	.destroy_cq = locked_destroy_cq,
	.get_cq_event = locked_get_cq_event,
	.ack_cq_events = locked_ack_cq_events,
	.create_srq = locked_create_srq,
	.destroy_srq = locked_destroy_srq,
	.create_qp = locked_create_qp,
	.modify_qp = locked_modify_qp,
	.destroy_qp = locked_destroy_qp,
	.create_ah = locked_create_ah,
	.destroy_ah = locked_destroy_ah,
	.poll_cq = locked_poll_cq,
	.req_notify_cq = locked_req_notify_cq,
	.post_send = locked_post_send,
	.post_recv = locked_post_recv,
	.post_srq_recv = locked_post_srq_recv,
};

const struct uccl_verbs *fake_verbs_locked(void)
{
	return &locked;
}

void fake_verbs_lock(void)
{
	pthread_mutex_lock(&lock);
}

void fake_verbs_unlock(void)
{
	pthread_mutex_unlock(&lock);
}

#endif
