/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * fi_getinfo: hints are judged first (attr.c), then node and service are resolved, then one entry is made for each
 * interface that can play the part.
 */
#include "api/info.h"

#include <rdma/fi_ext_uccl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/domain.h"
#include "api/fabric.h"
#include "api/lib/lib.h"
#include "api/lib/oldnames.h"
#include "api/lib/sodium.h"
#include "api/offer/address.h"
#include "api/offer/asked.h"
#include "api/offer/attr.h"
#include "api/offer/hwloc.h"
#include "api/offer/named.h"
#include "api/offer/near.h"
#include "api/offer/nicattr.h"
#include "api/offer/nicnames.h"
#include "api/offer/order.h"
#include "api/offer/param.h"
#include "api/offer/persona.h"
#include "api/offer/place.h"
#include "api/offer/refusal.h"
#include "api/offer/source.h"
#include "api/offer/sysfs.h"
#include "nic/ifaddr.h"
#include "nic/nic.h"

/* Most addresses of one name that are used. */
#define RESOLVE_MAX 16

/*
 * A utility provider of the library asks, to build its own endpoints on ours; the flag is not in the library's public
 * headers. They would stand beside ours, and before them in some lists, with nothing that ours lack.
 */
#define CORE_PROV_ONLY (1ull << 59)

/* IP and UDP headers; what does not fit beside them would be cut in pieces. */
#define PACKET_OVERHEAD 48
#define PACKET_MIN 512

/* The request, digested. */
struct query {
	const struct fi_info *hints;
	struct uccl_params params;
	uint32_t version;
	uint32_t format;
	bool format_open;		/* neither hints nor the library's filter say it */
	const char *domain_name;	/* NULL: any */
	char interface[UCCL_IFADDR_NAME]; /* of that domain */
	struct uccl_domain *domain;	/* already open, NULL: none */
	struct uccl_nic_addr src[RESOLVE_MAX];
	int nsrc;			/* 0: any address */
	uint16_t src_port;		/* 0: any */
	struct uccl_addr dest;
	bool has_dest, dest_local;
	bool rdma;			/* the back end wants RDMA NICs */
	bool dgram;			/* FI_EP_DGRAM */
	bool asked;			/* see uccl_asked() */
	bool nic_unknown;		/* a warning named a word of FI_UCCL_NIC */
};

static bool is_local(const struct uccl_nic_addr *a)
{
	struct uccl_ifaddr ifa;

	return uccl_ifaddr_is_loopback(a) || !uccl_ifaddr_find(a, &ifa);
}

/* Same answer on every host and in both roles: IPv4 first, else as the resolver had them. */
static void v4_first(struct uccl_nic_addr *v, int n)
{
	for (int i = 1; i < n; i++) {
		for (int k = i; k > 0 && uccl_ifaddr_is_v4(&v[k]) && !uccl_ifaddr_is_v4(&v[k - 1]); k--) {
			struct uccl_nic_addr t = v[k];

			v[k] = v[k - 1];
			v[k - 1] = t;
		}
	}
}

static bool has_address(const struct uccl_ifaddr *list, int n, const struct uccl_nic_addr *a)
{
	for (int i = 0; i < n; i++)
		if (!memcmp(list[i].addr.ip, a->ip, sizeof(a->ip)))
			return true;
	return false;
}

/*
 * A name of this host may stand for addresses that no RDMA NIC has: all its endpoints are found by them, so they
 * choose none.
 */
static void rdma_sources(struct query *q)
{
	struct uccl_ifaddr *list;
	int n = uccl_place_list(&q->params, &list), kept = 0;

	for (int i = 0; i < q->nsrc; i++)
		if (has_address(list, n, &q->src[i]) || !is_local(&q->src[i]))
			q->src[kept++] = q->src[i];
	q->nsrc = kept;
	if (n > 0)
		free(list);
}

static int set_source(struct query *q, const struct uccl_nic_addr *v, int n)
{
	q->nsrc = 0;
	for (int i = 0; i < n; i++) {
		q->src_port = v[i].port;
		if (!uccl_ifaddr_is_any(&v[i]))
			q->src[q->nsrc++] = v[i];
	}
	if (q->rdma)
		rdma_sources(q);
	return 0;
}

/* An address in hints, whose format may be left open. */
static int hint_address(const struct query *q, const void *buf, size_t len, struct uccl_addr *a)
{
	uint32_t format = q->hints->addr_format;

	if (format == FI_FORMAT_UNSPEC)
		format = len == UCCL_ADDR_LEN ? FI_ADDR_UCCL : FI_SOCKADDR;
	return uccl_address_unpack(format, buf, len, a, NULL);
}

static int query_source(struct query *q, const char *node, const char *service, bool numeric)
{
	const struct fi_info *h = q->hints;
	struct uccl_nic_addr found[RESOLVE_MAX];
	struct uccl_addr a;
	int n;

	if (node || service) {
		n = uccl_address_resolve(node, service, q->format, numeric, true, found, RESOLVE_MAX);
		if (n < 0)
			return n;
		v4_first(found, n);
		return set_source(q, found, n);
	}
	if (!h || !h->src_addr || !h->src_addrlen)
		return 0;
	if (hint_address(q, h->src_addr, h->src_addrlen, &a)) {
		uccl_refusal("hints->src_addr is not an address of hints->addr_format");
		return -FI_ENODATA;
	}
	return set_source(q, &a.nic, 1);
}

/* The first address that one of our interfaces can talk to. */
static int pick_dest(struct query *q, const struct uccl_nic_addr *v, int n)
{
	struct uccl_ifaddr *list;
	int nlist = uccl_place_list(&q->params, &list), pick = -1;

	for (int i = 0; i < n && pick < 0; i++)
		for (int k = 0; k < nlist && pick < 0; k++)
			if (uccl_ifaddr_is_v4(&list[k].addr) == uccl_ifaddr_is_v4(&v[i]) &&
			    (!list[k].loopback || is_local(&v[i])))
				pick = i;
	if (nlist >= 0)
		free(list);
	if (pick < 0) {
		uccl_refusal("no interface has the destination's address family (IPv4, IPv6)");
		return -FI_ENODATA;
	}
	memset(&q->dest, 0, sizeof(q->dest));
	q->dest.nic = v[pick];
	return 0;
}

/* Endpoints of RDMA NICs know their addresses themselves: ask at that port. */
static int ask_dest(struct query *q, const char *node, const char *service, const struct uccl_nic_addr *v, int n)
{
	int rc;

	/* A host that there is can be reached, but is nobody's address. The text of an address may have a port. */
	if (!service && !v->port)
		return 0;
	rc = uccl_named_ask(v, n, &q->params.nic.ports, UCCL_NAMED_PATIENCE_NS, &q->dest);
	q->has_dest = !rc;
	if (rc)
		uccl_warn(FI_LOG_CORE,
			  "no endpoint of an RDMA NIC answers at %s port %u: is it open? does a firewall block UDP?\n",
			  node ? node : "localhost", v->port);
	return rc;
}

static int query_dest(struct query *q, const char *node, const char *service, bool numeric)
{
	const struct fi_info *h = q->hints;
	struct uccl_nic_addr found[RESOLVE_MAX];
	int n;

	if (node || service) {
		n = uccl_address_resolve(node, service, q->format, numeric, false, found, RESOLVE_MAX);
		if (n < 0)
			return n;
		v4_first(found, n);
		n = q->rdma ? ask_dest(q, node, service, found, n) : pick_dest(q, found, n);
		if (n || q->rdma)
			return n;
	} else if (h && h->dest_addr && h->dest_addrlen) {
		if (hint_address(q, h->dest_addr, h->dest_addrlen, &q->dest)) {
			uccl_refusal("hints->dest_addr is not an address of hints->addr_format");
			return -FI_ENODATA;
		}
	} else {
		return 0;
	}
	q->has_dest = true;
	q->dest_local = is_local(&q->dest.nic);
	return 0;
}

/* Objects that hints name: a fabric or domain that is open already must be one of ours. */
static int query_objects(struct query *q)
{
	const struct fi_fabric_attr *f = q->hints ? q->hints->fabric_attr : NULL;
	const struct fi_domain_attr *d = q->hints ? q->hints->domain_attr : NULL;

	if (f && f->fabric && !uccl_fabric_is_ours(f->fabric)) {
		uccl_refusal("the open fabric belongs to another provider");
		return -FI_ENODATA;
	}
	if (f && f->name && strcmp(f->name, FI_UCCL_FABRIC_NAME)) {
		uccl_refusal("fabric name %s; this provider's is %s", f->name, FI_UCCL_FABRIC_NAME);
		return -FI_ENODATA;
	}
	if (d && d->domain) {
		q->domain = uccl_domain_ours(d->domain);
		if (!q->domain) {
			uccl_refusal("the open domain belongs to another provider");
			return -FI_ENODATA;
		}
		q->domain_name = q->domain->name;
	}
	if (d && d->name)
		q->domain_name = d->name;
	if (q->domain_name)
		uccl_persona_interface(q->domain_name, q->interface);
	return 0;
}

/* Bytes of a datagram: what one packet of this interface carries, with every kind of security. */
static size_t dgram_bytes(const struct query *q, const struct uccl_ifaddr *ifa)
{
	uint64_t packet = q->params.nic.mtu;

	if (!packet)
		packet = uccl_max(ifa->mtu, PACKET_MIN + PACKET_OVERHEAD) - PACKET_OVERHEAD;
	return packet - UCCL_HDR_LEN - UCCL_SEAL_LEN;
}

static bool dgram_fits(const struct query *q, const struct uccl_ifaddr *ifa)
{
	const struct fi_info *h = q->hints;

	return uccl_max(h->ep_attr->max_msg_size, h->tx_attr ? h->tx_attr->inject_size : 0) <= dgram_bytes(q, ifa);
}

static bool query_wants(const struct query *q, const struct uccl_ifaddr *ifa, unsigned int *rank)
{
	const struct uccl_nic_addr *dest = &q->dest.nic;

	if (!uccl_nicnames_allow(q->params.nic.names, ifa->name, rank))
		return false;
	if (q->domain_name && strcmp(q->interface, ifa->name))
		return false;
	if (!uccl_source_fits(q->format, &ifa->addr) || (q->dgram && !dgram_fits(q, ifa)))
		return false;
	/* An idle bridge, a port without cable: only for those that name it, its address included. */
	if (!q->domain_name && !uccl_nicnames_name(q->params.nic.names) && !q->nsrc &&
	    !uccl_sysfs_running(UCCL_SYSFS, ifa->name))
		return false;
	if (!q->has_dest)
		return true;
	if (uccl_ifaddr_is_v4(dest) != uccl_ifaddr_is_v4(&ifa->addr))
		return false;
	/* What leaves through loopback stays here, and a loopback address is only reached from there. */
	return uccl_ifaddr_is_loopback(dest) ? ifa->loopback : q->dest_local || !ifa->loopback;
}

static int add_candidate(struct uccl_candidate *c, int n, const struct query *q, const struct uccl_ifaddr *ifa)
{
	unsigned int rank;

	if (!query_wants(q, ifa, &rank))
		return n;
	for (int i = 0; i < n && !q->nsrc; i++)
		if (!strcmp(c[i].ifa.name, ifa->name) &&
		    uccl_ifaddr_is_v4(&c[i].ifa.addr) == uccl_ifaddr_is_v4(&ifa->addr))
			return n; /* one address of a family is enough */
	c[n].ifa = *ifa;
	c[n].rank = rank;
	c[n].order = n;
	c[n].shared = uccl_ifaddr_shared(ifa);
	c[n].last = ifa->loopback != (q->has_dest && q->dest_local) && !q->rdma;
	c[n].rdma = q->rdma;
	return n + 1;
}

/* What is asked for, and what of the candidates can be offered together. */
static int keep_together(const struct query *q, struct uccl_candidate *c, int n)
{
	struct uccl_asked asked = {
		.dest = q->has_dest,
		.sources = q->nsrc,
		.named = uccl_nicnames_name(q->params.nic.names),
		.rdma = q->rdma,
	};

	return uccl_order_keep(c, n, &asked);
}

/* Find the interface with source address i, or the joined interfaces whose first one has that address. */
static bool source_find(const struct query *q, int i, const struct uccl_ifaddr *list, int n, struct uccl_ifaddr *one)
{
	unsigned int rank;

	for (int k = 0; k < n; k++) {
		if (memcmp(list[k].addr.ip, q->src[i].ip, sizeof(list[k].addr.ip)) ||
		    !(q->rdma || uccl_place_joined(&q->params, list[k].name)) ||
		    !uccl_nicnames_allow(q->params.nic.names, list[k].name, &rank))
			continue;
		*one = list[k];
		return true;
	}
	return !q->rdma && !uccl_ifaddr_find(&q->src[i], one);
}

/*
 * Measure the distance of the NICs from the processors on which the caller may run. The addresses of a host name keep
 * their order, which is the same at all peers. A caller that may run on all processors is equally near to all NICs.
 */
static void measure(const struct query *q, struct uccl_candidate *c, int n)
{
	struct uccl_near near;

	if (n < 2 || q->nsrc)
		return;
	uccl_near_here(UCCL_SYSFS, &near);
	if (!uccl_near_bound(&near))
		return;
	for (int i = 0; i < n; i++)
		c[i].distance = uccl_near_distance(&near,
						   uccl_near_nic(UCCL_SYSFS, uccl_hwloc_find(), c[i].ifa.name));
}

/* To a container of this host packets leave through its bridge: for this peer the bridge is as good as a NIC. */
static void lead_to_dest(const struct query *q, struct uccl_candidate *c, int n)
{
	struct uccl_nic_addr from;

	if (!q->has_dest || q->dest_local || q->rdma || uccl_ifaddr_towards(&q->dest.nic, &from))
		return;
	for (int i = 0; i < n; i++)
		if (!memcmp(c[i].ifa.addr.ip, from.ip, sizeof(from.ip))) {
			c[i].shared = false;
			c[i].ifa.class = UCCL_IF_PHYSICAL;
		}
}

/* Returns the number of candidates; the caller frees *out. */
static int find_candidates(const struct query *q, struct uccl_candidate **out)
{
	struct uccl_ifaddr *list, one;
	int nlist = uccl_place_list(&q->params, &list), n = 0;
	struct uccl_candidate *c;

	if (nlist < 0)
		return nlist;
	c = calloc(nlist + RESOLVE_MAX, sizeof(*c));
	if (!c) {
		free(list);
		return -FI_ENOMEM;
	}
	/* A source address may be one that the list leaves out, such as 127.0.0.2. */
	for (int i = 0; i < q->nsrc; i++) {
		if (!source_find(q, i, list, nlist, &one))
			continue;
		memcpy(one.addr.ip, q->src[i].ip, sizeof(one.addr.ip));
		one.addr.scope = q->src[i].scope;
		n = add_candidate(c, n, q, &one);
	}
	for (int i = 0; i < nlist && !q->nsrc; i++)
		n = add_candidate(c, n, q, &list[i]);
	free(list);
	lead_to_dest(q, c, n);
	n = keep_together(q, c, n);
	measure(q, c, n);
	uccl_order_sort(c, n);
	*out = c;
	return n;
}

/* The names of list[0..n), with blanks between. */
static void names_text(const struct uccl_ifaddr *list, int n, char *buf, size_t size)
{
	size_t len = 0;

	snprintf(buf, size, "none");
	for (int i = 0; i < n && len < size; i++) {
		bool before = false;

		for (int k = 0; k < i && !before; k++)
			before = !strcmp(list[i].name, list[k].name);
		if (!before)
			len += (size_t)snprintf(buf + len, size - len, "%s%s", len ? " " : "", list[i].name);
	}
}

/* A name in FI_UCCL_NIC that no interface of this host has is a mistake: without a warning nobody would find it. */
static bool warn_unknown_names(const struct uccl_params *p, const struct uccl_ifaddr *list, int n)
{
	struct uccl_nicname one;
	bool warned = false;
	char names[256], used[64] = "";
	unsigned int rank;

	names_text(list, n, names, sizeof(names));
	for (int i = 0; i < n && !*used && uccl_nicnames_name(p->nic.names); i++)
		if (uccl_nicnames_allow(p->nic.names, list[i].name, &rank))
			snprintf(used, sizeof(used), "; %.40s is used", list[i].name);
	for (const char *at = p->nic.names; uccl_nicnames_next(p->nic.names, &at, &one);) {
		bool known = one.excludes || !*one.text;

		for (int i = 0; i < n && !known; i++)
			known = uccl_nicname_matches(&one, list[i].name);
		warned |= !known;
		if (!known && strchr(one.text, '+'))
			uccl_warn(FI_LOG_CORE,
				  "FI_UCCL_NIC: %s cannot be joined%s: that takes 2 to %d different interfaces of "
				  "those that are up here with an address: %s\n",
				  one.text, used, UCCL_RAILS_MAX, names);
		else if (!known)
			uccl_warn(FI_LOG_CORE,
				  "FI_UCCL_NIC: no interface %s with an address is up here%s; those that are: %s\n",
				  one.text, used, names);
	}
	return warned;
}

/* So is a pattern that excludes all interfaces by which other hosts can be reached. */
static bool warn_excluded(const struct uccl_params *p, const struct uccl_ifaddr *list, int n)
{
	unsigned int rank;
	const char *first = NULL;
	bool any = false;

	for (int i = 0; i < n; i++) {
		if (!first && !list[i].loopback)
			first = list[i].name;
		any |= !list[i].loopback && uccl_nicnames_allow(p->nic.names, list[i].name, &rank);
	}
	if (!first || any || !uccl_nicnames_exclude(p->nic.names))
		return false;
	uccl_warn(FI_LOG_CORE, "FI_UCCL_NIC=%s excludes every interface that leads to other hosts: exclude fewer, or "
			       "name one (%s, for example)\n",
		  p->nic.names, first);
	return true;
}

static bool warn_wrong_nics(const struct uccl_params *p)
{
	struct uccl_ifaddr *list;
	int n = *p->nic.names ? uccl_place_list(p, &list) : -1;
	bool warned;

	if (n < 0)
		return false;
	warned = warn_unknown_names(p, list, n);
	warned |= warn_excluded(p, list, n);
	free(list);
	return warned;
}

/*
 * No interface fits. That is a fault of this host or of a variable, unless the program named a domain or an address:
 * programs try several.
 */
static void nothing_fits(const struct query *q)
{
	const char *what = q->rdma ? "RDMA NIC with an active port" : "interface that is up, with an address,";

	if (q->asked && !q->nic_unknown && !q->domain_name && !q->nsrc && !q->has_dest && !q->dgram)
		uccl_warn(FI_LOG_CORE, "nothing is offered: no %s is here%s%s; uccl_doctor --nics lists them\n", what,
			  *q->params.nic.names ? " of those in FI_UCCL_NIC=" : "", q->params.nic.names);
	else if (!q->nic_unknown)
		uccl_refusal("no %s fits the addresses, the domain name and FI_UCCL_NIC", what);
}

/*
 * An open domain has one way to address its regions. A program part that shares the domain (as Open MPI's one-sided
 * part does) gets this way, or no match if it does not support it.
 */
static int keep_addressing(const struct query *q, struct fi_info *info)
{
	bool virtual = uccl_attr_mr_virtual(info->domain_attr->mr_mode);

	if (!(info->caps & (FI_RMA | FI_ATOMIC)) || virtual == uccl_attr_mr_virtual(q->domain->mr_mode))
		return 0;
	if (!virtual || info->domain_attr->mr_mode == FI_MR_BASIC) {
		uccl_refusal("the open domain uses %s for its regions of memory",
			  virtual ? "offsets" : "virtual addresses and keys of the provider");
		return -FI_ENODATA;
	}
	info->domain_attr->mr_mode = 0;
	return 0;
}

static int make_info(const struct query *q, const struct uccl_ifaddr *ifa, struct fi_info **out)
{
	struct fi_info *info = uccl_lib.dupinfo(NULL);
	struct uccl_addr src = { .nic = ifa->addr };
	char name[UCCL_IFADDR_NAME];
	int rc;

	if (!info)
		return -FI_ENOMEM;
	rc = uccl_attr_fill(info, q->hints, q->version, &q->params);
	if (!rc && q->domain)
		rc = keep_addressing(q, info);
	if (rc)
		goto fail;
	if (q->dgram) {
		info->ep_attr->max_msg_size = dgram_bytes(q, ifa);
		info->tx_attr->inject_size = uccl_min(info->tx_attr->inject_size, info->ep_attr->max_msg_size);
	}
	rc = -FI_ENOMEM;
	uccl_persona_domain(ifa->name, q->domain_name, name);
	info->domain_attr->name = strdup(name);
	info->nic = uccl_nicattr_new(UCCL_SYSFS, ifa, uccl_nicattr_pci(q->params.nic.pci));
	if (!info->domain_attr->name || !info->nic)
		goto fail;
	if (q->domain)
		info->domain_attr->domain = &q->domain->fid;
	if (q->hints && q->hints->fabric_attr)
		info->fabric_attr->fabric = q->hints->fabric_attr->fabric;
	if (info->ep_attr->type == FI_EP_MSG)
		info->handle = q->hints->handle;
	info->addr_format = q->format;
	if (q->format_open)
		info->addr_format = uccl_address_format_family(q->format, &ifa->addr);
	src.nic.port = q->src_port;
	rc = uccl_address_new(q->format, &src, &info->src_addr, &info->src_addrlen);
	if (!rc && q->has_dest)
		rc = uccl_address_new(q->format, &q->dest, &info->dest_addr, &info->dest_addrlen);
	if (rc)
		goto fail;
	*out = info;
	return 0;
fail:
	uccl_lib.freeinfo(info);
	return rc;
}

static int answer(const struct query *q, struct fi_info **info)
{
	struct fi_info **tail = info;
	struct uccl_candidate *c;
	int rc = 0, n = find_candidates(q, &c);

	if (n < 0)
		return n;
	for (int i = 0; i < n && !rc; i++) {
		rc = make_info(q, &c[i].ifa, tail);
		if (!rc)
			tail = &(*tail)->next;
	}
	free(c);
	if (rc) {
		uccl_lib.freeinfo(*info);
		*info = NULL;
		return rc;
	}
	if (!n) {
		nothing_fits(q);
		return -FI_ENODATA;
	}
	return 0;
}

static int query_addresses(struct query *q, const char *node, const char *service, uint64_t flags)
{
	bool numeric = flags & FI_NUMERICHOST, source = flags & FI_SOURCE;
	int rc;

	if (flags & FI_PROV_ATTR_ONLY)
		return 0;
	if (q->rdma && (service || uccl_address_is_text(node)) && !uccl_named_allowed(&q->params)) {
		uccl_refusal("FI_UCCL_SECURITY (keyless=0, control or packets) forbids to ask a host for addresses");
		return -FI_ENODATA;
	}
	rc = query_source(q, source ? node : NULL, source ? service : NULL, numeric);
	if (!rc)
		rc = query_dest(q, source ? NULL : node, source ? NULL : service, numeric);
	return rc;
}

static bool type_offered(enum fi_ep_type type, uint64_t flags)
{
	return type == FI_EP_UNSPEC || type == FI_EP_RDM || (uccl_attr_type_ok(type) && !(flags & CORE_PROV_ONLY));
}

int uccl_getinfo(uint32_t version, const char *node, const char *service, uint64_t flags, const struct fi_info *hints,
		 struct fi_info **info)
{
	char why[UCCL_PARAM_TEXT];
	struct query *q;
	int rc = -FI_ENODATA;

	*info = NULL;
	q = calloc(1, sizeof(*q));
	if (!q)
		return -FI_ENOMEM;
	q->hints = hints;
	q->version = version;
	q->asked = uccl_asked(hints);
	if (q->asked)
		uccl_refusal_asked();
	if (!uccl_persona_wanted(hints && hints->fabric_attr ? hints->fabric_attr->prov_name : NULL))
		goto out;
	q->format = hints ? hints->addr_format : FI_FORMAT_UNSPEC;
	if (q->format == FI_FORMAT_UNSPEC) {
		q->format = uccl_address_format_default();
		q->format_open = q->format == uccl_persona_format();
	}
	/* Such a call logs no warnings. */
	if (hints && hints->ep_attr && !type_offered(hints->ep_attr->type, flags)) {
		/* A utility provider only tries: it is no program. */
		if (flags & CORE_PROV_ONLY)
			uccl_info(FI_LOG_CORE, "no match: endpoint type %d is not offered to utility providers\n",
				  hints->ep_attr->type);
		else
			uccl_refusal("endpoint type %d is not supported", hints->ep_attr->type);
		goto out;
	}
	q->dgram = hints && hints->ep_attr && hints->ep_attr->type == FI_EP_DGRAM;
	if (!uccl_address_format_ok(q->format)) {
		uccl_refusal("address format %u is not supported", q->format);
		goto out;
	}
	if (uccl_params_read(&q->params, why, sizeof(why))) {
		uccl_info(FI_LOG_CORE, "nothing is offered: %s\n", why);
		goto out;
	}
	uccl_place_auto(&q->params, NULL);
	if (!uccl_attr_match(hints, version, &q->params))
		goto out;
	if (uccl_params_want_keys(&q->params) && uccl_sodium_load())
		goto out;
	q->rdma = uccl_place_rdma(&q->params);
	/* Socket addresses have no room for keys, and endpoints of RDMA NICs have none. */
	if (q->format_open && (q->rdma || uccl_params_want_keys(&q->params)))
		q->format = FI_ADDR_UCCL;
	if (q->rdma && uccl_address_is_sock(q->format)) {
		uccl_refusal("endpoints of RDMA NICs have no socket addresses");
		goto out;
	}
	q->nic_unknown = warn_wrong_nics(&q->params);
	rc = query_objects(q);
	if (!rc)
		rc = query_addresses(q, node, service, flags);
	if (!rc)
		rc = answer(q, info);
	if (!rc)
		uccl_refusal_forget();
out:
	free(q);
	return rc;
}
