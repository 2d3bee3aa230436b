/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Receiving: packets and events of the NIC find their connection. */
#include <rdma/fi_errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/units.h"
#include "engine/impl.h"

/* Packets of one poll, so that sending is never far. What is refused is cheap and may be more: peers are behind it. */
#define RX_TAKEN (8 * RX_BATCH)
#define RX_MOST (64 * RX_BATCH)

int engine_rx_open(struct engine_rx *r, const struct uccl_engine_attr *attr)
{
	const struct uccl_nic_caps *caps = &attr->nic->caps;

	/* What is scattered cannot be proven before it is placed. */
	if (!caps->placements || attr->config->security)
		return 0;
	r->bounce = malloc(uccl_max((size_t)RX_BATCH * caps->mtu, UCCL_GRO_BYTES_MAX));
	return r->bounce ? 0 : -FI_ENOMEM;
}

void engine_rx_close(struct engine_rx *r)
{
	free(r->bounce);
}

static void drop(struct uccl_engine *e, enum uccl_drop reason)
{
	if (reason == UCCL_DROP_COUNT)
		return;
	e->stats.dropped[reason]++;
	e->rx.refused++;
	engine_trace(e, UCCL_TRACE_DROP, (uint8_t)reason, NULL, 0);
}

/* A packet for an open flow, and what its acknowledgement means for messages that wait. */
static inline void rx_flow(struct conn *c, const struct uccl_hdr *h, const uint8_t *payload, const uint8_t *tail,
		    uint64_t age_ns, uint64_t now)
{
	struct uccl_flow *f = &c->peer.flow;
	bool was_short = f->limits.envelopes_only;

	uccl_flow_rx(f, h, payload, tail, age_ns, now);
	if (f->limits.envelopes_only && !was_short)
		uccl_msg_hold(&c->peer);
	if (!TAILQ_EMPTY(&c->peer.tx.pending))
		uccl_msg_kick(&c->peer, now);
	engine_ready(c);
}

/* PROTOCOL R90: both sides seal, or none. */
static enum uccl_drop seal_check(struct conn *c, const struct uccl_rx *rx, const struct uccl_hdr *h)
{
	if (c->opened.seal)
		return uccl_seal_check(c->opened.seal, rx->data, rx->len);
	return h->flags & UCCL_FLAG_SEALED ? UCCL_DROP_SEAL : UCCL_DROP_COUNT;
}

/*
 * Whether a packet may stay where the NIC has put it before anybody proved it: only without seals. PROTOCOL R90. With
 * FI_UCCL_SECURITY the engine asks no NIC to place anything (`bounce`), but that is decided elsewhere.
 */
static bool may_be_placed(const struct conn *c, const struct uccl_hdr *h)
{
	return c->peer.open && !c->handshake.unvalidated && !c->opened.seal && !(h->flags & UCCL_FLAG_SEALED);
}

/* The same of a packet of `len` bytes, of which the header is there: its connection; NULL: no. */
static struct conn *placed_conn(struct uccl_engine *e, struct uccl_hdr *h, const uint8_t *head, uint32_t len)
{
	struct conn *c = uccl_hdr_decode(h, head, len) == UCCL_DROP_COUNT ? conn_by_token(e, h->token) : NULL;

	return c && may_be_placed(c, h) ? c : NULL;
}

/* The connection that a packet is for; NULL: there is none, which was counted. */
static struct conn *rx_conn(struct uccl_engine *e, const struct uccl_rx *rx, const struct uccl_hdr *h)
{
	struct conn *c = conn_by_token(e, h->token);

	if (c && conn_from(c, &rx->src))
		return c;
	drop(e, c ? UCCL_DROP_SOURCE : UCCL_DROP_TOKEN);
	return NULL;
}

/* A chunk came, in a packet of `len` bytes. */
static void rx_chunk_came(struct conn *c, uint32_t len)
{
	conn_slots_came(c, len);
	c->e->rx.chunks++;
}

/*
 * The first of the packets that are left of what came as one, `left` bytes, and what else can be taken in with it.
 * Returns the bytes of that.
 */
static uint32_t rx_packet(struct uccl_engine *e, const struct uccl_rx *rx, uint32_t left, uint64_t now)
{
	enum uccl_drop reason;
	const uint8_t *payload = rx->data + UCCL_HDR_LEN;
	struct uccl_hdr h;
	struct conn *c;
	uint32_t row;

	reason = uccl_hdr_decode(&h, rx->data, rx->len);
	if (reason != UCCL_DROP_COUNT) {
		drop(e, reason);
		return rx->len;
	}
	h.marked = rx->marked;
	if (h.type < UCCL_PKT_ACK) {
		drop(e, conn_rx(e, &h, payload, rx, now));
		return rx->len;
	}
	c = rx_conn(e, rx, &h);
	if (!c)
		return rx->len;
	reason = seal_check(c, rx, &h);
	if (reason != UCCL_DROP_COUNT) {
		drop(e, reason);
		return rx->len;
	}
	if (c->entry.half && h.type == UCCL_PKT_CLOSE)
		conn_close_seen(c, uccl_close_reason_read(h.rec), now);
	else if (c->handshake.unvalidated && h.type != UCCL_PKT_CLOSE)
		conn_validated(c, now);
	if (!c->peer.open) {
		conn_late_rx(c, &h, now);
		drop(e, UCCL_DROP_STATE);
		return rx->len;
	}
	if (h.type >= UCCL_PKT_CHUNK)
		rx_chunk_came(c, rx->len);
	row = left > rx->len ? uccl_segment_row(&h, rx->data, rx->len, left) : rx->len;
	if (row == rx->len) {
		rx_flow(c, &h, payload, payload + h.payload_len, rx->age_ns, now);
	} else {
		uccl_flow_rx_segments(&c->peer.flow, &h, rx->data, row, rx->age_ns, now);
		engine_ready(c);
	}
	return row;
}

/* What lies behind the first `at` bytes where a row was predicted, and what had no room there, as one piece. */
static void rx_run_rest(struct uccl_engine *e, struct uccl_rx *rx, uint32_t at)
{
	uint32_t n = rx->body_len - at;

	rx->data = rx->rest;
	rx->len = n + rx->rest_len;
	if (!n)
		return;
	memcpy(e->rx.bounce, rx->body + at, n);
	if (rx->rest_len)
		memcpy(e->rx.bounce + n, rx->rest, rx->rest_len);
	rx->data = e->rx.bounce;
}

/*
 * Packets that lie where the next row of segments was predicted: if the first of them are that row, that was taken in,
 * and the others are in rx->data; how many that were. If not, nothing was moved: 0.
 */
static int rx_run(struct uccl_engine *e, struct uccl_rx *rx, uint64_t now)
{
	struct uccl_hdr h;
	struct conn *c;
	uint32_t row, n;

	if (uccl_hdr_decode(&h, rx->body, rx->each) != UCCL_DROP_COUNT || rx->body_len <= rx->each)
		return 0;
	row = uccl_segment_row(&h, rx->body, rx->each, rx->body_len);
	n = (row + rx->each - 1) / rx->each;
	c = conn_by_token(e, h.token);
	if (n < 2 || !c || !may_be_placed(c, &h) || memcmp(rx->src.ip, c->peer.addr.nic.ip, sizeof(rx->src.ip)) ||
	    uccl_msg_place(&c->peer, &h, row - n * UCCL_HDR_LEN) != rx->body)
		return 0;
	h.marked = rx->marked;
	/* It will be moved to where the others are. */
	rx_run_rest(e, rx, row);
	if (!uccl_flow_rx_run(&c->peer.flow, &h, rx->body, row, rx->age_ns, now))
		return 0;
	rx_chunk_came(c, rx->each);
	engine_ready(c);
	return (int)n;
}

/* The only thing of its round. Returns how many packets of it are done; the others are in rx->data. */
static int rx_run_settle(struct uccl_engine *e, struct uccl_rx *rx, uint64_t now)
{
	int n = rx_run(e, rx, now);

	e->stats.placements++;
	e->stats.placement_hits += n > 0;
	uccl_msg_predicted(&e->msg_ep, n > 0, !n);
	rx->run = false;
	if (!n)
		rx_run_rest(e, rx, 0);
	return n;
}

/* A packet that the NIC put in its place; its tail was left in the rest. */
static void rx_placed(struct uccl_engine *e, const struct uccl_rx *rx, uint64_t now)
{
	struct uccl_hdr h;
	struct conn *c;
	enum uccl_drop reason = uccl_hdr_decode(&h, rx->data, rx->len);

	if (reason != UCCL_DROP_COUNT) {
		drop(e, reason);
		return;
	}
	h.marked = rx->marked;
	c = rx_conn(e, rx, &h);
	/* It was open when the packet was placed; an earlier one of the same poll may have ended it. */
	if (c && !c->peer.open)
		drop(e, UCCL_DROP_STATE);
	else if (c && (c->opened.seal || h.flags & UCCL_FLAG_SEALED))
		drop(e, UCCL_DROP_SEAL);
	else if (c) {
		rx_chunk_came(c, rx->len);
		rx_flow(c, &h, rx->body, rx->rest, rx->age_ns, now);
	}
}

/*
 * Nothing but payload that says where it belongs may come to memory that was lent: nothing else is made to be read by
 * the device alone. The connection that it is for. PROTOCOL R292
 */
static enum uccl_drop device_rx_check(struct uccl_engine *e, const struct uccl_rx *rx, struct uccl_hdr *h,
				      struct conn **c)
{
	enum uccl_drop reason = uccl_hdr_decode(h, rx->data, rx->len);

	*c = NULL;
	if (reason != UCCL_DROP_COUNT)
		return reason;
	if ((h->type != UCCL_PKT_CHUNK && (h->type != UCCL_PKT_SEGMENT || uccl_segment_subs(h->rec))) ||
	    h->payload_len != rx->body_len || (h->rtype != UCCL_REC_DATA && h->rtype != UCCL_REC_REPLY))
		return UCCL_DROP_RECORD;
	*c = rx_conn(e, rx, h);
	if (!*c)
		return UCCL_DROP_COUNT;
	if (!(*c)->peer.open)
		return UCCL_DROP_STATE;
	return (*c)->opened.seal ? UCCL_DROP_SEAL : engine_device_rx_may(e);
}

/* A packet whose payload is in memory that the NIC was lent. */
static void rx_device(struct uccl_engine *e, const struct uccl_rx *rx, uint64_t now)
{
	struct uccl_hdr h;
	struct conn *c;
	enum uccl_drop reason = device_rx_check(e, rx, &h, &c);
	uint64_t before = e->msg_ep.device.queued;

	drop(e, reason);
	if (reason == UCCL_DROP_COUNT && c) {
		h.on_device = true;
		rx_chunk_came(c, rx->len);
		rx_flow(c, &h, rx->body, NULL, rx->age_ns, now);
		e->stats.gathered += e->msg_ep.device.queued != before ? rx->body_len : 0;
	}
	engine_device_rx_keep(e, rx->imm, before);
}

/* One packet, or what came together. Returns how many. */
static int rx_packets(struct uccl_engine *e, struct uccl_rx *rx, uint64_t now)
{
	uint32_t left, taken;
	int n = 0;

	if (rx->split) {
		rx_placed(e, rx, now);
		return 1;
	}
	if (rx->run)
		n = rx_run_settle(e, rx, now);
	left = rx->len;
	if (n && !left)
		return n;
	do {
		rx->len = rx->each ? (uint32_t)uccl_min(rx->each, left) : left;
		taken = rx_packet(e, rx, left, now);
		n += taken > rx->len ? (int)((taken + rx->len - 1) / rx->len) : 1;
		rx->data += taken;
		left -= taken;
	} while (left);
	return n;
}

/* A packet as one piece of memory; NULL: it was dropped. `spare` holds mtu bytes. */
static const uint8_t *rx_whole(struct uccl_engine *e, struct uccl_rx *rx, uint8_t *spare)
{
	uint32_t n = rx->len;

	if (n < UCCL_HDR_LEN || n > e->nic->caps.mtu || rx->body_len + rx->rest_len + UCCL_HDR_LEN != n)
		return NULL;
	memcpy(spare, rx->data, UCCL_HDR_LEN);
	memcpy(spare + UCCL_HDR_LEN, rx->body, rx->body_len);
	if (rx->rest_len)
		memcpy(spare + UCCL_HDR_LEN + rx->body_len, rx->rest, rx->rest_len);
	return spare;
}

/*
 * Payloads that the NIC scattered by prediction. A wrong guess put a payload where another one belongs, perhaps one of
 * this same batch; so first every wrong one is moved out of the way, then the batch is processed as usual.
 */
static void rx_settle(struct uccl_engine *e, struct uccl_rx *v, int n)
{
	int right = 0, wrong = 0;

	for (int i = 0; i < n; i++) {
		struct uccl_rx *rx = &v[i];
		const uint8_t *whole;
		struct uccl_hdr h;
		struct conn *c;

		if (rx->kind != UCCL_RX_PACKET || !rx->split)
			continue;
		/* A tail behind a short payload lies where another payload of this batch may be copied: not in place.
		 */
		c = placed_conn(e, &h, rx->data, rx->len);
		if (c && h.payload_len == rx->body_len &&
		    uccl_msg_place(&c->peer, &h, h.payload_len) == rx->body) {
			right++;
			continue;
		}
		wrong++;
		whole = rx_whole(e, rx, e->rx.bounce + (size_t)i * e->nic->caps.mtu);
		rx->split = false;
		rx->data = whole ? whole : rx->data;
		rx->len = whole ? rx->len : 0;
	}
	e->stats.placements += (uint64_t)(right + wrong);
	e->stats.placement_hits += (uint64_t)right;
	uccl_msg_predicted(&e->msg_ep, right, wrong);
}

/*
 * Where a row of packets of `each` bytes may have been predicted something else came. A single packet is soon copied.
 */
static void rx_no_run(struct uccl_engine *e, const struct uccl_rx *rx, uint32_t each)
{
	uccl_msg_no_run(&e->msg_ep);
	if (!each || rx->kind != UCCL_RX_PACKET || rx->len <= each)
		return;
	e->stats.placements++;
	uccl_msg_predicted(&e->msg_ep, 0, 1);
}

/* All that is no packet in memory of the host. Returns how many packets or events that were. */
static int rx_other(struct uccl_engine *e, struct uccl_rx *rx, uint64_t now)
{
	struct conn *c;

	switch (rx->kind) {
	case UCCL_RX_DEVICE:
		rx_device(e, rx, now);
		return 1;
	case UCCL_RX_UNREACH:
	case UCCL_RX_TOO_LONG:
		drop(e, conn_icmp(e, rx, now));
		return 1;
	case UCCL_RX_GONE:
		conn_gone(e, &rx->src, now);
		return 1;
	case UCCL_RX_LINK:
		conn_link(e, (enum uccl_link)rx->imm, now);
		return 1;
	case UCCL_RX_REFUSED:
		e->rx.refused++;
		return 1;
	default:
		break;
	}
	/* Events of a connected peer: the id given to connect() is its token. */
	c = conn_by_token(e, rx->peer_id);
	if (!c || !c->peer.open)
		return 1;
	if (rx->kind == UCCL_RX_WRITE)
		uccl_flow_rx_write(&c->peer.flow, rx->imm, rx->len, rx->path, now);
	else if (rx->kind == UCCL_RX_SENT)
		uccl_flow_sent(&c->peer.flow, rx->cookie, now);
	else if (rx->kind == UCCL_RX_FENCED)
		uccl_flow_fenced(&c->peer.flow, rx->path, now);
	else if (rx->kind == UCCL_RX_WRITE_ON || rx->kind == UCCL_RX_WRITE_OFF)
		uccl_flow_set_writable(&c->peer.flow, rx->path, rx->kind == UCCL_RX_WRITE_ON, now);
	if (rx->kind != UCCL_RX_WRITE && rx->kind != UCCL_RX_SENT)
		conn_say(c);
	engine_ready(c);
	return 1;
}

/* One read of the NIC, and what is expected of it. */
struct rx_round {
	int nplaces;			/* predicted places of payloads, */
	int most;			/* so many packets are taken, */
	bool alone;			/* only one: what it asks for leaves before it is copied, or it is rx_one(), */
	bool gro_batch;			/* or those that the kernel merged, as they lie where they belong */
};

/*
 * Between two polls that follow each other so closely seldom more than one packet comes. The first one after a poll
 * that found nothing is taken alone: the program has it sooner by a read that finds nothing more.
 */
#define RX_CLOSE_NS (10 * UCCL_NS_PER_US)

static bool rx_one(const struct uccl_engine *e, uint64_t now)
{
	return e->rx.empty_ns && now - e->rx.empty_ns < RX_CLOSE_NS && e->nic->ops->rx_one;
}

/* A poll begins. Returns whether it takes one packet alone. */
static bool rx_begin(struct uccl_engine *e, uint64_t now)
{
	struct engine_rx *r = &e->rx;
	bool one = rx_one(e, now);

	r->empty_ns = 0;
	r->more = false;
	r->first_age_ns = 0;
	r->refused = 0;
	return one;
}

/*
 * May the poll take more? Batches that are received one by one, `batches` of them, are as many as if they had come
 * together, or more would be acknowledged.
 */
static bool rx_goes_on(const struct engine_rx *r, int total, int batches)
{
	return (total - r->refused < RX_TAKEN || (batches && batches < RX_BATCH)) && total < RX_MOST;
}

/* What will come, and so how much of it is taken at once? */
static void rx_predict(struct uccl_engine *e, struct rx_round *r, bool one, struct uccl_rx_placement places[RX_BATCH])
{
	*r = (struct rx_round){.most = RX_BATCH, .alone = one};
	if (e->rx.bounce && uccl_msg_foresees(&e->msg_ep)) {
		r->nplaces = uccl_msg_predict(&e->msg_ep, places, RX_BATCH);
		r->alone = !r->nplaces && uccl_msg_alone(&e->msg_ep);
		r->gro_batch = r->nplaces ? places[0].each != 0 : uccl_msg_runs(&e->msg_ep);
	}
	if (r->alone || r->gro_batch)
		r->most = 1;
}

/* Returns how many packets or events the NIC had. */
static int rx_take(struct uccl_engine *e, const struct rx_round *r, const struct uccl_rx_placement *places,
		   struct uccl_rx *v)
{
	int n = e->nic->ops->rx(e->nic, v, r->most, places, r->nplaces);

	engine_device_rx_came(&e->device_rx);
	engine_backlog(&e->out, e->nic);
	return n;
}

/* Did that come which was predicted? What did not is moved out of the way. */
static void rx_compare(struct uccl_engine *e, const struct rx_round *r, const struct uccl_rx_placement *places,
		       struct uccl_rx *v, int n)
{
	if (r->nplaces && !r->gro_batch)
		rx_settle(e, v, n);
	else if (r->gro_batch && !v[0].run)
		rx_no_run(e, &v[0], r->nplaces ? places[0].each : 0);
}

/*
 * The NIC says how long ago a packet came, so the time goes on until it was read: this thread may have lost its
 * processor since the round began, or while it read one rail after the other. A round trip would seem as much shorter.
 */
static uint64_t rx_time(struct uccl_engine *e, const struct uccl_rx *rx, uint64_t now)
{
	return rx->read_ns ? engine_time(e, rx->read_ns) : now;
}

int engine_rx(struct uccl_engine *e, uint64_t now)
{
	struct uccl_rx_placement places[RX_BATCH];
	struct uccl_rx v[RX_BATCH];
	int total = 0, batches = 0;
	struct rx_round r;
	bool one;

	one = rx_begin(e, now);
	while (rx_goes_on(&e->rx, total, batches)) {
		int n;

		rx_predict(e, &r, one, places);
		n = rx_take(e, &r, places, v);
		if (n <= 0) {
			e->rx.empty_ns = total ? 0 : now;
			return total;
		}
		if (!total)
			e->rx.first_age_ns = v[0].age_ns;
		batches = r.gro_batch ? batches + 1 : 0;
		rx_compare(e, &r, places, v, n);
		for (int i = 0; i < n; i++) {
			now = rx_time(e, &v[i], now);
			total += v[i].kind == UCCL_RX_PACKET ? rx_packets(e, &v[i], now) : rx_other(e, &v[i], now);
		}
		/* There may be more, as when the poll has taken all that it may. */
		if (r.alone)
			break;
		if (n < r.most)
			return total;
	}
	e->rx.more = true;
	return total;
}
