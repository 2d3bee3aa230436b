/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Endpoint objects: life, binding, options. The engine is made when the program enables the endpoint, or earlier if it
 * asks for the name first. Data transfer is in xfer.c.
 */
#include "api/ep.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_ext_uccl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "api/address.h"
#include "api/atomic.h"
#include "api/attr.h"
#include "api/av.h"
#include "api/cm.h"
#include "api/cntr.h"
#include "api/coll.h"
#include "api/cq.h"
#include "api/device.h"
#include "api/domain.h"
#include "api/eq.h"
#include "api/info.h"
#include "api/lib.h"
#include "api/linkshare.h"
#include "api/live.h"
#include "api/mr.h"
#include "api/msg.h"
#include "api/named.h"
#include "api/nosys.h"
#include "api/openops.h"
#include "api/pep.h"
#include "api/place.h"
#include "api/rma.h"
#include "api/sep.h"
#include "api/shared.h"
#include "api/stats.h"
#include "api/tagged.h"
#include "api/tracefile.h"
#include "hmem/stage.h"
#include "nic/ifaddr.h"

/* A close ends after this time even if the engine found a reason to wait longer. */
#define CLOSE_MAX_NS (10 * UCCL_NS_PER_S)

/* Options of libfabric versions after 1.17. */
#define OPT_CUDA_API_PERMITTED 10
#define OPT_SHARED_MEMORY_PERMITTED 11
#define OPT_MAX_MSG_SIZE 12
#define OPT_MAX_TAGGED_SIZE 13
#define OPT_MAX_RMA_SIZE 14
#define OPT_MAX_ATOMIC_SIZE 15
#define OPT_INJECT_MSG_SIZE 16
#define OPT_INJECT_TAGGED_SIZE 17
#define OPT_INJECT_RMA_SIZE 18
#define OPT_INJECT_ATOMIC_SIZE 19

static struct uccl_ep_fid *fid_of(struct fid *fid)
{
	return uccl_container_of(fid, struct uccl_ep_fid, fid.fid);
}

static int ep_round(struct uccl_ep *ep, uint64_t now)
{
	int n = 0;

	uccl_ep_lock(ep);
	if (ep->engine) {
		n = uccl_engine_poll(ep->engine, now);
		if (ep->colls)
			uccl_coll_run(ep, n, now);
		if (ep->srx && (n > 0 || ep->srx_look))
			n += uccl_srx_serve(ep, now);
		if (ep->cm)
			uccl_cm_run(ep, now);
		if (n > 0)
			uccl_ep_kick(ep);
		if (ep->live)
			uccl_live_refresh(ep->live, ep, now);
	}
	uccl_ep_unlock(ep);
	if (uccl_triggers_due(&ep->domain->triggers))
		uccl_triggers_run(ep->domain);
	return n;
}

int uccl_ep_drive(struct uccl_ep *ep)
{
	/* The sockets of a parent belong to the parent. */
	return ep->forks == uccl_forks ? ep_round(ep, uccl_clock()) : 0;
}

/* Sleep until a packet comes, for a moment. */
static void ep_nap(struct uccl_ep *ep)
{
	const struct timespec moment = {.tv_nsec = UCCL_NAP_NS};
	struct pollfd pfd = {.events = POLLIN};

	/* The first call makes it. */
	uccl_ep_lock(ep);
	pfd.fd = uccl_ep_fd(ep);
	uccl_ep_unlock(ep);
	if (pfd.fd < 0)
		sched_yield();
	else
		ppoll(&pfd, 1, &moment, NULL);
}

static void ep_idle(struct uccl_ep *ep)
{
	uint64_t before;

	switch (uccl_idle_next(&ep->idle)) {
	case UCCL_IDLE_YIELD:
		before = uccl_clock();
		sched_yield();
		uccl_idle_yielded(&ep->idle, uccl_clock() - before);
		break;
	case UCCL_IDLE_NAP:
		ep_nap(ep);
		break;
	default:
		break;
	}
}

int uccl_ep_progress(struct uccl_ep *ep)
{
	uint64_t now = uccl_clock();
	int n;

	if (ep->forks != uccl_forks)
		return 0;
	n = ep_round(ep, now);
	atomic_store_explicit(&ep->called_ns, now, memory_order_relaxed);
	if (n > 0 && uccl_rescue_asleep(&ep->domain->rescue))
		uccl_rescue_arm(&ep->domain->rescue, uccl_ep_expiry(ep));
	if (n > 0)
		uccl_idle_reset(&ep->idle);
	else
		ep_idle(ep);
	return n;
}

uint64_t uccl_ep_expiry(struct uccl_ep *ep)
{
	uint64_t at = UCCL_NEVER;

	uccl_ep_lock(ep);
	if (ep->engine)
		at = uccl_min(uccl_engine_expiry(ep->engine), ep->cm ? uccl_cm_expiry(ep) : UCCL_NEVER);
	uccl_ep_unlock(ep);
	return at;
}

int uccl_ep_fd(struct uccl_ep *ep)
{
	int fd = ep->engine ? uccl_engine_wait_fd(ep->engine) : -1;

	return fd < 0 ? -1 : fd;
}

void uccl_ep_kick(struct uccl_ep *ep)
{
	for (unsigned int i = 0; i < ep->nwaits; i++)
		if (atomic_load(&ep->waits[i]->until))
			uccl_wait_kick(ep->waits[i], uccl_engine_expiry(ep->engine));
}

void uccl_ep_forget(struct uccl_ep *ep)
{
	ep->av_generation = atomic_load(ep->av->generation);
	for (uint64_t i = 0; i < ep->npeers; i++) {
		if (ep->peers[i])
			uccl_peer_set_user(ep->peers[i], UINT64_MAX);
		ep->peers[i] = NULL;
	}
	for (uint64_t i = 0; i < ep->nsources; i++)
		uccl_peer_set_user(ep->sources[i], UINT64_MAX);
	ep->nsources = 0;
}

/* Room for handle `index` in the list of peers. */
static bool peers_reach(struct uccl_ep *ep, uint64_t index)
{
	uint64_t n = ep->npeers ? ep->npeers : 16;
	struct uccl_peer **v;

	if (index < ep->npeers)
		return true;
	while (n <= index)
		n *= 2;
	v = realloc(ep->peers, n * sizeof(*v));
	if (!v)
		return false;
	memset(v + ep->npeers, 0, (n - ep->npeers) * sizeof(*v));
	ep->peers = v;
	ep->npeers = n;
	return true;
}

struct uccl_peer *uccl_ep_peer_lookup(struct uccl_ep *ep, fi_addr_t fi_addr)
{
	uint64_t slot = uccl_ep_slot(ep, fi_addr);
	struct uccl_addr addr;
	struct uccl_peer *peer;

	if (uccl_av_get(ep->av, fi_addr, &addr) || !peers_reach(ep, slot))
		return NULL;
	peer = uccl_engine_peer(ep->engine, &addr, true);
	if (!peer)
		return NULL;
	ep->peers[slot] = peer;
	/* An address may have several handles: the first one in use is the one that completions name. */
	if (uccl_peer_user(peer) == UINT64_MAX)
		uccl_peer_set_user(peer, fi_addr & ~0ull >> ep->ctx_bits);
	return peer;
}

/* In a list it is found again when everything must be forgotten. False: out of memory. */
static bool source_keep(struct uccl_ep *ep, fi_addr_t found, struct uccl_peer *peer)
{
	struct uccl_peer **v;

	if (!ep->ctx_bits) {
		if (!peers_reach(ep, found))
			return false;
		ep->peers[found] = peer;
		return true;
	}
	if (!(ep->nsources & (ep->nsources - 1))) {
		v = realloc(ep->sources, (ep->nsources ? ep->nsources * 2 : 1) * sizeof(*v));
		if (!v)
			return false;
		ep->sources = v;
	}
	ep->sources[ep->nsources++] = peer;
	return true;
}

fi_addr_t uccl_ep_source(struct uccl_ep *ep, struct uccl_peer *peer)
{
	fi_addr_t found;

	if (!peer || !ep->av)
		return FI_ADDR_NOTAVAIL;
	if (ep->av_generation != atomic_load_explicit(ep->av->generation, memory_order_relaxed))
		uccl_ep_forget(ep);
	if (uccl_peer_user(peer) != UINT64_MAX)
		return uccl_peer_user(peer);
	found = uccl_av_find(ep->av, uccl_peer_addr(peer));
	if (found == FI_ADDR_NOTAVAIL)
		return found;
	if (source_keep(ep, found, peer))
		uccl_peer_set_user(peer, found);
	return found;
}

static void fill_random(void *arg, void *buf, size_t len)
{
	uint8_t *p = buf;

	(void)arg;
	while (len) {
		ssize_t n = getrandom(p, len, 0);

		if (n > 0) {
			p += n;
			len -= n;
		}
	}
}

static uint64_t fault_clock(void *arg)
{
	(void)arg;
	return uccl_clock();
}

/* Of this process. */
static struct uccl_qp_budget qp_budget;

/* Once in a process: paths are told apart by their source ports, and these are too few for so many. */
static void few_ports_say(const struct uccl_params *p)
{
	static _Atomic bool said;
	uint32_t ports = uccl_ports_count(&p->ports);

	if (ports <= p->paths && !uccl_place_rdma(p) && !atomic_exchange(&said, true))
		uccl_warn(FI_LOG_EP_CTRL,
			  "FI_UCCL_PORTS=%u-%u: %u ports are enough for %u path%s, not for FI_UCCL_PATHS=%u\n",
			  p->ports.first, p->ports.last, ports, ports - 1, ports > 2 ? "s" : "",
			  (unsigned int)p->paths);
}

static int nic_open(struct uccl_ep *ep, struct uccl_nic **out)
{
	const struct uccl_params *p = &ep->domain->params;
	struct uccl_nic_attr attr = {
		.ifname = ep->domain->name,
		.bind = ep->src,
		.mtu = p->mtu,
		.rx_bytes = p->rcvbuf_bytes,
		.max_qp = (uint32_t)p->max_qp,
		.srq_depth = (uint32_t)p->srq_depth,
		.write_bytes = (uint32_t)p->write_bytes,
		.budget = &qp_budget,
		.ports = p->ports,
		.liveness = p->liveness,
		.timestamps = true,
	};
	struct uccl_nic *nic;
	const char *why = "";
	int rc;

	/* No queue pair has a port of ours: others find it by one, see uccl_named_open. */
	if (uccl_place_rdma(p) && !ep->src.pad)
		attr.bind.port = 0;
	fill_random(NULL, &attr.seed, sizeof(attr.seed));
	if (uccl_ports_limited(&p->ports)) {
		/* Each label costs a port that other processes want too: one for each path, and no spare ones. */
		attr.labels = (uint16_t)p->paths;
		few_ports_say(p);
	}
	rc = uccl_place_open(p, &attr, &nic);
	if (rc) {
		char place[UCCL_ADDRESS_TEXT];

		uccl_address_place_text(&ep->src, place, sizeof(place));
		uccl_warn(FI_LOG_EP_CTRL, "cannot open an endpoint at %s on interface %s: %s\n", place,
			  ep->domain->name, uccl_lib.strerror(-rc));
		return rc;
	}
	if (*p->fault) {
		rc = uccl_nic_fault_open(nic, p->fault, fault_clock, NULL, out, &why);
		if (rc) {
			uccl_warn(FI_LOG_EP_CTRL, "FI_UCCL_FAULT: %s\n", why);
			nic->ops->close(nic);
		}
		return rc;
	}
	*out = nic;
	return 0;
}

/* Does a peer need our key? Programs that agree on a port, or exchange socket addresses, cannot pass one on. */
static bool want_keyless(const struct uccl_ep *ep)
{
	uint64_t mode = ep->domain->params.keyless;

	if (mode != UCCL_KEYLESS_AUTO)
		return mode == UCCL_KEYLESS_YES;
	/* Who asks for the address is told the key with it. */
	if (uccl_place_rdma(&ep->domain->params))
		return false;
	/* Of connected endpoints only who listens is found by a port. */
	if (ep->cm && !uccl_cm_listens(ep))
		return false;
	return (ep->src.port && !ep->src_row) || uccl_address_is_sock(ep->addr_format);
}

/* What a program leaves unread must not grow with what others send. */
static bool ep_room(void *arg)
{
	struct uccl_ep *ep = arg;

	return !ep->rx_cq || !uccl_cq_full(ep->rx_cq);
}

static uint32_t ep_sharers(void *arg, uint64_t now)
{
	return uccl_linkshare_busy(arg, now);
}

/* Where there is no such memory each endpoint takes the link for its own. */
static void linkshare_open(struct uccl_ep *ep, struct uccl_engine_attr *attr)
{
	const struct uccl_credit_ops *credit = uccl_credit_find(attr->config->credit);
	char folder[64];

	if (!credit || !credit->pull || !attr->nic->caps.link_bps || uccl_live_folder(folder, sizeof(folder)))
		return;
	ep->linkshare = uccl_linkshare_open(folder, ep->domain->name);
	if (!ep->linkshare) {
		uccl_warn(FI_LOG_EP_CTRL, "endpoints on %s do not share its line rate: no file in /dev/shm: %s\n",
			  ep->domain->name, strerror(errno));
		return;
	}
	attr->sharers = ep_sharers;
	attr->sharers_arg = ep->linkshare;
}

/* At a port that was chosen for an endpoint without ports. */
static int named_open(struct uccl_ep *ep)
{
	const struct uccl_params *p = &ep->domain->params;
	struct uccl_nic_addr own = uccl_engine_addr(ep->engine)->nic, *at;
	int n, rc;

	if (!uccl_place_rdma(p) || !ep->src.port)
		return 0;
	if (!uccl_named_allowed(p)) {
		uccl_warn(FI_LOG_EP_CTRL,
			  "peers cannot ask for this endpoint at port %u: FI_UCCL_KEYLESS=0 or FI_UCCL_SECURITY "
			  "forbids it\n",
			  ep->src.port);
		return -FI_EADDRNOTAVAIL;
	}
	own.port = ep->src.port;
	own.pad = 0;
	own.scope = 0;
	n = uccl_named_places(p, &own, &at);
	if (n < 0)
		return n;
	rc = uccl_named_open(at, n, uccl_engine_addr(ep->engine), &ep->named);
	if (rc)
		uccl_warn(FI_LOG_EP_CTRL, "peers cannot ask for this endpoint at port %u: %s\n", ep->src.port,
			  uccl_lib.strerror(-rc));
	free(at);
	return rc;
}

int uccl_ep_start(struct uccl_ep *ep, const struct uccl_addr *identity)
{
	struct uccl_config config;
	struct uccl_engine_attr attr = {
		.config = &config,
		.random = fill_random,
		.target = &uccl_mr_target,
		.target_arg = ep,
		.room = ep_room,
		.room_arg = ep,
		.data_takes = ep->data_takes,
		.identity = identity,
		.connected = ep->cm,
		.group = ep->group,
		.interface = ep->domain->name,
	};
	int rc;

	if (ep->engine)
		return 0;
	rc = nic_open(ep, &attr.nic);
	if (rc)
		return rc;
	if (ep->hmem) {
		rc = uccl_stage_open(ep->hmem, &ep->stage);
		if (rc) {
			attr.nic->ops->close(attr.nic);
			return rc;
		}
		attr.device = &uccl_stage_device;
		attr.device_arg = ep->stage;
	}
	uccl_params_config(&ep->domain->params, &config);
	config.keyless = want_keyless(ep);
	if (config.security)
		uccl_mac_begin();
	if (*ep->domain->params.trace)
		ep->trace = uccl_tracefile_open(ep->domain->params.trace, ep->domain->params.trace_records);
	attr.trace = ep->trace ? uccl_tracefile_ring(ep->trace) : NULL;
	linkshare_open(ep, &attr);
	rc = uccl_engine_open(&attr, uccl_clock(), &ep->engine);
	if (rc) {
		uccl_warn(FI_LOG_EP_CTRL, "cannot start the endpoint on interface %s: %s\n", ep->domain->name,
			  uccl_lib.strerror(-rc));
		uccl_tracefile_close(ep->trace);
		uccl_linkshare_close(ep->linkshare);
		uccl_stage_close(ep->stage);
		ep->trace = NULL;
		ep->linkshare = NULL;
		ep->stage = NULL;
		return rc;
	}
	if (ep->domain->params.live)
		ep->live = uccl_live_open(ep);
	rc = named_open(ep);
	if (rc)
		uccl_ep_stop(ep);
	return rc;
}

void uccl_ep_stop(struct uccl_ep *ep)
{
	if (!ep->engine)
		return;
	uccl_named_close(ep->named, ep->engine);
	uccl_live_close(ep->live);
	uccl_engine_close(ep->engine);
	uccl_tracefile_close(ep->trace);
	uccl_linkshare_close(ep->linkshare);
	uccl_stage_close(ep->stage);
	ep->stage = NULL;
	ep->linkshare = NULL;
	ep->named = NULL;
	ep->live = NULL;
	ep->engine = NULL;
	ep->trace = NULL;
}

/* The contexts of a scalable endpoint begin together. No lock is held. */
static int ep_start(struct uccl_ep *ep)
{
	int rc;

	if (ep->sep)
		return uccl_sep_start(ep->sep);
	uccl_ep_lock(ep);
	rc = uccl_ep_start(ep, NULL);
	uccl_ep_unlock(ep);
	return rc;
}

/* Everything that can sleep until this endpoint has something is told where to look. */
static int connect_waits(struct uccl_ep *ep)
{
	int fd = uccl_ep_fd(ep), rc = 0;

	for (unsigned int i = 0; i < ep->nwaits && !rc; i++)
		rc = uccl_wait_add(ep->waits[i], fd);
	return rc;
}

static void note_wait(struct uccl_ep *ep, struct uccl_wait *w)
{
	for (unsigned int i = 0; i < ep->nwaits; i++)
		if (ep->waits[i] == w)
			return;
	if (w->obj != FI_WAIT_NONE)
		ep->waits[ep->nwaits++] = w;
}

/* Is there something that tells of what completes? */
static bool tx_heard(const struct uccl_ep *ep)
{
	bool told = ep->tx_cq || ep->cntr[UCCL_CNTR_SEND];

	return (!ep->can_send || told) &&
	       (!ep->can_rma || told || ep->cntr[UCCL_CNTR_READ] || ep->cntr[UCCL_CNTR_WRITE]);
}

static bool rx_heard(const struct uccl_ep *ep)
{
	return !ep->can_recv || ep->rx_cq || ep->cntr[UCCL_CNTR_RECV];
}

static int ep_ready(const struct uccl_ep *ep)
{
	if (ep->enabled)
		return -FI_EOPBADSTATE;
	if (!ep->av && !ep->cm)
		return -FI_ENOAV;
	if ((ep->ways & UCCL_TX && !tx_heard(ep)) || (ep->ways & UCCL_RX && !rx_heard(ep)))
		return -FI_ENOCQ;
	return ep->ways & UCCL_RX && ep->rx_shared && !ep->srx ? -FI_EOPBADSTATE : 0;
}

static int ep_enable(struct uccl_ep *ep)
{
	int rc = connect_waits(ep);

	if (!rc && ep->domain->auto_progress) {
		rc = uccl_auto_start(&ep->autop, ep);
		if (!rc)
			note_wait(ep, &ep->autop.wait);
	}
	if (!rc)
		ep->enabled = ep->ways;
	return rc;
}

int uccl_ep_activate(struct uccl_ep *ep)
{
	int rc = ep_start(ep);

	if (rc)
		return rc;
	uccl_ep_lock(ep);
	rc = ep_enable(ep);
	uccl_ep_unlock(ep);
	return rc ? rc : uccl_domain_join(ep->domain, ep);
}

static int bind_cq(struct uccl_ep *ep, struct uccl_cq *cq, uint64_t flags)
{
	int rc;

	if (flags & ~(FI_TRANSMIT | FI_RECV | FI_SELECTIVE_COMPLETION) || !(flags & (FI_TRANSMIT | FI_RECV)) ||
	    cq->domain != ep->domain)
		return -FI_EINVAL;
	if ((flags & FI_TRANSMIT && ep->tx_cq) || (flags & FI_RECV && ep->rx_cq))
		return -FI_EINVAL;
	rc = uccl_ep_list_add(&cq->eps, ep);
	if (rc)
		return rc;
	if (flags & FI_TRANSMIT) {
		ep->tx_cq = cq;
		ep->tx_selective = flags & FI_SELECTIVE_COMPLETION;
		atomic_fetch_add(&cq->refs, 1);
	}
	if (flags & FI_RECV) {
		ep->rx_cq = cq;
		ep->rx_selective = flags & FI_SELECTIVE_COMPLETION;
		atomic_fetch_add(&cq->refs, 1);
	}
	note_wait(ep, &cq->wait);
	return 0;
}

static const uint64_t cntr_flags[UCCL_CNTR_SLOTS] = {
	[UCCL_CNTR_SEND] = FI_SEND,
	[UCCL_CNTR_RECV] = FI_RECV,
	[UCCL_CNTR_READ] = FI_READ,
	[UCCL_CNTR_WRITE] = FI_WRITE,
	[UCCL_CNTR_REMOTE_READ] = FI_REMOTE_READ,
	[UCCL_CNTR_REMOTE_WRITE] = FI_REMOTE_WRITE,
};

static int bind_cntr(struct uccl_ep *ep, struct uccl_cntr *cntr, uint64_t flags)
{
	uint64_t all = 0;
	int rc;

	for (int i = 0; i < UCCL_CNTR_SLOTS; i++) {
		all |= cntr_flags[i];
		if (flags & cntr_flags[i] && ep->cntr[i])
			return -FI_EINVAL;
	}
	if (!flags || flags & ~all || cntr->domain != ep->domain)
		return -FI_EINVAL;
	rc = uccl_ep_list_add(&cntr->eps, ep);
	if (rc)
		return rc;
	for (int i = 0; i < UCCL_CNTR_SLOTS; i++) {
		if (flags & cntr_flags[i]) {
			ep->cntr[i] = cntr;
			atomic_fetch_add(&cntr->refs, 1);
		}
	}
	note_wait(ep, &cntr->wait);
	return 0;
}

int uccl_ep_bind_av(struct uccl_ep *ep, struct uccl_av *av)
{
	if (ep->av || ep->cm || av->domain != ep->domain)
		return -FI_EINVAL;
	ep->av = av;
	ep->ctx_bits = av->ctx_bits;
	ep->av_generation = atomic_load(av->generation);
	atomic_fetch_add(&av->refs, 1);
	return 0;
}

static int bind_srx(struct uccl_ep *ep, struct uccl_srx *srx)
{
	int rc;

	if (ep->srx || srx->domain != ep->domain)
		return -FI_EINVAL;
	if (ep->data_takes)
		return -FI_EOPNOTSUPP; /* they would look for a receive of the endpoint's own */
	rc = uccl_ep_list_add(&srx->eps, ep);
	if (rc)
		return rc;
	ep->srx = srx;
	atomic_fetch_add(&srx->refs, 1);
	return 0;
}

static int bind_stx(struct uccl_ep *ep, struct uccl_stx *stx)
{
	if (ep->stx || stx->domain != ep->domain)
		return -FI_EINVAL;
	ep->stx = stx;
	atomic_fetch_add(&stx->refs, 1);
	return 0;
}

/* For what becomes of a connection; a connectionless endpoint tells of joining groups of collectives only. */
int uccl_ep_bind_eq(struct uccl_ep *ep, struct uccl_eq *eq)
{
	if (ep->eq)
		return -FI_EINVAL;
	if (ep->cm) {
		int rc = uccl_ep_list_add(&eq->eps, ep);

		if (rc)
			return rc;
		note_wait(ep, &eq->wait);
	}
	ep->eq = eq;
	atomic_fetch_add(&eq->refs, 1);
	return 0;
}

static int ep_bind(struct fid *fid, struct fid *bfid, uint64_t flags)
{
	struct uccl_ep *ep = fid_of(fid)->ep;

	if (ep->enabled)
		return -FI_EOPBADSTATE;
	switch (bfid->fclass) {
	case FI_CLASS_AV:
		return uccl_ep_bind_av(ep, uccl_container_of(bfid, struct uccl_av, fid.fid));
	case FI_CLASS_CQ:
		return bind_cq(ep, uccl_container_of(bfid, struct uccl_cq, fid.fid), flags);
	case FI_CLASS_CNTR:
		return bind_cntr(ep, uccl_container_of(bfid, struct uccl_cntr, fid.fid), flags);
	case FI_CLASS_SRX_CTX:
		return bind_srx(ep, uccl_container_of(bfid, struct uccl_srx, self.fid.fid));
	case FI_CLASS_STX_CTX:
		return bind_stx(ep, uccl_container_of(bfid, struct uccl_stx, fid.fid));
	case FI_CLASS_EQ:
		return uccl_ep_bind_eq(ep, uccl_container_of(bfid, struct uccl_eq, fid.fid));
	default:
		return -FI_EINVAL;
	}
}

static void unbind_all(struct uccl_ep *ep)
{
	int fd = uccl_ep_fd(ep);

	/* First: from here on no thread of ours, and nobody who reads another queue, is inside. */
	uccl_domain_leave(ep->domain, ep);
	for (unsigned int i = 0; i < ep->nwaits; i++)
		uccl_wait_remove(ep->waits[i], fd);
	ep->nwaits = 0;
	if (ep->tx_cq)
		uccl_ep_list_remove(&ep->tx_cq->eps, ep);
	if (ep->rx_cq)
		uccl_ep_list_remove(&ep->rx_cq->eps, ep);
	if (ep->srx)
		uccl_ep_list_remove(&ep->srx->eps, ep);
	if (ep->cm && ep->eq)
		uccl_ep_list_remove(&ep->eq->eps, ep);
	for (int i = 0; i < UCCL_CNTR_SLOTS; i++)
		if (ep->cntr[i])
			uccl_ep_list_remove(&ep->cntr[i]->eps, ep);
}

static void drop_refs(struct uccl_ep *ep)
{
	if (ep->tx_cq)
		atomic_fetch_sub(&ep->tx_cq->refs, 1);
	if (ep->rx_cq)
		atomic_fetch_sub(&ep->rx_cq->refs, 1);
	for (int i = 0; i < UCCL_CNTR_SLOTS; i++)
		if (ep->cntr[i])
			atomic_fetch_sub(&ep->cntr[i]->refs, 1);
	if (ep->av)
		atomic_fetch_sub(&ep->av->refs, 1);
	if (ep->srx)
		atomic_fetch_sub(&ep->srx->refs, 1);
	if (ep->stx)
		atomic_fetch_sub(&ep->stx->refs, 1);
	if (ep->eq)
		atomic_fetch_sub(&ep->eq->refs, 1);
	atomic_fetch_sub(&ep->domain->refs, 1);
}

/* Tell the peers, and stay until they know; the engine says when that has taken long enough. */
static void ep_linger(struct uccl_ep *ep)
{
	uint64_t now = uccl_clock(), end = now + CLOSE_MAX_NS;
	struct uccl_wait wait;

	uccl_engine_drain(ep->engine, now);
	if (uccl_wait_open(&wait, FI_WAIT_FD))
		return;
	uccl_wait_add(&wait, uccl_ep_fd(ep));
	for (;;) {
		now = uccl_clock();
		uccl_engine_poll(ep->engine, now);
		if (uccl_engine_drained(ep->engine) || now >= end)
			break;
		uccl_wait_sleep(&wait, uccl_min(end, uccl_engine_expiry(ep->engine)));
	}
	uccl_wait_close(&wait);
}

static int ep_close(struct fid *fid)
{
	struct uccl_ep *ep = fid_of(fid)->ep;

	if (&ep->self != fid_of(fid)) {
		atomic_fetch_sub(&ep->refs, 1);
		free(fid_of(fid));
		return 0;
	}
	if (atomic_load(&ep->refs))
		return -FI_EBUSY;
	if (ep->sep)
		uccl_sep_left(ep->sep, ep);
	/*
	 * In a forked child nothing is sent for the parent's endpoint, and its locks may be held for ever: only the
	 * memory of this object is given back.
	 */
	if (ep->forks != uccl_forks) {
		uccl_named_close(ep->named, NULL);
		drop_refs(ep);
		free(ep->cm);
		uccl_coll_fini(ep);
		free(ep->peers);
		free(ep->sources);
		free(ep);
		return 0;
	}
	uccl_auto_stop(&ep->autop);
	unbind_all(ep);
	if (ep->cm)
		uccl_cm_leave(ep);
	ep->closing = true;
	if (ep->engine) {
		uccl_named_close(ep->named, ep->engine);
		ep->named = NULL;
		ep_linger(ep);
		uccl_stats_write(ep);
		uccl_ep_stop(ep);
	}
	uccl_coll_fini(ep);
	drop_refs(ep);
	free(ep->cm);
	pthread_mutex_destroy(&ep->lock);
	free(ep->peers);
	free(ep->sources);
	free(ep);
	return 0;
}

static struct fi_ops ep_fid_ops;

/* An alias shares everything but the default flags. */
static int ep_alias(struct uccl_ep_fid *f, struct fi_alias *alias)
{
	uint64_t flags = alias->flags & ~(FI_TRANSMIT | FI_RECV);
	struct uccl_ep_fid *a;

	if (!(alias->flags & (FI_TRANSMIT | FI_RECV)))
		return -FI_EINVAL;
	a = malloc(sizeof(*a));
	if (!a)
		return -FI_ENOMEM;
	*a = *f;
	if (alias->flags & FI_TRANSMIT)
		a->tx_flags = flags;
	if (alias->flags & FI_RECV)
		a->rx_flags = flags;
	atomic_fetch_add(&f->ep->refs, 1);
	*alias->fid = &a->fid.fid;
	return 0;
}

/* The direction whose flags are meant is one of the flags. */
static int ep_opsflag(struct uccl_ep_fid *f, uint64_t *flags, bool set)
{
	uint64_t *own;

	if (!(*flags & FI_TRANSMIT) == !(*flags & FI_RECV))
		return -FI_EINVAL;
	own = *flags & FI_TRANSMIT ? &f->tx_flags : &f->rx_flags;
	if (set)
		*own = *flags & ~(FI_TRANSMIT | FI_RECV);
	else
		*flags = *own;
	return 0;
}

static int ep_control(struct fid *fid, int command, void *arg)
{
	struct uccl_ep_fid *f = fid_of(fid);
	int rc;

	switch (command) {
	case FI_ENABLE:
		if (f->ep->forks != uccl_forks)
			return -FI_EOPBADSTATE;
		rc = ep_ready(f->ep);
		return rc ? rc : uccl_ep_activate(f->ep);
	case FI_ALIAS:
		return ep_alias(f, arg);
	case FI_GETOPSFLAG:
		return ep_opsflag(f, arg, false);
	case FI_SETOPSFLAG:
		return ep_opsflag(f, arg, true);
	default:
		return -FI_ENOSYS;
	}
}

static ssize_t ep_cancel(struct fid *fid, void *context)
{
	struct uccl_ep *ep = fid_of(fid)->ep;
	int rc = -FI_EOPBADSTATE;

	if (ep->forks != uccl_forks)
		return rc;
	uccl_ep_lock(ep);
	if (ep->engine)
		rc = uccl_engine_cancel(ep->engine, context, uccl_clock());
	uccl_ep_unlock(ep);
	return rc;
}

int uccl_ep_give_size(void *optval, size_t *optlen, size_t value)
{
	if (*optlen < sizeof(value)) {
		*optlen = sizeof(value);
		return -FI_ETOOSMALL;
	}
	memcpy(optval, &value, sizeof(value));
	*optlen = sizeof(value);
	return 0;
}

static int give_bool(void *optval, size_t *optlen, bool value)
{
	if (*optlen < sizeof(value)) {
		*optlen = sizeof(value);
		return -FI_ETOOSMALL;
	}
	memcpy(optval, &value, sizeof(value));
	*optlen = sizeof(value);
	return 0;
}

/* The NIC never reaches a device's memory by itself. */
static int give_p2p(void *optval, size_t *optlen)
{
	int p2p = FI_HMEM_P2P_DISABLED;

	if (*optlen < sizeof(p2p)) {
		*optlen = sizeof(p2p);
		return -FI_ETOOSMALL;
	}
	memcpy(optval, &p2p, sizeof(p2p));
	*optlen = sizeof(p2p);
	return 0;
}

static int take_p2p(const void *optval, size_t optlen)
{
	int p2p;

	if (optlen != sizeof(p2p))
		return -FI_EINVAL;
	memcpy(&p2p, optval, sizeof(p2p));
	if (p2p < FI_HMEM_P2P_ENABLED || p2p > FI_HMEM_P2P_DISABLED)
		return -FI_EINVAL;
	return p2p == FI_HMEM_P2P_REQUIRED ? -FI_EOPNOTSUPP : 0;
}

/* Without calls of CUDA memory of GPUs cannot be reached; who has none of it may forbid them. */
static int take_cuda(const struct uccl_ep *ep, const void *optval, size_t optlen)
{
	bool may;

	if (optlen != sizeof(may))
		return -FI_EINVAL;
	memcpy(&may, optval, sizeof(may));
	return ep->hmem && !may ? -FI_EOPNOTSUPP : 0;
}

/* The most that can be asked for in options of a size, which is what an endpoint has; 0: no such option. */
static size_t opt_size(const struct uccl_ep *ep, int name)
{
	switch (name) {
	case OPT_MAX_MSG_SIZE:
		return ep->msg_max;
	case OPT_MAX_TAGGED_SIZE:
	case OPT_MAX_RMA_SIZE:
		return UCCL_MSG_MAX;
	case OPT_MAX_ATOMIC_SIZE:
		return UCCL_ORDER_MAX;
	case OPT_INJECT_MSG_SIZE:
	case OPT_INJECT_TAGGED_SIZE:
	case OPT_INJECT_RMA_SIZE:
	case OPT_INJECT_ATOMIC_SIZE:
		return ep->inject_max;
	case FI_OPT_TX_SIZE:
		return ep->tx_size;
	case FI_OPT_RX_SIZE:
		return ep->rx_size;
	default:
		return 0;
	}
}

static int ep_getopt(fid_t fid, int level, int name, void *optval, size_t *optlen)
{
	struct uccl_ep *ep = fid_of(fid)->ep;

	if (level != FI_OPT_ENDPOINT)
		return -FI_ENOPROTOOPT;
	if (name == FI_OPT_MIN_MULTI_RECV)
		return uccl_ep_give_size(optval, optlen, ep->min_multi);
	if (name == OPT_CUDA_API_PERMITTED || name == OPT_SHARED_MEMORY_PERMITTED)
		return give_bool(optval, optlen, name == OPT_CUDA_API_PERMITTED && ep->hmem);
	if (name == FI_OPT_FI_HMEM_P2P && ep->hmem)
		return give_p2p(optval, optlen);
	if (name == FI_OPT_CM_DATA_SIZE && ep->cm)
		return uccl_ep_give_size(optval, optlen, UCCL_CM_DATA_MAX);
	return opt_size(ep, name) ? uccl_ep_give_size(optval, optlen, opt_size(ep, name)) : -FI_ENOPROTOOPT;
}

/* Allowing or forbidding what is never done changes nothing, and so does asking for less than there is. */
static int ep_setopt(fid_t fid, int level, int name, const void *optval, size_t optlen)
{
	struct uccl_ep *ep = fid_of(fid)->ep;
	size_t size;

	if (level != FI_OPT_ENDPOINT)
		return -FI_ENOPROTOOPT;
	if (name == OPT_CUDA_API_PERMITTED)
		return take_cuda(ep, optval, optlen);
	if (name == OPT_SHARED_MEMORY_PERMITTED)
		return optlen == sizeof(bool) ? 0 : -FI_EINVAL;
	if (name == FI_OPT_FI_HMEM_P2P && ep->hmem)
		return take_p2p(optval, optlen);
	if (name != FI_OPT_MIN_MULTI_RECV && !opt_size(ep, name))
		return -FI_ENOPROTOOPT;
	if (optlen != sizeof(size))
		return -FI_EINVAL;
	memcpy(&size, optval, sizeof(size));
	if (name != FI_OPT_MIN_MULTI_RECV)
		return size <= opt_size(ep, name) ? 0 : -FI_EINVAL;
	ep->min_multi = size;
	return 0;
}

static ssize_t ep_rx_size_left(struct fid_ep *fid)
{
	struct uccl_ep *ep = fid_of(&fid->fid)->ep;

	return ep->rx_size - uccl_min(ep->rx_open, ep->rx_size);
}

static ssize_t ep_tx_size_left(struct fid_ep *fid)
{
	struct uccl_ep *ep = fid_of(&fid->fid)->ep;

	return ep->tx_size - uccl_min(ep->tx_open, ep->tx_size);
}

static int ep_setname(fid_t fid, void *addr, size_t addrlen)
{
	struct uccl_ep *ep = fid_of(fid)->ep;
	struct uccl_addr a;

	if (ep->engine || ep->sep)
		return -FI_EOPBADSTATE;
	if (uccl_address_unpack(ep->addr_format, addr, addrlen, &a, NULL))
		return -FI_EINVAL;
	if (!uccl_ifaddr_is_any(&a.nic))
		ep->src = a.nic;
	ep->src.port = a.nic.port;
	return 0;
}

static int ep_getname(fid_t fid, void *addr, size_t *addrlen)
{
	struct uccl_ep *ep = fid_of(fid)->ep;
	struct uccl_addr a;
	int rc;

	/* Only the length is asked for: no need for an engine yet. */
	if (!addr || !*addrlen) {
		*addrlen = uccl_address_len(ep->addr_format, &ep->src);
		return -FI_ETOOSMALL;
	}
	if (ep->forks != uccl_forks)
		return -FI_EOPBADSTATE;
	if (ep->sep)
		return fi_getname(uccl_sep_fid(ep->sep), addr, addrlen);
	rc = ep_start(ep);
	if (rc)
		return rc;
	if (!ep->cm || !uccl_cm_name(ep, &a))
		a = *uccl_engine_addr(ep->engine);
	/* The address that was bound is one of the interface, never the wildcard: peers can reach it. */
	return uccl_address_pack(ep->addr_format, &a, addr, addrlen);
}

static struct fi_ops ep_fid_ops = {
	.size = sizeof(struct fi_ops),
	.close = ep_close,
	.bind = ep_bind,
	.control = ep_control,
	.ops_open = uccl_openops_ep,
	.tostr = uccl_no_tostr,
	.ops_set = uccl_no_ops_set,
};

static struct fi_ops_ep ep_ops = {
	.size = sizeof(struct fi_ops_ep),
	.cancel = ep_cancel,
	.getopt = ep_getopt,
	.setopt = ep_setopt,
	.tx_ctx = uccl_no_tx_ctx,
	.rx_ctx = uccl_no_rx_ctx,
	.rx_size_left = ep_rx_size_left,
	.tx_size_left = ep_tx_size_left,
};

static struct fi_ops_cm ep_cm_ops = {
	.size = sizeof(struct fi_ops_cm),
	.setname = ep_setname,
	.getname = ep_getname,
	.getpeer = uccl_no_getpeer,
	.connect = uccl_no_connect,
	.listen = uccl_no_listen,
	.accept = uccl_no_accept,
	.reject = uccl_no_reject,
	.shutdown = uccl_no_shutdown,
	.join = uccl_coll_join,
};

static struct fi_ops_cm ep_connected_ops = {
	.size = sizeof(struct fi_ops_cm),
	.setname = ep_setname,
	.getname = ep_getname,
	.getpeer = uccl_cm_getpeer,
	.connect = uccl_cm_connect,
	.listen = uccl_no_listen,
	.accept = uccl_cm_accept,
	.reject = uccl_no_reject,
	.shutdown = uccl_cm_shutdown,
	.join = uccl_no_join,
};

/* What the program chose among the things that were offered. */
static void ep_configure(struct uccl_ep *ep, const struct fi_info *info)
{
	const struct fi_tx_attr *tx = info->tx_attr;
	const struct fi_rx_attr *rx = info->rx_attr;
	uint64_t tx_caps = tx && tx->caps ? tx->caps : info->caps;
	uint64_t rx_caps = rx && rx->caps ? rx->caps : info->caps;

	if (!info->caps)
		tx_caps = rx_caps = ~0ull;
	/* FI_SEND and FI_RECV say nothing unless there are messages; nothing at all means all. */
	ep->can_send = tx_caps & FI_SEND && tx_caps & (FI_MSG | FI_TAGGED);
	ep->can_recv = rx_caps & FI_RECV && rx_caps & (FI_MSG | FI_TAGGED);
	ep->can_rma = tx_caps & (FI_RMA | FI_ATOMIC) && !ep->can_send;
	ep->rx_shared = info->ep_attr && info->ep_attr->rx_ctx_cnt == FI_SHARED_CONTEXT;
	ep->data_takes = (info->mode | (rx ? rx->mode : 0)) & FI_RX_CQ_DATA;
	ep->directed = !ep->cm && rx_caps & FI_DIRECTED_RECV;
	ep->strangers = !ep->cm && info->caps && (rx_caps | info->caps) & FI_SOURCE_ERR;
	ep->source = rx_caps & FI_SOURCE || info->caps & FI_SOURCE;
	memcpy(ep->group, ep->domain->group, sizeof(ep->group));
	if (info->ep_attr && info->ep_attr->auth_key_size)
		uccl_domain_group(ep->group, info->ep_attr->auth_key, info->ep_attr->auth_key_size);
	ep->self.tx_flags = tx ? tx->op_flags : 0;
	ep->self.rx_flags = rx ? rx->op_flags : 0;
	ep->tx_size = tx && tx->size ? tx->size : UCCL_OPS_DEFAULT;
	ep->rx_size = rx && rx->size ? rx->size : UCCL_OPS_DEFAULT;
	ep->msg_max = UCCL_MSG_MAX;
	if (info->ep_attr && info->ep_attr->type == FI_EP_DGRAM && info->ep_attr->max_msg_size)
		ep->msg_max = uccl_min(ep->msg_max, info->ep_attr->max_msg_size);
	ep->inject_max = uccl_min(ep->msg_max, ep->domain->params.inject_bytes);
	ep->min_multi = UCCL_MIN_MULTI_DEFAULT;
	ep->locking = ep->domain->locking;
	/* Peers reach all regions of the domain through each of its endpoints. */
	if (info->caps & FI_HMEM && !ep->domain->hmem)
		ep->domain->hmem = uccl_device_find(&ep->domain->params);
	ep->hmem = ep->domain->hmem;
	ep->addr_format = info->addr_format ? info->addr_format : ep->domain->addr_format;
	ep->forks = uccl_forks;
}

int uccl_ep_new(struct uccl_domain *d, const struct fi_info *info, uint8_t ways, size_t fclass, void *context,
		struct uccl_ep **out)
{
	struct uccl_ep *ep = calloc(1, sizeof(*ep));

	if (!ep)
		return -FI_ENOMEM;
	ep->domain = d;
	ep->ways = ways;
	if (info->ep_attr && info->ep_attr->type == FI_EP_MSG) {
		ep->cm = uccl_cm_new();
		if (!ep->cm) {
			free(ep);
			return -FI_ENOMEM;
		}
	}
	ep_configure(ep, info);
	if (uccl_info_source(info, &d->params, &ep->src)) {
		free(ep->cm);
		free(ep);
		return -FI_EINVAL;
	}
	pthread_mutex_init(&ep->lock, NULL);
	ep->self.ep = ep;
	ep->self.fid.fid.fclass = fclass;
	ep->self.fid.fid.context = context;
	ep->self.fid.fid.ops = &ep_fid_ops;
	ep->self.fid.ops = &ep_ops;
	ep->self.fid.cm = ep->cm ? &ep_connected_ops : &ep_cm_ops;
	ep->self.fid.msg = &uccl_msg_ops;
	ep->self.fid.rma = &uccl_rma_ops;
	ep->self.fid.tagged = &uccl_tagged_ops;
	ep->self.fid.atomic = &uccl_atomic_ops;
	ep->self.fid.collective = fclass == FI_CLASS_EP && !ep->cm ? &uccl_coll_ops : &uccl_no_collective_ops;
	atomic_fetch_add(&d->refs, 1);
	*out = ep;
	return 0;
}

int uccl_ep_open(struct fid_domain *domain, struct fi_info *info, struct fid_ep **out, void *context)
{
	struct uccl_domain *d = uccl_container_of(domain, struct uccl_domain, fid);
	struct uccl_ep *ep;
	int rc;

	if (info->ep_attr && !uccl_attr_type_ok(info->ep_attr->type))
		return -FI_EINVAL;
	if (info->addr_format && info->addr_format != d->addr_format)
		return -FI_EINVAL;
	rc = uccl_ep_new(d, info, UCCL_TX | UCCL_RX, FI_CLASS_EP, context, &ep);
	if (rc)
		return rc;
	if (ep->cm && info->handle)
		rc = uccl_pep_give(info->handle, ep);
	if (rc)
		fi_close(&ep->self.fid.fid);
	else
		*out = &ep->self.fid;
	return rc;
}
