/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* link_share.c: the engine's share of the link. */
#ifndef UCCL_ENGINE_LOOP_LINK_SHARE_IMPL_H
#define UCCL_ENGINE_LOOP_LINK_SHARE_IMPL_H

#include "base/heap.h"
#include "base/load_table.h"
#include "flow/send/pacer.h"

struct uccl_engine;
struct uccl_engine_attr;

/* A part of struct uccl_engine. */
struct engine_share {
	uint32_t (*sharers)(void *arg, uint64_t now);	/* of the line rate */
	void *sharers_arg;
	struct uccl_load_table *load;	/* the endpoint's, of the primary and all lanes; NULL: it has no lanes */
	uint8_t load_entry;		/* there */
	struct uccl_tuple_budget *tuples; /* of the process; NULL: no limit */
	struct uccl_pacer pacer;	/* of credits to our senders */
	struct uccl_timer pacer_timer;
	uint64_t sharers_at;		/* when to count again the endpoints that share the line rate */
	uint32_t nsharers;		/* their number at the last time, this endpoint included */
	uint64_t load_at;		/* when to look at `load` again; UCCL_NEVER: there is none */
	uint64_t moved[UCCL_LOAD_DIRS]; /* bytes of payload when we last did, */
	uint32_t nbusy[UCCL_LOAD_DIRS]; /* and as how many engines of this endpoint all were busy */
};

void engine_share_init(struct engine_share *s, const struct uccl_engine_attr *attr);
/* An endpoint and its lanes share the link. They own `load` from now on, where each tells how busy it is. */
void engine_share_lanes(struct engine_share *s, struct uccl_engine *const *lane, uint8_t n,
			struct uccl_load_table *load);
/* The engine writes into the load table what it moved lately, and reads how busy the others are. PROTOCOL R289 */
void engine_load_update(struct uccl_engine *e, uint64_t now);
/* Count again the endpoints that hand out credit for the same link. */
void engine_link_share(struct uccl_engine *e, uint64_t now);

#endif
