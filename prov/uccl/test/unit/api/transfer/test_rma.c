/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* RMA over the real engine and the udp back end, on loopback. */
#include "../world.h"

#include "api/event/cq.h"
#include "../../tests.h"

#include <pthread.h>
#include <rdma/fi_rma.h>
#include <sys/mman.h>
#include <unistd.h>

#define SIZE (1u << 20)

static uint8_t mem[SIZE], src[SIZE], dst[SIZE];

struct duo {
	struct world w;
	struct node a, b;
	fi_addr_t to_b;
	struct fid_mr *mr;
	uint64_t base, key;
};

/* a reaches `mem` of b. */
static void duo_open(struct duo *d, int mr_mode, uint64_t access)
{
	struct fi_info *h = world_hints();

	h->domain_attr->mr_mode = mr_mode;
	world_open_with(&d->w, h);
	d->to_b = node_pair(&d->a, &d->b, &d->w);
	assert_int_equal(fi_mr_reg(d->w.domain, mem, SIZE, access, 0, 0xabc, 0, &d->mr, NULL), 0);
	d->key = fi_mr_key(d->mr);
	d->base = d->w.info->domain_attr->mr_mode & FI_MR_VIRT_ADDR ? (uintptr_t)mem : 0;
}

static void duo_close(struct duo *d)
{
	if (d->mr)
		assert_int_equal(fi_close(&d->mr->fid), 0);
	node_close(&d->a);
	node_close(&d->b);
	world_close(&d->w);
}

static void expect_error(struct duo *d, void *context, int err, const char *text)
{
	struct fi_cq_err_entry out = { 0 };
	struct fi_cq_tagged_entry e;

	assert_int_equal(node_wait(&d->a, &d->b, &e, NULL), -FI_EAVAIL);
	assert_int_equal(fi_cq_readerr(d->a.cq, &out, 0), 1);
	assert_ptr_equal(out.op_context, context);
	assert_int_equal(out.err, err);
	assert_non_null(strstr(fi_cq_strerror(d->a.cq, out.prov_errno, out.err_data, NULL, 0), text));
}

static void fill(uint8_t *p, uint8_t seed, size_t n)
{
	for (size_t i = 0; i < n; i++)
		p[i] = (uint8_t)(i * 7 + i / 251 + seed);
}

static const int modes[] = { 0, FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY, FI_MR_BASIC, FI_MR_SCALABLE };

/* FI_RX_CQ_DATA: remote data take a receive, and complete with its context. */
TEST(rma__data_takes_a_receive)
{
	struct fi_info *h = world_hints();
	struct fi_cq_tagged_entry e;
	struct duo d = { 0 };

	h->mode = FI_RX_CQ_DATA;
	setenv("FI_UCCL_TEST", "rx_cq_data=1", 1);
	world_open_with(&d.w, h);
	unsetenv("FI_UCCL_TEST");
	d.to_b = node_pair(&d.a, &d.b, &d.w);
	assert_int_equal(fi_mr_reg(d.w.domain, mem, SIZE, FI_REMOTE_WRITE, 0, 1, 0, &d.mr, NULL), 0);
	assert_int_equal(fi_writedata(d.a.ep, src, 8, NULL, 77, d.to_b, 0, 1, &d), 0);
	for (int i = 0; i < 20000; i++)
		assert_int_equal(fi_cq_read(i % 2 ? d.a.cq : d.b.cq, &e, 1), -FI_EAGAIN);
	assert_int_equal(fi_recv(d.b.ep, dst, 1, NULL, FI_ADDR_UNSPEC, &h), 0);
	assert_int_equal(node_wait(&d.b, &d.a, &e, NULL), 1);
	assert_ptr_equal(e.op_context, &h);
	assert_int_equal(e.flags, FI_RMA | FI_REMOTE_WRITE | FI_REMOTE_CQ_DATA);
	assert_int_equal(e.data, 77);
	assert_int_equal(e.len, 8);
	node_expect(&d.a, &d.b, &d, FI_RMA | FI_WRITE);
	duo_close(&d);
}

/* Every form, in every mode of addressing. */
TEST(rma__forms)
{
	struct iovec iov[2] = { { src, 100 }, { src + 100, 400000 } }, back[2] = { { dst, 7 }, { dst + 7, 400093 } };
	struct fi_cq_tagged_entry e;
	struct duo d;

	for (int i = 0; i < 4; i++) {
		struct fi_rma_iov rma[2];
		struct fi_msg_rma msg = { .rma_iov = rma, .rma_iov_count = 2, .data = 99, .context = &msg };
		fi_addr_t from;

		duo_open(&d, modes[i], FI_REMOTE_READ | FI_REMOTE_WRITE);
		if (i == 2)
			d.base = (uintptr_t)mem;
		assert_true(i == 1 || i == 2 ? d.key != 0xabc : d.key == 0xabc);
		memset(mem, 0, SIZE);
		fill(src, (uint8_t)i, SIZE);
		assert_int_equal(fi_write(d.a.ep, src, 500, NULL, d.to_b, d.base + 1000, d.key, &d), 0);
		node_expect(&d.a, &d.b, &d, FI_RMA | FI_WRITE);
		assert_memory_equal(mem + 1000, src, 500);
		assert_int_equal(fi_read(d.a.ep, dst, 500, NULL, d.to_b, d.base + 1000, d.key, dst), 0);
		node_expect(&d.a, &d.b, dst, FI_RMA | FI_READ);
		assert_memory_equal(dst, src, 500);
		assert_int_equal(fi_writev(d.a.ep, iov, NULL, 2, d.to_b, d.base + 5, d.key, iov), 0);
		node_expect(&d.a, &d.b, iov, FI_RMA | FI_WRITE);
		assert_memory_equal(mem + 5, src, 400100);
		assert_int_equal(fi_readv(d.a.ep, back, NULL, 2, d.to_b, d.base + 5, d.key, back), 0);
		node_expect(&d.a, &d.b, back, FI_RMA | FI_READ);
		assert_memory_equal(dst, src, 400100);
		/* two places */
		fill(src, (uint8_t)(i + 50), SIZE);
		rma[0] = (struct fi_rma_iov){ .addr = d.base + 900000, .len = 100, .key = d.key };
		rma[1] = (struct fi_rma_iov){ .addr = d.base, .len = 400000, .key = d.key };
		msg.msg_iov = iov;
		msg.iov_count = 2;
		msg.addr = d.to_b;
		assert_int_equal(fi_writemsg(d.a.ep, &msg, FI_REMOTE_CQ_DATA | FI_DELIVERY_COMPLETE), 0);
		node_expect(&d.a, &d.b, &msg, FI_RMA | FI_WRITE);
		assert_memory_equal(mem + 900000, src, 100);
		assert_memory_equal(mem, src + 100, 400000);
		assert_int_equal(node_wait(&d.b, &d.a, &e, &from), 1);
		assert_int_equal(e.flags, FI_RMA | FI_REMOTE_WRITE | FI_REMOTE_CQ_DATA);
		assert_int_equal(e.data, 99);
		assert_int_equal(e.len, 400100);
		memset(dst, 0, SIZE);
		back[1].iov_len = 400093;
		msg.msg_iov = back;
		assert_int_equal(fi_readmsg(d.a.ep, &msg, FI_FENCE), 0);
		node_expect(&d.a, &d.b, &msg, FI_RMA | FI_READ);
		assert_memory_equal(dst, src, 400100);
		/* nothing of these completes at the sender, but what follows does */
		assert_int_equal(fi_inject_write(d.a.ep, "hello", 5, d.to_b, d.base + 33, d.key), 0);
		assert_int_equal(fi_inject_writedata(d.a.ep, "world", 5, 0x1122334455667788, d.to_b, d.base + 38,
						     d.key),
				 0);
		assert_int_equal(fi_writedata(d.a.ep, src, 1, NULL, 77, d.to_b, d.base, d.key, &e), 0);
		node_expect(&d.a, &d.b, &e, FI_RMA | FI_WRITE);
		assert_memory_equal(mem + 33, "helloworld", 10);
		assert_int_equal(node_wait(&d.b, &d.a, &e, NULL), 1);
		assert_true(e.data == 0x1122334455667788);
		assert_int_equal(node_wait(&d.b, &d.a, &e, NULL), 1);
		assert_int_equal(e.data, 77);
		assert_int_equal(fi_write(d.a.ep, NULL, 0, NULL, d.to_b, 0, 0, &d), 0);
		node_expect(&d.a, &d.b, &d, FI_RMA | FI_WRITE);
		duo_close(&d);
	}
}

TEST(rma__errors)
{
	struct fi_rma_iov rma[5] = { { .len = 10 } };
	struct iovec iov = { .iov_base = src, .iov_len = 10 };
	struct fi_msg_rma msg = { .msg_iov = &iov, .iov_count = 1, .rma_iov = rma, .rma_iov_count = 5 };
	struct duo d;

	duo_open(&d, 0, FI_REMOTE_READ);
	memset(mem, 0x5a, SIZE);
	assert_int_equal(fi_write(d.a.ep, src, 8, NULL, d.to_b, 0, d.key, &d), 0);
	expect_error(&d, &d, FI_EACCES, "does not permit");
	assert_int_equal(fi_inject_write(d.a.ep, src, 8, d.to_b, 0, d.key), 0);
	expect_error(&d, NULL, FI_EACCES, "does not permit");
	assert_int_equal(fi_read(d.a.ep, dst, 8, NULL, d.to_b, 0, d.key + 1, dst), 0);
	expect_error(&d, dst, FI_EKEYREJECTED, "no region with this key");
	assert_int_equal(fi_read(d.a.ep, dst, SIZE, NULL, d.to_b, 1, d.key, dst), 0);
	expect_error(&d, dst, FI_EACCES, "outside");
	assert_int_equal(fi_read(d.a.ep, dst, 8, NULL, d.to_b, UINT64_MAX - 3, d.key, dst), 0);
	expect_error(&d, dst, FI_EACCES, "outside");
	assert_int_equal(fi_readmsg(d.a.ep, &msg, 0), -FI_EINVAL);
	msg.rma_iov_count = 1;
	rma[0].len = 11;
	assert_int_equal(fi_readmsg(d.a.ep, &msg, 0), -FI_EINVAL);
	assert_int_equal(fi_inject_write(d.a.ep, src, 4097, d.to_b, 0, d.key), -FI_EMSGSIZE);
	assert_int_equal(fi_read(d.a.ep, dst, 8, NULL, 77, 0, d.key, dst), -FI_EINVAL);
	/* closed, its key is nobody's */
	assert_int_equal(fi_close(&d.mr->fid), 0);
	d.mr = NULL;
	assert_int_equal(fi_read(d.a.ep, dst, 8, NULL, d.to_b, 0, d.key, dst), 0);
	expect_error(&d, dst, FI_EKEYREJECTED, "no region with this key");
	for (size_t i = 0; i < SIZE; i++)
		assert_int_equal(mem[i], 0x5a);
	duo_close(&d);
}

/* What nobody reads holds writes with remote data back, small, large and our own; the queue stays at its size. */
TEST(rma__full_queue)
{
	enum { N = 600, SIZE_CQ = 64, LARGE = 100000 };
	struct fi_cq_tagged_entry e;
	struct uccl_cq *cq;
	struct duo d;

	duo_open(&d, 0, FI_REMOTE_WRITE);
	cq = uccl_cq_of(&d.b.cq->fid);
	cq->limit = SIZE_CQ;
	for (int i = 0; i < N; i++) {
		size_t len = i % 50 ? 8 : LARGE;

		while (fi_writedata(d.a.ep, src, len, NULL, (uint64_t)i, d.to_b, 0, d.key, &d) == -FI_EAGAIN)
			fi_cq_read(d.b.cq, NULL, 0);
	}
	/* As many are done as there is room for. */
	for (int i = 0; i < SIZE_CQ; i++)
		node_expect(&d.a, &d.b, &d, FI_RMA | FI_WRITE);
	for (int i = 0; i < 1000; i++) {
		assert_int_equal(fi_cq_read(d.a.cq, &e, 1), -FI_EAGAIN);
		fi_cq_read(d.b.cq, NULL, 0);
	}
	assert_int_equal(cq->tail - cq->head, SIZE_CQ);
	for (int i = 0; i < N; i++) {
		assert_int_equal(node_wait(&d.b, &d.a, &e, NULL), 1);
		assert_int_equal(e.flags, FI_RMA | FI_REMOTE_WRITE | FI_REMOTE_CQ_DATA);
		assert_true(cq->tail - cq->head < SIZE_CQ);
	}
	for (int i = 0; i < N - SIZE_CQ; i++)
		node_expect(&d.a, &d.b, &d, FI_RMA | FI_WRITE);
	assert_int_equal(fi_cq_read(d.b.cq, &e, 1), -FI_EAGAIN);
	duo_close(&d);
}

/* Counters of the initiator, the target, and the region, which only a counter tells of. */
TEST(rma__counters)
{
	struct fi_cntr_attr attr = { .wait_obj = FI_WAIT_FD };
	struct fid_cntr *wr, *rd, *at_mr, *at_ep;
	struct fi_av_attr av_attr = { .type = FI_AV_TABLE };
	struct fid_ep *ep;
	struct fid_av *av;
	struct duo d;
	fi_addr_t to;

	duo_open(&d, 0, FI_REMOTE_READ | FI_REMOTE_WRITE);
	assert_int_equal(fi_cntr_open(d.w.domain, &attr, &wr, NULL), 0);
	assert_int_equal(fi_cntr_open(d.w.domain, &attr, &rd, NULL), 0);
	assert_int_equal(fi_cntr_open(d.w.domain, &attr, &at_mr, NULL), 0);
	assert_int_equal(fi_cntr_open(d.w.domain, &attr, &at_ep, NULL), 0);
	assert_int_equal(fi_mr_bind(d.mr, &at_mr->fid, FI_SEND), -FI_EINVAL);
	assert_int_equal(fi_mr_bind(d.mr, &at_mr->fid, FI_REMOTE_WRITE), 0);
	assert_int_equal(fi_close(&at_mr->fid), -FI_EBUSY);
	/* an endpoint for RMA alone, with counters alone */
	d.w.info->caps = FI_RMA | FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE;
	d.w.info->tx_attr->caps = d.w.info->rx_attr->caps = 0;
	assert_int_equal(fi_endpoint(d.w.domain, d.w.info, &ep, NULL), 0);
	assert_int_equal(fi_av_open(d.w.domain, &av_attr, &av, NULL), 0);
	assert_int_equal(fi_ep_bind(ep, &av->fid, 0), 0);
	assert_int_equal(fi_ep_bind(ep, &wr->fid, FI_WRITE), 0);
	assert_int_equal(fi_ep_bind(ep, &rd->fid, FI_READ), 0);
	assert_int_equal(fi_ep_bind(ep, &at_ep->fid, FI_REMOTE_READ | FI_REMOTE_WRITE), 0);
	assert_int_equal(fi_enable(ep), 0);
	assert_int_equal(fi_av_insert(av, d.b.name, 1, &to, 0, NULL), 1);
	for (int i = 0; i < 5; i++)
		assert_int_equal(fi_inject_write(ep, src, 100, to, 0, d.key), 0);
	assert_int_equal(fi_read(ep, dst, 200000, NULL, to, 0, d.key, NULL), 0);
	/* who waits for the region's counter drives the endpoints through which it moves */
	assert_int_equal(fi_cntr_wait(at_mr, 5, 20000), 0);
	while (fi_cntr_read(rd) < 1 || fi_cntr_read(wr) < 5)
		(void)fi_cq_read(d.b.cq, NULL, 0);
	assert_int_equal(fi_cntr_read(at_mr), 5);
	assert_int_equal(fi_cntr_read(at_ep), 0);
	assert_int_equal(fi_write(ep, src, 100, NULL, to, SIZE, d.key, NULL), 0);
	while (fi_cntr_readerr(wr) < 1)
		(void)fi_cq_read(d.b.cq, NULL, 0);
	assert_int_equal(fi_cntr_read(wr), 5);
	assert_int_equal(fi_cntr_read(at_mr), 5);
	assert_int_equal(fi_close(&d.mr->fid), 0);
	d.mr = NULL;
	world_closes(&ep->fid, &av->fid, &wr->fid, &rd->fid, &at_mr->fid, &at_ep->fid);
	duo_close(&d);
}

/* Regions of several pieces, with an offset of their own, and one that is all there is. */
TEST(rma__regions)
{
	struct iovec iov[2] = { { mem, 10 }, { mem + 1000, 10 } };
	struct fid_mr *two, *all;
	struct duo d;

	duo_open(&d, 0, FI_REMOTE_READ | FI_REMOTE_WRITE);
	assert_int_equal(fi_mr_regv(d.w.domain, iov, 2, FI_REMOTE_WRITE, 4096, 5, 0, &two, NULL), 0);
	assert_int_equal(fi_mr_reg(d.w.domain, NULL, SIZE_MAX, FI_REMOTE_WRITE, 0, 6, 0, &all, NULL), 0);
	memset(mem, 0, 2000);
	memcpy(src, "abcdefghijklmnopqrst", 20);
	assert_int_equal(fi_write(d.a.ep, src, 20, NULL, d.to_b, 4096, 5, &d), 0);
	node_expect(&d.a, &d.b, &d, FI_RMA | FI_WRITE);
	assert_memory_equal(mem, "abcdefghij\0", 11);
	assert_memory_equal(mem + 1000, "klmnopqrst\0", 11);
	assert_int_equal(fi_write(d.a.ep, src, 1, NULL, d.to_b, 4095, 5, &d), 0);
	expect_error(&d, &d, FI_EACCES, "outside");
	assert_int_equal(fi_write(d.a.ep, src, 1, NULL, d.to_b, 4116, 5, &d), 0);
	expect_error(&d, &d, FI_EACCES, "outside");
	assert_int_equal(fi_write(d.a.ep, src, 20, NULL, d.to_b, (uintptr_t)mem + 500, 6, &d), 0);
	node_expect(&d.a, &d.b, &d, FI_RMA | FI_WRITE);
	assert_memory_equal(mem + 500, src, 20);
	world_closes(&two->fid, &all->fid);
	duo_close(&d);
}

/* A region of all addresses: a peer that names pages which are not there, or are not for that, gets an error. */
TEST(rma__not_mapped)
{
	const size_t page = (size_t)sysconf(_SC_PAGESIZE);
	/* Far from where the kernel puts new mappings: the next one, of whatever thread, would fill the hole. */
	uint8_t *p = mmap((void *)0x200000000000, 4 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
			  0);
	struct fid_mr *all;
	struct duo d;

	assert_true(p != MAP_FAILED);
	assert_int_equal(mprotect(p + page, page, PROT_READ), 0);
	assert_int_equal(munmap(p + 2 * page, page), 0);
	duo_open(&d, 0, FI_REMOTE_READ | FI_REMOTE_WRITE);
	assert_int_equal(
		fi_mr_reg(d.w.domain, NULL, SIZE_MAX, FI_REMOTE_WRITE | FI_REMOTE_READ, 0, 6, 0, &all, NULL), 0);
	assert_int_equal(fi_write(d.a.ep, src, 20, NULL, d.to_b, (uintptr_t)p + 10, 6, &d), 0);
	node_expect(&d.a, &d.b, &d, FI_RMA | FI_WRITE);
	assert_int_equal(fi_read(d.a.ep, dst, 20, NULL, d.to_b, (uintptr_t)p + page - 10, 6, dst), 0);
	node_expect(&d.a, &d.b, dst, FI_RMA | FI_READ);
	/* read-only, not there, half there, far away */
	assert_int_equal(fi_write(d.a.ep, src, 20, NULL, d.to_b, (uintptr_t)p + page - 10, 6, &d), 0);
	expect_error(&d, &d, FI_EACCES, "outside");
	assert_int_equal(fi_read(d.a.ep, dst, 20, NULL, d.to_b, (uintptr_t)p + 2 * page, 6, dst), 0);
	expect_error(&d, dst, FI_EACCES, "outside");
	assert_int_equal(fi_write(d.a.ep, src, 2 * page, NULL, d.to_b, (uintptr_t)p + 2 * page + 1, 6, &d), 0);
	expect_error(&d, &d, FI_EACCES, "outside");
	assert_int_equal(fi_read(d.a.ep, dst, SIZE, NULL, d.to_b, 8, 6, dst), 0);
	expect_error(&d, dst, FI_EACCES, "outside");
	assert_int_equal(fi_write(d.a.ep, src, SIZE, NULL, d.to_b, 0x7fff00000000, 6, &d), 0);
	expect_error(&d, &d, FI_EACCES, "outside");
	assert_int_equal(fi_close(&all->fid), 0);
	duo_close(&d);
	munmap(p, 2 * page);
	munmap(p + 3 * page, page);
}

static void *reader(void *arg)
{
	struct duo *d = arg;
	struct fi_cq_tagged_entry e;

	for (int i = 0; i < 200; i++) {
		struct fi_cq_err_entry err = { 0 };

		while (fi_read(d->a.ep, dst, SIZE, NULL, d->to_b, 0, d->key, NULL) == -FI_EAGAIN)
			;
		switch (node_wait(&d->a, &d->b, &e, NULL)) {
		case 1:
			break;
		case -FI_EAVAIL:
			assert_int_equal(fi_cq_readerr(d->a.cq, &err, 0), 1);
			assert_int_equal(err.err, FI_EKEYREJECTED);
			break;
		default:
			fail();
		}
	}
	return NULL;
}

/* Memory is taken away again and again while another thread reads it: never touched when the region is closed. */
TEST(rma__close_while_read)
{
	pthread_t thread;
	struct duo d;

	duo_open(&d, 0, FI_REMOTE_READ);
	assert_int_equal(fi_close(&d.mr->fid), 0);
	d.mr = NULL;
	assert_int_equal(pthread_create(&thread, NULL, reader, &d), 0);
	for (int i = 0; i < 300; i++) {
		uint8_t *own = malloc(SIZE);
		struct fid_mr *mr;

		assert_non_null(own);
		memset(own, i, SIZE);
		assert_int_equal(fi_mr_reg(d.w.domain, own, SIZE, FI_REMOTE_READ, 0, d.key, 0, &mr, NULL), 0);
		for (int k = 0; k < i % 5; k++)
			(void)fi_cq_read(d.b.cq, NULL, 0);
		assert_int_equal(fi_close(&mr->fid), 0);
		free(own);
	}
	pthread_join(thread, NULL);
	duo_close(&d);
}

TESTS_MAIN
