/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "flow/ack/pto.h"

#include "flow/wire/wire.h"

/* So many time-outs at most are not repetition: they ask on other paths, then on the same ones with other labels. */
#define EAGER_MAX 16
/* The time-out grows by no more than this factor, as a shift. */
#define DOUBLINGS_MAX 16
/* Questions are not counted beyond this. */
#define BACKOFF_MAX 1000000

void uccl_pto_init(struct uccl_pto *s, uint16_t npaths)
{
	*s = (struct uccl_pto){.at = UCCL_NEVER, .npaths = npaths};
}

/* Two paths are asked per time-out, so as many time-outs as there are paths ask each of them twice. PROTOCOL R55 */
static uint32_t doublings(const struct uccl_pto *s)
{
	uint32_t eager = (uint32_t)uccl_min(s->npaths, EAGER_MAX);

	return s->backoff - 1 > eager ? (uint32_t)uccl_min(s->backoff - 1 - eager, DOUBLINGS_MAX) : 0;
}

/* When what left last should be answered. PROTOCOL R340 R346 */
static uint64_t pto_first(const struct uccl_pto *s, const struct uccl_times *t)
{
	if (s->delayed)
		return uccl_times_pto_ride(t);
	return s->ar ? uccl_times_pto_prompt(t) : uccl_times_pto(t);
}

void uccl_pto_arm(struct uccl_pto *s, const struct uccl_times *t, bool waits, uint64_t now)
{
	s->armed_ns = now;
	if (!waits)
		s->at = UCCL_NEVER;
	else if (!s->backoff)
		s->at = now + pto_first(s, t);
	/* Probe or answer may be lost, too: the second question comes after twice as long (RFC 9002 section 6.2.1). */
	else if (s->backoff == 1)
		s->at = now + uccl_min(2 * uccl_times_pto_prompt(t), uccl_times_rto(t));
	else
		s->at = now + uccl_min(uccl_times_rto(t) << doublings(s), UCCL_RTO_MAX_NS);
}

uint64_t uccl_pto_next(const struct uccl_pto *s, const struct uccl_times *t, uint64_t reported_ns)
{
	uint64_t later = s->left_ns > reported_ns ? s->left_ns - reported_ns : 0;

	return s->delayed ? uccl_times_pto_ride(t) : uccl_times_pto_next(t, later, s->ar);
}

void uccl_pto_advance(struct uccl_pto *s, const struct uccl_times *t, uint64_t reported_ns, uint64_t now)
{
	if (s->at != UCCL_NEVER)
		s->at = uccl_min(s->at, now + uccl_pto_next(s, t, reported_ns));
}

void uccl_pto_last_due(struct uccl_pto *s, const struct uccl_times *t, uint64_t now)
{
	uint64_t due = s->left_ns + uccl_times_pto_last(t);

	if (s->asked_ns < due)
		s->at = uccl_min(s->at, uccl_max(now, due));
}

void uccl_pto_expire(struct uccl_pto *s, const struct uccl_times *t, uint32_t chunks, uint64_t now)
{
	/* Or the answer, which echoes a time as coarse as this, would seem to be one to something older. */
	s->asked_ns = now >> UCCL_TS_SHIFT << UCCL_TS_SHIFT;
	if (s->backoff == 1) {
		s->first_timeout_ns = s->asked_ns;
		s->timeout_chunks = chunks;
		s->timeout_lost = 0;
	}
	if (s->backoff < BACKOFF_MAX)
		s->backoff++;
	uccl_pto_arm(s, t, true, now);
}

bool uccl_pto_proven(struct uccl_pto *s, uint64_t sent_ns)
{
	if (!s->timeout_chunks || sent_ns >= s->first_timeout_ns || 2 * ++s->timeout_lost < s->timeout_chunks)
		return false;
	s->timeout_chunks = 0;
	return true;
}
