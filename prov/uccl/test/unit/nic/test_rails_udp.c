/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Several sockets as one NIC (rails.c), on addresses of the loopback. PROTOCOL R384 */
#include "flow/wire/wire.h"
#include "nic/nic.h"

#include "../tests.h"

#include <poll.h>
#include <rdma/fi_errno.h>
#include <string.h>

#include "base/units.h"

#define SIDES 2
#define RAILS UCCL_RAILS_MAX
#define LABELS 4

static struct uccl_nic *nic[SIDES], *inner[SIDES][RAILS];
static struct uccl_nic_ops spied[SIDES][RAILS];
static const struct uccl_nic_ops *real;
static struct uccl_nic_peer *peer[SIDES];
static struct uccl_nic_addr place[SIDES], at[SIDES][RAILS];
static int sent[SIDES][RAILS], packets[SIDES];
static struct uccl_rx report; /* comes next at the last rail of side 0, if it has a kind */

static int spy_tx(struct uccl_nic *one, struct uccl_tx *v, int n)
{
	for (int s = 0; s < SIDES; s++)
		for (int r = 0; r < RAILS; r++)
			sent[s][r] += one == inner[s][r] ? n : 0;
	return real->tx(one, v, n);
}

static int spy_rx(struct uccl_nic *one, struct uccl_rx *v, int n, const struct uccl_rx_placement *places, int nplaces)
{
	if (one != inner[0][RAILS - 1] || !report.kind)
		return real->rx(one, v, n, places, nplaces);
	*v = report;
	report.kind = UCCL_RX_PACKET;
	return 1;
}

static uint32_t spy_path_mtu(struct uccl_nic *one, const struct uccl_nic_addr *to, uint32_t *known)
{
	(void)to;
	*known = one == inner[0][3] ? 1200 : 9000;
	return one == inner[0][5] ? 1400 : 9000;
}

/* The other rails of a side have the port of its first one, as they have where a program opens them. */
static bool same_ports;

static void rails_of(int s)
{
	for (int r = 0; r < RAILS; r++) {
		struct uccl_nic_attr attr = {.labels = LABELS, .rx_bytes = 1 << 16, .liveness = !r};

		attr.bind.ip[10] = attr.bind.ip[11] = 0xff;
		attr.bind.ip[12] = 127;
		attr.bind.ip[14] = (uint8_t)(s + 1);
		attr.bind.ip[15] = (uint8_t)(r + 1);
		attr.bind.port = same_ports && r ? at[s][0].port : 0;
		assert_int_equal(uccl_nic_udp_open(&attr, &inner[s][r]), 0);
		real = inner[s][r]->ops;
		spied[s][r] = *real;
		spied[s][r].tx = spy_tx;
		spied[s][r].rx = spy_rx;
		inner[s][r]->ops = &spied[s][r];
		real->addr(inner[s][r], &at[s][r]);
	}
}

static int begin(void **state)
{
	(void)state;
	memset(sent, 0, sizeof(sent));
	memset(packets, 0, sizeof(packets));
	memset(&report, 0, sizeof(report));
	assert_int_equal(UCCL_RX_PACKET, 0);
	for (int s = 0; s < SIDES; s++) {
		rails_of(s);
		assert_int_equal(uccl_nic_rails_open(inner[s], RAILS, &nic[s]), 0);
		nic[s]->ops->addr(nic[s], &place[s]);
	}
	for (int s = 0; s < SIDES; s++)
		assert_int_equal(nic[s]->ops->connect(nic[s], &place[!s], 100 + (uint64_t)s, 16, &peer[s]), 0);
	return 0;
}

static int begin_same_ports(void **state)
{
	same_ports = true;
	return begin(state);
}

static int end(void **state)
{
	(void)state;
	same_ports = false;
	for (int s = 0; s < SIDES; s++)
		nic[s]->ops->close(nic[s]);
	return 0;
}

/* What side s tells, taken by the other; returns the records. */
static int tell(int s)
{
	uint8_t buf[UCCL_NIC_RECORD];
	uint32_t len;
	int n = 0;

	while ((len = nic[s]->ops->offer(nic[s], peer[s], buf, sizeof(buf)))) {
		assert_int_equal(nic[!s]->ops->accept(nic[!s], peer[!s], buf, len), 0);
		n++;
	}
	return n;
}

/* Packets that come within a second, until there are `want`; all count as from the first place. */
static int arrive(int s, int want)
{
	struct uccl_rx v[16];
	int got = 0;

	for (int round = 0; round < 1000 && got < want; round++) {
		int n = nic[s]->ops->rx(nic[s], v, 16, NULL, 0);

		for (int i = 0; i < n; i++) {
			if (v[i].kind != UCCL_RX_PACKET)
				continue;
			assert_memory_equal(v[i].src.ip, place[!s].ip, 16);
			got++;
		}
		if (!n)
			poll(NULL, 0, 1);
	}
	return got;
}

/* A packet of each label of the first `n`. */
static void labels_tx(int s, uint16_t n)
{
	for (uint16_t label = 0; label < n; label++) {
		struct uccl_tx t = {.kind = UCCL_TX_PACKET, .label = label, .hdr_len = UCCL_HDR_LEN, .peer = peer[s],
				    .to = &place[!s]};

		assert_int_equal(nic[s]->ops->tx(nic[s], &t, 1), 1);
	}
}

TEST_IN(tx__all_rails, begin, end)
{
	assert_true(nic[0]->caps.rails);
	assert_int_equal(nic[0]->caps.labels, LABELS * RAILS);
	assert_true(nic[0]->caps.two_way && nic[0]->caps.tx_sync);
	assert_null(nic[0]->ops->prepare);
	labels_tx(0, 16);
	assert_int_equal(sent[0][0], 16);
	assert_int_equal(arrive(1, 16), 16);
	/* Two places in a record. */
	for (int s = 0; s < SIDES; s++)
		assert_int_equal(tell(s), RAILS / 2);
	for (int s = 0; s < SIDES; s++) {
		labels_tx(s, 2 * RAILS);
		for (int r = 0; r < RAILS; r++)
			assert_int_equal(sent[s][r], 2 + (s || r ? 0 : 16));
		assert_int_equal(arrive(!s, 2 * RAILS), 2 * RAILS);
	}
}

/* A packet of one label to side 1, that has no peer yet; the rail by which it came, -1: none in a second. */
static int first_rail(uint16_t label, bool answer, const struct uccl_nic_addr *to)
{
	struct uccl_tx t = {.kind = UCCL_TX_PACKET, .label = label, .hdr_len = UCCL_HDR_LEN, .to = to,
			    .answer = answer};
	struct uccl_rx v;

	assert_int_equal(nic[0]->ops->tx(nic[0], &t, 1), 1);
	for (int round = 0; round < 1000; round++) {
		if (nic[1]->ops->rx(nic[1], &v, 1, NULL, 0) && v.kind == UCCL_RX_PACKET)
			return v.rail;
		poll(NULL, 0, 1);
	}
	return -1;
}

/* Side 0, which side 1 knows, sends one over its second rail: is it said to be from there, not from the first place? */
static bool came_from(uint8_t type)
{
	struct uccl_hdr h = {.type = type};
	struct uccl_tx t = {.kind = UCCL_TX_PACKET, .label = 1, .hdr_len = UCCL_HDR_LEN, .to = &at[1][1],
			    .answer = true};
	struct uccl_rx v;

	uccl_hdr_encode(t.hdr, &h);
	assert_int_equal(nic[0]->ops->tx(nic[0], &t, 1), 1);
	for (int round = 0; round < 1000; round++) {
		if (nic[1]->ops->rx(nic[1], &v, 1, NULL, 0) && v.kind == UCCL_RX_PACKET)
			return !memcmp(v.src.ip, at[0][1].ip, sizeof(v.src.ip));
		poll(NULL, 0, 1);
	}
	fail();
	return false;
}

/* Before there is a connection the address tells two rails, and what is answered leaves by the rail of its label. */
TEST_IN(tx__before_connection, begin_same_ports, end)
{
	struct uccl_nic_addr second, only = at[1][0];

	assert_true(uccl_nic_addr_second(&place[1], &second));
	assert_memory_equal(&second, &at[1][1], sizeof(second));
	for (int s = 0; s < SIDES; s++)
		nic[s]->ops->disconnect(nic[s], peer[s]);
	for (uint16_t label = 0; label < RAILS; label++) {
		assert_int_equal(first_rail(label, false, &place[1]), label & 1);
		assert_int_equal(first_rail(label, false, &only), 0);
		assert_int_equal(first_rail(label, true, &at[1][label]), label);
	}
	/* With a connection what comes by the second is from the first. What the peer tells later changes nothing. */
	for (int s = 0; s < SIDES; s++)
		assert_int_equal(nic[s]->ops->connect(nic[s], &place[!s], 300 + (uint64_t)s, 16, &peer[s]), 0);
	memset(sent, 0, sizeof(sent));
	labels_tx(0, RAILS);
	assert_int_equal(sent[0][1], 1);
	assert_int_equal(arrive(1, RAILS), RAILS);
	tell(0);
	tell(1);
	labels_tx(1, RAILS);
	assert_int_equal(arrive(0, RAILS), RAILS);
	for (uint8_t type = UCCL_PKT_HELLO; type <= UCCL_PKT_INIT_ACK; type++)
		assert_int_equal(came_from(type), type == UCCL_PKT_HELLO || type == UCCL_PKT_INIT);
}

/* Whoever has fewer rails uses those that both have. */
TEST_IN(tx__fewer_there, begin, end)
{
	struct uccl_nic *two[2];
	uint8_t buf[UCCL_NIC_RECORD];
	uint32_t len;

	nic[1]->ops->close(nic[1]);
	rails_of(1);
	memcpy(two, inner[1], sizeof(two));
	for (int r = 2; r < RAILS; r++)
		real->close(inner[1][r]);
	assert_int_equal(uccl_nic_rails_open(two, 2, &nic[1]), 0);
	nic[1]->ops->addr(nic[1], &place[1]);
	nic[0]->ops->disconnect(nic[0], peer[0]);
	for (int s = 0; s < SIDES; s++)
		assert_int_equal(nic[s]->ops->connect(nic[s], &place[!s], 200 + (uint64_t)s, 16, &peer[s]), 0);
	len = nic[1]->ops->offer(nic[1], peer[1], buf, sizeof(buf));
	assert_int_equal(len, 32);
	assert_int_equal(nic[0]->ops->accept(nic[0], peer[0], buf, len), 0);
	assert_int_equal(tell(0), RAILS / 2);
	memset(sent, 0, sizeof(sent));
	labels_tx(0, 16);
	assert_int_equal(sent[0][0] + sent[0][1], 16);
	assert_int_equal(sent[0][1], 2);
	assert_int_equal(arrive(1, 16), 16);
}

TEST_IN(accept__nonsense, begin, end)
{
	uint8_t good[UCCL_NIC_RECORD], buf[UCCL_NIC_RECORD];
	/* Kind, rail, scope, word, zeros: of the second place. */
	static const uint8_t wrong[] = {32, 33, 36, 40, 42, 47};

	assert_int_equal(nic[0]->ops->offer(nic[0], peer[0], good, sizeof(good)), 64);
	for (size_t i = 0; i < uccl_array_len(wrong); i++) {
		memcpy(buf, good, sizeof(buf));
		buf[wrong[i]] ^= 8;
		assert_int_equal(nic[1]->ops->accept(nic[1], peer[1], buf, 64), -FI_EINVAL);
	}
	memcpy(buf, good, sizeof(buf));
	memset(buf + 34, 0, 2); /* no port */
	assert_int_equal(nic[1]->ops->accept(nic[1], peer[1], buf, 64), -FI_EINVAL);
	memcpy(buf, good, sizeof(buf));
	buf[33] = 1; /* the same rail twice */
	assert_int_equal(nic[1]->ops->accept(nic[1], peer[1], buf, 64), -FI_EINVAL);
	assert_int_equal(nic[1]->ops->accept(nic[1], peer[1], good, 0), -FI_EINVAL);
	assert_int_equal(nic[1]->ops->accept(nic[1], peer[1], good, 33), -FI_EINVAL);
	assert_int_equal(nic[1]->ops->accept(nic[1], peer[1], good, 64), 0);
	assert_int_equal(nic[1]->ops->accept(nic[1], peer[1], good, 32), -FI_EINVAL);
}

/* Of one way: a closed port says nothing of the peer; a length holds for all of it. */
TEST_IN(reports__of_another_rail, begin, end)
{
	struct uccl_rx v[8];

	tell(1);
	report = (struct uccl_rx){.kind = UCCL_RX_UNREACH, .src = at[1][RAILS - 1]};
	for (int i = 0; i < RAILS; i++)
		assert_int_equal(nic[0]->ops->rx(nic[0], v, 8, NULL, 0), 0);
	report = (struct uccl_rx){.kind = UCCL_RX_TOO_LONG, .src = at[1][RAILS - 1], .imm = 1400};
	assert_int_equal(nic[0]->ops->rx(nic[0], v, 8, NULL, 0), 1);
	assert_int_equal(v[0].kind, UCCL_RX_TOO_LONG);
	assert_int_equal(v[0].imm, 1400);
	assert_memory_equal(v[0].src.ip, place[1].ip, 16);
	assert_int_equal(v[0].src.port, place[1].port);
	/* Of nobody's place it stays what it is. */
	report = (struct uccl_rx){.kind = UCCL_RX_TOO_LONG, .src = at[0][0]};
	assert_int_equal(nic[0]->ops->rx(nic[0], v, 8, NULL, 0), 1);
	assert_int_equal(v[0].src.port, at[0][0].port);
}

TEST_IN(path_mtu__least, begin, end)
{
	uint32_t known;

	for (int r = 0; r < RAILS; r++)
		spied[0][r].path_mtu = spy_path_mtu;
	assert_int_equal(nic[0]->ops->path_mtu(nic[0], &place[1], &known), 1400);
	assert_int_equal(known, 1200);
}

TEST_IN(wait_fd__any, begin, end)
{
	struct pollfd f = {.events = POLLIN};

	tell(0);
	tell(1);
	f.fd = nic[1]->ops->wait_fd(nic[1]);
	assert_true(f.fd >= 0);
	/* Connections of the kernels come, too. */
	while (poll(&f, 1, 100) > 0)
		arrive(1, 1);
	labels_tx(0, RAILS);
	assert_int_equal(poll(&f, 1, 1000), 1);
	assert_int_equal(arrive(1, RAILS), RAILS);
}

TEST(open__refused)
{
	struct uccl_nic *many[RAILS + 1], *out;
	struct uccl_nic_attr attr = {.labels = 2};

	for (int i = 0; i < RAILS + 1; i++)
		assert_int_equal(uccl_nic_udp_open(&attr, &many[i]), 0);
	assert_int_equal(uccl_nic_rails_open(many, RAILS + 1, &out), -FI_EINVAL);
	assert_int_equal(uccl_nic_udp_open(&attr, &many[0]), 0);
	assert_int_equal(uccl_nic_rails_open(many, 1, &out), -FI_EINVAL);
}

TESTS_MAIN
