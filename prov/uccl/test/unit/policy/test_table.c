/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "policy/policies.h"

#include <stdint.h>
#include <string.h>
#include "../tests.h"

#include <rdma/fi_errno.h>

TEST(find__every_name)
{
	for (const char *const *n = uccl_cc_names(); *n; n++)
		assert_string_equal(uccl_cc_find(*n)->name, *n);
	for (const char *const *n = uccl_path_names(); *n; n++)
		assert_string_equal(uccl_path_find(*n)->name, *n);
	for (const char *const *n = uccl_credit_names(); *n; n++)
		assert_string_equal(uccl_credit_find(*n)->name, *n);
}

TEST(find__the_right_one)
{
	assert_ptr_equal(uccl_cc_find("swift"), &uccl_cc_swift);
	assert_ptr_equal(uccl_cc_find("cubic"), &uccl_cc_cubic);
	assert_ptr_equal(uccl_cc_find("none"), &uccl_cc_none);
	assert_ptr_equal(uccl_path_find("pow2"), &uccl_path_pow2);
	assert_ptr_equal(uccl_path_find("rr"), &uccl_path_rr);
	assert_ptr_equal(uccl_path_find("hash"), &uccl_path_hash);
	assert_ptr_equal(uccl_credit_find("none"), &uccl_credit_none);
	assert_ptr_equal(uccl_credit_find("window"), &uccl_credit_window);
}

TEST(find__unknown)
{
	static const char *const bad[] = {NULL, "", "swif", "swift ", "Swift", "swiftly", "pow", "windows"};

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

TEST(find__required_hooks)
{
	for (const char *const *n = uccl_cc_names(); *n; n++)
		assert_non_null(uccl_cc_find(*n)->window);
	for (const char *const *n = uccl_path_names(); *n; n++)
		assert_non_null(uccl_path_find(*n)->select);
	for (const char *const *n = uccl_credit_names(); *n; n++)
		assert_non_null(uccl_credit_find(*n)->limit);
}

/* In the tables, and in what is made of them. */
TEST(constants__make_sense)
{
	const char *const *const names[] = {uccl_cc_names(), uccl_path_names(), uccl_credit_names()};
	double k[UCCL_CONSTANTS_MAX];
	char why[256];
	int n = 0;

	for (int kind = 0; kind < UCCL_POLICY_KINDS; kind++)
		for (const char *const *name = names[kind]; *name; name++) {
			const struct uccl_constant *c = uccl_policy_constants(kind, *name);

			assert_int_equal(uccl_policy_values(kind, *name, k, why, sizeof(why)), 0);
			for (int i = 0; c && c[i].name; i++, n++) {
				assert_true(i < UCCL_CONSTANTS_MAX);
				assert_true(c[i].lo <= c[i].def && c[i].def <= c[i].hi);
				assert_true(k[i] >= c[i].def && k[i] <= c[i].def);
				assert_true(*c[i].source);
				for (int j = 0; j < i; j++)
					assert_string_not_equal(c[i].name, c[j].name);
			}
		}
	assert_true(n > 50);
	assert_null(uccl_policy_constants(UCCL_POLICY_CC, "none"));
	assert_null(uccl_policy_constants(UCCL_POLICY_CC, "nothing"));
}

static int values(const char *text, double *k, char *why)
{
	return uccl_policy_values(UCCL_POLICY_CC, text, k, why, 256);
}

TEST(values__set)
{
	const struct uccl_constant *c = uccl_policy_constants(UCCL_POLICY_CC, "swift:beta=1");
	double k[UCCL_CONSTANTS_MAX];

	assert_int_equal(values("swift:beta=0.5,first_chunks=1e2:target_us=0.1", k, NULL), 0);
	for (int i = 0; c[i].name; i++) {
		double want = !strcmp(c[i].name, "beta")	 ? 0.5 :
			      !strcmp(c[i].name, "first_chunks") ? 100 :
			      !strcmp(c[i].name, "target_us")	 ? 0.1 :
								   c[i].def;

		assert_true(k[i] >= want && k[i] <= want);
	}
	/* The later one counts; the ends of a range are in it. */
	assert_int_equal(values("swift:beta=0.5,beta=1", k, NULL), 0);
	assert_int_equal(values("swift:beta=0.01", NULL, NULL), 0);
	/* As in all other variables, a ',' may also stand behind the name. */
	assert_int_equal(values("swift,beta=1", NULL, NULL), 0);
}

TEST(values__refused)
{
	static const struct {
		const char *text, *why;
	} bad[] = {
		{"", "no such congestion control; there are: swift cubic timely nscc none"},
		{"swif:beta=0.5", "no such congestion control; there are: swift cubic timely nscc none"},
		{"swift:", "\"\" sets no constant; there are: target_us"},
		{"swift:beta=0.5,", "\"\" sets no constant"},
		{"swift:beta", "\"beta\" sets no constant"},
		{"swift,beta", "\"beta\" sets no constant"},
		{"swift:bet=1", "\"bet=1\" sets no constant"},
		{"swift:betas=1", "\"betas=1\" sets no constant"},
		{"swift:c=1", "\"c=1\" sets no constant"},
		{"none:beta=1", "\"beta=1\" sets no constant; there are: none"},
		{"swift:beta=", "\"beta=\": beta is 0.01 to 1"},
		{"swift:fs_range=", "\"fs_range=\": fs_range is 0 to 100 targets"},
		{"swift:beta=x", "\"beta=x\": beta is 0.01 to 1"},
		{"swift:beta=0.5x", "\"beta=0.5x\": beta is 0.01 to 1"},
		{"swift:beta=1.01", "\"beta=1.01\": beta is 0.01 to 1"},
		{"swift:beta=nan", "\"beta=nan\": beta is 0.01 to 1"},
		{"swift:target_us=inf", "\"target_us=inf\": target_us is 0.1 to 1e+06 us"},
		{"swift:beta=0.5,ai=0", "\"ai=0\": ai is 0.001 to 100 chunks"},
	};
	char why[256];

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		assert_int_equal(values(bad[i].text, NULL, why), -FI_EINVAL);
		if (strncmp(why, bad[i].why, strlen(bad[i].why)))
			fail_msg("%s: %s", bad[i].text, why);
	}
}

TEST(names__default_first)
{
	assert_string_equal(uccl_cc_names()[0], "swift");
	assert_string_equal(uccl_path_names()[0], "pow2");
	assert_string_equal(uccl_credit_names()[0], "none");
}

TESTS_MAIN
