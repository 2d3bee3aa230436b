/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "uccl_doctor_bundle.h"

#include <string.h>

#include "base/units.h"
#include "../tests.h"

static char text[4096];

static const char *told(char *one)
{
	char *env[] = {one, NULL};
	FILE *f = fmemopen(text, sizeof(text), "w");

	assert_non_null(f);
	text[0] = '\0';
	doctor_bundle_variables(env, f);
	fclose(f);
	return text;
}

TEST(variables__told)
{
	assert_string_equal(told("FI_UCCL_PATHS=32,window=4096"), "FI_UCCL_PATHS=32,window=4096\n");
	assert_string_equal(told("FI_PROVIDER=uccl"), "FI_PROVIDER=uccl\n");
	assert_string_equal(told("FI_UCCL_CREDIT=window:cap_bytes=1024"), "FI_UCCL_CREDIT=window:cap_bytes=1024\n");
	assert_string_equal(told("FI_UCCL_NIC="), "FI_UCCL_NIC=\n");
	assert_string_equal(told("FI_UCCL_NIC=a\033[2Jb"), "FI_UCCL_NIC=a?[2Jb\n");
}

/* What is not in the list is not there at all; what may be a secret is there without its value. */
TEST(variables__secrets)
{
	static char *const none[] = {"AWS_SECRET_ACCESS_KEY=hunter2", "HOME=hunter2", "PATH=hunter2", "XFI_A=hunter2",
				     "SSH_AUTH_SOCK=hunter2", "SLURM_JWT=hunter2", "FI_", "LANGUAGE=hunter2"};
	static char *const hidden[] = {"FI_SHARED_KEY=hunter2", "FI_UCCL_Token=hunter2", "NCCL_SECRET=a,hunter2",
				       "FI_X=mode,key=hunter2", "FI_X=PASSWORD=hunter2", "FI_X=a:auth_key=hunter2:b=2"};

	for (size_t i = 0; i < uccl_array_len(none); i++)
		assert_string_equal(told(none[i]), "");
	for (size_t i = 0; i < uccl_array_len(hidden); i++) {
		assert_null(strstr(told(hidden[i]), "hunter2"));
		assert_non_null(strstr(text, "(left out)"));
	}
	assert_string_equal(text, "FI_X=a:auth_key=(left out):b=2\n");
	for (size_t i = 0; i < uccl_array_len(hidden); i++)
		assert_true(doctor_bundle_hidden(hidden[i]));
	assert_false(doctor_bundle_hidden("FI_UCCL_PATHS=32,window=4096"));
	assert_false(doctor_bundle_hidden("FI_UCCL_CREDIT=window:cap_bytes=1024"));
	assert_false(doctor_bundle_hidden("FI_UCCL_NIC="));
	assert_false(doctor_bundle_hidden("FI_UCCL_NIC"));
}

TESTS_MAIN
