/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "msg/match.h"

#include "msg/mep.h"
#include "msg/record.h"

void uccl_match_init(struct uccl_match *m)
{
	for (int t = 0; t < UCCL_KINDS; t++) {
		TAILQ_INIT(&m->posted[t]);
		TAILQ_INIT(&m->unexpected[t]);
	}
	TAILQ_INIT(&m->claimed);
}

/* libfabric: the tags agree in every bit that the receive does not ignore. */
static bool takes(const struct uccl_op *recv, enum uccl_match_kind kind, const struct uccl_peer *peer, uint64_t tag)
{
	if ((recv->flags & UCCL_OPF_DIRECTED) && recv->peer != peer)
		return false;
	return kind == UCCL_KIND_UNTAGGED || !((recv->tag ^ tag) & ~recv->ignore);
}

struct uccl_op *uccl_match_posted(const struct uccl_match *m, enum uccl_match_kind kind, const struct uccl_peer *peer,
				  uint64_t tag)
{
	struct uccl_op *op;

	TAILQ_FOREACH(op, &m->posted[kind], link)
		if (takes(op, kind, peer, tag))
			return op;
	return NULL;
}

struct uccl_msg_rx *uccl_match_unexpected(struct uccl_match *m, const struct uccl_op *recv)
{
	enum uccl_match_kind kind = uccl_op_kind(recv);
	struct uccl_msg_rx *rx;

	TAILQ_FOREACH(rx, &m->unexpected[kind], link)
		if (takes(recv, kind, rx->peer, rx->tag))
			return rx;
	return NULL;
}

void uccl_match_post(struct uccl_match *m, struct uccl_op *recv)
{
	enum uccl_match_kind kind = uccl_op_kind(recv);

	TAILQ_INSERT_TAIL(&m->posted[kind], recv, link);
	if (recv->flags & UCCL_OPF_DIRECTED)
		TAILQ_INSERT_TAIL(&recv->peer->directed[kind], recv, directed_link);
}

void uccl_match_unpost(struct uccl_match *m, struct uccl_op *recv)
{
	enum uccl_match_kind kind = uccl_op_kind(recv);

	TAILQ_REMOVE(&m->posted[kind], recv, link);
	if (recv->flags & UCCL_OPF_DIRECTED)
		TAILQ_REMOVE(&recv->peer->directed[kind], recv, directed_link);
}

void uccl_match_rename(struct uccl_peer *p, struct uccl_peer *first)
{
	struct uccl_op *recv;

	for (int t = 0; t < UCCL_KINDS; t++) {
		TAILQ_FOREACH(recv, &p->directed[t], directed_link)
			recv->peer = first;
		TAILQ_CONCAT(&first->directed[t], &p->directed[t], directed_link);
	}
}

void uccl_match_list(struct uccl_match *m, struct uccl_msg_rx *rx)
{
	TAILQ_INSERT_TAIL(&m->unexpected[uccl_env_kind(rx->flags)], rx, link);
	rx->listed = true;
}

void uccl_match_unlist(struct uccl_match *m, struct uccl_msg_rx *rx)
{
	TAILQ_REMOVE(&m->unexpected[uccl_env_kind(rx->flags)], rx, link);
	rx->listed = false;
}

void uccl_match_claim(struct uccl_match *m, struct uccl_msg_rx *rx, void *context)
{
	uccl_match_unlist(m, rx);
	rx->claim = context;
	TAILQ_INSERT_TAIL(&m->claimed, rx, link);
}

struct uccl_msg_rx *uccl_match_claimed(struct uccl_match *m, const void *context)
{
	struct uccl_msg_rx *rx;

	TAILQ_FOREACH(rx, &m->claimed, link)
		if (rx->claim == context) {
			TAILQ_REMOVE(&m->claimed, rx, link);
			rx->claim = NULL;
			return rx;
		}
	return NULL;
}
