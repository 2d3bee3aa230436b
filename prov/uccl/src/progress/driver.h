/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Who drives one engine, and when: its lock, the round that a caller or a thread of ours makes, those who sleep until
 * it has something. Its owner (an endpoint) embeds it and says what else belongs to a round. The lock covers the engine
 * and everything below, and what its owner keeps under it; the program takes it over under FI_THREAD_DOMAIN.
 *
 * Order of locks: list of drivers, driver, completion queue.
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
#include "progress/wait.h"

struct uccl_driver;
struct uccl_lane_set;
struct uccl_linkshare;

/* What the owner has to do with a round; each is needed. */
struct uccl_driver_ops {
	/* The engine ran, and `n` things happened: how many with those that the owner did. The lock is held. */
	int (*ran)(struct uccl_driver *d, int n, uint64_t now);
	/* The round is over, and the lock given back. */
	void (*after)(struct uccl_driver *d);
	/* When the owner wants a round for itself; UCCL_NEVER. The lock is held, the engine is there. */
	uint64_t (*expiry)(struct uccl_driver *d);
};

/* A driver for which nobody looked for so long is left alone: others look after it. */
#define UCCL_LEFT_NS (20 * UCCL_NS_PER_US)

/* Wait objects that it may have to wake: two queues, six counters, an event queue, its own thread. */
#define UCCL_DRIVER_WAITS 10

struct uccl_driver {
	const struct uccl_driver_ops *ops;
	struct uccl_engine *engine;	/* NULL: not made yet */
	pthread_mutex_t lock;
	bool locking;
	unsigned int forks;		/* uccl_forks when it was made */
	struct uccl_alarm *alarm;	/* wakes who runs its timers while the program stays away */
	struct uccl_linkshare *linkshare; /* NULL: none */
	struct uccl_lane_set *lanes;	/* of its engine; NULL: none. Closed with it */
	_Atomic uint64_t brought_ns;	/* when a round last found something */
	_Atomic uint32_t stirs;		/* counts rounds that found something, and whoever else had the lock */
	_Atomic uint64_t changes;	/* counts these, and all other rounds: what may move its expiry */
	_Atomic uint64_t expiry_ns;	/* what uccl_driver_expiry found last, */
	_Atomic uint64_t expiry_of;	/* after so many changes; UINT64_MAX: it was not asked */
	_Atomic uint64_t called_ns;	/* when the program last drove it */
	_Atomic uint64_t read_ns;	/* when somebody last looked for what it brings */
	bool rescue_more;		/* the rescue thread's own: a look not long ago found packets */
	struct uccl_wait *waits[UCCL_DRIVER_WAITS];
	unsigned int nwaits;

	/* Its own thread (automatic.h). */
	_Atomic bool automatic;		/* it is there */
	_Atomic bool stop;
	pthread_t thread;
	struct uccl_wait own;		/* on which that thread sleeps */
};

void uccl_driver_init(struct uccl_driver *d, const struct uccl_driver_ops *ops, bool locking, struct uccl_alarm *alarm);
/* The engine is gone. */
void uccl_driver_fini(struct uccl_driver *d);

/* Make the engine, which shares its link with others (linkshare.h); undo that. The lock is held for both. */
int uccl_driver_open(struct uccl_driver *d, const struct uccl_engine_attr *attr);
void uccl_driver_close(struct uccl_driver *d);

/* Who must be woken when it has something. Before uccl_driver_watch; one that is closed, or there already, is fine. */
void uccl_driver_add_wait(struct uccl_driver *d, struct uccl_wait *w);
/* From now on they wake when something arrives, unless its own thread does and then signals; no more. */
int uccl_driver_watch(struct uccl_driver *d);
/* What arrives wakes this one, whoever drives it. */
int uccl_driver_wakes(struct uccl_driver *d, struct uccl_wait *w);
/* One that is not of them, or comes late. */
int uccl_driver_watch_by(struct uccl_driver *d, struct uccl_wait *w);
void uccl_driver_unwatch(struct uccl_driver *d);
/* The descriptors may live on in a child when they are closed here, and stay readable there for ever. */
void uccl_driver_unwatch_by(struct uccl_driver *d, struct uccl_wait *w);

/*
 * Run the engine once, for a call of the program that looks for what it brings and found nothing. If it has its own
 * thread that one does it. `empty`: its descriptor was asked at `now`, and nothing had arrived. True: it has found
 * something since `since`, in this round or for another queue of its.
 */
bool uccl_driver_poll(struct uccl_driver *d, bool empty, uint64_t since, uint64_t now);
/* The same for a call that knows that it has nothing, so that no round is needed. */
void uccl_driver_seen(struct uccl_driver *d, uint64_t now);
/*
 * A round at `now`, for a call that looks for something else, unless somebody is at it or was since `since` or
 * UCCL_LEFT_NS ago. Returns when it wants to run again; UCCL_NEVER: it is in good hands.
 */
uint64_t uccl_driver_attend(struct uccl_driver *d, uint64_t since, uint64_t now);
/* The same, for a thread of ours; the number of events. */
int uccl_driver_run(struct uccl_driver *d);
/* Is there nobody else to drive it, and did it bring nothing since `since`? */
bool uccl_driver_silent(const struct uccl_driver *d, uint64_t since);
/* As uccl_driver_fd, for who does not have the lock. */
int uccl_driver_poll_fd(struct uccl_driver *d);
/* Likewise, of what peers send: for a nap. */
int uccl_driver_nap_fd(struct uccl_driver *d);
/*
 * When it wants to run without anything arriving; UCCL_NEVER. Who sleeps asks all of them each time: one with which
 * nobody had to do since the last time says the same without its lock.
 */
uint64_t uccl_driver_expiry(struct uccl_driver *d);
/* Readable when something arrived; -1: there is no such descriptor. The lock is held. */
int uccl_driver_fd(struct uccl_driver *d);
/* Tell the peers that it ends, and stay until they know, but not for ever. Nobody else drives it. */
void uccl_driver_linger(struct uccl_driver *d);

/* Wake those who sleep longer than the engine now wants. The lock is held. */
void uccl_driver_kick(struct uccl_driver *d);

/* Something was posted: it may be due earlier than those who sleep know. The lock is held. */
static inline void uccl_driver_posted(struct uccl_driver *d)
{
	uccl_driver_kick(d);
	if (uccl_alarm_asleep(d->alarm))
		uccl_alarm_arm(d->alarm, uccl_engine_expiry(d->engine));
}

/*
 * What it waits for may be something else now. The lock is held. He who is about to sleep says so, and then looks at
 * this without the lock; who posts counts here, and then looks whether anybody sleeps. So that one of them sees the
 * other all four are in one order (seq_cst): a processor may do a load before the store in front of it.
 */
static inline void uccl_driver_changed(struct uccl_driver *d)
{
	atomic_store(&d->changes, atomic_load_explicit(&d->changes, memory_order_relaxed) + 1);
}

/* Something happened, or may be left to do for the next round. The lock is held. */
static inline void uccl_driver_stir(struct uccl_driver *d)
{
	atomic_store_explicit(&d->stirs, atomic_load_explicit(&d->stirs, memory_order_relaxed) + 1,
			      memory_order_relaxed);
	uccl_driver_changed(d);
}

/* For all but rounds of the engine, and those who only look. */
static inline void uccl_driver_lock(struct uccl_driver *d)
{
	if (d->locking)
		pthread_mutex_lock(&d->lock);
	uccl_driver_stir(d);
}

static inline void uccl_driver_unlock(struct uccl_driver *d)
{
	if (d->locking)
		pthread_mutex_unlock(&d->lock);
}

#endif
