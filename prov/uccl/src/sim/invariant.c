/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "sim/invariant.h"

#include <stdlib.h>
#include <string.h>

#include "flow/internal.h"
#include "engine/impl.h"
#include "base/slot_unit.h"
#include "sim/life.h"

/* A flow's credit, by the token of packets to it. */
struct sim_inv_flow {
	uint64_t token;
	bool seen;	    /* by a look */
	uint64_t announced; /* highest grant that arrived at its node */
	uint64_t first;	    /* limit without one */
	uint64_t limit, used;
	uint64_t turn;	  /* of the peer's credits */
	uint64_t unsolicited; /* had left when that was first seen */
	bool freed;	  /* was granted without bounds */
};

/* Every so many looks at a flow one packet is made up for it. */
#define FORGE_EVERY 4
/* Ended peers that an engine remembers though nobody holds them. PROTOCOL R133 */
#define ENDED_MAX 257

static struct sim_inv_flow *inv_flow(struct uccl_sim_inv *inv, uint64_t token)
{
	struct sim_inv_flow *v;
	uint32_t i;

	for (i = 0; i < inv->nflows; i++)
		if (inv->flows[i].token == token)
			return &inv->flows[i];
	if (inv->nflows == inv->cap) {
		v = realloc(inv->flows, (inv->cap * 2 + 16) * sizeof(*v));
		if (!v)
			return NULL;
		inv->flows = v;
		inv->cap = inv->cap * 2 + 16;
	}
	v = &inv->flows[inv->nflows++];
	*v = (struct sim_inv_flow){.token = token};
	return v;
}

/* --- I20 --- */

void uccl_sim_inv_marks_add(struct uccl_sim_world *w, const struct uccl_sim_life *n)
{
	struct uccl_engine *e;

	for (uint8_t k = 0; (e = uccl_sim_engine(n, k)); k++) {
		const struct uccl_stats *s = uccl_engine_stats(e);

		w->total.marked_rx += s->marked_rx;
		w->total.marked_tx += s->marked_tx;
		w->total.connects += s->connects;
	}
}

void uccl_sim_inv_marks(struct uccl_sim_world *w)
{
	const struct uccl_sim_stats *s = &w->net.stats;
	uint64_t slot_drops = w->total.slot_drops, room;

	for (uint8_t i = 0; i < (uint8_t)w->o.nodes; i++) {
		uccl_sim_inv_marks_add(w, &w->node[i]);
		slot_drops += w->node[i].alive ? uccl_sim_nic_stats(w->node[i].nic)->slot_drops : 0;
	}
	/* Each path of each side tells of its marks to the next KiB. A flipped length may count for anything. */
	room = w->total.connects * (uint64_t)w->o.paths * UCCL_MARK_BYTES;
	if (w->o.corrupt_pass <= 0 &&
	    (w->total.marked_rx > w->total.marked || w->total.marked_tx > w->total.marked_rx + room))
		uccl_sim_violation(w, "I20: %llu bytes came marked, receivers counted %llu, senders heard of %llu",
				   (unsigned long long)w->total.marked, (unsigned long long)w->total.marked_rx,
				   (unsigned long long)w->total.marked_tx);
	if (w->deaths || slot_drops + s->lost_random + s->lost_hole + s->lost_queue + s->lost_corrupt +
				 s->lost_script + s->lost_closed + s->truncated)
		return;
	/* A block has so many lines, and a path two at most. The rest goes with the next one, if there is one. */
	if (2 * w->o.paths > UCCL_ACK_PATHS_MAX)
		return;
	if (w->total.marked_tx < w->total.marked_rx)
		uccl_sim_violation(w, "I20: receivers counted %llu marked bytes, senders heard of %llu",
				   (unsigned long long)w->total.marked_rx, (unsigned long long)w->total.marked_tx);
}

void uccl_sim_inv_fini(struct uccl_sim_inv *inv)
{
	free(inv->flows);
	inv->flows = NULL;
	inv->nflows = inv->cap = 0;
}

/* Grants without bounds are no numbers to compare with. */
static void credit_seen(struct sim_inv_flow *v, uint64_t granted)
{
	if (granted == UCCL_NEVER)
		v->freed = true;
	else
		v->announced = uccl_max(v->announced, granted);
}

/* --- packets --- */

/* What a receiver may count. */
static uint32_t marked_payload(const struct uccl_sim_pkt *p)
{
	struct uccl_hdr h;

	return uccl_hdr_decode(&h, p->data, p->len) == UCCL_DROP_COUNT ? h.payload_len : 0;
}

void uccl_sim_inv_packet(struct uccl_sim_world *w, const struct uccl_sim_pkt *p, const char *what)
{
	struct uccl_sim_inv *inv = &w->inv;
	bool question = p->type == UCCL_PKT_HELLO || p->type == UCCL_PKT_INIT;
	bool answer = p->type == UCCL_PKT_COOKIE || p->type == UCCL_PKT_INIT_ACK || p->type == UCCL_PKT_ELSEWHERE;
	struct sim_inv_flow *v;

	/* What nobody sent proves nothing about a sender. */
	if (!p->copy && p->kind == UCCL_TX_PACKET && !answer && !question)
		inv->talks[p->src][p->dst] = true;
	if (!p->copy && p->kind == UCCL_TX_PACKET && answer && !inv->talks[p->src][p->dst]) {
		inv->answered[p->src][p->dst] += p->len;
		if (inv->answered[p->src][p->dst] > inv->asked[p->dst][p->src])
			uccl_sim_violation(w, "I12: %u answered %llu bytes to %u, which had sent %llu", p->src,
					   (unsigned long long)inv->answered[p->src][p->dst], p->dst,
					   (unsigned long long)inv->asked[p->dst][p->src]);
	}
	if (!p->copy && p->type != UCCL_PKT_HELLO && !inv->heard[p->dst][p->src])
		uccl_sim_violation(w, "I12: %u sent type %u to %u, of which it had heard nothing", p->src, p->type,
				   p->dst);
	if (what)
		return;
	inv->heard[p->src][p->dst] += p->len;
	if (p->marked)
		w->total.marked += marked_payload(p);
	if (p->kind == UCCL_TX_PACKET && question)
		inv->asked[p->src][p->dst] += p->len;
	if (p->kind == UCCL_TX_PACKET && p->type == UCCL_PKT_CREDIT && p->len >= UCCL_HDR_LEN) {
		v = inv_flow(inv, uccl_get64(p->data + 8));
		if (v)
			credit_seen(v, uccl_get64(p->data + 32));
	}
}

/* --- I7 --- */

static const char *look_credit(struct uccl_sim_inv *inv, const struct uccl_flow *f)
{
	uint64_t limit = f->cfg.policy.credit->limit(f->policy.credit), used = f->credit.used;
	struct sim_inv_flow *v = inv_flow(inv, f->cfg.wire.token_rx);
	const char *text = NULL;

	if (!v)
		return NULL;
	if (!v->seen)
		v->first = limit;
	/* What has left before it was held to its grants is under way. */
	if (f->credit.turn != v->turn) {
		v->turn = f->credit.turn;
		v->limit = 0;
		v->unsolicited = used - f->credit.free;
	}
	if (limit < v->limit)
		text = "credit was taken back";
	else if (used < v->used)
		text = "credit that was used came back";
	else if (limit == UCCL_NEVER ? v->first != UCCL_NEVER && !v->freed :
				       limit > uccl_max(v->first == UCCL_NEVER ? 0 : v->first, v->announced))
		text = "there is more credit than was granted";
	else if (limit != UCCL_NEVER &&
		 used - f->credit.free >
			 uccl_max(uccl_max(limit, f->credit.renewed) +
					  (f->cfg.policy.credit->whole ? f->cfg.policy.credit->whole(f->policy.credit)
								       : 0),
				  v->unsolicited) +
				 uccl_max(f->cfg.packet.chunk_bytes, f->cfg.write.bytes))
		text = "more was sent than there was credit for";
	v->seen = true;
	v->limit = limit;
	v->used = used;
	return text;
}

/* --- I9 --- */

/*
 * A completion of what was posted has its room by that. What others send into a multi-receive buffer has none, so
 * when the queue is full only what was on its way already may complete.
 */
void uccl_sim_inv_done(struct uccl_sim_life *n, bool child)
{
	const struct uccl_pool *ops = &n->e->msg_ep.op_pool;
	bool was_full = n->unread >= (uint32_t)n->w->o.cq;

	n->unread++;
	if (was_full && child) {
		if (!n->children)
			uccl_sim_violation(n->w, "I9: endpoint %u took a message, with %u completions unread", n->node,
					   n->unread - 1);
		else
			n->children--;
	} else if (!was_full && n->unread >= (uint32_t)n->w->o.cq) {
		/* This one still has its operation. */
		n->children = ops->used > n->posted + 1 ? ops->used - n->posted - 1 : 0;
	}
}

/* --- I11 --- */

static uint64_t hash(uint64_t h, const void *p, size_t len)
{
	const uint8_t *b = p;
	uint64_t word;

	for (; len >= 8; len -= 8, b += 8) {
		memcpy(&word, b, 8);
		h = (h ^ word) * 0x9e3779b97f4a7c15ull;
		h ^= h >> 29;
	}
	for (; len; len--)
		h = (h ^ *b++) * 0x100000001b3ull;
	return h;
}

/* All that a flow knows. */
static uint64_t flow_hash(const struct uccl_flow *f)
{
	uint64_t h = hash(1, f, sizeof(*f));

	h = hash(h, f->sent.log, f->sent.cap * sizeof(*f->sent.log));
	for (int i = 0; i < UCCL_RTX_KINDS; i++)
		h = hash(h, f->sent.rtxq[i].csns, f->sent.cap * sizeof(*f->sent.rtxq[i].csns));
	h = hash(h, f->paths.list, f->cfg.paths_tx * sizeof(*f->paths.list));
	h = hash(h, f->paths.usable, f->cfg.paths_tx * sizeof(*f->paths.usable));
	h = hash(h, f->rx.ack_tracker.paths, f->cfg.paths_rx * sizeof(*f->rx.ack_tracker.paths));
	h = hash(h, f->rx.ack_tracker.dirty, f->cfg.paths_rx * sizeof(*f->rx.ack_tracker.dirty));
	h = hash(h, f->rx.arrived.map, f->cfg.window / 8);
	if (f->cfg.write.bytes) {
		h = hash(h, f->rx.write.early, f->cfg.window * sizeof(*f->rx.write.early));
		h = hash(h, f->rx.write.descs, f->cfg.window * sizeof(*f->rx.write.descs));
		h = hash(h, f->rx.write.in_doubt, f->cfg.window * sizeof(*f->rx.write.in_doubt));
	}
	return h;
}

const char *uccl_sim_inv_forge(struct uccl_flow *f, uint32_t form, uint64_t now)
{
	static const uint8_t rec[UCCL_REC_LEN];
	struct uccl_stats *real = f->cfg.stats, before, after;
	struct uccl_hdr h = {
		.type = UCCL_PKT_PROBE,
		.flags = UCCL_FLAG_AR,
		.token = f->cfg.wire.token_rx,
		.pseq = f->rx.ack_tracker.paths[0].high_seq + 1,
		.ts = uccl_ts(now),
		.rec = rec,
	};
	struct uccl_ack a = {
		.cum = (uint32_t)f->sent.una,
		.dups = f->loss.rack.dups,
		/* A grant that must not be believed. */
		.slots = (uint16_t)f->limits.slots ^ 1,
		.msg_limit = f->limits.msg_limit,
	};
	enum uccl_drop reason = UCCL_DROP_ACK;
	uint64_t was, bit = f->sent.nxt - f->sent.una - 1;
	uint8_t tail[UCCL_TAIL_MAX];

	switch (form) {
	case 0:
		h.path = f->cfg.paths_rx;
		reason = UCCL_DROP_PATH;
		break;
	case 1:
		a.cum = (uint32_t)f->sent.nxt + 1;
		break;
	case 2:
		if (f->sent.una == f->sent.nxt || bit / 64 >= UCCL_ACK_WORDS_MAX)
			return NULL;
		a.nwords = (uint8_t)(bit / 64 + 1);
		a.sack[bit / 64] = 1ull << bit % 64;
		break;
	case 3:
		if (f->cfg.paths_tx >= UCCL_PATHS_MAX)
			return NULL;
		a.npaths = 1;
		a.paths[0] = (struct uccl_ack_path){.path = f->cfg.paths_tx, .seq = 1};
		reason = UCCL_DROP_PATH;
		break;
	case 4:
		a.npaths = 1;
		a.paths[0] = (struct uccl_ack_path){.seq = f->paths.list[0].next_seq};
		break;
	case 5:
		a.npaths = 1;
		a.paths[0] = (struct uccl_ack_path){.write = true, .seq = (uint32_t)f->sent.nxt};
		break;
	case 6:
		reason = UCCL_DROP_COUNT; /* whatever the decoder calls it */
		break;
	default:
		/* A good line first: nothing of a block is taken before all of it was looked at. */
		if (f->paths.list[0].next_seq == f->paths.list[0].acked_seq + 1)
			return NULL;
		a.npaths = 2;
		a.paths[0] = (struct uccl_ack_path){.seq = f->paths.list[0].next_seq - 1, .echo = uccl_ts(now)};
		a.paths[1] = (struct uccl_ack_path){.seq = f->paths.list[0].next_seq};
		break;
	}
	h.tail_len = (uint16_t)uccl_ack_encode(tail, &a);
	if (form == 6)
		tail[15]++;
	before = after = *real;
	f->cfg.stats = &after;
	was = flow_hash(f);
	uccl_flow_rx(f, &h, NULL, tail, 0, now);
	if (flow_hash(f) != was) {
		f->cfg.stats = real;
		return "a refused packet changed the flow";
	}
	f->cfg.stats = real;
	if (form != 6)
		before.dropped[reason]++;
	else
		memcpy(before.dropped, after.dropped, sizeof(after.dropped));
	return memcmp(&before, &after, sizeof(after)) ? "a bad packet was not counted as refused" : NULL;
}

/* --- I13, I8 --- */

static uint64_t write_rx_bytes(const struct uccl_write_rx *l, uint64_t window)
{
	return window * (sizeof(*l->early) + sizeof(*l->descs) + sizeof(*l->in_doubt));
}

static uint64_t flow_bytes(const struct uccl_flow *f)
{
	uint64_t sum = f->sent.cap * (sizeof(*f->sent.log) + UCCL_RTX_KINDS * sizeof(*f->sent.rtxq->csns));

	sum += f->cfg.paths_tx * (sizeof(*f->paths.list) + sizeof(*f->paths.usable));
	sum += f->cfg.paths_rx * (sizeof(*f->rx.ack_tracker.paths) + sizeof(*f->rx.ack_tracker.dirty)) +
	       f->cfg.window / 8;
	if (f->cfg.write.bytes)
		sum += write_rx_bytes(&f->rx.write, f->cfg.window);
	return sum;
}

static const char *look_memory(const struct uccl_sim_world *w, const struct uccl_engine *e, const struct conn *c)
{
	const struct uccl_flow *f = &c->peer.flow;
	const struct uccl_config *cfg = &e->cfg;
	uint64_t window = cfg->window_chunks;
	uint64_t cap = window * (sizeof(*f->sent.log) + UCCL_RTX_KINDS * sizeof(*f->sent.rtxq->csns) + 1);
	const struct uccl_msg_rx *rx;
	uint32_t n = 0;

	cap += UCCL_PATHS_MAX * (sizeof(*f->paths.list) + sizeof(*f->rx.ack_tracker.paths) + 8);
	cap += write_rx_bytes(&f->rx.write, window);
	if (flow_bytes(f) > cap)
		return "a flow holds more memory than its settings allow";
	if (f->rx.write.ndescs > f->cfg.window || f->rx.write.ndoubts > f->cfg.window ||
	    f->rx.ack_tracker.ndirty > f->cfg.paths_rx)
		return "a list of a flow is longer than its memory";
	TAILQ_FOREACH(rx, &c->peer.rx.all, plink)
		n++;
	if (n > UCCL_MSG_LIMIT + e->msg_ep.rx_pool.max)
		return "a peer has more messages under way than it may";
	(void)w;
	return NULL;
}

/* Bytes of unexpected messages of these peers. */
static uint64_t unexpected_of(const struct conn_list *list)
{
	const struct conn *c;
	uint64_t sum = 0;

	TAILQ_FOREACH(c, list, state.all)
		sum += c->peer.unexpected.bytes;
	return sum;
}

/* A speculative window begins behind what has come, or what its sender told to be lost. PROTOCOL R375 */
static void look_renewed(struct uccl_sim_life *n, const struct conn *c, const struct uccl_flow *from)
{
	const struct uccl_credit *credit = &from->credit;
	uint64_t most = c->peer.flow.credit.received + credit->lost_sent + credit->pull.cfg.idle;

	if (credit->renewed > most)
		uccl_sim_violation(n->w, "I7: port %u renewed its window up to %llu, endpoint %u has %llu",
				   c->peer.addr.nic.port, (unsigned long long)credit->renewed, n->node,
				   (unsigned long long)most);
}

/* What one peer believes to be granted, and its packets under way, are counted here. */
static void look_grant(struct uccl_sim_life *n, const struct conn *c)
{
	struct uccl_sim_world *w = n->w;
	const struct conn *peer = NULL;
	struct uccl_engine *e;

	for (uint32_t i = 0; i < (uint32_t)w->o.nodes; i++)
		for (uint8_t k = 0; !peer && (e = uccl_sim_engine(&w->node[i], k)); k++)
			peer = conn_by_token(e, c->hs.token_remote);
	if (!peer || !peer->peer.open || !c->hs.token_remote)
		return;
	look_renewed(n, c, &peer->peer.flow);
	if (peer->peer.flow.limits.slots > c->slots.grant.believed)
		uccl_sim_violation(w, "I8: endpoint %u counts %u slots of port %u, which has %u", n->node,
				   c->slots.grant.believed, c->peer.addr.nic.port, peer->peer.flow.limits.slots);
}

/* So many packets in the unit of the NIC's slots; and what one peer was granted, if it counts. */
static uint64_t nic_slots(const struct uccl_engine *e, uint32_t packets)
{
	return (uint64_t)packets * uccl_slot_count(e->nic->caps.queue.unit, e->nic->caps.mtu);
}

static uint64_t granted_slots(const struct uccl_engine *e, const struct conn *c)
{
	if (c->slots.grant.written_off)
		return 0;
	return c->slots.units ? c->slots.grant.believed : nic_slots(e, c->slots.grant.believed);
}

static void look_engine(struct uccl_sim_life *n, const struct uccl_engine *e)
{
	struct uccl_sim_world *w = n->w;
	const struct uccl_msg_ep *m = &e->msg_ep;
	uint64_t slots = 0, most = m->unexpected.max, room = nic_slots(e, e->nic->caps.rx_slots);
	uint64_t sum = unexpected_of(&e->conns.live) + unexpected_of(&e->conns.dead) + unexpected_of(&e->conns.kept);
	uint32_t incarnations = (uint32_t)w->o.nodes * UCCL_SIM_LIVES, alive = 0;
	const struct conn *c;

	TAILQ_FOREACH(c, &e->conns.live, state.all) {
		alive++;
		if (!c->peer.open)
			continue;
		slots += granted_slots(e, c);
		look_grant(n, c);
		/* What was on its way when the peer heard that memory is short, and messages that had begun. */
		most += (uint64_t)c->peer.flow.cfg.window *
			uccl_max(e->cfg.eager_bytes, c->peer.flow.cfg.packet.chunk_bytes);
		most += UCCL_UNSOLICITED_PEER_MAX;
	}
	TAILQ_FOREACH(c, &e->table.half, state.all) {
		alive++;
		slots += granted_slots(e, c);
	}
	if (slots > room)
		uccl_sim_violation(w, "I8: endpoint %u granted %llu slots of %llu", n->node, (unsigned long long)slots,
				   (unsigned long long)room);
	if (sum != m->unexpected.bytes)
		uccl_sim_violation(w, "I13: endpoint %u buffers %llu unexpected bytes, its peers %llu", n->node,
				   (unsigned long long)m->unexpected.bytes, (unsigned long long)sum);
	if (m->unexpected.bytes > most && !w->deaths)
		uccl_sim_violation(w, "I13: endpoint %u buffers %llu unexpected bytes", n->node,
				   (unsigned long long)m->unexpected.bytes);
	if (m->tx.copied_bytes > UCCL_COPIED_MAX + (uint64_t)w->o.inject + UCCL_COPY_MAX)
		uccl_sim_violation(w, "I13: endpoint %u holds copies of %llu bytes", n->node,
				   (unsigned long long)m->tx.copied_bytes);
	/* Every life of every node, and each node once more: a place whose incarnation is not known yet. */
	if (alive > incarnations + (uint32_t)w->o.nodes)
		uccl_sim_violation(w, "I13: endpoint %u knows %u peers", n->node, alive);
	/* Failed attempts to connect are among these. The program holds one for each incarnation. */
	if (e->conns.n - alive > ENDED_MAX + incarnations)
		uccl_sim_violation(w, "I13: endpoint %u remembers %u ended peers", n->node, e->conns.n - alive);
}

void uccl_sim_inv_look(struct uccl_sim_life *n, const struct uccl_engine *e)
{
	struct uccl_sim_world *w = n->w;
	struct conn *c;

	look_engine(n, e);
	TAILQ_FOREACH(c, &e->conns.live, state.all) {
		const char *text;

		if (!c->peer.open)
			continue;
		text = look_credit(&w->inv, &c->peer.flow);
		if (text)
			uccl_sim_violation(w, "I7: endpoint %u, flow to port %u: %s", n->node, c->peer.addr.nic.port,
					   text);
		text = look_memory(w, e, c);
		if (text)
			uccl_sim_violation(w, "I13: endpoint %u, flow to port %u: %s", n->node, c->peer.addr.nic.port,
					   text);
		if (++w->inv.looks % FORGE_EVERY)
			continue;
		text = uccl_sim_inv_forge(&c->peer.flow, (uint32_t)(w->inv.forged++ % UCCL_SIM_INV_FORMS), w->net.now);
		if (text)
			uccl_sim_violation(w, "I11: endpoint %u, flow to port %u: %s", n->node, c->peer.addr.nic.port,
					   text);
	}
}
