/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "../api/world.h"
#include "../tests.h"

#include <dirent.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

/* Threads of this process. */
static int threads(void)
{
	return tests_entries("/proc/self/task");
}

/* Processor time of this process. */
static uint64_t cpu_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (uint64_t)t.tv_sec * UCCL_NS_PER_S + (uint64_t)t.tv_nsec;
}

static void setenv_world(struct world *w, const char *rescue, const char *fault, enum fi_progress progress)
{
	struct fi_info *h = world_hints();

	h->domain_attr->threading = FI_THREAD_DOMAIN;
	h->domain_attr->data_progress = progress;
	setenv("FI_UCCL_PROGRESS_TIMEOUT", rescue, 1);
	if (fault)
		setenv("FI_UCCL_FAULT", fault, 1);
	world_open_with(w, h);
	unsetenv("FI_UCCL_PROGRESS_TIMEOUT");
	unsetenv("FI_UCCL_FAULT");
}

/* Read until `want` completions came, or the time is over; returns how many. */
static int reads(struct node *n, int want, uint64_t ns)
{
	uint64_t end = uccl_clock() + ns;
	struct fi_cq_tagged_entry e;
	int got = 0;

	while (got < want && uccl_clock() < end)
		if (fi_cq_read(n->cq, &e, 1) == 1)
			got++;
	return got;
}

/* Two endpoints in domains of their own, so that nobody else drives `a`. Nothing but calls drives `b`. */
struct pair {
	struct world wa, wb;
	struct node a, b;
	fi_addr_t to_b;
};

static void pair_open(struct pair *p, const char *rescue, const char *fault)
{
	setenv_world(&p->wa, rescue, fault, FI_PROGRESS_MANUAL);
	setenv_world(&p->wb, "0", NULL, FI_PROGRESS_MANUAL);
	node_open(&p->a, &p->wa);
	node_open(&p->b, &p->wb);
	p->to_b = node_insert(&p->a, &p->b);
}

static void pair_close(struct pair *p)
{
	node_close(&p->a);
	node_close(&p->b);
	world_close(&p->wa);
	world_close(&p->wb);
}

/* A message from `a`, for which `b` has a receive, connects them. */
static void pair_meet(struct pair *p)
{
	uint64_t end = uccl_clock() + PATIENCE_NS;

	assert_int_equal(fi_tinject(p->a.ep, "x", 1, p->to_b, 1), 0);
	while (!reads(&p->b, 1, UCCL_NS_PER_MS)) {
		assert_true(uccl_clock() < end);
		reads(&p->a, 1, UCCL_NS_PER_MS);
	}
}

/*
 * A third of all packets is lost, and the sender never calls again: everything arrives all the same, unless there is no
 * thread.
 */
static int stranded(const char *rescue, uint64_t patience)
{
	char in[40][8], out[8] = "x";
	struct pair p;
	int got;

	pair_open(&p, rescue, "drop=0.33,seed=5");
	for (int i = 0; i < 40; i++)
		assert_int_equal(fi_trecv(p.b.ep, in[i], 8, NULL, FI_ADDR_UNSPEC, 1, 0, in[i]), 0);
	/* The first one connects them. */
	pair_meet(&p);
	for (int i = 1; i < 40; i++)
		assert_int_equal(fi_tinject(p.a.ep, out, 8, p.to_b, 1), 0);
	got = reads(&p.b, 39, patience);
	pair_close(&p);
	return got;
}

TEST(rescue__lost_messages)
{
	assert_int_equal(stranded("10", PATIENCE_NS), 39);
}

/*
 * A program that has sent some messages to a new peer calls no more. The thread answers what its looks bring: it does
 * not wait for the next one with each step of the handshake, and with the messages that the peer takes only then. The
 * peer looks at its queue once in so many ms: its answers are not there with the thread's next look.
 */
static void early(unsigned int peer_ms)
{
	const struct timespec pause = { .tv_nsec = peer_ms * 1000 * 1000 };
	char in[40][8], out[8] = "x";
	struct pair p;
	uint64_t start;
	int got = 0;

	pair_open(&p, "2000", NULL);
	for (int i = 0; i < 40; i++)
		assert_int_equal(fi_trecv(p.b.ep, in[i], 8, NULL, FI_ADDR_UNSPEC, 1, 0, in[i]), 0);
	start = uccl_clock();
	for (int i = 0; i < 40; i++)
		assert_int_equal(fi_tinject(p.a.ep, out, 8, p.to_b, 1), 0);
	while (got < 40 && uccl_clock() - start < PATIENCE_NS) {
		got += reads(&p.b, 40 - got, UCCL_NS_PER_MS);
		nanosleep(&pause, NULL);
	}
	assert_int_equal(got, 40);
	/* Less than two of its looks, of 2 s. */
	assert_true(uccl_clock() - start < 3900 * UCCL_NS_PER_MS);
	pair_close(&p);
}

TEST(rescue__early_messages)
{
	early(0);
}

TEST(rescue__early_messages_to_a_slow_peer)
{
	early(20);
}

/* Messages that wait for each other leave although the program calls no more, long before the thread's own time. */
TEST(rescue__gathered_messages)
{
	static char in[4096][8];
	struct uccl_driver *d;
	char out[8] = "x";
	struct pair p;
	uint64_t start;
	bool waits;
	int sent = 0;

	pair_open(&p, "4000", NULL);
	for (size_t i = 0; i < uccl_array_len(in); i++)
		assert_int_equal(fi_trecv(p.b.ep, in[i], 8, NULL, FI_ADDR_UNSPEC, 1, 0, in[i]), 0);
	pair_meet(&p);
	/* A processor that others want may be away for so long that nothing is a stream. */
	d = &uccl_ep_fid_of(&p.a.ep->fid)->ep->driver;
	do {
		assert_true(++sent < (int)uccl_array_len(in));
		assert_int_equal(fi_tinject(p.a.ep, out, 8, p.to_b, 1), 0);
		uccl_driver_lock(d);
		waits = uccl_engine_waits(d->engine);
		uccl_driver_unlock(d);
	} while (!waits);
	start = uccl_clock();
	assert_int_equal(reads(&p.b, sent, PATIENCE_NS), sent);
	assert_true(uccl_clock() - start < 2000 * UCCL_NS_PER_MS);
	pair_close(&p);
}

/* Times that threads of this process but the calling one slept. */
static uint64_t sleeps(void)
{
	uint64_t sum = 0;
	DIR *tasks = opendir("/proc/self/task");
	struct dirent *task;

	assert_non_null(tasks);
	while ((task = readdir(tasks))) {
		char path[64], line[128];
		FILE *status;

		if (atoi(task->d_name) == 0 || atoi(task->d_name) == (int)gettid())
			continue;
		snprintf(path, sizeof(path), "/proc/self/task/%.20s/status", task->d_name);
		status = fopen(path, "r");
		while (status && fgets(line, sizeof(line), status))
			if (!strncmp(line, "voluntary_ctxt_switches:", 24))
				sum += strtoull(line + 24, NULL, 10);
		if (status)
			fclose(status);
	}
	closedir(tasks);
	return sum;
}

/* A program that polls between the messages of a stream does not wake the thread with each of them. */
TEST(rescue__streams_let_it_sleep)
{
	enum { MESSAGES = 4000 };
	struct fi_cq_tagged_entry e;
	struct uccl_driver *d;
	char in[8], out[8] = "x";
	struct pair p;
	uint64_t start, slept;
	int waited = 0;

	pair_open(&p, "10", NULL);
	assert_int_equal(fi_trecv(p.b.ep, in, 8, NULL, FI_ADDR_UNSPEC, 1, 0, in), 0);
	pair_meet(&p);
	d = &uccl_ep_fid_of(&p.a.ep->fid)->ep->driver;
	start = uccl_clock();
	slept = sleeps();
	for (int i = 0; i < MESSAGES; i++) {
		assert_int_equal(fi_trecv(p.b.ep, in, 8, NULL, FI_ADDR_UNSPEC, 1, 0, in), 0);
		assert_int_equal(fi_tinject(p.a.ep, out, 8, p.to_b, 1), 0);
		uccl_driver_lock(d);
		waited += uccl_engine_waits(d->engine);
		uccl_driver_unlock(d);
		assert_int_equal(fi_cq_read(p.a.cq, &e, 1), -FI_EAGAIN);
		assert_int_equal(reads(&p.b, 1, PATIENCE_NS), 1);
	}
	slept = sleeps() - slept;
	/* The thread looks once in a ms. */
	assert_true(slept < 64 + 2 * (uccl_clock() - start) / UCCL_NS_PER_MS);
	assert_true(waited > 0);
	pair_close(&p);
}

TEST(rescue__none)
{
	assert_true(stranded("0", 300 * UCCL_NS_PER_MS) < 39);
}

/* A thread for each domain, if the program wants it and has no progress thread anyway. */
TEST(rescue__threads)
{
	int before = threads();
	struct world w[3];

	setenv_world(&w[0], "10", NULL, FI_PROGRESS_MANUAL);
	assert_int_equal(threads(), before + 1);
	setenv_world(&w[1], "0", NULL, FI_PROGRESS_MANUAL);
	setenv_world(&w[2], "10", NULL, FI_PROGRESS_AUTO);
	assert_int_equal(threads(), before + 1);
	for (int i = 0; i < 3; i++)
		world_close(&w[i]);
	assert_int_equal(threads(), before);
}

/* With nothing in flight it falls asleep for good; what is posted then is watched again. */
TEST(rescue__sleeps_and_wakes)
{
	char in[8], out[8] = "x";
	struct pair p;

	pair_open(&p, "1", "drop=0.5,seed=9");
	for (int i = 0; i < 3; i++) {
		const struct timespec pause = { .tv_nsec = 300 * 1000 * 1000 };
		uint64_t before;

		assert_int_equal(fi_trecv(p.b.ep, in, 8, NULL, FI_ADDR_UNSPEC, 1, 0, in), 0);
		assert_int_equal(fi_tinject(p.a.ep, out, 8, p.to_b, 1), 0);
		assert_int_equal(reads(&p.b, 1, PATIENCE_NS), 1);
		/* Until the acknowledgement has come through, and the thread has had its last look. */
		reads(&p.b, 1, 100 * UCCL_NS_PER_MS);
		nanosleep(&pause, NULL);
		before = cpu_ns();
		nanosleep(&pause, NULL);
		assert_true(cpu_ns() - before < 10 * UCCL_NS_PER_MS);
	}
	pair_close(&p);
}

/*
 * A program that sleeps in the library with peers that are looked at now and then: the thread does not wake for itself,
 * but what is lost later is found again.
 */
TEST(rescue__sleeps_with_peers)
{
	struct rusage use[2];
	struct pair p;
	struct fi_cq_tagged_entry e;
	char in[8];

	pair_open(&p, "10", NULL);
	assert_int_equal(fi_trecv(p.b.ep, in, 8, NULL, FI_ADDR_UNSPEC, 1, 0, in), 0);
	assert_int_equal(fi_trecv(p.a.ep, in, 8, NULL, FI_ADDR_UNSPEC, 1, 0, in), 0);
	pair_meet(&p);
	/* Its rounds after the last thing in flight. */
	assert_int_equal(fi_cq_sread(p.a.cq, &e, 1, NULL, 1200), -FI_EAGAIN);
	getrusage(RUSAGE_SELF, &use[0]);
	assert_int_equal(fi_cq_sread(p.a.cq, &e, 1, NULL, 1000), -FI_EAGAIN);
	getrusage(RUSAGE_SELF, &use[1]);
	/* Rounds of 10 ms would be a hundred. */
	assert_true(use[1].ru_nvcsw - use[0].ru_nvcsw < 50);
	pair_close(&p);
}

TESTS_MAIN
