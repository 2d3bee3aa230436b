/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Credit and the demand for it. */
#include "../sender.h"
#include "../../tests.h"
#include "policy/policies.h"

TEST_IN(tx_credit__demand, NULL, end)
{
	struct pair_cfg c = pair_packets();
	int i;

	c.credit = &credit_set;
	credit_limit = 4096;
	start(c);
	pair_bulk(&p, 0, 20 * KIB);
	assert_int_equal(pair_pump_one(&p, 0), 5);
	i = pair_find(&p, 1, UCCL_PKT_DEMAND);
	assert_true(i == 4);
	assert_int_equal(uccl_get64(p.wire[i]->h.rec), 20 * KIB);
	/* Not again at once. */
	assert_int_equal(pair_pump_one(&p, 0), 0);
}

/* With a pacer the demand leaves before the credit is used up, as the answer takes a round trip. PROTOCOL R60 */
TEST_IN(tx_credit__asks_ahead, NULL, end)
{
	struct pair_cfg c = pair_packets();
	int i;

	c.credit = &credit_pull;
	c.slots = 8;
	credit_limit = 12 * KIB;
	start(c);
	pair_bulk(&p, 0, 20 * KIB);
	/* It cannot send all of its credit yet, but what waits is more than that. */
	assert_int_equal(pair_pump_one(&p, 0), 9);
	i = pair_find(&p, 1, UCCL_PKT_DEMAND);
	/* Before all else: it would wait behind what it can send. PROTOCOL R249 */
	assert_true(i == 0);
	assert_int_equal(uccl_get64(p.wire[i]->h.rec), 20 * KIB);
	assert_int_equal(uccl_get64(p.wire[i]->h.rec + 8), 0);
	assert_int_equal(pair_pump_one(&p, 0), 0);
	pair_fini(&p);
	/* Nothing is asked for while credit is there for all that waits. */
	credit_limit = 20 * KIB;
	start(c);
	pair_bulk(&p, 0, 20 * KIB);
	pair_pump_one(&p, 0);
	assert_int_equal(pair_find(&p, 1, UCCL_PKT_DEMAND), -1);
}

static uint64_t whole_4k(const void *cs)
{
	return 4 * KIB;
}

/* Packets that leave of so many bytes, with credit for 4 KiB, and 4 more for what then ends; was credit asked for? */
static int whole_sent(size_t bytes, bool *asked)
{
	struct uccl_credit_ops whole = credit_pull;
	struct pair_cfg c = pair_packets();
	int n;

	whole.whole = whole_4k;
	c.credit = &whole;
	c.slots = 100;
	credit_limit = 4 * KIB;
	start(c);
	pair_bulk(&p, 0, bytes);
	n = pair_pump_one(&p, 0);
	*asked = pair_find(&p, 1, UCCL_PKT_DEMAND) >= 0;
	pair_fini(&p);
	return n - *asked;
}

/* What fits goes whole, and nobody is asked; of what does not only what there is credit for. PROTOCOL R290 */
TEST_IN(tx_credit__what_fits_goes_whole, NULL, end)
{
	bool asked;

	assert_int_equal(whole_sent(8 * KIB, &asked), 8);
	assert_false(asked);
	assert_int_equal(whole_sent(8 * KIB + 1, &asked), 4);
	assert_true(asked);
}

/* Who has asked for more waits for it to the end, though that would fit. PROTOCOL R290 */
TEST_IN(tx_credit__what_was_asked_for_waits, NULL, end)
{
	struct uccl_credit_ops whole = credit_pull;
	struct pair_cfg c = pair_packets();

	whole.whole = whole_4k;
	c.credit = &whole;
	c.slots = 100;
	credit_limit = 4 * KIB;
	start(c);
	pair_bulk(&p, 0, 20 * KIB);
	assert_int_equal(pair_pump_one(&p, 0), 1 + 4);
	credit_limit = 18 * KIB;
	assert_int_equal(pair_pump_one(&p, 0), 14);
}

static uint64_t rank_any(const struct uccl_sender *s)
{
	return s->left;
}

/* A DEMAND tells where the message ends that leaves next. PROTOCOL R198 */
TEST_IN(tx_credit__tells_the_message, NULL, end)
{
	struct uccl_credit_ops ranks = credit_pull;
	struct uccl_flow *f = &p.side[0].f;
	struct pair_cfg c = pair_packets();
	struct pair_obj *o;

	c.credit = &credit_pull;
	credit_limit = 4 * KIB;
	for (int k = 0; k < 2; k++) {
		int i;

		ranks.rank = k ? rank_any : NULL;
		c.credit = &ranks;
		credit_limit = 4 * KIB;
		start(c);
		o = pair_make(&p, 0, 2048 * KIB, true, 1);
		o->item.more = 100 * KIB;
		uccl_flow_submit(f, &o->item);
		pair_pump_one(&p, 0);
		i = pair_find(&p, 1, UCCL_PKT_DEMAND);
		assert_true(i >= 0);
		assert_int_equal(uccl_get64(p.wire[i]->h.rec), 2048 * KIB);
		assert_int_equal(uccl_get64(p.wire[i]->h.rec + 16), 2148 * KIB);
		pair_lose(&p, (uint32_t)i);
		/* Another leaves first, and is much shorter: that is told at once, to a receiver that ranks. */
		pair_record(&p, 0, 1000);
		pair_pump_one(&p, 0);
		i = pair_find(&p, 1, UCCL_PKT_DEMAND);
		assert_int_equal(i >= 0, k);
		if (k)
			assert_int_equal(uccl_get64(p.wire[i]->h.rec + 16), 4 * KIB + 1000);
		assert_int_equal(pair_pump_one(&p, 0), 0);
		pair_fini(&p);
	}
}

/* What was lost is told at once, also while credit is left: the receiver takes it for under way. PROTOCOL R60 */
TEST_IN(tx_credit__tells_losses, NULL, end)
{
	struct pair_cfg c = pair_packets();
	struct uccl_flow *f = &p.side[0].f;

	c.credit = &credit_pull;
	credit_limit = 1 << 20;
	start(c);
	pair_bulk(&p, 0, 64 * KIB);
	pair_pump_one(&p, 0);
	assert_int_equal(pair_find(&p, 1, UCCL_PKT_DEMAND), -1);
	lose_all();
	f->credit.lost += 16383;
	pair_pump_one(&p, 0);
	assert_int_equal(pair_find(&p, 1, UCCL_PKT_DEMAND), -1);
	f->credit.lost++;
	pair_pump_one(&p, 0);
	assert_true(pair_find(&p, 1, UCCL_PKT_DEMAND) >= 0);
	assert_int_equal(uccl_get64(p.wire[pair_find(&p, 1, UCCL_PKT_DEMAND)]->h.rec + 8), 16384);
	assert_int_equal(pair_pump_one(&p, 0), 0);
}

/* Everything acknowledged, no credit, the demand lost: nothing but its own timer gets the flow going again. */
TEST_IN(tx_credit__demand_again, NULL, end)
{
	struct pair_cfg c = pair_packets();

	c.credit = &credit_set;
	credit_limit = 4096;
	start(c);
	pair_bulk(&p, 0, 20 * KIB);
	pair_pump_one(&p, 0);
	pair_lose(&p, (uint32_t)pair_find(&p, 1, UCCL_PKT_DEMAND));
	for (int i = 0; i < 5; i++) {
		while (pair_find(&p, 1, UCCL_PKT_DEMAND) < 0) {
			assert_true(pair_step(&p));
			pair_pump_one(&p, 0);
		}
		pair_lose(&p, (uint32_t)pair_find(&p, 1, UCCL_PKT_DEMAND));
	}
	credit_limit = UINT64_MAX;
	assert_true(pair_finish(&p, 10 * MS));
}

/* What is lost, of a demand and of its answer, does not wait for a time-out. PROTOCOL R21 */
TEST_IN(tx_credit__demand_soon, NULL, end)
{
	struct pair_cfg c = pair_packets();
	uint64_t told;
	int at;

	c.credit = &credit_set;
	credit_limit = 8 * KIB;
	start(c);
	pair_bulk(&p, 0, 8 * KIB);
	assert_true(pair_finish(&p, 10 * MS));
	pair_bulk(&p, 0, 20 * KIB);
	pair_pump_one(&p, 0);
	told = p.now;
	pair_lose(&p, (uint32_t)pair_find(&p, 1, UCCL_PKT_DEMAND));
	while ((at = pair_find(&p, 1, UCCL_PKT_DEMAND)) < 0) {
		assert_true(pair_step(&p));
		pair_pump_one(&p, 0);
	}
	assert_true(2 * (p.now - told) < uccl_flow_rto(&p.side[0].f));
	assert_in_range(p.now - told, 1, uccl_times_pto_prompt(&p.side[0].f.loss.times));
	credit_limit = UINT64_MAX;
	assert_true(pair_finish(&p, 10 * MS));
}

/* DEMANDs that leave within 10 s, while nothing comes back; something waits for an acknowledgement, or nothing does. */
static unsigned int demands_of_silence(const struct uccl_credit_ops *ops, bool in_flight)
{
	struct pair_cfg c = pair_packets();
	unsigned int n = 0;
	uint64_t end;

	c.credit = ops;
	credit_limit = 8 * KIB;
	start(c);
	pair_bulk(&p, 0, 8 * KIB);
	assert_true(pair_finish(&p, 10 * MS));
	pair_bulk(&p, 0, 20 * KIB);
	if (in_flight)
		pair_record(&p, 0, 64);
	for (end = p.now + 10 * UCCL_NS_PER_S; p.now < end;) {
		pair_pump_one(&p, 0);
		while (p.nwire) {
			n += p.wire[0]->h.type == UCCL_PKT_DEMAND;
			pair_lose(&p, 0);
		}
		assert_true(pair_step(&p));
	}
	/* It comes back, and hears of it soon. */
	credit_limit = UINT64_MAX;
	assert_true(pair_finish(&p, UCCL_NS_PER_S));
	pair_fini(&p);
	return n;
}

/* A peer that answers nothing, as one that is stopped, is asked now and then. PROTOCOL R21 */
TEST_IN(tx_credit__silence, NULL, end)
{
	assert_in_range(demands_of_silence(&credit_set, false), 60, 80);
	assert_in_range(demands_of_silence(&credit_set, true), 1, 8);
	assert_in_range(demands_of_silence(&credit_pull, false), 60, 80);
	assert_in_range(demands_of_silence(&credit_pull, true), 1, 8);
}

/* Records of more than control size wait for credit too, with no bulk in sight. */
TEST_IN(tx_credit__records_ask_too, NULL, end)
{
	struct pair_cfg c = pair_packets();

	c.credit = &credit_set;
	credit_limit = 2000;
	start(c);
	for (int i = 0; i < 4; i++)
		pair_record(&p, 0, 1000);
	pair_run(&p, p.now + 20 * MS);
	assert_int_equal(p.side[1].complete, 2);
	assert_true(p.side[1].f.credit.demand == 4000);
	credit_limit = UINT64_MAX;
	assert_true(pair_finish(&p, 10 * MS));
	/* Small ones do not. */
	credit_limit = 0;
	pair_record(&p, 0, 256);
	assert_true(pair_finish(&p, 10 * MS));
}

TEST_IN(tx_credit__direct_writes_ask_too, NULL, end)
{
	struct pair_cfg c = pair_direct();

	c.credit = &credit_set;
	credit_limit = 8192;
	start(c);
	pair_bulk(&p, 0, 64 * KIB);
	pair_run(&p, p.now + 20 * MS);
	assert_true(p.side[1].f.credit.demand == 64 * KIB);
	credit_limit = UINT64_MAX;
	assert_true(pair_finish(&p, 10 * MS));
}

static void lose_credits(struct pair *q, struct pair_pkt *k)
{
	if (k->kind == UCCL_RX_PACKET && (k->h.type == UCCL_PKT_CREDIT || k->h.type == UCCL_PKT_DEMAND) &&
	    uccl_rng_chance(&q->rng, *(double *)q->arg))
		k->fate = PAIR_DROP;
}

TEST_IN(tx_credit__lost_ones_never_stall, NULL, end)
{
	static double share[] = {0, 0.5, 0.9};
	static const struct uccl_credit_ops *const credits[] = {&uccl_credit_window, &uccl_credit_eqds,
								 &uccl_credit_auto};

	for (unsigned int i = 0; i < uccl_array_len(share); i++)
		for (unsigned int kind = 0; kind < 2 * uccl_array_len(credits); kind++) {
			struct pair_cfg c = kind & 1 ? pair_direct() : pair_packets();

			c.credit = credits[kind / 2];
			c.link_bps = 10000000000ull;
			c.slots = 64;
			c.window = 64;
			c.seed = i + 1;
			start(c);
			p.filter = lose_credits;
			p.arg = &share[i];
			p.faults.loss = 0.02;
			for (int n = 0; n < 3; n++) {
				pair_bulk(&p, 0, 600 * KIB);
				pair_bulk(&p, 1, 600 * KIB);
				for (int r = 0; r < 50; r++)
					pair_record(&p, 0, 1000);
			}
			/* With nine of ten lost each way one question of a hundred is answered, at 5 a second. */
			assert_true(pair_finish(&p, 900 * UCCL_NS_PER_S));
			pair_fini(&p);
		}
}

/* Grants and turns that leave while side 0 sends so many messages of 1 KiB, one after the other. */
static uint64_t credits_for(uint64_t messages, bool renews)
{
	struct pair_cfg c = pair_packets();
	uint64_t used;

	c.credit = &uccl_credit_eqds; /* with auto one sender alone stays free (R347) */
	c.renews = renews;
	c.slots = 100;
	c.link_bps = 10000000000;
	start(c);
	for (uint64_t i = 0; i < messages; i++) {
		pair_bulk(&p, 0, KIB);
		pair_run(&p, p.now + UCCL_NS_PER_MS);
	}
	assert_int_equal(p.side[1].complete, messages);
	assert_int_equal(p.side[0].f.sent.inflight_bytes, 0);
	used = p.side[0].f.credit.used;
	assert_int_equal(used, messages * KIB);
	/* Both know of one window. */
	if (renews) {
		assert_int_equal(p.side[0].f.credit.demand_sent, 0);
		assert_int_equal(p.side[0].f.credit.renewed, p.side[1].f.credit.pull.granted);
	}
	return p.side[1].pacer.grants + p.side[1].f.credit.pull.turn;
}

/* Little that comes now and then needs no credit, as acknowledgements renew the speculative window. PROTOCOL R375 */
TEST_IN(tx_credit__acknowledgements_renew, NULL, NULL)
{
	assert_int_equal(credits_for(100, true), 0);
	pair_fini(&p);
	/* An older peer gets its window back with grants. */
	assert_true(credits_for(100, false) > 20);
	pair_fini(&p);
}

TESTS_MAIN
