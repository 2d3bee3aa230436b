/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Part of a flow: what is known of the network from acknowledgements, and when silence is a loss. */
#ifndef UCCL_FLOW_ACK_LOSS_STATE_H
#define UCCL_FLOW_ACK_LOSS_STATE_H

#include <stdint.h>

#include "base/units.h"
#include "flow/ack/ack_delay.h"
#include "flow/ack/persistent_loss.h"
#include "flow/ack/pto.h"
#include "flow/ack/rack.h"
#include "flow/ack/rate.h"
#include "flow/ack/spread.h"
#include "flow/ack/times.h"

struct uccl_flow_loss {
	struct uccl_times times;
	struct uccl_ack_delay ack_delay; /* what acknowledgements wait on their way here */
	struct uccl_rate rate;		/* at which the network delivers */
	struct uccl_spread spread;	/* and lets bursts through, on a long way */
	struct uccl_rack rack;		/* what is late */
	struct uccl_pto pto;		/* tail probe, then time-outs */
	struct uccl_persistent_loss persistent_loss; /* all payload is lost, round after round */
};

/* `l` is all zeros. first_rtt_ns: round trip of the handshake; 0: not known. */
static inline void uccl_flow_loss_init(struct uccl_flow_loss *l, uint64_t rto_min_ns, uint64_t first_rtt_ns,
				       uint16_t paths)
{
	uccl_times_init(&l->times, rto_min_ns, first_rtt_ns);
	uccl_ack_delay_init(&l->ack_delay, first_rtt_ns);
	uccl_rack_init(&l->rack);
	uccl_pto_init(&l->pto, paths);
}

/* When a loss may be found, or a probe is due; UCCL_NEVER: not without an acknowledgement. */
static inline uint64_t uccl_flow_loss_at(const struct uccl_flow_loss *l)
{
	return uccl_min(l->rack.at, l->pto.at);
}

#endif
