/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* open.c: what both sides said becomes a flow. */
#ifndef UCCL_ENGINE_CONN_OPEN_IMPL_H
#define UCCL_ENGINE_CONN_OPEN_IMPL_H

#include "flow/wire/seal.h"
#include "nic/nic.h"

struct conn;

/* A part of struct conn, from the open on. */
struct conn_opened {
	struct uccl_nic_peer *nic_peer;
	struct uccl_seal *seal;		/* NULL: without security, or never connected */
	uint32_t number;		/* in the trace; 0: never connected */
	bool places;			/* both sides have rails without direct writes, and tell where they are */
	bool ect;			/* packets allow marks (ECT): the peer reports them, our policy uses them */
};

/* Both sides know what they need: its key for sealing, if there is one, and then its flow. It fails without memory. */
int conn_seal(struct conn *c);
void conn_begin(struct conn *c, uint64_t now);
/* A half-open connection is needed: its peer sent something, or somebody here asks for it. Without memory it fails. */
void conn_wake(struct conn *c, uint64_t now);

#endif
