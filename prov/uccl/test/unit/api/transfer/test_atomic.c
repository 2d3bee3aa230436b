/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Atomics over the real engine and the udp back end, on loopback. */
#include "../world.h"
#include "../../tests.h"

#include <rdma/fi_atomic.h>

static uint64_t mem[8192];

struct duo {
	struct world w;
	struct node a, b;
	fi_addr_t to_b;
	struct fid_mr *mr;
};

static void duo_open(struct duo *d)
{
	world_open(&d->w);
	d->to_b = node_pair(&d->a, &d->b, &d->w);
	memset(mem, 0, sizeof(mem));
	assert_int_equal(fi_mr_reg(d->w.domain, mem, sizeof(mem), FI_REMOTE_READ | FI_REMOTE_WRITE, 0, 7, 0, &d->mr,
				   NULL),
			 0);
}

static void duo_close(struct duo *d)
{
	if (d->mr)
		assert_int_equal(fi_close(&d->mr->fid), 0);
	node_close(&d->a);
	node_close(&d->b);
	world_close(&d->w);
}

WORLD_FIXTURE(duo)

WORLD_TEST(atomic__forms, duo, d)
{
	uint64_t five[2] = { 5, 6 }, was[2], with[2] = { 10, 10 };
	struct fi_ioc one[2] = { { &five[0], 1 }, { &five[1], 1 } }, res[2] = { { &was[0], 1 }, { &was[1], 1 } };
	struct fi_ioc cmp[1] = { { with, 2 } };
	struct fi_rma_ioc rma[2] = { { 0, 1, 7 }, { 80, 1, 7 } };
	struct fi_msg_atomic msg = {
		.msg_iov = one, .iov_count = 2, .rma_iov = rma, .rma_iov_count = 2, .datatype = FI_UINT64,
		.op = FI_SUM, .context = &msg, .data = 3,
	};
	struct fi_cq_tagged_entry e;

	msg.addr = d->to_b;
	assert_int_equal(fi_atomic(d->a.ep, five, 2, NULL, d->to_b, 0, 7, FI_UINT64, FI_SUM, d), 0);
	node_expect(&d->a, &d->b, d, FI_ATOMIC | FI_WRITE);
	assert_true(mem[0] == 5 && mem[1] == 6 && !mem[2]);
	assert_int_equal(fi_atomicv(d->a.ep, one, NULL, 2, d->to_b, 8, 7, FI_UINT64, FI_PROD, d), 0);
	node_expect(&d->a, &d->b, d, FI_ATOMIC | FI_WRITE);
	assert_true(mem[1] == 30 && mem[2] == 0);
	assert_int_equal(fi_inject_atomic(d->a.ep, five, 1, d->to_b, 0, 7, FI_UINT64, FI_SUM), 0);
	assert_int_equal(fi_atomicmsg(d->a.ep, &msg, FI_REMOTE_CQ_DATA), 0);
	node_expect(&d->a, &d->b, &msg, FI_ATOMIC | FI_WRITE);
	assert_true(mem[0] == 15 && mem[10] == 6);
	assert_int_equal(node_wait(&d->b, &d->a, &e, NULL), 1);
	assert_int_equal(e.flags, FI_ATOMIC | FI_REMOTE_WRITE | FI_REMOTE_CQ_DATA);
	assert_int_equal(e.data, 3);
	assert_int_equal(fi_fetch_atomic(d->a.ep, five, 2, NULL, was, NULL, d->to_b, 0, 7, FI_UINT64, FI_SUM, was), 0);
	node_expect(&d->a, &d->b, was, FI_ATOMIC | FI_READ);
	assert_true(was[0] == 15 && was[1] == 30 && mem[0] == 20 && mem[1] == 36);
	assert_int_equal(fi_fetch_atomicv(d->a.ep, one, NULL, 2, res, NULL, 2, d->to_b, 0, 7, FI_UINT64, FI_BXOR, was),
			 0);
	node_expect(&d->a, &d->b, was, FI_ATOMIC | FI_READ);
	assert_true(was[0] == 20 && was[1] == 36 && mem[0] == (20 ^ 5) && mem[1] == (36 ^ 6));
	msg.op = FI_ATOMIC_READ;
	assert_int_equal(fi_fetch_atomicmsg(d->a.ep, &msg, res, NULL, 2, 0), 0);
	node_expect(&d->a, &d->b, &msg, FI_ATOMIC | FI_READ);
	assert_true(was[0] == (20 ^ 5) && was[1] == 6);
	mem[0] = mem[1] = mem[10] = 10;
	with[1] = 11;
	assert_int_equal(fi_compare_atomic(d->a.ep, five, 2, NULL, with, NULL, was, NULL, d->to_b, 0, 7, FI_UINT64,
					   FI_CSWAP, with),
			 0);
	node_expect(&d->a, &d->b, with, FI_ATOMIC | FI_READ);
	assert_true(was[0] == 10 && was[1] == 10 && mem[0] == 5 && mem[1] == 10);
	assert_int_equal(fi_compare_atomicv(d->a.ep, one, NULL, 2, cmp, NULL, 1, res, NULL, 2, d->to_b, 0, 7, FI_UINT64,
					    FI_CSWAP_GT, with),
			 0);
	node_expect(&d->a, &d->b, with, FI_ATOMIC | FI_READ);
	assert_true(was[0] == 5 && mem[0] == 5 && mem[1] == 6);
	msg.op = FI_MSWAP;
	assert_int_equal(fi_compare_atomicmsg(d->a.ep, &msg, cmp, NULL, 1, res, NULL, 2, 0), 0);
	node_expect(&d->a, &d->b, &msg, FI_ATOMIC | FI_READ);
	assert_true(was[1] == 10 && mem[10] == ((6 & 11) | (10 & ~11)));
}

/*
 * The counter of a region that waits for writes: whoever waits there wants to know that something has changed, also if
 * the initiator got the old value. A look alone changes nothing.
 */
WORLD_TEST(atomic__region_counters, duo, d)
{
	struct fi_cntr_attr attr = { .wait_obj = FI_WAIT_NONE };
	uint64_t one = 1, was = 0, with = 2;
	struct fid_cntr *writes, *both;
	struct fid_mr *mr;

	assert_int_equal(fi_cntr_open(d->w.domain, &attr, &writes, NULL), 0);
	assert_int_equal(fi_cntr_open(d->w.domain, &attr, &both, NULL), 0);
	assert_int_equal(fi_mr_reg(d->w.domain, mem, sizeof(mem), FI_REMOTE_READ | FI_REMOTE_WRITE, 0, 8, 0, &mr, NULL),
			 0);
	assert_int_equal(fi_mr_bind(d->mr, &writes->fid, FI_REMOTE_WRITE), 0);
	assert_int_equal(fi_mr_bind(mr, &both->fid, FI_REMOTE_READ | FI_REMOTE_WRITE), 0);
	for (uint64_t key = 7; key <= 8; key++) {
		assert_int_equal(fi_atomic(d->a.ep, &one, 1, NULL, d->to_b, 0, key, FI_UINT64, FI_SUM, &one), 0);
		node_expect(&d->a, &d->b, &one, FI_ATOMIC | FI_WRITE);
		assert_int_equal(fi_fetch_atomic(d->a.ep, &one, 1, NULL, &was, NULL, d->to_b, 0, key, FI_UINT64, FI_SUM,
						 &was), 0);
		node_expect(&d->a, &d->b, &was, FI_ATOMIC | FI_READ);
		assert_int_equal(fi_compare_atomic(d->a.ep, &one, 1, NULL, &with, NULL, &was, NULL, d->to_b, 0, key,
						   FI_UINT64, FI_CSWAP, &with), 0);
		node_expect(&d->a, &d->b, &with, FI_ATOMIC | FI_READ);
		assert_int_equal(fi_fetch_atomic(d->a.ep, NULL, 1, NULL, &was, NULL, d->to_b, 0, key, FI_UINT64,
						 FI_ATOMIC_READ, &was), 0);
		node_expect(&d->a, &d->b, &was, FI_ATOMIC | FI_READ);
	}
	assert_int_equal(fi_cntr_read(writes), 3);
	assert_int_equal(fi_cntr_read(both), 4);
	world_closes(&mr->fid, &d->mr->fid);
	d->mr = NULL;
	world_closes(&writes->fid, &both->fid);
}

/* What does not exist, does not fit, or is too much, is refused at once. */
WORLD_TEST(atomic__refuses, duo, d)
{
	uint64_t v[2] = { 1, 2 };
	struct fi_ioc two = { v, 2 }, one = { v, 1 };
	struct fi_rma_ioc rma = { 0, 1, 7 };
	struct fi_msg_atomic msg = {
		.msg_iov = &two, .iov_count = 1, .rma_iov = &rma, .rma_iov_count = 1, .datatype = FI_UINT64,
		.op = FI_SUM,
	};

	msg.addr = d->to_b;
	assert_int_equal(fi_atomic(d->a.ep, v, 1, NULL, d->to_b, 0, 7, FI_FLOAT, FI_BOR, NULL), -FI_EOPNOTSUPP);
	assert_int_equal(fi_atomic(d->a.ep, v, 1, NULL, d->to_b, 0, 7, FI_UINT64, FI_ATOMIC_READ, NULL),
			 -FI_EOPNOTSUPP);
	assert_int_equal(fi_atomic(d->a.ep, v, 1, NULL, d->to_b, 0, 7, FI_UINT64, FI_CSWAP, NULL), -FI_EOPNOTSUPP);
	assert_int_equal(fi_atomic(d->a.ep, mem, 8193, NULL, d->to_b, 0, 7, FI_UINT64, FI_SUM, NULL), -FI_EMSGSIZE);
	assert_int_equal(fi_atomicmsg(d->a.ep, &msg, 0), -FI_EINVAL);
	msg.msg_iov = &one;
	assert_int_equal(fi_fetch_atomicmsg(d->a.ep, &msg, &two, NULL, 1, 0), -FI_EINVAL);
	msg.op = FI_CSWAP;
	assert_int_equal(fi_compare_atomicmsg(d->a.ep, &msg, &two, NULL, 1, &one, NULL, 1, 0), -FI_EINVAL);
	msg.rma_iov_count = 5;
	assert_int_equal(fi_atomicmsg(d->a.ep, &msg, 0), -FI_EOPNOTSUPP);
	msg.op = FI_SUM;
	assert_int_equal(fi_atomicmsg(d->a.ep, &msg, 0), -FI_EINVAL);
	assert_true(!mem[0]);
}

/* The largest that the queries promise are done, for every pair of type and operation that they name. */
WORLD_TEST(query__all, duo, d)
{
	static uint8_t big[65536], was[65536];
	struct fi_atomic_attr attr;
	size_t n;
	int found = 0;

	for (int t = 0; t < FI_DATATYPE_LAST + 2; t++)
		for (int op = 0; op < FI_ATOMIC_OP_LAST; op++) {
			if (!fi_atomicvalid(d->a.ep, t, op, &n)) {
				assert_int_equal(fi_query_atomic(d->w.domain, t, op, &attr, 0), 0);
				assert_int_equal(attr.count, n);
				assert_int_equal(attr.size * n, 32768);
				assert_int_equal(fi_atomic(d->a.ep, big, 2 * n, NULL, d->to_b, 0, 7, t, op, d), 0);
				node_expect(&d->a, &d->b, d, FI_ATOMIC | FI_WRITE);
				found++;
			} else {
				assert_int_equal(fi_query_atomic(d->w.domain, t, op, &attr, 0), -FI_EOPNOTSUPP);
			}
			if (!fi_fetch_atomicvalid(d->a.ep, t, op, &n)) {
				assert_int_equal(fi_query_atomic(d->w.domain, t, op, &attr, FI_FETCH_ATOMIC), 0);
				assert_int_equal(attr.size * n, 32768);
				assert_int_equal(fi_fetch_atomic(d->a.ep, big, 2 * n, NULL, was, NULL, d->to_b, 0, 7, t,
								 op, d),
						 0);
				node_expect(&d->a, &d->b, d, FI_ATOMIC | FI_READ);
				found++;
			}
			if (!fi_compare_atomicvalid(d->a.ep, t, op, &n)) {
				assert_int_equal(fi_query_atomic(d->w.domain, t, op, &attr, FI_COMPARE_ATOMIC), 0);
				assert_int_equal(attr.size * n, 32768);
				assert_int_equal(fi_compare_atomic(d->a.ep, big, n, NULL, big, NULL, was, NULL, d->to_b,
								   0, 7, t, op, d),
						 0);
				node_expect(&d->a, &d->b, d, FI_ATOMIC | FI_READ);
				found++;
			}
		}
	/* 10 integer types: 11 + 12 + 7; 3 real: 8 + 9 + 6; 3 complex: 6 + 7 + 2 */
	assert_int_equal(found, 10 * 30 + 3 * 23 + 3 * 15);
	assert_int_equal(fi_query_atomic(d->w.domain, FI_UINT8, FI_SUM, &attr, FI_FETCH_ATOMIC | FI_COMPARE_ATOMIC),
			 -FI_EINVAL);
	assert_int_equal(fi_query_atomic(d->w.domain, FI_UINT8, FI_SUM, &attr, FI_TAGGED), -FI_EOPNOTSUPP);
}

TESTS_MAIN
