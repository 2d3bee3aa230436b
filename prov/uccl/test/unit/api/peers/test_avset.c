/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "../world.h"

#include "api/peers/avset.h"
#include "../../tests.h"

#include <stdio.h>

#define N 10

struct bench {
	struct world w;
	struct fid_av *av;
	struct uccl_avset *set;
};

static struct uccl_avset *set_open(struct bench *b, fi_addr_t from, fi_addr_t to, uint64_t stride)
{
	struct fi_av_set_attr attr = { .start_addr = from, .end_addr = to, .stride = stride };
	struct fid_av_set *fid;

	assert_int_equal(fi_av_set(b->av, &attr, &fid, b), 0);
	assert_int_equal(fid->fid.fclass, FI_CLASS_AV_SET);
	assert_ptr_equal(fid->fid.context, b);
	return uccl_avset_of(&fid->fid);
}

/* N addresses, of which number 4 was removed again. */
static void bench_open(struct bench *b)
{
	struct fi_av_attr attr = { .type = FI_AV_TABLE };
	fi_addr_t hole = 4;

	world_open(&b->w);
	assert_int_equal(fi_av_open(b->w.domain, &attr, &b->av, NULL), 0);
	for (int i = 0; i < N; i++) {
		char port[12];

		snprintf(port, sizeof(port), "%d", 5000 + i);
		assert_int_equal(fi_av_insertsvc(b->av, "127.0.0.1", port, NULL, 0, NULL), 1);
	}
	assert_int_equal(fi_av_remove(b->av, &hole, 1, 0), 0);
}

static void bench_close(struct bench *b)
{
	assert_int_equal(fi_close(&b->av->fid), 0);
	world_close(&b->w);
}

WORLD_FIXTURE(bench)

#define has(s, ...)                                                                                                    \
	do {                                                                                                           \
		fi_addr_t want_[] = { __VA_ARGS__ }, *v_;                                                              \
		size_t n_;                                                                                             \
		v_ = uccl_avset_members(s, &n_);                                                                       \
		assert_int_equal(n_, sizeof(want_) / sizeof(*want_));                                                  \
		assert_memory_equal(v_, want_, sizeof(want_));                                                         \
		free(v_);                                                                                              \
	} while (0)

WORLD_TEST(open__ranges, bench, b)
{
	struct fi_av_set_attr bad = { .start_addr = 0, .end_addr = 3 };
	struct uccl_avset *s;
	struct fid_av_set *fid;

	s = set_open(b, 2, 6, 1);
	has(s, 2, 3, 5, 6);
	assert_int_equal(fi_close(&b->av->fid), -FI_EBUSY);
	assert_int_equal(fi_close(&s->fid.fid), 0);
	s = set_open(b, 1, 1000000, 3);
	has(s, 1, 7);
	assert_int_equal(fi_close(&s->fid.fid), 0);
	s = set_open(b, 3, UINT64_MAX - 1, UINT64_MAX);
	has(s, 3);
	assert_int_equal(fi_close(&s->fid.fid), 0);
	s = set_open(b, FI_ADDR_NOTAVAIL, FI_ADDR_NOTAVAIL, 0);
	assert_int_equal(s->n, 0);
	assert_int_equal(fi_close(&s->fid.fid), 0);
	assert_int_equal(fi_av_set(b->av, &bad, &fid, NULL), -FI_EINVAL);
	bad.stride = 1;
	bad.comm_key_size = 4;
	assert_int_equal(fi_av_set(b->av, &bad, &fid, NULL), -FI_EINVAL);
}

WORLD_TEST(change__keeps_the_order, bench, b)
{
	struct uccl_avset *s, *t;
	fi_addr_t name;

	s = set_open(b, 0, 9, 3);
	t = set_open(b, 5, 7, 1);
	has(s, 0, 3, 6, 9);
	assert_int_equal(fi_av_set_insert(&s->fid, 1), 0);
	assert_int_equal(fi_av_set_insert(&s->fid, 6), 0);
	assert_int_equal(fi_av_set_insert(&s->fid, 4), -FI_EINVAL);
	assert_int_equal(fi_av_set_insert(&s->fid, N), -FI_EINVAL);
	has(s, 0, 3, 6, 9, 1);
	assert_int_equal(fi_av_set_remove(&s->fid, 3), 0);
	assert_int_equal(fi_av_set_remove(&s->fid, 3), -FI_EINVAL);
	has(s, 0, 6, 9, 1);
	assert_int_equal(fi_av_set_union(&s->fid, &t->fid), 0);
	has(s, 0, 6, 9, 1, 5, 7);
	assert_int_equal(fi_av_set_union(&s->fid, &s->fid), 0);
	has(s, 0, 6, 9, 1, 5, 7);
	assert_int_equal(fi_av_set_diff(&t->fid, &s->fid), 0);
	assert_int_equal(t->n, 0);
	assert_int_equal(fi_av_set_insert(&t->fid, 9), 0);
	assert_int_equal(fi_av_set_insert(&t->fid, 0), 0);
	assert_int_equal(fi_av_set_insert(&t->fid, 2), 0);
	assert_int_equal(fi_av_set_intersect(&s->fid, &t->fid), 0);
	has(s, 0, 9);
	/* More than it begins with room for. */
	for (int i = 0; i < N; i++)
		assert_int_equal(fi_av_set_insert(&t->fid, (fi_addr_t)i), i == 4 ? -FI_EINVAL : 0);
	has(t, 9, 0, 2, 1, 3, 5, 6, 7, 8);
	assert_int_equal(fi_av_set_addr(&t->fid, &name), 0);
	assert_true(name != FI_ADDR_NOTAVAIL);
	world_closes(&s->fid.fid, &t->fid.fid);
}

TESTS_MAIN
