/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "nic/verbs/devcache.h"

#include <assert.h>
#include <rdma/fi_errno.h>
#include <stdlib.h>
#include <sys/queue.h>

#include "base/units.h"

/* What is registered begins and ends at multiples of this in its allocation, as the pages of devices do. */
#define GRAIN (2ull << 20)

struct entry {
	struct uccl_devcache_entry pub;
	TAILQ_ENTRY(entry) link;
	uint64_t id;		/* of the allocation */
	int device;
	uint32_t refs;
	bool gone;		/* its memory is another one now: it ends with its last user, and is in no list */
};

TAILQ_HEAD(entry_list, entry);

struct uccl_devcache {
	const struct uccl_devcache_ops *ops;
	void *arg;
	uint32_t max_entries, idle;
	uint64_t max_bytes, idle_bytes;
	struct entry_list list;	/* latest used first */
	struct uccl_devcache_stats stats;
};

int uccl_devcache_open(const struct uccl_devcache_ops *ops, void *arg, uint32_t max_entries, uint64_t max_bytes,
		       struct uccl_devcache **out)
{
	struct uccl_devcache *c = calloc(1, sizeof(*c));

	if (!c)
		return -FI_ENOMEM;
	c->ops = ops;
	c->arg = arg;
	c->max_entries = max_entries;
	c->max_bytes = max_bytes;
	TAILQ_INIT(&c->list);
	*out = c;
	return 0;
}

static void entry_free(struct uccl_devcache *c, struct entry *e)
{
	c->ops->dereg(c->arg, e->pub.mr);
	c->stats.entries--;
	c->stats.bytes -= e->pub.len;
	free(e);
}

/* Nobody uses it now. */
static void idle_enter(struct uccl_devcache *c, const struct entry *e)
{
	c->idle++;
	c->idle_bytes += e->pub.len;
}

static void idle_leave(struct uccl_devcache *c, const struct entry *e)
{
	c->idle--;
	c->idle_bytes -= e->pub.len;
}

/* Out of the list; one that nobody uses ends at once. */
static void entry_drop(struct uccl_devcache *c, struct entry *e)
{
	TAILQ_REMOVE(&c->list, e, link);
	e->gone = true;
	if (e->refs)
		return;
	idle_leave(c, e);
	entry_free(c, e);
}

static void trim(struct uccl_devcache *c, uint32_t max_entries, uint64_t max_bytes)
{
	struct entry *e = TAILQ_LAST(&c->list, entry_list), *before;

	for (; e && (c->idle > max_entries || c->idle_bytes > max_bytes); e = before) {
		before = TAILQ_PREV(e, entry_list, link);
		if (e->refs)
			continue;
		entry_drop(c, e);
		c->stats.evicted++;
	}
}

void uccl_devcache_close(struct uccl_devcache *c)
{
	if (!c)
		return;
	trim(c, 0, 0);
	assert(TAILQ_EMPTY(&c->list));
	free(c);
}

/* What has all of it. What is there of an allocation that was at this place before is forgotten. PROTOCOL R222 */
static struct entry *entry_find(struct uccl_devcache *c, uintptr_t start, uint64_t len, int device, uint64_t id)
{
	struct entry *e, *next, *found = NULL;

	for (e = TAILQ_FIRST(&c->list); e; e = next) {
		next = TAILQ_NEXT(e, link);
		if (e->device != device || e->pub.start >= start + len || start >= e->pub.start + e->pub.len)
			continue;
		if (e->id != id) {
			c->stats.gone++;
			entry_drop(c, e);
		} else if (!found && e->pub.start <= start && start + len <= e->pub.start + e->pub.len) {
			found = e;
		}
	}
	return found;
}

/* It has one user. */
static int entry_new(struct uccl_devcache *c, uintptr_t start, uintptr_t end, uint64_t id,
		     const struct uccl_nic_device *device, struct entry **out)
{
	struct entry *e = calloc(1, sizeof(*e));
	int rc;

	if (!e)
		return -FI_ENOMEM;
	*e = (struct entry){
		.pub = { .start = start, .len = end - start },
		.id = id,
		.device = device->number,
		.refs = 1,
	};
	rc = c->ops->reg(c->arg, (void *)start, end - start, device, &e->pub.mr);
	/* What is kept for nobody gives way to what is needed. */
	if (rc && c->idle) {
		trim(c, 0, 0);
		rc = c->ops->reg(c->arg, (void *)start, end - start, device, &e->pub.mr);
	}
	if (rc) {
		free(e);
		return rc;
	}
	TAILQ_INSERT_HEAD(&c->list, e, link);
	c->stats.entries++;
	c->stats.bytes += e->pub.len;
	*out = e;
	return 0;
}

int uccl_devcache_get(struct uccl_devcache *c, const void *buf, uint64_t len, const struct uccl_nic_device *device,
		      struct uccl_devcache_entry **out)
{
	uintptr_t at = (uintptr_t)buf, start, from, to;
	uint64_t bytes, id;
	struct entry *e;
	int rc = device->range ? device->range(device->arg, buf, &start, &bytes, &id) : -FI_ENOSYS;

	if (rc)
		return rc;
	if (at < start || at - start > bytes || len > bytes - (at - start))
		return -FI_EFAULT;
	e = entry_find(c, at, len, device->number, id);
	if (e) {
		c->stats.hits++;
		if (!e->refs++)
			idle_leave(c, e);
		TAILQ_REMOVE(&c->list, e, link);
		TAILQ_INSERT_HEAD(&c->list, e, link);
	} else {
		c->stats.misses++;
		from = (uintptr_t)uccl_max(start, at & ~(GRAIN - 1));
		to = (uintptr_t)uccl_min(start + bytes, (at + len + GRAIN - 1) & ~(GRAIN - 1));
		rc = entry_new(c, from, to, id, device, &e);
		if (rc)
			return rc;
	}
	*out = &e->pub;
	return 0;
}

void uccl_devcache_hold(struct uccl_devcache_entry *pub)
{
	uccl_container_of(pub, struct entry, pub)->refs++;
}

void uccl_devcache_put(struct uccl_devcache *c, struct uccl_devcache_entry *pub)
{
	struct entry *e = uccl_container_of(pub, struct entry, pub);

	if (--e->refs)
		return;
	if (e->gone) {
		entry_free(c, e);
		return;
	}
	idle_enter(c, e);
	trim(c, c->max_entries, c->max_bytes);
}

struct uccl_devcache_stats uccl_devcache_stats(const struct uccl_devcache *c)
{
	return c->stats;
}
