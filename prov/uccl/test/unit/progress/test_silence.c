/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "../api/world.h"
#include "../tests.h"

#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include "api/endpoint/ep.h"
#include "api/event/cq.h"
#include "progress/drivers.h"
#include "progress/thread.h"

#define NODES (UCCL_SILENCE_MIN + 1)
/* Reads, in some of which one that is silent may be looked at for a timer of its own. */
#define READS 1000
#define TRIES 10

static struct uccl_driver *inside(struct node *n)
{
	return &uccl_ep_fid_of(&n->ep->fid)->ep->driver;
}

/* Rounds of each driver that this thread makes, counted under its lock. */
static struct {
	pthread_t who;
	const struct uccl_driver_ops *real;
	struct uccl_driver *of[NODES];
	_Atomic int rounds[NODES];
} seen;

static int count_ran(struct uccl_driver *d, int n, uint64_t now)
{
	for (int i = 0; i < NODES; i++)
		if (seen.of[i] == d && pthread_equal(pthread_self(), seen.who))
			atomic_fetch_add(&seen.rounds[i], 1);
	return seen.real->ran(d, n, now);
}

static void count_after(struct uccl_driver *d)
{
	seen.real->after(d);
}

static uint64_t count_expiry(struct uccl_driver *d)
{
	return seen.real->expiry(d);
}

static const struct uccl_driver_ops counting = { .ran = count_ran, .after = count_after, .expiry = count_expiry };

/* Some endpoints in one list, and one that is by itself. */
struct some {
	struct world w;
	struct node n[NODES], other;
	struct uccl_drivers l;
	fi_addr_t to[NODES];
};

static void ops_set(struct uccl_driver *d, const struct uccl_driver_ops *ops)
{
	uccl_driver_lock(d);
	d->ops = ops;
	uccl_driver_unlock(d);
}

static void some_open(struct some *t)
{
	struct fi_info *h = world_hints();

	h->domain_attr->data_progress = FI_PROGRESS_MANUAL;
	world_open_with(&t->w, h);
	uccl_drivers_init(&t->l, true);
	node_open(&t->other, &t->w);
	seen.who = pthread_self();
	for (int i = 0; i < NODES; i++) {
		node_open(&t->n[i], &t->w);
		t->to[i] = node_insert(&t->other, &t->n[i]);
		seen.of[i] = inside(&t->n[i]);
		seen.rounds[i] = 0;
	}
	/* Other threads drive them, too: from here on these are only read. */
	seen.real = seen.of[0]->ops;
	for (int i = 0; i < NODES; i++) {
		ops_set(seen.of[i], &counting);
		assert_int_equal(uccl_drivers_add(&t->l, seen.of[i]), 0);
	}
}

static void some_close(struct some *t)
{
	uccl_drivers_fini(&t->l);
	for (int i = 0; i < NODES; i++) {
		ops_set(seen.of[i], seen.real);
		node_close(&t->n[i]);
	}
	node_close(&t->other);
	world_close(&t->w);
}

/* Read until nothing but silence is there. */
static void some_calm(struct some *t)
{
	uint64_t end = uccl_clock() + PATIENCE_NS;

	while (t->l.silence.n < NODES) {
		uccl_drivers_poll(&t->l);
		assert_true(uccl_clock() < end);
	}
	for (int i = 0; i < NODES; i++)
		atomic_store(&seen.rounds[i], 0);
}

static unsigned int unread(struct node *n)
{
	struct uccl_cq *cq = uccl_cq_of(&n->cq->fid);

	return cq->tail - cq->head;
}

/* Of a few nobody is silent, so nothing is counted for that; of more, or if somebody is silent, it is. */
TEST(silence_off__few)
{
	struct uccl_silence s = {.n = 0};

	assert_true(uccl_silence_off(&s, UCCL_SILENCE_MIN - 1));
	assert_false(uccl_silence_off(&s, UCCL_SILENCE_MIN));
	s.n = 1;
	assert_false(uccl_silence_off(&s, 1));
}

/* A first message, so that they are connected. */
static void some_meet(struct some *t, int i)
{
	char out[8] = "x", in[8];

	assert_int_equal(fi_recv(t->n[i].ep, in, sizeof(in), NULL, FI_ADDR_UNSPEC, in), 0);
	world_post(fi_send(t->other.ep, out, sizeof(out), NULL, t->to[i], out), &t->other, &t->n[i]);
	node_expect(&t->n[i], &t->other, in, FI_RECV | FI_MSG);
	node_expect(&t->other, &t->n[i], out, FI_SEND | FI_MSG);
}

/* Of many reads hardly one drives any of them. */
static bool some_left_alone(struct some *t)
{
	bool alone = true;
	int slow = 0;

	some_calm(t);
	for (int i = 0; i < READS; i++) {
		uint64_t began = uccl_clock();

		uccl_drivers_poll(&t->l);
		/* Nobody naps, unless the machine makes us. */
		uccl_idle_reset(&t->l.idle);
		slow += uccl_clock() - began >= UCCL_LEFT_NS;
	}
	for (int i = 0; i < NODES; i++)
		alone = alone && seen.rounds[i] <= READS / 10 + slow;
	return alone;
}

/* Nobody looks at who is silent; a packet is enough to be looked at again. */
TEST(silent__until_something_comes)
{
	uint64_t end = uccl_clock() + PATIENCE_NS;
	char out[8] = "x", in[8];
	struct some t;

	some_open(&t);
	some_meet(&t, 2);
	assert_int_equal(fi_recv(t.n[2].ep, in, sizeof(in), NULL, FI_ADDR_UNSPEC, in), 0);
	/* On a busy host something may come late. */
	for (int i = 0; i < TRIES && !some_left_alone(&t); i++)
		assert_int_not_equal(i, TRIES - 1);
	assert_int_equal(fi_send(t.other.ep, out, sizeof(out), NULL, t.to[2], out), 0);
	/* The list alone drives it. */
	while (!unread(&t.n[2])) {
		uccl_drivers_poll(&t.l);
		assert_true(uccl_clock() < end);
	}
	node_expect(&t.n[2], &t.other, in, FI_RECV | FI_MSG);
	node_expect(&t.other, &t.n[2], out, FI_SEND | FI_MSG);
	some_close(&t);
}

static void some_send(struct some *t, int i, char *out, char *in)
{
	uint64_t end = uccl_clock() + PATIENCE_NS;

	assert_int_equal(fi_recv(t->n[i].ep, in, 8, NULL, FI_ADDR_UNSPEC, in), 0);
	assert_int_equal(fi_send(t->other.ep, out, 8, NULL, t->to[i], out), 0);
	while (!unread(&t->n[i])) {
		uccl_drivers_poll(&t->l);
		assert_true(uccl_clock() < end);
	}
}

/* Who has nothing while others have something is silent soon, and stays so if it has something now and then. */
TEST(silent__among_busy_ones)
{
	char out[8] = "x", in[8];
	struct some t;

	some_open(&t);
	some_meet(&t, 2);
	/* As if others had been busy since. No time passes; but on a busy host something may come late. */
	for (int k = 0; k < TRIES && t.l.silence.n < NODES; k++) {
		uccl_drivers_poll(&t.l);
		t.l.silence.rounds += UCCL_SILENCE_ROUNDS;
		for (int i = 0; i < 3; i++)
			uccl_drivers_poll(&t.l);
	}
	assert_int_equal(t.l.silence.n, NODES);
	t.l.silence.rounds += UCCL_SILENCE_ROUNDS;
	some_send(&t, 2, out, in);
	assert_true(uccl_is_silent(&t.l.silence, 2));
	node_expect(&t.n[2], &t.other, in, FI_RECV | FI_MSG);
	node_expect(&t.other, &t.n[2], out, FI_SEND | FI_MSG);
	/* Nobody else has anything: now it is worth a look each time. */
	some_send(&t, 2, out, in);
	assert_false(uccl_is_silent(&t.l.silence, 2));
	node_expect(&t.n[2], &t.other, in, FI_RECV | FI_MSG);
	node_expect(&t.other, &t.n[2], out, FI_SEND | FI_MSG);
	some_close(&t);
}

/* Of many who have something by turns each is silent when others had something: most looks would be in vain. */
TEST(silent__among_many)
{
	struct uccl_silence *s;
	struct some t;

	some_open(&t);
	uccl_drivers_poll(&t.l);
	s = &t.l.silence;
	uccl_silence_clear(s);
	for (int i = 0; i < 2; i++) {
		uint64_t now = uccl_clock();

		seen.of[2]->brought_ns = now;
		uccl_silence_driven(s, 2, seen.of[2], true, NODES, now);
		s->rounds += UCCL_SILENCE_ROUNDS_MANY - 1;
		uccl_silence_driven(s, 2, seen.of[2], false, i ? UCCL_SILENCE_MANY : NODES, now);
		assert_false(uccl_is_silent(s, 2));
		s->rounds++;
		uccl_silence_driven(s, 2, seen.of[2], false, i ? UCCL_SILENCE_MANY : NODES, now);
		assert_true(uccl_is_silent(s, 2) == i);
	}
	some_close(&t);
}

/* Who was posted to is looked at, and so is who has a timer: one that asks a peer that does not answer. */
TEST(silent__until_posted_or_due)
{
	uint64_t end = uccl_clock() + PATIENCE_NS;
	fi_addr_t to_other;
	char out[8] = "x";
	struct some t;

	some_open(&t);
	to_other = node_insert(&t.n[1], &t.other);
	some_calm(&t);
	uccl_driver_lock(seen.of[0]);
	uccl_driver_unlock(seen.of[0]);
	uccl_drivers_poll(&t.l);
	assert_int_equal(seen.rounds[0], 1);
	assert_int_equal(fi_send(t.n[1].ep, out, sizeof(out), NULL, to_other, out), 0);
	/* It asks again and again, although it falls silent in between. */
	while (seen.rounds[1] < 1 || t.l.silence.n < NODES) {
		uccl_drivers_poll(&t.l);
		assert_true(uccl_clock() < end);
	}
	atomic_store(&seen.rounds[1], 0);
	while (!seen.rounds[1]) {
		uccl_drivers_poll(&t.l);
		assert_true(uccl_clock() < end);
	}
	node_expect(&t.n[1], &t.other, out, FI_SEND | FI_MSG);
	some_close(&t);
}

/* Numbers change, and nothing is lost. */
TEST(silent__remove)
{
	struct some t;

	some_open(&t);
	some_calm(&t);
	uccl_drivers_remove(&t.l, seen.of[0]);
	assert_int_equal(t.l.silence.n, 0);
	uccl_drivers_poll(&t.l);
	assert_int_equal(seen.rounds[0], 0);
	for (int i = 1; i < NODES; i++)
		assert_true(seen.rounds[i] > 0);
	assert_int_equal(uccl_drivers_add(&t.l, seen.of[0]), 0);
	some_calm(&t);
	/* With few in the list nobody is. */
	while (t.l.n >= UCCL_SILENCE_MIN)
		uccl_drivers_remove(&t.l, t.l.v[0]);
	for (uint64_t until = uccl_clock() + 2 * UCCL_SILENCE_NS; uccl_clock() < until;)
		uccl_drivers_poll(&t.l);
	assert_int_equal(t.l.silence.n, 0);
	some_close(&t);
}

/* A forked child leaves the parent's descriptor as it is. */
TEST(silent__fork)
{
	struct some t;
	int status;
	pid_t pid;

	some_open(&t);
	some_meet(&t, 3);
	some_calm(&t);
	pid = fork();
	if (!pid) {
		for (int i = 0; i < 10; i++)
			uccl_drivers_poll(&t.l);
		_exit(t.l.silence.n == 0 ? 0 : 1);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status) && !WEXITSTATUS(status));
	assert_int_equal(t.l.silence.n, NODES);
	for (int i = 0; i < NODES; i++)
		atomic_store(&seen.rounds[i], 0);
	assert_int_equal(fi_inject(t.other.ep, "x", 1, t.to[3]), 0);
	for (uint64_t end = uccl_clock() + PATIENCE_NS; !seen.rounds[3];) {
		uccl_drivers_poll(&t.l);
		assert_true(uccl_clock() < end);
	}
	some_close(&t);
}

TESTS_MAIN
