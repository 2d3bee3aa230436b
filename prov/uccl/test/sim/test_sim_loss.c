/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Loss packet by packet, exhaustively. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "holds.h"

static void loss_eager__packet(void **state)
{
	(void)state;
	scenario_holds("loss-eager", "nic=0");
}

static void loss_eager__async(void **state)
{
	(void)state;
	scenario_holds("loss-eager", "nic=0,tx_sync=0");
}

static void loss_rendezvous__packet(void **state)
{
	(void)state;
	scenario_holds("loss-rendezvous", "nic=0");
}

static void loss_rendezvous__async(void **state)
{
	(void)state;
	scenario_holds("loss-rendezvous", "nic=0,tx_sync=0");
}

static void loss_write__write(void **state)
{
	(void)state;
	scenario_holds("loss-write", "nic=1");
}

static void loss_credit__paced(void **state)
{
	(void)state;
	scenario_holds("loss-credit", "");
}

static void loss_credit__auto(void **state)
{
	(void)state;
	scenario_holds("loss-credit", "credit=auto");
}

static void loss_handshake__packet(void **state)
{
	(void)state;
	scenario_holds("loss-handshake", "nic=0");
}

static void loss_handshake__write(void **state)
{
	(void)state;
	scenario_holds("loss-handshake", "nic=1");
}

static void last_k__packet(void **state)
{
	(void)state;
	scenario_holds("last-k", "nic=0");
}

static void last_k__write(void **state)
{
	(void)state;
	scenario_holds("last-k", "nic=1");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(loss_eager__packet),	   cmocka_unit_test(loss_eager__async),
		cmocka_unit_test(loss_rendezvous__packet), cmocka_unit_test(loss_rendezvous__async),
		cmocka_unit_test(loss_write__write),	   cmocka_unit_test(loss_handshake__packet),
		cmocka_unit_test(loss_credit__paced),	   cmocka_unit_test(loss_credit__auto),
		cmocka_unit_test(loss_handshake__write),   cmocka_unit_test(last_k__packet),
		cmocka_unit_test(last_k__write),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
