/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Two udp back ends on loopback (udp.c, udp_tx.c, udp_rx.c). */
#include "nic/udp/udp_reports.h"

#include "../../tests.h"

#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <rdma/fi_errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/log.h"
#include "base/rng.h"
#include "base/slot_unit.h"

#define ROUNDS 5000 /* of at most a millisecond: far more than loopback needs */

static const struct uccl_nic_addr v4_loopback = {.ip = {[10] = 0xff, [11] = 0xff, [12] = 127, [15] = 1}};
static const struct uccl_nic_addr v6_loopback = {.ip = {[15] = 1}};

static struct uccl_nic *open_attr(const struct uccl_nic_attr *attr)
{
	struct uccl_nic *nic = NULL;

	assert_int_equal(uccl_nic_udp_open(attr, &nic), 0);
	return nic;
}

static struct uccl_nic *open_plain(uint32_t mtu)
{
	return open_attr(&(struct uccl_nic_attr){.bind = v4_loopback, .mtu = mtu});
}

static struct uccl_nic_addr addr_of(struct uccl_nic *nic)
{
	struct uccl_nic_addr a;

	nic->ops->addr(nic, &a);
	return a;
}

static uint8_t payload[80000];

static void payload_fill(void)
{
	size_t i;

	for (i = 0; i < sizeof(payload); i++)
		payload[i] = (uint8_t)(i * 31 + i / 251);
}

static struct uccl_tx packet(const struct uccl_nic_addr *to, uint8_t mark, uint32_t len, uint16_t tail)
{
	struct uccl_tx t = {.kind = UCCL_TX_PACKET,
			    .hdr_len = 64,
			    .payload = payload,
			    .payload_len = len,
			    .tail_len = tail,
			    .to = to};

	memset(t.hdr, mark, 64);
	memset(t.tail, 0xee, tail);
	return t;
}

static int rx_wait(struct uccl_nic *nic, struct uccl_rx *v, int n, const struct uccl_rx_placement *places, int nplaces)
{
	int round, k;

	for (round = 0; round < ROUNDS; round++) {
		k = nic->ops->rx(nic, v, n, places, nplaces);
		if (k)
			return k;
		poll(NULL, 0, round > 100);
	}
	return 0;
}

/* The packet at *off of what came as one; *off moves on. False: that was all. */
static bool next_packet(const struct uccl_rx *r, uint32_t *off, struct uccl_rx *one)
{
	if (*off >= r->len)
		return false;
	assert_true(!r->each || (r->each < r->len && !r->split));
	*one = *r;
	one->data += *off;
	one->len = r->each ? (uint32_t)uccl_min(r->each, r->len - *off) : r->len;
	one->each = 0;
	*off += one->len;
	return true;
}

/* The whole packet at r is: 64 times mark, len bytes of payload, tail times 0xee. */
static void packet_check(const struct uccl_rx *r, uint8_t mark, uint32_t len, uint16_t tail)
{
	static uint8_t flat[70000], want[70000];

	assert_int_equal(r->kind, UCCL_RX_PACKET);
	assert_int_equal(r->len, 64 + len + tail);
	if (r->split) {
		assert_int_equal(64 + r->body_len + r->rest_len, r->len);
		memcpy(flat, r->data, 64);
		memcpy(flat + 64, r->body, r->body_len);
		memcpy(flat + 64 + r->body_len, r->rest, r->rest_len);
	} else {
		memcpy(flat, r->data, r->len);
	}
	memset(want, mark, 64);
	memcpy(want + 64, payload, len);
	memset(want + 64 + len, 0xee, tail);
	assert_memory_equal(flat, want, r->len);
}

/* One packet comes, this one. */
static void receive(struct uccl_nic *nic, struct uccl_rx *v, int n, uint8_t mark, uint32_t len, uint16_t tail)
{
	assert_int_equal(rx_wait(nic, v, n, NULL, 0), 1);
	packet_check(&v[0], mark, len, tail);
}

/* n packets of 100 bytes come one by one, in order. */
static void receive_singles(struct uccl_nic *nic, int n)
{
	struct uccl_rx v[32];
	int seen = 0, got;

	while (seen < n) {
		got = rx_wait(nic, v, 32, NULL, 0);
		assert_true(got > 0);
		for (int i = 0; i < got; i++) {
			assert_int_equal(v[i].each, 0);
			packet_check(&v[i], (uint8_t)seen++, 100, 0);
		}
	}
}

/* A report quotes the header, which is 64 times mark. */
static void quote_check(const struct uccl_rx *r, uint8_t mark)
{
	uint8_t want[UCCL_HDR_LEN];

	memset(want, mark, sizeof(want));
	assert_int_equal(r->len, sizeof(want));
	assert_memory_equal(r->data, want, sizeof(want));
}

static void tx_all(struct uccl_nic *nic, struct uccl_tx *v, int n)
{
	int done = 0, round, k;

	for (round = 0; done < n && round < ROUNDS; round++) {
		k = nic->ops->tx(nic, v + done, n - done);
		assert_true(k >= 0);
		done += k;
	}
	assert_int_equal(done, n);
}

/* Two back ends, and the address of b, to which a sends. */
static struct uccl_nic *a, *b;
static struct uccl_nic_addr to;

static int pair_begin(void **state)
{
	a = open_plain(0);
	b = open_plain(0);
	to = addr_of(b);
	return 0;
}

static int pair_end(void **state)
{
	a->ops->close(a);
	b->ops->close(b);
	return 0;
}

/* open */

TEST(open__loopback_caps)
{
	struct uccl_nic *nic = open_plain(0);
	struct uccl_nic_addr a = addr_of(nic);

	assert_string_equal(nic->ops->name, "udp");
	assert_int_equal(nic->caps.mtu, 65507);
	assert_true(nic->caps.tx_sync && nic->caps.placements);
	assert_int_equal(nic->caps.write_max, 0);
	assert_int_equal(nic->caps.labels, 512);
	assert_int_equal(nic->caps.train_bytes, 65000);
	assert_true(nic->caps.rx_slots >= 2);
	assert_int_not_equal(a.port, 0);
	assert_memory_equal(a.ip, v4_loopback.ip, 16);
	nic->ops->close(nic);
	nic = open_plain(1400);
	assert_int_equal(nic->caps.mtu, 1400);
	assert_false(nic->caps.placements);
	nic->ops->close(nic);
}

TEST(open__refuses)
{
	struct uccl_nic_attr attr = {.ifname = "no-such-if0"};
	struct uccl_nic *nic = NULL;

	assert_int_equal(uccl_nic_udp_open(&attr, &nic), -FI_ENODEV);
	attr = (struct uccl_nic_attr){.bind = v4_loopback, .mtu = 100};
	assert_int_equal(uccl_nic_udp_open(&attr, &nic), -FI_EINVAL);
	attr.mtu = 0;
	attr.bind.ip[12] = 198; /* 198.0.0.1: not of this host */
	assert_int_equal(uccl_nic_udp_open(&attr, &nic), -FI_EADDRNOTAVAIL);
	assert_null(nic);
}

TEST(open__fixed_port)
{
	struct uccl_nic *nic = open_plain(0), *other = NULL;
	struct uccl_nic_attr attr = {.bind = addr_of(nic)};
	uint16_t port = attr.bind.port;

	assert_int_equal(uccl_nic_udp_open(&attr, &other), -FI_EADDRINUSE);
	nic->ops->close(nic);
	nic = open_attr(&attr);
	assert_int_equal(addr_of(nic).port, port);
	nic->ops->close(nic);
}

static char said[2048];

static void note(int level, const char *func, int line, const char *text)
{
	if (level == UCCL_LOG_WARN)
		snprintf(said + strlen(said), sizeof(said) - strlen(said), "%s\n", text);
}

/* A TCP listener of somebody else at our fixed port costs liveness only. */
TEST(open__fixed_port_without_tcp)
{
	struct uccl_nic_attr attr = {.liveness = true};
	struct sockaddr_storage sa;
	struct uccl_nic_peer *peer;
	struct uccl_nic *nic = NULL;
	socklen_t len;
	int fd = -1, rc = -FI_EADDRINUSE, tries;

	/* A TCP port that is taken; its UDP twin may belong to another program, then another one. */
	for (tries = 0; tries < 100 && rc == -FI_EADDRINUSE; tries++) {
		fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
		len = uccl_ifaddr_to_sock(&sa, &v4_loopback, AF_INET);
		assert_int_equal(bind(fd, (struct sockaddr *)&sa, len), 0);
		assert_int_equal(listen(fd, 1), 0);
		assert_int_equal(getsockname(fd, (struct sockaddr *)&sa, &len), 0);
		uccl_ifaddr_from_sock(&attr.bind, (struct sockaddr *)&sa, len);
		rc = uccl_nic_udp_open(&attr, &nic);
		if (rc)
			close(fd);
	}
	assert_int_equal(rc, 0);
	assert_null(udp_of(nic)->live);
	assert_int_equal(nic->ops->connect(nic, &attr.bind, 1, 1, &peer), 0);
	nic->ops->disconnect(nic, peer);
	nic->ops->close(nic);
	/* A caller that tries another port wants liveness, and there is nothing to tell people. */
	attr.liveness = UCCL_LIVENESS_MUST;
	said[0] = '\0';
	uccl_log_set(note, UCCL_LOG_WARN);
	assert_int_equal(uccl_nic_udp_open(&attr, &nic), -FI_EADDRINUSE);
	uccl_log_set(NULL, 0);
	assert_string_equal(said, "");
	close(fd);
}

/* Ports in a row that nobody has, for UDP and TCP; another program may come between, so callers try again. */
static struct uccl_ports range_find(int n)
{
	static uint32_t first = 21000;
	int free_ports = 0;

	for (first += 100; free_ports < n; first++) {
		struct uccl_nic_addr at = v4_loopback;
		struct sockaddr_storage sa;
		socklen_t len;
		int udp = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
		int tcp = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

		assert_true(first < 60000);
		at.port = (uint16_t)first;
		len = uccl_ifaddr_to_sock(&sa, &at, AF_INET);
		free_ports = bind(udp, (struct sockaddr *)&sa, len) || bind(tcp, (struct sockaddr *)&sa, len) ?
				     0 :
				     free_ports + 1;
		close(udp);
		close(tcp);
	}
	return (struct uccl_ports){(uint16_t)(first - (uint32_t)n), (uint16_t)(first - 1)};
}

static bool in_range(const struct uccl_ports *r, int fd)
{
	struct sockaddr_in sa;
	socklen_t len = sizeof(sa);

	assert_int_equal(getsockname(fd, (struct sockaddr *)&sa, &len), 0);
	return ntohs(sa.sin_port) >= r->first && ntohs(sa.sin_port) <= r->last;
}

static void send_labels(struct uccl_nic *from, struct uccl_nic *to, int labels)
{
	struct uccl_nic_addr at = addr_of(to);
	struct uccl_rx v[1];

	for (int label = 0; label < labels; label++) {
		struct uccl_tx t = packet(&at, (uint8_t)label, 10, 0);

		t.label = (uint16_t)label;
		tx_all(from, &t, 1);
		receive(to, v, 1, (uint8_t)label, 10, 0);
	}
}

/* Every socket of two endpoints is in the range, and labels are as many as were asked for. */
TEST(open__in_range)
{
	struct uccl_nic_attr attr = {.bind = v4_loopback, .labels = 4, .ports = range_find(12), .liveness = true};
	struct uccl_nic *a = open_attr(&attr), *b = open_attr(&attr);

	assert_int_equal(a->caps.labels, 4);
	send_labels(a, b, 4);
	send_labels(b, a, 4);
	for (int i = 0; i < 4; i++) {
		assert_true(in_range(&attr.ports, udp_of(a)->labels.sock[i].fd));
		assert_true(in_range(&attr.ports, udp_of(b)->labels.sock[i].fd));
	}
	assert_int_equal(udp_of(a)->labels.nsocks, 4);
	assert_true(in_range(&attr.ports, udp_of(a)->rx_fd));
	assert_true(in_range(&attr.ports, udp_of(b)->rx_fd));
	assert_non_null(udp_of(a)->live);
	assert_non_null(udp_of(b)->live);
	a->ops->close(a);
	b->ops->close(b);
}

/* The range bounds labels, too; the last of its ports goes to who comes first, the other shares what it has. */
TEST(open__range_shared)
{
	struct uccl_nic_attr attr = {.bind = v4_loopback, .ports = range_find(5)};
	struct uccl_nic *a = open_attr(&attr), *b = open_attr(&attr), *c = NULL;

	assert_int_equal(a->caps.labels, 5);
	said[0] = '\0';
	uccl_log_set(note, UCCL_LOG_WARN);
	send_labels(a, b, 5);
	assert_int_equal(udp_of(a)->labels.nsocks, 4);
	assert_non_null(strstr(said, "no port left for another path, all 5 were tried"));
	/* Once. */
	assert_null(strstr(strstr(said, "FI_UCCL_PORTS") + 1, "FI_UCCL_PORTS"));
	send_labels(b, a, 5);
	assert_int_equal(udp_of(b)->labels.nsocks, 1);
	said[0] = '\0';
	assert_int_equal(uccl_nic_udp_open(&attr, &c), -FI_EADDRINUSE);
	uccl_log_set(NULL, 0);
	assert_non_null(strstr(said, "no port is free, all 5 were tried"));
	assert_non_null(strstr(said, "needs up to 5 ports of this host"));
	a->ops->close(a);
	c = open_attr(&attr);
	c->ops->close(c);
	b->ops->close(b);
}

/* A foreign listener at each port: endpoints open all the same, and say what they go without. */
TEST(open__range_without_tcp)
{
	struct uccl_nic_attr attr = {.bind = v4_loopback, .ports = range_find(3), .liveness = true};
	struct uccl_nic *nic;
	int fd[3];

	for (int i = 0; i < 3; i++) {
		struct uccl_nic_addr at = v4_loopback;
		struct sockaddr_storage sa;
		socklen_t len;

		at.port = (uint16_t)(attr.ports.first + i);
		len = uccl_ifaddr_to_sock(&sa, &at, AF_INET);
		fd[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
		assert_int_equal(bind(fd[i], (struct sockaddr *)&sa, len), 0);
		assert_int_equal(listen(fd[i], 1), 0);
	}
	said[0] = '\0';
	uccl_log_set(note, UCCL_LOG_WARN);
	nic = open_attr(&attr);
	uccl_log_set(NULL, 0);
	assert_non_null(strstr(said, "no port is free for UDP and TCP both"));
	assert_null(udp_of(nic)->live);
	assert_true(in_range(&attr.ports, udp_of(nic)->rx_fd));
	/* One of them is enough. */
	nic->ops->close(nic);
	close(fd[1]);
	nic = open_attr(&attr);
	assert_non_null(udp_of(nic)->live);
	assert_int_equal(addr_of(nic).port, attr.ports.first + 1);
	nic->ops->close(nic);
	close(fd[0]);
	close(fd[2]);
}

/* The application's own port goes first; other labels are of the range. */
TEST(open__port_outside_range)
{
	struct uccl_nic *other = open_plain(0);
	struct uccl_nic_attr attr = {.bind = addr_of(other), .ports = range_find(4)};
	struct uccl_nic *nic;

	other->ops->close(other);
	nic = open_attr(&attr);
	assert_int_equal(addr_of(nic).port, attr.bind.port);
	assert_false(in_range(&attr.ports, udp_of(nic)->rx_fd));
	assert_int_equal(udp_of(nic)->labels.sock[0].fd, udp_of(nic)->rx_fd);
	assert_true(in_range(&attr.ports, uccl_udp_sock(udp_of(nic), 1)->fd));
	nic->ops->close(nic);
}

TEST(open__by_interface_name)
{
	struct uccl_nic *nic = open_attr(&(struct uccl_nic_attr){.ifname = "lo"});
	struct uccl_nic_addr a = addr_of(nic);

	assert_true(uccl_ifaddr_is_loopback(&a));
	nic->ops->close(nic);
}

/* The wildcard: a reachable address is given out, and it really reaches us. */
TEST(open__wildcard)
{
	struct uccl_nic *nic = open_attr(&(struct uccl_nic_attr){.liveness = true}), *gone = open_plain(0);
	struct uccl_nic_addr a = addr_of(nic), lo = v4_loopback;
	struct uccl_rx v[4];
	struct uccl_tx t[2];

	assert_false(uccl_ifaddr_is_any(&a));
	assert_int_not_equal(a.port, 0);
	lo.port = a.port;
	t[0] = packet(&a, 1, 300, 0);
	t[1] = packet(&lo, 2, 400, 0);
	tx_all(nic, &t[0], 1);
	receive(nic, v, 4, 1, 300, 0);
	assert_memory_equal(v[0].src.ip, a.ip, 16);
	tx_all(nic, &t[1], 1);
	receive(nic, v, 4, 2, 400, 0);
	/* An IPv6 socket sent to an IPv4 place: the news of its end comes too. */
	lo.port = addr_of(gone).port;
	gone->ops->close(gone);
	t[1].label = 1;
	tx_all(nic, &t[1], 1);
	assert_int_equal(rx_wait(nic, v, 4, NULL, 0), 1);
	assert_int_equal(v[0].kind, UCCL_RX_UNREACH);
	assert_true(uccl_ifaddr_equal(&v[0].src, &lo));
	quote_check(&v[0], 2);
	nic->ops->close(nic);
}

TEST(open__ipv6)
{
	struct uccl_nic_attr attr = {.bind = v6_loopback, .liveness = true};
	struct uccl_nic *a = NULL, *b;
	struct uccl_nic_addr to;
	struct uccl_rx v[2];
	struct uccl_tx t;

	if (uccl_nic_udp_open(&attr, &a)) {
		print_message("no IPv6 loopback here\n");
		skip();
	}
	b = open_attr(&attr);
	assert_int_equal(a->caps.mtu, 65487);
	to = addr_of(b);
	t = packet(&to, 9, 65487 - 64, 0);
	tx_all(a, &t, 1);
	receive(b, v, 2, 9, 65487 - 64, 0);
	assert_memory_equal(v[0].src.ip, v6_loopback.ip, 16);
	b->ops->close(b);
	t.label = 1;
	tx_all(a, &t, 1);
	assert_int_equal(rx_wait(a, v, 2, NULL, 0), 1);
	assert_int_equal(v[0].kind, UCCL_RX_UNREACH);
	assert_true(uccl_ifaddr_equal(&v[0].src, &to));
	quote_check(&v[0], 9);
	a->ops->close(a);
}

/* tx and rx */

TEST_IN(tx__sizes, pair_begin, pair_end)
{
	static const uint32_t sizes[] = {0, 1, 100, 1400, 8000, 60000, 65507 - 64 - 16};
	struct uccl_rx v[4];
	struct uccl_tx t;
	size_t i;

	for (i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		t = packet(&to, (uint8_t)i, sizes[i], 16);
		tx_all(a, &t, 1);
		receive(b, v, 4, (uint8_t)i, sizes[i], 16);
		assert_int_equal(v[0].each, 0);
		assert_int_equal(v[0].age_ns, 0);
	}
	assert_int_equal(b->ops->rx(b, v, 4, NULL, 0), 0);
}

TEST_IN(tx__labels_are_ports, pair_begin, pair_end)
{
	struct uccl_rx v, one;
	struct uccl_tx t[16];
	uint16_t port[4] = {0};
	int i, j, k = 0;

	for (i = 0; i < 16; i++) {
		t[i] = packet(&to, (uint8_t)i, 50, 0);
		t[i].label = (uint16_t)(i / 2 % 4 + 300);
	}
	tx_all(a, t, 16);
	while (k < 16) {
		assert_int_equal(rx_wait(b, &v, 1, NULL, 0), 1);
		i = k / 2 % 4;
		if (!port[i])
			port[i] = v.src.port;
		assert_int_equal(port[i], v.src.port);
		for (uint32_t off = 0; next_packet(&v, &off, &one); k++)
			packet_check(&one, (uint8_t)k, 50, 0);
	}
	for (i = 0; i < 4; i++)
		for (j = 0; j < i; j++)
			assert_int_not_equal(port[i], port[j]);
	assert_int_equal(udp_of(a)->labels.nsocks, 5);
}

/*
 * Trains: neighbours of one size, a shorter last one, a longer one, another destination between; received by arrays
 * of any length. Everything comes once, whole, in order.
 */
TEST_IN(tx__trains, pair_begin, pair_end)
{
	static const uint32_t len[] = {200, 200, 200, 90, 200, 200, 300, 300, 100, 200, 200, 200};
	struct uccl_nic *c = open_plain(0);
	struct uccl_nic_addr to_c = addr_of(c), same = to;
	struct uccl_rx v[8], one;
	struct uccl_tx t[12];
	int n, i, got, seen;

	assert_true(udp_of(a)->tx.gso);
	for (n = 1; n <= 8; n++) {
		for (i = 0; i < 12; i++)
			t[i] = packet(i == 10 ? &to_c : i & 1 ? &to : &same, (uint8_t)i, len[i], 0);
		tx_all(a, t, 12);
		for (seen = 0; seen < 12;) {
			got = rx_wait(b, v, n, NULL, 0);
			assert_in_range(got, 1, n);
			for (i = 0; i < got; i++) {
				for (uint32_t off = 0; next_packet(&v[i], &off, &one); seen++) {
					if (seen == 10)
						seen++; /* went to c */
					packet_check(&one, (uint8_t)seen, len[seen], 0);
				}
			}
		}
		assert_int_equal(b->ops->rx(b, v, 8, NULL, 0), 0);
		assert_int_equal(rx_wait(c, v, n, NULL, 0), 1);
		packet_check(&v[0], 10, len[10], 0);
	}
	assert_true(udp_of(a)->tx.gso);
	c->ops->close(c);
}

/* What must go by itself does: the receiver is handed what is before it, it, and what is behind it. */
TEST_IN(tx__singles, pair_begin, pair_end)
{
	static const uint32_t together[] = {3, 1, 1, 2};
	struct uccl_tx t[7];
	struct uccl_rx v[8], one;
	int i, seen = 0, got, came = 0;

	assert_true(udp_of(a)->tx.gso && udp_of(b)->rx.gro);
	for (i = 0; i < 7; i++) {
		t[i] = packet(&to, (uint8_t)i, 200, 0);
		t[i].single = i == 3 || i == 4;
	}
	tx_all(a, t, 7);
	for (; seen < 7; came += got) {
		got = rx_wait(b, v, 8, NULL, 0);
		assert_true(got > 0 && came + got <= 4);
		for (i = 0; i < got; i++) {
			uint32_t n = 0;

			for (uint32_t off = 0; next_packet(&v[i], &off, &one); n++)
				packet_check(&one, (uint8_t)seen++, 200, 0);
			assert_int_equal(n, together[came + i]);
		}
	}
}

/*
 * Short trains of payload that may be read leave as one piece of memory, as many as there is room for; others as they
 * are, and what cannot be read is told of.
 */
TEST_IN(tx__short_trains_in_one_piece, pair_begin, pair_end)
{
	static const struct {
		int n, not_ours; /* packets; the first so many are the program's */
		uint32_t len;
		bool flat;
	} row[] = {{2, 0, 1, true},	{3, 0, 1408, true},   {12, 0, 1408, true}, {16, 0, 1472, true},
		   {17, 0, 1472, false}, {3, 1, 1408, false}, {3, 3, 1408, false}, {2, 0, 16000, false}};
	struct uccl_rx v[32], one;
	struct uccl_tx t[40];
	uint8_t *hole;

	assert_true(udp_of(a)->tx.gso);
	for (size_t r = 0; r < sizeof(row) / sizeof(row[0]); r++) {
		int n = row[r].n, seen = 0, got;

		/* Two trains: for the second there is room if both are short. */
		for (int i = 0; i < 2 * n; i++) {
			bool last = i % n == n - 1;

			t[i] = packet(&to, (uint8_t)i, row[r].len - last, last ? 1 : 0);
			t[i].ours = i % n >= row[r].not_ours;
			t[i].ect = i >= n;
		}
		tx_all(a, t, 2 * n);
		assert_int_equal(udp_of(a)->tx.batch->msg[0].msg_hdr.msg_iovlen == 1, row[r].flat);
		assert_int_equal(udp_of(a)->tx.batch->msg[1].msg_hdr.msg_iovlen == 1, row[r].flat && n < 12);
		while (seen < 2 * n) {
			got = rx_wait(b, v, 32, NULL, 0);
			assert_true(got > 0);
			for (int i = 0; i < got; i++)
				for (uint32_t off = 0; next_packet(&v[i], &off, &one); seen++) {
					bool last = seen % n == n - 1;

					packet_check(&one, (uint8_t)seen, row[r].len - last, last ? 1 : 0);
				}
		}
	}
	hole = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_true(hole != MAP_FAILED);
	for (int i = 0; i < 2; i++) {
		t[i] = packet(&to, (uint8_t)i, 100, 0);
		t[i].payload = hole;
	}
	assert_int_equal(a->ops->tx(a, t, 2), -FI_EFAULT);
	munmap(hole, 4096);
}

/* Packets 0 to n - 1 come, each of `len` bytes of payload, as packets of one row do. */
static void receive_rows(struct uccl_nic *nic, uint32_t n, uint32_t len)
{
	struct uccl_rx v[32], one;
	uint32_t seen = 0;

	while (seen < n) {
		int got = rx_wait(nic, v, 32, NULL, 0);

		assert_true(got > 0);
		for (int i = 0; i < got; i++)
			for (uint32_t off = 0; next_packet(&v[i], &off, &one); seen++) {
				uint8_t want[UCCL_HDR_LEN];

				memset(want, 7, sizeof(want));
				uccl_put32(want + UCCL_HDR_PSEQ, UINT32_MAX - 1 + seen);
				want[UCCL_HDR_SEGMENT] = (uint8_t)(250 + seen);
				assert_int_equal(one.len, UCCL_HDR_LEN + len);
				assert_memory_equal(one.data, want, UCCL_HDR_LEN);
				assert_memory_equal(one.data + UCCL_HDR_LEN, payload + seen * len, len);
			}
	}
	assert_int_equal(seen, n);
	assert_int_equal(nic->ops->rx(nic, v, 32, NULL, 0), 0);
}

/*
 * The back end makes the packets of rows, with and without trains, and when the kernel refuses one, of its own payload
 * and of the program's. What is longer than a train is cut, and what has no room in a batch leaves in the next one.
 */
TEST_IN(tx__rows, pair_begin, pair_end)
{
	static const struct {
		uint16_t row[6]; /* things to send */
		uint32_t len;
		bool ours;
	} set[] = {
		{{42, 0, 0, 0, 0, 0}, 1408, false}, /* a train, and more */
		{{0, 3, 0, 2, 5, 0}, 200, false},
		{{0, 3, 0, 2, 5, 0}, 200, true},
		{{20, 20, 30, 40, 0, 62}, 100, false},
		{{99, 0, 0, 63, 0, 64}, 100, true},  /* more than a batch holds */
		{{45, 0, 0, 0, 0, 0}, 1408, false}, /* more than a train */
	};
	int one = 1;

	assert_true(a->ops->tx_rows && udp_of(a)->tx.gso);
	for (int kind = 0; kind < 3; kind++) {
		if (kind == 1)
			udp_of(a)->tx.gso = false;
		if (kind == 2) {
			udp_of(a)->tx.gso = true;
			assert_int_equal(setsockopt(uccl_udp_sock(udp_of(a), 0)->fd, SOL_SOCKET, SO_NO_CHECK, &one,
						    sizeof(one)),
					 0);
		}
		for (size_t s = 0; s < sizeof(set) / sizeof(set[0]); s++) {
			struct uccl_tx t[6];
			uint32_t n = 0;

			for (int i = 0; i < 6; i++) {
				t[i] = packet(&to, 7, set[s].len, 0);
				t[i].ours = set[s].ours;
				t[i].row = set[s].row[i];
				t[i].payload = payload + n * set[s].len;
				uccl_put32(t[i].hdr + UCCL_HDR_PSEQ, UINT32_MAX - 1 + n);
				t[i].hdr[UCCL_HDR_SEGMENT] = (uint8_t)(250 + n);
				n += 1u + t[i].row;
			}
			assert_true(n * set[s].len <= sizeof(payload));
			tx_all(a, t, 6);
			receive_rows(b, n, set[s].len);
		}
		assert_int_equal(udp_of(a)->tx.gso, kind == 0);
		assert_int_equal(udp_of(a)->tx.errors, 0);
	}
}

/* Of a row that cannot be read nothing is taken. */
TEST_IN(tx__row_unreadable, pair_begin, pair_end)
{
	uint8_t *hole = mmap(NULL, 1 << 16, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct uccl_tx t = packet(&to, 7, 1408, 0);
	struct uccl_rx v[4];

	assert_true(hole != MAP_FAILED);
	t.payload = hole;
	t.row = 42;
	assert_int_equal(a->ops->tx(a, &t, 1), -FI_EFAULT);
	assert_ptr_equal(t.payload, hole);
	assert_int_equal(t.row, 42);
	assert_int_equal(b->ops->rx(b, v, 4, NULL, 0), 0);
	munmap(hole, 1 << 16);
}

TEST_IN(tx__many, pair_begin, pair_end)
{
	struct uccl_tx *t = calloc(300, sizeof(*t));
	struct uccl_rx v[32], one;
	int i, got, seen = 0, calls = 0, merged = 0;

	for (i = 0; i < 300; i++)
		t[i] = packet(&to, (uint8_t)i, 136, 0);
	tx_all(a, t, 300);
	while (seen < 300) {
		got = rx_wait(b, v, 32, NULL, 0);
		assert_in_range(got, 1, 32);
		for (i = 0; i < got; i++) {
			for (uint32_t off = 0; next_packet(&v[i], &off, &one);)
				packet_check(&one, (uint8_t)seen++, 136, 0);
			merged += v[i].each > 0;
		}
		calls++;
	}
	assert_int_equal(seen, 300);
	if (udp_of(b)->rx.gro && udp_of(a)->tx.gso)
		assert_true(merged > 0);
	assert_true(calls <= 300 / 32 + 6);
	free(t);
}

/* A kernel that cannot cut trains: the same packets one by one. */
TEST_IN(tx__without_gso, pair_begin, pair_end)
{
	struct uccl_tx t[20];
	int i;

	udp_of(a)->tx.gso = false;
	for (i = 0; i < 20; i++)
		t[i] = packet(&to, (uint8_t)i, 100, 0);
	tx_all(a, t, 20);
	receive_singles(b, 20);
}

/* The kernel refuses to cut (no checksum, as behind some tunnels): trains end for good, packets still arrive. */
TEST_IN(tx__gso_refused, pair_begin, pair_end)
{
	struct uccl_tx t[6];
	int i, one = 1;

	assert_int_equal(setsockopt(uccl_udp_sock(udp_of(a), 0)->fd, SOL_SOCKET, SO_NO_CHECK, &one, sizeof(one)), 0);
	for (i = 0; i < 6; i++)
		t[i] = packet(&to, (uint8_t)i, 100, 0);
	tx_all(a, t, 6);
	assert_false(udp_of(a)->tx.gso);
	receive_singles(b, 6);
}

/* What can never be sent is lost, not in the way of what follows. */
TEST_IN(tx__hopeless_is_lost, pair_begin, pair_end)
{
	struct uccl_nic_addr v6 = v6_loopback;
	struct uccl_tx t[4];
	struct uccl_rx v[4];
	int k, seen = 0;

	v6.port = 9;
	t[0] = packet(&v6, 0, 100, 0); /* our sockets cannot name it */
	t[1] = packet(&to, 1, 100, 0);
	t[2] = packet(&to, 2, 66000, 0); /* no datagram is so long */
	t[3] = packet(&to, 3, 100, 0);
	tx_all(a, t, 4);
	assert_int_equal(udp_of(a)->tx.errors, 2);
	while (seen < 2) {
		k = rx_wait(b, v, 4, NULL, 0);
		assert_in_range(k, 1, 2);
		packet_check(&v[0], seen ? 3 : 1, 100, 0);
		if (k == 2)
			packet_check(&v[1], 3, 100, 0);
		seen += k;
	}
	/* The same in the middle of one label's batch. */
	t[0] = packet(&to, 1, 100, 0);
	t[1] = packet(&v6, 2, 100, 0);
	t[2] = packet(&to, 3, 100, 0);
	tx_all(a, t, 3);
	assert_int_equal(udp_of(a)->tx.errors, 3);
}

/* What the interface does not carry is lost, once, and nothing is fragmented. */
TEST(tx__too_long)
{
	struct uccl_nic *a = open_plain(0);
	struct uccl_nic_addr to = addr_of(a);
	struct uccl_tx t[2];
	struct uccl_rx v[4];
	int label, value;
	socklen_t len = sizeof(value);

	t[0] = packet(&to, 1, 66000, 0);
	t[1] = packet(&to, 2, 100, 0);
	t[1].label = 1;
	tx_all(a, t, 2);
	assert_int_equal(udp_of(a)->tx.errors, 1);
	receive(a, v, 4, 2, 100, 0);
	/* Nobody cuts packets, and the kernel learns no lengths from strangers. */
	for (label = 0; label < 2; label++) {
		assert_int_equal(getsockopt(uccl_udp_sock(udp_of(a), (uint16_t)label)->fd, IPPROTO_IP, IP_MTU_DISCOVER,
					    &value, &len),
				 0);
		assert_int_equal(value, IP_PMTUDISC_PROBE);
	}
	a->ops->close(a);
}

static long table_size(void)
{
	FILE *f = fopen("/proc/self/status", "r");
	char line[256];
	long n = 0;

	assert_non_null(f);
	while (!n && fgets(line, sizeof(line), f))
		(void)sscanf(line, "FDSize: %ld", &n);
	fclose(f);
	assert_true(n > 0);
	return n;
}

/* What many labels need is there from the start: a table that grows makes a thread wait. First, as it never shrinks. */
TEST(labels__table_grown_before)
{
	struct uccl_nic_attr attr = {.bind = v4_loopback, .labels = 300};
	struct uccl_nic *a = open_attr(&attr), *b = open_attr(&attr);
	long size = table_size();

	assert_true(size > 300);
	send_labels(a, b, 200);
	assert_int_equal(table_size(), size);
	a->ops->close(a);
	b->ops->close(b);
}

/* Descriptors run out: labels share sockets, nothing fails, and the application keeps a quarter. */
TEST_IN(tx__descriptors_run_out, pair_begin, pair_end)
{
	struct rlimit old, tight;
	struct uccl_tx t;
	struct uccl_rx v[1];
	int label, i, free_fd[3];

	assert_int_equal(getrlimit(RLIMIT_NOFILE, &old), 0);
	/* The lowest three that are free; whoever started this program may have left others open between them. */
	for (i = 0; i < 3; i++)
		free_fd[i] = fcntl(0, F_DUPFD, 0);
	for (i = 0; i < 3; i++)
		assert_int_equal(close(free_fd[i]), 0);
	tight = old;
	tight.rlim_cur = (rlim_t)free_fd[2] + 1;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &tight), 0);
	for (label = 0; label < 600; label++) {
		t = packet(&to, (uint8_t)label, 10, 0);
		t.label = (uint16_t)label;
		tx_all(a, &t, 1);
		receive(b, v, 1, (uint8_t)label, 10, 0);
	}
	assert_int_equal(udp_of(a)->labels.nsocks, 4);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &old), 0);
}

/* A network namespace of its own, with a loopback, where the system has these ports to choose among. */
static bool host_of(const char *range)
{
	struct ifreq up = {.ifr_name = "lo", .ifr_flags = IFF_LOOPBACK | IFF_UP | IFF_RUNNING};
	int fd = unshare(CLONE_NEWNET) ? -1 : socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	bool done = fd >= 0 && !ioctl(fd, SIOCSIFFLAGS, &up);
	FILE *f = done ? fopen("/proc/sys/net/ipv4/ip_local_port_range", "w") : NULL;

	if (fd >= 0)
		close(fd);
	return f && fputs(range, f) >= 0 && !fclose(f);
}

/* The same with ports of the host: of 40 two are for receiving and label 0, and 10 are left to others. */
static int ports_child(void)
{
	struct uccl_nic *a, *b;

	if (!host_of("40000 40039"))
		return 77;
	a = open_plain(0);
	b = open_plain(0);
	send_labels(a, b, 60);
	if (udp_of(a)->labels.nsocks != 29)
		return 1;
	send_labels(b, a, 60);
	return udp_of(b)->labels.nsocks != 1;
}

TEST(tx__ports_run_out)
{
	int status = 0;
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (!pid)
		_exit(ports_child());
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	if (WEXITSTATUS(status) == 77)
		skip(); /* needs root */
	assert_int_equal(WEXITSTATUS(status), 0);
}

/* Connected sockets */

/* Connected sockets of a back end. */
static int connected_count(struct uccl_nic *nic)
{
	int n = 0;

	for (int i = 0; i < UDP_CONNECTED; i++)
		n += udp_of(nic)->connected.socket[i].sock.fd >= 0;
	return n;
}

/* Send n packets like `t`, one by one. `to_nic` receives each of them. Returns the source port of the last packet. */
static uint16_t send_singly(struct uccl_nic *from, struct uccl_nic *to_nic, const struct uccl_tx *t, int n)
{
	struct uccl_rx v[1];

	for (int i = 0; i < n; i++) {
		struct uccl_tx one = *t;

		tx_all(from, &one, 1);
		receive(to_nic, v, 1, t->hdr[0], t->payload_len, 0);
	}
	return v[0].src.port;
}

/*
 * After some packets a peer of this host has a socket of its own, by which all labels send: packets and trains. Its
 * end is heard of, and costs no later packet. PROTOCOL R397
 */
TEST_IN(connected__to_a_peer_of_this_host, pair_begin, pair_end)
{
	struct uccl_tx t = packet(&to, 1, 100, 0), train[8];
	struct uccl_rx v[8];
	uint16_t port;
	int fd, seen;

	assert_int_equal(send_singly(a, b, &t, 31), addr_of(a).port);
	assert_int_equal(connected_count(a), 0);
	port = send_singly(a, b, &t, 1);
	assert_int_equal(connected_count(a), 1);
	assert_int_not_equal(port, addr_of(a).port);
	for (t.label = 0; t.label < 4; t.label++)
		assert_int_equal(send_singly(a, b, &t, 2), port);
	for (int i = 0; i < 8; i++)
		train[i] = packet(&to, (uint8_t)i, 100, 0);
	fd = udp_of(a)->connected.socket[to.port % UDP_CONNECTED].sock.fd;
	assert_true(fd >= 0);
	tx_all(a, train, 8);
	for (seen = 0; seen < 8;) {
		struct uccl_rx one;
		uint32_t off = 0;

		assert_int_equal(rx_wait(b, v, 1, NULL, 0), 1);
		assert_int_equal(v[0].src.port, port);
		while (next_packet(&v[0], &off, &one))
			packet_check(&one, (uint8_t)seen++, 100, 0);
	}
	/* To the peer that comes next at this place packets leave, too. */
	b->ops->close(b);
	t.label = 1;
	for (int i = 0; i < 5; i++)
		tx_all(a, &t, 1);
	assert_true(rx_wait(a, v, 8, NULL, 0) > 0);
	assert_int_equal(v[0].kind, UCCL_RX_UNREACH);
	quote_check(&v[0], 1);
	b = open_attr(&(struct uccl_nic_attr){.bind = to});
	assert_int_equal(send_singly(a, b, &t, 3), port);
	assert_int_equal(udp_of(a)->tx.errors, 0);
}

/* Whatever else goes there leaves at the port, also between payload. PROTOCOL R397 */
TEST_IN(connected__only_payload, pair_begin, pair_end)
{
	static const uint8_t others[] = {UCCL_TX_HELLO, UCCL_TX_CONTROL, UCCL_TX_BEHIND};
	struct uccl_tx t = packet(&to, 1, 100, 0), mixed[3];
	struct uccl_rx v[1];

	send_singly(a, b, &t, 40);
	assert_int_equal(connected_count(a), 1);
	for (size_t k = 0; k < uccl_array_len(others); k++) {
		t.control = others[k];
		assert_int_equal(send_singly(a, b, &t, 40), addr_of(a).port);
		for (int i = 0; i < 3; i++) {
			mixed[i] = packet(&to, (uint8_t)i, 100 + (uint32_t)i, 0);
			mixed[i].control = i == 1 ? others[k] : UCCL_TX_PAYLOAD;
		}
		tx_all(a, mixed, 3);
		for (int i = 0; i < 3; i++) {
			receive(b, v, 1, (uint8_t)i, 100 + (uint32_t)i, 0);
			/* Payload behind it may leave with it, in one call. */
			assert_true(i == 2 || (v[0].src.port == addr_of(a).port) == (i == 1));
		}
	}
}

/* Send n times payload of `fresh` packets, and of `again` packets sent before; all of it arrives. */
static void send_both(struct uccl_tx *t, int n, int fresh, int again)
{
	for (int i = 0; i < n; i++) {
		send_singly(a, b, t, fresh);
		t->control = UCCL_TX_AGAIN;
		if (again)
			assert_int_equal(send_singly(a, b, t, again), addr_of(a).port);
		t->control = UCCL_TX_PAYLOAD;
	}
}

/*
 * Payload that is sent again leaves at the port. If that is much, the socket may be deaf: the place goes without for a
 * while, which doubles. A little does not do that, nor PROBEs. PROTOCOL R397
 */
TEST_IN(connected__doubted, pair_begin, pair_end)
{
	struct uccl_tx t = packet(&to, 1, 100, 0), train[64];
	uint16_t port = addr_of(a).port;

	assert_int_not_equal(send_singly(a, b, &t, 40), port);
	send_both(&t, 200, 10, 2);
	t.control = UCCL_TX_BEHIND;
	send_singly(a, b, &t, 100);
	t.control = UCCL_TX_PAYLOAD;
	assert_int_not_equal(send_singly(a, b, &t, 100), port);
	send_both(&t, 600, 1, 1);
	assert_int_equal(connected_count(a), 0);
	assert_int_equal(send_singly(a, b, &t, 3000), port);
	assert_int_not_equal(send_singly(a, b, &t, 1100), port);
	send_both(&t, 400, 1, 1);
	assert_int_equal(send_singly(a, b, &t, 7000), port);
	assert_int_not_equal(send_singly(a, b, &t, 1300), port);
	/* Trains that nobody gets are sent again as trains: in a call, they are counted by the packet. */
	for (int k = 0; k < 8; k++) {
		for (int i = 0; i < 64; i++) {
			train[i] = packet(&to, 1, 100, 0);
			train[i].control = k % 2 ? UCCL_TX_AGAIN : UCCL_TX_PAYLOAD;
		}
		tx_all(a, train, 64);
		for (int n = 0; n < 64;) {
			struct uccl_rx v[1], one;
			uint32_t off = 0;

			assert_int_equal(rx_wait(b, v, 1, NULL, 0), 1);
			while (next_packet(&v[0], &off, &one))
				n++;
		}
	}
	assert_int_equal(connected_count(a), 0);
}

/* Packets to other addresses say to the network where they come from; and of a range no port is taken. PROTOCOL R397 */
TEST(connected__not_to_others)
{
	struct uccl_nic_addr other = v4_loopback;
	struct uccl_nic *a = open_plain(0), *b, *ranged = open_attr(&(struct uccl_nic_attr){
		.bind = v4_loopback, .ports = {.first = 21000, .last = 21999}});
	struct uccl_nic_addr to, to_a = addr_of(a);
	struct uccl_tx t = packet(&to, 1, 100, 0);

	other.ip[15] = 2;
	b = open_attr(&(struct uccl_nic_attr){.bind = other});
	to = addr_of(b);
	assert_int_equal(send_singly(a, b, &t, 100), addr_of(a).port);
	t.to = &to_a;
	assert_int_equal(send_singly(ranged, a, &t, 100), addr_of(ranged).port);
	assert_int_equal(connected_count(a) + connected_count(ranged), 0);
	a->ops->close(a);
	b->ops->close(b);
	ranged->ops->close(ranged);
}

static int descriptors(void)
{
	return tests_entries("/proc/self/fd");
}

/* However many places there are, sockets are bounded, and the places to which most is sent have them. */
TEST_IN(connected__bounded, pair_begin, pair_end)
{
	struct uccl_nic *few = open_attr(&(struct uccl_nic_attr){.bind = v4_loopback, .labels = 1});
	int before = descriptors();
	struct uccl_nic_addr at = to;
	struct uccl_tx t = packet(&at, 1, 100, 0);
	uint16_t port;

	for (int round = 0; round < 200; round++) {
		/* Nobody is there: only what is sent counts. */
		for (int i = 0; i < 300; i++) {
			at.port = (uint16_t)(20000 + i);
			for (int k = 0; k <= round % 40; k++)
				tx_all(a, &t, 1);
		}
		assert_true(descriptors() - before <= UDP_CONNECTED);
	}
	assert_true(connected_count(a) > UDP_CONNECTED / 2);
	at.port = to.port;
	port = send_singly(a, b, &t, 20000);
	assert_int_not_equal(port, addr_of(a).port);
	for (int i = 0; i < 1000; i++) {
		at.port = (uint16_t)(to.port ^ (64 << i % 8));
		tx_all(a, &t, 1);
	}
	at.port = to.port;
	assert_int_equal(send_singly(a, b, &t, 1), port);
	/* An endpoint with one path has two labels, so it connects two sockets. */
	for (at.port = 20000; at.port < 20010; at.port++)
		for (int i = 0; i < 100; i++)
			tx_all(few, &t, 1);
	assert_int_equal(connected_count(few), 2);
	few->ops->close(few);
}

/* Error queues are looked at when nobody answers. */
TEST_IN(rx__errors_unanswered, pair_begin, pair_end)
{
	struct uccl_nic_addr to_a = addr_of(a);
	struct uccl_tx there = packet(&to, 1, 10, 0), back = packet(&to_a, 2, 10, 0);
	struct udp *u = udp_of(a);
	struct uccl_rx v[1];
	uint64_t began;

	/* Again if this process was away, for then it is time anyway. */
	do {
		began = u->reports.errors_at = uccl_udp_now();
		tx_all(a, &there, 1);
		tx_all(b, &back, 1);
		assert_int_equal(a->ops->rx(a, v, 1, NULL, 0), 1);
	} while (uccl_udp_now() - began > 300 * UCCL_NS_PER_MS);
	assert_true(u->reports.errors_at == began);
	assert_int_equal(a->ops->rx(a, v, 1, NULL, 0), 0);
	assert_true(u->reports.errors_at == began);
	/* An answer takes a moment. Then there is a look, and another one after twice the time. */
	tx_all(a, &there, 1);
	assert_int_equal(a->ops->rx(a, v, 1, NULL, 0), 0);
	assert_true(u->reports.errors_at == began || uccl_udp_now() > began + 4 * UCCL_NS_PER_MS);
	for (int i = 1; i <= 2; i++) {
		u->reports.asked_at = began - 5 * UCCL_NS_PER_MS;
		u->reports.errors_at = began;
		u->reports.errors_every = (uint64_t)i * 50 * UCCL_NS_PER_MS;
		u->reports.sent = true;
		assert_int_equal(a->ops->rx(a, v, 1, NULL, 0), 0);
		assert_true(u->reports.errors_at >= began + (uint64_t)i * 50 * UCCL_NS_PER_MS);
		assert_int_equal(u->reports.errors_every, i * 100 * UCCL_NS_PER_MS);
	}
}

/* What was sent and answered at once costs no look at the clock; other peers are not forgotten for that. */
TEST_IN(rx__errors_answered, pair_begin, pair_end)
{
	struct uccl_nic_addr to_a = addr_of(a);
	struct uccl_tx there = packet(&to, 1, 10, 0), back = packet(&to_a, 2, 10, 0);
	struct udp *u = udp_of(a);
	struct uccl_rx v[1];

	u->reports.calls = 0;
	u->reports.errors_until = 0;
	tx_all(a, &there, 1);
	tx_all(b, &back, 1);
	/* A clock that is ahead: it was polled just now. */
	u->reports.polled_at = UINT64_MAX / 2;
	assert_int_equal(a->ops->rx(a, v, 1, NULL, 0), 1);
	assert_true(u->reports.polled_at == UINT64_MAX / 2 && !u->reports.unanswered);
	for (int i = 1; i < UDP_CLOCK_EVERY_SENT; i++)
		assert_int_equal(a->ops->rx(a, v, 1, NULL, 0), 0);
	assert_true(u->reports.errors_until > uccl_udp_now());
	assert_false(u->reports.unanswered);
	/* Nothing answers: it is known at once since when. */
	u->reports.polled_at = u->reports.asked_at = 0;
	tx_all(a, &there, 1);
	assert_int_equal(a->ops->rx(a, v, 1, NULL, 0), 0);
	assert_true(u->reports.unanswered && u->reports.asked_at && u->reports.polled_at);
}

/*
 * PROTOCOL R370: label 0 leaves from the port to which peers send, so both directions are one 5-tuple. An ICMP error
 * there is no error of what is sent or received next; an endpoint with one path has another label, which hears of it.
 */
TEST(tx__first_label_is_the_port)
{
	struct uccl_nic *a = open_attr(&(struct uccl_nic_attr){.bind = v4_loopback, .labels = 1}), *b = open_plain(0);
	struct uccl_nic *gone = open_plain(0);
	struct uccl_nic_addr to = addr_of(b), to_gone = addr_of(gone);
	struct uccl_tx there = packet(&to, 1, 10, 0), out = packet(&to_gone, 2, 10, 0), back;
	struct uccl_rx v[4];

	assert_true(a->caps.two_way);
	gone->ops->close(gone);
	tx_all(a, &out, 1);
	tx_all(a, &there, 1);
	receive(b, v, 4, 1, 10, 0);
	assert_int_equal(v[0].src.port, addr_of(a).port);
	back = packet(&v[0].src, 3, 10, 0);
	tx_all(b, &back, 1);
	receive(a, v, 4, 3, 10, 0);
	assert_int_equal(v[0].src.port, to.port);
	assert_int_equal(udp_of(a)->tx.errors, 0);
	assert_int_equal(a->caps.labels, 2);
	out.label = 1;
	tx_all(a, &out, 1);
	assert_int_equal(rx_wait(a, v, 4, NULL, 0), 1);
	assert_int_equal(v[0].kind, UCCL_RX_UNREACH);
	a->ops->close(a);
	b->ops->close(b);
}

/* One who answers does not hide for long that another is gone. */
TEST_IN(rx__unreachable_beside_answers, pair_begin, pair_end)
{
	struct uccl_nic *gone = open_plain(0);
	struct uccl_nic_addr to_a = addr_of(a), to_gone = addr_of(gone);
	struct uccl_tx out = packet(&to_gone, 1, 10, 0), there = packet(&to, 1, 10, 0);
	struct uccl_tx back = packet(&to_a, 2, 10, 0);
	bool told = false;
	struct uccl_rx v[8];

	gone->ops->close(gone);
	/* By another socket than what follows, which would bring the news itself. */
	out.label = 1;
	tx_all(a, &out, 1);
	for (int i = 0; i < ROUNDS && !told; i++) {
		tx_all(a, &there, 1);
		tx_all(b, &back, 1);
		for (int n = a->ops->rx(a, v, 8, NULL, 0); n > 0; n--)
			told |= v[n - 1].kind == UCCL_RX_UNREACH;
		usleep(1000);
	}
	assert_true(told);
}

/* Whoever asked wait_fd, and knows that nothing is there, is spared the look. */
TEST_IN(rx__empty, pair_begin, pair_end)
{
	struct uccl_tx t = packet(&to, 1, 10, 0);
	struct uccl_rx v[1];

	tx_all(a, &t, 1);
	b->empty = true;
	assert_int_equal(b->ops->rx(b, v, 1, NULL, 0), 0);
	b->empty = false;
	receive(b, v, 1, 1, 10, 0);
}

/* A receiver that does not read: packets are lost in its queue, and the sender is never stuck. */
TEST(tx__receiver_overrun)
{
	struct uccl_nic *a = open_plain(0);
	struct uccl_nic *b = open_attr(&(struct uccl_nic_attr){.bind = v4_loopback, .rx_bytes = 1 << 18});
	struct uccl_nic_addr to = addr_of(b);
	uint32_t slots = b->caps.rx_slots;
	struct uccl_rx v[32];
	struct uccl_tx t;
	int i, k, seen = 0;

	for (i = 0; i < 200; i++) {
		t = packet(&to, (uint8_t)i, 65507 - 64, 0);
		tx_all(a, &t, 1);
	}
	while ((k = b->ops->rx(b, v, 32, NULL, 0)) > 0)
		seen += k;
	/* The queue holds what it promised. */
	assert_in_range(seen, slots, 199);
	a->ops->close(a);
	b->ops->close(b);
}

/* What the kernel says of the receive queue: SK_MEMINFO_RMEM_ALLOC and SK_MEMINFO_DROPS of <linux/sock_diag.h>. */
enum { QUEUE_BYTES = 0, QUEUE_DROPS = 8, QUEUE_VALUES };

static uint32_t queue_of(struct uccl_nic *nic, int what)
{
	uint32_t v[QUEUE_VALUES];
	socklen_t len = sizeof(v);

	assert_int_equal(getsockopt(udp_of(nic)->rx_fd, SOL_SOCKET, SO_MEMINFO, v, &len), 0);
	return v[what];
}

static void send_one(struct uccl_nic *nic, const struct uccl_nic_addr *to, uint32_t len)
{
	struct uccl_tx t = packet(to, 1, len - 64, 0);

	tx_all(nic, &t, 1);
}

/* No packet takes more of the queue than it counts for. PROTOCOL R376 */
TEST(slots__truesize)
{
	struct uccl_nic *a = open_plain(0);
	struct uccl_nic *b = open_attr(&(struct uccl_nic_attr){.bind = v4_loopback, .rx_bytes = 1 << 20});
	struct uccl_nic_addr to = addr_of(b);
	struct uccl_rx v[1];

	for (uint32_t len = 64; len <= 65507; len += len < 16384 ? 37 : 1201) {
		uint32_t before = queue_of(b, QUEUE_BYTES), took;

		send_one(a, &to, len);
		took = queue_of(b, QUEUE_BYTES) - before;
		assert_in_range(took, len, uccl_slot_bytes(len));
		assert_int_equal(rx_wait(b, v, 1, NULL, 0), 1);
	}
	a->ops->close(a);
	b->ops->close(b);
}

/*
 * Packets of any lengths that take all slots fit, and one more behind each sender's last slot, as the rule is; what is
 * sent beyond that is lost, which the kernel counts. PROTOCOL R376
 */
TEST(slots__worst_mix)
{
	struct uccl_nic *a = open_plain(0);
	struct uccl_nic_addr to;
	struct uccl_rng rng;
	struct uccl_rx v[32];

	uccl_rng_seed(&rng, 1);
	for (int round = 0; round < 20; round++) {
		struct uccl_nic *b = open_attr(&(struct uccl_nic_attr){.bind = v4_loopback, .rx_bytes = 1 << 20});
		uint32_t units = b->caps.queue.units, used = 0;
		int sent = 0, seen = 0, k;

		to = addr_of(b);
		assert_true(units && b->caps.queue.unit);
		while (used < units) {
			/* Short ones, blocks that are filled worst, trains' packets and the longest. */
			static const uint32_t lens[] = {64, 204, 652, 1474, 1674, 3718, 7820, 8972, 65507};
			uint32_t len = round < 9 ? lens[round] : lens[uccl_rng_below(&rng, uccl_array_len(lens))];

			send_one(a, &to, len);
			used += uccl_slot_count(b->caps.queue.unit, len);
			sent++;
		}
		assert_int_equal(queue_of(b, QUEUE_DROPS), 0);
		for (int i = 0; i < sent; i++)
			send_one(a, &to, 65507);
		assert_true(queue_of(b, QUEUE_DROPS) > 0);
		while ((k = b->ops->rx(b, v, 32, NULL, 0)) > 0)
			seen += k;
		assert_in_range(seen, sent, 2 * sent - 1);
		b->ops->close(b);
	}
	a->ops->close(a);
}

/* places */

TEST_IN(rx__hint_split, pair_begin, pair_end)
{
	/* payload bytes, hint bytes */
	static const uint32_t t[][2] = {{1000, 1000}, {1000, 400}, {1000, 4000}, {0, 100}, {60000, 60000}, {30000, 1}};
	struct uccl_rx_placement hint;
	struct uccl_rx v[4];
	struct uccl_tx p;
	uint8_t *dst;
	size_t i;

	for (i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		dst = malloc(t[i][1] + 8); /* exact: writing past it is seen */
		memset(dst, 0x5a, t[i][1] + 8);
		hint = (struct uccl_rx_placement){.dst = dst, .len = t[i][1]};
		p = packet(&to, 7, t[i][0], 0);
		tx_all(a, &p, 1);
		assert_int_equal(rx_wait(b, v, 4, &hint, 1), 1);
		packet_check(&v[0], 7, t[i][0], 0);
		assert_int_equal(v[0].split, t[i][0] > 0);
		if (v[0].split) {
			assert_ptr_equal(v[0].body, dst);
			assert_int_equal(v[0].body_len, t[i][0] < t[i][1] ? t[i][0] : t[i][1]);
		}
		assert_memory_equal(dst + t[i][1], "\x5a\x5a\x5a\x5a\x5a\x5a\x5a\x5a", 8);
		free(dst);
		/* The next without a hint is whole again. */
		tx_all(a, &p, 1);
		assert_int_equal(rx_wait(b, v, 4, NULL, 0), 1);
		assert_false(v[0].split);
		packet_check(&v[0], 7, t[i][0], 0);
	}
}

TEST_IN(rx__hint_per_slot, pair_begin, pair_end)
{
	/* So long that no two of them share a train. */
	static uint8_t dst[3][33000];
	struct uccl_rx_placement hint[3] = {{dst[0], 33000, 0}, {dst[1], 0, 0}, {dst[2], 33000, 0}};
	struct uccl_rx v[8];
	struct uccl_tx t[5];
	int i;

	for (i = 0; i < 5; i++)
		t[i] = packet(&to, (uint8_t)i, 33000, 24);
	tx_all(a, t, 5);
	assert_int_equal(rx_wait(b, v, 8, hint, 3), 5); /* loopback delivers within the send */
	for (i = 0; i < 5; i++) {
		packet_check(&v[i], (uint8_t)i, 33000, 24);
		assert_int_equal(v[i].split, i == 0 || i == 2);
		if (v[i].split)
			assert_ptr_equal(v[i].body, dst[i]);
	}
}

/*
 * Trains and places together: a train that lands on a hint is put together again; a packet behind a train is not told
 * by the hint of another slot.
 */
TEST_IN(rx__hint_and_train, pair_begin, pair_end)
{
	struct uccl_rx_placement hint[8];
	struct uccl_rx v[8], one;
	struct uccl_tx t[8];
	int n, i, got, seen;

	for (n = 1; n <= 8; n++) {
		for (i = 0; i < 8; i++)
			t[i] = packet(&to, (uint8_t)i, i < 4 ? 300 : 9000, 0);
		tx_all(a, t, 8);
		for (seen = 0; seen < 8;) {
			for (i = 0; i < n; i++)
				hint[i] = (struct uccl_rx_placement){.dst = malloc(500), .len = 500};
			got = rx_wait(b, v, n, hint, n);
			assert_in_range(got, 1, n);
			for (i = 0; i < got; i++) {
				for (uint32_t off = 0; next_packet(&v[i], &off, &one); seen++)
					packet_check(&one, (uint8_t)seen, seen < 4 ? 300 : 9000, 0);
				if (v[i].split)
					assert_ptr_equal(v[i].body, hint[i].dst);
			}
			for (i = 0; i < n; i++)
				free(hint[i].dst);
		}
	}
}

/* A row that was predicted lies there, up to `room` packets; others, or a single one, do not. PROTOCOL R282 */
static void row_check(uint32_t len, int n, int room, uint32_t each)
{
	struct uccl_nic *a = open_plain(0), *b = open_plain(0);
	struct uccl_nic_addr to = addr_of(b);
	uint32_t place = (uint32_t)room * each;
	uint8_t *dst = malloc(place); /* exact: writing past it is seen */
	struct uccl_rx_placement hint = {.dst = dst, .len = place, .each = each};
	bool row = n > 1 && each == 64 + len;
	struct uccl_rx v[8], one;
	struct uccl_tx t[8];
	int seen = 0;

	for (int i = 0; i < n; i++)
		t[i] = packet(&to, (uint8_t)i, len, 0);
	tx_all(a, t, n);
	assert_int_equal(rx_wait(b, v, 1, &hint, 1), 1);
	assert_int_equal(v[0].run, row);
	assert_false(v[0].split);
	if (row) {
		uint32_t there = (uint32_t)(n < room ? n : room) * each;

		assert_int_equal(v[0].each, each);
		assert_ptr_equal(v[0].body, dst);
		assert_ptr_equal(v[0].data, dst);
		assert_int_equal(v[0].body_len, there);
		assert_int_equal(v[0].body_len + v[0].rest_len, v[0].len);
		v[0].len = there;
		v[0].each = v[0].each < there ? v[0].each : 0;
		for (uint32_t off = 0; next_packet(&v[0], &off, &one); seen++)
			packet_check(&one, (uint8_t)seen, len, 0);
		v[0].data = v[0].rest;
		v[0].len = v[0].rest_len;
		v[0].each = 0;
		for (; v[0].len; v[0].data += each, v[0].len -= each, seen++) {
			one = v[0];
			one.len = each;
			packet_check(&one, (uint8_t)seen, len, 0);
		}
	} else {
		for (uint32_t off = 0; next_packet(&v[0], &off, &one); seen++)
			packet_check(&one, (uint8_t)seen, len, 0);
	}
	assert_int_equal(seen, n);
	/* The next without a hint lies in no place. */
	tx_all(a, t, n);
	memset(dst, 0x5a, place);
	assert_int_equal(rx_wait(b, v, 1, NULL, 0), 1);
	assert_false(v[0].run);
	for (uint32_t off = seen = 0; next_packet(&v[0], &off, &one); seen++)
		packet_check(&one, (uint8_t)seen, len, 0);
	assert_int_equal(seen, n);
	for (uint32_t i = 0; i < place; i++)
		assert_int_equal(dst[i], 0x5a);
	free(dst);
	a->ops->close(a);
	b->ops->close(b);
}

TEST(rx__predicted_gro_batch)
{
	for (int n = 1; n <= 8; n++)
		for (int room = 2; room <= 9; room += 3) {
			row_check(1000, n, room, 1064);
			row_check(1000, n, room, 1063);
			row_check(1000, n, room, 9000 / (uint32_t)room);
		}
}

TEST(rx__timestamps)
{
	struct uccl_nic *a = open_plain(0);
	struct uccl_nic *b = open_attr(&(struct uccl_nic_attr){.bind = v4_loopback, .timestamps = true});
	struct uccl_nic_addr to = addr_of(b);
	struct uccl_rx v[4];
	struct uccl_tx t = packet(&to, 1, 10, 0);
	uint64_t age = 0;
	int round;

	/* The kernel begins to stamp some time after it was asked; until then it stamps late. */
	for (round = 0; round < 100 && age < 15 * UCCL_NS_PER_MS; round++) {
		tx_all(a, &t, 1);
		poll(NULL, 0, 20);
		receive(b, v, 4, 1, 10, 0);
		age = v[0].age_ns;
	}
	assert_in_range(age, 15 * UCCL_NS_PER_MS, 10 * UCCL_NS_PER_S);
	a->ops->close(a);
	b->ops->close(b);
}

/* Foreign datagrams, also empty ones, are handed up as they are: it is not the back end that judges. */
TEST(rx__foreign_datagrams)
{
	struct uccl_nic *b = open_plain(0);
	struct uccl_nic_addr to = addr_of(b);
	struct sockaddr_storage sa;
	socklen_t len = uccl_ifaddr_to_sock(&sa, &to, AF_UNSPEC);
	struct uccl_rx_placement hint = {.dst = payload, .len = 10};
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	struct uccl_rx v[2];

	assert_int_equal(sendto(fd, "", 0, 0, (struct sockaddr *)&sa, len), 0);
	assert_int_equal(rx_wait(b, v, 2, &hint, 1), 1);
	assert_int_equal(v[0].len, 0);
	assert_int_equal(v[0].kind, UCCL_RX_PACKET);
	assert_int_equal(sendto(fd, "abc", 3, 0, (struct sockaddr *)&sa, len), 3);
	assert_int_equal(rx_wait(b, v, 2, NULL, 0), 1);
	assert_int_equal(v[0].len, 3);
	assert_memory_equal(v[0].data, "abc", 3);
	close(fd);
	b->ops->close(b);
}

/* events */

TEST_IN(rx__unreachable, pair_begin, pair_end)
{
	struct uccl_nic_addr alive;
	struct uccl_rx v[4];
	struct uccl_tx t;
	int round, k;

	b->ops->close(b);
	t = packet(&to, 1, 10, 0);
	t.label = 1;
	tx_all(a, &t, 1);
	/* Without another send the error queue is looked at soon. */
	assert_int_equal(rx_wait(a, v, 4, NULL, 0), 1);
	assert_int_equal(v[0].kind, UCCL_RX_UNREACH);
	assert_true(uccl_ifaddr_equal(&v[0].src, &to));
	quote_check(&v[0], 1);
	/* The pending error of one peer does not cost the packet to another. */
	b = open_plain(0);
	alive = addr_of(b);
	tx_all(a, &t, 1);
	t = packet(&alive, 2, 10, 0);
	t.label = 1;
	tx_all(a, &t, 1);
	assert_int_equal(udp_of(a)->tx.errors, 0);
	receive(b, v, 4, 2, 10, 0);
	for (round = 0, k = 0; round < ROUNDS && !k; round++)
		k = a->ops->rx(a, v, 4, NULL, 0);
	assert_int_equal(k, 1);
	assert_int_equal(v[0].kind, UCCL_RX_UNREACH);
	assert_true(uccl_ifaddr_equal(&v[0].src, &to));
}

TEST(event__bounded_and_single)
{
	struct uccl_nic *a = open_plain(0);
	struct uccl_nic_addr to = v4_loopback;
	struct uccl_rx v[UDP_EVENTS];
	struct udp_event event;
	int i;

	for (i = 0; i < UDP_EVENTS; i++) {
		to.port = (uint16_t)(i / 2 + 1);
		event = (struct udp_event){.kind = UCCL_RX_UNREACH, .src = to, .quote_len = 2, .quote = {1, i & 1}};
		assert_true(uccl_udp_event(udp_of(a), &event));
		assert_true(uccl_udp_event(udp_of(a), &event));
	}
	event.src.port++;
	assert_false(uccl_udp_event(udp_of(a), &event));
	assert_int_equal(a->ops->rx(a, v, 10, NULL, 0), 10);
	assert_int_equal(v[9].src.port, 5);
	assert_int_equal(v[9].len, 2);
	assert_memory_equal(v[9].data, "\1\1", 2);
	assert_int_equal(a->ops->rx(a, v, UDP_EVENTS, NULL, 0), UDP_EVENTS - 10);
	assert_int_equal(v[0].src.port, 6);
	assert_memory_equal(v[0].data, "\1\0", 2);
	a->ops->close(a);
}

/* The process behind a peer: says where it is, answers each byte with some progress, and ends with the pipe. */
static void peer_process(int in, int out)
{
	struct uccl_nic *nic = open_attr(&(struct uccl_nic_attr){.bind = v4_loopback, .liveness = true});
	struct uccl_nic_addr self = addr_of(nic);
	struct uccl_rx v[4];
	char c;

	if (write(out, &self, sizeof(self)) == sizeof(self))
		while (read(in, &c, 1) == 1)
			nic->ops->rx(nic, v, 4, NULL, 0);
	_exit(0);
}

/* It is killed: proven within the test's patience, although nobody sends anything. */
TEST(rx__gone_when_killed)
{
	struct uccl_nic_peer *peer;
	struct uccl_nic_addr to;
	struct uccl_nic *a;
	struct uccl_rx v[4];
	int down[2], up[2], round;
	pid_t pid;

	assert_int_equal(pipe(down), 0);
	assert_int_equal(pipe(up), 0);
	pid = fork();
	if (!pid) {
		close(down[1]);
		peer_process(down[0], up[1]);
	}
	assert_true(pid > 0);
	close(down[0]);
	close(up[1]);
	assert_int_equal(read(up[0], &to, sizeof(to)), sizeof(to));
	a = open_attr(&(struct uccl_nic_attr){.bind = v4_loopback, .liveness = true});
	assert_int_equal(a->ops->connect(a, &to, 4711, 1, &peer), 0);
	for (round = 0; round < 200; round++) {
		assert_int_equal(write(down[1], "x", 1), 1);
		assert_int_equal(a->ops->rx(a, v, 4, NULL, 0), 0);
		poll(NULL, 0, 1);
	}
	assert_int_equal(kill(pid, SIGKILL), 0);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	assert_int_equal(rx_wait(a, v, 4, NULL, 0), 1);
	assert_int_equal(v[0].kind, UCCL_RX_GONE);
	assert_ptr_equal(v[0].peer, peer);
	assert_int_equal(v[0].peer_id, 4711);
	assert_true(uccl_ifaddr_equal(&v[0].src, &to));
	for (round = 0; round < 200; round++)
		assert_int_equal(a->ops->rx(a, v, 4, NULL, 0), 0);
	a->ops->disconnect(a, peer);
	a->ops->close(a);
	close(down[1]);
	close(up[0]);
}

/* A liveness connection that breaks is tried again later: the owner may not sleep longer than until then. */
TEST(expiry__liveness_retry)
{
	struct sockaddr_in sa = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	struct uccl_nic *a = open_attr(&(struct uccl_nic_attr){.bind = v4_loopback, .liveness = true});
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0), one;
	struct uccl_nic_addr to = v4_loopback;
	socklen_t len = sizeof(sa);
	struct uccl_nic_peer *peer;
	uint64_t at = UCCL_NEVER;
	struct uccl_rx v[4];

	assert_int_equal(bind(fd, (struct sockaddr *)&sa, len) | listen(fd, 4), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&sa, &len), 0);
	to.port = ntohs(sa.sin_port);
	assert_true(a->ops->expiry(a) == UCCL_NEVER);
	assert_int_equal(a->ops->connect(a, &to, 4711, 1, &peer), 0);
	for (int round = 0; round < 5000 && at == UCCL_NEVER; round++) {
		assert_int_equal(a->ops->rx(a, v, 4, NULL, 0), 0);
		one = accept(fd, NULL, NULL);
		if (one >= 0)
			close(one);
		at = a->ops->expiry(a);
		poll(NULL, 0, 1);
	}
	assert_true(at != UCCL_NEVER && at <= uccl_udp_now() + UCCL_NS_PER_S);
	/* Then rx() connects again. */
	while (uccl_udp_now() < at)
		poll(NULL, 0, 1);
	while (accept(fd, NULL, NULL) < 0)
		assert_int_equal(a->ops->rx(a, v, 4, NULL, 0), 0);
	a->ops->disconnect(a, peer);
	a->ops->close(a);
	close(fd);
}

/* The handle goes while its event waits: nobody hears of a handle that is freed. */
TEST(disconnect__drops_event)
{
	struct uccl_nic *a = open_plain(0);
	struct uccl_nic_addr to[2] = {v4_loopback, v4_loopback};
	struct uccl_nic_peer *peer[2];
	struct uccl_rx v[4];
	int i;

	to[0].port = 1;
	to[1].port = 2;
	assert_int_equal(a->ops->connect(a, &to[0], 1, 1, &peer[0]), 0);
	assert_int_equal(a->ops->connect(a, &to[1], 1, 1, &peer[1]), 0);
	for (i = 0; i < 2; i++) {
		struct udp_event event = {.kind = UCCL_RX_GONE, .peer = peer[i], .src = to[i]};

		assert_true(uccl_udp_event(udp_of(a), &event));
	}
	a->ops->disconnect(a, peer[0]);
	assert_int_equal(a->ops->rx(a, v, 4, NULL, 0), 1);
	assert_ptr_equal(v[0].peer, peer[1]);
	a->ops->disconnect(a, peer[1]);
	a->ops->close(a);
}

/* A nap's descriptor tells of packets, and costs nothing when nobody naps: none is made for it. */
TEST(nap_fd__readable)
{
	struct uccl_nic_attr attr = {.bind = v4_loopback};
	struct uccl_nic *a = open_attr(&attr), *b = open_attr(&attr);
	struct uccl_nic_addr to = addr_of(b);
	struct pollfd p = {.fd = b->ops->nap_fd(b), .events = POLLIN};
	struct uccl_rx v[4];
	struct uccl_tx t = packet(&to, 1, 10, 0);

	assert_int_equal(poll(&p, 1, 0), 0);
	tx_all(a, &t, 1);
	assert_int_equal(poll(&p, 1, 5000), 1);
	assert_int_equal(rx_wait(b, v, 4, NULL, 0), 1);
	assert_int_equal(poll(&p, 1, 0), 0);
	assert_int_equal(udp_of(b)->wait_fd, -1);
	a->ops->close(a);
	b->ops->close(b);
}

TEST(wait_fd__readable)
{
	struct uccl_nic_attr attr = {.bind = v4_loopback, .liveness = true};
	struct uccl_nic *a = open_attr(&attr), *b = open_attr(&attr);
	struct uccl_nic_addr to = addr_of(b);
	struct pollfd p = {.events = POLLIN};
	struct uccl_nic_peer *peer;
	struct uccl_rx v[4];
	struct uccl_tx t = packet(&to, 1, 10, 0);

	p.fd = b->ops->wait_fd(b);
	assert_true(p.fd >= 0);
	assert_int_equal(b->ops->wait_fd(b), p.fd);
	assert_int_equal(poll(&p, 1, 0), 0);
	tx_all(a, &t, 1);
	assert_int_equal(poll(&p, 1, 5000), 1);
	assert_int_equal(rx_wait(b, v, 4, NULL, 0), 1);
	assert_int_equal(poll(&p, 1, 0), 0);
	/* A liveness connection wakes too, and rx() soon lets the owner sleep again. */
	assert_int_equal(a->ops->connect(a, &to, 1, 1, &peer), 0);
	assert_int_equal(poll(&p, 1, 5000), 1);
	for (int round = 0; round < ROUNDS && poll(&p, 1, 0); round++) {
		assert_int_equal(b->ops->rx(b, v, 4, NULL, 0), 0);
		poll(NULL, 0, 1);
	}
	assert_int_equal(poll(&p, 1, 0), 0);
	a->ops->disconnect(a, peer);
	a->ops->close(a);
	b->ops->close(b);
}

/* What the socket of a plain program sees of a packet's class. */
static int class_of(int fd, bool v4)
{
	_Alignas(size_t) uint8_t control[64];
	uint8_t byte[64];
	struct iovec iov = {.iov_base = byte, .iov_len = sizeof(byte)};
	struct msghdr h = {.msg_iov = &iov, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof(control)};
	struct pollfd p = {.fd = fd, .events = POLLIN};
	struct cmsghdr *c;
	int value = 0;

	assert_int_equal(poll(&p, 1, 5000), 1);
	assert_true(recvmsg(fd, &h, 0) > 0);
	c = CMSG_FIRSTHDR(&h);
	assert_non_null(c);
	assert_int_equal(c->cmsg_level, v4 ? IPPROTO_IP : IPPROTO_IPV6);
	memcpy(&value, CMSG_DATA(c), v4 ? 1 : sizeof(value));
	return value;
}

/*
 * Packets may be marked where they say so, and have the class of data or that of control packets: alone, in trains, in
 * one call with others, to IPv4 by a socket of IPv6.
 */
TEST(tx__class)
{
	for (int kind = 0; kind < 12; kind++) {
		bool v4 = kind % 3 != 1, ecn = kind / 3 & 1;
		uint8_t data = kind < 6 ? 0 : 10 << 2, control = kind < 6 ? 48 << 2 : 0;
		struct uccl_nic_addr any = {.port = 0}, to = v4 ? v4_loopback : v6_loopback;
		struct uccl_nic *a = open_attr(&(struct uccl_nic_attr){
			.bind = kind % 3 == 2 ? any : to, .ifname = kind % 3 == 2 ? "lo" : NULL, .ecn = ecn,
			.data_class = data, .control_class = control});
		struct sockaddr_storage sa;
		socklen_t len = uccl_ifaddr_to_sock(&sa, &to, v4 ? AF_INET : AF_INET6);
		int fd = socket(sa.ss_family, SOCK_DGRAM, 0), on = 1;
		struct uccl_tx t[11];

		assert_int_equal(a->caps.marks, ecn);
		assert_int_equal(bind(fd, (struct sockaddr *)&sa, len), 0);
		assert_int_equal(getsockname(fd, (struct sockaddr *)&sa, &len), 0);
		assert_int_equal(setsockopt(fd, v4 ? IPPROTO_IP : IPPROTO_IPV6, v4 ? IP_RECVTOS : IPV6_RECVTCLASS, &on,
					    sizeof(on)), 0);
		uccl_ifaddr_from_sock(&to, (struct sockaddr *)&sa, len);
		for (int i = 0; i < 11; i++) {
			t[i] = packet(&to, (uint8_t)i, 100, 0);
			t[i].ect = i == 1 || i > 3;
			t[i].control = i == 2 || i == 6 || i > 8;
		}
		tx_all(a, t, 11);
		for (int i = 0; i < 11; i++)
			assert_int_equal(class_of(fd, v4), (t[i].control ? control : data) + (ecn && t[i].ect ? 2 : 0));
		close(fd);
		a->ops->close(a);
	}
}

/* Marks are handed up, of the one and the other family, beside all that the kernel says of a packet. */
TEST(rx__marked)
{
	for (int kind = 0; kind < 8; kind++) {
		bool v4 = kind & 1, ecn = kind & 2, any = kind & 4;
		struct uccl_nic_addr wild = {.port = 0}, at = v4 ? v4_loopback : v6_loopback;
		struct uccl_nic *b = open_attr(&(struct uccl_nic_attr){
			.bind = any ? wild : at, .ifname = any ? NULL : "lo", .ecn = ecn, .timestamps = true});
		struct sockaddr_storage sa;
		socklen_t len;
		struct uccl_rx v[1];
		int fd;

		at.port = addr_of(b).port;
		len = uccl_ifaddr_to_sock(&sa, &at, v4 ? AF_INET : AF_INET6);
		fd = socket(sa.ss_family, SOCK_DGRAM, 0);
		for (int tos = 0; tos < 256; tos += tos < 4 ? 1 : 63) {
			uint8_t byte[64] = {0};

			assert_int_equal(setsockopt(fd, v4 ? IPPROTO_IP : IPPROTO_IPV6, v4 ? IP_TOS : IPV6_TCLASS, &tos,
						    sizeof(tos)), 0);
			assert_int_equal(sendto(fd, byte, sizeof(byte), 0, (struct sockaddr *)&sa, len), sizeof(byte));
			assert_int_equal(rx_wait(b, v, 1, NULL, 0), 1);
			assert_int_equal(v[0].marked, ecn && (tos & 3) == 3);
			assert_true(v[0].age_ns > 0);
		}
		close(fd);
		b->ops->close(b);
	}
}

int main(void)
{
	payload_fill();
	return tests_run(NULL, NULL);
}
