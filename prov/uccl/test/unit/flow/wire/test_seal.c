/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "flow/wire/seal.h"

#include "../../tests.h"

#include <stdlib.h>
#include <string.h>

#include "flow/wire/wire.h"

static struct uccl_seal a, b; /* a sends to b */

static int begin(void **state)
{
	uint8_t ab[UCCL_LONG_KEY], ba[UCCL_LONG_KEY];

	memset(ab, 0x31, sizeof(ab));
	memset(ba, 0x92, sizeof(ba));
	uccl_seal_init(&a, ab, ba);
	uccl_seal_init(&b, ba, ab);
	return 0;
}

/* A packet as it lies in the receiver's memory; its length. */
static uint32_t packet(uint8_t *out, uint16_t payload, uint16_t tail)
{
	struct uccl_hdr h = {.type = UCCL_PKT_CHUNK, .payload_len = payload, .tail_len = tail, .token = 5};
	static uint8_t data[2000];
	struct uccl_tx tx = {.hdr_len = UCCL_HDR_LEN, .payload = data, .payload_len = payload, .tail_len = tail};

	memset(data, 0x55, sizeof(data));
	memset(tx.tail, 0x66, tail);
	uccl_hdr_encode(tx.hdr, &h);
	uccl_seal_put(&a, &tx);
	assert_int_equal(tx.tail_len, tail + UCCL_SEAL_LEN);
	memcpy(out, tx.hdr, UCCL_HDR_LEN);
	memcpy(out + UCCL_HDR_LEN, data, payload);
	memcpy(out + UCCL_HDR_LEN + payload, tx.tail, tx.tail_len);
	return UCCL_HDR_LEN + (uint32_t)payload + tx.tail_len;
}

TEST_IN(seal_put__well_formed, begin, NULL)
{
	uint8_t p[3000];
	struct uccl_hdr h;
	uint32_t n;

	for (uint16_t payload = 0; payload < 2000; payload = (uint16_t)(payload + 331)) {
		for (uint16_t tail = 0; tail <= UCCL_TAIL_MAX; tail = (uint16_t)(tail + 64)) {
			n = packet(p, payload, tail);
			assert_int_equal(uccl_hdr_decode(&h, p, n), UCCL_DROP_COUNT);
			assert_int_equal(h.payload_len, payload);
			assert_int_equal(h.tail_len, tail);
			assert_int_equal(uccl_seal_check(&b, p, n), UCCL_DROP_COUNT);
		}
	}
}

/* PROTOCOL R90 */
TEST_IN(seal_check__every_bit, begin, NULL)
{
	uint8_t p[1000];
	uint32_t n = packet(p, 100, 40);

	for (uint32_t bit = 0; bit < 8 * n; bit++) {
		p[bit / 8] ^= (uint8_t)(1u << bit % 8);
		assert_int_equal(uccl_seal_check(&b, p, n), UCCL_DROP_SEAL);
		p[bit / 8] ^= (uint8_t)(1u << bit % 8);
	}
	/* None of that has used its number up. */
	assert_int_equal(uccl_seal_check(&b, p, n), UCCL_DROP_COUNT);
}

TEST_IN(seal_check__truncated, begin, NULL)
{
	uint8_t p[1000], *exact;
	uint32_t n = packet(p, 100, 40);

	for (uint32_t len = 0; len < n; len++) {
		exact = malloc(len + 1); /* so that a sanitizer sees what is read beyond */
		memcpy(exact, p, len);
		assert_int_equal(uccl_seal_check(&b, exact, len), UCCL_DROP_SEAL);
		free(exact);
	}
}

TEST_IN(seal_check__unsealed, begin, NULL)
{
	uint8_t p[UCCL_HDR_LEN + UCCL_SEAL_LEN + 8] = {0};
	struct uccl_hdr h = {.type = UCCL_PKT_PROBE};

	uccl_hdr_encode(p, &h);
	assert_int_equal(uccl_seal_check(&b, p, sizeof(p)), UCCL_DROP_SEAL);
}

/* One's own packets, sent back. */
TEST_IN(seal_check__reflected, begin, NULL)
{
	uint8_t p[1000];
	uint32_t n = packet(p, 10, 0);

	assert_int_equal(uccl_seal_check(&a, p, n), UCCL_DROP_SEAL);
}

/* PROTOCOL R91 */
TEST_IN(seal_check__replayed, begin, NULL)
{
	uint8_t first[200], p[200];
	uint32_t n = packet(first, 10, 0);
	int i;

	assert_int_equal(uccl_seal_check(&b, first, n), UCCL_DROP_COUNT);
	for (i = 0; i < 3 * UCCL_SEAL_WINDOW; i++) {
		if (i < 200 || i % 1000 == 0)
			assert_int_equal(uccl_seal_check(&b, first, n), UCCL_DROP_REPLAY);
		n = packet(p, 10, 0);
		assert_int_equal(uccl_seal_check(&b, p, n), UCCL_DROP_COUNT);
		assert_int_equal(uccl_seal_check(&b, p, n), UCCL_DROP_REPLAY);
	}
}

/* Paths differ: what is late by less than a window is taken, once. */
TEST_IN(seal_check__late, begin, NULL)
{
	static uint8_t p[UCCL_SEAL_WINDOW + 10][UCCL_HDR_LEN + UCCL_SEAL_LEN];
	uint32_t n = 0, last = UCCL_SEAL_WINDOW + 9, edge = last - (UCCL_SEAL_WINDOW - 64);

	for (uint32_t i = 0; i <= last; i++)
		n = packet(p[i], 0, 0);
	assert_int_equal(uccl_seal_check(&b, p[last], n), UCCL_DROP_COUNT);
	for (uint32_t i = 0; i <= edge; i++)
		assert_int_equal(uccl_seal_check(&b, p[i], n), UCCL_DROP_REPLAY);
	for (uint32_t i = last - 1; i > edge; i--)
		assert_int_equal(uccl_seal_check(&b, p[i], n), UCCL_DROP_COUNT);
	for (uint32_t i = edge + 1; i <= last; i++)
		assert_int_equal(uccl_seal_check(&b, p[i], n), UCCL_DROP_REPLAY);
}

/* Far beyond what was seen: what lies between is free, and what was before is too late. */
TEST_IN(seal_check__leap, begin, NULL)
{
	uint8_t old[100], p[100];
	uint32_t n = packet(old, 0, 0);

	for (int i = 0; i < 3000; i++)
		n = packet(p, 0, 0);
	for (uint64_t leap = 1; leap < 1ull << 40; leap = leap * 3 + 7) {
		a.tx_number += leap;
		n = packet(p, 0, 0);
		assert_int_equal(uccl_seal_check(&b, p, n), UCCL_DROP_COUNT);
		a.tx_number -= 2;
		n = packet(p, 0, 0);
		assert_int_equal(uccl_seal_check(&b, p, n), UCCL_DROP_COUNT);
		assert_int_equal(uccl_seal_check(&b, p, n), UCCL_DROP_REPLAY);
		a.tx_number++;
	}
	assert_int_equal(uccl_seal_check(&b, old, n), UCCL_DROP_REPLAY);
}

TESTS_MAIN
