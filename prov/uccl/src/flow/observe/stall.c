/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* See stall.h. */
#include "flow/observe/stall.h"

#include <string.h>

#include "flow/internal.h"

const char *uccl_stall_text(uint8_t why)
{
	static const char *const text[] = {
#define X(sym, t) t,
		UCCL_STALL_REASONS(X)
#undef X
	};

	return why < UCCL_STALL_COUNT ? text[why] : "?";
}

void uccl_stall_init(struct uccl_stall_clock *h, uint64_t away_ns, uint64_t now)
{
	memset(h, 0, sizeof(*h));
	h->from_ns = h->began_ns = now;
	h->away_ns = away_ns;
}

void uccl_stall_read(const struct uccl_stall_clock *h, uint64_t ns[UCCL_STALL_COUNT], uint64_t away_ns, uint64_t now)
{
	uint64_t all = now > h->from_ns ? now - h->from_ns : 0;
	/* Some of the absence may have been before the reason began. */
	uint64_t away = h->why == UCCL_STALL_NOT ? 0 : uccl_min(away_ns - h->away_ns, all);

	memmove(ns, h->ns, sizeof(h->ns));
	ns[h->why] += all - away;
	ns[UCCL_STALL_AWAY] += away;
}

void uccl_stall_change(struct uccl_stall_clock *h, uint8_t why, uint64_t away_ns, uint64_t now)
{
	uccl_stall_read(h, h->ns, away_ns, now);
	h->from_ns = uccl_max(h->from_ns, now);
	h->began_ns = h->from_ns;
	h->away_ns = away_ns;
	h->why = why;
}

/* The bounds of what leaves (tx_internal.h), looked at after one of them was found to be reached. */
enum uccl_stall uccl_flow_stall(const struct uccl_flow *f, uint64_t now)
{
	bool again = uccl_sent_waits(&f->sent);
	bool waits = again || f->write_tx.item || uccl_sendq_waits(&f->sendq);

	if (flow_silent(f))
		return UCCL_STALL_SILENT;
	if (flow_more(f) && (!f->limits.slots || (f->sent.inflight_chunks && flow_slots_full(f, 0, 0))))
		return UCCL_STALL_SLOTS;
	if (!waits)
		return f->sent.repairs ? UCCL_STALL_LOSS : UCCL_STALL_NOT;
	if ((!again || f->cfg.policy.credit->pull) && !uccl_event_credit_left(f))
		return UCCL_STALL_CREDIT;
	if (f->sent.repairs)
		return UCCL_STALL_LOSS;
	if (f->sent.nxt - f->sent.una >= f->cfg.window)
		return UCCL_STALL_CHUNKS;
	if (now < f->pace.next_ns)
		return UCCL_STALL_PACE;
	if (!f->sent.inflight_chunks)
		return UCCL_STALL_NOT;
	/* A train waits for room in the smaller of the two. */
	return (uint64_t)uccl_peer_limits_most(&f->limits) * f->chunk_bytes <
			       uccl_event_window(f) * uccl_sent_slots_of(&f->sent, f->chunk_bytes)
		       ? UCCL_STALL_SLOTS
		       : UCCL_STALL_WINDOW;
}
