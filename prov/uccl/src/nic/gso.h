/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Trains: neighbours that go down as one packet, which the kernel or the NIC cuts (UDP GSO). Which ones do is the same
 * for the back end that makes them, for the simulated NIC, and for the fault wrapper, which breaks them.
 */
#ifndef UCCL_NIC_GSO_H
#define UCCL_NIC_GSO_H

#include "flow/wire/io.h"

#define UCCL_TRAIN_BYTES 65000	/* of a train in all */
#define UCCL_TRAIN_PACKET 32000	/* of larger ones no two fit */

/* Ways in which trains break. */
enum uccl_train_fault {
	UCCL_TRAIN_WHOLE,
	UCCL_TRAIN_DROP,    /* every packet of a train is lost, */
	UCCL_TRAIN_FIRST,   /* all but the first, */
	UCCL_TRAIN_LAST,    /* all but the last, */
	UCCL_TRAIN_EQUAL,   /* every packet, but only of trains whose packets are all of one length, */
	UCCL_TRAIN_CORRUPT, /* or every packet is damaged */
	UCCL_TRAIN_FAULTS,
};

/*
 * How many of v[0..n) leave as one train; 1: v[0] by itself. They have one label, one place, one `ect` and one length,
 * but for the last, which may be shorter; and none is `single`. `bytes`: of a train at most, 0: no trains.
 */
int uccl_train_len(const struct uccl_tx *v, int n, uint32_t bytes);
/* Going through a batch: the train that the latest packet belongs to. All zero at first. */
struct uccl_train_walk {
	int first, end;
	bool equal;
};

/* Is v[i] in a train and hit by this fault? To be asked of each i in turn; v[i..n) must be as it was. */
bool uccl_train_hit(struct uccl_train_walk *w, const struct uccl_tx *v, int n, int i, uint32_t bytes,
		    enum uccl_train_fault fault);

static inline uint32_t uccl_tx_len(const struct uccl_tx *t)
{
	return (uint32_t)t->hdr_len + t->payload_len + t->tail_len;
}

#endif
