/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "flow/path/pmtu.h"

#include "base/units.h"
#include "flow/wire/wire.h"

/* Doublings of UCCL_PMTU_RAISE_NS that pass UCCL_PMTU_RAISE_MAX_NS. */
#define STRIKES_MAX 4

void uccl_pmtu_init(struct uccl_pmtu *p, uint32_t most)
{
	/* The longest chunk fits as many sub-segments as there may be. */
	uint32_t least = UCCL_HDR_LEN + uccl_segment_each(most - UCCL_HDR_LEN, UCCL_SEGMENT_COUNT);

	*p = (struct uccl_pmtu){
		.bytes = most,
		.most = most,
		.least = (uint32_t)uccl_max(least, UCCL_PMTU_LEAST),
		.bad = most + 1,
	};
}

/* What is no longer than this goes on when long ones get lost. */
static uint32_t floor_of(const struct uccl_pmtu *p)
{
	return p->bytes > UCCL_PMTU_BASE ? UCCL_PMTU_BASE : p->least;
}

static void size_set(struct uccl_pmtu *p, uint32_t bytes)
{
	p->bytes = bytes;
	p->changed = true;
	p->rounds = p->tries = 0;
	p->failed = 0;
	p->trial = 0;
}

bool uccl_pmtu_lost(struct uccl_pmtu *p, uint32_t bytes, uint64_t sent_ns, uint64_t now)
{
	/* A queue that overflows takes many of one round trip; and what is longer than allowed is of earlier times. */
	if (bytes <= floor_of(p) || bytes > p->bytes || sent_ns < p->round_ns)
		return false;
	p->round_ns = now;
	if (++p->rounds < UCCL_PMTU_ROUNDS)
		return false;
	size_set(p, floor_of(p));
	p->from_network = false;
	p->strikes = 0;
	/* Perhaps it was chance after all: the search begins at the top. */
	p->bad = p->most + 1;
	return true;
}

void uccl_pmtu_arrived(struct uccl_pmtu *p, uint32_t bytes)
{
	if (bytes > floor_of(p))
		p->rounds = 0;
}

bool uccl_pmtu_reported(struct uccl_pmtu *p, uint32_t bytes, uint64_t now)
{
	bytes = (uint32_t)uccl_max(bytes, UCCL_PMTU_BASE);
	if (bytes >= p->bytes || now < p->deaf_until)
		return false;
	size_set(p, bytes);
	p->from_network = true;
	p->bad = bytes + 1;
	p->raise_at = now + UCCL_PMTU_RAISE_NS;
	return true;
}

uint32_t uccl_pmtu_next(struct uccl_pmtu *p, uint64_t now)
{
	if (p->bytes >= p->most || p->trial)
		return 0;
	if (p->bad <= p->most && now >= p->raise_at)
		p->bad = p->most + 1;
	if (p->bad > p->most)
		return p->most;
	return p->bad - p->bytes <= UCCL_PMTU_STEP ? 0 : p->bytes + (p->bad - p->bytes) / 2;
}

bool uccl_pmtu_may(struct uccl_pmtu *p, uint32_t bytes, uint64_t now)
{
	return uccl_pmtu_next(p, now) && bytes < p->bad;
}

void uccl_pmtu_try(struct uccl_pmtu *p, uint64_t csn, uint32_t bytes)
{
	p->trial = csn + 1;
	p->trial_bytes = bytes;
}

bool uccl_pmtu_tried(struct uccl_pmtu *p, bool arrived, uint64_t now)
{
	p->trial = 0;
	if (arrived) {
		if (p->from_network)
			p->deaf_until = now + UCCL_PMTU_RAISE_MAX_NS;
		p->from_network = false;
		if (p->trial_bytes == p->most)
			p->strikes = 0;
		size_set(p, p->trial_bytes);
		return true;
	}
	p->failed = (uint32_t)uccl_max(p->failed, p->trial_bytes);
	if (++p->tries < UCCL_PMTU_TRIES)
		return false;
	if (p->bad > p->most) {
		/* The first of a search. */
		p->raise_at = now + uccl_min(UCCL_PMTU_RAISE_NS << p->strikes, UCCL_PMTU_RAISE_MAX_NS);
		if (p->strikes < STRIKES_MAX)
			p->strikes++;
	}
	p->bad = p->failed;
	p->tries = 0;
	p->failed = 0;
	return false;
}
