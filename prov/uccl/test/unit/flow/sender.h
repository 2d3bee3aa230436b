/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What the tests of the files of flow/send/tx_internal.h share: a pair whose side 0 sends, with a window, a pace and
 * credit that the test sets. Each test program has one of its own.
 */
#ifndef UCCL_TEST_UNIT_FLOW_SENDER_H
#define UCCL_TEST_UNIT_FLOW_SENDER_H

#include "one_pair.h"

#include "base/seq.h"

/* A congestion window that the test sets, and a pacer. */
static uint64_t cc_bytes, cc_gap_ns;

static inline uint64_t set_window(const void *cc)
{
	return cc_bytes;
}

static inline void set_init(void *cc, const struct uccl_policy_cfg *cfg, uint64_t now)
{
}

static inline uint64_t set_pace(void *cc, uint32_t bytes, uint64_t srtt_ns, uint64_t now)
{
	return now + cc_gap_ns;
}

static const struct uccl_cc_ops cc_set = {.init = set_init, .window = set_window, .pace = set_pace};

/* Credit that the test gives. */
static uint64_t credit_limit;

static inline uint64_t set_limit(const void *cs)
{
	return credit_limit;
}

static inline void set_credit(void *cs, uint64_t granted, uint64_t turn, uint64_t now)
{
	credit_limit = uccl_max(credit_limit, granted);
}

/* The test gives, nobody else. */
static inline uint64_t set_grant(void *cs, uint64_t received, uint64_t demand, uint64_t now)
{
	return 0;
}

static const struct uccl_credit_ops credit_set = {.limit = set_limit, .on_credit = set_credit, .grant = set_grant};

/* Paced credit, of which the test holds the pacer: it grants nothing by itself. */
static inline void set_pull(const struct uccl_policy_cfg *cfg, struct uccl_pull_cfg *pull)
{
	*pull = (struct uccl_pull_cfg){.quantum = KIB, .idle = 0, .window = 0};
}

static const struct uccl_credit_ops credit_pull = {.limit = set_limit, .on_credit = set_credit, .pull = set_pull};

static inline int on_wire(int to, uint8_t type)
{
	int n = 0;

	for (uint32_t i = 0; i < p.nwire; i++)
		n += p.wire[i]->kind == UCCL_RX_PACKET && p.wire[i]->to == to && p.wire[i]->h.type == type;
	return n;
}

/* A raw chunk arrives at side 0, so that it owes something. */
static inline void feed_raw(uint64_t csn, uint16_t path, uint32_t pseq, uint8_t flags)
{
	struct uccl_hdr h = {.type = UCCL_PKT_CHUNK,
			     .rtype = PAIR_RAW,
			     .flags = flags,
			     .csn = (uint32_t)csn,
			     .path = path,
			     .pseq = pseq};

	pair_feed(&p, 0, &h, NULL, NULL);
}

static inline struct pair_cfg pair_trains(void)
{
	struct pair_cfg c = pair_packets();

	c.window = c.slots = 4096;
	c.train_bytes = 64 * KIB;
	return c;
}

#endif
