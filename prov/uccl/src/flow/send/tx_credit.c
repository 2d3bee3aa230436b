/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Credit that we grant, and the demand for what we need. */
#include "flow/send/tx_internal.h"

/* Something waits for credit. */
static bool tx_starved(struct uccl_flow *f)
{
	return (uccl_sendq_waits(&f->sendq) ||
		(f->cfg.policy.credit->pull && !uccl_rtxq_empty(&f->sent.rtxq[UCCL_RTX_LONG]))) &&
	       uccl_event_credit_spent(f);
}

/* Senders are ranked by what they send, and the receiver does not know what that is now. PROTOCOL R198 */
static bool tx_misjudged(const struct uccl_flow *f, uint64_t backlog, uint64_t left)
{
	return f->cfg.policy.credit->rank && backlog > uccl_event_credit_left(f) &&
	       uccl_credit_misjudged(&f->credit, left);
}

/*
 * Tell the demand, and again as probes and after time-outs (uccl_flow_expiry), so that a lost credit or demand never
 * stalls. A peer that is asked for an acknowledgement in vain is not asked for credit too. PROTOCOL R21
 */
static int tx_demand(struct uccl_flow *f, struct uccl_tx *tx, uint64_t now)
{
	uint8_t rec[UCCL_REC_LEN] = { 0 };
	uint64_t backlog, left;

	uccl_credit_starve(&f->credit, tx_starved(f));
	if (!f->credit.starved && (!f->cfg.policy.credit->pull || uccl_event_credit_free(f)))
		return 0;
	backlog = uccl_event_credit_backlog(f);
	/* The usual end of a turn: nothing waits, and nothing was lost that adds up. */
	if (!backlog && !f->credit.starved && !uccl_credit_owes_loss(&f->credit))
		return 0;
	left = uccl_sendq_left(&f->sendq, UCCL_DEMAND_ITEMS);
	/* With paced credit more is asked for before it runs out, as the answer takes a round trip. PROTOCOL R60 */
	if ((f->credit.starved && now >= uccl_credit_tell_at(&f->credit, &f->loss.times) && !flow_silent(f)) ||
	    (f->cfg.policy.credit->pull && uccl_credit_wants(&f->credit, backlog, uccl_event_credit_left(f))) ||
	    tx_misjudged(f, backlog, left)) {
		uccl_put64(rec, uccl_credit_tell(&f->credit, backlog, left, now));
		uccl_put64(rec + 8, f->credit.lost);
		/* Of no message: 0. PROTOCOL R198 */
		uccl_put64(rec + 16, left ? f->credit.message : 0);
		return flow_tx_control(f, tx, UCCL_PKT_DEMAND, 0, rec, flow_tx_control_path(f), false, now);
	}
	return 0;
}

int flow_tx_credit_first(struct uccl_flow *f, struct uccl_tx *tx, uint64_t now)
{
	if (f->sent.inflight_bytes || !f->cfg.policy.credit->pull || !uccl_sendq_waits(&f->sendq))
		return 0;
	return tx_demand(f, tx, now);
}

int flow_tx_credit(struct uccl_flow *f, struct uccl_tx *tx, uint64_t now)
{
	if (uccl_credit_take_due(&f->credit)) {
		uint64_t turn, grant = uccl_event_grant(f, &turn, now);

		if (grant) {
			uint8_t rec[UCCL_REC_LEN] = { 0 };

			uccl_put64(rec, grant);
			uccl_put64(rec + 8, turn);
			return flow_tx_control(f, tx, UCCL_PKT_CREDIT, 0, rec, flow_tx_control_path(f), false, now);
		}
	}
	return tx_demand(f, tx, now);
}
