/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* poll.c: what a poll does. */
#ifndef UCCL_ENGINE_LOOP_POLL_IMPL_H
#define UCCL_ENGINE_LOOP_POLL_IMPL_H

#include <stdbool.h>
#include <stdint.h>

/* A part of struct uccl_engine. */
struct engine_poll {
	bool polling;			/* inside poll: sends posted by callbacks wait for its end */
	bool may_gather;		/* see uccl_engine_attr */
	uint64_t behind_ns;		/* since when each poll has left something in the NIC's queue; 0: not */
	uint64_t polled_ns;		/* the last poll */
	uint64_t posted;		/* bytes that the program gave us to send since */
	uint64_t away_ns;		/* in all: how late polls were for a timer, if that was not little */
};

static inline void engine_poll_init(struct engine_poll *p, bool may_gather, uint64_t now)
{
	p->may_gather = may_gather;
	p->polled_ns = now;
}

/* The program posts `bytes` bytes to send. */
static inline void engine_posted(struct engine_poll *p, uint64_t bytes)
{
	p->posted += bytes;
}

#endif
