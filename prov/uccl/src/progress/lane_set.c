/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "progress/lane_set.h"

#include <rdma/fi_errno.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "base/units.h"
#include "lanes/lanes.h"
#include "progress/idle.h"
#include "progress/ranks.h"
#include "progress/thread.h"
#include "progress/wait.h"

/* More than eight share one NIC's queues badly. */
#define AUTO_MOST 8
/* One carries messages slower than the primary does by itself. */
#define AUTO_LEAST 2
/* Such a part of the processors is for lanes and their primary: a lane finds an idle one only if many are idle. */
#define AUTO_SHARE 2
/* So many for each processor: most endpoints beside others carry little, and their lanes sleep. */
#define AUTO_OTHERS 2
/* One leaves a bad path for another. */
#define LANE_PATHS 8
/* Who has no processor gets one by so many yields, or is asleep: then we sleep, too. */
#define REST_YIELDS 64
#define REST_NS (20 * UCCL_NS_PER_US)

struct lane {
	struct set *set;
	struct uccl_lane_channel *channel;
	struct uccl_engine *engine;
	struct uccl_wait wait;
	struct uccl_idle idle;
	uint64_t worked_ns;	/* when there was something to do */
	uint64_t up_ns;		/* the end of its latest turn, */
	bool found_none;	/* and it had found nothing */
	_Atomic uint64_t woken_ns; /* when the primary woke it for what it has not looked at yet; 0: there is nothing */
	pthread_t thread;
	bool running;
	_Atomic bool stop;
};

struct set {
	struct uccl_lane_set set;
	uint8_t taken;		/* lanes that count as the process's (auto_lanes) */
	_Atomic bool keep;	/* nobody wants to know how late lanes are */
	_Atomic bool said;	/* and its descriptor was made readable, or is about to be */
	pthread_mutex_t opening; /* held until the primary knows its lanes: their threads wait for that */
	struct lane lane[UCCL_LANES_MAX];
};

uint8_t uccl_lanes_count(uint64_t want, uint32_t processors, uint32_t others)
{
	uint32_t n = uccl_min(processors / AUTO_SHARE, AUTO_MOST), most = AUTO_OTHERS * processors;

	if (want != UCCL_LANES_AUTO)
		return (uint8_t)uccl_min(want, UCCL_LANES_MAX);
	n = uccl_min(n, uccl_max(most, others) - others);
	return (uint8_t)(n < AUTO_LEAST ? 0 : n);
}

/* Lanes that endpoints of this process have by UCCL_LANES_AUTO. */
static pthread_mutex_t auto_lock = PTHREAD_MUTEX_INITIALIZER;
static uint32_t auto_lanes;

/* As many as the endpoint is to have; they are counted. */
static uint8_t lanes_take(uint64_t want)
{
	uint32_t processors = uccl_ranks_processors();
	uint8_t n;

	pthread_mutex_lock(&auto_lock);
	n = uccl_lanes_count(want, processors, auto_lanes);
	auto_lanes += want == UCCL_LANES_AUTO ? n : 0;
	pthread_mutex_unlock(&auto_lock);
	return n;
}

static void lanes_give(uint8_t n)
{
	pthread_mutex_lock(&auto_lock);
	auto_lanes -= n;
	pthread_mutex_unlock(&auto_lock);
}

uint16_t uccl_lane_paths(uint16_t paths, uint8_t n)
{
	return (uint16_t)uccl_min(paths, uccl_max(paths / n, LANE_PATHS));
}

/* In the thread of the other side. */
static void lane_wake(void *arg, bool primary)
{
	struct lane *l = arg;
	uint64_t one = 1;

	if (!primary) {
		if (!atomic_load_explicit(&l->woken_ns, memory_order_relaxed))
			atomic_store_explicit(&l->woken_ns, uccl_clock(), memory_order_relaxed);
		uccl_wait_signal(&l->wait);
		return;
	}
	if (!atomic_exchange(&l->set->said, true) && write(l->set->set.fd, &one, sizeof(one)) < 0)
		atomic_store(&l->set->said, false);
}

/* The primary waits for a thread of a lane. */
static void lane_rest(uint32_t times)
{
	const struct timespec ts = { .tv_nsec = REST_NS };

	if (times < REST_YIELDS)
		sched_yield();
	else
		nanosleep(&ts, NULL);
}

/*
 * How late it is for what it was woken for, if that had not to wait for its own work. Asked before the commands are
 * read: a wake-up that is seen too early, or whose command was read before, makes it seem on time.
 */
static uint64_t lane_late(struct lane *l, uint64_t now)
{
	uint64_t since = atomic_load_explicit(&l->woken_ns, memory_order_relaxed);

	if (!since)
		return 0;
	atomic_store_explicit(&l->woken_ns, 0, memory_order_relaxed);
	since = uccl_max(since, l->up_ns);
	return now > since ? now - since : 0;
}

static void lane_tell_late(struct lane *l, uint64_t ns)
{
	if (!atomic_load_explicit(&l->set->keep, memory_order_relaxed))
		uccl_lanes_ops.channel_late(l->channel, ns);
}

static int lane_poll(void *arg)
{
	struct lane *l = arg;
	uint64_t now = uccl_clock(), late = lane_late(l, now);
	int n;

	lane_tell_late(l, late);
	n = uccl_engine_poll(l->engine, now);
	if (n > 0)
		l->worked_ns = now;
	/* A packet for a lane that had nothing to do has waited for its processor. */
	if (l->found_none && !late)
		lane_tell_late(l, uccl_engine_first_age(l->engine));
	l->found_none = n <= 0;
	l->up_ns = uccl_clock();
	return n;
}

static bool lane_stay(void *arg)
{
	struct lane *l = arg;

	if (!uccl_idle_stay(&l->idle, uccl_clock() - l->worked_ns))
		return false;
	uccl_idle_yield(&l->idle);
	return true;
}

static uint64_t lane_expiry(void *arg)
{
	const struct lane *l = arg;

	return uccl_engine_expiry(l->engine);
}

static void *lane_main(void *arg)
{
	struct lane *l = arg;
	const struct uccl_wait_work work = { .poll = lane_poll, .stay = lane_stay, .expiry = lane_expiry, .arg = l };

	pthread_mutex_lock(&l->set->opening);
	pthread_mutex_unlock(&l->set->opening);
	uccl_wait_serve(&l->wait, &l->stop, &work);
	return NULL;
}

static void lane_stop(struct lane *l)
{
	atomic_store(&l->stop, true);
	uccl_wait_force(&l->wait);
	if (l->running)
		pthread_join(l->thread, NULL);
	l->running = false;
	if (l->engine)
		uccl_engine_close(l->engine);
	l->engine = NULL;
}

static void lane_free(struct lane *l)
{
	uccl_wait_close(&l->wait);
	if (l->channel)
		uccl_lanes_ops.channel_free(l->channel);
}

/* Its engine, not yet its thread. */
static int lane_open(struct lane *l, const struct uccl_engine_attr *attr, const struct uccl_addr *identity, uint8_t k)
{
	struct uccl_engine_attr with = {
		.nic = attr->nic,
		.config = attr->config,
		.random = attr->random,
		.random_arg = attr->random_arg,
		.group = attr->group,
		.budget = attr->budget,
		.interface = attr->interface,
		.identity = identity,
		.lane_number = k,
	};
	int rc;

	uccl_wait_init(&l->wait);
	l->channel = with.lane_channel = uccl_lanes_ops.channel_new(lane_wake, lane_rest, l);
	if (!l->channel) {
		attr->nic->ops->close(attr->nic);
		return -FI_ENOMEM;
	}
	rc = uccl_engine_open(&with, uccl_clock(), &l->engine);
	if (!rc)
		rc = uccl_wait_open(&l->wait);
	if (!rc)
		uccl_engine_watched(l->engine, true);
	return rc ? rc : uccl_wait_add(&l->wait, uccl_engine_wait_fd(l->engine));
}

static struct set *set_of(struct uccl_lane_set *s)
{
	return uccl_container_of(s, struct set, set);
}

static void set_bind(struct uccl_lane_set *set, const cpu_set_t *cpus, size_t bytes)
{
	struct set *s = set_of(set);

	/* If a processor is just being taken away, threads stay where they may run. */
	for (uint8_t k = 0; k < set->n; k++)
		if (s->lane[k].running)
			pthread_setaffinity_np(s->lane[k].thread, bytes, cpus);
}

static void set_keep(struct uccl_lane_set *set)
{
	atomic_store(&set_of(set)->keep, true);
}

static void set_close(struct uccl_lane_set *set)
{
	struct set *s = set_of(set);

	for (uint8_t k = 0; k < set->n; k++)
		lane_stop(&s->lane[k]);
}

static void set_free(struct uccl_lane_set *set)
{
	struct set *s = set_of(set);

	for (uint8_t k = 0; k < set->n; k++)
		lane_free(&s->lane[k]);
	if (set->fd >= 0)
		close(set->fd);
	pthread_mutex_destroy(&s->opening);
	lanes_give(s->taken);
	free(s);
}

static void set_heard(struct uccl_lane_set *set)
{
	struct set *s = set_of(set);
	uint64_t n;

	/*
	 * Before commands are read: what is said from here on is told again. If it is not readable yet, it will be: to
	 * forget it now would leave it so for good.
	 */
	if (atomic_load_explicit(&s->said, memory_order_relaxed) && read(set->fd, &n, sizeof(n)) > 0)
		atomic_store(&s->said, false);
}

static const struct uccl_lane_set_ops set_ops = {
	.bind = set_bind,
	.keep = set_keep,
	.heard = set_heard,
	.close = set_close,
	.free = set_free,
};

struct uccl_lane_set *uccl_lane_set_open(struct uccl_engine *primary, const struct uccl_engine_attr *attr,
					 uint64_t want, int (*nic)(void *arg, struct uccl_nic **out), void *arg)
{
	uint8_t n = lanes_take(want);
	struct set *s = n ? calloc(1, sizeof(*s)) : NULL;
	struct uccl_engine *engine[UCCL_LANES_MAX];
	struct uccl_lane_channel *channel[UCCL_LANES_MAX];
	struct uccl_addr identity = *uccl_engine_addr(primary);
	struct uccl_engine_attr with = *attr;
	struct uccl_config config = *attr->config;
	int rc;

	if (!s) {
		lanes_give(want == UCCL_LANES_AUTO ? n : 0);
		return NULL;
	}
	s->taken = want == UCCL_LANES_AUTO ? n : 0;
	config.paths = uccl_lane_paths(config.paths, n);
	with.config = &config;
	pthread_mutex_init(&s->opening, NULL);
	pthread_mutex_lock(&s->opening);
	s->set.ops = &set_ops;
	s->set.fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	while (s->set.fd >= 0 && s->set.n < n && !nic(arg, &with.nic)) {
		struct lane *l = &s->lane[s->set.n];

		l->set = s;
		do
			attr->random(attr->random_arg, &identity.incarnation, sizeof(identity.incarnation));
		while (!identity.incarnation);
		/* To one without a thread all that the primary says would wait. */
		if (lane_open(l, &with, &identity, s->set.n) || uccl_thread_start(&l->thread, lane_main, l)) {
			lane_stop(l);
			lane_free(l);
			break;
		}
		l->running = true;
		engine[s->set.n] = l->engine;
		channel[s->set.n++] = l->channel;
	}
	rc = s->set.n ? uccl_lanes_ops.open(primary, engine, channel, s->set.n) : -FI_ENODEV;
	pthread_mutex_unlock(&s->opening);
	if (rc) {
		set_close(&s->set);
		set_free(&s->set);
		return NULL;
	}
	return &s->set;
}
