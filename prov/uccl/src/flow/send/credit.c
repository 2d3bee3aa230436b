/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "flow/send/credit.h"

/* So often a demand is told within a time-out: if half of all packets are lost, one of a hundred is not met then. */
#define EAGER 16
/* Bytes of told demand below which more is told: what 400 Gb/s carry in 20 us. */
#define AHEAD (1u << 20)
/* No count of bytes runs ahead so far, nor reaches the end of its numbers: it is nonsense. */
#define STEP_MAX ((uint64_t)1 << 48)
#define COUNT_MAX ((uint64_t)1 << 62)

bool uccl_credit_wants(const struct uccl_credit *c, uint64_t backlog, uint64_t left)
{
	uint64_t demanded = c->demand_sent > c->used ? c->demand_sent - c->used : 0;

	if (uccl_credit_owes_loss(c))
		return true;
	return backlog > demanded && demanded < AHEAD && backlog > left;
}

bool uccl_credit_misjudged(const struct uccl_credit *c, uint64_t left)
{
	uint64_t demanded = c->message > c->used ? c->message - c->used : 0;

	return demanded > 2 * left || demanded < left / 2;
}

uint64_t uccl_credit_tell_at(const struct uccl_credit *c, const struct uccl_times *t)
{
	uint64_t rto = uccl_times_rto(t);
	uint32_t more;

	if (!c->told_ns)
		return 0;
	if (!c->again)
		return c->told_ns + uccl_min(uccl_times_pto(t) << (c->vain ? c->vain - 1 : 0), rto);
	more = c->again - 1;
	rto <<= more > EAGER ? more - EAGER : 0;
	return c->told_ns + uccl_min(uccl_min(uccl_times_pto_prompt(t) << more, rto), UCCL_RTO_MAX_NS);
}

uint64_t uccl_credit_tell(struct uccl_credit *c, uint64_t backlog, uint64_t left, uint64_t now)
{
	if (c->used + backlog > c->demand_sent || c->lost > c->lost_sent)
		c->again = 0;
	c->told_ns = uccl_max(now, 1);
	if (c->again < EAGER + UCCL_CREDIT_DOUBLINGS_MAX)
		c->again++;
	c->message = c->used + left;
	c->demand_sent = c->used + backlog;
	c->lost_sent = c->lost;
	return c->demand_sent;
}

bool uccl_credit_sane(const struct uccl_credit *c, uint64_t demand, uint64_t lost)
{
	/* It may be less than what came: records of control size cost no credit there, and are counted here. */
	if (demand > c->received && demand - c->received > STEP_MAX + c->peer_lost)
		return false;
	return !(lost > c->peer_lost && lost - c->peer_lost > STEP_MAX) && (demand | lost) < COUNT_MAX;
}

bool uccl_credit_heard(struct uccl_credit *c, uint64_t demand, uint64_t lost)
{
	bool more = lost > c->peer_lost;

	c->demand = uccl_max(c->demand, demand);
	c->peer_lost = uccl_max(c->peer_lost, lost);
	/* What was granted already may have been lost: it is told again. PROTOCOL R21 */
	c->due = true;
	return more;
}
