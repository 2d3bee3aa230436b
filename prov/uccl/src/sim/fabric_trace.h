/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* A look at every flow now and then, as lines of CSV: what its window, its round trips and its paths are. */
#ifndef UCCL_SIM_FABRIC_TRACE_H
#define UCCL_SIM_FABRIC_TRACE_H

#include <stdio.h>

#include "sim/fabric_scene.h"

struct uccl_fab_trace {
	struct uccl_fab_turn turn;
	FILE *file;	   /* NULL: it is not open */
	uint64_t every_ns; /* > 0 */
	uint32_t hosts;	   /* only of those that hosts below this number send */
};

/*
 * Into `file`, whose line of heads says what the columns are; the scene's stack can be looked at, the scene has not run
 * yet. The file stays the caller's.
 */
void uccl_fab_trace_open(struct uccl_fab_trace *t, struct uccl_fab_scene *s, FILE *file, uint64_t every_ns,
			 uint32_t hosts);

#endif
