/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "api/event/waitobj.h"

#include <poll.h>
#include <rdma/fi_errno.h>

static bool kind_known(enum fi_wait_obj obj)
{
	return obj == FI_WAIT_UNSPEC || obj == FI_WAIT_FD || obj == FI_WAIT_MUTEX_COND || obj == FI_WAIT_YIELD ||
	       obj == FI_WAIT_POLLFD;
}

int uccl_waitobj_open(struct uccl_waitobj *o, enum fi_wait_obj obj)
{
	int rc;

	*o = (struct uccl_waitobj){ .obj = FI_WAIT_NONE };
	uccl_wait_init(&o->w);
	if (obj == FI_WAIT_NONE)
		return 0;
	if (!kind_known(obj))
		return -FI_ENOSYS;
	rc = uccl_wait_open(&o->w);
	if (!rc)
		o->obj = obj;
	return rc;
}

void uccl_waitobj_close(struct uccl_waitobj *o)
{
	uccl_wait_close(&o->w);
	o->obj = FI_WAIT_NONE;
}

int uccl_waitobj_control(struct uccl_waitobj *o, int command, void *arg)
{
	struct fi_wait_pollfd *pfd = arg;

	if (command == FI_GETWAITOBJ) {
		*(enum fi_wait_obj *)arg = o->obj;
		return 0;
	}
	if (command != FI_GETWAIT)
		return -FI_ENOSYS;
	switch (o->obj) {
	case FI_WAIT_FD:
	case FI_WAIT_UNSPEC:
		*(int *)arg = o->w.epfd;
		return 0;
	case FI_WAIT_POLLFD:
		if (pfd->nfds < 1) {
			pfd->nfds = 1;
			return -FI_ETOOSMALL;
		}
		pfd->change_index = 1;
		pfd->nfds = 1;
		pfd->fd[0] = (struct pollfd){ .fd = o->w.epfd, .events = POLLIN };
		return 0;
	default:
		return -FI_ENODATA;
	}
}
