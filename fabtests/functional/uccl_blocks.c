/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * A serving program in small: blocks of 16 KiB from a pool are read from workers, or written by them, for requests. Requests
 * are dropped at random, workers are killed, restarted and stopped. A block that is free again is poisoned, and looked at when
 * it is used again. So a byte that comes late, a wrong block and a block that is never given back are found.
 */
#include "conf.h"

#include <dirent.h>
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

#define SECONDS (6 * conf_factor)
#define MORE_SECONDS 30
#define BLOCK 16384u
#define WORKERS 3
#define POOL 256
#define SHELF 32 /* blocks that a worker has */
#define PER_REQUEST 8
#define REQUESTS 24
#define NOTES 64
#define POISON 0x5e
#define END_MS 20000 /* a request that is not over after this time never ends */
#define KILL_MS 700
#define STOP_MS 900
#define FDS 200 /* sockets of paths to workers that live, and to some that ended */

/* Write these blocks of yours there. It comes back when that is done. */
struct note {
	uint32_t id, count, failed;
	uint32_t block[PER_REQUEST];
	uint64_t addr[PER_REQUEST], key[PER_REQUEST];
};

struct hello {
	uint32_t worker, seed;
	pid_t pid;
	uint8_t name[CONF_NAME_MAX];
	uint64_t base, key;
};

static uint64_t random_state;

static uint32_t random_below(uint32_t n)
{
	random_state = random_state * 6364136223846793005ull + 1442695040888963407ull;
	return (uint32_t)(random_state >> 33) % n;
}

static uint64_t clock_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

static uint64_t base_of(const struct conf_net *net, const void *mem)
{
	return net->info->domain_attr->mr_mode & FI_MR_VIRT_ADDR ? (uintptr_t)mem : 0;
}

/* --- a worker */

struct job {
	struct conf_op recv, write[PER_REQUEST], answer;
	struct note note;
	bool writing, answering;
};

static void job_wait(struct conf_ep *e, struct job *j)
{
	j->recv = (struct conf_op){0};
	conf_post(e, (struct conf_ep *)NULL,
		  fi_recv(e->ep, &j->note, sizeof(j->note), NULL, FI_ADDR_UNSPEC, &j->recv));
}

static void job_next(struct conf_ep *e, struct job *j, fi_addr_t to)
{
	if (j->answering && j->answer.done) {
		conf_check(!j->answer.err, "an answer failed: %s", fi_strerror(j->answer.err));
		j->answering = false;
		job_wait(e, j);
	}
	if (!j->writing || j->answering)
		return;
	for (uint32_t i = 0; i < j->note.count; i++) {
		struct conf_op *w = &j->write[i];

		if (!w->done) {
			/* Some of them are taken back at this side. */
			if (!random_below(2000))
				fi_cancel(&e->ep->fid, w);
			return;
		}
		conf_check(!w->err || w->err == FI_EKEYREJECTED || w->err == FI_ECANCELED, "a write ended with: %s",
			   fi_strerror(w->err));
		j->note.failed += w->err != 0;
	}
	j->writing = false;
	j->answering = true;
	j->answer = (struct conf_op){0};
	conf_post(e, (struct conf_ep *)NULL, fi_send(e->ep, &j->note, sizeof(j->note), NULL, to, &j->answer));
}

static void job_begin(struct conf_ep *e, struct job *j, fi_addr_t to, uint8_t (*shelf)[BLOCK])
{
	if (j->recv.err == FI_ECANCELED) {
		/* The server took the note back. */
		job_wait(e, j);
		return;
	}
	conf_check(!j->recv.err && j->recv.len == sizeof(j->note) && j->note.count <= PER_REQUEST, "a wrong note came");
	j->recv.done = false;
	j->writing = true;
	for (uint32_t i = 0; i < j->note.count; i++) {
		j->write[i] = (struct conf_op){0};
		conf_post(e, (struct conf_ep *)NULL,
			  fi_write(e->ep, shelf[j->note.block[i]], BLOCK, NULL, to, j->note.addr[i], j->note.key[i],
				   &j->write[i]));
	}
}

static void worker_run(struct hello *h, const void *server, int up)
{
	static uint8_t shelf[SHELF][BLOCK];
	static struct job job[NOTES];
	struct conf_net net;
	struct conf_ep e;
	struct fid_mr *mr;
	fi_addr_t to;

	random_state = h->seed;
	for (uint32_t i = 0; i < SHELF; i++)
		conf_fill(shelf[i], BLOCK, h->seed * SHELF + i);
	conf_net_open(&net, conf_hints());
	conf_ep_open(&e, &net);
	to = conf_insert(&e, server);
	conf_good(fi_mr_reg(net.domain, shelf, sizeof(shelf), FI_REMOTE_READ, 0, CONF_KEY, 0, &mr, NULL), "fi_mr_reg");
	for (int i = 0; i < NOTES; i++)
		job_wait(&e, &job[i]);
	h->pid = getpid();
	memcpy(h->name, e.name, e.name_len);
	h->base = base_of(&net, shelf);
	h->key = fi_mr_key(mr);
	conf_check(write(up, h, sizeof(*h)) == sizeof(*h), "a worker cannot tell its name");
	for (;;) {
		conf_progress(&e);
		for (int i = 0; i < NOTES; i++) {
			if (job[i].recv.done)
				job_begin(&e, &job[i], to, shelf);
			job_next(&e, &job[i], to);
		}
	}
}

/* --- who starts workers, and kills them: a process without threads */

struct start {
	uint32_t worker, seed;
};

static void launcher_run(int down, int up)
{
	uint8_t server[CONF_NAME_MAX];
	pid_t pid[WORKERS] = {0};
	struct start s;
	int status;

	if (read(down, server, sizeof(server)) != sizeof(server))
		_exit(0);
	while (read(down, &s, sizeof(s)) == sizeof(s)) {
		pid_t *p = &pid[s.worker];

		if (*p) {
			kill(*p, SIGKILL);
			conf_check(waitpid(*p, &status, 0) == *p && WIFSIGNALED(status), "a worker had failed");
		}
		*p = fork();
		conf_check(*p >= 0, "no process");
		if (!*p) {
			struct hello h = {.worker = s.worker, .seed = s.seed};

			prctl(PR_SET_PDEATHSIG, SIGKILL);
			worker_run(&h, server, up);
		}
	}
	for (int i = 0; i < WORKERS; i++)
		if (pid[i])
			kill(pid[i], SIGKILL);
	_exit(0);
}

/* --- the server */

struct worker {
	struct hello hello;
	fi_addr_t addr;
	bool up;
	uint64_t stopped_at; /* 0: it is not */
};

struct request {
	bool used, push, dropped, lost, noted;
	uint32_t worker, seed, id, count;
	uint32_t block[PER_REQUEST], from[PER_REQUEST];
	uint64_t began;
	struct fid_mr *mr[PER_REQUEST];
	struct conf_op op[PER_REQUEST]; /* reads */
	struct conf_op send;
	struct note note;
};

static uint8_t pool[POOL][BLOCK];
static uint32_t free_block[POOL], nfree;
static struct worker worker[WORKERS];
static struct request request[REQUESTS];
static struct conf_op note_recv[NOTES];
static struct note note_in[NOTES];
static struct conf_net net;
static struct conf_ep ep;
static uint32_t next_id, next_seed = 1, slots_taken;
static uint64_t complete, dropped, lost, kills, stops;

static void block_put(uint32_t b)
{
	memset(pool[b], POISON, BLOCK);
	free_block[nfree++] = b;
}

/* Any of them, so that they rest for different times. */
static uint32_t block_get(void)
{
	uint32_t i = random_below(nfree), b = free_block[i];

	free_block[i] = free_block[--nfree];
	for (uint32_t k = 0; k < BLOCK; k++)
		conf_check(pool[b][k] == POISON, "byte %u of block %u was written while it was free", k, b);
	return b;
}

static void regions_close(struct request *r)
{
	for (uint32_t i = 0; i < r->count; i++) {
		if (r->mr[i])
			conf_good(fi_close(&r->mr[i]->fid), "fi_close region");
		r->mr[i] = NULL;
	}
}

static void request_end(struct request *r)
{
	regions_close(r);
	for (uint32_t i = 0; i < r->count; i++) {
		if (!r->dropped && !r->lost)
			conf_check(conf_same(pool[r->block[i]], BLOCK, r->seed * SHELF + r->from[i]),
				   "block %u of request %u is wrong", r->from[i], r->id);
		block_put(r->block[i]);
	}
	complete += !r->dropped && !r->lost;
	dropped += r->dropped;
	lost += r->lost && !r->dropped;
	r->used = false;
}

static bool posted(ssize_t rc, struct request *r, struct conf_op *op)
{
	conf_check(!rc || rc == -FI_EAGAIN || rc == -FI_ECONNABORTED || rc == -FI_ECONNRESET, "a post failed: %s",
		   fi_strerror((int)-rc));
	if (rc && rc != -FI_EAGAIN) {
		op->done = true;
		op->err = (int)-rc;
		r->lost = true;
	}
	return rc != -FI_EAGAIN;
}

static void post_push(struct request *r, const struct worker *w)
{
	r->note = (struct note){.id = r->id, .count = r->count};
	for (uint32_t i = 0; i < r->count; i++) {
		uint8_t *at = pool[r->block[i]];

		conf_good(fi_mr_reg(net.domain, at, BLOCK, FI_REMOTE_WRITE, 0, ++next_id, 0, &r->mr[i], NULL),
			  "fi_mr_reg");
		r->note.block[i] = r->from[i];
		r->note.addr[i] = base_of(&net, at);
		r->note.key[i] = fi_mr_key(r->mr[i]);
	}
	while (!posted(fi_send(ep.ep, &r->note, sizeof(r->note), NULL, w->addr, &r->send), r, &r->send))
		conf_progress(&ep);
}

static void request_begin(struct request *r)
{
	uint32_t at = random_below(WORKERS), count = 1 + random_below(PER_REQUEST);
	const struct worker *w = &worker[at];

	if (!w->up || nfree < count)
		return;
	memset(r, 0, sizeof(*r));
	r->used = true;
	r->worker = at;
	r->seed = w->hello.seed;
	r->count = count;
	r->push = random_below(2);
	r->id = ++next_id;
	r->began = clock_ms();
	for (uint32_t i = 0; i < count; i++) {
		r->block[i] = block_get();
		r->from[i] = random_below(SHELF);
	}
	if (r->push) {
		post_push(r, w);
		return;
	}
	for (uint32_t i = 0; i < count; i++)
		while (!posted(fi_read(ep.ep, pool[r->block[i]], BLOCK, NULL, w->addr,
				       w->hello.base + (uint64_t)r->from[i] * BLOCK, w->hello.key, &r->op[i]),
			       r, &r->op[i]))
			conf_progress(&ep);
}

/* Nobody wants it any more: its blocks are to be free soon. What the worker writes ends with the right to do so. */
static void request_drop(struct request *r)
{
	struct fi_uccl_ops_mr *ops;

	r->dropped = true;
	for (uint32_t i = 0; i < r->count; i++) {
		if (r->mr[i] && random_below(2)) {
			conf_good(fi_open_ops(&r->mr[i]->fid, FI_UCCL_OPS_MR, 0, (void **)&ops, NULL), "fi_open_ops region");
			conf_good(ops->revoke(r->mr[i], 0, BLOCK), "revoke");
			memset(pool[r->block[i]], POISON, BLOCK);
		}
		if (!r->push && !r->op[i].done)
			fi_cancel(&ep.ep->fid, &r->op[i]);
	}
	if (r->push && !r->send.done)
		fi_cancel(&ep.ep->fid, &r->send);
	regions_close(r);
}

static void op_check(const struct request *r, const struct conf_op *op)
{
	conf_check(!op->err || r->lost || (r->dropped && op->err == FI_ECANCELED), "request %u ended with: %s", r->id,
		   fi_strerror(op->err));
}

/* Is all of it over? */
static bool request_over(struct request *r)
{
	bool gone = worker[r->worker].hello.seed != r->seed || !worker[r->worker].up;

	r->lost |= gone;
	if (r->push) {
		if (!r->send.done)
			return false;
		op_check(r, &r->send);
		return r->noted || r->dropped || r->lost;
	}
	for (uint32_t i = 0; i < r->count; i++) {
		if (!r->op[i].done)
			return false;
		op_check(r, &r->op[i]);
	}
	return true;
}

/* A worker says that it has written all, or could not. */
static void note_came(const struct note *n)
{
	for (int i = 0; i < REQUESTS; i++) {
		struct request *r = &request[i];

		if (!r->used || !r->push || r->id != n->id)
			continue;
		r->noted = true;
		/* The worker took some back. */
		r->lost |= n->failed != 0;
	}
}

static void notes(void)
{
	for (int i = 0; i < NOTES; i++) {
		struct conf_op *op = &note_recv[i];

		if (!op->done)
			continue;
		/* A worker may die in the middle of a note. */
		conf_check(!op->err || op->err == FI_ECONNABORTED || op->err == FI_ECANCELED, "a receive ended with: %s",
			   fi_strerror(op->err));
		if (!op->err)
			note_came(&note_in[i]);
		*op = (struct conf_op){0};
		conf_post(&ep, (struct conf_ep *)NULL,
			  fi_recv(ep.ep, &note_in[i], sizeof(note_in[i]), NULL, FI_ADDR_UNSPEC, op));
	}
}

static void requests(bool more)
{
	for (int i = 0; i < REQUESTS; i++) {
		struct request *r = &request[i];

		if (!r->used && more && slots_taken > (uint32_t)i)
			request_begin(r);
		if (!r->used)
			continue;
		if (request_over(r)) {
			request_end(r);
			continue;
		}
		if (!r->dropped && !random_below(400))
			request_drop(r);
		conf_check(clock_ms() - r->began < END_MS, "request %u (%s, %u blocks%s%s) does not end", r->id,
			   r->push ? "push" : "pull", r->count, r->dropped ? ", dropped" : "", r->lost ? ", lost" : "");
	}
}

static void worker_start(int down, uint32_t i)
{
	struct start s = {.worker = i, .seed = next_seed++};
	struct worker *w = &worker[i];

	if (w->up) {
		w->up = false;
		kills++;
	}
	w->stopped_at = 0;
	conf_check(write(down, &s, sizeof(s)) == sizeof(s), "nobody starts workers");
}

static void workers_came(int up)
{
	struct hello h;

	while (read(up, &h, sizeof(h)) == sizeof(h)) {
		struct worker *w = &worker[h.worker];

		if (w->hello.pid)
			conf_good(fi_av_remove(ep.av, &w->addr, 1, 0), "fi_av_remove");
		w->hello = h;
		w->addr = conf_insert(&ep, h.name);
		w->up = true;
	}
}

/* Some workers are killed, some are stopped for a while. */
static void trouble(int down, uint64_t now)
{
	static uint64_t next;
	struct worker *w = &worker[random_below(WORKERS)];

	for (int i = 0; i < WORKERS; i++)
		if (worker[i].stopped_at && now - worker[i].stopped_at >= STOP_MS) {
			kill(worker[i].hello.pid, SIGCONT);
			worker[i].stopped_at = 0;
		}
	if (now < next)
		return;
	next = now + KILL_MS / 2 + random_below(KILL_MS);
	if (!w->up)
		return;
	if (random_below(3)) {
		worker_start(down, (uint32_t)(w - worker));
	} else if (!w->stopped_at) {
		kill(w->hello.pid, SIGSTOP);
		w->stopped_at = now;
		stops++;
	}
}

static unsigned int descriptors(void)
{
	DIR *d = opendir("/proc/self/fd");
	unsigned int n = 0;

	while (d && readdir(d))
		n++;
	if (d)
		closedir(d);
	return n;
}

/*
 * A sanitizer keeps what was freed for a while, so it is asked what is allocated. Pages of files do not count: libraries,
 * and the queues of an RDMA NIC, which are there when they are first used.
 */
size_t __sanitizer_get_current_allocated_bytes(void) __attribute__((weak));

static uint64_t memory_kib(void)
{
	unsigned long long kib = 0;
	char line[256];
	FILE *f;

	if (__sanitizer_get_current_allocated_bytes)
		return __sanitizer_get_current_allocated_bytes() / 1024;
	f = fopen("/proc/self/status", "r");
	while (f && fgets(line, sizeof(line), f) && !sscanf(line, "RssAnon: %llu", &kib))
		;
	if (f)
		fclose(f);
	conf_check(kib > 0, "/proc/self/status does not tell how much memory is used");
	return kib;
}

/* Was enough tried for a verdict? A busy machine needs more time for it. */
static bool tried(void)
{
	return complete > 50 && dropped > 5 && kills > 1;
}

static void serve(void)
{
	uint64_t began = clock_ms(), half_kib = 0, half_kills = 0, now, kib;
	int down[2], up[2];
	unsigned int fds = 0;
	pid_t launcher;

	alarm(SECONDS + MORE_SECONDS + 60);
	conf_check(!pipe(down) && !pipe(up), "no pipes");
	launcher = fork();
	conf_check(launcher >= 0, "no process");
	if (!launcher) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		close(down[1]);
		close(up[0]);
		launcher_run(down[0], up[1]);
	}
	close(down[0]);
	close(up[1]);
	fcntl(up[0], F_SETFL, O_NONBLOCK);
	random_state = 7;
	conf_net_open(&net, conf_hints());
	conf_ep_open(&ep, &net);
	conf_check(write(down[1], ep.name, sizeof(ep.name)) == sizeof(ep.name), "nobody starts workers");
	for (uint32_t b = 0; b < POOL; b++)
		block_put(b);
	for (int i = 0; i < NOTES; i++)
		note_recv[i].done = true;
	for (uint32_t i = 0; i < WORKERS; i++)
		worker_start(down[1], i);
	for (now = began; now - began < (tried() ? SECONDS : SECONDS + MORE_SECONDS) * 1000; now = clock_ms()) {
		slots_taken = 1 + (uint32_t)((now - began) / 50) % REQUESTS;
		for (int i = 0; i < 8; i++)
			conf_progress(&ep);
		workers_came(up[0]);
		notes();
		requests(true);
		trouble(down[1], now);
		if (!half_kib && now - began > SECONDS * 500) {
			half_kib = memory_kib();
			half_kills = kills;
			fds = descriptors();
		}
		conf_check(waitpid(launcher, NULL, WNOHANG) == 0, "a worker has failed");
	}
	for (uint32_t i = 0; i < WORKERS; i++)
		if (worker[i].stopped_at)
			kill(worker[i].hello.pid, SIGCONT);
	for (now = clock_ms(); nfree < POOL && clock_ms() - now < END_MS;) {
		conf_progress(&ep);
		notes();
		requests(false);
	}
	conf_check(nfree == POOL, "%u blocks were never given back", POOL - nfree);
	for (uint32_t n = POOL; n; n--)
		block_get();
	kib = memory_kib();
	printf("     %llu requests complete, %llu dropped, %llu lost; %llu workers killed, %llu stopped; memory %llu, then "
	       "%llu KiB; descriptors %u, then %u\n",
	       (unsigned long long)complete, (unsigned long long)dropped, (unsigned long long)lost,
	       (unsigned long long)kills, (unsigned long long)stops, (unsigned long long)half_kib,
	       (unsigned long long)kib, fds, descriptors());
	fflush(stdout);
	conf_check(tried(), "too little was tried");
	/* Peers that ended may still be known for a while. */
	conf_check(kib <= half_kib + 4096 + (kills - half_kills), "memory grew from %llu to %llu KiB",
		   (unsigned long long)half_kib, (unsigned long long)kib);
	conf_check(descriptors() <= fds + FDS + (kills - half_kills) / 8, "descriptors grew from %u to %u", fds,
		   descriptors());
	close(down[1]);
	waitpid(launcher, NULL, 0);
	conf_ep_close(&ep);
	conf_net_close(&net);
}

static const struct conf_case cases[] = {
	{"blocks", NULL, serve},
	{"blocks-lanes", "FI_UCCL_LANES=2", serve},
	{"blocks-drop-1", "FI_UCCL_FAULT=drop=0.01", serve},
};

int main(int argc, char **argv)
{
	return conf_main(argc, argv, cases, sizeof(cases) / sizeof(*cases));
}
