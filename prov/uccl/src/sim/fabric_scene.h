/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * A scene: a fabric, transfers between its hosts, and a stack that carries them. Of the payload only owner, operation
 * and offset exist, so a thousand hosts fit into a desktop's memory. A stack is the provider's own flows
 * (fabric_flow.c) or one to compare with.
 */
#ifndef UCCL_SIM_FABRIC_SCENE_H
#define UCCL_SIM_FABRIC_SCENE_H

#include "flow/policy.h"
#include "flow/observe/stats.h"
#include "sim/fabric.h"

/* What a packet takes on the link besides what the stack put into it: preamble, gap, Ethernet, CRC, IP, UDP. */
#define UCCL_FAB_UDP_BYTES (8 + 12 + 14 + 4 + 20 + 8)
/* RoCE v2: that, BTH and ICRC. */
#define UCCL_FAB_ROCE_BYTES (UCCL_FAB_UDP_BYTES + 12 + 4)
/* The RETH in the first packet of an RDMA write; the immediate in the last. */
#define UCCL_FAB_RETH_BYTES 16
#define UCCL_FAB_IMM_BYTES 4
/* UD: the DETH. */
#define UCCL_FAB_DETH_BYTES 8

struct uccl_fab_op {
	uint64_t bytes;
	uint64_t start_ns;
	uint64_t end_ns;   /* the receiver has all; 0: not yet */
	uint64_t acked_ns; /* the sender knows; 0: not yet */
	uint64_t got;	   /* bytes that arrived, once each */
	uint64_t cover;	   /* sum over [a, b) that arrived of g(b) - g(a): tells whether they are the whole */
	uint32_t src, dst;
	uint32_t after; /* first of those that wait for this one, in uccl_fab_scene.edges; UINT32_MAX: none */
	uint32_t waits; /* operations that have to arrive before it begins */
	uint8_t group;	/* for reports */
	uint8_t rank;  /* at both ends */
	bool begun;
	void *item; /* the stack's */
};

/* An operation that waits for another one. */
struct uccl_fab_edge {
	uint32_t op;
	uint32_t next; /* of the same that is waited for; UINT32_MAX: none */
};

/* All of them. fabric_scene.c writes it. */
struct uccl_fab_edges {
	struct uccl_fab_edge *v;
	uint32_t n, cap;
};

struct uccl_fab_stack;

/* What a NIC says of itself and its network. fabric_play.c writes it. */
struct uccl_fab_told {
	uint64_t delay_ns;   /* that flows take for normal; 0: what is true of each pair of hosts */
	uint64_t link_bps;   /* that flows take for the rate of their link; 0: what it is */
	uint64_t rto_min_ns; /* floor of time-outs */
	uint8_t soft;	     /* software says so, which reports any rate: trains stay long */
};

/* Flows of others, which nothing slows. fabric_play.c writes it. */
struct uccl_fab_others {
	double share;	/* of every host's link that they send and receive */
	uint16_t flows; /* that begin at each host, each on one path; 0: 4 */
};

/* How hosts pause, on average. fabric_play.c writes it. */
struct uccl_fab_jitter {
	uint64_t ns;	   /* how long arrived packets wait while their host does something else */
	uint64_t every_ns; /* the time between two such pauses of a host */
};

/* fabric_play.c writes it. */
struct uccl_fab_cfg {
	struct uccl_fab_topo topo;
	const struct uccl_fab_stack *stack;
	const char *cc, *path, *credit; /* names */
	uint16_t paths, labels;
	uint32_t mtu;	     /* payload of a packet on the link */
	uint32_t chunk;	     /* bytes of a write; 0: packets only */
	uint8_t brittle;     /* hosts say that a path ends with the loss of a part of a write */
	uint32_t window;     /* chunks */
	uint32_t train;	     /* bytes of packets that leave as one, where there are no writes; 0: each by itself */
	struct uccl_fab_told told;
	uint8_t marks;	     /* flows hear of the network's marks (ECN) */
	uint8_t control;     /* acknowledgements and credits have a class of their own; else that of data */
	uint32_t post_bytes; /* posted ahead of the NIC */
	uint16_t engines;    /* of a rank, over which each of its connections is split; 0: 1 */
	uint16_t ranks;	     /* that share a host's NIC; 0: 1 */
	uint16_t qps;	     /* baselines: queue pairs of a connection */
	struct uccl_fab_others others;
	double credit_loss;  /* chance that a CREDIT or DEMAND never arrives */
	struct uccl_fab_jitter jitter;
	uint64_t seed;
	uint64_t bin_ns;   /* of the series of goodput; 0: none */
	uint64_t limit_ns; /* virtual time after which the run is given up */
};

struct uccl_fab_scene;

/* A flow as it is now. */
struct uccl_fab_sight {
	uint32_t src, dst;
	uint32_t engine;	   /* of the sender's, with ranks that share its NIC */
	uint64_t window, inflight; /* bytes */
	uint64_t srtt_ns, rtt_ns;  /* smoothed and latest; 0: not known */
	const uint64_t *carried;   /* bytes by path since the look before */
	uint32_t npaths;
};

typedef void (*uccl_fab_see)(struct uccl_fab_scene *s, const struct uccl_fab_sight *v, void *arg);

struct uccl_fab_stack {
	const char *name;
	int (*open)(struct uccl_fab_scene *s);
	void (*close)(struct uccl_fab_scene *s);
	/* Open the connections of all operations, and let them fall quiet. NULL: they need no time to open. */
	int (*connect)(struct uccl_fab_scene *s);
	/* Begin to send; later uccl_fab_arrived at the receiver. */
	int (*send)(struct uccl_fab_scene *s, uint32_t op);
	/* Show every flow that sends, or has sent since the look before. NULL: it cannot. */
	void (*look)(struct uccl_fab_scene *s, uccl_fab_see see, void *arg);
	/* `sent` is called for packets of others, too, which have no unit. */
	struct uccl_fab_ops net;
};

/* One flow of others: packets of the link's size, evenly, for ever. */
struct uccl_fab_background {
	struct uccl_fab_event ev; /* kind UCCL_FAB_BACKGROUND */
	uint32_t src, dst;
	uint64_t every; /* ps */
	uint16_t sport;
};

/* When a host does something else. */
struct uccl_fab_pause {
	struct uccl_rng rng;
	uint64_t from, to; /* ps: the present one, or the next */
};

/* Something that happens to the network. */
struct uccl_fab_turn {
	struct uccl_fab_event ev; /* kind UCCL_FAB_SCENE */
	void (*fn)(struct uccl_fab_scene *s, uint64_t arg);
	uint64_t arg;
};

enum { UCCL_FAB_SCENE = UCCL_FAB_USER, UCCL_FAB_BEGIN, UCCL_FAB_BACKGROUND, UCCL_FAB_LATE, UCCL_FAB_STACK };

struct uccl_fab_scene {
	struct uccl_fab net;
	struct uccl_fab_cfg cfg;
	const struct uccl_fab_stack *stack;
	void *st; /* the stack's */
	struct uccl_fab_op *ops;
	uint32_t nops, ops_cap, done;
	struct uccl_fab_edges edges;
	uint32_t begin_next; /* operations in the order of their start */
	struct uccl_fab_event begin;
	struct uccl_fab_background *background_flows;
	struct uccl_fab_pause *pauses; /* of each host; NULL: none */
	uint64_t *bins; /* bytes that arrived, per cfg.bin_ns */
	uint32_t nbins;
	struct uccl_stats stats; /* of all hosts */
	uint64_t rtx_bytes;	 /* payload sent again, whatever the stack */
	uint64_t bytes;		 /* of all operations */
	uint64_t flow_bytes;	 /* memory that the stack has per connection and direction */
	uint32_t flows;
	uint64_t background; /* bytes of others that arrived, as they are on the link */
	uint64_t first_ns, last_ns; /* of all operations: first start, last arrival */
	char broken[128];	    /* what must never be and was; empty: nothing */
};

/* 0, -FI_EINVAL (cfg), -FI_ENOMEM. */
int uccl_fab_scene_open(struct uccl_fab_scene *s, const struct uccl_fab_cfg *cfg);
void uccl_fab_scene_close(struct uccl_fab_scene *s);
/* Add an operation; its number. */
uint32_t uccl_fab_scene_add(struct uccl_fab_scene *s, uint32_t src, uint32_t dst, uint64_t bytes, uint64_t start_ns,
			    uint8_t group);
/* `op` begins when `before`, and all others that were named for `op`, have arrived; its start time does not count. */
void uccl_fab_scene_after(struct uccl_fab_scene *s, uint32_t op, uint32_t before);
void uccl_fab_scene_turn(struct uccl_fab_scene *s, struct uccl_fab_turn *t, uint64_t at_ns);
/*
 * Run until every operation has arrived. `progress` is called now and then, may be NULL. 0; -FI_ETIMEDOUT: not within
 * cfg.limit_ns; -FI_EIO: broken[] says what.
 */
int uccl_fab_scene_run(struct uccl_fab_scene *s, void (*progress)(const struct uccl_fab_scene *s));

/* For stacks: bytes [off, off + len) of an operation arrived, for the first time. */
void uccl_fab_arrived(struct uccl_fab_scene *s, uint32_t op, uint64_t off, uint64_t len);
void uccl_fab_broken(struct uccl_fab_scene *s, const char *text);

static inline uint64_t uccl_fab_now(const struct uccl_fab_scene *s)
{
	return s->net.q.now / UCCL_PS_PER_NS;
}

/* Payload and wire headers at line rate, and one way through the empty network for the last packet: ns. */
uint64_t uccl_fab_ideal(const struct uccl_fab_scene *s, uint32_t src, uint32_t dst, uint64_t bytes);

/* The same for payload that passes a place with the rate `bps`, and then travels for way_ps. */
uint64_t uccl_fab_ideal_cut(const struct uccl_fab_scene *s, uint64_t bytes, double bps, uint64_t way_ps);

/* The result of the operations of one group. */
struct uccl_fab_result {
	uint32_t n; /* arrived */
	uint64_t bytes;
	double mean_ns, p50_ns, p99_ns, p999_ns, max_ns;
	double jain; /* of their rates */
};

/* Nearest rank of n >= 1 sorted values, p in (0, 1]. */
double uccl_fab_percentile(const double *v, uint32_t n, double p);
void uccl_fab_result(const struct uccl_fab_scene *s, uint8_t group, struct uccl_fab_result *r);
/* Largest queue of data in any switch, bytes. */
uint64_t uccl_fab_max_queue(const struct uccl_fab_scene *s);

#endif
