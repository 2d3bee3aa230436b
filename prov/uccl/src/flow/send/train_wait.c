/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "flow/send/train_wait.h"

#include <string.h>

/* Trains are short from now on, for longer if they waited not long ago. */
static bool wait_slow(struct uccl_train_wait *w, uint64_t now)
{
	bool was = w->slow;

	w->waits = 0;
	w->lost = 0;
	if (was)
		return false;
	w->hold_ns = w->hold_ns && now - w->until < w->hold_ns ? uccl_min(2 * w->hold_ns, UCCL_TRAIN_WAIT_HOLD_MAX_NS)
							       : UCCL_TRAIN_WAIT_HOLD_NS;
	w->until = now + w->hold_ns;
	w->slow = true;
	return true;
}

/* How long the round took at most, ns: what left in it may have left that much later. UINT64_MAX: not known. */
static uint64_t wait_round(const struct uccl_train_wait *w, uint32_t sent)
{
	for (uint8_t i = 0; i < UCCL_TRAIN_ROUNDS; i++)
		if (w->sent[i] == sent && !(w->open && i == w->last))
			return (uint64_t)(w->left[i] - sent) << UCCL_TS_SHIFT;
	return UINT64_MAX;
}

bool uccl_train_wait_came(struct uccl_train_wait *w, uint64_t sent, uint64_t more_ns, uint64_t now)
{
	uint64_t round;

	if (more_ns < UCCL_TRAIN_WAIT_NS) {
		w->waits -= w->waits > 0;
		return false;
	}
	round = wait_round(w, uccl_ts(sent));
	/* Long rounds hide what the network does. */
	if (more_ns < round || more_ns - round < UCCL_TRAIN_WAIT_NS)
		return false;
	w->waits += UCCL_TRAIN_WAIT_COUNTS;
	return w->waits >= UCCL_TRAIN_WAITS && wait_slow(w, now);
}

bool uccl_train_wait_lost(struct uccl_train_wait *w, uint16_t path, uint32_t bytes, uint32_t each, uint64_t now)
{
	w->lossy[path / 64] |= 1ull << path % 64;
	w->lost += UCCL_TRAIN_LOST * uccl_min(bytes, each);
	if (w->lost < UCCL_TRAIN_LOST_MOST * UCCL_TRAIN_LOST * each)
		return false;
	w->dropped = true;
	return wait_slow(w, now);
}

bool uccl_train_wait_acked(struct uccl_train_wait *w, uint64_t bytes, uint64_t now)
{
	w->lost -= (uint32_t)uccl_min(w->lost, bytes);
	if (!w->slow || now < w->until)
		return false;
	w->slow = false;
	w->dropped = false;
	/* What the network did before long trains are tried again says nothing of what they will meet. PROTOCOL R403 */
	w->quick = 0;
	memset(w->lossy, 0, sizeof(w->lossy));
	return true;
}
