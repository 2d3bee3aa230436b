/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "flow/recv/slots.h"

#include "../../tests.h"

#include <string.h>

#include "base/rng.h"
#include "base/units.h"
#include "flow/wire/wire.h"

#define MS UCCL_NS_PER_MS
#define ROOM 1000
#define MANY 1200

static struct uccl_slots s;
static struct uccl_grant g[MANY];
static uint64_t now;

/* So many peers of an endpoint whose queue holds `room` packets. */
static void start(int n, uint32_t room)
{
	now = 1000 * MS;
	uccl_slots_init(&s);
	memset(g, 0, sizeof(g));
	for (int i = 0; i < n; i++)
		uccl_slots_open(&s, &g[i], room, 16384);
}

/* So many chunks came of it; what it is told. */
static uint32_t tell(int i, uint32_t came)
{
	return uccl_slots_tell(&g[i], came, 0, now);
}

/* It takes what it was told last, and says so. */
static void met(int i)
{
	uccl_slots_met(&g[i], g[i].turn);
}

static uint64_t sum(int n)
{
	uint64_t all = 0;

	for (int i = 0; i < n; i++)
		all += g[i].believed;
	return all;
}

/* All that are asked answer. */
static void ask(void)
{
	struct uccl_grant *x;

	while ((x = uccl_slots_ask(&s, now))) {
		uccl_slots_tell(x, 0, 0, now);
		uccl_slots_met(x, x->turn);
	}
}

/* Who sends all the time, and is heard all the time, for so long. */
static uint32_t send(int i, uint64_t ms)
{
	for (uint64_t end = now + ms * MS; now < end; now += MS / 4) {
		tell(i, g[i].slots);
		met(i);
		ask();
	}
	return g[i].slots;
}

/* What is granted to one is bounded by what it can use, and by the queue; one chunk may always be under way. */
TEST(open__bounds)
{
	static const uint32_t rooms[] = {0, 1, 2, 3, 10};

	start(0, 0);
	uccl_slots_open(&s, &g[0], 100000, 64);
	assert_int_equal(g[0].slots, 16);
	assert_int_equal(tell(0, 64), 64);
	for (size_t i = 0; i < uccl_array_len(rooms); i++) {
		start(1, rooms[i]);
		assert_in_range(g[0].slots, 1, uccl_max(rooms[i], 1));
		assert_in_range(send(0, 20), 1, uccl_max(rooms[i], 1));
	}
	start(1, ~0u);
	assert_in_range(send(0, 20), 10000, 16384);
	uccl_slots_close(&g[0]);
	uccl_slots_close(&g[0]);
	assert_int_equal(s.used | s.floors | s.quiet_used | s.npeers | s.nbusy, 0);
}

/* Many that only connect have no more than the part of tokens, and at least one slot each. PROTOCOL R20 */
TEST(open__many_strangers)
{
	start(1, ROOM);
	send(0, 20);
	for (int i = 1; i < 500; i++) {
		uccl_slots_open(&s, &g[i], ROOM, 16384);
		assert_in_range(g[i].slots, sum(i) < ROOM * 14 / 16, 16);
		assert_true(sum(i + 1) - g[0].believed <= 188 + (uint64_t)i);
		assert_true(sum(i + 1) <= ROOM);
	}
	/* The one that sends keeps more than half of the queue's share of it. */
	assert_in_range(send(0, 100), 300, 750);
}

/* More than fit: the first have something to begin with, the others have to ask. PROTOCOL R177 */
TEST(open__more_than_fit)
{
	static const uint32_t rooms[] = {1, 2, 3, 4, 5, 16, 64, 1000};

	for (size_t i = 0; i < uccl_array_len(rooms); i++) {
		start(MANY, rooms[i]);
		assert_true(sum(MANY) >= 1 && sum(MANY) <= rooms[i]);
		assert_int_equal(g[MANY - 1].slots, 0);
		for (int k = 0; k < MANY; k++) {
			assert_true(g[k].slots <= 16);
			assert_true(!k || g[k].slots <= g[k - 1].slots);
		}
		/* Who has nothing to send is given no more later, either. */
		for (int k = 0; k < MANY; k++, now += 1000) {
			tell(k, 0);
			met(k);
		}
		assert_true(sum(MANY) <= uccl_max(rooms[i] * 4 / 16, 1));
	}
}

/* A peer with something to send: it asks, and uses what it is told. True: it could send a chunk. */
static bool turn(int i, bool more)
{
	if (!g[i].slots) {
		uccl_slots_want(&g[i], now);
		while (uccl_slots_serve(&s, now))
			;
	}
	if (!g[i].slots)
		return false;
	uccl_slots_more(&g[i], more);
	tell(i, 1);
	met(i);
	return true;
}

/* All want one at once: first come, first served, nobody passes, and nothing is promised twice. PROTOCOL R178 */
TEST(want__in_a_line)
{
	struct uccl_grant *x;
	uint32_t had = 0;

	start(100, 16);
	for (int i = 99; i >= 0; i--)
		if (!g[i].slots)
			uccl_slots_want(&g[i], now);
		else
			had++;
	assert_int_equal(s.nwaiting + had, 100);
	for (int i = 99; (x = uccl_slots_serve(&s, now)); i--)
		assert_ptr_equal(x, &g[i]);
	assert_in_range(sum(100), 12, 15);
	x = TAILQ_FIRST(&s.waiting);
	/* Asking twice is asking once. */
	uccl_slots_want(x, now);
	uccl_slots_want(TAILQ_NEXT(x, wait_link), now);
	assert_ptr_equal(TAILQ_FIRST(&s.waiting), x);
	/* Its turn has not come, whatever else is told. */
	assert_int_equal(uccl_slots_tell(x, 0, 0, now), 0);
	/* Who has one and sends has no more, as long as there is a line. */
	uccl_slots_more(&g[99], true);
	for (int i = 0; i < 10; i++, now += 1000)
		assert_int_equal(tell(99, 1), 1);
	/* Who says that nothing more waits gives it back with that. */
	uccl_slots_more(&g[98], false);
	assert_int_equal(tell(98, 1), 0);
	assert_null(uccl_slots_serve(&s, now));
	met(98);
	assert_int_equal(s.ask_at, 0);
	/* Nor has who has one the place that just came free. */
	assert_int_equal(tell(99, 1), 1);
	assert_ptr_equal(uccl_slots_serve(&s, now), x);
	/* And who ends, in or out of the line. */
	uccl_slots_close(TAILQ_FIRST(&s.waiting));
	x = TAILQ_FIRST(&s.waiting);
	assert_null(uccl_slots_serve(&s, now));
	s.ask_at = UCCL_NEVER;
	uccl_slots_close(&g[97]);
	assert_int_equal(s.ask_at, 0);
	assert_ptr_equal(uccl_slots_serve(&s, now), x);
	for (int i = 0; i < 100; i++)
		uccl_slots_close(&g[i]);
	assert_int_equal(s.used | s.floors | s.quiet_used | s.npeers | s.nbusy | s.nwaiting, 0);
}

/* Who waits for a large packet is not passed by those who send short ones, new ones neither. PROTOCOL R178 */
TEST(want__large_packets)
{
	uint32_t told;

	start(2, 64);
	uccl_slots_open(&s, &g[2], 1, 64);
	assert_int_equal(g[2].slots, 0);
	uccl_slots_want(&g[2], now);
	assert_null(uccl_slots_serve(&s, now));
	told = g[0].believed;
	uccl_slots_more(&g[0], true);
	assert_in_range(tell(0, told), 1, told);
	assert_true(g[0].share.fair > told && !g[0].share.too_small);
	uccl_slots_open(&s, &g[3], 64, 64);
	assert_int_equal(g[3].slots, 0);
	/* A larger queue is looked at. */
	s.ask_at = UCCL_NEVER;
	uccl_slots_resize(&g[2], 64, 64);
	assert_int_equal(s.ask_at, 0);
	assert_ptr_equal(uccl_slots_serve(&s, now), &g[2]);
}

/* What was to be given back, and is not yet, is given again at its turn: it takes no second place. */
TEST(want__before_it_was_met)
{
	uint64_t used;

	start(100, 16);
	for (int i = 99; i >= 0; i--)
		uccl_slots_want(&g[i], now);
	while (uccl_slots_serve(&s, now))
		;
	now += 1000;
	uccl_slots_more(&g[99], false);
	assert_int_equal(tell(99, 1), 0);
	assert_true(g[99].returning && g[99].believed == 1);
	used = s.used;
	uccl_slots_want(&g[99], now);
	while (s.nwaiting > 1)
		uccl_slots_close(TAILQ_FIRST(&s.waiting));
	assert_ptr_equal(uccl_slots_serve(&s, now), &g[99]);
	assert_int_equal(s.used, used);
	met(99);
	assert_int_equal(g[99].believed, 1);
	assert_int_equal(g[99].slots, 1);
}

/* All send without end, many more than there are slots: they take turns, and nobody has much more. PROTOCOL R178 */
TEST(want__turns)
{
	static const int peers[] = {3, 17, 100};
	static const uint32_t rooms[] = {1, 2, 7, 64};
	static uint64_t sent[MANY];

	for (size_t r = 0; r < uccl_array_len(rooms); r++)
		for (size_t n = 0; n < uccl_array_len(peers); n++) {
			double all = 0, squares = 0;

			start(peers[n], rooms[r]);
			memset(sent, 0, sizeof(sent));
			for (int round = 0; round < 20 * 16 * peers[n]; round++, now += 20 * UCCL_NS_PER_US) {
				struct uccl_grant *x;

				for (int i = 0; i < peers[n]; i++)
					sent[i] += turn(i, true);
				while (uccl_slots_serve(&s, now))
					;
				while ((x = uccl_slots_ask(&s, now))) {
					uccl_slots_tell(x, 0, 0, now);
					uccl_slots_met(x, x->turn);
				}
				assert_true(s.used <= (uint64_t)1 << 32);
			}
			for (int i = 0; i < peers[n]; i++) {
				assert_true(sent[i] > 0);
				all += (double)sent[i];
				squares += (double)sent[i] * (double)sent[i];
			}
			assert_true(all * all / squares / peers[n] >= 0.98);
		}
}

/* What told it of its slot was lost: it asks again, keeps the slot, and its time begins anew. PROTOCOL R179 */
TEST(want__again)
{
	start(100, 16);
	for (int i = 99; i >= 0; i--)
		uccl_slots_want(&g[i], now);
	while (uccl_slots_serve(&s, now))
		;
	for (int k = 0; k < 3; k++) {
		assert_int_equal(tell(99, 0), 1);
		now += 90 * MS;
		uccl_slots_want(&g[99], now);
		assert_false(g[99].waits);
	}
	assert_int_equal(tell(99, 0), 1);
	/* Who does not send, however often it asks, has had its time. PROTOCOL R320 */
	for (int k = 0; k < 3; k++) {
		now += 35 * MS;
		uccl_slots_want(&g[99], now);
	}
	assert_int_equal(tell(99, 0), 0);
}

enum liar { HOLDS, RETURNS };

/*
 * One that sends all the time, beside so many that ask for a slot every 20 ms and never send, and that say that they
 * have met what they are told, or do not. Chunks of the one in 2 s, in steps of 0.25 ms, after the first 4.
 */
static uint64_t beside_liars(int n, uint32_t room, enum liar kind)
{
	uint64_t sent = 0, end;

	start(n + 1, room);
	end = now + 6000 * MS;
	for (int step = 0; now < end; step++, now += MS / 4) {
		struct uccl_grant *x;
		bool counts = now >= end - 2000 * MS;

		if (!g[0].slots)
			uccl_slots_want(&g[0], now);
		sent += counts * g[0].slots;
		uccl_slots_more(&g[0], true);
		tell(0, g[0].slots);
		met(0);
		for (int i = 1 + step % 80; i <= n; i += 80) {
			uccl_slots_want(&g[i], now);
			tell(i, 0);
			if (kind == RETURNS)
				met(i);
		}
		while (uccl_slots_serve(&s, now))
			;
		while ((x = uccl_slots_ask(&s, now))) {
			uccl_slots_tell(x, 0, 0, now);
			if (x == &g[0] || kind == RETURNS)
				uccl_slots_met(x, x->turn);
		}
	}
	return sent;
}

/* Who asks for what it does not use takes next to nothing from who does. PROTOCOL R320 */
TEST(want__liars)
{
	static const uint32_t rooms[] = { 16, 64, 250 };

	for (size_t r = 0; r < uccl_array_len(rooms); r++) {
		/* As many that never say anything. */
		uint64_t best = 8000ull * rooms[r] / 2;

		assert_in_range(beside_liars(290, rooms[r], RETURNS), best / 2, UINT64_MAX);
		assert_in_range(beside_liars(290, rooms[r], HOLDS), best / 2, UINT64_MAX);
	}
}

/* An honest one that was written off, as its answers were lost, counts again when it is heard. */
TEST(want__heard_again)
{
	uint64_t used;

	for (int by_chunk = 0; by_chunk < 2; by_chunk++) {
		start(100, 16);
		for (int i = 99; i >= 0; i--)
			uccl_slots_want(&g[i], now);
		while (uccl_slots_serve(&s, now))
			;
		now += 101 * MS;
		assert_int_equal(tell(99, 0), 0);
		used = s.used;
		for (int k = 0; k < 8; k++) {
			assert_int_equal(s.used, used);
			uccl_slots_want(&g[99], now);
		}
		assert_true(s.used < used);
		assert_false(g[99].waits);
		/* Whoever waits may have it. */
		assert_non_null(uccl_slots_serve(&s, now));
		used = s.used;
		if (by_chunk)
			assert_int_equal(tell(99, 1), 0);
		uccl_slots_want(&g[99], now);
		assert_false(g[99].waits);
		met(99);
		assert_int_equal(g[99].believed, 0);
		assert_int_equal(s.used, used);
		uccl_slots_want(&g[99], now);
		assert_true(g[99].waits);
		for (int i = 0; i < 100; i++)
			uccl_slots_close(&g[i]);
		assert_int_equal(s.used | s.quiet_used | s.nwaiting | s.floors, 0);
	}
}

/* Who asks again and again is told some times, then once in a while; who has just sent is told. PROTOCOL R320 */
TEST(want__too_soon)
{
	int told = 0;

	start(100, 16);
	for (int i = 99; i >= 0; i--)
		uccl_slots_want(&g[i], now);
	tell(0, 0);
	for (int ms = 1; ms <= 1000; ms++) {
		now += MS;
		if (!uccl_slots_want(&g[0], now))
			continue;
		tell(0, 0);
		told++;
	}
	assert_in_range(told, 10, 3 + 1000 / 90);
	now += MS;
	assert_false(uccl_slots_want(&g[0], now));
	tell(0, 1);
	now += MS;
	assert_true(uccl_slots_want(&g[0], now));
}

/* A turn that passes unused is forgiven once, then the next one is ever later; a chunk ends that. */
TEST(want__wasted)
{
	uint64_t wait = 0;

	start(100, 16);
	/* Others hold nearly all that there is. */
	for (int i = 0; i < 13; i++)
		uccl_slots_want(&g[i], now);
	while (uccl_slots_serve(&s, now))
		;
	assert_int_equal(s.nwaiting, 0);
	uccl_slots_close(&g[0]);
	for (int k = 0; k < 12; k++) {
		uint64_t began = now;

		for (uccl_slots_want(&g[99], now); !g[99].waits; uccl_slots_want(&g[99], now))
			now += MS;
		wait = k < 2 ? 0 : k == 2 ? 100 * MS : uccl_min(2 * wait, 12800 * MS);
		assert_int_equal(now - began, wait);
		assert_ptr_equal(uccl_slots_serve(&s, now), &g[99]);
		now += 101 * MS;
		assert_int_equal(tell(99, 0), 0);
		met(99);
	}
	for (; !g[99].waits; now += MS)
		uccl_slots_want(&g[99], now);
	assert_ptr_equal(uccl_slots_serve(&s, now), &g[99]);
	tell(99, 1);
	assert_int_equal(g[99].turns.wasted, 0);
}

/* Those who have slots do not answer: after a while there are a few for others, in turn. PROTOCOL R179 */
TEST(want__starved)
{
	static uint64_t sent[MANY];
	int had = 0;

	start(200, 64);
	for (int i = 0; i < 100; i++)
		had += turn(i, false) && g[i].slots;
	for (int i = 0; i < 100; i++)
		if (!g[i].slots)
			uccl_slots_want(&g[i], now);
	while (uccl_slots_serve(&s, now))
		;
	/* All of these are silent from now on. */
	assert_true(sum(100) >= 60 * 7 / 8);
	while (s.nwaiting)
		uccl_slots_close(TAILQ_FIRST(&s.waiting));
	for (int ms = 0; ms < 2000; ms++, now += MS) {
		for (int i = 100; i < 200; i++)
			sent[i] += turn(i, true);
		while (uccl_slots_serve(&s, now))
			;
		while (uccl_slots_ask(&s, now))
			;
		assert_true(s.used <= (uint64_t)1 << 32);
	}
	for (int i = 100; i < 200; i++)
		assert_true(sent[i] > 0);
}

/* Who has one, or many, and is silent is asked as long as somebody waits. The last place is never promised twice. */
TEST(want__asks_the_silent)
{
	struct uccl_grant *x;
	uint32_t asked = 0;

	start(3, 1);
	for (int i = 0; i < 3; i++)
		uccl_slots_want(&g[i], now);
	for (int ms = 0; ms < 1000; ms++, now += MS) {
		assert_null(uccl_slots_serve(&s, now));
		while ((x = uccl_slots_ask(&s, now))) {
			assert_int_equal(x->believed, 1);
			uccl_slots_tell(x, 0, 0, now);
			asked++;
		}
		assert_true(s.ask_at != UCCL_NEVER);
	}
	assert_in_range(asked, 3, 10);
}

/* Who knows of no grant of 0 is promised one, and if that does not fit it takes it from nobody. PROTOCOL R180 */
TEST(least__one)
{
	struct uccl_grant *x;
	uint64_t used;

	start(100, 16);
	for (int i = 0; i < 90; i++)
		uccl_slots_want(&g[i], now);
	while (uccl_slots_serve(&s, now))
		;
	used = s.used;
	x = TAILQ_FIRST(&s.waiting);
	uccl_slots_least(x);
	assert_false(x->waits);
	uccl_slots_least(&g[95]);
	assert_int_equal(g[95].slots, 1);
	assert_int_equal(g[95].believed, 1);
	assert_int_equal(s.used, used);
	for (int k = 0; k < 50; k++, now += MS) {
		assert_true(tell(95, 20) >= 1);
		met(95);
	}
	for (int i = 0; i < 100; i++)
		uccl_slots_close(&g[i]);
	assert_int_equal(s.used | s.quiet_used | s.nwaiting, 0);
	/* One that fits counts. */
	start(1, 16);
	used = s.used;
	uccl_slots_least(&g[0]);
	assert_int_equal(s.used, used);
	assert_false(g[0].overbooked);
}

/*
 * What a silent peer was told does not count where others wait; when it sends after all it counts again. One that knows
 * of no grant of 0 is never told 0. PROTOCOL R135 R180
 */
TEST(write_off__silent)
{
	for (int least = 0; least < 2; least++) {
		uint64_t used;

		start(3, ROOM);
		if (least)
			uccl_slots_least(&g[2]);
		used = s.used;
		assert_true(g[2].believed > 1);
		uccl_slots_write_off(&g[2]);
		assert_true(s.used < used);
		now += MS;
		assert_int_equal(tell(2, 1), least);
		met(2);
		now += MS;
		assert_true(tell(2, 1) > 1);
		assert_false(g[2].written_off);
		for (int i = 0; i < 3; i++)
			uccl_slots_close(&g[i]);
		assert_int_equal(s.used | s.quiet_used | s.nwaiting | s.floors, 0);
	}
}

/* Alone, one has nearly all of it. */
TEST(tell__alone)
{
	start(1, ROOM);
	assert_int_equal(g[0].slots, 16);
	assert_int_equal(send(0, 1), 687);
}

/* One active peer among many has nearly what it has alone. PROTOCOL R140 */
TEST(tell__one_among_idle)
{
	static const int peers[] = {2, 10, 100, 400, 600, 1000};

	for (size_t i = 0; i < uccl_array_len(peers); i++) {
		start(peers[i], ROOM);
		assert_true(g[peers[i] - 1].slots >= (peers[i] <= 375));
		for (int k = 0; k < peers[i]; k++)
			uccl_slots_more(&g[k], true);
		assert_in_range(send(0, 300), peers[i] <= 375 ? 400 : 500, 750);
		assert_true(sum(peers[i]) <= ROOM);
		/* Small messages now and then are no need of more. */
		tell(1, 1);
		now += 20 * MS;
		tell(1, 1);
		assert_true(!g[1].busy || g[1].share.token == 1);
	}
}

/* Its first chunks bring an idle one its share at once; nobody had to be asked. PROTOCOL R140 */
TEST(tell__first_message)
{
	start(20, ROOM);
	assert_in_range(tell(19, 3), 1, 8);
	assert_in_range(tell(19, 1), 300, 600);
	/* And the next one has a part of what was left, before the first has heard of it. */
	assert_in_range(tell(18, 4), 50, 300);
	assert_true(sum(20) <= 750);
}

/*
 * Far away and slow: 3 chunks a ms at most, and what is told lets them come a round trip of 40 ms later. Half a token
 * never comes in 10 ms, but in the time of some round trips; so it is busy, and has what fills the way. PROTOCOL R253
 */
TEST(tell__far_away)
{
	enum { STEPS = 4 * 2000, LAG = 4 * 40 };
	static uint32_t may[STEPS + LAG]; /* chunks that may have come by then, a quarter of a ms each */
	uint32_t came = 0;

	start(1, 512);
	for (int i = 0; i < LAG; i++)
		may[i] = g[0].slots;
	for (int i = 0; i < STEPS; i++, now += MS / 4) {
		bool comes = i % 4 && came < may[i];

		came += comes;
		may[i + LAG] = came + uccl_slots_tell(&g[0], comes, 40 * MS, now);
		met(0);
	}
	assert_true(g[0].busy);
	assert_in_range(g[0].slots, 200, 512);
	assert_true(came > 3 * 2000 * 9 / 10);
}

/* Who was busy and sends no more leaves its part to the others; how long that takes depends on the round trip. */
TEST(tell__quiet_after_a_while)
{
	start(3, ROOM);
	tell(0, 100);
	tell(1, 100);
	uccl_slots_tell(&g[2], 100, 20 * MS, now);
	assert_int_equal(s.nbusy, 3);
	now += 11 * MS;
	tell(0, 100);
	assert_int_equal(s.nbusy, 2);
	assert_true(g[2].busy);
	now += 80 * MS;
	tell(0, 100);
	assert_int_equal(s.nbusy, 1);
	assert_true(g[0].busy);
}

/* All become active at once: they share alike as soon as they have answered. PROTOCOL R20 R140 */
TEST(tell__all_at_once)
{
	start(64, ROOM);
	send(0, 50);
	assert_in_range(g[0].slots, 400, 687);
	for (int round = 0; round < 50; round++, now += MS / 10)
		for (int i = 0; i < 64; i++) {
			assert_true(tell(i, g[i].slots) >= 1);
			met(i);
			assert_true(sum(64) <= 750);
		}
	for (int i = 0; i < 64; i++)
		assert_in_range(g[i].slots, 8, 12);
	/* All but one go: it has everything again. */
	for (int i = 1; i < 64; i++)
		uccl_slots_close(&g[i]);
	assert_in_range(send(0, 50), 600, 687);
}

/* A smaller grant counts only when it is known to be met: until then the peer may use the old one. PROTOCOL R142 */
TEST(met__counts)
{
	uint32_t had, less;
	uint8_t turn;

	start(2, ROOM);
	had = send(0, 5);
	assert_in_range(had, 400, 600);
	/* Another one needs a part, but what is left is less. */
	tell(1, 64);
	turn = g[0].turn;
	/* Not within one instant: the peer could not tell the newer block by its time. */
	g[0].told_ns = now;
	assert_int_equal(tell(0, 10), had);
	now += 1000;
	less = tell(0, 10);
	assert_true(less < had);
	assert_int_equal(g[0].turn, (turn + 1) % UCCL_SLOTS_TURNS);
	assert_int_equal(g[0].believed, had);
	/* Earlier turns say nothing, nor does anything in advance. */
	for (int k = 2; k <= UCCL_SLOTS_TURNS; k++) {
		uccl_slots_met(&g[0], (uint8_t)((turn + k) % UCCL_SLOTS_TURNS));
		assert_int_equal(g[0].believed, had);
	}
	assert_true(tell(1, g[1].slots) + had <= 750);
	/* No second turn before the first is met: it could not be told apart. */
	for (int i = 0; i < 10; i++, now += 1000) {
		uccl_slots_open(&s, &g[2 + i], ROOM, 1024);
		tell(2 + i, 100);
		assert_int_equal(tell(0, 10), less);
	}
	assert_int_equal(g[0].turn, (turn + 1) % UCCL_SLOTS_TURNS);
	for (int i = 0; i < 10; i++)
		uccl_slots_close(&g[2 + i]);
	met(0);
	assert_int_equal(g[0].believed, g[0].slots);
	assert_true(tell(1, g[1].slots) > 300);
	assert_true(sum(2) <= 750);
	/* Met once is met. */
	had = g[0].believed;
	met(0);
	assert_int_equal(g[0].believed, had);
}

/* What is on its way back may be told again in the same turn; the larger one counts. PROTOCOL R142 */
TEST(met__raised_meanwhile)
{
	uint32_t had, less;

	start(2, ROOM);
	had = send(0, 5);
	tell(1, 64);
	now += 1000;
	less = tell(0, 10);
	assert_true(less < had);
	uccl_slots_close(&g[1]);
	assert_true(tell(0, 10) > less);
	assert_true(g[0].slots <= had);
	less = g[0].slots;
	met(0);
	assert_int_equal(g[0].believed, less);
}

/* Who never answers keeps what it was told, and no more; the others keep their tokens. PROTOCOL R143 */
TEST(ask__no_answer)
{
	uint32_t kept[8], asked = 0;
	struct uccl_grant *x;

	start(9, ROOM);
	/* One after the other takes what it can get, and is never heard again. */
	for (int i = 0; i < 8; i++, now += 20 * MS)
		kept[i] = tell(i, g[i].slots);
	for (uint64_t end = now + 60000 * MS; now < end; now += MS) {
		tell(8, g[8].slots);
		while ((x = uccl_slots_ask(&s, now))) {
			assert_ptr_not_equal(x, &g[8]);
			uccl_slots_tell(x, 0, 0, now);
			asked++;
		}
		assert_true(sum(9) <= 750);
	}
	for (int i = 0; i < 8; i++)
		assert_int_equal(g[i].believed, kept[i]);
	assert_true(g[8].slots >= 16);
	/* It is asked more and more seldom. */
	assert_in_range(asked, 8, 8 * 18);
	/* Who connects now has something to begin with. */
	uccl_slots_open(&s, &g[9], ROOM, 1024);
	assert_true(tell(9, 1) >= 8);
	uccl_slots_close(&g[9]);
	/* One word of each, and the only active one has its share. */
	for (int i = 0; i < 8; i++)
		met(i);
	assert_in_range(send(8, 10), 400, 687);
}

/* Nobody is asked for what nobody needs, and a shortage that is over is forgotten. PROTOCOL R141 */
TEST(ask__only_if_needed)
{
	start(2, ROOM);
	assert_true(s.ask_at == UCCL_NEVER);
	send(0, 5);
	now += 1000 * MS;
	assert_true(s.ask_at == UCCL_NEVER);
	assert_null(uccl_slots_ask(&s, now));
	tell(0, 1);
	assert_true(g[0].believed > 400 && !g[0].returning);
	/* Now somebody does, for a while. */
	tell(1, 200);
	assert_true(s.ask_at != UCCL_NEVER);
	now += 20 * MS;
	assert_null(uccl_slots_ask(&s, now));
	assert_true(s.ask_at == UCCL_NEVER);
}

/* However many are quiet, few are looked at in a millisecond. */
TEST(ask__few_at_a_time)
{
	start(MANY, 20000);
	for (int i = 0; i < 20; i++, now += MS) {
		int asked = 0;

		tell(MANY - 1, g[MANY - 1].slots);
		s.short_ns = now;
		s.ask_at = uccl_min(s.ask_at, now);
		while (uccl_slots_ask(&s, now))
			asked++;
		assert_true(asked <= 16);
		assert_null(uccl_slots_ask(&s, now));
	}
}

/* Packets of different sizes: each slot costs what it takes of the queue. */
TEST(resize__sizes)
{
	start(1, ROOM);
	uccl_slots_open(&s, &g[1], ROOM / 10, 16384);
	for (int i = 0; i < 20; i++, now += MS / 4) {
		tell(0, g[0].slots);
		tell(1, g[1].slots);
		met(0);
		met(1);
		assert_true(g[0].believed + 10 * g[1].believed <= 750);
	}
	assert_true(g[0].believed > 300 && g[1].believed > 30);
	/* Others have a part of the queue now: the grants shrink. */
	uccl_slots_resize(&g[0], ROOM / 2, ROOM / 2);
	uccl_slots_resize(&g[1], ROOM / 20, ROOM / 20);
	for (int i = 0; i < 20; i++, now += MS / 4) {
		tell(0, g[0].slots);
		tell(1, g[1].slots);
		met(0);
		met(1);
	}
	assert_true(g[0].believed + 10 * g[1].believed <= 375);
	assert_true(g[0].believed > 150 && g[1].believed > 15);
}

/* One slot of each counts as what comes, the others as what may come: all have one, nobody has many. PROTOCOL R247 */
TEST(resize__usual)
{
	uint32_t served = 0;

	start(100, 10);
	for (int i = 0; i < 100; i++)
		uccl_slots_want(&g[i], now);
	while (uccl_slots_serve(&s, now))
		served++;
	assert_in_range(served, 0, 9);
	for (int i = 0; i < 100; i++)
		uccl_slots_resize(&g[i], 10, 120);
	while (uccl_slots_serve(&s, now))
		served++;
	assert_in_range(served, 100 - 9, 100);
	assert_int_equal(s.nwaiting, 0);
	assert_int_equal(sum(100), 100);
	assert_true(s.used <= (uint64_t)1 << 32);
	/* One that is long after all takes its place, whatever others have: nobody gets more until it fits. */
	uccl_slots_resize(&g[7], 10, 10);
	assert_int_equal(g[7].believed, 1);
	assert_true(s.used > ((uint64_t)1 << 32) / 10 * 9);
	for (int i = 0; i < 100; i++)
		uccl_slots_close(&g[i]);
	assert_int_equal(s.used, 0);
	assert_int_equal(s.floors, 0);
	/* Never more than one of a packet of the full length: a queue that holds more of those is no reason. */
	start(2, 64);
	uccl_slots_resize(&g[0], 64, 32);
	assert_int_equal(g[0].share.first_cost, g[0].share.cost);
	/* The second slot is a long one. */
	uccl_slots_resize(&g[0], 10, 1000);
	for (int i = 0; i < 20; i++, now += MS / 4) {
		tell(0, g[0].slots);
		met(0);
	}
	assert_in_range(g[0].believed, 4, 7);
}

/* Who has a turn takes its time, until another one has waited for long. PROTOCOL R178 */
TEST(want__patience)
{
	start(100, 16);
	for (int i = 99; i >= 0; i--)
		uccl_slots_want(&g[i], now);
	while (uccl_slots_serve(&s, now))
		;
	for (int k = 0; k < 3; k++, now += 15 * MS) {
		uccl_slots_more(&g[99], true);
		assert_int_equal(tell(99, 1), 1);
	}
	now += 16 * MS;
	assert_true(g[99].turns.came == 3);
	assert_int_equal(tell(99, 1), 0);
	/* Another one that has just begun may go on. */
	uccl_slots_more(&g[98], true);
	assert_int_equal(tell(98, 1), 1);
	now += 9 * MS;
	assert_int_equal(tell(98, 1), 1);
	now += 2 * MS;
	assert_int_equal(tell(98, 1), 0);
}

/* Whatever happens, in whatever order: the books balance, and the queue is not promised twice. PROTOCOL R20 */
TEST(all__by_chance)
{
	for (uint64_t seed = 1; seed <= 30; seed++) {
		struct uccl_rng rng;
		uint32_t room = seed % 6 ? 64u << seed % 5 : 1 + (uint32_t)seed / 6;
		int n = 2 + (int)(seed % 16);

		uccl_rng_seed(&rng, seed);
		start(0, 0);
		for (int step = 0; step < 20000; step++) {
			int i = (int)uccl_rng_below(&rng, (uint64_t)n);
			uint64_t used = 0, quiet = 0;
			uint32_t nbusy = 0, npeers = 0, nline = 0;
			struct uccl_grant *x;

			now += uccl_rng_below(&rng, MS / 2);
			if (!g[i].of)
				uccl_slots_open(&s, &g[i], room, 1024);
			else if (uccl_rng_chance(&rng, 0.002))
				uccl_slots_close(&g[i]);
			else if (uccl_rng_chance(&rng, 0.1))
				uccl_slots_want(&g[i], now);
			else if (uccl_rng_chance(&rng, 0.1))
				uccl_slots_more(&g[i], uccl_rng_chance(&rng, 0.5));
			else if (uccl_rng_chance(&rng, 0.3))
				uccl_slots_met(&g[i], (uint8_t)uccl_rng_below(&rng, UCCL_SLOTS_TURNS));
			else
				assert_in_range(tell(i, (uint32_t)uccl_rng_below(&rng, g[i].slots + 1)), 0, room);
			if (uccl_rng_chance(&rng, 0.5))
				while (uccl_slots_serve(&s, now))
					;
			while ((x = uccl_slots_ask(&s, now)))
				uccl_slots_tell(x, 0, 0, now);
			for (int k = 0; k < n; k++) {
				assert_true(!g[k].of || g[k].slots <= g[k].believed);
				assert_true(!g[k].of || !g[k].waits || !g[k].slots);
				nline += g[k].of && g[k].waits;
				assert_true(!g[k].of || g[k].returning || g[k].slots == g[k].believed);
				npeers += !!g[k].of;
				nbusy += g[k].of && g[k].busy;
				used += g[k].of && !g[k].written_off ? g[k].believed * g[k].share.cost : 0;
				quiet += g[k].of && !g[k].written_off && !g[k].busy
						 ? g[k].believed * g[k].share.cost
						 : 0;
			}
			assert_int_equal(used, s.used);
			assert_int_equal(quiet, s.quiet_used);
			assert_int_equal(nbusy, s.nbusy);
			assert_int_equal(npeers, s.npeers);
			assert_int_equal(nline, s.nwaiting);
			assert_true(used <= (uint64_t)1 << 32);
		}
	}
}

/* Half a token within the time makes a peer busy; the list of busy peers is put in order now and then. PROTOCOL R253 */
TEST(grant_need_came__counts)
{
	struct uccl_grant_need n = {0};
	uint64_t t = UCCL_GRANT_QUIET_NS;

	uccl_grant_need_init(&n);
	assert_false(uccl_grant_need_came(&n, 3, 8, false, 0, t));
	/* What came longer ago does not count. */
	assert_false(uccl_grant_need_came(&n, 3, 8, false, 0, t + UCCL_GRANT_QUIET_NS));
	t += UCCL_GRANT_QUIET_NS;
	assert_true(uccl_grant_need_came(&n, 1, 8, false, 0, t));
	assert_false(uccl_grant_need_came(&n, 8, 8, true, 0, t + n.quiet_ns / 4 - 1));
	assert_true(uccl_grant_need_came(&n, 8, 8, true, 0, t + n.quiet_ns / 4));
	assert_false(uccl_grant_need_over(&n, n.busy_ns + n.quiet_ns - 1));
	assert_true(uccl_grant_need_over(&n, n.busy_ns + n.quiet_ns));
}

/* One turn that passed unused is forgiven. PROTOCOL R320 */
TEST(grant_turn_barred__forgiven)
{
	struct uccl_grant_turn t = {0};

	for (int i = 0; i < 3; i++) {
		uccl_grant_turn_begin(&t, 1000);
		assert_int_equal(uccl_grant_turn_barred(&t, 1000), i > 0);
		assert_int_equal(t.again_ns, i ? 1000 + UCCL_GRANT_WASTED_NS * (uint64_t)i : 0);
	}
}

TESTS_MAIN
