/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The memory of short writes that were granted and are not in place yet. Requests are executed in their order, so one
 * that touches such memory waits until the write is there; others go on, and many such writes are on their way at once.
 * PROTOCOL R407
 */
#ifndef UCCL_MSG_RMA_SHORT_WRITES_H
#define UCCL_MSG_RMA_SHORT_WRITES_H

#include "msg/rma/region.h"

/* Such writes of one peer at once: enough for the lanes of both sides. */
#define UCCL_SHORT_WRITES_MAX 128

/* May one more be granted? */
static inline bool msg_short_writes_room(const struct uccl_peer *p)
{
	return p->serve.nshort_writes < UCCL_SHORT_WRITES_MAX;
}

/* Does one of them touch this memory? */
bool msg_short_writes_meets(const struct uccl_peer *p, const struct msg_place *at);
/* This write is granted; *index is the caller's, 0, until msg_short_writes_end(). False: no memory. */
bool msg_short_writes_add(struct uccl_peer *p, const struct msg_place *at, uint16_t *index);
/* It is in place, or ended otherwise. Does nothing if *index is 0. */
void msg_short_writes_end(struct uccl_peer *p, uint16_t *index);

#endif
