/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "../lan.h"
#include "../../tests.h"

#include <string.h>

#define MS UCCL_NS_PER_MS
#define SECOND UCCL_NS_PER_S

static uint8_t src[1 << 18], dst[1 << 18];

/* PROTOCOL R48 */
LAN_TEST(report__unreachable, lan_new_open(2))
{
	struct uccl_addr gone;

	lan_talk(l);
	gone = *uccl_engine_addr(l->node[1].e);
	l->icmp = true;
	lan_recv_from(l, 0, lan_peer(l, 0, 1), dst, 10, LAN_CTX(3));
	assert_int_equal(lan_send(l, 0, 1, src, 10, LAN_CTX(1)), 0);
	lan_kill(l, 1);
	lan_pass(l, 300 * MS);
	lan_expect(l, 0, LAN_CTX(1), FI_ECONNABORTED);
	lan_expect(l, 0, LAN_CTX(3), FI_ECONNABORTED);
	assert_int_equal(lan_stats(l, 0)->peers_dead, 1);
	assert_int_equal(lan_send_to(l, 0, uccl_engine_peer(l->node[0].e, &gone, false), src, 10, NULL),
			 -FI_ECONNABORTED);
}

/* Reports of one moment, and fewer than three, prove nothing. PROTOCOL R48 */
LAN_TEST(report__not_enough, lan_new_open(2))
{
	lan_talk(l);
	l->node[1].asleep = true;
	for (int i = 0; i < 20; i++)
		lan_icmp_last(l, 0, 1, UCCL_RX_UNREACH);
	lan_round(l);
	lan_pass(l, 40 * MS);
	lan_icmp_last(l, 0, 1, UCCL_RX_UNREACH);
	lan_pass(l, 5 * SECOND);
	assert_int_equal(lan_conn(l, 0, 1)->liveness.unreach, 2);
	assert_true(lan_conn(l, 0, 1)->peer.open);
	/* The third. */
	lan_icmp_last(l, 0, 1, UCCL_RX_UNREACH);
	lan_pass(l, 100 * MS);
	assert_false(lan_conn(l, 0, 1)->peer.open);
}

/* Its host refuses the liveness connection, too, in either order: one report is enough. PROTOCOL R386 */
TEST(report__with_gone)
{
	for (int first = 0; first < 2; first++) {
		struct lan *l = lan_new_open(2);
		const struct uccl_nic_addr *at = &uccl_engine_addr(l->node[1].e)->nic;

		lan_talk(l);
		l->node[1].asleep = true;
		for (int i = 0; i < 2; i++) {
			assert_true(lan_conn(l, 0, 1)->peer.open);
			if (i == first)
				lan_event(l, 0, UCCL_RX_GONE, at);
			else
				lan_icmp_last(l, 0, 1, UCCL_RX_UNREACH);
			lan_pass(l, MS);
		}
		assert_false(lan_conn(l, 0, 1)->peer.open);
		lan_free(l);
	}
}

/* It was heard after the report: it lives, whatever was reported. PROTOCOL R48 */
LAN_TEST(report__heard_since, lan_new_open(2))
{
	const struct uccl_nic_addr *at = &uccl_engine_addr(l->node[1].e)->nic;

	lan_talk(l);
	for (int i = 0; i < 50; i++) {
		if (i % 10 == 9)
			lan_event(l, 0, UCCL_RX_GONE, at);
		else
			lan_icmp_last(l, 0, 1, UCCL_RX_UNREACH);
		lan_pass(l, 60 * MS);
	}
	assert_true(lan_conn(l, 0, 1)->peer.open);
	assert_int_equal(lan_conn(l, 0, 1)->liveness.suspect_at, 0);
	lan_talk(l);
}

/* About somebody else, or nobody. PROTOCOL R48 */
LAN_TEST(report__of_others, lan_new_open(3))
{
	struct uccl_nic_addr at = uccl_engine_addr(l->node[1].e)->nic;
	uint8_t hdr[UCCL_HDR_LEN];

	lan_talk(l);
	lan_header_last(l, 0, 1, hdr);
	lan_peer(l, 0, 2);
	at.port++;
	for (int i = 0; i < 10; i++) {
		lan_icmp(l, 0, UCCL_RX_UNREACH, &at, hdr, sizeof(hdr));
		/* A peer that nothing was said to is not judged. */
		lan_icmp(l, 0, UCCL_RX_UNREACH, &uccl_engine_addr(l->node[2].e)->nic, hdr, sizeof(hdr));
		lan_pass(l, 20 * MS);
	}
	assert_int_equal(lan_conn(l, 0, 1)->liveness.unreach, 0);
	assert_int_equal(lan_conn(l, 0, 2)->liveness.unreach, 0);
	lan_talk(l);
}

/* Whoever has not seen our packets cannot quote them, nor can who has only old ones. PROTOCOL R150 */
LAN_TEST(report__quotes_nothing_of_ours, lan_new_open(2))
{
	const struct uccl_nic_addr *at = &uccl_engine_addr(l->node[1].e)->nic;
	uint8_t good[UCCL_HDR_LEN], hdr[UCCL_HDR_LEN];

	lan_talk(l);
	l->node[1].asleep = true;
	for (int i = 0; i < 100; i++) {
		uint32_t len = sizeof(hdr);

		lan_header_last(l, 0, 1, good);
		memcpy(hdr, good, sizeof(hdr));
		switch (i % 10) {
		case 0:
			len = 0;
			break;
		case 1:
			len = UCCL_QUOTE_MIN - 1;
			break;
		case 2:
			hdr[0] ^= 1; /* not ours */
			break;
		case 3:
			hdr[8] ^= 1; /* the token */
			break;
		case 4:
			uccl_put32(hdr + 20, uccl_get32(hdr + 20) + 1); /* not sent yet */
			break;
		case 5:
			uccl_put32(hdr + 20, uccl_get32(hdr + 20) - (1u << 22)); /* long ago */
			break;
		case 6:
			uccl_put16(hdr + 6, 4); /* the path */
			break;
		case 7:
			hdr[3] = UCCL_PKT_HELLO; /* that has another token */
			break;
		case 8:
			hdr[3] = UCCL_PKT_INIT; /* and that has it elsewhere */
			break;
		default:
			hdr[3] = UCCL_PKT_INIT;
			len = UCCL_HDR_LEN - 1;
			break;
		}
		lan_icmp(l, 0, UCCL_RX_UNREACH, at, hdr, len);
		lan_pass(l, 20 * MS);
	}
	assert_int_equal(lan_conn(l, 0, 1)->liveness.unreach, 0);
	assert_int_equal(lan_conn(l, 0, 1)->liveness.suspect_at, 0);
	assert_int_equal(lan_dropped(l, 0, UCCL_DROP_REPORT), 100);
	/* The least that is quoted by anybody. */
	lan_icmp(l, 0, UCCL_RX_UNREACH, at, good, UCCL_QUOTE_MIN);
	lan_pass(l, MS);
	assert_int_equal(lan_conn(l, 0, 1)->liveness.unreach, 1);
}

/* The peer's kernel knows better who lives. PROTOCOL R151 */
LAN_TEST(report__while_its_kernel_holds_it, lan_new_open(2))
{
	lan_talk(l);
	lan_recv_from(l, 0, lan_peer(l, 0, 1), dst, 10, LAN_CTX(1));
	l->node[1].asleep = true;
	/* Two came before that connection stood. */
	for (int i = 0; i < 50; i++) {
		lan_hold(l, 0, 1, i > 1);
		lan_icmp_last(l, 0, 1, UCCL_RX_UNREACH);
		lan_pass(l, 20 * MS);
	}
	assert_int_equal(lan_waiting(l, 0), 0);
	assert_int_equal(lan_conn(l, 0, 1)->liveness.unreach, 2);
	lan_hold(l, 0, 1, false);
	lan_icmp_last(l, 0, 1, UCCL_RX_UNREACH);
	lan_pass(l, 100 * MS);
	lan_expect(l, 0, LAN_CTX(1), FI_ECONNABORTED);
}

/* A peer that was never there: a while is given to one known by place alone, it may be about to start. PROTOCOL R48 */
TEST(report__never_there)
{
	for (int keyless = 0; keyless < 2; keyless++) {
		struct lan *l = lan_new_open(1);
		struct uccl_addr nobody = *uccl_engine_addr(l->node[0].e);

		l->icmp = true;
		nobody.nic.port = 9;
		nobody.incarnation = keyless ? 0 : 5;
		assert_int_equal(lan_send_to(l, 0, uccl_engine_peer(l->node[0].e, &nobody, true), src, 10, LAN_CTX(1)),
				 0);
		lan_pass(l, SECOND);
		assert_int_equal(lan_waiting(l, 0), !keyless);
		lan_pass(l, 4 * SECOND);
		lan_expect(l, 0, LAN_CTX(1), FI_EHOSTUNREACH);
		lan_free(l);
	}
}

static enum lan_verdict drop_init(struct lan *l, const struct lan_event *ev)
{
	return ev->type == UCCL_PKT_INIT ? LAN_DROP : LAN_PASS;
}

/* Whoever answers at the place is alive: what was reported before it came is no word against it. PROTOCOL R48 */
TEST(report__before_the_place_answered)
{
	struct lan *l = lan_new_keyless(2);
	struct uccl_peer *p = lan_peer_keyless(l, 0, 1);

	l->icmp = true;
	lan_kill(l, 1);
	assert_int_equal(lan_send_to(l, 0, p, src, 10, LAN_CTX(1)), 0);
	lan_pass(l, SECOND);
	assert_true(peer_conn(p)->liveness.unreach >= 3);
	l->filter = drop_init;
	lan_open(l, 1);
	for (int i = 0; i < 100 && peer_conn(p)->hs.state != UCCL_CONN_INIT; i++)
		lan_pass(l, 10 * MS);
	assert_int_equal(peer_conn(p)->hs.state, UCCL_CONN_INIT);
	lan_pass(l, 100 * MS);
	assert_int_equal(lan_waiting(l, 0), 0);
	l->filter = NULL;
	lan_recv(l, 1, dst, 10, LAN_CTX(2));
	lan_pass(l, 2 * SECOND);
	lan_expect(l, 0, LAN_CTX(1), 0);
	lan_expect(l, 1, LAN_CTX(2), 0);
	lan_free(l);
}

/* PROTOCOL R48 */
LAN_TEST(report__gone, lan_new_open(2))
{
	const struct uccl_nic_addr *at = &uccl_engine_addr(l->node[1].e)->nic;

	lan_talk(l);
	l->node[1].asleep = true;
	assert_int_equal(lan_send(l, 0, 1, src, 10, LAN_CTX(1)), 0);
	lan_event(l, 0, UCCL_RX_GONE, at);
	lan_pass(l, SECOND);
	lan_event(l, 0, UCCL_RX_GONE, at);
	assert_int_equal(lan_waiting(l, 0), 0);
	lan_pass(l, SECOND + 200 * MS);
	lan_expect(l, 0, LAN_CTX(1), FI_ECONNABORTED);
}

/* PROTOCOL R47 */
LAN_TEST(scan__silence_is_not_death, lan_new_open(2))
{
	lan_talk(l);
	lan_recv(l, 1, dst, 300000, LAN_CTX(2));
	l->node[1].asleep = true;
	assert_int_equal(lan_send(l, 0, 1, src, 200000, LAN_CTX(1)), 0);
	lan_pass(l, 590 * SECOND);
	assert_int_equal(lan_waiting(l, 0), 0);
	l->node[1].asleep = false;
	lan_run(l, 5 * SECOND);
	lan_expect(l, 0, LAN_CTX(1), 0);
	lan_expect(l, 1, LAN_CTX(2), 0);
}

/* PROTOCOL R47 */
LAN_TEST(scan__peer_timeout, lan_new())
{
	for (int i = 0; i < 2; i++) {
		l->node[i].cfg.peer_timeout_ns = 3 * SECOND;
		lan_open(l, i);
	}
	lan_talk(l);
	/* Nothing to do with it: it may be silent as long as it likes. */
	l->node[1].asleep = true;
	lan_pass(l, 20 * SECOND);
	assert_true(lan_conn(l, 0, 1)->peer.open);
	l->node[1].asleep = false;
	lan_talk(l);
	l->node[1].asleep = true;
	assert_int_equal(lan_send(l, 0, 1, src, 10, LAN_CTX(1)), 0);
	lan_pass(l, 2 * SECOND);
	assert_int_equal(lan_waiting(l, 0), 0);
	lan_pass(l, 2 * SECOND);
	lan_expect(l, 0, LAN_CTX(1), FI_ETIMEDOUT);
	assert_false(lan_conn(l, 0, 1)->peer.open);
}

/*
 * The time-out begins with a question, not with the last packet: idle hours do not count. In one case nobody even
 * polled during them. The peer is back `busy` after the send. PROTOCOL R47
 */
static void idle_then_send(bool polled, uint64_t busy)
{
	struct lan *l = lan_new_open(2);

	lan_talk(l);
	l->node[0].asleep = l->node[1].asleep = !polled;
	lan_pass(l, 2 * l->node[0].cfg.peer_timeout_ns);
	l->node[0].asleep = false;
	l->node[1].asleep = busy > 0;
	assert_int_equal(lan_send(l, 0, 1, src, 10, LAN_CTX(1)), 0);
	lan_pass(l, busy);
	assert_int_equal(lan_waiting(l, 0), 0);
	l->node[1].asleep = false;
	lan_pass(l, 5 * SECOND);
	lan_expect(l, 0, LAN_CTX(1), 0);
	lan_free(l);
}

TEST(scan__idle_hours_do_not_count)
{
	idle_then_send(true, 700 * MS);
	idle_then_send(true, 400 * SECOND);
	idle_then_send(false, 0);
	idle_then_send(false, 400 * SECOND);
}

/* Both were stopped with something under way, and this side is back first: its absence is no silence of the peer. */
LAN_TEST(scan__own_absence_does_not_count, lan_new_open(2))
{
	lan_talk(l);
	l->node[1].asleep = true;
	assert_int_equal(lan_send(l, 0, 1, src, 10, LAN_CTX(1)), 0);
	lan_pass(l, SECOND);
	l->node[0].asleep = true;
	lan_pass(l, 2 * l->node[0].cfg.peer_timeout_ns);
	l->node[0].asleep = false;
	lan_pass(l, 10 * SECOND);
	assert_int_equal(lan_waiting(l, 0), 0);
	l->node[1].asleep = false;
	lan_pass(l, 5 * SECOND);
	lan_expect(l, 0, LAN_CTX(1), 0);
}

/* Without keepalives, too, a peer is asked before it fails: here its window is shut and nothing is in flight. */
LAN_TEST(scan__asked_before_it_fails, lan_new())
{
	uint64_t before;

	for (int i = 0; i < 2; i++) {
		l->node[i].cfg.keepalive_ns = 0;
		l->node[i].cfg.peer_timeout_ns = 8 * SECOND;
		lan_open(l, i);
	}
	lan_talk(l);
	/* Large: it waits for a receive that is never posted. */
	assert_int_equal(lan_send(l, 0, 1, src, sizeof(src), LAN_CTX(1)), 0);
	lan_pass(l, SECOND);
	before = l->packets;
	lan_pass(l, 100 * SECOND);
	assert_in_range(l->packets - before, 20, 300);
	assert_int_equal(lan_waiting(l, 0), 0);
	l->node[1].asleep = true;
	lan_pass(l, 20 * SECOND);
	lan_expect(l, 0, LAN_CTX(1), FI_ETIMEDOUT);
}

/* A peer that somebody waits for is asked whether it lives; one that nobody waits for is left alone. PROTOCOL R49 */
LAN_TEST(scan__keepalive, lan_new_open(2))
{
	uint64_t before;

	lan_talk(l);
	lan_pass(l, SECOND);
	before = l->packets;
	lan_pass(l, 10 * SECOND);
	assert_int_equal(l->packets, before);
	lan_recv(l, 0, dst, 10, LAN_CTX(1));
	lan_pass(l, 10 * SECOND);
	assert_in_range(l->packets - before, 12, 30);
}

/* Of what connection management waits for, only what one peer is to say is a reason to look after that peer. */
LAN_TEST(scan__managed, lan_new_open(2))
{
	struct uccl_peer *peer;
	struct uccl_op *op;
	uint64_t before;

	lan_talk(l);
	peer = lan_peer(l, 0, 1);
	lan_pass(l, SECOND);
	for (int directed = 0; directed < 2; directed++) {
		op = lan_op(l, 0, UCCL_OP_RECV, UCCL_OPF_CM | (directed ? UCCL_OPF_DIRECTED : 0), dst, 10);
		op->peer = directed ? peer : NULL;
		op->context = LAN_CTX(1 + directed);
		assert_int_equal(uccl_engine_recv(l->node[0].e, op, l->now), 0);
		before = l->packets;
		lan_pass(l, 10 * SECOND);
		if (directed)
			assert_in_range(l->packets - before, 12, 30);
		else
			assert_int_equal(l->packets, before);
	}
	lan_kill(l, 1);
	lan_event(l, 0, UCCL_RX_GONE, &peer->addr.nic);
	lan_pass(l, 5 * SECOND);
	lan_expect(l, 0, LAN_CTX(2), FI_ECONNABORTED);
	assert_int_equal(lan_waiting(l, 0), 0);
	assert_false(uccl_peer_closed(peer));
}

static enum lan_verdict hold_cookies(struct lan *l, const struct lan_event *ev)
{
	return ev->type == UCCL_PKT_COOKIE ? LAN_HOLD : LAN_PASS;
}

/*
 * A new process at the place of a silent peer proves the end of the old one, though it has no business with us.
 * PROTOCOL R49
 */
LAN_TEST(scan__another_answers, lan_new_open(2))
{
	struct uccl_peer *old;

	lan_talk(l);
	old = lan_peer(l, 0, 1);
	lan_kill(l, 1);
	lan_open(l, 1);
	lan_recv_from(l, 0, old, dst, 10, LAN_CTX(1));
	assert_int_equal(lan_send_to(l, 0, old, src, 100, LAN_CTX(2)), 0);
	lan_pass(l, 5 * SECOND);
	lan_expect(l, 0, LAN_CTX(2), FI_ECONNRESET);
	lan_expect(l, 0, LAN_CTX(1), FI_ECONNRESET);
	assert_int_equal(lan_waiting(l, 1), 0);
	lan_talk(l);
}

/* The liveness connection broke: whoever is there now is asked at once who it is. PROTOCOL R49 */
LAN_TEST(gone__another_answers, lan_new_open(2))
{
	struct uccl_nic_addr at = uccl_engine_addr(l->node[1].e)->nic;

	lan_talk(l);
	assert_int_equal(lan_send(l, 0, 1, src, 10, LAN_CTX(1)), 0);
	lan_kill(l, 1);
	lan_open(l, 1);
	lan_event(l, 0, UCCL_RX_GONE, &at);
	lan_pass(l, 2 * MS);
	lan_expect(l, 0, LAN_CTX(1), FI_ECONNRESET);
}

/* What broke was no connection to a peer that has not answered yet. */
LAN_TEST(gone__not_connected_yet, lan_new_open(2))
{
	struct uccl_nic_addr at = uccl_engine_addr(l->node[1].e)->nic;

	l->node[1].asleep = true;
	assert_int_equal(lan_send(l, 0, 1, src, 10, LAN_CTX(1)), 0);
	for (int i = 0; i < 2; i++) {
		lan_event(l, 0, UCCL_RX_GONE, &at);
		lan_pass(l, 1100 * MS);
	}
	assert_int_equal(lan_waiting(l, 0), 0);
	l->node[1].asleep = false;
	lan_recv(l, 1, dst, 10, LAN_CTX(2));
	lan_pass(l, 2 * SECOND);
	lan_expect(l, 0, LAN_CTX(1), 0);
	lan_expect(l, 1, LAN_CTX(2), 0);
}

/* Answers take longer than the time between two questions of one doubt: they are answers all the same. */
LAN_TEST(gone__far_away, lan_new_open(2))
{
	struct uccl_nic_addr at = uccl_engine_addr(l->node[1].e)->nic;

	lan_talk(l);
	assert_int_equal(lan_send(l, 0, 1, src, 10, LAN_CTX(1)), 0);
	lan_kill(l, 1);
	lan_open(l, 1);
	l->filter = hold_cookies;
	lan_event(l, 0, UCCL_RX_GONE, &at);
	lan_pass(l, 100 * MS);
	assert_int_equal(lan_waiting(l, 0), 0);
	l->filter = NULL;
	lan_release(l, false);
	lan_pass(l, MS);
	lan_expect(l, 0, LAN_CTX(1), FI_ECONNRESET);
}

static enum lan_verdict count_refreshes(struct lan *l, const struct lan_event *ev)
{
	if (ev->rx.len == 1 && ev->data[0] == 0xff) {
		l->n++;
		l->mask |= 1u << ev->from;
	}
	return LAN_PASS;
}

/*
 * Whoever asked for a connection keeps its 5-tuple alive on NICs that send from the port they receive at: one byte in
 * 20 s, which the peer drops, whether anybody waits or not. PROTOCOL R371
 */
LAN_TEST(scan__refresh, lan_new())
{
	l->two_way = true;
	for (int i = 0; i < 2; i++)
		lan_open(l, i);
	lan_talk(l);
	l->filter = count_refreshes;
	lan_pass(l, 18 * SECOND);
	assert_int_equal(l->n, 0);
	lan_pass(l, 100 * SECOND);
	assert_in_range(l->n, 4, 5);
	assert_int_equal(l->mask, 1);
	assert_int_equal(uccl_engine_stats(l->node[1].e)->dropped[UCCL_DROP_SHORT], l->n);
	/* Not without keepalives, and not where nothing is gained. */
	l->n = 0;
	l->node[0].nic->nic.caps.two_way = false;
	lan_pass(l, 100 * SECOND);
	assert_int_equal(l->n, 0);
}

LAN_TEST(scan__no_keepalive, lan_new())
{
	uint64_t before;

	l->two_way = true;
	for (int i = 0; i < 2; i++) {
		l->node[i].cfg.keepalive_ns = 0;
		lan_open(l, i);
	}
	lan_talk(l);
	lan_recv(l, 0, dst, 10, LAN_CTX(1));
	lan_pass(l, SECOND);
	before = l->packets;
	lan_pass(l, 100 * SECOND);
	assert_int_equal(l->packets, before);
}

TESTS_MAIN
