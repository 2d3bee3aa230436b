/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "../snapshots.h"
#include "../../tests.h"

TEST(engine_snapshot__what_the_engine_knows)
{
	struct lan *l = talked(2);
	const struct uccl_flow *f = &lan_conn(l, 0, 1)->peer.flow;
	const struct uccl_snapshot_peer *p;
	uint64_t packets = 0;
	size_t n;

	n = uccl_engine_snapshot(l->node[0].e, &block.v, sizeof(block), f->rx.heard_ns + 5);
	assert_int_equal(n, block.v.bytes);
	assert_true(block.v.magic == UCCL_SNAPSHOT_MAGIC);
	assert_int_equal(block.v.stats.tx_bytes, uccl_engine_stats(l->node[0].e)->tx_bytes);
	assert_int_equal(block.v.nopen, 1);
	assert_int_equal(peers(&block.v), 1);
	p = uccl_snapshot_first(&block.v);
	assert_int_equal(p->port, 4001);
	assert_int_equal(p->state, UCCL_SNAPSHOT_OPEN);
	assert_int_equal(p->srtt_ns, f->loss.times.srtt_ns);
	assert_int_equal(p->heard_ago_ns, 5);
	assert_int_equal(p->slots, f->limits.slots);
	for (uint16_t i = 0; i < p->npaths; i++) {
		assert_true(uccl_snapshot_paths(p)[i].packets > 0);
		packets += uccl_snapshot_paths(p)[i].packets;
	}
	assert_in_range(packets, 1, uccl_engine_stats(l->node[0].e)->tx_packets);
	lan_free(l);
}

/* Whatever room there is: whole peers, a true count of the others, not a byte beyond. */
LAN_TEST(engine_snapshot__any_room, talked(4))
{
	size_t all;

	assert_int_equal(uccl_engine_snapshot(l->node[0].e, &block.v, sizeof(block.v) - 1, l->now), 0);
	all = uccl_engine_snapshot(l->node[0].e, &block.v, sizeof(block), l->now);
	assert_int_equal(block.v.npeers, 3);
	for (size_t room = sizeof(block.v); room <= all; room += 8) {
		size_t n;

		memset(&block, 0x5a, sizeof(block));
		n = uccl_engine_snapshot(l->node[0].e, &block.v, room, l->now);
		assert_in_range(n, sizeof(block.v), room);
		assert_int_equal(block.v.npeers + block.v.left_out, 3);
		assert_int_equal(peers(&block.v), block.v.npeers);
		assert_int_equal(block.words[room / 8], 0x5a5a5a5a5a5a5a5aull);
	}
	assert_int_equal(block.v.npeers, 3);
}

/* A damaged block: nothing beyond its bytes is looked at. */
LAN_TEST(snapshot_next__contradictions, talked(2))
{
	struct uccl_snapshot_peer *p;

	uccl_engine_snapshot(l->node[0].e, &block.v, sizeof(block), l->now);
	p = (struct uccl_snapshot_peer *)uccl_snapshot_first(&block.v);
	assert_null(uccl_snapshot_next(&block.v, p));
	p->npaths++;
	assert_null(uccl_snapshot_first(&block.v));
	p->npaths--;
	block.v.bytes = sizeof(block.v) + sizeof(*p) - 1;
	assert_null(uccl_snapshot_first(&block.v));
	block.v.bytes = 0;
	assert_null(uccl_snapshot_first(&block.v));
}

TEST(engine_snapshot__ended)
{
	struct lan *l = talked(2);
	const struct uccl_snapshot_peer *p;

	conn_fail(lan_conn(l, 0, 1), FI_ECONNABORTED, l->now);
	uccl_engine_snapshot(l->node[0].e, &block.v, sizeof(block), l->now);
	p = uccl_snapshot_first(&block.v);
	assert_int_equal(p->state, UCCL_SNAPSHOT_ENDED);
	assert_true(p->npaths > 0);
	assert_int_equal(p->inflight_bytes, 0);
	lan_free(l);
}

TESTS_MAIN
