/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "one_pair.h"
#include "../tests.h"

/* The next timer of side 0 strikes; what it sends is on the wire. Returns how many packets. */
static int strike(void)
{
	p.now = uccl_max(p.now, uccl_flow_expiry(tx()));
	uccl_flow_expire(tx(), p.now);
	return pair_pump_one(&p, 0);
}

/* Paths whose bit is set in *arg carry nothing, either way. */
static void black_holes(struct pair *q, struct pair_pkt *k)
{
	if (k->kind != UCCL_RX_SENT && k->to == 1 && *(uint32_t *)q->arg >> k->path & 1)
		k->fate = PAIR_DROP;
}

/* Labels whose bit is set carry nothing: a route, wherever a path moves. */
static void black_labels(struct pair *q, struct pair_pkt *k)
{
	if (k->to == 1 && *(uint32_t *)q->arg >> k->label & 1)
		k->fate = PAIR_DROP;
}

/* A quick look at a long transfer: bytes in flight all the time. */
static void transfer(uint32_t bytes)
{
	pair_bulk(&p, 0, bytes);
	assert_true(pair_finish(&p, 10 * UCCL_NS_PER_S));
}

TEST_IN(flow_init__clean, NULL, end)
{
	struct pair_cfg c = pair_packets();
	bool seen[16] = {false};

	start(c);
	assert_int_equal(tx()->sent.una, c.csn[0]);
	assert_int_equal(tx()->sent.nxt, c.csn[0]);
	assert_int_equal(tx()->rx.arrived.nxt, c.csn[1]);
	assert_int_equal(tx()->limits.slots, c.slots);
	assert_int_equal(tx()->limits.msg_limit, 100);
	assert_int_equal(tx()->paths.nusable, c.paths);
	assert_true(uccl_flow_expiry(tx()) == UCCL_NEVER);
	assert_true(uccl_flow_idle(tx()));
	assert_int_equal(pair_pump_one(&p, 0), 0);
	/* Labels of one flow differ. */
	for (int i = 0; i < c.paths; i++) {
		assert_true(tx()->paths.list[i].label < c.labels);
		assert_false(seen[tx()->paths.list[i].label]);
		seen[tx()->paths.list[i].label] = true;
	}
}

/* Its labels begin where the owner says, and wrap. */
TEST_IN(flow_init__first_label, NULL, end)
{
	struct pair_cfg c = pair_packets();

	c.labels = 32;
	for (c.seed = 1; c.seed < 60; c.seed++) {
		start(c);
		for (int i = 0; i < c.paths; i++)
			assert_int_equal(tx()->paths.list[i].label, (c.seed * 7 + (unsigned int)i) % 32);
		pair_fini(&p);
	}
}

TEST_IN(flow_init__fewer_labels_than_paths, NULL, end)
{
	struct pair_cfg c = pair_packets();

	c.labels = 1;
	start(c);
	for (int i = 0; i < c.paths; i++)
		assert_int_equal(tx()->paths.list[i].label, 0);
	transfer(100 * KIB);
}

static struct uccl_policy_cfg told;

static void cc_init(void *cc, const struct uccl_policy_cfg *cfg, uint64_t now)
{
	told = *cfg;
}

static uint64_t cc_window(const void *cc)
{
	return UINT64_MAX;
}

/* Policies reckon with the writes that a flow begins with, not with those that it may come to. PROTOCOL R255 */
TEST_IN(flow_init__policies, NULL, end)
{
	static const struct uccl_cc_ops cc = {.name = "told", .init = cc_init, .window = cc_window};
	struct pair_cfg c = pair_direct();

	c.cc = &cc;
	for (int brittle = 0; brittle < 2; brittle++) {
		c.write_brittle = brittle;
		start(c);
		assert_int_equal(told.chunk_bytes, brittle ? c.chunk_bytes : c.write_bytes);
		assert_int_equal(told.burst_bytes, told.chunk_bytes);
		assert_int_equal(told.window_max, c.window * told.chunk_bytes);
		pair_fini(&p);
	}
}

/* Only window() is required of a congestion control. */
TEST_IN(flow_init__policies_without_init, NULL, end)
{
	static const struct uccl_cc_ops cc = {.name = "bare", .window = cc_window};
	struct pair_cfg c = pair_packets();

	c.cc = &cc;
	start(c);
	transfer(100 * KIB);
}

PAIR_TEST(flow_submit__order, pair_packets())
{
	for (uint32_t i = 0; i < 5; i++)
		pair_record(&p, 0, i);
	assert_false(uccl_flow_idle(tx()));
	pair_pump_one(&p, 0);
	for (uint32_t i = 0; i < 5; i++)
		assert_int_equal(p.wire[i]->h.payload_len, i);
	assert_false(uccl_flow_idle(tx()));
	assert_true(pair_finish(&p, MS));
	assert_true(uccl_flow_idle(tx()));
}

/* In a stream alone, and only what leaves in several packets and fits a train. PROTOCOL R260 R262 */
TEST_IN(flow_even__in_a_stream, NULL, end)
{
	struct pair_cfg c = pair_packets();

	c.chunk_bytes = 1000;
	c.mtu = UCCL_HDR_LEN + 1000;
	c.train_bytes = 40000;
	c.slots = 1000;
	c.window = 1024;
	c.segments = true;
	for (int pads = 0; pads < 2; pads++) {
		c.pads = pads;
		start(c);
		pair_bulk(&p, 0, 131000);
		pair_pump_one(&p, 0);
		assert_int_equal(tx()->sent.inflight_bytes, 131000);
		assert_int_equal(uccl_flow_even(tx(), 2400), 0);
		pair_bulk(&p, 0, 72);
		pair_pump_one(&p, 0);
		assert_int_equal(uccl_flow_even(tx(), 1000), 0);
		assert_int_equal(uccl_flow_even(tx(), 1001), pads * 504);
		assert_int_equal(uccl_flow_even(tx(), 2400), pads * 800);
		assert_int_equal(uccl_flow_even(tx(), 2401), pads * 808);
		assert_int_equal(uccl_flow_even(tx(), 40000), pads * 1000);
		assert_int_equal(uccl_flow_even(tx(), 40001), 0);
		tx()->train.state = UCCL_TRAINS_OFF;
		assert_int_equal(uccl_flow_even(tx(), 2400), 0);
		pair_fini(&p);
	}
}

/* The next train is another one. */
TEST_IN(flow_gathered__a_new_train, NULL, end)
{
	struct pair_cfg c = pair_packets();
	uint16_t path;

	c.train_bytes = 40 * KIB;
	start(c);
	pair_record(&p, 0, 900);
	pair_pump_one(&p, 0);
	pair_record(&p, 0, 900);
	pair_pump_one(&p, 0);
	path = p.wire[0]->path;
	assert_int_equal(p.wire[1]->path, path);
	uccl_flow_gathered(tx());
	pair_record(&p, 0, 900);
	pair_pump_one(&p, 0);
	assert_int_not_equal(p.wire[2]->path, path);
}

PAIR_TEST(flow_withdraw__before_it_left, pair_packets())
{
	struct pair_obj *rec, *bulk;

	rec = pair_record(&p, 0, 10);
	bulk = pair_bulk(&p, 0, 5000);
	assert_true(uccl_flow_withdraw(tx(), &rec->item));
	assert_true(uccl_flow_withdraw(tx(), &bulk->item));
	assert_false(uccl_flow_withdraw(tx(), &bulk->item));
	assert_true(uccl_flow_idle(tx()));
	assert_int_equal(pair_pump_one(&p, 0), 0);
	/* It may be handed in again. */
	uccl_flow_submit(tx(), &rec->item);
	uccl_flow_submit(tx(), &bulk->item);
	assert_true(pair_finish(&p, MS));
}

TEST_IN(flow_withdraw__too_late, NULL, end)
{
	struct pair_cfg c = pair_packets();
	struct pair_obj *o;

	c.slots = 1;
	start(c);
	o = pair_bulk(&p, 0, 5000);
	assert_int_equal(pair_pump_one(&p, 0), 1);
	assert_false(uccl_flow_withdraw(tx(), &o->item));
	assert_true(pair_finish(&p, 10 * MS));
	assert_false(uccl_flow_withdraw(tx(), &o->item));
	pair_fini(&p);
	/* Announced, although not a byte of it has left. */
	c = pair_direct();
	c.slots = 1;
	start(c);
	o = pair_bulk(&p, 0, 5000);
	assert_int_equal(pair_pump_one(&p, 0), 1);
	assert_int_equal(o->item.off, 0);
	assert_false(uccl_flow_withdraw(tx(), &o->item));
	assert_true(pair_finish(&p, 10 * MS));
}

/* Behind the window's edge, inside it, never sent. */
PAIR_TEST(flow_acked__by_cookie, pair_packets())
{
	struct uccl_hdr h = {.type = UCCL_PKT_ACK};
	struct uccl_ack a;

	for (int i = 0; i < 4; i++)
		pair_record(&p, 0, 10);
	pair_pump_one(&p, 0);
	assert_false(uccl_flow_acked(tx(), p.cfg.csn[0]));
	a = pair_ack(&p, 0, p.cfg.csn[0] + 1);
	a.nwords = 1;
	a.sack[0] = 2;
	pair_feed(&p, 0, &h, NULL, &a);
	for (uint32_t i = 0; i < 6; i++)
		assert_int_equal(uccl_flow_acked(tx(), p.cfg.csn[0] + i), i == 0 || i == 3);
	assert_false(uccl_flow_acked(tx(), UCCL_NEVER));
}

PAIR_TEST(probe__tail_after_two_rtts, pair_packets())
{
	uint64_t sent;

	transfer(100 * KIB);
	tx()->loss.times.srtt_ns = 400 * US;
	tx()->loss.times.rttvar_ns = 50 * US;
	sent = p.now;
	pair_record(&p, 0, 100);
	pair_pump_one(&p, 0);
	lose_all();
	assert_int_equal(uccl_flow_expiry(tx()), sent + 800 * US + uccl_times_prompt_wait(&tx()->loss.times));
	assert_true(uccl_times_prompt_wait(&tx()->loss.times) < UCCL_ACK_DELAY_NS);
	/* On its own path, and where the last answer came from. */
	assert_int_equal(strike(), 2);
	assert_int_equal(p.side[0].stats.probes, 1);
	assert_int_equal(p.side[0].stats.rtos, 0);
}

/*
 * The end of a burst is lost, and the peer reads slowly what came of it: when all of that is acknowledged it is asked
 * soon, and not after what its host may take. PROTOCOL R243
 */
PAIR_TEST(probe__tail_of_a_burst, pair_packets())
{
	uint64_t heard;

	transfer(100 * KIB);
	p.side[1].host_ns = 3 * MS;
	for (int i = 0; i < 8; i++)
		transfer(10 * KIB);
	assert_true(uccl_times_host_wait(&tx()->loss.times) > 2 * MS);
	pair_bulk(&p, 0, 20 * KIB);
	pair_pump_one(&p, 0);
	pair_lose(&p, p.nwire - 1);
	while (uccl_sent_unacked(&tx()->sent) > 1)
		assert_true(pair_step(&p));
	heard = p.now;
	assert_true(uccl_flow_expiry(tx()) - heard <= 2 * tx()->loss.times.srtt_ns + UCCL_ACK_DELAY_NS);
	assert_true(pair_finish(&p, p.now + 100 * MS));
	assert_int_equal(p.side[0].stats.rtx_packets, 1);
}

/* Paths that differ make two RTTs too short. */
PAIR_TEST(probe__tail_after_variation, pair_packets())
{
	tx()->loss.times.srtt_ns = 300 * US;
	tx()->loss.times.rttvar_ns = 100 * US;
	pair_record(&p, 0, 1);
	pair_pump_one(&p, 0);
	assert_int_equal(uccl_flow_expiry(tx()), p.now + 300 * US + 4 * 100 * US + UCCL_ACK_DELAY_NS);
}

/* Not later than the time-out, however large two RTTs are; not earlier than an acknowledgement may be delayed. */
TEST_IN(probe__tail_bounds, NULL, end)
{
	start(pair_packets());
	tx()->loss.times.srtt_ns = 10 * US;
	pair_record(&p, 0, 1);
	pair_pump_one(&p, 0);
	assert_int_equal(uccl_flow_expiry(tx()), p.now + 20 * US + UCCL_ACK_DELAY_NS);
	pair_fini(&p);
	start(pair_packets());
	tx()->loss.times.srtt_ns = 150 * MS;
	pair_record(&p, 0, 1);
	pair_pump_one(&p, 0);
	assert_int_equal(uccl_flow_expiry(tx()), p.now + 150 * MS + UCCL_ACK_DELAY_NS);
}

/* A question, not the chunk again, on the chunk's own path: there it is also a later packet, which proves the loss. */
PAIR_TEST(probe__asks_on_its_path, pair_packets())
{
	pair_record(&p, 0, 100);
	pair_pump_one(&p, 0);
	lose_all();
	assert_int_equal(strike(), 2);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(p.wire[i]->h.type, UCCL_PKT_PROBE);
		assert_true(p.wire[i]->h.flags & UCCL_FLAG_AR);
	}
	assert_int_equal(p.wire[0]->path, uccl_sent_at(&tx()->sent, tx()->sent.una)->path);
	pair_lose(&p, 1);
	pair_arrive(&p, 0);
	assert_true(pair_finish(&p, MS / 2));
	assert_int_equal(p.side[0].stats.lost_proof, 1);
	assert_int_equal(p.side[0].stats.rtx_packets, 1);
}

/* The path is dead, and it answered last: another one is asked as well, so no time-out is waited for. */
PAIR_TEST(probe__asks_elsewhere_too, pair_packets())
{
	pair_record(&p, 0, 100);
	pair_pump_one(&p, 0);
	lose_all();
	assert_int_equal(strike(), 2);
	assert_int_not_equal(p.wire[0]->path, p.wire[1]->path);
	pair_lose(&p, 0);
	pair_arrive(&p, 0);
	assert_true(pair_finish(&p, MS / 2));
	assert_int_equal(p.side[0].stats.rtos, 0);
	assert_int_equal(p.side[0].stats.rtx_packets, 1);
}

/* A peer that is wholly silent gets two tiny packets per time-out, on path after path, and never the window. */
PAIR_TEST(probe__silent_peer, pair_packets())
{
	uint64_t last, gap = 0;
	uint32_t paths = 0;

	transfer(64 * KIB);
	pair_run(&p, p.now + MS);
	p.side[1].stopped = true;
	pair_bulk(&p, 0, 200 * KIB);
	assert_int_equal(pair_pump_one(&p, 0), 200);
	lose_all();
	assert_int_equal(strike(), 2); /* the tail probe */
	lose_all();
	last = p.now;
	for (int i = 0; i < 40; i++) {
		assert_int_equal(strike(), 2);
		for (int k = 0; k < 2; k++) {
			assert_int_equal(p.wire[k]->h.type, UCCL_PKT_PROBE);
			assert_int_equal(p.wire[k]->h.payload_len, 0);
			paths |= 1u << p.wire[k]->path;
		}
		assert_int_not_equal(p.wire[0]->path, p.wire[1]->path);
		/* Soon, as what asked may be lost; every path is asked twice, then the questions become seldom. */
		if (i < 2)
			assert_true(p.now - last > gap);
		else if (i <= 4)
			assert_int_equal(p.now - last, gap);
		else if (gap < UCCL_RTO_MAX_NS)
			assert_int_equal(p.now - last, uccl_min(2 * gap, UCCL_RTO_MAX_NS));
		gap = p.now - last;
		last = p.now;
		assert_true(gap <= UCCL_RTO_MAX_NS);
		lose_all();
	}
	assert_int_equal(gap, UCCL_RTO_MAX_NS);
	assert_int_equal(paths, 15);
	assert_int_equal(p.side[0].stats.rtos, 40);
	assert_int_equal(p.side[0].stats.rtx_packets, 0);
	assert_int_equal(tx()->sent.inflight_chunks, 200);
	/* It wakes up, and only what it lost is sent again. */
	p.side[1].stopped = false;
	assert_true(pair_finish(&p, UCCL_NS_PER_S));
	assert_int_equal(p.side[1].f.rx.ack_tracker.dups, 0);
}

/* A peer that was only stopped: everything was in its receive queue, so nothing is sent again. */
PAIR_TEST(probe__stopped_peer, pair_packets())
{
	p.side[1].stopped = true;
	pair_bulk(&p, 0, 100 * KIB);
	pair_run(&p, p.now + 5 * UCCL_NS_PER_S);
	assert_true(p.side[0].stats.tx_packets < 100 + 90);
	p.side[1].stopped = false;
	assert_true(pair_finish(&p, 100 * MS));
	assert_int_equal(p.side[0].stats.rtx_packets, 0);
}

/* All present labels may lead into a hole: after all paths were asked, they get new ones. */
PAIR_TEST(probe__new_labels_at_last, pair_packets())
{
	uint32_t dead = 0;

	for (int i = 0; i < p.cfg.paths; i++)
		dead |= 1u << tx()->paths.list[i].label;
	p.filter = black_labels;
	p.arg = &dead;
	pair_bulk(&p, 0, 100 * KIB);
	assert_true(pair_finish(&p, 20 * UCCL_NS_PER_S));
	assert_true(p.side[0].stats.rerolled > 0);
}

/* One of four paths swallows everything: out of service soon, and the transfer goes on without it. */
PAIR_TEST(path_loss__black_hole, pair_packets())
{
	uint32_t dead = 1 << 2;
	uint64_t carried;

	p.cfg.delay_ns = 10 * US;
	tx()->cfg.policy.pathsel = &uccl_path_rr;
	p.filter = black_holes;
	p.arg = &dead;
	/* The NIC says that the window is small: many round trips. */
	p.side[1].f.cfg.slots_rx = 40;
	transfer(2000 * KIB);
	pair_run(&p, p.now + 2 * MS);
	assert_true(p.side[0].stats.quarantined >= 1);
	assert_int_not_equal(tx()->paths.list[2].state, UCCL_PATH_ACTIVE);
	for (int i = 0; i < 4; i++)
		if (i != 2)
			assert_int_equal(tx()->paths.list[i].state, UCCL_PATH_ACTIVE);
	assert_int_equal(tx()->paths.nusable, 3);
	carried = tx()->paths.list[2].counters.bytes;
	transfer(500 * KIB);
	/* Nothing of the application's goes there. */
	assert_int_equal(tx()->paths.list[2].counters.bytes, carried);
}

/* What is long gets lost time after time, in whatever numbers, and probes are answered all the while. */
PAIR_TEST(path_loss__long_chunks_alone, pair_packets())
{
	struct uccl_sent e = {.path = 1, .len = 4000};
	struct uccl_path *q;

	q = &tx()->paths.list[1];
	for (int round = 0; round < 3; round++) {
		assert_int_equal(q->state, UCCL_PATH_ACTIVE);
		e.sent_ns = p.now += 10 * US;
		p.now += 10 * US;
		for (int i = 0; i < 5; i++)
			uccl_paths_long_lost(&tx()->paths, e.path, e.len, e.sent_ns, uccl_flow_rto(tx()), p.now);
		assert_int_equal(q->long_losses, round + 1);
		uccl_paths_alive(&tx()->paths, 1, p.now);
	}
	assert_int_equal(q->state, UCCL_PATH_QUARANTINE);
	assert_false(q->control);
	assert_int_equal(tx()->paths.nusable, 3);
	/* With its new label it is left at the first time. */
	p.now = q->until;
	uccl_flow_expire(tx(), p.now);
	assert_int_equal(q->state, UCCL_PATH_PROBATION);
	q->acked_seq = q->fresh_seq;
	uccl_paths_alive(&tx()->paths, 1, p.now);
	assert_int_equal(q->state, UCCL_PATH_ACTIVE);
	e.sent_ns = p.now;
	uccl_paths_long_lost(&tx()->paths, e.path, e.len, e.sent_ns, uccl_flow_rto(tx()), p.now + 1);
	assert_int_equal(q->state, UCCL_PATH_QUARANTINE);
}

/* One that comes through speaks for the path; short ones say nothing, and the last path stays. */
PAIR_TEST(path_loss__long_chunks_now_and_then, pair_packets())
{
	struct uccl_sent e = {.path = 1, .len = 4000}, small = {.path = 1, .len = 100};

	for (int i = 0; i < 10; i++) {
		e.sent_ns = small.sent_ns = p.now;
		p.now += 10 * US;
		uccl_paths_long_lost(&tx()->paths, small.path, small.len, small.sent_ns, uccl_flow_rto(tx()), p.now);
		assert_int_equal(tx()->paths.list[1].long_losses, 0);
		uccl_paths_long_lost(&tx()->paths, e.path, e.len, e.sent_ns, uccl_flow_rto(tx()), p.now);
		if (i % 2) {
			uccl_paths_long_acked(&tx()->paths, e.path, e.len, p.now);
			assert_int_equal(tx()->paths.list[1].long_losses, 0);
		} else {
			uccl_paths_long_acked(&tx()->paths, small.path, small.len, p.now);
			assert_int_equal(tx()->paths.list[1].long_losses, 1);
			uccl_paths_long_acked(&tx()->paths, e.path, e.len, p.now);
		}
	}
	assert_int_equal(tx()->paths.list[1].state, UCCL_PATH_ACTIVE);
	tx()->paths.nusable = 1;
	for (int i = 0; i < 10; i++) {
		e.sent_ns = p.now;
		p.now += 10 * US;
		uccl_paths_long_lost(&tx()->paths, e.path, e.len, e.sent_ns, uccl_flow_rto(tx()), p.now);
	}
	assert_int_equal(tx()->paths.list[1].state, UCCL_PATH_ACTIVE);
}

/* Half of all routes carry nothing long. */
static void short_labels(struct pair *q, struct pair_pkt *k)
{
	if (k->to == 1 && k->label % 2 && k->len > 1000)
		k->fate = PAIR_DROP;
}

PAIR_TEST(path_loss__short_routes, pair_packets())
{
	uint64_t lost;

	p.cfg.delay_ns = 10 * US;
	tx()->cfg.policy.pathsel = &uccl_path_rr;
	p.filter = short_labels;
	/* Many round trips. */
	p.side[1].f.cfg.slots_rx = 40;
	transfer(8000 * KIB);
	assert_true(p.side[0].stats.quarantined >= 2);
	/* Each label that takes a bad one's place may be bad, too. */
	transfer(8000 * KIB);
	lost = p.side[0].stats.rtx_bytes;
	transfer(8000 * KIB);
	/* A fiftieth; without leaving them, half. */
	assert_true(p.side[0].stats.rtx_bytes - lost < 160 * KIB);
}

static void suspected(uint16_t path)
{
	for (int i = 0; i < 3; i++)
		uccl_paths_loss(&tx()->paths, path, false, uccl_flow_rto(tx()), p.now);
	assert_int_equal(tx()->paths.list[path].state, UCCL_PATH_SUSPECT);
}

/* Suspected, asked, and silent. */
static void quarantined(uint16_t path)
{
	suspected(path);
	pair_pump_one(&p, 0);
	lose_all();
	assert_int_equal(strike(), 0);
	assert_int_equal(tx()->paths.list[path].state, UCCL_PATH_QUARANTINE);
}

PAIR_TEST(path_loss__three_in_a_row, pair_packets())
{
	uccl_paths_loss(&tx()->paths, 1, false, uccl_flow_rto(tx()), p.now);
	uccl_paths_loss(&tx()->paths, 1, false, uccl_flow_rto(tx()), p.now);
	uccl_paths_alive(&tx()->paths, 1, p.now);
	uccl_paths_loss(&tx()->paths, 1, false, uccl_flow_rto(tx()), p.now);
	uccl_paths_loss(&tx()->paths, 1, false, uccl_flow_rto(tx()), p.now);
	assert_int_equal(tx()->paths.list[1].state, UCCL_PATH_ACTIVE);
	assert_int_equal(tx()->paths.nusable, 4);
	uccl_paths_loss(&tx()->paths, 1, false, uccl_flow_rto(tx()), p.now);
	assert_int_equal(tx()->paths.list[1].state, UCCL_PATH_SUSPECT);
	assert_int_equal(tx()->paths.nusable, 3);
	for (int i = 0; i < 3; i++)
		assert_int_not_equal(tx()->paths.usable[i], 1);
	assert_int_equal(tx()->paths.at, tx()->paths.list[1].until);
	assert_int_equal(uccl_flow_expiry(tx()), p.now + uccl_flow_rto(tx()));
	assert_int_equal(p.side[0].stats.quarantined, 0);
}

/* Where there are many, one is enough: what it carries is too seldom. */
TEST_IN(path_loss__one_of_many, NULL, end)
{
	struct pair_cfg c = pair_packets();

	c.paths = 32;
	c.labels = 64;
	start(c);
	uccl_paths_loss(&tx()->paths, 1, false, uccl_flow_rto(tx()), p.now);
	assert_int_equal(tx()->paths.list[1].state, UCCL_PATH_SUSPECT);
	assert_int_equal(tx()->paths.nusable, 31);
	/* Now they are few. */
	uccl_paths_loss(&tx()->paths, 2, false, uccl_flow_rto(tx()), p.now);
	uccl_paths_loss(&tx()->paths, 2, false, uccl_flow_rto(tx()), p.now);
	assert_int_equal(tx()->paths.list[2].state, UCCL_PATH_ACTIVE);
	uccl_paths_loss(&tx()->paths, 2, false, uccl_flow_rto(tx()), p.now);
	assert_int_equal(tx()->paths.list[2].state, UCCL_PATH_SUSPECT);
}

/* One question, on the path itself, and no answer: quarantine, and only now a new label is to come. */
PAIR_TEST(path_suspect__silent, pair_packets())
{
	uint64_t began;

	suspected(1);
	began = p.now;
	assert_int_equal(pair_pump_one(&p, 0), 1);
	assert_int_equal(p.wire[0]->h.type, UCCL_PKT_PROBE);
	assert_int_equal(p.wire[0]->path, 1);
	assert_int_equal(p.wire[0]->label, tx()->paths.list[1].label);
	lose_all();
	assert_int_equal(pair_pump_one(&p, 0), 0);
	assert_int_equal(strike(), 0);
	assert_int_equal(p.now - began, uccl_flow_rto(tx()));
	assert_int_equal(tx()->paths.list[1].state, UCCL_PATH_QUARANTINE);
	assert_int_equal(tx()->paths.at, p.now + uccl_flow_rto(tx()));
	assert_int_equal(p.side[0].stats.quarantined, 1);
	assert_int_equal(p.side[0].stats.rerolled, 0);
}

/* Answered: back at once, as it was. */
PAIR_TEST(path_suspect__answers, pair_packets())
{
	uint16_t label;

	label = tx()->paths.list[1].label;
	tx()->paths.list[1].srtt_ns = 20 * US;
	suspected(1);
	pair_pump_one(&p, 0);
	pair_arrive(&p, 0);
	pair_pump_one(&p, 1);
	pair_arrive(&p, 0);
	assert_int_equal(tx()->paths.list[1].state, UCCL_PATH_ACTIVE);
	assert_int_equal(tx()->paths.list[1].label, label);
	assert_int_not_equal(tx()->paths.list[1].srtt_ns, 0);
	assert_int_equal(tx()->paths.nusable, 4);
	assert_true(tx()->paths.at == UCCL_NEVER);
	assert_int_equal(p.side[0].stats.quarantined, 0);
}

/* What left before the suspicion says nothing about now, however late it is reported. */
PAIR_TEST(path_suspect__old_report, pair_packets())
{
	struct uccl_hdr h = {.type = UCCL_PKT_ACK};
	struct uccl_ack a;

	for (int i = 0; i < 2; i++) {
		uccl_flow_keepalive(tx(), p.now);
		pair_pump_one(&p, 0);
		assert_int_equal(p.wire[i]->path, i);
	}
	suspected(1);
	a = pair_ack(&p, 0, p.cfg.csn[0]);
	a.npaths = 1;
	a.paths[0] = (struct uccl_ack_path){.path = 1, .seq = 1, .echo = uccl_ts(p.now)};
	pair_feed(&p, 0, &h, NULL, &a);
	assert_int_equal(tx()->paths.list[1].acked_seq, 1);
	assert_int_equal(tx()->paths.list[1].state, UCCL_PATH_SUSPECT);
}

/* A path that is slower than the others gets its own time. */
PAIR_TEST(path_suspect__own_time, pair_packets())
{
	tx()->paths.list[1].srtt_ns = 50 * MS;
	suspected(1);
	assert_int_equal(tx()->paths.list[1].until, p.now + 50 * MS + UCCL_ACK_DELAY_NS);
}

/* What answers is good again at once, even from quarantine: the others may be dead. PROTOCOL R59 */
PAIR_TEST(path_quarantine__answers, pair_packets())
{
	suspected(1);
	pair_pump_one(&p, 0);
	lose_all();
	strike();
	lose_all();
	assert_int_equal(tx()->paths.list[1].state, UCCL_PATH_QUARANTINE);
	uccl_paths_probe(&tx()->paths, 1);
	pair_pump_one(&p, 0);
	assert_int_equal(p.wire[0]->path, 1);
	pair_arrive(&p, 0);
	pair_pump_one(&p, 1);
	pair_arrive(&p, 0);
	assert_int_equal(tx()->paths.list[1].state, UCCL_PATH_ACTIVE);
	assert_int_equal(tx()->paths.nusable, 4);
}

/* Silent through a time-out that another path ended: once is enough. */
TEST_IN(path_loss__silent_through_a_timeout, NULL, end)
{
	struct pair_cfg c = pair_packets();

	c.chunk_bytes = 4096;
	c.mtu = 4096 + UCCL_HDR_LEN + UCCL_TAIL_MAX;
	start(c);
	pair_record(&p, 0, 3000);
	pair_pump_one(&p, 0);
	assert_int_equal(p.wire[0]->path, 0);
	lose_all();
	strike(); /* the tail probe, on the path itself */
	assert_int_equal(p.wire[0]->path, 0);
	lose_all();
	strike(); /* the time-out, on others */
	assert_int_equal(p.side[0].stats.rtos, 1);
	assert_int_equal(tx()->paths.list[0].state, UCCL_PATH_ACTIVE);
	pair_arrive_all(&p, 1);
	pair_pump_one(&p, 1);
	pair_arrive_all(&p, 0);
	assert_int_equal(p.side[0].stats.lost_rto, 1);
	assert_int_equal(p.side[0].stats.lost_rack + p.side[0].stats.lost_proof, 0);
	assert_int_equal(tx()->paths.list[0].state, UCCL_PATH_SUSPECT);
	assert_true(pair_finish(&p, 100 * MS));
}

PAIR_TEST(path_loss__last_path_stays, pair_packets())
{
	suspected(0);
	suspected(1);
	suspected(2);
	for (int i = 0; i < 300; i++)
		uccl_paths_loss(&tx()->paths, 3, false, uccl_flow_rto(tx()), p.now);
	assert_int_equal(tx()->paths.list[3].state, UCCL_PATH_ACTIVE);
	assert_int_equal(tx()->paths.nusable, 1);
	assert_int_equal(tx()->paths.usable[0], 3);
}

TEST_IN(path_loss__one_path_flow, NULL, end)
{
	struct pair_cfg c = pair_packets();

	c.paths = 1;
	start(c);
	p.faults.loss = 0.5;
	transfer(100 * KIB);
	assert_int_equal(p.side[0].stats.quarantined, 0);
	assert_int_equal(tx()->paths.list[0].state, UCCL_PATH_ACTIVE);
}

/* None in service, none on probation: all of them rather than none. */
PAIR_TEST(path_refresh__none_left, pair_packets())
{
	for (int i = 0; i < 4; i++)
		tx()->paths.list[i].state = UCCL_PATH_QUARANTINE;
	uccl_paths_refresh(&tx()->paths);
	assert_int_equal(tx()->paths.nusable, 4);
	tx()->paths.list[2].state = UCCL_PATH_PROBATION;
	uccl_paths_refresh(&tx()->paths);
	assert_int_equal(tx()->paths.nusable, 1);
	assert_int_equal(tx()->paths.usable[0], 2);
	tx()->paths.list[1].state = UCCL_PATH_ACTIVE;
	uccl_paths_refresh(&tx()->paths);
	assert_int_equal(tx()->paths.nusable, 1);
	assert_int_equal(tx()->paths.usable[0], 1);
}

/* A burst does not go on along a path that is out of service. */
PAIR_TEST(path_refresh__ends_the_burst, pair_packets())
{
	pair_record(&p, 0, 10);
	pair_pump_one(&p, 0);
	assert_int_equal(p.wire[0]->path, 0);
	suspected(0);
	pair_record(&p, 0, 10);
	pair_pump_one(&p, 0);
	assert_int_equal(p.wire[1]->h.type, UCCL_PKT_PROBE);
	assert_int_equal(p.wire[2]->h.type, UCCL_PKT_CHUNK);
	assert_int_not_equal(p.wire[2]->path, 0);
}

PAIR_TEST(paths_expire__probation_and_back, pair_packets())
{
	uint16_t label, next;
	const struct pair_pkt *k;

	label = tx()->paths.list[1].label;
	next = tx()->paths.next_label;
	quarantined(1);
	assert_int_equal(strike(), 1);
	k = p.wire[0];
	/* A new label, and a question on it. */
	assert_int_equal(tx()->paths.list[1].state, UCCL_PATH_PROBATION);
	assert_int_equal(k->h.type, UCCL_PKT_PROBE);
	assert_int_equal(k->path, 1);
	assert_int_equal(k->label, next);
	assert_int_not_equal(k->label, label);
	assert_int_equal(p.side[0].stats.rerolled, 1);
	assert_int_equal(tx()->paths.list[1].counters.rerolls, 1);
	assert_int_equal(tx()->paths.nusable, 3);
	/* Answered: in service, its RTT to be learnt anew. */
	tx()->paths.list[1].srtt_ns = 5;
	pair_arrive(&p, 0);
	pair_pump_one(&p, 1);
	pair_arrive(&p, 0);
	assert_int_equal(tx()->paths.list[1].state, UCCL_PATH_ACTIVE);
	assert_int_equal(tx()->paths.nusable, 4);
	assert_true(tx()->paths.at == UCCL_NEVER);
	assert_int_equal(tx()->paths.list[1].strikes, 0);
}

/* No answer: out again, for longer each time. */
PAIR_TEST(paths_expire__longer_each_time, pair_packets())
{
	uint64_t gap = 0;

	quarantined(1);
	for (int i = 0; i < 9; i++) {
		uint64_t began = p.now;

		assert_int_equal(strike(), 1);
		assert_int_equal(tx()->paths.list[1].state, UCCL_PATH_PROBATION);
		assert_int_equal(p.now - began, gap ? 2 * gap : uccl_flow_rto(tx()));
		gap = p.now - began;
		lose_all();
		assert_int_equal(strike(), 0);
		assert_int_equal(tx()->paths.list[1].state, UCCL_PATH_QUARANTINE);
		assert_int_equal(p.side[0].stats.quarantined, 2 + i);
	}
	/* But not for ever longer. */
	strike();
	lose_all();
	strike();
	assert_int_equal(tx()->paths.list[1].until - p.now, uccl_flow_rto(tx()) << 8);
}

/* A healed path carries data again. */
PAIR_TEST(paths_expire__healed, pair_packets())
{
	uint32_t dead = 1 << 1;
	uint64_t carried;

	p.filter = black_holes;
	p.arg = &dead;
	p.side[1].f.cfg.slots_rx = 40;
	transfer(2000 * KIB);
	assert_int_not_equal(tx()->paths.list[1].state, UCCL_PATH_ACTIVE);
	dead = 0;
	pair_run(&p, p.now + 5 * UCCL_NS_PER_S);
	assert_int_equal(tx()->paths.list[1].state, UCCL_PATH_ACTIVE);
	carried = tx()->paths.list[1].counters.bytes;
	transfer(500 * KIB);
	assert_true(tx()->paths.list[1].counters.bytes > carried + 50 * KIB);
}

PAIR_TEST(flow_expiry__earliest, pair_packets())
{
	tx()->rx.ack_tracker.at = p.now + 600;
	tx()->loss.rack.at = p.now + 500;
	tx()->loss.pto.at = p.now + 400;
	tx()->paths.at = p.now + 300;
	tx()->close.at = p.now + 200;
	assert_int_equal(uccl_flow_expiry(tx()), p.now + 200);
	tx()->close.at = UCCL_NEVER;
	assert_int_equal(uccl_flow_expiry(tx()), p.now + 300);
	tx()->paths.at = UCCL_NEVER;
	assert_int_equal(uccl_flow_expiry(tx()), p.now + 400);
	tx()->loss.pto.at = UCCL_NEVER;
	assert_int_equal(uccl_flow_expiry(tx()), p.now + 500);
	tx()->loss.rack.at = UCCL_NEVER;
	assert_int_equal(uccl_flow_expiry(tx()), p.now + 600);
	tx()->rx.ack_tracker.at = UCCL_NEVER;
	/* The pacer wakes only what waits. */
	tx()->pace.next_ns = p.now + 100;
	assert_true(uccl_flow_expiry(tx()) == UCCL_NEVER);
	pair_record(&p, 0, UCCL_CONTROL_BYTES);
	assert_true(uccl_flow_expiry(tx()) == UCCL_NEVER);
	pair_record(&p, 0, UCCL_CONTROL_BYTES + 1);
	assert_int_equal(uccl_flow_expiry(tx()), p.now + 100);
	tx()->pace.next_ns = 0;
	tx()->credit.starved = true;
	uccl_credit_tell(&tx()->credit, 1, 0, p.now);
	assert_int_equal(uccl_flow_expiry(tx()), uccl_credit_tell_at(&tx()->credit, &tx()->loss.times));
}

PAIR_TEST(flow_expire__only_what_is_due, pair_packets())
{
	tx()->rx.ack_tracker.at = p.now + 1;
	tx()->pace.next_ns = p.now + 1;
	uccl_flow_expire(tx(), p.now);
	assert_false(tx()->rx.ack_tracker.now);
	assert_int_equal(tx()->pace.next_ns, p.now + 1);
	assert_int_equal(p.side[0].stats.probes, 0);
	uccl_flow_expire(tx(), p.now + 1);
	assert_true(tx()->rx.ack_tracker.now);
	assert_true(tx()->rx.ack_tracker.at == UCCL_NEVER);
	assert_int_equal(tx()->pace.next_ns, 0);
}

PAIR_TEST(flow_keepalive__path_after_path, pair_packets())
{
	uint32_t paths = 0;

	for (int i = 0; i < 4; i++) {
		uccl_flow_keepalive(tx(), p.now);
		assert_int_equal(pair_pump_one(&p, 0), 1);
		assert_int_equal(p.wire[0]->h.type, UCCL_PKT_PROBE);
		paths |= 1u << p.wire[0]->path;
		lose_all();
	}
	assert_int_equal(paths, 15);
}

static void lose_close(struct pair *q, struct pair_pkt *k)
{
	if ((k->h.type == UCCL_PKT_CLOSE || k->h.type == UCCL_PKT_CLOSE_ACK) && q->count) {
		q->count--;
		k->fate = PAIR_DROP;
	}
}

TEST_IN(flow_close__said_until_answered, NULL, end)
{
	for (uint32_t lost = 0; lost < 6; lost++) {
		start(pair_packets());
		p.filter = lose_close;
		p.count = lost;
		uccl_flow_close(tx(), p.now);
		uccl_flow_close(tx(), p.now);
		assert_int_equal(tx()->close.state, UCCL_FLOW_CLOSING);
		while (tx()->close.state != UCCL_FLOW_CLOSED)
			assert_true(pair_step(&p));
		assert_true(p.side[1].f.close.seen);
		assert_true(tx()->close.tries >= 1 && tx()->close.tries <= 1 + lost);
		/* And then no more. */
		assert_true(uccl_flow_expiry(tx()) == UCCL_NEVER);
		assert_int_equal(pair_pump_one(&p, 0), 0);
		pair_fini(&p);
	}
}

TEST_IN(flow_close__both, NULL, end)
{
	for (uint32_t lost = 0; lost < 4; lost++) {
		start(pair_packets());
		p.filter = lose_close;
		p.count = lost;
		uccl_flow_close(&p.side[0].f, p.now);
		uccl_flow_close(&p.side[1].f, p.now);
		while (p.side[0].f.close.state != UCCL_FLOW_CLOSED || p.side[1].f.close.state != UCCL_FLOW_CLOSED)
			assert_true(pair_step(&p));
		pair_fini(&p);
	}
}

PAIR_TEST(flow_check__sees_each, pair_packets())
{
	struct uccl_flow *f, keep;
	struct uccl_sent *e, kept;

	f = tx();
	pair_record(&p, 0, 10);
	pair_record(&p, 0, 10);
	pair_pump_one(&p, 0);
	assert_null(uccl_flow_check(f));
	keep = *f;
	e = uccl_sent_at(&f->sent, f->sent.una);
	kept = *e;
#define BROKEN(change)                                                                                                 \
	do {                                                                                                           \
		change;                                                                                                \
		assert_non_null(uccl_flow_check(f));                                                                   \
		*f = keep;                                                                                             \
		*e = kept;                                                                                             \
		assert_null(uccl_flow_check(f));                                                                       \
	} while (0)
	BROKEN(f->sent.una = f->sent.nxt + 1);
	BROKEN(f->sent.cap = f->cfg.window * 2);
	BROKEN(f->sent.high_acked = f->sent.nxt + 1);
	BROKEN(f->rx.arrived.nxt = f->rx.arrived.high + 1);
	BROKEN(f->rx.arrived.high = f->rx.arrived.nxt + f->cfg.window + 1);
	BROKEN(e->state = UCCL_SENT_FREE);
	BROKEN(e->state = UCCL_SENT_LOST);
	BROKEN(e->len++);
	BROKEN(f->sent.inflight_chunks--);
	BROKEN(f->loss.pto.at = UCCL_NEVER);
	BROKEN((e->state = UCCL_SENT_ACKED, f->sent.inflight_chunks--, f->sent.inflight_bytes -= 10));
#undef BROKEN
	f->rx.arrived.map[(f->rx.arrived.nxt & (f->cfg.window - 1)) / 64] |= 1ull << (f->rx.arrived.nxt % 64);
	assert_non_null(uccl_flow_check(f));
}

/* What is reported of the label before is no answer of the present one. */
PAIR_TEST(path_alive__another_label, pair_packets())
{
	struct uccl_hdr h = {.type = UCCL_PKT_ACK};
	struct uccl_ack a;

	for (int i = 0; i < 3; i++) {
		uccl_flow_keepalive(tx(), p.now);
		pair_pump_one(&p, 0);
	}
	uccl_paths_reroll(&tx()->paths, 1);
	a = pair_ack(&p, 0, p.cfg.csn[0]);
	a.npaths = 2;
	a.paths[0] = (struct uccl_ack_path){.path = 2, .seq = 1, .echo = uccl_ts(p.now)};
	a.paths[1] = (struct uccl_ack_path){.path = 1, .seq = 1, .echo = uccl_ts(p.now)};
	pair_feed(&p, 0, &h, NULL, &a);
	assert_int_equal(tx()->paths.alive, 2);
	assert_int_equal(tx()->paths.control.n, 1);
	assert_int_equal(tx()->paths.control.list[0], 2);
}

/* The newest eight; who leaves service leaves them. */
TEST_IN(path_alive__control_list, NULL, end)
{
	struct pair_cfg c = pair_packets();

	c.paths = 16;
	start(c);
	for (uint16_t i = 0; i < 12; i++)
		uccl_paths_alive(&tx()->paths, i, p.now);
	assert_int_equal(tx()->paths.control.n, UCCL_CONTROL_PATHS);
	for (int i = 0; i < 4; i++)
		assert_false(tx()->paths.list[i].control);
	uccl_paths_alive(&tx()->paths, 11, p.now);
	assert_int_equal(tx()->paths.control.n, UCCL_CONTROL_PATHS);
	suspected(7);
	assert_int_equal(tx()->paths.control.n, UCCL_CONTROL_PATHS - 1);
	assert_null(uccl_flow_check(tx()));
}

/* A path that works for more than 2^31 packets still clears its losses: what is fresh moves along. */
PAIR_TEST(path_alive__after_half_the_numbers, pair_packets())
{
	struct uccl_path *q;

	q = &tx()->paths.list[1];
	for (uint32_t i = 1; i <= 4; i++) {
		q->acked_seq = i * 0x50000000u;
		q->losses = 2;
		uccl_paths_alive(&tx()->paths, 1, p.now);
		assert_int_equal(q->losses, 0);
	}
	q->acked_seq = 0;
	q->fresh_seq = 0;
}

/* Control packets count like chunks: three that were not reported, while what left a time-out later was. */
PAIR_TEST(control_check__unreported, pair_packets())
{
	struct uccl_path *q;

	q = &tx()->paths.list[1];
	for (int i = 0; i < 3; i++) {
		uccl_paths_alive(&tx()->paths, 1, p.now);
		q->losses = (uint8_t)i;
		q->asks.since_ns = p.now;
		tx()->loss.rack.reported_ns = p.now + uccl_flow_rto(tx()) - 1;
		tx()->paths.control.at = 0;
		uccl_paths_overdue(&tx()->paths, tx()->loss.rack.reported_ns, uccl_flow_rto(tx()), p.now);
		assert_int_equal(q->losses, i);
		assert_true(q->control);
		tx()->loss.rack.reported_ns++;
		tx()->paths.control.at = 0;
		assert_int_equal(q->state, UCCL_PATH_ACTIVE);
		uccl_paths_overdue(&tx()->paths, tx()->loss.rack.reported_ns, uccl_flow_rto(tx()), p.now);
		assert_false(q->control);
		assert_int_equal(q->asks.since_ns, 0);
	}
	assert_int_equal(q->state, UCCL_PATH_SUSPECT);
	tx()->loss.rack.reported_ns = 0;
}

/* Of many paths one lost chunk is enough, but not one control packet that no report had room for. */
TEST_IN(control_check__one_of_many, NULL, end)
{
	struct pair_cfg c = pair_packets();

	c.paths = 64;
	c.labels = 64;
	start(c);
	for (uint16_t i = 0; i < 64; i++)
		tx()->paths.list[i].asks.since_ns = p.now;
	tx()->loss.rack.reported_ns = p.now + uccl_flow_rto(tx());
	uccl_paths_overdue(&tx()->paths, tx()->loss.rack.reported_ns, uccl_flow_rto(tx()), p.now);
	assert_int_equal(tx()->paths.list[63].losses, 1);
	assert_int_equal(tx()->paths.nusable, 64);
	assert_int_equal(tx()->paths.probes_due, 0);
	tx()->loss.rack.reported_ns = 0;
}

/* Paths of side 1 whose bit is set carry nothing. */
static void black_back(struct pair *q, struct pair_pkt *k)
{
	if (k->to == 0 && *(uint32_t *)q->arg >> k->path & 1)
		k->fate = PAIR_DROP;
}

/* One who only acknowledges learns which of its paths do not bring it there, and leaves them. */
TEST_IN(control_check__acknowledgements_leave_dead_paths, NULL, end)
{
	struct pair_cfg c = pair_packets();
	uint32_t dead = 1 << 1 | 1 << 2;
	uint64_t carried;

	c.delay_ns = 100 * US;
	start(c);
	p.filter = black_back;
	p.arg = &dead;
	p.side[1].f.cfg.slots_rx = 40;
	transfer(8000 * KIB);
	assert_int_not_equal(p.side[1].f.paths.list[1].state, UCCL_PATH_ACTIVE);
	assert_int_not_equal(p.side[1].f.paths.list[2].state, UCCL_PATH_ACTIVE);
	assert_int_equal(p.side[1].f.paths.nusable, 2);
	carried = p.side[1].f.paths.list[0].counters.packets + p.side[1].f.paths.list[3].counters.packets;
	assert_true(carried * 10 > p.side[1].stats.tx_packets * 8);
}

/* A time-out's questions tell again what arrived: the answers that told it may be what was lost. */
PAIR_TEST(probe__tells_again, pair_packets())
{
	struct uccl_ack a;

	pair_record(&p, 0, 10);
	pair_pump_one(&p, 0);
	lose_all();
	tx()->rx.ack_tracker.paths[2] = (struct uccl_rx_path){.high_seq = 7, .arrived_ns = p.now};
	strike();
	assert_int_equal(tx()->rx.ack_tracker.ndirty, 0);
	lose_all();
	for (int i = 0; i < 3; i++) {
		assert_int_equal(strike(), 2);
		for (int k = 0; k < 2; k++) {
			const struct pair_pkt *q = p.wire[k];

			assert_int_equal(uccl_ack_decode(&a, q->data + q->len - q->h.tail_len, q->h.tail_len),
					 UCCL_DROP_COUNT);
			assert_int_equal(a.npaths, 1);
			assert_int_equal(a.paths[0].path, 2);
			assert_int_equal(a.paths[0].seq, 7);
		}
		lose_all();
	}
}

/* First where the last answer came from. */
TEST_IN(probe__last_answer_first, NULL, end)
{
	struct pair_cfg c = pair_packets();

	c.chunk_bytes = 4096;
	c.mtu = 4096 + UCCL_HDR_LEN + UCCL_TAIL_MAX;
	start(c);
	uccl_paths_alive(&tx()->paths, 2, p.now);
	pair_record(&p, 0, 3000);
	pair_pump_one(&p, 0);
	assert_int_equal(p.wire[0]->path, 0);
	lose_all();
	/* The tail probe already, besides the chunk's own path. */
	assert_int_equal(strike(), 2);
	assert_int_equal(p.wire[0]->path, 0);
	assert_int_equal(p.wire[1]->path, 2);
	lose_all();
	assert_int_equal(strike(), 2);
	assert_int_equal(p.wire[0]->path, 0);
	assert_int_equal(p.wire[1]->path, 2);
	/* Nothing is known to work any more. */
	assert_int_equal(tx()->paths.control.n, 0);
}

/* Direct writes that a NIC makes ready path by path. */

static struct uccl_path *path(uint16_t i)
{
	return &tx()->paths.list[i];
}

static void start_later(void)
{
	start(pair_direct());
	tx()->cfg.write.later = tx()->paths.write_later = true;
	for (uint16_t i = 0; i < tx()->cfg.paths_tx; i++)
		path(i)->writes.state = UCCL_WRITE_OFF;
}

/* A grant is no use before a path is ready; then one write goes, more when it is reported. PROTOCOL R84 */
TEST_IN(writes__off_trial_on, NULL, end)
{
	start_later();
	pair_bulk(&p, 0, 64 * KIB);
	assert_true(pair_finish(&p, 10 * MS));
	assert_int_equal(p.side[0].stats.writes_tx, 0);
	uccl_flow_set_writable(tx(), 2, true, p.now);
	uccl_flow_set_writable(tx(), 4711, true, p.now);
	pair_bulk(&p, 0, 8 * KIB);
	pair_pump_one(&p, 0);
	assert_int_equal(p.side[0].stats.writes_tx, 1);
	assert_int_equal(path(2)->writes.state, UCCL_WRITE_TRYING);
	assert_int_equal(p.wire[pair_find_write(&p, 1)]->path, 2);
	assert_true(pair_finish(&p, 10 * MS));
	assert_int_equal(path(2)->writes.state, UCCL_WRITE_ON);
	pair_bulk(&p, 0, 64 * KIB);
	assert_true(pair_finish(&p, 10 * MS));
	assert_int_equal(p.side[0].stats.writes_tx, 17);
	assert_int_equal(p.side[0].stats.rtx_packets, 0);
	assert_int_equal(p.side[0].renews, 0);
}

static void writes_ack_lost(struct pair *q, struct pair_pkt *k)
{
	uint32_t *left = q->arg;

	if (k->to == 0 && k->kind == UCCL_RX_PACKET && k->h.type == UCCL_PKT_ACK && *left) {
		--*left;
		k->fate = PAIR_DROP;
	}
}

/* The line that reported the first write is lost; later its number alone is acknowledged. PROTOCOL R84 */
TEST_IN(writes__report_lost, NULL, end)
{
	uint32_t left = 1;

	start_later();
	p.arg = &left;
	p.filter = writes_ack_lost;
	uccl_flow_set_writable(tx(), 2, true, p.now);
	pair_bulk(&p, 0, 4 * KIB);
	assert_true(pair_finish(&p, 50 * MS));
	assert_int_equal(left, 0);
	assert_int_equal(p.side[0].stats.writes_tx, 1);
	assert_int_equal(p.side[0].stats.rtx_bytes, 0);
	assert_int_equal(path(2)->writes.state, UCCL_WRITE_ON);
	pair_bulk(&p, 0, 64 * KIB);
	assert_true(pair_finish(&p, 50 * MS));
	assert_int_equal(p.side[0].stats.writes_tx, 17);
}

static void writes_lost(struct pair *q, struct pair_pkt *k)
{
	uint32_t *left = q->arg;

	if (k->kind == UCCL_RX_WRITE && *left) {
		--*left;
		k->fate = PAIR_DROP;
	}
}

/* PROTOCOL R84 */
TEST_IN(writes__lost_in_a_row, NULL, end)
{
	uint32_t left = 2;

	start_later();
	p.arg = &left;
	p.filter = writes_lost;
	uccl_flow_set_writable(tx(), 1, true, p.now);
	path(1)->writes.state = UCCL_WRITE_ON;
	pair_bulk(&p, 0, 64 * KIB);
	assert_true(pair_finish(&p, 50 * MS));
	assert_int_equal(path(1)->writes.state, UCCL_WRITE_ON);
	assert_int_equal(path(1)->writes.losses, 0);
	assert_int_equal(p.side[0].renews, 0);
	left = 100;
	pair_bulk(&p, 0, 64 * KIB);
	assert_true(pair_finish(&p, 50 * MS));
	assert_int_equal(path(1)->writes.state, UCCL_WRITE_OFF);
	assert_int_equal(p.side[0].renews, 1);
	assert_int_equal(p.side[0].stats.write_renewed, 1);
	/* That says nothing of the way of packets. */
	assert_int_equal(path(1)->long_losses, 0);
	/* Made anew, and still no good: asked for again, and the next trial has to wait. */
	uccl_flow_set_writable(tx(), 1, true, p.now);
	assert_true(path(1)->writes.trial_at <= p.now);
	pair_bulk(&p, 0, 64 * KIB);
	assert_true(pair_finish(&p, 50 * MS));
	assert_int_equal(p.side[0].renews, 2);
	uccl_flow_set_writable(tx(), 1, true, p.now);
	assert_true(path(1)->writes.trial_at > p.now);
	left = 0;
	p.now = path(1)->writes.trial_at;
	pair_bulk(&p, 0, 64 * KIB);
	assert_true(pair_finish(&p, 50 * MS));
	assert_int_equal(path(1)->writes.state, UCCL_WRITE_ON);
	assert_int_equal(path(1)->writes.strikes, 0);
}

/* What is announced goes as packets when no path can write any more; what was written last goes again at once. */
TEST_IN(writes__end_in_the_middle, NULL, end)
{
	uint32_t left = 100;
	uint64_t writes;

	start_later();
	uccl_flow_set_writable(tx(), 0, true, p.now);
	path(0)->writes.state = UCCL_WRITE_ON;
	tx()->limits.slots = 6;
	pair_bulk(&p, 0, 64 * KIB);
	p.arg = &left;
	p.filter = writes_lost;
	pair_pump_one(&p, 0);
	writes = p.side[0].stats.writes_tx;
	/* Two descriptors take a slot each. */
	assert_int_equal(writes, 4);
	assert_int_equal(left, 96);
	uccl_flow_set_writable(tx(), 0, false, p.now);
	assert_int_equal(p.side[0].stats.lost_proof, 4);
	assert_true(pair_finish(&p, 50 * MS));
	assert_int_equal(p.side[0].stats.writes_tx, writes);
	assert_int_equal(p.side[0].stats.rtos, 0);
}

/* The end of a quarantine gives the path another label, and so another way for writes. */
TEST_IN(writes__renewed_with_the_label, NULL, end)
{
	start_later();
	uccl_flow_set_writable(tx(), 1, true, p.now);
	path(1)->writes.state = UCCL_WRITE_ON;
	path(1)->state = UCCL_PATH_QUARANTINE;
	path(1)->until = p.now + US;
	uccl_paths_refresh(&tx()->paths);
	p.now += 2 * US;
	uccl_flow_expire(tx(), p.now);
	assert_int_equal(path(1)->state, UCCL_PATH_PROBATION);
	assert_int_equal(path(1)->writes.state, UCCL_WRITE_OFF);
	assert_int_equal(p.side[0].renews, 1);
}

TESTS_MAIN
