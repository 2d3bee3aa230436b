/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Receives that are posted. A message takes one: the receive itself, off the queue, or a part of a multi-receive
 * buffer. The caller that took it fills in its result (msg_posted_result) and completes it (msg_posted_done).
 */
#ifndef UCCL_MSG_RECV_POSTED_H
#define UCCL_MSG_RECV_POSTED_H

#include <rdma/fi_errno.h>

#include "msg/msg_ep.h"

/* Is there an op, and room, for another message in a multi-receive buffer? */
bool msg_posted_room(const struct uccl_msg_ep *m);
/* The receive was just posted: nothing of its buffer is handed out. */
static inline void msg_posted_fresh(struct uccl_op *recv)
{
	recv->recv.multi.used = 0;
}
/* A message that is put into it begins where it begins. */
static inline void msg_posted_whole(struct uccl_op *op)
{
	op->recv.done_buf = op->iov_count ? op->iov[0].iov_base : NULL;
}
/* A part of a multi-receive buffer for a message. NULL: as msg_posted_take. */
struct uccl_op *msg_posted_part(struct uccl_msg_ep *m, struct uccl_op *recv, uint64_t len);
/*
 * The op that takes a message of `len` bytes, of this posted receive. NULL: its buffer is for several messages, and no
 * op or room for another can be had now; the endpoint is starved then.
 */
static inline struct uccl_op *msg_posted_take(struct uccl_msg_ep *m, struct uccl_op *recv, uint64_t len)
{
	if (recv->flags & UCCL_OPF_MULTI)
		return msg_posted_part(m, recv, len);
	uccl_match_unpost(&m->match, recv);
	msg_posted_whole(recv);
	return recv;
}
/* Receives that wait for an op or for room have their turn. */
static inline void msg_posted_fed(struct uccl_msg_ep *m)
{
	m->posted.starved = false;
}
/* What a receive tells of the message it took; 0, or FI_ETRUNC. */
static inline int msg_posted_result(struct uccl_op *op, uint8_t flags, uint64_t tag, uint64_t data, uint64_t len,
				    uint64_t placed)
{
	op->tag = tag;
	op->flags &= ~UCCL_OPF_DATA;
	if (flags & UCCL_ENV_DATA)
		op->flags |= UCCL_OPF_DATA;
	op->data = data;
	op->done_len = placed;
	op->recv.olen = len - placed;
	return len > placed ? FI_ETRUNC : 0;
}

/* A message in a multi-receive buffer is complete: the buffer has one less. */
void msg_posted_child_done(struct uccl_msg_ep *m, struct uccl_op *op);
/* Complete a receive with 0 or a positive FI_Exxx. The program may post and match again before this returns. */
static inline void msg_posted_done(struct uccl_op *op, struct uccl_peer *from, int err)
{
	if (op->recv.multi.parent)
		msg_posted_child_done(from->msg_ep, op);
	msg_op_done(op, from, err);
}
/* The same of one that took no message. */
void msg_posted_none(struct uccl_op *op, struct uccl_peer *from, int err);
/* Nothing comes any more: those that wait end with this FI_Exxx. */
void msg_posted_end(struct uccl_msg_ep *m, int err);
/* Nothing comes from this peer any more: end the receives that name it. */
void msg_posted_fail(struct uccl_peer *p, int err);

/* May remote data of this peer, or of ourselves, complete now? */
bool msg_data_room(struct uccl_msg_ep *m, const struct uccl_peer *p);
/* The receive that remote data of a write use up; NULL: they use up none and complete by themselves. */
struct uccl_op *msg_data_take(struct uccl_msg_ep *m, const struct uccl_peer *p, uint64_t data, uint64_t len);

#endif
