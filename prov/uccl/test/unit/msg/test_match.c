/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "msg/match.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "msg/mep.h"
#include "msg/record.h"

static struct uccl_peer alice, bob;

static int peers(void **state)
{
	static const struct uccl_addr addr;

	(void)state;
	uccl_peer_init(&alice, NULL, &addr);
	uccl_peer_init(&bob, NULL, &addr);
	return 0;
}

static struct uccl_op recv_op(uint32_t flags, uint64_t tag, uint64_t ignore)
{
	return (struct uccl_op){.type = UCCL_OP_RECV,
				.flags = flags,
				.tag = tag,
				.ignore = ignore,
				.peer = flags & UCCL_OPF_DIRECTED ? &alice : NULL};
}

static struct uccl_msg_rx message(struct uccl_peer *from, bool tagged, uint64_t tag)
{
	return (struct uccl_msg_rx){.peer = from, .tag = tag, .flags = tagged ? UCCL_ENV_TAGGED : 0};
}

static void init__empty(void **state)
{
	struct uccl_op op = recv_op(UCCL_OPF_TAGGED, 0, UINT64_MAX);
	struct uccl_match m;

	(void)state;
	uccl_match_init(&m);
	assert_null(uccl_match_posted(&m, true, &alice, 0));
	assert_null(uccl_match_posted(&m, false, &alice, 0));
	assert_null(uccl_match_unexpected(&m, &op));
	assert_null(uccl_match_claimed(&m, NULL));
}

/* PROTOCOL R36 */
static void posted__exact_tag(void **state)
{
	struct uccl_op op = recv_op(UCCL_OPF_TAGGED, 0x8000000000000001, 0);
	struct uccl_match m;

	(void)state;
	uccl_match_init(&m);
	uccl_match_post(&m, &op);
	assert_ptr_equal(uccl_match_posted(&m, true, &alice, 0x8000000000000001), &op);
	assert_null(uccl_match_posted(&m, true, &alice, 1));
	assert_null(uccl_match_posted(&m, true, &alice, 0x8000000000000000));
	assert_null(uccl_match_posted(&m, true, &alice, 0x8000000000000003));
}

/* PROTOCOL R36 */
static void posted__ignored_bits(void **state)
{
	struct uccl_op op = recv_op(UCCL_OPF_TAGGED, 0xab00, 0xff);
	struct uccl_op any = recv_op(UCCL_OPF_TAGGED, 0x1234, UINT64_MAX);
	struct uccl_match m;

	(void)state;
	uccl_match_init(&m);
	uccl_match_post(&m, &op);
	for (uint64_t low = 0; low < 256; low++)
		assert_ptr_equal(uccl_match_posted(&m, true, &bob, 0xab00 | low), &op);
	for (int bit = 8; bit < 64; bit++)
		assert_null(uccl_match_posted(&m, true, &bob, 0xab00 ^ 1ull << bit));
	uccl_match_post(&m, &any);
	assert_ptr_equal(uccl_match_posted(&m, true, &bob, 0xab07), &op);
	assert_ptr_equal(uccl_match_posted(&m, true, &bob, UINT64_MAX), &any);
}

/* A bit set in the receive's own tag and ignored does not matter either. */
static void posted__ignored_bits_of_the_receive(void **state)
{
	struct uccl_op op = recv_op(UCCL_OPF_TAGGED, 0xabff, 0xff);
	struct uccl_match m;

	(void)state;
	uccl_match_init(&m);
	uccl_match_post(&m, &op);
	assert_ptr_equal(uccl_match_posted(&m, true, &alice, 0xab00), &op);
}

/* PROTOCOL R37 */
static void posted__in_post_order(void **state)
{
	struct uccl_op wild = recv_op(UCCL_OPF_TAGGED, 0, UINT64_MAX), exact = recv_op(UCCL_OPF_TAGGED, 5, 0);
	struct uccl_op again = recv_op(UCCL_OPF_TAGGED, 5, 0);
	struct uccl_match m;

	(void)state;
	uccl_match_init(&m);
	uccl_match_post(&m, &wild);
	uccl_match_post(&m, &exact);
	uccl_match_post(&m, &again);
	/* The better fit does not matter, the order of posting does. */
	assert_ptr_equal(uccl_match_posted(&m, true, &alice, 5), &wild);
	uccl_match_unpost(&m, &wild);
	assert_ptr_equal(uccl_match_posted(&m, true, &alice, 5), &exact);
	assert_null(uccl_match_posted(&m, true, &alice, 6));
	uccl_match_unpost(&m, &exact);
	assert_ptr_equal(uccl_match_posted(&m, true, &alice, 5), &again);
	uccl_match_unpost(&m, &again);
	assert_null(uccl_match_posted(&m, true, &alice, 5));
}

/* PROTOCOL R38 */
static void posted__directed(void **state)
{
	struct uccl_op op = recv_op(UCCL_OPF_TAGGED | UCCL_OPF_DIRECTED, 0, UINT64_MAX);
	struct uccl_op plain = recv_op(UCCL_OPF_DIRECTED, 0, 0);
	struct uccl_match m;

	(void)state;
	uccl_match_init(&m);
	uccl_match_post(&m, &op);
	uccl_match_post(&m, &plain);
	assert_null(uccl_match_posted(&m, true, &bob, 1));
	assert_null(uccl_match_posted(&m, false, &bob, 1));
	assert_ptr_equal(uccl_match_posted(&m, true, &alice, 1), &op);
	assert_ptr_equal(uccl_match_posted(&m, false, &alice, 1), &plain);
}

/* Without the flag the peer that an op happens to name does not matter. */
static void posted__peer_without_flag(void **state)
{
	struct uccl_op op = recv_op(0, 0, 0);
	struct uccl_match m;

	(void)state;
	op.peer = &alice;
	uccl_match_init(&m);
	uccl_match_post(&m, &op);
	assert_ptr_equal(uccl_match_posted(&m, false, &bob, 0), &op);
}

/* PROTOCOL R35 */
static void posted__tagged_and_untagged_apart(void **state)
{
	struct uccl_op tagged = recv_op(UCCL_OPF_TAGGED, 0, UINT64_MAX), plain = recv_op(0, 0, 0);
	struct uccl_match m;

	(void)state;
	uccl_match_init(&m);
	uccl_match_post(&m, &tagged);
	assert_null(uccl_match_posted(&m, false, &alice, 0));
	uccl_match_post(&m, &plain);
	assert_ptr_equal(uccl_match_posted(&m, false, &alice, 0), &plain);
	/* An untagged message has no tag, whatever its envelope says. */
	assert_ptr_equal(uccl_match_posted(&m, false, &alice, 77), &plain);
	uccl_match_unpost(&m, &tagged);
	assert_null(uccl_match_posted(&m, true, &alice, 0));
}

/* PROTOCOL R35 */
static void posted__collective_apart(void **state)
{
	struct uccl_op all = recv_op(UCCL_OPF_TAGGED, 0, UINT64_MAX), plain = recv_op(0, 0, 0);
	struct uccl_op coll = recv_op(UCCL_OPF_COLL, 7, 1);
	struct uccl_msg_rx rx = message(&alice, true, 7);
	struct uccl_match m;

	(void)state;
	uccl_match_init(&m);
	uccl_match_post(&m, &all);
	uccl_match_post(&m, &plain);
	assert_null(uccl_match_posted(&m, UCCL_KIND_COLL, &alice, 7));
	uccl_match_post(&m, &coll);
	assert_ptr_equal(uccl_match_posted(&m, UCCL_KIND_COLL, &alice, 6), &coll);
	assert_null(uccl_match_posted(&m, UCCL_KIND_COLL, &alice, 5));
	assert_ptr_equal(uccl_match_posted(&m, UCCL_KIND_TAGGED, &alice, 7), &all);
	/* Whatever else its envelope says. */
	rx.flags |= UCCL_ENV_COLL;
	uccl_match_list(&m, &rx);
	assert_null(uccl_match_unexpected(&m, &all));
	assert_null(uccl_match_unexpected(&m, &plain));
	assert_ptr_equal(uccl_match_unexpected(&m, &coll), &rx);
	uccl_match_unlist(&m, &rx);
	assert_null(uccl_match_unexpected(&m, &coll));
}

/* PROTOCOL R35 R37 */
static void unexpected__in_order_of_arrival(void **state)
{
	struct uccl_msg_rx a = message(&alice, true, 1), b = message(&bob, true, 2), c = message(&alice, true, 2);
	struct uccl_msg_rx plain = message(&alice, false, 2);
	struct uccl_op two = recv_op(UCCL_OPF_TAGGED, 2, 0), any = recv_op(UCCL_OPF_TAGGED, 0, UINT64_MAX);
	struct uccl_op directed = recv_op(UCCL_OPF_TAGGED | UCCL_OPF_DIRECTED, 2, 0), untagged = recv_op(0, 0, 0);
	struct uccl_match m;

	(void)state;
	uccl_match_init(&m);
	uccl_match_list(&m, &plain);
	uccl_match_list(&m, &a);
	uccl_match_list(&m, &b);
	uccl_match_list(&m, &c);
	assert_true(a.listed && b.listed && c.listed && plain.listed);
	assert_ptr_equal(uccl_match_unexpected(&m, &any), &a);
	assert_ptr_equal(uccl_match_unexpected(&m, &two), &b);
	assert_ptr_equal(uccl_match_unexpected(&m, &directed), &c);
	assert_ptr_equal(uccl_match_unexpected(&m, &untagged), &plain);
	/* Looking takes nothing. */
	assert_ptr_equal(uccl_match_unexpected(&m, &two), &b);
	uccl_match_unlist(&m, &b);
	assert_false(b.listed);
	assert_ptr_equal(uccl_match_unexpected(&m, &two), &c);
	uccl_match_unlist(&m, &c);
	assert_null(uccl_match_unexpected(&m, &two));
	assert_null(uccl_match_unexpected(&m, &directed));
	uccl_match_unlist(&m, &plain);
	assert_null(uccl_match_unexpected(&m, &untagged));
}

/* PROTOCOL R39 */
static void claim__kept_for_its_context(void **state)
{
	struct uccl_msg_rx a = message(&alice, true, 1), b = message(&alice, true, 1), c = message(&alice, true, 1);
	struct uccl_op op = recv_op(UCCL_OPF_TAGGED, 1, 0);
	int one, two;
	struct uccl_match m;

	(void)state;
	uccl_match_init(&m);
	uccl_match_list(&m, &a);
	uccl_match_list(&m, &b);
	uccl_match_list(&m, &c);
	uccl_match_claim(&m, &a, &one);
	assert_false(a.listed);
	assert_ptr_equal(uccl_match_unexpected(&m, &op), &b);
	uccl_match_claim(&m, &b, &two);
	uccl_match_claim(&m, &c, &one);
	assert_null(uccl_match_unexpected(&m, &op));
	assert_null(uccl_match_claimed(&m, &op));
	assert_ptr_equal(uccl_match_claimed(&m, &two), &b);
	assert_null(uccl_match_claimed(&m, &two));
	/* Claims under one context come back in their order. */
	assert_ptr_equal(uccl_match_claimed(&m, &one), &a);
	assert_null(a.claim);
	assert_ptr_equal(uccl_match_claimed(&m, &one), &c);
	assert_null(uccl_match_claimed(&m, &one));
}

/* Who is named by receives finds them, each kind in its order; others are not among them. */
static void post__found_from_the_peer(void **state)
{
	struct uccl_op any = recv_op(0, 0, 0), first = recv_op(UCCL_OPF_DIRECTED, 0, 0);
	struct uccl_op second = recv_op(UCCL_OPF_DIRECTED, 0, 0), cm = recv_op(UCCL_OPF_DIRECTED | UCCL_OPF_CM, 0, 0);
	struct uccl_match m;

	(void)state;
	uccl_match_init(&m);
	uccl_match_post(&m, &first);
	uccl_match_post(&m, &any);
	uccl_match_post(&m, &cm);
	uccl_match_post(&m, &second);
	assert_ptr_equal(TAILQ_FIRST(&alice.directed[UCCL_KIND_UNTAGGED]), &first);
	assert_ptr_equal(TAILQ_NEXT(&first, directed_link), &second);
	assert_null(TAILQ_NEXT(&second, directed_link));
	assert_ptr_equal(TAILQ_FIRST(&alice.directed[UCCL_KIND_CM]), &cm);
	assert_true(TAILQ_EMPTY(&bob.directed[UCCL_KIND_UNTAGGED]));
	uccl_match_unpost(&m, &first);
	uccl_match_unpost(&m, &any);
	uccl_match_unpost(&m, &cm);
	assert_ptr_equal(TAILQ_FIRST(&alice.directed[UCCL_KIND_UNTAGGED]), &second);
	assert_true(TAILQ_EMPTY(&alice.directed[UCCL_KIND_CM]));
}

/* A name that turns out to be another one: its receives are posted as before, and found from that one. */
static void rename__moves_receives(void **state)
{
	struct uccl_op op = recv_op(UCCL_OPF_TAGGED | UCCL_OPF_DIRECTED, 1, 0), other = op, any = recv_op(0, 0, 0);
	struct uccl_match m;

	(void)state;
	uccl_match_init(&m);
	other.peer = &bob;
	any.peer = &alice;
	uccl_match_post(&m, &op);
	uccl_match_post(&m, &other);
	uccl_match_post(&m, &any);
	uccl_match_rename(&alice, &bob);
	assert_true(TAILQ_EMPTY(&alice.directed[UCCL_KIND_TAGGED]));
	assert_ptr_equal(op.peer, &bob);
	assert_ptr_equal(any.peer, &alice);
	assert_null(uccl_match_posted(&m, UCCL_KIND_TAGGED, &alice, 1));
	assert_ptr_equal(uccl_match_posted(&m, UCCL_KIND_TAGGED, &bob, 1), &op);
	uccl_match_unpost(&m, &op);
	uccl_match_unpost(&m, &other);
	assert_true(TAILQ_EMPTY(&bob.directed[UCCL_KIND_TAGGED]));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(init__empty, peers),
		cmocka_unit_test_setup(posted__exact_tag, peers),
		cmocka_unit_test_setup(posted__ignored_bits, peers),
		cmocka_unit_test_setup(posted__ignored_bits_of_the_receive, peers),
		cmocka_unit_test_setup(posted__in_post_order, peers),
		cmocka_unit_test_setup(posted__directed, peers),
		cmocka_unit_test_setup(posted__peer_without_flag, peers),
		cmocka_unit_test_setup(posted__tagged_and_untagged_apart, peers),
		cmocka_unit_test_setup(posted__collective_apart, peers),
		cmocka_unit_test_setup(unexpected__in_order_of_arrival, peers),
		cmocka_unit_test_setup(claim__kept_for_its_context, peers),
		cmocka_unit_test_setup(post__found_from_the_peer, peers),
		cmocka_unit_test_setup(rename__moves_receives, peers),
	};

	return cmocka_run_group_tests_name("match", tests, NULL, NULL);
}
