/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "../world.h"

#include "api/offer/asked.h"
#include "../../tests.h"

static bool asked_by(const char *provider, const char *hint)
{
	struct fi_info *hints = fi_allocinfo();
	bool asked;

	assert_non_null(hints);
	hints->fabric_attr->prov_name = hint ? strdup(hint) : NULL;
	unsetenv("FI_PROVIDER");
	if (provider)
		setenv("FI_PROVIDER", provider, 1);
	asked = uccl_asked(hints);
	unsetenv("FI_PROVIDER");
	fi_freeinfo(hints);
	return asked;
}

TEST(asked__by_name)
{
	fi_prov_ini();
	unsetenv("FI_UCCL_LANES");
	assert_true(asked_by("uccl", NULL));
	assert_true(asked_by("tcp,uccl", NULL));
	assert_true(asked_by(NULL, "uccl"));
	assert_true(asked_by(NULL, "uccl;ofi_rxd"));
	assert_false(asked_by("^uccl", NULL));
	assert_false(asked_by("tcp", "ucclx"));
	assert_false(asked_by("", ""));
	assert_false(asked_by(NULL, NULL));
	assert_false(uccl_asked(NULL));
}

TEST(asked__by_a_variable)
{
	/* The tests are run with this variable. */
	unsetenv("FI_UCCL_LANES");
	assert_false(uccl_asked(NULL));
	setenv("FI_UCCL_LANES", "0", 1);
	assert_true(uccl_asked(NULL));
	unsetenv("FI_UCCL_LANES");
}

TESTS_MAIN
