/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "flow/ack/ack_delay.h"

#include "base/units.h"

void uccl_ack_delay_init(struct uccl_ack_delay *o, uint64_t first_rtt_ns)
{
	*o = (struct uccl_ack_delay){
		.min_rtt_ns = first_rtt_ns ? first_rtt_ns : UCCL_NEVER,
		.epoch_ns = UCCL_ACK_DELAY_EPOCH_NS,
	};
}
