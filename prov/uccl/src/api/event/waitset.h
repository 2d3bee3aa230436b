/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Wait sets: a program sleeps on several queues and counters together (wait_obj FI_WAIT_SET). They are deprecated in
 * libfabric 2.x, but programs written for 1.x use them.
 */
#ifndef UCCL_API_WAITSET_H
#define UCCL_API_WAITSET_H

#include "api/event/waitobj.h"

int uccl_waitset_open(struct fid_fabric *fabric, struct fi_wait_attr *attr, struct fid_wait **set);

/*
 * Open the wait object of `member`, as uccl_waitobj_open() does. With FI_WAIT_SET it joins `set`, which is not NULL
 * then. In both cases uccl_waitset_remove() closes it.
 */
int uccl_waitset_add(struct uccl_waitobj *w, enum fi_wait_obj obj, struct fid_wait *set, struct fid *member);
void uccl_waitset_remove(struct uccl_waitobj *w);

/* 0: the program may sleep on the set's descriptor; -FI_EAGAIN: one of its members has something. */
int uccl_waitset_trywait(struct fid_wait *set);

#endif
