/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "flow/wire/name.h"

#include <string.h>

#include "base/le.h"

#define NAME_MAGIC 0x4d4e4355u /* "UCNM" */
#define NAME_VERSION 1

enum { ASK = 1, ANSWER = 2 };

static void head_encode(uint8_t *out, uint8_t kind, uint64_t nonce)
{
	uccl_put32(out, NAME_MAGIC);
	out[4] = NAME_VERSION;
	out[5] = kind;
	uccl_put16(out + 6, 0);
	uccl_put64(out + 8, nonce);
}

static enum uccl_drop head_check(const uint8_t *in, size_t len, uint8_t kind)
{
	if (len != UCCL_NAME_LEN)
		return UCCL_DROP_LENGTH;
	if (uccl_get32(in) != NAME_MAGIC || in[4] != NAME_VERSION)
		return UCCL_DROP_MAGIC;
	if (in[5] != kind)
		return UCCL_DROP_TYPE;
	return uccl_get16(in + 6) || !uccl_get64(in + 8) ? UCCL_DROP_RECORD : UCCL_DROP_COUNT;
}

void uccl_name_ask(uint8_t out[UCCL_NAME_LEN], uint64_t nonce)
{
	memset(out, 0, UCCL_NAME_LEN);
	head_encode(out, ASK, nonce);
}

enum uccl_drop uccl_name_answer(uint8_t out[UCCL_NAME_LEN], const uint8_t *in, size_t len,
				const uint8_t address[UCCL_ADDR_LEN])
{
	enum uccl_drop reason = head_check(in, len, ASK);

	for (size_t i = 16; i < UCCL_NAME_LEN && reason == UCCL_DROP_COUNT; i++)
		if (in[i])
			reason = UCCL_DROP_RECORD;
	if (reason != UCCL_DROP_COUNT)
		return reason;
	head_encode(out, ANSWER, uccl_get64(in + 8));
	memcpy(out + 16, address, UCCL_ADDR_LEN);
	return reason;
}

enum uccl_drop uccl_name_read(struct uccl_addr *out, const uint8_t *in, size_t len, uint64_t nonce)
{
	enum uccl_drop reason = head_check(in, len, ANSWER);

	if (reason != UCCL_DROP_COUNT)
		return reason;
	if (uccl_get64(in + 8) != nonce)
		return UCCL_DROP_COOKIE;
	/* Only endpoints of RDMA NICs are asked for so, and all of them have a key to prove themselves by. */
	return uccl_addr_decode(out, in + 16) || !out->nic.pad || uccl_addr_keyless(out) ? UCCL_DROP_RECORD :
											     UCCL_DROP_COUNT;
}
