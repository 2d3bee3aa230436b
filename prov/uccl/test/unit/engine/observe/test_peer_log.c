/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "../lan.h"

#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "../../tests.h"

#define MS UCCL_NS_PER_MS
#define SECOND UCCL_NS_PER_S

static uint8_t src[1 << 19], dst[1 << 19];

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
	lan_talk(l);
	l->node[0].train_fault = fault;
	lan_fill(src, 128 << 10, 4);
	return l;
}

static char told[8][400];
static int ntold, told_level[8];

static void note(int level, const char *func, int line, const char *text)
{
	if (strstr(text, "trains") && ntold < 8) {
		told_level[ntold] = level;
		snprintf(told[ntold++], sizeof(told[0]), "%s", text);
	}
}

/* Trains break: within a second it goes on as without trains, and a person is told once which peer that is. */
TEST(trains__broken)
{
	static const enum uccl_train_fault faults[] = {UCCL_TRAIN_DROP, UCCL_TRAIN_FIRST, UCCL_TRAIN_LAST,
						       UCCL_TRAIN_EQUAL};
	struct lan *l = lan_trains(false, UCCL_TRAIN_WHOLE);
	uint64_t without = goodput(l, 5 * MS), began, drops;

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
TEST(trains__mended)
{
	struct lan *l = lan_trains(true, UCCL_TRAIN_DROP);

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
LAN_TEST(trains__little_traffic, lan_trains(true, UCCL_TRAIN_DROP))
{
	for (int i = 0; i < 40; i++) {
		lan_recv(l, 1, dst, 3000, LAN_CTX(1));
		assert_int_equal(lan_send(l, 0, 1, src, 3000, LAN_CTX(2)), 0);
		lan_pass(l, 20 * MS);
		lan_expect(l, 0, LAN_CTX(2), 0);
		lan_expect(l, 1, LAN_CTX(1), 0);
		assert_int_equal(lan_conn(l, 0, 1)->peer.flow.sent.una, lan_conn(l, 0, 1)->peer.flow.sent.nxt);
	}
	assert_true(l->node[0].nic->train_drops > 0);
}

/* What a link on the way from 0 to 1 carries. */
#define NARROW 1472

static enum lan_verdict narrow(struct lan *l, const struct lan_event *ev)
{
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
	lan_talk(l);
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
TEST(mtu__black_hole)
{
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
		assert_int_equal(f->pmtu.bytes, f->cfg.packet.mtu);
		lan_free(l);
	}
}

/* "Packet too long" is believed if it quotes us, within bounds, and not for ever. PROTOCOL R150 R152 */
TEST(mtu__told)
{
	for (int k = 0; k < 2; k++) {
		struct lan *l = lan_narrow(k ? UCCL_SECURITY_CONTROL : UCCL_SECURITY_TRUSTED, 0);
		const struct uccl_flow *f = &lan_conn(l, 0, 1)->peer.flow;
		uint32_t most = f->cfg.packet.mtu, seal = k ? UCCL_SEAL_LEN : 0;
		uint8_t hdr[UCCL_HDR_LEN], forged[UCCL_HDR_LEN];

		lan_header_last(l, 0, 1, hdr);
		memcpy(forged, hdr, sizeof(hdr));
		forged[15] ^= 1;
		lan_too_long(l, 0, 1, forged, 600);
		lan_pass(l, MS);
		assert_int_equal(f->pmtu.bytes, most);
		assert_int_equal(lan_dropped(l, 0, UCCL_DROP_REPORT), 1);
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

TESTS_MAIN
