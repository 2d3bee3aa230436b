/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Shared receive and transmit contexts over the real engine, on loopback. */
#include "../world.h"

#include <pthread.h>
#include <unistd.h>

#include "api/transfer/srx.h"
#include "../../tests.h"

#define NODES 3

/* Endpoints of one domain that share a receive context, and one that sends to them. */
struct group {
	struct world w;
	struct fid_ep *srx;
	struct fid_stx *stx;
	struct node n[NODES], from;
	fi_addr_t to[NODES], back[NODES];
};

static void member_open(struct group *g, struct node *n)
{
	struct fi_cq_attr cq_attr = { .format = FI_CQ_FORMAT_TAGGED, .wait_obj = FI_WAIT_FD };
	struct fi_av_attr av_attr = { .type = FI_AV_TABLE };
	size_t len = sizeof(n->name);

	assert_int_equal(fi_endpoint(g->w.domain, g->w.info, &n->ep, NULL), 0);
	assert_int_equal(fi_cq_open(g->w.domain, &cq_attr, &n->cq, NULL), 0);
	assert_int_equal(fi_av_open(g->w.domain, &av_attr, &n->av, NULL), 0);
	assert_int_equal(fi_ep_bind(n->ep, &n->av->fid, 0), 0);
	assert_int_equal(fi_ep_bind(n->ep, &n->cq->fid, FI_TRANSMIT | FI_RECV), 0);
	assert_int_equal(fi_enable(n->ep), -FI_EOPBADSTATE);
	assert_int_equal(fi_ep_bind(n->ep, &g->srx->fid, 0), 0);
	assert_int_equal(fi_ep_bind(n->ep, &g->stx->fid, 0), 0);
	assert_int_equal(fi_enable(n->ep), 0);
	assert_int_equal(fi_getname(&n->ep->fid, n->name, &len), 0);
}

static void group_open(struct group *g)
{
	struct fi_info *h = world_hints();
	struct fi_rx_attr rx = { .size = 64 };

	h->caps = FI_MSG | FI_TAGGED | FI_DIRECTED_RECV | FI_SOURCE;
	h->ep_attr->tx_ctx_cnt = FI_SHARED_CONTEXT;
	h->ep_attr->rx_ctx_cnt = FI_SHARED_CONTEXT;
	world_open_with(&g->w, h);
	assert_int_equal(g->w.info->ep_attr->rx_ctx_cnt, FI_SHARED_CONTEXT);
	assert_int_equal(fi_srx_context(g->w.domain, &rx, &g->srx, NULL), 0);
	assert_int_equal(fi_stx_context(g->w.domain, NULL, &g->stx, NULL), 0);
	for (int i = 0; i < NODES; i++)
		member_open(g, &g->n[i]);
	g->w.info->ep_attr->rx_ctx_cnt = 1;
	node_open(&g->from, &g->w);
	for (int i = 0; i < NODES; i++) {
		g->to[i] = node_insert(&g->from, &g->n[i]);
		g->back[i] = node_insert(&g->n[i], &g->from);
	}
}

static void group_close(struct group *g)
{
	assert_int_equal(fi_close(&g->srx->fid), -FI_EBUSY);
	assert_int_equal(fi_close(&g->stx->fid), 0);
	for (int i = 0; i < NODES; i++)
		node_close(&g->n[i]);
	node_close(&g->from);
	assert_int_equal(fi_close(&g->srx->fid), 0);
	world_close(&g->w);
}

WORLD_FIXTURE(group)

/* Send `len` bytes of `with` to node i, and wait for the completion. */
static void tell(struct group *g, int i, uint64_t tag, uint8_t with, size_t len)
{
	uint8_t *buf = malloc(len + 1);

	memset(buf, with, len + 1);
	if (tag)
		world_post(fi_tsend(g->from.ep, buf, len, NULL, g->to[i], tag, buf), &g->from, &g->n[i]);
	else
		world_post(fi_send(g->from.ep, buf, len, NULL, g->to[i], buf), &g->from, &g->n[i]);
	node_expect(&g->from, &g->n[i], buf, FI_SEND | (tag ? FI_TAGGED : FI_MSG));
	free(buf);
}

static void got(struct group *g, int i, void *context, uint64_t flags, size_t len, const uint8_t *buf, uint8_t with)
{
	struct fi_cq_tagged_entry e;
	fi_addr_t src;

	assert_int_equal(node_wait(&g->n[i], &g->from, &e, &src), 1);
	assert_ptr_equal(e.op_context, context);
	assert_int_equal(e.flags, flags);
	assert_int_equal(e.len, len);
	assert_int_equal(src, g->back[i]);
	for (size_t k = 0; k < len; k++)
		assert_int_equal(buf[k], with);
}

WORLD_TEST(srx_recv__in_the_order_of_messages, group, g)
{
	uint8_t buf[4][64];

	for (int i = 0; i < 4; i++)
		assert_int_equal(fi_recv(g->srx, buf[i], 64, NULL, FI_ADDR_UNSPEC, &buf[i]), 0);
	for (int i = 0; i < 4; i++) {
		tell(g, i % NODES, 0, 0x30 + i, 10 + i);
		got(g, i % NODES, &buf[i], FI_RECV | FI_MSG, 10 + i, buf[i], 0x30 + i);
	}
	assert_int_equal(fi_recv(g->n[0].ep, buf, 1, NULL, FI_ADDR_UNSPEC, NULL), -FI_EOPBADSTATE);
	assert_int_equal(fi_send(g->srx, buf, 1, NULL, 0, NULL), -FI_EOPBADSTATE);
}

/* Messages that come first, and one that is fetched only when its receive is known. */
TEST(srx_recv__unexpected)
{
	size_t large = 1 << 20;
	uint8_t small[8], *buf = malloc(large), *big = malloc(large);
	struct group g;

	group_open(&g);
	tell(&g, 2, 7, 0x77, 8);
	memset(big, 0x5a, large);
	world_post(fi_tsend(g.from.ep, big, large, NULL, g.to[1], 9, big), &g.from, &g.n[1]);
	for (int i = 0; i < 50; i++) {
		(void)fi_cq_read(g.n[1].cq, NULL, 0);
		(void)fi_cq_read(g.n[2].cq, NULL, 0);
	}
	/* the wrong tag, one that no message has, the right ones */
	assert_int_equal(fi_trecv(g.srx, small, 8, NULL, FI_ADDR_UNSPEC, 8, 0, &g), 0);
	assert_int_equal(fi_trecv(g.srx, buf, large, NULL, FI_ADDR_UNSPEC, 9, 0, buf), 0);
	assert_int_equal(fi_trecv(g.srx, small, 8, NULL, FI_ADDR_UNSPEC, 6, 1, small), 0);
	got(&g, 2, small, FI_RECV | FI_TAGGED, 8, small, 0x77);
	got(&g, 1, buf, FI_RECV | FI_TAGGED, large, buf, 0x5a);
	node_expect(&g.from, &g.n[1], big, FI_SEND | FI_TAGGED);
	assert_int_equal(fi_cancel(&g.srx->fid, &g), 0);
	assert_int_equal(fi_cancel(&g.srx->fid, &g), -FI_ENOENT);
	group_close(&g);
	free(buf);
	free(big);
}

WORLD_TEST(srx_recv__directed, group, g)
{
	uint8_t a[8], b[8];

	/* handle 5 is nobody's: it takes nothing and stops nothing */
	assert_int_equal(fi_recv(g->srx, a, 8, NULL, 5, a), 0);
	assert_int_equal(fi_recv(g->srx, b, 8, NULL, g->back[0], b), 0);
	tell(g, 0, 0, 1, 8);
	got(g, 0, b, FI_RECV | FI_MSG, 8, b, 1);
}

WORLD_TEST(srx_recv__full, group, g)
{
	uint8_t buf[64];

	assert_int_equal(g->srx->ops->rx_size_left(g->srx), 64);
	for (int i = 0; i < 64; i++)
		assert_int_equal(fi_recv(g->srx, &buf[i], 1, NULL, FI_ADDR_UNSPEC, NULL), 0);
	assert_int_equal(fi_recv(g->srx, buf, 1, NULL, FI_ADDR_UNSPEC, NULL), -FI_EAGAIN);
	assert_int_equal(g->srx->ops->rx_size_left(g->srx), 0);
	tell(g, 1, 0, 1, 1);
	got(g, 1, NULL, FI_RECV | FI_MSG, 1, buf, 1);
	assert_int_equal(fi_recv(g->srx, buf, 1, NULL, FI_ADDR_UNSPEC, NULL), 0);
}

/* One buffer for messages to all endpoints; the last one that fits gives it back. */
WORLD_TEST(srx_recv__multi, group, g)
{
	uint8_t buf[100], next[100];
	struct iovec iov = { .iov_base = buf, .iov_len = sizeof(buf) };
	struct fi_msg msg = { .msg_iov = &iov, .iov_count = 1, .addr = FI_ADDR_UNSPEC, .context = buf };
	struct fi_cq_err_entry err = { 0 };
	size_t min = 30, len = sizeof(min), was = 0;

	assert_int_equal(fi_setopt(&g->srx->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &min, sizeof(min)), 0);
	assert_int_equal(fi_getopt(&g->srx->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &was, &len), 0);
	assert_int_equal(was, 30);
	assert_int_equal(fi_recvmsg(g->srx, &msg, FI_MULTI_RECV), 0);
	iov.iov_base = msg.context = next;
	assert_int_equal(fi_recvmsg(g->srx, &msg, FI_MULTI_RECV), 0);
	for (int i = 0; i < 3; i++) {
		tell(g, i, 0, 0x40 + i, 25);
		got(g, i, buf, FI_RECV | FI_MSG | (i == 2 ? FI_MULTI_RECV : 0), 25, buf + 25 * i, 0x40 + i);
	}
	tell(g, 0, 0, 0x50, 60);
	got(g, 0, next, FI_RECV | FI_MSG, 60, next, 0x50);
	assert_int_equal(fi_cancel(&g->srx->fid, next), 0);
	assert_int_equal(fi_cq_readerr(g->n[0].cq, &err, 0), 1);
	assert_int_equal(err.err, FI_ECANCELED);
	assert_int_equal(err.flags, FI_RECV | FI_MSG | FI_MULTI_RECV);
	assert_int_equal(fi_cancel(&g->srx->fid, next), -FI_ENOENT);
}

WORLD_TEST(srx_peek__claim, group, g)
{
	uint8_t buf[8];
	struct iovec iov = { .iov_base = buf, .iov_len = sizeof(buf) };
	struct fi_msg_tagged msg = {
		.msg_iov = &iov, .iov_count = 1, .addr = FI_ADDR_UNSPEC, .tag = 3, .context = buf,
	};
	struct fi_cq_err_entry err = { 0 };
	struct fi_cq_tagged_entry e;

	assert_int_equal(fi_trecvmsg(g->srx, &msg, FI_PEEK), 0);
	assert_int_equal(fi_cq_readerr(g->n[0].cq, &err, 0), 1);
	assert_int_equal(err.err, FI_ENOMSG);
	assert_ptr_equal(err.op_context, buf);
	tell(g, 2, 3, 0x33, 8);
	/* until it is there */
	do {
		assert_int_equal(fi_trecvmsg(g->srx, &msg, FI_PEEK | FI_CLAIM), 0);
		(void)fi_cq_read(g->from.cq, NULL, 0);
	} while (fi_cq_readerr(g->n[0].cq, &err, 0) == 1);
	assert_int_equal(node_wait(&g->n[2], NULL, &e, NULL), 1);
	assert_int_equal(e.len, 8);
	/* what is claimed goes to nobody else */
	assert_int_equal(fi_trecv(g->srx, buf, 8, NULL, FI_ADDR_UNSPEC, 3, 0, g), 0);
	assert_int_equal(fi_trecvmsg(g->srx, &msg, FI_CLAIM), 0);
	got(g, 2, buf, FI_RECV | FI_TAGGED, 8, buf, 0x33);
}

TEST(srx_open__needs)
{
	struct fi_rx_attr rx = { .size = 1 << 20 };
	struct fid_ep *srx;
	struct world w, other;
	struct fid_ep *ep;

	world_open(&w);
	world_open(&other);
	assert_int_equal(fi_srx_context(w.domain, &rx, &srx, NULL), -FI_EINVAL);
	assert_int_equal(fi_srx_context(w.domain, NULL, &srx, NULL), 0);
	assert_int_equal(fi_enable(srx), 0);
	assert_int_equal(fi_endpoint(other.domain, other.info, &ep, NULL), 0);
	assert_int_equal(fi_ep_bind(ep, &srx->fid, 0), -FI_EINVAL);
	assert_int_equal(fi_close(&ep->fid), 0);
	/* Remote data would look for a receive of its own. */
	w.info->mode = FI_RX_CQ_DATA;
	assert_int_equal(fi_endpoint(w.domain, w.info, &ep, NULL), 0);
	assert_int_equal(fi_ep_bind(ep, &srx->fid, 0), -FI_EOPNOTSUPP);
	assert_int_equal(fi_close(&ep->fid), 0);
	assert_int_equal(fi_close(&w.domain->fid), -FI_EBUSY);
	assert_int_equal(fi_close(&srx->fid), 0);
	world_close(&w);
	world_close(&other);
}

/* What comes for others of the group waits for their looks, so who sends leaves it to them. */
TEST(send__leaves_looks)
{
	struct group g;
	char *buf;

	world_rescue_off();
	group_open(&g);
	world_rescue_on();
	assert_true(world_leaves_looks(g.n[0].ep, g.back[0], &buf));
	group_close(&g);
	free(buf);
}

struct poster {
	struct fid_ep *srx;
	_Atomic bool done;
};

static void *post_one(void *arg)
{
	struct poster *p = arg;
	static char in[8];

	assert_int_equal(fi_recv(p->srx, in, sizeof(in), NULL, FI_ADDR_UNSPEC, in), 0);
	p->done = true;
	return NULL;
}

/* While no message waits, a receive is posted without a search for endpoints: it needs no lock of their list. */
WORLD_TEST(recv__searches_no_endpoints, group, g)
{
	struct uccl_srx *srx = uccl_srx_of(&g->srx->fid);
	struct poster p = { .srx = g->srx };
	uint64_t end = uccl_clock() + PATIENCE_NS;
	pthread_t thread;
	bool done;

	uccl_lock_take(&srx->drivers.lock);
	assert_int_equal(pthread_create(&thread, NULL, post_one, &p), 0);
	while (!p.done && uccl_clock() < end)
		usleep(1000);
	done = p.done;
	uccl_lock_give(&srx->drivers.lock);
	pthread_join(thread, NULL);
	assert_true(done);
}

TESTS_MAIN
