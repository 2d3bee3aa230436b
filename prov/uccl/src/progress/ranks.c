/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "progress/ranks.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/units.h"
#include "progress/quota.h"

/* More on one host is a mistake of somebody. */
#define RANKS_MOST 4096
/* Processes of this host if no launcher tells: a server may run beside its client. */
#define RANKS_UNTOLD 2

/* The first number: in Slurm's "4(x2),3" that may be another host's. */
static uint32_t ranks_said(const char *name)
{
	const char *text = getenv(name);
	unsigned long n = text ? strtoul(text, NULL, 10) : 0;

	return n <= RANKS_MOST ? (uint32_t)n : 0;
}

/* Processes of this job on this host, by the launcher's environment; 0: it has no number. */
static uint32_t ranks_told(void)
{
	/* Of Open MPI, MPICH and Intel MPI, MVAPICH, Cray PALS, torchrun; of Slurm, a step before its job. */
	static const char *const names[] = {
		"OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS", "MV2_COMM_WORLD_LOCAL_SIZE", "PALS_LOCAL_SIZE",
		"LOCAL_WORLD_SIZE", "SLURM_STEP_TASKS_PER_NODE", "SLURM_NTASKS_PER_NODE",
	};

	for (size_t i = 0; i < uccl_array_len(names); i++) {
		uint32_t n = ranks_said(names[i]);

		if (n)
			return n;
	}
	return 0;
}

uint32_t uccl_ranks_here(void)
{
	return uccl_max(ranks_told(), 1);
}

uint32_t uccl_ranks_share(uint32_t ours, uint32_t all, uint32_t ranks)
{
	return uccl_max(uccl_min(ours, uccl_max(all, ours) / uccl_max(ranks, 1)), 1);
}

/* Those that it (0: this thread) may run on, or fewer if its control groups have no time for so many. */
static uint32_t processors_of(pid_t pid)
{
	char groups[64] = "/proc/self/cgroup";
	cpu_set_t may;

	if (sched_getaffinity(pid, sizeof(may), &may))
		return 0;
	if (pid)
		snprintf(groups, sizeof(groups), "/proc/%ld/cgroup", (long)pid);
	return uccl_min((uint32_t)CPU_COUNT(&may), uccl_quota_processors(groups, UCCL_QUOTA_MOUNT));
}

uint32_t uccl_ranks_processors(void)
{
	uint32_t ranks = ranks_told();

	return uccl_ranks_share(processors_of(0), processors_of(getppid()), ranks ? ranks : RANKS_UNTOLD);
}
