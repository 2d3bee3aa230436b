/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * RDMA devices in memory, behind the table of nic/verbs/verbs_lib.h: protection domains, memory regions, completion
 * queues with channels, memory windows, shared receive queues, UD, UC and RC queue pairs on one wire whose packets a
 * test may lose, double or hold back. Any call can be made to fail. Misuse that a real NIC would punish late or never
 * (a transition without its attributes, memory outside of a region, a full completion queue, an address handle
 * destroyed while a send uses it, a queue pair while a window of type 2 is bound through it) is counted as a violation,
 * with a text.
 */
#ifndef UCCL_TEST_FAKE_VERBS_H
#define UCCL_TEST_FAKE_VERBS_H

#ifdef HAVE_VERBS

#include "nic/verbs/verbs_lib.h"

#define FAKE_GIDS 8
#define FAKE_PORTS 2

struct fake_port {
	enum ibv_port_state state;
	uint8_t link_layer; /* IBV_LINK_LAYER_* */
	enum ibv_mtu mtu;
	uint16_t lid;
	uint8_t speed, width;		     /* as ibv_port_attr has them */
	struct ibv_gid_entry gid[FAKE_GIDS]; /* gid_index gives the place; others are empty */
	int ngids;
};

/* A device; tests may change it at any time. */
struct fake_dev {
	struct ibv_device dev;
	struct ibv_device_attr attr;
	struct fake_port port[FAKE_PORTS];
	bool wedges;	  /* as Soft-RoCE: a UC queue pair is dead after a lost middle or last packet */
	bool loose_windows; /* as Soft-RoCE: who has the key of a window may write to all of its region */
	bool leaky_windows; /* broken: what is unbound can be written to */
	bool grh_garbage; /* what lies before a received IPv4 header looks like IPv6 */
	uint32_t next_qpn;
};

/* One packet on the wire, for hooks. */
struct fake_packet {
	enum ibv_qp_type type;
	enum ibv_wr_opcode opcode;
	uint32_t src_qpn, dst_qpn;
	uint32_t flow_label;
	uint8_t traffic_class, sl;
	uint32_t index, count; /* of the message's packets */
	uint32_t len;	       /* of the message */
};

enum fake_fate { FAKE_PASS, FAKE_DROP, FAKE_DUP, FAKE_HOLD };

struct fake_stats {
	uint64_t sent, delivered, dropped; /* messages; dropped by hooks */
	uint64_t no_receive;		   /* nothing was posted */
	uint64_t no_target;		   /* no such place, or not able to receive */
	uint64_t bad_qkey;
	uint64_t bad_rkey;
};

struct fake_verbs {
	enum fake_fate (*hook)(void *arg, const struct fake_packet *p); /* NULL: all pass */
	void *hook_arg;
	bool stall; /* sends wait for fake_verbs_run() */
	bool silence; /* likewise those of RC: nobody acknowledges what left */
	int refuse; /* so many requests of a chain are taken, the next is refused; 0: all are taken */
	struct fake_stats stats;
	uint64_t violations;
	char violation[128]; /* the latest */
	/* objects that exist */
	int contexts, pds, mrs, mws, channels, cqs, srqs, qps, ahs;
	/* regions that were registered of memory that comes from NUMA node 0 first, or from anywhere */
	int near, anywhere;
	int dmabufs; /* registrations of such, ever */
	/*
	 * Where the memory is that reg_mr_iova is given the address of, for memory that the processor must not touch;
	 * NULL: the kernel does not know such an address. Not set: it is where it seems to be.
	 */
	void *(*peer_memory)(void *addr);
};

struct fake_verbs *fake_verbs_new(void);
/* What the back end left behind goes too. */
void fake_verbs_free(struct fake_verbs *f);
/* Likewise, at a test's end. 0: nothing was left, and nothing done that a NIC forbids; else -1, after saying what. */
int fake_verbs_end(struct fake_verbs *f);
/* The table; there is one fake at a time. */
const struct uccl_verbs *fake_verbs_lib(void);
/* One for several threads; a test that looks at the fake meanwhile, or does something to it, has the lock. */
const struct uccl_verbs *fake_verbs_locked(void);
void fake_verbs_lock(void);
void fake_verbs_unlock(void);
/* Does the kernel tell where memory comes from? */
bool fake_verbs_numa(void);
/* Objects that exist. */
int fake_verbs_live(const struct fake_verbs *f);

/*
 * A RoCE device with one active port of MTU 4096, 100 Gbit/s, whose GIDs are v1 and v2 of a link-local address and of
 * 10.0.0.`host`. `sysfs` is its folder there, NULL: none.
 */
struct fake_dev *fake_verbs_add(struct fake_verbs *f, const char *name, uint8_t host, const char *sysfs);
/* Its IPv4 GIDs are 127.0.0.`host`, of this host's own. */
void fake_verbs_local(struct fake_dev *d, uint8_t host);
/* It has memory windows of both types. */
void fake_verbs_windows(struct fake_dev *d);
/* Turn port 1 of a device into InfiniBand. */
void fake_verbs_infiniband(struct fake_dev *d, uint16_t lid);

/*
 * The n-th call from now of a function, by its name in the table, fails with errno `err`; n = 0: all do until err 0 is
 * given.
 */
void fake_verbs_fail(struct fake_verbs *f, const char *call, unsigned int n, int err);
/* As uccl_nic_device.dmabuf: a device that makes none. */
int fake_no_dmabuf(void *arg, const void *p, uint64_t len, uint64_t *off);
/* Calls so far. */
unsigned int fake_verbs_calls(struct fake_verbs *f, const char *call);

/* Do the sends that wait. */
void fake_verbs_run(struct fake_verbs *f);
/* Deliver what hooks held, in order or the last first. */
void fake_verbs_release(struct fake_verbs *f, bool backwards);
/* A queue pair breaks: ERR, what is outstanding is flushed. False: no such one. */
bool fake_verbs_break(struct fake_verbs *f, uint32_t qpn);
/* True: a queue pair of this number exists. */
bool fake_verbs_exists(struct fake_verbs *f, uint32_t qpn);
/* An asynchronous event of a queue pair, or (no such one) for all contexts. */
void fake_verbs_event(struct fake_verbs *f, enum ibv_event_type type, uint32_t qpn);
/* Of a completion queue (CQ_ERR, which breaks it: nothing is read from it any more) or a shared receive queue. */
void fake_verbs_queue_event(struct fake_verbs *f, enum ibv_event_type type, void *queue);
/* The device is taken away, and its contexts cannot be used any more: their events end by EIO. */
void fake_verbs_detach(struct fake_verbs *f);

#endif

#endif
