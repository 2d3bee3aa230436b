/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Address handles: what a UD queue pair needs for each place, traffic class and flow label that it sends to. They are
 * made when first needed, kept, and bounded in number; those not used for longest go first. Making one asks the
 * network for a MAC address, which takes a moment, or seconds if nobody answers: a place that failed is left alone
 * for ten times as long as that took.
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
	uint32_t users; /* sends that are not done */
	bool stale;	/* a send by it broke: make it anew when nobody uses it */
	struct uccl_verbs_ah_key key;
	UT_hash_handle hh;
	TAILQ_ENTRY(uccl_verbs_ah) lru;
};

struct uccl_verbs_ahs;

/* What leads from `port` to a place. */
void uccl_verbs_route(const struct uccl_verbs_port *port, const struct uccl_verbs_ah_key *to,
		      struct ibv_ah_attr *attr);

/* At most `limit` handles of `port`, whose device has `pd`; `clock` gives ns. -FI_ENOMEM. */
int uccl_verbs_ahs_open(const struct uccl_verbs *lib, struct ibv_pd *pd, const struct uccl_verbs_port *port,
			uint32_t limit, uint64_t (*clock)(void), struct uccl_verbs_ahs **ahs);
void uccl_verbs_ahs_close(struct uccl_verbs_ahs *ahs);

/*
 * The handle to `to` (its ip and, on InfiniBand, the LID in its pad); one user more. -FI_EAGAIN: as many as may be are
 * all in use; -FI_EHOSTUNREACH: there is none now, so a packet to there is lost; -FI_ENOMEM.
 */
int uccl_verbs_ah_get(struct uccl_verbs_ahs *ahs, const struct uccl_nic_addr *to, const struct uccl_verbs_mark *mark,
		      uint32_t flow, struct uccl_verbs_ah **out);
/* A user less. */
void uccl_verbs_ah_put(struct uccl_verbs_ah *ah);
/*
 * The port has changed: its GID has another number, if `gid_index` differs, so that handles are made anew, or its link
 * is back, so that places which could not be reached may be tried at once.
 */
void uccl_verbs_ahs_refresh(struct uccl_verbs_ahs *ahs, uint32_t gid_index);
/* A send by this handle failed in the NIC: nothing goes to that place for a moment. */
void uccl_verbs_ah_suspect(struct uccl_verbs_ahs *ahs, const struct uccl_verbs_ah *ah);

#endif

#endif
