/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Copies between the host and devices through a ring of pinned memory, for one engine. Copies complete in the order in
 * which they were queued. The ring bounds the pinned memory; a copy that finds no room in it waits.
 */
#ifndef UCCL_HMEM_STAGE_H
#define UCCL_HMEM_STAGE_H

#include "hmem/dmabufs.h"
#include "hmem/hmem.h"
#include "msg/device/copy.h"

/* Bytes of the ring. It is allocated with the first copy. */
#define UCCL_STAGE_RING (16u << 20)
/* Pinned buffers that the stage lends to its user, allocated with the ring: bytes of each, and their number. */
#define UCCL_STAGE_LOAN (1u << 20)
#define UCCL_STAGE_LOANS 16u
/* Most bytes of one copy on a device. A longer one is cut, so that copies overlap with what follows them. */
#define UCCL_STAGE_PIECE (256u << 10)
/* Most bytes of payload that may wait for room in the ring; beyond it uccl_device_ops.room() returns false. */
#define UCCL_STAGE_BACKLOG (16u << 20)

struct uccl_stage;

struct uccl_stage_attr {
	const struct uccl_hmem_ops *hmem;
	struct uccl_dmabufs *given;	/* dmabufs of the program; outlive the stage. NULL: no NIC may use a device */
	bool scatter;			/* scatter() may launch kernels on the device */
};

/* Called by the engine's owner, as all functions of a stage. 0 or -FI_ENOMEM. */
int uccl_stage_open(const struct uccl_stage_attr *attr, struct uccl_stage **s);
/* No copy may be queued or under way. */
void uccl_stage_close(struct uccl_stage *s);

/* The message layer's operations on a stage: their `arg` is the struct uccl_stage. */
extern const struct uccl_device_ops uccl_stage_device;

#endif
