/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Memory windows on a fake NIC, and what goes wrong with them. A queue pair of the test writes as a peer does. */
#include "nic/verbs/verbs_mw.h"

#include "../../tests.h"

#ifdef HAVE_VERBS

#include <errno.h>
#include <rdma/fi_errno.h>
#include <string.h>
#include <sys/mman.h>

#include "base/units.h"
#include "../fake_verbs.h"
#include "nic/verbs/mrcache.h"

#define BYTES 65536

static struct fake_verbs *fake;
static struct fake_dev *dev;
static const struct uccl_verbs *v;
static struct uccl_verbs_port port;
static struct ibv_context *ctx;
static struct ibv_pd *pd;
static struct ibv_cq *cq;
static struct ibv_qp *qp;
static struct ibv_mr *source;
static struct uccl_verbs_mws *m;
static uint64_t now;
static uint8_t *mem;

struct place {
	void *at;
	uint32_t key;
	uint64_t addr;
};

/* When a NIC that stalls does what it was asked to; 0: never. */
static uint64_t answer_at;

static uint64_t clock_read(void)
{
	now += UCCL_NS_PER_US;
	if (answer_at && now >= answer_at)
		fake_verbs_run(fake);
	return now;
}

static int begin(void **state)
{
	const uint8_t any[16] = {0};
	struct ibv_qp_init_attr init = {.qp_type = IBV_QPT_UC};

	fake = fake_verbs_new();
	dev = fake_verbs_add(fake, "rxe0", 1, NULL);
	fake_verbs_windows(dev);
	v = fake_verbs_lib();
	assert_int_equal(uccl_verbs_open(v, NULL, any, false, &port, &ctx), 0);
	pd = v->alloc_pd(ctx);
	cq = v->create_cq(ctx, 64, NULL, NULL, 0);
	init.send_cq = init.recv_cq = cq;
	init.cap = (struct ibv_qp_cap){.max_send_wr = 64, .max_send_sge = 1};
	qp = v->create_qp(pd, &init);
	assert_int_equal(uccl_verbs_loop(v, &port, qp, qp->qp_num, 7, 7), 0);
	/* A mapping of its own: nobody else gives parts of it back. */
	mem = mmap(NULL, 2 * BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_true(mem != MAP_FAILED);
	memset(mem, 0x11, BYTES);
	memset(mem + BYTES, 0x5a, BYTES);
	source = v->reg_mr(pd, mem, BYTES, 0);
	m = NULL;
	answer_at = 0;
	return 0;
}

static int end(void **state)
{
	if (m)
		uccl_verbs_mws_close(m);
	v->destroy_qp(qp);
	v->destroy_cq(cq);
	v->dereg_mr(source);
	v->dealloc_pd(pd);
	v->close_device(ctx);
	munmap(mem, 2 * BYTES);
	return fake_verbs_end(fake);
}

static int opened(void)
{
	return uccl_verbs_mws_open(v, ctx, pd, &port, clock_read, &m);
}

/* Where the host does not say when memory goes away there are none. */
static void open_or_skip(void)
{
	int rc = opened();

	if (rc == -FI_ENOSYS) {
		m = NULL;
		skip();
	}
	assert_int_equal(rc, 0);
}

static uint8_t *target(uint32_t off)
{
	return mem + BYTES + off;
}

static int get(uint32_t off, uint32_t len, struct place *p)
{
	return uccl_verbs_mw_get(m, target(off), len, &p->at, &p->key, &p->addr);
}

static struct place got(uint32_t off, uint32_t len)
{
	struct place p;

	assert_int_equal(get(off, len, &p), 0);
	assert_true(uccl_verbs_mw_is(m, p.at));
	return p;
}

/* A peer writes there; is it placed? What it overwrote is put back. */
static bool writes(const struct place *p, uint32_t off, uint32_t skip_bytes, uint32_t len)
{
	struct ibv_sge sge = {.addr = (uintptr_t)mem, .length = len, .lkey = source->lkey};
	struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE}, *bad;
	struct ibv_wc wc;
	bool there;

	wr.send_flags = IBV_SEND_SIGNALED;
	wr.wr.rdma.remote_addr = p->addr + skip_bytes;
	wr.wr.rdma.rkey = p->key;
	assert_int_equal(v->post_send(qp, &wr, &bad), 0);
	assert_int_equal(v->poll_cq(cq, 1, &wc), 1);
	there = *target(off + skip_bytes) == 0x11;
	memset(mem + BYTES, 0x5a, BYTES);
	return there;
}

static struct uccl_verbs_mws_stats st(void)
{
	return uccl_verbs_mws_stats(m);
}

static unsigned int registrations(void)
{
	return fake_verbs_calls(fake, "reg_mr_iova");
}

TEST_IN(mws_open__none, begin, end)
{
	port.max_mw = 0;
	assert_int_equal(opened(), -FI_ENOSYS);
	m = NULL;
}

TEST_IN(mws_open__errors, begin, end)
{
	static const char *const calls[] = {"create_cq", "create_qp", "modify_qp"};

	open_or_skip();
	uccl_verbs_mws_close(m);
	for (size_t i = 0; i < uccl_array_len(calls); i++) {
		int live = fake_verbs_live(fake);

		fake_verbs_fail(fake, calls[i], 1, EIO);
		assert_int_equal(opened(), -EIO);
		assert_int_equal(fake_verbs_live(fake), live);
	}
	m = NULL;
}

/* One registration, a window for each who may write, and not beyond. */
TEST_IN(mw_get__places, begin, end)
{
	struct place p[8];
	uint64_t addr = 0;

	open_or_skip();
	for (int round = 0; round < 3; round++) {
		for (uint32_t i = 0; i < 8; i++) {
			p[i] = got(i * 4096 + 5, 3000);
			assert_int_equal(p[i].addr & 4095, (uintptr_t)target(i * 4096 + 5) & 4095);
			assert_true(writes(&p[i], i * 4096 + 5, 0, 3000));
			assert_false(writes(&p[i], i * 4096 + 5, 0, 3001));
			assert_false(writes(&p[i], i * 4096 + 5, 3000, 1));
		}
		for (uint32_t i = 0; i < 8; i++) {
			uccl_verbs_mw_put(m, p[i].at, true);
			assert_false(writes(&p[i], i * 4096 + 5, 0, 3000));
		}
		assert_true(!round || p[7].addr == addr);
		addr = p[7].addr;
	}
	assert_true(addr != (uintptr_t)target(7 * 4096 + 5));
	assert_int_equal(registrations(), 8);
	assert_int_equal(uccl_verbs_mws_places(m).misses, 8);
	assert_int_equal(uccl_verbs_mws_places(m).hits, 16);
	assert_int_equal(fake->mws, 8);
	assert_int_equal(st().bound, 24);
	assert_int_equal(st().failed, 0);
	assert_false(uccl_verbs_mw_is(m, source));
	assert_false(uccl_verbs_mw_is(NULL, source));
}

/* Memory that went away is not the one that is at its address now. */
TEST_IN(mw_get__memory_gone, begin, end)
{
	struct place p, q;

	open_or_skip();
	p = got(0, BYTES);
	uccl_verbs_mw_put(m, p.at, true);
	assert_int_equal(madvise(target(0), BYTES, MADV_DONTNEED), 0);
	q = got(0, BYTES);
	assert_int_equal(registrations(), 2);
	assert_true(q.addr != p.addr);
	uccl_verbs_mw_put(m, q.at, true);
}

static enum fake_fate hold(void *arg, const struct fake_packet *p)
{
	return FAKE_HOLD;
}

/*
 * A write that is late finds no place: neither when its window is unbound, nor when the window has had so many other
 * keys that it has the old one again. E11, PROTOCOL R83 R241
 */
TEST_IN(mw_put__late_write, begin, end)
{
	struct place p;
	uint32_t key;

	open_or_skip();
	p = got(0, BYTES);
	key = p.key;
	fake->hook = hold;
	writes(&p, 0, 0, 3000);
	fake->hook = NULL;
	uccl_verbs_mw_put(m, p.at, false);
	/* Registered anew, under another number. */
	for (int i = 0; i < 127; i++) {
		p = got(0, BYTES);
		uccl_verbs_mw_put(m, p.at, true);
	}
	p = got(0, BYTES);
	assert_int_equal(p.key, key);
	assert_int_equal(registrations(), 2);
	assert_int_equal(fake->mrs, 2); /* with `source` */
	fake_verbs_release(fake, false);
	assert_int_equal(*target(0), 0x5a);
	assert_int_equal(fake->stats.bad_rkey, 1);
	assert_true(writes(&p, 0, 0, 3000));
	uccl_verbs_mw_put(m, p.at, true);
}

/* A NIC that says nothing of the end of a window: it is thrown away, and the next one has another queue pair. */
TEST_IN(mw_put__no_answer, begin, end)
{
	struct place p, q;
	uint64_t before;

	open_or_skip();
	p = got(0, 4096);
	q = got(4096, 4096);
	fake->stall = true;
	before = now;
	uccl_verbs_mw_put(m, p.at, true);
	assert_true(now - before >= UCCL_NS_PER_MS && now - before < UCCL_NS_PER_S);
	fake->stall = false;
	assert_false(writes(&p, 0, 0, 100));
	assert_int_equal(st().failed, 1);
	assert_int_equal(fake->mws, 1);
	/* What was bound stays so, */
	assert_true(writes(&q, 4096, 0, 100));
	/* and for a while there are no more. */
	assert_int_equal(get(0, 4096, &p), -FI_EAGAIN);
	now += UCCL_NS_PER_S;
	p = got(0, 4096);
	assert_true(writes(&p, 0, 0, 100));
	uccl_verbs_mw_put(m, p.at, true);
	uccl_verbs_mw_put(m, q.at, true);
	assert_false(writes(&q, 4096, 0, 100));
	assert_int_equal(fake->mws, 2);
	assert_int_equal(st().failed, 1);
}

/* Nobody waits until it is bound. If it never is, writes are refused, and its key is not counted on. */
TEST_IN(mw_get__never_bound, begin, end)
{
	struct place p, q;

	open_or_skip();
	q = got(8192, 4096);
	fake->stall = true;
	p = got(0, 4096);
	assert_true(fake_verbs_break(fake, qp->qp_num + 1));
	fake->stall = false;
	assert_false(writes(&p, 0, 0, 100));
	uccl_verbs_mw_put(m, p.at, true);
	assert_true(st().failed >= 1);
	assert_true(writes(&q, 8192, 0, 100));
	/* The queue pair is gone, so this one is thrown away, too. */
	uccl_verbs_mw_put(m, q.at, true);
	assert_false(writes(&q, 8192, 0, 100));
	assert_int_equal(fake->mws, 0);
	now += UCCL_NS_PER_S;
	p = got(0, 4096);
	assert_true(writes(&p, 0, 0, 100));
	uccl_verbs_mw_put(m, p.at, true);
}

/* More than the queue pair holds are bound before anybody looks; and those that it does not hold are not to be had. */
TEST_IN(mw_get__more_than_fit, begin, end)
{
	struct place p[200];
	int n = 0;

	open_or_skip();
	fake->stall = true;
	while (n < 200 && !get((uint32_t)n * 300, 300, &p[n]))
		n++;
	assert_int_equal(n, 64);
	assert_int_equal(st().failed, 1);
	fake->stall = false;
	fake_verbs_run(fake);
	now += UCCL_NS_PER_S;
	while (n < 200) {
		p[n] = got((uint32_t)n * 300, 300);
		n++;
	}
	for (uint32_t i = 0; i < 200; i++)
		assert_true(writes(&p[i], i * 300, 0, 300));
	for (uint32_t i = 0; i < 200; i++) {
		uccl_verbs_mw_put(m, p[i].at, i % 2);
		assert_false(writes(&p[i], i * 300, 0, 300));
	}
	assert_int_equal(fake->mws, 200);
}

/* A slow NIC, whose queue is full: what is to end waits for room, and then for its turn. */
TEST_IN(mw_put__slow, begin, end)
{
	struct place p[64];

	open_or_skip();
	fake->stall = true;
	for (uint32_t i = 0; i < 64; i++)
		p[i] = got(i * 300, 300);
	for (uint32_t i = 0; i < 64; i++) {
		answer_at = now + UCCL_NS_PER_MS;
		uccl_verbs_mw_put(m, p[i].at, true);
		assert_true(now < answer_at + UCCL_NS_PER_MS);
		answer_at = 0;
	}
	assert_int_equal(st().failed, 0);
	assert_int_equal(fake->mws, 64);
	/* One that is refused while its window is still to be bound. */
	p[0] = got(0, 300);
	fake_verbs_fail(fake, "bind_mw", 1, ENOMEM);
	uccl_verbs_mw_put(m, p[0].at, true);
	assert_int_equal(st().failed, 1);
	assert_int_equal(fake->mws, 63);
	fake->stall = false;
	assert_false(writes(&p[0], 0, 0, 300));
}

/* As many as the NIC has. */
TEST_IN(mw_get__no_more_windows, begin, end)
{
	struct place p[3];

	port.max_mw = 2;
	open_or_skip();
	p[0] = got(0, 100);
	p[1] = got(100, 100);
	assert_int_equal(get(200, 100, &p[2]), -FI_EAGAIN);
	uccl_verbs_mw_put(m, p[0].at, true);
	p[2] = got(200, 100);
	uccl_verbs_mw_put(m, p[1].at, true);
	uccl_verbs_mw_put(m, p[2].at, true);
}

/* What is refused is not asked for again at once, and leaves nothing behind. */
TEST_IN(mw_get__refused, begin, end)
{
	static const char *const calls[] = {"reg_mr_iova", "alloc_mw", "bind_mw"};
	struct place p;

	open_or_skip();
	for (size_t i = 0; i < uccl_array_len(calls); i++) {
		unsigned int before = fake_verbs_calls(fake, calls[i]);

		now += UCCL_NS_PER_S;
		fake_verbs_fail(fake, calls[i], 0, ENOMEM);
		assert_int_equal(get(0, 100, &p), -ENOMEM);
		assert_int_equal(get(0, 100, &p), -FI_EAGAIN);
		assert_int_equal(fake_verbs_calls(fake, calls[i]), before + 1);
		fake_verbs_fail(fake, calls[i], 0, 0);
		assert_int_equal(get(0, 100, &p), -FI_EAGAIN);
		assert_int_equal(st().failed, i + 1);
	}
	now += UCCL_NS_PER_S;
	p = got(0, 100);
	uccl_verbs_mw_put(m, p.at, true);
}

/* The end of a window is refused, for example since the NIC is gone: then it is thrown away. */
TEST_IN(mw_put__refused, begin, end)
{
	struct place p;

	open_or_skip();
	p = got(0, 100);
	fake_verbs_fail(fake, "bind_mw", 1, EIO);
	uccl_verbs_mw_put(m, p.at, true);
	assert_false(writes(&p, 0, 0, 100));
	assert_int_equal(fake->mws, 0);
	assert_int_equal(st().failed, 1);
	p = got(0, 100);
	assert_true(writes(&p, 0, 0, 100));
	uccl_verbs_mw_put(m, p.at, true);
}

/* Whoever closes while peers may write leaves no way in. */
TEST_IN(mws_close__bound, begin, end)
{
	struct place p;

	open_or_skip();
	p = got(0, 100);
	uccl_verbs_mws_close(m);
	m = NULL;
	assert_false(writes(&p, 0, 0, 100));
}

TESTS_MAIN

#else

TESTS_MAIN_SKIPPED

#endif
