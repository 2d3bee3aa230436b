/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Tagged messages between two libfabric RDM endpoints. */
#include "uccl_pingpong.h"

#include <netdb.h>

#include "endpoint.h"

#define ADDR_MAX 256

static struct endpoint fab;
static fi_addr_t fab_peer;

/* idle_ms: how long to sleep at most if there is nothing, with -e */
static void completions(const struct bench *b, int idle_ms)
{
	struct fi_cq_entry entry[16];
	ssize_t i, n = b->events ? fi_cq_sread(fab.cq, entry, 16, NULL, idle_ms) : fi_cq_read(fab.cq, entry, 16);

	if (n == -FI_EAGAIN)
		return;
	if (n == -FI_EAVAIL)
		endpoint_failed(&fab);
	check("fi_cq_read", n);
	for (i = 0; i < n; i++)
		slot_set(entry[i].op_context, true);
}

/* The caller waits for something else, too: do not sleep for long. */
static void fabric_progress(struct bench *b)
{
	completions(b, 1);
}

static void fabric_wait(struct bench *b, struct slot *s)
{
	while (!slot_done(s))
		completions(b, 1000);
}

static void fabric_send(struct bench *b, struct slot *s, const void *buf, size_t len, uint64_t tag)
{
	ssize_t rc;

	slot_set(s, false);
	while ((rc = fi_tsend(fab.ep, buf, len, NULL, fab_peer, tag, s)) == -FI_EAGAIN)
		fabric_progress(b);
	check("fi_tsend", rc);
}

static void fabric_recv(struct bench *b, struct slot *s, void *buf, size_t len, uint64_t tag)
{
	ssize_t rc;

	slot_set(s, false);
	while ((rc = fi_trecv(fab.ep, buf, len, NULL, fab_peer, tag, 0, s)) == -FI_EAGAIN)
		fabric_progress(b);
	check("fi_trecv", rc);
}

static void addresses_swap(struct bench *b)
{
	char mine[ADDR_MAX], theirs[ADDR_MAX];
	size_t len = sizeof(mine);
	uint32_t n;

	check("fi_getname", fi_getname(&fab.ep->fid, mine, &len));
	n = (uint32_t)len;
	oob_send(&b->oob, &n, sizeof(n));
	oob_send(&b->oob, mine, len);
	oob_recv(&b->oob, &n, sizeof(n));
	if (n > sizeof(theirs))
		die("the other side's address is too long: %u", n);
	oob_recv(&b->oob, theirs, n);
	if (fi_av_insert(fab.av, theirs, 1, &fab_peer, 0, NULL) != 1)
		die("fi_av_insert refused the other side's address");
}

static void fabric_close(struct bench *b)
{
	(void)b;
	endpoint_close(&fab);
}

static void fabric_open(struct bench *b)
{
	struct fi_cq_attr cq = {.format = FI_CQ_FORMAT_CONTEXT, .size = 1024};
	struct fi_info *hints = endpoint_hints(b->provider, NULL, FI_MSG | FI_TAGGED);
	char node[NI_MAXHOST];

	oob_local(&b->oob, node, sizeof(node));
	hints->domain_attr->threading = FI_THREAD_DOMAIN;
	cq.wait_obj = b->events ? FI_WAIT_UNSPEC : FI_WAIT_NONE;
	check("fi_getinfo", endpoint_find(&fab, hints, node, NULL));
	endpoint_open(&fab, &cq);
	b->open = true;
	addresses_swap(b);
}

const struct transport transport_fabric = {
	.open = fabric_open,
	.send = fabric_send,
	.recv = fabric_recv,
	.progress = fabric_progress,
	.wait = fabric_wait,
	.close = fabric_close,
};
