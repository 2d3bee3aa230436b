/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* That it copies what it should is seen on a GPU (util/uccl_scatter); here, that it fits who launches it. */
#include "hmem/scatter_ptx.h"

#include "../tests.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The number behind this text, which is there once. */
static size_t number_after(const char *text)
{
	const char *at = strstr(uccl_scatter_ptx, text);

	assert_non_null(at);
	assert_null(strstr(at + 1, text));
	return strtoul(at + strlen(text), NULL, 10);
}

/* Its parameter is the structure, with the same places in it. */
TEST(scatter_ptx__parameter)
{
	assert_non_null(strstr(uccl_scatter_ptx, ".visible .entry " UCCL_SCATTER_ENTRY "("));
	assert_int_equal(number_after(".b8 v["), sizeof(struct uccl_scatter_param));
	assert_int_equal(number_after("ld.param.b64 %d4, [%d2+"), offsetof(struct uccl_scatter_param, from));
	assert_int_equal(number_after("ld.param.b32 %r4, [%d5+"), offsetof(struct uccl_scatter_param, len));
	/* What a launch can have, and what bytes before and behind whole words need of a block. */
	assert_true(sizeof(struct uccl_scatter_param) <= 4096);
	assert_true(UCCL_SCATTER_THREADS >= 15 && UCCL_SCATTER_THREADS <= 1024);
}

/* CUDA's assembler takes it for GPUs of today, where it is installed. */
TEST(scatter_ptx__assembles)
{
	char name[] = "scatter_ptx.XXXXXX", command[256];
	FILE *f;
	int fd;

	if (system("PATH=$PATH:/usr/local/cuda/bin; command -v ptxas >/dev/null"))
		skip();
	fd = mkstemp(name);
	assert_true(fd >= 0);
	f = fdopen(fd, "w");
	fputs(uccl_scatter_ptx, f);
	fclose(f);
	snprintf(command, sizeof(command), "PATH=$PATH:/usr/local/cuda/bin; ptxas -arch=sm_90 -o /dev/null %s", name);
	fd = system(command);
	unlink(name);
	assert_int_equal(fd, 0);
}

TESTS_MAIN
