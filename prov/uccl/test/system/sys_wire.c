/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Bad input on the wire. Three ranks exchange messages; an attacker on the same host sends to the UDP and TCP ports of
 * rank 0. It knows addresses, and for replays, truncations and wrong sources it has real packets. All that must change
 * nothing. At last it forges with the tokens of one connection (0 and 2): that may break this connection, and nothing
 * else.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/rng.h"
#include "chaos.h"
#include "flow/wire/conn.h"
#include "mesh.h"
#include "tap.h"

#define RANKS 3
#define TARGET 0
#define VICTIM 2 /* its connection with the target is given up in the end */
#define ATTACKER 3
#define KEEP 192
#define RSS_GROWTH_KIB (16 << 10)

enum {
	WIRE_RECORD = CTL_USER,
	WIRE_RECORDED,
	WIRE_MARK,
	WIRE_MARKED,
	WIRE_GIVE_UP,
	WIRE_DROP,
	WIRE_TARGET,
	WIRE_ATTACK,
	WIRE_ATTACKED
};

/* ---- the ranks under attack */

static struct tap_packet kept[KEEP];

static uint16_t port_of_place(const char *place)
{
	const char *colon = strrchr(place, ':');

	return colon ? (uint16_t)atoi(colon + 1) : 0;
}

static void file_name(char *buf, size_t size, int rank)
{
	const char *dir = getenv("CHAOS_DIR");

	snprintf(buf, size, "%s/wire.%d.packets", dir ? dir : ".", rank);
}

static void kept_write(int rank, const char *mode)
{
	char name[320];
	FILE *f;

	file_name(name, sizeof(name), rank);
	f = fopen(name, mode);
	rank_check(f, "cannot write %s", name);
	rank_check(fwrite(kept, sizeof(kept[0]), tap_kept(), f) == tap_kept(), "cannot write %s", name);
	fclose(f);
}

static uint64_t rss_kib(void)
{
	unsigned long size = 0, rss = 0;
	FILE *f = fopen("/proc/self/statm", "re");

	rank_check(f && fscanf(f, "%lu %lu", &size, &rss) == 2, "statm");
	fclose(f);
	return rss * ((uint64_t)sysconf(_SC_PAGESIZE) / 1024);
}

void role_wire_rank(struct rank *r)
{
	static struct mesh m;
	struct mesh_cfg cfg = {.window = 8, .size_max = 50000, .limit = UINT64_MAX};
	int other = r->index == TARGET ? VICTIM : TARGET;
	bool recording = false;
	struct ctl c;
	uint64_t v[4];

	rank_join(r, NULL, RANKS);
	if (r->index != TARGET)
		tap_keep(port_of_place(r->place[TARGET]), kept, KEEP);
	mesh_open(&m, r, &cfg);
	rank_tell(r, CTL_READY, 0, NULL, 0);
	while (mesh_next(&m, &c)) {
		if (recording && tap_kept() == KEEP) {
			kept_write(r->index, "ab");
			recording = false;
			rank_tell(r, WIRE_RECORDED, 0, NULL, 0);
		}
		switch (c.type) {
		case WIRE_RECORD:
			/* The first packets, with the handshake, and some of now. */
			kept_write(r->index, "wb");
			tap_keep(port_of_place(r->place[TARGET]), kept, KEEP);
			recording = true;
			break;
		case WIRE_MARK:
			v[0] = rss_kib();
			v[1] = m.s[r->index == TARGET ? 1 : TARGET].received;
			v[2] = r->index == VICTIM ? 0 : m.s[VICTIM].received;
			rank_tell(r, WIRE_MARKED, 0, v, 3);
			break;
		case WIRE_GIVE_UP:
			if (r->index != 1)
				m.s[other].hostile = true;
			break;
		case WIRE_DROP:
			if (r->index != 1)
				m.s[other].dead = true;
			break;
		case 0:
			break;
		default:
			rank_fail("the conductor said %u", c.type);
		}
	}
	mesh_end(&m);
}

/* ---- the attacker */

struct attack {
	struct uccl_rng rng;
	int udp;	       /* bound to 127.0.0.1 */
	struct sockaddr_in to; /* the target */
	struct uccl_addr target, self;
	struct tap_packet *pk; /* real packets to the target: of rank 1, then of VICTIM */
	size_t npk, first_victim;
	uint64_t sent;
};

static void shoot(struct attack *a, const void *data, size_t len)
{
	sendto(a->udp, data, len, MSG_DONTWAIT, (struct sockaddr *)&a->to, sizeof(a->to));
	/* Flooding the socket's queue would only be loss, and what is lost tests nothing. */
	if (++a->sent % 32 == 0)
		usleep(300);
}

static uint64_t any(struct attack *a)
{
	return uccl_rng_next(&a->rng);
}

static void fill_any(struct attack *a, uint8_t *p, size_t len)
{
	for (size_t i = 0; i < len; i++)
		p[i] = (uint8_t)any(a);
}

/* Datagrams of random bytes, in all lengths up to two headers and some longer. */
static void attack_random(struct attack *a)
{
	uint8_t buf[2048];

	for (int i = 0; i < 6000; i++) {
		size_t len = i < 1000 ? (size_t)i % 130 : any(a) % sizeof(buf);

		fill_any(a, buf, len);
		/* Half of them get past the first check. */
		if (len >= 4 && i & 1) {
			uccl_put16(buf, UCCL_MAGIC);
			buf[2] = UCCL_VERSION;
		}
		shoot(a, buf, len);
	}
}

/* Well-formed headers, wrong in one thing: version, token, type, lengths. */
static void attack_header(struct attack *a)
{
	uint8_t buf[4096];
	struct uccl_hdr h;
	uint8_t rec[UCCL_REC_LEN];

	for (int type = 0; type < 256; type++) {
		for (int k = 0; k < 12; k++) {
			size_t len;

			fill_any(a, rec, sizeof(rec));
			memset(buf, 0, sizeof(buf));
			h = (struct uccl_hdr){.type = (uint8_t)type, .token = any(a), .rec = rec};
			h.csn = k & 1 ? 0xffffffff : 0;
			h.pseq = k & 2 ? 0xffffffff : 0;
			h.path = k & 4 ? UCCL_PATHS_MAX - 1 : 0;
			h.payload_len = k & 8 ? 1024 : 0;
			h.tail_len = k == 3 ? UCCL_ACK_FIXED : 0;
			len = (size_t)UCCL_HDR_LEN + h.payload_len + h.tail_len;
			uccl_hdr_encode(buf, &h);
			if (k == 5)
				buf[2] = (uint8_t)any(a); /* version */
			if (k == 6)
				uccl_put16(buf + 28, 0xffff);
			if (k == 7)
				uccl_put16(buf + 30, 0xffff);
			if (k == 8)
				uccl_put16(buf + 6, 0xffff); /* path */
			if (k == 9)
				len++;
			if (k == 10)
				len--;
			if (k == 11)
				uccl_put64(buf + 8, k & 1 ? 0 : UINT64_MAX);
			shoot(a, buf, len);
		}
	}
}

/* Real packets, cut at every length: the tokens are right. */
static void attack_truncate(struct attack *a)
{
	for (size_t i = 0; i < a->npk; i += 7)
		for (size_t len = 0; len < a->pk[i].len; len += len < 200 ? 1 : 61)
			shoot(a, a->pk[i].data, len);
}

static void attack_replay(struct attack *a)
{
	for (int round = 0; round < 8; round++) {
		for (size_t i = 0; i < a->npk; i++) {
			size_t k = round & 1 ? any(a) % a->npk : i;

			if (a->pk[k].len == a->pk[k].full)
				shoot(a, a->pk[k].data, a->pk[k].len);
		}
	}
}

/* The same from another address. */
static void attack_source(struct attack *a)
{
	struct sockaddr_in other = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK + 7)};
	int mine = a->udp;

	a->udp = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	rank_check(a->udp >= 0 && !bind(a->udp, (struct sockaddr *)&other, sizeof(other)), "no second address");
	attack_replay(a);
	for (size_t i = a->first_victim; i < a->npk; i++) {
		/* Forged as well: the source must be looked at before anything else. */
		if (a->pk[i].len == a->pk[i].full && a->pk[i].len > 20) {
			struct tap_packet p = a->pk[i];

			p.data[3] = UCCL_PKT_CLOSE;
			shoot(a, p.data, p.len);
		}
	}
	close(a->udp);
	a->udp = mine;
}

/* A HELLO answered by the target's cookie; the conn is then ready to send INIT. */
static bool get_cookie(struct attack *a, struct uccl_conn *c, struct uccl_listener *l)
{
	struct uccl_conn_params mine = {.mtu = 1500, .window = 2048, .msg_limit = 64, .paths = 4, .slots = 64};
	uint8_t in[4096], buf[UCCL_INIT_PAYLOAD];
	struct pollfd f = {.fd = a->udp, .events = POLLIN};
	struct uccl_hdr h;
	struct uccl_tx tx;
	ssize_t n;

	uccl_conn_init(c, &a->target, &mine, any(a) | 1, any(a) | 1);
	for (int tries = 0; tries < 100; tries++) {
		c->state = UCCL_CONN_IDLE;
		uccl_conn_start(c, clock_ns());
		uccl_conn_tx(c, l, &tx, buf, clock_ns());
		shoot(a, tx.hdr, UCCL_HDR_LEN);
		while (poll(&f, 1, 50) == 1) {
			n = recv(a->udp, in, sizeof(in), MSG_DONTWAIT);
			if (n > 0 && uccl_hdr_decode(&h, in, (uint32_t)n) == UCCL_DROP_COUNT &&
			    h.type == UCCL_PKT_COOKIE && uccl_conn_cookie(c, &h, clock_ns()) == UCCL_DROP_COUNT)
				return true;
		}
	}
	return false;
}

static void shoot_init(struct attack *a, struct uccl_conn *c, struct uccl_listener *l, int spoil)
{
	uint8_t buf[UCCL_INIT_PAYLOAD], packet[UCCL_HDR_LEN + UCCL_INIT_PAYLOAD];
	struct uccl_tx tx;

	c->tx_due = true;
	if (!uccl_conn_tx(c, l, &tx, buf, clock_ns()))
		return;
	memcpy(packet, tx.hdr, UCCL_HDR_LEN);
	memcpy(packet + UCCL_HDR_LEN, buf, UCCL_INIT_PAYLOAD);
	if (spoil >= 0)
		packet[spoil] ^= (uint8_t)(1 + any(a) % 255);
	shoot(a, packet, sizeof(packet));
}

static void attack_handshake(struct attack *a)
{
	struct uccl_listener l = {.local = a->self};
	struct uccl_addr known = a->target;
	struct uccl_conn c;
	uint8_t hello[UCCL_HDR_LEN];
	struct uccl_hdr h;
	struct uccl_tx tx;

	fill_any(a, l.local.key, sizeof(l.local.key));
	/* Without a key; then with a wrong one; the cookie is right. */
	memset(a->target.key, 0, sizeof(a->target.key));
	rank_check(get_cookie(a, &c, &l), "the target does not answer HELLO");
	for (int i = 0; i < 50; i++)
		shoot_init(a, &c, &l, -1);
	fill_any(a, a->target.key, sizeof(a->target.key));
	rank_check(get_cookie(a, &c, &l), "the target does not answer HELLO");
	for (int i = 0; i < 50; i++)
		shoot_init(a, &c, &l, -1);
	/* Cookies of nobody, of another port; every byte of an INIT changed. */
	for (int i = 0; i < 200; i++) {
		fill_any(a, c.cookie, sizeof(c.cookie));
		shoot_init(a, &c, &l, -1);
	}
	rank_check(get_cookie(a, &c, &l), "the target does not answer HELLO");
	l.local.nic.port ^= 1;
	shoot_init(a, &c, &l, -1);
	l.local.nic.port ^= 1;
	for (int i = 0; i < UCCL_HDR_LEN + UCCL_INIT_PAYLOAD; i++)
		shoot_init(a, &c, &l, i);
	/* INIT_ACK and COOKIE that nobody asked for, HELLO without a way back, HELLO to whom does not listen. */
	for (int i = 0; i < 2000; i++) {
		uint8_t rec[UCCL_REC_LEN];

		fill_any(a, rec, sizeof(rec));
		h = (struct uccl_hdr){.token = any(a), .rec = rec};
		h.type = i % 4 == 0 ? UCCL_PKT_COOKIE : i % 4 == 1 ? UCCL_PKT_INIT_ACK : UCCL_PKT_HELLO;
		if (i % 4 == 2)
			uccl_put16(rec + 24, 0);
		uccl_hdr_encode(hello, &h);
		shoot(a, hello, sizeof(hello));
	}
	/* The flood: nothing may be kept of any of these. */
	uccl_conn_init(&c, &a->target, &c.mine, 1, 1);
	for (int i = 0; i < 100000; i++) {
		c.nonce = any(a);
		c.token_local = any(a) | 1;
		l.local.incarnation = any(a) | 1;
		c.state = UCCL_CONN_IDLE;
		uccl_conn_start(&c, 0);
		uccl_conn_tx(&c, &l, &tx, hello, 0);
		shoot(a, tx.hdr, UCCL_HDR_LEN);
	}
	a->target = known;
}

static int tcp_connect(struct attack *a)
{
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd >= 0 && connect(fd, (struct sockaddr *)&a->to, sizeof(a->to))) {
		close(fd);
		return -1;
	}
	a->sent++;
	return fd;
}

/* Connections to the liveness port: that talk, that stay, that come and go. */
static void attack_tcp(struct attack *a)
{
	static int idle[300];
	uint8_t buf[256];
	size_t n = 0;

	for (int i = 0; i < 300; i++) {
		int fd = tcp_connect(a);

		if (fd < 0)
			break;
		idle[n++] = fd;
	}
	rank_check(n, "nobody listens at the TCP port");
	for (int i = 0; i < 1000; i++) {
		int fd = tcp_connect(a);

		if (fd < 0) {
			usleep(2000);
			continue;
		}
		fill_any(a, buf, sizeof(buf));
		if (i & 1)
			send(fd, buf, any(a) % sizeof(buf), MSG_NOSIGNAL | MSG_DONTWAIT);
		if (i & 2) {
			struct linger reset = {.l_onoff = 1};

			setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
		}
		close(fd);
	}
	while (n)
		close(idle[--n]);
}

/* Every byte of the header of real packets at 0, at its greatest and at random; tokens stay right, types come last. */
static void attack_forge(struct attack *a)
{
	for (int pass = 0; pass < 2; pass++) {
		for (size_t i = a->first_victim; i < a->npk; i += 5) {
			const struct tap_packet *real = &a->pk[i];
			struct tap_packet p;

			if (real->len != real->full || real->len < UCCL_HDR_LEN)
				continue;
			for (size_t at = pass ? 3 : 4; at < (pass ? 4u : real->len); at++) {
				if (at >= 8 && at < 16)
					continue;
				if (at > 300 && any(a) % 16)
					continue;
				for (int k = 0; k < (pass ? 32 : 3); k++) {
					p = *real;
					p.data[at] = pass ? (uint8_t)k : k == 0 ? 0 : k == 1 ? 0xff : (uint8_t)any(a);
					/* Often as something new, not as a duplicate. */
					if (any(a) & 1)
						uccl_put32(p.data + 16,
							   uccl_get32(p.data + 16) + (uint32_t)any(a) % 4096);
					shoot(a, p.data, p.len);
				}
			}
			/* Consistent lengths, short contents. */
			p = *real;
			uccl_put16(p.data + 28, 0);
			uccl_put16(p.data + 30, 0);
			shoot(a, p.data, UCCL_HDR_LEN);
			for (unsigned int tail = 1; tail < 64 && !pass; tail++) {
				uccl_put16(p.data + 30, (uint16_t)tail);
				fill_any(a, p.data + UCCL_HDR_LEN, tail);
				shoot(a, p.data, UCCL_HDR_LEN + tail);
			}
		}
	}
}

static const struct phase {
	const char *name;
	void (*run)(struct attack *a);
} phases[] = {
	{"random", attack_random}, {"header", attack_header}, {"truncate", attack_truncate},
	{"replay", attack_replay}, {"source", attack_source}, {"handshake", attack_handshake},
	{"tcp", attack_tcp},	   {"forge", attack_forge}, /* after WIRE_GIVE_UP alone */
};
#define PHASES (sizeof(phases) / sizeof(phases[0]))

static void packets_load(struct attack *a)
{
	a->pk = malloc(4 * KEEP * sizeof(*a->pk));
	rank_check(a->pk, "no memory");
	for (int rank = 1; rank < RANKS; rank++) {
		char name[320];
		FILE *f;

		if (rank == VICTIM)
			a->first_victim = a->npk;
		file_name(name, sizeof(name), rank);
		f = fopen(name, "rb");
		rank_check(f, "no packets in %s", name);
		a->npk += fread(a->pk + a->npk, sizeof(*a->pk), 2 * KEEP, f);
		fclose(f);
	}
	rank_check(a->first_victim && a->npk > a->first_victim, "no packets were kept");
}

void role_wire_attacker(struct rank *r)
{
	struct attack a = {.udp = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0)};
	struct sockaddr_in me = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t len = sizeof(me);
	struct ctl c;
	uint64_t v[1];

	rank_check(a.udp >= 0 && !bind(a.udp, (struct sockaddr *)&me, sizeof(me)) &&
			   !getsockname(a.udp, (struct sockaddr *)&me, &len),
		   "no socket");
	uccl_rng_seed(&a.rng, options.seed);
	rank_wait(r, WIRE_TARGET, &c);
	rank_check(!uccl_addr_decode(&a.target, c.data), "not an address");
	a.to = me;
	a.to.sin_port = htons(a.target.nic.port);
	a.self.nic = a.target.nic;
	a.self.nic.port = ntohs(me.sin_port);
	a.self.incarnation = any(&a) | 1;
	packets_load(&a);
	for (;;) {
		rank_wait(r, WIRE_ATTACK, &c);
		if (c.arg < 0)
			break;
		a.sent = 0;
		phases[c.arg].run(&a);
		v[0] = a.sent;
		rank_tell(r, WIRE_ATTACKED, 0, v, 1);
	}
	free(a.pk);
	rank_tell(r, CTL_DONE, 0, NULL, 0);
}

/* ---- the conductor */

static void marks(struct world *w, struct ctl *c)
{
	for (int i = 0; i < RANKS; i++)
		world_tell(w, i, WIRE_MARK, 0, NULL, 0);
	for (int i = 0; i < RANKS; i++)
		world_expect(w, i, WIRE_MARKED, 20000, &c[i]);
}

int chaos_wire(void)
{
	static const char *const reasons[] = {
		"dropped by the kernel: for nobody here, or no room",
		"lengths do not agree",
		"wrong source address",
		"path index out of range",
		"already received",
		"malformed record",
		"bad or old cookie",
		"connect key does not match",
		"connect without key refused",
	};
	char dir[300];
	/* Small packets, so that whole ones are kept. A port of the program's choice would accept strangers. */
	const char *env[] = {dir, "FI_UCCL_MTU=1500", NULL};
	struct ctl c[RANKS_MAX] = {0}, before[RANKS_MAX] = {0}, after[RANKS_MAX] = {0}, addr[RANKS_MAX] = {0};
	uint64_t first_rss = 0, rss = 0, sent = 0, limit;
	struct world w;

	snprintf(dir, sizeof(dir), "CHAOS_DIR=%s", options.dir);
	world_begin(&w, "wire");
	for (int i = 0; i < RANKS; i++)
		world_spawn(&w, "wire-rank", env, 240);
	for (int i = 0; i < RANKS; i++)
		world_expect(&w, i, CTL_ADDR, 20000, &addr[i]);
	for (int i = 0; i < RANKS; i++) {
		for (int k = 0; k < RANKS; k++) {
			addr[k].type = CTL_PEER;
			addr[k].arg = k;
			world_pass(&w, i, &addr[k]);
		}
	}
	world_expect_all(&w, CTL_READY, 20000, NULL);
	sleep_ms(1000);
	for (int i = 1; i < RANKS; i++)
		world_tell(&w, i, WIRE_RECORD, 0, NULL, 0);
	for (int i = 1; i < RANKS; i++)
		world_expect(&w, i, WIRE_RECORDED, 20000, NULL);
	world_spawn(&w, "wire-attacker", env, 240);
	addr[TARGET].type = WIRE_TARGET;
	world_pass(&w, ATTACKER, &addr[TARGET]);
	marks(&w, before);
	first_rss = before[TARGET].v[0];
	for (unsigned int p = 0; p < PHASES && !w.failed; p++) {
		if (phases[p].run == attack_forge) {
			for (int i = 0; i < RANKS; i++)
				world_tell(&w, i, WIRE_GIVE_UP, 0, NULL, 0);
			sleep_ms(100);
		}
		world_tell(&w, ATTACKER, WIRE_ATTACK, (int32_t)p, NULL, 0);
		world_expect(&w, ATTACKER, WIRE_ATTACKED, 60000, c);
		sent += c[0].v[0];
		sleep_ms(200);
		marks(&w, after);
		world_check(&w, after[TARGET].v[1] > before[TARGET].v[1], "%s: traffic of ranks 0 and 1 stopped",
			    phases[p].name);
		world_check(&w, phases[p].run == attack_forge || after[TARGET].v[2] > before[TARGET].v[2],
			    "%s: traffic of ranks 0 and 2 stopped", phases[p].name);
		world_check(&w, after[1].v[2] > before[1].v[2], "%s: traffic of ranks 1 and 2 stopped", phases[p].name);
		rss = after[TARGET].v[0];
		world_check(&w, rss < first_rss + RSS_GROWTH_KIB, "%s: memory grew from %llu to %llu KiB",
			    phases[p].name, (unsigned long long)first_rss, (unsigned long long)rss);
		memcpy(before, after, sizeof(before));
	}
	for (int i = 0; i < RANKS; i++)
		world_tell(&w, i, WIRE_DROP, 0, NULL, 0);
	limit = world_agree(&w, RANKS, 20);
	world_tell(&w, ATTACKER, WIRE_ATTACK, -1, NULL, 0);
	world_expect_all(&w, CTL_DONE, 60000, c);
	world_wait(&w, 20000);
	for (size_t i = 0; i < sizeof(reasons) / sizeof(reasons[0]) && !w.failed; i++)
		world_check(&w, world_dropped(&w, TARGET, reasons[i]) > 0, "nothing was refused as \"%s\"", reasons[i]);
	world_figure(&w, "sent=%llu refused=%llu messages=%llu rss_kib=%llu..%llu close_ms=%llu",
		     (unsigned long long)sent, (unsigned long long)world_dropped(&w, TARGET, NULL),
		     (unsigned long long)limit, (unsigned long long)first_rss, (unsigned long long)rss,
		     (unsigned long long)c[TARGET].v[2]);
	return world_end(&w);
}
