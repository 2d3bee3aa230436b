/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What the files share that make a flow of its parts; nobody else includes this. A part owns its fields and knows
 * nothing of the flow. Each part has a header of its own, with its grammar, and nobody else writes its fields.
 * These files connect the parts, and call only those below them:
 *
 *	recv/flow_rx.c	packets that arrived; timer.c: time that passed; send/flow_tx.c: what may leave
 *	ack/ack.c	what the peer has, and what that proves lost; write/direct.c: writes that arrived
 *	flow_setup.c	life, queues; recv/received.c: what arrived and must be acknowledged
 *	recv/segment_rx.c	incomplete chunks
 *	events.c	what policies are asked
 */
#ifndef UCCL_FLOW_INTERNAL_H
#define UCCL_FLOW_INTERNAL_H

#include <assert.h>

#include "base/units.h"
#include "flow/events.h"
#include "flow/flow.h"
#include "flow/observe/trace.h"
#include "flow/rail.h"

/* An RTT sample beyond this is a stopped clock or a forged echo, not a network. */
#define UCCL_RTT_MAX_NS (10 * UCCL_NS_PER_S)

/* A long transfer asks for an acknowledgement at least every this many bytes. */
#define UCCL_AR_BYTES 131072

/*
 * Small packets stay on one path for this many bytes: decisions per 32 KiB (paper section 3.3). More only where the NIC
 * sends whole trains (uccl_train_cfg.bytes): there a system call costs as much as the copy of 16 KiB.
 */
#define UCCL_TX_BURST_BYTES 32768

/* Payload of the largest chunk in packets of `bytes` bytes. */
static inline uint32_t flow_payload(const struct uccl_flow *f, uint32_t bytes)
{
	if (bytes == f->pmtu.most)
		return f->cfg.packet.chunk_bytes;
	return (uint32_t)uccl_min(f->cfg.packet.chunk_bytes, uccl_words(bytes - UCCL_HDR_LEN));
}

static inline void flow_trace(const struct uccl_flow *f, enum uccl_trace_kind kind, uint8_t what, uint16_t path,
			      uint64_t seq, uint32_t len, uint32_t arg, uint64_t now)
{
	if (f->cfg.trace)
		uccl_trace_put(f->cfg.trace, &(struct uccl_trace_rec){ now, seq, f->cfg.trace_peer, len, arg, path,
								       (uint8_t)kind, what });
}

/* What is in flight was asked for more than once, and nothing came in answer. */
static inline bool flow_silent(const struct uccl_flow *f)
{
	return uccl_sent_outstanding(&f->sent) && uccl_pto_repeated(&f->loss.pto);
}

/* The number of a path's rail; 0 also if there is one only. */
static inline uint8_t flow_rail_number(const struct uccl_flow *f, uint16_t path)
{
	return f->policy.rail ? f->paths.list[path].rail : 0;
}

/* The rail of a path, where there are several; if there is one only, what a rail has is the flow's. */
static inline struct uccl_rail *flow_rail(const struct uccl_flow *f, uint16_t path)
{
	return &f->policy.rail[f->paths.list[path].rail];
}

/* The state of congestion control, and of path choice, of a rail. */
static inline void *flow_cc(struct uccl_flow *f, uint8_t rail)
{
	return f->policy.rail ? f->policy.rail[rail].cc : f->policy.cc;
}

static inline void *flow_pathsel(struct uccl_flow *f, uint8_t rail)
{
	return f->policy.rail ? f->policy.rail[rail].path : f->policy.path;
}

/* The delivery rate that what leaves on this path takes part in. */
static inline struct uccl_rate *flow_rate(struct uccl_flow *f, uint16_t path)
{
	return f->policy.rail ? &flow_rail(f, path)->rate : &f->loss.rate;
}

/* Bytes in flight on a path: more of them, or less. */
static inline void flow_path_fly(struct uccl_flow *f, uint16_t path, uint32_t bytes)
{
	uccl_path_fly(&f->paths.list[path], bytes);
	if (f->policy.rail)
		flow_rail(f, path)->inflight += bytes;
}

static inline void flow_path_land(struct uccl_flow *f, uint16_t path, uint32_t bytes)
{
	uccl_path_land(&f->paths.list[path], bytes);
	if (f->policy.rail)
		flow_rail(f, path)->inflight -= bytes;
}

/* Something waits to be sent, new or lost. */
static inline bool flow_more(const struct uccl_flow *f)
{
	return !uccl_sendq_empty(&f->sendq) || uccl_sent_waits(&f->sent) || f->write_tx.item;
}

/*
 * Does a sender of little payload stay on one path? Not with direct writes: they use enough paths that are known to be
 * quick. PROTOCOL R341
 */
static inline bool flow_warm(const struct uccl_flow *f)
{
	return f->cfg.policy.pathsel->warm && !f->cfg.write.bytes;
}

/* One part of the item is done with: perhaps it was the last one. */
static inline void flow_item_done(struct uccl_flow *f, struct uccl_item *item, uint64_t now)
{
	if (!item->pending && !item->queued)
		f->cfg.ops->acked(f, item, now);
}

/* What the layer above says of a chunk: is it taken? See uccl_flow_ops.deliver. */
static inline bool flow_took(enum uccl_drop reason)
{
	return reason == UCCL_DROP_COUNT || reason == UCCL_DROP_UNWANTED;
}

/*
 * Beyond so many chunks in flight there are no more than slots for as many of the longest packets. A long queue has
 * slots for over a thousand short packets, and our acknowledgements and CREDIT would wait there behind them.
 * PROTOCOL R376
 */
#define UCCL_CHUNKS_FREE 64

/* Would no slot be left for another chunk, if `chunks` more were in flight, which take `slots`? */
static inline bool flow_slots_full(const struct uccl_flow *f, uint32_t slots, uint32_t chunks)
{
	uint32_t most = uccl_peer_limits_most(&f->limits);

	chunks += f->sent.inflight_chunks;
	return uccl_sent_slots(&f->sent) + slots >= most ||
	       (chunks >= UCCL_CHUNKS_FREE && chunks >= most / uccl_sent_slots_of(&f->sent, f->chunk_bytes));
}

/*
 * A way is long if its least round trip takes at least this time, and more than four times what is normal for the NIC:
 * as between regions, not in a data centre. Most of what is in flight is in no queue. PROTOCOL R391
 */
#define UCCL_LONG_WAY_NS (4 * UCCL_NS_PER_MS)
#define UCCL_LONG_WAY_NORMAL 4

static inline bool flow_long_way(const struct uccl_flow *f)
{
	uint64_t rtt = uccl_times_least(&f->loss.times);

	return rtt >= UCCL_LONG_WAY_NS && rtt > UCCL_LONG_WAY_NORMAL * f->cfg.delay_ns;
}

/* Something from the wire is refused. */
static inline void flow_drop(struct uccl_flow *f, enum uccl_drop reason, uint16_t path, uint64_t now)
{
	f->cfg.stats->dropped[reason]++;
	flow_trace(f, UCCL_TRACE_DROP, (uint8_t)reason, path, 0, 0, 0, now);
}

/* flow_setup.c */
/* A chunk was lost, or acknowledged: what it says of the length of packets. Lost: true if it was a trial of that. */
bool flow_mtu_lost(struct uccl_flow *f, const struct uccl_sent *e, uint64_t csn, uint64_t now);
void flow_mtu_acked(struct uccl_flow *f, const struct uccl_sent *e, uint64_t csn, uint64_t now);

/* ack.c */
/*
 * Take in a block that arrived `age_ns` ago in a packet that left at `ts`, by the peer's clock. UCCL_DROP_COUNT, or the
 * reason why it was refused (nothing changed).
 */
enum uccl_drop flow_ack_rx(struct uccl_flow *f, const struct uccl_ack *a, uint32_t ts, uint64_t age_ns, uint64_t now);
/* Tell the policies about a loss of `bytes`. */
void flow_report_loss(struct uccl_flow *f, enum uccl_loss_kind kind, uint16_t path, uint64_t bytes, uint64_t now);
/* Find lost chunks; arms the RACK timer for the rest. */
void flow_detect(struct uccl_flow *f, uint64_t now);

/* Every write under way on this path is lost. */
void flow_writes_lost(struct uccl_flow *f, uint16_t path, uint64_t now);

/* received.c */
/*
 * `bytes` bytes of a chunk came for the first time; `whole`: the chunk is complete with them. Their packets take
 * `slots` slots and have these `flags`: UCCL_FLAG_AR, UCCL_FLAG_DELAY, UCCL_FLAG_RTX.
 */
void flow_taken(struct uccl_flow *f, uint64_t csn, uint32_t bytes, bool whole, uint32_t slots, uint8_t flags,
		uint64_t now);
/* A chunk that is here already; see uccl_ack_tracker_dup. */
void flow_rx_dup(struct uccl_flow *f, bool excused, uint64_t now);

/* segment_rx.c */
/*
 * A segment came, not checked, or several in a row, with record and payload of the first; `taken`: none need come
 * again. One that was put together is known to fit its own numbers.
 */
enum uccl_drop flow_segment_rx(struct uccl_flow *f, uint64_t csn, const struct uccl_segment *s,
			       const struct uccl_chunk_in *in, bool *taken, uint64_t now);
/* Has any segment of chunk `csn`, which is in the window, come? And the segment `index`? */
bool flow_segments_begun(const struct uccl_flow *f, uint64_t csn);
bool flow_segments_had(const struct uccl_flow *f, uint64_t csn, uint8_t index);
/* The segments of chunk `csn` that have arrived. */
static inline struct uccl_segment_map *flow_segment_map(const struct uccl_flow *f, uint64_t csn)
{
	return &f->rx.segments.maps[csn & f->rx.segments.mask];
}

/* Some segments of this chunk came. Did all come? Is one missing before another one that came? */
bool flow_segments_whole(const struct uccl_flow *f, uint64_t csn);
bool flow_segments_gap(const struct uccl_flow *f, uint64_t csn);
void flow_segments_end(struct uccl_flow *f, uint64_t csn);
/* Write into `a` what came of chunks that are not whole, in at most `most` lines. */
void flow_segments_tell(struct uccl_flow *f, struct uccl_ack *a, uint8_t most);

/* direct.c */
/* A descriptor that uccl_write_rx_check lets pass was received as chunk csn. */
void flow_desc_rx(struct uccl_flow *f, uint64_t csn, const struct uccl_desc *d, uint64_t now);
#endif
