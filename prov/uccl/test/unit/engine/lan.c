/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "lan.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

volatile bool lan_allocates;

static void events_free(struct lan_events *q)
{
	struct lan_event *ev;

	while ((ev = TAILQ_FIRST(q))) {
		TAILQ_REMOVE(q, ev, link);
		free(ev);
	}
}

static struct lan_event *event_new(int to, uint8_t kind, const struct uccl_nic_addr *src, uint32_t len)
{
	struct lan_event *ev;

	lan_allocates = true;
	ev = calloc(1, sizeof(*ev) + len);
	lan_allocates = false;
	assert_non_null(ev);
	ev->to = to;
	ev->from = -1;
	ev->rx.kind = kind;
	ev->rx.len = len;
	ev->rx.data = ev->data;
	if (src)
		ev->rx.src = *src;
	return ev;
}

static struct uccl_nic_addr seen_at(const struct lan *l, int i)
{
	struct uccl_nic_addr at = l->node[i].nic->addr;

	if (l->nat && !i) {
		at.ip[15] = 99;
		at.port = 20000;
	}
	return at;
}

static int node_at(struct lan *l, const struct uccl_nic_addr *at)
{
	for (int i = 0; i < LAN_NODES; i++) {
		struct uccl_nic_addr there = {0};

		if (l->node[i].nic)
			there = seen_at(l, i);
		if (l->node[i].nic && uccl_nic_addr_equal(&there, at))
			return i;
	}
	return -1;
}

/* The id by which a NIC knows the peer at an address. */
static struct lan_link *link_to(struct lan_nic *n, const struct uccl_nic_addr *to)
{
	for (int i = n->nlinks - 1; i >= 0; i--)
		if (n->link[i].live && uccl_nic_addr_equal(&n->link[i].to, to))
			return &n->link[i];
	return NULL;
}

static void wire_add(struct lan *l, struct lan_event *ev)
{
	struct lan_event *twin;

	l->packets++;
	switch (l->filter ? l->filter(l, ev) : LAN_PASS) {
	case LAN_DROP:
		free(ev);
		return;
	case LAN_HOLD:
		TAILQ_INSERT_TAIL(&l->held, ev, link);
		return;
	case LAN_DOUBLE:
		lan_allocates = true;
		twin = malloc(sizeof(*ev) + ev->rx.len);
		lan_allocates = false;
		assert_non_null(twin);
		memcpy(twin, ev, sizeof(*ev) + ev->rx.len);
		twin->rx.data = twin->data;
		TAILQ_INSERT_TAIL(&l->wire, twin, link);
		break;
	default:
		break;
	}
	TAILQ_INSERT_TAIL(&l->wire, ev, link);
}

static void nic_tx_one(struct lan_nic *n, const struct uccl_tx *tx)
{
	struct lan *l = n->lan;
	int to = node_at(l, tx->to);
	bool write = tx->kind == UCCL_TX_WRITE;
	uint32_t len = write ? tx->payload_len : tx->hdr_len + tx->payload_len + tx->tail_len;
	struct uccl_nic_addr from = seen_at(l, n->node);
	struct lan_event *ev;
	uint8_t *p;

	/* To other ports than the own one a NAT lets nothing in. */
	if (l->nat && !to && tx->label)
		return;
	if (!write)
		from.port = (uint16_t)(from.port + tx->label);

	assert_true(tx->label < n->nic.caps.labels);
	n->labels |= 1u << tx->label;
	assert_true(write || len <= LAN_MTU);
	if (!n->nic.caps.tx_sync && tx->payload_len && tx->cookie != UCCL_NEVER) {
		ev = event_new(n->node, UCCL_RX_SENT, NULL, 0);
		ev->rx.cookie = tx->cookie;
		ev->rx.peer_id = link_to(n, tx->to)->id;
		TAILQ_INSERT_TAIL(&n->rxq, ev, link);
	}
	if (to < 0) {
		if (l->icmp)
			lan_icmp(l, n->node, UCCL_RX_UNREACH, tx->to, tx->hdr, tx->hdr_len);
		return;
	}
	ev = event_new(to, write ? UCCL_RX_WRITE : UCCL_RX_PACKET, &from, len);
	ev->from = n->node;
	ev->rx.imm = tx->imm;
	ev->rx.path = tx->path;
	ev->rx.marked = tx->ect;
	ev->rkey = tx->rkey;
	ev->raddr = tx->raddr;
	p = ev->data;
	if (!write) {
		memcpy(p, tx->hdr, tx->hdr_len);
		ev->type = tx->hdr[3];
		ev->rtype = tx->hdr[5];
		p += tx->hdr_len;
	}
	if (tx->payload_len)
		memcpy(p, tx->payload, tx->payload_len);
	if (!write && tx->tail_len)
		memcpy(p + tx->payload_len, tx->tail, tx->tail_len);
	wire_add(l, ev);
}

static int nic_tx(struct uccl_nic *nic, struct uccl_tx *v, int n)
{
	struct lan_nic *ln = (struct lan_nic *)nic;
	struct uccl_train_walk walk = {0};
	int i;

	assert_true(n > 0);
	ln->txs++;
	if (ln->tx_error)
		return ln->tx_error;
	for (i = 0; i < n && ln->room; i++) {
		if (ln->room > 0)
			ln->room--;
		if (uccl_train_hit(&walk, v, n, i, nic->caps.train_bytes, ln->lan->node[ln->node].train_fault))
			ln->train_drops++;
		else
			nic_tx_one(ln, &v[i]);
	}
	return i;
}

/* As a kernel does (GRO): what follows from there and is no longer goes up with it. A shorter one is the last. */
static struct lan_event *together(struct lan_nic *ln, struct lan_event *first)
{
	struct lan_event *all = event_new(first->to, UCCL_RX_PACKET, &first->rx.src, UCCL_GRO_BYTES_MAX), *ev = first;
	uint32_t each = first->rx.len, len = 0;

	do {
		memcpy(all->data + len, ev->data, ev->rx.len);
		len += ev->rx.len;
		if (ev != first) {
			TAILQ_REMOVE(&ln->rxq, ev, link);
			TAILQ_INSERT_TAIL(&ln->given, ev, link);
		}
		if (ev->rx.len < each)
			break;
		ev = TAILQ_FIRST(&ln->rxq);
	} while (ev && ev->rx.kind == UCCL_RX_PACKET && ev->rx.len && ev->rx.len <= each &&
		 len + ev->rx.len <= UCCL_GRO_BYTES_MAX && uccl_nic_addr_equal(&ev->rx.src, &first->rx.src));
	all->arrived = first->arrived;
	all->rx.marked = first->rx.marked;
	all->rx.len = len;
	all->rx.each = len > each ? each : 0;
	return all;
}

/* Where a row of packets of that length was predicted as many of them lie as there is room for, and nowhere else. */
static void scatter_row(struct lan_event *ev, const struct uccl_rx_placement *h)
{
	uint32_t len = (uint32_t)uccl_min(ev->rx.len, h->len);

	memcpy(h->dst, ev->data, len);
	if (ev->rx.each != h->each)
		return;
	uccl_rx_run_at(&ev->rx, h->dst, len);
	memset(ev->data, 0xdd, len);
}

/* As recvmmsg does it: 64 bytes to the NIC, then to the hinted place what fits, then to the NIC again. */
static void scatter(struct lan_event *ev, const struct uccl_rx_placement *h)
{
	uint32_t n = ev->rx.len > UCCL_HDR_LEN ? ev->rx.len - UCCL_HDR_LEN : 0;

	ev->rx.split = true;
	ev->rx.body = h->dst;
	ev->rx.body_len = (uint32_t)uccl_min(n, h->len);
	ev->rx.rest_len = n - ev->rx.body_len;
	ev->rx.rest = ev->data + UCCL_HDR_LEN + ev->rx.body_len;
	memcpy(ev->rx.body, ev->data + UCCL_HDR_LEN, ev->rx.body_len);
	/* Nobody may look for it here. */
	memset(ev->data + UCCL_HDR_LEN, 0xdd, ev->rx.body_len);
}

static int nic_rx(struct uccl_nic *nic, struct uccl_rx *v, int n, const struct uccl_rx_placement *hints, int nhints)
{
	struct lan_nic *ln = (struct lan_nic *)nic;
	struct lan_event *ev;
	int i = 0;

	ln->rxs++;
	events_free(&ln->given);
	while (i < n && (ev = TAILQ_FIRST(&ln->rxq))) {
		TAILQ_REMOVE(&ln->rxq, ev, link);
		TAILQ_INSERT_TAIL(&ln->given, ev, link);
		if (ln->lan->together && ev->rx.kind == UCCL_RX_PACKET) {
			ev = together(ln, ev);
			TAILQ_INSERT_TAIL(&ln->given, ev, link);
		}
		if (ev->rx.kind == UCCL_RX_PACKET && i < nhints && hints[i].each)
			scatter_row(ev, &hints[i]);
		else if (ev->rx.kind == UCCL_RX_PACKET && i < nhints && ev->rx.len >= UCCL_HDR_LEN)
			scatter(ev, &hints[i]);
		v[i] = ev->rx;
		/* As the kernel's time stamps of packets have it; what a test put in by hand came just now. */
		v[i++].age_ns = ev->arrived ? ln->lan->now - ev->arrived : 0;
	}
	return i;
}

static int nic_connect(struct uccl_nic *nic, const struct uccl_nic_addr *to, uint64_t id, uint16_t paths,
		       struct uccl_nic_peer **peer)
{
	struct lan_nic *n = (struct lan_nic *)nic;

	assert_true(paths > 0);
	if (n->connect_error)
		return n->connect_error;
	if (node_at(n->lan, to) < 0)
		return 0; /* a stranger: see lan_attacker */
	assert_true(n->nlinks < 64);
	n->link[n->nlinks] = (struct lan_link){.to = *to, .id = id, .live = true};
	*peer = (struct uccl_nic_peer *)&n->link[n->nlinks++];
	return 0;
}

static void nic_disconnect(struct uccl_nic *nic, struct uccl_nic_peer *peer)
{
	struct lan_link *k = (struct lan_link *)peer;

	(void)nic;
	assert_true(k->live);
	k->live = false;
}

static bool nic_alive(struct uccl_nic *nic, struct uccl_nic_peer *peer)
{
	(void)nic;
	return ((struct lan_link *)peer)->held;
}

static bool nic_held(struct uccl_nic *nic, struct uccl_nic_peer *peer)
{
	(void)nic;
	return ((struct lan_link *)peer)->mute;
}

static int nic_fence(struct uccl_nic *nic, struct uccl_nic_peer *peer, uint16_t path)
{
	struct lan_nic *n = (struct lan_nic *)nic;
	struct lan_event *ev = event_new(n->node, UCCL_RX_FENCED, NULL, 0);

	ev->rx.path = path;
	ev->rx.peer_id = ((struct lan_link *)peer)->id;
	TAILQ_INSERT_TAIL(&n->rxq, ev, link);
	n->nfences++;
	return 0;
}

static int nic_reg(struct uccl_nic *nic, void *buf, uint64_t len, void **mr, uint64_t *rkey, uint64_t *raddr)
{
	struct lan_nic *n = (struct lan_nic *)nic;

	if (n->nmrs == 64)
		return -FI_ENOMEM;
	n->mr[n->nmrs] = (struct lan_mr){.buf = buf, .len = len, .live = true};
	*mr = &n->mr[n->nmrs++];
	*rkey = (uint64_t)n->nmrs;
	*raddr = (uintptr_t)buf;
	return 0;
}

static void nic_dereg(struct uccl_nic *nic, void *mr, bool settled)
{
	(void)nic;
	(void)settled;
	assert_true(((struct lan_mr *)mr)->live);
	((struct lan_mr *)mr)->live = false;
}

static void nic_addr(struct uccl_nic *nic, struct uccl_nic_addr *out)
{
	*out = ((struct lan_nic *)nic)->addr;
}

static int nic_wait_fd(struct uccl_nic *nic)
{
	return 100 + ((struct lan_nic *)nic)->node;
}

static void nic_close(struct uccl_nic *nic)
{
	struct lan_nic *n = (struct lan_nic *)nic;

	for (int i = 0; i < n->nmrs; i++)
		assert_false(n->mr[i].live);
	for (int i = 0; i < n->nlinks; i++)
		assert_false(n->link[i].live);
	events_free(&n->rxq);
	events_free(&n->given);
	n->lan->node[n->node].nic = NULL;
	free(n);
}

static bool nic_same_host(struct uccl_nic *nic, const struct uccl_nic_addr *to)
{
	(void)to;
	return ((struct lan_nic *)nic)->lan->one_host;
}

static const struct uccl_nic_ops packet_ops = {
	.name = "lan",
	.tx = nic_tx,
	.rx = nic_rx,
	.connect = nic_connect,
	.disconnect = nic_disconnect,
	.alive = nic_alive,
	.held = nic_held,
	.same_host = nic_same_host,
	.addr = nic_addr,
	.close = nic_close,
};

static const struct uccl_nic_ops write_ops = {
	.name = "lan-write",
	.tx = nic_tx,
	.rx = nic_rx,
	.connect = nic_connect,
	.disconnect = nic_disconnect,
	.fence = nic_fence,
	.reg = nic_reg,
	.dereg = nic_dereg,
	.wait_fd = nic_wait_fd,
	.addr = nic_addr,
	.close = nic_close,
};

static void lan_random(void *arg, void *buf, size_t len)
{
	uint8_t *p = buf;

	while (len--)
		*p++ = (uint8_t)uccl_rng_next(arg);
}

struct lan *lan_new(void)
{
	struct lan *l = calloc(1, sizeof(*l));

	assert_non_null(l);
	l->now = 1000000;
	uccl_rng_seed(&l->rng, 7);
	TAILQ_INIT(&l->wire);
	TAILQ_INIT(&l->held);
	for (int i = 0; i < LAN_NODES; i++) {
		l->node[i].lan = l;
		uccl_config_default(&l->node[i].cfg);
		l->node[i].cfg.paths = 4;
		l->node[i].cfg.cc = "none";
		l->node[i].cfg.path = "rr";
		l->node[i].cfg.credit = "none";
	}
	return l;
}

/* A NIC of node i that nobody has opened yet. */
static struct lan_nic *nic_new(struct lan *l, int i)
{
	struct lan_nic *n;

	lan_allocates = true;
	n = calloc(1, sizeof(*n));
	lan_allocates = false;
	assert_non_null(n);
	n->nic.ops = l->writes ? &write_ops : &packet_ops;
	n->nic.caps = (struct uccl_nic_caps){
		.mtu = LAN_MTU,
		.write_max = l->writes ? 8192 : 0,
		.write_brittle = l->brittle,
		.labels = 8,
		.tx_sync = !l->writes,
		.find_mtu = l->find_mtu,
		.two_way = l->two_way,
		.marks = l->marks,
		.placements = l->hints,
		.rx_slots = 1000,
		.delay_ns = 10000,
		.rto_min_ns = UCCL_NS_PER_MS,
	};
	n->lan = l;
	n->node = i;
	n->room = -1;
	n->addr.ip[10] = n->addr.ip[11] = 0xff;
	n->addr.ip[12] = 10;
	n->addr.ip[15] = (uint8_t)(i + 1);
	n->addr.port = (uint16_t)(4000 + i);
	n->nic.caps.link_bps = l->node[i].link_bps;
	n->nic.caps.train_bytes = l->node[i].train_bytes;
	TAILQ_INIT(&n->rxq);
	TAILQ_INIT(&n->given);
	l->node[i].nic = n;
	return n;
}

static uint32_t lan_sharers(void *arg, uint64_t now)
{
	const struct lan_node *node = arg;

	(void)now;
	return node->sharers;
}

int lan_try_open(struct lan *l, int i)
{
	struct lan_nic *n = nic_new(l, i);
	struct uccl_engine_attr attr = {.nic = &n->nic,
					.config = &l->node[i].cfg,
					.random = lan_random,
					.random_arg = &l->rng,
					.target = l->node[i].target,
					.lane_channel = l->node[i].lane_channel,
					.lane_number = l->node[i].lane_number,
					.identity = l->node[i].identity,
					.sharers = l->node[i].sharers ? lan_sharers : NULL,
					.sharers_arg = &l->node[i],
					.may_gather = l->node[i].may_gather,
					.interface = "eth-lan"};

	return uccl_engine_open(&attr, l->now, &l->node[i].e);
}

void lan_open(struct lan *l, int i)
{
	assert_int_equal(lan_try_open(l, i), 0);
}

static struct lan *lan_new_nodes(int nodes, bool keyless)
{
	struct lan *l = lan_new();

	for (int i = 0; i < nodes; i++) {
		l->node[i].cfg.keyless = keyless;
		lan_open(l, i);
	}
	return l;
}

struct lan *lan_new_open(int nodes)
{
	return lan_new_nodes(nodes, false);
}

struct lan *lan_new_keyless(int nodes)
{
	return lan_new_nodes(nodes, true);
}

void lan_kill(struct lan *l, int i)
{
	uccl_engine_close(l->node[i].e);
	l->node[i].e = NULL;
	assert_null(l->node[i].nic);
}

struct uccl_lane_channel *lan_channel[2][LAN_LANES];

void lan_free(struct lan *l)
{
	for (int i = 0; i < LAN_NODES; i++)
		if (l->node[i].e)
			lan_kill(l, i);
	for (int side = 0; side < 2; side++)
		for (int k = 0; k < LAN_LANES; k++) {
			if (lan_channel[side][k])
				uccl_lanes_built()->channel_free(lan_channel[side][k]);
			lan_channel[side][k] = NULL;
		}
	events_free(&l->wire);
	events_free(&l->held);
	free(l);
}

int lan_teardown(void **state)
{
	lan_free(*state);
	return 0;
}

void lan_side_open(struct lan *l, int side, uint8_t lanes, bool writes)
{
	static struct uccl_addr identity[2][LAN_LANES];
	struct uccl_engine *lane[LAN_LANES];

	l->writes = writes;
	lan_open(l, LAN_PRIMARY(side));
	l->writes = false;
	for (uint8_t k = 0; k < lanes; k++) {
		struct lan_node *node = &l->node[LAN_LANE(side, k)];

		identity[side][k] = *uccl_engine_addr(l->node[LAN_PRIMARY(side)].e);
		identity[side][k].incarnation += k + 1u;
		lan_channel[side][k] = uccl_lanes_built()->channel_new(NULL, NULL, NULL);
		assert_non_null(lan_channel[side][k]);
		node->lane_channel = lan_channel[side][k];
		node->lane_number = k;
		node->identity = &identity[side][k];
		lan_open(l, LAN_LANE(side, k));
		lane[k] = node->e;
	}
	if (lanes)
		assert_int_equal(
			uccl_lanes_built()->open(l->node[LAN_PRIMARY(side)].e, lane, lan_channel[side], lanes), 0);
}

static void event_arrive(struct lan *l, struct lan_event *ev)
{
	struct lan_nic *n = l->node[ev->to].nic;

	if (!n) {
		free(ev);
		return;
	}
	if (ev->rx.kind == UCCL_RX_WRITE) {
		struct lan_link *k = link_to(n, &ev->rx.src);
		struct lan_mr *mr = ev->rkey && ev->rkey <= (uint64_t)n->nmrs ? &n->mr[ev->rkey - 1] : NULL;

		if (!k || !mr || !mr->live || ev->raddr < (uintptr_t)mr->buf ||
		    ev->raddr + ev->rx.len > (uintptr_t)mr->buf + mr->len) {
			free(ev);
			return;
		}
		memcpy((void *)(uintptr_t)ev->raddr, ev->data, ev->rx.len);
		ev->rx.peer_id = k->id;
	}
	ev->arrived = l->now;
	TAILQ_INSERT_TAIL(&n->rxq, ev, link);
}

bool lan_round(struct lan *l)
{
	struct lan_event *ev;
	bool moved = false;

	for (int i = 0; i < LAN_NODES; i++)
		if (l->node[i].e && !l->node[i].asleep)
			moved |= uccl_engine_poll(l->node[i].e, l->now) > 0;
	l->now += LAN_DELAY_NS;
	while ((ev = TAILQ_FIRST(&l->wire))) {
		TAILQ_REMOVE(&l->wire, ev, link);
		event_arrive(l, ev);
		moved = true;
	}
	return moved;
}

static uint64_t next_expiry(const struct lan *l)
{
	uint64_t at = UCCL_NEVER;

	for (int i = 0; i < LAN_NODES; i++)
		if (l->node[i].e && !l->node[i].asleep)
			at = uccl_min(at, uccl_engine_expiry(l->node[i].e));
	return at;
}

void lan_pass(struct lan *l, uint64_t ns)
{
	uint64_t end = l->now + ns;

	while (l->now < end)
		if (!lan_round(l))
			l->now = uccl_max(l->now, uccl_min(next_expiry(l), end));
}

void lan_run(struct lan *l, uint64_t ns)
{
	uint64_t end = l->now + ns;

	while (l->now < end)
		if (!lan_round(l)) {
			if (next_expiry(l) > end)
				return;
			l->now = uccl_max(l->now, next_expiry(l));
		}
}

void lan_release(struct lan *l, bool reverse)
{
	struct lan_event *ev;

	while ((ev = reverse ? TAILQ_LAST(&l->held, lan_events) : TAILQ_FIRST(&l->held))) {
		TAILQ_REMOVE(&l->held, ev, link);
		TAILQ_INSERT_TAIL(&l->wire, ev, link);
	}
}

struct uccl_peer *lan_peer(struct lan *l, int i, int j)
{
	struct uccl_peer *p = uccl_engine_peer(l->node[i].e, uccl_engine_addr(l->node[j].e), true);

	assert_non_null(p);
	return p;
}

struct uccl_peer *lan_peer_keyless(struct lan *l, int i, int j)
{
	struct uccl_addr addr = {.nic = uccl_engine_addr(l->node[j].e)->nic};
	struct uccl_peer *p = uccl_engine_peer(l->node[i].e, &addr, true);

	assert_non_null(p);
	return p;
}

struct conn *lan_conn(struct lan *l, int i, int j)
{
	return peer_conn(lan_peer(l, i, j));
}

static void node_done(struct uccl_op *op)
{
	struct lan_node *n = op->api;

	assert_true(n->ncomp < LAN_COMPS);
	n->comp[n->ncomp++] = (struct lan_comp){
		.type = op->type,
		.flags = op->flags,
		.err = op->err,
		.len = op->done_len,
		.tag = op->tag,
		.context = op->context,
		.from = op->from,
	};
	uccl_op_put(n->e, op);
}

struct uccl_op *lan_op(struct lan *l, int i, uint8_t type, uint32_t flags, const void *buf, uint64_t len)
{
	struct uccl_op *op = type == UCCL_OP_SEND   ? uccl_op_get_send(l->node[i].e)
			     : type == UCCL_OP_RECV ? uccl_op_get_recv(l->node[i].e)
						    : uccl_op_get(l->node[i].e);

	if (!op)
		return NULL;
	/* As programs fill it. */
	memset(op, 0, offsetof(struct uccl_op, err));
	op->type = type;
	op->flags = flags;
	op->iov[0] = (struct iovec){.iov_base = (void *)(uintptr_t)buf, .iov_len = len};
	op->iov_count = 1;
	op->len = len;
	op->api = &l->node[i];
	op->done = node_done;
	return op;
}

int lan_send_to(struct lan *l, int i, struct uccl_peer *p, const void *buf, uint64_t len, void *context)
{
	struct uccl_op *op = lan_op(l, i, UCCL_OP_SEND, 0, buf, len);
	int rc;

	assert_non_null(op);
	op->peer = p;
	op->context = context;
	rc = uccl_engine_send(l->node[i].e, op, l->now);
	if (rc)
		uccl_op_put(l->node[i].e, op);
	return rc;
}

int lan_send(struct lan *l, int i, int j, const void *buf, uint64_t len, void *context)
{
	return lan_send_to(l, i, lan_peer(l, i, j), buf, len, context);
}

int lan_recv_from(struct lan *l, int i, struct uccl_peer *p, void *buf, uint64_t len, void *context)
{
	struct uccl_op *op = lan_op(l, i, UCCL_OP_RECV, p ? UCCL_OPF_DIRECTED : 0, buf, len);

	assert_non_null(op);
	op->peer = p;
	op->context = context;
	return uccl_engine_recv(l->node[i].e, op, l->now);
}

int lan_recv(struct lan *l, int i, void *buf, uint64_t len, void *context)
{
	return lan_recv_from(l, i, NULL, buf, len, context);
}

const struct lan_comp *lan_next(struct lan *l, int i)
{
	struct lan_node *n = &l->node[i];

	return n->seen < n->ncomp ? &n->comp[n->seen++] : NULL;
}

void lan_expect(struct lan *l, int i, void *context, int err)
{
	const struct lan_comp *c = lan_next(l, i);

	assert_non_null(c);
	assert_ptr_equal(c->context, context);
	assert_int_equal(c->err, err);
}

int lan_waiting(const struct lan *l, int i)
{
	return l->node[i].ncomp - l->node[i].seen;
}

void lan_inject_from(struct lan *l, int i, const struct uccl_nic_addr *src, const void *data, uint32_t len)
{
	struct lan_event *ev = event_new(i, UCCL_RX_PACKET, src, len);

	memcpy(ev->data, data, len);
	TAILQ_INSERT_TAIL(&l->node[i].nic->rxq, ev, link);
}

void lan_inject(struct lan *l, int i, int j, const void *data, uint32_t len)
{
	lan_inject_from(l, i, &uccl_engine_addr(l->node[j].e)->nic, data, len);
}

struct conn *lan_attacker(struct lan *l, int i, const struct uccl_addr *who, bool keyless)
{
	struct uccl_engine *e = l->node[i].e;
	struct uccl_addr remote = e->identity.listener.local;
	struct uccl_conn_params mine = {
		.mtu = LAN_MTU, .window = 64, .msg_limit = 1, .paths = 1, .slots = 2, .csn = 1
	};
	struct uccl_listener self = { .local = *who };
	uint8_t reply[UCCL_HDR_LEN], packet[UCCL_HDR_LEN + UCCL_INIT_MAX];
	struct uccl_nic_addr to;
	struct uccl_conn hs;
	struct uccl_hdr h;
	struct uccl_tx tx;

	mine.waits = !l->older;
	if (keyless)
		memset(remote.key, 0, sizeof(remote.key));
	uccl_conn_init(&hs, &remote, &mine, who->incarnation ^ 1, 5);
	uccl_conn_start(&hs, l->now);
	assert_int_equal(uccl_conn_tx(&hs, &self, &tx, packet, l->now), 1);
	assert_int_equal(uccl_hdr_decode(&h, tx.hdr, UCCL_HDR_LEN), UCCL_DROP_COUNT);
	assert_int_equal(uccl_listener_hello(&e->identity.listener, &h, &who->nic, reply, &to, l->now),
			 UCCL_DROP_COUNT);
	assert_int_equal(uccl_hdr_decode(&h, reply, UCCL_HDR_LEN), UCCL_DROP_COUNT);
	assert_int_equal(uccl_conn_cookie(&hs, &h, l->now), UCCL_DROP_COUNT);
	assert_int_equal(uccl_conn_tx(&hs, &self, &tx, packet + UCCL_HDR_LEN, l->now), 1);
	memcpy(packet, tx.hdr, UCCL_HDR_LEN);
	lan_inject_from(l, i, &who->nic, packet, UCCL_HDR_LEN + tx.payload_len);
	uccl_engine_poll(e, l->now);
	return conn_find(e, &who->nic, who->incarnation);
}

void lan_inject_write(struct lan *l, int i, int j, uint32_t imm, uint32_t len, uint16_t path)
{
	const struct lan_link *k = link_to(l->node[i].nic, &l->node[j].nic->addr);
	struct lan_event *ev = event_new(i, UCCL_RX_WRITE, &l->node[j].nic->addr, 0);

	assert_non_null(k);
	ev->rx.len = len;
	ev->rx.imm = imm;
	ev->rx.path = path;
	ev->rx.peer_id = k->id;
	TAILQ_INSERT_TAIL(&l->node[i].nic->rxq, ev, link);
}

void lan_event(struct lan *l, int i, uint8_t kind, const struct uccl_nic_addr *src)
{
	struct lan_event *ev = event_new(i, kind, src, 0);

	TAILQ_INSERT_TAIL(&l->node[i].nic->rxq, ev, link);
}

void lan_icmp(struct lan *l, int i, uint8_t kind, const struct uccl_nic_addr *to, const void *quote, uint32_t len)
{
	struct lan_event *ev = event_new(i, kind, to, len);

	memcpy(ev->data, quote, len);
	TAILQ_INSERT_TAIL(&l->node[i].nic->rxq, ev, link);
}

void lan_header_last(struct lan *l, int i, int j, uint8_t hdr[UCCL_HDR_LEN])
{
	const struct conn *c = lan_conn(l, i, j);
	struct uccl_hdr h = {.type = UCCL_PKT_PROBE, .token = c->hs.token_remote};

	h.pseq = c->peer.flow.paths.list[0].next_seq - 1;
	uccl_hdr_encode(hdr, &h);
}

void lan_icmp_last(struct lan *l, int i, int j, uint8_t kind)
{
	uint8_t hdr[UCCL_HDR_LEN];

	lan_header_last(l, i, j, hdr);
	lan_icmp(l, i, kind, &l->node[j].nic->addr, hdr, sizeof(hdr));
}

void lan_too_long(struct lan *l, int i, int j, const uint8_t hdr[UCCL_HDR_LEN], uint32_t bytes)
{
	struct lan_event *ev = event_new(i, UCCL_RX_TOO_LONG, &l->node[j].nic->addr, UCCL_HDR_LEN);

	memcpy(ev->data, hdr, UCCL_HDR_LEN);
	ev->rx.imm = bytes;
	TAILQ_INSERT_TAIL(&l->node[i].nic->rxq, ev, link);
}

void lan_hold(struct lan *l, int i, int j, bool held)
{
	struct lan_link *k = link_to(l->node[i].nic, &l->node[j].nic->addr);

	assert_non_null(k);
	k->held = held;
}

uint8_t lan_region[2u << 20];

static int target_resolve(void *arg, const struct uccl_nic_addr *from, const struct uccl_seg *seg, uint32_t access,
			  struct iovec *iov, void **region)
{
	(void)arg;
	(void)from;
	(void)access;
	if (seg->key != 1)
		return -UCCL_REFUSED_KEY;
	if (seg->addr > sizeof(lan_region) || seg->len > sizeof(lan_region) - seg->addr)
		return -UCCL_REFUSED_RANGE;
	iov[0] = (struct iovec){ .iov_base = lan_region + seg->addr, .iov_len = seg->len };
	*region = lan_region;
	return 1;
}

static void target_lock(void *arg)
{
	(void)arg;
}

static void target_event(void *arg, const struct uccl_rma_event *ev)
{
	(void)arg;
	(void)ev;
}

const struct uccl_target_ops lan_target = {
	.resolve = target_resolve, .lock = target_lock, .unlock = target_lock, .event = target_event
};

const struct uccl_stats *lan_stats(const struct lan *l, int i)
{
	return uccl_engine_stats(l->node[i].e);
}

void lan_fill(uint8_t *buf, uint64_t len, uint32_t seed)
{
	struct uccl_rng r;

	uccl_rng_seed(&r, seed);
	for (uint64_t i = 0; i < len; i++)
		buf[i] = (uint8_t)uccl_rng_next(&r);
}

void lan_check(const uint8_t *buf, uint64_t len, uint32_t seed)
{
	struct uccl_rng r;

	uccl_rng_seed(&r, seed);
	for (uint64_t i = 0; i < len; i++)
		if (buf[i] != (uint8_t)uccl_rng_next(&r))
			fail_msg("byte %llu of %llu is wrong", (unsigned long long)i, (unsigned long long)len);
}

double lan_cpu_s(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

uint64_t lan_dropped(const struct lan *l, int i, enum uccl_drop reason)
{
	return lan_stats(l, i)->dropped[reason];
}

void lan_talk(struct lan *l)
{
	static uint8_t src[100], dst[100];

	lan_recv(l, 1, dst, sizeof(dst), LAN_CTX(101));
	assert_int_equal(lan_send(l, 0, 1, src, sizeof(src), LAN_CTX(100)), 0);
	lan_run(l, 100 * UCCL_NS_PER_MS);
	lan_expect(l, 0, LAN_CTX(100), 0);
	lan_expect(l, 1, LAN_CTX(101), 0);
}

enum lan_verdict lan_lossy(struct lan *l, const struct lan_event *ev)
{
	(void)ev;
	return ++l->n % 13 == 0 ? LAN_DROP : l->n % 17 == 0 ? LAN_DOUBLE : LAN_PASS;
}
