/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "nic/verbs/verbs_lib.h"

#ifdef HAVE_VERBS

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <string.h>

#include <rdma/fi_errno.h>

#include "base/log.h"
#include "base/units.h"

/* Functions that the library exports under these names, with the very signature of the table. */
#define EXPORTED(name)                                                                                                 \
	{                                                                                                              \
		"ibv_" #name, offsetof(struct uccl_verbs, name)                                                        \
	}

static const struct {
	const char *name;
	size_t at;
} exported[] = {
	EXPORTED(get_device_list),
	EXPORTED(free_device_list),
	EXPORTED(open_device),
	EXPORTED(close_device),
	EXPORTED(query_device),
	EXPORTED(get_async_event),
	EXPORTED(ack_async_event),
	EXPORTED(alloc_pd),
	EXPORTED(dealloc_pd),
	EXPORTED(reg_mr),
	EXPORTED(reg_mr_iova),
	EXPORTED(dereg_mr),
	EXPORTED(create_comp_channel),
	EXPORTED(destroy_comp_channel),
	EXPORTED(create_cq),
	EXPORTED(destroy_cq),
	EXPORTED(get_cq_event),
	EXPORTED(ack_cq_events),
	EXPORTED(create_srq),
	EXPORTED(destroy_srq),
	EXPORTED(create_qp),
	EXPORTED(modify_qp),
	EXPORTED(destroy_qp),
	EXPORTED(create_ah),
	EXPORTED(destroy_ah),
};

/* Its signature has the size of the caller's structure; set once, before the first table is out. */
static int (*query_gid_sized)(struct ibv_context *ctx, uint32_t port, uint32_t index, struct ibv_gid_entry *entry,
			      uint32_t flags, size_t size);

static int verbs_query_gid(struct ibv_context *ctx, uint32_t port, uint32_t index, struct ibv_gid_entry *entry)
{
	return query_gid_sized(ctx, port, index, entry, 0, sizeof(*entry));
}

/* The exported function of this name fills an older, shorter structure. */
static int verbs_query_port(struct ibv_context *ctx, uint8_t port, struct ibv_port_attr *attr)
{
	struct verbs_context *ext = verbs_get_ctx_op(ctx, query_port);

	return ext ? ext->query_port(ctx, port, attr, sizeof(*attr)) : ENOSYS;
}

static struct ibv_mw *verbs_alloc_mw(struct ibv_pd *pd, enum ibv_mw_type type)
{
	return ibv_alloc_mw(pd, type);
}

static int verbs_dealloc_mw(struct ibv_mw *mw)
{
	return ibv_dealloc_mw(mw);
}

static int verbs_bind_mw(struct ibv_qp *qp, struct ibv_mw *mw, struct ibv_mw_bind *bind)
{
	return ibv_bind_mw(qp, mw, bind);
}

static int verbs_poll_cq(struct ibv_cq *cq, int n, struct ibv_wc *wc)
{
	return ibv_poll_cq(cq, n, wc);
}

static int verbs_req_notify_cq(struct ibv_cq *cq, int solicited)
{
	return ibv_req_notify_cq(cq, solicited);
}

static int verbs_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	return ibv_post_send(qp, wr, bad);
}

static int verbs_post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	return ibv_post_recv(qp, wr, bad);
}

static int verbs_post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	return ibv_post_srq_recv(srq, wr, bad);
}

/* Look up one function; its address goes to *where. */
static bool symbol_find(void *lib, const char *name, void *where)
{
	void *at = dlsym(lib, name);

	memcpy(where, &at, sizeof(at));
	return at;
}

void uccl_verbs_dereg(const struct uccl_verbs *lib, struct ibv_mr *mr, const char *name)
{
	int err = lib->dereg_mr(mr);

	if (err)
		UCCL_LOG(UCCL_LOG_WARN, "%s: cannot deregister memory: %s", name, strerror(err));
}

int uccl_verbs_channel_open(const struct uccl_verbs *lib, struct ibv_context *ctx, struct ibv_comp_channel **channel)
{
	*channel = lib->create_comp_channel(ctx);
	if (!*channel || fcntl((*channel)->fd, F_SETFL, fcntl((*channel)->fd, F_GETFL) | O_NONBLOCK) ||
	    fcntl(ctx->async_fd, F_SETFL, fcntl(ctx->async_fd, F_GETFL) | O_NONBLOCK))
		return uccl_verbs_error();
	return 0;
}

int uccl_verbs_event(const struct uccl_verbs *lib, struct ibv_context *ctx, struct ibv_async_event *event)
{
	errno = 0;
	if (!lib->get_async_event(ctx, event)) {
		lib->ack_async_event(event);
		return 1;
	}
	return errno && errno != EAGAIN && errno != EINTR ? -FI_ENODEV : 0;
}

int uccl_verbs_load(struct uccl_verbs *v, const char *file, const char **missing)
{
	void *lib = dlopen(file, RTLD_NOW | RTLD_LOCAL);
	int (*fork_init)(void);
	size_t i;

	*missing = file;
	if (!lib)
		return -FI_ENOSYS;
	memset(v, 0, sizeof(*v));
	for (i = 0; i < uccl_array_len(exported); i++) {
		*missing = exported[i].name;
		if (!symbol_find(lib, exported[i].name, (char *)v + exported[i].at))
			goto fail;
	}
	*missing = "_ibv_query_gid_ex";
	if (!symbol_find(lib, *missing, &query_gid_sized))
		goto fail;
	symbol_find(lib, "ibv_reg_dmabuf_mr", &v->reg_dmabuf_mr);
	v->query_gid = verbs_query_gid;
	v->query_port = verbs_query_port;
	v->alloc_mw = verbs_alloc_mw;
	v->dealloc_mw = verbs_dealloc_mw;
	v->bind_mw = verbs_bind_mw;
	v->poll_cq = verbs_poll_cq;
	v->req_notify_cq = verbs_req_notify_cq;
	v->post_send = verbs_post_send;
	v->post_recv = verbs_post_recv;
	v->post_srq_recv = verbs_post_srq_recv;
	/* On kernels that do not copy pinned pages at fork() by themselves; others make it do nothing. */
	if (symbol_find(lib, "ibv_fork_init", &fork_init))
		fork_init();
	*missing = NULL;
	return 0;
fail:
	dlclose(lib);
	return -FI_ENOSYS;
}

static struct uccl_verbs process_table;
static bool process_loaded;

static void process_load(void)
{
	const char *missing;

	process_loaded = !uccl_verbs_load(&process_table, UCCL_VERBS_FILE, &missing);
	if (!process_loaded)
		UCCL_LOG(UCCL_LOG_WARN,
			 "RDMA NICs cannot be used: %s is missing; install it (libibverbs1 in Debian), or set "
			 "FI_UCCL_BACKEND=udp",
			 missing);
}

const struct uccl_verbs *uccl_verbs_lib(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, process_load);
	return process_loaded ? &process_table : NULL;
}

#endif
