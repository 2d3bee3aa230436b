/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* As BBR (Cardwell et al. 2016): paced at the best rate seen of late, with two products of it and the round trip. */
#include <math.h>
#include "base/units.h"
#include "policy/policies.h"

struct rate {
	double best[2], chunk, most, full; /* bytes per ns: of this stretch and the one before; bytes; bytes per ns */
	double rtt_ns;			   /* least */
	uint64_t round, next_ns;	   /* the round trip is over when that much is delivered; pace */
	uint32_t rounds, flat;		   /* in all; without growth */
};

static void rate_init(void *cc, const struct uccl_policy_cfg *cfg, uint64_t now)
{
	*(struct rate *)cc = (struct rate){.chunk = cfg->chunk_bytes, .most = (double)cfg->window_max, .next_ns = now,
					   .rtt_ns = cfg->delay_ns ? (double)cfg->delay_ns : 25000};
}

static uint64_t rate_window(const void *cc)
{
	const struct rate *r = cc;

	return (uint64_t)fmin(fmax(2 * fmax(r->best[0], r->best[1]) * r->rtt_ns, 10 * r->chunk), r->most);
}

static uint64_t rate_pace(void *cc, uint32_t bytes, uint64_t srtt_ns, uint64_t now)
{
	static const double cycle[8] = {1.25, 0.75, 1, 1, 1, 1, 1, 1};
	struct rate *r = cc;
	double bw = fmax(r->best[0], r->best[1]) * (r->flat < 3 ? 2.885 : cycle[r->rounds % 8]);

	(void)srtt_ns;
	r->next_ns = bw > 0 ? uccl_max(r->next_ns, now) + (uint64_t)(bytes / bw) : now;
	return r->next_ns;
}

static void rate_on_ack(void *cc, const struct uccl_ack_info *ack, uint64_t now)
{
	struct rate *r = cc;
	double bw = ack->rate.ns ? (double)ack->rate.bytes / (double)ack->rate.ns : 0;

	(void)now;
	r->rtt_ns = ack->min_rtt_ns ? (double)ack->min_rtt_ns : r->rtt_ns;
	r->best[0] = !ack->rate.limited || bw > r->best[1] ? fmax(r->best[0], bw) : r->best[0];
	if (ack->rate.prior < r->round)
		return;
	r->round = ack->delivered;
	r->flat = r->best[0] > 1.25 * r->full ? 0 : r->flat + !ack->rate.limited;
	r->full = fmax(r->full, r->best[0]);
	if (++r->rounds % 5 == 0 && r->best[0] > 0) {
		r->best[1] = r->best[0];
		r->best[0] = 0;
	}
}

const struct uccl_cc_ops uccl_cc_rate = {.name = "rate", .init = rate_init, .window = rate_window, .pace = rate_pace,
					 .on_ack = rate_on_ack};
