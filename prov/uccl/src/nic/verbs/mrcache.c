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

/* All fields but pub are under the watch's lock. */
struct entry {
	struct uccl_mrcache_entry pub;
	TAILQ_ENTRY(entry) link;
	uint32_t refs;
	bool gone;		/* it ends with its last user: memory that went away or cannot be watched, or spoilt */
};

TAILQ_HEAD(entry_list, entry);

struct uccl_mrcache {
	struct uccl_memwatcher watcher;
	const struct uccl_mrcache_ops *ops;
	void *arg;
	bool keeps;
	uintptr_t page;
	uint32_t max_entries;
	uint64_t max_bytes;
	/* Latest used first. What is gone is in neither list: its users hold it, or it is in `dead`. */
	struct entry_list live, dead;
	uint64_t idle_bytes;	/* of entries in `live` without a user */
	uint32_t idle;
	struct entry *spare;	/* the next new one; of the owner, without the lock */
	struct uccl_mrcache_stats stats;
};

static uint64_t entry_len(const struct entry *e)
{
	return e->pub.end - e->pub.start;
}

/* In the watcher's thread: nothing is deregistered here, since the NIC belongs to its owner. */
static void cache_gone(struct uccl_memwatcher *w, uintptr_t start, uintptr_t end)
{
	struct uccl_mrcache *c = uccl_container_of(w, struct uccl_mrcache, watcher);
	struct entry *e = TAILQ_FIRST(&c->live), *next;

	for (; e; e = next) {
		next = TAILQ_NEXT(e, link);
		if (e->pub.end <= start || e->pub.start >= end)
			continue;
		TAILQ_REMOVE(&c->live, e, link);
		e->gone = true;
		c->stats.gone++;
		if (e->refs)
			continue;
		c->idle--;
		c->idle_bytes -= entry_len(e);
		TAILQ_INSERT_TAIL(&c->dead, e, link);
	}
}

static bool cache_keeps(struct uccl_memwatcher *w, uintptr_t start, uintptr_t end)
{
	struct uccl_mrcache *c = uccl_container_of(w, struct uccl_mrcache, watcher);
	struct entry *e;

	TAILQ_FOREACH(e, &c->live, link)
		if (e->pub.start < end && e->pub.end > start)
			return true;
	return false;
}

int uccl_mrcache_open(const struct uccl_mrcache_ops *ops, void *arg, uint32_t max_entries, uint64_t max_bytes,
		      struct uccl_mrcache **out)
{
	struct uccl_mrcache *c = calloc(1, sizeof(*c));

	if (!c)
		return -FI_ENOMEM;
	c->ops = ops;
	c->arg = arg;
	c->page = (uintptr_t)sysconf(_SC_PAGESIZE);
	c->max_entries = max_entries;
	c->max_bytes = max_bytes;
	TAILQ_INIT(&c->live);
	TAILQ_INIT(&c->dead);
	c->watcher.gone = cache_gone;
	c->watcher.keeps = cache_keeps;
	c->keeps = max_entries && !uccl_memwatch_join(&c->watcher);
	*out = c;
	return 0;
}

static void entry_free(struct uccl_mrcache *c, struct entry *e)
{
	c->ops->dereg(c->arg, e->pub.mr);
	c->stats.entries--;
	c->stats.bytes -= entry_len(e);
	free(e);
}

/* No longer found, by our choice, so that nobody needs to hear of its memory. */
static void entry_hide(struct uccl_mrcache *c, struct entry *e)
{
	TAILQ_REMOVE(&c->live, e, link);
	uccl_memwatch_del(e->pub.start, e->pub.end);
}

/* No longer kept, by our choice. */
static void entry_drop(struct uccl_mrcache *c, struct entry *e)
{
	entry_hide(c, e);
	c->idle--;
	c->idle_bytes -= entry_len(e);
	TAILQ_INSERT_TAIL(&c->dead, e, link);
}

/* With the lock held on entry and on return; the NIC is called without it. */
static void bury(struct uccl_mrcache *c)
{
	struct entry *e;

	while ((e = TAILQ_FIRST(&c->dead))) {
		TAILQ_REMOVE(&c->dead, e, link);
		uccl_memwatch_unlock();
		entry_free(c, e);
		uccl_memwatch_lock();
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
	uccl_memwatch_lock();
	trim(c, 0, 0);
	bury(c);
	assert(TAILQ_EMPTY(&c->live));
	uccl_memwatch_unlock();
	if (c->keeps)
		uccl_memwatch_leave(&c->watcher);
	free(c->spare);
	free(c);
}

static struct entry *entry_find(struct uccl_mrcache *c, uintptr_t start, uintptr_t end)
{
	struct entry *e;

	TAILQ_FOREACH(e, &c->live, link)
		if (e->pub.start <= start && end <= e->pub.end)
			break;
	return e;
}

/*
 * Watch first, register then: what goes away between the two is told of, and the entry is there to be told. The lock
 * is not held while the NIC works, so the entry waits in the list with a user.
 */
static int entry_new(struct uccl_mrcache *c, struct entry *e, uintptr_t start, uintptr_t end, bool kept)
{
	int rc;

	*e = (struct entry){ .pub = { .start = start, .end = end }, .refs = 1 };
	e->gone = !c->keeps || !uccl_memwatch_add(start, end);
	if (e->gone && kept)
		return -FI_ENOSYS;
	if (!e->gone)
		TAILQ_INSERT_HEAD(&c->live, e, link);
	uccl_memwatch_unlock();
	rc = c->ops->reg(c->arg, start, end - start, &e->pub.mr);
	uccl_memwatch_lock();
	if (rc) {
		if (!e->gone)
			entry_hide(c, e);
		return rc;
	}
	c->stats.entries++;
	c->stats.bytes += end - start;
	return 0;
}

static int entry_get(struct uccl_mrcache *c, const void *buf, uint64_t len, bool kept,
		     const struct uccl_mrcache_entry **out)
{
	uintptr_t start = (uintptr_t)buf & ~(c->page - 1);
	uintptr_t end = ((uintptr_t)buf + len + c->page - 1) & ~(c->page - 1);
	struct entry *e;
	int rc = 0;

	if (!c->spare)
		c->spare = malloc(sizeof(*c->spare));
	if (!c->spare)
		return -FI_ENOMEM;
	uccl_memwatch_lock();
	e = entry_find(c, start, end);
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
		rc = entry_new(c, c->spare, start, end, kept);
		/* Pinned memory has a limit: what is kept for nobody gives way to what is needed. */
		if (rc && rc != -FI_ENOSYS && c->idle) {
			trim(c, 0, 0);
			bury(c);
			rc = entry_new(c, c->spare, start, end, kept);
		}
		if (!rc) {
			*out = &c->spare->pub;
			c->spare = NULL;
		}
	}
	bury(c);
	uccl_memwatch_unlock();
	return rc;
}

int uccl_mrcache_get(struct uccl_mrcache *c, const void *buf, uint64_t len, const struct uccl_mrcache_entry **e)
{
	return entry_get(c, buf, len, false, e);
}

int uccl_mrcache_get_kept(struct uccl_mrcache *c, const void *buf, uint64_t len, const struct uccl_mrcache_entry **e)
{
	return entry_get(c, buf, len, true, e);
}

void uccl_mrcache_put(struct uccl_mrcache *c, const struct uccl_mrcache_entry *pub)
{
	struct entry *e = uccl_container_of(pub, struct entry, pub);

	uccl_memwatch_lock();
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
	uccl_memwatch_unlock();
}

void uccl_mrcache_spoil(struct uccl_mrcache *c, const struct uccl_mrcache_entry *pub)
{
	struct entry *e = uccl_container_of(pub, struct entry, pub);

	uccl_memwatch_lock();
	if (!e->gone) {
		entry_hide(c, e);
		e->gone = true;
	}
	uccl_memwatch_unlock();
}

bool uccl_mrcache_keeps(const struct uccl_mrcache *c)
{
	return c->keeps;
}

struct uccl_mrcache_stats uccl_mrcache_stats(struct uccl_mrcache *c)
{
	struct uccl_mrcache_stats s;

	uccl_memwatch_lock();
	s = c->stats;
	uccl_memwatch_unlock();
	return s;
}
