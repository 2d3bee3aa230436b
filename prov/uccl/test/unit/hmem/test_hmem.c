/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "hmem/hmem.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "../../fake_cuda/fake_cuda.h"
#include "hmem/cuda.h"

/* The driver that this program is linked with has the name of the real one. */
static void find__once(void **state)
{
	const struct uccl_hmem_ops *h = uccl_hmem_find();
	void *p = fake_cuda_alloc(0, 16);

	(void)state;
	assert_ptr_equal(h, &uccl_cuda_hmem);
	assert_ptr_equal(uccl_hmem_find(), h);
	assert_null(uccl_hmem_missing());
	assert_int_equal(h->where(p), 0);
	fake_cuda_free(p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(find__once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
