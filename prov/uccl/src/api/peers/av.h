/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Address vectors. A fi_addr_t is an index, whatever the type asked for. Endpoints keep what they looked up; a removal
 * changes `generation`, upon which they forget it all.
 */
#ifndef UCCL_API_AV_H
#define UCCL_API_AV_H

#include <pthread.h>
#include <rdma/fi_domain.h>
#include <stdatomic.h>
#include <string.h>

#include "base/units.h"
#include "flow/wire/addr.h"

struct uccl_avshare;
struct uccl_domain;
struct uccl_eq;

struct uccl_av_entry {
	struct uccl_addr addr;
	bool used;
	uint32_t next;	/* used: in its hash chain; free: in the list of free ones. AV_END: last */
};

/* So many removals are remembered one by one. */
#define UCCL_AV_REMOVED 64

struct uccl_av {
	struct fid_av fid;
	struct uccl_domain *domain;
	struct uccl_eq *eq;
	uint8_t ctx_bits;	/* upper bits of a handle that name a receive context */
	bool async;		/* FI_EVENT: insertions report to the event queue */
	_Atomic int refs;	/* bound endpoints */
	_Atomic uint32_t *generation;
	_Atomic uint32_t own_generation; /* unless it is shared: counts the handles that were removed, */
	uint32_t removed[UCCL_AV_REMOVED]; /* the latest of these handles, by generation % UCCL_AV_REMOVED */
	pthread_mutex_t lock;	/* of what follows; taken last */
	struct uccl_avshare *share; /* the table of a named one; NULL: the one here */
	struct uccl_av_entry *v;
	uint32_t n, cap;
	uint32_t *buckets;	/* `cap` of them, a power of two: heads of chains by addr_hash() */
	uint32_t free_list;
};

static inline struct uccl_av *uccl_av_of(struct fid *fid)
{
	return uccl_container_of(fid, struct uccl_av, fid.fid);
}

void uccl_av_init(struct uccl_av *av);
void uccl_av_fini(struct uccl_av *av);

/* The handle of one more address: the lowest that is free. -FI_ENOMEM; -FI_EACCES: the table is another's. */
int uccl_av_insert(struct uccl_av *av, const struct uccl_addr *addr, fi_addr_t *out);
/*
 * The handles that were removed since `generation` was what *generation says, which becomes what it is. -1: they are
 * too many to tell, or the table is shared: any may be among them.
 */
int uccl_av_removed(struct uccl_av *av, uint32_t *generation, fi_addr_t gone[UCCL_AV_REMOVED]);
/* -FI_EINVAL: some were no handles. */
int uccl_av_remove(struct uccl_av *av, const fi_addr_t *fi_addr, size_t count);

/*
 * Is this entry the address? 2: exactly; 1: one of both has no incarnation; 0: no. The place of an indirect address is
 * another one's: who it is tells the incarnation.
 */
static inline int uccl_av_like(const struct uccl_addr *entry, const struct uccl_addr *addr)
{
	if (addr->indirect)
		return entry->nic.pad && !memcmp(entry->nic.ip, addr->nic.ip, sizeof(addr->nic.ip)) &&
				       entry->incarnation == addr->incarnation ? 2 : 0;
	if (!uccl_nic_addr_equal(&entry->nic, &addr->nic))
		return 0;
	if (entry->incarnation == addr->incarnation)
		return 2;
	return uccl_addr_keyless(entry) || uccl_addr_keyless(addr);
}

/*
 * Go on from `addr` to the context that is `index` places further: at the next ports, or, on an RDMA NIC, where only
 * the first knows (the address is indirect). False: there is none.
 */
bool uccl_av_context(struct uccl_addr *addr, int index);
/* One more than the highest handle that there may be, receive contexts aside. */
fi_addr_t uccl_av_end(struct uccl_av *av);
/* The address behind a handle, of that receive context. -FI_EINVAL: none. */
int uccl_av_get(struct uccl_av *av, fi_addr_t fi_addr, struct uccl_addr *out);

/*
 * The lowest handle of an address, without a receive context; one without incarnation stands for any at its place.
 * FI_ADDR_NOTAVAIL: none.
 */
fi_addr_t uccl_av_find(struct uccl_av *av, const struct uccl_addr *addr);

#endif
