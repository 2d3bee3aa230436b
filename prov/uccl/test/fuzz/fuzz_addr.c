/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Addresses: what is accepted is well formed, survives encoding, and has a right sum; what has a right sum, magic,
 * version and port is accepted. The sum is put right for half of the inputs, so that the checks behind it are reached.
 */
#include "input.h"

#include <rdma/fi_errno.h>

#include "base/le.h"
#include "flow/wire/addr.h"

static void try(const uint8_t in[UCCL_ADDR_LEN])
{
	uint8_t again[UCCL_ADDR_LEN];
	struct uccl_addr a, b;
	bool good = !memcmp(in, "CL", 2) && uccl_get16(in + 4) == 1 && uccl_get16(in + 6) &&
		    uccl_get32(in + 52) == fnv(in, 52);
	int rc = uccl_addr_decode(&a, in);

	assert(rc == (good ? 0 : -FI_EINVAL));
	if (rc)
		return;
	assert(a.nic.port);
	assert(uccl_addr_keyless(&a) == !a.incarnation);
	uccl_addr_encode(again, &a);
	assert(!memcmp(again, in, sizeof(again)));
	assert(!uccl_addr_decode(&b, again));
	assert(uccl_nic_addr_equal(&a.nic, &b.nic) && a.incarnation == b.incarnation);
	b.nic.port ^= 1;
	assert(!uccl_nic_addr_equal(&a.nic, &b.nic));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t in[UCCL_ADDR_LEN];

	if (size < UCCL_ADDR_LEN)
		return 0;
	/* A copy of exactly its length, so that a sanitizer sees a read behind it. */
	memcpy(in, data, sizeof(in));
	try(in);
	uccl_put32(in + 52, fnv(in, 52));
	try(in);
	memcpy(in, "CL", 2);
	memcpy(in + 4, "\1\0", 2);
	uccl_put32(in + 52, fnv(in, 52));
	try(in);
	memcpy(in, "CLUC\1\0", 6);
	uccl_put32(in + 52, fnv(in, 52));
	try(in);
	return 0;
}
