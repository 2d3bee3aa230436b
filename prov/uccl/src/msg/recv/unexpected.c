/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "msg/recv/unexpected.h"

#include <stdlib.h>
#include <string.h>

#include "base/units.h"

/*
 * Would the peer hold more than it leaves to others, of so much in all, with `more` bytes? So many that hold as much as
 * they may leave as much again, whatever they do: n of them have n / (n + 1) of it. (Choudhury and Hahne, Dynamic Queue
 * Length Thresholds, 1998.)
 */
static bool peer_over(const struct uccl_peer *p, uint64_t all, uint64_t least, uint64_t more)
{
	const struct uccl_msg_ep *m = p->msg_ep;
	uint64_t used = m->unexpected.bytes + (uint64_t)m->unexpected.n * UCCL_UNEXPECTED_COST;
	uint64_t own = p->unexpected.bytes + (uint64_t)p->unexpected.n * UCCL_UNEXPECTED_COST;

	return own + more > uccl_max(all > used ? all - used : 0, least);
}

uint64_t msg_unexpected_limit(const struct uccl_msg_ep *m)
{
	return 2 * m->unexpected.max + UCCL_UNEXPECTED_MORE;
}

void msg_peer_limits(struct uccl_peer *p)
{
	/* What is held is not done with. PROTOCOL R120 */
	uint32_t limit = (uint32_t)p->rx.mseq + UCCL_MSG_LIMIT - p->unexpected.n;
	struct uccl_flow *f = &p->flow;

	/* Nothing of it is held, mostly. */
	uccl_ack_tracker_short(&f->rx.ack_tracker,
			       (p->unexpected.n || p->unexpected.bytes) &&
				       peer_over(p, p->msg_ep->unexpected.max,
						 uccl_min(p->msg_ep->unexpected.max, UCCL_UNEXPECTED_LEAST), 0));
	if ((int32_t)(limit - f->rx.ack_tracker.msg_limit) <= 0)
		return;
	/* It has used up what it knew of, so nothing will come that could be answered with this. */
	if ((uint32_t)p->rx.mseq == f->rx.ack_tracker.msg_limit && p->open) {
		uccl_ack_tracker_at_once(&f->rx.ack_tracker);
		p->msg_ep->ops->ready(p);
	}
	uccl_ack_tracker_grant(&f->rx.ack_tracker, limit);
}

int msg_rx_hold(struct uccl_msg_rx *rx, uint64_t len)
{
	struct uccl_peer *p = rx->peer;
	/*
	 * What lanes keep is no more than half of it. Unsolicited data of which they have some, and the
	 * primary the envelope, count twice. PROTOCOL R313
	 */
	uint64_t all = msg_unexpected_limit(p->msg_ep) -
		       atomic_load_explicit(&p->msg_ep->unplaced.bytes, memory_order_relaxed);

	if (rx->hold.counted)
		return 0;
	if (peer_over(p, all, UCCL_UNEXPECTED_LEAST, len + UCCL_UNEXPECTED_COST))
		return -1;
	rx->hold.counted = true;
	p->unexpected.n++;
	p->msg_ep->unexpected.n++;
	return 0;
}

/* More is held, or less: `len` wraps. */
static void bytes_add(struct uccl_msg_rx *rx, uint64_t len)
{
	struct uccl_msg_ep *m = rx->peer->msg_ep;

	m->unexpected.bytes += len;
	rx->peer->unexpected.bytes += len;
	if (rx->peer->unexpected.left)
		m->unexpected.left_bytes += len;
	m->stats->unexpected_bytes_max = uccl_max(m->stats->unexpected_bytes_max, m->unexpected.bytes);
}

void msg_unexpected_left(struct uccl_peer *p)
{
	p->unexpected.left = true;
	p->msg_ep->unexpected.left_bytes += p->unexpected.bytes;
	p->msg_ep->unexpected.left_n += p->unexpected.n;
}

int msg_rx_unplaced(struct uccl_msg_rx *rx, uint64_t len)
{
	if (msg_rx_hold(rx, len))
		return -1;
	rx->hold.unplaced_bytes = len;
	bytes_add(rx, len);
	return 0;
}

void msg_rx_placed(struct uccl_msg_rx *rx)
{
	bytes_add(rx, -rx->hold.unplaced_bytes);
	rx->hold.unplaced_bytes = 0;
}

void msg_rx_unhold(struct uccl_msg_rx *rx)
{
	struct uccl_peer *p = rx->peer;
	struct uccl_msg_ep *m = p->msg_ep;

	if (!rx->hold.counted)
		return;
	msg_rx_placed(rx);
	rx->hold.counted = false;
	p->unexpected.n--;
	m->unexpected.n--;
	if (p->unexpected.left)
		m->unexpected.left_n--;
	if (p->open)
		msg_peer_limits(p);
}

int msg_rx_buffer(struct uccl_msg_rx *rx, uint64_t len, uint64_t now)
{
	struct uccl_msg_ep *m = rx->peer->msg_ep;

	if (msg_rx_hold(rx, len))
		return -1;
	if (rx->hold.buf || !len)
		return 0;
	/* It may go to a receive with its gaps, and what fills them may never come: they must not tell anything. */
	rx->hold.buf = uccl_buf_cache_get(&m->unexpected.cache, len, now);
	if (!rx->hold.buf)
		return -1;
	rx->hold.buf_len = len;
	bytes_add(rx, len);
	return 0;
}

int msg_rx_first(struct uccl_msg_rx *rx, const uint8_t *data, uint32_t len)
{
	rx->hold.first = malloc(len);
	if (!rx->hold.first)
		return -1;
	memcpy(rx->hold.first, data, len);
	rx->hold.first_len = len;
	return 0;
}

void msg_rx_first_free(struct uccl_msg_rx *rx)
{
	free(rx->hold.first);
	rx->hold.first = NULL;
}

int msg_rx_buffer_late(struct uccl_msg_rx *rx)
{
	uint64_t len = rx->hold.unplaced_bytes;

	rx->hold.buf = uccl_buf_cache_get(&rx->peer->msg_ep->unexpected.cache, len, 0);
	if (!rx->hold.buf)
		return -1;
	rx->hold.buf_len = len;
	rx->hold.unplaced_bytes = 0;
	if (rx->hold.first)
		memcpy(rx->hold.buf, rx->hold.first, rx->hold.first_len);
	msg_rx_first_free(rx);
	return 0;
}

void msg_rx_buffer_free(struct uccl_msg_rx *rx)
{
	struct uccl_msg_ep *m = rx->peer->msg_ep;

	msg_rx_first_free(rx);
	if (!rx->hold.buf)
		return;
	uccl_buf_cache_put(&m->unexpected.cache, rx->hold.buf, rx->hold.buf_len);
	rx->hold.buf = NULL;
	bytes_add(rx, -rx->hold.buf_len);
	rx->hold.buf_len = 0;
}
