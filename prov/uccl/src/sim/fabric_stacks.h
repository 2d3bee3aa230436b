/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The stacks that there are. */
#ifndef UCCL_SIM_FABRIC_STACKS_H
#define UCCL_SIM_FABRIC_STACKS_H

#include "sim/fabric_scene.h"

extern const struct uccl_fab_stack uccl_fab_stack_uccl;					       /* fabric_flow.c */
extern const struct uccl_fab_stack uccl_fab_stack_gbn, uccl_fab_stack_sr, uccl_fab_stack_spray; /* fabric_base.c */

#endif
