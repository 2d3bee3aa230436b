/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Sleeping until something happens. A wait object is one epoll descriptor that holds an eventfd (somebody signalled), a
 * timerfd (the engines want to run although nothing arrived) and the descriptors of the engines (something arrived).
 *
 * A sleeper enters, looks once more for what it waits for, sleeps, and leaves. Whoever makes that happen signals. With
 * nobody inside that costs one load, and one store more while he who is inside is awake: a sleeper drives the engines
 * himself, so most of what he waits for happens in his own calls.
 */
#ifndef UCCL_PROGRESS_WAIT_H
#define UCCL_PROGRESS_WAIT_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* Somebody is inside and will look, at the time that the engines want, too, before he sleeps. */
#define UCCL_WAIT_AWAKE 1

struct uccl_wait {
	int epfd, evfd, tmfd;	/* -1: closed */
	_Atomic uint64_t until;	/* when the latest sleeper wakes by itself, ns; UCCL_WAIT_AWAKE; 0: nobody is inside */
	_Atomic bool signalled;	/* while he was awake */
	_Atomic bool forced;	/* the eventfd is readable; set after it became so */
	/* One at a time comes or goes: he who clears up after the last one takes nothing from one who just came. */
	pthread_mutex_t mutex;
	_Atomic int sleepers;	/* threads of ours */
	/* Under the door: so many of them are awake since the eventfd became readable; counts how often it was read. */
	int risen;
	uint32_t read;
	unsigned int late;	/* sleepers who waited in vain for the others since it was last read */
	_Atomic bool outside;	/* the application sleeps on the descriptor, or is about to */
};

/* CLOCK_MONOTONIC, ns. */
uint64_t uccl_clock(void);

/* A closed one: nobody can sleep on it, and whatever is done with it has no effect. */
void uccl_wait_init(struct uccl_wait *w);
/* -FI_EMFILE and the like: no descriptors; it is closed then. */
int uccl_wait_open(struct uccl_wait *w);
void uccl_wait_close(struct uccl_wait *w);
static inline bool uccl_wait_opened(const struct uccl_wait *w)
{
	return w->epfd >= 0;
}

/* Wake up when fd is readable, or no more. Nothing happens to a closed object. */
int uccl_wait_add(struct uccl_wait *w, int fd);
void uccl_wait_remove(struct uccl_wait *w, int fd);

/* Wake whoever sleeps or is about to. */
void uccl_wait_signal(struct uccl_wait *w);
/* Leave the eventfd readable whoever sleeps (fi_cq_signal). */
void uccl_wait_force(struct uccl_wait *w);
/* The engines now want to run at `expiry`: wake a sleeper who would sleep longer. */
void uccl_wait_kick(struct uccl_wait *w, uint64_t expiry);

/* From here on signals are kept: look after this for what may have happened before. */
void uccl_wait_enter(struct uccl_wait *w);
/* I shall sleep until then: from here on a kick for an earlier time counts. Ask the engines once more after this. */
void uccl_wait_plan(struct uccl_wait *w, uint64_t until);
/* Sleep until a signal, until something arrives, or until the time `until` (UCCL_NEVER: without end). */
void uccl_wait_sleep(struct uccl_wait *w, uint64_t until);
void uccl_wait_leave(struct uccl_wait *w);
/*
 * Instead of leaving and entering: a sleeper who stays. True: something was signalled since it entered or last asked,
 * so that it looks once more before it sleeps. All who are inside are awake by then, but for one that takes too long,
 * or the time `until` is over. False: it may sleep.
 */
bool uccl_wait_again(struct uccl_wait *w, uint64_t until);
/* It slept, and looks again: signals are kept, as after uccl_wait_enter. */
void uccl_wait_up(struct uccl_wait *w);

/*
 * A thread's work: `poll` says whether there was any, `stay` whether to look again rather than sleep if not (NULL:
 * sleep), `expiry` when there will be some although nothing happens.
 */
struct uccl_wait_work {
	int (*poll)(void *arg);
	bool (*stay)(void *arg);
	uint64_t (*expiry)(void *arg);
	void *arg;
};

/* Do it until `stop` is true, whose setter forces; sleep while there is none. */
void uccl_wait_serve(struct uccl_wait *w, const _Atomic bool *stop, const struct uccl_wait_work *work);

/* The application is going to sleep on the descriptor, which becomes readable at `until` at the latest. */
void uccl_wait_enter_outside(struct uccl_wait *w);
void uccl_wait_until_outside(struct uccl_wait *w, uint64_t until);
/* It is back. */
void uccl_wait_leave_outside(struct uccl_wait *w);

static inline void uccl_wait_awake(struct uccl_wait *w)
{
	if (atomic_load_explicit(&w->outside, memory_order_relaxed))
		uccl_wait_leave_outside(w);
}

#endif
