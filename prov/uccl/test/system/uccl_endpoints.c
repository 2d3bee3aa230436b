/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Two processes with many endpoints each, a thread to every endpoint, all of which send to all of the other process:
 * what endpoints of a process share is used by many threads at once, and all data is checked.
 *
 *   uccl_endpoints [-e ENDPOINTS] [-m MESSAGES] [-s BYTES] DOMAIN [DOMAIN]	(4 10 200000)
 *
 * The first process is on the first domain, the other one on the second. Half of the threads spin, the others sleep in
 * fi_cq_sread(). A third of the endpoints close while the others still send.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../../../../util/bench/endpoint.h"

#define ENDPOINTS_MAX 64
#define NAME_MAX_BYTES 64
#define LIMIT_S 300

/* What both processes see. */
struct board {
	_Atomic int open, early; /* endpoints that can be sent to; that need nothing any more */
	uint8_t name[2][ENDPOINTS_MAX][NAME_MAX_BYTES];
};

/* An endpoint, and the thread that drives it. */
struct actor {
	int index;
	struct endpoint fab;
	fi_addr_t peer[ENDPOINTS_MAX];
	uint8_t *out, *in;
	uint64_t wrong;
	pthread_t thread;
};

static struct {
	uint64_t endpoints, messages, bytes;
} opt = {.endpoints = 4, .messages = 10, .bytes = 200000};

static struct board *board;
static int side;
static struct endpoint shared; /* what all endpoints of a process have in common */
static struct actor actors[ENDPOINTS_MAX];

static uint8_t content(uint64_t tag, uint64_t at)
{
	return (uint8_t)(tag * 131 + at * 7 + (at >> 8));
}

/* Of message n from endpoint `from` to endpoint `to` of the other process. */
static uint64_t tag_of(uint64_t from, uint64_t to, uint64_t n)
{
	return n << 16 | from << 8 | to;
}

static void domain_open(const char *name)
{
	struct fi_info *hints = endpoint_hints("uccl", name, FI_TAGGED);

	hints->domain_attr->threading = FI_THREAD_SAFE;
	check("fi_getinfo", endpoint_find(&shared, hints, NULL, NULL));
	check("fi_fabric", fi_fabric(shared.info->fabric_attr, &shared.fabric, NULL));
	check("fi_domain", fi_domain(shared.fabric, shared.info, &shared.domain, NULL));
}

static void actor_open(struct actor *e)
{
	struct fi_cq_attr cq_attr = {.format = FI_CQ_FORMAT_TAGGED, .wait_obj = FI_WAIT_UNSPEC};
	size_t len = NAME_MAX_BYTES;

	e->fab = shared;
	endpoint_open(&e->fab, &cq_attr);
	check("fi_getname", fi_getname(&e->fab.ep->fid, board->name[side][e->index], &len));
	e->out = malloc(opt.endpoints * opt.bytes);
	e->in = malloc(opt.endpoints * opt.bytes);
	if (!e->out || !e->in)
		die("no memory");
}

static void actor_close(struct actor *e)
{
	fi_close(&e->fab.ep->fid);
	fi_close(&e->fab.cq->fid);
	fi_close(&e->fab.av->fid);
	free(e->out);
	free(e->in);
}

/* One completion, for so many ms. */
static uint64_t completions(struct actor *e, int ms)
{
	struct fi_cq_tagged_entry c;
	struct fi_cq_err_entry err = {0};
	ssize_t rc = e->index % 2 ? fi_cq_sread(e->fab.cq, &c, 1, NULL, ms) : fi_cq_read(e->fab.cq, &c, 1);

	if (rc == -FI_EAVAIL) {
		fi_cq_readerr(e->fab.cq, &err, 0);
		check("an operation failed", -err.err);
	}
	if (rc != -FI_EAGAIN && rc != -FI_EINTR)
		check("fi_cq_read", rc);
	return rc == 1;
}

/* One message to and from each: 2 x endpoints completions. */
static void round_run(struct actor *e, uint64_t n)
{
	uint64_t done = 0, me = (uint64_t)e->index;
	ssize_t rc;

	for (uint64_t k = 0; k < opt.endpoints; k++) {
		memset(e->in + k * opt.bytes, 0, opt.bytes);
		while ((rc = fi_trecv(e->fab.ep, e->in + k * opt.bytes, opt.bytes, NULL, e->peer[k], tag_of(k, me, n),
				      0, NULL)) == -FI_EAGAIN)
			done += completions(e, 0);
		check("fi_trecv", rc);
	}
	for (uint64_t k = 0; k < opt.endpoints; k++) {
		for (uint64_t at = 0; at < opt.bytes; at++)
			e->out[k * opt.bytes + at] = content(tag_of(me, k, n), at);
		while ((rc = fi_tsend(e->fab.ep, e->out + k * opt.bytes, opt.bytes, NULL, e->peer[k],
				      tag_of(me, k, n), NULL)) == -FI_EAGAIN)
			done += completions(e, 0);
		check("fi_tsend", rc);
	}
	while (done < 2 * opt.endpoints)
		done += completions(e, 100);
	for (uint64_t k = 0; k < opt.endpoints; k++)
		for (uint64_t at = 0; at < opt.bytes; at++)
			e->wrong += e->in[k * opt.bytes + at] != content(tag_of(k, me, n), at);
}

static void *endpoint_run(void *arg)
{
	struct actor *e = arg;

	board->open++;
	while (board->open < 2 * (int)opt.endpoints)
		usleep(1000);
	for (uint64_t k = 0; k < opt.endpoints; k++)
		check("fi_av_insert", fi_av_insert(e->fab.av, board->name[!side][k], 1, &e->peer[k], 0, NULL) - 1);
	for (uint64_t n = 0; n < opt.messages; n++)
		round_run(e, n);
	board->early++;
	/* The first third goes at once, the others answer until all have what they need. */
	while (e->index % 3 && board->early < 2 * (int)opt.endpoints)
		completions(e, 10);
	actor_close(e);
	return NULL;
}

static int process_run(const char *name)
{
	uint64_t wrong = 0;

	domain_open(name);
	for (uint64_t i = 0; i < opt.endpoints; i++) {
		actors[i].index = (int)i;
		actor_open(&actors[i]);
	}
	for (uint64_t i = 0; i < opt.endpoints; i++)
		check("pthread_create", -pthread_create(&actors[i].thread, NULL, endpoint_run, &actors[i]));
	for (uint64_t i = 0; i < opt.endpoints; i++) {
		pthread_join(actors[i].thread, NULL);
		wrong += actors[i].wrong;
	}
	fi_close(&shared.domain->fid);
	fi_close(&shared.fabric->fid);
	fi_freeinfo(shared.info);
	printf("process=%d endpoints=%llu messages=%llu wrong_bytes=%llu\n", side, (unsigned long long)opt.endpoints,
	       (unsigned long long)(opt.endpoints * opt.endpoints * opt.messages), (unsigned long long)wrong);
	fflush(stdout);
	return wrong != 0;
}

static uint64_t number(const char *text, uint64_t most)
{
	char *end;
	uint64_t n = strtoull(text, &end, 0);

	if (!n || *end || n > most) {
		fprintf(stderr, "uccl_endpoints: not a number from 1 to %llu: %s\n", (unsigned long long)most, text);
		exit(2);
	}
	return n;
}

int main(int argc, char **argv)
{
	int c, status, failed = 0;
	pid_t other;

	while ((c = getopt(argc, argv, "e:m:s:")) != -1) {
		if (c == 'e')
			opt.endpoints = number(optarg, ENDPOINTS_MAX);
		else if (c == 'm')
			opt.messages = number(optarg, 1 << 20);
		else if (c == 's')
			opt.bytes = number(optarg, 1 << 26);
		else
			return 2;
	}
	if (optind == argc) {
		fprintf(stderr, "uccl_endpoints: a domain is needed\n");
		return 2;
	}
	board = mmap(NULL, sizeof(*board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (board == MAP_FAILED)
		die("no memory");
	alarm(LIMIT_S);
	other = fork();
	check("fork", other < 0 ? -FI_ENOMEM : 0);
	side = other == 0;
	if (!other)
		alarm(LIMIT_S);
	failed = process_run(argv[side && optind + 1 < argc ? optind + 1 : optind]);
	if (!other)
		return failed;
	if (waitpid(other, &status, 0) != other || !WIFEXITED(status) || WEXITSTATUS(status))
		failed = 1;
	printf("%s\n", failed ? "failed" : "right");
	return failed;
}
