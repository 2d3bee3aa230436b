/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "progress/ranks.h"

#include "../tests.h"

#include <sched.h>
#include <stdlib.h>

#include "base/units.h"

static const char *const names[] = {
	"OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS", "MV2_COMM_WORLD_LOCAL_SIZE", "PALS_LOCAL_SIZE",
	"LOCAL_WORLD_SIZE", "SLURM_STEP_TASKS_PER_NODE", "SLURM_NTASKS_PER_NODE",
};

#define NAMES (sizeof(names) / sizeof(names[0]))

static int nothing_said(void **state)
{
	for (size_t i = 0; i < NAMES; i++)
		unsetenv(names[i]);
	return 0;
}

TEST_IN(here__each_launcher, nothing_said, NULL)
{
	assert_int_equal(uccl_ranks_here(), 1);
	for (size_t i = 0; i < NAMES; i++) {
		assert_int_equal(setenv(names[i], "12", 1), 0);
		assert_int_equal(uccl_ranks_here(), 12);
		unsetenv(names[i]);
	}
	/* A step may have fewer than its job. */
	setenv("SLURM_NTASKS_PER_NODE", "8", 1);
	setenv("SLURM_STEP_TASKS_PER_NODE", "4(x2),3", 1);
	assert_int_equal(uccl_ranks_here(), 4);
}

TEST_IN(here__nonsense, nothing_said, NULL)
{
	static const char *const bad[] = {"", "x", "0", "-1", "5000", "99999999999999999999"};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		setenv("MPI_LOCALNRANKS", bad[i], 1);
		assert_int_equal(uccl_ranks_here(), 1);
	}
	/* Another may know better. */
	setenv("LOCAL_WORLD_SIZE", "3", 1);
	assert_int_equal(uccl_ranks_here(), 3);
}

TEST_IN(share__bound_or_not, nothing_said, NULL)
{
	static const struct {
		uint32_t ours, all, ranks, share;
	} v[] = {
		{16, 16, 1, 16}, {16, 16, 16, 1}, {16, 16, 4, 4}, {16, 16, 32, 1}, /* not bound */
		{1, 16, 16, 1},	 {4, 16, 4, 4},	  {8, 16, 8, 2}, /* each to its own, or half of them to a half */
		{4, 0, 4, 1},	 {4, 1, 2, 2},	  {0, 0, 0, 1}, /* the parent is unknown, or bound as we are */
	};

	for (size_t i = 0; i < sizeof(v) / sizeof(v[0]); i++)
		assert_int_equal(uccl_ranks_share(v[i].ours, v[i].all, v[i].ranks), v[i].share);
}

/* Whoever is bound to one core has one, whatever the launcher says. */
TEST_IN(processors__bound, nothing_said, NULL)
{
	cpu_set_t was, one;
	int cpu = sched_getcpu();

	assert_true(cpu >= 0);
	assert_int_equal(sched_getaffinity(0, sizeof(was), &was), 0);
	setenv("MPI_LOCALNRANKS", "1", 1);
	assert_true(uccl_ranks_processors() >= 1 && uccl_ranks_processors() <= (uint32_t)CPU_COUNT(&was));
	setenv("MPI_LOCALNRANKS", "4096", 1);
	assert_int_equal(uccl_ranks_processors(), 1);
	unsetenv("MPI_LOCALNRANKS");
	/* Nobody tells: a peer may run beside. */
	assert_in_range(uccl_ranks_processors(), 1, uccl_max(CPU_COUNT(&was) / 2, 1));
	CPU_ZERO(&one);
	CPU_SET(cpu, &one);
	assert_int_equal(sched_setaffinity(0, sizeof(one), &one), 0);
	assert_int_equal(uccl_ranks_processors(), 1);
	assert_int_equal(sched_setaffinity(0, sizeof(was), &was), 0);
}

TESTS_MAIN
