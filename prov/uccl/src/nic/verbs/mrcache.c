/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* See mrcache.h. */
#include "nic/verbs/mrcache.h"

#include <assert.h>
#include <rdma/fi_errno.h>
#include <stdlib.h>
#include <sys/queue.h>
#include <unistd.h>

#include "base/units.h"
#include "nic/verbs/memwatch.h"

/* Registrations of device memory begin and end at multiples of this, or where their allocation does. */
#define DEVICE_GRAIN (2ull << 20)

/* Of a cache of host memory, all fields but pub are under the watch's lock. */
struct entry {
	struct uccl_mrcache_entry pub;
	struct uccl_mrcache *cache;
	TAILQ_ENTRY(entry) link;
	uint64_t id;		/* number of the allocation; 0: host memory */
	int device;		/* its number; -1: host memory */
	uint32_t refs;
	bool gone;		/* removed from `live`: it ends with its last user */
};

TAILQ_HEAD(entry_list, entry);

struct uccl_mrcache {
	struct uccl_memwatcher watcher;
	const struct uccl_mrcache_ops *ops;
	void *arg;
	bool devices, keeps;
	uintptr_t grain;
	uint32_t max_entries;
	uint64_t max_bytes;
	/* Latest used first. An entry that is gone is in neither list while it has users, then in `dead`. */
	struct entry_list live, dead;
	uint64_t idle_bytes;	/* of entries in `live` without a user */
	uint32_t idle;
	struct entry *reserve;	/* the next new one: with the lock nothing may be allocated; see memwatch.h */
	struct uccl_mrcache_stats stats;
};

static void lock(const struct uccl_mrcache *c)
{
	if (!c->devices)
		uccl_memwatch_lock();
}

static void unlock(const struct uccl_mrcache *c)
{
	if (!c->devices)
		uccl_memwatch_unlock();
}

static uint64_t entry_len(const struct entry *e)
{
	return e->pub.end - e->pub.start;
}

static bool entry_overlaps(const struct entry *e, uintptr_t start, uintptr_t end)
{
	return e->pub.start < end && start < e->pub.end;
}

/* No longer found. One without users is dead. */
static void entry_remove(struct uccl_mrcache *c, struct entry *e)
{
	TAILQ_REMOVE(&c->live, e, link);
	e->gone = true;
	if (e->refs)
		return;
	c->idle--;
	c->idle_bytes -= entry_len(e);
	TAILQ_INSERT_TAIL(&c->dead, e, link);
}

/* The same by our choice, so no report about its memory is needed any more. */
static void entry_drop(struct uccl_mrcache *c, struct entry *e)
{
	entry_remove(c, e);
	if (!c->devices)
		uccl_memwatch_del(e->pub.start, e->pub.end);
}

/* In the watcher's thread: nothing is deregistered here, since the NIC belongs to its owner. */
static void cache_gone(struct uccl_memwatcher *w, uintptr_t start, uintptr_t end)
{
	struct uccl_mrcache *c = uccl_container_of(w, struct uccl_mrcache, watcher);
	struct entry *e = TAILQ_FIRST(&c->live), *next;

	for (; e; e = next) {
		next = TAILQ_NEXT(e, link);
		if (!entry_overlaps(e, start, end))
			continue;
		entry_remove(c, e);
		c->stats.gone++;
	}
}

static bool cache_keeps(struct uccl_memwatcher *w, uintptr_t start, uintptr_t end)
{
	struct uccl_mrcache *c = uccl_container_of(w, struct uccl_mrcache, watcher);
	struct entry *e;

	TAILQ_FOREACH(e, &c->live, link)
		if (entry_overlaps(e, start, end))
			return true;
	return false;
}

int uccl_mrcache_open(const struct uccl_mrcache_ops *ops, void *arg, bool devices, uint32_t max_entries,
		      uint64_t max_bytes, struct uccl_mrcache **out)
{
	struct uccl_mrcache *c = calloc(1, sizeof(*c));

	if (!c)
		return -FI_ENOMEM;
	c->ops = ops;
	c->arg = arg;
	c->devices = devices;
	c->grain = devices ? DEVICE_GRAIN : (uintptr_t)sysconf(_SC_PAGESIZE);
	c->max_entries = max_entries;
	c->max_bytes = max_bytes;
	TAILQ_INIT(&c->live);
	TAILQ_INIT(&c->dead);
	c->watcher.gone = cache_gone;
	c->watcher.keeps = cache_keeps;
	c->keeps = devices || (max_entries && !uccl_memwatch_join(&c->watcher));
	*out = c;
	return 0;
}

/* With the lock held on entry and on return; the NIC is called without it. */
static void bury(struct uccl_mrcache *c)
{
	struct entry *e;

	while ((e = TAILQ_FIRST(&c->dead))) {
		TAILQ_REMOVE(&c->dead, e, link);
		c->stats.entries--;
		c->stats.bytes -= entry_len(e);
		unlock(c);
		c->ops->dereg(c->arg, e->pub.mr);
		free(e);
		lock(c);
	}
}

static void trim(struct uccl_mrcache *c, uint32_t max_entries, uint64_t max_bytes)
{
	struct entry *e = TAILQ_LAST(&c->live, entry_list), *before;

	for (; e && (c->idle > max_entries || c->idle_bytes > max_bytes); e = before) {
		before = TAILQ_PREV(e, entry_list, link);
		if (e->refs)
			continue;
		entry_drop(c, e);
		c->stats.evicted++;
	}
}

void uccl_mrcache_close(struct uccl_mrcache *c)
{
	if (!c)
		return;
	lock(c);
	trim(c, 0, 0);
	bury(c);
	assert(TAILQ_EMPTY(&c->live));
	unlock(c);
	if (c->keeps && !c->devices)
		uccl_memwatch_leave(&c->watcher);
	free(c->reserve);
	free(c);
}

/* An entry that covers `want`. Entries of an earlier allocation at this address are dropped. PROTOCOL R222 */
static struct entry *entry_find(struct uccl_mrcache *c, uintptr_t start, uintptr_t end, const struct entry *want)
{
	struct entry *e, *next, *found = NULL;

	for (e = TAILQ_FIRST(&c->live); e && (!found || c->devices); e = next) {
		next = TAILQ_NEXT(e, link);
		if (e->device != want->device || !entry_overlaps(e, start, end))
			continue;
		if (e->id != want->id) {
			c->stats.gone++;
			entry_drop(c, e);
		} else if (!found && e->pub.start <= start && end <= e->pub.end) {
			found = e;
		}
	}
	return found;
}

/*
 * Watch first, then register: if the memory goes away between the two, the entry must be there to hear of it. The lock
 * is not held while the NIC works, so the entry waits in the list with a user.
 */
static int entry_new(struct uccl_mrcache *c, const struct entry *want, const struct uccl_nic_device *device)
{
	struct entry *e = c->reserve;
	int rc;

	*e = *want;
	if (!c->devices && (!c->keeps || !uccl_memwatch_add(e->pub.start, e->pub.end)))
		return -FI_ENOSYS;
	TAILQ_INSERT_HEAD(&c->live, e, link);
	unlock(c);
	rc = c->ops->reg(c->arg, e->pub.start, entry_len(e), device, &e->pub.mr);
	lock(c);
	if (rc) {
		if (!e->gone)
			entry_drop(c, e);
		return rc;
	}
	c->stats.entries++;
	c->stats.bytes += entry_len(e);
	return 0;
}

int uccl_mrcache_get(struct uccl_mrcache *c, const void *buf, uint64_t len, const struct uccl_nic_device *device,
		     const struct uccl_mrcache_entry **out)
{
	uintptr_t at = (uintptr_t)buf, first = 0, last = UINTPTR_MAX;
	struct entry *e, want = {.cache = c, .device = device ? device->number : -1, .refs = 1};
	uint64_t bytes;
	int rc = 0;

	if (device) {
		rc = device->range ? device->range(device->arg, buf, &first, &bytes, &want.id) : -FI_ENOSYS;
		if (rc)
			return rc;
		if (at < first || at - first > bytes || len > bytes - (at - first))
			return -FI_EFAULT;
		last = first + bytes;
	}
	if (!c->reserve)
		c->reserve = malloc(sizeof(*c->reserve));
	if (!c->reserve)
		return -FI_ENOMEM;
	lock(c);
	e = entry_find(c, at, at + len, &want);
	if (e) {
		c->stats.hits++;
		if (!e->refs++) {
			c->idle--;
			c->idle_bytes -= entry_len(e);
		}
		TAILQ_REMOVE(&c->live, e, link);
		TAILQ_INSERT_HEAD(&c->live, e, link);
		*out = &e->pub;
	} else {
		c->stats.misses++;
		bury(c);
		want.pub.start = (uintptr_t)uccl_max(first, at & ~(c->grain - 1));
		want.pub.end = (uintptr_t)uccl_min(last, (at + len + c->grain - 1) & ~(c->grain - 1));
		rc = entry_new(c, &want, device);
		/* Pinned memory has a limit: idle entries make room for what is needed. */
		if (rc && (c->devices || rc != -FI_ENOSYS) && c->idle) {
			trim(c, 0, 0);
			bury(c);
			rc = entry_new(c, &want, device);
		}
		if (!rc) {
			*out = &c->reserve->pub;
			c->reserve = NULL;
		}
	}
	bury(c);
	unlock(c);
	return rc;
}

void uccl_mrcache_hold(const struct uccl_mrcache_entry *pub)
{
	struct entry *e = uccl_container_of(pub, struct entry, pub);

	lock(e->cache);
	e->refs++;
	unlock(e->cache);
}

void uccl_mrcache_put(const struct uccl_mrcache_entry *pub)
{
	struct entry *e = uccl_container_of(pub, struct entry, pub);
	struct uccl_mrcache *c = e->cache;

	lock(c);
	if (!--e->refs) {
		if (e->gone) {
			TAILQ_INSERT_TAIL(&c->dead, e, link);
		} else {
			c->idle++;
			c->idle_bytes += entry_len(e);
			trim(c, c->max_entries, c->max_bytes);
		}
	}
	bury(c);
	unlock(c);
}

void uccl_mrcache_spoil(const struct uccl_mrcache_entry *pub)
{
	struct entry *e = uccl_container_of(pub, struct entry, pub);

	lock(e->cache);
	if (!e->gone)
		entry_drop(e->cache, e);
	unlock(e->cache);
}

bool uccl_mrcache_keeps(const struct uccl_mrcache *c)
{
	return c->keeps;
}

struct uccl_mrcache_stats uccl_mrcache_stats(struct uccl_mrcache *c)
{
	struct uccl_mrcache_stats s;

	lock(c);
	s = c->stats;
	unlock(c);
	return s;
}
