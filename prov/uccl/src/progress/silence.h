/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Silent endpoints. If a queue has many endpoints and few of them receive anything, polling each of them costs system
 * calls in each round. So one epoll descriptor watches all endpoints that have been silent for a while. Of these a
 * round runs only an endpoint that the descriptor names, that another thread has used, or that has a timer due.
 *
 * An endpoint becomes silent by rounds, not by time only: polling it in vain costs something only if other endpoints
 * had data, which waited for it. So an endpoint becomes silent after it had nothing in several rounds in which others
 * had something, or for UCCL_SILENCE_NS. It is silent no more when it has something in two such rounds close together.
 *
 * The owner is a list of drivers (drivers.h). The owner numbers the drivers, and makes all calls, one at a time.
 */
#ifndef UCCL_PROGRESS_SILENCE_H
#define UCCL_PROGRESS_SILENCE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/units.h"

struct uccl_driver;

/* With fewer endpoints than this none is silent: to ask epoll would cost as much as to poll them. */
#define UCCL_SILENCE_MIN 4
/* Time without data after which an endpoint is silent. It is long: a watched socket costs more with each packet. */
#define UCCL_SILENCE_NS (10 * UCCL_NS_PER_MS)

/*
 * Rounds of others without own data after which an endpoint is silent. From UCCL_SILENCE_MANY endpoints on it is the
 * smaller number, since polling all of them is expensive.
 */
#define UCCL_SILENCE_ROUNDS 4
#define UCCL_SILENCE_MANY 16
#define UCCL_SILENCE_ROUNDS_MANY 2

/* State of one driver of the list. */
struct uccl_silent {
	int fd;			/* its descriptor in epfd; -1: it is not silent */
	uint32_t stirs;		/* uccl_driver.stirs at its latest round */
	uint32_t rounds;	/* uccl_silence.rounds when it last found something */
	bool named;		/* silent: its descriptor is readable */
	bool due;		/* silent: its timer is due */
};

struct uccl_silence {
	int epfd;		/* epoll of the silent drivers' descriptors; -1: not made */
	struct uccl_silent *of;	/* by number of the driver */
	unsigned int cap;	/* entries of `of` */
	unsigned int n;		/* silent drivers */
	uint32_t rounds;	/* counts rounds over the list that found something */
	unsigned int forks;	/* uccl_forks when epfd was made */
	uint64_t expiry;	/* earliest timer of the silent drivers, ns */
};

void uccl_silence_init(struct uccl_silence *s);
void uccl_silence_fini(struct uccl_silence *s);
/* Make room for n drivers. 0 or -FI_ENOMEM. */
int uccl_silence_reserve(struct uccl_silence *s, unsigned int n);

static inline bool uccl_is_silent(const struct uccl_silence *s, unsigned int i)
{
	return s->of[i].fd >= 0;
}

/* With so few drivers none is silent, and nothing needs to be counted. `n`: of the list. */
static inline bool uccl_silence_off(const struct uccl_silence *s, unsigned int n)
{
	return n < UCCL_SILENCE_MIN && !s->n;
}

/* Begin a round over the drivers v[0..n): find the silent ones that are named or due at `now`. */
void uccl_silence_poll(struct uccl_silence *s, struct uccl_driver *const *v, unsigned int n, uint64_t now);
/* True: driver `d`, number i, is silent and needs no round. It then counts as polled (uccl_driver_seen()). */
bool uccl_silence_lasts(struct uccl_silence *s, unsigned int i, struct uccl_driver *d, uint64_t now);
/* True: driver i is silent and has nothing to receive; if it gets a round, that need not read its socket. */
static inline bool uccl_silence_empty(const struct uccl_silence *s, unsigned int i)
{
	return s->n && uccl_is_silent(s, i) && !s->of[i].named;
}

/*
 * Driver `d`, number i of n, had a round at `now`; `brought`: the round found something. Decides whether it is silent
 * from now on.
 */
void uccl_silence_driven(struct uccl_silence *s, unsigned int i, struct uccl_driver *d, bool brought, unsigned int n,
			 uint64_t now);
/* The round over all drivers is over; `brought`: one of them found something. */
static inline void uccl_silence_round(struct uccl_silence *s, bool brought)
{
	s->rounds += brought;
}

/* Make no driver silent, so that numbers may change. */
void uccl_silence_clear(struct uccl_silence *s);

#endif
