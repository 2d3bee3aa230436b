/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * A large payload in the memory of a device, which is sent from there: a few buffers of it at a time are copied to
 * memory that the processor can read, and the next one follows as one is acknowledged.
 */
#ifndef UCCL_MSG_DEVICE_PUMP_H
#define UCCL_MSG_DEVICE_PUMP_H

#include "msg/msg_ep.h"

#define UCCL_PUMP_BUFS 4
#define UCCL_PUMP_BUF_BYTES (256u << 10)
/* Most bytes of all pumps of an endpoint; further payload waits. */
#define UCCL_PUMPED_MAX (64u << 20)

struct uccl_pump_buf {
	struct uccl_item item;
	struct iovec iov;
	struct uccl_copy copy;
	struct uccl_pump *pump;
	uint64_t off;		/* of the payload */
};

struct uccl_pump {
	struct uccl_op *op;
	uint64_t off;		/* bytes that are in buffers so far */
	uint8_t *buf;		/* of the device's owner, or behind this */
	uint64_t bytes;		/* of buf */
	uint8_t busy;		/* buffers under way, by bits */
	bool lent;		/* buf is the owner's */
	struct uccl_pump_buf bufs[UCCL_PUMP_BUFS];
	uint8_t own[];
};

/* The peer asked for the payload of a send or write. Nothing of this payload was sent yet. */
void msg_pump_begin(struct uccl_op *op, const struct uccl_cts *cts);
/* A buffer is acknowledged. The operation if that was the last one; else NULL. */
struct uccl_op *msg_pump_acked(struct uccl_item *item);
/* Nothing more of the payload is loaded, and nothing more leaves. True: nothing of it is under way. */
bool msg_pump_cut(struct uccl_op *op);
/* The operation ends; the flow knows none of its buffers any more. */
void msg_pump_end(struct uccl_msg_ep *m, struct uccl_op *op);
/* Begin those that wait, as far as there is memory. */
void msg_pumps_run(struct uccl_msg_ep *m);

#endif
