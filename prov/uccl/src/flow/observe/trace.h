/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * A ring of what happened lately, packet by packet: fixed records in memory that the owner provides (api puts it into
 * a file that outlives the process, api/watch/tracefile.h; util/observe/uccl_trace.c reads it). One writer. Without a
 * ring a trace point is a load and a branch.
 */
#ifndef UCCL_FLOW_OBSERVE_TRACE_H
#define UCCL_FLOW_OBSERVE_TRACE_H

#include <stddef.h>
#include <stdint.h>

#define UCCL_TRACE_MAGIC 0x6563617254434355ull /* "UCCTrace" */
#define UCCL_TRACE_VERSION 1

/* X(symbol, text), and what the fields of such a record mean */
#define UCCL_TRACE_KINDS(X)                                                                                            \
	X(TX, "tx")	  /* a packet leaves; what: its type, seq: CSN, len: payload, arg: number on its path */       \
	X(TX_AGAIN, "rtx") /* as TX: it was sent before */                                                           \
	X(TX_WRITE, "write") /* a direct write leaves; seq: CSN, len: bytes */                                         \
	X(RX, "rx")	  /* a packet was accepted; fields as TX */                                                    \
	X(RX_WRITE, "rx-write") /* a direct write landed; seq: CSN, len: bytes */                                      \
	X(DROP, "drop")	  /* refused; what: enum uccl_drop */                                                          \
	X(ACK, "ack")	  /* an acknowledgement block was taken in; seq: cumulative CSN, len: bytes it acknowledges */ \
	X(RTT, "rtt")	  /* a sample of a path; seq: ns */                                                            \
	X(LOST, "lost")	  /* a chunk is taken for lost; what: enum uccl_loss_kind, seq: CSN, len: bytes */             \
	X(TIMEOUT, "timeout") /* probe or time-out; what: how many in a row, seq: oldest CSN */                        \
	X(PATH, "path")	  /* a path changes; what: enum uccl_path_state */                                             \
	X(PEER_OPEN, "peer") /* seq: last 8 bytes of its IP (uccl_get64), len: port */                                 \
	X(PEER_END, "end") /* arg: error number of the operations that were open */                                    \
	X(ERROR, "error") /* an operation failed; arg: error number */

enum uccl_trace_kind {
#define X(sym, text) UCCL_TRACE_##sym,
	UCCL_TRACE_KINDS(X)
#undef X
	UCCL_TRACE_COUNT
};

struct uccl_trace_rec {
	uint64_t ns;		/* the engine's clock */
	uint64_t seq;
	uint32_t peer;		/* number of the peer on this endpoint, from 1; 0: none */
	uint32_t len;
	uint32_t arg;
	uint16_t path;
	uint8_t kind;		/* enum uccl_trace_kind */
	uint8_t what;
};

struct uccl_trace {
	uint64_t magic;
	uint32_t version;
	uint32_t rec_bytes;	/* sizeof(struct uccl_trace_rec) */
	uint64_t wall_ns;	/* real time at clock_ns of the engine's clock; 0: not known */
	uint64_t clock_ns;
	int64_t pid;
	uint64_t mask;		/* records - 1, a power of two less one */
	uint64_t next;		/* records written so far: the next goes to next & mask */
	struct uccl_trace_rec rec[];
};

/* The bytes of a ring of `records`, a power of two. */
static inline size_t uccl_trace_bytes(uint64_t records)
{
	return sizeof(struct uccl_trace) + records * sizeof(struct uccl_trace_rec);
}

/* Zeroed memory of uccl_trace_bytes(records) becomes an empty ring. */
void uccl_trace_init(struct uccl_trace *t, uint64_t records);
void uccl_trace_put(struct uccl_trace *t, const struct uccl_trace_rec *rec);
/* NULL: no such kind. */
const char *uccl_trace_kind_text(uint8_t kind);

#endif
