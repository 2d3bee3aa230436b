/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* See start.h. */
#include "api/endpoint/start.h"

#include <stdlib.h>
#include <sys/random.h>

#include "api/event/cq.h"
#include "api/event/eq.h"
#include "api/lib/lib.h"
#include "api/lib/sodium.h"
#include "api/object/domain.h"
#include "api/offer/address.h"
#include "api/offer/hwloc.h"
#include "api/offer/named.h"
#include "api/offer/near.h"
#include "api/offer/param.h"
#include "api/offer/place.h"
#include "api/offer/sysfs.h"
#include "api/peers/av.h"
#include "api/transfer/target.h"
#include "api/watch/live.h"
#include "api/watch/stats.h"
#include "api/watch/tracefile.h"
#include "hmem/stage.h"
#include "nic/ifaddr.h"
#include "progress/lane_set.h"
#include "progress/ranks.h"
#include "progress/thread.h"

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

/* All endpoints of the process share it. */
static struct uccl_qp_budget qp_budget;

/* Likewise: 5-tuples that may leave this host, and the share of this process. PROTOCOL R374 */
static struct uccl_tuple_budget tuple_budget;

/* Each path needs a source port. Warn once in a process if there are fewer ports than paths. */
static void warn_few_ports(const struct uccl_params *p)
{
	static _Atomic bool said;
	uint32_t ports = uccl_ports_count(&p->nic.ports);

	if (ports < p->paths && !uccl_place_rdma(p) && !atomic_exchange(&said, true))
		uccl_warn(FI_LOG_EP_CTRL,
			  "FI_UCCL_PORTS=%u-%u: %u ports are enough for %u paths, not for FI_UCCL_PATHS=%u: give "
			  "more ports, or set FI_UCCL_PATHS to that\n",
			  p->nic.ports.first, p->nic.ports.last, ports, ports, (unsigned int)p->paths);
}

void uccl_ep_marks_say(struct uccl_domain *d, const struct uccl_nic_caps *caps)
{
	if (d->params.nic.ecn && !caps->marks && !atomic_exchange(&d->marks_said, true))
		uccl_info(FI_LOG_EP_CTRL,
			  "FI_UCCL_ECN=1: %s on %s cannot tell which packets the network marked; congestion control "
			  "goes by delay and losses\n",
			  d->params.nic.backend, d->name);
}

/* The byte of the IP header with this traffic class (RFC 2474), without ECN. */
static uint8_t tos(uint64_t dscp)
{
	return (uint8_t)(dscp << 2);
}

/* Open a NIC at run.src, or, `beside` it, at any port for the packets of a lane. */
static int nic_open(struct uccl_ep *ep, bool beside, struct uccl_nic **out)
{
	const struct uccl_params *p = &ep->domain->params;
	struct uccl_nic_attr attr = {
		.ifname = ep->domain->name,
		.bind = ep->run.src,
		.mtu = p->nic.mtu,
		.rx_bytes = p->nic.backend_rcvbuf,
		.max_qp = (uint32_t)p->nic.verbs_max_qp,
		.srq_depth = (uint32_t)p->nic.verbs_srq,
		.write_bytes = (uint32_t)p->nic.verbs_write,
		.windows = uccl_params_windows(p),
		.budget = &qp_budget,
		.ports = p->nic.ports,
		.liveness = !p->conn.peer_liveness ? UCCL_LIVENESS_OFF :
			    ep->run.src_port_again ? UCCL_LIVENESS_MUST : UCCL_LIVENESS_ON,
		.timestamps = true,
		.ecn = p->nic.ecn,
		.data_class = tos(p->nic.dscp),
		.control_class = tos(p->nic.dscp_control),
		.xdp_mode = uccl_params_xdp_mode(p),
		.packets = beside,
		.device_rx = ep->attr.direct && !beside,
		.queues = &ep->run.queues,
	};
	struct uccl_nic *nic;
	unsigned int told = uccl_notice_warnings();
	const char *why = "";
	int rc;

	/* A queue pair has no port that we choose. Peers find it by the responder's port, see uccl_named_open. */
	if ((uccl_place_rdma(p) && !ep->run.src.pad) || beside)
		attr.bind.port = 0;
	fill_random(NULL, &attr.seed, sizeof(attr.seed));
	if (uccl_ports_limited(&p->nic.ports)) {
		/* Each label takes a port that other processes may need, so there is one for each path and no more. */
		attr.labels = (uint16_t)p->paths;
		warn_few_ports(p);
	}
	rc = uccl_place_open(p, &attr, &nic);
	if (rc) {
		char place[UCCL_ADDRESS_TEXT];

		uccl_address_place_text(&ep->run.src, place, sizeof(place));
		/* The back end's own line names the cause, if it knows one. */
		UCCL_API_LOG(told == uccl_notice_warnings() && !(rc == -FI_EADDRINUSE && ep->run.src_port_again) ?
				     FI_LOG_WARN :
				     FI_LOG_INFO,
			     FI_LOG_EP_CTRL,
			     "cannot open an endpoint at %s on interface %s: %s\n", place, ep->domain->name,
			     uccl_lib.strerror(-rc));
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

/* True if peers may connect without our key. Programs that agree on a port, or exchange socket addresses, have none. */
static bool want_keyless(const struct uccl_ep *ep)
{
	uint64_t mode = ep->domain->params.conn.security_keyless;

	if (mode != UCCL_SWITCH_AUTO)
		return mode == UCCL_SWITCH_YES;
	/* The responder tells the key with the address. */
	if (uccl_place_rdma(&ep->domain->params))
		return false;
	/* Of connected endpoints, peers find only the listening one by its port. */
	if (ep->cm && !ep->listens)
		return false;
	return (ep->run.src.port && !ep->run.src_port_range) || uccl_address_is_sock(ep->attr.addr_format);
}

/* The queue of unread completions must not grow with what peers send. */
static bool ep_room(void *arg)
{
	struct uccl_ep *ep = arg;

	return !ep->bound.rx_cq || !uccl_cq_full(ep->bound.rx_cq);
}

/* The program's event queue tells of the end of a peer that is in its address vector. */
static void ep_peer_ended(void *arg, const struct uccl_peer *p, int err)
{
	struct uccl_ep *ep = arg;
	fi_addr_t at = uccl_peer_user(p);

	if (!ep->attr.peer_events || !ep->bound.eq || !ep->bound.av)
		return;
	if (at == FI_ADDR_NOTAVAIL)
		at = uccl_av_find(ep->bound.av, uccl_peer_addr(p));
	if (at != FI_ADDR_NOTAVAIL)
		uccl_eq_push_peer(ep->bound.eq, &ep->self.fid.fid, at, uccl_peer_closed(p) ? FI_ESHUTDOWN : err);
}

/* Open the responder at the port that the program chose for an endpoint of an RDMA NIC. */
static int named_open(struct uccl_ep *ep)
{
	const struct uccl_params *p = &ep->domain->params;
	struct uccl_nic_addr own = uccl_engine_addr(ep->driver.engine)->nic, *at;
	int n, rc;

	if (!uccl_place_rdma(p) || !ep->run.src.port)
		return 0;
	if (!uccl_named_allowed(p)) {
		uccl_warn(FI_LOG_EP_CTRL,
			  "peers cannot ask for this endpoint at port %u: FI_UCCL_SECURITY (keyless=0, control or "
			  "packets) forbids it\n",
			  ep->run.src.port);
		return -FI_EADDRNOTAVAIL;
	}
	own.port = ep->run.src.port;
	own.pad = 0;
	own.scope = 0;
	n = uccl_named_places(p, &own, &at);
	if (n < 0)
		return n;
	rc = uccl_named_open(at, n, uccl_engine_addr(ep->driver.engine), &ep->run.named);
	if (rc)
		uccl_warn(FI_LOG_EP_CTRL, "peers cannot ask for this endpoint at port %u: %s\n", ep->run.src.port,
			  uccl_lib.strerror(-rc));
	free(at);
	return rc;
}

static int lane_nic(void *arg, struct uccl_nic **out)
{
	return nic_open(arg, true, out);
}

/* Lanes run on the NUMA node of the NIC, if it has a processor for each of them. */
static void lanes_near(struct uccl_ep *ep, uint8_t n)
{
	const char *name = ep->domain->name;
	struct uccl_near_cpus cpus;
	struct uccl_near near;
	uint64_t nodes;
	char text[64];

	uccl_near_here(UCCL_SYSFS, &near);
	/* With one node only, hwloc is not needed. */
	if (!(near.nodes & (near.nodes - 1)))
		return;
	nodes = uccl_near_nic(UCCL_SYSFS, uccl_hwloc_find(), name);
	if (!nodes || !uccl_near_cpus(UCCL_SYSFS, nodes, uccl_ranks_processors(), n, &cpus))
		return;
	uccl_lane_set_bind(ep->driver.lanes, cpus.set, sizeof(cpus.set));
	uccl_near_text(nodes, text, sizeof(text));
	uccl_info(FI_LOG_EP_CTRL, "lanes of interface %s run on NUMA node %s, where it is\n", name, text);
}

/* Open lanes, unless NICs are joined: a lane has one NIC, and would end with that NIC's link. */
static void lanes_open(struct uccl_ep *ep, const struct uccl_engine_attr *attr)
{
	const struct uccl_params *p = &ep->domain->params;
	uccl_lane_set_open_fn *open = uccl_place_lanes();

	if (!p->lanes || uccl_place_joined(p, ep->domain->name))
		return;
	if (!open) {
		if (p->lanes != UCCL_LANES_AUTO)
			uccl_warn(FI_LOG_EP_CTRL,
				  "FI_UCCL_LANES=%llu: this build of the provider has no lanes (configure "
				  "--disable-lanes), so the endpoint at interface %s uses one core\n",
				  (unsigned long long)p->lanes, ep->domain->name);
		return;
	}
	ep->driver.lanes = open(ep->driver.engine, attr, p->lanes, lane_nic, ep);
	if (!p->lanes_leave)
		uccl_lane_set_keep(ep->driver.lanes);
	if (ep->driver.lanes)
		lanes_near(ep, ep->driver.lanes->n);
}

int uccl_ep_start(struct uccl_ep *ep, const struct uccl_addr *identity)
{
	struct uccl_config config;
	struct uccl_engine_attr attr = {
		.config = &config,
		.random = fill_random,
		.target = &uccl_ep_target,
		.target_arg = ep,
		.room = ep_room,
		.room_arg = ep,
		.data_takes = ep->attr.data_takes,
		.ended = ep_peer_ended,
		.ended_arg = ep,
		.identity = identity,
		.connected = ep->cm,
		.group = ep->attr.group,
		.interface = ep->domain->name,
		.budget = &tuple_budget,
	};
	int rc;

	if (ep->driver.engine)
		return 0;
	uccl_engine_budget(&tuple_budget, (uint32_t)ep->domain->params.paths_host / uccl_ranks_here());
	if (uccl_params_want_keys(&ep->domain->params) && uccl_sodium_load())
		return -FI_ENOSYS;
	rc = nic_open(ep, false, &attr.nic);
	if (rc)
		return rc;
	uccl_ep_marks_say(ep->domain, &attr.nic->caps);
	uccl_stats_check(ep->domain->params.stats);
	if (ep->attr.hmem) {
		struct uccl_stage_attr stage = {
			.hmem = ep->attr.hmem,
			.given = ep->attr.direct ? &ep->domain->dmabufs : NULL,
			.scatter = ep->domain->params.nic.cuda_scatter,
		};

		rc = uccl_stage_open(&stage, &ep->run.stage);
		if (rc) {
			attr.nic->ops->close(attr.nic);
			return rc;
		}
		attr.device = &uccl_stage_device;
		attr.device_arg = ep->run.stage;
	}
	uccl_params_config(&ep->domain->params, &config);
	config.keyless = want_keyless(ep);
	if (*ep->domain->params.trace)
		ep->run.trace = uccl_tracefile_open(ep->domain->params.trace, ep->domain->params.trace_records);
	attr.trace = ep->run.trace ? uccl_tracefile_ring(ep->run.trace) : NULL;
	rc = uccl_driver_open(&ep->driver, &attr);
	if (rc) {
		uccl_warn(FI_LOG_EP_CTRL, "cannot start the endpoint on interface %s: %s\n", ep->domain->name,
			  uccl_lib.strerror(-rc));
		uccl_tracefile_close(ep->run.trace);
		uccl_stage_close(ep->run.stage);
		ep->run.trace = NULL;
		ep->run.stage = NULL;
		return rc;
	}
	lanes_open(ep, &attr);
	if (ep->domain->params.monitor)
		ep->run.live = uccl_live_open(ep);
	rc = named_open(ep);
	if (rc)
		uccl_ep_stop(ep);
	return rc;
}

void uccl_ep_set_src(struct uccl_ep *ep, const struct uccl_nic_addr *src, bool range, bool again)
{
	ep->run.src = *src;
	ep->run.src_port_range = range;
	ep->run.src_port_again = again;
}

int uccl_ep_src_from_name(struct uccl_nic_addr *src, uint32_t addr_format, const void *addr, size_t addrlen)
{
	struct uccl_addr a;

	if (uccl_address_unpack(addr_format, addr, addrlen, &a, NULL))
		return -FI_EINVAL;
	if (!uccl_ifaddr_is_any(&a.nic))
		*src = a.nic;
	src->port = a.nic.port;
	return 0;
}

void uccl_ep_close_named(struct uccl_ep *ep)
{
	uccl_named_close(ep->run.named, ep->driver.forks == uccl_forks ? ep->driver.engine : NULL);
	ep->run.named = NULL;
}

void uccl_ep_stop(struct uccl_ep *ep)
{
	if (!ep->driver.engine)
		return;
	uccl_ep_close_named(ep);
	uccl_live_close(ep->run.live);
	uccl_driver_close(&ep->driver);
	uccl_tracefile_close(ep->run.trace);
	uccl_stage_close(ep->run.stage);
	ep->run.stage = NULL;
	ep->run.live = NULL;
	ep->run.trace = NULL;
}
