/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The coordinator of uccl_doctor_cluster.h: its workers, and what both ways to get them call. */
#ifndef UCCL_DOCTOR_CLUSTER_IMPL_H
#define UCCL_DOCTOR_CLUSTER_IMPL_H

#include <sys/types.h>

#include "api/offer/address.h"
#include "uccl_doctor_cluster.h"
#include "uccl_doctor_pairs.h"

/* A worker, as the coordinator sees it. */
struct worker {
	char address[UCCL_ADDRESS_TEXT]; /* where its listener is */
	uint16_t port;		   /* of it; 0: not ready yet */
	int in, out;		   /* -1: none */
	pid_t pid;		   /* of what runs it; 0: none */
	struct doctor_lines lines;
	int peer;		   /* it measures to this one; -1: it does not */
	uint64_t since_ms;	   /* then */
};

struct cluster {
	const struct doctor_cluster_opt *opt;
	struct doctor_hosts hosts;
	struct worker *worker;
	uint64_t ready_ms; /* all must be ready by then */
};

/* n workers, none of which is there. 0; or -1 after a line on standard error. */
int cluster_init(struct cluster *c, const struct doctor_cluster_opt *opt, int n);
/* Ends the workers. */
void cluster_free(struct cluster *c);
/* Wait until all workers are ready or given up, have them measure, and print the table. The exit status. */
int cluster_measure(struct cluster *c);

/* Are all workers ready that can be? */
bool cluster_all_ready(const struct cluster *c);
/* Wait a moment for what workers say, and for a connection to `listen`, -1: none. True: one can be accepted. */
bool cluster_wait(struct cluster *c, int listen);
/* Give up workers that are not ready in time, or whose measurement does not end. */
void cluster_late_end(struct cluster *c);
/* Take the first line of a worker. What shells and login texts say before it is left out. */
void cluster_worker_ready(struct cluster *c, int i, const char *line);
/* Give a worker up. */
void cluster_worker_down(struct cluster *c, int i, const char *why);
/* Close its stream, so that it ends. */
void cluster_worker_close(struct worker *w);

/* uccl_doctor_hosts.c, uccl_doctor_ranks.c: measure all pairs. The exit status. */
int cluster_hosts_measure(const struct doctor_cluster_opt *opt);
int cluster_ranks_measure(const struct doctor_cluster_opt *opt);

#endif
