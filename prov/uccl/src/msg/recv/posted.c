/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "msg/recv/posted.h"

#include <rdma/fi_errno.h>

#include "base/units.h"

void msg_posted_child_done(struct uccl_msg_ep *m, struct uccl_op *op)
{
	struct uccl_op *parent = op->recv.multi.parent;

	op->recv.multi.parent = NULL;
	if (!--parent->recv.multi.children && parent->recv.multi.closed) {
		/* The last message in a full buffer gives it back. */
		op->flags |= UCCL_OPF_MULTI;
		uccl_pool_put(&m->op_pool, parent);
	}
}

void msg_posted_none(struct uccl_op *op, struct uccl_peer *from, int err)
{
	op->done_len = 0;
	msg_posted_done(op, from, err);
}

bool msg_posted_room(const struct uccl_msg_ep *m)
{
	return m->op_pool.used < m->op_pool.max && uccl_msg_ep_room(m);
}

struct uccl_op *msg_posted_part(struct uccl_msg_ep *m, struct uccl_op *recv, uint64_t len)
{
	uint64_t room = recv->len - recv->recv.multi.used;
	struct uccl_op *child;

	/* Nothing overtakes what waits. */
	child = m->posted.starved || !msg_posted_room(m) ? NULL : uccl_pool_get(&m->op_pool);
	if (!child) {
		m->posted.starved = true;
		uccl_match_starve(&m->match, recv);
		return NULL;
	}
	child->type = UCCL_OP_RECV;
	child->flags = (recv->flags & ~UCCL_OPF_MULTI) | UCCL_OPF_CHILD;
	child->context = recv->context;
	child->api = recv->api;
	child->api_more = recv->api_more;
	child->api_flags = recv->api_flags;
	child->done = recv->done;
	child->recv.multi.parent = recv;
	child->iov_count = 1;
	child->iov[0].iov_base = (uint8_t *)recv->iov[0].iov_base + recv->recv.multi.used;
	child->iov[0].iov_len = room;
	child->len = room;
	child->device = recv->device;
	child->recv.done_buf = child->iov[0].iov_base;
	recv->recv.multi.children++;
	recv->recv.multi.used += uccl_min(len, room);
	if (recv->len - recv->recv.multi.used < uccl_max(recv->recv.min_multi, 1)) {
		recv->recv.multi.closed = true;
		uccl_match_unpost(&m->match, recv);
	}
	return child;
}

static struct uccl_op *data_recv(struct uccl_msg_ep *m, const struct uccl_peer *p)
{
	return uccl_match_posted(&m->match, UCCL_KIND_UNTAGGED, p, 0);
}

bool msg_data_room(struct uccl_msg_ep *m, const struct uccl_peer *p)
{
	const struct uccl_op *recv;

	if (!m->posted.data_takes)
		return uccl_msg_ep_room(m);
	recv = data_recv(m, p);
	return recv && (recv->flags & UCCL_OPF_MULTI ? !m->posted.starved && msg_posted_room(m) : uccl_msg_ep_room(m));
}

struct uccl_op *msg_data_take(struct uccl_msg_ep *m, const struct uccl_peer *p, uint64_t data, uint64_t len)
{
	struct uccl_op *recv = m->posted.data_takes ? data_recv(m, p) : NULL;
	struct uccl_op *op = recv ? msg_posted_take(m, recv, 0) : NULL;

	if (!op)
		return NULL;
	msg_posted_result(op, UCCL_ENV_DATA, 0, data, len, len);
	op->recv.done_buf = NULL;
	return op;
}

/* Nothing takes it any more. In a buffer to which messages are still coming, the last of them gives it back. */
static void posted_end(struct uccl_msg_ep *m, struct uccl_op *op, struct uccl_peer *from, int err)
{
	uccl_match_unpost(&m->match, op);
	if (op->recv.multi.children) {
		op->recv.multi.closed = true;
		return;
	}
	msg_posted_none(op, from, err);
}

int uccl_msg_cancel(struct uccl_msg_ep *m, const void *context)
{
	for (int t = 0; t < UCCL_KINDS; t++) {
		struct uccl_op *op = uccl_match_context(&m->match, t, context);

		if (!op)
			continue;
		posted_end(m, op, NULL, FI_ECANCELED);
		return 0;
	}
	return -FI_ENOENT;
}

void msg_posted_end(struct uccl_msg_ep *m, int err)
{
	struct uccl_op *op;

	for (int t = 0; t < UCCL_KINDS; t++)
		while ((op = TAILQ_FIRST(&m->match.posted[t])))
			posted_end(m, op, NULL, err);
}

void msg_posted_fail(struct uccl_peer *p, int err)
{
	struct uccl_op *op;

	for (int t = 0; t < UCCL_KINDS; t++)
		while ((op = TAILQ_FIRST(&p->directed[t])))
			posted_end(p->msg_ep, op, p, err);
}
