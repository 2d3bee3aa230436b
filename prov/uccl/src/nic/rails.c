/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Several NICs as one: packets go over all of them, and when one has no link over those that have. The first of them
 * is where peers know the endpoint; where it is on the others, connected sides tell each other. Direct writes go over
 * that one, as registrations belong to a NIC.
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
#define RAILS_MAX 3 /* what one record has room for, and the first */
/* A record of places, for each rail but the first: kind (1), rail (1), port (2), scope (4), pad (2), 0 (6), ip (16). */
#define PLACE_KIND 128
#define PLACE_LEN 32

_Static_assert((RAILS_MAX - 1) * PLACE_LEN <= UCCL_NIC_RECORD, "all places in one record");

struct rails_peer {
	struct uccl_nic_peer *inner;	      /* of the first rail */
	struct uccl_nic_addr place[RAILS_MAX]; /* as rails are numbered; */
	bool known[RAILS_MAX];		      /* false: not sent yet, or refused */
	bool sent, received;
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
	void *of[RAILS_MAX];
};

struct rails {
	struct uccl_nic nic;
	struct uccl_nic_ops ops;
	int n;
	struct uccl_nic *rail[RAILS_MAX]; /* the first is the one that peers know */
	enum uccl_link link[RAILS_MAX], reported;
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
	return r->link[i] == UCCL_LINK_UP && (!i || (peer && peer->known[i]));
}

/* The rail of a packet: its label's, or else any that can be used; the first if there is none. */
static int rail_of(const struct rails *r, const struct uccl_tx *t)
{
	const struct rails_peer *peer = (const struct rails_peer *)t->peer;

	if (t->kind == UCCL_TX_WRITE)
		return 0;
	for (int i = 0; i < r->n; i++)
		if (usable(r, peer, (t->label + i) % r->n))
			return (t->label + i) % r->n;
	return 0;
}

/* Entries v[0..n) are of one rail: as it knows them. What it does not take is as it was. */
static int rail_tx(struct rails *r, int rail, struct uccl_tx *v, int n)
{
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
		if (rail)
			v[i].to = &p->place[rail];
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
		if (rail)
			HASH_FIND(hh, r->aliases, v->src.ip, sizeof(v->src.ip), alias);
		if (alias)
			memcpy(v->src.ip, alias->first, sizeof(alias->first));
		return true;
	case UCCL_RX_UNREACH:
	case UCCL_RX_TOO_LONG:
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
	int i, total = 0;

	(void)places;
	(void)nplaces;
	r->turn++;
	for (i = 0; i < r->n && total < n; i++) {
		int rail = (r->turn + i) % r->n;

		struct uccl_rx *in = v + total;
		int got = r->rail[rail]->ops->rx(r->rail[rail], in, n - total, NULL, 0);

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

/* Peers. */

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
	rc = r->rail[0]->ops->connect(r->rail[0], to, id, paths, &p->inner);
	if (rc) {
		free(p);
		return rc;
	}
	HASH_ADD(hh, r->peers, id, sizeof(p->id), p);
	if (!p->hh.tbl) {
		r->rail[0]->ops->disconnect(r->rail[0], p->inner);
		free(p);
		return -FI_ENOMEM;
	}
	*out = (struct uccl_nic_peer *)p;
	return 0;
}

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

static void rails_disconnect(struct uccl_nic *nic, struct uccl_nic_peer *peer)
{
	struct rails_peer *p = (struct rails_peer *)peer;
	struct rails *r = rails_of(nic);

	for (int i = 1; i < r->n; i++)
		if (p->known[i])
			alias_put(r, alias_find(r, &p->place[i]));
	r->rail[0]->ops->disconnect(r->rail[0], p->inner);
	HASH_DEL(r->peers, p);
	free(p);
}

/* What the two sides say: where we are on the other rails, and then what the first one has to say. */

static uint32_t rails_offer(struct uccl_nic *nic, struct uccl_nic_peer *peer, uint8_t *buf, uint32_t n)
{
	struct rails_peer *p = (struct rails_peer *)peer;
	struct rails *r = rails_of(nic);
	struct uccl_nic_addr a;
	uint32_t len = 0;

	if (p->sent)
		return r->rail[0]->ops->offer(r->rail[0], p->inner, buf, n);
	for (int i = 1; i < r->n; i++, len += PLACE_LEN) {
		r->rail[i]->ops->addr(r->rail[i], &a);
		memset(buf + len, 0, PLACE_LEN);
		buf[len] = PLACE_KIND;
		buf[len + 1] = (uint8_t)i;
		uccl_put16(buf + len + 2, a.port);
		uccl_put32(buf + len + 4, a.scope);
		uccl_put16(buf + len + 8, a.pad);
		memcpy(buf + len + 16, a.ip, sizeof(a.ip));
	}
	p->sent = true;
	return len;
}

static bool places_valid(const struct rails_peer *p, const uint8_t *buf, uint32_t len)
{
	static const uint8_t zero[16];

	if (p->received || len % PLACE_LEN || len > (RAILS_MAX - 1) * PLACE_LEN)
		return false;
	for (uint32_t at = 0; at < len; at += PLACE_LEN)
		if (buf[at] != PLACE_KIND || buf[at + 1] != at / PLACE_LEN + 1 || !uccl_get16(buf + at + 2) ||
		    !uccl_get32(buf + at + 4) || !uccl_get16(buf + at + 8) || memcmp(buf + at + 10, zero, 6) ||
		    !memcmp(buf + at + 16, zero, 16))
			return false;
	return true;
}

static void places_take(struct rails *r, struct rails_peer *p, const uint8_t *buf, uint32_t len)
{
	p->received = true;
	for (uint32_t at = 0; at < len; at += PLACE_LEN) {
		int i = buf[at + 1];

		if (i >= r->n)
			break;
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

	if (!len || buf[0] != PLACE_KIND)
		return r->rail[0]->ops->accept(r->rail[0], p->inner, buf, len);
	if (!places_valid(p, buf, len))
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

static void rails_count(struct uccl_nic *nic, struct uccl_stats *s)
{
	struct rails *r = rails_of(nic);

	r->rail[0]->ops->count(r->rail[0], s);
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

	r->rail[0]->ops->addr(r->rail[0], out);
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

static const struct uccl_nic_ops rails_ops = {
	.tx = rails_tx,
	.rx = rails_rx,
	.slots = rails_slots,
	.connect = rails_connect,
	.disconnect = rails_disconnect,
	.fence = rails_fence,
	.reg = rails_reg,
	.reg_device = rails_reg_device,
	.dereg = rails_dereg,
	.source = rails_source,
	.source_put = rails_source_put,
	.prepare = rails_prepare,
	.finish = rails_finish,
	.offer = rails_offer,
	.accept = rails_accept,
	.renew = rails_renew,
	.backlog = rails_backlog,
	.count = rails_count,
	.wait_fd = rails_wait_fd,
	.addr = rails_addr,
	.close = rails_close,
};

/* Does the NIC have all that is handed on to it? Those of direct writes do. */
static bool fits(const struct uccl_nic *nic)
{
	return nic->ops->slots && nic->ops->connect && nic->ops->prepare && nic->ops->backlog && nic->ops->count &&
	       nic->ops->wait_fd && nic->ops->fence && !nic->ops->path_mtu;
}

int uccl_nic_rails_open(struct uccl_nic *const *rail, int n, struct uccl_nic **nic)
{
	struct rails *r = calloc(1, sizeof(*r));
	int rc = r ? 0 : -FI_ENOMEM;

	for (int i = 0; i < n; i++)
		if (n < 2 || n > RAILS_MAX || !fits(rail[i]))
			rc = -FI_EINVAL;
	if (rc) {
		for (int i = 0; i < n; i++)
			rail[i]->ops->close(rail[i]);
		free(r);
		return rc;
	}
	r->n = n;
	r->wait_fd = -1;
	r->ops = rails_ops;
	r->ops.name = rail[0]->ops->name;
	r->nic.ops = &r->ops;
	r->nic.caps = rail[0]->caps;
	for (int i = 0; i < n; i++) {
		const struct uccl_nic_caps *c = &rail[i]->caps;

		r->rail[i] = rail[i];
		r->nic.caps.mtu = (uint32_t)uccl_min(r->nic.caps.mtu, c->mtu);
		r->nic.caps.marks &= c->marks;
		r->nic.caps.write_brittle |= c->write_brittle;
		r->nic.caps.labels = (uint16_t)uccl_min(r->nic.caps.labels, c->labels);
		r->nic.caps.rx_slots = (uint32_t)uccl_min(r->nic.caps.rx_slots, c->rx_slots);
		r->nic.caps.delay_ns = uccl_max(r->nic.caps.delay_ns, c->delay_ns);
		r->nic.caps.rto_min_ns = uccl_max(r->nic.caps.rto_min_ns, c->rto_min_ns);
		r->nic.caps.link_bps += i ? c->link_bps : 0;
	}
	r->nic.caps.labels = (uint16_t)uccl_min(r->nic.caps.labels * n, UINT16_MAX);
	*nic = &r->nic;
	return 0;
}
