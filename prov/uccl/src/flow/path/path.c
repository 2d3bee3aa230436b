/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "flow/path/path.h"

#include <string.h>

#include "base/units.h"

void uccl_path_init(struct uccl_path *p, uint16_t label)
{
	memset(p, 0, sizeof(*p));
	p->state = UCCL_PATH_ACTIVE;
	p->label = label;
	p->next_seq = 1;
	p->min_rtt_ns = UCCL_NEVER;
}

void uccl_rtt_smooth(uint64_t *srtt_ns, uint64_t *rttvar_ns, uint64_t rtt_ns)
{
	uint64_t err, gain = 4;

	if (!*srtt_ns) {
		*srtt_ns = rtt_ns;
		*rttvar_ns = rtt_ns / 2;
		return;
	}
	err = *srtt_ns > rtt_ns ? *srtt_ns - rtt_ns : rtt_ns - *srtt_ns;
	/* As Linux has it: what came sooner than ever says little of how late something may come. */
	if (*srtt_ns > rtt_ns && err > *rttvar_ns)
		gain = 32;
	/* The old value's share goes first: the other way round the mean settles at 7/8 of what is measured. */
	*rttvar_ns = *rttvar_ns - *rttvar_ns / gain + err / gain;
	*srtt_ns = *srtt_ns - *srtt_ns / 8 + rtt_ns / 8;
}

void uccl_path_rtt(struct uccl_path *p, uint64_t rtt_ns, uint64_t now)
{
	p->last_rtt_ns = rtt_ns;
	p->sampled_ns = now;
	p->min_rtt_ns = uccl_min(p->min_rtt_ns, rtt_ns);
	uccl_rtt_smooth(&p->srtt_ns, &p->rttvar_ns, rtt_ns);
}
