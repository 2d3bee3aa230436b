/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "../one_pair.h"
#include "../../tests.h"

/* Congestion control that writes down what it is told. */
static struct {
	int acks, losses[3];
	struct uccl_ack_info ack;
	struct uccl_loss_info loss;
	uint64_t path_marked;
} say;

static void spy_init(void *cc, const struct uccl_policy_cfg *cfg, uint64_t now)
{
	memset(&say, 0, sizeof(say));
}

static uint64_t spy_window(const void *cc)
{
	return 1 << 30;
}

static void spy_on_ack(void *cc, const struct uccl_ack_info *ack, uint64_t now)
{
	say.acks++;
	say.ack = *ack;
}

static void spy_on_loss(void *cc, const struct uccl_loss_info *loss, uint64_t now)
{
	say.losses[loss->kind]++;
	say.loss = *loss;
}

static const struct uccl_cc_ops spy = {.init = spy_init,
				       .window = spy_window,
				       .on_ack = spy_on_ack,
				       .on_loss = spy_on_loss};

/* And a choice of paths that does, of one path. */
static uint16_t spy_select(void *ps, const struct uccl_path *paths, const uint16_t *usable, uint16_t n,
			   const struct uccl_chunk_info *chunk, struct uccl_rng *rng, uint64_t now)
{
	return usable[0];
}

static void spy_on_sample(void *ps, const struct uccl_path *paths, uint16_t path, uint64_t rtt_ns, uint64_t marked,
			  uint64_t now)
{
	say.path_marked = marked;
}

static const struct uccl_path_ops spy_path = {.name = "spy", .select = spy_select, .on_ack = spy_on_sample};

/* `n` records of 100 bytes leave and vanish; one path unless told otherwise. */
static void start_n(struct pair_cfg c, int n)
{
	c.cc = &spy;
	pair_init(&p, &c);
	for (int i = 0; i < n; i++)
		pair_record(&p, 0, 100);
	assert_int_equal(pair_pump_one(&p, 0), n);
	while (p.nwire)
		pair_lose(&p, 0);
}

static struct pair_cfg one_path(void)
{
	struct pair_cfg c = pair_packets();

	c.paths = 1;
	return c;
}

/* In a packet that left the peer at ts. */
static enum uccl_drop take_at(const struct uccl_ack *a, uint32_t ts)
{
	enum uccl_drop reason = flow_ack_rx(tx(), a, ts, 0, p.now);

	assert_null(uccl_flow_check(tx()));
	return reason;
}

static enum uccl_drop take(const struct uccl_ack *a)
{
	return take_at(a, uccl_ts(p.now));
}

/* A block with one path's line. */
static struct uccl_ack line(uint64_t cum, uint16_t path, uint32_t seq, uint64_t sent_at, uint32_t delay)
{
	struct uccl_ack a = pair_ack(&p, 0, cum);

	a.npaths = 1;
	a.paths[0] = (struct uccl_ack_path){.path = path, .seq = seq, .echo = uccl_ts(sent_at), .delay = delay};
	return a;
}

/* Of a chunk that left twice nobody knows which copy came: it does not prove a rail in doubt. PROTOCOL R401 */
TEST_IN(ack_rx__proves_rail, NULL, end)
{
	struct uccl_ack a;

	start_n(one_path(), 0);
	pair_record(&p, 0, 1000);
	pair_record(&p, 0, 1000);
	assert_int_equal(pair_pump_one(&p, 0), 2);
	while (p.nwire)
		pair_lose(&p, 0);
	tx()->paths.rails.n = 2;
	tx()->paths.rails.trial[0].doubted = true;
	uccl_sent_at(&tx()->sent, base())->ntx = 2;
	a = pair_ack(&p, 0, base() + 1);
	take(&a);
	assert_true(uccl_paths_rail_doubted(&tx()->paths, 0));
	a = pair_ack(&p, 0, base() + 2);
	take(&a);
	assert_false(uccl_paths_rail_doubted(&tx()->paths, 0));
	tx()->paths.rails.n = 1;
}

TEST_IN(ack_rx__cumulative, NULL, end)
{
	struct uccl_ack a;

	start_n(one_path(), 5);
	a = pair_ack(&p, 0, base() + 3);
	assert_int_equal(take(&a), UCCL_DROP_COUNT);
	assert_int_equal(tx()->sent.una, base() + 3);
	assert_int_equal(tx()->sent.inflight_chunks, 2);
	assert_int_equal(tx()->sent.inflight_bytes, 200);
	assert_int_equal(tx()->paths.list[0].inflight, 200);
	assert_int_equal(p.side[0].acked, 3);
	assert_int_equal(say.acks, 1);
	assert_int_equal(say.ack.bytes, 300);
	assert_int_equal(say.ack.inflight, 200);
	/* The same again changes nothing. */
	assert_int_equal(take(&a), UCCL_DROP_COUNT);
	assert_int_equal(p.side[0].acked, 3);
	assert_int_equal(say.acks, 1);
}

TEST_IN(ack_rx__selective, NULL, end)
{
	struct uccl_ack a;

	start_n(one_path(), 5);
	a = pair_ack(&p, 0, base() + 1);
	a.nwords = 1;
	a.sack[0] = 2 | 4; /* base + 3, base + 4 */
	assert_int_equal(take(&a), UCCL_DROP_COUNT);
	assert_int_equal(tx()->sent.una, base() + 1);
	assert_int_equal(p.side[0].acked, 3);
	assert_int_equal(tx()->sent.high_acked, base() + 5);
	assert_int_equal(uccl_sent_at(&tx()->sent, base() + 1)->state, UCCL_SENT_INFLIGHT);
	assert_int_equal(uccl_sent_at(&tx()->sent, base() + 2)->state, UCCL_SENT_INFLIGHT);
	assert_int_equal(say.ack.bytes, 300);
	a.sack[0] = 1 | 2 | 4;
	assert_int_equal(take(&a), UCCL_DROP_COUNT);
	assert_int_equal(p.side[0].acked, 4);
	assert_int_equal(say.ack.bytes, 100);
}

TEST_IN(ack_rx__far_words, NULL, end)
{
	struct uccl_ack a;

	start_n(one_path(), 200);
	a = pair_ack(&p, 0, base());
	a.nwords = 4;
	a.sack[3] = 1ull << 6; /* base + 1 + 192 + 6 = the last of 200 */
	assert_int_equal(take(&a), UCCL_DROP_COUNT);
	assert_int_equal(tx()->sent.high_acked, base() + 200);
	assert_int_equal(p.side[0].acked, 1);
}

/* Nothing at all is taken from a block that lies. */
static void refused(const struct uccl_ack *a, enum uccl_drop why)
{
	struct uccl_ack lie = *a;
	struct uccl_stats before = p.side[0].stats;
	uint64_t una = tx()->sent.una, slots = tx()->limits.slots, rack = tx()->loss.rack.reported_ns;

	lie.slots = 9;
	lie.msg_limit = 1000;
	lie.dups = 5;
	assert_int_equal(take(&lie), why);
	assert_int_equal(tx()->sent.una, una);
	assert_int_equal(tx()->limits.slots, slots);
	assert_int_equal(tx()->loss.rack.reported_ns, rack);
	assert_int_equal(tx()->limits.msg_limit, 100);
	assert_int_equal(tx()->loss.rack.dups, 0);
	assert_int_equal(say.acks, 0);
	assert_memory_equal(&before, &p.side[0].stats, sizeof(before));
}

TEST_IN(ack_rx__beyond_what_was_sent, NULL, end)
{
	uint64_t first[] = {1000, 0, (1ull << 32) - 3};

	for (unsigned int i = 0; i < uccl_array_len(first); i++) {
		struct pair_cfg c = one_path();
		struct uccl_ack a;

		c.csn[0] = first[i];
		start_n(c, 5);
		a = pair_ack(&p, 0, base() + 6);
		refused(&a, UCCL_DROP_ACK);
		a = pair_ack(&p, 0, base() + 1000);
		refused(&a, UCCL_DROP_ACK);
		a = pair_ack(&p, 0, base() + (1u << 31) - 1);
		refused(&a, UCCL_DROP_ACK);
		a = pair_ack(&p, 0, base() + 5);
		assert_int_equal(take(&a), UCCL_DROP_COUNT);
		assert_int_equal(tx()->sent.una, base() + 5);
		assert_true(tx()->loss.pto.at == UCCL_NEVER);
		pair_fini(&p);
	}
}

TEST_IN(ack_rx__selective_beyond, NULL, end)
{
	struct uccl_ack a;

	start_n(one_path(), 5);
	a = pair_ack(&p, 0, base());
	a.nwords = 1;
	a.sack[0] = 1 << 4; /* base + 5 */
	refused(&a, UCCL_DROP_ACK);
	a.sack[0] = 1 << 4 | 1;
	refused(&a, UCCL_DROP_ACK);
	a.nwords = 3;
	a.sack[0] = a.sack[1] = 0;
	a.sack[2] = 1ull << 63;
	refused(&a, UCCL_DROP_ACK);
	/* Everything acknowledged by number, and one more by bit. */
	a = pair_ack(&p, 0, base() + 5);
	a.nwords = 1;
	a.sack[0] = 1;
	refused(&a, UCCL_DROP_ACK);
	/* Empty words are no lie. */
	a = pair_ack(&p, 0, base());
	a.nwords = UCCL_ACK_WORDS_MAX;
	a.sack[0] = 1 << 3;
	assert_int_equal(take(&a), UCCL_DROP_COUNT);
}

TEST_IN(ack_rx__path_index, NULL, end)
{
	struct uccl_ack a;

	start_n(pair_packets(), 5);
	a = line(base(), 4, 1, p.now, 0);
	refused(&a, UCCL_DROP_PATH);
	a = line(base(), 3, 0, p.now, 0);
	assert_int_equal(take(&a), UCCL_DROP_COUNT);
}

TEST_IN(ack_rx__path_number_never_sent, NULL, end)
{
	struct uccl_ack a;

	start_n(one_path(), 5);
	a = line(base(), 0, 6, p.now, 0);
	refused(&a, UCCL_DROP_ACK);
	a = line(base(), 0, 6 + (1u << 30), p.now, 0);
	refused(&a, UCCL_DROP_ACK);
	a = line(base(), 0, 5, p.now, 0);
	assert_int_equal(take(&a), UCCL_DROP_COUNT);
	assert_int_equal(tx()->paths.list[0].acked_seq, 5);
}

TEST_IN(ack_rx__write_never_sent, NULL, end)
{
	struct pair_cfg c = pair_direct();
	struct uccl_ack a;

	c.cc = &spy;
	c.paths = 1;
	pair_init(&p, &c);
	pair_bulk(&p, 0, 16 * KIB);
	pair_pump_one(&p, 0);
	a = line(base(), 0, (uint32_t)base() + 5, 0, 0);
	a.paths[0].write = true;
	refused(&a, UCCL_DROP_ACK);
	a.paths[0].seq--;
	assert_int_equal(take(&a), UCCL_DROP_COUNT);
	assert_int_equal(tx()->paths.list[0].writes.acked_csn, base() + 5);
}

/* An older block that was overtaken: its grants are not news any more, and nothing goes backwards. */
TEST_IN(ack_rx__old, NULL, end)
{
	struct uccl_ack a;

	start_n(one_path(), 5);
	a = pair_ack(&p, 0, base() + 3);
	a.slots = 50;
	a.msg_limit = 120;
	a.rcv_short = true;
	assert_int_equal(take(&a), UCCL_DROP_COUNT);
	a = pair_ack(&p, 0, base() + 2);
	a.slots = 200;
	a.nwords = 1;
	a.sack[0] = 1 << 1; /* base + 4 */
	assert_int_equal(take(&a), UCCL_DROP_COUNT);
	assert_int_equal(tx()->limits.slots, 50);
	assert_int_equal(tx()->limits.msg_limit, 120);
	assert_true(tx()->limits.envelopes_only);
	assert_int_equal(tx()->sent.una, base() + 3);
	/* What it says of later chunks is true nevertheless. */
	assert_int_equal(p.side[0].acked, 4);
}

/* Two blocks with the same cumulative number overtake each other on their paths: the one that left later counts. */
TEST_IN(ack_rx__overtaken_grants, NULL, end)
{
	struct uccl_ack a;

	start_n(one_path(), 5);
	a = pair_ack(&p, 0, base() + 3);
	a.slots = 500;
	/* Any time is news at first, and the clock of the other host may wrap. */
	take_at(&a, UINT32_MAX - 5);
	assert_int_equal(tx()->limits.slots, 500);
	a.slots = 2;
	a.rcv_short = true;
	take_at(&a, UINT32_MAX - 6);
	assert_int_equal(tx()->limits.slots, 500);
	assert_false(tx()->limits.envelopes_only);
	a.slots = 400;
	take_at(&a, 3);
	assert_int_equal(tx()->limits.slots, 400);
	/* Further on is later, whatever the clock shows; and after a long time no clock is compared. */
	a = pair_ack(&p, 0, base() + 4);
	a.slots = 300;
	take_at(&a, 1);
	assert_int_equal(tx()->limits.slots, 300);
	p.now += UCCL_RTT_MAX_NS;
	a.slots = 200;
	take_at(&a, 0);
	assert_int_equal(tx()->limits.slots, 200);
}

/* Likewise while the NIC still reads what was acknowledged, so that the window has not moved. PROTOCOL R19 */
TEST_IN(ack_rx__overtaken_while_read, NULL, end)
{
	struct uccl_ack a;

	start_n(one_path(), 5);
	uccl_sent_at(&tx()->sent, base())->nic_reads = 1;
	a = pair_ack(&p, 0, base() + 3);
	a.slots = 2;
	take_at(&a, 100);
	assert_int_equal(tx()->sent.una, base());
	a = pair_ack(&p, 0, base() + 2);
	a.slots = 500;
	take_at(&a, 90);
	assert_int_equal(tx()->limits.slots, 2);
	a = pair_ack(&p, 0, base() + 3);
	a.slots = 500;
	take_at(&a, 99);
	assert_int_equal(tx()->limits.slots, 2);
	uccl_sent_at(&tx()->sent, base())->nic_reads = 0;
}

/* A smaller grant is met when no more is under way than it allows; the peer hears of that at once. PROTOCOL R142 */
TEST_IN(slots_meet__when, NULL, end)
{
	struct uccl_ack a;

	start_n(one_path(), 5);
	a = pair_ack(&p, 0, base() + 1);
	a.slots = 2;
	a.turn = 3;
	take_at(&a, 1);
	assert_int_equal(tx()->sent.inflight_chunks, 4);
	assert_int_equal(tx()->limits.met, 0);
	tx()->rx.ack_tracker.now = false;
	a = pair_ack(&p, 0, base() + 3);
	a.slots = 2;
	a.turn = 3;
	take_at(&a, 2);
	assert_int_equal(tx()->sent.inflight_chunks, 2);
	assert_int_equal(tx()->limits.met, 3);
	assert_true(tx()->rx.ack_tracker.now);
	/* Older blocks have older turns. */
	tx()->rx.ack_tracker.now = false;
	a.turn = 2;
	take_at(&a, 1);
	assert_int_equal(tx()->limits.met, 3);
	assert_false(tx()->rx.ack_tracker.now);
}

/* What the peer has met is taken from its newest block only. PROTOCOL R142 */
TEST_IN(slots_met__newest_block, NULL, end)
{
	struct uccl_slots all;
	struct uccl_grant g;
	struct uccl_ack a;

	start_n(one_path(), 5);
	uccl_slots_init(&all);
	uccl_slots_open(&all, &g, 1000, 1024);
	tx()->cfg.grant = &g;
	g.returning = true;
	g.turn = 1;
	a = pair_ack(&p, 0, base() + 2);
	take_at(&a, 5);
	assert_true(g.returning);
	a.met = 1;
	take_at(&a, 4);
	assert_true(g.returning);
	take_at(&a, 6);
	assert_false(g.returning);
	tx()->cfg.grant = NULL;
}

TEST_IN(ack_rx__grants, NULL, end)
{
	struct uccl_ack a;

	start_n(one_path(), 5);
	a = pair_ack(&p, 0, base());
	a.slots = 7;
	a.msg_limit = 200;
	take(&a);
	assert_int_equal(tx()->limits.slots, 7);
	assert_int_equal(tx()->limits.msg_limit, 200);
	/* Slots go both ways, message numbers only up; both may wrap. */
	a.slots = 3;
	a.msg_limit = 150;
	take(&a);
	assert_int_equal(tx()->limits.slots, 3);
	assert_int_equal(tx()->limits.msg_limit, 200);
	tx()->limits.msg_limit = UINT32_MAX - 1;
	a.msg_limit = 5;
	take(&a);
	assert_int_equal(tx()->limits.msg_limit, 5);
}

/* Five chunks left, and this block acknowledged the first. */
static struct uccl_ack one_of_five(void)
{
	struct uccl_ack a;

	start_n(one_path(), 5);
	a = pair_ack(&p, 0, base() + 1);
	take(&a);
	return a;
}

/* PROTOCOL R54: blocks that answer something else, one after the other, do not put off the question. */
TEST_IN(ack_rx__no_news_keeps_the_timer, NULL, end)
{
	struct uccl_ack a = one_of_five();
	uint64_t at = tx()->loss.pto.at;

	assert_true(at > p.now);
	/* The last one was asked for. PROTOCOL R405 */
	tx()->loss.pto.asked_ns = at;
	for (int i = 0; i < 5; i++) {
		p.now += (at - p.now) / 2;
		take(&a);
		assert_int_equal(tx()->loss.pto.at, at);
	}
	a = pair_ack(&p, 0, base() + 2);
	take(&a);
	assert_true(tx()->loss.pto.at > at);
	/* A later one is news, too. */
	at = tx()->loss.pto.at;
	p.now += 1000;
	a.nwords = 1;
	a.sack[0] = 1;
	take(&a);
	assert_true(tx()->loss.pto.at > at);
}

/* News of others does not put off the question for the last one, unless payload waits behind it. PROTOCOL R405 */
TEST_IN(ack_rx__the_last_is_asked_for, NULL, end)
{
	for (int more = 0; more < 2; more++) {
		struct uccl_ack a = one_of_five();
		uint64_t due = tx()->loss.pto.left_ns + uccl_times_pto_last(&tx()->loss.times);

		assert_true(tx()->loss.pto.ar);
		if (more)
			pair_bulk(&p, 0, KIB);
		p.now = due - 1000;
		a = pair_ack(&p, 0, base() + 2);
		take(&a);
		if (more)
			assert_true(tx()->loss.pto.at > due);
		else
			assert_int_equal(tx()->loss.pto.at, due);
		pair_fini(&p);
	}
}

/* What answers something else shows that the host is at work, so it is asked soon for the rest. PROTOCOL R272 */
TEST_IN(ack_rx__no_news_brings_it_nearer, NULL, end)
{
	struct uccl_ack a = one_of_five();
	uint64_t at = tx()->loss.pto.at;

	p.now += 10 * US;
	a = line(base() + 1, 0, 5, p.now - 10 * US, 0);
	take(&a);
	assert_int_equal(tx()->sent.una, base() + 1);
	assert_true(tx()->loss.pto.at < at);
	at = tx()->loss.pto.at;
	assert_true(at <= p.now + 3 * tx()->loss.times.srtt_ns + UCCL_ACK_DELAY_NS);
	p.now += 10 * US;
	take(&a);
	assert_int_equal(tx()->loss.pto.at, at);
}

TEST_IN(ack_rx__ends_the_back_off, NULL, end)
{
	struct uccl_ack a;

	start_n(one_path(), 5);
	for (int i = 0; i < 3; i++) {
		p.now = uccl_flow_expiry(tx());
		uccl_flow_expire(tx(), p.now);
		pair_pump_one(&p, 0);
	}
	assert_int_equal(tx()->loss.pto.backoff, 3);
	a = pair_ack(&p, 0, base() + 1);
	take(&a);
	assert_int_equal(tx()->loss.pto.backoff, 0);
}

TEST_IN(path_sample__fabric_only, NULL, end)
{
	struct uccl_ack a;

	p.now = 0;
	start_n(one_path(), 5);
	a = line(base(), 0, 1, p.now, 640); /* 40.96 us there */
	p.now += 128 * US;
	/* And 32 us in our own queue. */
	assert_int_equal(flow_ack_rx(tx(), &a, uccl_ts(p.now), 32 * US, p.now), UCCL_DROP_COUNT);
	assert_in_range(tx()->loss.times.last_rtt_ns,
			128 * US - 32 * US - 640 * 64 - 64, 128 * US - 32 * US - 640 * 64 + 64);
	assert_int_equal(tx()->paths.list[0].srtt_ns, tx()->loss.times.last_rtt_ns);
	assert_int_equal(tx()->loss.times.srtt_ns, tx()->loss.times.last_rtt_ns);
	assert_int_equal(tx()->loss.times.min_rtt_ns, tx()->loss.times.last_rtt_ns);
	assert_int_equal(say.ack.rtt_ns, tx()->loss.times.last_rtt_ns);
	assert_int_equal(say.ack.srtt_ns, tx()->loss.times.last_rtt_ns);
}

/* What a block waits on its way back is nobody's to see but of time-outs. PROTOCOL R230 */
TEST_IN(path_sample__without_the_way_back, NULL, end)
{
	struct uccl_ack a;
	uint64_t left;

	start_n(one_path(), 5);
	left = p.now;
	p.now += 100 * US;
	a = line(base() + 1, 0, 1, left, 0);
	take_at(&a, uccl_ts(p.now - 40 * US));
	assert_in_range(say.ack.rtt_ns, 100 * US - 64, 100 * US + 64);
	/* The same way there; 64 us longer back. */
	p.now += 64 * US;
	a = line(base() + 2, 0, 2, left, 0);
	take_at(&a, uccl_ts(p.now - 104 * US));
	assert_in_range(tx()->loss.times.last_rtt_ns, 164 * US - 64, 164 * US + 64);
	assert_in_range(say.ack.rtt_ns, 100 * US - 64, 100 * US + 192);
	assert_in_range(say.ack.min_rtt_ns, 100 * US - 64, 100 * US + 192);
	assert_in_range(tx()->paths.list[0].srtt_ns, 100 * US - 64, 100 * US + 192);
	/* The way there was never shorter, though round trips were. */
	p.now += 64 * US;
	a = line(base() + 2, 0, 3, p.now - 120 * US, 0);
	take_at(&a, uccl_ts(p.now - 72 * US));
	assert_in_range(say.ack.min_rtt_ns, 88 * US - 64, 88 * US + 192);
	a = line(base() + 2, 0, 4, p.now - 100 * US, 0);
	take_at(&a, uccl_ts(p.now - 40 * US));
	/* A loss that tells of a queue tells of that on the way there. */
	flow_report_loss(tx(), UCCL_LOSS_RACK, 0, 100, p.now);
	assert_in_range(say.loss.last_rtt_ns, 100 * US - 64, 100 * US + 192);
	/* A block that is refused says nothing of clocks. */
	a = line(base() + 100, 0, 5, left, 0);
	assert_int_equal(take_at(&a, uccl_ts(p.now - 1 * US)), UCCL_DROP_ACK);
	p.now += 10 * US;
	a = line(base() + 3, 0, 5, p.now - 100 * US, 0);
	take_at(&a, uccl_ts(p.now - 40 * US));
	assert_in_range(say.ack.rtt_ns, 100 * US - 64, 100 * US + 64);
}

TEST_IN(path_sample__each_number_once, NULL, end)
{
	struct uccl_ack a;

	start_n(one_path(), 5);
	a = line(base(), 0, 2, p.now, 0);
	p.now += 100 * US;
	take(&a);
	assert_int_equal(say.acks, 1);
	a = line(base(), 0, 2, p.now, 0);
	take(&a);
	a = line(base(), 0, 1, p.now, 0);
	take(&a);
	assert_int_equal(say.acks, 1);
	assert_in_range(tx()->loss.times.last_rtt_ns, 99 * US, 101 * US);
}

/* No echo of a made-up time teaches anything. */
TEST_IN(path_sample__forged, NULL, end)
{
	struct uccl_ack a;

	start_n(one_path(), 5);
	p.now += 100 * US;
	a = line(base(), 0, 1, p.now + MS, 0); /* from the future */
	assert_int_equal(take(&a), UCCL_DROP_COUNT);
	assert_int_equal(tx()->loss.times.srtt_ns, 0);
	assert_int_equal(tx()->loss.rack.reported_ns, 0);
	a = line(base(), 0, 2, p.now - 50 * US, 50 * 1000 / 64 + 2); /* waited longer than it took */
	take(&a);
	assert_int_equal(tx()->loss.times.srtt_ns, 0);
	a = line(base(), 0, 2, p.now - 50 * US, UINT32_MAX - 10); /* the difference would wrap to a small one */
	tx()->paths.list[0].acked_seq = 1;
	take(&a);
	assert_int_equal(tx()->loss.times.srtt_ns, 0);
	a = line(base(), 0, 3, p.now - 50 * US, UINT32_MAX); /* turnaround not known */
	take(&a);
	assert_int_equal(tx()->loss.times.srtt_ns, 0);
	assert_in_range(tx()->loss.rack.reported_ns, p.now - 50 * US - 64, p.now - 50 * US + 64);
	a = line(base(), 0, 4, p.now - 20 * UCCL_NS_PER_S, 0); /* not a network */
	take(&a);
	assert_int_equal(tx()->loss.times.srtt_ns, 0);
	a = line(base(), 0, 5, p.now - 50 * US, 0);
	take(&a);
	assert_in_range(tx()->loss.times.srtt_ns, 49 * US, 51 * US);
}

TEST_IN(path_sample__smoothing, NULL, end)
{
	struct uccl_ack a;

	start_n(one_path(), 200);
	for (uint32_t i = 1; i <= 200; i++) {
		a = line(base(), 0, i, p.now - (i & 1 ? 80 : 120) * US, 0);
		take(&a);
	}
	assert_in_range(tx()->loss.times.srtt_ns, 95 * US, 105 * US);
	assert_in_range(tx()->loss.times.rttvar_ns, 15 * US, 25 * US);
	assert_in_range(tx()->loss.times.min_rtt_ns, 79 * US, 81 * US);
}

TEST_IN(path_sample__writes, NULL, end)
{
	struct pair_cfg c = pair_direct();
	struct uccl_ack a;

	c.paths = 1;
	c.cc = &spy;
	pair_init(&p, &c);
	pair_bulk(&p, 0, 16 * KIB);
	pair_pump_one(&p, 0);
	p.now += 100 * US;
	a = line(base(), 0, (uint32_t)base() + 2, 0, 10 * 1000 / 64);
	a.paths[0].write = true;
	take(&a);
	assert_in_range(tx()->loss.times.last_rtt_ns, 90 * US - 64, 90 * US + 64);
	assert_int_equal(tx()->loss.rack.reported_ns, p.now - 100 * US);
}

static void lose_nth(struct pair *q, struct pair_pkt *k)
{
	if (k->to == 1 && k->kind == UCCL_RX_PACKET && k->h.type == UCCL_PKT_CHUNK && ++q->count == *(uint32_t *)q->arg)
		k->fate = PAIR_DROP;
}

static void delay_nth(struct pair *q, struct pair_pkt *k)
{
	if (k->to == 1 && k->kind == UCCL_RX_PACKET && k->h.type == UCCL_PKT_CHUNK && ++q->count == *(uint32_t *)q->arg)
		k->due += 15 * US;
}

/* One record after the other; how many packets it took from side 0 until each was acknowledged. */
static uint64_t records(int n)
{
	uint64_t before = p.side[0].stats.tx_packets;

	for (int i = 0; i < n; i++) {
		pair_record(&p, 0, 100);
		assert_true(pair_finish(&p, UCCL_NS_PER_S));
	}
	return p.side[0].stats.tx_packets - before;
}

/*
 * A peer whose host is busy gets what it has to do, not ever more questions why that is not done: many senders kept it
 * at nothing else. Paths are not blamed, and when it is quick again so are the time-outs. PROTOCOL R99
 */
TEST_IN(host__busy_peer_is_not_asked, NULL, end)
{
	struct pair_cfg c = pair_packets();

	pair_init(&p, &c);
	records(20);
	assert_true(tx()->loss.times.host_ns + tx()->loss.times.hostvar_ns == 0);
	p.side[1].host_ns = 20 * MS;
	records(10);
	assert_true(uccl_flow_rto(tx()) > 20 * MS && tx()->loss.times.srtt_ns < MS);
	assert_true(records(20) <= 40);
	assert_in_range(tx()->loss.times.host_ns, 15 * MS, 20 * MS);
	assert_int_equal(tx()->paths.list[0].state, UCCL_PATH_ACTIVE);
	p.side[1].host_ns = 0;
	records(100);
	assert_true(uccl_times_host_wait(&tx()->loss.times) < MS);
}

/* It computed for a while, once: that will not be so with the next. PROTOCOL R99 */
TEST_IN(host__one_pause_says_little, NULL, end)
{
	struct pair_cfg c = pair_packets();

	pair_init(&p, &c);
	records(20);
	for (int i = 0; i < 3; i++) {
		p.side[1].host_ns = 100 * MS;
		records(1);
		assert_true(uccl_times_host_wait(&tx()->loss.times) < 3 * MS);
		p.side[1].host_ns = 0;
		records(10);
	}
}

/* The peer reports this packet of ours, on the first path, 5 ms after it came. */
static void told_late(uint32_t seq)
{
	struct uccl_ack a = line(base(), 0, seq, p.now - 20 * US, (uint32_t)(5 * MS >> UCCL_TS_SHIFT));

	p.now += 5 * MS;
	assert_int_equal(take(&a), UCCL_DROP_COUNT);
}

/*
 * What asks for no answer is reported when there is something to say. How late that is says nothing of the peer's host.
 * PROTOCOL R99
 */
TEST_IN(host__not_of_what_asks_nothing, NULL, end)
{
	struct pair_cfg c = pair_packets();

	c.paths = 1;
	pair_init(&p, &c);
	for (int i = 0; i < 3; i++) {
		/* Two acknowledgements of ours, of which the second may be lost. */
		for (int k = 0; k < 2; k++) {
			pair_record(&p, 1, 100);
			assert_true(pair_finish(&p, UCCL_NS_PER_S));
		}
		told_late(tx()->paths.list[0].next_seq - 1 - (i != 1));
		assert_int_equal(uccl_times_host_wait(&tx()->loss.times), 0);
	}
	/* A question is answered at once. */
	uccl_flow_keepalive(tx(), p.now);
	pair_pump_one(&p, 0);
	told_late(tx()->paths.list[0].next_seq - 1);
	assert_true(uccl_times_host_wait(&tx()->loss.times) > 0);
}

/*
 * A peer that is off its core is silent, and nothing was lost: congestion control hears of no time-out. PROTOCOL R132
 */
TEST_IN(timeout__silence_is_no_loss, NULL, end)
{
	start_n(one_path(), 0);
	records(20);
	p.side[1].stopped = true;
	for (int i = 0; i < 10; i++)
		pair_record(&p, 0, 100);
	pair_run(&p, p.now + 100 * MS);
	assert_true(p.side[0].stats.rtos > 3);
	p.side[1].stopped = false;
	assert_true(pair_finish(&p, UCCL_NS_PER_S));
	assert_int_equal(say.losses[UCCL_LOSS_RTO], 0);
	assert_int_equal(say.losses[UCCL_LOSS_PROOF] + say.losses[UCCL_LOSS_RACK], 0);
	assert_int_equal(p.side[0].stats.rtx_packets, 0);
}

/* What the network delivers on a long way: with rails, all of them together. PROTOCOL R380 */
TEST_IN(ack_rx__long_way_of_rails, NULL, end)
{
	static struct uccl_rail rail;
	struct uccl_sent *e;
	struct uccl_ack a;

	for (int quick = 0; quick < 2; quick++) {
		if (quick)
			end(NULL);
		start_n(one_path(), 1);
		e = uccl_sent_at(&tx()->sent, base());
		tx()->loss.times.min_rtt_ns = 50 * UCCL_NS_PER_MS;
		tx()->train_bytes = 60000;
		tx()->train.wait.waits = 10;
		rail = (struct uccl_rail){.min_rtt_ns = UCCL_NEVER, .inflight = tx()->sent.inflight_bytes};
		rail.rate.mean_ns = UCCL_NS_PER_MS;
		rail.rate.mean_bytes = quick ? 30000 : 29000;
		tx()->policy.rail = &rail;
		p.now += 60 * UCCL_NS_PER_MS;
		a = line(base() + 1, 0, e->packet.pseq, e->sent_ns, 0);
		take(&a);
		tx()->policy.rail = NULL;
		tx()->train_bytes = 0;
		assert_int_equal(tx()->train.wait.waits, quick ? 10 : 9);
	}
}

/* What was lost in a row of time-outs is proven by the answer that ends it; the row is told once. PROTOCOL R132 */
TEST_IN(timeout__told_once_when_proven, NULL, end)
{
	struct pair_cfg c = pair_packets();

	c.cc = &spy;
	pair_init(&p, &c);
	records(20);
	for (int row = 1; row <= 2; row++) {
		for (int i = 0; i < 40; i++)
			pair_record(&p, 0, 100);
		assert_int_equal(pair_pump_one(&p, 0), 40);
		while (p.nwire)
			pair_lose(&p, 0);
		p.side[1].stopped = true;
		pair_run(&p, p.now + 100 * MS);
		p.side[1].stopped = false;
		assert_true(pair_finish(&p, UCCL_NS_PER_S));
		assert_int_equal(say.losses[UCCL_LOSS_RTO], row);
	}
}

/* The peer pauses, and one chunk of many is lost meanwhile. */
TEST_IN(timeout__one_loss_is_one_loss, NULL, end)
{
	struct pair_cfg c = pair_packets();

	c.cc = &spy;
	pair_init(&p, &c);
	records(20);
	for (int i = 0; i < 40; i++)
		pair_record(&p, 0, 100);
	assert_int_equal(pair_pump_one(&p, 0), 40);
	pair_lose(&p, 7);
	p.side[1].stopped = true;
	pair_run(&p, p.now + 100 * MS);
	p.side[1].stopped = false;
	assert_true(pair_finish(&p, UCCL_NS_PER_S));
	assert_int_equal(say.losses[UCCL_LOSS_RTO], 0);
	assert_int_equal(say.losses[UCCL_LOSS_PROOF] + say.losses[UCCL_LOSS_RACK], 1);
}

/* One lost chunk is one retransmission, wherever it was. */
TEST_IN(proof__one_for_one, NULL, end)
{
	for (uint32_t n = 1; n < 30; n++) {
		struct pair_cfg c = pair_packets();

		c.cc = &spy;
		pair_init(&p, &c);
		p.filter = lose_nth;
		p.arg = &n;
		pair_bulk(&p, 0, 100 * KIB);
		assert_true(pair_finish(&p, 10 * MS));
		assert_int_equal(p.side[0].stats.lost_proof, 1);
		assert_int_equal(p.side[0].stats.lost_rack, 0);
		assert_int_equal(p.side[0].stats.rtx_packets, 1);
		assert_int_equal(p.side[0].stats.probes, 0);
		assert_int_equal(p.side[0].stats.spurious, 0);
		assert_int_equal(p.side[1].f.rx.ack_tracker.dups, 0);
		assert_int_equal(say.losses[UCCL_LOSS_PROOF], 1);
		assert_int_equal(say.loss.bytes, 1024);
		pair_fini(&p);
	}
}

TEST_IN(proof__own_path_only, NULL, end)
{
	struct uccl_ack a;

	start_n(pair_packets(), 100);
	assert_int_equal(uccl_sent_at(&tx()->sent, base())->path, 0);
	assert_int_equal(uccl_sent_at(&tx()->sent, base() + 24)->path, 3);
	a = line(base(), 3, 1, p.now, UINT32_MAX);
	a.nwords = 1;
	a.sack[0] = 1ull << 23; /* base + 24: on path 3 */
	take(&a);
	assert_int_equal(p.side[0].stats.lost_proof, 0);
	a = line(base(), 0, 2, p.now, UINT32_MAX);
	take(&a);
	assert_int_equal(p.side[0].stats.lost_proof, 1);
	assert_int_equal(uccl_sent_at(&tx()->sent, base())->state, UCCL_SENT_LOST);
}

/* Nothing below an acknowledged chunk: nothing to prove, even if packets that are no chunks arrived later. */
TEST_IN(proof__tolerance_edge, NULL, end)
{
	struct uccl_ack a;

	start_n(one_path(), 10);
	tx()->loss.rack.reorder_packets = 4;
	tx()->loss.rack.keep_until_ns = UCCL_NEVER;
	a = line(base(), 0, 5, p.now, UINT32_MAX);
	a.nwords = 1;
	a.sack[0] = 1 << 3; /* base + 4 has number 5: four later than number 1 */
	take(&a);
	assert_int_equal(p.side[0].stats.lost_proof, 0);
	a = line(base(), 0, 6, p.now, UINT32_MAX);
	a.nwords = 1;
	a.sack[0] = 3 << 3;
	take(&a);
	assert_int_equal(p.side[0].stats.lost_proof, 1);
}

/* A retransmission that is lost is proven lost like anything else, and only then sent again. */
TEST_IN(proof__lost_again, NULL, end)
{
	struct uccl_ack a;

	start_n(one_path(), 10);
	a = line(base(), 0, 10, p.now, UINT32_MAX);
	a.nwords = 1;
	a.sack[0] = 0x1ff;
	take(&a);
	assert_int_equal(p.side[0].stats.lost_proof, 1);
	assert_int_equal(pair_pump_one(&p, 0), 1); /* number 11 */
	assert_int_equal(uccl_sent_at(&tx()->sent, base())->ntx, 2);
	/* The same news again: it was sent after that. */
	take(&a);
	a.paths[0].seq = 11;
	take(&a);
	assert_int_equal(p.side[0].stats.lost_proof, 1);
	pair_record(&p, 0, 10); /* number 12 */
	pair_pump_one(&p, 0);
	a.paths[0].seq = 12;
	take(&a);
	assert_int_equal(p.side[0].stats.lost_proof, 2);
	assert_int_equal(pair_pump_one(&p, 0), 1);
}

TEST_IN(proof__writes, NULL, end)
{
	struct pair_cfg c = pair_direct();
	struct uccl_ack a;

	c.paths = 2;
	c.cc = &spy;
	c.write_bytes = 32 * KIB;
	pair_init(&p, &c);
	pair_bulk(&p, 0, 192 * KIB); /* descriptor, then writes +1 .. +6 over paths 0 1 0 1 0 1 */
	pair_pump_one(&p, 0);
	assert_int_equal(uccl_sent_at(&tx()->sent, base() + 1)->path, 0);
	assert_int_equal(uccl_sent_at(&tx()->sent, base() + 2)->path, 1);
	a = line(base() + 1, 0, (uint32_t)base() + 3, 0, 0);
	a.paths[0].write = true;
	a.nwords = 1;
	a.sack[0] = 1 << 1; /* +3 */
	take(&a);
	assert_int_equal(p.side[0].stats.lost_proof, 1);
	assert_int_equal(uccl_sent_at(&tx()->sent, base() + 1)->state, UCCL_SENT_LOST);
	assert_int_equal(uccl_sent_at(&tx()->sent, base() + 2)->state, UCCL_SENT_INFLIGHT);
	/* It came, but is held until its descriptor does: the line names it, the bitmap does not. */
	a = line(base() + 1, 1, (uint32_t)base() + 4, 0, 0);
	a.paths[0].write = true;
	a.nwords = 1;
	a.sack[0] = 1 << 3; /* +5 */
	take(&a);
	assert_int_equal(uccl_sent_at(&tx()->sent, base() + 2)->state, UCCL_SENT_LOST);
	assert_int_equal(uccl_sent_at(&tx()->sent, base() + 4)->state, UCCL_SENT_INFLIGHT);
}

/*
 * A write is lost, and of the segments in which it comes again, the first time, this one. The others may wait, and so
 * may what is behind them.
 */
static uint64_t segments_wait_ns;

static void lose_write_and_segment(struct pair *q, struct pair_pkt *k)
{
	static uint32_t segments;

	if (k->to != 1)
		return;
	if (k->kind == UCCL_RX_WRITE && ++q->count == 5) {
		k->fate = PAIR_DROP;
		segments = 0;
	}
	if (k->kind != UCCL_RX_PACKET || (k->h.type != UCCL_PKT_SEGMENT && k->h.type != UCCL_PKT_PROBE))
		return;
	k->due += segments_wait_ns;
	if (k->h.type == UCCL_PKT_SEGMENT && segments++ == *(uint32_t *)q->arg)
		k->fate = PAIR_DROP;
}

/*
 * Behind the one that is lost another one is named: it leaves again, alone. Behind the last one the PROBE is. So no
 * timer is waited for. PROTOCOL R171 R410
 */
TEST_IN(proof__segment_of_a_write, NULL, end)
{
	for (uint32_t i = 0; i < 8; i++) {
		struct pair_cfg c = pair_direct();
		uint32_t n = i % 4;

		segments_wait_ns = i < 4 ? 0 : 10 * US;
		pair_init(&p, &c);
		p.filter = lose_write_and_segment;
		p.arg = &n;
		pair_bulk(&p, 0, 128 * KIB);
		assert_true(pair_finish(&p, 20 * MS));
		assert_int_equal(p.side[0].stats.rtx_packets, 5);
		assert_int_equal(p.side[0].stats.lost_proof, 2);
		/* If the segments take longer than the write may, their chunk is asked for once. */
		assert_int_equal(p.side[0].stats.probes, segments_wait_ns ? 1 : 0);
		pair_fini(&p);
	}
}

/* Reordering inside a path looks like loss once; then it is tolerated; then that is forgotten. */
TEST_IN(reorder__learnt_and_forgotten, NULL, end)
{
	struct pair_cfg c = one_path();
	uint32_t n = 5;
	uint64_t spurious = 0;

	c.cc = &spy;
	pair_init(&p, &c);
	p.filter = delay_nth;
	p.arg = &n;
	pair_bulk(&p, 0, 8 * KIB);
	assert_true(pair_finish(&p, 10 * MS));
	pair_run(&p, p.now + MS);
	pair_record(&p, 0, 1);
	assert_true(pair_finish(&p, 10 * MS));
	assert_int_equal(p.side[0].stats.rtx_packets, 1);
	assert_int_equal(p.side[0].stats.spurious, 1);
	assert_int_equal(tx()->loss.rack.reorder_packets, 2);
	assert_true(tx()->loss.rack.reorder_ns > 0);
	/* The late chunk is overtaken by 55: a few times until that much is tolerated. */
	for (int i = 0; i < 10; i++) {
		if (i == 7)
			spurious = p.side[0].stats.spurious;
		p.count = 0;
		pair_bulk(&p, 0, 60 * KIB);
		assert_true(pair_finish(&p, 10 * MS));
		pair_record(&p, 0, 1);
		assert_true(pair_finish(&p, 10 * MS));
	}
	assert_int_equal(p.side[0].stats.spurious, spurious);
	/* Quiet traffic for a while: exact again. */
	p.filter = NULL;
	for (int i = 0; i < 200; i++) {
		pair_record(&p, 0, 1);
		assert_true(pair_finish(&p, 10 * MS));
		pair_run(&p, p.now + MS);
	}
	assert_int_equal(tx()->loss.rack.reorder_packets, 0);
	assert_int_equal(tx()->loss.rack.reorder_ns, 0);
}

TEST_IN(reorder__bounded, NULL, end)
{
	struct uccl_ack a;

	start_n(one_path(), 5);
	a = line(base(), 0, 1, p.now - 100 * US, 0);
	take(&a);
	for (uint32_t i = 1; i < 40; i++) {
		a = pair_ack(&p, 0, base());
		a.dups = i;
		take(&a);
		assert_true(tx()->loss.rack.reorder_packets <= UCCL_RACK_PKTS_MAX);
		assert_true(tx()->loss.rack.reorder_ns <= 2 * tx()->loss.times.srtt_ns);
	}
	assert_int_equal(tx()->loss.rack.reorder_packets, UCCL_RACK_PKTS_MAX);
	assert_int_equal(tx()->loss.rack.reorder_ns, 2 * tx()->loss.times.srtt_ns);
	assert_int_equal(p.side[0].stats.spurious, 39);
	/* An older count that comes late. */
	a.dups = 3;
	take(&a);
	assert_int_equal(tx()->loss.rack.dups, 39);
	assert_int_equal(p.side[0].stats.spurious, 39);
}

/* Path 0 has one chunk in flight, path 1 more; those of path 1 arrive. */
static void rack_start(void)
{
	struct pair_cfg c = pair_packets();

	c.paths = 2;
	c.cc = &spy;
	pair_init(&p, &c);
	/* Both paths get an RTT sample of 20 us. */
	pair_bulk(&p, 0, 64 * KIB);
	assert_true(pair_finish(&p, 10 * MS));
	pair_run(&p, p.now + MS);
	assert_in_range(tx()->loss.times.srtt_ns, 19 * US, 23 * US);
}

static void lose_path0_chunks(struct pair *q, struct pair_pkt *k)
{
	if (k->to == 1 && k->path == 0 && k->h.type == UCCL_PKT_CHUNK)
		k->fate = PAIR_DROP;
}

TEST_IN(rack__later_on_another_path, NULL, end)
{
	struct uccl_sent *e;
	uint64_t sent, due;

	rack_start();
	p.filter = lose_path0_chunks;
	tx()->paths.burst.left = 0;
	pair_bulk(&p, 0, 33 * KIB);
	pair_pump(&p);
	e = uccl_sent_at(&tx()->sent, tx()->sent.una);
	assert_int_equal(e->path, 0);
	sent = e->sent_ns;
	/* The last chunk goes over path 1, a little later: with it time can tell. */
	while (!p.side[0].stats.lost_rack && p.side[0].stats.probes == 0)
		assert_true(pair_step(&p));
	p.filter = NULL;
	assert_true(pair_finish(&p, 10 * MS));
	due = sent + 20 * US;
	assert_true(p.now > due);
}

/* So many records, each on another path than the one before; none arrives. Returns the first one's CSN. */
static uint64_t soon_start(int n, uint64_t gap_ns)
{
	uint64_t first;

	rack_start();
	first = tx()->sent.nxt;
	tx()->loss.rack.learnt = true;
	for (int i = 0; i < n; i++) {
		tx()->paths.burst.left = 0;
		pair_record(&p, 0, 100);
		pair_pump_one(&p, 0);
		p.now += gap_ns;
	}
	while (p.nwire)
		pair_lose(&p, 0);
	p.now += 20 * US;
	return first;
}

/* A block that tells of these behind the first, but only of the path of the one behind it. */
static void soon_take(uint64_t first, uint64_t sack)
{
	const struct uccl_sent *next = uccl_sent_at(&tx()->sent, first + 1);
	struct uccl_ack a = line(first, next->path, next->packet.pseq, next->sent_ns, 0);

	a.nwords = 1;
	a.sack[0] = sack;
	take(&a);
}

/* Where nothing came out of order lately three later ones are enough, in the same instant. PROTOCOL R244 */
TEST_IN(soon__behind_three, NULL, end)
{
	uint64_t first = soon_start(5, 0);
	const struct uccl_sent *e = uccl_sent_at(&tx()->sent, first);

	assert_int_not_equal(e->path, uccl_sent_at(&tx()->sent, first + 1)->path);
	soon_take(first, 3);
	assert_int_equal(e->state, UCCL_SENT_INFLIGHT);
	soon_take(first, 7);
	assert_int_equal(e->state, UCCL_SENT_LOST);
	assert_int_equal(uccl_sent_at(&tx()->sent, first + 4)->state, UCCL_SENT_INFLIGHT);
	assert_int_equal(p.side[0].stats.lost_rack, 1);
}

/* Where something did it is a matter of time, and of more of it the later that was. PROTOCOL R244 */
TEST_IN(soon__later_than_usual, NULL, end)
{
	uint64_t first = soon_start(7, 4 * US), least;
	const struct uccl_sent *e = uccl_sent_at(&tx()->sent, first);

	least = tx()->loss.times.min_rtt_ns / 4;
	assert_in_range(least, 4 * US + 1, 6 * US);
	/* What came out of order before: 4 us, so 8 us and the margin. Three later ones say nothing then. */
	tx()->loss.rack.late_ns[1] = 4 * US;
	soon_take(first, 7);
	assert_int_equal(e->state, UCCL_SENT_INFLIGHT);
	assert_int_equal(tx()->loss.rack.late_ns[0], 0);
	soon_take(first, 7 | 1 << 4);
	assert_int_equal(e->state, UCCL_SENT_LOST);
	/* One between them comes after all: it was late, by as much as the last one had left later. */
	assert_int_equal(uccl_sent_at(&tx()->sent, first + 4)->state, UCCL_SENT_INFLIGHT);
	soon_take(first, 7 | 1 << 4 | 1 << 3);
	assert_int_equal(tx()->loss.rack.late_ns[0], 4 * US);
	assert_int_equal(p.side[0].stats.lost_rack, 1);
}

/* Segments of a chunk leave one after the other: that one came says nothing of the others. PROTOCOL R244 */
TEST_IN(soon__not_by_its_own_segments, NULL, end)
{
	uint64_t first = soon_start(1, 0), least;
	const struct uccl_sent *e = uccl_sent_at(&tx()->sent, first);
	struct uccl_ack a;

	least = uccl_rack_soon(&tx()->loss.rack, &tx()->loss.times);
	assert_in_range(least, 1, uccl_rack_wait(&tx()->loss.rack, &tx()->paths.list[e->path], &tx()->loss.times) - 65);
	a = line(first, e->path, e->packet.pseq, e->sent_ns + least + 64, 0);
	take(&a);
	assert_true(tx()->loss.rack.reported_ns >= e->sent_ns + least);
	assert_int_equal(e->state, UCCL_SENT_INFLIGHT);
}

/* Of a flow that has not seen enough nothing is known. */
TEST_IN(soon__not_yet, NULL, end)
{
	uint64_t first = soon_start(5, 0);

	tx()->loss.rack.learnt = false;
	soon_take(first, 15);
	assert_int_equal(uccl_sent_at(&tx()->sent, first)->state, UCCL_SENT_INFLIGHT);
}

/*
 * So much later something must have left that proves its loss: it took the shortest round trip itself. And it must be
 * late enough by the clock that the answer echoes.
 */
static uint64_t rack_when(const struct uccl_sent *e, uint64_t margin)
{
	const struct uccl_path *path = &tx()->paths.list[e->path];
	const struct uccl_times *t = &tx()->loss.times;
	uint64_t var = uccl_min(path->rttvar_ns, t->rttvar_ns);
	uint64_t vars = uccl_max(path->srtt_ns, t->srtt_ns) < 2 * t->min_rtt_ns ? 1 : 2;
	uint64_t way = uccl_max(path->srtt_ns + vars * var, t->srtt_ns + 2 * vars * t->rttvar_ns);

	return uccl_ts_ceil(e->sent_ns + way + margin - t->min_rtt_ns) -
	       e->sent_ns;
}

/*
 * By hand: its path is asked when its own RTT and variation have passed, a path that works a wait later, and it is lost
 * when something arrived that was sent later than that; the clock alone never decides. PROTOCOL R53
 */
TEST_IN(rack__when, NULL, end)
{
	struct uccl_sent *e;
	struct uccl_ack a;
	uint64_t first = 0, due, wait;
	const struct uccl_times *t;

	rack_start();
	t = &tx()->loss.times;
	first = tx()->sent.nxt;
	tx()->paths.burst.left = 0;
	pair_record(&p, 0, 100);
	pair_pump_one(&p, 0);
	tx()->paths.burst.left = 0;
	p.now += 64;
	pair_record(&p, 0, 100);
	pair_pump_one(&p, 0);
	e = uccl_sent_at(&tx()->sent, first);
	assert_int_not_equal(e->path, uccl_sent_at(&tx()->sent, first + 1)->path);
	/* It is not overdue by then. */
	tx()->loss.times.rttvar_ns = 20 * US;
	p.now += 20 * US;
	a = line(first, uccl_sent_at(&tx()->sent, first + 1)->path, uccl_sent_at(&tx()->sent, first + 1)->packet.pseq,
		 uccl_sent_at(&tx()->sent, first + 1)->sent_ns, 0);
	a.nwords = 1;
	a.sack[0] = 1;
	take(&a);
	assert_int_equal(e->state, UCCL_SENT_INFLIGHT);
	wait = rack_when(e, t->min_rtt_ns / 4);
	/* Nothing else will leave, so the first one leaves after the shortest round trip and its quarter. */
	due = e->sent_ns + uccl_min(wait, t->min_rtt_ns + t->min_rtt_ns / 4);
	assert_int_equal(tx()->loss.rack.at, due);
	/* The tail probe, which asks too, is not run. */
	tx()->loss.pto.at = UCCL_NEVER - 1;
	assert_int_equal(uccl_flow_expiry(tx()), due);
	uccl_flow_expire(tx(), due - 1);
	assert_false(tx()->paths.list[e->path].probe_due);
	p.now = due;
	flow_detect(tx(), p.now);
	assert_int_equal(e->state, UCCL_SENT_INFLIGHT);
	assert_true(tx()->paths.list[e->path].probe_due);
	assert_int_equal(tx()->loss.rack.at, e->sent_ns + 2 * wait);
	/* A slower path waits longer. (The other timers, which ask too, are not run from here on.) */
	tx()->paths.list[e->path].srtt_ns += 64 * US;
	wait = rack_when(e, t->min_rtt_ns / 4);
	flow_detect(tx(), p.now);
	assert_int_equal(tx()->loss.rack.at, e->sent_ns + 2 * wait);
	/* So does one that learnt of reordering. */
	tx()->loss.rack.reorder_ns = tx()->loss.times.min_rtt_ns / 4 + 32 * US;
	tx()->loss.rack.keep_until_ns = UCCL_NEVER;
	wait += 32 * US;
	flow_detect(tx(), p.now);
	assert_int_equal(tx()->loss.rack.at, e->sent_ns + 2 * wait);
	assert_false(tx()->paths.list[tx()->paths.alive].probe_due);
	p.now = tx()->loss.rack.at;
	flow_detect(tx(), p.now);
	assert_int_equal(tx()->paths.alive, uccl_sent_at(&tx()->sent, first + 1)->path);
	assert_true(tx()->paths.list[tx()->paths.alive].probe_due);
	assert_int_equal(tx()->loss.rack.at, UCCL_NEVER);
	assert_int_equal(e->state, UCCL_SENT_INFLIGHT);
	flow_detect(tx(), p.now + UCCL_NS_PER_S);
	assert_int_equal(e->state, UCCL_SENT_INFLIGHT);
	/* News of what left just less than a wait later, then of the question. */
	pair_pump_one(&p, 0);
	a = line(first, tx()->paths.alive, tx()->paths.list[tx()->paths.alive].next_seq - 2, e->sent_ns + wait - 64,
		 UINT32_MAX);
	a.nwords = 1;
	a.sack[0] = 1;
	tx()->paths.list[tx()->paths.alive].next_seq++;
	a.paths[0].seq++;
	take(&a);
	assert_int_equal(e->state, UCCL_SENT_INFLIGHT);
	a.paths[0].seq++;
	a.paths[0].echo = uccl_ts(p.now);
	a.paths[0].delay = 0;
	p.now += 20 * US;
	take(&a);
	assert_int_equal(e->state, UCCL_SENT_LOST);
	assert_int_equal(p.side[0].stats.lost_rack, 1);
	assert_int_equal(say.losses[UCCL_LOSS_RACK], 1);
	assert_int_equal(say.loss.path, e->path);
}

/* Two records on two paths, and the second one arrives. `more`: payload waits behind them. Returns the first one. */
static struct uccl_sent *overtaken(bool more)
{
	uint64_t first;
	struct uccl_ack a;

	rack_start();
	/* The least round trip is shorter than the usual one. */
	tx()->loss.times.min_rtt_ns = 8 * US;
	first = tx()->sent.nxt;
	for (int i = 0; i < 2; i++) {
		tx()->paths.burst.left = 0;
		pair_record(&p, 0, 100);
		pair_pump_one(&p, 0);
		p.now += 64;
	}
	if (more)
		pair_bulk(&p, 0, 64 * KIB);
	a = line(first, uccl_sent_at(&tx()->sent, first + 1)->path, uccl_sent_at(&tx()->sent, first + 1)->packet.pseq,
		 uccl_sent_at(&tx()->sent, first + 1)->sent_ns, 0);
	a.nwords = 1;
	a.sack[0] = 1;
	p.now += 9 * US;
	take(&a);
	return uccl_sent_at(&tx()->sent, first);
}

/* The path of `e` is asked at `due` and not before, and `e` is not lost yet. */
static void asked_at(const struct uccl_sent *e, uint64_t due)
{
	const struct uccl_path *path = &tx()->paths.list[e->path];

	assert_int_equal(tx()->loss.rack.at, due);
	flow_detect(tx(), due - 1);
	assert_false(path->probe_due);
	flow_detect(tx(), due);
	assert_true(path->probe_due);
	assert_int_equal(e->state, UCCL_SENT_INFLIGHT);
}

/* Of the last ones nothing later will tell, so the path is asked after the shortest time. PROTOCOL R399 */
TEST_IN(rack_ask__nothing_waits, NULL, end)
{
	const struct uccl_sent *e = overtaken(false);

	asked_at(e, e->sent_ns + tx()->loss.times.min_rtt_ns * 5 / 4);
}

/* While payload waits the path is asked by the round trips of the flow, not by what a few samples of the path say. */
TEST_IN(rack_ask__more_waits, NULL, end)
{
	const struct uccl_sent *e = overtaken(true);
	struct uccl_path *path = &tx()->paths.list[e->path];
	const struct uccl_times *t = &tx()->loss.times;

	path->rttvar_ns = path->srtt_ns / 2;
	flow_detect(tx(), p.now);
	asked_at(e, e->sent_ns + t->srtt_ns + 2 * t->rttvar_ns + t->min_rtt_ns / 4);
}

/*
 * Two that left in the same instant: the arrival of one says nothing about the other, however the coarse time that the
 * acknowledgement echoes and the time of its arrival are rounded.
 */
TEST_IN(rack__same_instant, NULL, end)
{
	const struct uccl_sent *next;
	struct uccl_ack a;
	uint64_t first;

	for (unsigned int digits = 0; digits < 64; digits += 7) {
		rack_start();
		first = tx()->sent.nxt;
		p.now += digits;
		for (int i = 0; i < 2; i++) {
			tx()->paths.burst.left = 0;
			pair_record(&p, 0, 100);
			pair_pump_one(&p, 0);
		}
		assert_int_equal(uccl_sent_at(&tx()->sent, first)->sent_ns,
				 uccl_sent_at(&tx()->sent, first + 1)->sent_ns);
		p.now += 20 * US + 63;
		next = uccl_sent_at(&tx()->sent, first + 1);
		a = line(first, next->path, next->packet.pseq, next->sent_ns, 0);
		a.nwords = 1;
		a.sack[0] = 1;
		take(&a);
		assert_int_equal(tx()->loss.rack.at, UCCL_NEVER);
		flow_detect(tx(), p.now + UCCL_NS_PER_S);
		assert_int_equal(uccl_sent_at(&tx()->sent, first)->state, UCCL_SENT_INFLIGHT);
		pair_fini(&p);
	}
}

/* Sent again less than an RTT ago: only something sent after that can tell of it. */
TEST_IN(rack__recency, NULL, end)
{
	uint64_t first, again;
	struct uccl_sent *e;
	struct uccl_ack a;

	rack_start();
	first = tx()->sent.nxt;
	for (int i = 0; i < 3; i++) {
		tx()->paths.burst.left = 0;
		pair_record(&p, 0, 100);
		pair_pump_one(&p, 0);
		p.now += 200 * US;
	}
	while (p.nwire)
		pair_lose(&p, 0);
	e = uccl_sent_at(&tx()->sent, first);
	/* first on path a, first + 1 on b, first + 2 on a. */
	a = line(first, uccl_sent_at(&tx()->sent, first + 1)->path, uccl_sent_at(&tx()->sent, first + 1)->packet.pseq,
		 uccl_sent_at(&tx()->sent, first + 1)->sent_ns, (uint32_t)(480 * US >> UCCL_TS_SHIFT));
	a.nwords = 1;
	a.sack[0] = 1;
	p.now += 100 * US;
	take(&a);
	assert_int_equal(e->state, UCCL_SENT_LOST);
	assert_int_equal(uccl_sent_at(&tx()->sent, first + 2)->state, UCCL_SENT_INFLIGHT);
	tx()->paths.burst.left = 0;
	pair_pump_one(&p, 0);
	again = e->sent_ns;
	assert_int_equal(again, p.now);
	assert_int_equal(p.side[0].stats.rtx_packets, 1);
	/* News of something older than the retransmission, however late. */
	p.now += 10 * US;
	a.sack[0] = 3;
	take(&a);
	assert_int_equal(e->state, UCCL_SENT_INFLIGHT);
	assert_true(tx()->loss.rack.at == UCCL_NEVER);
	p.now += 300 * US;
	take(&a);
	assert_int_equal(e->state, UCCL_SENT_INFLIGHT);
	assert_int_equal(p.side[0].stats.lost_rack, 1);
}

static void lose_tail(struct pair *q, struct pair_pkt *k)
{
	if (k->to == 1 && k->h.type == UCCL_PKT_CHUNK && !(k->h.flags & UCCL_FLAG_RTX) && ++q->count > 20)
		k->fate = PAIR_DROP;
}

/* The end of a transfer is lost: one probe, whose answer speaks for all of it, whatever the clock's last digits. */
TEST_IN(rack__answer_to_a_probe, NULL, end)
{
	for (unsigned int digits = 0; digits < 64; digits += 7) {
		struct pair_cfg c = pair_packets();

		c.cc = &spy;
		c.delay_ns += digits * 3;
		pair_init(&p, &c);
		p.now += digits;
		p.filter = lose_tail;
		pair_bulk(&p, 0, 30 * KIB);
		assert_true(pair_finish(&p, 10 * MS));
		assert_int_equal(p.side[0].stats.probes, 1);
		assert_int_equal(p.side[0].stats.rtos, 0);
		assert_int_equal(p.side[0].stats.rtx_packets, 10);
		assert_int_equal(p.side[1].f.rx.ack_tracker.dups, 0);
		pair_fini(&p);
	}
}

TEST_IN(rack__answer_to_a_probe_direct, NULL, end)
{
	struct pair_cfg c = pair_direct();

	for (unsigned int digits = 0; digits < 64; digits += 9) {
		pair_init(&p, &c);
		p.now += digits;
		pair_bulk(&p, 0, 40 * KIB);
		pair_pump_one(&p, 0);
		/* The last three writes. */
		for (int n = 0; n < 3; n++)
			for (uint32_t i = p.nwire; i-- > 0;)
				if (p.wire[i]->kind == UCCL_RX_WRITE) {
					pair_lose(&p, i);
					break;
				}
		assert_true(pair_finish(&p, 20 * MS));
		assert_int_equal(p.side[0].stats.probes, 1);
		assert_int_equal(p.side[0].stats.rtx_packets, 12);
		pair_fini(&p);
	}
}

/*
 * A write that later ones on other paths overtook. No packet on its own path says anything of it, so the first question
 * goes where it works, and its answer convicts: nobody waits for a time-out. PROTOCOL R256
 */
TEST_IN(rack_ask__for_a_write, NULL, end)
{
	struct pair_cfg c = pair_direct();

	for (unsigned int digits = 0; digits < 64; digits += 7) {
		uint32_t lost = 0;
		uint16_t path;

		c.delay_ns = 10 * US + digits * 3;
		pair_init(&p, &c);
		p.now += digits;
		pair_bulk(&p, 0, 64 * KIB);
		assert_true(pair_finish(&p, 20 * MS));
		/* Round trips are known now, and nothing is in flight. */
		pair_bulk(&p, 0, (c.paths + 1) * 4 * KIB);
		pair_pump_one(&p, 0);
		/* The first write whose path carries no later one. */
		for (uint32_t i = 0; i < p.nwire && !lost; i++) {
			bool again = false;

			path = p.wire[i]->path;
			for (uint32_t j = i + 1; j < p.nwire; j++)
				again |= p.wire[j]->kind == UCCL_RX_WRITE && p.wire[j]->path == path;
			if (p.wire[i]->kind != UCCL_RX_WRITE || again)
				continue;
			pair_lose(&p, i);
			lost++;
		}
		assert_int_equal(lost, 1);
		p.now += US;
		pair_record(&p, 0, 100);
		assert_true(pair_finish(&p, 20 * MS));
		assert_int_equal(p.side[0].stats.lost_rack, 1);
		/* The probe for the tail may have left meanwhile, which waits no longer than that: R243. */
		assert_true(p.side[0].stats.probes <= 1);
		pair_fini(&p);
	}
}

/* Of two writes that left on two paths the second came; it is asked for the first one, and the question leaves. */
static struct uccl_sent *write_asked_for(void)
{
	struct pair_cfg c = pair_direct();
	struct uccl_sent *e;
	struct uccl_ack a;
	uint64_t late;

	c.paths = 2;
	c.write_bytes = 32 * KIB;
	pair_init(&p, &c);
	pair_bulk(&p, 0, 64 * KIB);
	assert_true(pair_finish(&p, 20 * MS));
	late = tx()->sent.nxt + 1;
	pair_bulk(&p, 0, 64 * KIB); /* descriptor, and a write on each path */
	pair_pump_one(&p, 0);
	e = uccl_sent_at(&tx()->sent, late);
	assert_int_equal(tx()->sent.nxt, late + 2);
	assert_int_not_equal(e->path, uccl_sent_at(&tx()->sent, late + 1)->path);
	e->sent_ns -= US;
	p.now += 20 * US;
	/* Queues are long, so all variations count. */
	tx()->loss.times.min_rtt_ns = 4 * US;
	a = line(late, uccl_sent_at(&tx()->sent, late + 1)->path, (uint32_t)late + 1, 0, 0);
	a.paths[0].write = true;
	a.nwords = 1;
	a.sack[0] = 1;
	take(&a);
	p.now = tx()->loss.rack.at;
	flow_detect(tx(), p.now);
	assert_int_equal(e->overdue, 1);
	assert_true(tx()->paths.list[tx()->paths.alive].probe_due);
	tx()->paths.list[tx()->paths.alive].probe_due = false;
	tx()->paths.probes_due = 0;
	return e;
}

/* Later ones came, but of a write that only its path's RTT tells. PROTOCOL R244 */
TEST_IN(soon__not_of_a_write, NULL, end)
{
	struct uccl_sent *e = write_asked_for();

	tx()->loss.rack.learnt = true;
	tx()->loss.rack.newest_ns = e->sent_ns + MS;
	flow_detect(tx(), p.now);
	assert_int_equal(e->state, UCCL_SENT_INFLIGHT);
}

/* The wait may have grown while the question was under way: then it is asked once more at once. PROTOCOL R256 */
TEST_IN(rack_ask__too_early, NULL, end)
{
	struct uccl_sent *e = write_asked_for();

	tx()->paths.list[e->path].srtt_ns += 3 * US;
	tx()->loss.times.srtt_ns += 3 * US;
	flow_detect(tx(), p.now + US);
	assert_int_equal(e->overdue, 1);
	assert_in_range(tx()->loss.rack.at, p.now + 3 * US - 64, p.now + 3 * US + 64);
	p.now = tx()->loss.rack.at;
	flow_detect(tx(), p.now);
	assert_int_equal(e->overdue, 2);
	assert_true(tx()->paths.list[tx()->paths.alive].probe_due);
	/* This question is late enough, so there is no third one, */
	flow_detect(tx(), p.now + 10 * US);
	assert_int_equal(tx()->loss.rack.at, UCCL_NEVER);
	/* unless the wait grows again. */
	tx()->paths.list[tx()->paths.alive].probe_due = false;
	tx()->paths.probes_due = 0;
	tx()->paths.list[e->path].srtt_ns += 30 * US;
	tx()->loss.times.srtt_ns += 30 * US;
	flow_detect(tx(), p.now + 10 * US);
	assert_in_range(tx()->loss.rack.at, p.now + 30 * US - 64, p.now + 30 * US + 64);
	flow_detect(tx(), tx()->loss.rack.at);
	assert_true(tx()->paths.list[tx()->paths.alive].probe_due);
}

/* The question may be lost: it is repeated after another wait. */
TEST_IN(rack_ask__lost_too, NULL, end)
{
	struct uccl_sent *e = write_asked_for();

	flow_detect(tx(), p.now + US);
	assert_int_equal(e->overdue, 1);
	assert_int_equal(tx()->loss.rack.at, e->sent_ns + 2 * (p.now - e->sent_ns));
	p.now = tx()->loss.rack.at;
	flow_detect(tx(), p.now);
	assert_int_equal(e->overdue, 2);
	assert_true(tx()->paths.list[tx()->paths.alive].probe_due);
}

/*
 * The last chunk of all: nothing behind it will be acknowledged. But something that left long after it on
 * another path is reported, a packet without payload, and speaks for it. PROTOCOL R53
 */
TEST_IN(rack__last_of_all, NULL, end)
{
	struct uccl_sent *e;
	struct uccl_ack a;

	rack_start();
	tx()->paths.burst.left = 0;
	pair_record(&p, 0, 100);
	pair_pump_one(&p, 0);
	while (p.nwire)
		pair_lose(&p, 0);
	e = uccl_sent_at(&tx()->sent, tx()->sent.una);
	p.now += 100 * US;
	a = line(tx()->sent.una, (uint16_t)!e->path, tx()->paths.list[!e->path].next_seq, p.now, 0);
	tx()->paths.list[!e->path].next_seq++;
	p.now += 20 * US;
	take(&a);
	assert_int_equal(e->state, UCCL_SENT_LOST);
	assert_int_equal(p.side[0].stats.lost_rack, 1);
	assert_int_equal(p.side[0].stats.probes, 0);
}

/* Many late ones, each at its own time: a question's answer speaks for all that were late then. PROTOCOL R55 */
TEST_IN(rack_ask__one_question_for_all, NULL, end)
{
	const uint64_t n = 32;
	uint64_t first;
	struct uccl_sent *last;
	struct uccl_ack a;
	int questions = 0;

	rack_start();
	first = tx()->sent.nxt;
	for (uint64_t i = 0; i < n; i++) {
		p.now += US;
		tx()->paths.burst.left = 0;
		pair_record(&p, 0, 100);
		pair_pump_one(&p, 0);
	}
	while (p.nwire)
		pair_lose(&p, 0);
	/* Of the last one's path nothing else is missing. */
	last = uccl_sent_at(&tx()->sent, first + n - 1);
	for (uint64_t i = 0; i < n - 1; i++)
		if (uccl_sent_at(&tx()->sent, first + i)->path == last->path)
			uccl_sent_at(&tx()->sent, first + i)->path = (uint16_t)((last->path + 1) % p.cfg.paths);
	p.now += 20 * US;
	a = line(first, last->path, last->packet.pseq, last->sent_ns, 0);
	a.nwords = 1;
	a.sack[0] = 1ull << (n - 2);
	take(&a);
	while (tx()->loss.rack.at != UCCL_NEVER) {
		p.now = uccl_max(p.now, tx()->loss.rack.at);
		flow_detect(tx(), p.now);
		questions += tx()->paths.list[tx()->paths.alive].probe_due;
		pair_pump_one(&p, 0);
		while (p.nwire)
			pair_lose(&p, 0);
	}
	assert_int_equal(tx()->paths.alive, last->path);
	assert_in_range(questions, 1, 3);
}

/* One block with news arrives at side 0, which owes nothing; what it says in return. */
static int reports(uint64_t after_ns, uint32_t backoff)
{
	struct uccl_hdr h = {.type = UCCL_PKT_ACK};
	struct uccl_ack a;
	int n;

	pair_record(&p, 0, 10);
	pair_pump_one(&p, 0);
	while (p.nwire)
		pair_lose(&p, 0);
	p.now += after_ns;
	tx()->loss.pto.backoff = backoff;
	a = pair_ack(&p, 0, tx()->sent.nxt);
	pair_feed(&p, 0, &h, NULL, &a);
	n = pair_pump_one(&p, 0);
	if (n)
		assert_int_equal(p.wire[0]->h.type, UCCL_PKT_ACK);
	while (p.nwire)
		pair_lose(&p, 0);
	return n;
}

/* Acknowledgements are reported, so that their sender knows its paths; not more often than once in a millisecond. */
TEST_IN(report__of_acknowledgements, NULL, end)
{
	struct pair_cfg c = pair_packets();

	pair_init(&p, &c);
	assert_int_equal(reports(10 * US, 0), 0);
	assert_int_equal(reports(MS, 0), 1);
	assert_int_equal(reports(10 * US, 0), 0);
	assert_int_equal(reports(MS - 11 * US, 0), 0);
	assert_int_equal(reports(US, 0), 1);
	/* Nor more often than once per RTT. */
	tx()->loss.times.srtt_ns = 3 * MS;
	assert_int_equal(reports(2 * MS, 0), 0);
	assert_int_equal(reports(MS, 0), 1);
	/* At once when it ends a row of time-outs; a tail probe is none. */
	assert_int_equal(reports(10 * US, 1), 0);
	assert_int_equal(reports(10 * US, 2), 1);
	pair_fini(&p);
	/* A peer of one path has no choice. */
	c.paths = 1;
	pair_init(&p, &c);
	assert_int_equal(reports(5 * MS, 0), 0);
}

/* A peer that sends payload hears of its acknowledgements by the blocks that its payload gets: they wait for one. */
TEST_IN(report__waits_for_the_peers_payload, NULL, end)
{
	struct uccl_hdr h = {.type = UCCL_PKT_CHUNK, .rtype = PAIR_RAW};
	struct pair_cfg c = pair_packets();
	uint64_t came;

	pair_init(&p, &c);
	assert_int_equal(reports(5 * MS, 0), 1);
	h.csn = (uint32_t)tx()->rx.arrived.nxt;
	pair_feed(&p, 0, &h, NULL, NULL);
	p.now += UCCL_ACK_DELAY_NS;
	uccl_flow_expire(tx(), p.now);
	assert_int_equal(pair_pump_one(&p, 0), 1);
	pair_lose(&p, 0);
	assert_int_equal(reports(5 * MS, 0), 0);
	came = p.now;
	assert_in_range(uccl_flow_expiry(tx()), came + MS, came + 4 * MS);
	p.now = came + 4 * MS;
	uccl_flow_expire(tx(), p.now);
	assert_int_equal(pair_pump_one(&p, 0), 1);
	assert_int_equal(p.wire[0]->h.type, UCCL_PKT_ACK);
	pair_lose(&p, 0);
	/* Not when it ends a row of time-outs, nor when the peer has sent nothing for long. */
	assert_int_equal(reports(5 * MS, 2), 1);
	assert_int_equal(reports(50 * MS, 0), 1);
}

/* Silence of so many ms: every path is asked, and nothing arrives. */
static void stay_silent(int ms)
{
	for (int t = 0; t < ms; t++) {
		p.now += MS;
		if (p.now < uccl_flow_expiry(tx()))
			continue;
		uccl_flow_expire(tx(), p.now);
		pair_pump_one(&p, 0);
		while (p.nwire)
			pair_lose(&p, 0);
	}
}

/* A block that tells the newest packets of the paths of every eighth of these chunks, and one chunk behind `cum`. */
static void take_newest(uint64_t cum, uint64_t from, uint64_t to, uint64_t chunk)
{
	struct uccl_ack a = pair_ack(&p, 0, cum);

	if (chunk > cum) {
		a.nwords = (uint8_t)((chunk - cum - 1) / 64 + 1);
		a.sack[(chunk - cum - 1) / 64] = 1ull << ((chunk - cum - 1) % 64);
	}
	for (uint64_t csn = from; csn < to; csn += 8) {
		uint16_t path = uccl_sent_at(&tx()->sent, csn)->path;

		a.paths[a.npaths++] = (struct uccl_ack_path){.path = path,
							     .seq = tx()->paths.list[path].next_seq - 1,
							     .echo = uccl_ts(p.now),
							     .delay = UINT32_MAX};
	}
	assert_int_equal(take(&a), UCCL_DROP_COUNT);
	pair_pump_one(&p, 0);
	while (p.nwire)
		pair_lose(&p, 0);
}

/*
 * A long one that is lost waits for credit, while small ones are sent and lost again and again: they do not gather
 * behind it. A peer may do so at will.
 */
TEST_IN(rtx__small_ones_behind_what_waits, NULL, end)
{
	struct pair_cfg c = pair_packets();
	const struct uccl_rtxq *q;
	uint64_t n = base();

	c.window = 64;
	c.paths = 16;
	c.labels = 512;
	c.slots = 1000;
	c.link_bps = 10000000000;
	c.credit = &uccl_credit_eqds;
	c.rto_min_ns = 4 * MS;
	pair_init(&p, &c);
	n = base();
	for (int i = 0; i < 64; i++) {
		pair_record(&p, 0, i == 32 || i == 63 ? 1024 : 8);
		pair_pump_one(&p, 0);
	}
	while (p.nwire)
		pair_lose(&p, 0);
	assert_int_equal(tx()->sent.nxt, n + 64);
	tx()->credit.used = UINT64_MAX / 2;
	stay_silent(1500);
	take_newest(n, n + 32, n + 33, n + 62);
	take_newest(n, n, n + 56, 0);
	/* The long one is first now, and all before it came after all. */
	take_newest(n + 32, 0, 0, 0);
	assert_int_equal(tx()->sent.una, n + 32);
	for (int i = 0; i < 32; i++) {
		pair_record(&p, 0, 8);
		pair_pump_one(&p, 0);
	}
	assert_int_equal(tx()->sent.nxt, n + 96);
	stay_silent(1500);
	/* Again, until the ring would have been full more than once. */
	take_newest(n + 32, n + 64, n + 96, n + 95);
	q = &tx()->sent.rtxq[UCCL_RTX_LONG];
	assert_int_equal(q->tail - q->head, 2);
	assert_int_equal(q->csns[q->head % 64], n + 32);
	assert_true(uccl_rtxq_empty(&tx()->sent.rtxq[UCCL_RTX_SMALL]));
}

/* What was taken for lost and came before it was sent again counts as the peer counts it. PROTOCOL R286 */
TEST_IN(unlost__counts_as_sent, NULL, end)
{
	const struct uccl_credit_ops *const credits[] = {&uccl_credit_eqds, &uccl_credit_none};

	for (int paced = 1; paced >= 0; paced--) {
		struct pair_cfg c = one_path();
		struct uccl_ack a;

		c.credit = credits[!paced];
		start_n(c, 5);
		a = line(base(), 0, 5, p.now, UINT32_MAX);
		a.nwords = 1;
		a.sack[0] = 8;
		take(&a);
		assert_int_equal(tx()->credit.lost, 400);
		assert_int_equal(tx()->credit.used, 500);
		/* Three of four. */
		a = pair_ack(&p, 0, base() + 3);
		take(&a);
		assert_int_equal(tx()->credit.used, 500 + paced * 300);
		assert_int_equal(pair_pump_one(&p, 0), 1);
		a = pair_ack(&p, 0, base() + 5);
		take(&a);
		/* Five came, and four never will. */
		assert_int_equal(tx()->credit.used, 500 + paced * 400);
		pair_fini(&p);
	}
}

/* New marks reach congestion control as bytes, once, also from a line that says nothing else new. PROTOCOL R190 */
TEST_IN(marks__reach_the_policies, NULL, end)
{
	struct pair_cfg c = one_path();
	struct uccl_ack a;

	c.pathsel = &spy_path;
	start_n(c, 5);
	a = line(base(), 0, 2, p.now, 0);
	a.paths[0].marked = 3;
	p.now += 100 * US;
	take(&a);
	assert_int_equal(say.acks, 1);
	assert_int_equal(say.ack.marked, 3 * UCCL_MARK_BYTES);
	assert_true(say.ack.rtt_ns > 0);
	take(&a);
	assert_int_equal(say.acks, 1);
	a.paths[0].marked = 4;
	take(&a);
	assert_int_equal(say.acks, 2);
	assert_int_equal(say.ack.marked, UCCL_MARK_BYTES);
	assert_int_equal(say.ack.rtt_ns, 0);
	/* The path tells of it with its next sample. */
	assert_int_equal(say.path_marked, 3 * UCCL_MARK_BYTES);
	assert_int_equal(tx()->paths.list[0].marks_new, 1);
	a = line(base(), 0, 3, p.now, 0);
	a.paths[0].marked = 4;
	take(&a);
	assert_int_equal(say.ack.marked, 0);
	assert_int_equal(say.path_marked, UCCL_MARK_BYTES);
	assert_int_equal(tx()->paths.list[0].marks_new, 0);
	assert_int_equal(tx()->cfg.stats->marked_tx, 4 * UCCL_MARK_BYTES);
}

TESTS_MAIN
