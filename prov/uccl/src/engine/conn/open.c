/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* A connection opens: what both sides said becomes a flow. */
#include <rdma/fi_errno.h>
#include <stdlib.h>

#include "base/defaults.h"
#include "base/units.h"
#include "engine/impl.h"

/*
 * Between this endpoint and a peer on its host is only the peer's receive queue, and slots limit what that holds: there
 * is no rate to find, no other queue to spare, and no route that another label would find. PROTOCOL R395
 */
static void conn_on_host(const struct conn *c, struct uccl_flow_cfg *cfg)
{
	const struct uccl_engine *e = c->e;

	if (!e->nic->ops->same_host || !e->nic->ops->same_host(e->nic, &c->peer.addr.nic))
		return;
	if (!e->cfg.host_cc)
		cfg->policy.cc = uccl_cc_find("none");
	if (!e->cfg.host_credit)
		cfg->policy.credit = uccl_credit_find("none");
	cfg->paths_tx = (uint16_t)uccl_min(cfg->paths_tx, e->cfg.host_paths);
	cfg->labels = cfg->paths_tx;
}

/* Both sides know what they need: make the flow. */
static int conn_opened(struct conn *c, uint64_t now)
{
	struct uccl_engine *e = c->e;
	const struct uccl_nic_caps *caps = &e->nic->caps;
	const struct uccl_conn_params *t = &c->hs.theirs;
	uint32_t seal = e->cfg.security ? UCCL_SEAL_LEN : 0, known = caps->mtu;
	uint32_t path = e->nic->ops->path_mtu ? e->nic->ops->path_mtu(e->nic, &c->peer.addr.nic, &known) : caps->mtu;
	uint32_t mtu = (uint32_t)uccl_min(path, t->mtu) - seal;
	struct uccl_flow_cfg cfg = {
		.policy.cc = e->cc,
		.policy.pathsel = e->pathsel,
		.policy.credit = e->credit,
		.policy.params = {e->params[UCCL_POLICY_CC], e->params[UCCL_POLICY_PATH],
				  e->params[UCCL_POLICY_CREDIT]},
		.pacer = &e->share.pacer,
		.backlog = &e->out.backlog,
		.ops = e->msg_ep.lane					     ? e->msg_ep.lanes_ops->flow_ops
		       : e->nic->ops->offer || (e->msg_ep.lanes && t->lanes) ? &conn_flow_ops
									     : &uccl_msg_flow_ops,
		.stats = &e->stats,
		.trace = e->trace,
		.wire.token_tx = c->hs.token_remote,
		.wire.token_rx = c->hs.token_local,
		.wire.csn_tx = c->hs.mine.csn,
		.wire.csn_rx = t->csn,
		.packet.mtu = mtu,
		.packet.mtu_rx = c->hs.mine.mtu - seal,
		.packet.mtu_known = known - seal,
		.write.bytes = uccl_words((uint32_t)uccl_min(c->hs.mine.write_bytes, t->write_bytes)),
		.write.brittle = t->brittle,
		.window = (uint32_t)uccl_min(e->cfg.window_chunks, t->window),
		.paths_tx = c->hs.mine.paths,
		.paths_rx = t->paths,
		.labels = caps->labels,
		.slots_tx = conn_slots_granted(c),
		.grant = &c->slots.grant,
		.msg_limit_tx = t->msg_limit,
		.wire.epoch_tx = c->hs.mine.epoch,
		.wire.epoch_rx = t->epoch,
		.wire.delays_tx = t->delays,
		.wire.renews = t->renews,
		/*
		 * The same for all peers, so that little payload leaves by few sockets. Label 0 is the port of the
		 * endpoint if the NIC can send from it (R370); else endpoints begin with different labels.
		 */
		.wire.first_stays = caps->two_way,
		.wire.rails = caps->rails,
		.wire.budget = caps->two_way ? e->share.tuples : NULL,
		.wire.first_label = caps->two_way ? 0 : (uint16_t)(e->identity.listener.local.incarnation >> 16),
		.wire.unit_tx = t->slot_unit,
		.wire.unit_rx = conn_slots_unit(c),
		.tx_sync = caps->tx_sync,
		.write.async = caps->write_async,
		.write.later = e->nic->ops->offer,
		.write.fifo = e->cfg.fifo_paths,
		.link_bps = caps->link_bps,
		.delay_ns = caps->delay_ns,
		.rto_min_ns = caps->rto_min_ns,
		.first_rtt_ns = c->hs.rtt_ns,
		.seed = engine_random64(&e->identity),
	};
	int rc;

	conn_on_host(c, &cfg);
	conn_slots_fit(c, mtu);
	cfg.slots_rx = (uint16_t)c->slots.grant.slots;
	cfg.trace_peer = c->opened.number = ++e->numbered;
	/* A queue pair serves both directions: a path is the same number on both sides. */
	if (cfg.write.later && cfg.write.bytes)
		cfg.paths_tx = (uint16_t)uccl_min(cfg.paths_tx, cfg.paths_rx);
	cfg.packet.find_mtu = caps->find_mtu && !cfg.write.bytes;
	/* Jumbo packets leave room for an acknowledgement behind every chunk; small ones are filled. */
	cfg.packet.chunk_bytes = mtu > 16384 ? ((mtu - UCCL_HDR_LEN - UCCL_TAIL_MAX) & ~1023u) : mtu - UCCL_HDR_LEN;
	if (e->cfg.chunk_bytes)
		cfg.packet.chunk_bytes =
			(uint32_t)uccl_clamp(e->cfg.chunk_bytes, UCCL_CHUNK_MIN, cfg.packet.chunk_bytes);
	cfg.packet.chunk_bytes = uccl_words(cfg.packet.chunk_bytes);
	cfg.train.bytes = caps->train_bytes / mtu * cfg.packet.chunk_bytes;
	cfg.train.shorten = caps->link_real;
	cfg.train.segments_rx = !cfg.write.bytes;
	cfg.train.segments_tx = cfg.train.segments_rx && caps->tx_sync ? t->segments : 0;
	cfg.train.pads_tx = cfg.train.segments_tx && cfg.train.bytes && t->pads;
	rc = uccl_flow_init(&c->peer.flow, &cfg, &c->peer, now);
	if (rc)
		return rc;
	c->peer.flow.timer.at = UCCL_NEVER;
	/* PROTOCOL R188 */
	c->opened.ect = caps->marks && t->marks && cfg.policy.cc->marks;
	c->opened.places = c->hs.mine.rails && t->rails;
	c->peer.short_stripes = t->lane.short_stripes;
	c->peer.aborts = t->aborts;
	c->peer.orders_short = t->lane.orders_short;
	/* What a seal is of may not change before it has left. */
	c->peer.reads_in_place = cfg.tx_sync && !cfg.write.bytes && !e->cfg.security;
	/* Direct writes cost less than packets, and begin with CTS. */
	c->peer.takes_unsolicited = t->unsolicited && !cfg.write.bytes;
	c->peer.lanes_unsolicited = t->lane.lanes_unsolicited && c->peer.takes_unsolicited && t->lane.short_stripes;
	conn_silence_end(c);
	if (e->nic->ops->connect) {
		rc = e->nic->ops->connect(e->nic, &c->peer.addr.nic, c->hs.token_local, cfg.paths_tx,
					  &c->opened.nic_peer);
		if (rc) {
			uccl_flow_fini(&c->peer.flow);
			return rc;
		}
	}
	conns_opened(&e->conns);
	conn_stalled(c, UCCL_STALL_NOT, now);
	e->stats.connects++;
	engine_trace(e, UCCL_TRACE_PEER_OPEN, 0, c, 0);
	conn_silence_answered(c);
	/* Keepalive and time-out also for those who connected to us. */
	conn_watch(c, now);
	uccl_peer_opened(&c->peer, now);
	conn_say(c);
	if (e->msg_ep.lanes_ops)
		e->msg_ep.lanes_ops->tell(&c->peer);
	engine_ready(c);
	return 0;
}

int conn_seal(struct conn *c)
{
	if (!c->e->cfg.security)
		return 0;
	c->opened.seal = malloc(sizeof(*c->opened.seal));
	if (!c->opened.seal)
		return -FI_ENOMEM;
	uccl_seal_init(c->opened.seal, c->hs.theirs.key, c->hs.mine.key);
	return 0;
}

void conn_begin(struct conn *c, uint64_t now)
{
	if (!conn_opened(c, now))
		return;
	c->e->stats.connect_fails++;
	conn_fail(c, FI_ENOMEM, now);
}

void conn_wake(struct conn *c, uint64_t now)
{
	conns_half_leave(c);
	conn_begin(c, now);
}
