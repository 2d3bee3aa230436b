/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What groups of ranks do, measured over whatever MPI runs on. Contents are checked before each measurement.
 *
 *	mpirun -n 8 mpi_groups [-t TEST,...] [-s BYTES,...] [-S SECONDS] [-i CALLS]
 *
 *	-t  tests (all from latency on): init, connect, latency, rate, alltoall, allgather, allreduce, bcast,
 *	    reduce_scatter, barrier
 *	-s  bytes a rank sends to each other one, k and m known (8,1k,4k,16k,64k,256k,1m); init, connect and barrier
 *	    have none
 *	-S  seconds of one measurement (0.25)
 *	-i  calls of one measurement, instead of a time: for those who count packets a call
 *
 * One line for each test and size: "result groups test=T ranks=N bytes=B calls=K us=U", U the mean of all ranks, in us:
 * of a call; of half a round trip between the ranks 0 and 1 (latency); of a message, where each rank of the first half
 * sends windows of 64 to one of the second (rate). "init" is the time from MPI_Init to the end of the first barrier, of
 * the rank that started last; "connect" is that of the first MPI_Alltoall, of 8 bytes. The exit status is 1 if a byte
 * was wrong.
 */
#include <mpi.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define WINDOW 64
#define WARM_CALLS 5
#define CALLS_MIN 5
#define CALLS_MAX 20000

static int rank, ranks;

struct test {
	const char *name;
	void (*call)(long bytes); /* once */
	void (*fill)(long bytes, int turn), (*check)(long bytes, int turn); /* before and after a call */
	size_t out, in;	 /* buffers, in units of `bytes`: 0 is one for each rank */
	int per_call;	 /* what is timed of a call: 2 half round trips, WINDOW messages */
};

static uint8_t *out, *in;

static void fail(const char *what, long bytes, int turn)
{
	fprintf(stderr, "mpi_groups: rank %d: %s of %ld bytes, turn %d: wrong contents\n", rank, what, bytes, turn);
	MPI_Abort(MPI_COMM_WORLD, 1);
}

/* Byte `at` of what `from` sends to `to`. */
static uint8_t content(int from, int to, long at, int turn)
{
	return (uint8_t)(from * 7 + to * 3 + turn * 11 + at + at / 251);
}

static void block_fill(uint8_t *p, int from, int to, long bytes, int turn)
{
	for (long i = 0; i < bytes; i++)
		p[i] = content(from, to, i, turn);
}

static void block_check(const char *what, const uint8_t *p, int from, int to, long bytes, int turn)
{
	for (long i = 0; i < bytes; i++)
		if (p[i] != content(from, to, i, turn))
			fail(what, bytes, turn);
}

/* Pairs: 0 and 1 (latency), or each of the first half with one of the second (rate). */
static void latency_call(long bytes)
{
	if (rank == 0) {
		MPI_Send(out, (int)bytes, MPI_BYTE, 1, 1, MPI_COMM_WORLD);
		MPI_Recv(in, (int)bytes, MPI_BYTE, 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	} else if (rank == 1) {
		MPI_Recv(in, (int)bytes, MPI_BYTE, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		MPI_Send(out, (int)bytes, MPI_BYTE, 0, 1, MPI_COMM_WORLD);
	}
}

static void latency_fill(long bytes, int turn)
{
	block_fill(out, rank, 0, bytes, turn);
	memset(in, 0xa5, (size_t)bytes);
}

static void latency_check(long bytes, int turn)
{
	if (rank < 2)
		block_check("latency", in, !rank, 0, bytes, turn);
}

static void rate_call(long bytes)
{
	MPI_Request req[WINDOW];
	int half = ranks / 2, other = rank < half ? rank + half : rank - half;
	uint8_t done = 0;

	if (other >= ranks || rank >= 2 * half)
		return;
	for (int i = 0; i < WINDOW; i++) {
		if (rank < half)
			MPI_Isend(out, (int)bytes, MPI_BYTE, other, 2, MPI_COMM_WORLD, &req[i]);
		else
			MPI_Irecv(in + (size_t)i * (size_t)bytes, (int)bytes, MPI_BYTE, other, 2, MPI_COMM_WORLD,
				  &req[i]);
	}
	MPI_Waitall(WINDOW, req, MPI_STATUSES_IGNORE);
	if (rank < half)
		MPI_Recv(&done, 1, MPI_BYTE, other, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	else
		MPI_Send(&done, 1, MPI_BYTE, other, 3, MPI_COMM_WORLD);
}

static void rate_fill(long bytes, int turn)
{
	block_fill(out, rank, 0, bytes, turn);
	memset(in, 0xa5, WINDOW * (size_t)bytes);
}

static void rate_check(long bytes, int turn)
{
	int half = ranks / 2;

	for (int i = 0; rank >= half && rank < 2 * half && i < WINDOW; i++)
		block_check("rate", in + (size_t)i * (size_t)bytes, rank - half, 0, bytes, turn);
}

static void alltoall_call(long bytes)
{
	MPI_Alltoall(out, (int)bytes, MPI_BYTE, in, (int)bytes, MPI_BYTE, MPI_COMM_WORLD);
}

static void alltoall_fill(long bytes, int turn)
{
	for (int to = 0; to < ranks; to++)
		block_fill(out + (size_t)to * (size_t)bytes, rank, to, bytes, turn);
	memset(in, 0xa5, (size_t)ranks * (size_t)bytes);
}

static void alltoall_check(long bytes, int turn)
{
	for (int from = 0; from < ranks; from++)
		block_check("alltoall", in + (size_t)from * (size_t)bytes, from, rank, bytes, turn);
}

static void allgather_call(long bytes)
{
	MPI_Allgather(out, (int)bytes, MPI_BYTE, in, (int)bytes, MPI_BYTE, MPI_COMM_WORLD);
}

static void allgather_fill(long bytes, int turn)
{
	block_fill(out, rank, 0, bytes, turn);
	memset(in, 0xa5, (size_t)ranks * (size_t)bytes);
}

static void allgather_check(long bytes, int turn)
{
	for (int from = 0; from < ranks; from++)
		block_check("allgather", in + (size_t)from * (size_t)bytes, from, 0, bytes, turn);
}

static void bcast_call(long bytes)
{
	MPI_Bcast(in, (int)bytes, MPI_BYTE, 0, MPI_COMM_WORLD);
}

static void bcast_fill(long bytes, int turn)
{
	memset(in, 0xa5, (size_t)bytes);
	if (!rank)
		block_fill(in, 0, 0, bytes, turn);
}

static void bcast_check(long bytes, int turn)
{
	block_check("bcast", in, 0, 0, bytes, turn);
}

/* Sums of whole numbers: exact, whatever the order. */
static void sums_fill(uint8_t *p, long count, int turn)
{
	for (long i = 0; i < count; i++)
		((float *)p)[i] = (float)((i + turn + rank) % 64);
}

static void sums_check(const char *what, const uint8_t *p, long first, long count, long bytes, int turn)
{
	for (long i = 0; i < count; i++) {
		float want = 0;

		for (int r = 0; r < ranks; r++)
			want += (float)((first + i + turn + r) % 64);
		if (((const float *)p)[i] != want)
			fail(what, bytes, turn);
	}
}

static void allreduce_call(long bytes)
{
	MPI_Allreduce(out, in, (int)(bytes / 4), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
}

static void allreduce_fill(long bytes, int turn)
{
	sums_fill(out, bytes / 4, turn);
	memset(in, 0xa5, (size_t)bytes);
}

static void allreduce_check(long bytes, int turn)
{
	sums_check("allreduce", in, 0, bytes / 4, bytes, turn);
}

static void reduce_scatter_call(long bytes)
{
	MPI_Reduce_scatter_block(out, in, (int)(bytes / 4), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
}

static void reduce_scatter_fill(long bytes, int turn)
{
	sums_fill(out, bytes / 4 * ranks, turn);
	memset(in, 0xa5, (size_t)bytes);
}

static void reduce_scatter_check(long bytes, int turn)
{
	sums_check("reduce_scatter", in, bytes / 4 * rank, bytes / 4, bytes, turn);
}

static void barrier_call(long bytes)
{
	(void)bytes;
	MPI_Barrier(MPI_COMM_WORLD);
}

static void nothing(long bytes, int turn)
{
	(void)bytes;
	(void)turn;
}

static const struct test tests[] = {
	{ "latency", latency_call, latency_fill, latency_check, 1, 1, 2 },
	{ "rate", rate_call, rate_fill, rate_check, 1, WINDOW, WINDOW },
	{ "alltoall", alltoall_call, alltoall_fill, alltoall_check, 0, 0, 1 },
	{ "allgather", allgather_call, allgather_fill, allgather_check, 1, 0, 1 },
	{ "allreduce", allreduce_call, allreduce_fill, allreduce_check, 1, 1, 1 },
	{ "bcast", bcast_call, bcast_fill, bcast_check, 1, 1, 1 },
	{ "reduce_scatter", reduce_scatter_call, reduce_scatter_fill, reduce_scatter_check, 0, 1, 1 },
	{ "barrier", barrier_call, nothing, nothing, 1, 1, 1 },
};

static double timed(const struct test *t, long bytes, int calls)
{
	double start;

	MPI_Barrier(MPI_COMM_WORLD);
	start = MPI_Wtime();
	for (int i = 0; i < calls; i++)
		t->call(bytes);
	return (MPI_Wtime() - start) / calls;
}

static void *buffer(size_t units, long bytes)
{
	void *p = malloc((units ? units : (size_t)ranks) * (size_t)bytes + 64);

	if (!p)
		MPI_Abort(MPI_COMM_WORLD, 2);
	return p;
}

static void measure(const struct test *t, long bytes, double seconds, int calls)
{
	double once, sum;

	out = buffer(t->out, bytes);
	in = buffer(t->in, bytes);
	for (int turn = 0; turn < 2; turn++) {
		t->fill(bytes, turn);
		MPI_Barrier(MPI_COMM_WORLD);
		t->call(bytes);
		t->check(bytes, turn);
	}
	if (!calls) {
		once = timed(t, bytes, WARM_CALLS);
		calls = once * CALLS_MAX < seconds ? CALLS_MAX : (int)(seconds / once);
		if (calls < CALLS_MIN)
			calls = CALLS_MIN;
		MPI_Bcast(&calls, 1, MPI_INT, 0, MPI_COMM_WORLD);
	}
	once = timed(t, bytes, calls) / t->per_call;
	MPI_Reduce(&once, &sum, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
	/* The others of a pair test do nothing: what counts is the first rank's time. */
	if (!rank)
		printf("result groups test=%s ranks=%d bytes=%ld calls=%d us=%.3f\n", t->name, ranks, bytes, calls,
		       (t->per_call > 1 ? once : sum / ranks) * 1e6);
	fflush(stdout);
	free(out);
	free(in);
}

static bool listed(const char *list, const char *name)
{
	size_t len = strlen(name);

	for (const char *p = list; p; p = strchr(p, ','), p += p != NULL)
		if (!strncmp(p, name, len) && (!p[len] || p[len] == ','))
			return true;
	return false;
}

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* What happens once. `began`: when this rank called MPI_Init. */
static void measure_start(const char *which, double began)
{
	const struct test *alltoall = &tests[2];
	double init, least, connect, most;

	MPI_Barrier(MPI_COMM_WORLD);
	init = now() - began;
	MPI_Reduce(&init, &least, 1, MPI_DOUBLE, MPI_MIN, 0, MPI_COMM_WORLD);
	if (!rank && listed(which, "init"))
		printf("result groups test=init ranks=%d bytes=0 calls=1 us=%.3f\n", ranks, least * 1e6);
	if (!listed(which, "connect"))
		return;
	out = buffer(alltoall->out, 8);
	in = buffer(alltoall->in, 8);
	alltoall->fill(8, 0);
	connect = timed(alltoall, 8, 1);
	alltoall->check(8, 0);
	MPI_Reduce(&connect, &most, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
	if (!rank)
		printf("result groups test=connect ranks=%d bytes=8 calls=1 us=%.3f\n", ranks, most * 1e6);
	free(out);
	free(in);
}

static void test_run(const struct test *t, const char *sizes, double seconds, int calls)
{
	for (const char *p = sizes; p; p = strchr(p, ','), p += p != NULL) {
		char *end;
		long bytes = strtol(p, &end, 10);

		bytes <<= *end == 'k' ? 10 : *end == 'm' ? 20 : 0;
		if (bytes < 4 || bytes > 1l << 26 || bytes % 4) {
			if (!rank)
				fprintf(stderr, "mpi_groups: '%s': sizes are multiples of 4, from 4 to 64m\n", p);
			MPI_Abort(MPI_COMM_WORLD, 2);
		}
		measure(t, bytes, seconds, calls);
		if (!strcmp(t->name, "barrier"))
			return;
	}
}

int main(int argc, char **argv)
{
	const char *which = NULL, *sizes = "8,1k,4k,16k,64k,256k,1m";
	double seconds = 0.25, began = now();
	int calls = 0, c, known = 0;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	while ((c = getopt(argc, argv, "t:s:S:i:")) != -1)
		switch (c) {
		case 't': which = optarg; break;
		case 's': sizes = optarg; break;
		case 'S': seconds = atof(optarg); break;
		case 'i': calls = atoi(optarg); break;
		default: MPI_Abort(MPI_COMM_WORLD, 2);
		}
	if (ranks < 2 || seconds <= 0 || calls < 0) {
		fprintf(stderr, "mpi_groups: at least 2 ranks, and more than 0 seconds or calls\n");
		MPI_Abort(MPI_COMM_WORLD, 2);
	}
	if (which && (listed(which, "init") || listed(which, "connect"))) {
		measure_start(which, began);
		known++;
	}
	for (size_t i = 0; i < sizeof(tests) / sizeof(tests[0]); i++)
		if (!which || listed(which, tests[i].name)) {
			test_run(&tests[i], sizes, seconds, calls);
			known++;
		}
	if (!known && !rank)
		fprintf(stderr, "mpi_groups: no test '%s'\n", which);
	MPI_Finalize();
	return known ? 0 : 2;
}
