/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* conn_table.c: how connections are found, and how much of the table unauthenticated peers may have. */
#ifndef UCCL_ENGINE_CONN_CONN_TABLE_IMPL_H
#define UCCL_ENGINE_CONN_CONN_TABLE_IMPL_H

#include "base/hash.h"
#include "engine/conn/conn_state_impl.h"

/* Where an endpoint is, as far as it tells it from others. */
struct place_key {
	uint8_t ip[16];
	uint64_t port;			/* and the queue pair of an RDMA NIC */
};

/* A place and an incarnation: what a connection is found by. */
struct conn_key {
	struct place_key at;
	uint64_t incarnation;
};

/* The living at one place: seldom more than one. */
struct conn_place {
	struct place_key key;
	struct conn_list conns;
	UT_hash_handle hh;
};

/* The connections that unauthenticated peers made from one IP address. */
struct conn_source {
	uint8_t ip[16];
	uint32_t n, nhalf;
	struct conn_list half;		/* the oldest first */
	UT_hash_handle hh;
};

/* A part of struct conn. */
struct conn_entry {
	struct conn_key key;		/* as it was told to us, or learnt; see conns_key_set(), conns_key_clear() */
	UT_hash_handle hh_key, hh_token;
	struct conn_place *place;	/* where it is; dead: NULL */
	TAILQ_ENTRY(conn) place_link;	/* in place->conns */
	bool half;			/* half-open: see conns_half_enter() */
	struct conn_source *source;	/* of one that an unknown peer made, as long as it lives; else NULL */
	TAILQ_ENTRY(conn) near;		/* half-open: in source->half */
};

/* A part of struct uccl_engine. */
struct engine_table {
	struct conn_list half;		/* half-open, in no other list; the oldest first */
	uint32_t nhalf;
	struct conn_source *by_ip;
	struct conn *by_key, *by_token;
	struct conn_place *by_place;
	struct conn *last;		/* what conn_by_token found last: trains come from one peer */
};

static inline void engine_table_init(struct engine_table *t)
{
	TAILQ_INIT(&t->half);
}

struct conn *conn_find(struct uccl_engine *e, const struct uccl_nic_addr *at, uint64_t incarnation);
struct conn *conn_by_token(struct uccl_engine *e, uint64_t token);
/* The first of those living at a place; TAILQ_NEXT(c, entry.place_link) is the next. NULL: none. */
struct conn *conns_at(struct uccl_engine *e, const struct uccl_nic_addr *at);
/* Enter `c` into the tables, by token and, if `keyed`, by address. -FI_ENOMEM: nothing happened. */
int conns_add(struct conn *c, bool keyed);
/* To be found no more, if it still was. */
void conns_remove(struct conn *c);
/* The incarnation of `c` is known now. Without memory `c` is found by token and place only. */
void conns_key_set(struct conn *c, uint64_t incarnation);
/* From now on it is found by token and place only: its key is free for another connection. */
void conns_key_clear(struct conn *c);
/* `c` is dead: it is found, but not at its place, and does not count for its address. */
void conns_leave(struct conn *c);
/* The peer is where peer.addr says, and the program named another place; -FI_ENOMEM: it is at no place. */
int conns_move(struct conn *c);

/*
 * A handshake costs its sender two packets, so it may cost us little. A connection that a peer made, and that nobody
 * here has asked for, is half-open until its first packet comes: it has no flow, no receive slots and no timers.
 * -FI_ENOMEM: nothing happened.
 */
int conns_half_enter(struct conn *c, const uint8_t ip[16]);
void conns_half_leave(struct conn *c);
/*
 * May an unknown peer at `ip` open one more half-open connection? *first: the half-open connection that must be closed
 * before; NULL: none. The last part of the table is reserved for connections that this side opens.
 */
bool conns_half_room(struct uccl_engine *e, const uint8_t ip[16], struct conn **first);

#endif
