/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The verbs-ud back end: packets over unreliable datagram queue pairs. This file opens, closes and describes. */
#include "nic/verbs/ud_state.h"

#include <rdma/fi_errno.h>

#include "nic/nic.h"

#ifdef HAVE_VERBS

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "base/log.h"
#include "base/defaults.h"

#define MTU_MIN 256

/*
 * What selects a path, and usual delays, by kind of NIC. Soft-RoCE derives the UDP source port from the sending queue
 * pair, hardware from the flow label of the address handle; switches of InfiniBand look at queue pairs, if at anything.
 */
struct profile {
	uint16_t qps;
	uint16_t flows;
	uint64_t delay_ns, rto_min_ns;
};

/*
 * Soft-RoCE has no timestamps, and it often runs on emulated, shared processors: RTT samples of 1 to 100 ms were seen
 * where the wire takes 20 ms. With a lower delay, Swift takes all of that for congestion and stays at its least rate.
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

/* Operations. */

static void ud_addr(struct uccl_nic *nic, struct uccl_nic_addr *out)
{
	*out = ud_of(nic)->self;
}

static void ud_close(struct uccl_nic *nic)
{
	struct ud *u = ud_of(nic);

	uccl_ud_tx_close(u);
	uccl_ud_device_rx_close(u);
	uccl_ud_rx_close(u);
	uccl_ud_live_close(u);
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
	return uccl_verbs_slab_backlog(&ud_of(nic)->tx.slab);
}

static uint64_t ud_expiry(struct uccl_nic *nic)
{
	return uccl_ud_live_expiry(ud_of(nic));
}

static const struct uccl_nic_ops ud_ops = {
	.name = "verbs-ud",
	.tx = uccl_ud_tx,
	.source = uccl_ud_source,
	.source_put = uccl_ud_source_put,
	.source_stop = uccl_ud_source_stop,
	.rx = uccl_ud_rx,
	.device_rx_open = uccl_ud_device_rx_open,
	.device_rx_free = uccl_ud_device_rx_free,
	.connect = ud_connect,
	.disconnect = ud_disconnect,
	.backlog = ud_backlog,
	.wait_fd = uccl_ud_wait_fd,
	.expiry = ud_expiry,
	.addr = ud_addr,
	.close = ud_close,
};

/* Opening. */

static int place_make(struct ud *u, const struct uccl_nic_attr *attr)
{
	struct {
		uint32_t scope;
		uint16_t port, pad;
		uint32_t flow;
	} r;
	uint16_t port;

	do {
		if (getrandom(&r, sizeof(r), 0) != sizeof(r))
			return -FI_EIO;
	} while (!r.port);
	memcpy(u->self.ip, u->port.addr.ip, sizeof(u->self.ip));
	u->self.scope = r.scope & ~UD_QPN_MASK;
	u->self.port = r.port;
	port = attr->liveness ? uccl_ud_live_open(u, &attr->ports) : 0;
	if (port)
		u->self.port = port;
	r.pad = (uint16_t)((r.pad & ~UD_LISTENS) | UD_ROCE_PAD | (port ? UD_LISTENS : 0));
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
	u->nodes = attr->nodes;
	u->mark[0] = (struct uccl_verbs_mark){attr->data_class, attr->data_level};
	u->mark[1] = (struct uccl_verbs_mark){attr->control_class, attr->control_level};
	return 0;
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
	err = uccl_verbs_open(lib, attr->ifname, attr->bind.ip, attr->linkless, &u->port, &u->ctx);
	u->shown = !err && uccl_verbs_present(u->ctx);
	if (!err)
		err = caps_fill(u, attr);
	if (!err)
		err = place_make(u, attr);
	if (!err) {
		u->pd = lib->alloc_pd(u->ctx);
		err = u->pd ? uccl_ud_rx_open(u, attr) : uccl_verbs_error();
	}
	if (!err) {
		/* The number of the queue pair that receives is our address. */
		u->self.scope = (u->self.scope & ~UD_QPN_MASK) | u->rx.rq.qp->qp_num;
		err = uccl_ud_tx_open(u);
	}
	if (err) {
		ud_close(&u->nic);
		return err;
	}
	/* All but those that the caller has, and those that wait to be posted again. */
	u->nic.caps.rx_slots = u->rx.slab.count - UD_RX_BATCH - UD_CHAIN;
	if (u->rx.device_slots) {
		u->nic.caps.device_rx_slots = u->rx.device_slots;
		u->nic.caps.device_rx_bytes = (2ull * u->rx.device_slots + UD_RX_BATCH) * ud_device_rx_slot_bytes(u);
	}
	/* The port was read after the device was opened: an event reports changes since then. */
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
