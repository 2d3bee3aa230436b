/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Many peers: endpoints send one short message to each other one, again and again, over any provider of libfabric with
 * RDM endpoints. The first round makes the connections. The endpoints are spread over processes of this host, and one
 * line tells what they needed:
 *
 *	result provider=uccl endpoints=64 centers=64 size=64 connections=4032 open_kib=187.1 conn_kib=39.0 ...
 *
 * A connection is counted at both of its ends. In a star only the first endpoints, the centers, have all others as
 * peers; they are alone in the first process, and the fields whose names begin with "center" tell of it. Every byte is
 * compared, and every message must come exactly once.
 */
#include "../tool/tool.h"

#include <dirent.h>
#include <getopt.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "endpoint.h"
#include "oob.h"

#define ENDPOINTS_MAX 4096
#define PROCESSES_MAX 1024
#define ROUNDS_MAX 1000
#define NAME_MAX_BYTES 64
#define RECEIVES_MAX 256 /* receives posted of an endpoint */
#define SIZE_MIN 16
#define SIZE_MAX_BYTES 16384
#define FULL_MAX 16 /* peers that may refuse a send before the endpoint looks for completions */
#define ENTRIES 32

struct op {
	struct fi_context2 context; /* first, providers may use it */
	int32_t slot;		    /* of a receive: its buffer; -1: a send */
};

struct config {
	const char *provider, *node;
	uint32_t endpoints, centers, processes, rounds;
	uint32_t idle_s, limit_s;
	size_t size;
};

/* One endpoint of this process and its state in a round. */
struct member {
	struct endpoint ep;
	uint32_t id, npeers, nreceives;
	uint32_t *peer;	   /* their numbers */
	fi_addr_t *at;	   /* and addresses */
	uint32_t *unsent;  /* a ring of places in `peer`: to whom the message of this round has not left */
	uint32_t first, left; /* of the ring */
	uint32_t sending;  /* sends without completion */
	uint64_t got;	   /* messages of all rounds; the first of a round may come before it begins here */
	uint32_t *seen;	   /* of each endpoint: the round of its last message */
	struct op *tx, *rx;
	uint8_t *out, *in; /* a message for each peer, and for each receive */
};

/* What a process says of itself; sums are added and the rest compared by the first process. */
struct usage {
	double seconds, cpu_s;
	uint64_t rss_kib, descriptors, sockets, threads, endpoints, connections;
};

static struct config cfg = {.provider = "uccl", .node = "127.0.0.1", .endpoints = 64, .rounds = 11, .size = 64,
			    .limit_s = 600};

static double now_s(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void *array(size_t n, size_t each)
{
	void *p = malloc(n * each + 1);

	if (!p)
		die("out of memory");
	/* Touched now, so that it does not count as memory of connections later. */
	memset(p, 0xff, n * each + 1);
	return p;
}

/* ---- one endpoint */

static bool are_peers(uint32_t a, uint32_t b)
{
	return a != b && (a < cfg.centers || b < cfg.centers);
}

static void message_make(uint8_t *buf, uint32_t from, uint32_t to, uint32_t round)
{
	const uint32_t head[3] = {from, to, round};

	for (size_t i = sizeof(head); i < cfg.size; i++)
		buf[i] = (uint8_t)(from * 7 + to * 13 + round * 31 + i);
	memcpy(buf, head, sizeof(head));
}

static void message_check(struct member *m, const uint8_t *buf, size_t len, uint32_t round)
{
	uint8_t want[SIZE_MAX_BYTES];
	uint32_t head[3];

	if (len != cfg.size)
		die("endpoint %u: a message of %zu bytes", m->id, len);
	memcpy(head, buf, sizeof(head));
	if (head[0] >= cfg.endpoints || !are_peers(head[0], m->id) || head[2] != ++m->seen[head[0]] ||
	    head[2] > round + 1)
		die("endpoint %u, round %u: a message of %u to %u of round %u", m->id, round, head[0], head[1],
		    head[2]);
	message_make(want, head[0], m->id, head[2]);
	if (memcmp(want, buf, len))
		die("endpoint %u, round %u: a wrong byte from %u", m->id, round, head[0]);
}

static bool member_receive(struct member *m, uint32_t slot)
{
	struct op *op = &m->rx[slot];
	ssize_t rc;

	op->slot = (int32_t)slot;
	rc = fi_recv(m->ep.ep, m->in + slot * cfg.size, cfg.size, NULL, FI_ADDR_UNSPEC, op);
	if (rc == -FI_EAGAIN)
		return false;
	check("fi_recv", rc);
	return true;
}

/* One look at the queue. Returns how many completions were there. */
static ssize_t member_poll(struct member *m, uint32_t round)
{
	struct fi_cq_msg_entry entry[ENTRIES];
	ssize_t n = fi_cq_read(m->ep.cq, entry, ENTRIES);

	if (n == -FI_EAGAIN)
		return 0;
	if (n == -FI_EAVAIL)
		endpoint_failed(&m->ep);
	check("fi_cq_read", n);
	for (ssize_t i = 0; i < n; i++) {
		struct op *op = entry[i].op_context;

		if (op->slot < 0) {
			m->sending--;
			continue;
		}
		message_check(m, m->in + (size_t)op->slot * cfg.size, entry[i].len, round);
		m->got++;
		while (!member_receive(m, (uint32_t)op->slot))
			(void)fi_cq_read(m->ep.cq, NULL, 0);
	}
	return n;
}

/* To the next endpoint first, as a linear MPI_Alltoall does: so nobody is everybody's first. */
static void member_begin(struct member *m, uint32_t round)
{
	uint32_t next = 0;

	while (next < m->npeers && m->peer[next] < m->id)
		next++;
	for (uint32_t i = 0; i < m->npeers; i++) {
		m->unsent[i] = (next + i) % m->npeers;
		message_make(m->out + i * cfg.size, m->id, m->peer[i], round);
	}
	m->first = 0;
	m->left = m->npeers;
}

/* A peer that is not connected yet may refuse, and others not. Returns whether something left. */
static bool member_send(struct member *m)
{
	bool any = false;

	for (int full = 0; m->left && full < FULL_MAX;) {
		uint32_t i = m->unsent[m->first];
		ssize_t rc;

		m->tx[i].slot = -1;
		rc = fi_send(m->ep.ep, m->out + i * cfg.size, cfg.size, NULL, m->at[i], &m->tx[i]);
		m->first = (m->first + 1) % m->npeers;
		if (rc == -FI_EAGAIN) {
			m->unsent[(m->first + m->left - 1) % m->npeers] = i;
			full++;
			continue;
		}
		check("fi_send", rc);
		m->left--;
		m->sending++;
		any = true;
	}
	return any;
}

static bool member_busy(const struct member *m, uint32_t round)
{
	return m->left || m->sending || m->got < (uint64_t)round * m->npeers;
}

static void member_open(struct member *m, const struct member *first)
{
	struct fi_cq_attr cq = {.format = FI_CQ_FORMAT_MSG, .wait_obj = FI_WAIT_NONE};
	struct fi_info *hints = endpoint_hints(cfg.provider, NULL, FI_MSG);

	for (uint32_t other = 0; other < cfg.endpoints; other++)
		m->npeers += are_peers(other, m->id);
	cq.size = 2 * m->npeers + ENTRIES;
	check("fi_getinfo", endpoint_find(&m->ep, hints, cfg.node, NULL));
	m->ep.fabric = m == first ? NULL : first->ep.fabric;
	m->ep.domain = m == first ? NULL : first->ep.domain;
	endpoint_open(&m->ep, &cq);
	m->nreceives = m->npeers < RECEIVES_MAX ? m->npeers : RECEIVES_MAX;
	m->peer = array(m->npeers, sizeof(*m->peer));
	m->at = array(m->npeers, sizeof(*m->at));
	m->unsent = array(m->npeers, sizeof(*m->unsent));
	m->seen = array(cfg.endpoints, sizeof(*m->seen));
	memset(m->seen, 0, cfg.endpoints * sizeof(*m->seen));
	m->tx = array(m->npeers, sizeof(*m->tx));
	m->rx = array(m->nreceives, sizeof(*m->rx));
	m->out = array(m->npeers, cfg.size);
	m->in = array(m->nreceives, cfg.size);
}

/* `names`: of all endpoints, NAME_MAX_BYTES each. */
static void member_meet(struct member *m, const char *names)
{
	uint32_t n = 0;

	for (uint32_t other = 0; other < cfg.endpoints; other++) {
		if (!are_peers(other, m->id))
			continue;
		m->peer[n] = other;
		if (fi_av_insert(m->ep.av, names + other * (size_t)NAME_MAX_BYTES, 1, &m->at[n], 0, NULL) != 1)
			die("fi_av_insert refused the address of endpoint %u", other);
		n++;
	}
	for (uint32_t i = 0; i < m->nreceives; i++)
		if (!member_receive(m, i))
			die("fi_recv refuses receive %u of %u", i, m->nreceives);
}

static void member_close(struct member *m, bool last)
{
	if (last) {
		endpoint_close(&m->ep);
	} else {
		check("close ep", fi_close(&m->ep.ep->fid));
		check("close cq", fi_close(&m->ep.cq->fid));
		check("close av", fi_close(&m->ep.av->fid));
		fi_freeinfo(m->ep.info);
	}
}

/* ---- a process of endpoints */

static uint64_t entries(const char *dir, const char *kind, uint64_t *ofkind)
{
	DIR *d = opendir(dir);
	struct dirent *e;
	uint64_t n = 0;

	*ofkind = 0;
	while (d && (e = readdir(d))) {
		char path[512], target[64] = "";

		if (e->d_name[0] == '.')
			continue;
		n++;
		snprintf(path, sizeof(path), "%s/%s", dir, e->d_name);
		if (kind && readlink(path, target, sizeof(target) - 1) > 0)
			*ofkind += !strncmp(target, kind, strlen(kind));
	}
	if (d)
		closedir(d);
	return n;
}

static void usage_read(struct usage *u)
{
	FILE *f = fopen("/proc/self/statm", "r");
	unsigned long pages = 0;
	uint64_t none;

	if (f && fscanf(f, "%*u %lu", &pages) != 1)
		pages = 0;
	if (f)
		fclose(f);
	u->rss_kib = pages * (uint64_t)sysconf(_SC_PAGESIZE) / 1024;
	u->descriptors = entries("/proc/self/fd", "socket:", &u->sockets) - 1; /* that of the folder itself */
	u->threads = entries("/proc/self/task", NULL, &none);
}

struct process {
	struct oob oob;
	struct member *member;
	uint32_t n, round;
	double cpu_s, began_s;
};

static bool look(struct process *p)
{
	bool any = false;

	for (uint32_t i = 0; i < p->n; i++) {
		any |= p->member[i].left && member_send(&p->member[i]);
		any |= member_poll(&p->member[i], p->round) > 0;
	}
	return any;
}

/* While this process waits for others, theirs may need answers of its endpoints. */
static void progress(void *arg)
{
	if (!look(arg))
		sched_yield();
}

/* All have come here. What this process used since the last time goes to the first process. */
static void report(struct process *p)
{
	struct usage u = {.seconds = now_s(CLOCK_MONOTONIC) - p->began_s,
			  .cpu_s = now_s(CLOCK_PROCESS_CPUTIME_ID) - p->cpu_s, .endpoints = p->n};
	char go;

	usage_read(&u);
	for (uint32_t i = 0; i < p->n; i++)
		u.connections += p->member[i].npeers;
	oob_send(&p->oob, &u, sizeof(u));
	oob_recv(&p->oob, &go, 1);
	p->began_s = now_s(CLOCK_MONOTONIC);
	p->cpu_s = now_s(CLOCK_PROCESS_CPUTIME_ID);
}

static void all_to_all(struct process *p)
{
	bool open = true;

	for (uint32_t i = 0; i < p->n; i++)
		member_begin(&p->member[i], p->round);
	while (open) {
		if (!look(p))
			sched_yield();
		open = false;
		for (uint32_t i = 0; i < p->n && !open; i++)
			open = member_busy(&p->member[i], p->round);
	}
}

static void process_run(int fd, uint32_t first, uint32_t n)
{
	struct process p = {.oob = {.fd = fd}, .n = n};
	char *names = array(cfg.endpoints, NAME_MAX_BYTES);
	struct member *m = p.member = calloc(n, sizeof(*m));

	if (!m)
		die("out of memory");
	for (uint32_t i = 0; i < n; i++) {
		char name[NAME_MAX_BYTES] = "";
		size_t len = sizeof(name);

		m[i].id = first + i;
		member_open(&m[i], &m[0]);
		check("fi_getname", fi_getname(&m[i].ep.ep->fid, name, &len));
		oob_send(&p.oob, name, sizeof(name));
	}
	oob_recv(&p.oob, names, cfg.endpoints * (size_t)NAME_MAX_BYTES);
	for (uint32_t i = 0; i < n; i++)
		member_meet(&m[i], names);
	p.oob.progress = progress;
	p.oob.arg = &p;
	report(&p);
	for (uint32_t r = 1; r <= cfg.rounds; r++) {
		p.round = r;
		all_to_all(&p);
		report(&p);
	}
	/* Nobody calls the provider. */
	if (cfg.idle_s) {
		sleep(cfg.idle_s);
		report(&p);
	}
	for (uint32_t i = n; i > 0; i--)
		member_close(&m[i - 1], i == 1);
	p.oob.progress = NULL;
	report(&p);
}

/* ---- the first process, which starts the others and adds up what they say */

struct job {
	struct oob oob[PROCESSES_MAX];
	pid_t pid[PROCESSES_MAX];
};

/* What all used since the last report: sums; the longest time; and of the process of the centers. */
static struct usage collect(struct job *job, struct usage *center)
{
	struct usage sum = {0}, u;

	for (uint32_t i = 0; i < cfg.processes; i++) {
		oob_recv(&job->oob[i], &u, sizeof(u));
		if (!i)
			*center = u;
		sum.seconds = u.seconds > sum.seconds ? u.seconds : sum.seconds;
		sum.cpu_s += u.cpu_s;
		sum.rss_kib += u.rss_kib;
		sum.descriptors += u.descriptors;
		sum.sockets += u.sockets;
		sum.threads += u.threads;
		sum.endpoints += u.endpoints;
		sum.connections += u.connections;
	}
	for (uint32_t i = 0; i < cfg.processes; i++)
		oob_send(&job->oob[i], "g", 1);
	return sum;
}

/* How many endpoints process `i` has. In a star the first process has the centers alone. */
static uint32_t endpoints_of(uint32_t i)
{
	bool star = cfg.centers < cfg.endpoints;
	uint32_t n = star ? cfg.endpoints - cfg.centers : cfg.endpoints, of = cfg.processes - star;

	if (star && !i)
		return cfg.centers;
	i -= star;
	return n / of + (i < n % of);
}

static void start(struct job *job)
{
	for (uint32_t i = 0, first = 0; i < cfg.processes; first += endpoints_of(i++)) {
		int fd[2];

		if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fd))
			die("socketpair failed");
		job->oob[i].fd = fd[0];
		job->pid[i] = fork();
		if (job->pid[i] < 0)
			die("fork failed");
		if (job->pid[i])  {
			close(fd[1]);
			continue;
		}
		for (uint32_t other = 0; other <= i; other++)
			close(job->oob[other].fd);
		alarm(cfg.limit_s);
		process_run(fd[1], first, endpoints_of(i));
		exit(0);
	}
}

static void names_exchange(struct job *job)
{
	char *names = array(cfg.endpoints, NAME_MAX_BYTES);
	size_t at = 0;

	for (uint32_t i = 0; i < cfg.processes; at += endpoints_of(i++) * (size_t)NAME_MAX_BYTES)
		oob_recv(&job->oob[i], names + at, endpoints_of(i) * (size_t)NAME_MAX_BYTES);
	for (uint32_t i = 0; i < cfg.processes; i++)
		oob_send(&job->oob[i], names, at);
	free(names);
}

static int by_value(const void *a, const void *b)
{
	const double *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

static double per(double sum, uint64_t n)
{
	return n ? sum / (double)n : 0;
}

static void job_run(struct job *job)
{
	struct usage center, center_open, open, used, later = {0};
	double seconds[ROUNDS_MAX], cpu = 0;

	start(job);
	names_exchange(job);
	open = collect(job, &center_open);
	used = collect(job, &center);
	for (uint32_t r = 1; r < cfg.rounds; r++) {
		later = collect(job, &center);
		seconds[r - 1] = later.seconds;
		cpu += later.cpu_s;
	}
	if (cfg.rounds == 1)
		later = used;
	qsort(seconds, cfg.rounds - 1, sizeof(*seconds), by_value);
	printf("result provider=%s endpoints=%u centers=%u processes=%u size=%zu connections=%llu", cfg.provider,
	       cfg.endpoints, cfg.centers, cfg.processes, cfg.size, (unsigned long long)used.connections);
	printf(" first_ms=%.1f round_ms=%.2f first_cpu_us=%.1f cpu_us=%.2f", used.seconds * 1e3,
	       cfg.rounds > 1 ? seconds[(cfg.rounds - 1) / 2] * 1e3 : 0, per(used.cpu_s * 1e6, used.connections),
	       cfg.rounds > 1 ? per(cpu * 1e6 / (cfg.rounds - 1), used.connections) : 0);
	printf(" open_kib=%.1f conn_kib=%.2f fds=%.1f sockets=%.1f threads=%.1f",
	       per((double)open.rss_kib, open.endpoints),
	       per((double)later.rss_kib - (double)open.rss_kib, used.connections),
	       per((double)later.descriptors, open.endpoints), per((double)later.sockets, open.endpoints),
	       per((double)later.threads, open.endpoints));
	if (cfg.centers < cfg.endpoints)
		printf(" center_kib=%.2f center_fds=%.1f center_cpu_us=%.1f",
		       per((double)center.rss_kib - (double)center_open.rss_kib, center.connections),
		       per((double)center.descriptors, center.endpoints), per(center.cpu_s * 1e6, center.connections));
	if (cfg.idle_s)
		printf(" idle_cpu_ms=%.1f", collect(job, &center).cpu_s * 1e3 / cfg.idle_s);
	printf(" close_ms=%.1f\n", collect(job, &center).seconds * 1e3);
	for (uint32_t i = 0; i < cfg.processes; i++) {
		int status = 1;

		if (waitpid(job->pid[i], &status, 0) < 0 || status)
			die("process %u failed", i);
	}
}

static void usage(void)
{
	puts("usage: uccl_alltoall [-p PROVIDER] [-n ENDPOINTS] [-c CENTERS] [-j PROCESSES] [-r ROUNDS] [-s BYTES]\n"
	     "                     [-a ADDRESS] [-i SECONDS] [-T LIMIT]\n"
	     "       uccl_alltoall --help | --version\n"
	     "  -p  provider, for example uccl, tcp, 'tcp;ofi_rxm' (uccl)\n"
	     "  -n  endpoints (64)\n"
	     "  -c  only so many of them have all others as peers: a star (all)\n"
	     "  -j  processes over which they are spread (8, or as many as endpoints); in a star one more\n"
	     "  -r  rounds, of which the first makes the connections (11)\n"
	     "  -s  bytes of a message, 16 to 16384 (64)\n"
	     "  -a  local address of the endpoints (127.0.0.1)\n"
	     "  -i  after the rounds nobody calls the provider for so many seconds (0)\n"
	     "  -T  all ends by SIGALRM after so many seconds (600)\n"
	     "Times: first_ms and round_ms of the slowest process; first_cpu_us and cpu_us a message, of all.\n"
	     "Resident memory: open_kib an endpoint before the first message, conn_kib what each connection adds.\n"
	     "fds, sockets, threads: an endpoint, with what its process has.");
}

static uint32_t number(const char *text, unsigned long min, unsigned long max, char option)
{
	char *end;
	unsigned long v = strtoul(text, &end, 10);

	if (*end || end == text || v < min || v > max)
		die("-%c: %lu to %lu", option, min, max);
	return (uint32_t)v;
}

int main(int argc, char **argv)
{
	static const struct option longs[] = {{"help", no_argument, NULL, 'h'}, {0}};
	static struct job job;
	struct rlimit files;
	int c;

	tool_begin("uccl_alltoall", argc, argv);
	while ((c = getopt_long(argc, argv, "p:n:c:j:r:s:a:i:T:h", longs, NULL)) != -1) {
		switch (c) {
		case 'p':
			cfg.provider = optarg;
			break;
		case 'n':
			cfg.endpoints = number(optarg, 2, ENDPOINTS_MAX, 'n');
			break;
		case 'c':
			cfg.centers = number(optarg, 1, ENDPOINTS_MAX, 'c');
			break;
		case 'j':
			cfg.processes = number(optarg, 1, PROCESSES_MAX, 'j');
			break;
		case 'r':
			cfg.rounds = number(optarg, 1, ROUNDS_MAX, 'r');
			break;
		case 's':
			cfg.size = number(optarg, SIZE_MIN, SIZE_MAX_BYTES, 's');
			break;
		case 'a':
			cfg.node = optarg;
			break;
		case 'i':
			cfg.idle_s = number(optarg, 0, 3600, 'i');
			break;
		case 'T':
			cfg.limit_s = number(optarg, 1, 86400, 'T');
			break;
		default:
			usage();
			return c == 'h' ? 0 : 2;
		}
	}
	if (optind < argc) {
		usage();
		return 2;
	}
	if (!cfg.centers || cfg.centers > cfg.endpoints)
		cfg.centers = cfg.endpoints;
	if (!cfg.processes)
		cfg.processes = cfg.endpoints < 8 ? cfg.endpoints : 8;
	if (cfg.processes > cfg.endpoints)
		cfg.processes = cfg.endpoints;
	/* The centers of a star have a process of their own. */
	if (cfg.centers < cfg.endpoints && cfg.processes < PROCESSES_MAX && cfg.processes < cfg.endpoints)
		cfg.processes++;
	if (!getrlimit(RLIMIT_NOFILE, &files)) {
		files.rlim_cur = files.rlim_max;
		setrlimit(RLIMIT_NOFILE, &files);
	}
	signal(SIGPIPE, SIG_IGN);
	job_run(&job);
	return 0;
}
