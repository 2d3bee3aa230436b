/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* What peers do to memory of ours: where it is, and what is told of it. */
#ifndef UCCL_API_TARGET_H
#define UCCL_API_TARGET_H

#include "api/object/ep_object.h"

/* How an endpoint (the argument) answers requests for memory of its domain. */
extern const struct uccl_target_ops uccl_ep_target;

#endif
