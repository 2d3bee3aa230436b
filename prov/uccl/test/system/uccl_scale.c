/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What an operation costs beside others that wait, or that are only there: unexpected messages, posted receives,
 * requests for remote memory, peers, regions, addresses, from 10 to 100,000 of them.
 *
 *   uccl_scale [--check] [ROW...]
 *
 * All runs in one process, over the interface that FI_UCCL_NIC names (lo). A figure is processor time of this process
 * for an operation, both sides and the kernel included, in ns; the least of some batches, as others use the processor,
 * too. Beside it are the steps of the receiver: messages, receives and tables that it looked at for an operation. Where
 * nothing counts them (regions, addresses) there is "-", and time alone judges.
 *
 * --check: 1,000 and the most are measured, and it ends with 1 if an operation costs more than WIRE or MEMORY times as
 * much among the most, or takes more than STEPS_MOST steps. The rest of these factors is for memory: 100,000 of
 * anything do not fit into a cache, which is most of what it costs where no packet is sent, and little where one is. A
 * walk over all of them costs a hundred times as much. What is too slow is measured once more.
 */
#include <stdbool.h>
#include <sys/resource.h>
#include <time.h>

#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>

#include "direct.h"

#include "api/object/ep_object.h"
#include "api/peers/av.h"
#include "engine/impl.h"

#define WIRE 4
#define MEMORY 20
#define STEPS_MOST 16
#define SENDERS 4		/* each may have 32,768 messages waiting */
#define OPS 1000		/* of a batch, */
#define BATCHES 5		/* of which the best counts */
#define LEN 8
#define TAG_OTHER (1ull << 60)	/* nobody waits with such a tag */

struct cost {
	double ns, steps;
};

struct node {
	struct fid_ep *ep;
	struct fid_cq *cq;
	fi_addr_t at;		/* in the vector of all */
	uint8_t name[FI_UCCL_ADDR_LEN];
};

static struct node target, sender[SENDERS];
static uint8_t payload[LEN], landing[LEN];

static void call_failed(void)
{
}

static double cpu_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
	return (double)ts.tv_sec * 1e9 + (double)ts.tv_nsec;
}

static const struct uccl_msg_ep *inside(const struct node *n)
{
	return &uccl_ep_fid_of(&n->ep->fid)->ep->driver.engine->msg_ep;
}

static void node_open(struct node *n, size_t cq_size)
{
	struct fi_cq_attr attr = { .format = FI_CQ_FORMAT_TAGGED, .size = cq_size };

	call(fi_cq_open(domain, &attr, &n->cq, NULL), 0);
	n->ep = ep_open_on(n->cq, n->name);
	call(fi_av_insert(av, n->name, 1, &n->at, 0, NULL), 1);
}

static void node_close(struct node *n)
{
	call(fi_close(&n->ep->fid), 0);
	call(fi_close(&n->cq->fid), 0);
	call(fi_av_remove(av, &n->at, 1, 0), 0);
}

/* Completions of a node that are read, if `take`; progress in any case. */
static int look(const struct node *n, bool take)
{
	struct fi_cq_tagged_entry e[64];
	ssize_t rc = fi_cq_read(n->cq, e, take ? 64 : 0);

	if (rc == -FI_EAVAIL) {
		struct fi_cq_err_entry err = { 0 };

		fi_cq_readerr(n->cq, &err, 0);
		if (err.err != FI_ECANCELED) {
			fprintf(stderr, "uccl_scale: %s\n", fi_strerror(err.err));
			exit(1);
		}
		return 1;
	}
	return rc > 0 ? (int)rc : 0;
}

static int look_senders(void)
{
	int n = 0;

	for (int i = 0; i < SENDERS; i++)
		n += look(&sender[i], true);
	return n;
}

static void send_tag(const struct node *from, uint64_t tag)
{
	ssize_t rc;

	while ((rc = fi_tinject(from->ep, payload, LEN, target.at, tag)) == -FI_EAGAIN) {
		look(from, true);
		look(&target, false);
	}
	call(rc, 0);
}

static void post_tag(uint64_t tag, uint64_t ignore, fi_addr_t from, void *context)
{
	ssize_t rc;

	while ((rc = fi_trecv(target.ep, landing, LEN, NULL, from, tag, ignore, context)) == -FI_EAGAIN)
		look(&target, false);
	call(rc, 0);
}

static void take(void)
{
	while (!look(&target, true))
		look_senders();
}

static void nodes_open(size_t cq_size)
{
	node_open(&target, cq_size);
	for (int i = 0; i < SENDERS; i++)
		node_open(&sender[i], 0);
	/* All are connected. */
	for (int i = 0; i < SENDERS; i++) {
		post_tag(TAG_OTHER, 0, FI_ADDR_UNSPEC, NULL);
		send_tag(&sender[i], TAG_OTHER);
		take();
	}
}

static void nodes_close(void)
{
	node_close(&target);
	for (int i = 0; i < SENDERS; i++)
		node_close(&sender[i]);
}

/* A permutation of 0..n-1, without pattern enough. */
static uint64_t scramble(uint64_t i, uint64_t n)
{
	return n % 7919 ? i * 7919 % n : i;
}

static void spread(uint64_t n, uint64_t i, struct node **from)
{
	*from = &sender[i * SENDERS / n];
}

/* The best batch of so many calls of one(i), i counting on. */
static struct cost measure(int batches, int ops, void (*one)(uint64_t i))
{
	struct cost c = { 1e18, 1e18 };
	uint64_t i = 0;

	for (int b = 0; b < batches; b++) {
		uint64_t steps = inside(&target)->match.steps;
		double ns = cpu_ns();

		for (int k = 0; k < ops; k++)
			one(i++);
		ns = (cpu_ns() - ns) / ops;
		steps = inside(&target)->match.steps - steps;
		c.ns = ns < c.ns ? ns : c.ns;
		c.steps = (double)steps / ops < c.steps ? (double)steps / ops : c.steps;
	}
	return c;
}

static uint64_t count;	/* of what waits */

/* ---- unexpected messages */

static void unexpected_fill(void)
{
	nodes_open(1 << 17);
	for (uint64_t i = 0; i < count; i++) {
		struct node *from;

		spread(count, i, &from);
		send_tag(from, i << 8);
		if (i % 64 == 0)
			look(&target, false);
	}
	while (inside(&target)->unexpected.n < count) {
		look_senders();
		look(&target, false);
	}
}

static void message_beside(uint64_t i)
{
	post_tag(TAG_OTHER + i % 7, 0, FI_ADDR_UNSPEC, NULL);
	send_tag(&sender[0], TAG_OTHER + i % 7);
	take();
}

static struct cost unexpected_beside(void)
{
	struct cost c;

	unexpected_fill();
	message_beside(0);
	c = measure(BATCHES, OPS, message_beside);
	nodes_close();
	return c;
}

/* Which of them is taken next. */
static uint64_t next;

static void take_one(uint64_t i)
{
	uint64_t k = scramble(next++, count);
	struct node *from;

	spread(count, k, &from);
	post_tag(k << 8, i & 2 ? 0xff : 0, i & 1 ? from->at : FI_ADDR_UNSPEC, NULL);
	take();
}

/* By tag, by tag and source, with ignored bits and without; tables are made before, and counted in the row below. */
static struct cost unexpected_take(void)
{
	struct cost c;
	int ops;

	unexpected_fill();
	next = 0;
	for (uint64_t i = 0; i < 4; i++)
		take_one(i);
	ops = (int)(count < 2 * OPS ? count - 4 : 2 * OPS) / 2;
	c = measure(2, ops, take_one);
	nodes_close();
	return c;
}

/* The first receive after a flood, for each message of it. */
static struct cost unexpected_first(void)
{
	struct cost c;

	unexpected_fill();
	next = 0;
	c = measure(1, 1, take_one);
	c.ns /= (double)count;
	c.steps /= (double)count;
	nodes_close();
	return c;
}

static void peek_one(uint64_t i)
{
	struct fi_msg_tagged m = { .addr = FI_ADDR_UNSPEC, .tag = scramble(i, count) << 8 };

	call(fi_trecvmsg(target.ep, &m, FI_PEEK), 0);
	take();
}

static struct cost unexpected_peek(void)
{
	struct cost c;

	unexpected_fill();
	peek_one(0);
	c = measure(BATCHES, OPS, peek_one);
	nodes_close();
	return c;
}

/* ---- posted receives */

static uint8_t ctx[1 << 17];

static bool mixed;	/* exact tags only, or of all kinds */

static void post_one(uint64_t k)
{
	post_tag(k << 8, mixed && k & 2 ? 0xff : 0, mixed && k & 1 ? sender[0].at : FI_ADDR_UNSPEC, &ctx[k]);
}

static void meet_one(uint64_t i)
{
	uint64_t k = scramble(i, count);

	send_tag(&sender[0], k << 8);
	take();
	post_one(k);
}

static void posted_fill(bool all_kinds)
{
	mixed = all_kinds;
	nodes_open(1 << 17);
	for (uint64_t i = 0; i < count; i++)
		post_one(i);
}

static struct cost posted_exact(void)
{
	struct cost c;

	posted_fill(false);
	c = measure(BATCHES, OPS, meet_one);
	nodes_close();
	return c;
}

static struct cost posted_mixed(void)
{
	struct cost c;

	posted_fill(true);
	c = measure(BATCHES, OPS, meet_one);
	nodes_close();
	return c;
}

static void cancel_one(uint64_t i)
{
	uint64_t k = scramble(i, count);

	call(fi_cancel(&target.ep->fid, &ctx[k]), 0);
	take();
	post_one(k);
}

static struct cost posted_cancel(void)
{
	struct cost c;

	posted_fill(false);
	cancel_one(0);
	c = measure(BATCHES, OPS, cancel_one);
	nodes_close();
	return c;
}

/* ---- requests that wait at a target, as nobody reads what they complete there */

static struct fid_mr *region;

static void write_one(uint64_t i)
{
	ssize_t rc;

	(void)i;
	while ((rc = fi_write(sender[0].ep, payload, LEN, NULL, target.at, 0, 1, NULL)) == -FI_EAGAIN)
		look(&sender[0], true);
	call(rc, 0);
	while (!look(&sender[0], true))
		look(&target, false);
}

static struct cost requests_beside(void)
{
	struct cost c;

	nodes_open(8);
	call(fi_mr_reg(domain, landing, LEN, FI_REMOTE_WRITE, 0, 1, 0, &region, NULL), 0);
	for (uint64_t i = 0; i < count; i++) {
		/* The first one is for what does not wait. */
		const struct node *from = &sender[1 + i * (SENDERS - 1) / count];
		ssize_t rc;

		while ((rc = fi_writedata(from->ep, payload, LEN, NULL, i, target.at, 0, 1, NULL)) == -FI_EAGAIN) {
			look(from, true);
			look(&target, false);
		}
		call(rc, 0);
		if (i % 64 == 0)
			look(&target, false);
	}
	while (inside(&target)->unexpected.n + 64 < count) {
		look_senders();
		look(&target, false);
	}
	write_one(0);
	c = measure(BATCHES, OPS, write_one);
	call(fi_close(&region->fid), 0);
	nodes_close();
	return c;
}

/* ---- peers that are known and do nothing */

static void addr_make(uint8_t raw[FI_UCCL_ADDR_LEN], uint64_t i)
{
	struct uccl_addr a = { .incarnation = 1 + i, .key = { 1 } };

	a.nic.ip[10] = a.nic.ip[11] = 0xff;
	a.nic.ip[12] = 127;
	a.nic.ip[13] = (uint8_t)(1 + (i >> 16));
	a.nic.ip[14] = (uint8_t)(i >> 8);
	a.nic.ip[15] = (uint8_t)i;
	a.nic.port = 9;
	uccl_addr_encode(raw, &a);
}

static struct cost peers_beside(void)
{
	fi_addr_t *at = malloc(count * sizeof(*at));
	struct cost c;

	nodes_open(1 << 17);
	for (uint64_t i = 0; i < count; i++) {
		uint8_t raw[FI_UCCL_ADDR_LEN];

		addr_make(raw, i);
		call(fi_av_insert(av, raw, 1, &at[i], 0, NULL), 1);
		post_tag(i << 8, 0, at[i], NULL);
	}
	message_beside(0);
	c = measure(BATCHES, OPS, message_beside);
	nodes_close();
	call(fi_av_remove(av, at, count, 0), 0);
	free(at);
	return c;
}

/* ---- regions */

static struct fid_mr **regions;

static void regions_fill(void)
{
	regions = calloc(count + 1, sizeof(*regions));
	for (uint64_t i = 0; i < count; i++)
		call(fi_mr_reg(domain, landing, LEN, FI_REMOTE_WRITE, 0, i, 0, &regions[i], NULL), 0);
}

static void regions_drop(void)
{
	for (uint64_t i = 0; i < count; i++)
		call(fi_close(&regions[i]->fid), 0);
	free(regions);
}

static void region_one(uint64_t i)
{
	uint64_t k = scramble(i, count);

	call(fi_close(&regions[k]->fid), 0);
	call(fi_mr_reg(domain, landing, LEN, FI_REMOTE_WRITE, 0, k, 0, &regions[k], NULL), 0);
}

static struct cost regions_renew(void)
{
	struct cost c;

	nodes_open(1 << 17);
	regions_fill();
	c = measure(BATCHES, OPS, region_one);
	regions_drop();
	nodes_close();
	return c;
}

static void write_region(uint64_t i)
{
	ssize_t rc = fi_write(sender[0].ep, payload, LEN, NULL, target.at, 0, scramble(i, count), NULL);

	call(rc, 0);
	while (!look(&sender[0], true))
		look(&target, false);
}

static struct cost regions_write(void)
{
	struct cost c;

	nodes_open(1 << 17);
	regions_fill();
	write_region(0);
	c = measure(BATCHES, OPS, write_region);
	regions_drop();
	nodes_close();
	return c;
}

/* A region is closed beside messages that wait. */
static struct cost regions_beside(void)
{
	uint64_t all = count;
	struct cost c;

	unexpected_fill();
	count = 16;
	regions_fill();
	c = measure(BATCHES, OPS, region_one);
	regions_drop();
	count = all;
	nodes_close();
	return c;
}

/* ---- addresses */

static fi_addr_t *handles;

static void addresses_fill(void)
{
	uint8_t raw[FI_UCCL_ADDR_LEN];

	nodes_open(1 << 17);
	handles = malloc(count * sizeof(*handles));
	for (uint64_t i = 0; i < count; i++) {
		addr_make(raw, i);
		call(fi_av_insert(av, raw, 1, &handles[i], 0, NULL), 1);
	}
}

static void addresses_drop(void)
{
	call(fi_av_remove(av, handles, count, 0), 0);
	free(handles);
	nodes_close();
}

static void address_renew(uint64_t i)
{
	uint8_t raw[FI_UCCL_ADDR_LEN];
	uint64_t k = scramble(i, count);

	call(fi_av_remove(av, &handles[k], 1, 0), 0);
	addr_make(raw, k);
	call(fi_av_insert(av, raw, 1, &handles[k], 0, NULL), 1);
}

static struct cost addresses_renew(void)
{
	struct cost c;

	addresses_fill();
	c = measure(BATCHES, OPS, address_renew);
	addresses_drop();
	return c;
}

/* From a handle to the address, and back. */
static void address_find(uint64_t i)
{
	uint64_t k = scramble(i, count);
	struct uccl_addr a;

	call(uccl_av_get(uccl_av_of(&av->fid), handles[k], &a), 0);
	call(uccl_av_find(uccl_av_of(&av->fid), &a), (long long)handles[k]);
}

static struct cost addresses_find(void)
{
	struct cost c;

	addresses_fill();
	c = measure(BATCHES, OPS, address_find);
	addresses_drop();
	return c;
}

/* An endpoint that uses the vector hears of removals, one by one and many at a time. */
static void address_batch(uint64_t i)
{
	enum { BATCH = 10 };
	fi_addr_t gone[BATCH];
	uint8_t raw[FI_UCCL_ADDR_LEN];

	for (uint64_t k = 0; k < BATCH; k++)
		gone[k] = handles[(scramble(i, count) + k) % count];
	call(fi_av_remove(av, gone, BATCH, 0), 0);
	for (uint64_t k = BATCH; k-- > 0;) {
		uint64_t at = (scramble(i, count) + k) % count;

		addr_make(raw, at);
		call(fi_av_insert(av, raw, 1, &handles[at], 0, NULL), 1);
	}
	message_beside(i);
}

static struct cost addresses_used(void)
{
	struct cost c;

	addresses_fill();
	/* It has a place for each of them. */
	post_tag(1, 0, handles[count - 1], NULL);
	message_beside(0);
	c = measure(BATCHES, OPS / 10, address_batch);
	addresses_drop();
	return c;
}

static const struct row {
	const char *name, *text;
	uint64_t most;
	double factor;
	struct cost (*run)(void);
	bool uncounted;	/* no steps */
} rows[] = {
	{ "beside", "message beside unexpected ones", 100000, WIRE, unexpected_beside, false },
	{ "take", "receive of an unexpected message", 100000, MEMORY, unexpected_take, false },
	{ "first", "first receive, for each that waits", 100000, MEMORY, unexpected_first, false },
	{ "peek", "peek at an unexpected message", 100000, MEMORY, unexpected_peek, false },
	{ "exact", "message to one of the posted, by tag", 60000, WIRE, posted_exact, false },
	{ "mixed", "the same, tags, masks and sources", 60000, WIRE, posted_mixed, false },
	{ "cancel", "cancel of a posted receive", 60000, MEMORY, posted_cancel, false },
	{ "requests", "write beside requests that wait", 60000, WIRE, requests_beside, false },
	{ "peers", "message beside peers that are silent", 10000, WIRE, peers_beside, false },
	{ "renew", "region closed and registered", 100000, MEMORY, regions_renew, true },
	{ "write", "write to one of the regions", 100000, WIRE, regions_write, true },
	{ "close", "the same beside unexpected messages", 100000, MEMORY, regions_beside, false },
	{ "remove", "address removed and inserted", 100000, MEMORY, addresses_renew, true },
	{ "find", "address looked up, and back", 100000, MEMORY, addresses_find, true },
	{ "used", "ten removed, inserted, and a message", 100000, WIRE, addresses_used, false },
};

static struct cost run(const struct row *r, uint64_t n)
{
	count = n;
	return r->run();
}

static const char *steps_text(const struct row *r, const struct cost *c)
{
	static char text[16];

	snprintf(text, sizeof(text), r->uncounted ? "   -" : "%4.1f", c->steps);
	return text;
}

/* Steps are the same each time; a processor that others use is not. */
static bool good(const struct row *r, bool again)
{
	struct cost few = run(r, 1000), many = run(r, r->most);
	bool slow = many.ns > r->factor * few.ns, ok = !slow && many.steps <= STEPS_MOST;

	printf("%-38s %9.0f ns among 1000, %9.0f among %6llu: %5.2f times, %s steps%s\n", r->text, few.ns, many.ns,
	       (unsigned long long)r->most, many.ns / few.ns, steps_text(r, &many), ok ? "" : ": TOO MUCH");
	return ok || (again && many.steps <= STEPS_MOST && good(r, false));
}

static void table(const struct row *r)
{
	printf("%-38s", r->text);
	for (uint64_t n = 10; n <= r->most; n = n * 10 > r->most && n < r->most ? r->most : n * 10) {
		struct cost c = run(r, n);

		printf(" %9.0f %s", c.ns, steps_text(r, &c));
	}
	printf("\n");
}

int main(int argc, char **argv)
{
	bool check = argc > 1 && !strcmp(argv[1], "--check");
	int first = 1 + check, bad = 0, known = argc - first;

	setvbuf(stdout, NULL, _IOLBF, 0);
	/* All that wait must have room, of a few peers. */
	setenv("FI_UCCL_UNEXPECTED", "1073741824", 0);
	for (int k = first; k < argc; k++)
		for (size_t i = 0; i < uccl_array_len(rows); i++)
			known -= !strcmp(argv[k], rows[i].name);
	if (known) {
		fprintf(stderr, "usage: uccl_scale [--check] [ROW...]; rows:");
		for (size_t i = 0; i < uccl_array_len(rows); i++)
			fprintf(stderr, " %s", rows[i].name);
		fprintf(stderr, "\n");
		return 2;
	}
	domain_open(FI_MSG | FI_TAGGED | FI_RMA | FI_DIRECTED_RECV | FI_SOURCE);
	if (!check)
		printf("%-38s %14d %14d %14d %14d %14s\n", "ns and steps; among", 10, 100, 1000, 10000, "most");
	for (size_t i = 0; i < uccl_array_len(rows); i++) {
		bool asked = first == argc;

		for (int k = first; k < argc; k++)
			asked |= !strcmp(argv[k], rows[i].name);
		if (!asked)
			continue;
		if (!check)
			table(&rows[i]);
		else
			bad += !good(&rows[i], true);
	}
	domain_close();
	return bad != 0;
}
