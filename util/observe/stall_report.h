/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Who is slow? Compares two snapshots of an endpoint (engine/observe/snapshot.h), which were checked, and names what
 * held it back between them, the worst first. No clock, no files.
 */
#ifndef UCCL_UTIL_STALL_REPORT_H
#define UCCL_UTIL_STALL_REPORT_H

#include <stddef.h>
#include <stdint.h>

#include "engine/observe/snapshot.h"

/* Shares of the time, of packets; factors of the median of a peer's paths. What is less is not worth a line. */
#define STALL_REPORT_SHARE 0.05
#define STALL_REPORT_LOST 0.01
#define STALL_REPORT_RTT 3.0
#define STALL_REPORT_LOSSES 3.0
/*
 * Shorter times are what a busy processor makes of a healthy peer, not worth a line either. A rank that computes does
 * not call the provider for a while and does not answer then. So silence counts if the peer is silent now, and for
 * long, or if it was silent most of the time.
 */
#define STALL_REPORT_SILENT_NS 200000000ull /* without a packet of the peer, or a receive of its program */
#define STALL_REPORT_SILENT 0.5		    /* share of the time */
#define STALL_REPORT_RTT_NS 1000000ull	    /* RTT of a path above the median: a host's own waiting is shorter */
/* Fewer packets say nothing of a path. */
#define STALL_REPORT_PACKETS 64
/* An older snapshot means that nobody calls the provider. */
#define STALL_REPORT_STALE_NS 1500000000ull

enum stall_report_kind { STALL_REPORT_ENDPOINT, STALL_REPORT_PEER, STALL_REPORT_PATH };

struct stall_report {
	uint8_t kind;		       /* enum stall_report_kind */
	uint8_t why;		       /* enum uccl_stall; of a path UCCL_STALL_LOSS, or UCCL_STALL_NOT: it is slow */
	const struct uccl_snapshot *v; /* the later snapshot, the caller's */
	const struct uccl_snapshot_peer *peer; /* in it; of an endpoint NULL */
	const struct uccl_snapshot_path *path; /* likewise; of a path only */
	double share;	 /* of the time, 0 to 1: held back for any reason. Of a path: see stall_report.c */
	double fraction; /* by `why` */
	double lost;			/* share of packets, 0 to 1 */
	double times;			/* of a path: its RTT, in medians of the peer's paths; 0: not known */
	uint64_t stale_ns;		/* of an endpoint: so old is its snapshot */
};

/*
 * What of one endpoint is worth a line, at most `max`, not sorted. Returns how many. before NULL: since its beginning.
 * clock_ns: the time now, by the clock of the snapshots.
 */
size_t stall_report_find(const struct uccl_snapshot *now, const struct uccl_snapshot *before, uint64_t clock_ns,
			 struct stall_report *out, size_t max);
/* The worst first: peers and endpoints, then paths. */
void stall_report_sort(struct stall_report *s, size_t n);
/* The number behind it, for people. Always terminated. */
void stall_report_figure(const struct stall_report *s, char *buf, size_t size);
/* One sentence about all of them (sorted): what it means. */
void stall_report_sentence(const struct stall_report *s, size_t n, char *buf, size_t size);

#endif
