/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What a short message costs a program: two endpoints of one process, each of a domain of its own, send one message at
 * a time back and forth by the interface that programs use. As both take turns, the call that looks for a message finds
 * it; so the instructions of a message hardly depend on what else the host does. contrib/check-cost counts those of
 * cost_post (the receive for the answer, and a send that completes at once), of cost_take (the call that finds the
 * message) and of cost_idle (a call that finds nothing), without the kernel.
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/units.h"
#include "lab.h"

#define BYTES_MAX 16384
/* Messages before the count begins. */
#define WARM 64
/* Calls until a message is there. */
#define TRIES 1000000
#define PEERS_MAX 32

/* One endpoint has peers, to whom it speaks in turns; each of these has that one. */
static struct side {
	struct endpoint fab;
	struct fi_context2 received;
	uint8_t *out, *in;
	fi_addr_t peers[PEERS_MAX];
	fi_addr_t peer; /* whose turn it is */
	uint64_t calls; /* of cost_take */
} sides[1 + PEERS_MAX];

static size_t bytes;

bool cost_post(struct side *s);
bool cost_take(struct side *s);
bool cost_idle(struct side *s);

__attribute__((noinline)) bool cost_post(struct side *s)
{
	return !fi_trecv(s->fab.ep, s->in, bytes, NULL, s->peer, 1, 0, &s->received) &&
	       !fi_tinject(s->fab.ep, s->out, bytes, s->peer, 1);
}

__attribute__((noinline)) bool cost_take(struct side *s)
{
	struct fi_cq_entry entry;
	ssize_t n = -FI_EAGAIN;

	for (int i = 0; i < TRIES && n == -FI_EAGAIN; i++) {
		n = fi_cq_read(s->fab.cq, &entry, 1);
		s->calls++;
	}
	return n == 1 && entry.op_context == &s->received;
}

__attribute__((noinline)) bool cost_idle(struct side *s)
{
	struct fi_cq_entry entry;

	return fi_cq_read(s->fab.cq, &entry, 1) == -FI_EAGAIN;
}

static void side_open(struct side *s, const char *provider)
{
	struct fi_cq_attr cq = {.format = FI_CQ_FORMAT_CONTEXT, .size = 64, .wait_obj = FI_WAIT_NONE};
	struct fi_info *hints = endpoint_hints(provider, NULL, FI_MSG | FI_TAGGED);

	hints->domain_attr->threading = FI_THREAD_DOMAIN;
	check("fi_getinfo", endpoint_find(&s->fab, hints, "127.0.0.1", NULL));
	endpoint_open(&s->fab, &cq);
	s->out = calloc(1, bytes);
	s->in = calloc(1, bytes);
	if (!s->out || !s->in)
		die("out of memory");
}

static void side_meet(struct side *s, struct side *other, fi_addr_t *as)
{
	uint8_t name[256];
	size_t len = sizeof(name);

	check("fi_getname", fi_getname(&other->fab.ep->fid, name, &len));
	if (fi_av_insert(s->fab.av, name, 1, as, 0, NULL) != 1)
		die("fi_av_insert refused the other endpoint");
	s->peer = *as;
}

/* One message. Both sides make progress, as the first one needs a connection. */
static void pass(struct side *from, struct side *to)
{
	struct fi_cq_entry entry;
	ssize_t rc;

	check("fi_trecv", fi_trecv(to->fab.ep, to->in, bytes, NULL, to->peer, 1, 0, &to->received));
	do {
		rc = fi_tinject(from->fab.ep, from->out, bytes, from->peer, 1);
		fi_cq_read(to->fab.cq, &entry, 0);
	} while (rc == -FI_EAGAIN && fi_cq_read(from->fab.cq, &entry, 0) != 1);
	check("fi_tinject", rc);
	for (int i = 0; i < TRIES; i++) {
		fi_cq_read(from->fab.cq, &entry, 0);
		if (fi_cq_read(to->fab.cq, &entry, 1) == 1)
			return;
	}
	die("the first messages did not arrive");
}

int lab_message(int argc, char **argv)
{
	const char *provider = "uccl";
	uint64_t messages = 2000, size = 8, peers = 1, calls = 0, began;
	const struct lab_option options[] = {
		{'p', "provider", "provider", .text = &provider},
		{'n', "peers", "of one endpoint, which speaks to them in turns", .number = &peers, .least = 1,
		 .most = PEERS_MAX},
		{0, "MESSAGES", "how many, both ways together", .number = &messages, .least = 2, .most = INT32_MAX},
		{0, "BYTES", "of a message, which fi_tinject takes", .number = &size, .least = 1, .most = BYTES_MAX},
	};
	bool ok = true;

	lab_options(argc, argv, options, uccl_array_len(options),
		    "  ns for a message between two endpoints that take turns on one processor, the kernel included,\n"
		    "  and the calls of fi_cq_read until it is there. contrib/check-cost counts the instructions.");
	bytes = size;
	for (uint64_t k = 0; k <= peers; k++)
		side_open(&sides[k], provider);
	for (uint64_t k = 1; k <= peers; k++) {
		side_meet(&sides[0], &sides[k], &sides[0].peers[k - 1]);
		side_meet(&sides[k], &sides[0], &sides[k].peers[0]);
		for (int i = 0; i < WARM; i++)
			pass(&sides[i % 2 ? k : 0], &sides[i % 2 ? 0 : k]);
	}
	for (uint64_t k = 1; k <= peers; k++)
		check("fi_trecv", fi_trecv(sides[k].fab.ep, sides[k].in, bytes, NULL, sides[k].peer, 1, 0,
					   &sides[k].received));
	began = lab_clock(CLOCK_PROCESS_CPUTIME_ID);
	for (uint64_t i = 0; ok && i < messages; i++) {
		uint64_t k = 1 + i / 2 % peers;
		struct side *s = &sides[i % 2 ? k : 0], *to = &sides[i % 2 ? 0 : k];

		sides[0].peer = sides[0].peers[k - 1];
		memset(s->out, (int)i, bytes);
		ok = cost_post(s) && cost_take(to) && !memcmp(to->in, s->out, bytes) && cost_idle(to);
	}
	if (!ok)
		die("a message did not arrive as it was sent");
	for (uint64_t k = 0; k <= peers; k++)
		calls += sides[k].calls;
	printf("%llu messages of %zu bytes: %.0f ns each, %.2f calls until it is there\n",
	       (unsigned long long)messages, bytes,
	       (double)(lab_clock(CLOCK_PROCESS_CPUTIME_ID) - began) / (double)messages,
	       (double)calls / (double)messages);
	return 0;
}
