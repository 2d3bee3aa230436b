/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The domain object: one interface with the run-time variables as they were when it was opened. */
#ifndef UCCL_API_DOMAIN_H
#define UCCL_API_DOMAIN_H

#include <pthread.h>
#include <rdma/fi_domain.h>
#include <stdatomic.h>

#include "api/fabric.h"
#include "api/param.h"
#include "api/progress.h"
#include "api/rescue.h"
#include "api/trigger.h"
#include "core/addr.h"
#include "nic/ifaddr.h"

struct uccl_cntr;
struct uccl_hmem_ops;
struct uccl_mr;

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
	struct uccl_ep_list eps; /* enabled endpoints, if `shared` */
	bool shared;		/* whoever reads a queue may drive any endpoint */
	struct uccl_ep_list all; /* enabled endpoints: through any of them peers reach the regions */
	struct uccl_cntr *mr_cntrs; /* counters bound to regions; under the lock of `all` */
	unsigned int forks;	/* uccl_forks when it was opened */
	struct uccl_triggers triggers;
	pthread_mutex_t atomic_lock; /* around every atomic operation of a peer */
	_Atomic unsigned int idle; /* reads that found nothing */
	struct uccl_rescue rescue;
	int mr_mode;
	struct uccl_params params;
	/* Devices, if it or an endpoint of it was opened with FI_HMEM; NULL: none. */
	const struct uccl_hmem_ops *_Atomic hmem;
	pthread_mutex_t mr_lock;
	struct uccl_mr *mrs;	/* registered for remote access, by key */
	uint64_t next_key;
};

int uccl_domain_open(struct fid_fabric *fabric, struct fi_info *info, struct fid_domain **domain, void *context);

/*
 * A program reads a queue and finds nothing: the other endpoints of the domain get a turn, too. A peer may wait for one
 * whose queue nobody reads any more.
 */
void uccl_domain_idle(struct uccl_domain *d);
/* An endpoint was enabled, or is about to be closed; its lock is not held. -FI_ENOMEM. */
int uccl_domain_join(struct uccl_domain *d, struct uccl_ep *ep);
void uccl_domain_leave(struct uccl_domain *d, struct uccl_ep *ep);

/* Those who have the same authorization key are a group (core/conn.h); one of no bytes makes none. */
void uccl_domain_group(uint8_t group[UCCL_KEY_LEN], const uint8_t *auth_key, size_t size);

/* Ours, or NULL: opened by another provider. */
struct uccl_domain *uccl_domain_of(struct fid_domain *domain);

#endif
