/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Who drives the engines: whoever reads a queue or counter, or one thread per endpoint under FI_PROGRESS_AUTO. */
#ifndef UCCL_API_PROGRESS_H
#define UCCL_API_PROGRESS_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "api/wait.h"

struct uccl_ep;

/* The endpoints that are bound to a queue or counter. */
struct uccl_ep_list {
	pthread_mutex_t lock; /* taken before an endpoint's */
	bool locking;	      /* false: the program promises one thread at a time */
	struct uccl_ep **v;
	_Atomic unsigned int n; /* changed under the lock, always */
	unsigned int cap;
};

void uccl_ep_list_init(struct uccl_ep_list *l, bool locking);
void uccl_ep_list_fini(struct uccl_ep_list *l);
/* Adding one that is there already is fine. -FI_ENOMEM. */
int uccl_ep_list_add(struct uccl_ep_list *l, struct uccl_ep *ep);
void uccl_ep_list_remove(struct uccl_ep_list *l, struct uccl_ep *ep);
/* One round of every engine; nothing if another thread is at it. */
void uccl_ep_list_poll(struct uccl_ep_list *l);
/* The same, but unless `all` only of engines that want to run although nothing arrived. */
void uccl_ep_list_poll_due(struct uccl_ep_list *l, bool all);
/* The earliest time that an engine wants to run without anything arriving. */
uint64_t uccl_ep_list_expiry(struct uccl_ep_list *l);

/*
 * What sread and wait have in common. Call uccl_sleep_begin once, then look for the event, and uccl_sleep after each
 * look in vain, which returns false when the time is over; at the end, uccl_sleep_end.
 */
struct uccl_sleep {
	struct uccl_wait *wait;
	struct uccl_ep_list *eps, *others;
	uint64_t until;
};

/* timeout in ms, negative: without end. The sleeper wakes for the timers of both lists (NULL: none). */
void uccl_sleep_begin(struct uccl_sleep *s, struct uccl_wait *w, struct uccl_ep_list *eps, struct uccl_ep_list *others,
		      int timeout);
bool uccl_sleep(struct uccl_sleep *s);
void uccl_sleep_end(struct uccl_sleep *s);

/* A thread that drives one engine while nobody else does. */
struct uccl_auto {
	bool running;
	_Atomic bool stop;
	pthread_t thread;
	struct uccl_wait wait;
};

/* The engine of ep must be there. */
int uccl_auto_start(struct uccl_auto *a, struct uccl_ep *ep);
void uccl_auto_stop(struct uccl_auto *a);

#endif
