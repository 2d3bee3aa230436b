/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Collectives of several endpoints over the real engine, on loopback. */
#include "../../../fake_cuda/fake_cuda.h"
#include "../world.h"

#include <rdma/fi_collective.h>

#include "api/offer/address.h"
#include "api/transfer/coll.h"
#include "base/le.h"
#include "../../tests.h"

#define N 5
#define COUNT 5000 /* of a part: longer than an eager message in total */

struct member {
	struct node node;
	struct fid_eq *eq;
	struct fid_av_set *set;
	struct fid_mc *mc;
	uint64_t in[COUNT * N], out[COUNT * N];
	uint64_t *from, *to;	/* what calls are given: these, or memory of a device that is to have the same bytes */
	bool gone;
};

struct bench {
	struct world w;
	struct member m[N];
};

static struct bench b;

static void member_open(struct member *m)
{
	struct fi_cq_attr cq_attr = { .format = FI_CQ_FORMAT_TAGGED, .wait_obj = FI_WAIT_FD };
	struct fi_eq_attr eq_attr = { .wait_obj = FI_WAIT_FD };
	struct fi_av_attr av_attr = { .type = FI_AV_TABLE };
	size_t len = sizeof(m->node.name);
	struct node *n = &m->node;

	assert_int_equal(fi_endpoint(b.w.domain, b.w.info, &n->ep, NULL), 0);
	assert_int_equal(fi_cq_open(b.w.domain, &cq_attr, &n->cq, NULL), 0);
	assert_int_equal(fi_eq_open(b.w.fabric, &eq_attr, &m->eq, NULL), 0);
	assert_int_equal(fi_av_open(b.w.domain, &av_attr, &n->av, NULL), 0);
	assert_int_equal(fi_ep_bind(n->ep, &n->av->fid, 0), 0);
	assert_int_equal(fi_ep_bind(n->ep, &n->cq->fid, FI_TRANSMIT | FI_RECV), 0);
	assert_int_equal(fi_ep_bind(n->ep, &m->eq->fid, 0), 0);
	assert_int_equal(fi_enable(n->ep), 0);
	assert_int_equal(fi_getname(&n->ep->fid, n->name, &len), 0);
}

static void set_open(struct member *m, fi_addr_t from, uint64_t stride)
{
	struct fi_av_set_attr attr = { .start_addr = from, .end_addr = N - 1, .stride = stride };

	assert_int_equal(fi_av_set(m->node.av, &attr, &m->set, NULL), 0);
}

static void bench_open_with(uint64_t caps)
{
	struct fi_info *h = world_hints();

	memset(&b, 0, sizeof(b));
	h->caps = FI_MSG | FI_TAGGED | FI_COLLECTIVE | caps;
	world_open_with(&b.w, h);
	assert_true(b.w.info->caps & FI_COLLECTIVE);
	for (int i = 0; i < N; i++)
		member_open(&b.m[i]);
	for (int i = 0; i < N; i++) {
		for (int k = 0; k < N; k++)
			assert_int_equal(node_insert(&b.m[i].node, &b.m[k].node), k);
		set_open(&b.m[i], 0, 1);
		b.m[i].from = b.m[i].in;
		b.m[i].to = b.m[i].out;
	}
}

static void bench_open(void)
{
	bench_open_with(0);
}

static void member_close(struct member *m)
{
	if (m->set)
		assert_int_equal(fi_close(&m->set->fid), 0);
	world_closes(&m->node.ep->fid, &m->eq->fid, &m->node.cq->fid, &m->node.av->fid);
	m->gone = true;
}

static void bench_close(void)
{
	for (int i = 0; i < N; i++)
		if (!b.m[i].gone)
			member_close(&b.m[i]);
	world_close(&b.w);
}

static void drive(void)
{
	for (int i = 0; i < N; i++)
		if (!b.m[i].gone)
			(void)fi_cq_read(b.m[i].node.cq, NULL, 0);
}

/* The next event of everybody who joins: 0, or the error. */
static int event(struct member *m)
{
	uint64_t end = uccl_clock() + PATIENCE_NS;
	struct fi_eq_err_entry err = { 0 };
	struct fi_eq_entry e;
	uint32_t what;
	ssize_t rc;

	do {
		drive();
		rc = fi_eq_read(m->eq, &what, &e, sizeof(e), 0);
	} while (rc == -FI_EAGAIN && uccl_clock() < end);
	if (rc == -FI_EAVAIL) {
		assert_true(fi_eq_readerr(m->eq, &err, 0) > 0);
		assert_ptr_equal(err.fid, m->mc);
		return err.err;
	}
	assert_int_equal(rc, sizeof(e));
	assert_int_equal(what, FI_JOIN_COMPLETE);
	assert_ptr_equal(e.fid, m->mc);
	assert_ptr_equal(e.context, m);
	return 0;
}

static int join(struct member *m)
{
	fi_addr_t addr;

	assert_int_equal(fi_av_set_addr(m->set, &addr), 0);
	return fi_join_collective(m->node.ep, addr, m->set, 0, &m->mc, m);
}

static void join_all(void)
{
	for (int i = 0; i < N; i++)
		assert_int_equal(join(&b.m[i]), 0);
	for (int i = 0; i < N; i++)
		assert_int_equal(event(&b.m[i]), 0);
}

static void leave_all(void)
{
	for (int i = 0; i < N; i++)
		if (!b.m[i].gone)
			assert_int_equal(fi_close(&b.m[i].mc->fid), 0);
}

static ssize_t completion(struct member *m, struct fi_cq_tagged_entry *e)
{
	uint64_t end = uccl_clock() + PATIENCE_NS;
	ssize_t rc;

	do {
		drive();
		rc = fi_cq_read(m->node.cq, e, 1);
	} while (rc == -FI_EAGAIN && uccl_clock() < end);
	return rc;
}

static void expect_all(void *context)
{
	for (int i = 0; i < N; i++) {
		struct fi_cq_tagged_entry e;

		assert_int_equal(completion(&b.m[i], &e), 1);
		assert_ptr_equal(e.op_context, context);
		assert_int_equal(e.flags, FI_COLLECTIVE);
	}
}

/* What calls find in memory of a device, and what they left there. */
static void give(struct member *m)
{
	if (m->from != m->in)
		fake_cuda_write(m->from, m->in, sizeof(m->in));
	if (m->to != m->out)
		fake_cuda_write(m->to, m->out, sizeof(m->out));
}

static void take_all(void)
{
	for (int i = 0; i < N; i++) {
		if (b.m[i].from != b.m[i].in)
			fake_cuda_read(b.m[i].in, b.m[i].from, sizeof(b.m[i].in));
		if (b.m[i].to != b.m[i].out)
			fake_cuda_read(b.m[i].out, b.m[i].to, sizeof(b.m[i].out));
	}
}

static uint64_t value(int rank, size_t i)
{
	return (uint64_t)rank * 1000000 + i;
}

static uint64_t sum(size_t i)
{
	return (uint64_t)N * i + (uint64_t)N * (N - 1) / 2 * 1000000;
}

/* Everything about one member that a call needs. */
#define FOR_ALL(call)                                                                                                  \
	do {                                                                                                           \
		for (int r = 0; r < N; r++) {                                                                          \
			struct member *m = &b.m[r];                                                                    \
			fi_addr_t g = fi_mc_addr(m->mc);                                                               \
			for (size_t i_ = 0; i_ < COUNT * N; i_++)                                                      \
				m->in[i_] = value(r, i_);                                                              \
			memset(m->out, 0xee, sizeof(m->out));                                                          \
			give(m);                                                                                       \
			assert_int_equal(call, 0);                                                                     \
		}                                                                                                      \
		expect_all(&b);                                                                                        \
		take_all();                                                                                            \
	} while (0)

static void every_kind(void)
{
	static const size_t counts[] = { 1, 7, COUNT };
	static const enum fi_datatype U64 = FI_UINT64;

	join_all();
	for (int k = 0; k < 3; k++) {
		size_t n = counts[k];
		fi_addr_t root = (fi_addr_t)k;

		FOR_ALL(fi_barrier(m->node.ep, g, &b));
		FOR_ALL(fi_allreduce(m->node.ep, m->from, n, NULL, m->to, NULL, g, U64, FI_SUM, 0, &b));
		for (int r = 0; r < N; r++)
			for (size_t i = 0; i < n; i++)
				assert_int_equal(b.m[r].out[i], sum(i));
		FOR_ALL(fi_reduce(m->node.ep, m->from, n, NULL, m->to, NULL, g, root, U64, FI_MAX, 0, &b));
		for (size_t i = 0; i < n; i++)
			assert_int_equal(b.m[k].out[i], value(N - 1, i));
		FOR_ALL(fi_reduce_scatter(m->node.ep, m->from, n, NULL, m->to, NULL, g, U64, FI_SUM, 0, &b));
		for (int r = 0; r < N; r++)
			for (size_t i = 0; i < n; i++)
				assert_int_equal(b.m[r].out[i], sum((size_t)r * n + i));
		FOR_ALL(fi_broadcast(m->node.ep, r == k ? m->from : m->to, n, NULL, g, root, U64, 0, &b));
		for (int r = 0; r < N; r++)
			assert_true(r == k || !memcmp(b.m[r].out, b.m[k].in, n * 8));
		FOR_ALL(fi_scatter(m->node.ep, r == k ? m->from : NULL, n, NULL, m->to, NULL, g, root, U64, 0, &b));
		for (int r = 0; r < N; r++)
			assert_memory_equal(b.m[r].out, b.m[k].in + (size_t)r * n, n * 8);
		FOR_ALL(fi_gather(m->node.ep, m->from, n, NULL, r == k ? m->to : NULL, NULL, g, root, U64, 0, &b));
		for (int r = 0; r < N; r++)
			assert_memory_equal(b.m[k].out + (size_t)r * n, b.m[r].in, n * 8);
		FOR_ALL(fi_allgather(m->node.ep, m->from, n, NULL, m->to, NULL, g, U64, 0, &b));
		for (int r = 0; r < N; r++)
			for (int s = 0; s < N; s++)
				assert_memory_equal(b.m[r].out + (size_t)s * n, b.m[s].in, n * 8);
		FOR_ALL(fi_alltoall(m->node.ep, m->from, n, NULL, m->to, NULL, g, U64, 0, &b));
		for (int r = 0; r < N; r++)
			for (int s = 0; s < N; s++)
				assert_memory_equal(b.m[r].out + (size_t)s * n, b.m[s].in + (size_t)r * n, n * 8);
	}
	assert_int_equal(fi_close(&b.m[0].node.ep->fid), -FI_EBUSY);
	leave_all();
	bench_close();
}

TEST(coll__every_kind)
{
	bench_open();
	every_kind();
}

/* Some members have one buffer on a device, some both; the processor cannot touch either. */
static void devices_open(void)
{
	bench_open_with(FI_HMEM);
	for (int i = 0; i < N; i++) {
		if (i != 1)
			b.m[i].from = fake_cuda_alloc(0, sizeof(b.m[i].in));
		if (i != 2)
			b.m[i].to = fake_cuda_alloc(0, sizeof(b.m[i].out));
		assert_true(b.m[i].from && b.m[i].to);
	}
}

static void devices_free(uint64_t *const *from, uint64_t *const *to)
{
	for (int i = 0; i < N; i++) {
		if (i != 1)
			fake_cuda_free(from[i]);
		if (i != 2)
			fake_cuda_free(to[i]);
	}
}

TEST(coll__on_devices)
{
	uint64_t *from[N], *to[N];

	devices_open();
	for (int i = 0; i < N; i++) {
		from[i] = b.m[i].from;
		to[i] = b.m[i].to;
	}
	every_kind();
	assert_int_equal(fake_cuda_pending(), 0);
	devices_free(from, to);
}

/* What one member cannot give, or cannot put where it is to be, ends it for all. */
TEST(coll__copy_fails)
{
	uint64_t *from[N], *to[N];
	ssize_t post[N];

	for (unsigned int way = 0; way < 4; way++) {
		devices_open();
		for (int i = 0; i < N; i++) {
			from[i] = b.m[i].from;
			to[i] = b.m[i].to;
		}
		join_all();
		for (int i = 0; i < N; i++)
			give(&b.m[i]);
		/* The first to give is member 0; four give, and then the first one gets. */
		fake_cuda_fail(way & 2 ? 5 : 1, way & 1);
		for (int i = 0; i < N; i++)
			post[i] = fi_allreduce(b.m[i].node.ep, b.m[i].from, 7, NULL, b.m[i].to, NULL,
					       fi_mc_addr(b.m[i].mc), FI_UINT64, FI_SUM, 0, &b);
		for (int i = 0, bad = 0; i < N; i++) {
			struct fi_cq_err_entry err = { 0 };
			struct fi_cq_tagged_entry e;
			ssize_t rc;

			/* A thread that had to wait for its processor hears of the first one before it calls. */
			assert_true(!post[i] || (i && post[i] == -FI_ECONNABORTED));
			if (post[i]) {
				bad++;
				continue;
			}
			rc = completion(&b.m[i], &e);
			bad += rc == -FI_EAVAIL;
			/* When it comes to that, others may be through. */
			assert_true(rc == -FI_EAVAIL || (way & 2 && rc == 1));
			assert_true(i < N - 1 || bad);
			if (rc == 1)
				continue;
			assert_int_equal(fi_cq_readerr(b.m[i].node.cq, &err, 0), 1);
			assert_ptr_equal(err.op_context, &b);
			assert_true(err.err == (way & 1 ? FI_EIO : FI_EFAULT) || err.err == FI_ECONNABORTED);
		}
		leave_all();
		bench_close();
		assert_int_equal(fake_cuda_pending(), 0);
		devices_free(from, to);
	}
}

/* The same through the one call for all of them. */
TEST(coll__msg)
{
	struct fi_ioc in = { .count = 3 }, out = { .count = 3 };
	struct fi_msg_collective c = { .msg_iov = &in, .iov_count = 1, .datatype = FI_UINT64, .op = FI_SUM,
				       .context = &b };

	bench_open();
	join_all();
	c.coll = FI_ALLREDUCE;
	FOR_ALL((in.addr = m->in, out.addr = m->out, c.coll_addr = g,
		 m->node.ep->collective->msg(m->node.ep, &c, &out, NULL, 1, 0)));
	for (int r = 0; r < N; r++)
		for (size_t i = 0; i < 3; i++)
			assert_int_equal(b.m[r].out[i], sum(i));
	c.coll = FI_BROADCAST;
	c.root_addr = 2;
	FOR_ALL((in.addr = r == 2 ? m->in : m->out, c.coll_addr = g,
		 m->node.ep->collective->msg(m->node.ep, &c, NULL, NULL, 0, 0)));
	for (int r = 0; r < N; r++)
		assert_true(r == 2 || !memcmp(b.m[r].out, b.m[2].in, 24));
	c.iov_count = 2;
	assert_int_equal(b.m[0].node.ep->collective->msg(b.m[0].node.ep, &c, NULL, NULL, 0, 0), -FI_EINVAL);
	leave_all();
	bench_close();
}

/* Many at once, beside messages of the program that take any tag; members come at different times. */
TEST(coll__many_beside_messages)
{
	enum { MANY = 200 };
	static uint64_t one[N][MANY], all[N][MANY];
	struct fi_cq_tagged_entry e;
	char any[N];

	bench_open();
	join_all();
	for (int r = 0; r < N; r++)
		assert_int_equal(fi_trecv(b.m[r].node.ep, any + r, 1, NULL, FI_ADDR_UNSPEC, 0, UINT64_MAX, any), 0);
	for (int r = N - 1; r >= 0; r--) {
		for (int i = 0; i < MANY; i++) {
			one[r][i] = (uint64_t)i << r;
			assert_int_equal(fi_allreduce(b.m[r].node.ep, &one[r][i], 1, NULL, &all[r][i], NULL,
						      fi_mc_addr(b.m[r].mc), FI_UINT64, FI_BOR, 0, &all[r][i]),
					 0);
		}
		drive();
	}
	for (int r = 0; r < N; r++)
		for (int i = 0; i < MANY; i++) {
			assert_int_equal(completion(&b.m[r], &e), 1);
			assert_int_equal(e.flags, FI_COLLECTIVE);
		}
	for (int r = 0; r < N; r++)
		for (int i = 0; i < MANY; i++) {
			uint64_t want = 0;

			for (int k = 0; k < N; k++)
				want |= (uint64_t)i << k;
			assert_int_equal(all[r][i], want);
		}
	for (int r = 0; r < N; r++)
		assert_int_equal(fi_tinject(b.m[r].node.ep, "x", 1, (fi_addr_t)((r + 1) % N), 5), 0);
	for (int r = 0; r < N; r++) {
		assert_int_equal(completion(&b.m[r], &e), 1);
		assert_ptr_equal(e.op_context, any);
	}
	leave_all();
	bench_close();
}

/* Two groups of the same members, one of some of them, and again after all left. */
TEST(join__groups)
{
	struct fid_mc *first[N];
	uint64_t out;

	bench_open();
	for (int again = 0; again < 3; again++) {
		join_all();
		/* One join of the same members at a time. */
		for (int r = 0; r < N; r++)
			first[r] = b.m[r].mc;
		assert_int_equal(join(&b.m[0]), 0);
		assert_int_equal(fi_join_collective(b.m[0].node.ep, 1, b.m[0].set, 0, &b.m[0].mc, &b), -FI_EAGAIN);
		for (int r = 1; r < N; r++)
			assert_int_equal(join(&b.m[r]), 0);
		for (int r = 0; r < N; r++) {
			assert_int_equal(event(&b.m[r]), 0);
			assert_true(fi_mc_addr(first[r]) != fi_mc_addr(b.m[r].mc));
		}
		/* The order in which members begin them is their own. */
		for (int r = 0; r < N; r++) {
			struct member *m = &b.m[r];
			fi_addr_t g[2] = { fi_mc_addr(first[r]), fi_mc_addr(m->mc) };

			for (int k = 0; k < 2; k++) {
				int at = (r + k) % 2;

				m->in[at] = (uint64_t)(at + 1);
				assert_int_equal(fi_allreduce(m->node.ep, m->in + at, 1, NULL, m->out + at, NULL,
							      g[at], FI_UINT64, FI_SUM, 0, &b),
						 0);
			}
		}
		expect_all(&b);
		expect_all(&b);
		for (int r = 0; r < N; r++) {
			assert_int_equal(b.m[r].out[0], N);
			assert_int_equal(b.m[r].out[1], 2 * N);
			assert_int_equal(fi_close(&first[r]->fid), 0);
		}
		leave_all();
	}
	/* Members 1 and 3. */
	for (int r = 1; r < 4; r += 2) {
		assert_int_equal(fi_close(&b.m[r].set->fid), 0);
		set_open(&b.m[r], 1, 2);
		assert_int_equal(join(&b.m[r]), 0);
	}
	for (int r = 1; r < 4; r += 2) {
		assert_int_equal(event(&b.m[r]), 0);
		assert_int_equal(fi_broadcast(b.m[r].node.ep, r == 3 ? &b.m[r].in[0] : &out, 1, NULL,
					      fi_mc_addr(b.m[r].mc), 3, FI_UINT64, 0, &b),
				 0);
	}
	for (int r = 1; r < 4; r += 2) {
		struct fi_cq_tagged_entry e;

		assert_int_equal(completion(&b.m[r], &e), 1);
		assert_int_equal(fi_close(&b.m[r].mc->fid), 0);
	}
	assert_int_equal(out, b.m[3].in[0]);
	bench_close();
}

/* Every form of a call, on a handle that takes no part: no support, whatever the arguments are. */
static void no_support(struct fid_ep *ep)
{
	struct fi_collective_addr to = { .coll_addr = 0 };
	struct fi_msg_collective msg = { .coll = FI_BARRIER };
	struct fid_mc *mc;
	uint64_t v = 0;

	assert_int_equal(fi_join(ep, &to, FI_COLLECTIVE, &mc, NULL), -FI_ENOSYS);
	assert_int_equal(fi_barrier(ep, 0, NULL), -FI_ENOSYS);
	assert_int_equal(fi_barrier2(ep, 0, 1, NULL), -FI_ENOSYS);
	assert_int_equal(fi_broadcast(ep, &v, 1, NULL, 0, 0, FI_UINT64, 0, NULL), -FI_ENOSYS);
	assert_int_equal(fi_allreduce(ep, &v, 1, NULL, &v, NULL, 0, FI_UINT64, FI_SUM, 0, NULL), -FI_ENOSYS);
	assert_int_equal(ep->collective->msg(ep, &msg, NULL, NULL, 0, 0), -FI_ENOSYS);
}

WORLD_TEST(call__without_collectives, world, w)
{
	struct fid_ep *srx, *sep, *tx;

	assert_int_equal(fi_srx_context(w->domain, NULL, &srx, NULL), 0);
	assert_int_equal(fi_scalable_ep(w->domain, w->info, &sep, NULL), 0);
	assert_int_equal(fi_tx_context(sep, 0, NULL, &tx, NULL), 0);
	no_support(srx);
	no_support(sep);
	no_support(tx);
	world_closes(&tx->fid, &sep->fid, &srx->fid);
}

TEST(call__refused)
{
	struct fi_collective_attr attr = { .op = FI_SUM, .datatype = FI_DOUBLE };
	struct fid_ep *ep;
	uint64_t v = 0;
	fi_addr_t g;

	bench_open();
	ep = b.m[0].node.ep;
	assert_int_equal(fi_barrier(ep, 0, NULL), -FI_EINVAL);
	assert_int_equal(fi_join_collective(ep, FI_ADDR_NOTAVAIL, b.m[0].set, 0, &b.m[0].mc, NULL), -FI_EOPNOTSUPP);
	assert_int_equal(fi_join(ep, &v, 0, &b.m[0].mc, NULL), -FI_ENOSYS);
	/* of another address vector, and without ourselves */
	assert_int_equal(fi_join_collective(ep, 1, b.m[1].set, 0, &b.m[0].mc, NULL), -FI_EINVAL);
	assert_int_equal(fi_av_set_remove(b.m[0].set, 0), 0);
	assert_int_equal(fi_join_collective(ep, 1, b.m[0].set, 0, &b.m[0].mc, NULL), -FI_EINVAL);
	assert_int_equal(fi_close(&b.m[0].set->fid), 0);
	set_open(&b.m[0], 0, 1);
	join_all();
	g = fi_mc_addr(b.m[0].mc);
	assert_int_equal(fi_barrier(ep, g + 1, NULL), -FI_EINVAL);
	assert_int_equal(fi_broadcast(ep, &v, 1, NULL, g, N, FI_UINT64, 0, NULL), -FI_EINVAL);
	assert_int_equal(fi_broadcast(ep, &v, 1, NULL, g, 0, FI_VOID, 0, NULL), -FI_EOPNOTSUPP);
	assert_int_equal(fi_allreduce(ep, &v, 1, NULL, &v, NULL, g, FI_FLOAT, FI_BOR, 0, NULL), -FI_EOPNOTSUPP);
	assert_int_equal(fi_allreduce(ep, &v, 1, NULL, &v, NULL, g, FI_UINT64, FI_CSWAP, 0, NULL), -FI_EOPNOTSUPP);
	assert_int_equal(fi_allreduce(ep, &v, SIZE_MAX / 8, NULL, &v, NULL, g, FI_UINT64, FI_SUM, 0, NULL),
			 -FI_EMSGSIZE);
	assert_int_equal(fi_query_collective(b.w.domain, FI_ALLREDUCE, &attr, 0), 0);
	assert_int_equal(attr.datatype_attr.size, 8);
	assert_true(attr.max_members >= N && attr.datatype_attr.count >= COUNT);
	attr.op = FI_BAND;
	assert_int_equal(fi_query_collective(b.w.domain, FI_ALLREDUCE, &attr, 0), -FI_EOPNOTSUPP);
	assert_int_equal(fi_query_collective(b.w.domain, FI_GATHER, &attr, 0), -FI_EOPNOTSUPP);
	attr.op = FI_NOOP;
	assert_int_equal(fi_query_collective(b.w.domain, FI_GATHER, &attr, 0), 0);
	assert_int_equal(fi_query_collective(b.w.domain, (enum fi_collective_op)9, &attr, 0), -FI_EINVAL);
	leave_all();
	bench_close();
}

/*
 * A member goes while the others are in collectives with it, large and small. Each ends at each of them with an error
 * that names it, nothing more can be begun, and messages among the others go on. PROTOCOL R96
 */
TEST(failure__a_member_goes)
{
	enum { LOST = 3, EACH = 4 };
	char text[128], got = 0;
	size_t len;
	struct fi_cq_tagged_entry e;

	bench_open();
	join_all();
	for (int r = 0; r < N; r++) {
		struct member *m = &b.m[r];
		fi_addr_t g = fi_mc_addr(m->mc);

		if (r == LOST)
			continue;
		assert_int_equal(fi_barrier(m->node.ep, g, m), 0);
		assert_int_equal(fi_allreduce(m->node.ep, m->in, COUNT, NULL, m->out, NULL, g, FI_UINT64, FI_SUM, 0,
					      m),
				 0);
		assert_int_equal(fi_allgather(m->node.ep, m->in, COUNT, NULL, m->out, NULL, g, FI_UINT64, 0, m), 0);
		assert_int_equal(fi_alltoall(m->node.ep, m->in, COUNT, NULL, m->out, NULL, g, FI_UINT64, 0, m), 0);
	}
	for (int i = 0; i < 100; i++)
		drive();
	assert_int_equal(fi_close(&b.m[LOST].mc->fid), 0);
	member_close(&b.m[LOST]);
	for (int r = 0; r < N; r++) {
		for (int i = 0; r != LOST && i < EACH; i++) {
			struct fi_cq_err_entry err = { 0 };

			assert_int_equal(completion(&b.m[r], &e), -FI_EAVAIL);
			assert_int_equal(fi_cq_readerr(b.m[r].node.cq, &err, 0), 1);
			assert_ptr_equal(err.op_context, &b.m[r]);
			assert_int_equal(err.flags, FI_COLLECTIVE);
			assert_int_equal(err.err, FI_ECONNABORTED);
			len = sizeof(text);
			fi_av_straddr(b.m[r].node.av, b.m[LOST].node.name, text, &len);
			assert_non_null(strstr(fi_cq_strerror(b.m[r].node.cq, err.prov_errno, err.err_data, NULL, 0),
					       text));
		}
	}
	for (int r = 0; r < N; r++) {
		struct member *m = &b.m[r];

		if (r == LOST)
			continue;
		assert_int_equal(fi_barrier(m->node.ep, fi_mc_addr(m->mc), m), -FI_ECONNABORTED);
		assert_int_equal(fi_close(&m->mc->fid), 0);
		assert_int_equal(join(m), -FI_ECONNABORTED);
	}
	assert_int_equal(fi_trecv(b.m[1].node.ep, &got, 1, NULL, FI_ADDR_UNSPEC, 7, 0, &got), 0);
	assert_int_equal(fi_tinject(b.m[0].node.ep, "x", 1, 1, 7), 0);
	assert_int_equal(completion(&b.m[1], &e), 1);
	assert_int_equal(got, 'x');
	bench_close();
}

static void notice_done(struct uccl_op *op)
{
	assert_int_equal(op->err, 0);
	uccl_op_put(((struct uccl_ep *)op->api)->driver.engine, op);
}

/* What another side may say of members: `len` bytes of an index. */
static void news_send(struct node *from, const struct node *to, fi_addr_t group, uint32_t who, uint64_t len)
{
	struct uccl_ep *ep = uccl_ep_fid_of(&from->ep->fid)->ep;
	struct uccl_addr addr;
	struct uccl_op *op;
	uint8_t news[8];

	assert_int_equal(uccl_address_unpack(FI_ADDR_UCCL, to->name, sizeof(to->name), &addr, NULL), 0);
	uccl_put32(news, who);
	/* The rescue thread may look at the engine at any time. */
	uccl_driver_lock(&ep->driver);
	op = uccl_op_get(ep->driver.engine);
	assert_non_null(op);
	op->type = UCCL_OP_SEND;
	op->flags = UCCL_OPF_COLL | UCCL_OPF_INJECT;
	op->tag = group >> 30 << 30 | 62 << 24;
	op->peer = uccl_engine_peer(ep->driver.engine, &addr, true);
	op->iov[0] = (struct iovec){ .iov_base = news, .iov_len = len };
	op->iov_count = 1;
	op->len = len;
	op->api = ep;
	op->done = notice_done;
	assert_int_equal(uccl_engine_send(ep->driver.engine, op, uccl_clock()), 0);
	uccl_driver_unlock(&ep->driver);
}

/* From strangers, about nobody, about the one who hears it, cut, too long: nothing comes of it. PROTOCOL R96 */
TEST(news__bad)
{
	struct node stranger;
	uint64_t end;
	fi_addr_t g;

	bench_open();
	join_all();
	node_open(&stranger, &b.w);
	g = fi_mc_addr(b.m[0].mc);
	news_send(&stranger, &b.m[0].node, g, 1, 4);
	news_send(&b.m[1].node, &b.m[0].node, g, 0, 4);
	news_send(&b.m[1].node, &b.m[0].node, g, N, 4);
	news_send(&b.m[1].node, &b.m[0].node, g, UINT32_MAX, 4);
	news_send(&b.m[1].node, &b.m[0].node, g, 2, 3);
	news_send(&b.m[1].node, &b.m[0].node, g, 2, 8);
	for (int i = 0; i < 2000; i++) {
		drive();
		(void)fi_cq_read(stranger.cq, NULL, 0);
	}
	for (int r = 0; r < N; r++)
		assert_int_equal(fi_barrier(b.m[r].node.ep, fi_mc_addr(b.m[r].mc), &b), 0);
	expect_all(&b);
	/* But good ones are believed. */
	news_send(&b.m[1].node, &b.m[0].node, g, 2, 4);
	end = uccl_clock() + PATIENCE_NS;
	while (uccl_clock() < end && fi_barrier(b.m[0].node.ep, g, &b) != -FI_ECONNABORTED)
		drive();
	assert_int_equal(fi_barrier(b.m[0].node.ep, g, &b), -FI_ECONNABORTED);
	/* What was begun meanwhile ends as well; the others never began it. */
	drive();
	leave_all();
	node_close(&stranger);
	bench_close();
}

/* Steps of collectives are taken by reads of queues, so who sends leaves them to these. */
TEST(send__leaves_looks)
{
	char *buf;

	world_rescue_off();
	bench_open();
	world_rescue_on();
	join_all();
	assert_true(world_leaves_looks(b.m[0].node.ep, 1, &buf));
	leave_all();
	bench_close();
	free(buf);
}

TESTS_MAIN
