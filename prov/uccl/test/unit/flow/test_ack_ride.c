/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Acknowledgements that nobody waits for ride on payload (PROTOCOL R340), and little payload stays on one path (R341):
 * two flows that answer each other, with every packet counted.
 */
#include "sender.h"

#include "../tests.h"
#include "policy/policies.h"

#define US UCCL_NS_PER_US

/* A record of 100 bytes for whose acknowledgement nobody waits. */
static void post(int from)
{
	pair_record(&p, from, 100)->item.want_ack = false;
}

static struct pair_cfg riding(void)
{
	struct pair_cfg c = pair_packets();

	c.delays = true;
	c.paths = 8;
	c.labels = 64;
	c.pathsel = &uccl_path_pow2;
	return c;
}

/* Side 0 asks, side 1 answers `gap` later, and side 0 asks anew as much later; so often. */
static void talk(int rounds, uint64_t gap)
{
	for (int i = 0; i < 2 * rounds; i++) {
		post(i & 1);
		pair_pump(&p);
		pair_run(&p, p.now + gap);
	}
}

/* Both know their times. */
static void warm_up(void)
{
	talk(30, 200 * US);
	pair_run(&p, p.now + 20 * MS);
	assert_int_equal(tx()->sent.una, tx()->sent.nxt);
}

static uint64_t packets(void)
{
	return p.side[0].stats.tx_packets + p.side[1].stats.tx_packets;
}

/* The flags of the packet that side 0 sends next. */
static uint8_t flags_next(void)
{
	uint32_t before = p.nwire;

	assert_int_equal(pair_pump_one(&p, 0), 1);
	return p.wire[before]->h.flags;
}

TEST_IN(delay__nobody_waits, NULL, end)
{
	start(riding());
	warm_up();
	post(0);
	assert_int_equal(flags_next(), UCCL_FLAG_DELAY);
	/* Of two that leave together, the last one. */
	lose_all();
	pair_run(&p, p.now + 20 * MS);
	post(0);
	post(0);
	assert_int_equal(pair_pump_one(&p, 0), 2);
	assert_int_equal(p.wire[0]->h.flags, 0);
	assert_int_equal(p.wire[1]->h.flags, UCCL_FLAG_DELAY);
}

/* It says whether more of it waits for a slot, or is about to. PROTOCOL R178 R246 */
TEST_IN(delay__tells_of_more, NULL, end)
{
	struct uccl_slots slots;
	struct uccl_grant grant;

	start(riding());
	warm_up();
	uccl_slots_init(&slots);
	uccl_slots_open(&slots, &grant, 8, 3);
	grant.need.has_more = true;
	p.side[1].f.cfg.grant = &grant;
	tx()->limits.soon = 0;
	post(0);
	assert_int_equal(flags_next(), UCCL_FLAG_DELAY);
	pair_arrive_all(&p, 1);
	assert_false(grant.need.has_more);
	tx()->limits.soon = UCCL_PEER_LIMITS_SOON;
	tx()->limits.last_ns = 0;
	post(0);
	assert_int_equal(flags_next(), UCCL_FLAG_DELAY | UCCL_FLAG_WANT);
	pair_arrive_all(&p, 1);
	assert_true(grant.need.has_more);
	p.side[1].f.cfg.grant = NULL;
}

TEST_IN(delay__somebody_waits, NULL, end)
{
	start(riding());
	warm_up();
	pair_record(&p, 0, 100)->item.want_ack = true;
	assert_int_equal(flags_next(), UCCL_FLAG_AR);
	assert_false(tx()->loss.pto.delayed);
}

TEST_IN(delay__peer_does_not_know, NULL, end)
{
	struct pair_cfg c = riding();

	c.delays = false;
	start(c);
	warm_up();
	post(0);
	assert_int_equal(flags_next(), 0);
}

/* Of a path without a sample the acknowledgement is one. */
TEST_IN(delay__path_unknown, NULL, end)
{
	start(riding());
	post(0);
	assert_int_equal(flags_next(), 0);
}

TEST_IN(delay__much_in_flight, NULL, end)
{
	start(riding());
	warm_up();
	for (int i = 0; i < 16; i++) {
		post(0);
		assert_int_equal(flags_next(), UCCL_FLAG_DELAY);
	}
	post(0);
	assert_int_equal(flags_next(), 0);
}

/* Half of the slots are taken: the rest is not for long. */
TEST_IN(delay__few_slots, NULL, end)
{
	struct pair_cfg c = riding();

	c.slots = 4;
	start(c);
	warm_up();
	for (int i = 0; i < 2; i++) {
		post(0);
		assert_int_equal(flags_next(), UCCL_FLAG_DELAY);
	}
	post(0);
	assert_int_not_equal(flags_next(), UCCL_FLAG_DELAY);
}

/* A peer that was asked in vain is not told to take its time. */
TEST_IN(delay__after_a_question, NULL, end)
{
	start(riding());
	warm_up();
	post(0);
	pair_pump_one(&p, 0);
	lose_all();
	while (!tx()->loss.pto.backoff)
		assert_true(pair_step(&p));
	lose_all();
	post(0);
	pair_pump_one(&p, 0);
	for (uint32_t i = 0; i < p.nwire; i++)
		assert_false(p.wire[i]->h.flags & UCCL_FLAG_DELAY);
}

/* One packet a message, both ways. */
TEST_IN(ride__one_packet_a_message, NULL, end)
{
	uint64_t before, probes;

	start(riding());
	talk(30, 200 * US);
	before = packets();
	probes = p.side[0].stats.probes + p.side[1].stats.probes;
	talk(100, 200 * US);
	assert_in_range(packets() - before, 200, 204);
	assert_int_equal(p.side[0].stats.probes + p.side[1].stats.probes, probes);
}

/* Without payload the other way all is as ever: 100 us, by the receiver's clock. */
TEST_IN(ride__no_payload_comes, NULL, end)
{
	uint64_t sent;

	start(riding());
	talk(30, 200 * US);
	pair_run(&p, p.now + 50 * MS);
	for (int i = 0; i < 20; i++) {
		post(0);
		pair_pump_one(&p, 0);
		pair_run(&p, p.now + 10 * MS);
	}
	/* What it waits is learnt from payload only, and nothing waits longer than a millisecond. */
	post(0);
	pair_pump_one(&p, 0);
	sent = p.now;
	while (tx()->sent.una != tx()->sent.nxt)
		assert_true(pair_step(&p));
	assert_in_range(p.now - sent, 100 * US, UCCL_RIDE_MAX_NS + 40 * US);
}

/* The last message is lost: it comes again within a millisecond and some round trips of when it would without. */
TEST_IN(ride__tail_loss, NULL, end)
{
	uint64_t sent, got;

	start(riding());
	talk(60, 200 * US);
	pair_run(&p, p.now + 20 * MS);
	got = p.side[1].stats.rx_bytes;
	post(0);
	pair_pump_one(&p, 0);
	lose_all();
	sent = p.now;
	while (p.side[1].stats.rx_bytes == got)
		assert_true(pair_step(&p));
	assert_in_range(p.now - sent, 40 * US, UCCL_RIDE_MAX_NS + UCCL_ACK_DELAY_NS + 8 * 20 * US);
}

/* A stream of chunks that may wait does not put the question off: the first one's time counts. */
TEST_IN(ride__stream, NULL, end)
{
	uint64_t sent, asked;

	start(riding());
	talk(60, 200 * US);
	pair_run(&p, p.now + 20 * MS);
	sent = p.now;
	asked = p.side[0].stats.probes;
	while (p.side[0].stats.probes == asked) {
		post(0);
		pair_pump_one(&p, 0);
		lose_all();
		pair_run(&p, p.now + 150 * US);
		assert_in_range(p.now - sent, 0, UCCL_RIDE_MAX_NS + UCCL_ACK_DELAY_NS + 8 * 20 * US);
	}
}

/* Somebody waits after all: the answer comes in a round trip. */
TEST_IN(hurry__asks, NULL, end)
{
	uint64_t sent;

	start(riding());
	talk(60, 400 * US);
	pair_run(&p, p.now + 20 * MS);
	uccl_flow_hurry(tx(), true, p.now);
	assert_int_equal(pair_pump_one(&p, 0), 0);
	/* Nothing is told to wait until that is over. */
	post(0);
	assert_int_equal(flags_next(), 0);
	pair_run(&p, p.now + 20 * MS);
	uccl_flow_hurry(tx(), false, p.now);
	post(0);
	assert_int_equal(flags_next(), UCCL_FLAG_DELAY);
	sent = p.now;
	uccl_flow_hurry(tx(), true, p.now);
	assert_int_equal(pair_pump_one(&p, 0), 1);
	while (tx()->sent.una != tx()->sent.nxt)
		assert_true(pair_step(&p));
	assert_in_range(p.now - sent, 20 * US, 30 * US);
}

/* Which paths payload of side 0 leaves on in so many rounds, a bit each; acknowledgements, too. */
static uint32_t paths_used(int rounds)
{
	uint32_t used = 0;

	for (int i = 0; i < rounds; i++) {
		post(i & 1);
		pair_pump(&p);
		for (uint32_t k = 0; k < p.nwire; k++)
			used |= 1u << (p.wire[k]->path + 16 * p.wire[k]->to);
		pair_run(&p, p.now + 2 * MS);
	}
	return used;
}

TEST_IN(warm__one_path, NULL, end)
{
	start(riding());
	warm_up();
	assert_int_equal(__builtin_popcount(paths_used(400)), 2);
}

/* Long payload is spread as ever. */
TEST_IN(warm__not_for_long_payload, NULL, end)
{
	uint32_t used = 0;

	start(riding());
	warm_up();
	pair_bulk(&p, 0, 200 * KIB);
	pair_pump_one(&p, 0);
	for (uint32_t k = 0; k < p.nwire; k++)
		used |= 1u << p.wire[k]->path;
	assert_true(__builtin_popcount(used) >= 3);
}

/* It loses something: the next payload goes elsewhere. */
TEST_IN(warm__left_for_a_loss, NULL, end)
{
	uint16_t warm;

	start(riding());
	warm_up();
	warm = tx()->paths.warm;
	post(0);
	pair_pump_one(&p, 0);
	assert_int_equal(p.wire[0]->path, warm);
	lose_all();
	tx()->paths.list[warm].losses = 1;
	tx()->loss.pto.backoff = 0;
	post(0);
	pair_pump_one(&p, 0);
	assert_int_not_equal(tx()->paths.warm, warm);
	assert_int_equal(p.wire[0]->path, tx()->paths.warm);
}

/* It has become slow. */
TEST_IN(warm__left_when_slow, NULL, end)
{
	uint16_t warm;

	start(riding());
	talk(150, 200 * US);
	warm_up();
	warm = tx()->paths.warm;
	uccl_burst_end(&tx()->paths.burst);
	tx()->paths.list[warm].packet_rtt_ns = 5 * tx()->loss.times.srtt_ns;
	post(0);
	pair_pump_one(&p, 0);
	assert_int_not_equal(tx()->paths.warm, warm);
}

/* A policy of the user that spreads everything is obeyed. */
TEST_IN(warm__by_policy, NULL, end)
{
	struct pair_cfg c = riding();

	c.pathsel = &uccl_path_rr;
	start(c);
	warm_up();
	assert_true(__builtin_popcount(paths_used(400)) >= 8);
}

TESTS_MAIN
