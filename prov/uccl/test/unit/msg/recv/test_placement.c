/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "../duo.h"

#include "lanes/reassembly.h"
#include "../../tests.h"

static uint8_t src[1 << 18], dst[1 << 18];

#define PLACED 16384u

/* Predicted places follow the stream; place() agrees with them. PROTOCOL R44 */
DUO_TEST(placement__follow_the_stream, duo_open())
{
	struct uccl_rx_placement h[16];
	struct uccl_msg_rx *rx;
	uint8_t rec[UCCL_REC_LEN] = {0};
	struct uccl_hdr hdr = {.type = UCCL_PKT_CHUNK, .rtype = UCCL_REC_DATA, .rec = rec, .payload_len = PLACED};
	struct uccl_env env = {.len = 6 * PLACED + 10, .id = 9};

	d->filter = duo_hold_all;
	assert_int_equal(uccl_msg_predict(&d->side[1].m, h, 16), 0);
	d->side[1].peer.flow.cfg.packet.chunk_bytes = PLACED;
	duo_recv(d, 1, 0, dst, env.len, 0, 0, DUO_CTX(1));
	assert_int_equal(duo_envelope(d, 1, &env, src, PLACED), UCCL_DROP_COUNT);
	/* Granted: what its envelope did not carry comes next. */
	assert_int_equal(uccl_msg_predict(&d->side[1].m, h, 16), 6);
	assert_ptr_equal(h[0].dst, dst + PLACED);
	rx = TAILQ_FIRST(&d->side[1].peer.rx.all);
	uccl_rec_set_bulk(rec, rx->id, 0, PLACED);
	assert_int_equal(duo_deliver(d, 1, UCCL_REC_DATA, rec, src, PLACED), UCCL_DROP_COUNT);
	assert_int_equal(uccl_msg_predict(&d->side[1].m, h, 16), 5);
	for (int i = 0; i < 5; i++) {
		assert_ptr_equal(h[i].dst, dst + (2 + i) * PLACED);
		assert_int_equal(h[i].len, i == 4 ? 10 : PLACED);
		uccl_rec_set_bulk(rec, rx->id, 0, (uint64_t)(2 + i) * PLACED);
		hdr.payload_len = (uint16_t)h[i].len;
		assert_ptr_equal(uccl_msg_place(&d->side[1].peer, &hdr, hdr.payload_len), h[i].dst);
	}
	assert_int_equal(uccl_msg_predict(&d->side[1].m, h, 2), 2);
	/* Small chunks are not worth a guess. */
	d->side[1].peer.flow.cfg.packet.chunk_bytes = DUO_CHUNK;
	assert_int_equal(uccl_msg_predict(&d->side[1].m, h, 16), 0);
	d->side[1].peer.flow.cfg.packet.chunk_bytes = PLACED;
	/* A gap: what lies before the furthest byte is not hinted. */
	uccl_rec_set_bulk(rec, rx->id, 0, 3 * PLACED);
	assert_int_equal(duo_deliver(d, 1, UCCL_REC_DATA, rec, src, PLACED), UCCL_DROP_COUNT);
	assert_int_equal(uccl_msg_predict(&d->side[1].m, h, 16), 3);
	assert_ptr_equal(h[0].dst, dst + 4 * PLACED);
	/* Whatever is not the rest of this message has no place. */
	hdr.payload_len = PLACED;
	assert_ptr_equal(uccl_msg_place(&d->side[1].peer, &hdr, hdr.payload_len), dst + 3 * PLACED);
	assert_null(uccl_msg_place(&d->side[1].self, &hdr, hdr.payload_len));
	hdr.rtype = UCCL_REC_EAGER;
	assert_null(uccl_msg_place(&d->side[1].peer, &hdr, hdr.payload_len));
	hdr.rtype = UCCL_REC_DATA;
	hdr.type = UCCL_PKT_DESC;
	assert_null(uccl_msg_place(&d->side[1].peer, &hdr, hdr.payload_len));
	hdr.type = UCCL_PKT_CHUNK;
	uccl_rec_set_bulk(rec, rx->id, 0, env.len - PLACED + 1);
	assert_null(uccl_msg_place(&d->side[1].peer, &hdr, hdr.payload_len));
	uccl_rec_set_bulk(rec, rx->id, 0, env.len + 1);
	assert_null(uccl_msg_place(&d->side[1].peer, &hdr, hdr.payload_len));
	uccl_rec_set_bulk(rec, rx->id, 1, PLACED);
	assert_null(uccl_msg_place(&d->side[1].peer, &hdr, hdr.payload_len));
	/* Complete: nothing is predicted. */
	uccl_rec_set_bulk(rec, rx->id, 0, 2 * PLACED);
	assert_int_equal(duo_deliver(d, 1, UCCL_REC_DATA, rec, src, PLACED), UCCL_DROP_COUNT);
	uccl_rec_set_bulk(rec, rx->id, 0, 4 * PLACED);
	assert_int_equal(duo_deliver(d, 1, UCCL_REC_DATA, rec, src, 2 * PLACED + 10), UCCL_DROP_COUNT);
	duo_expect(d, 1, DUO_CTX(1), 0, env.len);
	assert_int_equal(uccl_msg_predict(&d->side[1].m, h, 16), 0);
}

/* An envelope is taken alone while unsolicited data follow, where places are predicted at all. PROTOCOL R263 */
DUO_TEST(placement__envelope_alone, duo_open_unsolicited())
{
	struct uccl_msg_ep *m = &d->side[1].m;
	int n = 0;

	for (uint32_t i = 0; i < 2; i++) {
		struct uccl_env env = duo_unsolicited_env(i, 1, 6 * PLACED, 4 * PLACED);

		assert_false(uccl_msg_alone(m));
		d->side[1].peer.flow.cfg.packet.chunk_bytes = i ? PLACED : PLACED - 8;
		assert_int_equal(duo_envelope(d, 1, &env, src, PLACED), UCCL_DROP_COUNT);
	}
	for (; uccl_msg_alone(m); n++) {
		struct uccl_env env = duo_eager_env(2 + (uint32_t)n, 1, 10);

		assert_int_equal(duo_envelope(d, 1, &env, src, 10), UCCL_DROP_COUNT);
	}
	assert_in_range(n, 2, 20);
	d->side[1].peer.flow.cfg.packet.chunk_bytes = DUO_CHUNK;
	uccl_peer_fail(&d->side[1].peer, FI_ECONNABORTED, d->now);
}

/* Of unsolicited data the place is known as soon as its receive is. PROTOCOL R44 R263 */
DUO_TEST(placement__of_unsolicited_data, duo_open_unsolicited())
{
	struct uccl_env env = duo_unsolicited_env(0, 1, 6 * PLACED, 4 * PLACED);
	uint8_t rec[UCCL_REC_LEN] = {0};
	struct uccl_hdr hdr = {.type = UCCL_PKT_CHUNK, .rtype = UCCL_REC_EAGER, .rec = rec, .payload_len = PLACED};
	struct uccl_rx_placement h[16];

	d->filter = duo_hold_all;
	d->side[1].peer.flow.cfg.packet.chunk_bytes = PLACED;
	assert_int_equal(duo_envelope(d, 1, &env, src, PLACED), UCCL_DROP_COUNT);
	uccl_rec_set_bulk(rec, 0, 0, PLACED);
	assert_null(uccl_msg_place(&d->side[1].peer, &hdr, hdr.payload_len));
	duo_recv(d, 1, UCCL_OPF_TAGGED, dst, env.len, 1, 0, DUO_CTX(1));
	for (uint64_t i = 1; i < 4; i++) {
		uccl_rec_set_bulk(rec, 0, 0, i * PLACED);
		assert_int_equal(uccl_msg_predict(&d->side[1].m, h, 16), 6 - i);
		assert_ptr_equal(h[0].dst, dst + i * PLACED);
		assert_ptr_equal(uccl_msg_place(&d->side[1].peer, &hdr, hdr.payload_len), dst + i * PLACED);
		uccl_rec_set_bulk(rec, 1, 0, i * PLACED);
		assert_null(uccl_msg_place(&d->side[1].peer, &hdr, hdr.payload_len));
		assert_int_equal(duo_eager(d, 1, 0, i * PLACED, 4 * PLACED, src, PLACED), UCCL_DROP_COUNT);
	}
	/* The rest is asked for. */
	uccl_rec_set_bulk(rec, TAILQ_FIRST(&d->side[1].peer.rx.all)->id, 0, 4 * PLACED);
	hdr.rtype = UCCL_REC_DATA;
	assert_ptr_equal(uccl_msg_place(&d->side[1].peer, &hdr, hdr.payload_len), dst + 4 * PLACED);
}

/* Where lanes put bytes, asked for or not, nothing may be that was only predicted. PROTOCOL R44 R266 */
DUO_TEST(placement__not_where_lanes_are, duo_open_unsolicited())
{
	struct uccl_env env = duo_unsolicited_env(0, 1, 6 * PLACED, 4 * PLACED);
	uint8_t rec[UCCL_REC_LEN] = {0};
	struct uccl_hdr hdr = {.type = UCCL_PKT_CHUNK, .rtype = UCCL_REC_DATA, .rec = rec, .payload_len = PLACED};
	struct uccl_reassembly *b = calloc(1, sizeof(*b));
	struct uccl_rx_placement h[16];
	struct uccl_msg_rx *rx;

	d->filter = duo_hold_all;
	d->side[1].peer.flow.cfg.packet.chunk_bytes = PLACED;
	duo_recv(d, 1, UCCL_OPF_TAGGED, dst, env.len, 1, 0, DUO_CTX(1));
	assert_int_equal(duo_envelope(d, 1, &env, src, PLACED), UCCL_DROP_COUNT);
	rx = TAILQ_FIRST(&d->side[1].peer.rx.all);
	uccl_rec_set_bulk(rec, rx->id, 0, 4 * PLACED);
	for (int i = 0; i < 4; i++) {
		rx->lanes.rest = i & 1 ? b : NULL;
		rx->lanes.unsolicited = i & 2 ? b : NULL;
		assert_int_equal(uccl_msg_predict(&d->side[1].m, h, 16), i ? 0 : 5);
		assert_true(uccl_msg_place(&d->side[1].peer, &hdr, hdr.payload_len) == (i ? NULL : dst + 4 * PLACED));
	}
	rx->lanes.rest = rx->lanes.unsolicited = NULL;
	free(b);
}

/*
 * What of unsolicited data overtook its envelope stays as it came: a place is predicted behind it, as a wrong guess
 * would write over it. PROTOCOL R276
 */
DUO_TEST(placement__behind_what_came_early, duo_open_unsolicited())
{
	struct uccl_env env = duo_unsolicited_env(0, 1, 6 * PLACED, 4 * PLACED);
	struct uccl_rx_placement h[16];

	d->filter = duo_hold_all;
	d->side[1].peer.flow.cfg.packet.chunk_bytes = PLACED;
	duo_recv(d, 1, UCCL_OPF_TAGGED, dst, env.len, 1, 0, DUO_CTX(1));
	assert_int_equal(duo_eager(d, 1, 0, 3 * PLACED, 4 * PLACED, src, PLACED), UCCL_DROP_COUNT);
	assert_int_equal(duo_envelope(d, 1, &env, src, PLACED), UCCL_DROP_COUNT);
	assert_int_equal(duo_eager(d, 1, 0, PLACED, 4 * PLACED, src, PLACED), UCCL_DROP_COUNT);
	assert_int_equal(uccl_msg_predict(&d->side[1].m, h, 16), 2);
	assert_ptr_equal(h[0].dst, dst + 4 * PLACED);
}

/* Messages that wait for a receive, and those that are there but for what was lost, take no time from the others. */
DUO_TEST(placement__steps_do_not_grow, duo_open())
{
	enum { WAIT = 1000, GAPS = 100 };
	struct uccl_env env = {.len = 6 * PLACED, .id = 9, .mseq = 2 * WAIT + GAPS};
	struct uccl_msg_ep *m = &d->side[1].m;
	struct uccl_peer *p = &d->side[1].peer;
	struct uccl_rx_placement h[16];
	struct uccl_env wait;
	uint64_t steps;

	d->filter = duo_hold_all;
	p->flow.cfg.packet.chunk_bytes = PLACED;
	for (uint32_t i = 0; i < GAPS; i++) {
		struct uccl_env gap = {.len = 3 * PLACED, .id = 10 + i, .mseq = i};

		duo_recv(d, 1, 0, dst, gap.len, 0, 0, DUO_CTX(1));
		assert_int_equal(duo_envelope(d, 1, &gap, src, PLACED), UCCL_DROP_COUNT);
		assert_int_equal(duo_bulk(d, 1, UCCL_REC_DATA, TAILQ_LAST(&p->rx.all, uccl_msg_rx_list)->id, i,
						  2 * PLACED, src, PLACED), UCCL_DROP_COUNT);
	}
	for (uint32_t i = 0; i < WAIT; i++) {
		wait = duo_eager_env(GAPS + i, 7, 1);
		assert_int_equal(duo_envelope(d, 1, &wait, src, 1), UCCL_DROP_COUNT);
	}
	env.mseq = GAPS + WAIT;
	duo_recv(d, 1, 0, dst, env.len, 0, 0, DUO_CTX(1));
	assert_int_equal(duo_envelope(d, 1, &env, src, PLACED), UCCL_DROP_COUNT);
	for (uint32_t i = 1; i <= WAIT; i++) {
		wait = duo_eager_env(GAPS + WAIT + i, 7, 1);
		assert_int_equal(duo_envelope(d, 1, &wait, src, 1), UCCL_DROP_COUNT);
	}
	steps = m->match.steps;
	assert_int_equal(uccl_msg_predict(m, h, 16), 5);
	assert_ptr_equal(h[0].dst, dst + PLACED);
	assert_in_range(m->match.steps - steps, 1, 2);
	/* When it is through nothing is predicted, and the others are not looked at. */
	assert_int_equal(duo_bulk(d, 1, UCCL_REC_DATA, TAILQ_FIRST(&p->rx.streams)->id, env.mseq, PLACED, src,
				  5 * PLACED), UCCL_DROP_COUNT);
	steps = m->match.steps;
	assert_int_equal(uccl_msg_predict(m, h, 16), 0);
	assert_in_range(m->match.steps - steps, 0, 1);
}

/* Two reads into one place: what is predicted ends before the second. PROTOCOL R276 */
DUO_TEST(placement__one_place_twice, duo_open())
{
	struct uccl_env env = {.len = 3 * PLACED, .id = 9};
	struct uccl_rx_placement h[16];

	d->filter = duo_hold_all;
	d->side[1].peer.flow.cfg.packet.chunk_bytes = PLACED;
	for (uint32_t i = 0; i < 3; i++) {
		env.mseq = i;
		duo_recv(d, 1, 0, i == 1 ? dst : dst + i * (4 * PLACED), env.len, 0, 0, DUO_CTX(1));
		assert_int_equal(duo_envelope(d, 1, &env, src, PLACED), UCCL_DROP_COUNT);
	}
	assert_int_equal(uccl_msg_predict(&d->side[1].m, h, 16), 2);
	assert_ptr_equal(h[1].dst, dst + 2 * PLACED);
}

/* Looks at what is predicted, until something is; how many. */
static int looks(struct duo *d)
{
	struct uccl_rx_placement h[16];
	int n = 0;

	while (!uccl_msg_predict(&d->side[1].m, h, 16))
		assert_true(++n < 1000);
	return n;
}

/* Nothing is predicted of a peer of whom most of it was wrong; it is tried again after a while. */
DUO_TEST(placement__wrong, duo_open())
{
	struct uccl_env env = {.len = 6 * PLACED, .id = 9};
	struct uccl_msg_ep *m = &d->side[1].m;
	int bad = 0;

	d->filter = duo_hold_all;
	uccl_msg_predicted(m, 0, 1);
	d->side[1].peer.flow.cfg.packet.chunk_bytes = PLACED;
	duo_recv(d, 1, 0, dst, env.len, 0, 0, DUO_CTX(1));
	assert_int_equal(duo_envelope(d, 1, &env, src, PLACED), UCCL_DROP_COUNT);
	/* One of eight receptions, whatever its number of packets. */
	for (int i = 0; i < 1000; i++) {
		uccl_msg_predicted(m, i % 8 ? 1 : 0, i % 8 ? 0 : 16);
		assert_int_equal(looks(d), 0);
	}
	/* More of them right than wrong; and none came. */
	for (int i = 0; i < 1000; i++) {
		uccl_msg_predicted(m, i % 2 ? 8 : 0, i % 2 ? 7 : 0);
		assert_int_equal(looks(d), 0);
	}
	while (!looks(d)) {
		uccl_msg_predicted(m, 1, 2);
		assert_true(++bad < 10);
	}
	assert_true(bad > 4);
	/* Still so: sooner. */
	for (bad = 0; !looks(d); bad++)
		uccl_msg_predicted(m, 0, 1);
	assert_in_range(bad, 1, 3);
	/* It is as it was. */
	for (int i = 0; i < 100; i++)
		uccl_msg_predicted(m, 16, 0);
	for (bad = 0; !looks(d); bad++)
		uccl_msg_predicted(m, 0, 1);
	assert_true(bad > 4);
}

static enum duo_verdict lose_data(struct duo *d, const struct duo_pkt *p)
{
	return p->type == UCCL_PKT_CHUNK && p->rtype == UCCL_REC_DATA && ++d->n == 5 ? DUO_DROP : DUO_PASS;
}

/* No single place: nothing is predicted. */
DUO_TEST(placement__split_receive, duo_open())
{
	struct uccl_op *op = duo_op(d, 1, UCCL_OP_RECV, 0);
	struct uccl_rx_placement h[4];

	op->iov[0] = (struct iovec){.iov_base = dst, .iov_len = 10000};
	op->iov[1] = (struct iovec){.iov_base = dst + 20000, .iov_len = 20000};
	op->iov_count = 2;
	op->len = 30000;
	assert_int_equal(uccl_msg_recv(&d->side[1].m, op, d->now), 0);
	duo_send(d, 0, 0, src, 30000, 0, NULL);
	d->filter = lose_data;
	for (int i = 0; i < 3; i++)
		duo_round(d);
	assert_non_null(d->side[1].m.predict.stream);
	d->side[1].peer.flow.cfg.packet.chunk_bytes = PLACED;
	assert_int_equal(uccl_msg_predict(&d->side[1].m, h, 4), 0);
	d->side[1].peer.flow.cfg.packet.chunk_bytes = DUO_CHUNK;
	duo_run(d, SECOND);
	assert_int_equal(duo_next(d, 1)->len, 30000);
}

#define EACH 1408u

/* A row of segments from byte `off` of the message on. */
static enum uccl_drop row_came(struct duo *d, const struct uccl_msg_rx *rx, uint64_t off, uint32_t parts)
{
	uint8_t rec[UCCL_REC_LEN] = {0};
	static uint8_t row[64 * (UCCL_HDR_LEN + EACH)];
	struct uccl_chunk_in in = {
		.rtype = UCCL_REC_DATA, .rec = rec, .data = row, .len = parts * EACH, .segments = parts, .each = EACH};

	uccl_rec_set_bulk(rec, rx->id, (uint32_t)rx->mseq, off);
	return uccl_msg_flow_ops.deliver(&d->side[1].peer.flow, &in, d->now);
}

/* Behind a row the next one is predicted, as much of it as has room with its headers; not for ever. PROTOCOL R282 */
DUO_TEST(placement__of_a_row, duo_open())
{
	struct uccl_env env = {.len = 100 + 60 * EACH, .id = 9};
	struct uccl_msg_ep *m = &d->side[1].m;
	struct uccl_rx_placement h[16];
	struct uccl_msg_rx *rx;
	uint64_t at = 100;

	d->filter = duo_hold_all;
	duo_recv(d, 1, 0, dst, env.len, 0, 0, DUO_CTX(1));
	assert_int_equal(duo_envelope(d, 1, &env, src, 100), UCCL_DROP_COUNT);
	rx = TAILQ_FIRST(&d->side[1].peer.rx.all);
	/* How long its packets are nobody knows yet. */
	assert_int_equal(uccl_msg_predict(m, h, 16), 0);
	assert_false(uccl_msg_runs(m));
	for (uint32_t left = 60; left > 5; left -= 5, at += 5 * EACH) {
		assert_int_equal(row_came(d, rx, at, 5), UCCL_DROP_COUNT);
		assert_true(uccl_msg_runs(m));
		if ((left - 5) * EACH < 4 * (EACH + UCCL_HDR_LEN))
			break;
		assert_int_equal(uccl_msg_predict(m, h, 16), 1);
		assert_ptr_equal(h[0].dst, dst + at + 5 * EACH);
		assert_int_equal(h[0].each, EACH + UCCL_HDR_LEN);
		assert_int_equal(h[0].len % h[0].each, 0);
		assert_in_range(h[0].len, 4 * h[0].each, (left - 5) * EACH);
		assert_in_range(h[0].len, 0, UCCL_GRO_BYTES_MAX);
	}
	/* Something else comes, and comes again. */
	for (int i = 0; uccl_msg_runs(m); i++) {
		assert_in_range(i, 0, UCCL_RUNS_SOON);
		assert_int_equal(uccl_msg_predict(m, h, 16), 1);
		uccl_msg_no_run(m);
	}
	assert_int_equal(uccl_msg_predict(m, h, 16), 0);
	/* With the next row it begins again, unless what was predicted is wrong too often. */
	at += 5 * EACH;
	uccl_msg_run(&d->side[1].peer, EACH);
	assert_int_equal(uccl_msg_predict(m, h, 16), 1);
	for (int i = 0; i < 20; i++)
		uccl_msg_predicted(m, 0, 1);
	assert_int_equal(uccl_msg_predict(m, h, 16), 0);
}

/* Where a row of segments belongs: by the chunk's place and the first one's number; all of it must. PROTOCOL R282 */
DUO_TEST(place__of_a_row, duo_open())
{
	struct uccl_env env = {.len = 100 + 20 * EACH, .id = 9};
	uint8_t rec[UCCL_REC_LEN], whole[UCCL_REC_LEN] = {0};
	struct uccl_hdr hdr = {.type = UCCL_PKT_SEGMENT, .rtype = UCCL_REC_DATA, .rec = rec, .payload_len = EACH};
	struct uccl_peer *p = &d->side[1].peer;
	struct uccl_msg_rx *rx;

	d->filter = duo_hold_all;
	duo_recv(d, 1, 0, dst, env.len, 0, 0, DUO_CTX(1));
	assert_int_equal(duo_envelope(d, 1, &env, src, 100), UCCL_DROP_COUNT);
	rx = TAILQ_FIRST(&p->rx.all);
	for (uint8_t i = 0; i < 10; i++) {
		struct uccl_segment s = {.index = i, .count = 10, .total = 10 * EACH};
		uint64_t at = 100 + 10 * EACH;

		uccl_rec_set_bulk(whole, rx->id, (uint32_t)rx->mseq, at);
		uccl_segment_encode(rec, whole, &s);
		assert_ptr_equal(uccl_msg_place(p, &hdr, (10u - i) * EACH), dst + at + i * EACH);
		assert_null(uccl_msg_place(p, &hdr, (10u - i) * EACH + 1));
	}
	/* Sub-segments are put together elsewhere. */
	rec[27] = 2;
	assert_null(uccl_msg_place(p, &hdr, EACH));
	rec[27] = 0;
	/* No segment of such a chunk. */
	rec[25] = 0;
	assert_null(uccl_msg_place(p, &hdr, EACH));
	rec[25] = 9;
	assert_null(uccl_msg_place(p, &hdr, EACH));
}

TESTS_MAIN
