/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * A range of seeds: processes take the next one each, until there is none or time is up. So all below the first that
 * was not run have been run.
 */
#include "uccl_sim_seeds.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* What they all see. */
struct board {
	_Atomic uint64_t begun, passed, failed; /* seeds */
	struct job {
		pid_t pid;     /* 0: none; the parent's */
		bool busy;     /* it has begun a seed, and not counted it */
		uint64_t seed; /* that one */
	} job[];
};

bool uccl_sim_jobs_read(const char *text, uint64_t *jobs)
{
	long cpus = sysconf(_SC_NPROCESSORS_ONLN);
	char *end;

	*jobs = strtoull(text, &end, 10);
	if (end == text || *end || *text == '-' || *jobs > UCCL_SIM_JOBS_MAX)
		return false;
	if (!*jobs)
		*jobs = cpus > 1 ? (uint64_t)cpus : 1;
	return true;
}

static double seconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static bool is_over(const struct uccl_sim_range *r, const struct board *b, double end)
{
	return b->begun > r->to - r->from || (r->minutes > 0 && seconds() >= end);
}

static void job_run(const struct uccl_sim_range *r, struct board *b, struct job *j, double end)
{
	while (!is_over(r, b, end)) {
		j->seed = r->from + atomic_fetch_add(&b->begun, 1);
		if (j->seed > r->to)
			break;
		j->busy = true;
		if (r->run(r->arg, j->seed))
			b->failed++;
		else
			b->passed++;
		j->busy = false;
	}
}

static bool job_start(const struct uccl_sim_range *r, struct board *b, struct job *j, double end)
{
	pid_t pid;

	j->busy = false;
	pid = fork();
	if (!pid) {
		job_run(r, b, j, end);
		fflush(stdout);
		_exit(0);
	}
	if (pid < 0) {
		perror("--jobs");
		return false;
	}
	j->pid = pid;
	return true;
}

/* One that ended: of itself, or with its seed. Another one goes on in its place. */
static void job_ended(const struct uccl_sim_range *r, struct board *b, struct job *j, int status, double end)
{
	j->pid = 0;
	if (!j->busy)
		return;
	b->failed++;
	r->died(r->arg, j->seed, WIFSIGNALED(status) ? strsignal(WTERMSIG(status)) : "an exit of its own");
	if (!is_over(r, b, end))
		job_start(r, b, j, end);
}

static void jobs_run(const struct uccl_sim_range *r, struct board *b, double end)
{
	int status;
	pid_t pid;

	fflush(stdout);
	for (uint64_t i = 0; i < r->jobs; i++)
		if (!job_start(r, b, &b->job[i], end))
			break;
	while ((pid = wait(&status)) > 0)
		for (uint64_t i = 0; i < r->jobs; i++)
			if (b->job[i].pid == pid)
				job_ended(r, b, &b->job[i], status, end);
}

int uccl_sim_range_run(const struct uccl_sim_range *r)
{
	size_t bytes = sizeof(struct board) + r->jobs * sizeof(struct job);
	struct board *b = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	double end = seconds() + r->minutes * 60;
	uint64_t left, failed;

	if (b == MAP_FAILED) {
		perror("--seeds");
		return 1;
	}
	if (r->jobs == 1)
		job_run(r, b, &b->job[0], end);
	else
		jobs_run(r, b, end);
	failed = b->failed;
	left = r->to - r->from + 1 - b->passed - failed;
	failed += !r->sum(r->arg);
	printf("%llu passed, %llu failed", (unsigned long long)b->passed, (unsigned long long)failed);
	if (left)
		printf(", %llu from seed %llu on were not run", (unsigned long long)left,
		       (unsigned long long)(r->to + 1 - left));
	printf("\n");
	munmap(b, bytes);
	return failed || left;
}
