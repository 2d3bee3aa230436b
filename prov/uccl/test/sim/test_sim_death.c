/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Deaths: every operation ends, the living are not hurt. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "holds.h"

static void death_gone__packet(void **state)
{
	(void)state;
	scenario_holds("death-gone", "nic=0");
}

static void death_gone__write(void **state)
{
	(void)state;
	scenario_holds("death-gone", "nic=1");
}

static void death_unreach__packet(void **state)
{
	(void)state;
	scenario_holds("death-unreach", "nic=0");
}

static void death_unreach__write(void **state)
{
	(void)state;
	scenario_holds("death-unreach", "nic=1");
}

static void death_silent__packet(void **state)
{
	(void)state;
	scenario_holds("death-silent", "nic=0");
}

static void death_silent__write(void **state)
{
	(void)state;
	scenario_holds("death-silent", "nic=1");
}

static void restart__packet(void **state)
{
	(void)state;
	scenario_holds("restart", "nic=0");
}

static void restart__write(void **state)
{
	(void)state;
	scenario_holds("restart", "nic=1");
}

static void restart__async(void **state)
{
	(void)state;
	scenario_holds("restart", "nic=0,tx_sync=0");
}

static void restart_work__packet(void **state)
{
	(void)state;
	scenario_holds("restart-work", "nic=0");
}

static void restart_work__write(void **state)
{
	(void)state;
	scenario_holds("restart-work", "nic=1");
}

static void restart_work__async(void **state)
{
	(void)state;
	scenario_holds("restart-work", "nic=0,tx_sync=0");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(death_gone__packet),	 cmocka_unit_test(death_gone__write),
		cmocka_unit_test(death_unreach__packet), cmocka_unit_test(death_unreach__write),
		cmocka_unit_test(death_silent__packet),	 cmocka_unit_test(death_silent__write),
		cmocka_unit_test(restart__packet),	 cmocka_unit_test(restart__write),
		cmocka_unit_test(restart__async),	 cmocka_unit_test(restart_work__packet),
		cmocka_unit_test(restart_work__write),	 cmocka_unit_test(restart_work__async),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
