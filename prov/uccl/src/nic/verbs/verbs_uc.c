/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The verbs-uc and verbs-rc back ends: packets as verbs-ud sends them, and writes straight into the peer's memory. This
 * file has an endpoint's table of functions and its peers, and dispatches entries.
 */
#include "nic/verbs/uc_state.h"

#include <rdma/fi_errno.h>

#include "nic/nic.h"

#ifdef HAVE_VERBS

#include <stdlib.h>

/* Memory that peers write. */

#define KEY(rkey) ((rkey) | 1ull << 32) /* 0 is no key */
#define REMOTE (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE)

/* Return a registration at `iova` to the caller. */
static int reg_made(struct ibv_mr *mr, uint64_t iova, void **out, uint64_t *rkey, uint64_t *raddr)
{
	if (!mr)
		return uccl_verbs_error();
	*out = mr;
	*rkey = KEY(mr->rkey);
	*raddr = iova;
	return 0;
}

static int window_get(struct uc *w, void *buf, uint64_t len, void **out, uint64_t *rkey, uint64_t *raddr)
{
	uint32_t key;
	int rc;

	if (!w->dev->windows)
		return -FI_ENOSYS;
	uc_lock(w);
	rc = uccl_verbs_mw_get(w->dev->windows, buf, len, out, &key, raddr);
	uc_unlock(w);
	if (!rc)
		*rkey = KEY(key);
	return rc;
}

static int uc_reg(struct uccl_nic *nic, void *buf, uint64_t len, void **out, uint64_t *rkey, uint64_t *raddr)
{
	struct uc *w = uc_of(nic);
	uint64_t iova;
	int rc = window_get(w, buf, len, out, rkey, raddr);

	if (!rc)
		return 0;
	rc = uccl_verbs_iova(buf, &iova);
	return rc ? rc : reg_made(w->dev->lib->reg_mr_iova(w->dev->pd, buf, len, iova, REMOTE), iova, out, rkey, raddr);
}

/* Memory of devices. */

static int uc_reg_device(struct uccl_nic *nic, void *buf, uint64_t len, const struct uccl_nic_device *device,
			 void **out, uint64_t *rkey, uint64_t *raddr)
{
	struct uc_dev *d = uc_of(nic)->dev;
	struct ibv_mr *mr = NULL;
	uint64_t iova;
	int rc = uccl_verbs_iova(buf, &iova);

	if (!rc)
		rc = uccl_verbs_gpu_reg(&d->gpus, d->lib, d->pd, d->port.name, buf, len, iova, REMOTE, device, &mr);
	return rc ? rc : reg_made(mr, iova, out, rkey, raddr);
}

/* Lost payload is sent again in packets, so these must be able to read it, too. PROTOCOL R221 */
static int uc_source(struct uccl_nic *nic, const void *buf, uint64_t len, const struct uccl_nic_device *device,
		     void **out)
{
	struct uc *w = uc_of(nic);
	int rc = w->packets->ops->source(w->packets, buf, len, device, out);
	struct uccl_verbs_source *s = *out;

	if (rc)
		return rc;
	uc_lock(w);
	rc = uccl_mrcache_get(w->dev->tx.gpu_sources.cache, buf, len, device, &s->writes);
	uc_unlock(w);
	if (rc)
		w->packets->ops->source_put(w->packets, s);
	return rc;
}

static void uc_source_put(struct uccl_nic *nic, void *source)
{
	struct uccl_verbs_source *s = source;
	struct uc *w = uc_of(nic);

	uc_lock(w);
	uccl_mrcache_put(s->writes);
	uc_unlock(w);
	w->packets->ops->source_put(w->packets, s);
}

/* What reads it for writes has ended: uc_stop_writes(). */
static void uc_source_stop(struct uccl_nic *nic, void *source)
{
	struct uc *w = uc_of(nic);

	w->packets->ops->source_stop(w->packets, source);
}

static void uc_dereg(struct uccl_nic *nic, void *mr, bool settled)
{
	struct uc *w = uc_of(nic);

	if (uccl_verbs_mw_is(w->dev->windows, mr)) {
		uc_lock(w);
		uccl_verbs_mw_put(w->dev->windows, mr, settled);
		uc_unlock(w);
	} else {
		uccl_verbs_dereg(w->dev->lib, mr, w->ud->port.name);
	}
}

static int uc_tx(struct uccl_nic *nic, struct uccl_tx *v, int n)
{
	struct uc *w = uc_of(nic);
	int i, end, k;

	for (i = 0; i < n; i += k) {
		for (end = i + 1; end < n && v[end].kind == v[i].kind; end++)
			;
		k = v[i].kind == UCCL_TX_WRITE ? uccl_uc_tx(w, v + i, end - i) :
						 w->packets->ops->tx(w->packets, v + i, end - i);
		if (k <= 0)
			return i ? i : k;
	}
	return n;
}

/* Peers. */

static uint64_t uc_expiry(struct uccl_nic *nic)
{
	struct uccl_nic *packets = uc_of(nic)->packets;

	return packets->ops->expiry(packets);
}

static void uc_addr(struct uccl_nic *nic, struct uccl_nic_addr *out)
{
	struct uc *w = uc_of(nic);

	w->packets->ops->addr(w->packets, out);
}

static int uc_connect(struct uccl_nic *nic, const struct uccl_nic_addr *to, uint64_t id, uint16_t paths,
		      struct uccl_nic_peer **out)
{
	struct uc *w = uc_of(nic);
	struct uc_peer *peer = calloc(1, sizeof(*peer));

	if (!peer)
		return -FI_ENOMEM;
	peer->w = w;
	peer->to = *to;
	peer->id = id;
	peer->n = paths;
	peer->watch = uccl_ud_watch(w->ud, to);
	TAILQ_INSERT_TAIL(&w->peers, peer, all);
	*out = (struct uccl_nic_peer *)peer;
	return 0;
}

static void peer_finish(struct uc_peer *peer, uint32_t prepared)
{
	peer->w->writers -= peer->prepared && peer->prepared == prepared;
	peer->prepared -= prepared;
}

static void peer_free(struct uc *w, struct uc_peer *peer)
{
	uc_lock(w);
	if (peer->set && w->dev->link != UCCL_LINK_GONE)
		uccl_uc_reap(w->dev);
	if (peer->set)
		uccl_uc_set_leave(w->dev, peer);
	uccl_uc_ring_forget(w, peer);
	peer_finish(peer, peer->prepared);
	TAILQ_REMOVE(&w->peers, peer, all);
	uc_unlock(w);
	uccl_ud_unwatch(w->ud, peer->watch);
	free(peer);
}

static void uc_disconnect(struct uccl_nic *nic, struct uccl_nic_peer *peer)
{
	peer_free(uc_of(nic), (struct uc_peer *)peer);
}

/* The endpoint's share of the receives. Half of them are for writes that come late or are refused. */
static uint32_t write_slots(const struct uc *w)
{
	return w->dev->queues.srq_depth / 2 / w->dev->nendpoints;
}

static uint32_t uc_slots(struct uccl_nic *nic, uint32_t bytes)
{
	struct uc *w = uc_of(nic);
	uint32_t n;

	(void)bytes;
	uc_lock(w);
	n = write_slots(w);
	uc_unlock(w);
	return (uint32_t)uccl_min(n, nic->caps.rx_slots);
}

/*
 * With very many peers each has two slots, the least there is. So only half as many peers as there are receives may
 * write at a time, others send packets. PROTOCOL R95
 */
static int uc_prepare(struct uccl_nic *nic, struct uccl_nic_peer *np)
{
	struct uc_peer *peer = (struct uc_peer *)np;
	struct uc *w = uc_of(nic);
	bool ready = false;

	uc_lock(w);
	if (!peer->joined)
		uccl_uc_join_begin(w->dev, peer);
	else
		ready = uccl_uc_set_prepare(w->dev, peer->set) &&
			(peer->prepared || w->writers < uccl_max(1, write_slots(w) / 2));
	if (ready)
		w->writers += !peer->prepared++;
	uc_unlock(w);
	return ready ? 0 : -FI_EAGAIN;
}

static void uc_finish(struct uccl_nic *nic, struct uccl_nic_peer *np)
{
	struct uc_peer *peer = (struct uc_peer *)np;
	struct uc *w = uc_of(nic);

	uc_lock(w);
	if (peer->prepared)
		peer_finish(peer, 1);
	uc_unlock(w);
}

static int uc_fence(struct uccl_nic *nic, struct uccl_nic_peer *np, uint16_t path)
{
	struct uc_peer *peer = (struct uc_peer *)np;
	struct uc *w = uc_of(nic);

	if (path >= peer->n)
		return -FI_EINVAL;
	uc_lock(w);
	if (peer->joined)
		uccl_uc_set_fence(w->dev, peer->set, path);
	uc_unlock(w);
	return 0;
}

/* RC sends for seconds to a host that vanished. What has ended by itself breaks no queue pair. PROTOCOL R389 */
static void uc_stop_writes(struct uccl_nic *nic, struct uccl_nic_peer *np)
{
	struct uc_peer *peer = (struct uc_peer *)np;
	struct uc *w = uc_of(nic);

	uc_lock(w);
	if (w->dev->link != UCCL_LINK_GONE)
		uccl_uc_reap(w->dev);
	if (peer->joined)
		uccl_uc_set_stop(w->dev, peer);
	uc_unlock(w);
}

static void uc_renew(struct uccl_nic *nic, struct uccl_nic_peer *np, uint16_t path, bool stays)
{
	struct uc_peer *peer = (struct uc_peer *)np;
	struct uc *w = uc_of(nic);

	uc_lock(w);
	if (peer->joined && path < peer->n)
		/* Longer writes leave only while nothing is lost: most writes lost last had one packet. */
		uccl_uc_set_renew(w->dev, peer, path, stays,
				  w->nic.caps.write_brittle ? w->ud->port.mtu : w->nic.caps.write_max);
	uc_unlock(w);
}

/* Entries. */

static bool entry_next(struct uc_dev *d, struct uc_peer *peer, uint8_t *at)
{
	return uccl_uc_join_say(d, peer, at) || (peer->joined && uccl_uc_set_say(d, peer->set, at));
}

static uint32_t uc_offer(struct uccl_nic *nic, struct uccl_nic_peer *np, uint8_t *buf, uint32_t n)
{
	struct uc *w = uc_of(nic);
	uint32_t len = 0;

	uc_lock(w);
	while (len + UC_ENTRY <= n && entry_next(w->dev, (struct uc_peer *)np, buf + len))
		len += UC_ENTRY;
	uc_unlock(w);
	return len;
}

static bool entry_valid(const struct uc_peer *peer, const uint8_t *at)
{
	return at[0] < UC_PROCESS ? uccl_uc_set_valid(peer, at) : uccl_uc_join_valid(peer, at);
}

static void entry_take(struct uc_dev *d, struct uc_peer *peer, const uint8_t *at)
{
	if (at[0] >= UC_PROCESS)
		uccl_uc_join_take(d, peer, at);
	else if (peer->joined)
		uccl_uc_set_take(d, peer->set, at);
}

static int uc_accept(struct uccl_nic *nic, struct uccl_nic_peer *np, const uint8_t *buf, uint32_t len)
{
	struct uc_peer *peer = (struct uc_peer *)np;
	struct uc *w = uc_of(nic);
	uint32_t at = 0;

	if (!len || len % UC_ENTRY)
		return -FI_EINVAL;
	uc_lock(w);
	while (at < len && entry_valid(peer, buf + at))
		at += UC_ENTRY;
	len = at == len ? len : 0;
	for (at = 0; at < len; at += UC_ENTRY)
		entry_take(w->dev, peer, buf + at);
	uc_unlock(w);
	return len ? 0 : -FI_EINVAL;
}

static uint64_t uc_backlog(struct uccl_nic *nic)
{
	struct uc *w = uc_of(nic);

	return uccl_verbs_slab_backlog(&w->dev->tx.slab) + w->packets->ops->backlog(w->packets);
}

static void mr_add(struct uccl_stats *s, struct uccl_mrcache_stats mr)
{
	s->mr_hits += mr.hits;
	s->mr_misses += mr.misses;
	s->mr_gone += mr.gone;
	s->mr_evicted += mr.evicted;
}

static void uc_count(struct uccl_nic *nic, struct uccl_stats *s)
{
	struct uc *w = uc_of(nic);

	uc_lock(w);
	s->writes_in_place = w->tx.direct;
	s->mr_hits = s->mr_misses = s->mr_gone = s->mr_evicted = 0;
	mr_add(s, uccl_mrcache_stats(w->dev->tx.sources));
	if (w->dev->windows) {
		struct uccl_verbs_mws_stats mw = uccl_verbs_mws_stats(w->dev->windows);

		mr_add(s, uccl_verbs_mws_places(w->dev->windows));
		s->mw_bound = mw.bound;
		s->mw_failed = mw.failed;
	}
	s->qp_made = w->dev->sets.made;
	s->qp_reclaimed = w->dev->sets.reclaimed;
	s->qp_now = w->dev->sets.nqps;
	uc_unlock(w);
}

static void uc_close(struct uccl_nic *nic)
{
	struct uc *w = uc_of(nic);

	while (TAILQ_FIRST(&w->peers))
		peer_free(w, TAILQ_FIRST(&w->peers));
	if (w->dev)
		uccl_uc_dev_put(w);
	uccl_uc_ring_close(w);
	if (w->packets)
		w->packets->ops->close(w->packets);
	free(w);
}

#define UC_OPS(title)                                                                                                  \
	{                                                                                                              \
		.name = title, .tx = uc_tx, .rx = uccl_uc_rx, .slots = uc_slots, .connect = uc_connect,                \
		.disconnect = uc_disconnect, .fence = uc_fence, .stop_writes = uc_stop_writes, .reg = uc_reg,          \
		.reg_device = uc_reg_device,                                                                           \
		.dereg = uc_dereg, .source = uc_source, .source_put = uc_source_put, .source_stop = uc_source_stop,    \
		.prepare = uc_prepare, .finish = uc_finish, .offer = uc_offer, .accept = uc_accept,                    \
		.renew = uc_renew, .backlog = uc_backlog, .count = uc_count, .wait_fd = uccl_uc_wait_fd,               \
		.expiry = uc_expiry,                                                                                   \
		.addr = uc_addr, .close = uc_close,                                                                    \
	}

static const struct uccl_nic_ops uc_ops = UC_OPS("verbs-uc"), rc_ops = UC_OPS("verbs-rc");

/* Opening. */

int uccl_verbs_uc_open(const struct uccl_verbs *lib, uint64_t (*clock)(void), enum ibv_qp_type type,
		       const struct uccl_nic_attr *attr, struct uccl_nic **nic)
{
	struct uccl_nic_attr packets = *attr;
	struct uc *w;
	int err;

	/* A lane sends only packets: it would never use its share of the receives for writes. */
	if (attr->packets)
		return uccl_verbs_ud_open(lib, clock, attr, nic);
	w = calloc(1, sizeof(*w));
	if (!w)
		return -FI_ENOMEM;
	TAILQ_INIT(&w->peers);
	/* Payload for devices is written straight to its place. */
	packets.device_rx = false;
	err = uccl_verbs_ud_open(lib, clock, &packets, &w->packets);
	if (err) {
		free(w);
		return err;
	}
	w->ud = ud_of(w->packets);
	w->nic.ops = type == IBV_QPT_RC ? &rc_ops : &uc_ops;
	w->nic.caps = w->packets->caps;
	w->nic.caps.write_max = uccl_verbs_write_max(&w->ud->port, attr->write_bytes);
	w->nic.caps.write_brittle = uccl_verbs_write_brittle(&w->ud->port, type, attr->write_bytes);
	w->nic.caps.write_async = true;
	w->nic.caps.dereg_fences = true;
	err = uccl_uc_dev_get(lib, clock, type, attr, w);
	if (!err)
		err = uccl_uc_ring_open(w);
	if (err) {
		uc_close(&w->nic);
		return err;
	}
	w->nic.caps.rx_slots = (uint32_t)uccl_min(w->nic.caps.rx_slots, w->dev->queues.srq_depth / 2);
	*nic = &w->nic;
	return 0;
}

static int open_here(enum ibv_qp_type type, const struct uccl_nic_attr *attr, struct uccl_nic **nic)
{
	const struct uccl_verbs *lib = uccl_verbs_lib();

	return lib ? uccl_verbs_uc_open(lib, uccl_ud_clock, type, attr, nic) : -FI_ENODEV;
}

int uccl_nic_verbs_uc_open(const struct uccl_nic_attr *attr, struct uccl_nic **nic)
{
	return open_here(IBV_QPT_UC, attr, nic);
}

int uccl_nic_verbs_rc_open(const struct uccl_nic_attr *attr, struct uccl_nic **nic)
{
	return open_here(IBV_QPT_RC, attr, nic);
}

#else

int uccl_nic_verbs_uc_open(const struct uccl_nic_attr *attr, struct uccl_nic **nic)
{
	(void)attr;
	(void)nic;
	return -FI_ENODEV;
}

int uccl_nic_verbs_rc_open(const struct uccl_nic_attr *attr, struct uccl_nic **nic)
{
	(void)attr;
	(void)nic;
	return -FI_ENODEV;
}

#endif
