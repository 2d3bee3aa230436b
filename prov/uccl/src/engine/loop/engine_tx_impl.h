/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* engine_tx.c: flows take turns. */
#ifndef UCCL_ENGINE_LOOP_ENGINE_TX_IMPL_H
#define UCCL_ENGINE_LOOP_ENGINE_TX_IMPL_H

#include "flow/wire/conn.h"

struct uccl_engine;

/* A part of struct conn. */
struct conn_tx {
	int32_t turn;			/* bytes left of its turn among peers; < 0: of the next one, taken already */
	uint32_t gathered;		/* bytes of messages that wait for others to fill a train */
	uint32_t streamed;		/* short messages that were posted in a row, and nothing came between them */
	uint32_t streamed_chunks;	/* that had come then, */
	uint64_t streamed_ns;		/* when the last of them was */
	uint64_t waits_ns;		/* gathered > 0: when the first of these messages was posted */
	uint8_t init_buf[UCCL_INIT_MAX];
};

/* A message of `len` bytes waits for others to join it. Returns the bytes of all that wait. */
static inline uint32_t conn_tx_gather(struct conn_tx *t, uint64_t len, uint64_t now)
{
	if (!t->gathered)
		t->waits_ns = now;
	return t->gathered += (uint32_t)len;
}

/*
 * A short message is posted. Returns how many short messages were posted before it in a row, each at most `soon_ns`
 * after the one before. `chunks`: how many chunks the endpoint has received. A chunk ends the row, because the next
 * message may be an answer to it.
 */
static inline uint32_t conn_tx_stream(struct conn_tx *t, uint32_t chunks, uint64_t soon_ns, uint64_t now)
{
	uint32_t before = now - t->streamed_ns <= soon_ns && chunks == t->streamed_chunks ? t->streamed : 0;

	t->streamed_chunks = chunks;
	t->streamed_ns = now;
	t->streamed = before + (before < UINT32_MAX);
	return before;
}

void engine_tx(struct uccl_engine *e, uint64_t now);

#endif
