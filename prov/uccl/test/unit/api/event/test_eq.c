/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "../world.h"
#include "../../tests.h"

#include <poll.h>
#include <pthread.h>

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
