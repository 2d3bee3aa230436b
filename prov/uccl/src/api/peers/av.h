/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Address vectors. A fi_addr_t is an index, for every fi_av_type. Endpoints cache the peers of the handles that they
 * looked up. A removal changes `generation`; endpoints then drop the cached entries that were removed.
 */
#ifndef UCCL_API_AV_H
#define UCCL_API_AV_H

#include <pthread.h>
#include <rdma/fi_domain.h>
#include <stdatomic.h>
#include <string.h>

#include "api/peers/addr_like.h"
#include "base/units.h"
#include "flow/wire/addr.h"

struct uccl_avshare;
struct uccl_domain;
struct uccl_eq;

struct uccl_av_entry {
	struct uccl_addr addr;
	bool used;
	uint32_t next;	/* index of the next entry: of its hash chain if used, else of the free list. AV_END: last */
};

/* The vector remembers this many of the latest removals. */
#define UCCL_AV_REMOVED 64

struct uccl_av {
	struct fid_av fid;
	struct uccl_domain *domain;
	struct uccl_eq *eq;
	uint8_t ctx_bits;	/* number of a handle's upper bits, which name a receive context */
	bool async;		/* FI_EVENT: insertions report to the event queue */
	_Atomic int refs;	/* bound endpoints */
	_Atomic uint32_t *generation; /* own_generation, or that of the shared table */
	_Atomic uint32_t own_generation; /* not shared: counts removed handles */
	uint32_t removed[UCCL_AV_REMOVED]; /* the latest removed handles, by generation % UCCL_AV_REMOVED */
	pthread_mutex_t lock;	/* protects the fields below; taken last */
	struct uccl_avshare *share; /* shared table of a named vector; NULL: the table is `v` */
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

/* Add an address; *out is the lowest free handle. 0, -FI_ENOMEM, or -FI_EACCES: the shared table is read only. */
int uccl_av_insert(struct uccl_av *av, const struct uccl_addr *addr, fi_addr_t *out);
/*
 * Fill gone[] with the handles that were removed since the generation *generation, and update that. Returns their
 * number. -1: there are too many, or the table is shared, so any handle may have been removed.
 */
int uccl_av_removed(struct uccl_av *av, uint32_t *generation, fi_addr_t gone[UCCL_AV_REMOVED]);
/* Remove handles. -FI_EINVAL: some are not in use; all others are removed. */
int uccl_av_remove(struct uccl_av *av, const fi_addr_t *fi_addr, size_t count);

/*
 * Change `addr` to that of the context `index` positions later: `index` ports later; on an RDMA NIC an indirect
 * address, which only the first context can resolve. False: there is no such context.
 */
bool uccl_av_context(struct uccl_addr *addr, int index);
/* One more than the highest possible handle, without the bits of receive contexts. */
fi_addr_t uccl_av_end(struct uccl_av *av);
/* The address of a handle, with the receive context that the handle names. -FI_EINVAL: no such handle. */
int uccl_av_get(struct uccl_av *av, fi_addr_t fi_addr, struct uccl_addr *out);

/*
 * The lowest handle of an address, without a receive context. An address without incarnation matches any incarnation at
 * its place. FI_ADDR_NOTAVAIL: not in the vector.
 */
fi_addr_t uccl_av_find(struct uccl_av *av, const struct uccl_addr *addr);

#endif
