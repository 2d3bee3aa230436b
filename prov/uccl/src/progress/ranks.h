/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Who else of this job is on this host, and how many processors there are for each of us. */
#ifndef UCCL_PROGRESS_RANKS_H
#define UCCL_PROGRESS_RANKS_H

#include <stdint.h>

/* Processes of this job on this host, this one included, as its launcher says; 1: it says nothing. */
uint32_t uccl_ranks_here(void);

/*
 * Of `ours` processors that this process may use, those that others of the job do not need: so many if the launcher,
 * which may use `all` for `ranks` processes, has bound us to some, and an equal part if it has not. At least 1.
 */
uint32_t uccl_ranks_share(uint32_t ours, uint32_t all, uint32_t ranks);

/* The same, of this process and its parent. */
uint32_t uccl_ranks_processors(void);

#endif
