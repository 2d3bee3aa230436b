/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Connections of an engine: from the first HELLO to the proof of death.
 *
 * Silence is not death: a peer under manual progress may compute for minutes, or be stopped. A peer is failed when the
 * host proves that its process is gone (nothing listens at its port any more; the liveness connection broke) and
 * nothing was heard from it since, when another incarnation answers at its address, or, at last, when it left our
 * questions unanswered for peer_timeout.
 */
#include <assert.h>
#include <rdma/fi_errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/units.h"
#include "engine/impl.h"
#include "engine/view.h"

/* A suspect is probed this often, and dead after so many reports, the first and last at least so far apart. */
#define SUSPECT_PROBE_NS (20 * UCCL_NS_PER_MS)
#define UNREACH_REPORTS 3
#define UNREACH_SPAN_NS (30 * UCCL_NS_PER_MS)
/* A peer that never answered may not have started yet: wait longer. */
#define UNREACH_START_NS (3 * UCCL_NS_PER_S)
/* The liveness connection broke and the peer stays silent, although no host says so. */
#define GONE_SILENCE_NS (2 * UCCL_NS_PER_S)
/* The time-out of a silent peer is made of at least so many looks, each of which found no answer. */
#define PATIENCE_LOOKS 4
/* One that is half-open gives way to others no earlier: whoever connects has said something by then. */
#define HALF_KEEP_NS (2 * UCCL_NS_PER_S)
/* So many ended peers that nobody holds are remembered, each so long: a little more than any cookie is good. */
#define DEAD_MAX 1024
#define FORGET_NS (UCCL_COOKIE_LIFE_NS + 10 * UCCL_NS_PER_S)

static uint64_t random64(struct uccl_engine *e)
{
	uint64_t v;

	do
		e->random(e->random_arg, &v, sizeof(v));
	while (!v);
	return v;
}

static uint32_t nic_room(const struct uccl_engine *e, uint32_t bytes)
{
	return e->nic->ops->slots ? e->nic->ops->slots(e->nic, bytes) : e->nic->caps.rx_slots;
}

/* The largest packets that come from this peer. */
static uint32_t conn_mtu(const struct conn *c)
{
	return c->peer.open ? c->peer.flow.cfg.mtu : c->e->nic->caps.mtu;
}

/* The queue may be shared with other endpoints of the process, which come and go. */
static void slots_refit(struct uccl_engine *e)
{
	uint32_t room = nic_room(e, e->nic->caps.mtu);
	struct conn *c;

	if (room == e->room)
		return;
	e->room = room;
	TAILQ_FOREACH(c, &e->conns, all)
		if (c->grant.of)
			uccl_slots_resize(&c->grant, nic_room(e, conn_mtu(c)));
	TAILQ_FOREACH(c, &e->half, all)
		uccl_slots_resize(&c->grant, room);
}

/* What the handshake grants is a promise from then on. */
static void conn_grant(struct conn *c)
{
	struct uccl_engine *e = c->e;

	if (c->grant.of)
		return;
	slots_refit(e);
	uccl_slots_open(&e->slots, &c->grant, e->room, e->cfg.window_chunks);
	c->hs.mine.slots = (uint16_t)c->grant.slots;
}

void conn_slots_ask(struct uccl_engine *e, uint64_t now)
{
	struct uccl_grant *g;

	while ((g = uccl_slots_ask(&e->slots, now))) {
		struct conn *c = uccl_container_of(g, struct conn, grant);

		if (!c->peer.open)
			continue;
		uccl_flow_keepalive(&c->peer.flow, now);
		engine_ready(c);
	}
}

static void params_mine(struct uccl_engine *e, struct uccl_params *p)
{
	*p = (struct uccl_params){
		.mtu = e->nic->caps.mtu,
		/* PROTOCOL R93 */
		.write_bytes = e->cfg.security == UCCL_SECURITY_PACKETS ? 0 : e->nic->caps.write_max,
		.window = e->cfg.window_chunks,
		.msg_limit = UCCL_MSG_LIMIT,
		.paths = e->cfg.paths,
		.slots = 1,
		.csn = random64(e) & 0xffffffff,
		.epoch = (uint8_t)(random64(e) & 15),
		.security = e->cfg.security,
	};
	if (p->security)
		e->random(e->random_arg, p->key, sizeof(p->key));
}

/*
 * Ended peers nobody needs any more. Until then late packets of theirs are known for what they are: no INIT that they
 * have sent is good for longer than its cookie. Who is held, or has messages that the application has not taken, stays.
 * Strangers who come and go by thousands are remembered for less long: what they could bring back is themselves.
 * PROTOCOL R133
 */
static void conns_forget(struct uccl_engine *e, uint64_t now)
{
	struct conn *c;

	/* Once over the list: who stays in it goes to its end. */
	for (uint32_t n = e->ndead; n; n--) {
		c = TAILQ_FIRST(&e->dead);
		if (now - c->ended_ns < FORGET_NS && e->ndead <= DEAD_MAX)
			break;
		if (!c->known && TAILQ_EMPTY(&c->peer.rxs) && TAILQ_EMPTY(&c->peer.replies) &&
		    !uccl_msg_copying(&e->mep)) {
			conn_free(c, &e->dead);
			e->ndead--;
			continue;
		}
		TAILQ_REMOVE(&e->dead, c, all);
		TAILQ_INSERT_TAIL(c->known ? &e->kept : &e->dead, c, all);
		e->ndead -= c->known;
		c->ended_ns = now;
	}
}

static uint64_t token_new(struct uccl_engine *e)
{
	uint64_t v;

	do
		v = (uint64_t)e->token_top << 48 | random64(e) >> 16;
	while (!v);
	return v;
}

struct conn *conn_new(struct uccl_engine *e, const struct uccl_addr *addr)
{
	struct conn *c = calloc(1, sizeof(*c));
	struct uccl_addr remote = *addr;
	struct uccl_params mine;

	conns_forget(e, e->now);
	if (!c || e->nconns >= CONNS_MAX || uccl_heap_reserve(&e->heap, 2 * (e->nconns + 1) + 1))
		goto nomem;
	c->e = e;
	uccl_peer_init(&c->peer, &e->mep, addr);
	c->peer.self = uccl_nic_addr_equal(&addr->nic, &e->listener.local.nic) &&
		       (!addr->incarnation || addr->incarnation == e->listener.local.incarnation);
	params_mine(e, &mine);
	uccl_key_mix(remote.key, e->listener.group);
	uccl_conn_init(&c->hs, &remote, &mine, token_new(e), random64(e));
	uccl_held_init(&c->held, e->away_ns, e->now);
	c->hs_timer.at = UCCL_NEVER;
	c->hs_timer.kind = TIMER_HANDSHAKE;
	if (conns_add(c))
		goto nomem;
	TAILQ_INSERT_TAIL(&e->conns, c, all);
	e->nconns++;
	if (e->link == UCCL_LINK_GONE)
		conn_fail(c, FI_ENODEV, e->now);
	else if (e->cfg.security && uccl_addr_keyless(addr) && !c->peer.self)
		conn_fail(c, FI_EACCES, e->now);
	return c;
nomem:
	free(c);
	return NULL;
}

/* It has no part in handshakes any more. */
static void conn_rest(struct conn *c)
{
	struct uccl_engine *e = c->e;

	if (c->in_hsq)
		TAILQ_REMOVE(&e->hsq, c, hsq);
	c->in_hsq = false;
	uccl_heap_set(&e->heap, &c->hs_timer, UCCL_NEVER);
	uccl_slots_close(&c->grant);
}

void conn_free(struct conn *c, struct conn_list *list)
{
	struct uccl_engine *e = c->e;

	conn_rest(c);
	conns_remove(c);
	TAILQ_REMOVE(list, c, all);
	e->nconns--;
	free(c->last_paths);
	free(c->seal);
	free(c);
}

void conn_due(struct conn *c)
{
	struct uccl_engine *e = c->e;

	if (!c->in_hsq) {
		c->in_hsq = true;
		TAILQ_INSERT_TAIL(&e->hsq, c, hsq);
	}
	uccl_heap_set(&e->heap, &c->hs_timer, uccl_conn_expiry(&c->hs));
}

/* Packets of this peer that the NIC has not taken yet must not leave any more: their payload goes back. */
static void tx_forget(struct conn *c)
{
	struct uccl_engine *e = c->e;
	int n = e->tx_head;

	for (int i = e->tx_head; i < e->tx_n; i++)
		if (e->txv[i].to != &c->peer.addr.nic) {
			if (n != i)
				e->txv[n] = e->txv[i];
			n++;
		}
	e->tx_n = n;
}

static void records_free(struct conn *c)
{
	struct conn_record *r;

	while ((r = LIST_FIRST(&c->records))) {
		LIST_REMOVE(r, link);
		free(r);
	}
}

static const char *end_text(const struct conn *c, int err)
{
	if (c->closed)
		return "it closed its endpoint";
	switch (err) {
	case FI_ECONNRESET:
		return "another process or endpoint answers at its address";
	case FI_ETIMEDOUT:
		return "it did not answer for too long (FI_UCCL_PEER_TIMEOUT)";
	case FI_ENETDOWN:
		return "it did not answer for too long, and the link of this host's NIC is down";
	case FI_ENODEV:
		return "this host's NIC was removed, or it failed";
	case FI_EACCES:
		return "its FI_UCCL_SECURITY differs, or its address has no key";
	case FI_EFAULT:
		return "an operation to it was posted with a buffer that cannot be read";
	default:
		return "its process ended, or never listened there";
	}
}

void conn_fail(struct conn *c, int err, uint64_t now)
{
	struct uccl_engine *e = c->e;
	char ip[UCCL_VIEW_IP_TEXT];

	if (c->peer.dead)
		return;
	if (c->half)
		conns_half_leave(c);
	conns_leave(c);
	TAILQ_REMOVE(&e->conns, c, all);
	TAILQ_INSERT_TAIL(&e->dead, c, all);
	e->ndead++;
	c->ended_ns = now;
	e->scan_at = uccl_min(e->scan_at, now + FORGET_NS);
	uccl_view_addr_text(c->peer.addr.nic.ip, ip, sizeof(ip));
	UCCL_LOG(err != FI_EACCES && (c->closed || TAILQ_EMPTY(&c->peer.sends)) ? UCCL_LOG_INFO : UCCL_LOG_WARN,
		 "peer %s port %u ended: %s", ip, c->peer.addr.nic.port, end_text(c, err));
	engine_trace(e, UCCL_TRACE_PEER_END, 0, c, (uint32_t)(c->closed ? 0 : err));
	if (c->peer.open) {
		if (c->peer.flow.is_ready)
			TAILQ_REMOVE(&e->ready, &c->peer.flow, ready);
		uccl_heap_set(&e->heap, &c->peer.flow.timer, UCCL_NEVER);
		c->last_paths = c->peer.flow.paths;
		c->nlast_paths = c->peer.flow.cfg.paths_tx;
		c->peer.flow.paths = NULL;
		e->nopen--;
	}
	conn_held(c, UCCL_HELD_NOT, now);
	tx_forget(c);
	if (c->nic_peer && e->nic->ops->disconnect)
		e->nic->ops->disconnect(e->nic, c->nic_peer);
	c->nic_peer = NULL;
	c->hs.state = UCCL_CONN_DEAD;
	c->hs.at = UCCL_NEVER;
	c->hs.tx_due = c->hs.ack_due = false;
	uccl_heap_set(&e->heap, &c->hs_timer, UCCL_NEVER);
	if (c->closed || e->drain_ns)
		e->stats.peers_closed++;
	else
		e->stats.peers_dead++;
	uccl_peer_fail(&c->peer, err, now);
	records_free(c);
	uccl_slots_close(&c->grant);
	slots_refit(e);
}

/* The fault is of this host, its card, or the way: each peer will show it, but a person needs to read it once. */
void conn_trains(struct conn *c)
{
	struct uccl_engine *e = c->e;
	struct uccl_train *t = &c->peer.flow.train;
	struct uccl_view_peer p = { .port = c->peer.addr.nic.port };
	char ip[UCCL_VIEW_IP_TEXT];

	t->news = false;
	memcpy(p.ip, c->peer.addr.nic.ip, sizeof(p.ip));
	uccl_view_ip_text(&p, ip, sizeof(ip));
	if (t->state == UCCL_TRAINS_ON) {
		UCCL_LOG(UCCL_LOG_INFO, "packet trains (UDP GSO) to %s port %u%s%s arrive again", ip, p.port,
			 e->interface ? " on " : "", e->interface ? e->interface : "");
		return;
	}
	UCCL_LOG(e->trains_told ? UCCL_LOG_INFO : UCCL_LOG_WARN,
		 "packet trains (UDP GSO) to %s port %u%s%s are lost while single packets arrive: a kernel or network "
		 "card cuts them wrong; sending packet by packet, which costs processor time",
		 ip, p.port, e->interface ? " on " : "", e->interface ? e->interface : "");
	e->trains_told = true;
}

void conn_pmtu(struct conn *c)
{
	struct uccl_engine *e = c->e;
	struct uccl_flow *f = &c->peer.flow;
	char ip[UCCL_VIEW_IP_TEXT];

	f->pmtu_news = false;
	uccl_view_addr_text(c->peer.addr.nic.ip, ip, sizeof(ip));
	UCCL_LOG(e->mtu_told ? UCCL_LOG_INFO : UCCL_LOG_WARN,
		 "packets to %s port %u may have %u bytes from now on, the interface would carry %u: %s", ip,
		 c->peer.addr.nic.port, f->pmtu.bytes, f->pmtu.most,
		 f->pmtu.told ? "the network says that it carries no more" :
		 f->pmtu.bytes < f->pmtu.most ? "longer ones were lost, or not tried yet" : "they arrive again");
	e->mtu_told = true;
}

/* What back ends tell each other. */

void conn_say(struct conn *c)
{
	const struct uccl_nic *nic = c->e->nic;
	struct conn_record *r;
	uint32_t len;

	if (!nic->ops->offer || !c->peer.open || !c->peer.flow.cfg.write_bytes)
		return;
	/* Without memory it is said later: there will be more events. */
	while ((r = calloc(1, sizeof(*r)))) {
		len = nic->ops->offer(c->e->nic, c->nic_peer, r->data,
				      (uint32_t)uccl_min(sizeof(r->data), c->peer.flow.cfg.chunk_bytes));
		if (!len)
			break;
		r->iov = (struct iovec){.iov_base = r->data, .iov_len = len};
		r->item.rtype = UCCL_REC_NIC;
		r->item.iov = &r->iov;
		r->item.iov_count = 1;
		r->item.len = len;
		LIST_INSERT_HEAD(&c->records, r, link);
		uccl_flow_submit(&c->peer.flow, &r->item);
		engine_ready(c);
	}
	free(r);
}

/* PROTOCOL R80 */
static enum uccl_drop conn_hear(struct conn *c, const struct uccl_chunk_in *in)
{
	const struct uccl_nic *nic = c->e->nic;

	if (!nic->ops->accept || !c->peer.flow.cfg.write_bytes)
		return UCCL_DROP_STATE;
	if (in->placed || nic->ops->accept(c->e->nic, c->nic_peer, in->data, in->len))
		return UCCL_DROP_RECORD;
	conn_say(c);
	return UCCL_DROP_COUNT;
}

/* Flows of NICs that have to agree before they write: their records are ours, everything else is msg's. */

static enum uccl_drop flow_deliver(struct uccl_flow *f, const struct uccl_chunk_in *in, uint64_t now)
{
	return in->rtype == UCCL_REC_NIC ? conn_hear(f->user, in) : uccl_msg_flow_ops.deliver(f, in, now);
}

static void flow_settled(struct uccl_flow *f, uint32_t id, uint32_t gen, uint64_t now)
{
	uccl_msg_flow_ops.settled(f, id, gen, now);
}

static void flow_fence(struct uccl_flow *f, uint16_t path, uint64_t now)
{
	uccl_msg_flow_ops.fence(f, path, now);
}

static void flow_renew(struct uccl_flow *f, uint16_t path, uint64_t now)
{
	struct conn *c = f->user;

	(void)now;
	c->e->nic->ops->renew(c->e->nic, c->nic_peer, path);
	conn_say(c);
}

static void flow_item_acked(struct uccl_flow *f, struct uccl_item *item, uint64_t now)
{
	struct conn_record *r;

	if (item->rtype != UCCL_REC_NIC) {
		uccl_msg_flow_ops.acked(f, item, now);
		return;
	}
	r = uccl_container_of(item, struct conn_record, item);
	LIST_REMOVE(r, link);
	free(r);
}

static const struct uccl_flow_ops conn_flow_ops = {
	.deliver = flow_deliver,
	.settled = flow_settled,
	.fence = flow_fence,
	.renew = flow_renew,
	.acked = flow_item_acked,
};

/* Between two looks at all peers. */
static uint64_t scan_every(const struct uccl_engine *e)
{
	uint64_t every = e->cfg.keepalive_ns ? e->cfg.keepalive_ns / 2 : UCCL_NS_PER_S;

	if (e->cfg.peer_timeout_ns)
		every = uccl_min(every, e->cfg.peer_timeout_ns / PATIENCE_LOOKS);
	return uccl_max(every, UCCL_NS_PER_MS);
}

/* Both sides know what they need: make the flow. */
static int conn_opened(struct conn *c, uint64_t now)
{
	struct uccl_engine *e = c->e;
	const struct uccl_nic_caps *caps = &e->nic->caps;
	const struct uccl_params *t = &c->hs.theirs;
	uint32_t seal = e->cfg.security ? UCCL_SEAL_LEN : 0, known = caps->mtu;
	uint32_t path = e->nic->ops->path_mtu ? e->nic->ops->path_mtu(e->nic, &c->peer.addr.nic, &known) : caps->mtu;
	uint32_t mtu = (uint32_t)uccl_min(path, t->mtu) - seal;
	struct uccl_flow_cfg cfg = {
		.cc = e->cc,
		.pathsel = e->pathsel,
		.credit = e->credit,
		.k = {e->k[UCCL_POLICY_CC], e->k[UCCL_POLICY_PATH], e->k[UCCL_POLICY_CREDIT]},
		.pacer = &e->pacer,
		.ops = e->nic->ops->offer ? &conn_flow_ops : &uccl_msg_flow_ops,
		.stats = &e->stats,
		.trace = e->trace,
		.token_tx = c->hs.token_remote,
		.token_rx = c->hs.token_local,
		.csn_tx = c->hs.mine.csn,
		.csn_rx = t->csn,
		.mtu = mtu,
		.mtu_rx = c->hs.mine.mtu - seal,
		.mtu_known = known - seal,
		.write_bytes = (uint32_t)uccl_min(c->hs.mine.write_bytes, t->write_bytes),
		.window = (uint32_t)uccl_min(e->cfg.window_chunks, t->window),
		.paths_tx = c->hs.mine.paths,
		.paths_rx = t->paths,
		.labels = caps->labels,
		.slots_tx = (uint16_t)uccl_min(t->slots, UCCL_SLOTS_MAX),
		.grant = &c->grant,
		.msg_limit_tx = t->msg_limit,
		.epoch_tx = c->hs.mine.epoch,
		.epoch_rx = t->epoch,
		.tx_sync = caps->tx_sync,
		.write_async = caps->write_async,
		.write_later = e->nic->ops->offer,
		.fifo_paths = e->cfg.fifo_paths,
		.link_bps = caps->link_bps,
		.delay_ns = caps->delay_ns,
		.rto_min_ns = caps->rto_min_ns,
		.seed = random64(e),
	};
	int rc;

	uccl_slots_resize(&c->grant, nic_room(e, mtu));
	cfg.slots_rx = (uint16_t)c->grant.slots;
	cfg.trace_peer = c->number = ++e->numbered;
	/* A queue pair serves both directions: a path is the same number on both sides. */
	if (cfg.write_later && cfg.write_bytes)
		cfg.paths_tx = (uint16_t)uccl_min(cfg.paths_tx, cfg.paths_rx);
	cfg.find_mtu = caps->find_mtu && !cfg.write_bytes;
	/* Jumbo packets leave room for an acknowledgement behind every chunk; small ones are filled. */
	cfg.chunk_bytes = mtu > 16384 ? ((mtu - UCCL_HDR_LEN - UCCL_TAIL_MAX) & ~1023u) : mtu - UCCL_HDR_LEN;
	if (e->cfg.chunk_bytes)
		cfg.chunk_bytes = (uint32_t)uccl_clamp(e->cfg.chunk_bytes, 128, cfg.chunk_bytes);
	cfg.train_bytes = caps->train_bytes / mtu * cfg.chunk_bytes;
	rc = uccl_flow_init(&c->peer.flow, &cfg, &c->peer, now);
	if (rc)
		return rc;
	c->peer.flow.timer.at = UCCL_NEVER;
	if (e->nic->ops->connect) {
		rc = e->nic->ops->connect(e->nic, &c->peer.addr.nic, c->hs.token_local, cfg.paths_tx, &c->nic_peer);
		if (rc) {
			uccl_flow_fini(&c->peer.flow);
			return rc;
		}
	}
	e->nopen++;
	conn_held(c, UCCL_HELD_NOT, now);
	e->stats.connects++;
	engine_trace(e, UCCL_TRACE_PEER_OPEN, 0, c, 0);
	/* Keepalive and time-out also for those who connected to us. */
	e->scan_at = uccl_min(e->scan_at, now + scan_every(e));
	uccl_peer_opened(&c->peer, now);
	conn_say(c);
	engine_ready(c);
	return 0;
}

static int conn_seal(struct conn *c)
{
	if (!c->e->cfg.security)
		return 0;
	c->seal = malloc(sizeof(*c->seal));
	if (!c->seal)
		return -FI_ENOMEM;
	uccl_seal_init(c->seal, c->hs.theirs.key, c->hs.mine.key);
	return 0;
}

static void conn_begin(struct conn *c, uint64_t now)
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

void conns_half_end(struct uccl_engine *e, uint64_t now)
{
	struct conn *c;

	while ((c = TAILQ_FIRST(&e->half))) {
		engine_tell(c, UCCL_PKT_CLOSE);
		conn_close_seen(c, now);
	}
}

/*
 * May one more become half-open? If there are too many, the oldest gives way, and is told: it may be alive, and late.
 * As long as that one is young the new one has to ask again. PROTOCOL R135
 */
static bool half_room(struct uccl_engine *e, const struct uccl_nic_addr *at, uint64_t now)
{
	struct conn *c;

	if (!conns_half_room(e, at->ip, &c))
		return false;
	if (!c)
		return true;
	if (now - c->hs.opened_ns < HALF_KEEP_NS)
		return false;
	engine_tell(c, UCCL_PKT_CLOSE);
	tx_forget(c);
	conns_half_leave(c);
	conn_free(c, &e->conns);
	return true;
}

/* `c`, known by its place only, is `first` by another name: there is one peer, and one connection. PROTOCOL R134 */
static void conn_join(struct conn *c, struct conn *first, uint64_t now)
{
	struct uccl_engine *e = c->e;

	/* A name by place that came later would have been given `first`; so both were asked for, and both stay. */
	assert(c->known && first->known);
	conn_rest(c);
	tx_forget(c);
	conns_remove(c);
	TAILQ_REMOVE(&e->conns, c, all);
	TAILQ_INSERT_TAIL(&e->kept, c, all);
	c->hs.state = UCCL_CONN_DEAD;
	uccl_peer_join(&c->peer, &first->peer, now);
}

/* The incarnation of `c` is proven to be at its place: who was asked for by that place is it. */
static void conn_meet(struct conn *c, uint64_t now)
{
	struct conn *other, *next;

	c->peer.addr.incarnation = c->hs.remote.incarnation;
	conns_learn(c, c->hs.remote.incarnation);
	for (other = conns_at(c->e, &c->peer.addr.nic); other; other = next) {
		next = TAILQ_NEXT(other, there);
		if (other != c && !other->key.incarnation && !other->peer.self)
			conn_join(other, c, now);
	}
}

/* A COOKIE says who is there. */
static void conn_named(struct conn *c, uint64_t now)
{
	struct conn *known = conn_find(c->e, &c->peer.addr.nic, c->hs.remote.incarnation);

	if (c->key.incarnation || !known) {
		conn_meet(c, now);
		conn_due(c);
	} else if (known->peer.dead) {
		/* Two incarnations meet once. */
		conn_fail(c, known->peer.dead, now);
	} else {
		conn_join(c, known, now);
	}
}

/* At the place that `init` came from: is this a connection to another incarnation, which is known? */
static bool conn_rival(const struct conn *c, const struct uccl_init *init)
{
	return !c->hs.remote.indirect && c->key.incarnation &&
	       c->key.incarnation != init->from.incarnation;
}

/* It may be a late one, of an incarnation that ended before the one that we are connected to. */
static bool conn_outdated(struct uccl_engine *e, const struct uccl_init *init)
{
	const struct conn *c;

	for (c = conns_at(e, &init->from.nic); c; c = TAILQ_NEXT(c, there))
		if (conn_rival(c, init) && c->hs.state == UCCL_CONN_OPEN && !uccl_conn_superseded(&c->hs, init))
			return true;
	return false;
}

/* Another incarnation at this place is proven: what we knew there before is dead. */
static void conn_supersede(struct uccl_engine *e, const struct uccl_init *init, uint64_t now)
{
	struct conn *c, *next;

	for (c = conns_at(e, &init->from.nic); c; c = next) {
		next = TAILQ_NEXT(c, there);
		if (conn_rival(c, init) && uccl_conn_superseded(&c->hs, init))
			conn_fail(c, FI_ECONNRESET, now);
	}
}

static enum uccl_drop conn_establish(struct conn *c, const struct uccl_init *init, bool is_ack, uint64_t now)
{
	bool was_open = c->hs.state == UCCL_CONN_OPEN;
	enum uccl_drop reason = uccl_conn_open(&c->hs, init, is_ack, now);

	if (reason != UCCL_DROP_COUNT)
		return reason;
	conn_supersede(c->e, init, now);
	conn_meet(c, now);
	conn_grant(c);
	conn_due(c);
	if (was_open)
		return UCCL_DROP_COUNT;
	if (conn_seal(c) || (!c->known && conns_half_enter(c))) {
		conn_fail(c, FI_ENOMEM, now);
		return UCCL_DROP_MEMORY;
	}
	if (!c->half)
		conn_begin(c, now);
	return c->peer.dead ? UCCL_DROP_MEMORY : UCCL_DROP_COUNT;
}

static enum uccl_drop rx_hello(struct uccl_engine *e, const struct uccl_hdr *h, const struct uccl_nic_addr *src,
			       uint64_t now)
{
	struct uccl_tx tx;
	struct uccl_nic_addr to;
	enum uccl_drop reason;

	memset(&tx, 0, offsetof(struct uccl_tx, hdr));
	reason = uccl_listener_hello(&e->listener, h, src, tx.hdr, &to, now);
	if (reason != UCCL_DROP_COUNT)
		return reason;
	tx.kind = UCCL_TX_PACKET;
	tx.control = true;
	tx.hdr_len = UCCL_HDR_LEN;
	tx.cookie = UCCL_NEVER;
	/* A label may cost a socket, and whoever asks has proved nothing: the first one is always there. PROTOCOL R5 */
	tx.label = 0;
	tx.answer = true;
	tx.to = &to;
	engine_tx_raw(e, &tx);
	return UCCL_DROP_COUNT;
}

/*
 * Ask who is at the place of a silent peer. A new process there drops our probes, as it does not know their token; but
 * HELLO is answered by whoever has the port, with its incarnation.
 */
static void conn_ask(struct conn *c, uint64_t now)
{
	struct uccl_engine *e = c->e;
	uint8_t rec[UCCL_REC_LEN] = {0};
	struct uccl_hdr h = {.type = UCCL_PKT_HELLO, .token = c->hs.token_local, .rec = rec};
	struct uccl_tx tx;

	/* Anew, so that a late answer to the handshake, perhaps of who was there before, is not taken for one to this.
	 */
	c->hs.nonce = random64(e);
	uccl_put64(rec, c->hs.nonce);
	uccl_put64(rec + 8, e->listener.local.incarnation);
	uccl_put64(rec + 16, c->hs.remote.incarnation);
	uccl_hello_place(rec, &e->listener.local.nic);
	memset(&tx, 0, offsetof(struct uccl_tx, hdr));
	tx.kind = UCCL_TX_PACKET;
	tx.control = true;
	tx.hdr_len = UCCL_HDR_LEN;
	tx.cookie = UCCL_NEVER;
	tx.label = (uint16_t)(now / UCCL_NS_PER_MS % e->nic->caps.labels);
	tx.to = &c->peer.addr.nic;
	uccl_hdr_encode(tx.hdr, &h);
	engine_tx_raw(e, &tx);
}

/* An answer to that. The nonce went nowhere but to the peer's place: who has it is there. */
static enum uccl_drop rx_answer(struct conn *c, const struct uccl_hdr *h, uint64_t now)
{
	uint64_t incarnation = uccl_get64(h->rec + 8);

	if (uccl_get64(h->rec) != c->hs.nonce || !incarnation)
		return UCCL_DROP_COOKIE;
	if (incarnation == c->hs.remote.incarnation)
		return UCCL_DROP_STATE;
	/* PROTOCOL R94: nothing proves it but the nonce, which others may have read. */
	if (c->seal)
		conn_gone(c->e, &c->peer.addr.nic, now);
	else
		conn_fail(c, FI_ECONNRESET, now);
	return UCCL_DROP_STALE;
}

/* It asks for another security than ours: say so, with our parameters, and never connect. PROTOCOL R92 */
static void conn_refuse(struct uccl_engine *e, const struct uccl_init *init, uint64_t now)
{
	struct conn *c = conn_find(e, &init->from.nic, init->from.incarnation);
	struct uccl_tx tx;

	if (!c)
		c = conn_new(e, &init->from);
	if (!c || c->hs.state == UCCL_CONN_OPEN)
		return;
	conn_fail(c, FI_EACCES, now);
	c->hs.token_remote = init->token;
	c->hs.ack_due = true;
	memset(&tx, 0, offsetof(struct uccl_tx, hdr));
	if (!uccl_conn_tx(&c->hs, &e->listener, &tx, c->init_buf, now))
		return;
	tx.to = &c->peer.addr.nic;
	engine_tx_raw(e, &tx);
}

static enum uccl_drop rx_init(struct uccl_engine *e, const struct uccl_hdr *h, const uint8_t *payload,
			      const struct uccl_nic_addr *src, uint64_t now)
{
	struct uccl_init init;
	enum uccl_drop reason = uccl_listener_init(&e->listener, h, payload, src, &init, now);
	struct conn *c;

	if (reason == UCCL_DROP_SECURITY)
		conn_refuse(e, &init, now);
	if (reason != UCCL_DROP_COUNT)
		return reason;
	c = conn_find(e, &init.from.nic, init.from.incarnation);
	if ((c && c->peer.dead) || conn_outdated(e, &init))
		return UCCL_DROP_STALE;
	if (!c) {
		c = conn_find(e, &init.from.nic, 0);
		if (c && c->peer.dead)
			c = NULL;
	}
	if (!c && half_room(e, &init.from.nic, now))
		c = conn_new(e, &init.from);
	if (!c)
		return UCCL_DROP_MEMORY;
	return conn_establish(c, &init, false, now);
}

/*
 * The peer is one of a row, at another place than we were told; we keep finding it by what we were told. It does not
 * begin a connection of its own meanwhile: who is asked for so only receives.
 */
static enum uccl_drop rx_elsewhere(struct conn *c, const struct uccl_hdr *h, uint64_t now)
{
	enum uccl_drop reason = uccl_conn_elsewhere(&c->hs, h, now);

	if (reason != UCCL_DROP_COUNT)
		return reason;
	c->peer.addr.nic = c->hs.remote.nic;
	c->peer.addr.indirect = false;
	if (conns_move(c))
		conn_fail(c, FI_ENOMEM, now);
	else
		conn_due(c);
	return reason;
}

enum uccl_drop conn_rx(struct uccl_engine *e, const struct uccl_hdr *h, const uint8_t *payload,
		       const struct uccl_nic_addr *src, uint64_t now)
{
	enum uccl_drop reason;
	struct uccl_init init;
	struct conn *c;

	if (h->type == UCCL_PKT_HELLO)
		return e->drain_ns ? UCCL_DROP_STATE : rx_hello(e, h, src, now);
	if (h->type == UCCL_PKT_INIT)
		return e->drain_ns ? UCCL_DROP_STATE : rx_init(e, h, payload, src, now);
	c = conn_by_token(e, h->token);
	if (!c)
		return UCCL_DROP_TOKEN;
	if (memcmp(src->ip, c->peer.addr.nic.ip, sizeof(src->ip)))
		return UCCL_DROP_SOURCE;
	if (c->peer.dead)
		return UCCL_DROP_STATE;
	if (h->type == UCCL_PKT_ELSEWHERE)
		return rx_elsewhere(c, h, now);
	if (h->type == UCCL_PKT_COOKIE && c->peer.open)
		return rx_answer(c, h, now);
	if (h->type == UCCL_PKT_COOKIE) {
		reason = uccl_conn_cookie(&c->hs, h, now);
		if (reason == UCCL_DROP_STALE)
			conn_fail(c, FI_ECONNRESET, now);
		else if (reason == UCCL_DROP_COUNT)
			conn_named(c, now);
		return reason;
	}
	reason = uccl_conn_check_ack(&c->hs, &e->listener, h, payload, src, &init);
	if (reason == UCCL_DROP_SECURITY && c->hs.state == UCCL_CONN_INIT)
		conn_fail(c, FI_EACCES, now);
	if (reason != UCCL_DROP_COUNT)
		return reason;
	if (c->hs.state == UCCL_CONN_IDLE || c->hs.state == UCCL_CONN_HELLO)
		return UCCL_DROP_STATE;
	if (conn_outdated(e, &init))
		return UCCL_DROP_STALE;
	return conn_establish(c, &init, true, now);
}

static uint64_t conn_heard(const struct conn *c)
{
	return c->peer.open ? c->peer.flow.heard_ns : 0;
}

/*
 * Does a quoted packet belong to this connection? Only who was on its way, or where it went, can know the token.
 * PROTOCOL R150
 */
static bool conn_quoted(const struct conn *c, const struct uccl_hdr *h)
{
	switch (h->type) {
	case UCCL_PKT_HELLO:
		return h->token == c->hs.token_local;
	case UCCL_PKT_INIT:
		return h->rec && uccl_get64(h->rec) == c->hs.token_local;
	default:
		return c->peer.open && h->token == c->hs.token_remote &&
		       uccl_flow_recent(&c->peer.flow, h->path, h->pseq);
	}
}

/* Anybody on the way can say that a port is closed: no word against keys, or against the peer's own kernel. */
static bool conn_unreach_counts(const struct conn *c)
{
	const struct uccl_nic_ops *ops = c->e->nic->ops;

	/* PROTOCOL R151 */
	if (c->e->cfg.security)
		return false;
	return !(c->nic_peer && ops->alive && ops->alive(c->e->nic, c->nic_peer));
}

/* Enough proof? */
static bool conn_proven_dead(const struct conn *c, uint64_t now)
{
	uint64_t span = UNREACH_SPAN_NS;

	if (!c->peer.open && !c->gone_ns && uccl_addr_keyless(&c->peer.addr))
		span = UNREACH_START_NS;
	if (c->unreach >= UNREACH_REPORTS && c->unreach_last - c->unreach_ns >= span)
		return true;
	return c->gone_ns && now - c->gone_ns >= GONE_SILENCE_NS;
}

static void conn_probe(struct conn *c, uint64_t now)
{
	c->suspect_at = now + SUSPECT_PROBE_NS;
	if (c->peer.open) {
		uccl_flow_keepalive(&c->peer.flow, now);
		engine_ready(c);
	}
}

static void conn_suspect(struct conn *c, uint64_t now)
{
	if (!c->suspect_at)
		conn_probe(c, now);
	c->e->scan_at = uccl_min(c->e->scan_at, c->suspect_at);
}

void conn_gone(struct uccl_engine *e, const struct uccl_nic_addr *at, uint64_t now)
{
	struct conn *c;

	/* What broke was none of a peer that is not connected yet: a later life, perhaps. */
	for (c = conns_at(e, at); c; c = TAILQ_NEXT(c, there))
		if (c->peer.open) {
			if (!c->gone_ns)
				c->gone_ns = now;
			conn_suspect(c, now);
		}
}

static void conn_unreach(struct conn *c, uint64_t now)
{
	if (!c->unreach)
		c->unreach_ns = now;
	/* Several reports of one moment are one. */
	if (!c->unreach || now - c->unreach_last >= SUSPECT_PROBE_NS / 4) {
		c->unreach++;
		c->unreach_last = now;
	}
	conn_suspect(c, now);
}

enum uccl_drop conn_icmp(struct uccl_engine *e, const struct uccl_rx *rx, uint64_t now)
{
	struct uccl_hdr h;
	struct conn *c;
	uint32_t seal;

	if (uccl_quote_decode(&h, rx->data, rx->len) != UCCL_DROP_COUNT)
		return UCCL_DROP_REPORT;
	for (c = conns_at(e, &rx->src); c && !conn_quoted(c, &h); c = TAILQ_NEXT(c, there))
		;
	if (!c || c->hs.state == UCCL_CONN_IDLE)
		return UCCL_DROP_REPORT;
	seal = c->seal ? UCCL_SEAL_LEN : 0;
	if (rx->kind == UCCL_RX_TOO_LONG) {
		/* PROTOCOL R152 */
		if (c->peer.open)
			uccl_flow_mtu_told(&c->peer.flow, rx->imm > seal ? rx->imm - seal : 0, now);
	} else if (conn_unreach_counts(c)) {
		conn_unreach(c, now);
	}
	return UCCL_DROP_COUNT;
}

/* Peers seem silent as well when it is we who cannot hear. */
static int silence_error(const struct uccl_engine *e, int err)
{
	return e->link == UCCL_LINK_UP ? err : FI_ENETDOWN;
}

/* Of all that connection management waits for, only what this peer is to say. */
static bool conn_managed(const struct uccl_engine *e, const struct conn *c)
{
	const struct uccl_op *op;

	TAILQ_FOREACH(op, &e->mep.match.posted[UCCL_KIND_CM], link)
		if (op->flags & UCCL_OPF_DIRECTED && op->peer == &c->peer)
			return true;
	return false;
}

static bool conn_interested(const struct uccl_engine *e, const struct conn *c)
{
	return !uccl_flow_idle(&c->peer.flow) || !TAILQ_EMPTY(&c->peer.rxs) || !TAILQ_EMPTY(&c->peer.sends) ||
	       !TAILQ_EMPTY(&c->peer.pending) ||
	       !TAILQ_EMPTY(&e->mep.match.posted[UCCL_KIND_UNTAGGED]) ||
	       !TAILQ_EMPTY(&e->mep.match.posted[UCCL_KIND_TAGGED]) ||
	       !TAILQ_EMPTY(&e->mep.match.posted[UCCL_KIND_COLL]) || conn_managed(e, c);
}

/* Operations cannot end before this peer says something. */
static bool conn_awaited(const struct conn *c)
{
	return !uccl_flow_idle(&c->peer.flow) || !TAILQ_EMPTY(&c->peer.sends) || !TAILQ_EMPTY(&c->peer.rxs);
}

/* Is it silent, although asked, for longer than a person has allowed? PROTOCOL R47 */
static bool conn_overdue(struct conn *c, uint64_t now)
{
	uint64_t timeout = c->e->cfg.peer_timeout_ns;

	if (!conn_awaited(c)) {
		c->looked_ns = 0;
		return false;
	}
	/* Its time begins with the first look that expects something of it: before that, nobody asked. */
	if (!c->looked_ns || c->peer.flow.heard_ns > c->looked_ns)
		c->unanswered_ns = 0;
	else
		/* Who is away does not ask, nor hear answers: one long absence of ours is not enough. */
		c->unanswered_ns += uccl_min(now - c->looked_ns, timeout / PATIENCE_LOOKS);
	c->looked_ns = now;
	return timeout && c->unanswered_ns >= timeout;
}

/* How often a peer is asked whether it is there: a time-out that a person has set is not reached unasked. */
static uint64_t keepalive_every(const struct conn *c)
{
	const struct uccl_config *cfg = &c->e->cfg;
	uint64_t every = cfg->keepalive_ns ? cfg->keepalive_ns : UCCL_NEVER;

	return cfg->peer_timeout_ns && conn_awaited(c) ? uccl_min(every, cfg->peer_timeout_ns / PATIENCE_LOOKS) : every;
}

static void conn_scan_one(struct uccl_engine *e, struct conn *c, uint64_t now)
{
	uint64_t heard = conn_heard(c), every;

	if (c->bad_memory) {
		/* The stream to this peer has a hole that nothing can fill. */
		conn_fail(c, FI_EFAULT, now);
		return;
	}
	if (c->suspect_at) {
		if (heard > uccl_max(c->unreach_ns, c->gone_ns)) {
			/* It lives: the report was old, or forged. */
			c->unreach = 0;
			c->unreach_ns = c->gone_ns = c->suspect_at = 0;
		} else if (conn_proven_dead(c, now)) {
			conn_fail(c, c->peer.open ? FI_ECONNABORTED : FI_EHOSTUNREACH, now);
			return;
		} else if (now >= c->suspect_at) {
			conn_probe(c, now);
		}
	}
	if (c->peer.open) {
		if (conn_overdue(c, now)) {
			conn_fail(c, silence_error(e, FI_ETIMEDOUT), now);
			return;
		}
		every = keepalive_every(c);
		if (every != UCCL_NEVER && now - uccl_max(heard, c->kept_ns) >= every && conn_interested(e, c)) {
			c->kept_ns = now;
			uccl_flow_keepalive(&c->peer.flow, now);
			engine_ready(c);
			if (now - heard >= 2 * every)
				conn_ask(c, now);
		}
	} else if (c->hs.state != UCCL_CONN_IDLE && e->cfg.connect_timeout_ns &&
		   now - c->hs.started_ns >= e->cfg.connect_timeout_ns) {
		e->stats.connect_fails++;
		conn_fail(c, silence_error(e, FI_EHOSTUNREACH), now);
	}
}

void conn_scan(struct uccl_engine *e, uint64_t now)
{
	uint64_t next = UCCL_NEVER;
	struct conn *c, *after;

	conns_forget(e, now);
	if ((c = TAILQ_FIRST(&e->dead)))
		next = c->ended_ns + FORGET_NS;
	for (c = TAILQ_FIRST(&e->conns); c; c = after) {
		after = TAILQ_NEXT(c, all);
		if (c->hs.state == UCCL_CONN_IDLE)
			continue;
		conn_scan_one(e, c, now);
		if (c->peer.dead)
			continue;
		if (c->suspect_at)
			next = uccl_min(next, c->suspect_at);
		else
			next = uccl_min(next, now + scan_every(e));
	}
	e->scan_at = next;
}

void conn_close_seen(struct conn *c, uint64_t now)
{
	c->closed = true;
	conn_fail(c, FI_ECONNABORTED, now);
}

/* PROTOCOL R86 */
void conn_link(struct uccl_engine *e, enum uccl_link link, uint64_t now)
{
	struct conn *c;

	e->link = link;
	/* When it is back, retransmissions go on: no time-out is long. */
	e->stats.link_downs += link != UCCL_LINK_UP;
	if (link != UCCL_LINK_GONE)
		return;
	conns_half_end(e, now);
	while ((c = TAILQ_FIRST(&e->conns)))
		conn_fail(c, FI_ENODEV, now);
	uccl_mep_gone(&e->mep, FI_ENODEV);
}

/* msg's wishes */

static void mep_ready(struct uccl_peer *p)
{
	engine_ready(peer_conn(p));
}

static void mep_connect(struct uccl_peer *p, uint64_t now)
{
	struct conn *c = peer_conn(p);

	if (c->hs.state != UCCL_CONN_IDLE)
		return;
	conn_grant(c);
	uccl_conn_start(&c->hs, now);
	conn_held(c, UCCL_HELD_CONNECT, now);
	conn_due(c);
	c->e->scan_at = uccl_min(c->e->scan_at, now + scan_every(c->e));
}

/* The peer, if it is still one, writes no more to what it was granted. */
static void finish(struct conn *c)
{
	const struct uccl_nic *nic = c->e->nic;

	if (nic->ops->finish && c->nic_peer)
		nic->ops->finish(c->e->nic, c->nic_peer);
}

static int mep_reg(struct uccl_peer *p, void *buf, uint64_t len, void **mr, uint64_t *rkey, uint64_t *raddr)
{
	struct conn *c = peer_conn(p);
	struct uccl_nic *nic = c->e->nic;
	int rc;

	if (nic->ops->prepare) {
		rc = nic->ops->prepare(nic, c->nic_peer);
		conn_say(c);
		if (rc)
			return rc;
	}
	rc = nic->ops->reg ? nic->ops->reg(nic, buf, len, mr, rkey, raddr) : -FI_ENOSYS;
	if (rc)
		finish(c);
	return rc;
}

static void mep_dereg(struct uccl_peer *p, void *mr)
{
	struct conn *c = peer_conn(p);

	c->e->nic->ops->dereg(c->e->nic, mr);
	finish(c);
}

static void mep_fence(struct uccl_peer *p, uint16_t path, uint64_t now)
{
	struct conn *c = peer_conn(p);

	(void)now;
	if (c->e->nic->ops->fence)
		c->e->nic->ops->fence(c->e->nic, c->nic_peer, path);
}

static void mep_broken(struct uccl_peer *p)
{
	struct conn *c = peer_conn(p);

	c->bad_memory = true;
	c->e->scan_at = c->e->now;
}

const struct uccl_mep_ops engine_mep_ops = {
	.ready = mep_ready,
	.connect = mep_connect,
	.reg = mep_reg,
	.dereg = mep_dereg,
	.fence = mep_fence,
	.broken = mep_broken,
};
