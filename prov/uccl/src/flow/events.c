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

/* The same with `more` bytes behind those that wait. */
static uint64_t event_credit_left(const struct uccl_flow *f, uint64_t more)
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
	waits = uccl_event_credit_backlog(f) + more;
	/* Any credit lets one chunk go, so the last one has to begin there. PROTOCOL R290 */
	return waits > left && (waits - 1) / chunk * chunk < end - used ? waits : left;
}

uint64_t uccl_event_credit_left(const struct uccl_flow *f)
{
	return event_credit_left(f, 0);
}

bool uccl_event_credit_covers(const struct uccl_flow *f, uint64_t bytes)
{
	return event_credit_left(f, bytes) >= bytes;
}

bool uccl_event_credit_free(const struct uccl_flow *f)
{
	return f->cfg.policy.credit->limit(f->policy.credit) == UINT64_MAX;
}

bool uccl_event_credit_spent(struct uccl_flow *f)
{
	return event_limit(f) <= f->credit.used && !uccl_event_credit_left(f);
}

static uint64_t event_rail_window(const struct uccl_flow *f, uint8_t rail)
{
	return f->cfg.policy.cc->window(f->policy.rail[rail].cc);
}

static uint64_t event_rails_window(const struct uccl_flow *f)
{
	uint64_t sum = 0;

	for (uint8_t i = 0; i < f->policy.rails; i++)
		sum += uccl_min(event_rail_window(f, i), UINT64_MAX - sum);
	return sum;
}

static inline uint64_t event_cc_window(const struct uccl_flow *f)
{
	return f->policy.rail ? event_rails_window(f) : f->cfg.policy.cc->window(f->policy.cc);
}

uint64_t uccl_event_cc_window(const struct uccl_flow *f)
{
	return event_cc_window(f);
}

/* A window of congestion control, and how much larger it may be because acknowledgements wait on their way back. */
static inline uint64_t event_window(const struct uccl_flow *f, uint64_t bytes)
{
	if (!f->loss.ack_delay.share)
		return bytes;
	/* What has come, but its acknowledgement waits on the way back, is in the network no more. */
	return bytes + uccl_min(uccl_ack_delay_more(&f->loss.ack_delay, bytes), UINT64_MAX - bytes);
}

uint64_t uccl_event_window(const struct uccl_flow *f)
{
	return event_window(f, event_cc_window(f));
}

uint32_t uccl_event_write_size(const struct uccl_flow *f)
{
	return uccl_chunk_bytes(&f->chunk, uccl_event_window(f), f->sent.inflight_bytes, f->limits.slots,
				uccl_rate_in(&f->loss.rate, UCCL_CHUNK_NS),
				uccl_rate_in(&f->loss.rate, uccl_ack_delay_queue(&f->loss.ack_delay)));
}

/*
 * One packet may always be in flight: below that, pacing holds the rate (uccl_event_pacing_chunk). What takes more than
 * one fits the window even alone: a long train is the queue of a slow link by itself, the window shrinks for the delay
 * that it sees, and pacing then waits ever longer for the next one.
 */
static inline bool event_fits(const struct uccl_flow *f, uint64_t inflight, uint64_t window, uint32_t want)
{
	return inflight + want <= window ||
	       (!inflight && want <= uccl_max(f->cfg.packet.chunk_bytes, f->cfg.write.bytes));
}

/* May its window be filled? PROTOCOL R401 */
static bool event_rail_works(const struct uccl_flow *f, uint8_t rail)
{
	return uccl_rail_works(&f->policy.rail[rail]) && !uccl_paths_rail_doubted(&f->paths, rail);
}

bool uccl_event_rail_room(const struct uccl_flow *f, uint8_t rail, uint32_t want, uint64_t now)
{
	const struct uccl_rail *r = &f->policy.rail[rail];

	return now >= r->pace.next_ns &&
	       event_fits(f, r->inflight, event_rail_works(f, rail) ? event_window(f, event_rail_window(f, rail)) : 0,
			  want);
}

/* What is in flight there, with `want` bytes more, as a part of what may be. */
static double event_rail_load(const struct uccl_flow *f, uint8_t rail, uint32_t want)
{
	return ((double)f->policy.rail[rail].inflight + want) / (double)uccl_max(event_rail_window(f, rail), 1);
}

uint8_t uccl_event_rail(const struct uccl_flow *f, uint32_t want, uint64_t now)
{
	uint8_t best = UCCL_RAIL_NONE;

	for (uint8_t i = 0; i < f->policy.rails; i++)
		if (f->paths.rails.usable & 1u << i && uccl_event_rail_room(f, i, want, now) &&
		    (best == UCCL_RAIL_NONE || event_rail_load(f, i, want) < event_rail_load(f, best, want)))
			best = i;
	return best;
}

uint32_t uccl_event_chunk_size(struct uccl_flow *f, uint32_t want, uint64_t now)
{
	if (f->policy.rail) {
		if (uccl_event_rail(f, want, now) == UCCL_RAIL_NONE)
			return 0;
	} else if (!event_fits(f, f->sent.inflight_bytes, uccl_event_window(f), want) || now < f->pace.next_ns) {
		return 0;
	}
	if (uccl_event_credit_spent(f))
		return 0;
	/* A credit of any size lets one whole chunk go: the overdraft is at most one chunk (EQDS does the same). */
	return want;
}

static uint64_t event_pace(struct uccl_flow *f, uint8_t rail, uint32_t bytes, uint64_t now)
{
	uint64_t srtt = f->policy.rail ? f->policy.rail[rail].srtt_ns : f->loss.times.srtt_ns;

	return f->cfg.policy.cc->pace ? f->cfg.policy.cc->pace(flow_cc(f, rail), bytes, srtt, now) : now;
}

uint64_t uccl_event_pacing_chunk(struct uccl_flow *f, uint16_t path, uint32_t bytes, uint64_t now)
{
	uccl_credit_spend(&f->credit, bytes);
	return event_pace(f, flow_rail_number(f, path), bytes, now);
}

/* Bytes that the NIC has not sent. */
static uint64_t event_backlog(const struct uccl_flow *f)
{
	return f->cfg.backlog ? *f->cfg.backlog : 0;
}

/*
 * How many of `n` paths in service the policy may choose from, the first ones: one for each burst of `bytes` that is in
 * flight or about to leave, and at least two. More paths would carry no more, and their sockets and routes would leave
 * the caches. While a question to the peer is unanswered, all of them. PROTOCOL R341
 */
static uint16_t event_paths(const struct uccl_flow *f, uint16_t n, uint32_t bytes, uint64_t left)
{
	uint64_t choices = 1 + (f->sent.inflight_bytes + uccl_max(bytes, left)) / uccl_max(bytes, 1);

	if (!flow_warm(f) || f->loss.pto.backoff || !uccl_paths_warm_works(&f->paths))
		return n;
	return (uint16_t)uccl_min(uccl_max(choices, 2), n);
}

/* The rail of a burst: what leaves again, and little payload, need no room, but a rail that works if there is one. */
static uint8_t event_rail_any(const struct uccl_flow *f, uint32_t bytes, uint64_t now)
{
	uint8_t best = uccl_event_rail(f, bytes, now);

	if (best == UCCL_RAIL_NONE)
		best = uccl_event_rail(f, f->chunk_bytes, now);
	for (uint8_t i = 0; best == UCCL_RAIL_NONE && i < f->policy.rails; i++)
		if (f->paths.rails.usable & 1u << i && event_rail_works(f, i))
			best = i;
	for (uint8_t i = 0; best == UCCL_RAIL_NONE && i < f->policy.rails; i++)
		if (f->paths.rails.usable & 1u << i)
			best = i;
	return best;
}

uint16_t uccl_event_select_path(struct uccl_flow *f, uint32_t bytes, uint64_t left, uint64_t now)
{
	/* Links whose rate is known are of fabrics, where what drops is a full queue. */
	bool policed = uccl_train_wait_policed(&f->train.wait) && !f->cfg.train.shorten;
	const struct uccl_chunk_info chunk = {.bytes = bytes, .left = left, .backlog = event_backlog(f),
					      .policed = policed};
	const uint16_t *usable = f->paths.usable;
	uint16_t list[UCCL_PATHS_MAX], n = f->paths.nusable;
	uint8_t rail = 0;

	if (f->policy.rail) {
		rail = event_rail_any(f, bytes, now);
		n = uccl_paths_of_rail(&f->paths, rail, list);
		usable = list;
	}
	return f->cfg.policy.pathsel->select(flow_pathsel(f, rail), f->paths.list, usable,
					     event_paths(f, n, bytes, left), &chunk, &f->rng, now);
}

bool uccl_event_tx_rtx_chunk(struct uccl_flow *f, uint32_t bytes, bool desc, uint64_t now)
{
	(void)now;
	/* The writes behind a descriptor keep their slots until it came: with fewer slots it would wait for ever. */
	if (uccl_sent_slots(&f->sent) >= uccl_peer_limits_most(&f->limits) && !(desc && f->sent.inflight_chunks))
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

void uccl_event_rx_ack(struct uccl_flow *f, uint8_t rail, struct uccl_ack_info *info, uint64_t now)
{
	struct uccl_pace *pace = f->policy.rail ? &f->policy.rail[rail].pace : &f->pace;

	info->backlog = event_backlog(f);
	if (f->cfg.policy.cc->on_ack)
		f->cfg.policy.cc->on_ack(flow_cc(f, rail), info, now);
	/*
	 * A rate that was far too low when the latest packet left, from few samples or from the time in which this host
	 * did not run, would hold back the next one for minutes, whatever is known by now.
	 */
	if (pace->next_ns > now && pace->next_ns > now + uccl_flow_rto(f))
		uccl_pace_sooner(pace, event_pace(f, rail, pace->bytes, pace->sent_ns));
}

void uccl_event_path_sample(struct uccl_flow *f, uint16_t path, uint64_t rtt_ns, uint64_t marked, uint64_t now)
{
	if (f->cfg.policy.pathsel->on_ack)
		f->cfg.policy.pathsel->on_ack(flow_pathsel(f, flow_rail_number(f, path)), f->paths.list, path, rtt_ns,
					      marked, now);
}

void uccl_event_path_landed(struct uccl_flow *f, uint16_t path, uint64_t now)
{
	if (f->cfg.policy.pathsel->on_land)
		f->cfg.policy.pathsel->on_land(flow_pathsel(f, flow_rail_number(f, path)), f->paths.list, path,
					       now);
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
	uint8_t rail = flow_rail_number(f, loss->path);

	if (f->policy.rail)
		f->policy.rail[rail].losses++;
	if (f->cfg.policy.cc->on_loss)
		f->cfg.policy.cc->on_loss(flow_cc(f, rail), loss, now);
	if (f->cfg.policy.pathsel->on_loss)
		f->cfg.policy.pathsel->on_loss(flow_pathsel(f, rail), loss->path, loss->kind, now);
}

void uccl_event_share(struct uccl_flow *f, uint32_t of)
{
	for (uint8_t i = 0; f->cfg.policy.cc->share && i < f->policy.rails; i++)
		f->cfg.policy.cc->share(flow_cc(f, i), of);
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
