/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "flow/events.h"

#include "base/units.h"
#include "flow/internal.h"

uint64_t uccl_event_credit_backlog(const struct uccl_flow *f)
{
	uint64_t sum = uccl_sendq_bytes(&f->sendq, UCCL_DEMAND_ITEMS);

	/* What waits to be sent again: all that is neither in flight nor acknowledged, and not small. */
	if (f->cfg.policy.credit->pull)
		sum += uccl_sent_backlog(&f->sent);
	return sum;
}

/* The end of what may be sent. */
static uint64_t event_limit(const struct uccl_flow *f)
{
	return uccl_max(f->cfg.policy.credit->limit(f->policy.credit), f->credit.renewed);
}

uint64_t uccl_event_credit_left(const struct uccl_flow *f)
{
	uint64_t limit = event_limit(f), used = f->credit.used;
	uint64_t left = limit > used ? limit - used : 0,
		 chunk = uccl_max(f->cfg.packet.chunk_bytes, f->cfg.write.bytes);
	uint64_t end, waits;

	if (!f->cfg.policy.credit->whole || limit == UINT64_MAX || f->credit.demand_sent > used)
		return left;
	end = limit + f->cfg.policy.credit->whole(f->policy.credit);
	if (end <= used)
		return left;
	waits = uccl_event_credit_backlog(f);
	/* Any credit lets one chunk go, so the last one has to begin there. PROTOCOL R290 */
	return waits > left && (waits - 1) / chunk * chunk < end - used ? waits : left;
}

bool uccl_event_credit_free(const struct uccl_flow *f)
{
	return f->cfg.policy.credit->limit(f->policy.credit) == UINT64_MAX;
}

bool uccl_event_credit_spent(struct uccl_flow *f)
{
	return event_limit(f) <= f->credit.used && !uccl_event_credit_left(f);
}

uint64_t uccl_event_window(const struct uccl_flow *f)
{
	uint64_t bytes = f->cfg.policy.cc->window(f->policy.cc);

	if (!f->loss.ack_delay.share)
		return bytes;
	/* What has come, but its acknowledgement waits on the way back, is in the network no more. */
	return bytes + uccl_min(uccl_ack_delay_more(&f->loss.ack_delay, bytes), UINT64_MAX - bytes);
}

uint32_t uccl_event_write_size(const struct uccl_flow *f)
{
	return uccl_chunk_bytes(&f->chunk, uccl_event_window(f), f->sent.inflight_bytes, f->limits.slots,
				uccl_rate_in(&f->loss.rate, UCCL_CHUNK_NS),
				uccl_rate_in(&f->loss.rate, uccl_ack_delay_queue(&f->loss.ack_delay)));
}

uint32_t uccl_event_chunk_size(struct uccl_flow *f, uint32_t want, uint64_t now)
{
	uint64_t window = uccl_event_window(f);

	/*
	 * One packet may always be in flight: below that, pacing holds the rate (uccl_event_pacing_chunk). What takes
	 * more than one fits the window even alone: a long train is the queue of a slow link by itself, the window
	 * shrinks for the delay that it sees, and pacing then waits ever longer for the next one.
	 */
	if (f->sent.inflight_bytes + want > window &&
	    (f->sent.inflight_bytes || want > uccl_max(f->cfg.packet.chunk_bytes, f->cfg.write.bytes)))
		return 0;
	if (now < f->pace.next_ns)
		return 0;
	if (uccl_event_credit_spent(f))
		return 0;
	/* A credit of any size lets one whole chunk go: the overdraft is at most one chunk (EQDS does the same). */
	return want;
}

static uint64_t event_pace(struct uccl_flow *f, uint32_t bytes, uint64_t now)
{
	return f->cfg.policy.cc->pace ? f->cfg.policy.cc->pace(f->policy.cc, bytes, f->loss.times.srtt_ns, now) : now;
}

uint64_t uccl_event_pacing_chunk(struct uccl_flow *f, uint32_t bytes, uint64_t now)
{
	uccl_credit_spend(&f->credit, bytes);
	return event_pace(f, bytes, now);
}

/* Bytes that the NIC has not sent. */
static uint64_t event_backlog(const struct uccl_flow *f)
{
	return f->cfg.backlog ? *f->cfg.backlog : 0;
}

/*
 * How many of the paths in service the policy may choose from, the first ones: one for each burst of `bytes` that is in
 * flight or about to leave, and at least two. More paths would carry no more, and their sockets and routes would leave
 * the caches. While a question to the peer is unanswered, all of them. PROTOCOL R341
 */
static uint16_t event_paths(const struct uccl_flow *f, uint32_t bytes, uint64_t left)
{
	uint64_t choices = 1 + (f->sent.inflight_bytes + uccl_max(bytes, left)) / uccl_max(bytes, 1);

	if (!flow_warm(f) || f->loss.pto.backoff || !uccl_paths_warm_works(&f->paths))
		return f->paths.nusable;
	return (uint16_t)uccl_min(uccl_max(choices, 2), f->paths.nusable);
}

uint16_t uccl_event_select_path(struct uccl_flow *f, uint32_t bytes, uint64_t left, uint64_t now)
{
	const struct uccl_chunk_info chunk = { .bytes = bytes, .left = left, .backlog = event_backlog(f) };

	return f->cfg.policy.pathsel->select(f->policy.path, f->paths.list, f->paths.usable,
					     event_paths(f, bytes, left), &chunk, &f->rng, now);
}

bool uccl_event_tx_rtx_chunk(struct uccl_flow *f, uint32_t bytes, bool desc, uint64_t now)
{
	(void)now;
	/* The writes behind a descriptor keep their slots until it came: with fewer slots it would wait for ever. */
	if (uccl_sent_slots(&f->sent) >= f->limits.slots && !(desc && f->sent.inflight_chunks))
		return false;
	if (!f->cfg.policy.credit->pull)
		return true;
	if (uccl_event_credit_spent(f)) {
		/* What is under way may be writes that wait for just this descriptor: no grant would ever come. */
		if (f->sent.inflight_chunks && bytes > UCCL_CONTROL_BYTES)
			return false;
		uccl_credit_spend_free(&f->credit, bytes);
	} else {
		uccl_credit_spend(&f->credit, bytes);
	}
	return true;
}

void uccl_event_unlost(struct uccl_flow *f, uint32_t bytes)
{
	if (f->cfg.policy.credit->pull)
		uccl_credit_spend_free(&f->credit, bytes);
}

/* What has come, or never will. */
static void rx_pull(struct uccl_flow *f, bool lost, uint64_t now)
{
	if (f->cfg.policy.credit->pull)
		uccl_pacer_heard(f->cfg.pacer, &f->credit.pull, uccl_credit_settled(&f->credit), f->credit.demand, lost,
				 now);
}

static void rx_credit_due(struct uccl_flow *f, uint32_t bytes, uint64_t now)
{
	uccl_credit_received(&f->credit, bytes);
	rx_pull(f, false, now);
	if (f->cfg.policy.credit->grant)
		uccl_credit_due(&f->credit);
}

void uccl_event_rx_chunk(struct uccl_flow *f, uint32_t bytes, uint64_t now)
{
	rx_credit_due(f, bytes, now);
}

void uccl_event_rx_rtx_chunk(struct uccl_flow *f, uint32_t bytes, uint64_t now)
{
	rx_credit_due(f, bytes, now);
}

void uccl_event_rx_ack(struct uccl_flow *f, struct uccl_ack_info *info, uint64_t now)
{
	info->backlog = event_backlog(f);
	if (f->cfg.policy.cc->on_ack)
		f->cfg.policy.cc->on_ack(f->policy.cc, info, now);
	/*
	 * A rate that was far too low when the latest packet left, from few samples or from the time in which this host
	 * did not run, would hold back the next one for minutes, whatever is known by now.
	 */
	if (f->pace.next_ns > now + uccl_flow_rto(f))
		uccl_pace_sooner(&f->pace, event_pace(f, f->pace.bytes, f->pace.sent_ns));
}

void uccl_event_path_sample(struct uccl_flow *f, uint16_t path, uint64_t rtt_ns, uint64_t marked, uint64_t now)
{
	if (f->cfg.policy.pathsel->on_ack)
		f->cfg.policy.pathsel->on_ack(f->policy.path, f->paths.list, path, rtt_ns, marked, now);
}

void uccl_event_path_landed(struct uccl_flow *f, uint16_t path, uint64_t now)
{
	if (f->cfg.policy.pathsel->on_land)
		f->cfg.policy.pathsel->on_land(f->policy.path, f->paths.list, path, now);
}

void uccl_event_rx_credit(struct uccl_flow *f, uint64_t granted, uint64_t turn, uint64_t now)
{
	uint64_t limit = f->cfg.policy.credit->limit(f->policy.credit);

	if (uccl_credit_turn(&f->credit, turn) && f->cfg.policy.credit->on_credit)
		f->cfg.policy.credit->on_credit(f->policy.credit, granted, turn, now);
	uccl_credit_answered(&f->credit, f->cfg.policy.credit->limit(f->policy.credit) > limit, now);
}

void uccl_event_rx_demand(struct uccl_flow *f, uint64_t demand, uint64_t lost, uint64_t message, uint64_t now)
{
	/* DEMANDs overtake each other: what is older says nothing of now. */
	if (demand >= f->credit.demand)
		uccl_pull_rank_message(&f->credit.pull.rank, message);
	rx_pull(f, uccl_credit_heard(&f->credit, demand, lost), now);
}

void uccl_event_asked(struct uccl_flow *f, uint64_t bytes, uint64_t now)
{
	if (f->cfg.policy.credit->pull)
		uccl_pacer_asked(f->cfg.pacer, &f->credit.pull, uccl_credit_settled(&f->credit) + bytes, now);
}

void uccl_event_loss(struct uccl_flow *f, const struct uccl_loss_info *loss, uint64_t now)
{
	if (f->cfg.policy.cc->on_loss)
		f->cfg.policy.cc->on_loss(f->policy.cc, loss, now);
	if (f->cfg.policy.pathsel->on_loss)
		f->cfg.policy.pathsel->on_loss(f->policy.path, loss->path, loss->kind, now);
}

void uccl_event_share(struct uccl_flow *f, uint32_t of)
{
	if (f->cfg.policy.cc->share)
		f->cfg.policy.cc->share(f->policy.cc, of);
}

uint64_t uccl_event_grant(struct uccl_flow *f, uint64_t *turn, uint64_t now)
{
	const struct uccl_credit *c = &f->credit;

	*turn = f->cfg.policy.credit->pull ? c->pull.turn : 0;
	if (f->cfg.policy.credit->pull)
		return uccl_pull_free(&c->pull) ? UINT64_MAX : c->pull.granted;
	/* Who grants nothing holds nobody back. PROTOCOL R64 */
	return f->cfg.policy.credit->grant ? f->cfg.policy.credit->grant(f->policy.credit, c->received, c->demand, now)
					   : UINT64_MAX;
}
