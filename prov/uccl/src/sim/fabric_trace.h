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

/* Write into `file`; its first line names the columns. Call before the scene runs. The caller closes the file. */
void uccl_fab_trace_open(struct uccl_fab_trace *t, struct uccl_fab_scene *s, FILE *file, uint64_t every_ns,
			 uint32_t hosts);

#endif
