/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What leaves next. One call fills one packet or one direct write, in this order: closing, retransmissions, probes, the
 * writes of a descriptor that was sent, records, bulk, credit, and an acknowledgement that nothing else carried.
 * There is no second way to send.
 */
#include <string.h>

#include "core/internal.h"

/*
 * Small packets stay on one path for this many bytes: decisions per 32 KiB (paper section 3.3). More only where the NIC
 * sends whole trains (uccl_flow_cfg.train_bytes): there a system call costs as much as the copy of 16 KiB. Less while
 * little is in flight: of fewer choices than this the places are uneven whoever makes them. On eight links that carry
 * 1 MB together, bursts of 32 KiB left a quarter of them empty.
 */
#define BURST_BYTES 32768
#define BURST_BYTES_MIN 8192
#define BURSTS_IN_FLIGHT 128
/* Direct writes from this size on have a choice each. */
#define WRITE_CHOICE_BYTES 8192
/* A bulk item's turn among others: long enough that a receiver can foresee where the next payload belongs. */
#define TURN_BYTES (4u << 20)
/* Bytes in flight up to which a path that answered a time-out is preferred. */
#define ALIVE_BYTES (2 * BURST_BYTES)
/*
 * Records may be so many bytes ahead of bulk that waits; then they take turns. With less, the last bytes of each eager
 * message would go between the first of the next ones, and the receiver would not foresee where they belong.
 */
#define RECORDS_AHEAD_MAX (256 * 1024)
/* Chunks of one descriptor of direct writes at most. */
#define DESC_CHUNKS_MAX 32
/* An acknowledgement is asked for at least every so many bytes of a long transfer. */
#define AR_BYTES_MIN 131072
/* Items whose bytes a demand counts at most. */
#define DEMAND_ITEMS 64
/* Bytes of a cache line, as common processors have them. */
#define PREFETCH_STEP 64
/* Payload that is one long piece comes by itself. */
#define PREFETCH_MAX 4096

/*
 * Encode what we owe into the tail. Behind payload: all of it or nothing; else as much as `room` bytes hold, what is
 * left goes with the next block. With a probe of a path that may be dead (not `sure`) all stays owed. Returns its
 * length.
 */
static uint16_t tx_ack(struct uccl_flow *f, uint8_t *tail, uint32_t room, bool payload, bool sure, uint64_t now)
{
	struct uccl_ack a;
	uint32_t lines = uccl_owed_lines(&f->owed), line = uccl_ack_len(1, 0) - UCCL_ACK_FIXED;
	uint8_t nwords = uccl_arrived_words(&f->rcv, UCCL_ACK_WORDS_MAX);

	if (uccl_ack_len((uint8_t)lines, nwords) > room) {
		if (payload)
			return 0;
		/* A path may need two lines. */
		lines = (uint32_t)uccl_min(lines, uccl_max((room - UCCL_ACK_FIXED) / 2 / line, 2));
		nwords = (uint8_t)uccl_min(nwords, (room - uccl_ack_len((uint8_t)lines, 0)) / 8);
	}
	uccl_arrived_tell(&f->rcv, &a, nwords);
	a.turn = 0;
	if (f->cfg.grant) {
		f->cfg.slots_rx = uccl_slots_tell(f->cfg.grant, f->owed.chunks, f->times.srtt_ns, now);
		a.turn = f->cfg.grant->turn;
	}
	a.slots = f->cfg.slots_rx;
	a.met = f->slots_met;
	uccl_owed_tell(&f->owed, &a, lines, sure, now);
	f->cfg.stats->acks_tx++;
	return (uint16_t)uccl_ack_encode(tail, &a);
}

/* Everything a packet has in common. Payload must have been set. PROTOCOL R4 */
static void tx_packet(struct uccl_flow *f, struct uccl_tx *tx, struct uccl_hdr *h, uint16_t path, bool want_ack,
		      uint64_t now)
{
	struct uccl_path *p = &f->paths.list[path];

	tx->kind = UCCL_TX_PACKET;
	tx->burst = uccl_burst_take_fresh(&f->paths.burst);
	tx->path = path;
	tx->label = p->label;
	tx->hdr_len = UCCL_HDR_LEN;
	tx->tail_len = 0;
	/* Behind a full packet there is no room even for the shortest block. */
	if ((want_ack || f->owed.chunks || f->owed.now) &&
	    UCCL_HDR_LEN + tx->payload_len + UCCL_ACK_FIXED <= f->pmtu.bytes)
		tx->tail_len = tx_ack(f, tx->tail, f->pmtu.bytes - UCCL_HDR_LEN - tx->payload_len, tx->payload_len,
				      h->type != UCCL_PKT_PROBE || p->control, now);
	h->path = path;
	h->token = f->cfg.token_tx;
	h->pseq = uccl_path_sent(p, tx->payload_len);
	h->ts = uccl_ts(now);
	h->payload_len = (uint16_t)tx->payload_len;
	h->tail_len = tx->tail_len;
	uccl_hdr_encode(tx->hdr, h);
	f->cfg.stats->tx_packets++;
	flow_trace(f, h->flags & UCCL_FLAG_RTX ? UCCL_TRACE_TX_AGAIN : UCCL_TRACE_TX, h->type, path, h->csn,
		   tx->payload_len, h->pseq, now);
}

/* A packet that is no chunk. */
static int tx_control(struct uccl_flow *f, struct uccl_tx *tx, uint8_t type, uint8_t flags, const uint8_t *rec,
		      uint16_t path, bool want_ack, uint64_t now)
{
	struct uccl_hdr h = { .type = type, .flags = flags, .rec = rec };

	tx->control = true;
	/* What asks for lost packets must not be lost with them. PROTOCOL R160 */
	tx->single = type == UCCL_PKT_PROBE || f->train.state != UCCL_TRAINS_ON;
	tx->payload = NULL;
	tx->payload_len = 0;
	tx->cookie = UCCL_NEVER;
	tx_packet(f, tx, &h, path, want_ack, now);
	uccl_path_asked(&f->paths.list[path], now);
	return 1;
}

static uint32_t tx_burst(const struct uccl_flow *f)
{
	uint64_t part = f->sent.inflight_bytes / BURSTS_IN_FLIGHT;

	return (uint32_t)uccl_max(uccl_clamp(part, BURST_BYTES_MIN, BURST_BYTES), f->train_bytes);
}

/* So many bytes come together: they begin a burst unless the one under way holds them, and share bursts evenly. */
static void tx_burst_align(struct uccl_flow *f, uint64_t bytes)
{
	uint32_t burst = tx_burst(f);
	uint64_t count = (bytes + burst - 1) / burst, share = bytes / uccl_max(count, 1);

	if (!f->cfg.train_bytes)
		return;
	/* In a stream of messages trains go on across their borders: there will be fewer, and the pipe is full. */
	if (f->sent.inflight_bytes >= 2ull * burst) {
		uccl_burst_plan(&f->paths.burst, burst);
		return;
	}
	if (count > 1)
		burst = (uint32_t)uccl_min(share + f->chunk_bytes, burst);
	uccl_burst_align(&f->paths.burst, burst, uccl_min(bytes, share));
}

/*
 * New payload of a long transfer waits for room for a whole train, as long as enough is in flight to make it: trains
 * cut to what each acknowledgement frees would cost a system call each. Returns how much room is needed; 0: wait.
 */
static uint32_t tx_want(const struct uccl_flow *f, const struct uccl_item *item, uint32_t len)
{
	uint64_t train;

	/* So much of it was asked for that an acknowledgement is on its way. */
	if (!f->cfg.train_bytes || f->sent.inflight_bytes < AR_BYTES_MIN + f->train_bytes)
		return len;
	train = uccl_min(f->paths.burst.left < len ? tx_burst(f) : f->paths.burst.left, item->len - item->off);
	if ((f->slots - uccl_sent_packets(&f->sent)) * (uint64_t)f->chunk_bytes < train)
		return 0;
	return (uint32_t)train;
}

/* The path for payload: a new choice per chunk, or per burst of small packets. */
static uint16_t tx_path(struct uccl_flow *f, uint32_t bytes, uint64_t now)
{
	struct uccl_burst *b = &f->paths.burst;

	if (uccl_burst_over(b, bytes)) {
		uint32_t size = uccl_burst_size(b, tx_burst(f));

		uccl_burst_begin(b, uccl_event_select_path(f, (uint32_t)uccl_max(size, bytes), now), size,
				 f->cfg.train_bytes > 0);
	}
	return uccl_burst_take(b, bytes);
}

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
	return tx_path(f, e->len, now);
}

static bool tx_room(struct uccl_flow *f)
{
	if (f->sent.inflight_chunks && (uccl_sent_packets(&f->sent) >= f->slots || f->pieces_wait))
		return false;
	return uccl_sent_room(&f->sent);
}

/* The buffer that holds byte `*pos` of an item's buffers, and where in it; NULL: they end before. */
static const struct iovec *item_buffer(const struct uccl_item *item, uint64_t *pos)
{
	for (uint8_t i = 0; i < item->iov_count; i++) {
		if (*pos < item->iov[i].iov_len)
			return &item->iov[i];
		*pos -= item->iov[i].iov_len;
	}
	return NULL;
}

/* Contiguous payload of an item from byte `off` on: at most `want` bytes, cut at the end of an iov. */
static uint32_t item_payload(const struct uccl_item *item, uint64_t off, uint32_t want, const uint8_t **ptr)
{
	uint64_t pos = item->skip + off;
	const struct iovec *iov = item_buffer(item, &pos);

	*ptr = iov ? (const uint8_t *)iov->iov_base + pos : NULL;
	return iov ? (uint32_t)uccl_min(want, iov->iov_len - pos) : 0;
}

/* It must leave in pieces. */
static bool tx_long(const struct uccl_flow *f, uint32_t len)
{
	return UCCL_HDR_LEN + len > f->pmtu.bytes;
}

/* The next chunk leaves: it is in flight. */
static struct uccl_sent *tx_enter(struct uccl_flow *f, struct uccl_item *item, uint8_t type, const uint8_t *rec,
				 const uint8_t *payload, uint32_t len, uint16_t path, uint64_t now)
{
	bool was_idle = !uccl_sent_outstanding(&f->sent);
	struct uccl_sent *e = uccl_sent_add(&f->sent, item, type, rec, payload, len, path, now);

	uccl_path_fly(&f->paths.list[path], len);
	f->cfg.stats->tx_bytes += len;
	if (was_idle)
		f->backoff = 0;
	/* The packets of a train leave in one instant, so the timer is right already. */
	if (!f->backoff && (was_idle || f->armed_ns != now))
		flow_probe_arm(f, now);
	return e;
}

/* New payload may leave now. */
static bool tx_allowed(struct uccl_flow *f, uint32_t bytes, uint64_t now)
{
	return uccl_event_chunk_size(f, bytes, now) != 0;
}

/* It leaves, and the next one waits for the pace. */
static void tx_paced(struct uccl_flow *f, uint32_t bytes, uint64_t now)
{
	f->next_tx_ns = uccl_event_pacing_chunk(f, bytes, now);
}

/* A window so small that nothing else asks for its acknowledgement is full, and more waits. */
static bool tx_held(struct uccl_flow *f, uint64_t now)
{
	return (!TAILQ_EMPTY(&f->bulk) || !TAILQ_EMPTY(&f->records)) && f->sent.inflight_bytes < 2 * AR_BYTES_MIN &&
	       !tx_allowed(f, f->chunk_bytes, now);
}

/* Which flag asks for the acknowledgement of this chunk, if any. The chunk is in the log already. */
static uint8_t tx_ar(struct uccl_flow *f, const struct uccl_item *item, bool last, uint32_t len, uint64_t now)
{
	f->since_ar += len;
	if (f->since_ar < uccl_max(AR_BYTES_MIN, f->sent.inflight_bytes / 4) &&
	    uccl_sent_packets(&f->sent) + 1 < f->slots && !(last && item->want_ack) && !tx_held(f, now))
		return 0;
	f->since_ar = 0;
	return UCCL_FLAG_AR;
}

/* The NIC's call will copy the payload at once: let it come to the cache while the rest of the train is made. */
static void tx_prefetch(const struct uccl_flow *f, const uint8_t *payload, uint32_t len)
{
	if (f->cfg.tx_sync && len <= PREFETCH_MAX)
		for (uint32_t i = 0; i < len; i += PREFETCH_STEP)
			__builtin_prefetch(payload + i, 0, 2);
}

/* Trains to this peer are in doubt: must this chunk, which is new, leave by itself? */
static bool tx_single(struct uccl_flow *f, struct uccl_sent *e, uint64_t csn, uint64_t now)
{
	const struct uccl_item *item = e->item;
	uint32_t rest = (UCCL_TRAIN_TRIAL - 1) * f->chunk_bytes;
	struct uccl_train_chunk c = { .csn = csn, .una = f->sent.una, .path = e->path };

	c.more = item->bulk && item->len - item->off >= rest &&
		 f->slots >= uccl_sent_packets(&f->sent) + UCCL_TRAIN_TRIAL && tx_allowed(f, rest, now);
	uccl_sent_single(e, uccl_train_single(&f->train, &c, &f->rng, f->cfg.stats, now));
	return e->single;
}

/* Send the chunk of log entry `e` as a packet: first time or again. */
static void tx_chunk(struct uccl_flow *f, struct uccl_tx *tx, struct uccl_sent *e, uint64_t csn, uint8_t flags,
		     uint64_t now)
{
	struct uccl_hdr h = {
		.type = e->type,
		.flags = flags,
		.rtype = e->rtype,
		.csn = (uint32_t)csn,
		.rec = e->rec,
	};

	tx_prefetch(f, e->payload, e->len);
	tx->control = false;
	/* PROTOCOL R160 */
	tx->single = flags & UCCL_FLAG_RTX || csn + 1 == f->pmtu.trial ||
		     (f->train.state != UCCL_TRAINS_ON && tx_single(f, e, csn, now));
	tx->payload = e->payload;
	tx->payload_len = e->len;
	/* With tx_sync nobody tells of it, but the engine asks by it what became of a chunk that waits for the NIC. */
	tx->cookie = e->len ? csn : UCCL_NEVER;
	if (!f->cfg.tx_sync && e->len)
		uccl_sent_read(e);
	tx_packet(f, tx, &h, e->path, false, now);
	uccl_sent_left(e, h.pseq);
	uccl_sent_packet(e, UCCL_HDR_LEN + e->len + tx->tail_len, tx->single || !f->cfg.train_bytes);
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
	tx_packet(f, tx, h, e->path, false, now);
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

static int tx_retransmit(struct uccl_flow *f, struct uccl_tx *tx, uint64_t now)
{
	bool done = true, parts, again;
	struct uccl_sent *e;
	uint64_t csn;

	e = uccl_sent_next(&f->sent, &csn);
	if (!e)
		return 0;
	parts = e->write || tx_long(f, e->len);
	if (!f->sent.frag_next) {
		/* The receiver keeps no more in part. PROTOCOL R154 */
		if (parts && f->sent.pieced == UCCL_PIECED_MAX)
			return 0;
		/* Each piece takes a place of the receive queue. PROTOCOL R165 */
		f->pieces_wait = parts && !e->write && f->sent.inflight_chunks &&
				 uccl_sent_packets(&f->sent) + tx_piece_count(f, e->len) > f->slots;
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
			tx_chunk(f, tx, e, csn, UCCL_FLAG_RTX | UCCL_FLAG_AR, now);
		if (!f->backoff)
			flow_probe_arm(f, now);
	}
	return 1;
}

/* What is new cannot leave in one packet: it waits as if it were lost, and leaves now if it may. */
static int tx_parts(struct uccl_flow *f, struct uccl_tx *tx, const struct uccl_sent *e, uint64_t now)
{
	uccl_path_land(&f->paths.list[e->path], e->len);
	uccl_sent_parts(&f->sent, f->sent.nxt - 1);
	return tx_retransmit(f, tx, now);
}

static int tx_probes(struct uccl_flow *f, struct uccl_tx *tx, uint64_t now)
{
	uint16_t path;

	if (!f->paths.probes_due)
		return 0;
	path = uccl_paths_take_probe(&f->paths);
	if (f->backoff > 1)
		uccl_owed_again(&f->owed, f->paths.reacted_ns);
	return tx_control(f, tx, UCCL_PKT_PROBE, UCCL_FLAG_AR, NULL, path, true, now);
}

/*
 * The record that leaves next: the oldest, but a small one does not wait for a longer one that is held back, by window,
 * pacing or credit, or because it is bulk's turn. PROTOCOL R14
 */
static struct uccl_item *tx_next_record(struct uccl_flow *f, uint64_t now)
{
	struct uccl_item *small = TAILQ_FIRST(&f->small), *item = TAILQ_FIRST(&f->records);

	if (!item || (small && (int32_t)(small->order - item->order) < 0))
		return small;
	if (!f->bulk_turn && tx_allowed(f, (uint32_t)item->len, now))
		return item;
	f->app_limited = false;
	return small;
}

static int tx_record(struct uccl_flow *f, struct uccl_tx *tx, uint64_t now)
{
	const uint8_t *payload = NULL;
	struct uccl_item *item, *more;
	struct uccl_sent *e;
	bool trial;

	if (TAILQ_EMPTY(&f->small) && TAILQ_EMPTY(&f->records))
		return 0;
	if (!tx_room(f)) {
		f->app_limited = false;
		return 0;
	}
	item = tx_next_record(f, now);
	if (!item)
		return 0;
	trial = f->cfg.find_mtu && tx_long(f, (uint32_t)item->len);
	if (trial && !uccl_pmtu_may(&f->pmtu, UCCL_HDR_LEN + (uint32_t)item->len, now)) {
		/* In pieces, as soon as those before it have left. */
		if (!uccl_rtxq_empty(&f->sent.rtxq[UCCL_RTX_LONG]) || f->sent.pieced == UCCL_PIECED_MAX)
			return 0;
		trial = false;
	}
	if (item->len)
		item_payload(item, 0, (uint32_t)item->len, &payload);
	item->off = item->len;
	flow_item_unqueue(f, item);
	more = TAILQ_FIRST(&f->bulk);
	if (more) {
		if (!more->off)
			tx_burst_align(f, item->len + more->len);
		f->records_ahead += (int32_t)(UCCL_HDR_LEN + item->len);
	}
	/* Small ones wait for nothing, but what they take is counted, as it is at the receiver. */
	if (item->len > UCCL_CONTROL_BYTES) {
		tx_paced(f, (uint32_t)item->len, now);
	} else {
		uccl_credit_spend_free(&f->credit, (uint32_t)item->len);
	}
	e = tx_enter(f, item, UCCL_PKT_CHUNK, item->rec, payload, (uint32_t)item->len,
		    tx_path(f, (uint32_t)item->len, now), now);
	if (trial) {
		uccl_pmtu_try(&f->pmtu, f->sent.nxt - 1, UCCL_HDR_LEN + e->len);
	} else if (tx_long(f, e->len))
		return tx_parts(f, tx, e, now);
	tx_chunk(f, tx, e, f->sent.nxt - 1, tx_ar(f, item, true, e->len, now), now);
	return 1;
}

/* Bulk has caught up by so many bytes with the records that left before it. A burst of them is a turn. */
static void tx_bulk_turn(struct uccl_flow *f, uint32_t len)
{
	if (f->records_ahead > 0)
		f->records_ahead -= (int32_t)len;
	if (f->records_ahead <= RECORDS_AHEAD_MAX - (int32_t)uccl_max(BURST_BYTES, f->train_bytes))
		f->bulk_turn = false;
}

/* Announce the next direct writes of an item, at most so many. */
static int tx_desc(struct uccl_flow *f, struct uccl_tx *tx, struct uccl_item *item, uint32_t most, uint64_t now)
{
	const uint8_t *ptr;
	uint32_t chunk = uccl_event_write_size(f);
	uint64_t run = item_payload(item, item->off, UINT32_MAX, &ptr);
	uint64_t room = uccl_min(f->slots > f->sent.inflight_chunks + 1 ? f->slots - f->sent.inflight_chunks - 1 : 1,
				 f->cfg.window - (f->sent.nxt - f->sent.una) - 1);
	struct uccl_desc d;
	uint8_t rec[UCCL_REC_LEN] = { 0 };
	struct uccl_sent *e;

	run = uccl_min(run, item->len - item->off);
	if (!room)
		return 0;
	uccl_announced_cut(&d, run, chunk, uccl_min(room, most));
	d.id = uccl_get32(item->rec);
	d.gen = uccl_get32(item->rec + 4);
	d.offset = uccl_get64(item->rec + 8) + item->off;
	uccl_desc_encode(rec, &d);
	/* All that it describes waits for it, unreported: no path is tried with it. PROTOCOL R56 */
	e = tx_enter(f, item, UCCL_PKT_DESC, rec, NULL, 0, uccl_paths_control(&f->paths), now);
	tx_chunk(f, tx, e, f->sent.nxt - 1, 0, now);
	uccl_announced_begin(&f->announced, item, f->sent.nxt - 1, item->off, &d);
	return 1;
}

/* One direct write of the announced run. */
static int tx_write(struct uccl_flow *f, struct uccl_tx *tx, uint64_t now)
{
	struct uccl_item *item = f->announced.item;
	uint64_t pos = item->skip + item->off;
	const uint8_t *payload;
	uint8_t rec[UCCL_REC_LEN] = { 0 };
	struct uccl_sent *e;
	uint16_t path, able;
	uint32_t len;

	if (!tx_room(f)) {
		f->app_limited = false;
		return 0;
	}
	len = item_payload(item, item->off, uccl_announced_next(&f->announced, item->off), &payload);
	if (!tx_allowed(f, len, now)) {
		f->app_limited = false;
		return 0;
	}
	uccl_rec_set_bulk(rec, uccl_get32(item->rec), uccl_get32(item->rec + 4), uccl_get64(item->rec + 8) + item->off);
	tx_paced(f, len, now);
	if (len >= WRITE_CHOICE_BYTES)
		uccl_burst_end(&f->paths.burst);
	path = tx_path(f, len, now);
	uccl_burst_take_fresh(&f->paths.burst);
	able = uccl_paths_for_write(&f->paths, path, now);
	e = tx_enter(f, item, UCCL_PKT_FRAG, rec, payload, len, able < UCCL_PATHS_MAX ? able : path, now);
	uccl_sent_write(e, (uint8_t)(f->sent.nxt - 1 - f->announced.csn));
	item->off += len;
	if (uccl_announced_left(&f->announced) && item->off == item->len)
		flow_item_unqueue(f, item);
	tx_bulk_turn(f, len);
	if (able == UCCL_PATHS_MAX)
		return tx_parts(f, tx, e, now);
	uccl_path_wrote(&f->paths.list[able], len, f->sent.nxt - 1);
	if (!f->cfg.tx_sync || f->cfg.write_async)
		uccl_sent_read(e);

	tx->kind = UCCL_TX_WRITE;
	tx->control = false;
	tx->burst = false;
	tx->single = false;
	tx->path = e->path;
	tx->label = f->paths.list[e->path].label;
	tx->hdr_len = tx->tail_len = 0;
	tx->payload = payload;
	tx->payload_len = len;
	tx->buffer = item_buffer(item, &pos);
	tx->mr = item->mr;
	tx->imm = uccl_imm(f->sent.nxt - 1, f->cfg.epoch_tx);
	tx->rkey = item->rkey;
	tx->raddr = item->raddr + uccl_get64(rec + 8);
	tx->cookie = f->sent.nxt - 1;
	f->cfg.stats->writes_tx++;
	flow_trace(f, UCCL_TRACE_TX_WRITE, 0, e->path, tx->cookie, len, 0, now);
	return 1;
}

static int tx_bulk(struct uccl_flow *f, struct uccl_tx *tx, uint64_t now)
{
	struct uccl_item *item = TAILQ_FIRST(&f->bulk);
	const uint8_t *payload;
	uint8_t rec[UCCL_REC_LEN];
	struct uccl_sent *e;
	uint32_t len, want, most, trial;

	if (!item)
		return 0;
	if (!tx_room(f)) {
		f->app_limited = false;
		return 0;
	}
	most = item->direct && f->cfg.write_bytes ? uccl_paths_writes_may(&f->paths, DESC_CHUNKS_MAX, now) : 0;
	if (most)
		return tx_desc(f, tx, item, most, now);
	trial = f->cfg.find_mtu ? uccl_pmtu_next(&f->pmtu, now) : 0;
	len = trial ? flow_payload(f, trial) : 0;
	if (item->len - item->off < len || item_payload(item, item->off, len, &payload) < len)
		trial = 0;
	if (!trial)
		len = item_payload(item, item->off, (uint32_t)uccl_min(f->chunk_bytes, item->len - item->off),
				   &payload);
	if (!item->off)
		tx_burst_align(f, item->len);
	want = tx_want(f, item, len);
	if (!want || !tx_allowed(f, want, now)) {
		f->app_limited = false;
		return 0;
	}
	memcpy(rec, item->rec, UCCL_REC_LEN);
	uccl_put64(rec + 8, uccl_get64(item->rec + 8) + item->off);
	item->off += len;
	tx_paced(f, len, now);
	e = tx_enter(f, item, UCCL_PKT_CHUNK, rec, payload, len, tx_path(f, len, now), now);
	if (trial)
		uccl_pmtu_try(&f->pmtu, f->sent.nxt - 1, trial);
	if (item->off == item->len) {
		flow_item_unqueue(f, item);
	} else {
		/* Deficit round robin (Shreedhar and Varghese 1995): TURN_BYTES is the quantum. */
		item->deficit += len;
		if (item->deficit >= TURN_BYTES) {
			item->deficit = 0;
			TAILQ_REMOVE(&f->bulk, item, link);
			TAILQ_INSERT_TAIL(&f->bulk, item, link);
		}
	}
	tx_bulk_turn(f, len);
	tx_chunk(f, tx, e, f->sent.nxt - 1, tx_ar(f, item, item->off == item->len, len, now), now);
	return 1;
}

/*
 * Something that has not been sent yet. Records first: they are what others wait for. But a stream of them must not
 * starve a long transfer: once it is far behind, it takes turns with them by bytes.
 * PROTOCOL R130
 */
static int tx_new(struct uccl_flow *f, struct uccl_tx *tx, uint64_t now)
{
	if (TAILQ_EMPTY(&f->bulk)) {
		f->records_ahead = 0;
		f->bulk_turn = false;
	} else if (f->records_ahead >= RECORDS_AHEAD_MAX) {
		f->bulk_turn = true;
	}
	if (f->bulk_turn && tx_bulk(f, tx, now))
		return 1;
	return tx_record(f, tx, now) || tx_bulk(f, tx, now);
}

/*
 * Bytes that wait and cost credit, so that the receiver knows what to grant. Of a long queue the beginning will do: the
 * demand is told again when that has gone.
 */
static uint64_t tx_backlog(const struct uccl_flow *f)
{
	const struct uccl_item *item;
	uint64_t sum = 0;
	int n = 0;

	/* What waits to be sent again: all that is neither in flight nor acknowledged, and not small. */
	if (f->cfg.credit->pull)
		sum = uccl_sent_backlog(&f->sent);
	TAILQ_FOREACH(item, &f->records, link) {
		if (++n > DEMAND_ITEMS)
			return sum;
		sum += item->len;
	}
	TAILQ_FOREACH(item, &f->bulk, link) {
		if (++n > DEMAND_ITEMS)
			break;
		sum += item->len - item->off;
	}
	return sum;
}

/* Something waits for credit. */
static bool tx_starved(struct uccl_flow *f)
{
	return (!TAILQ_EMPTY(&f->bulk) || !TAILQ_EMPTY(&f->records) ||
		(f->cfg.credit->pull && !uccl_rtxq_empty(&f->sent.rtxq[UCCL_RTX_LONG]))) &&
	       uccl_event_credit_spent(f);
}

static int tx_credit(struct uccl_flow *f, struct uccl_tx *tx, uint64_t now)
{
	uint8_t rec[UCCL_REC_LEN] = { 0 };
	uint64_t backlog;

	if (uccl_credit_take_due(&f->credit)) {
		uint64_t turn, grant = uccl_event_grant(f, &turn, now);

		if (grant) {
			uccl_put64(rec, grant);
			uccl_put64(rec + 8, turn);
			return tx_control(f, tx, UCCL_PKT_CREDIT, 0, rec, uccl_paths_control(&f->paths), false, now);
		}
	}
	/* Tell the demand, again every time-out (uccl_flow_expiry), so that a lost credit or demand never stalls. */
	uccl_credit_starve(&f->credit, tx_starved(f));
	if (!f->credit.starved && (!f->cfg.credit->pull || uccl_event_credit_free(f)))
		return 0;
	backlog = tx_backlog(f);
	/* With paced credit more is asked for before it runs out, as the answer takes a round trip. PROTOCOL R60 */
	if ((f->credit.starved && now >= f->credit.tell_ns) ||
	    (f->cfg.credit->pull && uccl_credit_wants(&f->credit, backlog, uccl_event_credit_left(f)))) {
		uccl_put64(rec, uccl_credit_tell(&f->credit, backlog, now + uccl_flow_rto(f)));
		uccl_put64(rec + 8, f->credit.lost);
		return tx_control(f, tx, UCCL_PKT_DEMAND, 0, rec, uccl_paths_control(&f->paths), false, now);
	}
	return 0;
}

int uccl_flow_tx(struct uccl_flow *f, struct uccl_tx *tx, uint64_t now)
{
	uint8_t end = uccl_closing_next(&f->close);
	uint16_t path;

	if (end)
		return tx_control(f, tx, end, 0, NULL, uccl_paths_control(&f->paths), true, now);
	if (f->close.seen)
		return 0;
	f->pieces_wait = false;
	if (uccl_sent_waits(&f->sent) && tx_retransmit(f, tx, now))
		return 1;
	if (tx_probes(f, tx, now))
		return 1;
	f->app_limited = true;
	/* Chunks of a descriptor follow it without a gap; if they have to wait, credit and acknowledgements do not. */
	if (f->announced.item ? tx_write(f, tx, now) : tx_new(f, tx, now))
		return 1;
	if (tx_credit(f, tx, now))
		return 1;
	if (f->owed.now)
		return tx_control(f, tx, UCCL_PKT_ACK, 0, NULL, uccl_paths_control(&f->paths), true, now);
	if (uccl_owed_take_answer(&f->owed)) {
		uccl_owed_again(&f->owed, f->paths.reacted_ns);
		path = f->paths.unheard > 1 ? uccl_paths_control(&f->paths) : uccl_paths_next(&f->paths);
		/* One after the other, but the first answer may have taken the same by preference. */
		if (f->paths.ncontrol && path == f->paths.control[f->paths.control_next % f->paths.ncontrol])
			path = uccl_paths_next(&f->paths);
		return tx_control(f, tx, UCCL_PKT_ACK, 0, NULL, path, true, now);
	}
	return 0;
}

void uccl_flow_sent(struct uccl_flow *f, uint64_t cookie, uint64_t now)
{
	struct uccl_item *item = uccl_sent_read_end(&f->sent, cookie);

	if (item)
		flow_item_done(f, item, now);
}
