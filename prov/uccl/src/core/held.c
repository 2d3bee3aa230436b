/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* See held.h. */
#include "core/held.h"

#include <string.h>

#include "core/internal.h"

const char *uccl_held_text(uint8_t why)
{
	static const char *const text[] = {
#define X(sym, t) t,
		UCCL_HELD_REASONS(X)
#undef X
	};

	return why < UCCL_HELD_COUNT ? text[why] : "?";
}

void uccl_held_init(struct uccl_held_clock *h, uint64_t away_ns, uint64_t now)
{
	memset(h, 0, sizeof(*h));
	h->from_ns = h->began_ns = now;
	h->away_ns = away_ns;
}

void uccl_held_read(const struct uccl_held_clock *h, uint64_t ns[UCCL_HELD_COUNT], uint64_t away_ns, uint64_t now)
{
	uint64_t all = now > h->from_ns ? now - h->from_ns : 0;
	/* Some of the absence may have been before the reason began. */
	uint64_t away = h->why == UCCL_HELD_NOT ? 0 : uccl_min(away_ns - h->away_ns, all);

	memmove(ns, h->ns, sizeof(h->ns));
	ns[h->why] += all - away;
	ns[UCCL_HELD_AWAY] += away;
}

void uccl_held_change(struct uccl_held_clock *h, uint8_t why, uint64_t away_ns, uint64_t now)
{
	uccl_held_read(h, h->ns, away_ns, now);
	h->from_ns = uccl_max(h->from_ns, now);
	h->began_ns = h->from_ns;
	h->away_ns = away_ns;
	h->why = why;
}

/* The bounds of what leaves (tx.h), looked at after one of them was found to be reached. */
enum uccl_held uccl_flow_held(const struct uccl_flow *f, uint64_t now)
{
	bool again = uccl_sent_waits(&f->sent);
	bool waits = again || f->announced.item || uccl_sendq_waits(&f->sendq);

	if (flow_silent(f))
		return UCCL_HELD_SILENT;
	if (!f->granted.slots && flow_more(f))
		return UCCL_HELD_SLOTS;
	if (!waits)
		return f->sent.repairs ? UCCL_HELD_LOSS : UCCL_HELD_NOT;
	if (f->sent.inflight_chunks && uccl_sent_packets(&f->sent) >= f->granted.slots)
		return UCCL_HELD_SLOTS;
	if ((!again || f->cfg.credit->pull) && !uccl_event_credit_left(f))
		return UCCL_HELD_CREDIT;
	if (f->sent.repairs)
		return UCCL_HELD_LOSS;
	if (f->sent.nxt - f->sent.una >= f->cfg.window)
		return UCCL_HELD_CHUNKS;
	if (now < f->next_tx_ns)
		return UCCL_HELD_PACE;
	if (!f->sent.inflight_chunks)
		return UCCL_HELD_NOT;
	/* A train waits for room in the smaller of the two. */
	return (uint64_t)f->granted.slots * f->chunk_bytes < uccl_event_window(f) ? UCCL_HELD_SLOTS : UCCL_HELD_WINDOW;
}
