/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Which entries of address vectors stand for an address. */
#ifndef UCCL_API_ADDR_LIKE_H
#define UCCL_API_ADDR_LIKE_H

#include <string.h>

#include "flow/wire/addr.h"

/*
 * Compare an entry with an address. 2: equal; 1: equal, but one of them has no incarnation; 0: different. The place in
 * an indirect address (uccl_addr.indirect) is another context's, so only its IP and its incarnation count.
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

#endif
