/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * All pairs of the hosts of a cluster. On each host a worker listens (uccl_doctor_listen.c) and asks other workers when
 * it is told to. A coordinator tells them, over a stream of lines to each: the standard input and output of a program
 * such as ssh (--hosts), or a TCP connection (--ranks). The lines:
 *
 *   uccl_doctor VERSION RANK PORT NAME   the worker is ready; its listener has this TCP port; RANK -1: none
 *   ask PORT ADDRESS                     to the worker: measure to the listener there, and back
 *   pair ...                             the answer (doctor_pair_put)
 *
 * A worker ends with its stream.
 */
#ifndef UCCL_DOCTOR_CLUSTER_H
#define UCCL_DOCTOR_CLUSTER_H

#include "uccl_doctor_peer.h"

#define DOCTOR_LINE 512 /* most bytes of a line */

struct doctor_cluster_opt {
	const char *hosts;    /* file: a host a line; NULL: ranks */
	const char *rsh;      /* words before the host's name that run a command there */
	const char *remote;   /* uccl_doctor there */
	const char *ranks;    /* HOST:PORT where rank 0 waits for the others */
	int parallel;	      /* most measurements at the same time; 0: as many as there are hosts for */
	int wait_s;	      /* for all workers to be ready */
	bool json;
	struct doctor_peer_opt peer; /* of each measurement */
};

/* Measure all pairs and print the table. The exit status. */
int doctor_cluster(const struct doctor_cluster_opt *opt);

/*
 * Serve one coordinator. `in`, `out`: the stream, which may be the same descriptor. rank -1: none. 0, or -1 after a
 * line on standard error.
 */
int doctor_worker(const struct doctor_peer_opt *opt, int in, int out, int rank);

/* Bytes of a stream that are no whole line yet. */
struct doctor_lines {
	char buf[DOCTOR_LINE];
	size_t have;
	bool skip; /* the rest of a line that is too long */
};
/* Read what is there. 1: more may come; 0: the stream has ended; or -errno value. */
int doctor_lines_read(struct doctor_lines *l, int fd);
/* The next whole line, without its end, to `line`. False: there is none yet. Lines that are too long are left out. */
bool doctor_lines_next(struct doctor_lines *l, char line[DOCTOR_LINE]);
/* Write a line. 0, or a negative errno value. */
int doctor_line_write(int fd, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#endif
