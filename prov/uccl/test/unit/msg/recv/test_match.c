/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "msg/recv/match.h"

#include "../../tests.h"

#include "base/rng.h"
#include "msg/msg_ep.h"
#include "msg/record.h"

static struct uccl_peer alice, bob;

/* Two peers, and a struct uccl_match in *state. */
static int setup(void **state)
{
	static const struct uccl_addr addr;
	static struct uccl_match m;

	uccl_peer_init(&alice, NULL, &addr);
	uccl_peer_init(&bob, NULL, &addr);
	uccl_match_init(&m);
	*state = &m;
	return 0;
}

static int teardown(void **state)
{
	uccl_match_fini(*state);
	return 0;
}

static struct uccl_op recv_op(uint32_t flags, uint64_t tag, uint64_t ignore)
{
	return (struct uccl_op){.type = UCCL_OP_RECV,
				.flags = flags,
				.tag = tag,
				.recv.ignore = ignore,
				.peer = flags & UCCL_OPF_DIRECTED ? &alice : NULL};
}

static struct uccl_msg_rx message(struct uccl_peer *from, bool tagged, uint64_t tag)
{
	return (struct uccl_msg_rx){.peer = from, .env.tag = tag, .env.flags = tagged ? UCCL_ENV_TAGGED : 0};
}

TEST_IN(init__empty, setup, teardown)
{
	struct uccl_op op = recv_op(UCCL_OPF_TAGGED, 0, UINT64_MAX);
	struct uccl_match *m = *state;

	assert_null(uccl_match_posted(m, true, &alice, 0));
	assert_null(uccl_match_posted(m, false, &alice, 0));
	assert_null(uccl_match_unexpected(m, &op));
	assert_null(uccl_match_claimed(m, NULL));
}

/* PROTOCOL R36 */
TEST_IN(posted__exact_tag, setup, teardown)
{
	struct uccl_op op = recv_op(UCCL_OPF_TAGGED, 0x8000000000000001, 0);
	struct uccl_match *m = *state;

	uccl_match_post(m, &op);
	assert_ptr_equal(uccl_match_posted(m, true, &alice, 0x8000000000000001), &op);
	assert_null(uccl_match_posted(m, true, &alice, 1));
	assert_null(uccl_match_posted(m, true, &alice, 0x8000000000000000));
	assert_null(uccl_match_posted(m, true, &alice, 0x8000000000000003));
}

/* PROTOCOL R36 */
TEST_IN(posted__ignored_bits, setup, teardown)
{
	struct uccl_op op = recv_op(UCCL_OPF_TAGGED, 0xab00, 0xff);
	struct uccl_op any = recv_op(UCCL_OPF_TAGGED, 0x1234, UINT64_MAX);
	struct uccl_match *m = *state;

	uccl_match_post(m, &op);
	for (uint64_t low = 0; low < 256; low++)
		assert_ptr_equal(uccl_match_posted(m, true, &bob, 0xab00 | low), &op);
	for (int bit = 8; bit < 64; bit++)
		assert_null(uccl_match_posted(m, true, &bob, 0xab00 ^ 1ull << bit));
	uccl_match_post(m, &any);
	assert_ptr_equal(uccl_match_posted(m, true, &bob, 0xab07), &op);
	assert_ptr_equal(uccl_match_posted(m, true, &bob, UINT64_MAX), &any);
}

/* A bit set in the receive's own tag and ignored does not matter either. */
TEST_IN(posted__ignored_bits_of_the_receive, setup, teardown)
{
	struct uccl_op op = recv_op(UCCL_OPF_TAGGED, 0xabff, 0xff);
	struct uccl_match *m = *state;

	uccl_match_post(m, &op);
	assert_ptr_equal(uccl_match_posted(m, true, &alice, 0xab00), &op);
}

/* PROTOCOL R37 */
TEST_IN(posted__in_post_order, setup, teardown)
{
	struct uccl_op wild = recv_op(UCCL_OPF_TAGGED, 0, UINT64_MAX), exact = recv_op(UCCL_OPF_TAGGED, 5, 0);
	struct uccl_op again = recv_op(UCCL_OPF_TAGGED, 5, 0);
	struct uccl_match *m = *state;

	uccl_match_post(m, &wild);
	uccl_match_post(m, &exact);
	uccl_match_post(m, &again);
	/* The better fit does not matter, the order of posting does. */
	assert_ptr_equal(uccl_match_posted(m, true, &alice, 5), &wild);
	uccl_match_unpost(m, &wild);
	assert_ptr_equal(uccl_match_posted(m, true, &alice, 5), &exact);
	assert_null(uccl_match_posted(m, true, &alice, 6));
	uccl_match_unpost(m, &exact);
	assert_ptr_equal(uccl_match_posted(m, true, &alice, 5), &again);
	uccl_match_unpost(m, &again);
	assert_null(uccl_match_posted(m, true, &alice, 5));
}

/* PROTOCOL R38 */
TEST_IN(posted__directed, setup, teardown)
{
	struct uccl_op op = recv_op(UCCL_OPF_TAGGED | UCCL_OPF_DIRECTED, 0, UINT64_MAX);
	struct uccl_op plain = recv_op(UCCL_OPF_DIRECTED, 0, 0);
	struct uccl_match *m = *state;

	uccl_match_post(m, &op);
	uccl_match_post(m, &plain);
	assert_null(uccl_match_posted(m, true, &bob, 1));
	assert_null(uccl_match_posted(m, false, &bob, 1));
	assert_ptr_equal(uccl_match_posted(m, true, &alice, 1), &op);
	assert_ptr_equal(uccl_match_posted(m, false, &alice, 1), &plain);
}

/* Without the flag the peer that an op happens to name does not matter. */
TEST_IN(posted__peer_without_flag, setup, teardown)
{
	struct uccl_op op = recv_op(0, 0, 0);
	struct uccl_match *m = *state;

	op.peer = &alice;
	uccl_match_post(m, &op);
	assert_ptr_equal(uccl_match_posted(m, false, &bob, 0), &op);
}

/* PROTOCOL R35 */
TEST_IN(posted__tagged_and_untagged_apart, setup, teardown)
{
	struct uccl_op tagged = recv_op(UCCL_OPF_TAGGED, 0, UINT64_MAX), plain = recv_op(0, 0, 0);
	struct uccl_match *m = *state;

	uccl_match_post(m, &tagged);
	assert_null(uccl_match_posted(m, false, &alice, 0));
	uccl_match_post(m, &plain);
	assert_ptr_equal(uccl_match_posted(m, false, &alice, 0), &plain);
	/* An untagged message has no tag, whatever its envelope says. */
	assert_ptr_equal(uccl_match_posted(m, false, &alice, 77), &plain);
	uccl_match_unpost(m, &tagged);
	assert_null(uccl_match_posted(m, true, &alice, 0));
}

/* PROTOCOL R35 */
TEST_IN(posted__collective_apart, setup, teardown)
{
	struct uccl_op all = recv_op(UCCL_OPF_TAGGED, 0, UINT64_MAX), plain = recv_op(0, 0, 0);
	struct uccl_op coll = recv_op(UCCL_OPF_COLL, 7, 1);
	struct uccl_msg_rx rx = message(&alice, true, 7);
	struct uccl_match *m = *state;

	uccl_match_post(m, &all);
	uccl_match_post(m, &plain);
	assert_null(uccl_match_posted(m, UCCL_KIND_COLL, &alice, 7));
	uccl_match_post(m, &coll);
	assert_ptr_equal(uccl_match_posted(m, UCCL_KIND_COLL, &alice, 6), &coll);
	assert_null(uccl_match_posted(m, UCCL_KIND_COLL, &alice, 5));
	assert_ptr_equal(uccl_match_posted(m, UCCL_KIND_TAGGED, &alice, 7), &all);
	/* Whatever else its envelope says. */
	rx.env.flags |= UCCL_ENV_COLL;
	uccl_match_list(m, &rx);
	assert_null(uccl_match_unexpected(m, &all));
	assert_null(uccl_match_unexpected(m, &plain));
	assert_ptr_equal(uccl_match_unexpected(m, &coll), &rx);
	uccl_match_unlist(m, &rx);
	assert_null(uccl_match_unexpected(m, &coll));
}

/* PROTOCOL R35 R37 */
TEST_IN(unexpected__in_order_of_arrival, setup, teardown)
{
	struct uccl_msg_rx a = message(&alice, true, 1), b = message(&bob, true, 2), c = message(&alice, true, 2);
	struct uccl_msg_rx plain = message(&alice, false, 2);
	struct uccl_op two = recv_op(UCCL_OPF_TAGGED, 2, 0), any = recv_op(UCCL_OPF_TAGGED, 0, UINT64_MAX);
	struct uccl_op directed = recv_op(UCCL_OPF_TAGGED | UCCL_OPF_DIRECTED, 2, 0), untagged = recv_op(0, 0, 0);
	struct uccl_match *m = *state;

	uccl_match_list(m, &plain);
	uccl_match_list(m, &a);
	uccl_match_list(m, &b);
	uccl_match_list(m, &c);
	assert_true(a.match.listed && b.match.listed && c.match.listed && plain.match.listed);
	assert_ptr_equal(uccl_match_unexpected(m, &any), &a);
	assert_ptr_equal(uccl_match_unexpected(m, &two), &b);
	assert_ptr_equal(uccl_match_unexpected(m, &directed), &c);
	assert_ptr_equal(uccl_match_unexpected(m, &untagged), &plain);
	/* Looking takes nothing. */
	assert_ptr_equal(uccl_match_unexpected(m, &two), &b);
	uccl_match_unlist(m, &b);
	assert_false(b.match.listed);
	assert_ptr_equal(uccl_match_unexpected(m, &two), &c);
	uccl_match_unlist(m, &c);
	assert_null(uccl_match_unexpected(m, &two));
	assert_null(uccl_match_unexpected(m, &directed));
	uccl_match_unlist(m, &plain);
	assert_null(uccl_match_unexpected(m, &untagged));
}

/* PROTOCOL R39 */
TEST_IN(claim__kept_for_its_context, setup, teardown)
{
	struct uccl_msg_rx a = message(&alice, true, 1), b = message(&alice, true, 1), c = message(&alice, true, 1);
	struct uccl_op op = recv_op(UCCL_OPF_TAGGED, 1, 0);
	int one, two;
	struct uccl_match *m = *state;

	uccl_match_list(m, &a);
	uccl_match_list(m, &b);
	uccl_match_list(m, &c);
	uccl_match_claim(m, &a, &one);
	assert_false(a.match.listed);
	assert_ptr_equal(uccl_match_unexpected(m, &op), &b);
	uccl_match_claim(m, &b, &two);
	uccl_match_claim(m, &c, &one);
	assert_null(uccl_match_unexpected(m, &op));
	assert_null(uccl_match_claimed(m, &op));
	assert_ptr_equal(uccl_match_claimed(m, &two), &b);
	assert_null(uccl_match_claimed(m, &two));
	/* Claims under one context come back in their order. */
	assert_ptr_equal(uccl_match_claimed(m, &one), &a);
	assert_null(a.match.claim);
	assert_ptr_equal(uccl_match_claimed(m, &one), &c);
	assert_null(uccl_match_claimed(m, &one));
}

/* Who is named by receives finds them, each kind in its order; others are not among them. */
TEST_IN(post__found_from_the_peer, setup, teardown)
{
	struct uccl_op any = recv_op(0, 0, 0), first = recv_op(UCCL_OPF_DIRECTED, 0, 0);
	struct uccl_op second = recv_op(UCCL_OPF_DIRECTED, 0, 0), cm = recv_op(UCCL_OPF_DIRECTED | UCCL_OPF_CM, 0, 0);
	struct uccl_match *m = *state;

	uccl_match_post(m, &first);
	uccl_match_post(m, &any);
	uccl_match_post(m, &cm);
	uccl_match_post(m, &second);
	assert_ptr_equal(TAILQ_FIRST(&alice.directed[UCCL_KIND_UNTAGGED]), &first);
	assert_ptr_equal(TAILQ_NEXT(&first, recv.match.directed_link), &second);
	assert_null(TAILQ_NEXT(&second, recv.match.directed_link));
	assert_ptr_equal(TAILQ_FIRST(&alice.directed[UCCL_KIND_CM]), &cm);
	assert_true(TAILQ_EMPTY(&bob.directed[UCCL_KIND_UNTAGGED]));
	uccl_match_unpost(m, &first);
	uccl_match_unpost(m, &any);
	uccl_match_unpost(m, &cm);
	assert_ptr_equal(TAILQ_FIRST(&alice.directed[UCCL_KIND_UNTAGGED]), &second);
	assert_true(TAILQ_EMPTY(&alice.directed[UCCL_KIND_CM]));
}

/* A name that turns out to be another one: its receives are posted as before, and found from that one. */
TEST_IN(rename__moves_receives, setup, teardown)
{
	struct uccl_op op = recv_op(UCCL_OPF_TAGGED | UCCL_OPF_DIRECTED, 1, 0), other = op, any = recv_op(0, 0, 0);
	struct uccl_match *m = *state;

	other.peer = &bob;
	any.peer = &alice;
	uccl_match_post(m, &op);
	uccl_match_post(m, &other);
	uccl_match_post(m, &any);
	uccl_match_rename(m, &alice, &bob);
	assert_true(TAILQ_EMPTY(&alice.directed[UCCL_KIND_TAGGED]));
	assert_ptr_equal(op.peer, &bob);
	assert_ptr_equal(any.peer, &alice);
	assert_null(uccl_match_posted(m, UCCL_KIND_TAGGED, &alice, 1));
	assert_ptr_equal(uccl_match_posted(m, UCCL_KIND_TAGGED, &bob, 1), &op);
	uccl_match_unpost(m, &op);
	uccl_match_unpost(m, &other);
	assert_true(TAILQ_EMPTY(&bob.directed[UCCL_KIND_TAGGED]));
}

/* Receives that name a peer by its other name keep their places among those that name it already. */
TEST_IN(rename__keeps_the_order, setup, teardown)
{
	static struct uccl_op op[60];
	struct uccl_match *m = *state;

	for (int i = 0; i < 60; i++) {
		op[i] = recv_op(UCCL_OPF_TAGGED | UCCL_OPF_DIRECTED, 1, 0);
		op[i].peer = i % 3 ? &alice : &bob;
		uccl_match_post(m, &op[i]);
	}
	uccl_match_rename(m, &alice, &bob);
	assert_null(uccl_match_posted(m, UCCL_KIND_TAGGED, &alice, 1));
	for (int i = 0; i < 60; i++) {
		assert_ptr_equal(TAILQ_FIRST(&bob.directed[UCCL_KIND_TAGGED]), &op[i]);
		assert_ptr_equal(uccl_match_posted(m, UCCL_KIND_TAGGED, &bob, 1), &op[i]);
		uccl_match_unpost(m, &op[i]);
	}
}

/* What waits takes few steps, however many others wait with it. */
#define MANY 10000
/* Steps of an operation that finds what it looks for by tables, of which there are a few. */
#define STEPS 12

static struct uccl_op posts[MANY];
static struct uccl_msg_rx rxs[MANY];

static uint64_t scramble(uint64_t i)
{
	return i * 7919 % MANY;
}

TEST_IN(posted__steps_do_not_grow, setup, teardown)
{
	struct uccl_match *m = *state;
	uint64_t steps;

	for (uint64_t i = 0; i < MANY; i++) {
		posts[i] = recv_op(UCCL_OPF_TAGGED | (i & 1 ? UCCL_OPF_DIRECTED : 0), i << 8, i & 2 ? 0xff : 0);
		uccl_match_post(m, &posts[i]);
	}
	for (uint64_t i = 0; i < MANY; i++) {
		uint64_t k = scramble(i);

		steps = m->steps;
		assert_ptr_equal(uccl_match_posted(m, UCCL_KIND_TAGGED, &alice, k << 8), &posts[k]);
		assert_null(uccl_match_posted(m, UCCL_KIND_TAGGED, &alice, 1 | MANY << 8));
		uccl_match_unpost(m, &posts[k]);
		assert_in_range(m->steps - steps, 1, 2 * STEPS);
	}
}

/* Each bit of the tag is ignored by some receives: the tables are as many, and no more. */
TEST_IN(posted__many_masks, setup, teardown)
{
	struct uccl_match *m = *state;
	uint64_t steps;

	for (uint64_t i = 0; i < MANY; i++) {
		posts[i] = recv_op(UCCL_OPF_TAGGED, i << 32, i % 80 < 32 ? 1ull << i % 80 : i % 80);
		uccl_match_post(m, &posts[i]);
	}
	for (uint64_t i = 0; i < MANY; i++) {
		uint64_t k = scramble(i);

		steps = m->steps;
		assert_ptr_equal(uccl_match_posted(m, UCCL_KIND_TAGGED, &alice, k << 32), &posts[k]);
		uccl_match_unpost(m, &posts[k]);
		assert_in_range(m->steps - steps, 1, UCCL_MATCH_CLASSES + MANY / 80 * 20);
	}
}

TEST_IN(context__steps_do_not_grow, setup, teardown)
{
	struct uccl_match *m = *state;
	uint64_t steps;

	for (uint64_t i = 0; i < MANY; i++) {
		posts[i] = recv_op(UCCL_OPF_TAGGED, 1, 0);
		posts[i].context = &posts[i / 2 * 2];
		uccl_match_post(m, &posts[i]);
	}
	assert_null(uccl_match_context(m, UCCL_KIND_TAGGED, m));
	assert_null(uccl_match_context(m, UCCL_KIND_UNTAGGED, &posts[0]));
	steps = m->steps;
	for (uint64_t i = 0; i < MANY; i++) {
		uint64_t k = scramble(i) / 2 * 2;
		struct uccl_op *op = uccl_match_context(m, UCCL_KIND_TAGGED, &posts[k]);

		/* Those of one context in their order. */
		assert_ptr_equal(op, posts[k].recv.match.posted ? &posts[k] : &posts[k + 1]);
		uccl_match_unpost(m, op);
	}
	assert_in_range(m->steps - steps, 1, 2 * MANY);
}

/* By tag, by tag and source, by source, by a part of the tag: each in an order that is not that of arrival. */
TEST_IN(unexpected__steps_do_not_grow, setup, teardown)
{
	static const struct {
		uint32_t flags;
		uint64_t ignore;
	} how[4] = {{0, 0}, {UCCL_OPF_DIRECTED, 0}, {0, 0xff}, {UCCL_OPF_DIRECTED, 0xff}};
	struct uccl_match *m = *state;
	uint64_t steps;

	for (uint64_t i = 0; i < MANY; i++) {
		rxs[i] = message(i & 1 ? &alice : &bob, true, i << 8);
		uccl_match_list(m, &rxs[i]);
	}
	steps = m->steps;
	for (uint64_t i = 0; i < MANY; i++) {
		uint64_t k = scramble(i);
		struct uccl_op op = recv_op(UCCL_OPF_TAGGED | how[i % 4].flags, k << 8, how[i % 4].ignore);

		op.peer = rxs[k].peer;
		assert_ptr_equal(uccl_match_unexpected(m, &op), &rxs[k]);
		uccl_match_unlist(m, &rxs[k]);
		op.tag = MANY << 8;
		assert_null(uccl_match_unexpected(m, &op));
	}
	/* Four tables, each message once in each. */
	assert_in_range(m->steps - steps, MANY, (4 + STEPS) * MANY);
	assert_int_equal(m->entries.used, 0);
}

/* With more masks by turns than there are tables the list is read, and nothing else is done each time. */
TEST_IN(unexpected__more_masks_than_tables, setup, teardown)
{
	struct uccl_match *m = *state;
	uint64_t steps;

	for (uint64_t i = 0; i < 1000; i++) {
		rxs[i] = message(&alice, true, i << 8);
		uccl_match_list(m, &rxs[i]);
	}
	for (int i = 0; i < 1000; i++) {
		struct uccl_op op = recv_op(UCCL_OPF_TAGGED, 999 << 8, (uint64_t)(i % (UCCL_MATCH_VIEWS + 4)));

		steps = m->steps;
		assert_ptr_equal(uccl_match_unexpected(m, &op), &rxs[999]);
		if (i > UCCL_MATCH_VIEWS)
			assert_in_range(m->steps - steps, 1, 1000);
	}
	/* The habits change: the table that is asked no more makes room. */
	for (int i = 0; i < UCCL_MATCH_REST + 2; i++) {
		struct uccl_op op = recv_op(UCCL_OPF_TAGGED, 999 << 8, 0x7f);

		steps = m->steps;
		assert_ptr_equal(uccl_match_unexpected(m, &op), &rxs[999]);
	}
	assert_in_range(m->steps - steps, 1, STEPS);
	for (int i = 0; i < 1000; i++)
		uccl_match_unlist(m, &rxs[i]);
	assert_int_equal(m->entries.used, 0);
}

/* Without memory for a table the list is read; what is there is found as before. */
TEST_IN(unexpected__no_memory_for_a_table, setup, teardown)
{
	struct uccl_op op = recv_op(UCCL_OPF_TAGGED, 900, 0), wide = recv_op(UCCL_OPF_TAGGED, 900, 1);
	struct uccl_match *m = *state;

	m->entries.max = 1500;
	for (uint64_t i = 0; i < 1400; i++) {
		rxs[i] = message(&alice, true, i);
		uccl_match_list(m, &rxs[i]);
	}
	assert_ptr_equal(uccl_match_unexpected(m, &op), &rxs[900]);
	assert_int_equal(m->entries.used, 1400);
	assert_ptr_equal(uccl_match_unexpected(m, &wide), &rxs[900]);
	assert_int_equal(m->entries.used, 1400);
	/* The one that there is does not reach for what comes: it goes, too. */
	for (uint64_t i = 1400; i < 1600; i++) {
		rxs[i] = message(&alice, true, i);
		uccl_match_list(m, &rxs[i]);
	}
	assert_int_equal(m->entries.used, 0);
	assert_ptr_equal(uccl_match_unexpected(m, &op), &rxs[900]);
	op.tag = 1599;
	assert_ptr_equal(uccl_match_unexpected(m, &op), &rxs[1599]);
	for (int i = 0; i < 1600; i++)
		uccl_match_unlist(m, &rxs[i]);
}

TEST_IN(claimed__steps_do_not_grow, setup, teardown)
{
	struct uccl_match *m = *state;
	uint64_t steps;

	for (uint64_t i = 0; i < MANY; i++) {
		rxs[i] = message(&alice, true, i);
		uccl_match_list(m, &rxs[i]);
		uccl_match_claim(m, &rxs[i], &posts[i / 2]);
	}
	steps = m->steps;
	for (uint64_t i = 0; i < MANY; i++) {
		uint64_t k = scramble(i) / 2;
		bool second = !rxs[2 * k].match.claim;

		assert_ptr_equal(uccl_match_claimed(m, &posts[k]), &rxs[2 * k + second]);
	}
	assert_in_range(m->steps - steps, MANY, 3 * MANY);
	assert_null(uccl_match_claimed(m, &posts[0]));
}

/* The rules themselves, read from lists. */
static bool meets(const struct uccl_op *recv, const struct uccl_msg_rx *rx)
{
	bool tagged = recv->flags & UCCL_OPF_TAGGED;

	if (tagged != !!(rx->env.flags & UCCL_ENV_TAGGED) ||
	    (recv->flags & UCCL_OPF_DIRECTED && recv->peer != rx->peer))
		return false;
	return !tagged || !((recv->tag ^ rx->env.tag) & ~recv->recv.ignore);
}

#define LIVE 400

/* What is posted and what has come, in order. */
struct plain {
	struct uccl_op *op[LIVE];
	struct uccl_msg_rx *rx[LIVE];
	int nop, nrx;
};

static struct uccl_op *plain_posted(const struct plain *l, const struct uccl_msg_rx *rx)
{
	for (int i = 0; i < l->nop; i++)
		if (meets(l->op[i], rx))
			return l->op[i];
	return NULL;
}

static struct uccl_msg_rx *plain_unexpected(const struct plain *l, const struct uccl_op *op, bool left)
{
	for (int i = 0; i < l->nrx; i++) {
		const struct uccl_op *first = left ? plain_posted(l, l->rx[i]) : NULL;

		if (meets(op, l->rx[i]) &&
		    (!first || first == op ||
		     (op->recv.match.posted && first->recv.match.posted > op->recv.match.posted)))
			return l->rx[i];
	}
	return NULL;
}

/* Whatever is posted and comes, tables find what lists find: few masks or many, with memory and without. */
TEST_IN(match__as_lists, setup, teardown)
{
	static struct uccl_op op[LIVE];
	static struct plain l;
	struct uccl_rng rng;

	for (uint64_t seed = 1; seed <= 60; seed++) {
		uint64_t masks = seed % 3 ? 4 : 90, grows = 50 + seed % 5 * 3;
		bool used[LIVE] = {false}, here[LIVE] = {false};
		struct uccl_match m;

		l.nop = l.nrx = 0;
		uccl_rng_seed(&rng, seed);
		uccl_match_init(&m);
		if (seed % 7 == 0)
			m.entries.max = 300;
		for (int step = 0; step < 3000; step++) {
			bool more = uccl_rng_below(&rng, 100) < (step / 700 % 2 ? 100 - grows : grows);
			int i = (int)uccl_rng_below(&rng, LIVE);
			struct uccl_op ask;

			if (uccl_rng_below(&rng, 2)) {
				uint64_t ignore = uccl_rng_below(&rng, masks);

				if (more && !used[i]) {
					op[i] = recv_op(uccl_rng_below(&rng, 9) ? UCCL_OPF_TAGGED : 0,
							uccl_rng_below(&rng, 64), masks > 4 ? ignore : ignore * 0x15);
					op[i].flags |= uccl_rng_below(&rng, 2) ? UCCL_OPF_DIRECTED : 0;
					op[i].peer = uccl_rng_below(&rng, 2) ? &alice : &bob;
					op[i].context = &op[i % 50];
					uccl_match_post(&m, &op[i]);
					l.op[l.nop++] = &op[i];
					used[i] = true;
				} else if (!more && used[i]) {
					int to = 0;

					uccl_match_unpost(&m, &op[i]);
					for (int k = 0; k < l.nop; k++)
						if (l.op[k] != &op[i])
							l.op[to++] = l.op[k];
					l.nop = to;
					used[i] = false;
				}
			} else if (more && !here[i]) {
				rxs[i] = message(uccl_rng_below(&rng, 2) ? &alice : &bob, uccl_rng_below(&rng, 9),
						 uccl_rng_below(&rng, 64));
				uccl_match_list(&m, &rxs[i]);
				l.rx[l.nrx++] = &rxs[i];
				here[i] = true;
			} else if (!more && here[i]) {
				int to = 0;

				uccl_match_unlist(&m, &rxs[i]);
				for (int k = 0; k < l.nrx; k++)
					if (l.rx[k] != &rxs[i])
						l.rx[to++] = l.rx[k];
				l.nrx = to;
				here[i] = false;
			}
			i = (int)uccl_rng_below(&rng, LIVE);
			if (here[i])
				assert_ptr_equal(uccl_match_posted(&m, uccl_env_kind(rxs[i].env.flags), rxs[i].peer,
								   rxs[i].env.tag), plain_posted(&l, &rxs[i]));
			ask = recv_op(uccl_rng_below(&rng, 9) ? UCCL_OPF_TAGGED : 0, uccl_rng_below(&rng, 64),
				      uccl_rng_below(&rng, masks) * (masks > 4 ? 1 : 0x15));
			ask.flags |= uccl_rng_below(&rng, 2) ? UCCL_OPF_DIRECTED : 0;
			ask.peer = uccl_rng_below(&rng, 2) ? &alice : &bob;
			assert_ptr_equal(uccl_match_unexpected(&m, &ask), plain_unexpected(&l, &ask, false));
			assert_ptr_equal(uccl_match_left(&m, &ask), plain_unexpected(&l, &ask, true));
			if (used[i])
				assert_ptr_equal(uccl_match_left(&m, &op[i]), plain_unexpected(&l, &op[i], true));
			if (step % 50 == 0) {
				struct uccl_op *found = uccl_match_context(&m, UCCL_KIND_TAGGED, &op[i % 50]);
				int k = 0;

				while (k < l.nop && (l.op[k]->context != &op[i % 50] ||
						     !(l.op[k]->flags & UCCL_OPF_TAGGED)))
					k++;
				assert_ptr_equal(found, k < l.nop ? l.op[k] : NULL);
			}
		}
		while (l.nop)
			uccl_match_unpost(&m, l.op[--l.nop]);
		while (l.nrx)
			uccl_match_unlist(&m, l.rx[--l.nrx]);
		assert_int_equal(m.entries.used, 0);
		uccl_match_fini(&m);
	}
}

/* A buffer that starves is found once; what is posted behind it, when it is posted no more. */
TEST_IN(starve__and_those_behind, setup, teardown)
{
	struct uccl_op multi = recv_op(UCCL_OPF_MULTI, 0, 0), again = multi, one = recv_op(0, 0, 0), before = one;
	struct uccl_op tagged = recv_op(UCCL_OPF_TAGGED, 0, UINT64_MAX);
	struct uccl_match *m = *state;

	uccl_match_post(m, &before);
	uccl_match_post(m, &multi);
	uccl_match_post(m, &one);
	uccl_match_post(m, &tagged);
	uccl_match_post(m, &again);
	uccl_match_starve(m, &multi);
	uccl_match_starve(m, &multi);
	assert_ptr_equal(TAILQ_FIRST(&m->starved), &multi);
	assert_null(TAILQ_NEXT(&multi, recv.match.wait_link));
	assert_true(TAILQ_EMPTY(&m->passed));
	uccl_match_unstarve(m, &multi);
	assert_true(TAILQ_EMPTY(&m->starved));
	uccl_match_starve(m, &multi);
	uccl_match_unpost(m, &multi);
	assert_ptr_equal(TAILQ_FIRST(&m->starved), &again);
	assert_null(TAILQ_NEXT(&again, recv.match.wait_link));
	assert_ptr_equal(TAILQ_FIRST(&m->passed), &one);
	assert_null(TAILQ_NEXT(&one, recv.match.wait_link));
	uccl_match_unpost(m, &one);
	assert_true(TAILQ_EMPTY(&m->passed));
	uccl_match_unpost(m, &again);
	assert_true(TAILQ_EMPTY(&m->starved));
	/* One that does not starve leaves nothing. */
	uccl_match_unpost(m, &before);
	assert_true(TAILQ_EMPTY(&m->passed));
}

TESTS_MAIN
