/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The fault wrapper: a back end around a back end that loses, delays, duplicates, reorders and corrupts what is sent,
 * from a seeded generator and a clock given from outside, so a run can be repeated. faultspec.h says what it can do.
 *
 * A packet that is held or changed is copied. Remote writes and payloads in registered memory are never copied, as the
 * copy would not be registered: on them only losses act.
 */
#include "nic/fault/fault.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <rdma/fi_errno.h>

#include "base/heap.h"
#include "base/log.h"
#include "base/rng.h"
#include "base/units.h"
#include "nic/fault/faultspec.h"

#define FAULT_HELD_MAX 4096
#define FAULT_SENT_MAX 8192
#define FAULT_COOKIE 0xfa17c0de00000000ull /* | place: our own packets inside the inner back end */

/* A packet that goes later: its copy, with the payload behind. */
struct delayed {
	struct uccl_timer timer;
	uint32_t place; /* in fault.held */
	struct uccl_nic_addr to;
	struct uccl_tx tx;
	uint8_t payload[];
};

/* A connected peer: what a UCCL_RX_SENT of our own making has to say of it. */
struct known {
	struct uccl_nic_peer *peer;
	uint64_t id;
};

struct sent {
	uint64_t cookie;
	struct known of;
};

struct fault {
	struct uccl_nic nic;
	struct uccl_nic_ops ops; /* ours where the inner back end has one */
	struct uccl_nic *inner;
	struct uccl_fault_spec spec;
	uint64_t (*clock)(void *arg);
	void *clock_arg;
	uint64_t opened_at;
	uint64_t last_due; /* keeps packets of equal delay in order */
	bool bad;	   /* Gilbert's state */
	bool only_loss;
	struct uccl_rng rng;
	struct uccl_heap heap;
	struct delayed *delayed[FAULT_HELD_MAX];
	uint16_t unused[FAULT_HELD_MAX]; /* stack of free places */
	uint32_t nunused;
	struct sent sent[FAULT_SENT_MAX]; /* packets that never reach the inner back end: ring */
	uint32_t sent_head, nsent;
	struct known *known;
	uint32_t nknown, known_cap;
	struct uccl_fault_stats stats;
};

/* What shall happen to one packet. */
struct fate {
	bool hole, drop, dup, corrupt, reorder;
	uint64_t hold_ns;
};

static struct fault *fault_of(struct uccl_nic *nic)
{
	return uccl_container_of(nic, struct fault, nic);
}

/* Deciding. */

static bool blackholed(const struct fault *f, const struct uccl_tx *t, uint64_t now)
{
	uint64_t since = now - f->opened_at;
	int i;

	for (i = 0; i < f->spec.holes; i++) {
		const struct uccl_fault_hole *h = &f->spec.hole[i];

		if (since < h->from_ns || since >= h->to_ns)
			continue;
		if (h->which == UCCL_FAULT_ANY || h->which == (h->by_path ? t->path : t->label))
			return true;
	}
	return false;
}

static bool loss_draw(struct fault *f)
{
	const struct uccl_fault_spec *s = &f->spec;

	if (s->burst <= 1 || s->drop >= 1)
		return uccl_rng_chance(&f->rng, s->drop);
	if (f->bad)
		f->bad = !uccl_rng_chance(&f->rng, 1 / s->burst);
	else
		f->bad = uccl_rng_chance(&f->rng, s->drop / (s->burst * (1 - s->drop)));
	return f->bad;
}

/*
 * Packets are lost, each by itself, and no more: so what loss costs is measured, and drawing is not to be much of that.
 * It draws as fate_draw does.
 */
static bool only_loss(const struct uccl_fault_spec *s)
{
	return s->burst <= 1 && !(s->drop_control > 0) && !(s->dup > 0) && !(s->reorder > 0) && !(s->corrupt > 0) &&
	       !s->delay_ns && !s->jitter_ns && !s->holes && s->label == UCCL_FAULT_ANY && s->train == UCCL_TRAIN_WHOLE;
}

/* With only loss: the first packet from v[i] on that is lost; n: none is. */
static int next_lost(struct fault *f, int i, int n)
{
	while (i < n && !uccl_rng_chance(&f->rng, f->spec.drop))
		i++;
	return i;
}

/* What only the NIC can read it cannot. */
static bool can_copy(const struct uccl_tx *t)
{
	return t->kind == UCCL_TX_PACKET && !t->mr;
}

/* `broken`: it would leave in a train, whose fault hits it. */
static struct fate fate_draw(struct fault *f, const struct uccl_tx *t, bool broken, uint64_t now)
{
	const struct uccl_fault_spec *s = &f->spec;
	struct fate fate = {0};

	if (blackholed(f, t, now)) {
		fate.hole = fate.drop = true;
		return fate;
	}
	if (s->label != UCCL_FAULT_ANY && s->label != t->label)
		return fate;
	fate.drop = loss_draw(f) || (broken && s->train != UCCL_TRAIN_CORRUPT);
	if (!uccl_tx_has_payload(t) && !fate.drop)
		fate.drop = uccl_rng_chance(&f->rng, s->drop_control);
	if (fate.drop || !can_copy(t))
		return fate;
	fate.dup = uccl_rng_chance(&f->rng, s->dup);
	fate.corrupt = uccl_rng_chance(&f->rng, s->corrupt) || broken;
	fate.hold_ns = s->delay_ns;
	if (s->jitter_ns)
		fate.hold_ns += uccl_rng_below(&f->rng, s->jitter_ns + 1);
	fate.reorder = uccl_rng_chance(&f->rng, s->reorder);
	if (fate.reorder)
		fate.hold_ns += 1 + uccl_rng_below(&f->rng, s->reorder_ns + 1);
	return fate;
}

/* Holding. */

static void delayed_free(struct fault *f, struct delayed *h)
{
	uccl_heap_set(&f->heap, &h->timer, UCCL_NEVER);
	f->delayed[h->place] = NULL;
	f->unused[f->nunused++] = (uint16_t)h->place;
	free(h);
}

static void bit_flip(struct fault *f, struct delayed *h)
{
	uint64_t len = (uint64_t)h->tx.hdr_len + h->tx.payload_len + h->tx.tail_len, at;
	uint8_t *byte;

	if (!len)
		return;
	at = uccl_rng_below(&f->rng, len);
	if (at < h->tx.hdr_len)
		byte = &h->tx.hdr[at];
	else if (at - h->tx.hdr_len < h->tx.payload_len)
		byte = &h->payload[at - h->tx.hdr_len];
	else
		byte = &h->tx.tail[at - h->tx.hdr_len - h->tx.payload_len];
	*byte ^= (uint8_t)(1u << uccl_rng_below(&f->rng, 8));
	f->stats.corrupted++;
}

/* Keep a copy until `due`. Without room the packet is lost, which is a fault like any other. */
static void packet_hold(struct fault *f, const struct uccl_tx *t, uint64_t due, bool in_order, bool corrupt)
{
	struct delayed *h = f->nunused ? malloc(sizeof(*h) + t->payload_len) : NULL;

	if (!h) {
		f->stats.overflow++;
		return;
	}
	h->place = f->unused[--f->nunused];
	f->delayed[h->place] = h;
	h->timer = (struct uccl_timer){.at = UCCL_NEVER};
	h->tx = *t;
	h->to = *t->to;
	h->tx.to = &h->to;
	if (t->payload_len)
		memcpy(h->payload, t->payload, t->payload_len);
	h->tx.payload = h->payload;
	h->tx.cookie = FAULT_COOKIE | h->place;
	if (corrupt)
		bit_flip(f, h);
	if (in_order && due <= f->last_due)
		due = f->last_due + 1;
	if (in_order)
		f->last_due = due;
	uccl_heap_set(&f->heap, &h->timer, due);
}

/* Send what is due. */
static void delayed_release(struct fault *f, uint64_t now)
{
	struct uccl_timer *t;
	struct delayed *h;
	int taken;

	while ((t = uccl_heap_min(&f->heap)) && t->at <= now) {
		h = uccl_container_of(t, struct delayed, timer);
		taken = f->inner->ops->tx(f->inner, &h->tx, 1);
		if (!taken)
			return;
		f->stats.passed += taken > 0;
		if (taken < 0 || f->nic.caps.tx_sync)
			delayed_free(f, h);
		else
			uccl_heap_set(&f->heap, t, UCCL_NEVER); /* freed by its UCCL_RX_SENT */
	}
}

/* 0: not a peer that was connected through us. A search suffices for a tool of tests. */
static uint64_t known_id(const struct fault *f, const struct uccl_nic_peer *peer)
{
	uint32_t i;

	for (i = 0; i < f->nknown; i++)
		if (f->known[i].peer == peer)
			return f->known[i].id;
	return 0;
}

/* The packet will not reach the inner back end as itself, but its owner waits for the payload. */
static void sent_queue(struct fault *f, const struct uccl_tx *t)
{
	if ((f->nic.caps.tx_sync && !(t->kind == UCCL_TX_WRITE && f->nic.caps.write_async)) || !t->cookie)
		return;
	f->sent[(f->sent_head + f->nsent++) % FAULT_SENT_MAX] =
		(struct sent){.cookie = t->cookie, .of = {.peer = t->peer, .id = known_id(f, t->peer)}};
}

/* Sending. */

/* Do to one packet what its fate says. False: the inner queue is full and nothing was done. */
static bool packet_treat(struct fault *f, struct uccl_tx *t, const struct fate *fate, uint64_t now)
{
	bool in_order = fate->hold_ns && !f->spec.jitter_ns && !fate->reorder;

	if (fate->drop) {
		f->stats.blackholed += fate->hole;
		f->stats.dropped += !fate->hole;
		sent_queue(f, t);
		return true;
	}
	if (fate->hold_ns || fate->corrupt) {
		f->stats.reordered += fate->reorder;
		packet_hold(f, t, now + fate->hold_ns, in_order, fate->corrupt);
		sent_queue(f, t);
	} else {
		if (f->inner->ops->tx(f->inner, t, 1) != 1)
			return false;
		f->stats.passed++;
	}
	if (fate->dup) {
		f->stats.duplicated++;
		packet_hold(f, t, now + fate->hold_ns, in_order, false);
	}
	delayed_release(f, now);
	return true;
}

static int fault_tx(struct uccl_nic *nic, struct uccl_tx *v, int n)
{
	struct fault *f = fault_of(nic);
	uint64_t now = f->clock(f->clock_arg);
	struct uccl_train_walk walk = {0};
	struct fate fate;
	bool broken;
	int start = 0, i, taken;

	delayed_release(f, now);
	/*
	 * Untouched neighbours go down together: the inner back end may send them as one. What is lost on the way does
	 * not part them: v is put into the order in which things leave.
	 */
	for (i = 0; i <= n; i++) {
		fate = (struct fate){0};
		if (f->only_loss) {
			i = next_lost(f, i, n);
			fate.drop = i < n;
		} else if (i < n) {
			broken = uccl_train_hit(&walk, v, n, i, f->nic.caps.train_bytes, f->spec.train);
			fate = fate_draw(f, &v[i], broken, now);
		}
		if (i < n) {
			if (fate.drop && f->nsent < FAULT_SENT_MAX) {
				packet_treat(f, &v[i], &fate, now);
				memmove(v + start + 1, v + start, (size_t)(i - start) * sizeof(*v));
				start++;
				continue;
			}
			if (!fate.drop && !fate.dup && !fate.corrupt && !fate.hold_ns)
				continue;
		}
		if (i > start) {
			taken = f->inner->ops->tx(f->inner, v + start, i - start);
			if (taken < 0)
				return start ? start : taken;
			f->stats.passed += (uint64_t)taken;
			start += taken;
			if (start < i)
				return start;
		}
		if (i < n) {
			if (f->nsent == FAULT_SENT_MAX || !packet_treat(f, &v[i], &fate, now))
				return start;
			start++;
		}
	}
	return n;
}

/* Receiving. */

static int sent_emit(struct fault *f, struct uccl_rx *v, int n)
{
	int k;

	for (k = 0; k < n && f->nsent; k++) {
		memset(&v[k], 0, sizeof(v[k]));
		v[k].kind = UCCL_RX_SENT;
		v[k].cookie = f->sent[f->sent_head].cookie;
		v[k].peer = f->sent[f->sent_head].of.peer;
		v[k].peer_id = f->sent[f->sent_head].of.id;
		f->sent_head = (f->sent_head + 1) % FAULT_SENT_MAX;
		f->nsent--;
	}
	return k;
}

/* The packet that a UCCL_RX_SENT speaks of, if it is one of ours. */
static struct delayed *delayed_of(struct fault *f, const struct uccl_rx *r)
{
	uint64_t place = r->cookie ^ FAULT_COOKIE;

	if (r->kind != UCCL_RX_SENT || f->nic.caps.tx_sync || place >= FAULT_HELD_MAX)
		return NULL;
	return f->delayed[place];
}

static int fault_rx(struct uccl_nic *nic, struct uccl_rx *v, int n, const struct uccl_rx_placement *places, int nplaces)
{
	struct fault *f = fault_of(nic);
	struct delayed *h;
	int k, i, kept, got;

	if (f->heap.n)
		delayed_release(f, f->clock(f->clock_arg));
	k = sent_emit(f, v, n);
	if (k == n)
		return k;
	f->inner->watched = nic->watched;
	f->inner->empty = nic->empty;
	got = f->inner->ops->rx(f->inner, v + k, n - k, nplaces > k ? places + k : NULL, nplaces > k ? nplaces - k : 0);
	if (got < 0)
		return k ? k : got;
	for (i = kept = k; i < k + got; i++) {
		h = delayed_of(f, &v[i]);
		if (h) {
			delayed_free(f, h);
			continue;
		}
		if (kept != i)
			v[kept] = v[i];
		kept++;
	}
	return kept;
}

/* The rest goes through. */

static int fault_connect(struct uccl_nic *nic, const struct uccl_nic_addr *to, uint64_t id, uint16_t paths,
			 struct uccl_nic_peer **peer)
{
	struct fault *f = fault_of(nic);
	uint32_t cap = f->known_cap ? 2 * f->known_cap : 16;
	struct known *more;
	int err;

	if (f->nknown == f->known_cap) {
		more = realloc(f->known, cap * sizeof(*more));
		if (!more)
			return -FI_ENOMEM;
		f->known = more;
		f->known_cap = cap;
	}
	err = f->inner->ops->connect(f->inner, to, id, paths, peer);
	if (!err)
		f->known[f->nknown++] = (struct known){.peer = *peer, .id = id};
	return err;
}

static void fault_disconnect(struct uccl_nic *nic, struct uccl_nic_peer *peer)
{
	struct fault *f = fault_of(nic);
	uint32_t i;

	/* Held packets may name the handle that ends now. Those inside the inner back end are its own matter. */
	for (i = 0; i < FAULT_HELD_MAX; i++)
		if (f->delayed[i] && f->delayed[i]->tx.peer == peer && f->delayed[i]->timer.at != UCCL_NEVER)
			delayed_free(f, f->delayed[i]);
	/* Cookies that wait keep the id, by which their owner still knows them, but not the handle. */
	for (i = 0; i < f->nsent; i++)
		if (f->sent[(f->sent_head + i) % FAULT_SENT_MAX].of.peer == peer)
			f->sent[(f->sent_head + i) % FAULT_SENT_MAX].of.peer = NULL;
	for (i = 0; i < f->nknown && f->known[i].peer != peer; i++)
		;
	if (i < f->nknown)
		f->known[i] = f->known[--f->nknown];
	f->inner->ops->disconnect(f->inner, peer);
}

static uint32_t fault_path_mtu(struct uccl_nic *nic, const struct uccl_nic_addr *to, uint32_t *known)
{
	struct fault *f = fault_of(nic);

	return f->inner->ops->path_mtu(f->inner, to, known);
}

static uint32_t fault_slots(struct uccl_nic *nic, uint32_t bytes)
{
	struct fault *f = fault_of(nic);

	return f->inner->ops->slots(f->inner, bytes);
}

static bool fault_alive(struct uccl_nic *nic, struct uccl_nic_peer *peer)
{
	struct fault *f = fault_of(nic);

	return f->inner->ops->alive(f->inner, peer);
}

static bool fault_held(struct uccl_nic *nic, struct uccl_nic_peer *peer)
{
	struct fault *f = fault_of(nic);

	return f->inner->ops->held(f->inner, peer);
}

static int fault_fence(struct uccl_nic *nic, struct uccl_nic_peer *peer, uint16_t path)
{
	struct fault *f = fault_of(nic);

	return f->inner->ops->fence(f->inner, peer, path);
}

static void fault_stop_writes(struct uccl_nic *nic, struct uccl_nic_peer *peer)
{
	struct fault *f = fault_of(nic);

	f->inner->ops->stop_writes(f->inner, peer);
}

static int fault_prepare(struct uccl_nic *nic, struct uccl_nic_peer *peer)
{
	struct fault *f = fault_of(nic);

	return f->inner->ops->prepare(f->inner, peer);
}

static void fault_finish(struct uccl_nic *nic, struct uccl_nic_peer *peer)
{
	struct fault *f = fault_of(nic);

	f->inner->ops->finish(f->inner, peer);
}

static uint32_t fault_offer(struct uccl_nic *nic, struct uccl_nic_peer *peer, uint8_t *buf, uint32_t n)
{
	struct fault *f = fault_of(nic);

	return f->inner->ops->offer(f->inner, peer, buf, n);
}

static int fault_accept(struct uccl_nic *nic, struct uccl_nic_peer *peer, const uint8_t *buf, uint32_t len)
{
	struct fault *f = fault_of(nic);

	return f->inner->ops->accept(f->inner, peer, buf, len);
}

static void fault_count(struct uccl_nic *nic, struct uccl_stats *s)
{
	struct fault *f = fault_of(nic);

	f->inner->ops->count(f->inner, s);
}

static uint64_t fault_backlog(struct uccl_nic *nic)
{
	struct fault *f = fault_of(nic);

	return f->inner->ops->backlog(f->inner);
}

static void fault_renew(struct uccl_nic *nic, struct uccl_nic_peer *peer, uint16_t path, bool stays)
{
	struct fault *f = fault_of(nic);

	f->inner->ops->renew(f->inner, peer, path, stays);
}

static int fault_reg(struct uccl_nic *nic, void *buf, uint64_t len, void **mr, uint64_t *rkey, uint64_t *raddr)
{
	struct fault *f = fault_of(nic);

	return f->inner->ops->reg(f->inner, buf, len, mr, rkey, raddr);
}

static int fault_reg_device(struct uccl_nic *nic, void *buf, uint64_t len, const struct uccl_nic_device *device,
			    void **mr, uint64_t *rkey, uint64_t *raddr)
{
	struct fault *f = fault_of(nic);

	return f->inner->ops->reg_device(f->inner, buf, len, device, mr, rkey, raddr);
}

static int fault_source(struct uccl_nic *nic, const void *buf, uint64_t len, const struct uccl_nic_device *device,
			void **source)
{
	struct uccl_nic *inner = fault_of(nic)->inner;

	return inner->ops->source(inner, buf, len, device, source);
}

static void fault_source_put(struct uccl_nic *nic, void *source)
{
	struct uccl_nic *inner = fault_of(nic)->inner;

	inner->ops->source_put(inner, source);
}

static void fault_source_stop(struct uccl_nic *nic, void *source)
{
	struct uccl_nic *inner = fault_of(nic)->inner;

	inner->ops->source_stop(inner, source);
}

static int fault_device_rx_open(struct uccl_nic *nic, void *mem, const struct uccl_nic_device *device, uint32_t *key)
{
	struct uccl_nic *inner = fault_of(nic)->inner;

	return inner->ops->device_rx_open(inner, mem, device, key);
}

static void fault_device_rx_free(struct uccl_nic *nic, uint32_t slot)
{
	struct uccl_nic *inner = fault_of(nic)->inner;

	inner->ops->device_rx_free(inner, slot);
}

static void fault_dereg(struct uccl_nic *nic, void *mr, bool settled)
{
	struct fault *f = fault_of(nic);

	f->inner->ops->dereg(f->inner, mr, settled);
}

static void fault_guard(struct uccl_nic *nic, const struct uccl_nic_guard *guard)
{
	struct fault *f = fault_of(nic);

	f->inner->ops->guard(f->inner, guard);
}

static int fault_wait_fd(struct uccl_nic *nic)
{
	struct fault *f = fault_of(nic);

	return f->inner->ops->wait_fd(f->inner);
}

static int fault_nap_fd(struct uccl_nic *nic)
{
	struct fault *f = fault_of(nic);

	return f->inner->ops->nap_fd(f->inner);
}

/* Nothing else wakes those who sleep until it is time to send what is held, or to tell what was sent. */
static uint64_t fault_expiry(struct uccl_nic *nic)
{
	struct fault *f = fault_of(nic);
	struct uccl_timer *t = uccl_heap_min(&f->heap);
	uint64_t at = f->inner->ops->expiry ? f->inner->ops->expiry(f->inner) : UCCL_NEVER;

	if (f->nsent)
		return 0;
	return t ? uccl_min(t->at, at) : at;
}

static void fault_addr(struct uccl_nic *nic, struct uccl_nic_addr *out)
{
	struct fault *f = fault_of(nic);

	f->inner->ops->addr(f->inner, out);
}

static void fault_close(struct uccl_nic *nic)
{
	struct fault *f = fault_of(nic);
	const struct uccl_fault_stats *s = &f->stats;
	int i;

	if (s->passed || s->dropped || s->blackholed)
		UCCL_LOG(UCCL_LOG_INFO,
			 "faults: %llu passed, %llu dropped, %llu blackholed, %llu duplicated, %llu reordered, "
			 "%llu corrupted, %llu over the limit",
			 (unsigned long long)s->passed, (unsigned long long)s->dropped,
			 (unsigned long long)s->blackholed, (unsigned long long)s->duplicated,
			 (unsigned long long)s->reordered, (unsigned long long)s->corrupted,
			 (unsigned long long)s->overflow);
	/* Inner first: it may still read what we hold. */
	f->inner->ops->close(f->inner);
	for (i = 0; i < FAULT_HELD_MAX; i++)
		free(f->delayed[i]);
	uccl_heap_fini(&f->heap);
	free(f->known);
	free(f);
}

static void ops_fill(struct uccl_nic_ops *ours, const struct uccl_nic_ops *inner)
{
	*ours = (struct uccl_nic_ops){
		.name = inner->name,
		.tx = fault_tx,
		.rx = fault_rx,
		.path_mtu = inner->path_mtu ? fault_path_mtu : NULL,
		.slots = inner->slots ? fault_slots : NULL,
		.connect = inner->connect ? fault_connect : NULL,
		.disconnect = inner->disconnect ? fault_disconnect : NULL,
		.alive = inner->alive ? fault_alive : NULL,
		.held = inner->held ? fault_held : NULL,
		.fence = inner->fence ? fault_fence : NULL,
		.stop_writes = inner->stop_writes ? fault_stop_writes : NULL,
		.prepare = inner->prepare ? fault_prepare : NULL,
		.finish = inner->finish ? fault_finish : NULL,
		.offer = inner->offer ? fault_offer : NULL,
		.accept = inner->accept ? fault_accept : NULL,
		.renew = inner->renew ? fault_renew : NULL,
		.reg = inner->reg ? fault_reg : NULL,
		.reg_device = inner->reg_device ? fault_reg_device : NULL,
		.dereg = inner->dereg ? fault_dereg : NULL,
		.source = inner->source ? fault_source : NULL,
		.source_put = inner->source_put ? fault_source_put : NULL,
		.source_stop = inner->source_stop ? fault_source_stop : NULL,
		.device_rx_open = inner->device_rx_open ? fault_device_rx_open : NULL,
		.device_rx_free = inner->device_rx_free ? fault_device_rx_free : NULL,
		.backlog = inner->backlog ? fault_backlog : NULL,
		.count = inner->count ? fault_count : NULL,
		.guard = inner->guard ? fault_guard : NULL,
		.wait_fd = inner->wait_fd ? fault_wait_fd : NULL,
		.nap_fd = inner->nap_fd ? fault_nap_fd : NULL,
		.expiry = fault_expiry,
		.addr = inner->addr ? fault_addr : NULL,
		.close = fault_close,
	};
}

/* On an error `inner` stays the caller's. */
int uccl_nic_fault_open(struct uccl_nic *inner, const char *spec, uint64_t (*clock)(void *), void *clock_arg,
			struct uccl_nic **nic, const char **why)
{
	struct fault *f = calloc(1, sizeof(*f));
	uint32_t i;

	*why = "out of memory";
	if (!f)
		return -FI_ENOMEM;
	*why = uccl_fault_spec_read(&f->spec, spec);
	if (*why) {
		free(f);
		return -FI_EINVAL;
	}
	uccl_heap_init(&f->heap);
	if (uccl_heap_reserve(&f->heap, FAULT_HELD_MAX)) {
		free(f);
		*why = "out of memory";
		return -FI_ENOMEM;
	}
	for (i = 0; i < FAULT_HELD_MAX; i++)
		f->unused[f->nunused++] = (uint16_t)(FAULT_HELD_MAX - 1 - i);
	uccl_rng_seed(&f->rng, f->spec.seed);
	ops_fill(&f->ops, inner->ops);
	f->nic.ops = &f->ops;
	f->nic.caps = inner->caps;
	f->inner = inner;
	f->only_loss = only_loss(&f->spec);
	f->clock = clock;
	f->clock_arg = clock_arg;
	f->opened_at = clock(clock_arg);
	*nic = &f->nic;
	return 0;
}

const struct uccl_fault_stats *uccl_nic_fault_stats(const struct uccl_nic *nic)
{
	return &uccl_container_of((struct uccl_nic *)nic, struct fault, nic)->stats;
}
