/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* BBR over a link with a queue: one, or several that share it. */
#include "policy/policies.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/units.h"
#include "flow/ack/rate.h"

#define CHUNK 4096u
#define US UCCL_NS_PER_US
#define RATE 5.0	/* bytes a ns of the link */
#define DELAY (20 * US) /* there and back */
#define FLOWS 4
#define RING 65536u

static const struct uccl_policy_cfg cfg = {
	.chunk_bytes = CHUNK,
	.window_max = 1u << 30,
	.link_bps = 400000000000ull, /* ten times the link that is in the way */
	.delay_ns = DELAY,
};

static struct flow {
	uint64_t cc[UCCL_CC_STATE / 8];
	struct uccl_rate rate;
	uint64_t next_ns, inflight, got, srtt_ns;
} flows[FLOWS];

/* What is under way, in the order in which it comes back. */
static struct packet {
	struct flow *f;
	struct uccl_rate_stamp stamp;
	uint64_t sent_ns, back_ns;
	bool lost, marked;
} ring[RING];

static uint32_t head, tail;
static uint64_t now, busy_ns, queue_max, limit, mark_ns;
static int loss_of;	/* one of so many is lost; 0: none */
static uint64_t count, lost;

static int start(void **state)
{
	(void)state;
	head = tail = 0;
	now = busy_ns = 1000 * US;
	queue_max = count = 0;
	limit = UCCL_NEVER;
	mark_ns = UCCL_NEVER;
	loss_of = 0;
	for (int i = 0; i < FLOWS; i++) {
		flows[i] = (struct flow){ 0 };
		uccl_cc_bbr.init(flows[i].cc, &cfg, now);
	}
	return 0;
}

static void send_chunk(struct flow *f)
{
	struct packet *p = &ring[tail++ % RING];
	uint64_t queue = busy_ns > now ? busy_ns - now : 0;

	queue_max = uccl_max(queue_max, queue);
	*p = (struct packet){ .f = f, .sent_ns = now };
	uccl_rate_sent(&f->rate, &p->stamp, !f->inflight, now);
	f->inflight += CHUNK;
	p->lost = queue > limit || (loss_of && ++count % (unsigned int)loss_of == 0);
	p->marked = queue > mark_ns;
	if (!p->lost)
		busy_ns = uccl_max(busy_ns, now) + (uint64_t)(CHUNK / RATE);
	p->back_ns = uccl_max(busy_ns, now) + DELAY;
	f->next_ns = uccl_cc_bbr.pace(f->cc, CHUNK, f->srtt_ns, now);
}

static void come_back(const struct packet *p)
{
	struct flow *f = p->f;
	struct uccl_ack_info info = { .bytes = CHUNK, .rtt_ns = now - p->sent_ns, .min_rtt_ns = DELAY };
	struct uccl_loss_info loss = { .kind = UCCL_LOSS_PROOF, .bytes = CHUNK };

	f->inflight -= CHUNK;
	if (p->lost) {
		lost++;
		loss.inflight = f->inflight;
		uccl_cc_bbr.on_loss(f->cc, &loss, now);
		return;
	}
	f->got += CHUNK;
	f->srtt_ns = info.rtt_ns;
	uccl_rate_acked(&f->rate, &p->stamp, p->sent_ns, CHUNK);
	info.rate = uccl_rate_sample(&f->rate, DELAY, now);
	info.delivered = f->rate.delivered;
	info.inflight = f->inflight;
	info.marked = p->marked ? CHUNK : 0;
	uccl_cc_bbr.on_ack(f->cc, &info, now);
}

/* The first `n` flows send all that they may, for so long. */
static void run(int n, uint64_t ns)
{
	uint64_t end = now + ns;

	for (; now < end; now += 50) {
		while (head != tail && ring[head % RING].back_ns <= now)
			come_back(&ring[head++ % RING]);
		for (int i = 0; i < n; i++) {
			struct flow *f = &flows[((unsigned int)i + now / 50) % (unsigned int)n];

			while (now >= f->next_ns && f->inflight + CHUNK <= uccl_cc_bbr.window(f->cc))
				send_chunk(f);
		}
		assert_true(tail - head < RING);
	}
}

/* Share of the link that the first `n` had, from now on for so long. */
static double used(int n, uint64_t ns)
{
	uint64_t before = 0, after = 0;

	for (int i = 0; i < n; i++)
		before += flows[i].got;
	queue_max = 0;
	run(n, ns);
	for (int i = 0; i < n; i++)
		after += flows[i].got;
	return (double)(after - before) / (RATE * (double)ns);
}

/* The link is filled, and its queue is a part of a round trip. */
static void one__fills_the_link(void **state)
{
	(void)state;
	run(1, 1000 * US);
	assert_true(used(1, 10000 * US) > 0.95);
	assert_in_range(queue_max, 0, 10 * US);
}

/* What NICs and cables lose is sent again, and slows nobody down. */
static void one__loss_is_no_congestion(void **state)
{
	int small = 0;

	(void)state;
	loss_of = 100;
	run(1, 1000 * US);
	assert_true(used(1, 10000 * US) > 0.93);
	/* The window shrinks only while the least round trip is looked for. */
	for (int i = 0; i < 1000; i++) {
		run(1, 10 * US);
		small += uccl_cc_bbr.window(flows[0].cc) < (uint64_t)(2 * RATE * DELAY);
	}
	assert_in_range(small, 0, 100);
}

/* Hardly a queue: what probes lose there is little, and the link stays full. */
static void one__short_queue(void **state)
{
	(void)state;
	limit = 2 * US;
	run(1, 1000 * US);
	lost = 0;
	assert_true(used(1, 10000 * US) > 0.8);
	assert_in_range(lost, 1, 10000 * US * RATE / CHUNK / 50);
}

/* Marks do what losses do, and nothing is lost. */
static void one__marks(void **state)
{
	uint64_t free_queue;

	(void)state;
	run(1, 500 * US);
	used(1, 5000 * US);
	free_queue = queue_max;
	start(NULL);
	mark_ns = 0;
	run(1, 500 * US);
	assert_true(used(1, 5000 * US) > 0.7);
	assert_in_range(queue_max, 0, free_queue);
}

/*
 * Those that came later get their share, and the link stays full. They begin with ten times what it carries, each
 * behind the others, and see a round trip that is not there.
 */
static void several__fair(void **state)
{
	uint64_t before[FLOWS];

	(void)state;
	run(1, 2000 * US);
	run(FLOWS, 40000 * US);
	for (int i = 0; i < FLOWS; i++)
		before[i] = flows[i].got;
	assert_true(used(FLOWS, 20000 * US) > 0.95);
	for (int i = 0; i < FLOWS; i++)
		assert_true((double)(flows[i].got - before[i]) > 0.6 * RATE * 20000 * (double)US / FLOWS);
	assert_in_range(queue_max, 0, 10 * DELAY);
}

/* The others end: who is left finds the rest of the link. */
static void several__one_is_left(void **state)
{
	(void)state;
	run(FLOWS, 5000 * US);
	run(1, 3000 * US);
	assert_true(used(1, 5000 * US) > 0.9);
}

/* Little to send says nothing of the rate. */
static void one__limited(void **state)
{
	struct uccl_ack_info info = { .bytes = CHUNK, .rtt_ns = DELAY, .delivered = 1u << 30, .rate.limited = true };
	uint64_t window;

	(void)state;
	run(1, 1000 * US);
	window = uccl_cc_bbr.window(flows[0].cc);
	for (int i = 0; i < 100; i++) {
		now += DELAY;
		info.rate.prior = info.delivered;
		info.delivered += CHUNK;
		info.rate.bytes = CHUNK;
		info.rate.ns = DELAY;
		uccl_cc_bbr.on_ack(flows[0].cc, &info, now);
	}
	assert_in_range(uccl_cc_bbr.window(flows[0].cc), window / 2, window * 2);
}

/*
 * A network that lost nearly everything took the rate; packets are then so far apart that each is due to look for the
 * least round trip. That ends, too.
 */
static void one__after_bad_times(void **state)
{
	const struct uccl_loss_info loss = { .kind = UCCL_LOSS_PROOF, .bytes = 10 * CHUNK };
	struct flow *f = &flows[0];

	(void)state;
	run(1, 1000 * US);
	for (int i = 0; i < 25; i++) {
		/* Once a round trip was shorter than any other. */
		struct uccl_ack_info info = { .bytes = CHUNK, .rtt_ns = i ? DELAY : DELAY - US, .rate.bytes = CHUNK };

		now += 10000 * US;
		uccl_cc_bbr.on_loss(f->cc, &loss, now);
		info.rate.prior = f->rate.delivered;
		info.rate.ns = 10000 * US;
		f->rate.delivered += CHUNK;
		info.delivered = f->rate.delivered;
		uccl_cc_bbr.on_ack(f->cc, &info, now);
	}
	run(1, 50000 * US);
	assert_true(used(1, 10000 * US) > 0.9);
}

/* Nothing delivered yet: the link, and the delay of the fabric. */
static void init__window(void **state)
{
	(void)state;
	assert_int_equal(uccl_cc_bbr.window(flows[0].cc), 50 * DELAY);
	assert_int_equal(uccl_cc_bbr.pace(flows[0].cc, CHUNK, 0, now), now);
}

/* After a time-out the window is the smallest while it cruises, and it recovers. */
static void loss__timeout(void **state)
{
	const struct uccl_loss_info loss = { .kind = UCCL_LOSS_RTO, .bytes = CHUNK };
	uint64_t least = UCCL_NEVER;

	(void)state;
	run(1, 1000 * US);
	uccl_cc_bbr.on_loss(flows[0].cc, &loss, now);
	for (int i = 0; i < 100; i++) {
		run(1, 10 * US);
		least = uccl_min(least, uccl_cc_bbr.window(flows[0].cc));
	}
	assert_int_equal(least, 4 * CHUNK);
	assert_true(used(1, 5000 * US) > 0.9);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(init__window, start),
		cmocka_unit_test_setup(one__fills_the_link, start),
		cmocka_unit_test_setup(one__loss_is_no_congestion, start),
		cmocka_unit_test_setup(one__short_queue, start),
		cmocka_unit_test_setup(one__marks, start),
		cmocka_unit_test_setup(several__fair, start),
		cmocka_unit_test_setup(several__one_is_left, start),
		cmocka_unit_test_setup(one__limited, start),
		cmocka_unit_test_setup(one__after_bad_times, start),
		cmocka_unit_test_setup(loss__timeout, start),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
