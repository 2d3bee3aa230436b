/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Questions and answers about names: nothing but a question gets an answer, which is as long, carries its nonce and the
 * address, and is no question; what is taken for an answer is one of an RDMA NIC, with a key. The magic and the sum of
 * the address are put right for some of the inputs, so that the checks behind them are reached.
 */
#include "input.h"

#include "base/le.h"
#include "flow/wire/name.h"

static void try(const uint8_t *data, size_t size, uint64_t nonce)
{
	uint8_t *exact = calloc(1, size ? size : 1), out[UCCL_NAME_LEN], again[UCCL_NAME_LEN], address[UCCL_ADDR_LEN];
	struct uccl_addr a;

	assert(exact);
	if (size)
		memcpy(exact, data, size);
	memset(address, 0x77, sizeof(address));
	if (uccl_name_answer(out, exact, size, address) == UCCL_DROP_COUNT) {
		assert(size == sizeof(out) && !memcmp(out + 8, exact + 8, 8) && uccl_get64(out + 8));
		assert(!memcmp(out + 16, address, sizeof(address)));
		assert(uccl_name_answer(again, out, sizeof(out), address) != UCCL_DROP_COUNT);
		/* Whoever asks like this gets the same. */
		uccl_name_ask(again, uccl_get64(exact + 8));
		assert(!memcmp(again, exact, size));
	}
	if (uccl_name_read(&a, exact, size, nonce) == UCCL_DROP_COUNT) {
		assert(size == sizeof(out) && uccl_get64(exact + 8) == nonce);
		assert(a.nic.pad && a.nic.port && !uccl_addr_keyless(&a));
		uccl_addr_encode(address, &a);
		assert(!memcmp(address, exact + 16, sizeof(address)));
	}
	free(exact);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t in[UCCL_NAME_LEN];

	try(data, size, 1);
	if (size < UCCL_NAME_LEN)
		return 0;
	memcpy(in, data, sizeof(in));
	memcpy(in, "UCNM\1", 5);
	try(in, sizeof(in), uccl_get64(in + 8));
	memcpy(in + 5, "\2\0\0", 3);
	memcpy(in + 16, "CL", 2);
	memcpy(in + 20, "\1\0", 2);
	uccl_put32(in + 68, fnv(in + 16, 52));
	try(in, sizeof(in), uccl_get64(in + 8));
	return 0;
}
