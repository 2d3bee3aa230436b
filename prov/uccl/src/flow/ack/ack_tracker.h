/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Part of a flow: what the peer is owed for what arrived. Of each path the latest packet and the latest direct write,
 * the count of duplicates, and when the next acknowledgement block is due: at once (`now`), or at `at`.
 *
 * The grammar: init. `packet`, `marked`, `write`, `chunk`, `dup`, `soon`, `at_once` and `answer` for what arrived,
 * `expire` at `at`; when a block leaves, `tell` puts together its part of it, and nothing is owed any more.
 * `again` owes once more what the peer may not have heard.
 */
#ifndef UCCL_FLOW_ACK_ACK_TRACKER_H
#define UCCL_FLOW_ACK_ACK_TRACKER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/units.h"
#include "flow/wire/wire.h"

/* Receiving side of a path: what the acknowledgement block will say about it. */
struct uccl_rx_path {
	uint32_t high_seq;
	bool dirty;		/* owed in the next block */
	bool write_dirty;
	uint64_t arrived_ns;
	uint32_t echo;		/* apart from high_seq: as one load, both would wait for the stores of the decoder */
	uint64_t high_csn;	/* direct writes: highest CSN + 1 of those taken in, 0: none */
	uint64_t seen_csn;	/* likewise of those that came, with those that wait for their descriptor */
	uint64_t write_ns;
	uint64_t marked;	/* payload that came marked, bytes */
};

struct uccl_ack_tracker {
	struct uccl_rx_path *paths;
	uint16_t *dirty;	/* indices of those with something owed */
	uint16_t npaths, ndirty;
	uint32_t dups;		/* chunks that came more than once */
	uint32_t slots;		/* taken by packets of chunks since the last block */
	bool now;		/* a block is due at once, */
	bool passed;		/* and payload left before it that had no room for it, */
	bool answer;		/* and answers a PROBE */
	uint64_t at;		/* delayed acknowledgement */
	uint64_t sent_ns;	/* when the last block left */
	uint64_t answer_ns;	/* the last PROBE that was answered */
	uint8_t answers_more;	/* number of other paths on which the answer goes, too */
	uint32_t msg_limit;	/* message sequence numbers that we grant */
	bool rcv_short;		/* no memory for unexpected payload: peers should send envelopes only */
};

/* False: no memory. */
bool uccl_ack_tracker_init(struct uccl_ack_tracker *o, uint16_t npaths, uint64_t now);
void uccl_ack_tracker_fini(struct uccl_ack_tracker *o);
/* A direct write was taken in; it had come at `came`. One that waits for its descriptor is not. PROTOCOL R52 */
void uccl_ack_tracker_write(struct uccl_ack_tracker *o, uint16_t path, uint64_t csn, uint64_t came);
/* A direct write came, whether it can be taken in or not. True: a later one had come on this path before. */
bool uccl_ack_tracker_seen(struct uccl_ack_tracker *o, uint16_t path, uint64_t csn, bool old);
/*
 * A duplicate always owes an acknowledgement: ours may have been lost. PROTOCOL R22
 * `excused`: nobody sent too early, so the peer is not told to be more patient.
 */
void uccl_ack_tracker_dup(struct uccl_ack_tracker *o, bool excused, uint64_t now);
/*
 * A PROBE came: an answer is due, with the line of this path first: it may be what the peer waits for. If the last
 * answer is as old as `gap_ns` and nothing of ours was reported since (`reacted_ns`), it was lost: true. PROTOCOL R57
 */
bool uccl_ack_tracker_answer(struct uccl_ack_tracker *o, uint16_t path, uint64_t gap_ns, uint64_t reacted_ns,
			     uint64_t now);
/* The answer goes on `more` other paths, too. */
void uccl_ack_tracker_answer_more(struct uccl_ack_tracker *o, uint8_t more);
/* Take one of these. */
bool uccl_ack_tracker_take_answer(struct uccl_ack_tracker *o);
/* What arrived since the peer last heard us is told once more: the blocks that told it may be lost. */
void uccl_ack_tracker_again(struct uccl_ack_tracker *o, uint64_t reacted_ns);
/*
 * Write into `ack` what the peer has not been told yet, of paths at most `lines` lines (two at least). The next block
 * tells the rest. If this block may be lost on its way (not `sure`), all of it will be told again.
 */
void uccl_ack_tracker_tell(struct uccl_ack_tracker *o, struct uccl_ack *ack, uint32_t lines, bool sure, uint64_t now);

/* Path `path` has something to be told. */
static inline void uccl_ack_tracker_mark(struct uccl_ack_tracker *o, uint16_t path)
{
	if (!o->paths[path].dirty && !o->paths[path].write_dirty)
		o->dirty[o->ndirty++] = path;
}

/* A packet arrived: its number and time stamp on its path. */
static inline void uccl_ack_tracker_packet(struct uccl_ack_tracker *o, uint16_t path, uint32_t pseq, uint32_t ts,
					   uint64_t arrived)
{
	struct uccl_rx_path *r = &o->paths[path];

	if ((int32_t)(pseq - r->high_seq) <= 0)
		return;
	r->high_seq = pseq;
	r->echo = ts;
	r->arrived_ns = arrived;
	uccl_ack_tracker_mark(o, path);
	r->dirty = true;
}

/*
 * `bytes` of payload came marked on a path, in a packet that is to be reported. Packets out of order count, too, or
 * their marks would be lost. PROTOCOL R189
 */
static inline void uccl_ack_tracker_marked(struct uccl_ack_tracker *o, uint16_t path, uint32_t bytes)
{
	struct uccl_rx_path *r = &o->paths[path];

	r->marked += bytes;
	uccl_ack_tracker_mark(o, path);
	r->dirty = true;
}

/* Lines that a block needs for the paths, at most UCCL_ACK_PATHS_MAX. */
static inline uint32_t uccl_ack_tracker_entries(const struct uccl_ack_tracker *o)
{
	uint32_t lines = 0;

	for (uint16_t i = 0; i < o->ndirty; i++)
		lines += (uint32_t)o->paths[o->dirty[i]].dirty + o->paths[o->dirty[i]].write_dirty;
	return (uint32_t)uccl_min(lines, UCCL_ACK_PATHS_MAX);
}

/* A block is due now. */
static inline void uccl_ack_tracker_at_once(struct uccl_ack_tracker *o)
{
	o->now = true;
}

/* A packet left without a block. */
static inline void uccl_ack_tracker_pass(struct uccl_ack_tracker *o)
{
	o->passed = o->now;
}

/* Is a block due that waits no longer for a packet with room? PROTOCOL R398 */
static inline bool uccl_ack_tracker_overdue(const struct uccl_ack_tracker *o)
{
	return o->now && o->passed;
}

/* Is there something that a packet which leaves anyway should tell? */
static inline bool uccl_ack_tracker_due(const struct uccl_ack_tracker *o)
{
	return o->slots || o->now || o->at != UCCL_NEVER;
}

/* Not later than that. */
static inline void uccl_ack_tracker_until(struct uccl_ack_tracker *o, uint64_t at)
{
	o->at = uccl_min(o->at, at);
}

/* Packets of a chunk came, of so many slots: a block is due at `at`, or at once, if `every` were not told of. */
static inline void uccl_ack_tracker_chunk(struct uccl_ack_tracker *o, uint32_t slots, uint32_t every, uint64_t at)
{
	o->slots += slots;
	if (o->slots >= every)
		uccl_ack_tracker_at_once(o);
	else
		uccl_ack_tracker_until(o, at);
}

/* The time `at` has come. */
static inline void uccl_ack_tracker_expire(struct uccl_ack_tracker *o)
{
	o->now = true;
	o->at = UCCL_NEVER;
}

/* So many message sequence numbers are granted to the peer; it hears of that with the next block. */
static inline void uccl_ack_tracker_grant(struct uccl_ack_tracker *o, uint32_t msg_limit)
{
	o->msg_limit = msg_limit;
}

/* There is no memory for unexpected payload, or there is. */
static inline void uccl_ack_tracker_short(struct uccl_ack_tracker *o, bool rcv_short)
{
	o->rcv_short = rcv_short;
}

#endif
