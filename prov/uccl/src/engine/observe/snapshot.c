/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* See snapshot.h. */
#include "engine/observe/snapshot.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

#include "base/units.h"
#include "engine/impl.h"

/* Room at the end of the block, or NULL. */
static void *snapshot_take(struct uccl_snapshot *v, size_t size, size_t want)
{
	void *p = (uint8_t *)v + v->bytes;

	if (size - v->bytes < want)
		return NULL;
	v->bytes += (uint32_t)want;
	memset(p, 0, want);
	return p;
}

static uint16_t count_used(const struct uccl_path *paths, uint16_t n)
{
	uint16_t used = 0;

	for (uint16_t i = 0; i < n; i++)
		used += paths[i].counters.packets > 0;
	return used;
}

static void snapshot_paths(struct uccl_snapshot_path *out, const struct uccl_path *paths, uint16_t n)
{
	for (uint16_t i = 0; i < n; i++) {
		const struct uccl_path *p = &paths[i];

		if (!p->counters.packets)
			continue;
		*out++ = (struct uccl_snapshot_path){
			.index = i,
			.label = p->label,
			.state = p->state,
			.losses = p->losses,
			.strikes = p->strikes,
			.packets = p->counters.packets,
			.bytes = p->counters.bytes,
			.lost = p->counters.lost,
			.rerolls = p->counters.rerolls,
			.srtt_ns = p->srtt_ns,
			.inflight = p->inflight,
		};
	}
}

static bool snapshot_peer(struct uccl_snapshot *v, size_t size, const struct conn *c, uint64_t now)
{
	const struct uccl_flow *f = &c->peer.flow;
	const struct uccl_path *paths = c->peer.open ? f->paths.list : c->state.last_paths;
	uint16_t n = c->peer.open ? f->cfg.paths_tx : c->state.nlast_paths, used = paths ? count_used(paths, n) : 0;
	struct uccl_snapshot_peer *p;

	p = snapshot_take(v, size, sizeof(*p) + used * sizeof(struct uccl_snapshot_path));
	if (!p)
		return false;
	memcpy(p->ip, c->peer.addr.nic.ip, sizeof(p->ip));
	p->port = c->peer.addr.nic.port;
	p->state = c->peer.open ? UCCL_SNAPSHOT_OPEN : c->peer.dead ? UCCL_SNAPSHOT_ENDED : UCCL_SNAPSHOT_CONNECTING;
	p->npaths = used;
	p->min_rtt_ns = UCCL_NEVER;
	p->credit_limit = UCCL_NEVER;
	p->suspect = c->liveness.suspect_at > 0;
	p->stall = c->stall.why;
	p->stall_for_ns = now > c->stall.began_ns ? now - c->stall.began_ns : 0;
	uccl_stall_read(&c->stall, p->stall_ns, c->e->poll.away_ns, now);
	if (c->peer.open) {
		p->short_of_memory = f->limits.envelopes_only;
		p->without_trains = f->train.state >= UCCL_TRAINS_OFF;
		p->nusable = f->paths.nusable;
		p->slots = f->limits.slots;
		p->inflight_chunks = f->sent.inflight_chunks;
		p->inflight_bytes = f->sent.inflight_bytes;
		p->backoff = f->loss.pto.backoff;
		p->window = uccl_flow_cc_window(f);
		p->srtt_ns = f->loss.times.srtt_ns;
		p->min_rtt_ns = f->loss.times.min_rtt_ns;
		p->heard_ago_ns = now > f->rx.heard_ns ? now - f->rx.heard_ns : 0;
		p->credit_used = f->credit.used;
		p->credit_limit = f->cfg.policy.credit->limit(f->policy.credit);
	}
	if (used)
		snapshot_paths((struct uccl_snapshot_path *)(p + 1), paths, n);
	return true;
}

static void snapshot_peers(struct uccl_snapshot *v, size_t size, const struct conn_list *list, uint64_t now)
{
	const struct conn *c;

	TAILQ_FOREACH(c, list, state.all) {
		if (snapshot_peer(v, size, c, now))
			v->npeers++;
		else
			v->left_out++;
	}
}

size_t uccl_engine_snapshot(const struct uccl_engine *e, struct uccl_snapshot *v, size_t size, uint64_t now)
{
	uint64_t nic_ns[UCCL_STALL_COUNT];

	if (size < sizeof(*v))
		return 0;
	v->magic = UCCL_SNAPSHOT_MAGIC;
	v->version = UCCL_SNAPSHOT_VERSION;
	v->stats_bytes = sizeof(v->stats);
	v->bytes = sizeof(*v);
	v->at_ns = now;
	snprintf(v->cc, sizeof(v->cc), "%s", e->cc->name);
	snprintf(v->path, sizeof(v->path), "%s", e->pathsel->name);
	snprintf(v->credit, sizeof(v->credit), "%s", e->credit->name);
	memcpy(v->ip, e->identity.addr.nic.ip, sizeof(v->ip));
	v->port = e->identity.addr.nic.port;
	memset(v->reserved, 0, sizeof(v->reserved));
	uccl_stall_read(&e->out.nic_stall, nic_ns, e->poll.away_ns, now);
	v->nic_ns = nic_ns[UCCL_STALL_NIC];
	v->nconns = e->conns.n;
	v->nopen = e->conns.nopen;
	v->npeers = v->left_out = 0;
	v->stats = e->stats;
	if (e->nic->ops->count)
		e->nic->ops->count(e->nic, &v->stats);
	snapshot_peers(v, size, &e->conns.live, now);
	snapshot_peers(v, size, &e->conns.kept, now);
	snapshot_peers(v, size, &e->conns.dead, now);
	return v->bytes;
}

/* Is there a whole peer at `offset`? */
static const struct uccl_snapshot_peer *snapshot_at(const struct uccl_snapshot *v, size_t offset)
{
	const struct uccl_snapshot_peer *p = (const void *)((const uint8_t *)v + offset);

	if (offset > v->bytes || v->bytes - offset < sizeof(*p) ||
	    v->bytes - offset - sizeof(*p) < p->npaths * sizeof(struct uccl_snapshot_path))
		return NULL;
	return p;
}

const struct uccl_snapshot_peer *uccl_snapshot_first(const struct uccl_snapshot *v)
{
	return v->npeers ? snapshot_at(v, sizeof(*v)) : NULL;
}

const struct uccl_snapshot_peer *uccl_snapshot_next(const struct uccl_snapshot *v, const struct uccl_snapshot_peer *p)
{
	return snapshot_at(v, (size_t)((const uint8_t *)(uccl_snapshot_paths(p) + p->npaths) - (const uint8_t *)v));
}

const char *uccl_snapshot_path_state(uint8_t state)
{
	static const char *const text[] = { "active", "suspect", "quarantine", "probation" };

	return state < uccl_array_len(text) ? text[state] : "?";
}

void uccl_snapshot_ip_text(const uint8_t ip[16], char *buf, size_t size)
{
	bool v4 = IN6_IS_ADDR_V4MAPPED((const struct in6_addr *)ip);

	if (!inet_ntop(v4 ? AF_INET : AF_INET6, v4 ? ip + 12 : ip, buf, (socklen_t)size))
		snprintf(buf, size, "?");
}
