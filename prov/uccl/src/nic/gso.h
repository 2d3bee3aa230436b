/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Packet trains: neighbours in a batch that the kernel takes as one buffer and cuts into packets (UDP GSO). The back
 * end that sends trains, the simulated NIC and the fault wrapper use the same rule for which packets form a train.
 */
#ifndef UCCL_NIC_GSO_H
#define UCCL_NIC_GSO_H

#include "flow/wire/io.h"

#define UCCL_TRAIN_BYTES 65000	/* most bytes of a train */
#define UCCL_TRAIN_PACKET 32000	/* most bytes of a packet in a train: of larger ones no two fit */

/* Faults of trains, for the fault wrapper. */
enum uccl_train_fault {
	UCCL_TRAIN_WHOLE,   /* no fault */
	UCCL_TRAIN_DROP,    /* every packet of a train is lost */
	UCCL_TRAIN_FIRST,   /* every packet is lost except the first */
	UCCL_TRAIN_LAST,    /* every packet is lost except the last */
	UCCL_TRAIN_EQUAL,   /* every packet is lost, but only if all packets of the train have one length */
	UCCL_TRAIN_CORRUPT, /* every packet is damaged */
	UCCL_TRAIN_FAULTS,
};

/*
 * The number of packets at the head of v[0..n) that leave as one train; 1: v[0] leaves alone. Packets of a train have
 * the same label, destination and `ect`, none is `single`, and all have one length; only the last may be shorter.
 * `bytes`: most bytes of a train; 0: no trains.
 */
int uccl_train_len(const struct uccl_tx *v, int n, uint32_t bytes);
/*
 * The same where v may have rows, of which each stays whole: so many things of v form a train, `*packets` packets. But
 * for a row that is longer by itself these are `most` at most, and have `bytes` at most.
 */
int uccl_train_rows(const struct uccl_tx *v, int n, uint32_t most, uint32_t bytes, uint32_t *packets);
/* State of uccl_train_hit() in a batch. All zero at first. */
struct uccl_train_walk {
	int first, end; /* the current train is v[first..end) */
	bool equal;	/* all packets of it have one length */
};

/* True if v[i] is in a train and this fault hits it. Call for i = 0, 1, ...; v[i..n) must be unchanged since then. */
bool uccl_train_hit(struct uccl_train_walk *w, const struct uccl_tx *v, int n, int i, uint32_t bytes,
		    enum uccl_train_fault fault);

/* Bytes of a packet. */
static inline uint32_t uccl_tx_len(const struct uccl_tx *t)
{
	return (uint32_t)t->hdr_len + t->payload_len + t->tail_len;
}

#endif
