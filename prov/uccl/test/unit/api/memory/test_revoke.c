/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Rights that a region's owner takes back, over endpoints on loopback. */
#include "../world.h"

#include <rdma/fi_ext_uccl.h>
#include <rdma/fi_rma.h>

#include "api/memory/mr.h"
#include "api/memory/revoke.h"
#include "../../tests.h"

#define SIZE (4u << 20)
#define POISON 0x5e

static uint8_t mem[SIZE], src[SIZE];

/* `a` and `other` reach `mem` of b. */
struct trio {
	struct world w;
	struct node a, other, b;
	fi_addr_t a_to_b, other_to_b, b_to_a;
	struct fid_mr *mr;
	struct fi_uccl_ops_mr *ops;
};

static void trio_open(struct trio *t)
{
	memset(t, 0, sizeof(*t));
	world_open(&t->w);
	node_open(&t->a, &t->w);
	node_open(&t->other, &t->w);
	node_open(&t->b, &t->w);
	t->a_to_b = node_insert(&t->a, &t->b);
	t->other_to_b = node_insert(&t->other, &t->b);
	t->b_to_a = node_insert(&t->b, &t->a);
	assert_int_equal(fi_mr_reg(t->w.domain, mem, SIZE, FI_REMOTE_WRITE | FI_REMOTE_READ, 0, 7, 0, &t->mr, NULL), 0);
	assert_int_equal(fi_open_ops(&t->mr->fid, FI_UCCL_OPS_MR, 0, (void **)&t->ops, NULL), 0);
	memset(src, 1, sizeof(src));
}

static void trio_close(struct trio *t)
{
	assert_int_equal(fi_close(&t->mr->fid), 0);
	node_close(&t->a);
	node_close(&t->other);
	node_close(&t->b);
	world_close(&t->w);
}

static void write_at(struct trio *t, struct node *n, uint64_t off, uint64_t len)
{
	fi_addr_t to = n == &t->a ? t->a_to_b : t->other_to_b;

	world_post(fi_write(n->ep, src, len, NULL, to, off, 7, mem), n, &t->b);
}

/* What becomes of the next one: 0, or its error. */
static int ends(struct trio *t, struct node *n)
{
	struct fi_cq_err_entry out = {0};
	struct fi_cq_tagged_entry e;

	if (node_wait(n, &t->b, &e, NULL) == 1)
		return 0;
	assert_int_equal(fi_cq_readerr(n->cq, &out, 0), 1);
	return out.err;
}

static void poisoned(uint64_t off, uint64_t len)
{
	for (uint64_t i = off; i < off + len; i++)
		assert_int_equal(mem[i], POISON);
}

TEST(openops_mr__names)
{
	struct trio t;
	void *ops;

	trio_open(&t);
	assert_int_equal(fi_open_ops(&t.mr->fid, FI_UCCL_OPS_MR, 1, &ops, NULL), -FI_EINVAL);
	assert_int_equal(fi_open_ops(&t.mr->fid, FI_UCCL_OPS_EP, 0, &ops, NULL), -FI_ENOSYS);
	assert_int_equal(t.ops->revoke(t.mr, 0, 0), -FI_EINVAL);
	assert_int_equal(t.ops->revoke(t.mr, 1, SIZE), -FI_EINVAL);
	assert_int_equal(t.ops->revoke(t.mr, SIZE + 1, 1), -FI_EINVAL);
	assert_int_equal(t.ops->revoke(t.mr, UINT64_MAX, 2), -FI_EINVAL);
	assert_int_equal(t.ops->revoke_peer(t.mr, t.b.ep, 1234567), -FI_EINVAL);
	trio_close(&t);
}

/* Nothing is written to those bytes when the call returns, whatever was under way; the others are as before. */
TEST(revoke__a_part)
{
	uint32_t cut = 0;

	for (int rounds = 0; rounds < 40; rounds++) {
		struct trio t;
		int err;

		trio_open(&t);
		write_at(&t, &t.a, 0, SIZE);
		for (int i = 0; i < rounds; i++) {
			(void)fi_cq_read(t.a.cq, NULL, 0);
			(void)fi_cq_read(t.b.cq, NULL, 0);
		}
		assert_int_equal(t.ops->revoke(t.mr, 1 << 20, 1 << 20), 0);
		memset(mem, POISON, SIZE);
		err = ends(&t, &t.a);
		assert_true(!err || err == FI_EKEYREJECTED);
		poisoned(1 << 20, 1 << 20);
		cut += err != 0;
		/* What it touches, from before and behind, is refused; what it does not is not. */
		write_at(&t, &t.a, (1 << 20) - 1, 2);
		assert_int_equal(ends(&t, &t.a), FI_EKEYREJECTED);
		write_at(&t, &t.other, (2 << 20) - 1, 2);
		assert_int_equal(ends(&t, &t.other), FI_EKEYREJECTED);
		write_at(&t, &t.a, 0, 1 << 20);
		assert_int_equal(ends(&t, &t.a), 0);
		write_at(&t, &t.other, 2 << 20, 2 << 20);
		assert_int_equal(ends(&t, &t.other), 0);
		poisoned(1 << 20, 1 << 20);
		trio_close(&t);
	}
	assert_true(cut);
}

/* One peer, and no other. */
TEST(revoke_peer__one)
{
	uint32_t cut = 0;

	for (int rounds = 0; rounds < 40; rounds++) {
		struct trio t;
		int err;

		trio_open(&t);
		/* Both have met, and are on their way together. */
		write_at(&t, &t.a, 0, 1);
		assert_int_equal(ends(&t, &t.a), 0);
		write_at(&t, &t.other, 0, 1);
		assert_int_equal(ends(&t, &t.other), 0);
		write_at(&t, &t.other, SIZE / 2, SIZE / 2);
		write_at(&t, &t.a, 0, SIZE / 2);
		for (int i = 0; i < rounds; i++) {
			(void)fi_cq_read(t.a.cq, NULL, 0);
			(void)fi_cq_read(t.other.cq, NULL, 0);
			(void)fi_cq_read(t.b.cq, NULL, 0);
		}
		assert_int_equal(t.ops->revoke_peer(t.mr, t.b.ep, t.b_to_a), 0);
		memset(mem, POISON, SIZE / 2);
		err = ends(&t, &t.a);
		assert_true(!err || err == FI_EKEYREJECTED);
		cut += err != 0;
		assert_int_equal(ends(&t, &t.other), 0);
		poisoned(0, SIZE / 2);
		for (uint32_t i = SIZE / 2; i < SIZE; i++)
			assert_int_equal(mem[i], 1);
		write_at(&t, &t.a, 0, 1);
		assert_int_equal(ends(&t, &t.a), FI_EKEYREJECTED);
		world_post(fi_read(t.a.ep, src, 8, NULL, t.a_to_b, 0, 7, mem), &t.a, &t.b);
		assert_int_equal(ends(&t, &t.a), FI_EKEYREJECTED);
		assert_int_equal(t.ops->revoke_peer(t.mr, t.b.ep, t.b_to_a), 0);
		trio_close(&t);
	}
	assert_true(cut);
}

/* Against a table of bytes: thousands of parts, in any order, and they cost as many entries as there are gaps. */
TEST(revoke__many_parts)
{
	enum { BLOCK = 64, BLOCKS = 2000 };
	static bool gone[BLOCKS];
	struct uccl_nic_addr from = {.port = 1};
	struct uccl_rng rng;
	struct trio t;

	trio_open(&t);
	uccl_rng_seed(&rng, 5);
	memset(gone, 0, sizeof(gone));
	for (int n = 0; n < 3000; n++) {
		uint32_t at = uccl_rng_below(&rng, BLOCKS), len = 1 + uccl_rng_below(&rng, 3);
		struct uccl_mr_revoked *r;

		len = uccl_min(len, BLOCKS - at);
		assert_int_equal(t.ops->revoke(t.mr, (uint64_t)at * BLOCK, (uint64_t)len * BLOCK), 0);
		memset(gone + at, true, len);
		r = uccl_mr_of(&t.mr->fid)->revoked;
		for (int k = 0; k < 50; k++) {
			uint32_t i = uccl_rng_below(&rng, BLOCKS);

			assert_int_equal(uccl_mr_is_revoked(r, &from, i * BLOCK, BLOCK), gone[i]);
			assert_int_equal(uccl_mr_is_revoked(r, &from, i * BLOCK, 2 * BLOCK),
					 gone[i] || (i + 1 < BLOCKS && gone[i + 1]));
		}
	}
	assert_false(uccl_mr_is_revoked(uccl_mr_of(&t.mr->fid)->revoked, &from, BLOCKS * BLOCK, SIZE));
	trio_close(&t);
}

TESTS_MAIN
