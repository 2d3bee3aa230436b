/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "lan.h"
#include "../tests.h"

#include <string.h>

#define SECOND UCCL_NS_PER_S

static uint8_t src[1 << 19], dst[1 << 19];

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
	memset(out, 0, sizeof(*out));
	out->port = 1;
}

static int stub_rx(struct uccl_nic *nic, struct uccl_rx *v, int n, const struct uccl_rx_placement *hints, int nhints)
{
	return -FI_EIO;
}

static const struct uccl_nic_ops stub_ops = {.rx = stub_rx, .addr = stub_addr, .close = stub_close};

/* The first words are zero: neither may be taken for an incarnation. */
static void stub_random(void *arg, void *buf, size_t len)
{
	int *calls = arg;

	memset(buf, (*calls)++ < 2 ? 0 : 0x5a, len);
}

TEST(open__refuses_bad_config)
{
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

TEST(open__address)
{
	struct stub_nic n = {.nic = {.ops = &stub_ops, .caps = {.mtu = 1500, .labels = 1, .placements = true}}};
	struct uccl_config cfg;
	int calls = 0;
	struct uccl_engine_attr attr = {.nic = &n.nic, .config = &cfg, .random = stub_random, .random_arg = &calls};
	struct uccl_engine *e;

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
TEST(open__guard)
{
	static const struct uccl_nic_ops ops = {.addr = stub_addr, .close = stub_close, .guard = stub_guard};
	struct stub_nic n = {.nic = {.ops = &ops, .caps = {.mtu = 1500, .labels = 1}}};
	struct uccl_config cfg;
	int calls = 0, known = 0;
	struct uccl_engine_attr attr = {.nic = &n.nic, .config = &cfg, .random = stub_random, .random_arg = &calls};
	struct uccl_engine *e;

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

LAN_TEST(open__wait_fd, lan_new())
{
	l->writes = true;
	lan_open(l, 0);
	assert_int_equal(uccl_engine_wait_fd(l->node[0].e), 100);
	/* This NIC has nothing that costs less. */
	assert_int_equal(uccl_engine_nap_fd(l->node[0].e), 100);
}

/* What is open ends with the endpoint: one completion each. */
LAN_TEST(close__cancels, lan_new_open(2))
{
	struct uccl_op *op;
	int n = 0;

	lan_talk(l);
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
}

TEST(send__sizes)
{
	static const uint64_t sizes[] = {0, 1, 4096, LAN_MTU - 64, LAN_MTU, 65536, 65537, 500000};

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
			assert_true(lan_stats(l, 1)->placement_hits > 20);
		else
			assert_int_equal(lan_stats(l, 1)->placements, 0);
		lan_free(l);
	}
}

/* Chunks of the size that a person asked for, within what fits, and of whole words. PROTOCOL R216 */
TEST(send__chunk_size)
{
	static const uint32_t ask[] = {1, 1000, 1007, 100000}, want[] = {128, 1000, 1000, (LAN_MTU - 704) & ~1023u};

	for (int i = 0; i < 4; i++) {
		struct lan *l = lan_new();

		l->node[0].cfg.chunk_bytes = ask[i];
		lan_open(l, 0);
		lan_open(l, 1);
		lan_talk(l);
		assert_int_equal(lan_conn(l, 0, 1)->peer.flow.cfg.packet.chunk_bytes, want[i]);
		lan_free(l);
	}
}

LAN_TEST(send__many_to_one, lan_new_open(4))
{
	l->filter = lan_lossy;
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

LAN_TEST(send__inside_a_completion, lan_new_open(2))
{
	struct uccl_op *op;

	lan_talk(l);
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
}

TESTS_MAIN
