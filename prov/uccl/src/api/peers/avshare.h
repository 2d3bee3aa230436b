/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The table of a named address vector, in memory that processes of one user share (progress/shm_segment.h). It
 * disappears when the last of them closes it. If processes died and left their file behind, the next one begins an
 * empty table.
 */
#ifndef UCCL_API_AVSHARE_H
#define UCCL_API_AVSHARE_H

#include <rdma/fi_domain.h>
#include <stdatomic.h>

#include "flow/wire/addr.h"

struct uccl_avshare;

/*
 * Open the table `name` of a domain; if there is none, make one with room for `count` addresses. -FI_ENOENT: there is
 * none, and read_only.
 */
int uccl_avshare_open(const char *domain, const char *name, bool read_only, size_t count, struct uccl_avshare **s);
void uccl_avshare_close(struct uccl_avshare *s);

/* -FI_EACCES: opened read only. -FI_ENOMEM: the table is full. */
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
