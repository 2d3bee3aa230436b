/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Invariants that a look from outside tells: at the packets on the network, and into the engines now and then. Where
 * each invariant is checked, in every simulated run:
 *
 *   I1   no NIC access to the application's memory    nic_sim.c (owner.h), buffer.c (canaries, after completion)
 *   I2   every operation completes once               work.c, remote.c
 *   I3   bytes, length, tag, data, source are right   work.c, remote.c (check.h)
 *   I4   order                                        work.c (check.h)
 *   I5   no success without delivery                  work.c
 *   I6   windows, bitmaps, bytes in flight            world.c (uccl_flow_check)
 *   I7   credit is neither made up nor taken back     here
 *   I8   grants fit into the receive queue            here; world.c (a direct write found no slot), scenario slots
 *   I9   room for every completion                    here: of what nobody posted; test_cq, of the queue itself
 *   I10  an engine that waits has a timer, never spins life.c (spins), world.c (timers)
 *   I11  a packet that is refused changes nothing     here: every refused form, made up and handed to a live flow
 *   I12  unauthenticated: no more back than came      here
 *   I13  memory per peer has a bound                  here
 *   I14  nothing of another incarnation               work.c
 *   I15  device memory is flushed before completion   not here: msg/device/test_device
 *   I16  nothing is left after the end                world.c
 *   I17  faults off, then everything ends in time     world.c
 *   I18  one seed, one trace                          uccl_sim --twice, test_sim_seeds
 *   I19  no network that treats packets alike is       world.c
 *        taken for one that breaks trains
 *   I20  of the network's marks none is made up, and    here
 *        where nothing is lost, and blocks have lines for all
 *        paths, none is forgotten
 *   I21  what is taken back ends in time               aborted.c
 */
#ifndef UCCL_SIM_INVARIANT_H
#define UCCL_SIM_INVARIANT_H

#include "sim/net.h"

struct uccl_sim_world;
struct uccl_sim_life;
struct uccl_engine;
struct uccl_flow;
struct sim_inv_flow;

struct uccl_sim_inv {
	/* I7: what was seen of each flow's credit. */
	struct sim_inv_flow *flows;
	uint32_t nflows, cap;
	/* I12: did [from] send to [to] anything but handshakes, so that it is authenticated? */
	bool talks[UCCL_SIM_NODES][UCCL_SIM_NODES];
	/* I12: bytes of [from][to], of the handshake and in all. */
	uint64_t asked[UCCL_SIM_NODES][UCCL_SIM_NODES], answered[UCCL_SIM_NODES][UCCL_SIM_NODES];
	uint64_t heard[UCCL_SIM_NODES][UCCL_SIM_NODES];
	uint64_t looks;
	uint64_t forged; /* packets made up so far */
};

/* A packet arrived (`what` NULL), or did not. */
void uccl_sim_inv_packet(struct uccl_sim_world *w, const struct uccl_sim_pkt *p, const char *what);
/* Look into an endpoint that lives: its engine, or that of a lane. */
void uccl_sim_inv_look(struct uccl_sim_life *n, const struct uccl_engine *e);
/* I9: an operation of this application completes; `child`: one that it did not post. */
void uccl_sim_inv_done(struct uccl_sim_life *n, bool child);
/* I11 for one form; a text if the flow changed, or did not refuse it. NULL: well, or this form cannot be made now. */
const char *uccl_sim_inv_forge(struct uccl_flow *f, uint32_t form, uint64_t now);
#define UCCL_SIM_INV_FORMS 8
/* I20, when nothing is open any more. */
void uccl_sim_inv_marks(struct uccl_sim_world *w);
/* An endpoint ends: what it knew of marks. */
void uccl_sim_inv_marks_add(struct uccl_sim_world *w, const struct uccl_sim_life *n);
void uccl_sim_inv_fini(struct uccl_sim_inv *inv);

#endif
