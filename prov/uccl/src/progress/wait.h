/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Sleeping until something happens. A wait object is one epoll descriptor. It contains an eventfd (a thread signalled),
 * a timerfd (an engine has a timer due) and the descriptors of the engines (something arrived).
 *
 * A sleeper calls uccl_wait_enter(), checks once more for its event, sleeps, and calls uccl_wait_leave(). A thread that
 * causes the event calls uccl_wait_signal(). A signal costs one load if nobody is inside, and one more store if the
 * thread inside is awake. It is cheap in this case because a sleeper drives the engines itself, so most of its events
 * come from its own calls.
 */
#ifndef UCCL_PROGRESS_WAIT_H
#define UCCL_PROGRESS_WAIT_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* Value of uccl_wait.until: a thread is inside and awake. Before it sleeps it checks for its event and for timers. */
#define UCCL_WAIT_AWAKE 1

struct uccl_wait {
	int epfd, evfd, tmfd;	/* -1: closed */
	_Atomic uint64_t until;	/* when the latest sleeper wakes by itself, ns; UCCL_WAIT_AWAKE; 0: nobody is inside */
	_Atomic bool signalled;	/* a signal came while the thread inside was awake */
	_Atomic bool forced;	/* the eventfd is readable; set after the write that made it readable */
	_Atomic uint64_t writes, taken;	/* of the eventfd: begun, and those that were read; if alike it is empty */
	/* Held to enter and to leave: the last thread that leaves must not clear a signal for one that just entered. */
	pthread_mutex_t mutex;
	_Atomic int sleepers;	/* threads inside, without the program on the descriptor */
	int risen;		/* under the mutex: threads awake since the eventfd became readable */
	uint32_t read;		/* under the mutex: counts how often the eventfd was read */
	unsigned int late;	/* under the mutex: threads that waited in vain for the others since that read */
	_Atomic bool outside;	/* the program sleeps on the descriptor itself, or is about to */
};

/* CLOCK_MONOTONIC in ns. */
uint64_t uccl_clock(void);

/* Make a closed object: nobody can sleep on it, and all calls on it have no effect. */
void uccl_wait_init(struct uccl_wait *w);
/* Open an object. 0, or -FI_EMFILE and the like: no descriptors, and the object is closed. */
int uccl_wait_open(struct uccl_wait *w);
void uccl_wait_close(struct uccl_wait *w);
static inline bool uccl_wait_opened(const struct uccl_wait *w)
{
	return w->epfd >= 0;
}

/* From now on a readable `fd` wakes the sleepers; undo that. Without effect on a closed object. 0 or -errno. */
int uccl_wait_add(struct uccl_wait *w, int fd);
void uccl_wait_remove(struct uccl_wait *w, int fd);

/* The rest of uccl_wait_signal(): somebody is inside. */
void uccl_wait_signal_inside(struct uccl_wait *w);
/* Any thread: wake the threads that sleep or are about to. */
static inline void uccl_wait_signal(struct uccl_wait *w)
{
	if (atomic_load(&w->until))
		uccl_wait_signal_inside(w);
}
/* Any thread: make the eventfd readable, even if nobody sleeps (fi_cq_signal). */
void uccl_wait_force(struct uccl_wait *w);
/* Any thread: an engine's next timer is now at `expiry`. Wakes a sleeper that would sleep longer. */
void uccl_wait_kick(struct uccl_wait *w, uint64_t expiry);

/* Enter: from here on signals are kept. Check for the event after this, since it may have happened before. */
void uccl_wait_enter(struct uccl_wait *w);
/* Announce to sleep until `until`: from here on uccl_wait_kick() works. Ask the engines for timers after this. */
void uccl_wait_plan(struct uccl_wait *w, uint64_t until);
/* Sleep until a signal, until something arrives, or until `until` (CLOCK_MONOTONIC, ns; UCCL_NEVER: no limit). */
void uccl_wait_sleep(struct uccl_wait *w, uint64_t until);
void uccl_wait_leave(struct uccl_wait *w);
/*
 * For a sleeper that stays inside, instead of leaving and entering. True: there was a signal since it entered or last
 * asked, so it must check before it sleeps. It returns when all threads inside are awake, when one of them takes too
 * long, or at `until`. False: it may sleep.
 */
bool uccl_wait_again(struct uccl_wait *w, uint64_t until);
/* For a sleeper that slept and stays inside: from here on signals are kept, as after uccl_wait_enter(). */
void uccl_wait_up(struct uccl_wait *w);

/* The work of a thread. Each function gets `arg`. */
struct uccl_wait_work {
	int (*poll)(void *arg);		/* do the work there is; > 0: there was some */
	bool (*stay)(void *arg);	/* after poll() found none. True: poll again, do not sleep. NULL: sleep */
	uint64_t (*expiry)(void *arg);	/* when to poll although nothing happens, ns; UCCL_NEVER */
	void *arg;
};

/* Work until *stop is true; sleep while there is no work. To end it, set *stop, then call uccl_wait_force(). */
void uccl_wait_serve(struct uccl_wait *w, const _Atomic bool *stop, const struct uccl_wait_work *work);

/* The program is going to sleep on the descriptor itself (fi_trywait). */
void uccl_wait_enter_outside(struct uccl_wait *w);
/* The descriptor becomes readable at `until`, ns, at the latest. */
void uccl_wait_until_outside(struct uccl_wait *w, uint64_t until);
/* The program is back from its sleep on the descriptor. */
void uccl_wait_leave_outside(struct uccl_wait *w);

/* As uccl_wait_leave_outside(), and cheap if the program was not outside. */
static inline void uccl_wait_awake(struct uccl_wait *w)
{
	if (atomic_load_explicit(&w->outside, memory_order_relaxed))
		uccl_wait_leave_outside(w);
}

#endif
