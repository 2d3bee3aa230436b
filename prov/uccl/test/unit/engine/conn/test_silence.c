/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "../lan.h"

#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "../../tests.h"

#define MS UCCL_NS_PER_MS
#define SECOND UCCL_NS_PER_S

static uint8_t src[1 << 18], dst[1 << 18];
static char text[8][600];
static int level[8], ntexts;

static void note(int at, const char *func, int line, const char *s)
{
	if (!strstr(s, "peer ") || ntexts == 8)
		return;
	level[ntexts] = at;
	snprintf(text[ntexts++], sizeof(text[0]), "%s", s);
}

static enum lan_verdict nothing_for_1(struct lan *l, const struct lan_event *ev)
{
	return ev->to == 1 && ev->rx.kind == UCCL_RX_PACKET ? LAN_DROP : LAN_PASS;
}

static enum lan_verdict nothing(struct lan *l, const struct lan_event *ev)
{
	return ev->rx.kind == UCCL_RX_PACKET ? LAN_DROP : LAN_PASS;
}

/* Two nodes; what node 0 sends is lost. */
static struct lan *lan_cut(void)
{
	struct lan *l = lan_new_open(2);

	l->filter = nothing_for_1;
	ntexts = 0;
	uccl_log_set(note, UCCL_LOG_INFO);
	return l;
}

static void end(struct lan *l)
{
	uccl_log_set(NULL, 0);
	lan_free(l);
}

static void expect(int i, int at, const char *s)
{
	assert_true(i < ntexts);
	assert_int_equal(level[i], at);
	if (!strstr(text[i], s))
		fail_msg("\"%s\" has no \"%s\"", text[i], s);
}

/* Named after 5 s and after 60 s, by address, port and interface, and when it answers; no more than that. */
TEST(look__absent)
{
	struct lan *l = lan_cut();

	assert_int_equal(lan_send(l, 0, 1, src, 10, LAN_CTX(1)), 0);
	lan_pass(l, 4900 * MS);
	assert_int_equal(ntexts, 0);
	lan_pass(l, 600 * MS);
	assert_int_equal(ntexts, 1);
	expect(0, UCCL_LOG_WARN, "peer 10.0.0.2 port 4001 has not answered 10.0.0.1 port 4000 on eth-lan for 5 s: ");
	expect(0, UCCL_LOG_WARN, "firewall");
	lan_pass(l, 53 * SECOND);
	assert_int_equal(ntexts, 1);
	lan_pass(l, 2 * SECOND);
	expect(1, UCCL_LOG_WARN, "for 60 s");
	lan_pass(l, 120 * SECOND);
	assert_int_equal(ntexts, 2);
	l->filter = NULL;
	lan_pass(l, 20 * SECOND);
	lan_expect(l, 0, LAN_CTX(1), 0);
	assert_int_equal(ntexts, 3);
	expect(2, UCCL_LOG_WARN, "peer 10.0.0.2 port 4001 answers after all, after ");
	end(l);
}

/* After an ICMP report of the peer's host, the line about its silence comes two seconds later. */
TEST(look__reported)
{
	struct lan *l = lan_cut();

	assert_int_equal(lan_send(l, 0, 1, src, 10, LAN_CTX(1)), 0);
	lan_pass(l, SECOND);
	lan_conn(l, 0, 1)->liveness.unreach = 1;
	lan_pass(l, 5 * SECOND);
	assert_int_equal(ntexts, 0);
	lan_pass(l, 2 * SECOND);
	assert_int_equal(ntexts, 1);
	expect(0, UCCL_LOG_WARN, "has not answered");
	end(l);
}

/* A process that computes is healthy: its kernel says that it lives. */
TEST(look__computes)
{
	struct lan *l = lan_cut();
	struct lan_nic *nic = l->node[0].nic;

	nic->nic.caps.connect_early = true;
	assert_int_equal(lan_send(l, 0, 1, src, 10, LAN_CTX(1)), 0);
	lan_pass(l, 4 * SECOND);
	assert_int_equal(nic->nlinks, 1);
	nic->link[0].mute = true;
	lan_pass(l, 100 * SECOND);
	assert_int_equal(ntexts, 1);
	expect(0, UCCL_LOG_INFO, "its process lives");
	/* Now it ends: that is a warning. */
	nic->link[0].mute = false;
	lan_pass(l, SECOND);
	assert_int_equal(ntexts, 2);
	expect(1, UCCL_LOG_WARN, "has not answered");
	/* The peer that opens has a connection of its own. */
	l->filter = NULL;
	lan_pass(l, 20 * SECOND);
	lan_expect(l, 0, LAN_CTX(1), 0);
	assert_false(nic->link[0].live);
	assert_true(nic->link[nic->nlinks - 1].live);
	end(l);
}

/* Its process answers by TCP: only a firewall explains that. */
TEST(look__udp_dropped)
{
	struct lan *l = lan_cut();

	l->node[0].nic->nic.caps.connect_early = true;
	assert_int_equal(lan_send(l, 0, 1, src, 10, LAN_CTX(1)), 0);
	lan_pass(l, 4 * SECOND);
	l->node[0].nic->link[0].held = true;
	lan_pass(l, 2 * SECOND);
	expect(0, UCCL_LOG_WARN, "answers by TCP at this port, so a firewall between the hosts drops UDP");
	end(l);
}

static enum lan_verdict init_lost(struct lan *l, const struct lan_event *ev)
{
	return ev->rx.kind == UCCL_RX_PACKET && ev->type == UCCL_PKT_INIT ? LAN_DROP : LAN_PASS;
}

/* It answers HELLO, so packets arrive, and INIT it does not answer. */
TEST(look__not_taken)
{
	struct lan *l = lan_cut();

	l->filter = init_lost;
	assert_int_equal(lan_send(l, 0, 1, src, 10, LAN_CTX(1)), 0);
	lan_pass(l, 6 * SECOND);
	assert_int_equal(ntexts, 1);
	expect(0, UCCL_LOG_WARN, "FI_UCCL_SECURITY or its authorization key differs");
	end(l);
}

/* A liveness connection to a peer that never was connected ends with it. */
TEST(end__asked)
{
	struct lan *l = lan_cut();

	l->node[0].nic->nic.caps.connect_early = true;
	assert_int_equal(lan_send(l, 0, 1, src, 10, LAN_CTX(1)), 0);
	lan_pass(l, 4 * SECOND);
	assert_true(l->node[0].nic->link[0].live);
	conn_fail(lan_conn(l, 0, 1), FI_EHOSTUNREACH, l->now);
	assert_false(l->node[0].nic->link[0].live);
	lan_expect(l, 0, LAN_CTX(1), FI_EHOSTUNREACH);
	expect(ntexts - 1, UCCL_LOG_WARN, "tried for 4 s: it never answered");
	assert_null(strstr(text[ntexts - 1], "process ended"));
	end(l);
}

/* A connected peer is cut off while something goes to it; nothing is said while nothing is due. */
TEST(look__cut_later)
{
	struct lan *l = lan_new_open(2);

	lan_talk(l);
	l->filter = nothing;
	ntexts = 0;
	uccl_log_set(note, UCCL_LOG_INFO);
	lan_pass(l, 100 * SECOND);
	assert_int_equal(ntexts, 0);
	assert_int_equal(lan_send(l, 0, 1, src, sizeof(src), LAN_CTX(1)), 0);
	lan_recv(l, 1, dst, sizeof(dst), LAN_CTX(2));
	lan_pass(l, 7 * SECOND);
	assert_int_equal(ntexts, 1);
	expect(0, UCCL_LOG_WARN, "on eth-lan for 5 s: its host is down, or the network between is cut");
	l->filter = NULL;
	lan_pass(l, 20 * SECOND);
	expect(ntexts - 1, UCCL_LOG_WARN, "answers after all");
	end(l);
}

/* This side makes a call each 1.5 s only: the line does not come later for that. */
TEST(look__few_calls)
{
	struct lan *l = lan_cut();

	assert_int_equal(lan_send(l, 0, 1, src, 10, LAN_CTX(1)), 0);
	for (int i = 0; i < 4; i++) {
		assert_int_equal(ntexts, 0);
		l->node[0].asleep = true;
		lan_pass(l, 1400 * MS);
		l->node[0].asleep = false;
		lan_pass(l, 100 * MS);
	}
	assert_int_equal(ntexts, 1);
	expect(0, UCCL_LOG_WARN, "has not answered");
	end(l);
}

/* It is this side that was away: nobody asked, so nobody was silent. */
TEST(look__was_away)
{
	struct lan *l = lan_cut();

	assert_int_equal(lan_send(l, 0, 1, src, 10, LAN_CTX(1)), 0);
	lan_pass(l, SECOND);
	l->node[0].asleep = true;
	lan_pass(l, 100 * SECOND);
	l->node[0].asleep = false;
	l->filter = NULL;
	lan_pass(l, 10 * SECOND);
	lan_expect(l, 0, LAN_CTX(1), 0);
	assert_int_equal(ntexts, 0);
	end(l);
}

TESTS_MAIN
