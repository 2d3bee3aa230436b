/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Part of a flow: pacing. When the next new payload may leave, and after what.
 *
 * The grammar: all zero at first. `set` when payload leaves, `sooner` if its rate proves too low, `expire` for time.
 */
#ifndef UCCL_FLOW_SEND_PACE_H
#define UCCL_FLOW_SEND_PACE_H

#include <stdint.h>

#include "base/units.h"

struct uccl_pace {
	uint64_t next_ns;	/* no new payload leaves before; 0: none is held back */
	uint64_t sent_ns;	/* when the payload left that it comes behind, */
	uint32_t bytes;		/* and how much that was */
};

/* So many bytes leave now, and the next ones at next_ns. */
static inline void uccl_pace_set(struct uccl_pace *p, uint64_t next_ns, uint32_t bytes, uint64_t now)
{
	*p = (struct uccl_pace){.next_ns = next_ns, .sent_ns = now, .bytes = bytes};
}

/* The next packets may leave at next_ns already, if that is earlier than before. */
static inline void uccl_pace_sooner(struct uccl_pace *p, uint64_t next_ns)
{
	p->next_ns = uccl_min(p->next_ns, next_ns);
}

/* When new payload may leave that is held back; UCCL_NEVER: none is. */
static inline uint64_t uccl_pace_at(const struct uccl_pace *p)
{
	return p->next_ns ? p->next_ns : UCCL_NEVER;
}

static inline void uccl_pace_expire(struct uccl_pace *p, uint64_t now)
{
	if (now >= p->next_ns)
		p->next_ns = 0;
}

#endif
