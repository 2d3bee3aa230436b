/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "sim/owner.h"

#include "../tests.h"

TEST(owner__knows_parts_and_edges)
{
	static uint8_t mem[1000];
	struct uccl_owner o;

	uccl_owner_init(&o);
	assert_int_equal(uccl_owner_add(&o, mem + 500, 100, 10, 80), 0);
	assert_int_equal(uccl_owner_add(&o, mem + 100, 100, 10, 80), 0);
	assert_int_equal(uccl_owner_add(&o, mem + 300, 100, 10, 80), 0);
	assert_null(uccl_owner_check(&o, mem + 200, 100, UCCL_OWNER_WRITE));
	assert_non_null(uccl_owner_check(&o, mem + 200, 101, UCCL_OWNER_WRITE));
	assert_non_null(uccl_owner_check(&o, mem + 310, 80, UCCL_OWNER_WRITE));
	uccl_owner_give(&o, mem + 300, UCCL_OWNER_READ);
	assert_null(uccl_owner_check(&o, mem + 310, 80, UCCL_OWNER_READ));
	assert_non_null(uccl_owner_check(&o, mem + 310, 80, UCCL_OWNER_WRITE));
	uccl_owner_give(&o, mem + 300, UCCL_OWNER_WRITE);
	assert_null(uccl_owner_check(&o, mem + 310, 80, UCCL_OWNER_WRITE));
	assert_non_null(uccl_owner_check(&o, mem + 309, 80, UCCL_OWNER_WRITE));
	assert_non_null(uccl_owner_check(&o, mem + 311, 80, UCCL_OWNER_WRITE));
	uccl_owner_part(&o, mem + 320, 10);
	assert_null(uccl_owner_check(&o, mem + 310, 10, UCCL_OWNER_WRITE));
	assert_non_null(uccl_owner_check(&o, mem + 310, 11, UCCL_OWNER_WRITE));
	assert_null(uccl_owner_check(&o, mem + 330, 60, UCCL_OWNER_WRITE));
	uccl_owner_remove(&o, mem + 300);
	assert_null(uccl_owner_check(&o, mem + 300, 100, UCCL_OWNER_WRITE));
	assert_int_equal(o.n, 2);
	uccl_owner_fini(&o);
}

TESTS_MAIN
