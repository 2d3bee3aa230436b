/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "flow/send/pacer.h"

#include "../../tests.h"

#include <string.h>

#include "base/units.h"

#define KIB 1024ull
#define MIB (1024 * KIB)
#define LINK 400000000000ull
#define US UCCL_NS_PER_US
#define N 64

static struct uccl_pacer p;
static struct uccl_pull u[N];
static uint64_t now;

static const struct uccl_pull_cfg usual = {.quantum = 32 * KIB, .idle = 64 * KIB, .window = 64 * KIB + MIB};

static void start(uint64_t link, const struct uccl_pull_cfg *cfg)
{
	now = 1000 * US;
	uccl_pacer_init(&p, link);
	for (int i = 0; i < N; i++)
		uccl_pull_init(&p, &u[i], cfg, now);
}

/* It has received so much of this sender, which wants so much. */
static void heard(int i, uint64_t received, uint64_t demand)
{
	uccl_pacer_heard(&p, &u[i], received, demand, false, now);
}

static int next(void)
{
	bool rests = uccl_pacer_rests(&p), never = uccl_pacer_expiry(&p, now) == UCCL_NEVER;
	struct uccl_pull *v = uccl_pacer_next(&p, now);

	/* Who rests need not be asked. */
	assert_true(!rests || (!v && never));
	return v ? (int)(v - u) : -1;
}

/* Until a grant; whose. -1: there never is one. */
static int wait_next(void)
{
	int i;

	while ((i = next()) < 0) {
		uint64_t at = uccl_pacer_expiry(&p, now);

		if (at == UCCL_NEVER)
			return -1;
		assert_true(at >= now);
		now = at > now ? at : now + 1;
	}
	return i;
}

/* Nobody is there, then somebody wants something. In all other tests next() looks whether it is true. */
TEST(rests__until_somebody_wants)
{
	uccl_pacer_init(&p, LINK);
	assert_true(uccl_pacer_rests(&p));
	start(LINK, &usual);
	heard(0, 0, 4 * MIB);
	assert_false(uccl_pacer_rests(&p));
	assert_int_equal(wait_next(), 0);
	/* It owes what it was granted. */
	assert_false(uccl_pacer_rests(&p));
}

/* PROTOCOL R61 */
TEST(next__line_rate)
{
	struct uccl_pull_cfg c = usual;
	uint64_t began, bytes = 0;
	double rate;

	c.window = 1024 * MIB;
	start(LINK, &c);
	heard(0, 0, 4096 * MIB);
	/* The first few make up for the time before. */
	for (int i = 0; i < 10; i++)
		assert_int_equal(wait_next(), 0);
	began = now;
	while (now < began + 1000 * US) {
		assert_int_equal(wait_next(), 0);
		bytes += c.quantum;
		/* It is there, if slow. */
		heard(0, bytes / 2, 4096 * MIB);
	}
	rate = (double)bytes * 8 / (double)(now - began);
	assert_true(rate > 0.999 * 388 && rate < 1.001 * 388);
	assert_int_equal(u[0].granted, c.idle + bytes + 10 * c.quantum);
}

TEST(next__unknown_link)
{
	start(0, &usual);
	heard(0, 0, 1024 * MIB);
	/* As much as it may be ahead, at once. */
	while (next() == 0)
		;
	assert_int_equal(u[0].granted, usual.window);
	assert_int_equal(now, 1000 * US);
}

TEST(next__nobody_wants)
{
	start(LINK, &usual);
	assert_int_equal(next(), -1);
	assert_int_equal(uccl_pacer_expiry(&p, now), UCCL_NEVER);
	/* Within what it may send unsolicited. */
	heard(0, 10 * KIB, 20 * KIB);
	assert_int_equal(wait_next(), -1);
}

/* PROTOCOL R61 */
TEST(next__lists)
{
	int i;

	start(LINK, &usual);
	heard(0, 64 * KIB, 64 * KIB); /* wants no more: only its idle window back */
	heard(1, 0, MIB);
	uccl_pacer_heard(&p, &u[2], 0, MIB, true, now);
	assert_int_equal(u[0].list, UCCL_PULL_IDLE);
	assert_int_equal(u[1].list, UCCL_PULL_ACTIVE);
	assert_int_equal(u[2].list, UCCL_PULL_RTX);
	assert_int_equal(wait_next(), 2);
	/* One grant for what was lost, then it is one of those that want more. */
	assert_int_equal(u[2].list, UCCL_PULL_ACTIVE);
	assert_int_equal(wait_next(), 1);
	assert_int_equal(wait_next(), 2);
	while ((i = wait_next()) == 1 || i == 2)
		assert_int_equal(u[0].granted, usual.idle);
	/* Only when they have all that they may have. */
	assert_int_equal(i, 0);
	assert_int_equal(u[1].granted, MIB);
	assert_int_equal(u[2].granted, MIB);
	assert_int_equal(wait_next(), 0);
	assert_int_equal(u[0].granted, 128 * KIB);
	assert_int_equal(wait_next(), -1);
}

/* Where one grant is more than the idle window, that comes back all the same. */
TEST(next__idle_below_a_grant)
{
	static const struct uccl_pull_cfg small = {.quantum = 64 * KIB, .idle = 32 * KIB, .window = MIB};

	start(LINK, &small);
	heard(0, 32 * KIB, 32 * KIB);
	assert_int_equal(u[0].list, UCCL_PULL_IDLE);
	assert_int_equal(wait_next(), 0);
	assert_int_equal(u[0].granted, 64 * KIB);
	assert_int_equal(wait_next(), -1);
	/* It sent more than that, as it had no more. */
	heard(0, 96 * KIB, 96 * KIB);
	while (wait_next() == 0)
		assert_in_range(u[0].granted, 96 * KIB, 128 * KIB);
	assert_int_equal(u[0].granted, 128 * KIB);
	/* Who wants more gets whole grants. */
	heard(0, 128 * KIB, MIB);
	assert_int_equal(wait_next(), 0);
	assert_int_equal(u[0].granted, 192 * KIB);
}

TEST(next__turns)
{
	start(LINK, &usual);
	for (int i = 0; i < 5; i++)
		heard(i, 0, 1024 * MIB);
	for (int n = 0; n < 100; n++) {
		int i = wait_next();

		assert_int_equal(i, n % 5);
		heard(i, u[i].granted, 1024 * MIB);
	}
}

/* A loss brings a turn forward, once in each round. PROTOCOL R61 R145 */
TEST(next__losses_come_first)
{
	static const int order[] = {4, 0, 1, 2, 3, 4, 0, 3, 1, 2};

	start(LINK, &usual);
	for (int i = 0; i < 5; i++)
		heard(i, 0, 1024 * MIB);
	for (size_t n = 0; n < sizeof(order) / sizeof(order[0]); n++) {
		/* The last one always says so, another one in the second round only. */
		uccl_pacer_heard(&p, &u[4], u[4].granted, 1024 * MIB, true, now);
		if (n == 7)
			uccl_pacer_heard(&p, &u[3], u[3].granted, 1024 * MIB, true, now);
		assert_int_equal(wait_next(), order[n]);
	}
}

/* Of so many that always want more, the first `liars` say every other us that they lost a lot. n: grants of each. */
static void lie(int senders, int liars, uint64_t for_ns, uint64_t n[])
{
	uint64_t end = now + for_ns, lost[N] = {0};

	for (int i = 0; i < senders; i++)
		n[i] = 0;
	while (now < end) {
		for (int i = 0; i < senders; i++) {
			if (i < liars && now / US % 2) {
				lost[i] += 1024 * MIB;
				uccl_pacer_heard(&p, &u[i], lost[i], lost[i] + MIB, true, now);
			} else if (i >= liars) {
				heard(i, u[i].granted, u[i].granted + MIB);
			}
		}
		for (int i; (i = next()) >= 0;) {
			n[i]++;
			assert_true(p.grants < 100000);
		}
		now += US;
	}
}

/* Who says that it lost something gets its turn earlier, not more of them; who sends nothing, fewer. PROTOCOL R322 */
TEST(next__losses_bring_no_more)
{
	static const struct { int senders, liars; } cases[] = {{2, 1}, {8, 1}, {8, 4}, {N, N - 1}};
	uint64_t n[N], line = LINK / 1000 * 970 / 8 / 1000 / usual.quantum; /* grants in a ms */

	for (size_t k = 0; k < sizeof(cases) / sizeof(cases[0]); k++) {
		uint64_t sum = 0;

		start(LINK, &usual);
		lie(cases[k].senders, cases[k].liars, 1000 * US, n);
		for (int i = 0; i < cases[k].senders; i++) {
			uint64_t part = line / (uint64_t)cases[k].senders;

			if (i < cases[k].liars)
				assert_in_range(n[i], 0, part + 4);
			else
				assert_in_range(n[i], part * 97 / 100, line);
			sum += n[i];
		}
		assert_in_range(sum, line * 99 / 100, line + 5);
	}
}

/* Nor is anything handed out at once because of it, or held up. PROTOCOL R61 */
TEST(next__losses_take_no_room)
{
	uint64_t n[N], line = LINK / 1000 * 970 / 8 / 1000 / usual.quantum;

	start(LINK, &usual);
	lie(1, 1, 1000 * US, n);
	assert_in_range(n[0], line * 99 / 100, line + 5);
	/* One that wants nothing and always loses leaves all to another one. */
	start(LINK, &usual);
	n[0] = 0;
	for (uint64_t lost = 1; lost <= 1000; lost++, now += US) {
		uccl_pacer_heard(&p, &u[1], lost * 1024 * MIB, lost * 1024 * MIB, true, now);
		heard(0, u[0].granted, u[0].granted + MIB);
		for (int i; (i = next()) >= 0;)
			n[0] += !i;
	}
	assert_in_range(n[0], line * 99 / 100, line + 5);
}

/*
 * Grants of 64 ms to a sender that uses them and to liars that take theirs, send nothing and say that all was lost. The
 * link is 100 Gb/s; the honest one loses one chunk in `loss`, 0: none.
 */
static void beside_wasters(int liars, uint32_t loss, uint64_t grants[2])
{
	uint64_t came = 0, lost = 0, end, k = 0;

	start(LINK / 4, &usual);
	grants[0] = grants[1] = 0;
	for (end = now + 64000 * US; now < end; now += US) {
		for (int i; (i = next()) >= 0;) {
			grants[i > 0]++;
			if (i) {
				/* Its next question. */
				uccl_pacer_heard(&p, &u[i], u[i].granted, u[i].granted + MIB, true, now);
				continue;
			}
			if (loss && ++k % loss == 0) {
				lost += usual.quantum;
				uccl_pacer_heard(&p, &u[0], came + lost, u[0].granted + MIB, true, now);
			} else {
				came += usual.quantum;
				heard(0, came + lost, u[0].granted + MIB);
			}
		}
		if (now == 1000 * US) {
			heard(0, 0, MIB);
			for (int i = 1; i <= liars; i++)
				heard(i, 0, MIB);
		}
	}
}

/* Who takes credit and sends nothing loses its share; who loses a part keeps its own. PROTOCOL R322 */
TEST(next__wasters_come_last)
{
	static const int liars[] = { 1, 10, 60 };
	static const uint32_t losses[] = { 0, 256, 10, 3 };
	uint64_t n[2];

	for (size_t i = 0; i < uccl_array_len(liars); i++)
		for (size_t k = 0; k < uccl_array_len(losses); k++) {
			beside_wasters(liars[i], losses[k], n);
			/* One in 16 and what each has before it is known: two windows. */
			assert_in_range(n[1], 1, (n[0] + n[1]) / 15 + (uint64_t)liars[i] * 2 * usual.window /
							 usual.quantum + (uint64_t)liars[i]);
		}
}

/* Everything of it was lost for a while, on a path that swallows all: once something comes, its share comes back. */
TEST(next__waster_again)
{
	uint64_t before;

	start(LINK, &usual);
	uccl_pacer_heard(&p, &u[0], 10 * MIB, 20 * MIB, true, now);
	heard(1, 0, 100 * MIB);
	assert_int_equal(u[0].list, UCCL_PULL_IDLE);
	assert_int_equal(u[1].list, UCCL_PULL_ACTIVE);
	/* Alone it has the link all the same. */
	heard(1, 0, 0);
	uccl_pull_fini(&p, &u[1]);
	before = u[0].granted;
	for (int i = 0; i < 10; i++)
		assert_int_equal(wait_next(), 0);
	assert_int_equal(u[0].granted, before + 10 * usual.quantum);
	heard(0, 18 * MIB, 30 * MIB);
	assert_int_equal(u[0].list, UCCL_PULL_ACTIVE);
}

/* PROTOCOL R62 */
TEST(next__ahead)
{
	start(LINK, &usual);
	heard(0, 0, 1024 * MIB);
	while (u[0].granted < usual.window)
		assert_int_equal(wait_next(), 0);
	assert_int_equal(next(), -1);
	now += 100 * US;
	assert_int_equal(next(), -1);
	heard(0, 32 * KIB, 1024 * MIB);
	assert_int_equal(wait_next(), 0);
	assert_int_equal(u[0].granted, usual.window + 32 * KIB);
}

/* However many there are that take and do not send. PROTOCOL R62 */
TEST(next__all_ahead)
{
	uint64_t sum = 0, until;

	start(LINK, &usual);
	until = now + 400 * US;
	for (int i = 0; i < N; i++)
		heard(i, 0, 1024 * MIB);
	while (now < until) {
		if (next() < 0)
			now += US;
		sum = 0;
		for (int i = 0; i < N; i++)
			sum += u[i].granted - usual.idle;
		assert_int_equal(sum, p.out);
		assert_true(sum <= 4 * MIB);
	}
	assert_int_equal(sum, 4 * MIB);
}

/* PROTOCOL R62 */
TEST(next__silent_ones_are_written_off)
{
	int i;

	start(LINK, &usual);
	for (i = 0; i < 8; i++)
		heard(i, 0, 1024 * MIB);
	while (p.out < p.out_max)
		assert_true(wait_next() >= 0);
	heard(8, 0, 1024 * MIB);
	assert_int_equal(next(), -1);
	/* Nothing but time helps, and the pacer asks to be called then. */
	now = uccl_pacer_expiry(&p, now);
	i = next();
	assert_int_equal(i, 8);
	assert_int_equal(p.expired, 8);
	assert_int_equal(p.out, 32 * KIB);
	for (int n = 0; n < 10; n++)
		assert_int_equal(wait_next(), 8);
	/* One that comes back counts again, and has its turn. */
	heard(3, 64 * KIB, 1024 * MIB);
	assert_int_equal(p.out, 11 * 32 * KIB + u[3].granted - 64 * KIB - usual.idle);
	assert_int_equal(wait_next(), 8);
	assert_int_equal(wait_next(), 3);
}

/* What is sent unsolicited takes its time on the link before anything is granted. PROTOCOL R61 */
TEST(heard__speculation_comes_first)
{
	uint64_t began;

	start(LINK, &usual);
	began = now;
	for (int i = 0; i < 4; i++)
		heard(i, 0, MIB);
	wait_next();
	/* 256 KiB at 388 Gb/s: who had nothing to do is not late. */
	assert_in_range(now - began, 5380, 5430);
	start(LINK, &usual);
	began = now;
	for (int i = 0; i < N; i++)
		heard(i, 0, MIB);
	wait_next();
	/* 4 MiB fit into no queue. */
	assert_in_range(now - began, 25 * US, 25 * US + 100);
}

/* A loop that was away for a while does not make up for all of it. */
TEST(next__late)
{
	int n = 0;

	start(LINK, &usual);
	heard(0, 0, 1024 * MIB);
	wait_next();
	now += 100 * US;
	while (next() == 0)
		n++;
	assert_in_range(n, 4, 5);
}

static const struct uccl_pull_cfg converge = {.quantum = 32 * KIB,
					       .idle = 64 * KIB,
					       .window = 64 * KIB + MIB,
					       .senders = 3,
					       .quiet_ns = 50 * US};

/* Which senders are told of a turn now. */
static uint64_t told(void)
{
	uint64_t who = 0;

	while (uccl_pacer_expiry(&p, now) <= now && !TAILQ_EMPTY(&p.lists[UCCL_PULL_TELL]))
		who |= 1ull << next();
	return who;
}

/* So many peers that none of them begins freely. */
static void start_many(void)
{
	start(LINK, &converge);
	told();
	for (int i = 0; i < N; i++)
		assert_false(uccl_pull_free(&u[i]));
}

/* Who wants more is let go, until three are; then all are held to their grants. PROTOCOL R65 */
TEST(converge__turns)
{
	start_many();
	/* A held one, of which nobody knows. */
	heard(0, 32 * KIB, 64 * KIB);
	assert_int_equal(told(), 0);
	assert_false(uccl_pull_free(&u[0]));
	heard(0, 32 * KIB, 10 * MIB);
	assert_int_equal(told(), 1);
	assert_true(uccl_pull_free(&u[0]));
	/* Nothing is granted to it while the link is free, and it may go on for ever. */
	for (int i = 0; i < 100; i++) {
		now += 10 * US;
		heard(0, (uint64_t)(32 + i) * KIB, 10 * MIB);
		assert_int_equal(next(), -1);
	}
	for (int i = 0; i < 100; i++) {
		now += 10 * US;
		heard(0, (uint64_t)(i + 1) * MIB, 10 * MIB);
		assert_int_equal(next(), -1);
	}
	assert_int_equal(u[0].granted, 64 * KIB);
	assert_int_equal(p.out, 0);
	/* The second comes by data alone. */
	heard(1, 64 * KIB, 0);
	assert_int_equal(told(), 0);
	heard(1, 65 * KIB, 0);
	assert_int_equal(told(), 2);
	heard(2, 0, MIB);
	assert_int_equal(told(), 3);
	for (int i = 0; i < 3; i++)
		assert_false(uccl_pull_free(&u[i]));
	/* Nothing beyond what has come, but to the one that did not begin. */
	assert_int_equal(u[0].granted, 100 * MIB);
	assert_int_equal(u[1].granted, 65 * KIB);
	assert_int_equal(u[2].granted, 64 * KIB);
	/* A fourth stays as it was; a newcomer that wants nothing more, too. */
	heard(3, 0, MIB);
	heard(4, 64 * KIB, 64 * KIB);
	assert_int_equal(told(), 0);
	assert_int_equal(u[3].turn, 0);
	assert_int_equal(u[0].turn, 4);
	/* They are paced now. */
	heard(0, 100 * MIB, 200 * MIB);
	assert_int_equal(wait_next(), 2);
	assert_int_equal(wait_next(), 3);
	assert_int_equal(wait_next(), 0);
	assert_int_equal(u[0].granted, 100 * MIB + 32 * KIB);
}

/*
 * Who sends little now and then is not busy, however much that is in all, and hears of no turn; who sends as much
 * without a pause is. PROTOCOL R65
 */
TEST(converge__pauses)
{
	start_many();
	for (uint64_t i = 1; i <= 100; i++) {
		heard(0, i * 48 * KIB, 0);
		now += converge.quiet_ns;
	}
	assert_false(u[0].is_busy);
	assert_int_equal(told(), 0);
	for (uint64_t i = 1; i <= 2; i++) {
		heard(0, (4800 + i * 48) * KIB, 0);
		now += converge.quiet_ns - 1;
	}
	assert_true(u[0].is_busy);
	assert_int_equal(told(), 1);
}

/* The speculative window of a sender that renews it needs no grant. PROTOCOL R375 */
TEST(renews__no_grants)
{
	struct uccl_pull_cfg cfg = usual;

	cfg.renews = true;
	start(LINK, &cfg);
	heard(0, 48 * KIB, 48 * KIB);
	heard(0, 200 * KIB, 48 * KIB);
	assert_int_equal(u[0].granted, 264 * KIB);
	assert_int_equal(wait_next(), -1);
	/* Who wants more is granted from there on. */
	heard(0, 200 * KIB, MIB);
	assert_int_equal(wait_next(), 0);
	assert_int_equal(u[0].granted, 264 * KIB + cfg.quantum);
	/* While it waits for what it asked for, what has come gives it nothing by itself. */
	heard(0, 280 * KIB, MIB);
	assert_int_equal(u[0].granted, 264 * KIB + cfg.quantum);
	heard(1, 40 * KIB, 41 * KIB);
	assert_int_equal(u[1].granted, 64 * KIB);
	heard(1, 41 * KIB, 41 * KIB);
	assert_int_equal(u[1].granted, 105 * KIB);
}

/* Too few are left: those that want more are let go, the others begin anew. PROTOCOL R65 */
TEST(converge__ends)
{
	uint64_t began;

	start_many();
	for (int i = 0; i < 3; i++)
		heard(i, 0, MIB);
	assert_int_equal(told(), 3);
	began = now;
	heard(1, MIB, MIB);
	heard(2, 512 * KIB, MIB);
	/* Who waits for its grants is not quiet, who has all that it wanted is. */
	for (int i = 0; i < 1000 && p.converged; i++) {
		now = uccl_max(now + 1, uccl_pacer_expiry(&p, now));
		next();
	}
	assert_in_range(now - began, converge.quiet_ns, converge.quiet_ns + US);
	assert_false(u[1].is_busy);
	assert_false(uccl_pull_free(&u[1]));
	assert_true(uccl_pull_free(&u[0]));
	assert_true(uccl_pull_free(&u[2]));
	/* A free one that has been quiet gets its first window back when others are busy. */
	heard(2, 3 * MIB, MIB);
	now += 2 * converge.quiet_ns;
	heard(0, 2 * MIB, 2 * MIB);
	told();
	assert_true(uccl_pull_free(&u[2]));
	heard(3, 0, MIB);
	told();
	assert_false(uccl_pull_free(&u[2]));
	assert_int_equal(u[2].granted, 3 * MIB + converge.idle);
	assert_true(uccl_pull_free(&u[0]) && uccl_pull_free(&u[3]));
}

/* The latest quiet ones stay free, a few; who is busy and free beside them is too few to converge. PROTOCOL R347 */
TEST(quiet__stays_free)
{
	struct uccl_pull_cfg few = converge;

	few.senders = 4;
	start(LINK, &few);
	told();
	for (int i = 0; i < 6; i++) {
		heard(i, MIB, 2 * MIB);
		now += 2 * few.quiet_ns;
		heard(i, 2 * MIB, 2 * MIB);
		now += 2 * few.quiet_ns;
		assert_int_equal(p.nbusy, 1);
		next();
		assert_int_equal(p.nbusy, 0);
		told();
		for (int k = 0; k <= i; k++)
			assert_int_equal(uccl_pull_free(&u[k]), k >= i - 1);
	}
	/* Its next burst is not told anything. */
	heard(5, 3 * MIB, 4 * MIB);
	assert_int_equal(told(), 0);
	heard(7, 0, MIB);
	assert_int_equal(told(), 1 << 7);
	heard(8, 0, MIB);
	/* Four could send freely, one of them is quiet. */
	assert_int_equal(told(), 1 << 8 | 1 << 4);
	assert_int_equal(u[4].granted, 2 * MIB + few.idle);
	heard(9, 0, MIB);
	assert_int_equal(told(), 1 << 5 | 1 << 7 | 1 << 8);
}

/* The first peers begin freely, until enough to converge are there; some may have sent by then. PROTOCOL R347 */
TEST(quiet__first_ones)
{
	struct uccl_pull_cfg few = converge;

	few.senders = 4;
	now = 1000 * US;
	uccl_pacer_init(&p, LINK);
	for (int i = 0; i < 3; i++)
		uccl_pull_init(&p, &u[i], &few, now);
	assert_int_equal(told(), 1 | 2);
	heard(1, KIB, KIB);
	uccl_pull_init(&p, &u[3], &few, now);
	assert_int_equal(told(), 1);
	assert_true(uccl_pull_free(&u[1]));
	assert_false(uccl_pull_free(&u[0]) || uccl_pull_free(&u[2]) || uccl_pull_free(&u[3]));
	/* One that ends is not free any more. */
	uccl_pull_fini(&p, &u[1]);
	assert_int_equal(p.nkept, 0);
	assert_true(TAILQ_EMPTY(&p.kept));
}

/* A sender that goes on as if it were free has not heard of it. PROTOCOL R65 */
TEST(converge__told_again)
{
	start_many();
	for (int i = 0; i < 3; i++)
		heard(i, 65 * KIB, 0);
	assert_int_equal(told(), 7);
	heard(0, 200 * KIB, 0);
	assert_int_equal(told(), 0);
	assert_int_equal(u[0].granted, 200 * KIB);
	for (int i = 0; i < 3; i++) {
		now += converge.quiet_ns / 2;
		heard(0, (uint64_t)(300 + i) * KIB, 0);
		/* Who asks has heard. */
		heard(1, (uint64_t)(300 + i) * KIB, 400 * KIB);
		heard(2, (uint64_t)(300 + i) * KIB, 400 * KIB);
		assert_int_equal(told(), i == 1);
	}
}

/* One that stays within what it may send gives no sign of either: it is told once, and not with each message. R65 */
TEST(converge__not_told_again)
{
	start_many();
	for (int i = 0; i < 3; i++)
		heard(i, 65 * KIB, 0);
	assert_int_equal(told(), 7);
	heard(0, 200 * KIB, 0);
	u[0].granted = 300 * KIB;
	for (int i = 0; i < 90; i++) {
		now += converge.quiet_ns / 2;
		heard(0, (uint64_t)(201 + i) * KIB, 0);
		heard(1, (uint64_t)(300 + i) * KIB, 500 * KIB);
		heard(2, (uint64_t)(300 + i) * KIB, 500 * KIB);
		assert_int_equal(told() & 1, 0);
	}
}

/* Who is asked for something gets its credit as if it had said so, and has heard no more than before. PROTOCOL R248 */
TEST(asked__wants_it)
{
	start(LINK, &usual);
	uccl_pacer_asked(&p, &u[3], MIB, now);
	assert_int_equal(u[3].demand, MIB);
	assert_int_equal(u[3].received, 0);
	assert_int_equal(wait_next(), 3);
	/* Asked for less later on. */
	uccl_pacer_asked(&p, &u[3], KIB, now);
	assert_int_equal(u[3].demand, MIB);
	start_many();
	uccl_pacer_asked(&p, &u[0], MIB, now);
	assert_int_equal(told(), 1);
	assert_true(uccl_pull_free(&u[0]));
}

TEST(asked__told_again)
{
	start_many();
	for (int i = 0; i < 3; i++)
		heard(i, 65 * KIB, 0);
	assert_int_equal(told(), 7);
	uccl_pacer_asked(&p, &u[0], 500 * KIB, now);
	now += converge.quiet_ns / 2;
	heard(1, 300 * KIB, 400 * KIB);
	heard(2, 300 * KIB, 400 * KIB);
	now += converge.quiet_ns / 2 + 1;
	heard(0, 300 * KIB, 0);
	assert_int_equal(told(), 1);
	/* It has said so meanwhile. */
	heard(0, 300 * KIB, 600 * KIB);
	uccl_pacer_asked(&p, &u[0], 700 * KIB, now);
	now += converge.quiet_ns + 1;
	heard(0, 301 * KIB, 600 * KIB);
	assert_int_equal(told(), 0);
}

TEST(converge__fini)
{
	start_many();
	for (int i = 0; i < 3; i++)
		heard(i, 0, MIB);
	uccl_pull_fini(&p, &u[1]);
	memset(&u[1], 0xee, sizeof(u[1]));
	assert_int_equal(told(), 1 | 4);
	uccl_pull_fini(&p, &u[0]);
	uccl_pull_fini(&p, &u[2]);
	memset(u, 0xee, 3 * sizeof(u[0]));
	assert_int_equal(wait_next(), -1);
	assert_int_equal(p.nbusy, 0);
	heard(3, 0, MIB);
	assert_int_equal(wait_next(), 3);
}

TEST(fini__others_go_on)
{
	start(LINK, &usual);
	for (int i = 0; i < 3; i++)
		heard(i, 0, 1024 * MIB);
	for (int n = 0; n < 6; n++)
		wait_next();
	uccl_pull_fini(&p, &u[1]);
	memset(&u[1], 0xee, sizeof(u[1]));
	for (int n = 0; n < 6; n++)
		assert_int_not_equal(wait_next(), 1);
	assert_int_equal(p.out, u[0].granted + u[2].granted - 2 * usual.idle);
	uccl_pull_fini(&p, &u[0]);
	uccl_pull_fini(&p, &u[2]);
	assert_int_equal(p.out, 0);
	assert_int_equal(wait_next(), -1);
}

/* A quantum takes longer on a slow link than the pacer looks ahead: its rate holds there too. */
TEST(pacer_next__slow_link)
{
	uint64_t began, ideal = 50 * 32 * KIB * 8 * 1000 / 970; /* ns at 1 Gbit/s */

	start(1000000000, &usual);
	began = now;
	for (uint64_t i = 0; i < 50; i++) {
		heard(0, i * 32 * KIB, 64 * MIB);
		assert_int_equal(wait_next(), 0);
	}
	/* And two quanta that are sent unsolicited. */
	assert_true(now - began > ideal && now - began <= ideal * 52 / 50 + 1);
}

/* Those that rank */

static uint64_t by_left(const struct uccl_sender *s)
{
	return s->left;
}

/* As NDP's receivers do it: whose turn was longest ago. */
static uint64_t by_turn(const struct uccl_sender *s)
{
	return s->turn;
}

static void start_ranked(uint64_t (*rank)(const struct uccl_sender *s), const struct uccl_pull_cfg *cfg)
{
	now = 1000 * US;
	uccl_pacer_init(&p, LINK);
	uccl_pacer_rank(&p, rank);
	for (int i = 0; i < N; i++)
		assert_int_equal(uccl_pull_init(&p, &u[i], cfg, now), 0);
}

static void end_ranked(void)
{
	for (int i = 0; i < N; i++)
		uccl_pull_fini(&p, &u[i]);
	assert_int_equal(p.ranked.n, 0);
	uccl_pacer_fini(&p);
}

/* It sends a message that ends there. */
static void sends(int i, uint64_t ends, uint64_t demand)
{
	uccl_pull_rank_message(&u[i].rank, ends);
	heard(i, u[i].received, demand);
}

/* PROTOCOL R199 */
TEST(rank__lowest_first)
{
	start_ranked(by_left, &usual);
	sends(0, 64 * MIB, 64 * MIB);
	sends(1, 512 * KIB, 512 * KIB);
	sends(2, 300 * KIB, 300 * KIB);
	/* All that the shortest lacks (8 quanta), then all of the next (14), then the long one. */
	for (int i = 0; i < 8; i++)
		assert_int_equal(wait_next(), 2);
	for (int i = 0; i < 14; i++)
		assert_int_equal(wait_next(), 1);
	assert_int_equal(wait_next(), 0);
	/* One that comes later and is shorter does not wait for it. */
	sends(3, MIB, MIB);
	assert_int_equal(wait_next(), 3);
	/* It has become the shortest by what came of it. */
	heard(0, 64 * MIB - 500 * KIB, 64 * MIB);
	assert_int_equal(wait_next(), 0);
	end_ranked();
}

/* A sender says how long its message is: what makes no sense is as good as nothing. PROTOCOL R198 */
TEST(rank__of_what_is_said)
{
	start_ranked(by_left, &usual);
	/* Of more than is wanted, and of what has come already. */
	sends(0, UINT64_MAX, 2 * MIB);
	assert_int_equal(u[0].rank.value, 2 * MIB);
	heard(0, MIB, 2 * MIB);
	sends(0, MIB, 2 * MIB);
	assert_int_equal(u[0].rank.value, MIB);
	sends(0, MIB + 5, 2 * MIB);
	assert_int_equal(u[0].rank.value, 5);
	/* Who does not say counts with all that it wants. */
	sends(0, 0, 3 * MIB);
	assert_int_equal(u[0].rank.value, 2 * MIB);
	end_ranked();
}

/* No message is too long to end: one turn in so many goes to who has waited longest. PROTOCOL R199 */
TEST(rank__the_long_one_ends)
{
	struct uccl_pull_cfg c = usual;
	uint64_t came = 0;
	int turns = 0;

	c.fair = 10;
	start_ranked(by_left, &c);
	sends(0, 64 * MIB, 64 * MIB);
	for (int i = 0; i < 400; i++) {
		int who;

		sends(1, came + 600 * KIB, came + 600 * KIB);
		who = wait_next();
		turns += who == 0;
		if (who == 1)
			came += c.quantum;
		else
			heard(0, u[0].received + c.quantum, 64 * MIB);
		heard(1, came, came + 600 * KIB);
	}
	assert_in_range(turns, 40, 42);
	end_ranked();
}

/* Only the first few have grants under way. PROTOCOL R199 */
TEST(rank__at_once)
{
	struct uccl_pull_cfg c = usual;
	bool seen[5] = {false};

	c.at_once = 2;
	/* All that one may be ahead is less than what all may. */
	c.window = c.idle + 4 * c.quantum;
	start_ranked(by_left, &c);
	for (int i = 0; i < 5; i++)
		sends(i, (uint64_t)(5 - i) * 16 * MIB, (uint64_t)(5 - i) * 16 * MIB);
	for (int i = 0; i < 4 + 4; i++)
		seen[wait_next()] = true;
	assert_true(seen[4] && seen[3] && !seen[2] && !seen[1] && !seen[0]);
	assert_int_equal(next(), -1);
	/* A shorter one that comes now is first. */
	sends(6, 90 * KIB, 90 * KIB);
	assert_int_equal(wait_next(), 6);
	/* One of the two has sent something: it goes on, and nobody else begins. */
	heard(3, u[3].granted - c.idle, u[3].demand);
	for (int i = 0; i < 4; i++)
		assert_int_equal(wait_next(), 3);
	/* Now it has been granted all that it wants, so the next one begins. */
	u[3].demand = u[3].granted;
	heard(3, u[3].received, u[3].demand);
	assert_int_equal(wait_next(), 2);
	end_ranked();
}

/* A policy that ranks by turns is fair, whatever else it is. */
TEST(rank__by_turns)
{
	start_ranked(by_turn, &usual);
	for (int i = 0; i < 4; i++)
		sends(i, (uint64_t)(i + 1) * 16 * MIB, (uint64_t)(i + 1) * 16 * MIB);
	for (int k = 0; k < 4; k++) {
		bool seen[4] = {false};

		for (int i = 0; i < 4; i++)
			seen[wait_next()] = true;
		assert_true(seen[0] && seen[1] && seen[2] && seen[3]);
	}
	end_ranked();
}

/* A host that has been up for years: the rate is the same. */
TEST(pacer_next__late_clock)
{
	uint64_t took[2];

	for (int k = 0; k < 2; k++) {
		start(LINK, &usual);
		now += k ? 4000000000000000000ull : 0;
		for (int i = 0; i < N; i++)
			uccl_pull_init(&p, &u[i], &usual, now);
		took[k] = now;
		for (uint64_t i = 0; i < 50; i++) {
			heard(0, i * 32 * KIB, 64 * MIB);
			assert_int_equal(wait_next(), 0);
		}
		took[k] = now - took[k];
	}
	assert_int_equal(took[0], took[1]);
	assert_true(took[0] > 0);
}

/* A part of the link is handed out as slowly as a slower link would be. */
TEST(pacer_link__part)
{
	uint64_t took[2], grants = 100;

	for (int k = 0; k < 2; k++) {
		start(LINK, &usual);
		if (k)
			uccl_pacer_link(&p, LINK / 8);
		took[k] = now;
		for (uint64_t i = 0; i < grants; i++) {
			heard(0, i * 32 * KIB, 64 * MIB);
			assert_int_equal(wait_next(), 0);
		}
		took[k] = now - took[k];
	}
	assert_true(took[1] >= 8 * took[0] - 8 * 10 * US && took[1] <= 8 * took[0] + 8 * 10 * US);
}

TESTS_MAIN
