/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Part of a flow: when a silent peer is asked. If something is in flight and nothing is heard of it, a tail probe asks
 * first, then one time-out after the other, ever more seldom. All questions until the next answer are one row. Silence
 * is no congestion, so a row counts as a loss only when it proves to have cost half of what was in flight.
 *
 * The grammar: init. `sent` and `arm` when something leaves, `over` when the peer answers; `expire` at `at`, once it
 * was asked; `survived` of chunks in flight, `proven` of those that are lost. How the peer is asked is the caller's.
 */
#ifndef UCCL_FLOW_ACK_PTO_H
#define UCCL_FLOW_ACK_PTO_H

#include <stdbool.h>
#include <stdint.h>

#include "base/units.h"
#include "flow/ack/times.h"

struct uccl_pto {
	uint64_t at;		/* when to ask; UCCL_NEVER: nothing is in flight */
	uint64_t armed_ns;	/* when `at` was set because something left; 0: it was set because the peer answered */
	uint64_t left_ns;	/* when something left last */
	uint64_t ride_at;	/* when to ask for the first of those whose acknowledgements may wait */
	bool ar;		/* what left last asks for an acknowledgement at once */
	bool delayed;		/* the acknowledgement of what left last may wait for payload */
	bool hurry;		/* no acknowledgement may wait: the owner needs all of them */
	uint32_t backoff;	/* questions in a row without any answer: the tail probe, then time-outs */
	uint64_t asked_ns;	/* when the latest of them left, as coarse as its answer's echo; 0: none did */
	uint64_t first_timeout_ns;	       /* when the first time-out of the latest row struck; 0: there was none */
	uint32_t timeout_chunks, timeout_lost; /* in flight then, and lost of them so far; chunks 0: it was told */
	uint16_t npaths;
};

void uccl_pto_init(struct uccl_pto *s, uint16_t npaths);
/* `waits`: something is in flight. Exactly one timer runs then, and none otherwise. */
void uccl_pto_arm(struct uccl_pto *s, const struct uccl_times *t, bool waits, uint64_t now);
/* After an answer: how long until what left last should be answered. */
uint64_t uccl_pto_next(const struct uccl_pto *s, const struct uccl_times *t, uint64_t reported_ns);
/*
 * The peer answered, or reported something new. The latest chunk that it reported left at reported_ns. So its host
 * works, and chunks that left later will be reported later by the same time. PROTOCOL R243
 */
static inline void uccl_pto_answered(struct uccl_pto *s, const struct uccl_times *t, bool waits, uint64_t reported_ns,
				     uint64_t now)
{
	s->backoff = 0;
	/* What leaves from now on begins anew. */
	s->armed_ns = 0;
	s->at = waits ? now + uccl_pto_next(s, t, reported_ns) : UCCL_NEVER;
}

/*
 * The same for an answer that says nothing of the missing chunks: it may make the next probe earlier, never later.
 * PROTOCOL R272
 */
void uccl_pto_advance(struct uccl_pto *s, const struct uccl_times *t, uint64_t reported_ns, uint64_t now);
/* The rest of uccl_pto_last: something is in flight, and what left last asks for an answer. */
void uccl_pto_last_due(struct uccl_pto *s, const struct uccl_times *t, uint64_t now);
/*
 * News of others came, and what left last, which nothing follows, should have been reported as well: it is asked for
 * once without waiting for all the news. PROTOCOL R405
 */
static inline void uccl_pto_last(struct uccl_pto *s, const struct uccl_times *t, uint64_t now)
{
	if (s->at != UCCL_NEVER && s->ar)
		uccl_pto_last_due(s, t, now);
}

/* There is nothing to ask before `at`. */
static inline void uccl_pto_rest(struct uccl_pto *s, uint64_t at)
{
	s->at = at;
}

/* The time `at` has come, and the peer was asked. `chunks` are in flight. */
void uccl_pto_expire(struct uccl_pto *s, const struct uccl_times *t, uint32_t chunks, uint64_t now);
/*
 * A chunk that left at sent_ns is lost. True: with it, half of what was in flight when the current series of time-outs
 * began is lost; returned once for each series. PROTOCOL R132
 */
bool uccl_pto_proven(struct uccl_pto *s, uint64_t sent_ns);

/*
 * New data leaves; `first`: nothing was in flight before. True: now the timer is to be armed, also for what asks for no
 * acknowledgement. Whether it asks for one is set afterwards, by uccl_pto_ack_requested() or _delayed().
 */
static inline bool uccl_pto_left(struct uccl_pto *s, bool first, uint64_t now)
{
	bool delayed = s->delayed;

	s->left_ns = now;
	s->ride_at = delayed && !first ? s->at : UCCL_NEVER;
	s->ar = s->delayed = false;
	if (first)
		s->backoff = 0;
	/* The packets of a train leave in one instant, so the timer is right already, but not that of a ride. */
	return !s->backoff && (first || delayed || s->armed_ns != now);
}

static inline void uccl_pto_sent(struct uccl_pto *s, const struct uccl_times *t, bool first, uint64_t now)
{
	if (uccl_pto_left(s, first, now))
		uccl_pto_arm(s, t, true, now);
}

/* What was lost leaves again, or some of it: it wants to be acknowledged at once. */
static inline void uccl_pto_resent(struct uccl_pto *s, const struct uccl_times *t, uint64_t now)
{
	s->left_ns = now;
	s->ar = true;
	s->delayed = false;
	if (!s->backoff)
		uccl_pto_arm(s, t, true, now);
}

/* What left last, at `now`, wants to be acknowledged at once. PROTOCOL R346 */
static inline void uccl_pto_ack_requested(struct uccl_pto *s, const struct uccl_times *t, uint64_t now)
{
	s->ar = true;
	s->delayed = false;
	if (!s->backoff)
		s->at = uccl_min(s->at, now + uccl_times_pto_prompt(t));
}

/* The packet that left last asks for nothing, so its acknowledgement may wait for payload. PROTOCOL R340 */
static inline void uccl_pto_ack_delayed(struct uccl_pto *s, const struct uccl_times *t, uint64_t now)
{
	s->delayed = true;
	if (s->backoff)
		return;
	uccl_pto_arm(s, t, true, now);
	/* Or a stream of them would put the question off for ever. */
	s->at = uccl_min(s->at, s->ride_at);
}

/* `on`: the owner waits until all is acknowledged. */
static inline void uccl_pto_set_hurry(struct uccl_pto *s, bool on)
{
	s->hurry = on;
}

/* Somebody waits after all for what may be acknowledged late, and the peer was asked. */
static inline void uccl_pto_hurry(struct uccl_pto *s, const struct uccl_times *t, uint64_t now)
{
	uccl_pto_ack_requested(s, t, now);
}

/* Has more than one time-out passed without an answer? A single one may be a lost packet. */
static inline bool uccl_pto_repeated(const struct uccl_pto *s)
{
	return s->backoff > 1;
}

/* Is the last question answered, if what the peer reported left at reported_ns? It speaks for all in flight. */
static inline bool uccl_pto_reported(const struct uccl_pto *s, uint64_t reported_ns)
{
	return s->asked_ns && reported_ns >= s->asked_ns;
}

/* Was what left at sent_ns in flight when a time-out struck, and has the peer answered since? */
static inline bool uccl_pto_survived(const struct uccl_pto *s, uint64_t sent_ns, uint64_t reported_ns)
{
	return sent_ns < s->first_timeout_ns && s->first_timeout_ns <= reported_ns;
}

#endif
