/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Peers' RMA and atomics on memory of this domain: finding the memory, and reporting the access. */
#ifndef UCCL_API_TARGET_H
#define UCCL_API_TARGET_H

#include "api/object/ep_object.h"

/* The engine calls these for a peer's request; their `arg` is the struct uccl_ep. */
extern const struct uccl_target_ops uccl_ep_target;

#endif
