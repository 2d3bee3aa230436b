/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "flow/closing.h"

#include <rdma/fi_errno.h>

#include "base/units.h"
#include "flow/wire/wire.h"

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

/* PROTOCOL R310 */
enum uccl_close_reason uccl_close_reason_read(const uint8_t *rec)
{
	return rec[0] < UCCL_CLOSE_COUNT ? rec[0] : UCCL_CLOSE_OTHER;
}

int uccl_close_error(enum uccl_close_reason reason)
{
	switch (reason) {
	case UCCL_CLOSE_MEMORY:
		return FI_ENOMEM;
	case UCCL_CLOSE_BUFFER:
		return FI_EREMOTEIO;
	default:
		return FI_ECONNABORTED;
	}
}

enum uccl_close_reason uccl_close_reason_of(int err)
{
	switch (err) {
	case FI_ENOMEM:
		return UCCL_CLOSE_MEMORY;
	case FI_EFAULT:
		return UCCL_CLOSE_BUFFER;
	case FI_ETIMEDOUT:
	case FI_ENETDOWN:
		return UCCL_CLOSE_SILENT;
	default:
		return UCCL_CLOSE_OTHER;
	}
}

void uccl_closing_heard(struct uccl_closing *c, enum uccl_close_reason reason)
{
	if (!c->seen)
		c->reason = (uint8_t)reason;
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
