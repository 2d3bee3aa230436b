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

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_tagged.h>

#define ENDPOINTS_MAX 64
#define NAME_MAX_BYTES 64
#define LIMIT_S 300

/* What both processes see. */
struct board {
	_Atomic int open, early; /* endpoints that can be sent to; that need nothing any more */
	uint8_t name[2][ENDPOINTS_MAX][NAME_MAX_BYTES];
};

struct endpoint {
	int index;
	struct fid_av *av;
	struct fid_cq *cq;
	struct fid_ep *ep;
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
static struct fi_info *info;
static struct fid_fabric *fabric;
static struct fid_domain *domain;
static struct endpoint eps[ENDPOINTS_MAX];

static void check(const char *what, long rc)
{
	if (rc >= 0)
		return;
	fprintf(stderr, "uccl_endpoints: %s: %s\n", what, fi_strerror((int)-rc));
	exit(1);
}

static uint8_t content(uint64_t tag, uint64_t at)
{
	return (uint8_t)(tag * 131 + at * 7 + (at >> 8));
}

/* Of message n from endpoint `from` to endpoint `to` of the other process. */
static uint64_t tag_of(uint64_t from, uint64_t to, uint64_t n)
{
	return n << 16 | from << 8 | to;
}

static void fabric_open(const char *name)
{
	struct fi_info *hints = fi_allocinfo();

	hints->ep_attr->type = FI_EP_RDM;
	hints->caps = FI_TAGGED;
	hints->addr_format = FI_FORMAT_UNSPEC;
	hints->domain_attr->threading = FI_THREAD_SAFE;
	hints->fabric_attr->prov_name = strdup("uccl");
	hints->domain_attr->name = strdup(name);
	check("fi_getinfo", fi_getinfo(FI_VERSION(1, 17), NULL, NULL, 0, hints, &info));
	check("fi_fabric", fi_fabric(info->fabric_attr, &fabric, NULL));
	check("fi_domain", fi_domain(fabric, info, &domain, NULL));
	fi_freeinfo(hints);
}

static void endpoint_open(struct endpoint *e)
{
	struct fi_av_attr av_attr = {.type = FI_AV_TABLE};
	struct fi_cq_attr cq_attr = {.format = FI_CQ_FORMAT_TAGGED, .wait_obj = FI_WAIT_UNSPEC};
	size_t len = NAME_MAX_BYTES;

	check("fi_av_open", fi_av_open(domain, &av_attr, &e->av, NULL));
	check("fi_cq_open", fi_cq_open(domain, &cq_attr, &e->cq, NULL));
	check("fi_endpoint", fi_endpoint(domain, info, &e->ep, NULL));
	check("fi_ep_bind", fi_ep_bind(e->ep, &e->av->fid, 0));
	check("fi_ep_bind", fi_ep_bind(e->ep, &e->cq->fid, FI_SEND | FI_RECV));
	check("fi_enable", fi_enable(e->ep));
	check("fi_getname", fi_getname(&e->ep->fid, board->name[side][e->index], &len));
	e->out = malloc(opt.endpoints * opt.bytes);
	e->in = malloc(opt.endpoints * opt.bytes);
	if (!e->out || !e->in)
		check("malloc", -FI_ENOMEM);
}

static void endpoint_close(struct endpoint *e)
{
	fi_close(&e->ep->fid);
	fi_close(&e->cq->fid);
	fi_close(&e->av->fid);
	free(e->out);
	free(e->in);
}

/* One completion, for so many ms. */
static uint64_t completions(struct endpoint *e, int ms)
{
	struct fi_cq_tagged_entry c;
	struct fi_cq_err_entry err = {0};
	ssize_t rc = e->index % 2 ? fi_cq_sread(e->cq, &c, 1, NULL, ms) : fi_cq_read(e->cq, &c, 1);

	if (rc == -FI_EAVAIL) {
		fi_cq_readerr(e->cq, &err, 0);
		check("an operation failed", -err.err);
	}
	if (rc != -FI_EAGAIN && rc != -FI_EINTR)
		check("fi_cq_read", rc);
	return rc == 1;
}

/* One message to and from each: 2 x endpoints completions. */
static void round_run(struct endpoint *e, uint64_t n)
{
	uint64_t done = 0, me = (uint64_t)e->index;
	ssize_t rc;

	for (uint64_t k = 0; k < opt.endpoints; k++) {
		memset(e->in + k * opt.bytes, 0, opt.bytes);
		while ((rc = fi_trecv(e->ep, e->in + k * opt.bytes, opt.bytes, NULL, e->peer[k], tag_of(k, me, n), 0,
				      NULL)) == -FI_EAGAIN)
			done += completions(e, 0);
		check("fi_trecv", rc);
	}
	for (uint64_t k = 0; k < opt.endpoints; k++) {
		for (uint64_t at = 0; at < opt.bytes; at++)
			e->out[k * opt.bytes + at] = content(tag_of(me, k, n), at);
		while ((rc = fi_tsend(e->ep, e->out + k * opt.bytes, opt.bytes, NULL, e->peer[k], tag_of(me, k, n),
				      NULL)) == -FI_EAGAIN)
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
	struct endpoint *e = arg;

	board->open++;
	while (board->open < 2 * (int)opt.endpoints)
		usleep(1000);
	for (uint64_t k = 0; k < opt.endpoints; k++)
		check("fi_av_insert", fi_av_insert(e->av, board->name[!side][k], 1, &e->peer[k], 0, NULL) - 1);
	for (uint64_t n = 0; n < opt.messages; n++)
		round_run(e, n);
	board->early++;
	/* The first third goes at once, the others answer until all have what they need. */
	while (e->index % 3 && board->early < 2 * (int)opt.endpoints)
		completions(e, 10);
	endpoint_close(e);
	return NULL;
}

static int process_run(const char *name)
{
	uint64_t wrong = 0;

	fabric_open(name);
	for (uint64_t i = 0; i < opt.endpoints; i++) {
		eps[i].index = (int)i;
		endpoint_open(&eps[i]);
	}
	for (uint64_t i = 0; i < opt.endpoints; i++)
		check("pthread_create", -pthread_create(&eps[i].thread, NULL, endpoint_run, &eps[i]));
	for (uint64_t i = 0; i < opt.endpoints; i++) {
		pthread_join(eps[i].thread, NULL);
		wrong += eps[i].wrong;
	}
	fi_close(&domain->fid);
	fi_close(&fabric->fid);
	fi_freeinfo(info);
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
		check("mmap", -FI_ENOMEM);
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
