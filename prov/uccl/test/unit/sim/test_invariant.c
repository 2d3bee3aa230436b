/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Each checker is shown something broken, in a world that runs. */
#include "sim/invariant.h"

#include "../tests.h"

#include <rdma/fi_errno.h>
#include <string.h>

#include "engine/impl.h"
#include "sim/world.h"

static struct uccl_sim_world w;

static struct uccl_engine *engine(void)
{
	return w.node[0].e;
}

static struct uccl_flow *flow(void)
{
	return &TAILQ_FIRST(&engine()->conns.live)->peer.flow;
}

/* A world in the middle of its work: chunks of both directions are in flight. */
static void start(const char *options)
{
	struct uccl_sim_options o;
	struct uccl_sim_plan p = {.src = 0, .dst = 1, .match = UCCL_SIM_EXACT, .len = 1 << 20, .recv_len = 1 << 20};

	memset(&w, 0, sizeof(w));
	uccl_sim_options_default(&o);
	assert_int_equal(uccl_sim_options_set(&o, options), 0);
	assert_int_equal(uccl_sim_world_open(&w, &o, 1), 0);
	p.send_ns = p.recv_ns = w.net.now;
	uccl_sim_plan(&w, &p);
	p.src = 1;
	p.dst = 0;
	uccl_sim_plan(&w, &p);
	uccl_sim_go(&w, w.net.now + 500 * UCCL_NS_PER_US, false);
	assert_true(TAILQ_FIRST(&engine()->conns.live)->peer.open);
	assert_true(flow()->sent.inflight_chunks);
	uccl_sim_check(&w);
	assert_int_equal(w.violations, 0);
	assert_true(w.inv.looks > 0);
}

/* The next look finds this and nothing else. */
static void found(const char *what)
{
	uccl_sim_inv_look(&w.node[0], w.node[0].e);
	assert_int_equal(w.violations, 1);
	assert_non_null(strstr(w.first, what));
	w.violations = 0;
}

static void end(void)
{
	uccl_sim_world_close(&w);
}

TEST(look_credit__each)
{
	struct uccl_policy_cfg none = {.chunk_bytes = 1, .window_max = 1};
	uint64_t keep[UCCL_CREDIT_STATE / 8];

	start("credit=1");
	flow()->credit.used--;
	found("I7: endpoint 0, flow to port 7001: credit that was used came back");
	flow()->credit.used++;
	memcpy(keep, flow()->policy.credit, sizeof(keep));
	flow()->cfg.policy.credit->on_credit(flow()->policy.credit, 1ull << 40, 0, w.net.now);
	found("there is more credit than was granted");
	memcpy(flow()->policy.credit, keep, sizeof(keep));
	found("credit was taken back");
	flow()->cfg.policy.credit->init(flow()->policy.credit, &none, w.net.now);
	found("credit was taken back");
	found("more was sent than there was credit for");
	memcpy(flow()->policy.credit, keep, sizeof(keep));
	uccl_sim_inv_look(&w.node[0], w.node[0].e);
	assert_int_equal(w.violations, 0);
	end();
}

TEST(look_engine__slots)
{
	struct uccl_grant *g;
	uint32_t keep;

	start("");
	g = flow()->cfg.grant;
	keep = g->believed;
	g->believed = engine()->nic->caps.rx_slots + 1;
	found("I8: endpoint 0 granted 257 slots of 256");
	g->believed = 0;
	found("I8: endpoint 0 counts 0 slots of port 7001, which has");
	g->believed = keep;
	end();
}

TEST(look_engine__memory)
{
	struct uccl_msg_ep *m;
	struct uccl_peer *p;

	start("unexpected_kb=4");
	m = &engine()->msg_ep;
	p = &TAILQ_FIRST(&engine()->conns.live)->peer;
	p->unexpected.bytes++;
	found("I13: endpoint 0 buffers 0 unexpected bytes, its peers 1");
	p->unexpected.bytes += 256 * 16384 + 4096 + UCCL_UNSOLICITED_PEER_MAX;
	m->unexpected.bytes = p->unexpected.bytes;
	found("I13: endpoint 0 buffers 4722689 unexpected bytes");
	m->unexpected.bytes = p->unexpected.bytes = 0;
	m->tx.copied_bytes += UCCL_COPIED_MAX + 4096 + UCCL_COPY_MAX + 1;
	found("I13: endpoint 0 holds copies of");
	m->tx.copied_bytes -= UCCL_COPIED_MAX + 4096 + UCCL_COPY_MAX + 1;
	end();
}

/*
 * Attempts to connect that failed are remembered for a while, and are no peers. Their number has a bound of its own,
 * which an engine keeps unless somebody holds them.
 */
TEST(look_engine__attempts)
{
	struct uccl_addr addr;

	start("");
	addr = w.addr[1][0];
	for (uint32_t i = 0; i < 1000; i++) {
		addr.incarnation++;
		conn_fail(conn_new(engine(), &addr, true), FI_EHOSTUNREACH, engine()->now);
		uccl_sim_inv_look(&w.node[0], engine());
		assert_int_equal(w.violations, 0);
	}
	for (uint32_t i = 0; i < 2 * UCCL_SIM_LIVES; i++) {
		addr.incarnation++;
		assert_non_null(conn_new(engine(), &addr, true));
	}
	uccl_sim_inv_look(&w.node[0], engine());
	assert_int_equal(w.violations, 0);
	for (uint32_t i = 0; i < 2; i++) {
		addr.incarnation++;
		assert_non_null(conn_new(engine(), &addr, true));
	}
	found("I13: endpoint 0 knows 19 peers");
	end();
}

TEST(look_engine__ended)
{
	struct uccl_addr addr;
	struct conn *c;

	start("");
	addr = w.addr[1][0];
	for (uint32_t i = 0; i < 257 + 2 * UCCL_SIM_LIVES + 1; i++) {
		addr.incarnation++;
		c = conn_new(engine(), &addr, true);
		conn_hold(&c->state);
		conn_fail(c, FI_EHOSTUNREACH, engine()->now);
	}
	found("I13: endpoint 0 remembers 274 ended peers");
	end();
}

TEST(look_memory__lists)
{
	uint32_t keep, msgs;

	start("nic=1");
	keep = flow()->rx.write.ndescs;
	flow()->rx.write.ndescs = flow()->cfg.window + 1;
	found("I13: endpoint 0, flow to port 7001: a list of a flow is longer");
	flow()->rx.write.ndescs = keep;
	keep = flow()->sent.cap;
	flow()->sent.cap = flow()->cfg.window * 64;
	w.inv.looks = 0;
	found("a flow holds more memory");
	flow()->sent.cap = keep;
	msgs = engine()->msg_ep.rx_pool.max;
	engine()->msg_ep.rx_pool.max = (uint32_t)-UCCL_MSG_LIMIT;
	found("a peer has more messages under way");
	engine()->msg_ep.rx_pool.max = msgs;
	end();
}

/* Two messages are on their way into a multi-receive buffer when the queue is full; it takes no third. */
TEST(done__room)
{
	struct uccl_sim_life *n = &w.node[0];

	start("cq=2");
	n->unread = 1;
	engine()->msg_ep.op_pool.used += 2;
	uccl_sim_inv_done(n, true);
	uccl_sim_inv_done(n, true);
	uccl_sim_inv_done(n, false);
	assert_int_equal(w.violations, 0);
	uccl_sim_inv_done(n, true);
	assert_int_equal(w.violations, 1);
	assert_non_null(strstr(w.first, "I9: endpoint 0 took a message, with 4 completions unread"));
	w.violations = 0;
	engine()->msg_ep.op_pool.used -= 2;
	end();
}

static struct uccl_sim_pkt packet(uint8_t src, uint8_t dst, uint8_t type, uint32_t len)
{
	return (struct uccl_sim_pkt){.kind = UCCL_TX_PACKET, .src = src, .dst = dst, .type = type, .len = len};
}

TEST(packet__strangers)
{
	struct uccl_sim_pkt hello = packet(5, 6, UCCL_PKT_HELLO, 64), cookie = packet(6, 5, UCCL_PKT_COOKIE, 64);
	struct uccl_sim_pkt data = packet(6, 5, UCCL_PKT_CHUNK, 64);

	start("");
	/* One question, lost or not, one answer. */
	uccl_sim_inv_packet(&w, &hello, NULL);
	uccl_sim_inv_packet(&w, &cookie, "lost");
	assert_int_equal(w.violations, 0);
	/* The network's own doubles are nobody's. */
	cookie.copy = true;
	uccl_sim_inv_packet(&w, &cookie, NULL);
	assert_int_equal(w.violations, 0);
	cookie.copy = false;
	uccl_sim_inv_packet(&w, &cookie, NULL);
	assert_int_equal(w.violations, 1);
	assert_non_null(strstr(w.first, "I12: 6 answered 128 bytes to 5, which had sent 64"));
	/* A question that did not arrive is none. */
	w.violations = 0;
	hello.dst = 7;
	uccl_sim_inv_packet(&w, &hello, "lost");
	data.src = 7;
	uccl_sim_inv_packet(&w, &data, NULL);
	assert_int_equal(w.violations, 1);
	assert_non_null(strstr(w.first, "I12: 7 sent type 16 to 5, of which it had heard nothing"));
	w.violations = 0;
	end();
}

/* Each form is refused without a trace. (What a flow without its guards does: MUTATIONS.md.) */
TEST(forge__each_form)
{
	uint32_t form;

	start("");
	for (form = 0; form < UCCL_SIM_INV_FORMS; form++)
		assert_null(uccl_sim_inv_forge(flow(), form, w.net.now));
	end();
}

TESTS_MAIN
