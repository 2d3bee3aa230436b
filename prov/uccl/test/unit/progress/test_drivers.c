/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "../api/world.h"
#include "../tests.h"

#include <pthread.h>
#include <unistd.h>

#include "api/endpoint/ep.h"
#include "api/event/cq.h"
#include "progress/automatic.h"
#include "progress/drivers.h"

static struct uccl_driver *inside(struct node *n)
{
	return &uccl_ep_fid_of(&n->ep->fid)->ep->driver;
}

static unsigned int unread(struct node *n)
{
	struct uccl_cq *cq = uccl_container_of(n->cq, struct uccl_cq, fid);

	return cq->tail - cq->head;
}

struct two {
	struct world w;
	struct node a, b;
	fi_addr_t to_b;
};

static void two_open(struct two *t, enum fi_progress progress)
{
	struct fi_info *h = world_hints();

	h->domain_attr->data_progress = progress;
	world_open_with(&t->w, h);
	t->to_b = node_pair(&t->a, &t->b, &t->w);
}

static void two_close(struct two *t)
{
	node_close(&t->a);
	node_close(&t->b);
	world_close(&t->w);
}

TEST(list__add_and_remove)
{
	struct uccl_drivers l;
	struct uccl_driver *a, *b;
	struct two t;

	two_open(&t, FI_PROGRESS_MANUAL);
	a = inside(&t.a);
	b = inside(&t.b);
	uccl_drivers_init(&l, true);
	assert_true(uccl_drivers_expiry(&l) == UCCL_NEVER);
	uccl_drivers_poll(&l);
	for (int i = 0; i < 3; i++) {
		assert_int_equal(uccl_drivers_add(&l, a), 0);
		assert_int_equal(uccl_drivers_add(&l, b), 0);
		assert_int_equal(l.n, 2);
	}
	uccl_drivers_remove(&l, a);
	uccl_drivers_remove(&l, a);
	assert_int_equal(l.n, 1);
	assert_ptr_equal(l.v[0], b);
	uccl_drivers_remove(&l, b);
	assert_int_equal(l.n, 0);
	uccl_drivers_fini(&l);
	two_close(&t);
}

/* A message needs both lists: one round of each after the other, until it is there. */
TEST(list__poll_moves_data)
{
	uint64_t end = uccl_clock() + PATIENCE_NS;
	char out[8] = "x", in[8];
	struct uccl_drivers l;
	struct two t;

	two_open(&t, FI_PROGRESS_MANUAL);
	uccl_drivers_init(&l, true);
	assert_int_equal(uccl_drivers_add(&l, inside(&t.a)), 0);
	assert_int_equal(uccl_drivers_add(&l, inside(&t.b)), 0);
	world_post(fi_recv(t.b.ep, in, sizeof(in), NULL, FI_ADDR_UNSPEC, in), &t.a, &t.b);
	world_post(fi_send(t.a.ep, out, sizeof(out), NULL, t.to_b, out), &t.a, &t.b);
	/* The sender waits for an answer, so it has a timer. */
	assert_true(uccl_drivers_expiry(&l) < UCCL_NEVER);
	/* Somebody else is at it: not twice. */
	uccl_lock_take(&l.lock);
	for (int i = 0; i < 100; i++)
		uccl_drivers_poll(&l);
	assert_int_equal(unread(&t.b), 0);
	uccl_lock_give(&l.lock);
	while (!unread(&t.b) && uccl_clock() < end)
		uccl_drivers_poll(&l);
	assert_int_equal(unread(&t.b), 1);
	node_expect(&t.b, &t.a, in, FI_RECV | FI_MSG);
	node_expect(&t.a, &t.b, out, FI_SEND | FI_MSG);
	/* Of two endpoints none is silent: that one of them found something is not counted. */
	assert_int_equal(l.silence.rounds, 0);
	uccl_drivers_fini(&l);
	two_close(&t);
}

/* Who was read lately is in good hands; who is left alone gets a turn, and as soon as it is due. */
TEST(list__attend)
{
	uint64_t end = uccl_clock() + PATIENCE_NS, called;
	struct uccl_drivers l, none;
	struct two t;

	two_open(&t, FI_PROGRESS_MANUAL);
	uccl_drivers_init(&none, true);
	uccl_drivers_init(&l, true);
	assert_int_equal(uccl_drivers_add(&l, inside(&t.a)), 0);
	assert_int_equal(uccl_drivers_add(&l, inside(&t.b)), 0);
	atomic_store(&inside(&t.a)->read_ns, UCCL_NEVER - UCCL_LEFT_NS);
	called = atomic_load(&inside(&t.a)->called_ns);
	uccl_drivers_attend(&l, &none);
	assert_true(atomic_load(&inside(&t.a)->called_ns) == called);
	/* Both were looked at, and not again before their time. */
	assert_true(atomic_load(&l.attend_ns) > 0);
	atomic_store(&l.attend_ns, UCCL_NEVER);
	atomic_store(&inside(&t.a)->read_ns, 0);
	uccl_drivers_attend(&l, &none);
	assert_true(atomic_load(&inside(&t.a)->called_ns) == called);
	/* Somebody is at it. */
	atomic_store(&l.attend_ns, 0);
	uccl_lock_take(&inside(&t.a)->lock);
	uccl_drivers_attend(&l, &none);
	uccl_lock_give(&inside(&t.a)->lock);
	assert_true(atomic_load(&inside(&t.a)->called_ns) == called);
	while (atomic_load(&inside(&t.a)->called_ns) == called && uccl_clock() < end)
		uccl_drivers_attend(&l, &none);
	assert_true(atomic_load(&inside(&t.a)->called_ns) > called);
	uccl_drivers_fini(&l);
	uccl_drivers_fini(&none);
	two_close(&t);
}

/* Whoever was looked at in the caller's own round is in good hands, however long that took. */
TEST(list__attend_after_a_long_round)
{
	uint64_t end = uccl_clock() + PATIENCE_NS, began = uccl_clock(), called;
	struct uccl_drivers l, polled;
	struct two t;

	two_open(&t, FI_PROGRESS_MANUAL);
	uccl_drivers_init(&l, true);
	uccl_drivers_init(&polled, true);
	assert_int_equal(uccl_drivers_add(&l, inside(&t.a)), 0);
	assert_int_equal(uccl_drivers_add(&l, inside(&t.b)), 0);
	assert_int_equal(uccl_drivers_add(&polled, inside(&t.b)), 0);
	atomic_store(&polled.began_ns, began);
	while (uccl_clock() < began + 2 * UCCL_LEFT_NS)
		;
	atomic_store(&inside(&t.a)->read_ns, began);
	called = atomic_load(&inside(&t.a)->called_ns);
	uccl_drivers_attend(&l, &polled);
	assert_true(atomic_load(&inside(&t.a)->called_ns) == called);
	/* In the next one it was not. */
	atomic_store(&polled.began_ns, began + 1);
	while (atomic_load(&inside(&t.a)->called_ns) == called && uccl_clock() < end)
		uccl_drivers_attend(&l, &polled);
	assert_true(atomic_load(&inside(&t.a)->called_ns) > called);
	uccl_drivers_fini(&polled);
	uccl_drivers_fini(&l);
	two_close(&t);
}

static int descriptors(void)
{
	return tests_entries("/proc/self/fd");
}

/* A descriptor that stayed open after a nap would have its share of the work for each packet from then on. */
TEST(nap__leaves_nothing)
{
	struct uccl_drivers l;
	struct world w;
	struct node a;
	int n;

	world_open(&w);
	/* Nobody can sleep on its queue, so nothing tells of it before. */
	node_open_flags(&a, &w, FI_WAIT_NONE, 0);
	uccl_drivers_init(&l, true);
	assert_int_equal(uccl_drivers_add(&l, inside(&a)), 0);
	uccl_drivers_poll(&l);
	n = descriptors();
	atomic_store(&l.idle.crowded, true);
	while (!atomic_load(&l.idle.naps))
		uccl_drivers_poll(&l);
	assert_int_equal(descriptors(), n);
	uccl_drivers_fini(&l);
	node_close(&a);
	world_close(&w);
}

TEST(sleep__time)
{
	struct uccl_wait w;
	struct uccl_sleep s;
	uint64_t began;

	assert_int_equal(uccl_wait_open(&w), 0);
	began = uccl_clock();
	uccl_sleep_begin(&s, &w, NULL, NULL, 20);
	while (uccl_sleep(&s))
		;
	uccl_sleep_end(&s);
	assert_true(uccl_clock() - began >= 20 * UCCL_NS_PER_MS);
	/* No time: one look, no sleep. */
	uccl_sleep_begin(&s, &w, NULL, NULL, 0);
	assert_false(uccl_sleep(&s));
	uccl_sleep_end(&s);
	/* Without end; somebody signals. */
	uccl_sleep_begin(&s, &w, NULL, NULL, -1);
	uccl_wait_signal(&w);
	assert_true(uccl_sleep(&s));
	uccl_sleep_end(&s);
	assert_int_equal(w.sleepers, 0);
	uccl_wait_close(&w);
}

/* A sleeper gets up for the timers of either list, though his own time is far away. */
TEST(sleep__for_timers)
{
	char out[8] = "x";
	struct uccl_drivers l;
	struct uccl_sleep s;
	struct uccl_wait w;
	uint64_t began;
	struct two t;

	two_open(&t, FI_PROGRESS_MANUAL);
	uccl_drivers_init(&l, true);
	assert_int_equal(uccl_drivers_add(&l, inside(&t.a)), 0);
	assert_int_equal(fi_send(t.a.ep, out, sizeof(out), NULL, t.to_b, out), 0);
	assert_int_equal(uccl_wait_open(&w), 0);
	for (int i = 0; i < 2; i++) {
		began = uccl_clock();
		uccl_sleep_begin(&s, &w, i ? &l : NULL, i ? NULL : &l, (int)(2 * PATIENCE_NS / UCCL_NS_PER_MS));
		assert_true(uccl_sleep(&s));
		uccl_sleep_end(&s);
		assert_true(uccl_clock() - began < PATIENCE_NS);
	}
	uccl_wait_close(&w);
	node_expect(&t.a, &t.b, out, FI_SEND | FI_MSG);
	uccl_drivers_fini(&l);
	two_close(&t);
}

/* Nobody calls, and it arrives. */
TEST(automatic__moves_data)
{
	uint64_t end = uccl_clock() + PATIENCE_NS;
	char out[8] = "x", in[8];
	struct two t;

	two_open(&t, FI_PROGRESS_AUTO);
	assert_true(inside(&t.a)->automatic);
	world_post(fi_recv(t.b.ep, in, sizeof(in), NULL, FI_ADDR_UNSPEC, in), &t.a, &t.b);
	world_post(fi_send(t.a.ep, out, sizeof(out), NULL, t.to_b, out), &t.a, &t.b);
	while ((!unread(&t.a) || !unread(&t.b)) && uccl_clock() < end)
		usleep(1000);
	assert_int_equal(unread(&t.a), 1);
	assert_int_equal(unread(&t.b), 1);
	/* Stopping twice is stopping once. */
	uccl_automatic_stop(inside(&t.a));
	uccl_automatic_stop(inside(&t.a));
	assert_false(inside(&t.a)->automatic);
	two_close(&t);
}

#define MANY 5

static struct crowd {
	struct uccl_wait w;
	_Atomic uint64_t value;
	_Atomic int looks, inside, next;
	_Atomic bool over;
} crowd;

/* Sleeps until the value is as large as its number, or all is over; how often it looks is counted. */
static void *crowd_sleeper(void *arg)
{
	uint64_t want = (uint64_t)++crowd.next;
	struct uccl_sleep s;

	uccl_sleep_begin(&s, &crowd.w, NULL, NULL, 20000);
	crowd.inside++;
	do {
		crowd.looks++;
	} while (crowd.value < want && !crowd.over && uccl_sleep(&s));
	uccl_sleep_end(&s);
	crowd.inside--;
	return NULL;
}

static void crowd_start(pthread_t *t)
{
	memset(&crowd, 0, sizeof(crowd));
	assert_int_equal(uccl_wait_open(&crowd.w), 0);
	for (int i = 0; i < MANY; i++)
		assert_int_equal(pthread_create(&t[i], NULL, crowd_sleeper, NULL), 0);
	while (crowd.inside < MANY)
		usleep(1000);
	usleep(50000);
}

static void crowd_end(pthread_t *t)
{
	for (int i = 0; i < MANY; i++)
		pthread_join(t[i], NULL);
	uccl_wait_close(&crowd.w);
}

/* Threads asleep on one object wake once or twice for what is signalled, and not each other for ever. */
TEST(sleep__wakes_are_few)
{
	pthread_t t[MANY];

	crowd_start(t);
	crowd.looks = 0;
	for (int i = 0; i < 10; i++) {
		uccl_wait_signal(&crowd.w);
		usleep(30000);
	}
	/* Twice each, and some times more where the processors are busy: it was a hundred thousand times in all. */
	assert_in_range(crowd.looks, MANY, 10 * MANY * 12);
	usleep(300000);
	crowd.looks = 0;
	usleep(200000);
	assert_int_equal(crowd.looks, 0);
	crowd.over = true;
	uccl_wait_force(&crowd.w);
	crowd_end(t);
}

/* Each waits for another value: whatever is signalled, nobody sleeps through it, also when others end meanwhile. */
TEST(sleep__nobody_is_missed)
{
	pthread_t t[MANY];

	for (int round = 0; round < 30; round++) {
		uint64_t end;

		crowd_start(t);
		for (int i = 1; i <= MANY; i++) {
			crowd.value = (uint64_t)i;
			uccl_wait_signal(&crowd.w);
			end = uccl_clock() + 5 * UCCL_NS_PER_S;
			while (crowd.inside > MANY - i && uccl_clock() < end)
				if (round & 1)
					usleep(10);
			assert_int_equal(crowd.inside, MANY - i);
		}
		crowd_end(t);
	}
}

TESTS_MAIN
