/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "../world.h"

#include <poll.h>
#include <pthread.h>

#include "api/event/cntr.h"
#include "../../tests.h"

static struct fid_cntr *cntr_open(struct world *w, enum fi_wait_obj wait)
{
	struct fi_cntr_attr attr = { .wait_obj = wait };
	struct fid_cntr *cntr;

	assert_int_equal(fi_cntr_open(w->domain, &attr, &cntr, NULL), 0);
	return cntr;
}

WORLD_TEST(open__kinds, world, w)
{
	struct fi_cntr_attr bytes = { .events = (enum fi_cntr_events)1 }, set = { .wait_obj = FI_WAIT_SET };
	struct fid_cntr *cntr;

	assert_int_equal(fi_cntr_open(w->domain, &bytes, &cntr, NULL), -FI_EINVAL);
	assert_int_equal(fi_cntr_open(w->domain, &set, &cntr, NULL), -FI_ENOSYS);
	assert_int_equal(fi_cntr_open(w->domain, NULL, &cntr, NULL), 0);
	assert_int_equal(fi_close(&cntr->fid), 0);
}

WORLD_TEST(read__all_changes, world, w)
{
	struct fid_cntr *c;

	c = cntr_open(w, FI_WAIT_NONE);
	assert_int_equal(fi_cntr_read(c), 0);
	assert_int_equal(fi_cntr_add(c, 5), 0);
	uccl_cntr_count(uccl_cntr_of(&c->fid), true);
	assert_int_equal(fi_cntr_read(c), 6);
	assert_int_equal(fi_cntr_set(c, 100), 0);
	assert_int_equal(fi_cntr_read(c), 100);
	assert_int_equal(fi_cntr_readerr(c), 0);
	assert_int_equal(fi_cntr_adderr(c, 2), 0);
	uccl_cntr_count(uccl_cntr_of(&c->fid), false);
	assert_int_equal(fi_cntr_readerr(c), 3);
	assert_int_equal(fi_cntr_seterr(c, 1), 0);
	assert_int_equal(fi_cntr_readerr(c), 1);
	assert_int_equal(fi_cntr_read(c), 100);
	assert_int_equal(fi_close(&c->fid), 0);
}

static void *count_later(void *arg)
{
	for (int i = 0; i < 10; i++)
		uccl_cntr_count(uccl_cntr_of(&((struct fid_cntr *)arg)->fid), true);
	return NULL;
}

WORLD_TEST(wait__ends, world, w)
{
	struct fid_cntr *c;
	pthread_t thread;
	uint64_t t;

	c = cntr_open(w, FI_WAIT_NONE);
	/* no sleep, but the same answers */
	assert_int_equal(fi_cntr_wait(c, 1, 10), -FI_ETIMEDOUT);
	assert_int_equal(fi_cntr_wait(c, 0, 0), 0);
	assert_int_equal(fi_close(&c->fid), 0);
	c = cntr_open(w, FI_WAIT_UNSPEC);
	assert_int_equal(fi_cntr_wait(c, 0, 0), 0);
	t = uccl_clock();
	assert_int_equal(fi_cntr_wait(c, 1, 30), -FI_ETIMEDOUT);
	assert_true(uccl_clock() - t >= 29 * UCCL_NS_PER_MS);
	assert_int_equal(pthread_create(&thread, NULL, count_later, c), 0);
	assert_int_equal(fi_cntr_wait(c, 10, -1), 0);
	pthread_join(thread, NULL);
	assert_int_equal(fi_close(&c->fid), 0);
}

static void *fail_later(void *arg)
{
	uccl_cntr_count(uccl_cntr_of(&((struct fid_cntr *)arg)->fid), false);
	return NULL;
}

/* Failures of before the wait do not end it, one during it does. */
WORLD_TEST(wait__failure, world, w)
{
	struct fid_cntr *c;
	pthread_t thread;
	int rc;

	c = cntr_open(w, FI_WAIT_FD);
	fi_cntr_adderr(c, 1);
	assert_int_equal(fi_cntr_wait(c, 1, 20), -FI_ETIMEDOUT);
	assert_int_equal(pthread_create(&thread, NULL, fail_later, c), 0);
	rc = fi_cntr_wait(c, 1, 200);
	/* the thread may have been first */
	assert_true(rc == -FI_EAVAIL || rc == -FI_ETIMEDOUT);
	pthread_join(thread, NULL);
	assert_int_equal(fi_cntr_readerr(c), 2);
	assert_int_equal(fi_close(&c->fid), 0);
}

WORLD_TEST(trywait__fd, world, w)
{
	struct pollfd pfd = { .events = POLLIN };
	struct fid_cntr *c;
	struct fid *fids[1];

	c = cntr_open(w, FI_WAIT_FD);
	fids[0] = &c->fid;
	assert_int_equal(fi_control(&c->fid, FI_GETWAIT, &pfd.fd), 0);
	assert_int_equal(fi_trywait(w->fabric, fids, 1), 0);
	assert_int_equal(poll(&pfd, 1, 0), 0);
	fi_cntr_add(c, 1);
	assert_int_equal(poll(&pfd, 1, 1000), 1);
	assert_int_equal(fi_cntr_read(c), 1);
	assert_int_equal(poll(&pfd, 1, 0), 0);
	/* What moved before it was asked is no reason to sleep: another thread may have counted it. */
	assert_int_equal(fi_trywait(w->fabric, fids, 1), 0);
	fi_cntr_add(c, 1);
	assert_int_equal(fi_trywait(w->fabric, fids, 1), -FI_EAGAIN);
	assert_int_equal(fi_trywait(w->fabric, fids, 1), 0);
	fi_cntr_adderr(c, 1);
	assert_int_equal(fi_trywait(w->fabric, fids, 1), -FI_EAGAIN);
	assert_int_equal(fi_trywait(w->fabric, fids, 1), 0);
	fi_cntr_add(c, 1);
	fi_cntr_adderr(c, 1);
	assert_int_equal(fi_cntr_read(c), 3);
	assert_int_equal(fi_cntr_readerr(c), 2);
	assert_int_equal(fi_trywait(w->fabric, fids, 1), 0);
	assert_int_equal(fi_close(&c->fid), 0);
}

TESTS_MAIN
