/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The queues of what is to be sent, alone. */
#include "flow/send/sendq.h"

#include "../../tests.h"

#include <stdlib.h>

#include "base/rng.h"
#include "base/units.h"

#define CHUNK 4096
#define BURST 32768
#define RECORD 3000
#define MANY 4000

static struct uccl_sendq q;
static struct uccl_item items[MANY];
static uint32_t nitems;

static int setup(void **state)
{
	uccl_sendq_init(&q, false);
	memset(items, 0, sizeof(items));
	nitems = 0;
	return 0;
}

static struct uccl_item *add(bool bulk, uint64_t len)
{
	struct uccl_item *item = &items[nitems++];

	assert_true(nitems <= MANY);
	*item = (struct uccl_item){.bulk = bulk, .len = len, .off = 99, .deficit = 99};
	uccl_sendq_add(&q, item);
	assert_true(item->queued);
	assert_int_equal(item->off, 0);
	assert_int_equal(item->deficit, 0);
	return item;
}

static struct uccl_item *first_bulk(void)
{
	return TAILQ_FIRST(&q.bulk);
}

/* A chunk of the first range leaves. Returns whose it was. */
static struct uccl_item *bulk(void)
{
	struct uccl_item *item = first_bulk();
	uint32_t len = (uint32_t)uccl_min(CHUNK, item->len - item->off);

	uccl_sendq_bulk(&q, item, len, BURST);
	uccl_sendq_share(&q, item, len);
	return item;
}

TEST_IN(add__by_kind, setup, NULL)
{
	struct uccl_item *small, *longer, *range;

	assert_true(uccl_sendq_empty(&q));
	small = add(false, UCCL_CONTROL_BYTES);
	assert_false(uccl_sendq_empty(&q));
	assert_true(uccl_sendq_has_records(&q));
	/* Nothing holds back what is small. */
	assert_false(uccl_sendq_waits(&q));
	assert_ptr_equal(TAILQ_FIRST(&q.small), small);
	longer = add(false, UCCL_CONTROL_BYTES + 1);
	assert_true(uccl_sendq_waits(&q));
	assert_ptr_equal(TAILQ_FIRST(&q.records), longer);
	uccl_sendq_remove(&q, small);
	assert_false(small->queued);
	assert_true(uccl_sendq_has_records(&q));
	uccl_sendq_remove(&q, longer);
	assert_true(uccl_sendq_empty(&q));
	range = add(true, 1);
	assert_ptr_equal(first_bulk(), range);
	assert_false(uccl_sendq_has_records(&q));
	assert_true(uccl_sendq_waits(&q));
	assert_false(uccl_sendq_empty(&q));
	uccl_sendq_remove(&q, range);
	assert_true(uccl_sendq_empty(&q));
}

/* Also when the count of them wraps. */
TEST_IN(long_first__in_order, setup, NULL)
{
	struct uccl_item *a, *b, *c, *d;

	q.order = UINT32_MAX - 1;
	a = add(false, RECORD);
	b = add(false, 8);
	c = add(false, 8);
	d = add(false, RECORD);
	assert_ptr_equal(uccl_sendq_long_first(&q), a);
	uccl_sendq_record(&q, a, RECORD);
	assert_int_equal(a->off, RECORD);
	assert_false(a->queued);
	assert_null(uccl_sendq_long_first(&q));
	uccl_sendq_record(&q, b, 8);
	assert_null(uccl_sendq_long_first(&q));
	uccl_sendq_record(&q, c, 8);
	assert_ptr_equal(uccl_sendq_long_first(&q), d);
	uccl_sendq_record(&q, d, RECORD);
	assert_null(uccl_sendq_long_first(&q));
}

TEST_IN(turn__records_alone_owe_nothing, setup, NULL)
{
	for (int i = 0; i < 200; i++) {
		assert_false(uccl_sendq_turn(&q));
		uccl_sendq_record(&q, add(false, RECORD), RECORD);
	}
	assert_int_equal(q.records_ahead, 0);
	add(true, CHUNK);
	assert_false(uccl_sendq_turn(&q));
}

TEST_IN(turn__at_the_limit, setup, NULL)
{
	int n = 0;

	add(true, 1u << 30);
	uccl_sendq_record(&q, add(false, RECORD), UCCL_SENDQ_AHEAD - 1);
	assert_false(uccl_sendq_turn(&q));
	/* What is small counts, too. */
	uccl_sendq_record(&q, add(false, 1), 1);
	assert_true(uccl_sendq_turn(&q));
	/* A burst, not a chunk. */
	do {
		assert_true(uccl_sendq_turn(&q));
		bulk();
		n++;
	} while (q.bulk_turn);
	assert_int_equal(n, BURST / CHUNK);
	assert_false(uccl_sendq_turn(&q));
}

/* However far records are ahead, payload leaves behind the record that announces it, and others need not wait. */
TEST_IN(turn__behind_its_record, setup, NULL)
{
	struct uccl_item *other = add(true, 1000000), *record, *range;

	for (int i = 0; i < 100; i++)
		uccl_sendq_record(&q, add(false, RECORD), RECORD);
	assert_true(uccl_sendq_turn(&q));
	uccl_sendq_remove(&q, other);
	record = add(false, RECORD);
	record->more = CHUNK;
	range = add(true, CHUNK);
	assert_false(uccl_sendq_turn(&q));
	uccl_sendq_record(&q, record, RECORD);
	assert_true(uccl_sendq_turn(&q));
	/* Those of later payload, and those that announce none. */
	record = add(false, RECORD);
	record->more = CHUNK;
	assert_true(uccl_sendq_turn(&q));
	uccl_sendq_remove(&q, range);
	uccl_sendq_remove(&q, record);
	add(false, RECORD);
	add(true, CHUNK);
	uccl_sendq_record(&q, add(false, RECORD), UCCL_SENDQ_AHEAD);
	assert_true(uccl_sendq_turn(&q));
}

TEST_IN(turn__ends_with_the_last_range, setup, NULL)
{
	add(true, CHUNK);
	uccl_sendq_record(&q, add(false, RECORD), UCCL_SENDQ_AHEAD);
	assert_true(uccl_sendq_turn(&q));
	bulk();
	/* Records owe nothing to a range that comes later. */
	assert_false(uccl_sendq_turn(&q));
	add(true, CHUNK);
	assert_false(uccl_sendq_turn(&q));
	uccl_sendq_record(&q, add(false, RECORD), UCCL_SENDQ_AHEAD - 1);
	assert_false(uccl_sendq_turn(&q));
	/* Nor does bulk: what it sent while no record waited is not held against it. */
	add(true, 1u << 20);
	for (int i = 0; i < 100; i++)
		bulk();
	assert_true(q.records_ahead > -CHUNK);
}

TEST_IN(share__turns, setup, NULL)
{
	struct uccl_item *a, *b, *c;
	uint64_t sent = 0;

	a = add(true, 10u << 20);
	b = add(true, 2u << 20);
	c = add(true, 100u << 20);
	while (first_bulk() == a)
		sent += bulk() == a ? CHUNK : 0;
	assert_int_equal(sent, UCCL_SENDQ_TURN);
	/* One that ends gives up its turn; whoever began the turn with less has all of it. */
	while (first_bulk() == b)
		bulk();
	assert_false(b->queued);
	assert_int_equal(b->off, b->len);
	assert_ptr_equal(first_bulk(), c);
	while (first_bulk() == c)
		bulk();
	assert_int_equal(c->off, UCCL_SENDQ_TURN);
	assert_ptr_equal(first_bulk(), a);
	/* The next turn is as long. */
	while (first_bulk() == a)
		bulk();
	assert_int_equal(a->off, 2 * UCCL_SENDQ_TURN);
	while (a->queued)
		bulk();
	/* Alone it goes on. */
	for (int i = 0; i < 3000; i++)
		assert_ptr_equal(bulk(), c);
	while (!uccl_sendq_empty(&q))
		bulk();
	assert_int_equal(c->off, c->len);
}

/* With its last bytes its turn is over, too: it is in the queue no more. */
TEST_IN(share__ends_with_its_turn, setup, NULL)
{
	struct uccl_item *a = add(true, UCCL_SENDQ_TURN), *b = add(true, CHUNK);

	while (a->queued)
		assert_ptr_equal(bulk(), a);
	assert_ptr_equal(bulk(), b);
	assert_true(uccl_sendq_empty(&q));
}

TEST_IN(bytes__of_the_beginning, setup, NULL)
{
	assert_int_equal(uccl_sendq_bytes(&q, 64), 0);
	for (int i = 0; i < 10; i++) {
		add(false, 8);
		add(false, 1000);
		add(true, 5000);
	}
	bulk();
	assert_int_equal(uccl_sendq_bytes(&q, 0), 0);
	assert_int_equal(uccl_sendq_bytes(&q, 1), 1000);
	assert_int_equal(uccl_sendq_bytes(&q, 10), 10000);
	assert_int_equal(uccl_sendq_bytes(&q, 12), 10000 + 10000 - CHUNK);
	assert_int_equal(uccl_sendq_bytes(&q, 64), 10000 + 50000 - CHUNK);
}

/* What is not counted may be any length. */
TEST_IN(within__all_of_it, setup, NULL)
{
	assert_true(uccl_sendq_within(&q, 0, 0));
	for (int i = 0; i < 10; i++) {
		add(false, 8);
		add(false, 1000);
		add(true, 5000);
	}
	assert_true(uccl_sendq_within(&q, 20, 60000));
	assert_false(uccl_sendq_within(&q, 20, 59999));
	assert_false(uccl_sendq_within(&q, 19, 1 << 30));
}

/*
 * As a flow has it, with everything allowed: while both wait, records lead by no more than the limit and what one of
 * them has, and ranges that wait are never further apart than a turn. Records leave in their order.
 */
/* PROTOCOL R200 */
TEST_IN(pass__short_ones, setup, NULL)
{
	struct uccl_item *a, *b, *c, *d;

	q.shortest = true;
	a = add(true, 100 * CHUNK);
	b = add(true, 60 * CHUNK);
	assert_ptr_equal(TAILQ_NEXT(a, link), b);
	/* Before all that have more than twice as much; what has left of them counts no more. */
	c = add(true, 29 * CHUNK);
	assert_ptr_equal(first_bulk(), c);
	assert_int_equal(a->passed, 29 * CHUNK);
	d = add(true, 20 * CHUNK);
	assert_ptr_equal(TAILQ_NEXT(c, link), d);
	assert_ptr_equal(TAILQ_NEXT(d, link), a);
	for (int i = 0; i < 29; i++)
		assert_ptr_equal(bulk(), c);
	for (int i = 0; i < 20; i++)
		assert_ptr_equal(bulk(), d);
	/* They take no turns. */
	for (int i = 0; i < 100; i++)
		assert_ptr_equal(bulk(), a);
	assert_ptr_equal(bulk(), b);
	/* What is in no item yet counts: the parts of one message stay in order. */
	for (uint64_t i = 0; i < 4; i++) {
		struct uccl_item *part = &items[nitems++];

		*part = (struct uccl_item){.bulk = true, .len = 10 * CHUNK, .more = (70 - 10 * i) * CHUNK};
		uccl_sendq_add(&q, part);
		assert_ptr_equal(TAILQ_LAST(&q.bulk, uccl_item_list), part);
	}
}

/* A stream of short ones stops no long one: it lets some pass, and then none. PROTOCOL R200 */
TEST_IN(pass__bounded, setup, NULL)
{
	struct uccl_item *long_one;
	uint64_t passed = 0;

	q.shortest = true;
	long_one = add(true, 64u << 20);
	for (int i = 0; i < 40; i++) {
		struct uccl_item *item = add(true, 1u << 20);

		passed += item == first_bulk() ? item->len : 0;
		uccl_sendq_remove(&q, item);
	}
	assert_int_equal(passed, UCCL_SENDQ_PASSED);
	assert_ptr_equal(first_bulk(), long_one);
}

/* PROTOCOL R198 */
TEST_IN(left__of_what_leaves_next, setup, NULL)
{
	struct uccl_item *range;

	assert_int_equal(uccl_sendq_left(&q, 64), 0);
	range = add(true, 8 * CHUNK);
	range->more = 1000;
	assert_int_equal(uccl_sendq_left(&q, 64), 8 * CHUNK + 1000);
	bulk();
	assert_int_equal(uccl_sendq_left(&q, 64), 7 * CHUNK + 1000);
	/* Small ones need no credit, and longer ones leave first, all of them together. */
	add(false, 100);
	assert_int_equal(uccl_sendq_left(&q, 64), 7 * CHUNK + 1000);
	add(false, RECORD)->more = 500;
	add(false, RECORD);
	assert_int_equal(uccl_sendq_left(&q, 64), 2 * RECORD + 500);
	assert_int_equal(uccl_sendq_left(&q, 1), RECORD + 500);
	q.bulk_turn = true;
	assert_int_equal(uccl_sendq_left(&q, 64), 7 * CHUNK + 1000);
}

TEST_IN(all__by_chance, setup, NULL)
{
	int64_t records = 0, ranges = 0;
	uint32_t next = 0, order[MANY], norder = 0;
	struct uccl_item *had[3] = {NULL, NULL, NULL};
	uint64_t since[3];
	struct uccl_rng rng;

	uccl_rng_seed(&rng, 3);
	for (int i = 0; i < 3; i++)
		had[i] = add(true, 1u << 30);
	while (nitems < MANY || uccl_sendq_has_records(&q)) {
		struct uccl_item *item = uccl_sendq_long_first(&q);
		bool turn;

		if (nitems < MANY && uccl_rng_below(&rng, 4) < 3) {
			order[norder++] = nitems;
			add(false, 1 + uccl_rng_below(&rng, uccl_rng_below(&rng, 2) ? UCCL_CONTROL_BYTES : CHUNK));
			continue;
		}
		turn = uccl_sendq_turn(&q);
		if (!turn && !item)
			item = TAILQ_FIRST(&q.small);
		if (turn || !item) {
			ranges += CHUNK;
			for (int i = 0; i < 3; i++)
				since[i] = had[i]->off;
			bulk();
			assert_true(had[0]->off + had[1]->off + had[2]->off == since[0] + since[1] + since[2] + CHUNK);
		} else {
			assert_ptr_equal(item, &items[order[next++]]);
			uccl_sendq_record(&q, item, (uint32_t)item->len);
			records += (int64_t)item->len;
		}
		for (int i = 0; i < 3; i++)
			for (int k = 0; k < 3; k++)
				assert_true(had[i]->off <= had[k]->off + UCCL_SENDQ_TURN);
		assert_true(records - ranges < UCCL_SENDQ_AHEAD + CHUNK);
	}
	assert_int_equal(next, norder);
	/* They did have to wait. */
	assert_true(records > 4 * UCCL_SENDQ_AHEAD);
}

TESTS_MAIN
