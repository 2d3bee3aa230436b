/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Matching of messages and receives by libfabric's rules: receives in the order they were posted, messages in the
 * order they came; tagged and untagged apart; ignore masks; directed receives.
 *
 * A few are looked through one by one. Where more wait, they are found by hash tables, one for each combination of
 * ignored bits and directed or not that is in use: programs have a handful of these, whatever they post and send.
 * Tables of posted receives (classes) hold each receive once, and all classes are asked. Tables of messages (views) are
 * made when a receive needs one, and hold each message; a view is a cache, and without memory for it the list is read.
 */
#ifndef UCCL_MSG_RECV_MATCH_H
#define UCCL_MSG_RECV_MATCH_H

#include "base/multimap.h"
#include "base/pool.h"
#include "msg/recv/msg_rx.h"

/* A list of up to this many is searched; a longer one has tables. */
#define UCCL_MATCH_FEW 16
/* Most tables of posted receives of one kind; those of further combinations are in a list. */
#define UCCL_MATCH_CLASSES 64
/* Most tables of messages of one kind. */
#define UCCL_MATCH_VIEWS 6
/* A table of messages that served none of this many lookups makes room for another one. */
#define UCCL_MATCH_REST 64

/* A table of receives with the same ignored bits, or of messages for receives with these ignored bits. */
struct uccl_match_table {
	uint64_t ignore;
	bool directed;			/* by peer, too */
	bool live;			/* a view: holds all that are listed */
	uint64_t used;			/* a view: the lookup that asked it last */
	struct uccl_multimap map;
};

/* Posted receives of one kind. match.c writes it. */
struct uccl_match_posts {
	uint32_t n;
	bool indexed;			/* they are in classes, */
	bool contexts;			/* and in by_context */
	uint8_t nclasses;
	struct uccl_match_table *classes; /* room for UCCL_MATCH_CLASSES; NULL: never needed */
	struct uccl_op_list unclassified; /* in no class */
	struct uccl_multimap by_context;
};

/* Unexpected messages of one kind, or claimed ones, whose tag is the context. match.c writes it. */
struct uccl_match_arrivals {
	uint32_t n;
	uint8_t nlive;
	struct uccl_match_table view[UCCL_MATCH_VIEWS];
};

struct uccl_match {
	struct uccl_op_list posted[UCCL_KINDS];
	struct uccl_msg_rx_list unexpected[UCCL_KINDS];
	struct uccl_msg_rx_list claimed;
	/*
	 * Posted receives for which messages may wait: of multi-receive buffers, which had no op or room for one, and
	 * of others, posted behind such a one that is posted no more.
	 */
	struct uccl_op_list starved, passed;
	struct uccl_match_posts posts[UCCL_KINDS];
	struct uccl_match_arrivals arrivals[UCCL_KINDS + 1]; /* the last one: claimed */
	struct uccl_pool entries;	/* of views */
	const uint8_t *key;		/* UCCL_KEY_LEN random bytes, read when the first table is made; NULL: none */
	uint64_t secret[2];
	bool seeded;
	uint64_t nposts, lookups;
	uint64_t steps;			/* receives, messages and tables that were looked at, ever */
};

/* Something was looked at while a list was read. */
static inline void uccl_match_step(struct uccl_match *m)
{
	m->steps++;
}

void uccl_match_init(struct uccl_match *m);
/* Frees tables; what is in them is forgotten. */
void uccl_match_fini(struct uccl_match *m);
/* Bits of the tag that do not count: an untagged receive takes whatever the tag is. */
static inline uint64_t uccl_match_ignored(const struct uccl_op *recv, enum uccl_match_kind kind)
{
	return kind == UCCL_KIND_UNTAGGED ? UINT64_MAX : recv->recv.ignore;
}

/* libfabric: the tags agree in every bit that the receive does not ignore. */
static inline bool uccl_match_takes(const struct uccl_op *recv, enum uccl_match_kind kind,
				    const struct uccl_peer *peer, uint64_t tag)
{
	if ((recv->flags & UCCL_OPF_DIRECTED) && recv->peer != peer)
		return false;
	return !((recv->tag ^ tag) & ~uccl_match_ignored(recv, kind));
}

/* The rest of uccl_match_posted: it is not the first one, or there are many. */
struct uccl_op *uccl_match_posted_search(struct uccl_match *m, enum uccl_match_kind kind, const struct uccl_peer *peer,
				  uint64_t tag);
/* First posted receive that takes this message; it stays posted. NULL: none. */
static inline struct uccl_op *uccl_match_posted(struct uccl_match *m, enum uccl_match_kind kind,
						const struct uccl_peer *peer, uint64_t tag)
{
	struct uccl_op *first = TAILQ_FIRST(&m->posted[kind]);

	if (!first || !uccl_match_takes(first, kind, peer, tag))
		return first ? uccl_match_posted_search(m, kind, peer, tag) : NULL;
	m->steps++;
	return first;
}
/* First unexpected message that this receive takes; it stays listed. NULL: none. */
struct uccl_msg_rx *uccl_match_listed(struct uccl_match *m, const struct uccl_op *recv);
static inline struct uccl_msg_rx *uccl_match_unexpected(struct uccl_match *m, const struct uccl_op *recv)
{
	return TAILQ_EMPTY(&m->unexpected[uccl_op_kind(recv)]) ? NULL : uccl_match_listed(m, recv);
}
/* The same, of those that no receive takes that was posted before this one, which may be posted or not. */
struct uccl_msg_rx *uccl_match_left(struct uccl_match *m, const struct uccl_op *recv);
/* Posted receives that name a peer are found from that peer, too, in their order. */
void uccl_match_post(struct uccl_match *m, struct uccl_op *recv);
void uccl_match_unpost(struct uccl_match *m, struct uccl_op *recv);
/* The first posted receive of this kind with this context; it stays posted. NULL: none. */
struct uccl_op *uccl_match_context(struct uccl_match *m, enum uccl_match_kind kind, const void *context);
/* This posted multi-receive buffer takes messages that wait, when there is room. */
void uccl_match_starve(struct uccl_match *m, struct uccl_op *recv);
/* The receive waits no more: nothing is there for it. */
void uccl_match_unstarve(struct uccl_match *m, struct uccl_op *recv);
/* Posted receives that name `p` name `first` from now on. */
void uccl_match_rename(struct uccl_match *m, struct uccl_peer *p, struct uccl_peer *first);
void uccl_match_list(struct uccl_match *m, struct uccl_msg_rx *rx);
void uccl_match_unlist(struct uccl_match *m, struct uccl_msg_rx *rx);
/* Keep a listed message for `context`; take it again. */
void uccl_match_claim(struct uccl_match *m, struct uccl_msg_rx *rx, void *context);
struct uccl_msg_rx *uccl_match_claimed(struct uccl_match *m, const void *context);
/* This one is claimed no more. */
void uccl_match_unclaim(struct uccl_match *m, struct uccl_msg_rx *rx);

#endif
