/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * A benchmark of what serving programs do all day, over any provider of libfabric with RDM endpoints. Without a host it
 * is the server; with one, the client, which prints a line for each size and test as uccl_pingpong does:
 *
 *	result provider=uccl test=rpc size=64 usec=21.210 mbs=48.1 mps=752310 iters=225697 cpu=20.100
 *
 * rpc: several endpoints of the client each send a request and wait for the answer of the same size, again and again;
 * usec is the time of one. kv-write: the client writes 2048 blocks into places all over the server's memory, waits for
 * their completions and sends a note, which the server answers; usec is the time of all that. kv-read: the client reads
 * such blocks. mbs is payload one way, mps requests or blocks a second, cpu the processor time of both sides for one of
 * them (us), which says little if they poll. All answers, and the blocks of the first transfer of each size, are
 * compared.
 */
#include "../tool/tool.h"

#include <getopt.h>
#include <netdb.h>
#include <rdma/fi_rma.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "endpoint.h"
#include "oob.h"
#include "sizes.h"

#define CLIENTS_MAX 64
#define BLOCKS 2048 /* a power of two */
#define BLOCK_STEP 977 /* odd: block i goes to place i * BLOCK_STEP, and each has its own */
#define SIZES_MAX 16
#define NAME_MAX_BYTES 256
#define REQUEST_MIN 8
#define POLLS_PER_LOOK 1024 /* polls of the server between two looks at the TCP connection */

struct context {
	struct fi_context2 context; /* first, providers may use it */
	bool done;
};

struct remote {
	uint64_t addr, key;
};

struct serving {
	const char *provider;
	bool client, events;
	double seconds, cpu_before;
	const char *tests;
	int nclients;
	size_t size[SIZES_MAX], size_max;
	int nsizes;

	struct oob oob;
	struct endpoint ep[CLIENTS_MAX]; /* the server has one; those of the client share a queue of completions */
	fi_addr_t peer[CLIENTS_MAX];	 /* the server's peers; of the client's endpoints each knows the server */
	char *message;			 /* for each client a request and an answer */
	char *pool;			 /* blocks: to write, to read into, or of the server */
	struct fid_mr *message_mr, *pool_mr;
	struct remote remote;
	struct context tx[CLIENTS_MAX], rx[CLIENTS_MAX], block[BLOCKS];
	uint64_t since_ns[CLIENTS_MAX]; /* when each client's request left */
	uint64_t completed;
};

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* Processor time that this process has taken, us. */
static double cpu_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static char *request_of(const struct serving *s, int i)
{
	return s->message + 2 * (size_t)i * s->size_max;
}

static char *answer_of(const struct serving *s, int i)
{
	return request_of(s, i) + s->size_max;
}

static uint8_t pattern(size_t block, size_t i, uint64_t seed)
{
	return (uint8_t)((block * 131 + i * 7 + seed) % 251);
}

static void completions(struct serving *s)
{
	struct fi_cq_entry entry[16];
	struct fid_cq *cq = s->ep[0].cq;
	ssize_t i, n = s->events ? fi_cq_sread(cq, entry, 16, NULL, 1) : fi_cq_read(cq, entry, 16);

	if (n == -FI_EAGAIN)
		return;
	if (n == -FI_EAVAIL)
		endpoint_failed(&s->ep[0]);
	check("fi_cq_read", n);
	for (i = 0; i < n; i++)
		((struct context *)entry[i].op_context)->done = true;
	s->completed += (uint64_t)n;
}

static void progress(void *arg)
{
	struct serving *s = arg;

	if (s->ep[0].cq)
		completions(s);
}

static void receive(struct serving *s, int i, struct context *c, char *buf, size_t size)
{
	void *desc = s->message_mr ? fi_mr_desc(s->message_mr) : NULL;
	ssize_t rc;

	c->done = false;
	while ((rc = fi_recv(s->ep[s->client ? i : 0].ep, buf, size, desc, FI_ADDR_UNSPEC, c)) == -FI_EAGAIN)
		completions(s);
	check("fi_recv", rc);
}

/*
 * Programs that wait for an answer, such as Mercury, want their buffer back and no other word of delivery. (Writes are
 * completed by delivery, because a note follows them.)
 */
static void message_send(struct serving *s, int i, struct context *c, char *buf, size_t size)
{
	void *desc = s->message_mr ? fi_mr_desc(s->message_mr) : NULL;
	struct iovec iov = {.iov_base = buf, .iov_len = size};
	struct fi_msg msg = {.msg_iov = &iov, .desc = &desc, .iov_count = 1, .addr = s->peer[i], .context = c};
	ssize_t rc;

	c->done = false;
	while ((rc = fi_sendmsg(s->ep[s->client ? i : 0].ep, &msg, FI_COMPLETION | FI_INJECT_COMPLETE)) == -FI_EAGAIN)
		completions(s);
	check("fi_sendmsg", rc);
}

/* ---- requests and answers */

/* The server's receives take requests of all sizes, and notes. */
static void receive_post(struct serving *s, int slot)
{
	receive(s, slot, &s->rx[slot], request_of(s, slot), s->size_max);
}

/* The server takes requests in any order. Which client it was stands in the first bytes. */
static void answer(struct serving *s, int slot, size_t size)
{
	const char *request = request_of(s, slot);
	uint32_t from;

	memcpy(&from, request, sizeof(from));
	if (from >= (uint32_t)s->nclients)
		die("a request of client %u", from);
	while (!s->tx[from].done)
		completions(s);
	memcpy(answer_of(s, (int)from), request, size);
	receive_post(s, slot);
	message_send(s, (int)from, &s->tx[from], answer_of(s, (int)from), size);
}

/* Until the client says on the TCP connection that it is done: it then hears the processor time that this took. */
static void answers(struct serving *s, size_t size)
{
	double cpu = cpu_us();
	unsigned int polls = 0;
	char end;

	while ((++polls % POLLS_PER_LOOK && !s->events) || !oob_ready(&s->oob, &end, 1)) {
		completions(s);
		for (int i = 0; i < s->nclients; i++)
			if (s->rx[i].done)
				answer(s, i, size);
	}
	cpu = cpu_us() - cpu;
	oob_send(&s->oob, &cpu, sizeof(cpu));
}

/* The client's side of that: what both took since the last barrier. */
static double answers_end(struct serving *s)
{
	double cpu = cpu_us() - s->cpu_before, server;

	oob_send(&s->oob, "e", 1);
	oob_recv(&s->oob, &server, sizeof(server));
	return cpu + server;
}

/* Both sides begin; the processor time of this one counts from here. */
static void begin(struct serving *s)
{
	oob_barrier(&s->oob);
	s->cpu_before = cpu_us();
}

static void request_send(struct serving *s, int i, size_t size)
{
	uint32_t from = (uint32_t)i;

	memcpy(request_of(s, i), &from, sizeof(from));
	receive(s, i, &s->rx[i], answer_of(s, i), size);
	message_send(s, i, &s->tx[i], request_of(s, i), size);
	s->since_ns[i] = now_ns();
}

static void result(const struct serving *s, const char *test, size_t size, uint64_t n, double usec, double t,
		   double cpu)
{
	printf("result provider=%s test=%s size=%zu usec=%.3f mbs=%.1f mps=%.0f iters=%llu cpu=%.3f\n", s->provider,
	       test, size, usec, (double)n * (double)size / t / 1e6, (double)n / t, (unsigned long long)n,
	       cpu / (double)n);
	fflush(stdout);
}

static void answer_check(const struct serving *s, int i, size_t size)
{
	const char *got = answer_of(s, i);
	uint32_t from;

	memcpy(&from, got, sizeof(from));
	if (from != (uint32_t)i || memcmp(got + 4, request_of(s, i) + 4, size - 4))
		die("rpc of %zu bytes: client %d has a wrong answer", size, i);
}

/*
 * Each client has one request under way until the time is over, and sends at least one. Answers are compared. Returns
 * how many came; *waited: ns from requests to answers, in all.
 */
static uint64_t requests_exchange(struct serving *s, size_t size, double seconds, uint64_t *waited)
{
	uint64_t start = now_ns(), answered = 0;
	int busy = s->nclients;

	*waited = 0;
	for (int i = 0; i < s->nclients; i++)
		request_send(s, i, size);
	while (busy) {
		completions(s);
		for (int i = 0; i < s->nclients; i++) {
			if (!s->rx[i].done || !s->tx[i].done)
				continue;
			answered++;
			*waited += now_ns() - s->since_ns[i];
			answer_check(s, i, size);
			s->rx[i].done = false;
			if ((double)(now_ns() - start) * 1e-9 < seconds)
				request_send(s, i, size);
			else
				busy--;
		}
	}
	return answered;
}

/* The first requests make connections, so they do not count. */
static void requests(struct serving *s, size_t size)
{
	uint64_t start, answered, waited;
	double t;

	requests_exchange(s, size, s->seconds / 10, &waited);
	answers_end(s);
	begin(s);
	start = now_ns();
	answered = requests_exchange(s, size, s->seconds, &waited);
	t = (double)(now_ns() - start) * 1e-9;
	result(s, "rpc", size, answered, (double)waited / 1e3 / (double)answered, t, answers_end(s));
}

static void rpc(struct serving *s, size_t size)
{
	if (size < REQUEST_MIN)
		return;
	oob_barrier(&s->oob);
	if (s->client) {
		requests(s, size);
	} else {
		answers(s, size);
		oob_barrier(&s->oob);
		answers(s, size);
	}
	oob_barrier(&s->oob);
}

/* ---- blocks */

static void blocks_fill(struct serving *s, size_t size, uint64_t seed)
{
	for (size_t b = 0; b < BLOCKS; b++)
		for (size_t i = 0; i < size; i++)
			s->pool[b * size + i] = (char)pattern(b, i, seed);
}

/* Block `b` of the other side is at place b * BLOCK_STEP here. */
static void blocks_check(const struct serving *s, size_t size, uint64_t seed, bool scattered)
{
	for (size_t b = 0; b < BLOCKS; b++) {
		size_t place = scattered ? b * BLOCK_STEP % BLOCKS : b, from = scattered ? b : b * BLOCK_STEP % BLOCKS;

		for (size_t i = 0; i < size; i++)
			if ((uint8_t)s->pool[place * size + i] != pattern(from, i, seed))
				die("blocks of %zu bytes: byte %zu of block %zu is wrong", size, i, b);
	}
}

static void blocks_move(struct serving *s, size_t size, bool write)
{
	void *desc = s->pool_mr ? fi_mr_desc(s->pool_mr) : NULL;
	struct endpoint *e = &s->ep[0];
	uint64_t end = s->completed + BLOCKS;
	ssize_t rc;

	for (size_t b = 0; b < BLOCKS; b++) {
		uint64_t at = s->remote.addr + b * BLOCK_STEP % BLOCKS * size;
		char *mine = s->pool + b * size;

		while ((rc = write ? fi_write(e->ep, mine, size, desc, s->peer[0], at, s->remote.key, &s->block[b]) :
				     fi_read(e->ep, mine, size, desc, s->peer[0], at, s->remote.key, &s->block[b])) ==
		       -FI_EAGAIN)
			completions(s);
		check(write ? "fi_write" : "fi_read", rc);
	}
	while (s->completed < end)
		completions(s);
}

/* One transfer and, behind a write, the note and its answer. */
static void transfer(struct serving *s, size_t size, bool write)
{
	blocks_move(s, size, write);
	if (!write)
		return;
	request_send(s, 0, REQUEST_MIN);
	while (!s->rx[0].done || !s->tx[0].done)
		completions(s);
}

static void blocks_client(struct serving *s, size_t size, bool write)
{
	uint64_t start, n = 0;
	double t;

	blocks_fill(s, size, write ? 1 : 2);
	oob_barrier(&s->oob);
	transfer(s, size, write);
	if (!write)
		blocks_check(s, size, 3, false);
	answers_end(s);
	begin(s);
	start = now_ns();
	do {
		transfer(s, size, write);
		n += BLOCKS;
		t = (double)(now_ns() - start) * 1e-9;
	} while (t < s->seconds);
	result(s, write ? "kv-write" : "kv-read", size, n, t * 1e6 / (double)n * BLOCKS, t, answers_end(s));
	oob_barrier(&s->oob);
}

static void blocks_server(struct serving *s, size_t size, bool write)
{
	blocks_fill(s, size, 3);
	oob_barrier(&s->oob);
	answers(s, REQUEST_MIN);
	if (write)
		blocks_check(s, size, 1, true);
	oob_barrier(&s->oob);
	answers(s, REQUEST_MIN);
	oob_barrier(&s->oob);
}

static void kv(struct serving *s, size_t size, bool write)
{
	if (s->client)
		blocks_client(s, size, write);
	else
		blocks_server(s, size, write);
}

/* ---- set-up */

static struct fid_mr *region(struct serving *s, void *buf, size_t len, uint64_t access, uint64_t key)
{
	struct fid_mr *mr;

	check("fi_mr_reg", fi_mr_reg(s->ep[0].domain, buf, len, access, 0, key, 0, &mr, NULL));
	return mr;
}

/* Both sides agree on the server's memory: where it is for the client, and its key. */
static void memory_open(struct serving *s)
{
	size_t messages = 2 * (size_t)s->nclients * s->size_max, blocks = BLOCKS * s->size_max;
	int mode = s->ep[0].info->domain_attr->mr_mode;

	s->message = calloc(1, messages);
	s->pool = calloc(1, blocks);
	if (!s->message || !s->pool)
		die("out of memory");
	for (size_t i = 0; i < messages; i++)
		s->message[i] = (char)pattern(1, i, 9);
	if (mode & FI_MR_LOCAL)
		s->message_mr = region(s, s->message, messages, FI_SEND | FI_RECV, 1);
	if (!s->client) {
		s->pool_mr = region(s, s->pool, blocks, FI_REMOTE_READ | FI_REMOTE_WRITE, 2);
		s->remote.addr = mode & FI_MR_VIRT_ADDR ? (uint64_t)(uintptr_t)s->pool : 0;
		s->remote.key = fi_mr_key(s->pool_mr);
		oob_send(&s->oob, &s->remote, sizeof(s->remote));
		return;
	}
	if (mode & FI_MR_LOCAL)
		s->pool_mr = region(s, s->pool, blocks, FI_READ | FI_WRITE, 2);
	oob_recv(&s->oob, &s->remote, sizeof(s->remote));
}

static void address_send(struct serving *s, struct endpoint *e)
{
	char name[NAME_MAX_BYTES] = "";
	size_t len = sizeof(name);

	check("fi_getname", fi_getname(&e->ep->fid, name, &len));
	oob_send(&s->oob, name, sizeof(name));
}

static fi_addr_t address_insert(struct endpoint *e, const char *name)
{
	fi_addr_t at;

	if (fi_av_insert(e->av, name, 1, &at, 0, NULL) != 1)
		die("fi_av_insert refused the other side's address");
	return at;
}

static void endpoints_open(struct serving *s)
{
	struct fi_cq_attr cq = {.format = FI_CQ_FORMAT_CONTEXT, .size = 2 * BLOCKS,
				.wait_obj = s->events ? FI_WAIT_UNSPEC : FI_WAIT_NONE};
	char node[NI_MAXHOST], name[NAME_MAX_BYTES];

	oob_local(&s->oob, node, sizeof(node));
	for (int i = 0; i < (s->client ? s->nclients : 1); i++) {
		struct fi_info *hints = endpoint_hints(s->provider, NULL, FI_MSG | FI_RMA);
		struct endpoint *e = &s->ep[i];

		hints->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_ALLOCATED | FI_MR_PROV_KEY | FI_MR_VIRT_ADDR;
		hints->tx_attr->op_flags = FI_DELIVERY_COMPLETE;
		check("fi_getinfo", endpoint_find(e, hints, node, NULL));
		e->fabric = i ? s->ep[0].fabric : NULL;
		e->domain = i ? s->ep[0].domain : NULL;
		e->cq = i ? s->ep[0].cq : NULL;
		endpoint_open(e, &cq);
		address_send(s, e);
	}
	for (int i = 0; i < (s->client ? 1 : s->nclients); i++) {
		oob_recv(&s->oob, name, sizeof(name));
		for (int c = 0; c < (s->client ? s->nclients : 1); c++)
			s->peer[s->client ? c : i] = address_insert(&s->ep[c], name);
	}
}

static void endpoints_close(struct serving *s)
{
	for (int i = s->client ? s->nclients - 1 : 0; i > 0; i--) {
		struct endpoint *e = &s->ep[i];

		check("close ep", fi_close(&e->ep->fid));
		check("close av", fi_close(&e->av->fid));
		fi_freeinfo(e->info);
	}
	/* Not used from now on, even if the other side is waited for. */
	s->oob.progress = NULL;
	if (s->message_mr)
		check("close region", fi_close(&s->message_mr->fid));
	if (s->pool_mr)
		check("close region", fi_close(&s->pool_mr->fid));
	endpoint_close(&s->ep[0]);
	free(s->message);
	free(s->pool);
}

static void usage(void)
{
	puts("usage: uccl_serving [-p PROVIDER] [-P PORT] [-s SIZE,...] [-t SECONDS] [-c CLIENTS] [-T LIMIT]\n"
	     "                    [-m TEST,...] [-e] [HOST]\n"
	     "       uccl_serving --help | --version\n"
	     "  Server without HOST, client with it; both need the same -p, -s, -c and -m.\n"
	     "  -p  provider, for example uccl, tcp, 'tcp;ofi_rxm' (uccl)\n"
	     "  -P  TCP port over which both sides talk beside the endpoints (47592)\n"
	     "  -s  bytes of requests and blocks, k known (64,4k,16k,64k)\n"
	     "  -t  seconds of one measurement (0.3)\n"
	     "  -c  endpoints of the client that send requests (16)\n"
	     "  -m  rpc, kv-write, kv-read (all)\n"
	     "  -T  the whole run ends by SIGALRM after so many seconds (600)\n"
	     "  -e  sleep until something happens, instead of polling");
}

int main(int argc, char **argv)
{
	static const struct option longs[] = {{"help", no_argument, NULL, 'h'}, {0}};
	static struct serving s = {.provider = "uccl", .seconds = 0.3, .nclients = 16, .tests = "rpc,kv-write,kv-read"};
	char sizes[] = "64,4k,16k,64k";
	const char *port = "47592", *host;
	unsigned int limit = 600;
	int c;

	tool_begin("uccl_serving", argc, argv);
	s.nsizes = sizes_parse(sizes, s.size, SIZES_MAX);
	while ((c = getopt_long(argc, argv, "ep:P:s:t:c:m:T:h", longs, NULL)) != -1) {
		switch (c) {
		case 'e':
			s.events = true;
			break;
		case 'p':
			s.provider = optarg;
			break;
		case 'P':
			port = optarg;
			break;
		case 's':
			s.nsizes = sizes_parse(optarg, s.size, SIZES_MAX);
			break;
		case 't':
			s.seconds = atof(optarg);
			break;
		case 'c':
			s.nclients = atoi(optarg);
			break;
		case 'm':
			s.tests = optarg;
			break;
		case 'T':
			limit = (unsigned int)atoi(optarg);
			break;
		default:
			usage();
			return c == 'h' ? 0 : 2;
		}
	}
	host = optind < argc ? argv[optind] : NULL;
	s.client = host;
	if (s.nclients < 1 || s.nclients > CLIENTS_MAX)
		die("-c: 1 to %d", CLIENTS_MAX);
	for (int i = 0; i < s.nsizes; i++)
		s.size_max = s.size[i] > s.size_max ? s.size[i] : s.size_max;
	if (s.size_max < REQUEST_MIN)
		s.size_max = REQUEST_MIN;
	alarm(limit);
	s.oob = (struct oob){.progress = progress, .arg = &s};
	oob_open(&s.oob, host, port, false);
	endpoints_open(&s);
	memory_open(&s);
	for (int i = 0; !s.client && i < s.nclients; i++) {
		s.tx[i].done = true;
		receive_post(&s, i);
	}
	for (int i = 0; i < s.nsizes; i++) {
		if (strstr(s.tests, "rpc"))
			rpc(&s, s.size[i]);
		if (strstr(s.tests, "kv-write"))
			kv(&s, s.size[i], true);
		if (strstr(s.tests, "kv-read"))
			kv(&s, s.size[i], false);
	}
	oob_barrier(&s.oob);
	endpoints_close(&s);
	close(s.oob.fd);
	return 0;
}
