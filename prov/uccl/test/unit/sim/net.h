/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* A small fabric, packets by hand, and what became of them. */
#ifndef UCCL_TEST_SIM_NET_H
#define UCCL_TEST_SIM_NET_H

#include "sim/fabric.h"

static struct {
	uint32_t delivered, lost, sent, marked, trimmed;
	uint32_t runs, last_lost; /* losses that did not follow upon a loss */
	uint64_t at[4096];	  /* ps, of the latest packet to a host */
	uint32_t order[64];
} got;

static inline void on_deliver(struct uccl_fab *n, struct uccl_fab_pkt *p)
{
	if (got.delivered < 64)
		got.order[got.delivered] = p->part;
	got.delivered++;
	got.marked += p->ecn;
	got.trimmed += p->trimmed;
	got.at[p->dst] = n->q.now;
	uccl_fab_pkt_free(n, p);
}

static inline void on_lost(struct uccl_fab *n, struct uccl_fab_pkt *p)
{
	got.lost++;
	got.runs += p->part != got.last_lost + 1;
	got.last_lost = p->part;
	uccl_fab_pkt_free(n, p);
}

static inline void on_sent(struct uccl_fab *n, uint32_t host, struct uccl_fab_pkt *p)
{
	assert_int_equal(host, p->src);
	got.sent++;
}

static const struct uccl_fab_ops ops = {.deliver = on_deliver, .lost = on_lost, .sent = on_sent};

static inline struct uccl_fab_topo tree(uint8_t tiers)
{
	return (struct uccl_fab_topo){
		.tiers = tiers,
		.hosts = tiers == 3 ? 54 : 32,
		.hosts_per_tor = tiers == 3 ? 3 : 4,
		.tors_per_pod = 3,
		.spines = tiers == 3 ? 3 : 4,
		.cores_per_agg = 3,
		.host_bps = 400000000000ull,
		.up_bps = 200000000000ull,
		.delay_ps = 500000,
		.queue_bytes = 100000,
		.trim_bytes = 100,
	};
}

/* What a test opens and runs, closed after it. Each begins with two tiers. */
static struct uccl_fab_topo t;
static struct uccl_fab n;

static inline int close_tree(void **state)
{
	uccl_fab_fini(&n);
	memset(&n, 0, sizeof(n));
	return 0;
}

static inline int two_tiers(void **state)
{
	t = tree(2);
	return close_tree(state);
}

static inline void open_tree(uint64_t seed)
{
	close_tree(NULL);
	memset(&got, 0, sizeof(got));
	assert_int_equal(uccl_fab_init(&n, &t, &ops, seed), 0);
}

static inline void tree_refused(void)
{
	close_tree(NULL);
	assert_int_not_equal(uccl_fab_init(&n, &t, &ops, 1), 0);
}

static inline void send(uint32_t src, uint32_t dst, uint32_t bytes, uint16_t sport, int cls, uint32_t part)
{
	struct uccl_fab_pkt *p = uccl_fab_pkt_new(&n);

	p->src = src;
	p->dst = dst;
	p->bytes = bytes;
	p->sport = sport;
	p->cls = (uint8_t)cls;
	p->part = part;
	uccl_fab_send(&n, p);
}

static inline void run(void)
{
	while (uccl_fab_step(&n))
		;
	assert_int_equal(n.pkts.used, 0);
}

#endif
