/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Schedules of collectives: all members at once, over channels that keep the order of each pair and phase. */
#include "msg/collective/schedule.h"

#include "../../tests.h"

#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

#define LEN 3
#define N_MAX 40

struct msg {
	STAILQ_ENTRY(msg) link;
	uint64_t len;
	uint8_t data[LEN * N_MAX];
};

STAILQ_HEAD(msgs, msg);

struct member {
	struct uccl_coll_plan plan;
	uint32_t step;
	bool more, asked;		/* the step under way waits for what `from` sends */
	struct uccl_coll_step s;
	uint8_t src[LEN * N_MAX], dst[LEN * N_MAX], acc[LEN * N_MAX], tmp[LEN * N_MAX];
	uint32_t sent, got;
};

static struct member m[N_MAX];
static struct msgs box[N_MAX][N_MAX][2]; /* from, to, phase */
static uint32_t seed;

static uint32_t random_below(uint32_t n)
{
	seed = seed * 1103515245u + 12345u;
	return (seed >> 8) % n;
}

static void put(uint32_t from, const struct uccl_coll_step *s)
{
	struct msg *msg = calloc(1, sizeof(*msg));

	assert_non_null(msg);
	assert_true(s->to < m[from].plan.n && s->to != from && s->len <= sizeof(msg->data) && s->phase < 2);
	msg->len = s->len;
	if (s->len)
		memcpy(msg->data, s->send, s->len);
	STAILQ_INSERT_TAIL(&box[from][s->to][s->phase], msg, link);
	m[from].sent++;
}

/* One member goes on by one step, if it can. */
static bool advance(uint32_t rank)
{
	struct member *me = &m[rank];
	struct msg *msg;
	uint64_t len;
	uint8_t *total;

	if (!me->more)
		return false;
	if (!me->asked) {
		me->more = uccl_coll_step(&me->plan, me->step, &me->s);
		if (!me->more) {
			uccl_coll_end(&me->plan);
			return true;
		}
		if (me->s.to >= 0)
			put(rank, &me->s);
		me->asked = true;
	}
	if (me->s.from >= 0) {
		assert_true(me->s.from < me->plan.n && me->s.from != rank);
		msg = STAILQ_FIRST(&box[me->s.from][rank][me->s.phase]);
		if (!msg)
			return false;
		assert_int_equal(msg->len, me->s.len);
		if (msg->len)
			memcpy(me->s.recv, msg->data, msg->len);
		STAILQ_REMOVE_HEAD(&box[me->s.from][rank][me->s.phase], link);
		free(msg);
		me->got++;
		total = uccl_coll_total(&me->plan, &len);
		for (uint64_t i = 0; me->s.combine && i < len; i++)
			total[i] = (uint8_t)(total[i] + me->plan.tmp[i]);
	}
	me->asked = false;
	me->step++;
	return true;
}

static uint8_t value(uint32_t rank, uint64_t i)
{
	return (uint8_t)(rank * 37 + i * 11 + 5);
}

/* All of it, the members in an arbitrary order. */
static void run(enum uccl_coll_kind kind, uint32_t n, uint32_t root)
{
	bool moved = true;

	for (uint32_t r = 0; r < n; r++) {
		m[r] = (struct member){.more = true};
		m[r].plan = (struct uccl_coll_plan){
			.kind = kind, .n = n, .rank = r, .root = root, .len = kind == UCCL_BARRIER ? 0 : LEN,
			.src = m[r].src, .dst = m[r].dst, .acc = m[r].acc, .tmp = m[r].tmp,
		};
		for (uint64_t i = 0; i < sizeof(m[r].src); i++)
			m[r].src[i] = value(r, i);
		memset(m[r].dst, 0xee, sizeof(m[r].dst));
		if (kind == UCCL_BROADCAST && r == root)
			memcpy(m[r].dst, m[r].src, LEN);
		/* Nobody writes where it said that it needs nothing. */
		if (!uccl_coll_acc(&m[r].plan))
			m[r].plan.acc = NULL;
		if (!uccl_coll_tmp(&m[r].plan))
			m[r].plan.tmp = NULL;
		/* Nor reads where it said that it gives nothing. */
		memset(m[r].src + uccl_coll_given(&m[r].plan), 0xdd, sizeof(m[r].src) - uccl_coll_given(&m[r].plan));
		uccl_coll_begin(&m[r].plan);
		for (uint32_t k = 0; k < n; k++)
			for (int phase = 0; phase < 2; phase++)
				STAILQ_INIT(&box[r][k][phase]);
	}
	while (moved) {
		uint32_t first = random_below(n);

		moved = false;
		for (uint32_t k = 0; k < n; k++)
			moved |= advance((first + k) % n);
	}
	for (uint32_t r = 0; r < n; r++) {
		assert_false(m[r].more);
		for (uint32_t k = 0; k < n; k++)
			assert_true(STAILQ_EMPTY(&box[r][k][0]) && STAILQ_EMPTY(&box[r][k][1]));
		for (uint64_t i = uccl_coll_got(&m[r].plan); i < sizeof(m[r].dst); i++)
			assert_true(m[r].dst[i] == 0xee || (kind == UCCL_BROADCAST && r == root && i < LEN));
	}
}

static uint8_t sum(uint32_t n, uint64_t i)
{
	uint8_t v = 0;

	for (uint32_t r = 0; r < n; r++)
		v = (uint8_t)(v + value(r, i));
	return v;
}

static const uint32_t sizes[] = {1, 2, 3, 4, 5, 7, 8, 9, 16, 17, 31, 40};

#define each(n, root)                                                                                                  \
	for (unsigned int k_ = 0; k_ < sizeof(sizes) / sizeof(*sizes); k_++)                                           \
		for (uint32_t n = sizes[k_], root = 0; root < n; root += 1 + n / 5)

/* Nobody leaves before everybody came: with one that never begins, nobody ends. */
TEST(barrier__all_or_none)
{
	each(n, last) {
		run(UCCL_BARRIER, n, 0);
		for (uint32_t r = 0; r < n; r++) {
			assert_int_equal(m[r].sent, m[r].got);
			m[r].more = r != last;
			m[r].step = 0;
		}
		for (int rounds = 0; rounds < 20; rounds++)
			for (uint32_t r = 0; r < n; r++)
				advance(r);
		for (uint32_t r = 0; r < n; r++)
			assert_true(m[r].more == (r != last));
		for (uint32_t r = 0; r < n; r++)
			for (uint32_t k = 0; k < n; k++)
				while (!STAILQ_EMPTY(&box[r][k][0])) {
					struct msg *msg = STAILQ_FIRST(&box[r][k][0]);

					STAILQ_REMOVE_HEAD(&box[r][k][0], link);
					free(msg);
				}
	}
}

TEST(broadcast__everybody)
{
	each(n, root) {
		run(UCCL_BROADCAST, n, root);
		for (uint32_t r = 0; r < n; r++) {
			assert_memory_equal(m[r].dst, m[root].src, LEN);
			assert_int_equal(m[r].dst[LEN], 0xee);
		}
	}
}

TEST(reduce__at_the_root)
{
	each(n, root) {
		run(UCCL_REDUCE, n, root);
		for (uint64_t i = 0; i < LEN; i++)
			assert_int_equal(m[root].dst[i], sum(n, i));
		for (uint32_t r = 0; r < n; r++)
			assert_int_equal(m[r].dst[r == root ? LEN : 0], 0xee);
	}
}

TEST(allreduce__everybody)
{
	each(n, root) {
		run(UCCL_ALLREDUCE, n, root);
		for (uint32_t r = 0; r < n; r++) {
			for (uint64_t i = 0; i < LEN; i++)
				assert_int_equal(m[r].dst[i], sum(n, i));
			assert_int_equal(m[r].dst[LEN], 0xee);
		}
	}
}

TEST(reduce_scatter__own_part)
{
	each(n, root) {
		run(UCCL_REDUCE_SCATTER, n, root);
		for (uint32_t r = 0; r < n; r++) {
			for (uint64_t i = 0; i < LEN; i++)
				assert_int_equal(m[r].dst[i], sum(n, r * LEN + i));
			assert_int_equal(m[r].dst[LEN], 0xee);
		}
	}
}

TEST(scatter_gather__parts)
{
	each(n, root) {
		run(UCCL_SCATTER, n, root);
		for (uint32_t r = 0; r < n; r++) {
			assert_memory_equal(m[r].dst, m[root].src + (size_t)r * LEN, LEN);
			assert_int_equal(m[r].dst[LEN], 0xee);
		}
		run(UCCL_GATHER, n, root);
		for (uint32_t r = 0; r < n; r++) {
			assert_memory_equal(m[root].dst + (size_t)r * LEN, m[r].src, LEN);
			assert_true(r == root || m[r].dst[0] == 0xee);
		}
	}
}

TEST(allgather_alltoall__parts)
{
	each(n, root) {
		run(UCCL_ALLGATHER, n, root);
		for (uint32_t r = 0; r < n; r++)
			for (uint32_t k = 0; k < n; k++)
				assert_memory_equal(m[r].dst + (size_t)k * LEN, m[k].src, LEN);
		run(UCCL_ALLTOALL, n, root);
		for (uint32_t r = 0; r < n; r++)
			for (uint32_t k = 0; k < n; k++)
				assert_memory_equal(m[r].dst + (size_t)k * LEN, m[k].src + (size_t)r * LEN, LEN);
	}
}

/* Of four members, at the root 1 and at another one. */
TEST(given_got__how_much)
{
	static const struct {
		enum uccl_coll_kind kind;
		uint64_t given_root, given, got_root, got;
	} want[] = {
		{UCCL_BARRIER, 0, 0, 0, 0},
		{UCCL_BROADCAST, 3, 0, 0, 3},
		{UCCL_ALLTOALL, 12, 12, 12, 12},
		{UCCL_ALLREDUCE, 3, 3, 3, 3},
		{UCCL_ALLGATHER, 3, 3, 12, 12},
		{UCCL_REDUCE_SCATTER, 12, 12, 3, 3},
		{UCCL_REDUCE, 3, 3, 3, 0},
		{UCCL_SCATTER, 12, 0, 3, 3},
		{UCCL_GATHER, 3, 3, 12, 0},
	};

	for (unsigned int i = 0; i < sizeof(want) / sizeof(*want); i++) {
		struct uccl_coll_plan p = {.kind = want[i].kind, .n = 4, .rank = 1, .root = 1, .len = 3};

		assert_int_equal(uccl_coll_given(&p), want[i].given_root);
		assert_int_equal(uccl_coll_got(&p), want[i].got_root);
		p.rank = 2;
		assert_int_equal(uccl_coll_given(&p), want[i].given);
		assert_int_equal(uccl_coll_got(&p), want[i].got);
	}
}

/* A step that does not wait touches nothing that an earlier one still reads or writes. */
TEST(step__apart_unless_it_waits)
{
	for (int kind = 0; kind < UCCL_COLLS; kind++)
		each(n, root) {
			run(kind, n, root);
			for (uint32_t r = 0; r < n; r++) {
				struct uccl_coll_step s, was[N_MAX + 8];
				int nwas = 0;

				for (uint32_t i = 0; uccl_coll_step(&m[r].plan, i, &s); i++) {
					nwas = s.wait ? 0 : nwas;
					for (int k = 0; k < nwas; k++) {
						bool dirty = was[k].from >= 0 && s.from >= 0 && s.len;

						assert_false(was[k].combine);
						assert_false(dirty && was[k].recv == s.recv);
						assert_false(was[k].from >= 0 && s.to >= 0 && s.len &&
							     was[k].recv == s.send);
						assert_false(was[k].to >= 0 && s.from >= 0 && s.len &&
							     was[k].send == s.recv);
					}
					was[nwas++] = s;
				}
			}
		}
}

TESTS_MAIN
