/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * All pairs of a number of hosts: which is measured next, what was found, and the table of it. Each pair is measured
 * once, in both directions; no host takes part in two measurements at the same time. No I/O but printing, no clock.
 */
#ifndef UCCL_DOCTOR_PAIRS_H
#define UCCL_DOCTOR_PAIRS_H

#include "uccl_doctor_report.h"

#define DOCTOR_HOSTS 512 /* most hosts */
#define DOCTOR_PAIR_TEXT 200

struct doctor_pair {
	double us;		 /* median time there and back; 0: not measured */
	double bps[2];		 /* to, from; 0: not measured */
	double loss[2];		 /* shares */
	enum doctor_level level; /* of the worst finding */
	char text[DOCTOR_PAIR_TEXT]; /* which it is; empty: nothing limits */
	enum { DOCTOR_PAIR_OPEN, DOCTOR_PAIR_RUNS, DOCTOR_PAIR_DONE } state;
};

struct doctor_hosts {
	char (*name)[DOCTOR_NAME];
	bool *busy;		 /* takes part in a measurement */
	bool *down;		 /* cannot be measured any more */
	int n;
	int runs;		 /* measurements now */
	int round;		 /* before it all pairs were begun */
	struct doctor_pair *pair; /* of hosts i < k: see doctor_pair */
};

/* 0; -1: no memory. */
int doctor_hosts_init(struct doctor_hosts *h, int n);
void doctor_hosts_free(struct doctor_hosts *h);
/* The pair of hosts i < k. */
struct doctor_pair *doctor_pair(const struct doctor_hosts *h, int i, int k);
/* Begin the next measurement, of *i, which asks, and *k. False: none can begin now. */
bool doctor_pair_next(struct doctor_hosts *h, int *i, int *k);
/* It has ended with this. */
void doctor_pair_end(struct doctor_hosts *h, int i, int k, const struct doctor_pair *found);
/* A host cannot be measured: its pairs that were not measured yet end so. */
void doctor_host_down(struct doctor_hosts *h, int i, const char *why);
bool doctor_pairs_done(const struct doctor_hosts *h);

/* What a session between two hosts found, as a pair. */
void doctor_pair_judge(const struct doctor_report *r, struct doctor_pair *p);
/* A pair as one line of text without its end, and back. False: it is none. */
void doctor_pair_put(const struct doctor_pair *p, char *buf, size_t size);
bool doctor_pair_get(const char *line, struct doctor_pair *p);

/* 1: something limits; 0: all is good. */
int doctor_pairs_status(const struct doctor_hosts *h);
/* The worst first; then hosts whose pairs all fail, and a line that counts. */
void doctor_pairs_text(const struct doctor_hosts *h, FILE *f);
/* One object, see uccl_doctor(1). */
void doctor_pairs_json(const struct doctor_hosts *h, FILE *f);

#endif
