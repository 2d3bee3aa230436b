/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "msg/unexpected.h"

#include "base/units.h"

/*
 * Would the peer hold more than it leaves to others, of so much in all, with `more` bytes? So many that hold as much as
 * they may leave as much again, whatever they do: n of them have n / (n + 1) of it. (Choudhury and Hahne, Dynamic Queue
 * Length Thresholds, 1998.)
 */
static bool peer_over(const struct uccl_peer *p, uint64_t all, uint64_t least, uint64_t more)
{
	const struct uccl_mep *m = p->mep;
	uint64_t used = m->unexpected_bytes + (uint64_t)m->held * UCCL_HELD_COST;
	uint64_t own = p->unexpected_bytes + (uint64_t)p->held * UCCL_HELD_COST;

	return own + more > uccl_max(all > used ? all - used : 0, least);
}

uint64_t msg_held_max(const struct uccl_mep *m)
{
	return 2 * m->unexpected_max + UCCL_HELD_MORE;
}

void msg_peer_limits(struct uccl_peer *p)
{
	/* What is held is not done with. PROTOCOL R120 */
	uint32_t limit = (uint32_t)p->rx_mseq + UCCL_MSG_LIMIT - p->held;
	struct uccl_flow *f = &p->flow;

	uccl_owed_short(&f->owed,
			peer_over(p, p->mep->unexpected_max, uccl_min(p->mep->unexpected_max, UCCL_HELD_LEAST), 0));
	if ((int32_t)(limit - f->owed.msg_limit) <= 0)
		return;
	/* It has used up what it knew of, so nothing will come that could be answered with this. */
	if ((uint32_t)p->rx_mseq == f->owed.msg_limit && p->open) {
		uccl_owed_at_once(&f->owed);
		p->mep->ops->ready(p);
	}
	uccl_owed_grant(&f->owed, limit);
}

int msg_rx_hold(struct uccl_msg_rx *rx, uint64_t len)
{
	struct uccl_peer *p = rx->peer;
	/*
	 * What lanes keep is no more than half of it. A head of which they have some and home the envelope counts
	 * twice. PROTOCOL R313
	 */
	uint64_t all = msg_held_max(p->mep) - atomic_load_explicit(&p->mep->unplaced.bytes, memory_order_relaxed);

	if (rx->held)
		return 0;
	if (peer_over(p, all, UCCL_HELD_LEAST, len + UCCL_HELD_COST))
		return -1;
	rx->held = true;
	p->held++;
	p->mep->held++;
	return 0;
}

static void bytes_more(struct uccl_msg_rx *rx, uint64_t len)
{
	struct uccl_mep *m = rx->peer->mep;

	m->unexpected_bytes += len;
	rx->peer->unexpected_bytes += len;
	m->stats->unexpected_bytes_max = uccl_max(m->stats->unexpected_bytes_max, m->unexpected_bytes);
}

static void bytes_less(struct uccl_msg_rx *rx, uint64_t len)
{
	struct uccl_mep *m = rx->peer->mep;

	m->unexpected_bytes -= len;
	rx->peer->unexpected_bytes -= len;
	if (rx->peer->left)
		m->left_bytes -= len;
}

int msg_rx_park(struct uccl_msg_rx *rx, uint64_t len)
{
	if (msg_rx_hold(rx, len))
		return -1;
	rx->parked = len;
	bytes_more(rx, len);
	return 0;
}

void msg_rx_unhold(struct uccl_msg_rx *rx)
{
	struct uccl_peer *p = rx->peer;
	struct uccl_mep *m = p->mep;

	if (!rx->held)
		return;
	bytes_less(rx, rx->parked);
	rx->parked = 0;
	rx->held = false;
	p->held--;
	m->held--;
	if (p->left)
		m->left_held--;
	if (p->open)
		msg_peer_limits(p);
}

int msg_rx_buffer(struct uccl_msg_rx *rx, uint64_t len, uint64_t now)
{
	struct uccl_mep *m = rx->peer->mep;

	if (msg_rx_hold(rx, len))
		return -1;
	if (rx->buf || !len)
		return 0;
	/* It may go to a receive with its gaps, and what fills them may never come: they must not tell anything. */
	rx->buf = uccl_spare_get(&m->spare, len, now);
	if (!rx->buf)
		return -1;
	rx->buf_len = len;
	bytes_more(rx, len);
	return 0;
}

void msg_rx_buffer_free(struct uccl_msg_rx *rx)
{
	struct uccl_mep *m = rx->peer->mep;

	if (!rx->buf)
		return;
	uccl_spare_put(&m->spare, rx->buf, rx->buf_len);
	rx->buf = NULL;
	bytes_less(rx, rx->buf_len);
	rx->buf_len = 0;
}
