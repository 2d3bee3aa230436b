/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Operations that are taken back before they are complete. What has not left does not leave. When what has left is
 * acknowledged, nothing reads the payload any more, and all of it is at the target: ABORT follows, and the target says
 * by ABORTED that nothing of it can be written any more, or that it was complete. A target that is silent for
 * UCCL_ABORT_NS keeps nobody waiting: what it has not acknowledged is copied, and the operation ends here.
 */
#ifndef UCCL_MSG_ABORT_H
#define UCCL_MSG_ABORT_H

#include "msg/send/msg_tx.h"

/* The initiator's end of it comes no later, unless a lane or a NIC still reads its payload. */
#define UCCL_ABORT_NS (900 * UCCL_NS_PER_MS)

/* See uccl_engine_abort(). Before the first one, msg_tx_listing() for each peer. */
int uccl_msg_abort(struct uccl_msg_ep *m, const void *context, uint64_t now);
/* The next time at which an operation that is taken back ends without the target's answer; UCCL_NEVER: none. */
static inline uint64_t uccl_msg_aborts_due(const struct uccl_msg_ep *m)
{
	const struct uccl_timer *t = uccl_heap_min(&m->tx.timers);

	return t ? t->at : UCCL_NEVER;
}
/*
 * End those. `handed`: what left the flows is at the NIC, so nothing else refers to their payload. Else none can end.
 */
void uccl_msg_aborts_expire(struct uccl_msg_ep *m, bool handed, uint64_t now);

/*
 * This one is being taken back: at `due` its payload is copied, as far as it may have to leave again, and it is done
 * but `busy`. There is room for its timer.
 */
void msg_abort_at(struct uccl_op *op, const struct uccl_abort *how, uint64_t due);

/* ABORT and ABORTED. PROTOCOL R360 R361 R362 */
enum uccl_drop msg_abort_rx(struct uccl_peer *p, const struct uccl_chunk_in *in, uint64_t now);
enum uccl_drop msg_abort_answered(struct uccl_peer *p, const uint8_t *rec);

#endif
