/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What the files that send share; nobody else includes this. Each calls only those below it:
 *
 *	flow_tx.c	what leaves next
 *	tx_new.c	records and bulk; tx_credit.c: credit and the demand for it
 *	tx_write.c	direct writes (in write/)
 *	tx_again.c	what was lost
 *	tx_segment.c	chunks in segments
 *	tx_chunk.c	a chunk in one packet
 *	tx_packet.c	packets; tx_place.c: is there room, and on which path
 *
 * What fills `tx` returns 1, or 0 if nothing leaves now.
 */
#ifndef UCCL_FLOW_SEND_TX_INTERNAL_H
#define UCCL_FLOW_SEND_TX_INTERNAL_H

#include "base/prefetch.h"
#include "flow/internal.h"

/* Longer payload of a packet is not prefetched. */
#define UCCL_TX_PREFETCH_MAX 4096

/* tx_place.c */
/* New payload may leave now. */
bool flow_tx_allowed(struct uccl_flow *f, uint32_t bytes, uint64_t now);
/* `bytes` leave on this path, and the next packet waits for its time. */
void flow_tx_paced(struct uccl_flow *f, uint16_t path, uint32_t bytes, uint64_t now);
/*
 * New payload of a long transfer waits for room for a whole train, as long as enough is in flight to make it: trains
 * cut to what each acknowledgement frees would cost a system call each. Returns how much room is needed; 0: wait.
 */
uint32_t flow_tx_want(const struct uccl_flow *f, const struct uccl_item *item, uint32_t len);
/* The path for payload of a message with `left` bytes left: a new choice per chunk, or per burst of small packets. */
uint16_t flow_tx_path(struct uccl_flow *f, uint32_t bytes, uint64_t left, uint64_t now);
/*
 * The path of an acknowledgement, or of credit. As long as the peer sends little, that is the path of our payload, if
 * the peer reported it lately and knows of our answers. PROTOCOL R341
 */
uint16_t flow_tx_control_path(struct uccl_flow *f);
/* Bytes of the burst under way, if the next packet belongs to it, or of the next burst. */
uint32_t flow_tx_burst_left(const struct uccl_flow *f, uint32_t bytes);
/* So many bytes come together: they begin a burst unless the one under way holds them, and share bursts evenly. */
void flow_tx_burst_align(struct uccl_flow *f, uint64_t bytes);
/* The sender asks for an acknowledgement after this many bytes. */
uint64_t flow_tx_ask_bytes(const struct uccl_flow *f);
/* Will the first packets of the next range be in the same burst, after `bytes` of this one? */
bool flow_tx_burst_joins(const struct uccl_flow *f, uint64_t bytes, const struct uccl_item *next);

/* tx_packet.c */
/* Which packet carries an acknowledgement block, if there is room: none, if one is owed, or any. */
enum flow_block { FLOW_BLOCK_NEVER, FLOW_BLOCK_DUE, FLOW_BLOCK_ALWAYS };

/*
 * Fill in what all packets have in common, in `tx` and `h`. Set the payload before, and the tail of a padded packet.
 * PROTOCOL R4
 */
void flow_tx_packet(struct uccl_flow *f, struct uccl_tx *tx, struct uccl_hdr *h, uint16_t path, enum flow_block block,
		    uint64_t now);
/* A packet that is no chunk. */
int flow_tx_control(struct uccl_flow *f, struct uccl_tx *tx, uint8_t type, uint8_t flags, const uint8_t *rec,
		    uint16_t path, bool want_ack, uint64_t now);

/* tx_chunk.c */
/* The next chunk leaves: it is in flight. Returns its entry in the log. The timer follows. */
static uccl_inline struct uccl_sent *flow_tx_enter(struct uccl_flow *f, struct uccl_item *item, uint8_t type,
						   const uint8_t *rec, const uint8_t *payload, uint32_t len,
						   uint16_t path, uint64_t now)
{
	bool idle = f->policy.rail ? !flow_rail(f, path)->inflight : !uccl_sent_outstanding(&f->sent);
	struct uccl_sent *e = uccl_sent_add(&f->sent, item, type, rec, payload, len, path, now);

	uccl_rate_sent(flow_rate(f, path), &e->rate, idle, now);
	flow_path_fly(f, path, len);
	f->cfg.stats->tx_bytes += len;
	f->cfg.stats->chunks_tx++;
	return e;
}
/* Was nothing in flight when the latest chunk was entered? */
static inline bool flow_tx_first(const struct uccl_flow *f)
{
	return f->sent.inflight_chunks == 1 && !uccl_sent_waits(&f->sent);
}
/* The chunk that was entered last says nothing of its acknowledgement: its timer. */
static inline void flow_tx_timer(struct uccl_flow *f, uint64_t now)
{
	uccl_pto_sent(&f->loss.pto, &f->loss.times, flow_tx_first(f), now);
}
/*
 * What the chunk of `e`, which was entered last, says of its acknowledgement: UCCL_FLAG_AR, UCCL_FLAG_DELAY, or 0; and
 * its timer. `last`: the item ends with it.
 */
uint8_t flow_tx_ack_flags(struct uccl_flow *f, struct uccl_sent *e, bool last, uint32_t len, uint64_t now);
/* The NIC's call will copy the payload at once: let it come to the cache while the rest of the train is made. */
static inline void flow_tx_prefetch(const struct uccl_flow *f, const uint8_t *payload, uint32_t len)
{
	/* Payload that is one long piece comes by itself; without payload there is no pointer to count from. */
	if (f->cfg.tx_sync && len && len <= UCCL_TX_PREFETCH_MAX)
		uccl_prefetch_read(payload, len);
}
/* Send the chunk of log entry `e` as a packet: first time or again. */
void flow_tx_chunk(struct uccl_flow *f, struct uccl_tx *tx, struct uccl_sent *e, uint64_t csn, uint8_t flags,
		   uint64_t now);

/*
 * The queue of the peer that a packet goes to, with this flag or without: what is sent again does not depend on one for
 * memory of devices. PROTOCOL R291
 */
static inline uint32_t flow_tx_queue(const struct uccl_sent *e, uint8_t flags)
{
	return flags & UCCL_FLAG_RTX ? 0 : e->item->queue;
}

/* The kind of a packet with payload, with these flags. */
static inline uint8_t flow_tx_payload_kind(uint8_t flags)
{
	return flags & UCCL_FLAG_RTX ? UCCL_TX_AGAIN : UCCL_TX_PAYLOAD;
}

/* tx_segment.c */
/* The next packet of a row of segments that is under way. */
int flow_tx_run(struct uccl_flow *f, struct uccl_tx *tx, uint64_t now);
/* These of the cut of one, which is first to be sent again, are a row that is under way. */
void flow_tx_segments_again(struct uccl_flow *f, struct uccl_sent *e, uint64_t csn, uint64_t map, uint64_t now);
/*
 * How many bytes may leave now as one chunk in segments? `len`: what one packet carries. Up to `want` bytes are allowed
 * to leave in any case. Returns `len` if the chunk is to leave in one packet.
 */
uint32_t flow_tx_train_len(struct uccl_flow *f, const struct uccl_item *item, uint32_t len, uint32_t want,
			   uint64_t now);
/* Send the chunk that was entered last as a train of packets of `packet` bytes. `ar`: flag of the last packet. */
int flow_tx_train(struct uccl_flow *f, struct uccl_tx *tx, struct uccl_sent *e, uint32_t packet, uint8_t ar,
		  uint64_t now);

/* tx_again.c */
/* Send again the chunk that has been known to be lost for longest, or a segment of it. */
int flow_tx_retransmit(struct uccl_flow *f, struct uccl_tx *tx, uint64_t now);
/* The chunk that was entered last cannot leave as it is: it waits as if it were lost, and leaves now if it may. */
int flow_tx_wait(struct uccl_flow *f, struct uccl_tx *tx, const struct uccl_sent *e, uint64_t now);

/* tx_write.c */
/* Announce the next direct writes of an item, at most `most`. */
int flow_tx_desc(struct uccl_flow *f, struct uccl_tx *tx, struct uccl_item *item, uint32_t most, uint64_t now);
/* Send the next direct write of the announced run. */
int flow_tx_write(struct uccl_flow *f, struct uccl_tx *tx, uint64_t now);

/* tx_credit.c */
/* The demand, if something begins that needs more than it has: the answer takes a round trip. PROTOCOL R249 */
int flow_tx_credit_first(struct uccl_flow *f, struct uccl_tx *tx, uint64_t now);
/* A grant that is due, or the demand. */
int flow_tx_credit(struct uccl_flow *f, struct uccl_tx *tx, uint64_t now);

/* tx_new.c */
/* Something that has not been sent yet. */
int flow_tx_new(struct uccl_flow *f, struct uccl_tx *tx, uint64_t now);

/* Is there a place for one more chunk, at the peer and in the log? PROTOCOL R13 */
static inline bool flow_tx_room(struct uccl_flow *f)
{
	return !flow_slots_full(f, 0, 0) && uccl_sent_room(&f->sent);
}

/* How many of the longest packets may leave now: one as long as a slot is free. PROTOCOL R376 */
static inline uint32_t flow_tx_packets_room(const struct uccl_flow *f)
{
	uint32_t used = uccl_sent_slots(&f->sent), each = uccl_sent_slots_of(&f->sent, f->chunk_bytes);
	uint32_t most = uccl_peer_limits_most(&f->limits);

	return used < most ? (most - used + each - 1) / each : 0;
}

/* So many bytes of this range leave. */
static inline void flow_tx_bulk_left(struct uccl_flow *f, struct uccl_item *item, uint32_t len)
{
	uccl_sendq_bulk(&f->sendq, item, len, (uint32_t)uccl_max(UCCL_TX_BURST_BYTES, f->train_bytes));
}

/* Payload of each packet of this range but the last. */
static inline uint32_t flow_tx_each(const struct uccl_flow *f, const struct uccl_item *item)
{
	return item->each ? (uint32_t)uccl_min(item->each, f->chunk_bytes) : f->chunk_bytes;
}

/* So many bytes are too long for a packet. */
static inline bool flow_tx_long(const struct uccl_flow *f, uint32_t len)
{
	return UCCL_HDR_LEN + len > f->pmtu.bytes;
}

#endif
