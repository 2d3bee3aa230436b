/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* See cuda.h. Names, signatures and numbers are those of the CUDA driver API's documentation. */
#include "hmem/cuda.h"

#include <dlfcn.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <rdma/fi_errno.h>

#include "base/log.h"
#include "base/units.h"
#include "hmem/scatter_ptx.h"

#define CUDA_NOT_READY 600
#define STREAM_NON_BLOCKING 1u
#define EVENT_BLOCKING_SYNC 1u /* a thread that waits for it sleeps; by default the driver polls */
#define EVENT_DISABLE_TIMING 2u
#define HOST_PORTABLE 1u
#define ATTR_CONTEXT 1
#define ATTR_MEMORY_TYPE 2
#define ATTR_SYNC_MEMOPS 6
#define ATTR_BUFFER_ID 7
#define ATTR_DEVICE_ORDINAL 9
#define ATTR_RANGE_START 11
#define ATTR_RANGE_SIZE 12
#define MEMORY_DEVICE 2u
#define CAPTURE_RELAXED 2
#define DEVICE_FLUSH_OPTIONS 117
#define DEVICE_WRITES_ORDERING 118
#define DEVICE_DMA_BUF 124
#define FLUSH_BY_HOST 1
#define ORDERED_FOR_OWNER 100 /* the device itself sees what NICs wrote in the order in which they did */
#define FLUSH_CURRENT_CONTEXT 0
#define FLUSH_TO_OWNER 100
#define RANGE_DMA_BUF 1

/* Of the driver. All return 0 or an error. */
static struct {
	int (*init)(unsigned int flags);
	int (*count)(int *n);
	int (*device)(int *device, int ordinal);
	int (*ctx_retain)(void **ctx, int device);
	int (*ctx_release)(int device);
	int (*ctx_push)(void *ctx);
	int (*ctx_pop)(void **ctx);
	int (*stream_create)(void **stream, unsigned int flags);
	int (*stream_destroy)(void *stream);
	int (*stream_wait)(void *stream);
	int (*event_create)(void **event, unsigned int flags);
	int (*event_record)(void *event, void *stream);
	int (*event_query)(void *event);
	int (*event_wait)(void *event);
	int (*event_destroy)(void *event);
	int (*host_alloc)(void **mem, size_t len, unsigned int flags);
	int (*host_free)(void *mem);
	int (*put)(uintptr_t to, const void *from, size_t len, void *stream);
	int (*get)(void *to, uintptr_t from, size_t len, void *stream);
	int (*move)(uintptr_t to, uintptr_t from, size_t len, void *stream);
	int (*attribute)(void *value, int attribute, uintptr_t p);
	int (*attribute_set)(const void *value, int attribute, uintptr_t p);
	/* Those that follow are missing in older drivers. */
	int (*capture_mode)(int *mode);
	int (*device_attribute)(int *value, int attribute, int device);
	int (*range_handle)(void *handle, uintptr_t p, size_t len, int type, unsigned long long flags);
	int (*flush)(int target, int scope);
	int (*mem_alloc)(uintptr_t *mem, size_t len);
	int (*mem_free)(uintptr_t mem);
	int (*module_load)(void **module, const void *text);
	int (*module_unload)(void *module);
	int (*module_function)(void **function, void *module, const char *name);
	int (*launch)(void *function, unsigned int blocks_x, unsigned int blocks_y, unsigned int blocks_z,
		      unsigned int threads_x, unsigned int threads_y, unsigned int threads_z, unsigned int shared_bytes,
		      void *stream, void **params, void **extra);
} cu;

#define FUNCTION(name, field) {name, &cu.field, false}
#define NEW_FUNCTION(name, field) {name, &cu.field, true}

static const struct {
	const char *name;
	void *at;
	bool may_lack;
} functions[] = {
	FUNCTION("cuInit", init),
	FUNCTION("cuDeviceGetCount", count),
	FUNCTION("cuDeviceGet", device),
	FUNCTION("cuDevicePrimaryCtxRetain", ctx_retain),
	FUNCTION("cuDevicePrimaryCtxRelease_v2", ctx_release),
	FUNCTION("cuCtxPushCurrent_v2", ctx_push),
	FUNCTION("cuCtxPopCurrent_v2", ctx_pop),
	FUNCTION("cuStreamCreate", stream_create),
	FUNCTION("cuStreamDestroy_v2", stream_destroy),
	FUNCTION("cuStreamSynchronize", stream_wait),
	FUNCTION("cuEventCreate", event_create),
	FUNCTION("cuEventRecord", event_record),
	FUNCTION("cuEventQuery", event_query),
	FUNCTION("cuEventSynchronize", event_wait),
	FUNCTION("cuEventDestroy_v2", event_destroy),
	FUNCTION("cuMemHostAlloc", host_alloc),
	FUNCTION("cuMemFreeHost", host_free),
	FUNCTION("cuMemcpyHtoDAsync_v2", put),
	FUNCTION("cuMemcpyDtoHAsync_v2", get),
	FUNCTION("cuMemcpyAsync", move),
	FUNCTION("cuPointerGetAttribute", attribute),
	FUNCTION("cuPointerSetAttribute", attribute_set),
	NEW_FUNCTION("cuThreadExchangeStreamCaptureMode", capture_mode),
	NEW_FUNCTION("cuDeviceGetAttribute", device_attribute),
	NEW_FUNCTION("cuMemGetHandleForAddressRange", range_handle),
	NEW_FUNCTION("cuFlushGPUDirectRDMAWrites", flush),
	NEW_FUNCTION("cuMemAlloc_v2", mem_alloc),
	NEW_FUNCTION("cuMemFree_v2", mem_free),
	NEW_FUNCTION("cuModuleLoadData", module_load),
	NEW_FUNCTION("cuModuleUnload", module_unload),
	NEW_FUNCTION("cuModuleGetFunction", module_function),
	NEW_FUNCTION("cuLaunchKernel", launch),
};

static int ngpus;

/* An event; those that have passed are used again. */
struct uccl_hmem_mark {
	struct uccl_hmem_mark *next;
	void *event;
};

struct uccl_hmem_queue {
	int device;
	void *ctx, *stream;
	struct uccl_hmem_mark *idle;
	bool ordered;	/* what NICs wrote needs no flush, */
	bool flushes;	/* or there is one */
	bool dmabufs;
	void *module, *scatter;	/* NULL: there is none yet, or the device does not take our program */
	bool loaded;		/* it was tried */
	struct span {
		uintptr_t start, end;
	} reach[2];		/* allocations that it can read, and write: the latest ones that were checked */
};

int uccl_cuda_open(const char *file, const char **missing)
{
	void *lib = dlopen(file, RTLD_NOW | RTLD_LOCAL);

	*missing = file;
	if (!lib)
		return -FI_ENOSYS;
	for (size_t i = 0; i < uccl_array_len(functions); i++) {
		void *at = dlsym(lib, functions[i].name);

		*missing = functions[i].name;
		memcpy(functions[i].at, &at, sizeof(at));
		if (!at && !functions[i].may_lack) {
			dlclose(lib);
			return -FI_ENOSYS;
		}
	}
	*missing = "a GPU";
	if (cu.init(0) || cu.count(&ngpus) || ngpus < 1) {
		ngpus = 0;
		dlclose(lib);
		return -FI_ENODEV;
	}
	*missing = NULL;
	return 0;
}

static int cuda_count(void)
{
	return ngpus;
}

static int cuda_where(const void *p)
{
	unsigned int type = 0;
	int ordinal = 0;

	/* The driver does not know memory that the program had from elsewhere, and says so by an error. */
	if (cu.attribute(&type, ATTR_MEMORY_TYPE, (uintptr_t)p) || type != MEMORY_DEVICE)
		return -1;
	if (ngpus > 1 && cu.attribute(&ordinal, ATTR_DEVICE_ORDINAL, (uintptr_t)p))
		return -1;
	return ordinal;
}

static int cuda_range(const void *p, uintptr_t *start, uint64_t *len, uint64_t *id)
{
	unsigned long long number = 0;
	size_t size = 0;

	if (cuda_where(p) < 0 || cu.attribute(start, ATTR_RANGE_START, (uintptr_t)p) ||
	    cu.attribute(&size, ATTR_RANGE_SIZE, (uintptr_t)p) ||
	    cu.attribute(&number, ATTR_BUFFER_ID, (uintptr_t)p))
		return -FI_EFAULT;
	*len = size;
	*id = number;
	return 0;
}

/*
 * While one thread of the program captures a graph the driver refuses calls of others, as that for an event that we ask
 * for, and ends the capture, unless they say that they have nothing to do with it.
 */
static _Thread_local int outer_mode;

/* The program's threads keep the contexts and modes that they have. */
static bool enter_context(void *ctx)
{
	if (cu.ctx_push(ctx))
		return false;
	outer_mode = CAPTURE_RELAXED;
	if (cu.capture_mode)
		cu.capture_mode(&outer_mode);
	return true;
}

static bool enter(const struct uccl_hmem_queue *q)
{
	return enter_context(q->ctx);
}

static int leave(int rc)
{
	void *ctx;

	if (cu.capture_mode)
		cu.capture_mode(&outer_mode);
	cu.ctx_pop(&ctx);
	return rc;
}

/*
 * Small copies from pageable memory may return before they are done, and our streams do not wait for them: they would
 * wait for all else of the program, too. It is a wish: memory that does not have this attribute is not refused.
 */
static void cuda_sync(const void *p)
{
	unsigned int yes = 1;
	void *ctx = NULL;

	/* In its own context, as the thread may have none. Memory that was mapped by hand is of none. */
	if (!cu.attribute(&ctx, ATTR_CONTEXT, (uintptr_t)p) && ctx && enter_context(ctx))
		leave(cu.attribute_set(&yes, ATTR_SYNC_MEMOPS, (uintptr_t)p));
	else
		cu.attribute_set(&yes, ATTR_SYNC_MEMOPS, (uintptr_t)p);
}

/* 0 for what an older driver does not know. */
static int device_has(const struct uccl_hmem_queue *q, int attribute)
{
	int value = 0;

	return cu.device_attribute && !cu.device_attribute(&value, attribute, q->device) ? value : 0;
}

/* The driver translates it, for some ms the first time, and keeps what it made on disk. */
static void program_load(struct uccl_hmem_queue *q)
{
	int rc = -1;

	if (!cu.module_load || !cu.module_unload || !cu.module_function || !cu.launch || !enter(q))
		return;
	rc = cu.module_load(&q->module, uccl_scatter_ptx);
	if (rc)
		q->module = NULL;
	else if ((rc = cu.module_function(&q->scatter, q->module, UCCL_SCATTER_ENTRY)))
		q->scatter = NULL;
	leave(0);
	if (rc)
		UCCL_LOG(UCCL_LOG_INFO, "the GPU does not take our program for copies: error %d of the driver", rc);
}

static int cuda_open(int device, struct uccl_hmem_queue **out)
{
	struct uccl_hmem_queue *q = calloc(1, sizeof(*q));

	if (!q)
		return -FI_ENOMEM;
	if (cu.device(&q->device, device) || cu.ctx_retain(&q->ctx, q->device)) {
		free(q);
		return -FI_EIO;
	}
	if (!enter(q) || leave(cu.stream_create(&q->stream, STREAM_NON_BLOCKING))) {
		cu.ctx_release(q->device);
		free(q);
		return -FI_EIO;
	}
	q->ordered = device_has(q, DEVICE_WRITES_ORDERING) >= ORDERED_FOR_OWNER;
	q->flushes = cu.flush && device_has(q, DEVICE_FLUSH_OPTIONS) & FLUSH_BY_HOST;
	q->dmabufs = cu.range_handle && device_has(q, DEVICE_DMA_BUF);
	*out = q;
	return 0;
}

static void cuda_close(struct uccl_hmem_queue *q)
{
	struct uccl_hmem_mark *m;
	bool in = enter(q);

	/* Without the context, as the program has reset the device, all that was in it is gone. */
	while ((m = q->idle)) {
		q->idle = m->next;
		if (in)
			cu.event_destroy(m->event);
		free(m);
	}
	if (in) {
		cu.stream_destroy(q->stream);
		if (q->module)
			cu.module_unload(q->module);
		leave(0);
	}
	cu.ctx_release(q->device);
	free(q);
}

static void *cuda_pin(struct uccl_hmem_queue *q, uint64_t len)
{
	void *mem = NULL;

	return enter(q) && !leave(cu.host_alloc(&mem, len, HOST_PORTABLE)) ? mem : NULL;
}

static void cuda_unpin(struct uccl_hmem_queue *q, void *mem)
{
	if (enter(q))
		leave(cu.host_free(mem));
}

/* The driver's pages are larger than those of the host, of what is not short. */
static void *cuda_take(struct uccl_hmem_queue *q, uint64_t len)
{
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), mem = 0;

	if (!cu.mem_alloc || !cu.mem_free || !enter(q) || leave(cu.mem_alloc(&mem, (len + page - 1) & ~(page - 1))))
		return NULL;
	if (!(mem & (page - 1)))
		return (void *)mem;
	if (enter(q))
		leave(cu.mem_free(mem));
	return NULL;
}

static void cuda_give(struct uccl_hmem_queue *q, void *mem)
{
	if (enter(q))
		leave(cu.mem_free((uintptr_t)mem));
}

static int cuda_put(struct uccl_hmem_queue *q, void *device, const void *host, uint64_t len)
{
	return enter(q) && !leave(cu.put((uintptr_t)device, host, len, q->stream)) ? 0 : -FI_EFAULT;
}

static int cuda_get(struct uccl_hmem_queue *q, void *host, const void *device, uint64_t len)
{
	return enter(q) && !leave(cu.get(host, (uintptr_t)device, len, q->stream)) ? 0 : -FI_EFAULT;
}

static int cuda_move(struct uccl_hmem_queue *q, void *to, const void *from, uint64_t len)
{
	return enter(q) && !leave(cu.move((uintptr_t)to, (uintptr_t)from, len, q->stream)) ? 0 : -FI_EFAULT;
}

/*
 * Can the program, which runs in our context, reach these bytes? Copies of the driver reach those of other contexts,
 * too; a program that touches them ends our context, with all that the application has in it. Memory that was mapped by
 * hand is of no context.
 */
static bool reaches(const struct uccl_hmem_queue *q, struct span *known, const void *p, uint64_t len)
{
	uintptr_t at = (uintptr_t)p, start = 0;
	unsigned int type = 0;
	void *ctx = NULL;
	size_t size = 0;

	if (at >= known->start && at + len <= known->end)
		return true;
	if (cu.attribute(&type, ATTR_MEMORY_TYPE, at))
		return false;
	if (type == MEMORY_DEVICE && !cu.attribute(&ctx, ATTR_CONTEXT, at) && ctx && ctx != q->ctx)
		return false;
	if (!cu.attribute(&start, ATTR_RANGE_START, at) && !cu.attribute(&size, ATTR_RANGE_SIZE, at))
		*known = (struct span){ start, start + size };
	return true;
}

static int cuda_scatter(struct uccl_hmem_queue *q, const struct uccl_hmem_run *run, unsigned int n)
{
	struct uccl_scatter_param param;
	void *params[] = {&param};

	_Static_assert(UCCL_HMEM_RUNS == UCCL_SCATTER_RUNS, "as many as it is asked for");
	if (!q->loaded)
		program_load(q);
	q->loaded = true;
	if (!q->scatter)
		return -FI_ENOSYS;
	if (!n)
		return 0;
	/* The launch takes all of it, so that none of it must be defined. */
	for (unsigned int i = 0; i < n; i++) {
		if (!reaches(q, &q->reach[0], run[i].from, run[i].len) ||
		    !reaches(q, &q->reach[1], run[i].to, run[i].len))
			return -FI_EFAULT;
		param.to[i] = (uintptr_t)run[i].to;
		param.from[i] = (uintptr_t)run[i].from;
		param.len[i] = (uint32_t)run[i].len;
	}
	if (!enter(q))
		return -FI_EFAULT;
	return leave(cu.launch(q->scatter, n, 1, 1, UCCL_SCATTER_THREADS, 1, 1, 0, q->stream, params, NULL)) ?
		       -FI_EFAULT :
		       0;
}

static struct uccl_hmem_mark *cuda_mark(struct uccl_hmem_queue *q)
{
	struct uccl_hmem_mark *m = q->idle;

	if (!enter(q))
		return NULL;
	if (m) {
		q->idle = m->next;
	} else {
		m = calloc(1, sizeof(*m));
		if (!m || cu.event_create(&m->event, EVENT_BLOCKING_SYNC | EVENT_DISABLE_TIMING)) {
			free(m);
			leave(0);
			return NULL;
		}
	}
	if (leave(cu.event_record(m->event, q->stream))) {
		m->next = q->idle;
		q->idle = m;
		return NULL;
	}
	return m;
}

static int cuda_passed(struct uccl_hmem_queue *q, struct uccl_hmem_mark *m)
{
	int rc = enter(q) ? leave(cu.event_query(m->event)) : -1;

	if (rc == CUDA_NOT_READY)
		return 0;
	m->next = q->idle;
	q->idle = m;
	return rc ? -FI_EIO : 1;
}

static void cuda_wait(struct uccl_hmem_queue *q, struct uccl_hmem_mark *m)
{
	if (enter(q))
		leave(cu.event_wait(m->event));
}

static int cuda_settle(struct uccl_hmem_queue *q)
{
	return enter(q) && !leave(cu.stream_wait(q->stream)) ? 0 : -FI_EIO;
}

static bool cuda_direct(struct uccl_hmem_queue *q)
{
	return q->ordered || q->flushes;
}

/* The driver takes whole pages of the host. */
static int cuda_dmabuf(struct uccl_hmem_queue *q, const void *p, uint64_t len, uint64_t *off)
{
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), start = (uintptr_t)p & ~(page - 1);
	uintptr_t end = ((uintptr_t)p + len + page - 1) & ~(page - 1);
	int fd = -1;

	if (!q->dmabufs)
		return -FI_ENOSYS;
	if (!enter(q) || leave(cu.range_handle(&fd, start, end - start, RANGE_DMA_BUF, 0)) || fd < 0)
		return -FI_EFAULT;
	*off = (uintptr_t)p - start;
	return fd;
}

static int cuda_flush(struct uccl_hmem_queue *q)
{
	if (q->ordered)
		return 0;
	return enter(q) && !leave(cu.flush(FLUSH_CURRENT_CONTEXT, FLUSH_TO_OWNER)) ? 0 : -FI_EIO;
}

const struct uccl_hmem_ops uccl_cuda_hmem = {
	.name = "cuda",
	.count = cuda_count,
	.where = cuda_where,
	.range = cuda_range,
	.sync = cuda_sync,
	.open = cuda_open,
	.close = cuda_close,
	.pin = cuda_pin,
	.unpin = cuda_unpin,
	.take = cuda_take,
	.give = cuda_give,
	.put = cuda_put,
	.get = cuda_get,
	.move = cuda_move,
	.scatter = cuda_scatter,
	.mark = cuda_mark,
	.passed = cuda_passed,
	.wait = cuda_wait,
	.settle = cuda_settle,
	.direct = cuda_direct,
	.dmabuf = cuda_dmabuf,
	.flush = cuda_flush,
};
