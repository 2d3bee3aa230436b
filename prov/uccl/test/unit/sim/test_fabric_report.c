/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "play.h"

static void csv_with_heads(const struct uccl_fab_play *play, FILE *f)
{
	uccl_fab_play_csv(play, f, true);
}

static void csv__columns(void **state)
{
	char *csv = text("incast", "hosts=16,bytes=64k,senders=5", csv_with_heads), *save, *line;
	uint32_t lines = 0, commas[4] = {0};

	(void)state;
	for (line = strtok_r(csv, "\n", &save); line; line = strtok_r(NULL, "\n", &save), lines++)
		for (const char *c = line; *c; c++)
			commas[lines] += *c == ',';
	assert_int_equal(lines, 3);
	assert_int_equal(commas[0], commas[1]);
	assert_int_equal(commas[0], commas[2]);
	free(csv);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(csv__columns),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
