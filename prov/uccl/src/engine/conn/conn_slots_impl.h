/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* conn_slots.c: what an engine grants its peers of its receive queue. */
#ifndef UCCL_ENGINE_CONN_CONN_SLOTS_IMPL_H
#define UCCL_ENGINE_CONN_CONN_SLOTS_IMPL_H

#include "flow/recv/slots.h"

struct conn;
struct uccl_engine;

/* A part of struct conn. */
struct conn_slots {
	struct uccl_grant grant;	/* from the handshake on */
	uint32_t typical_len;		/* usual length of the peer's packets of late, bytes */
	uint32_t longest, came;		/* longest of the `came` packets that came since typical_len was set */
	bool own_len;			/* typical_len is of its own packets; else of those of all peers */
	bool units;			/* its slots are units of bytes */
};

/* A part of struct uccl_engine. */
struct engine_slots {
	struct uccl_slots queue;	/* the receive queue, */
	uint32_t room;			/* packets of the largest length that fit there */
	uint32_t typical_len;		/* usual length of packets of all peers of late; 0: too few came */
	uint32_t longest, came;		/* as in conn_slots */
};

/* What the handshake grants is a promise from then on. Once for a connection; later calls do nothing. */
void conn_grant(struct conn *c);
/* What the peer takes is known. */
void conn_slots_known(struct conn *c);
/* The peer's packets have at most `mtu` bytes. */
void conn_slots_fit(struct conn *c, uint32_t mtu);
/* What a slot is that we grant this peer, and how many it granted first. The parameters of both are known. */
uint8_t conn_slots_unit(const struct conn *c);
uint16_t conn_slots_granted(const struct conn *c);
/* A packet of a chunk came, of `bytes` bytes. */
void conn_slots_came(struct conn *c, uint32_t bytes);
/* The queue may be shared with other endpoints of the process, which come and go. */
void slots_refit(struct uccl_engine *e);
/* Tell peers that waited for a receive slot. Ask quiet peers to give back the slots that busy ones need. */
void conn_slots_ask(struct uccl_engine *e, uint64_t now);

#endif
