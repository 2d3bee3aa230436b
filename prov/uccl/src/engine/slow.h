/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Who is slow? Compares two pictures of an endpoint (engine/view.h), which were checked, and names what held it back
 * between them, the worst first. Pure: no clock, no files.
 */
#ifndef UCCL_ENGINE_SLOW_H
#define UCCL_ENGINE_SLOW_H

#include <stddef.h>
#include <stdint.h>

#include "engine/view.h"

/* Shares of the time, of packets; factors of the median of a peer's paths. What is less is not worth a line. */
#define UCCL_SLOW_SHARE 0.05
#define UCCL_SLOW_LOST 0.01
#define UCCL_SLOW_RTT 3.0
#define UCCL_SLOW_LOSSES 3.0
/* Fewer packets say nothing of a path. */
#define UCCL_SLOW_PACKETS 64
/* A picture that is older was not drawn because nobody called the provider. */
#define UCCL_SLOW_STALE_NS 1500000000ull

enum uccl_slow_kind { UCCL_SLOW_ENDPOINT, UCCL_SLOW_PEER, UCCL_SLOW_PATH };

struct uccl_slow {
	uint8_t kind;			/* enum uccl_slow_kind */
	uint8_t why;			/* enum uccl_held; of a path UCCL_HELD_LOSS, or UCCL_HELD_NOT: it is slow */
	const struct uccl_view *v;	/* the later picture, the caller's */
	const struct uccl_view_peer *peer; /* in it; of an endpoint NULL */
	const struct uccl_view_path *path; /* likewise; of a path only */
	double share;			/* of the time, 0 to 1: held back for any reason. Of a path: see slow.c */
	double part;			/* by `why` */
	double lost;			/* share of packets, 0 to 1 */
	double times;			/* of a path: its RTT, in medians of the peer's paths; 0: not known */
	uint64_t stale_ns;		/* of an endpoint: so old is its picture */
};

/*
 * What of one endpoint is worth a line, at most `max`, not sorted. Returns how many. before NULL: since its beginning.
 * clock_ns: the time now, by the clock of the pictures.
 */
size_t uccl_slow_find(const struct uccl_view *now, const struct uccl_view *before, uint64_t clock_ns,
		      struct uccl_slow *out, size_t max);
/* The worst first: peers and endpoints, then paths. */
void uccl_slow_sort(struct uccl_slow *s, size_t n);
/* The number behind it, for people. Always terminated; returns its length. */
size_t uccl_slow_figure(const struct uccl_slow *s, char *buf, size_t size);
/* One sentence about all of them (sorted): what it means. */
size_t uccl_slow_sentence(const struct uccl_slow *s, size_t n, char *buf, size_t size);

#endif
