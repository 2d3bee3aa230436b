/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * kill -9 of one of four ranks that all exchange messages. Each other rank must get exactly one failure for each
 * operation with the dead one, soon and by name, and must lose nothing of its traffic with the living.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "chaos.h"
#include "mesh.h"

#define RANKS 4
#define VICTIM 3
#define BULK_BYTES (64u << 20)
#define BULK_TAG 0xb000000000000000ull
#define LONELY_BYTES (1u << 20)
#define LONELY_TAG 0xa000000000000000ull /* sent, and never received */
#define FIXED_MS 5000			 /* a death is known by then */
#define AFTER 200			 /* messages of each stream of the living after the death, at least */

enum { KILL_BULK = CTL_USER, KILL_STARTED, KILL_KILLED, KILL_SEEN };

/* The operations with the victim beside the streams. */
enum { BULK_SEND, BULK_RECV, LONELY_SEND, LATE_SEND, LATE_RECV, EXTRAS };

struct extras {
	struct rank *r;
	struct op op[EXTRAS];
	bool posted[EXTRAS];
	uint8_t *big, *small;
	uint64_t errors, last_ns;
	uint64_t good; /* long operations that ended well before the death */
};

static void extra_ended(struct op *op)
{
	struct extras *x = op->user;

	if (x->r->index == VICTIM)
		return;
	if (!op->err && op != &x->op[LONELY_SEND]) {
		/* It may have been quicker than the kill: then all of it is here. */
		rank_check(op != &x->op[BULK_RECV] ||
				   pattern_wrong(x->big + BULK_BYTES, BULK_BYTES, 1) == BULK_BYTES,
			   "a receive from the dead peer went well, but bytes are wrong");
		rank_check(!x->errors, "an operation with the dead peer went well after another had failed");
		x->good++;
		return;
	}
	rank_check(op->err, "a send that the dead peer never received went well");
	rank_check(strstr(op->text, x->r->place[VICTIM]), "\"%s\" does not name %s", op->text, x->r->place[VICTIM]);
	x->errors++;
	if (op->ended_ns > x->last_ns)
		x->last_ns = op->ended_ns;
}

/* True if it was accepted; otherwise the call itself said that the peer is gone. */
static bool extra_post(struct extras *x, int which, bool send, int peer, uint8_t *buf, size_t len, uint64_t tag)
{
	struct op *op = &x->op[which];
	ssize_t rc;

	op->user = x;
	op->end = extra_ended;
	op_begin(op);
	do {
		if (send)
			rc = fi_tsend(x->r->fab.ep, buf, len, NULL, x->r->addr[peer], tag, op);
		else
			rc = fi_trecv(x->r->fab.ep, buf, len, NULL, x->r->addr[peer], tag, 0, op);
	} while (rc == -FI_EAGAIN && fab_progress(&x->r->fab) >= 0);
	if (rc)
		op->open = false;
	x->posted[which] = !rc;
	return !rc;
}

static void extras_begin(struct extras *x)
{
	int self = x->r->index;

	x->big = malloc(2 * (size_t)BULK_BYTES);
	x->small = malloc(LONELY_BYTES);
	rank_check(x->big && x->small, "no memory");
	pattern_fill(x->big, BULK_BYTES, 1);
	memset(x->small, 0, LONELY_BYTES);
	rank_check(extra_post(x, BULK_SEND, true, VICTIM, x->big, BULK_BYTES, BULK_TAG | (uint64_t)self) &&
			   extra_post(x, BULK_RECV, false, VICTIM, x->big + BULK_BYTES, BULK_BYTES,
				      BULK_TAG | (uint64_t)self) &&
			   extra_post(x, LONELY_SEND, true, VICTIM, x->small, LONELY_BYTES,
				      LONELY_TAG | (uint64_t)self),
		   "posting to a living peer failed");
}

/* The other end of all that; it will not live to see it done. */
static void victim_begin(struct extras *x)
{
	static struct extras more[RANKS];

	for (int p = 0; p < RANKS; p++) {
		struct extras *e = p ? &more[p] : x;

		if (p == VICTIM)
			continue;
		e->r = x->r;
		e->big = malloc(2 * (size_t)BULK_BYTES);
		e->small = calloc(1, LONELY_BYTES);
		rank_check(e->big && e->small, "no memory");
		pattern_fill(e->big, BULK_BYTES, 1);
		extra_post(e, BULK_SEND, true, p, e->big, BULK_BYTES, BULK_TAG | (uint64_t)p);
		extra_post(e, BULK_RECV, false, p, e->big + BULK_BYTES, BULK_BYTES, BULK_TAG | (uint64_t)p);
		extra_post(e, LONELY_SEND, true, p, e->small, LONELY_BYTES, LONELY_TAG | (uint64_t)p);
	}
}

static bool extras_open(const struct extras *x)
{
	for (int i = 0; i < EXTRAS; i++)
		if (x->op[i].open)
			return true;
	return false;
}

/* After the death: all that was open has ended, once, and what is begun now ends too. */
static void after_death(struct extras *x, struct mesh *m, uint64_t killed_ns)
{
	struct stream *s = &m->s[VICTIM];
	uint64_t end = clock_ns() + (uint64_t)(2 * FIXED_MS * 1e6 * options.slack), last;
	uint64_t v[3];

	while (extras_open(x) || mesh_in_flight(m, VICTIM)) {
		rank_check(clock_ns() < end, "%u operations with the dead peer have not ended",
			   mesh_in_flight(m, VICTIM) + (extras_open(x) ? 1 : 0));
		mesh_step(m);
	}
	rank_check(s->errors, "no operation failed");
	rank_check(x->errors + x->good == 3, "%llu failures of 3 long operations, %llu went well",
		   (unsigned long long)x->errors, (unsigned long long)x->good);
	last = x->last_ns > s->last_error_ns ? x->last_ns : s->last_error_ns;
	/* A message of the dead that had come, but was not received, must not be half given now. */
	if (extra_post(x, LATE_RECV, false, VICTIM, x->small, LONELY_BYTES, LONELY_TAG | (uint64_t)x->r->index))
		rank_check(fab_finish(&x->r->fab, &x->op[LATE_RECV], 2000), "a receive from the dead waits");
	if (extra_post(x, LATE_SEND, true, VICTIM, x->small, 100, 1))
		rank_check(fab_finish(&x->r->fab, &x->op[LATE_SEND], 2000), "a send to the dead waits");
	v[0] = s->errors + x->errors;
	v[1] = last > killed_ns ? (last - killed_ns) / 1000000 : 0;
	v[2] = x->posted[LATE_SEND] + x->posted[LATE_RECV];
	rank_tell(x->r, KILL_SEEN, 0, v, 3);
}

void role_kill(struct rank *r)
{
	static struct mesh m;
	static struct extras x;
	struct mesh_cfg cfg = {.window = 8, .size_max = 1 << 20, .limit = UINT64_MAX};
	struct ctl c;
	uint64_t v[4];

	x.r = r;
	rank_join(r, NULL, RANKS);
	mesh_open(&m, r, &cfg);
	m.s[VICTIM].may_die = r->index != VICTIM;
	rank_tell(r, CTL_READY, 0, NULL, 0);
	while (mesh_next(&m, &c)) {
		if (c.type == KILL_BULK) {
			if (r->index == VICTIM)
				victim_begin(&x);
			else
				extras_begin(&x);
			rank_tell(r, KILL_STARTED, 0, NULL, 0);
		} else if (c.type == KILL_KILLED) {
			after_death(&x, &m, c.v[0]);
		} else if (c.type) {
			rank_fail("the conductor said %u", c.type);
		}
	}
	for (int p = 0; p < RANKS; p++)
		rank_check(!mesh_in_flight(&m, p), "operations with rank %d are open at the end", p);
	v[0] = m.bytes >> 20;
	v[1] = m.s[(r->index + 1) % VICTIM].received;
	mesh_close(&m);
	free(x.big);
	free(x.small);
	v[2] = fab_close(&r->fab) / 1000000;
	rank_tell(r, CTL_DONE, 0, v, 3);
}

static int kill_once(const char *name, const char *const *env, unsigned int run_ms, unsigned int bulk_ms)
{
	struct ctl c[RANKS_MAX];
	uint64_t limit = 0, errors = 0, slowest = 0, closing = 0, mib = 0, late = 0, v[1], deaths = 0;
	struct world w;

	world_begin(&w, name);
	for (int i = 0; i < RANKS; i++)
		world_spawn(&w, "kill", env, 90);
	world_join(&w, 0);
	world_expect_all(&w, CTL_READY, 20000, NULL);
	sleep_ms(run_ms);
	world_tell_all(&w, KILL_BULK);
	world_expect_all(&w, KILL_STARTED, 20000, NULL);
	sleep_ms(bulk_ms);
	world_kill(&w, VICTIM);
	v[0] = clock_ns();
	for (int i = 0; i < VICTIM; i++)
		world_tell(&w, i, KILL_KILLED, 0, v, 1);
	world_expect_all(&w, KILL_SEEN, 3 * FIXED_MS, c);
	for (int i = 0; i < VICTIM && !w.failed; i++) {
		errors += c[i].v[0];
		slowest = c[i].v[1] > slowest ? c[i].v[1] : slowest;
		late += c[i].v[2];
	}
	world_check(&w, slowest <= FIXED_MS * options.slack, "the last failure came after %llu ms",
		    (unsigned long long)slowest);
	/* The living go on, to numbers that all agree on. */
	limit = world_agree(&w, VICTIM, AFTER);
	world_expect_all(&w, CTL_DONE, 60000, c);
	for (int i = 0; i < VICTIM && !w.failed; i++) {
		mib += c[i].v[0];
		closing = c[i].v[2] > closing ? c[i].v[2] : closing;
	}
	world_wait(&w, 10000);
	for (int i = 0; i < VICTIM && !w.failed; i++)
		deaths += world_stat(&w, i, "peers_dead");
	world_check(&w, deaths == VICTIM, "%llu deaths counted, not %d", (unsigned long long)deaths, VICTIM);
	world_figure(&w,
		     "failures=%llu slowest_ms=%llu accepted_after=%llu checked_mib=%llu messages=%llu close_ms=%llu",
		     (unsigned long long)errors, (unsigned long long)slowest, (unsigned long long)late,
		     (unsigned long long)mib, (unsigned long long)limit, (unsigned long long)closing);
	return world_end(&w);
}

int chaos_kill(void)
{
	static const char *const slow[] = {"FI_UCCL_FAULT=drop=0.01,delay_us=500", NULL};
	static const char *const blind[] = {"FI_UCCL_PEER_TIMEOUT=liveness=0", NULL};
	int failed = 0;

	failed += kill_once("kill", NULL, 500, 30);
	failed += kill_once("kill-bad-network", slow, 500, 100);
	/* Without the TCP connection only unreachable ports tell. */
	failed += kill_once("kill-no-liveness", blind, 500, 30);
	/* In the middle of the first handshakes. */
	failed += kill_once("kill-early", NULL, 0, 0);
	for (unsigned int i = 0; options.hours && i < 20; i++)
		failed += kill_once("kill-again", i & 1 ? slow : NULL, 37 * i, 7 * i);
	return failed;
}
