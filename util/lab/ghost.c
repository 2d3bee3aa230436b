/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Look for late writes ("ghosts"): bytes that a slow network brings into a buffer after its receive was completed. One
 * side sends messages one after the other. The receiver checks each message, fills the buffer with a pattern at once,
 * and checks before it posts the buffer again whether the pattern is still there. Bytes that changed are late writes.
 * Meant for networks that delay, lose, double and reorder (util/roce/roce-run --netem).
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../bench/oob.h"
#include "base/units.h"
#include "lab.h"

#define BUFFERS_MAX 64
#define NAME_MAX_BYTES 128

static struct {
	uint64_t bytes, messages, buffers, quiet_ms;
	const char *domain, *host, *port;
} opt = {.bytes = 262144, .messages = 100, .buffers = 4, .quiet_ms = 3000, .port = "47594"};

static struct endpoint fab;
static fi_addr_t peer;
static struct oob oob;
static uint8_t *buf[BUFFERS_MAX];

static double seconds(void)
{
	return (double)lab_clock(CLOCK_MONOTONIC) / 1e9;
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

/* How many bytes of a buffer are not the pattern. */
static uint64_t ghosts(uint64_t b)
{
	uint64_t n = 0;

	for (uint64_t at = 0; at < opt.bytes; at++)
		n += ((volatile uint8_t *)buf[b])[at] != pattern(b, at);
	return n;
}

static void fabric_open(void)
{
	struct fi_cq_attr cq = {.format = FI_CQ_FORMAT_CONTEXT};
	uint8_t mine[NAME_MAX_BYTES] = {0}, theirs[NAME_MAX_BYTES];
	size_t len = sizeof(mine);

	check("fi_getinfo", endpoint_find(&fab, endpoint_hints("uccl", opt.domain, FI_TAGGED), NULL, NULL));
	endpoint_open(&fab, &cq);
	check("fi_getname", fi_getname(&fab.ep->fid, mine, &len));
	oob_send(&oob, mine, sizeof(mine));
	oob_recv(&oob, theirs, sizeof(theirs));
	if (fi_av_insert(fab.av, theirs, 1, &peer, 0, NULL) != 1)
		die("the other side's address is refused");
}

/* One completion, if there is one. */
static bool completed(void)
{
	struct fi_cq_entry e;
	struct fi_cq_err_entry err = {0};
	ssize_t rc = fi_cq_read(fab.cq, &e, 1);

	if (rc == -FI_EAVAIL) {
		fi_cq_readerr(fab.cq, &err, 0);
		check("an operation failed", -err.err);
	}
	if (rc != -FI_EAGAIN)
		check("fi_cq_read", rc);
	return rc == 1;
}

static void wait_one(void)
{
	while (!completed())
		;
}

static void send_all(void)
{
	double began = seconds();
	uint8_t end;

	for (uint64_t n = 0; n < opt.messages; n++) {
		uint64_t b = n % opt.buffers;
		ssize_t rc;

		for (uint64_t at = 0; at < opt.bytes; at++)
			buf[b][at] = content(n, at);
		while ((rc = fi_tsend(fab.ep, buf[b], opt.bytes, NULL, peer, n, NULL)) == -FI_EAGAIN)
			completed();
		check("fi_tsend", rc);
		wait_one();
		/* The send is complete: whoever reads the buffer from now on gets wrong bytes. */
		memset(buf[b], 0xee, opt.bytes);
	}
	printf("sent messages=%llu mbytes_s=%.2f\n", (unsigned long long)opt.messages,
	       (double)(opt.messages * opt.bytes) / 1e6 / (seconds() - began));
	/* Make progress until the receiver has checked all. */
	while (!oob_ready(&oob, &end, 1))
		completed();
}

/*
 * One buffer at a time is posted; the others hold their patterns. A buffer is checked before it is posted, and all are
 * checked at the end, after the network had `quiet_ms` to deliver what it still holds.
 */
static uint64_t receive_all(uint64_t *wrong)
{
	uint64_t found = 0;
	uint8_t end = 1;
	double until;

	for (uint64_t b = 0; b < opt.buffers; b++)
		pattern_put(b);
	for (uint64_t n = 0; n < opt.messages; n++) {
		uint64_t b = n % opt.buffers;

		found += ghosts(b);
		check("fi_trecv", fi_trecv(fab.ep, buf[b], opt.bytes, NULL, peer, n, 0, NULL));
		wait_one();
		for (uint64_t at = 0; at < opt.bytes; at++)
			*wrong += buf[b][at] != content(n, at);
		pattern_put(b);
	}
	for (until = seconds() + (double)opt.quiet_ms / 1e3; seconds() < until;)
		completed();
	for (uint64_t b = 0; b < opt.buffers; b++)
		found += ghosts(b);
	oob_send(&oob, &end, 1);
	return found;
}

int lab_ghost(int argc, char **argv)
{
	const struct lab_option options[] = {
		{'s', "bytes", "of a message", .number = &opt.bytes, .least = 1, .most = 1 << 30},
		{'n', "messages", "how many", .number = &opt.messages, .least = 1, .most = UINT64_MAX},
		{'b', "buffers", "that messages take in turn", .number = &opt.buffers, .least = 1, .most = BUFFERS_MAX},
		{'q', "quiet", "ms that the receiver looks on", .number = &opt.quiet_ms, .least = 1, .most = 1000000},
		{'d', "domain", "name of the domain", .text = &opt.domain},
		{'P', "port", "TCP port to meet at", .text = &opt.port},
		{0, "HOST", "the receiver's host; without it this is the receiver", .text = &opt.host},
	};
	uint64_t found = 0, wrong = 0;

	lab_options(argc, argv, options, uccl_array_len(options),
		    "  Two processes, all options the same but for HOST and domain. The exit status is 1 if bytes are\n"
		    "  wrong, or were written to a buffer that is not posted.");
	for (uint64_t b = 0; b < opt.buffers; b++)
		if (posix_memalign((void **)&buf[b], 4096, opt.bytes))
			die("no memory");
	oob_open(&oob, opt.host, opt.port, false);
	fabric_open();
	if (opt.host) {
		send_all();
	} else {
		found = receive_all(&wrong);
		printf("received messages=%llu wrong_bytes=%llu ghost_bytes=%llu\n", (unsigned long long)opt.messages,
		       (unsigned long long)wrong, (unsigned long long)found);
	}
	fflush(stdout);
	endpoint_close(&fab);
	close(oob.fd);
	return found || wrong;
}
