/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "msg/match.h"

#include "msg/record.h"

void uccl_match_init(struct uccl_match *m)
{
	for (int t = 0; t < 2; t++) {
		TAILQ_INIT(&m->posted[t]);
		TAILQ_INIT(&m->unexpected[t]);
	}
	TAILQ_INIT(&m->claimed);
}

static bool op_tagged(const struct uccl_op *op)
{
	return op->flags & UCCL_OPF_TAGGED;
}

static bool rx_tagged(const struct uccl_msg_rx *rx)
{
	return rx->flags & UCCL_ENV_TAGGED;
}

/* libfabric: the tags agree in every bit that the receive does not ignore. */
static bool takes(const struct uccl_op *recv, bool tagged, const struct uccl_peer *peer, uint64_t tag)
{
	if ((recv->flags & UCCL_OPF_DIRECTED) && recv->peer != peer)
		return false;
	return !tagged || !((recv->tag ^ tag) & ~recv->ignore);
}

struct uccl_op *uccl_match_posted(struct uccl_match *m, bool tagged, const struct uccl_peer *peer, uint64_t tag)
{
	struct uccl_op *op;

	TAILQ_FOREACH(op, &m->posted[tagged], link)
		if (takes(op, tagged, peer, tag))
			return op;
	return NULL;
}

struct uccl_msg_rx *uccl_match_unexpected(struct uccl_match *m, const struct uccl_op *recv)
{
	bool tagged = op_tagged(recv);
	struct uccl_msg_rx *rx;

	TAILQ_FOREACH(rx, &m->unexpected[tagged], link)
		if (takes(recv, tagged, rx->peer, rx->tag))
			return rx;
	return NULL;
}

void uccl_match_post(struct uccl_match *m, struct uccl_op *recv)
{
	TAILQ_INSERT_TAIL(&m->posted[op_tagged(recv)], recv, link);
}

void uccl_match_unpost(struct uccl_match *m, struct uccl_op *recv)
{
	TAILQ_REMOVE(&m->posted[op_tagged(recv)], recv, link);
}

void uccl_match_list(struct uccl_match *m, struct uccl_msg_rx *rx)
{
	TAILQ_INSERT_TAIL(&m->unexpected[rx_tagged(rx)], rx, link);
	rx->listed = true;
}

void uccl_match_unlist(struct uccl_match *m, struct uccl_msg_rx *rx)
{
	TAILQ_REMOVE(&m->unexpected[rx_tagged(rx)], rx, link);
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
