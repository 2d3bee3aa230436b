/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Part of a train's state: do trains wait for milliseconds in the network? Clouds limit every 5-tuple, and there are
 * links that are much slower than the NIC says. A train of 60 KB takes 5 ms at 100 Mb/s, which congestion control takes
 * for a queue, and more than a policer lets pass at once. Trains of an eighth of the length are no queue there.
 *
 * What counts is what the network alone did. A packet is sent at some time between the clock reading of its round and
 * that of the next round: a host that waits for its processor may take milliseconds for this. So the round's whole
 * length is taken off what a packet waited. The kernel, not the program, tells when packets arrive. PROTOCOL R380
 *
 * Losses count, too: a policer drops what exceeds its limit, and nothing waits. The queue of a slow link drops what it
 * does not hold. The next sample of a path that lost something tells both apart: behind a full queue it is slower.
 *
 * All is zero at first. `sent` is for each packet of a train that leaves, `round` for each block that comes, `came` for
 * each sample, `lost` and `acked` for packets.
 */
#ifndef UCCL_FLOW_SEND_TRAIN_WAIT_H
#define UCCL_FLOW_SEND_TRAIN_WAIT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/units.h"
#include "flow/wire/wire.h"

/* A sample that waited so long in the network counts. */
#define UCCL_TRAIN_WAIT_NS UCCL_NS_PER_MS
/* What is left of the longest train where they wait. */
#define UCCL_TRAIN_WAIT_SHARE 8
/* Rounds that are known: a train may wait on each of many paths. */
#define UCCL_TRAIN_ROUNDS 128
/*
 * A sample that waited counts so much, and one that did not takes one back; this sum is proof. A window that took its
 * trains for a queue is so small that many of its trains wait no more: a third of samples is enough.
 */
#define UCCL_TRAIN_WAIT_COUNTS 2
#define UCCL_TRAIN_WAITS 64
/* One lost byte is made up for by this many bytes that came. */
#define UCCL_TRAIN_LOST 64
/* So many losses of whole packets count as proof, if nothing came between. */
#define UCCL_TRAIN_LOST_MOST 32
/* Most paths. */
#define UCCL_TRAIN_PATHS 256
/* A path that takes so many times as long as the quickest ones has a queue that others do not have. */
#define UCCL_TRAIN_SLOW_RTTS 4
/* More paths that lost something were quick than slow, by so many: a policer. */
#define UCCL_TRAIN_QUICK 4
/* The quickest lately: a sample that is slower counts by this part of it (1/N). */
#define UCCL_TRAIN_LOW 512

/* Trains are short for this time; the time doubles each time that they wait again soon after it, up to the other. */
#define UCCL_TRAIN_WAIT_HOLD_NS (4 * UCCL_NS_PER_S)
#define UCCL_TRAIN_WAIT_HOLD_MAX_NS (64 * UCCL_NS_PER_S)

struct uccl_train_wait {
	uint32_t sent[UCCL_TRAIN_ROUNDS]; /* rounds in which packets of trains left: when each began, units of ts, */
	uint32_t left[UCCL_TRAIN_ROUNDS]; /* and when the next one had begun */
	uint8_t last;	   /* the latest round */
	bool open;	   /* it has no end yet */
	bool slow;	   /* trains are short */
	bool dropped;	   /* and were lost */
	int8_t quick;	   /* paths that were quick when they had lost something, less those that were slow; since */
			   /* long trains were last tried */
	uint8_t waits;	   /* UCCL_TRAIN_WAIT_COUNTS for each sample that waited, less those that did not */
	uint32_t lost;	   /* bytes: UCCL_TRAIN_LOST for each that was lost, less those that came */
	uint64_t lossy[UCCL_TRAIN_PATHS / 64]; /* bits of paths that lost something, and had no sample since */
	uint64_t low_ns;   /* RTT of the quickest paths lately; 0: none is known */
	uint64_t until;	   /* end of the time in which trains are short */
	uint64_t hold_ns;  /* its length; 0: there was none yet */
};

/* Packets of a train leave in the round that began at `now`. */
static inline void uccl_train_wait_sent(struct uccl_train_wait *w, uint64_t now)
{
	uint32_t ts = uccl_ts(now);

	if (w->open && w->sent[w->last] == ts)
		return;
	if (w->open)
		w->left[w->last] = ts;
	w->last = (w->last + 1) % UCCL_TRAIN_ROUNDS;
	w->sent[w->last] = ts;
	w->open = true;
}

/* A round began at `now`. */
static inline void uccl_train_wait_round(struct uccl_train_wait *w, uint64_t now)
{
	if (w->open && w->sent[w->last] != uccl_ts(now)) {
		w->left[w->last] = uccl_ts(now);
		w->open = false;
	}
}

/* Payload of the next train, in packets of `each`. PROTOCOL R382 */
static inline uint32_t uccl_train_wait_bytes(const struct uccl_train_wait *w, uint32_t most, uint32_t each)
{
	return w->slow ? (uint32_t)uccl_max(most / UCCL_TRAIN_WAIT_SHARE / each, 1) * each : most;
}

/*
 * A packet of the round that began at `sent` took `more_ns` longer than others of its path. Returns whether trains
 * become short. PROTOCOL R380
 */
bool uccl_train_wait_came(struct uccl_train_wait *w, uint64_t sent, uint64_t more_ns, uint64_t now);
/*
 * A packet of a train is lost on a path: `bytes` of payload, where a whole packet has `each`. Returns whether trains
 * become short. PROTOCOL R381
 */
bool uccl_train_wait_lost(struct uccl_train_wait *w, uint16_t path, uint32_t bytes, uint32_t each, uint64_t now);
/* A path has a sample. PROTOCOL R403 */
static inline void uccl_train_wait_sample(struct uccl_train_wait *w, uint16_t path, uint64_t rtt_ns)
{
	uint64_t bit = 1ull << path % 64, *word = &w->lossy[path / 64];

	w->low_ns = rtt_ns < w->low_ns || !w->low_ns ? rtt_ns : w->low_ns + (rtt_ns - w->low_ns) / UCCL_TRAIN_LOW;
	if (!(*word & bit))
		return;
	*word &= ~bit;
	if (rtt_ns > UCCL_TRAIN_SLOW_RTTS * w->low_ns)
		w->quick -= w->quick > INT8_MIN;
	else
		w->quick += w->quick < INT8_MAX;
}

/* Does a policer seem to limit each 5-tuple? PROTOCOL R406 R403 */
static inline bool uccl_train_wait_policed(const struct uccl_train_wait *w)
{
	return w->dropped && w->quick >= UCCL_TRAIN_QUICK;
}

/* So many bytes came. Returns whether long trains are tried again: a path may have another least RTT now. */
bool uccl_train_wait_acked(struct uccl_train_wait *w, uint64_t bytes, uint64_t now);

#endif
