/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* See process.h. */
#include "api/watch/process.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/units.h"

/* Launchers inside an allocation of Slurm inherit its variables: their own come first. */
static const char *const rank_names[] = {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID"};

static int64_t rank_read(void)
{
	for (size_t i = 0; i < uccl_array_len(rank_names); i++) {
		const char *text = getenv(rank_names[i]);
		char *end;
		long rank;

		if (!text || !isdigit((unsigned char)*text))
			continue;
		errno = 0;
		rank = strtol(text, &end, 10);
		if (!errno && !*end && rank <= INT_MAX)
			return rank;
	}
	return -1;
}

void uccl_process_read(struct uccl_process *p)
{
	p->pid = getpid();
	p->rank = rank_read();
	if (gethostname(p->host, sizeof(p->host)))
		snprintf(p->host, sizeof(p->host), "?");
	/* A name that is too long may lack its end. */
	p->host[sizeof(p->host) - 1] = '\0';
	p->host[strcspn(p->host, ".")] = '\0';
	for (char *c = p->host; *c; c++)
		if (!isalnum((unsigned char)*c) && *c != '-' && *c != '_')
			*c = '?';
}
