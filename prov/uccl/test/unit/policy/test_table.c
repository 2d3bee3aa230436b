/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "policy/policies.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

static void find__every_name(void **state)
{
	(void)state;
	for (const char *const *n = uccl_cc_names(); *n; n++)
		assert_string_equal(uccl_cc_find(*n)->name, *n);
	for (const char *const *n = uccl_path_names(); *n; n++)
		assert_string_equal(uccl_path_find(*n)->name, *n);
	for (const char *const *n = uccl_credit_names(); *n; n++)
		assert_string_equal(uccl_credit_find(*n)->name, *n);
}

static void find__the_right_one(void **state)
{
	(void)state;
	assert_ptr_equal(uccl_cc_find("swift"), &uccl_cc_swift);
	assert_ptr_equal(uccl_cc_find("cubic"), &uccl_cc_cubic);
	assert_ptr_equal(uccl_cc_find("none"), &uccl_cc_none);
	assert_ptr_equal(uccl_path_find("pow2"), &uccl_path_pow2);
	assert_ptr_equal(uccl_path_find("rr"), &uccl_path_rr);
	assert_ptr_equal(uccl_path_find("hash"), &uccl_path_hash);
	assert_ptr_equal(uccl_credit_find("none"), &uccl_credit_none);
	assert_ptr_equal(uccl_credit_find("window"), &uccl_credit_window);
}

static void find__unknown(void **state)
{
	static const char *const bad[] = {NULL, "", "swif", "swift ", "Swift", "swiftly", "pow", "windows"};

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		assert_null(uccl_cc_find(bad[i]));
		assert_null(uccl_path_find(bad[i]));
		assert_null(uccl_credit_find(bad[i]));
	}
	/* A name of one table is none of another. */
	assert_null(uccl_cc_find("pow2"));
	assert_null(uccl_path_find("swift"));
	assert_null(uccl_credit_find("rr"));
}

static void find__required_hooks(void **state)
{
	(void)state;
	for (const char *const *n = uccl_cc_names(); *n; n++)
		assert_non_null(uccl_cc_find(*n)->window);
	for (const char *const *n = uccl_path_names(); *n; n++)
		assert_non_null(uccl_path_find(*n)->select);
	for (const char *const *n = uccl_credit_names(); *n; n++)
		assert_non_null(uccl_credit_find(*n)->limit);
}

static void names__default_first(void **state)
{
	(void)state;
	assert_string_equal(uccl_cc_names()[0], "swift");
	assert_string_equal(uccl_path_names()[0], "pow2");
	assert_string_equal(uccl_credit_names()[0], "none");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(find__every_name),	cmocka_unit_test(find__the_right_one),
		cmocka_unit_test(find__unknown),	cmocka_unit_test(find__required_hooks),
		cmocka_unit_test(names__default_first),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
