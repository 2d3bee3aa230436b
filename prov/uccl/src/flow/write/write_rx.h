/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Part of a flow: where direct writes of the peer land. A descriptor announces a run of chunks; a write that comes
 * before it is held; and a chunk that was completed by segments that were sent again leaves a doubt, because its write
 * may still land. A doubt ends when the write comes, when its path is fenced, when its place is closed, or, while paths
 * count as FIFO, with a later write on its path.
 *
 * The grammar: init. `check`, then `announce`, for a descriptor; `came` for each write, then `again` if its chunk is
 * here already, `hold` if nobody announced it, else `take`; `rewrite` for segments that are sent again and, if they
 * completed their chunk, `rewrite_end`; `release` for the chunks of a new descriptor; `forget` and `age` for each chunk
 * that is here, by a write or in packets. `fenced` and `forgive` end doubts, `fence` asks for a fence.
 */
#ifndef UCCL_FLOW_WRITE_WRITE_RX_H
#define UCCL_FLOW_WRITE_WRITE_RX_H

#include <stdbool.h>
#include <stdint.h>

#include "base/units.h"
#include "flow/recv/arrived.h"
#include "flow/observe/stats.h"
#include "flow/wire/wire.h"

/* Writes that may come after their place was closed are remembered, this many. More count as doubled by the network. */
#define UCCL_CLOSED_DOUBTS 64
/* Old doubts are looked for every this many chunks: they are few and rare. */
#define UCCL_WRITE_RX_SCAN 65536

struct uccl_write_rx;

struct uccl_write_rx_ops {
	/* The doubt about one chunk of handle id is over. */
	void (*settled)(struct uccl_write_rx *l, uint32_t id, uint32_t gen, uint64_t now);
	/* Please make the NIC fence this path and call uccl_write_rx_fenced, now or later. */
	void (*fence)(struct uccl_write_rx *l, uint16_t path, uint64_t now);
};

struct uccl_write_rx_cfg {
	uint32_t window;	/* chunks, a power of two */
	uint32_t write_bytes;	/* of the largest write; 0: there are none, and nothing is announced */
	uint16_t paths;		/* on which the peer writes */
	bool fifo;		/* they keep order, says the operator */
	struct uccl_stats *stats;
	const struct uccl_write_rx_ops *ops;
};

/* A write that arrived before its descriptor; one for each CSN in the receive window. */
struct uccl_early_write {
	uint64_t came_ns;	/* when it arrived */
	uint32_t len;		/* its bytes */
	uint16_t path;		/* on which it came */
	bool held;		/* there is such a write; else the rest is 0 */
};

/* An accepted descriptor whose chunks are not all received. */
struct uccl_rx_desc {
	uint64_t first;		/* CSN */
	struct uccl_desc d;
	uint32_t left;
};

/* A chunk that was completed by packets while its write was not seen. */
struct uccl_in_doubt {
	uint64_t csn;
	uint32_t id, gen;
	uint16_t path;
};

/* A chunk that is sent again, as one of its segments has it. */
struct uccl_rewrite {
	uint64_t csn;
	uint64_t at;		/* first byte of the message */
	uint32_t id, gen;	/* of the message */
	uint32_t len;
	uint16_t path; /* of the write that it replaces */
};

struct uccl_write_rx {
	struct uccl_early_write *early; /* window entries, indexed by CSN; NULL: there are no direct writes */
	struct uccl_rx_desc *descs; /* window entries */
	struct uccl_in_doubt *in_doubt; /* likewise */
	uint32_t ndescs, ndoubts;
	uint32_t window, write_bytes;
	uint16_t npaths;
	uint16_t fencing;	/* path + 1 that is fenced to make room for doubts; 0: none */
	uint64_t closed[UCCL_CLOSED_DOUBTS]; /* CSN + 1 of doubts that ended with their place; 0: free */
	uint8_t nclosed;	/* index of the entry that is overwritten next */
	uint8_t rtype;		/* record type that msg sees for a chunk that came by direct write */
	bool fifo;		/* paths still count as FIFO */
	bool off;		/* duplicates by the network were seen: write no more to us */
	struct uccl_stats *stats;
	const struct uccl_write_rx_ops *ops;
};

/* False: no memory. */
bool uccl_write_rx_init(struct uccl_write_rx *l, const struct uccl_write_rx_cfg *cfg);
void uccl_write_rx_fini(struct uccl_write_rx *l);

/* Can the well-formed descriptor in chunk csn be taken, after what has arrived? UCCL_DROP_COUNT, or why not. */
enum uccl_drop uccl_write_rx_check(const struct uccl_write_rx *l, const struct uccl_arrived *rcv, uint64_t csn,
				   const struct uccl_desc *d);
/* Take in the descriptor: the chunks after `csn` are direct writes. */
void uccl_write_rx_announce(struct uccl_write_rx *l, uint64_t csn, const struct uccl_desc *d);
/* If a write of chunk csn was held, *held is what is known of it, and it is held no more. */
bool uccl_write_rx_release(struct uccl_write_rx *l, uint64_t csn, struct uccl_early_write *held);

/* See uccl_write_rx_came: there are doubts, or paths are no FIFO. */
bool uccl_write_rx_settle(struct uccl_write_rx *l, uint64_t csn, uint16_t path, bool overtaken, uint64_t now);
/*
 * It is of a chunk that is here. True: that was expected, as it `had_doubt` or its place was closed, and is so once.
 * False: the network doubled it, nobody is to write to us any more. PROTOCOL R27
 */
bool uccl_write_rx_again(struct uccl_write_rx *l, uint64_t csn, bool had_doubt);
/* The write waits for its descriptor. False: one waits already, so the network doubled this one. */
bool uccl_write_rx_hold(struct uccl_write_rx *l, uint64_t csn, uint32_t len, uint16_t path, uint64_t now);

/*
 * Segments of it came. UCCL_DROP_COUNT: they are to be delivered; if the chunk is `whole` with them,
 * uccl_write_rx_rewrite_end says what came of that. The doubt is there before delivery, because the message that this
 * chunk completes asks for fences of all its doubts. Else why they are refused; UCCL_DROP_MEMORY: now.
 */
enum uccl_drop uccl_write_rx_rewrite(struct uccl_write_rx *l, const struct uccl_rewrite *w, bool whole, uint64_t now);
/* `reason`: what delivery said; `passed`: a later write has come on its path. */
void uccl_write_rx_rewrite_end(struct uccl_write_rx *l, const struct uccl_rewrite *w, enum uccl_drop reason,
			       bool passed, uint64_t now);

/* No earlier write on this path can land any more. */
void uccl_write_rx_fenced(struct uccl_write_rx *l, uint16_t path, uint64_t now);
/* The place of this message was closed: its doubts are over without an upcall, and their writes may come late. */
void uccl_write_rx_forgive(struct uccl_write_rx *l, uint32_t id, uint32_t gen);
/* Ask for fences on every path that has a doubt about this message. */
void uccl_write_rx_fence(struct uccl_write_rx *l, uint32_t id, uint32_t gen, uint64_t now);
/* Ask for fences of the doubts that are too old for their numbers: chunk csn is here. PROTOCOL R146 */
void uccl_write_rx_fence_old(struct uccl_write_rx *l, uint64_t csn, uint64_t now);

/* Record type of chunks that come by direct write. */
static inline void uccl_write_rx_rtype(struct uccl_write_rx *l, uint8_t rtype)
{
	l->rtype = rtype;
}

/* What is known of this one of the window; only with direct writes. */
static inline struct uccl_early_write *uccl_write_rx_early(const struct uccl_write_rx *l, uint64_t csn)
{
	return &l->early[csn & (l->window - 1)];
}

/* The descriptor that announced chunk csn; NULL: none that has chunks to come. */
static inline struct uccl_rx_desc *uccl_write_rx_desc(const struct uccl_write_rx *l, uint64_t csn)
{
	for (uint32_t i = 0; i < l->ndescs; i++)
		if (csn >= l->descs[i].first && csn - l->descs[i].first < l->descs[i].d.count)
			return &l->descs[i];
	return NULL;
}

/* Offset of its chunk csn from the descriptor's begin, and its length. */
static inline uint32_t uccl_write_rx_chunk(const struct uccl_rx_desc *d, uint64_t csn, uint64_t *off)
{
	*off = (csn - d->first) * d->d.chunk;
	return (uint32_t)uccl_min(d->d.chunk, d->d.len - *off);
}

/* A chunk that `d` announced is here. */
static inline void uccl_write_rx_take(struct uccl_write_rx *l, struct uccl_rx_desc *d)
{
	if (!--d->left)
		*d = l->descs[--l->ndescs];
}

/* Chunk csn is here. Forget what is known of it, because the chunk a window later uses the same entry. */
static inline void uccl_write_rx_forget(struct uccl_write_rx *l, uint64_t csn)
{
	if (l->early)
		*uccl_write_rx_early(l, csn) = (struct uccl_early_write){0};
}

/*
 * A write came on this path; `overtaken`: a later one had come before it, so paths are no FIFO. Doubts that it settles
 * end. True: that of its own chunk did.
 */
static inline bool uccl_write_rx_came(struct uccl_write_rx *l, uint64_t csn, uint16_t path, bool overtaken,
				      uint64_t now)
{
	return (l->ndoubts || overtaken) && uccl_write_rx_settle(l, csn, path, overtaken, now);
}

/* Now and then: doubts that are too old end. */
static inline void uccl_write_rx_age(struct uccl_write_rx *l, uint64_t csn, uint64_t now)
{
	if (l->ndoubts && csn % UCCL_WRITE_RX_SCAN == 0)
		uccl_write_rx_fence_old(l, csn, now);
}

#endif
