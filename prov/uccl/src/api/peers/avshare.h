/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The table of a named address vector: a file in memory that processes of one user share. It is gone when the last of
 * them has closed it, and one that was left behind by processes that died begins anew.
 */
#ifndef UCCL_API_AVSHARE_H
#define UCCL_API_AVSHARE_H

#include <rdma/fi_domain.h>
#include <stdatomic.h>

#include "flow/wire/addr.h"

struct uccl_avshare;

/*
 * Make the table called `name` of a domain, with room for `count` addresses, or open the one that is there. read_only:
 * -FI_ENOENT if there is none.
 */
int uccl_avshare_open(const char *domain, const char *name, bool read_only, size_t count, struct uccl_avshare **s);
void uccl_avshare_close(struct uccl_avshare *s);

/* -FI_EACCES: read only. -FI_ENOMEM: full. */
int uccl_avshare_insert(struct uccl_avshare *s, const struct uccl_addr *addr, fi_addr_t *index);
/* -FI_EINVAL: there is no such entry. */
int uccl_avshare_remove(struct uccl_avshare *s, fi_addr_t index);
int uccl_avshare_get(struct uccl_avshare *s, fi_addr_t index, struct uccl_addr *addr);
fi_addr_t uccl_avshare_find(struct uccl_avshare *s, const struct uccl_addr *addr);

/* Changes with every removal. */
_Atomic uint32_t *uccl_avshare_generation(struct uccl_avshare *s);
/* The handles of all addresses in the order of insertion, for fi_av_attr.map_addr. */
void *uccl_avshare_map(struct uccl_avshare *s);

#endif
