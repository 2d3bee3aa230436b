/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "../world.h"

#include <poll.h>
#include <pthread.h>

#include "api/event/waitset.h"
#include "../../tests.h"

/* libfabric 2 calls these functions deprecated; programs written for 1.x use them. */
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

static struct fid_wait *set_open(struct world *w, enum fi_wait_obj obj)
{
	struct fi_wait_attr attr = { .wait_obj = obj };
	struct fid_wait *set;

	assert_int_equal(fi_wait_open(w->fabric, &attr, &set), 0);
	return set;
}

WORLD_TEST(open__kinds, world, w)
{
	static const enum fi_wait_obj kinds[] = { FI_WAIT_UNSPEC, FI_WAIT_FD, FI_WAIT_MUTEX_COND, FI_WAIT_YIELD };
	struct fi_wait_attr flags = { .flags = 1 }, none = { .wait_obj = FI_WAIT_NONE };
	struct fi_wait_attr set = { .wait_obj = FI_WAIT_SET };
	struct fi_cq_attr cq_attr = { .wait_obj = FI_WAIT_SET };
	struct fid_wait *s;
	struct fid_cq *cq;
	int fd = -1;

	assert_int_equal(fi_wait_open(w->fabric, &flags, &s), -FI_EINVAL);
	assert_int_equal(fi_wait_open(w->fabric, &none, &s), -FI_EINVAL);
	assert_int_equal(fi_wait_open(w->fabric, &set, &s), -FI_ENOSYS);
	for (size_t i = 0; i < uccl_array_len(kinds); i++)
		assert_int_equal(fi_close(&set_open(w, kinds[i])->fid), 0);
	s = set_open(w, FI_WAIT_FD);
	assert_int_equal(fi_control(&s->fid, FI_GETWAIT, &fd), 0);
	assert_true(fd >= 0);
	assert_int_equal(fi_cq_open(w->domain, &cq_attr, &cq, NULL), -FI_ENOSYS);
	cq_attr.wait_set = s;
	cq_attr.wait_obj = FI_WAIT_FD;
	/* "This field is ignored if wait_obj is not FI_WAIT_SET." (fi_cq(3)) */
	assert_int_equal(fi_cq_open(w->domain, &cq_attr, &cq, NULL), 0);
	assert_int_equal(fi_close(&cq->fid), 0);
	cq_attr.wait_obj = FI_WAIT_SET;
	assert_int_equal(fi_cq_open(w->domain, &cq_attr, &cq, NULL), 0);
	assert_int_equal(fi_control(&cq->fid, FI_GETWAIT, &fd), -FI_ENODATA);
	assert_int_equal(fi_close(&s->fid), -FI_EBUSY);
	assert_int_equal(fi_close(&cq->fid), 0);
	assert_int_equal(fi_close(&w->fabric->fid), -FI_EBUSY);
	assert_int_equal(fi_close(&s->fid), 0);
}

struct members {
	struct world w;
	struct fid_wait *set;
	struct fid_cq *cq;
	struct fid_cntr *cntr;
	struct fid_eq *eq;
};

static void members_open(struct members *m)
{
	struct fi_cq_attr cq_attr = { .format = FI_CQ_FORMAT_TAGGED, .wait_obj = FI_WAIT_SET };
	struct fi_cntr_attr cntr_attr = { .wait_obj = FI_WAIT_SET };
	struct fi_eq_attr eq_attr = { .wait_obj = FI_WAIT_SET, .flags = FI_WRITE };

	world_open(&m->w);
	m->set = set_open(&m->w, FI_WAIT_FD);
	cq_attr.wait_set = cntr_attr.wait_set = eq_attr.wait_set = m->set;
	assert_int_equal(fi_cq_open(m->w.domain, &cq_attr, &m->cq, NULL), 0);
	assert_int_equal(fi_cntr_open(m->w.domain, &cntr_attr, &m->cntr, NULL), 0);
	assert_int_equal(fi_eq_open(m->w.fabric, &eq_attr, &m->eq, NULL), 0);
}

static void members_close(struct members *m)
{
	world_closes(&m->eq->fid, &m->cntr->fid, &m->cq->fid, &m->set->fid);
	world_close(&m->w);
}

WORLD_FIXTURE(members)

/* Something unread in one member ends the wait at once, and every time until it is read. */
WORLD_TEST(wait__has_something, members, m)
{
	struct fi_eq_entry e = { .data = 5 };
	uint32_t event;

	assert_int_equal(fi_wait(m->set, 0), -FI_ETIMEDOUT);
	assert_int_equal(fi_wait(m->set, 5), -FI_ETIMEDOUT);
	assert_int_equal(fi_eq_write(m->eq, FI_NOTIFY, &e, sizeof(e), 0), sizeof(e));
	for (int i = 0; i < 3; i++)
		assert_int_equal(fi_wait(m->set, -1), 0);
	assert_int_equal(fi_eq_read(m->eq, &event, &e, sizeof(e), 0), sizeof(e));
	assert_int_equal(fi_wait(m->set, 5), -FI_ETIMEDOUT);
}

static void *write_main(void *arg)
{
	struct members *m = arg;
	struct fi_eq_entry e = { .data = 6 };

	assert_int_equal(fi_eq_write(m->eq, FI_NOTIFY, &e, sizeof(e), 0), sizeof(e));
	return NULL;
}

/* Another thread's doing wakes the sleeper, who sleeps by call or on the descriptor. */
WORLD_TEST(wait__woken, members, m)
{
	struct pollfd pfd = { .events = POLLIN };
	struct fi_eq_entry e;
	struct fid *fids[1];
	pthread_t thread;
	uint32_t event;

	assert_int_equal(pthread_create(&thread, NULL, write_main, m), 0);
	assert_int_equal(fi_wait(m->set, 20000), 0);
	pthread_join(thread, NULL);
	assert_int_equal(fi_eq_read(m->eq, &event, &e, sizeof(e), 0), sizeof(e));
	assert_int_equal(fi_control(&m->set->fid, FI_GETWAIT, &pfd.fd), 0);
	fids[0] = &m->set->fid;
	assert_int_equal(fi_trywait(m->w.fabric, fids, 1), 0);
	assert_int_equal(poll(&pfd, 1, 0), 0);
	assert_int_equal(pthread_create(&thread, NULL, write_main, m), 0);
	assert_int_equal(poll(&pfd, 1, 20000), 1);
	pthread_join(thread, NULL);
	assert_int_equal(fi_trywait(m->w.fabric, fids, 1), -FI_EAGAIN);
	assert_int_equal(fi_eq_read(m->eq, &event, &e, sizeof(e), 0), sizeof(e));
	assert_int_equal(fi_trywait(m->w.fabric, fids, 1), 0);
	assert_int_equal(fi_cntr_add(m->cntr, 1), 0);
	assert_int_equal(poll(&pfd, 1, 20000), 1);
}

/* A message that comes is seen without anybody reading the queue. */
WORLD_TEST(wait__arrival, members, m)
{
	struct fi_av_attr av_attr = { .type = FI_AV_TABLE };
	struct fi_cq_tagged_entry e;
	struct node b;
	struct node a = { 0 };
	size_t len = sizeof(a.name);
	fi_addr_t to_a;
	char in[8];

	assert_int_equal(fi_endpoint(m->w.domain, m->w.info, &a.ep, NULL), 0);
	assert_int_equal(fi_av_open(m->w.domain, &av_attr, &a.av, NULL), 0);
	assert_int_equal(fi_ep_bind(a.ep, &a.av->fid, 0), 0);
	assert_int_equal(fi_ep_bind(a.ep, &m->cq->fid, FI_TRANSMIT | FI_RECV), 0);
	assert_int_equal(fi_enable(a.ep), 0);
	assert_int_equal(fi_getname(&a.ep->fid, a.name, &len), 0);
	node_open(&b, &m->w);
	to_a = node_insert(&b, &a);
	assert_int_equal(fi_recv(a.ep, in, 8, NULL, FI_ADDR_UNSPEC, in), 0);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(fi_inject(b.ep, "hello", 6, to_a), 0);
		while (fi_wait(m->set, 20000) == 0 && fi_cq_read(m->cq, &e, 1) == -FI_EAGAIN)
			(void)fi_cq_read(b.cq, NULL, 0);
		assert_ptr_equal(e.op_context, in);
		assert_int_equal(fi_recv(a.ep, in, 8, NULL, FI_ADDR_UNSPEC, in), 0);
	}
	world_closes(&a.ep->fid, &a.av->fid);
	node_close(&b);
}

TESTS_MAIN
