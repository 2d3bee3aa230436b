/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What leaves next. One call fills one packet or one direct write, in this order: closing, retransmissions, probes, the
 * writes of a descriptor that was sent, the demand for credit of who begins, records, bulk, the question for a receive
 * slot, credit, and an acknowledgement that nothing else carried.
 * There is no second way to send.
 */
#include "flow/send/tx_internal.h"

static int tx_probes(struct uccl_flow *f, struct uccl_tx *tx, uint64_t now)
{
	uint16_t path;

	if (!f->paths.probes_due)
		return 0;
	path = uccl_paths_take_probe(&f->paths);
	if (uccl_pto_repeated(&f->loss.pto))
		uccl_ack_tracker_again(&f->rx.ack_tracker, f->paths.reacted_ns);
	return flow_tx_control(f, tx, UCCL_PKT_PROBE, UCCL_FLAG_AR, NULL, path, true, now);
}

/* The peer has taken all receive slots back, or never granted any. PROTOCOL R179 */
static int tx_want(struct uccl_flow *f, struct uccl_tx *tx, uint64_t now)
{
	uint16_t path;

	if (f->limits.slots || now < f->limits.want_at || !flow_more(f))
		return 0;
	path = f->limits.wants ? uccl_paths_next(&f->paths) : uccl_paths_control(&f->paths);
	uccl_peer_limits_wanted(&f->limits, uccl_flow_rto(f), &f->rng, now);
	return flow_tx_control(f, tx, UCCL_PKT_PROBE, UCCL_FLAG_AR | UCCL_FLAG_WANT, NULL, path, true, now);
}

/*
 * A peer that is short of memory may refuse each time what is sent again, and take what is new: an envelope whose turn
 * it is, payload that it asked for. So they take turns. PROTOCOL R383
 */
static int tx_lost(struct uccl_flow *f, struct uccl_tx *tx, uint64_t now)
{
	if (f->limits.envelopes_only && f->limits.again && !f->write_tx.item && flow_tx_new(f, tx, now)) {
		uccl_peer_limits_again(&f->limits, false);
		return 1;
	}
	uccl_peer_limits_again(&f->limits, true);
	return flow_tx_retransmit(f, tx, now);
}

int uccl_flow_tx(struct uccl_flow *f, struct uccl_tx *tx, uint64_t now)
{
	bool rests = uccl_persistent_loss_rests(&f->loss.persistent_loss, now);
	uint16_t path;
	uint8_t end;

	/* The packets of a row have numbers in a row. */
	if (f->sent.out.left && !f->close.seen)
		return flow_tx_run(f, tx, now);
	end = uccl_closing_next(&f->close);
	if (end)
		return flow_tx_control(f, tx, end, 0, NULL, uccl_paths_control(&f->paths), true, now);
	if (f->close.seen)
		return 0;
	/* Who always has full packets to send would never tell the peer what came. PROTOCOL R398 */
	if (uccl_ack_tracker_overdue(&f->rx.ack_tracker))
		return flow_tx_control(f, tx, UCCL_PKT_ACK, 0, NULL, flow_tx_control_path(f), true, now);
	if (f->limits.last_ns && flow_more(f))
		uccl_peer_limits_more(&f->limits, now);
	if (uccl_sent_waits(&f->sent) && !rests && tx_lost(f, tx, now))
		return 1;
	if (tx_probes(f, tx, now))
		return 1;
	f->app_limited = true;
	if (!f->write_tx.item && flow_tx_credit_first(f, tx, now))
		return 1;
	/* Chunks of a descriptor follow it without a gap; if they have to wait, credit and acknowledgements do not. */
	if (!rests && (f->write_tx.item ? flow_tx_write(f, tx, now) : flow_tx_new(f, tx, now)))
		return 1;
	if (tx_want(f, tx, now))
		return 1;
	if (flow_tx_credit(f, tx, now))
		return 1;
	if (f->rx.ack_tracker.now)
		return flow_tx_control(f, tx, UCCL_PKT_ACK, 0, NULL, flow_tx_control_path(f), true, now);
	if (uccl_ack_tracker_take_answer(&f->rx.ack_tracker)) {
		uccl_ack_tracker_again(&f->rx.ack_tracker, f->paths.reacted_ns);
		path = f->paths.unheard > 1 ? uccl_paths_control(&f->paths) : uccl_paths_next(&f->paths);
		/* One after the other, but the first answer may have taken the same by preference. */
		if (f->paths.control.n && path == f->paths.control.list[f->paths.control.next % f->paths.control.n])
			path = uccl_paths_next(&f->paths);
		return flow_tx_control(f, tx, UCCL_PKT_ACK, 0, NULL, path, true, now);
	}
	return 0;
}

void uccl_flow_sent(struct uccl_flow *f, uint64_t cookie, uint64_t now)
{
	struct uccl_item *item = uccl_sent_read_end(&f->sent, cookie);

	if (item)
		flow_item_done(f, item, now);
}
