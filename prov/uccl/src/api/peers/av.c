/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* See av.h. */
#include "api/peers/av.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/event/eq.h"
#include "api/lib/lib.h"
#include "api/lib/nosys.h"
#include "api/object/domain.h"
#include "api/offer/address.h"
#include "api/offer/attr.h"
#include "api/offer/named.h"
#include "api/offer/place.h"
#include "api/peers/avset.h"
#include "api/peers/avshare.h"

#define AV_END UINT32_MAX
#define AV_MIN 16
/* Handles must leave room for the bits of receive contexts, and memory is finite. */
#define AV_MAX (1u << 28)
#define AV_CTX_BITS 8

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

static int insert_one(struct uccl_av *av, const struct uccl_addr *addr, fi_addr_t *out)
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

/* One insertion call: results go to fi_addr[], errors to the caller's array or the event queue. */
struct insertion {
	struct uccl_av *av;
	fi_addr_t *fi_addr;	/* NULL: not wanted */
	int *errs;		/* FI_SYNC_ERR, else NULL */
	void *context;
	size_t at;		/* index of the next address */
	size_t good;
};

static void insertion_report(struct insertion *ins, int err)
{
	struct fi_eq_err_entry e = {
		.fid = &ins->av->fid.fid, .context = ins->context, .data = ins->at, .err = err, .prov_errno = err
	};

	if (ins->errs)
		ins->errs[ins->at] = err;
	if (!err) {
		ins->good++;
		return;
	}
	if (ins->fi_addr)
		ins->fi_addr[ins->at] = FI_ADDR_NOTAVAIL;
	uccl_info(FI_LOG_AV, "address %zu of a call cannot be inserted: %s\n", ins->at, uccl_lib.strerror(err));
	if (ins->av->async)
		uccl_eq_push_error(ins->av->eq, &e);
}

/* addr NULL: it could not be read. */
static void insertion_add(struct insertion *ins, const struct uccl_addr *addr)
{
	fi_addr_t index;
	int rc;

	rc = addr && addr->nic.port ? insert_one(ins->av, addr, &index) : -FI_EINVAL;
	if (!rc && ins->fi_addr)
		ins->fi_addr[ins->at] = index;
	insertion_report(ins, -rc);
	ins->at++;
}

static int insertion_begin(struct insertion *ins, struct uccl_av *av, fi_addr_t *fi_addr, uint64_t flags, void *context)
{
	if (av->async && !av->eq)
		return -FI_ENOEQ;
	if (flags & FI_AV_USER_ID)
		return -FI_ENOSYS;
	*ins = (struct insertion){ .av = av, .fi_addr = fi_addr, .context = context };
	if (flags & FI_SYNC_ERR) {
		if (av->async || !context)
			return -FI_EINVAL;
		ins->errs = context;
	}
	return 0;
}

static int insertion_end(struct insertion *ins)
{
	struct fi_eq_entry done = { .fid = &ins->av->fid.fid, .context = ins->context, .data = ins->good };

	if (!ins->av->async)
		return ins->good;
	return uccl_eq_push(ins->av->eq, FI_AV_COMPLETE, &done, sizeof(done));
}

static int av_insert(struct fid_av *fid, const void *addr, size_t count, fi_addr_t *fi_addr, uint64_t flags,
		     void *context)
{
	struct uccl_av *av = uccl_av_of(&fid->fid);
	const uint8_t *p = addr;
	struct insertion ins;
	int rc = insertion_begin(&ins, av, fi_addr, flags, context);

	if (rc)
		return rc;
	if (count && !addr)
		return -FI_EINVAL;
	for (size_t i = 0; i < count; i++) {
		struct uccl_addr a;
		size_t used;

		rc = uccl_address_unpack(av->domain->addr_format, p, SIZE_MAX, &a, &used);
		/* A socket cannot reach a queue pair, nor the reverse; whoever has one has an incarnation. */
		if (!rc && (!a.nic.pad == uccl_place_rdma(&av->domain->params) ||
			    (a.nic.pad && uccl_addr_keyless(&a))))
			rc = -FI_EINVAL;
		insertion_add(&ins, rc ? NULL : &a);
		p += used;
	}
	return insertion_end(&ins);
}

static void insertion_name(struct insertion *ins, const char *node, const char *service)
{
	const struct uccl_domain *d = ins->av->domain;
	struct uccl_nic_addr at;
	struct uccl_addr a = { 0 };
	bool found = uccl_address_resolve(node, service, d->addr_format, false, false, &at, 1) == 1;

	if (uccl_place_rdma(&d->params))
		found = found && at.port && uccl_named_allowed(&d->params) &&
			!uccl_named_ask(&at, 1, &d->params.ports, UCCL_NAMED_PATIENCE_NS, &a);
	else
		a.nic = at;
	insertion_add(ins, found ? &a : NULL);
}

static int av_insertsvc(struct fid_av *fid, const char *node, const char *service, fi_addr_t *fi_addr, uint64_t flags,
			void *context)
{
	struct uccl_av *av = uccl_av_of(&fid->fid);
	struct insertion ins;
	int rc = insertion_begin(&ins, av, fi_addr, flags, context);

	if (rc)
		return rc;
	if (!node && !service)
		return -FI_EINVAL;
	insertion_name(&ins, node, service);
	return insertion_end(&ins);
}

/* Add to a big-endian number of n bytes. */
static void add_bytes(uint8_t *p, int n, uint64_t add)
{
	for (int i = n - 1; i >= 0 && add; i--) {
		add += p[i];
		p[i] = add;
		add >>= 8;
	}
}

/*
 * The name of the i-th node after `node`: a numeric address counts as the number that it is; otherwise the digits at
 * the end of the name count, and a leading zero among them keeps their width. -FI_EINVAL: it cannot be counted.
 */
static int nth_node(const char *node, size_t i, char *out, size_t size)
{
	size_t len = strlen(node), digits = len;
	uint8_t ip[16];
	char *dot;
	int n;

	if (inet_pton(AF_INET, node, ip) == 1) {
		add_bytes(ip, 4, i);
		return inet_ntop(AF_INET, ip, out, size) ? 0 : -FI_EINVAL;
	}
	if (inet_pton(AF_INET6, node, ip) == 1) {
		add_bytes(ip, 16, i);
		return inet_ntop(AF_INET6, ip, out, size) ? 0 : -FI_EINVAL;
	}
	/* host1.example.org counts as host1 */
	dot = strchr(node, '.');
	if (dot)
		digits = len = dot - node;
	while (digits && isdigit((unsigned char)node[digits - 1]))
		digits--;
	if (digits == len)
		n = i ? -1 : snprintf(out, size, "%s", node);
	else
		n = snprintf(out, size, "%.*s%0*llu%s", (int)digits, node,
			     node[digits] == '0' ? (int)(len - digits) : 1,
			     strtoull(node + digits, NULL, 10) + (unsigned long long)i, dot ? dot : "");
	return n < 0 || (size_t)n >= size ? -FI_EINVAL : 0;
}

static int av_insertsym(struct fid_av *fid, const char *node, size_t nodecnt, const char *service, size_t svccnt,
			fi_addr_t *fi_addr, uint64_t flags, void *context)
{
	struct uccl_av *av = uccl_av_of(&fid->fid);
	struct insertion ins;
	unsigned long port;
	char *end;
	int rc = insertion_begin(&ins, av, fi_addr, flags, context);

	if (rc)
		return rc;
	if (!node || !service || !nodecnt || !svccnt)
		return -FI_EINVAL;
	port = strtoul(service, &end, 10);
	if (end == service || *end)
		return -FI_EINVAL;
	for (size_t i = 0; i < nodecnt; i++) {
		for (size_t k = 0; k < svccnt; k++) {
			char name[256], svc[24];

			snprintf(svc, sizeof(svc), "%lu", port + k);
			if (port + k > 65535 || nth_node(node, i, name, sizeof(name)))
				insertion_add(&ins, NULL);
			else
				insertion_name(&ins, name, svc);
		}
	}
	return insertion_end(&ins);
}

static int av_remove(struct fid_av *fid, fi_addr_t *fi_addr, size_t count, uint64_t flags)
{
	struct uccl_av *av = uccl_av_of(&fid->fid);
	int rc = 0;

	(void)flags;
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
	}
	/* Before the lock is gone: whoever gets a re-used index must find that endpoints have forgotten it. */
	if (!av->share)
		atomic_fetch_add(av->generation, 1);
	pthread_mutex_unlock(&av->lock);
	return rc;
}

static int av_lookup(struct fid_av *fid, fi_addr_t fi_addr, void *addr, size_t *addrlen)
{
	struct uccl_av *av = uccl_av_of(&fid->fid);
	struct uccl_addr a;
	int rc = uccl_av_get(av, fi_addr, &a);

	if (rc)
		return rc;
	/* What does not fit is cut, and the length tells: no error in this call. */
	rc = uccl_address_pack(av->domain->addr_format, &a, addr, addrlen);
	return rc == -FI_ETOOSMALL ? 0 : rc;
}

static const char *av_straddr(struct fid_av *fid, const void *addr, char *buf, size_t *len)
{
	struct uccl_av *av = uccl_av_of(&fid->fid);
	struct uccl_addr a;
	size_t need;

	if (uccl_address_unpack(av->domain->addr_format, addr, SIZE_MAX, &a, NULL))
		need = snprintf(buf, *len, "fi_uccl://(not an address)");
	else
		need = uccl_address_text(&a, buf, *len);
	*len = need + 1;
	return buf;
}

static int av_bind(struct fid *fid, struct fid *bfid, uint64_t flags)
{
	struct uccl_av *av = uccl_av_of(fid);

	(void)flags;
	if (bfid->fclass != FI_CLASS_EQ || av->eq)
		return -FI_EINVAL;
	av->eq = uccl_eq_of(bfid);
	atomic_fetch_add(&av->eq->refs, 1);
	return 0;
}

static int av_close(struct fid *fid)
{
	struct uccl_av *av = uccl_av_of(fid);

	if (atomic_load(&av->refs))
		return -FI_EBUSY;
	if (av->eq)
		atomic_fetch_sub(&av->eq->refs, 1);
	atomic_fetch_sub(&av->domain->refs, 1);
	if (av->share)
		uccl_avshare_close(av->share);
	pthread_mutex_destroy(&av->lock);
	free(av->v);
	free(av->buckets);
	free(av);
	return 0;
}

static struct fi_ops av_fid_ops = {
	.size = sizeof(struct fi_ops),
	.close = av_close,
	.bind = av_bind,
	.control = uccl_no_control,
	.ops_open = uccl_no_ops_open,
	.tostr = uccl_no_tostr,
	.ops_set = uccl_no_ops_set,
};

/* Later headers have more operations behind these; with this size none of them is there. */
static struct fi_ops_av av_ops = {
	.size = offsetof(struct fi_ops_av, av_set) + sizeof(void *),
	.insert = av_insert,
	.insertsvc = av_insertsvc,
	.insertsym = av_insertsym,
	.remove = av_remove,
	.lookup = av_lookup,
	.straddr = av_straddr,
	.av_set = uccl_avset_open,
};

int uccl_av_open(struct fid_domain *domain, struct fi_av_attr *attr, struct fid_av **out, void *context)
{
	struct uccl_av *av;
	int rc;

	if (attr && attr->flags & ~(FI_EVENT | FI_SYMMETRIC | (attr->name ? FI_READ : 0))) {
		uccl_info(FI_LOG_AV, "address vector flags 0x%llx are not supported\n",
			  (unsigned long long)attr->flags);
		return -FI_EINVAL;
	}
	if (attr && (attr->rx_ctx_bits < 0 || attr->rx_ctx_bits > AV_CTX_BITS))
		return -FI_EINVAL;
	av = calloc(1, sizeof(*av));
	if (!av)
		return -FI_ENOMEM;
	av->ctx_bits = attr ? (uint8_t)attr->rx_ctx_bits : 0;
	av->domain = uccl_domain_of(&domain->fid);
	av->async = attr && attr->flags & FI_EVENT;
	av->free_list = AV_END;
	av->generation = &av->own_generation;
	if (attr && attr->name) {
		rc = uccl_avshare_open(av->domain->name, attr->name, attr->flags & FI_READ, attr->count, &av->share);
		if (rc) {
			uccl_info(FI_LOG_AV, "address vector %s cannot be opened: %s\n", attr->name,
				  uccl_lib.strerror(-rc));
			free(av);
			return rc;
		}
		av->generation = uccl_avshare_generation(av->share);
		attr->map_addr = uccl_avshare_map(av->share);
	}
	pthread_mutex_init(&av->lock, NULL);
	av->fid.fid.fclass = FI_CLASS_AV;
	av->fid.fid.context = context;
	av->fid.fid.ops = &av_fid_ops;
	av->fid.ops = &av_ops;
	if (attr && attr->type == FI_AV_UNSPEC)
		attr->type = FI_AV_TABLE;
	atomic_fetch_add(&av->domain->refs, 1);
	*out = &av->fid;
	return 0;
}
