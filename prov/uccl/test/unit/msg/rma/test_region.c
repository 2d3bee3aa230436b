/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "../duo.h"

#include "msg/rma/atomic_math.h"
#include "../../tests.h"

static uint8_t src[1 << 21], dst[1 << 21], mem[1 << 21];

/* What a newer peer may ask for is refused in words; the operations around it go on. PROTOCOL R72 */
TEST(atomic__unknown)
{
	struct duo *d = duo_open();

	duo_region(d, 1, 0, mem, 64, BOTH);
	duo_region(d, 1, 1, mem, 64, UCCL_ACCESS_READ);
	duo_atomic(d, 0, UCCL_OP_ATOMIC, UCCL_FLOAT, UCCL_BOR, src, NULL, NULL, 1, 0, 1, NULL);
	duo_atomic(d, 0, UCCL_OP_FETCH, UCCL_UINT64, UCCL_SUM, src, NULL, dst, 1, 0, 2, NULL);
	duo_atomic(d, 0, UCCL_OP_FETCH, UCCL_UINT64, UCCL_ATOMIC_READ, NULL, NULL, dst, 1, 0, 2, NULL);
	duo_run(d, SECOND);
	assert_int_equal(duo_next(d, 0)->err, FI_EOPNOTSUPP);
	assert_int_equal(duo_next(d, 0)->err, FI_EACCES);
	assert_int_equal(duo_next(d, 0)->err, 0);
	duo_all_done(d, 0);
}

/* Without any registered memory. PROTOCOL R72 */
DUO_TEST(serve__no_target, duo_open())
{
	uint64_t one = 1;

	d->side[1].m.target.ops = NULL;
	duo_rma(d, 0, UCCL_OP_WRITE, 0, src, 10, 0, 1, NULL);
	duo_rma(d, 0, UCCL_OP_WRITE, 0, src, 0, 0, 1, NULL);
	duo_atomic(d, 0, UCCL_OP_ATOMIC, UCCL_UINT64, UCCL_SUM, &one, NULL, NULL, 1, 0, 1, NULL);
	duo_run(d, SECOND);
	assert_int_equal(duo_next(d, 0)->err, FI_EKEYREJECTED);
	assert_int_equal(duo_next(d, 0)->err, 0);
	assert_int_equal(duo_next(d, 0)->err, FI_EKEYREJECTED);
}

TESTS_MAIN
