/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * A small benchmark of tagged messages between two libfabric RDM endpoints. Without a host it is the server; with
 * one, the client, which prints a line for each size and test:
 *
 *	result provider=uccl test=lat size=8 usec=4.210 mbs=1.9 mps=237529 iters=20000
 *
 * lat: ping-pong, time of one transfer. bw: a window of messages, then one answer. stream: a window of messages is
 * always under way, so a long network never runs empty. Every size is first sent once with known contents in both
 * directions and compared. Addresses, the number of rounds and the end of each test
 * travel over a TCP connection; its local address also says which interface the endpoint is to use.
 */
#include <errno.h>
#include <getopt.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_tagged.h>

#define WINDOW_MAX 64
#define WINDOW_MIN 4
#define POOL_BYTES (64ul << 20)
#define ADDR_MAX 256
#define SIZES_MAX 64
#define WARMUP 20
#define ITERS_MIN 8
#define ITERS_MAX 200000

/* One operation in flight; the context must be first, providers may use it. */
struct slot {
	struct fi_context2 context;
	bool done;
	char *buf;
};

struct bench {
	const char *provider;
	const char *host;
	const char *port;
	bool client, v6;
	bool lat, bw, stream;
	double seconds; /* of one measurement */
	int window;	/* of bw, as asked for; 0: by size */
	size_t size[SIZES_MAX];
	int nsizes;
	size_t size_max;

	int oob;
	struct fi_info *info;
	struct fid_fabric *fabric;
	struct fid_domain *domain;
	struct fid_av *av;
	struct fid_cq *cq;
	struct fid_ep *ep;
	fi_addr_t peer;
	uint64_t tag;
	char *pool;
	struct slot tx[WINDOW_MAX], rx[WINDOW_MAX], ack;
	char ack_buf[8];
};

static void die(const char *fmt, ...) __attribute__((noreturn, format(printf, 1, 2)));

static void die(const char *fmt, ...)
{
	va_list ap;

	fflush(stdout);
	fputs("uccl_pingpong: ", stderr);
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fputc('\n', stderr);
	exit(1);
}

static void check(const char *what, long rc)
{
	if (rc < 0)
		die("%s: %s (%ld)", what, fi_strerror((int)-rc), rc);
}

static double now_s(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec * 1e-9;
}

/* ---- completions */

static void error_report(struct bench *b)
{
	struct fi_cq_err_entry err = {0};
	char text[256] = "";
	ssize_t n = fi_cq_readerr(b->cq, &err, 0);

	if (n < 0)
		check("fi_cq_readerr", n);
	die("operation failed: %s; %s", fi_strerror(err.err),
	    fi_cq_strerror(b->cq, err.prov_errno, err.err_data, text, sizeof(text)));
}

static void progress(struct bench *b)
{
	struct fi_cq_entry entry[16];
	ssize_t i, n = fi_cq_read(b->cq, entry, 16);

	if (n == -FI_EAGAIN)
		return;
	if (n == -FI_EAVAIL)
		error_report(b);
	check("fi_cq_read", n);
	for (i = 0; i < n; i++)
		((struct slot *)entry[i].op_context)->done = true;
}

static void slot_wait(struct bench *b, struct slot *s)
{
	while (!s->done)
		progress(b);
}

static void post_send(struct bench *b, struct slot *s, const void *buf, size_t len, uint64_t tag)
{
	ssize_t rc;

	s->done = false;
	while ((rc = fi_tsend(b->ep, buf, len, NULL, b->peer, tag, s)) == -FI_EAGAIN)
		progress(b);
	check("fi_tsend", rc);
}

static void post_recv(struct bench *b, struct slot *s, void *buf, size_t len, uint64_t tag)
{
	ssize_t rc;

	s->done = false;
	while ((rc = fi_trecv(b->ep, buf, len, NULL, b->peer, tag, 0, s)) == -FI_EAGAIN)
		progress(b);
	check("fi_trecv", rc);
}

/* ---- the TCP connection beside; waiting on it must not stop the endpoint, whose peer may need an answer */

static void oob_send(struct bench *b, const void *buf, size_t len)
{
	const char *p = buf;

	while (len) {
		ssize_t n = send(b->oob, p, len, MSG_NOSIGNAL);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			die("the other side is gone: %s", strerror(errno));
		p += n;
		len -= (size_t)n;
	}
}

static void oob_recv(struct bench *b, void *buf, size_t len)
{
	char *p = buf;

	while (len) {
		ssize_t n = recv(b->oob, p, len, MSG_DONTWAIT);

		if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) {
			if (b->cq)
				progress(b);
			continue;
		}
		if (n <= 0)
			die("the other side is gone: %s", n ? strerror(errno) : "closed");
		p += n;
		len -= (size_t)n;
	}
}

static void barrier(struct bench *b)
{
	char c = 'b';

	oob_send(b, &c, 1);
	oob_recv(b, &c, 1);
}

static int oob_dial(struct addrinfo *list, double until)
{
	for (;;) {
		struct addrinfo *ai;

		for (ai = list; ai; ai = ai->ai_next) {
			int fd = socket(ai->ai_family, ai->ai_socktype, ai->ai_protocol);

			if (fd < 0)
				continue;
			if (!connect(fd, ai->ai_addr, ai->ai_addrlen))
				return fd;
			close(fd);
		}
		if (now_s() > until)
			die("cannot connect: %s", strerror(errno));
		usleep(50000);
	}
}

static int oob_accept(struct addrinfo *ai)
{
	int one = 1, fd, conn;

	fd = socket(ai->ai_family, ai->ai_socktype, ai->ai_protocol);
	if (fd < 0)
		die("socket: %s", strerror(errno));
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (bind(fd, ai->ai_addr, ai->ai_addrlen) || listen(fd, 1))
		die("cannot listen: %s", strerror(errno));
	conn = accept(fd, NULL, NULL);
	if (conn < 0)
		die("accept: %s", strerror(errno));
	close(fd);
	return conn;
}

static void oob_open(struct bench *b)
{
	struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE};
	struct addrinfo *list;
	int one = 1, rc;

	hints.ai_family = b->v6 ? AF_INET6 : AF_INET;
	rc = getaddrinfo(b->host, b->port, &hints, &list);
	if (rc)
		die("%s: %s", b->host ? b->host : "any", gai_strerror(rc));
	b->oob = b->client ? oob_dial(list, now_s() + 10) : oob_accept(list);
	setsockopt(b->oob, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	freeaddrinfo(list);
}

/* ---- the endpoint */

static void endpoint_open(struct bench *b)
{
	struct fi_info *hints = fi_allocinfo();
	struct fi_av_attr av = {0};
	struct fi_cq_attr cq = {.format = FI_CQ_FORMAT_CONTEXT, .wait_obj = FI_WAIT_NONE, .size = 1024};
	struct sockaddr_storage local;
	socklen_t len = sizeof(local);
	char node[NI_MAXHOST];

	if (!hints)
		die("out of memory");
	if (getsockname(b->oob, (struct sockaddr *)&local, &len) ||
	    getnameinfo((struct sockaddr *)&local, len, node, sizeof(node), NULL, 0, NI_NUMERICHOST))
		die("no local address");
	hints->caps = FI_MSG | FI_TAGGED;
	hints->mode = FI_CONTEXT | FI_CONTEXT2;
	hints->ep_attr->type = FI_EP_RDM;
	hints->domain_attr->threading = FI_THREAD_DOMAIN;
	hints->fabric_attr->prov_name = strdup(b->provider);
	check("fi_getinfo", fi_getinfo(FI_VERSION(1, 17), node, NULL, FI_SOURCE, hints, &b->info));
	fi_freeinfo(hints);
	check("fi_fabric", fi_fabric(b->info->fabric_attr, &b->fabric, NULL));
	check("fi_domain", fi_domain(b->fabric, b->info, &b->domain, NULL));
	av.type = b->info->domain_attr->av_type ? b->info->domain_attr->av_type : FI_AV_MAP;
	check("fi_av_open", fi_av_open(b->domain, &av, &b->av, NULL));
	check("fi_endpoint", fi_endpoint(b->domain, b->info, &b->ep, NULL));
	check("fi_cq_open", fi_cq_open(b->domain, &cq, &b->cq, NULL));
	check("bind av", fi_ep_bind(b->ep, &b->av->fid, 0));
	check("bind cq", fi_ep_bind(b->ep, &b->cq->fid, FI_TRANSMIT | FI_RECV));
	check("fi_enable", fi_enable(b->ep));
}

static void addresses_swap(struct bench *b)
{
	char mine[ADDR_MAX], theirs[ADDR_MAX];
	size_t len = sizeof(mine);
	uint32_t n;

	check("fi_getname", fi_getname(&b->ep->fid, mine, &len));
	n = (uint32_t)len;
	oob_send(b, &n, sizeof(n));
	oob_send(b, mine, len);
	oob_recv(b, &n, sizeof(n));
	if (n > sizeof(theirs))
		die("the other side's address is too long: %u", n);
	oob_recv(b, theirs, n);
	if (fi_av_insert(b->av, theirs, 1, &b->peer, 0, NULL) != 1)
		die("fi_av_insert refused the other side's address");
}

static void endpoint_close(struct bench *b)
{
	check("close ep", fi_close(&b->ep->fid));
	check("close cq", fi_close(&b->cq->fid));
	b->cq = NULL;
	check("close av", fi_close(&b->av->fid));
	check("close domain", fi_close(&b->domain->fid));
	check("close fabric", fi_close(&b->fabric->fid));
	fi_freeinfo(b->info);
}

/* ---- tests */

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
	post_send(b, &b->tx[0], b->tx[0].buf, size, b->tag);
	slot_wait(b, &b->tx[0]);
}

static void verify_recv(struct bench *b, size_t size, uint64_t seed)
{
	char *buf = b->rx[0].buf;
	size_t i;

	memset(buf, 0, size);
	post_recv(b, &b->rx[0], buf, size, b->tag);
	slot_wait(b, &b->rx[0]);
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
	barrier(b);
}

static void lat_rounds(struct bench *b, size_t size, uint64_t iters)
{
	struct slot *s = &b->tx[0], *r = &b->rx[0];
	uint64_t k;

	b->tag++;
	post_recv(b, r, r->buf, size, b->tag);
	for (k = 0; k < iters; k++) {
		if (b->client)
			post_send(b, s, s->buf, size, b->tag);
		slot_wait(b, r);
		if (k + 1 < iters)
			post_recv(b, r, r->buf, size, b->tag);
		if (!b->client)
			post_send(b, s, s->buf, size, b->tag);
		slot_wait(b, s);
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
			post_recv(b, &b->rx[i], b->rx[i].buf, size, b->tag);
	barrier(b);
	for (k = 0; k < iters; k++) {
		if (b->client) {
			post_recv(b, &b->ack, b->ack_buf, sizeof(b->ack_buf), b->tag + 1);
			for (i = 0; i < window; i++)
				post_send(b, &b->tx[i], b->tx[i].buf, size, b->tag);
			for (i = 0; i < window; i++)
				slot_wait(b, &b->tx[i]);
			slot_wait(b, &b->ack);
			continue;
		}
		/* The next window's receives are posted as buffers fall free, so that the answer finds them all. */
		for (i = 0; i < window; i++) {
			slot_wait(b, &b->rx[i]);
			if (k + 1 < iters)
				post_recv(b, &b->rx[i], b->rx[i].buf, size, b->tag);
		}
		post_send(b, &b->ack, b->ack_buf, sizeof(b->ack_buf), b->tag + 1);
		slot_wait(b, &b->ack);
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
	printf("result provider=%s test=%s size=%zu usec=%.3f mbs=%.1f mps=%.0f iters=%llu", b->provider, test, size,
	       t * 1e6 / (double)messages, (double)(size * messages) / t / 1e6, (double)messages / t,
	       (unsigned long long)messages);
	if (half_mbs > 0)
		printf(" second_half_mbs=%.1f", half_mbs);
	printf("\n");
	fflush(stdout);
}

/* What the other side has sent beside the endpoint, if it is there in whole. */
static bool oob_ready(struct bench *b, void *buf, size_t len)
{
	ssize_t n = recv(b->oob, buf, len, MSG_DONTWAIT | MSG_PEEK);

	if (n == 0 || (n < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR))
		die("the other side is gone: %s", n ? strerror(errno) : "closed");
	if (n < (ssize_t)len)
		return false;
	oob_recv(b, buf, len);
	return true;
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
			slot_wait(b, s);
		post_send(b, s, s->buf, size, b->tag);
		sent++;
	}
	for (at = 0; at < (uint64_t)window && at < sent; at++)
		slot_wait(b, &b->tx[at]);
	t = now_s() - began;
	oob_send(b, &sent, sizeof(sent));
	barrier(b);
	for (at = 0; at < (uint64_t)window; at++)
		post_send(b, &b->tx[at], b->tx[at].buf, size, b->tag);
	for (at = 0; at < (uint64_t)window; at++)
		slot_wait(b, &b->tx[at]);
	result(b, "stream", size, sent, t, half_t > 0 ? (double)((sent - half_at) * size) / (t - half_t) / 1e6 : 0);
}

static void stream_recv(struct bench *b, size_t size, int window)
{
	uint64_t sent = 0, got = 0, turn = 0;
	bool known = false;

	while (!known || got < sent + (uint64_t)window) {
		struct slot *s = &b->rx[got % (uint64_t)window];

		progress(b);
		/* Receives of one tag are taken in the order of their posting. */
		if (s->done) {
			got++;
			if (!known || got <= sent)
				post_recv(b, s, s->buf, size, b->tag);
			else
				s->done = false;
		} else if (!known && ++turn % 64 == 0 && oob_ready(b, &sent, sizeof(sent))) {
			known = true;
			barrier(b);
		}
	}
}

static void measure_stream(struct bench *b, size_t size)
{
	int i, window = window_of(b, size);

	b->tag++;
	if (!b->client)
		for (i = 0; i < window; i++)
			post_recv(b, &b->rx[i], b->rx[i].buf, size, b->tag);
	barrier(b);
	if (b->client)
		stream_send(b, size, window);
	else
		stream_recv(b, size, window);
	barrier(b);
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
	uint64_t iters, messages, warmup = lat ? WARMUP : b->window ? 1 : 2, least = lat || !b->window ? ITERS_MIN : 1;
	double t;

	t = now_s();
	rounds_run(b, lat, size, window, warmup);
	t = (now_s() - t) / (double)warmup;
	if (b->client) {
		double n = b->seconds / (t > 1e-7 ? t : 1e-7);

		iters = n < least ? least : n > ITERS_MAX ? ITERS_MAX : (uint64_t)n;
		oob_send(b, &iters, sizeof(iters));
	} else {
		oob_recv(b, &iters, sizeof(iters));
		if (iters > ITERS_MAX)
			die("the other side is not ours");
	}
	t = now_s();
	rounds_run(b, lat, size, window, iters);
	t = now_s() - t;
	barrier(b);
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

static void sizes_parse(struct bench *b, char *text)
{
	char *word;

	b->nsizes = 0;
	for (word = strtok(text, ","); word; word = strtok(NULL, ",")) {
		char *end;
		unsigned long n = strtoul(word, &end, 10);

		if (*end == 'k' || *end == 'K')
			n <<= 10, end++;
		else if (*end == 'm' || *end == 'M')
			n <<= 20, end++;
		if (end == word || *end || n > (1ul << 30) || b->nsizes == SIZES_MAX)
			die("bad size: %s", word);
		b->size[b->nsizes++] = n;
	}
}

static void usage(void)
{
	puts("usage: uccl_pingpong [-p PROVIDER] [-P PORT] [-s SIZE,...] [-t SECONDS] [-m lat|bw|both|stream]\n"
	     "                     [-w WINDOW] [-T LIMIT] [-6] [HOST]\n"
	     "  Server without HOST, client with it; both need the same -p, -s, -m, -w and -6.\n"
	     "  -p  provider, for example uccl, tcp, 'tcp;ofi_rxm' (uccl)\n"
	     "  -P  TCP port over which both sides talk beside the endpoint (47592)\n"
	     "  -s  message sizes, bytes, k and m known (8,64,1k,8k,64k,256k,1m,4m)\n"
	     "  -t  seconds of one measurement (0.3)\n"
	     "  -m  what to measure (both: lat and bw)\n"
	     "  -w  at most so many messages before an answer in bw, and one window to warm up, for slow networks;\n"
	     "      or so many under way in stream\n"
	     "  -T  the whole run ends by SIGALRM after so many seconds (600)\n"
	     "  -6  by IPv6");
}

int main(int argc, char **argv)
{
	static struct bench b = {.provider = "uccl", .port = "47592", .seconds = 0.3, .lat = true, .bw = true};
	char sizes[] = "8,64,1k,8k,64k,256k,1m,4m";
	unsigned int limit = 600;
	int c, i;

	sizes_parse(&b, sizes);
	while ((c = getopt(argc, argv, "6p:P:s:t:m:w:T:h")) != -1) {
		switch (c) {
		case '6':
			b.v6 = true;
			break;
		case 'p':
			b.provider = optarg;
			break;
		case 'P':
			b.port = optarg;
			break;
		case 's':
			sizes_parse(&b, optarg);
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
		default:
			usage();
			return c == 'h' ? 0 : 2;
		}
	}
	b.host = optind < argc ? argv[optind] : NULL;
	b.client = b.host;
	for (i = 0; i < b.nsizes; i++)
		b.size_max = b.size[i] > b.size_max ? b.size[i] : b.size_max;
	alarm(limit);

	pool_make(&b);
	oob_open(&b);
	endpoint_open(&b);
	addresses_swap(&b);
	for (i = 0; i < b.nsizes; i++) {
		test_verify(&b, b.size[i]);
		if (b.lat)
			measure(&b, true, b.size[i]);
		if (b.bw)
			measure(&b, false, b.size[i]);
		if (b.stream)
			measure_stream(&b, b.size[i]);
	}
	barrier(&b);
	endpoint_close(&b);
	close(b.oob);
	free(b.pool);
	return 0;
}
