/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Lists of drivers: whoever reads a queue or counter drives those that are bound to it, and sleeps until one of them
 * has something.
 */
#ifndef UCCL_PROGRESS_DRIVERS_H
#define UCCL_PROGRESS_DRIVERS_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "progress/idle.h"
#include "progress/silence.h"
#include "progress/wait.h"

struct uccl_driver;

/* Those that are bound to a queue or counter, or belong to a domain. */
struct uccl_drivers {
	pthread_mutex_t lock; /* taken before a driver's */
	bool locking;	      /* false: the program promises one thread at a time */
	struct uccl_driver **v;
	_Atomic unsigned int n; /* changed under the lock, always */
	_Atomic uint64_t attend_ns; /* when to look after those that are left alone */
	unsigned int cap;
	struct uccl_idle idle;	/* of those who poll */
	uint64_t polled_ns;	/* when somebody did */
	_Atomic uint64_t began_ns; /* when that round began: many take longer than UCCL_LEFT_NS */
	struct uccl_silence silence;
};

void uccl_drivers_init(struct uccl_drivers *l, bool locking);
void uccl_drivers_fini(struct uccl_drivers *l);
/* Adding one that is there already is fine. -FI_ENOMEM. */
int uccl_drivers_add(struct uccl_drivers *l, struct uccl_driver *d);
void uccl_drivers_remove(struct uccl_drivers *l, struct uccl_driver *d);
/*
 * One round of every engine that may have something; nothing if another thread is at it. Where none had, the caller
 * leaves others room to run.
 */
void uccl_drivers_poll(struct uccl_drivers *l);
/*
 * The caller has polled `polled`, looks for something else, and finds nothing. Now and then, or whenever one is due,
 * those that are left alone get a turn: a peer may wait for one whose queue nobody reads any more. While none is, it
 * costs a look at the clock, however many there are.
 */
void uccl_drivers_attend(struct uccl_drivers *l, const struct uccl_drivers *polled);
/* The earliest time that an engine without its own thread wants to run without anything arriving. */
uint64_t uccl_drivers_expiry(struct uccl_drivers *l);

/*
 * What sread and wait have in common. Call uccl_sleep_begin once, then look for the event, and uccl_sleep after each
 * look in vain, which returns false when the time is over; at the end, uccl_sleep_end.
 */
struct uccl_sleep {
	struct uccl_wait *wait;
	struct uccl_drivers *drivers, *others;
	uint64_t until;
};

/* timeout in ms, negative: without end. The sleeper wakes for the timers of both lists (NULL: none). */
void uccl_sleep_begin(struct uccl_sleep *s, struct uccl_wait *w, struct uccl_drivers *drivers,
		      struct uccl_drivers *others, int timeout);
bool uccl_sleep(struct uccl_sleep *s);
void uccl_sleep_end(struct uccl_sleep *s);

#endif
