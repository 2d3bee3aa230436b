/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Congestion control of lanes: a full link, one flow that is alone, and several that share what one would have. */
#include "policy/policies.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "base/rng.h"
#include "base/units.h"
#include "flow/ack/rate.h"

#define CHUNK 4096u
#define US UCCL_NS_PER_US
#define RATE 5.0	/* bytes a ns of the link */
#define DELAY (20 * US) /* there and back */
#define LIMIT (80 * US)	/* a longer queue loses what comes; from half of it on it loses some */
#define LANES 4
#define FLOWS (1 + LANES)
#define RING 65536u
#define STEP 50

struct flow {
	uint64_t cc[UCCL_CC_STATE / 8];
	struct uccl_rate rate;
	uint64_t next_ns, inflight, got, srtt_ns;
};

/* What is under way, in the order in which it comes back. */
struct packet {
	struct flow *f;
	struct uccl_rate_stamp stamp;
	uint64_t sent_ns, back_ns;
	bool lost;
};

static struct {
	const struct uccl_cc_ops *cc;
	struct flow flow[FLOWS];
	struct packet ring[RING];
	uint32_t head, tail;
	uint64_t now, busy_ns;
	struct uccl_rng rng;
} s;

/* Flows of a policy on NICs whose links carry `times` what is in the way. */
static void start(const char *cc, uint64_t times)
{
	const struct uccl_policy_cfg cfg = {
		.chunk_bytes = CHUNK,
		.window_max = 4096 * CHUNK,
		.link_bps = (uint64_t)(RATE * 8) * UCCL_NS_PER_S * times,
		.delay_ns = DELAY,
	};

	memset(&s, 0, sizeof(s));
	uccl_rng_seed(&s.rng, 1);
	s.cc = uccl_cc_find(cc);
	assert_non_null(s.cc);
	s.now = s.busy_ns = 1000 * US;
	for (int i = 0; i < FLOWS; i++)
		s.cc->init(s.flow[i].cc, &cfg, s.now);
}

/* Lanes, all but the first flow, share from now on. */
static void share(uint32_t of)
{
	for (int i = 1; i < FLOWS; i++)
		s.cc->share(s.flow[i].cc, of);
}

static void send_chunk(struct flow *f)
{
	struct packet *p = &s.ring[s.tail++ % RING];
	uint64_t queue = s.busy_ns > s.now ? s.busy_ns - s.now : 0;

	assert_true(s.tail - s.head < RING);
	*p = (struct packet){ .f = f, .sent_ns = s.now };
	p->lost = queue > LIMIT / 2 && uccl_rng_chance(&s.rng, queue > LIMIT ? 1 : 0.003);
	uccl_rate_sent(&f->rate, &p->stamp, !f->inflight, s.now);
	f->inflight += CHUNK;
	if (!p->lost)
		s.busy_ns = uccl_max(s.busy_ns, s.now) + (uint64_t)(CHUNK / RATE);
	p->back_ns = uccl_max(s.busy_ns, s.now) + DELAY;
	f->next_ns = s.cc->pace ? s.cc->pace(f->cc, CHUNK, f->srtt_ns, s.now) : s.now;
}

static void come_back(const struct packet *p)
{
	struct flow *f = p->f;
	struct uccl_ack_info info = { .bytes = CHUNK, .rtt_ns = s.now - p->sent_ns };
	struct uccl_loss_info loss = { .kind = UCCL_LOSS_PROOF, .bytes = CHUNK, .srtt_ns = f->srtt_ns };

	f->inflight -= CHUNK;
	if (p->lost) {
		loss.inflight = f->inflight;
		loss.last_rtt_ns = f->srtt_ns;
		s.cc->on_loss(f->cc, &loss, s.now);
		return;
	}
	f->got += CHUNK;
	f->srtt_ns = info.srtt_ns = info.rtt_ns;
	info.min_rtt_ns = DELAY;
	uccl_rate_acked(&f->rate, &p->stamp, p->sent_ns, CHUNK);
	info.rate = uccl_rate_sample(&f->rate, DELAY, s.now);
	info.delivered = f->rate.delivered;
	info.inflight = f->inflight;
	s.cc->on_ack(f->cc, &info, s.now);
}

/* Flows [from, end) send all that they may, for so long. */
static void run(int from, int end, uint64_t ns)
{
	uint64_t until = s.now + ns;
	unsigned int n = (unsigned int)(end - from);

	for (; s.now < until; s.now += STEP) {
		while (s.head != s.tail && s.ring[s.head % RING].back_ns <= s.now)
			come_back(&s.ring[s.head++ % RING]);
		for (unsigned int i = 0; i < n; i++) {
			struct flow *f = &s.flow[(unsigned int)from + (i + (unsigned int)(s.now / STEP)) % n];

			while (s.now >= f->next_ns &&
			       (f->inflight + CHUNK <= s.cc->window(f->cc) || !f->inflight))
				send_chunk(f);
		}
	}
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
static void share__as_one(void **state)
{
	(void)state;
	for (uint64_t times = 1; times <= 10; times += 9)
		for (const char *cc = next(NULL); cc; cc = next(cc)) {
			double alone, lanes;

			start(cc, times);
			run(0, FLOWS, 100000 * US);
			parts(&alone, &lanes, 60000 * US);
			assert_true(lanes > 0.75);
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
static void share__fills_the_link(void **state)
{
	(void)state;
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
static void share__and_back(void **state)
{
	(void)state;
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
static void share__room(void **state)
{
	(void)state;
	for (const char *cc = next(NULL); cc; cc = next(cc)) {
		start(cc, 1);
		share(16);
		run(1, 2, 30000 * US);
		assert_true(s.cc->window(s.flow[1].cc) >= 2 * CHUNK);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(share__as_one),
		cmocka_unit_test(share__fills_the_link),
		cmocka_unit_test(share__and_back),
		cmocka_unit_test(share__room),
	};

	return cmocka_run_group_tests_name("share", tests, NULL, NULL);
}
