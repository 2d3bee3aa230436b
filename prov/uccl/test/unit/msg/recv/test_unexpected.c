/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "../duo.h"
#include "../../tests.h"

static uint8_t src[1 << 18], dst[1 << 18];

/* PROTOCOL R42 */
DUO_TEST(short__envelopes_only, duo_open())
{
	d->side[1].m.unexpected.max = 4000;
	duo_fill(src, 8000, 7);
	duo_send(d, 0, 0, src, 8000, 0, DUO_CTX(0));
	duo_run(d, SECOND);
	assert_true(d->side[1].peer.flow.rx.ack_tracker.rcv_short);
	assert_true(d->side[0].peer.flow.limits.envelopes_only);
	assert_int_equal(d->side[1].m.unexpected.bytes, 8000);
	for (int i = 1; i < 6; i++)
		duo_send(d, 0, i == 5 ? UCCL_OPF_INJECT : 0, src, (uint64_t)i * 1500, 0, DUO_CTX(i));
	duo_send(d, 0, 0, src, 0, 0, DUO_CTX(6));
	duo_run(d, SECOND);
	/* Not a byte more, and what has none is complete. */
	assert_int_equal(d->side[1].m.unexpected.bytes, 8000);
	assert_int_equal(d->side[1].stats.unexpected_bytes_max, 8000);
	assert_int_equal(duo_waiting(d, 0), 3);
	for (int i = 0; i < 7; i++) {
		uint64_t n = i == 0 ? 8000 : i == 6 ? 0 : (uint64_t)i * 1500;

		duo_take(d, dst, 8000, n, 7);
	}
	assert_int_equal(duo_waiting(d, 0), 7);
	/* The next message tells that there is room again. */
	duo_send(d, 0, 0, src, 100, 0, NULL);
	duo_run(d, SECOND);
	assert_false(d->side[0].peer.flow.limits.envelopes_only);
}

/*
 * What was queued before the receiver ran short follows as envelopes too: no more comes unsolicited than is in flight,
 * and every message arrives in the end, whole and in order. PROTOCOL R42
 */
DUO_TEST(short__queued_too, duo_open())
{
	static const uint64_t sizes[] = { 1000, 0, 5000, 300, 1024, 8192 };
	const int n = 600;
	const struct duo_comp *c;

	d->side[1].m.unexpected.max = 4000;
	duo_fill(src, 8192, 7);
	for (int i = 0; i < n; i++)
		assert_int_equal(duo_send(d, 0, i % 5 == 4 ? UCCL_OPF_INJECT : 0, src, sizes[i % 6], 0, DUO_CTX(i)), 0);
	duo_run(d, SECOND);
	/* Envelopes go first, so the window holds the beginnings of 256 messages; all would have been 1.5 MB. */
	assert_in_range(d->side[1].stats.unexpected_bytes_max, 4000, 256 * 15516 / 6);
	for (int i = 0; i < n; i++) {
		duo_take(d, dst, 8192, sizes[i % 6], 7);
	}
	for (int i = 0; i < n; i++) {
		c = duo_next(d, 0);
		assert_non_null(c);
		assert_int_equal(c->err, 0);
	}
	assert_null(duo_next(d, 0));
	assert_int_equal(d->side[0].m.tx.copied_bytes, 0);
}

/* Heads that had not left become envelopes, too, and new ones have none. PROTOCOL R42 R263 */
TEST(short__none_unsolicited)
{
	const int n = 300, heads = 1;
	struct duo *d = duo_open_unsolicited();
	struct uccl_msg_rx *rx;
	int i;

	d->side[1].m.unexpected.max = 4000;
	duo_fill(src, 40000, 7);
	for (i = 0; i < n + heads; i++)
		duo_send(d, 0, 0, src, i < n ? 1000 : 40000, 0, DUO_CTX(i));
	assert_int_equal(d->side[0].peer.tx.unsolicited_bytes, heads * 4 * DUO_EAGER);
	duo_run(d, SECOND);
	assert_true(d->side[0].peer.flow.limits.envelopes_only);
	assert_int_equal(d->side[0].peer.tx.unsolicited_bytes, 0);
	duo_send(d, 0, 0, src, 40000, 0, DUO_CTX(i++));
	duo_run(d, SECOND);
	rx = TAILQ_LAST(&d->side[1].peer.rx.all, uccl_msg_rx_list);
	for (int k = 0; k <= heads; k++, rx = TAILQ_PREV(rx, uccl_msg_rx_list, plink)) {
		assert_int_equal(rx->env.len, 40000);
		assert_int_equal(rx->arrived.got, 0);
	}
	for (i = 0; i <= n + heads; i++) {
		duo_take(d, dst, 40000, i < n ? 1000 : 40000, 7);
	}
	duo_all_done(d, n + heads + 1);
}

/* A peer that goes on all the same fills no more than an honest one may have had in flight. PROTOCOL R42 */
DUO_TEST(short__ignored, duo_open())
{
	struct uccl_env env = { .len = UCCL_EAGER_MAX, .flags = UCCL_ENV_EAGER };
	uint64_t most = (2 * 4000 + UCCL_UNEXPECTED_MORE) / 2;
	enum uccl_drop reason;

	d->side[1].m.unexpected.max = 4000;
	do {
		reason = duo_envelope(d, 1, &env, src, 1);
		env.mseq++;
	} while (reason == UCCL_DROP_COUNT && env.mseq < 1000);
	assert_int_equal(reason, UCCL_DROP_MEMORY);
	assert_in_range(d->side[1].peer.unexpected.bytes, most - 2 * UCCL_EAGER_MAX, most);
	env.mseq += 1;
	assert_int_equal(duo_envelope(d, 1, &env, src, 1), UCCL_DROP_MEMORY);
	assert_int_equal(duo_eager(d, 1, 2000, 0, UCCL_EAGER_MAX, src, 1), UCCL_DROP_MEMORY);
	uccl_peer_fail(&d->side[1].peer, FI_ECONNABORTED, d->now);
}

/* What lanes keep leaves less to the primary: both have one account. PROTOCOL R313 */
DUO_TEST(hold__beside_lanes, duo_open())
{
	struct uccl_env env = { .len = UCCL_EAGER_MAX, .flags = UCCL_ENV_EAGER };
	struct uccl_msg_ep *m = &d->side[1].m;
	uint64_t all = 2 * 4000 + UCCL_UNEXPECTED_MORE;

	m->unexpected.max = 4000;
	m->unplaced.bytes = all / 2;
	while (duo_envelope(d, 1, &env, src, 1) == UCCL_DROP_COUNT)
		env.mseq++;
	/* Half of the other half. */
	assert_in_range(m->unexpected.bytes, all / 4 - 2 * UCCL_EAGER_MAX, all / 4);
	m->unplaced.bytes = 0;
	assert_int_equal(duo_envelope(d, 1, &env, src, 1), UCCL_DROP_COUNT);
	uccl_peer_fail(&d->side[1].peer, FI_ECONNABORTED, d->now);
}

/*
 * The memory of what was kept serves what is kept next, and tells that nothing: of this only a part comes, and then its
 * sender ends.
 */
DUO_TEST(buffer__again, duo_open())
{
	struct uccl_buf_cache *spare = &d->side[1].m.unexpected.cache;

	duo_fill(src, 8000, 7);
	for (int i = 0; i < 3; i++) {
		duo_send(d, 0, 0, src, 8000, 0, DUO_CTX(0));
		duo_run(d, SECOND);
		assert_int_equal(spare->kept, 0);
		duo_take(d, dst, 8000, 8000, 7);
#ifndef __SANITIZE_ADDRESS__
		assert_int_equal(spare->kept, UCCL_BUF_CACHE_BYTES(1));
#endif
	}
	assert_int_equal(duo_eager(d, 1, 4, 8000 - 1, 8000, src, 1), UCCL_DROP_COUNT);
	assert_int_equal(spare->kept, 0);
	for (int i = 0; i < 8000 - 1; i++)
		assert_int_equal(TAILQ_LAST(&d->side[1].peer.rx.all, uccl_msg_rx_list)->hold.buf[i], 0);
	uccl_peer_fail(&d->side[1].peer, FI_ECONNABORTED, d->now);
}

TESTS_MAIN
