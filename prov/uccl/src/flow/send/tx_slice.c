/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* What leaves in several packets: fragments of a direct write, pieces of what is too long for the way. */
#include <string.h>

#include "flow/send/tx_internal.h"

bool flow_tx_slice(struct uccl_flow *f, struct uccl_tx *tx, struct uccl_sent *e, uint64_t csn, struct uccl_hdr *h,
		   const struct uccl_slices *s, uint64_t now)
{
	uint32_t off = f->sent.begun.next * s->size;
	bool last;

	tx->control = false;
	tx->single = true;
	tx->payload = s->payload + off;
	tx->mr = e->item->mr;
	tx->ours = e->item->ours;
	tx->payload_len = (uint32_t)uccl_min(s->len - off, s->size);
	tx->cookie = UCCL_NEVER;
	if (!f->cfg.tx_sync) {
		tx->cookie = csn;
		uccl_sent_read(e);
	}
	last = uccl_sent_part(&f->sent, s->count);
	/* That one which fills the peer's places makes room for the next ones. */
	if (last || (e->state == UCCL_SENT_LOST && uccl_sent_packets(&f->sent) + 1 >= f->limits.slots))
		h->flags |= UCCL_FLAG_AR;
	flow_tx_packet(f, tx, h, e->path, FLOW_BLOCK_DUE, now);
	uccl_sent_left(e, h->pseq);
	uccl_pto_resent(&f->pto, &f->times, now);
	return last;
}

bool flow_tx_frag(struct uccl_flow *f, struct uccl_tx *tx, struct uccl_sent *e, uint64_t csn, uint64_t now)
{
	const struct uccl_slices s = {
		.payload = e->payload,
		.len = e->len,
		.size = f->cfg.chunk_bytes,
		.count = (e->len + f->cfg.chunk_bytes - 1) / f->cfg.chunk_bytes,
	};
	uint8_t rec[UCCL_REC_LEN];
	struct uccl_hdr h = {
		.type = UCCL_PKT_FRAG,
		.flags = UCCL_FLAG_RTX,
		.rtype = e->rtype,
		.csn = (uint32_t)csn,
		.rec = rec,
	};

	memcpy(rec, e->rec, UCCL_REC_LEN);
	uccl_put64(rec + 8, uccl_get64(e->rec + 8) + f->sent.begun.next * f->cfg.chunk_bytes);
	rec[16] = (uint8_t)f->sent.begun.next;
	rec[17] = (uint8_t)s.count;
	uccl_put16(rec + 18, e->orig_path);
	return flow_tx_slice(f, tx, e, csn, &h, &s, now);
}

uint32_t flow_tx_packets(const struct uccl_flow *f, uint32_t len)
{
	uint32_t most = f->pmtu.bytes - UCCL_HDR_LEN;

	return (len + most - 1) / most;
}

bool flow_tx_piece(struct uccl_flow *f, struct uccl_tx *tx, struct uccl_sent *e, uint64_t csn, struct uccl_slices *s,
		   const uint8_t *whole, uint8_t part, uint64_t now)
{
	uint8_t rec[UCCL_REC_LEN];
	struct uccl_piece piece;
	struct uccl_hdr h = {
		.type = UCCL_PKT_PIECE,
		.flags = e->ntx ? UCCL_FLAG_RTX : 0,
		.rtype = e->rtype,
		.csn = (uint32_t)csn,
		.rec = rec,
	};

	s->count = flow_tx_packets(f, s->len);
	s->size = uccl_piece_len(s->len, (uint8_t)s->count);
	piece = (struct uccl_piece){
		.index = (uint8_t)f->sent.begun.next,
		.count = (uint8_t)s->count,
		.part = part,
		.total = s->len,
		.half = whole + f->sent.begun.next % 2 * UCCL_PIECE_REC,
	};
	uccl_piece_encode(rec, &piece);
	f->cfg.stats->pieces_tx++;
	return flow_tx_slice(f, tx, e, csn, &h, s, now);
}

bool flow_tx_pieces(struct uccl_flow *f, struct uccl_tx *tx, struct uccl_sent *e, uint64_t csn, uint64_t now)
{
	struct uccl_slices s = { .payload = e->payload, .len = e->len };

	if (!flow_tx_piece(f, tx, e, csn, &s, e->rec, 0, now))
		return false;
	uccl_sent_packet(e, UCCL_HDR_LEN + s.size, true);
	return true;
}
