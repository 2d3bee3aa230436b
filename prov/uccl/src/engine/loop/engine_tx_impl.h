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
	uint8_t init_buf[UCCL_INIT_MAX];
};

/* A message of `len` bytes waits for others to join it. Returns the bytes of all that wait. */
static inline uint32_t conn_tx_gather(struct conn_tx *t, uint64_t len)
{
	return t->gathered += (uint32_t)len;
}

void engine_tx(struct uccl_engine *e, uint64_t now);

#endif
