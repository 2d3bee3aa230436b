/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Congestion control of lanes: a full link, one flow that is alone, and several that share what one would have. */
#include <stdint.h>
#include <string.h>
#include "../tests.h"

#include "link.h"

#define LIMIT (80 * US)	/* a longer queue loses what comes; from half of it on it loses some */
#define LANES (FLOWS - 1)

static struct uccl_rng rng;

static bool loses(uint64_t queue)
{
	return queue > LIMIT / 2 && uccl_rng_chance(&rng, queue > LIMIT ? 1 : 0.003);
}

/* Flows of a policy on NICs whose links carry `times` what is in the way. */
static void start(const char *cc, uint64_t times)
{
	uccl_rng_seed(&rng, 1);
	assert_non_null(uccl_cc_find(cc));
	link_start(uccl_cc_find(cc), times, loses);
}

/* Lanes, all but the first flow, share from now on. */
static void share(uint32_t of)
{
	for (int i = 1; i < FLOWS; i++)
		s.cc->share(s.flow[i].cc, of);
}

/* What the lanes got. */
static uint64_t lanes_got(void)
{
	uint64_t sum = 0;

	for (int i = 1; i < FLOWS; i++)
		sum += s.flow[i].got;
	return sum;
}

/* Parts of the link that the first flow and the lanes have while all send. */
static void parts(double *alone, double *lanes, uint64_t ns)
{
	uint64_t before[2] = {s.flow[0].got, lanes_got()};

	run(0, FLOWS, ns);
	*alone = (double)(s.flow[0].got - before[0]) / (RATE * (double)ns);
	*lanes = (double)(lanes_got() - before[1]) / (RATE * (double)ns);
}

/* The next policy that knows how to share, after this one; NULL: the first one, and none is left. */
static const char *next(const char *cc)
{
	const char *const *names = uccl_cc_names();
	int i = 0;

	while (cc && strcmp(names[i++], cc))
		;
	while (names[i] && !uccl_cc_find(names[i])->share)
		i++;
	return names[i];
}

/*
 * Four that know nothing of each other have four parts of five. Now they have what one has, or somewhat less.
 * PROTOCOL R289
 */
TEST(share__as_one)
{
	for (uint64_t times = 1; times <= 10; times += 9)
		for (const char *cc = next(NULL); cc; cc = next(cc)) {
			double alone, lanes;

			start(cc, times);
			run(0, FLOWS, 100000 * US);
			parts(&alone, &lanes, 60000 * US);
			/* Those that begin together are not quite equal where the NIC does not know the link. */
			if (lanes < 0.65)
				fail_msg("%s, of a link that is 1/%u of the NIC's: %.3f for four of five",
					 cc, (unsigned int)times, lanes);
			start(cc, times);
			share(LANES);
			run(0, FLOWS, 100000 * US);
			parts(&alone, &lanes, 60000 * US);
			if (lanes > 0.6 || lanes < 0.1 || alone + lanes < 0.95)
				fail_msg("%s, of a link that is 1/%u of the NIC's: %.3f for one, %.3f for four",
					 cc, (unsigned int)times, alone, lanes);
		}
}

/* They fill a link that they have for themselves; and one does that is left. */
TEST(share__fills_the_link)
{
	for (const char *cc = next(NULL); cc; cc = next(cc)) {
		double lanes;
		uint64_t got;

		start(cc, 1);
		share(LANES);
		run(1, FLOWS, 20000 * US);
		got = lanes_got();
		run(1, FLOWS, 20000 * US);
		lanes = (double)(lanes_got() - got);
		assert_true(lanes > 0.95 * RATE * 20000 * (double)US);
		share(1);
		run(1, 2, 10000 * US);
		got = s.flow[1].got;
		run(1, 2, 20000 * US);
		assert_true((double)(s.flow[1].got - got) > 0.95 * RATE * 20000 * (double)US);
	}
}

/* What they have in flight is divided, and as it was when they are alone again. */
TEST(share__and_back)
{
	for (const char *cc = next(NULL); cc; cc = next(cc)) {
		double was, is;

		start(cc, 1);
		was = (double)s.cc->window(s.flow[1].cc);
		for (uint32_t of = 2; of <= 4; of++) {
			share(of);
			is = (double)s.cc->window(s.flow[1].cc);
			assert_true(is > 0.99 * was / of - 2 && is < 1.01 * was / of + 4 * CHUNK);
		}
		share(1);
		is = (double)s.cc->window(s.flow[1].cc);
		assert_true(is > 0.99 * was - 8 && is < 1.01 * was + 8);
	}
}

/* However many lanes share, one may grow to two chunks. */
TEST(share__room)
{
	for (const char *cc = next(NULL); cc; cc = next(cc)) {
		start(cc, 1);
		share(16);
		run(1, 2, 30000 * US);
		assert_true(s.cc->window(s.flow[1].cc) >= 2 * CHUNK);
	}
}

TESTS_MAIN
