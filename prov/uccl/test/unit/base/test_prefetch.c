/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "base/prefetch.h"

#include "../tests.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static void near(const uint8_t *at, uint32_t len)
{
	uccl_prefetch_write(at, len);
	uccl_prefetch_read(at, len);
}

/* Memory that is not there, must not be touched, or ends in the middle: nothing happens, and nothing is changed. */
TEST(prefetch__any_address)
{
	long page = sysconf(_SC_PAGESIZE);
	uint8_t *at = mmap(NULL, 3 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_true(at != MAP_FAILED);
	memset(at, 0x5a, page);
	assert_int_equal(mprotect(at + page, page, PROT_NONE), 0);
	assert_int_equal(munmap(at + 2 * page, page), 0);
	for (uint32_t len = 0; len < 600; len++)
		for (int back = 0; back < 3; back++)
			near(at + page * (1 + back) - len / 2, len);
	near(at, 3 * page);
	for (long i = 0; i < page; i++)
		assert_int_equal(at[i], 0x5a);
	munmap(at, 2 * page);
}

TESTS_MAIN
