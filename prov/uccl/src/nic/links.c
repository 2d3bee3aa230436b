/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "nic/links.h"

#include <linux/if_link.h>
#include <linux/rtnetlink.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <rdma/fi_errno.h>

#include "nic/netlink.h"

/* Interfaces while they are read. */
struct reading {
	struct uccl_netif *list;
	int n;
	bool full; /* no memory */
};

bool uccl_links_device(const char *name)
{
	char path[128];

	return snprintf(path, sizeof(path), "/sys/class/net/%s/device", name) < (int)sizeof(path) &&
	       !access(path, F_OK);
}

/* Attributes of the kernel end with a zero or not. */
static void text_read(char *out, size_t size, const struct rtattr *a)
{
	snprintf(out, size, "%.*s", (int)RTA_PAYLOAD(a), (const char *)RTA_DATA(a));
}

static int number_read(const struct rtattr *a)
{
	int value = 0;

	if (RTA_PAYLOAD(a) >= sizeof(value))
		memcpy(&value, RTA_DATA(a), sizeof(value));
	return value;
}

static void kind_read(struct uccl_netif *l, const struct rtattr *info)
{
	int left = (int)RTA_PAYLOAD(info);

	for (const struct rtattr *a = RTA_DATA(info); RTA_OK(a, left); a = RTA_NEXT(a, left))
		if (a->rta_type == IFLA_INFO_KIND)
			text_read(l->kind, sizeof(l->kind), a);
}

static void link_read(struct uccl_netif *l, const struct nlmsghdr *h)
{
	const struct ifinfomsg *body = NLMSG_DATA(h);
	int left = (int)(h->nlmsg_len - NLMSG_LENGTH(sizeof(*body)));
	bool elsewhere = false;

	memset(l, 0, sizeof(*l));
	l->index = body->ifi_index;
	l->loopback = body->ifi_flags & IFF_LOOPBACK;
	for (const struct rtattr *a = IFLA_RTA(body); RTA_OK(a, left); a = RTA_NEXT(a, left)) {
		switch (a->rta_type) {
		case IFLA_IFNAME: text_read(l->name, sizeof(l->name), a); break;
		case IFLA_LINK: l->lower = number_read(a); break;
		case IFLA_LINK_NETNSID: elsewhere = true; break;
		case IFLA_MASTER: l->master = number_read(a); break;
		case IFLA_LINKINFO: kind_read(l, a); break;
		}
	}
	/* A number of another namespace may be that of an interface here. */
	if (elsewhere)
		l->lower = 0;
	l->device = uccl_links_device(l->name);
}

static void link_add(void *arg, const struct nlmsghdr *h)
{
	struct reading *r = arg;
	struct uccl_netif *more;

	if (h->nlmsg_type != RTM_NEWLINK || h->nlmsg_len < NLMSG_LENGTH(sizeof(struct ifinfomsg)) || r->full)
		return;
	more = realloc(r->list, (size_t)(r->n + 1) * sizeof(*more));
	if (!more) {
		r->full = true;
		return;
	}
	r->list = more;
	link_read(&more[r->n++], h);
}

static void route_mark(struct reading *r, int index)
{
	for (int i = 0; i < r->n; i++)
		if (r->list[i].index == index)
			r->list[i].route = true;
}

/* The routers of a route that has several. */
static void hops_mark(struct reading *r, const struct rtattr *hops)
{
	const struct rtnexthop *hop = RTA_DATA(hops);
	size_t left = RTA_PAYLOAD(hops);

	while (left >= sizeof(*hop) && hop->rtnh_len >= sizeof(*hop) && hop->rtnh_len <= left) {
		size_t len = RTNH_ALIGN(hop->rtnh_len);

		route_mark(r, hop->rtnh_ifindex);
		left -= len < left ? len : left;
		hop = (const struct rtnexthop *)((const char *)hop + len);
	}
}

static void route_add(void *arg, const struct nlmsghdr *h)
{
	const struct rtmsg *body = NLMSG_DATA(h);
	struct reading *r = arg;
	int left;

	if (h->nlmsg_type != RTM_NEWROUTE || h->nlmsg_len < NLMSG_LENGTH(sizeof(*body)) || body->rtm_dst_len ||
	    body->rtm_type != RTN_UNICAST || (body->rtm_family != AF_INET && body->rtm_family != AF_INET6))
		return;
	left = (int)(h->nlmsg_len - NLMSG_LENGTH(sizeof(*body)));
	for (const struct rtattr *a = RTM_RTA(body); RTA_OK(a, left); a = RTA_NEXT(a, left)) {
		if (a->rta_type == RTA_OIF)
			route_mark(r, number_read(a));
		else if (a->rta_type == RTA_MULTIPATH)
			hops_mark(r, a);
	}
}

/* A router has a million routes: they are not read where they would change nothing. */
static bool routes_matter(const struct reading *r)
{
	for (int i = 0; i < r->n; i++)
		if (!r->list[i].loopback && !r->list[i].device)
			return true;
	return false;
}

int uccl_links_read(struct uccl_netif **list)
{
	struct reading r = {0};
	int fd = uccl_netlink_open(0), rc;

	*list = NULL;
	if (fd < 0)
		return fd;
	rc = uccl_netlink_list(fd, RTM_GETLINK, link_add, &r);
	if (!rc && r.full)
		rc = -FI_ENOMEM;
	/* Without routes the classes are still those of what the interfaces are made of. */
	if (!rc && routes_matter(&r))
		(void)uccl_netlink_list(fd, RTM_GETROUTE, route_add, &r);
	close(fd);
	if (rc) {
		free(r.list);
		return rc;
	}
	*list = r.list;
	return r.n;
}
