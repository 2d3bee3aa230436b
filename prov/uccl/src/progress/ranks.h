/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* How many processes of this job run on this host, and how many processors each of them has. */
#ifndef UCCL_PROGRESS_RANKS_H
#define UCCL_PROGRESS_RANKS_H

#include <stdint.h>

/* Processes of this job on this host, this one included, from the launcher's environment. 1 if that has no number. */
uint32_t uccl_ranks_here(void);

/*
 * The number of processors for this process: the least of `ours` and `all` / `ranks`, and at least 1. `ours`:
 * processors that this process may use. `all`: those that the launcher may use for its `ranks` processes. So a process
 * that is bound to few has these, and an unbound one has an equal share.
 */
uint32_t uccl_ranks_share(uint32_t ours, uint32_t all, uint32_t ranks);

/*
 * uccl_ranks_share() for this process, with quotas of control groups; its parent counts as the launcher. If no launcher
 * tells how many processes there are, two.
 */
uint32_t uccl_ranks_processors(void);

#endif
