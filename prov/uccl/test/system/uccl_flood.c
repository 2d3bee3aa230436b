/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What hostile datagrams from off the path do to an endpoint: one process floods the port of an endpoint with packets
 * that it makes itself, from 10,000 source addresses, while another one sends messages there whose every byte is
 * compared. All of it is on the loopback.
 *
 *   uccl_flood [OPTION...] [SHAPE...]
 *
 *   --rate N      hostile datagrams a second (100000)
 *   --rounds N    times that each shape is measured (9)
 *   --ms N        how long each measurement takes (200); there are three in a round
 *   --size BYTES  of honest messages (65536)
 *   --newcomers N honest peers that connect during the flood of each shape (6)
 *   --least PCT   goodput to be kept (0: any)
 *   --pin 1       the endpoint has a processor for itself, if the host has two
 *   --bare 1      the kernel refuses the endpoint its programs that sort packets, as in a sandbox
 *   --count N     no measurements: send N datagrams, of all these shapes by turns, and look what happened
 *   --strangers N peers without a key that connect before all else, and stay (290)
 *   SHAPE         of random short header hello closed cookie data ack init replay, or garbage, handshake, all (all);
 *                 want: each stranger asks for a receive slot every 20 ms, and never sends anything with it
 *
 * A flood takes processor time on this host wherever it goes, first of all that of who makes it. So there are three
 * measurements in a round, one after the other: alone; beside the same flood to a port of nobody, which is what the
 * machine needs for it; and under it. What counts is how much of the second the third is: the median of the rounds, as
 * others may be at work on the host. The same for each second of processor time that the endpoint had ("of its own
 * time") tells what the flood costs it where others take its processor away, too. Ends with 1 if a byte was wrong, an
 * honest operation failed, an honest peer took longer than 1 s of the endpoint's own time to connect, no message came
 * in 2 s, memory grew by more than 32 MiB (with AddressSanitizer: what its allocator has given), more bytes were
 * answered than came, or less goodput was kept than asked for.
 */
#include <errno.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/rng.h"
#include "base/units.h"
#include "flow/wire/conn.h"
#include "../unit/nic/sandbox.h"
#include "../../../../util/bench/endpoint.h"

#define SOURCES 10000
#define BATCH 32
#define BYTES_MAX 1400
#define WINDOW 16
/*
 * Honest peers alone made up to 17 MiB resident on a busy host: what the rescue thread takes while the victim has no
 * processor finds no receive, and the C library keeps those copies in an arena for that thread. (With
 * FI_UCCL_PROGRESS_TIMEOUT=0 it is 0.2 MiB in every run.) 64 bytes lost for each datagram are more.
 */
#define GROWTH_KIB (32 << 10)
/*
 * Time that the endpoint's process ran, which looks for packets all the time: beside four busy loops it has a tenth of
 * a processor, and peers took up to 2.7 s to connect.
 */
#define CONNECT_LIMIT_MS 1000
#define STALL_MS 200
#define ROUNDS_MAX 101
/* The honest peer connects, and memory gets what it needs. */
#define WARM_MS 500

static const char victim_ip[] = "127.0.0.2", honest_ip[] = "127.0.0.3", newcomer_ip[] = "127.0.0.4";

#define SHAPES(X) X(RANDOM, "random") X(SHORT, "short") X(HEADER, "header") X(HELLO, "hello") X(CLOSED, "closed") \
	X(COOKIE, "cookie") X(DATA, "data") X(ACK, "ack") X(INIT, "init") X(REPLAY, "replay") X(WANT, "want")
enum shape {
#define X(sym, text) SHAPE_##sym,
	SHAPES(X)
#undef X
	SHAPE_COUNT
};
static const char *const shape_names[] = {
#define X(sym, text) text,
	SHAPES(X)
#undef X
};
#define HANDSHAKE (1u << SHAPE_HELLO | 1u << SHAPE_CLOSED | 1u << SHAPE_INIT)
#define ALL ((1u << SHAPE_WANT) - 1)
#define STRANGERS_MAX 1000
#define WANT_HZ 50

static const struct {
	const char *name;
	unsigned int shapes;
} groups[] = { { "garbage", ALL & ~HANDSHAKE }, { "handshake", HANDSHAKE }, { "all", ALL } };

/* What the processes tell each other. */
static struct shared {
	_Atomic uint64_t bytes, messages, wrong, failed; /* honest */
	_Atomic uint64_t sent, sent_bytes, answered, answered_bytes; /* hostile */
	_Atomic uint32_t shapes;			 /* 0: the attacker rests */
	_Atomic bool aside;				 /* it sends to nobody */
	_Atomic uint64_t left;				 /* datagrams until it rests by itself */
	_Atomic bool count_answers;
	_Atomic uint64_t heap; /* bytes that the endpoint's process has from malloc, if it can tell */
	_Atomic int ready;
	_Atomic uint16_t port;
	uint8_t name[64];
	size_t name_len;
} *sh;

static struct {
	uint64_t rate, count;
	int rounds, ms, newcomers, least, pin, bare, strangers; /* strangers: only if they are to ask */
	size_t size;
} opt = { .rate = 100000, .rounds = 9, .ms = 200, .newcomers = 6, .size = 65536, .strangers = 290 };

static uint64_t clock_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * UCCL_NS_PER_S + (uint64_t)t.tv_nsec;
}

static void sleep_ms(int ms)
{
	nanosleep(&(struct timespec){ .tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L }, NULL);
}

static void need(bool right, const char *what)
{
	if (right)
		return;
	fprintf(stderr, "uccl_flood: %s (errno %d)\n", what, errno);
	exit(2);
}

/* ---- the honest */

static void side_open(struct endpoint *s, const char *ip, const char *service)
{
	struct fi_info *hints = endpoint_hints("uccl", NULL, FI_MSG);
	struct fi_cq_attr cq = { .format = FI_CQ_FORMAT_MSG };

	memset(s, 0, sizeof(*s));
	hints->tx_attr->op_flags = FI_TRANSMIT_COMPLETE;
	check("fi_getinfo", endpoint_find(s, hints, ip, service));
	endpoint_open(s, &cq);
}

/* A completion, or what failed: its context. NULL: nothing yet. */
static void *completion(struct endpoint *s, size_t *len)
{
	struct fi_cq_err_entry err = { 0 };
	struct fi_cq_msg_entry e;
	ssize_t n = fi_cq_read(s->cq, &e, 1);

	if (n == -FI_EAVAIL && fi_cq_readerr(s->cq, &err, 0) == 1) {
		sh->failed++;
		*len = 0;
		return err.op_context;
	}
	*len = n == 1 ? e.len : 0;
	return n == 1 ? e.op_context : NULL;
}

struct buffer {
	struct fi_context2 context;
	uint64_t *words;
};

/* Message n: its number, then words that follow from it. */
static void message_fill(uint64_t *w, size_t bytes, uint64_t n)
{
	for (size_t i = 0; i < bytes / 8; i++)
		w[i] = i ? (n + i) * 0x9e3779b97f4a7c15 : n;
}

static bool message_right(const uint64_t *w, size_t bytes)
{
	for (size_t i = 1; i < bytes / 8; i++)
		if (w[i] != (w[0] + i) * 0x9e3779b97f4a7c15)
			return false;
	return true;
}

static void buffers_make(struct buffer *b)
{
	for (int i = 0; i < WINDOW; i++)
		need((b[i].words = calloc(1, opt.size)), "no memory");
}

#ifdef __SANITIZE_ADDRESS__
/* sanitizer/allocator_interface.h, which gcc does not install. */
size_t __sanitizer_get_current_allocated_bytes(void);
#endif

/*
 * AddressSanitizer keeps what was given back for some hundred MiB, to see who still uses it. So with it the memory of a
 * process says nothing of what it needs, and what its allocator counts does.
 */
static void heap_tell(void)
{
#ifdef __SANITIZE_ADDRESS__
	sh->heap = __sanitizer_get_current_allocated_bytes();
#endif
}

static void victim_main(void)
{
	static struct buffer b[WINDOW];
	uint64_t rounds = 0;
	struct endpoint s;
	size_t len;

	buffers_make(b);
	/* A port by which one can ask for it: it takes peers without a key. */
	for (int port = 20000 + (int)(getpid() % 20000);; port++) {
		struct sockaddr_in at = { .sin_family = AF_INET, .sin_port = htons((uint16_t)port) };
		int fd = socket(AF_INET, SOCK_DGRAM, 0);
		char text[12];
		bool taken;

		at.sin_addr.s_addr = htonl(INADDR_LOOPBACK + 1);
		taken = bind(fd, (struct sockaddr *)&at, sizeof(at));
		close(fd);
		if (taken)
			continue;
		snprintf(text, sizeof(text), "%d", port);
		side_open(&s, victim_ip, text);
		sh->port = (uint16_t)port;
		break;
	}
	sh->name_len = sizeof(sh->name);
	need(!fi_getname(&s.ep->fid, sh->name, &sh->name_len), "fi_getname");
	for (int i = 0; i < WINDOW; i++)
		need(!fi_recv(s.ep, b[i].words, opt.size, NULL, FI_ADDR_UNSPEC, &b[i]), "fi_recv");
	heap_tell();
	sh->ready++;
	for (;;) {
		struct buffer *done = completion(&s, &len);

		if (!(++rounds % 1024))
			heap_tell();
		if (!done) {
			sched_yield();
			continue;
		}
		sh->wrong += !message_right(done->words, len);
		sh->bytes += len;
		sh->messages++;
		while (fi_recv(s.ep, done->words, opt.size, NULL, FI_ADDR_UNSPEC, done) == -FI_EAGAIN)
			fi_cq_read(s.cq, NULL, 0);
	}
}

static fi_addr_t victim_insert(struct endpoint *s, bool keyless)
{
	fi_addr_t to = FI_ADDR_NOTAVAIL;
	char service[8];

	snprintf(service, sizeof(service), "%u", sh->port);
	if (keyless)
		need(fi_av_insertsvc(s->av, victim_ip, service, &to, 0, NULL) == 1, "fi_av_insertsvc");
	else
		need(fi_av_insert(s->av, sh->name, 1, &to, 0, NULL) == 1, "fi_av_insert");
	return to;
}

static void honest_main(void)
{
	static struct buffer b[WINDOW];
	struct endpoint s;
	uint64_t n = 0;
	fi_addr_t to;
	size_t len;

	buffers_make(b);
	side_open(&s, honest_ip, NULL);
	to = victim_insert(&s, false);
	sh->ready++;
	for (int i = 0;; i++) {
		struct buffer *next = i < WINDOW ? &b[i] : completion(&s, &len);

		if (!next) {
			sched_yield();
			continue;
		}
		message_fill(next->words, opt.size, n++);
		while (fi_send(s.ep, next->words, opt.size, NULL, to, next) == -FI_EAGAIN)
			fi_cq_read(s.cq, NULL, 0);
	}
}

/* A peer that connects now, by a message: how long it takes, in ms. */
static int newcomer_main(bool keyless)
{
	static struct buffer b;
	struct endpoint s;
	uint64_t began, took;
	fi_addr_t to;
	size_t len;

	need((b.words = calloc(1, 64)), "no memory");
	side_open(&s, newcomer_ip, NULL);
	to = victim_insert(&s, keyless);
	message_fill(b.words, 64, 1);
	began = clock_ns();
	need(!fi_send(s.ep, b.words, 64, NULL, to, &b), "fi_send");
	do {
		took = (clock_ns() - began) / UCCL_NS_PER_MS;
	} while (!completion(&s, &len) && took < 30000 && !sched_yield());
	fi_close(&s.ep->fid);
	return (int)took;
}

/* ---- the hostile */

struct attacker {
	struct uccl_rng rng;
	int fd, fd_port;
	struct sockaddr_in to, aside;
	uint64_t incarnation; /* the victim's, as whoever asks is told */
	uint8_t init[UCCL_HDR_LEN + UCCL_INIT_PAYLOAD]; /* of a genuine handshake, */
	uint64_t token;					/* and what it was given */
	struct stranger {
		uint32_t ip;
		uint64_t token;
		uint32_t pseq;
	} strangers[STRANGERS_MAX];
	unsigned int nstrangers, next;
	uint8_t packet[BATCH][BYTES_MAX];
	struct iovec iov[BATCH];
	struct mmsghdr msg[BATCH];
	_Alignas(size_t) uint8_t control[BATCH][CMSG_SPACE(sizeof(struct in_pktinfo))];
};

static uint64_t any(struct attacker *a)
{
	return uccl_rng_next(&a->rng);
}

static void any_bytes(struct attacker *a, uint8_t *p, size_t len)
{
	for (size_t i = 0; i < len; i++)
		p[i] = (uint8_t)any(a);
}

static size_t packet_make(uint8_t *p, uint8_t type, uint64_t token, const uint8_t *rec, size_t payload, size_t tail)
{
	struct uccl_hdr h = { .type = type, .token = token, .rec = rec, .pseq = 1,
			      .payload_len = (uint16_t)payload, .tail_len = (uint16_t)tail };

	uccl_hdr_encode(p, &h);
	return UCCL_HDR_LEN + payload + tail;
}

static size_t hello_make(struct attacker *a, uint8_t *p, uint16_t port)
{
	uint8_t rec[UCCL_REC_LEN] = { 0 };

	uccl_put64(rec, any(a));
	uccl_put64(rec + 8, any(a) | 1);
	uccl_put16(rec + 24, port);
	return packet_make(p, UCCL_PKT_HELLO, any(a) | 1, rec, 0, 0);
}

static size_t want_make(struct stranger *s, uint8_t *p)
{
	struct uccl_hdr h = { .type = UCCL_PKT_PROBE, .flags = UCCL_FLAG_AR | UCCL_FLAG_WANT, .token = s->token,
			      .pseq = ++s->pseq, .ts = uccl_ts(clock_ns()) };

	uccl_hdr_encode(p, &h);
	return UCCL_HDR_LEN;
}

static size_t shape_make(struct attacker *a, enum shape shape, uint8_t *p)
{
	static const uint8_t answers[] = { UCCL_PKT_COOKIE, UCCL_PKT_INIT_ACK, UCCL_PKT_ELSEWHERE };
	static const uint8_t control[] = { UCCL_PKT_ACK, UCCL_PKT_PROBE, UCCL_PKT_CREDIT, UCCL_PKT_DEMAND,
					   UCCL_PKT_CLOSE, UCCL_PKT_CLOSE_ACK };
	uint8_t rec[UCCL_REC_LEN], type;
	size_t len;

	any_bytes(a, rec, sizeof(rec));
	switch (shape) {
	case SHAPE_RANDOM:
		len = any(a) % BYTES_MAX;
		any_bytes(a, p, uccl_min(len, 80));
		return len;
	case SHAPE_SHORT:
		packet_make(p, UCCL_PKT_CHUNK, any(a), rec, 0, 0);
		return any(a) % UCCL_HDR_LEN;
	case SHAPE_HEADER:
		len = UCCL_HDR_LEN + any(a) % (BYTES_MAX - UCCL_HDR_LEN);
		any_bytes(a, p, UCCL_HDR_LEN);
		uccl_put16(p, UCCL_MAGIC);
		p[2] = UCCL_VERSION;
		p[3] %= 2 * UCCL_PKT_SEGMENT;
		return len;
	case SHAPE_HELLO:
		return hello_make(a, p, (uint16_t)a->fd_port);
	case SHAPE_CLOSED:
		return hello_make(a, p, 9);
	case SHAPE_COOKIE:
		type = answers[any(a) % sizeof(answers)];
		return packet_make(p, type, any(a), rec, type == UCCL_PKT_INIT_ACK ? UCCL_INIT_PAYLOAD : 0, 0);
	case SHAPE_DATA:
		return packet_make(p, UCCL_PKT_CHUNK, any(a), rec, any(a) % (BYTES_MAX - UCCL_HDR_LEN), 0);
	case SHAPE_ACK:
		type = control[any(a) % sizeof(control)];
		memset(p + UCCL_HDR_LEN, 0, UCCL_ACK_FIXED);
		return packet_make(p, type, any(a), rec, 0, type == UCCL_PKT_ACK ? UCCL_ACK_FIXED : 0);
	case SHAPE_INIT:
		/* All is right but the cookie, the source and the code. */
		memcpy(p, a->init, sizeof(a->init));
		uccl_put64(p + 32, any(a));
		any_bytes(a, p + 48 + (any(a) & 1) * 8, 8);
		return sizeof(a->init);
	case SHAPE_WANT:
		return want_make(&a->strangers[a->next], p);
	case SHAPE_REPLAY:
	default:
		if (any(a) & 1) {
			memcpy(p, a->init, sizeof(a->init));
			if (any(a) & 1)
				p[any(a) % sizeof(a->init)] ^= (uint8_t)(1 + any(a) % 255);
			return sizeof(a->init);
		}
		len = any(a) % 256;
		any_bytes(a, p + UCCL_HDR_LEN, len);
		return packet_make(p, UCCL_PKT_CHUNK, a->token, rec, len, 0);
	}
}

/*
 * Connect by hand from there, without a key; what the endpoint knows us by, and the socket. What is true then is known
 * to the attacker, too: `init`, if not NULL, becomes the packet that asked for it.
 */
static uint64_t handshake(struct attacker *a, uint32_t ip, uint8_t *init, int *kept)
{
	struct uccl_listener l = { .local.nic.ip = { [10] = 0xff, [11] = 0xff }, .local.incarnation = any(a) };
	struct uccl_conn_params mine = { .mtu = 65507, .window = 2048, .msg_limit = 64, .paths = 4, .slots = 64,
				     .waits = true };
	struct sockaddr_in at = { .sin_family = AF_INET }, to = a->to;
	struct uccl_addr peer = { .nic.ip = { [10] = 0xff, [11] = 0xff, [12] = 127, [15] = 2 }, .nic.port = sh->port };
	struct timeval wait = { .tv_usec = 50000 };
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	uint8_t in[4096], buf[UCCL_INIT_MAX];
	socklen_t len = sizeof(at);
	struct uccl_conn c;
	struct uccl_hdr h;
	struct uccl_tx tx;
	uint64_t token = 0;

	at.sin_addr.s_addr = htonl(ip);
	memcpy(l.local.nic.ip + 12, &at.sin_addr, 4);
	need(fd >= 0 && !bind(fd, (struct sockaddr *)&at, sizeof(at)) &&
	     !getsockname(fd, (struct sockaddr *)&at, &len) &&
	     !setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof(wait)), "no socket");
	l.local.nic.port = ntohs(at.sin_port);
	uccl_conn_init(&c, &peer, &mine, any(a) | 1, any(a) | 1);
	uccl_conn_start(&c, clock_ns());
	for (int tries = 0; tries < 100 && !token; tries++) {
		ssize_t n;

		c.tx_due = true;
		if (uccl_conn_tx(&c, &l, &tx, buf, clock_ns())) {
			memcpy(in, tx.hdr, UCCL_HDR_LEN);
			memcpy(in + UCCL_HDR_LEN, buf, tx.payload_len);
			if (c.state == UCCL_CONN_INIT && init)
				memcpy(init, in, sizeof(a->init));
			sendto(fd, in, UCCL_HDR_LEN + tx.payload_len, 0, (struct sockaddr *)&to, sizeof(to));
		}
		n = recv(fd, in, sizeof(in), 0);
		if (n < 0 || uccl_hdr_decode(&h, in, (uint32_t)n) != UCCL_DROP_COUNT)
			continue;
		if (h.type == UCCL_PKT_COOKIE)
			uccl_conn_cookie(&c, &h, clock_ns());
		else if (h.type == UCCL_PKT_INIT_ACK)
			token = uccl_get64(h.rec);
	}
	need(token, "the endpoint does not answer a handshake");
	*kept = fd;
	return token;
}

/* Their sockets stay open, and unread: the endpoint's host tells it of ports that are closed. */
static void strangers_connect(struct attacker *a)
{
	int fd;

	for (; a->nstrangers < (unsigned int)opt.strangers; a->nstrangers++) {
		struct stranger *s = &a->strangers[a->nstrangers];

		s->ip = 0x7f400001 + a->nstrangers;
		s->token = handshake(a, s->ip, NULL, &fd);
	}
}

/* One datagram of one of these shapes, from one of the addresses. */
static void datagram(struct attacker *a, int i, uint32_t shapes)
{
	struct msghdr *h = &a->msg[i].msg_hdr;
	struct in_pktinfo from = { 0 };
	enum shape shape;
	uint32_t source = (uint32_t)(any(a) % SOURCES);
	struct cmsghdr *c;

	do
		shape = (enum shape)(any(a) % SHAPE_COUNT);
	while (!(shapes >> shape & 1));
	a->iov[i] = (struct iovec){ a->packet[i], shape_make(a, shape, a->packet[i]) };
	*h = (struct msghdr){ .msg_name = sh->aside ? &a->aside : &a->to, .msg_namelen = sizeof(a->to),
			      .msg_iov = &a->iov[i], .msg_iovlen = 1,
			      .msg_control = a->control[i], .msg_controllen = sizeof(a->control[i]) };
	/* 127.16.0.1 and after; a replay is from where the genuine one was. */
	from.ipi_spec_dst.s_addr = htonl(shape == SHAPE_REPLAY ? 0x7f000909 : 0x7f100001 + source);
	if (shape == SHAPE_WANT) {
		from.ipi_spec_dst.s_addr = htonl(a->strangers[a->next].ip);
		a->next = (a->next + 1) % a->nstrangers;
	}
	c = CMSG_FIRSTHDR(h);
	c->cmsg_level = IPPROTO_IP;
	c->cmsg_type = IP_PKTINFO;
	c->cmsg_len = CMSG_LEN(sizeof(from));
	memcpy(CMSG_DATA(c), &from, sizeof(from));
}

static void answers_read(struct attacker *a)
{
	uint8_t buf[2048];
	ssize_t n;

	while ((n = recv(a->fd, buf, sizeof(buf), MSG_DONTWAIT)) >= 0) {
		sh->answered++;
		sh->answered_bytes += (uint64_t)n;
	}
}

static void attacker_main(void)
{
	static struct attacker a;
	struct sockaddr_in any_at = { .sin_family = AF_INET };
	socklen_t len = sizeof(any_at);
	int nobody = socket(AF_INET, SOCK_DGRAM, 0), fd;
	uint64_t began = 0, done = 0, rate;

	uccl_rng_seed(&a.rng, 1);
	a.to = a.aside = any_at;
	a.to.sin_addr.s_addr = htonl(INADDR_LOOPBACK + 1);
	a.to.sin_port = htons(sh->port);
	a.aside.sin_addr.s_addr = htonl(INADDR_LOOPBACK + 8);
	need(!bind(nobody, (struct sockaddr *)&a.aside, sizeof(a.aside)) &&
	     !getsockname(nobody, (struct sockaddr *)&a.aside, &len), "no socket of nobody");
	a.fd = socket(AF_INET, SOCK_DGRAM, 0);
	len = sizeof(any_at);
	need(a.fd >= 0 && !bind(a.fd, (struct sockaddr *)&any_at, sizeof(any_at)) &&
	     !getsockname(a.fd, (struct sockaddr *)&any_at, &len), "no socket");
	a.fd_port = ntohs(any_at.sin_port);
	a.token = handshake(&a, 0x7f000909, a.init, &fd);
	close(fd);
	strangers_connect(&a);
	sh->ready++;
	for (;;) {
		uint32_t shapes = sh->shapes;
		uint64_t due, n;

		if (sh->count_answers)
			answers_read(&a);
		if (!shapes || !sh->left) {
			began = 0;
			sleep_ms(1);
			continue;
		}
		if (!began) {
			began = clock_ns();
			done = 0;
		}
		rate = shapes == 1u << SHAPE_WANT ? (uint64_t)a.nstrangers * WANT_HZ : opt.rate;
		due = (clock_ns() - began) * rate / UCCL_NS_PER_S;
		if (due <= done) {
			usleep(200);
			continue;
		}
		/* Who could not keep up does not catch up. */
		if (due - done > rate / 50) {
			began = clock_ns();
			done = 0;
			due = 1;
		}
		n = uccl_min(uccl_min(due - done, BATCH), sh->left);
		for (int i = 0; i < (int)n; i++) {
			datagram(&a, i, shapes);
			sh->sent_bytes += a.iov[i].iov_len;
		}
		(void)sendmmsg(a.fd, a.msg, (unsigned int)n, MSG_DONTWAIT);
		done += n;
		sh->sent += n;
		sh->left -= n;
	}
}

/* ---- the measurement */

static pid_t child_start(void (*run)(void))
{
	int ready = sh->ready;
	pid_t pid = fork();
	cpu_set_t set;

	need(pid >= 0, "fork");
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		CPU_ZERO(&set);
		CPU_SET(run != victim_main, &set);
		if (opt.pin)
			need(!sched_setaffinity(0, sizeof(set), &set), "no second processor");
		run();
		_exit(0);
	}
	for (int i = 0; i < 30000 && sh->ready == ready; i++)
		sleep_ms(1);
	need(sh->ready > ready, "a process did not start");
	return pid;
}

static uint64_t memory_kib(pid_t pid)
{
	unsigned long size = 0, rss = 0;
	char name[64];
	FILE *f;

	snprintf(name, sizeof(name), "/proc/%d/statm", (int)pid);
	f = fopen(name, "re");
	need(f && fscanf(f, "%lu %lu", &size, &rss) == 2, "the endpoint's process has ended");
	fclose(f);
	if (sh->heap)
		return sh->heap / 1024;
	return rss * ((uint64_t)sysconf(_SC_PAGESIZE) / 1024);
}

/* Processor time of a process so far, s. */
static double cpu_s(pid_t pid)
{
	struct timespec t;
	clockid_t clock;

	need(!clock_getcpuclockid(pid, &clock) && !clock_gettime(clock, &t), "the endpoint's process has ended");
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double median(double *v, int n)
{
	qsort(v, (size_t)n, sizeof(*v), by_value);
	return v[n / 2];
}

/* Honest MB/s while this flood goes there, or aside; no shapes: alone. *work: the same by the endpoint's own clock. */
static double goodput(uint32_t shapes, bool aside, pid_t victim, double *work, uint64_t *rate)
{
	uint64_t began, bytes, sent;
	double s, cpu;

	sh->aside = aside;
	sh->left = UINT64_MAX;
	sh->shapes = shapes;
	sleep_ms(opt.ms / 5);
	began = clock_ns();
	cpu = cpu_s(victim);
	bytes = sh->bytes;
	sent = sh->sent;
	sleep_ms(opt.ms);
	s = (double)(clock_ns() - began) / 1e9;
	bytes = sh->bytes - bytes;
	cpu = cpu_s(victim) - cpu;
	*work = cpu > 0 ? (double)bytes / 1e6 / cpu : 0;
	*rate = (uint64_t)((double)(sh->sent - sent) / s);
	sh->shapes = 0;
	return (double)bytes / 1e6 / s;
}

/* How long honest peers need to connect during a flood; every second one has no key. */
struct connects {
	int mean, worst; /* ms */
	int own;	 /* the most that the endpoint ran meanwhile, ms */
};

static struct connects newcomers(uint32_t shapes, pid_t victim)
{
	struct connects c = { 0 };
	int sum = 0;

	sh->aside = false;
	sh->left = UINT64_MAX;
	sh->shapes = shapes;
	for (int i = 0; i < opt.newcomers; i++) {
		int up[2], took = 30000;
		double cpu = cpu_s(victim);
		pid_t pid;

		need(!pipe(up), "pipe");
		pid = fork();
		if (!pid) {
			took = newcomer_main(i & 1);
			_exit(write(up[1], &took, sizeof(took)) != sizeof(took));
		}
		close(up[1]);
		need(read(up[0], &took, sizeof(took)) == sizeof(took), "a newcomer ended");
		close(up[0]);
		waitpid(pid, NULL, 0);
		c.worst = uccl_max(c.worst, took);
		c.own = uccl_max(c.own, (int)(1000 * (cpu_s(victim) - cpu)));
		sum += took;
	}
	sh->shapes = 0;
	c.mean = opt.newcomers ? sum / opt.newcomers : 0;
	return c;
}

static bool measure(const char *name, uint32_t shapes, pid_t victim)
{
	double alone[ROUNDS_MAX], aside[ROUNDS_MAX], flood[ROUNDS_MAX], part[ROUNDS_MAX], kept;
	double work[3], own[ROUNDS_MAX];
	uint64_t rate = 0, before = memory_kib(victim), grown;
	struct connects c;

	for (int i = 0; i < opt.rounds; i++) {
		alone[i] = goodput(0, true, victim, &work[0], &rate);
		aside[i] = goodput(shapes, true, victim, &work[1], &rate);
		flood[i] = goodput(shapes, false, victim, &work[2], &rate);
		part[i] = aside[i] > 0 ? 100 * flood[i] / aside[i] : 0;
		own[i] = work[1] > 0 ? 100 * work[2] / work[1] : 0;
	}
	kept = median(part, opt.rounds);
	c = newcomers(shapes, victim);
	grown = memory_kib(victim);
	grown = grown > before ? grown - before : 0;
	printf("%-10s %7" PRIu64 "/s  alone %7.1f MB/s, beside %7.1f, under %7.1f: %5.1f %%, of its own time %5.1f %%"
	       "  connect %d ms, worst %d (%d of its own)  memory +%" PRIu64 " KiB\n", name, rate,
	       median(alone, opt.rounds), median(aside, opt.rounds), median(flood, opt.rounds), kept,
	       median(own, opt.rounds), c.mean, c.worst, c.own, grown);
	fflush(stdout);
	return kept >= opt.least && c.own <= CONNECT_LIMIT_MS && grown <= GROWTH_KIB;
}

static bool campaign(uint32_t shapes, pid_t victim)
{
	uint64_t before = memory_kib(victim), messages = sh->messages, sent = sh->sent, bytes = sh->sent_bytes;
	uint64_t last, grown;
	double cpu = cpu_s(victim), ran;
	struct connects c;
	bool stalled = false;

	sh->count_answers = true;
	sh->left = opt.count;
	sh->shapes = shapes;
	while (sh->left) {
		last = sh->messages;
		ran = cpu_s(victim);
		sleep_ms(2000);
		stalled |= sh->messages == last && cpu_s(victim) - ran > STALL_MS / 1e3;
	}
	sh->shapes = 0;
	sleep_ms(200);
	sent = sh->sent - sent;
	bytes = sh->sent_bytes - bytes;
	grown = memory_kib(victim);
	grown = grown > before ? grown - before : 0;
	printf("%" PRIu64 " datagrams, %" PRIu64 " bytes; answered %" PRIu64 ", %" PRIu64 " bytes; %" PRIu64
	       " honest messages%s; memory +%" PRIu64 " KiB; processor %.1f s\n", sent, bytes, (uint64_t)sh->answered,
	       (uint64_t)sh->answered_bytes, sh->messages - messages, stalled ? ", which once stood still for 2 s" : "",
	       grown, cpu_s(victim) - cpu);
	c = newcomers(shapes, victim);
	printf("connect %d ms, worst %d; of the endpoint's own time at most %d\n", c.mean, c.worst, c.own);
	return !stalled && sh->answered_bytes <= bytes && grown <= GROWTH_KIB && c.own <= CONNECT_LIMIT_MS;
}

static uint32_t shape_find(const char *name)
{
	for (size_t i = 0; i < sizeof(groups) / sizeof(groups[0]); i++)
		if (!strcmp(name, groups[i].name))
			return groups[i].shapes;
	for (int i = 0; i < SHAPE_COUNT; i++)
		if (!strcmp(name, shape_names[i]))
			return 1u << i;
	fprintf(stderr, "uccl_flood: no shape \"%s\"\n", name);
	exit(2);
}

int main(int argc, char **argv)
{
	static char *const every[] = { "garbage", "hello", "closed", "init", "all" };
	uint32_t shapes = 0;
	pid_t victim, honest, attacker;
	bool right = true;
	int first = 1;

	for (; first < argc && !strncmp(argv[first], "--", 2); first += 2) {
		long long v = first + 1 < argc ? atoll(argv[first + 1]) : -1;

		need(v >= 0, "usage: see the beginning of uccl_flood.c");
		if (!strcmp(argv[first], "--rate"))
			opt.rate = (uint64_t)uccl_max(v, 100);
		else if (!strcmp(argv[first], "--rounds"))
			opt.rounds = (int)uccl_min(uccl_max(v, 1), ROUNDS_MAX);
		else if (!strcmp(argv[first], "--ms"))
			opt.ms = (int)uccl_max(v, 10);
		else if (!strcmp(argv[first], "--size"))
			opt.size = (size_t)uccl_max(v, 64) & ~(size_t)7;
		else if (!strcmp(argv[first], "--newcomers"))
			opt.newcomers = (int)v;
		else if (!strcmp(argv[first], "--least"))
			opt.least = (int)v;
		else if (!strcmp(argv[first], "--pin"))
			opt.pin = (int)v;
		else if (!strcmp(argv[first], "--bare"))
			opt.bare = (int)v;
		else if (!strcmp(argv[first], "--strangers"))
			opt.strangers = (int)uccl_min(v, STRANGERS_MAX);
		else if (!strcmp(argv[first], "--count"))
			opt.count = (uint64_t)v;
		else
			need(false, "usage: see the beginning of uccl_flood.c");
	}
	if (opt.bare)
		need(sandbox_refuse(SO_ATTACH_FILTER) && sandbox_refuse(SO_ATTACH_REUSEPORT_CBPF), "no seccomp");
	sh = mmap(NULL, sizeof(*sh), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	need(sh != MAP_FAILED, "no memory");
	for (int i = first; i < argc; i++)
		shapes |= shape_find(argv[i]);
	if (!(shapes >> SHAPE_WANT & 1))
		opt.strangers = 0;
	else
		need(opt.strangers, "nobody to ask: --strangers");
	victim = child_start(victim_main);
	honest = child_start(honest_main);
	attacker = child_start(attacker_main);
	sleep_ms(WARM_MS);
	if (opt.count)
		right = campaign(shapes ? shapes : ALL, victim);
	else if (shapes)
		for (int i = first; i < argc; i++)
			right &= measure(argv[i], shape_find(argv[i]), victim);
	else
		for (size_t i = 0; i < sizeof(every) / sizeof(every[0]); i++)
			right &= measure(every[i], shape_find(every[i]), victim);
	right &= !sh->wrong && !sh->failed && !waitpid(victim, NULL, WNOHANG);
	printf("%" PRIu64 " honest messages, %" PRIu64 " wrong, %" PRIu64 " failed%s\n", (uint64_t)sh->messages,
	       (uint64_t)sh->wrong, (uint64_t)sh->failed, right ? "" : ": NOT AS IT SHOULD BE");
	kill(victim, SIGKILL);
	kill(honest, SIGKILL);
	kill(attacker, SIGKILL);
	return !right;
}
