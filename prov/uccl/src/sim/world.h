/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * A world of endpoints: the product's engines on simulated NICs, driven by the virtual clock alone, with applications
 * that send and receive (work.c), disasters drawn from the options, and checkers that never sleep.
 *
 * A run has phases: faults and work; healing, after which everything must end within a bound; closing; and a last look
 * at every buffer long after it went back to the application.
 */
#ifndef UCCL_SIM_WORLD_H
#define UCCL_SIM_WORLD_H

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

/* One endpoint, perhaps in its second life. */
struct uccl_sim_life {
	struct uccl_sim_world *w;
	uint8_t node;
	bool alive;
	uint32_t life; /* 0: the first */
	struct uccl_engine *e;
	struct uccl_nic *nic;
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
	uint32_t children;		/* I9: under way into multi-receive buffers when they were too many */
};

struct uccl_sim_work {
	struct sim_msg **msgs;
	uint32_t nmsgs, msgs_cap;
	struct sim_recv **recvs;
	uint32_t nrecvs, recvs_cap;
	uint32_t open;			   /* messages that must still end */
	LIST_HEAD(, sim_reuse) reuse_list; /* buffers in quarantine */
	uint32_t reuses;		   /* how many */
	uint64_t order;			   /* messages posted */
	uint32_t received, failed, cancelled, truncated;
	bool ending; /* left-over receives are being cancelled */
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
	struct uccl_sim_work work;
	struct sim_action *action;
	uint32_t nactions;
	bool healed;
	bool deaths; /* some endpoint died */
	uint32_t violations;
	char first[512]; /* text of the first violation */
	uint64_t checks;
	uint64_t train_drops, train_tests, trains_off; /* likewise, and of their engines */
	uint64_t slot_drops_write, slot_drops, fenced, writes, bad_key; /* of NICs that were closed */
	/* Print what goes wrong and, if `verbose`, all that happens. NULL: silence. */
	void (*print)(const char *text);
	int verbose;
};

/* A message, its receive, and when. */
struct uccl_sim_plan {
	uint8_t src, dst;
	uint8_t match;	/* enum uccl_sim_match */
	bool directed;	/* EXACT: the receive names the source */
	bool no_recv;	/* no receive for it */
	uint32_t flags; /* UCCL_OPF_DATA, _INJECT, _EARLY, _DELIVERY */
	uint64_t len;
	uint64_t recv_len;
	uint8_t pieces; /* buffers of send and receive, 1..4; 0: 1 */
	uint64_t send_ns, recv_ns;
	uint64_t cancel_ns; /* cancel the receive at this time, and post it again; 0: no */
};

/* 0 or -FI_ENOMEM. All nodes are booted. */
int uccl_sim_world_open(struct uccl_sim_world *w, const struct uccl_sim_options *o, uint64_t seed);
/* Frees everything; engines still open are closed. */
void uccl_sim_world_close(struct uccl_sim_world *w);

/* An invariant is broken. */
void uccl_sim_violation(struct uccl_sim_world *w, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* A new life of a node that is dead. */
int uccl_sim_boot(struct uccl_sim_world *w, uint8_t node);
/* The process of a node ends at once, without a word to anybody. */
void uccl_sim_kill(struct uccl_sim_world *w, uint8_t node);
/* A node does not poll before `until`. */
void uccl_sim_sleep(struct uccl_sim_world *w, uint8_t node, uint64_t until);
void uccl_sim_wake(struct uccl_sim_life *n);

/* Plan one message; random work as the options say. Times are absolute. */
struct sim_msg *uccl_sim_plan(struct uccl_sim_world *w, const struct uccl_sim_plan *p);
void uccl_sim_plan_random(struct uccl_sim_world *w, uint32_t count, uint64_t from_ns, uint64_t window_ns);
/* Plan the disasters of the options. */
void uccl_sim_plan_disasters(struct uccl_sim_world *w);

/* Let things happen until `until`, or (done) until no message is open; true: none is. Stops at a violation. */
bool uccl_sim_go(struct uccl_sim_world *w, uint64_t until, bool done);
/*
 * The whole run from here on: until all planned times are over, healing, the bound, closing, the last look. Returns the
 * count of violations.
 */
uint32_t uccl_sim_finish(struct uccl_sim_world *w);
/* A seed from beginning to end. */
uint32_t uccl_sim_seed(struct uccl_sim_world *w, const struct uccl_sim_options *o, uint64_t seed);

/* Checks of inner state of every engine, now. */
void uccl_sim_check(struct uccl_sim_world *w);

/* What became of a message. */
bool uccl_sim_msg_received(const struct sim_msg *m);
/* -1: its send is not complete; else 0 or a positive FI_Exxx. */
int uccl_sim_msg_result(const struct sim_msg *m);
/* When the send completed. */
uint64_t uccl_sim_msg_done_ns(const struct sim_msg *m);

/* work.c, for world.c */
void sim_work_death(struct uccl_sim_world *w, uint8_t node, uint32_t life);
void sim_work_cancel_rest(struct uccl_sim_world *w);
void sim_work_check_end(struct uccl_sim_world *w);
void sim_work_fini(struct uccl_sim_world *w);
void sim_work_tell_open(struct uccl_sim_world *w);
void sim_life_init(struct uccl_sim_life *n);

#endif
