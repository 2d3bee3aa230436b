/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What tests share that run one pair of flows at a time. Each test program has a pair of its own. A test begins it by
 * `start`, and `end` ends it behind the test: TEST_IN(test, NULL, end), or both in one: PAIR_TEST(test, configuration).
 */
#ifndef UCCL_TEST_UNIT_FLOW_ONE_PAIR_H
#define UCCL_TEST_UNIT_FLOW_ONE_PAIR_H

#include "pair.h"

#include "../tests.h"

#include <string.h>

#include "flow/internal.h"
#include "policy/policies.h"

#define KIB 1024u
#define US UCCL_NS_PER_US
#define MS UCCL_NS_PER_MS

static struct pair p;

static inline void start(struct pair_cfg cfg)
{
	pair_init(&p, &cfg);
}

static inline int end(void **state)
{
	if (p.side[0].pair)
		pair_fini(&p);
	return 0;
}

#define PAIR_TEST(name, cfg)                                                                                           \
	static int name##__start(void **state)                                                                         \
	{                                                                                                              \
		start(cfg);                                                                                            \
		return 0;                                                                                              \
	}                                                                                                              \
	TEST_IN(name, name##__start, end)

/* The flow of the side that sends, mostly, and of the other. */
static inline struct uccl_flow *tx(void)
{
	return &p.side[0].f;
}

static inline struct uccl_flow *rx(void)
{
	return &p.side[1].f;
}

static inline const struct uccl_stats *stats(int side)
{
	return &p.side[side].stats;
}

/* The first CSN of side 0. */
static inline uint64_t base(void)
{
	return p.cfg.csn[0];
}

static inline void lose_all(void)
{
	while (p.nwire)
		pair_lose(&p, 0);
}

#endif
