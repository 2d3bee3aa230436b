/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Part of a flow: the direct writes that a descriptor announced and that have not left yet. They follow it without a
 * gap, so nothing else that is new leaves before them, and there is one such run at a time.
 *
 * The grammar: all zero at first. While there is no `item`: `cut` a run of bytes for a descriptor, and `begin` when
 * that leaves; then `next` before each write and `left` when it leaves, until the last.
 */
#ifndef UCCL_FLOW_WRITE_WRITE_TX_H
#define UCCL_FLOW_WRITE_WRITE_TX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/units.h"
#include "flow/wire/wire.h"

struct uccl_item;

/* Direct writes of a flow, both ways. */
struct uccl_write_cfg {
	uint32_t bytes;		/* payload of the largest write, 0: none */
	bool brittle;		/* the peer's path ends with the loss of a part of a longer write */
	bool later;		/* no path carries writes before uccl_flow_set_writable says so */
	bool async;		/* NIC: payload of writes is free only when uccl_flow_sent() says so */
	bool fifo;		/* paths keep the order of writes: so the operator says */
};

struct uccl_write_tx {
	struct uccl_item *item;	/* whose bytes they are, the flow's; NULL: there are none */
	uint64_t csn;		/* of the descriptor */
	uint64_t end;		/* of the run, from the item's start */
	uint32_t chunk;		/* bytes of each but the last */
	uint32_t left;		/* writes to leave */
};

/* Cut at most `most` writes of `chunk` bytes, the last perhaps shorter, from a run of `run` bytes, and fill in `d`. */
static inline void uccl_write_tx_cut(struct uccl_desc *d, uint64_t run, uint32_t chunk, uint64_t most)
{
	d->count = (uint32_t)uccl_min(most, (run + chunk - 1) / chunk);
	d->chunk = chunk;
	d->len = uccl_min(run, (uint64_t)d->count * chunk);
}

/* Such a descriptor left as chunk csn: it is about the item's bytes from `off` on. */
static inline void uccl_write_tx_begin(struct uccl_write_tx *a, struct uccl_item *item, uint64_t csn, uint64_t off,
				       const struct uccl_desc *d)
{
	*a = (struct uccl_write_tx){.item = item, .csn = csn, .end = off + d->len, .chunk = d->chunk, .left = d->count};
}

/* Bytes of the next write, which begins at `off`. */
static inline uint32_t uccl_write_tx_next(const struct uccl_write_tx *a, uint64_t off)
{
	return (uint32_t)uccl_min(a->chunk, a->end - off);
}

/* The next write leaves. With the last one the run is over: there is no `item`. */
static inline void uccl_write_tx_left(struct uccl_write_tx *a)
{
	if (!--a->left)
		a->item = NULL;
}

#endif
