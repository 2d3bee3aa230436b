/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * A data-centre network, packet by packet: hosts, switches, links with rate, delay and a queue of limited length. It
 * knows nothing of what its packets mean; they have a size and a class, and carry a pointer. Control has strict
 * priority over data and a queue of its own. Switches choose among equal ways by a hash of the 5-tuple and a seed of
 * their own, so different source ports collide as they do in life.
 *
 * Trees of two tiers (tor, spine) or three (tor, aggregation, core). A host is one NIC.
 */
#ifndef UCCL_SIM_FABRIC_H
#define UCCL_SIM_FABRIC_H

#include <stdbool.h>
#include <stdint.h>

#include "base/pool.h"
#include "base/rng.h"
#include "sim/fabric_limit.h"
#include "sim/fabric_queue.h"

enum uccl_fab_class { UCCL_FAB_CONTROL, UCCL_FAB_DATA };

/* What switches need is within 64 bytes. */
struct uccl_fab_pkt {
	struct uccl_fab_event ev;
	struct uccl_fab_pkt *next;
	uint32_t src, dst; /* hosts */
	uint32_t bytes;	   /* on the wire, with everything that takes its time */
	uint32_t port;	   /* on its way through this one */
	uint16_t sport;	   /* UDP source port: what tells paths apart */
	uint8_t cls;	   /* enum uccl_fab_class */
	bool ecn;	   /* congestion was marked */
	bool trimmed;	   /* the payload was cut off; now of the control class */
	/* The stacks' own, of no meaning to the network. */
	uint8_t type;
	bool note;
	uint16_t echo;
	uint32_t part;
	void *unit;
	uint64_t stamp;
};

/* Rates of spines that there may be. */
#define UCCL_FAB_SPINE_RATES 16

/* A tree. hosts = hosts_per_tor * tors; tors = tors_per_pod * pods. fabric_play.c writes it. */
struct uccl_fab_topo {
	uint8_t tiers; /* 2 or 3 */
	uint32_t hosts;
	uint32_t hosts_per_tor;
	uint32_t tors_per_pod;	   /* 3 tiers */
	uint32_t spines;	   /* 2 tiers: in all; 3 tiers: aggregation switches of a pod */
	uint32_t cores_per_agg;	   /* 3 tiers: core switches above each of these */
	uint32_t rails;		   /* NICs of a server, each on a tor of its own; 0 or 1: neighbours share a tor */
	uint64_t host_bps, up_bps; /* links of hosts; links between switches */
	/* 2 tiers: the links of each spine, instead of up_bps; after the last one it begins again. 0 first: none */
	uint64_t spine_bps[UCCL_FAB_SPINE_RATES];
	uint32_t slow_hosts;	   /* hosts, spread evenly, whose links have slow_bps instead */
	uint64_t slow_bps;
	uint8_t ecmp;		   /* enum uccl_fab_ecmp */
	uint64_t delay_ps;	   /* of every link, with what the switch behind it takes */
	uint64_t queue_bytes;	   /* data queue of a port */
	uint64_t ecn_lo, ecn_hi;   /* marking begins, is certain; 0, 0: none */
	bool trim;		   /* cut the payload off instead of dropping the packet */
	uint32_t trim_bytes;	   /* what is left of it on the wire */
	uint64_t shared_bytes;	   /* memory that data queues of a switch share, instead of queue_bytes; 0: none */
	double alpha;		   /* one queue may have this many times what is left of the memory */
	bool pfc;		   /* nothing is dropped: a link that brings too much is stopped */
	uint64_t xoff_bytes;	   /* pfc, not shared: what may come over a link and wait before it is stopped */
	uint64_t headroom_bytes;   /* pfc: memory of each link for what still comes after the stop */
	struct uccl_fab_limit limit; /* of every 5-tuple */
};

/* How a switch chooses among equal ways. */
enum uccl_fab_ecmp {
	UCCL_FAB_ECMP_OWN,  /* a hash with a seed of its own */
	UCCL_FAB_ECMP_SAME, /* the same hash in all of them: who meets at one tier meets at the next */
	UCCL_FAB_ECMP_XOR,  /* the same in all, and no more than an exclusive or of addresses and port */
	UCCL_FAB_ECMPS,
};

struct uccl_fab_port {
	struct uccl_fab_event ev;		/* the end of the present transmission */
	struct uccl_fab_pkt *head[2], *tail[2]; /* by class */
	struct uccl_fab_pkt *sending;		/* ports of hosts only */
	uint64_t bytes[2];			/* queued, without what is being sent */
	uint64_t free_at;			/* ps: idle from here on */
	uint32_t to;				/* node at the other end */
	uint32_t ps_per_byte;
	bool armed;	   /* ev is in the queue */
	bool unrouted : 1; /* routing does not use it */
	bool stopped : 1;  /* by the other end: sends control only */
	/* faults */
	bool hole;	   /* swallows everything */
	bool bad;	   /* inside a burst of losses */
	float loss;	   /* each packet, outside of bursts */
	float burst, mend; /* a burst, in which everything is lost, begins or ends with a packet */
	/* counters */
	uint64_t packets, tx_bytes, dropped, lost, trimmed, marked;
	uint64_t max_queue; /* bytes of data */
};

struct uccl_fab_node {
	uint64_t seed;
	uint32_t down, up; /* first port of each kind */
	uint16_t ndown, nup;
	uint16_t nlive; /* ways up that routing uses */
	uint8_t tier;	/* 0: host, 1: tor, .. */
	uint32_t place; /* number within its tier */
	uint16_t *live;
};

struct uccl_fab;
struct uccl_fab_memory;

struct uccl_fab_ops {
	/* Arrived at p->dst. The packet is the callee's. */
	void (*deliver)(struct uccl_fab *n, struct uccl_fab_pkt *p);
	/* Dropped by a full queue, a limit or a fault. The packet is the callee's. */
	void (*lost)(struct uccl_fab *n, struct uccl_fab_pkt *p);
	/* The NIC of this host has sent p, which is still under way, and can take the next one. */
	void (*sent)(struct uccl_fab *n, uint32_t host, struct uccl_fab_pkt *p);
	/* An event of the owner's (kind >= UCCL_FAB_USER). */
	void (*event)(struct uccl_fab *n, struct uccl_fab_event *e);
};

enum { UCCL_FAB_ARRIVE, UCCL_FAB_LIMITED, UCCL_FAB_SERVE, UCCL_FAB_PAUSE, UCCL_FAB_USER };

struct uccl_fab {
	struct uccl_fab_topo topo;
	const struct uccl_fab_ops *ops;
	void *user;
	struct uccl_fab_queue q;
	struct uccl_fab_node *nodes; /* hosts first, then tors, then spines or aggregation, then cores */
	struct uccl_fab_port *ports;
	uint32_t nnodes, nports;
	uint32_t tors, pods;
	uint16_t *live;
	struct uccl_fab_memory *mem; /* fabric_memory.h; NULL: every queue has its own, and nobody is stopped */
	struct uccl_fab_limits limits;
	struct uccl_pool pkts;
	struct uccl_rng rng;
	uint64_t events;
	uint64_t dropped, lost, trimmed, marked; /* sums over all ports, and limits (dropped) */
};

/* True if the numbers of hosts and switches make a tree. */
bool uccl_fab_shape_good(const struct uccl_fab_topo *t);

/* 0; -FI_EINVAL: such a tree cannot be; -FI_ENOMEM. */
int uccl_fab_init(struct uccl_fab *n, const struct uccl_fab_topo *t, const struct uccl_fab_ops *ops, uint64_t seed);
void uccl_fab_fini(struct uccl_fab *n);

struct uccl_fab_pkt *uccl_fab_pkt_new(struct uccl_fab *n);
void uccl_fab_pkt_free(struct uccl_fab *n, struct uccl_fab_pkt *p);
/* Queue at the NIC of p->src, whose queue has no limit; src, dst, bytes, sport and cls are set. */
void uccl_fab_send(struct uccl_fab *n, struct uccl_fab_pkt *p);
/* Bytes of data that wait at the NIC of a host. */
uint64_t uccl_fab_backlog(const struct uccl_fab *n, uint32_t host);
/* Make the next event happen. False: none is left. */
bool uccl_fab_step(struct uccl_fab *n);

/* The rate of the links between tors and tier-2 switch `i`. */
uint64_t uccl_fab_spine_bps(const struct uccl_fab_topo *t, uint32_t i);
/* The rate of all links that lead up from a tor, and of the fastest of them. */
uint64_t uccl_fab_tor_bps(const struct uccl_fab_topo *t);
uint64_t uccl_fab_up_bps_max(const struct uccl_fab_topo *t);
/* The rate of a host's link. */
uint64_t uccl_fab_host_bps(const struct uccl_fab *n, uint32_t host);
/* The tor of a host, and its place there. */
uint32_t uccl_fab_tor(const struct uccl_fab *n, uint32_t host);
uint32_t uccl_fab_slot(const struct uccl_fab *n, uint32_t host);
/* Node number of switch `i` of a tier (1: tors, ...). */
uint32_t uccl_fab_switch(const struct uccl_fab *n, uint8_t tier, uint32_t i);
uint32_t uccl_fab_switches(const struct uccl_fab *n, uint8_t tier);
/* Least time from the first bit at one host to the last bit of `bytes` at the other, ps. */
uint64_t uccl_fab_one_way(const struct uccl_fab *n, uint32_t src, uint32_t dst, uint32_t bytes);

/* Every port of a switch and every port that leads to it: swallow all, and the rate as a share of the normal one. */
void uccl_fab_fault_switch(struct uccl_fab *n, uint32_t node, bool hole, double rate);
/* The switches right below this one stop, or begin again, to use it. Those further away do not hear of it. */
void uccl_fab_route(struct uccl_fab *n, uint32_t node, bool use);
/* Losses on the last link to every host: single ones, and bursts of `mean` packets that begin with chance `burst`. */
void uccl_fab_fault_loss(struct uccl_fab *n, double loss, double burst, double mean);

#endif
