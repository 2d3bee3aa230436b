/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Torture of the API by several processes, drawn from a seed.
 *
 *	uccl_torture [--seed N] [--ops N] [--seconds S] [--ranks N] [--threads N] [--lanes N] [--fault SETTINGS]
 *		[--size BYTES] [--slack FACTOR] [--dir DIR] [--kill MS]
 *
 * FI_PROVIDER_PATH names the folder of the provider. Each rank draws the format of its completions, how it waits,
 * counters, completion levels and so on, and then calls: messages in all their forms, RMA, atomics, cancels, looks and
 * claims, regions that are closed under traffic. It checks that
 *
 * - each operation ends once, within a limit of time, with the length, flags, tag, data and source that it must have;
 * - every byte of a message or a read is right, and no other byte of a buffer was touched;
 * - messages match in order; multi-receive buffers are filled in order, and given back when they must be;
 * - a write is in the memory of its target when it completes, and is there before its remote CQ data, or a message
 *   behind a fence, come; operations of up to 64 KiB are ordered;
 * - atomics happen once: tickets are given once each, exchanges are a chain, sums are right;
 * - nothing writes to a buffer, or reads from one, after its operation has ended: buffers are filled with a pattern at
 *   once, and looked at later; likewise regions that were closed;
 * - counters have counted;
 * - a peer that is killed and started again at its port (--kill 0: there is none) is reached again, what was begun with
 *   it ends, and nothing of it happens twice, or after it has failed.
 *
 * The last line says what was done. Exit status 1: something was wrong; the seed, the operation, the last calls and
 * what is open are printed.
 */
#include "uccl_torture.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define STUCK_S 120 /* times slack: so long nothing may happen at all */
#define LIFE_S 1000000

static const struct role roles[] = {{"torture", role_torture}, {"victim", role_victim}};

static int usage(void)
{
	fprintf(stderr, "usage: uccl_torture [--seed N] [--ops N] [--seconds S] [--ranks N] [--threads N] [--lanes N]\n"
			"\t[--fault SETTINGS] [--size BYTES] [--slack FACTOR] [--dir DIR] [--kill MS]\n");
	return 2;
}

static bool option(struct config *c, const char *name, const char *value)
{
	if (!strcmp(name, "--seed"))
		c->seed = strtoull(value, NULL, 0);
	else if (!strcmp(name, "--ops"))
		c->ops = strtoull(value, NULL, 0);
	else if (!strcmp(name, "--seconds"))
		c->seconds = strtoull(value, NULL, 0);
	else if (!strcmp(name, "--size"))
		c->size_max = strtoull(value, NULL, 0);
	else if (!strcmp(name, "--ranks"))
		c->ranks = atoi(value);
	else if (!strcmp(name, "--threads"))
		c->workers = atoi(value);
	else if (!strcmp(name, "--lanes"))
		c->lanes = atoi(value);
	else if (!strcmp(name, "--kill"))
		c->life_ms = strtoull(value, NULL, 0);
	else if (!strcmp(name, "--slack"))
		options.slack = atof(value);
	else if (!strcmp(name, "--dir"))
		options.dir = value;
	else if (!strcmp(name, "--fault"))
		snprintf(c->fault, sizeof(c->fault), "%s", value);
	else
		return false;
	return true;
}

static bool config_good(struct config *c)
{
	if (c->ranks < 1 || c->ranks > TORTURE_RANKS || c->workers < 1 || c->workers > TORTURE_WORKERS ||
	    c->lanes < 0 || c->lanes > 16 || !c->size_max || options.slack < 0.1 || options.slack > 100)
		return false;
	c->port = c->life_ms ? free_port() : 0;
	if (!c->ops && !c->seconds)
		c->ops = 100000;
	c->slice = SMALL_AREA + c->size_max / (size_t)c->workers + ORDER_MAX;
	c->slice = (c->slice + 4095) / 4096 * 4096;
	c->cells_at = c->slice * (size_t)(c->ranks * c->workers);
	c->regions_at = c->cells_at + 4096;
	c->window = c->regions_at + REGIONS * REGION_BYTES;
	return true;
}

/* ---- what the conductor sees */

static uint64_t done_all(const struct shared *s, uint64_t *bytes)
{
	uint64_t done = 0;

	*bytes = 0;
	for (int i = 0; i < s->cfg.ranks; i++) {
		*bytes += atomic_load(&s->member[i].bytes);
		for (int k = 0; k < KINDS; k++)
			done += atomic_load(&s->member[i].done[k]);
	}
	return done;
}

static void progress_line(const struct shared *s, uint64_t began_ns)
{
	uint64_t bytes, done = done_all(s, &bytes);
	double seconds = (double)(clock_ns() - began_ns) / 1e9;

	fprintf(stderr, "\r%5.0f s  round %u  %llu operations  %.1f GB checked  %.0f operations/s ", seconds,
		atomic_load(&s->round), (unsigned long long)done, (double)bytes / 1e9, (double)done / seconds);
}

/* What the ranks left in their logs. */
static void print_logs(const struct world *w)
{
	char line[512];

	for (int i = 0; i < w->n; i++) {
		FILE *f = fopen(w->p[i].err, "re");

		while (f && fgets(line, sizeof(line), f))
			fprintf(stderr, "[%d] %s", i, line);
		if (f)
			fclose(f);
	}
}

/* The rank has said something, or ended. */
static bool said(struct world *w, int i)
{
	struct pollfd p = {.fd = w->p[i].fd, .events = POLLIN};

	return poll(&p, 1, 0) == 1;
}

struct life {
	enum { AWAY, STARTING, ALIVE } state;
	uint64_t next_ns; /* of the next change */
	unsigned int kills;
	struct uccl_rng rng;
	const char *const *env;
};

/* A life and death of the victim. Between two lives it is away for a moment. */
static void victim_step(struct world *w, struct shared *s, struct life *l)
{
	uint64_t now = clock_ns();

	if (!s->cfg.port || w->failed)
		return;
	if (l->state == AWAY && now >= l->next_ns) {
		world_spawn(w, "victim", l->env, LIFE_S);
		l->state = STARTING;
	} else if (l->state == STARTING && said(w, s->cfg.ranks)) {
		if (!world_expect(w, s->cfg.ranks, CTL_READY, 1000, NULL))
			return;
		world_tell(w, s->cfg.ranks, CTL_GO, 0, NULL, 0);
		l->state = ALIVE;
		l->next_ns = now + (s->cfg.life_ms * 1000000 / 8 << uccl_rng_below(&l->rng, 6));
	} else if (l->state == ALIVE && said(w, s->cfg.ranks)) {
		world_expect(w, s->cfg.ranks, CTL_DONE, 1000, NULL);
	} else if (l->state == ALIVE && now >= l->next_ns) {
		atomic_store(&s->victim.ready_ns, 0);
		world_kill(w, s->cfg.ranks);
		world_forget(w);
		l->state = AWAY;
		l->next_ns = now + uccl_rng_below(&l->rng, 300) * 1000000;
		l->kills++;
	}
}

static void watch(struct world *w, struct shared *s, struct life *l)
{
	uint64_t began = clock_ns(), changed = began, last = 0, next = 0, now, bytes, state;
	bool done[TORTURE_RANKS] = {false};
	int left = s->cfg.ranks;

	while (left && !w->failed) {
		sleep_ms(20);
		now = clock_ns();
		for (int i = 0; i < s->cfg.ranks && !w->failed; i++) {
			if (done[i] || !said(w, i) || !world_expect(w, i, CTL_DONE, 1000, NULL))
				continue;
			done[i] = true;
			left--;
		}
		victim_step(w, s, l);
		state = done_all(s, &bytes) + atomic_load(&s->arrived);
		if (state != last)
			changed = now;
		last = state;
		if ((double)(now - changed) > STUCK_S * 1e9 * options.slack)
			world_fail(w, "nothing happens for %.0f s", STUCK_S * options.slack);
		if (isatty(STDERR_FILENO) && now >= next) {
			next = now + 1000000000;
			progress_line(s, began);
		}
	}
	if (isatty(STDERR_FILENO))
		fputc('\n', stderr);
	if (!w->failed && l->state != AWAY)
		world_kill(w, s->cfg.ranks);
	if (!w->failed)
		return;
	/* Those that live say what they have open. */
	for (int i = 0; i < w->n; i++)
		if (w->p[i].alive)
			kill(w->p[i].pid, SIGUSR1);
	sleep_ms(1500);
}

static void summary(struct world *w, struct shared *s, const struct life *l)
{
	uint64_t sum[KINDS] = {0}, all = 0, bytes = 0, checks = 0, refused = 0, canceled = 0;

	for (int i = 0; i < s->cfg.ranks; i++) {
		struct member *m = &s->member[i];

		for (int k = 0; k < KINDS; k++)
			sum[k] += atomic_load(&m->done[k]);
		bytes += atomic_load(&m->bytes);
		checks += atomic_load(&m->checks);
		refused += atomic_load(&m->refused);
		canceled += atomic_load(&m->canceled);
	}
	if (s->cfg.port)
		world_figure(w, "kills=%u told=%llu recover_ms=%llu", l->kills,
			     (unsigned long long)atomic_load(&s->victim.failed),
			     (unsigned long long)atomic_load(&s->victim.recover_ns) / 1000000);
	for (int k = 0; k < KINDS; k++) {
		all += sum[k];
		world_figure(w, "%s=%llu", kind_names[k], (unsigned long long)sum[k]);
	}
	world_figure(w, "canceled=%llu refused=%llu operations=%llu bytes=%llu checks=%llu failures=%d",
		     (unsigned long long)canceled, (unsigned long long)refused, (unsigned long long)all,
		     (unsigned long long)bytes, (unsigned long long)checks, w->failed);
}

static int torture(const struct config *c)
{
	char fd_text[32], lanes[32], fault[160];
	const char *env[] = {fd_text, lanes, fault, NULL};
	int fd = memfd_create("torture", 0);
	struct life life = {.env = env};
	static struct world w;
	struct shared *s;

	if (fd < 0 || ftruncate(fd, (off_t)shared_bytes(c))) {
		perror("uccl_torture: memory");
		return 1;
	}
	s = shared_map(fd, shared_bytes(c));
	s->cfg = *c;
	s->cfg.ends_ns = clock_ns() + c->seconds * 1000000000;
	snprintf(fd_text, sizeof(fd_text), "TORTURE_FD=%d", fd);
	snprintf(lanes, sizeof(lanes), "FI_UCCL_LANES=%d", c->lanes);
	snprintf(fault, sizeof(fault), "FI_UCCL_FAULT=%s", c->fault);
	if (!c->fault[0])
		env[2] = NULL;
	uccl_rng_seed(&life.rng, c->seed);
	world_begin(&w, "torture");
	for (int i = 0; i < c->ranks; i++)
		world_spawn(&w, "torture", env, LIFE_S);
	world_expect_all(&w, CTL_READY, 30000, NULL);
	world_tell_all(&w, CTL_GO);
	watch(&w, s, &life);
	summary(&w, s, &life);
	if (w.failed)
		print_logs(&w);
	return world_end(&w);
}

int main(int argc, char **argv)
{
	struct config c = {.seed = 1, .ranks = 4, .workers = 1, .size_max = 8u << 20, .life_ms = 1000};

	if (argc > 2 && !strcmp(argv[1], "--rank"))
		return rank_main(argv + 2, roles, 2);
	options.dir = "torture-logs";
	for (int i = 1; i < argc; i += 2)
		if (i + 1 == argc || !option(&c, argv[i], argv[i + 1]))
			return usage();
	if (!config_good(&c))
		return usage();
	options.seed = c.seed;
	mkdir(options.dir, 0755);
	signal(SIGPIPE, SIG_IGN);
	printf("seed %llu: %d ranks, %d threads each, %d lanes, sizes up to %zu, faults: %s\n",
	       (unsigned long long)c.seed, c.ranks, c.workers, c.lanes, c.size_max, c.fault[0] ? c.fault : "none");
	fflush(stdout);
	return torture(&c);
}
