/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "../world.h"

#include <poll.h>
#include <unistd.h>

#include "api/event/waitobj.h"
#include "../../tests.h"

static int next_fd(void)
{
	int fd = dup(0);

	close(fd);
	return fd;
}

TEST(open__kinds)
{
	static const enum fi_wait_obj good[] = { FI_WAIT_UNSPEC, FI_WAIT_FD, FI_WAIT_MUTEX_COND, FI_WAIT_YIELD,
						 FI_WAIT_POLLFD };
	int fd = next_fd();
	struct uccl_waitobj w;

	for (size_t i = 0; i < uccl_array_len(good); i++) {
		assert_int_equal(uccl_waitobj_open(&w, good[i]), 0);
		assert_int_equal(w.obj, good[i]);
		uccl_waitobj_close(&w);
		assert_int_equal(next_fd(), fd);
	}
	assert_int_equal(uccl_waitobj_open(&w, FI_WAIT_SET), -FI_ENOSYS);
	assert_int_equal(w.obj, FI_WAIT_NONE);
	assert_int_equal(uccl_waitobj_open(&w, FI_WAIT_NONE), 0);
	assert_int_equal(w.w.epfd, -1);
	uccl_waitobj_close(&w);
	assert_int_equal(next_fd(), fd);
}

TEST(control__kinds)
{
	struct fi_wait_pollfd wp = { .nfds = 0 };
	enum fi_wait_obj obj;
	struct pollfd fd;
	struct uccl_waitobj w;
	int got = -1;

	assert_int_equal(uccl_waitobj_open(&w, FI_WAIT_FD), 0);
	assert_int_equal(uccl_waitobj_control(&w, FI_GETWAITOBJ, &obj), 0);
	assert_int_equal(obj, FI_WAIT_FD);
	assert_int_equal(uccl_waitobj_control(&w, FI_GETWAIT, &got), 0);
	assert_int_equal(got, w.w.epfd);
	assert_int_equal(uccl_waitobj_control(&w, FI_GETOPSFLAG, &got), -FI_ENOSYS);
	uccl_waitobj_close(&w);
	assert_int_equal(uccl_waitobj_open(&w, FI_WAIT_POLLFD), 0);
	assert_int_equal(uccl_waitobj_control(&w, FI_GETWAIT, &wp), -FI_ETOOSMALL);
	assert_int_equal(wp.nfds, 1);
	wp.fd = &fd;
	assert_int_equal(uccl_waitobj_control(&w, FI_GETWAIT, &wp), 0);
	assert_int_equal(fd.fd, w.w.epfd);
	uccl_waitobj_close(&w);
	/* These have no descriptor that a program could use. */
	assert_int_equal(uccl_waitobj_open(&w, FI_WAIT_MUTEX_COND), 0);
	assert_int_equal(uccl_waitobj_control(&w, FI_GETWAIT, &got), -FI_ENODATA);
	uccl_waitobj_close(&w);
}

TESTS_MAIN
