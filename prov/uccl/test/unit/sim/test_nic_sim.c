/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "sim/nic_sim.h"

#include "../tests.h"

#include <rdma/fi_errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/units.h"
#include "flow/wire/wire.h"

#define HINTS 8

/* Two NICs, what they complained of, and memory. */
static struct bench {
	struct uccl_sim_net net;
	struct uccl_owner owner;
	struct uccl_sim_nic_cfg cfg;
	struct uccl_nic *nic[2];
	struct uccl_nic_peer *peer[2];
	struct uccl_nic_addr addr[2];
	uint32_t woken, broken;
	struct uccl_tx tx;
	struct uccl_rx rx[64];
	uint8_t fives[100], nines[100];
	uint8_t to[300]; /* of NIC 1 if it takes writes, where it may write to: */
	void *mr;
	uint64_t rkey, raddr;
} b[1];

static void bench_wake(void *arg)
{
	((struct bench *)arg)->woken++;
}

static void bench_violation(void *arg, const char *text)
{
	assert_non_null(text);
	((struct bench *)arg)->broken++;
}

static void bench_reg(void)
{
	assert_int_equal(b->nic[1]->ops->reg(b->nic[1], b->to, sizeof(b->to), &b->mr, &b->rkey, &b->raddr), 0);
}

static int bench_open(bool write)
{
	struct uccl_sim_net_cfg net = {.nodes = 2, .routes = 4, .delay_ns = 1000, .queue_bytes = 1 << 20};
	uint8_t i;

	memset(b, 0, sizeof(*b));
	memset(b->fives, 5, sizeof(b->fives));
	memset(b->nines, 9, sizeof(b->nines));
	assert_int_equal(uccl_sim_net_init(&b->net, &net, 3, 100), 0);
	uccl_owner_init(&b->owner);
	b->cfg = (struct uccl_sim_nic_cfg){
		.mtu = 4096,
		.write_max = write ? 32768 : 0,
		.labels = 16,
		.tx_sync = !write,
		.placements = true,
		.ages = true,
		.liveness = true,
		.icmp = true,
		.rx_slots = 4,
		.control_slots = 2,
		.tx_depth = 8,
		.late.read_ns = 500,
		.late.fence_ns = 300,
		.late.proof_ns = 200,
		.user.owner = &b->owner,
		.user.wake = bench_wake,
		.user.wake_arg = b,
		.user.violation = bench_violation,
		.user.arg = b,
	};
	for (i = 0; i < 2; i++) {
		assert_int_equal(uccl_sim_nic_open(&b->net, i, &b->cfg, &b->nic[i]), 0);
		b->nic[i]->ops->addr(b->nic[i], &b->addr[i]);
	}
	for (i = 0; i < 2; i++)
		assert_int_equal(b->nic[i]->ops->connect(b->nic[i], &b->addr[!i], i, 4, &b->peer[i]), 0);
	if (write)
		bench_reg();
	return 0;
}

static int packets(void **state)
{
	return bench_open(false);
}

static int writes(void **state)
{
	return bench_open(true);
}

static int bench_close(void **state)
{
	for (int i = 0; i < 2; i++) {
		if (b->nic[i])
			b->nic[i]->ops->close(b->nic[i]);
	}
	uccl_owner_fini(&b->owner);
	uccl_sim_net_fini(&b->net);
	return 0;
}

/* Both NICs anew, as cfg now says. */
static void bench_again(void)
{
	for (uint8_t i = 0; i < 2; i++)
		b->nic[i]->ops->close(b->nic[i]);
	for (uint8_t i = 0; i < 2; i++)
		assert_int_equal(uccl_sim_nic_open(&b->net, i, &b->cfg, &b->nic[i]), 0);
	assert_int_equal(b->nic[0]->ops->connect(b->nic[0], &b->addr[1], 0, 4, &b->peer[0]), 0);
}

/* HINTS places of len bytes each, one behind the other. */
static void places(struct uccl_rx_placement *hints, uint8_t *to, uint32_t len)
{
	for (int i = 0; i < HINTS; i++)
		hints[i] = (struct uccl_rx_placement){.dst = to + (uint32_t)i * len, .len = len};
}

static int bench_rx(int i)
{
	return b->nic[i]->ops->rx(b->nic[i], b->rx, 64, NULL, 0);
}

/* By NIC 1, with places. */
static int rx_at(const struct uccl_rx_placement *hints, int n)
{
	return b->nic[1]->ops->rx(b->nic[1], b->rx, 64, hints, n);
}

/* A packet from nic 0 to nic 1 whose header is filled with id. */
static int send_packet(uint8_t id, const void *payload, uint32_t len)
{
	memset(&b->tx, 0, sizeof(b->tx));
	b->tx.kind = UCCL_TX_PACKET;
	b->tx.to = &b->addr[1];
	b->tx.peer = b->peer[0];
	b->tx.hdr_len = UCCL_HDR_LEN;
	memset(b->tx.hdr, id, UCCL_HDR_LEN);
	b->tx.hdr[3] = UCCL_PKT_CHUNK;
	b->tx.payload = payload;
	b->tx.payload_len = len;
	b->tx.tail_len = 3;
	memcpy(b->tx.tail, "end", 3);
	b->tx.cookie = id;
	b->tx.path = 1;
	b->tx.label = 5;
	return b->nic[0]->ops->tx(b->nic[0], &b->tx, 1);
}

/* 100 bytes of 5 from nic 0. */
static int send_write(uint16_t path, uint64_t rkey, uint64_t raddr)
{
	memset(&b->tx, 0, sizeof(b->tx));
	b->tx.kind = UCCL_TX_WRITE;
	b->tx.to = &b->addr[1];
	b->tx.peer = b->peer[0];
	b->tx.payload = b->fives;
	b->tx.payload_len = sizeof(b->fives);
	b->tx.imm = 0x12345;
	b->tx.rkey = rkey;
	b->tx.raddr = raddr;
	b->tx.path = path;
	b->tx.cookie = 77;
	return b->nic[0]->ops->tx(b->nic[0], &b->tx, 1);
}

TEST_IN(open__checks_its_arguments, packets, bench_close)
{
	struct uccl_nic *nic;

	assert_int_equal(uccl_sim_nic_open(&b->net, 0, &b->cfg, &nic), -FI_EADDRINUSE);
	assert_int_equal(uccl_sim_nic_open(&b->net, 2, &b->cfg, &nic), -FI_EINVAL);
	b->cfg.rx_slots = 0;
	assert_int_equal(uccl_sim_nic_open(&b->net, 1, &b->cfg, &nic), -FI_EINVAL);
	assert_null(b->nic[0]->ops->reg);
	assert_true(b->nic[0]->caps.tx_sync);
}

TEST_IN(tx__packet_arrives_whole, packets, bench_close)
{
	uint8_t body[100];

	memset(body, 9, sizeof(body));
	assert_int_equal(send_packet(7, body, sizeof(body)), 1);
	memset(body, 0, sizeof(body)); /* tx_sync: ours again */
	assert_int_equal(bench_rx(1), 0);
	uccl_sim_run(&b->net, 1600);
	assert_int_equal(b->woken, 1);
	assert_int_equal(bench_rx(1), 1);
	assert_int_equal(b->rx[0].kind, UCCL_RX_PACKET);
	assert_int_equal(b->rx[0].len, 64 + 100 + 3);
	assert_int_equal(b->rx[0].data[0], 7);
	assert_int_equal(b->rx[0].data[64], 9);
	assert_int_equal(b->rx[0].data[163], 9);
	assert_memory_equal(b->rx[0].data + 164, "end", 3);
	assert_int_equal(b->rx[0].age_ns, 500);
	assert_int_equal(uccl_sim_node_of(&b->rx[0].src), 0);
	assert_int_not_equal(b->rx[0].src.port, b->addr[0].port); /* a label is a source port */
	assert_int_equal(b->broken, 0);
}

/* With trains, what waits goes up as one: from one place, of one length but for the last. */
TEST_IN(rx__together, packets, bench_close)
{
	static const uint32_t len[] = {100, 100, 40, 100, 70, 90};

	b->cfg.train_bytes = UCCL_TRAIN_BYTES;
	b->cfg.rx_slots = 16;
	bench_again();
	for (uint8_t i = 0; i < 6; i++)
		assert_int_equal(send_packet(i, b->nines, len[i]), 1);
	uccl_sim_run(&b->net, 100000);
	assert_int_equal(bench_rx(1), 3);
	assert_int_equal(b->rx[0].each, 167);
	assert_int_equal(b->rx[0].len, 2 * 167 + 107);
	for (uint8_t i = 0; i < 3; i++)
		assert_int_equal(b->rx[0].data[i * 167], i);
	assert_int_equal(b->rx[1].each, 167);
	assert_int_equal(b->rx[1].len, 167 + 137);
	assert_int_equal(b->rx[1].data[0], 3);
	assert_int_equal(b->rx[1].data[167], 4);
	assert_int_equal(b->rx[2].each, 0);
	assert_int_equal(b->rx[2].len, 157);
}

TEST_IN(tx__refuses_what_does_not_fit, packets, bench_close)
{
	static uint8_t body[8000];

	assert_int_equal(send_packet(7, body, 4096 - 64 - 3), 1);
	assert_int_equal(send_packet(7, body, 4096 - 64 - 3 + 1), -FI_EINVAL);
	assert_int_equal(send_write(0, 0, 0), -FI_EINVAL);
}

/* The payload is read later than tx(): who changes it before SENT is found out. */
TEST_IN(tx__async_reads_until_sent, writes, bench_close)
{
	uint8_t body[100];
	int i, n = 0;

	memset(body, 1, sizeof(body));
	uccl_owner_add(&b->owner, body, sizeof(body), 0, sizeof(body));
	uccl_owner_give(&b->owner, body, UCCL_OWNER_READ);
	for (i = 0; i < 8; i++)
		assert_int_equal(send_packet((uint8_t)i, body, sizeof(body)), 1);
	assert_int_equal(send_packet(8, body, sizeof(body)), 0); /* tx_depth */
	assert_int_equal(b->nic[0]->ops->backlog(b->nic[0]), 8 * sizeof(body));
	uccl_owner_give(&b->owner, body, UCCL_OWNER_NONE);
	memset(body, 2, sizeof(body));
	uccl_sim_run(&b->net, 1000000);
	assert_true(b->broken > 0);
	assert_int_equal(b->nic[0]->ops->backlog(b->nic[0]), 0);
	n = bench_rx(0);
	assert_int_equal(n, 8);
	for (i = 0; i < n; i++) {
		assert_int_equal(b->rx[i].kind, UCCL_RX_SENT);
		assert_true(b->rx[i].peer == b->peer[0]);
	}
	assert_int_equal(send_packet(9, body, 0), 1);
}

TEST_IN(rx__splits_at_a_hint, packets, bench_close)
{
	uint8_t place[60] = {0};
	struct uccl_rx_placement hint = {.dst = place, .len = sizeof(place)};

	send_packet(7, b->nines, sizeof(b->nines));
	send_packet(8, NULL, 0);
	uccl_sim_run(&b->net, 5000);
	assert_int_equal(rx_at(&hint, 1), 2);
	assert_true(b->rx[0].split);
	assert_int_equal(b->rx[0].len, 167);
	assert_ptr_equal(b->rx[0].body, place);
	assert_int_equal(b->rx[0].body_len, 60);
	assert_int_equal(b->rx[0].rest_len, 43);
	assert_int_equal(place[59], 9);
	assert_int_equal(b->rx[0].rest[39], 9);
	assert_memory_equal(b->rx[0].rest + 40, "end", 3);
	assert_false(b->rx[1].split);
}

TEST_IN(rx__hint_into_a_completed_buffer_is_a_violation, packets, bench_close)
{
	uint8_t place[60] = {0};
	struct uccl_rx_placement hint = {.dst = place, .len = sizeof(place)};

	uccl_owner_add(&b->owner, place, sizeof(place), 0, sizeof(place));
	rx_at(&hint, 1);
	assert_int_equal(b->broken, 1); /* also when nothing comes there */
	send_packet(7, NULL, 0);
	uccl_sim_run(&b->net, 5000);
	rx_at(&hint, 1);
	assert_int_equal(b->broken, 3); /* three bytes of tail went there */
}

TEST_IN(rx__hints_with_common_bytes_are_a_violation, packets, bench_close)
{
	struct uccl_rx_placement hints[HINTS];
	uint8_t to[HINTS * 10];

	places(hints, to, 10);
	rx_at(hints, HINTS);
	assert_int_equal(b->broken, 0);
	hints[5].dst = to + 9;
	hints[5].len = 1;
	rx_at(hints, HINTS);
	assert_int_equal(b->broken, 1);
}

/* One takes three places at once, one none. */
TEST_IN(rx__placements_most, packets, bench_close)
{
	for (int blind = 0; blind < 2; blind++) {
		struct uccl_rx_placement hints[HINTS];
		uint8_t to[HINTS * 10] = {0};

		b->cfg.placements = !blind;
		b->cfg.placements_most = 3;
		bench_again();
		places(hints, to, 10);
		for (uint8_t i = 0; i < 4; i++)
			send_packet(i, b->nines, 10);
		uccl_sim_run(&b->net, b->net.now + 100000);
		assert_int_equal(rx_at(hints, HINTS), 4);
		assert_int_equal(uccl_sim_nic_stats(b->nic[1])->split, blind ? 0 : 3);
		assert_int_equal(b->rx[2].split, !blind);
		assert_int_equal(to[29], blind ? 0 : 9);
		assert_int_equal(to[30], 0);
		assert_int_equal(b->rx[3].data[UCCL_HDR_LEN], 9);
	}
}

/* Something else comes to a place: it is written, and told as refused. Never alone, and packets come all the same. */
TEST_IN(rx__strays, packets, bench_close)
{
	const struct uccl_sim_nic_stats *st;
	struct uccl_rx_placement hints[HINTS];
	uint8_t to[HINTS * 10] = {0};
	int packets = 0;

	b->cfg.misplaced = 0.5;
	bench_again();
	st = uccl_sim_nic_stats(b->nic[1]);
	places(hints, to, 10);
	assert_int_equal(rx_at(hints, HINTS), 0);
	for (int i = 0; i < 20; i++) {
		int n;

		send_packet(7, b->to, 10);
		uccl_sim_run(&b->net, b->net.now + 10000);
		n = rx_at(hints, HINTS);
		assert_in_range(n, 1, HINTS + 1);
		for (int k = 0; k < n; k++) {
			bool stray = b->rx[k].kind == UCCL_RX_REFUSED;

			packets += !stray;
			assert_true(stray || b->rx[k].kind == UCCL_RX_PACKET);
			assert_int_equal(k < HINTS ? to[k * 10] : 0, stray ? 0xee : 0);
		}
	}
	assert_int_equal(packets, 20);
	assert_in_range(st->misplaced, 20, 70);
}

/* What goes up as one is whole, and yet a part of it was at the place. */
TEST_IN(rx__together_at_a_hint, packets, bench_close)
{
	uint8_t place[130] = {0};
	struct uccl_rx_placement hint = {.dst = place, .len = sizeof(place)};

	b->cfg.train_bytes = UCCL_TRAIN_BYTES;
	bench_again();
	for (uint8_t i = 0; i < 2; i++)
		send_packet(i, b->nines, sizeof(b->nines));
	uccl_sim_run(&b->net, 100000);
	assert_int_equal(rx_at(&hint, 1), 1);
	assert_false(b->rx[0].split);
	assert_int_equal(b->rx[0].each, 167);
	assert_int_equal(b->rx[0].data[UCCL_HDR_LEN + 99], 9);
	assert_int_equal(b->rx[0].data[167], 1);
	assert_int_equal(place[99], 9);
	assert_int_equal(place[103], 1); /* the second one's header */
}

/*
 * Packets of that length lie where a row was predicted, headers and all, and the others behind it; other ones do not.
 */
TEST_IN(rx__row_at_a_hint, packets, bench_close)
{
	for (uint32_t each = 166; each <= 167; each++) {
		uint8_t place[2 * 167 + 1];
		struct uccl_rx_placement hint = {.dst = place, .len = 2 * each, .each = each};

		b->cfg.train_bytes = UCCL_TRAIN_BYTES;
		bench_again();
		memset(place, 0x77, sizeof(place));
		for (uint8_t i = 0; i < 3; i++)
			send_packet(i, b->nines, sizeof(b->nines));
		uccl_sim_run(&b->net, b->net.now + 100000);
		assert_int_equal(b->nic[1]->ops->rx(b->nic[1], b->rx, 1, &hint, 1), 1);
		assert_int_equal(b->rx[0].each, 167);
		assert_int_equal(b->rx[0].len, 3 * 167);
		assert_int_equal(b->rx[0].run, each == 167);
		assert_int_equal(place[2 * each], 0x77);
		if (each == 167) {
			assert_ptr_equal(b->rx[0].body, place);
			assert_int_equal(b->rx[0].body_len, 2 * 167);
			assert_int_equal(b->rx[0].rest_len, 167);
			assert_int_equal(place[0], 0);
			assert_int_equal(place[167], 1);
			assert_int_equal(b->rx[0].rest[0], 2);
			assert_int_equal(b->rx[0].rest[166], 'd');
			assert_int_equal(uccl_sim_nic_stats(b->nic[1])->runs, 1);
		} else {
			for (uint8_t i = 0; i < 3; i++)
				assert_int_equal(b->rx[0].data[i * 167], i);
		}
	}
}

TEST_IN(rx__no_slot_means_a_counted_drop, packets, bench_close)
{
	const struct uccl_sim_nic_stats *st = uccl_sim_nic_stats(b->nic[1]);
	int i;

	for (i = 0; i < 6; i++)
		send_packet((uint8_t)i, NULL, 0);
	for (i = 0; i < 3; i++) { /* another queue */
		b->tx.control = true;
		b->tx.hdr[3] = UCCL_PKT_ACK;
		b->nic[0]->ops->tx(b->nic[0], &b->tx, 1);
	}
	uccl_sim_run(&b->net, 5000);
	assert_int_equal(st->slot_drops, 2);
	assert_int_equal(st->slot_drops_control, 1);
	assert_int_equal(st->slots_max, 4);
	assert_int_equal(bench_rx(1), 6);
	for (i = 0; i < 4; i++)
		send_packet((uint8_t)i, NULL, 0);
	uccl_sim_run(&b->net, 10000);
	assert_int_equal(st->slot_drops, 2);
	assert_int_equal(bench_rx(1), 4);
}

TEST_IN(write__lands_then_tells, writes, bench_close)
{
	assert_int_equal(send_write(2, b->rkey, b->raddr + 200), 1);
	uccl_sim_run(&b->net, 10000);
	assert_int_equal(b->to[199], 0);
	assert_int_equal(b->to[200], 5);
	assert_int_equal(b->to[299], 5);
	assert_int_equal(bench_rx(1), 1);
	assert_int_equal(b->rx[0].kind, UCCL_RX_WRITE);
	assert_int_equal(b->rx[0].imm, 0x12345);
	assert_int_equal(b->rx[0].len, 100);
	assert_int_equal(b->rx[0].path, 2);
	assert_ptr_equal(b->rx[0].peer, b->peer[1]);
	assert_int_equal(bench_rx(0), 1);
	assert_int_equal(b->rx[0].cookie, 77);
}

TEST_IN(write__outside_or_unregistered_touches_nothing, writes, bench_close)
{
	const struct uccl_sim_nic_stats *st = uccl_sim_nic_stats(b->nic[1]);
	int i;

	send_write(0, b->rkey, b->raddr + 201);
	send_write(0, b->rkey, b->raddr - 1);
	send_write(0, b->rkey + 1, b->raddr);
	uccl_sim_run(&b->net, 10000);
	b->nic[1]->ops->dereg(b->nic[1], b->mr, true);
	send_write(0, b->rkey, b->raddr);
	uccl_sim_run(&b->net, 20000);
	assert_int_equal(st->bad_key, 4);
	for (i = 0; i < 300; i++)
		assert_int_equal(b->to[i], 0);
	assert_int_equal(bench_rx(1), 0);
}

TEST_IN(write__into_a_completed_buffer_is_a_violation, writes, bench_close)
{
	uccl_owner_add(&b->owner, b->to, sizeof(b->to), 0, sizeof(b->to));
	uccl_owner_give(&b->owner, b->to, UCCL_OWNER_WRITE);
	send_write(0, b->rkey, b->raddr);
	uccl_sim_run(&b->net, 10000);
	assert_int_equal(b->broken, 0);
	send_write(0, b->rkey, b->raddr);
	uccl_owner_give(&b->owner, b->to, UCCL_OWNER_NONE);
	uccl_sim_run(&b->net, 20000);
	assert_int_equal(b->broken, 1);
}

TEST_IN(fence__stops_earlier_writes_on_its_path, writes, bench_close)
{
	const struct uccl_sim_nic_stats *st = uccl_sim_nic_stats(b->nic[1]);

	assert_int_equal(b->nic[1]->ops->fence(b->nic[1], b->peer[1], 4), -FI_EINVAL);
	b->net.cfg.delay_ns = 0;
	send_write(1, b->rkey, b->raddr);
	send_write(2, b->rkey, b->raddr);
	b->net.now++;
	assert_int_equal(b->nic[1]->ops->fence(b->nic[1], b->peer[1], 1), 0);
	uccl_sim_run(&b->net, 10000);
	assert_int_equal(st->fenced, 1);
	assert_int_equal(bench_rx(1), 2);
	assert_int_equal(b->rx[0].kind, UCCL_RX_FENCED);
	assert_int_equal(b->rx[0].path, 1);
	assert_ptr_equal(b->rx[0].peer, b->peer[1]);
	assert_int_equal(b->rx[1].kind, UCCL_RX_WRITE);
	assert_int_equal(b->rx[1].path, 2);
	send_write(1, b->rkey, b->raddr);
	uccl_sim_run(&b->net, 20000);
	assert_int_equal(bench_rx(1), 1);
}

/* A write from before a restart finds nobody, also when the new NIC has a handle for the same peer. */
TEST_IN(write__stale_peer_is_refused, writes, bench_close)
{
	send_write(1, b->rkey, b->raddr);
	uccl_sim_run(&b->net, b->net.now + 501); /* it has left */
	b->nic[1]->ops->disconnect(b->nic[1], b->peer[1]);
	b->nic[1]->ops->connect(b->nic[1], &b->addr[0], 9, 4, &b->peer[1]);
	uccl_sim_run(&b->net, 10000);
	assert_int_equal(uccl_sim_nic_stats(b->nic[1])->no_peer, 1);
	assert_int_equal(b->to[0], 0);
}

TEST_IN(close__tells_the_mate, packets, bench_close)
{
	b->nic[1]->ops->close(b->nic[1]);
	b->nic[1] = NULL;
	uccl_sim_run(&b->net, 10000);
	assert_int_equal(bench_rx(0), 1);
	assert_int_equal(b->rx[0].kind, UCCL_RX_GONE);
	assert_int_equal(uccl_sim_node_of(&b->rx[0].src), 1);
	send_packet(1, NULL, 0);
	uccl_sim_run(&b->net, 20000);
	assert_int_equal(bench_rx(0), 1);
	assert_int_equal(b->rx[0].kind, UCCL_RX_UNREACH);
	assert_int_equal(b->rx[0].src.port, b->addr[1].port);
}

/* The handle of an earlier life says nothing of a later one when it goes. */
TEST_IN(close__later_life, packets, bench_close)
{
	struct uccl_nic_peer *old = b->peer[0];

	b->nic[1]->ops->close(b->nic[1]);
	assert_int_equal(uccl_sim_nic_open(&b->net, 1, &b->cfg, &b->nic[1]), 0);
	assert_int_equal(b->nic[1]->ops->connect(b->nic[1], &b->addr[0], 9, 4, &b->peer[1]), 0);
	assert_int_equal(b->nic[0]->ops->connect(b->nic[0], &b->addr[1], 8, 4, &b->peer[0]), 0);
	b->nic[0]->ops->disconnect(b->nic[0], old);
	uccl_sim_run(&b->net, 10000);
	assert_int_equal(bench_rx(1), 0);
	b->nic[0]->ops->disconnect(b->nic[0], b->peer[0]);
	uccl_sim_run(&b->net, 20000);
	assert_int_equal(bench_rx(1), 1);
	assert_int_equal(b->rx[0].kind, UCCL_RX_GONE);
}

TEST_IN(kill__leaves_the_owner_a_dead_nic, writes, bench_close)
{
	uint8_t body[100] = {0};

	b->nic[0]->ops->reg(b->nic[0], body, sizeof(body), &b->mr, &b->rkey, &b->raddr);
	send_packet(1, body, sizeof(body));
	uccl_sim_nic_kill(b->nic[0]);
	assert_int_equal(send_packet(2, body, sizeof(body)), 1);
	uccl_sim_run(&b->net, 20000);
	assert_int_equal(bench_rx(0), 0);
	assert_int_equal(bench_rx(1), 1);
	assert_int_equal(b->rx[0].kind, UCCL_RX_GONE);
	b->nic[0]->ops->dereg(b->nic[0], b->mr, true);
	b->nic[0]->ops->disconnect(b->nic[0], b->peer[0]);
}

TEST_IN(break__loses_writes_and_tells, writes, bench_close)
{
	send_write(3, b->rkey, b->raddr);
	uccl_sim_run(&b->net, b->net.now + 1);
	uccl_sim_nic_break(b->nic[1], 0, 3);
	uccl_sim_run(&b->net, 10000);
	assert_int_equal(bench_rx(1), 1);
	assert_int_equal(b->rx[0].kind, UCCL_RX_PATH_ERR);
	assert_int_equal(b->rx[0].path, 3);
	assert_int_equal(b->to[0], 0);
}

/* A write is the NIC's until the peer's NIC has it, or nobody answers for long, or stop_writes ends it. */
TEST_IN(answer__writes_wait_for_the_peer, writes, bench_close)
{
	b->cfg.late.answer_ns = UCCL_NS_PER_S;
	bench_again();
	assert_int_equal(b->nic[1]->ops->connect(b->nic[1], &b->addr[0], 1, 4, &b->peer[1]), 0);
	bench_reg();
	uccl_owner_add(&b->owner, b->fives, sizeof(b->fives), 0, sizeof(b->fives));
	uccl_owner_give(&b->owner, b->fives, UCCL_OWNER_READ);
	assert_int_equal(send_write(1, b->rkey, b->raddr), 1);
	uccl_sim_run(&b->net, 20000);
	assert_int_equal(b->to[0], 5);
	assert_int_equal(bench_rx(0), 1);
	assert_int_equal(b->rx[0].kind, UCCL_RX_SENT);
	uccl_sim_hole_add(&b->net, &(struct uccl_sim_hole){.src = -1, .dst = -1, .route = -1, .end = UCCL_NEVER});
	for (int stop = 0; stop < 2; stop++) {
		assert_int_equal(send_write(1, b->rkey, b->raddr), 1);
		uccl_sim_run(&b->net, b->net.now + UCCL_NS_PER_S / 2);
		assert_int_equal(bench_rx(0), 0);
		if (stop)
			b->nic[0]->ops->stop_writes(b->nic[0], b->peer[0]);
		uccl_sim_run(&b->net, b->net.now + (stop ? 1000 : UCCL_NS_PER_S));
		assert_int_equal(bench_rx(0), 1);
		assert_int_equal(b->rx[0].kind, UCCL_RX_SENT);
	}
	assert_int_equal(uccl_sim_nic_stats(b->nic[0])->stopped, 1);
	assert_int_equal(b->broken, 0);
	/* It reads what waits again and again. */
	assert_int_equal(send_write(1, b->rkey, b->raddr), 1);
	uccl_sim_run(&b->net, b->net.now + UCCL_NS_PER_S / 2);
	uccl_owner_give(&b->owner, b->fives, UCCL_OWNER_NONE);
	uccl_sim_run(&b->net, b->net.now + UCCL_NS_PER_S / 10);
	assert_true(b->broken > 0);
}

/* A broken NIC, for the tests of the checkers: the write lands after fence and dereg. */
TEST_IN(leaky__writes_anyway, writes, bench_close)
{
	b->cfg.leaky = true;
	bench_again();
	assert_int_equal(b->nic[1]->ops->connect(b->nic[1], &b->addr[0], 1, 4, &b->peer[1]), 0);
	bench_reg();
	send_write(1, b->rkey, b->raddr);
	b->net.now++;
	b->nic[1]->ops->dereg(b->nic[1], b->mr, true);
	b->nic[1]->ops->fence(b->nic[1], b->peer[1], 1);
	uccl_sim_run(&b->net, 10000);
	assert_int_equal(b->to[0], 5);
}

/* The same of a place: what comes later is written there, too. */
TEST_IN(leaky__remembers_places, packets, bench_close)
{
	uint8_t place[60] = {0};
	struct uccl_rx_placement hint = {.dst = place, .len = sizeof(place)};

	for (int leaky = 0; leaky < 2; leaky++) {
		b->cfg.leaky = leaky;
		bench_again();
		assert_int_equal(rx_at(&hint, 1), 0);
		send_packet(7, b->nines, sizeof(b->nines));
		uccl_sim_run(&b->net, b->net.now + 10000);
		assert_int_equal(bench_rx(1), 1);
		assert_int_equal(b->rx[0].data[UCCL_HDR_LEN], 9);
		assert_int_equal(place[59], leaky ? 9 : 0);
	}
}

TESTS_MAIN
