/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "api/watch/process.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/units.h"
#include "../../tests.h"

static const char *const names[] = {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID"};

static int64_t rank_with(const char *name, const char *value)
{
	struct uccl_process p;

	for (size_t i = 0; i < uccl_array_len(names); i++)
		unsetenv(names[i]);
	if (name)
		setenv(name, value, 1);
	uccl_process_read(&p);
	if (name)
		unsetenv(name);
	return p.rank;
}

TEST(process_read__rank)
{
	static const char *const none[] = {"", "-1", "3x", "x", " 3", "99999999999999999999", "4294967296"};

	assert_int_equal(rank_with(NULL, NULL), -1);
	for (size_t i = 0; i < uccl_array_len(names); i++) {
		assert_int_equal(rank_with(names[i], "0"), 0);
		assert_int_equal(rank_with(names[i], "4711"), 4711);
	}
	for (size_t i = 0; i < uccl_array_len(none); i++)
		assert_int_equal(rank_with("PMI_RANK", none[i]), -1);
}

/* mpirun inside an allocation of Slurm: the rank is that of mpirun's job. */
TEST(process_read__launchers_own_first)
{
	struct uccl_process p;

	setenv("OMPI_COMM_WORLD_RANK", "5", 1);
	setenv("SLURM_PROCID", "1", 1);
	uccl_process_read(&p);
	assert_int_equal(p.rank, 5);
	unsetenv("OMPI_COMM_WORLD_RANK");
	uccl_process_read(&p);
	assert_int_equal(p.rank, 1);
	unsetenv("SLURM_PROCID");
}

TEST(process_read__host)
{
	char host[256] = "";
	struct uccl_process p;

	assert_int_equal(gethostname(host, sizeof(host) - 1), 0);
	uccl_process_read(&p);
	assert_int_equal(p.pid, getpid());
	assert_true(strlen(p.host) > 0);
	assert_null(strchr(p.host, '.'));
	assert_int_equal(strncmp(p.host, host, strcspn(host, ".") < 63 ? strcspn(host, ".") : 63), 0);
}

TESTS_MAIN
