/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * A driver runs one engine. It has the engine's lock, makes rounds for calls of the program or for threads of ours, and
 * wakes those that sleep until the engine has something. An endpoint owns the driver: the endpoint embeds it and adds
 * its own work to a round. The lock covers the engine, everything below it, and data of the endpoint. Under
 * FI_THREAD_DOMAIN the program takes care of exclusion, and the lock is not used.
 *
 * Lock order: list of drivers, driver, completion queue.
 */
#ifndef UCCL_PROGRESS_DRIVER_H
#define UCCL_PROGRESS_DRIVER_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/units.h"
#include "engine/engine.h"
#include "progress/alarm.h"
#include "progress/lock.h"
#include "progress/wait.h"

struct uccl_driver;
struct uccl_lane_set;
struct uccl_linkshare;

/* What the owner does in a round. All are required. */
struct uccl_driver_ops {
	/* The engine ran and handled n events. Returns n plus the owner's events. The lock is held. */
	int (*ran)(struct uccl_driver *d, int n, uint64_t now);
	/* The round is over. The lock is not held. */
	void (*after)(struct uccl_driver *d);
	/* When the owner wants a round; UCCL_NEVER: none. The lock is held, the engine is open. */
	uint64_t (*expiry)(struct uccl_driver *d);
};

/* If nobody polled a driver for this time, calls on other queues run it (uccl_driver_attend). */
#define UCCL_LEFT_NS (20 * UCCL_NS_PER_US)
/* Something that was posted, and waits for the next round, waits no longer than this. PROTOCOL R420 */
#define UCCL_WAITS_NS UCCL_NS_PER_MS

/* Most wait objects of a driver: two queues, six counters, an event queue, its own thread. */
#define UCCL_DRIVER_WAITS 10

struct uccl_driver {
	const struct uccl_driver_ops *ops;
	struct uccl_engine *engine;	/* NULL: not open */
	struct uccl_lock lock;
	bool locking;			/* false: FI_THREAD_DOMAIN, the lock is not used */
	unsigned int forks;		/* uccl_forks when it was made */
	struct uccl_alarm *alarm;	/* of the rescue thread (rescue.h) */
	struct uccl_linkshare *linkshare; /* NULL: none */
	struct uccl_lane_set *lanes;	/* lanes of its engine, closed with it. NULL: none */
	_Atomic uint64_t brought_ns;	/* time of the last round that found something */
	_Atomic uint32_t stirs;		/* counts rounds that found something, and uses of uccl_driver_lock() */
	_Atomic uint64_t changes;	/* counts all that may change the expiry: every round, and every stir */
	_Atomic uint64_t expiry_ns;	/* latest result of uccl_driver_expiry() */
	_Atomic uint64_t expiry_of;	/* value of `changes` for which expiry_ns holds; UINT64_MAX: none yet */
	_Atomic uint64_t waits_ns;	/* since when something posted waits for the next round; 0: nothing does */
	_Atomic uint64_t called_ns;	/* when a call of the program last ran the engine */
	_Atomic uint64_t read_ns;	/* when somebody last polled a queue or counter of it */
	bool rescue_more;		/* used by the rescue thread only: its latest rounds found packets */
	struct uccl_wait *waits[UCCL_DRIVER_WAITS]; /* wait objects to wake, added by uccl_driver_add_wait() */
	unsigned int nwaits;

	/* The driver's own thread (automatic.h). */
	_Atomic bool automatic;		/* the thread exists */
	_Atomic bool stop;		/* the thread is to end */
	pthread_t thread;
	struct uccl_wait own;		/* the thread sleeps on this */
};

/* `alarm`: outlives the driver. */
void uccl_driver_init(struct uccl_driver *d, const struct uccl_driver_ops *ops, bool locking, struct uccl_alarm *alarm);

/*
 * Open the engine, which shares its link with others (linkshare.h); close it with its lanes. The lock is held for both.
 * 0, or an error of uccl_engine_open().
 */
int uccl_driver_open(struct uccl_driver *d, const struct uccl_engine_attr *attr);
void uccl_driver_close(struct uccl_driver *d);

/*
 * Add a wait object, to be woken when the engine has something. Call before uccl_driver_watch(). A closed object, or
 * one that was added before, is ignored.
 */
void uccl_driver_add_wait(struct uccl_driver *d, struct uccl_wait *w);
/*
 * Let arriving packets wake all added wait objects. If the driver has its own thread, packets wake only that thread,
 * which signals the objects. 0 or a negative error. uccl_driver_unwatch() undoes it and removes the objects.
 */
int uccl_driver_watch(struct uccl_driver *d);
/* Let arriving packets wake `w`, even if the driver has its own thread. 0 or a negative error. */
int uccl_driver_wakes(struct uccl_driver *d, struct uccl_wait *w);
/* As uccl_driver_watch(), for one object that was not added. */
int uccl_driver_watch_by(struct uccl_driver *d, struct uccl_wait *w);
void uccl_driver_unwatch(struct uccl_driver *d);
/*
 * Undo uccl_driver_watch_by() or uccl_driver_wakes(). Call it before the engine's descriptors are closed: a forked
 * child may keep them open, and then they stay readable in the epoll set for ever.
 */
void uccl_driver_unwatch_by(struct uccl_driver *d, struct uccl_wait *w);

/*
 * Run the engine once, for a call of the program that polled a queue of it in vain. With a thread of its own the driver
 * leaves the round to that. `empty`: the engine's descriptor was polled at `now`, and nothing had arrived. Returns true
 * if a round found something since `since`, this round or another. No lock is held.
 */
bool uccl_driver_poll(struct uccl_driver *d, bool empty, uint64_t since, uint64_t now);
/* As uccl_driver_poll(), for a call that knows that there is nothing: only notes the time. */
void uccl_driver_seen(struct uccl_driver *d, uint64_t now);
/*
 * Run the engine once, for a call of the program that polls other queues. Does nothing if another thread holds the
 * lock, if the driver has its own thread, or if it was polled since `since` or in the last UCCL_LEFT_NS. Returns the
 * time of its next expiry; UCCL_NEVER: did nothing. No lock is held.
 */
uint64_t uccl_driver_attend(struct uccl_driver *d, uint64_t since, uint64_t now);
/* Run the engine once, for a thread of ours. Returns the number of events. No lock is held. */
int uccl_driver_run(struct uccl_driver *d);
/* True if the driver has neither a thread nor lanes, and no round found anything after `since`. */
bool uccl_driver_silent(const struct uccl_driver *d, uint64_t since);
/* As uccl_driver_fd(), for a caller without the lock. */
int uccl_driver_poll_fd(struct uccl_driver *d);
/* A descriptor for a nap: readable when packets of peers arrived (uccl_nic_ops.nap_fd). No lock is held. */
int uccl_driver_nap_fd(struct uccl_driver *d);
/*
 * When the engine wants a round although nothing arrives; UCCL_NEVER: none. No lock is held. If nothing changed since
 * the last call, the result is cached and costs no lock: a sleeper asks all drivers each time.
 */
uint64_t uccl_driver_expiry(struct uccl_driver *d);
/* A descriptor that is readable when something arrived; -1: there is none. The lock is held. */
int uccl_driver_fd(struct uccl_driver *d);
/* Close all connections, and wait until the peers know or a time limit passes. No other thread runs the engine now. */
void uccl_driver_linger(struct uccl_driver *d);

/* Wake sleepers that would sleep longer than the engine's expiry. The lock is held. */
void uccl_driver_kick(struct uccl_driver *d);

/*
 * Something was posted, so the expiry may be earlier than sleepers expect: wake them if so. What waits for others
 * leaves in the program's next call that polls, or else the rescue thread sends it. The lock is held.
 */
static inline void uccl_driver_posted(struct uccl_driver *d, uint64_t now)
{
	uint64_t since = atomic_load_explicit(&d->waits_ns, memory_order_relaxed);
	bool waits = uccl_engine_waits(d->engine);

	uccl_driver_kick(d);
	if (uccl_alarm_asleep(d->alarm))
		uccl_alarm_arm(d->alarm, uccl_engine_expiry(d->engine));
	if (waits != !!since) {
		since = waits ? now : 0;
		atomic_store(&d->waits_ns, since);
	}
	if (waits)
		uccl_alarm_by(d->alarm, since + UCCL_WAITS_NS);
}

/*
 * The expiry may have changed: count it. The lock is held. A sleeper first stores that it sleeps, then loads `changes`
 * without the lock. A posting thread first stores `changes`, then loads whether anybody sleeps. All four are seq_cst,
 * so at least one of the two sees the other. With weaker orders a load may overtake the store before it.
 */
static inline void uccl_driver_changed(struct uccl_driver *d)
{
	atomic_store(&d->changes, atomic_load_explicit(&d->changes, memory_order_relaxed) + 1);
}

/* Something happened, or may be left for the next round: count it. The lock is held. */
static inline void uccl_driver_stir(struct uccl_driver *d)
{
	atomic_store_explicit(&d->stirs, atomic_load_explicit(&d->stirs, memory_order_relaxed) + 1,
			      memory_order_relaxed);
	uccl_driver_changed(d);
}

/* Lock the driver to change something. Rounds, and readers that change nothing, do not use this: it counts a stir. */
static inline void uccl_driver_lock(struct uccl_driver *d)
{
	if (d->locking)
		uccl_lock_take(&d->lock);
	uccl_driver_stir(d);
}

static inline void uccl_driver_unlock(struct uccl_driver *d)
{
	if (d->locking)
		uccl_lock_give(&d->lock);
}

#endif
