/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "flow/ack/rack.h"

/* What was learnt is kept this many smoothed RTTs. */
#define MEMORY_RTTS 64
/* What is usual is seen in so many of them, and in UCCL_RACK_PERIOD_CHUNKS chunks, at least. */
#define PERIOD_RTTS 32

void uccl_rack_init(struct uccl_rack *r)
{
	*r = (struct uccl_rack){ .at = UCCL_NEVER };
}

uint32_t uccl_rack_reordered(struct uccl_rack *r, uint32_t dups, uint64_t srtt_ns, uint64_t every_ns, uint64_t now)
{
	uint64_t srtt = uccl_max(srtt_ns, 1000);
	uint32_t fresh = dups - r->dups;

	if ((int32_t)fresh > 0) {
		r->dups = dups;
		if (r->grown_ns && now - r->grown_ns < every_ns)
			return fresh;
		r->grown_ns = now;
		r->reorder_packets = (uint32_t)uccl_clamp(r->reorder_packets * 2, 2, UCCL_RACK_PKTS_MAX);
		r->reorder_ns = uccl_clamp(r->reorder_ns * 2, srtt / 4, 2 * srtt);
		r->keep_until_ns = now + MEMORY_RTTS * srtt;
		return fresh;
	}
	if (now >= r->keep_until_ns && (r->reorder_packets || r->reorder_ns)) {
		r->reorder_packets /= 2;
		r->reorder_ns /= 2;
		r->keep_until_ns = now + MEMORY_RTTS * srtt;
	}
	return 0;
}

bool uccl_rack_ask(struct uccl_rack *r, uint64_t overdue_ns, uint64_t now)
{
	if (r->asked_ns >= overdue_ns)
		return false;
	r->asked_ns = now;
	return true;
}

void uccl_rack_period(struct uccl_rack *r, uint64_t una, uint64_t srtt_ns, uint64_t now)
{
	/* The first samples of the RTT may be far too long, so it is asked at the end. */
	if (r->period_ns && now - r->period_ns < PERIOD_RTTS * uccl_max(srtt_ns, 1000))
		return;
	r->learnt = r->period_ns;
	r->late_ns[1] = r->late_ns[0];
	r->late_ns[0] = 0;
	r->period_ns = uccl_max(now, 1);
	r->period_csn = una;
}
