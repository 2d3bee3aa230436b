/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * A deterministic network: a virtual clock, an event queue, up to UCCL_SIM_NODES nodes, and between every two of them
 * several routes, of which a packet takes the one that hash(source, destination, label) names, as ECMP does.
 * Everything random comes from one seed, so a seed is a run.
 *
 * The way of a packet: egress of its node (rate, queue) -> route (delay, jitter, faults) -> ingress of the other node
 * (rate, queue) -> the node's sink.
 */
#ifndef UCCL_SIM_NET_H
#define UCCL_SIM_NET_H

#include "base/rng.h"
#include "base/units.h"
#include "flow/wire/io.h"

#define UCCL_SIM_NODES 16
#define UCCL_SIM_ROUTES 64
#define UCCL_SIM_HOLES 64

/* Type of a direct write where packets have the type byte of their header. */
#define UCCL_SIM_TYPE_WRITE 0xff

struct uccl_sim_net;

/* Something that happens at a time. Embedded in its owner; in the queue while `place` is not 0. net.c writes it. */
struct uccl_sim_event {
	uint64_t at;
	uint64_t seq;	/* order among events of one time */
	uint32_t place; /* index in the queue + 1; written by the queue only */
	void (*fire)(struct uccl_sim_event *ev);
};

/* What the NICs of a packet tell each other in it. The addresses are a direct write's. nic_sim.c writes it. */
struct uccl_sim_remote {
	uint32_t imm;
	uint64_t rkey, raddr;
	uint64_t from_peer, to_peer; /* serials of the NIC handles, 0: none */
	uint64_t tx;		     /* serial of a write whose arrival the other NIC answers, 0: none */
};

/* A packet or direct write on its way. */
struct uccl_sim_pkt {
	struct uccl_sim_event ev;
	struct uccl_sim_net *net;
	struct uccl_sim_pkt *next; /* in the list that holds it */
	uint8_t src, dst;
	uint8_t kind; /* enum uccl_tx_kind */
	uint8_t type; /* byte 3 of the header, UCCL_SIM_TYPE_WRITE for writes */
	uint8_t pool; /* size class, the network's */
	bool control;
	bool copy; /* a duplicate made by the network */
	bool torn; /* a write of which only a part arrives, without its event */
	bool ect;    /* the network may mark it, */
	bool marked; /* and did */
	uint16_t label, path, route;
	uint64_t number;			 /* of this source-destination pair, from 0 */
	uint64_t posted_ns, sent_ns, arrived_ns; /* handed to the NIC, left the node, reached the other */
	struct uccl_sim_remote remote;
	uint32_t len, cap;
	uint8_t data[];
};

/* One thing that makes packets vanish: every field must fit; -1 fits all. net.c writes it. */
struct uccl_sim_hole {
	int src, dst, route;
	uint32_t above; /* only packets longer than this, as where the MTU has shrunk; 0: all */
	uint64_t start, end;
};

/*
 * Random faults; probabilities are 0..1, per packet. They act while uccl_sim_net.faulty is true.
 * options.c writes it.
 */
struct uccl_sim_faults {
	double loss;
	double burst;	  /* Gilbert: chance to enter the bad state, in which everything is lost */
	double burst_end; /* chance to leave it, per packet */
	double kind_loss; /* loss of the types in kind_mask (bit = type, bit 63: direct writes) */
	uint64_t kind_mask;
	uint32_t nth; /* every nth packet of a pair is lost, 0: none */
	double dup;   /* packets only: nothing removes duplicated writes, see `dup_writes` */
	bool dup_writes;
	double torn;	/* share of lost writes whose first part is placed all the same */
	double reorder; /* extra delay up to reorder_ns */
	uint64_t reorder_ns;
	double stall; /* extra delay up to stall_ns, seconds */
	uint64_t stall_ns;
	double corrupt;	   /* one bit flips; found by the checksum and dropped */
	bool corrupt_pass; /* ... or, hostile: not found */
	double truncate;   /* the end of the packet is missing; a write is lost */
	uint64_t flap_ns;  /* all routes are dead for the second half of each such period, 0: none */
	double old_stay;   /* chance that a duplicate comes up to stall_ns late */
	double pause;	   /* per packet that leaves a node: PFC then stops its port, nothing is lost */
	uint64_t pause_ns; /* for up to this long */
};

/* world.c writes it. */
struct uccl_sim_net_cfg {
	uint8_t nodes;
	uint8_t routes;
	uint64_t delay_ns;    /* of the fastest route */
	uint64_t spread_ns;   /* routes are slower than that by up to this */
	uint64_t jitter_ns;   /* per packet, uniform */
	uint64_t rate_bps;    /* of every port, 0: infinite */
	uint64_t queue_bytes; /* of every port; what does not fit is dropped (ingress) or refused (egress) */
	uint64_t mark_bytes;  /* of a port: a packet that comes while this many bytes wait is marked; 0: none is */
	double mark;	      /* share of all packets that are marked at random */
	bool fifo;	      /* a route never reorders */
	bool rails;	      /* label l goes by route l % routes */
	struct uccl_sim_faults faults;
};

/* What a script may order for one packet. */
#define UCCL_SIM_DROP (1u << 0)
#define UCCL_SIM_DUP (1u << 1)
#define UCCL_SIM_CORRUPT (1u << 2)
#define UCCL_SIM_TRUNCATE (1u << 3)

/* Where a node's packets go. */
struct uccl_sim_sink {
	/* Takes the packet over (uccl_sim_pkt_free). */
	void (*packet)(void *arg, struct uccl_sim_pkt *p);
	/* Nothing listens at the node to which this node sent p, which stays the caller's. */
	void (*unreach)(void *arg, const struct uccl_sim_pkt *p);
};

/* Counters of all that happened. net.c writes it. */
struct uccl_sim_stats {
	uint64_t events, sent, delivered, bytes, hole_bytes;
	uint64_t lost_random, lost_hole, lost_queue, lost_corrupt, lost_script, lost_closed;
	uint64_t duplicated, delayed, truncated, corrupted, torn, paused, marked;
};

struct uccl_sim_route {
	uint64_t delay_ns;
	uint64_t last_ns; /* latest arrival */
	bool bad;	  /* Gilbert */
};

/* A port. net.c writes it. */
struct uccl_sim_node {
	const struct uccl_sim_sink *sink;
	void *arg;
	uint64_t egress_ns, ingress_ns; /* when the port is free again */
};

struct uccl_sim_net {
	uint64_t now;
	struct uccl_sim_net_cfg cfg;
	bool faulty;
	struct uccl_rng rng;
	uint64_t trace; /* hash of all that happened */
	struct uccl_sim_stats stats;
	struct uccl_sim_hole holes[UCCL_SIM_HOLES];
	uint32_t nholes;
	/* Script: UCCL_SIM_* bits for a packet about to leave; *delay_ns is added to its way. NULL: none. */
	uint32_t (*script)(void *arg, const struct uccl_sim_pkt *p, uint64_t *delay_ns, uint64_t now);
	void *script_arg;
	/* Shown every packet: what is NULL when it arrived, else why it did not. For a person; NULL: none. */
	void (*show)(void *arg, const struct uccl_sim_pkt *p, const char *what, uint64_t now);
	void *show_arg;

	/* private */
	struct queue_entry {
		uint64_t at, seq;
		struct uccl_sim_event *ev;
	} * queue;
	uint32_t nqueue, queue_cap;
	uint64_t seq;
	uint64_t nserial;
	struct uccl_sim_node node[UCCL_SIM_NODES];
	struct uccl_sim_route *route;		       /* [src][dst][route] */
	uint64_t pair[UCCL_SIM_NODES][UCCL_SIM_NODES]; /* packets sent */
	struct uccl_sim_pkt *spare[24];
};

/* 0 or -FI_ENOMEM, -FI_EINVAL. The clock begins at `start`. */
int uccl_sim_net_init(struct uccl_sim_net *net, const struct uccl_sim_net_cfg *cfg, uint64_t seed, uint64_t start);
/* Packets in flight are freed; other events are forgotten. */
void uccl_sim_net_fini(struct uccl_sim_net *net);

/* Put an event into the queue, or move it. `at` in the past means now. */
void uccl_sim_at(struct uccl_sim_net *net, struct uccl_sim_event *ev, uint64_t at);
void uccl_sim_cancel(struct uccl_sim_net *net, struct uccl_sim_event *ev);
/* Time of the next event, UCCL_NEVER if there is none. */
uint64_t uccl_sim_next(const struct uccl_sim_net *net);
/* Move the clock to the next event and let it happen. False: there is none. */
bool uccl_sim_step(struct uccl_sim_net *net);
/* Let all events up to and including `until` happen; then the clock shows `until`. */
void uccl_sim_run(struct uccl_sim_net *net, uint64_t until);

/* Mix words into the trace. */
void uccl_sim_trace(struct uccl_sim_net *net, uint64_t a, uint64_t b);
/* A number nobody else has. */
uint64_t uccl_sim_serial(struct uccl_sim_net *net);

/* Room for `cap` bytes; never fails short of memory (NULL). */
struct uccl_sim_pkt *uccl_sim_pkt_new(struct uccl_sim_net *net, uint32_t cap);
void uccl_sim_pkt_free(struct uccl_sim_pkt *p);

/* The receiver of packets for a node; NULL: none. */
void uccl_sim_attach(struct uccl_sim_net *net, uint8_t node, const struct uccl_sim_sink *sink, void *arg);
/* Time at which `len` bytes have left the node, and book them; UCCL_NEVER: its queue is full, or stopped for longer. */
uint64_t uccl_sim_egress(struct uccl_sim_net *net, uint8_t node, uint32_t len);
/* When the egress queue of the node is half empty. */
uint64_t uccl_sim_egress_half(const struct uccl_sim_net *net, uint8_t node);
/* The packet (src, dst, label and data filled) leaves its node at `at`, as uccl_sim_egress said. Taken over. */
void uccl_sim_depart(struct uccl_sim_net *net, struct uccl_sim_pkt *p, uint64_t at);

/* Which of the routes this label takes. */
uint16_t uccl_sim_route_of(const struct uccl_sim_net *net, uint8_t src, uint8_t dst, uint16_t label);
/* Make packets vanish (see uccl_sim_hole). False: too many holes. */
bool uccl_sim_hole_add(struct uccl_sim_net *net, const struct uccl_sim_hole *hole);
/* No faults and no holes from now on. */
void uccl_sim_heal(struct uccl_sim_net *net);

/* Address of a node, and back (-1: not a node). */
void uccl_sim_addr(uint8_t node, uint16_t port, struct uccl_nic_addr *a);
int uccl_sim_node_of(const struct uccl_nic_addr *a);

#endif
