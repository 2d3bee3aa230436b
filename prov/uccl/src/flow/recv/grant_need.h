/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Part of a grant (slots.h): what is known of one peer's need of slots. */
#ifndef UCCL_FLOW_RECV_GRANT_NEED_H
#define UCCL_FLOW_RECV_GRANT_NEED_H

#include <stdbool.h>
#include <stdint.h>

#include "base/units.h"

/* A peer that sent less than half a token for this time, and for this many round trips, is not busy. */
#define UCCL_GRANT_QUIET_NS (10 * UCCL_NS_PER_MS)
#define UCCL_GRANT_QUIET_RTTS 4

struct uccl_grant_need {
	uint64_t from_ns;	/* when counting began, */
	uint32_t came;		/* and chunks that came since then */
	bool has_more;		/* the peer said that more of its own waits */
	bool never_zero;	/* the peer knows of no grant of 0 */
	uint64_t quiet_ns;	/* after so long with few chunks the peer is not busy */
	uint64_t busy_ns;	/* when it was last known to be busy */
};

/* Of zeros. */
static inline void uccl_grant_need_init(struct uccl_grant_need *n)
{
	n->quiet_ns = UCCL_GRANT_QUIET_NS;
}

/*
 * So many chunks came of a peer that has this token. Is the peer busy now, which `busy` (it counts as busy already) did
 * not say lately? Half a token in a while is no need of more. PROTOCOL R253
 */
static inline bool uccl_grant_need_came(struct uccl_grant_need *n, uint32_t came, uint32_t token, bool busy,
					uint64_t srtt_ns, uint64_t now)
{
	uint32_t enough = (uint32_t)uccl_max(uccl_min(token, 2), token / 2);

	/* A peer with a token sends no more than that in a round trip, however busy it is. */
	n->quiet_ns = uccl_max(UCCL_GRANT_QUIET_NS, UCCL_GRANT_QUIET_RTTS * srtt_ns);
	if (now - n->from_ns >= n->quiet_ns) {
		n->from_ns = now;
		n->came = 0;
	}
	n->came += came;
	if (n->came < enough)
		return false;
	n->from_ns = now;
	n->came = 0;
	/* The list of busy peers need not have a finer order than its use. */
	if (busy && now - n->busy_ns < n->quiet_ns / 4)
		return false;
	n->busy_ns = now;
	return true;
}

/* Nothing of it came for so long that it is not busy. */
static inline bool uccl_grant_need_over(const struct uccl_grant_need *n, uint64_t now)
{
	return now - n->busy_ns >= n->quiet_ns;
}

#endif
