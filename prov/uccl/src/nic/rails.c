/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Several NICs as one: packets go over all of them, and when one has no link over those that have. The first of them
 * is where peers know the endpoint; where it is on the others, connected sides tell each other. Of sockets the first
 * address tells the second one, so that a connection begins over either (R379, R390). Direct writes go over the first
 * one, as registrations belong to a NIC; rails without them (sockets) send packets only.
 *
 * A label is one of a rail: l % n is the rail, l / n the label there. So the flow above sees paths like any others, and
 * leaves those that die, whichever end of them it was. Rail i of one side talks to rail i of the other.
 */
#include <errno.h>
#include <rdma/fi_errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/le.h"
#include "base/log.h"
#include "base/units.h"
#include "nic/nic.h"

#define TX_RUN 64 /* packets that are handed to a rail at once */
/* A record of places, for each rail but the first: kind (1), rail (1), port (2), scope (4), pad (2), 0 (6), ip (16). */
#define PLACE_KIND 128
#define PLACE_LEN 32

_Static_assert(PLACE_LEN <= UCCL_NIC_RECORD && UCCL_RAILS_MAX <= 8, "a place in a record; a bit for each rail");

struct rails_peer {
	struct uccl_nic_peer *inner;	      /* of the first rail */
	struct uccl_nic_addr place[UCCL_RAILS_MAX]; /* as rails are numbered; */
	bool known[UCCL_RAILS_MAX];		      /* false: not told yet, or refused */
	uint8_t told;			      /* the peer told of these, by bits */
	int sent;			      /* we told of so many */
	uint64_t id;
	UT_hash_handle hh; /* by id */
};

/* Packets from an address of a peer's other rail count as from that of its first. */
struct rails_alias {
	uint8_t ip[16], first[16];
	uint32_t users;
	UT_hash_handle hh;
};

/* Memory of a device that all rails can read, as each of them knows it. */
struct rails_source {
	void *of[UCCL_RAILS_MAX];
};

struct rails {
	struct uccl_nic nic;
	struct uccl_nic_ops ops;
	int n;
	bool writes; /* rails have direct writes */
	struct uccl_nic *rail[UCCL_RAILS_MAX]; /* the first is the one that peers know */
	enum uccl_link link[UCCL_RAILS_MAX], reported;
	int turn; /* whose packets are taken first */
	struct rails_peer *peers;
	struct rails_alias *aliases;
	int wait_fd; /* -1: not made */
};

static struct rails *rails_of(struct uccl_nic *nic)
{
	return uccl_container_of(nic, struct rails, nic);
}

/* Sending. */

static bool usable(const struct rails *r, const struct rails_peer *peer, int i)
{
	return r->link[i] == UCCL_LINK_UP && (!i || peer->known[i]);
}

/* Before there is a connection: the rail that is answered, or the two that the address tells, in turn. PROTOCOL R390 */
static int rail_first(const struct rails *r, const struct uccl_tx *t)
{
	struct uccl_nic_addr second;
	int rail = t->label % r->n;

	if (r->writes)
		return 0;
	if (t->answer)
		return rail;
	if (!uccl_nic_addr_second(t->to, &second))
		return 0;
	rail &= 1;
	return r->link[rail] == UCCL_LINK_UP ? rail : !rail;
}

/* The rail of a packet: its label's, or else any that can be used; the first if there is none. */
static int rail_of(const struct rails *r, const struct uccl_tx *t)
{
	const struct rails_peer *peer = (const struct rails_peer *)t->peer;

	if (t->kind == UCCL_TX_WRITE)
		return 0;
	if (!peer)
		return rail_first(r, t);
	for (int i = 0; i < r->n; i++)
		if (usable(r, peer, (t->label + i) % r->n))
			return (t->label + i) % r->n;
	return 0;
}

/* Entries v[0..n) are of one rail: as it knows them. What it does not take is as it was. */
static int rail_tx(struct rails *r, int rail, struct uccl_tx *v, int n)
{
	struct uccl_nic_addr second[TX_RUN];
	struct uccl_nic_peer *peer[TX_RUN];
	const struct uccl_nic_addr *to[TX_RUN];
	uint16_t label[TX_RUN];
	void *mr[TX_RUN];
	int i, k;

	n = (int)uccl_min(n, TX_RUN);
	for (i = 0; i < n; i++) {
		struct rails_peer *p = (struct rails_peer *)v[i].peer;

		peer[i] = v[i].peer;
		to[i] = v[i].to;
		label[i] = v[i].label;
		mr[i] = v[i].mr;
		if (mr[i])
			v[i].mr = ((const struct rails_source *)mr[i])->of[rail];
		v[i].label = (uint16_t)(v[i].label / r->n % r->rail[rail]->caps.labels);
		v[i].peer = p && !rail ? p->inner : NULL;
		if (rail && p)
			v[i].to = &p->place[rail];
		else if (rail && !v[i].answer && uccl_nic_addr_second(to[i], &second[i]))
			v[i].to = &second[i];
	}
	k = r->rail[rail]->ops->tx(r->rail[rail], v, n);
	for (i = 0; i < n; i++) {
		v[i].peer = peer[i];
		v[i].to = to[i];
		v[i].label = label[i];
		v[i].mr = mr[i];
	}
	return k;
}

static int rails_tx(struct uccl_nic *nic, struct uccl_tx *v, int n)
{
	struct rails *r = rails_of(nic);
	int i, end, k;

	for (i = 0; i < n; i += k) {
		int rail = rail_of(r, &v[i]);

		for (end = i + 1; end < n && rail_of(r, &v[end]) == rail; end++)
			;
		k = rail_tx(r, rail, v + i, end - i);
		if (k <= 0)
			return i ? i : k;
	}
	return n;
}

/* Receiving. */

/* Up while one is, gone when all are. */
static enum uccl_link link_of_all(const struct rails *r)
{
	enum uccl_link best = UCCL_LINK_GONE;

	for (int i = 0; i < r->n; i++)
		best = uccl_min(best, r->link[i]);
	return best;
}

/* A report on the way to a place of a peer: whose first place is that? */
static void report_take(const struct rails *r, int rail, struct uccl_rx *v)
{
	for (const struct rails_peer *p = r->peers; p; p = p->hh.next)
		if (p->known[rail] && !memcmp(p->place[rail].ip, v->src.ip, sizeof(v->src.ip)) &&
		    p->place[rail].port == v->src.port) {
			v->src = p->place[0];
			return;
		}
}

/* One event of a rail as one of all. False: there is nothing to report. */
static bool event_take(struct rails *r, int rail, struct uccl_rx *v)
{
	struct rails_alias *alias = NULL;
	struct rails_peer *peer = NULL;

	switch (v->kind) {
	case UCCL_RX_LINK:
		UCCL_LOG(UCCL_LOG_INFO, "rail %d: its link is %s", rail,
			 v->imm == UCCL_LINK_UP ? "up" : v->imm == UCCL_LINK_DOWN ? "down" : "gone");
		r->link[rail] = (enum uccl_link)v->imm;
		v->imm = link_of_all(r);
		if (v->imm == r->reported)
			return false;
		r->reported = (enum uccl_link)v->imm;
		return true;
	case UCCL_RX_PACKET:
		v->rail = (uint8_t)rail;
		/* Who begins a connection is answered where it was heard. PROTOCOL R379 R390 */
		if (rail && !uccl_packet_begins(v->data, v->len))
			HASH_FIND(hh, r->aliases, v->src.ip, sizeof(v->src.ip), alias);
		if (alias)
			memcpy(v->src.ip, alias->first, sizeof(alias->first));
		return true;
	case UCCL_RX_TOO_LONG:
		/* Packets of one length leave by all rails. */
		if (rail)
			report_take(r, rail, v);
		return true;
	case UCCL_RX_UNREACH:
	case UCCL_RX_GONE:
		/* One way to the peer; it may have others. */
		return !rail;
	default:
		HASH_FIND(hh, r->peers, &v->peer_id, sizeof(v->peer_id), peer);
		v->peer = (struct uccl_nic_peer *)peer;
		return true;
	}
}

static int rails_rx(struct uccl_nic *nic, struct uccl_rx *v, int n, const struct uccl_rx_placement *places, int nplaces)
{
	struct rails *r = rails_of(nic);
	int total = 0;

	r->turn++;
	for (int i = 0; i < r->n && total < n; i++) {
		int rail = (r->turn + i) % r->n, left = nplaces - total;
		struct uccl_nic *one = r->rail[rail];
		struct uccl_rx *in = v + total;
		int got;

		one->watched = nic->watched;
		one->empty = nic->empty;
		got = one->ops->rx(one, in, n - total, left > 0 ? places + total : NULL, left > 0 ? left : 0);
		for (int k = 0; k < got; k++)
			if (event_take(r, rail, &in[k]))
				v[total++] = in[k];
	}
	return total;
}

static int rails_wait_fd(struct uccl_nic *nic)
{
	struct epoll_event ev = {.events = EPOLLIN};
	struct rails *r = rails_of(nic);
	int fd, of, err;

	if (r->wait_fd >= 0)
		return r->wait_fd;
	fd = epoll_create1(EPOLL_CLOEXEC);
	if (fd < 0)
		return -errno;
	for (int i = 0; i < r->n; i++) {
		of = r->rail[i]->ops->wait_fd(r->rail[i]);
		if (of >= 0 && !epoll_ctl(fd, EPOLL_CTL_ADD, of, &ev))
			continue;
		err = of < 0 ? of : -errno;
		close(fd);
		return err;
	}
	r->wait_fd = fd;
	return fd;
}

static uint64_t rails_expiry(struct uccl_nic *nic)
{
	struct rails *r = rails_of(nic);
	uint64_t at = UCCL_NEVER;

	for (int i = 0; i < r->n; i++)
		if (r->rail[i]->ops->expiry)
			at = uccl_min(at, r->rail[i]->ops->expiry(r->rail[i]));
	return at;
}

/* Peers. */

static struct rails_alias *alias_find(struct rails *r, const struct uccl_nic_addr *place)
{
	struct rails_alias *a;

	HASH_FIND(hh, r->aliases, place->ip, sizeof(place->ip), a);
	return a;
}

static void alias_put(struct rails *r, struct rails_alias *a)
{
	if (--a->users)
		return;
	HASH_DEL(r->aliases, a);
	free(a);
}

/* PROTOCOL R100: the peer is on that address, too. False: that is somebody else's, or there is no memory. */
static bool alias_get(struct rails *r, const struct rails_peer *p, int rail)
{
	struct rails_alias *a = alias_find(r, &p->place[rail]);

	if (!a) {
		a = calloc(1, sizeof(*a));
		if (!a)
			return false;
		memcpy(a->ip, p->place[rail].ip, sizeof(a->ip));
		memcpy(a->first, p->place[0].ip, sizeof(a->first));
		HASH_ADD(hh, r->aliases, ip, sizeof(a->ip), a);
		if (!a->hh.tbl) {
			free(a);
			return false;
		}
	}
	if (memcmp(a->first, p->place[0].ip, sizeof(a->first)))
		return false;
	a->users++;
	return true;
}

static void aliases_put(struct rails *r, struct rails_peer *p)
{
	for (int i = 1; i < r->n; i++)
		if (p->known[i])
			alias_put(r, alias_find(r, &p->place[i]));
}

static int rails_connect(struct uccl_nic *nic, const struct uccl_nic_addr *to, uint64_t id, uint16_t paths,
			 struct uccl_nic_peer **out)
{
	struct rails *r = rails_of(nic);
	struct rails_peer *p = calloc(1, sizeof(*p));
	int rc;

	if (!p)
		return -FI_ENOMEM;
	p->place[0] = *to;
	p->id = id;
	if (!r->writes && uccl_nic_addr_second(to, &p->place[1]))
		p->known[1] = alias_get(r, p, 1);
	rc = r->rail[0]->ops->connect(r->rail[0], to, id, paths, &p->inner);
	if (rc) {
		aliases_put(r, p);
		free(p);
		return rc;
	}
	HASH_ADD(hh, r->peers, id, sizeof(p->id), p);
	if (!p->hh.tbl) {
		r->rail[0]->ops->disconnect(r->rail[0], p->inner);
		aliases_put(r, p);
		free(p);
		return -FI_ENOMEM;
	}
	*out = (struct uccl_nic_peer *)p;
	return 0;
}

static void rails_disconnect(struct uccl_nic *nic, struct uccl_nic_peer *peer)
{
	struct rails_peer *p = (struct rails_peer *)peer;
	struct rails *r = rails_of(nic);

	aliases_put(r, p);
	r->rail[0]->ops->disconnect(r->rail[0], p->inner);
	HASH_DEL(r->peers, p);
	free(p);
}

/* The connection of kernels is the first rail's. */
static bool rails_alive(struct uccl_nic *nic, struct uccl_nic_peer *peer)
{
	struct rails *r = rails_of(nic);

	return r->rail[0]->ops->alive(r->rail[0], ((struct rails_peer *)peer)->inner);
}

static bool rails_held(struct uccl_nic *nic, struct uccl_nic_peer *peer)
{
	struct rails *r = rails_of(nic);

	return r->rail[0]->ops->held(r->rail[0], ((struct rails_peer *)peer)->inner);
}

/* Packets of any length may leave by any of them. */
static uint32_t rails_path_mtu(struct uccl_nic *nic, const struct uccl_nic_addr *to, uint32_t *known)
{
	struct rails *r = rails_of(nic);
	uint32_t most = UINT32_MAX, least = UINT32_MAX;

	for (int i = 0; i < r->n; i++) {
		most = (uint32_t)uccl_min(most, r->rail[i]->ops->path_mtu(r->rail[i], to, known));
		least = (uint32_t)uccl_min(least, *known);
	}
	*known = (uint32_t)uccl_min(least, most);
	return most;
}

static void rails_guard(struct uccl_nic *nic, const struct uccl_nic_guard *guard)
{
	struct rails *r = rails_of(nic);

	for (int i = 0; i < r->n; i++)
		r->rail[i]->ops->guard(r->rail[i], guard);
}

/* What the two sides say: where we are on the other rails, and then what the first one has to say. */

static uint32_t rails_offer(struct uccl_nic *nic, struct uccl_nic_peer *peer, uint8_t *buf, uint32_t n)
{
	struct rails_peer *p = (struct rails_peer *)peer;
	struct rails *r = rails_of(nic);
	struct uccl_nic_addr a;
	uint32_t len = 0;

	for (; p->sent + 1 < r->n && len + PLACE_LEN <= uccl_min(n, UCCL_NIC_RECORD); len += PLACE_LEN) {
		int i = ++p->sent;

		r->rail[i]->ops->addr(r->rail[i], &a);
		memset(buf + len, 0, PLACE_LEN);
		buf[len] = PLACE_KIND;
		buf[len + 1] = (uint8_t)i;
		uccl_put16(buf + len + 2, a.port);
		uccl_put32(buf + len + 4, a.scope);
		uccl_put16(buf + len + 8, a.pad);
		memcpy(buf + len + 16, a.ip, sizeof(a.ip));
	}
	return len || !r->writes ? len : r->rail[0]->ops->offer(r->rail[0], p->inner, buf, n);
}

/* Queue pairs have a number and a word; sockets do not. */
static bool places_valid(const struct rails *r, const struct rails_peer *p, const uint8_t *buf, uint32_t len)
{
	static const uint8_t zero[16];
	uint8_t told = p->told;

	if (len % PLACE_LEN || len > UCCL_NIC_RECORD)
		return false;
	for (uint32_t at = 0; at < len; at += PLACE_LEN) {
		uint8_t i = buf[at + 1];

		if (buf[at] != PLACE_KIND || !i || i >= UCCL_RAILS_MAX || told & 1u << i || !uccl_get16(buf + at + 2) ||
		    !uccl_get32(buf + at + 4) == r->writes || !uccl_get16(buf + at + 8) == r->writes ||
		    memcmp(buf + at + 10, zero, 6) || !memcmp(buf + at + 16, zero, 16))
			return false;
		told |= (uint8_t)(1u << i);
	}
	return true;
}

static void places_take(struct rails *r, struct rails_peer *p, const uint8_t *buf, uint32_t len)
{
	for (uint32_t at = 0; at < len; at += PLACE_LEN) {
		int i = buf[at + 1];

		p->told |= (uint8_t)(1u << i);
		if (i >= r->n)
			continue;
		/* Its address told where the second one is: what the peer says now counts. */
		if (p->known[i])
			alias_put(r, alias_find(r, &p->place[i]));
		p->place[i].port = uccl_get16(buf + at + 2);
		p->place[i].scope = uccl_get32(buf + at + 4);
		p->place[i].pad = uccl_get16(buf + at + 8);
		memcpy(p->place[i].ip, buf + at + 16, sizeof(p->place[i].ip));
		p->known[i] = alias_get(r, p, i);
	}
}

static int rails_accept(struct uccl_nic *nic, struct uccl_nic_peer *peer, const uint8_t *buf, uint32_t len)
{
	struct rails_peer *p = (struct rails_peer *)peer;
	struct rails *r = rails_of(nic);

	if (r->writes && (!len || buf[0] != PLACE_KIND))
		return r->rail[0]->ops->accept(r->rail[0], p->inner, buf, len);
	if (!len || !places_valid(r, p, buf, len))
		return -FI_EINVAL;
	places_take(r, p, buf, len);
	return 0;
}

/* Direct writes: the first rail's, while it has a link. */

static int rails_prepare(struct uccl_nic *nic, struct uccl_nic_peer *peer)
{
	struct rails *r = rails_of(nic);

	if (r->link[0] != UCCL_LINK_UP)
		return -FI_EAGAIN;
	return r->rail[0]->ops->prepare(r->rail[0], ((struct rails_peer *)peer)->inner);
}

static void rails_finish(struct uccl_nic *nic, struct uccl_nic_peer *peer)
{
	struct rails *r = rails_of(nic);

	r->rail[0]->ops->finish(r->rail[0], ((struct rails_peer *)peer)->inner);
}

static int rails_fence(struct uccl_nic *nic, struct uccl_nic_peer *peer, uint16_t path)
{
	struct rails *r = rails_of(nic);

	return r->rail[0]->ops->fence(r->rail[0], ((struct rails_peer *)peer)->inner, path);
}

static void rails_stop_writes(struct uccl_nic *nic, struct uccl_nic_peer *peer)
{
	struct rails *r = rails_of(nic);

	r->rail[0]->ops->stop_writes(r->rail[0], ((struct rails_peer *)peer)->inner);
}

static void rails_renew(struct uccl_nic *nic, struct uccl_nic_peer *peer, uint16_t path, bool stays)
{
	struct rails *r = rails_of(nic);

	r->rail[0]->ops->renew(r->rail[0], ((struct rails_peer *)peer)->inner, path, stays);
}

static int rails_reg(struct uccl_nic *nic, void *buf, uint64_t len, void **mr, uint64_t *rkey, uint64_t *raddr)
{
	struct rails *r = rails_of(nic);

	return r->rail[0]->ops->reg(r->rail[0], buf, len, mr, rkey, raddr);
}

static int rails_reg_device(struct uccl_nic *nic, void *buf, uint64_t len, const struct uccl_nic_device *device,
			    void **mr, uint64_t *rkey, uint64_t *raddr)
{
	struct rails *r = rails_of(nic);

	if (!r->rail[0]->ops->reg_device)
		return -FI_EOPNOTSUPP;
	return r->rail[0]->ops->reg_device(r->rail[0], buf, len, device, mr, rkey, raddr);
}

static void rails_dereg(struct uccl_nic *nic, void *mr, bool settled)
{
	struct rails *r = rails_of(nic);

	r->rail[0]->ops->dereg(r->rail[0], mr, settled);
}

static void source_put(struct rails *r, struct rails_source *s)
{
	for (int i = 0; i < r->n; i++)
		if (s->of[i])
			r->rail[i]->ops->source_put(r->rail[i], s->of[i]);
	free(s);
}

/* What is sent may go by any of them. PROTOCOL R221 */
static int rails_source(struct uccl_nic *nic, const void *buf, uint64_t len, const struct uccl_nic_device *device,
			void **out)
{
	struct rails *r = rails_of(nic);
	struct rails_source *s = calloc(1, sizeof(*s));
	int rc = s ? 0 : -FI_ENOMEM;

	for (int i = 0; i < r->n && !rc; i++) {
		struct uccl_nic *one = r->rail[i];

		rc = one->ops->source ? one->ops->source(one, buf, len, device, &s->of[i]) : -FI_EOPNOTSUPP;
		if (rc) {
			s->of[i] = NULL;
			source_put(r, s);
		}
	}
	if (!rc)
		*out = s;
	return rc;
}

static void rails_source_stop(struct uccl_nic *nic, void *source)
{
	const struct rails *r = rails_of(nic);

	for (int i = 0; i < r->n; i++) {
		void *of = ((struct rails_source *)source)->of[i];

		if (of)
			r->rail[i]->ops->source_stop(r->rail[i], of);
	}
}

static void rails_source_put(struct uccl_nic *nic, void *source)
{
	source_put(rails_of(nic), source);
}

/* All that a peer may send could come by one rail. */
static uint32_t rails_slots(struct uccl_nic *nic, uint32_t bytes)
{
	struct rails *r = rails_of(nic);
	uint32_t least = UINT32_MAX;

	for (int i = 0; i < r->n; i++)
		least = (uint32_t)uccl_min(least, r->rail[i]->ops->slots(r->rail[i], bytes));
	return least;
}

/* Sums: a rail sets those that it keeps. */
static void rails_count(struct uccl_nic *nic, struct uccl_stats *s)
{
	struct rails *r = rails_of(nic);

	r->rail[0]->ops->count(r->rail[0], s);
	for (int i = 1; i < r->n; i++) {
		struct uccl_stats one = {0};

		r->rail[i]->ops->count(r->rail[i], &one);
#define X(counter) s->counter += one.counter;
		UCCL_COUNTERS(X)
#undef X
	}
}

static uint64_t rails_backlog(struct uccl_nic *nic)
{
	struct rails *r = rails_of(nic);
	uint64_t sum = 0;

	for (int i = 0; i < r->n; i++)
		sum += r->rail[i]->ops->backlog(r->rail[i]);
	return sum;
}

static void rails_addr(struct uccl_nic *nic, struct uccl_nic_addr *out)
{
	struct rails *r = rails_of(nic);
	struct uccl_nic_addr second;

	r->rail[0]->ops->addr(r->rail[0], out);
	if (r->writes)
		return;
	/* PROTOCOL R379 */
	r->rail[1]->ops->addr(r->rail[1], &second);
	uccl_nic_addr_tell(out, &second);
}

static void rails_close(struct uccl_nic *nic)
{
	struct rails *r = rails_of(nic);

	while (r->peers)
		rails_disconnect(nic, (struct uccl_nic_peer *)r->peers);
	if (r->wait_fd >= 0)
		close(r->wait_fd);
	for (int i = 0; i < r->n; i++)
		r->rail[i]->ops->close(r->rail[i]);
	free(r);
}

/* Of all rails. */
#define RAILS_OPS                                                                                                      \
	.tx = rails_tx, .rx = rails_rx, .slots = rails_slots, .connect = rails_connect,                                \
	.disconnect = rails_disconnect, .offer = rails_offer, .accept = rails_accept, .count = rails_count,            \
	.wait_fd = rails_wait_fd, .expiry = rails_expiry, .addr = rails_addr, .close = rails_close

/* Of NICs with direct writes; */
static const struct uccl_nic_ops write_ops = {
	RAILS_OPS,
	.fence = rails_fence,
	.stop_writes = rails_stop_writes,
	.reg = rails_reg,
	.reg_device = rails_reg_device,
	.dereg = rails_dereg,
	.source = rails_source,
	.source_put = rails_source_put,
	.source_stop = rails_source_stop,
	.prepare = rails_prepare,
	.finish = rails_finish,
	.renew = rails_renew,
	.backlog = rails_backlog,
};

/* and of sockets. */
static const struct uccl_nic_ops packet_ops = {
	RAILS_OPS,
	.path_mtu = rails_path_mtu,
	.alive = rails_alive,
	.held = rails_held,
	.guard = rails_guard,
};

/* Does the NIC have all that is handed on to it? */
static bool fits(const struct uccl_nic *nic, bool writes)
{
	const struct uccl_nic_ops *o = nic->ops;

	if (!o->slots || !o->connect || !o->count || !o->wait_fd)
		return false;
	return writes ? o->prepare && o->backlog && o->fence && o->stop_writes && !o->path_mtu
		      : !o->prepare && o->path_mtu && o->alive && o->held && o->guard;
}

/* All that a peer may send could come by one rail. PROTOCOL R376 */
static void queue_join(struct uccl_slot_queue *all, const struct uccl_slot_queue *q)
{
	uint8_t unit = (uint8_t)uccl_max(all->unit, q->unit);

	all->units = (uint32_t)uccl_min(all->units >> (unit - all->unit), q->units >> (unit - q->unit));
	all->unit = unit;
}

static void caps_join(struct uccl_nic_caps *all, const struct uccl_nic_caps *c)
{
	all->mtu = (uint32_t)uccl_min(all->mtu, c->mtu);
	all->marks &= c->marks;
	all->write_brittle |= c->write_brittle;
	all->labels = (uint16_t)uccl_min(all->labels, c->labels);
	all->train_bytes = (uint32_t)uccl_min(all->train_bytes, c->train_bytes);
	all->rx_slots = (uint32_t)uccl_min(all->rx_slots, c->rx_slots);
	queue_join(&all->queue, &c->queue);
	all->delay_ns = uccl_max(all->delay_ns, c->delay_ns);
	all->rto_min_ns = uccl_max(all->rto_min_ns, c->rto_min_ns);
	/* A sum of which a part is not known is none. */
	all->link_bps = all->link_bps && c->link_bps ? all->link_bps + c->link_bps : 0;
	all->link_real &= c->link_real;
}

int uccl_nic_rails_open(struct uccl_nic *const *rail, int n, struct uccl_nic **nic)
{
	struct rails *r = calloc(1, sizeof(*r));
	int rc = r ? 0 : -FI_ENOMEM;

	for (int i = 0; i < n; i++)
		if (n < 2 || n > UCCL_RAILS_MAX || !fits(rail[i], rail[0]->ops->prepare != NULL))
			rc = -FI_EINVAL;
	if (rc) {
		for (int i = 0; i < n; i++)
			rail[i]->ops->close(rail[i]);
		free(r);
		return rc;
	}
	r->n = n;
	r->wait_fd = -1;
	r->writes = rail[0]->ops->prepare != NULL;
	r->ops = r->writes ? write_ops : packet_ops;
	r->ops.name = rail[0]->ops->name;
	r->nic.ops = &r->ops;
	r->nic.caps = rail[0]->caps;
	r->nic.caps.rails = (uint8_t)n;
	for (int i = 0; i < n; i++) {
		r->rail[i] = rail[i];
		if (i)
			caps_join(&r->nic.caps, &rail[i]->caps);
	}
	r->nic.caps.labels = (uint16_t)(uccl_min(r->nic.caps.labels, UINT16_MAX / n) * n);
	*nic = &r->nic;
	return 0;
}
