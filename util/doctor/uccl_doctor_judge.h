/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* What measurements between two hosts mean: each becomes one finding. No I/O. dir 0: to the host, 1: from it. */
#ifndef UCCL_DOCTOR_JUDGE_H
#define UCCL_DOCTOR_JUDGE_H

#include "uccl_doctor_report.h"
#include "uccl_doctor_wire.h"

/* Of `labels` source ports, `missing` never got a packet through; list: their numbers. `port`: where they went. */
void doctor_judge_reach(struct doctor_report *r, const char *host, int dir, int labels, int missing, const char *list,
			uint16_t port);
/* err: an errno value, 0: the connection came about. */
void doctor_judge_live(struct doctor_report *r, const char *host, int dir, int err);
/* Of `asked` questions `n` were answered, after so many microseconds. */
void doctor_judge_times(struct doctor_report *r, const char *host, int asked, int n, struct doctor_spread us);
/*
 * most: payload that the sender would put into a packet; passes: the largest that arrives; told: what the sender's
 * kernel knows of the route, with IP header, 0: nothing; headers: IP and UDP.
 */
void doctor_judge_mtu(struct doctor_report *r, const char *host, int dir, uint32_t most, uint32_t passes, uint32_t told,
		      uint32_t headers);
/* Of the packets that did not arrive, those for which the receiver's own queue may have had no room. */
uint32_t doctor_overflowed(const struct doctor_sent *sent, const struct doctor_tally *t);
/* Share of all packets that was lost on the way, which is without them: they came through. */
double doctor_loss(const struct doctor_sent *sent, const struct doctor_tally *t);
/* Of `sent` packets of all measurements, so many overflowed. */
void doctor_judge_queue(struct doctor_report *r, const char *host, int dir, uint32_t sent, uint32_t overflowed);
void doctor_judge_loss(struct doctor_report *r, const char *host, int dir, const struct doctor_sent *sent,
		       const struct doctor_tally *t);
/* train: packets of one; single_loss: doctor_loss() of single packets of that size. */
void doctor_judge_trains(struct doctor_report *r, const char *host, int dir, uint32_t train,
			 const struct doctor_sent *sent, const struct doctor_tally *t, double single_loss);
/* How fast a run went that was sent as fast as one thread can; size: of each packet. */
void doctor_judge_rate(struct doctor_report *r, const char *host, int dir, uint32_t size,
		       const struct doctor_sent *sent, const struct doctor_tally *t);
void doctor_judge_ecn(struct doctor_report *r, const char *host, int dir, const struct doctor_tally *t);
/* expect: paths that there should be, 0: not known. */
void doctor_judge_paths(struct doctor_report *r, const char *host, int dir, const struct doctor_paths *p, int expect);

#endif
