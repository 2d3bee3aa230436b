/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The names under which people know a process of a job: its host, its number there, its rank. */
#ifndef UCCL_API_PROCESS_H
#define UCCL_API_PROCESS_H

#include <stdint.h>

#define UCCL_PROCESS_HOST 64

struct uccl_process {
	char host[UCCL_PROCESS_HOST]; /* up to the first dot; characters that no host name has are "?" */
	int64_t pid;
	int64_t rank; /* in its job, as Open MPI, PMIx, PMI or Slurm say by their variables; -1: not known */
};

/* The calling process, now. */
void uccl_process_read(struct uccl_process *p);

#endif
