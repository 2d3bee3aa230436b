/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What crosses between the protocol and a NIC: plain data, no calls. `flow` fills and reads these,
 * `nic` moves them; neither includes the other.
 */
#ifndef UCCL_FLOW_WIRE_IO_H
#define UCCL_FLOW_WIRE_IO_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/uio.h>

#include "base/le.h"
#include "flow/path/path.h"
#include "flow/wire/nic_addr.h"

/* Lanes of one endpoint at most. */
#define UCCL_LANES_MAX 16

/* Bytes of the fixed header of every packet on an established flow (docs/protocol/packets.md). */
#define UCCL_HDR_LEN 64
/* Of it, what a NIC writes if it makes packets of a row (uccl_tx.row): the packet's number on its path, the segment. */
#define UCCL_HDR_PSEQ 20
#define UCCL_HDR_SEGMENT 56
/* Most bytes of the acknowledgement block that may follow the payload. */
#define UCCL_TAIL_MAX 640
/* Bytes of the seal that may follow that (flow/wire/seal.h). */
#define UCCL_SEAL_LEN 24
/*
 * Bits of a direct write's immediate that are the flow's. The back end has those above for itself: which flow it is, of
 * those that share a queue pair.
 */
#define UCCL_IMM_BITS 28

struct uccl_nic_peer; /* a back end's own handle for a connected peer; may be NULL */

enum uccl_tx_kind {
	UCCL_TX_PACKET, /* hdr | payload | tail as one packet (SEND, datagram) */
	UCCL_TX_WRITE,	/* payload straight into the peer's memory, imm is the whole header */
};

/* Where a packet is in its train. */
enum uccl_tx_burst {
	UCCL_BURST_NONE,    /* nothing is known */
	UCCL_BURST_FIRST,   /* the first packet: better sent with the train than with the packets before */
	UCCL_BURST_FOLLOWS, /* made from the packet before it: only the payload's place and two fields of hdr differ */
};

enum uccl_tx_control {
	UCCL_TX_PAYLOAD, /* of the application, or what belongs to it */
	UCCL_TX_CONTROL, /* no payload: may use a class of its own */
	UCCL_TX_BEHIND,	 /* no payload, but it must not overtake any: uses the class of payload */
	UCCL_TX_HELLO,	 /* control that asks who is at a place where nobody has answered yet */
	UCCL_TX_AGAIN,	 /* payload that was sent before */
};

/* One thing to send. The NIC copies hdr and tail before it returns from tx(). */
struct uccl_tx {
	uint8_t kind;
	uint8_t control;	/* enum uccl_tx_control */
	uint8_t burst;		/* enum uccl_tx_burst */
	bool answer;		/* to an unauthenticated peer: an ICMP error must not disturb packets to peers */
	bool single;		/* never to be made part of a train (see nic/gso.h) */
	bool ours;		/* a NIC that copies payload may do so itself: it can be read for certain */
	bool ect;		/* the network may mark it instead of throwing it away (caps.marks) */
	uint16_t path;		/* the sender's path index; meaning is the flow's */
	uint16_t label;		/* entropy label: which source port, QP or flow label */
	uint16_t hdr_len;
	uint16_t tail_len;
	uint16_t row;		/* so many packets like this one follow it (ops.tx_rows): see uccl_tx_row_hdr() */
	uint32_t payload_len;
	const void *payload;	/* stays valid until UCCL_RX_SENT, or until tx() returns (caps.tx_sync, write_async) */
	const struct iovec *buffer; /* WRITE: of the application, payload is a part of it; valid during tx() */
	void *mr;		/* payload that only the NIC can read: uccl_nic_ops.source; else NULL */
	uint32_t imm;		/* WRITE */
	uint32_t queue;		/* PACKET: to this queue of the peer, for memory of a device; 0: the usual one */
	uint64_t rkey;		/* WRITE: remote key and offset as the peer granted them */
	uint64_t raddr;
	uint64_t cookie;	/* comes back in UCCL_RX_SENT */
	struct uccl_nic_peer *peer;
	const struct uccl_nic_addr *to;
	uint8_t hdr[UCCL_HDR_LEN];
	uint8_t tail[UCCL_TAIL_MAX + UCCL_SEAL_LEN];
};

/* May it use the class of control packets? PROTOCOL R400 */
static inline bool uccl_tx_control_class(const struct uccl_tx *t)
{
	return t->control == UCCL_TX_CONTROL || t->control == UCCL_TX_HELLO;
}

/* Does it carry payload, sent before or not? */
static inline bool uccl_tx_has_payload(const struct uccl_tx *t)
{
	return t->control == UCCL_TX_PAYLOAD || t->control == UCCL_TX_AGAIN;
}

/*
 * Headers of a row differ in two numbers that count up, the payload of each packet lies behind that of the one before
 * it, and nothing else differs. Turn the header of the first packet into that of packet i.
 */
static inline void uccl_tx_row_count(uint8_t hdr[UCCL_HDR_LEN], const uint8_t first[UCCL_HDR_LEN], uint32_t i)
{
	uccl_put32(hdr + UCCL_HDR_PSEQ, uccl_get32(first + UCCL_HDR_PSEQ) + i);
	hdr[UCCL_HDR_SEGMENT] = (uint8_t)(first[UCCL_HDR_SEGMENT] + i);
}

/* It is copied from where it lies: a copy of parts that were just written would wait for them. */
static inline void uccl_tx_row_hdr(uint8_t *restrict hdr, const uint8_t *restrict first, uint32_t i)
{
	memcpy(hdr, first, UCCL_HDR_LEN);
	uccl_tx_row_count(hdr, first, i);
}

static inline const uint8_t *uccl_tx_row_payload(const struct uccl_tx *t, uint32_t i)
{
	return (const uint8_t *)t->payload + (size_t)i * t->payload_len;
}

/* The first i packets of a row have left: the others are one. */
static inline void uccl_tx_row_skip(struct uccl_tx *t, uint32_t i)
{
	uccl_tx_row_count(t->hdr, t->hdr, i);
	t->payload = uccl_tx_row_payload(t, i);
	t->row = (uint16_t)(t->row - i);
}

enum uccl_rx_kind {
	UCCL_RX_PACKET,	   /* a packet arrived */
	UCCL_RX_WRITE,	   /* a remote write with immediate completed: imm, len, path, peer */
	UCCL_RX_SENT,	   /* the NIC no longer reads the payload of `cookie` */
	UCCL_RX_FENCED,	   /* no earlier write on `path` of `peer` can touch memory any more */
	UCCL_RX_PATH_ERR,  /* `path` of `peer` broke; the NIC made it anew */
	UCCL_RX_WRITE_ON,  /* writes can go on `path` of `peer` (back ends with offer()) */
	UCCL_RX_WRITE_OFF, /* no more; what was written last may be lost */
	UCCL_RX_UNREACH,   /* an ICMP message says that nothing listens at `src`; it quotes `data`, which we sent */
	UCCL_RX_TOO_LONG,  /* the same of a packet that was too long: the network carries `imm` bytes */
	UCCL_RX_GONE,	   /* proof that the process behind `src` ended (liveness connection closed) */
	UCCL_RX_LINK,	   /* of the NIC itself: imm is an enum uccl_link */
	UCCL_RX_DEVICE,	   /* a packet arrived, with its payload in memory of a device that the NIC was lent */
	UCCL_RX_REFUSED,   /* something that the back end keeps to itself, and counts; there may be more behind it */
};

/* How a NIC is. */
enum uccl_link {
	UCCL_LINK_UP,
	UCCL_LINK_DOWN, /* no link, or the address is not the NIC's now: nothing comes or goes until it is back */
	UCCL_LINK_GONE, /* for ever: the device was taken away, or broke */
};

/*
 * One thing that arrived. A packet is one buffer (`data`, `len`), except when the NIC was given hints
 * and has split it: then data holds the first UCCL_HDR_LEN bytes, body/body_len what went to the hinted place
 * and rest/rest_len what followed. Buffers belong to the NIC and are valid until the next rx() call.
 * Packets from one place that came together (GRO) may be one thing: one behind the other in `data`, all but the last
 * of one length. If they met a hint for a row of their length (`row`), the first of them lie in body/body_len, and what
 * of them is left in rest/rest_len; `data` is the body then.
 * Of one in memory that was lent, data holds UCCL_HDR_LEN bytes, and body/body_len is what followed, which only the
 * device can read; imm is its slot, the owner's until uccl_nic_ops.device_rx_free.
 */
struct uccl_rx {
	uint8_t kind;
	bool split;
	bool run;
	bool marked;		/* PACKET: the network marked it, or all that are handed up as one (caps.marks) */
	uint16_t path;
	uint8_t rail;		/* PACKET: which of several NICs it came by */
	uint32_t len;
	uint32_t body_len;
	uint32_t rest_len;
	uint32_t imm;
	uint32_t each;		/* PACKET: bytes of each packet of a GRO batch, see above; 0: this is a single packet */
	const uint8_t *data;
	uint8_t *body;
	const uint8_t *rest;
	uint64_t age_ns;	/* time between arrival at the host and this rx(); 0 if unknown */
	uint64_t read_ns;	/* when this rx() was, by CLOCK_MONOTONIC; 0 if unknown */
	uint64_t cookie;
	struct uccl_nic_peer *peer; /* WRITE, SENT, FENCED, PATH_ERR: whose, */
	uint64_t peer_id;	    /* and the id that connect() was given for it */
	struct uccl_nic_addr src;
};

/* The first `len` bytes of what came as one lie where a row was predicted, at dst, the others where they were. */
static inline void uccl_rx_run_at(struct uccl_rx *rx, uint8_t *dst, uint32_t len)
{
	rx->run = true;
	rx->rest = rx->data + len;
	rx->rest_len = rx->len - len;
	rx->data = rx->body = dst;
	rx->body_len = len;
}

/* Bytes of packets that a NIC hands up as one, at most. */
#define UCCL_GRO_BYTES_MAX 65536

/*
 * A place where the payload of the next packet probably belongs; NIC may scatter there directly. Or that of the next
 * packets that come as one (GRO), of `each` bytes if that is not 0: as many of them as fit whole into `len` lie there
 * then, one behind the other with their headers, for payload is moved more cheaply where it is in the cache than it is
 * scattered. Such a hint is alone.
 */
struct uccl_rx_placement {
	void *dst;
	uint32_t len;
	uint32_t each;
};

/* HELLO or INIT, as far as can be seen. */
bool uccl_packet_begins(const uint8_t *data, uint32_t len);

#endif
