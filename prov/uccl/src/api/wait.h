/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Sleeping until something happens. A wait object is one epoll descriptor that holds an eventfd (somebody signalled), a
 * timerfd (the engines want to run although nothing arrived) and the descriptors of the engines (something arrived).
 *
 * A sleeper enters, looks once more for what it waits for, sleeps, and leaves. Whoever makes that happen signals; with
 * nobody inside that costs one load.
 */
#ifndef UCCL_API_WAIT_H
#define UCCL_API_WAIT_H

#include <rdma/fi_eq.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct uccl_waitset;

struct uccl_wait {
	enum fi_wait_obj obj;	/* FI_WAIT_NONE: closed, no descriptors */
	int epfd, evfd, tmfd;
	_Atomic uint64_t until;	/* when the latest sleeper wakes by itself, ns; 0: nobody sleeps */
	_Atomic int sleepers;	/* threads of ours */
	struct uccl_waitset *set; /* that it is one of; NULL: none */
	_Atomic bool outside;	/* the application sleeps on the descriptor, or is about to */
};

/* CLOCK_MONOTONIC, ns. */
uint64_t uccl_clock(void);

/* FI_WAIT_NONE opens nothing. -FI_ENOSYS: a kind that is not supported. -FI_EMFILE and the like: no descriptors. */
int uccl_wait_open(struct uccl_wait *w, enum fi_wait_obj obj);
void uccl_wait_close(struct uccl_wait *w);

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
/* Sleep until a signal, until something arrives, or until the time `until` (UCCL_NEVER: without end). */
void uccl_wait_sleep(struct uccl_wait *w, uint64_t until);
void uccl_wait_leave(struct uccl_wait *w);

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

/* FI_GETWAIT and FI_GETWAITOBJ of fi_control. */
int uccl_wait_control(struct uccl_wait *w, int command, void *arg);

#endif
