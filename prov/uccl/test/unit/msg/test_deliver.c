/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "duo.h"
#include "../tests.h"

static uint8_t src[1 << 18];

DUO_TEST(deliver__unknown_records, duo_open())
{
	uint8_t rec[UCCL_REC_LEN] = {0};

	for (int t = 0; t < 256; t++)
		if (t < UCCL_REC_MSG || t > UCCL_REC_REPLY)
			assert_int_equal(duo_deliver(d, 1, (uint8_t)t, rec, src, 4), UCCL_DROP_RECORD);
	assert_int_equal(d->side[1].m.rx_pool.used, 0);
}

/* Of records that do not say where their payload belongs there are no parts. PROTOCOL R173 */
DUO_TEST(deliver__parts, duo_open())
{
	uint8_t rec[UCCL_REC_LEN] = {0};
	struct uccl_env env = {.len = 100, .flags = UCCL_ENV_EAGER};
	struct uccl_chunk_in envelope = {.rtype = UCCL_REC_MSG, .rec = rec, .data = src, .len = 100};

	for (int t = 0; t < 256; t++) {
		struct uccl_chunk_in in = {.rtype = (uint8_t)t, .rec = rec, .data = src, .len = 100, .each = 50};
		bool bulk = t == UCCL_REC_EAGER || t == UCCL_REC_DATA || t == UCCL_REC_REPLY;
		struct uccl_flow *f = &d->side[1].peer.flow;

		for (in.segments = 1; in.segments <= 2; in.segments++)
			assert_int_equal(uccl_msg_flow_ops.deliver(f, &in, d->now) == UCCL_DROP_RECORD, !bulk);
	}
	assert_int_equal(d->side[1].m.rx_pool.used, 0);
	uccl_env_encode(rec, &env);
	envelope.segments = 1;
	assert_int_equal(uccl_msg_flow_ops.deliver(&d->side[1].peer.flow, &envelope, d->now), UCCL_DROP_RECORD);
	envelope.segments = 0;
	assert_int_equal(uccl_msg_flow_ops.deliver(&d->side[1].peer.flow, &envelope, d->now), UCCL_DROP_COUNT);
}

/* A settled doubt of a message that is gone. */
DUO_TEST(settled__unknown, duo_open())
{
	uccl_msg_flow_ops.settled(&d->side[1].peer.flow, 4711, 1, d->now);
	duo_quiet(d);
}

TESTS_MAIN
