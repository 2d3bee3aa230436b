/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* What fi_cancel takes back ends once, nothing of it lands later, and what is posted next goes on. */
#include "conf.h"

#include <fcntl.h>
#include <rdma/fi_ext_uccl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define LEN (1u << 20)
#define ROUNDS (250 * conf_factor)
#define POISON 0x5e

static uint8_t src[LEN + 2], dst[LEN + 2];

static const size_t sizes[] = {1, 900, 5000, 20000, 65536, 100000, LEN};
#define SIZES (sizeof(sizes) / sizeof(*sizes))

static uint64_t taken, complete, random_state = 1;

static uint32_t random_below(uint32_t n)
{
	random_state = random_state * 6364136223846793005ull + 1442695040888963407ull;
	return (uint32_t)(random_state >> 33) % n;
}

static void some_rounds(struct conf_pair *p)
{
	for (uint32_t n = random_below(4) ? random_below(8) : random_below(300); n; n--) {
		conf_poll(&p->a);
		conf_poll(&p->b);
	}
}

/* How long each took from fi_cancel to its end, in microseconds. */
#define TOOK_MAX (1u << 20)
#define TOOK_MOST_US 5000000
static uint32_t took_us[TOOK_MAX], took_n;

static uint64_t clock_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000;
}

static void took(uint64_t us)
{
	conf_check(us < TOOK_MOST_US, "an operation that was taken back did not end for %u s", TOOK_MOST_US / 1000000);
	if (took_n < TOOK_MAX)
		took_us[took_n++] = (uint32_t)us;
}

static int us_order(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return x < y ? -1 : x > y;
}

/* Microseconds within which `permille` of 1000 operations ended; they are sorted. */
static uint32_t took_within(uint32_t permille)
{
	return took_us[(uint64_t)(took_n - 1) * permille / 1000];
}

/*
 * What 99 % may take: 2 RTT + 1 ms with a peer that makes progress, 1 s with a silent one; -m multiplies the first one,
 * for a busy machine, and adds 20 ms each to the second one. A round trip is what a small message and its answer took,
 * in the median, on the same machine at the same time.
 */
#define PINGS 51
#define SILENT_US 1000000
static uint32_t bound_us = UINT32_MAX;

static void bound_silent(void)
{
	bound_us = (uint32_t)(SILENT_US + conf_margin * 20000);
}

static void bound_living(struct conf_pair *p)
{
	uint32_t us[PINGS];

	for (uint32_t i = 0; i < PINGS; i++) {
		uint64_t began = clock_us();

		conf_pair_talk(p, 8, 1000 + i);
		us[i] = (uint32_t)(clock_us() - began);
	}
	qsort(us, PINGS, sizeof(*us), us_order);
	bound_us = (uint32_t)(conf_margin * (2.0 * us[PINGS / 2] + 1000));
}

/* Take it back; it ends once, with success or FI_ECANCELED. */
static bool took_back(struct conf_pair *p, struct conf_op *op)
{
	uint64_t began;
	bool ended;
	ssize_t rc;

	conf_poll(&p->a);
	ended = op->done;
	began = clock_us();
	rc = fi_cancel(&p->a.ep->fid, op);
	conf_check(!rc || rc == -FI_ENOENT, "fi_cancel: %s", fi_strerror((int)-rc));
	conf_wait(&p->a, &p->b, op);
	if (!ended)
		took(clock_us() - began);
	conf_check(!op->err || op->err == FI_ECANCELED, "it ended with: %s", fi_strerror(op->err));
	taken += op->err != 0;
	complete += !op->err;
	return op->err;
}

static void poisoned(const char *what, size_t len)
{
	for (size_t i = 0; i < len; i++)
		conf_check(dst[i] == POISON, "%s: byte %zu was written later", what, i);
}

/* Both happened, else nothing was tried; and in time. */
static void both(void)
{
	conf_check(taken > ROUNDS / 50 && complete, "%llu taken back, %llu complete", (unsigned long long)taken,
		   (unsigned long long)complete);
	if (!took_n)
		return;
	qsort(took_us, took_n, sizeof(*took_us), us_order);
	printf("     taken=%llu complete=%llu p50_us=%u p99_us=%u max_us=%u bound_us=%u\n", (unsigned long long)taken,
	       (unsigned long long)complete, took_within(500), took_within(990), took_within(1000), bound_us);
	fflush(stdout);
	conf_check(took_within(990) <= bound_us, "99 %% ended within %u us, more than %u (-m %g)", took_within(990),
		   bound_us, conf_margin);
}

static void sends(void)
{
	struct conf_pair p;

	conf_pair_open(&p, NULL);
	bound_living(&p);
	for (uint32_t i = 0; i < ROUNDS; i++) {
		struct conf_op send = {0}, recv = {0};
		size_t len = sizes[i % SIZES];
		bool posted = random_below(2);

		conf_fill(src, len, i);
		memset(dst, POISON, len);
		if (posted)
			conf_post(&p.b, &p.a, fi_trecv(p.b.ep, dst, LEN, NULL, FI_ADDR_UNSPEC, i, 0, &recv));
		conf_post(&p.a, &p.b, fi_tsend(p.a.ep, src, len, NULL, p.to_b, i, &send));
		some_rounds(&p);
		if (took_back(&p, &send)) {
			conf_poll(&p.b);
			conf_check(!recv.done || recv.err == FI_ECANCELED, "the receive ended with: %s",
				   fi_strerror(recv.err));
			/* Both sides may use their buffers again. */
			memset(src, 0xee, len);
			memset(dst, POISON, len);
			if (posted && !recv.done) {
				conf_good(fi_cancel(&p.b.ep->fid, &recv), "fi_cancel of a receive");
				conf_wait(&p.b, &p.a, &recv);
			}
			some_rounds(&p);
			poisoned("send", len);
			continue;
		}
		if (!posted)
			conf_post(&p.b, &p.a, fi_trecv(p.b.ep, dst, LEN, NULL, FI_ADDR_UNSPEC, i, 0, &recv));
		conf_wait_good(&p.b, &p.a, &recv);
		conf_check(recv.len == len && conf_same(dst, len, i), "message %u is wrong", i);
	}
	conf_pair_talk(&p, 100000, 2);
	conf_pair_close(&p);
	both();
}

static void remote_memory(void)
{
	struct conf_pair p;
	struct fid_mr *mr;
	uint64_t base;

	conf_pair_open(&p, NULL);
	bound_living(&p);
	mr = conf_region(&p, dst, sizeof(dst), FI_REMOTE_WRITE | FI_REMOTE_READ, &base);
	for (uint32_t i = 0; i < ROUNDS; i++) {
		size_t len = sizes[i % SIZES];
		struct conf_op op = {0};
		bool back;

		if (i & 1) {
			conf_fill(src, len, i);
			conf_post(&p.a, &p.b, fi_write(p.a.ep, src, len, NULL, p.to_b, base, fi_mr_key(mr), &op));
		} else {
			conf_fill(dst, len, i);
			conf_post(&p.a, &p.b, fi_read(p.a.ep, src, len, NULL, p.to_b, base, fi_mr_key(mr), &op));
		}
		/* On one host most would be complete: half are taken back at once. */
		if (i & 2)
			some_rounds(&p);
		back = took_back(&p, &op);
		conf_check(back || conf_same(i & 1 ? dst : src, len, i), "operation %u is wrong", i);
		memset(dst, POISON, len);
		memset(src, POISON, len);
		some_rounds(&p);
		poisoned("write", len);
		conf_check(!memcmp(src, dst, len), "read: it was written later");
	}
	conf_good(fi_close(&mr->fid), "fi_close region");
	conf_pair_close(&p);
	both();
}

/* Each addition is made once, or not and said so. */
static void atomics(void)
{
	uint64_t value = 0, was, one = 1, made = 0;
	struct conf_pair p;
	struct fid_mr *mr;
	uint64_t base;

	conf_pair_open(&p, NULL);
	mr = conf_region(&p, &value, sizeof(value), FI_REMOTE_WRITE | FI_REMOTE_READ, &base);
	for (uint32_t i = 0; i < ROUNDS; i++) {
		struct conf_op op = {0};

		conf_post(&p.a, &p.b,
			  fi_fetch_atomic(p.a.ep, &one, 1, NULL, &was, NULL, p.to_b, base, fi_mr_key(mr), FI_UINT64,
					  FI_SUM, &op));
		for (uint32_t n = random_below(4); n; n--)
			conf_poll(i & 1 ? &p.a : &p.b);
		if (!took_back(&p, &op))
			conf_check(was == made++, "the atomic found %llu", (unsigned long long)was);
		conf_check(value == made, "%llu additions of 1 made %llu", (unsigned long long)made,
			   (unsigned long long)value);
	}
	conf_good(fi_close(&mr->fid), "fi_close region");
	conf_pair_close(&p);
	conf_check(complete, "none was made");
}

/*
 * The owner takes back half of a region, or the peer's rights to all of it, while writes are under way: nothing is
 * written there when the call has returned, and the rest goes on.
 */
static void revokes(void)
{
	struct conf_pair p;

	conf_pair_open(&p, NULL);
	conf_pair_talk(&p, 1000, 1);
	for (uint32_t i = 0; i < ROUNDS / 2; i++) {
		size_t half = sizes[i % SIZES] / 2 + 1;
		struct fi_uccl_ops_mr *ops;
		struct conf_op op = {0};
		struct fid_mr *mr;
		uint64_t base;

		conf_fill(src, 2 * half, i);
		mr = conf_region(&p, dst, 2 * half, FI_REMOTE_WRITE, &base);
		conf_good(fi_open_ops(&mr->fid, FI_UCCL_OPS_MR, 0, (void **)&ops, NULL), "fi_open_ops region");
		conf_post(&p.a, &p.b, fi_write(p.a.ep, src, 2 * half, NULL, p.to_b, base, fi_mr_key(mr), &op));
		some_rounds(&p);
		if (i & 1)
			conf_good(ops->revoke(mr, half, half), "revoke");
		else
			conf_good(ops->revoke_peer(mr, p.b.ep, p.to_a), "revoke_peer");
		memset(dst + (i & 1 ? half : 0), POISON, i & 1 ? half : 2 * half);
		conf_wait(&p.a, &p.b, &op);
		conf_check(!op.err || op.err == FI_EKEYREJECTED, "it ended with: %s", fi_strerror(op.err));
		taken += op.err != 0;
		complete += !op.err;
		op = (struct conf_op){0};
		conf_post(&p.a, &p.b, fi_write(p.a.ep, src, half, NULL, p.to_b, base, fi_mr_key(mr), &op));
		conf_wait(&p.a, &p.b, &op);
		conf_check(op.err == (i & 1 ? 0 : FI_EKEYREJECTED), "the next one ended with: %s", fi_strerror(op.err));
		for (size_t k = i & 1 ? half : 0; k < 2 * half; k++)
			conf_check(dst[k] == POISON, "byte %zu was written later", k);
		conf_good(fi_close(&mr->fid), "fi_close region");
	}
	conf_pair_close(&p);
	both();
}

/* Messages to a process that is stopped, or killed, in the middle. */
#define AT_ONCE 64
#define EACH 262144u
#define RECVS 128

struct process {
	pid_t pid;
	int down, up;
};

static uint8_t many[AT_ONCE][EACH], came[RECVS][EACH];

/* Each message that comes is what was sent: none has what its sender wrote over it later. */
static void process_run(int down, int up)
{
	static struct conf_op recv[RECVS];
	uint8_t name[CONF_NAME_MAX] = {0}, byte;
	struct conf_net net;
	struct conf_ep e;

	conf_net_open(&net, conf_hints());
	conf_ep_open(&e, &net);
	for (unsigned int i = 0; i < RECVS; i++)
		conf_post(&e, (struct conf_ep *)NULL,
			  fi_trecv(e.ep, came[i], EACH, NULL, FI_ADDR_UNSPEC, 0, UINT64_MAX, &recv[i]));
	memcpy(name, e.name, e.name_len);
	conf_check(write(up, name, sizeof(name)) == sizeof(name), "the peer cannot tell its name");
	fcntl(down, F_SETFL, O_NONBLOCK);
	while (read(down, &byte, 1)) {
		conf_progress(&e);
		for (unsigned int i = 0; i < RECVS; i++) {
			struct conf_op *op = &recv[i];

			if (!op->done)
				continue;
			conf_check(!op->err || op->err == FI_ECANCELED, "a receive ended with: %s", fi_strerror(op->err));
			conf_check(op->err || conf_same(came[i], op->len, (uint32_t)op->tag), "message %u is wrong",
				   (unsigned int)op->tag);
			*op = (struct conf_op){0};
			conf_post(&e, (struct conf_ep *)NULL,
				  fi_trecv(e.ep, came[i], EACH, NULL, FI_ADDR_UNSPEC, 0, UINT64_MAX, op));
		}
	}
	_exit(0);
}

/* Before this process has threads. */
static void process_start(struct process *p)
{
	int down[2], up[2];

	conf_check(!pipe(down) && !pipe(up), "no pipes");
	p->pid = fork();
	conf_check(p->pid >= 0, "no process");
	if (!p->pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		close(down[1]);
		close(up[0]);
		process_run(down[0], up[1]);
	}
	close(down[0]);
	close(up[1]);
	p->down = down[1];
	p->up = up[0];
}

/* All of them are taken back at once, and end in time, each once. */
static void all_end(struct conf_ep *e, struct conf_op *ops, bool stopped)
{
	uint64_t began = clock_us();

	for (unsigned int i = 0; i < AT_ONCE; i++) {
		ssize_t rc = fi_cancel(&e->ep->fid, &ops[i]);

		conf_check(!rc || rc == -FI_ENOENT, "fi_cancel: %s", fi_strerror((int)-rc));
	}
	for (unsigned int i = 0; i < AT_ONCE; i++) {
		conf_wait(e, NULL, &ops[i]);
		took(clock_us() - began);
		conf_check(!ops[i].err || ops[i].err == FI_ECANCELED || !stopped, "it ended with: %s",
			   fi_strerror(ops[i].err));
		taken += ops[i].err != 0;
		complete += !ops[i].err;
	}
}

/* Post a send. A peer whose end is known already refuses it (`may_end`): then it has ended. */
static void send_or_end(struct conf_ep *e, fi_addr_t to, uint32_t i, uint32_t len, uint32_t key, struct conf_op *op,
			bool may_end)
{
	ssize_t rc;

	*op = (struct conf_op){0};
	while ((rc = fi_tsend(e->ep, many[i], len, NULL, to, key, op)) == -FI_EAGAIN)
		conf_progress(e);
	conf_check(!rc || (may_end && rc == -FI_ECONNABORTED), "fi_tsend: %s", fi_strerror((int)-rc));
	op->done = rc != 0;
	op->err = (int)-rc;
}

static void process_case(bool stopped)
{
	static struct conf_op ops[AT_ONCE];
	uint8_t name[CONF_NAME_MAX];
	struct process p;
	struct conf_net net;
	struct conf_ep e;
	fi_addr_t to;
	int status = 0;

	process_start(&p);
	conf_check(read(p.up, name, sizeof(name)) == sizeof(name), "the peer did not start");
	conf_net_open(&net, conf_hints());
	conf_ep_open(&e, &net);
	to = conf_insert(&e, name);
	bound_silent();
	for (uint32_t round = 0; round < 3 * conf_factor; round++) {
		for (uint32_t i = 0; i < AT_ONCE; i++) {
			uint32_t len = 1 + random_below(EACH), key = round * AT_ONCE + i;
			bool last = round + 1 == 3 * conf_factor;

			if (!round && i == AT_ONCE / 2)
				conf_wait(&e, NULL, &ops[0]);
			/* The last ones find a silent peer, or one whose end is known. */
			if (i == AT_ONCE / 2)
				kill(p.pid, stopped ? SIGSTOP : last ? SIGKILL : SIGCONT);
			conf_fill(many[i], len, key);
			send_or_end(&e, to, i, len, key, &ops[i], !stopped && last && i >= AT_ONCE / 2);
			for (uint32_t n = random_below(4); n; n--)
				conf_poll(&e);
		}
		all_end(&e, ops, stopped);
		memset(many, 0xee, sizeof(many));
		kill(p.pid, SIGCONT);
		/* What was under way, and the ABORT behind it, is said now. */
		for (uint64_t until = clock_us() + 100000; clock_us() < until;)
			conf_progress(&e);
	}
	close(p.down);
	while (waitpid(p.pid, &status, WNOHANG) == 0)
		conf_progress(&e);
	conf_check(stopped ? WIFEXITED(status) && !WEXITSTATUS(status) : WIFSIGNALED(status), "the peer failed");
	both();
}

static void stopped(void)
{
	process_case(true);
}

static void killed(void)
{
	process_case(false);
}

/*
 * Many at once, of one kind. They are posted, taken back and waited for together. What one that was taken back could
 * have written to is looked at ten seconds later, before its place is used next.
 */
#define BULK 64
#define BULK_LEN 65536u
#define BULK_PLACES 16
#define BULK_BATCHES (4 * conf_factor)
#define LOOK_US (conf_factor > 1 ? 10000000 : 200000)

enum bulk_kind { BULK_SENDS, BULK_WRITES, BULK_READS };

static struct bulk_place {
	uint64_t quiet_us; /* since then nothing may come; 0: nobody uses it */
	bool back[BULK];
	uint8_t mem[BULK][BULK_LEN];
} places[BULK_PLACES];

static uint8_t from[BULK][BULK_LEN];

static size_t bulk_len(uint32_t key)
{
	static const size_t lens[] = {900, 5000, 20000, BULK_LEN, BULK_LEN};

	return lens[key % (sizeof(lens) / sizeof(*lens))];
}

/* The second look. */
static void bulk_look(struct conf_pair *p, struct bulk_place *at)
{
	if (!at->quiet_us)
		return;
	while (clock_us() < at->quiet_us + LOOK_US) {
		conf_progress(&p->a);
		conf_progress(&p->b);
	}
	for (unsigned int i = 0; i < BULK; i++)
		for (size_t k = 0; at->back[i] && k < BULK_LEN; k++)
			conf_check(at->mem[i][k] == POISON, "byte %zu was written later", k);
	at->quiet_us = 0;
}

static void bulk_post(struct conf_pair *p, enum bulk_kind kind, struct bulk_place *at, unsigned int i, size_t len,
		      uint64_t base, uint64_t rkey, struct conf_op *op)
{
	uint8_t *to = at->mem[i];

	if (kind == BULK_SENDS)
		conf_post(&p->a, &p->b, fi_tsend(p->a.ep, from[i], len, NULL, p->to_b, i, op));
	else if (kind == BULK_WRITES)
		conf_post(&p->a, &p->b,
			  fi_write(p->a.ep, from[i], len, NULL, p->to_b, base + (uint64_t)(to - (uint8_t *)places), rkey,
				   op));
	else
		conf_post(&p->a, &p->b,
			  fi_read(p->a.ep, to, len, NULL, p->to_b, base + (uint64_t)(from[i] - from[0]), rkey, op));
}

/* All of them are taken back; each ends once. */
static void bulk_take(struct conf_pair *p, struct conf_op *ops)
{
	uint64_t began[BULK];
	bool ended[BULK];
	unsigned int left = 0;

	for (unsigned int i = 0; i < BULK; i++) {
		ssize_t rc;

		ended[i] = ops[i].done;
		began[i] = clock_us();
		rc = ended[i] ? 0 : fi_cancel(&p->a.ep->fid, &ops[i]);
		conf_check(!rc || rc == -FI_ENOENT, "fi_cancel: %s", fi_strerror((int)-rc));
		left += !ended[i];
	}
	while (left) {
		conf_progress(&p->a);
		conf_progress(&p->b);
		for (unsigned int i = 0; i < BULK; i++)
			if (!ended[i] && ops[i].done) {
				ended[i] = true;
				left--;
				took(clock_us() - began[i]);
			}
	}
}

static void bulk_batch(struct conf_pair *p, enum bulk_kind kind, uint32_t batch, uint64_t base, uint64_t rkey)
{
	static struct conf_op ops[BULK], recvs[BULK];
	struct bulk_place *at = &places[batch % BULK_PLACES];
	bool posted[BULK];
	ssize_t rc;

	bulk_look(p, at);
	memset(at->mem, POISON, sizeof(at->mem));
	for (unsigned int i = 0; i < BULK; i++) {
		size_t len = bulk_len(batch + i);

		ops[i] = recvs[i] = (struct conf_op){0};
		conf_fill(from[i], len, batch + i);
		posted[i] = kind == BULK_SENDS && random_below(2);
		if (posted[i])
			conf_post(&p->b, &p->a,
				  fi_trecv(p->b.ep, at->mem[i], BULK_LEN, NULL, FI_ADDR_UNSPEC, i, 0, &recvs[i]));
		bulk_post(p, kind, at, i, len, base, rkey, &ops[i]);
	}
	for (uint32_t n = random_below(4) ? random_below(3) : random_below(40); n; n--) {
		conf_poll(&p->a);
		conf_poll(&p->b);
	}
	bulk_take(p, ops);
	for (unsigned int i = 0; i < BULK; i++) {
		struct conf_op *recv = &recvs[i];

		at->back[i] = ops[i].err;
		conf_check(!ops[i].err || ops[i].err == FI_ECANCELED, "it ended with: %s", fi_strerror(ops[i].err));
		taken += ops[i].err != 0;
		complete += !ops[i].err;
		if (kind == BULK_SENDS && !at->back[i] && !posted[i])
			conf_post(&p->b, &p->a,
				  fi_trecv(p->b.ep, at->mem[i], BULK_LEN, NULL, FI_ADDR_UNSPEC, i, 0, recv));
		if (kind == BULK_SENDS && !at->back[i])
			conf_wait_good(&p->b, &p->a, recv);
		conf_check(!recv->err || recv->err == FI_ECANCELED, "a receive ended with: %s", fi_strerror(recv->err));
		if (posted[i] && !recv->done) {
			rc = fi_cancel(&p->b.ep->fid, recv);
			conf_check(!rc || rc == -FI_ENOENT, "fi_cancel of a receive: %s", fi_strerror((int)-rc));
			conf_wait(&p->b, &p->a, recv);
		}
		conf_check(at->back[i] || conf_same(at->mem[i], bulk_len(batch + i), batch + i),
			   "operation %u of batch %u is wrong", i, batch);
		if (at->back[i])
			memset(at->mem[i], POISON, BULK_LEN);
	}
	memset(from, 0xee, sizeof(from));
	at->quiet_us = clock_us();
}

static void bulk(enum bulk_kind kind)
{
	struct fid_mr *mr = NULL;
	struct conf_pair p;
	uint64_t base = 0, rkey = 0;

	conf_pair_open(&p, NULL);
	bound_living(&p);
	if (kind != BULK_SENDS) {
		mr = conf_region(&p, kind == BULK_WRITES ? (void *)places : from,
				 kind == BULK_WRITES ? sizeof(places) : sizeof(from), FI_REMOTE_WRITE | FI_REMOTE_READ,
				 &base);
		rkey = fi_mr_key(mr);
	}
	for (uint32_t i = 0; i < BULK_BATCHES; i++) {
		bulk_batch(&p, kind, i, base, rkey);
		/* In the first one queue pairs and lanes are made. */
		took_n = i ? took_n : 0;
	}
	for (unsigned int i = 0; i < BULK_PLACES; i++)
		bulk_look(&p, &places[i]);
	if (mr)
		conf_good(fi_close(&mr->fid), "fi_close region");
	conf_pair_talk(&p, 100000, 2);
	conf_pair_close(&p);
	both();
}

static void bulk_sends(void)
{
	bulk(BULK_SENDS);
}

static void bulk_writes(void)
{
	bulk(BULK_WRITES);
}

static void bulk_reads(void)
{
	bulk(BULK_READS);
}

#define SMALL "FI_UCCL_MTU=1450"

static const struct conf_case cases[] = {
	{"sends", NULL, sends},
	{"sends-drop-1", SMALL " FI_UCCL_FAULT=drop=0.01", sends},
	{"sends-drop-5", SMALL " FI_UCCL_FAULT=drop=0.05", sends},
	{"sends-lanes", "FI_UCCL_LANES=2,leave=0", sends},
	{"sends-lanes-drop-5", SMALL " FI_UCCL_LANES=2,leave=0 FI_UCCL_FAULT=drop=0.05", sends},
	{"rma", NULL, remote_memory},
	{"rma-drop-5", SMALL " FI_UCCL_FAULT=drop=0.05", remote_memory},
	{"rma-lanes", "FI_UCCL_LANES=2,leave=0", remote_memory},
	{"bulk-sends", NULL, bulk_sends},
	{"bulk-writes", NULL, bulk_writes},
	{"bulk-reads", NULL, bulk_reads},
	{"bulk-sends-lanes", "FI_UCCL_LANES=2,leave=0", bulk_sends},
	{"bulk-writes-lanes", "FI_UCCL_LANES=2,leave=0", bulk_writes},
	{"bulk-reads-lanes", "FI_UCCL_LANES=2,leave=0", bulk_reads},
	{"stopped", NULL, stopped},
	{"stopped-lanes", "FI_UCCL_LANES=2,leave=0", stopped},
	{"killed", NULL, killed},
	{"killed-lanes", "FI_UCCL_LANES=2,leave=0", killed},
	{"revokes", NULL, revokes},
	{"revokes-drop-5", SMALL " FI_UCCL_FAULT=drop=0.05", revokes},
	{"revokes-lanes", "FI_UCCL_LANES=2,leave=0", revokes},
	{"atomics", NULL, atomics},
	{"atomics-drop-5", "FI_UCCL_FAULT=drop=0.05", atomics},
};

int main(int argc, char **argv)
{
	return conf_main(argc, argv, cases, sizeof(cases) / sizeof(*cases));
}
