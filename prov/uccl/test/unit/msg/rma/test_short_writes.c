/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Memory of short writes that were granted. */
#include "../duo.h"

#include "msg/rma/short_writes.h"
#include "../../tests.h"

static struct msg_place place(uintptr_t from, size_t len)
{
	return (struct msg_place){.niov = 1, .iov = {{.iov_base = (void *)from, .iov_len = len}}};
}

static bool meets(const struct uccl_peer *p, uintptr_t from, size_t len)
{
	struct msg_place at = place(from, len);

	return msg_short_writes_meets(p, &at);
}

static void add(struct uccl_peer *p, uintptr_t from, size_t len, uint16_t *index)
{
	struct msg_place at = place(from, len);

	assert_true(msg_short_writes_add(p, &at, index));
}

/* PROTOCOL R407 */
TEST(short_writes__meets)
{
	static struct uccl_peer p;
	uint16_t a = 0, b = 0, none = 0;

	assert_false(meets(&p, 0, SIZE_MAX));
	add(&p, 1000, 100, &a);
	add(&p, 5000, 100, &b);
	assert_true(meets(&p, 1000, 1) && meets(&p, 1099, 1) && meets(&p, 900, 101) && meets(&p, 5050, 1000));
	assert_false(meets(&p, 900, 100) || meets(&p, 1100, 3900) || meets(&p, 5100, 1));
	msg_short_writes_end(&p, &a);
	msg_short_writes_end(&p, &a);
	msg_short_writes_end(&p, &none);
	assert_false(meets(&p, 1000, 100));
	assert_true(meets(&p, 5000, 100));
	msg_short_writes_end(&p, &b);
	assert_int_equal(p.serve.nshort_writes, 0);
	assert_null(p.serve.short_writes);
}

/* What lies between the pieces of a write is its memory, too. */
TEST(short_writes__pieces)
{
	static struct uccl_peer p;
	struct msg_place at = place(3000, 10), reads = place(50, 1);
	uint16_t a = 0;

	at.iov[at.niov++] = (struct iovec){.iov_base = (void *)(uintptr_t)1000, .iov_len = 10};
	assert_true(msg_short_writes_add(&p, &at, &a));
	assert_true(meets(&p, 1000, 1) && meets(&p, 2000, 1) && meets(&p, 3009, 1));
	assert_false(meets(&p, 3010, 1) || meets(&p, 999, 1));
	/* Any piece of the other one. */
	assert_false(msg_short_writes_meets(&p, &reads));
	reads.iov[reads.niov++] = (struct iovec){.iov_base = (void *)(uintptr_t)1005, .iov_len = 1};
	assert_true(msg_short_writes_meets(&p, &reads));
	msg_short_writes_end(&p, &a);
}

/* In any order, up to the most. */
TEST(short_writes__many)
{
	static struct uccl_peer p;
	uint16_t index[UCCL_SHORT_WRITES_MAX] = {0};

	for (uint32_t i = 0; i < UCCL_SHORT_WRITES_MAX; i++) {
		assert_true(msg_short_writes_room(&p));
		add(&p, 1000 * (i + 1), 1000, &index[i]);
	}
	assert_false(msg_short_writes_room(&p));
	for (uint32_t k = 0; k < UCCL_SHORT_WRITES_MAX; k++) {
		uint32_t i = k * 77 % UCCL_SHORT_WRITES_MAX;

		assert_true(meets(&p, 1000 * (i + 1), 1));
		msg_short_writes_end(&p, &index[i]);
		assert_false(meets(&p, 1000 * (i + 1), 1000));
	}
	assert_null(p.serve.short_writes);
}

TESTS_MAIN
