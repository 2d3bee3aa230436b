/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "core/closing.h"

#include "base/units.h"
#include "core/wire.h"

/* CLOSE is not said more often. */
#define AGAIN_MIN_NS (5 * UCCL_NS_PER_MS)

void uccl_closing_init(struct uccl_closing *c)
{
	*c = (struct uccl_closing){ .at = UCCL_NEVER };
}

void uccl_closing_begin(struct uccl_closing *c, uint64_t rto_ns, uint64_t now)
{
	if (c->state != UCCL_FLOW_OPEN)
		return;
	c->state = UCCL_FLOW_CLOSING;
	c->began_ns = now;
	uccl_closing_expire(c, rto_ns, now);
}

void uccl_closing_heard(struct uccl_closing *c)
{
	c->seen = true;
	c->ack_due = true;
}

void uccl_closing_answered(struct uccl_closing *c)
{
	if (c->state != UCCL_FLOW_CLOSING)
		return;
	c->state = UCCL_FLOW_CLOSED;
	c->at = UCCL_NEVER;
	c->due = false;
}

void uccl_closing_expire(struct uccl_closing *c, uint64_t rto_ns, uint64_t now)
{
	c->due = true;
	c->at = now + uccl_max(rto_ns, AGAIN_MIN_NS);
}

uint8_t uccl_closing_take(struct uccl_closing *c)
{
	if (c->ack_due) {
		c->ack_due = false;
		return UCCL_PKT_CLOSE_ACK;
	}
	c->due = false;
	c->tries++;
	return UCCL_PKT_CLOSE;
}
