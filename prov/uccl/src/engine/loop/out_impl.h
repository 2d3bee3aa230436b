/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* out.c: the flows whose turn it is, and the batch of packets that the NIC gets next. */
#ifndef UCCL_ENGINE_LOOP_OUT_IMPL_H
#define UCCL_ENGINE_LOOP_OUT_IMPL_H

#include "flow/flow.h"
#include "flow/observe/stall.h"
#include "nic/nic.h"

#define TX_BATCH 64
/* A full batch would cut the train that begins, so from here on the first of a burst sends what there is. */
#define TX_BREAK (TX_BATCH / 4)

struct conn;
struct uccl_engine;

/* A part of struct uccl_engine. */
struct engine_out {
	struct uccl_stall_clock nic_stall; /* UCCL_STALL_NIC: the NIC takes no more */
	TAILQ_HEAD(, uccl_flow) ready;
	int head, n;			/* in v: what the NIC has not taken yet */
	int rows;			/* packets in rows of v (uccl_tx.row), beside the first of each */
	uint64_t backlog;		/* the NIC's, as it told last; 0: it does not */
	struct uccl_tx v[TX_BATCH];
};

static inline void engine_out_init(struct engine_out *o, uint64_t now)
{
	TAILQ_INIT(&o->ready);
	uccl_stall_init(&o->nic_stall, 0, now);
}

/* The NIC was handed something, or had time to send it. */
static inline void engine_backlog(struct engine_out *o, struct uccl_nic *nic)
{
	if (nic->ops->backlog)
		o->backlog = nic->ops->backlog(nic);
}

/* The NIC takes no more, or does again. */
static inline void engine_out_full(struct engine_out *o, bool full, uint64_t away_ns, uint64_t now)
{
	uccl_stall_set(&o->nic_stall, full ? UCCL_STALL_NIC : UCCL_STALL_NOT, away_ns, now);
}

/* So many packets were put into the batch. */
static inline void engine_out_filled(struct engine_out *o, int n)
{
	o->n += n;
}

/* So many packets follow the last one as a row. */
static inline void engine_out_row(struct engine_out *o, int n)
{
	o->rows += n;
}

/* A flow has a turn, the NIC has not taken all, or it was full when it was last asked. */
static inline bool engine_out_due(const struct engine_out *o)
{
	return !TAILQ_EMPTY(&o->ready) || o->n || o->nic_stall.why != UCCL_STALL_NOT;
}

/* The flow has no turn any more. */
static inline void engine_unready(struct engine_out *o, struct uccl_flow *f)
{
	TAILQ_REMOVE(&o->ready, f, ready);
}

/* The next turn of `f` comes after those of all other flows. */
static inline void engine_ready_last(struct engine_out *o, struct uccl_flow *f)
{
	TAILQ_REMOVE(&o->ready, f, ready);
	TAILQ_INSERT_TAIL(&o->ready, f, ready);
}

/* The flow has something to send: it has a turn. */
void engine_ready(struct conn *c);
/* Hand the batch to the NIC. False: it is full, the rest waits. */
bool engine_tx_flush(struct uccl_engine *e);
/*
 * Chunks that the NIC did not take at once may have been acknowledged meanwhile, by an earlier copy: the application
 * has their payload back, so they must not be read any more. NICs that read later keep it until UCCL_RX_SENT.
 */
void engine_tx_settle(struct uccl_engine *e);
/* Bytes of a buffer that the NIC has not taken yet move to a copy: from now on they are read there. */
void engine_tx_moved(struct uccl_engine *e, struct iovec from, const uint8_t *to);
/* Packets of this peer that the NIC has not taken yet must not leave any more: their payload goes back. */
void engine_tx_forget(struct conn *c);
/* The packet in the batch's free place, the first of a burst, comes behind what leaves now. False: the NIC is full. */
bool engine_tx_add_first(struct uccl_engine *e);
/* Send one packet that belongs to no flow; lost if the NIC is busy. */
void engine_tx_raw(struct uccl_engine *e, struct uccl_tx *tx);
/* Send a peer without a flow a CLOSE with this reason (enum uccl_close_reason), or CLOSE_ACK (reason 0). */
void engine_tell(struct conn *c, uint8_t type, uint8_t reason);

#endif
