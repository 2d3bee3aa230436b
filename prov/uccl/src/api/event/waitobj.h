/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The wait object that the program asked for when it opened a queue, counter or set; built on progress/wait.h. */
#ifndef UCCL_API_WAITOBJ_H
#define UCCL_API_WAITOBJ_H

#include <rdma/fi_eq.h>

#include "progress/wait.h"

struct uccl_waitset;

struct uccl_waitobj {
	enum fi_wait_obj obj;	/* FI_WAIT_NONE: nobody can sleep on it */
	struct uccl_wait w;
	struct uccl_waitset *set; /* the wait set of which it is a member; NULL: none */
};

/* FI_WAIT_NONE opens nothing. -FI_ENOSYS: this kind is not supported. -FI_EMFILE and the like: no descriptors. */
int uccl_waitobj_open(struct uccl_waitobj *o, enum fi_wait_obj obj);
void uccl_waitobj_close(struct uccl_waitobj *o);

/* FI_GETWAIT and FI_GETWAITOBJ of fi_control. */
int uccl_waitobj_control(struct uccl_waitobj *o, int command, void *arg);

#endif
