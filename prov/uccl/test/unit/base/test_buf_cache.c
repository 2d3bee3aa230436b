/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "base/buf_cache.h"

#include "../tests.h"

#include <string.h>

#define ONE UCCL_BUF_CACHE_BYTES(0)
#define MAX (3u * ONE)

/* Under AddressSanitizer nothing is kept. */
#ifdef __SANITIZE_ADDRESS__
#define KEPT(bytes) 0u
#else
#define KEPT(bytes) (bytes)
#endif

static struct uccl_buf_cache s;

static int setup(void **state)
{
	uccl_buf_cache_init(&s, MAX);
	return 0;
}

static int teardown(void **state)
{
	uccl_buf_cache_fini(&s);
	return 0;
}

TEST_IN(init__keeps_nothing, setup, teardown)
{
	assert_int_equal(s.kept, 0);
	assert_int_equal(s.max, MAX);
}

TEST_IN(fini__starts_over, setup, teardown)
{
	uccl_buf_cache_put(&s, uccl_buf_cache_get(&s, UCCL_BUF_CACHE_LEAST, 0), UCCL_BUF_CACHE_LEAST);
	assert_int_equal(s.kept, KEPT(ONE));
	uccl_buf_cache_fini(&s);
	assert_int_equal(s.kept, 0);
	assert_int_equal(s.max, MAX);
	for (unsigned int c = 0; c < UCCL_BUF_CACHE_CLASSES; c++)
		assert_null(s.list[c]);
}

/* What is kept serves whoever wants no more than it has; every byte of it can be written. */
TEST_IN(get__what_was_put, setup, teardown)
{
	uint8_t *buf, *other;

	buf = uccl_buf_cache_get(&s, ONE + 1, ONE + 1);
	assert_non_null(buf);
	memset(buf, 0xee, ONE + 1);
	uccl_buf_cache_put(&s, buf, ONE + 1);
	assert_int_equal(s.kept, KEPT(2 * ONE));
	/* A shorter one, and a longer one: not that. */
	other = uccl_buf_cache_get(&s, UCCL_BUF_CACHE_LEAST, 0);
	assert_int_equal(s.kept, KEPT(2 * ONE));
	uccl_buf_cache_put(&s, other, UCCL_BUF_CACHE_LEAST);
	other = uccl_buf_cache_get(&s, 2 * UCCL_BUF_CACHE_LEAST, 0);
	assert_int_equal(s.kept, KEPT(ONE));
	for (unsigned int i = 0; i < 2 * UCCL_BUF_CACHE_LEAST; i++)
		assert_int_equal(other[i], 0);
	memset(other, 0xee, 2 * UCCL_BUF_CACHE_LEAST);
	uccl_buf_cache_put(&s, other, 2 * UCCL_BUF_CACHE_LEAST);
}

/* Nothing of what it held before is told: what is not filled at once is 0, whether it was kept or is new. */
TEST_IN(get__tells_nothing, setup, teardown)
{
	static const size_t lens[] = {1, 100, UCCL_BUF_CACHE_LEAST - 1, UCCL_BUF_CACHE_LEAST,
				      2 * UCCL_BUF_CACHE_LEAST - 3};

	for (unsigned int i = 0; i < sizeof(lens) / sizeof(lens[0]); i++)
		for (size_t filled = 0; filled <= lens[i]; filled += lens[i] / 3 + 1)
			for (int again = 0; again < 2; again++) {
				uint8_t *buf = uccl_buf_cache_get(&s, lens[i], filled);

				assert_non_null(buf);
				for (size_t k = filled; k < lens[i]; k++)
					assert_int_equal(buf[k], 0);
				memset(buf, 0xee, lens[i]);
				uccl_buf_cache_put(&s, buf, lens[i]);
			}
}

/* Neither what is short nor what is long is kept, nor more than the bound. */
TEST_IN(put__bound, setup, teardown)
{
	void *buf[4];

	uccl_buf_cache_put(&s, uccl_buf_cache_get(&s, UCCL_BUF_CACHE_LEAST - 1, 0), UCCL_BUF_CACHE_LEAST - 1);
	assert_int_equal(s.kept, 0);
	s.max = 1u << 30;
	uccl_buf_cache_put(&s, uccl_buf_cache_get(&s, UCCL_BUF_CACHE_MOST + 1, 0), UCCL_BUF_CACHE_MOST + 1);
	assert_int_equal(s.kept, 0);
	uccl_buf_cache_put(&s, uccl_buf_cache_get(&s, UCCL_BUF_CACHE_MOST, 0), UCCL_BUF_CACHE_MOST);
	assert_int_equal(s.kept, KEPT(UCCL_BUF_CACHE_MOST));
	uccl_buf_cache_fini(&s);
	s.max = MAX;
	for (int i = 0; i < 4; i++)
		buf[i] = uccl_buf_cache_get(&s, UCCL_BUF_CACHE_LEAST, 0);
	for (int i = 0; i < 4; i++)
		uccl_buf_cache_put(&s, buf[i], UCCL_BUF_CACHE_LEAST);
	assert_int_equal(s.kept, KEPT(MAX));
}

TESTS_MAIN
