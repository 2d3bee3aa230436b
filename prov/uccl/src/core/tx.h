/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What the files that send share; nobody else includes this. Each calls only those below it:
 *
 *	tx.c		what leaves next
 *	tx_new.c	records and bulk; tx_credit.c: credit and the demand for it
 *	tx_write.c	direct writes
 *	tx_again.c	what was lost, and what leaves in parts
 *	tx_chunk.c	a chunk in one packet
 *	tx_packet.c	packets; tx_place.c: is there room, and on which path
 *
 * What fills `tx` returns 1, or 0 if nothing leaves now.
 */
#ifndef UCCL_CORE_TX_H
#define UCCL_CORE_TX_H

#include "core/internal.h"

/*
 * Small packets stay on one path for this many bytes: decisions per 32 KiB (paper section 3.3). More only where the NIC
 * sends whole trains (uccl_flow_cfg.train_bytes): there a system call costs as much as the copy of 16 KiB.
 */
#define UCCL_TX_BURST_BYTES 32768
/* An acknowledgement is asked for at least every so many bytes of a long transfer. */
#define UCCL_TX_AR_BYTES 131072

/* tx_place.c */
/* New payload may leave now. */
bool flow_tx_allowed(struct uccl_flow *f, uint32_t bytes, uint64_t now);
/* It leaves, and the next one waits for the pace. */
void flow_tx_paced(struct uccl_flow *f, uint32_t bytes, uint64_t now);
/*
 * New payload of a long transfer waits for room for a whole train, as long as enough is in flight to make it: trains
 * cut to what each acknowledgement frees would cost a system call each. Returns how much room is needed; 0: wait.
 */
uint32_t flow_tx_want(const struct uccl_flow *f, const struct uccl_item *item, uint32_t len);
/* The path for payload: a new choice per chunk, or per burst of small packets. */
uint16_t flow_tx_path(struct uccl_flow *f, uint32_t bytes, uint64_t now);
/* So many bytes come together: they begin a burst unless the one under way holds them, and share bursts evenly. */
void flow_tx_burst_align(struct uccl_flow *f, uint64_t bytes);

/* tx_packet.c */
/* Everything a packet has in common, into `tx` and `h`. Payload must have been set. PROTOCOL R4 */
void flow_tx_packet(struct uccl_flow *f, struct uccl_tx *tx, struct uccl_hdr *h, uint16_t path, bool want_ack,
		    uint64_t now);
/* A packet that is no chunk. */
int flow_tx_control(struct uccl_flow *f, struct uccl_tx *tx, uint8_t type, uint8_t flags, const uint8_t *rec,
		    uint16_t path, bool want_ack, uint64_t now);

/* tx_chunk.c */
/* The next chunk leaves: it is in flight. Returns its entry in the log. */
struct uccl_sent *flow_tx_enter(struct uccl_flow *f, struct uccl_item *item, uint8_t type, const uint8_t *rec,
				const uint8_t *payload, uint32_t len, uint16_t path, uint64_t now);
/* Which flag asks for the acknowledgement of this chunk, if any. The chunk is in the log already. */
uint8_t flow_tx_ar(struct uccl_flow *f, const struct uccl_item *item, bool last, uint32_t len, uint64_t now);
/* Send the chunk of log entry `e` as a packet: first time or again. */
void flow_tx_chunk(struct uccl_flow *f, struct uccl_tx *tx, struct uccl_sent *e, uint64_t csn, uint8_t flags,
		   uint64_t now);

/* tx_again.c */
/* The chunk that has been known to be lost for longest, or a part of it. */
int flow_tx_retransmit(struct uccl_flow *f, struct uccl_tx *tx, uint64_t now);
/* What is new cannot leave in one packet: it waits as if it were lost, and leaves now if it may. */
int flow_tx_parts(struct uccl_flow *f, struct uccl_tx *tx, const struct uccl_sent *e, uint64_t now);

/* tx_write.c */
/* Announce the next direct writes of an item, at most so many. */
int flow_tx_desc(struct uccl_flow *f, struct uccl_tx *tx, struct uccl_item *item, uint32_t most, uint64_t now);
/* One direct write of the announced run. */
int flow_tx_write(struct uccl_flow *f, struct uccl_tx *tx, uint64_t now);

/* tx_credit.c */
/* A grant that is due, or the demand. */
int flow_tx_credit(struct uccl_flow *f, struct uccl_tx *tx, uint64_t now);

/* tx_new.c */
/* Something that has not been sent yet. */
int flow_tx_new(struct uccl_flow *f, struct uccl_tx *tx, uint64_t now);

/* Is there a place for one more chunk, at the peer and in the log? PROTOCOL R13 */
static inline bool flow_tx_room(struct uccl_flow *f)
{
	if (f->sent.inflight_chunks && (uccl_sent_packets(&f->sent) >= f->granted.slots || f->pieces_wait))
		return false;
	return uccl_sent_room(&f->sent);
}

/* So many bytes of this range leave. */
static inline void flow_tx_bulk_left(struct uccl_flow *f, struct uccl_item *item, uint32_t len)
{
	uccl_sendq_bulk(&f->sendq, item, len, (uint32_t)uccl_max(UCCL_TX_BURST_BYTES, f->train_bytes));
}

/* A chunk of so many bytes must leave in pieces. */
static inline bool flow_tx_long(const struct uccl_flow *f, uint32_t len)
{
	return UCCL_HDR_LEN + len > f->pmtu.bytes;
}

#endif
