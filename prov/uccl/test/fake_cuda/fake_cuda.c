/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* See fake_cuda.h. Functions of the driver have the names, signatures and numbers of its documentation. */
#include "fake_cuda.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/queue.h>
#include <unistd.h>

#define API __attribute__((visibility("default")))

#define INVALID_VALUE 1
#define OUT_OF_MEMORY 2
#define INVALID_CONTEXT 201
#define INVALID_PTX 218
#define NOT_FOUND 500
#define NOT_READY 600
#define LAUNCH_FAILED 719
#define CAPTURE_UNSUPPORTED 900

#define CAPTURE_RELAXED 2

#define DEVICES_MAX 8
/* What the driver takes to memory of its own, and then returns. */
#define STAGED_MAX 65536

struct memory {
	TAILQ_ENTRY(memory) link;
	uint8_t *at;		/* what programs see */
	uint8_t *shadow;	/* where the bytes can be reached; NULL: memory of the host */
	size_t len;
	int fd;			/* of the device's: its bytes as a file */
	int device;
	unsigned long long number; /* no other has it */
	bool synced;
	bool foreign;		/* of another context than the device's first */
};

struct work {
	TAILQ_ENTRY(work) link;
	void *dst;
	const void *src;
	size_t len;
	unsigned int wait;	/* queries until it is done */
	struct event *event;	/* it is a mark; else a copy */
	bool fails;
	uint8_t own[];
};

struct event {
	bool sleeps;		/* who waits for it does */
	unsigned int open;	/* marks of it that are not passed */
	int err;
};

struct stream {
	TAILQ_HEAD(, work) works;
	int device;
	int err;
	struct stream *next;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static TAILQ_HEAD(, memory) memories = TAILQ_HEAD_INITIALIZER(memories);
static struct stream *streams;
static struct stream default_stream = { .works = TAILQ_HEAD_INITIALIZER(default_stream.works) };
static unsigned int delay = 3, copies, pending, queries, sleeps, fail_at, seed = 1;
static bool fail_late;
static int ordering = 100, flush_options = 1, dmabufs = 1;
static unsigned int flushes, launches, blocking;
static int programs = 1;
static char module, function;
static char contexts[DEVICES_MAX];
static __thread int stack[64];
static __thread int depth;
static bool captures, capture_broken, no_events;
static __thread int capture_mode;

static int devices(void)
{
	const char *s = getenv("FAKE_CUDA_DEVICES");
	int n = s ? atoi(s) : 1;

	return n < 0 || n > DEVICES_MAX ? 1 : n;
}

static struct memory *find(const void *p)
{
	struct memory *m;

	TAILQ_FOREACH(m, &memories, link)
		if ((const uint8_t *)p >= m->at && (const uint8_t *)p < m->at + m->len)
			return m;
	return NULL;
}

/* Where bytes of an address lie; NULL: they go beyond the memory that it is in. */
static void *reach(const void *p, size_t len, bool device)
{
	struct memory *m = find(p);
	size_t off;

	if (!m || !m->shadow)
		return device ? NULL : (void *)(uintptr_t)p;
	off = (size_t)((const uint8_t *)p - m->at);
	return device && len <= m->len - off ? m->shadow + off : NULL;
}

static unsigned long long numbers;

static void *alloc_locked(int device, size_t len)
{
	struct memory *m = calloc(1, sizeof(*m));
	int fd = memfd_create("gpu", 0);

	if (!m || fd < 0 || ftruncate(fd, (off_t)len)) {
		free(m);
		if (fd >= 0)
			close(fd);
		return NULL;
	}
	m->at = mmap(NULL, len, PROT_NONE, MAP_SHARED, fd, 0);
	m->shadow = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	m->len = len;
	m->device = device;
	m->number = ++numbers;
	m->fd = fd;
	TAILQ_INSERT_TAIL(&memories, m, link);
	return m->at;
}

API void *fake_cuda_alloc(int device, size_t len)
{
	void *p;

	pthread_mutex_lock(&lock);
	p = alloc_locked(device, len);
	pthread_mutex_unlock(&lock);
	return p;
}

API void fake_cuda_free(void *p)
{
	struct memory *m;

	pthread_mutex_lock(&lock);
	m = find(p);
	if (m) {
		TAILQ_REMOVE(&memories, m, link);
		munmap(m->at, m->len);
		munmap(m->shadow, m->len);
		close(m->fd);
		free(m);
	}
	pthread_mutex_unlock(&lock);
}

API void fake_cuda_foreign(void *p)
{
	pthread_mutex_lock(&lock);
	find(p)->foreign = true;
	pthread_mutex_unlock(&lock);
}

API void fake_cuda_write(void *device, const void *host, size_t len)
{
	pthread_mutex_lock(&lock);
	memcpy(reach(device, len, true), host, len);
	pthread_mutex_unlock(&lock);
}

API void fake_cuda_read(void *host, const void *device, size_t len)
{
	pthread_mutex_lock(&lock);
	memcpy(host, reach(device, len, true), len);
	pthread_mutex_unlock(&lock);
}

API void fake_cuda_delay(unsigned int n)
{
	delay = n;
}

API void fake_cuda_fail(unsigned int n, int late)
{
	pthread_mutex_lock(&lock);
	fail_at = n;
	fail_late = late;
	pthread_mutex_unlock(&lock);
}

API int fake_cuda_synced(const void *device)
{
	const struct memory *m;
	int synced;

	pthread_mutex_lock(&lock);
	m = find(device);
	synced = m && m->synced;
	pthread_mutex_unlock(&lock);
	return synced;
}

API unsigned int fake_cuda_copies(void)
{
	return copies;
}

API unsigned int fake_cuda_pending(void)
{
	return pending;
}

API unsigned int fake_cuda_queries(void)
{
	return queries;
}

API unsigned int fake_cuda_sleeps(void)
{
	return sleeps;
}

API unsigned int fake_cuda_blocking(void)
{
	return __atomic_load_n(&blocking, __ATOMIC_RELAXED);
}

API void fake_cuda_events(int some)
{
	no_events = !some;
}

API void fake_cuda_capture_begin(void)
{
	captures = true;
	capture_broken = false;
}

API int fake_cuda_capture_end(void)
{
	captures = false;
	return !capture_broken;
}

API int cuThreadExchangeStreamCaptureMode(int *mode)
{
	int was = capture_mode;

	capture_mode = *mode;
	*mode = was;
	return 0;
}

/* A capture is under way, and this thread has not said that it has nothing to do with it. */
static bool captured(void)
{
	if (!captures || capture_mode == CAPTURE_RELAXED)
		return false;
	capture_broken = true;
	return true;
}

static void may_block(void)
{
	__atomic_add_fetch(&blocking, 1, __ATOMIC_RELAXED);
}

API void fake_cuda_direct(int order, int options, int dmabuf)
{
	ordering = order;
	flush_options = options;
	dmabufs = dmabuf;
}

API void fake_cuda_programs(int takes)
{
	programs = takes;
}

API unsigned int fake_cuda_launches(void)
{
	return launches;
}

API unsigned int fake_cuda_flushes(void)
{
	return flushes;
}

API void *fake_cuda_shadow(void *device)
{
	void *p;

	pthread_mutex_lock(&lock);
	p = reach(device, 1, true);
	pthread_mutex_unlock(&lock);
	return p;
}

static unsigned int chance(unsigned int n)
{
	seed = seed * 1103515245u + 12345u;
	return n ? (seed >> 16) % (n + 1) : 0;
}

/* One query's time passes for a stream; `all`: as many as it takes. */
static void stream_run(struct stream *s, bool all)
{
	struct work *w;

	while ((w = TAILQ_FIRST(&s->works))) {
		if (!all && w->wait) {
			w->wait--;
			return;
		}
		if (w->event) {
			w->event->open--;
			w->event->err = s->err;
		} else {
			if (w->fails)
				s->err = LAUNCH_FAILED;
			else
				memcpy(w->dst, w->src, w->len);
			pending--;
		}
		TAILQ_REMOVE(&s->works, w, link);
		free(w);
	}
}

static int stream_add(struct stream *s, void *dst, const void *src, size_t len, struct event *e)
{
	struct work *w = calloc(1, sizeof(*w));

	w->dst = dst;
	w->src = src;
	w->len = len;
	w->event = e;
	w->wait = e ? 0 : chance(delay);
	if (!e) {
		copies++;
		pending++;
		w->fails = fail_at == 1;
		fail_at -= fail_at > 0;
	}
	TAILQ_INSERT_TAIL(&s->works, w, link);
	return 0;
}

/* It is long until it is done. */
static void stage(void *dst, const void *src, size_t len)
{
	struct work *w = calloc(1, sizeof(*w) + len);

	memcpy(w->own, src, len);
	w->dst = dst;
	w->src = w->own;
	w->len = len;
	w->wait = 50;
	pending++;
	TAILQ_INSERT_TAIL(&default_stream.works, w, link);
}

static int copy(uintptr_t dst, bool dst_device, uintptr_t src, bool src_device, size_t len, void *stream)
{
	void *to, *from;
	int rc;

	if (!depth)
		return INVALID_CONTEXT;
	pthread_mutex_lock(&lock);
	to = reach((void *)dst, len, dst_device);
	from = reach((void *)src, len, src_device);
	if (fail_at == 1 && !fail_late) {
		fail_at = 0;
		to = NULL;
	}
	if (!to || !from) {
		rc = INVALID_VALUE;
	} else if (!stream && dst_device && len <= STAGED_MAX && !find((void *)dst)->synced) {
		stage(to, from, len);
		rc = 0;
	} else if (!stream) {
		stream_run(&default_stream, true);
		memcpy(to, from, len);
		rc = 0;
	} else {
		rc = stream_add(stream, to, from, len, NULL);
	}
	pthread_mutex_unlock(&lock);
	return rc;
}

/* The driver */

API int cuInit(unsigned int flags)
{
	return flags ? INVALID_VALUE : 0;
}

API int cuDeviceGetCount(int *n)
{
	*n = devices();
	return 0;
}

API int cuDeviceGet(int *device, int ordinal)
{
	*device = ordinal;
	return ordinal < 0 || ordinal >= devices() ? INVALID_VALUE : 0;
}

API int cuDeviceGetName(char *name, int len, int device)
{
	(void)device;
	strncpy(name, "fake", (size_t)len);
	return 0;
}

API int cuDevicePrimaryCtxRetain(void **ctx, int device)
{
	may_block();
	*ctx = &contexts[device];
	return 0;
}

API int cuDevicePrimaryCtxRelease_v2(int device)
{
	may_block();
	(void)device;
	return 0;
}

API int cuCtxPushCurrent_v2(void *ctx)
{
	if (depth == 64)
		return INVALID_VALUE;
	stack[depth++] = (int)((char *)ctx - contexts);
	return 0;
}

API int cuCtxPopCurrent_v2(void **ctx)
{
	if (!depth)
		return INVALID_CONTEXT;
	*ctx = &contexts[stack[--depth]];
	return 0;
}

API int cuCtxSetCurrent(void *ctx)
{
	depth = 0;
	return cuCtxPushCurrent_v2(ctx);
}

API int cuStreamCreate(void **out, unsigned int flags)
{
	struct stream *s = calloc(1, sizeof(*s));

	may_block();
	(void)flags;
	if (!depth)
		return INVALID_CONTEXT;
	TAILQ_INIT(&s->works);
	s->device = stack[depth - 1];
	pthread_mutex_lock(&lock);
	s->next = streams;
	streams = s;
	pthread_mutex_unlock(&lock);
	*out = s;
	return 0;
}

API int cuCtxSynchronize(void)
{
	may_block();
	pthread_mutex_lock(&lock);
	stream_run(&default_stream, true);
	pthread_mutex_unlock(&lock);
	return 0;
}

API int cuStreamSynchronize(void *stream)
{
	struct stream *s = stream;

	may_block();
	pthread_mutex_lock(&lock);
	if (s)
		stream_run(s, true);
	pthread_mutex_unlock(&lock);
	return s ? s->err : 0;
}

API int cuStreamDestroy_v2(void *stream)
{
	struct stream **at;

	cuStreamSynchronize(stream);
	pthread_mutex_lock(&lock);
	for (at = &streams; *at != stream; at = &(*at)->next)
		;
	*at = (*at)->next;
	pthread_mutex_unlock(&lock);
	free(stream);
	return 0;
}

API int cuEventCreate(void **out, unsigned int flags)
{
	struct event *e = no_events ? NULL : calloc(1, sizeof(*e));

	*out = e;
	if (!e)
		return OUT_OF_MEMORY;
	e->sleeps = flags & 1;
	return 0;
}

API int cuEventRecord(void *event, void *stream)
{
	struct event *e = event;
	int rc = depth ? 0 : INVALID_CONTEXT;

	pthread_mutex_lock(&lock);
	if (!rc) {
		e->open++;
		e->err = 0;
		rc = stream_add(stream, NULL, NULL, 0, e);
	}
	pthread_mutex_unlock(&lock);
	return rc;
}

/* One query's time passes for all. */
static void time_passes(void)
{
	for (struct stream *s = streams; s; s = s->next)
		stream_run(s, false);
	stream_run(&default_stream, false);
}

API int cuEventSynchronize(void *event)
{
	struct event *e = event;

	may_block();
	if (!depth)
		return INVALID_CONTEXT;
	pthread_mutex_lock(&lock);
	if (e->sleeps)
		sleeps++;
	while (e->open)
		time_passes();
	pthread_mutex_unlock(&lock);
	return e->err;
}

API int cuEventQuery(void *event)
{
	struct event *e = event;
	int rc;

	if (!depth)
		return INVALID_CONTEXT;
	if (captured())
		return CAPTURE_UNSUPPORTED;
	pthread_mutex_lock(&lock);
	queries++;
	time_passes();
	rc = e->open ? NOT_READY : e->err;
	pthread_mutex_unlock(&lock);
	return rc;
}

API int cuEventDestroy_v2(void *event)
{
	free(event);
	return 0;
}

API int cuMemAlloc_v2(uintptr_t *p, size_t len)
{
	may_block();
	if (captured())
		return CAPTURE_UNSUPPORTED;
	*p = depth ? (uintptr_t)fake_cuda_alloc(stack[depth - 1], len) : 0;
	return *p ? 0 : depth ? OUT_OF_MEMORY : INVALID_CONTEXT;
}

API int cuMemFree_v2(uintptr_t p)
{
	may_block();
	fake_cuda_free((void *)p);
	return 0;
}

API int cuMemHostAlloc(void **p, size_t len, unsigned int flags)
{
	struct memory *m = calloc(1, sizeof(*m));

	may_block();
	(void)flags;
	*p = malloc(len);
	m->at = *p;
	m->len = len;
	pthread_mutex_lock(&lock);
	TAILQ_INSERT_TAIL(&memories, m, link);
	pthread_mutex_unlock(&lock);
	return depth ? 0 : INVALID_CONTEXT;
}

API int cuMemFreeHost(void *p)
{
	struct memory *m;

	may_block();
	pthread_mutex_lock(&lock);
	m = find(p);
	TAILQ_REMOVE(&memories, m, link);
	pthread_mutex_unlock(&lock);
	free(m->at);
	free(m);
	return 0;
}

API int cuMemcpyHtoD_v2(uintptr_t dst, const void *src, size_t len)
{
	may_block();
	return copy(dst, true, (uintptr_t)src, false, len, NULL);
}

API int cuMemcpyDtoH_v2(void *dst, uintptr_t src, size_t len)
{
	may_block();
	return copy((uintptr_t)dst, false, src, true, len, NULL);
}

API int cuMemcpyHtoDAsync_v2(uintptr_t dst, const void *src, size_t len, void *stream)
{
	return copy(dst, true, (uintptr_t)src, false, len, stream);
}

API int cuMemcpyDtoHAsync_v2(void *dst, uintptr_t src, size_t len, void *stream)
{
	return copy((uintptr_t)dst, false, src, true, len, stream);
}

API int cuMemcpyAsync(uintptr_t dst, uintptr_t src, size_t len, void *stream)
{
	return copy(dst, true, src, true, len, stream);
}

API int cuPointerGetAttribute(void *value, int attribute, uintptr_t p)
{
	struct memory *m;
	int rc = 0;

	pthread_mutex_lock(&lock);
	m = find((void *)p);
	if (!m)
		rc = INVALID_VALUE;
	else if (attribute == 1)
		*(void **)value = m->foreign ? &m->foreign : (void *)&contexts[m->device];
	else if (attribute == 2)
		*(unsigned int *)value = m->shadow ? 2 : 1;
	else if (attribute == 9)
		*(int *)value = m->device;
	else if (attribute == 7)
		*(unsigned long long *)value = m->number;
	else if (attribute == 11)
		*(uintptr_t *)value = (uintptr_t)m->at;
	else if (attribute == 12)
		*(size_t *)value = m->len;
	else
		rc = INVALID_VALUE;
	pthread_mutex_unlock(&lock);
	return rc;
}

API int cuPointerSetAttribute(const void *value, int attribute, uintptr_t p)
{
	struct memory *m;

	if (captured())
		return CAPTURE_UNSUPPORTED;
	pthread_mutex_lock(&lock);
	m = find((void *)p);
	if (m && attribute == 6)
		m->synced = *(const unsigned int *)value;
	pthread_mutex_unlock(&lock);
	return m && attribute == 6 ? 0 : INVALID_VALUE;
}

API int cuDeviceGetAttribute(int *value, int attribute, int device)
{
	if (device < 0 || device >= devices())
		return INVALID_VALUE;
	*value = attribute == 117 ? flush_options : attribute == 118 ? ordering : attribute == 124 ? dmabufs : 0;
	return 0;
}

API int cuModuleLoadData(void **out, const void *text)
{
	may_block();
	if (!depth)
		return INVALID_CONTEXT;
	*out = &module;
	return programs && strstr(text, ".visible .entry uccl_scatter(") ? 0 : INVALID_PTX;
}

API int cuModuleGetFunction(void **out, void *in, const char *name)
{
	*out = &function;
	return in == &module && !strcmp(name, "uccl_scatter") ? 0 : NOT_FOUND;
}

API int cuModuleUnload(void *in)
{
	may_block();
	return in == &module && depth ? 0 : INVALID_VALUE;
}

/* Memory of a device, or of the host if it is pinned. */
static void *reach_any(uint64_t p, size_t len)
{
	struct memory *m = find((void *)(uintptr_t)p);

	return m ? reach((void *)(uintptr_t)p, len, m->shadow) : NULL;
}

/* Our program: what its text says, done backwards, since nobody may count on an order. */
API int cuLaunchKernel(void *f, unsigned int n, unsigned int y, unsigned int z, unsigned int threads, unsigned int ty,
		       unsigned int tz, unsigned int shared, void *stream, void **params, void **extra)
{
	const struct {
		uint64_t to[128], from[128];
		uint32_t len[128];
	} *v = params[0];
	int rc = 0;

	if (!depth)
		return INVALID_CONTEXT;
	if (f != &function || !n || n > 128 || y * z * ty * tz != 1 || threads < 15 || shared || extra || programs == 2)
		return INVALID_VALUE;
	pthread_mutex_lock(&lock);
	if (fail_at == 1 && !fail_late) {
		fail_at = 0;
		rc = INVALID_VALUE;
	}
	for (unsigned int i = 0; i < n && !rc; i++)
		if (!reach_any(v->to[i], v->len[i]) || !reach_any(v->from[i], v->len[i]))
			rc = INVALID_VALUE;
	for (unsigned int i = n; i-- > 0 && !rc;)
		stream_add(stream, reach_any(v->to[i], v->len[i]), reach_any(v->from[i], v->len[i]), v->len[i], NULL);
	if (!rc) {
		copies -= n;
		launches++;
	}
	pthread_mutex_unlock(&lock);
	return rc;
}

/* As the driver has it: whole pages of one memory, in a context. The file's position tells where the dmabuf begins. */
API int cuMemGetHandleForAddressRange(void *handle, uintptr_t p, size_t len, int type, unsigned long long flags)
{
	char path[32];
	struct memory *m;
	int fd = -1;

	if (!depth)
		return INVALID_CONTEXT;
	pthread_mutex_lock(&lock);
	m = find((void *)p);
	if (m && m->shadow && dmabufs == 1 && type == 1 && !flags && len && !((p | len) & 4095) &&
	    p + len <= (((uintptr_t)m->at + m->len + 4095) & ~(uintptr_t)4095)) {
		snprintf(path, sizeof(path), "/proc/self/fd/%d", m->fd);
		fd = open(path, O_RDWR | O_CLOEXEC);
		lseek(fd, (off_t)(p - (uintptr_t)m->at), SEEK_SET);
	}
	pthread_mutex_unlock(&lock);
	*(int *)handle = fd;
	return fd < 0 ? INVALID_VALUE : 0;
}

API int cuFlushGPUDirectRDMAWrites(int target, int scope)
{
	may_block();
	if (!depth)
		return INVALID_CONTEXT;
	flushes++;
	return target || scope != 100 || flush_options != 1 ? INVALID_VALUE : 0;
}
