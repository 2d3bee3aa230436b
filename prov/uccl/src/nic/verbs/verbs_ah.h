/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * A cache of address handles. A UD queue pair needs one for each address, traffic class and flow label that it sends
 * to. A handle is made on first use and kept; least recently used ones are evicted. To make one, the kernel asks the
 * network for a MAC address. That takes a moment, or seconds if nobody answers. So after a failure the address is not
 * tried again for ten times as long as the failure took.
 */
#ifndef UCCL_NIC_VERBS_VERBS_AH_H
#define UCCL_NIC_VERBS_VERBS_AH_H

#include "nic/verbs/verbs_dev.h"

#ifdef HAVE_VERBS

#include <sys/queue.h>

#include "base/hash.h"
#include "nic/verbs/verbs_lib.h"

/* How packets of one kind are marked: the GRH's traffic class (RoCE: TOS, so DSCP) and InfiniBand's service level. */
struct uccl_verbs_mark {
	uint8_t traffic_class, service_level;
};

struct uccl_verbs_ah_key {
	uint8_t ip[16];
	uint32_t flow;
	uint16_t lid;
	struct uccl_verbs_mark mark;
};

struct uccl_verbs_ah {
	struct ibv_ah *ah;
	uint32_t users; /* sends under way with it */
	bool stale;	/* a send with it failed; it is replaced when it has no users */
	struct uccl_verbs_ah_key key;
	UT_hash_handle hh;
	TAILQ_ENTRY(uccl_verbs_ah) lru;
};

struct uccl_verbs_ahs;

/* Fill *attr with the route from `port` to an address. */
void uccl_verbs_route(const struct uccl_verbs_port *port, const struct uccl_verbs_ah_key *to,
		      struct ibv_ah_attr *attr);

/* At most `limit` handles of `port`, whose device has `pd`; `clock` gives ns. -FI_ENOMEM. */
int uccl_verbs_ahs_open(const struct uccl_verbs *lib, struct ibv_pd *pd, const struct uccl_verbs_port *port,
			uint32_t limit, uint64_t (*clock)(void), struct uccl_verbs_ahs **ahs);
void uccl_verbs_ahs_close(struct uccl_verbs_ahs *ahs);

/*
 * Get the handle for `to` (its ip and, on InfiniBand, the LID in its pad), and count one more user. -FI_EAGAIN: `limit`
 * handles are in use. -FI_EHOSTUNREACH: no handle can be made now, so count the packet as lost. -FI_ENOMEM.
 */
int uccl_verbs_ah_get(struct uccl_verbs_ahs *ahs, const struct uccl_nic_addr *to, const struct uccl_verbs_mark *mark,
		      uint32_t flow, struct uccl_verbs_ah **out);
/* Count one user less. */
void uccl_verbs_ah_put(struct uccl_verbs_ah *ah);
/*
 * The port has changed. If the index of its GID changed to `gid_index`, all handles are made again. Addresses that
 * could not be reached may be tried at once, since the link may be back.
 */
void uccl_verbs_ahs_refresh(struct uccl_verbs_ahs *ahs, uint32_t gid_index);
/* A send with this handle failed in the NIC: nothing is sent to its address for a moment. */
void uccl_verbs_ah_suspect(struct uccl_verbs_ahs *ahs, const struct uccl_verbs_ah *ah);

#endif

#endif
