/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What happens to a flow by itself. Its timers: owed.at (delayed acknowledgement), rack.at (loss by time), asking.at
 * (tail probe, then time-outs with back-off), lost whole.at (payload rests), next_tx_ns (pacing), paths.at (quarantine,
 * probation), close.at (CLOSE again), granted.want_at (no receive slots).
 */
#include "flow/internal.h"

/*
 * Nothing was acknowledged for the probe time-out: first a tail probe, then time-outs. No payload is sent again to ask:
 * what the peer, which may merely compute or be stopped, has not read yet would be there twice. Nor do the policies
 * hear of a time-out before a loss is proven: silence is no congestion. PROTOCOL R54 R55
 */
static void pto_expire(struct uccl_flow *f, uint64_t now)
{
	uint16_t path = uccl_sent_at(&f->sent, f->sent.una)->path;
	uint32_t unanswered = f->loss.pto.backoff;

	if (!uccl_sent_outstanding(&f->sent)) {
		uccl_pto_arm(&f->loss.pto, &f->loss.times, false, now);
		return;
	}
	/* What was lost is known, and rests. One question finds out what else may be under way. PROTOCOL R294 */
	if (uccl_persistent_loss_rests(&f->loss.persistent_loss, now) &&
	    !uccl_persistent_loss_ask(&f->loss.persistent_loss)) {
		uccl_pto_rest(&f->loss.pto, f->loss.persistent_loss.at);
		return;
	}
	f->cfg.stats->probes++;
	flow_trace(f, UCCL_TRACE_TIMEOUT, (uint8_t)uccl_min(unanswered, UINT8_MAX), path, f->sent.una, 0, 0, now);
	f->cfg.stats->rtos += unanswered > 0;
	uccl_paths_ask(&f->paths, path, unanswered, now);
	uccl_pto_expire(&f->loss.pto, &f->loss.times, f->sent.inflight_chunks, now);
}

uint64_t uccl_flow_expiry(const struct uccl_flow *f)
{
	uint64_t at = uccl_min(f->rx.ack_tracker.at, uccl_flow_loss_at(&f->loss));

	at = uccl_min(at, uccl_min(f->paths.at, f->close.at));
	/* Pacing matters only when something waits and nothing else will wake the flow. */
	if (uccl_sendq_waits(&f->sendq)) {
		at = uccl_min(at, uccl_pace_at(&f->pace));
		for (uint8_t i = 0; f->policy.rail && i < f->policy.rails; i++)
			at = uccl_min(at, uccl_pace_at(&f->policy.rail[i].pace));
	}
	if (f->loss.persistent_loss.at && flow_more(f))
		at = uccl_min(at, f->loss.persistent_loss.at);
	if (!f->limits.slots && flow_more(f))
		at = uccl_min(at, f->limits.want_at);
	if (f->credit.starved && !flow_silent(f))
		at = uccl_min(at, uccl_credit_tell_at(&f->credit, &f->loss.times));
	return at;
}

void uccl_flow_expire(struct uccl_flow *f, uint64_t now)
{
	if (now >= f->rx.ack_tracker.at)
		uccl_ack_tracker_expire(&f->rx.ack_tracker);
	if (now >= f->loss.rack.at)
		flow_detect(f, now);
	if (now >= f->loss.pto.at)
		pto_expire(f, now);
	if (now >= f->paths.at)
		uccl_paths_expire(&f->paths, uccl_flow_rto(f), now);
	if (now >= f->close.at)
		uccl_closing_expire(&f->close, uccl_flow_rto(f), now);
	if (now >= f->loss.persistent_loss.at)
		uccl_persistent_loss_over(&f->loss.persistent_loss);
	uccl_pace_expire(&f->pace, now);
	for (uint8_t i = 0; f->policy.rail && i < f->policy.rails; i++)
		uccl_pace_expire(&f->policy.rail[i].pace, now);
}

void uccl_flow_set_writable(struct uccl_flow *f, uint16_t path, bool on, uint64_t now)
{
	if (!f->cfg.write.later || path >= f->cfg.paths_tx)
		return;
	uccl_paths_set_writable(&f->paths, path, on, uccl_flow_rto(f), now);
	if (!on)
		flow_writes_lost(f, path, now);
}
