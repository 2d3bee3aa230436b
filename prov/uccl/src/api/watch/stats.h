/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* FI_UCCL_STATS: a report of each endpoint when it closes. */
#ifndef UCCL_API_STATS_H
#define UCCL_API_STATS_H

struct uccl_ep;

/* Warn if no report can be written there, when an endpoint opens. `where`: the value of FI_UCCL_STATS. */
void uccl_stats_check(const char *where);

/*
 * Write the report of a closing endpoint, and its counters as one line of JSON, to stderr or to a file, as
 * FI_UCCL_STATS says. Each line begins with the host and the process; the report is one write(2), and on pipes, if it
 * is longer than PIPE_BUF, a few of whole lines. The endpoints of a process append to the same file. Failures are
 * logged.
 */
void uccl_stats_write(struct uccl_ep *ep);

#endif
