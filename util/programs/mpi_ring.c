/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * An MPI program whose every received byte is checked: ring, any-source gather, allreduce and alltoall over many
 * sizes; then, with -b, latency and bandwidth between ranks 0 and 1. Rank 0 prints progress on stderr and lines
 * that start with "result" on stdout. Ends with MPI_Abort and a message on the first wrong byte.
 *
 *	mpirun -n 4 mpi_ring [-b] [-d] [-r ROUNDS] [-s SECONDS]
 *
 * -s repeats the checks until so much time is over (for faults that strike in the middle of a run). -d: what MPI is
 * given is memory of a GPU (of NVIDIA; the MPI must be built for that), which the host fills and compares by copies.
 */
#include <dlfcn.h>
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SIZE_MAX_BYTES (4u << 20)
#define WINDOW 16
#define BATCHES 9

static const int sizes[] = {0,	  1,	 7,	8,     64,    1000,   4095,    4096,
			    4097, 16383, 16384, 16385, 65536, 100001, 1 << 20, SIZE_MAX_BYTES};
#define NSIZES ((int)(sizeof(sizes) / sizeof(sizes[0])))

static int rank, ranks;
static uint64_t checked; /* bytes that this rank has compared */

/* The CUDA driver, looked for at run time: its functions have these shapes in its ABI, and 0 is success. */
static struct {
	int (*init)(unsigned flags);
	int (*count)(int *n);
	int (*device)(int *device, int ordinal);
	int (*retain)(void **ctx, int device);
	int (*current)(void *ctx);
	int (*alloc)(uintptr_t *p, size_t len);
	int (*to)(uintptr_t dst, const void *src, size_t len);
	int (*from)(void *dst, uintptr_t src, size_t len);
	int (*set)(uintptr_t dst, unsigned char value, size_t len);
} cu;
static uint8_t *stage; /* with -d: where the host fills and compares what is in the GPU's memory */

static const char *gpu_load(void)
{
	static const struct {
		const char *name;
		void *to;
	} f[] = {
		{"cuInit", &cu.init},		      {"cuDeviceGetCount", &cu.count},
		{"cuDeviceGet", &cu.device},	      {"cuDevicePrimaryCtxRetain", &cu.retain},
		{"cuCtxSetCurrent", &cu.current},     {"cuMemAlloc_v2", &cu.alloc},
		{"cuMemcpyHtoD_v2", &cu.to},	      {"cuMemcpyDtoH_v2", &cu.from},
		{"cuMemsetD8_v2", &cu.set},
	};
	void *lib = dlopen("libcuda.so.1", RTLD_NOW);
	size_t i;

	if (!lib)
		return dlerror();
	for (i = 0; i < sizeof(f) / sizeof(f[0]); i++) {
		void *p = dlsym(lib, f[i].name);

		if (!p)
			return dlerror();
		memcpy(f[i].to, &p, sizeof(p));
	}
	return NULL;
}

/* Before MPI_Init(), as an MPI looks for a context there: one for each rank of this host, from GPU to GPU in turn. */
static void gpu_begin(void)
{
	static const char *const names[] = {"OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "SLURM_LOCALID"};
	const char *why = gpu_load(), *local = NULL;
	int n = 0, device;
	void *ctx;
	size_t i;

	for (i = 0; !local && i < sizeof(names) / sizeof(names[0]); i++)
		local = getenv(names[i]);
	if (!why && (cu.init(0) || cu.count(&n) || !n))
		why = "the driver finds none";
	if (!why && (cu.device(&device, local ? atoi(local) % n : 0) || cu.retain(&ctx, device) || cu.current(ctx)))
		why = "the driver gives no context";
	if (!why)
		return;
	fprintf(stderr, "mpi_ring: no GPU: %s\n", why);
	exit(2);
}

static void gpu_must(int rc)
{
	if (!rc)
		return;
	fprintf(stderr, "mpi_ring: rank %d: the CUDA driver fails with %d\n", rank, rc);
	MPI_Abort(MPI_COMM_WORLD, 4);
}

static uint8_t *buffer(int gpu, size_t len)
{
	uintptr_t p;

	if (!gpu)
		return malloc(len);
	gpu_must(cu.alloc(&p, len));
	return (uint8_t *)p;
}

/* Where the host may write what put() then brings into a buffer, and where it finds what get() took from there. */
static uint8_t *host(uint8_t *buf)
{
	return stage ? stage : buf;
}

static void put(uint8_t *buf, size_t len)
{
	if (stage && len)
		gpu_must(cu.to((uintptr_t)buf, stage, len));
}

static uint8_t *get(uint8_t *buf, size_t len)
{
	if (stage && len)
		gpu_must(cu.from(stage, (uintptr_t)buf, len));
	return host(buf);
}

static void clear(uint8_t *buf, size_t len)
{
	if (!stage)
		memset(buf, 0, len);
	else if (len)
		gpu_must(cu.set((uintptr_t)buf, 0, len));
}

static void fail(const char *what, int from, int size, size_t at)
{
	fprintf(stderr, "mpi_ring: rank %d: %s: byte %zu of %d from rank %d is wrong\n", rank, what, at, size, from);
	MPI_Abort(MPI_COMM_WORLD, 3);
}

static uint8_t pattern(uint32_t from, uint32_t to, uint32_t salt, size_t i)
{
	uint64_t x = ((uint64_t)from << 40 ^ (uint64_t)to << 20 ^ salt) * 0x9e3779b97f4a7c15ull + i;

	x ^= x >> 29;
	x *= 0xbf58476d1ce4e5b9ull;
	return (uint8_t)(x >> 32);
}

static void fill(uint8_t *buf, int from, int to, int salt, size_t n)
{
	uint8_t *at = host(buf);
	size_t i;

	for (i = 0; i < n; i++)
		at[i] = pattern((uint32_t)from, (uint32_t)to, (uint32_t)salt, i);
	put(buf, n);
}

static void compare(const char *what, uint8_t *buf, int from, int to, int salt, size_t n)
{
	const uint8_t *at = get(buf, n);
	size_t i;

	for (i = 0; i < n; i++)
		if (at[i] != pattern((uint32_t)from, (uint32_t)to, (uint32_t)salt, i))
			fail(what, from, (int)n, i);
	checked += n;
}

static void test_ring(uint8_t *out, uint8_t *in, int salt)
{
	int next = (rank + 1) % ranks, prev = (rank + ranks - 1) % ranks;
	int k, count;

	for (k = 0; k < NSIZES; k++) {
		MPI_Request req[2];
		MPI_Status status[2];

		fill(out, rank, next, salt + k, (size_t)sizes[k]);
		clear(in, (size_t)sizes[k]);
		MPI_Irecv(in, (int)SIZE_MAX_BYTES, MPI_BYTE, prev, k, MPI_COMM_WORLD, &req[0]);
		MPI_Isend(out, sizes[k], MPI_BYTE, next, k, MPI_COMM_WORLD, &req[1]);
		MPI_Waitall(2, req, status);
		MPI_Get_count(&status[0], MPI_BYTE, &count);
		if (count != sizes[k])
			fail("ring: length", prev, count, 0);
		compare("ring", in, prev, rank, salt + k, (size_t)count);
	}
}

/* All ranks send to rank 0, which takes them as they come; most arrive before their receive is posted. */
static void test_gather(uint8_t *out, uint8_t *in, int salt)
{
	static const int size[] = {16, 5000, 200000};
	MPI_Request req[3];
	int k, n, count;

	/* Taken in the other order: a blocking send may wait for its receive. */
	for (k = 0; rank && k < 3; k++) {
		fill(out, rank, 0, salt + k, (size_t)size[k]);
		MPI_Isend(out, size[k], MPI_BYTE, 0, 100 + k, MPI_COMM_WORLD, &req[k]);
		out += size[k];
	}
	for (k = 2; !rank && k >= 0; k--) {
		for (n = 1; n < ranks; n++) {
			MPI_Status status;

			MPI_Probe(MPI_ANY_SOURCE, 100 + k, MPI_COMM_WORLD, &status);
			MPI_Recv(in, (int)SIZE_MAX_BYTES, MPI_BYTE, status.MPI_SOURCE, 100 + k, MPI_COMM_WORLD,
				 &status);
			MPI_Get_count(&status, MPI_BYTE, &count);
			if (count != size[k])
				fail("gather: length", status.MPI_SOURCE, count, 0);
			compare("gather", in, status.MPI_SOURCE, 0, salt + k, (size_t)count);
		}
	}
	if (rank)
		MPI_Waitall(3, req, MPI_STATUSES_IGNORE);
}

static void test_allreduce(uint8_t *out, uint8_t *in)
{
	static const int count[] = {1, 100, 10000, 100000};
	int64_t *a;
	int k, i;

	for (k = 0; k < 4; k++) {
		a = (int64_t *)host(out);
		for (i = 0; i < count[k]; i++)
			a[i] = (int64_t)(rank + 1) * (i + k);
		put(out, (size_t)count[k] * 8);
		MPI_Allreduce(out, in, count[k], MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD);
		a = (int64_t *)get(in, (size_t)count[k] * 8);
		for (i = 0; i < count[k]; i++)
			if (a[i] != (int64_t)ranks * (ranks + 1) / 2 * (i + k))
				fail("allreduce", -1, count[k] * 8, (size_t)i * 8);
		checked += (uint64_t)count[k] * 8;
	}
}

static void test_alltoall(uint8_t *out, uint8_t *in, int salt)
{
	static const int size[] = {1, 300, 20000, 150000};
	int k, r;

	for (k = 0; k < 4; k++) {
		int n = size[k];

		if ((size_t)n * (size_t)ranks > SIZE_MAX_BYTES)
			break;
		for (r = 0; r < ranks; r++)
			fill(out + (size_t)r * (size_t)n, rank, r, salt + k, (size_t)n);
		clear(in, (size_t)n * (size_t)ranks);
		MPI_Alltoall(out, n, MPI_BYTE, in, n, MPI_BYTE, MPI_COMM_WORLD);
		for (r = 0; r < ranks; r++)
			compare("alltoall", in + (size_t)r * (size_t)n, r, rank, salt + k, (size_t)n);
	}
}

static void progress(const char *what)
{
	MPI_Barrier(MPI_COMM_WORLD);
	if (!rank)
		fprintf(stderr, "   %s\n", what);
}

static int ascending(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

/* Microseconds of one transfer: the median of batches of ping-pongs. */
static double bench_latency(uint8_t *out, uint8_t *in, int size, int rounds)
{
	double batch[BATCHES];
	int k, i;

	for (k = 0; k < BATCHES; k++) {
		double t = MPI_Wtime();

		for (i = 0; i < rounds; i++) {
			if (rank == 0) {
				MPI_Send(out, size, MPI_BYTE, 1, 7, MPI_COMM_WORLD);
				MPI_Recv(in, size, MPI_BYTE, 1, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
			} else {
				MPI_Recv(in, size, MPI_BYTE, 0, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
				MPI_Send(out, size, MPI_BYTE, 0, 7, MPI_COMM_WORLD);
			}
		}
		batch[k] = (MPI_Wtime() - t) * 1e6 / (2.0 * rounds);
	}
	qsort(batch, BATCHES, sizeof(batch[0]), ascending);
	return batch[BATCHES / 2];
}

/* MB/s from rank 0 to rank 1: the median of batches of windows, each answered once. */
static double bench_bandwidth(uint8_t *out, uint8_t *in, int size, int rounds)
{
	MPI_Request req[WINDOW];
	double batch[BATCHES];
	int k, i, w;

	for (k = 0; k < BATCHES; k++) {
		double t = MPI_Wtime();

		for (i = 0; i < rounds; i++) {
			for (w = 0; w < WINDOW; w++) {
				if (rank == 0)
					MPI_Isend(out, size, MPI_BYTE, 1, 8, MPI_COMM_WORLD, &req[w]);
				else
					MPI_Irecv(in + (size_t)w * (size_t)size, size, MPI_BYTE, 0, 8, MPI_COMM_WORLD,
						  &req[w]);
			}
			MPI_Waitall(WINDOW, req, MPI_STATUSES_IGNORE);
			if (rank == 0)
				MPI_Recv(in, 1, MPI_BYTE, 1, 9, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
			else
				MPI_Send(out, 1, MPI_BYTE, 0, 9, MPI_COMM_WORLD);
		}
		batch[k] = (double)rounds * WINDOW * size / (MPI_Wtime() - t) / 1e6;
	}
	qsort(batch, BATCHES, sizeof(batch[0]), ascending);
	return batch[BATCHES / 2];
}

static void bench(uint8_t *out, uint8_t *in)
{
	double lat, bw64k, bw1m;

	if (rank < 2) {
		bench_latency(out, in, 8, 50);
		lat = bench_latency(out, in, 8, 300);
		bench_bandwidth(out, in, 1 << 20, 1);
		bw64k = bench_bandwidth(out, in, 65536, 8);
		bw1m = bench_bandwidth(out, in, 1 << 20, 2);
		if (!rank)
			printf("result bench lat8_us=%.2f bw64k_mbs=%.0f bw1m_mbs=%.0f\n", lat, bw64k, bw1m);
	}
	progress("latency and bandwidth between ranks 0 and 1 measured");
}

int main(int argc, char **argv)
{
	uint64_t total = 0;
	double seconds = 0, start;
	int with_bench = 0, gpu = 0, rounds = 1, done = 0, c, more = 1, usage = 0;
	uint8_t *out, *in;

	while ((c = getopt(argc, argv, "bdr:s:")) != -1) {
		if (c == 'b')
			with_bench = 1;
		else if (c == 'd')
			gpu = 1;
		else if (c == 'r')
			rounds = atoi(optarg);
		else if (c == 's')
			seconds = atof(optarg);
		else
			usage = 1;
	}
	if (gpu)
		gpu_begin();
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	if (usage || ranks < 2) {
		fprintf(stderr, usage ? "usage: mpi_ring [-b] [-d] [-r ROUNDS] [-s SECONDS]\n" :
					"mpi_ring: needs at least two ranks\n");
		MPI_Abort(MPI_COMM_WORLD, 2);
	}
	out = buffer(gpu, (size_t)SIZE_MAX_BYTES * WINDOW);
	in = buffer(gpu, (size_t)SIZE_MAX_BYTES * WINDOW);
	if (gpu)
		stage = malloc(SIZE_MAX_BYTES);
	if (!out || !in || (gpu && !stage))
		MPI_Abort(MPI_COMM_WORLD, 2);
	clear(out, SIZE_MAX_BYTES);

	progress("all ranks are up");
	start = MPI_Wtime();
	while (more) {
		test_ring(out, in, 1000 * done);
		if (!done)
			progress("ring: every size arrived whole");
		test_gather(out, in, 1000 * done);
		test_allreduce(out, in);
		test_alltoall(out, in, 1000 * done);
		if (!done)
			progress("gather from any source, allreduce, alltoall: right");
		done++;
		more = done < rounds || MPI_Wtime() - start < seconds;
		MPI_Bcast(&more, 1, MPI_INT, 0, MPI_COMM_WORLD);
	}
	MPI_Reduce(&checked, &total, 1, MPI_UINT64_T, MPI_SUM, 0, MPI_COMM_WORLD);
	if (!rank)
		printf("result check ok ranks=%d rounds=%d bytes=%llu seconds=%.2f%s\n", ranks, done,
		       (unsigned long long)total, MPI_Wtime() - start, gpu ? " memory=gpu" : "");
	if (with_bench)
		bench(out, in);
	if (!gpu) {
		free(out);
		free(in);
	}
	free(stage); /* a GPU's memory ends with the process */
	MPI_Finalize();
	return 0;
}
