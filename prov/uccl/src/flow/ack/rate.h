/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Part of a flow: the rate at which the network delivers, as BBR defines its samples (draft-cheng-iccrg-delivery-rate-
 * estimation). A chunk that leaves remembers how much had been delivered by then, and when. Its acknowledgement tells
 * how much more has been delivered since, and in which time: the longer one of what sending and what acknowledging
 * took, so that neither bursts nor acknowledgements that come together make a rate that the network never had.
 *
 * The grammar: all zero at first. `sent` for each chunk that leaves, or leaves again; for each acknowledgement `acked`
 * for every chunk that it brings news of, then once `sample`; `limited` when there is nothing to send.
 */
#ifndef UCCL_FLOW_ACK_RATE_H
#define UCCL_FLOW_ACK_RATE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/units.h"

/* What a chunk remembers of the moment at which it left. */
struct uccl_rate_stamp {
	uint64_t delivered;	/* bytes, since the flow began */
	uint64_t delivered_ns;	/* when the latest of them were known to be, */
	uint64_t first_ns;	/* and when the newest of them had left */
	bool limited;		/* there had been less to send than the network could take */
};

struct uccl_rate {
	uint64_t delivered, delivered_ns, first_ns; /* as above, now */
	uint64_t limited;	/* samples are limited until this many bytes are delivered; 0: they are not */
	/* of this acknowledgement: */
	bool any;
	struct uccl_rate_stamp newest; /* of the chunk that left last, */
	uint64_t newest_ns;	       /* and when it did */
	/* of samples, the latest of which weighs an eighth: */
	uint64_t mean_bytes, mean_ns;
};

struct uccl_rate_sample {
	uint64_t prior; /* bytes that had been delivered when the chunk left */
	uint64_t bytes; /* delivered since then, */
	uint64_t ns;	/* in this time; 0: no sample */
	bool limited; /* there was less to send, or to be granted, than the network could take */
};

/* A chunk leaves. `idle`: nothing was in flight. */
static inline void uccl_rate_sent(struct uccl_rate *r, struct uccl_rate_stamp *s, bool idle, uint64_t now)
{
	if (idle)
		r->first_ns = r->delivered_ns = now;
	*s = (struct uccl_rate_stamp){
		.delivered = r->delivered,
		.delivered_ns = r->delivered_ns,
		.first_ns = r->first_ns,
		.limited = r->limited != 0,
	};
}

/* So many bytes of a chunk that left at sent_ns are delivered. */
static inline void uccl_rate_acked(struct uccl_rate *r, const struct uccl_rate_stamp *s, uint64_t sent_ns,
				   uint32_t bytes)
{
	r->delivered += bytes;
	if (r->any && sent_ns < r->newest_ns)
		return;
	r->any = true;
	r->newest = *s;
	r->newest_ns = sent_ns;
}

/* All of an acknowledgement that came at `now` was told. A time below min_rtt_ns makes no sample. */
static inline struct uccl_rate_sample uccl_rate_sample(struct uccl_rate *r, uint64_t min_rtt_ns, uint64_t now)
{
	struct uccl_rate_sample s = { 0 };
	uint64_t ns;

	if (!r->any)
		return s;
	r->any = false;
	r->first_ns = r->newest_ns;
	r->delivered_ns = uccl_max(r->delivered_ns, now);
	if (r->delivered > r->limited)
		r->limited = 0;
	ns = uccl_max(r->newest_ns - r->newest.first_ns, r->delivered_ns - r->newest.delivered_ns);
	s.prior = r->newest.delivered;
	s.bytes = r->delivered - s.prior;
	s.ns = ns < min_rtt_ns ? 0 : ns;
	s.limited = r->newest.limited;
	if (s.ns) {
		r->mean_bytes += s.bytes - r->mean_bytes / 8;
		r->mean_ns += s.ns - r->mean_ns / 8;
	}
	return s;
}

/* Bytes that the network delivers in `ns`, as far as is known; 0: the rate is not known. */
static inline uint64_t uccl_rate_in(const struct uccl_rate *r, uint64_t ns)
{
	return r->mean_ns ? (uint64_t)((double)r->mean_bytes * (double)ns / (double)r->mean_ns) : 0;
}

/*
 * Nothing waits for the network, which has `inflight` bytes. Until those are delivered, samples say less than it can.
 */
static inline void uccl_rate_limited(struct uccl_rate *r, uint64_t inflight)
{
	r->limited = uccl_max(r->delivered + inflight, 1);
}

#endif
