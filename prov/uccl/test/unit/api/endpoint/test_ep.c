/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Endpoints over the real engine and the udp back end, on loopback. */
#include "../world.h"

#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <rdma/fi_atomic.h>
#include <rdma/fi_collective.h>
#include <rdma/fi_rma.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "api/endpoint/ep.h"
#include "api/endpoint/start.h"
#include "api/event/cq.h"
#include "api/object/domain.h"
#include "../../tests.h"

struct duo {
	struct world w;
	struct node a, b;
	fi_addr_t to_b, to_a;
};

static void duo_open_with(struct duo *d, struct fi_info *hints, uint64_t bind_flags)
{
	world_open_with(&d->w, hints);
	node_open_flags(&d->a, &d->w, FI_WAIT_FD, bind_flags);
	node_open_flags(&d->b, &d->w, FI_WAIT_FD, bind_flags);
	d->to_b = node_insert(&d->a, &d->b);
	/* another index than b has at a, so that a mix-up shows */
	node_insert(&d->b, &d->b);
	d->to_a = node_insert(&d->b, &d->a);
}

static void duo_open(struct duo *d)
{
	duo_open_with(d, NULL, 0);
}

static void duo_close(struct duo *d)
{
	node_close(&d->a);
	node_close(&d->b);
	world_close(&d->w);
}

WORLD_FIXTURE(duo)

static void expect_error(struct node *n, struct node *other, void *context, int err, struct fi_cq_err_entry *out)
{
	struct fi_cq_tagged_entry e;

	memset(out, 0, sizeof(*out));
	assert_int_equal(node_wait(n, other, &e, NULL), -FI_EAVAIL);
	assert_int_equal(fi_cq_readerr(n->cq, out, 0), 1);
	assert_ptr_equal(out->op_context, context);
	assert_int_equal(out->err, err);
}

WORLD_TEST(enable__needs, world, w)
{
	struct fi_cq_attr cq_attr = { .format = FI_CQ_FORMAT_TAGGED };
	struct fi_av_attr av_attr = { .type = FI_AV_MAP };
	struct fid_ep *ep;
	struct fid_cq *cq;
	struct fid_av *av;
	char byte;

	assert_int_equal(fi_endpoint(w->domain, w->info, &ep, NULL), 0);
	assert_int_equal(fi_cq_open(w->domain, &cq_attr, &cq, NULL), 0);
	assert_int_equal(fi_av_open(w->domain, &av_attr, &av, NULL), 0);
	assert_int_equal(fi_enable(ep), -FI_ENOAV);
	assert_int_equal(fi_ep_bind(ep, &av->fid, 0), 0);
	assert_int_equal(fi_ep_bind(ep, &av->fid, 0), -FI_EINVAL);
	assert_int_equal(fi_enable(ep), -FI_ENOCQ);
	assert_int_equal(fi_ep_bind(ep, &cq->fid, 0), -FI_EINVAL);
	assert_int_equal(fi_ep_bind(ep, &cq->fid, FI_TRANSMIT | FI_WRITE), -FI_EINVAL);
	assert_int_equal(fi_ep_bind(ep, &cq->fid, FI_TRANSMIT), 0);
	assert_int_equal(fi_enable(ep), -FI_ENOCQ);
	assert_int_equal(fi_ep_bind(ep, &cq->fid, FI_TRANSMIT | FI_RECV), -FI_EINVAL);
	assert_int_equal(fi_ep_bind(ep, &cq->fid, FI_RECV), 0);
	assert_int_equal(fi_ep_bind(ep, &w->domain->fid, 0), -FI_EINVAL);
	assert_int_equal(fi_send(ep, &byte, 1, NULL, 0, NULL), -FI_EOPBADSTATE);
	assert_int_equal(fi_recv(ep, &byte, 1, NULL, 0, NULL), -FI_EOPBADSTATE);
	assert_int_equal(fi_enable(ep), 0);
	assert_int_equal(fi_enable(ep), -FI_EOPBADSTATE);
	assert_int_equal(fi_close(&av->fid), -FI_EBUSY);
	assert_int_equal(fi_close(&cq->fid), -FI_EBUSY);
	assert_int_equal(fi_send(ep, &byte, 1, NULL, 99, NULL), -FI_EINVAL);
	world_closes(&ep->fid, &av->fid, &cq->fid);
}

/* Counters and shared transmit contexts may come after it; what an endpoint needs to begin may not. */
TEST(bind__after_enable)
{
	struct fi_cntr_attr attr = { .wait_obj = FI_WAIT_FD };
	char out[8] = "late", in[8] = "";
	struct fid_cntr *rx, *tx;
	struct pollfd pfd = { .events = POLLIN };
	struct fid_stx *stx;
	struct duo d;

	duo_open(&d);
	assert_int_equal(fi_cntr_open(d.w.domain, &attr, &rx, NULL), 0);
	assert_int_equal(fi_cntr_open(d.w.domain, &attr, &tx, NULL), 0);
	assert_int_equal(fi_stx_context(d.w.domain, NULL, &stx, NULL), 0);
	assert_int_equal(fi_ep_bind(d.b.ep, &rx->fid, FI_RECV), 0);
	assert_int_equal(fi_ep_bind(d.b.ep, &rx->fid, FI_RECV), -FI_EINVAL);
	assert_int_equal(fi_ep_bind(d.b.ep, &rx->fid, FI_SEND), 0);
	assert_int_equal(fi_ep_bind(d.a.ep, &tx->fid, FI_SEND), 0);
	assert_int_equal(fi_ep_bind(d.a.ep, &stx->fid, 0), 0);
	assert_int_equal(fi_close(&rx->fid), -FI_EBUSY);
	assert_int_equal(fi_ep_bind(d.a.ep, &stx->fid, 0), -FI_EINVAL);
	assert_int_equal(fi_close(&stx->fid), 0);
	assert_int_equal(fi_ep_bind(d.a.ep, &d.a.av->fid, 0), -FI_EOPBADSTATE);
	assert_int_equal(fi_ep_bind(d.a.ep, &d.a.cq->fid, FI_TRANSMIT), -FI_EOPBADSTATE);
	/* what arrives wakes whoever sleeps there */
	assert_int_equal(fi_control(&rx->fid, FI_GETWAIT, &pfd.fd), 0);
	assert_int_equal(poll(&pfd, 1, 0), 0);
	assert_int_equal(fi_trecv(d.b.ep, in, 8, NULL, FI_ADDR_UNSPEC, 1, 0, in), 0);
	assert_int_equal(fi_tsend(d.a.ep, out, 8, NULL, d.to_b, 1, out), 0);
	assert_int_equal(poll(&pfd, 1, (int)(PATIENCE_NS / UCCL_NS_PER_MS)), 1);
	for (uint64_t end = uccl_clock() + PATIENCE_NS; uccl_clock() < end;)
		if (fi_cntr_read(rx) == 1 && fi_cntr_read(tx) == 1)
			break;
	assert_int_equal(fi_cntr_read(rx), 1);
	assert_int_equal(fi_cntr_read(tx), 1);
	node_expect(&d.b, &d.a, in, FI_RECV | FI_TAGGED);
	node_expect(&d.a, &d.b, out, FI_SEND | FI_TAGGED);
	node_close(&d.a);
	node_close(&d.b);
	world_closes(&rx->fid, &tx->fid);
	world_close(&d.w);
}

/* Call what stands behind `last`, the last entry that libfabric 2.6 knows of a table. */
static int call_behind(const void *last, void *object)
{
	int (*entry)(void *object, void *b, void *c, void *d);

	memcpy(&entry, (const char *)last + sizeof(entry), sizeof(entry));
	return entry(object, NULL, NULL, NULL);
}

/* fi_xpu_ctx and fi_*_export_xpu of libfabric 2.7 look at no size before they call. */
WORLD_TEST(tables__entry_of_libfabric_2_7, world, w)
{
	struct fi_cq_attr cq_attr = { .format = FI_CQ_FORMAT_CONTEXT };
	struct fi_cntr_attr cntr_attr = { .events = FI_CNTR_EVENTS_COMP };
	struct fid_stx *stx;
	struct fid_cntr *cntr;
	struct fid_cq *cq;
	struct fid_ep *ep, *srx, *sep;

	assert_int_equal(fi_endpoint(w->domain, w->info, &ep, NULL), 0);
	assert_int_equal(fi_scalable_ep(w->domain, w->info, &sep, NULL), 0);
	assert_int_equal(fi_srx_context(w->domain, NULL, &srx, NULL), 0);
	assert_int_equal(fi_stx_context(w->domain, NULL, &stx, NULL), 0);
	assert_int_equal(fi_cq_open(w->domain, &cq_attr, &cq, NULL), 0);
	assert_int_equal(fi_cntr_open(w->domain, &cntr_attr, &cntr, NULL), 0);
	assert_int_equal(call_behind(&w->domain->ops->endpoint2, w->domain), -FI_ENOSYS);
	assert_int_equal(call_behind(&ep->ops->tx_size_left, ep), -FI_ENOSYS);
	assert_int_equal(call_behind(&sep->ops->tx_size_left, sep), -FI_ENOSYS);
	assert_int_equal(call_behind(&srx->ops->tx_size_left, srx), -FI_ENOSYS);
	assert_int_equal(call_behind(&stx->ops->tx_size_left, stx), -FI_ENOSYS);
	assert_int_equal(call_behind(&cq->ops->strerror, cq), -FI_ENOSYS);
	assert_int_equal(call_behind(&cntr->ops->seterr, cntr), -FI_ENOSYS);
	world_closes(&stx->fid, &srx->fid, &sep->fid, &ep->fid, &cntr->fid, &cq->fid);
}

WORLD_TEST(getname__before_enable, world, w)
{
	uint8_t one[FI_UCCL_ADDR_LEN], two[FI_UCCL_ADDR_LEN];
	struct uccl_addr a;
	struct fid_ep *ep;
	size_t len = 0;

	assert_int_equal(fi_endpoint(w->domain, w->info, &ep, NULL), 0);
	assert_int_equal(fi_getname(&ep->fid, NULL, &len), -FI_ETOOSMALL);
	assert_int_equal(len, FI_UCCL_ADDR_LEN);
	len = 10;
	assert_int_equal(fi_getname(&ep->fid, one, &len), -FI_ETOOSMALL);
	assert_int_equal(len, FI_UCCL_ADDR_LEN);
	assert_int_equal(fi_getname(&ep->fid, one, &len), 0);
	assert_int_equal(fi_getname(&ep->fid, two, &len), 0);
	assert_memory_equal(one, two, sizeof(one));
	assert_int_equal(uccl_addr_decode(&a, one), 0);
	assert_true(a.nic.port != 0 && !uccl_addr_keyless(&a));
	assert_int_equal(fi_setname(&ep->fid, one, len), -FI_EOPBADSTATE);
	assert_int_equal(fi_close(&ep->fid), 0);
}

WORLD_TEST(msg__all_forms, duo, d)
{
	char out[4] = "abc", in[4] = "";
	struct iovec oiov[2] = { { out, 2 }, { out + 2, 2 } }, iiov[2] = { { in, 1 }, { in + 1, 3 } };
	struct fi_msg om = { .msg_iov = oiov, .iov_count = 2, .data = 77 };
	struct fi_msg im = { .msg_iov = iiov, .iov_count = 2, .addr = FI_ADDR_UNSPEC, .context = in };
	struct fi_cq_tagged_entry e;
	fi_addr_t src;

	om.addr = d->to_b;
	for (int form = 0; form < 6; form++) {
		bool data = form >= 3 && form != 5;

		memset(in, 0, sizeof(in));
		if (form % 3 == 0)
			world_post(fi_recv(d->b.ep, in, sizeof(in), NULL, FI_ADDR_UNSPEC, in), &d->a, &d->b);
		else if (form % 3 == 1)
			world_post(fi_recvv(d->b.ep, iiov, NULL, 2, d->to_a, in), &d->a, &d->b);
		else
			world_post(fi_recvmsg(d->b.ep, &im, 0), &d->a, &d->b);
		switch (form) {
		case 0:
			world_post(fi_send(d->a.ep, out, sizeof(out), NULL, d->to_b, out), &d->a, &d->b);
			break;
		case 1:
			world_post(fi_sendv(d->a.ep, oiov, NULL, 2, d->to_b, out), &d->a, &d->b);
			break;
		case 2:
			world_post(fi_inject(d->a.ep, out, sizeof(out), d->to_b), &d->a, &d->b);
			break;
		case 3:
			world_post(fi_senddata(d->a.ep, out, sizeof(out), NULL, 77, d->to_b, out), &d->a, &d->b);
			break;
		case 4:
			world_post(fi_injectdata(d->a.ep, out, sizeof(out), 77, d->to_b), &d->a, &d->b);
			break;
		default:
			om.context = out;
			world_post(fi_sendmsg(d->a.ep, &om, FI_DELIVERY_COMPLETE), &d->a, &d->b);
		}
		assert_int_equal(node_wait(&d->b, &d->a, &e, &src), 1);
		assert_ptr_equal(e.op_context, in);
		assert_int_equal(e.flags, FI_RECV | FI_MSG | (data ? FI_REMOTE_CQ_DATA : 0));
		assert_int_equal(e.len, sizeof(out));
		assert_int_equal(e.data, data ? 77 : 0);
		assert_int_equal(src, d->to_a);
		assert_string_equal(in, "abc");
		if (form != 2 && form != 4)
			node_expect(&d->a, &d->b, out, FI_SEND | FI_MSG);
	}
	/* injected messages complete without a word */
	assert_int_equal(fi_cq_read(d->a.cq, &e, 1), -FI_EAGAIN);
	assert_int_equal(fi_sendmsg(d->a.ep, &(struct fi_msg){ .msg_iov = oiov, .iov_count = 5, .addr = d->to_b }, 0),
			 -FI_EINVAL);
}

WORLD_TEST(tagged__all_forms, duo, d)
{
	char out[4] = "abc", in[4] = "";
	struct iovec oiov[2] = { { out, 2 }, { out + 2, 2 } }, iiov[2] = { { in, 1 }, { in + 1, 3 } };
	struct fi_msg_tagged om = { .msg_iov = oiov, .iov_count = 2, .context = out, .data = 77 };
	struct fi_msg_tagged im = { .msg_iov = iiov, .iov_count = 2, .addr = FI_ADDR_UNSPEC, .context = in };
	struct fi_cq_tagged_entry e;

	om.addr = d->to_b;
	for (uint64_t form = 0; form < 6; form++) {
		uint64_t tag = 0xfedcba9876543210 + form;
		bool data = form >= 3;

		memset(in, 0, sizeof(in));
		om.tag = im.tag = tag;
		if (form % 3 == 0)
			world_post(fi_trecv(d->b.ep, in, sizeof(in), NULL, d->to_a, tag, 0, in), &d->a, &d->b);
		else if (form % 3 == 1)
			world_post(fi_trecvv(d->b.ep, iiov, NULL, 2, FI_ADDR_UNSPEC, 0, ~0ull, in), &d->a, &d->b);
		else
			world_post(fi_trecvmsg(d->b.ep, &im, 0), &d->a, &d->b);
		switch (form) {
		case 0:
			world_post(fi_tsend(d->a.ep, out, sizeof(out), NULL, d->to_b, tag, out), &d->a, &d->b);
			break;
		case 1:
			world_post(fi_tsendv(d->a.ep, oiov, NULL, 2, d->to_b, tag, out), &d->a, &d->b);
			break;
		case 2:
			world_post(fi_tinject(d->a.ep, out, sizeof(out), d->to_b, tag), &d->a, &d->b);
			break;
		case 3:
			world_post(fi_tsenddata(d->a.ep, out, sizeof(out), NULL, 77, d->to_b, tag, out), &d->a, &d->b);
			break;
		case 4:
			world_post(fi_tinjectdata(d->a.ep, out, sizeof(out), 77, d->to_b, tag), &d->a, &d->b);
			break;
		default:
			world_post(fi_tsendmsg(d->a.ep, &om, FI_REMOTE_CQ_DATA | FI_INJECT), &d->a, &d->b);
			memset(out, 0, sizeof(out)); /* ours again */
		}
		assert_int_equal(node_wait(&d->b, &d->a, &e, NULL), 1);
		assert_ptr_equal(e.op_context, in);
		assert_int_equal(e.flags, FI_RECV | FI_TAGGED | (data ? FI_REMOTE_CQ_DATA : 0));
		assert_int_equal(e.tag, tag);
		assert_int_equal(e.data, data ? 77 : 0);
		assert_string_equal(in, "abc");
		if (form != 2 && form != 4)
			node_expect(&d->a, &d->b, out, FI_SEND | FI_TAGGED);
	}
}

/* Sizes around every limit: injected, eager, chunks, rendezvous; unexpected and expected; to another and to itself. */
TEST(tagged__sizes)
{
	static const size_t sizes[] = { 0, 1, 63, 64, 4096, 4097, 16384, 16385, 65535, 65536, 65537, 300001, 3000000 };
	uint8_t *out = malloc(3000000), *in = malloc(3000000);
	struct fi_cq_tagged_entry e;
	struct duo d;
	fi_addr_t to_self;

	assert_non_null(out);
	assert_non_null(in);
	duo_open(&d);
	to_self = node_insert(&d.a, &d.a);
	for (size_t i = 0; i < 4 * uccl_array_len(sizes); i++) {
		size_t n = sizes[i / 4];
		bool early = i & 1, self = i & 2;
		struct node *rx = self ? &d.a : &d.b;

		for (size_t k = 0; k < n; k++)
			out[k] = (uint8_t)(k * 7 + i);
		memset(in, 0, n);
		if (early)
			world_post(fi_trecv(rx->ep, in, n, NULL, FI_ADDR_UNSPEC, i, 0, in), &d.a, &d.b);
		world_post(fi_tsend(d.a.ep, out, n, NULL, self ? to_self : d.to_b, i, out), &d.a, &d.b);
		for (int k = 0; k < 20 && !early; k++) {
			(void)fi_cq_read(d.a.cq, NULL, 0);
			(void)fi_cq_read(d.b.cq, NULL, 0);
		}
		if (!early)
			world_post(fi_trecv(rx->ep, in, n, NULL, FI_ADDR_UNSPEC, i, 0, in), &d.a, &d.b);
		for (int k = 0; k < 2; k++) {
			/* to itself both completions come out of one queue, in either order */
			struct node *from = k || self ? &d.a : &d.b;

			assert_int_equal(node_wait(from, from == &d.a ? &d.b : &d.a, &e, NULL), 1);
			if (e.flags & FI_RECV)
				assert_int_equal(e.len, n);
			assert_ptr_equal(e.op_context, e.flags & FI_RECV ? in : out);
			if (self)
				continue;
			assert_true(k ? e.flags & FI_SEND : e.flags & FI_RECV);
		}
		assert_memory_equal(in, out, n);
	}
	duo_close(&d);
	free(out);
	free(in);
}

TEST(selective__completions)
{
	char out[4] = "abc", in[4] = "";
	struct iovec iov = { out, 4 };
	struct fi_msg m = { .msg_iov = &iov, .iov_count = 1, .context = out };
	struct fi_info *h = world_hints();
	struct fi_cq_tagged_entry e;
	struct fid_ep *alias = NULL;
	struct duo d;
	int seen = 0;

	h->rx_attr->op_flags = FI_COMPLETION;
	duo_open_with(&d, h, FI_SELECTIVE_COMPLETION);
	m.addr = d.to_b;
	for (int i = 0; i < 3; i++)
		assert_int_equal(fi_recv(d.b.ep, in, 4, NULL, FI_ADDR_UNSPEC, in), 0);
	world_post(fi_send(d.a.ep, out, 4, NULL, d.to_b, out), &d.a, &d.b);
	world_post(fi_sendmsg(d.a.ep, &m, FI_COMPLETION | FI_DELIVERY_COMPLETE), &d.a, &d.b);
	/* an alias whose default is to complete */
	assert_int_equal(fi_ep_alias(d.a.ep, &alias, FI_TRANSMIT | FI_COMPLETION), 0);
	assert_int_equal(fi_close(&d.a.ep->fid), -FI_EBUSY);
	world_post(fi_send(alias, out, 4, NULL, d.to_b, in), &d.a, &d.b);
	for (int i = 0; i < 3; i++)
		node_expect(&d.b, &d.a, in, FI_RECV | FI_MSG);
	/* two of the three sends, in either order */
	for (int i = 0; i < 2; i++) {
		assert_int_equal(node_wait(&d.a, &d.b, &e, NULL), 1);
		assert_int_equal(e.flags, FI_SEND | FI_MSG);
		seen |= e.op_context == out ? 1 : e.op_context == in ? 2 : 4;
	}
	assert_int_equal(seen, 3);
	assert_int_equal(fi_cq_read(d.a.cq, &e, 1), -FI_EAGAIN);
	assert_int_equal(fi_close(&alias->fid), 0);
	duo_close(&d);
}

WORLD_TEST(opsflag__change, duo, d)
{
	uint64_t flags = FI_TRANSMIT;

	assert_int_equal(fi_control(&d->a.ep->fid, FI_GETOPSFLAG, &flags), 0);
	assert_int_equal(flags, 0);
	flags = FI_TRANSMIT | FI_DELIVERY_COMPLETE;
	assert_int_equal(fi_control(&d->a.ep->fid, FI_SETOPSFLAG, &flags), 0);
	flags = FI_TRANSMIT;
	assert_int_equal(fi_control(&d->a.ep->fid, FI_GETOPSFLAG, &flags), 0);
	assert_int_equal(flags, FI_DELIVERY_COMPLETE);
	flags = FI_TRANSMIT | FI_RECV;
	assert_int_equal(fi_control(&d->a.ep->fid, FI_GETOPSFLAG, &flags), -FI_EINVAL);
	assert_int_equal(fi_control(&d->a.ep->fid, FI_BACKLOG, &flags), -FI_ENOSYS);
}

WORLD_TEST(cancel__and_truncation, duo, d)
{
	char out[100] = "abc", in[10];
	struct fi_cq_err_entry err;

	assert_int_equal(fi_cancel(&d->b.ep->fid, in), -FI_ENOENT);
	assert_int_equal(fi_trecv(d->b.ep, in, sizeof(in), NULL, FI_ADDR_UNSPEC, 1, 0, in), 0);
	assert_int_equal(d->b.ep->ops->rx_size_left(d->b.ep), 4095);
	assert_int_equal(fi_cancel(&d->b.ep->fid, in), 0);
	assert_int_equal(d->b.ep->ops->rx_size_left(d->b.ep), 4096);
	expect_error(&d->b, &d->a, in, FI_ECANCELED, &err);
	assert_int_equal(fi_trecv(d->b.ep, in, sizeof(in), NULL, FI_ADDR_UNSPEC, 2, 0, in), 0);
	world_post(fi_tsend(d->a.ep, out, sizeof(out), NULL, d->to_b, 2, out), &d->a, &d->b);
	expect_error(&d->b, &d->a, in, FI_ETRUNC, &err);
	assert_int_equal(err.len, sizeof(in));
	assert_int_equal(err.olen, sizeof(out) - sizeof(in));
	assert_int_equal(err.tag, 2);
	assert_memory_equal(in, out, sizeof(in));
	assert_non_null(strstr(fi_cq_strerror(d->b.cq, err.prov_errno, NULL, NULL, 0), "fi_addr_uccl://127.0.0.1:"));
	node_expect(&d->a, &d->b, out, FI_SEND | FI_TAGGED);
	assert_int_equal(d->a.ep->ops->tx_size_left(d->a.ep), 4096);
}

WORLD_TEST(peek__claim_discard, duo, d)
{
	char out[8] = "message", in[8] = "";
	struct iovec iov = { in, sizeof(in) };
	struct fi_msg_tagged m = { .msg_iov = &iov, .iov_count = 1, .addr = FI_ADDR_UNSPEC, .tag = 5, .context = in };
	struct fi_msg_tagged look = { .addr = FI_ADDR_UNSPEC, .tag = 5, .context = in };
	struct fi_cq_tagged_entry e;
	struct fi_cq_err_entry err;
	ssize_t rc;

	assert_int_equal(fi_trecvmsg(d->b.ep, &look, FI_PEEK), 0);
	expect_error(&d->b, &d->a, in, FI_ENOMSG, &err);
	for (int i = 0; i < 3; i++)
		world_post(fi_tsenddata(d->a.ep, out, sizeof(out), NULL, i, d->to_b, 5, out), &d->a, &d->b);
	for (int i = 0; i < 3; i++)
		node_expect(&d->a, &d->b, out, FI_SEND | FI_TAGGED);
	do {
		world_post(fi_trecvmsg(d->b.ep, &look, FI_PEEK | FI_CLAIM), &d->a, &d->b);
		rc = node_wait(&d->b, &d->a, &e, NULL);
		if (rc == -FI_EAVAIL)
			fi_cq_readerr(d->b.cq, &err, 0);
	} while (rc == -FI_EAVAIL);
	assert_int_equal(e.len, sizeof(out));
	assert_int_equal(e.data, 0);
	assert_int_equal(e.tag, 5);
	assert_int_equal(e.flags, FI_RECV | FI_TAGGED | FI_REMOTE_CQ_DATA);
	/* the second one, thrown away unclaimed */
	assert_int_equal(fi_trecvmsg(d->b.ep, &look, FI_PEEK | FI_DISCARD), 0);
	assert_int_equal(node_wait(&d->b, &d->a, &e, NULL), 1);
	assert_int_equal(e.data, 1);
	/* the first, claimed, received */
	assert_int_equal(fi_trecvmsg(d->b.ep, &m, FI_CLAIM), 0);
	assert_int_equal(node_wait(&d->b, &d->a, &e, NULL), 1);
	assert_int_equal(e.data, 0);
	assert_string_equal(in, "message");
	/* the third, claimed, thrown away */
	assert_int_equal(fi_trecvmsg(d->b.ep, &look, FI_PEEK | FI_CLAIM), 0);
	assert_int_equal(node_wait(&d->b, &d->a, &e, NULL), 1);
	assert_int_equal(e.data, 2);
	assert_int_equal(fi_trecvmsg(d->b.ep, &look, FI_CLAIM | FI_DISCARD), 0);
	assert_int_equal(node_wait(&d->b, &d->a, &e, NULL), 1);
	assert_int_equal(fi_trecvmsg(d->b.ep, &look, FI_PEEK), 0);
	expect_error(&d->b, &d->a, in, FI_ENOMSG, &err);
	assert_int_equal(fi_trecvmsg(d->b.ep, &look, FI_DISCARD), -FI_EINVAL);
	assert_int_equal(d->b.ep->ops->rx_size_left(d->b.ep), 4096);
}

TEST(multi_recv__buffer)
{
	char out[100], *buf = malloc(1000);
	struct iovec iov = { buf, 1000 };
	struct fi_msg m = { .msg_iov = &iov, .iov_count = 1, .addr = FI_ADDR_UNSPEC, .context = buf };
	size_t room = 64, len = sizeof(room);
	struct fi_cq_tagged_entry e;
	struct duo d;

	assert_non_null(buf);
	duo_open(&d);
	room = 150;
	assert_int_equal(fi_setopt(&d.b.ep->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &room, sizeof(room)), 0);
	room = 0;
	assert_int_equal(fi_getopt(&d.b.ep->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &room, &len), 0);
	assert_int_equal(room, 150);
	assert_int_equal(fi_recvmsg(d.b.ep, &m, FI_MULTI_RECV), 0);
	for (int i = 0; i < 9; i++) {
		memset(out, 'a' + i, sizeof(out));
		world_post(fi_send(d.a.ep, out, sizeof(out), NULL, d.to_b, out), &d.a, &d.b);
		assert_int_equal(node_wait(&d.b, &d.a, &e, NULL), 1);
		assert_ptr_equal(e.op_context, buf);
		assert_int_equal(e.len, sizeof(out));
		assert_ptr_equal(e.buf, buf + i * sizeof(out));
		assert_memory_equal(e.buf, out, sizeof(out));
		/* with less than 150 bytes left it comes back */
		assert_int_equal(!!(e.flags & FI_MULTI_RECV), i == 8);
		node_expect(&d.a, &d.b, out, FI_SEND | FI_MSG);
	}
	assert_int_equal(d.b.ep->ops->rx_size_left(d.b.ep), 4096);
	duo_close(&d);
	free(buf);
}

/* What others send into a multi-receive buffer stops at the queue's size until the program reads. */
WORLD_TEST(multi_recv__full_queue, duo, d)
{
	enum { N = 1000, SIZE = 64 };
	char buf[100], out;
	struct iovec iov = { buf, sizeof(buf) };
	struct fi_msg m = { .msg_iov = &iov, .iov_count = 1, .addr = FI_ADDR_UNSPEC, .context = buf };
	struct fi_cq_tagged_entry e;
	struct uccl_cq *cq;

	cq = uccl_cq_of(&d->b.cq->fid);
	cq->limit = SIZE;
	assert_int_equal(fi_recvmsg(d->b.ep, &m, FI_MULTI_RECV), 0);
	for (int i = 0; i < N; i++)
		world_post(fi_senddata(d->a.ep, &out, 0, NULL, (uint64_t)i, d->to_b, &out), &d->a, &d->b);
	for (int i = 0; i < N; i++)
		node_expect(&d->a, &d->b, &out, FI_SEND | FI_MSG);
	/* What was sent is not there yet, if another thread of the receiver's domain had its engine meanwhile. */
	for (uint64_t end = uccl_clock() + PATIENCE_NS; cq->tail - cq->head < SIZE && uccl_clock() < end;)
		(void)fi_cq_read(d->b.cq, NULL, 0);
	for (int i = 0; i < N; i++)
		(void)fi_cq_read(d->b.cq, NULL, 0);
	assert_int_equal(cq->tail - cq->head, SIZE);
	for (int i = 0; i < N; i++) {
		assert_int_equal(node_wait(&d->b, &d->a, &e, NULL), 1);
		assert_int_equal(e.data, i);
		assert_true(cq->tail - cq->head < SIZE);
	}
	assert_int_equal(fi_cq_read(d->b.cq, &e, 1), -FI_EAGAIN);
}

WORLD_TEST(opt__values, duo, d)
{
	bool yes = true;
	size_t n = 1, len = 1;
	struct fid *fid;

	fid = &d->a.ep->fid;
	assert_int_equal(fi_getopt(fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &n, &len), -FI_ETOOSMALL);
	assert_int_equal(len, sizeof(n));
	assert_int_equal(fi_getopt(fid, FI_OPT_ENDPOINT, FI_OPT_CM_DATA_SIZE, &n, &len), -FI_ENOPROTOOPT);
	assert_int_equal(fi_setopt(fid, FI_OPT_ENDPOINT, FI_OPT_FI_HMEM_P2P, &n, sizeof(int)), -FI_ENOPROTOOPT);
	assert_int_equal(fi_setopt(fid, 9, FI_OPT_MIN_MULTI_RECV, &n, sizeof(n)), -FI_ENOPROTOOPT);
	assert_int_equal(fi_setopt(fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &n, 1), -FI_EINVAL);
	assert_int_equal(fi_setopt(fid, FI_OPT_ENDPOINT, 10, &yes, sizeof(yes)), 0);
	assert_int_equal(fi_setopt(fid, FI_OPT_ENDPOINT, 11, &yes, sizeof(yes)), 0);
	len = sizeof(yes);
	assert_int_equal(fi_getopt(fid, FI_OPT_ENDPOINT, 11, &yes, &len), 0);
	assert_false(yes);
	n = 1 << 20;
	assert_int_equal(fi_setopt(fid, FI_OPT_ENDPOINT, 16, &n, sizeof(n)), -FI_EINVAL);
	/* Every option of a size: what there is may be asked for, no more. 12 to 19 are younger than our headers. */
	for (int opt = 12; opt <= 19; opt++) {
		len = sizeof(n);
		assert_int_equal(fi_getopt(fid, FI_OPT_ENDPOINT, opt, &n, &len), 0);
		assert_int_equal(n, opt < 15 ? 1ull << 40 : opt == 15 ? 65536 : 4096);
		assert_int_equal(fi_setopt(fid, FI_OPT_ENDPOINT, opt, &n, sizeof(n)), 0);
		n++;
		assert_int_equal(fi_setopt(fid, FI_OPT_ENDPOINT, opt, &n, sizeof(n)), -FI_EINVAL);
	}
	assert_int_equal(fi_getopt(fid, FI_OPT_ENDPOINT, FI_OPT_TX_SIZE, &n, &len), 0);
	assert_int_equal(n, d->w.info->tx_attr->size);
	assert_int_equal(fi_getopt(fid, FI_OPT_ENDPOINT, FI_OPT_RX_SIZE, &n, &len), 0);
	assert_int_equal(n, d->w.info->rx_attr->size);
	assert_int_equal(fi_getopt(fid, FI_OPT_ENDPOINT, 20, &n, &len), -FI_ENOPROTOOPT);
}

/* Who is not in the address vector is named by his address, and can be answered when it is inserted. */
TEST(source_err__insert_and_answer)
{
	struct fi_info *h = world_hints();
	struct fi_cq_err_entry err = { 0 };
	fi_addr_t to_b, to_a, src;
	struct fi_cq_tagged_entry e;
	uint8_t in[8], out[8] = { 1 };
	struct node a, b;
	struct world w;

	h->caps = FI_MSG | FI_SOURCE | FI_SOURCE_ERR;
	world_open_with(&w, h);
	to_b = node_pair(&a, &b, &w);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(fi_recv(b.ep, in, 8, NULL, FI_ADDR_UNSPEC, in), 0);
		assert_int_equal(fi_send(a.ep, out, 8, NULL, to_b, out), 0);
		if (!i) {
			expect_error(&b, &a, in, FI_EADDRNOTAVAIL, &err);
			assert_int_equal(err.len, 8);
			assert_int_equal(err.flags, FI_RECV | FI_MSG);
			assert_int_equal(err.err_data_size, FI_UCCL_ADDR_LEN);
			assert_int_equal(fi_av_insert(b.av, err.err_data, 1, &to_a, 0, NULL), 1);
		} else {
			assert_int_equal(node_wait(&b, &a, &e, &src), 1);
			assert_int_equal(src, to_a);
		}
		node_expect(&a, &b, out, FI_SEND | FI_MSG);
	}
	assert_int_equal(fi_recv(a.ep, in, 8, NULL, FI_ADDR_UNSPEC, in), 0);
	assert_int_equal(fi_send(b.ep, out, 8, NULL, to_a, out), 0);
	assert_int_equal(node_wait(&a, &b, &e, &src), 1);
	assert_int_equal(src, to_b);
	node_close(&a);
	node_close(&b);
	world_close(&w);
}

WORLD_TEST(inject__too_long, duo, d)
{
	static char out[5000];
	struct iovec iov = { out, sizeof(out) };
	struct fi_msg m = { .msg_iov = &iov, .iov_count = 1 };

	m.addr = d->to_b;
	assert_int_equal(fi_inject(d->a.ep, out, 4097, d->to_b), -FI_EMSGSIZE);
	assert_int_equal(fi_sendmsg(d->a.ep, &m, FI_INJECT), -FI_EMSGSIZE);
	assert_int_equal(fi_inject(d->a.ep, out, 4096, d->to_b), 0);
}

/* Datagrams: as long as fi_getinfo said, and no longer; what is posted for more takes them, too. */
TEST(dgram__sizes)
{
	struct fi_info *h = world_hints();
	uint8_t *out, *in;
	size_t most, len = sizeof(most);
	struct duo d;

	h->ep_attr->type = FI_EP_DGRAM;
	h->caps = FI_MSG;
	duo_open_with(&d, h, 0);
	most = d.w.info->ep_attr->max_msg_size;
	out = malloc(most + 1);
	in = malloc(2 * most);
	for (size_t i = 0; i <= most; i++)
		out[i] = (uint8_t)(i * 7 + i / 256);
	assert_int_equal(fi_send(d.a.ep, out, most + 1, NULL, d.to_b, out), -FI_EMSGSIZE);
	assert_int_equal(fi_inject(d.a.ep, out, d.w.info->tx_attr->inject_size + 1, d.to_b), -FI_EMSGSIZE);
	assert_int_equal(fi_recv(d.b.ep, in, 2 * most, NULL, FI_ADDR_UNSPEC, in), 0);
	assert_int_equal(fi_send(d.a.ep, out, most, NULL, d.to_b, out), 0);
	node_expect(&d.b, &d.a, in, FI_RECV | FI_MSG);
	node_expect(&d.a, &d.b, out, FI_SEND | FI_MSG);
	assert_memory_equal(in, out, most);
	/* FI_OPT_MAX_MSG_SIZE of later versions */
	assert_int_equal(fi_getopt(&d.a.ep->fid, FI_OPT_ENDPOINT, 12, &len, &(size_t){ sizeof(len) }), 0);
	assert_int_equal(len, most);
	free(out);
	free(in);
	duo_close(&d);
}

static void forget_key(uint8_t *name)
{
	struct uccl_addr a;

	assert_int_equal(uccl_addr_decode(&a, name), 0);
	a.incarnation = 0;
	memset(a.key, 0, sizeof(a.key));
	uccl_addr_encode(name, &a);
}

/* Endpoints with one authorization key talk; with different ones, or with one and none, they do not. PROTOCOL R114 */
TEST(auth_key__groups)
{
	static const char *const keys[] = { "", "a key", "another" };

	for (int i = 0; i < 3; i++)
		for (int n = 0; n < 4; n++) {
			/* with the connect key, and, those that match, without */
			bool keyless = n == 3;
			int k = keyless ? i : n;
			struct fi_info *h = world_hints();
			struct fi_cq_tagged_entry e;
			struct fi_uccl_ops_ep *ops;
			uint64_t refused = 0;
			const char *why;
			struct duo d;
			char in[8];

			setenv("FI_UCCL_SECURITY", keyless ? "keyless=yes" : "keyless=no", 1);
			/* One has it from its domain, the other one of its own. */
			h->domain_attr->auth_key = (uint8_t *)strdup(keys[i]);
			h->domain_attr->auth_key_size = strlen(keys[i]);
			world_open_with(&d.w, h);
			assert_int_equal(d.w.info->domain_attr->auth_key_size, strlen(keys[i]));
			node_open(&d.a, &d.w);
			free(d.w.info->ep_attr->auth_key);
			d.w.info->ep_attr->auth_key = (uint8_t *)strdup(keys[k]);
			d.w.info->ep_attr->auth_key_size = strlen(keys[k]);
			node_open(&d.b, &d.w);
			if (keyless)
				forget_key(d.b.name);
			d.to_b = node_insert(&d.a, &d.b);
			assert_int_equal(fi_recv(d.b.ep, in, 8, NULL, FI_ADDR_UNSPEC, in), 0);
			assert_int_equal(fi_inject(d.a.ep, "hello", 6, d.to_b), 0);
			if (k == i || !k) {
				/* none of its own: that of the domain */
				node_expect(&d.b, &d.a, in, FI_RECV | FI_MSG);
			} else {
				fi_open_ops(&d.b.ep->fid, FI_UCCL_OPS_EP, 0, (void **)&ops, NULL);
				for (uint64_t end = uccl_clock() + PATIENCE_NS; !refused && uccl_clock() < end;) {
					(void)fi_cq_read(d.a.cq, NULL, 0);
					assert_int_equal(fi_cq_read(d.b.cq, &e, 1), -FI_EAGAIN);
					assert_int_equal(ops->dropped(d.b.ep, UCCL_DROP_MAC, &why, &refused), 0);
				}
				assert_true(refused > 0);
			}
			node_close(&d.b);
			node_close(&d.a);
			world_close(&d.w);
		}
	unsetenv("FI_UCCL_SECURITY");
}

/* The unread completions reach the size of the queue: posting waits, and nothing is lost. */
WORLD_TEST(cq__back_pressure, duo, d)
{
	struct fi_cq_attr attr = { .format = FI_CQ_FORMAT_TAGGED, .size = 100 };
	struct fi_cq_tagged_entry e;
	struct fid_ep *ep;
	struct fid_cq *cq;
	int posted = 0, done = 0;
	char out[8] = "", in[8];

	assert_int_equal(fi_endpoint(d->w.domain, d->w.info, &ep, NULL), 0);
	assert_int_equal(fi_cq_open(d->w.domain, &attr, &cq, NULL), 0);
	assert_int_equal(fi_ep_bind(ep, &d->a.av->fid, 0), 0);
	assert_int_equal(fi_ep_bind(ep, &cq->fid, FI_TRANSMIT | FI_RECV), 0);
	assert_int_equal(fi_enable(ep), 0);
	for (int i = 0; i < 1000; i++)
		assert_int_equal(fi_recv(d->b.ep, in, sizeof(in), NULL, FI_ADDR_UNSPEC, in), 0);
	/* only posting drives this side; it must come to a stop at the size */
	for (uint64_t end = uccl_clock() + PATIENCE_NS; posted < 1000 && uccl_clock() < end;) {
		ssize_t rc = fi_send(ep, out, sizeof(out), NULL, d->to_b, out);

		(void)fi_cq_read(d->b.cq, NULL, 0);
		assert_true(rc == 0 || rc == -FI_EAGAIN);
		posted += rc == 0;
		/* far beyond the size: read it all, once */
		if (rc == -FI_EAGAIN)
			while (fi_cq_read(cq, &e, 1) == 1)
				done++;
	}
	assert_int_equal(posted, 1000);
	for (uint64_t end = uccl_clock() + PATIENCE_NS; done < 1000 && uccl_clock() < end;) {
		(void)fi_cq_read(d->b.cq, NULL, 0);
		done += fi_cq_read(cq, &e, 1) == 1;
	}
	assert_int_equal(done, 1000);
	world_closes(&ep->fid, &cq->fid);
}

WORLD_TEST(cntr__counts, world, w)
{
	struct fi_cntr_attr attr = { .wait_obj = FI_WAIT_UNSPEC };
	struct fid_cntr *tx, *rx;
	struct fid_ep *a, *b;
	struct fid_av *av;
	uint8_t name[FI_UCCL_ADDR_LEN];
	size_t len = sizeof(name);
	fi_addr_t to_b;
	char out[8] = "counted", in[8] = "";

	/* without any queue */
	assert_int_equal(fi_cntr_open(w->domain, &attr, &tx, NULL), 0);
	assert_int_equal(fi_cntr_open(w->domain, &attr, &rx, NULL), 0);
	assert_int_equal(fi_av_open(w->domain, &(struct fi_av_attr){ .type = FI_AV_TABLE }, &av, NULL), 0);
	assert_int_equal(fi_endpoint(w->domain, w->info, &a, NULL), 0);
	assert_int_equal(fi_endpoint(w->domain, w->info, &b, NULL), 0);
	assert_int_equal(fi_ep_bind(a, &av->fid, 0), 0);
	assert_int_equal(fi_ep_bind(b, &av->fid, 0), 0);
	assert_int_equal(fi_ep_bind(a, &tx->fid, 0), -FI_EINVAL);
	assert_int_equal(fi_ep_bind(a, &tx->fid, FI_SEND | FI_RECV | FI_READ | FI_WRITE), 0);
	assert_int_equal(fi_ep_bind(a, &tx->fid, FI_SEND), -FI_EINVAL);
	assert_int_equal(fi_ep_bind(b, &rx->fid, FI_RECV | FI_SEND | FI_REMOTE_READ | FI_REMOTE_WRITE), 0);
	assert_int_equal(fi_enable(a), 0);
	assert_int_equal(fi_enable(b), 0);
	assert_int_equal(fi_getname(&b->fid, name, &len), 0);
	assert_int_equal(fi_av_insert(av, name, 1, &to_b, 0, NULL), 1);
	assert_int_equal(fi_trecv(b, in, sizeof(in), NULL, FI_ADDR_UNSPEC, 1, 0, NULL), 0);
	assert_int_equal(fi_trecv(b, in, sizeof(in), NULL, FI_ADDR_UNSPEC, 1, 0, NULL), 0);
	assert_int_equal(fi_tinject(a, out, sizeof(out), to_b, 1), 0);
	assert_int_equal(fi_tsend(a, out, sizeof(out), NULL, to_b, 1, NULL), 0);
	for (uint64_t end = uccl_clock() + PATIENCE_NS; fi_cntr_read(rx) < 2 && uccl_clock() < end;)
		fi_cntr_read(tx);
	assert_int_equal(fi_cntr_read(rx), 2);
	for (uint64_t end = uccl_clock() + PATIENCE_NS; fi_cntr_read(tx) < 2 && uccl_clock() < end;)
		fi_cntr_read(rx);
	assert_int_equal(fi_cntr_wait(tx, 2, 1000), 0);
	assert_string_equal(in, "counted");
	/* a failure counts, too */
	assert_int_equal(fi_trecv(b, in, sizeof(in), NULL, FI_ADDR_UNSPEC, 1, 0, in), 0);
	assert_int_equal(fi_cancel(&b->fid, in), 0);
	assert_int_equal(fi_cntr_readerr(rx), 1);
	assert_int_equal(fi_cntr_wait(rx, 3, 10), -FI_ETIMEDOUT);
	world_closes(&a->fid, &b->fid, &tx->fid, &rx->fid, &av->fid);
}

/* A handle that was removed is no destination; the same index then means another peer, also in completions. */
WORLD_TEST(av__remove_and_reuse, duo, d)
{
	char out[8] = "one", in[8] = "";
	struct fi_cq_tagged_entry e;
	struct node c;
	fi_addr_t src;

	node_open(&c, &d->w);
	world_post(fi_send(d->a.ep, out, 8, NULL, d->to_b, out), &d->a, &d->b);
	assert_int_equal(fi_recv(d->b.ep, in, 8, NULL, FI_ADDR_UNSPEC, in), 0);
	assert_int_equal(node_wait(&d->b, &d->a, &e, &src), 1);
	assert_int_equal(src, d->to_a);
	node_expect(&d->a, &d->b, out, FI_SEND | FI_MSG);
	assert_int_equal(fi_av_remove(d->a.av, &d->to_b, 1, 0), 0);
	assert_int_equal(fi_send(d->a.ep, out, 8, NULL, d->to_b, out), -FI_EINVAL);
	assert_int_equal(node_insert(&d->a, &c), d->to_b);
	/* b forgets a: a message of a's has no source */
	assert_int_equal(fi_av_remove(d->b.av, &d->to_a, 1, 0), 0);
	assert_int_equal(fi_recv(c.ep, in, 8, NULL, FI_ADDR_UNSPEC, in), 0);
	memset(in, 0, sizeof(in));
	world_post(fi_send(d->a.ep, out, 8, NULL, d->to_b, out), &d->a, &c);
	assert_int_equal(node_wait(&c, &d->a, &e, &src), 1);
	assert_true(src == FI_ADDR_NOTAVAIL); /* c does not know a */
	assert_string_equal(in, "one");
	node_insert(&c, &c);
	assert_int_equal(node_insert(&c, &d->a), 1);
	assert_int_equal(fi_recv(c.ep, in, 8, NULL, 1, in), 0);
	world_post(fi_send(d->a.ep, out, 8, NULL, d->to_b, out), &d->a, &c);
	assert_int_equal(node_wait(&c, &d->a, &e, &src), 1);
	assert_int_equal(src, 1);
	node_close(&c);
}

/* An endpoint that is closed and opened anew is another peer at another address, or fails what is sent to the old. */
WORLD_TEST(peer__restarts, duo, d)
{
	char out[8] = "again", in[8] = "";
	struct fi_cq_tagged_entry e;
	struct fi_cq_err_entry err = { .err = 0 };
	fi_addr_t to_new;
	ssize_t rc;

	world_post(fi_send(d->a.ep, out, 8, NULL, d->to_b, out), &d->a, &d->b);
	assert_int_equal(fi_recv(d->b.ep, in, 8, NULL, FI_ADDR_UNSPEC, in), 0);
	assert_int_equal(node_wait(&d->b, &d->a, &e, NULL), 1);
	node_expect(&d->a, &d->b, out, FI_SEND | FI_MSG);
	node_close(&d->b);
	node_open(&d->b, &d->w);
	to_new = node_insert(&d->a, &d->b);
	assert_int_equal(fi_recv(d->b.ep, in, 8, NULL, FI_ADDR_UNSPEC, in), 0);
	world_post(fi_send(d->a.ep, out, 8, NULL, to_new, out), &d->a, &d->b);
	assert_int_equal(node_wait(&d->b, &d->a, &e, NULL), 1);
	node_expect(&d->a, &d->b, out, FI_SEND | FI_MSG);
	rc = fi_send(d->a.ep, out, 8, NULL, d->to_b, in);
	if (!rc) {
		rc = node_wait(&d->a, &d->b, &e, NULL);
		assert_int_equal(rc, -FI_EAVAIL);
		assert_int_equal(fi_cq_readerr(d->a.cq, &err, 0), 1);
		assert_ptr_equal(err.op_context, in);
		assert_non_null(strstr(err.err_data, "fi_addr_uccl://127.0.0.1:"));
	} else {
		assert_true(rc < 0 && rc != -FI_EAGAIN);
	}
}

struct echo {
	struct node *n;
	fi_addr_t to;
	int rounds;
	_Atomic bool over;
};

/* Receives and sends back, asleep in between. */
static void *echo_main(void *arg)
{
	struct echo *x = arg;
	struct fi_cq_tagged_entry e;
	char buf[64];

	for (int i = 0; i < x->rounds; i++) {
		int todo = 2;

		assert_int_equal(fi_trecv(x->n->ep, buf, sizeof(buf), NULL, x->to, i, 0, NULL), 0);
		while (todo) {
			ssize_t rc = fi_cq_sread(x->n->cq, &e, 1, NULL, 20000);

			if (rc == 1 && --todo)
				while ((rc = fi_tsend(x->n->ep, buf, sizeof(buf), NULL, x->to, i, NULL)) == -FI_EAGAIN)
					;
			if (rc < 0) {
				x->over = true;
				return (void *)1;
			}
		}
	}
	x->over = true;
	return NULL;
}

static void ping_pong_asleep(struct duo *d, int rounds)
{
	struct echo x = { .n = &d->b, .to = d->to_a, .rounds = rounds };
	struct fi_cq_tagged_entry e;
	char buf[64] = "ping";
	pthread_t thread;
	void *failed;

	assert_int_equal(pthread_create(&thread, NULL, echo_main, &x), 0);
	for (int i = 0; i < rounds; i++) {
		assert_int_equal(fi_trecv(d->a.ep, buf, sizeof(buf), NULL, d->to_b, i, 0, buf), 0);
		assert_int_equal(fi_tsend(d->a.ep, buf, sizeof(buf), NULL, d->to_b, i, NULL), 0);
		for (int k = 0; k < 2; k++)
			assert_int_equal(fi_cq_sread(d->a.cq, &e, 1, NULL, 20000), 1);
	}
	/* the other side still waits for the acknowledgement of its last message */
	while (!x.over)
		(void)fi_cq_read(d->a.cq, NULL, 0);
	pthread_join(thread, &failed);
	assert_null(failed);
}

static void *read_one_main(void *arg)
{
	struct fi_cq_tagged_entry e;
	struct node *n = arg;
	time_t end = time(NULL) + 10;

	while (time(NULL) < end)
		if (fi_cq_read(n->cq, &e, 1) == 1)
			return n;
	return NULL;
}

/* What was accepted arrives, although no descriptor is left to sleep on while the endpoint is closed. */
WORLD_TEST(close__without_descriptors, duo, d)
{
	struct rlimit old, none;
	char in[8], out[8] = "last";
	pthread_t thread;
	struct node c;
	void *got;

	node_open(&c, &d->w);
	assert_int_equal(fi_recv(d->b.ep, in, sizeof(in), NULL, FI_ADDR_UNSPEC, in), 0);
	assert_int_equal(fi_inject(c.ep, out, sizeof(out), node_insert(&c, &d->b)), 0);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &old), 0);
	none = (struct rlimit){ .rlim_cur = 0, .rlim_max = old.rlim_max };
	assert_int_equal(pthread_create(&thread, NULL, read_one_main, &d->b), 0);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
	node_close(&c);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &old), 0);
	pthread_join(thread, &got);
	assert_ptr_equal(got, &d->b);
	assert_string_equal(in, "last");
}

WORLD_TEST(sread__ping_pong, duo, d)
{
	ping_pong_asleep(d, 300);
}

TEST(auto_progress__ping_pong)
{
	struct fi_info *h = world_hints();
	struct duo d;

	h->domain_attr->data_progress = FI_PROGRESS_AUTO;
	h->domain_attr->threading = FI_THREAD_DOMAIN;
	duo_open_with(&d, h, 0);
	ping_pong_asleep(&d, 300);
	duo_close(&d);
}

/* With FI_PROGRESS_AUTO a large message arrives although the receiver never looks at its queue. */
TEST(auto_progress__receiver_idle)
{
	struct fi_info *h = world_hints();
	size_t n = 2000000;
	char *out = calloc(1, n), *in = malloc(n);
	struct fi_cq_tagged_entry e;
	struct duo d;

	assert_non_null(out);
	assert_non_null(in);
	h->domain_attr->data_progress = FI_PROGRESS_AUTO;
	duo_open_with(&d, h, 0);
	assert_int_equal(fi_trecv(d.b.ep, in, n, NULL, FI_ADDR_UNSPEC, 1, 0, in), 0);
	assert_int_equal(fi_tsend(d.a.ep, out, n, NULL, d.to_b, 1, out), 0);
	assert_int_equal(fi_cq_sread(d.a.cq, &e, 1, NULL, 20000), 1);
	assert_ptr_equal(e.op_context, out);
	assert_int_equal(fi_cq_sread(d.b.cq, &e, 1, NULL, 20000), 1);
	assert_memory_equal(in, out, n);
	duo_close(&d);
	free(out);
	free(in);
}

/* Who only sends hears of the peer all the same. PROTOCOL R245 */
TEST(send__looks)
{
	size_t n = 1u << 20;
	char *out = calloc(2, n);
	struct duo d;

	assert_non_null(out);
	duo_open(&d);
	assert_int_equal(fi_recv(d.b.ep, out + n, n, NULL, FI_ADDR_UNSPEC, out), 0);
	assert_int_equal(fi_send(d.a.ep, out, n, NULL, d.to_b, out), 0);
	assert_false(uccl_engine_unread(uccl_ep_fid_of(&d.a.ep->fid)->ep->driver.engine));
	node_expect(&d.a, &d.b, out, FI_SEND | FI_MSG);
	node_expect(&d.b, &d.a, out, FI_RECV | FI_MSG);
	duo_close(&d);
	free(out);
}

/* A thread of its own does that. None is started here: it could look before the test does. */
TEST(send__leaves_it_to_a_thread)
{
	struct uccl_driver *driver;
	struct duo d;
	char *buf;

	world_rescue_off();
	duo_open(&d);
	world_rescue_on();
	driver = &uccl_ep_fid_of(&d.a.ep->fid)->ep->driver;
	driver->automatic = true;
	assert_true(world_leaves_looks(d.a.ep, d.to_b, &buf));
	driver->automatic = false;
	duo_close(&d);
	free(buf);
}

/* Reading one queue of a domain in vain drives its other endpoints, whose peers may wait. */
WORLD_TEST(domain__idle_reads, duo, d)
{
	char out[8] = "x", in[8];
	struct iovec iov = { .iov_base = out, .iov_len = sizeof(out) };
	struct fi_cq_tagged_entry e;
	struct fi_msg msg;
	struct world w;
	struct node c;
	fi_addr_t to_b;

	world_open(&w);
	node_open(&c, &w);
	to_b = node_insert(&c, &d->b);
	assert_int_equal(fi_recv(d->b.ep, in, 8, NULL, FI_ADDR_UNSPEC, in), 0);
	/* Complete when acknowledged, so it is there: d->b's own queue was not read. */
	msg = (struct fi_msg){ .msg_iov = &iov, .iov_count = 1, .addr = to_b, .context = out };
	assert_int_equal(fi_sendmsg(c.ep, &msg, FI_COMPLETION | FI_TRANSMIT_COMPLETE), 0);
	node_expect(&c, &d->a, out, FI_SEND | FI_MSG);
	assert_int_equal(fi_cq_read(d->b.cq, &e, 1), 1);
	node_close(&c);
	world_close(&w);
}

/* A program that sleeps in its own poll() is woken by what arrives. */
WORLD_TEST(trywait__arrival, duo, d)
{
	struct pollfd pfd = { .events = POLLIN };
	struct fi_cq_tagged_entry e;
	char out[8] = "x", in[8];
	struct fid *fids[1];
	uint64_t end = uccl_clock() + PATIENCE_NS;
	ssize_t rc = -FI_EAGAIN;

	fids[0] = &d->b.cq->fid;
	assert_int_equal(fi_control(fids[0], FI_GETWAIT, &pfd.fd), 0);
	assert_int_equal(fi_recv(d->b.ep, in, 8, NULL, FI_ADDR_UNSPEC, in), 0);
	world_post(fi_inject(d->a.ep, out, 8, d->to_b), &d->a, &d->a);
	while (rc == -FI_EAGAIN && uccl_clock() < end) {
		(void)fi_cq_read(d->a.cq, NULL, 0);
		if (fi_trywait(d->w.fabric, fids, 1) == 0)
			assert_true(poll(&pfd, 1, 200) >= 0);
		rc = fi_cq_read(d->b.cq, &e, 1);
	}
	assert_int_equal(rc, 1);
}

/* Endpoints that agree on a port find each other without a name, by socket addresses. */
TEST(keyless__sockaddr)
{
	struct fi_info *h = world_hints();
	struct sockaddr_in sin;
	struct fi_cq_tagged_entry e;
	size_t len = sizeof(sin);
	char out[8] = "sock", in[8] = "";
	struct node a, b;
	struct world w;
	fi_addr_t to_b, src, to_a;

	h->addr_format = FI_SOCKADDR_IN;
	world_open_with(&w, h);
	for (int i = 0; i < 2; i++) {
		struct node *n = i ? &b : &a;
		struct fi_cq_attr cq_attr = { .format = FI_CQ_FORMAT_TAGGED };

		assert_int_equal(fi_endpoint(w.domain, w.info, &n->ep, NULL), 0);
		assert_int_equal(fi_cq_open(w.domain, &cq_attr, &n->cq, NULL), 0);
		assert_int_equal(fi_av_open(w.domain, &(struct fi_av_attr){ .type = FI_AV_TABLE }, &n->av, NULL), 0);
		assert_int_equal(fi_ep_bind(n->ep, &n->av->fid, 0), 0);
		assert_int_equal(fi_ep_bind(n->ep, &n->cq->fid, FI_TRANSMIT | FI_RECV), 0);
		assert_int_equal(fi_enable(n->ep), 0);
	}
	assert_int_equal(fi_getname(&b.ep->fid, &sin, &len), 0);
	assert_int_equal(len, sizeof(sin));
	assert_int_equal(sin.sin_family, AF_INET);
	assert_int_not_equal(sin.sin_port, 0);
	assert_int_equal(fi_av_insert(a.av, &sin, 1, &to_b, 0, NULL), 1);
	assert_int_equal(fi_getname(&a.ep->fid, &sin, &len), 0);
	assert_int_equal(fi_av_insert(b.av, &sin, 1, &to_a, 0, NULL), 1);
	assert_int_equal(fi_recv(b.ep, in, 8, NULL, to_a, in), 0);
	world_post(fi_send(a.ep, out, 8, NULL, to_b, out), &a, &b);
	assert_int_equal(node_wait(&b, &a, &e, &src), 1);
	assert_int_equal(src, to_a);
	assert_string_equal(in, "sock");
	node_expect(&a, &b, out, FI_SEND | FI_MSG);
	node_close(&a);
	node_close(&b);
	world_close(&w);
}

/* In a child of fork the endpoint refuses to work and can be closed; the parent does not notice. */
WORLD_TEST(fork__child, duo, d)
{
	char out[8] = "x", in[8];
	pid_t pid;
	int status;

	pid = fork();
	assert_true(pid >= 0);
	if (!pid) {
		struct fi_cq_tagged_entry e;
		int bad = 0;

		bad += fi_send(d->a.ep, out, 8, NULL, d->to_b, out) != -FI_EOPBADSTATE;
		bad += fi_recv(d->a.ep, in, 8, NULL, d->to_b, out) != -FI_EOPBADSTATE;
		bad += fi_cancel(&d->a.ep->fid, out) != -FI_EOPBADSTATE;
		bad += fi_cq_read(d->a.cq, &e, 1) != -FI_EAGAIN;
		bad += fi_close(&d->a.ep->fid) != 0;
		_exit(bad);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
	assert_int_equal(fi_recv(d->b.ep, in, 8, NULL, FI_ADDR_UNSPEC, in), 0);
	world_post(fi_send(d->a.ep, out, 8, NULL, d->to_b, out), &d->a, &d->b);
	node_expect(&d->b, &d->a, in, FI_RECV | FI_MSG);
	node_expect(&d->a, &d->b, out, FI_SEND | FI_MSG);
}

/* Every place in the tables that programs call blindly is filled. */
WORLD_TEST(ops__full, duo, d)
{
#define FULL(table)                                                                                                    \
	for (size_t i = 0; i < (table)->size / sizeof(void *); i++)                                                    \
	assert_non_null(((void **)(table))[i])
	FULL(d->w.fabric->fid.ops);
	FULL(d->w.fabric->ops);
	FULL(d->w.domain->fid.ops);
	FULL(d->w.domain->ops);
	FULL(d->w.domain->mr);
	FULL(d->a.ep->fid.ops);
	FULL(d->a.ep->ops);
	FULL(d->a.ep->cm);
	FULL(d->a.ep->msg);
	FULL(d->a.ep->rma);
	FULL(d->a.ep->tagged);
	FULL(d->a.ep->atomic);
	FULL(d->a.ep->collective);
	FULL(d->a.av->fid.ops);
	FULL(d->a.av->ops);
	FULL(d->a.cq->fid.ops);
	FULL(d->a.cq->ops);
	FULL(d->w.info->nic->fid.ops);
#undef FULL
	assert_int_equal(fi_open_ops(&d->w.fabric->fid, "x", 0, (void **)d, NULL), -FI_ENOSYS);
}

/* FI_UCCL_STATS leaves one line of JSON per endpoint. */
TEST(stats__file)
{
	char name[64], file[96], line[8192];
	int objects = 0;
	struct duo d;
	FILE *f;

	snprintf(name, sizeof(name), "%s/uccl-test-stats", getenv("TMPDIR") ? getenv("TMPDIR") : P_tmpdir);
	snprintf(file, sizeof(file), "%s.%d", name, (int)getpid());
	setenv("FI_UCCL_STATS", name, 1);
	duo_open(&d);
	unsetenv("FI_UCCL_STATS");
	duo_close(&d);
	f = fopen(file, "r");
	assert_non_null(f);
	while (fgets(line, sizeof(line), f))
		if (line[0] == '{') {
			assert_non_null(strstr(line, "\"tx_packets\":"));
			assert_non_null(strstr(line, "}}\n"));
			objects++;
		}
	fclose(f);
	unlink(file);
	assert_int_equal(objects, 2);
}

/* Whose NIC cannot tell of marks of the network hears so, once, if any are asked for. */
WORLD_TEST(marks__said_once, world, w)
{
	struct uccl_nic_caps deaf = { .mtu = 1500 }, hears = { .mtu = 1500, .marks = true };
	struct uccl_domain *d;
	struct node a;
	const char *text;

	d = uccl_domain_of(&w->domain->fid);
	world_listen(FI_LOG_INFO);
	node_open(&a, w);
	uccl_ep_marks_say(d, &hears);
	d->params.nic.ecn = 0;
	uccl_ep_marks_say(d, &deaf);
	assert_null(strstr(world_heard(), "FI_UCCL_ECN"));
	d->params.nic.ecn = 1;
	world_listen(FI_LOG_INFO);
	uccl_ep_marks_say(d, &deaf);
	uccl_ep_marks_say(d, &deaf);
	text = strstr(world_heard(), "FI_UCCL_ECN=1: udp on lo cannot tell");
	assert_non_null(text);
	assert_null(strstr(text + 1, "FI_UCCL_ECN"));
	node_close(&a);
}

TESTS_MAIN
