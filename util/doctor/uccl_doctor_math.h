/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Counting and comparing what was measured: losses and order of probes, times, hops of paths. No I/O, no clock. */
#ifndef UCCL_DOCTOR_MATH_H
#define UCCL_DOCTOR_MATH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define DOCTOR_LABELS 32 /* most source ports of a measurement */
#define DOCTOR_HOPS 16	 /* most hops of a path that are looked at */
#define DOCTOR_TALLY_MAX 4096

/* What became of a run of probes, as its receiver saw it. */
struct doctor_tally {
	uint32_t received;   /* different ones, right or not */
	uint32_t duplicates;
	uint32_t damaged;    /* other bytes or another length than were sent */
	uint32_t reordered;  /* came after a later one of the same source port */
	uint32_t overflowed; /* found the receive queue full, at most: not in `received` */
	uint32_t span_us;    /* from the first to the last that was taken */
	uint64_t began_us;   /* the receiver's: when it took the first; 0: none yet */
	uint32_t ecn[4];     /* by the two bits: not-ECT, ECT(1), ECT(0), CE */
	uint32_t by_label[DOCTOR_LABELS];
	uint32_t highest[DOCTOR_LABELS]; /* 1 + the largest number seen of a source port */
	uint8_t seen[DOCTOR_TALLY_MAX / 8];
};

/* Count one probe. Numbers and source ports beyond the arrays are left out. */
void doctor_tally_add(struct doctor_tally *t, uint16_t label, uint32_t seq, uint8_t ecn, bool right);

/* Of n values, which are sorted in place: the least, the median, and the one that 99 % do not exceed. 0 if n is 0. */
struct doctor_spread {
	double least, median, p99;
};
struct doctor_spread doctor_spread(double *value, int n);

/* The way of one source port. A hop is a number that stands for its address, never 0; 0: it did not say. */
struct doctor_trail {
	uint64_t hop[DOCTOR_HOPS];
	uint8_t n;	/* hops looked at */
	bool arrived;	/* the peer is next after them */
};

/* What is sure about a number of trails. */
struct doctor_variety {
	int distinct;	/* at least so many differ */
	bool complete;	/* and not more: every hop of every one is known */
	bool nothing;	/* not one hop is known, and none arrived */
};
struct doctor_variety doctor_variety(const struct doctor_trail *t, int n);

/*
 * The largest size that passes, by halving: begin with lo (passes, or 0) and hi (does not). Returns the next size to
 * try, or 0 when lo and hi are neighbours up to `grain`.
 */
uint32_t doctor_halve(uint32_t lo, uint32_t hi, uint32_t grain);

#endif
