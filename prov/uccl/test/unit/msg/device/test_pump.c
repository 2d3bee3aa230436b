/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "msg/device/pump.h"

#include "../duo.h"
#include "msg/abort.h"
#include "../../tests.h"

#define LARGE (3u << 20)

static uint8_t host[LARGE], sent[LARGE];

static enum duo_verdict drop_all(struct duo *d, const struct duo_pkt *p)
{
	return DUO_DROP;
}

TEST(pump__whole_payload)
{
	static const uint64_t sizes[] = {10000, UCCL_PUMP_BUF_BYTES, UCCL_PUMP_BUF_BYTES + 1, LARGE};

	for (unsigned int i = 0; i < 8; i++) {
		struct duo *d = duo_open();
		struct duo_gpu *g = duo_gpu(d, 0);
		uint64_t len = sizes[i / 2];
		const struct duo_comp *c;

		g->lends = i % 2;
		duo_fill(g->mem, len, i);
		duo_pass(d, false, 0, DUO_GPU, len, host, len);
		c = duo_next(d, 0);
		assert_true(c && c->context == DUO_CTX(1) && !c->err);
		c = duo_next(d, 1);
		assert_true(c && c->len == len);
		duo_check(host, len, i);
		assert_int_equal(d->side[0].m.pumps.bytes, 0);
		duo_free(d);
	}
}

/* Nothing of the payload is held in the host's memory before it is asked for, and then only some parts. */
DUO_TEST(pump__holds_little, duo_open())
{
	struct duo_gpu *g = duo_gpu(d, 0);
	int parts = 0;

	duo_fill(g->mem, LARGE, 7);
	assert_int_equal(duo_send(d, 0, 0, DUO_GPU, LARGE, 0, DUO_CTX(2)), 0);
	duo_run(d, 20 * MS);
	assert_int_equal(g->queued, 0);
	assert_int_equal(duo_recv(d, 1, 0, host, LARGE, 0, 0, DUO_CTX(1)), 0);
	while (!duo_waiting(d, 1)) {
		struct uccl_item *item;

		duo_round(d);
		/* Each part knows how much comes after it. */
		TAILQ_FOREACH(item, &d->side[0].peer.flow.sendq.bulk, link) {
			uint64_t end = LARGE - uccl_get64(item->rec + 8) - item->len;

			assert_int_equal(item->more, end);
			parts++;
		}
		assert_true(d->side[0].m.pumps.bytes <= UCCL_PUMP_BUFS * UCCL_PUMP_BUF_BYTES);
	}
	assert_true(parts > 0);
	duo_check(host, LARGE, 7);
}

DUO_TEST(pump__waits_for_memory, duo_open())
{
	struct duo_gpu *g = duo_gpu(d, 0);
	struct uccl_msg_ep *m = &d->side[0].m;

	duo_fill(g->mem, 2 * LARGE, 8);
	m->pumps.bytes = UCCL_PUMPED_MAX;
	for (int i = 0; i < 3; i++) {
		assert_int_equal(duo_recv(d, 1, 0, host, 100000, 0, 0, DUO_CTX(1)), 0);
		assert_int_equal(duo_send(d, 0, 0, DUO_GPU, 100000, 0, DUO_CTX(2)), 0);
	}
	duo_run(d, 20 * MS);
	assert_int_equal(duo_waiting(d, 1), 0);
	assert_false(TAILQ_EMPTY(&m->pumps.waiting));
	assert_false(uccl_msg_waits(m));
	/* Room for one at a time: each that ends makes room for the next. */
	m->pumps.bytes = UCCL_PUMPED_MAX - 100000;
	msg_pumps_run(m);
	duo_run(d, 100 * MS);
	assert_int_equal(duo_waiting(d, 1), 3);
	assert_true(TAILQ_EMPTY(&m->pumps.waiting));
	m->pumps.bytes -= UCCL_PUMPED_MAX - 100000;
}

/* The host had no memory, and nobody has some that will come back: who waits is looked at again. PROTOCOL R312 */
DUO_TEST(pump__tries_again, duo_open())
{
	struct uccl_msg_ep *m = &d->side[0].m;

	duo_gpu(d, 0);
	m->pumps.bytes = UCCL_PUMPED_MAX;
	duo_pass(d, false, 0, DUO_GPU, 100000, host, 100000);
	m->pumps.bytes = 0;
	assert_true(uccl_msg_waits(m));
	uccl_msg_retry(m, d->now);
	assert_false(uccl_msg_waits(m));
	duo_run(d, 100 * MS);
	assert_int_equal(duo_waiting(d, 1), 1);
}

/* Those that wait, and those under way, end with their peer. */
DUO_TEST(pump__ends_with_the_peer, duo_open())
{
	struct uccl_msg_ep *m = &d->side[0].m;

	duo_gpu(d, 0)->lends = true;
	m->pumps.bytes = UCCL_PUMPED_MAX - LARGE;
	for (int i = 0; i < 5; i++) {
		assert_int_equal(duo_recv(d, 1, 0, host, LARGE, 0, 0, DUO_CTX(1)), 0);
		assert_int_equal(duo_send(d, 0, 0, DUO_GPU, LARGE, 0, DUO_CTX(2)), 0);
	}
	for (int i = 0; i < 10; i++)
		duo_round(d);
	assert_false(TAILQ_EMPTY(&m->pumps.waiting));
	uccl_peer_fail(&d->side[0].peer, FI_ECONNRESET, d->now);
	assert_true(TAILQ_EMPTY(&m->pumps.waiting));
	assert_int_equal(m->pumps.bytes, UCCL_PUMPED_MAX - LARGE);
	assert_int_equal(duo_waiting(d, 0), 5);
	m->pumps.bytes = 0;
}

/* The peer was promised bytes that cannot be had: nothing else is left than to part. */
DUO_TEST(pump__copy_fails, duo_open())
{
	struct duo_gpu *g = duo_gpu(d, 0);
	const struct duo_comp *c;

	assert_int_equal(duo_recv(d, 1, 0, host, LARGE, 0, 0, DUO_CTX(1)), 0);
	assert_int_equal(duo_send(d, 0, 0, DUO_GPU, LARGE, 0, DUO_CTX(2)), 0);
	g->failing = 1;
	duo_run(d, 100 * MS);
	assert_int_equal(d->side[0].broken, FI_EFAULT);
	assert_int_equal(duo_waiting(d, 1), 0);
	uccl_peer_fail(&d->side[0].peer, FI_EFAULT, d->now);
	c = duo_next(d, 0);
	assert_true(c && c->err == FI_EFAULT);
}

/*
 * Taken back at each point of its way, also while parts are loaded, or wait for memory: then the program has its memory
 * again, nothing of it arrives, and the next one goes on. PROTOCOL R361
 */
static void aborts(bool reads)
{
	uint32_t back = 0, loading = 0;

	for (int n = 0; n < 4 * 60; n++) {
		bool stuck = n & 1, silent = n & 2;
		struct duo *d = duo_open();
		struct duo_gpu *g = duo_gpu(d, 0);
		struct duo_side *s = &d->side[0];
		const struct duo_comp *c, *r;

		s->peer.aborts = true;
		msg_tx_listing(&s->peer);
		g->lends = n & 4;
		g->reads = reads;
		duo_fill(g->mem, LARGE, 3);
		memcpy(sent, g->mem, LARGE);
		memset(host, 0, LARGE);
		if (n / 4 == 7)
			s->m.pumps.bytes = UCCL_PUMPED_MAX;
		assert_int_equal(duo_recv(d, 1, 0, host, LARGE, 0, 0, DUO_CTX(1)), 0);
		assert_int_equal(duo_send(d, 0, 0, DUO_GPU, LARGE, 0, DUO_CTX(2)), 0);
		for (int i = 0; i < n / 4; i++) {
			g->stuck = stuck && i > n / 8;
			duo_round(d);
		}
		loading += g->done != g->queued;
		if (duo_waiting(d, 0)) {
			duo_free(d);
			continue;
		}
		d->filter = silent ? drop_all : NULL;
		if (silent)
			duo_round(d);
		g->stuck = false;
		assert_int_equal(uccl_msg_abort(&s->m, DUO_CTX(2), d->now), 0);
		duo_run(d, UCCL_ABORT_NS - MS);
		if (!duo_waiting(d, 0)) {
			d->now = uccl_msg_aborts_due(&s->m);
			uccl_msg_aborts_expire(&s->m, true, d->now);
		}
		c = duo_next(d, 0);
		assert_true(c && c->context == DUO_CTX(2) && (!c->err || c->err == FI_ECANCELED));
		back += c->err != 0;
		/* No copy is under way when the program hears of the end, and no NIC reads. */
		assert_int_equal(g->done, g->queued);
		assert_int_equal(g->sources, 0);
		assert_true(!c->err || !silent || !g->unread);
		duo_fill(g->mem, LARGE, 4);
		d->filter = NULL;
		duo_run(d, 60 * SECOND);
		/* Nobody heard of it, and its receive waits. */
		if (!duo_waiting(d, 1))
			assert_int_equal(uccl_msg_cancel(&d->side[1].m, DUO_CTX(1)), 0);
		r = duo_next(d, 1);
		assert_true(r && (!r->err || r->err == FI_ECANCELED));
		for (uint32_t i = 0; i < LARGE; i++)
			assert_true(!host[i] || host[i] == sent[i]);
		s->m.pumps.bytes -= n / 4 == 7 ? UCCL_PUMPED_MAX : 0;
		assert_int_equal(s->m.pumps.bytes, 0);
		assert_int_equal(g->loans, 0);
		duo_pass(d, false, 0, DUO_GPU, LARGE, host, LARGE);
		duo_passed(d, LARGE);
		duo_check(host, LARGE, 4);
		duo_free(d);
	}
	assert_true(back > 100 && (reads || loading > 20));
}

TEST(abort__in_parts)
{
	aborts(false);
}

/* Memory of a device that the NIC reads is copied for a silent peer, too. PROTOCOL R364 */
TEST(abort__read_by_the_nic)
{
	aborts(true);
}

/* It cannot be copied: what is promised to the peer cannot be had, and the program has its memory in time. */
DUO_TEST(abort__read_fails, duo_open())
{
	struct duo_gpu *g = duo_gpu(d, 0);
	struct duo_side *s = &d->side[0];

	s->peer.aborts = true;
	msg_tx_listing(&s->peer);
	g->reads = true;
	assert_int_equal(duo_recv(d, 1, 0, host, LARGE, 0, 0, DUO_CTX(1)), 0);
	assert_int_equal(duo_send(d, 0, 0, DUO_GPU, LARGE, 0, DUO_CTX(2)), 0);
	while (!g->read)
		duo_round(d);
	d->filter = drop_all;
	assert_int_equal(uccl_msg_abort(&s->m, DUO_CTX(2), d->now), 0);
	duo_run(d, UCCL_ABORT_NS - MS);
	g->failing = 1;
	d->now = uccl_msg_aborts_due(&s->m);
	uccl_msg_aborts_expire(&s->m, true, d->now);
	assert_int_equal(s->broken, FI_EFAULT);
	duo_expect(d, 0, DUO_CTX(2), FI_ECANCELED, 0);
	assert_int_equal(g->sources, 0);
}

TESTS_MAIN
