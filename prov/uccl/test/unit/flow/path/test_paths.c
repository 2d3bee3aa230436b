/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The paths of a flow alone: what the peer reports is made up. What a flow makes of them is in test_flow. */
#include "flow/path/paths.h"

#include "../../tests.h"

#include <stdlib.h>

#include "base/units.h"

#define N 16
#define MANY 64
#define LABELS 128
#define MS UCCL_NS_PER_MS
#define RTO (2 * MS)

static struct uccl_paths s;
static struct uccl_stats stats;
static uint32_t changes, renews, stay; /* stay: of renews */

static void changed(struct uccl_paths *p, uint16_t path, enum uccl_path_state state, uint64_t now)
{
	assert_ptr_equal(p, &s);
	assert_true(path < p->n && state <= UCCL_PATH_PROBATION && now);
	changes++;
}

static void renew(struct uccl_paths *p, uint16_t path, bool stays, uint64_t now)
{
	assert_ptr_equal(p, &s);
	assert_true(path < p->n && now);
	renews++;
	stay += stays;
}

static bool brittle, first_stays; /* of the next paths */
static uint8_t rails;
static struct uccl_tuple_budget *budget; /* likewise */

static void begin_n(uint16_t n, bool writes, bool later)
{
	static const struct uccl_paths_ops ops = {.changed = changed, .renew = renew};
	struct uccl_paths_cfg cfg = {
		.n = n,
		.labels = rails > 1 ? LABELS / rails * rails : LABELS,
		.rails = rails,
		.first_label = rails > 1 ? 0 : LABELS - 2,
		.first_stays = first_stays,
		.budget = budget,
		.writes = writes,
		.write_later = later,
		.write_brittle = brittle,
		.stats = &stats,
		.ops = &ops,
	};

	stats = (struct uccl_stats){0};
	changes = renews = stay = 0;
	assert_true(uccl_paths_init(&s, &cfg));
}

static void begin(bool writes, bool later)
{
	begin_n(N, writes, later);
}

static void end(void)
{
	assert_null(uccl_paths_check(&s));
	uccl_paths_fini(&s);
}

/* A packet leaves on this path, and is reported. */
static void answer(uint16_t path, uint64_t now)
{
	uint32_t seq = uccl_path_sent(&s.list[path], 1, 8);

	assert_true(uccl_path_acked(&s.list[path], seq));
	uccl_paths_alive(&s, path, now);
}

TEST(init__all_in_service)
{
	begin(false, false);
	assert_int_equal(s.nusable, N);
	assert_int_equal(s.at, UCCL_NEVER);
	for (uint16_t i = 0; i < N; i++) {
		assert_int_equal(s.list[i].label, (LABELS - 2 + i) % LABELS);
		assert_int_equal(s.list[i].writes.state, UCCL_WRITE_OFF);
	}
	assert_int_equal(s.next_label, N - 2);
	end();
}

/* What is taken is not freed with the rest. */
TEST(take_list__outlives_the_paths)
{
	struct uccl_path *list;
	uint16_t n = 0;

	begin(false, false);
	uccl_path_sent(&s.list[3], 1, 8);
	list = uccl_paths_take_list(&s, &n);
	assert_int_equal(n, N);
	assert_null(s.list);
	uccl_paths_fini(&s);
	assert_int_equal(list[3].counters.packets, 1);
	free(list);
}

/* Three losses in a row make a suspect, its silence a quarantine; then it is tried again. PROTOCOL R17 */
TEST(loss__to_quarantine_and_back)
{
	uint64_t now = 100 * MS;

	begin(false, false);
	for (int i = 0; i < 2; i++)
		uccl_paths_loss(&s, 3, false, RTO, now);
	assert_int_equal(s.nusable, N);
	uccl_paths_loss(&s, 3, false, RTO, now);
	assert_int_equal(s.list[3].state, UCCL_PATH_SUSPECT);
	assert_int_equal(s.nusable, N - 1);
	assert_int_equal(s.at, now + RTO);
	assert_int_equal(uccl_paths_take_probe(&s), 3);
	assert_int_equal(uccl_paths_take_probe(&s), UCCL_PATHS_MAX);
	now = s.at;
	uccl_paths_expire(&s, RTO, now);
	assert_int_equal(s.list[3].state, UCCL_PATH_QUARANTINE);
	assert_int_equal(stats.quarantined, 1);
	now = s.at;
	uccl_paths_expire(&s, RTO, now);
	assert_int_equal(s.list[3].state, UCCL_PATH_PROBATION);
	assert_int_equal(s.list[3].label, (LABELS - 2 + 3) % LABELS);
	assert_int_equal(stats.rerolled, 0);
	assert_int_equal(uccl_paths_take_probe(&s), 3);
	answer(3, now + MS);
	assert_int_equal(s.list[3].state, UCCL_PATH_ACTIVE);
	assert_int_equal(s.nusable, N);
	assert_int_equal(changes, 4);
	end();
}

/* So many paths, from this one on, are silent; the time when their quarantines end. */
static uint64_t leave(uint16_t first, uint16_t n, uint64_t now)
{
	for (uint16_t i = first; i < first + n; i++)
		uccl_paths_loss(&s, i, true, RTO, now);
	uccl_paths_expire(&s, RTO, s.at);
	for (uint16_t i = first; i < first + n; i++)
		assert_int_equal(s.list[i].state, UCCL_PATH_QUARANTINE);
	return s.at;
}

/* Where most paths work, those that fail keep their labels until one has failed for long. PROTOCOL R250 */
TEST(stay__while_most_work)
{
	begin(false, false);
	for (int i = 0; i < 8; i++) {
		uccl_paths_expire(&s, RTO, i ? s.at : leave(5, N / 4 - 1, MS));
		assert_int_equal(s.list[5].state, i % 2 ? UCCL_PATH_QUARANTINE : UCCL_PATH_PROBATION);
	}
	assert_int_equal(stats.rerolled, 0);
	while (s.list[5].strikes < 8)
		uccl_paths_expire(&s, RTO, s.at);
	assert_int_equal(stats.rerolled, 0);
	uccl_paths_expire(&s, RTO, s.at);
	assert_int_equal(s.list[5].state, UCCL_PATH_PROBATION);
	assert_int_equal(stats.rerolled, N / 4 - 1);
	end();
}

TEST(stay__not_where_many_fail)
{
	begin(false, false);
	uccl_paths_expire(&s, RTO, leave(5, N / 4, MS));
	assert_int_equal(stats.rerolled, N / 4);
	end();
}

/* It answers PROBEs with its label, and carries nothing else. PROTOCOL R102 */
TEST(stay__not_for_probes)
{
	begin(false, false);
	for (uint64_t t = 1; t < 4; t++)
		uccl_paths_long_lost(&s, 1, 4000, 2 * t * MS, RTO, (2 * t + 1) * MS);
	assert_int_equal(s.list[1].state, UCCL_PATH_QUARANTINE);
	uccl_paths_expire(&s, RTO, s.at);
	assert_int_equal(s.list[1].label, N - 2);
	assert_int_equal(s.list[1].long_losses, 2);
	end();
}

/* Silence through a whole time-out is enough. */
TEST(loss__silent)
{
	begin(false, false);
	uccl_paths_loss(&s, 0, true, RTO, MS);
	assert_int_equal(s.list[0].state, UCCL_PATH_SUSPECT);
	answer(0, 2 * MS);
	assert_int_equal(s.list[0].state, UCCL_PATH_ACTIVE);
	assert_int_equal(uccl_paths_take_probe(&s), 0);
	end();
}

/* PROTOCOL R102 */
TEST(long_lost__round_by_round)
{
	begin(false, false);
	/* All of one round trip. */
	for (int i = 0; i < 9; i++)
		uccl_paths_long_lost(&s, 1, 4000, MS, RTO, 2 * MS);
	assert_int_equal(s.list[1].state, UCCL_PATH_ACTIVE);
	uccl_paths_long_lost(&s, 1, 4000, 3 * MS, RTO, 4 * MS);
	uccl_paths_long_lost(&s, 1, 100, 5 * MS, RTO, 6 * MS); /* short */
	assert_int_equal(s.list[1].state, UCCL_PATH_ACTIVE);
	uccl_paths_long_lost(&s, 1, 4000, 5 * MS, RTO, 6 * MS);
	assert_int_equal(s.list[1].state, UCCL_PATH_QUARANTINE);
	uccl_paths_long_acked(&s, 1, 100, MS);
	assert_int_equal(s.list[1].long_losses, 3);
	uccl_paths_long_acked(&s, 1, 4000, MS);
	assert_int_equal(s.list[1].long_losses, 0);
	end();
}

/* Those that were reported last carry control packets, the others one in eight. PROTOCOL R56 */
TEST(control__reported_ones)
{
	uint32_t others = 0;

	begin(false, false);
	for (uint16_t i = 0; i < UCCL_CONTROL_PATHS + 2; i++)
		answer(i, MS);
	assert_int_equal(s.control.n, UCCL_CONTROL_PATHS);
	assert_false(s.list[0].control || s.list[1].control);
	assert_true(s.list[2].control);
	for (int i = 0; i < 800; i++)
		others += !s.list[uccl_paths_control(&s)].control;
	assert_in_range(others, 20, 100);
	uccl_paths_forget(&s);
	assert_int_equal(s.control.n, 0);
	end();
}

/* What others wait for takes no path twice as slow as the quickest; an RTT that is not known is none. PROTOCOL R210 */
TEST(quick__leaves_slow_ones)
{
	uint32_t seen = 0;

	begin(false, false);
	for (uint16_t i = 0; i < 4; i++) {
		answer(i, MS);
		s.list[i].packet_rtt_ns = i ? (i < 3 ? i : 9) * MS : 0;
	}
	for (int i = 0; i < 64; i++) {
		uint16_t path = uccl_paths_quick(&s);

		assert_int_not_equal(path, 3);
		seen |= 1u << path;
	}
	/* Those that are not much slower take turns, and what is not known is tried. */
	assert_int_equal(seen & 7, 7);
	s.list[1].packet_rtt_ns = MS / 4;
	for (int i = 0; i < 64; i++)
		assert_int_not_equal(uccl_paths_quick(&s), 2);
	uccl_paths_forget(&s);
	assert_true(uccl_paths_quick(&s) < N);
	end();
}

/* A control packet that left long before what is reported now counts as lost. PROTOCOL R56 */
TEST(overdue__unreported)
{
	begin(false, false);
	answer(2, MS);
	uccl_path_sent(&s.list[2], 1, 0);
	uccl_path_asked(&s.list[2], 10 * MS);
	uccl_paths_overdue(&s, 10 * MS + RTO - 1, RTO, 20 * MS);
	assert_true(s.list[2].control);
	assert_int_equal(s.list[2].losses, 0);
	/* Not looked at again so soon. */
	assert_false(uccl_paths_look(&s, 10 * MS + RTO));
	assert_true(uccl_paths_look(&s, 11 * MS + RTO - 1));
	uccl_paths_overdue(&s, 11 * MS + RTO, RTO, 20 * MS);
	assert_false(s.list[2].control);
	assert_int_equal(s.list[2].losses, 1);
	end();
}

/* The PROBEs that a question makes are on these two paths, no others. */
static void asked(uint16_t path, uint32_t unanswered, uint16_t one, uint16_t other)
{
	uccl_paths_ask(&s, path, unanswered, MS);
	assert_int_equal(s.probes_due, 1 + (one != other));
	assert_true(s.list[one].probe_due && s.list[other].probe_due);
	while (uccl_paths_take_probe(&s) != UCCL_PATHS_MAX)
		;
}

/* First on the path in question, and where the last answer came from if that is another one in service. R54 */
TEST(ask__its_path_and_another)
{
	begin(false, false);
	answer(5, MS);
	asked(3, 0, 3, 5);
	assert_int_equal(s.control.n, 1);
	/* It is the path in question, or out of service: then the next one. */
	asked(5, 0, 5, 1);
	uccl_paths_loss(&s, 5, true, RTO, 2 * MS);
	assert_int_equal(uccl_paths_take_probe(&s), 5);
	asked(3, 0, 3, 2);
	assert_int_equal(stats.rerolled, 0);
	end();
}

/* A path that has a 5-tuple already goes before one that has none. PROTOCOL R372 */
TEST(ask__known_ones_first)
{
	begin(false, false);
	answer(4, MS);
	answer(5, MS);
	asked(5, 0, 5, 4);
	asked(5, 0, 5, 4);
	asked(5, 1, 5, 4);
	/* Nothing is known to work any more. */
	assert_int_equal(s.control.n, 0);
	asked(5, 2, 7, (7 + N / 2) % N);
	end();
}

/* A keepalive stays on its path as long as the peer reports it, and else goes on to the next. PROTOCOL R372 */
TEST(keepalive__stays_while_reported)
{
	begin(false, false);
	for (uint16_t i = 0; i < 3; i++) {
		uccl_paths_keepalive(&s, MS);
		assert_int_equal(uccl_paths_take_probe(&s), 0);
		answer(0, i * MS);
	}
	for (uint16_t i = 0; i < 4; i++) {
		uccl_paths_keepalive(&s, MS);
		assert_int_equal(uccl_paths_take_probe(&s), i);
	}
	answer(3, 9 * MS);
	uccl_paths_keepalive(&s, MS);
	assert_int_equal(uccl_paths_take_probe(&s), 3);
	end();
}

/* The first ones that work are in use, as many as the budget allows; with none left all that work. PROTOCOL R374 */
TEST(spread__first_ones)
{
	struct uccl_tuple_budget b = {.tuples_max = 24};

	budget = &b;
	begin(false, false);
	assert_int_equal(s.nusable, 8);
	b.flows = 4;
	uccl_paths_spread(&s, MS);
	assert_int_equal(s.nusable, 2);
	uccl_paths_loss(&s, 0, true, RTO, 2 * MS);
	assert_int_equal(s.nusable, 2);
	assert_int_equal(s.usable[0], 1);
	assert_int_equal(s.usable[1], 2);
	uccl_paths_scan(&s, 3 * MS);
	assert_int_equal(s.nusable, 4);
	b.flows = 1;
	end();
	budget = NULL;
}

/* The first path keeps its label, the only one that some firewalls admit, unless it is the only path. PROTOCOL R370 */
/* Another label of the same rail, if each rail has a path. PROTOCOL R385 */
TEST(reroll__stays_on_its_rail)
{
	for (uint8_t n = 1; n <= 4; n++) {
		rails = n;
		begin_n(N, false, false);
		for (int round = 0; round < 3 * N; round++)
			for (uint16_t i = 0; i < N; i++) {
				uint16_t label = s.list[i].label;

				uccl_paths_reroll(&s, i);
				assert_int_not_equal(s.list[i].label, label);
				assert_int_equal(s.list[i].label % n, label % n);
			}
		end();
		begin_n(1, false, false);
		uccl_paths_reroll(&s, 0);
		assert_int_equal(s.list[0].label, n > 1 ? 1 : LABELS - 1);
		end();
	}
	rails = 0;
}

/* PROTOCOL R387 R388 */
TEST(rails__return)
{
	uint16_t list[UCCL_PATHS_MAX];

	rails = 2;
	begin_n(N, false, false);
	assert_int_equal(s.rails.usable, 3);
	assert_int_equal(uccl_paths_of_rail(&s, 1, list), N / 2);
	assert_int_equal(list[0], 1);
	for (uint16_t i = 1; i < N; i += 2)
		uccl_paths_loss(&s, i, true, RTO, 1);
	assert_int_equal(s.rails.usable, 1);
	assert_int_equal(uccl_paths_of_rail(&s, 1, list), 0);
	/* Nothing answers: all are in quarantine, and another one is, of the other rail. */
	uccl_paths_loss(&s, 0, true, RTO, 1);
	uccl_paths_expire(&s, RTO, 8 * RTO);
	for (uint16_t i = 1; i < N; i += 2)
		assert_int_equal(s.list[i].state, UCCL_PATH_QUARANTINE);
	/* One answers: the others of its rail are tried at once. */
	s.list[1].acked_seq = s.list[1].next_seq;
	uccl_paths_alive(&s, 1, 8 * RTO + 1);
	assert_int_equal(s.rails.usable, 3);
	assert_int_equal(s.at, 8 * RTO + 1);
	uccl_paths_expire(&s, RTO, 8 * RTO + 1);
	for (uint16_t i = 3; i < N; i += 2)
		assert_int_equal(s.list[i].state, UCCL_PATH_PROBATION);
	assert_int_equal(s.list[0].state, UCCL_PATH_QUARANTINE);
	/* With one path in service nothing is hastened. */
	uccl_paths_expire(&s, RTO, 11 * RTO);
	assert_int_equal(s.list[5].state, UCCL_PATH_QUARANTINE);
	s.list[3].acked_seq = s.list[3].next_seq;
	uccl_paths_alive(&s, 3, 11 * RTO);
	assert_true(s.at > 11 * RTO);
	end();
	rails = 0;
}

/* A rail without a path in service is tried soon, one path after the other, and for ever seldom. PROTOCOL R377 */
TEST(rails__trial)
{
	uint64_t began, tries = 0, probed = 0, gap = 0;

	rails = 2;
	begin_n(N, false, false);
	for (uint16_t i = 1; i < N; i += 2)
		uccl_paths_loss(&s, i, true, RTO, 1);
	while (uccl_paths_take_probe(&s) != UCCL_PATHS_MAX)
		;
	began = s.at;
	for (uint64_t now = began; now < began + 600 * UCCL_NS_PER_S;
	     now = uccl_max(now, s.at)) {
		uint16_t path;

		uccl_paths_expire(&s, RTO, now);
		path = uccl_paths_take_probe(&s);
		if (path == UCCL_PATHS_MAX)
			continue;
		/* One at a time, and not later than a part of the time that it was away. */
		assert_int_equal(uccl_paths_take_probe(&s), UCCL_PATHS_MAX);
		assert_int_equal(s.list[path].rail, 1);
		if (tries++) {
			gap = now - probed;
			assert_true(gap <= 4 * RTO + (now - began) / 16);
		}
		probed = now;
		if (tries == 8)
			assert_true(now < began + 8 * RTO);
	}
	assert_true(gap <= 250 * MS);
	assert_in_range(tries, 2400, 2600);
	/* It answers: all others are tried at once, and then there is nothing to try. */
	answer(3, s.at);
	assert_int_equal(s.rails.usable, 3);
	uccl_paths_expire(&s, RTO, s.at);
	for (uint16_t i = 1; i < N; i += 2)
		answer(i, s.at);
	assert_int_equal(s.at, UCCL_NEVER);
	end();
	rails = 0;
}

/* With one path for each rail, it is tried as often as it may be. */
/* The budget of 5-tuples admits four paths. What lies beyond it serves no rail. PROTOCOL R377 R388 */
TEST(rails__trial_within_budget)
{
	struct uccl_tuple_budget b = {.tuples_max = 8};

	rails = 2;
	budget = &b;
	begin_n(N, false, false);
	s.tuples.width = 4;
	uccl_paths_refresh(&s);
	for (uint16_t i = 1; i < N / 2; i += 2)
		uccl_paths_loss(&s, i, true, RTO, 1);
	assert_int_equal(s.rails.usable, 1);
	for (int i = 0; i < 64; i++)
		uccl_paths_expire(&s, RTO, s.at);
	assert_true(s.at < 256 * RTO);
	/* One answers: all that were left are tried at once. */
	answer(1, s.at);
	assert_int_equal(s.rails.usable, 3);
	uccl_paths_expire(&s, RTO, s.at);
	for (uint16_t i = 3; i < N / 2; i += 2)
		assert_int_not_equal(s.list[i].state, UCCL_PATH_QUARANTINE);
	end();
	rails = 0;
	budget = NULL;
}

TEST(rails__trial_of_one)
{
	rails = 2;
	begin_n(2, false, false);
	uccl_paths_loss(&s, 1, true, RTO, 1);
	for (int i = 0; i < 64; i++)
		uccl_paths_expire(&s, RTO, s.at);
	assert_true(s.at < 256 * RTO);
	assert_int_equal(s.rails.usable, 1);
	answer(1, s.at);
	assert_int_equal(s.at, UCCL_NEVER);
	end();
	rails = 0;
}

/* Loses a chunk of each of these round trips on path 3, the last of rail 1 in service. */
static void rail_loses(uint64_t now, int rounds)
{
	for (int i = 0; i < rounds; i++)
		uccl_paths_long_lost(&s, 3, 4000, now + (uint64_t)i * MS, RTO, now + (uint64_t)(i + 1) * MS);
}

/*
 * A rail answers and loses long chunks: it was not back. So its outage goes on, and answers bring path after path,
 * until a long chunk comes through. PROTOCOL R401
 */
TEST(rails__doubted)
{
	uint64_t now;

	rails = 2;
	begin_n(4, false, false);
	for (uint16_t i = 1; i < 4; i += 2)
		uccl_paths_loss(&s, i, true, RTO, 1);
	uccl_paths_expire(&s, RTO, s.at);
	/* Away for 100 s. It is believed the first time. */
	now = 100 * UCCL_NS_PER_S;
	uccl_paths_expire(&s, RTO, now);
	answer(3, now);
	assert_false(uccl_paths_rail_doubted(&s, 1));
	uccl_paths_loss(&s, 1, true, RTO, now);
	rail_loses(now, 3);
	assert_int_equal(s.list[3].state, UCCL_PATH_QUARANTINE);
	assert_true(uccl_paths_rail_doubted(&s, 1));
	/* Tries are as seldom as before. */
	now += 2 * RTO;
	uccl_paths_expire(&s, RTO, now);
	assert_int_equal(s.list[1].state, UCCL_PATH_QUARANTINE);
	assert_in_range(s.at, now + 200 * MS, now + 300 * MS);
	now = s.at;
	uccl_paths_expire(&s, RTO, now);
	answer(3, now);
	assert_int_equal(s.rails.usable, 3);
	assert_true(uccl_paths_rail_doubted(&s, 1));
	assert_int_not_equal(s.list[1].state, UCCL_PATH_ACTIVE);
	assert_true(s.at > now + RTO / 4);
	/* Short chunks prove nothing. */
	uccl_paths_long_acked(&s, 3, 100, now);
	assert_true(uccl_paths_rail_doubted(&s, 1));
	uccl_paths_long_acked(&s, 3, 4000, now);
	assert_false(uccl_paths_rail_doubted(&s, 1));
	/* So its others are tried at once; and an outage after that is a new one. */
	assert_true(s.at <= now);
	uccl_paths_loss(&s, 1, true, RTO, now);
	rail_loses(now, 3);
	assert_false(uccl_paths_rail_doubted(&s, 1));
	end();
	rails = 0;
}

/* A rail that was only suspected was never away, so what it loses then casts no doubt on it. PROTOCOL R401 */
TEST(rails__suspected_only)
{
	rails = 2;
	begin_n(2, false, false);
	uccl_paths_loss(&s, 1, true, RTO, 50 * RTO);
	assert_int_equal(s.list[1].state, UCCL_PATH_SUSPECT);
	answer(1, 51 * RTO);
	for (int i = 0; i < 3; i++)
		uccl_paths_long_lost(&s, 1, 4000, 100 * RTO + i, RTO, 100 * RTO + i);
	assert_int_equal(s.list[1].state, UCCL_PATH_QUARANTINE);
	assert_false(uccl_paths_rail_doubted(&s, 1));
	end();
	rails = 0;
}

/* The answer came before the rail was left, and is looked at after that. PROTOCOL R401 */
TEST(rails__answer_waited)
{
	rails = 2;
	begin_n(2, false, false);
	uccl_paths_loss(&s, 1, true, RTO, 50 * RTO);
	while (s.list[1].state != UCCL_PATH_QUARANTINE)
		uccl_paths_expire(&s, RTO, s.at);
	answer(1, 50 * RTO);
	assert_int_equal(s.rails.trial[1].away_ns, 0);
	end();
	rails = 0;
}

/* All paths of a rail in doubt answer: there is nothing to try, and one long chunk proves it. PROTOCOL R401 */
TEST(rails__doubted_all_answer)
{
	rails = 2;
	begin_n(2, false, false);
	uccl_paths_loss(&s, 1, true, RTO, 1);
	while (s.list[1].state != UCCL_PATH_PROBATION)
		uccl_paths_expire(&s, RTO, s.at);
	answer(1, s.at);
	for (int i = 0; i < 3; i++)
		uccl_paths_long_lost(&s, 1, 4000, 100 * RTO + i, RTO, 100 * RTO + i);
	assert_true(uccl_paths_rail_doubted(&s, 1));
	while (s.list[1].state != UCCL_PATH_PROBATION)
		uccl_paths_expire(&s, RTO, s.at);
	answer(1, s.at);
	assert_int_equal(s.at, UCCL_NEVER);
	assert_true(uccl_paths_rail_doubted(&s, 1));
	uccl_paths_long_acked(&s, 1, 4000, 200 * RTO);
	assert_false(uccl_paths_rail_doubted(&s, 1));
	assert_int_equal(s.at, UCCL_NEVER);
	end();
	rails = 0;
}

TEST(reroll__first_stays)
{
	first_stays = true;
	for (uint16_t n = 1; n <= N; n += N - 1) {
		begin_n(n, false, false);
		for (uint16_t i = 0; i < n; i++) {
			uint16_t label = s.list[i].label;

			uccl_paths_reroll(&s, i);
			assert_int_equal(s.list[i].label != label, i || n == 1);
		}
		assert_int_equal(stats.rerolled, n - (n > 1));
		end();
	}
	first_stays = false;
}

/* Then path after path, with their opposites; no path is known to work any more, and no label at last. R55 */
TEST(ask__path_after_path)
{
	begin(false, false);
	answer(5, MS);
	asked(3, 1, 5, 5 + N / 2);
	assert_int_equal(s.control.n, 0);
	asked(5, 1, 6, 6 + N / 2);
	for (uint32_t i = 2; i < N / 2 + 2; i++)
		asked(3, i, (uint16_t)((3 + i) % N), (uint16_t)((3 + i + N / 2) % N));
	assert_int_equal(stats.rerolled, 0);
	asked(3, N / 2 + 2, (3 + N / 2 + 2) % N, 5);
	assert_int_equal(stats.rerolled, 2);
	assert_int_equal(s.list[5].counters.rerolls, 1);
	end();
}

/* Of many paths not all are asked before labels are drawn: time-outs back off by then. R55 */
TEST(ask__many)
{
	begin_n(MANY, false, false);
	for (uint32_t i = 1; i < N / 2 + 2; i++) {
		uccl_paths_ask(&s, 3, i, MS);
		assert_int_equal(stats.rerolled, 0);
	}
	uccl_paths_ask(&s, 3, N / 2 + 2, MS);
	assert_int_equal(stats.rerolled, 2);
	for (int i = 0; i <= N / 2 + 2; i++)
		uccl_paths_unheard(&s, MS);
	uccl_paths_control(&s);
	assert_int_equal(stats.rerolled, 3);
	end();
}

/* There is one path only. */
TEST(ask__alone)
{
	begin_n(1, false, false);
	asked(0, 0, 0, 0);
	for (uint32_t i = 1; i < 4; i++) {
		asked(0, i, 0, 0);
		assert_int_equal(stats.rerolled, i == 3);
	}
	end();
}

/* Nobody hears us: any path, then any label. PROTOCOL R57 */
TEST(unheard__any_path)
{
	uint64_t met = 0;

	begin(false, false);
	answer(5, MS);
	uccl_paths_unheard(&s, MS);
	assert_int_equal(s.control.n, 1);
	uccl_paths_unheard(&s, MS);
	assert_int_equal(s.control.n, 0);
	for (int i = 0; i < N; i++)
		met |= 1ull << uccl_paths_control(&s);
	assert_int_equal(met, (1ull << N) - 1);
	assert_int_equal(stats.rerolled, 0);
	for (int i = 0; i < N; i++)
		uccl_paths_unheard(&s, MS);
	uccl_paths_control(&s);
	assert_int_equal(stats.rerolled, 1);
	answer(5, 2 * MS);
	assert_int_equal(s.unheard, 0);
	end();
}

/* A peer that has no time to answer, however often it is asked, costs no 5-tuples before the silence is long. R374 */
TEST(ask__within_budget)
{
	struct uccl_tuple_budget b = {.tuples_max = 256, .flows = 63};
	uint64_t met = 0;

	budget = &b;
	begin_n(MANY, false, false);
	assert_int_equal(s.nusable, 2);
	for (uint32_t i = 0; i < 100; i++) {
		uccl_paths_ask(&s, 1, i, MS);
		uccl_paths_unheard(&s, MS + 100 * MS);
		met |= 1ull << uccl_paths_control(&s);
		for (uint16_t path; (path = uccl_paths_take_probe(&s)) != UCCL_PATHS_MAX;)
			met |= 1ull << path;
	}
	assert_int_equal(met, 3);
	assert_int_equal(stats.rerolled, 0);
	/* One and a half seconds: everything is tried. */
	for (uint32_t i = 100; i < 300; i++) {
		uccl_paths_ask(&s, 1, i, MS + 1500 * MS);
		for (uint16_t path; (path = uccl_paths_take_probe(&s)) != UCCL_PATHS_MAX;)
			met |= 1ull << path;
	}
	assert_true(met == UINT64_MAX);
	assert_true(stats.rerolled > 0);
	/* The next silence begins anew. */
	answer(1, 1600 * MS);
	uccl_paths_ask(&s, 1, 0, 1600 * MS);
	assert_int_equal(s.tuples.reach, 2);
	end();
	budget = NULL;
}

/* Keepalives to a peer that has no time to answer stay on the paths in use at first, too. PROTOCOL R374 */
TEST(keepalive__within_budget)
{
	struct uccl_tuple_budget b = {.tuples_max = 256, .flows = 63};
	uint64_t met = 0;

	budget = &b;
	begin_n(MANY, false, false);
	for (uint32_t i = 0; i < 200; i++) {
		uccl_paths_keepalive(&s, MS);
		met |= 1ull << uccl_paths_take_probe(&s);
	}
	assert_int_equal(met, 3);
	for (uint32_t i = 0; i < 200; i++) {
		uccl_paths_keepalive(&s, MS + 1500 * MS);
		met |= 1ull << uccl_paths_take_probe(&s);
	}
	assert_true(met == UINT64_MAX);
	end();
	budget = NULL;
}

/* A path that swallows writes is made anew, then tried with one. PROTOCOL R84 */
TEST(writes__trial)
{
	struct uccl_path *p;

	begin(true, true);
	p = &s.list[4];
	assert_int_equal(uccl_paths_writes_allowed(&s, 32, MS), 0);
	assert_int_equal(uccl_paths_for_write(&s, 4, MS), UCCL_PATHS_MAX);
	uccl_paths_set_writable(&s, 4, true, RTO, MS);
	assert_int_equal(uccl_paths_writes_allowed(&s, 32, MS), 1);
	assert_int_equal(uccl_paths_for_write(&s, 0, MS), 4);
	uccl_path_wrote(p, 4096, 70);
	assert_int_equal(p->writes.state, UCCL_WRITE_TRYING);
	assert_int_equal(uccl_paths_writes_allowed(&s, 32, MS), 0);
	uccl_paths_write_lost(&s, 4, 70, 2 * MS);
	assert_int_equal(renews, 1);
	assert_int_equal(p->writes.state, UCCL_WRITE_OFF);
	/* It failed once: the next trial waits. */
	uccl_paths_set_writable(&s, 4, true, RTO, 3 * MS);
	assert_int_equal(p->writes.trial_at, 3 * MS + 2 * RTO);
	assert_int_equal(uccl_paths_writes_allowed(&s, 32, 3 * MS), 0);
	uccl_path_wrote(p, 4096, 80);
	uccl_paths_write_seen(&s, 4, 79);
	assert_int_equal(p->writes.state, UCCL_WRITE_TRYING);
	uccl_paths_write_seen(&s, 4, 80);
	assert_int_equal(p->writes.state, UCCL_WRITE_ON);
	assert_int_equal(uccl_paths_writes_allowed(&s, 32, 3 * MS), 32);
	/* Three in a row. */
	for (uint64_t csn = 81; csn < 84; csn++) {
		assert_int_equal(renews, 1);
		uccl_paths_write_lost(&s, 4, csn, 4 * MS);
	}
	assert_int_equal(renews, 2);
	end();
}

static void all_write(void)
{
	begin(true, true);
	for (uint16_t i = 0; i < N; i++) {
		uccl_paths_set_writable(&s, i, true, RTO, MS);
		uccl_path_wrote(&s.list[i], 4096, 10u + i);
		uccl_paths_write_seen(&s, i, 10u + i);
		assert_int_equal(s.list[i].writes.state, UCCL_WRITE_ON);
	}
}

/* Three writes of it, from this one on, are lost. */
static void write_fails(uint16_t path, uint64_t csn, uint64_t now)
{
	for (uint64_t i = 0; i < 3; i++)
		uccl_paths_write_lost(&s, path, csn + i, now);
	assert_int_equal(s.list[path].writes.state, UCCL_WRITE_OFF);
}

/* Where most paths carry writes, those that swallow some are tried again by the same way. PROTOCOL R250 */
static void writes_stay(uint32_t tries)
{
	all_write();
	for (uint16_t i = 0; i < N / 4 - 1; i++)
		write_fails(i, 100, 2 * MS);
	assert_int_equal(renews, N / 4 - 1);
	assert_int_equal(stay, renews);
	/* Another one is too many: more than the link of a few has failed. */
	write_fails(9, 100, 2 * MS);
	assert_int_equal(renews, N / 4);
	assert_int_equal(stay, renews - 1);
	uccl_paths_set_writable(&s, 9, true, RTO, 3 * MS);
	uccl_path_wrote(&s.list[9], 4096, 200);
	uccl_paths_write_seen(&s, 9, 200);
	/* And one that fails for long may have another way. */
	for (uint64_t i = 0; i <= tries; i++) {
		uccl_paths_set_writable(&s, 0, true, RTO, 4 * MS);
		assert_int_equal(s.list[0].writes.strikes, i);
		uccl_path_wrote(&s.list[0], 4096, 300 + i);
		assert_int_equal(stay, N / 4 - 1 + i);
		uccl_paths_write_lost(&s, 0, 300 + i, 4 * MS);
	}
	assert_int_equal(stay, N / 4 - 1 + tries);
	end();
}

/* Sooner where the path may be broken, and who could tell does not know. */
TEST(writes__stay_while_most_work)
{
	writes_stay(8);
	brittle = true;
	writes_stay(4);
	brittle = false;
}

/* The loss of what was written before says nothing of a trial, nor of a path that waits for one. */
TEST(writes__lost_before_the_trial)
{
	all_write();
	write_fails(2, 100, 2 * MS);
	uccl_paths_set_writable(&s, 2, true, RTO, 3 * MS);
	for (uint64_t csn = 103; csn < 110; csn++)
		uccl_paths_write_lost(&s, 2, csn, 3 * MS);
	assert_int_equal(s.list[2].writes.state, UCCL_WRITE_TRIAL);
	uccl_path_wrote(&s.list[2], 4096, 120);
	uccl_paths_write_lost(&s, 2, 119, 3 * MS);
	assert_int_equal(s.list[2].writes.state, UCCL_WRITE_TRYING);
	uccl_paths_write_lost(&s, 2, 120, 3 * MS);
	assert_int_equal(s.list[2].writes.state, UCCL_WRITE_OFF);
	assert_int_equal(s.list[2].writes.strikes, 1);
	end();
}

/* When one comes back the others do not wait: they may have been on the same link. PROTOCOL R250 */
TEST(writes__back_together)
{
	all_write();
	for (uint16_t i = 0; i < 3; i++) {
		write_fails(i, 100, 2 * MS);
		uccl_paths_set_writable(&s, i, true, RTO, 2 * MS);
		uccl_path_wrote(&s.list[i], 4096, 200);
		uccl_paths_write_lost(&s, i, 200, 3 * MS);
		uccl_paths_set_writable(&s, i, true, RTO, 3 * MS);
		assert_int_equal(s.list[i].writes.trial_at, 3 * MS + 2 * RTO);
	}
	assert_int_equal(uccl_paths_for_write(&s, 1, 4 * MS), 3);
	uccl_path_wrote(&s.list[0], 4096, 300);
	uccl_paths_write_seen(&s, 0, 300);
	for (uint16_t i = 0; i < 3; i++)
		assert_int_equal(uccl_paths_for_write(&s, i, 4 * MS), i);
	end();
}

TEST(burst__one_choice_for_many)
{
	struct uccl_burst b = {0};

	assert_true(uccl_burst_over(&b, 1));
	assert_int_equal(uccl_burst_size(&b, 8192), 8192);
	uccl_burst_begin(&b, 7, 8192, true);
	assert_true(uccl_burst_take_fresh(&b));
	assert_false(uccl_burst_take_fresh(&b));
	/* Short ones count as a kilobyte. */
	for (int i = 0; i < 8; i++) {
		assert_false(uccl_burst_over(&b, 8));
		assert_int_equal(uccl_burst_take(&b, 8), 7);
	}
	assert_true(uccl_burst_over(&b, 8));
	uccl_burst_align(&b, 3000, 0);
	assert_int_equal(uccl_burst_size(&b, 8192), 3000);
	uccl_burst_begin(&b, 1, 3000, false);
	uccl_burst_align(&b, 2000, 2500);
	assert_int_equal(b.left, 2000);
	uccl_burst_align(&b, 4000, 2001);
	assert_int_equal(b.left, 0);
	uccl_burst_begin(&b, 1, 4000, false);
	uccl_burst_end(&b);
	assert_true(uccl_burst_over(&b, 1));
}

TESTS_MAIN
