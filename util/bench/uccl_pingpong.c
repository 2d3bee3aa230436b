/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * A small benchmark of messages between two libfabric RDM endpoints (tagged), or over plain TCP sockets. Without a
 * host it is the server; with one, the client, which prints a line for each size and test:
 *
 *	result provider=uccl test=lat size=8 usec=4.210 mbs=1.9 mps=237529 iters=20000 mss=1448
 *
 * lat: ping-pong, time of one transfer. bw: a window of messages, then one answer. stream: a window of messages is
 * always under way, so a long network never runs empty. mss: what a segment of TCP between the two may hold, which
 * tells the MTU. Every size is first sent once with known contents in both directions and compared. Addresses, the
 * number of rounds and the end of each test travel over a TCP connection; its local address also says which interface
 * the endpoint is to use.
 */
#include "../tool/tool.h"
#include "uccl_pingpong.h"

#include <errno.h>
#include <getopt.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "random_seed.h"
#include "sizes.h"

#define WINDOW_MIN 4
#define POOL_BYTES (64ul << 20)
#define WARMUP 20
#define ITERS_MIN 8
#define ITERS_MAX 200000
#define CACHE_LINE 64

double now_s(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec * 1e-9;
}

/* What one segment of TCP holds, bytes. */
static int mss(const struct bench *b)
{
	socklen_t len = sizeof(int);
	int bytes = 0;

	if (getsockopt(b->oob.fd, IPPROTO_TCP, TCP_MAXSEG, &bytes, &len))
		die("TCP_MAXSEG: %s", strerror(errno));
	return bytes;
}

static void progress(void *arg)
{
	struct bench *b = arg;

	if (b->open)
		b->transport->progress(b);
}

static uint8_t pattern(size_t i, uint64_t seed)
{
	uint64_t x = (i + 1) * 0x9e3779b97f4a7c15ull ^ seed * 0xbf58476d1ce4e5b9ull;

	return (uint8_t)(x >> 32 ^ x >> 56);
}

static void verify_send(struct bench *b, size_t size, uint64_t seed)
{
	size_t i;

	for (i = 0; i < size; i++)
		b->tx[0].buf[i] = (char)pattern(i, seed);
	b->transport->send(b, &b->tx[0], b->tx[0].buf, size, b->tag);
	b->transport->wait(b, &b->tx[0]);
}

static void verify_recv(struct bench *b, size_t size, uint64_t seed)
{
	char *buf = b->rx[0].buf;
	size_t i;

	memset(buf, 0, size);
	b->transport->recv(b, &b->rx[0], buf, size, b->tag);
	b->transport->wait(b, &b->rx[0]);
	for (i = 0; i < size; i++)
		if ((uint8_t)buf[i] != pattern(i, seed))
			die("size %zu: byte %zu is %02x, not %02x", size, i, (uint8_t)buf[i], pattern(i, seed));
}

static void test_verify(struct bench *b, size_t size)
{
	b->tag++;
	if (b->client) {
		verify_send(b, size, size + 1);
		verify_recv(b, size, size + 2);
	} else {
		verify_recv(b, size, size + 1);
		verify_send(b, size, size + 2);
	}
	oob_barrier(&b->oob);
}

/* What a program does with a message at least, so that it shows where in the machine the payload is. */
static void message_read(const struct bench *b, const char *buf, size_t size)
{
	const volatile char *at = buf;

	if (b->reads)
		for (size_t i = 0; i < size; i += CACHE_LINE)
			(void)at[i];
}

static void lat_rounds(struct bench *b, size_t size, uint64_t iters)
{
	struct slot *s = &b->tx[0], *r = &b->rx[0];
	uint64_t k;

	b->tag++;
	b->transport->recv(b, r, r->buf, size, b->tag);
	for (k = 0; k < iters; k++) {
		if (b->client)
			b->transport->send(b, s, s->buf, size, b->tag);
		b->transport->wait(b, r);
		message_read(b, r->buf, size);
		if (k + 1 < iters)
			b->transport->recv(b, r, r->buf, size, b->tag);
		if (!b->client)
			b->transport->send(b, s, s->buf, size, b->tag);
		b->transport->wait(b, s);
	}
}

/* iters counts windows. */
static void bw_rounds(struct bench *b, size_t size, int window, uint64_t iters)
{
	uint64_t k;
	int i;

	b->tag += 2;
	if (!b->client)
		for (i = 0; i < window; i++)
			b->transport->recv(b, &b->rx[i], b->rx[i].buf, size, b->tag);
	oob_barrier(&b->oob);
	for (k = 0; k < iters; k++) {
		if (b->client) {
			b->transport->recv(b, &b->ack, b->ack_buf, sizeof(b->ack_buf), b->tag + 1);
			for (i = 0; i < window; i++)
				b->transport->send(b, &b->tx[i], b->tx[i].buf, size, b->tag);
			for (i = 0; i < window; i++)
				b->transport->wait(b, &b->tx[i]);
			b->transport->wait(b, &b->ack);
			continue;
		}
		/* The next window's receives are posted as buffers fall free, so that the answer finds them all. */
		for (i = 0; i < window; i++) {
			b->transport->wait(b, &b->rx[i]);
			message_read(b, b->rx[i].buf, size);
			if (k + 1 < iters)
				b->transport->recv(b, &b->rx[i], b->rx[i].buf, size, b->tag);
		}
		b->transport->send(b, &b->ack, b->ack_buf, sizeof(b->ack_buf), b->tag + 1);
		b->transport->wait(b, &b->ack);
	}
}

static int window_of(const struct bench *b, size_t size)
{
	size_t room = POOL_BYTES / (size ? size : 1);
	int window = room > WINDOW_MAX ? WINDOW_MAX : room < WINDOW_MIN ? WINDOW_MIN : (int)room;

	return b->window && b->window < window ? b->window : window;
}

/* half_mbs: of the second half of the time alone, when a transport has found its rate; 0: not asked. */
static void result(const struct bench *b, const char *test, size_t size, uint64_t messages, double t, double half_mbs)
{
	printf("result provider=%s test=%s size=%zu usec=%.3f mbs=%.1f mps=%.0f iters=%llu mss=%d", b->provider, test,
	       size, t * 1e6 / (double)messages, (double)(size * messages) / t / 1e6, (double)messages / t,
	       (unsigned long long)messages, mss(b));
	if (half_mbs > 0)
		printf(" second_half_mbs=%.1f", half_mbs);
	printf("\n");
	fflush(stdout);
}

/*
 * The client sends until its time is up and all of it was acknowledged, which ends the measurement. It says how many
 * these were, and sends one window more: so many receives the server has left.
 */
static void stream_send(struct bench *b, size_t size, int window)
{
	double began = now_s(), t, half_t = 0;
	uint64_t sent = 0, at, half_at = 0;

	for (at = 0; (t = now_s() - began) < b->seconds; at++) {
		struct slot *s = &b->tx[at % (uint64_t)window];

		if (!half_t && at >= (uint64_t)window && t >= b->seconds / 2) {
			half_t = t;
			half_at = at - (uint64_t)window;
		}
		if (at >= (uint64_t)window)
			b->transport->wait(b, s);
		b->transport->send(b, s, s->buf, size, b->tag);
		sent++;
	}
	for (at = 0; at < (uint64_t)window && at < sent; at++)
		b->transport->wait(b, &b->tx[at]);
	t = now_s() - began;
	oob_send(&b->oob, &sent, sizeof(sent));
	oob_barrier(&b->oob);
	for (at = 0; at < (uint64_t)window; at++)
		b->transport->send(b, &b->tx[at], b->tx[at].buf, size, b->tag);
	for (at = 0; at < (uint64_t)window; at++)
		b->transport->wait(b, &b->tx[at]);
	result(b, "stream", size, sent, t, half_t > 0 ? (double)((sent - half_at) * size) / (t - half_t) / 1e6 : 0);
}

static void stream_recv(struct bench *b, size_t size, int window)
{
	uint64_t sent = 0, got = 0, turn = 0;
	bool known = false;

	while (!known || got < sent + (uint64_t)window) {
		struct slot *s = &b->rx[got % (uint64_t)window];

		b->transport->progress(b);
		/* Receives of one tag are taken in the order of their posting. */
		if (slot_done(s)) {
			got++;
			if (!known || got <= sent)
				b->transport->recv(b, s, s->buf, size, b->tag);
			else
				slot_set(s, false);
		} else if (!known && (b->events || ++turn % 64 == 0) && oob_ready(&b->oob, &sent, sizeof(sent))) {
			known = true;
			oob_barrier(&b->oob);
		}
	}
}

static void measure_stream(struct bench *b, size_t size)
{
	int i, window = window_of(b, size);

	b->tag++;
	if (!b->client)
		for (i = 0; i < window; i++)
			b->transport->recv(b, &b->rx[i], b->rx[i].buf, size, b->tag);
	oob_barrier(&b->oob);
	if (b->client)
		stream_send(b, size, window);
	else
		stream_recv(b, size, window);
	oob_barrier(&b->oob);
}

static void rounds_run(struct bench *b, bool lat, size_t size, int window, uint64_t iters)
{
	if (lat)
		lat_rounds(b, size, iters);
	else
		bw_rounds(b, size, window, iters);
}

/* The client times a warm-up and says how many rounds fill the time asked for. */
static void measure(struct bench *b, bool lat, size_t size)
{
	int window = lat ? 1 : window_of(b, size);
	uint64_t iters, messages, warmup = b->window ? 1 : lat ? WARMUP : 2, least = b->window ? 1 : ITERS_MIN;
	double t;

	t = now_s();
	rounds_run(b, lat, size, window, warmup);
	t = (now_s() - t) / (double)warmup;
	if (b->client) {
		double n = b->seconds / (t > 1e-7 ? t : 1e-7);

		iters = n < least ? least : n > ITERS_MAX ? ITERS_MAX : (uint64_t)n;
		oob_send(&b->oob, &iters, sizeof(iters));
	} else {
		oob_recv(&b->oob, &iters, sizeof(iters));
		if (iters > ITERS_MAX)
			die("the other side is not ours");
	}
	t = now_s();
	rounds_run(b, lat, size, window, iters);
	t = now_s() - t;
	oob_barrier(&b->oob);
	if (!b->client)
		return;
	messages = lat ? 2 * iters : (uint64_t)window * iters;
	result(b, lat ? "lat" : "bw", size, messages, t, 0);
}

/* ---- set-up */

static void pool_make(struct bench *b)
{
	size_t i, each = b->size_max ? b->size_max : 1;
	size_t window = POOL_BYTES / each;

	window = window > WINDOW_MAX ? WINDOW_MAX : window < WINDOW_MIN ? WINDOW_MIN : window;
	b->pool = calloc(2 * WINDOW_MAX, each);
	if (!b->pool)
		die("out of memory");
	/* calloc gives untouched pages: buffers beyond the window of a large size cost nothing. */
	for (i = 0; i < WINDOW_MAX; i++) {
		b->tx[i].buf = b->pool + i * each;
		b->rx[i].buf = b->pool + (WINDOW_MAX + i) * each;
	}
	for (i = 0; i < window; i++)
		memset(b->tx[i].buf, (int)i, each);
}

static void usage(void)
{
	puts("usage: uccl_pingpong [-p PROVIDER] [-P PORT] [-s SIZE,...] [-t SECONDS] [-m lat|bw|both|stream]\n"
	     "                     [-w WINDOW] [-T LIMIT] [-R SEED] [-e] [-r] [-6] [HOST]\n"
	     "       uccl_pingpong --help | --version\n"
	     "  Server without HOST, client with it; both need the same -p, -s, -m, -w and -6.\n"
	     "  -p  provider, for example uccl, tcp, 'tcp;ofi_rxm' (uccl); sockets: plain TCP, one connection;\n"
	     "      sockets:N: N connections (1 to 16), each with threads that send and receive\n"
	     "  -P  TCP port over which both sides talk beside the endpoint (47592)\n"
	     "  -s  message sizes, bytes, k and m known (8,64,1k,8k,64k,256k,1m,4m)\n"
	     "  -t  seconds of one measurement (0.3)\n"
	     "  -m  what to measure (both: lat and bw)\n"
	     "  -w  at most so many messages before an answer in bw, and one window to warm up, for slow networks;\n"
	     "      in lat one round to warm up; in stream so many under way\n"
	     "  -T  the whole run ends by SIGALRM after so many seconds (600)\n"
	     "  -R  random numbers of both sides follow from this, so that a run can be had again; not for secrets\n"
	     "  -e  sleep until something happens, instead of polling (providers only)\n"
	     "  -r  in lat and bw: read what has come, each line of the cache, before going on, as a program would\n"
	     "  -6  by IPv6");
}

int main(int argc, char **argv)
{
	static const struct option longs[] = {{"help", no_argument, NULL, 'h'}, {0}};
	static struct bench b = {.provider = "uccl", .port = "47592", .seconds = 0.3, .lat = true, .bw = true};
	char sizes[] = "8,64,1k,8k,64k,256k,1m,4m";
	unsigned int limit = 600;
	const char *seed = NULL;
	int c, i;

	tool_begin("uccl_pingpong", argc, argv);
	b.nsizes = sizes_parse(sizes, b.size, SIZES_MAX);
	while ((c = getopt_long(argc, argv, "6erp:P:s:t:m:w:T:R:h", longs, NULL)) != -1) {
		switch (c) {
		case '6':
			b.v6 = true;
			break;
		case 'e':
			b.events = true;
			break;
		case 'r':
			b.reads = true;
			break;
		case 'p':
			b.provider = optarg;
			break;
		case 'P':
			b.port = optarg;
			break;
		case 's':
			b.nsizes = sizes_parse(optarg, b.size, SIZES_MAX);
			break;
		case 't':
			b.seconds = atof(optarg);
			break;
		case 'm':
			b.stream = !strcmp(optarg, "stream");
			b.lat = !b.stream && strcmp(optarg, "bw");
			b.bw = !b.stream && strcmp(optarg, "lat");
			break;
		case 'w':
			b.window = atoi(optarg);
			break;
		case 'T':
			limit = (unsigned int)atoi(optarg);
			break;
		case 'R':
			seed = optarg;
			break;
		default:
			usage();
			return c == 'h' ? 0 : 2;
		}
	}
	b.host = optind < argc ? argv[optind] : NULL;
	b.client = b.host;
	/* Of two sides with the same numbers one would take the other for itself. */
	if (seed)
		random_seed(strtoull(seed, NULL, 0) * 2 + b.client);
	for (i = 0; i < b.nsizes; i++)
		b.size_max = b.size[i] > b.size_max ? b.size[i] : b.size_max;
	b.transport = sockets_named(b.provider) ? &transport_sockets : &transport_fabric;
	alarm(limit);
	/* Before either side needs the other, or one may say only that the other is gone. */
	if (b.transport == &transport_sockets)
		sockets_check(&b);

	pool_make(&b);
	b.oob = (struct oob){.progress = progress, .arg = &b};
	oob_open(&b.oob, b.host, b.port, b.v6);
	b.transport->open(&b);
	for (i = 0; i < b.nsizes; i++) {
		test_verify(&b, b.size[i]);
		if (b.lat)
			measure(&b, true, b.size[i]);
		if (b.bw)
			measure(&b, false, b.size[i]);
		if (b.stream)
			measure_stream(&b, b.size[i]);
	}
	oob_barrier(&b.oob);
	b.open = false;
	b.transport->close(&b);
	close(b.oob.fd);
	free(b.pool);
	return 0;
}
