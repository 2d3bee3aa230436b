/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The 56-byte endpoint address. */
#include "flow/wire/addr.h"

#include <rdma/fi_errno.h>
#include <string.h>

#include "base/le.h"

#define ADDR_MAGIC 0x4c43u  /* "CL" */
#define ADDR_MAGIC2 0x4355u /* "UC", if pad is 0 */
#define ADDR_VERSION 1

/* Guards against a damaged or foreign blob, not against an attacker: FNV-1a, 32 bits. */
static uint32_t addr_sum(const uint8_t *p, size_t len)
{
	uint32_t h = 2166136261u;

	for (size_t i = 0; i < len; i++)
		h = (h ^ p[i]) * 16777619u;
	return h;
}

void uccl_addr_encode(uint8_t out[UCCL_ADDR_LEN], const struct uccl_addr *a)
{
	uccl_put16(out, ADDR_MAGIC);
	uccl_put16(out + 2, ADDR_MAGIC2 ^ a->nic.pad);
	uccl_put16(out + 4, ADDR_VERSION);
	uccl_put16(out + 6, a->nic.port);
	memcpy(out + 8, a->nic.ip, 16);
	uccl_put32(out + 24, a->nic.scope);
	uccl_put64(out + 28, a->incarnation);
	memcpy(out + 36, a->key, UCCL_KEY_LEN);
	uccl_put32(out + 52, addr_sum(out, 52));
}

int uccl_addr_decode(struct uccl_addr *a, const uint8_t in[UCCL_ADDR_LEN])
{
	memset(a, 0, sizeof(*a));
	if (uccl_get16(in) != ADDR_MAGIC || uccl_get16(in + 4) != ADDR_VERSION ||
	    uccl_get32(in + 52) != addr_sum(in, 52) || !uccl_get16(in + 6))
		return -FI_EINVAL;
	a->nic.pad = uccl_get16(in + 2) ^ ADDR_MAGIC2;
	a->nic.port = uccl_get16(in + 6);
	memcpy(a->nic.ip, in + 8, 16);
	a->nic.scope = uccl_get32(in + 24);
	a->incarnation = uccl_get64(in + 28);
	memcpy(a->key, in + 36, UCCL_KEY_LEN);
	return 0;
}

bool uccl_nic_addr_equal(const struct uccl_nic_addr *a, const struct uccl_nic_addr *b)
{
	/* An IPv6 scope is the number that each host has for itself; a queue pair's is the NIC's. */
	return a->port == b->port && !memcmp(a->ip, b->ip, sizeof(a->ip)) && !a->pad == !b->pad &&
	       (!a->pad || a->scope == b->scope);
}
