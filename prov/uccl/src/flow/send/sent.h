/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Part of a flow: the log of what was sent, and what of it is to be sent again. It has an entry for each chunk number
 * (CSN) in [una, nxt), and sums over them. An entry is written here only:
 *
 *	free --add--> in flight --acked--> acknowledged --advance--> free
 *	              in flight --lost, segments--> lost --again--> in flight
 *	                                         lost --acked--> acknowledged
 *
 * The grammar: init. If there is `room`, `add` for each chunk that leaves for the first time; at once after it `from`
 * if it is of a range, `write`, `train` if it leaves as one, or `wait` if it cannot leave now as it is. For each packet
 *of it `left`, then `packet`, and `read` if the NIC reads the payload later; `read_end` when it has. `acked` and `lost`
 *for what is known of it, then `advance`. What was lost waits: `next` says what leaves first of it (or `next_later`, if
 *that must wait longer), `route` on which path, and `again` follows if it leaves as one packet.
 *
 * Else it leaves in segments: `cut` says how, once and for all, and `divide` that one of them leaves in sub-segments.
 * Then `row` names those that leave; `row_next` counts one that left, `row_end` ends the row early. `named` and
 * `sub_named` for those that the peer has. Whenever none is in flight and some are missing, it waits to be sent again.
 *
 * As in RFC 9002 and its implementations (the retransmission buffer of ngtcp2, the packet spaces of quinn), what is
 * lost is an entry's state, not its place: an acknowledgement that comes after all finds it, and the queue may say so
 * late.
 */
#ifndef UCCL_FLOW_SEND_SENT_H
#define UCCL_FLOW_SEND_SENT_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "flow/send/item.h"
#include "flow/send/sent_cut.h"
#include "flow/send/sent_packet.h"
#include "flow/ack/rate.h"
#include "flow/wire/io.h"
#include "base/slot_unit.h"

enum uccl_sent_state { UCCL_SENT_FREE, UCCL_SENT_INFLIGHT, UCCL_SENT_LOST, UCCL_SENT_ACKED };

struct uccl_sent {
	uint8_t state;
	uint8_t type;
	uint8_t rtype;
	uint8_t ntx;		/* transmissions so far, saturating */
	bool write;		/* the first transmission was a direct write */
	uint8_t overdue;	/* how often was asked for it since the latest transmission */
	bool timed_out;		/* it was in flight through a time-out, and lost */
	bool repair;		/* counts in uccl_sent_log.repairs */
	uint16_t path;		/* of the latest transmission */
	uint16_t nic_reads;	/* transmissions whose payload the NIC may still read */
	uint8_t behind;		/* direct write: chunks behind its descriptor */
	bool single;		/* the first transmission was by itself on purpose */
	bool kept;		/* the peer puts a segment of it together: counts in uccl_sent_log.kept */
	bool unsent;		/* nothing of it has left: see uccl_sent_wait */
	struct uccl_sent_packet packet;
	uint32_t len;
	uint32_t flying;	/* bytes of it in flight */
	uint32_t slots;		/* and the receive slots that its packets in flight take */
	struct uccl_sent_cut cut;
	uint64_t number;	/* of its first packet among all that left first; its others follow */
	uint64_t sent_ns;	/* latest transmission */
	struct uccl_rate_stamp rate; /* likewise, the owner's */
	const uint8_t *payload;
	struct uccl_item *item;
	uint8_t rec[UCCL_REC_LEN];
};

/* Lost CSNs in the order of discovery: a ring of uccl_sent_log.cap. Some of them may have been acknowledged since. */
struct uccl_rtxq {
	uint64_t *csns;
	uint32_t head, tail;
};

/* Records of control size and descriptors go first. PROTOCOL R63 */
enum uccl_rtx_kind { UCCL_RTX_SMALL, UCCL_RTX_LONG, UCCL_RTX_KINDS };

/* Segments of a chunk that leave in a row. */
struct uccl_sent_run {
	uint64_t csn;
	uint64_t left;		/* those that have not left, a bit each; 0: there is no row */
	uint8_t flags;		/* of the header of each, */
	uint8_t last;		/* and of the last one besides */
};

struct uccl_sent_log {
	struct uccl_sent *log;	/* `cap` entries, indexed by CSN */
	/*
	 * A bit for each entry of `log`: the acknowledged ones, and those in flight. Without the bits each
	 * acknowledgement would look at up to a thousand entries.
	 */
	uint64_t *acked, *flies;
	uint32_t cap;		/* a power of two, grows to `window` */
	uint32_t window;	/* chunks */
	uint64_t una, nxt;	/* first CSN not acknowledged; next CSN to be given */
	uint64_t high_acked;	/* highest acknowledged CSN + 1 */
	struct uccl_rtxq rtxq[UCCL_RTX_KINDS];
	uint32_t repairs;	/* chunks that were lost and are not acknowledged yet */
	uint32_t inflight_chunks;
	uint64_t inflight_bytes;
	uint32_t kept, slots;		/* sums of `kept` and `slots` */
	uint32_t mtu;			/* bytes of the longest packet */
	uint8_t unit;			/* what a slot is: see base/slot_unit.h */
	struct uccl_sent_run out;	/* that leaves now */
	uint64_t numbers;	/* packets that left first, from the first CSN on */
};

/* `window`: entries at most, a power of two, at least 64; `first`: the first CSN. False: no memory. */
bool uccl_sent_init(struct uccl_sent_log *l, uint32_t window, uint64_t first);
void uccl_sent_fini(struct uccl_sent_log *l);
/* See uccl_sent_room. */
bool uccl_sent_grow(struct uccl_sent_log *l);
/* Chunk `csn` is lost. `timed_out`: it was in flight through a time-out. */
void uccl_sent_lost(struct uccl_sent_log *l, uint64_t csn, bool timed_out);
/* A new one cannot leave as it is, so it waits as one that was lost: a write that was announced, or what is too long.
 */
void uccl_sent_wait(struct uccl_sent_log *l, uint64_t csn);
/* Bytes that are to be sent again, without small ones. */
uint64_t uccl_sent_backlog(const struct uccl_sent_log *l);
/* Chunks that are not acknowledged, counted one by one: for checks. */
uint32_t uccl_sent_unacked(const struct uccl_sent_log *l);
/* Checks of what must always hold; a text if something is broken, else NULL. For tests. */
const char *uccl_sent_check(const struct uccl_sent_log *l);

/* The entry of a CSN in [una, nxt). */
static inline struct uccl_sent *uccl_sent_at(const struct uccl_sent_log *l, uint64_t csn)
{
	return &l->log[csn & (l->cap - 1)];
}

static inline void uccl_sent_mark(const struct uccl_sent_log *l, uint64_t *map, uint64_t csn)
{
	map[(csn & (l->cap - 1)) / 64] |= 1ull << csn % 64;
}

static inline void uccl_sent_unmark(const struct uccl_sent_log *l, uint64_t *map, uint64_t csn)
{
	map[(csn & (l->cap - 1)) / 64] &= ~(1ull << csn % 64);
}

/* 64 entries of one of the two maps, from this CSN on. Entries outside [una, nxt) mean nothing. */
static inline uint64_t uccl_sent_bits(const struct uccl_sent_log *l, const uint64_t *map, uint64_t csn)
{
	uint32_t words = l->cap / 64, w = (uint32_t)(csn & (l->cap - 1)) / 64, shift = csn % 64;

	return shift ? map[w] >> shift | map[(w + 1) & (words - 1)] << (64 - shift) : map[w];
}

/* The first in [csn, end) that is in flight; none: end. */
static inline uint64_t uccl_sent_flying(const struct uccl_sent_log *l, uint64_t csn, uint64_t end)
{
	for (; csn < end; csn += 64) {
		uint64_t bits = uccl_sent_bits(l, l->flies, csn);

		if (bits)
			return uccl_min(csn + (unsigned int)__builtin_ctzll(bits), end);
	}
	return end;
}

/* The part of `map`, 64 entries from `csn` on, that is not acknowledged. No entry is before una. */
static inline uint64_t uccl_sent_unacked_of(const struct uccl_sent_log *l, uint64_t csn, uint64_t map)
{
	if (csn < l->una)
		map = l->una - csn < 64 ? map & UINT64_MAX << (l->una - csn) : 0;
	return map & ~uccl_sent_bits(l, l->acked, csn);
}

static inline bool uccl_rtxq_empty(const struct uccl_rtxq *q)
{
	return q->head == q->tail;
}

/* Something waits to be sent again, if it was not acknowledged meanwhile. */
static inline bool uccl_sent_waits(const struct uccl_sent_log *l)
{
	return !uccl_rtxq_empty(&l->rtxq[UCCL_RTX_SMALL]) || !uccl_rtxq_empty(&l->rtxq[UCCL_RTX_LONG]);
}

/* Something was sent and is not acknowledged. (Between una and nxt there may be nothing but reads of our NIC.) */
static inline bool uccl_sent_outstanding(const struct uccl_sent_log *l)
{
	return l->inflight_chunks || uccl_sent_waits(l);
}

/* The peer's slots are of this unit, and packets of at most so many bytes. Before all others but init. */
static inline void uccl_sent_unit(struct uccl_sent_log *l, uint8_t unit, uint32_t mtu)
{
	l->unit = unit;
	l->mtu = mtu;
}

/* Slots that a packet with so much payload takes, whatever rides on it. PROTOCOL R376 */
static inline uint32_t uccl_sent_slots_of(const struct uccl_sent_log *l, uint32_t payload)
{
	return uccl_slot_count(l->unit, (uint32_t)uccl_min(UCCL_HDR_LEN + payload + UCCL_TAIL_MAX, l->mtu));
}

/* Slots that packets in flight take of the peer's receive queue. */
static inline uint32_t uccl_sent_slots(const struct uccl_sent_log *l)
{
	return l->slots;
}

/* Of this one so many packets are in flight, of so much payload each. */
static inline void uccl_sent_slots_set(struct uccl_sent_log *l, struct uccl_sent *e, uint32_t packets, uint32_t each)
{
	l->slots -= e->slots;
	e->slots = packets ? packets * uccl_sent_slots_of(l, each) : 0;
	l->slots += e->slots;
}

/* The payload moved with its memory, from `from` to `to`. */
static inline void uccl_sent_moved(struct uccl_sent *e, const void *from, const uint8_t *to)
{
	if (e->len)
		e->payload = to + (e->payload - (const uint8_t *)from);
}

/* Was this one, which was sent, acknowledged? */
static inline bool uccl_sent_is_acked(const struct uccl_sent_log *l, uint64_t csn)
{
	return csn < l->una || (csn < l->nxt && uccl_sent_at(l, csn)->state == UCCL_SENT_ACKED);
}

/* Does this one of a queue still have to be sent again? */
static inline bool uccl_sent_is_lost(const struct uccl_sent_log *l, uint64_t csn)
{
	return csn >= l->una && uccl_sent_at(l, csn)->state == UCCL_SENT_LOST;
}

/* Is there room for one more entry? The log doubles until the window. False: full, or no memory. PROTOCOL R12 */
static inline bool uccl_sent_room(struct uccl_sent_log *l)
{
	return l->nxt - l->una < l->cap || uccl_sent_grow(l);
}

/* A chunk of `item` gets the next CSN and is in flight, and the item waits for it. Returns the entry. */
static inline struct uccl_sent *uccl_sent_add(struct uccl_sent_log *l, struct uccl_item *item, uint8_t type,
					      const uint8_t *rec, const uint8_t *payload, uint32_t len, uint16_t path,
					      uint64_t now)
{
	struct uccl_sent *e = uccl_sent_at(l, l->nxt);

	uccl_zero(e, offsetof(struct uccl_sent, rec));
	e->state = UCCL_SENT_INFLIGHT;
	e->type = type;
	e->rtype = item->rtype;
	e->ntx = 1;
	e->path = path;
	e->len = e->flying = len;
	e->number = l->numbers++;
	e->sent_ns = now;
	e->payload = payload;
	e->item = item;
	memcpy(e->rec, rec, UCCL_REC_LEN);
	item->pending++;
	uccl_sent_mark(l, l->flies, l->nxt);
	l->nxt++;
	l->inflight_chunks++;
	l->inflight_bytes += len;
	uccl_sent_slots_set(l, e, 1, len);
	return e;
}

/* The chunk is of a range, and begins at byte `off` of it. */
static inline void uccl_sent_from(struct uccl_sent *e, uint64_t off)
{
	uccl_put64(e->rec + 8, uccl_get64(e->rec + 8) + off);
}

/* The chunk is a direct write, `behind` chunks after its descriptor. Its segments will name its path. */
static inline void uccl_sent_write(struct uccl_sent *e, uint8_t behind)
{
	e->write = true;
	e->behind = behind;
	uccl_put16(e->rec + UCCL_SEGMENT_PATH, e->path);
}

/* `single`: the chunk is to leave by itself. */
static inline void uccl_sent_single(struct uccl_sent *e, bool single)
{
	e->single = single;
}

/* What is sent again leaves on this path. */
static inline void uccl_sent_route(struct uccl_sent *e, uint16_t path)
{
	e->path = path;
}

/* The NIC will read the payload: entry and item wait for it. */
static inline void uccl_sent_read(struct uccl_sent *e)
{
	e->nic_reads++;
	e->item->pending++;
}

/* The window's edge moves over what is acknowledged and no longer read by the NIC. */
static inline void uccl_sent_advance(struct uccl_sent_log *l)
{
	while (l->una != l->nxt) {
		struct uccl_sent *e = uccl_sent_at(l, l->una);

		if (e->state != UCCL_SENT_ACKED || e->nic_reads)
			break;
		e->state = UCCL_SENT_FREE;
		uccl_sent_unmark(l, l->acked, l->una);
		l->una++;
	}
}

/* A read is over, and the edge may advance. Returns the item that waits for one thing less; NULL: no such read. */
static inline struct uccl_item *uccl_sent_read_end(struct uccl_sent_log *l, uint64_t csn)
{
	struct uccl_item *item;
	struct uccl_sent *e;

	/* Entries that are read stay in the log. */
	if (csn < l->una || csn >= l->nxt)
		return NULL;
	e = uccl_sent_at(l, csn);
	if (!e->nic_reads)
		return NULL;
	e->nic_reads--;
	item = e->item;
	uccl_sent_advance(l);
	item->pending--;
	return item;
}

/* The peer is asked for it once more. Returns how often it was before, since it left. */
static inline uint8_t uccl_sent_ask(struct uccl_sent *e)
{
	return e->overdue++;
}

static inline void uccl_sent_land(struct uccl_sent_log *l, struct uccl_sent *e)
{
	uccl_sent_unmark(l, l->flies, (uint64_t)(e - l->log));
	l->inflight_chunks--;
	l->inflight_bytes -= e->flying;
	uccl_sent_slots_set(l, e, 0, 0);
	e->flying = 0;
	uccl_sent_cut_landed(&e->cut, e->cut.fly);
	if (l->out.left && uccl_sent_at(l, l->out.csn) == e)
		l->out.left = 0;
}

/* No segment of it is put together any more. */
static inline void uccl_sent_unkept(struct uccl_sent_log *l, struct uccl_sent *e)
{
	l->kept -= e->kept;
	e->kept = false;
	uccl_sent_cut_undivide(&e->cut);
}

/* Is there one in this queue that was not acknowledged meanwhile? It is at the head then. */
static inline bool uccl_sent_ready(struct uccl_sent_log *l, struct uccl_rtxq *q)
{
	while (!uccl_rtxq_empty(q) && !uccl_sent_is_lost(l, q->csns[q->head & (l->cap - 1)]))
		q->head++;
	return !uccl_rtxq_empty(q);
}

/* Chunk `csn`, which was in flight or lost, is acknowledged. Its item waits for one thing less. */
static inline void uccl_sent_acked(struct uccl_sent_log *l, uint64_t csn)
{
	struct uccl_sent *e = uccl_sent_at(l, csn);

	if (e->state == UCCL_SENT_INFLIGHT)
		uccl_sent_land(l, e);
	l->repairs -= e->repair;
	e->repair = false;
	if (e->kept)
		uccl_sent_unkept(l, e);
	e->state = UCCL_SENT_ACKED;
	uccl_sent_mark(l, l->acked, csn);
	if (csn >= l->high_acked)
		l->high_acked = csn + 1;
	e->item->pending--;
}

/*
 * What is sent again next: of each queue what has been known to be lost for longest, small ones first. NULL: nothing.
 * PROTOCOL R63
 */
static inline struct uccl_sent *uccl_sent_next(struct uccl_sent_log *l, uint64_t *csn)
{
	struct uccl_rtxq *small = &l->rtxq[UCCL_RTX_SMALL], *q = &l->rtxq[UCCL_RTX_LONG];

	if (uccl_sent_ready(l, small))
		q = small;
	else if (!uccl_sent_ready(l, q))
		return NULL;
	*csn = q->csns[q->head & (l->cap - 1)];
	return uccl_sent_at(l, *csn);
}

/* The long one that is next waits behind all others. */
static inline void uccl_sent_next_later(struct uccl_sent_log *l)
{
	struct uccl_rtxq *q = &l->rtxq[UCCL_RTX_LONG];
	uint64_t csn = q->csns[q->head++ & (l->cap - 1)];

	q->csns[q->tail++ & (l->cap - 1)] = csn;
}

static inline struct uccl_rtxq *uccl_sent_queue(struct uccl_sent_log *l, const struct uccl_sent *e)
{
	return &l->rtxq[e->len <= UCCL_CONTROL_BYTES && !e->write ? UCCL_RTX_SMALL : UCCL_RTX_LONG];
}

/* All of the lost chunk `e` has left again: it is in flight. */
static inline void uccl_sent_again(struct uccl_sent_log *l, struct uccl_sent *e, uint64_t now)
{
	uccl_sent_queue(l, e)->head++;
	e->state = UCCL_SENT_INFLIGHT;
	uccl_sent_mark(l, l->flies, (uint64_t)(e - l->log));
	e->sent_ns = now;
	e->overdue = 0;
	e->unsent = false;
	if (e->ntx < UINT8_MAX)
		e->ntx++;
	e->flying = e->len;
	l->inflight_chunks++;
	l->inflight_bytes += e->len;
	uccl_sent_slots_set(l, e, 1, e->len);
}

/* Bytes of a chunk that the peer is not known to have. */
static inline uint32_t uccl_sent_missing(const struct uccl_sent *e)
{
	return uccl_sent_cut_missing(&e->cut, e->len);
}

/* Segment `of` of the chunk leaves in `subs` sub-segments, more than before. The peer has none of them. */
static inline void uccl_sent_divide(struct uccl_sent_log *l, struct uccl_sent *e, uint8_t of, uint8_t subs)
{
	uccl_sent_cut_divide(&e->cut, of, subs);
	l->kept += !e->kept;
	e->kept = true;
}

/* Number of the first packet that is not acknowledged, and of the next one, as uccl_sent.number has them. */
static inline uint64_t uccl_sent_number_una(const struct uccl_sent_log *l)
{
	return l->una == l->nxt ? l->numbers : uccl_sent_at(l, l->una)->number;
}

/* How a row leaves: its first packet has this number on its path. */
struct uccl_run_cfg {
	uint32_t pseq;
	uint8_t flags, last; /* of headers: see struct uccl_sent_run */
};

/* The latest chunk leaves as a train of `count` segments. */
void uccl_sent_train(struct uccl_sent_log *l, uint8_t count, const struct uccl_run_cfg *cfg);
/* These of uccl_sent_cut_map of the one that is first to be sent again leave. */
void uccl_sent_run(struct uccl_sent_log *l, uint64_t csn, uint64_t map, const struct uccl_run_cfg *cfg, uint64_t now);
/* What was to leave of a row waits. Returns bytes that are in flight no more, on *path. */
uint32_t uccl_sent_run_end(struct uccl_sent_log *l, uint16_t *path);
/*
 * A block says that these segments of a chunk came, or these sub-segments of a segment; the chunk is not complete.
 * Returns bytes that are in flight no more; *fresh: bytes that no block has named before.
 */
uint32_t uccl_sent_named(struct uccl_sent_log *l, uint64_t csn, uint64_t have, uint32_t *fresh);
uint32_t uccl_sent_sub_named(struct uccl_sent_log *l, uint64_t csn, uint64_t have, uint32_t *fresh);

/* The one that leaves next. */
static inline uint8_t uccl_sent_run_at(const struct uccl_sent_log *l)
{
	return (uint8_t)__builtin_ctzll(l->out.left);
}

/* Is it the last one of the row? */
static inline bool uccl_sent_run_last(const struct uccl_sent_log *l)
{
	return !(l->out.left & (l->out.left - 1));
}

/* The next packet of the run has left. */
static inline void uccl_sent_run_next(struct uccl_sent_log *l)
{
	l->out.left &= l->out.left - 1;
}

/* The next `n` packets of a run without gaps have left, but not all. */
static inline void uccl_sent_run_skip(struct uccl_sent_log *l, uint8_t n)
{
	uint8_t at = uccl_sent_run_at(l);

	l->out.left = l->out.left >> at >> n << n << at;
}

/* Number on its path of the last packet of it that is missing. Those of a row have numbers in a row. */
static inline uint32_t uccl_sent_pseq(const struct uccl_sent *e)
{
	return e->packet.pseq - uccl_sent_cut_behind(&e->cut);
}

#endif
