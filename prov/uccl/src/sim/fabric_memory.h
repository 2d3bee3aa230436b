/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The packet memory of a switch: how much of it a queue may have where all ports share one (dynamic thresholds,
 * Choudhury and Hahne, 1998), and who has to stop where nothing may be dropped (priority flow control, IEEE 802.1Qbb).
 * Of the class of data only; control has a queue of its own, and is not stopped. A packet takes memory while it waits,
 * not while it is sent.
 */
#ifndef UCCL_SIM_FABRIC_MEMORY_H
#define UCCL_SIM_FABRIC_MEMORY_H

#include "sim/fabric.h"

/* What came over a link, by the port that it was sent from. */
struct uccl_fab_hold {
	uint64_t bytes; /* that wait at the other end */
	uint64_t over;	/* of these, in its headroom: they came when it had no right to more */
	bool asked;	/* to stop, and not yet to go on */
	uint64_t since; /* ps: it has stopped since then */
};

/* A stop or a go that travels back over a link. */
struct uccl_fab_xoff {
	struct uccl_fab_event ev; /* kind UCCL_FAB_PAUSE */
	uint32_t port;		  /* that it is for */
	bool stop;
};

struct uccl_fab_memory {
	struct uccl_fab_hold *holds; /* by port */
	uint64_t *used;		     /* by node, bytes, without headroom */
	struct uccl_pool msgs;
	uint64_t pauses;    /* times that a port was asked to stop */
	uint64_t stopped;   /* ps that ports did, all of them together */
	uint64_t nics;	    /* ps of these that were ports of hosts */
	uint64_t most_over; /* bytes in the headroom of one link */
	uint64_t most_used; /* bytes of one switch, without headroom */
};

/* n->mem, if the topology asks for it. 0 or -FI_ENOMEM. */
int uccl_fab_memory_init(struct uccl_fab *n);
void uccl_fab_memory_fini(struct uccl_fab *n);

/* A packet of data came over the link of p->port, for port `o`: is there memory for it? */
bool uccl_fab_memory_admits(const struct uccl_fab *n, const struct uccl_fab_port *o, const struct uccl_fab_pkt *p);
/* The packet begins to wait in a switch, or ends it. p->port is still the one that it came over. */
void uccl_fab_memory_take(struct uccl_fab *n, const struct uccl_fab_pkt *p);
void uccl_fab_memory_give(struct uccl_fab *n, const struct uccl_fab_pkt *p);
/* The message reached its port, which stops or goes on; it is freed. The port. */
struct uccl_fab_port *uccl_fab_memory_heard(struct uccl_fab *n, struct uccl_fab_event *e);

/*
 * Do ports wait for each other in a circle: each has stopped, because what came from it waits for the next? Then none
 * of them ever goes on. Takes time, as it looks at every packet that waits.
 */
bool uccl_fab_memory_circle(const struct uccl_fab *n);

#endif
