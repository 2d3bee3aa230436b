/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "../lan.h"
#include "../../tests.h"

#define MS UCCL_NS_PER_MS
#define SECOND UCCL_NS_PER_S

static uint8_t src[1 << 19], dst[1 << 19];

LAN_TEST(poll__nothing_to_do, lan_new_open(2))
{
	assert_true(uccl_engine_expiry(l->node[0].e) == UCCL_NEVER);
	for (int i = 0; i < 100; i++)
		assert_int_equal(uccl_engine_poll(l->node[0].e, l->now + (uint64_t)i * SECOND), 0);
	assert_int_equal(l->packets, 0);
	assert_int_equal(l->node[0].nic->txs, 0);
	assert_true(uccl_engine_expiry(l->node[0].e) == UCCL_NEVER);
	assert_int_equal(lan_waiting(l, 0), 0);
}

/*
 * Who takes the time and then waits for the endpoint brings an earlier one than who was before. A span from then to now
 * would be endless: here what was accepted would be given up at once.
 */
TEST(poll__late_caller)
{
	struct lan *l = lan_new_open(2);

	lan_talk(l);
	l->node[1].asleep = true;
	assert_int_equal(lan_send(l, 0, 1, src, 60000, LAN_CTX(2)), 0);
	uccl_engine_drain(l->node[0].e, l->now);
	uccl_engine_poll(l->node[0].e, l->now - 1);
	assert_int_equal(lan_conn(l, 0, 1)->peer.flow.close.state, UCCL_FLOW_OPEN);
	l->node[1].asleep = false;
	lan_recv(l, 1, dst, 60000, LAN_CTX(3));
	lan_run(l, SECOND);
	lan_expect(l, 0, LAN_CTX(2), 0);
	lan_expect(l, 1, LAN_CTX(3), 0);
	lan_free(l);
}

/* Between two expiries nothing would happen: every packet leaves in a poll that expiry() announced or an arrival
 * caused. */
LAN_TEST(expiry__announces_every_packet, lan_new_open(2))
{
	struct uccl_engine *e = l->node[0].e;

	lan_talk(l);
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
}

static uint64_t nic_at;

static uint64_t nic_expiry(struct uccl_nic *nic)
{
	return nic_at;
}

/* Nor does the NIC wait longer than it says, be it past already. */
LAN_TEST(expiry__of_the_nic, lan_new_open(2))
{
	struct uccl_engine *e = l->node[0].e;
	const struct uccl_nic_ops *was = e->nic->ops;
	struct uccl_nic_ops ops = *was;

	lan_talk(l);
	assert_true(uccl_engine_expiry(e) > l->now + 10);
	ops.expiry = nic_expiry;
	e->nic->ops = &ops;
	nic_at = l->now + 10;
	assert_int_equal(uccl_engine_expiry(e), nic_at);
	nic_at = 0;
	assert_int_equal(uccl_engine_expiry(e), e->now);
	nic_at = UCCL_NEVER;
	assert_true(uccl_engine_expiry(e) > l->now + 10);
	e->nic->ops = was;
}

/*
 * The application was away. Its queue holds the acknowledgement that it waits for, behind packets of another peer: no
 * timer fires before that was read. PROTOCOL R131
 */
LAN_TEST(timers__after_what_has_arrived, lan_new_open(3))
{
	struct uccl_stats before;

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
	return 100 * UCCL_NS_PER_US + uccl_rng_below(&l->rng, 200 * UCCL_NS_PER_US);
}

/* One core for two: each runs for some milliseconds, and then the other. */
static uint64_t away_sharing(struct lan *l, int i)
{
	bool mine = l->now / (4 * MS) % 2 == (uint64_t)i;

	return mine ? 0 : 4 * MS - l->now % (4 * MS);
}

TEST(host__away_is_no_loss)
{
	assert_true(sent_again(away_computing, UCCL_NS_PER_S) < 10);
	assert_true(sent_again(away_sharing, 4 * UCCL_NS_PER_S) < 10);
}

static enum lan_verdict drop_first_to_one(struct lan *l, const struct lan_event *ev)
{
	return ev->to == 1 && ev->type == UCCL_PKT_CHUNK && !l->n++ ? LAN_DROP : LAN_PASS;
}

/* What is refused does not count for what a poll takes: who sends to us waits behind it no longer than that costs. */
LAN_TEST(rx__behind_what_is_refused, lan_new_open(3))
{
	static const uint8_t junk[UCCL_HDR_LEN];
	uint64_t taken;

	lan_recv(l, 1, dst, 64, LAN_CTX(2));
	assert_int_equal(lan_send(l, 0, 1, src, 10, LAN_CTX(1)), 0);
	lan_run(l, 10 * MS);
	lan_expect(l, 0, LAN_CTX(1), 0);
	taken = lan_stats(l, 0)->dropped[UCCL_DROP_MAGIC];
	/* All of it in one poll, with room for what else there may be; but a poll ends. */
	for (int k = 0; k < 1000; k++)
		lan_inject(l, 0, 2, junk, sizeof(junk));
	uccl_engine_poll(l->node[0].e, l->now);
	assert_int_equal(lan_stats(l, 0)->dropped[UCCL_DROP_MAGIC] - taken, 1000);
	for (int k = 0; k < 2000; k++)
		lan_inject(l, 0, 2, junk, sizeof(junk));
	uccl_engine_poll(l->node[0].e, l->now);
	assert_in_range(lan_stats(l, 0)->dropped[UCCL_DROP_MAGIC] - taken, 1000 + 1000, 1000 + 1100);
}

/* A queue that never gets empty does not stop the clock: somebody floods us, and a packet of ours was lost. */
LAN_TEST(timers__under_a_flood, lan_new_open(3))
{
	static const uint8_t junk[UCCL_HDR_LEN];

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
		for (int k = 0; k < 1024; k++)
			lan_inject(l, 0, 2, junk, sizeof(junk));
		lan_round(l);
	}
	assert_true(l->n > 1);
	lan_expect(l, 0, LAN_CTX(3), 0);
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
	l->filter = lan_lossy;
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
TEST(credit__window_policy)
{
	credit_transfer((const char *const[]){"window", "window"});
}

TEST(credit__pacer)
{
	credit_transfer((const char *const[]){"eqds", "eqds"});
	credit_transfer((const char *const[]){"auto", "auto"});
	credit_transfer((const char *const[]){"srpt", "srpt"});
}

static enum lan_verdict count_demands(struct lan *l, const struct lan_event *ev)
{
	l->n += ev->type == UCCL_PKT_DEMAND;
	return LAN_PASS;
}

/* Who is asked for a message gets the credit with that, and need not ask. PROTOCOL R248 */
LAN_TEST(credit__comes_with_cts, lan_new())
{
	for (int i = 0; i < 2; i++) {
		l->node[i].cfg.credit = "auto";
		lan_open(l, i);
	}
	lan_talk(l);
	l->filter = count_demands;
	for (int k = 0; k < 2; k++) {
		l->n = 0;
		lan_recv(l, 1, dst, 500000, LAN_CTX(1));
		assert_int_equal(lan_send(l, 0, 1, src, 500000, LAN_CTX(2)), 0);
		lan_run(l, SECOND);
		lan_expect(l, 0, LAN_CTX(2), 0);
		lan_expect(l, 1, LAN_CTX(1), 0);
		assert_int_equal(l->n, 0);
	}
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
TEST(credit__shared_link)
{
	uint64_t alone = credit_time(0), one = credit_time(1), ten = credit_time(10);

	assert_int_equal(one, alone);
	assert_true(ten > 8 * alone && ten < 12 * alone);
}

/* Who waits for credit of a peer that has no such policy is told to go on. PROTOCOL R64 */
TEST(credit__peer_without)
{
	credit_transfer((const char *const[]){"eqds", "none"});
	credit_transfer((const char *const[]){"window", "none"});
	credit_transfer((const char *const[]){"none", "eqds"});
	credit_transfer((const char *const[]){"auto", "none"});
	credit_transfer((const char *const[]){"none", "auto"});
	/* Nor do those that know of no turns wait for ever. */
	credit_transfer((const char *const[]){"auto", "eqds"});
	credit_transfer((const char *const[]){"eqds", "auto"});
	/* Nor those that say nothing of their messages, or are not asked. PROTOCOL R198 */
	credit_transfer((const char *const[]){"srpt", "none"});
	credit_transfer((const char *const[]){"none", "srpt"});
	credit_transfer((const char *const[]){"srpt", "eqds"});
	credit_transfer((const char *const[]){"eqds", "srpt"});
	credit_transfer((const char *const[]){"window", "srpt"});
	credit_transfer((const char *const[]){"srpt", "auto"});
}

TESTS_MAIN
