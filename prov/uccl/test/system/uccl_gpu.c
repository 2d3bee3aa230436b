/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Memory of a real GPU over the built provider: two processes on one host, over loopback unless FI_UCCL_NIC says
 * otherwise. First every kind of transfer between both kinds of memory, every byte compared on the host, also while a
 * graph is captured; then how fast they are, beside the same between buffers of the host, and beside the driver's own
 * copies.
 *
 *   FI_PROVIDER_PATH=build/.libs uccl_gpu [--gpus 1|2] [--calls] [LARGEST [ROUNDS]]
 *
 *   --gpus 2	a GPU for each process, 0 and 1; else they share the first one
 *   --calls	instead: what the provider calls of the CUDA driver once it is warm, and for how long. Exit status 1: it
 *		called something that may wait for a GPU.
 *   LARGEST	bytes (67108864)
 *   ROUNDS	how often the first part runs (1)
 *
 * Exit status 77: there is no GPU, or the provider does not offer its memory; nothing was run.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <rdma/fabric.h>
#include <rdma/fi_atomic.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>

#include "uccl_gpu_calls.h"

#define NOT_RUN 77
#define PATIENCE_S 60
#define WINDOW 8
#define RMA_MODE (FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY)

static int role;	/* 0 begins, 1 answers */
static int gpus = 1;	/* 2: one for each */
static int ordinal;	/* of this one */
static int other;	/* socket to the other process */
static struct fi_info *info;
static struct fid_fabric *fabric;
static struct fid_domain *domain;
static struct fid_ep *ep;
static struct fid_av *av;
static struct fid_cq *cq;
static fi_addr_t peer;
static unsigned long checks, wrong;
static bool lazy;	/* the driver's copies to the GPU are not waited for */

static void die(const char *what, long rc)
{
	fprintf(stderr, "uccl_gpu: side %d: %s: %ld (%s)\n", role, what, rc, rc < 0 ? fi_strerror((int)-rc) : "");
	exit(1);
}

#define must(call)                                                                                                     \
	do {                                                                                                           \
		long rc_ = (long)(call);                                                                               \
		if (rc_)                                                                                               \
			die(#call, rc_);                                                                               \
	} while (0)

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* The driver */

static struct {
	int (*init)(unsigned int flags);
	int (*count)(int *n);
	int (*device)(int *device, int ordinal);
	int (*name)(char *name, int len, int device);
	int (*retain)(void **ctx, int device);
	int (*current)(void *ctx);
	int (*alloc)(uintptr_t *p, size_t len);
	int (*free)(uintptr_t p);
	int (*synchronize)(void);
	int (*put)(uintptr_t to, const void *from, size_t len);
	int (*get)(void *to, uintptr_t from, size_t len);
	int (*pin)(void **p, size_t len, unsigned int flags);
	int (*unpin)(void *p);
	int (*stream_create)(void **stream, unsigned int flags);
	int (*stream_destroy)(void *stream);
	int (*capture_begin)(void *stream, int mode);
	int (*capture_end)(void *stream, void **graph);
	int (*graph_destroy)(void *graph);
} cu;

static bool cuda_open(char *name, size_t size)
{
	static const struct {
		const char *name;
		void *at;
	} functions[] = {
		{"cuInit", &cu.init}, {"cuDeviceGetCount", &cu.count}, {"cuDeviceGet", &cu.device},
		{"cuDeviceGetName", &cu.name}, {"cuDevicePrimaryCtxRetain", &cu.retain},
		{"cuCtxSetCurrent", &cu.current}, {"cuMemAlloc_v2", &cu.alloc}, {"cuMemFree_v2", &cu.free},
		{"cuMemcpyHtoD_v2", &cu.put}, {"cuMemcpyDtoH_v2", &cu.get}, {"cuMemHostAlloc", &cu.pin},
		{"cuMemFreeHost", &cu.unpin}, {"cuCtxSynchronize", &cu.synchronize},
		{"cuStreamCreate", &cu.stream_create}, {"cuStreamDestroy_v2", &cu.stream_destroy},
		{"cuStreamBeginCapture_v2", &cu.capture_begin}, {"cuStreamEndCapture", &cu.capture_end},
		{"cuGraphDestroy", &cu.graph_destroy},
	};
	void *lib = dlopen("libcuda.so.1", RTLD_NOW), *ctx;
	int n = 0, device;

	if (!lib)
		return false;
	for (size_t i = 0; i < sizeof(functions) / sizeof(functions[0]); i++) {
		void *at = dlsym(lib, functions[i].name);

		if (!at)
			return false;
		memcpy(functions[i].at, &at, sizeof(at));
	}
	if (cu.init(0) || cu.count(&n) || n < 1)
		return false;
	if (n < gpus) {
		if (!role)
			fprintf(stderr, "uccl_gpu: --gpus %d: this host has only %d\n", gpus, n);
		exit(1);
	}
	ordinal = gpus > 1 ? role : 0;
	if (cu.device(&device, ordinal))
		return false;
	cu.name(name, (int)size, device);
	return !cu.retain(&ctx, device) && !cu.current(ctx);
}

/* Buffers of either kind */

struct buf {
	bool gpu;
	size_t len;
	uint8_t *at;
	struct fid_mr *mr;
	uint64_t addr, key;	/* of the other side's */
};

static uint8_t *scratch;
static size_t largest = 64u << 20;

static struct buf buf_new(bool gpu, size_t len, bool registered)
{
	struct buf b = { .gpu = gpu, .len = len };
	struct fi_mr_attr attr = { .iov_count = 1, .access = FI_SEND | FI_RECV | FI_READ | FI_WRITE | FI_REMOTE_READ |
							     FI_REMOTE_WRITE };
	struct iovec iov;
	uintptr_t p;

	if (gpu) {
		must(cu.alloc(&p, len));
		b.at = (uint8_t *)p;
		attr.iface = FI_HMEM_CUDA;
		attr.device.cuda = ordinal;
	} else {
		b.at = malloc(len);
		memset(b.at, 1, len);
	}
	iov = (struct iovec){ .iov_base = b.at, .iov_len = len };
	attr.mr_iov = &iov;
	if (registered)
		must(fi_mr_regattr(domain, &attr, 0, &b.mr));
	return b;
}

static void buf_free(struct buf *b)
{
	if (b->mr)
		fi_close(&b->mr->fid);
	if (b->gpu)
		must(cu.free((uintptr_t)b->at));
	else
		free(b->at);
}

static uint8_t pattern(size_t i, unsigned int seed)
{
	return (uint8_t)(i * 131 + (i >> 8) * 29 + (i >> 16) * 7 + seed);
}

static void buf_write(struct buf *b, size_t off, size_t len, unsigned int seed, bool zero)
{
	for (size_t i = 0; i < len; i++)
		scratch[i] = zero ? 0x5a : pattern(i, seed);
	if (b->gpu) {
		must(cu.put((uintptr_t)b->at + off, scratch, len));
		/* It may have returned when the bytes were in memory of the driver. */
		if (!lazy)
			must(cu.synchronize());
	} else {
		memcpy(b->at + off, scratch, len);
	}
}

static void buf_check(struct buf *b, size_t off, size_t len, unsigned int seed, const char *what)
{
	if (b->gpu)
		must(cu.get(scratch, (uintptr_t)b->at + off, len));
	else
		memcpy(scratch, b->at + off, len);
	checks++;
	for (size_t i = 0; i < len; i++)
		if (scratch[i] != pattern(i, seed)) {
			size_t n = 0;

			for (size_t k = i; k < len; k++)
				n += scratch[k] != pattern(k, seed);
			printf("WRONG: %s to side %d (%s): %zu of %zu bytes, first %zu is %u, not %u\n", what, role,
			       b->gpu ? "GPU" : "host", n, len, i, scratch[i], pattern(i, seed));
			fflush(stdout);
			wrong++;
			return;
		}
}

/* The two processes */

static void drive(void)
{
	(void)fi_cq_read(cq, NULL, 0);
}

static void tell(const void *what, size_t len)
{
	if (write(other, what, len) != (ssize_t)len)
		die("write", -errno);
}

static void hear(void *what, size_t len)
{
	size_t n = 0;
	double end = now() + PATIENCE_S;

	while (n < len) {
		ssize_t k = recv(other, (char *)what + n, len - n, MSG_DONTWAIT);

		if (!k || (k < 0 && errno != EAGAIN) || now() > end)
			die("the other side ended", k);
		n += k > 0 ? (size_t)k : 0;
		drive();
	}
}

static void meet(void)
{
	char c = 'x';

	tell(&c, 1);
	hear(&c, 1);
}

static struct fi_cq_tagged_entry completion(const char *what)
{
	struct fi_cq_tagged_entry e = { 0 };
	struct fi_cq_err_entry err = { 0 };
	double end = now() + PATIENCE_S;
	ssize_t rc;

	while ((rc = fi_cq_read(cq, &e, 1)) == -FI_EAGAIN)
		if (now() > end)
			die(what, -FI_ETIMEDOUT);
	if (rc == -FI_EAVAIL) {
		fi_cq_readerr(cq, &err, 0);
		die(what, -err.err);
	}
	if (rc != 1)
		die(what, rc);
	return e;
}

#define post(call)                                                                                                     \
	do {                                                                                                           \
		ssize_t rc_;                                                                                           \
		while ((rc_ = (call)) == -FI_EAGAIN)                                                                   \
			drive();                                                                                       \
		if (rc_)                                                                                               \
			die(#call, rc_);                                                                               \
	} while (0)

static void open_all(void)
{
	struct fi_cq_attr cq_attr = { .format = FI_CQ_FORMAT_TAGGED, .size = 1024 };
	struct fi_av_attr av_attr = { .type = FI_AV_TABLE };
	struct fi_info *hints = fi_allocinfo();
	char mine[256], its[256];
	size_t len = sizeof(mine);
	int rc;

	hints->caps = FI_MSG | FI_TAGGED | FI_RMA | FI_ATOMIC | FI_HMEM;
	hints->ep_attr->type = FI_EP_RDM;
	hints->domain_attr->mr_mode = RMA_MODE | FI_MR_HMEM;
	hints->fabric_attr->prov_name = strdup("uccl");
	if (!getenv("FI_UCCL_NIC"))
		hints->domain_attr->name = strdup("lo");
	rc = fi_getinfo(FI_VERSION(1, 17), NULL, NULL, 0, hints, &info);
	if (rc == -FI_ENODATA) {
		if (!role)
			printf("not run: the provider offers no FI_HMEM\n");
		exit(NOT_RUN);
	}
	must(rc);
	fi_freeinfo(hints);
	must(fi_fabric(info->fabric_attr, &fabric, NULL));
	must(fi_domain(fabric, info, &domain, NULL));
	must(fi_endpoint(domain, info, &ep, NULL));
	must(fi_cq_open(domain, &cq_attr, &cq, NULL));
	must(fi_av_open(domain, &av_attr, &av, NULL));
	must(fi_ep_bind(ep, &av->fid, 0));
	must(fi_ep_bind(ep, &cq->fid, FI_TRANSMIT | FI_RECV));
	must(fi_enable(ep));
	must(fi_getname(&ep->fid, mine, &len));
	tell(mine, len);
	hear(its, len);
	must(fi_av_insert(av, its, 1, &peer, 0, NULL) - 1);
}

static void close_all(void)
{
	must(fi_close(&ep->fid));
	must(fi_close(&cq->fid));
	must(fi_close(&av->fid));
	must(fi_close(&domain->fid));
	must(fi_close(&fabric->fid));
	fi_freeinfo(info);
}

/* Where the other side's buffer is. */
static void swap_keys(struct buf *b)
{
	uint64_t mine[2] = { (uintptr_t)b->at, fi_mr_key(b->mr) }, its[2];

	tell(mine, sizeof(mine));
	hear(its, sizeof(its));
	b->addr = its[0];
	b->key = its[1];
}

enum op { SEND, TAGGED, LATE, WRITE, READ, OPS };

static const char *const op_names[] = { "send", "tagged", "unexpected", "write", "read" };

static void *desc(const struct buf *b, bool with)
{
	return with ? fi_mr_desc(b->mr) : NULL;
}

/* One transfer from side 0 to side 1 (a read: the other way), which is then compared. */
static void transfer(enum op op, struct buf *b, size_t len, bool with, unsigned int seed)
{
	bool source = (op == READ) == role;
	char what[64];

	snprintf(what, sizeof(what), "%s%s, descriptor %d", lazy ? "lazy " : "", op_names[op], with);

	buf_write(b, 0, len, seed, !source);
	if (op == LATE)
		meet();
	if (role && op <= LATE) {
		if (op == LATE) {
			meet();
			for (double end = now() + 0.002; now() < end;)
				drive();
		}
		if (op == TAGGED)
			post(fi_trecv(ep, b->at, len, desc(b, with), FI_ADDR_UNSPEC, 7, 0, NULL));
		else
			post(fi_recv(ep, b->at, len, desc(b, with), FI_ADDR_UNSPEC, NULL));
	}
	if (op != LATE)
		meet();
	if (!role) {
		switch (op) {
		case TAGGED:
			post(fi_tsend(ep, b->at, len, desc(b, with), peer, 7, NULL));
			break;
		case WRITE:
			post(fi_write(ep, b->at, len, desc(b, with), peer, b->addr, b->key, NULL));
			break;
		case READ:
			post(fi_read(ep, b->at, len, desc(b, with), peer, b->addr, b->key, NULL));
			break;
		default:
			post(fi_send(ep, b->at, len, desc(b, with), peer, NULL));
		}
		if (op == LATE)
			meet();
	}
	if (!role || op <= LATE)
		completion(what);
	meet();
	if (!source)
		buf_check(b, 0, len, seed, what);
	meet();
}

static void multi_recv(bool gpu)
{
	static const size_t len[] = { 1, 100, 5000, 70000, 500000, 3 };
	struct buf b = buf_new(gpu, 1 << 20, true);
	struct iovec iov = { .iov_base = b.at, .iov_len = b.len };
	struct fi_msg msg = { .msg_iov = &iov, .iov_count = 1, .addr = FI_ADDR_UNSPEC };

	if (role)
		post(fi_recvmsg(ep, &msg, FI_MULTI_RECV));
	meet();
	for (unsigned int i = 0; i < 6; i++) {
		struct fi_cq_tagged_entry e;

		if (!role) {
			buf_write(&b, 0, len[i], i, false);
			post(fi_send(ep, b.at, len[i], desc(&b, true), peer, NULL));
		}
		e = completion("multi-receive");
		if (role) {
			if (e.len != len[i])
				die("length in a multi-receive buffer", (long)e.len);
			buf_check(&b, (size_t)((uint8_t *)e.buf - b.at), len[i], i, "multi-receive");
		}
		meet();
	}
	/* The rest of the buffer goes back. */
	if (role)
		must(fi_cancel(&ep->fid, NULL) && 0);
	meet();
	while (fi_cq_read(cq, (struct fi_cq_tagged_entry[1]){ 0 }, 1) == -FI_EAVAIL) {
		struct fi_cq_err_entry err = { 0 };

		fi_cq_readerr(cq, &err, 0);
	}
	buf_free(&b);
	meet();
}

static uint64_t word_get(const struct buf *b, unsigned int i)
{
	uint64_t v;

	if (b->gpu)
		must(cu.get(&v, (uintptr_t)b->at + 8 * i, 8));
	else
		memcpy(&v, b->at + 8 * i, 8);
	return v;
}

static void word_set(struct buf *b, unsigned int i, uint64_t v)
{
	if (b->gpu)
		must(cu.put((uintptr_t)b->at + 8 * i, &v, 8));
	else
		memcpy(b->at + 8 * i, &v, 8);
}

static void word_check(const struct buf *b, unsigned int i, uint64_t want, const char *what)
{
	uint64_t v = word_get(b, i);

	checks++;
	if (v == want)
		return;
	printf("WRONG: %s, word %u of side %d (%s) is %llu, not %llu\n", what, i, role, b->gpu ? "GPU" : "host",
	       (unsigned long long)v, (unsigned long long)want);
	fflush(stdout);
	wrong++;
}

/* us for one atomic that fetches; both sides do so to each other at once. Words: operand, compare, result, target. */
static double atomics(bool gpu0, bool gpu1)
{
	enum { OPERAND, COMPARE, RESULT, TARGET, WORDS = 8, N = 300 };
	struct buf b = buf_new(role ? gpu1 : gpu0, 8 * WORDS, true);
	uint8_t *operand = b.at, *compare = b.at + 8 * COMPARE, *result = b.at + 8 * RESULT;
	uint64_t at;
	double t;

	swap_keys(&b);
	at = b.addr + 8 * TARGET;
	for (unsigned int i = 0; i < WORDS; i++)
		word_set(&b, i, 0);
	word_set(&b, OPERAND, 3);
	if (b.gpu)
		must(cu.synchronize());
	meet();
	t = now();
	for (unsigned int i = 0; i < N; i++) {
		post(fi_fetch_atomic(ep, operand, 1, NULL, result, NULL, peer, at, b.key, FI_UINT64, FI_SUM, NULL));
		completion("fetch");
		word_check(&b, RESULT, 3 * i, "fetch");
	}
	t = now() - t;
	meet();
	word_check(&b, TARGET, 3 * N, "sums");
	meet();
	for (unsigned int i = 0; i < N; i++)
		post(fi_atomic(ep, operand, 1, NULL, peer, at, b.key, FI_UINT64, FI_SUM, NULL));
	for (unsigned int i = 0; i < N; i++)
		completion("atomic");
	meet();
	word_check(&b, TARGET, 6 * N, "more sums");
	word_set(&b, COMPARE, 6 * N);
	word_set(&b, OPERAND, 77);
	if (b.gpu)
		must(cu.synchronize());
	meet();
	for (unsigned int i = 0; i < 2; i++) {
		post(fi_compare_atomic(ep, operand, 1, NULL, compare, NULL, result, NULL, peer, at, b.key, FI_UINT64,
				       FI_CSWAP, NULL));
		completion("swap");
		word_check(&b, RESULT, i ? 77 : 6 * N, "swap");
	}
	meet();
	word_check(&b, TARGET, 77, "swapped");
	buf_free(&b);
	meet();
	return t / N * 1e6;
}

static void all_atomics(void)
{
	double hh = atomics(false, false), dh = atomics(true, false);
	double hd = atomics(false, true), dd = atomics(true, true);

	if (!role)
		printf("fetching atomics, us: host-host %.1f, GPU-host %.1f, host-GPU %.1f, GPU-GPU %.1f\n", hh, dh,
		       hd, dd);
	fflush(stdout);
}

/* Every kind of transfer; side 0 on the GPU, side 1, or both. */
static void transfers_of(size_t len, unsigned int seed)
{
	for (int kinds = 1; kinds < 4; kinds++) {
		struct buf b = buf_new(role ? kinds >> 1 & 1 : kinds & 1, len, true);

		swap_keys(&b);
		for (enum op op = SEND; op < OPS; op++)
			for (int with = 0; with < 2; with++)
				transfer(op, &b, len, with, seed++);
		buf_free(&b);
		meet();
	}
}

static void all_transfers(void)
{
	static const size_t sizes[] = { 1, 8, 4096, 65536, 65537, 1u << 20, 16u << 20, 64u << 20 };
	unsigned int seed = 0;

	for (unsigned int i = 0; i < sizeof(sizes) / sizeof(sizes[0]) && sizes[i] <= largest; i++, seed += 30)
		transfers_of(sizes[i], seed + 1);
	multi_recv(true);
	/* Registered memory is told to the driver, which then waits for its copies: all of the above once more. */
	lazy = true;
	for (unsigned int i = 0; i < 100; i++) {
		struct buf b = buf_new(true, 4096, true);

		swap_keys(&b);
		for (enum op op = SEND; op < OPS; op++)
			transfer(op, &b, 4096, true, ++seed);
		buf_free(&b);
		meet();
	}
	lazy = false;
}

/* How many comparisons failed at both sides; told by side 0. */
static void tell_wrong(void)
{
	unsigned long its[2], mine[2] = { checks, wrong };

	tell(mine, sizeof(mine));
	hear(its, sizeof(its));
	wrong += its[1];
	if (!role)
		printf("%lu buffers compared, %lu wrong\n", checks + its[0], wrong);
	fflush(stdout);
}

/* Bytes a second from side 0 to side 1. */
static double rate(enum op op, bool gpu0, bool gpu1, size_t len)
{
	int n = (int)(((size_t)1 << 29) / len), posted = 0, ended = 0;
	struct buf b = buf_new(role ? gpu1 : gpu0, len, true);
	double t = 0;

	n = n > 2000 ? 2000 : n < 16 ? 16 : n;
	swap_keys(&b);
	/* The first half warms up, and is not counted. */
	for (int half = 0; half < 2; half++) {
		meet();
		t = now();
		for (posted = ended = 0; ended < n;) {
			while (posted < n && posted < ended + WINDOW && (!role || op <= LATE)) {
				void *d = desc(&b, true);
				ssize_t rc;

				if (role)
					rc = fi_recv(ep, b.at, len, d, FI_ADDR_UNSPEC, NULL);
				else if (op == SEND)
					rc = fi_send(ep, b.at, len, d, peer, NULL);
				else if (op == WRITE)
					rc = fi_write(ep, b.at, len, d, peer, b.addr, b.key, NULL);
				else
					rc = fi_read(ep, b.at, len, d, peer, b.addr, b.key, NULL);
				if (rc == -FI_EAGAIN)
					break;
				must(rc);
				posted++;
			}
			if (role && op > LATE)
				break;
			if (posted > ended) {
				completion("rate");
				ended++;
			} else {
				drive();
			}
		}
		meet();
		t = now() - t;
	}
	buf_free(&b);
	meet();
	return (double)len * n / t;
}

static double latency(bool gpu0, bool gpu1)
{
	enum { N = 2000 };
	struct buf b = buf_new(role ? gpu1 : gpu0, 8, true);
	double t = 0;

	for (int half = 0; half < 2; half++) {
		meet();
		t = now();
		for (int i = 0; i < N; i++) {
			if (!role)
				post(fi_send(ep, b.at, 8, desc(&b, true), peer, NULL));
			else
				post(fi_recv(ep, b.at, 8, desc(&b, true), FI_ADDR_UNSPEC, NULL));
			completion("ping");
			if (role)
				post(fi_send(ep, b.at, 8, desc(&b, true), peer, NULL));
			else
				post(fi_recv(ep, b.at, 8, desc(&b, true), FI_ADDR_UNSPEC, NULL));
			completion("pong");
		}
		t = now() - t;
	}
	meet();
	buf_free(&b);
	return t / N / 2 * 1e6;
}

/*
 * Messages while this thread captures a graph, in the usual mode: the driver refuses calls that might disturb it, of
 * all threads that do not say otherwise, and ends the capture.
 */
static void transfers_in_capture(void)
{
	enum { LEN = 1 << 20, N = 100, STREAM_NON_BLOCKING = 1, CAPTURE_GLOBAL = 0 };
	struct buf b = buf_new(true, LEN, true);
	void *stream, *graph = NULL;

	if (!role)
		buf_write(&b, 0, LEN, 1, false);
	must(cu.stream_create(&stream, STREAM_NON_BLOCKING));
	meet();
	must(cu.capture_begin(stream, CAPTURE_GLOBAL));
	for (int i = 0; i < N; i++) {
		if (!role)
			post(fi_send(ep, b.at, LEN, desc(&b, i & 1), peer, NULL));
		else
			post(fi_recv(ep, b.at, LEN, desc(&b, i & 1), FI_ADDR_UNSPEC, NULL));
		completion("in a capture");
	}
	meet();
	must(cu.capture_end(stream, &graph));
	must(cu.graph_destroy(graph));
	must(cu.stream_destroy(stream));
	if (role)
		buf_check(&b, 0, LEN, 1, "send in a capture");
	meet();
	buf_free(&b);
}

/* The driver's own copies between a GPU and pinned memory, bytes a second. */
static void own_copies(size_t len, double *put, double *get)
{
	int n = (int)(((size_t)1 << 30) / len);
	struct buf b = buf_new(true, len, false);
	void *host;
	double t;

	n = n > 2000 ? 2000 : n;
	must(cu.pin(&host, len, 0));
	memset(host, 1, len);
	for (int i = 0; i < 10; i++)
		must(cu.put((uintptr_t)b.at, host, len));
	t = now();
	for (int i = 0; i < n; i++)
		must(cu.put((uintptr_t)b.at, host, len));
	*put = (double)len * n / (now() - t);
	t = now();
	for (int i = 0; i < n; i++)
		must(cu.get(host, (uintptr_t)b.at, len));
	*get = (double)len * n / (now() - t);
	must(cu.unpin(host));
	buf_free(&b);
}

static void rates(void)
{
	static const size_t sizes[] = { 4096, 65536, 1u << 20, 16u << 20, 64u << 20 };
	static const enum op ops[] = { SEND, WRITE, READ };
	double put = 0, get = 0, us[3];

	us[0] = latency(false, false);
	us[1] = latency(true, false);
	us[2] = latency(true, true);
	if (!role)
		printf("half a round trip of 8 bytes: host-host %.1f us, GPU-host %.1f us, GPU-GPU %.1f us\n"
		       "MB/s, and share of host-host; driver: cuMemcpy with pinned memory\n"
		       "%-6s %9s %9s %16s %16s %16s %10s %10s\n", us[0], us[1], us[2], "", "bytes", "host-host",
		       "GPU-GPU", "GPU-host", "host-GPU", "driver to", "from");
	for (unsigned int i = 0; i < sizeof(sizes) / sizeof(sizes[0]) && sizes[i] <= largest; i++) {
		/* By one process: two would share the GPU by turns. */
		if (!role)
			own_copies(sizes[i], &put, &get);
		meet();
		for (unsigned int k = 0; k < 3; k++) {
			double hh = rate(ops[k], false, false, sizes[i]), dd = rate(ops[k], true, true, sizes[i]);
			double dh = rate(ops[k], true, false, sizes[i]), hd = rate(ops[k], false, true, sizes[i]);

			if (!role)
				printf("%-6s %9zu %9.0f %9.0f (%.2f) %9.0f (%.2f) %9.0f (%.2f) %10.0f %10.0f\n",
				       op_names[ops[k]], sizes[i], hh * 1e-6, dd * 1e-6, dd / hh, dh * 1e-6, dh / hh,
				       hd * 1e-6, hd / hh, put * 1e-6, get * 1e-6);
			fflush(stdout);
		}
	}
}

static void call_all(void)
{
	static const size_t sizes[] = { 8, 4096, 65536, 1u << 20, 16u << 20 };
	static const enum op ops[] = { SEND, WRITE, READ };

	latency(true, true);
	for (unsigned int i = 0; i < sizeof(sizes) / sizeof(sizes[0]) && sizes[i] <= largest; i++)
		for (unsigned int k = 0; k < 3; k++) {
			rate(ops[k], true, true, sizes[i]);
			rate(ops[k], true, false, sizes[i]);
			rate(ops[k], false, true, sizes[i]);
		}
	atomics(true, true);
	transfers_of(4096, 1);
	transfers_of(1u << 20, 1);
}

/* Of both sides, one after the other: what opens an endpoint is called at first, and must have been seen. */
static void calls_seen(void)
{
	unsigned long first, opening, n, waits;

	transfers_of(4096, 1);
	atomics(true, true);
	first = gpu_calls_count(&opening);
	gpu_calls_reset();
	meet();
	call_all();
	meet();
	n = gpu_calls_count(&waits);
	if (!opening || !n)
		die("the provider's calls were not seen", (long)first);
	for (int side = 0; side < 2; side++) {
		if (side == role) {
			printf("side %d, GPU %d\n", role, ordinal);
			gpu_calls_print();
			printf("side %d: %lu calls, %lu that may wait; at first %lu, %lu that may wait\n", role, n,
			       waits, first, opening);
			fflush(stdout);
		}
		meet();
	}
	wrong += waits;
}

/* The arguments that follow options. */
static char **options(char **argv, bool *calls)
{
	for (argv++; *argv && !strncmp(*argv, "--", 2); argv++) {
		if (!strcmp(*argv, "--calls")) {
			*calls = true;
		} else if (!strcmp(*argv, "--gpus") && argv[1] && (!strcmp(argv[1], "1") || !strcmp(argv[1], "2"))) {
			gpus = atoi(*++argv);
		} else {
			fprintf(stderr, "usage: uccl_gpu [--gpus 1|2] [--calls] [LARGEST [ROUNDS]]\n");
			exit(1);
		}
	}
	return argv;
}

int main(int argc, char **argv)
{
	int pair[2], rounds, status = 0;
	char name[128] = "";
	bool calls = false;
	pid_t child;

	(void)argc;
	argv = options(argv, &calls);
	if (*argv)
		largest = strtoull(*argv, NULL, 0);
	rounds = *argv && argv[1] ? atoi(argv[1]) : 1;
	if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair))
		die("socketpair", -errno);
	/* The driver does not work on in a child. */
	child = fork();
	if (child < 0)
		die("fork", -errno);
	role = !child;
	other = pair[role];
	close(pair[!role]);
	if (!cuda_open(name, sizeof(name))) {
		if (!role)
			printf("not run: no GPU\n");
		return NOT_RUN;
	}
	scratch = malloc(largest > 1 << 20 ? largest : 1 << 20);
	open_all();
	if (!role)
		printf("%s%s\n", name, gpus > 1 ? ", one for each process" : "");
	fflush(stdout);
	for (int i = 0; i < rounds && !calls; i++)
		all_transfers();
	if (calls)
		calls_seen();
	else
		all_atomics();
	if (!calls)
		transfers_in_capture();
	tell_wrong();
	if (!calls)
		rates();
	meet();
	close_all();
	free(scratch);
	if (role)
		return wrong != 0;
	waitpid(child, &status, 0);
	return wrong || !WIFEXITED(status) ? 1 : WEXITSTATUS(status);
}
