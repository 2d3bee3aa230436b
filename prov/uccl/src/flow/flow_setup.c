/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Life of a flow: set-up and queues. Sending is in flow_tx.c, receiving in flow_rx.c, acknowledgements and loss in
 * ack.c, timers in timer.c, direct writes in direct.c.
 */
#include <rdma/fi_errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/slot_unit.h"
#include "flow/internal.h"

/* Packets of a path that the network may still send news of: what 100 Gb/s carry in half a second. */
#define RECENT_PACKETS (1u << 22)

static void flow_mtu_set(struct uccl_flow *f);

static void paths_changed(struct uccl_paths *s, uint16_t path, enum uccl_path_state state, uint64_t now)
{
	flow_trace(uccl_container_of(s, struct uccl_flow, paths), UCCL_TRACE_PATH, (uint8_t)state, path, 0, 0, 0, now);
}

static void paths_renew(struct uccl_paths *s, uint16_t path, bool stays, uint64_t now)
{
	struct uccl_flow *f = uccl_container_of(s, struct uccl_flow, paths);

	f->cfg.ops->renew(f, path, stays, now);
}

static const struct uccl_paths_ops paths_ops = { .changed = paths_changed, .renew = paths_renew };

static void write_rx_settled(struct uccl_write_rx *l, uint32_t id, uint32_t gen, uint64_t now)
{
	struct uccl_flow *f = uccl_container_of(l, struct uccl_flow, rx.write);

	f->cfg.ops->settled(f, id, gen, now);
}

static void write_rx_fence(struct uccl_write_rx *l, uint16_t path, uint64_t now)
{
	struct uccl_flow *f = uccl_container_of(l, struct uccl_flow, rx.write);

	f->cfg.ops->fence(f, path, now);
}

static const struct uccl_write_rx_ops write_rx_ops = {.settled = write_rx_settled, .fence = write_rx_fence};

/* Congestion control and path choice, of each rail if there are several. False: no memory. PROTOCOL R387 */
static bool flow_rails_init(struct uccl_flow *f, const struct uccl_policy_cfg *all, uint64_t now)
{
	const struct uccl_policies *p = &f->cfg.policy;
	struct uccl_policy_cfg cfg = *all;

	/* Direct writes leave by the first. */
	f->policy.rails = f->cfg.write.bytes ? 1 : f->paths.rails.n;
	if (f->policy.rails > 1) {
		f->policy.rail = calloc(f->policy.rails, sizeof(*f->policy.rail));
		if (!f->policy.rail)
			return false;
	}
	cfg.link_bps /= f->policy.rails;
	for (uint8_t i = 0; i < f->policy.rails; i++) {
		if (f->policy.rail)
			f->policy.rail[i].min_rtt_ns = UCCL_NEVER;
		cfg.params = p->params[UCCL_POLICY_CC];
		if (p->cc->init)
			p->cc->init(flow_cc(f, i), &cfg, now);
		cfg.params = p->params[UCCL_POLICY_PATH];
		if (p->pathsel->init)
			p->pathsel->init(flow_pathsel(f, i), &cfg, (uint16_t)(f->cfg.paths_tx / f->policy.rails));
	}
	return true;
}

int uccl_flow_init(struct uccl_flow *f, const struct uccl_flow_cfg *cfg, void *user, uint64_t now)
{
	struct uccl_policy_cfg pcfg = { .link_bps = cfg->link_bps, .delay_ns = cfg->delay_ns };
	struct uccl_paths_cfg paths = {
		.n = cfg->paths_tx,
		.labels = cfg->labels,
		.first_label = cfg->wire.first_label % cfg->labels,
		.first_stays = cfg->wire.first_stays,
		.rails = cfg->wire.rails,
		.budget = cfg->wire.budget,
		.writes = cfg->write.bytes,
		.write_later = cfg->write.later,
		.write_brittle = cfg->write.brittle,
		.stats = cfg->stats,
		.ops = &paths_ops,
	};
	struct uccl_write_rx_cfg write_rx = {
		.window = cfg->window,
		.write_bytes = cfg->write.bytes,
		.paths = cfg->paths_rx,
		.fifo = cfg->write.fifo,
		.stats = cfg->stats,
		.ops = &write_rx_ops,
	};
	struct uccl_pull_cfg pull;

	assert(cfg->window && !(cfg->window & (cfg->window - 1)));
	assert(cfg->pacer || !cfg->policy.credit->pull);
	assert(!cfg->train.segments_tx || (cfg->tx_sync && !cfg->write.bytes));
	assert(!cfg->train.segments_rx || !cfg->write.bytes);
	/* Of a write a slot is one, whatever its length. */
	assert(!cfg->wire.unit_tx || !cfg->write.bytes);
	memset(f, 0, sizeof(*f));
	f->cfg = *cfg;
	f->user = user;
	uccl_sendq_init(&f->sendq, cfg->policy.credit->shortest);
	uccl_rng_seed(&f->rng, cfg->seed);
	if (!uccl_sent_init(&f->sent, cfg->window, cfg->wire.csn_tx) || !uccl_paths_init(&f->paths, &paths) ||
	    !uccl_flow_rx_init(&f->rx, &write_rx, cfg->wire.csn_rx, cfg->packet.mtu_rx - UCCL_HDR_LEN,
			       uccl_slot_count(cfg->wire.unit_rx, cfg->packet.mtu), now))
		goto nomem;
	uccl_sent_unit(&f->sent, cfg->wire.unit_tx, cfg->packet.mtu);
	if (cfg->write.bytes) {
		/* What is lost must fit the segments that there may be. */
		uccl_chunk_init(&f->chunk,
				(uint32_t)uccl_min(cfg->write.bytes,
						   (uint64_t)UCCL_SEGMENT_COUNT * cfg->packet.chunk_bytes),
				cfg->packet.chunk_bytes, cfg->write.brittle);
	}
	uccl_pmtu_init(&f->pmtu, cfg->packet.mtu);
	if (cfg->packet.find_mtu && cfg->packet.mtu_known)
		uccl_pmtu_reported(&f->pmtu, cfg->packet.mtu_known, now);
	/* What is known at first is no news to the owner. */
	uccl_pmtu_take_changed(&f->pmtu);
	flow_mtu_set(f);
	uccl_peer_limits_init(&f->limits, cfg->slots_tx, cfg->msg_limit_tx, cfg->wire.csn_tx);
	uccl_flow_loss_init(&f->loss, cfg->rto_min_ns, cfg->first_rtt_ns, cfg->paths_tx);
	/* Before the first answer they cost next to nothing, and many flows may begin at once. */
	uccl_train_init(&f->train, cfg->train.shorten && cfg->link_bps);
	uccl_closing_init(&f->close);
	f->share = 1;

	/* Policies reckon with what a flow begins with. */
	pcfg.chunk_bytes =
		(uint32_t)uccl_max(cfg->packet.chunk_bytes, cfg->write.brittle ? f->chunk.bytes : cfg->write.bytes);
	pcfg.burst_bytes = (uint32_t)uccl_max(cfg->train.bytes, pcfg.chunk_bytes);
	pcfg.window_max = (uint64_t)pcfg.chunk_bytes * uccl_min(cfg->window, 4096);
	/* A train is one chunk, and long ones leave while much is in flight. */
	pcfg.long_max = cfg->train.segments_tx ? (uint64_t)uccl_min(pcfg.burst_bytes, UCCL_TX_BURST_BYTES) *
							 uccl_min(cfg->window, 4096)
					       : pcfg.window_max;
	if (!flow_rails_init(f, &pcfg, now))
		goto nomem;
	pcfg.params = cfg->policy.params[UCCL_POLICY_CREDIT];
	if (cfg->policy.credit->init)
		cfg->policy.credit->init(f->policy.credit, &pcfg, now);
	if (cfg->policy.credit->pull) {
		memset(&pull, 0, sizeof(pull));
		cfg->policy.credit->pull(&pcfg, &pull);
		pull.renews = cfg->wire.renews;
		uccl_pacer_rank(cfg->pacer, cfg->policy.credit->rank);
		if (uccl_pull_init(cfg->pacer, &f->credit.pull, &pull, now))
			goto nomem;
	}
	return 0;
nomem:
	uccl_flow_fini(f);
	return -FI_ENOMEM;
}

void uccl_flow_fini(struct uccl_flow *f)
{
	if (f->credit.pull.cfg.quantum)
		uccl_pull_fini(f->cfg.pacer, &f->credit.pull);
	free(f->policy.rail);
	uccl_sent_fini(&f->sent);
	uccl_paths_fini(&f->paths);
	uccl_flow_rx_fini(&f->rx);
	memset(f, 0, sizeof(*f));
}

uint64_t uccl_flow_cc_window(const struct uccl_flow *f)
{
	return uccl_event_cc_window(f);
}

void uccl_flow_share(struct uccl_flow *f, uint32_t of)
{
	f->share = of;
	uccl_event_share(f, of);
}

uint32_t uccl_flow_even(const struct uccl_flow *f, uint64_t len)
{
	uint32_t packets;

	if (!f->cfg.train.pads_tx || f->train.state != UCCL_TRAINS_ON || f->sent.inflight_bytes < UCCL_AR_BYTES ||
	    len <= f->chunk_bytes || len > f->train_bytes)
		return 0;
	packets = (uint32_t)((len + f->chunk_bytes - 1) / f->chunk_bytes);
	return uccl_words((uint32_t)((len + packets - 1) / packets) + UCCL_WORD - 1);
}

void uccl_flow_gathered(struct uccl_flow *f)
{
	uccl_burst_end(&f->paths.burst);
}

/* What follows from the length of packets. */
static void flow_mtu_set(struct uccl_flow *f)
{
	uint32_t bytes;
	uint16_t path;

	f->chunk_bytes = flow_payload(f, f->pmtu.bytes);
	/* As many packets as of the full length. */
	f->train_bytes = f->cfg.train.bytes / f->cfg.packet.chunk_bytes * f->chunk_bytes;
	uccl_burst_align(&f->paths.burst, 0, 0);
	/* Segments that did not leave come later, with those that are lost. */
	bytes = uccl_sent_run_end(&f->sent, &path);
	if (bytes)
		flow_path_land(f, path, bytes);
}

static void mtu_changed(struct uccl_flow *f, bool cut)
{
	f->cfg.stats->mtu_cuts += cut;
	f->cfg.stats->mtu_raises += !cut;
	flow_mtu_set(f);
}

/*
 * Only packets that left alone tell how long packets may be: some links between virtual machines let a train pass as
 * one whose packets would be too long for them, and lose every single one.
 */
bool flow_mtu_lost(struct uccl_flow *f, const struct uccl_sent *e, uint64_t csn, uint64_t now)
{
	if (!f->cfg.packet.find_mtu)
		return false;
	if (f->pmtu.trial == csn + 1 && e->ntx == 1) {
		uccl_pmtu_tried(&f->pmtu, false, now);
		return true;
	}
	if (e->packet.alone && uccl_pmtu_lost(&f->pmtu, e->packet.bytes, e->sent_ns, now))
		mtu_changed(f, true);
	return false;
}

void flow_mtu_acked(struct uccl_flow *f, const struct uccl_sent *e, uint64_t csn, uint64_t now)
{
	if (!f->cfg.packet.find_mtu)
		return;
	if (f->pmtu.trial == csn + 1) {
		if (uccl_pmtu_tried(&f->pmtu, true, now))
			mtu_changed(f, false);
		return;
	}
	if (e->packet.alone)
		uccl_pmtu_arrived(&f->pmtu, e->packet.bytes);
}

void uccl_flow_mtu_reported(struct uccl_flow *f, uint32_t bytes, uint64_t now)
{
	if (f->cfg.packet.find_mtu && uccl_pmtu_reported(&f->pmtu, bytes, now))
		mtu_changed(f, true);
}

bool uccl_flow_withdraw(struct uccl_flow *f, struct uccl_item *item)
{
	if (!item->queued || item->off || item->pending || f->write_tx.item == item)
		return false;
	uccl_sendq_remove(&f->sendq, item);
	return true;
}

bool uccl_flow_cut(struct uccl_flow *f, struct uccl_item *item)
{
	if (item->queued && f->write_tx.item == item) {
		item->more = 0;
		item->len = f->write_tx.end;
		return false;
	}
	if (item->queued) {
		/* By `more` the queue knows in which of its lists it is. */
		uccl_sendq_remove(&f->sendq, item);
		item->len = item->off;
	}
	item->more = 0;
	return !item->pending;
}

uint64_t uccl_flow_unread(const struct uccl_flow *f, const struct uccl_item *item)
{
	uint64_t sum = item->queued ? item->len - item->off : 0;

	for (uint64_t csn = f->sent.una; item->pending && csn != f->sent.nxt; csn++) {
		const struct uccl_sent *e = uccl_sent_at(&f->sent, csn);

		if (e->item != item)
			continue;
		if (e->nic_reads)
			return UINT64_MAX;
		sum += e->state == UCCL_SENT_ACKED ? 0 : e->len;
	}
	return sum;
}

void uccl_flow_detach(struct uccl_flow *f, struct uccl_item *item, struct iovec *left, uint8_t *to,
		      void (*copy)(const struct uccl_item *item, uint8_t *to, const uint8_t *from, uint64_t len))
{
	struct iovec rest = {.iov_len = 0};
	const uint8_t *payload;

	item->ours = true;
	for (uint64_t csn = f->sent.una; item->pending && csn != f->sent.nxt; csn++) {
		struct uccl_sent *e = uccl_sent_at(&f->sent, csn);

		if (e->item != item || e->state == UCCL_SENT_ACKED || !e->len)
			continue;
		copy(item, to, e->payload, e->len);
		uccl_sent_moved(e, e->payload, to);
		to += e->len;
	}
	if (!item->queued || item->off == item->len) {
		item->mr = NULL;
		return;
	}
	rest.iov_base = to;
	for (uint64_t n, off = item->off; off < item->len; off += n) {
		n = uccl_item_payload(item, off, (uint32_t)uccl_min(item->len - off, UINT32_MAX), &payload);
		copy(item, to, payload, n);
		to += n;
		rest.iov_len += n;
	}
	*left = rest;
	item->mr = NULL;
	item->iov = left;
	item->iov_count = 1;
	/* Its first byte is at `off`. */
	item->skip = 0 - item->off;
}

void uccl_flow_asked(struct uccl_flow *f, uint64_t bytes, uint64_t now)
{
	uccl_event_asked(f, bytes, now);
}

void uccl_flow_hurry(struct uccl_flow *f, bool on, uint64_t now)
{
	uccl_pto_set_hurry(&f->loss.pto, on);
	if (!on || !now || !uccl_sent_outstanding(&f->sent) || !f->loss.pto.delayed)
		return;
	uccl_pto_hurry(&f->loss.pto, &f->loss.times, now);
	uccl_paths_probe(&f->paths, uccl_sent_at(&f->sent, f->sent.nxt - 1)->path);
}

bool uccl_flow_idle(const struct uccl_flow *f)
{
	return uccl_sendq_empty(&f->sendq) && f->sent.una == f->sent.nxt;
}

void uccl_flow_moved(struct uccl_flow *f, const void *from, const uint8_t *to)
{
	for (uint64_t csn = f->sent.una; csn != f->sent.nxt; csn++)
		uccl_sent_moved(uccl_sent_at(&f->sent, csn), from, to);
}

bool uccl_flow_acked(const struct uccl_flow *f, uint64_t cookie)
{
	return uccl_sent_is_acked(&f->sent, cookie);
}

bool uccl_flow_recent(const struct uccl_flow *f, uint16_t path, uint32_t pseq)
{
	return path < f->cfg.paths_tx && pseq && f->paths.list[path].next_seq - 1 - pseq < RECENT_PACKETS;
}

void uccl_flow_scan(struct uccl_flow *f, uint64_t now)
{
	uccl_paths_scan(&f->paths, now);
}

void uccl_flow_keepalive(struct uccl_flow *f, uint64_t now)
{
	uccl_paths_keepalive(&f->paths, now);
}

void uccl_flow_tell(struct uccl_flow *f)
{
	uccl_ack_tracker_at_once(&f->rx.ack_tracker);
}

void uccl_flow_close(struct uccl_flow *f, uint64_t now)
{
	uccl_closing_begin(&f->close, uccl_flow_rto(f), now);
}

const char *uccl_flow_check(const struct uccl_flow *f)
{
	const char *broken = uccl_sent_check(&f->sent);

	if (broken)
		return broken;
	if (f->rx.arrived.nxt > f->rx.arrived.high || f->rx.arrived.high - f->rx.arrived.nxt > f->cfg.window)
		return "receive window bounds";
	if (f->sent.kept > UCCL_KEPT_MAX)
		return "count of segments that the peer puts together";
	if (uccl_sent_unacked(&f->sent) && f->loss.pto.at == UCCL_NEVER)
		return "something is not acknowledged and no timer runs";
	if (uccl_arrived_has(&f->rx.arrived, f->rx.arrived.nxt))
		return "first missing chunk is marked received";
	return uccl_paths_check(&f->paths);
}
