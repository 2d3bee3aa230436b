/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The log of what was sent, alone, beside a plain array of what was done. */
#include "flow/send/sent.h"

#include "../../tests.h"

#include <stdlib.h>
#include <sys/resource.h>

#include "base/rng.h"
#include "base/units.h"

#define WINDOW 256
#define FIRST (UINT64_MAX / 2 - 100)
#define LONG_BYTES 1000
#define CHUNKS 20000

static const uint8_t rec[UCCL_REC_LEN] = {1, 2, 3};
static struct uccl_item item;
static struct uccl_sent_log l;

static int setup(void **state)
{
	item = (struct uccl_item){.rtype = 7};
	return uccl_sent_init(&l, WINDOW, FIRST) ? 0 : -1;
}

static int teardown(void **state)
{
	uccl_sent_fini(&l);
	return 0;
}

/* Returns its CSN. */
static uint64_t add(uint32_t len)
{
	assert_true(uccl_sent_room(&l));
	uccl_sent_add(&l, &item, 3, rec, NULL, len, 5, 1000);
	return l.nxt - 1;
}

static void again(uint64_t csn)
{
	uint64_t next;
	struct uccl_sent *e = uccl_sent_next(&l, &next);

	assert_non_null(e);
	assert_true(next == csn);
	assert_ptr_equal(e, uccl_sent_at(&l, csn));
	uccl_sent_again(&l, e, 2000);
}

TEST_IN(init__nothing_was_sent, setup, teardown)
{
	uint64_t csn;

	assert_true(l.una == FIRST && l.nxt == FIRST && l.high_acked == FIRST);
	assert_false(uccl_sent_waits(&l));
	assert_false(uccl_sent_outstanding(&l));
	assert_null(uccl_sent_next(&l, &csn));
	assert_int_equal(uccl_sent_unacked(&l), 0);
	assert_null(uccl_sent_check(&l));
}

TEST_IN(grow__at_full, setup, teardown)
{
	for (uint32_t n = 0; n < WINDOW; n++) {
		assert_int_equal(l.cap, n <= 64 ? 64 : n <= 128 ? 128 : 256);
		add(n);
	}
	/* The window is full. */
	assert_false(uccl_sent_room(&l));
	for (uint32_t n = 0; n < WINDOW; n++)
		assert_int_equal(uccl_sent_at(&l, FIRST + n)->len, n);
	assert_null(uccl_sent_check(&l));
	uccl_sent_acked(&l, FIRST);
	assert_false(uccl_sent_room(&l));
	uccl_sent_advance(&l);
	assert_true(uccl_sent_room(&l));
}

/* Queues are moved in their order, though their rings have wrapped. */
TEST_IN(grow__keeps_the_queues, setup, teardown)
{
	for (int i = 0; i < 200; i++) {
		uint64_t csn = add(i % 2 ? 10 : LONG_BYTES);

		uccl_sent_lost(&l, csn, false);
		again(csn);
		uccl_sent_acked(&l, csn);
		uccl_sent_advance(&l);
	}
	for (int i = 0; i < 64; i++)
		add(i % 2 ? 10 : LONG_BYTES);
	for (uint64_t csn = l.nxt; csn-- > l.una;)
		uccl_sent_lost(&l, csn, false);
	assert_int_equal(l.cap, 64);
	assert_true(uccl_sent_room(&l));
	assert_int_equal(l.cap, 128);
	for (uint64_t csn = l.nxt - 1; csn > l.una; csn -= 2)
		again(csn);
	for (uint64_t csn = l.nxt - 2; csn >= l.una; csn -= 2)
		again(csn);
	assert_null(uccl_sent_check(&l));
}

TEST_IN(grow__no_memory, setup, teardown)
{
	struct rlimit before, low;
	struct uccl_sent_log was;
	bool room;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
	skip(); /* such a build needs more address space than any limit leaves */
#endif
	for (int i = 0; i < 64; i++)
		add(LONG_BYTES);
	uccl_sent_lost(&l, FIRST + 1, false);
	/* As if it were so large. */
	l.cap = 1u << 29;
	l.window = 1u << 30;
	was = l;
	assert_int_equal(getrlimit(RLIMIT_AS, &before), 0);
	low = before;
	low.rlim_cur = 1u << 30;
	assert_int_equal(setrlimit(RLIMIT_AS, &low), 0);
	room = uccl_sent_grow(&l);
	assert_int_equal(setrlimit(RLIMIT_AS, &before), 0);
	assert_false(room);
	assert_memory_equal(&l, &was, sizeof(l));
	l.cap = 64;
	l.window = WINDOW;
	assert_null(uccl_sent_check(&l));
	again(FIRST + 1);
	assert_true(uccl_sent_room(&l));
}

TEST_IN(lost__small_ones_first, setup, teardown)
{
	uint64_t n;

	add(LONG_BYTES);
	n = add(UCCL_CONTROL_BYTES + 1);
	add(UCCL_CONTROL_BYTES);
	/* A direct write is long, however few bytes it has. */
	add(8);
	uccl_sent_write(uccl_sent_at(&l, n + 2), 1);
	for (uint64_t csn = n - 1; csn < l.nxt; csn++)
		uccl_sent_lost(&l, csn, csn == n);
	assert_int_equal(l.repairs, 4);
	assert_int_equal(l.inflight_chunks, 0);
	assert_int_equal(l.inflight_bytes, 0);
	assert_int_equal(uccl_sent_backlog(&l), LONG_BYTES + UCCL_CONTROL_BYTES + 1 + 8);
	assert_true(uccl_sent_at(&l, n)->timed_out);
	assert_false(uccl_sent_at(&l, n + 1)->timed_out);
	again(n + 1);
	again(n - 1);
	again(n);
	again(n + 2);
	assert_false(uccl_sent_waits(&l));
	assert_true(uccl_sent_outstanding(&l));
	/* Not repaired before they are acknowledged. */
	assert_int_equal(l.repairs, 4);
	uccl_sent_lost(&l, n, false);
	assert_int_equal(l.repairs, 4);
	assert_false(uccl_sent_at(&l, n)->timed_out);
	assert_int_equal(uccl_sent_at(&l, n)->ntx, 2);
	uccl_sent_acked(&l, n);
	assert_int_equal(l.repairs, 3);
	assert_null(uccl_sent_check(&l));
}

TEST_IN(lost__came_after_all, setup, teardown)
{
	uint64_t n, csn;

	n = add(LONG_BYTES);
	add(LONG_BYTES);
	uccl_sent_lost(&l, n, false);
	uccl_sent_lost(&l, n + 1, false);
	uccl_sent_acked(&l, n);
	assert_true(uccl_sent_is_acked(&l, n));
	assert_false(uccl_sent_is_lost(&l, n));
	assert_int_equal(l.repairs, 1);
	assert_int_equal(l.inflight_chunks, 0);
	uccl_sent_advance(&l);
	/* It is in the queue yet; the one behind it is what waits. */
	assert_true(uccl_sent_is_acked(&l, n));
	assert_int_equal(uccl_sent_backlog(&l), LONG_BYTES);
	again(n + 1);
	uccl_sent_lost(&l, n + 1, false);
	uccl_sent_acked(&l, n + 1);
	uccl_sent_advance(&l);
	assert_true(uccl_sent_waits(&l));
	assert_true(uccl_sent_outstanding(&l));
	assert_int_equal(uccl_sent_backlog(&l), 0);
	assert_null(uccl_sent_next(&l, &csn));
	assert_false(uccl_sent_outstanding(&l));
	assert_int_equal(item.pending, 0);
}

/* The place of one that came after all is another's, who waits too: it counts where it waits, and once. */
TEST_IN(lost__place_of_another, setup, teardown)
{
	uint64_t csn;

	add(LONG_BYTES);
	uccl_sent_lost(&l, FIRST, false);
	uccl_sent_acked(&l, FIRST);
	uccl_sent_advance(&l);
	for (int i = 0; i < 64; i++)
		add(10);
	assert_int_equal(l.cap, 64);
	uccl_sent_lost(&l, FIRST + 64, false);
	assert_ptr_equal(uccl_sent_at(&l, FIRST), uccl_sent_at(&l, FIRST + 64));
	assert_false(uccl_sent_is_lost(&l, FIRST));
	assert_true(uccl_sent_is_lost(&l, FIRST + 64));
	assert_int_equal(uccl_sent_backlog(&l), 0);
	assert_non_null(uccl_sent_next(&l, &csn));
	assert_true(csn == FIRST + 64);
}

static const struct uccl_run_cfg row_cfg = {.pseq = 40, .flags = UCCL_FLAG_RTX, .last = UCCL_FLAG_AR};

/* So many of the row that is under way leave. */
static void row_leaves(int n)
{
	while (n--)
		uccl_sent_run_next(&l);
	assert_null(uccl_sent_check(&l));
}

TEST_IN(wait__new_ones, setup, teardown)
{
	struct uccl_sent *e;
	uint64_t n, csn;

	n = add(LONG_BYTES);
	uccl_sent_wait(&l, n);
	e = uccl_sent_next(&l, &csn);
	assert_true(csn == n);
	/* Nothing was lost, nothing of it has left. */
	assert_int_equal(l.repairs, 0);
	assert_int_equal(e->ntx, 0);
	assert_true(e->unsent);
	assert_true(e->single);
	assert_int_equal(uccl_sent_slots(&l), 0);
	/* In place of a write the first transmission counts: its loss is what it leaves with. */
	n = add(LONG_BYTES);
	uccl_sent_write(uccl_sent_at(&l, n), 2);
	uccl_sent_wait(&l, n);
	assert_int_equal(uccl_sent_at(&l, n)->ntx, 1);
	assert_true(uccl_sent_at(&l, n)->unsent);
	assert_false(uccl_sent_at(&l, n)->single);
	assert_int_equal(uccl_sent_at(&l, n)->behind, 2);
	assert_int_equal(uccl_get16(uccl_sent_at(&l, n)->rec + UCCL_SEGMENT_PATH), 5);
}

/* What is too long leaves in sub-segments of the one segment that it is. */
TEST_IN(divide__one_segment, setup, teardown)
{
	struct uccl_sent *e;
	uint32_t news;
	uint64_t n, csn;

	n = add(LONG_BYTES);
	uccl_sent_wait(&l, n);
	e = uccl_sent_next(&l, &csn);
	uccl_sent_route(e, 9);
	uccl_sent_cut_segments(&e->cut, e->len, 1);
	assert_int_equal(uccl_sent_cut_map(&e->cut)->count, 1);
	uccl_sent_divide(&l, e, 0, 3);
	assert_int_equal(l.kept, 1);
	assert_int_equal(uccl_sent_cut_map(&e->cut)->count, 3);
	/* Two of them leave, and are in flight although the first leaves only next. */
	uccl_sent_run(&l, n, 3, &row_cfg, 5000);
	assert_int_equal(e->ntx, 1);
	assert_false(e->unsent);
	assert_int_equal(e->path, 9);
	assert_int_equal(e->sent_ns, 5000);
	assert_int_equal(uccl_sent_slots(&l), 2);
	assert_int_equal(l.inflight_bytes, 2 * e->cut.subs.each);
	assert_int_equal(uccl_sent_pseq(e), 41);
	row_leaves(2);
	/* One of them came: the other one is in flight. Then none is, and the third waits. */
	assert_int_equal(uccl_sent_sub_named(&l, n, 1, &news), e->cut.subs.each);
	assert_int_equal(news, e->cut.subs.each);
	assert_int_equal(uccl_sent_missing(e), LONG_BYTES - e->cut.subs.each);
	assert_int_equal(uccl_sent_slots(&l), 1);
	assert_int_equal(uccl_sent_sub_named(&l, n, 2, &news), e->cut.subs.each);
	assert_int_equal(uccl_sent_slots(&l), 0);
	assert_int_equal(e->state, UCCL_SENT_LOST);
	assert_ptr_equal(uccl_sent_next(&l, &csn), e);
	/* Cut into more: of these the peer has none. */
	uccl_sent_divide(&l, e, 0, 5);
	assert_int_equal(l.kept, 1);
	assert_int_equal(uccl_sent_missing(e), LONG_BYTES);
	uccl_sent_run(&l, n, 31, &row_cfg, 6000);
	row_leaves(5);
	uccl_sent_acked(&l, n);
	uccl_sent_advance(&l);
	assert_int_equal(l.kept, 0);
	assert_null(uccl_sent_check(&l));
}

/* Of a train one segment at a time leaves so; others may come meanwhile, and it may come whole. */
TEST_IN(divide__of_a_train, setup, teardown)
{
	const struct uccl_run_cfg first = {.pseq = 1};

	for (int whole = 0; whole < 2; whole++)
		for (int flies = 0; flies < 2; flies++) {
			uint64_t n = add(4 * 800), csn;
			struct uccl_sent *e = uccl_sent_at(&l, n);
			uint32_t news;

			uccl_sent_train(&l, 4, &first);
			row_leaves(4);
			uccl_sent_lost(&l, n, false);
			assert_ptr_equal(uccl_sent_next(&l, &csn), e);
			uccl_sent_divide(&l, e, 0, 2);
			if (flies) {
				uccl_sent_run(&l, n, 3, &row_cfg, 5000);
				row_leaves(2);
			}
			assert_int_equal(uccl_sent_named(&l, n, 1 << 2, &news), 0);
			assert_int_equal(news, 800);
			assert_int_equal(uccl_sent_sub_named(&l, n, 1, &news), flies ? 400 : 0);
			assert_int_equal(news, 400);
			assert_int_equal(uccl_sent_missing(e), 2 * 800 + 400);
			/* With the rest of it, or all of it at once, that segment is there. */
			assert_int_equal(whole ? uccl_sent_named(&l, n, 1, &news)
					       : uccl_sent_sub_named(&l, n, 2, &news),
					 flies ? 400 : 0);
			assert_int_equal(news, 400);
			assert_int_equal(e->cut.subs.count, 0);
			assert_int_equal(l.kept, 0);
			assert_true(uccl_segment_map_missing(&e->cut.segments) == (1 << 1 | 1 << 3));
			assert_int_equal(e->state, UCCL_SENT_LOST);
			assert_null(uccl_sent_check(&l));
			uccl_sent_acked(&l, n);
			uccl_sent_advance(&l);
		}
}

/* What must wait for others goes behind all that wait, and comes back to the front. */
TEST_IN(next_later__each_in_turn, setup, teardown)
{
	uint64_t n, csn;

	n = add(LONG_BYTES);
	add(LONG_BYTES);
	add(LONG_BYTES);
	for (uint64_t i = 0; i < 3; i++)
		uccl_sent_lost(&l, n + i, false);
	for (uint64_t i = 1; i < 7; i++) {
		uccl_sent_next_later(&l);
		assert_non_null(uccl_sent_next(&l, &csn));
		assert_true(csn == n + i % 3);
	}
	/* Small ones are not held up. */
	add(10);
	uccl_sent_lost(&l, n + 3, false);
	again(n + 3);
	again(n);
	assert_null(uccl_sent_check(&l));
}

TEST_IN(again__counts, setup, teardown)
{
	struct uccl_sent *e;
	uint64_t n;

	n = add(10);
	e = uccl_sent_at(&l, n);
	for (int i = 2; i < 300; i++) {
		assert_int_equal(uccl_sent_ask(e), 0);
		assert_int_equal(uccl_sent_ask(e), 1);
		uccl_sent_lost(&l, n, false);
		again(n);
		assert_int_equal(e->ntx, uccl_min(i, UINT8_MAX));
	}
}

TEST_IN(read__holds_the_edge, setup, teardown)
{
	uint64_t n;

	n = add(10);
	add(10);
	uccl_sent_read(uccl_sent_at(&l, n));
	uccl_sent_read(uccl_sent_at(&l, n));
	assert_int_equal(item.pending, 4);
	uccl_sent_acked(&l, n + 1);
	uccl_sent_acked(&l, n);
	uccl_sent_advance(&l);
	assert_true(l.una == n);
	assert_false(uccl_sent_outstanding(&l));
	assert_null(uccl_sent_check(&l));
	assert_ptr_equal(uccl_sent_read_end(&l, n), &item);
	assert_true(l.una == n);
	assert_int_equal(item.pending, 1);
	/* Reads that nobody announced. */
	assert_null(uccl_sent_read_end(&l, n + 1));
	assert_null(uccl_sent_read_end(&l, n - 1));
	assert_null(uccl_sent_read_end(&l, n + 2));
	assert_null(uccl_sent_read_end(&l, n + l.cap));
	assert_null(uccl_sent_read_end(&l, UINT64_MAX));
	assert_ptr_equal(uccl_sent_read_end(&l, n), &item);
	assert_true(l.una == n + 2);
	assert_int_equal(uccl_sent_at(&l, n)->state, UCCL_SENT_FREE);
	assert_int_equal(item.pending, 0);
	assert_null(uccl_sent_read_end(&l, n));
}

TEST_IN(add__a_place_used_before, setup, teardown)
{
	struct uccl_sent *e = uccl_sent_at(&l, FIRST + 64);

	memset(e, 0xff, sizeof(*e));
	for (int i = 0; i < 64; i++) {
		add(0);
		uccl_sent_acked(&l, l.nxt - 1);
		uccl_sent_advance(&l);
	}
	assert_true(uccl_sent_room(&l));
	assert_ptr_equal(uccl_sent_add(&l, &item, 4, rec, (const uint8_t *)&item, 77, 6, 123), e);
	assert_int_equal(l.cap, 64);
	assert_memory_equal(e->rec, rec, sizeof(rec));
	assert_int_equal(e->state, UCCL_SENT_INFLIGHT);
	assert_int_equal(e->type, 4);
	assert_int_equal(e->rtype, 7);
	assert_int_equal(e->ntx, 1);
	assert_int_equal(e->path, 6);
	assert_int_equal(e->len, 77);
	assert_int_equal(e->sent_ns, 123);
	assert_ptr_equal(e->payload, &item);
	assert_ptr_equal(e->item, &item);
	assert_false(e->write || e->overdue || e->timed_out || e->repair || e->nic_reads || e->behind || e->single ||
		     e->slots != 1 || e->kept || e->packet.alone || e->packet.bytes || e->packet.pseq ||
		     e->cut.segments.count || e->cut.subs.count);
}

/* Of what the item's record says only where it begins is another, and in the log alone. */
TEST_IN(from__moves_its_beginning, setup, teardown)
{
	uint8_t want[UCCL_REC_LEN];
	struct uccl_sent *e;

	for (int i = 0; i < UCCL_REC_LEN; i++)
		item.rec[i] = want[i] = (uint8_t)(i + 1);
	uccl_put64(item.rec + 8, 0xfffffffffull);
	uccl_put64(want + 8, 0x1000000000ull);
	assert_true(uccl_sent_room(&l));
	e = uccl_sent_add(&l, &item, 3, item.rec, NULL, 10, 5, 1000);
	uccl_sent_from(e, 1);
	assert_memory_equal(e->rec, want, sizeof(want));
	assert_int_equal(uccl_get64(item.rec + 8), 0xfffffffffull);
}

/* --- any order, beside an array --- */

struct chunk {
	uint8_t state;
	uint8_t packets; /* in flight */
	bool repair;
	bool write;
	uint16_t reads;
	uint32_t len;
	uint64_t when;		/* lost: how many were lost before */
};

static struct chunk model[CHUNKS];
static uint32_t edge, end;	/* of the model: what is below is acknowledged and not read */
static uint64_t losses;

static bool is_small(const struct chunk *c)
{
	return c->len <= UCCL_CONTROL_BYTES && !c->write;
}

/* The model's answer to what is next; `end`: nothing. */
static uint32_t model_next(void)
{
	uint32_t best = end;

	for (uint32_t i = edge; i < end; i++) {
		const struct chunk *c = &model[i], *b = &model[best];

		if (c->state != UCCL_SENT_LOST)
			continue;
		if (best == end || (is_small(c) && !is_small(b)) || (is_small(c) == is_small(b) && c->when < b->when))
			best = i;
	}
	return best;
}

/* As one finds it who asks them all. */
static void model_maps_check(void)
{
	uint64_t flying = l.nxt;

	assert_true(uccl_sent_flying(&l, l.nxt, l.nxt) == l.nxt);
	for (uint32_t i = end; i-- > edge;) {
		flying = model[i].state == UCCL_SENT_INFLIGHT ? FIRST + i : flying;
		assert_true(uccl_sent_flying(&l, FIRST + i, l.nxt) == flying);
		assert_int_equal(uccl_sent_unacked_of(&l, FIRST + i, 1), model[i].state != UCCL_SENT_ACKED);
		/* Told together with what was acknowledged before. */
		assert_int_equal(uccl_sent_unacked_of(&l, FIRST + edge - 1, 1), 0);
		if (i - edge < 63)
			assert_int_equal(uccl_sent_unacked_of(&l, FIRST + edge - 1, 1 | 2ull << (i - edge)) != 0,
					 model[i].state != UCCL_SENT_ACKED);
	}
	assert_int_equal(uccl_sent_unacked_of(&l, l.una - 64, UINT64_MAX), 0);
}

static void model_check(void)
{
	uint32_t chunks = 0, repairs = 0, packets = 0, high = 0, pending = 0, unacked = 0;
	uint64_t bytes = 0, backlog = 0;

	assert_null(uccl_sent_check(&l));
	while (edge < end && model[edge].state == UCCL_SENT_ACKED && !model[edge].reads)
		edge++;
	assert_true(l.una == FIRST + edge && l.nxt == FIRST + end);
	for (uint32_t i = edge; i < end; i++) {
		const struct chunk *c = &model[i];
		const struct uccl_sent *e = uccl_sent_at(&l, FIRST + i);

		assert_int_equal(e->state, c->state);
		assert_int_equal(e->len, c->len);
		assert_int_equal(uccl_sent_is_acked(&l, FIRST + i), c->state == UCCL_SENT_ACKED);
		if (c->state == UCCL_SENT_INFLIGHT) {
			chunks++;
			bytes += c->len;
			packets += c->packets;
		}
		backlog += c->state == UCCL_SENT_LOST && !is_small(c) ? c->len : 0;
		repairs += c->repair;
		unacked += c->state != UCCL_SENT_ACKED;
		pending += (c->state != UCCL_SENT_ACKED) + c->reads;
		if (c->state == UCCL_SENT_ACKED)
			high = i + 1;
	}
	assert_int_equal(l.inflight_chunks, chunks);
	assert_int_equal(l.inflight_bytes, bytes);
	assert_int_equal(uccl_sent_slots(&l), packets);
	assert_int_equal(l.repairs, repairs);
	assert_int_equal(uccl_sent_backlog(&l), backlog);
	assert_int_equal(uccl_sent_unacked(&l), unacked);
	assert_int_equal(item.pending, pending);
	if (end % 16 == 0)
		model_maps_check();
	assert_true(l.high_acked == FIRST + uccl_max(high, edge));
	/* Nothing that is to be sent again is forgotten. */
	if (unacked > chunks)
		assert_true(uccl_sent_waits(&l));
}

static void model_add(struct uccl_rng *rng)
{
	struct chunk *c = &model[end];

	/* As the flow has it: no new ones of a kind before those that wait, so that the queues have room. */
	if (end - edge == WINDOW) {
		assert_false(uccl_sent_room(&l));
		return;
	}
	if (end == CHUNKS || model_next() != end)
		return;
	*c = (struct chunk){.state = UCCL_SENT_INFLIGHT, .packets = 1, .len = (uint32_t)uccl_rng_below(rng, 1000)};
	c->write = uccl_rng_below(rng, 4) == 0;
	end++;
	add(c->len);
	if (c->write)
		uccl_sent_write(uccl_sent_at(&l, l.nxt - 1), 1);
	if (uccl_rng_below(rng, 3) == 0) {
		uccl_sent_read(uccl_sent_at(&l, l.nxt - 1));
		c->reads++;
	}
	if (uccl_rng_below(rng, 8) == 0) {
		uccl_sent_wait(&l, l.nxt - 1);
		c->state = UCCL_SENT_LOST;
		c->when = losses++;
	}
}

static void model_again(struct uccl_rng *rng)
{
	uint32_t next = model_next(), count = 1 + (uint32_t)uccl_rng_below(rng, 4);
	struct uccl_sent *e;
	uint64_t csn = 0;

	e = uccl_sent_next(&l, &csn);
	if (next == end) {
		assert_null(e);
		return;
	}
	assert_ptr_equal(e, uccl_sent_at(&l, FIRST + next));
	assert_true(csn == FIRST + next);
	/* A long one in segments, all of them, which it is for good. */
	if (!is_small(&model[next]) && !e->cut.segments.count && count > 1 && e->len)
		uccl_sent_cut_segments(&e->cut, e->len, (uint8_t)uccl_min(count, (e->len + 7) / 8));
	if (e->cut.segments.count) {
		uccl_sent_run(&l, csn, uccl_segment_map_missing(&e->cut.segments), &row_cfg, 0);
		row_leaves(e->cut.segments.count);
	} else {
		uccl_sent_again(&l, e, 0);
	}
	model[next].packets = (uint8_t)uccl_max(e->cut.segments.count, 1);
	model[next].state = UCCL_SENT_INFLIGHT;
}

TEST_IN(all__any_order, setup, teardown)
{
	struct uccl_rng rng;

	uccl_rng_seed(&rng, 11);
	edge = end = 0;
	losses = 0;
	while (edge < CHUNKS) {
		uint32_t i = edge + (uint32_t)uccl_rng_below(&rng, end - edge + 1);
		/* More leaves, then more arrives: the log fills and empties. */
		uint32_t op = (uint32_t)uccl_rng_below(&rng, 16);
		bool fills = end / 1000 % 2 == 0 && end < CHUNKS;
		struct chunk *c = &model[i];

		if (op < (fills ? 10 : 3)) {
			model_add(&rng);
		} else if (op < 12) {
			model_again(&rng);
		} else if (i == end) {
			continue;
		} else if (op < 13 && c->state == UCCL_SENT_INFLIGHT) {
			uccl_sent_lost(&l, FIRST + i, op & 1);
			*c = (struct chunk){UCCL_SENT_LOST, 0, true, c->write, c->reads, c->len, losses++};
		} else if (op < 14 && c->reads) {
			assert_ptr_equal(uccl_sent_read_end(&l, FIRST + i), &item);
			c->reads--;
		} else if (op >= 14 && c->state != UCCL_SENT_ACKED) {
			uccl_sent_acked(&l, FIRST + i);
			c->state = UCCL_SENT_ACKED;
			c->repair = false;
			uccl_sent_advance(&l);
		}
		model_check();
	}
	assert_int_equal(l.cap, WINDOW);
	assert_int_equal(item.pending, 0);
}

TEST_IN(check__sees_each, setup, teardown)
{
	struct uccl_sent_log keep;
	struct uccl_sent *e, kept;

	add(10);
	add(10);
	keep = l;
	e = uccl_sent_at(&l, FIRST);
	kept = *e;
#define BROKEN(change)                                                                                                 \
	do {                                                                                                           \
		change;                                                                                                \
		assert_non_null(uccl_sent_check(&l));                                                                  \
		l = keep;                                                                                              \
		*e = kept;                                                                                             \
		assert_null(uccl_sent_check(&l));                                                                      \
	} while (0)
	BROKEN(l.una = l.nxt + 1);
	BROKEN(l.cap = WINDOW * 2);
	BROKEN(l.cap = 1);
	BROKEN(l.high_acked = l.nxt + 1);
	BROKEN(e->state = UCCL_SENT_FREE);
	BROKEN(e->state = UCCL_SENT_LOST);
	BROKEN(e->len++);
	BROKEN(l.inflight_chunks--);
	BROKEN((e->state = UCCL_SENT_ACKED, l.inflight_chunks--, l.inflight_bytes -= 10));
	BROKEN(e->repair = true);
	BROKEN(e->slots++);
	BROKEN(e->kept = true);
	BROKEN(l.acked++);
	BROKEN(l.flies--);
	BROKEN(l.slots++);
	BROKEN(l.kept++);
#undef BROKEN
}

/* Where slots are bytes a packet takes some by its length, of a train each. PROTOCOL R376 */
TEST_IN(slots__by_length, setup, teardown)
{
	const struct uccl_run_cfg cfg = {.pseq = 1};
	uint64_t csn;

	uccl_sent_unit(&l, 10, 9000);
	add(100);
	assert_int_equal(uccl_sent_slots(&l), uccl_slot_count(10, UCCL_HDR_LEN + 100 + UCCL_TAIL_MAX));
	uccl_sent_acked(&l, FIRST);
	assert_int_equal(uccl_sent_slots(&l), 0);
	/* No packet is longer than the longest. */
	csn = add(9000 - UCCL_HDR_LEN);
	assert_int_equal(uccl_sent_slots(&l), uccl_slot_count(10, 9000));
	uccl_sent_lost(&l, csn, false);
	assert_int_equal(uccl_sent_slots(&l), 0);
	again(csn);
	assert_int_equal(uccl_sent_slots(&l), uccl_slot_count(10, 9000));
	uccl_sent_acked(&l, csn);
	uccl_sent_advance(&l);
	add(10 * 1400);
	uccl_sent_train(&l, 10, &cfg);
	assert_int_equal(uccl_sent_slots(&l), 10 * uccl_slot_count(10, UCCL_HDR_LEN + 1400 + UCCL_TAIL_MAX));
	assert_null(uccl_sent_check(&l));
}

TESTS_MAIN
