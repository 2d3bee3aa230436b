/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Receiving side of direct writes. A write has 32 bits of header, so a descriptor in the packet stream tells where the
 * chunks that follow it belong. The NIC writes before software can look; therefore:
 *  - a chunk is written directly at most once, what is sent again comes in segments and is copied here;
 *  - a chunk completed by packets whose write was not seen leaves a doubt: the write may still land. The message's
 * buffer stays ours until the doubt is settled: the write arrives, or the path is fenced, or, only if the operator
 * declared paths FIFO, a later write on the same path arrives. One step backwards on any path ends FIFO for good.
 */
#include "base/seq.h"
#include "flow/internal.h"

/*
 * Writes cannot ask for an acknowledgement, and sixteen of them may be more than a short network holds at once. So an
 * acknowledgement leaves at once after this many bytes or chunks (in the paper's implementation after four chunks).
 * Each write may have come on a path of its own, and a block has few lines for paths. What is not told proves no loss.
 */
#define ACK_EARLY_BYTES 131072
#define ACK_EARLY_CHUNKS 8

/* Hand up bytes `from` to `to` of a chunk that the NIC has written. */
static enum uccl_drop write_range(struct uccl_flow *f, const struct uccl_rx_desc *d, uint64_t off, uint64_t from,
				  uint64_t to, uint64_t now)
{
	uint8_t rec[UCCL_REC_LEN] = { 0 };
	struct uccl_chunk_in in = {.rtype = f->rx.write.rtype,
				   .rec = rec,
				   .placed = true,
				   .len = (uint32_t)(to - from)};
	enum uccl_drop reason;

	uccl_rec_set_bulk(rec, d->d.id, d->d.gen, d->d.offset + off + from);
	reason = f->cfg.ops->deliver(f, &in, now);
	if (reason != UCCL_DROP_MEMORY)
		f->cfg.stats->rx_bytes += in.len;
	return reason;
}

/* What segments brought already is not counted again: the rest of the chunk, each gap between them by itself. */
static enum uccl_drop write_missing(struct uccl_flow *f, const struct uccl_rx_desc *d, uint64_t csn, uint64_t off,
				    uint64_t now)
{
	enum uccl_drop reason = UCCL_DROP_COUNT;
	uint32_t from, to;
	uint8_t i = 0;

	while (reason == UCCL_DROP_COUNT && uccl_segment_map_gap(flow_segment_map(f, csn), &i, &from, &to))
		reason = write_range(f, d, off, from, to, now);
	return reason;
}

/* A write whose descriptor is known. */
static void write_deliver(struct uccl_flow *f, struct uccl_rx_desc *d, uint64_t csn, uint32_t len, uint64_t now)
{
	const struct uccl_segment_map *segments = flow_segment_map(f, csn);
	enum uccl_drop reason;
	uint64_t off;
	uint32_t came = f->rx.ack_tracker.slots + 1;
	bool asks;

	if (uccl_write_rx_chunk(d, csn, &off) != len) {
		/* Not what was announced: it counts as lost, and comes again as packets. */
		flow_drop(f, UCCL_DROP_RANGE, 0, now);
		return;
	}
	reason = segments->count ? write_missing(f, d, csn, off, now) : write_range(f, d, off, 0, len, now);
	if (reason != UCCL_DROP_COUNT)
		flow_drop(f, reason, 0, now);
	if (reason == UCCL_DROP_MEMORY)
		return;
	uccl_write_rx_take(&f->rx.write, d);
	/* Writes carry no request for an acknowledgement: the last one announced is taken for one. PROTOCOL R273 */
	asks = !uccl_write_rx_desc(&f->rx.write, csn + 1) || came >= ACK_EARLY_CHUNKS ||
	       (uint64_t)came * len >= ACK_EARLY_BYTES;
	/* Bytes that segments brought were counted. */
	flow_taken(f, csn, len - (segments->count ? uccl_segment_map_bytes(segments, segments->have) : 0), true, 1,
		   asks ? UCCL_FLAG_AR : 0, now);
}

void flow_desc_rx(struct uccl_flow *f, uint64_t csn, const struct uccl_desc *d, uint64_t now)
{
	uint64_t first = csn + 1;

	uccl_write_rx_announce(&f->rx.write, csn, d);
	for (uint64_t c = first; c < first + d->count; c++) {
		struct uccl_early_write early;
		struct uccl_rx_desc *rd;

		if (c < f->rx.arrived.nxt || c - f->rx.arrived.nxt >= f->cfg.window ||
		    uccl_arrived_has(&f->rx.arrived, c))
			continue;
		rd = uccl_write_rx_desc(&f->rx.write, c);
		if (rd && uccl_write_rx_release(&f->rx.write, c, &early)) {
			uccl_ack_tracker_write(&f->rx.ack_tracker, early.path, c, early.came_ns);
			write_deliver(f, rd, c, early.len, now);
		}
	}
}

void uccl_flow_rx_write(struct uccl_flow *f, uint32_t imm, uint32_t len, uint16_t path, uint64_t now)
{
	uint64_t csn = uccl_seq_expand(f->rx.arrived.nxt, imm, UCCL_IMM_CSN_BITS);
	struct uccl_rx_desc *d;
	bool old, overtaken, had_doubt;

	if (path >= f->cfg.paths_rx || !f->cfg.write.bytes) {
		flow_drop(f, UCCL_DROP_PATH, path, now);
		return;
	}
	if (imm >> UCCL_IMM_CSN_BITS != f->cfg.wire.epoch_rx) {
		flow_drop(f, UCCL_DROP_EPOCH, path, now);
		return;
	}
	old = csn < f->rx.arrived.nxt;
	if (csn < f->cfg.wire.csn_rx || (!old && csn - f->rx.arrived.nxt >= f->cfg.window)) {
		flow_drop(f, UCCL_DROP_WINDOW, path, now);
		return;
	}
	uccl_flow_rx_heard(&f->rx, now);
	f->cfg.stats->writes_rx++;
	flow_trace(f, UCCL_TRACE_RX_WRITE, 0, path, csn, len, 0, now);
	overtaken = uccl_ack_tracker_seen(&f->rx.ack_tracker, path, csn, old);
	had_doubt = uccl_write_rx_came(&f->rx.write, csn, path, overtaken, now);
	if (old || uccl_arrived_has(&f->rx.arrived, csn)) {
		had_doubt = uccl_write_rx_again(&f->rx.write, csn, had_doubt);
		if (!old)
			uccl_ack_tracker_write(&f->rx.ack_tracker, path, csn, now);
		flow_rx_dup(f, had_doubt, now);
		return;
	}
	d = uccl_write_rx_desc(&f->rx.write, csn);
	if (d) {
		uccl_ack_tracker_write(&f->rx.ack_tracker, path, csn, now);
		write_deliver(f, d, csn, len, now);
	} else if (!uccl_write_rx_hold(&f->rx.write, csn, len, path, now)) {
		flow_rx_dup(f, false, now);
	}
}

void uccl_flow_fenced(struct uccl_flow *f, uint16_t path, uint64_t now)
{
	uccl_write_rx_fenced(&f->rx.write, path, now);
}

void uccl_flow_forgive(struct uccl_flow *f, uint32_t id, uint32_t gen)
{
	uccl_write_rx_forgive(&f->rx.write, id, gen);
}

void uccl_flow_fence_message(struct uccl_flow *f, uint32_t id, uint32_t gen, uint64_t now)
{
	uccl_write_rx_fence(&f->rx.write, id, gen, now);
}
