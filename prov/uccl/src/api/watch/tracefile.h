/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * FI_UCCL_TRACE: an endpoint has a ring of trace records (flow/observe/trace.h) and a file NAME.PID.N.trace. After each
 * round the new records are written to the file, so they survive any end of the process. The file is not mapped, since
 * truncating a mapped file would kill the process. At the first failed operation the ring is also saved to
 * NAME.PID.N.error.trace, since later records would overwrite those that led to the failure. The files are private to
 * the user.
 */
#ifndef UCCL_API_TRACEFILE_H
#define UCCL_API_TRACEFILE_H

#include <stdint.h>

struct uccl_trace;
struct uccl_tracefile;

/* Make file and ring. `records`: size of the ring, rounded up to a power of two. NULL: failed; the reason is logged. */
struct uccl_tracefile *uccl_tracefile_open(const char *name, uint64_t records);
struct uccl_trace *uccl_tracefile_ring(struct uccl_tracefile *t);
/* Write new records of the ring to the file. Called by the ring's writer. NULL is allowed. */
void uccl_tracefile_flush(struct uccl_tracefile *t);
/* An operation failed with `err` (FI_Exxx): at the first one save the ring. Called by its writer. NULL is allowed. */
void uccl_tracefile_error(struct uccl_tracefile *t, int err, uint64_t now);
/* Free the ring, which has no writer any more, and close the file, which stays. NULL is allowed. */
void uccl_tracefile_close(struct uccl_tracefile *t);

#endif
