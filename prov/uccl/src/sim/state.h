/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* What a world of endpoints is made of: world.h. */
#ifndef UCCL_SIM_STATE_H
#define UCCL_SIM_STATE_H

#include "engine/engine.h"
#include "sim/invariant.h"
#include "sim/nic_sim.h"
#include "sim/options.h"

#define UCCL_SIM_WORLD_NODES 10
#define UCCL_SIM_LIVES 8 /* incarnations of one node at most */

struct uccl_sim_world;
struct sim_msg;
struct sim_recv;
struct sim_reuse;
struct sim_remote;

/* How a message finds its receive. Of each kind all receives of one endpoint are alike, but for those of EXACT. */
enum uccl_sim_match {
	UCCL_SIM_EXACT,	   /* tagged, a receive of its own */
	UCCL_SIM_ANY,	   /* tagged, any source */
	UCCL_SIM_DIRECTED, /* tagged, receives name the source */
	UCCL_SIM_PEEK,	   /* tagged, looked for */
	UCCL_SIM_UNTAGGED,
	UCCL_SIM_UNTAGGED_DIRECTED,
	UCCL_SIM_MULTI, /* untagged, multi-receive buffers */
	UCCL_SIM_MATCHES,
};

#define UCCL_SIM_LANES 2

/* A lane of an endpoint: a node of the network, of the same host. life.c writes it. */
struct uccl_sim_lane {
	struct uccl_sim_life *primary;
	struct uccl_lane_channel *channel;
	struct uccl_engine *e;
	struct uccl_nic *nic;
	struct uccl_sim_event poll;
	uint64_t asleep_until;
};

/* One endpoint, perhaps in its second life. life.c writes it. */
struct uccl_sim_life {
	struct uccl_sim_world *w;
	uint8_t node;
	bool alive;
	uint32_t life; /* 0: the first */
	struct uccl_engine *e;
	struct uccl_nic *nic;
	struct uccl_sim_lane lane[UCCL_SIM_LANES];
	/* As in a program's address vector: each held as long as its address is there. NULL: not asked for yet. */
	struct uccl_peer *peer[UCCL_SIM_WORLD_NODES][UCCL_SIM_LIVES];
	struct uccl_rng random; /* for the engine */
	struct uccl_sim_event poll;
	struct uccl_sim_event peek;
	uint64_t asleep_until;
	uint32_t spins;			/* polls in a row that did nothing and asked for another at once */
	uint64_t refused;		/* the NIC's count at the last poll */
	uint8_t untagged;		/* enum uccl_sim_match of untagged messages to this node */
	uint64_t cap[UCCL_SIM_MATCHES]; /* largest message to this node of each kind */
	uint32_t peeks;			/* messages still to be looked for */
	uint32_t multis;		/* messages still to come into multi-receive buffers */
	uint32_t multi_posted;		/* such buffers now posted or planned */
	uint64_t order;			/* receives posted */
	uint32_t posted;		/* operations that have not completed */
	uint32_t unread;		/* completions that the application has not read */
	uint32_t children;		/* I9: messages of multi-receive buffers under way when `unread` was full */
};

/* Messages and receives of all endpoints. work.c writes it. */
struct uccl_sim_work {
	struct sim_msg **msgs;
	uint32_t nmsgs, msgs_cap;
	struct sim_recv **recvs;
	uint32_t nrecvs, recvs_cap;
	uint64_t order;			   /* messages posted */
	uint32_t received, failed, cancelled, truncated;
	bool unproven;	 /* a send was taken back whose target did not say so: it may come or not */
	bool ending; /* left-over receives are being cancelled */
};

/* Buffers in quarantine. buffer.c writes it. */
struct uccl_sim_buffers {
	LIST_HEAD(, sim_reuse) reuse_list;
	uint32_t reuses; /* how many */
};

/* Reads, writes and atomics of all endpoints. remote.c writes it. */
struct uccl_sim_remotes {
	struct sim_remote **v;
	uint32_t n, cap;
};

/* Operations that were taken back. aborted.c writes it. */
struct uccl_sim_aborts {
	uint64_t ended, cancelled;	/* in all; those that did not succeed first */
	uint64_t prompt, late;		/* of those whose peer makes progress; those that took longer than they may */
};

/* Counters of NICs and engines that were closed. world.c writes it. */
struct uccl_sim_totals {
	uint64_t train_drops, train_tests, trains_off;
	uint64_t over_lanes; /* bytes that lanes sent */
	/* Payloads that went to predicted places: those that belonged there, and others. */
	uint64_t predictions, prediction_hits, misplaced;
	/* Payload of packets that came marked, and as engines knew of it; their connections. */
	uint64_t marked, marked_rx, marked_tx, connects;
	uint64_t slot_drops_write, slot_drops, fenced, writes, bad_key;
};

struct uccl_sim_world {
	struct uccl_sim_options o;
	uint64_t seed;
	struct uccl_sim_net net;
	struct uccl_owner owner;
	struct uccl_sim_inv inv;
	struct uccl_rng rng; /* of applications and disasters */
	struct uccl_sim_life node[UCCL_SIM_WORLD_NODES];
	struct uccl_addr addr[UCCL_SIM_WORLD_NODES][UCCL_SIM_LIVES];
	const struct uccl_target_ops *target; /* of all endpoints */
	uint32_t open; /* messages and operations that must still end */
	struct uccl_sim_work work;
	struct uccl_sim_remotes remotes;
	struct uccl_sim_buffers buffers;
	struct uccl_sim_aborts aborts;
	struct sim_action *action;
	uint32_t nactions;
	bool healed;
	bool deaths; /* some endpoint died */
	uint32_t violations;
	char first[512]; /* text of the first violation */
	uint64_t checks;
	struct uccl_sim_totals total;
	/* Print what goes wrong and, if `verbose`, all that happens. NULL: silence. */
	void (*print)(const char *text);
	int verbose;
};

#endif
