/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * A list of drivers. A queue or counter has a list of the endpoints that are bound to it, and a domain has one of all
 * its endpoints. A call that reads the queue runs all drivers of its list, or sleeps until one of them has something.
 */
#ifndef UCCL_PROGRESS_DRIVERS_H
#define UCCL_PROGRESS_DRIVERS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "progress/idle.h"
#include "progress/lock.h"
#include "progress/silence.h"
#include "progress/wait.h"

struct uccl_driver;

/* See uccl_drivers_fresh(): a packet that came after such a round may be seen this much later. */
#define UCCL_FRESH_NS (5 * UCCL_NS_PER_US)

struct uccl_drivers {
	struct uccl_lock lock; /* taken before a driver's */
	bool locking;	      /* false: the program promises one thread at a time */
	struct uccl_driver **v;
	_Atomic unsigned int n; /* drivers in v; written only with the lock held, even if `locking` is false */
	_Atomic uint64_t attend_ns; /* uccl_drivers_attend() has nothing to do before this time */
	unsigned int cap;	/* entries of v */
	struct uccl_idle idle;	/* state of polling in vain */
	uint64_t polled_ns;	/* when the latest round over the list reached its last driver */
	_Atomic uint64_t began_ns; /* when that round began; a round over many drivers takes longer than UCCL_LEFT_NS */
	struct uccl_silence silence;
};

void uccl_drivers_init(struct uccl_drivers *l, bool locking);
void uccl_drivers_fini(struct uccl_drivers *l);
/* Add a driver; one that is in the list already is ignored. 0 or -FI_ENOMEM. */
int uccl_drivers_add(struct uccl_drivers *l, struct uccl_driver *d);
void uccl_drivers_remove(struct uccl_drivers *l, struct uccl_driver *d);
/*
 * Make a round of every driver that may have something. Does nothing if another thread makes one. If no round finds
 * anything, the caller may yield or nap, to let other threads run (idle.h). No lock is held.
 */
void uccl_drivers_poll(struct uccl_drivers *l);
/*
 * True if a round began less than UCCL_FRESH_NS ago and nothing that was posted waits for the next one. False if
 * another thread makes a round. No lock is held.
 */
bool uccl_drivers_fresh(struct uccl_drivers *l);
/*
 * Called after polling the list `polled` in vain. Runs the drivers of `l` whose queues nobody polls, at intervals or
 * when one expires: a peer may wait for such an endpoint. If nothing is due, the cost is one read of the clock, however
 * long the list is.
 */
void uccl_drivers_attend(struct uccl_drivers *l, const struct uccl_drivers *polled);
/* The earliest uccl_driver_expiry() of drivers without a thread of their own; UCCL_NEVER: none. */
uint64_t uccl_drivers_expiry(struct uccl_drivers *l);

/*
 * The common part of fi_cq_sread, fi_cntr_wait and the like: uccl_sleep_begin(); then check for the event, and call
 * uccl_sleep() after each check in vain, until that returns false (timeout); at the end uccl_sleep_end().
 */
struct uccl_sleep {
	struct uccl_wait *wait;
	struct uccl_drivers *drivers, *others;
	uint64_t until; /* end of the timeout, ns; UCCL_NEVER: none */
};

/* `timeout` in ms; negative: no limit. The sleeper wakes for timers of the drivers in both lists (NULL: none). */
void uccl_sleep_begin(struct uccl_sleep *s, struct uccl_wait *w, struct uccl_drivers *drivers,
		      struct uccl_drivers *others, int timeout);
bool uccl_sleep(struct uccl_sleep *s);
void uccl_sleep_end(struct uccl_sleep *s);

#endif
