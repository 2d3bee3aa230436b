/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What a caller does when polling finds nothing. A caller with its own core spins, which is fastest. A caller that
 * shares its core keeps the peer, or another program, from running. So after many consecutive empty rounds the caller
 * yields now and then. If a yield takes long, other threads want the core. From then on the caller naps instead: it
 * sleeps for UCCL_NAP_NS, or until a packet comes.
 */
#ifndef UCCL_PROGRESS_IDLE_H
#define UCCL_PROGRESS_IDLE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/units.h"

/* Longest nap. A timer, or an event without a descriptor, may be late by this. */
#define UCCL_NAP_NS (50 * UCCL_NS_PER_US)

enum uccl_idle_do { UCCL_IDLE_SPIN, UCCL_IDLE_YIELD, UCCL_IDLE_NAP };

/* All zero: new. Several threads may use one: each field is consistent by itself, and a lost count does no harm. */
struct uccl_idle {
	_Atomic uint32_t rounds;	/* consecutive empty rounds */
	_Atomic uint32_t naps;		/* naps since the last yield */
	_Atomic bool crowded;		/* the last yield was long: other threads want the core */
};

/* A round found something. */
void uccl_idle_reset(struct uccl_idle *i);
/* A round found nothing. Returns what to do now. After UCCL_IDLE_YIELD the caller calls uccl_idle_yielded(). */
enum uccl_idle_do uccl_idle_next(struct uccl_idle *i);
/*
 * A yield took `took_ns`. `others`: other threads had the core meanwhile. A long yield without other threads was caused
 * by an interrupt, or by the host of a virtual machine.
 */
void uccl_idle_yielded(struct uccl_idle *i, uint64_t took_ns, bool others);
/* Yield, and call uccl_idle_yielded(). */
void uccl_idle_yield(struct uccl_idle *i);

/*
 * A thread of ours found nothing for `idle_ns`. True: it stays awake, since waking it would take longer than the next
 * packet. Then it calls uccl_idle_yield() after each round.
 */
bool uccl_idle_stay(struct uccl_idle *i, uint64_t idle_ns);

#endif
