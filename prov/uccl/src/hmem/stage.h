/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Copies between the host and devices through a ring of pinned memory, for one engine. What was queued is done in that
 * order; the ring bounds what is pinned, and what finds no room in it waits.
 */
#ifndef UCCL_HMEM_STAGE_H
#define UCCL_HMEM_STAGE_H

#include "hmem/dmabufs.h"
#include "hmem/hmem.h"
#include "msg/device/device.h"

/* Bytes of the ring, which is made when the first copy comes. */
#define UCCL_STAGE_RING (16u << 20)
/* Pinned memory that is lent, which is made with it: bytes of each of so many. */
#define UCCL_STAGE_LOAN (1u << 20)
#define UCCL_STAGE_LOANS 16u
/* Most bytes of one copy of a device: as one ends, the next ones are under way. */
#define UCCL_STAGE_PIECE (256u << 10)
/* Payload that was taken and waits for room in the ring; beyond it uccl_device_ops.room() says no. */
#define UCCL_STAGE_BACKLOG (16u << 20)

struct uccl_stage;

struct uccl_stage_attr {
	const struct uccl_hmem_ops *hmem;
	struct uccl_dmabufs *given;	/* lives longer; NULL: NICs must not touch devices */
	bool scatter;			/* programs of the device may be launched to copy */
};

/* -FI_ENOMEM. */
int uccl_stage_open(const struct uccl_stage_attr *attr, struct uccl_stage **s);
/* Nothing may be queued any more. */
void uccl_stage_close(struct uccl_stage *s);

/* The argument is a stage. */
extern const struct uccl_device_ops uccl_stage_device;

#endif
