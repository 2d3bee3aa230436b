/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* verbs-ud back ends on fake NICs (verbs_ud.c, verbs_ud_tx.c, verbs_ud_rx.c). */
#include "nic/verbs/ud_state.h"

#include "../../tests.h"

#ifdef HAVE_VERBS

#include <errno.h>
#include <poll.h>
#include <rdma/fi_errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/rng.h"
#include "../fake_verbs.h"

static struct fake_verbs *fake;
static struct fake_dev *dev[2];
static uint64_t now;
static uint8_t payload[8192];
/* A pair of endpoints on two NICs. */
static struct uccl_nic *nic[2];
static struct uccl_nic_addr at[2];

/* Time passes, so that whoever waits comes to an end. */
static uint64_t clock_read(void)
{
	return now += UCCL_NS_PER_US;
}

/* Soft-RoCE: a path is a queue pair. */
static int begin(void **state)
{
	size_t i;

	now = UCCL_NS_PER_S;
	memset(nic, 0, sizeof(nic));
	fake = fake_verbs_new();
	dev[0] = fake_verbs_add(fake, "rxe0", 1, NULL);
	dev[1] = fake_verbs_add(fake, "rxe1", 2, NULL);
	dev[0]->attr.vendor_id = dev[1]->attr.vendor_id = 0xffffff;
	for (i = 0; i < sizeof(payload); i++)
		payload[i] = (uint8_t)(i * 31 + i / 251);
	return 0;
}

/* Every test leaves nothing behind, and did nothing that a NIC forbids. */
static int end(void **state)
{
	for (int i = 0; i < 2; i++)
		if (nic[i])
			nic[i]->ops->close(nic[i]);
	return fake_verbs_end(fake);
}

static int open_rc(const struct uccl_nic_attr *attr, struct uccl_nic **nic)
{
	return uccl_verbs_ud_open(fake_verbs_lib(), clock_read, attr, nic);
}

static struct uccl_nic *open_attr(const struct uccl_nic_attr *attr)
{
	struct uccl_nic *nic = NULL;

	assert_int_equal(open_rc(attr, &nic), 0);
	return nic;
}

static struct uccl_nic *open_dev(const char *name)
{
	return open_attr(&(struct uccl_nic_attr){.ifname = name});
}

static struct uccl_nic_addr addr_of(struct uccl_nic *nic)
{
	struct uccl_nic_addr a;

	nic->ops->addr(nic, &a);
	return a;
}

static void pair_open(void)
{
	nic[0] = open_dev("rxe0");
	nic[1] = open_dev("rxe1");
	at[0] = addr_of(nic[0]);
	at[1] = addr_of(nic[1]);
}

static int pair_begin(void **state)
{
	int rc = begin(state);

	pair_open();
	return rc;
}

static struct uccl_tx packet(const struct uccl_nic_addr *to, uint16_t label, uint8_t mark, uint32_t len, uint16_t tail)
{
	struct uccl_tx t = {.kind = UCCL_TX_PACKET,
			    .label = label,
			    .hdr_len = 64,
			    .payload = payload,
			    .payload_len = len,
			    .tail_len = tail,
			    .to = to};

	memset(t.hdr, mark, 64);
	memset(t.tail, 0xee, tail);
	return t;
}

/* Sends one packet, which is taken. */
static void send_one(struct uccl_nic *nic, const struct uccl_nic_addr *to, uint16_t label, uint8_t mark)
{
	struct uccl_tx t = packet(to, label, mark, 100, 10);

	assert_int_equal(nic->ops->tx(nic, &t, 1), 1);
}

static int rx(struct uccl_nic *nic, struct uccl_rx *v, int n)
{
	return nic->ops->rx(nic, v, n, NULL, 0);
}

static void packet_check(const struct uccl_rx *r, uint8_t mark, uint32_t len, uint16_t tail)
{
	uint8_t want[8192];

	assert_int_equal(r->kind, UCCL_RX_PACKET);
	assert_false(r->split);
	assert_int_equal(r->each, 0);
	assert_int_equal(r->len, 64 + len + tail);
	memset(want, mark, 64);
	memcpy(want + 64, payload, len);
	memset(want + 64 + len, 0xee, tail);
	assert_memory_equal(r->data, want, r->len);
	assert_int_equal((uintptr_t)r->data % 64, 0);
}

static void rq_check(const struct ud_rq *q, uint32_t elsewhere)
{
	uint32_t i, posted = 0;

	for (i = 0; i < q->count; i++)
		posted += q->posted[i];
	for (i = 0; i < q->nreturned; i++)
		assert_false(q->posted[q->returned[i]]);
	assert_true(posted <= q->depth);
	assert_int_equal(posted + q->nreturned + elsewhere, q->count);
}

/* Every piece of memory is somewhere, and once. */
static void accounts_check(struct uccl_nic *n)
{
	struct ud *u = ud_of(n);
	uint32_t i, out = 0;

	for (i = 0; i < UD_QPS + UD_CONTROL_QPS; i++)
		out += u->tx.qp[i].head - u->tx.qp[i].tail;
	assert_int_equal(out + u->tx.slab.nunused, u->tx.slab.count);
	rq_check(&u->rx.rq, u->rx.nlast);
	assert_int_equal(u->rx.rq.count, u->rx.slab.count);
}

/* Takes what is there; how many. */
static int drain(struct uccl_nic *nic)
{
	struct uccl_rx v[16];
	int k, n = 0;

	while ((k = rx(nic, v, 16)) > 0)
		n += k;
	assert_int_equal(k, 0);
	accounts_check(nic);
	return n;
}

/* Exactly one packet of this mark comes. */
static void expect(struct uccl_nic *nic, uint8_t mark)
{
	struct uccl_rx v[16];

	assert_int_equal(rx(nic, v, 16), 1);
	packet_check(&v[0], mark, 100, 10);
	assert_int_equal(rx(nic, v, 16), 0);
}

/* What the NIC reads and writes is on its nodes, if they are known. */
TEST_IN(open__memory_near, begin, end)
{
	struct uccl_nic *n;

	if (!fake_verbs_numa())
		skip();
	n = open_attr(&(struct uccl_nic_attr){.ifname = "rxe0", .nodes = 1});
	assert_int_equal(fake->mrs, 2);
	assert_int_equal(fake->near, 2);
	n->ops->close(n);
	/* Nobody knows; and a node that is not there is no error. */
	n = open_dev("rxe0");
	n->ops->close(n);
	n = open_attr(&(struct uccl_nic_attr){.ifname = "rxe0", .nodes = 1ull << 63});
	n->ops->close(n);
	assert_int_equal(fake->near, 2);
	assert_int_equal(fake->anywhere, 4);
}

/* Somebody has chosen nodes for the whole process. */
TEST_IN(open__memory_as_chosen, begin, end)
{
	unsigned long nodes = 1;
	struct uccl_nic *n;

	if (!fake_verbs_numa() || syscall(SYS_set_mempolicy, 2 /* MPOL_BIND */, &nodes, 65ul))
		skip();
	n = open_attr(&(struct uccl_nic_attr){.ifname = "rxe0", .nodes = 1});
	assert_int_equal(syscall(SYS_set_mempolicy, 0, NULL, 0ul), 0);
	assert_int_equal(fake->near, 0);
	n->ops->close(n);
}

static const struct ud *ud(int i)
{
	return ud_of(nic[i]);
}

/* Records what passes. */
static struct fake_packet seen[4096];
static int nseen;
static enum fake_fate fate;

static enum fake_fate watch(void *arg, const struct fake_packet *p)
{
	if (nseen < 4096)
		seen[nseen++] = *p;
	return fate;
}

static void watch_begin(void)
{
	nseen = 0;
	fate = FAKE_PASS;
	fake->hook = watch;
}

/* How many different values a number of each packet has. */
static int distinct(size_t field)
{
	int i, k, n = 0;

	for (i = 0; i < nseen; i++) {
		for (k = 0; k < i; k++)
			if (!memcmp((char *)&seen[i] + field, (char *)&seen[k] + field, sizeof(uint32_t)))
				break;
		n += k == i;
	}
	return n;
}

/* open */

TEST_IN(open__caps, begin, end)
{
	struct uccl_nic *n = open_dev("rxe0");
	struct uccl_nic_addr a = addr_of(n);

	assert_string_equal(n->ops->name, "verbs-ud");
	assert_int_equal(n->caps.mtu, 4096);
	assert_int_equal(n->caps.write_max, 0);
	assert_int_equal(n->caps.labels, 64);
	assert_true(n->caps.tx_sync);
	assert_false(n->caps.placements);
	assert_true(n->caps.link_bps == 100000000000ull);
	assert_in_range(n->caps.rx_slots, 900, 1100);
	assert_int_equal(a.ip[15], 1);
	assert_int_equal(a.scope & 0xffffff, 0x11);
	assert_int_not_equal(a.port, 0);
	assert_true(a.pad >= 0xc000);
	assert_false(a.pad & 0x2000);
	n->ops->close(n);
	n = open_attr(&(struct uccl_nic_attr){.ifname = "rxe1", .mtu = 1024, .rx_bytes = 1 << 20});
	assert_int_equal(n->caps.mtu, 1024);
	assert_in_range(n->caps.rx_slots, 128, 256);
	n->ops->close(n);
	dev[0]->attr.vendor_id = 0x2c9;
	n = open_dev("rxe0");
	assert_int_equal(n->caps.labels, 256);
	n->ops->close(n);
}

TEST_IN(open__refuses, begin, end)
{
	struct uccl_nic *n = NULL;

	assert_int_equal(open_rc(&(struct uccl_nic_attr){.ifname = "mlx5_0"}, &n), -FI_ENODEV);
	assert_int_equal(open_rc(&(struct uccl_nic_attr){.ifname = "rxe0", .mtu = 255}, &n), -FI_EINVAL);
	assert_int_equal(open_rc(&(struct uccl_nic_attr){.ifname = "rxe0", .bind = {.ip = {1}}}, &n),
			 -FI_EADDRNOTAVAIL);
	assert_int_equal(open_rc(&(struct uccl_nic_attr){.ifname = "rxe0", .bind = {.port = 7}}, &n),
			 -FI_EADDRNOTAVAIL);
	dev[0]->attr.max_qp_wr = 100;
	assert_int_equal(open_rc(&(struct uccl_nic_attr){.ifname = "rxe0"}, &n), -FI_ENOSPC);
	fake_verbs_infiniband(dev[1], 0);
	assert_int_equal(open_rc(&(struct uccl_nic_attr){.ifname = "rxe1"}, &n), -FI_ENODEV);
	assert_null(n);
}

/* Whichever call fails, at whichever time: an error, or it does without; and nothing is left. */
TEST_IN(open__every_call_fails, begin, end)
{
	static const char *const calls[] = {"get_device_list", "open_device", "query_device", "query_port",
					    "query_gid",       "alloc_pd",    "reg_mr",	      "create_comp_channel",
					    "create_cq",       "create_qp",   "modify_qp",    "post_recv"};
	size_t i;

	for (i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
		unsigned int n, before;

		for (n = 1;; n++) {
			struct uccl_nic *one = NULL;
			int rc;

			before = fake_verbs_calls(fake, calls[i]);
			fake_verbs_fail(fake, calls[i], n, ENOMEM);
			rc = open_rc(&(struct uccl_nic_attr){.ifname = "rxe0"}, &one);
			assert_int_equal(!rc, one != NULL);
			if (one)
				one->ops->close(one);
			assert_int_equal(fake_verbs_live(fake), 0);
			if (fake_verbs_calls(fake, calls[i]) - before < n)
				break;
		}
		fake_verbs_fail(fake, calls[i], 1, 0);
		assert_true(n > 1);
	}
}

TEST_IN(open__memory_short, begin, end)
{
	struct uccl_nic *n;

	/* 1008, 504, 252: the limit of locked memory is met twice. */
	fake_verbs_fail(fake, "reg_mr", 1, ENOMEM);
	n = open_dev("rxe0");
	assert_in_range(n->caps.rx_slots, 400, 504);
	n->ops->close(n);
}

/* Two on one NIC are two places, with secrets of their own. */
TEST_IN(addr__places, begin, end)
{
	struct uccl_nic *a = open_dev("rxe0"), *b = open_dev("rxe0");
	struct uccl_nic_addr x = addr_of(a), y = addr_of(b);

	assert_memory_equal(x.ip, y.ip, 16);
	assert_int_not_equal(x.scope & 0xffffff, y.scope & 0xffffff);
	assert_int_not_equal(ud_qkey(&x), ud_qkey(&y));
	assert_int_equal(ud_qkey(&x) >> 31, 0);
	a->ops->close(a);
	b->ops->close(b);
}

TEST_IN(qkey__every_secret_bit, begin, end)
{
	struct uccl_nic_addr a = {.scope = 0x12000011, .port = 77, .pad = 0xc123}, b;
	int i;

	for (i = 0; i < 8 + 16 + 14; i++) {
		b = a;
		if (i < 8)
			b.scope ^= 1u << (24 + i);
		else if (i < 24)
			b.port ^= (uint16_t)(1u << (i - 8));
		else
			b.pad ^= (uint16_t)(1u << (i - 24));
		assert_int_not_equal(ud_qkey(&a), ud_qkey(&b));
	}
	/* The number of the queue pair is no secret, nor is a LID. */
	b = a;
	b.scope ^= 0xffffff;
	assert_int_equal(ud_qkey(&a), ud_qkey(&b));
	a.pad = 7;
	b.pad = 8;
	assert_int_equal(ud_qkey(&a), ud_qkey(&b));
}

/* tx */

TEST_IN(tx__there_and_back, pair_begin, end)
{
	static const struct {
		uint32_t len;
		uint16_t tail;
	} shape[] = {{0, 0}, {1, 0}, {0, 8}, {112, 0}, {1000, 640}, {4032, 0}, {3392, 640}};
	struct uccl_rx v[16];
	size_t i;

	for (i = 0; i < sizeof(shape) / sizeof(shape[0]); i++) {
		struct uccl_tx t = packet(&at[1], (uint16_t)i, (uint8_t)i, shape[i].len, shape[i].tail);

		assert_int_equal(nic[0]->ops->tx(nic[0], &t, 1), 1);
		assert_int_equal(rx(nic[1], v, 16), 1);
		packet_check(&v[0], (uint8_t)i, shape[i].len, shape[i].tail);
		assert_memory_equal(v[0].src.ip, at[0].ip, 16);
	}
	send_one(nic[1], &at[0], 3, 99);
	expect(nic[0], 99);
	/* To itself, and to a neighbour on the same NIC. */
	send_one(nic[0], &at[0], 0, 98);
	expect(nic[0], 98);
	assert_true(ud(0)->tx.lost == 0 && ud(0)->rx.bad == 0);
}

TEST_IN(tx__ipv6, begin, end)
{
	int i;

	for (i = 0; i < 2; i++)
		dev[i]->port[0].ngids = 2; /* link-local is all there is */
	pair_open();
	assert_int_equal(at[0].ip[0], 0xfe);
	send_one(nic[0], &at[1], 1, 5);
	expect(nic[1], 5);
}

TEST_IN(tx__infiniband, begin, end)
{
	struct uccl_rx v[16];

	fake_verbs_infiniband(dev[0], 0x6d0);
	fake_verbs_infiniband(dev[1], 0x5d6);
	pair_open();
	assert_int_equal(at[0].pad, 0x6d0);
	assert_int_equal(nic[0]->caps.labels, 64);
	send_one(nic[0], &at[1], 1, 5);
	assert_int_equal(rx(nic[1], v, 16), 1);
	packet_check(&v[0], 5, 100, 10);
	assert_memory_equal(v[0].src.ip, at[0].ip, 16);
	assert_int_equal(v[0].src.pad, 0x6d0);
}

TEST_IN(tx__label_is_a_queue_pair, pair_begin, end)
{
	int i;

	watch_begin();
	for (i = 0; i < 200; i++)
		send_one(nic[0], &at[1], (uint16_t)i, 1);
	assert_int_equal(distinct(offsetof(struct fake_packet, src_qpn)), 64);
	assert_int_equal(distinct(offsetof(struct fake_packet, flow_label)), 1);
	/* The same each time. */
	assert_int_equal(seen[5].src_qpn, seen[69].src_qpn);
	assert_int_equal(fake_verbs_calls(fake, "create_ah"), 1);
	assert_int_equal(drain(nic[1]), 200);
}

TEST_IN(tx__label_is_a_flow_label, begin, end)
{
	int i, k;

	dev[0]->attr.vendor_id = 0x2c9;
	pair_open();
	watch_begin();
	for (i = 0; i < 256; i++)
		send_one(nic[0], &at[1], (uint16_t)i, 1);
	assert_int_equal(distinct(offsetof(struct fake_packet, src_qpn)), 8);
	assert_int_equal(distinct(offsetof(struct fake_packet, flow_label)), 256);
	/* Each makes a UDP source port of its own. */
	for (i = 0; i < 256; i++) {
		assert_in_range(seen[i].flow_label, 1, 0xfffff);
		for (k = 0; k < i; k++)
			assert_int_not_equal(ibv_flow_label_to_udp_sport(seen[i].flow_label),
					     ibv_flow_label_to_udp_sport(seen[k].flow_label));
	}
	assert_int_equal(fake_verbs_calls(fake, "create_ah"), 256);
	assert_int_equal(drain(nic[1]), 256);
}

TEST_IN(tx__doorbells, pair_begin, end)
{
	struct uccl_tx v[64];
	int i;

	for (i = 0; i < 64; i++)
		v[i] = packet(&at[1], 7, (uint8_t)i, 10, 0);
	assert_int_equal(nic[0]->ops->tx(nic[0], v, 64), 32);
	assert_int_equal(ud(0)->tx.doorbells, 1);
	/* Two labels in turn: a chain for each. */
	for (i = 0; i < 32; i++)
		v[i].label = (uint16_t)(i & 1);
	assert_int_equal(nic[0]->ops->tx(nic[0], v, 32), 32);
	assert_int_equal(ud(0)->tx.doorbells, 3);
	assert_int_equal(drain(nic[1]), 64);
}

/* Bytes that the NIC has not said to have sent, of packets that it will tell of. */
TEST_IN(backlog__until_told, pair_begin, end)
{
	struct uccl_tx v[64];
	uint64_t bytes;
	int i;

	assert_int_equal(nic[0]->ops->backlog(nic[0]), 0);
	for (i = 0; i < 64; i++)
		v[i] = packet(&at[1], 7, (uint8_t)i, 10, 0);
	bytes = v[0].hdr_len + v[0].payload_len + v[0].tail_len;
	assert_int_equal(nic[0]->ops->tx(nic[0], v, 32), 32);
	/* One in so many asks for a completion; those behind the last such one are not counted, nor kept for ever. */
	assert_in_range(nic[0]->ops->backlog(nic[0]), 16 * bytes, 32 * bytes);
	assert_int_equal(nic[0]->ops->tx(nic[0], v, 0), 0);
	assert_int_equal(nic[0]->ops->backlog(nic[0]), 0);
	v[0].control = true;
	assert_int_equal(nic[0]->ops->tx(nic[0], v, 1), 1);
	assert_int_equal(nic[0]->ops->backlog(nic[0]), bytes);
	assert_int_equal(nic[0]->ops->tx(nic[0], v, 0), 0);
	assert_int_equal(nic[0]->ops->backlog(nic[0]), 0);
	assert_int_equal(drain(nic[1]), 33);
}

/* Control packets go their own way, with their own mark, and each is told of. */
TEST_IN(tx__control, begin, end)
{
	struct uccl_nic_attr attr = {
		.ifname = "rxe0", .data_class = 4, .data_level = 1, .control_class = 0xb8, .control_level = 5};
	struct uccl_tx t;
	int i;

	nic[0] = open_attr(&attr);
	nic[1] = open_dev("rxe1");
	at[1] = addr_of(nic[1]);
	watch_begin();
	for (i = 0; i < 128; i++) {
		t = packet(&at[1], (uint16_t)(i / 2), 1, 0, 0);
		t.control = i & 1;
		assert_int_equal(nic[0]->ops->tx(nic[0], &t, 1), 1);
	}
	assert_int_equal(distinct(offsetof(struct fake_packet, src_qpn)), 64 + 4);
	for (i = 0; i < 128; i++) {
		assert_int_equal(seen[i].traffic_class, i & 1 ? 0xb8 : 4);
		assert_int_equal(seen[i].sl, i & 1 ? 5 : 1);
	}
	assert_int_equal(drain(nic[1]), 128);
}

/* The NIC reads late; the caller may use its payload at once. */
TEST_IN(tx__payload_is_copied, pair_begin, end)
{
	struct uccl_rx v[16];
	struct uccl_tx t;

	fake->stall = true;
	t = packet(&at[1], 0, 9, 100, 10);
	assert_int_equal(nic[0]->ops->tx(nic[0], &t, 1), 1);
	memset(payload, 0xff, 100);
	memset(t.hdr, 0, sizeof(t.hdr));
	memset(t.tail, 0, sizeof(t.tail));
	fake_verbs_run(fake);
	assert_int_equal(rx(nic[1], v, 16), 1);
	assert_int_equal(v[0].data[64], 0);
	assert_int_equal(v[0].data[65], 31);
	assert_int_equal(v[0].data[0], 9);
	assert_int_equal(v[0].data[64 + 100], 0xee);
	fake->stall = false;
}

/* A full queue pair takes no more, and goes on when the NIC has caught up. */
TEST_IN(tx__full_queue, pair_begin, end)
{
	struct uccl_tx t;
	int i, n = 0;

	fake->stall = true;
	t = packet(&at[1], 3, 1, 10, 0);
	while (nic[0]->ops->tx(nic[0], &t, 1))
		n++;
	assert_int_equal(n, 128);
	assert_int_equal(nic[0]->ops->tx(nic[0], &t, 1), 0);
	/* Another label has room. */
	t.label = 4;
	assert_int_equal(nic[0]->ops->tx(nic[0], &t, 1), 1);
	t.label = 3;
	for (i = 0; i < 10; i++) {
		fake_verbs_run(fake);
		for (n = 0; nic[0]->ops->tx(nic[0], &t, 1); n++)
			;
		/* All but those that are not told of yet. */
		assert_in_range(n, 128 - 4, 128);
	}
	fake->stall = false;
	fake_verbs_run(fake);
}

/* So do all of them together, and no order of labels ever stops it for good. */
TEST_IN(tx__full_memory, pair_begin, end)
{
	struct uccl_tx t;
	int round, n;

	for (round = 0; round < 20; round++) {
		fake->stall = true;
		for (n = 0;; n++) {
			t = packet(&at[1], (uint16_t)(n * 7 + round), 1, 10, 0);
			if (!nic[0]->ops->tx(nic[0], &t, 1))
				break;
		}
		assert_in_range(n, 256, 512);
		fake->stall = false;
		fake_verbs_run(fake);
		drain(nic[1]);
	}
}

TEST_IN(tx__lost_at_once, pair_begin, end)
{
	struct uccl_tx t;
	struct uccl_nic_addr bad;

	t = packet(&at[1], 0, 1, 4033, 0);
	assert_int_equal(nic[0]->ops->tx(nic[0], &t, 1), 1);
	t = packet(&at[1], 0, 1, 10, 0);
	t.kind = UCCL_TX_WRITE;
	assert_int_equal(nic[0]->ops->tx(nic[0], &t, 1), 1);
	bad = at[1];
	t = packet(&bad, 0, 1, 10, 0);
	bad.pad = 0; /* a place of UDP */
	assert_int_equal(nic[0]->ops->tx(nic[0], &t, 1), 1);
	bad.pad = 5; /* of InfiniBand */
	assert_int_equal(nic[0]->ops->tx(nic[0], &t, 1), 1);
	bad.pad = at[1].pad;
	bad.scope &= ~0xffffffu; /* the subnet manager's queue pair */
	assert_int_equal(nic[0]->ops->tx(nic[0], &t, 1), 1);
	assert_int_equal(ud(0)->tx.lost, 5);
	assert_int_equal(fake->stats.sent, 0);
}

/* Who does not know the whole address is not heard. */
TEST_IN(tx__wrong_secret, pair_begin, end)
{
	struct uccl_nic_addr wrong;

	wrong = at[1];
	wrong.port ^= 1;
	send_one(nic[0], &wrong, 0, 1);
	wrong = at[1];
	wrong.scope ^= 1u << 30;
	send_one(nic[0], &wrong, 0, 1);
	assert_int_equal(drain(nic[1]), 0);
	assert_int_equal(fake->stats.bad_qkey, 2);
}

TEST_IN(tx__many_peers_few_handles, begin, end)
{
	struct uccl_nic_addr to;
	struct uccl_tx t;
	int i, k, lost = 0;

	dev[0]->attr.max_ah = 8;
	pair_open();
	for (k = 0; k < 10; k++) {
		for (i = 0; i < 100; i++) {
			to = at[1];
			to.ip[14] = (uint8_t)i; /* 0 is there, the others are not */
			t = packet(&to, (uint16_t)i, 1, 10, 0);
			lost += !nic[0]->ops->tx(nic[0], &t, 1);
			assert_in_range(fake->ahs, 1, 8);
		}
	}
	assert_int_equal(lost, 0);
	assert_int_equal(drain(nic[1]), 10);
	/* All in use: wait. */
	fake->stall = true;
	for (i = 0; i < 8; i++) {
		to = at[1];
		to.ip[14] = (uint8_t)i;
		send_one(nic[0], &to, (uint16_t)i, 1);
	}
	to.ip[14] = 200;
	t = packet(&to, 0, 1, 10, 0);
	assert_int_equal(nic[0]->ops->tx(nic[0], &t, 1), 0);
	fake_verbs_run(fake);
	assert_int_equal(nic[0]->ops->tx(nic[0], &t, 1), 1);
	fake->stall = false;
	fake_verbs_run(fake);
}

/* One place that cannot be reached costs the others nothing. */
TEST_IN(tx__unreachable_place, pair_begin, end)
{
	struct uccl_nic_addr gone;
	struct uccl_tx v[3];

	send_one(nic[0], &at[1], 0, 1);
	gone = at[1];
	gone.ip[15] = 77;
	v[0] = packet(&at[1], 0, 2, 100, 10);
	v[1] = packet(&gone, 0, 3, 100, 10);
	v[2] = packet(&at[1], 0, 4, 100, 10);
	fake_verbs_fail(fake, "create_ah", 1, EHOSTUNREACH);
	assert_int_equal(nic[0]->ops->tx(nic[0], v, 3), 3);
	assert_int_equal(ud(0)->tx.lost, 1);
	assert_int_equal(drain(nic[1]), 3);
	assert_int_equal(ud(0)->tx.doorbells, 2);
}

TEST_IN(tx__post_refused, pair_begin, end)
{
	struct uccl_tx v[8];
	int i, k;

	for (i = 0; i < 8; i++)
		v[i] = packet(&at[1], 0, (uint8_t)i, 100, 10);
	for (k = 0; k < 200; k++) {
		/* For lack of memory now; for good, which costs the queue pair. */
		fake_verbs_fail(fake, "post_send", 1, k % 2 ? ENOMEM : EINVAL);
		assert_int_equal(nic[0]->ops->tx(nic[0], v, 8), 8);
		assert_int_equal(drain(nic[1]), 0);
		assert_int_equal(nic[0]->ops->tx(nic[0], v, 8), 8);
		assert_int_equal(drain(nic[1]), 8);
	}
	assert_int_equal(ud(0)->tx.lost, 200 * 8);
	assert_int_equal(ud(0)->tx.qp_renewed, 100);
}

/* Of a chain the NIC takes some; among the others is the one that would have been told of. */
TEST_IN(tx__chain_cut, pair_begin, end)
{
	struct uccl_tx v[8];
	int i, k;

	for (i = 0; i < 8; i++)
		v[i] = packet(&at[1], 0, (uint8_t)i, 100, 10);
	for (k = 1; k < 8; k++) {
		for (i = 0; i < 300; i++) {
			fake->refuse = k;
			assert_int_equal(nic[0]->ops->tx(nic[0], v, 8), 8);
			fake->refuse = 0;
			assert_int_equal(drain(nic[1]), k);
		}
		accounts_check(nic[0]);
	}
}

/* A queue pair that breaks is made anew; what it had is lost, what others have is not. */
TEST_IN(qp__breaks, pair_begin, end)
{
	uint32_t old;
	int i;

	watch_begin();
	send_one(nic[0], &at[1], 5, 1);
	send_one(nic[0], &at[1], 6, 1);
	assert_int_equal(drain(nic[1]), 2);
	old = seen[0].src_qpn;
	fake->stall = true;
	for (i = 0; i < 10; i++) {
		send_one(nic[0], &at[1], 5, 2);
		send_one(nic[0], &at[1], 6, 2);
	}
	assert_true(fake_verbs_break(fake, old));
	fake->stall = false;
	fake_verbs_run(fake);
	assert_int_equal(drain(nic[1]), 10);
	send_one(nic[0], &at[1], 5, 3);
	expect(nic[1], 3);
	assert_int_not_equal(seen[nseen - 1].src_qpn, old);
	assert_false(fake_verbs_exists(fake, old));
	accounts_check(nic[0]);
	assert_int_equal(ud(0)->tx.qp_renewed, 1);
	assert_int_equal(ud(0)->tx.errors, 1);
}

/* One that was full when it broke is empty then. */
TEST_IN(qp__breaks_full, pair_begin, end)
{
	struct uccl_tx t;

	watch_begin();
	send_one(nic[0], &at[1], 5, 1);
	fake->stall = true;
	t = packet(&at[1], 5, 2, 100, 10);
	while (nic[0]->ops->tx(nic[0], &t, 1))
		;
	fake->stall = false;
	assert_true(fake_verbs_break(fake, seen[0].src_qpn));
	assert_int_equal(drain(nic[1]), 1);
	send_one(nic[0], &at[1], 5, 3);
	expect(nic[1], 3);
	accounts_check(nic[0]);
}

/* It cannot be made anew for a while: its labels go by another. */
TEST_IN(qp__not_made_anew, pair_begin, end)
{
	uint32_t old;
	int i;

	watch_begin();
	send_one(nic[0], &at[1], 5, 1);
	send_one(nic[0], &at[1], 6, 1);
	drain(nic[1]);
	old = seen[0].src_qpn;
	fake_verbs_fail(fake, "create_qp", 0, ENOMEM);
	fake->stall = true;
	send_one(nic[0], &at[1], 5, 2);
	fake->stall = false;
	fake_verbs_break(fake, old);
	for (i = 0; i < 20; i++)
		send_one(nic[0], &at[1], 5, 3);
	assert_int_equal(drain(nic[1]), 20);
	assert_int_equal(seen[nseen - 1].src_qpn, seen[1].src_qpn);
	/* Asked for again after a time, not with each packet. */
	i = (int)fake_verbs_calls(fake, "create_qp");
	send_one(nic[0], &at[1], 5, 3);
	assert_int_equal(fake_verbs_calls(fake, "create_qp"), i);
	fake_verbs_fail(fake, "create_qp", 0, 0);
	now += UCCL_NS_PER_S;
	send_one(nic[0], &at[1], 5, 3);
	assert_int_not_equal(seen[nseen - 1].src_qpn, seen[1].src_qpn);
	drain(nic[1]);
}

/* There is room for fewer than there are labels. */
TEST_IN(qp__few, begin, end)
{
	int i;

	dev[0]->attr.max_qp = 3 + 4; /* of both NICs, the fake counts them together */
	pair_open();
	watch_begin();
	for (i = 0; i < 300; i++)
		send_one(nic[0], &at[1], (uint16_t)i, 1);
	assert_int_equal(drain(nic[1]), 300);
	assert_int_equal(distinct(offsetof(struct fake_packet, src_qpn)), 2);
}

/* A place whose packets break queue pairs may not do so again and again. */
TEST_IN(qp__broken_by_a_place, pair_begin, end)
{
	int i;

	send_one(nic[0], &at[1], 0, 1);
	drain(nic[1]);
	/* The region goes away under the NIC: a local error, not a flush. */
	fake->stall = true;
	send_one(nic[0], &at[1], 0, 1);
	fake->stall = false;
	ud_of(nic[0])->tx.slab.mr->lkey++;
	fake_verbs_run(fake);
	ud_of(nic[0])->tx.slab.mr->lkey--;
	assert_int_equal(fake->violations, 1);
	fake->violations = 0; /* that was on purpose */
	for (i = 0; i < 100; i++)
		send_one(nic[0], &at[1], 0, 1);
	assert_int_equal(ud(0)->tx.qp_renewed, 1);
	assert_int_equal(ud(0)->tx.lost, 100);
	now += UCCL_NS_PER_S;
	send_one(nic[0], &at[1], 0, 9);
	expect(nic[1], 9);
}

/* rx */

TEST_IN(rx__garbage_before_ipv4, begin, end)
{
	struct uccl_rx v[16];

	dev[1]->grh_garbage = true;
	pair_open();
	send_one(nic[0], &at[1], 0, 1);
	assert_int_equal(rx(nic[1], v, 16), 1);
	packet_check(&v[0], 1, 100, 10);
	assert_memory_equal(v[0].src.ip, at[0].ip, 16);
}

/* What is handed up stays until the next call. */
TEST_IN(rx__buffers_stay, pair_begin, end)
{
	struct uccl_rx v[32];
	int i, k;

	for (k = 0; k < 100; k++) {
		for (i = 0; i < 40; i++)
			send_one(nic[0], &at[1], (uint16_t)i, (uint8_t)i);
		assert_int_equal(rx(nic[1], v, 32), 32);
		/* The NIC has all the others. */
		for (i = 0; i < 900; i++)
			send_one(nic[0], &at[1], (uint16_t)i, 77);
		for (i = 0; i < 32; i++)
			packet_check(&v[i], (uint8_t)i, 100, 10);
		drain(nic[1]);
	}
	assert_int_equal(fake->stats.no_receive, 0);
}

/* A caller that never finds nothing to do does not starve the NIC of buffers. */
TEST_IN(rx__never_idle, pair_begin, end)
{
	struct uccl_rx v[16];
	int i, k;

	for (k = 0; k < 300; k++) {
		for (i = 0; i < 16; i++)
			send_one(nic[0], &at[1], (uint16_t)i, (uint8_t)i);
		assert_int_equal(rx(nic[1], v, 16), 16);
	}
	assert_int_equal(fake->stats.no_receive, 0);
}

/* As many as were promised arrive, wherever the caller stands; what is beyond is dropped, and nothing breaks. */
TEST_IN(rx__slots, pair_begin, end)
{
	struct uccl_rx v[16];
	uint32_t i, k;

	for (k = 0; k < 20; k++) {
		for (i = 0; i < k; i++)
			send_one(nic[0], &at[1], 0, 1);
		rx(nic[1], v, 16);
		for (i = 0; i < nic[1]->caps.rx_slots - (k > 16 ? k - 16 : 0); i++)
			send_one(nic[0], &at[1], (uint16_t)i, 2);
		assert_int_equal(fake->stats.no_receive, 0);
		drain(nic[1]);
	}
	for (i = 0; i < 2000; i++)
		send_one(nic[0], &at[1], (uint16_t)i, 2);
	assert_true(fake->stats.no_receive > 0);
	drain(nic[1]);
	send_one(nic[0], &at[1], 0, 3);
	expect(nic[1], 3);
}

/* Packets that are longer than agreed cost nothing but themselves. */
TEST_IN(rx__too_long, begin, end)
{
	struct uccl_tx t;

	nic[0] = open_dev("rxe0");
	nic[1] = open_attr(&(struct uccl_nic_attr){.ifname = "rxe1", .mtu = 512});
	at[1] = addr_of(nic[1]);
	t = packet(&at[1], 0, 1, 4000, 0);
	assert_int_equal(nic[0]->ops->tx(nic[0], &t, 1), 1);
	assert_int_equal(drain(nic[1]), 0);
	assert_int_equal(ud(1)->rx.bad, 1);
	send_one(nic[0], &at[1], 0, 2);
	expect(nic[1], 2);
}

/* Ways of a packet to have no source: made by hand, as no NIC of ours sends so. */
TEST_IN(rx__no_source, begin, end)
{
	struct ibv_send_wr wr = {.opcode = IBV_WR_SEND, .num_sge = 0}, *bad;
	struct ibv_ah_attr attr = {.is_global = 0, .dlid = 0x5d6, .port_num = 1};
	struct ud *u;
	int i;

	fake_verbs_infiniband(dev[0], 0x6d0);
	fake_verbs_infiniband(dev[1], 0x5d6);
	pair_open();
	u = ud_of(nic[0]);
	/* In every buffer lies the source of an earlier packet. */
	for (i = 0; i < 2000; i++) {
		send_one(nic[0], &at[1], 0, 1);
		expect(nic[1], 1);
	}
	wr.wr.ud.ah = u->lib->create_ah(u->pd, &attr);
	wr.wr.ud.remote_qpn = at[1].scope & 0xffffff;
	wr.wr.ud.remote_qkey = ud_qkey(&at[1]);
	assert_int_equal(u->lib->post_send(u->tx.qp[0].qp, &wr, &bad), 0);
	u->lib->destroy_ah(wr.wr.ud.ah);
	assert_int_equal(drain(nic[1]), 0);
	assert_int_equal(ud(1)->rx.bad, 1);
}

/* The receiving queue pair breaks: the endpoint keeps its address, and hears again. */
TEST_IN(rx__broken, pair_begin, end)
{
	struct uccl_rx v[16];
	int i, k;

	for (k = 0; k < 5; k++) {
		for (i = 0; i < 30; i++)
			send_one(nic[0], &at[1], (uint16_t)i, (uint8_t)i);
		/* Some are in the caller's hand, some in the completion queue. */
		assert_int_equal(rx(nic[1], v, 10), 10);
		assert_true(fake_verbs_break(fake, at[1].scope & 0xffffff));
		send_one(nic[0], &at[1], 0, 1); /* nobody hears this */
		for (i = 0; i < 10; i++)
			packet_check(&v[i], (uint8_t)i, 100, 10);
		assert_int_equal(drain(nic[1]), 20);
		send_one(nic[0], &at[1], 0, (uint8_t)(100 + k));
		expect(nic[1], (uint8_t)(100 + k));
		now += UCCL_NS_PER_S;
	}
	assert_int_equal(ud(1)->rx.revived, 5);
	assert_true(ud(1)->rx.errors > 0);
	/* Nothing was lost on the way: all pieces are with the NIC again. */
	for (i = 0; i < (int)nic[1]->caps.rx_slots; i++)
		send_one(nic[0], &at[1], (uint16_t)i, 2);
	assert_int_equal(fake->stats.no_receive, 0);
	drain(nic[1]);
}

/* It breaks without any sign but silence and an event. */
TEST_IN(rx__broken_by_event, pair_begin, end)
{
	struct uccl_rx v[16];
	int i;

	fake_verbs_event(fake, IBV_EVENT_QP_FATAL, at[1].scope & 0xffffff);
	fake_verbs_event(fake, IBV_EVENT_PORT_ERR, 0);
	for (i = 0; i < 2000; i++)
		assert_int_equal(rx(nic[1], v, 16), 0);
	assert_int_equal(ud(1)->rx.revived, 1);
	for (i = 0; i < 2000; i++)
		assert_int_equal(rx(nic[0], v, 16), 0);
	watch_begin();
	send_one(nic[0], &at[1], 9, 1);
	expect(nic[1], 1);
	fake_verbs_event(fake, IBV_EVENT_QP_FATAL, seen[0].src_qpn);
	for (i = 0; i < 2000; i++)
		assert_int_equal(rx(nic[0], v, 16), 0);
	assert_int_equal(ud(0)->tx.qp_renewed, 1);
	send_one(nic[0], &at[1], 9, 1);
	expect(nic[1], 1);
}

TEST_IN(rx__not_revived_at_once, pair_begin, end)
{
	struct uccl_rx v[16];
	unsigned int calls;
	int i;

	fake_verbs_break(fake, at[1].scope & 0xffffff);
	fake_verbs_fail(fake, "modify_qp", 1, EIO);
	drain(nic[1]);
	calls = fake_verbs_calls(fake, "modify_qp");
	for (i = 0; i < 100; i++)
		rx(nic[1], v, 16);
	assert_int_equal(fake_verbs_calls(fake, "modify_qp"), calls);
	now += UCCL_NS_PER_S;
	drain(nic[1]);
	send_one(nic[0], &at[1], 0, 1);
	expect(nic[1], 1);
}

TEST_IN(rx__post_refused, pair_begin, end)
{
	int i;

	fake_verbs_fail(fake, "post_recv", 0, ENOMEM);
	for (i = 0; i < 500; i++) {
		send_one(nic[0], &at[1], 0, (uint8_t)i);
		expect(nic[1], (uint8_t)i);
	}
	fake_verbs_fail(fake, "post_recv", 0, 0);
	/* Some of a chain are taken, and the others are not forgotten. */
	for (i = 1; i < 20; i++) {
		fake->refuse = i;
		drain(nic[1]);
	}
	fake->refuse = 0;
	drain(nic[1]);
	for (i = 0; i < (int)nic[1]->caps.rx_slots; i++)
		send_one(nic[0], &at[1], (uint16_t)i, 2);
	assert_int_equal(fake->stats.no_receive, 0);
	drain(nic[1]);
}

/* wait_fd */

static bool readable(int fd)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};

	return poll(&p, 1, 0) == 1;
}

TEST_IN(wait_fd__wakes, pair_begin, end)
{
	struct uccl_rx v[16];
	int fd, i;

	/* Nobody waits: nobody asks for events. */
	send_one(nic[0], &at[1], 0, 1);
	drain(nic[1]);
	assert_int_equal(fake_verbs_calls(fake, "req_notify_cq"), 0);
	/* What is there before the first wait counts. */
	send_one(nic[0], &at[1], 0, 1);
	fd = nic[1]->ops->wait_fd(nic[1]);
	assert_true(fd >= 0);
	assert_int_equal(nic[1]->ops->wait_fd(nic[1]), fd);
	assert_true(readable(fd));
	assert_int_equal(drain(nic[1]), 1);
	for (i = 0; i < 100; i++) {
		assert_false(readable(fd));
		send_one(nic[0], &at[1], 0, 1);
		assert_true(readable(fd));
		if (i & 1)
			send_one(nic[0], &at[1], 0, 1);
		/* A call that does not find everything leaves it readable. */
		assert_int_equal(rx(nic[1], v, 1), 1);
		assert_true(readable(fd));
		assert_int_equal(drain(nic[1]), i & 1);
	}
}

/* What has nothing to read is not asked, which is a system call each. */
TEST_IN(wait_fd__reads_what_is_there, pair_begin, end)
{
	static const char *const calls[] = {"get_cq_event", "get_async_event", "req_notify_cq"};
	unsigned int before[3];
	struct uccl_rx v[16];

	nic[1]->ops->wait_fd(nic[1]);
	drain(nic[1]);
	for (int round = 0; round < 4; round++) {
		for (int i = 0; i < 3; i++)
			before[i] = fake_verbs_calls(fake, calls[i]);
		/* Time itself is no reason to read more often than it says. */
		for (int i = 0; i < 100; i++)
			assert_int_equal(rx(nic[1], v, 16), 0);
		for (int i = 0; i < 3; i++)
			assert_int_equal(fake_verbs_calls(fake, calls[i]), before[i]);
		send_one(nic[0], &at[1], 0, 1);
		assert_int_equal(drain(nic[1]), 1);
		assert_int_equal(fake_verbs_calls(fake, "get_cq_event"), before[0] + 1);
		assert_int_equal(fake_verbs_calls(fake, "get_async_event"), before[1]);
		assert_int_equal(fake_verbs_calls(fake, "req_notify_cq"), before[2] + 1);
	}
}

/* A packet comes in the moment between the last look and the request for an event. */
static const struct uccl_verbs *real;
static struct uccl_verbs racing;
static int race;

static int notify_late(struct ibv_cq *cq, int solicited)
{
	for (; race; race--)
		send_one(nic[0], &at[1], (uint16_t)race, 1);
	return real->req_notify_cq(cq, solicited);
}

TEST_IN(wait_fd__no_lost_wake_up, begin, end)
{
	struct uccl_rx v[16];
	int fd, k, n;

	real = fake_verbs_lib();
	racing = *real;
	racing.req_notify_cq = notify_late;
	nic[0] = open_dev("rxe0");
	assert_int_equal(uccl_verbs_ud_open(&racing, clock_read, &(struct uccl_nic_attr){.ifname = "rxe1"}, &nic[1]),
			 0);
	at[1] = addr_of(nic[1]);
	fd = nic[1]->ops->wait_fd(nic[1]);
	drain(nic[1]);
	for (k = 1; k < 50; k++) {
		assert_false(readable(fd));
		send_one(nic[0], &at[1], 0, 1);
		race = k;
		/* Sleep only when it says so: everything is found. */
		for (n = 0; readable(fd);)
			n += rx(nic[1], v, 16);
		assert_int_equal(n, k + 1);
	}
}

/* close */

/* What was sent last leaves, if the NIC does its work; if not, it is not waited for for ever. */
TEST_IN(close__lets_control_go, pair_begin, end)
{
	struct uccl_tx t;

	fake->stall = true;
	t = packet(&at[1], 0, 1, 0, 0);
	t.control = true;
	assert_int_equal(nic[0]->ops->tx(nic[0], &t, 1), 1);
	now = UCCL_NS_PER_S;
	nic[0]->ops->close(nic[0]);
	assert_in_range(now, UCCL_NS_PER_S + 50 * UCCL_NS_PER_MS, UCCL_NS_PER_S + 52 * UCCL_NS_PER_MS);
	fake->stall = false;
	nic[0] = open_dev("rxe0");
	send_one(nic[0], &at[1], 0, 1);
	now = UCCL_NS_PER_S;
	nic[0]->ops->close(nic[0]);
	nic[0] = NULL;
	assert_true(now < UCCL_NS_PER_S + UCCL_NS_PER_MS);
}

/* Anything fails at any time; what it does then is right, and when all is well again it works as before. */
TEST_IN(all__calls_fail_by_chance, begin, end)
{
	static const char *const calls[] = {"create_qp", "modify_qp",	  "create_ah", "post_send",
					    "post_recv", "req_notify_cq", "poll_cq"};
	struct uccl_rng rng;
	struct uccl_rx v[16];
	uint32_t i, k;

	uccl_rng_seed(&rng, 20261);
	dev[0]->attr.vendor_id = 0x2c9;
	dev[0]->attr.max_ah = 20;
	pair_open();
	nic[1]->ops->wait_fd(nic[1]);
	watch_begin();
	for (i = 0; i < 50000; i++) {
		int to = (int)uccl_rng_below(&rng, 2);
		struct uccl_tx t = packet(&at[to], (uint16_t)uccl_rng_below(&rng, 300), (uint8_t)i,
					  (uint32_t)uccl_rng_below(&rng, 4000), 0);

		fate = (enum fake_fate)uccl_rng_below(&rng, 4);
		t.control = uccl_rng_below(&rng, 2);
		if (!uccl_rng_below(&rng, 20))
			fake_verbs_fail(fake, calls[uccl_rng_below(&rng, 7)], 1, ENOMEM);
		if (!uccl_rng_below(&rng, 50))
			fake->stall = !fake->stall;
		if (!uccl_rng_below(&rng, 20))
			fake_verbs_run(fake);
		if (!uccl_rng_below(&rng, 20))
			fake_verbs_release(fake, uccl_rng_below(&rng, 2));
		if (!uccl_rng_below(&rng, 100))
			fake_verbs_break(fake, 0x11 + (uint32_t)uccl_rng_below(&rng, 30) + ((uint32_t)to << 16));
		k = (uint32_t)uccl_rng_below(&rng, 100);
		now += k ? k * 100000 : UCCL_NS_PER_S;
		nic[!to]->ops->tx(nic[!to], &t, 1);
		rx(nic[to], v, (int)uccl_rng_below(&rng, 17));
	}
	for (i = 0; i < 7; i++)
		fake_verbs_fail(fake, calls[i], 0, 0);
	fake->stall = false;
	fake->hook = NULL;
	for (i = 0; i < 3; i++) {
		now += 100 * UCCL_NS_PER_S;
		fake_verbs_run(fake);
		fake_verbs_release(fake, false);
		for (k = 0; k < 300; k++) {
			struct uccl_tx t = packet(&at[1], (uint16_t)k, 1, 10, 0),
				       u = packet(&at[0], (uint16_t)k, 1, 10, 0);

			nic[0]->ops->tx(nic[0], &t, 1);
			nic[1]->ops->tx(nic[1], &u, 1);
		}
		drain(nic[0]);
		drain(nic[1]);
	}
	accounts_check(nic[0]);
	accounts_check(nic[1]);
	for (k = 0; k < 300; k++) {
		send_one(nic[0], &at[1], (uint16_t)k, (uint8_t)k);
		expect(nic[1], (uint8_t)k);
		send_one(nic[1], &at[0], (uint16_t)k, (uint8_t)k);
		expect(nic[0], (uint8_t)k);
	}
}

TESTS_MAIN

#else

TESTS_MAIN_SKIPPED

#endif
