/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The domain object: one interface with the run-time variables as they were when it was opened. */
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

/* Who sleeps until any endpoint of a domain has something. */
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
	uint8_t group[UCCL_KEY_LEN]; /* made of the authorization key; 0: none */
	bool locking;		/* several threads may be inside at once */
	bool auto_progress;
	struct uccl_drivers drivers; /* enabled endpoints: whoever reads a queue may drive any of them */
	struct uccl_drivers all; /* enabled endpoints: through any of them peers reach the regions */
	struct uccl_sleeper *sleepers; /* who sleeps on any of them; under the lock of `all` */
	unsigned int forks;	/* uccl_forks when it was opened */
	struct uccl_triggers triggers;
	pthread_mutex_t atomic_lock; /* around every atomic operation of a peer */
	_Atomic bool claimed;	/* one of them on memory of a device is under way */
	struct uccl_rescue rescue;
	int mr_mode;
	struct uccl_params params;
	_Atomic bool marks_said; /* that its NIC cannot tell of marks */
	/* Devices, if it or an endpoint of it was opened with FI_HMEM; NULL: none. */
	const struct uccl_hmem_ops *_Atomic hmem;
	struct uccl_dmabufs dmabufs; /* of them that the program gave us */
	pthread_mutex_t mr_lock;
	struct uccl_mr *mrs;	/* registered for remote access, by key */
	uint64_t next_key;
};

static inline struct uccl_domain *uccl_domain_of(struct fid *fid)
{
	return uccl_container_of(fid, struct uccl_domain, fid.fid);
}

/* An endpoint was enabled, or is about to be closed; its lock is not held. -FI_ENOMEM. */
int uccl_domain_join(struct uccl_domain *d, struct uccl_driver *driver);
void uccl_domain_leave(struct uccl_domain *d, struct uccl_driver *driver);

/* Those who have the same authorization key are a group (flow/wire/conn.h); one of no bytes makes none. */
void uccl_domain_group(uint8_t group[UCCL_KEY_LEN], const uint8_t *auth_key, size_t size);

/* What is bound to no endpoint of its own sleeps on all of them, those to come as well, until it is removed. */
void uccl_domain_add_sleeper(struct uccl_domain *d, struct uccl_sleeper *s);
void uccl_domain_remove_sleeper(struct uccl_domain *d, struct uccl_sleeper *s);

#endif
