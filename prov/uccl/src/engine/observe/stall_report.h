/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Who is slow? Compares two pictures of an endpoint (engine/observe/snapshot.h), which were checked, and names what
 * held it back between them, the worst first. Pure: no clock, no files.
 */
#ifndef UCCL_ENGINE_OBSERVE_STALL_REPORT_H
#define UCCL_ENGINE_OBSERVE_STALL_REPORT_H

#include <stddef.h>
#include <stdint.h>

#include "engine/observe/snapshot.h"

/* Shares of the time, of packets; factors of the median of a peer's paths. What is less is not worth a line. */
#define UCCL_STALL_REPORT_SHARE 0.05
#define UCCL_STALL_REPORT_LOST 0.01
#define UCCL_STALL_REPORT_RTT 3.0
#define UCCL_STALL_REPORT_LOSSES 3.0
/* Fewer packets say nothing of a path. */
#define UCCL_STALL_REPORT_PACKETS 64
/* A picture that is older was not drawn because nobody called the provider. */
#define UCCL_STALL_REPORT_STALE_NS 1500000000ull

enum uccl_stall_report_kind { UCCL_STALL_REPORT_ENDPOINT, UCCL_STALL_REPORT_PEER, UCCL_STALL_REPORT_PATH };

struct uccl_stall_report {
	uint8_t kind;		       /* enum uccl_stall_report_kind */
	uint8_t why;		       /* enum uccl_stall; of a path UCCL_STALL_LOSS, or UCCL_STALL_NOT: it is slow */
	const struct uccl_snapshot *v; /* the later picture, the caller's */
	const struct uccl_snapshot_peer *peer; /* in it; of an endpoint NULL */
	const struct uccl_snapshot_path *path; /* likewise; of a path only */
	double share;	 /* of the time, 0 to 1: held back for any reason. Of a path: see stall_report.c */
	double fraction; /* by `why` */
	double lost;			/* share of packets, 0 to 1 */
	double times;			/* of a path: its RTT, in medians of the peer's paths; 0: not known */
	uint64_t stale_ns;		/* of an endpoint: so old is its picture */
};

/*
 * What of one endpoint is worth a line, at most `max`, not sorted. Returns how many. before NULL: since its beginning.
 * clock_ns: the time now, by the clock of the pictures.
 */
size_t uccl_stall_report_find(const struct uccl_snapshot *now, const struct uccl_snapshot *before, uint64_t clock_ns,
			      struct uccl_stall_report *out, size_t max);
/* The worst first: peers and endpoints, then paths. */
void uccl_stall_report_sort(struct uccl_stall_report *s, size_t n);
/* The number behind it, for people. Always terminated; returns its length. */
size_t uccl_stall_report_figure(const struct uccl_stall_report *s, char *buf, size_t size);
/* One sentence about all of them (sorted): what it means. */
size_t uccl_stall_report_sentence(const struct uccl_stall_report *s, size_t n, char *buf, size_t size);

#endif
