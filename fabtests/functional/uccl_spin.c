/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Automatic progress: a process that looks at its memory alone, and calls nothing, is the target of puts, gets and
 * atomics. So work programs with one-sided models (OpenSHMEM, for one), also those that sleep until the counter of a
 * region moves. UCCL_SPIN_TIMES in the environment: print how long things took.
 */
#include "conf.h"

#include <rdma/fi_eq.h>
#include <sched.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define ROUNDS 100
#define LOSS "FI_UCCL_FAULT=drop=0.01"
/* A look in vain: others may want the processor, but not at every look. */
#define LOOKS 1000

/* What the peer reaches, in each of the two processes. */
static struct cells {
	_Atomic uint64_t flag, sum, stop;
} mine;

#define AT(cell) offsetof(struct cells, cell)

struct side {
	struct conf_net net;
	struct conf_ep e;
	fi_addr_t peer;
	struct fid_mr *mr;
	struct fid_cntr *changes; /* of the region */
	int rank;
};

static uint64_t clock_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000ull + (uint64_t)ts.tv_nsec;
}

static void meet(struct side *s, int fd_in, int fd_out)
{
	struct fi_cntr_attr attr = {.wait_obj = FI_WAIT_UNSPEC};
	struct fi_info *h = conf_hints();
	uint8_t name[CONF_NAME_MAX] = {0};

	h->caps |= FI_RMA_EVENT;
	h->domain_attr->data_progress = FI_PROGRESS_AUTO;
	h->domain_attr->mr_mode = 0;
	conf_net_open(&s->net, h);
	conf_ep_open(&s->e, &s->net);
	conf_good(fi_mr_reg(s->net.domain, &mine, sizeof(mine), FI_REMOTE_READ | FI_REMOTE_WRITE, 0, CONF_KEY, 0,
			    &s->mr, NULL),
		  "fi_mr_reg");
	conf_good(fi_cntr_open(s->net.domain, &attr, &s->changes, NULL), "fi_cntr_open");
	conf_good(fi_mr_bind(s->mr, &s->changes->fid, FI_REMOTE_WRITE), "fi_mr_bind");
	memcpy(name, s->e.name, s->e.name_len);
	conf_check(write(fd_out, name, sizeof(name)) == sizeof(name) && read(fd_in, name, sizeof(name)) == sizeof(name),
		   "addresses were not exchanged");
	s->peer = conf_insert(&s->e, name);
}

static void leave(struct side *s)
{
	conf_good(fi_close(&s->mr->fid), "fi_close region");
	conf_good(fi_close(&s->changes->fid), "fi_close counter");
	conf_ep_close(&s->e);
	conf_net_close(&s->net);
}

/* Two processes, each with its own part. */
static void both(void (*first)(struct side *s), void (*second)(struct side *s))
{
	struct side s = {0};
	int to[2], from[2], status = 0;
	pid_t pid;

	conf_check(!pipe(to) && !pipe(from), "no pipes");
	pid = fork();
	conf_check(pid >= 0, "no process");
	if (!pid) {
		alarm(280);
		s.rank = 1;
		meet(&s, to[0], from[1]);
		second(&s);
		leave(&s);
		_exit(0);
	}
	meet(&s, from[0], to[1]);
	first(&s);
	leave(&s);
	waitpid(pid, &status, 0);
	conf_check(WIFEXITED(status) && !WEXITSTATUS(status), "the other process ended with status %x",
		   (unsigned int)status);
}

static int by_size(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

static void tell(const char *what, uint64_t took[ROUNDS])
{
	qsort(took, ROUNDS, sizeof(*took), by_size);
	if (getenv("UCCL_SPIN_TIMES"))
		printf("%s: median %.1f us, longest %.1f us\n", what, (double)took[ROUNDS / 2] / 1e3,
		       (double)took[ROUNDS - 1] / 1e3);
	fflush(stdout);
}

/*
 * No call of libfabric. The provider's thread copies into this memory, and nothing but the value tells when; so it is
 * with every target of RMA. ThreadSanitizer is not to look here.
 */
__attribute__((no_sanitize("thread"))) static void look_for(_Atomic uint64_t *cell, uint64_t value)
{
	for (unsigned int n = 1; atomic_load(cell) < value; n++)
		if (n % LOOKS == 0)
			sched_yield();
}

static void until_stop(struct side *s)
{
	(void)s;
	look_for(&mine.stop, 1);
}

static void finish(struct side *s, struct conf_op *op)
{
	conf_wait_good(&s->e, NULL, op);
	memset(op, 0, sizeof(*op));
}

static void put(struct side *s, uint64_t at, uint64_t value)
{
	struct conf_op op = {0};

	conf_post(&s->e, (struct conf_ep *)NULL,
		  fi_write(s->e.ep, &value, 8, NULL, s->peer, at, CONF_KEY, &op));
	finish(s, &op);
}

static uint64_t get(struct side *s, uint64_t at)
{
	struct conf_op op = {0};
	uint64_t seen = 0;

	conf_post(&s->e, (struct conf_ep *)NULL, fi_read(s->e.ep, &seen, 8, NULL, s->peer, at, CONF_KEY, &op));
	finish(s, &op);
	return seen;
}

static uint64_t add(struct side *s, uint64_t at)
{
	struct conf_op op = {0};
	uint64_t one = 1, seen = 0;

	conf_post(&s->e, (struct conf_ep *)NULL,
		  fi_fetch_atomic(s->e.ep, &one, 1, NULL, &seen, NULL, s->peer, at, CONF_KEY, FI_UINT64, FI_SUM, &op));
	finish(s, &op);
	return seen;
}

static void ask(struct side *s)
{
	uint64_t atomic[ROUNDS], write[ROUNDS], read[ROUNDS], at[4];

	for (uint64_t i = 0; i < ROUNDS; i++) {
		at[0] = clock_ns();
		conf_check(add(s, AT(sum)) == i, "atomic %llu saw another value", (unsigned long long)i);
		at[1] = clock_ns();
		put(s, AT(flag), i);
		at[2] = clock_ns();
		conf_check(get(s, AT(flag)) == i, "get %llu saw another value", (unsigned long long)i);
		at[3] = clock_ns();
		atomic[i] = at[1] - at[0];
		write[i] = at[2] - at[1];
		read[i] = at[3] - at[2];
	}
	put(s, AT(stop), 1);
	tell("atomic", atomic);
	tell("put", write);
	tell("get", read);
}

static void target(void)
{
	both(ask, until_stop);
}

/* Both look at memory, and nobody ever reads a queue. */
static void in_turn(struct side *s)
{
	uint64_t took[ROUNDS];

	for (uint64_t i = 1; i <= ROUNDS; i++) {
		uint64_t began = clock_ns();
		ssize_t rc;

		if (s->rank)
			look_for(&mine.flag, i);
		while ((rc = fi_inject_write(s->e.ep, &i, 8, s->peer, AT(flag), CONF_KEY)) == -FI_EAGAIN)
			sched_yield();
		conf_good(rc, "fi_inject_write");
		if (!s->rank)
			look_for(&mine.flag, i);
		took[i - 1] = clock_ns() - began;
	}
	if (!s->rank)
		tell("turn", took);
}

static void turns(void)
{
	both(in_turn, in_turn);
}

/* An atomic that fetches changes the region, too: who sleeps for that must wake. */
static void until_changed(struct side *s)
{
	for (uint64_t i = 1; i <= ROUNDS; i++)
		conf_check(!fi_cntr_wait(s->changes, i, 60000), "change %llu was not counted", (unsigned long long)i);
	look_for(&mine.stop, 1);
}

static void change(struct side *s)
{
	for (uint64_t i = 0; i < ROUNDS; i++)
		conf_check(add(s, AT(sum)) == i, "atomic %llu saw another value", (unsigned long long)i);
	put(s, AT(stop), 1);
}

static void counter(void)
{
	both(change, until_changed);
}

int main(int argc, char **argv)
{
	static const struct conf_case cases[] = {
		{"target", NULL, target},   {"target_loss", LOSS, target},   {"turns", NULL, turns},
		{"turns_loss", LOSS, turns}, {"counter", NULL, counter}, {"counter_loss", LOSS, counter},
	};

	return conf_main(argc, argv, cases, sizeof(cases) / sizeof(*cases));
}
