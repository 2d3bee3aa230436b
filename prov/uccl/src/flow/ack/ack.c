/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What the peer acknowledged, and what that proves lost, in this order: (1) proof: a later packet of the same path
 * arrived; (2) RACK (RFC 8985) across paths: something arrived that was sent later by more than this chunk's path may
 * take. How much that is, rack.c knows. The sender's clock convicts nothing while the peer is silent: it only asks. (3)
 * tail probe and (4) time-out are timers, in timer.c.
 */
#include "base/seq.h"
#include "flow/internal.h"

/* What arrives from a peer that we owe nothing is reported this often at most, and not more than once per RTT. */
#define REPORT_NS UCCL_NS_PER_MS
/* So long a report waits for payload to ride on, if the peer sent a chunk so lately: its chunks get blocks, too. */
#define REPORT_RIDE_NS (4 * UCCL_NS_PER_MS)
#define REPORT_TALKS_NS (10 * REPORT_RIDE_NS)
/* The most items waiting to be sent that are counted: those of one transfer, or some short messages. */
#define ENDS_ITEMS 16

_Static_assert(UCCL_TRAIN_PATHS >= UCCL_PATHS_MAX, "paths that trains do not know");

void flow_report_loss(struct uccl_flow *f, enum uccl_loss_kind kind, uint16_t path, uint64_t bytes, uint64_t now)
{
	struct uccl_loss_info loss = {
		.kind = kind,
		.path = path,
		.bytes = bytes,
		.inflight = f->policy.rail ? flow_rail(f, path)->inflight : f->sent.inflight_bytes,
		.srtt_ns = f->policy.rail ? flow_rail(f, path)->srtt_ns : f->loss.times.srtt_ns,
		.last_rtt_ns = f->loss.ack_delay.last_rtt_ns,
	};

	uccl_event_loss(f, &loss, now);
}

/* So many bytes of payload came on this path. */
static void path_landed(struct uccl_flow *f, uint16_t path, uint32_t bytes, uint64_t now)
{
	flow_path_land(f, path, bytes);
	uccl_event_path_landed(f, path, now);
}

/* Did it leave as a direct write, and not again since? What is sent again are packets. */
static bool sent_wrote(const struct uccl_sent *e)
{
	return e->write && e->ntx == 1;
}

/* Where the NIC makes paths ready for writes, these have queue pairs of their own: no packet goes their way. */
static bool sent_elsewhere(const struct uccl_flow *f, const struct uccl_sent *e)
{
	return f->cfg.write.later && sent_wrote(e);
}

/*
 * So many bytes of it were not in flight. They had been taken for lost, and the peer counts them twice: as received,
 * and as lost. PROTOCOL R286
 */
static void ack_unlost(struct uccl_flow *f, const struct uccl_sent *e, uint32_t bytes)
{
	if (bytes && !e->unsent)
		uccl_event_unlost(f, bytes);
}

/* So many bytes of it, which left on this path, are acknowledged. */
static inline void ack_acked(struct uccl_flow *f, uint16_t path, const struct uccl_sent *e, uint32_t bytes)
{
	uccl_rate_acked(flow_rate(f, path), &e->rate, e->sent_ns, bytes);
	if (f->policy.rail)
		flow_rail(f, path)->news.bytes += bytes;
}

/*
 * One so long, or a segment of it, came. Of what left more than once nobody knows which copy, so it proves no rail in
 * doubt; but where writes have queue pairs of their own, hardly anything else is a packet. PROTOCOL R401
 */
static void ack_long(struct uccl_flow *f, const struct uccl_sent *e, uint16_t path, uint32_t len, uint64_t now)
{
	if (e->ntx == 1 || f->cfg.write.later || !uccl_paths_rail_doubted(&f->paths, f->paths.list[path].rail))
		uccl_paths_long_acked(&f->paths, path, len, now);
}

/* What it says of the length of packets. Mostly nothing: it was no trial, and nothing long was lost lately. */
static inline void ack_mtu(struct uccl_flow *f, const struct uccl_sent *e, uint64_t csn, uint64_t now)
{
	if (f->pmtu.trial == csn + 1 || f->pmtu.rounds)
		flow_mtu_acked(f, e, csn, now);
}

/* Returns the bytes that this acknowledged for the first time. */
static uint32_t ack_one(struct uccl_flow *f, uint64_t csn, uint64_t now)
{
	struct uccl_sent *e = uccl_sent_at(&f->sent, csn);
	struct uccl_item *item = e->item;
	uint32_t bytes = uccl_sent_missing(e);

	if (e->state == UCCL_SENT_ACKED)
		return 0;
	if (e->state == UCCL_SENT_INFLIGHT)
		path_landed(f, e->path, e->flying, now);
	if (e->ntx == 1)
		uccl_rack_came(&f->loss.rack, csn, e->sent_ns);
	/* Also if the peer was asked: what comes without that takes no less. */
	if (e->packet.delayed && e->ntx == 1)
		uccl_times_ride(&f->loss.times, now - e->sent_ns);
	ack_acked(f, e->path, e, bytes);
	uccl_persistent_loss_came(&f->loss.persistent_loss);
	ack_unlost(f, e, bytes - e->flying);
	uccl_sent_acked(&f->sent, csn);
	/* Nothing but the write can have brought it; its path's line may be lost, or come behind this. PROTOCOL R84 */
	if (sent_wrote(e)) {
		uccl_paths_write_seen(&f->paths, e->path, csn);
		uccl_chunk_fate(&f->chunk, false);
	}
	if (!sent_elsewhere(f, e))
		ack_long(f, e, e->path, e->len, now);
	ack_mtu(f, e, csn, now);
	flow_item_done(f, item, now);
	return bytes;
}

/* The same of those of 64 that have a bit here; most of them were acknowledged before. */
static uint64_t ack_word(struct uccl_flow *f, uint64_t csn, uint64_t map, uint64_t now)
{
	uint64_t bytes = 0;

	for (map = uccl_sent_unacked_of(&f->sent, csn, map); map; map &= map - 1)
		bytes += ack_one(f, csn + (unsigned int)__builtin_ctzll(map), now);
	return bytes;
}

/* The same of all before `cum`. */
static uint64_t ack_all_before(struct uccl_flow *f, uint64_t cum, uint64_t now)
{
	uint64_t bytes = 0;

	/* Mostly nothing behind them came before, so all of them are news. */
	if (f->sent.high_acked <= f->sent.una) {
		for (uint64_t csn = f->sent.una; csn < cum; csn++)
			bytes += ack_one(f, csn, now);
		return bytes;
	}
	for (uint64_t csn = f->sent.una; csn < cum; csn += 64)
		bytes += ack_word(f, csn, cum - csn < 64 ? (1ull << (cum - csn)) - 1 : UINT64_MAX, now);
	return bytes;
}

/* Of how it is cut now, those that the peer names and that were missing. PROTOCOL R330 */
static uint64_t ack_named(struct uccl_sent *e, const struct uccl_ack_segments *p)
{
	if (!p->subs)
		return uccl_segment_map_missing(&e->cut.segments) & p->have;
	if (e->cut.subs.count != p->subs || e->cut.subs.of != p->of)
		return 0;
	return uccl_segment_map_missing(&e->cut.subs) & p->have;
}

/* The same of some of its segments. */
static uint32_t ack_segments(struct uccl_flow *f, uint64_t csn, const struct uccl_ack_segments *p, uint64_t now)
{
	struct uccl_sent *e = uccl_sent_at(&f->sent, csn);
	uint64_t fresh, left;
	uint16_t path = e->path;
	uint32_t bytes, flew;

	if (e->state == UCCL_SENT_ACKED)
		return 0;
	fresh = ack_named(e, p);
	if (!fresh)
		return 0;
	left = uccl_segment_map_missing(&e->cut.segments);
	if (p->subs ? fresh == uccl_segment_map_missing(&e->cut.subs) && left == 1ull << p->of : fresh == left)
		return ack_one(f, csn, now);
	uccl_persistent_loss_came(&f->loss.persistent_loss);
	ack_long(f, e, path, uccl_sent_cut_map(&e->cut)->each, now);
	ack_mtu(f, e, csn, now);
	flew = p->subs ? uccl_sent_sub_named(&f->sent, csn, fresh, &bytes)
		       : uccl_sent_named(&f->sent, csn, fresh, &bytes);
	path_landed(f, path, flew, now);
	ack_unlost(f, e, bytes - flew);
	ack_acked(f, path, e, bytes);
	return bytes;
}

/* What names segments of a chunk that were sent, or may have been. */
static bool ack_segments_sane(const struct uccl_sent *e, const struct uccl_ack_segments *p)
{
	uint8_t count = p->subs ? p->subs : e->cut.segments.count;

	if (!count || p->have & ~(~0ull >> (64 - count)))
		return false;
	return !p->subs || p->of < uccl_max(e->cut.segments.count, 1);
}

/*
 * Does it tell of what came out of order, or of chunks that are not whole? The common block does not: it acknowledges
 * the oldest that are in flight, and tells of a path or two.
 */
static inline bool ack_has_selective(const struct uccl_ack *a)
{
	return a->nwords | a->nsegments;
}

/* All of that. */
static uint64_t ack_selective(struct uccl_flow *f, const struct uccl_ack *a, uint64_t cum, uint64_t now)
{
	uint64_t bytes = 0;

	for (int w = 0; w < a->nwords; w++)
		if (a->sack[w])
			bytes += ack_word(f, cum + 1 + 64u * (unsigned int)w, a->sack[w], now);
	for (int i = 0; i < a->nsegments; i++)
		if (cum + a->segments[i].ahead >= f->sent.una)
			bytes += ack_segments(f, cum + a->segments[i].ahead, &a->segments[i], now);
	return bytes;
}

/* Is that of chunks that were sent, or may have been? */
static bool ack_selective_sane(const struct uccl_flow *f, const struct uccl_ack *a, uint64_t cum)
{
	uint64_t base = cum + 1;

	for (int w = a->nwords - 1; w >= 0; w--) {
		if (!a->sack[w])
			continue;
		if (base + 64u * (unsigned int)w + 63u - (unsigned int)__builtin_clzll(a->sack[w]) >= f->sent.nxt)
			return false;
		break;
	}
	for (int i = 0; i < a->nsegments; i++) {
		uint64_t csn = cum + a->segments[i].ahead;

		if (csn >= f->sent.nxt)
			return false;
		if (csn >= f->sent.una && !ack_segments_sane(uccl_sent_at(&f->sent, csn), &a->segments[i]))
			return false;
	}
	return true;
}

/* First look at everything: a block is taken whole or not at all. PROTOCOL R18 */
static enum uccl_drop ack_check(const struct uccl_flow *f, const struct uccl_ack *a, uint64_t cum)
{
	if (cum > f->sent.nxt || (ack_has_selective(a) && !ack_selective_sane(f, a, cum)))
		return UCCL_DROP_ACK;
	for (int i = 0; i < a->npaths; i++) {
		const struct uccl_ack_path *p = &a->paths[i];

		if (p->path >= f->cfg.paths_tx)
			return UCCL_DROP_PATH;
		if (p->write ? uccl_seq_expand(f->sent.nxt, p->seq, 32) >= f->sent.nxt :
			       (int32_t)(p->seq - f->paths.list[p->path].next_seq) >= 0)
			return UCCL_DROP_ACK;
	}
	return UCCL_DROP_COUNT;
}

/*
 * RTT over this path, turnaround and our own queueing taken off; 0: no sample. `sent` is when the packet left, as
 * coarse as the echo and never later: what left in the same instant must not seem older.
 */
static uint64_t path_sample(const struct uccl_ack_path *p, uint64_t arrived, uint64_t *sent)
{
	uint32_t elapsed = uccl_ts(arrived) - p->echo, rtt;

	/* An echo from before this process, or forged: no time at all is learnt from it. */
	if ((uint64_t)elapsed << UCCL_TS_SHIFT > 20 * UCCL_RTT_MAX_NS || arrived < (uint64_t)elapsed << UCCL_TS_SHIFT)
		return 0;
	*sent = ((arrived >> UCCL_TS_SHIFT) - elapsed) << UCCL_TS_SHIFT;
	if (p->delay == UINT32_MAX || p->delay > elapsed)
		return 0;
	rtt = elapsed - p->delay;
	if ((uint64_t)rtt << UCCL_TS_SHIFT > UCCL_RTT_MAX_NS)
		return 0;
	return uccl_max((uint64_t)rtt << UCCL_TS_SHIFT, 1);
}

/* Bytes that the network delivers in `ns`. */
static uint64_t ack_rate_in(const struct uccl_flow *f, uint64_t ns)
{
	uint64_t sum = uccl_rate_in(&f->loss.rate, ns);

	for (uint8_t i = 0; f->policy.rail && i < f->policy.rails; i++)
		sum += uccl_rate_in(&f->policy.rail[i].rate, ns);
	return sum;
}

/*
 * On a long way queues of some milliseconds are usual. A train that the network carries in less is none of them.
 * PROTOCOL R380
 */
static bool ack_train_quick(const struct uccl_flow *f)
{
	return flow_long_way(f) && ack_rate_in(f, 2 * UCCL_TRAIN_WAIT_NS) >= f->train_bytes;
}

/* The paths' lines: highest sequence numbers, RTT samples, marks; and what congestion control is to know of them. */
static void ack_paths(struct uccl_flow *f, const struct uccl_ack *a, uint64_t arrived, struct uccl_ack_info *info,
		      uint64_t now)
{
	uint8_t rails = f->paths.rails.usable;
	uint64_t host = UCCL_NEVER;

	for (int i = 0; i < a->npaths; i++) {
		const struct uccl_ack_path *in = &a->paths[i];
		struct uccl_path *p = &f->paths.list[in->path];
		uint64_t rtt = 0, sent = 0, marked = uccl_path_marked(p, in->marked) * (uint64_t)UCCL_MARK_BYTES;

		/* Also of a line that says nothing else new. */
		info->marked += marked;
		if (f->policy.rail)
			flow_rail(f, in->path)->news.marked += marked;
		if (in->write) {
			uint64_t csn = uccl_seq_expand(f->sent.nxt, in->seq, 32);
			const struct uccl_sent *e;

			if (csn < f->sent.una || !uccl_path_writes_acked(&p->writes, csn))
				continue;
			uccl_paths_write_seen(&f->paths, in->path, csn);
			e = uccl_sent_at(&f->sent, csn);
			if (sent_wrote(e)) {
				sent = e->sent_ns;
				if (arrived > sent + ((uint64_t)in->delay << UCCL_TS_SHIFT))
					rtt = arrived - sent - ((uint64_t)in->delay << UCCL_TS_SHIFT);
			}
		} else {
			if (!uccl_path_acked(p, in->seq))
				continue;
			rtt = path_sample(in, arrived, &sent);
		}
		if (rtt && sent >= f->loss.times.host_heard_ns &&
		    (in->write || !uccl_path_asks_was_quiet(&p->asks, in->seq)))
			host = uccl_min(host, (uint64_t)in->delay << UCCL_TS_SHIFT);
		if (f->policy.rail)
			flow_rail(f, in->path)->losses = 0;
		uccl_rack_reported(&f->loss.rack, sent);
		uccl_paths_alive(&f->paths, in->path, arrived);
		if (rtt) {
			uccl_times_rtt(&f->loss.times, rtt);
			flow_trace(f, UCCL_TRACE_RTT, 0, in->path, rtt, 0, 0, now);
			rtt = uccl_ack_delay_rtt(&f->loss.ack_delay, rtt);
			uccl_path_rtt(p, rtt, now);
			if (f->train_bytes && !in->write) {
				if (!ack_train_quick(f))
					f->cfg.stats->trains_short += uccl_train_wait_came(&f->train.wait, sent,
											   rtt - p->min_rtt_ns, now);
				uccl_train_wait_sample(&f->train.wait, in->path, rtt);
			}
			if (!in->write)
				p->packet_rtt_ns = rtt;
			uccl_event_path_sample(f, in->path, rtt,
					       uccl_path_take_marks(p) * (uint64_t)UCCL_MARK_BYTES, now);
			uccl_ack_info_sample(info, rtt, in->path);
			uccl_spread_reported(&f->loss.spread, sent, rtt);
			if (f->policy.rail)
				uccl_rail_sample(flow_rail(f, in->path), rtt, in->path);
		}
	}
	if (f->paths.rails.usable & ~rails)
		uccl_rack_forget(&f->loss.rack);
	if (host != UCCL_NEVER)
		uccl_times_host(&f->loss.times, host, now);
}

/* The sample of the delivery rate that an acknowledgement makes. info->inflight is known. */
static inline void ack_rate(struct uccl_flow *f, struct uccl_rate *rate, struct uccl_ack_info *info, uint64_t arrived)
{
	info->app_limited = f->app_limited;
	info->rate = uccl_rate_sample(rate, f->loss.times.min_rtt_ns, arrived);
	info->delivered = rate->delivered;
	/* What the receiver holds back says nothing of the network. */
	if (!uccl_sendq_waits(&f->sendq) || f->credit.starved || flow_slots_full(f, 0, 0))
		uccl_rate_limited(rate, info->inflight);
}

/* What congestion control is to know of a rail: it takes the news. */
static struct uccl_ack_info ack_rail_news(struct uccl_rail *r)
{
	struct uccl_ack_info news = r->news;

	r->news = (struct uccl_ack_info){0};
	news.inflight = r->inflight;
	news.srtt_ns = r->srtt_ns;
	news.min_rtt_ns = r->min_rtt_ns;
	return news;
}

/* Congestion control of a rail hears of an acknowledgement, if that is news of it. */
static inline void ack_tell(struct uccl_flow *f, uint8_t rail, struct uccl_rate *rate, struct uccl_ack_info *info,
			    bool far, uint64_t arrived, uint64_t now)
{
	if (!info->bytes && !info->rtt_ns && !info->marked)
		return;
	ack_rate(f, rate, info, arrived);
	info->spread = far ? uccl_spread_take(&f->loss.spread, info->bytes) : (struct uccl_spread_sample){0};
	uccl_event_rx_ack(f, rail, info, now);
}

/* The same of the flow, or with several rails of each. */
static void ack_tell_all(struct uccl_flow *f, struct uccl_ack_info *info, bool far, uint64_t arrived, uint64_t now)
{
	struct uccl_rail *rails = f->policy.rail;
	struct uccl_rate *rate = &f->loss.rate;
	uint8_t i = 0;

	do {
		if (rails) {
			rate = &rails[i].rate;
			*info = ack_rail_news(&rails[i]);
		} else {
			info->inflight = f->sent.inflight_bytes;
			info->srtt_ns = f->loss.times.srtt_ns;
			info->min_rtt_ns = f->loss.ack_delay.min_rtt_ns;
		}
		ack_tell(f, i, rate, info, far && !rails, arrived, now);
	} while (++i < f->policy.rails);
}

/* What a long way holds waits in no queue of the peer. PROTOCOL R391 */
static void ack_way(struct uccl_flow *f, bool far)
{
	uint64_t slots = 0;

	if (far)
		slots = ack_rate_in(f, uccl_times_least(&f->loss.times)) / f->chunk_bytes *
			uccl_sent_slots_of(&f->sent, f->chunk_bytes);
	uccl_ack_delay_way(&f->loss.ack_delay, far);
	uccl_peer_limits_way(&f->limits, slots);
}

/* Bytes of the flow that the network delivered. */
static uint64_t ack_delivered(const struct uccl_flow *f)
{
	uint64_t sum = f->loss.rate.delivered;

	for (uint8_t i = 0; f->policy.rail && i < f->policy.rails; i++)
		sum += f->policy.rail[i].rate.delivered;
	return sum;
}

/* What the network does now: are short trains better? PROTOCOL R288 */
static void ack_trains(struct uccl_flow *f)
{
	struct uccl_train_sight s;

	if (!f->cfg.train.shorten || !f->train_bytes)
		return;
	s = (struct uccl_train_sight){
		.link = f->cfg.link_bps / (8 * UCCL_NS_PER_S / UCCL_NS_PER_MS),
		.delivered = ack_rate_in(f, UCCL_NS_PER_MS),
		.queued = ack_rate_in(f, uccl_ack_delay_queue(&f->loss.ack_delay)),
		.acked = ack_delivered(f),
	};
	if (s.delivered)
		uccl_train_see(&f->train, f->train_bytes, &s);
}

/*
 * A peer that only listens would never know which of its paths bring its acknowledgements here. One that sends hears of
 * them by the blocks that its own payload gets. PROTOCOL R58
 */
static void ack_report(struct uccl_flow *f, uint64_t bytes, uint64_t now)
{
	struct uccl_ack_tracker *o = &f->rx.ack_tracker;

	if (f->cfg.paths_rx <= 1)
		return;
	if (!uccl_pto_repeated(&f->loss.pto) &&
	    !(bytes && now - o->sent_ns >= uccl_max(REPORT_NS, f->loss.times.srtt_ns)))
		return;
	if (uccl_flow_rx_talks(&f->rx, REPORT_TALKS_NS, now) && !uccl_pto_repeated(&f->loss.pto))
		uccl_ack_tracker_until(o, now + REPORT_RIDE_NS);
	else
		uccl_ack_tracker_at_once(o);
}

enum uccl_drop flow_ack_rx(struct uccl_flow *f, const struct uccl_ack *a, uint32_t ts, uint64_t age_ns, uint64_t now)
{
	uint64_t cum = uccl_seq_expand(f->sent.una, a->cum, 32);
	struct uccl_ack_info info;
	uint64_t arrived = now > age_ns ? now - age_ns : now;
	uint64_t una = f->sent.una, high = f->sent.high_acked, reported = f->loss.rack.reported_ns;
	enum uccl_drop reason;
	bool far;

	reason = ack_check(f, a, cum);
	if (reason != UCCL_DROP_COUNT)
		return reason;
	f->cfg.stats->acks_rx++;

	/* The rest of it is filled in when congestion control is told. */
	info.rtt_ns = info.marked = 0;
	info.path = 0;
	uccl_train_wait_round(&f->train.wait, now);
	uccl_ack_delay_back(&f->loss.ack_delay, ts, arrived);
	uccl_rack_block(&f->loss.rack, high);
	ack_paths(f, a, arrived, &info, now);
	far = flow_long_way(f);
	f->cfg.stats->marked_tx += info.marked;
	if (uccl_paths_look(&f->paths, f->loss.rack.reported_ns))
		uccl_paths_overdue(&f->paths, f->loss.rack.reported_ns, uccl_flow_rto(f), now);
	info.bytes = ack_all_before(f, cum, now);
	if (ack_has_selective(a))
		info.bytes += ack_selective(f, a, cum, now);
	/* Older than what we know: its paths' lines may still be news, its grants are not. PROTOCOL R19 */
	if (uccl_peer_limits_heard(&f->limits, a, cum, ts, now) && f->cfg.grant)
		uccl_slots_met(f->cfg.grant, a->met);
	uccl_sent_advance(&f->sent);
	if (f->credit.pull.cfg.renews)
		uccl_credit_renew(&f->credit, f->sent.inflight_bytes, f->credit.pull.cfg.idle);
	flow_trace(f, UCCL_TRACE_ACK, 0, 0, cum, (uint32_t)info.bytes, 0, now);
	uccl_rack_learn(&f->loss.rack, f->sent.una, f->loss.times.srtt_ns, now);
	/*
	 * Of a long way many blocks tell of what was sent again before the first of them could teach anything.
	 * PROTOCOL R396
	 */
	f->cfg.stats->spurious += uccl_rack_dups(&f->loss.rack, a->dups, f->loss.times.srtt_ns,
						 far ? f->loss.times.srtt_ns : 0, now);
	ack_report(f, info.bytes, now);
	/* An answer without news, as that of a path on probation, puts nothing off. PROTOCOL R54 R272 */
	if (f->loss.pto.backoff || f->sent.una != una || f->sent.high_acked != high || info.bytes)
		uccl_pto_answered(&f->loss.pto, &f->loss.times, uccl_sent_outstanding(&f->sent),
				  f->loss.rack.reported_ns, now);
	else if (f->loss.rack.reported_ns > reported)
		uccl_pto_advance(&f->loss.pto, &f->loss.times, f->loss.rack.reported_ns, now);
	if (info.bytes && !uccl_sendq_waits(&f->sendq))
		uccl_pto_last(&f->loss.pto, &f->loss.times, now);
	if ((f->train.wait.slow || f->train.wait.lost) && uccl_train_wait_acked(&f->train.wait, info.bytes, now))
		uccl_paths_least_anew(&f->paths);
	if (info.bytes || info.rtt_ns || info.marked) {
		ack_tell_all(f, &info, far, arrived, now);
		ack_trains(f);
	}
	ack_way(f, far);
	flow_detect(f, now);
	if (uccl_peer_limits_meet(&f->limits, uccl_sent_slots(&f->sent)))
		uccl_ack_tracker_at_once(&f->rx.ack_tracker);
	return UCCL_DROP_COUNT;
}

/* Has anything later than this been reported on its path? */
static bool sent_overtaken(const struct uccl_flow *f, const struct uccl_sent *e, uint64_t csn)
{
	const struct uccl_path *p = &f->paths.list[e->path];

	return sent_wrote(e) ? p->writes.acked_csn > csn : (int32_t)(p->acked_seq - uccl_sent_pseq(e)) > 0;
}

/* Packets were lost that left once: one, or these segments of the entry. */
static void sent_train_lost(struct uccl_flow *f, const struct uccl_sent *e, uint64_t map, uint64_t now)
{
	uint64_t una = uccl_sent_number_una(&f->sent);

	for (; map; map &= map - 1) {
		if (!e->single)
			f->cfg.stats->trains_short +=
				uccl_train_wait_lost(&f->train.wait, e->path, e->len, f->chunk_bytes, now);
		uccl_train_lost(&f->train, e->number + (unsigned int)__builtin_ctzll(map), e->single, una,
				f->sent.numbers, f->cfg.stats, now);
	}
}

static void sent_lost(struct uccl_flow *f, const struct uccl_sent *e, uint64_t csn, enum uccl_loss_kind kind,
		      uint64_t now)
{
	bool overtaken = sent_overtaken(f, e, csn);
	uint64_t map = e->cut.segments.count && !e->cut.subs.count ? e->cut.fly : 1;
	uint32_t bytes = e->flying;

	flow_path_land(f, e->path, bytes);
	uccl_sent_lost(&f->sent, csn, kind == UCCL_LOSS_RTO);
	uccl_path_lost(&f->paths.list[e->path]);
	uccl_credit_lost(&f->credit, bytes);
	/* That a trial of the length is lost says nothing of path or network (RFC 8899 section 3). */
	if (flow_mtu_lost(f, e, csn, now)) {
		flow_trace(f, UCCL_TRACE_LOST, (uint8_t)kind, e->path, csn, bytes, 0, now);
		return;
	}
	uccl_persistent_loss_lost(&f->loss.persistent_loss, &f->loss.times, e->sent_ns, now);
	if (!sent_elsewhere(f, e))
		uccl_paths_long_lost(&f->paths, e->path, e->len, e->sent_ns, uccl_flow_rto(f), now);
	if (f->cfg.train.bytes > f->cfg.packet.chunk_bytes && e->ntx == 1)
		sent_train_lost(f, e, map, now);
	flow_trace(f, UCCL_TRACE_LOST, (uint8_t)kind, e->path, csn, bytes, 0, now);
	if (sent_wrote(e)) {
		uccl_chunk_fate(&f->chunk, true);
		uccl_paths_write_lost(&f->paths, e->path, csn, now);
	}
	if (kind == UCCL_LOSS_PROOF) {
		f->cfg.stats->lost_proof++;
	} else if (kind == UCCL_LOSS_RACK) {
		f->cfg.stats->lost_rack++;
		uccl_paths_loss(&f->paths, e->path, false, uccl_flow_rto(f), now);
	} else {
		f->cfg.stats->lost_rto++;
		uccl_paths_loss(&f->paths, e->path, !overtaken, uccl_flow_rto(f), now);
		kind = UCCL_LOSS_RACK;
	}
	/* The peer's silence alone is no congestion, nor is one loss in it more than any other. PROTOCOL R132 */
	if (uccl_pto_proven(&f->loss.pto, e->sent_ns))
		kind = UCCL_LOSS_RTO;
	flow_report_loss(f, kind, e->path, bytes, now);
}

void flow_writes_lost(struct uccl_flow *f, uint16_t path, uint64_t now)
{
	uint64_t end = f->sent.nxt;

	for (uint64_t csn = f->sent.una; (csn = uccl_sent_flying(&f->sent, csn, end)) < end; csn++) {
		struct uccl_sent *e = uccl_sent_at(&f->sent, csn);

		if (sent_wrote(e) && e->path == path)
			sent_lost(f, e, csn, UCCL_LOSS_PROOF, now);
	}
}

/* A later packet of the same path was reported: what it overtook is lost, if the path keeps order. PROTOCOL R52 */
static bool sent_proven_lost(const struct uccl_flow *f, const struct uccl_sent *e, uint64_t csn)
{
	const struct uccl_path *p = &f->paths.list[e->path];

	if (sent_wrote(e))
		return uccl_rack_proof(&f->loss.rack, (int64_t)(p->writes.acked_csn - csn - 1));
	return uccl_rack_proof(&f->loss.rack, (int32_t)(p->acked_seq - uccl_sent_pseq(e)));
}

/*
 * A write whose descriptor is still under way: the peer reports it only when that came, so no later write on its path
 * says anything of it, and as packets it would be refused. PROTOCOL R52
 */
static bool sent_unannounced(struct uccl_flow *f, const struct uccl_sent *e, uint64_t csn)
{
	if (!sent_wrote(e) || csn - e->behind < f->sent.una)
		return false;
	return uccl_sent_at(&f->sent, csn - e->behind)->state != UCCL_SENT_ACKED;
}

/*
 * Later ones came and this one should have been heard of. The clock does not convict it: the peer may be busy, or this
 * path's queue may have grown. So its path is asked, unless something later is under way there and will tell; and
 * then, in case the path is dead, the one that works: its answer is news of something sent much later.
 */
static void sent_ask(struct uccl_flow *f, struct uccl_sent *e, uint64_t wait, uint64_t now)
{
	bool write = sent_wrote(e);
	uint8_t before = uccl_sent_ask(e);

	/* A packet says nothing of a write on the same path. PROTOCOL R256 */
	if (!before && !write) {
		if (f->paths.list[e->path].next_seq == e->packet.pseq + 1)
			uccl_paths_probe(&f->paths, e->path);
		return;
	}
	/* Of those that work the first question is due after one wait. */
	if (uccl_rack_ask(&f->loss.rack, e->sent_ns + (before + write) * wait, now))
		uccl_paths_probe(&f->paths, f->paths.alive);
}

/*
 * Is less left to be sent than is in flight? Then what is found lost later ends the transfer later. More items than are
 * counted are no end, however short they are.
 */
static bool sent_ends(const struct uccl_flow *f)
{
	return uccl_sendq_within(&f->sendq, ENDS_ITEMS, f->sent.inflight_bytes);
}

/* Reports are as coarse as the echo: what left so much later must be late enough when it is reported. */
static uint64_t sent_ceil(const struct uccl_sent *e, uint64_t wait_ns)
{
	return uccl_ts_ceil(e->sent_ns + wait_ns) - e->sent_ns;
}

/*
 * How long it may take. Before the transfer ends there is time for a longer wait, which errs less often. While
 * something waits to be sent, later packets may tell, so it is asked for later still. The answer about a write proves
 * its loss by time alone, that of a packet's path by order, too. PROTOCOL R53 R256 R399
 */
static struct uccl_rack_waits sent_waits(const struct uccl_flow *f, const struct uccl_sent *e, bool ends)
{
	const struct uccl_times *t = &f->loss.times;
	const struct uccl_path *p = &f->paths.list[e->path];
	uint64_t way = uccl_rack_wait(&f->loss.rack, p, t);
	bool last = !uccl_sendq_waits(&f->sendq);
	struct uccl_rack_waits w = {
		.way_ns = way,
		.proof_ns = sent_ceil(e, ends ? uccl_rack_end_wait(&f->loss.rack, p, t) : way),
	};

	w.ask_ns = last ? w.proof_ns : sent_ceil(e, way);
	if (!sent_wrote(e))
		w.ask_ns = uccl_min(w.ask_ns, uccl_rack_ask_wait(&f->loss.rack, t, last));
	return w;
}

/* How often it was asked for. A question that left too early, as the wait has grown since, does not count. */
static uint8_t sent_asked(const struct uccl_flow *f, const struct uccl_sent *e, uint64_t proof_ns)
{
	return sent_wrote(e) && f->loss.rack.asked_ns < e->sent_ns + proof_ns ? 0 : e->overdue;
}

void flow_detect(struct uccl_flow *f, uint64_t now)
{
	bool probed, ends;
	uint64_t all, end, soon;

	uccl_rack_look(&f->loss.rack);
	/* Mostly the last that was in flight has come. */
	if (!f->sent.inflight_chunks)
		return;
	/*
	 * Without a newer delivery nothing is inferred from the order of a path; a probe's answer speaks for the whole
	 * window. By time, whatever is reported speaks for all that left long before it. PROTOCOL R53
	 */
	probed = uccl_pto_reported(&f->loss.pto, f->loss.rack.reported_ns);
	all = f->sent.nxt;
	end = probed ? all : f->sent.high_acked;
	soon = uccl_rack_soon(&f->loss.rack, &f->loss.times);
	ends = sent_ends(f);
	for (uint64_t csn = f->sent.una; (csn = uccl_sent_flying(&f->sent, csn, all)) < all; csn++) {
		struct uccl_sent *e = uccl_sent_at(&f->sent, csn);
		struct uccl_rack_waits w;
		bool timed_out;

		/* All that follows left later still. */
		if (csn >= f->sent.high_acked && e->ntx == 1 && e->sent_ns >= f->loss.rack.reported_ns)
			break;
		timed_out = uccl_pto_survived(&f->loss.pto, e->sent_ns, f->loss.rack.reported_ns);
		if (!timed_out && sent_unannounced(f, e, csn))
			continue;
		if (csn < end && sent_proven_lost(f, e, csn)) {
			sent_lost(f, e, csn, UCCL_LOSS_PROOF, now);
			continue;
		}
		/* As a packet a write may be written twice, and the peer waits for what it doubts. PROTOCOL R244 */
		if (!sent_wrote(e) && uccl_rack_overdue(&f->loss.rack, e->sent_ns, soon, e->ntx == 1,
							f->sent.high_acked > csn ? f->sent.high_acked - csn : 0)) {
			sent_lost(f, e, csn, timed_out ? UCCL_LOSS_RTO : UCCL_LOSS_RACK, now);
			continue;
		}
		if (e->sent_ns >= f->loss.rack.reported_ns)
			continue;
		w = sent_waits(f, e, ends);
		switch (uccl_rack_judge(&f->loss.rack, e->sent_ns, &w, sent_asked(f, e, w.proof_ns), timed_out, now)) {
		case UCCL_RACK_LOST:
			sent_lost(f, e, csn, timed_out ? UCCL_LOSS_RTO : UCCL_LOSS_RACK, now);
			break;
		case UCCL_RACK_ASK:
			sent_ask(f, e, w.proof_ns, now);
			break;
		case UCCL_RACK_KEEP:
			break;
		}
	}
}
