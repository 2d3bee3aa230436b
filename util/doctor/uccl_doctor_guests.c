/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "uccl_doctor_guests.h"

#include <string.h>

void doctor_guests_init(struct doctor_guests *g, int sessions)
{
	memset(g, 0, sizeof(*g));
	g->sessions = sessions < 1 ? 1 : sessions > DOCTOR_SESSIONS ? DOCTOR_SESSIONS : sessions;
	g->turn = -1;
}

static bool same(const uint8_t a[16], const uint8_t b[16])
{
	return !memcmp(a, b, 16);
}

/* How many are there of this state (NONE: of any) and address (NULL: of any)? *oldest of them; -1: none. */
static int count(const struct doctor_guests *g, enum doctor_guest_state state, const uint8_t *ip, int *oldest)
{
	int n = 0;

	*oldest = -1;
	for (int i = 0; i < DOCTOR_GUESTS; i++) {
		const struct doctor_guest *p = &g->list[i];

		if (p->state == DOCTOR_GUEST_NONE || (state != DOCTOR_GUEST_NONE && p->state != state) ||
		    (ip && !same(ip, p->ip)))
			continue;
		n++;
		if (*oldest < 0 || p->order < g->list[*oldest].order)
			*oldest = i;
	}
	return n;
}

int doctor_guest_add(struct doctor_guests *g, const uint8_t ip[16], uint64_t now_ms, int *gone)
{
	int oldest, place = 0;
	bool full = count(g, DOCTOR_GUEST_NONE, ip, &oldest) >= DOCTOR_GUESTS_EACH;

	*gone = -1;
	if (full || count(g, DOCTOR_GUEST_NONE, NULL, &oldest) == DOCTOR_GUESTS) {
		count(g, DOCTOR_GUEST_SILENT, full ? ip : NULL, gone);
		if (*gone < 0)
			return -1;
		doctor_guest_end(g, *gone);
	}
	while (g->list[place].state != DOCTOR_GUEST_NONE)
		place++;
	g->list[place] = (struct doctor_guest){.state = DOCTOR_GUEST_SILENT, .came_ms = now_ms, .order = ++g->order};
	memcpy(g->list[place].ip, ip, sizeof(g->list[place].ip));
	return place;
}

void doctor_guest_greeted(struct doctor_guests *g, int i)
{
	g->list[i].state = DOCTOR_GUEST_WAITS;
	g->list[i].order = ++g->order;
}

int doctor_guest_serve(struct doctor_guests *g)
{
	int oldest, best = -1;

	if (count(g, DOCTOR_GUEST_SERVED, NULL, &oldest) >= g->sessions)
		return -1;
	for (int i = 0; i < DOCTOR_GUESTS; i++) {
		const struct doctor_guest *p = &g->list[i];

		if (p->state == DOCTOR_GUEST_WAITS && (best < 0 || p->order < g->list[best].order) &&
		    count(g, DOCTOR_GUEST_SERVED, p->ip, &oldest) < DOCTOR_SESSIONS_EACH)
			best = i;
	}
	if (best >= 0)
		g->list[best].state = DOCTOR_GUEST_SERVED;
	return best;
}

void doctor_guest_end(struct doctor_guests *g, int i)
{
	doctor_turn_end(g, i);
	g->list[i].state = DOCTOR_GUEST_NONE;
}

int doctor_guest_late(const struct doctor_guests *g, uint64_t now_ms)
{
	int oldest;

	count(g, DOCTOR_GUEST_SILENT, NULL, &oldest);
	return oldest >= 0 && now_ms >= g->list[oldest].came_ms + DOCTOR_HELLO_MS ? oldest : -1;
}

int doctor_guest_count(const struct doctor_guests *g, enum doctor_guest_state state)
{
	int oldest;

	return count(g, state, NULL, &oldest);
}

void doctor_turn_ask(struct doctor_guests *g, int i)
{
	if (!g->list[i].asked && g->turn != i)
		g->list[i].asked = ++g->order;
}

/* Does the guest i come before the guest k in the queue for the turn? */
static bool turn_earlier(const struct doctor_guests *g, int i, int k)
{
	bool again = same(g->list[i].ip, g->turn_ip), other = same(g->list[k].ip, g->turn_ip);

	return again != other ? other : g->list[i].asked < g->list[k].asked;
}

int doctor_turn_give(struct doctor_guests *g, uint64_t now_ms)
{
	int best = -1;

	if (g->turn >= 0)
		return -1;
	for (int i = 0; i < DOCTOR_GUESTS; i++)
		if (g->list[i].asked && (best < 0 || turn_earlier(g, i, best)))
			best = i;
	if (best < 0)
		return -1;
	g->list[best].asked = 0;
	g->turn = best;
	g->turn_ms = now_ms;
	memcpy(g->turn_ip, g->list[best].ip, sizeof(g->turn_ip));
	return best;
}

void doctor_turn_end(struct doctor_guests *g, int i)
{
	g->list[i].asked = 0;
	if (g->turn == i)
		g->turn = -1;
}

int doctor_turn_late(const struct doctor_guests *g, uint64_t now_ms)
{
	if (g->turn < 0 || now_ms < g->turn_ms + DOCTOR_TURN_MS)
		return -1;
	for (int i = 0; i < DOCTOR_GUESTS; i++)
		if (g->list[i].asked)
			return g->turn;
	return -1;
}

int doctor_guest_before(const struct doctor_guests *g, int i)
{
	const struct doctor_guest *p = &g->list[i];
	int n = p->asked && g->turn >= 0;

	for (int k = 0; k < DOCTOR_GUESTS; k++) {
		const struct doctor_guest *q = &g->list[k];

		if (k == i)
			continue;
		if (p->asked ? q->asked && turn_earlier(g, k, i) :
			       q->state == DOCTOR_GUEST_WAITS && q->order < p->order)
			n++;
	}
	return n;
}
