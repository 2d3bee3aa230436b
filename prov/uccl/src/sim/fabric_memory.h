/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The packet memory of a switch. If all ports share one memory, it decides how much of it a queue may have (dynamic
 * thresholds, Choudhury and Hahne, 1998). If nothing may be dropped, it decides which link must stop (priority flow
 * control, IEEE 802.1Qbb). Both concern data only: control packets have a queue of their own, and do not stop. A packet
 * takes memory while it waits, not while it is sent.
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
 * Is there a deadlock: a circle of ports, each of which has stopped because its packets wait for the next port? Slow:
 * it looks at every packet that waits.
 */
bool uccl_fab_memory_circle(const struct uccl_fab *n);

#endif
