/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "flow/path/tuples.h"

#include <string.h>

#include "base/units.h"

#define WIDTH_LEAST 2
/* For acknowledgements and payload that is not spread. */
#define WIDTH_FEW 8
/*
 * A flow begins with a part of its even share, and doubles it in each scan. When a job starts, flows come one after
 * another, and the first ones would open 5-tuples that belong to later ones.
 */
#define FIRST_PART 4
#define BUSY_NS (2 * UCCL_NS_PER_S)    /* a flow that spread payload later than that has much to send */
#define FORGET_NS (30 * UCCL_NS_PER_S) /* flow tables forget an idle 5-tuple of UDP then, or later */
/*
 * Silence doubles the reach in such steps. Most peers that are silent for a shorter time are not behind a dead path:
 * they wait for a processor.
 */
#define SILENT_STEP_NS (200 * UCCL_NS_PER_MS)
#define DOUBLINGS_MAX 16
/* Nobody asked for so long, so nobody knows whether the peer was silent. */
#define SILENT_GAP_NS (10 * UCCL_NS_PER_S)
/* So many steps are worth a 5-tuple that the budget does not have, and twice as many another one. */
#define SLOW_STEPS 10

static uint32_t share_even(const struct uccl_tuple_budget *b)
{
	uint32_t flows = atomic_load_explicit(&b->flows, memory_order_relaxed);

	return atomic_load_explicit(&b->tuples_max, memory_order_relaxed) / 2 / (uint32_t)uccl_max(flows, 1);
}

static bool width_set(struct uccl_tuples *t, uint64_t width)
{
	uint16_t before = t->width;

	t->width = (uint16_t)uccl_min(uccl_max(width, WIDTH_LEAST), t->n);
	return t->width != before;
}

static bool width_busy(struct uccl_tuples *t)
{
	uint32_t even = share_even(t->budget);

	return width_set(t, uccl_max(even / FIRST_PART, uccl_min(t->grown, even + t->taken)));
}

static uint16_t budget_take(struct uccl_tuple_budget *b, uint32_t want)
{
	uint32_t taken = atomic_load(&b->taken), half = atomic_load(&b->tuples_max) / 2, more;

	do {
		more = (uint32_t)uccl_min(want, half - uccl_min(taken, half));
	} while (more && !atomic_compare_exchange_weak(&b->taken, &taken, taken + more));
	return (uint16_t)more;
}

static void budget_give(struct uccl_tuples *t, uint16_t *taken)
{
	atomic_fetch_sub(&t->budget->taken, *taken);
	*taken = 0;
}

void uccl_tuples_init(struct uccl_tuples *t, struct uccl_tuple_budget *budget, uint16_t n)
{
	*t = (struct uccl_tuples){.budget = budget, .n = n, .width = n, .reach = n};
	if (!budget)
		return;
	atomic_fetch_add(&budget->flows, 1);
	width_set(t, uccl_min(share_even(budget), WIDTH_FEW));
}

void uccl_tuples_fini(struct uccl_tuples *t)
{
	if (!t->budget)
		return;
	budget_give(t, &t->taken);
	budget_give(t, &t->tried);
	atomic_fetch_sub(&t->budget->flows, 1);
	t->budget = NULL;
}

bool uccl_tuples_spread(struct uccl_tuples *t, uint64_t now)
{
	if (!t->budget)
		return false;
	t->spread_ns = now;
	return width_busy(t);
}

bool uccl_tuples_scan(struct uccl_tuples *t, uint64_t now)
{
	uint32_t want = (uint32_t)uccl_min(2 * t->width, t->n), room;

	if ((t->tried || t->labels) && now - t->tried_ns >= FORGET_NS) {
		budget_give(t, &t->tried);
		t->labels = 0;
	}
	if (!t->spread_ns)
		return false;
	if (now - t->spread_ns < BUSY_NS) {
		room = share_even(t->budget) + t->taken;
		if (want > room)
			t->taken = (uint16_t)(t->taken + budget_take(t->budget, want - room));
		t->grown = (uint16_t)want;
		return width_busy(t);
	}
	if (now - t->spread_ns < FORGET_NS)
		return false;
	budget_give(t, &t->taken);
	t->grown = 0;
	t->spread_ns = 0;
	return width_set(t, uccl_min(share_even(t->budget), WIDTH_FEW));
}

static uint32_t silence_steps(const struct uccl_tuples *t)
{
	return (uint32_t)((t->asked_ns - t->silent_ns) / SILENT_STEP_NS);
}

/*
 * Takes what is missing of `want` 5-tuples beyond those in use from the budget, so that the rest is for other flows.
 * Those for which nothing is left may be tried one by one, each after twice the silence: else nothing would be found
 * where all that are in use are dead.
 */
static uint16_t silence_may(struct uccl_tuples *t, uint32_t want)
{
	uint32_t late = silence_steps(t) / SLOW_STEPS, slow = late ? 32u - (uint32_t)__builtin_clz(late) : 0;
	uint32_t most = uccl_min(want, uccl_max(t->n, share_even(t->budget)));

	if (most > t->tried)
		t->tried = (uint16_t)(t->tried + budget_take(t->budget, most - t->tried));
	if (want)
		t->tried_ns = t->asked_ns;
	return (uint16_t)uccl_min(want, t->tried + slow);
}

void uccl_tuples_silent(struct uccl_tuples *t, uint64_t now)
{
	uint64_t want;

	if (!t->budget)
		return;
	if (!t->silent_ns || now - t->asked_ns >= SILENT_GAP_NS)
		t->silent_ns = now;
	t->asked_ns = now;
	want = uccl_min((uint64_t)t->width << uccl_min(silence_steps(t), DOUBLINGS_MAX), t->n);
	t->reach = (uint16_t)(t->width + silence_may(t, (uint32_t)want - t->width));
}

bool uccl_tuples_label(struct uccl_tuples *t, uint16_t labels)
{
	uint32_t want = (uint32_t)t->n - t->width + t->labels + 1;

	/* Where the flow has had each label, the next one is no new 5-tuple. */
	if (!t->budget || t->n + t->labels >= labels)
		return labels > t->n;
	if (silence_may(t, want) < want)
		return false;
	t->labels++;
	return true;
}
