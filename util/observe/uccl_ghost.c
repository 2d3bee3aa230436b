/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Hunt for ghost writes: bytes that a slow network brings into a buffer after its receive was completed. One side sends
 * messages one after the other; the other one checks each, fills the buffer with a pattern at once, posts it again
 * for a later message, and until then looks whether the pattern stays. Bytes that change then were written by nobody
 * who may. Meant for networks that delay, lose, double and reorder (util/roce/roce-run --netem).
 *
 *   uccl_ghost [-s BYTES] [-n MESSAGES] [-b BUFFERS] [-q MS] [-P PORT]            the receiver
 *   uccl_ghost [...] -d DOMAIN HOST                                 the sender; all else the same on both sides
 */
#include <errno.h>
#include <netdb.h>
#include <poll.h>
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

#define PORT "47594"
#define BUFFERS_MAX 64
#define NAME_MAX_BYTES 128

static struct {
	uint64_t bytes, messages, buffers, quiet_ms;
	const char *domain, *host, *port;
} opt = {.bytes = 262144, .messages = 100, .buffers = 4, .quiet_ms = 3000, .port = PORT};

static struct fi_info *info;
static struct fid_fabric *fabric;
static struct fid_domain *domain;
static struct fid_av *av;
static struct fid_cq *cq;
static struct fid_ep *ep;
static fi_addr_t peer;
static int oob = -1;
static uint8_t *buf[BUFFERS_MAX];

static void die(const char *what)
{
	fprintf(stderr, "uccl_ghost: %s\n", what);
	exit(1);
}

static void check(const char *what, long rc)
{
	if (rc >= 0)
		return;
	fprintf(stderr, "uccl_ghost: %s: %s\n", what, fi_strerror((int)-rc));
	exit(1);
}

static double seconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* Byte `at` of message `n`; pattern: what lies in a buffer that nobody may write. */
static uint8_t content(uint64_t n, uint64_t at)
{
	uint64_t x = (n + 1) * 0x9e3779b97f4a7c15ull + (at >> 3) * 0xbf58476d1ce4e5b9ull;

	x ^= x >> 29;
	x *= 0x94d049bb133111ebull;
	return (uint8_t)(x >> 8 * (at & 7));
}

static uint8_t pattern(uint64_t b, uint64_t at)
{
	return (uint8_t)(0xa5 ^ b ^ at * 37 ^ at >> 9);
}

static void pattern_put(uint64_t b)
{
	for (uint64_t at = 0; at < opt.bytes; at++)
		buf[b][at] = pattern(b, at);
}

/* Bytes that are not the pattern's. */
static uint64_t ghosts(uint64_t b)
{
	uint64_t n = 0;

	for (uint64_t at = 0; at < opt.bytes; at++)
		n += ((volatile uint8_t *)buf[b])[at] != pattern(b, at);
	return n;
}

static void oob_open(void)
{
	struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE, .ai_family = AF_INET}, *a;
	int one = 1, l;

	if (getaddrinfo(opt.host, opt.port, &hints, &a))
		die("no such host");
	l = socket(a->ai_family, SOCK_STREAM, 0);
	if (opt.host) {
		for (int i = 0; connect(l, a->ai_addr, a->ai_addrlen); i++) {
			if (i == 300)
				die("nobody listens there");
			usleep(100000);
			close(l);
			l = socket(a->ai_family, SOCK_STREAM, 0);
		}
		oob = l;
	} else {
		setsockopt(l, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
		if (bind(l, a->ai_addr, a->ai_addrlen) || listen(l, 1))
			die("cannot listen");
		oob = accept(l, NULL, NULL);
		close(l);
	}
	freeaddrinfo(a);
	if (oob < 0)
		die("no connection");
}

static void oob_put(const void *p, size_t n)
{
	if (write(oob, p, n) != (ssize_t)n)
		die("the other side is gone");
}

static void oob_get(void *p, size_t n)
{
	for (size_t at = 0; at < n;) {
		ssize_t k = read(oob, (uint8_t *)p + at, n - at);

		if (k <= 0)
			die("the other side is gone");
		at += (size_t)k;
	}
}

static void fabric_open(void)
{
	struct fi_info *hints = fi_allocinfo();
	struct fi_av_attr av_attr = {.type = FI_AV_TABLE};
	struct fi_cq_attr cq_attr = {.format = FI_CQ_FORMAT_TAGGED};
	uint8_t mine[NAME_MAX_BYTES] = {0}, theirs[NAME_MAX_BYTES];
	size_t len = sizeof(mine);

	hints->ep_attr->type = FI_EP_RDM;
	hints->caps = FI_TAGGED;
	hints->addr_format = FI_FORMAT_UNSPEC;
	hints->fabric_attr->prov_name = strdup("uccl");
	if (opt.domain)
		hints->domain_attr->name = strdup(opt.domain);
	check("fi_getinfo", fi_getinfo(FI_VERSION(1, 17), NULL, NULL, 0, hints, &info));
	check("fi_fabric", fi_fabric(info->fabric_attr, &fabric, NULL));
	check("fi_domain", fi_domain(fabric, info, &domain, NULL));
	check("fi_av_open", fi_av_open(domain, &av_attr, &av, NULL));
	check("fi_cq_open", fi_cq_open(domain, &cq_attr, &cq, NULL));
	check("fi_endpoint", fi_endpoint(domain, info, &ep, NULL));
	check("fi_ep_bind", fi_ep_bind(ep, &av->fid, 0));
	check("fi_ep_bind", fi_ep_bind(ep, &cq->fid, FI_SEND | FI_RECV));
	check("fi_enable", fi_enable(ep));
	check("fi_getname", fi_getname(&ep->fid, mine, &len));
	oob_put(mine, sizeof(mine));
	oob_get(theirs, sizeof(theirs));
	if (fi_av_insert(av, theirs, 1, &peer, 0, NULL) != 1)
		die("the other side's address is refused");
	fi_freeinfo(hints);
}

/* One completion, if there is one. */
static bool completed(struct fi_cq_tagged_entry *e)
{
	struct fi_cq_err_entry err = {0};
	ssize_t rc = fi_cq_read(cq, e, 1);

	if (rc == -FI_EAVAIL) {
		fi_cq_readerr(cq, &err, 0);
		check("an operation failed", -err.err);
	}
	if (rc != -FI_EAGAIN)
		check("fi_cq_read", rc);
	return rc == 1;
}

static void wait_one(struct fi_cq_tagged_entry *e)
{
	while (!completed(e))
		;
}

static void send_all(void)
{
	struct fi_cq_tagged_entry e;
	double began = seconds();
	uint8_t end;

	for (uint64_t n = 0; n < opt.messages; n++) {
		uint64_t b = n % opt.buffers;
		ssize_t rc;

		for (uint64_t at = 0; at < opt.bytes; at++)
			buf[b][at] = content(n, at);
		while ((rc = fi_tsend(ep, buf[b], opt.bytes, NULL, peer, n, NULL)) == -FI_EAGAIN)
			completed(&e);
		check("fi_tsend", rc);
		wait_one(&e);
		/* It is ours again: what is read of it from now on is wrong. */
		memset(buf[b], 0xee, opt.bytes);
	}
	printf("sent messages=%llu mbytes_s=%.2f\n", (unsigned long long)opt.messages,
	       (double)(opt.messages * opt.bytes) / 1e6 / (seconds() - began));
	/* Answer until the other one has seen enough. */
	for (struct pollfd p = {.fd = oob, .events = POLLIN}; poll(&p, 1, 0) == 0;)
		completed(&e);
	oob_get(&end, 1);
}

static void post(uint64_t n)
{
	check("fi_trecv", fi_trecv(ep, buf[n % opt.buffers], opt.bytes, NULL, peer, n, 0, (void *)(uintptr_t)(n + 1)));
}

/*
 * Of the buffers one has a receive at a time, the others hold their patterns: it is looked at before its turn and, all
 * of them, at the end, when the network has had `quiet` to bring what it still holds.
 */
static uint64_t receive_all(uint64_t *wrong)
{
	struct fi_cq_tagged_entry e;
	uint64_t found = 0;
	uint8_t end = 1;
	double until;

	for (uint64_t b = 0; b < opt.buffers; b++)
		pattern_put(b);
	for (uint64_t n = 0; n < opt.messages; n++) {
		uint64_t b = n % opt.buffers;

		found += ghosts(b);
		post(n);
		wait_one(&e);
		for (uint64_t at = 0; at < opt.bytes; at++)
			*wrong += buf[b][at] != content(n, at);
		pattern_put(b);
	}
	for (until = seconds() + (double)opt.quiet_ms / 1e3; seconds() < until;)
		completed(&e);
	for (uint64_t b = 0; b < opt.buffers; b++)
		found += ghosts(b);
	oob_put(&end, 1);
	return found;
}

static uint64_t number(const char *text)
{
	char *end;
	uint64_t n = strtoull(text, &end, 0);

	if (!n || *end)
		die("not a number");
	return n;
}

int main(int argc, char **argv)
{
	uint64_t found = 0, wrong = 0;
	int c;

	while ((c = getopt(argc, argv, "s:n:b:q:d:P:")) != -1) {
		if (c == 's')
			opt.bytes = number(optarg);
		else if (c == 'n')
			opt.messages = number(optarg);
		else if (c == 'b')
			opt.buffers = number(optarg);
		else if (c == 'q')
			opt.quiet_ms = number(optarg);
		else if (c == 'd')
			opt.domain = optarg;
		else if (c == 'P')
			opt.port = optarg;
		else
			return 2;
	}
	opt.host = argv[optind];
	if (opt.buffers > BUFFERS_MAX)
		die("too many buffers");
	for (uint64_t b = 0; b < opt.buffers; b++)
		if (posix_memalign((void **)&buf[b], 4096, opt.bytes))
			die("no memory");
	oob_open();
	fabric_open();
	if (opt.host) {
		send_all();
	} else {
		found = receive_all(&wrong);
		printf("received messages=%llu wrong_bytes=%llu ghost_bytes=%llu\n", (unsigned long long)opt.messages,
		       (unsigned long long)wrong, (unsigned long long)found);
	}
	fflush(stdout);
	fi_close(&ep->fid);
	fi_close(&cq->fid);
	fi_close(&av->fid);
	fi_close(&domain->fid);
	fi_close(&fabric->fid);
	fi_freeinfo(info);
	close(oob);
	return found || wrong;
}
