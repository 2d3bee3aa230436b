/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "lanes/lateness.h"

/*
 * Two lanes save half of the time that the primary would need, which is about 1 ns for 4 bytes. More lanes save more,
 * but then a message waits for the latest of more.
 */
#define BYTES_PER_NS 8
/*
 * One late time slice of some ms says little: a host that is idle but for its lanes has some, too. Two are too many,
 * unless the lanes have carried enough between them.
 */
#define BALANCE_MOST ((int64_t)(8 * UCCL_NS_PER_MS))
#define BALANCE_LEAST (-(int64_t)(4 * UCCL_NS_PER_MS))
/* In trials one is too many: nothing waits for them, so there are few. */
#define TRIALS_LEAST (-(int64_t)UCCL_NS_PER_MS)
/* Lanes that were used for so many times the latest pause begin with a short one. */
#define USED_WELL 8

void lateness_want(struct uccl_lateness *l)
{
	l->wanted = true;
}

void lateness_carried(struct uccl_lateness *l, uint64_t bytes)
{
	/* What they still finish excuses nothing that a trial finds. */
	if (!l->left)
		l->balance += (int64_t)uccl_min(bytes / BYTES_PER_NS, (uint64_t)(BALANCE_MOST - l->balance));
}

static void pause_begin(struct uccl_lateness *l, uint64_t now)
{
	uccl_pause_begin(&l->pause, UCCL_LATENESS_PAUSE, UCCL_LATENESS_PAUSE_MOST, now);
	l->trial_at = l->pause.until;
	l->left = true;
	l->trial = false;
	l->wanted = false;
	l->trials = 0;
	l->balance = 0;
}

bool lateness_late(struct uccl_lateness *l, uint64_t late_ns, uint64_t now)
{
	int64_t least = l->left ? TRIALS_LEAST : BALANCE_LEAST;
	bool used = !l->left;

	/* They are late side by side, and each tells of it when it is up: the same time counts once. */
	late_ns = uccl_min(late_ns, now - uccl_min(l->counted_until, now));
	l->counted_until = now;
	/* Without a trial they finish what they still have. */
	if (!used && !l->trial)
		return false;
	l->balance -= (int64_t)uccl_min(late_ns, (uint64_t)(l->balance - least));
	if (l->balance > least)
		return false;
	if (used && now - l->used_since >= USED_WELL * l->pause.ns)
		uccl_pause_forget(&l->pause);
	pause_begin(l, now);
	return used;
}

bool lateness_try(struct uccl_lateness *l, uint64_t now)
{
	if (!l->left || l->trial || !l->wanted || now < l->trial_at)
		return false;
	l->trial_at = now + UCCL_LATENESS_TRIAL_NS;
	return l->trial = true;
}

void lateness_tried(struct uccl_lateness *l, uint64_t now)
{
	if (!l->trial)
		return;
	l->trial = false;
	if (++l->trials < UCCL_LATENESS_TRIALS)
		return;
	l->left = false;
	l->used_since = now;
}
