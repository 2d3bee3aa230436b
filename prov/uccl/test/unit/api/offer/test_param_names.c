/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "../world.h"

#include "api/offer/param_names.h"
#include "../../tests.h"

/* What is said of the variable `name`; NULL: nothing. */
static const char *told(const char *name)
{
	const char *heard;

	world_listen(FI_LOG_WARN);
	setenv(name, "4", 1);
	uccl_params_check_names();
	heard = world_heard();
	unsetenv(name);
	return *heard ? heard : NULL;
}

TEST(check_names__known)
{
	static const char *const names[] = { "FI_UCCL_LANES", "FI_UCCL_LOG", "FI_UCCL_TEST", "FI_UCCLX",
					     "FI_TCP_IFACE" };

	for (size_t i = 0; i < uccl_array_len(names); i++)
		assert_null(told(names[i]));
}

TEST(check_names__alike)
{
	static const struct {
		const char *wrong, *right;
	} names[] = {
		{ "FI_UCCL_LANE", "did you mean FI_UCCL_LANES?" },
		{ "FI_UCCL_PATHSS", "did you mean FI_UCCL_PATHS?" },
		{ "FI_UCCL_PTAH", "did you mean FI_UCCL_PATH?" },
		{ "FI_UCCL_MUT", "did you mean FI_UCCL_MTU?" },
		{ "FI_UCCL_BACKENDS", "did you mean FI_UCCL_BACKEND?" },
	};

	for (size_t i = 0; i < uccl_array_len(names); i++) {
		const char *text = told(names[i].wrong);

		assert_non_null(text);
		if (!strstr(text, names[i].right))
			fail_msg("%s: %s", names[i].wrong, text);
	}
}

/* Nothing is like it, and a name of any length does no harm. */
TEST(check_names__unlike)
{
	char name[400] = "FI_UCCL_";

	assert_non_null(strstr(told("FI_UCCL_CONGESTION"), "fi_info -e"));
	/* Three letters off. */
	assert_non_null(strstr(told("FI_UCCL_MONIKERS"), "fi_info -e"));
	memset(name + strlen(name), 'X', sizeof(name) - strlen(name) - 1);
	assert_non_null(strstr(told(name), "XXXX is not a variable"));
	assert_non_null(told("FI_UCCL_"));
}

TESTS_MAIN
