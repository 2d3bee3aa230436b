/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Part of an entry of the log of what was sent (sent.h): the packet that left last. */
#ifndef UCCL_FLOW_SEND_SENT_PACKET_H
#define UCCL_FLOW_SEND_SENT_PACKET_H

#include <stdbool.h>
#include <stdint.h>

struct uccl_sent_packet {
	uint32_t bytes;	/* of the longest packet of the latest transmission */
	uint32_t pseq;	/* path sequence number of its last packet */
	bool alone;	/* it was in no train */
	bool delayed;	/* its acknowledgement may wait for payload of the peer (UCCL_FLAG_DELAY) */
};

/* The packet leaves for the first time, and its acknowledgement may wait for payload of the peer. */
static inline void uccl_sent_packet_delayed(struct uccl_sent_packet *p)
{
	p->delayed = true;
}

/* The packet has the number `pseq` on its path. */
static inline void uccl_sent_packet_left(struct uccl_sent_packet *p, uint32_t pseq)
{
	p->pseq = pseq;
}

/* The packet had `bytes` bytes. `alone`: it was in no train. */
static inline void uccl_sent_packet_long(struct uccl_sent_packet *p, uint32_t bytes, bool alone)
{
	p->bytes = bytes;
	p->alone = alone;
}

#endif
