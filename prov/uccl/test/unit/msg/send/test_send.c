/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "../duo.h"

#include "lanes/lanes.h"
#include "msg/send/msg_tx.h"
#include "../../tests.h"

static uint8_t src[1 << 18], dst[1 << 18];

static enum duo_verdict drop_rec_fin(struct duo *d, const struct duo_pkt *p)
{
	return p->type == UCCL_PKT_CHUNK && p->rtype == UCCL_REC_FIN && d->n-- > 0 ? DUO_DROP : DUO_PASS;
}

/* One message of every interesting size, matched and unexpected. PROTOCOL R28 R29 R30 */
TEST(send__sizes)
{
	static const uint64_t sizes[] = {0, 1, 63, 64, 128, 129, DUO_CHUNK - 1, DUO_CHUNK, DUO_CHUNK + 1, DUO_EAGER - 1,
					 DUO_EAGER, DUO_EAGER + 1, 10 * DUO_CHUNK, 100001, 200000};

	for (int unexpected = 0; unexpected < 2; unexpected++)
		for (unsigned int i = 0; i < uccl_array_len(sizes); i++) {
			struct duo *d = duo_open();
			uint64_t n = sizes[i];

			duo_fill(src, n, i);
			memset(dst, 0xee, n + 1);
			duo_pass(d, unexpected, 0, src, n, dst, n);
			duo_passed(d, n);
			duo_check(dst, n, i);
			assert_int_equal(dst[n], 0xee);
			assert_int_equal(d->side[0].m.op_pool.used, 0);
			assert_int_equal(d->side[1].m.op_pool.used, 0);
			assert_int_equal(d->side[1].m.rx_pool.used, 0);
			duo_free(d);
		}
}

/* What is eager needs no answer; what is not waits for CTS. PROTOCOL R29 R30 */
DUO_TEST(send__eager_limit, duo_open())
{
	assert_int_equal(duo_send(d, 0, 0, src, DUO_EAGER, 0, DUO_CTX(1)), 0);
	duo_run(d, SECOND / 2);
	assert_int_equal(duo_send(d, 0, 0, src, DUO_EAGER + 1, 0, DUO_CTX(2)), 0);
	duo_run(d, SECOND / 2);
	duo_expect_from(d, 0, DUO_CTX(1), 0, 0);
	assert_null(duo_next(d, 0));
	/* The first chunk of the second is all that came. */
	assert_int_equal(d->side[1].m.unexpected.bytes, DUO_EAGER + DUO_CHUNK);
	/* It ended with the peer. */
}

static enum duo_verdict hold_cts(struct duo *d, const struct duo_pkt *p)
{
	return p->type == UCCL_PKT_CHUNK && p->rtype == UCCL_REC_CTS ? DUO_HOLD : DUO_PASS;
}

static enum duo_verdict hold_data(struct duo *d, const struct duo_pkt *p)
{
	return p->type == UCCL_PKT_CHUNK && p->rtype == UCCL_REC_DATA ? DUO_HOLD : DUO_PASS;
}

/* Behind payload that waits the envelope has none: it leaves at once, and CTS comes in time. PROTOCOL R263 */
DUO_TEST(send__no_payload_behind_others, duo_open())
{
	duo_fill(src, 80000, 3);
	for (int i = 0; i < 2; i++)
		assert_int_equal(duo_send(d, 0, 0, src + i * 40000, 40000, 0, DUO_CTX(i)), 0);
	duo_run(d, SECOND / 10);
	assert_int_equal(d->side[1].m.unexpected.bytes, DUO_CHUNK);
	for (int i = 0; i < 2; i++)
		duo_recv(d, 1, 0, dst + i * 40000, 40000, 0, 0, DUO_CTX(i));
	duo_run(d, SECOND);
	for (int i = 0; i < 2; i++) {
		duo_expect_from(d, 0, DUO_CTX(i), 0, 0);
		duo_expect_from(d, 1, DUO_CTX(i), 0, 40000);
	}
	assert_memory_equal(dst, src, 80000);
	duo_quiet(d);
}

/* So many of its bytes are unsolicited: full packets behind the envelope's, four times the eager limit at most. */
static uint64_t head_of(uint64_t len)
{
	return uccl_min(len, 4 * DUO_EAGER);
}

/* What a receive probably waits for goes ahead of CTS, but not without end. PROTOCOL R263 */
TEST(send__unsolicited)
{
	static const uint64_t sizes[] = {DUO_EAGER + 1, DUO_EAGER + 5, 4 * DUO_EAGER - 1, 4 * DUO_EAGER,
					 4 * DUO_EAGER + 1, 100001};

	for (int unexpected = 0; unexpected < 2; unexpected++)
		for (unsigned int i = 0; i < uccl_array_len(sizes); i++) {
			struct duo *d = duo_open_unsolicited();
			uint64_t n = sizes[i], head = head_of(n);
			const struct uccl_op *op;

			duo_fill(src, n, i);
			memset(dst, 0xee, n + 1);
			d->filter = hold_cts;
			if (!unexpected)
				duo_recv(d, 1, 0, dst, n, 0, 0, DUO_CTX(2));
			assert_int_equal(duo_send(d, 0, 0, src, n, 0, DUO_CTX(1)), 0);
			/* No acknowledgement is asked for between envelope and unsolicited data. */
			op = TAILQ_FIRST(&d->side[0].peer.tx.sends);
			assert_false(op->tx.env.want_ack);
			assert_int_equal(op->send.lead.want_ack, head == n);
			assert_int_equal(uccl_item_left(&op->tx.env), head);
			duo_run(d, SECOND / 1000);
			assert_null(duo_next(d, 0));
			if (unexpected || head < n)
				assert_int_equal(TAILQ_FIRST(&d->side[1].peer.rx.all)->arrived.got, head);
			else
				duo_expect_from(d, 1, DUO_CTX(2), 0, n);
			assert_int_equal(d->side[1].m.unexpected.bytes, unexpected ? head : 0);
			duo_release(d, false);
			if (unexpected)
				duo_recv(d, 1, 0, dst, n, 0, 0, DUO_CTX(2));
			duo_run(d, SECOND);
			duo_expect_from(d, 0, DUO_CTX(1), 0, 0);
			if (unexpected || head < n)
				duo_expect_from(d, 1, DUO_CTX(2), 0, n);
			duo_check(dst, n, i);
			assert_int_equal(dst[n], 0xee);
			duo_quiet(d);
			assert_int_equal(d->side[0].m.op_pool.used, 0);
			assert_int_equal(d->side[1].m.op_pool.used, 0);
			assert_int_equal(d->side[1].m.rx_pool.used, 0);
			assert_null(d->side[1].peer.rx.lone);
			duo_free(d);
		}
}

/* Its packets are full, whatever the eager limit: where the next ones belong can be predicted. PROTOCOL R44 R263 */
TEST(send__unsolicited_in_full_packets)
{
	for (uint64_t eager = 0; eager < 2000; eager += 77) {
		struct duo *d = duo_open_unsolicited();
		const struct uccl_op *op;

		d->side[0].m.eager_max = eager;
		duo_recv(d, 1, 0, dst, 40000, 0, 0, DUO_CTX(2));
		assert_int_equal(duo_send(d, 0, 0, src, 40000, 0, DUO_CTX(1)), 0);
		op = TAILQ_FIRST(&d->side[0].peer.tx.sends);
		assert_true(op->tx.env.len + op->send.lead.len <= uccl_max(4 * eager, 64));
		assert_int_equal(op->send.lead.len % DUO_CHUNK, 0);
		assert_int_equal(op->send.lead.len > 0, 4 * eager >= op->tx.env.len + DUO_CHUNK);
		duo_run(d, SECOND);
		duo_passed(d, 40000);
		duo_free(d);
	}
}

/* A message of 40000 bytes is on its way: it ends well, also when its receive is posted late. */
static void ends(struct duo *d, bool unexpected)
{
	duo_run(d, SECOND);
	if (unexpected)
		duo_recv(d, 1, 0, dst, 40000, 0, 0, DUO_CTX(2));
	duo_run(d, SECOND);
	duo_passed(d, 40000);
}

/* Its parts lie in several buffers, and it leaves in any order, with losses. PROTOCOL R263 */
TEST(send__unsolicited_in_any_order)
{
	static const uint64_t cut[] = {1, DUO_CHUNK, 10000, 4 * DUO_EAGER, 4 * DUO_EAGER + 8};

	for (unsigned int i = 0; i < uccl_array_len(cut); i++)
		for (int reverse = 0; reverse < 2; reverse++)
			for (int unexpected = 0; unexpected < 2; unexpected++) {
				struct duo *d = duo_open_unsolicited();
				struct uccl_op *op = duo_op(d, 0, UCCL_OP_SEND, 0);

				duo_fill(src, 40000, i);
				memset(dst, 0xee, 40001);
				op->iov[0] = (struct iovec){.iov_base = src, .iov_len = cut[i]};
				op->iov[1] = (struct iovec){.iov_base = src + cut[i], .iov_len = 40000 - cut[i]};
				op->iov_count = 2;
				op->len = 40000;
				op->context = DUO_CTX(1);
				if (!unexpected)
					duo_recv(d, 1, 0, dst, 40000, 0, 0, DUO_CTX(2));
				d->filter = duo_hold_all;
				assert_int_equal(uccl_msg_send(&d->side[0].m, op, d->now), 0);
				duo_run(d, 20000);
				duo_release(d, reverse);
				ends(d, unexpected);
				duo_check(dst, 40000, i);
				assert_int_equal(dst[40000], 0xee);
				assert_int_equal(d->side[1].m.rx_pool.used, 0);
				duo_free(d);
			}
}

/* How much of a message of 40000 bytes comes before it is asked for. */
static uint64_t comes_unsolicited(struct duo *d)
{
	uint64_t n;

	assert_int_equal(duo_send(d, 0, 0, src, 40000, 0, DUO_CTX(1)), 0);
	d->filter = hold_cts;
	duo_run(d, SECOND / 1000);
	n = TAILQ_FIRST(&d->side[1].peer.rx.all)->arrived.got;
	duo_release(d, false);
	return n;
}

static uint64_t goes_through(struct duo *d, bool unexpected)
{
	uint64_t n;

	if (!unexpected)
		duo_recv(d, 1, 0, dst, 40000, 0, 0, DUO_CTX(2));
	n = comes_unsolicited(d);
	ends(d, unexpected);
	return n;
}

/* Only to whom the last messages met receives; one that met none ends that for a while. PROTOCOL R264 */
DUO_TEST(send__unsolicited_if_met, duo_open_unsolicited())
{
	struct uccl_op *op;

	d->side[0].peer.tx.met_streak = 0;
	for (int again = 0; again < 2; again++) {
		for (int i = 0; i < UCCL_UNSOLICITED_MET + again * UCCL_UNSOLICITED_PAUSE; i++)
			assert_int_equal(goes_through(d, false), DUO_CHUNK);
		for (int i = 0; i < 3; i++)
			assert_int_equal(goes_through(d, false), head_of(40000));
		assert_int_equal(goes_through(d, true), head_of(40000));
	}
	/* What is claimed, or dropped, met none. */
	for (int claim = 0; claim < 2; claim++) {
		d->side[0].peer.tx.met_streak = UCCL_UNSOLICITED_MET;
		assert_int_equal(comes_unsolicited(d), head_of(40000));
		op = duo_op(d, 1, UCCL_OP_RECV, 0);
		duo_buffer(op, dst, 40000);
		op->context = DUO_CTX(2);
		assert_int_equal(uccl_msg_peek(&d->side[1].m, op, claim, !claim, d->now), 0);
		if (claim)
			assert_int_equal(uccl_msg_recv_claimed(&d->side[1].m, op, false, d->now), 0);
		else
			uccl_msg_ep_op_put(&d->side[1].m, op);
		duo_run(d, SECOND);
		duo_expect_from(d, 0, DUO_CTX(1), 0, 0);
		if (claim)
			duo_expect_from(d, 1, DUO_CTX(2), 0, 40000);
		assert_int_equal(d->side[0].peer.tx.met_streak, -UCCL_UNSOLICITED_PAUSE);
	}
	duo_quiet(d);
}

/* No more of them than CTS needs to come in time, and none behind what waits. PROTOCOL R263 */
DUO_TEST(send__unsolicited_bounded, duo_open_unsolicited())
{
	const int most = UCCL_UNSOLICITED_PEER_MAX / (4 * DUO_EAGER);
	struct uccl_peer *p = &d->side[0].peer;
	int i = 0;

	d->filter = hold_cts;
	for (; i < most + 2; i++) {
		duo_recv(d, 1, 0, dst, 40000, 0, 0, DUO_CTX(i));
		duo_send(d, 0, 0, src, 40000, 0, DUO_CTX(i));
		assert_int_equal(p->tx.unsolicited_bytes, uccl_min(i + 1, most) * 4 * DUO_EAGER);
		/* Until its end is acknowledged, which nobody asked for. */
		duo_run(d, SECOND / 10);
	}
	duo_release(d, false);
	duo_run(d, SECOND);
	assert_int_equal(p->tx.unsolicited_bytes, 0);
	while (i--)
		assert_int_equal(duo_next(d, 1)->err, 0);
	duo_send(d, 0, 0, src, 40000, 0, NULL);
	duo_send(d, 0, 0, src, 40000, 0, NULL);
	assert_int_equal(p->tx.unsolicited_bytes, 4 * DUO_EAGER);
	/* It is CTS that counts, not the end. */
	for (i = 0; i < 2; i++)
		duo_recv(d, 1, 0, dst, 40000, 0, 0, NULL);
	d->filter = hold_data;
	duo_run(d, SECOND / 1000);
	assert_int_equal(p->tx.unsolicited_bytes, 0);
	assert_false(TAILQ_EMPTY(&p->tx.sends));
	duo_release(d, false);
	duo_run(d, SECOND);
	duo_send(d, 0, 0, src, 40000, 0, NULL);
	assert_int_equal(p->tx.unsolicited_bytes, 4 * DUO_EAGER);
	/* What ends with its peer counts no more either. */
	uccl_peer_fail(p, FI_ECONNABORTED, d->now);
	assert_int_equal(p->tx.unsolicited_bytes, 0);
}

/*
 * Not to a peer that does not know of unsolicited data, nor of a message so long that its envelope cannot say it.
 * PROTOCOL R263
 */
DUO_TEST(send__unsolicited_not_said, duo_open_unsolicited())
{
	d->side[0].peer.takes_unsolicited = false;
	assert_int_equal(comes_unsolicited(d), DUO_CHUNK);
	d->side[0].peer.takes_unsolicited = true;
	assert_int_equal(duo_send(d, 0, 0, src, 1ull << UCCL_ENV_UNSOLICITED_AT, 0, DUO_CTX(2)), 0);
	duo_run(d, SECOND / 1000);
	assert_int_equal(TAILQ_LAST(&d->side[1].peer.rx.all, uccl_msg_rx_list)->env.len,
			 1ull << UCCL_ENV_UNSOLICITED_AT);
	assert_int_equal(TAILQ_LAST(&d->side[1].peer.rx.all, uccl_msg_rx_list)->arrived.got, DUO_CHUNK);
}

/* Envelope, range, and what CTS asks for say how much of the message follows them. */
DUO_TEST(send__left_of_a_message, duo_open())
{
	struct uccl_sendq *q = &d->side[0].peer.flow.sendq;

	assert_int_equal(duo_send(d, 0, 0, src, DUO_EAGER, 0, DUO_CTX(1)), 0);
	assert_int_equal(uccl_item_left(TAILQ_FIRST(&q->records)), DUO_EAGER);
	assert_int_equal(uccl_item_left(TAILQ_FIRST(&q->bulk)), DUO_EAGER - TAILQ_FIRST(&q->records)->len);
	duo_run(d, SECOND);
	assert_int_equal(duo_send(d, 0, 0, src, 100, 0, DUO_CTX(2)), 0);
	assert_int_equal(uccl_item_left(TAILQ_FIRST(&q->small)), 100);
}

TEST(send__iov_splits)
{
	static const uint64_t cut[][4] = {
		{1, 2, 3, 4},	      {0, 5, 0, 7},	    {1023, 1, 1024, 1}, {1024, 1024, 1024, 1024},
		{3000, 1, 4000, 999}, {20000, 1, 30000, 5}, {0, 0, 0, 50000},	{1, 60000, 0, 0},
	};

	for (unsigned int a = 0; a < uccl_array_len(cut); a++)
		for (unsigned int b = 0; b < uccl_array_len(cut); b++)
			for (int inject = 0; inject < 2; inject++) {
				struct duo *d = duo_open();
				struct uccl_op *s = duo_op(d, 0, UCCL_OP_SEND, inject ? UCCL_OPF_INJECT : 0);
				struct uccl_op *r = duo_op(d, 1, UCCL_OP_RECV, 0);
				uint64_t at = 0, room = 0;

				s->iov_count = r->iov_count = 4;
				for (int i = 0; i < 4; i++) {
					s->iov[i] = (struct iovec){.iov_base = src + at, .iov_len = cut[a][i]};
					at += cut[a][i];
					/* The receiving parts lie backwards and apart. */
					r->iov[i] =
						(struct iovec){.iov_base = dst + (3 - i) * 65536, .iov_len = cut[b][i]};
					room += cut[b][i];
				}
				s->len = at;
				r->len = room;
				duo_fill(src, at, a);
				memset(dst, 0xee, sizeof(dst));
				assert_int_equal(uccl_msg_recv(&d->side[1].m, r, d->now), 0);
				assert_int_equal(uccl_msg_send(&d->side[0].m, s, d->now), 0);
				if (inject)
					memset(src, 0, at);
				duo_run(d, SECOND);
				assert_int_equal(duo_next(d, 0)->err, 0);
				assert_int_equal(d->side[1].comp[0].err, at > room ? FI_ETRUNC : 0);
				assert_int_equal(d->side[1].comp[0].len, uccl_min(at, room));
				assert_int_equal(d->side[1].comp[0].olen, at > room ? at - room : 0);
				duo_fill(src, at, a);
				at = uccl_min(at, room);
				for (uint64_t i = 0, off = 0; i < 4; i++) {
					uint64_t n = uccl_min(cut[b][i], at - off);

					assert_memory_equal(dst + (3 - i) * 65536, src + off, n);
					assert_int_equal(dst[(3 - i) * 65536 + n], 0xee);
					off += n;
				}
				duo_free(d);
			}
}

/* The buffer is the caller's when the post returns, however long the packets wait. */
TEST(send__inject_copies)
{
	static const uint64_t sizes[] = {1, 128, 129, 1024, 3000, DUO_EAGER + 5};

	for (unsigned int i = 0; i < uccl_array_len(sizes); i++) {
		struct duo *d = duo_open();
		uint64_t n = sizes[i];

		duo_fill(src, n, i);
		assert_int_equal(duo_recv(d, 1, 0, dst, n, 0, 0, DUO_CTX(2)), 0);
		assert_int_equal(duo_send(d, 0, UCCL_OPF_INJECT, src, n, 0, DUO_CTX(1)), 0);
		/* Complete at once, and msg keeps what it needs. */
		duo_expect_from(d, 0, DUO_CTX(1), 0, 0);
		assert_int_equal(d->side[0].m.op_pool.used, 1);
		memset(src, 0, n);
		duo_run(d, SECOND);
		duo_expect_from(d, 1, DUO_CTX(2), 0, n);
		duo_check(dst, n, i);
		assert_null(duo_next(d, 0));
		assert_int_equal(d->side[0].m.op_pool.used, 0);
		duo_free(d);
	}
}

static void early(struct duo *d, int s, const void *buf, uint64_t n, void *context, bool at_once)
{
	assert_int_equal(duo_send(d, s, UCCL_OPF_EARLY, buf, n, 0, context), 0);
	if (at_once)
		duo_expect_from(d, s, context, 0, 0);
	else
		assert_null(duo_next(d, s));
}

/*
 * No level of completion, or FI_INJECT_COMPLETE: complete at once where a copy pays, which is for a small message, and
 * for a larger one if little else is under way. The buffer is the caller's then.
 */
DUO_TEST(send__early, duo_open())
{
	static uint8_t big[4 * UCCL_COPY_MAX], into[4 * UCCL_COPY_MAX];

	for (int i = 0; i < 4; i++)
		assert_int_equal(duo_recv(d, 1, 0, into + i * UCCL_COPY_MAX, UCCL_COPY_MAX, 0, 0, DUO_CTX(10 + i)), 0);
	for (int i = 0; i < 4; i++)
		duo_fill(big + i * UCCL_COPY_MAX, UCCL_COPY_MAX, i);
	d->side[0].m.eager_max = UCCL_EAGER_MAX;
	early(d, 0, big, UCCL_COPY_MAX, DUO_CTX(0), true);
	memset(big, 0, UCCL_COPY_MAX);
	early(d, 0, big + UCCL_COPY_MAX, 1025, DUO_CTX(1), false);
	early(d, 0, big + 2 * UCCL_COPY_MAX, 1024, DUO_CTX(2), true);
	memset(big + 2 * UCCL_COPY_MAX, 0, 1024);
	duo_run(d, SECOND);
	duo_expect_from(d, 0, DUO_CTX(1), 0, 0);
	assert_null(duo_next(d, 0));
	early(d, 0, big + 3 * UCCL_COPY_MAX, UCCL_COPY_MAX, DUO_CTX(3), true);
	memset(big + 3 * UCCL_COPY_MAX, 0, UCCL_COPY_MAX);
	duo_run(d, SECOND);
	for (int i = 0; i < 4; i++) {
		const struct duo_comp *c = duo_next(d, 1);

		assert_non_null(c);
		assert_int_equal(c->err, 0);
		duo_check(into + ((uintptr_t)c->context - (uintptr_t)DUO_CTX(10)) * UCCL_COPY_MAX, c->len,
			  (uintptr_t)c->context - (uintptr_t)DUO_CTX(10));
	}
	early(d, 0, into, UCCL_COPY_MAX + 1, DUO_CTX(4), false);
	duo_run(d, SECOND);
	assert_int_equal(duo_recv(d, 1, 0, big, sizeof(big), 0, 0, DUO_CTX(14)), 0);
	duo_run(d, SECOND);
	duo_expect_from(d, 0, DUO_CTX(4), 0, 0);
	assert_int_equal(d->side[0].m.tx.copied_bytes, 0);
	assert_int_equal(d->side[0].m.op_pool.used, 0);
}

/* Two long ones at a time are copied; among more one acknowledgement completes several. A short one always is. */
TEST(send__early_beside_others)
{
	static const struct { uint64_t len, beside; bool at_once; } sent[] = {
		{UCCL_COPY_MAX, 0, true}, {UCCL_COPY_MAX, UCCL_COPY_IN_FLIGHT - UCCL_COPY_MAX, true},
		{UCCL_COPY_MAX, UCCL_COPY_IN_FLIGHT - UCCL_COPY_MAX + 1, false},
		{1025, UCCL_COPY_IN_FLIGHT - 1025, true}, {1025, UCCL_COPY_IN_FLIGHT - 1024, false},
		{1024, UCCL_COPY_IN_FLIGHT, true},
	};

	for (size_t i = 0; i < uccl_array_len(sent); i++) {
		struct duo *d = duo_open();
		struct uccl_flow *f = &d->side[0].peer.flow;
		uint64_t flying = f->sent.inflight_bytes;

		d->side[0].m.eager_max = UCCL_EAGER_MAX;
		duo_fill(src, sent[i].len, i);
		f->sent.inflight_bytes = sent[i].beside;
		early(d, 0, src, sent[i].len, DUO_CTX(1), sent[i].at_once);
		f->sent.inflight_bytes = flying;
		assert_int_equal(d->side[0].m.tx.copied_bytes, sent[i].at_once ? sent[i].len : 0);
		if (sent[i].at_once)
			memset(src, 0, sent[i].len);
		assert_int_equal(duo_recv(d, 1, 0, dst, sent[i].len, 0, 0, DUO_CTX(2)), 0);
		duo_run(d, SECOND);
		if (!sent[i].at_once)
			duo_expect_from(d, 0, DUO_CTX(1), 0, 0);
		duo_expect_from(d, 1, DUO_CTX(2), 0, sent[i].len);
		duo_check(dst, sent[i].len, i);
		assert_int_equal(d->side[0].m.tx.copied_bytes, 0);
		duo_free(d);
	}
}

static uint64_t window, credit;

static uint64_t small_window(const void *cc)
{
	(void)cc;
	return window;
}

static uint64_t small_credit(const void *cs)
{
	(void)cs;
	return credit;
}

static void held_back(struct duo *d, uint64_t more_window, uint64_t more_credit, uint32_t more_slots, bool at_once)
{
	struct uccl_flow *f = &d->side[0].peer.flow;
	struct uccl_policies was = f->cfg.policy;
	struct uccl_cc_ops cc = *was.cc;
	struct uccl_credit_ops cr = *was.credit;
	uint32_t slots = f->limits.slots;

	window = f->sent.inflight_bytes + more_window;
	credit = f->credit.used + more_credit;
	cc.window = small_window;
	cr.limit = small_credit;
	f->cfg.policy.cc = &cc;
	f->cfg.policy.credit = &cr;
	f->limits.slots = uccl_sent_slots(&f->sent) + more_slots;
	/* A short one always is, whatever holds it back. */
	early(d, 0, src, 40000, DUO_CTX(1), at_once);
	early(d, 0, src, 1024, DUO_CTX(2), true);
	f->limits.slots = slots;
	f->cfg.policy = was;
	duo_run(d, SECOND);
	if (!at_once)
		duo_expect_from(d, 0, DUO_CTX(1), 0, 0);
}

/* A long one is complete at once only if all of it leaves at once: nothing may call again for long. */
DUO_TEST(send__early_leaves_at_once, duo_open())
{
	static const uint64_t all = UINT32_MAX;

	d->side[0].m.eager_max = UCCL_EAGER_MAX;
	for (int i = 0; i < 8; i++) {
		assert_int_equal(duo_recv(d, 1, 0, dst, 40000, 0, 0, DUO_CTX(3)), 0);
		assert_int_equal(duo_recv(d, 1, 0, dst, 1024, 0, 0, DUO_CTX(3)), 0);
	}
	held_back(d, 40000, all, 200, true);
	held_back(d, 39999, all, 200, false);
	held_back(d, 8192, all, 200, false);
	held_back(d, all, 40000, 200, true);
	held_back(d, all, 39999, 200, false);
	held_back(d, all, 0, 200, false);
	held_back(d, all, all, 40, true);
	held_back(d, all, all, 39, false);
	assert_int_equal(d->side[0].m.tx.copied_bytes, 0);
}

/* Nor is one that waits for its turn: it leaves later. */
DUO_TEST(send__early_waits_its_turn, duo_open())
{
	struct uccl_peer *p = &d->side[0].peer;
	uint32_t limit = p->flow.limits.msg_limit;

	d->filter = duo_hold_all;
	d->side[0].m.eager_max = UCCL_EAGER_MAX;
	early(d, 0, src, 100, DUO_CTX(1), true);
	duo_run(d, 0);
	assert_int_equal(duo_send(d, 0, UCCL_OPF_EARLY | UCCL_OPF_FENCE, src, 1025, 0, DUO_CTX(2)), 0);
	assert_null(duo_next(d, 0));
	early(d, 0, src, 1025, DUO_CTX(3), false);
	early(d, 0, src, 1024, DUO_CTX(4), true);
	d->filter = NULL;
	duo_release(d, false);
	duo_run(d, SECOND);
	assert_true(TAILQ_EMPTY(&p->tx.pending));
	duo_expect_from(d, 0, DUO_CTX(2), 0, 0);
	duo_expect_from(d, 0, DUO_CTX(3), 0, 0);
	p->flow.limits.msg_limit = (uint32_t)p->tx.mseq;
	early(d, 0, src, 1025, DUO_CTX(5), false);
	p->flow.limits.msg_limit = limit;
	early(d, 0, src, 1025, DUO_CTX(6), false);
	early(d, 0, src, 1024, DUO_CTX(7), true);
	uccl_msg_kick(p, d->now);
	duo_run(d, SECOND);
	assert_int_equal(duo_waiting(d, 0), 2);
}

static bool lanes_want(const struct uccl_op *op)
{
	return op->len >= UCCL_LANES_FIRST && !op->busy;
}

static void lanes_hear(struct uccl_peer *p, uint64_t lanes)
{
	(void)p;
	(void)lanes;
}

static bool lanes_refuse(struct uccl_op *op, uint64_t at, uint64_t limit, uint32_t rx, uint64_t lanes, uint8_t wait)
{
	(void)op;
	(void)at;
	(void)limit;
	(void)rx;
	(void)lanes;
	(void)wait;
	return false;
}

/* What is copied does not make the primary seem busy; while it is busy lanes do better. */
DUO_TEST(send__early_beside_lanes, duo_open())
{
	static const struct uccl_lanes_ops ops = {.may = lanes_want, .named = lanes_hear, .send = lanes_refuse};
	static uint8_t any;
	struct uccl_peer *p = &d->side[0].peer;

	d->side[0].m.eager_max = UCCL_EAGER_MAX;
	d->side[0].m.lanes_ops = &ops;
	p->lanes.peers = (void *)&any;
	for (int i = 0; i < 3; i++)
		assert_int_equal(duo_recv(d, 1, 0, dst, UCCL_COPY_MAX, 0, 0, DUO_CTX(4)), 0);
	early(d, 0, src, UCCL_LANES_FIRST - 1, DUO_CTX(1), true);
	duo_run(d, SECOND);
	early(d, 0, src, UCCL_LANES_FIRST, DUO_CTX(2), true);
	assert_int_equal(p->send.unsolicited, 0);
	duo_run(d, SECOND);
	p->send.unsolicited = UCCL_LANES_UNSOLICITED;
	early(d, 0, src, UCCL_LANES_FIRST, DUO_CTX(3), false);
	duo_run(d, SECOND);
	duo_expect_from(d, 0, DUO_CTX(3), 0, 0);
	p->send.unsolicited = 0;
	p->lanes.peers = NULL;
	d->side[0].m.lanes_ops = NULL;
}

/*
 * What the peer has to ask for is not complete before it did: a program that makes no call after that would not answer.
 */
DUO_TEST(send__early_is_unsolicited, duo_open())
{
	d->side[0].m.eager_max = 0;
	duo_fill(src, 200, 1);
	early(d, 0, src, 64, DUO_CTX(1), true);
	early(d, 0, src + 64, 65, DUO_CTX(2), false);
	duo_run(d, SECOND);
	assert_null(duo_next(d, 0));
	assert_int_equal(duo_recv(d, 1, 0, dst, 64, 0, 0, DUO_CTX(3)), 0);
	assert_int_equal(duo_recv(d, 1, 0, dst + 64, 65, 0, 0, DUO_CTX(4)), 0);
	duo_run(d, SECOND);
	duo_expect_from(d, 0, DUO_CTX(2), 0, 0);
	duo_expect_from(d, 1, DUO_CTX(3), 0, 64);
	duo_expect_from(d, 1, DUO_CTX(4), 0, 65);
	duo_check(dst, 129, 1);
	/* Nor where the peer is short of memory. */
	d->side[0].m.eager_max = DUO_EAGER;
	d->side[0].peer.flow.limits.envelopes_only = true;
	early(d, 0, src, 64, DUO_CTX(5), false);
	d->side[0].peer.flow.limits.envelopes_only = false;
	early(d, 0, src, 65, DUO_CTX(6), true);
}

/* What an envelope carries of a message ends on a word, if it is not all of it. PROTOCOL R216 */
DUO_TEST(send__whole_words, duo_open())
{
	static const uint64_t eager[] = {0, 100, 101, 500, 2001}, sizes[] = {64, 65, 100, 101, 499, 1001, 1024, 3001};

	for (int i = 0; i < 5; i++)
		for (int k = 0; k < 8; k++) {
			uint64_t most = uccl_max(eager[i], 64), n = sizes[k];
			const struct uccl_item *item;

			d->side[0].m.eager_max = eager[i];
			duo_fill(src, n, n);
			assert_int_equal(duo_recv(d, 1, 0, dst, n, 0, 0, DUO_CTX(2)), 0);
			assert_int_equal(duo_send(d, 0, 0, src, n, 0, DUO_CTX(1)), 0);
			item = TAILQ_FIRST(&d->side[0].peer.flow.sendq.small);
			item = item ? item : TAILQ_FIRST(&d->side[0].peer.flow.sendq.records);
			assert_non_null(item);
			most = uccl_min(most, DUO_CHUNK);
			assert_int_equal(item->len, n <= most ? n : most & ~7ull);
			duo_run(d, SECOND);
			duo_passed(d, n);
			duo_check(dst, n, n);
		}
}

/* What is injected and not acknowledged holds memory: there is an end to it, and it comes back. */
DUO_TEST(send__inject_memory, duo_open())
{
	uint64_t n = sizeof(src), sent = 0;

	while (duo_send(d, 0, UCCL_OPF_INJECT, src, n, 0, DUO_CTX(1)) == 0)
		sent += n;
	assert_int_equal(sent, UCCL_COPIED_MAX);
	assert_int_equal(d->side[0].m.tx.copied_bytes, UCCL_COPIED_MAX);
	/* One that needs no memory may go on, one that need not be copied is not. */
	assert_int_equal(duo_send(d, 0, UCCL_OPF_INJECT, src, 128, 0, DUO_CTX(2)), 0);
	assert_int_equal(duo_send(d, 0, UCCL_OPF_EARLY, src, 1024, 0, DUO_CTX(3)), 0);
	assert_int_equal(d->side[0].m.tx.copied_bytes, UCCL_COPIED_MAX);
	uccl_peer_fail(&d->side[0].peer, FI_ECONNABORTED, d->now);
	assert_int_equal(d->side[0].m.tx.copied_bytes, 0);
	assert_int_equal(d->side[0].m.op_pool.used, 0);
}

/* What need not be copied leaves memory for what is injected, which would have to be tried again without. */
DUO_TEST(send__early_memory, duo_new(false, 1 << 15))
{
	uint64_t sent = 0;

	duo_connect(d);
	for (; sent < UCCL_COPIED_MAX; sent += 1024) {
		assert_int_equal(duo_send(d, 0, UCCL_OPF_EARLY, src, 1024, 0, DUO_CTX(1)), 0);
		if (!duo_waiting(d, 0))
			break;
		d->side[0].ncomp = d->side[0].seen = 0;
	}
	assert_int_equal(sent, UCCL_COPIED_OPTIONAL);
	assert_int_equal(duo_send(d, 0, UCCL_OPF_INJECT, src, 4096, 0, DUO_CTX(2)), 0);
	duo_expect_from(d, 0, DUO_CTX(2), 0, 0);
	/* One that needs no memory goes on. */
	early(d, 0, src, 128, DUO_CTX(3), true);
	assert_int_equal(d->side[0].m.tx.copied_bytes, UCCL_COPIED_OPTIONAL + 4096);
	uccl_peer_fail(&d->side[0].peer, FI_ECONNABORTED, d->now);
	assert_int_equal(d->side[0].m.tx.copied_bytes, 0);
}

/* An injected message completes when its level of completion says, not when it was copied. */
DUO_TEST(send__inject_waits, duo_open())
{
	d->filter = duo_hold_all;
	duo_fill(src, 300, 3);
	assert_int_equal(duo_send(d, 0, UCCL_OPF_INJECT | UCCL_OPF_ACKED, src, 300, 0, DUO_CTX(1)), 0);
	assert_int_equal(duo_send(d, 0, UCCL_OPF_INJECT | UCCL_OPF_DELIVERY, src, 300, 0, DUO_CTX(2)), 0);
	memset(src, 0, 300);
	assert_null(duo_next(d, 0));
	duo_release(d, false);
	duo_run(d, SECOND);
	duo_expect_from(d, 0, DUO_CTX(1), 0, 0);
	assert_null(duo_next(d, 0));
	for (int i = 0; i < 2; i++) {
		assert_int_equal(duo_recv(d, 1, 0, dst, 300, 0, 0, DUO_CTX(3)), 0);
		duo_run(d, SECOND);
		duo_expect_from(d, 1, DUO_CTX(3), 0, 300);
		duo_check(dst, 300, 3);
	}
	duo_expect_from(d, 0, DUO_CTX(2), 0, 0);
	assert_int_equal(d->side[0].m.tx.copied_bytes, 0);
}

/* What is copied when it has left is complete then, or ends with its peer before. PROTOCOL R240 */
TEST(send__late_copy)
{
	for (int ends = 0; ends < 2; ends++) {
		struct duo *d = duo_open();
		struct uccl_msg_ep *m = &d->side[0].m;
		const uint8_t *to;

		m->tx.may_defer = true;
		duo_fill(src, 5000, 3);
		assert_int_equal(duo_send(d, 0, UCCL_OPF_EARLY, src, 5000, 0, DUO_CTX(1)), 0);
		m->tx.may_defer = false;
		assert_int_equal(duo_waiting(d, 0), 0);
		assert_true(m->tx.deferred->tx.env.ours && m->tx.deferred->tx.bulk.ours);
		assert_ptr_equal(uccl_msg_deferred_from(m, &to).iov_base, src);
		if (ends) {
			uccl_peer_fail(&d->side[0].peer, FI_ECONNABORTED, d->now);
			duo_expect_from(d, 0, DUO_CTX(1), FI_ECONNABORTED, 0);
		} else {
			uccl_msg_copy_deferred(m);
			duo_expect_from(d, 0, DUO_CTX(1), 0, 0);
			assert_memory_equal(to, src, 5000);
			memset(src, 0, 5000);
			duo_take(d, dst, 5000, 5000, 3);
		}
		assert_null(m->tx.deferred);
		assert_int_equal(m->tx.copied_bytes, 0);
		duo_free(d);
	}
}

/* The op of an early completion that api keeps is handed back when msg is through with it, and not before. */
DUO_TEST(send__early_is_not_put_twice, duo_open())
{
	for (int i = 0; i < 3; i++)
		assert_int_equal(duo_send(d, 0, UCCL_OPF_INJECT, src, 16, 0, DUO_CTX(i)), 0);
	assert_int_equal(duo_waiting(d, 0), 3);
	assert_int_equal(d->side[0].m.op_pool.used, 3);
	/* Never acknowledged: the peer's end frees them, without a second completion. */
	d->filter = duo_hold_all;
	duo_run(d, 10 * MS);
	assert_int_equal(d->side[0].m.op_pool.used, 3);
	uccl_peer_fail(&d->side[0].peer, FI_ECONNABORTED, d->now);
	assert_int_equal(d->side[0].m.op_pool.used, 0);
	assert_int_equal(d->side[0].ncomp, 3);
}

/* Complete means acknowledged: not before. */
DUO_TEST(send__completes_on_ack, duo_open())
{
	d->filter = duo_hold_all;
	assert_int_equal(duo_send(d, 0, 0, src, 100, 0, DUO_CTX(1)), 0);
	assert_int_equal(duo_send(d, 0, 0, src, 5000, 0, DUO_CTX(2)), 0);
	duo_run(d, 20 * MS);
	assert_null(duo_next(d, 0));
	d->filter = NULL;
	duo_run(d, SECOND);
	duo_expect_from(d, 0, DUO_CTX(1), 0, 0);
	duo_expect_from(d, 0, DUO_CTX(2), 0, 0);
}

static enum duo_verdict count_pto(struct duo *d, const struct duo_pkt *p)
{
	if (p->to == 1 && p->kind == UCCL_TX_PACKET && p->type == UCCL_PKT_CHUNK)
		d->n += p->data[4] & UCCL_FLAG_AR;
	return DUO_PASS;
}

/* In a stream envelope and rest are cut into packets of one length; not what the peer has to ask for. PROTOCOL R260 */
TEST(send__even)
{
	static const struct { uint64_t len; uint32_t each; } sent[] = {
		{DUO_CHUNK, 0}, {DUO_CHUNK + 1, 520}, {4000, 1000}, {4001, 1008}, {DUO_EAGER, 1024}, {DUO_EAGER + 8, 0},
	};

	for (size_t i = 0; i < sizeof(sent) / sizeof(sent[0]); i++) {
		struct duo *d = duo_open();
		struct uccl_flow *f = &d->side[0].peer.flow;
		uint64_t flying = f->sent.inflight_bytes;
		const struct uccl_item *env, *rest;

		f->cfg.train.pads_tx = true;
		f->train_bytes = 2 * DUO_EAGER;
		f->sent.inflight_bytes = 1 << 17;
		duo_fill(src, sent[i].len, 1);
		assert_int_equal(duo_recv(d, 1, 0, dst, sent[i].len, 0, 0, DUO_CTX(2)), 0);
		assert_int_equal(duo_send(d, 0, 0, src, sent[i].len, 0, DUO_CTX(1)), 0);
		f->sent.inflight_bytes = flying;
		f->cfg.train.pads_tx = false;
		f->train_bytes = 0;
		env = TAILQ_FIRST(&f->sendq.records);
		rest = TAILQ_FIRST(&f->sendq.bulk);
		assert_int_equal(env->len, sent[i].each ? sent[i].each : DUO_CHUNK);
		assert_int_equal(env->each, sent[i].each);
		assert_int_equal(rest ? rest->each : 0, sent[i].each);
		duo_run(d, SECOND);
		duo_passed(d, sent[i].len);
		duo_check(dst, sent[i].len, 1);
		duo_free(d);
	}
}

/* One acknowledgement is asked for, with the last packet that leaves at once. PROTOCOL R168 */
TEST(send__asks_once)
{
	static const uint64_t len[] = {100, DUO_CHUNK, DUO_CHUNK + 1, DUO_EAGER};

	for (size_t i = 0; i < sizeof(len) / sizeof(len[0]); i++) {
		struct duo *d = duo_open();

		d->filter = count_pto;
		d->n = 0;
		duo_pass(d, false, 0, src, len[i], dst, len[i]);
		duo_passed(d, len[i]);
		assert_int_equal(d->n, 1);
		duo_free(d);
	}
}

/* PROTOCOL R33 */
TEST(send__delivery_waits_for_fin)
{
	static const uint64_t sizes[] = {0, 10, 3000, DUO_EAGER + 1};

	for (unsigned int i = 0; i < uccl_array_len(sizes); i++) {
		struct duo *d = duo_open();
		uint64_t n = sizes[i];

		duo_fill(src, n, i);
		assert_int_equal(duo_send(d, 0, UCCL_OPF_DELIVERY, src, n, 0, DUO_CTX(1)), 0);
		duo_run(d, SECOND);
		/* Received and acknowledged, but nobody wants it yet. */
		assert_true(uccl_flow_idle(&d->side[0].peer.flow));
		assert_null(duo_next(d, 0));
		d->filter = drop_rec_fin;
		d->n = 2;
		assert_int_equal(duo_recv(d, 1, 0, dst, n, 0, 0, DUO_CTX(2)), 0);
		duo_run(d, SECOND);
		duo_passed(d, n);
		duo_check(dst, n, i);
		assert_int_equal(d->side[1].m.rx_pool.used, 0);
		duo_free(d);
	}
}

/* Nobody receives it: the peer says so when its program throws it away, not before. PROTOCOL R300 */
TEST(send__delivery_by_discard)
{
	static const uint64_t sizes[] = {0, 10, 3000, DUO_EAGER + 1, 100000};
	struct uccl_op *op;

	for (unsigned int i = 0; i < 2 * uccl_array_len(sizes); i++) {
		struct duo *d = duo_open();
		uint64_t n = sizes[i / 2];
		bool claimed = i & 1;
		uint32_t flags = UCCL_OPF_DELIVERY | (claimed ? UCCL_OPF_INJECT : 0);

		duo_fill(src, n, i);
		assert_int_equal(duo_send(d, 0, flags, src, n, 0, DUO_CTX(1)), 0);
		duo_run(d, SECOND);
		op = duo_op(d, 1, UCCL_OP_RECV, 0);
		op->context = DUO_CTX(2);
		/* To look at it, or to keep it for later, is no match. */
		assert_int_equal(uccl_msg_peek(&d->side[1].m, op, claimed, false, d->now), 0);
		duo_run(d, SECOND);
		assert_null(duo_next(d, 0));
		if (claimed) {
			assert_int_equal(uccl_msg_recv_claimed(&d->side[1].m, op, true, d->now), 0);
			duo_expect(d, 1, DUO_CTX(2), 0, 0);
		} else {
			assert_int_equal(uccl_msg_peek(&d->side[1].m, op, false, true, d->now), 0);
			uccl_msg_ep_op_put(&d->side[1].m, op);
		}
		duo_run(d, SECOND);
		duo_expect_from(d, 0, DUO_CTX(1), 0, 0);
		assert_int_equal(d->side[1].m.rx_pool.used, 0);
		duo_free(d);
	}
}

/* A message that a rendezvous carries delivers by its last byte: no FIN is asked for. */
DUO_TEST(send__delivery_posted_first, duo_open())
{
	duo_fill(src, 100000, 3);
	assert_int_equal(duo_recv(d, 1, 0, dst, 100000, 0, 0, DUO_CTX(2)), 0);
	assert_int_equal(duo_recv(d, 1, 0, dst + 131072, 100, 0, 0, DUO_CTX(3)), 0);
	assert_int_equal(duo_send(d, 0, UCCL_OPF_DELIVERY, src, 100000, 0, DUO_CTX(1)), 0);
	assert_int_equal(duo_send(d, 0, UCCL_OPF_DELIVERY | UCCL_OPF_INJECT, src, 100, 0, DUO_CTX(4)), 0);
	duo_run(d, SECOND);
	assert_int_equal(duo_waiting(d, 0), 2);
	duo_check(dst, 100000, 3);
	duo_check(dst + 131072, 100, 3);
}

DUO_TEST(send__remote_data, duo_open())
{
	const struct duo_comp *c;
	struct uccl_op *op;

	for (int unexpected = 0; unexpected < 2; unexpected++)
		for (uint64_t n = 0; n < 40000; n = n * 20 + 10) {
			op = duo_op(d, 0, UCCL_OP_SEND, UCCL_OPF_DATA | UCCL_OPF_TAGGED);
			op->data = 0xfedcba9876543210 + n;
			op->tag = 0x1122334455667788;
			duo_buffer(op, src, n);
			if (!unexpected)
				assert_int_equal(duo_recv(d, 1, UCCL_OPF_TAGGED, dst, n, 0, UINT64_MAX, NULL), 0);
			assert_int_equal(uccl_msg_send(&d->side[0].m, op, d->now), 0);
			duo_run(d, SECOND);
			if (unexpected)
				assert_int_equal(duo_recv(d, 1, UCCL_OPF_TAGGED, dst, n, 0, UINT64_MAX, NULL), 0);
			duo_run(d, SECOND);
			c = duo_next(d, 1);
			assert_non_null(c);
			assert_true(c->flags & UCCL_OPF_DATA);
			assert_int_equal(c->data, 0xfedcba9876543210 + n);
			assert_int_equal(c->tag, 0x1122334455667788);
		}
	/* Without data the flag of a receive that carried it in says nothing. */
	assert_int_equal(duo_recv(d, 1, UCCL_OPF_DATA, dst, 4, 0, 0, NULL), 0);
	assert_int_equal(duo_send(d, 0, 0, src, 4, 0, NULL), 0);
	duo_run(d, SECOND);
	c = duo_next(d, 1);
	assert_non_null(c);
	assert_false(c->flags & UCCL_OPF_DATA);
}

DUO_TEST(send__without_connection, duo_new(false, 16))
{
	duo_fill(src, 3000, 4);
	assert_int_equal(duo_send(d, 0, 0, src, 3000, 0, DUO_CTX(1)), 0);
	assert_int_equal(d->side[0].connects, 1);
	assert_int_equal(duo_send(d, 0, UCCL_OPF_INJECT, src, 8, 0, DUO_CTX(2)), 0);
	assert_int_equal(d->side[0].peer.tx.mseq, 0);
	duo_expect_from(d, 0, DUO_CTX(2), 0, 0);
	assert_int_equal(duo_recv(d, 1, 0, dst, 4096, 0, 0, DUO_CTX(3)), 0);
	assert_int_equal(duo_recv(d, 1, 0, dst + 4096, 4096, 0, 0, DUO_CTX(4)), 0);
	duo_connect(d);
	duo_run(d, SECOND);
	/* The second is shorter, so it is complete first; the receives are matched in order all the same. */
	duo_expect_from(d, 1, DUO_CTX(4), 0, 8);
	duo_expect_from(d, 1, DUO_CTX(3), 0, 3000);
	duo_expect_from(d, 0, DUO_CTX(1), 0, 0);
	duo_check(dst, 3000, 4);
}

DUO_TEST(send__to_the_dead, duo_open())
{
	uccl_peer_fail(&d->side[0].peer, FI_ECONNRESET, d->now);
	assert_int_equal(duo_send(d, 0, 0, src, 10, 0, NULL), -FI_ECONNRESET);
	assert_int_equal(d->side[0].m.op_pool.used, 0);
	assert_null(duo_next(d, 0));
}

/* No handle left: nothing happened. */
DUO_TEST(send__no_handle, duo_open())
{
	struct uccl_ids *ids = &d->side[0].m.tx.ids;

	while (uccl_ids_get(ids, d))
		;
	assert_int_equal(ids->used, UCCL_IDS_MAX);
	assert_int_equal(duo_send(d, 0, 0, src, DUO_EAGER + 1, 0, NULL), -FI_EAGAIN);
	assert_int_equal(duo_send(d, 0, UCCL_OPF_INJECT | UCCL_OPF_DELIVERY, src, 500, 0, NULL), -FI_EAGAIN);
	assert_int_equal(d->side[0].peer.tx.mseq, 0);
	/* What needs none still goes. */
	assert_int_equal(duo_send(d, 0, 0, src, 10, 0, DUO_CTX(1)), 0);
	duo_run(d, SECOND);
	duo_expect_from(d, 0, DUO_CTX(1), 0, 0);
	uccl_ids_fini(ids);
	uccl_ids_init(ids);
}

/* A message whose rest has left, or has even arrived, before its envelope stays what it is. PROTOCOL R42 */
TEST(hold__rest_went_first)
{
	for (int acked = 0; acked < 2; acked++) {
		struct duo *d = duo_open();
		struct uccl_peer *p = &d->side[0].peer;
		struct uccl_env env;
		struct uccl_op *op;

		assert_int_equal(duo_send(d, 0, 0, src, DUO_CHUNK + 100, 0, DUO_CTX(1)), 0);
		op = TAILQ_FIRST(&p->tx.sends);
		if (acked) {
			assert_true(uccl_flow_withdraw(&p->flow, &op->tx.bulk));
			msg_tx_acked(&op->tx.bulk);
		} else {
			op->tx.bulk.off = 1;
		}
		p->flow.limits.envelopes_only = true;
		uccl_msg_hold(p);
		uccl_env_decode(&env, op->tx.env.rec);
		assert_true(env.flags & UCCL_ENV_EAGER);
		assert_int_equal(op->tx.env.len, DUO_CHUNK);
		assert_true(op->tx.env.queued);
		op->tx.bulk.off = 0;
		uccl_peer_fail(p, FI_ECONNABORTED, d->now);
		duo_free(d);
	}
}

/* A peer that is short of memory, is not, and is again: what it was told of before is not looked at again. */
DUO_TEST(hold__steps_do_not_grow, duo_open())
{
	struct uccl_peer *p = &d->side[0].peer;
	uint64_t steps;

	for (int i = 0; i < 900; i++)
		assert_int_equal(duo_send(d, 0, UCCL_OPF_DELIVERY, src, 100, 0, DUO_CTX(i)), 0);
	p->flow.limits.envelopes_only = true;
	steps = p->msg_ep->match.steps;
	uccl_msg_hold(p);
	assert_int_equal(p->msg_ep->match.steps - steps, 900);
	for (int i = 0; i < 10; i++) {
		struct uccl_env env;

		p->flow.limits.envelopes_only = false;
		assert_int_equal(duo_send(d, 0, UCCL_OPF_DELIVERY, src, 100, 0, DUO_CTX(900 + i)), 0);
		p->flow.limits.envelopes_only = true;
		steps = p->msg_ep->match.steps;
		uccl_msg_hold(p);
		assert_int_equal(p->msg_ep->match.steps - steps, 1);
		uccl_env_decode(&env, TAILQ_LAST(&p->tx.sends, uccl_op_list)->tx.env.rec);
		assert_false(env.flags & UCCL_ENV_EAGER);
	}
	uccl_peer_fail(p, FI_ECONNABORTED, d->now);
}

DUO_TEST(self__posted, duo_new(false, 16))
{
	const struct duo_comp *c;
	struct uccl_op *op;

	duo_fill(src, 100000, 6);
	assert_int_equal(duo_recv(d, 0, UCCL_OPF_TAGGED, dst, 100000, 0x70, 0xf, DUO_CTX(2)), 0);
	op = duo_op(d, 0, UCCL_OP_SEND, UCCL_OPF_TAGGED | UCCL_OPF_DATA | UCCL_OPF_DELIVERY);
	op->peer = &d->side[0].self;
	op->tag = 0x75;
	op->data = 99;
	op->iov[0] = (struct iovec){.iov_base = src, .iov_len = 1000};
	op->iov[1] = (struct iovec){.iov_base = src + 1000, .iov_len = 99000};
	op->iov_count = 2;
	op->len = 100000;
	assert_int_equal(uccl_msg_send(&d->side[0].m, op, d->now), 0);
	assert_int_equal(d->side[0].connects, 0);
	c = duo_next(d, 0);
	assert_int_equal(c->type, UCCL_OP_SEND);
	assert_int_equal(c->err, 0);
	c = duo_next(d, 0);
	assert_int_equal(c->type, UCCL_OP_RECV);
	assert_int_equal(c->err, 0);
	assert_int_equal(c->len, 100000);
	assert_int_equal(c->tag, 0x75);
	assert_int_equal(c->data, 99);
	assert_true(c->flags & UCCL_OPF_DATA);
	assert_ptr_equal(c->from, &d->side[0].self);
	duo_check(dst, 100000, 6);
}

DUO_TEST(self__unexpected, duo_new(false, 16))
{
	duo_fill(src, 300, 7);
	assert_int_equal(duo_send_self(d, 0, 0, src, 300, DUO_CTX(1)), 0);
	assert_int_equal(duo_send_self(d, 0, UCCL_OPF_INJECT, src, 200, DUO_CTX(2)), 0);
	/* Nobody has to answer, however little goes unsolicited. */
	d->side[0].m.eager_max = 0;
	assert_int_equal(duo_send_self(d, 0, UCCL_OPF_EARLY, src, 100, DUO_CTX(3)), 0);
	/* The first is complete when it is received, the others were copied. */
	assert_int_equal(duo_waiting(d, 0), 2);
	assert_ptr_equal(duo_next(d, 0)->context, DUO_CTX(2));
	assert_ptr_equal(duo_next(d, 0)->context, DUO_CTX(3));
	/* Truncated. */
	assert_int_equal(duo_recv(d, 0, 0, dst, 100, 0, 0, DUO_CTX(4)), 0);
	assert_int_equal(duo_waiting(d, 0), 2);
	assert_ptr_equal(duo_next(d, 0)->context, DUO_CTX(1));
	assert_int_equal(d->side[0].comp[3].err, FI_ETRUNC);
	assert_int_equal(d->side[0].comp[3].len, 100);
	assert_int_equal(d->side[0].comp[3].olen, 200);
	duo_check(dst, 100, 7);
	duo_next(d, 0);
	memset(src, 0, 300);
	assert_int_equal(duo_recv(d, 0, 0, dst, 1000, 0, 0, DUO_CTX(5)), 0);
	assert_int_equal(duo_next(d, 0)->len, 200);
	duo_check(dst, 200, 7);
	assert_int_equal(duo_recv(d, 0, 0, dst, 1000, 0, 0, DUO_CTX(6)), 0);
	assert_int_equal(duo_next(d, 0)->len, 100);
	assert_null(duo_next(d, 0));
	assert_int_equal(d->side[0].m.op_pool.used, 0);
	assert_int_equal(d->side[0].m.rx_pool.used, 0);
}

/* A directed receive from somebody else does not take it. */
DUO_TEST(self__directed, duo_new(false, 16))
{
	struct uccl_op *op;

	assert_int_equal(duo_recv(d, 0, UCCL_OPF_DIRECTED, dst, 10, 0, 0, DUO_CTX(1)), 0);
	assert_int_equal(duo_send_self(d, 0, 0, src, 10, DUO_CTX(2)), 0);
	assert_null(duo_next(d, 0));
	op = duo_op(d, 0, UCCL_OP_RECV, UCCL_OPF_DIRECTED);
	op->peer = &d->side[0].self;
	op->context = DUO_CTX(3);
	assert_int_equal(uccl_msg_recv(&d->side[0].m, op, d->now), 0);
	assert_ptr_equal(duo_next(d, 0)->context, DUO_CTX(2));
	assert_ptr_equal(duo_next(d, 0)->context, DUO_CTX(3));
	/* The receive from the other side ended with it. */
}

DUO_TEST(self__out_of_memory, duo_new(false, 16))
{
	d->side[0].m.rx_pool.max = 0;
	assert_int_equal(duo_send_self(d, 0, 0, src, 10, NULL), -FI_EAGAIN);
	assert_null(duo_next(d, 0));
}

/* Many messages at once, both ways, with loss: each comes once, whole, in order. */
static enum duo_verdict drop_some(struct duo *d, const struct duo_pkt *p)
{
	return ++d->n % 7 == 0 ? DUO_DROP : d->n % 11 == 0 ? DUO_DOUBLE : DUO_PASS;
}

DUO_TEST(send__many_with_loss, duo_open())
{
	d->filter = drop_some;
	duo_fill(src, 65536, 9);
	for (int i = 0; i < 60; i++)
		for (int s = 0; s < 2; s++) {
			uint64_t n = (uint64_t)i * (uint64_t)i * 11;

			assert_int_equal(duo_recv(d, s, 0, dst + s * 131072 + (i % 3) * 40000, 40000, 0, 0, DUO_CTX(i)),
					 0);
			assert_int_equal(duo_send(d, s, 0, src + i, n, 0, DUO_CTX(100 + i)), 0);
			if (i % 3 == 2)
				duo_run(d, 10 * SECOND);
		}
	duo_run(d, 10 * SECOND);
	for (int s = 0; s < 2; s++) {
		int recvs = 0;

		assert_int_equal(duo_waiting(d, s), 120);
		for (const struct duo_comp *c = duo_next(d, s); c; c = duo_next(d, s)) {
			assert_int_equal(c->err, 0);
			if (c->type != UCCL_OP_RECV)
				continue;
			recvs++;
			assert_int_equal(c->len, (uint64_t)c->context * (uint64_t)c->context * 11);
			if ((uint64_t)c->context >= 57)
				assert_memory_equal(c->buf, src + (uint64_t)c->context, c->len);
		}
		assert_int_equal(recvs, 60);
	}
}

TESTS_MAIN
