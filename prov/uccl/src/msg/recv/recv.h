/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Messages for receives. See msg_ep.h for what programs ask for. */
#ifndef UCCL_MSG_RECV_RECV_H
#define UCCL_MSG_RECV_RECV_H

#include "msg/msg_ep.h"

/* Post a receive; nothing waits for an op or room. */
int msg_recv(struct uccl_msg_ep *m, struct uccl_op *op, uint64_t now);
/* Messages that wait for an op, or room: match them as far as there is any. */
void msg_recv_retry(struct uccl_msg_ep *m, uint64_t now);
/* The envelope of a message. */
enum uccl_drop msg_recv_env(struct uccl_peer *p, const struct uccl_chunk_in *in, uint64_t now);

#endif
