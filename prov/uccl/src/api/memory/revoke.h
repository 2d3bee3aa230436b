/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Rights to a region that its owner has taken from peers: some bytes from all of them, or all bytes from some. */
#ifndef UCCL_API_MEMORY_REVOKE_H
#define UCCL_API_MEMORY_REVOKE_H

#include <stdbool.h>
#include <stdint.h>

#include "flow/wire/addr.h"

struct uccl_mr_revoked;

/* *r NULL: none yet. `from`: all rights of the peer at this place, else these bytes of all. 0, or -FI_ENOMEM. */
int uccl_mr_revoked_add(struct uccl_mr_revoked **r, const struct uccl_nic_addr *from, uint64_t off, uint64_t len);
/* Has this peer lost its rights to any of these bytes? */
bool uccl_mr_is_revoked(const struct uccl_mr_revoked *r, const struct uccl_nic_addr *from, uint64_t off, uint64_t len);
void uccl_mr_revoked_free(struct uccl_mr_revoked *r);

#endif
