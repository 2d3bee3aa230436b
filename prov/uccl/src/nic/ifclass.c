/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "nic/ifclass.h"

#include <string.h>

#include "base/units.h"

/* Interfaces on interfaces: more than anybody stacks. */
#define DEPTH_MAX 6

static const char *const stacked_kinds[] = {"bond",   "team",	"vlan", "macvlan", "macvtap",
					    "ipvlan", "ipvtap", "hsr",	NULL};
/* Their packets leave through another interface of this host. */
static const char *const tunnel_kinds[] = {"tun",    "wireguard", "ppp",  "vxlan", "geneve", "gre",
					   "gretap", "ip6gre",	  "ipip", "sit",   "ip6tnl", "erspan",
					   "vti",    "vti6",	  "xfrm", NULL};
static const char *const bridge_kinds[] = {"bridge", "openvswitch", NULL};

/* For kernels that do not tell the kind. */
static const char *const virtual_names[] = {"veth", "tun", "tap", "wg", "vnet", "flannel", "cali", NULL};
static const char *const container_names[] = {"docker", "br-",	 "virbr",   "cni", "podman", "lxcbr",
					      "lxdbr",	"incus", "nerdctl", "cbr", NULL};

static bool is_one_of(const char *const *list, const char *word)
{
	while (*list && strcmp(*list, word))
		list++;
	return *list;
}

static bool begins_with(const char *const *list, const char *name)
{
	while (*list && strncmp(*list, name, strlen(*list)))
		list++;
	return *list;
}

static const struct uccl_netif *link_at(const struct uccl_netif *list, int n, int index)
{
	for (int i = 0; i < n; i++)
		if (list[i].index == index)
			return &list[i];
	return NULL;
}

/* Ports of Open vSwitch belong to its data path, not to the interface that has the bridge's name. */
static bool is_port_of(const struct uccl_netif *list, int n, const struct uccl_netif *port, const struct uccl_netif *of)
{
	const struct uccl_netif *master = port->master ? link_at(list, n, port->master) : NULL;

	return port != of && master &&
	       (master == of || (!strcmp(of->kind, "openvswitch") && !strcmp(master->kind, of->kind)));
}

static enum uccl_ifclass made_class(const struct uccl_netif *list, int n, const struct uccl_netif *l, int depth);

/* The best class among the ports of a bridge or bond; UCCL_IF_LOOPBACK: it has none. */
static enum uccl_ifclass ports_class(const struct uccl_netif *list, int n, const struct uccl_netif *l, int depth)
{
	enum uccl_ifclass best = UCCL_IF_LOOPBACK;

	for (int i = 0; i < n; i++)
		if (is_port_of(list, n, &list[i], l))
			best = uccl_min(best, made_class(list, n, &list[i], depth - 1));
	return best;
}

static enum uccl_ifclass bridge_class(const struct uccl_netif *list, int n, const struct uccl_netif *l, int depth)
{
	if (ports_class(list, n, l, depth) <= UCCL_IF_STACKED)
		return UCCL_IF_BRIDGE;
	return begins_with(container_names, l->name) ? UCCL_IF_CONTAINER : UCCL_IF_LONE_BRIDGE;
}

/* A container's macvlan is made on an interface of its host, which cannot be seen here. */
static enum uccl_ifclass stacked_class(const struct uccl_netif *list, int n, const struct uccl_netif *l, int depth)
{
	bool ports = !strcmp(l->kind, "bond") || !strcmp(l->kind, "team");
	const struct uccl_netif *lower = l->lower ? link_at(list, n, l->lower) : NULL;
	enum uccl_ifclass below = ports			? ports_class(list, n, l, depth)
				  : lower && lower != l ? made_class(list, n, lower, depth - 1)
							: UCCL_IF_STACKED;

	return below == UCCL_IF_LOOPBACK ? UCCL_IF_VIRTUAL : uccl_max(below, UCCL_IF_STACKED);
}

/* What it is made of, whatever routes say. */
static enum uccl_ifclass made_class(const struct uccl_netif *list, int n, const struct uccl_netif *l, int depth)
{
	if (l->loopback)
		return UCCL_IF_LOOPBACK;
	if (l->device)
		return UCCL_IF_PHYSICAL;
	if (!depth)
		return UCCL_IF_VIRTUAL;
	if (is_one_of(bridge_kinds, l->kind))
		return bridge_class(list, n, l, depth);
	if (is_one_of(stacked_kinds, l->kind))
		return stacked_class(list, n, l, depth);
	if (*l->kind)
		return UCCL_IF_VIRTUAL;
	if (begins_with(container_names, l->name))
		return UCCL_IF_CONTAINER;
	return begins_with(virtual_names, l->name) ? UCCL_IF_VIRTUAL : UCCL_IF_PHYSICAL;
}

static bool any_physical(const struct uccl_netif *list, int n)
{
	for (int i = 0; i < n; i++)
		if (made_class(list, n, &list[i], DEPTH_MAX) == UCCL_IF_PHYSICAL)
			return true;
	return false;
}

enum uccl_ifclass uccl_ifclass_made(const struct uccl_netif *list, int n, const char *name)
{
	for (int i = 0; i < n; i++)
		if (!strcmp(list[i].name, name))
			return made_class(list, n, &list[i], DEPTH_MAX);
	return UCCL_IF_PHYSICAL;
}

enum uccl_ifclass uccl_ifclass_of(const struct uccl_netif *list, int n, const char *name)
{
	for (int i = 0; i < n; i++) {
		if (strcmp(list[i].name, name))
			continue;
		/* In a container the interface with the default route is the NIC. A VPN has one beside the NIC. */
		if (list[i].route && !list[i].loopback &&
		    !(is_one_of(tunnel_kinds, list[i].kind) && any_physical(list, n)))
			return UCCL_IF_PHYSICAL;
	}
	return uccl_ifclass_made(list, n, name);
}

bool uccl_ifclass_shared(enum uccl_ifclass class)
{
	return class == UCCL_IF_LONE_BRIDGE || class == UCCL_IF_CONTAINER;
}

const char *uccl_ifclass_text(enum uccl_ifclass class)
{
	static const char *const text[] = {"physical", "stacked",   "bridge",  "lone bridge",
					   "virtual",  "container", "loopback"};

	return text[class];
}
