/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* What FI_UCCL_STATS asks for. */
#ifndef UCCL_API_STATS_H
#define UCCL_API_STATS_H

struct uccl_ep;

/*
 * Write the report of an endpoint that closes, and its counters as one line of JSON, where FI_UCCL_STATS says. Several
 * endpoints of a process append to one file. Failures are logged.
 */
void uccl_stats_write(struct uccl_ep *ep);

#endif
