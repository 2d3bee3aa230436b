/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Networks and neighbours that misbehave; nobody may notice. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "holds.h"

static void quiet__packet(void **state)
{
	(void)state;
	scenario_holds("quiet", "nic=0");
}

static void quiet__write(void **state)
{
	(void)state;
	scenario_holds("quiet", "nic=1");
}

static void quiet__async(void **state)
{
	(void)state;
	scenario_holds("quiet", "nic=0,tx_sync=0");
}

static void hole__packet(void **state)
{
	(void)state;
	scenario_holds("hole", "nic=0");
}

static void hole__write(void **state)
{
	(void)state;
	scenario_holds("hole", "nic=1");
}

static void hole_half__packet(void **state)
{
	(void)state;
	scenario_holds("hole-half", "nic=0");
}

static void hole_half__write(void **state)
{
	(void)state;
	scenario_holds("hole-half", "nic=1");
}

static void hole_goodput__packet(void **state)
{
	(void)state;
	scenario_holds("hole-goodput", "nic=0,cc=swift");
	scenario_holds("hole-goodput", "nic=0,cc=cubic");
	scenario_holds("hole-goodput", "nic=0,cc=timely");
}

static void hole_goodput__write(void **state)
{
	(void)state;
	scenario_holds("hole-goodput", "nic=1,cc=swift");
	scenario_holds("hole-goodput", "nic=1,cc=cubic");
	scenario_holds("hole-goodput", "nic=1,cc=timely");
}

static void hole_back__packet(void **state)
{
	(void)state;
	scenario_holds("hole-back", "nic=0");
}

static void hole_back__write(void **state)
{
	(void)state;
	scenario_holds("hole-back", "nic=1");
}

static void hole_most__packet(void **state)
{
	(void)state;
	scenario_holds("hole-most", "nic=0");
}

static void hole_most__write(void **state)
{
	(void)state;
	scenario_holds("hole-most", "nic=1");
}

static void mtu_half__packet(void **state)
{
	(void)state;
	scenario_holds("mtu-half", "nic=0");
}

static void mtu_half__write(void **state)
{
	(void)state;
	scenario_holds("mtu-half", "nic=1");
}

static void trains__packet(void **state)
{
	(void)state;
	scenario_holds("trains", "nic=0");
}

static void mtu_shrinks__packet(void **state)
{
	(void)state;
	scenario_holds("mtu-shrinks", "nic=0");
}

static void mtu_shrinks__write(void **state)
{
	(void)state;
	scenario_holds("mtu-shrinks", "nic=1");
}

static void pause__packet(void **state)
{
	(void)state;
	scenario_holds("pause", "nic=0");
}

static void pause__write(void **state)
{
	(void)state;
	scenario_holds("pause", "nic=1");
}

static void credit_lost__packet(void **state)
{
	(void)state;
	scenario_holds("credit-lost", "nic=0");
}

static void credit_lost__write(void **state)
{
	(void)state;
	scenario_holds("credit-lost", "nic=1");
}

static void unexpected__packet(void **state)
{
	(void)state;
	scenario_holds("unexpected", "nic=0");
}

static void unexpected__write(void **state)
{
	(void)state;
	scenario_holds("unexpected", "nic=1");
}

static void old_doubles__packet(void **state)
{
	(void)state;
	scenario_holds("old-doubles", "nic=0");
}

static void old_doubles__write(void **state)
{
	(void)state;
	scenario_holds("old-doubles", "nic=1");
}

static void old_doubles__async(void **state)
{
	(void)state;
	scenario_holds("old-doubles", "nic=0,tx_sync=0");
}

static void late_originals__packet(void **state)
{
	(void)state;
	scenario_holds("late-originals", "nic=0");
}

static void late_originals__write(void **state)
{
	(void)state;
	scenario_holds("late-originals", "nic=1");
}

static void late_originals__async(void **state)
{
	(void)state;
	scenario_holds("late-originals", "nic=0,tx_sync=0");
}

static void torn_writes__write(void **state)
{
	(void)state;
	scenario_holds("torn-writes", "nic=1");
}

static void doubled_writes__write(void **state)
{
	(void)state;
	scenario_holds("doubled-writes", "nic=1");
}

static void ghost__write(void **state)
{
	(void)state;
	scenario_holds("ghost", "nic=1");
	/* A scene of direct writes needs a NIC that makes them, and keeps it. */
	scenario_holds("ghost", "nic=0");
}

static void sleeper__packet(void **state)
{
	(void)state;
	scenario_holds("sleeper", "nic=0");
}

static void sleeper__write(void **state)
{
	(void)state;
	scenario_holds("sleeper", "nic=1");
}

static void slots_few__packet(void **state)
{
	(void)state;
	scenario_holds("slots-few", "nic=0");
}

static void slots_few__write(void **state)
{
	(void)state;
	scenario_holds("slots-few", "nic=1");
}

static void slots_turns__packet(void **state)
{
	(void)state;
	scenario_holds("slots-turns", "nic=0");
}

static void slots_turns__write(void **state)
{
	(void)state;
	scenario_holds("slots-turns", "nic=1");
}

static void wrap__packet(void **state)
{
	(void)state;
	scenario_holds("wrap", "nic=0");
}

static void wrap__write(void **state)
{
	(void)state;
	scenario_holds("wrap", "nic=1");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(quiet__packet),
		cmocka_unit_test(quiet__write),
		cmocka_unit_test(quiet__async),
		cmocka_unit_test(hole__packet),
		cmocka_unit_test(hole__write),
		cmocka_unit_test(hole_half__packet),
		cmocka_unit_test(hole_half__write),
		cmocka_unit_test(hole_goodput__packet),
		cmocka_unit_test(hole_goodput__write),
		cmocka_unit_test(hole_back__packet),
		cmocka_unit_test(hole_back__write),
		cmocka_unit_test(hole_most__packet),
		cmocka_unit_test(hole_most__write),
		cmocka_unit_test(mtu_half__packet),
		cmocka_unit_test(mtu_half__write),
		cmocka_unit_test(trains__packet),
		cmocka_unit_test(mtu_shrinks__packet),
		cmocka_unit_test(mtu_shrinks__write),
		cmocka_unit_test(pause__packet),
		cmocka_unit_test(pause__write),
		cmocka_unit_test(credit_lost__packet),
		cmocka_unit_test(credit_lost__write),
		cmocka_unit_test(unexpected__packet),
		cmocka_unit_test(unexpected__write),
		cmocka_unit_test(old_doubles__packet),
		cmocka_unit_test(old_doubles__write),
		cmocka_unit_test(old_doubles__async),
		cmocka_unit_test(late_originals__packet),
		cmocka_unit_test(late_originals__write),
		cmocka_unit_test(late_originals__async),
		cmocka_unit_test(torn_writes__write),
		cmocka_unit_test(doubled_writes__write),
		cmocka_unit_test(ghost__write),
		cmocka_unit_test(sleeper__packet),
		cmocka_unit_test(sleeper__write),
		cmocka_unit_test(slots_few__packet),
		cmocka_unit_test(slots_few__write),
		cmocka_unit_test(slots_turns__packet),
		cmocka_unit_test(slots_turns__write),
		cmocka_unit_test(wrap__packet),
		cmocka_unit_test(wrap__write),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
