/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "flow/wire/name.h"

#include "../../tests.h"

#include <string.h>

#include "base/le.h"

#define NONCE 0x1122334455667788u

static struct uccl_addr sample(void)
{
	struct uccl_addr a;

	memset(&a, 0, sizeof(a));
	memcpy(a.nic.ip, (uint8_t[16]){[10] = 0xff, 0xff, 192, 0, 2, 1}, sizeof(a.nic.ip));
	a.nic.port = 1234;
	a.nic.pad = 0xc001;
	a.nic.scope = 0x12000011;
	a.incarnation = 7;
	memset(a.key, 9, sizeof(a.key));
	return a;
}

static void answer_of(uint8_t out[UCCL_NAME_LEN], const struct uccl_addr *a)
{
	uint8_t ask[UCCL_NAME_LEN], address[UCCL_ADDR_LEN];

	uccl_name_ask(ask, NONCE);
	uccl_addr_encode(address, a);
	assert_int_equal(uccl_name_answer(out, ask, sizeof(ask), address), UCCL_DROP_COUNT);
}

TEST(name_ask__layout)
{
	uint8_t ask[UCCL_NAME_LEN], zero[UCCL_ADDR_LEN] = {0};

	uccl_name_ask(ask, NONCE);
	assert_memory_equal(ask, "UCNM\1\1\0\0", 8);
	assert_true(uccl_get64(ask + 8) == NONCE);
	assert_memory_equal(ask + 16, zero, sizeof(zero));
}

TEST(name_answer__layout)
{
	struct uccl_addr a = sample(), back;
	uint8_t answer[UCCL_NAME_LEN], address[UCCL_ADDR_LEN];

	answer_of(answer, &a);
	uccl_addr_encode(address, &a);
	assert_memory_equal(answer, "UCNM\1\2\0\0", 8);
	assert_true(uccl_get64(answer + 8) == NONCE);
	assert_memory_equal(answer + 16, address, sizeof(address));
	assert_int_equal(uccl_name_read(&back, answer, sizeof(answer), NONCE), UCCL_DROP_COUNT);
	assert_memory_equal(&back, &a, sizeof(a));
}

/* Every byte of a question but those of the nonce is as it must be, or there is no answer. */
TEST(name_answer__every_byte)
{
	uint8_t good[UCCL_NAME_LEN], bad[UCCL_NAME_LEN], out[UCCL_NAME_LEN], address[UCCL_ADDR_LEN] = {0};

	uccl_name_ask(good, NONCE);
	for (size_t i = 0; i < sizeof(good); i++) {
		enum uccl_drop want = i < 5 ? UCCL_DROP_MAGIC : i == 5 ? UCCL_DROP_TYPE : UCCL_DROP_RECORD;

		memcpy(bad, good, sizeof(bad));
		bad[i] ^= 0x40;
		if (i >= 8 && i < 16)
			want = UCCL_DROP_COUNT;
		assert_int_equal(uccl_name_answer(out, bad, sizeof(bad), address), want);
	}
	uccl_name_ask(bad, 0);
	assert_int_equal(uccl_name_answer(out, bad, sizeof(bad), address), UCCL_DROP_RECORD);
	for (size_t len = 0; len < sizeof(good); len++)
		assert_int_equal(uccl_name_answer(out, good, len, address), UCCL_DROP_LENGTH);
	assert_int_equal(uccl_name_answer(out, good, sizeof(good) + 1, address), UCCL_DROP_LENGTH);
}

/* Two that answer must not keep each other busy. */
TEST(name_answer__not_an_answer)
{
	struct uccl_addr a = sample();
	uint8_t answer[UCCL_NAME_LEN], address[UCCL_ADDR_LEN] = {0};

	answer_of(answer, &a);
	assert_int_equal(uccl_name_answer(answer, answer, sizeof(answer), address), UCCL_DROP_TYPE);
}

TEST(name_read__every_byte)
{
	uint8_t good[UCCL_NAME_LEN], bad[UCCL_NAME_LEN];
	struct uccl_addr a = sample(), out;

	answer_of(good, &a);
	for (size_t i = 0; i < sizeof(good); i++) {
		enum uccl_drop want = i < 5 ? UCCL_DROP_MAGIC : i == 5 ? UCCL_DROP_TYPE : UCCL_DROP_RECORD;

		memcpy(bad, good, sizeof(bad));
		bad[i] ^= 1;
		if (i >= 8 && i < 16)
			want = UCCL_DROP_COOKIE;
		assert_int_equal(uccl_name_read(&out, bad, sizeof(bad), NONCE), want);
	}
	for (size_t len = 0; len < sizeof(good); len++)
		assert_int_equal(uccl_name_read(&out, good, len, NONCE), UCCL_DROP_LENGTH);
	uccl_name_ask(bad, NONCE);
	assert_int_equal(uccl_name_read(&out, bad, sizeof(bad), NONCE), UCCL_DROP_TYPE);
}

/* An address that a socket has, or one without a key, is none that is asked for so. */
TEST(name_read__other_addresses)
{
	struct uccl_addr a = sample(), out;
	uint8_t answer[UCCL_NAME_LEN];

	a.nic.pad = 0;
	answer_of(answer, &a);
	assert_int_equal(uccl_name_read(&out, answer, sizeof(answer), NONCE), UCCL_DROP_RECORD);
	a = sample();
	a.incarnation = 0;
	answer_of(answer, &a);
	assert_int_equal(uccl_name_read(&out, answer, sizeof(answer), NONCE), UCCL_DROP_RECORD);
}

TESTS_MAIN
