/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Networks and neighbours that misbehave; nobody may notice. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "holds.h"

int main(void)
{
	const struct CMUnitTest tests[] = {
		HOLDS_BOTH("quiet"),
		HOLDS_ASYNC("quiet"),
		HOLDS_BOTH("hole"),
		HOLDS_BOTH("hole-half"),
		HOLDS("hole-goodput", "nic=0,cc=swift"),
		HOLDS("hole-goodput", "nic=0,cc=cubic"),
		HOLDS("hole-goodput", "nic=0,cc=timely"),
		HOLDS("hole-goodput", "nic=1,cc=swift"),
		HOLDS("hole-goodput", "nic=1,cc=cubic"),
		HOLDS("hole-goodput", "nic=1,cc=timely"),
		HOLDS_BOTH("hole-back"),
		HOLDS_BOTH("hole-most"),
		HOLDS_PACKET("flaps"),
		HOLDS_PACKET("unequal"),
		HOLDS_BOTH("mtu-half"),
		HOLDS_PACKET("trains"),
		HOLDS_BOTH("mtu-shrinks"),
		HOLDS_BOTH("pause"),
		HOLDS_BOTH("credit-lost"),
		HOLDS_BOTH("unexpected"),
		HOLDS_BOTH("old-doubles"),
		HOLDS_ASYNC("old-doubles"),
		HOLDS_BOTH("late-originals"),
		HOLDS_ASYNC("late-originals"),
		HOLDS_WRITE("torn-writes"),
		HOLDS_WRITE("doubled-writes"),
		HOLDS_WRITE("ghost"),
		HOLDS_PACKET("ghost"), /* the scene keeps the NIC that it needs */
		HOLDS_BOTH("sleeper"),
		HOLDS_BOTH("slots-few"),
		HOLDS_BOTH("slots-turns"),
		HOLDS_BOTH("wrap"),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
