/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* See driver.h. */
#include "progress/driver.h"

#include <assert.h>
#include <time.h>

#include "base/units.h"
#include "progress/shm_dir.h"
#include "progress/lane_set.h"
#include "progress/linkshare.h"
#include "progress/thread.h"

/* A close ends after this time even if the engine found a reason to wait longer. */
#define CLOSE_MAX_NS (10 * UCCL_NS_PER_S)
/* A thread that closes and has no descriptor to sleep on polls so often. */
#define NAP_NS (100 * UCCL_NS_PER_US)

void uccl_driver_init(struct uccl_driver *d, const struct uccl_driver_ops *ops, bool locking, struct uccl_alarm *alarm)
{
	d->ops = ops;
	d->locking = locking;
	d->alarm = alarm;
	d->forks = uccl_forks;
	d->expiry_of = UINT64_MAX;
}

int uccl_driver_open(struct uccl_driver *d, const struct uccl_engine_attr *attr)
{
	struct uccl_engine_attr with = *attr;
	char dir[64];
	int rc;

	with.may_gather = d->alarm->running;
	if (!uccl_shm_dir_path(dir, sizeof(dir)))
		d->linkshare = uccl_linkshare_join(dir, &with);
	rc = uccl_engine_open(&with, uccl_clock(), &d->engine);
	if (rc) {
		uccl_linkshare_close(d->linkshare);
		d->linkshare = NULL;
	}
	return rc;
}

void uccl_driver_close(struct uccl_driver *d)
{
	uccl_lane_set_close(d->lanes);
	uccl_engine_close(d->engine);
	uccl_lane_set_free(d->lanes);
	d->lanes = NULL;
	uccl_linkshare_close(d->linkshare);
	d->linkshare = NULL;
	d->engine = NULL;
}

void uccl_driver_add_wait(struct uccl_driver *d, struct uccl_wait *w)
{
	for (unsigned int i = 0; i < d->nwaits; i++)
		if (d->waits[i] == w)
			return;
	assert(d->nwaits < UCCL_DRIVER_WAITS);
	if (uccl_wait_opened(w))
		d->waits[d->nwaits++] = w;
}

int uccl_driver_watch_by(struct uccl_driver *d, struct uccl_wait *w)
{
	return d->automatic ? 0 : uccl_driver_wakes(d, w);
}

int uccl_driver_wakes(struct uccl_driver *d, struct uccl_wait *w)
{
	int rc = uccl_wait_add(w, uccl_driver_fd(d));

	return rc || !d->lanes ? rc : uccl_wait_add(w, d->lanes->fd);
}

int uccl_driver_watch(struct uccl_driver *d)
{
	int rc = 0;

	for (unsigned int i = 0; i < d->nwaits && !rc; i++)
		rc = uccl_driver_watch_by(d, d->waits[i]);
	return rc;
}

void uccl_driver_unwatch_by(struct uccl_driver *d, struct uccl_wait *w)
{
	uccl_wait_remove(w, uccl_driver_fd(d));
	if (d->lanes)
		uccl_wait_remove(w, d->lanes->fd);
}

void uccl_driver_unwatch(struct uccl_driver *d)
{
	for (unsigned int i = 0; i < d->nwaits; i++)
		uccl_driver_unwatch_by(d, d->waits[i]);
	d->nwaits = 0;
}

/* Not as uccl_driver_lock: a reader changes nothing. */
static void driver_enter(struct uccl_driver *d)
{
	if (d->locking)
		uccl_lock_take(&d->lock);
}

static bool driver_watched(const struct uccl_driver *d)
{
	for (unsigned int i = 0; i < d->nwaits; i++)
		if (atomic_load_explicit(&d->waits[i]->until, memory_order_relaxed))
			return true;
	return false;
}

/* The engine runs once. Lanes that send a reply from here on wake a sleeper. */
static int driver_engine(struct uccl_driver *d, uint64_t now)
{
	if (d->lanes)
		uccl_lane_set_heard(d->lanes);
	return uccl_engine_poll(d->engine, now);
}

/* The lock is held, and is given back. `empty`: nothing arrived. */
static int driver_round(struct uccl_driver *d, bool empty, uint64_t now)
{
	const struct uccl_driver_ops *ops = d->ops;
	int n = 0;

	if (d->engine) {
		if (atomic_load_explicit(&d->waits_ns, memory_order_relaxed))
			atomic_store_explicit(&d->waits_ns, 0, memory_order_relaxed);
		uccl_engine_watched(d->engine, driver_watched(d));
		uccl_engine_empty(d->engine, empty);
		n = driver_engine(d, now);
		n = ops->ran(d, n, now);
		if (n > 0) {
			atomic_store_explicit(&d->brought_ns, now, memory_order_relaxed);
			uccl_driver_stir(d);
			uccl_driver_kick(d);
		} else {
			uccl_driver_changed(d);
		}
	}
	uccl_driver_unlock(d);
	ops->after(d);
	return n;
}

int uccl_driver_run(struct uccl_driver *d)
{
	/* The sockets of a parent belong to the parent. */
	if (d->forks != uccl_forks)
		return 0;
	driver_enter(d);
	return driver_round(d, false, uccl_clock());
}

/* After a round for the program, in which n things happened. */
static void driver_called(struct uccl_driver *d, int n, uint64_t now)
{
	atomic_store_explicit(&d->called_ns, now, memory_order_relaxed);
	if (n > 0 && uccl_alarm_asleep(d->alarm))
		uccl_alarm_arm(d->alarm, uccl_driver_expiry(d));
}

bool uccl_driver_poll(struct uccl_driver *d, bool empty, uint64_t since, uint64_t now)
{
	if (d->forks != uccl_forks)
		return false;
	if (!d->automatic) {
		uccl_driver_seen(d, now);
		driver_enter(d);
		driver_called(d, driver_round(d, empty, now), now);
	}
	return atomic_load_explicit(&d->brought_ns, memory_order_relaxed) > since;
}

void uccl_driver_seen(struct uccl_driver *d, uint64_t now)
{
	atomic_store_explicit(&d->read_ns, now, memory_order_relaxed);
}

bool uccl_driver_silent(const struct uccl_driver *d, uint64_t since)
{
	return !d->automatic && !d->lanes && atomic_load_explicit(&d->brought_ns, memory_order_relaxed) <= since;
}

int uccl_driver_poll_fd(struct uccl_driver *d)
{
	int fd;

	driver_enter(d);
	fd = uccl_driver_fd(d);
	uccl_driver_unlock(d);
	return fd;
}

int uccl_driver_nap_fd(struct uccl_driver *d)
{
	int fd;

	driver_enter(d);
	fd = d->engine ? uccl_engine_nap_fd(d->engine) : -1;
	uccl_driver_unlock(d);
	return fd;
}

uint64_t uccl_driver_attend(struct uccl_driver *d, uint64_t since, uint64_t now)
{
	uint64_t read = atomic_load_explicit(&d->read_ns, memory_order_relaxed);

	if (d->forks != uccl_forks || d->automatic || read >= since || now < read + UCCL_LEFT_NS)
		return UCCL_NEVER;
	if (d->locking && !uccl_lock_try(&d->lock))
		return UCCL_NEVER;
	driver_called(d, driver_round(d, false, now), now);
	return uccl_driver_expiry(d);
}

uint64_t uccl_driver_expiry(struct uccl_driver *d)
{
	uint64_t at = UCCL_NEVER, changes = atomic_load(&d->changes);

	if (atomic_load_explicit(&d->expiry_of, memory_order_acquire) == changes)
		return atomic_load_explicit(&d->expiry_ns, memory_order_relaxed);
	driver_enter(d);
	if (d->engine)
		at = uccl_min(uccl_engine_expiry(d->engine), d->ops->expiry(d));
	atomic_store_explicit(&d->expiry_ns, at, memory_order_relaxed);
	changes = atomic_load_explicit(&d->changes, memory_order_relaxed);
	atomic_store_explicit(&d->expiry_of, changes, memory_order_release);
	uccl_driver_unlock(d);
	return at;
}

int uccl_driver_fd(struct uccl_driver *d)
{
	int fd = d->engine ? uccl_engine_wait_fd(d->engine) : -1;

	return fd < 0 ? -1 : fd;
}

void uccl_driver_linger(struct uccl_driver *d)
{
	uint64_t now = uccl_clock(), end = now + CLOSE_MAX_NS;
	struct uccl_wait wait;
	bool wakes;

	uccl_engine_drain(d->engine, now);
	/* Without descriptors it naps: what was accepted is delivered all the same. */
	wakes = !uccl_wait_open(&wait);
	if (wakes)
		uccl_driver_wakes(d, &wait);
	for (;;) {
		now = uccl_clock();
		driver_engine(d, now);
		if (uccl_engine_drained(d->engine) || now >= end)
			break;
		if (wakes)
			uccl_wait_sleep(&wait, uccl_min(end, uccl_engine_expiry(d->engine)));
		else
			nanosleep(&(struct timespec){ .tv_nsec = NAP_NS }, NULL);
	}
	uccl_wait_close(&wait);
}

void uccl_driver_kick(struct uccl_driver *d)
{
	for (unsigned int i = 0; i < d->nwaits; i++)
		if (atomic_load(&d->waits[i]->until))
			uccl_wait_kick(d->waits[i], uccl_engine_expiry(d->engine));
}
