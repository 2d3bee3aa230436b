/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * May something new leave, how much must there be room for, and on which path: window, credit and pace, bursts, and
 * whether it is the turn of records or of bulk.
 */
#include "flow/send/tx_internal.h"

/*
 * Bursts are shorter while little is in flight: of fewer choices than this the places are uneven whoever makes them. On
 * eight links that carry 1 MB together, bursts of 32 KiB left a quarter of them empty.
 */
#define BURST_BYTES_MIN 8192
#define BURSTS_IN_FLIGHT 128
/* So many short trains are asked for at once: a block tells of some paths only (UCCL_ACK_PATHS_MAX). */
#define ASK_TRAINS 4
/* On a long way so often: eight times in a small window, for a train at least, but not more often than the last. */
#define LONG_WAY_AR_LEAST 8192
#define LONG_WAY_AR_BYTES 32768
#define LONG_WAY_ASKS_SMALL 8
#define LONG_WAY_ASKS 32

static uint32_t tx_burst(const struct uccl_flow *f)
{
	uint64_t part = f->sent.inflight_bytes / BURSTS_IN_FLIGHT;
	uint32_t most = (uint32_t)uccl_clamp(part, BURST_BYTES_MIN, UCCL_TX_BURST_BYTES);

	/* Short packets between the longest ones, of 64 KiB on a loopback, leave together as well. */
	most = (uint32_t)uccl_max(most, uccl_flow_burst_least(f));

	return f->train_bytes ? uccl_train_bytes(&f->train, most, f->chunk_bytes) : most;
}

uint64_t flow_tx_ask_bytes(const struct uccl_flow *f)
{
	uint64_t every = uccl_max(UCCL_AR_BYTES, f->sent.inflight_bytes / 4);
	uint32_t burst = tx_burst(f);

	/*
	 * A sender that hears of a window a few times only cannot pace what follows, nor know what became of bursts.
	 * PROTOCOL R394
	 */
	if (flow_long_way(f))
		every = uccl_max(uccl_clamp(f->sent.inflight_bytes / LONG_WAY_ASKS_SMALL, LONG_WAY_AR_LEAST,
					    LONG_WAY_AR_BYTES),
				 f->sent.inflight_bytes / LONG_WAY_ASKS);

	return burst < f->train_bytes ? uccl_min(every, ASK_TRAINS * (uint64_t)burst) : every;
}

uint32_t flow_tx_burst_left(const struct uccl_flow *f, uint32_t bytes)
{
	const struct uccl_burst *b = &f->paths.burst;

	return uccl_burst_over(b, bytes) ? uccl_burst_size(b, tx_burst(f)) : b->left;
}

/*
 * Do long messages go on in the train of the one before this one? There will be fewer trains, and the pipe is full, or
 * will be, as another one waits.
 */
static bool tx_streams(const struct uccl_flow *f, const struct uccl_item *item, uint32_t burst)
{
	return f->sent.inflight_bytes >= 2ull * burst || (item && TAILQ_NEXT(item, link));
}

void flow_tx_burst_align(struct uccl_flow *f, uint64_t bytes)
{
	uint32_t burst = tx_burst(f);
	uint64_t count = (bytes + burst - 1) / burst, share = bytes / uccl_max(count, 1);

	if (!f->cfg.train.bytes)
		return;
	if (tx_streams(f, TAILQ_FIRST(&f->sendq.bulk), burst)) {
		uccl_burst_align(&f->paths.burst, burst, bytes <= burst ? bytes : 0);
		return;
	}
	if (count > 1)
		burst = (uint32_t)uccl_min(share + f->chunk_bytes, burst);
	uccl_burst_align(&f->paths.burst, burst, uccl_min(bytes, share));
}

bool flow_tx_burst_joins(const struct uccl_flow *f, uint64_t bytes, const struct uccl_item *next)
{
	uint32_t burst = tx_burst(f), first = (uint32_t)uccl_min(bytes, f->chunk_bytes);

	/* A shorter one begins a burst if it does not fit this one. */
	return f->cfg.train.bytes && next->len > burst && tx_streams(f, next, burst) &&
	       flow_tx_burst_left(f, first) >= bytes + 2ull * f->chunk_bytes;
}

/* The window of its rail is full: another rail may have room. PROTOCOL R387 */
static bool tx_rail_full(const struct uccl_flow *f, uint16_t path, uint32_t bytes, uint64_t now)
{
	return f->policy.rail && !uccl_event_rail_room(f, f->paths.list[path].rail, bytes, now);
}

/*
 * The path of a burst of `size` bytes. While little is in flight it stays the same: a new one would find its sockets,
 * routes and counters out of all caches, and could carry no more. One that lost something, or has become slow, is left.
 * PROTOCOL R341
 */
static uint16_t tx_burst_path(struct uccl_flow *f, uint32_t size, uint32_t bytes, uint64_t left, uint64_t now)
{
	bool warm = f->sent.inflight_bytes + uccl_max(bytes, left) <= UCCL_LITTLE_BYTES && !f->loss.pto.backoff &&
		    flow_warm(f);
	uint16_t path = warm ? uccl_paths_choose_warm(&f->paths) : UCCL_PATHS_MAX;

	if (path != UCCL_PATHS_MAX && !tx_rail_full(f, path, bytes, now))
		return path;
	if (!warm)
		uccl_paths_spread(&f->paths, now);
	path = uccl_event_select_path(f, (uint32_t)uccl_max(size, bytes), left, now);
	if (warm)
		uccl_paths_set_warm(&f->paths, path);
	return path;
}

/* The burst is on the path for little payload, which lost something: it ends. */
static bool tx_warm_fails(const struct uccl_flow *f, const struct uccl_burst *b)
{
	return b->path == f->paths.warm && f->sent.inflight_bytes <= UCCL_LITTLE_BYTES && flow_warm(f) &&
	       !uccl_paths_warm_works(&f->paths);
}

static __attribute__((noinline)) void tx_burst_begin(struct uccl_flow *f, uint32_t bytes, uint64_t left, uint64_t now)
{
	struct uccl_burst *b = &f->paths.burst;
	uint32_t size = uccl_burst_size(b, tx_burst(f));

	uccl_burst_begin(b, tx_burst_path(f, size, bytes, left, now), size, f->cfg.train.bytes > 0);
}

uint16_t flow_tx_path(struct uccl_flow *f, uint32_t bytes, uint64_t left, uint64_t now)
{
	struct uccl_burst *b = &f->paths.burst;

	/* A burst goes on in the next round if the window ends it in this one. */
	if (f->train_bytes)
		uccl_train_wait_sent(&f->train.wait, now);
	if (uccl_burst_over(b, bytes) || tx_warm_fails(f, b) || tx_rail_full(f, b->path, bytes, now))
		tx_burst_begin(f, bytes, left, now);
	return uccl_burst_take(b, bytes);
}

bool flow_tx_allowed(struct uccl_flow *f, uint32_t bytes, uint64_t now)
{
	return uccl_event_chunk_size(f, bytes, now) != 0;
}

void flow_tx_paced(struct uccl_flow *f, uint16_t path, uint32_t bytes, uint64_t now)
{
	uccl_pace_set(f->policy.rail ? &flow_rail(f, path)->pace : &f->pace,
		      uccl_event_pacing_chunk(f, path, bytes, now), bytes, now);
}

bool uccl_flow_has_room(const struct uccl_flow *f, uint64_t bytes)
{
	return f->sent.inflight_bytes + bytes <= uccl_event_window(f) && uccl_event_credit_covers(f, bytes) &&
	       flow_tx_packets_room(f) * (uint64_t)f->chunk_bytes >= bytes;
}

uint32_t flow_tx_want(const struct uccl_flow *f, const struct uccl_item *item, uint32_t len)
{
	uint64_t train;

	/* So much of it was asked for that an acknowledgement is on its way. */
	if (!f->cfg.train.bytes || f->sent.inflight_bytes < f->policy.rails * (UCCL_AR_BYTES + f->train_bytes))
		return len;
	train = uccl_min(f->paths.burst.left < len ? tx_burst(f) : f->paths.burst.left, item->len - item->off);
	if (flow_tx_packets_room(f) * (uint64_t)f->chunk_bytes < train)
		return 0;
	return (uint32_t)train;
}

uint16_t flow_tx_control_path(struct uccl_flow *f)
{
	if (!f->rx.delays || !flow_warm(f) || f->paths.unheard)
		return uccl_paths_control(&f->paths);
	/* An answer to a PROBE tells by its path what works: it goes from path to path. */
	if (f->rx.ack_tracker.answer && f->paths.control.n)
		return uccl_paths_control_next(&f->paths);
	return uccl_paths_control_warm(&f->paths);
}
