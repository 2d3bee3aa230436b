/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "../api/world.h"
#include "../tests.h"

#include <poll.h>
#include <pthread.h>

#include "api/endpoint/ep.h"
#include "api/event/cq.h"
#include "engine/impl.h"
#include "progress/driver.h"

#define READS 4000

/* Counts what happens under the lock of a driver, and who does it. */
static struct {
	const struct uccl_driver_ops *real;
	pthread_t who;
	_Atomic int rounds, expiries, others;
	_Atomic int watched; /* rounds of which the NIC knew that somebody was about to sleep */
} seen;

static void note(_Atomic int *what)
{
	if (pthread_equal(pthread_self(), seen.who))
		atomic_fetch_add(what, 1);
	else
		atomic_fetch_add(&seen.others, 1);
}

static int count_ran(struct uccl_driver *d, int n, uint64_t now)
{
	note(&seen.rounds);
	atomic_fetch_add(&seen.watched, d->engine->nic->watched);
	return seen.real->ran(d, n, now);
}

static void count_after(struct uccl_driver *d)
{
	seen.real->after(d);
}

static uint64_t count_expiry(struct uccl_driver *d)
{
	note(&seen.expiries);
	return seen.real->expiry(d);
}

static const struct uccl_driver_ops counting = { .ran = count_ran, .after = count_after, .expiry = count_expiry };

struct two {
	struct world w;
	struct node a, b;
	fi_addr_t to_b;
};

static struct uccl_driver *inside(struct node *n)
{
	return &uccl_ep_fid_of(&n->ep->fid)->ep->driver;
}

/* From here on b's driver is counted. */
static void two_open(struct two *t, enum fi_progress progress)
{
	struct fi_info *h = world_hints();

	h->domain_attr->data_progress = progress;
	world_open_with(&t->w, h);
	t->to_b = node_pair(&t->a, &t->b, &t->w);
	seen.real = inside(&t->b)->ops;
	seen.who = pthread_self();
	seen.rounds = seen.expiries = seen.others = seen.watched = 0;
	uccl_driver_lock(inside(&t->b));
	inside(&t->b)->ops = &counting;
	uccl_driver_unlock(inside(&t->b));
}

static void two_close(struct two *t)
{
	uccl_driver_lock(inside(&t->b));
	inside(&t->b)->ops = seen.real;
	uccl_driver_unlock(inside(&t->b));
	node_close(&t->a);
	node_close(&t->b);
	world_close(&t->w);
}

static void nothing(struct node *n)
{
	struct fi_cq_tagged_entry e;

	assert_int_equal(fi_cq_read(n->cq, &e, 1), -FI_EAGAIN);
}

/*
 * Whoever reads an empty queue does not touch what another one reads as often: only b's own reads take its lock. (On a
 * machine that is slow, or lets other programs run in between, it does look left alone: those reads are told apart.)
 */
TEST(poll__others_read_theirs)
{
	uint64_t before, began = 0, ended;
	int slow = 0;
	struct two t;

	two_open(&t, FI_PROGRESS_MANUAL);
	for (int i = 0; i < READS; i++) {
		before = began;
		began = uccl_clock();
		nothing(&t.a);
		nothing(&t.b);
		/* Nobody naps: what is not read for so long is left alone. */
		uccl_idle_reset(&uccl_cq_of(&t.a.cq->fid)->drivers.idle);
		uccl_idle_reset(&uccl_cq_of(&t.b.cq->fid)->drivers.idle);
		ended = uccl_clock();
		slow += ended - before >= UCCL_LEFT_NS;
	}
	assert_in_range(seen.rounds, READS, READS + READS / 20 + slow);
	assert_in_range(seen.expiries, 0, READS / 10 + slow);
	two_close(&t);
}

/* A NIC looks for what would wake a sleeper only while there is one: not for who once slept and reads since. */
TEST(poll__who_sleeps_says_so)
{
	struct fi_cq_tagged_entry e;
	struct two t;

	two_open(&t, FI_PROGRESS_MANUAL);
	nothing(&t.b);
	assert_int_equal(seen.watched, 0);
	assert_int_equal(fi_cq_sread(t.b.cq, &e, 1, NULL, 1), -FI_EAGAIN);
	assert_true(seen.watched > 0);
	seen.watched = 0;
	nothing(&t.b);
	assert_int_equal(seen.watched, 0);
	two_close(&t);
}

/* But who is left alone is driven by those who read: its messages leave, and its timers run. */
TEST(poll__who_is_left_alone)
{
	uint64_t end = uccl_clock() + PATIENCE_NS;
	char out[8] = "x", in[8];
	fi_addr_t to_a;
	struct two t;

	two_open(&t, FI_PROGRESS_MANUAL);
	to_a = node_insert(&t.b, &t.a);
	assert_int_equal(fi_recv(t.a.ep, in, sizeof(in), NULL, FI_ADDR_UNSPEC, in), 0);
	assert_int_equal(fi_inject(t.b.ep, out, sizeof(out), to_a), 0);
	for (;;) {
		struct fi_cq_tagged_entry e;

		if (fi_cq_read(t.a.cq, &e, 1) == 1)
			break;
		assert_true(uccl_clock() < end);
	}
	assert_true(seen.rounds > 0);
	two_close(&t);
}

/* Under FI_PROGRESS_AUTO the endpoint's own thread drives it, and nobody else does. */
TEST(poll__has_its_own_thread)
{
	uint64_t end = uccl_clock() + PATIENCE_NS;
	struct pollfd arrived = { .events = POLLIN }, told = { .events = POLLIN };
	struct fi_cq_tagged_entry e;
	char out[8] = "x", in[8];
	struct two t;

	two_open(&t, FI_PROGRESS_AUTO);
	for (int i = 0; i < READS; i++) {
		nothing(&t.a);
		nothing(&t.b);
	}
	assert_int_equal(fi_recv(t.b.ep, in, sizeof(in), NULL, FI_ADDR_UNSPEC, in), 0);
	assert_int_equal(fi_inject(t.a.ep, out, sizeof(out), t.to_b), 0);
	while (fi_cq_read(t.b.cq, &e, 1) != 1)
		assert_true(uccl_clock() < end);
	/* A packet that the thread has not seen yet wakes nobody else. */
	assert_int_equal(fi_recv(t.b.ep, in, sizeof(in), NULL, FI_ADDR_UNSPEC, in), 0);
	uccl_driver_lock(inside(&t.b));
	assert_int_equal(fi_inject(t.a.ep, out, sizeof(out), t.to_b), 0);
	arrived.fd = uccl_driver_fd(inside(&t.b));
	assert_int_equal(poll(&arrived, 1, (int)(PATIENCE_NS / UCCL_NS_PER_MS)), 1);
	assert_int_equal(fi_control(&t.b.cq->fid, FI_GETWAIT, &told.fd), 0);
	assert_int_equal(poll(&told, 1, 0), 0);
	uccl_driver_unlock(inside(&t.b));
	while (fi_cq_read(t.b.cq, &e, 1) != 1)
		assert_true(uccl_clock() < end);
	/* Who sleeps is woken by what the thread finds, and does not look for packets or timers himself. */
	assert_int_equal(fi_recv(t.b.ep, in, sizeof(in), NULL, FI_ADDR_UNSPEC, in), 0);
	assert_int_equal(fi_inject(t.a.ep, out, sizeof(out), t.to_b), 0);
	assert_int_equal(fi_cq_sread(t.b.cq, &e, 1, NULL, (int)(PATIENCE_NS / UCCL_NS_PER_MS)), 1);
	assert_int_equal(seen.rounds, 0);
	assert_int_equal(seen.expiries, 0);
	assert_true(seen.others > 0);
	two_close(&t);
}

/* Asked again it says the same, without its lock, until somebody had to do with it. */
TEST(expiry__kept)
{
	struct uccl_driver d = { 0 };

	uccl_driver_init(&d, &counting, true, NULL);
	assert_true(uccl_driver_expiry(&d) == UCCL_NEVER);
	d.expiry_ns = 5;
	uccl_lock_take(&d.lock);
	assert_int_equal(uccl_driver_expiry(&d), 5);
	uccl_lock_give(&d.lock);
	uccl_driver_lock(&d);
	uccl_driver_unlock(&d);
	assert_true(uccl_driver_expiry(&d) == UCCL_NEVER);
}

/* A round moves it, though it found nothing. */
TEST(expiry__after_a_round)
{
	uint64_t changes;
	struct two t;

	two_open(&t, FI_PROGRESS_MANUAL);
	changes = inside(&t.b)->changes;
	nothing(&t.b);
	assert_true(inside(&t.b)->changes > changes);
	two_close(&t);
}

TESTS_MAIN
