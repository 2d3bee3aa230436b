/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "../duo.h"
#include "../../tests.h"

static uint8_t src[1 << 18], dst[1 << 18];

/* PROTOCOL R29 */
DUO_TEST(eager__malformed, duo_open())
{
	struct uccl_env env = duo_eager_env(0, 1, 100);

	d->side[1].peer.rx.mseq = 3;
	assert_int_equal(duo_eager(d, 1, 2, 0, 100, src, 10), UCCL_DROP_HANDLE);
	assert_int_equal(duo_eager(d, 1, 3 + UCCL_MSG_LIMIT, 0, 100, src, 10), UCCL_DROP_RECORD);
	d->side[1].peer.rx.mseq = 0;
	/* It may begin a longer one. */
	assert_int_equal(duo_eager(d, 1, 0, 0, UCCL_UNSOLICITED_MAX + 1, src, 10), UCCL_DROP_RECORD);
	assert_int_equal(duo_eager(d, 1, 0, 0, 0, src, 0), UCCL_DROP_RECORD);
	assert_int_equal(d->side[1].m.rx_pool.used, 0);
	assert_int_equal(duo_envelope(d, 1, &env, src, 40), UCCL_DROP_COUNT);
	/* Another length, outside of it, or more than is missing. */
	assert_int_equal(duo_eager(d, 1, 0, 40, 101, src, 10), UCCL_DROP_RANGE);
	assert_int_equal(duo_eager(d, 1, 0, 101, 100, src, 0), UCCL_DROP_RANGE);
	assert_int_equal(duo_eager(d, 1, 0, UINT64_MAX, 100, src, 2), UCCL_DROP_RANGE);
	assert_int_equal(duo_eager(d, 1, 0, 95, 100, src, 6), UCCL_DROP_RANGE);
	assert_int_equal(duo_eager(d, 1, 0, 0, 100, src, 61), UCCL_DROP_RANGE);
	assert_int_equal(d->side[1].peer.rx.all.tqh_first->arrived.got, 40);
	assert_int_equal(duo_eager(d, 1, 0, 40, 100, src + 40, 60), UCCL_DROP_COUNT);
	/* Complete: nothing of it is expected any more. */
	assert_int_equal(duo_eager(d, 1, 0, 40, 100, src, 1), UCCL_DROP_HANDLE);
	duo_recv(d, 1, UCCL_OPF_TAGGED, dst, 100, 1, 0, DUO_CTX(1));
	duo_expect(d, 1, DUO_CTX(1), 0, 100);
}

/* Of messages that are not whole one is found without a table; whichever that is, each gets what is its own. */
TEST(find__lone_and_others)
{
	for (int order = 0; order < 6; order++) {
		static const int turns[6][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
		struct duo *d = duo_open();
		struct uccl_peer *p = &d->side[1].peer;

		duo_fill(src, 300, 4);
		for (int i = 0; i < 3; i++)
			duo_recv(d, 1, UCCL_OPF_TAGGED, dst + 100 * i, 100, 1, 0, DUO_CTX(i));
		for (int i = 0; i < 3; i++) {
			int k = turns[order][i];
			struct uccl_env env = duo_eager_env((uint32_t)k, 1, 100);

			assert_null(msg_rx_find(p, (uint64_t)k));
			assert_int_equal(duo_envelope(d, 1, &env, src + 100 * k, 40), UCCL_DROP_COUNT);
			assert_int_equal(msg_rx_find(p, (uint64_t)k)->mseq, k);
			assert_true(p->rx.lone && (i > 0) == (p->rx.by_mseq != NULL));
		}
		for (int i = 0; i < 3; i++) {
			int k = turns[5 - order][i];
			const uint8_t *rest = src + 100 * k + 40;

			assert_int_equal(duo_eager(d, 1, (uint32_t)k, 40, 100, rest, 60), UCCL_DROP_COUNT);
		}
		assert_null(p->rx.lone);
		assert_null(p->rx.by_mseq);
		assert_int_equal(duo_waiting(d, 1), 3);
		for (int i = 0; i < 3; i++)
			assert_int_equal(duo_next(d, 1)->err, 0);
		duo_check(dst, 300, 4);
		duo_free(d);
	}
}

/* A receive posted between the chunks gets what came and what comes. PROTOCOL R29 */
TEST(eager__matched_half_way)
{
	for (int gap = 0; gap < 2; gap++)
		for (uint64_t room = 0; room <= 120; room += 30) {
			struct duo *d = duo_open();
			struct uccl_env env = duo_eager_env(0, 1, 100);
			const struct duo_comp *c;

			duo_fill(src, 100, 4);
			memset(dst, 0xee, 200);
			assert_int_equal(duo_envelope(d, 1, &env, src, 40), UCCL_DROP_COUNT);
			if (gap)
				assert_int_equal(duo_eager(d, 1, 0, 70, 100, src + 70, 30), UCCL_DROP_COUNT);
			duo_recv(d, 1, UCCL_OPF_TAGGED, dst, room, 1, 0, DUO_CTX(1));
			duo_quiet(d);
			assert_int_equal(d->side[1].m.unexpected.bytes, 0);
			if (!gap)
				assert_int_equal(duo_eager(d, 1, 0, 70, 100, src + 70, 30), UCCL_DROP_COUNT);
			assert_int_equal(duo_eager(d, 1, 0, 40, 100, src + 40, 30), UCCL_DROP_COUNT);
			room = uccl_min(room, 100);
			c = duo_expect(d, 1, DUO_CTX(1), room < 100 ? FI_ETRUNC : 0, room);
			assert_int_equal(c->olen, 100 - room);
			duo_check(dst, room, 4);
			assert_int_equal(dst[room], 0xee);
			assert_int_equal(d->side[1].m.rx_pool.used, 0);
			duo_free(d);
			if (room == 100)
				break;
		}
}

/* A GRO batch, into one buffer or several, of a receive with room for all of it or for less. */
TEST(eager__parts_in_a_row)
{
	static uint8_t row[3 * (1000 + UCCL_HDR_LEN)];

	for (uint32_t last = 1; last <= 1000; last += 333)
		for (uint64_t room = 0; room <= 3040; room += 160)
			for (uint64_t cut = 0; cut <= room; cut += 240) {
				uint32_t total = 40 + 2000 + last;
				struct duo *d = duo_open();
				struct uccl_env env = duo_eager_env(0, 1, total);
				uint8_t rec[UCCL_REC_LEN] = {0};
				struct uccl_chunk_in in = {.rtype = UCCL_REC_EAGER,
							   .rec = rec,
							   .data = row,
							   .len = 2000 + last,
							   .segments = 3,
							   .each = 1000};
				struct uccl_op *op = duo_op(d, 1, UCCL_OP_RECV, UCCL_OPF_TAGGED);
				uint64_t got = uccl_min(room, total), first = cut ? cut : room;

				duo_fill(src, total, 6);
				memset(dst, 0xee, 8000);
				memset(row, 0xaa, sizeof(row));
				for (uint32_t i = 0; i < 3; i++)
					memcpy(row + i * (1000 + UCCL_HDR_LEN), src + 40 + i * 1000,
					       i < 2 ? 1000 : last);
				op->iov[0] = (struct iovec){dst, first};
				op->iov[1] = (struct iovec){dst + 4000, room - first};
				op->iov_count = cut ? 2 : 1;
				op->len = room;
				op->tag = 1;
				op->context = DUO_CTX(1);
				assert_int_equal(uccl_msg_recv(&d->side[1].m, op, d->now), 0);
				assert_int_equal(duo_envelope(d, 1, &env, src, 40), UCCL_DROP_COUNT);
				uccl_rec_set_bulk(rec, 0, 0, 40);
				uccl_put64(rec + 16, total);
				assert_int_equal(uccl_msg_flow_ops.deliver(&d->side[1].peer.flow, &in, d->now),
						 UCCL_DROP_COUNT);
				duo_expect(d, 1, DUO_CTX(1), room < total ? FI_ETRUNC : 0, got);
				first = uccl_min(first, got);
				assert_memory_equal(dst, src, first);
				assert_int_equal(dst[first], 0xee);
				assert_memory_equal(dst + 4000, src + first, got - first);
				assert_int_equal(dst[4000 + got - first], 0xee);
				assert_int_equal(d->side[1].m.rx_pool.used, 0);
				duo_free(d);
			}
}

/* How far it came is known, for the places of what comes next. */
DUO_TEST(eager__row_and_more_to_come, duo_open())
{
	static uint8_t row[2 * (1000 + UCCL_HDR_LEN)];
	struct uccl_env env = duo_eager_env(0, 1, 5000);
	uint8_t rec[UCCL_REC_LEN] = {0};
	struct uccl_chunk_in in = {
		.rtype = UCCL_REC_EAGER, .rec = rec, .data = row, .len = 2000, .segments = 2, .each = 1000};

	duo_recv(d, 1, UCCL_OPF_TAGGED, dst, 5000, 1, 0, DUO_CTX(1));
	assert_int_equal(duo_envelope(d, 1, &env, src, 40), UCCL_DROP_COUNT);
	uccl_rec_set_bulk(rec, 0, 0, 40);
	uccl_put64(rec + 16, 5000);
	assert_int_equal(uccl_msg_flow_ops.deliver(&d->side[1].peer.flow, &in, d->now), UCCL_DROP_COUNT);
	assert_int_equal(TAILQ_FIRST(&d->side[1].peer.rx.all)->arrived.hi, 2040);
	assert_int_equal(TAILQ_FIRST(&d->side[1].peer.rx.all)->arrived.got, 2040);
}

/* It lies at its place, with the headers between: nothing before, behind or of it is lost. PROTOCOL R282 */
TEST(eager__row_at_its_place)
{
	for (uint32_t last = 1; last <= 1000; last += 333) {
		struct duo *d = duo_open();
		uint32_t each = 1000 + UCCL_HDR_LEN, len = 4000 + last, total = 40 + len + 500;
		struct uccl_env env = duo_eager_env(0, 1, total);
		uint8_t rec[UCCL_REC_LEN] = {0};
		struct uccl_chunk_in in = {.rtype = UCCL_REC_EAGER,
					   .rec = rec,
					   .data = dst + 40 + UCCL_HDR_LEN,
					   .len = len,
					   .segments = 5,
					   .each = 1000};

		duo_fill(src, total, 6);
		memset(dst, 0xee, 8000);
		duo_recv(d, 1, UCCL_OPF_TAGGED, dst, total, 1, 0, DUO_CTX(1));
		assert_int_equal(duo_envelope(d, 1, &env, src, 40), UCCL_DROP_COUNT);
		for (uint32_t i = 0; i < 5; i++)
			memcpy(dst + 40 + i * each + UCCL_HDR_LEN, src + 40 + i * 1000, i < 4 ? 1000 : last);
		uccl_rec_set_bulk(rec, 0, 0, 40);
		uccl_put64(rec + 16, total);
		assert_int_equal(uccl_msg_flow_ops.deliver(&d->side[1].peer.flow, &in, d->now), UCCL_DROP_COUNT);
		uccl_rec_set_bulk(rec, 0, 0, 40 + len);
		assert_int_equal(duo_deliver(d, 1, UCCL_REC_EAGER, rec, src + 40 + len, 500), UCCL_DROP_COUNT);
		duo_expect(d, 1, DUO_CTX(1), 0, total);
		assert_memory_equal(dst, src, total);
		for (uint32_t i = total; i < 8000; i++)
			assert_int_equal(dst[i], 0xee);
		duo_free(d);
	}
}

/* What was asked for may come before the last unsolicited data. PROTOCOL R119 R263 */
TEST(unsolicited__behind_the_rest)
{
	static const int turns[6][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};

	for (int order = 0; order < 6; order++) {
		struct duo *d = duo_open_unsolicited();
		struct uccl_env env = duo_unsolicited_env(0, 1, 1000, 400);
		struct uccl_peer *p = &d->side[1].peer;
		uint8_t rec[UCCL_REC_LEN] = {0};
		int missing = 2;

		duo_fill(src, 1000, 4);
		memset(dst, 0xee, 1001);
		d->filter = duo_hold_all;
		duo_recv(d, 1, UCCL_OPF_TAGGED, dst, 1000, 1, 0, DUO_CTX(1));
		assert_int_equal(duo_envelope(d, 1, &env, src, 100), UCCL_DROP_COUNT);
		for (int i = 0; i < 3; i++) {
			int k = turns[order][i];
			uint64_t off = 100 + 150 * (uint64_t)k;

			duo_quiet(d);
			/* Unsolicited data again, more than there is, another length; what is whole is not found. */
			assert_int_equal(duo_eager(d, 1, 0, 0, 400, src, 100),
					 missing ? UCCL_DROP_OVERLAP : UCCL_DROP_HANDLE);
			assert_int_equal(duo_eager(d, 1, 0, 390, 400, src, 11),
					 missing ? UCCL_DROP_RANGE : UCCL_DROP_HANDLE);
			assert_int_equal(duo_eager(d, 1, 0, 100, 408, src, 10),
					 missing ? UCCL_DROP_RANGE : UCCL_DROP_HANDLE);
			/* A part of it as if it had been asked for. */
			assert_int_equal(duo_bulk(d, 1, UCCL_REC_DATA, TAILQ_FIRST(&p->rx.all)->id, 0,
							  k < 2 ? off : 399, src, 1), UCCL_DROP_RANGE);
			uccl_rec_set_bulk(rec, TAILQ_FIRST(&p->rx.all)->id, 0, 400);
			if (k < 2)
				assert_int_equal(duo_eager(d, 1, 0, off, 400, src + off, 150), UCCL_DROP_COUNT);
			else
				assert_int_equal(duo_deliver(d, 1, UCCL_REC_DATA, rec, src + 400, 600),
						 UCCL_DROP_COUNT);
			missing -= k < 2;
		}
		duo_expect(d, 1, DUO_CTX(1), 0, 1000);
		duo_check(dst, 1000, 4);
		assert_int_equal(dst[1000], 0xee);
		assert_null(p->rx.lone);
		duo_free(d);
	}
}

/* The last unsolicited data look at all of the message, if the rest came before it. PROTOCOL R119 R263 */
TEST(unsolicited__seen_at_the_end)
{
	for (int lie = 0; lie < 2; lie++) {
		struct uccl_env env = duo_unsolicited_env(0, 1, 1400, 1000);
		struct duo *d = duo_open_unsolicited();

		d->filter = duo_hold_all;
		duo_recv(d, 1, UCCL_OPF_TAGGED, dst, 1400, 1, 0, DUO_CTX(1));
		assert_int_equal(duo_envelope(d, 1, &env, src, 10), UCCL_DROP_COUNT);
		assert_int_equal(duo_bulk(d, 1, UCCL_REC_DATA, TAILQ_FIRST(&d->side[1].peer.rx.all)->id, 0, 1000, src,
						  400), UCCL_DROP_COUNT);
		/* So many ranges that they are not kept one by one; one of them again that is long forgotten. */
		for (uint64_t off = 20; off < 1000; off += 20)
			assert_int_equal(duo_eager(d, 1, 0, off, 1000, src, 10), UCCL_DROP_COUNT);
		for (uint64_t off = 10; off < 990; off += 20)
			assert_int_equal(duo_eager(d, 1, 0, lie && off == 510 ? 100 : off, 1000, src, 10),
					 UCCL_DROP_COUNT);
		assert_int_equal(duo_eager(d, 1, 0, 990, 1000, src, 10), lie ? UCCL_DROP_OVERLAP : UCCL_DROP_COUNT);
		if (!lie)
			duo_expect(d, 1, DUO_CTX(1), 0, 1400);
		duo_quiet(d);
		uccl_peer_fail(&d->side[1].peer, FI_ECONNABORTED, d->now);
		if (lie)
			duo_expect(d, 1, DUO_CTX(1), FI_ECONNABORTED, 0);
		duo_free(d);
	}
}

/* CTS says whether a receive waited, to who knows of it. PROTOCOL R264 */
TEST(cts__says_met)
{
	for (int unexpected = 0; unexpected < 2; unexpected++)
		for (int knows = 0; knows < 2; knows++) {
			struct duo *d = duo_open_unsolicited();
			struct uccl_env env = duo_unsolicited_env(0, 1, 1000, 400);
			struct uccl_cts cts;

			d->side[1].peer.takes_unsolicited = knows;
			d->filter = duo_hold_all;
			if (!unexpected)
				duo_recv(d, 1, UCCL_OPF_TAGGED, dst, 1000, 1, 0, DUO_CTX(1));
			assert_int_equal(duo_envelope(d, 1, &env, src, 100), UCCL_DROP_COUNT);
			if (unexpected)
				duo_recv(d, 1, UCCL_OPF_TAGGED, dst, 1000, 1, 0, DUO_CTX(1));
			uccl_cts_decode(&cts, TAILQ_FIRST(&d->side[1].peer.rx.all)->cts.rec);
			assert_int_equal(cts.limit, 1000);
			assert_int_equal(cts.flags, knows && !unexpected ? UCCL_CTS_MET : 0);
			duo_free(d);
		}
}

/* PROTOCOL R31 */
DUO_TEST(data__malformed, duo_open())
{
	struct uccl_env env = {.flags = UCCL_ENV_TAGGED, .len = 10000, .id = 77, .tag = 1};
	struct uccl_msg_rx *rx;
	uint8_t rec[UCCL_REC_LEN] = {0};

	d->filter = duo_hold_all;
	assert_int_equal(duo_deliver(d, 1, UCCL_REC_DATA, rec, src, 10), UCCL_DROP_HANDLE);
	assert_int_equal(duo_envelope(d, 1, &env, src, 1000), UCCL_DROP_COUNT);
	rx = TAILQ_FIRST(&d->side[1].peer.rx.all);
	/* Not matched, so nothing of it was asked for. */
	assert_int_equal(duo_bulk(d, 1, UCCL_REC_DATA, rx->id, 0, 1000, src, 10), UCCL_DROP_HANDLE);
	duo_recv(d, 1, UCCL_OPF_TAGGED, dst, 9000, 1, 0, DUO_CTX(1));
	assert_int_equal(rx->place.limit, 9000);
	/* Another generation, another message, another peer. */
	assert_int_equal(duo_bulk(d, 1, UCCL_REC_DATA, rx->id + (1u << 20), 0, 1000, src, 10), UCCL_DROP_HANDLE);
	assert_int_equal(duo_bulk(d, 1, UCCL_REC_DATA, rx->id, 1, 1000, src, 10), UCCL_DROP_HANDLE);
	uccl_rec_set_bulk(rec, rx->id, 0, 1000);
	rx->peer = &d->side[1].self;
	assert_int_equal(duo_deliver(d, 1, UCCL_REC_DATA, rec, src, 10), UCCL_DROP_HANDLE);
	rx->peer = &d->side[1].peer;
	/* What the envelope brought, beyond the grant, around the end of all numbers. */
	memset(dst, 0xee, 10000);
	assert_int_equal(duo_bulk(d, 1, UCCL_REC_DATA, rx->id, 0, 999, src, 10), UCCL_DROP_RANGE);
	assert_int_equal(duo_bulk(d, 1, UCCL_REC_DATA, rx->id, 0, 9001, src, 0), UCCL_DROP_RANGE);
	assert_int_equal(duo_bulk(d, 1, UCCL_REC_DATA, rx->id, 0, 8999, src, 2), UCCL_DROP_RANGE);
	assert_int_equal(duo_bulk(d, 1, UCCL_REC_DATA, rx->id, 0, UINT64_MAX - 1, src, 10), UCCL_DROP_RANGE);
	for (int i = 0; i < 10000; i++)
		assert_int_equal(dst[i], 0xee);
	assert_int_equal(rx->arrived.got, 1000);
	/* More than is missing. */
	uccl_rec_set_bulk(rec, rx->id, 0, 1000);
	assert_int_equal(duo_deliver(d, 1, UCCL_REC_DATA, rec, src, 7999), UCCL_DROP_COUNT);
	assert_int_equal(duo_deliver(d, 1, UCCL_REC_DATA, rec, src, 2), UCCL_DROP_RANGE);
	uccl_rec_set_bulk(rec, rx->id, 0, 8999);
	assert_int_equal(duo_deliver(d, 1, UCCL_REC_DATA, rec, src, 1), UCCL_DROP_COUNT);
	duo_expect(d, 1, DUO_CTX(1), FI_ETRUNC, 9000);
	/* Finished, its CTS still under way: its buffer is the application's. */
	assert_int_equal(duo_deliver(d, 1, UCCL_REC_DATA, rec, src, 1), UCCL_DROP_UNWANTED);
	/* Its handle is given back: still late, unless that message never had its turn. PROTOCOL R315 */
	duo_run(d, SECOND);
	assert_int_equal(duo_deliver(d, 1, UCCL_REC_DATA, rec, src, 1), UCCL_DROP_UNWANTED);
	assert_int_equal(duo_bulk(d, 1, UCCL_REC_DATA, uccl_get32(rec), 1, 8999, src, 1), UCCL_DROP_HANDLE);
}

/* Each byte once: as many bytes as a message has are not the message. PROTOCOL R119 */
TEST(overlap__eager)
{
	static const uint64_t again[] = {40, 41, 35, 11};

	for (int early = 0; early < 2; early++)
		for (unsigned int i = 0; i < uccl_array_len(again); i++) {
			struct uccl_env env = duo_eager_env(0, 1, 100);
			struct duo *d = duo_open();

			duo_recv(d, 1, UCCL_OPF_TAGGED, dst, 100, 1, 0, DUO_CTX(1));
			if (!early)
				assert_int_equal(duo_envelope(d, 1, &env, src, 40), UCCL_DROP_COUNT);
			assert_int_equal(duo_eager(d, 1, 0, 40, 100, src, 30), UCCL_DROP_COUNT);
			assert_int_equal(duo_eager(d, 1, 0, again[i], 100, src, 30), UCCL_DROP_OVERLAP);
			if (early && again[i] < 40)
				assert_int_equal(duo_envelope(d, 1, &env, src, 41), UCCL_DROP_OVERLAP);
			duo_quiet(d);
			/* What was refused left nothing. */
			if (early)
				assert_int_equal(duo_envelope(d, 1, &env, src, 40), UCCL_DROP_COUNT);
			assert_int_equal(duo_eager(d, 1, 0, 70, 100, src, 30), UCCL_DROP_COUNT);
			duo_expect(d, 1, DUO_CTX(1), 0, 100);
			duo_free(d);
		}
}

/* So many ranges that they are not kept one by one; the last of them tells. PROTOCOL R119 */
TEST(overlap__seen_at_the_end)
{
	for (int lie = 0; lie < 2; lie++) {
		struct uccl_env env = duo_eager_env(0, 1, 1000);
		struct duo *d = duo_open();
		enum uccl_drop last;

		duo_recv(d, 1, UCCL_OPF_TAGGED, dst, 1000, 1, 0, DUO_CTX(1));
		assert_int_equal(duo_envelope(d, 1, &env, src, 10), UCCL_DROP_COUNT);
		/* Every second range, and then those between them, but one again that is long forgotten. */
		for (uint64_t off = 20; off < 1000; off += 20)
			assert_int_equal(duo_eager(d, 1, 0, off, 1000, src, 10), UCCL_DROP_COUNT);
		for (uint64_t off = 10; off < 990; off += 20)
			assert_int_equal(duo_eager(d, 1, 0, lie && off == 510 ? 100 : off, 1000, src, 10),
					 UCCL_DROP_COUNT);
		last = duo_eager(d, 1, 0, 990, 1000, src, 10);
		if (lie) {
			assert_int_equal(last, UCCL_DROP_OVERLAP);
			assert_int_equal(duo_eager(d, 1, 0, 510, 1000, src, 10), UCCL_DROP_OVERLAP);
			duo_quiet(d);
			uccl_peer_fail(&d->side[1].peer, FI_ECONNABORTED, d->now);
			duo_expect(d, 1, DUO_CTX(1), FI_ECONNABORTED, 0);
		} else {
			assert_int_equal(last, UCCL_DROP_COUNT);
			duo_expect(d, 1, DUO_CTX(1), 0, 1000);
		}
		duo_free(d);
	}
}

/* A receive that met a message of which ranges are missing shows nothing of our memory. PROTOCOL R119 */
DUO_TEST(overlap__gaps_are_empty, duo_open())
{
	struct uccl_env env = duo_eager_env(0, 1, 4000);
	uint8_t *old[20];

	/* What the heap gives out again held something. */
	for (int i = 0; i < 20; i++) {
		old[i] = malloc(4000);
		assert_non_null(old[i]);
		memset(old[i], 0x5a, 4000);
	}
	for (int i = 0; i < 20; i++)
		free(old[i]);
	assert_int_equal(duo_envelope(d, 1, &env, src, 10), UCCL_DROP_COUNT);
	memset(dst, 0x5a, 4000);
	duo_recv(d, 1, UCCL_OPF_TAGGED, dst, 4000, 1, 0, DUO_CTX(1));
	for (int i = 10; i < 4000; i++)
		assert_int_equal(dst[i], 0);
	uccl_peer_fail(&d->side[1].peer, FI_ECONNABORTED, d->now);
	duo_expect(d, 1, DUO_CTX(1), FI_ECONNABORTED, 0);
}

/* What follows CTS, too, by packets and by direct writes. PROTOCOL R119 */
DUO_TEST(overlap__granted, duo_open())
{
	struct uccl_env env = {.flags = UCCL_ENV_TAGGED, .len = 4000, .id = 77, .tag = 1};
	uint8_t rec[UCCL_REC_LEN] = {0};
	struct uccl_chunk_in written = {.rtype = UCCL_REC_DATA, .rec = rec, .len = 1000, .placed = true};
	uint32_t id;

	d->filter = duo_hold_all;
	assert_int_equal(duo_envelope(d, 1, &env, src, 1000), UCCL_DROP_COUNT);
	duo_recv(d, 1, UCCL_OPF_TAGGED, dst, 4000, 1, 0, DUO_CTX(1));
	id = TAILQ_FIRST(&d->side[1].peer.rx.all)->id;
	uccl_rec_set_bulk(rec, id, 0, 3000);
	assert_int_equal(duo_deliver(d, 1, UCCL_REC_DATA, rec, src, 1000), UCCL_DROP_COUNT);
	assert_int_equal(duo_deliver(d, 1, UCCL_REC_DATA, rec, src, 1000), UCCL_DROP_OVERLAP);
	assert_int_equal(uccl_msg_flow_ops.deliver(&d->side[1].peer.flow, &written, d->now), UCCL_DROP_OVERLAP);
	uccl_rec_set_bulk(rec, id, 0, 1500);
	assert_int_equal(uccl_msg_flow_ops.deliver(&d->side[1].peer.flow, &written, d->now), UCCL_DROP_COUNT);
	uccl_rec_set_bulk(rec, id, 0, 1001);
	assert_int_equal(duo_deliver(d, 1, UCCL_REC_DATA, rec, src, 500), UCCL_DROP_OVERLAP);
	duo_quiet(d);
	uccl_rec_set_bulk(rec, id, 0, 1000);
	assert_int_equal(duo_deliver(d, 1, UCCL_REC_DATA, rec, src, 500), UCCL_DROP_COUNT);
	uccl_rec_set_bulk(rec, id, 0, 2500);
	assert_int_equal(duo_deliver(d, 1, UCCL_REC_DATA, rec, src, 500), UCCL_DROP_COUNT);
	duo_expect(d, 1, DUO_CTX(1), 0, 4000);
}

/* A million messages under way: there is no handle for the next, whose sender would wait for ever. PROTOCOL R312 */
DUO_TEST(cts__no_handle, duo_open())
{
	struct uccl_ids *ids = &d->side[1].m.rx_ids;

	while (uccl_ids_get(ids, d))
		;
	duo_pass(d, false, 0, src, 20000, dst, 20000);
	assert_int_equal(d->side[1].broken, FI_ENOMEM);
	uccl_peer_fail(&d->side[1].peer, FI_ENOMEM, d->now);
	duo_expect(d, 1, DUO_CTX(2), FI_ENOMEM, 0);
	uccl_peer_fail(&d->side[0].peer, FI_ENOMEM, d->now);
	duo_expect(d, 0, DUO_CTX(1), FI_ENOMEM, 0);
	uccl_ids_fini(ids);
	uccl_ids_init(ids);
}

/* Direct writes: same bytes, fewer copies. PROTOCOL R24 */
TEST(direct__whole)
{
	static const uint64_t sizes[] = {20000, 65536, 65536 + 4095, 200001};

	for (int unexpected = 0; unexpected < 2; unexpected++)
		for (unsigned int i = 0; i < uccl_array_len(sizes); i++) {
			struct duo *d = duo_open_writes();
			uint64_t n = sizes[i];

			duo_fill(src, n, i);
			memset(dst, 0xee, n + 1);
			duo_pass(d, unexpected, 0, src, n, dst, n);
			duo_passed(d, n);
			duo_check(dst, n, i);
			assert_int_equal(dst[n], 0xee);
			assert_true(d->side[0].stats.writes_tx >= (n - DUO_CHUNK) / DUO_WRITE);
			assert_int_equal(d->side[1].regs, 1);
			assert_int_equal(d->side[1].deregs, 1);
			assert_int_equal(d->side[1].unsettled, 0);
			assert_int_equal(d->side[1].stats.fences, 0);
			duo_free(d);
		}
}

/* Truncated to the receive; split receives, small ones and failed registrations go by packets. PROTOCOL R24 */
DUO_TEST(direct__only_where_it_fits, duo_open_writes())
{
	struct uccl_op *op;

	duo_fill(src, 60000, 3);
	memset(dst, 0xee, sizeof(dst));
	duo_recv(d, 1, 0, dst, 40000, 0, 0, DUO_CTX(1));
	duo_send(d, 0, 0, src, 60000, 0, NULL);
	duo_run(d, SECOND);
	assert_int_equal(duo_expect(d, 1, DUO_CTX(1), FI_ETRUNC, 40000)->olen, 20000);
	duo_check(dst, 40000, 3);
	assert_int_equal(dst[40000], 0xee);
	assert_int_equal(d->side[1].regs, 1);
	op = duo_op(d, 1, UCCL_OP_RECV, 0);
	op->iov[0] = (struct iovec){.iov_base = dst, .iov_len = 30000};
	op->iov[1] = (struct iovec){.iov_base = dst + 30000, .iov_len = 30000};
	op->iov_count = 2;
	op->len = 60000;
	assert_int_equal(uccl_msg_recv(&d->side[1].m, op, d->now), 0);
	duo_send(d, 0, 0, src, 60000, 0, NULL);
	duo_run(d, SECOND);
	assert_int_equal(duo_next(d, 1)->len, 60000);
	duo_check(dst, 60000, 3);
	duo_recv(d, 1, 0, dst, 12000, 0, 0, NULL);
	duo_send(d, 0, 0, src, 12000, 0, NULL);
	duo_run(d, SECOND);
	assert_int_equal(duo_next(d, 1)->len, 12000);
	assert_int_equal(d->side[1].regs, 1);
	d->side[1].reg_fails = true;
	memset(dst, 0, 60000);
	duo_recv(d, 1, 0, dst, 60000, 0, 0, NULL);
	duo_send(d, 0, 0, src, 60000, 0, NULL);
	duo_run(d, SECOND);
	assert_int_equal(duo_next(d, 1)->len, 60000);
	duo_check(dst, 60000, 3);
	assert_int_equal(d->side[1].regs, 1);
}

static enum duo_verdict lose_write(struct duo *d, const struct duo_pkt *p)
{
	return p->kind == UCCL_TX_WRITE && ++d->n == 5 ? DUO_DROP : DUO_PASS;
}

static enum duo_verdict lose_last_write(struct duo *d, const struct duo_pkt *p)
{
	return p->kind == UCCL_TX_WRITE && ++d->n == 10 ? DUO_DROP : DUO_PASS;
}

/* A write was lost and came again as packets: the buffer is held until the fence. PROTOCOL R25 R26 */
TEST(direct__held_until_fenced)
{
	enum duo_verdict (*lose[])(struct duo *, const struct duo_pkt *) = {lose_write, lose_last_write};

	for (int k = 0; k < 2; k++) {
		struct duo *d = duo_open_writes();

		d->auto_fence = false;
		d->filter = lose[k];
		duo_fill(src, DUO_CHUNK + 10 * DUO_WRITE, 4);
		duo_pass(d, false, 0, src, DUO_CHUNK + 10 * DUO_WRITE, dst, DUO_CHUNK + 10 * DUO_WRITE);
		assert_int_equal(d->n, 10);
		duo_expect(d, 0, DUO_CTX(1), 0, 0);
		/* All bytes are here. */
		duo_check(dst, DUO_CHUNK + 10 * DUO_WRITE, 4);
		assert_null(duo_next(d, 1));
		assert_int_equal(d->side[1].fences, 1);
		assert_int_equal(d->side[1].deregs, 0);
		uccl_flow_fenced(&d->side[1].peer.flow, d->side[1].fence_path[0], d->now);
		duo_expect(d, 1, DUO_CTX(2), 0, DUO_CHUNK + 10 * DUO_WRITE);
		assert_int_equal(d->side[1].deregs, 1);
		assert_int_equal(d->side[1].unsettled, 0);
		duo_free(d);
	}
}

static enum duo_verdict delay_write(struct duo *d, const struct duo_pkt *p)
{
	return p->kind == UCCL_TX_WRITE && ++d->n == 5 ? DUO_HOLD : DUO_PASS;
}

/* The late original settles its own doubt. PROTOCOL R25 */
DUO_TEST(direct__held_until_the_late_write, duo_open_writes())
{
	d->auto_fence = false;
	d->filter = delay_write;
	duo_fill(src, 50000, 5);
	duo_pass(d, false, 0, src, 50000, dst, 50000);
	duo_expect(d, 0, DUO_CTX(1), 0, 0);
	assert_null(duo_next(d, 1));
	duo_release(d, false);
	duo_run(d, SECOND);
	duo_expect(d, 1, DUO_CTX(2), 0, 50000);
	duo_check(dst, 50000, 5);
	assert_int_equal(d->side[1].stats.dup_writes, 0);
}

static enum duo_verdict double_write(struct duo *d, const struct duo_pkt *p)
{
	return p->kind == UCCL_TX_WRITE && ++d->n == 3 ? DUO_DOUBLE : DUO_PASS;
}

/* The network doubles writes: no more are granted, packets do. PROTOCOL R27 */
DUO_TEST(direct__none_after_a_double, duo_open_writes())
{
	d->filter = double_write;
	duo_fill(src, 50000, 6);
	for (int i = 0; i < 2; i++) {
		memset(dst, 0, 50000);
		duo_pass(d, false, 0, src, 50000, dst, 50000);
		duo_expect(d, 1, DUO_CTX(2), 0, 50000);
		duo_check(dst, 50000, 6);
		assert_int_equal(d->side[1].regs, 1);
		assert_int_equal(d->side[1].stats.dup_writes, 1);
	}
}

/*
 * Where the end of a registration keeps writes out, a doubt costs nothing: the message is complete, and what still
 * comes finds no place. PROTOCOL R83
 */
DUO_TEST(direct__closed_in_doubt, duo_open_writes())
{
	d->auto_fence = false;
	d->side[1].peer.msg_ep->dereg_fences = true;
	d->filter = delay_write;
	duo_fill(src, 50000, 5);
	duo_pass(d, false, 0, src, 50000, dst, 50000);
	duo_passed(d, 50000);
	duo_check(dst, 50000, 5);
	assert_int_equal(d->side[1].fences, 0);
	assert_int_equal(d->side[1].deregs, 1);
	assert_int_equal(d->side[1].unsettled, 1);
	assert_int_equal(d->side[1].peer.flow.rx.write.ndoubts, 0);
	memset(dst, 0xa5, 50000);
	duo_release(d, false);
	duo_run(d, SECOND);
	for (int i = 0; i < 50000; i++)
		assert_int_equal(dst[i], 0xa5);
	assert_int_equal(d->side[1].stats.dup_writes, 0);
}

TESTS_MAIN
