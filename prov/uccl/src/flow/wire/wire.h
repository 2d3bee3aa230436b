/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The wire format: see docs/protocol/packets.md, which changes together with this file. All fields are little endian.
 * Decoders check lengths and ranges that need no state; everything else is checked where the state is.
 */
#ifndef UCCL_FLOW_WIRE_WIRE_H
#define UCCL_FLOW_WIRE_WIRE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/le.h"
#include "flow/wire/addr.h"
#include "flow/observe/stats.h"

#define UCCL_MAGIC 0x4355 /* "UC" */
/* util/netns/mistakes-test builds another one. */
#ifndef UCCL_VERSION
#define UCCL_VERSION 2
#endif
/* The first one, which understands no other. Its handshakes have the same format, and are answered in it. */
#define UCCL_VERSION_FORMER 1
#define UCCL_REC_LEN 32

enum uccl_pkt_type {
	/* handshake: no flow yet (flow/wire/conn.h) */
	UCCL_PKT_HELLO = 1,
	UCCL_PKT_COOKIE = 2,
	UCCL_PKT_INIT = 3,
	UCCL_PKT_INIT_ACK = 4,
	UCCL_PKT_ELSEWHERE = 5,
	/* established, not sequenced */
	UCCL_PKT_ACK = 8,     /* nothing but the acknowledgement block */
	UCCL_PKT_PROBE = 9,   /* asks for an ACK; on its path it is also a later packet (loss proof) */
	UCCL_PKT_CREDIT = 10, /* receiver: cumulative grant in rec[0..8) */
	UCCL_PKT_DEMAND = 11, /* sender: cumulative demand in rec[0..8) */
	UCCL_PKT_CLOSE = 12,
	UCCL_PKT_CLOSE_ACK = 13,
	/* sequenced: carries a chunk sequence number and is delivered exactly once */
	UCCL_PKT_CHUNK = 16,   /* rtype and rec belong to msg */
	UCCL_PKT_DESC = 17,    /* descriptor of the direct writes that follow it in CSN order */
	UCCL_PKT_SEGMENT = 18, /* segment i of n of a chunk: in a train, of a lost write, of a long chunk */
};

#define UCCL_FLAG_AR (1u << 0)	  /* acknowledge at once */
#define UCCL_FLAG_RTX (1u << 1)	  /* sent before */
#define UCCL_FLAG_WANT (1u << 2)  /* more waits to be sent; PROBE: and there is no slot for it */
#define UCCL_FLAG_SEALED (1u << 3) /* a seal follows the tail */
#define UCCL_FLAG_PADDED (1u << 4) /* CHUNK: the tail is zeros, which mean nothing */
#define UCCL_FLAG_DELAY (1u << 5)  /* nobody waits for the acknowledgement: it may wait for payload (R340) */
#define UCCL_FLAG_OWN_PORT (1u << 6) /* HELLO, INIT: it leaves from the port at which its sender receives (R373) */
/* Flags in which the segments of a GRO batch may differ. */
#define UCCL_FLAGS_ROW (UCCL_FLAG_AR | UCCL_FLAG_WANT | UCCL_FLAG_DELAY)

/* Decoded fixed header. `rec` points into the packet. */
struct uccl_hdr {
	uint8_t version; /* as decoded: UCCL_VERSION; of a HELLO or COOKIE any; of an INIT also UCCL_VERSION_FORMER */
	uint8_t type;
	uint8_t flags;
	uint8_t rtype;
	uint16_t path;
	uint64_t token;
	uint32_t csn;
	uint32_t pseq;
	uint32_t ts;
	uint16_t payload_len;
	uint16_t tail_len;
	bool marked; /* not in the packet: the network marked it (ECN); whoever decodes sets it */
	bool on_device; /* not in the packet either: its payload is in memory of a device, so it is DATA or REPLY */
	const uint8_t *rec;
};

/* Is it one of enum uccl_pkt_type? The one list of them for whoever sorts packets, here and in a NIC's filter. */
bool uccl_type_known(uint8_t type);

/* Write a header of version UCCL_VERSION. */
void uccl_hdr_encode(uint8_t out[UCCL_HDR_LEN], const struct uccl_hdr *h);
/* A header becomes that of a packet of the former version. */
static inline void uccl_hdr_former(uint8_t hdr[UCCL_HDR_LEN])
{
	hdr[2] = UCCL_VERSION_FORMER;
}

/*
 * Decode a packet of `len` bytes of which at least min(len, UCCL_HDR_LEN) are readable. Returns UCCL_DROP_COUNT if
 * it is well formed: known type, and header + payload + tail (+ seal) are exactly len; otherwise the reason.
 */
enum uccl_drop uccl_hdr_decode(struct uccl_hdr *h, const uint8_t *data, uint32_t len);

/* The least that an ICMP report must quote of a packet: all up to the sequence number on its path. */
#define UCCL_QUOTE_MIN 24

/*
 * The beginning of a packet of ours, as an ICMP message quotes it. UCCL_DROP_COUNT if it looks like one; h->rec is NULL
 * if the quote ends within the header, and h has no lengths. Anybody can make a quote: nothing of it is true before the
 * token was found right.
 */
enum uccl_drop uccl_quote_decode(struct uccl_hdr *h, const uint8_t *data, uint32_t len);

/* One path's line in an acknowledgement block. */
struct uccl_ack_path {
	uint16_t path;
	bool write;	/* seq is the low 32 bits of a CSN that came by direct write */
	uint32_t seq;	/* highest sequence number seen on that path */
	uint32_t echo;	/* ts of the packet that arrived last on it (not for writes) */
	uint32_t delay; /* turnaround: from its arrival to this block, units of ts; UINT32_MAX: unknown */
	uint16_t marked; /* payload that came marked on it since the flow began, UCCL_MARK_BYTES each, rounded up */
};

#define UCCL_MARK_BYTES 1024u
#define UCCL_ACK_PATHS_MAX 12
#define UCCL_ACK_WORDS_MAX 48 /* 64-bit words of the selective bitmap */
#define UCCL_ACK_SEGMENTS_MAX 16 /* lines about chunks of which segments have come */
#define UCCL_ACK_FIXED 16
#define UCCL_SLOTS_MAX 0x7fff
/* Grants of slots are numbered modulo this, see flow/recv/slots.h. */
#define UCCL_SLOTS_TURNS 4

/* Segments of a chunk that have come. */
struct uccl_ack_segments {
	uint16_t ahead;	/* its CSN, behind the cumulative number */
	uint8_t of;	/* with `subs`: sub-segments of this one, */
	uint8_t subs;	/* sub-segments of that segment; 0: the line is about segments of the chunk */
	uint64_t have;	/* these, a bit each */
};

/* Decoded acknowledgement block. */
struct uccl_ack {
	uint32_t cum;	     /* low 32 bits of the first CSN not received */
	uint32_t dups;	     /* chunks received more than once since the flow began, probes not counted */
	uint32_t msg_limit;  /* low 32 bits of the first message sequence that may not be sent yet */
	uint16_t slots;	     /* chunks that may be in flight towards the sender of this block */
	bool rcv_short;	     /* its sender has no memory for unexpected payload: envelopes only, please */
	uint8_t turn;	     /* of that grant, below UCCL_SLOTS_TURNS */
	uint8_t met;	     /* the turn of its own grant that its sender has met */
	uint8_t npaths;
	uint8_t nwords;
	struct uccl_ack_path paths[UCCL_ACK_PATHS_MAX];
	uint8_t nsegments;
	uint64_t sack[UCCL_ACK_WORDS_MAX]; /* bit i of word w: CSN cum + 1 + 64 w + i was received */
	struct uccl_ack_segments segments[UCCL_ACK_SEGMENTS_MAX];
};

/* Bytes of a line about a path, and about segments. */
#define UCCL_ACK_PATH_LEN 16
#define UCCL_ACK_SEGMENTS_LEN 12

/* Bytes of the encoded block; at most UCCL_TAIL_MAX, if the segments are no more than uccl_ack_segments_fit. */
static inline uint32_t uccl_ack_len(uint8_t npaths, uint8_t nwords, uint8_t nsegments)
{
	return UCCL_ACK_FIXED + npaths * UCCL_ACK_PATH_LEN + nwords * 8u + nsegments * UCCL_ACK_SEGMENTS_LEN;
}
/* How many lines about segments a block has room for that has `room` bytes. */
uint8_t uccl_ack_segments_fit(uint8_t npaths, uint8_t nwords, uint32_t room);
uint32_t uccl_ack_encode(uint8_t *out, const struct uccl_ack *a);
enum uccl_drop uccl_ack_decode(struct uccl_ack *a, const uint8_t *in, uint32_t len);

/* Timestamps on the wire: units of 64 ns, 32 bits (wrap after 274 s), an opaque echo for the peer. */
#define UCCL_TS_SHIFT 6
static inline uint32_t uccl_ts(uint64_t now)
{
	return (uint32_t)(now >> UCCL_TS_SHIFT);
}

/* The first time, not before then, that an echo tells as it is. */
static inline uint64_t uccl_ts_ceil(uint64_t ns)
{
	return (ns + (1u << UCCL_TS_SHIFT) - 1) >> UCCL_TS_SHIFT << UCCL_TS_SHIFT;
}

/* Immediate of a direct write: 24 bits of CSN, 4 bits of epoch, which is all of UCCL_IMM_BITS. */
#define UCCL_IMM_CSN_BITS 24
static inline uint32_t uccl_imm(uint64_t csn, uint8_t epoch)
{
	return (uint32_t)(csn & ((1u << UCCL_IMM_CSN_BITS) - 1)) | (uint32_t)(epoch & 15u) << UCCL_IMM_CSN_BITS;
}

/* Descriptor: chunks first .. first + count - 1 go to message handle `id` at offset, `chunk` bytes each. */
struct uccl_desc {
	uint32_t id;
	uint32_t gen;
	uint32_t count;
	uint32_t chunk;
	uint64_t offset;
	uint64_t len; /* bytes in all: the last chunk may be shorter */
};

void uccl_desc_encode(uint8_t rec[UCCL_REC_LEN], const struct uccl_desc *d);
/* UCCL_DROP_RECORD: count 0 or too large, chunk 0, or len does not make count chunks, or offset + len overflows. */
enum uccl_drop uccl_desc_decode(struct uccl_desc *d, const uint8_t rec[UCCL_REC_LEN]);

/* Payload is cut at multiples of this many bytes of its message. PROTOCOL R216 */
#define UCCL_WORD 8

static inline uint32_t uccl_words(uint32_t bytes)
{
	return bytes & ~(UCCL_WORD - 1u);
}

/*
 * Segment `index` of the `count` of a chunk. All but the last are of one length, so a receiver needs no earlier one to
 * know where it belongs. One that is too long for the path leaves as `subs` sub-segments, likewise. A chunk that is too
 * long, and was not cut before, is one segment.
 *
 * The first UCCL_SEGMENT_REC bytes of the record are those of the chunk's record; [8..16) is the place of the chunk's
 * first byte. Behind them stand the numbers above. Sub-segments of odd index bring the last UCCL_SEGMENT_REC bytes of
 * the chunk's record instead of the first. In the record of a direct write [16..18) is the path of the write.
 */
#define UCCL_SEGMENT_COUNT 64
#define UCCL_SEGMENT_REC 24
#define UCCL_SEGMENT_PATH 16

struct uccl_segment {
	uint8_t index, count;
	uint8_t sub, subs; /* subs 0: all of it is here */
	uint32_t total;	   /* bytes of the chunk */
};

/* Bytes of each but the last, of `count` that have `total` together. PROTOCOL R216 */
static inline uint32_t uccl_segment_each(uint32_t total, uint8_t count)
{
	return uccl_words((total + count - 1) / count + UCCL_WORD - 1);
}

/* Bytes of this one. */
static inline uint32_t uccl_segment_len(uint32_t total, uint8_t index, uint8_t count)
{
	uint32_t each = uccl_segment_each(total, count);

	return index + 1u == count ? total - index * each : each;
}

/* Where in the record of the chunk the UCCL_SEGMENT_REC bytes belong that sub-segment `sub` brings. */
static inline uint32_t uccl_segment_rec_at(uint8_t sub)
{
	return sub % 2 ? UCCL_REC_LEN - UCCL_SEGMENT_REC : 0;
}

/* `rec` is that of the chunk. */
void uccl_segment_encode(uint8_t out[UCCL_REC_LEN], const uint8_t rec[UCCL_REC_LEN], const struct uccl_segment *s);
/* Which one is it, and in how many sub-segments does it leave? Not checked. */
static inline uint8_t uccl_segment_index(const uint8_t rec[UCCL_REC_LEN])
{
	return rec[24];
}
static inline uint8_t uccl_segment_subs(const uint8_t rec[UCCL_REC_LEN])
{
	return rec[27];
}
/* What it says, not checked. */
static inline void uccl_segment_read(struct uccl_segment *s, const uint8_t rec[UCCL_REC_LEN])
{
	s->index = rec[24];
	s->count = rec[25];
	s->sub = rec[26];
	s->subs = rec[27];
	s->total = uccl_get32(rec + 28);
}
/* Is it one, of `len` bytes? Not if there are too many or none, or no such one. */
bool uccl_segment_fits(const struct uccl_segment *s, uint32_t len);
/* UCCL_DROP_RECORD: it is none. */
enum uccl_drop uccl_segment_decode(struct uccl_segment *s, const uint8_t rec[UCCL_REC_LEN], uint32_t len);

/*
 * Of `len` bytes at `data`, packets of `each` bytes but the last, which may be shorter: how many from the first on are
 * segments in a row, which differ by what counts them, and by UCCL_FLAGS_ROW, and by nothing else? In bytes. h: header
 * of the first, which decoded well; it gets those flags that one of the others has. Where there is no such row, those
 * of the first.
 */
uint32_t uccl_segment_row(struct uccl_hdr *h, const uint8_t *data, uint32_t each, uint32_t len);

/* First 16 bytes of rec in every record that carries bulk payload: DATA, REPLY, EAGER. */
static inline void uccl_rec_set_bulk(uint8_t *rec, uint32_t id, uint32_t gen, uint64_t offset)
{
	uccl_put32(rec, id);
	uccl_put32(rec + 4, gen);
	uccl_put64(rec + 8, offset);
}

struct uccl_tuple_budget;

/* What headers of one flow carry, and what those of the peer must. */
struct uccl_wire_cfg {
	uint64_t token_tx, token_rx; /* the peer chose token_tx; packets to us carry token_rx */
	uint64_t csn_tx, csn_rx;     /* first CSN each way */
	uint8_t epoch_tx, epoch_rx;
	bool delays_tx; /* the peer knows UCCL_FLAG_DELAY */
	bool renews;	/* acknowledgements renew the speculative window, each way */
	bool first_stays;     /* path 0 keeps that label */
	uint8_t rails;	      /* several NICs as one: label l leaves by number l % rails */
	struct uccl_tuple_budget *budget; /* labels are 5-tuples, which share it; NULL: no limit */
	uint8_t unit_tx, unit_rx; /* slots that the peer grants, and ours: see slot_unit.h */
	uint16_t first_label; /* of path 0, modulo the NIC's labels; the other paths have those that follow */
};

#endif
