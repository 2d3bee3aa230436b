/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "msg/recv/match.h"

#include <stdlib.h>
#include <string.h>

#include "base/mac.h"
#include "base/units.h"
#include "msg/msg_ep.h"
#include "msg/record.h"

/* A message in a view. */
struct uccl_match_entry {
	struct uccl_multinode node;
	struct uccl_msg_rx *rx;
	struct uccl_match_table *view;
	struct uccl_match_entry *more;	/* of the same message, in other views */
};

/* All messages that there can be, in each view. */
#define ENTRIES_MAX (1u << 25)

/* uccl_op.waits */
enum { WAITS_NOT, WAITS_STARVED, WAITS_PASSED };

void uccl_match_init(struct uccl_match *m)
{
	memset(m, 0, sizeof(*m));
	for (int t = 0; t < UCCL_KINDS; t++) {
		TAILQ_INIT(&m->posted[t]);
		TAILQ_INIT(&m->unexpected[t]);
		TAILQ_INIT(&m->posts[t].unclassified);
	}
	TAILQ_INIT(&m->claimed);
	TAILQ_INIT(&m->starved);
	TAILQ_INIT(&m->passed);
	uccl_pool_init(&m->entries, sizeof(struct uccl_match_entry), ENTRIES_MAX);
}

void uccl_match_fini(struct uccl_match *m)
{
	for (int t = 0; t < UCCL_KINDS; t++) {
		struct uccl_match_posts *ps = &m->posts[t];

		for (uint8_t i = 0; i < ps->nclasses; i++)
			uccl_multimap_fini(&ps->classes[i].map);
		uccl_multimap_fini(&ps->by_context);
		free(ps->classes);
		ps->classes = NULL;
		ps->nclasses = 0;
	}
	for (int t = 0; t <= UCCL_KINDS; t++)
		for (int i = 0; i < UCCL_MATCH_VIEWS; i++)
			uccl_multimap_fini(&m->arrivals[t].view[i].map);
	uccl_pool_fini(&m->entries);
}

/* Tags are chosen by peers, who must not be able to choose those that share a bucket. */
static const uint64_t *secret(struct uccl_match *m)
{
	uint8_t mac[UCCL_MAC_LEN];

	if (!m->seeded && m->key) {
		uccl_mac(mac, "match", 5, m->key);
		memcpy(m->secret, mac, sizeof(m->secret));
	}
	m->seeded = true;
	return m->secret;
}

static uint64_t source(const struct uccl_peer *peer, bool directed)
{
	return directed ? (uintptr_t)peer : 0;
}

static bool table_is(const struct uccl_match_table *t, uint64_t ignore, bool directed)
{
	return t->ignore == ignore && t->directed == directed;
}

/* The receive of this class that a message, or another receive, would meet first. */
static struct uccl_op *class_find(const struct uccl_match_table *c, const struct uccl_peer *peer, uint64_t tag)
{
	struct uccl_multinode *n = uccl_multimap_find(&c->map, tag & ~c->ignore, source(peer, c->directed));

	return n ? uccl_container_of(n, struct uccl_op, recv.match.class_node) : NULL;
}

/* The class for such receives. NULL: there are too many. */
static struct uccl_match_table *class_for(struct uccl_match *m, struct uccl_match_posts *ps, uint64_t ignore,
					  bool directed)
{
	struct uccl_match_table *c, *empty = NULL;

	for (uint8_t i = 0; i < ps->nclasses; i++) {
		c = &ps->classes[i];
		if (table_is(c, ignore, directed))
			return c;
		if (!c->map.nodes)
			empty = c;
	}
	if (!empty) {
		if (ps->nclasses == UCCL_MATCH_CLASSES)
			return NULL;
		empty = &ps->classes[ps->nclasses++];
		uccl_multimap_init(&empty->map, secret(m));
	}
	empty->ignore = ignore;
	empty->directed = directed;
	return empty;
}

static void posts_add(struct uccl_match *m, struct uccl_match_posts *ps, struct uccl_op *recv,
		      enum uccl_match_kind kind)
{
	bool directed = recv->flags & UCCL_OPF_DIRECTED;
	uint64_t ignore = uccl_match_ignored(recv, kind);

	recv->recv.match.in_class = class_for(m, ps, ignore, directed);
	if (recv->recv.match.in_class)
		uccl_multimap_add(&recv->recv.match.in_class->map, &recv->recv.match.class_node, recv->tag & ~ignore,
				  source(recv->peer, directed));
	else
		TAILQ_INSERT_TAIL(&ps->unclassified, recv, recv.match.unclassified_link);
}

static void posts_remove(struct uccl_match_posts *ps, struct uccl_op *recv)
{
	if (recv->recv.match.in_class)
		uccl_multimap_remove(&recv->recv.match.in_class->map, &recv->recv.match.class_node);
	else
		TAILQ_REMOVE(&ps->unclassified, recv, recv.match.unclassified_link);
	recv->recv.match.in_class = NULL;
}

static void posts_index(struct uccl_match *m, enum uccl_match_kind kind)
{
	struct uccl_match_posts *ps = &m->posts[kind];
	struct uccl_op *op;

	if (!ps->classes)
		ps->classes = calloc(UCCL_MATCH_CLASSES, sizeof(*ps->classes));
	if (!ps->classes)
		return;
	ps->indexed = true;
	TAILQ_FOREACH(op, &m->posted[kind], link)
		posts_add(m, ps, op, kind);
}

struct uccl_op *uccl_match_posted_search(struct uccl_match *m, enum uccl_match_kind kind, const struct uccl_peer *peer,
				  uint64_t tag)
{
	const struct uccl_match_posts *ps = &m->posts[kind];
	struct uccl_op *op, *first = NULL;

	if (!ps->indexed) {
		TAILQ_FOREACH(op, &m->posted[kind], link) {
			m->steps++;
			if (uccl_match_takes(op, kind, peer, tag))
				return op;
		}
		return NULL;
	}
	for (uint8_t i = 0; i < ps->nclasses; i++) {
		m->steps++;
		op = class_find(&ps->classes[i], peer, tag);
		if (op && (!first || op->recv.match.posted < first->recv.match.posted))
			first = op;
	}
	TAILQ_FOREACH(op, &ps->unclassified, recv.match.unclassified_link) {
		m->steps++;
		if (first && op->recv.match.posted > first->recv.match.posted)
			break;
		if (uccl_match_takes(op, kind, peer, tag))
			return op;
	}
	return first;
}

/* Many receives are posted, or were: it enters the tables. */
static __attribute__((noinline)) void post_many(struct uccl_match *m, struct uccl_match_posts *ps, struct uccl_op *recv,
						enum uccl_match_kind kind)
{
	if (ps->contexts)
		uccl_multimap_add(&ps->by_context, &recv->recv.match.context_node, (uintptr_t)recv->context, 0);
	if (ps->indexed)
		posts_add(m, ps, recv, kind);
	else if (ps->n > UCCL_MATCH_FEW)
		posts_index(m, kind);
}

void uccl_match_post(struct uccl_match *m, struct uccl_op *recv)
{
	enum uccl_match_kind kind = uccl_op_kind(recv);
	struct uccl_match_posts *ps = &m->posts[kind];

	TAILQ_INSERT_TAIL(&m->posted[kind], recv, link);
	recv->recv.match.posted = ++m->nposts;
	if (recv->flags & UCCL_OPF_DIRECTED)
		TAILQ_INSERT_TAIL(&recv->peer->directed[kind], recv, recv.match.directed_link);
	ps->n++;
	if (ps->n > UCCL_MATCH_FEW || ps->indexed || ps->contexts)
		post_many(m, ps, recv, kind);
}

void uccl_match_unstarve(struct uccl_match *m, struct uccl_op *recv)
{
	if (recv->recv.match.waits)
		TAILQ_REMOVE(recv->recv.match.waits == WAITS_STARVED ? &m->starved : &m->passed, recv,
			     recv.match.wait_link);
	recv->recv.match.waits = WAITS_NOT;
}

/* What waited for this buffer may be for those behind it. */
static void starved_over(struct uccl_match *m, struct uccl_op *recv)
{
	for (struct uccl_op *op = TAILQ_NEXT(recv, link); op; op = TAILQ_NEXT(op, link)) {
		m->steps++;
		if (op->recv.match.waits)
			continue;
		if (op->flags & UCCL_OPF_MULTI) {
			uccl_match_starve(m, op);
			continue;
		}
		op->recv.match.waits = WAITS_PASSED;
		TAILQ_INSERT_TAIL(&m->passed, op, recv.match.wait_link);
	}
}

void uccl_match_unpost(struct uccl_match *m, struct uccl_op *recv)
{
	enum uccl_match_kind kind = uccl_op_kind(recv);
	struct uccl_match_posts *ps = &m->posts[kind];

	if (recv->recv.match.waits == WAITS_STARVED)
		starved_over(m, recv);
	uccl_match_unstarve(m, recv);
	TAILQ_REMOVE(&m->posted[kind], recv, link);
	recv->recv.match.posted = 0;
	if (recv->flags & UCCL_OPF_DIRECTED)
		TAILQ_REMOVE(&recv->peer->directed[kind], recv, recv.match.directed_link);
	if (ps->contexts)
		uccl_multimap_remove(&ps->by_context, &recv->recv.match.context_node);
	if (ps->indexed)
		posts_remove(ps, recv);
	if (!--ps->n)
		ps->indexed = ps->contexts = false;
}

struct uccl_op *uccl_match_context(struct uccl_match *m, enum uccl_match_kind kind, const void *context)
{
	struct uccl_match_posts *ps = &m->posts[kind];
	struct uccl_multinode *n;
	struct uccl_op *op;

	if (ps->n > UCCL_MATCH_FEW && !ps->contexts) {
		if (!ps->by_context.bits)
			uccl_multimap_init(&ps->by_context, secret(m));
		ps->contexts = true;
		TAILQ_FOREACH(op, &m->posted[kind], link) {
			m->steps++;
			uccl_multimap_add(&ps->by_context, &op->recv.match.context_node, (uintptr_t)op->context, 0);
		}
	}
	if (ps->contexts) {
		m->steps++;
		n = uccl_multimap_find(&ps->by_context, (uintptr_t)context, 0);
		return n ? uccl_container_of(n, struct uccl_op, recv.match.context_node) : NULL;
	}
	TAILQ_FOREACH(op, &m->posted[kind], link) {
		m->steps++;
		if (op->context == context)
			return op;
	}
	return NULL;
}

void uccl_match_starve(struct uccl_match *m, struct uccl_op *recv)
{
	if (recv->recv.match.waits)
		return;
	recv->recv.match.waits = WAITS_STARVED;
	TAILQ_INSERT_TAIL(&m->starved, recv, recv.match.wait_link);
}

void uccl_match_rename(struct uccl_match *m, struct uccl_peer *p, struct uccl_peer *first)
{
	for (int t = 0; t < UCCL_KINDS; t++) {
		struct uccl_match_posts *ps = &m->posts[t];
		struct uccl_op_list old = TAILQ_HEAD_INITIALIZER(old), more = TAILQ_HEAD_INITIALIZER(more);
		struct uccl_op *recv;

		if (TAILQ_EMPTY(&p->directed[t]))
			continue;
		TAILQ_CONCAT(&more, &p->directed[t], recv.match.directed_link);
		TAILQ_CONCAT(&old, &first->directed[t], recv.match.directed_link);
		if (ps->indexed) {
			TAILQ_FOREACH(recv, &more, recv.match.directed_link)
				posts_remove(ps, recv);
			TAILQ_FOREACH(recv, &old, recv.match.directed_link)
				posts_remove(ps, recv);
		}
		/* Those of both, in the order in which all were posted. */
		while (!TAILQ_EMPTY(&old) || !TAILQ_EMPTY(&more)) {
			struct uccl_op *a = TAILQ_FIRST(&old), *b = TAILQ_FIRST(&more);
			struct uccl_op_list *from =
				!b || (a && a->recv.match.posted < b->recv.match.posted) ? &old : &more;

			recv = TAILQ_FIRST(from);
			TAILQ_REMOVE(from, recv, recv.match.directed_link);
			recv->peer = first;
			TAILQ_INSERT_TAIL(&first->directed[t], recv, recv.match.directed_link);
			if (ps->indexed)
				posts_add(m, ps, recv, t);
		}
	}
}

static struct uccl_match_arrivals *arrivals_of(struct uccl_match *m, const struct uccl_msg_rx_list *list)
{
	return &m->arrivals[list == &m->claimed ? UCCL_KINDS : list - m->unexpected];
}

/* False: no memory. */
static bool snapshot_add(struct uccl_match *m, struct uccl_match_table *v, struct uccl_msg_rx *rx, bool claimed)
{
	struct uccl_match_entry *e = uccl_pool_get(&m->entries);

	m->steps++;
	if (!e)
		return false;
	e->rx = rx;
	e->view = v;
	e->more = rx->match.entries;
	rx->match.entries = e;
	uccl_multimap_add(&v->map, &e->node, claimed ? (uintptr_t)rx->match.claim : rx->env.tag & ~v->ignore,
			  source(rx->peer, v->directed));
	return true;
}

static void snapshot_drop(struct uccl_match *m, struct uccl_msg_rx_list *list, struct uccl_match_table *v)
{
	struct uccl_msg_rx *rx;

	TAILQ_FOREACH(rx, list, link) {
		struct uccl_match_entry **at = &rx->match.entries, *e;

		m->steps++;
		while (*at && (*at)->view != v)
			at = &(*at)->more;
		e = *at;
		if (!e)
			continue;
		*at = e->more;
		uccl_multimap_remove(&v->map, &e->node);
		uccl_pool_put(&m->entries, e);
	}
	v->live = false;
	arrivals_of(m, list)->nlive--;
}

/* A place for another view. NULL: all of them are in use. */
static struct uccl_match_table *snapshot_place(struct uccl_match *m, struct uccl_msg_rx_list *list)
{
	struct uccl_match_arrivals *as = arrivals_of(m, list);
	struct uccl_match_table *oldest = NULL;

	for (int i = 0; i < UCCL_MATCH_VIEWS; i++) {
		struct uccl_match_table *v = &as->view[i];

		if (!v->live)
			return v;
		if (!oldest || v->used < oldest->used)
			oldest = v;
	}
	/* To make a view costs more than to read the list. */
	if (m->lookups - oldest->used < UCCL_MATCH_REST)
		return NULL;
	snapshot_drop(m, list, oldest);
	return oldest;
}

/* The view of a list by which such a receive finds its messages. NULL: the list has to be read. */
static struct uccl_match_table *snapshot_for(struct uccl_match *m, struct uccl_msg_rx_list *list, uint64_t ignore,
					     bool directed)
{
	struct uccl_match_arrivals *as = arrivals_of(m, list);
	struct uccl_match_table *v;
	struct uccl_msg_rx *rx;

	/* It takes the first one. */
	if (as->n <= UCCL_MATCH_FEW || (ignore == UINT64_MAX && !directed))
		return NULL;
	m->lookups++;
	for (int i = 0; i < UCCL_MATCH_VIEWS; i++) {
		v = &as->view[i];
		if (v->live && table_is(v, ignore, directed)) {
			v->used = m->lookups;
			return v;
		}
	}
	v = snapshot_place(m, list);
	if (!v)
		return NULL;
	if (!v->map.bits)
		uccl_multimap_init(&v->map, secret(m));
	v->ignore = ignore;
	v->directed = directed;
	v->live = true;
	v->used = m->lookups;
	as->nlive++;
	TAILQ_FOREACH(rx, list, link)
		if (!snapshot_add(m, v, rx, list == &m->claimed)) {
			snapshot_drop(m, list, v);
			return NULL;
		}
	return v;
}

static void arrive(struct uccl_match *m, struct uccl_msg_rx_list *list, struct uccl_msg_rx *rx)
{
	struct uccl_match_arrivals *as = arrivals_of(m, list);

	TAILQ_INSERT_TAIL(list, rx, link);
	as->n++;
	for (int i = 0; as->nlive && i < UCCL_MATCH_VIEWS; i++) {
		struct uccl_match_table *v = &as->view[i];

		if (v->live && !snapshot_add(m, v, rx, list == &m->claimed))
			snapshot_drop(m, list, v);
	}
}

static void leave(struct uccl_match *m, struct uccl_msg_rx_list *list, struct uccl_msg_rx *rx)
{
	struct uccl_match_arrivals *as = arrivals_of(m, list);
	struct uccl_match_entry *e;

	TAILQ_REMOVE(list, rx, link);
	while ((e = rx->match.entries)) {
		rx->match.entries = e->more;
		uccl_multimap_remove(&e->view->map, &e->node);
		uccl_pool_put(&m->entries, e);
	}
	if (--as->n || !as->nlive)
		return;
	as->nlive = 0;
	for (int i = 0; i < UCCL_MATCH_VIEWS; i++)
		as->view[i].live = false;
}

/* Messages that a receive takes, one after the other, in their order. */
struct search {
	struct uccl_msg_rx *rx;			/* NULL: no further one */
	const struct uccl_multinode *node;	/* it, in a view; NULL: the list is read */
};

static struct uccl_msg_rx *entry_rx(const struct uccl_multinode *n)
{
	return n ? uccl_container_of(n, struct uccl_match_entry, node)->rx : NULL;
}

/* From this message of the list on. */
static void search_list(struct uccl_match *m, struct search *s, const struct uccl_op *recv, struct uccl_msg_rx *from)
{
	enum uccl_match_kind kind = uccl_op_kind(recv);

	for (s->rx = from; s->rx; s->rx = TAILQ_NEXT(s->rx, link)) {
		m->steps++;
		if (uccl_match_takes(recv, kind, s->rx->peer, s->rx->env.tag))
			return;
	}
}

static void search_first(struct uccl_match *m, struct search *s, const struct uccl_op *recv)
{
	enum uccl_match_kind kind = uccl_op_kind(recv);
	bool directed = recv->flags & UCCL_OPF_DIRECTED;
	uint64_t ignore = uccl_match_ignored(recv, kind);
	struct uccl_match_table *v = snapshot_for(m, &m->unexpected[kind], ignore, directed);

	s->node = NULL;
	if (!v) {
		search_list(m, s, recv, TAILQ_FIRST(&m->unexpected[kind]));
		return;
	}
	m->steps++;
	s->node = uccl_multimap_find(&v->map, recv->tag & ~ignore, source(recv->peer, directed));
	s->rx = entry_rx(s->node);
}

static void search_next(struct uccl_match *m, struct search *s, const struct uccl_op *recv)
{
	if (!s->node) {
		search_list(m, s, recv, TAILQ_NEXT(s->rx, link));
		return;
	}
	m->steps++;
	s->node = s->node->next;
	s->rx = entry_rx(s->node);
}

struct uccl_msg_rx *uccl_match_listed(struct uccl_match *m, const struct uccl_op *recv)
{
	struct search s;

	search_first(m, &s, recv);
	return s.rx;
}

/* Does `op`, or a receive of such a class, take everything that `recv` takes? But for tags, which must agree. */
static bool wider(uint64_t ignore, bool directed, const struct uccl_op *recv, enum uccl_match_kind kind)
{
	return !(uccl_match_ignored(recv, kind) & ~ignore) && (!directed || recv->flags & UCCL_OPF_DIRECTED);
}

/* Does one receive that was posted before take everything that `recv` takes? */
static bool covered(struct uccl_match *m, const struct uccl_op *recv, uint64_t before)
{
	enum uccl_match_kind kind = uccl_op_kind(recv);
	const struct uccl_match_posts *ps = &m->posts[kind];
	const struct uccl_op_list *read = ps->indexed ? &ps->unclassified : &m->posted[kind];
	const struct uccl_op *op;

	for (uint8_t i = 0; ps->indexed && i < ps->nclasses; i++) {
		const struct uccl_match_table *c = &ps->classes[i];

		m->steps++;
		op = wider(c->ignore, c->directed, recv, kind) ? class_find(c, recv->peer, recv->tag) : NULL;
		if (op && op->recv.match.posted < before)
			return true;
	}
	for (op = TAILQ_FIRST(read); op && op->recv.match.posted < before;
	     op = ps->indexed ? TAILQ_NEXT(op, recv.match.unclassified_link) : TAILQ_NEXT(op, link)) {
		m->steps++;
		if (wider(uccl_match_ignored(op, kind), op->flags & UCCL_OPF_DIRECTED, recv, kind) &&
		    uccl_match_takes(op, kind, recv->peer, recv->tag))
			return true;
	}
	return false;
}

struct uccl_msg_rx *uccl_match_left(struct uccl_match *m, const struct uccl_op *recv)
{
	uint64_t before = recv->recv.match.posted ? recv->recv.match.posted : UINT64_MAX;
	struct search s;

	if (covered(m, recv, before))
		return NULL;
	for (search_first(m, &s, recv); s.rx; search_next(m, &s, recv)) {
		const struct uccl_op *op = uccl_match_posted(m, uccl_op_kind(recv), s.rx->peer, s.rx->env.tag);

		if (!op || op->recv.match.posted >= before)
			break;
	}
	return s.rx;
}

void uccl_match_list(struct uccl_match *m, struct uccl_msg_rx *rx)
{
	arrive(m, &m->unexpected[uccl_env_kind(rx->env.flags)], rx);
	rx->match.listed = true;
}

void uccl_match_unlist(struct uccl_match *m, struct uccl_msg_rx *rx)
{
	leave(m, &m->unexpected[uccl_env_kind(rx->env.flags)], rx);
	rx->match.listed = false;
}

void uccl_match_claim(struct uccl_match *m, struct uccl_msg_rx *rx, void *context)
{
	uccl_match_unlist(m, rx);
	rx->match.claim = context;
	arrive(m, &m->claimed, rx);
}

void uccl_match_unclaim(struct uccl_match *m, struct uccl_msg_rx *rx)
{
	leave(m, &m->claimed, rx);
	rx->match.claim = NULL;
}

struct uccl_msg_rx *uccl_match_claimed(struct uccl_match *m, const void *context)
{
	struct uccl_match_table *v = snapshot_for(m, &m->claimed, 0, false);
	struct uccl_msg_rx *rx;

	if (v) {
		m->steps++;
		rx = entry_rx(uccl_multimap_find(&v->map, (uintptr_t)context, 0));
	} else {
		TAILQ_FOREACH(rx, &m->claimed, link) {
			m->steps++;
			if (rx->match.claim == context)
				break;
		}
	}
	if (rx)
		uccl_match_unclaim(m, rx);
	return rx;
}
