/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The xdp back end over a veth pair (xdp.c, xdp_prog.c, xsk.c, xskset.c). Without privileges it can only be seen to
 * be refused.
 */
#include "nic/xdp/xdp.h"

#include "../../tests.h"

#include <arpa/inet.h>
#include <errno.h>
#include <net/if.h>
#include <poll.h>
#include <rdma/fi_errno.h>
#include <string.h>
#include <sys/socket.h>

#include "base/le.h"
#include "base/log.h"
#include "base/units.h"
#include "nic/xdp/xdp_prog.h"
#include "nic/xdp/xsk.h"
#include "../two_hosts.h"

#define ROUNDS 5000 /* of at most a millisecond */

static bool have_hosts;
static uint8_t payload[16384];
static char last_log[512];

static void log_keep(int level, const char *func, int line, const char *text)
{
	if (level == UCCL_LOG_WARN)
		snprintf(last_log, sizeof(last_log), "%s", text);
}

#define NEED_HOSTS()                                                                                                   \
	do {                                                                                                           \
		if (!have_hosts)                                                                                       \
			skip();                                                                                        \
	} while (0)

static struct uccl_nic_attr attr_of(int host, bool v6, enum uccl_xdp_mode mode)
{
	struct uccl_nic_attr attr = {.ifname = host ? "vb" : "va", .xdp_mode = mode, .ecn = true, .liveness = true};

	if (v6) {
		inet_pton(AF_INET6, host ? "fd88::2" : "fd88::1", attr.bind.ip);
	} else {
		attr.bind.ip[10] = attr.bind.ip[11] = 0xff;
		inet_pton(AF_INET, host ? "10.88.0.2" : "10.88.0.1", attr.bind.ip + 12);
	}
	return attr;
}

/* A queue is taken with the first peer. */
static void peer_make(struct uccl_nic *nic)
{
	const struct uccl_nic_addr somebody = {.ip = {[10] = 0xff, [11] = 0xff, [12] = 127, [15] = 1}, .port = 9};
	struct uccl_nic_peer *peer;

	assert_int_equal(nic->ops->connect(nic, &somebody, 1, 1, &peer), 0);
	nic->ops->disconnect(nic, peer);
}

static struct uccl_nic *open_as(int host, const struct uccl_nic_attr *attr)
{
	struct uccl_nic *nic = NULL;

	assert_true(on_host(host));
	assert_int_equal(uccl_nic_xdp_open(attr, &nic), 0);
	peer_make(nic);
	return nic;
}

static struct uccl_nic *open_on(int host, bool v6, enum uccl_xdp_mode mode)
{
	struct uccl_nic_attr attr = attr_of(host, v6, mode);

	return open_as(host, &attr);
}

static struct uccl_nic_addr addr_of(struct uccl_nic *nic)
{
	struct uccl_nic_addr a;

	nic->ops->addr(nic, &a);
	return a;
}

static struct uccl_tx packet(const struct uccl_nic_addr *to, uint8_t mark, uint32_t len)
{
	struct uccl_tx t = {.hdr_len = 64, .payload = payload, .payload_len = len, .tail_len = 3, .to = to};

	memset(t.hdr, mark, 64);
	memset(t.tail, 0xee, 3);
	t.label = mark % 32;
	t.ect = mark % 2;
	return t;
}

/* A packet that passes a guard of these tests. */
static void looks_ours(struct uccl_tx *t, uint8_t type, uint16_t token_top)
{
	uccl_put16(t->hdr, 0x4355);
	t->hdr[2] = 1;
	t->hdr[3] = type;
	uccl_put16(t->hdr + 14, token_top);
}

static int rx_wait(struct uccl_nic *nic, struct uccl_rx *v, int n, int rounds)
{
	for (int i = 0; i < rounds; i++) {
		int k = nic->ops->rx(nic, v, n, NULL, 0);

		if (k)
			return k;
		poll(NULL, 0, i > 100);
	}
	return 0;
}

/* Send one packet and see it arrive, whole. */
static void one_arrives(struct uccl_nic *from, struct uccl_nic *to, uint8_t mark, uint32_t len)
{
	struct uccl_nic_addr at = addr_of(to);
	struct uccl_tx t = packet(&at, mark, len);
	struct uccl_rx r;

	assert_int_equal(from->ops->tx(from, &t, 1), 1);
	assert_int_equal(rx_wait(to, &r, 1, ROUNDS), 1);
	assert_int_equal(r.kind, UCCL_RX_PACKET);
	assert_int_equal(r.len, 64 + len + 3);
	assert_int_equal(r.data[0], mark);
	assert_int_equal(r.data[63], mark);
	assert_memory_equal(r.data + 64, payload, len);
	assert_int_equal(r.data[r.len - 1], 0xee);
	assert_false(r.marked);
	assert_memory_equal(r.src.ip, addr_of(from).ip, 16);
}

/* Until frames go both ways: the first packets take sockets while neighbours are found. */
static void warm_up(struct uccl_nic *a, struct uccl_nic *b)
{
	for (int i = 0; i < ROUNDS && !(uccl_xdp_stats(a).frames_out > 10 && uccl_xdp_stats(b).frames_out > 10); i++) {
		one_arrives(a, b, 1, 10);
		one_arrives(b, a, 1, 10);
		poll(NULL, 0, 2);
	}
	assert_true(uccl_xdp_stats(a).frames_out > 10 && uccl_xdp_stats(b).frames_out > 10);
}

static void both_close(struct uccl_nic *a, struct uccl_nic *b)
{
	a->ops->close(a);
	b->ops->close(b);
}

/* Every length up to a frame's and beyond it, both families, both ways to run the program. */
static void lengths_try(bool v6, enum uccl_xdp_mode mode)
{
	struct uccl_nic *a = open_on(0, v6, mode), *b = open_on(1, v6, mode);
	struct uccl_xdp_stats before, after;
	uint32_t most = 1500 - (v6 ? 48 : 28) - 67, n = 0;

	warm_up(a, b);
	before = uccl_xdp_stats(b);
	for (uint32_t len = 0; len <= most; len += len + 100 < most ? 7 : 1, n++)
		one_arrives(a, b, (uint8_t)len, len);
	after = uccl_xdp_stats(b);
	/* A detour now and then is meant. */
	assert_in_range(after.frames_in - before.frames_in, n - n / 10, n);
	assert_int_equal(after.refused, 0);
	both_close(a, b);
}

TEST(tx_rx__lengths)
{
	NEED_HOSTS();
	for (int v6 = 0; v6 < 2; v6++)
		for (int mode = UCCL_XDP_NATIVE; mode <= UCCL_XDP_GENERIC; mode++)
			lengths_try(v6, (enum uccl_xdp_mode)mode);
}

/* The other side is udp: its packets are the same. */
TEST(tx_rx__with_udp)
{
	NEED_HOSTS();
	for (int v6 = 0; v6 < 2; v6++)
		for (int mode = UCCL_XDP_NATIVE; mode <= UCCL_XDP_GENERIC; mode++) {
			struct uccl_nic *a = open_on(0, v6, (enum uccl_xdp_mode)mode), *b = NULL;
			struct uccl_nic_attr attr = attr_of(1, v6, UCCL_XDP_AUTO);

			assert_true(on_host(1));
			assert_int_equal(uccl_nic_udp_open(&attr, &b), 0);
			for (uint32_t len = 0; len < 1380; len += 20) {
				one_arrives(a, b, (uint8_t)len, len);
				one_arrives(b, a, (uint8_t)len, len);
				poll(NULL, 0, len < 100 ? 5 : 0);
			}
			assert_in_range(uccl_xdp_stats(a).frames_out, 50, 69);
			assert_in_range(uccl_xdp_stats(a).frames_in, 60, 69);
			assert_int_equal(uccl_xdp_stats(a).refused, 0);
			both_close(a, b);
		}
}

/* A packet's age is the time that it waited at its receiver, by both ways to run the program, and not its way. */
TEST(rx__age)
{
	NEED_HOSTS();
	for (int mode = UCCL_XDP_NATIVE; mode <= UCCL_XDP_GENERIC; mode++) {
		struct uccl_nic_attr attr = attr_of(1, false, mode);
		struct uccl_nic *a = open_on(0, false, mode), *b;
		struct uccl_nic_addr at;
		struct uccl_rx r;

		attr.timestamps = true;
		b = open_as(1, &attr);
		warm_up(a, b);
		at = addr_of(b);
		for (int wait = 0; wait <= 60; wait += 30) {
			struct uccl_tx t = packet(&at, 1, 100);
			uint64_t frames = uccl_xdp_stats(b).frames_in;

			assert_int_equal(a->ops->tx(a, &t, 1), 1);
			poll(NULL, 0, wait);
			assert_int_equal(rx_wait(b, &r, 1, ROUNDS), 1);
			assert_int_equal(uccl_xdp_stats(b).frames_in, frames + 1);
			assert_in_range(r.age_ns, 1 + (uint64_t)wait * UCCL_NS_PER_MS * 9 / 10,
					((uint64_t)wait + 900) * UCCL_NS_PER_MS);
		}
		both_close(a, b);
	}
}

/* Batches that wrap all rings several times; nothing is lost while the receiver keeps up, and all is as it was sent. */
TEST(tx_rx__batches)
{
	struct uccl_nic *a, *b;
	struct uccl_nic_addr at;
	static struct uccl_tx v[32];
	static struct uccl_rx r[64];
	uint32_t sent = 0, got = 0;

	NEED_HOSTS();
	a = open_on(0, false, UCCL_XDP_NATIVE);
	b = open_on(1, false, UCCL_XDP_NATIVE);
	at = addr_of(b);
	warm_up(a, b);
	for (int round = 0; round < 400; round++) {
		int k;

		for (uint32_t i = 0; i < 32; i++) {
			v[i] = packet(&at, (uint8_t)(sent + i), 1000 + i);
			uccl_put32(v[i].hdr, sent + i);
		}
		k = a->ops->tx(a, v, 32);
		assert_in_range(k, 0, 32);
		sent += (uint32_t)k;
		for (int spins = 0; got < sent && spins < ROUNDS; spins++) {
			k = b->ops->rx(b, r, 64, NULL, 0);
			for (int i = 0; i < k; i++)
				if (r[i].kind == UCCL_RX_PACKET) {
					assert_true(uccl_get32(r[i].data) < sent);
					assert_memory_equal(r[i].data + 64, payload, 1000);
					got++;
				}
			poll(NULL, 0, !k && spins > 100);
		}
		a->ops->rx(a, r, 64, NULL, 0);
		assert_int_equal(got, sent);
	}
	assert_in_range(sent, 12000, 12800);
	/* At this MTU nothing takes more than a frame. */
	assert_int_equal(uccl_xdp_stats(a).most, UCCL_XSK_MOST);
	/* Not a call for each packet. */
	assert_true(uccl_xdp_stats(a).kicks < uccl_xdp_stats(a).frames_out / 4);
	both_close(a, b);
}

/*
 * What is longer than a frame is several (Linux 6.6): each length arrives, in one piece and with its age, also in
 * batches that wrap the rings.
 */
static void long_try(enum uccl_xdp_mode mode)
{
	struct uccl_nic_attr attr = attr_of(1, false, mode);
	struct uccl_nic *a, *b;
	struct uccl_nic_addr at;
	struct uccl_xdp_stats before, after;
	static struct uccl_tx v[16];
	static struct uccl_rx r[64];
	uint32_t known, n = 0, most = 9000 - 28 - 67;

	a = open_on(0, false, mode);
	attr.timestamps = true;
	assert_true(on_host(1));
	assert_int_equal(uccl_nic_xdp_open(&attr, &b), 0);
	at = addr_of(a);
	/* Peers are asked for how much goes before there is a queue. */
	assert_int_equal(b->ops->path_mtu(b, &at, &known), 9000 - 28);
	peer_make(b);
	at = addr_of(b);
	warm_up(a, b);
	assert_int_equal(a->ops->path_mtu(a, &at, &known), 9000 - 28);
	assert_int_equal(known, 9000 - 28);
	assert_in_range(a->ops->slots(a, 9000), 400, UCCL_XSK_RX / 3);
	assert_int_equal(uccl_xdp_stats(a).most, UCCL_XSK_LONG);
	before = uccl_xdp_stats(b);
	for (uint32_t len = 1400; len <= most; len += 50, n++)
		one_arrives(a, b, (uint8_t)len, len);
	/* Around the ends of frames, on the way out and in. */
	for (uint32_t frames = 1; frames <= 2; frames++)
		for (uint32_t off = 0; off < 5; off++, n += 2) {
			one_arrives(a, b, 3, frames * UCCL_XSK_MOST - 42 - 67 + off - 2);
			one_arrives(a, b, 4, frames * UCCL_XSK_FRAME - 42 - 67 + off - 2);
		}
	after = uccl_xdp_stats(b);
	assert_in_range(after.frames_in - before.frames_in, n - n / 10, n);
	assert_int_equal(after.refused, 0);
	for (uint32_t round = 0, sent = 0, got = 0; round < 300; round++) {
		int k;

		for (uint32_t i = 0; i < 16; i++) {
			v[i] = packet(&at, (uint8_t)i, round % 2 ? most - i * 500 : 100 + i * 500);
			uccl_put32(v[i].hdr, sent + i);
		}
		k = a->ops->tx(a, v, 16);
		assert_in_range(k, 0, 16);
		sent += (uint32_t)k;
		for (int spins = 0; got < sent && spins < ROUNDS; spins++) {
			k = b->ops->rx(b, r, 64, NULL, 0);
			for (int i = 0; i < k; i++) {
				assert_int_equal(r[i].kind, UCCL_RX_PACKET);
				assert_memory_equal(r[i].data + 64, payload, r[i].len - 67);
				assert_int_equal(r[i].data[r[i].len - 1], 0xee);
				assert_true(r[i].age_ns > 0);
				got++;
			}
			poll(NULL, 0, !k && spins > 100);
		}
		a->ops->rx(a, r, 64, NULL, 0);
		assert_int_equal(got, sent);
	}
	both_close(a, b);
}

TEST(tx_rx__jumbo)
{
	NEED_HOSTS();
	assert_true(host_run(0, "ip link set va mtu 9000") && host_run(1, "ip link set vb mtu 9000"));
	long_try(UCCL_XDP_NATIVE);
	long_try(UCCL_XDP_GENERIC);
	assert_true(host_run(0, "ip link set va mtu 1500") && host_run(1, "ip link set vb mtu 1500"));
}

/* Longer than all frames of a packet: by a socket, and it arrives. */
TEST(tx_rx__too_long)
{
	struct uccl_nic *a, *b;
	struct uccl_nic_addr at;
	struct uccl_xdp_stats before, after;
	uint32_t known;

	NEED_HOSTS();
	assert_true(host_run(0, "ip link set va mtu 16000") && host_run(1, "ip link set vb mtu 16000"));
	a = open_on(0, false, UCCL_XDP_NATIVE);
	b = open_on(1, false, UCCL_XDP_NATIVE);
	at = addr_of(b);
	warm_up(a, b);
	assert_int_equal(a->ops->path_mtu(a, &at, &known), UCCL_XSK_LONG - 42);
	before = uccl_xdp_stats(b);
	one_arrives(a, b, 1, UCCL_XSK_LONG - 42 - 67);
	after = uccl_xdp_stats(b);
	assert_int_equal(after.frames_in - before.frames_in, 1);
	one_arrives(a, b, 1, UCCL_XSK_LONG - 42 - 66);
	assert_int_equal(uccl_xdp_stats(b).frames_in, after.frames_in);
	assert_int_equal(uccl_xdp_stats(b).refused, 0);
	both_close(a, b);
	assert_true(host_run(0, "ip link set va mtu 1500") && host_run(1, "ip link set vb mtu 1500"));
}

/* What does not have to do with us goes on: other ports, TCP, ping, and addresses of others. */
TEST(program__others_pass)
{
	struct uccl_nic *a, *b;
	struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(4555)};
	char buf[32];
	int out, in;

	NEED_HOSTS();
	for (int mode = UCCL_XDP_NATIVE; mode <= UCCL_XDP_GENERIC; mode++) {
		a = open_on(0, false, mode);
		b = open_on(1, false, mode);
		warm_up(a, b);
		assert_true(on_host(1));
		inet_pton(AF_INET, "10.88.0.2", &to.sin_addr);
		in = socket(AF_INET, SOCK_DGRAM, 0);
		assert_int_equal(bind(in, (struct sockaddr *)&to, sizeof(to)), 0);
		assert_true(on_host(0));
		out = socket(AF_INET, SOCK_DGRAM, 0);
		assert_int_equal(sendto(out, "else", 4, 0, (struct sockaddr *)&to, sizeof(to)), 4);
		assert_int_equal(poll(&(struct pollfd){.fd = in, .events = POLLIN}, 1, 5000), 1);
		assert_int_equal(recv(in, buf, sizeof(buf), 0), 4);
		close(in);
		close(out);
		/* The liveness listener is at our very port, by TCP. */
		to.sin_port = htons(addr_of(b).port);
		out = socket(AF_INET, SOCK_STREAM, 0);
		assert_int_equal(connect(out, (struct sockaddr *)&to, sizeof(to)), 0);
		close(out);
		to.sin_port = htons(4555);
		both_close(a, b);
	}
}

/* With a guard only what is for a peer of ours is a frame: HELLO goes where strangers are kept apart. */
TEST(guard__strangers_by_socket)
{
	const struct uccl_nic_guard g = {.magic = 0x4355,
					 .version = 1,
					 .hello = 1,
					 .init = 3,
					 .types = 1u << 8 | 1u << 16,
					 .token_top = 0xabcd,
					 .incarnation = 77};
	struct uccl_nic *a, *b;
	struct uccl_xdp_stats before, after;
	struct uccl_nic_addr at;
	struct uccl_tx t;
	struct uccl_rx r;
	struct {
		uint8_t type;
		uint16_t token;
		bool frame, arrives;
	} try[] = {{8, 0xabcd, true, true},    {16, 0xabcd, true, true},   {1, 0, false, true},
		   {9, 0xabcd, false, false},  {16, 0xabce, false, false}, {40, 0xabcd, false, false},
		   {8, 0xabcd, true, true}};

	NEED_HOSTS();
	a = open_on(0, false, UCCL_XDP_NATIVE);
	b = open_on(1, false, UCCL_XDP_NATIVE);
	warm_up(a, b);
	b->ops->guard(b, &g);
	at = addr_of(b);
	for (size_t i = 0; i < uccl_array_len(try); i++) {
		before = uccl_xdp_stats(b);
		t = packet(&at, 0, 100);
		looks_ours(&t, try[i].type, try[i].token);
		assert_int_equal(a->ops->tx(a, &t, 1), 1);
		assert_int_equal(rx_wait(b, &r, 1, try[i].arrives ? ROUNDS : 120), try[i].arrives);
		after = uccl_xdp_stats(b);
		assert_int_equal(after.frames_in - before.frames_in, try[i].frame);
		assert_int_equal(after.sockets_in - before.sockets_in, try[i].arrives && !try[i].frame);
	}
	both_close(a, b);
}

/* Who sleeps is woken by frames and by what comes by sockets, and not by nothing. */
TEST(wait_fd__both)
{
	struct uccl_nic *a, *b;
	struct uccl_nic_addr at;
	struct uccl_tx t;
	struct uccl_rx r;
	struct pollfd p = {.events = POLLIN};

	NEED_HOSTS();
	a = open_on(0, false, UCCL_XDP_NATIVE);
	b = open_on(1, false, UCCL_XDP_NATIVE);
	warm_up(a, b);
	at = addr_of(b);
	p.fd = b->ops->wait_fd(b);
	assert_true(p.fd >= 0);
	assert_int_equal(b->ops->wait_fd(b), p.fd);
	for (int answer = 0; answer < 2; answer++) {
		assert_int_equal(poll(&p, 1, 20), 0);
		t = packet(&at, 5, 100);
		t.answer = answer; /* such take sockets on their way out */
		assert_int_equal(a->ops->tx(a, &t, 1), 1);
		assert_int_equal(poll(&p, 1, 5000), 1);
		assert_int_equal(rx_wait(b, &r, 1, ROUNDS), 1);
	}
	both_close(a, b);
}

/* Who went to sleep before there was a queue is woken by frames, too. */
TEST(wait_fd__before_the_queue)
{
	struct uccl_nic_attr attr = attr_of(1, false, UCCL_XDP_NATIVE);
	struct uccl_nic *a, *b;
	struct uccl_nic_addr at;
	struct uccl_tx t;
	struct uccl_rx r;
	struct pollfd p = {.events = POLLIN};

	NEED_HOSTS();
	a = open_on(0, false, UCCL_XDP_NATIVE);
	assert_true(on_host(1));
	assert_int_equal(uccl_nic_xdp_open(&attr, &b), 0);
	p.fd = b->ops->wait_fd(b);
	assert_true(p.fd >= 0);
	peer_make(b);
	assert_int_equal(b->ops->wait_fd(b), p.fd);
	warm_up(a, b);
	at = addr_of(b);
	assert_int_equal(poll(&p, 1, 20), 0);
	t = packet(&at, 5, 100);
	assert_int_equal(a->ops->tx(a, &t, 1), 1);
	assert_int_equal(poll(&p, 1, 5000), 1);
	assert_int_equal(rx_wait(b, &r, 1, ROUNDS), 1);
	both_close(a, b);
}

/* Who else is on the interface? */
static bool attached(int host, const char *ifname)
{
	char line[64];

	snprintf(line, sizeof(line), "ip link show %s | grep -q xdp", ifname);
	return host_run(host, line);
}

/* On the pair with two queues; with `queues` as one of those that share. */
static struct uccl_nic_attr wide_attr(int host, struct uccl_xsk_set **queues)
{
	struct uccl_nic_attr attr = {.ifname = host ? "wb" : "wa", .liveness = true, .queues = queues};

	attr.bind.ip[10] = attr.bind.ip[11] = 0xff;
	inet_pton(AF_INET, host ? "10.89.0.2" : "10.89.0.1", attr.bind.ip + 12);
	return attr;
}

static struct uccl_nic *open_wide(int host)
{
	struct uccl_nic_attr attr = wide_attr(host, NULL);

	return open_as(host, &attr);
}

TEST(open__queues)
{
	struct uccl_nic *a[3], *b, *idle[3];
	struct uccl_nic_attr attr = {.ifname = "wa"};

	NEED_HOSTS();
	/* Who has no peer takes none. */
	assert_true(on_host(0));
	for (int i = 0; i < 3; i++)
		assert_int_equal(uccl_nic_xdp_open(&attr, &idle[i]), 0);
	last_log[0] = '\0';
	for (int i = 0; i < 3; i++)
		a[i] = open_wide(0);
	assert_non_null(strstr(last_log, "all queues of wa are taken"));
	b = open_wide(1);
	/* Each hears what is for it, by whatever queue it comes. */
	for (int round = 0; round < 20; round++)
		for (int i = 0; i < 3; i++) {
			one_arrives(b, a[i], (uint8_t)round, 200);
			one_arrives(a[i], b, (uint8_t)round, 200);
			poll(NULL, 0, 1);
		}
	assert_true(uccl_xdp_stats(a[0]).frames_in > 10);
	assert_true(uccl_xdp_stats(a[1]).frames_out > 10);
	assert_int_equal(uccl_xdp_stats(a[2]).frames_out, 0);
	/* The program stays until the last of them goes; and the queue that was left is had again. */
	a[0]->ops->close(a[0]);
	assert_true(attached(0, "wa"));
	one_arrives(b, a[1], 3, 200);
	a[0] = open_wide(0);
	for (int round = 0; round < 20; round++) {
		one_arrives(b, a[0], 4, 200);
		one_arrives(a[0], b, 4, 200);
		poll(NULL, 0, 1);
	}
	assert_true(uccl_xdp_stats(a[0]).frames_in > 10);
	for (int i = 0; i < 3; i++)
		a[i]->ops->close(a[i]);
	b->ops->close(b);
	assert_true(attached(0, "wa"));
	for (int i = 0; i < 3; i++)
		idle[i]->ops->close(idle[i]);
	assert_false(attached(0, "wa"));
	assert_false(attached(1, "wb"));
}

/* 200 packets with all labels, so by both queues. Returns how many of them were frames. */
static uint64_t spread_arrives(struct uccl_nic *from, struct uccl_nic *to)
{
	uint64_t before = uccl_xdp_stats(to).frames_in;

	/* Sockets of labels are made when they are used. */
	assert_true(on_host(1));
	for (int i = 0; i < 200; i++)
		one_arrives(from, to, (uint8_t)i, 200);
	return uccl_xdp_stats(to).frames_in - before;
}

/* By whatever queue of theirs it comes: what is for one of those that share them is a frame. */
TEST(join__all_queues)
{
	static const enum uccl_xdp_mode modes[] = {UCCL_XDP_NATIVE, UCCL_XDP_GENERIC};

	NEED_HOSTS();
	for (size_t m = 0; m < uccl_array_len(modes); m++) {
		struct uccl_xsk_set *queues = NULL;
		struct uccl_nic_attr attr = wide_attr(0, &queues), other = wide_attr(1, NULL);
		struct uccl_nic *alone, *a[2], *b;
		uint64_t frames;

		attr.xdp_mode = modes[m];
		assert_true(on_host(1));
		assert_int_equal(uccl_nic_udp_open(&other, &b), 0);
		/* With one of two queues it is some. (To the kernel's own XDP veth names the first one only.) */
		alone = open_as(0, &attr);
		frames = spread_arrives(b, alone);
		assert_in_range(frames, 1, modes[m] == UCCL_XDP_NATIVE ? 199 : 200);
		alone->ops->close(alone);
		assert_null(queues);
		/* Who is there already hears the queue that another one brings. */
		for (int i = 0; i < 2; i++)
			a[i] = open_as(0, &attr);
		assert_non_null(queues);
		for (int i = 0; i < 2; i++) {
			assert_int_equal(spread_arrives(b, a[i]), 200);
			assert_int_equal(uccl_xdp_stats(a[i]).refused, 0);
		}
		/* A queue outlives who brought it. */
		a[0]->ops->close(a[0]);
		assert_int_equal(spread_arrives(b, a[1]), 200);
		a[1]->ops->close(a[1]);
		assert_null(queues);
		assert_false(attached(0, "wa"));
		b->ops->close(b);
	}
}

/* The guard of each is that of all of its sockets. */
TEST(join__guard)
{
	const struct uccl_nic_guard g = {.magic = 0x4355, .version = 1, .types = 1u << 8, .token_top = 0xabcd};
	struct uccl_xsk_set *queues = NULL;
	struct uccl_nic_attr attr = wide_attr(0, &queues), other = wide_attr(1, NULL);
	struct uccl_nic *a[2], *b;
	struct uccl_nic_addr at;
	struct uccl_rx r;

	NEED_HOSTS();
	assert_true(on_host(1));
	assert_int_equal(uccl_nic_udp_open(&other, &b), 0);
	for (int i = 0; i < 2; i++)
		a[i] = open_as(0, &attr);
	a[0]->ops->guard(a[0], &g);
	at = addr_of(a[0]);
	assert_true(on_host(1));
	for (int i = 0; i < 64; i++) {
		struct uccl_tx t = packet(&at, 0, 100);

		t.label = (uint16_t)(i / 2);
		looks_ours(&t, 8, i % 2 ? 0xabcd : 0xabce);
		assert_int_equal(b->ops->tx(b, &t, 1), 1);
		assert_int_equal(rx_wait(a[0], &r, 1, i % 2 ? ROUNDS : 20), i % 2);
	}
	assert_int_equal(uccl_xdp_stats(a[0]).frames_in, 32);
	assert_int_equal(spread_arrives(b, a[1]), 200);
	both_close(a[0], a[1]);
	b->ops->close(b);
}

/* Who sleeps is woken by each queue, also by one that came later. */
TEST(join__wakes)
{
	struct uccl_xsk_set *queues = NULL;
	struct uccl_nic_attr attr = wide_attr(0, &queues), other = wide_attr(1, NULL);
	struct uccl_nic *a[2], *b;
	struct uccl_nic_addr at;
	struct uccl_rx r;
	struct pollfd p = {.events = POLLIN};

	NEED_HOSTS();
	assert_true(on_host(1));
	assert_int_equal(uccl_nic_udp_open(&other, &b), 0);
	for (int i = 0; i < 2; i++) {
		a[i] = open_as(0, &attr);
		if (!i)
			p.fd = a[0]->ops->wait_fd(a[0]);
	}
	assert_true(p.fd >= 0);
	at = addr_of(a[0]);
	assert_true(on_host(1));
	for (int i = 0; i < 32; i++) {
		struct uccl_tx t = packet(&at, (uint8_t)i, 100);

		assert_int_equal(poll(&p, 1, 0), 0);
		t.label = (uint16_t)i;
		assert_int_equal(b->ops->tx(b, &t, 1), 1);
		assert_int_equal(poll(&p, 1, 5000), 1);
		assert_int_equal(rx_wait(a[0], &r, 1, ROUNDS), 1);
		assert_int_equal(rx_wait(a[0], &r, 1, 1), 0);
	}
	assert_int_equal(uccl_xdp_stats(a[0]).frames_in, 32);
	both_close(a[0], a[1]);
	b->ops->close(b);
}

/* Of a process that was killed no rule is left on the queue that it had, while others use the program. */
TEST(take__after_killed)
{
	struct uccl_xdp_prog prog;
	struct uccl_xdp_rule rule;
	struct uccl_nic_addr at = {.ip = {[10] = 0xff, [11] = 0xff, [12] = 10, [13] = 89, [15] = 1}, .port = 4777};
	struct uccl_nic *a;
	const char *what;

	NEED_HOSTS();
	assert_true(on_host(0));
	assert_int_equal(uccl_xdp_prog_open((int)if_nametoindex("wa"), UCCL_XDP_AUTO, &prog, &what), 0);
	uccl_xdp_rule_fill(&rule, 1, NULL);
	/* More than the table would take, if any was left. */
	for (int i = 0; i < 5; i++) {
		for (uint32_t k = 0; k < UCCL_XDP_SOCKETS; k++, at.port++)
			assert_int_equal(uccl_xdp_prog_rule(&prog, &at, 0, k, &rule), 0);
		a = open_wide(0);
		a->ops->close(a);
	}
	uccl_xdp_prog_close(&prog);
}

/* Killed, it leaves nothing behind; and a child that it forked and that sleeps holds nothing. */
TEST(close__killed)
{
	int told[2];
	pid_t child;
	char c;

	NEED_HOSTS();
	for (int forks = 0; forks < 2; forks++) {
		assert_int_equal(pipe(told), 0);
		child = fork();
		assert_true(child >= 0);
		if (!child) {
			pid_t sleeper;

			open_on(0, false, UCCL_XDP_AUTO);
			sleeper = forks ? fork() : -1;
			if (sleeper)
				(void)!write(told[1], "+", 1);
			else
				prctl(PR_SET_NAME, "sleeper");
			alarm(20);
			close(told[0]);
			if (!sleeper)
				sleep(15);
			else
				pause();
			_exit(0);
		}
		assert_int_equal(read(told[0], &c, 1), 1);
		poll(NULL, 0, 50);
		assert_true(attached(0, "va"));
		kill(child, SIGKILL);
		waitpid(child, NULL, 0);
		for (int i = 0; i < 200 && attached(0, "va"); i++)
			poll(NULL, 0, 10);
		assert_false(attached(0, "va"));
		close(told[0]);
		close(told[1]);
	}
}

/* What cannot be had is said in one line. */
TEST(open__refused)
{
	struct uccl_nic_attr attr = {.ifname = "nosuch0"};
	struct uccl_nic *nic;

	assert_int_equal(uccl_nic_xdp_open(&attr, &nic), -FI_ENODEV);
	attr.ifname = NULL;
	assert_int_equal(uccl_nic_xdp_open(&attr, &nic), -FI_ENODEV);
	if (!have_hosts)
		skip();
	assert_true(on_host(0));
	attr.ifname = "lo";
	last_log[0] = '\0';
	assert_int_equal(uccl_nic_xdp_open(&attr, &nic), -FI_EINVAL);
	assert_non_null(strstr(last_log, "lo was refused"));
	/* Another attribute: a driver that has no XDP of its own. */
	assert_true(host_run(0, "ip link add br9 type bridge && ip addr add 10.99.0.1/24 dev br9 && "
				"ip link set br9 up"));
	attr.ifname = "br9";
	attr.xdp_mode = UCCL_XDP_NATIVE;
	assert_int_not_equal(uccl_nic_xdp_open(&attr, &nic), 0);
	assert_non_null(strstr(last_log, "br9 was refused: to attach the XDP program"));
	attr.xdp_mode = UCCL_XDP_AUTO;
	assert_int_equal(uccl_nic_xdp_open(&attr, &nic), 0);
	peer_make(nic);
	nic->ops->close(nic);
	assert_true(host_run(0, "ip link del br9"));
}

/* Key and rule as the program reads them. */
TEST(rule_fill__bytes)
{
	const struct uccl_nic_guard g = {.magic = 0x4355, .version = 1, .types = 6, .token_top = 0x1234};
	const struct uccl_nic_addr a = {.ip = {1, [15] = 2}, .port = 0x1267};
	struct uccl_xdp_rule r;
	struct uccl_xdp_key k;

	memset(&k, 0xff, sizeof(k));
	uccl_xdp_key_fill(&k, &a, 5);
	assert_int_equal(k.queue, 5);
	assert_memory_equal(k.port, "\x12\x67\0", 4);
	assert_memory_equal(k.ip, a.ip, 16);
	uccl_xdp_rule_fill(&r, 999, NULL);
	assert_int_equal(r.most, 999);
	assert_int_equal(r.guarded, 0);
	uccl_xdp_rule_fill(&r, 999, &g);
	assert_memory_equal(r.magic, "\x55\x43", 2);
	assert_memory_equal(r.token_top, "\x34\x12", 2);
	assert_int_equal(r.types, 6);
	assert_int_equal(r.version, 1);
	assert_int_equal(r.guarded, 1);
}

/* A link that goes down and comes back; what is sent meanwhile is lost, nothing else. */
TEST(tx__link_down)
{
	struct uccl_nic *a, *b;
	struct uccl_nic_addr at;
	struct uccl_tx t;
	struct uccl_rx r;

	NEED_HOSTS();
	a = open_on(0, false, UCCL_XDP_NATIVE);
	b = open_on(1, false, UCCL_XDP_NATIVE);
	at = addr_of(b);
	warm_up(a, b);
	assert_true(host_run(0, "ip link set va down"));
	for (int i = 0; i < 3000; i++) {
		int k;

		t = packet(&at, 7, 100);
		k = a->ops->tx(a, &t, 1);
		assert_true(k >= 0);
		a->ops->rx(a, &r, 1, NULL, 0);
	}
	assert_true(host_run(0, "ip link set va up"));
	/* The other side's link may come later, and the kernel asks for a neighbour again after a second only. */
	for (int i = 0; i < 2000; i++) {
		poll(NULL, 0, 10);
		t = packet(&at, 8, 100);
		a->ops->tx(a, &t, 1);
		while (rx_wait(b, &r, 1, 1))
			;
		if (i > 50 && uccl_xdp_stats(b).frames_in > 60)
			break;
	}
	assert_true(uccl_xdp_stats(b).frames_in > 60);
	both_close(a, b);
}

int main(void)
{
	for (size_t i = 0; i < sizeof(payload); i++)
		payload[i] = (uint8_t)(i * 31 + i / 251);
	uccl_log_set(log_keep, UCCL_LOG_WARN);
	have_hosts = two_hosts();
	if (!have_hosts)
		print_message("no network namespaces here: most of this is skipped\n");
	return tests_run(NULL, NULL);
}
