/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Part of a flow, the reordering tolerance: how much later than others a chunk may arrive. Within a path others may
 * overtake it by some packets, across paths by some time (RACK, RFC 8985). Both are learnt from chunks that were sent
 * again for nothing, the time also from chunks that came after all. The caller owns the chunks, and decides what to do
 * about lost ones.
 *
 * The grammar: init. For each block of the peer `block` first, `reported` and `came` for what it tells, at last `learn`
 * and `dups`; then, or at `at`, one look at everything in flight: `look` begins it, and each chunk that others overtook
 * goes through `proof`, `overdue`, and, if neither says that it is lost, `wait` and `judge`.
 */
#ifndef UCCL_FLOW_ACK_RACK_H
#define UCCL_FLOW_ACK_RACK_H

#include <stdbool.h>
#include <stdint.h>

#include "base/units.h"
#include "flow/path/path.h"
#include "flow/ack/times.h"

/* Overtaking within a path that is tolerated at most, packets. */
#define UCCL_RACK_PKTS_MAX 256
/* How often paths are asked for a chunk that later ones overtook: its own, then one that works. */
#define UCCL_RACK_ASKS 2
/* If nothing comes out of order, a chunk is late once this many later ones came: RFC 8985 6.2, step 4. */
#define UCCL_RACK_BEHIND 3
/* A period has as many chunks as there may be paths, at least. */
#define UCCL_RACK_PERIOD_CHUNKS 64
/* Less than this is no order: clocks and queues of a host are not finer. */
#define UCCL_RACK_LEAST_NS UCCL_NS_PER_US
/*
 * Queues count as short while the RTTs of the path and of the flow are both below this multiple of the least RTT. Long
 * queues may grow by as much in one RTT.
 */
#define UCCL_RACK_SHORT 2

struct uccl_rack {
	uint64_t reported_ns;	/* when the latest of the packets left that the peer has reported; 0: none */
	uint64_t at;		/* when to look again; UCCL_NEVER: when something new is reported */
	uint64_t asked_ns;	/* when a path that works was last asked for overtaken chunks */
	uint32_t reorder_packets; /* tolerance within a path, grows with spurious retransmissions */
	uint64_t reorder_ns;	/* the same across paths */
	uint64_t keep_until_ns;	/* when both begin to shrink again */
	uint64_t grown_ns;	/* when they last grew; 0: never */
	uint32_t dups;		/* the peer's count of duplicates */
	/*
	 * When the latest chunk left that the peer has completely, on any path. Segments do not count, because a
	 * segment says nothing of the other segments of its chunk: they leave one after the other.
	 */
	uint64_t newest_ns;
	uint64_t prev_newest_ns; /* that before the present block, */
	uint64_t prev_high_csn;	/* and one behind the highest chunk that had come */
	/* How much later a chunk came than one that left after it, at most: in the present period, in the last one. */
	uint64_t late_ns[2];
	uint64_t period_ns, period_csn; /* the present period began then, with this chunk */
	bool learnt;		/* a whole period was seen, so late_ns says what is usual */
};

/* How long after a chunk left what may be concluded. */
struct uccl_rack_waits {
	uint64_t way_ns;	/* it may be on its way so long */
	uint64_t proof_ns;	/* it is lost if something arrived that left so much later */
	uint64_t ask_ns;	/* it may be asked for the first time */
};

enum uccl_rack_verdict {
	UCCL_RACK_KEEP,		/* nothing to do now */
	UCCL_RACK_ASK,		/* ask for it */
	UCCL_RACK_LOST
};

void uccl_rack_init(struct uccl_rack *r);
/* The rest of uccl_rack_dups: there are new ones, or what was learnt of others is to be forgotten. */
uint32_t uccl_rack_reordered(struct uccl_rack *r, uint32_t dups, uint64_t srtt_ns, uint64_t every_ns, uint64_t now);
/*
 * So many chunks came to the peer more than once: learn to wait, or forget some of it after a while. Returns how many
 * of them are news. srtt_ns: of the flow, 0: not known. every_ns: it learns to wait no more often than this.
 */
static inline uint32_t uccl_rack_dups(struct uccl_rack *r, uint32_t dups, uint64_t srtt_ns, uint64_t every_ns,
				      uint64_t now)
{
	if (dups == r->dups && !r->reorder_packets && !r->reorder_ns)
		return 0;
	return uccl_rack_reordered(r, dups, srtt_ns, every_ns, now);
}

/*
 * Once its own path was asked for a chunk in vain: may one that works be asked? Not if it was since the chunk was
 * overdue, at overdue_ns: the answer to one question speaks for all that were overdue then. PROTOCOL R55
 */
bool uccl_rack_ask(struct uccl_rack *r, uint64_t overdue_ns, uint64_t now);
/* The rest of uccl_rack_learn: it is over by the number of chunks. */
void uccl_rack_period(struct uccl_rack *r, uint64_t una, uint64_t srtt_ns, uint64_t now);
/* All before una has come by now: is the present period over? PROTOCOL R244 */
static inline void uccl_rack_learn(struct uccl_rack *r, uint64_t una, uint64_t srtt_ns, uint64_t now)
{
	if (!r->period_ns || una - r->period_csn >= UCCL_RACK_PERIOD_CHUNKS)
		uccl_rack_period(r, una, srtt_ns, now);
}

/* Other rails carry payload now: what is usual has to be learnt anew. PROTOCOL R378 */
static inline void uccl_rack_forget(struct uccl_rack *r)
{
	r->period_ns = 0;
	r->learnt = false;
}

/* The peer tells something new. high_csn: one behind the highest chunk that it has told of. */
static inline void uccl_rack_block(struct uccl_rack *r, uint64_t high_csn)
{
	r->prev_newest_ns = r->newest_ns;
	r->prev_high_csn = high_csn;
}

/* A chunk came that left once, then. If later ones came before it, it was late, if only by its place among them. */
static inline void uccl_rack_came(struct uccl_rack *r, uint64_t csn, uint64_t sent_ns)
{
	r->newest_ns = uccl_max(r->newest_ns, sent_ns);
	if (csn < r->prev_high_csn)
		r->late_ns[0] = uccl_max(r->late_ns[0], r->prev_newest_ns > sent_ns ? r->prev_newest_ns - sent_ns : 1);
}

/* The peer reports a packet that left at sent_ns; 0: that time is not known. */
static inline void uccl_rack_reported(struct uccl_rack *r, uint64_t sent_ns)
{
	r->reported_ns = uccl_max(r->reported_ns, sent_ns);
}

/* A packet that left `by` numbers later on the same path was reported. Is the overtaken one lost? PROTOCOL R52 */
static inline bool uccl_rack_proof(const struct uccl_rack *r, int64_t by)
{
	return by > r->reorder_packets;
}

/* How much later than the rest a chunk may come on its way: part of an RTT, or what was learnt of reordering. */
static inline uint64_t uccl_rack_margin(const struct uccl_rack *r, const struct uccl_times *t)
{
	return uccl_max(t->min_rtt_ns == UCCL_NEVER ? 0 : t->min_rtt_ns / 4, r->reorder_ns);
}

/*
 * The RTT and variation of the path, or of the flow if that is longer, and the reordering that was learnt. The
 * variation of a path with few samples is a guess, so it is taken as the flow's if that is less. `vars`: how many
 * variations of the path are added; of the flow twice as many are.
 */
static inline uint64_t uccl_rack_way(const struct uccl_rack *r, const struct uccl_path *p, const struct uccl_times *t,
				     uint32_t vars)
{
	uint64_t var = uccl_min(p->rttvar_ns, t->rttvar_ns);

	return uccl_max(p->srtt_ns + vars * var, t->srtt_ns + 2 * vars * t->rttvar_ns) + uccl_rack_margin(r, t);
}

/* How long a chunk may take on this path before it counts as late. PROTOCOL R402 */
static inline uint64_t uccl_rack_wait(const struct uccl_rack *r, const struct uccl_path *p, const struct uccl_times *t)
{
	return uccl_rack_way(r, p, t, 2);
}

/*
 * At the end of a transfer a chunk is lost if something arrived that left so much later. What arrived took the least
 * RTT itself, and half of the variations are enough: the end waits for what is found later. PROTOCOL R53
 */
static inline uint64_t uccl_rack_end_wait(const struct uccl_rack *r, const struct uccl_path *p,
					  const struct uccl_times *t)
{
	uint64_t least = t->min_rtt_ns == UCCL_NEVER ? 0 : t->min_rtt_ns;
	uint64_t rtt = uccl_max(p->srtt_ns, t->srtt_ns);
	uint64_t way = uccl_rack_way(r, p, t, rtt < UCCL_RACK_SHORT * least ? 1 : 2);

	return uccl_max(way - uccl_min(way, least), UCCL_RACK_LEAST_NS);
}

/*
 * The path of an overtaken chunk is asked so long after the chunk left. A path with few samples varies more by guess
 * than in truth, so the flow's variation counts. `last`: no new payload waits, so the end of the transfer waits for the
 * answer. UCCL_NEVER: not known; or packets overtake each other, so the answer proves nothing by its order.
 * PROTOCOL R399
 */
static inline uint64_t uccl_rack_ask_wait(const struct uccl_rack *r, const struct uccl_times *t, bool last)
{
	if (!t->srtt_ns || r->reorder_packets)
		return UCCL_NEVER;
	return (last ? t->min_rtt_ns : t->srtt_ns + 2 * t->rttvar_ns) + uccl_rack_margin(r, t);
}

/*
 * A chunk is lost if a packet that left this much later has come: twice the reordering seen lately, and the margin.
 * UCCL_NEVER: not known. PROTOCOL R244
 */
static inline uint64_t uccl_rack_soon(const struct uccl_rack *r, const struct uccl_times *t)
{
	if (!r->learnt || t->min_rtt_ns == UCCL_NEVER)
		return UCCL_NEVER;
	return 2 * uccl_max(r->late_ns[0], r->late_ns[1]) + uccl_max(UCCL_RACK_LEAST_NS, uccl_rack_margin(r, t));
}

/* Does everything come in order, as far as is known? */
static inline bool uccl_rack_ordered(const struct uccl_rack *r)
{
	return r->learnt && !r->late_ns[0] && !r->late_ns[1] && !r->reorder_ns;
}

/*
 * A chunk in flight that left at sent_ns and is the `behind`th of those up to the highest that came: later ones came by
 * more than is usual. `once`: it left once, so in the order of its number.
 */
static inline bool uccl_rack_overdue(const struct uccl_rack *r, uint64_t sent_ns, uint64_t soon_ns, bool once,
				     uint64_t behind)
{
	if (r->newest_ns > sent_ns && r->newest_ns - sent_ns >= soon_ns)
		return true;
	/* What left in one instant has nothing but its order. Segments of a chunk may have left after the next one. */
	return once && behind > UCCL_RACK_BEHIND && uccl_rack_ordered(r) && r->newest_ns >= sent_ns;
}

static inline void uccl_rack_look(struct uccl_rack *r)
{
	r->at = UCCL_NEVER;
}

/*
 * A chunk in flight that left at sent_ns, before the latest that was reported; it was asked for so often since.
 * `answered`: it was in flight in a time-out, and the peer has answered since: it had its time. Otherwise the clock
 * convicts nothing, the peer may be busy: a chunk is lost when something arrived that left late enough; until then it
 * is asked for, UCCL_RACK_ASKS times. PROTOCOL R53 R55
 */
static inline enum uccl_rack_verdict uccl_rack_judge(struct uccl_rack *r, uint64_t sent_ns,
						     const struct uccl_rack_waits *w, uint8_t asked, bool answered,
						     uint64_t now)
{
	enum uccl_rack_verdict verdict = UCCL_RACK_KEEP;

	if (answered) {
		if (now >= sent_ns + w->way_ns)
			return UCCL_RACK_LOST;
		r->at = uccl_min(r->at, sent_ns + w->way_ns);
		return UCCL_RACK_KEEP;
	}
	if (r->reported_ns - sent_ns >= w->proof_ns)
		return UCCL_RACK_LOST;
	if (asked < UCCL_RACK_ASKS && now >= sent_ns + (asked ? 2 * w->proof_ns : w->ask_ns)) {
		asked++;
		verdict = UCCL_RACK_ASK;
	}
	if (asked < UCCL_RACK_ASKS)
		r->at = uccl_min(r->at, sent_ns + (asked ? 2 * w->proof_ns : w->ask_ns));
	return verdict;
}

#endif
