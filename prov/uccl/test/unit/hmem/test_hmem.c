/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "hmem/hmem.h"

#include "../tests.h"

#include "../../fake_cuda/fake_cuda.h"
#include "hmem/cuda.h"

/* The driver that this program is linked with has the name of the real one. */
TEST(find__once)
{
	const struct uccl_hmem_ops *h = uccl_hmem_find();
	void *p = fake_cuda_alloc(0, 16);

	assert_ptr_equal(h, &uccl_cuda_hmem);
	assert_ptr_equal(uccl_hmem_find(), h);
	assert_null(uccl_hmem_missing());
	assert_int_equal(h->where(p), 0);
	fake_cuda_free(p);
}

TESTS_MAIN
