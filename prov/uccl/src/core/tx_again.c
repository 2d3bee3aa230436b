/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What leaves once more, as it was lost, and what leaves in parts: fragments of a direct write, pieces of what is too
 * long for the way.
 */
#include <string.h>

#include "core/tx.h"

/* Bytes in flight up to which a path that answered a time-out is preferred. */
#define ALIVE_BYTES (2 * UCCL_TX_BURST_BYTES)

/*
 * What was lost goes where an answer came from, in a silence the last one, as long as that path is not loaded with it.
 * PROTOCOL R59
 */
static uint16_t tx_rtx_path(struct uccl_flow *f, const struct uccl_sent *e, uint64_t now)
{
	const struct uccl_path *p = &f->paths.list[f->paths.alive];

	if (e->timed_out && uccl_path_usable(p) && p->inflight < ALIVE_BYTES)
		return f->paths.alive;
	if (f->paths.ncontrol) {
		uint16_t path = uccl_paths_control_next(&f->paths);

		if (f->paths.list[path].inflight < ALIVE_BYTES)
			return path;
	}
	return flow_tx_path(f, e->len, now);
}

/* One of `count` packets, of `size` bytes each but the last, that a chunk leaves in. True: it was the last. */
static bool tx_part(struct uccl_flow *f, struct uccl_tx *tx, struct uccl_sent *e, uint64_t csn, struct uccl_hdr *h,
		    uint32_t size, uint32_t count, uint64_t now)
{
	uint32_t off = f->sent.frag_next * size;
	bool last;

	tx->control = false;
	tx->single = true;
	tx->payload = e->payload + off;
	tx->payload_len = (uint32_t)uccl_min(e->len - off, size);
	tx->cookie = UCCL_NEVER;
	if (!f->cfg.tx_sync) {
		tx->cookie = csn;
		uccl_sent_read(e);
	}
	last = uccl_sent_part(&f->sent, count);
	if (last)
		h->flags |= UCCL_FLAG_AR;
	flow_tx_packet(f, tx, h, e->path, false, now);
	uccl_sent_left(e, h->pseq);
	return last;
}

/* Send a packet-sized piece of a chunk whose direct write was lost. True: it was the last piece. */
static bool tx_frag(struct uccl_flow *f, struct uccl_tx *tx, struct uccl_sent *e, uint64_t csn, uint64_t now)
{
	uint32_t count = (e->len + f->cfg.chunk_bytes - 1) / f->cfg.chunk_bytes;
	uint8_t rec[UCCL_REC_LEN];
	struct uccl_hdr h = {
		.type = UCCL_PKT_FRAG,
		.flags = UCCL_FLAG_RTX,
		.rtype = e->rtype,
		.csn = (uint32_t)csn,
		.rec = rec,
	};

	memcpy(rec, e->rec, UCCL_REC_LEN);
	uccl_put64(rec + 8, uccl_get64(e->rec + 8) + f->sent.frag_next * f->cfg.chunk_bytes);
	rec[16] = (uint8_t)f->sent.frag_next;
	rec[17] = (uint8_t)count;
	uccl_put16(rec + 18, e->orig_path);
	return tx_part(f, tx, e, csn, &h, f->cfg.chunk_bytes, count, now);
}

static uint32_t tx_piece_count(const struct uccl_flow *f, uint32_t len)
{
	uint32_t most = f->pmtu.bytes - UCCL_HDR_LEN;

	return (len + most - 1) / most;
}

/* Send a piece of a chunk that is too long for the way. True: it was the last. */
static bool tx_piece(struct uccl_flow *f, struct uccl_tx *tx, struct uccl_sent *e, uint64_t csn, uint64_t now)
{
	uint32_t count = tx_piece_count(f, e->len);
	uint32_t size = uccl_piece_len(e->len, (uint8_t)count);
	uint8_t rec[UCCL_REC_LEN];
	struct uccl_piece piece = {
		.index = (uint8_t)f->sent.frag_next,
		.count = (uint8_t)count,
		.total = e->len,
		.half = e->rec + f->sent.frag_next % 2 * UCCL_PIECE_REC,
	};
	struct uccl_hdr h = {
		.type = UCCL_PKT_PIECE,
		.flags = e->ntx ? UCCL_FLAG_RTX : 0,
		.rtype = e->rtype,
		.csn = (uint32_t)csn,
		.rec = rec,
	};
	bool last;

	uccl_piece_encode(rec, &piece);
	last = tx_part(f, tx, e, csn, &h, size, count, now);
	f->cfg.stats->pieces_tx++;
	/* The next time it may be of other pieces. */
	if (last)
		uccl_sent_pieces(&f->sent, e, count, UCCL_HDR_LEN + size);
	return last;
}

int flow_tx_retransmit(struct uccl_flow *f, struct uccl_tx *tx, uint64_t now)
{
	bool done = true, parts, again;
	struct uccl_sent *e;
	uint64_t csn;

	e = uccl_sent_next(&f->sent, &csn);
	if (!e)
		return 0;
	parts = e->write || flow_tx_long(f, e->len);
	if (!f->sent.frag_next) {
		/* The receiver keeps no more in part. PROTOCOL R154 */
		if (parts && f->sent.pieced == UCCL_PIECED_MAX)
			return 0;
		/* Each piece takes a place of the receive queue. PROTOCOL R165 */
		f->pieces_wait = parts && !e->write && f->sent.inflight_chunks &&
				 uccl_sent_packets(&f->sent) + tx_piece_count(f, e->len) > f->granted.slots;
		if (f->pieces_wait)
			return 0;
		if (!uccl_event_tx_rtx_chunk(f, e->len, e->type == UCCL_PKT_DESC, now))
			return 0;
		uccl_sent_route(e, tx_rtx_path(f, e, now));
	}
	again = e->ntx > 0;
	if (e->write)
		done = tx_frag(f, tx, e, csn, now);
	else if (parts)
		done = tx_piece(f, tx, e, csn, now);
	f->cfg.stats->rtx_packets += again;
	f->cfg.stats->rtx_bytes += !again ? 0 : parts ? tx->payload_len : e->len;
	if (done) {
		uccl_sent_again(&f->sent, e, now);
		uccl_path_fly(&f->paths.list[e->path], e->len);
		if (!parts)
			flow_tx_chunk(f, tx, e, csn, UCCL_FLAG_RTX | UCCL_FLAG_AR, now);
		if (!f->asking.backoff)
			uccl_asking_arm(&f->asking, &f->times, true, now);
	}
	return 1;
}

int flow_tx_parts(struct uccl_flow *f, struct uccl_tx *tx, const struct uccl_sent *e, uint64_t now)
{
	uccl_path_land(&f->paths.list[e->path], e->len);
	uccl_sent_parts(&f->sent, f->sent.nxt - 1);
	return flow_tx_retransmit(f, tx, now);
}
