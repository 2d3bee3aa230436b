/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The domain object: one interface, and the values of the run-time variables when it was opened. */
#ifndef UCCL_API_OBJECT_DOMAIN_H
#define UCCL_API_OBJECT_DOMAIN_H

#include <pthread.h>
#include <rdma/fi_domain.h>
#include <stdatomic.h>

#include "api/object/fabric.h"
#include "api/object/trigger.h"
#include "api/offer/param.h"
#include "base/units.h"
#include "flow/wire/addr.h"
#include "hmem/dmabufs.h"
#include "nic/ifaddr.h"
#include "progress/drivers.h"
#include "progress/rescue.h"

struct uccl_hmem_ops;
struct uccl_mr;

/* A wait object on which a thread sleeps until any endpoint of the domain has something. */
struct uccl_sleeper {
	struct uccl_wait *wait;
	struct uccl_sleeper *next;
};

struct uccl_domain {
	struct fid_domain fid;
	struct uccl_fabric *fabric;
	_Atomic int refs;	/* open children */
	char name[UCCL_IFADDR_NAME];
	struct uccl_nic_addr addr; /* of the interface, as the info said */
	uint32_t addr_format;
	uint8_t group[UCCL_KEY_LEN]; /* derived from the authorization key; 0: none */
	bool locking;		/* several threads may call at once */
	bool auto_progress;
	struct uccl_drivers drivers; /* enabled endpoints; a call that reads a queue may drive any of them */
	struct uccl_drivers all; /* enabled endpoints; through any of them peers access the regions */
	struct uccl_sleeper *sleepers; /* sleepers on all endpoints; under the lock of `all` */
	unsigned int forks;	/* uccl_forks when it was opened */
	struct uccl_triggers triggers;
	pthread_mutex_t atomic_lock; /* held for each atomic operation of a peer */
	_Atomic bool claimed;	/* an atomic operation on device memory is under way */
	struct uccl_rescue rescue;
	int mr_mode;
	struct uccl_params params;
	_Atomic bool marks_said; /* uccl_ep_marks_say() has logged */
	/* Devices, if the domain or an endpoint of it was opened with FI_HMEM; NULL: none. */
	const struct uccl_hmem_ops *_Atomic hmem;
	struct uccl_dmabufs dmabufs; /* dmabufs that the program registered */
	pthread_mutex_t mr_lock;     /* protects the next two */
	struct uccl_mr *mrs;	/* regions that peers may access, by key */
	uint64_t next_key;
};

static inline struct uccl_domain *uccl_domain_of(struct fid *fid)
{
	return uccl_container_of(fid, struct uccl_domain, fid.fid);
}

/* Add the driver of an endpoint that was enabled; remove it before it closes. Its lock is not held. 0, -FI_ENOMEM. */
int uccl_domain_join(struct uccl_domain *d, struct uccl_driver *driver);
void uccl_domain_leave(struct uccl_domain *d, struct uccl_driver *driver);

/* Find the devices whose memory programs may pass, unless they were found: `hmem`. */
void uccl_domain_find_devices(struct uccl_domain *d);

/* Derive the group from an authorization key: equal keys make equal groups (flow/wire/conn.h). size 0: no group. */
void uccl_domain_group(uint8_t group[UCCL_KEY_LEN], const uint8_t *auth_key, size_t size);

/* From now on packets for any endpoint of the domain, also future ones, wake this sleeper; undo that. */
void uccl_domain_add_sleeper(struct uccl_domain *d, struct uccl_sleeper *s);
void uccl_domain_remove_sleeper(struct uccl_domain *d, struct uccl_sleeper *s);

#endif
