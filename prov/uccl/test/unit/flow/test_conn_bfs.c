/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Every way in which two endpoints can meet, searched breadth first: all orders of arrival, timers and sending, with up
 * to two packets lost, two doubled, two overtaken, one timer early, and one restart of one endpoint, which then has
 * another incarnation, other tokens and no memory. A timer strikes when nothing is under way, or, for its budget,
 * earlier. Time matters in one respect only, what was before what: it passes at the restart, and after it when a timer
 * strikes.
 *
 * In every state that can be reached: whoever waits has a timer; nobody has two live connections to one place; and if
 * from there on nothing goes wrong, both sides end open, to each other as they now are.
 *
 * Around struct uccl_conn stands here what its owner does: one connection per incarnation of the peer, and a proven new
 * incarnation ends the older connection.
 */
#include "flow/wire/conn.h"

#include "../tests.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/units.h"

#define NOW(s) (1000 * UCCL_NS_PER_S + (s)->clock)
#define CLOCK_MAX 2 /* in the search */
#define FLIGHT 10   /* packets under way to one side */
#define CONNS 2	    /* of endpoint A: to either incarnation of B. B needs one. */
#define HEALTHY 60  /* steps within which all must be well once nothing goes wrong */

/* Things that recur, by number: 0 is none. */
struct pool {
	size_t size;
	uint32_t n, cap;
	uint8_t *v;
	uint32_t *table;
	uint32_t slots;
};

static uint64_t mix(const void *data, size_t len)
{
	const uint8_t *b = data;
	uint64_t h = 0x9e3779b97f4a7c15;

	for (size_t i = 0; i < len; i++)
		h = (h ^ b[i]) * 0x100000001b3;
	return h ^ h >> 29;
}

static void pool_init(struct pool *p, size_t size, uint32_t slots)
{
	p->size = size;
	p->n = 1;
	p->cap = 1024;
	p->slots = slots;
	p->v = calloc(p->cap, size);
	p->table = calloc(slots, sizeof(*p->table));
	assert_true(p->v && p->table);
}

static void pool_fini(struct pool *p)
{
	free(p->v);
	free(p->table);
}

static void *pool_at(const struct pool *p, uint32_t id)
{
	return p->v + (size_t)id * p->size;
}

/* The number of a thing; *fresh tells whether it is new. */
static uint32_t pool_put(struct pool *p, const void *thing, bool *fresh)
{
	uint32_t i = (uint32_t)(mix(thing, p->size) % p->slots);

	for (; p->table[i]; i = (i + 1) % p->slots)
		if (!memcmp(pool_at(p, p->table[i]), thing, p->size)) {
			if (fresh)
				*fresh = false;
			return p->table[i];
		}
	assert_true(p->n < p->slots / 2);
	if (p->n == p->cap) {
		p->cap *= 2;
		p->v = realloc(p->v, p->cap * p->size);
		assert_non_null(p->v);
	}
	memcpy(pool_at(p, p->n), thing, p->size);
	p->table[i] = p->n;
	if (fresh)
		*fresh = true;
	return p->n++;
}

struct pkt {
	uint16_t len;
	uint8_t from; /* 0: A, 1: B */
	uint8_t data[UCCL_HDR_LEN + UCCL_INIT_MAX];
};

/* A state of the whole: numbers of connections and packets, and what may still go wrong. */
struct state {
	uint16_t conn[2][CONNS];
	uint16_t flight[2][FLIGHT]; /* to A, to B, in the order of sending */
	uint8_t nflight[2];
	uint8_t life; /* of B: 0 or 1 */
	uint8_t clock;
	uint8_t losses, doubles, overtakings, early, restarts;
};

static struct pool conns, pkts, states;
static uint8_t clock_max;
static bool keyless; /* A knows the place of B, and neither its key nor its incarnation */
static bool from[2]; /* who begins */

static struct uccl_addr address(int side, int life)
{
	struct uccl_addr a;

	memset(&a, 0, sizeof(a));
	a.nic.ip[15] = (uint8_t)(1 + side);
	a.nic.port = (uint16_t)(100 + side);
	a.incarnation = 0x100u * (unsigned int)(side + 1) + (unsigned int)life;
	memset(a.key, 0x30 + 2 * side + life, UCCL_KEY_LEN);
	return a;
}

static struct uccl_listener listener(const struct state *s, int side)
{
	struct uccl_listener l;
	int life = side ? s->life : 0;

	memset(&l, 0, sizeof(l));
	l.local = address(side, life);
	memset(l.secret, 0x50 + 2 * side + life, UCCL_KEY_LEN);
	l.keyless = keyless;
	return l;
}

/* Connections are equal if they behave alike: what only delays them is left out. */
static uint16_t conn_store(struct uccl_conn *c)
{
	uint32_t id;

	c->at = c->at == UCCL_NEVER ? UCCL_NEVER : 0;
	c->tries = c->state == UCCL_CONN_INIT ? c->tries % 6 : 0;
	id = pool_put(&conns, c, NULL);
	assert_true(id <= UINT16_MAX);
	return (uint16_t)id;
}

static struct uccl_conn conn_load(const struct state *s, int side, int i)
{
	struct uccl_conn c;

	memset(&c, 0, sizeof(c));
	if (s->conn[side][i])
		memcpy(&c, pool_at(&conns, s->conn[side][i]), sizeof(c));
	return c;
}

static void conn_make(const struct state *s, int side, const struct uccl_addr *to, struct uccl_conn *c)
{
	const struct uccl_conn_params mine = {.mtu = 1500, .window = 64, .paths = 1, .slots = 1, .csn = 5, .epoch = 1};
	/* Tokens and nonces are of their maker and its life, and whom it talks to. */
	uint64_t token = 0x1000u + 0x100u * (unsigned int)side + 0x10u * (side ? s->life : 0) + (to->incarnation & 1);

	memset(c, 0, sizeof(*c));
	uccl_conn_init(c, to, &mine, token, token + 0x10000);
}

static void flight_add(struct state *s, int to, const struct pkt *k)
{
	uint32_t id = pool_put(&pkts, k, NULL);

	assert_true(s->nflight[to] < FLIGHT && id <= UINT16_MAX);
	s->flight[to][s->nflight[to]++] = (uint16_t)id;
}

/* Everything that a connection wants to send now. */
static void conn_drain(struct state *s, int side, struct uccl_conn *c)
{
	struct uccl_listener l = listener(s, side);
	uint8_t buf[UCCL_INIT_MAX];
	struct uccl_tx tx;

	memset(&tx, 0, sizeof(tx));
	while (uccl_conn_tx(c, &l, &tx, buf, NOW(s))) {
		struct pkt k;

		memset(&k, 0, sizeof(k));
		k.from = (uint8_t)side;
		k.len = (uint16_t)(UCCL_HDR_LEN + tx.payload_len);
		memcpy(k.data, tx.hdr, UCCL_HDR_LEN);
		if (tx.payload_len)
			memcpy(k.data + UCCL_HDR_LEN, tx.payload, tx.payload_len);
		flight_add(s, !side, &k);
	}
}

static void conn_save(struct state *s, int side, int i, struct uccl_conn *c)
{
	conn_drain(s, side, c);
	s->conn[side][i] = conn_store(c);
}

static void conn_kill(struct state *s, int side, int i)
{
	struct uccl_conn c = conn_load(s, side, i);

	c.state = UCCL_CONN_DEAD;
	c.at = UCCL_NEVER;
	c.tx_due = c.ack_due = false;
	s->conn[side][i] = conn_store(&c);
}

static void begin(struct state *s, int side)
{
	struct uccl_addr to = address(!side, side ? 0 : s->life);
	struct uccl_conn c;

	if (!side && keyless) {
		to.incarnation = 0;
		memset(to.key, 0, sizeof(to.key));
	}
	conn_make(s, side, &to, &c);
	uccl_conn_start(&c, NOW(s));
	conn_save(s, side, 0, &c);
}

/* The incarnation that the owner knows a connection by: that of its address, or, if that has none, the one it opened
 * to. */
static uint64_t conn_key(int side, int i, const struct uccl_conn *c)
{
	return keyless && !side && !i && !c->token_remote ? 0 : c->remote.incarnation;
}

static int conn_find(const struct state *s, int side, uint64_t incarnation)
{
	for (int i = 0; i < CONNS; i++) {
		struct uccl_conn c = conn_load(s, side, i);

		if (s->conn[side][i] && conn_key(side, i, &c) == incarnation)
			return i;
	}
	return -1;
}

static bool rival(const struct state *s, int side, int i, const struct uccl_conn *c, const struct uccl_init *init)
{
	uint64_t key = conn_key(side, i, c);

	return s->conn[side][i] && c->state != UCCL_CONN_DEAD && key && key != init->from.incarnation;
}

static bool outdated(const struct state *s, int side, const struct uccl_init *init)
{
	for (int i = 0; i < CONNS; i++) {
		struct uccl_conn c = conn_load(s, side, i);

		if (rival(s, side, i, &c, init) && c.state == UCCL_CONN_OPEN &&
		    !uccl_conn_superseded(&c, init->asked_ns))
			return true;
	}
	return false;
}

static void supersede(struct state *s, int side, const struct uccl_init *init)
{
	for (int i = 0; i < CONNS; i++) {
		struct uccl_conn c = conn_load(s, side, i);

		if (rival(s, side, i, &c, init) && uccl_conn_superseded(&c, init->asked_ns))
			conn_kill(s, side, i);
	}
}

static void rx_init(struct state *s, int side, const struct uccl_init *init)
{
	int found = conn_find(s, side, init->from.incarnation);
	struct uccl_conn c;

	if ((found >= 0 && conn_load(s, side, found).state == UCCL_CONN_DEAD) || outdated(s, side, init))
		return;
	if (found < 0) {
		found = conn_find(s, side, 0);
		if (found >= 0 && conn_load(s, side, found).state == UCCL_CONN_DEAD)
			found = -1;
	}
	if (found >= 0) {
		c = conn_load(s, side, found);
	} else {
		for (found = 0; found < CONNS && s->conn[side][found]; found++)
			;
		assert_true(found < CONNS);
		conn_make(s, side, &init->from, &c);
	}
	if (uccl_conn_open(&c, init, false, NOW(s)) == UCCL_DROP_COUNT)
		supersede(s, side, init);
	conn_save(s, side, found, &c);
}

static void arrive(struct state *s, int side, uint16_t id)
{
	struct pkt k = *(struct pkt *)pool_at(&pkts, id);
	struct uccl_listener l = listener(s, side);
	struct uccl_nic_addr src = address(k.from, 0).nic, to;
	struct uccl_init init;
	struct uccl_hdr h;
	struct uccl_conn c;

	assert_int_equal(uccl_hdr_decode(&h, k.data, k.len), UCCL_DROP_COUNT);
	if (h.type == UCCL_PKT_HELLO) {
		struct pkt reply;

		memset(&reply, 0, sizeof(reply));
		reply.from = (uint8_t)side;
		reply.len = UCCL_HDR_LEN;
		if (uccl_listener_hello(&l, &h, &src, reply.data, &to, NOW(s)) == UCCL_DROP_COUNT)
			flight_add(s, !side, &reply);
		return;
	}
	if (h.type == UCCL_PKT_INIT) {
		if (uccl_listener_init(&l, &h, k.data + UCCL_HDR_LEN, &src, &init, NOW(s)) == UCCL_DROP_COUNT)
			rx_init(s, side, &init);
		return;
	}
	for (int i = 0; i < CONNS; i++) {
		if (!s->conn[side][i])
			continue;
		c = conn_load(s, side, i);
		if (c.token_local != h.token || c.state == UCCL_CONN_DEAD)
			continue;
		if (h.type == UCCL_PKT_COOKIE)
			uccl_conn_cookie(&c, &h, NOW(s));
		else if (c.state != UCCL_CONN_IDLE && c.state != UCCL_CONN_HELLO &&
			 uccl_conn_check_ack(&c, &l, &h, k.data + UCCL_HDR_LEN, &src, &init) == UCCL_DROP_COUNT &&
			 !outdated(s, side, &init) && uccl_conn_open(&c, &init, true, NOW(s)) == UCCL_DROP_COUNT)
			supersede(s, side, &init);
		conn_save(s, side, i, &c);
		return;
	}
}

static uint16_t flight_take(struct state *s, int to, int i)
{
	uint16_t id = s->flight[to][i];

	s->nflight[to]--;
	memmove(&s->flight[to][i], &s->flight[to][i + 1], (size_t)(s->nflight[to] - i) * sizeof(id));
	s->flight[to][s->nflight[to]] = 0;
	return id;
}

static bool strike(struct state *s, int side, int i)
{
	struct uccl_conn c = conn_load(s, side, i);

	if (!s->conn[side][i] || c.at == UCCL_NEVER)
		return false;
	if (s->life && s->clock < clock_max)
		s->clock++;
	uccl_conn_expire(&c, NOW(s));
	conn_save(s, side, i, &c);
	return true;
}

static void restart(struct state *s)
{
	s->life = 1;
	s->clock++;
	s->restarts = 0;
	for (int i = 0; i < CONNS; i++)
		s->conn[1][i] = 0;
	begin(s, 1);
}

/* Is everybody who began, or was asked, open to the other one as it now is? */
static bool well(const struct state *s)
{
	struct uccl_conn a, b;

	for (int i = 0; i < CONNS; i++) {
		if (!s->conn[0][i] || !s->conn[1][0])
			continue;
		a = conn_load(s, 0, i);
		b = conn_load(s, 1, 0);
		if (a.state == UCCL_CONN_OPEN && b.state == UCCL_CONN_OPEN && a.token_remote == b.token_local &&
		    b.token_remote == a.token_local && a.remote.incarnation == address(1, s->life).incarnation)
			return true;
	}
	return false;
}

/* From here on nothing goes wrong. */
static bool heal(struct state s)
{
	for (int n = 0; n < HEALTHY; n++) {
		bool struck = false;

		if (s.nflight[0] || s.nflight[1]) {
			int to = s.nflight[0] ? 0 : 1;

			arrive(&s, to, flight_take(&s, to, 0));
			continue;
		}
		if (well(&s))
			return true;
		for (int side = 0; side < 2; side++)
			for (int i = 0; i < CONNS; i++)
				struck |= strike(&s, side, i);
		if (!struck)
			return false;
	}
	return false;
}

static bool heals(const struct state *s)
{
	bool well_in_time;

	clock_max = UINT8_MAX;
	well_in_time = heal(*s);
	clock_max = CLOCK_MAX;
	return well_in_time;
}

static void look(const struct state *s)
{
	uint64_t live = 0;

	for (int side = 0; side < 2; side++)
		for (int i = 0; i < CONNS; i++) {
			struct uccl_conn c = conn_load(s, side, i);

			if (!s->conn[side][i])
				continue;
			/* Who waits has a timer; who does not wait has none. */
			if (c.state == UCCL_CONN_HELLO || c.state == UCCL_CONN_INIT)
				assert_true(c.at != UCCL_NEVER);
			else
				assert_true(c.at == UCCL_NEVER);
			assert_false(c.tx_due || c.ack_due);
			if (c.state == UCCL_CONN_OPEN)
				assert_true(c.token_remote != 0 && c.remote.incarnation != 0);
			if (c.state == UCCL_CONN_OPEN && !side) {
				/* Never two incarnations of one peer alive at once. */
				assert_true(!live || live == c.remote.incarnation);
				live = c.remote.incarnation;
			}
			if (c.state == UCCL_CONN_OPEN && side && c.token_remote)
				assert_int_equal(c.remote.incarnation, address(0, 0).incarnation);
		}
}

static void visit(const struct state *s)
{
	bool fresh;

	pool_put(&states, s, &fresh);
	if (!fresh)
		return;
	look(s);
	assert_true(heals(s));
}

/* All that can happen next. */
static void expand(const struct state *at)
{
	const struct state here = *at; /* the pool moves */
	bool quiet = !here.nflight[0] && !here.nflight[1];
	struct state s;

	for (int to = 0; to < 2; to++)
		for (int i = 0; i < here.nflight[to]; i++) {
			if (i && !here.overtakings)
				break;
			s = here;
			s.overtakings -= i > 0;
			arrive(&s, to, flight_take(&s, to, i));
			visit(&s);
			if (i)
				continue;
			if (here.losses) {
				s = here;
				s.losses--;
				flight_take(&s, to, i);
				visit(&s);
			}
			if (here.doubles) {
				s = here;
				s.doubles--;
				arrive(&s, to, s.flight[to][i]);
				visit(&s);
			}
		}
	for (int side = 0; side < 2 && (quiet || here.early); side++)
		for (int i = 0; i < CONNS; i++) {
			s = here;
			s.early -= !quiet;
			if (strike(&s, side, i))
				visit(&s);
		}
	if (here.restarts) {
		s = here;
		restart(&s);
		visit(&s);
	}
}

static uint32_t search(bool a, bool b, bool without_key, int restarts)
{
	struct state s;
	uint32_t n;

	memset(&s, 0, sizeof(s));
	from[0] = a;
	from[1] = b;
	keyless = without_key;
	clock_max = CLOCK_MAX;
	pool_init(&conns, sizeof(struct uccl_conn), 1 << 17);
	pool_init(&pkts, sizeof(struct pkt), 1 << 17);
	pool_init(&states, sizeof(struct state), 1 << 22);
	s.losses = s.doubles = s.overtakings = 2;
	/* With it the searches with a restart have up to a million states and find no more. */
	s.early = !restarts || (a && !b && !without_key);
	s.restarts = (uint8_t)restarts;
	for (int side = 0; side < 2; side++)
		if (from[side])
			begin(&s, side);
	visit(&s);
	/* In the order in which they were found. */
	for (n = 1; n < states.n; n++)
		expand(pool_at(&states, n));
	n = states.n - 1;
	print_message("%u states, %u connections, %u packets\n", n, conns.n - 1, pkts.n - 1);
	pool_fini(&conns);
	pool_fini(&pkts);
	pool_fini(&states);
	return n;
}

TEST(all__one_begins)
{
	assert_true(search(true, false, false, 0) > 100);
}

TEST(all__both_begin)
{
	assert_true(search(true, true, false, 0) > 1000);
}

TEST(all__one_begins_peer_restarts)
{
	assert_true(search(true, false, false, 1) > 1000);
}

TEST(all__peer_begins_and_restarts)
{
	assert_true(search(false, true, false, 1) > 1000);
}

TEST(all__both_begin_one_restarts)
{
	assert_true(search(true, true, false, 1) > 1000);
}

TEST(all__without_key)
{
	assert_true(search(true, true, true, 0) > 1000);
}

TEST(all__without_key_peer_restarts)
{
	assert_true(search(true, false, true, 1) > 1000);
}

TESTS_MAIN
