/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Where direct writes land, alone: no flow, no message. */
#include "flow/write/write_rx.h"

#include "../../tests.h"

#include <string.h>

#define WINDOW 128
#define PATHS 4
#define WRITE 4096
/* The low bits of the numbers go round in all tests. */
#define FIRST (3 * (1ull << UCCL_IMM_CSN_BITS) - 20)
#define ID 7
#define GEN 9

static struct uccl_write_rx l;
static struct uccl_arrived rcv;
static struct uccl_stats stats;
static uint32_t settled, fences[PATHS];
static bool fence_at_once;

static void note_settled(struct uccl_write_rx *of, uint32_t id, uint32_t gen, uint64_t now)
{
	assert_ptr_equal(of, &l);
	assert_int_equal(gen, GEN);
	assert_in_range(id, ID, ID + 9);
	settled++;
}

static void note_fence(struct uccl_write_rx *of, uint16_t path, uint64_t now)
{
	fences[path]++;
	if (fence_at_once)
		uccl_write_rx_fenced(of, path, now);
}

static const struct uccl_write_rx_ops ops = {.settled = note_settled, .fence = note_fence};

static int start(uint32_t write_bytes, bool fifo)
{
	const struct uccl_write_rx_cfg cfg = {.window = WINDOW,
					      .write_bytes = write_bytes,
					      .paths = PATHS,
					      .fifo = fifo,
					      .stats = &stats,
					      .ops = &ops};

	memset(&stats, 0, sizeof(stats));
	memset(fences, 0, sizeof(fences));
	settled = 0;
	fence_at_once = false;
	return uccl_write_rx_init(&l, &cfg) && uccl_arrived_init(&rcv, WINDOW, FIRST) ? 0 : -1;
}

static int setup(void **state)
{
	return start(WRITE, false);
}

static int setup_fifo(void **state)
{
	return start(WRITE, true);
}

static int setup_none(void **state)
{
	return start(0, false);
}

static int teardown(void **state)
{
	uccl_write_rx_fini(&l);
	uccl_arrived_fini(&rcv);
	return 0;
}

static struct uccl_desc desc_of(uint32_t count, uint64_t len)
{
	return (struct uccl_desc){.id = ID, .gen = GEN, .count = count, .chunk = WRITE, .offset = 1 << 20, .len = len};
}

/* The descriptor in chunk csn announces so many full chunks. */
static void announce(uint64_t csn, uint32_t count)
{
	struct uccl_desc d = desc_of(count, (uint64_t)count * WRITE);

	assert_int_equal(uccl_write_rx_check(&l, &rcv, csn, &d), UCCL_DROP_COUNT);
	uccl_write_rx_announce(&l, csn, &d);
}

/* The chunk csn, that is the k-th of the only descriptor there is, as one of its segments has it. */
static struct uccl_rewrite rewrite_of(uint64_t csn, uint64_t k, uint16_t path)
{
	return (struct uccl_rewrite){
		.csn = csn, .at = (1 << 20) + k * WRITE, .id = ID, .gen = GEN, .len = WRITE, .path = path};
}

/* The chunk csn is whole with a segment of it, and delivery says `reason`. */
static enum uccl_drop whole(uint64_t csn, uint64_t k, uint16_t path, enum uccl_drop reason, bool passed)
{
	const struct uccl_rewrite w = rewrite_of(csn, k, path);
	uint32_t before = l.ndoubts;
	enum uccl_drop why = uccl_write_rx_rewrite(&l, &w, true, 0);

	/* The doubt is there before delivery. */
	if (why == UCCL_DROP_COUNT && !fence_at_once)
		assert_int_equal(l.ndoubts, before + 1);
	if (why == UCCL_DROP_COUNT)
		uccl_write_rx_rewrite_end(&l, &w, reason, passed, 0);
	return why;
}

/* A chunk with a doubt about path `path`, for each of these. */
static void doubts(uint64_t csn, uint32_t n, uint16_t npaths)
{
	announce(csn, n);
	for (uint32_t i = 0; i < n; i++)
		assert_int_equal(whole(csn + 1 + i, i, (uint16_t)(i % npaths), UCCL_DROP_COUNT, false),
				 UCCL_DROP_COUNT);
}

/* As many as there is room for, on all paths. */
static void all_in_doubt(void)
{
	for (uint32_t n = 0; n < WINDOW; n += 32) {
		doubts(FIRST, 32, PATHS);
		for (uint32_t i = 0; i < 32; i++)
			uccl_write_rx_forget(&l, FIRST + 1 + i);
	}
	assert_int_equal(l.ndoubts, WINDOW);
}

TEST_IN(init__without_direct_writes, setup_none, teardown)
{
	struct uccl_desc d = desc_of(1, WRITE);
	struct uccl_rewrite w = rewrite_of(FIRST, 0, 0);

	assert_null(l.early);
	assert_int_equal(uccl_write_rx_check(&l, &rcv, FIRST, &d), UCCL_DROP_STATE);
	assert_int_equal(uccl_write_rx_rewrite(&l, &w, true, 0), UCCL_DROP_STATE);
	assert_null(uccl_write_rx_desc(&l, FIRST));
	uccl_write_rx_forget(&l, FIRST);
	uccl_write_rx_age(&l, 0, 0);
	uccl_write_rx_rtype(&l, 3);
	assert_int_equal(l.rtype, 3);
}

TEST_IN(check__refuses, setup, teardown)
{
	struct uccl_desc d = desc_of(1, WRITE + 1);

	/* Larger writes than were agreed on. */
	d.chunk = WRITE + 1;
	assert_int_equal(uccl_write_rx_check(&l, &rcv, FIRST, &d), UCCL_DROP_RECORD);
	/* The last chunk of the window is still inside. */
	d = desc_of(WINDOW - 1, (WINDOW - 1) * WRITE);
	assert_int_equal(uccl_write_rx_check(&l, &rcv, FIRST, &d), UCCL_DROP_COUNT);
	assert_int_equal(uccl_write_rx_check(&l, &rcv, FIRST + 1, &d), UCCL_DROP_RECORD);
	d = desc_of(WINDOW, WINDOW * WRITE);
	assert_int_equal(uccl_write_rx_check(&l, &rcv, FIRST, &d), UCCL_DROP_RECORD);
	d = desc_of(1, WRITE);
	assert_int_equal(uccl_write_rx_check(&l, &rcv, FIRST + WINDOW - 2, &d), UCCL_DROP_COUNT);
	assert_int_equal(uccl_write_rx_check(&l, &rcv, FIRST + WINDOW - 1, &d), UCCL_DROP_RECORD);
	/* One of its chunks is here. */
	uccl_arrived_take(&rcv, FIRST + 10);
	d = desc_of(4, 4 * WRITE);
	assert_int_equal(uccl_write_rx_check(&l, &rcv, FIRST + 5, &d), UCCL_DROP_COUNT);
	assert_int_equal(uccl_write_rx_check(&l, &rcv, FIRST + 6, &d), UCCL_DROP_RECORD);
	assert_int_equal(uccl_write_rx_check(&l, &rcv, FIRST + 9, &d), UCCL_DROP_RECORD);
	assert_int_equal(uccl_write_rx_check(&l, &rcv, FIRST + 10, &d), UCCL_DROP_COUNT);
	/* Nothing is changed by that. */
	assert_int_equal(l.ndescs, 0);
}

TEST_IN(announce__chunks_behind_it, setup, teardown)
{
	struct uccl_desc d = desc_of(3, 2 * WRITE + 100);
	struct uccl_rx_desc *rd;
	uint64_t off;

	uccl_write_rx_announce(&l, FIRST, &d);
	announce(FIRST + 50, 2);
	assert_null(uccl_write_rx_desc(&l, FIRST));
	assert_null(uccl_write_rx_desc(&l, FIRST + 4));
	assert_null(uccl_write_rx_desc(&l, 0));
	rd = uccl_write_rx_desc(&l, FIRST + 1);
	assert_non_null(rd);
	assert_ptr_equal(uccl_write_rx_desc(&l, FIRST + 3), rd);
	assert_int_equal(uccl_write_rx_chunk(rd, FIRST + 1, &off), WRITE);
	assert_int_equal(off, 0);
	assert_int_equal(uccl_write_rx_chunk(rd, FIRST + 3, &off), 100);
	assert_int_equal(off, 2 * WRITE);
	assert_int_equal(uccl_write_rx_desc(&l, FIRST + 52)->first, FIRST + 51);
}

/* A descriptor ends with its last chunk, and leaves the others. */
TEST_IN(take__one_by_one, setup, teardown)
{
	announce(FIRST, 2);
	announce(FIRST + 50, 1);
	uccl_write_rx_take(&l, uccl_write_rx_desc(&l, FIRST + 1));
	assert_int_equal(l.ndescs, 2);
	uccl_write_rx_take(&l, uccl_write_rx_desc(&l, FIRST + 2));
	assert_int_equal(l.ndescs, 1);
	assert_null(uccl_write_rx_desc(&l, FIRST + 2));
	assert_non_null(uccl_write_rx_desc(&l, FIRST + 51));
	uccl_write_rx_take(&l, uccl_write_rx_desc(&l, FIRST + 51));
	assert_int_equal(l.ndescs, 0);
}

TEST_IN(hold__until_released, setup, teardown)
{
	struct uccl_early_write held;

	assert_false(uccl_write_rx_release(&l, FIRST + 1, &held));
	assert_true(uccl_write_rx_hold(&l, FIRST + 1, 100, 2, 5000));
	assert_false(uccl_write_rx_release(&l, FIRST + 2, &held));
	announce(FIRST, 1);
	assert_true(uccl_write_rx_release(&l, FIRST + 1, &held));
	assert_int_equal(held.came_ns, 5000);
	assert_int_equal(held.len, 100);
	assert_int_equal(held.path, 2);
	assert_false(uccl_write_rx_release(&l, FIRST + 1, &held));
	/* When it came is not taken for segments. */
	assert_false(uccl_write_rx_early(&l, FIRST + 1)->held);
	assert_false(l.off);
}

TEST_IN(hold__doubled, setup, teardown)
{
	assert_true(uccl_write_rx_hold(&l, FIRST + 1, 100, 2, 0));
	assert_false(uccl_write_rx_hold(&l, FIRST + 1, 100, 2, 1));
	assert_true(l.off);
	assert_int_equal(stats.dup_writes, 1);
}

TEST_IN(forget__place_of_a_later_one, setup, teardown)
{
	struct uccl_early_write held;

	assert_true(uccl_write_rx_hold(&l, FIRST + 1, 100, 2, 7));
	uccl_write_rx_forget(&l, FIRST + 1);
	assert_false(uccl_write_rx_release(&l, FIRST + 1 + WINDOW, &held));
	assert_true(uccl_write_rx_hold(&l, FIRST + 1 + WINDOW, 200, 1, 9));
	assert_int_equal(stats.dup_writes, 0);
}

TEST_IN(came__settles_its_own, setup, teardown)
{
	doubts(FIRST, 3, 1);
	assert_int_equal(l.ndoubts, 3);
	assert_int_equal(stats.doubtful, 3);
	assert_false(uccl_write_rx_came(&l, FIRST + 50, 0, false, 0));
	assert_int_equal(l.ndoubts, 3);
	/* On whatever path. */
	assert_true(uccl_write_rx_came(&l, FIRST + 2, 3, false, 0));
	assert_int_equal(l.ndoubts, 2);
	assert_int_equal(settled, 1);
	assert_false(uccl_write_rx_came(&l, FIRST + 2, 3, false, 0));
}

TEST_IN(came__fifo_settles_earlier_ones, setup_fifo, teardown)
{
	doubts(FIRST, 6, 2); /* path 0: 1, 3, 5; path 1: 2, 4, 6 */
	assert_false(uccl_write_rx_came(&l, FIRST + 7, 2, false, 0));
	assert_int_equal(settled, 0);
	assert_true(uccl_write_rx_came(&l, FIRST + 4, 1, false, 0));
	assert_int_equal(settled, 2); /* 2 and 4 */
	assert_false(uccl_write_rx_came(&l, FIRST + 50, 0, false, 0));
	assert_int_equal(settled, 5);
	assert_int_equal(l.ndoubts, 1);
	assert_int_equal(l.in_doubt[0].csn, FIRST + 6);
}

/* One step backwards ends it for good, and settles nothing itself. */
TEST_IN(came__overtaken, setup_fifo, teardown)
{
	doubts(FIRST, 2, 1);
	assert_false(uccl_write_rx_came(&l, FIRST + 50, 0, true, 0));
	assert_false(l.fifo);
	assert_int_equal(settled, 0);
	assert_int_equal(stats.fifo_broken, 1);
	assert_false(uccl_write_rx_came(&l, FIRST + 51, 0, true, 0));
	assert_int_equal(stats.fifo_broken, 1);
	assert_int_equal(settled, 0);
	/* Nor is a doubt less of one because a later write was seen. */
	announce(FIRST + 60, 1);
	assert_int_equal(whole(FIRST + 61, 0, 0, UCCL_DROP_COUNT, true), UCCL_DROP_COUNT);
	assert_int_equal(l.ndoubts, 3);
}

TEST_IN(again__with_a_doubt_or_doubled, setup, teardown)
{
	assert_true(uccl_write_rx_again(&l, FIRST + 1, true));
	assert_false(l.off);
	assert_false(uccl_write_rx_again(&l, FIRST + 1, false));
	assert_true(l.off);
	assert_int_equal(stats.dup_writes, 1);
}

/* The chunk 0 is no free place of the list. */
TEST_IN(again__number_zero, setup, teardown)
{
	assert_false(uccl_write_rx_again(&l, 0, false));
	assert_int_equal(stats.dup_writes, 1);
}

TEST_IN(forgive__expected_once, setup, teardown)
{
	doubts(FIRST, 3, 1);
	uccl_write_rx_forgive(&l, ID, GEN + 1);
	uccl_write_rx_forgive(&l, ID + 1, GEN);
	assert_int_equal(l.ndoubts, 3);
	uccl_write_rx_forgive(&l, ID, GEN);
	assert_int_equal(l.ndoubts, 0);
	assert_int_equal(settled, 0);
	for (uint64_t i = 1; i <= 3; i++)
		assert_true(uccl_write_rx_again(&l, FIRST + i, false));
	assert_false(l.off);
	assert_false(uccl_write_rx_again(&l, FIRST + 2, false));
	assert_true(l.off);
}

/* Of more places that were closed the latest are remembered. */
TEST_IN(forgive__list_is_full, setup, teardown)
{
	for (uint64_t i = 0; i < UCCL_CLOSED_DOUBTS + 2; i++) {
		announce(FIRST, 1);
		assert_int_equal(whole(FIRST + 1, 0, 0, UCCL_DROP_COUNT, false), UCCL_DROP_COUNT);
		l.in_doubt[0].csn = FIRST + 1000 + i;
		uccl_write_rx_forget(&l, FIRST + 1);
		uccl_write_rx_forgive(&l, ID, GEN);
	}
	for (uint64_t i = 2; i < UCCL_CLOSED_DOUBTS + 2; i++)
		assert_true(uccl_write_rx_again(&l, FIRST + 1000 + i, false));
	assert_false(l.off);
	assert_false(uccl_write_rx_again(&l, FIRST + 1000, false));
	assert_false(uccl_write_rx_again(&l, FIRST + 1001, false));
	assert_int_equal(stats.dup_writes, 2);
}

TEST_IN(rewrite__refused, setup, teardown)
{
	const struct {
		struct uccl_rewrite w;
		enum uccl_drop why;
	} t[] = {
		{{.csn = FIRST + 1, .id = ID, .gen = GEN, .at = 1 << 20, .len = WRITE, .path = PATHS},
		 UCCL_DROP_RECORD},
		{{.csn = FIRST + 3, .id = ID, .gen = GEN, .at = 1 << 20, .len = WRITE}, UCCL_DROP_MEMORY},
		{{.csn = FIRST + 1, .id = ID + 1, .gen = GEN, .at = 1 << 20, .len = WRITE}, UCCL_DROP_RANGE},
		{{.csn = FIRST + 1, .id = ID, .gen = GEN + 1, .at = 1 << 20, .len = WRITE}, UCCL_DROP_RANGE},
		{{.csn = FIRST + 1, .id = ID, .gen = GEN, .at = (1 << 20) - 1, .len = WRITE}, UCCL_DROP_RANGE},
		{{.csn = FIRST + 2, .id = ID, .gen = GEN, .at = 1 << 20, .len = WRITE}, UCCL_DROP_RANGE},
		{{.csn = FIRST + 1, .id = ID, .gen = GEN, .at = 1 << 20, .len = WRITE + 1}, UCCL_DROP_RANGE},
		{{.csn = FIRST + 1, .id = ID, .gen = GEN, .at = 1 << 20, .len = WRITE - 1}, UCCL_DROP_RANGE},
		{{.csn = FIRST + 1, .id = ID, .gen = GEN, .at = UINT64_MAX, .len = 2}, UCCL_DROP_RANGE},
	};

	announce(FIRST, 2);
	for (unsigned int i = 0; i < uccl_array_len(t); i++)
		for (int is_whole = 0; is_whole < 2; is_whole++)
			assert_int_equal(uccl_write_rx_rewrite(&l, &t[i].w, is_whole, 0), t[i].why);
	assert_int_equal(l.ndoubts, 0);
	/* Nothing of that is in the way. */
	assert_int_equal(whole(FIRST + 1, 0, 0, UCCL_DROP_COUNT, false), UCCL_DROP_COUNT);
}

/* There is a doubt with the segment that completes the chunk, and not before. */
TEST_IN(rewrite__doubt_with_the_last, setup, teardown)
{
	const struct uccl_rewrite w = rewrite_of(FIRST + 1, 0, 1);

	announce(FIRST, 1);
	for (int i = 0; i < 3; i++)
		assert_int_equal(uccl_write_rx_rewrite(&l, &w, false, 0), UCCL_DROP_COUNT);
	assert_int_equal(l.ndoubts, 0);
	assert_int_equal(whole(FIRST + 1, 0, 1, UCCL_DROP_COUNT, false), UCCL_DROP_COUNT);
	assert_int_equal(l.ndescs, 0);
	assert_int_equal(stats.doubtful, 1);
}

/* What delivery refuses was not there; what it throws away was, and leaves no doubt. */
TEST_IN(rewrite_end__refused, setup, teardown)
{
	announce(FIRST, 1);
	assert_int_equal(whole(FIRST + 1, 0, 0, UCCL_DROP_MEMORY, false), UCCL_DROP_COUNT);
	assert_int_equal(l.ndoubts, 0);
	assert_int_equal(l.ndescs, 1);
	assert_int_equal(whole(FIRST + 1, 0, 0, UCCL_DROP_HANDLE, false), UCCL_DROP_COUNT);
	assert_int_equal(l.ndoubts, 0);
	assert_int_equal(l.ndescs, 1);
	assert_int_equal(whole(FIRST + 1, 0, 0, UCCL_DROP_UNWANTED, false), UCCL_DROP_COUNT);
	assert_int_equal(l.ndoubts, 0);
	assert_int_equal(l.ndescs, 0);
	assert_int_equal(stats.doubtful, 0);
	assert_int_equal(settled, 0);
}

TEST_IN(rewrite_end__fifo_passed, setup_fifo, teardown)
{
	announce(FIRST, 2);
	assert_int_equal(whole(FIRST + 1, 0, 0, UCCL_DROP_COUNT, false), UCCL_DROP_COUNT);
	assert_int_equal(whole(FIRST + 2, 1, 0, UCCL_DROP_COUNT, true), UCCL_DROP_COUNT);
	assert_int_equal(settled, 1);
	assert_int_equal(l.ndoubts, 1);
	assert_int_equal(l.in_doubt[0].csn, FIRST + 1);
}

/* A message has more doubts than there is room for: one path is fenced, once, and what came now comes again. */
TEST_IN(rewrite__no_room_for_doubts, setup, teardown)
{
	all_in_doubt();
	announce(FIRST, 1);
	for (int i = 0; i < 3; i++)
		assert_int_equal(whole(FIRST + 1, 0, 1, UCCL_DROP_COUNT, false), UCCL_DROP_MEMORY);
	assert_int_equal(fences[0], 1);
	assert_int_equal(stats.fences, 1);
	uccl_write_rx_fenced(&l, 0, 0);
	assert_int_equal(l.ndoubts, WINDOW * 3 / 4);
	assert_int_equal(whole(FIRST + 1, 0, 1, UCCL_DROP_COUNT, false), UCCL_DROP_COUNT);
}

/* A fence that is done in the call makes room at once. */
TEST_IN(rewrite__room_at_once, setup, teardown)
{
	all_in_doubt();
	fence_at_once = true;
	announce(FIRST, 1);
	assert_int_equal(whole(FIRST + 1, 0, 1, UCCL_DROP_COUNT, false), UCCL_DROP_COUNT);
	assert_int_equal(l.ndoubts, WINDOW * 3 / 4 + 1);
	assert_int_equal(l.fencing, 0);
}

TEST_IN(fenced__that_path_only, setup, teardown)
{
	doubts(FIRST, 6, 3);
	uccl_write_rx_fenced(&l, 3, 0);
	assert_int_equal(settled, 0);
	uccl_write_rx_fenced(&l, 1, 0);
	assert_int_equal(settled, 2);
	for (uint32_t i = 0; i < l.ndoubts; i++)
		assert_int_not_equal(l.in_doubt[i].path, 1);
	uccl_write_rx_fenced(&l, 0, 0);
	uccl_write_rx_fenced(&l, 2, 0);
	assert_int_equal(settled, 6);
	assert_int_equal(l.ndoubts, 0);
}

TEST_IN(fence__each_path_of_the_message_once, setup, teardown)
{
	doubts(FIRST, 6, 3);
	uccl_write_rx_fence(&l, ID, GEN + 1, 0);
	uccl_write_rx_fence(&l, ID + 1, GEN, 0);
	assert_int_equal(stats.fences, 0);
	uccl_write_rx_fence(&l, ID, GEN, 0);
	assert_int_equal(stats.fences, 3);
	for (uint16_t path = 0; path < PATHS; path++)
		assert_int_equal(fences[path], path < 3);
	/* Done at once, it takes doubts out of the list meanwhile. */
	fence_at_once = true;
	uccl_write_rx_fence(&l, ID, GEN, 0);
	assert_int_equal(stats.fences, 6);
	assert_int_equal(l.ndoubts, 0);
}

/* Looked for now and then, and fenced a quarter of a round later: numbers are not yet used again. PROTOCOL R146 */
TEST_IN(age__before_the_numbers_come_again, setup, teardown)
{
	uint64_t age = (1ull << UCCL_IMM_CSN_BITS) / 4, look;

	doubts(FIRST, 2, 2);
	look = FIRST + 1 + age + UCCL_WRITE_RX_SCAN;
	look -= look % UCCL_WRITE_RX_SCAN;
	uccl_write_rx_age(&l, look - UCCL_WRITE_RX_SCAN, 0);
	uccl_write_rx_age(&l, look + 1, 0);
	assert_int_equal(stats.fences, 0);
	uccl_write_rx_age(&l, look, 0);
	assert_int_equal(stats.fences, 2);
	/* Exactly as old as it may be. */
	uccl_write_rx_fenced(&l, 0, 0);
	uccl_write_rx_fence_old(&l, FIRST + 2 + age, 0);
	assert_int_equal(stats.fences, 2);
	uccl_write_rx_fence_old(&l, FIRST + 3 + age, 0);
	assert_int_equal(stats.fences, 3);
}

TESTS_MAIN
