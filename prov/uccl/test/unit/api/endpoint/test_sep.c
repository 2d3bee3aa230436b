/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Scalable endpoints over the real engine, on loopback. */
#include "../world.h"

#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include <rdma/fi_rma.h>

#include "api/lib/notice.h"
#include "flow/wire/addr.h"
#include "../../tests.h"

#define CTX 3
#define BITS 2

struct side {
	struct fid_ep *sep, *tx[CTX], *rx[CTX];
	struct fid_cq *txcq[CTX], *rxcq[CTX];
	struct fid_av *av;
	uint8_t name[FI_UCCL_ADDR_LEN];
	fi_addr_t peer;
};

struct pair {
	struct world w;
	struct side a, b;
};

static void side_open(struct side *s, struct world *w)
{
	struct fi_cq_attr cq_attr = { .format = FI_CQ_FORMAT_TAGGED };
	struct fi_av_attr av_attr = { .type = FI_AV_TABLE, .rx_ctx_bits = BITS };
	size_t len = sizeof(s->name);

	assert_int_equal(fi_scalable_ep(w->domain, w->info, &s->sep, NULL), 0);
	assert_int_equal(fi_av_open(w->domain, &av_attr, &s->av, NULL), 0);
	assert_int_equal(fi_enable(s->sep), -FI_ENOAV);
	assert_int_equal(fi_scalable_ep_bind(s->sep, &s->av->fid, 0), 0);
	for (int i = 0; i < CTX; i++) {
		assert_int_equal(fi_tx_context(s->sep, i, NULL, &s->tx[i], NULL), 0);
		assert_int_equal(fi_rx_context(s->sep, i, NULL, &s->rx[i], NULL), 0);
		assert_int_equal(fi_cq_open(w->domain, &cq_attr, &s->txcq[i], NULL), 0);
		assert_int_equal(fi_cq_open(w->domain, &cq_attr, &s->rxcq[i], NULL), 0);
		assert_int_equal(fi_enable(s->tx[i]), -FI_ENOCQ);
		assert_int_equal(fi_ep_bind(s->tx[i], &s->txcq[i]->fid, FI_TRANSMIT), 0);
		assert_int_equal(fi_ep_bind(s->rx[i], &s->rxcq[i]->fid, FI_RECV), 0);
		assert_int_equal(fi_enable(s->tx[i]), 0);
		assert_int_equal(fi_enable(s->rx[i]), 0);
	}
	assert_int_equal(fi_enable(s->sep), 0);
	assert_int_equal(fi_getname(&s->sep->fid, s->name, &len), 0);
}

static void side_close(struct side *s)
{
	assert_int_equal(fi_close(&s->sep->fid), -FI_EBUSY);
	for (int i = 0; i < CTX; i++) {
		if (s->rx[i])
			assert_int_equal(fi_close(&s->rx[i]->fid), 0);
		if (s->tx[i])
			assert_int_equal(fi_close(&s->tx[i]->fid), 0);
		world_closes(&s->rxcq[i]->fid, &s->txcq[i]->fid);
	}
	world_closes(&s->av->fid, &s->sep->fid);
}

static void pair_open(struct pair *p)
{
	struct fi_info *h = world_hints();

	h->caps = FI_MSG | FI_RMA | FI_NAMED_RX_CTX | FI_SOURCE;
	h->ep_attr->tx_ctx_cnt = CTX;
	h->ep_attr->rx_ctx_cnt = CTX;
	h->domain_attr->max_ep_rx_ctx = CTX;
	world_open_with(&p->w, h);
	assert_int_equal(p->w.info->ep_attr->rx_ctx_cnt, CTX);
	side_open(&p->a, &p->w);
	side_open(&p->b, &p->w);
	/* at b another handle than at a, so that a mix-up shows */
	assert_int_equal(fi_av_insert(p->a.av, p->b.name, 1, &p->a.peer, 0, NULL), 1);
	assert_int_equal(fi_av_insert(p->b.av, p->b.name, 1, &p->b.peer, 0, NULL), 1);
	assert_int_equal(fi_av_insert(p->b.av, p->a.name, 1, &p->b.peer, 0, NULL), 1);
}

static void pair_close(struct pair *p)
{
	side_close(&p->a);
	side_close(&p->b);
	world_close(&p->w);
}

WORLD_FIXTURE(pair)

static void drive(struct pair *p)
{
	for (int i = 0; i < CTX; i++) {
		(void)fi_cq_read(p->a.txcq[i], NULL, 0);
		(void)fi_cq_read(p->a.rxcq[i], NULL, 0);
		(void)fi_cq_read(p->b.txcq[i], NULL, 0);
		(void)fi_cq_read(p->b.rxcq[i], NULL, 0);
	}
}

static void expect(struct pair *p, struct fid_cq *cq, void *context, fi_addr_t from)
{
	uint64_t end = uccl_clock() + PATIENCE_NS;
	struct fi_cq_tagged_entry e;
	fi_addr_t src;
	ssize_t rc;

	while ((rc = fi_cq_readfrom(cq, &e, 1, &src)) == -FI_EAGAIN && uccl_clock() < end)
		drive(p);
	assert_int_equal(rc, 1);
	assert_ptr_equal(e.op_context, context);
	assert_int_equal(src, from);
}

/* From one context to another, and to nobody else; the source is the endpoint, not its context. */
static void send_one(struct pair *p, int from, int to, size_t len)
{
	uint8_t *out = malloc(len), *in = calloc(1, len);

	memset(out, 16 * from + to, len);
	assert_int_equal(fi_recv(p->b.rx[to], in, len, NULL, FI_ADDR_UNSPEC, in), 0);
	assert_int_equal(fi_send(p->a.tx[from], out, len, NULL, fi_rx_addr(p->a.peer, to, BITS), out), 0);
	expect(p, p->b.rxcq[to], in, p->b.peer);
	expect(p, p->a.txcq[from], out, FI_ADDR_NOTAVAIL);
	assert_memory_equal(in, out, len);
	free(out);
	free(in);
}

WORLD_TEST(context__all_pairs, pair, p)
{
	for (int from = 0; from < CTX; from++)
		for (int to = 0; to < CTX; to++)
			send_one(p, from, to, 100000 * to + 1);
	/* each has its direction */
	assert_int_equal(fi_send(p->a.rx[0], p->a.name, 1, NULL, p->a.peer, NULL), -FI_EOPBADSTATE);
	assert_int_equal(fi_recv(p->a.tx[0], p->a.name, 1, NULL, p->a.peer, NULL), -FI_EOPBADSTATE);
	assert_int_equal(fi_send(p->a.sep, p->a.name, 1, NULL, p->a.peer, NULL), -FI_EOPBADSTATE);
}

WORLD_TEST(context__write, pair, p)
{
	uint8_t out[64], mem[64] = { 0 };
	struct fid_mr *mr;

	memset(out, 7, sizeof(out));
	assert_int_equal(fi_mr_reg(p->w.domain, mem, sizeof(mem), FI_REMOTE_WRITE, 0, 5, 0, &mr, NULL), 0);
	assert_int_equal(fi_mr_bind(mr, &p->b.rx[2]->fid, 0), 0);
	assert_int_equal(fi_write(p->a.tx[1], out, 64, NULL, fi_rx_addr(p->a.peer, 2, BITS), 0, 5, out), 0);
	expect(p, p->a.txcq[1], out, FI_ADDR_NOTAVAIL);
	assert_memory_equal(mem, out, 64);
	assert_int_equal(fi_close(&mr->fid), 0);
}

/* Contexts end one by one. */
WORLD_TEST(context__closed_alone, pair, p)
{
	struct fid_ep *again;

	send_one(p, 1, 1, 10);
	world_closes(&p->b.tx[1]->fid, &p->b.rx[0]->fid);
	assert_int_equal(fi_tx_context(p->b.sep, 1, NULL, &again, NULL), -FI_EBUSY);
	p->b.tx[1] = p->b.rx[0] = NULL;
	send_one(p, 1, 1, 10);
	send_one(p, 0, 2, 10);
}

/* The row of ports lies in the range, and where there is none an error says so. */
TEST(context__ports_in_range)
{
	struct uccl_addr a, b;
	struct pair p;

	setenv("FI_UCCL_PORTS", "31000-31149", 1);
	pair_open(&p);
	unsetenv("FI_UCCL_PORTS");
	assert_int_equal(uccl_addr_decode(&a, p.a.name), 0);
	assert_int_equal(uccl_addr_decode(&b, p.b.name), 0);
	assert_in_range(a.nic.port, 31000, 31149 - (2 * CTX - 1));
	assert_in_range(b.nic.port, 31000, 31149 - (2 * CTX - 1));
	for (int i = 0; i < CTX; i++)
		send_one(&p, i, CTX - 1 - i, 3000);
	pair_close(&p);
}

/*
 * Ports of a row that others have, for data or for liveness, are no fault: another row is taken, and people read
 * nothing. Of the first ports of the range another program has every second one.
 */
TEST(context__ports_taken)
{
	struct sockaddr_in at = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	unsigned int warnings = uccl_notice_warnings();
	int fd[12];

	for (int i = 0; i < 12; i++) {
		fd[i] = socket(AF_INET, (i & 2 ? SOCK_STREAM : SOCK_DGRAM) | SOCK_CLOEXEC, 0);
		at.sin_port = htons((uint16_t)(31301 + 2 * i));
		assert_int_equal(bind(fd[i], (struct sockaddr *)&at, sizeof(at)), 0);
		if (i & 2)
			assert_int_equal(listen(fd[i], 1), 0);
	}
	setenv("FI_UCCL_PORTS", "31300-31449", 1);
	for (int i = 0; i < 10; i++) {
		struct pair p;

		pair_open(&p);
		pair_close(&p);
	}
	unsetenv("FI_UCCL_PORTS");
	assert_int_equal(uccl_notice_warnings(), warnings);
	for (int i = 0; i < 12; i++)
		close(fd[i]);
}

/* The first contexts find ports, the last do not: 2 * CTX in a row are wanted. */
TEST(context__range_too_short)
{
	struct fi_info *h = world_hints();
	struct fi_cq_attr cq_attr = { .format = FI_CQ_FORMAT_TAGGED };
	struct fi_av_attr av_attr = { .type = FI_AV_TABLE, .rx_ctx_bits = BITS };
	struct fid_ep *sep, *tx[CTX], *rx[CTX];
	struct fid_cq *cq;
	struct fid_av *av;
	struct world w;

	h->caps = FI_MSG | FI_NAMED_RX_CTX;
	h->ep_attr->tx_ctx_cnt = CTX;
	h->ep_attr->rx_ctx_cnt = CTX;
	h->domain_attr->max_ep_rx_ctx = CTX;
	setenv("FI_UCCL_PORTS", "31200-31204", 1);
	world_open_with(&w, h);
	unsetenv("FI_UCCL_PORTS");
	assert_int_equal(fi_scalable_ep(w.domain, w.info, &sep, NULL), 0);
	assert_int_equal(fi_av_open(w.domain, &av_attr, &av, NULL), 0);
	assert_int_equal(fi_cq_open(w.domain, &cq_attr, &cq, NULL), 0);
	assert_int_equal(fi_scalable_ep_bind(sep, &av->fid, 0), 0);
	for (int i = 0; i < CTX; i++) {
		assert_int_equal(fi_tx_context(sep, i, NULL, &tx[i], NULL), 0);
		assert_int_equal(fi_rx_context(sep, i, NULL, &rx[i], NULL), 0);
		assert_int_equal(fi_ep_bind(tx[i], &cq->fid, FI_TRANSMIT), 0);
		assert_int_equal(fi_ep_bind(rx[i], &cq->fid, FI_RECV), 0);
	}
	assert_int_equal(fi_enable(tx[0]), -FI_EADDRINUSE);
	for (int i = 0; i < CTX; i++) {
		world_closes(&tx[i]->fid, &rx[i]->fid);
	}
	world_closes(&cq->fid, &av->fid, &sep->fid);
	world_close(&w);
}

TEST(sep_open__limits)
{
	struct fi_info *h = world_hints();
	struct fid_ep *sep, *ctx;
	struct world w;

	h->caps = FI_TAGGED | FI_NAMED_RX_CTX;
	world_open_with(&w, h);
	assert_int_equal(w.info->domain_attr->max_ep_tx_ctx, 16);
	/* With directed receives, one: a message comes from any of a peer's ports, and they wait for one of them. */
	w.info->caps |= FI_DIRECTED_RECV;
	w.info->ep_attr->tx_ctx_cnt = 2;
	assert_int_equal(fi_scalable_ep(w.domain, w.info, &sep, NULL), -FI_EINVAL);
	w.info->caps &= ~FI_DIRECTED_RECV;
	w.info->ep_attr->tx_ctx_cnt = 17;
	assert_int_equal(fi_scalable_ep(w.domain, w.info, &sep, NULL), -FI_EINVAL);
	w.info->ep_attr->tx_ctx_cnt = 2;
	assert_int_equal(fi_scalable_ep(w.domain, w.info, &sep, NULL), 0);
	assert_int_equal(fi_tx_context(sep, 2, NULL, &ctx, NULL), -FI_EINVAL);
	assert_int_equal(fi_rx_context(sep, 1, NULL, &ctx, NULL), -FI_EINVAL);
	assert_int_equal(fi_tx_context(sep, 1, NULL, &ctx, NULL), 0);
	world_closes(&ctx->fid, &sep->fid);
	world_close(&w);
}

TESTS_MAIN
