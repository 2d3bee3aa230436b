/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Wait sets: several queues and counters to sleep on together (wait_obj FI_WAIT_SET). libfabric 2.x calls them
 * deprecated, programs written for 1.x have them.
 */
#ifndef UCCL_API_WAITSET_H
#define UCCL_API_WAITSET_H

#include "api/event/waitobj.h"

int uccl_waitset_open(struct fid_fabric *fabric, struct fi_wait_attr *attr, struct fid_wait **set);

/*
 * As uccl_waitobj_open, for the wait object of `member`; with FI_WAIT_SET it is one of `set` (not NULL). To be closed
 * by uccl_waitset_remove in either case.
 */
int uccl_waitset_add(struct uccl_waitobj *w, enum fi_wait_obj obj, struct fid_wait *set, struct fid *member);
void uccl_waitset_remove(struct uccl_waitobj *w);

/* 0: the program may sleep on the set's descriptor; -FI_EAGAIN: one of its members has something. */
int uccl_waitset_trywait(struct fid_wait *set);

#endif
