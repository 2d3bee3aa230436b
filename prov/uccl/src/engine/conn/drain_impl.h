/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* drain.c: an endpoint closes. */
#ifndef UCCL_ENGINE_CONN_DRAIN_IMPL_H
#define UCCL_ENGINE_CONN_DRAIN_IMPL_H

#include "engine/conn/conn_state_impl.h"

/* A part of struct conn; see conn_drain_set(). */
struct conn_drain {
	TAILQ_ENTRY(conn) link;
	struct conn_list *list;		/* close_unsent or close_sent of engine_drain; NULL: in none */
};

/* A part of struct uccl_engine. */
struct engine_drain {
	uint64_t began_ns;		/* 0: open; else when draining began */
	struct conn_list close_unsent, close_sent; /* draining: CLOSE is to leave; it left, and may be answered */
};

static inline void engine_drain_init(struct engine_drain *d)
{
	TAILQ_INIT(&d->close_unsent);
	TAILQ_INIT(&d->close_sent);
}

/* Tell those peers that have all of what was accepted for them. */
void engine_drain_step(struct uccl_engine *e, uint64_t now);

#endif
