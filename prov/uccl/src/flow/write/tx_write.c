/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Direct writes: the descriptor that announces them, then one after the other. */
#include "flow/send/tx_internal.h"

/* Direct writes from this size on have a choice each. */
#define WRITE_CHOICE_BYTES 8192
/*
 * A descriptor is about what may be in flight divided by this, at most. If one is lost, nothing that it describes is
 * reported, so writes of another one must be in flight, or all is silent until a time-out. PROTOCOL R421
 */
#define DESC_SHARE 2
/* So many may be announced by a window that has room for few: each would cost a descriptor and an answer. */
#define DESC_LEAST 2

/* So many writes of `chunk` bytes; whole ones, so that all but the last of a run end on 8 bytes. PROTOCOL R216 R421 */
static uint64_t desc_most(const struct uccl_flow *f, uint32_t chunk)
{
	uint64_t fit = uccl_max(uccl_event_window(f) / DESC_SHARE / chunk, DESC_LEAST);

	return uccl_max(uccl_min(fit, f->limits.slots / DESC_SHARE), 1);
}

int flow_tx_desc(struct uccl_flow *f, struct uccl_tx *tx, struct uccl_item *item, uint32_t most, uint64_t now)
{
	const uint8_t *ptr;
	uint32_t chunk = uccl_event_write_size(f);
	uint64_t run = uccl_item_payload(item, item->off, UINT32_MAX, &ptr);
	uint32_t slots = f->limits.slots;
	uint64_t room = uccl_min(slots > f->sent.inflight_chunks + 1 ? slots - f->sent.inflight_chunks - 1 : 1,
				 f->cfg.window - (f->sent.nxt - f->sent.una) - 1);
	struct uccl_desc d;
	uint8_t rec[UCCL_REC_LEN] = { 0 };
	struct uccl_sent *e;

	run = uccl_min(run, item->len - item->off);
	if (!room)
		return 0;
	uccl_write_tx_cut(&d, run, chunk, uccl_min(uccl_min(room, most), desc_most(f, chunk)));
	d.id = uccl_get32(item->rec);
	d.gen = uccl_get32(item->rec + 4);
	d.offset = uccl_get64(item->rec + 8) + item->off;
	uccl_desc_encode(rec, &d);
	/* All that it describes waits for it, unreported: no path is tried with it. */
	e = flow_tx_enter(f, item, UCCL_PKT_DESC, rec, NULL, 0, uccl_paths_quick(&f->paths), now);
	flow_tx_timer(f, now);
	flow_tx_chunk(f, tx, e, f->sent.nxt - 1, 0, now);
	uccl_write_tx_begin(&f->write_tx, item, f->sent.nxt - 1, item->off, &d);
	return 1;
}

int flow_tx_write(struct uccl_flow *f, struct uccl_tx *tx, uint64_t now)
{
	struct uccl_item *item = f->write_tx.item;
	uint64_t pos = item->skip + item->off;
	const uint8_t *payload;
	uint8_t rec[UCCL_REC_LEN] = { 0 };
	struct uccl_sent *e;
	uint16_t path, able;
	uint32_t len;

	if (!flow_tx_room(f)) {
		f->app_limited = false;
		return 0;
	}
	len = uccl_item_payload(item, item->off, uccl_write_tx_next(&f->write_tx, item->off), &payload);
	if (!flow_tx_allowed(f, len, now)) {
		f->app_limited = false;
		return 0;
	}
	uccl_rec_set_bulk(rec, uccl_get32(item->rec), uccl_get32(item->rec + 4), uccl_get64(item->rec + 8) + item->off);
	if (len >= WRITE_CHOICE_BYTES)
		uccl_burst_end(&f->paths.burst);
	path = flow_tx_path(f, len, uccl_item_left(item), now);
	flow_tx_paced(f, path, len, now);
	uccl_burst_take_fresh(&f->paths.burst);
	able = uccl_paths_for_write(&f->paths, path, now);
	e = flow_tx_enter(f, item, UCCL_PKT_SEGMENT, rec, payload, len, able < UCCL_PATHS_MAX ? able : path, now);
	flow_tx_timer(f, now);
	uccl_sent_write(e, (uint8_t)(f->sent.nxt - 1 - f->write_tx.csn));
	uccl_write_tx_left(&f->write_tx);
	/* That one asks by itself. PROTOCOL R273 */
	if (!f->write_tx.item)
		uccl_pto_ack_requested(&f->loss.pto, &f->loss.times, now);
	flow_tx_bulk_left(f, item, len);
	if (able == UCCL_PATHS_MAX)
		return flow_tx_wait(f, tx, e, now);
	uccl_path_wrote(&f->paths.list[able], len, f->sent.nxt - 1);
	if (!f->cfg.tx_sync || f->cfg.write.async)
		uccl_sent_read(e);

	tx->kind = UCCL_TX_WRITE;
	tx->control = UCCL_TX_PAYLOAD;
	tx->burst = UCCL_BURST_NONE;
	tx->single = false;
	tx->path = e->path;
	tx->label = f->paths.list[e->path].label;
	tx->hdr_len = tx->tail_len = tx->row = 0;
	tx->payload = payload;
	tx->payload_len = len;
	tx->buffer = uccl_item_buffer(item, &pos);
	tx->mr = item->mr;
	tx->ours = false;
	tx->imm = uccl_imm(f->sent.nxt - 1, f->cfg.wire.epoch_tx);
	tx->rkey = item->rkey;
	tx->raddr = item->raddr + uccl_get64(rec + 8);
	tx->cookie = f->sent.nxt - 1;
	f->cfg.stats->writes_tx++;
	flow_trace(f, UCCL_TRACE_TX_WRITE, 0, e->path, tx->cookie, len, 0, now);
	return 1;
}
