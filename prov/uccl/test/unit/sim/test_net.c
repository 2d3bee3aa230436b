/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "sim/net.h"

#include "../tests.h"

#include <rdma/fi_errno.h>
#include <string.h>

#define LOG_MAX 4096

/* What one node received. */
struct seen {
	uint32_t n, unreach;
	uint64_t at[LOG_MAX];
	uint8_t id[LOG_MAX];
	uint32_t len[LOG_MAX];
	bool copy[LOG_MAX];
};

static void seen_packet(void *arg, struct uccl_sim_pkt *p)
{
	struct seen *s = arg;

	assert_true(s->n < LOG_MAX);
	s->at[s->n] = p->net->now;
	s->id[s->n] = p->data[0];
	s->copy[s->n] = p->copy;
	s->len[s->n++] = p->len;
	uccl_sim_pkt_free(p);
}

static void seen_unreach(void *arg, const struct uccl_sim_pkt *p)
{
	assert_int_equal(p->data[0], 1);
	((struct seen *)arg)->unreach++;
}

static const struct uccl_sim_sink sink = {.packet = seen_packet, .unreach = seen_unreach};

/* What a test runs on. Each begins with the same configuration. */
static struct uccl_sim_net_cfg cfg;
static struct uccl_sim_net net;
static struct seen s;

static int end(void **state)
{
	uccl_sim_net_fini(&net);
	memset(&s, 0, sizeof(s));
	return 0;
}

static int setup(void **state)
{
	cfg = (struct uccl_sim_net_cfg){.nodes = 3, .routes = 4, .delay_ns = 1000, .queue_bytes = 10000};
	return end(state);
}

/* The clock begins at `at`; packets for this node are seen. */
static void begin(uint8_t node, uint64_t at)
{
	assert_int_equal(uccl_sim_net_init(&net, &cfg, 1, at), 0);
	uccl_sim_attach(&net, node, &sink, &s);
}

/* Send a packet of len bytes, the first of which is id. False: no room. */
static bool send_one(uint8_t src, uint8_t dst, uint16_t label, uint8_t id, uint32_t len)
{
	uint64_t at = uccl_sim_egress(&net, src, len);
	struct uccl_sim_pkt *p;

	if (at == UCCL_NEVER)
		return false;
	p = uccl_sim_pkt_new(&net, len);
	assert_non_null(p);
	p->src = src;
	p->dst = dst;
	p->label = label;
	p->len = len;
	memset(p->data, id, len);
	uccl_sim_depart(&net, p, at);
	return true;
}

struct alarm {
	struct uccl_sim_event ev;
	struct uccl_sim_net *net;
	uint32_t id;
};

static uint32_t rung[1000], nrung;

static void alarm_fire(struct uccl_sim_event *ev)
{
	rung[nrung++] = uccl_container_of(ev, struct alarm, ev)->id;
}

TEST_IN(init__refuses_bad_sizes, setup, NULL)
{
	cfg.nodes = UCCL_SIM_NODES + 1;
	assert_int_equal(uccl_sim_net_init(&net, &cfg, 1, 0), -FI_EINVAL);
	setup(state);
	cfg.routes = 0;
	assert_int_equal(uccl_sim_net_init(&net, &cfg, 1, 0), -FI_EINVAL);
}

TEST_IN(at__orders_by_time_then_sequence, setup, NULL)
{
	struct alarm a[300];
	struct uccl_rng rng;
	uint64_t last_at = 0;
	uint32_t i, gone = 0;

	begin(0, 50);
	uccl_rng_seed(&rng, 7);
	for (i = 0; i < 300; i++) {
		a[i] = (struct alarm){.ev.fire = alarm_fire, .id = i};
		uccl_sim_at(&net, &a[i].ev, 100 + uccl_rng_below(&rng, 40));
	}
	for (i = 0; i < 300; i += 7) /* moved: they take their place anew */
		uccl_sim_at(&net, &a[i].ev, 100 + uccl_rng_below(&rng, 40));
	for (i = 3; i < 300; i += 11) {
		uccl_sim_cancel(&net, &a[i].ev);
		assert_int_equal(a[i].ev.place, 0);
		gone++;
	}
	uccl_sim_cancel(&net, &a[3].ev);
	nrung = 0;
	while (uccl_sim_step(&net))
		;
	assert_int_equal(nrung, 300 - gone);
	for (i = 0; i < nrung; i++) {
		struct alarm *x = &a[rung[i]];

		assert_true(x->ev.at >= last_at);
		if (i && x->ev.at == a[rung[i - 1]].ev.at)
			assert_true(x->ev.seq > a[rung[i - 1]].ev.seq);
		last_at = x->ev.at;
	}
	assert_int_equal(net.now, last_at);
}

TEST_IN(at__past_means_now, setup, NULL)
{
	struct alarm a = {.ev.fire = alarm_fire};

	begin(0, 5000);
	uccl_sim_at(&net, &a.ev, 10);
	assert_int_equal(uccl_sim_next(&net), 5000);
	uccl_sim_run(&net, 6000);
	assert_int_equal(net.now, 6000);
	assert_int_equal(uccl_sim_next(&net), UCCL_NEVER);
}

TEST_IN(depart__arrives_after_the_delay, setup, NULL)
{
	begin(1, 100);
	assert_true(send_one(0, 1, 0, 42, 300));
	assert_true(uccl_sim_step(&net));
	assert_int_equal(s.n, 1);
	assert_int_equal(s.at[0], 1100);
	assert_int_equal(s.id[0], 42);
	assert_int_equal(s.len[0], 300);
	assert_false(uccl_sim_step(&net));
}

TEST_IN(depart__tells_the_sender_of_a_closed_port, setup, NULL)
{
	begin(0, 100);
	send_one(0, 1, 0, 1, 300);
	uccl_sim_run(&net, 10000);
	assert_int_equal(s.unreach, 1);
	assert_int_equal(net.stats.lost_closed, 1);
}

/* A rate makes packets leave one by one, fills the queue, and the queue refuses then. */
TEST_IN(egress__serializes_and_refuses, setup, NULL)
{
	uint32_t i, taken = 0;

	cfg.rate_bps = 8 * UCCL_NS_PER_S; /* a byte a ns */
	begin(1, 100);
	for (i = 0; i < 20; i++)
		taken += send_one(0, 1, 0, (uint8_t)i, 936);
	assert_int_equal(taken, 11); /* 10,064 bytes may wait, 1,000 each: the eleventh starts just below the limit */
	assert_int_equal(uccl_sim_egress_half(&net, 0), 100 + 11000 - 5032);
	uccl_sim_run(&net, 100000);
	assert_int_equal(s.n, 11);
	assert_int_equal(s.at[0], 100 + 1000 + 1000 + 1000);
	for (i = 1; i < s.n; i++)
		assert_int_equal(s.at[i] - s.at[i - 1], 1000);
}

/* A port that was stopped sends all the same, later and in order; what does not fit before it waits outside. */
TEST_IN(egress__paused, setup, NULL)
{
	uint32_t i;

	cfg.rate_bps = 8 * UCCL_NS_PER_S;
	cfg.faults.pause = 0.1;
	cfg.faults.pause_ns = 100000;
	begin(1, 100);
	for (i = 0; i < 200; i++)
		while (!send_one(0, 1, 0, (uint8_t)i, 936))
			uccl_sim_run(&net, uccl_sim_egress_half(&net, 0));
	uccl_sim_run(&net, net.now + 1000000);
	assert_int_equal(s.n, 200);
	for (i = 0; i < s.n; i++)
		assert_int_equal(s.id[i], (uint8_t)i);
	assert_in_range(net.stats.paused, 10, 30);
	/* 50 us each on average, on top of 200 us. */
	assert_in_range(s.at[199], 200000 + net.stats.paused * 20000, 200000 + net.stats.paused * 80000);
	uccl_sim_heal(&net);
	i = (uint32_t)net.stats.paused;
	for (uint32_t k = 0; k < 100; k++, uccl_sim_run(&net, net.now + 1000))
		send_one(0, 1, 0, 0, 936);
	assert_int_equal(net.stats.paused, i);
}

/* Two senders at full rate into one port: half of it does not fit. */
TEST_IN(arrive__drops_what_the_port_cannot_hold, setup, NULL)
{
	uint32_t i;

	cfg.rate_bps = 8 * UCCL_NS_PER_S;
	cfg.queue_bytes = 4000;
	begin(2, 100);
	for (i = 0; i < 100; i++) {
		assert_true(send_one(0, 2, 0, 0, 936));
		assert_true(send_one(1, 2, 0, 1, 936));
		uccl_sim_run(&net, net.now + 1000);
	}
	uccl_sim_run(&net, net.now + 100000);
	assert_int_equal(s.n + net.stats.lost_queue, 200);
	assert_in_range(s.n, 100, 108);
}

TEST_IN(route_of__spreads_labels, setup, NULL)
{
	uint32_t hits[4] = {0};
	uint16_t label;

	begin(0, 0);
	for (label = 0; label < 400; label++)
		hits[uccl_sim_route_of(&net, 0, 1, label)]++;
	for (label = 0; label < 4; label++)
		assert_in_range(hits[label], 60, 140);
}

TEST_IN(hole__swallows_one_route_for_its_time, setup, NULL)
{
	struct uccl_sim_hole hole = {.src = 0, .dst = -1, .start = 2000, .end = 3000};
	uint16_t bad = 0, good = 0;

	begin(1, 0);
	while (uccl_sim_route_of(&net, 0, 1, bad) != 2)
		bad++;
	while (uccl_sim_route_of(&net, 0, 1, good) == 2)
		good++;
	hole.route = 2;
	assert_true(uccl_sim_hole_add(&net, &hole));
	uccl_sim_run(&net, 1999);
	send_one(0, 1, bad, 1, 100);
	uccl_sim_run(&net, 2000);
	send_one(0, 1, bad, 2, 100);
	send_one(0, 1, good, 3, 100);
	uccl_sim_run(&net, 3000);
	send_one(0, 1, bad, 4, 100);
	uccl_sim_run(&net, 9000);
	assert_int_equal(s.n, 3);
	assert_int_equal(s.id[0] * 100 + s.id[1] * 10 + s.id[2], 134);
	assert_int_equal(net.stats.lost_hole, 1);
}

TEST_IN(hole__of_long_packets, setup, NULL)
{
	struct uccl_sim_hole hole = {.src = -1, .dst = -1, .route = -1, .above = 500, .end = UCCL_NEVER};

	begin(1, 0);
	assert_true(uccl_sim_hole_add(&net, &hole));
	send_one(0, 1, 0, 1, 500);
	send_one(0, 1, 0, 2, 501);
	uccl_sim_run(&net, 9000);
	assert_int_equal(s.n, 1);
	assert_int_equal(s.id[0], 1);
	assert_int_equal(net.stats.lost_hole, 1);
}

/* Send n packets under the faults of cfg. */
static void storm(uint64_t seed, uint32_t n)
{
	end(NULL);
	assert_int_equal(uccl_sim_net_init(&net, &cfg, seed, 0), 0);
	uccl_sim_attach(&net, 1, &sink, &s);
	for (uint32_t i = 0; i < n; i++) {
		send_one(0, 1, (uint16_t)i, (uint8_t)i, 100);
		uccl_sim_run(&net, net.now + 100);
	}
	uccl_sim_run(&net, net.now + 20 * UCCL_NS_PER_S);
}

TEST_IN(faults__have_their_rates, setup, NULL)
{
	static const struct {
		struct uccl_sim_faults faults;
		bool fifo;
		uint32_t sent;
		uint32_t least, most;	      /* arrive, copies not counted */
		uint32_t odd_least, odd_most; /* are copies, come too late, or come shortened */
	} cases[] = {
		{{.loss = 0.25}, false, 2000, 1400, 1600, 0, 0},
		{{.nth = 4}, false, 2000, 1500, 1500, 0, 0},
		{{.burst = 0.01, .burst_end = 0.1}, false, 2000, 1500, 1990, 0, 0},
		{{.dup = 0.5}, false, 1000, 1000, 1000, 400, 600},
		{{.reorder = 0.2, .reorder_ns = 5000}, false, 1000, 1000, 1000, 50, 300},
		{{.reorder = 0.2, .reorder_ns = 5000}, true, 1000, 1000, 1000, 0, 300},
		{{.corrupt = 0.3}, false, 1000, 600, 800, 0, 0},
		{{.truncate = 0.3}, false, 1000, 1000, 1000, 200, 400},
		{{.flap_ns = 20000}, false, 1000, 490, 510, 0, 0},
	};

	for (size_t k = 0; k < uccl_array_len(cases); k++) {
		uint32_t copies = 0, odd = 0;

		cfg.faults = cases[k].faults;
		cfg.fifo = cases[k].fifo;
		storm(1, cases[k].sent);
		for (uint32_t i = 0; i < s.n; i++) {
			copies += s.copy[i];
			odd += s.copy[i] || s.len[i] < 100 || (i && (uint8_t)(s.id[i] - s.id[i - 1]) > 128);
		}
		assert_in_range(s.n - copies, cases[k].least, cases[k].most);
		assert_in_range(odd, cases[k].odd_least, cases[k].odd_most);
		assert_int_equal(net.stats.lost_corrupt, cases[k].faults.corrupt > 0 ? 1000 - s.n : 0);
	}
}

/* One route that never reorders, though every packet is delayed differently. */
TEST_IN(faults__fifo_routes_keep_order, setup, NULL)
{
	uint32_t i;

	cfg.fifo = true;
	cfg.routes = 1;
	cfg.jitter_ns = 3000;
	cfg.faults.reorder = 0.2;
	cfg.faults.reorder_ns = 9000;
	storm(1, 1000);
	assert_int_equal(s.n, 1000);
	for (i = 0; i < s.n; i++)
		assert_int_equal(s.id[i], (uint8_t)i);
}

TEST_IN(heal__ends_all_faults, setup, NULL)
{
	struct uccl_sim_hole hole = {.src = -1, .dst = -1, .route = -1, .start = 0, .end = UCCL_NEVER};

	cfg.faults.loss = 1;
	begin(1, 0);
	uccl_sim_hole_add(&net, &hole);
	send_one(0, 1, 0, 1, 100);
	uccl_sim_heal(&net);
	send_one(0, 1, 0, 2, 100);
	uccl_sim_run(&net, 10000);
	assert_int_equal(s.n, 1);
	assert_int_equal(s.id[0], 2);
}

static uint32_t script_third(void *arg, const struct uccl_sim_pkt *p, uint64_t *delay_ns, uint64_t now)
{
	if (p->number == 0)
		*delay_ns = 50000;
	return p->number == 2 ? UCCL_SIM_DROP : p->number == 3 ? UCCL_SIM_DUP : 0;
}

TEST_IN(script__decides_each_packet, setup, NULL)
{
	uint8_t i;

	begin(1, 0);
	net.script = script_third;
	for (i = 0; i < 5; i++)
		send_one(0, 1, 0, i, 100);
	uccl_sim_run(&net, 1000000);
	assert_int_equal(s.n, 5);
	assert_int_equal(s.id[0], 1);
	assert_int_equal(s.id[4], 0);
	assert_int_equal(net.stats.lost_script, 1);
}

TEST_IN(trace__is_the_seed, setup, NULL)
{
	uint64_t trace[3];
	uint32_t i;

	cfg.jitter_ns = 500;
	cfg.faults = (struct uccl_sim_faults){.loss = 0.1, .dup = 0.1, .reorder = 0.1, .reorder_ns = 4000};
	for (i = 0; i < 3; i++) {
		storm(i < 2 ? 9 : 10, 500);
		trace[i] = net.trace;
	}
	assert_int_equal(trace[0], trace[1]);
	assert_int_not_equal(trace[0], trace[2]);
}

TEST_IN(addr__round_trip, setup, NULL)
{
	struct uccl_nic_addr a;
	int i;

	for (i = 0; i < UCCL_SIM_NODES; i++) {
		uccl_sim_addr((uint8_t)i, 0, &a);
		assert_int_equal(uccl_sim_node_of(&a), i);
	}
	a.ip[15] = 0;
	assert_int_equal(uccl_sim_node_of(&a), -1);
	a.ip[15] = UCCL_SIM_NODES + 1;
	assert_int_equal(uccl_sim_node_of(&a), -1);
	uccl_sim_addr(0, 0, &a);
	a.ip[13] = 1;
	assert_int_equal(uccl_sim_node_of(&a), -1);
}

TESTS_MAIN_IN(NULL, end)
