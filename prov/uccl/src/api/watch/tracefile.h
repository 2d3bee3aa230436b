/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What FI_UCCL_TRACE asks for: the ring of an endpoint (flow/observe/trace.h), and a file NAME.PID.N.trace that what is
 * new in it is written to after each round, so that it is there however the process ends. The file is not mapped:
 * whoever cut it off would end the process. At the first failure of an operation the ring is kept as it is in a file of
 * its own, NAME.PID.N.error.trace: the traffic that goes on would overwrite what led to it. Files are for their user
 * alone.
 */
#ifndef UCCL_API_TRACEFILE_H
#define UCCL_API_TRACEFILE_H

#include <stdint.h>

struct uccl_trace;
struct uccl_tracefile;

/* `records` is rounded up to a power of two. NULL, and a line in the log: no such file can be had. */
struct uccl_tracefile *uccl_tracefile_open(const char *name, uint64_t records);
struct uccl_trace *uccl_tracefile_ring(struct uccl_tracefile *t);
/* Write what is new in the ring to the file. By the ring's writer. NULL is well. */
void uccl_tracefile_flush(struct uccl_tracefile *t);
/* An operation failed with err (FI_Exxx); the first time, keep the ring. By the ring's writer. NULL is well. */
void uccl_tracefile_error(struct uccl_tracefile *t, int err, uint64_t now);
/* The ring must have no writer any more; the file stays. NULL is well. */
void uccl_tracefile_close(struct uccl_tracefile *t);

#endif
