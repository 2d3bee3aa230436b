/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "lan.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"

#define MS UCCL_NS_PER_MS
#define SECOND UCCL_NS_PER_S

static uint8_t src[1 << 19], dst[1 << 19];

static uint64_t dropped(const struct lan *l, int i, enum uccl_drop reason)
{
	return lan_stats(l, i)->dropped[reason];
}

static void talk(struct lan *l)
{
	lan_recv(l, 1, dst, 100, LAN_CTX(101));
	assert_int_equal(lan_send(l, 0, 1, src, 100, LAN_CTX(100)), 0);
	lan_run(l, 100 * MS);
	lan_expect(l, 0, LAN_CTX(100), 0);
	lan_expect(l, 1, LAN_CTX(101), 0);
}

/* A NIC that only notes that it was closed. */
struct stub_nic {
	struct uccl_nic nic;
	int closed;
	struct uccl_nic_guard guard;
};

static void stub_close(struct uccl_nic *nic)
{
	((struct stub_nic *)nic)->closed++;
}

static void stub_addr(struct uccl_nic *nic, struct uccl_nic_addr *out)
{
	(void)nic;
	memset(out, 0, sizeof(*out));
	out->port = 1;
}

static int stub_rx(struct uccl_nic *nic, struct uccl_rx *v, int n, const struct uccl_rx_hint *hints, int nhints)
{
	(void)nic;
	(void)v;
	(void)n;
	(void)hints;
	(void)nhints;
	return -FI_EIO;
}

static const struct uccl_nic_ops stub_ops = {.rx = stub_rx, .addr = stub_addr, .close = stub_close};

/* The first words are zero: neither may be taken for an incarnation. */
static void stub_random(void *arg, void *buf, size_t len)
{
	int *calls = arg;

	memset(buf, (*calls)++ < 2 ? 0 : 0x5a, len);
}

static void open__refuses_bad_config(void **state)
{
	(void)state;
	for (int k = 0; k < 9; k++) {
		struct stub_nic n = {.nic = {.ops = &stub_ops, .caps = {.mtu = 1500, .labels = 1}}};
		struct uccl_config cfg;
		int calls = 0;
		struct uccl_engine_attr attr = {.nic = &n.nic,
						.config = &cfg,
						.random = stub_random,
						.random_arg = &calls};
		struct uccl_engine *e = NULL;

		uccl_config_default(&cfg);
		if (k == 0)
			cfg.cc = "nonsense";
		else if (k == 1)
			cfg.path = "nonsense";
		else if (k == 2)
			cfg.credit = "nonsense";
		else if (k == 3)
			cfg.paths = 0;
		else if (k == 4)
			cfg.paths = UCCL_PATHS_MAX + 1;
		else if (k == 5)
			cfg.window_chunks = 1000;
		else if (k == 6)
			cfg.window_chunks = 32;
		else if (k == 7)
			cfg.window_chunks = 32768;
		else
			cfg.window_chunks = 0;
		assert_int_equal(uccl_engine_open(&attr, 5, &e), -FI_EINVAL);
		assert_null(e);
		/* It is closed with the engine, also with one that never was. */
		assert_int_equal(n.closed, 1);
	}
}

static void open__address(void **state)
{
	struct stub_nic n = {.nic = {.ops = &stub_ops, .caps = {.mtu = 1500, .labels = 1, .hints = true}}};
	struct uccl_config cfg;
	int calls = 0;
	struct uccl_engine_attr attr = {.nic = &n.nic, .config = &cfg, .random = stub_random, .random_arg = &calls};
	struct uccl_engine *e;

	(void)state;
	uccl_config_default(&cfg);
	assert_int_equal(uccl_engine_open(&attr, 5, &e), 0);
	assert_int_equal(uccl_engine_addr(e)->nic.port, 1);
	assert_true(uccl_engine_addr(e)->incarnation != 0);
	assert_int_equal(uccl_engine_addr(e)->key[0], 0x5a);
	/* Not more paths than the NIC has labels. */
	assert_int_equal(e->cfg.paths, 1);
	assert_int_equal(uccl_engine_wait_fd(e), -FI_ENOSYS);
	/* An error of the NIC is nothing received. */
	assert_int_equal(uccl_engine_poll(e, 6), 0);
	uccl_engine_close(e);
	assert_int_equal(n.closed, 1);
}

static void stub_guard(struct uccl_nic *nic, const struct uccl_nic_guard *guard)
{
	((struct stub_nic *)nic)->guard = *guard;
}

/* What the engine would read is what the NIC is told to let pass, whatever types there are. */
static void open__guard(void **state)
{
	static const struct uccl_nic_ops ops = {.addr = stub_addr, .close = stub_close, .guard = stub_guard};
	struct stub_nic n = {.nic = {.ops = &ops, .caps = {.mtu = 1500, .labels = 1}}};
	struct uccl_config cfg;
	int calls = 0, known = 0;
	struct uccl_engine_attr attr = {.nic = &n.nic, .config = &cfg, .random = stub_random, .random_arg = &calls};
	struct uccl_engine *e;

	(void)state;
	uccl_config_default(&cfg);
	assert_int_equal(uccl_engine_open(&attr, 5, &e), 0);
	for (unsigned int t = 0; t < 256; t++) {
		bool passes = t == n.guard.hello || t == n.guard.init || (t < 32 && n.guard.types >> t & 1);

		assert_int_equal(passes, uccl_type_known((uint8_t)t));
		known += passes;
	}
	assert_true(known > 2);
	/* These two are judged by what is in their record, having no token of ours. */
	assert_int_equal(n.guard.hello, UCCL_PKT_HELLO);
	assert_int_equal(n.guard.init, UCCL_PKT_INIT);
	assert_int_equal(n.guard.types & (1u << UCCL_PKT_HELLO | 1u << UCCL_PKT_INIT), 0);
	assert_int_equal(n.guard.incarnation, uccl_engine_addr(e)->incarnation);
	uccl_engine_close(e);
}

static void open__wait_fd(void **state)
{
	struct lan *l = lan_new();

	(void)state;
	l->writes = true;
	lan_open(l, 0);
	assert_int_equal(uccl_engine_wait_fd(l->node[0].e), 100);
	lan_free(l);
}

/* What is open ends with the endpoint: one completion each. */
static void close__cancels(void **state)
{
	struct lan *l = lan_new_open(2);
	struct uccl_op *op;
	int n = 0;

	(void)state;
	talk(l);
	l->node[1].asleep = true;
	lan_recv(l, 0, dst, 10, LAN_CTX(++n));
	lan_recv_from(l, 0, lan_peer(l, 0, 1), dst, 10, LAN_CTX(++n));
	assert_int_equal(lan_send(l, 0, 1, src, 10, LAN_CTX(++n)), 0);
	assert_int_equal(lan_send(l, 0, 1, src, 200000, LAN_CTX(++n)), 0);
	op = lan_op(l, 0, UCCL_OP_SEND, UCCL_OPF_TAGGED, src, 10);
	op->peer = lan_peer(l, 0, 0);
	op->context = LAN_CTX(++n);
	assert_int_equal(uccl_engine_send(l->node[0].e, op, l->now), 0);
	lan_kill(l, 0);
	assert_int_equal(lan_waiting(l, 0), n);
	for (const struct lan_comp *c = lan_next(l, 0); c; c = lan_next(l, 0))
		assert_int_equal(c->err, FI_ECANCELED);
	lan_free(l);
}

static void poll__nothing_to_do(void **state)
{
	struct lan *l = lan_new_open(2);

	(void)state;
	assert_true(uccl_engine_expiry(l->node[0].e) == UCCL_NEVER);
	for (int i = 0; i < 100; i++)
		assert_int_equal(uccl_engine_poll(l->node[0].e, l->now + (uint64_t)i * SECOND), 0);
	assert_int_equal(l->packets, 0);
	assert_int_equal(l->node[0].nic->txs, 0);
	assert_true(uccl_engine_expiry(l->node[0].e) == UCCL_NEVER);
	assert_int_equal(lan_waiting(l, 0), 0);
	lan_free(l);
}

/*
 * Who takes the time and then waits for the endpoint brings an earlier one than who was before. A span from then to now
 * would be endless: here what was accepted would be given up at once.
 */
static void poll__late_caller(void **state)
{
	struct lan *l = lan_new_open(2);

	(void)state;
	talk(l);
	l->node[1].asleep = true;
	assert_int_equal(lan_send(l, 0, 1, src, 60000, LAN_CTX(2)), 0);
	uccl_engine_drain(l->node[0].e, l->now);
	uccl_engine_poll(l->node[0].e, l->now - 1);
	assert_int_equal(lan_conn(l, 0, 1)->peer.flow.closing, UCCL_FLOW_OPEN);
	l->node[1].asleep = false;
	lan_recv(l, 1, dst, 60000, LAN_CTX(3));
	lan_run(l, SECOND);
	lan_expect(l, 0, LAN_CTX(2), 0);
	lan_expect(l, 1, LAN_CTX(3), 0);
	lan_free(l);
}

/* Between two expiries nothing would happen: every packet leaves in a poll that expiry() announced or an arrival
 * caused. */
static void expiry__announces_every_packet(void **state)
{
	struct lan *l = lan_new_open(2);
	struct uccl_engine *e = l->node[0].e;

	(void)state;
	talk(l);
	l->node[1].asleep = true;
	assert_int_equal(lan_send(l, 0, 1, src, 50000, LAN_CTX(1)), 0);
	for (int i = 0; i < 60; i++) {
		uint64_t at = uccl_engine_expiry(e), before = l->packets;

		assert_true(at != UCCL_NEVER);
		if (at > l->now + 1000) {
			l->now = at - 1;
			uccl_engine_poll(e, l->now);
			assert_int_equal(l->packets, before);
		}
		l->now = uccl_max(l->now, at);
		uccl_engine_poll(e, l->now);
		assert_true(uccl_engine_expiry(e) > l->now);
	}
	lan_free(l);
}

static void send__sizes(void **state)
{
	static const uint64_t sizes[] = {0, 1, 4096, LAN_MTU - 64, LAN_MTU, 65536, 65537, 500000};

	(void)state;
	for (int hints = 0; hints < 2; hints++) {
		struct lan *l = lan_new();

		l->hints = hints;
		lan_open(l, 0);
		lan_open(l, 1);
		for (unsigned int i = 0; i < uccl_array_len(sizes); i++) {
			lan_fill(src, sizes[i], i);
			lan_recv(l, 1, dst, sizes[i], LAN_CTX(1));
			assert_int_equal(lan_send(l, 0, 1, src, sizes[i], LAN_CTX(2)), 0);
			lan_run(l, SECOND);
			assert_int_equal(lan_next(l, 1)->len, sizes[i]);
			lan_expect(l, 0, LAN_CTX(2), 0);
			lan_check(dst, sizes[i], i);
		}
		if (hints)
			assert_true(lan_stats(l, 1)->hint_hits > 20);
		else
			assert_int_equal(lan_stats(l, 1)->hints, 0);
		lan_free(l);
	}
}

/* Chunks of the size that a person asked for, within what fits. */
static void send__chunk_size(void **state)
{
	static const uint32_t ask[] = {1, 1000, 100000}, want[] = {128, 1000, (LAN_MTU - 704) & ~1023u};

	(void)state;
	for (int i = 0; i < 3; i++) {
		struct lan *l = lan_new();

		l->node[0].cfg.chunk_bytes = ask[i];
		lan_open(l, 0);
		lan_open(l, 1);
		talk(l);
		assert_int_equal(lan_conn(l, 0, 1)->peer.flow.cfg.chunk_bytes, want[i]);
		lan_free(l);
	}
}

/* Four to one, with loss: everybody's bytes come, none waits for ever. */
static enum lan_verdict lose_some(struct lan *l, const struct lan_event *ev)
{
	(void)ev;
	return ++l->n % 13 == 0 ? LAN_DROP : l->n % 17 == 0 ? LAN_DOUBLE : LAN_PASS;
}

static void send__many_to_one(void **state)
{
	struct lan *l = lan_new_open(4);

	(void)state;
	l->filter = lose_some;
	lan_fill(src, 150000, 3);
	for (int i = 1; i < 4; i++) {
		lan_recv_from(l, 0, lan_peer(l, 0, i), dst + i * 100000, 100000, LAN_CTX(i));
		assert_int_equal(lan_send(l, i, 0, src + i, 100000, LAN_CTX(i)), 0);
	}
	lan_run(l, 20 * SECOND);
	assert_int_equal(lan_waiting(l, 0), 3);
	for (int i = 1; i < 4; i++) {
		lan_expect(l, i, LAN_CTX(i), 0);
		assert_int_equal(lan_next(l, 0)->err, 0);
		assert_memory_equal(dst + i * 100000, src + i, 100000);
	}
	lan_free(l);
}

/* Posted inside a completion: it leaves in the same poll. */
static void chain(struct uccl_op *op)
{
	struct lan_node *n = op->api;
	struct uccl_op *next;

	n->ncomp++;
	if (!op->err && n->ncomp < 5) {
		next = lan_op(n->lan, 1, UCCL_OP_SEND, 0, src, 8);
		next->peer = op->from;
		assert_int_equal(uccl_engine_send(n->e, next, n->lan->now), 0);
		next = lan_op(n->lan, 1, UCCL_OP_RECV, 0, dst, 8);
		next->done = chain;
		assert_int_equal(uccl_engine_recv(n->e, next, n->lan->now), 0);
	}
	uccl_op_put(n->e, op);
}

static void send__inside_a_completion(void **state)
{
	struct lan *l = lan_new_open(2);
	struct uccl_op *op;

	(void)state;
	talk(l);
	op = lan_op(l, 1, UCCL_OP_RECV, 0, dst, 8);
	op->done = chain;
	assert_int_equal(uccl_engine_recv(l->node[1].e, op, l->now), 0);
	lan_recv(l, 0, dst + 100, 8, LAN_CTX(1));
	assert_int_equal(lan_send(l, 0, 1, src, 8, LAN_CTX(2)), 0);
	/* Handed to the wire by the post, received, answered within one poll, received. */
	lan_round(l);
	lan_round(l);
	assert_int_equal(uccl_engine_poll(l->node[0].e, l->now) > 0, 1);
	assert_int_equal(lan_waiting(l, 0) >= 1, 1);
	lan_run(l, SECOND);
	assert_int_equal(lan_waiting(l, 0), 2);
	lan_free(l);
}

/* A batch ends where a burst does, so that no train is cut by its end. */
static void tx__whole_bursts(void **state)
{
	struct lan *l = lan_new();
	uint64_t before;

	(void)state;
	l->node[0].cfg.chunk_bytes = l->node[1].cfg.chunk_bytes = 1024;
	l->node[0].train_bytes = 32 * LAN_MTU;
	lan_open(l, 0);
	lan_open(l, 1);
	talk(l);
	lan_fill(src, 60000, 4);
	lan_recv(l, 1, dst, 60000, LAN_CTX(1));
	/* What is left of the burst of the talk before, and the next one: 60 chunks. */
	before = l->node[0].nic->txs;
	assert_int_equal(lan_send(l, 0, 1, src, 60000, LAN_CTX(2)), 0);
	assert_int_equal(l->node[0].nic->txs - before, 2);
	lan_run(l, SECOND);
	lan_expect(l, 0, LAN_CTX(2), 0);
	lan_expect(l, 1, LAN_CTX(1), 0);
	lan_check(dst, 60000, 4);
	lan_free(l);
}

/* Bytes that node 1 gets of node 0 in so long, in messages that follow each other. */
static uint64_t goodput(struct lan *l, uint64_t ns)
{
	const uint64_t len = 128 << 10, end = l->now + ns;
	uint64_t got = 0;
	int under_way = 0;

	while (l->now < end || under_way) {
		for (; under_way < 3 && l->now < end; under_way++) {
			lan_recv(l, 1, dst, len, LAN_CTX(1));
			assert_int_equal(lan_send(l, 0, 1, src, len, LAN_CTX(2)), 0);
		}
		lan_pass(l, 20000);
		while (lan_waiting(l, 0))
			lan_expect(l, 0, LAN_CTX(2), 0);
		for (; lan_waiting(l, 1); under_way--) {
			lan_expect(l, 1, LAN_CTX(1), 0);
			got += l->now <= end ? len : 0;
		}
		l->node[0].ncomp = l->node[0].seen = l->node[1].ncomp = l->node[1].seen = 0;
	}
	return got;
}

static struct lan *lan_trains(bool trains, enum uccl_train_fault fault)
{
	struct lan *l = lan_new();

	for (int i = 0; i < 2; i++) {
		l->node[i].cfg.chunk_bytes = 1024;
		l->node[i].cfg.window_chunks = 128;
		l->node[i].train_bytes = trains ? 32 * LAN_MTU : 0;
		lan_open(l, i);
	}
	talk(l);
	l->node[0].train_fault = fault;
	lan_fill(src, 128 << 10, 4);
	return l;
}

static char told[8][400];
static int ntold, told_level[8];

static void note(int level, const char *func, int line, const char *text)
{
	(void)func;
	(void)line;
	if (strstr(text, "trains") && ntold < 8) {
		told_level[ntold] = level;
		snprintf(told[ntold++], sizeof(told[0]), "%s", text);
	}
}

/* Trains break: within a second it goes on as without trains, and a person is told once which peer that is. */
static void trains__broken(void **state)
{
	static const enum uccl_train_fault faults[] = {UCCL_TRAIN_DROP, UCCL_TRAIN_FIRST, UCCL_TRAIN_LAST,
						       UCCL_TRAIN_EQUAL};
	struct lan *l = lan_trains(false, UCCL_TRAIN_WHOLE);
	uint64_t without = goodput(l, 5 * MS), began, drops;

	(void)state;
	lan_free(l);
	for (size_t k = 0; k < uccl_array_len(faults); k++) {
		ntold = 0;
		uccl_log_set(note, UCCL_LOG_DEBUG);
		l = lan_trains(true, faults[k]);
		began = l->now;
		while (!lan_stats(l, 0)->trains_off) {
			goodput(l, MS);
			assert_true(l->now - began < SECOND);
		}
		/* Congestion control and paths come to themselves. */
		lan_pass(l, SECOND - (l->now - began));
		drops = l->node[0].nic->train_drops;
		assert_true(goodput(l, 5 * MS) * 10 >= without * 9);
		lan_check(dst, 128 << 10, 4);
		assert_int_equal(l->node[0].nic->train_drops, drops);
		assert_true(drops < 2000);
		uccl_log_set(NULL, 0);
		assert_int_equal(ntold, 1);
		assert_int_equal(told_level[0], UCCL_LOG_WARN);
		assert_non_null(strstr(told[0], "10.0.0.2 port 4001 on eth-lan "));
		assert_int_equal(lan_stats(l, 0)->trains_off, 1);
		lan_free(l);
	}
}

/* What is mended is used again, after a minute; it is no warning. */
static void trains__mended(void **state)
{
	struct lan *l = lan_trains(true, UCCL_TRAIN_DROP);

	(void)state;
	while (!lan_stats(l, 0)->trains_off)
		goodput(l, MS);
	ntold = 0;
	uccl_log_set(note, UCCL_LOG_DEBUG);
	lan_pass(l, 50 * SECOND);
	goodput(l, MS);
	assert_int_equal(lan_stats(l, 0)->train_trials, 0);
	/* Still broken: a trial costs no more than its train. */
	lan_pass(l, 11 * SECOND);
	l->node[0].nic->train_drops = 0;
	goodput(l, MS);
	assert_int_equal(lan_stats(l, 0)->train_trials, 1);
	assert_int_equal(l->node[0].nic->train_drops, UCCL_TRAIN_TRIAL);
	assert_int_equal(ntold, 0);
	l->node[0].train_fault = UCCL_TRAIN_WHOLE;
	lan_pass(l, 121 * SECOND);
	goodput(l, MS);
	assert_int_equal(lan_stats(l, 0)->train_trials, 2);
	assert_int_equal(lan_conn(l, 0, 1)->peer.flow.train.state, UCCL_TRAINS_ON);
	uccl_log_set(NULL, 0);
	assert_int_equal(ntold, 1);
	assert_int_equal(told_level[0], UCCL_LOG_INFO);
	assert_int_equal(lan_stats(l, 0)->trains_off, 1);
	lan_free(l);
}

/* Messages of a few packets, one at a time: each comes, as what is sent again goes by itself. */
static void trains__little_traffic(void **state)
{
	struct lan *l = lan_trains(true, UCCL_TRAIN_DROP);

	(void)state;
	for (int i = 0; i < 40; i++) {
		lan_recv(l, 1, dst, 3000, LAN_CTX(1));
		assert_int_equal(lan_send(l, 0, 1, src, 3000, LAN_CTX(2)), 0);
		lan_pass(l, 20 * MS);
		lan_expect(l, 0, LAN_CTX(2), 0);
		lan_expect(l, 1, LAN_CTX(1), 0);
		assert_int_equal(lan_conn(l, 0, 1)->peer.flow.una, lan_conn(l, 0, 1)->peer.flow.nxt);
	}
	assert_true(l->node[0].nic->train_drops > 0);
	lan_free(l);
}

/* The NIC takes nothing for a while: what waits goes later, in order, and nothing is lost. */
static void tx__back_pressure(void **state)
{
	struct lan *l = lan_new_open(2);

	(void)state;
	talk(l);
	lan_fill(src, 300000, 4);
	for (int i = 0; i < 3; i++) {
		lan_recv(l, 1, dst + i * 100000, 100000, LAN_CTX(i));
		l->node[0].nic->room = 0;
		assert_int_equal(lan_send(l, 0, 1, src + i * 100000, 100000, LAN_CTX(i)), 0);
		/* Something waits: poll again at once. */
		assert_true(uccl_engine_expiry(l->node[0].e) <= l->now);
	}
	for (int i = 0; i < 50; i++) {
		assert_int_equal(lan_waiting(l, 1), 0);
		lan_round(l);
	}
	for (int i = 0; i < 400; i++) {
		l->node[0].nic->room = i % 3;
		lan_round(l);
	}
	l->node[0].nic->room = -1;
	lan_run(l, SECOND);
	assert_int_equal(lan_waiting(l, 0), 3);
	assert_int_equal(lan_waiting(l, 1), 3);
	lan_check(dst, 300000, 4);
	lan_free(l);
}

/* Also while it connects. */
static void tx__back_pressure_at_the_handshake(void **state)
{
	struct lan *l = lan_new_open(2);

	(void)state;
	l->node[0].nic->room = l->node[1].nic->room = 0;
	lan_recv(l, 1, dst, 10, LAN_CTX(1));
	assert_int_equal(lan_send(l, 0, 1, src, 10, LAN_CTX(2)), 0);
	for (int i = 0; i < 20; i++)
		lan_round(l);
	for (int i = 0; i < 200; i++) {
		l->node[0].nic->room = l->node[1].nic->room = 1;
		lan_round(l);
	}
	lan_expect(l, 0, LAN_CTX(2), 0);
	lan_expect(l, 1, LAN_CTX(1), 0);
	assert_int_equal(lan_stats(l, 0)->connects, 1);
	lan_free(l);
}

/* An error is a loss. PROTOCOL R15 */
static void tx__errors(void **state)
{
	struct lan *l = lan_new_open(2);

	(void)state;
	talk(l);
	lan_fill(src, 100000, 5);
	lan_recv(l, 1, dst, 100000, LAN_CTX(1));
	l->node[0].nic->tx_error = -FI_EIO;
	assert_int_equal(lan_send(l, 0, 1, src, 100000, LAN_CTX(2)), 0);
	lan_pass(l, 50 * MS);
	assert_int_equal(lan_waiting(l, 0), 0);
	/* Nothing waits for a NIC that fails. */
	assert_int_equal(l->node[0].e->tx_n, 0);
	l->node[0].nic->tx_error = 0;
	lan_run(l, 5 * SECOND);
	lan_expect(l, 0, LAN_CTX(2), 0);
	lan_expect(l, 1, LAN_CTX(1), 0);
	lan_check(dst, 100000, 5);
	lan_free(l);
}

/* The message is late, and before its sender is told so its NIC is full. */
static enum lan_verdict hold_message(struct lan *l, const struct lan_event *ev)
{
	if (ev->from == 1)
		l->node[0].nic->room = 0;
	return ev->type == UCCL_PKT_CHUNK ? LAN_HOLD : LAN_PASS;
}

/*
 * A retransmission waits for the NIC while the acknowledgement of the original arrives: the application has its buffer
 * back, so it must not be read any more. (The buffer is freed in done(); a sanitizer would tell.) PROTOCOL R16
 */
static uint8_t *given_back;

static void free_buffer(struct uccl_op *op)
{
	struct lan_node *n = op->api;

	n->ncomp++;
	free(given_back);
	given_back = NULL;
	uccl_op_put(n->e, op);
}

static void tx__acknowledged_while_it_waits(void **state)
{
	struct lan *l = lan_new_open(2);
	struct uccl_op *op;
	uint64_t rtx;

	(void)state;
	talk(l);
	given_back = malloc(1000);
	assert_non_null(given_back);
	lan_fill(given_back, 1000, 6);
	l->filter = hold_message;
	lan_recv(l, 1, dst, 1000, LAN_CTX(1));
	op = lan_op(l, 0, UCCL_OP_SEND, 0, given_back, 1000);
	op->peer = lan_peer(l, 0, 1);
	op->done = free_buffer;
	assert_int_equal(uccl_engine_send(l->node[0].e, op, l->now), 0);
	lan_round(l);
	rtx = lan_stats(l, 0)->rtx_packets;
	for (int i = 0; i < 100 && lan_stats(l, 0)->rtx_packets == rtx; i++)
		lan_pass(l, MS);
	assert_true(lan_stats(l, 0)->rtx_packets > rtx);
	assert_true(l->node[0].e->tx_n > 0);
	assert_non_null(given_back);
	l->filter = NULL;
	lan_release(l, false);
	for (int i = 0; i < 3; i++)
		lan_round(l);
	assert_null(given_back);
	l->node[0].nic->room = -1;
	lan_run(l, SECOND);
	lan_expect(l, 1, LAN_CTX(1), 0);
	lan_check(dst, 1000, 6);
	assert_int_equal(lan_stats(l, 1)->dropped[UCCL_DROP_DUPLICATE], 0);
	lan_free(l);
}

static enum lan_verdict count_to_one(struct lan *l, const struct lan_event *ev)
{
	l->n += ev->to == 1;
	return LAN_PASS;
}

/* A peer that ended: its packets that the NIC has not taken do not leave. */
static void tx__forgets_the_dead(void **state)
{
	struct lan *l = lan_new_open(3);

	(void)state;
	talk(l);
	lan_recv(l, 2, dst + 100, 100, LAN_CTX(5));
	assert_int_equal(lan_send(l, 0, 2, src, 100, LAN_CTX(4)), 0);
	lan_run(l, SECOND);
	lan_expect(l, 0, LAN_CTX(4), 0);
	l->node[0].nic->room = 0;
	given_back = malloc(5000);
	assert_non_null(given_back);
	memset(given_back, 1, 5000);
	assert_int_equal(lan_send(l, 0, 1, given_back, 5000, LAN_CTX(1)), 0);
	lan_recv(l, 2, dst, 100, LAN_CTX(2));
	assert_int_equal(lan_send(l, 0, 2, src, 100, LAN_CTX(3)), 0);
	conn_fail(lan_conn(l, 0, 1), FI_ECONNABORTED, l->now);
	lan_expect(l, 0, LAN_CTX(1), FI_ECONNABORTED);
	free(given_back);
	l->node[0].nic->room = -1;
	l->filter = count_to_one;
	lan_run(l, SECOND);
	assert_int_equal(l->n, 0);
	lan_expect(l, 0, LAN_CTX(3), 0);
	lan_expect(l, 2, LAN_CTX(5), 0);
	lan_expect(l, 2, LAN_CTX(2), 0);
	lan_free(l);
}

/* The first 64 bytes of a data chunk for the message that node 1 receives. */
static void data_header(struct lan *l, uint8_t *out, uint32_t csn, uint64_t off, uint16_t len, uint16_t tail)
{
	struct conn *c = lan_conn(l, 1, 0);
	struct uccl_msg_rx *rx = TAILQ_FIRST(&c->peer.rxs);
	uint8_t rec[UCCL_REC_LEN] = {0};
	struct uccl_hdr h = {.type = UCCL_PKT_CHUNK,
			     .rtype = UCCL_REC_DATA,
			     .token = c->hs.token_local,
			     .csn = (uint32_t)c->peer.flow.rcv_nxt + csn,
			     .pseq = 1000 + csn,
			     .payload_len = len,
			     .tail_len = tail,
			     .rec = rec};

	uccl_rec_set_bulk(rec, rx->id, (uint32_t)rx->mseq, off);
	uccl_hdr_encode(out, &h);
}

static enum lan_verdict hold_data(struct lan *l, const struct lan_event *ev)
{
	(void)l;
	return ev->type == UCCL_PKT_CHUNK && ev->rtype == UCCL_REC_DATA ? LAN_HOLD : LAN_PASS;
}

#define CHUNK ((uint64_t)((LAN_MTU - UCCL_HDR_LEN - UCCL_TAIL_MAX) & ~1023u))
#define FIRST CHUNK /* what the envelope carries */

/* Node 1 has matched a message of n chunks behind the envelope; its data packets are held, the stream is known. */
static struct lan *stream_start(unsigned int n)
{
	struct lan *l = lan_new();

	l->hints = true;
	l->node[0].cfg.eager_bytes = CHUNK;
	lan_open(l, 0);
	lan_open(l, 1);
	talk(l);
	lan_fill(src, FIRST + n * CHUNK, 8);
	memset(dst, 0xee, sizeof(dst));
	lan_recv(l, 1, dst, FIRST + n * CHUNK, LAN_CTX(1));
	l->filter = hold_data;
	assert_int_equal(lan_send(l, 0, 1, src, FIRST + n * CHUNK, LAN_CTX(2)), 0);
	for (int i = 0; i < 10 && TAILQ_EMPTY(&l->held); i++)
		lan_round(l);
	assert_false(TAILQ_EMPTY(&l->held));
	lan_round(l);
	l->node[1].e->mep.stream = TAILQ_FIRST(&lan_conn(l, 1, 0)->peer.rxs);
	l->filter = NULL;
	return l;
}

static void stream_end(struct lan *l, unsigned int n)
{
	lan_run(l, SECOND);
	lan_expect(l, 1, LAN_CTX(1), 0);
	lan_expect(l, 0, LAN_CTX(2), 0);
	lan_check(dst, FIRST + n * CHUNK, 8);
	assert_int_equal(dst[FIRST + n * CHUNK], 0xee);
	lan_free(l);
}

/* PROTOCOL R44 */
static void settle__right_predictions(void **state)
{
	struct lan *l = stream_start(5);

	(void)state;
	lan_release(l, false);
	lan_round(l);
	lan_round(l);
	assert_int_equal(lan_stats(l, 1)->hint_hits, 5);
	stream_end(l, 5);
}

/*
 * All orders of four payloads in one round: where slot i's wrong payload lies, slot j's belongs. PROTOCOL R44
 */
static void settle__every_permutation(void **state)
{
	(void)state;
	for (int code = 0; code < 256; code++) {
		int at[4] = {code & 3, code >> 2 & 3, code >> 4 & 3, code >> 6 & 3}, fixed = 0;
		struct lan_event *ev[4];
		struct lan *l;

		if ((1 << at[0] | 1 << at[1] | 1 << at[2] | 1 << at[3]) != 15)
			continue;
		l = stream_start(4);
		for (int i = 0; i < 4; i++) {
			ev[i] = TAILQ_FIRST(&l->held);
			assert_non_null(ev[i]);
			TAILQ_REMOVE(&l->held, ev[i], link);
		}
		for (int i = 0; i < 4; i++) {
			TAILQ_INSERT_TAIL(&l->wire, ev[at[i]], link);
			fixed += at[i] == i;
		}
		lan_round(l);
		lan_round(l);
		assert_int_equal(lan_stats(l, 1)->hint_hits, fixed);
		stream_end(l, 4);
	}
}

static enum lan_verdict jumble(struct lan *l, const struct lan_event *ev)
{
	struct uccl_rng *r = (struct uccl_rng *)(void *)&l->node[3].comp;

	(void)ev;
	switch (uccl_rng_below(r, 8)) {
	case 0:
		return LAN_DROP;
	case 1:
		return LAN_HOLD;
	case 2:
		return LAN_DOUBLE;
	default:
		return LAN_PASS;
	}
}

/* Several streams both ways, reordered, lost, doubled, with acknowledgements between: the bytes are right. PROTOCOL R44
 */
static void settle__random(void **state)
{
	(void)state;
	for (unsigned int seed = 0; seed < 12; seed++) {
		struct lan *l = lan_new();

		l->hints = true;
		uccl_rng_seed((struct uccl_rng *)(void *)&l->node[3].comp, seed);
		lan_open(l, 0);
		lan_open(l, 1);
		lan_fill(src, 260000, seed);
		l->filter = jumble;
		for (int s = 0; s < 2; s++)
			for (int i = 0; i < 3; i++) {
				lan_recv(l, s, dst + (s * 3 + i) * 80000, 80000, LAN_CTX(i));
				assert_int_equal(lan_send(l, s, !s, src + i * 80000, 80000, LAN_CTX(10 + i)), 0);
			}
		for (int i = 0; i < 3000 && lan_waiting(l, 0) + lan_waiting(l, 1) < 12; i++) {
			lan_pass(l, 100000);
			lan_release(l, i & 1);
		}
		for (int s = 0; s < 2; s++) {
			assert_int_equal(lan_waiting(l, s), 6);
			assert_memory_equal(dst + s * 240000, src, 240000);
			for (int i = 0; i < 6; i++)
				assert_int_equal(lan_next(l, s)->err, 0);
		}
		l->filter = NULL;
		lan_free(l);
	}
}

/*
 * A short payload with a tail, and another packet of the round whose bytes belong where that tail was scattered: the
 * tail is read from a copy. PROTOCOL R44
 */
static void settle__tail_behind_a_short_payload(void **state)
{
	struct lan *l = stream_start(2);
	uint8_t p[LAN_MTU], q[LAN_MTU];
	struct uccl_ack ack = {.cum = (uint32_t)lan_conn(l, 1, 0)->peer.flow.una,
			       .slots = 100,
			       .msg_limit = UCCL_MSG_LIMIT};
	uint16_t tail = (uint16_t)uccl_ack_encode(q + UCCL_HDR_LEN + 1000, &ack);
	uint64_t acks;

	(void)state;
	/* Slot 0: bytes from 1000 on of the second chunk's place, by packet 2; slot 1: the first 1000, with a tail. */
	data_header(l, q, 1, FIRST + CHUNK, 1000, tail);
	memcpy(q + UCCL_HDR_LEN, src + FIRST + CHUNK, 1000);
	data_header(l, p, 2, FIRST + CHUNK + 1000, (uint16_t)(CHUNK - 1000), 0);
	memcpy(p + UCCL_HDR_LEN, src + FIRST + CHUNK + 1000, CHUNK - 1000);
	lan_inject(l, 1, 0, p, (uint32_t)(UCCL_HDR_LEN + CHUNK - 1000));
	lan_inject(l, 1, 0, q, UCCL_HDR_LEN + 1000u + tail);
	acks = lan_stats(l, 1)->acks_rx;
	lan_round(l);
	assert_int_equal(lan_stats(l, 1)->acks_rx, acks + 1);
	assert_int_equal(lan_stats(l, 1)->hint_hits, 0);
	for (int i = 0; i < UCCL_DROP_COUNT; i++)
		assert_int_equal(dropped(l, 1, (enum uccl_drop)i), 0);
	data_header(l, p, 0, FIRST, (uint16_t)CHUNK, 0);
	memcpy(p + UCCL_HDR_LEN, src + FIRST, CHUNK);
	lan_inject(l, 1, 0, p, (uint32_t)(UCCL_HDR_LEN + CHUNK));
	lan_round(l);
	lan_expect(l, 1, LAN_CTX(1), 0);
	lan_check(dst, FIRST + 2 * CHUNK, 8);
	lan_free(l);
}

/* Scattered and then refused: nobody's, foreign, malformed. */
static void settle__refused(void **state)
{
	struct lan *l = stream_start(3);
	uint8_t p[LAN_MTU];
	uint64_t got = TAILQ_FIRST(&lan_conn(l, 1, 0)->peer.rxs)->got;

	(void)state;
	memset(p, 0x55, sizeof(p));
	/* From another machine, exactly where it would belong. */
	data_header(l, p, 0, FIRST, (uint16_t)CHUNK, 0);
	memcpy(p + UCCL_HDR_LEN, src + FIRST, CHUNK);
	lan_inject_from(l, 1, &(struct uccl_nic_addr){.port = 7}, p, (uint32_t)(UCCL_HDR_LEN + CHUNK));
	lan_round(l);
	assert_int_equal(dropped(l, 1, UCCL_DROP_SOURCE), 1);
	/* Unknown token; not ours at all; too short. */
	uccl_put64(p + 8, 99);
	lan_inject(l, 1, 0, p, (uint32_t)(UCCL_HDR_LEN + CHUNK));
	lan_round(l);
	assert_int_equal(dropped(l, 1, UCCL_DROP_TOKEN), 1);
	memset(p, 0x55, sizeof(p));
	lan_inject(l, 1, 0, p, 5000);
	lan_inject(l, 1, 0, p, 20);
	lan_round(l);
	assert_int_equal(dropped(l, 1, UCCL_DROP_MAGIC), 1);
	assert_int_equal(dropped(l, 1, UCCL_DROP_SHORT), 1);
	assert_int_equal(TAILQ_FIRST(&lan_conn(l, 1, 0)->peer.rxs)->got, got);
	assert_int_equal(lan_waiting(l, 1), 0);
	lan_release(l, false);
	stream_end(l, 3);
}

/* PROTOCOL R1 R2 R3 */
static void rx__checks(void **state)
{
	struct lan *l = lan_new_open(3);
	uint8_t p[UCCL_HDR_LEN] = {0};
	struct uccl_hdr h = {.type = UCCL_PKT_ACK};
	struct conn *c;

	(void)state;
	talk(l);
	c = lan_conn(l, 0, 1);
	h.token = c->hs.token_local;
	for (uint32_t n = 0; n < UCCL_HDR_LEN; n += 21)
		lan_inject(l, 0, 1, p, n);
	lan_inject(l, 0, 1, p, UCCL_HDR_LEN);
	uccl_hdr_encode(p, &h);
	p[2]++;
	lan_inject(l, 0, 1, p, UCCL_HDR_LEN);
	uccl_hdr_encode(p, &h);
	p[3] = 99;
	lan_inject(l, 0, 1, p, UCCL_HDR_LEN);
	uccl_hdr_encode(p, &h);
	p[28]++;
	lan_inject(l, 0, 1, p, UCCL_HDR_LEN);
	h.token++;
	uccl_hdr_encode(p, &h);
	lan_inject(l, 0, 1, p, UCCL_HDR_LEN);
	h.token--;
	uccl_hdr_encode(p, &h);
	lan_inject(l, 0, 2, p, UCCL_HDR_LEN);
	h.path = c->peer.flow.cfg.paths_rx;
	uccl_hdr_encode(p, &h);
	lan_inject(l, 0, 1, p, UCCL_HDR_LEN);
	lan_round(l);
	assert_int_equal(dropped(l, 0, UCCL_DROP_SHORT), 4);
	assert_int_equal(dropped(l, 0, UCCL_DROP_MAGIC), 2);
	assert_int_equal(dropped(l, 0, UCCL_DROP_TYPE), 1);
	assert_int_equal(dropped(l, 0, UCCL_DROP_LENGTH), 1);
	assert_int_equal(dropped(l, 0, UCCL_DROP_TOKEN), 1);
	assert_int_equal(dropped(l, 0, UCCL_DROP_SOURCE), 1);
	assert_int_equal(dropped(l, 0, UCCL_DROP_PATH), 1);
	/* A flow's packet before there is a flow. */
	lan_peer(l, 0, 2);
	h.token = lan_conn(l, 0, 2)->hs.token_local;
	h.path = 0;
	uccl_hdr_encode(p, &h);
	lan_inject(l, 0, 2, p, UCCL_HDR_LEN);
	lan_round(l);
	assert_int_equal(dropped(l, 0, UCCL_DROP_STATE), 1);
	talk(l);
	lan_free(l);
}

/* Events of peers that are gone or never were. */
static void rx__events_of_nobody(void **state)
{
	static const uint8_t kinds[] = {UCCL_RX_WRITE, UCCL_RX_SENT, UCCL_RX_FENCED, UCCL_RX_PATH_ERR};
	struct lan *l = lan_new_open(2);

	(void)state;
	talk(l);
	for (unsigned int i = 0; i < uccl_array_len(kinds); i++)
		for (int k = 0; k < 2; k++) {
			struct lan_event *ev;

			lan_event(l, 0, kinds[i], NULL);
			ev = TAILQ_LAST(&l->node[0].nic->rxq, lan_events);
			ev->rx.peer_id = k ? lan_conn(l, 0, 1)->hs.token_local : 4711;
			ev->rx.path = 3;
			ev->rx.cookie = 1ull << 40;
		}
	assert_int_equal(uccl_engine_poll(l->node[0].e, l->now), 8);
	/* This NIC does not write. */
	assert_int_equal(dropped(l, 0, UCCL_DROP_PATH), 1);
	talk(l);
	lan_free(l);
}

/* Bytes from a generator, some of them made to look right. Nothing breaks, and the endpoint works. PROTOCOL R1 */
static void rx__garbage(void **state)
{
	(void)state;
	for (int hints = 0; hints < 2; hints++) {
		struct lan *l = lan_new();
		struct uccl_rng r;
		uint8_t p[2048];

		l->hints = hints;
		lan_open(l, 0);
		lan_open(l, 1);
		talk(l);
		uccl_rng_seed(&r, 99u + (unsigned int)hints);
		for (int i = 0; i < 20000; i++) {
			uint32_t len = (uint32_t)uccl_rng_below(&r, i % 3 ? 300 : sizeof(p));

			for (uint32_t k = 0; k < len; k++)
				p[k] = (uint8_t)uccl_rng_next(&r);
			if (len >= UCCL_HDR_LEN && i % 8) {
				uint16_t tail = (uint16_t)uccl_rng_below(&r, uccl_min(len - UCCL_HDR_LEN, 600) + 1);

				uccl_put16(p, UCCL_MAGIC);
				p[2] = UCCL_VERSION;
				p[3] = (uint8_t)uccl_rng_below(&r, 20);
				/* A connection that is closed by nonsense proves little. */
				if (p[3] == UCCL_PKT_CLOSE)
					p[3] = UCCL_PKT_CHUNK;
				p[5] = (uint8_t)uccl_rng_below(&r, 7);
				uccl_put16(p + 6, (uint16_t)uccl_rng_below(&r, 5));
				if (i % 4)
					uccl_put64(p + 8, lan_conn(l, 0, 1)->hs.token_local);
				/* Far away, so that the chunks of the real peer keep their numbers. */
				uccl_put32(p + 16, (uint32_t)lan_conn(l, 0, 1)->peer.flow.rcv_nxt + 2000 +
							   (uint32_t)uccl_rng_below(&r, 100));
				uccl_put16(p + 28, (uint16_t)(len - UCCL_HDR_LEN - tail));
				uccl_put16(p + 30, tail);
			}
			lan_inject(l, 0, 1, p, len);
			if (i % 5 == 0)
				lan_round(l);
			assert_true(!lan_conn(l, 0, 1)->peer.open || !uccl_flow_check(&lan_conn(l, 0, 1)->peer.flow));
		}
		lan_round(l);
		assert_int_equal(l->node[0].e->nconns, 1);
		assert_true(lan_conn(l, 0, 1)->peer.open);
		talk(l);
		lan_free(l);
	}
}

static enum lan_verdict lose_close_acks(struct lan *l, const struct lan_event *ev)
{
	return ev->type == UCCL_PKT_CLOSE_ACK && l->n++ < 3 ? LAN_DROP : LAN_PASS;
}

/* The peer is dead to us and still answers, so that its closer need not linger. PROTOCOL R50 R51 */
/*
 * The application was away. Its queue holds the acknowledgement that it waits for, behind packets of another peer: no
 * timer fires before that was read. PROTOCOL R131
 */
static void timers__after_what_has_arrived(void **state)
{
	struct uccl_stats before;
	struct lan *l = lan_new_open(3);

	(void)state;
	for (int j = 1; j < 3; j++)
		for (int k = 0; k < 30; k++) {
			lan_recv(l, j, dst, 64, LAN_CTX(2));
			assert_int_equal(lan_send(l, 0, j, src, 10, LAN_CTX(1)), 0);
			lan_run(l, 10 * MS);
		}
	l->node[0].asleep = true;
	for (int k = 0; k < 400; k++)
		assert_int_equal(lan_send(l, 2, 0, src, 10, LAN_CTX(7)), 0);
	lan_pass(l, 20 * UCCL_NS_PER_US);
	before = *lan_stats(l, 0);
	lan_recv(l, 1, dst, 64, LAN_CTX(2));
	assert_int_equal(lan_send(l, 0, 1, src, 10, LAN_CTX(3)), 0);
	lan_pass(l, 20 * MS);
	l->node[0].asleep = false;
	lan_run(l, 50 * MS);
	assert_int_equal(lan_stats(l, 0)->probes, before.probes);
	assert_int_equal(lan_stats(l, 0)->rtx_packets, before.rtx_packets);
	lan_free(l);
}

/*
 * One message after the other each way, over a network that loses nothing, between hosts that are away from it again
 * and again: `away` tells for how long. What was sent again, in parts per thousand of all packets.
 */
static unsigned int sent_again(uint64_t (*away)(struct lan *l, int i), uint64_t span)
{
	struct lan *l = lan_new_open(2);
	uint64_t back[2] = {0}, end, packets = 0, again = 0;

	for (int i = 0; i < 2; i++)
		lan_recv(l, i, dst, 64, LAN_CTX(2));
	assert_int_equal(lan_send(l, 0, 1, src, 10, LAN_CTX(1)), 0);
	for (end = l->now + span; l->now < end; lan_round(l))
		for (int i = 0; i < 2; i++) {
			const struct lan_comp *c;

			l->node[i].asleep = l->now < back[i];
			if (l->node[i].asleep)
				continue;
			/* An answer to each message. */
			while ((c = lan_next(l, i)))
				if (c->context == LAN_CTX(2)) {
					lan_recv(l, i, dst, 64, LAN_CTX(2));
					assert_int_equal(lan_send(l, i, !i, src, 10, LAN_CTX(1)), 0);
				}
			l->node[i].ncomp = l->node[i].seen = 0;
			back[i] = l->now + away(l, i);
		}
	for (int i = 0; i < 2; i++) {
		packets += lan_stats(l, i)->tx_packets;
		again += lan_stats(l, i)->rtx_packets;
	}
	assert_true(packets > 1000);
	lan_free(l);
	return (unsigned int)(1000 * again / packets);
}

/* A core each; some 200 us of computing between two calls. */
static uint64_t away_computing(struct lan *l, int i)
{
	(void)i;
	return 100 * UCCL_NS_PER_US + uccl_rng_below(&l->rng, 200 * UCCL_NS_PER_US);
}

/* One core for two: each runs for some milliseconds, and then the other. */
static uint64_t away_sharing(struct lan *l, int i)
{
	bool mine = l->now / (4 * MS) % 2 == (uint64_t)i;

	return mine ? 0 : 4 * MS - l->now % (4 * MS);
}

static void host__away_is_no_loss(void **state)
{
	(void)state;
	assert_true(sent_again(away_computing, UCCL_NS_PER_S) < 10);
	assert_true(sent_again(away_sharing, 4 * UCCL_NS_PER_S) < 10);
}

static enum lan_verdict drop_first_to_one(struct lan *l, const struct lan_event *ev)
{
	return ev->to == 1 && ev->type == UCCL_PKT_CHUNK && !l->n++ ? LAN_DROP : LAN_PASS;
}

/* A queue that never gets empty does not stop the clock: somebody floods us, and a packet of ours was lost. */
static void timers__under_a_flood(void **state)
{
	static const uint8_t junk[UCCL_HDR_LEN];
	struct lan *l = lan_new_open(3);

	(void)state;
	lan_recv(l, 1, dst, 64, LAN_CTX(2));
	lan_recv(l, 1, dst, 64, LAN_CTX(4));
	assert_int_equal(lan_send(l, 0, 1, src, 10, LAN_CTX(1)), 0);
	lan_run(l, 10 * MS);
	lan_expect(l, 0, LAN_CTX(1), 0);
	l->filter = drop_first_to_one;
	l->n = 0;
	assert_int_equal(lan_send(l, 0, 1, src, 10, LAN_CTX(3)), 0);
	for (uint64_t end = l->now + 100 * MS; l->now < end && !lan_waiting(l, 0);) {
		/* As much as a poll reads. */
		for (int k = 0; k < 128; k++)
			lan_inject(l, 0, 2, junk, sizeof(junk));
		lan_round(l);
	}
	assert_true(l->n > 1);
	lan_expect(l, 0, LAN_CTX(3), 0);
	lan_free(l);
}

static void drain__close_is_answered_again(void **state)
{
	struct lan *l = lan_new_open(2);

	(void)state;
	talk(l);
	l->filter = lose_close_acks;
	l->node[0].e->cfg.linger_ns = 10 * SECOND;
	uccl_engine_drain(l->node[0].e, l->now);
	uccl_engine_drain(l->node[0].e, l->now);
	assert_false(uccl_engine_drained(l->node[0].e));
	for (int i = 0; i < 40 && !uccl_engine_drained(l->node[0].e); i++)
		lan_pass(l, 5 * MS);
	assert_true(uccl_engine_drained(l->node[0].e));
	assert_int_equal(l->n, 4);
	assert_int_equal(lan_stats(l, 1)->peers_closed, 1);
	lan_free(l);
}

/* Never answered: not longer than the linger time. PROTOCOL R51 */
static void drain__lingers(void **state)
{
	struct lan *l = lan_new_open(2);

	(void)state;
	talk(l);
	l->node[1].asleep = true;
	uccl_engine_drain(l->node[0].e, l->now);
	lan_pass(l, l->node[0].cfg.linger_ns - 20 * MS);
	assert_false(uccl_engine_drained(l->node[0].e));
	lan_pass(l, 40 * MS);
	assert_true(uccl_engine_drained(l->node[0].e));
	/* The peer finds it when it wakes. */
	lan_kill(l, 0);
	l->node[1].asleep = false;
	lan_run(l, 10 * MS);
	assert_int_equal(lan_stats(l, 1)->peers_closed, 1);
	lan_free(l);
}

static enum lan_verdict lose_acks(struct lan *l, const struct lan_event *ev)
{
	return ev->from == 1 && ev->type == UCCL_PKT_ACK && l->n++ < 4 ? LAN_DROP : LAN_PASS;
}

/* What was accepted is delivered before the end, though the last acknowledgement is lost. PROTOCOL R51 */
static void drain__last_ack_lost(void **state)
{
	struct lan *l = lan_new_open(2);

	(void)state;
	talk(l);
	l->filter = lose_acks;
	lan_fill(src, 60000, 1);
	lan_recv(l, 1, dst, 60000, LAN_CTX(1));
	assert_int_equal(lan_send(l, 0, 1, src, 60000, LAN_CTX(2)), 0);
	uccl_engine_drain(l->node[0].e, l->now);
	for (int i = 0; i < 400 && !uccl_engine_drained(l->node[0].e); i++)
		lan_pass(l, 5 * MS);
	assert_true(uccl_engine_drained(l->node[0].e));
	lan_expect(l, 0, LAN_CTX(2), 0);
	lan_kill(l, 0);
	lan_run(l, SECOND);
	lan_expect(l, 1, LAN_CTX(1), 0);
	lan_check(dst, 60000, 1);
	lan_free(l);
}

/* The peer never takes the data: closing does not wait for ever. PROTOCOL R51 */
static void drain__stuck_data(void **state)
{
	struct lan *l = lan_new_open(2);

	(void)state;
	talk(l);
	l->node[1].asleep = true;
	assert_int_equal(lan_send(l, 0, 1, src, 60000, LAN_CTX(2)), 0);
	uccl_engine_drain(l->node[0].e, l->now);
	lan_pass(l, 4 * SECOND);
	assert_false(uccl_engine_drained(l->node[0].e));
	lan_pass(l, 2 * SECOND);
	assert_true(uccl_engine_drained(l->node[0].e));
	lan_kill(l, 0);
	lan_expect(l, 0, LAN_CTX(2), FI_ECANCELED);
	lan_free(l);
}

/* Two of which the first drains with a message to the second, which does not answer yet. */
static struct lan *drain_unanswered(void)
{
	struct lan *l = lan_new_open(2);

	l->node[1].asleep = true;
	assert_int_equal(lan_send(l, 0, 1, src, 100, LAN_CTX(1)), 0);
	uccl_engine_drain(l->node[0].e, l->now);
	return l;
}

/* A message that was complete before there was a connection is delivered all the same. PROTOCOL R51 */
static void drain__not_connected(void **state)
{
	struct lan *l = drain_unanswered();

	(void)state;
	lan_pass(l, 1 * SECOND);
	assert_false(uccl_engine_drained(l->node[0].e));
	l->node[1].asleep = false;
	assert_int_equal(lan_recv(l, 1, dst, 100, LAN_CTX(2)), 0);
	lan_pass(l, 3 * SECOND);
	lan_expect(l, 1, LAN_CTX(2), 0);
	assert_true(uccl_engine_drained(l->node[0].e));
	lan_free(l);
}

/* Nobody ever answers: for a bounded time. */
static void drain__never_connected(void **state)
{
	struct lan *l = drain_unanswered();

	(void)state;
	lan_pass(l, 6 * SECOND);
	assert_true(uccl_engine_drained(l->node[0].e));
	lan_free(l);
}

/* Both at once. PROTOCOL R50 R51 */
static void drain__both(void **state)
{
	struct lan *l = lan_new_open(2);

	(void)state;
	talk(l);
	uccl_engine_drain(l->node[0].e, l->now);
	uccl_engine_drain(l->node[1].e, l->now);
	lan_pass(l, 50 * MS);
	assert_true(uccl_engine_drained(l->node[0].e));
	assert_true(uccl_engine_drained(l->node[1].e));
	lan_free(l);
}

/* The answer to CLOSE finds the NIC full: the closer asks again. */
static void drain__answer_finds_nic_full(void **state)
{
	struct lan *l = lan_new_open(2);

	(void)state;
	talk(l);
	l->node[1].nic->room = 0;
	uccl_engine_drain(l->node[0].e, l->now);
	for (int i = 0; i < 4; i++)
		lan_round(l);
	assert_int_equal(lan_stats(l, 1)->peers_closed, 1);
	assert_false(uccl_engine_drained(l->node[0].e));
	l->node[1].nic->room = -1;
	lan_pass(l, 50 * MS);
	assert_true(uccl_engine_drained(l->node[0].e));
	lan_free(l);
}

static void drain__nobody(void **state)
{
	struct lan *l = lan_new_open(1);

	(void)state;
	l->now = 0;
	uccl_engine_drain(l->node[0].e, 0);
	assert_true(l->node[0].e->drain_ns != 0);
	assert_true(uccl_engine_drained(l->node[0].e));
	lan_free(l);
}

static void peer__by_address(void **state)
{
	struct lan *l = lan_new_open(2);
	struct uccl_addr addr = *uccl_engine_addr(l->node[1].e), keyless = {.nic = addr.nic};
	struct uccl_engine *e = l->node[0].e;
	struct uccl_peer *p;

	(void)state;
	assert_null(uccl_engine_peer(e, &addr, false));
	p = uccl_engine_peer(e, &addr, true);
	assert_non_null(p);
	assert_ptr_equal(uccl_engine_peer(e, &addr, false), p);
	/* By place alone it is the same. */
	assert_ptr_equal(uccl_engine_peer(e, &keyless, false), p);
	assert_true(uccl_peer_user(p) == UINT64_MAX);
	uccl_peer_set_user(p, 17);
	assert_true(uccl_peer_user(p) == 17);
	assert_int_equal(uccl_peer_addr(p)->incarnation, addr.incarnation);
	/* A dead one is not meant. */
	conn_fail(peer_conn(p), FI_ECONNABORTED, l->now);
	assert_null(uccl_engine_peer(e, &keyless, false));
	assert_ptr_not_equal(uccl_engine_peer(e, &keyless, true), p);
	lan_free(l);
}

static void op__calls_go_through(void **state)
{
	struct lan *l = lan_new_open(2);
	struct uccl_engine *e = l->node[1].e;
	struct uccl_op *op;

	(void)state;
	lan_recv(l, 1, dst, 10, LAN_CTX(1));
	assert_int_equal(uccl_engine_cancel(e, LAN_CTX(2), l->now), -FI_ENOENT);
	assert_int_equal(uccl_engine_cancel(e, LAN_CTX(1), l->now), 0);
	lan_expect(l, 1, LAN_CTX(1), FI_ECANCELED);
	lan_fill(src, 100000, 1);
	assert_int_equal(lan_send(l, 0, 1, src, 100000, LAN_CTX(3)), 0);
	assert_int_equal(lan_send(l, 0, 1, src, 100000, LAN_CTX(4)), 0);
	lan_run(l, SECOND);
	op = lan_op(l, 1, UCCL_OP_RECV, 0, dst, 100000);
	op->context = LAN_CTX(5);
	assert_int_equal(uccl_engine_recv_claimed(e, op, false, l->now), -FI_ENOMSG);
	assert_int_equal(uccl_engine_peek(e, op, true, false, l->now), 0);
	assert_int_equal(op->done_len, 100000);
	assert_int_equal(uccl_engine_recv_claimed(e, op, false, l->now), 0);
	op = lan_op(l, 1, UCCL_OP_RECV, 0, NULL, 0);
	assert_int_equal(uccl_engine_peek(e, op, false, true, l->now), 0);
	assert_int_equal(uccl_engine_peek(e, op, false, true, l->now), -FI_ENOMSG);
	uccl_op_put(e, op);
	lan_run(l, SECOND);
	lan_expect(l, 1, LAN_CTX(5), 0);
	lan_check(dst, 100000, 1);
	assert_int_equal(lan_waiting(l, 0), 2);
	lan_free(l);
}

/* Every call that brings a time brings the endpoint's forward, and none brings it back. */
static void op__late_callers(void **state)
{
	struct lan *l = lan_new_open(2);
	struct uccl_engine *e = l->node[0].e;
	uint64_t start = l->now, now = start;
	struct uccl_op *op;

	(void)state;
	for (int back = 0; back < 2; back++) {
#define LATER() (back ? start : ++now)
		op = lan_op(l, 0, UCCL_OP_SEND, 0, src, 10);
		op->peer = lan_peer(l, 0, 1);
		assert_int_equal(uccl_engine_send(e, op, LATER()), 0);
		assert_int_equal(e->now, now);
		op = lan_op(l, 0, UCCL_OP_READ, 0, dst, 10);
		op->peer = lan_peer(l, 0, 1);
		op->nseg = 1;
		op->seg[0].len = 10;
		assert_int_equal(uccl_engine_rma(e, op, LATER()), 0);
		assert_int_equal(e->now, now);
		op = lan_op(l, 0, UCCL_OP_RECV, 0, dst, 10);
		assert_int_equal(uccl_engine_peek(e, op, true, false, LATER()), -FI_ENOMSG);
		assert_int_equal(e->now, now);
		assert_int_equal(uccl_engine_recv_claimed(e, op, false, LATER()), -FI_ENOMSG);
		assert_int_equal(e->now, now);
		assert_int_equal(uccl_engine_recv(e, op, LATER()), 0);
		assert_int_equal(e->now, now);
		uccl_engine_revoke(e, dst, LATER());
		assert_int_equal(e->now, now);
		uccl_engine_poll(e, LATER());
		assert_int_equal(e->now, now);
#undef LATER
	}
	uccl_engine_drain(e, start);
	assert_int_equal(e->now, now);
	lan_free(l);
}

/* All ops out: EAGAIN, and a multi-receive buffer goes on by itself when some come back. PROTOCOL R40 */
static void op__exhausted(void **state)
{
	struct lan *l = lan_new_open(2);
	struct uccl_op **held = calloc(70000, sizeof(*held)), *multi;
	int n = 0;

	(void)state;
	assert_non_null(held);
	multi = lan_op(l, 1, UCCL_OP_RECV, UCCL_OPF_MULTI, dst, 1000);
	multi->min_multi = 1;
	assert_int_equal(uccl_engine_recv(l->node[1].e, multi, l->now), 0);
	while ((held[n] = lan_op(l, 1, UCCL_OP_RECV, 0, NULL, 0)))
		n++;
	assert_int_equal(n, 65535);
	for (int i = 0; i < 5; i++)
		assert_int_equal(lan_send(l, 0, 1, src, 10, LAN_CTX(i)), 0);
	lan_pass(l, 100 * MS);
	assert_int_equal(lan_waiting(l, 1), 0);
	uccl_op_put(l->node[1].e, held[--n]);
	lan_pass(l, SECOND);
	assert_int_equal(lan_waiting(l, 1), 5);
	assert_int_equal(lan_waiting(l, 0), 5);
	while (n)
		uccl_op_put(l->node[1].e, held[--n]);
	free(held);
	lan_free(l);
}

static void credit_transfer(const char *const credit[2])
{
	struct lan *l = lan_new();

	for (int i = 0; i < 2; i++) {
		l->node[i].cfg.credit = credit[i];
		l->node[i].cfg.cc = "swift";
		l->node[i].cfg.path = "pow2";
		lan_open(l, i);
	}
	l->filter = lose_some;
	lan_fill(src, 500000, 1);
	lan_recv(l, 1, dst, 500000, LAN_CTX(1));
	assert_int_equal(lan_send(l, 0, 1, src, 500000, LAN_CTX(2)), 0);
	lan_run(l, 10 * SECOND);
	lan_expect(l, 0, LAN_CTX(2), 0);
	lan_expect(l, 1, LAN_CTX(1), 0);
	lan_check(dst, 500000, 1);
	lan_free(l);
}

/* The credit policies that grant: their packets cross an engine too. PROTOCOL R21 */
static void credit__window_policy(void **state)
{
	(void)state;
	credit_transfer((const char *const[]){"window", "window"});
}

static void credit__pacer(void **state)
{
	(void)state;
	credit_transfer((const char *const[]){"eqds", "eqds"});
	credit_transfer((const char *const[]){"auto", "auto"});
}

/* How long a transfer takes that is granted by a NIC of 1 Gbit/s, or what so many leave of it. */
static uint64_t credit_time(uint32_t sharers)
{
	struct lan *l = lan_new();
	uint64_t took;

	for (int i = 0; i < 2; i++) {
		l->node[i].cfg.credit = "eqds";
		l->node[i].link_bps = 1000000000;
	}
	l->node[1].sharers = sharers;
	for (int i = 0; i < 2; i++)
		lan_open(l, i);
	took = l->now;
	for (int i = 0; i < 10; i++) {
		lan_recv(l, 1, dst, 500000, LAN_CTX(i));
		assert_int_equal(lan_send(l, 0, 1, src, 500000, LAN_CTX(i)), 0);
	}
	while (l->node[1].ncomp < 10)
		lan_pass(l, UCCL_NS_PER_MS / 2);
	took = l->now - took;
	lan_free(l);
	return took;
}

/* Endpoints that share a NIC share its line rate. */
static void credit__shared_link(void **state)
{
	uint64_t alone = credit_time(0), one = credit_time(1), ten = credit_time(10);

	(void)state;
	assert_int_equal(one, alone);
	assert_true(ten > 8 * alone && ten < 12 * alone);
}

/* Who waits for credit of a peer that has no such policy is told to go on. PROTOCOL R64 */
static void credit__peer_without(void **state)
{
	(void)state;
	credit_transfer((const char *const[]){"eqds", "none"});
	credit_transfer((const char *const[]){"window", "none"});
	credit_transfer((const char *const[]){"none", "eqds"});
	credit_transfer((const char *const[]){"auto", "none"});
	credit_transfer((const char *const[]){"none", "auto"});
	/* Nor do those that know of no turns wait for ever. */
	credit_transfer((const char *const[]){"auto", "eqds"});
	credit_transfer((const char *const[]){"eqds", "auto"});
}

/* What a link on the way from 0 to 1 carries. */
#define NARROW 1472

static enum lan_verdict narrow(struct lan *l, const struct lan_event *ev)
{
	(void)l;
	return ev->to == 1 && ev->rx.kind == UCCL_RX_PACKET && ev->rx.len > NARROW ? LAN_DROP : LAN_PASS;
}

static struct lan *lan_narrow(uint8_t security, uint32_t train_bytes)
{
	struct lan *l = lan_new();

	l->find_mtu = true;
	for (int i = 0; i < 2; i++) {
		l->node[i].cfg.security = security;
		l->node[i].train_bytes = train_bytes;
		lan_open(l, i);
	}
	talk(l);
	lan_fill(src, sizeof(src), 4);
	return l;
}

static uint64_t transfer_ns(struct lan *l, int from, uint64_t len)
{
	uint64_t began = l->now, ns = 0;

	memset(dst, 0, sizeof(dst));
	lan_recv(l, !from, dst, len, LAN_CTX(2));
	assert_int_equal(lan_send(l, from, !from, src, len, LAN_CTX(1)), 0);
	while (!lan_waiting(l, !from) && l->now < began + SECOND)
		lan_round(l);
	ns = l->now - began;
	lan_run(l, 100 * MS);
	lan_expect(l, from, LAN_CTX(1), 0);
	lan_expect(l, !from, LAN_CTX(2), 0);
	lan_check(dst, len, 4);
	return ns;
}

/* A receiver alone has a smaller MTU, and nobody says so. It goes on at once, and well. PROTOCOL R153 */
static void mtu__black_hole(void **state)
{
	(void)state;
	for (int k = 0; k < 4; k++) {
		uint8_t security = k & 1 ? UCCL_SECURITY_PACKETS : UCCL_SECURITY_TRUSTED;
		struct lan *l = lan_narrow(security, k & 2 ? 3 * LAN_MTU : 0);
		const struct uccl_flow *f = &lan_conn(l, 0, 1)->peer.flow;

		l->filter = narrow;
		assert_in_range(transfer_ns(l, 0, sizeof(src)), 0, 100 * MS);
		assert_int_equal(lan_stats(l, 0)->mtu_cuts, 1);
		/* By and by the whole length is found; all of a transfer is in flight at once here, with one trial. */
		for (int i = 0; i < 50; i++)
			transfer_ns(l, 0, sizeof(src));
		assert_in_range(f->pmtu.bytes + (k & 1 ? UCCL_SEAL_LEN : 0), NARROW - UCCL_PMTU_STEP, NARROW);
		assert_int_equal(lan_stats(l, 0)->mtu_cuts, 1);
		/* Eager ones, which are longer than a packet now, and the other direction, which is wide. */
		assert_in_range(transfer_ns(l, 0, 9000), 0, 2 * MS);
		assert_in_range(transfer_ns(l, 1, sizeof(src)), 0, 20 * MS);
		assert_int_equal(lan_stats(l, 1)->mtu_cuts, 0);
		/* The link is mended: a minute later packets are long again. */
		l->filter = NULL;
		lan_pass(l, 61 * SECOND);
		transfer_ns(l, 0, sizeof(src));
		transfer_ns(l, 0, sizeof(src));
		assert_int_equal(f->pmtu.bytes, f->cfg.mtu);
		lan_free(l);
	}
}

/* "Packet too long" is believed if it quotes us, within bounds, and not for ever. PROTOCOL R150 R152 */
static void mtu__told(void **state)
{
	(void)state;
	for (int k = 0; k < 2; k++) {
		struct lan *l = lan_narrow(k ? UCCL_SECURITY_CONTROL : UCCL_SECURITY_TRUSTED, 0);
		const struct uccl_flow *f = &lan_conn(l, 0, 1)->peer.flow;
		uint32_t most = f->cfg.mtu, seal = k ? UCCL_SEAL_LEN : 0;
		uint8_t hdr[UCCL_HDR_LEN], forged[UCCL_HDR_LEN];

		lan_header_last(l, 0, 1, hdr);
		memcpy(forged, hdr, sizeof(hdr));
		forged[15] ^= 1;
		lan_too_long(l, 0, 1, forged, 600);
		lan_pass(l, MS);
		assert_int_equal(f->pmtu.bytes, most);
		assert_int_equal(dropped(l, 0, UCCL_DROP_REPORT), 1);
		lan_too_long(l, 0, 1, hdr, 8972);
		lan_pass(l, MS);
		assert_int_equal(f->pmtu.bytes, 8972 - seal);
		transfer_ns(l, 0, sizeof(src));
		lan_too_long(l, 0, 1, hdr, 10);
		lan_pass(l, MS);
		assert_int_equal(f->pmtu.bytes, UCCL_PMTU_BASE);
		/* It was a lie: a minute later that is found out. */
		transfer_ns(l, 0, sizeof(src));
		assert_int_equal(f->pmtu.bytes, UCCL_PMTU_BASE);
		lan_pass(l, 61 * SECOND);
		transfer_ns(l, 0, sizeof(src));
		assert_int_equal(f->pmtu.bytes, most);
		lan_too_long(l, 0, 1, hdr, 1472);
		lan_pass(l, MS);
		assert_int_equal(f->pmtu.bytes, most);
		assert_int_equal(lan_stats(l, 0)->rtx_packets, 0);
		lan_free(l);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(open__refuses_bad_config),
		cmocka_unit_test(open__address),
		cmocka_unit_test(open__guard),
		cmocka_unit_test(open__wait_fd),
		cmocka_unit_test(close__cancels),
		cmocka_unit_test(poll__nothing_to_do),
		cmocka_unit_test(poll__late_caller),
		cmocka_unit_test(expiry__announces_every_packet),
		cmocka_unit_test(send__sizes),
		cmocka_unit_test(send__chunk_size),
		cmocka_unit_test(send__many_to_one),
		cmocka_unit_test(send__inside_a_completion),
		cmocka_unit_test(tx__whole_bursts),
		cmocka_unit_test(mtu__black_hole),
		cmocka_unit_test(mtu__told),
		cmocka_unit_test(trains__broken),
		cmocka_unit_test(trains__mended),
		cmocka_unit_test(trains__little_traffic),
		cmocka_unit_test(tx__back_pressure),
		cmocka_unit_test(tx__back_pressure_at_the_handshake),
		cmocka_unit_test(tx__errors),
		cmocka_unit_test(tx__acknowledged_while_it_waits),
		cmocka_unit_test(tx__forgets_the_dead),
		cmocka_unit_test(settle__right_predictions),
		cmocka_unit_test(settle__every_permutation),
		cmocka_unit_test(settle__random),
		cmocka_unit_test(settle__tail_behind_a_short_payload),
		cmocka_unit_test(settle__refused),
		cmocka_unit_test(rx__checks),
		cmocka_unit_test(rx__events_of_nobody),
		cmocka_unit_test(rx__garbage),
		cmocka_unit_test(timers__after_what_has_arrived),
		cmocka_unit_test(timers__under_a_flood),
		cmocka_unit_test(host__away_is_no_loss),
		cmocka_unit_test(drain__close_is_answered_again),
		cmocka_unit_test(drain__lingers),
		cmocka_unit_test(drain__last_ack_lost),
		cmocka_unit_test(drain__stuck_data),
		cmocka_unit_test(drain__not_connected),
		cmocka_unit_test(drain__never_connected),
		cmocka_unit_test(drain__both),
		cmocka_unit_test(drain__answer_finds_nic_full),
		cmocka_unit_test(drain__nobody),
		cmocka_unit_test(peer__by_address),
		cmocka_unit_test(op__calls_go_through),
		cmocka_unit_test(op__late_callers),
		cmocka_unit_test(op__exhausted),
		cmocka_unit_test(credit__window_policy),
		cmocka_unit_test(credit__pacer),
		cmocka_unit_test(credit__peer_without),
		cmocka_unit_test(credit__shared_link),
	};

	return cmocka_run_group_tests_name("engine", tests, NULL, NULL);
}
