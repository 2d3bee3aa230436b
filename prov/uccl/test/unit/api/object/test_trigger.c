/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* What waits for a counter, while other threads end what it is for. */
#include "../world.h"

#include <pthread.h>
#include <semaphore.h>
#include <unistd.h>

#include "api/object/trigger.h"
#include "progress/thread.h"
#include "../../tests.h"

static struct uccl_triggers ts;
static _Atomic uint64_t value;
static _Atomic int refs, posts, dropped;
static char order[16];
static int failed;

/* A thread that posts stops here until the test lets it go on. */
static sem_t inside, go;
static ssize_t answer;

static void drop(struct uccl_trigger *t)
{
	dropped++;
}

static void note_failure(struct uccl_trigger *t, int err)
{
	failed = err;
}

static struct uccl_trigger *trigger(uint64_t threshold, ssize_t (*post)(struct uccl_trigger *t), const void *of,
				    const void *work)
{
	struct uccl_trigger *t = calloc(1, sizeof(*t));

	assert_non_null(t);
	*t = (struct uccl_trigger){ .value = &value, .refs = &refs, .threshold = threshold, .of = of, .via = order,
				    .work = work, .post = post, .fail = note_failure, .drop = drop };
	refs++;
	return t;
}

static void arm(uint64_t threshold, ssize_t (*post)(struct uccl_trigger *t), const void *of, const void *work)
{
	uccl_triggers_arm(&ts, trigger(threshold, post, of, work));
}

static void begin(void)
{
	uccl_triggers_init(&ts);
	value = 0;
	refs = posts = dropped = 0;
	answer = failed = 0;
	memset(order, 0, sizeof(order));
	assert_int_equal(sem_init(&inside, 0, 0), 0);
	assert_int_equal(sem_init(&go, 0, 0), 0);
}

/* Each gave back what it held. */
static void end(int made)
{
	uccl_triggers_fini(&ts);
	assert_int_equal(refs, 0);
	assert_int_equal(dropped, made);
}

static ssize_t post_note(struct uccl_trigger *t)
{
	order[posts++] = *(const char *)t->of;
	return 0;
}

static ssize_t post_stop(struct uccl_trigger *t)
{
	posts++;
	sem_post(&inside);
	sem_wait(&go);
	/* An endpoint that was freed meanwhile would be read here. */
	order[0] = *(const char *)t->of;
	return answer;
}

static void move(uint64_t by)
{
	value += by;
	uccl_triggers_moved(&ts);
	uccl_triggers_run(&ts);
}

static void *mover(void *arg)
{
	move(1);
	return NULL;
}

TEST(run__in_order)
{
	begin();
	arm(1, post_note, "a", NULL);
	arm(3, post_note, "d", NULL);
	arm(1, post_note, "b", NULL);
	arm(0, post_note, "0", NULL);
	assert_string_equal(order, "0");
	move(1);
	assert_string_equal(order, "0ab");
	assert_false(uccl_triggers_due(&ts));
	move(1);
	move(1);
	assert_string_equal(order, "0abd");
	end(4);
}

static ssize_t post_refuse(struct uccl_trigger *t)
{
	order[posts++] = *(const char *)t->of;
	return answer;
}

TEST(run__later)
{
	begin();
	answer = -FI_EAGAIN;
	arm(1, post_refuse, "a", NULL);
	arm(1, post_note, "b", NULL);
	move(1);
	/* Nothing overtakes it, and somebody is asked to try again. */
	assert_string_equal(order, "a");
	assert_true(uccl_triggers_due(&ts));
	answer = 0;
	uccl_triggers_run(&ts);
	assert_string_equal(order, "aab");
	assert_int_equal(failed, 0);
	answer = -FI_EINVAL;
	arm(1, post_refuse, "c", NULL);
	assert_string_equal(order, "aabc");
	assert_int_equal(failed, FI_EINVAL);
	assert_false(uccl_triggers_due(&ts));
	end(3);
}

static ssize_t post_moves(struct uccl_trigger *t)
{
	posts++;
	/* As a counter that is added to: what that triggers is posted by the same thread, after this. */
	move(1);
	return 0;
}

TEST(run__from_within)
{
	begin();
	arm(2, post_note, "b", NULL);
	arm(1, post_moves, "a", NULL);
	move(1);
	assert_int_equal(posts, 2);
	assert_int_equal(order[1], 'b');
	end(2);
}

TEST(cancel__by_what)
{
	int a, b;

	begin();
	arm(9, post_note, "x", &a);
	arm(9, post_note, "y", &b);
	arm(9, post_note, "y", NULL);
	assert_int_equal(uccl_triggers_cancel(&ts, &posts), 0);
	assert_int_equal(uccl_triggers_cancel(&ts, &a), 1);
	assert_int_equal(uccl_triggers_cancel(&ts, &a), 0);
	/* Operations with FI_TRIGGER are no pieces of work. */
	assert_int_equal(uccl_triggers_flush(&ts), 1);
	assert_int_equal(ts.n, 1);
	assert_int_equal(uccl_triggers_leave(&ts, &a), 0);
	assert_int_equal(uccl_triggers_leave(&ts, order), 1); /* its handle */
	end(3);
}

struct ending {
	const void *of, *work;
	_Atomic bool over;
	int n;
};

/* It closes an endpoint: what was waiting for it is freed at once. */
static void *ender(void *arg)
{
	struct ending *e = arg;

	if (e->of)
		e->n = uccl_triggers_leave(&ts, e->of);
	else if (e->work)
		e->n = uccl_triggers_cancel(&ts, e->work);
	else
		e->n = uccl_triggers_flush(&ts);
	free((void *)e->of);
	e->over = true;
	return NULL;
}

/* One thread is inside post() when another ends what that uses: nothing ends before post() is through. */
static void end_meanwhile(bool by_endpoint, bool by_work, ssize_t rc)
{
	char *endpoint = malloc(1), place = 'p';
	struct ending e = { .of = by_endpoint ? endpoint : NULL, .work = by_work ? &place : NULL };
	pthread_t a, b;

	begin();
	*endpoint = 'e';
	answer = rc;
	arm(1, post_stop, by_endpoint ? endpoint : &place, &place);
	assert_int_equal(pthread_create(&a, NULL, mover, NULL), 0);
	sem_wait(&inside);
	assert_int_equal(pthread_create(&b, NULL, ender, &e), 0);
	/* Either it waits, or it is over in this time. */
	while (!e.over) {
		pthread_mutex_lock(&ts.lock);
		if (ts.revoked) {
			pthread_mutex_unlock(&ts.lock);
			break;
		}
		pthread_mutex_unlock(&ts.lock);
		usleep(1000);
	}
	assert_false(e.over);
	/* Others are not held up: they leave it to whoever posts. */
	arm(1, post_note, "z", NULL);
	assert_int_equal(posts, 1);
	sem_post(&go);
	assert_int_equal(pthread_join(a, NULL), 0);
	assert_int_equal(pthread_join(b, NULL), 0);
	assert_int_equal(posts, 2);
	assert_int_equal(e.n, 0);
	assert_int_equal(ts.n, 0);
	if (!by_endpoint)
		free(endpoint);
	end(2);
}

TEST(leave__waits)
{
	end_meanwhile(true, false, 0);
	/* What was to be tried again is not kept for an endpoint that is closed. */
	end_meanwhile(true, false, -FI_EAGAIN);
}

TEST(cancel__waits)
{
	end_meanwhile(false, true, 0);
	end_meanwhile(false, true, -FI_EAGAIN);
	end_meanwhile(false, false, 0);
}

TEST(fork__quiet)
{
	unsigned int was = uccl_forks;

	begin();
	arm(1, post_note, "a", NULL);
	/* As a child sees it, whose parent's thread held the lock. */
	pthread_mutex_lock(&ts.lock);
	uccl_forks = was + 1;
	move(1);
	assert_int_equal(uccl_triggers_leave(&ts, order), 0);
	uccl_triggers_fini(&ts);
	uccl_forks = was;
	pthread_mutex_unlock(&ts.lock);
	assert_int_equal(posts, 0);
	end(1);
}

int main(void)
{
	fi_prov_ini();
	return tests_run(NULL, NULL);
}
