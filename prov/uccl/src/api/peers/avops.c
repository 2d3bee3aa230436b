/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* See avops.h. */
#include "api/peers/avops.h"

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
#include "api/offer/named.h"
#include "api/offer/place.h"
#include "api/peers/av.h"
#include "api/peers/avset.h"
#include "api/peers/avshare.h"

/* Handles must leave room for an index. */
#define AV_CTX_BITS 8

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

	rc = addr && addr->nic.port ? uccl_av_insert(ins->av, addr, &index) : -FI_EINVAL;
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
			!uccl_named_ask(&at, 1, &d->params.nic.ports, UCCL_NAMED_PATIENCE_NS, &a);
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
	(void)flags;
	return uccl_av_remove(uccl_av_of(&fid->fid), fi_addr, count);
}

static int av_lookup(struct fid_av *fid, fi_addr_t fi_addr, void *addr, size_t *addrlen)
{
	struct uccl_av *av = uccl_av_of(&fid->fid);
	struct uccl_addr a;
	int rc = uccl_av_get(av, fi_addr, &a);

	if (rc)
		return rc;
	/* An address that does not fit is cut. That is no error here, since *addrlen says how long it is. */
	rc = uccl_address_pack(av->domain->addr_format, &a, addr, addrlen);
	return rc == -FI_ETOOSMALL ? 0 : rc;
}

static const char *av_straddr(struct fid_av *fid, const void *addr, char *buf, size_t *len)
{
	*len = uccl_address_straddr(uccl_av_of(&fid->fid)->domain->addr_format, addr, buf, *len) + 1;
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
	uccl_av_fini(av);
	free(av);
	return 0;
}

static struct fi_ops av_fid_ops = UCCL_FID_OPS(av_close, av_bind, uccl_no_control);

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
	uccl_av_init(av);
	if (attr && attr->name) {
		rc = uccl_avshare_open(av->domain->name, attr->name, attr->flags & FI_READ, attr->count, &av->share);
		if (rc) {
			uccl_info(FI_LOG_AV, "address vector %s cannot be opened: %s\n", attr->name,
				  uccl_lib.strerror(-rc));
			uccl_av_fini(av);
			free(av);
			return rc;
		}
		av->generation = uccl_avshare_generation(av->share);
		attr->map_addr = uccl_avshare_map(av->share);
	}
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
