/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "../world.h"
#include "api/event/eq.h"
#include "api/peers/lookup.h"
#include "../../tests.h"

#include <poll.h>
#include <pthread.h>

/* Has this endpoint heard that its peer closed? */
static bool heard_close(struct node *n, fi_addr_t at)
{
	struct uccl_ep *ep = uccl_ep_fid_of(&n->ep->fid)->ep;
	struct uccl_peer *p;
	bool closed;

	uccl_driver_lock(&ep->driver);
	closed = !uccl_ep_peer_lookup(ep, at, false, &p) && uccl_peer_closed(p);
	uccl_driver_unlock(&ep->driver);
	return closed;
}

static struct fid_eq *eq_open(struct world *w, enum fi_wait_obj wait, uint64_t flags)
{
	struct fi_eq_attr attr = { .wait_obj = wait, .flags = flags };
	struct fid_eq *eq;

	assert_int_equal(fi_eq_open(w->fabric, &attr, &eq, NULL), 0);
	return eq;
}

WORLD_TEST(open__kinds, world, w)
{
	static const enum fi_wait_obj kinds[] = { FI_WAIT_NONE, FI_WAIT_UNSPEC, FI_WAIT_FD, FI_WAIT_MUTEX_COND };
	struct fi_eq_attr attr = { .wait_obj = FI_WAIT_SET };
	struct fid_eq *eq;

	for (size_t i = 0; i < uccl_array_len(kinds); i++)
		assert_int_equal(fi_close(&eq_open(w, kinds[i], 0)->fid), 0);
	assert_int_equal(fi_eq_open(w->fabric, &attr, &eq, NULL), -FI_ENOSYS);
	assert_int_equal(fi_eq_open(w->fabric, NULL, &eq, NULL), 0);
	assert_int_equal(fi_close(&w->fabric->fid), -FI_EBUSY);
	assert_int_equal(fi_close(&eq->fid), 0);
}

WORLD_TEST(read__in_order, world, w)
{
	struct fi_eq_entry e = { .data = 1 }, got;
	struct fid_eq *eq;
	uint32_t event;

	eq = eq_open(w, FI_WAIT_NONE, FI_WRITE);
	assert_int_equal(fi_eq_read(eq, &event, &got, sizeof(got), 0), -FI_EAGAIN);
	for (e.data = 1; e.data <= 3; e.data++)
		assert_int_equal(fi_eq_write(eq, FI_NOTIFY + e.data, &e, sizeof(e), 0), sizeof(e));
	assert_int_equal(fi_eq_read(eq, &event, &got, 4, 0), -FI_ETOOSMALL);
	assert_int_equal(fi_eq_read(eq, &event, &got, sizeof(got), FI_PEEK), sizeof(got));
	assert_int_equal(got.data, 1);
	/* Without a buffer: which event it is. */
	event = 0;
	assert_int_equal(fi_eq_read(eq, &event, NULL, 0, FI_PEEK), 0);
	assert_int_equal(event, FI_NOTIFY + 1);
	for (uint64_t i = 1; i <= 3; i++) {
		assert_int_equal(fi_eq_read(eq, &event, &got, sizeof(got), 0), sizeof(got));
		assert_int_equal(event, FI_NOTIFY + i);
		assert_int_equal(got.data, i);
	}
	assert_int_equal(fi_eq_read(eq, &event, &got, sizeof(got), 0), -FI_EAGAIN);
	assert_int_equal(fi_close(&eq->fid), 0);
	eq = eq_open(w, FI_WAIT_NONE, 0);
	assert_int_equal(fi_eq_write(eq, FI_NOTIFY, &e, sizeof(e), 0), -FI_EINVAL);
	assert_int_equal(fi_close(&eq->fid), 0);
}

WORLD_TEST(readerr__none, world, w)
{
	struct fi_eq_err_entry err = { .err = 77 };
	struct fi_eq_entry e = { .data = 1 };
	struct fid_eq *eq;

	eq = eq_open(w, FI_WAIT_FD, FI_WRITE);
	assert_int_equal(fi_eq_readerr(eq, &err, 0), -FI_EAGAIN);
	assert_int_equal(fi_eq_write(eq, FI_NOTIFY, &e, sizeof(e), 0), sizeof(e));
	assert_int_equal(fi_eq_readerr(eq, &err, 0), -FI_EAGAIN);
	assert_int_equal(err.err, 77);
	assert_string_equal(fi_eq_strerror(eq, FI_EINVAL, NULL, NULL, 0), fi_strerror(FI_EINVAL));
	assert_int_equal(fi_close(&eq->fid), 0); /* with an event unread */
}

WORLD_TEST(sread__time, world, w)
{
	struct fi_eq_entry got;
	struct fid_eq *eq;
	uint32_t event;
	uint64_t t;

	eq = eq_open(w, FI_WAIT_NONE, 0);
	assert_int_equal(fi_eq_sread(eq, &event, &got, sizeof(got), 1, 0), -FI_ENOSYS);
	assert_int_equal(fi_close(&eq->fid), 0);
	eq = eq_open(w, FI_WAIT_FD, FI_WRITE);
	t = uccl_clock();
	assert_int_equal(fi_eq_sread(eq, &event, &got, sizeof(got), 30, 0), -FI_EAGAIN);
	assert_true(uccl_clock() - t >= 29 * UCCL_NS_PER_MS);
	assert_int_equal(fi_close(&eq->fid), 0);
}

static void *write_one(void *arg)
{
	struct fi_eq_entry e = { .data = 42 };

	assert_int_equal(fi_eq_write(arg, FI_NOTIFY, &e, sizeof(e), 0), sizeof(e));
	return NULL;
}

WORLD_TEST(sread__woken, world, w)
{
	struct fi_eq_entry got;
	struct fid_eq *eq;
	pthread_t thread;
	uint32_t event;

	eq = eq_open(w, FI_WAIT_UNSPEC, FI_WRITE);
	assert_int_equal(pthread_create(&thread, NULL, write_one, eq), 0);
	assert_int_equal(fi_eq_sread(eq, &event, &got, sizeof(got), -1, 0), sizeof(got));
	assert_int_equal(got.data, 42);
	pthread_join(thread, NULL);
	assert_int_equal(fi_close(&eq->fid), 0);
}

/* An endpoint whose queue of events tells of peers, if `yes`. */
static void teller_open(struct node *n, struct world *w, struct fid_eq *eq, int yes)
{
	struct fi_cq_attr cq_attr = { .format = FI_CQ_FORMAT_TAGGED };
	struct fi_av_attr av_attr = { .type = FI_AV_TABLE };
	int is = 2, wrong = 2;
	size_t len = sizeof(is);

	assert_int_equal(fi_endpoint(w->domain, w->info, &n->ep, n), 0);
	assert_int_equal(fi_cq_open(w->domain, &cq_attr, &n->cq, NULL), 0);
	assert_int_equal(fi_av_open(w->domain, &av_attr, &n->av, NULL), 0);
	assert_int_equal(fi_ep_bind(n->ep, &n->av->fid, 0), 0);
	assert_int_equal(fi_ep_bind(n->ep, &n->cq->fid, FI_TRANSMIT | FI_RECV), 0);
	assert_int_equal(fi_ep_bind(n->ep, &eq->fid, 0), 0);
	assert_int_equal(fi_enable(n->ep), 0);
	assert_int_equal(fi_getopt(&n->ep->fid, FI_OPT_ENDPOINT, FI_OPT_UCCL_PEER_EVENTS, &is, &len), 0);
	assert_int_equal(is, 0);
	assert_int_equal(fi_setopt(&n->ep->fid, FI_OPT_ENDPOINT, FI_OPT_UCCL_PEER_EVENTS, &wrong, sizeof(wrong)),
			 -FI_EINVAL);
	assert_int_equal(fi_setopt(&n->ep->fid, FI_OPT_ENDPOINT, FI_OPT_UCCL_PEER_EVENTS, &yes, 1), -FI_EINVAL);
	assert_int_equal(fi_setopt(&n->ep->fid, FI_OPT_ENDPOINT, FI_OPT_UCCL_PEER_EVENTS, &yes, sizeof(yes)), 0);
}

/* A peer that closes its endpoint is told of once, if the program wants that. */
WORLD_TEST(readerr__end_of_a_peer, world, w)
{
	for (int yes = 0; yes < 2; yes++) {
		struct fid_eq *eq = eq_open(w, FI_WAIT_NONE, 0);
		struct fi_eq_err_entry err = {0};
		uint64_t end = uccl_clock() + PATIENCE_NS;
		struct node a, b;
		uint32_t event;
		fi_addr_t to;
		char c = 1;

		teller_open(&a, w, eq, yes);
		node_open(&b, w);
		to = node_insert(&a, &b);
		assert_int_equal(fi_recv(b.ep, &c, 1, NULL, FI_ADDR_UNSPEC, &b), 0);
		world_post(fi_send(a.ep, &c, 1, NULL, to, &a), &a, &b);
		node_expect(&b, &a, &b, FI_RECV | FI_MSG);
		assert_int_equal(fi_eq_read(eq, &event, NULL, 0, 0), -FI_EAGAIN);
		node_close(&b);
		while (!heard_close(&a, to) && uccl_clock() < end)
			(void)fi_cq_read(a.cq, NULL, 0);
		assert_int_equal(fi_eq_read(eq, &event, NULL, 0, 0), yes ? -FI_EAVAIL : -FI_EAGAIN);
		if (yes) {
			assert_int_equal(fi_eq_readerr(eq, &err, 0), sizeof(err));
			assert_ptr_equal(err.fid, &a.ep->fid);
			assert_ptr_equal(err.context, &a);
			assert_int_equal(err.data, to);
			assert_int_equal(err.err, FI_ESHUTDOWN);
		}
		assert_int_equal(fi_eq_read(eq, &event, NULL, 0, 0), -FI_EAGAIN);
		(void)fi_cq_readerr(a.cq, &(struct fi_cq_err_entry){0}, 0);
		fi_close(&a.ep->fid);
		world_closes(&a.cq->fid, &a.av->fid, &eq->fid);
	}
}

/* What nobody reads is bounded, and goes with the endpoint. */
WORLD_TEST(push_peer__bounded, world, w)
{
	struct fid_eq *eq = eq_open(w, FI_WAIT_NONE, 0);
	struct fi_eq_err_entry err = {0};
	struct uccl_eq *q = uccl_eq_of(&eq->fid);
	uint64_t n = 0;
	struct node a;

	teller_open(&a, w, eq, 1);
	for (uint64_t i = 0; i < UCCL_EQ_PEERS + 5; i++)
		uccl_eq_push_peer(q, &a.ep->fid, i, FI_ETIMEDOUT);
	assert_int_equal(fi_eq_readerr(eq, &err, 0), sizeof(err));
	assert_int_equal(err.data, 0);
	uccl_eq_push_peer(q, &a.ep->fid, 7, FI_ETIMEDOUT);
	for (; fi_eq_readerr(eq, &err, 0) > 0; n++)
		;
	assert_int_equal(n, UCCL_EQ_PEERS);
	assert_int_equal(err.data, 7);
	uccl_eq_push_peer(q, &a.ep->fid, 8, FI_ETIMEDOUT);
	assert_int_equal(fi_close(&a.ep->fid), 0);
	assert_int_equal(fi_eq_readerr(eq, &err, 0), -FI_EAGAIN);
	assert_int_equal(q->npeers, 0);
	world_closes(&a.cq->fid, &a.av->fid, &eq->fid);
}

WORLD_TEST(trywait__fd, world, w)
{
	struct pollfd pfd = { .events = POLLIN };
	struct fi_eq_entry e = { .data = 1 };
	struct fid_eq *eq;
	struct fid *fids[1];
	uint32_t event;

	eq = eq_open(w, FI_WAIT_FD, FI_WRITE);
	fids[0] = &eq->fid;
	assert_int_equal(fi_control(&eq->fid, FI_GETWAIT, &pfd.fd), 0);
	assert_int_equal(fi_trywait(w->fabric, fids, 1), 0);
	assert_int_equal(poll(&pfd, 1, 0), 0);
	fi_eq_write(eq, FI_NOTIFY, &e, sizeof(e), 0);
	assert_int_equal(poll(&pfd, 1, 1000), 1);
	assert_int_equal(fi_trywait(w->fabric, fids, 1), -FI_EAGAIN);
	assert_int_equal(fi_eq_read(eq, &event, &e, sizeof(e), 0), sizeof(e));
	assert_int_equal(fi_trywait(w->fabric, fids, 1), 0);
	assert_int_equal(poll(&pfd, 1, 0), 0);
	assert_int_equal(fi_close(&eq->fid), 0);
}

TESTS_MAIN
