/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * A NIC on the simulated network, in two kinds. A packet NIC (write_max 0, usually tx_sync) is like UDP sockets. A
 * direct-write NIC (write_max > 0, not tx_sync) is like RDMA with UC: it reads the source at some time between tx() and
 * UCCL_RX_SENT and places writes into registered memory of the peer before any software there runs.
 */
#ifndef UCCL_SIM_NIC_SIM_H
#define UCCL_SIM_NIC_SIM_H

#include "nic/nic.h"
#include "nic/gso.h"
#include "sim/net.h"
#include "sim/owner.h"

/* What takes its time, and how much at most. life.c writes it. */
struct uccl_sim_nic_late {
	uint64_t read_ns;  /* not tx_sync: the source is read this late, and SENT told this much later */
	uint64_t fence_ns; /* a fence */
	uint64_t proof_ns; /* UNREACH and GONE */
	uint64_t answer_ns; /* of a write: until the peer's NIC has it, it is read, at most so long; 0: until it left */
};

/* Whom the NIC tells of what happens. life.c writes it. */
struct uccl_sim_nic_user {
	struct uccl_owner *owner; /* checks every access to memory; NULL: none */
	/* Something is there for rx(), or tx() may take more. */
	void (*wake)(void *arg);
	void *wake_arg;
	/* Invariant I1 is broken. */
	void (*violation)(void *arg, const char *text);
	void *arg;
};

struct uccl_sim_nic_cfg {
	uint32_t mtu;
	uint32_t write_max;
	bool write_brittle;	/* it says so; no path ends */
	uint16_t labels;
	bool tx_sync;
	bool placements;	  /* payload is scattered to predicted places */
	uint32_t placements_most; /* most of them at once; 0: as many as are told */
	double misplaced;		/* share of them to which something comes that the NIC keeps to itself */
	bool ages;		/* fill uccl_rx.age_ns */
	bool shared_slots;	/* control packets take the same slots as data */
	bool liveness;		/* a closed or disconnected peer is told as UCCL_RX_GONE */
	bool icmp;		/* a node where nothing listens is told as UCCL_RX_UNREACH */
	bool marks;		/* it asks the network for marks, and tells which packets have one */
	uint32_t train_bytes;	/* neighbours leave as one up to this; 0: each by itself */
	enum uccl_train_fault train_fault;
	/*
	 * Broken, to test the checkers: neither fence nor dereg nor stop_writes stops a write, predicted places are not
	 * forgotten.
	 */
	bool leaky;
	uint32_t rx_slots;	/* longest packets that the data queue holds, and again the write queue */
	uint8_t slot_unit;	/* the data queue is of bytes: see base/slot_unit.h; 0: of packets */
	uint32_t control_slots; /* of the control queue */
	uint32_t tx_depth;	/* not tx_sync: most sends not yet told as UCCL_RX_SENT */
	struct uccl_sim_nic_late late;
	uint64_t link_bps, delay_ns, rto_min_ns;
	struct uccl_sim_nic_user user;
};

struct uccl_sim_nic_stats {
	uint64_t tx_packets, tx_refused;
	uint64_t train_drops; /* packets lost because they were part of a train */
	uint64_t rx_packets, rx_writes;
	uint64_t slot_drops;	     /* data packets (sequenced chunks) that found no slot */
	uint64_t slot_drops_control; /* other packets */
	uint64_t slot_drops_write;
	uint64_t bad_key; /* writes to memory that is not registered (any more) */
	uint64_t no_peer; /* writes that no connected peer handle takes */
	uint64_t fenced;  /* writes that a fence stopped */
	uint64_t torn;
	uint64_t stopped; /* writes that stop_writes ended */
	uint64_t placements, split; /* places offered with a packet; packets split */
	uint64_t runs;		    /* GRO batches that met a place for them */
	uint64_t misplaced;	    /* places to which something else came */
	uint32_t slots_max;    /* most slots of the data queue in use at once */
	uint32_t write_slots_max;
	uint32_t peers, mrs; /* now open */
};

/* A NIC at a node where none is open. -FI_EINVAL, -FI_EADDRINUSE, -FI_ENOMEM. Close it through its table. */
int uccl_sim_nic_open(struct uccl_sim_net *net, uint8_t node, const struct uccl_sim_nic_cfg *cfg,
		      struct uccl_nic **nic);
const struct uccl_sim_nic_stats *uccl_sim_nic_stats(const struct uccl_nic *nic);
/* What waits in its receive queue: packets, and events. */
uint32_t uccl_sim_nic_queued(const struct uccl_nic *nic);
/* The process behind the NIC dies: nothing more is read or written, and nobody gets to clean up. Then close it. */
void uccl_sim_nic_kill(struct uccl_nic *nic);
/* Break a path of every peer handle for `node`: writes on their way are lost, UCCL_RX_PATH_ERR is told. */
void uccl_sim_nic_break(struct uccl_nic *nic, uint8_t node, uint16_t path);

#endif
