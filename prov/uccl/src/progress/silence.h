/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Many endpoints behind one queue, of which few have anything: to look at a silent one costs system calls each time. So
 * one descriptor tells of all that have been silent for a while, and only those are driven that it names, that somebody
 * else had to do with, or whose time has come.
 *
 * What is a while? A look in vain costs something only if others had something meanwhile, which waited for it. So looks
 * are counted against rounds that brought something, of whichever endpoint: one that had nothing in some of them is
 * silent; it is so no more when it brings something twice without that. Who waits for one endpoint alone looks at it.
 *
 * Its owner is a list of drivers (drivers.h), which numbers them, and calls all of this one at a time.
 */
#ifndef UCCL_PROGRESS_SILENCE_H
#define UCCL_PROGRESS_SILENCE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/units.h"

struct uccl_driver;

/* With fewer than this nothing is silent: to ask would cost as much as to look. */
#define UCCL_SILENCE_MIN 4
/* Nothing for so long: a socket that is asked for costs more with every packet, so not after a moment. */
#define UCCL_SILENCE_NS (10 * UCCL_NS_PER_MS)

/* So many rounds of others are a while, too, but with this many endpoints a look at each in each of them is dear. */
#define UCCL_SILENCE_ROUNDS 4
#define UCCL_SILENCE_MANY 16
#define UCCL_SILENCE_ROUNDS_MANY 2

/* One of them. */
struct uccl_silent {
	int fd;			/* its descriptor; -1: it is not silent */
	uint32_t stirs;		/* of the driver, when it was last looked at */
	uint32_t rounds;	/* as of uccl_silence, when it last brought something */
	bool named;		/* it has something to receive */
	bool due;		/* its time has come */
};

struct uccl_silence {
	int epfd;		/* of those that are silent; -1: not made */
	struct uccl_silent *of;	/* by number */
	unsigned int cap;	/* places of that */
	unsigned int n;		/* how many are */
	uint32_t rounds;	/* that brought something, of any of them */
	unsigned int forks;	/* uccl_forks when epfd was made */
	uint64_t expiry;	/* when the first of them wants to run by itself */
};

void uccl_silence_init(struct uccl_silence *s);
void uccl_silence_fini(struct uccl_silence *s);
/* There will be so many. -FI_ENOMEM. */
int uccl_silence_reserve(struct uccl_silence *s, unsigned int n);

static inline bool uccl_is_silent(const struct uccl_silence *s, unsigned int i)
{
	return s->of[i].fd >= 0;
}

/* Of the `n` drivers `v`: which have something, or are due at `now`? Before the others. */
void uccl_silence_look(struct uccl_silence *s, struct uccl_driver *const *v, unsigned int n, uint64_t now);
/* Is driver `d`, number `i`, silent, as far as is known at `now`? Then it counts as looked at. */
bool uccl_silence_lasts(struct uccl_silence *s, unsigned int i, struct uccl_driver *d, uint64_t now);
/* It is to be driven, but has nothing to receive. */
static inline bool uccl_silence_empty(const struct uccl_silence *s, unsigned int i)
{
	return s->n && uccl_is_silent(s, i) && !s->of[i].named;
}

/* It was driven at `now`, one of `n`. Is it silent from now on? */
void uccl_silence_driven(struct uccl_silence *s, unsigned int i, struct uccl_driver *d, bool brought, unsigned int n,
			 uint64_t now);
/* A round of all of them is over. */
static inline void uccl_silence_round(struct uccl_silence *s, bool brought)
{
	s->rounds += brought;
}

/* None of them is; numbers may change. */
void uccl_silence_clear(struct uccl_silence *s);

#endif
