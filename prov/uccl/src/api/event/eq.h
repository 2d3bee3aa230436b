/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Event queues: what insertions into an address vector report, what becomes of connections, and what a program writes
 * itself.
 */
#ifndef UCCL_API_EQ_H
#define UCCL_API_EQ_H

#include <pthread.h>
#include <rdma/fi_eq.h>
#include <stdatomic.h>
#include <sys/queue.h>

#include "api/event/waitobj.h"
#include "base/units.h"
#include "progress/drivers.h"

struct uccl_fabric;
struct uccl_event;

struct uccl_eq {
	struct fid_eq fid;
	struct uccl_fabric *fabric;
	struct uccl_drivers drivers; /* whose connections it tells of: reading drives them */
	_Atomic int refs;	/* bound objects */
	bool writable;
	struct uccl_waitobj wait;
	pthread_mutex_t lock;
	STAILQ_HEAD(, uccl_event) events;
	struct uccl_event *last_err; /* the last error: its err_data is the reader's until the next one */
};

static inline struct uccl_eq *uccl_eq_of(struct fid *fid)
{
	return uccl_container_of(fid, struct uccl_eq, fid.fid);
}

int uccl_eq_open(struct fid_fabric *fabric, struct fi_eq_attr *attr, struct fid_eq **eq, void *context);

/* Report an event. -FI_ENOMEM: it is lost. */
int uccl_eq_push(struct uccl_eq *eq, uint32_t event, const void *entry, size_t len);
int uccl_eq_push_error(struct uccl_eq *eq, const struct fi_eq_err_entry *err);
/* Of a connection: FI_CONNREQ (with `info`, which is taken over), FI_CONNECTED, FI_SHUTDOWN; `data` is the peer's. */
int uccl_eq_push_cm(struct uccl_eq *eq, uint32_t event, struct fid *fid, struct fi_info *info, const void *data,
		    size_t len);
/* A connection failed with err (positive FI_Exxx). */
int uccl_eq_push_cm_error(struct uccl_eq *eq, struct fid *fid, int err, const void *data, size_t len);
/* It goes: what is unread of its connections is forgotten. */
void uccl_eq_forget(struct uccl_eq *eq, const struct fid *fid);

/* 0: the program may sleep; -FI_EAGAIN: there is something to read. */
int uccl_eq_trywait(struct uccl_eq *eq);

#endif
