/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Up to eight engines on a network in memory: one virtual clock, one queue, random numbers from a seed. A test may
 * drop, hold or double packets, stop a NIC, make it fail, kill a node, or put bytes and events into a NIC by hand.
 */
#ifndef UCCL_TEST_ENGINE_LAN_H
#define UCCL_TEST_ENGINE_LAN_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <rdma/fi_errno.h>

#include "base/rng.h"
#include "base/units.h"
#include "engine/impl.h"
#include "nic/gso.h"

#define LAN_NODES 8
#define LAN_COMPS 2048
#define LAN_DELAY_NS 5000ull
#define LAN_MTU 20000

struct lan;

struct lan_comp {
	uint8_t type;
	uint32_t flags;
	int err;
	uint64_t len, tag;
	void *context;
	struct uccl_peer *from;
};

struct lan_event {
	TAILQ_ENTRY(lan_event) link;
	int to; /* node */
	int from;
	uint8_t type, rtype; /* packet: of its header */
	struct uccl_rx rx;
	uint64_t rkey, raddr; /* write */
	uint64_t arrived;     /* in the queue of the NIC; 0: put there by hand */
	uint8_t data[];
};

TAILQ_HEAD(lan_events, lan_event);

enum lan_verdict { LAN_PASS, LAN_DROP, LAN_HOLD, LAN_DOUBLE };

/* A connected peer of a NIC. */
struct lan_link {
	struct uccl_nic_addr to;
	uint64_t id;
	bool live;
	bool held; /* its kernel holds a liveness connection */
	bool mute; /* likewise, and its process has said nothing there */
};

struct lan_mr {
	uint8_t *buf;
	uint64_t len;
	bool live;
};

struct lan_nic {
	struct uccl_nic nic;
	struct lan *lan;
	int node;
	struct uccl_nic_addr addr;
	struct lan_events rxq;
	struct lan_events given; /* handed up by the last rx() */
	struct lan_link link[64];
	int nlinks;
	struct lan_mr mr[64];
	int nmrs, nfences;
	int room;     /* packets it takes before it is full; -1: no limit */
	int tx_error; /* negative: what tx() returns */
	int connect_error;
	uint32_t labels; /* bits: with which it sent */
	uint64_t txs, rxs; /* calls */
	uint64_t train_drops; /* packets lost in trains */
};

struct lan_node {
	struct lan *lan;
	struct uccl_config cfg;
	struct lan_nic *nic;
	struct uccl_engine *e;
	struct lan_comp comp[LAN_COMPS];
	int ncomp, seen;
	bool asleep; /* is not polled */
	/* Before it is opened: of its NIC, 0: unknown, no trains; and how many share that, 0: nobody is asked. */
	uint64_t link_bps;
	uint32_t train_bytes;
	bool may_gather; /* likewise: uccl_engine_attr.may_gather */
	enum uccl_train_fault train_fault; /* at any time */
	uint32_t sharers;
	const struct uccl_target_ops *target; /* its registered memory */
	struct uccl_lane_channel *lane_channel; /* it is a lane: from there to its primary */
	uint8_t lane_number;
	const struct uccl_addr *identity;
};

struct lan {
	uint64_t now;
	struct uccl_rng rng;
	struct lan_node node[LAN_NODES];
	struct lan_events wire, held;
	enum lan_verdict (*filter)(struct lan *l, const struct lan_event *ev);
	int n;		    /* the filter's own */
	uint32_t mask;	    /* likewise */
	bool icmp;	    /* a packet to nobody is reported to its sender */
	bool writes, brittle, hints; /* what NICs opened from now on can do */
	bool together;	    /* packets of one length that came one after the other go up as one */
	bool find_mtu;	    /* likewise: the way may carry less */
	bool marks;	    /* likewise: they tell of marks, which the network gives to all that may be marked */
	bool two_way;	    /* likewise: label 0 is the port at which they receive */
	bool one_host;	    /* their NICs say that all are on one host */
	bool nat;	    /* node 0 is seen at another address, and reached there only */
	bool older;	    /* strangers know of no grant of 0 */
	uint64_t packets;   /* sent so far */
};

/* The network and its NICs allocate now: what counts allocations, or lets them fail, does not mean these. */
extern volatile bool lan_allocates;

struct lan *lan_new(void);
/* Opens node i. The config is node[i].cfg, defaults unless changed. */
void lan_open(struct lan *l, int i);
/* The same, which may fail: what uccl_engine_open() says. */
int lan_try_open(struct lan *l, int i);
struct lan *lan_new_open(int nodes);
/* Who knows no more than their place may connect to them. */
struct lan *lan_new_keyless(int nodes);
/* The process is gone: no close, no drain for the others; its own operations end. */
void lan_kill(struct lan *l, int i);
void lan_free(struct lan *l);
/* A test with the network `l` that `made` returns; it is freed behind the test. */
#define LAN_TEST(name, made) TEST_WITH(name, struct lan *l, made, lan_teardown)
int lan_teardown(void **state);

/*
 * Two endpoints, sides 0 and 1, with up to LAN_LANES lanes each: primaries and lanes are nodes of their own. Lanes come
 * before their primaries: they are closed first.
 */
#define LAN_LANES 2
#define LAN_PRIMARY(side) (6 + (side))
#define LAN_LANE(side, k) ((side) * 3 + (k))
/* Between the primary and each lane of a side. */
extern struct uccl_lane_channel *lan_channel[2][LAN_LANES];
/* `writes`: the NIC of the primary writes remote memory. */
void lan_side_open(struct lan *l, int side, uint8_t lanes, bool writes);

/* One round: poll every node that is awake, let the clock go on. True if anything moved. */
bool lan_round(struct lan *l);
/* Until nothing is left to do but wait longer than `ns`. */
void lan_run(struct lan *l, uint64_t ns);
/* Exactly `ns`, with all timers. */
void lan_pass(struct lan *l, uint64_t ns);
void lan_release(struct lan *l, bool reverse);
/* A filter: some packets are lost, some come twice. */
enum lan_verdict lan_lossy(struct lan *l, const struct lan_event *ev);

/* The peer on node i that stands for node j; keyless: known by place only. */
struct uccl_peer *lan_peer(struct lan *l, int i, int j);
struct uccl_peer *lan_peer_keyless(struct lan *l, int i, int j);
struct conn *lan_conn(struct lan *l, int i, int j);

struct uccl_op *lan_op(struct lan *l, int i, uint8_t type, uint32_t flags, const void *buf, uint64_t len);
int lan_send_to(struct lan *l, int i, struct uccl_peer *p, const void *buf, uint64_t len, void *context);
int lan_send(struct lan *l, int i, int j, const void *buf, uint64_t len, void *context);
int lan_recv(struct lan *l, int i, void *buf, uint64_t len, void *context);
/* A receive from one peer only. */
int lan_recv_from(struct lan *l, int i, struct uccl_peer *p, void *buf, uint64_t len, void *context);
/* One message of 100 bytes from node 0 to node 1. */
void lan_talk(struct lan *l);
const struct lan_comp *lan_next(struct lan *l, int i);
/* Take the next completion of node i; it must be this one. */
void lan_expect(struct lan *l, int i, void *context, int err);
int lan_waiting(const struct lan *l, int i);

/* Bytes that node i's NIC receives as a packet from node j's address. */
void lan_inject(struct lan *l, int i, int j, const void *data, uint32_t len);
void lan_inject_from(struct lan *l, int i, const struct uccl_nic_addr *src, const void *data, uint32_t len);
/*
 * Somebody who is no node, at `who` with an incarnation of its own, connects to node i and says no more. It knows the
 * node's connect key, or (keyless) not. NULL: the node refused. Otherwise what the node has of it.
 */
struct conn *lan_attacker(struct lan *l, int i, const struct uccl_addr *who, bool keyless);
/* A direct write of node j's that node i's NIC has placed, wherever. */
void lan_inject_write(struct lan *l, int i, int j, uint32_t imm, uint32_t len, uint16_t path);
/* An event about node j's address (GONE) or of a peer. */
void lan_event(struct lan *l, int i, uint8_t kind, const struct uccl_nic_addr *src);
/* ICMP about a packet to `to`, of which it quotes the first bytes. */
void lan_icmp(struct lan *l, int i, uint8_t kind, const struct uccl_nic_addr *to, const void *quote, uint32_t len);
/* The same about the last packet of the flow from i to j, and its header. */
void lan_icmp_last(struct lan *l, int i, int j, uint8_t kind);
void lan_header_last(struct lan *l, int i, int j, uint8_t hdr[UCCL_HDR_LEN]);
/* "Packet too long: I carry so many bytes", about a packet that began so. */
void lan_too_long(struct lan *l, int i, int j, const uint8_t hdr[UCCL_HDR_LEN], uint32_t bytes);
/* The liveness connection of node i's NIC to j stands, or not. */
void lan_hold(struct lan *l, int i, int j, bool held);
/* Registered memory, the same for all nodes, under key 1; nobody hears what happens to it. For lan_node.target. */
extern uint8_t lan_region[2u << 20];
extern const struct uccl_target_ops lan_target;
const struct uccl_stats *lan_stats(const struct lan *l, int i);
/* Processor time of this thread, for tests of what something costs. */
double lan_cpu_s(void);
uint64_t lan_dropped(const struct lan *l, int i, enum uccl_drop reason);

void lan_fill(uint8_t *buf, uint64_t len, uint32_t seed);
void lan_check(const uint8_t *buf, uint64_t len, uint32_t seed);

#define LAN_CTX(n) ((void *)(uintptr_t)(n))

#endif
