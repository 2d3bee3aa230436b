/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* What an engine makes of sealed packets, and of those that are not what they say; docs/protocol/security.md. */
#include "lan.h"
#include "../tests.h"

#include <stdlib.h>
#include <string.h>

#define MS UCCL_NS_PER_MS
#define SECOND UCCL_NS_PER_S
#define KEPT 4000

static uint8_t src[1 << 18], dst[1 << 18];

/* What went by, in both directions. */
static struct kept {
	int from, to;
	uint8_t type;
	uint32_t len;
	uint8_t *data;
} kept[KEPT];
static int nkept;

static enum lan_verdict keep(struct lan *l, const struct lan_event *ev)
{
	struct kept *k = &kept[nkept];

	if (nkept == KEPT || ev->rx.kind != UCCL_RX_PACKET)
		return LAN_PASS;
	*k = (struct kept){.from = ev->from, .to = ev->to, .type = ev->type, .len = ev->rx.len};
	k->data = malloc(k->len);
	memcpy(k->data, ev->data, k->len);
	nkept++;
	return LAN_PASS;
}

static int forget(void **state)
{
	while (nkept)
		free(kept[--nkept].data);
	return 0;
}

static struct lan *open_two(uint8_t a, uint8_t b)
{
	struct lan *l = lan_new();

	l->node[0].cfg.security = a;
	l->node[1].cfg.security = b;
	lan_open(l, 0);
	lan_open(l, 1);
	return l;
}

static uint64_t dropped_all(const struct lan *l, int i)
{
	uint64_t n = 0;

	for (int r = 0; r < UCCL_DROP_COUNT; r++)
		n += lan_stats(l, i)->dropped[r];
	return n;
}

static void talk(struct lan *l, int from, uint64_t len)
{
	lan_fill(src, len, (uint32_t)len);
	memset(dst, 0, len);
	lan_recv(l, !from, dst, len, LAN_CTX(101));
	assert_int_equal(lan_send(l, from, !from, src, len, LAN_CTX(100)), 0);
	lan_run(l, 100 * MS);
	lan_expect(l, from, LAN_CTX(100), 0);
	lan_expect(l, !from, LAN_CTX(101), 0);
	lan_check(dst, len, (uint32_t)len);
}

static bool is_sealed(const struct kept *k)
{
	return k->data[4] & UCCL_FLAG_SEALED;
}

/* PROTOCOL R90: all packets but those of the handshake, both ways. */
TEST_IN(sealed__all_packets, NULL, forget)
{
	for (uint8_t mode = 0; mode < UCCL_SECURITY_COUNT; mode++) {
		struct lan *l = open_two(mode, mode);

		l->filter = keep;
		for (uint64_t len = 0; len <= 200000; len = len * 7 + 1) {
			talk(l, 0, len);
			talk(l, 1, len);
		}
		assert_true(nkept > 50);
		for (int i = 0; i < nkept; i++)
			assert_int_equal(is_sealed(&kept[i]), mode && kept[i].type >= UCCL_PKT_ACK);
		assert_int_equal(dropped_all(l, 0) + dropped_all(l, 1), 0);
		uccl_engine_drain(l->node[0].e, l->now);
		lan_run(l, 10 * MS);
		assert_true(uccl_engine_drained(l->node[0].e));
		assert_int_equal(dropped_all(l, 0) + dropped_all(l, 1), 0);
		forget(state);
		lan_free(l);
	}
}

/* PROTOCOL R93 */
TEST(sealed__no_remote_writes)
{
	for (uint8_t mode = 0; mode < UCCL_SECURITY_COUNT; mode++) {
		struct lan *l = lan_new();

		l->writes = true;
		for (int i = 0; i < 2; i++) {
			l->node[i].cfg.security = mode;
			lan_open(l, i);
		}
		talk(l, 0, 200000);
		assert_int_equal(lan_stats(l, 0)->writes_tx > 0, mode != UCCL_SECURITY_PACKETS);
		assert_int_equal(lan_stats(l, 1)->writes_rx, lan_stats(l, 0)->writes_tx);
		assert_int_equal(l->node[1].nic->nmrs > 0, mode != UCCL_SECURITY_PACKETS);
		lan_free(l);
	}
}

/* Nothing is scattered before it is proven. */
TEST(sealed__no_hints)
{
	for (uint8_t mode = 0; mode < UCCL_SECURITY_COUNT; mode++) {
		struct lan *l = lan_new();

		l->hints = true;
		for (int i = 0; i < 2; i++) {
			l->node[i].cfg.security = mode;
			lan_open(l, i);
		}
		talk(l, 0, 200000);
		assert_int_equal(lan_stats(l, 1)->placements > 0, !mode);
		lan_free(l);
	}
}

/* PROTOCOL R91: everything once more, at once and later, changes nothing but one counter. */
TEST_IN(rx__replayed, NULL, forget)
{
	struct lan *l = open_two(UCCL_SECURITY_CONTROL, UCCL_SECURITY_CONTROL);
	uint64_t sealed = 0;

	l->filter = keep;
	talk(l, 0, 200000);
	talk(l, 1, 200000);
	l->filter = NULL;
	for (int i = 0; i < nkept; i++) {
		if (!is_sealed(&kept[i]))
			continue;
		sealed++;
		lan_inject(l, kept[i].to, kept[i].from, kept[i].data, kept[i].len);
	}
	lan_run(l, 100 * MS);
	assert_true(sealed > 20);
	assert_int_equal(lan_dropped(l, 0, UCCL_DROP_REPLAY) + lan_dropped(l, 1, UCCL_DROP_REPLAY), sealed);
	assert_int_equal(dropped_all(l, 0) + dropped_all(l, 1), sealed);
	talk(l, 0, 1000);
	lan_free(l);
}

/* Sent back to who made it: other keys. */
TEST_IN(rx__reflected, NULL, forget)
{
	struct lan *l = open_two(UCCL_SECURITY_CONTROL, UCCL_SECURITY_CONTROL);
	uint64_t sealed = 0;

	l->filter = keep;
	talk(l, 0, 200000);
	l->filter = NULL;
	for (int i = 0; i < nkept; i++) {
		if (!is_sealed(&kept[i]) || kept[i].from)
			continue;
		uccl_put64(kept[i].data + 8, lan_conn(l, 0, 1)->hs.token_local);
		lan_inject(l, 0, 1, kept[i].data, kept[i].len);
		sealed++;
	}
	lan_run(l, 100 * MS);
	assert_true(sealed > 2);
	assert_int_equal(lan_dropped(l, 0, UCCL_DROP_SEAL), sealed);
	talk(l, 0, 1000);
	lan_free(l);
}

/* Each byte changed, each length cut: refused as not genuine, or as malformed where that shows first. */
TEST_IN(rx__changed, NULL, forget)
{
	struct lan *l = open_two(UCCL_SECURITY_PACKETS, UCCL_SECURITY_PACKETS);
	uint64_t n = 0, before;

	l->filter = keep;
	talk(l, 0, 3000);
	l->filter = NULL;
	before = dropped_all(l, 1);
	for (int i = 0; i < nkept; i++) {
		struct kept *k = &kept[i];

		if (!is_sealed(k) || k->to != 1)
			continue;
		for (uint32_t at = 0; at < k->len; at += at < 200 ? 1 : 37) {
			k->data[at] ^= 0x10;
			lan_inject(l, 1, 0, k->data, k->len);
			k->data[at] ^= 0x10;
			lan_inject(l, 1, 0, k->data, at);
			n += 2;
		}
		lan_run(l, MS);
	}
	assert_true(n > 300);
	assert_int_equal(dropped_all(l, 1) - before, n);
	assert_true(lan_dropped(l, 1, UCCL_DROP_SEAL) > n / 4);
	assert_int_equal(lan_dropped(l, 1, UCCL_DROP_REPLAY), 0);
	assert_int_equal(lan_stats(l, 1)->peers_dead + lan_stats(l, 1)->peers_closed, 0);
	talk(l, 0, 1000);
	lan_free(l);
}

/* Who has read the tokens can end a connection without security, and no other. */
TEST(rx__forged)
{
	for (uint8_t mode = 0; mode < UCCL_SECURITY_COUNT; mode++) {
		struct lan *l = open_two(mode, mode);
		struct uccl_hdr h = {.type = UCCL_PKT_CLOSE};
		uint8_t p[UCCL_HDR_LEN + UCCL_SEAL_LEN] = {0};

		talk(l, 0, 1000);
		h.token = lan_conn(l, 1, 0)->hs.token_local;
		uccl_hdr_encode(p, &h);
		lan_inject(l, 1, 0, p, UCCL_HDR_LEN);
		h.flags = UCCL_FLAG_SEALED;
		uccl_hdr_encode(p, &h);
		lan_inject(l, 1, 0, p, sizeof(p));
		lan_run(l, 100 * MS);
		assert_int_equal(lan_stats(l, 1)->peers_closed, !mode);
		assert_int_equal(lan_dropped(l, 1, UCCL_DROP_SEAL), mode ? 2 : 1);
		if (mode)
			talk(l, 0, 1000);
		lan_free(l);
	}
}

/* Its answer, if it was lost, is sealed as well. */
TEST_IN(rx__close_again, NULL, forget)
{
	struct lan *l = open_two(UCCL_SECURITY_CONTROL, UCCL_SECURITY_CONTROL);
	int closes = 0;

	talk(l, 0, 1000);
	l->filter = keep;
	uccl_engine_drain(l->node[0].e, l->now);
	lan_run(l, 10 * MS);
	for (int i = 0; i < nkept; i++) {
		if (kept[i].type != UCCL_PKT_CLOSE)
			continue;
		lan_inject(l, 1, 0, kept[i].data, kept[i].len);
		lan_run(l, MS);
		closes++;
	}
	assert_true(closes > 0);
	assert_int_equal(lan_dropped(l, 1, UCCL_DROP_REPLAY), closes);
	for (int i = 0; i < nkept; i++)
		assert_true(is_sealed(&kept[i]));
	lan_free(l);
}

/* PROTOCOL R92: both sides are told, at once, whoever begins, and whoever asks for more. */
TEST(connect__refused)
{
	for (uint8_t a = 0; a < UCCL_SECURITY_COUNT; a++) {
		for (uint8_t b = 0; b < UCCL_SECURITY_COUNT; b++) {
			struct lan *l;

			if (a == b)
				continue;
			l = open_two(a, b);
			lan_recv_from(l, 1, lan_peer(l, 1, 0), dst, 100, LAN_CTX(1));
			assert_int_equal(lan_send(l, 0, 1, src, 100, LAN_CTX(2)), 0);
			lan_run(l, 100 * MS);
			lan_expect(l, 0, LAN_CTX(2), FI_EACCES);
			lan_expect(l, 1, LAN_CTX(1), FI_EACCES);
			assert_true(lan_dropped(l, 0, UCCL_DROP_SECURITY) && lan_dropped(l, 1, UCCL_DROP_SECURITY));
			assert_int_equal(lan_stats(l, 0)->connects + lan_stats(l, 1)->connects, 0);
			/* Nothing of that refuses the next attempt, which ends alike. PROTOCOL R295 */
			assert_int_equal(l->node[1].e->conns.n, 1);
			assert_int_equal(lan_send(l, 0, 1, src, 100, LAN_CTX(3)), 0);
			lan_run(l, 200 * MS);
			lan_expect(l, 0, LAN_CTX(3), FI_EACCES);
			lan_free(l);
		}
	}
}

/* The answer that refuses is lost at first. */
static enum lan_verdict lose_refusal(struct lan *l, const struct lan_event *ev)
{
	return ev->type == UCCL_PKT_INIT_ACK && l->n++ < 3 ? LAN_DROP : LAN_PASS;
}

LAN_TEST(connect__refused_with_loss, open_two(UCCL_SECURITY_TRUSTED, UCCL_SECURITY_CONTROL))
{
	l->filter = lose_refusal;
	assert_int_equal(lan_send(l, 0, 1, src, 100, LAN_CTX(2)), 0);
	lan_run(l, SECOND);
	assert_int_equal(l->n, 4);
	lan_expect(l, 0, LAN_CTX(2), FI_EACCES);
}

/* Nobody is proven by an address without a key. */
LAN_TEST(connect__keyless, lan_new())
{
	for (int i = 0; i < 2; i++) {
		l->node[i].cfg.keyless = true;
		l->node[i].cfg.security = UCCL_SECURITY_CONTROL;
		lan_open(l, i);
	}
	assert_int_equal(lan_send_to(l, 0, lan_peer_keyless(l, 0, 1), src, 100, LAN_CTX(1)), -FI_EACCES);
	talk(l, 0, 100);
}

LAN_TEST(connect__both_at_once, open_two(UCCL_SECURITY_PACKETS, UCCL_SECURITY_PACKETS))
{
	lan_recv(l, 0, dst, 100, LAN_CTX(1));
	lan_recv(l, 1, dst + 100, 100, LAN_CTX(2));
	assert_int_equal(lan_send(l, 0, 1, src, 100, LAN_CTX(3)), 0);
	assert_int_equal(lan_send(l, 1, 0, src, 100, LAN_CTX(4)), 0);
	lan_run(l, 100 * MS);
	assert_int_equal(lan_waiting(l, 0), 2);
	assert_int_equal(lan_waiting(l, 1), 2);
	assert_int_equal(lan_dropped(l, 0, UCCL_DROP_SEAL) + lan_dropped(l, 1, UCCL_DROP_SEAL), 0);
}

/* Says of every peer that another incarnation is there, as whoever reads HELLOs can. */
static enum lan_verdict lie(struct lan *l, const struct lan_event *ev)
{
	struct uccl_hdr h = {.type = UCCL_PKT_COOKIE, .token = uccl_get64(ev->data + 8)};
	uint8_t p[UCCL_HDR_LEN], rec[UCCL_REC_LEN] = {0};

	if (ev->type != UCCL_PKT_HELLO)
		return l->n ? LAN_DROP : LAN_PASS;
	memcpy(rec, ev->data + 32, 8);
	uccl_put64(rec + 8, 0x123456789);
	h.rec = rec;
	uccl_hdr_encode(p, &h);
	lan_inject(l, ev->from, ev->to, p, sizeof(p));
	return LAN_PASS;
}

/* The answer of somebody who reads along comes before the peer's: the two connect all the same. PROTOCOL R94 */
TEST(connect__forged_cookie)
{
	for (uint8_t mode = UCCL_SECURITY_CONTROL; mode < UCCL_SECURITY_COUNT; mode++)
		for (int gone = 0; gone < 2; gone++) {
			struct lan *l = open_two(mode, mode);

			l->filter = lie;
			if (gone) {
				/* It was replaced indeed: who asks for it is told in time. */
				struct uccl_addr old = *uccl_engine_addr(l->node[1].e);

				lan_kill(l, 1);
				lan_open(l, 1);
				lan_send_to(l, 0, uccl_engine_peer(l->node[0].e, &old, true), src, 10, LAN_CTX(1));
				lan_pass(l, 10 * SECOND);
				lan_expect(l, 0, LAN_CTX(1), FI_ECONNRESET);
			} else {
				talk(l, 0, 1000);
			}
			assert_true(lan_dropped(l, 0, UCCL_DROP_COOKIE) > 0);
			lan_free(l);
		}
}

/* A restart is only believed of a peer that has fallen silent. */
TEST(restart__unproven)
{
	for (int silent = 0; silent < 2; silent++) {
		struct lan *l = open_two(UCCL_SECURITY_CONTROL, UCCL_SECURITY_CONTROL);

		talk(l, 0, 1000);
		lan_recv_from(l, 0, lan_peer(l, 0, 1), dst, 10, LAN_CTX(1));
		l->node[1].asleep = true;
		l->filter = lie;
		lan_pass(l, 3 * SECOND);
		if (silent) {
			lan_pass(l, 5 * SECOND);
			lan_expect(l, 0, LAN_CTX(1), FI_ECONNABORTED);
		} else {
			assert_true(lan_dropped(l, 0, UCCL_DROP_STALE) > 0);
			l->node[1].asleep = false;
			lan_pass(l, 10 * SECOND);
			assert_int_equal(lan_waiting(l, 0), 0);
			assert_int_equal(lan_stats(l, 0)->peers_dead, 0);
		}
		lan_free(l);
	}
}

/*
 * ICMP has no seal: with keys it fails nobody, however well it quotes, neither who is connected nor who is not yet.
 * PROTOCOL R151
 */
TEST(report__fails_nobody)
{
	for (uint8_t mode = UCCL_SECURITY_CONTROL; mode <= UCCL_SECURITY_PACKETS; mode++) {
		struct lan *l = open_two(mode, mode);
		struct uccl_addr nobody = *uccl_engine_addr(l->node[1].e);

		lan_recv(l, 1, dst, 10, LAN_CTX(2));
		assert_int_equal(lan_send(l, 0, 1, src, 10, LAN_CTX(1)), 0);
		lan_run(l, SECOND);
		lan_expect(l, 0, LAN_CTX(1), 0);
		lan_recv_from(l, 0, lan_peer(l, 0, 1), dst, 10, LAN_CTX(3));
		l->node[1].asleep = true;
		l->icmp = true;
		nobody.nic.port = 9;
		assert_int_equal(lan_send_to(l, 0, uccl_engine_peer(l->node[0].e, &nobody, true), src, 10, LAN_CTX(4)),
				 0);
		for (int i = 0; i < 200; i++) {
			lan_icmp_last(l, 0, 1, UCCL_RX_UNREACH);
			lan_pass(l, 50 * MS);
		}
		assert_int_equal(lan_waiting(l, 0), 0);
		assert_int_equal(lan_conn(l, 0, 1)->liveness.suspect_at, 0);
		lan_free(l);
	}
}

TESTS_MAIN
