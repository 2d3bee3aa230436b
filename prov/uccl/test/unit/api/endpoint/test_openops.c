/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "../world.h"

#include "flow/wire/addr.h"
#include "../../tests.h"

static struct fi_uccl_ops_ep *ops_open(struct node *n)
{
	struct fi_uccl_ops_ep *ops = NULL;

	assert_int_equal(fi_open_ops(&n->ep->fid, FI_UCCL_OPS_EP, 0, (void **)&ops, NULL), 0);
	assert_non_null(ops);
	assert_int_equal(ops->size, sizeof(*ops));
	return ops;
}

WORLD_TEST(open__names, world, w)
{
	struct fi_uccl_ops_ep *ops;
	struct fi_uccl_stats st;
	struct fid_ep *ep;
	const char *why;
	uint64_t count;
	struct node n;

	node_open(&n, w);
	assert_int_equal(fi_open_ops(&n.ep->fid, "something", 0, (void **)&ops, NULL), -FI_ENOSYS);
	assert_int_equal(fi_open_ops(&n.ep->fid, FI_UCCL_OPS_EP, 1, (void **)&ops, NULL), -FI_EINVAL);
	assert_int_equal(fi_open_ops(&n.cq->fid, FI_UCCL_OPS_EP, 0, (void **)&ops, NULL), -FI_ENOSYS);
	/* not enabled */
	assert_int_equal(fi_endpoint(w->domain, w->info, &ep, NULL), 0);
	assert_int_equal(fi_open_ops(&ep->fid, FI_UCCL_OPS_EP, 0, (void **)&ops, NULL), 0);
	assert_int_equal(ops->stats(ep, &st, sizeof(st)), -FI_EOPBADSTATE);
	assert_int_equal(ops->peers(ep, NULL, 0, 0), -FI_EOPBADSTATE);
	assert_int_equal(ops->dropped(ep, 0, &why, &count), -FI_EOPBADSTATE);
	assert_int_equal(fi_close(&ep->fid), 0);
	node_close(&n);
}

/* What a conversation leaves in the counters, and what is known of a peer after it. */
WORLD_TEST(stats__of_a_conversation, world, w)
{
	struct fi_uccl_stats st, part;
	struct fi_uccl_ops_ep *ops;
	struct fi_uccl_peer peer;
	struct node a, b;
	uint8_t v4[4] = { 127, 0, 0, 1 };
	static uint8_t out[50000], in[50000];
	fi_addr_t to_b;

	node_open(&a, w);
	node_open(&b, w);
	ops = ops_open(&a);
	assert_int_equal(ops->stats(a.ep, &st, sizeof(st)), 0);
	assert_int_equal(st.tx_packets, 0);
	assert_int_equal(st.peers, 0);
	assert_int_equal(ops->peers(a.ep, &peer, 1, sizeof(peer)), 0);
	to_b = node_insert(&a, &b);
	assert_int_equal(fi_recv(b.ep, in, sizeof(in), NULL, FI_ADDR_UNSPEC, in), 0);
	assert_int_equal(fi_send(a.ep, out, sizeof(out), NULL, to_b, out), 0);
	node_expect(&b, &a, in, FI_RECV | FI_MSG);
	node_expect(&a, &b, out, FI_SEND | FI_MSG);
	assert_int_equal(ops->stats(a.ep, &st, sizeof(st)), 0);
	assert_true(st.tx_packets > 0);
	assert_int_equal(st.tx_bytes, sizeof(out));
	assert_int_equal(st.connects, 1);
	assert_int_equal(st.peers, 1);
	assert_int_equal(st.peers_open, 1);
	assert_int_equal(ops_open(&b)->stats(b.ep, &st, sizeof(st)), 0);
	assert_int_equal(st.rx_bytes, sizeof(in));
	/* A caller that knows the first two fields only. */
	memset(&part, 0xee, sizeof(part));
	assert_int_equal(ops->stats(a.ep, &part, 16), 0);
	assert_int_equal(part.tx_bytes, sizeof(out));
	assert_int_equal(part.rx_packets, 0xeeeeeeeeeeeeeeeeull);
	assert_int_equal(ops->peers(a.ep, NULL, 0, sizeof(peer)), 1);
	memset(&peer, 0xee, sizeof(peer));
	assert_int_equal(ops->peers(a.ep, &peer, 1, sizeof(peer)), 1);
	assert_memory_equal(peer.ip + 12, v4, 4);
	assert_int_equal(peer.state, FI_UCCL_PEER_OPEN);
	assert_true(peer.paths >= 1 && peer.paths_usable >= 1);
	assert_true(peer.srtt_ns > 0 && peer.srtt_ns < UCCL_NS_PER_S);
	assert_true(peer.min_rtt_ns <= UCCL_NS_PER_S);
	assert_true(peer.window_bytes > 0);
	node_close(&b);
	node_close(&a);
}

/* More peers than the first snapshot has room for; those that were never connected have no time. */
WORLD_TEST(peers__many, world, w)
{
	struct fi_uccl_ops_ep *ops;
	static struct fi_uccl_peer peers[300];
	struct node a;
	uint8_t name[FI_UCCL_ADDR_LEN];
	struct uccl_addr addr;
	char x = 0;

	node_open(&a, w);
	ops = ops_open(&a);
	for (int i = 0; i < 300; i++) {
		fi_addr_t to;

		assert_int_equal(uccl_addr_decode(&addr, a.name), 0);
		addr.nic.port = (uint16_t)(1 + i);
		addr.incarnation++;
		uccl_addr_encode(name, &addr);
		assert_int_equal(fi_av_insert(a.av, name, 1, &to, 0, NULL), 1);
		assert_int_equal(fi_inject(a.ep, &x, 1, to), 0);
	}
	assert_int_equal(ops->peers(a.ep, peers, 300, sizeof(peers[0])), 300);
	for (int i = 0; i < 300; i++) {
		assert_int_not_equal(peers[i].state, FI_UCCL_PEER_OPEN);
		assert_int_equal(peers[i].min_rtt_ns, UINT64_MAX);
		assert_int_equal(peers[i].srtt_ns, UINT64_MAX);
	}
	node_close(&a);
}

WORLD_TEST(dropped__reasons, world, w)
{
	struct fi_uccl_ops_ep *ops;
	uint64_t count, sum = 0;
	struct fi_uccl_stats st;
	const char *why;
	struct node a;
	unsigned int i;

	node_open(&a, w);
	ops = ops_open(&a);
	for (i = 0; !ops->dropped(a.ep, i, &why, &count); i++) {
		assert_true(strlen(why) > 3);
		sum += count;
	}
	assert_true(i > 20);
	assert_int_equal(ops->dropped(a.ep, i, &why, &count), -FI_ENODATA);
	assert_int_equal(ops->stats(a.ep, &st, sizeof(st)), 0);
	assert_int_equal(st.dropped, sum);
	node_close(&a);
}

TESTS_MAIN
