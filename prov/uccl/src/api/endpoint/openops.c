/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* See openops.h. All values come from the snapshot that uccl_top shows, too. */
#include "api/endpoint/openops.h"

#include <rdma/fi_ext_uccl.h>
#include <stdlib.h>
#include <string.h>

#include "api/endpoint/ep.h"
#include "engine/observe/snapshot.h"
#include "progress/thread.h"

#define SNAPSHOT_FIRST 16384 /* bytes; some peers */

/* Without an engine, and in a forked child, there is no snapshot. */
static bool visible(const struct uccl_ep *ep)
{
	return ep->driver.engine && ep->driver.forks == uccl_forks;
}

/* `size` bytes of it; -FI_EOPBADSTATE. */
static int snapshot(struct uccl_ep *ep, struct uccl_snapshot *v, size_t size)
{
	int rc = -FI_EOPBADSTATE;

	uccl_driver_lock(&ep->driver);
	if (visible(ep)) {
		uccl_engine_snapshot(ep->driver.engine, v, size, uccl_clock());
		rc = 0;
	}
	uccl_driver_unlock(&ep->driver);
	return rc;
}

static int ops_stats(struct fid_ep *fid, struct fi_uccl_stats *out, size_t size)
{
	struct uccl_ep *ep = uccl_ep_fid_of(&fid->fid)->ep;
	const struct uccl_stats *s;
	struct fi_uccl_stats st;
	struct uccl_snapshot v;
	int rc = snapshot(ep, &v, sizeof(v));

	if (rc)
		return rc;
	s = &v.stats;
	st = (struct fi_uccl_stats){
		.tx_packets = s->tx_packets,
		.tx_bytes = s->tx_bytes,
		.rx_packets = s->rx_packets,
		.rx_bytes = s->rx_bytes,
		.rtx_packets = s->rtx_packets,
		.rtx_bytes = s->rtx_bytes,
		.spurious = s->spurious,
		.timeouts = s->rtos,
		.quarantined = s->quarantined,
		.connects = s->connects,
		.peers_dead = s->peers_dead,
		.peers_closed = s->peers_closed,
		.unexpected = s->unexpected,
		.peers = v.nconns,
		.peers_open = v.nopen,
	};
	for (int i = 0; i < UCCL_DROP_COUNT; i++)
		st.dropped += s->dropped[i];
	memcpy(out, &st, uccl_min(size, sizeof(st)));
	return 0;
}

static struct fi_uccl_peer peer_of(const struct uccl_snapshot_peer *p)
{
	const struct uccl_snapshot_path *paths = uccl_snapshot_paths(p);
	struct fi_uccl_peer out = {
		.port = p->port,
		.paths = p->npaths,
		.paths_usable = p->nusable,
		.state = p->state,
		.srtt_ns = p->min_rtt_ns == UINT64_MAX ? UINT64_MAX : p->srtt_ns,
		.min_rtt_ns = p->min_rtt_ns,
		.heard_ago_ns = p->heard_ago_ns,
		.inflight_bytes = p->inflight_bytes,
		.window_bytes = p->window,
	};

	memcpy(out.ip, p->ip, sizeof(out.ip));
	for (uint16_t i = 0; i < p->npaths; i++)
		out.lost += paths[i].lost;
	return out;
}

/* A snapshot with room for all peers. NULL: *rc is the error. */
static struct uccl_snapshot *snapshot_all(struct uccl_ep *ep, int *rc)
{
	for (size_t size = SNAPSHOT_FIRST;; size *= 4) {
		struct uccl_snapshot *v = malloc(size);

		*rc = v ? snapshot(ep, v, size) : -FI_ENOMEM;
		if (!*rc && !v->left_out)
			return v;
		free(v);
		if (*rc)
			return NULL;
	}
}

static ssize_t ops_peers(struct fid_ep *fid, void *peers, size_t count, size_t size)
{
	const struct uccl_snapshot_peer *p;
	struct uccl_snapshot *v;
	ssize_t n = 0;
	int rc;

	v = snapshot_all(uccl_ep_fid_of(&fid->fid)->ep, &rc);
	if (!v)
		return rc;
	for (p = uccl_snapshot_first(v); p; p = uccl_snapshot_next(v, p), n++) {
		struct fi_uccl_peer one = peer_of(p);

		if ((size_t)n < count)
			memcpy((uint8_t *)peers + (size_t)n * size, &one, uccl_min(size, sizeof(one)));
	}
	free(v);
	return n;
}

static int ops_dropped(struct fid_ep *fid, unsigned int i, const char **why, uint64_t *count)
{
	struct uccl_snapshot v;
	int rc = snapshot(uccl_ep_fid_of(&fid->fid)->ep, &v, sizeof(v));

	if (rc)
		return rc;
	if (i >= UCCL_DROP_COUNT)
		return -FI_ENODATA;
	*why = uccl_drop_text(i);
	*count = v.stats.dropped[i];
	return 0;
}

static struct fi_uccl_ops_ep ops_ep = {
	.size = sizeof(struct fi_uccl_ops_ep),
	.stats = ops_stats,
	.peers = ops_peers,
	.dropped = ops_dropped,
};

int uccl_openops_ep(struct fid *fid, const char *name, uint64_t flags, void **ops, void *context)
{
	(void)fid;
	(void)context;
	if (flags)
		return -FI_EINVAL;
	if (!name || strcmp(name, FI_UCCL_OPS_EP))
		return -FI_ENOSYS;
	*ops = &ops_ep;
	return 0;
}
