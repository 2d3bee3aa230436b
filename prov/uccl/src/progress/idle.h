/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What to do when polling finds nothing. A caller with a core of its own spins: that is fastest. A caller that shares
 * its core holds what the peer, or another program, needs to run. So a long row of empty rounds lets others run now and
 * then. If that takes long, others do want the core. From then on the caller naps instead: it sleeps until a packet
 * comes, for a moment only.
 */
#ifndef UCCL_PROGRESS_IDLE_H
#define UCCL_PROGRESS_IDLE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/units.h"

/* How long a nap may last: a timer, or what no descriptor tells of, is late by so much. */
#define UCCL_NAP_NS (50 * UCCL_NS_PER_US)

enum uccl_idle_do { UCCL_IDLE_SPIN, UCCL_IDLE_YIELD, UCCL_IDLE_NAP };

/* Several threads may drive one endpoint: each field is right by itself, and a lost count does no harm. Zeroed: new. */
struct uccl_idle {
	_Atomic uint32_t rounds;	/* in a row that brought nothing */
	_Atomic uint32_t naps;		/* since others were last seen to want the core */
	_Atomic bool crowded;
};

/* A round brought something. */
void uccl_idle_reset(struct uccl_idle *i);
/* A round brought nothing: what now? After YIELD tell how long it took. */
enum uccl_idle_do uccl_idle_next(struct uccl_idle *i);
/*
 * `others`: threads that had the core meanwhile. A long one without any was the host's of a virtual machine, or an
 * interrupt's.
 */
void uccl_idle_yielded(struct uccl_idle *i, uint64_t took_ns, bool others);
/* Yield, and tell. */
void uccl_idle_yield(struct uccl_idle *i);

/*
 * A thread of ours found nothing for so long: may it stay awake? Waking it takes longer than the next packet. It lets
 * others run after each look, and tells how long that took.
 */
bool uccl_idle_stay(struct uccl_idle *i, uint64_t idle_ns);

#endif
