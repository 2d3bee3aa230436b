/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "duo.h"

static uint8_t src[1 << 18];

static void deliver__unknown_records(void **state)
{
	struct duo *d = duo_open();
	uint8_t rec[UCCL_REC_LEN] = {0};

	(void)state;
	for (int t = 0; t < 256; t++)
		if (t < UCCL_REC_MSG || t > UCCL_REC_REPLY)
			assert_int_equal(duo_deliver(d, 1, (uint8_t)t, rec, src, 4), UCCL_DROP_RECORD);
	assert_int_equal(d->side[1].m.rx_pool.used, 0);
	duo_free(d);
}

/* A settled doubt of a message that is gone. */
static void settled__unknown(void **state)
{
	struct duo *d = duo_open();

	(void)state;
	uccl_msg_flow_ops.settled(&d->side[1].peer.flow, 4711, 1, d->now);
	duo_quiet(d);
	duo_free(d);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(deliver__unknown_records),
		cmocka_unit_test(settled__unknown),
	};

	return cmocka_run_group_tests_name("deliver", tests, NULL, NULL);
}
