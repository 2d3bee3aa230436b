/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "uccl_doctor_math.h"

#include <stdlib.h>

void doctor_tally_add(struct doctor_tally *t, uint16_t label, uint32_t seq, uint8_t ecn, bool right)
{
	if (label >= DOCTOR_LABELS || seq >= DOCTOR_TALLY_MAX)
		return;
	if (t->seen[seq / 8] >> seq % 8 & 1) {
		t->duplicates++;
		return;
	}
	t->seen[seq / 8] |= (uint8_t)(1u << seq % 8);
	t->received++;
	t->damaged += !right;
	t->ecn[ecn & 3]++;
	t->by_label[label]++;
	if (seq + 1 < t->highest[label])
		t->reordered++;
	else
		t->highest[label] = seq + 1;
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

struct doctor_spread doctor_spread(double *value, int n)
{
	struct doctor_spread s = { 0 };

	if (n <= 0)
		return s;
	qsort(value, (size_t)n, sizeof(*value), compare);
	s.least = value[0];
	s.median = n % 2 ? value[n / 2] : (value[n / 2 - 1] + value[n / 2]) / 2;
	s.p99 = value[(n * 99 + 99) / 100 - 1];
	return s;
}

/* Two ways cannot be the same one: they differ where both are known. */
static bool differ(const struct doctor_trail *a, const struct doctor_trail *b)
{
	int n = a->n < b->n ? a->n : b->n;

	for (int i = 0; i < n; i++)
		if (a->hop[i] && b->hop[i] && a->hop[i] != b->hop[i])
			return true;
	/* One is at the peer where the other is still on its way. */
	return (a->arrived && b->n > a->n) || (b->arrived && a->n > b->n);
}

struct doctor_variety doctor_variety(const struct doctor_trail *t, int n)
{
	struct doctor_variety v = { .complete = true, .nothing = true };
	int pick[DOCTOR_LABELS];

	for (int i = 0; i < n && i < DOCTOR_LABELS; i++) {
		bool other = true;

		if (t[i].arrived)
			v.nothing = false;
		else
			v.complete = false;
		for (int k = 0; k < t[i].n; k++) {
			if (t[i].hop[k])
				v.nothing = false;
			else
				v.complete = false;
		}
		for (int k = 0; k < v.distinct && other; k++)
			other = differ(&t[i], &t[pick[k]]);
		if (other)
			pick[v.distinct++] = i;
	}
	if (v.nothing)
		v.complete = false;
	return v;
}

uint32_t doctor_halve(uint32_t lo, uint32_t hi, uint32_t grain)
{
	return hi - lo <= grain ? 0 : lo + (hi - lo) / 2;
}
