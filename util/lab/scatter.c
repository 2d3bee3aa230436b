/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Many short runs of bytes to and from memory of a GPU: by a copy of the driver for each, by one launch of the program
 * that the provider has for it (hmem/scatter_ptx.c), and, for comparison, as one copy of as many bytes that lie
 * together. Every byte is compared. Before it, what this GPU lets NICs do: dmabufs of its memory, and who sees what
 * they wrote.
 *
 * Without --runs and --bytes it goes through some of each. --shift: so many bytes away from where source and place lie
 * alike. For each way it prints the median time in us that the calls take, and until the bytes are there. Exit status
 * 77: there is no GPU.
 */
#include <dlfcn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <rdma/fi_errno.h>

#include "base/rng.h"
#include "base/units.h"
#include "hmem/cuda.h"
#include "lab.h"

#define RUNS_MOST UCCL_HMEM_RUNS
#define BYTES_MOST (64u << 10)
#define ROUNDS_MOST 10000u

static const struct uccl_hmem_ops *const h = &uccl_cuda_hmem;
static struct uccl_hmem_queue *q;
static uint8_t *host, *seen; /* pinned; what was read */
static uint8_t *gpu, *other; /* memory of the GPU, the first as NICs are lent it */
static struct uccl_rng rng;
static uint64_t rounds = 200, shift;

static struct {
	int (*device)(int *device, int ordinal);
	int (*name)(char *name, int len, int device);
	int (*retain)(void **ctx, int device);
	int (*current)(void *ctx);
	int (*alloc)(uintptr_t *p, size_t len);
	int (*free)(uintptr_t p);
} cu;

static bool driver_open(void)
{
	static const struct {
		const char *name;
		void *at;
	} functions[] = {
		{"cuDeviceGet", &cu.device}, {"cuDeviceGetName", &cu.name},  {"cuDevicePrimaryCtxRetain", &cu.retain},
		{"cuCtxSetCurrent", &cu.current}, {"cuMemAlloc_v2", &cu.alloc}, {"cuMemFree_v2", &cu.free},
	};
	void *lib = dlopen(UCCL_CUDA_FILE, RTLD_NOW), *ctx;
	int device;

	for (size_t i = 0; lib && i < uccl_array_len(functions); i++) {
		void *at = dlsym(lib, functions[i].name);

		if (!at)
			return false;
		memcpy(functions[i].at, &at, sizeof(at));
	}
	return lib && !cu.device(&device, 0) && !cu.retain(&ctx, device) && !cu.current(ctx);
}

static uint8_t *gpu_alloc(size_t len)
{
	uintptr_t p;

	return cu.alloc(&p, len) ? NULL : (uint8_t *)p;
}

static double now_us(void)
{
	return (double)lab_clock(CLOCK_MONOTONIC) * 1e-3;
}

/* 0, or -FI_Exxx. */
static int finish(void)
{
	struct uccl_hmem_mark *m = h->mark(q);
	int rc;

	if (!m)
		return -FI_EIO;
	while (!(rc = h->passed(q, m)))
		;
	return rc < 0 ? rc : 0;
}

/* What NICs may do; so many bytes are as they are lent. */
static void nics(size_t lent)
{
	static const size_t lens[] = {1, 1000, 4096, 5000, 1u << 20, (2u << 20) + 4096};
	static const size_t offs[] = {0, 1, 777, 4096, 70000};
	int made = 0, tried = 0, fd;
	uint64_t off;

	printf("NICs may write to it: %s", h->direct(q) ? "yes" : "no");
	if (h->direct(q)) {
		double t = now_us();
		int rc = h->flush(q);

		printf("; a flush takes %.1f us%s", now_us() - t, rc ? " and FAILS" : "");
	}
	printf("\ndmabufs:");
	for (size_t i = 0; i < uccl_array_len(lens); i++) {
		uint8_t *p = gpu_alloc(lens[i] + 70000);
		double took = 0;

		for (size_t k = 0; p && k < uccl_array_len(offs); k++) {
			double t = now_us();

			off = 0;
			fd = h->dmabuf(q, p + offs[k], lens[i], &off);
			took += now_us() - t;
			tried++;
			made += fd >= 0 && off == ((uintptr_t)(p + offs[k]) & 4095);
			if (fd >= 0)
				close(fd);
			else
				printf(" [%zu bytes at %zu: %s]", lens[i], offs[k], strerror(-fd));
		}
		printf(" %zu bytes %.0f us;", lens[i], took / (double)uccl_array_len(offs));
		if (p)
			cu.free((uintptr_t)p);
	}
	printf(" %d of %d made", made, tried);
	off = 1;
	fd = h->dmabuf(q, gpu, lent, &off);
	printf("; of memory that NICs are lent, %zu bytes: %s\n", lent,
	       fd < 0 ? strerror(-fd) : off ? "not from its first page on" : "made");
	if (fd >= 0)
		close(fd);
}

/* Runs. */

enum way { COPIES, KERNEL, ONE, WAYS };
enum kind { TO_GPU, FROM_GPU, WITHIN, KINDS };
static const char *const kinds[] = {"host to GPU", "GPU to host", "GPU to GPU"};

static struct uccl_hmem_run run[RUNS_MOST];

/* So many runs of a packed memory to places in random order, with a gap between them. */
static void runs_make(enum kind kind, unsigned int n, size_t bytes)
{
	uint8_t *packed = kind == TO_GPU ? host : gpu, *spread = kind == FROM_GPU ? host : other;
	uint32_t order[RUNS_MOST];

	for (unsigned int i = 0; i < n; i++)
		order[i] = i;
	for (unsigned int i = n; i > 1; i--) {
		uint32_t k = (uint32_t)uccl_rng_below(&rng, i), was = order[k];

		order[k] = order[i - 1];
		order[i - 1] = was;
	}
	for (unsigned int i = 0; i < n; i++)
		run[i] = (struct uccl_hmem_run){.to = spread + shift + order[i] * (size_t)(BYTES_MOST + 4096),
						.from = packed + i * ((bytes + 15) & ~(size_t)15),
						.len = bytes};
}

static int copy(enum kind kind, void *to, const void *from, uint64_t len)
{
	if (kind == TO_GPU)
		return h->put(q, to, from, len);
	return kind == FROM_GPU ? h->get(q, to, from, len) : h->move(q, to, from, len);
}

static int begin(enum way way, enum kind kind, unsigned int n, size_t bytes)
{
	int rc = 0;

	if (way == KERNEL)
		return h->scatter(q, run, n);
	if (way == ONE)
		return copy(kind, kind == FROM_GPU ? host : other, kind == TO_GPU ? host : gpu, n * bytes);
	for (unsigned int i = 0; i < n && !rc; i++)
		rc = copy(kind, run[i].to, run[i].from, run[i].len);
	return rc;
}

/* Between the host's memory and the GPU's, in parts that fit. */
static int all(bool to_gpu, uint8_t *device, uint8_t *plain, size_t len)
{
	int rc = 0;

	for (size_t at = 0; at < len && !rc; at += BYTES_MOST) {
		size_t part = uccl_min(len - at, BYTES_MOST);

		if (to_gpu)
			memcpy(host, plain + at, part);
		rc = to_gpu ? h->put(q, device + at, host, part) : h->get(q, host, device + at, part);
		rc = rc ? rc : finish();
		if (!to_gpu)
			memcpy(plain + at, host, part);
	}
	return rc;
}

/* Do the runs once, and look at every byte of the places and of what lies between. How many are wrong; -1: an error. */
static long runs_check(enum way way, enum kind kind, unsigned int n, size_t bytes, size_t span)
{
	uint8_t *packed = malloc(span), *spread = malloc(span), *want = malloc(span);
	long wrong = 0;

	for (size_t i = 0; i < span; i++) {
		packed[i] = (uint8_t)uccl_rng_next(&rng);
		spread[i] = want[i] = 0xa5;
	}
	for (unsigned int i = 0; i < n; i++) {
		size_t to = (size_t)((uint8_t *)run[i].to - (kind == FROM_GPU ? host : other));
		size_t from = (size_t)((const uint8_t *)run[i].from - (kind == TO_GPU ? host : gpu));

		memcpy(want + to, packed + from, bytes);
	}
	if (kind != TO_GPU && all(true, gpu, packed, span))
		wrong = -1;
	if (kind != FROM_GPU && all(true, other, spread, span))
		wrong = -1;
	memcpy(host, kind == TO_GPU ? packed : spread, span);
	if (wrong || begin(way, kind, n, bytes) || finish())
		wrong = -1;
	memcpy(seen, host, span);
	if (!wrong && kind != FROM_GPU && all(false, other, seen, span))
		wrong = -1;
	for (size_t i = 0; !wrong && i < span; i++)
		wrong += seen[i] != want[i];
	free(packed);
	free(spread);
	free(want);
	return wrong;
}

static int measure(enum kind kind, unsigned int n, size_t bytes, size_t span)
{
	static uint64_t calls[WAYS][ROUNDS_MOST], there[WAYS][ROUNDS_MOST];
	static const char *const ways[] = {"copies", "kernel", "one"};
	double c[WAYS], t[WAYS];
	long wrong = 0;

	runs_make(kind, n, bytes);
	for (enum way way = COPIES; way < ONE && !wrong; way++) {
		wrong = runs_check(way, kind, n, bytes, span);
		if (wrong)
			printf("%s of %u runs of %zu bytes, %s: %ld bytes WRONG\n", ways[way], n, bytes, kinds[kind],
			       wrong);
	}
	for (uint64_t r = 0; r < rounds && !wrong; r++)
		for (enum way way = COPIES; way < WAYS; way++) {
			uint64_t from = lab_clock(CLOCK_MONOTONIC);

			if (begin(way, kind, n, bytes))
				return 1;
			calls[way][r] = lab_clock(CLOCK_MONOTONIC) - from;
			if (finish())
				return 1;
			there[way][r] = lab_clock(CLOCK_MONOTONIC) - from;
		}
	if (wrong)
		return 1;
	for (enum way way = COPIES; way < WAYS; way++) {
		c[way] = (double)lab_median(calls[way], rounds) * 1e-3;
		t[way] = (double)lab_median(there[way], rounds) * 1e-3;
	}
	printf("%-11s %4u %6zu | %7.1f %7.1f %7.1f | %7.1f %7.1f %7.1f | %5.2f %5.2f\n", kinds[kind], n, bytes,
	       c[COPIES], c[KERNEL], c[ONE], t[COPIES], t[KERNEL], t[ONE], t[COPIES] / t[KERNEL], t[ONE] / t[KERNEL]);
	return 0;
}

int lab_scatter(int argc, char **argv)
{
	static const unsigned int some_runs[] = {1, 2, 4, 8, 16, 32, 64, 128};
	static const size_t some_bytes[] = {256, 1440, 4096, 8192, 16384, 32768, 65536};
	size_t span = RUNS_MOST * (size_t)(BYTES_MOST + 4096) + 16;
	uint64_t only_bytes = 0, only_runs = 0;
	const struct lab_option options[] = {
		{0, "runs", "how many, 0: some of each", .number = &only_runs, .least = 1, .most = RUNS_MOST},
		{0, "bytes", "of a run, 0: some of each", .number = &only_bytes, .least = 1, .most = BYTES_MOST},
		{0, "rounds", "how often each is measured", .number = &rounds, .least = 1, .most = ROUNDS_MOST},
		{0, "shift", "bytes away from where source and place lie alike", .number = &shift, .most = 15},
	};
	const char *missing;
	char name[128] = "";
	int device, bad = 0;

	lab_options(argc, argv, options, uccl_array_len(options), "  Copies to and from many places of a GPU.");
	if (uccl_cuda_open(UCCL_CUDA_FILE, &missing)) {
		printf("uccl_lab scatter: nothing is measured: %s is missing\n", missing);
		return LAB_NOT_RUN;
	}
	uccl_rng_seed(&rng, 1);
	if (!driver_open() || h->open(0, &q) || !(gpu = h->take(q, span)) || !(other = gpu_alloc(span)) ||
	    !(host = h->pin(q, span)) || !(seen = malloc(span)))
		die("the GPU, or its memory, cannot be used");
	if (!cu.device(&device, 0))
		cu.name(name, sizeof(name), device);
	printf("%s\n", name);
	nics(span);
	if (h->scatter(q, run, 0) == -FI_ENOSYS) {
		printf("the driver does not take our program: runs are copied one by one\n");
		return 1;
	}
	printf("us, medians of %llu rounds | the calls: copies, kernel, one | there: copies, kernel, one | to kernel: "
	       "copies, one\n",
	       (unsigned long long)rounds);
	for (enum kind kind = TO_GPU; kind < KINDS; kind++)
		for (size_t b = 0; b < (only_bytes ? 1 : uccl_array_len(some_bytes)); b++)
			for (size_t n = 0; n < (only_runs ? 1 : uccl_array_len(some_runs)); n++)
				bad |= measure(kind, only_runs ? (unsigned int)only_runs : some_runs[n],
					       only_bytes ? only_bytes : some_bytes[b], span);
	h->unpin(q, host);
	h->give(q, gpu);
	cu.free((uintptr_t)other);
	h->close(q);
	free(seen);
	return bad;
}
