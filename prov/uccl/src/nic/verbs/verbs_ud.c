/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The verbs-ud back end: packets over unreliable datagram queue pairs. This file opens, closes and describes. */
#include "nic/verbs/ud_state.h"

#include <rdma/fi_errno.h>

#include "nic/nic.h"

#ifdef HAVE_VERBS

#include <fcntl.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include "base/log.h"
#include "base/defaults.h"

#define RX_BYTES (4u << 20) /* of receive buffers, if nothing is wished */
#define RX_MIN 128	    /* receive buffers that there must be, or it is no use */
#define RX_MAX 16384
#define TX_MIN 64
#define MTU_MIN 256
#define AH_MAX 4096
#define FLUSH_NS (50 * UCCL_NS_PER_MS) /* close waits at most so long for the last packets to leave */

/*
 * What makes a path, and what is normal, by kind of NIC. Soft-RoCE derives the UDP source port from the sending queue
 * pair, hardware from the flow label of the address handle; InfiniBand's switches look at queue pairs, if at anything.
 */
struct profile {
	uint16_t qps;
	uint16_t flows;
	uint64_t delay_ns, rto_min_ns;
};

/*
 * Soft-RoCE has no timestamps, and it runs where processors are emulated and shared: over 20 ms of wire, RTT samples
 * of 1 to 100 ms were seen. Nearer to the wire, Swift takes all of that for congestion and stands at its floor.
 */
static const struct profile profile_rxe = {UD_QPS, 1, 50 * UCCL_NS_PER_MS, 20 * UCCL_NS_PER_MS};
static const struct profile profile_roce = {8, UCCL_VERBS_LABELS, UCCL_VERBS_DELAY_US * UCCL_NS_PER_US,
					    UCCL_VERBS_RTO_MIN_US * UCCL_NS_PER_US};
static const struct profile profile_infiniband = {UD_QPS, 1, UCCL_VERBS_DELAY_US * UCCL_NS_PER_US,
						  UCCL_VERBS_RTO_MIN_US * UCCL_NS_PER_US};

static const struct profile *profile_of(const struct uccl_verbs_port *p)
{
	if (p->infiniband)
		return &profile_infiniband;
	/* Version 1 has no UDP port: its flow label says nothing either. */
	return strcmp(p->driver, "rxe") && p->roce_v2 ? &profile_roce : &profile_rxe;
}

/* Queue pairs. */

/* Its number is our address. */
static int receiver_open(struct ud *u)
{
	int err = uccl_ud_rq_open(u, &u->rq, 1);

	if (!err)
		u->self.scope = (u->self.scope & ~UD_QPN_MASK) | u->rq.qp->qp_num;
	return err;
}

/* Operations. */

static void ud_addr(struct uccl_nic *nic, struct uccl_nic_addr *out)
{
	*out = ud_of(nic)->self;
}

const struct uccl_verbs_ud_stats *uccl_verbs_ud_stats(struct uccl_nic *nic)
{
	return &ud_of(nic)->stats;
}

/* What was given to the NIC last are answers that peers wait for: let it take them before its queues end. */
static void sends_flush(struct ud *u)
{
	uint64_t until = u->clock() + FLUSH_NS;
	bool left;
	int i;

	do {
		left = false;
		uccl_ud_reap(u);
		for (i = 0; i < UD_QPS + UD_CONTROL_QPS; i++)
			left |= uccl_verbs_sq_awaits(&u->qp[i]);
		if (left)
			sched_yield();
	} while (left && u->clock() < until);
}

static void ud_close(struct uccl_nic *nic)
{
	struct ud *u = ud_of(nic);
	int i;

	if (u->tx_cq && u->link == UCCL_LINK_UP)
		sends_flush(u);
	for (i = 0; i < UD_QPS + UD_CONTROL_QPS; i++) {
		uccl_verbs_sq_end(u->lib, &u->qp[i], &u->tx);
		uccl_verbs_sq_fini(&u->qp[i]);
	}
	uccl_ud_rq_close(u, &u->rq);
	uccl_ud_device_rx_close(u);
	if (u->ahs)
		uccl_verbs_ahs_close(u->ahs);
	if (u->rx_cq)
		u->lib->destroy_cq(u->rx_cq);
	if (u->tx_cq)
		u->lib->destroy_cq(u->tx_cq);
	if (u->live)
		uccl_udp_live_close(u->live);
	if (u->wait_fd >= 0)
		close(u->wait_fd);
	if (u->kick_fd >= 0)
		close(u->kick_fd);
	if (u->channel)
		u->lib->destroy_comp_channel(u->channel);
	uccl_verbs_gpu_keep_close(&u->gpu_sources);
	uccl_verbs_slab_close(u->lib, &u->rx);
	uccl_verbs_slab_close(u->lib, &u->tx);
	if (u->pd)
		u->lib->dealloc_pd(u->pd);
	if (u->ctx)
		u->lib->close_device(u->ctx);
	free(u);
}

static int ud_connect(struct uccl_nic *nic, const struct uccl_nic_addr *to, uint64_t id, uint16_t paths,
		      struct uccl_nic_peer **peer)
{
	(void)id;
	(void)paths;
	*peer = (struct uccl_nic_peer *)uccl_ud_watch(ud_of(nic), to);
	return 0;
}

static void ud_disconnect(struct uccl_nic *nic, struct uccl_nic_peer *peer)
{
	uccl_ud_unwatch(ud_of(nic), (struct ud_watch *)peer);
}

static uint64_t ud_backlog(struct uccl_nic *nic)
{
	return uccl_verbs_slab_backlog(&ud_of(nic)->tx);
}

static const struct uccl_nic_ops ud_ops = {
	.name = "verbs-ud",
	.tx = uccl_ud_tx,
	.source = uccl_ud_source,
	.source_put = uccl_ud_source_put,
	.rx = uccl_ud_rx,
	.lend = uccl_ud_lend,
	.reuse = uccl_ud_reuse,
	.connect = ud_connect,
	.disconnect = ud_disconnect,
	.backlog = ud_backlog,
	.wait_fd = uccl_ud_wait_fd,
	.addr = ud_addr,
	.close = ud_close,
};

/* Opening. */

static uint32_t round64(uint32_t n)
{
	return (n + 63) & ~63u;
}

/* The NIC reads a packet's payload no more. */
static void packet_freed(void *arg, const struct uccl_verbs_sent *sent)
{
	struct ud *u = arg;

	if (sent->gpu)
		uccl_devcache_put(u->gpu_sources.cache, sent->gpu);
}

static int memory_open(struct ud *u, const struct uccl_nic_attr *attr)
{
	/* Whoever sends the largest packet that the port carries must not break the queue pair, whatever our MTU. */
	uint32_t rx_stride = UD_SKEW + UD_GRH + round64(u->port.mtu);
	uint32_t most = (uint32_t)uccl_min(uccl_min(u->port.max_qp_wr, u->port.max_cqe), RX_MAX);
	uint32_t count = (uint32_t)uccl_clamp((attr->rx_bytes ? attr->rx_bytes : RX_BYTES) / rx_stride, RX_MIN, most);
	int err;

	if (most < RX_MIN)
		return -FI_ENOSPC;
	u->rx.nodes = u->tx.nodes = attr->nodes;
	err = uccl_verbs_slab_open(u->lib, u->pd, u->port.name, &u->rx, rx_stride, count, RX_MIN,
				   IBV_ACCESS_LOCAL_WRITE, false);
	/* A little more than a power of two apart: else the heads of all would share one set of the cache. */
	count = (uint32_t)uccl_min(UD_TX_SLOTS, u->port.max_cqe);
	if (!err)
		err = uccl_verbs_slab_open(u->lib, u->pd, u->port.name, &u->tx, round64(u->nic.caps.mtu) + 64, count,
					   TX_MIN, 0, true);
	u->gpu_sources = (struct uccl_verbs_gpu_keep){.gpus = &u->gpus, .lib = u->lib, .pd = u->pd,
						      .name = u->port.name};
	if (!err)
		err = uccl_verbs_gpu_keep_open(&u->gpu_sources);
	if (err)
		return err;
	u->tx.freed = packet_freed;
	u->tx.freed_arg = u;
	return uccl_ud_rq_init(&u->rq, u->rx.count, u->rx.count);
}

/* No queue overflows: there are never more sends than pieces, nor more receives. */
static int queues_open(struct ud *u, bool lends)
{
	uint32_t receives = u->rx.count;

	u->channel = u->lib->create_comp_channel(u->ctx);
	if (!u->channel)
		return uccl_verbs_error();
	if (fcntl(u->channel->fd, F_SETFL, fcntl(u->channel->fd, F_GETFL) | O_NONBLOCK) ||
	    fcntl(u->ctx->async_fd, F_SETFL, fcntl(u->ctx->async_fd, F_GETFL) | O_NONBLOCK))
		return uccl_verbs_error();
	/* What comes to memory of a device takes places of its own, as many. */
	if (lends && u->port.max_sge >= 2 && 2 * receives <= u->port.max_cqe) {
		u->nic.caps.lend_slots = receives;
		u->nic.caps.lend_bytes = (2ull * receives + UD_RX_BATCH) * ud_device_rx_each(u);
		receives *= 2;
	}
	u->rx_cq = u->lib->create_cq(u->ctx, (int)receives, NULL, u->channel, 0);
	if (!u->rx_cq)
		return uccl_verbs_error();
	u->tx_cq = u->lib->create_cq(u->ctx, (int)u->tx.count, NULL, NULL, 0);
	return u->tx_cq ? 0 : uccl_verbs_error();
}

static int place_make(struct ud *u, const struct uccl_nic_attr *attr)
{
	struct {
		uint32_t scope;
		uint16_t port, pad;
		uint32_t flow;
	} r;

	do {
		if (getrandom(&r, sizeof(r), 0) != sizeof(r))
			return -FI_EIO;
	} while (!r.port);
	memcpy(u->self.ip, u->port.addr.ip, sizeof(u->self.ip));
	u->self.scope = r.scope & ~UD_QPN_MASK;
	u->self.port = r.port;
	if (attr->liveness)
		uccl_ud_live_open(u, &attr->ports);
	r.pad = (uint16_t)((r.pad & ~UD_LISTENS) | UD_ROCE_PAD | (u->live ? UD_LISTENS : 0));
	u->self.pad = u->port.infiniband ? u->port.lid : r.pad;
	u->flow_base = r.flow;
	return 0;
}

static int caps_fill(struct ud *u, const struct uccl_nic_attr *attr)
{
	const struct profile *p = profile_of(&u->port);
	struct uccl_nic_caps *caps = &u->nic.caps;

	if (attr->mtu && attr->mtu < MTU_MIN)
		return -FI_EINVAL;
	/* The NIC chooses the number of the queue pair. */
	if (attr->bind.port)
		return -FI_EADDRNOTAVAIL;
	if (u->port.infiniband && (!u->port.lid || u->port.lid >= UD_ROCE_PAD))
		return -FI_ENODEV;
	caps->mtu = (uint32_t)uccl_min(u->port.mtu, attr->mtu ? attr->mtu : u->port.mtu);
	caps->labels = (uint16_t)uccl_max(p->qps, p->flows);
	caps->tx_sync = true;
	caps->link_bps = u->port.link_bps;
	caps->delay_ns = p->delay_ns;
	caps->rto_min_ns = p->rto_min_ns;
	u->qps = p->qps;
	u->flows = p->flows;
	u->mark[0] = (struct uccl_verbs_mark){attr->data_class, attr->data_level};
	u->mark[1] = (struct uccl_verbs_mark){attr->control_class, attr->control_level};
	return 0;
}

static int senders_open(struct ud *u)
{
	uint32_t handles = u->port.max_ah ? (uint32_t)uccl_min(u->port.max_ah, AH_MAX) : AH_MAX;
	int err;

	/*
	 * Sends without a completion of their own keep their pieces until a later one of their queue pair: they may
	 * never be all, neither of the pieces nor of the handles.
	 */
	u->signal_every = (uint32_t)uccl_clamp(uccl_min(u->tx.count, handles) / 2 / UD_QPS, 1, UCCL_VERBS_SQ_DEPTH / 4);
	err = uccl_verbs_ahs_open(u->lib, u->pd, &u->port, handles, u->clock, &u->ahs);
	/* One of each kind exists from the start, so that there is one to fall back on. */
	if (!err)
		err = uccl_ud_qp_make(u, &u->qp[0]);
	if (!err)
		err = uccl_ud_qp_make(u, &u->qp[UD_QPS]);
	return err;
}

int uccl_verbs_ud_open(const struct uccl_verbs *lib, uint64_t (*clock)(void), const struct uccl_nic_attr *attr,
		       struct uccl_nic **nic)
{
	struct ud *u = calloc(1, sizeof(*u));
	int err;

	if (!u)
		return -FI_ENOMEM;
	u->nic.ops = &ud_ops;
	u->lib = lib;
	u->clock = clock;
	u->wait_fd = u->kick_fd = -1;
	err = uccl_verbs_open(lib, attr->ifname, attr->bind.ip, attr->linkless, &u->port, &u->ctx);
	u->shown = !err && uccl_verbs_present(u->ctx);
	if (!err)
		err = caps_fill(u, attr);
	if (!err)
		err = place_make(u, attr);
	if (!err) {
		u->pd = lib->alloc_pd(u->ctx);
		err = u->pd ? memory_open(u, attr) : uccl_verbs_error();
	}
	if (!err)
		err = queues_open(u, attr->lends);
	if (!err)
		err = receiver_open(u);
	if (!err)
		err = senders_open(u);
	if (err) {
		ud_close(&u->nic);
		return err;
	}
	/* Less what the caller has in hand, and what waits to be posted again. */
	u->nic.caps.rx_slots = u->rx.count - UD_RX_BATCH - UD_CHAIN;
	/* The context is older than the look at the port: an event tells of what came since. */
	if (!u->port.up)
		uccl_ud_link_set(u, UCCL_LINK_DOWN, "there is no link; it is used when there is one");
	*nic = &u->nic;
	return 0;
}

uint64_t uccl_ud_clock(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC_COARSE, &t);
	return (uint64_t)t.tv_sec * UCCL_NS_PER_S + (uint64_t)t.tv_nsec;
}

int uccl_nic_verbs_ud_open(const struct uccl_nic_attr *attr, struct uccl_nic **nic)
{
	const struct uccl_verbs *lib = uccl_verbs_lib();

	return lib ? uccl_verbs_ud_open(lib, uccl_ud_clock, attr, nic) : -FI_ENODEV;
}

#else

int uccl_nic_verbs_ud_open(const struct uccl_nic_attr *attr, struct uccl_nic **nic)
{
	(void)attr;
	(void)nic;
	return -FI_ENODEV;
}

#endif
