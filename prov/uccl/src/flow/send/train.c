/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "flow/send/train.h"

#include "base/units.h"

/*
 * Trains must lose so many times the share that single packets lose. A queue that holds whole trains may have room for
 * a packet and none for a train; that is no reason to do without.
 */
#define LOSS_RATIO 6
/* After so many losses of single packets this alone decides. */
#define LOSSES_ENOUGH 16
/* And more than chance can explain: standard deviations between what singles lost and their part of all losses. */
#define SIGMAS 5
/* So many trains wait in queues when they become short, or stay so when the flow has begun. */
#define QUEUED_TRAINS 6
#define QUEUED_AT_FIRST 1
/*
 * Short trains are this part of the longest, and those of a flow that begins are shorter. It knows nothing of its paths
 * and chooses them at random. With more and shorter trains the routes are shared more evenly.
 */
#define SHORT_SHARE 4
#define SHORT_SHARE_AT_FIRST 8
/* Doublings of UCCL_TRAIN_OFF_NS that reach UCCL_TRAIN_OFF_MAX_NS. */
#define STRIKES_MAX 6

static void train_reset(struct uccl_train *t, enum uccl_train_state state, uint64_t first, uint64_t end)
{
	t->state = (uint8_t)state;
	t->first = first;
	t->end = end;
	t->sent[0] = t->sent[1] = 0;
	t->lost[0] = t->lost[1] = 0;
	t->closed = false;
}

static void train_off(struct uccl_train *t, uint64_t now)
{
	train_reset(t, UCCL_TRAINS_OFF, 0, 0);
	t->at = now + uccl_min(UCCL_TRAIN_OFF_NS << t->strikes, UCCL_TRAIN_OFF_MAX_NS);
}

static void strike(struct uccl_train *t)
{
	if (t->strikes < STRIKES_MAX)
		t->strikes++;
}

static bool train_worse(const struct uccl_train *t)
{
	return (uint64_t)t->lost[0] * t->sent[1] >= (uint64_t)LOSS_RATIO * t->lost[1] * t->sent[0];
}

/*
 * If trains were lost as single packets are, each loss would be a single one's with their share of all: a matter of the
 * choice alone, so its mean and variance are known (both times `n`, and the variance a little too large, as of a draw
 * with replacement).
 */
static bool train_guilty(const struct uccl_train *t)
{
	uint64_t a = t->sent[0], b = t->sent[1], n = a + b, l = (uint64_t)t->lost[0] + t->lost[1], due, got;

	if (!train_worse(t))
		return false;
	due = l * b;
	got = t->lost[1] * n;
	return due > got && (due - got) * (due - got) >= SIGMAS * SIGMAS * l * a * b;
}

/* Nothing was found. */
static void compare_end(struct uccl_train *t, uint64_t now)
{
	train_reset(t, UCCL_TRAINS_ON, 0, 0);
	t->at = now + UCCL_TRAIN_PAUSE_NS;
}

/* The train of a trial is complete. */
static void trial_close(struct uccl_train *t, struct uccl_stats *stats, uint64_t now)
{
	t->closed = true;
	if (t->end - t->first >= UCCL_TRAIN_TRIAL_MIN) {
		stats->train_trials++;
		return;
	}
	train_reset(t, UCCL_TRAINS_OFF, 0, 0);
	t->at = now + UCCL_TRAIN_PAUSE_NS;
}

static bool trial_begin(struct uccl_train *t, const struct uccl_train_chunk *c, uint64_t now)
{
	if (now < t->at || !c->more)
		return false;
	train_reset(t, UCCL_TRAINS_TRIED, c->csn, c->csn + 1);
	t->path = c->path;
	t->sent_ns = now;
	return true;
}

/* Does this chunk belong to the train of the trial? What leaves later, or elsewhere, is no part of it. */
static bool trial_goes_on(struct uccl_train *t, const struct uccl_train_chunk *c, struct uccl_stats *stats,
			  uint64_t now)
{
	if (t->closed)
		return false;
	if (c->csn == t->end && c->path == t->path && now == t->sent_ns && c->csn - t->first < UCCL_TRAIN_TRIAL) {
		t->end++;
		return true;
	}
	trial_close(t, stats, now);
	return false;
}

bool uccl_train_single(struct uccl_train *t, const struct uccl_train_chunk *c, struct uccl_rng *rng,
		       struct uccl_stats *stats, uint64_t now)
{
	bool single;

	switch (t->state) {
	case UCCL_TRAINS_COMPARED:
		if (c->csn < t->end) {
			single = !uccl_rng_below(rng, UCCL_TRAIN_SHARE);
			t->sent[single]++;
			return single;
		}
		if (c->una >= t->end)
			compare_end(t, now);
		return false;
	case UCCL_TRAINS_OFF:
		return !trial_begin(t, c, now);
	case UCCL_TRAINS_TRIED:
		if (trial_goes_on(t, c, stats, now))
			return false;
		/* Everything of it is acknowledged, and not most of it was sent again. */
		if (t->state != UCCL_TRAINS_TRIED || c->una < t->end)
			return true;
		train_reset(t, UCCL_TRAINS_ON, 0, 0);
		t->on_ns = now;
		t->changed = true;
		return false;
	default:
		return false;
	}
}

static void watch_lost(struct uccl_train *t, uint64_t csn, uint64_t nxt, struct uccl_stats *stats, uint64_t now)
{
	if (now < t->at || (t->lost[0] && csn < t->first))
		return;
	if (!t->lost[0] || csn - t->first >= UCCL_TRAIN_WATCH) {
		t->first = csn;
		t->lost[0] = 0;
	}
	if (++t->lost[0] < UCCL_TRAIN_LOSSES)
		return;
	train_reset(t, UCCL_TRAINS_COMPARED, nxt, nxt + UCCL_TRAIN_TEST);
	stats->train_tests++;
}

static void compare_lost(struct uccl_train *t, bool single, struct uccl_stats *stats, uint64_t now)
{
	t->lost[single]++;
	if (t->lost[1] >= LOSSES_ENOUGH && !train_worse(t)) {
		compare_end(t, now);
		return;
	}
	if (!train_guilty(t))
		return;
	/* They had begun to pass, and do not: that trial did not tell much. */
	if (t->on_ns && now - t->on_ns < UCCL_TRAIN_OFF_MAX_NS)
		strike(t);
	else
		t->strikes = 0;
	train_off(t, now);
	t->changed = true;
	stats->trains_off++;
}

void uccl_train_lost(struct uccl_train *t, uint64_t csn, bool single, uint64_t una, uint64_t nxt,
		     struct uccl_stats *stats, uint64_t now)
{
	bool ours = csn >= t->first && csn < t->end;

	switch (t->state) {
	case UCCL_TRAINS_ON:
		watch_lost(t, csn, nxt, stats, now);
		return;
	case UCCL_TRAINS_COMPARED:
		if (ours)
			compare_lost(t, single, stats, now);
		else if (una >= t->end)
			compare_end(t, now);
		return;
	case UCCL_TRAINS_TRIED:
		if (!ours)
			return;
		if (!t->closed)
			trial_close(t, stats, now);
		if (t->state != UCCL_TRAINS_TRIED || ++t->lost[0] * 2 < t->end - t->first)
			return;
		strike(t);
		train_off(t, now);
		return;
	default:
		return;
	}
}

/*
 * Short trains make short queues, and cost the processor. So the network must be what bounds the flow: it has most of
 * its link, and no more than that. Once they were needed they stay: those that come and go with the queues are worth
 * little (a permutation of 128 hosts took 6.6 % over the ideal instead of 5.4).
 *
 * A flow that begins knows neither its rate nor its queues: both are means, and begin with too little. Where all flows
 * begin together, long trains make queues before these means tell of them.
 */
void uccl_train_see(struct uccl_train *t, uint32_t most, const struct uccl_train_sight *s)
{
	bool fits = s->delivered <= s->link + s->link / 8;
	uint64_t queued = (t->brief && !t->seen ? QUEUED_AT_FIRST : QUEUED_TRAINS) * (uint64_t)most;

	if (t->brief && !t->seen && s->acked < UCCL_TRAIN_BEGIN_BYTES && fits)
		return;
	t->brief = fits && s->delivered > s->link / 2 && (s->queued > queued || (t->brief && t->seen));
	t->seen = true;
}

uint32_t uccl_train_bytes(const struct uccl_train *t, uint32_t most, uint32_t each)
{
	uint32_t share = t->seen ? SHORT_SHARE : SHORT_SHARE_AT_FIRST;
	uint32_t packets = (most / share + each - 1) / each;
	uint32_t bytes = uccl_train_wait_bytes(&t->wait, most, each);

	return t->brief ? (uint32_t)uccl_min(uccl_max(packets, 1) * each, bytes) : bytes;
}
