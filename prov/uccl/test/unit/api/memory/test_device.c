/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Memory of devices, from the program's calls to its bytes: over loopback, with a driver whose memory nobody may touch.
 * Some packets are lost in every test.
 */
#include "api/memory/device.h"

#include "../../../fake_cuda/fake_cuda.h"
#include "../world.h"

#include <sys/mman.h>
#include <unistd.h>

#include <rdma/fi_atomic.h>
#include <rdma/fi_collective.h>
#include <rdma/fi_rma.h>

#include "api/memory/mr.h"
#include "api/object/domain.h"
#include "../../tests.h"

#define RMA_MODE (FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY)
#define OPT_CUDA_API_PERMITTED 10
#define OPT_SHARED_MEMORY_PERMITTED 11
#define MR_DMABUF (1ull << 40)
#define CTX(n) ((void *)(uintptr_t)(n))

/* A buffer of either kind, and what the test knows of it. */
struct buf {
	bool device;
	size_t len;
	uint8_t *at, *seen;	/* seen: the bytes of a device's, once they were read */
	struct fid_mr *mr;
};

struct pair {
	struct world w;
	struct node a, b;
	fi_addr_t to_b, to_a, self;
};

static struct fi_info *device_hints(void)
{
	struct fi_info *h = world_hints();

	h->caps = FI_MSG | FI_TAGGED | FI_RMA | FI_ATOMIC | FI_HMEM;
	h->domain_attr->mr_mode = RMA_MODE | FI_MR_HMEM | FI_MR_LOCAL;
	return h;
}

static void pair_open_with(struct pair *p, struct fi_info *hints)
{
	world_open_with(&p->w, hints);
	p->to_b = node_pair(&p->a, &p->b, &p->w);
	p->to_a = node_insert(&p->b, &p->a);
	p->self = node_insert(&p->a, &p->a);
}

static void pair_open(struct pair *p)
{
	pair_open_with(p, device_hints());
}

static void pair_close(struct pair *p)
{
	node_close(&p->a);
	node_close(&p->b);
	world_close(&p->w);
	assert_int_equal(fake_cuda_pending(), 0);
}

WORLD_FIXTURE(pair)

static struct buf buf_new(bool device, size_t len)
{
	struct buf b = { .device = device, .len = len, .seen = malloc(len + 1) };

	b.at = device ? fake_cuda_alloc(0, len + 1) : malloc(len + 1);
	assert_non_null(b.at);
	return b;
}

static void buf_free(struct buf *b)
{
	if (b->mr)
		assert_int_equal(fi_close(&b->mr->fid), 0);
	if (b->device)
		fake_cuda_free(b->at);
	else
		free(b->at);
	free(b->seen);
}

static void buf_fill(struct buf *b, unsigned int seed)
{
	for (size_t i = 0; i < b->len; i++)
		b->seen[i] = (uint8_t)(i * 31 + (i >> 8) * 7 + seed);
	if (!b->len)
		return;
	if (b->device)
		fake_cuda_write(b->at, b->seen, b->len);
	else
		memcpy(b->at, b->seen, b->len);
}

static void buf_zero(struct buf *b)
{
	memset(b->seen, 0, b->len);
	if (!b->len)
		return;
	if (b->device)
		fake_cuda_write(b->at, b->seen, b->len);
	else
		memset(b->at, 0, b->len);
}

static void buf_check(struct buf *b, size_t off, size_t n, unsigned int seed)
{
	if (!n)
		return;
	if (b->device)
		fake_cuda_read(b->seen, b->at + off, n);
	else
		memcpy(b->seen, b->at + off, n);
	for (size_t i = 0; i < n; i++)
		if (b->seen[i] != (uint8_t)(i * 31 + (i >> 8) * 7 + seed))
			fail_msg("byte %zu of %zu", i, n);
}

static void buf_reg(struct pair *p, struct buf *b)
{
	struct iovec iov = { .iov_base = b->at, .iov_len = b->len };
	struct fi_mr_attr attr = {
		.mr_iov = &iov, .iov_count = 1, .iface = b->device ? FI_HMEM_CUDA : FI_HMEM_SYSTEM,
		.access = FI_SEND | FI_RECV | FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE,
	};

	assert_int_equal(fi_mr_regattr(p->w.domain, &attr, 0, &b->mr), 0);
}

static void *buf_desc(const struct buf *b)
{
	return b->mr ? fi_mr_desc(b->mr) : NULL;
}

/* One completion of `n`, which succeeded. */
static struct fi_cq_tagged_entry done(struct node *n, struct node *other)
{
	struct fi_cq_tagged_entry e = { 0 };

	assert_int_equal(node_wait(n, other, &e, NULL), 1);
	return e;
}

/* The next completion of a, which is an error. */
static struct fi_cq_err_entry failed(struct pair *p)
{
	struct fi_cq_err_entry err = { 0 };
	ssize_t rc;

	do {
		(void)fi_cq_read(p->b.cq, NULL, 0);
		rc = fi_cq_read(p->a.cq, &err, 1);
	} while (rc == -FI_EAGAIN);
	assert_int_equal(rc, -FI_EAVAIL);
	assert_int_equal(fi_cq_readerr(p->a.cq, &err, 0), 1);
	return err;
}

static const size_t sizes[] = { 0, 1, 64, 4096, 65536, 65537, 300000, 3u << 20 };
#define NSIZES (sizeof(sizes) / sizeof(sizes[0]))

static void message(struct pair *p, size_t len, bool src, bool dst, bool unexpected, bool registered, bool tagged)
{
	struct buf s = buf_new(src, len), d = buf_new(dst, len);
	struct fi_cq_tagged_entry e;
	struct node *a = &p->a, *b = &p->b;

	if (registered) {
		buf_reg(p, &s);
		buf_reg(p, &d);
	}
	buf_fill(&s, (unsigned int)len);
	buf_zero(&d);
	for (int step = 0; step < 2; step++) {
		if (step == unexpected) {
			if (tagged)
				world_post(fi_trecv(b->ep, d.at, len, buf_desc(&d), FI_ADDR_UNSPEC, 5, 0, CTX(2)), a,
					   b);
			else
				world_post(fi_recv(b->ep, d.at, len, buf_desc(&d), FI_ADDR_UNSPEC, CTX(2)), a, b);
		} else {
			if (tagged)
				world_post(fi_tsend(a->ep, s.at, len, buf_desc(&s), p->to_b, 5, CTX(1)), a, b);
			else
				world_post(fi_send(a->ep, s.at, len, buf_desc(&s), p->to_b, CTX(1)), a, b);
		}
		for (int i = 0; !step && i < 50; i++) {
			(void)fi_cq_read(a->cq, NULL, 0);
			(void)fi_cq_read(b->cq, NULL, 0);
		}
	}
	e = done(b, a);
	assert_ptr_equal(e.op_context, CTX(2));
	assert_int_equal(e.len, len);
	buf_check(&d, 0, len, (unsigned int)len);
	e = done(a, b);
	assert_ptr_equal(e.op_context, CTX(1));
	buf_free(&s);
	buf_free(&d);
}

WORLD_TEST(device__messages, pair, p)
{
	for (unsigned int i = 0; i < NSIZES; i++)
		for (unsigned int way = 0; way < 32; way++)
			if (way & 3)
				message(p, sizes[i], way & 1, way & 2, way & 4, way & 8, way & 16);
}

/* Those to one peer come in the order in which they were sent, whatever memory they are in. */
WORLD_TEST(device__order, pair, p)
{
	enum { N = 200 };
	struct buf s[N], d[N];

	for (int i = 0; i < N; i++) {
		s[i] = buf_new(i % 3, (size_t)(i * 977 % 100000));
		d[i] = buf_new(i % 2, 100000);
		buf_fill(&s[i], (unsigned int)i);
	}
	for (int i = 0; i < N; i++)
		world_post(fi_recv(p->b.ep, d[i].at, d[i].len, NULL, FI_ADDR_UNSPEC, CTX(i)), &p->a, &p->b);
	for (int i = 0; i < N; i++)
		assert_int_equal(fi_send(p->a.ep, s[i].at, s[i].len, NULL, p->to_b, CTX(i)), 0);
	for (int i = 0; i < N; i++) {
		struct fi_cq_tagged_entry e = done(&p->b, &p->a);
		int k = (int)(uintptr_t)e.op_context;

		assert_int_equal(e.len, s[k].len);
		buf_check(&d[k], 0, e.len, (unsigned int)k);
	}
	for (int i = 0; i < N; i++)
		done(&p->a, &p->b);
	for (int i = 0; i < N; i++) {
		buf_free(&s[i]);
		buf_free(&d[i]);
	}
}

TEST(device__multi_recv)
{
	struct buf d = buf_new(true, 1 << 20), s = buf_new(true, 60000);
	struct pair p;

	pair_open(&p);
	struct iovec iov = { .iov_base = d.at, .iov_len = d.len };
	struct fi_msg msg = { .msg_iov = &iov, .iov_count = 1, .addr = FI_ADDR_UNSPEC, .context = CTX(9) };

	assert_int_equal(fi_recvmsg(p.b.ep, &msg, FI_MULTI_RECV), 0);
	for (unsigned int i = 0; i < 12; i++) {
		size_t len = 5000u * (i + 1);
		struct fi_cq_tagged_entry e;

		buf_fill(&s, i);
		world_post(fi_send(p.a.ep, s.at, len, NULL, p.to_b, CTX(i)), &p.a, &p.b);
		e = done(&p.b, &p.a);
		assert_ptr_equal(e.op_context, CTX(9));
		assert_int_equal(e.len, len);
		buf_check(&d, (size_t)((uint8_t *)e.buf - d.at), len, i);
		done(&p.a, &p.b);
	}
	buf_free(&s);
	pair_close(&p);
	buf_free(&d);
}

/* From a to all of a region of b, or back. */
static void rma(struct pair *p, bool read, struct buf *l, const struct buf *r, void *context)
{
	uint64_t at = (uintptr_t)r->at, key = fi_mr_key(r->mr);

	if (read)
		world_post(fi_read(p->a.ep, l->at, l->len, buf_desc(l), p->to_b, at, key, context), &p->a, &p->b);
	else
		world_post(fi_write(p->a.ep, l->at, l->len, buf_desc(l), p->to_b, at, key, context), &p->a, &p->b);
}

static void rma_checked(struct pair *p, size_t len, unsigned int seed, bool src, bool dst, bool desc, bool read)
{
	struct buf l = buf_new(src, len), r = buf_new(dst, len);

	buf_reg(p, &r);
	if (desc)
		buf_reg(p, &l);
	buf_fill(read ? &r : &l, seed);
	buf_zero(read ? &l : &r);
	rma(p, read, &l, &r, CTX(1));
	assert_ptr_equal(done(&p->a, &p->b).op_context, CTX(1));
	/* Its completion says that it is there. */
	buf_check(read ? &l : &r, 0, l.len, seed);
	buf_free(&l);
	buf_free(&r);
}

WORLD_TEST(device__rma, pair, p)
{
	for (unsigned int i = 0; i < NSIZES; i++)
		for (unsigned int way = 1; way < 16; way++)
			rma_checked(p, sizes[i], i, way & 1, way & 2, way & 4, way & 8);
}

/* Who hears of a write finds its bytes; and those who find a flag written later find what was written before. */
WORLD_TEST(device__rma_order, pair, p)
{
	struct buf s = buf_new(true, 8000), d = buf_new(true, 8000), flag = buf_new(false, 8), one = buf_new(false, 8);

	buf_reg(p, &d);
	buf_reg(p, &flag);
	for (unsigned int i = 1; i < 50; i++) {
		struct fi_cq_tagged_entry e;

		buf_fill(&s, i);
		buf_zero(&flag);
		memset(one.at, (int)i, one.len);
		rma(p, false, &s, &d, CTX(1));
		rma(p, false, &one, &flag, CTX(2));
		while (((volatile uint8_t *)flag.at)[7] != i) {
			(void)fi_cq_read(p->a.cq, NULL, 0);
			(void)fi_cq_read(p->b.cq, NULL, 0);
		}
		buf_check(&d, 0, d.len, i);
		done(&p->a, &p->b);
		done(&p->a, &p->b);
		buf_fill(&s, i + 100);
		world_post(fi_writedata(p->a.ep, s.at, s.len, NULL, i, p->to_b, (uintptr_t)d.at, fi_mr_key(d.mr),
					CTX(3)),
			   &p->a, &p->b);
		e = done(&p->b, &p->a);
		assert_int_equal(e.data, i);
		buf_check(&d, 0, d.len, i + 100);
		done(&p->a, &p->b);
	}
	buf_free(&d);
	buf_free(&flag);
	buf_free(&s);
	buf_free(&one);
}

WORLD_TEST(device__delivery_complete, pair, p)
{
	static const size_t len[] = { 8, 65536, 1u << 20 };

	for (int i = 0; i < 3; i++) {
		struct buf s = buf_new(true, len[i]), d = buf_new(true, len[i]);
		struct iovec iov = { .iov_base = s.at, .iov_len = s.len };
		struct fi_msg msg = { .msg_iov = &iov, .iov_count = 1, .addr = p->to_b, .context = CTX(1) };

		buf_fill(&s, 3);
		world_post(fi_recv(p->b.ep, d.at, d.len, NULL, FI_ADDR_UNSPEC, CTX(2)), &p->a, &p->b);
		world_post(fi_sendmsg(p->a.ep, &msg, FI_COMPLETION | FI_DELIVERY_COMPLETE), &p->a, &p->b);
		assert_ptr_equal(done(&p->a, &p->b).op_context, CTX(1));
		buf_check(&d, 0, d.len, 3);
		assert_ptr_equal(done(&p->b, &p->a).op_context, CTX(2));
		buf_free(&s);
		buf_free(&d);
	}
}

/* The buffer is the program's when the call returns. */
WORLD_TEST(device__inject, pair, p)
{
	struct buf s = buf_new(true, 4096), d = buf_new(true, 4096);

	buf_reg(p, &d);
	world_post(fi_recv(p->b.ep, d.at, d.len, NULL, FI_ADDR_UNSPEC, CTX(2)), &p->a, &p->b);
	buf_fill(&s, 1);
	world_post(fi_inject(p->a.ep, s.at, s.len, p->to_b), &p->a, &p->b);
	buf_fill(&s, 2);
	done(&p->b, &p->a);
	buf_check(&d, 0, d.len, 1);
	world_post(fi_inject_write(p->a.ep, s.at, s.len, p->to_b, (uintptr_t)d.at, fi_mr_key(d.mr)), &p->a, &p->b);
	buf_fill(&s,
		 3);
	world_post(fi_read(p->a.ep, s.at, s.len, NULL, p->to_b, (uintptr_t)d.at, fi_mr_key(d.mr), CTX(4)), &p->a,
		   &p->b);
	done(&p->a, &p->b);
	buf_check(&s, 0, s.len, 2);
	buf_free(&s);
	buf_free(&d);
}

WORLD_TEST(device__self, pair, p)
{
	for (unsigned int way = 1; way < 8; way++) {
		struct buf s = buf_new(way & 1, 700000), d = buf_new(way & 2, 700000);

		buf_fill(&s, way);
		buf_zero(&d);
		if (way & 4)
			world_post(fi_send(p->a.ep, s.at, s.len, NULL, p->self, CTX(1)), &p->a, &p->b);
		world_post(fi_recv(p->a.ep, d.at, d.len, NULL, FI_ADDR_UNSPEC, CTX(2)), &p->a, &p->b);
		if (!(way & 4))
			world_post(fi_send(p->a.ep, s.at, s.len, NULL, p->self, CTX(1)), &p->a, &p->b);
		done(&p->a, NULL);
		done(&p->a, NULL);
		buf_check(&d, 0, d.len, way);
		buf_zero(&d);
		buf_reg(p,
			&d);
		world_post(fi_write(p->a.ep, s.at, s.len, NULL, p->self, (uintptr_t)d.at, fi_mr_key(d.mr), CTX(3)),
			   &p->a,
			   &p->b);
		done(&p->a, NULL);
		buf_check(&d, 0, d.len,
			  way);
		buf_zero(&s);
		world_post(fi_read(p->a.ep, s.at, s.len, NULL, p->self, (uintptr_t)d.at, fi_mr_key(d.mr), CTX(3)),
			   &p->a,
			   &p->b);
		done(&p->a, NULL);
		buf_check(&s, 0, s.len, way);
		buf_free(&s);
		buf_free(&d);
	}
}

/* Operands, results and targets on devices; and of those that meet at one place none is lost. PROTOCOL R193 */
WORLD_TEST(device__atomics, pair, p)
{
	struct buf d = buf_new(true, 64), h = buf_new(false, 64), other = buf_new(true, 64);
	uint64_t one = 1, result = 0, at = (uintptr_t)h.at, key;
	fi_addr_t to[4];

	for (int i = 0; i < 4; i++)
		to[i] = node_insert(i % 2 ? &p->a : &p->b, i / 2 ? &p->a : &p->b);
	buf_reg(p, &d);
	buf_reg(p, &h);
	buf_zero(&h);
	buf_zero(&d);
	fake_cuda_write(other.at, &one, sizeof(one));
	key = fi_mr_key(h.mr);
	world_post(fi_atomic(p->a.ep, other.at, 1, NULL, p->to_b, at, key, FI_UINT64, FI_SUM, CTX(1)), &p->a, &p->b);
	done(&p->a, &p->b);
	memcpy(&result, h.at, 8);
	assert_int_equal(result, 1);
	world_post(fi_fetch_atomic(p->a.ep, other.at, 1, NULL, other.at + 8, NULL, p->to_b, at, key, FI_UINT64, FI_SUM,
				   CTX(1)), &p->a, &p->b);
	done(&p->a,
	     &p->b);
	fake_cuda_read(&result, other.at + 8,
		       8);
	assert_int_equal(result,
			 1);
	world_post(fi_compare_atomic(p->a.ep, &one, 1, NULL, other.at + 8, NULL, &result, NULL, p->to_b,
				     (uintptr_t)d.at,
				     fi_mr_key(d.mr), FI_UINT64, FI_CSWAP_NE, CTX(1)), &p->a, &p->b);
	done(&p->a, &p->b);
	assert_int_equal(result, 0);
	fake_cuda_read(&result, d.at, 8);
	assert_int_equal(result, 1);
	/* By the peer, and by two endpoints of this domain to themselves and to each other. */
	for (int i = 0; i < 60; i++) {
		struct node *from = i % 2 ? &p->a : &p->b;

		world_post(fi_fetch_atomic(from->ep, &one, 1, NULL, &result, NULL, to[i % 4],
					   (uintptr_t)d.at + 8, fi_mr_key(d.mr), FI_UINT64, FI_SUM, CTX(i + 2)), &p->a,
			   &p->b);
		done(from, from == &p->a ? &p->b : &p->a);
		assert_int_equal(result, i);
	}
	fake_cuda_read(&result, d.at + 8, 8);
	assert_int_equal(result, 60);
	buf_free(&d);
	buf_free(&h);
	buf_free(&other);
}

static void fetch_checked(struct pair *p, fi_addr_t to, unsigned int n)
{
	struct buf d = buf_new(true, 16), l = buf_new(true, 16);
	uint64_t one[2] = { 1, 0 }, value;

	buf_reg(p, &d);
	buf_zero(&d);
	fake_cuda_write(l.at, one, sizeof(one));
	for (unsigned int i = 0; i < n; i++) {
		world_post(fi_fetch_atomic(p->a.ep, l.at, 1, NULL, l.at + 8, NULL, to, (uintptr_t)d.at,
					   fi_mr_key(d.mr), FI_UINT64, FI_SUM, CTX(1)), &p->a, &p->b);
		done(&p->a, &p->b);
		fake_cuda_read(&value, l.at + 8, 8);
		assert_int_equal(value, i);
	}
	fake_cuda_read(&value, d.at, 8);
	assert_int_equal(value, n);
	buf_free(&d);
	buf_free(&l);
}

/* Every kind of transfer to and from a device. */
static void all_ways(struct pair *p)
{
	for (unsigned int i = 0; i < NSIZES; i++)
		for (unsigned int way = 0; way < 32; way++) {
			if (!(way & 3))
				continue;
			message(p, sizes[i], way & 1, way & 2, way & 4, way & 8, way & 16);
			if (way < 16)
				rma_checked(p, sizes[i], i, way & 1, way & 2, way & 4, way & 8);
		}
	fetch_checked(p, p->to_b, 20);
	rma_checked(p, 100000, 1, true, true, false, false);
}

/*
 * Once the first copies have brought what an endpoint needs, no call waits for a device, however long copies take:
 * whoever needs one asks whether it is done, and comes back.
 */
TEST(device__no_call_blocks)
{
	struct buf s = buf_new(true, 4096), d = buf_new(true, 4096);

	for (int automatic = 0; automatic < 2; automatic++) {
		struct fi_info *h = device_hints();
		unsigned int before, copies;
		struct pair p;

		h->domain_attr->data_progress = automatic ? FI_PROGRESS_AUTO : FI_PROGRESS_MANUAL;
		before = fake_cuda_blocking();
		pair_open_with(&p, h);
		message(&p, 100, true, true, false, false, false);
		/* What has to be there at first is counted. */
		assert_true(fake_cuda_blocking() > before);
		copies = fake_cuda_copies();
		before = fake_cuda_blocking();
		/* Longer than anybody would look again and again. */
		fake_cuda_delay(60);
		all_ways(&p);
		assert_int_equal(fake_cuda_blocking(), before);
		assert_true(fake_cuda_copies() > copies + 1000);
		/* But for a call whose buffer is the program's again when it returns: it stays, and sleeps. */
		for (int i = 0; i < 20; i++) {
			world_post(fi_recv(p.b.ep, d.at, d.len, NULL, FI_ADDR_UNSPEC, CTX(2)), &p.a, &p.b);
			world_post(fi_inject(p.a.ep, s.at, s.len, p.to_b), &p.a, &p.b);
			done(&p.b, &p.a);
		}
		assert_true(fake_cuda_blocking() > before);
		fake_cuda_delay(3);
		pair_close(&p);
	}
	buf_free(&s);
	buf_free(&d);
}

/* A copy that the driver refuses, or that fails later, ends its operation and no other. */
TEST(device__copy_fails)
{
	struct buf s = buf_new(true, 30000), d = buf_new(true, 30000);
	struct pair p;

	for (int late = 0; late < 2; late++) {
		struct fi_cq_err_entry err;

		pair_open(&p);
		fake_cuda_fail(1, late);
		assert_int_equal(fi_send(p.a.ep, s.at, s.len, NULL, p.to_b, CTX(1)), 0);
		err = failed(&p);
		assert_int_equal(err.err, late ? FI_EIO : FI_EFAULT);
		assert_ptr_equal(err.op_context, CTX(1));
		if (!late)
			message(&p, 5000, true, true, false, false, false);
		pair_close(&p);
	}
	buf_free(&s);
	buf_free(&d);
}

/* With every promise that a program may make, and with threads of ours. */
TEST(device__threads)
{
	static const enum fi_threading models[] = {
		FI_THREAD_SAFE, FI_THREAD_FID, FI_THREAD_ENDPOINT, FI_THREAD_COMPLETION, FI_THREAD_DOMAIN,
	};

	for (unsigned int i = 0; i < 10; i++) {
		struct fi_info *h = device_hints();
		struct pair p;

		h->domain_attr->threading = models[i / 2];
		h->domain_attr->data_progress = i % 2 ? FI_PROGRESS_AUTO : FI_PROGRESS_MANUAL;
		pair_open_with(&p, h);
		for (unsigned int way = 1; way < 16; way++)
			message(&p, way & 1 ? 300000 : 3000, way & 1, way & 2, way & 4, way & 8, true);
		pair_close(&p);
	}
}

/* An endpoint that was there before anybody asked for devices cannot reach their regions for its peers. */
TEST(device__earlier_endpoint)
{
	struct buf s = buf_new(false, 100), d = buf_new(true, 100);
	struct fi_info *h = world_hints();
	struct pair p;

	h->caps = FI_MSG | FI_RMA;
	h->domain_attr->mr_mode = RMA_MODE;
	world_open_with(&p.w, h);
	node_open(&p.b, &p.w);
	p.w.info->caps |= FI_HMEM;
	node_open(&p.a, &p.w);
	p.to_b = node_insert(&p.a, &p.b);
	p.self = node_insert(&p.a, &p.a);
	buf_reg(&p, &d);
	buf_fill(&s, 1);
	rma(&p, false, &s, &d, CTX(1));
	assert_int_equal(failed(&p).err, FI_EACCES);
	p.to_b = p.self;
	rma(&p, false, &s, &d, CTX(1));
	done(&p.a, NULL);
	buf_check(&d, 0, d.len, 1);
	buf_free(&s);
	buf_free(&d);
	pair_close(&p);
}

TEST(device__getinfo)
{
	struct fi_provider *prov = fi_prov_ini();
	struct fi_info *h = device_hints(), *info;
	static const uint32_t versions[] = { FI_VERSION(1, 5), FI_VERSION(1, 6), FI_VERSION(1, 17) };

	for (int i = 0; i < 3; i++) {
		assert_int_equal(prov->getinfo(versions[i], NULL, NULL, 0, h, &info), 0);
		assert_true(info->caps & FI_HMEM);
		assert_true(info->tx_attr->caps & FI_HMEM);
		assert_true(info->rx_attr->caps & FI_HMEM);
		/* Taken as an offer. */
		assert_int_equal(info->domain_attr->mr_mode, RMA_MODE);
		fi_freeinfo(info);
	}
	/* Not for those who do not ask. */
	h->caps = FI_MSG;
	assert_int_equal(prov->getinfo(API, NULL, NULL, 0, h, &info), 0);
	assert_false(info->caps & FI_HMEM);
	fi_freeinfo(info);
	assert_int_equal(prov->getinfo(API, NULL, NULL, 0, NULL, &info), 0);
	assert_false(info->caps & FI_HMEM);
	fi_freeinfo(info);
	/* Unless they name nothing, and the user asks for them; what they were told they may ask for. */
	setenv("FI_UCCL_CUDA", "on", 1);
	assert_int_equal(prov->getinfo(API, NULL, NULL, 0, h, &info), 0);
	assert_false(info->caps & FI_HMEM);
	fi_freeinfo(info);
	assert_int_equal(prov->getinfo(API, NULL, NULL, 0, NULL, &info), 0);
	assert_true(info->caps & FI_HMEM && info->tx_attr->caps & FI_HMEM);
	h->caps = info->caps;
	fi_freeinfo(info);
	assert_int_equal(prov->getinfo(API, NULL, NULL, 0, h, &info), 0);
	assert_true(info->caps & FI_HMEM);
	fi_freeinfo(info);
	h->caps = FI_MSG | FI_HMEM;
	setenv("FI_UCCL_CUDA", "off", 1);
	assert_int_equal(prov->getinfo(API, NULL, NULL, 0, h, &info), -FI_ENODATA);
	unsetenv("FI_UCCL_CUDA");
	fi_freeinfo(h);
}

TEST(device__regions)
{
	struct buf d = buf_new(true, 4096), h = buf_new(false, 4096);
	struct { int fd; uint64_t offset; size_t len; void *base; } dmabuf = { -1, 96, 4000, d.at };
	struct iovec iov = { .iov_base = d.at, .iov_len = d.len };
	struct fi_mr_attr attr = { .mr_iov = &iov, .iov_count = 1, .iface = FI_HMEM_CUDA, .access = FI_REMOTE_WRITE };
	struct iovec mixed[2] = { iov, { .iov_base = h.at, .iov_len = h.len } };
	struct fid_mr *mr;
	struct pair p;

	pair_open(&p);
	attr.device.cuda = 1;
	assert_int_equal(fi_mr_regattr(p.w.domain, &attr, 0, &mr), -FI_EINVAL);
	attr.device.cuda = -1;
	assert_int_equal(fi_mr_regattr(p.w.domain, &attr, 0, &mr), -FI_EINVAL);
	attr.device.cuda = 0;
	attr.iface = FI_HMEM_ZE;
	assert_int_equal(fi_mr_regattr(p.w.domain, &attr, 0, &mr), -FI_EOPNOTSUPP);
	attr.iface = FI_HMEM_CUDA;
	assert_false(fake_cuda_synced(d.at));
	assert_int_equal(fi_mr_regattr(p.w.domain, &attr, FI_HMEM_DEVICE_ONLY, &mr), 0);
	assert_true(fake_cuda_synced(d.at));
	assert_true(((struct uccl_mr *)fi_mr_desc(mr))->device);
	fi_close(&mr->fid);
	/* Programs say it of pinned memory of the host, too. */
	iov.iov_base = h.at;
	assert_int_equal(fi_mr_regattr(p.w.domain, &attr, 0, &mr), 0);
	assert_false(((struct uccl_mr *)fi_mr_desc(mr))->device);
	fi_close(&mr->fid);
	attr.mr_iov = mixed;
	attr.iov_count = 2;
	assert_int_equal(fi_mr_regattr(p.w.domain, &attr, 0, &mr), -FI_EINVAL);
	/* By its address, if it has one. */
	attr.mr_iov = (void *)&dmabuf;
	attr.iov_count = 1;
	assert_int_equal(fi_mr_regattr(p.w.domain, &attr, MR_DMABUF, &mr), 0);
	assert_true(((struct uccl_mr *)fi_mr_desc(mr))->device);
	assert_ptr_equal(((struct uccl_mr *)fi_mr_desc(mr))->iov[0].iov_base, d.at + 96);
	fi_close(&mr->fid);
	dmabuf.base = NULL;
	assert_int_equal(fi_mr_regattr(p.w.domain, &attr, MR_DMABUF, &mr), -FI_EOPNOTSUPP);
	dmabuf.base = h.at;
	assert_int_equal(fi_mr_regattr(p.w.domain, &attr, MR_DMABUF, &mr), -FI_EOPNOTSUPP);
	/* fi_mr_reg has no word for it. */
	assert_int_equal(fi_mr_reg(p.w.domain, d.at, d.len, FI_REMOTE_READ, 0, 0, 0, &mr, NULL), 0);
	assert_true(((struct uccl_mr *)fi_mr_desc(mr))->device);
	fi_close(&mr->fid);
	pair_close(&p);
	buf_free(&d);
	buf_free(&h);
}

static int set(struct node *n, int name, const void *value, size_t len)
{
	return fi_setopt(&n->ep->fid, FI_OPT_ENDPOINT, name, value, len);
}

TEST(device__options)
{
	bool no = false, yes = true, is = false;
	int p2p = FI_HMEM_P2P_REQUIRED;
	size_t len = sizeof(is);
	struct world w;
	struct node n;
	struct pair p;

	pair_open(&p);
	assert_int_equal(set(&p.a, OPT_CUDA_API_PERMITTED, &no, sizeof(no)), -FI_EOPNOTSUPP);
	assert_int_equal(set(&p.a, OPT_CUDA_API_PERMITTED, &yes, sizeof(yes)), 0);
	assert_int_equal(set(&p.a, OPT_CUDA_API_PERMITTED, &yes, 2), -FI_EINVAL);
	assert_int_equal(fi_getopt(&p.a.ep->fid, FI_OPT_ENDPOINT, OPT_CUDA_API_PERMITTED, &is, &len), 0);
	assert_true(is);
	assert_int_equal(set(&p.a, FI_OPT_FI_HMEM_P2P, &p2p, sizeof(p2p)), -FI_EOPNOTSUPP);
	for (p2p = 0; p2p < 6; p2p++)
		assert_int_equal(set(&p.a, FI_OPT_FI_HMEM_P2P, &p2p, sizeof(p2p)),
				 p2p == FI_HMEM_P2P_REQUIRED ? -FI_EOPNOTSUPP : p2p > 3 ? -FI_EINVAL : 0);
	assert_int_equal(set(&p.a, FI_OPT_FI_HMEM_P2P, &p2p, 1), -FI_EINVAL);
	len = 1;
	assert_int_equal(fi_getopt(&p.a.ep->fid, FI_OPT_ENDPOINT, FI_OPT_FI_HMEM_P2P, &p2p, &len), -FI_ETOOSMALL);
	assert_int_equal(len, sizeof(p2p));
	assert_int_equal(fi_getopt(&p.a.ep->fid, FI_OPT_ENDPOINT, FI_OPT_FI_HMEM_P2P, &p2p, &len), 0);
	assert_int_equal(p2p, FI_HMEM_P2P_DISABLED);
	pair_close(&p);

	world_open(&w);
	node_open(&n, &w);
	/* Without that memory there is nothing to call for. */
	assert_int_equal(set(&n, OPT_CUDA_API_PERMITTED, &no, sizeof(no)), 0);
	len = sizeof(is);
	assert_int_equal(fi_getopt(&n.ep->fid, FI_OPT_ENDPOINT, OPT_CUDA_API_PERMITTED, &is, &len), 0);
	assert_false(is);
	assert_int_equal(set(&n, FI_OPT_FI_HMEM_P2P, &p2p, sizeof(p2p)), -FI_ENOPROTOOPT);
	node_close(&n);
	world_close(&w);
}

/* As if the domain were of a NIC that writes by itself, which is not there: nothing is enabled. */
static void writing_open(struct world *w)
{
	struct fi_info *h = device_hints();

	world_open_with(w, h);
	strcpy(uccl_domain_of(&w->domain->fid)->params.nic.backend, "verbs-uc");
}

static int p2p_of(struct fid_ep *ep)
{
	int p2p = -1;
	size_t len = sizeof(p2p);

	assert_int_equal(fi_getopt(&ep->fid, FI_OPT_ENDPOINT, FI_OPT_FI_HMEM_P2P, &p2p, &len), 0);
	return p2p;
}

TEST(device__options_of_a_nic_that_writes)
{
	static const int sets[][3] = { { FI_HMEM_P2P_REQUIRED, -FI_EOPNOTSUPP, FI_HMEM_P2P_ENABLED },
				       { FI_HMEM_P2P_DISABLED, 0, FI_HMEM_P2P_DISABLED },
				       { FI_HMEM_P2P_PREFERRED, 0, FI_HMEM_P2P_ENABLED },
				       { FI_HMEM_P2P_DISABLED, 0, FI_HMEM_P2P_DISABLED },
				       { FI_HMEM_P2P_REQUIRED, -FI_EOPNOTSUPP, FI_HMEM_P2P_DISABLED },
				       { FI_HMEM_P2P_ENABLED, 0, FI_HMEM_P2P_ENABLED } };
	struct fid_ep *ep;
	struct world w;

	writing_open(&w);
	/* One that only reads. */
	strcpy(uccl_domain_of(&w.domain->fid)->params.nic.backend, "verbs-ud");
	assert_int_equal(fi_endpoint(w.domain, w.info, &ep, NULL), 0);
	assert_int_equal(p2p_of(ep), FI_HMEM_P2P_ENABLED);
	fi_close(&ep->fid);
	strcpy(uccl_domain_of(&w.domain->fid)->params.nic.backend, "verbs-uc");
	assert_int_equal(fi_endpoint(w.domain, w.info, &ep, NULL), 0);
	assert_int_equal(p2p_of(ep), FI_HMEM_P2P_ENABLED);
	for (int i = 0; i < 6; i++) {
		assert_int_equal(fi_setopt(&ep->fid, FI_OPT_ENDPOINT, FI_OPT_FI_HMEM_P2P, &sets[i][0], sizeof(int)),
				 sets[i][1]);
		assert_int_equal(p2p_of(ep), sets[i][2]);
	}
	fi_close(&ep->fid);
	world_close(&w);
}

/* There the descriptor is kept for the NIC as long as the region is, and one that is none is refused. */
TEST(device__dmabufs_of_a_nic_that_writes)
{
	struct buf d = buf_new(true, 8192);
	struct { int fd; uint64_t offset; size_t len; void *base; } dmabuf = { memfd_create("x", 0), 96, 4000, d.at };
	struct fi_mr_attr attr = { .mr_iov = (void *)&dmabuf, .iov_count = 1, .iface = FI_HMEM_CUDA,
				   .access = FI_REMOTE_WRITE };
	struct uccl_dmabufs *all;
	struct fid_mr *mr;
	struct world w;
	uint64_t off;
	int fd;

	writing_open(&w);
	all = &uccl_domain_of(&w.domain->fid)->dmabufs;
	assert_int_equal(fi_mr_regattr(w.domain, &attr, MR_DMABUF, &mr), 0);
	fd = uccl_dmabufs_find(all, d.at + 100, 10, &off);
	assert_true(fd >= 0);
	assert_int_equal(off, 100);
	close(fd);
	assert_int_equal(uccl_dmabufs_find(all, d.at, 10, &off), -FI_ENOENT);
	fi_close(&mr->fid);
	assert_int_equal(uccl_dmabufs_find(all, d.at + 100, 10, &off), -FI_ENOENT);
	close(dmabuf.fd);
	assert_int_equal(fi_mr_regattr(w.domain, &attr, MR_DMABUF, &mr), -FI_EBADF);
	/* Nothing is left of it: the domain can be closed. */
	world_close(&w);
	buf_free(&d);
}

#define NCCL_CAPS (FI_MSG | FI_RMA | FI_HMEM | FI_LOCAL_COMM | FI_REMOTE_COMM)
#define NCCL_MR (RMA_MODE | FI_MR_LOCAL | FI_MR_HMEM)
#define CONTEXTS (FI_CONTEXT | FI_CONTEXT2)
#define SENDRECV_ANSWER                                                                                                \
	"uccl/lo MSG RMA TAGGED READ RECV SEND MULTI_RECV SOURCE HMEM LOCAL REMOTE; mode -; "                          \
	"mr VIRT_ADDR ALLOCATED PROV_KEY; SAFE MANUAL; order SAS; data 8 key 8 inject 4096 name 56\n"

/*
 * What the plug-in aws-ofi-nccl asks for, in its three ways to use libfabric, and all that comes back. FI_UCCL_NIC
 * names one NIC, and the plug-in must have one answer for each.
 */
static const struct nccl {
	const char *name;
	int minor; /* of interface 1 */
	uint64_t caps, mode, order;
	int mr_mode;
	enum fi_threading threading;
	size_t cq_data;
	bool named; /* domain and fabric are named */
	const char *answer;
} nccl[] = {
	{ "SENDRECV, dmabuf", 20, NCCL_CAPS | FI_TAGGED | FI_READ, CONTEXTS, FI_ORDER_SAS, NCCL_MR | FI_MR_ENDPOINT,
	  FI_THREAD_SAFE, 0, false, SENDRECV_ANSWER },
	{ "SENDRECV", 18, NCCL_CAPS | FI_TAGGED | FI_READ, CONTEXTS, FI_ORDER_SAS, NCCL_MR | FI_MR_ENDPOINT,
	  FI_THREAD_SAFE, 0, false, SENDRECV_ANSWER },
	{ "RDMA", 20, NCCL_CAPS, CONTEXTS, 0, NCCL_MR | FI_MR_ENDPOINT, FI_THREAD_COMPLETION, 4, false,
	  "uccl/lo MSG RMA READ WRITE RECV SEND REMOTE_READ REMOTE_WRITE MULTI_RECV SOURCE HMEM LOCAL REMOTE; mode -; "
	  "mr VIRT_ADDR ALLOCATED PROV_KEY; COMPLETION MANUAL; order SAS and more; "
	  "data 8 key 8 inject 4096 name 56\n" },
	{ "GIN", 18, NCCL_CAPS | FI_SOURCE, CONTEXTS | FI_RX_CQ_DATA, 0, NCCL_MR, FI_THREAD_COMPLETION, 4, true,
	  "uccl/lo MSG RMA READ WRITE RECV SEND REMOTE_READ REMOTE_WRITE MULTI_RECV SOURCE HMEM LOCAL REMOTE; "
	  "mode RX_CQ_DATA; mr VIRT_ADDR ALLOCATED PROV_KEY; COMPLETION MANUAL; order SAS and more; "
	  "data 8 key 8 inject 4096 name 56\n" },
};

struct bit {
	uint64_t bit;
	const char *name;
};

static const struct bit cap_names[] = {
	{ FI_MSG, "MSG" }, { FI_RMA, "RMA" }, { FI_TAGGED, "TAGGED" }, { FI_ATOMIC, "ATOMIC" }, { FI_READ, "READ" },
	{ FI_WRITE, "WRITE" }, { FI_RECV, "RECV" }, { FI_SEND, "SEND" }, { FI_REMOTE_READ, "REMOTE_READ" },
	{ FI_REMOTE_WRITE, "REMOTE_WRITE" }, { FI_MULTI_RECV, "MULTI_RECV" }, { FI_SOURCE, "SOURCE" },
	{ FI_HMEM, "HMEM" }, { FI_LOCAL_COMM, "LOCAL" }, { FI_REMOTE_COMM, "REMOTE" }, { 0, NULL },
};
static const struct bit mode_names[] = {
	{ FI_CONTEXT, "CONTEXT" }, { FI_CONTEXT2, "CONTEXT2" }, { FI_RX_CQ_DATA, "RX_CQ_DATA" }, { 0, NULL },
};
static const struct bit mr_names[] = {
	{ FI_MR_LOCAL, "LOCAL" }, { FI_MR_VIRT_ADDR, "VIRT_ADDR" }, { FI_MR_ALLOCATED, "ALLOCATED" },
	{ FI_MR_PROV_KEY, "PROV_KEY" }, { FI_MR_ENDPOINT, "ENDPOINT" }, { FI_MR_HMEM, "HMEM" }, { 0, NULL },
};

/* " A B" of the bits that are set; what has no name is a number. */
static void bits_add(char *text, size_t size, uint64_t bits, const struct bit *names)
{
	size_t n = strlen(text);

	if (!bits)
		n += (size_t)snprintf(text + n, size - n, " -");
	for (; names->name; names++) {
		if (bits & names->bit)
			n += (size_t)snprintf(text + n, size - n, " %s", names->name);
		bits &= ~names->bit;
	}
	if (bits)
		snprintf(text + n, size - n, " 0x%llx", (unsigned long long)bits);
}

static void answer_add(char *text, size_t size, const struct fi_info *i)
{
	static const char *const threading[] = { "?", "SAFE", "FID", "DOMAIN", "COMPLETION", "ENDPOINT" };
	static const char *const progress[] = { "?", "AUTO", "MANUAL" };
	size_t n = strlen(text);

	snprintf(text + n, size - n, "%s/%s", i->fabric_attr->name, i->domain_attr->name);
	bits_add(text, size, i->caps, cap_names);
	strcat(text, "; mode");
	bits_add(text, size, i->mode, mode_names);
	strcat(text, "; mr");
	bits_add(text, size, (uint64_t)i->domain_attr->mr_mode, mr_names);
	n = strlen(text);
	snprintf(text + n, size - n, "; %s %s; order %s; data %zu key %zu inject %zu name %zu\n",
		 threading[i->domain_attr->threading], progress[i->domain_attr->data_progress],
		 i->tx_attr->msg_order == FI_ORDER_SAS ? "SAS" : i->tx_attr->msg_order & FI_ORDER_SAS ? "SAS and more" :
		 "none", i->domain_attr->cq_data_size, i->domain_attr->mr_key_size, i->tx_attr->inject_size,
		 i->src_addrlen);
}

static struct fi_info *nccl_ask(const struct nccl *c)
{
	struct fi_info *h = fi_allocinfo(), *info;

	h->caps = c->caps;
	h->mode = c->mode;
	h->ep_attr->type = FI_EP_RDM;
	h->domain_attr->mr_mode = c->mr_mode;
	h->domain_attr->mr_key_size = 2;
	h->domain_attr->threading = c->threading;
	h->domain_attr->cq_data_size = c->cq_data;
	h->tx_attr->msg_order = h->rx_attr->msg_order = c->order;
	if (c->named) {
		h->domain_attr->name = strdup("lo");
		h->fabric_attr->name = strdup("uccl");
	}
	assert_int_equal(fi_prov_ini()->getinfo(FI_VERSION(1, c->minor), NULL, NULL, 0, h, &info), 0);
	fi_freeinfo(h);
	return info;
}

TEST(device__nccl_answers)
{
	setenv("FI_UCCL_NIC", "lo", 1);
	for (size_t i = 0; i < sizeof(nccl) / sizeof(nccl[0]); i++) {
		struct fi_info *info = nccl_ask(&nccl[i]);
		char text[2048] = "";

		print_message("%s\n", nccl[i].name);
		for (const struct fi_info *k = info; k; k = k->next)
			answer_add(text, sizeof(text), k);
		assert_string_equal(text, nccl[i].answer);
		fi_freeinfo(info);
	}
	unsetenv("FI_UCCL_NIC");
}

/*
 * The plug-in's endpoint: told that calls of CUDA are needed, it keeps to memory of the host by itself; any other error
 * ends it.
 */
TEST(device__nccl_endpoints)
{
	struct fi_cq_attr cq_attr = { .format = FI_CQ_FORMAT_DATA, .size = 12288 };
	bool no = false, may = false;
	size_t len = sizeof(may);
	struct fid_cq *cq;
	struct world w;

	setenv("FI_UCCL_NIC", "lo", 1);
	for (size_t i = 0; i < sizeof(nccl) / sizeof(nccl[0]); i++) {
		struct node n;

		w.info = nccl_ask(&nccl[i]);
		assert_int_equal(fi_prov_ini()->fabric(w.info->fabric_attr, &w.fabric, NULL), 0);
		w.fabric->api_version = FI_VERSION(1, (uint32_t)nccl[i].minor);
		assert_int_equal(fi_domain(w.fabric, w.info, &w.domain, NULL), 0);
		assert_int_equal(fi_cq_open(w.domain, &cq_attr, &cq, NULL), 0);
		node_open(&n, &w);
		assert_int_equal(set(&n, OPT_SHARED_MEMORY_PERMITTED, &no, sizeof(no)), 0);
		assert_int_equal(set(&n, OPT_CUDA_API_PERMITTED, &no, sizeof(no)), -FI_EOPNOTSUPP);
		/* It is as it was. */
		assert_int_equal(fi_getopt(&n.ep->fid, FI_OPT_ENDPOINT, OPT_CUDA_API_PERMITTED, &may, &len), 0);
		assert_true(may);
		node_close(&n);
		assert_int_equal(fi_close(&cq->fid), 0);
		world_close(&w);
	}
	unsetenv("FI_UCCL_NIC");
}

int main(void)
{
	setenv("FI_UCCL_FAULT", "drop=0.01,seed=3", 1);
	return tests_run(NULL, NULL);
}
