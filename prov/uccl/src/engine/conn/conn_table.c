/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The table of an engine's connections. Each one is found by its token, whether it lives or not. Each one is found by
 * its key (place and incarnation), unless it ended without having been connected: then the key is free for the next
 * attempt. Those that live are found by their place, too. And how much of the table unauthenticated peers may have.
 */
#include <rdma/fi_errno.h>
#include <stdlib.h>
#include <string.h>

#include "engine/impl.h"

/* Half-open connections of an endpoint, and of one address. Each is some 4 KB. PROTOCOL R135 */
#define HALF_MAX 4096
#define HALF_SOURCE_MAX (HALF_MAX / 4)
/* All that unauthenticated peers may make, and from one address. */
#define STRANGERS_MAX (CONNS_MAX / 8 * 7)
#define SOURCE_MAX (CONNS_MAX / 8)

static void place_key_make(struct place_key *k, const struct uccl_nic_addr *at)
{
	memset(k, 0, sizeof(*k));
	memcpy(k->ip, at->ip, sizeof(k->ip));
	k->port = at->port;
	if (at->pad)
		k->port |= (uint64_t)at->scope << 16 | 1ull << 63;
}

static struct conn_place *place_find(struct uccl_engine *e, const struct uccl_nic_addr *at)
{
	struct conn_place *place;
	struct place_key k;

	place_key_make(&k, at);
	HASH_FIND(hh, e->table.by_place, &k, sizeof(k), place);
	return place;
}

static int place_enter(struct conn *c)
{
	struct uccl_engine *e = c->e;
	struct conn_place *place = place_find(e, &c->peer.addr.nic);

	if (!place) {
		place = calloc(1, sizeof(*place));
		if (!place)
			return -FI_ENOMEM;
		place_key_make(&place->key, &c->peer.addr.nic);
		TAILQ_INIT(&place->conns);
		HASH_ADD(hh, e->table.by_place, key, sizeof(place->key), place);
		if (!place->hh.tbl) {
			free(place);
			return -FI_ENOMEM;
		}
	}
	TAILQ_INSERT_TAIL(&place->conns, c, entry.place_link);
	c->entry.place = place;
	return 0;
}

static void source_leave(struct conn *c)
{
	struct conn_source *s = c->entry.source;

	c->entry.source = NULL;
	if (!s || --s->n)
		return;
	HASH_DELETE(hh, c->e->table.by_ip, s);
	free(s);
}

void conns_leave(struct conn *c)
{
	struct uccl_engine *e = c->e;
	struct conn_place *place = c->entry.place;

	source_leave(c);
	if (!place)
		return;
	c->entry.place = NULL;
	TAILQ_REMOVE(&place->conns, c, entry.place_link);
	if (!TAILQ_EMPTY(&place->conns))
		return;
	HASH_DELETE(hh, e->table.by_place, place);
	free(place);
}

int conns_move(struct conn *c)
{
	conns_leave(c);
	return place_enter(c);
}

struct conn *conn_find(struct uccl_engine *e, const struct uccl_nic_addr *at, uint64_t incarnation)
{
	struct conn_key k;
	struct conn *c;

	place_key_make(&k.at, at);
	k.incarnation = incarnation;
	HASH_FIND(entry.hh_key, e->table.by_key, &k, sizeof(k), c);
	return c;
}

struct conn *conn_by_token(struct uccl_engine *e, uint64_t token)
{
	struct conn *c;

	if (e->table.last && e->table.last->hs.token_local == token)
		return e->table.last;
	HASH_FIND(entry.hh_token, e->table.by_token, &token, sizeof(token), c);
	if (c)
		e->table.last = c;
	return c;
}

struct conn *conns_at(struct uccl_engine *e, const struct uccl_nic_addr *at)
{
	struct conn_place *place = place_find(e, at);

	return place ? TAILQ_FIRST(&place->conns) : NULL;
}

int conns_add(struct conn *c, bool keyed)
{
	struct uccl_engine *e = c->e;

	place_key_make(&c->entry.key.at, &c->peer.addr.nic);
	c->entry.key.incarnation = c->peer.addr.incarnation;
	if (place_enter(c))
		return -FI_ENOMEM;
	HASH_ADD(entry.hh_token, e->table.by_token, hs.token_local, sizeof(c->hs.token_local), c);
	if (!c->entry.hh_token.tbl)
		goto nomem;
	if (keyed)
		HASH_ADD(entry.hh_key, e->table.by_key, entry.key, sizeof(c->entry.key), c);
	if (!keyed || c->entry.hh_key.tbl)
		return 0;
	HASH_DELETE(entry.hh_token, e->table.by_token, c);
nomem:
	conns_leave(c);
	return -FI_ENOMEM;
}

void conns_key_clear(struct conn *c)
{
	if (c->entry.hh_key.tbl)
		HASH_DELETE(entry.hh_key, c->e->table.by_key, c);
	c->entry.hh_key.tbl = NULL;
}

void conns_remove(struct conn *c)
{
	struct uccl_engine *e = c->e;

	conns_leave(c);
	conns_key_clear(c);
	if (c->entry.hh_token.tbl)
		HASH_DELETE(entry.hh_token, e->table.by_token, c);
	c->entry.hh_token.tbl = NULL;
	if (e->table.last == c)
		e->table.last = NULL;
}

void conns_key_set(struct conn *c, uint64_t incarnation)
{
	if (c->entry.hh_key.tbl && c->entry.key.incarnation == incarnation)
		return;
	conns_key_clear(c);
	c->entry.key.incarnation = incarnation;
	HASH_ADD(entry.hh_key, c->e->table.by_key, entry.key, sizeof(c->entry.key), c);
}

int conns_half_enter(struct conn *c, const uint8_t ip[16])
{
	struct uccl_engine *e = c->e;
	struct conn_source *s;

	HASH_FIND(hh, e->table.by_ip, ip, sizeof(s->ip), s);
	if (!s) {
		s = calloc(1, sizeof(*s));
		if (!s)
			return -FI_ENOMEM;
		memcpy(s->ip, ip, sizeof(s->ip));
		TAILQ_INIT(&s->half);
		HASH_ADD(hh, e->table.by_ip, ip, sizeof(s->ip), s);
		if (!s->hh.tbl) {
			free(s);
			return -FI_ENOMEM;
		}
	}
	conn_list_move(c, &e->conns.live, &e->table.half);
	e->table.nhalf++;
	TAILQ_INSERT_TAIL(&s->half, c, entry.near);
	s->nhalf++;
	s->n++;
	c->entry.source = s;
	c->entry.half = true;
	return 0;
}

void conns_half_leave(struct conn *c)
{
	struct uccl_engine *e = c->e;

	c->entry.half = false;
	conn_list_move(c, &e->table.half, &e->conns.live);
	e->table.nhalf--;
	TAILQ_REMOVE(&c->entry.source->half, c, entry.near);
	c->entry.source->nhalf--;
}

bool conns_half_room(struct uccl_engine *e, const uint8_t ip[16], struct conn **first)
{
	struct conn_source *s;

	HASH_FIND(hh, e->table.by_ip, ip, sizeof(s->ip), s);
	*first = NULL;
	if (s && s->nhalf >= HALF_SOURCE_MAX)
		*first = TAILQ_FIRST(&s->half);
	else if (e->table.nhalf >= HALF_MAX)
		*first = TAILQ_FIRST(&e->table.half);
	return e->conns.n < STRANGERS_MAX && (!s || s->n < SOURCE_MAX);
}
