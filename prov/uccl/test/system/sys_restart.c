/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * A process with a fixed port is killed and started again at the same port. It is a new peer: what was meant for the
 * old one must fail and never reach the new one, and the new address must work.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "chaos.h"
#include "mesh.h"

#define BYTES (1u << 20)
#define SMALL 1000
#define OPEN 8 /* operations in flight when the server dies */
#define TAG 7
#define TAG_NEVER 8  /* nobody receives it, nobody sends it */
#define TAG_POISON 9 /* sent to the old server after its death */

enum { RESTART_PORT = CTL_USER, RESTART_TALK, RESTART_OPEN, RESTART_STALE, RESTART_OK };

/* ---- the server receives, and watches for what is not meant for it */

static void server_watch(struct rank *r, struct op *in, uint8_t *mem, const struct op *poison)
{
	rank_check(poison->open, "a message for the old process reached the new one");
	if (in->open)
		return;
	if (in->user) {
		rank_check(!in->err, "receiving: %s", in->text);
		rank_check(pattern_wrong(mem, in->len, in->len) == in->len, "wrong bytes");
	}
	in->user = mem;
	op_begin(in);
	rank_check(!fi_trecv(r->fab.ep, mem, BYTES, NULL, FI_ADDR_UNSPEC, TAG, 0, in), "fi_trecv");
}

void role_restart_server(struct rank *r)
{
	static struct op poison, in;
	static uint8_t bad[SMALL];
	uint8_t *mem = malloc(BYTES);
	char port[16];
	struct ctl c;

	rank_check(mem, "no memory");
	rank_wait(r, RESTART_PORT, &c);
	snprintf(port, sizeof(port), "%d", c.arg);
	rank_join(r, port, 0);
	op_begin(&poison);
	rank_check(!fi_trecv(r->fab.ep, bad, sizeof(bad), NULL, FI_ADDR_UNSPEC, TAG_POISON, 0, &poison), "fi_trecv");
	while (!rank_poll(r, &c)) {
		server_watch(r, &in, mem, &poison);
		fab_progress(&r->fab);
	}
	server_watch(r, &in, mem, &poison);
	fab_close(&r->fab);
	free(mem);
	rank_tell(r, CTL_DONE, 0, NULL, 0);
}

/* ---- the client */

static uint8_t *buf;

static bool post(struct rank *r, struct op *op, bool send, fi_addr_t to, size_t len, uint64_t tag, int *err)
{
	uint64_t end = clock_ns() + (uint64_t)(10e9 * options.slack);
	ssize_t rc;

	op_begin(op);
	do {
		rc = send ? fi_tsend(r->fab.ep, buf, len, NULL, to, tag, op)
			  : fi_trecv(r->fab.ep, buf, len, NULL, to, tag, 0, op);
		if (rc == -FI_EAGAIN)
			fab_progress(&r->fab);
		rank_check(clock_ns() < end, "posting says \"again\" for ever");
	} while (rc == -FI_EAGAIN);
	op->open = !rc;
	*err = (int)-rc;
	return !rc;
}

static void talk(struct rank *r, fi_addr_t to)
{
	static const size_t sizes[] = {8, SMALL, 100000, BYTES};
	struct op op = {0};
	int err;

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		pattern_fill(buf, sizes[i], sizes[i]);
		rank_check(post(r, &op, true, to, sizes[i], TAG, &err), "sending to a living peer: %s",
			   fi_strerror(err));
		rank_check(fab_finish(&r->fab, &op, 20000), "sending %zu bytes to a living peer does not end",
			   sizes[i]);
		rank_check(!op.err, "sending to a living peer: %s", op.text);
	}
}

static void open_some(struct rank *r, struct op *op, fi_addr_t to)
{
	int err;

	for (int i = 0; i < OPEN; i++)
		rank_check(post(r, &op[i], i & 1, to, BYTES, TAG_NEVER, &err), "posting: %s", fi_strerror(err));
}

static void check_death(const struct rank *r, const struct op *op, int gen)
{
	rank_check(op->err == FI_ECONNRESET || op->err == FI_ECONNABORTED || op->err == FI_EHOSTUNREACH,
		   "an operation with the old process: %s", op->err ? op->text : "went well");
	rank_check(strstr(op->text, r->place[gen]), "\"%s\" does not name %s", op->text, r->place[gen]);
}

/* What was in flight has failed, and so does everything new for the old process. */
static void stale(struct rank *r, struct op *op, int gen)
{
	uint64_t v[4] = {0}, began = clock_ns();
	struct op late = {0};
	int err;

	for (int i = 0; i < OPEN; i++) {
		if (!op[i].user)
			continue;
		rank_check(fab_finish(&r->fab, &op[i], 10000), "an operation with the old process has not ended");
		check_death(r, &op[i], gen);
		v[0]++;
	}
	for (int i = 0; i < 4; i++) {
		/* In all sizes, and both ways. */
		if (!post(r, &late, i < 3, r->addr[gen], i == 0 ? 8 : i == 1 ? SMALL : BYTES, TAG_POISON, &err)) {
			v[1]++;
			v[3] = (uint64_t)err;
			continue;
		}
		rank_check(fab_finish(&r->fab, &late, 10000), "an operation with the old process does not end");
		check_death(r, &late, gen);
		v[3] = (uint64_t)late.err;
		v[2]++;
	}
	v[3] |= (clock_ns() - began) / 1000000 << 32;
	rank_tell(r, RESTART_OK, 0, v, 4);
}

void role_restart_client(struct rank *r)
{
	static struct op op[OPEN];
	struct ctl c;

	buf = calloc(1, BYTES);
	rank_check(buf, "no memory");
	rank_join(r, NULL, 0);
	for (;;) {
		if (!rank_poll(r, &c)) {
			fab_progress(&r->fab);
			continue;
		}
		if (c.type == CTL_PEER) {
			rank_learn(r, &c);
		} else if (c.type == RESTART_TALK) {
			talk(r, r->addr[c.arg]);
			rank_tell(r, RESTART_OK, 0, NULL, 0);
		} else if (c.type == RESTART_OPEN) {
			for (int i = 0; i < OPEN; i++)
				op[i].user = &op[i];
			open_some(r, op, r->addr[c.arg]);
			rank_tell(r, RESTART_OK, 0, NULL, 0);
		} else if (c.type == RESTART_STALE) {
			stale(r, op, c.arg);
		} else {
			break;
		}
	}
	fab_close(&r->fab);
	free(buf);
	rank_tell(r, CTL_DONE, 0, NULL, 0);
}

/* ---- the conductor */

/* A server at the port, whose address the client learns as number `gen`. Returns its rank. */
static int server_start(struct world *w, int client, int port, int gen, const char *const *env)
{
	struct ctl c = {0};
	int rank = world_spawn(w, "restart-server", env, 60);

	world_tell(w, rank, RESTART_PORT, port, NULL, 0);
	world_expect(w, rank, CTL_ADDR, 20000, &c);
	c.type = CTL_PEER;
	c.arg = gen;
	world_pass(w, client, &c);
	return rank;
}

struct variant {
	const char *name;
	bool open;	/* operations are in flight at the death */
	bool asleep;	/* the client does nothing between death and new life */
	bool new_first; /* it uses the new address before the old one */
	const char *env;
};

static int restart_once(const struct variant *t)
{
	const char *env[] = {t->env, NULL};
	int port = free_port(), client, server;
	struct ctl c = {0};
	struct world w;

	world_begin(&w, t->name);
	client = world_spawn(&w, "restart-client", env, 60);
	world_expect(&w, client, CTL_ADDR, 20000, NULL);
	server = server_start(&w, client, port, 0, env);
	world_tell(&w, client, RESTART_TALK, 0, NULL, 0);
	world_expect(&w, client, RESTART_OK, 30000, NULL);
	if (t->open) {
		world_tell(&w, client, RESTART_OPEN, 0, NULL, 0);
		world_expect(&w, client, RESTART_OK, 10000, NULL);
		sleep_ms(50);
	}
	if (t->asleep)
		world_signal(&w, client, SIGSTOP);
	world_kill(&w, server);
	server = server_start(&w, client, port, 1, env);
	if (t->asleep)
		world_signal(&w, client, SIGCONT);
	for (int i = 0; i < 2; i++) {
		if ((i == 0) == t->new_first) {
			world_tell(&w, client, RESTART_TALK, 1, NULL, 0);
			world_expect(&w, client, RESTART_OK, 30000, NULL);
		} else {
			world_tell(&w, client, RESTART_STALE, 0, NULL, 0);
			world_expect(&w, client, RESTART_OK, 60000, &c);
		}
	}
	/* Both again: neither has undone the other. */
	world_tell(&w, client, RESTART_TALK, 1, NULL, 0);
	world_expect(&w, client, RESTART_OK, 30000, NULL);
	sleep_ms(100);
	world_tell_all(&w, CTL_GO);
	world_expect_all(&w, CTL_DONE, 20000, NULL);
	world_wait(&w, 10000);
	world_check(&w, c.v[0] == (t->open ? OPEN : 0), "%llu failures", (unsigned long long)c.v[0]);
	world_figure(&w, "failed_in_flight=%llu refused=%llu failed_later=%llu error=%s stale_ms=%llu",
		     (unsigned long long)c.v[0], (unsigned long long)c.v[1], (unsigned long long)c.v[2],
		     c.v[3] & 0xffff ? fi_strerror((int)(c.v[3] & 0xffff)) : "none",
		     (unsigned long long)(c.v[3] >> 32));
	return world_end(&w);
}

int chaos_restart(void)
{
	static const struct variant variants[] = {
		{"restart", true, false, false, "FI_UCCL_PEER_TIMEOUT=liveness=1"},
		{"restart-asleep", true, true, false, "FI_UCCL_PEER_TIMEOUT=liveness=1"},
		{"restart-idle", false, true, false, "FI_UCCL_PEER_TIMEOUT=liveness=1"},
		{"restart-new-first", true, true, true, "FI_UCCL_PEER_TIMEOUT=liveness=1"},
		{"restart-idle-no-liveness", false, true, false, "FI_UCCL_PEER_TIMEOUT=liveness=0"},
		{"restart-no-liveness", true, true, false, "FI_UCCL_PEER_TIMEOUT=liveness=0"},
		{"restart-loss", true, true, true, "FI_UCCL_FAULT=drop=0.05"},
	};
	int failed = 0;

	for (size_t i = 0; i < sizeof(variants) / sizeof(variants[0]); i++)
		failed += restart_once(&variants[i]);
	return failed;
}
