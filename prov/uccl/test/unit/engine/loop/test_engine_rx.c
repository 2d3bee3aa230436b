/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "../lan.h"
#include "../../tests.h"

#include <string.h>

#define SECOND UCCL_NS_PER_S

static uint8_t src[1 << 19], dst[1 << 19];

/* The first 64 bytes of a data chunk for the message that node 1 receives. */
static void data_header(struct lan *l, uint8_t *out, uint32_t csn, uint64_t off, uint16_t len, uint16_t tail)
{
	struct conn *c = lan_conn(l, 1, 0);
	struct uccl_msg_rx *rx = TAILQ_FIRST(&c->peer.rx.all);
	uint8_t rec[UCCL_REC_LEN] = {0};
	struct uccl_hdr h = {.type = UCCL_PKT_CHUNK,
			     .rtype = UCCL_REC_DATA,
			     .token = c->hs.token_local,
			     .csn = (uint32_t)c->peer.flow.rx.arrived.nxt + csn,
			     .pseq = 1000 + csn,
			     .payload_len = len,
			     .tail_len = tail,
			     .rec = rec};

	uccl_rec_set_bulk(rec, rx->id, (uint32_t)rx->mseq, off);
	uccl_hdr_encode(out, &h);
}

static enum lan_verdict hold_data(struct lan *l, const struct lan_event *ev)
{
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
	lan_talk(l);
	lan_fill(src, FIRST + n * CHUNK, 8);
	memset(dst, 0xee, sizeof(dst));
	lan_recv(l, 1, dst, FIRST + n * CHUNK, LAN_CTX(1));
	l->filter = hold_data;
	assert_int_equal(lan_send(l, 0, 1, src, FIRST + n * CHUNK, LAN_CTX(2)), 0);
	for (int i = 0; i < 10 && TAILQ_EMPTY(&l->held); i++)
		lan_round(l);
	assert_false(TAILQ_EMPTY(&l->held));
	lan_round(l);
	l->node[1].e->msg_ep.predict.stream = TAILQ_FIRST(&lan_conn(l, 1, 0)->peer.rx.all);
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
TEST(settle__right_predictions)
{
	struct lan *l = stream_start(5);

	lan_release(l, false);
	lan_round(l);
	lan_round(l);
	assert_int_equal(lan_stats(l, 1)->placement_hits, 5);
	stream_end(l, 5);
}

/*
 * All orders of four payloads in one round: where slot i's wrong payload lies, slot j's belongs. PROTOCOL R44
 */
TEST(settle__every_permutation)
{
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
		assert_int_equal(lan_stats(l, 1)->placement_hits, fixed);
		stream_end(l, 4);
	}
}

/* What follows an envelope has its place when that is taken in first: all of a head, but of the first. PROTOCOL R263 */
LAN_TEST(rx__envelope_alone, lan_new())
{
	l->hints = true;
	for (int i = 0; i < 2; i++) {
		l->node[i].cfg.eager_bytes = CHUNK;
		lan_open(l, i);
	}
	for (unsigned int i = 0; i < UCCL_UNSOLICITED_MET + 3; i++) {
		uint64_t hits = lan_stats(l, 1)->placement_hits;

		lan_fill(src, FIRST + 3 * CHUNK, i);
		lan_recv(l, 1, dst, FIRST + 3 * CHUNK, LAN_CTX(1));
		assert_int_equal(lan_send(l, 0, 1, src, FIRST + 3 * CHUNK, LAN_CTX(2)), 0);
		lan_run(l, SECOND);
		lan_expect(l, 1, LAN_CTX(1), 0);
		lan_expect(l, 0, LAN_CTX(2), 0);
		lan_check(dst, FIRST + 3 * CHUNK, i);
		assert_int_equal(lan_stats(l, 1)->placement_hits - hits, i == UCCL_UNSOLICITED_MET ? 0 : 3);
	}
}

static enum lan_verdict jumble(struct lan *l, const struct lan_event *ev)
{
	struct uccl_rng *r = (struct uccl_rng *)(void *)&l->node[3].comp;

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
TEST(settle__random)
{
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
LAN_TEST(settle__tail_behind_a_short_payload, stream_start(2))
{
	uint8_t p[LAN_MTU], q[LAN_MTU];
	struct uccl_ack ack = {.cum = (uint32_t)lan_conn(l, 1, 0)->peer.flow.sent.una,
			       .slots = 100,
			       .msg_limit = UCCL_MSG_LIMIT};
	uint16_t tail = (uint16_t)uccl_ack_encode(q + UCCL_HDR_LEN + 1000, &ack);
	uint64_t acks;

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
	assert_int_equal(lan_stats(l, 1)->placement_hits, 0);
	for (int i = 0; i < UCCL_DROP_COUNT; i++)
		assert_int_equal(lan_dropped(l, 1, (enum uccl_drop)i), 0);
	data_header(l, p, 0, FIRST, (uint16_t)CHUNK, 0);
	memcpy(p + UCCL_HDR_LEN, src + FIRST, CHUNK);
	lan_inject(l, 1, 0, p, (uint32_t)(UCCL_HDR_LEN + CHUNK));
	lan_round(l);
	lan_expect(l, 1, LAN_CTX(1), 0);
	lan_check(dst, FIRST + 2 * CHUNK, 8);
}

#define PART 1400u
#define PARTS 32u

static enum lan_verdict hold_parts(struct lan *l, const struct lan_event *ev)
{
	return ev->type == UCCL_PKT_SEGMENT || ev->rtype == UCCL_REC_DATA ? LAN_HOLD : LAN_PASS;
}

/* Messages of `len` bytes in trains from node 0 to node 1, whose NIC hands up each train as one. */
static struct lan *rows_start(bool hints)
{
	struct lan *l = lan_new();

	l->hints = hints;
	l->together = true;
	l->node[0].train_bytes = PARTS * LAN_MTU;
	for (int i = 0; i < 2; i++) {
		l->node[i].cfg.chunk_bytes = PART;
		l->node[i].cfg.eager_bytes = 4096;
		lan_open(l, i);
	}
	lan_talk(l);
	return l;
}

static void rows_send(struct lan *l, uint64_t len, uint64_t seed)
{
	lan_fill(src, len, seed);
	memset(dst, 0xee, len + 4096);
	lan_recv(l, 1, dst, len, LAN_CTX(1));
	assert_int_equal(lan_send(l, 0, 1, src, len, LAN_CTX(2)), 0);
}

static void rows_end(struct lan *l, uint64_t len, uint64_t seed)
{
	lan_run(l, SECOND);
	lan_expect(l, 1, LAN_CTX(1), 0);
	lan_expect(l, 0, LAN_CTX(2), 0);
	lan_check(dst, len, seed);
	for (int i = 0; i < 4096; i++)
		assert_int_equal(dst[len + (uint64_t)i], 0xee);
}

/* Where a row came before, others come straight to their place, however long the message is. PROTOCOL R282 */
TEST(run__predicted)
{
	for (uint64_t len = 300000; len < 300000 + 3 * PARTS * PART; len += 9001) {
		struct lan *l = rows_start(true);
		uint64_t rows = len / (PARTS * PART), hits;

		rows_send(l, len, len);
		rows_end(l, len, len);
		hits = lan_stats(l, 1)->placement_hits;
		rows_send(l, len, len + 1);
		rows_end(l, len, len + 1);
		assert_in_range(lan_stats(l, 1)->placement_hits - hits, rows / 2, rows + 1);
		assert_in_range(lan_stats(l, 1)->placements - lan_stats(l, 1)->placement_hits, 0, 2);
		lan_free(l);
	}
}

/* Rows that are received one by one are no more often acknowledged than those that come with others. */
TEST(row__acknowledged)
{
	uint64_t acks[2];

	for (int hints = 0; hints < 2; hints++) {
		struct lan *l = rows_start(hints);

		for (uint64_t i = 0; i < 4; i++) {
			rows_send(l, 500000, i);
			rows_end(l, 500000, i);
		}
		acks[hints] = lan_stats(l, 0)->acks_rx;
		lan_free(l);
	}
	assert_in_range(acks[1], 1, acks[0]);
}

/* Of segments that come in any order, doubled or not at all, none is believed to be elsewhere. PROTOCOL R282 */
TEST(row__random)
{
	for (unsigned int seed = 0; seed < 12; seed++) {
		struct lan *l = rows_start(true);

		uccl_rng_seed((struct uccl_rng *)(void *)&l->node[3].comp, seed);
		rows_send(l, 260000, seed);
		rows_end(l, 260000, seed);
		rows_send(l, 400000, seed + 1);
		l->filter = jumble;
		for (int i = 0; i < 3000 && lan_waiting(l, 0) + lan_waiting(l, 1) < 2; i++) {
			lan_pass(l, 100000);
			lan_release(l, i & 1);
		}
		l->filter = NULL;
		lan_release(l, false);
		rows_end(l, 400000, seed + 1);
		lan_free(l);
	}
}

/* A connection of node 1 seals from now on, as if with FI_UCCL_SECURITY, or no more. */
static void seal_now(struct lan *l, bool on)
{
	static struct uccl_seal seal;
	const uint8_t key[32] = { 1 };

	uccl_seal_init(&seal, key, key);
	lan_conn(l, 1, 0)->opened.seal = on ? &seal : NULL;
}

/*
 * The first segments that are held become a row at the place that is predicted now, changed by `spoil`; `sealed`: of a
 * connection that seals.
 */
static void row_spoiled_at(void (*spoil)(uint8_t *p, uint32_t each, int n), const struct uccl_nic_addr *from,
			   bool right, bool sealed, enum uccl_drop reason)
{
	static uint8_t row[8 * (UCCL_HDR_LEN + PART)];
	const uint32_t each = UCCL_HDR_LEN + PART, len = 400000;
	struct lan *l = rows_start(true);
	uint64_t hits, hints;
	int n = 0;

	rows_send(l, len, 1);
	rows_end(l, len, 1);
	rows_send(l, len, 2);
	for (int i = 0; i < 100 && !l->node[1].e->msg_ep.predict.stream; i++)
		lan_round(l);
	assert_non_null(l->node[1].e->msg_ep.predict.stream);
	l->filter = hold_parts;
	for (int i = 0; i < 100 && TAILQ_EMPTY(&l->held); i++)
		lan_round(l);
	hits = lan_stats(l, 1)->placement_hits;
	hints = lan_stats(l, 1)->placements;
	for (struct lan_event *ev = TAILQ_FIRST(&l->held); ev && n < 8; ev = TAILQ_NEXT(ev, link), n++)
		memcpy(row + (uint32_t)n * each, ev->data, each);
	assert_int_equal(n, 8);
	if (spoil)
		spoil(row, each, n);
	for (int i = 0; i < n; i++)
		lan_inject_from(l, 1, from ? from : &l->node[0].nic->addr, row + (uint32_t)i * each, each);
	seal_now(l, sealed);
	lan_round(l);
	seal_now(l, false);
	assert_int_equal(lan_stats(l, 1)->placements, hints + 1);
	assert_int_equal(lan_stats(l, 1)->placement_hits, hits + right);
	if (reason != UCCL_DROP_COUNT)
		assert_true(lan_dropped(l, 1, reason) > 0);
	/* What went to a wrong place harms nobody: all of it comes yet. */
	l->filter = NULL;
	lan_release(l, false);
	rows_end(l, len, 2);
	lan_free(l);
}

static void row_spoiled(void (*spoil)(uint8_t *p, uint32_t each, int n), const struct uccl_nic_addr *from, bool right,
			enum uccl_drop reason)
{
	row_spoiled_at(spoil, from, right, false, reason);
}

static void spoil_order(uint8_t *p, uint32_t each, int n)
{
	uint8_t one[UCCL_HDR_LEN + PART];

	memcpy(one, p + (uint32_t)(n - 1) * each, each);
	memcpy(p + (uint32_t)(n - 1) * each, p + each, each);
	memcpy(p + each, one, each);
}

/* One place to the right of where it was predicted. */
static void spoil_first(uint8_t *p, uint32_t each, int n)
{
	memmove(p, p + each, (uint32_t)(n - 1) * each);
}

static void spoil_token(uint8_t *p, uint32_t each, int n)
{
	for (int i = 0; i < n; i++)
		p[(uint32_t)i * each + 8] ^= 1;
}

static void spoil_path(uint8_t *p, uint32_t each, int n)
{
	for (int i = 0; i < n; i++)
		p[(uint32_t)i * each + 6] = 200;
}

static void spoil_all(uint8_t *p, uint32_t each, int n)
{
	memset(p, 0x55, (uint32_t)n * each);
}

/* A row where the next one was predicted, and others that lie there: they are moved away before they are looked at. */
TEST(row__settled)
{
	row_spoiled(NULL, NULL, true, UCCL_DROP_COUNT);
	row_spoiled(spoil_order, NULL, false, UCCL_DROP_COUNT);
	row_spoiled(spoil_first, NULL, false, UCCL_DROP_COUNT);
	row_spoiled(spoil_token, NULL, false, UCCL_DROP_TOKEN);
	row_spoiled(spoil_path, NULL, false, UCCL_DROP_PATH);
	row_spoiled(spoil_all, NULL, false, UCCL_DROP_MAGIC);
	row_spoiled(NULL, &(struct uccl_nic_addr){.port = 7}, false, UCCL_DROP_SOURCE);
	/* Nothing that a seal must prove is taken where it lies. PROTOCOL R90 */
	row_spoiled_at(NULL, NULL, false, true, UCCL_DROP_SEAL);
}

/* Scattered and then refused: nobody's, foreign, malformed. */
TEST(settle__refused)
{
	struct lan *l = stream_start(3);
	uint8_t p[LAN_MTU];
	uint64_t got = TAILQ_FIRST(&lan_conn(l, 1, 0)->peer.rx.all)->arrived.got;

	memset(p, 0x55, sizeof(p));
	/* From another machine, exactly where it would belong. */
	data_header(l, p, 0, FIRST, (uint16_t)CHUNK, 0);
	memcpy(p + UCCL_HDR_LEN, src + FIRST, CHUNK);
	lan_inject_from(l, 1, &(struct uccl_nic_addr){.port = 7}, p, (uint32_t)(UCCL_HDR_LEN + CHUNK));
	lan_round(l);
	assert_int_equal(lan_dropped(l, 1, UCCL_DROP_SOURCE), 1);
	/* It says that it is sealed; it is not, and the connection seals. PROTOCOL R90 */
	p[4] |= UCCL_FLAG_SEALED;
	lan_inject(l, 1, 0, p, (uint32_t)(UCCL_HDR_LEN + CHUNK + UCCL_SEAL_LEN));
	lan_round(l);
	assert_int_equal(lan_dropped(l, 1, UCCL_DROP_SEAL), 1);
	p[4] &= (uint8_t)~UCCL_FLAG_SEALED;
	seal_now(l, true);
	lan_inject(l, 1, 0, p, (uint32_t)(UCCL_HDR_LEN + CHUNK));
	lan_round(l);
	seal_now(l, false);
	assert_int_equal(lan_dropped(l, 1, UCCL_DROP_SEAL), 2);
	assert_int_equal(TAILQ_FIRST(&lan_conn(l, 1, 0)->peer.rx.all)->arrived.got, got);
	/* Unknown token; not ours at all; too short. */
	uccl_put64(p + 8, 99);
	lan_inject(l, 1, 0, p, (uint32_t)(UCCL_HDR_LEN + CHUNK));
	lan_round(l);
	assert_int_equal(lan_dropped(l, 1, UCCL_DROP_TOKEN), 1);
	memset(p, 0x55, sizeof(p));
	lan_inject(l, 1, 0, p, 5000);
	lan_inject(l, 1, 0, p, 20);
	lan_round(l);
	assert_int_equal(lan_dropped(l, 1, UCCL_DROP_MAGIC), 1);
	assert_int_equal(lan_dropped(l, 1, UCCL_DROP_SHORT), 1);
	assert_int_equal(TAILQ_FIRST(&lan_conn(l, 1, 0)->peer.rx.all)->arrived.got, got);
	assert_int_equal(lan_waiting(l, 1), 0);
	lan_release(l, false);
	stream_end(l, 3);
}

/* PROTOCOL R1 R2 R3 */
LAN_TEST(rx__checks, lan_new_open(3))
{
	uint8_t p[UCCL_HDR_LEN] = {0};
	struct uccl_hdr h = {.type = UCCL_PKT_ACK};
	struct conn *c;

	lan_talk(l);
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
	assert_int_equal(lan_dropped(l, 0, UCCL_DROP_SHORT), 4);
	assert_int_equal(lan_dropped(l, 0, UCCL_DROP_MAGIC), 1);
	assert_int_equal(lan_dropped(l, 0, UCCL_DROP_VERSION), 1);
	assert_int_equal(lan_dropped(l, 0, UCCL_DROP_TYPE), 1);
	assert_int_equal(lan_dropped(l, 0, UCCL_DROP_LENGTH), 1);
	assert_int_equal(lan_dropped(l, 0, UCCL_DROP_TOKEN), 1);
	assert_int_equal(lan_dropped(l, 0, UCCL_DROP_SOURCE), 1);
	assert_int_equal(lan_dropped(l, 0, UCCL_DROP_PATH), 1);
	/* A flow's packet before there is a flow. */
	lan_peer(l, 0, 2);
	h.token = lan_conn(l, 0, 2)->hs.token_local;
	h.path = 0;
	uccl_hdr_encode(p, &h);
	lan_inject(l, 0, 2, p, UCCL_HDR_LEN);
	lan_round(l);
	assert_int_equal(lan_dropped(l, 0, UCCL_DROP_STATE), 1);
	lan_talk(l);
}

/* Events of peers that are gone or never were. */
/* What came as one is packets all the same: each is judged by itself, the last may be shorter. */
LAN_TEST(rx__together, lan_new_open(2))
{
	uint8_t p[6 * UCCL_HDR_LEN];
	struct uccl_hdr h = {.type = UCCL_PKT_ACK};
	struct conn *c;
	uint64_t before;

	lan_talk(l);
	c = lan_conn(l, 0, 1);
	before = l->node[0].e->stats.rx_packets;
	h.token = c->hs.token_local;
	for (uint32_t cut = 0; cut <= UCCL_HDR_LEN; cut++) {
		for (int i = 0; i < 6; i++) {
			h.token += i == 3;
			uccl_hdr_encode(p + i * UCCL_HDR_LEN, &h);
			h.token -= i == 3;
		}
		p[UCCL_HDR_LEN]++;
		lan_inject(l, 0, 1, p, 5 * UCCL_HDR_LEN + cut);
		TAILQ_LAST(&l->node[0].nic->rxq, lan_events)->rx.each = UCCL_HDR_LEN;
		lan_round(l);
	}
	assert_int_equal(l->node[0].e->stats.rx_packets - before, 3 * (UCCL_HDR_LEN + 1) + 1);
	assert_int_equal(lan_dropped(l, 0, UCCL_DROP_MAGIC), UCCL_HDR_LEN + 1);
	assert_int_equal(lan_dropped(l, 0, UCCL_DROP_TOKEN), UCCL_HDR_LEN + 1);
	assert_int_equal(lan_dropped(l, 0, UCCL_DROP_SHORT), UCCL_HDR_LEN - 1);
}

LAN_TEST(rx__events_of_nobody, lan_new_open(2))
{
	static const uint8_t kinds[] = {UCCL_RX_WRITE, UCCL_RX_SENT, UCCL_RX_FENCED, UCCL_RX_PATH_ERR};

	lan_talk(l);
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
	assert_int_equal(lan_dropped(l, 0, UCCL_DROP_PATH), 1);
	lan_talk(l);
}

static const struct uccl_nic_ops *lan_ops;
static uint64_t read_at;

/* Each packet of a round was read a millisecond after the one before it. */
static int rx_one_by_one(struct uccl_nic *nic, struct uccl_rx *v, int n, const struct uccl_rx_placement *places,
			 int nplaces)
{
	n = lan_ops->rx(nic, v, n, places, nplaces);
	for (int i = 0; i < n; i++)
		v[i].read_ns = read_at += UCCL_NS_PER_MS;
	return n;
}

static enum lan_verdict hold(struct lan *l, const struct lan_event *ev)
{
	return LAN_HOLD;
}

/* Rails are read one after the other: each packet counts from when it was read. */
LAN_TEST(rx__time_of_each, lan_new_open(3))
{
	struct uccl_nic_ops ops;
	uint64_t heard[2];

	for (int i = 1; i < 3; i++) {
		lan_recv(l, 0, dst, 64, LAN_CTX(2));
		assert_int_equal(lan_send(l, i, 0, src, 10, LAN_CTX(1)), 0);
		lan_run(l, SECOND);
	}
	l->filter = hold;
	for (int i = 1; i < 3; i++) {
		lan_recv(l, 0, dst, 64, LAN_CTX(2));
		assert_int_equal(lan_send(l, i, 0, src, 10, LAN_CTX(1)), 0);
	}
	lan_round(l);
	l->filter = NULL;
	lan_ops = l->node[0].e->nic->ops;
	ops = *lan_ops;
	ops.rx = rx_one_by_one;
	l->node[0].e->nic->ops = &ops;
	read_at = l->now;
	lan_release(l, false);
	lan_round(l);
	lan_round(l);
	l->node[0].e->nic->ops = lan_ops;
	for (int i = 0; i < 2; i++)
		heard[i] = lan_conn(l, 0, i + 1)->peer.flow.rx.heard_ns;
	assert_int_not_equal(heard[0], heard[1]);
	assert_int_equal(uccl_max(heard[0], heard[1]), read_at);
	lan_run(l, SECOND);
}

/* Bytes from a generator, some of them made to look right. Nothing breaks, and the endpoint works. PROTOCOL R1 */
TEST(rx__garbage)
{
	for (int hints = 0; hints < 2; hints++) {
		struct lan *l = lan_new();
		struct uccl_rng r;
		uint8_t p[2048];

		l->hints = hints;
		lan_open(l, 0);
		lan_open(l, 1);
		lan_talk(l);
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
				uccl_put32(p + 16, (uint32_t)lan_conn(l, 0, 1)->peer.flow.rx.arrived.nxt + 2000 +
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
		assert_int_equal(l->node[0].e->conns.n, 1);
		assert_true(lan_conn(l, 0, 1)->peer.open);
		lan_talk(l);
		lan_free(l);
	}
}

/*
 * The first packet soon after a poll that found nothing is taken alone, where the NIC takes less for that. The next
 * poll takes the others.
 */
LAN_TEST(rx__one_after_an_empty_poll, lan_new_open(2))
{
	struct uccl_engine *e = l->node[1].e;
	const struct uccl_nic_ops *was = e->nic->ops;
	struct uccl_nic_ops ops = *was;
	int n;

	lan_talk(l);
	e->nic->ops = &ops;
	for (int i = 0; i < 4; i++) {
		bool cheap = i & 1, close = i & 2, one = cheap && close;

		for (int k = 0; k < 2; k++)
			lan_recv(l, 1, dst, 64, LAN_CTX(1));
		l->node[1].asleep = true;
		for (int k = 0; k < 2; k++)
			assert_int_equal(lan_send(l, 0, 1, src, 10, LAN_CTX(2)), 0);
		lan_pass(l, 50 * UCCL_NS_PER_US);
		ops.rx_one = cheap;
		e->rx.empty_ns = l->now - (close ? 9 : 10) * UCCL_NS_PER_US;
		n = uccl_engine_poll(e, l->now);
		assert_true(one ? n == 1 : n > 1);
		assert_int_equal(e->rx.more, one);
		n = uccl_engine_poll(e, l->now);
		assert_int_equal(n > 0, one);
		assert_false(e->rx.more);
		assert_int_equal(e->rx.empty_ns, one ? 0 : l->now);
		l->node[1].asleep = false;
		lan_run(l, SECOND);
	}
	e->nic->ops = was;
}

TESTS_MAIN
