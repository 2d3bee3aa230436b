/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* A pause after a failure, which doubles with each further one. */
#ifndef UCCL_BASE_PAUSE_H
#define UCCL_BASE_PAUSE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/units.h"

/* All zero: there was no failure. */
struct uccl_pause {
	uint64_t until;	/* it lasts so long, ns, */
	uint64_t ns;	/* which is this time */
};

static inline bool uccl_pause_over(const struct uccl_pause *p, uint64_t now)
{
	return now >= p->until;
}

/* It begins: `least`, or twice the one before, and no more than `most`. */
static inline void uccl_pause_begin(struct uccl_pause *p, uint64_t least, uint64_t most, uint64_t now)
{
	p->ns = uccl_clamp(2 * p->ns, least, most);
	p->until = now + p->ns;
}

/* The next one is short again. */
static inline void uccl_pause_forget(struct uccl_pause *p)
{
	*p = (struct uccl_pause){.ns = 0};
}

#endif
