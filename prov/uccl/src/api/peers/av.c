/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* See av.h. */
#include "api/peers/av.h"

#include <rdma/fi_errno.h>
#include <stdlib.h>
#include <string.h>

#include "api/offer/attr.h"
#include "api/peers/avshare.h"
#include "base/units.h"

#define AV_END UINT32_MAX
#define AV_MIN 16
/* Handles must leave room for the bits of receive contexts, and memory is finite. */
#define AV_MAX (1u << 28)

/* By what an indirect address has as well, where there are such. */
static uint32_t addr_hash(const struct uccl_addr *a)
{
	uint64_t h = a->nic.pad ? a->incarnation : a->nic.port;

	for (int i = 0; i < 16; i++)
		h = (h ^ a->nic.ip[i]) * 0x100000001b3ull;
	return h ^ h >> 32;
}

static void chain(struct uccl_av *av, uint32_t i)
{
	uint32_t *head = &av->buckets[addr_hash(&av->v[i].addr) & (av->cap - 1)];

	av->v[i].next = *head;
	*head = i;
}

static void unchain(struct uccl_av *av, uint32_t i)
{
	uint32_t *link = &av->buckets[addr_hash(&av->v[i].addr) & (av->cap - 1)];

	while (*link != i)
		link = &av->v[*link].next;
	*link = av->v[i].next;
}

static int grow(struct uccl_av *av)
{
	uint32_t cap = av->cap ? av->cap * 2 : AV_MIN;
	struct uccl_av_entry *v;
	uint32_t *buckets;

	if (cap > AV_MAX)
		return -FI_ENOMEM;
	v = realloc(av->v, cap * sizeof(*v));
	if (!v)
		return -FI_ENOMEM;
	av->v = v;
	buckets = malloc(cap * sizeof(*buckets));
	if (!buckets)
		return -FI_ENOMEM;
	free(av->buckets);
	av->buckets = buckets;
	av->cap = cap;
	memset(buckets, 0xff, cap * sizeof(*buckets)); /* AV_END */
	/* Growing happens when no entry is free, so all are in chains. */
	for (uint32_t i = 0; i < av->n; i++)
		chain(av, i);
	return 0;
}

void uccl_av_init(struct uccl_av *av)
{
	av->free_list = AV_END;
	av->generation = &av->own_generation;
	pthread_mutex_init(&av->lock, NULL);
}

void uccl_av_fini(struct uccl_av *av)
{
	if (av->share)
		uccl_avshare_close(av->share);
	pthread_mutex_destroy(&av->lock);
	free(av->v);
	free(av->buckets);
}

int uccl_av_insert(struct uccl_av *av, const struct uccl_addr *addr, fi_addr_t *out)
{
	uint32_t i;
	int rc = 0;

	pthread_mutex_lock(&av->lock);
	if (av->share) {
		rc = uccl_avshare_insert(av->share, addr, out);
		goto out;
	}
	if (av->free_list != AV_END) {
		i = av->free_list;
		av->free_list = av->v[i].next;
	} else {
		if (av->n == av->cap)
			rc = grow(av);
		if (rc)
			goto out;
		i = av->n++;
	}
	av->v[i].addr = *addr;
	av->v[i].used = true;
	chain(av, i);
	*out = i;
out:
	pthread_mutex_unlock(&av->lock);
	return rc;
}

int uccl_av_remove(struct uccl_av *av, const fi_addr_t *fi_addr, size_t count)
{
	int rc = 0;

	pthread_mutex_lock(&av->lock);
	/* From the last to the first, so that the lowest index is used again first. */
	for (size_t i = count; i-- > 0;) {
		uint32_t k = fi_addr[i];

		if (av->share) {
			int gone = uccl_avshare_remove(av->share, fi_addr[i]);

			rc = gone ? gone : rc;
			continue;
		}
		if (fi_addr[i] >= av->n || !av->v[k].used) {
			rc = -FI_EINVAL;
			continue;
		}
		unchain(av, k);
		av->v[k].used = false;
		av->v[k].next = av->free_list;
		av->free_list = k;
		/* Before the lock is gone: whoever gets a re-used index must find that endpoints have forgotten it. */
		av->removed[atomic_fetch_add(av->generation, 1) % UCCL_AV_REMOVED] = k;
	}
	pthread_mutex_unlock(&av->lock);
	return rc;
}

int uccl_av_removed(struct uccl_av *av, uint32_t *generation, fi_addr_t gone[UCCL_AV_REMOVED])
{
	uint32_t now, n;

	pthread_mutex_lock(&av->lock);
	now = atomic_load(av->generation);
	n = now - *generation;
	for (uint32_t i = 0; !av->share && n <= UCCL_AV_REMOVED && i < n; i++)
		gone[i] = av->removed[(*generation + i) % UCCL_AV_REMOVED];
	pthread_mutex_unlock(&av->lock);
	*generation = now;
	return av->share || n > UCCL_AV_REMOVED ? -1 : (int)n;
}

bool uccl_av_context(struct uccl_addr *addr, int index)
{
	int port = addr->nic.port + index;

	if (addr->nic.pad) {
		addr->incarnation += (uint64_t)(int64_t)index;
		addr->indirect = index;
		return true;
	}
	if (port < 1 || port > UINT16_MAX)
		return false;
	addr->nic.port = (uint16_t)port;
	if (addr->incarnation)
		addr->incarnation += (uint64_t)(int64_t)index;
	return true;
}

fi_addr_t uccl_av_end(struct uccl_av *av)
{
	fi_addr_t end = AV_MAX;

	pthread_mutex_lock(&av->lock);
	if (!av->share)
		end = av->n;
	pthread_mutex_unlock(&av->lock);
	return end;
}

int uccl_av_get(struct uccl_av *av, fi_addr_t fi_addr, struct uccl_addr *out)
{
	int rc = -FI_EINVAL, context = 0;

	if (av->ctx_bits) {
		context = (int)(fi_addr >> (64 - av->ctx_bits));
		fi_addr &= ~0ull >> av->ctx_bits;
	}
	if (av->share) {
		rc = uccl_avshare_get(av->share, fi_addr, out);
		return !rc && context && !uccl_av_context(out, context) ? -FI_EINVAL : rc;
	}
	pthread_mutex_lock(&av->lock);
	if (fi_addr < av->n && av->v[fi_addr].used) {
		*out = av->v[fi_addr].addr;
		rc = 0;
	}
	pthread_mutex_unlock(&av->lock);
	return !rc && context && !uccl_av_context(out, context) ? -FI_EINVAL : rc;
}

static fi_addr_t find_one(struct uccl_av *av, const struct uccl_addr *addr)
{
	uint32_t exact = AV_END, loose = AV_END;

	if (av->share)
		return uccl_avshare_find(av->share, addr);
	pthread_mutex_lock(&av->lock);
	if (av->cap) {
		uint32_t i = av->buckets[addr_hash(addr) & (av->cap - 1)];

		for (; i != AV_END; i = av->v[i].next) {
			int like = uccl_av_like(&av->v[i].addr, addr);

			if (like > 1)
				exact = uccl_min(exact, i);
			else if (like)
				loose = uccl_min(loose, i);
		}
	}
	pthread_mutex_unlock(&av->lock);
	if (exact != AV_END)
		return exact;
	return loose != AV_END ? loose : FI_ADDR_NOTAVAIL;
}

fi_addr_t uccl_av_find(struct uccl_av *av, const struct uccl_addr *addr)
{
	fi_addr_t found = find_one(av, addr);

	/* Otherwise it may be another context of an endpoint that is known. */
	for (int i = 1; av->ctx_bits && found == FI_ADDR_NOTAVAIL && i < 2 * UCCL_CONTEXTS_MAX; i++) {
		struct uccl_addr a = *addr;

		if (uccl_av_context(&a, -i))
			found = find_one(av, &a);
	}
	return found;
}
