/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "nic/verbs/verbs_ah.h"

#ifdef HAVE_VERBS

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <rdma/fi_errno.h>

#include "base/log.h"
#include "base/units.h"

#define DEAD_MAX 64
#define DEAD_MIN_NS (100 * UCCL_NS_PER_MS)
#define DEAD_MAX_NS (30 * UCCL_NS_PER_S)
#define DEAD_SHARE 10 /* at most one part in this many of the time is spent on addresses that do not answer */
#define EVICT_MAX 64  /* handles that are examined for one that can be evicted */
#define HOP_LIMIT 64

/* An address that is not tried again before `until`. */
struct dead {
	uint8_t ip[16];
	uint16_t lid;
	uint64_t until;
};

TAILQ_HEAD(ah_list, uccl_verbs_ah);

struct uccl_verbs_ahs {
	const struct uccl_verbs *lib;
	struct ibv_pd *pd;
	struct uccl_verbs_port port;
	uint64_t (*clock)(void);
	uint32_t n, limit;
	struct uccl_verbs_ah *by_key;
	struct ah_list lru; /* the last is the latest used */
	struct dead dead[DEAD_MAX];
	int ndead;
};

int uccl_verbs_ahs_open(const struct uccl_verbs *lib, struct ibv_pd *pd, const struct uccl_verbs_port *port,
			uint32_t limit, uint64_t (*clock)(void), struct uccl_verbs_ahs **out)
{
	struct uccl_verbs_ahs *s = calloc(1, sizeof(*s));

	if (!s)
		return -FI_ENOMEM;
	s->lib = lib;
	s->pd = pd;
	s->port = *port;
	s->limit = limit;
	s->clock = clock;
	TAILQ_INIT(&s->lru);
	*out = s;
	return 0;
}

static void ah_drop(struct uccl_verbs_ahs *s, struct uccl_verbs_ah *a)
{
	HASH_DELETE(hh, s->by_key, a);
	TAILQ_REMOVE(&s->lru, a, lru);
	s->lib->destroy_ah(a->ah);
	free(a);
	s->n--;
}

void uccl_verbs_ahs_close(struct uccl_verbs_ahs *s)
{
	while (!TAILQ_EMPTY(&s->lru))
		ah_drop(s, TAILQ_FIRST(&s->lru));
	free(s);
}

/* Unreachable addresses. */

static void dead_add(struct uccl_verbs_ahs *s, const uint8_t ip[16], uint16_t lid, uint64_t until)
{
	int i, oldest = 0;

	for (i = 0; i < s->ndead; i++) {
		if (s->dead[i].lid == lid && !memcmp(s->dead[i].ip, ip, 16))
			break;
		if (s->dead[i].until < s->dead[oldest].until)
			oldest = i;
	}
	if (i == DEAD_MAX)
		i = oldest;
	else if (i == s->ndead)
		s->ndead++;
	memcpy(s->dead[i].ip, ip, 16);
	s->dead[i].lid = lid;
	s->dead[i].until = until;
}

static bool dead_find(struct uccl_verbs_ahs *s, const struct uccl_verbs_ah_key *k)
{
	int i;

	for (i = 0; i < s->ndead; i++) {
		if (s->dead[i].lid != k->lid || memcmp(s->dead[i].ip, k->ip, 16))
			continue;
		if (s->clock() < s->dead[i].until)
			return true;
		s->dead[i] = s->dead[--s->ndead];
		return false;
	}
	return false;
}

void uccl_verbs_ah_suspect(struct uccl_verbs_ahs *s, const struct uccl_verbs_ah *bad)
{
	struct uccl_verbs_ah *a;

	dead_add(s, bad->key.ip, bad->key.lid, s->clock() + DEAD_MIN_NS);
	TAILQ_FOREACH(a, &s->lru, lru)
		if (a->key.lid == bad->key.lid && !memcmp(a->key.ip, bad->key.ip, 16))
			a->stale = true;
}

void uccl_verbs_ahs_refresh(struct uccl_verbs_ahs *s, uint32_t gid_index)
{
	struct uccl_verbs_ah *a;

	s->ndead = 0;
	if (gid_index == s->port.gid_index)
		return;
	s->port.gid_index = gid_index;
	TAILQ_FOREACH(a, &s->lru, lru)
		a->stale = true;
}

/* Handles. */

/* Make room for one more. False: all that were examined are in use. */
static bool room_make(struct uccl_verbs_ahs *s)
{
	struct uccl_verbs_ah *a;
	int examined = 0;

	if (s->n < s->limit)
		return true;
	TAILQ_FOREACH(a, &s->lru, lru) {
		if (!a->users) {
			ah_drop(s, a);
			return true;
		}
		if (++examined == EVICT_MAX)
			break;
	}
	return false;
}

void uccl_verbs_route(const struct uccl_verbs_port *port, const struct uccl_verbs_ah_key *to,
		      struct ibv_ah_attr *attr)
{
	memset(attr, 0, sizeof(*attr));
	attr->is_global = 1;
	attr->port_num = port->port;
	attr->sl = to->mark.service_level;
	attr->dlid = to->lid;
	memcpy(attr->grh.dgid.raw, to->ip, 16);
	attr->grh.flow_label = to->flow;
	attr->grh.sgid_index = (uint8_t)port->gid_index;
	attr->grh.hop_limit = HOP_LIMIT;
	attr->grh.traffic_class = to->mark.traffic_class;
}

static struct ibv_ah *ah_create(struct uccl_verbs_ahs *s, const struct uccl_verbs_ah_key *k)
{
	struct ibv_ah_attr attr;

	uccl_verbs_route(&s->port, k, &attr);
	return s->lib->create_ah(s->pd, &attr);
}

static int ah_make(struct uccl_verbs_ahs *s, const struct uccl_verbs_ah_key *k, struct uccl_verbs_ah **out)
{
	uint64_t began = s->clock(), wait;
	struct uccl_verbs_ah *a;
	struct ibv_ah *ah;

	if (!room_make(s))
		return -FI_EAGAIN;
	ah = ah_create(s, k);
	if (!ah) {
		wait = uccl_clamp((s->clock() - began) * DEAD_SHARE, DEAD_MIN_NS, DEAD_MAX_NS);
		UCCL_LOG(UCCL_LOG_INFO, "cannot make an address handle: %s; next try in %llu ms", strerror(errno),
			 (unsigned long long)(wait / UCCL_NS_PER_MS));
		dead_add(s, k->ip, k->lid, s->clock() + wait);
		return -FI_EHOSTUNREACH;
	}
	a = calloc(1, sizeof(*a));
	if (a) {
		a->ah = ah;
		a->key = *k;
		HASH_ADD(hh, s->by_key, key, sizeof(a->key), a);
	}
	if (!a || !a->hh.tbl) {
		free(a);
		s->lib->destroy_ah(ah);
		return -FI_ENOMEM;
	}
	TAILQ_INSERT_TAIL(&s->lru, a, lru);
	s->n++;
	*out = a;
	return 0;
}

int uccl_verbs_ah_get(struct uccl_verbs_ahs *s, const struct uccl_nic_addr *to, const struct uccl_verbs_mark *mark,
		      uint32_t flow, struct uccl_verbs_ah **out)
{
	struct uccl_verbs_ah_key k;
	struct uccl_verbs_ah *a;
	int err;

	memset(&k, 0, sizeof(k)); /* its padding is hashed, too */
	memcpy(k.ip, to->ip, sizeof(k.ip));
	k.flow = flow;
	k.lid = s->port.infiniband ? to->pad : 0;
	k.mark = *mark;
	if (s->ndead && dead_find(s, &k))
		return -FI_EHOSTUNREACH;
	HASH_FIND(hh, s->by_key, &k, sizeof(k), a);
	if (a && a->stale && !a->users) {
		ah_drop(s, a);
		a = NULL;
	}
	if (a) {
		TAILQ_REMOVE(&s->lru, a, lru);
		TAILQ_INSERT_TAIL(&s->lru, a, lru);
	} else {
		err = ah_make(s, &k, &a);
		if (err)
			return err;
	}
	a->users++;
	*out = a;
	return 0;
}

void uccl_verbs_ah_put(struct uccl_verbs_ah *a)
{
	a->users--;
}

#endif
