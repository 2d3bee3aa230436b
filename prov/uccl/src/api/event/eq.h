/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Event queues: results of insertions into address vectors, events of connections, ends of peers, and entries of
 * fi_eq_write(3).
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
	struct uccl_drivers drivers; /* endpoints that report connections here; reading drives them */
	_Atomic int refs;	/* bound objects */
	bool writable;
	struct uccl_waitobj wait;
	pthread_mutex_t lock;
	STAILQ_HEAD(, uccl_event) events;
	uint32_t npeers;	/* events of peers among them */
	struct uccl_event *last_err; /* the error read last; its err_data is valid until the next one is read */
};

static inline struct uccl_eq *uccl_eq_of(struct fid *fid)
{
	return uccl_container_of(fid, struct uccl_eq, fid.fid);
}

int uccl_eq_open(struct fid_fabric *fabric, struct fi_eq_attr *attr, struct fid_eq **eq, void *context);

/* Add an event; `entry`, len bytes, is copied. 0, or -FI_ENOMEM: the event is lost. Any thread may call. */
int uccl_eq_push(struct uccl_eq *eq, uint32_t event, const void *entry, size_t len);
int uccl_eq_push_error(struct uccl_eq *eq, const struct fi_eq_err_entry *err);
/*
 * Add an event of a connection: FI_CONNREQ (with `info`, which the queue takes over), FI_CONNECTED, FI_SHUTDOWN.
 * data[0..len) is the data that the peer sent.
 */
int uccl_eq_push_cm(struct uccl_eq *eq, uint32_t event, struct fid *fid, struct fi_info *info, const void *data,
		    size_t len);
/* A connection failed with err (positive FI_Exxx). */
int uccl_eq_push_cm_error(struct uccl_eq *eq, struct fid *fid, int err, const void *data, size_t len);
/*
 * A peer of the endpoint `fid`, at this address, has ended for this reason (positive FI_Exxx). Lost if UCCL_EQ_PEERS
 * such events are unread, or if there is no memory.
 */
#define UCCL_EQ_PEERS 4096
void uccl_eq_push_peer(struct uccl_eq *eq, struct fid *fid, fi_addr_t peer, int err);
/* The object `fid` closes: remove its unread events. */
void uccl_eq_forget(struct uccl_eq *eq, const struct fid *fid);

/* 0: the program may sleep; -FI_EAGAIN: there is something to read. */
int uccl_eq_trywait(struct uccl_eq *eq);

#endif
