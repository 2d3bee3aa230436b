/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * All orders of events between an endpoint with few receive slots and a few peers, up to a number of events; a state
 * that was seen is not gone into again. What is promised is checked in each state, and from each state on everybody who
 * waits must be served, if from then on nothing is lost and all answer. PROTOCOL R20 R177 R178 R179
 */
#include "flow/recv/slots.h"

#include "../tests.h"

#include <string.h>

#include "base/units.h"
#include "flow/wire/wire.h"

#define MS UCCL_NS_PER_MS
#define QUEUE ((uint64_t)1 << 32)
/* What is left of the queue's part that is granted when those who send have theirs. */
#define SHARE (QUEUE / 16 * 6)
#define PEERS_MAX 4
#define BLOCKS 2
/* Any two events have different times, as far as the wire tells. */
#define STEP_NS (2 * UCCL_NS_PER_US)
/* Within this everybody must have had a turn. Those with a slot, who did not answer, are asked more and more seldom. */
#define SERVED_NS (3000 * MS)
#define SEEN (1u << 17)
#define DEPTH 4

struct block {
	uint16_t slots;
	uint8_t turn, cum;
};

/* What a peer knows, and the blocks on their way to it, the older one first. */
struct peer {
	struct block blocks[BLOCKS];
	uint8_t nblocks, turn, met;
	uint16_t slots;
	uint8_t left, came; /* chunks beyond those that it knows have come */
	bool active;	    /* it sent or asked, ever */
};

static struct state {
	struct uccl_slots s;
	struct uccl_grant g[PEERS_MAX];
	struct peer p[PEERS_MAX];
	uint64_t now;
} st;

enum event {
	SEND,
	COME_MORE,
	COME_LAST,
	WANT,
	HEAR,
	LOSE,
	MET,
	IDLE,
	OPEN,
	CLOSE,
	POLL,		/* from here on of no peer */
	QUIET,
	STARVED,
	EVENTS
};

static int npeers;
static const uint8_t *rooms; /* places of the queue, in packets of each peer */
static uint64_t nstates, nserved;
static struct {
	uint64_t hash;
	int depth;
} seen[SEEN];

static uint64_t mix(const void *data, size_t len)
{
	const uint64_t *w = data;
	uint64_t h = 0x9e3779b97f4a7c15;

	for (size_t i = 0; i < len / sizeof(*w); i++) {
		h = (h ^ w[i]) * 0xff51afd7ed558ccd;
		h ^= h >> 32;
	}
	return h;
}

/* Was this state gone into as deep as that? */
static bool known(int depth)
{
	uint64_t h = mix(&st, sizeof(st)) | 1, i = h;

	while (seen[i % SEEN].hash && seen[i % SEEN].hash != h)
		i++;
	if (seen[i % SEEN].hash && seen[i % SEEN].depth >= depth)
		return true;
	nstates += !seen[i % SEEN].hash;
	assert_true(nstates < SEEN / 4 * 3);
	seen[i % SEEN].hash = h;
	seen[i % SEEN].depth = depth;
	return false;
}

/* A block leaves for it; of more than two on their way the latest but one is lost. */
static void tell(int i)
{
	struct uccl_grant *g = &st.g[i];
	struct peer *p = &st.p[i];
	uint32_t was = g->believed, line = st.s.nwaiting;
	uint8_t before = p->nblocks ? p->blocks[p->nblocks - 1].cum : 0;
	uint16_t slots = uccl_slots_tell(g, p->came - before, 0, st.now);

	/* Nobody passes the line. */
	assert_true(!line || g->believed <= was);
	if (p->nblocks == BLOCKS)
		p->nblocks--;
	p->blocks[p->nblocks++] = (struct block){ .slots = slots, .turn = g->turn, .cum = p->came };
	st.now += STEP_NS;
}

static void poll_once(void)
{
	struct uccl_grant *x, *first = TAILQ_FIRST(&st.s.waiting);

	while ((x = uccl_slots_serve(&st.s, st.now))) {
		assert_ptr_equal(x, first);
		tell((int)(x - st.g));
		first = TAILQ_FIRST(&st.s.waiting);
	}
	while ((x = uccl_slots_ask(&st.s, st.now)))
		tell((int)(x - st.g));
}

/* The oldest block arrives, or is lost. */
static void hear(struct peer *p, bool lost)
{
	struct block b = p->blocks[0];

	memmove(p->blocks, p->blocks + 1, sizeof(*p->blocks) * (BLOCKS - 1));
	memset(&p->blocks[--p->nblocks], 0, sizeof(*p->blocks));
	if (lost)
		return;
	p->slots = b.slots;
	p->turn = b.turn;
	p->left = (uint8_t)(p->left - b.cum);
	p->came = (uint8_t)(p->came - b.cum);
	for (int k = 0; k < p->nblocks; k++)
		p->blocks[k].cum = (uint8_t)(p->blocks[k].cum - b.cum);
	if (p->left <= p->slots)
		p->met = p->turn;
}

static void connects(int i)
{
	uint32_t line = st.s.nwaiting;

	memset(&st.p[i], 0, sizeof(st.p[i]));
	uccl_slots_open(&st.s, &st.g[i], rooms[i], 64);
	assert_true(!line || !st.g[i].slots);
	st.p[i].slots = (uint16_t)st.g[i].slots;
}

static void ends(int i)
{
	uccl_slots_close(&st.g[i]);
	memset(&st.g[i], 0, sizeof(st.g[i]));
	memset(&st.p[i], 0, sizeof(st.p[i]));
}

/* Can it happen now? */
static bool may(enum event ev, int i)
{
	const struct uccl_grant *g = &st.g[i];
	const struct peer *p = &st.p[i];

	if (ev >= POLL)
		return !i;
	if (!g->of || ev == OPEN)
		return !g->of && ev == OPEN;
	switch (ev) {
	case SEND:
		return p->left < p->slots;
	case COME_MORE:
	case COME_LAST:
		return p->came < p->left;
	case WANT:
		return !p->slots;
	case HEAR:
	case LOSE:
		return p->nblocks;
	case MET:
		return g->returning;
	default:
		return true;
	}
}

static void happen(enum event ev, int i)
{
	struct uccl_grant *g = &st.g[i];
	struct peer *p = &st.p[i];

	switch (ev) {
	case SEND:
		p->left++;
		p->active = true;
		break;
	case COME_MORE:
	case COME_LAST:
		p->came++;
		uccl_slots_more(g, ev == COME_MORE);
		tell(i);
		break;
	case WANT:
		p->active = true;
		uccl_slots_want(g, st.now);
		tell(i);
		break;
	case HEAR:
	case LOSE:
		hear(p, ev == LOSE);
		break;
	case MET:
		uccl_slots_met(g, p->met);
		break;
	case IDLE:
		tell(i);
		break;
	case OPEN:
		connects(i);
		break;
	case CLOSE:
		ends(i);
		break;
	case POLL:
		poll_once();
		break;
	case QUIET:
		st.now += 11 * MS;
		break;
	case STARVED:
		st.now += 101 * MS;
		break;
	case EVENTS:
		break;
	}
}

static void check(void)
{
	uint64_t used = 0, share = 0, most = SHARE;

	for (int i = 0; i < npeers; i++) {
		const struct uccl_grant *g = &st.g[i];
		const struct peer *p = &st.p[i];

		if (!g->of)
			continue;
		used += g->believed * g->share.cost;
		share += p->active ? 0 : g->believed * g->share.cost;
		most = uccl_max(most, g->share.cost);
		/* It believes no more than we think, and has no more under way. */
		assert_in_range(p->slots, 0, g->believed);
		assert_in_range(p->left, 0, g->believed);
		for (int k = 0; k < p->nblocks; k++)
			assert_in_range(p->blocks[k].slots, 0, g->believed);
		assert_true(!g->waits || !g->slots);
	}
	assert_int_equal(used, st.s.used);
	assert_in_range(used, 0, QUEUE);
	/* Who never sent takes nothing from those who do. */
	assert_in_range(share, 0, most);
}

/* One round of a peer in good health. True: it could send. */
static bool round_of(int i, bool sends)
{
	struct uccl_grant *g = &st.g[i];
	struct peer *p = &st.p[i];
	bool sent = false;

	while (p->nblocks)
		hear(p, false);
	if (g->returning)
		uccl_slots_met(g, p->met);
	if (sends && !p->slots && !g->waits)
		happen(WANT, i);
	while (sends && p->left < p->slots) {
		happen(SEND, i);
		sent = true;
	}
	while (p->came < p->left)
		happen(sends ? COME_MORE : COME_LAST, i);
	return sent;
}

/* From now on all is well: who waits sends soon. `all`: and whoever has sent goes on, without end. */
static void serve_all(bool all)
{
	bool waits[PEERS_MAX], sends[PEERS_MAX];
	uint64_t end = st.now + SERVED_NS;
	int left = 0;

	for (int i = 0; i < npeers; i++) {
		waits[i] = st.g[i].of && st.g[i].waits;
		sends[i] = st.g[i].of && (waits[i] || (all && st.p[i].active));
		left += waits[i];
	}
	nserved += (uint64_t)left;
	while (left) {
		assert_true(st.now < end);
		for (int i = 0; i < npeers; i++)
			if (st.g[i].of && round_of(i, sends[i]) && waits[i]) {
				waits[i] = false;
				left--;
			}
		poll_once();
		check();
		st.now += MS / 4;
	}
}

static void search(int depth)
{
	struct state was = st;

	if (known(depth))
		return;
	serve_all(false);
	st = was;
	serve_all(true);
	st = was;
	if (!depth)
		return;
	for (int ev = 0; ev < EVENTS; ev++)
		for (int i = 0; i < npeers; i++) {
			if (!may((enum event)ev, i))
				continue;
			happen((enum event)ev, i);
			st.now += STEP_NS;
			check();
			search(depth - 1);
			st = was;
		}
}

/* So many peers, of whom so many are connected. */
static void begin(const uint8_t places[PEERS_MAX], int n, int open)
{
	npeers = n;
	rooms = places;
	nstates = nserved = 0;
	memset(seen, 0, sizeof(seen));
	memset(&st, 0, sizeof(st));
	st.now = 1000 * MS;
	uccl_slots_init(&st.s);
	for (int i = 0; i < open; i++)
		connects(i);
}

static void search_all(void)
{
	search(DEPTH);
	assert_true(nserved > 1000);
}

static const uint8_t places[][PEERS_MAX] = {
	{ 1, 1, 1, 1 }, { 2, 2, 2, 2 }, { 3, 3, 3, 3 }, { 3, 2, 3, 2 }, { 4, 1, 4, 4 },
};

/* Two are connected, a third one may come. */
TEST(all__from_the_start)
{
	for (size_t i = 0; i < uccl_array_len(places); i++) {
		begin(places[i], 3, 2);
		search_all();
	}
}

/* There is a line, and whoever has a slot has used it. */
TEST(all__from_a_line)
{
	for (size_t i = 0; i < uccl_array_len(places); i++) {
		begin(places[i], 4, 4);
		for (int k = 0; k < 4; k++)
			round_of(k, true);
		poll_once();
		check();
		search_all();
	}
}

TESTS_MAIN
