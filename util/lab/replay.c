/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * A list of transfers, as `uccl_sim fabric list` reads it, over real endpoints: a process for each host, which may be
 * in network namespaces of their own, as they share a file only. Connections are made before, all begin together, and
 * every byte is looked at afterwards. Host 0 prints what the receivers' clock, which is one, says of each transfer.
 */
#include <fcntl.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/units.h"
#include "lab.h"
#include "sim/fabric_load.h"

#define HOSTS_MAX 256
#define TRANSFERS_MAX 4096
#define NAME_MAX_BYTES 256
#define WARM_BYTES 8
/* From the moment when all are ready until time 0. */
#define GO_NS 200000000ull
/* A process sleeps no longer, ms, to see what others wrote to the shared memory. */
#define PROGRESS_MS 5

/* Tags: the number of a transfer, and this for the message that makes its connection. */
#define TAG_WARM (1ull << 32)

/* What all processes see, in a file. It begins as zeros. */
struct shared {
	_Atomic uint32_t named, posted, warm, done, sent, failed;
	_Atomic uint64_t go_ns; /* when time 0 is */
	struct {
		uint32_t len;
		char bytes[NAME_MAX_BYTES];
	} name[HOSTS_MAX];
	uint64_t end_ns[TRANSFERS_MAX]; /* the receiver has all */
};

/* One end of a transfer. The library writes into the context until it is through. */
struct end {
	struct fi_context2 ctx;
	uint8_t *buf;
	uint32_t transfer;
	bool receives, warms, begun;
};

static struct {
	const char *shared_name, *provider, *addr;
	uint32_t me, hosts;
	uint64_t limit_s;
	struct shared *shared;
	struct uccl_fab_transfer *list;
	uint32_t n;
	struct end *in, *out, *warm_in, *warm_out; /* by transfer */
	struct endpoint fab;
	fi_addr_t to[HOSTS_MAX];
	bool ended; /* as it should */
} g;

/* A process that ends early ends the others. */
static void on_exit_failed(void)
{
	if (!g.ended)
		g.shared->failed = 1;
}

static uint64_t now_ns(void)
{
	return lab_clock(CLOCK_MONOTONIC);
}

/* The payload at this offset of a transfer. */
static uint8_t word(uint32_t transfer, uint64_t off)
{
	uint64_t x = (off / 8 + 1) * 0x9e3779b97f4a7c15ull ^ (uint64_t)transfer * 0xbf58476d1ce4e5b9ull;

	return (uint8_t)(x >> (8 * (off % 8)));
}

static void shared_open(void)
{
	int fd = open(g.shared_name, O_RDWR | O_CREAT, 0600);

	if (fd < 0 || ftruncate(fd, sizeof(*g.shared)))
		die("%s cannot be written", g.shared_name);
	g.shared = mmap(NULL, sizeof(*g.shared), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	if (g.shared == MAP_FAILED)
		die("%s cannot be mapped", g.shared_name);
}

static void list_open(const char *name)
{
	FILE *f = fopen(name, "r");
	char why[512] = "it cannot be opened";

	if (!f || uccl_fab_list_read(f, name, g.hosts, &g.list, &g.n, why, sizeof(why)))
		die("%s: %s", name, why);
	fclose(f);
	if (g.n > TRANSFERS_MAX)
		die("%s: more than %d transfers", name, TRANSFERS_MAX);
}

static void name_write(void)
{
	size_t len = NAME_MAX_BYTES;

	check("fi_getname", fi_getname(&g.fab.ep->fid, g.shared->name[g.me].bytes, &len));
	g.shared->name[g.me].len = (uint32_t)len;
}

static void completed(struct end *e)
{
	if (e->receives && !e->warms) {
		g.shared->end_ns[e->transfer] = now_ns();
		g.shared->done++;
	} else if (e->receives) {
		g.shared->warm++;
	} else if (!e->warms) {
		g.shared->sent++;
	}
}

/* Completions, after `ms` at most if there is none. */
static void progress(int ms)
{
	struct fi_cq_entry entry[16];
	struct fi_cq_err_entry err = {0};
	ssize_t n = ms ? fi_cq_sread(g.fab.cq, entry, 16, NULL, ms) : fi_cq_read(g.fab.cq, entry, 16);

	if (g.shared->failed)
		exit(1);
	if (n == -FI_EAVAIL && fi_cq_readerr(g.fab.cq, &err, 0) > 0)
		die("transfer failed: %s", fi_strerror(err.err));
	if (n != -FI_EAGAIN && n != -FI_EINTR)
		check("fi_cq_read", n);
	for (ssize_t i = 0; i < n; i++)
		completed(entry[i].op_context);
}

/* Make progress until the count is reached. */
static void gather(const char *what, const _Atomic uint32_t *count, uint32_t want)
{
	uint64_t until = now_ns() + g.limit_s * UCCL_NS_PER_S;

	while (*count < want) {
		progress(PROGRESS_MS);
		if (now_ns() > until)
			die("%s: %u of %u after %llu s", what, *count, want, (unsigned long long)g.limit_s);
	}
}

static void end_recv(struct end *e, size_t len, uint64_t tag)
{
	ssize_t rc;

	while ((rc = fi_trecv(g.fab.ep, e->buf, len, NULL, FI_ADDR_UNSPEC, tag, 0, e)) == -FI_EAGAIN)
		progress(0);
	check("fi_trecv", rc);
}

static void end_send(struct end *e, size_t len, uint64_t tag)
{
	ssize_t rc;

	e->begun = true;
	while ((rc = fi_tsend(g.fab.ep, e->buf, len, NULL, g.to[g.list[e->transfer].dst], tag, e)) == -FI_EAGAIN)
		progress(0);
	check("fi_tsend", rc);
}

static struct end *ends_new(bool receives, bool warms)
{
	struct end *v = calloc(g.n, sizeof(*v));

	if (!v)
		die("out of memory");
	for (uint32_t i = 0; i < g.n; i++) {
		uint64_t bytes = warms ? WARM_BYTES : g.list[i].bytes;

		v[i].transfer = i;
		v[i].receives = receives;
		v[i].warms = warms;
		if ((receives ? g.list[i].dst : g.list[i].src) != g.me)
			continue;
		v[i].buf = malloc(bytes);
		if (!v[i].buf)
			die("out of memory");
		for (uint64_t k = 0; k < bytes; k++)
			v[i].buf[k] = receives ? 0 : word(i, k);
	}
	return v;
}

/* Exchange addresses, and send one message on each connection that the list needs. */
static void connect_all(void)
{
	g.shared->named++;
	gather("hosts that have begun", &g.shared->named, g.hosts);
	for (uint32_t i = 0; i < g.hosts; i++)
		if (fi_av_insert(g.fab.av, g.shared->name[i].bytes, 1, &g.to[i], 0, NULL) != 1)
			die("fi_av_insert refused host %u", i);
	for (uint32_t i = 0; i < g.n; i++) {
		if (g.list[i].dst != g.me)
			continue;
		end_recv(&g.in[i], g.list[i].bytes, i);
		end_recv(&g.warm_in[i], WARM_BYTES, TAG_WARM | i);
	}
	g.shared->posted++;
	gather("hosts that can receive", &g.shared->posted, g.hosts);
	for (uint32_t i = 0; i < g.n; i++)
		if (g.list[i].src == g.me)
			end_send(&g.warm_out[i], WARM_BYTES, TAG_WARM | i);
	gather("first messages", &g.shared->warm, g.n);
}

/* Send each when its time has come, look for completions until all have arrived everywhere. */
static void replay(void)
{
	uint64_t none = 0, go = now_ns() + GO_NS;
	uint32_t due;

	/* The first process sets the time. */
	if (!atomic_compare_exchange_strong(&g.shared->go_ns, &none, go))
		go = none;
	do {
		uint64_t at = UINT64_MAX, now = now_ns();

		due = UINT32_MAX;
		for (uint32_t i = 0; i < g.n; i++)
			if (g.list[i].src == g.me && !g.out[i].begun && go + g.list[i].start_ns < at) {
				due = i;
				at = go + g.list[i].start_ns;
			}
		if (due == UINT32_MAX)
			break;
		if (at <= now) {
			end_send(&g.out[due], g.list[due].bytes, due);
			continue;
		}
		/* The last stretch is shorter than a sleep may be. */
		at = (at - now) / UCCL_NS_PER_MS;
		progress(at > PROGRESS_MS ? PROGRESS_MS : (int)at);
	} while (due != UINT32_MAX);
	gather("transfers that arrived", &g.shared->done, g.n);
}

static void bytes_check(void)
{
	for (uint32_t i = 0; i < g.n; i++)
		for (uint64_t k = 0; g.in[i].buf && k < g.list[i].bytes; k++)
			if (g.in[i].buf[k] != word(i, k))
				die("transfer %u: byte %llu is wrong", i, (unsigned long long)k);
}

static void print(void)
{
	puts("transfer,src,dst,bytes,start_us,end_us");
	for (uint32_t i = 0; i < g.n; i++)
		printf("%u,%u,%u,%llu,%.3f,%.3f\n", i, g.list[i].src, g.list[i].dst,
		       (unsigned long long)g.list[i].bytes, (double)g.list[i].start_ns / 1e3,
		       (double)(g.shared->end_ns[i] - g.shared->go_ns) / 1e3);
}

int lab_replay(int argc, char **argv)
{
	const char *list = NULL;
	uint64_t hosts = 0, me = 0;
	const struct lab_option options[] = {
		{'b', "board", "a file that all processes share, not there before", .text = &g.shared_name},
		{'n', "hosts", "how many there are", .number = &hosts, .least = 2, .most = HOSTS_MAX},
		{'m', "me", "number of this one, from 0", .number = &me, .most = HOSTS_MAX - 1},
		{'a', "addr", "address of this host, to choose its NIC", .text = &g.addr},
		{'p', "provider", "provider", .text = &g.provider},
		{'l', "limit", "seconds for each step", .number = &g.limit_s, .least = 1, .most = 1000000},
		{0, "LIST", "file of transfers", .text = &list},
	};
	struct fi_cq_attr cq = {.format = FI_CQ_FORMAT_CONTEXT, .size = 1024, .wait_obj = FI_WAIT_UNSPEC};
	struct fi_info *hints;

	g.provider = "uccl";
	g.limit_s = 60;
	lab_options(argc, argv, options, uccl_array_len(options),
		    "  A process for each host. LIST: lines of start in us, sender, receiver, bytes, as for\n"
		    "  `uccl_sim fabric list`. Host 0 prints when each transfer ended, us after the start.");
	g.hosts = (uint32_t)hosts;
	g.me = (uint32_t)me;
	if (!g.shared_name || !list || g.me >= g.hosts)
		lab_refused("a file to share, a list, and the number of this host are needed");
	shared_open();
	atexit(on_exit_failed);
	list_open(list);
	g.in = ends_new(true, false);
	g.out = ends_new(false, false);
	g.warm_in = ends_new(true, true);
	g.warm_out = ends_new(false, true);
	hints = endpoint_hints(g.provider, NULL, FI_MSG | FI_TAGGED);
	hints->domain_attr->threading = FI_THREAD_DOMAIN;
	check("fi_getinfo", endpoint_find(&g.fab, hints, g.addr, NULL));
	endpoint_open(&g.fab, &cq);
	name_write();
	connect_all();
	replay();
	/* No process ends before all senders have their acknowledgements. */
	gather("transfers that were sent", &g.shared->sent, g.n);
	bytes_check();
	if (!g.me)
		print();
	endpoint_close(&g.fab);
	g.ended = true;
	return g.shared->failed != 0;
}
