/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Shadow ownership of the application's buffers (invariant I1). A buffer is the application's until it is posted and
 * again from its completion on; in between the provider may read it (a send) or write it (a receive). Every access of a
 * simulated NIC is checked here at the moment when it happens.
 */
#ifndef UCCL_SIM_OWNER_H
#define UCCL_SIM_OWNER_H

#include <stdbool.h>
#include <stdint.h>

enum uccl_owner_right { UCCL_OWNER_NONE, UCCL_OWNER_READ, UCCL_OWNER_WRITE };

struct uccl_owner_region;

struct uccl_owner {
	struct uccl_owner_region **v; /* ordered by address */
	uint32_t n, cap;
};

void uccl_owner_init(struct uccl_owner *o);
void uccl_owner_fini(struct uccl_owner *o);

/*
 * Watch [base, base + total), of which [base + skip, base + skip + len) is the buffer and the rest must never be
 * touched. The application's at first. 0 or -FI_ENOMEM.
 */
int uccl_owner_add(struct uccl_owner *o, const void *base, uint64_t total, uint64_t skip, uint64_t len);
/* Watch it no more. */
void uccl_owner_remove(struct uccl_owner *o, const void *base);
/* Give the whole buffer to the provider, or (UCCL_OWNER_NONE) back to the application. */
void uccl_owner_give(struct uccl_owner *o, const void *base, enum uccl_owner_right right);
/* Give only this part back to the application: one message of a multi-receive buffer. */
void uccl_owner_part(struct uccl_owner *o, const void *ptr, uint64_t len);

/* May a NIC access [ptr, ptr + len) so? NULL: yes (memory not watched is the provider's own); else a text. */
const char *uccl_owner_check(const struct uccl_owner *o, const void *ptr, uint64_t len, enum uccl_owner_right right);

#endif
