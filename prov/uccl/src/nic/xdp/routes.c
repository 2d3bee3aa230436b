/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "nic/xdp/routes.h"

#include <errno.h>
#include <linux/neighbour.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <rdma/fi_errno.h>

#include "base/log.h"
#include "base/units.h"
#include "nic/ifaddr.h"
#include "nic/netlink.h"

#define SETS 256
#define PLACES 4 /* in a set */
/* How long to believe a good answer, one without a neighbour, and that it is none of ours. Changes come at once. */
#define GOOD_NS (2 * UCCL_NS_PER_S)
#define NOBODY_NS (5 * UCCL_NS_PER_MS)
#define ELSEWHERE_NS UCCL_NS_PER_S
#define EVENTS_AT_ONCE 64
#define CHANGES                                                                                                        \
	(RTMGRP_LINK | RTMGRP_NEIGH | RTMGRP_IPV4_ROUTE | RTMGRP_IPV6_ROUTE | RTMGRP_IPV4_IFADDR | RTMGRP_IPV6_IFADDR)

struct entry {
	bool used;
	bool ready;		  /* the way is known */
	bool again;		  /* something has changed: ask anew, but do not send a packet by a socket for it */
	uint64_t until;		  /* ask again */
	struct uccl_nic_addr to;  /* port 0 */
	struct uccl_nic_addr hop; /* who is next: the place itself or a router */
	struct uccl_frame_route route;
};

struct uccl_routes {
	int ifindex;
	char ifname[IF_NAMESIZE];
	int ask_fd, netlink_fd;
	struct uccl_nic_addr from;
	uint8_t mac[UCCL_MAC_LEN];
	struct entry entry[SETS][PLACES];
};

struct question {
	struct nlmsghdr h;
	union {
		struct rtmsg route;
		struct ndmsg neighbour;
	} body;
	uint8_t attributes[96];
};

static uint8_t ip_len(const struct uccl_nic_addr *a)
{
	return uccl_ifaddr_is_v4(a) ? 4 : 16;
}

static const uint8_t *ip_of(const struct uccl_nic_addr *a)
{
	return a->ip + 16 - ip_len(a);
}

/* False: it is not as long as an address of this family. */
static bool ip_read(struct uccl_nic_addr *out, const struct rtattr *a, uint8_t family)
{
	memset(out, 0, sizeof(*out));
	if (RTA_PAYLOAD(a) != (family == AF_INET ? 4 : 16))
		return false;
	if (family == AF_INET)
		out->ip[10] = out->ip[11] = 0xff;
	memcpy(out->ip + 16 - RTA_PAYLOAD(a), RTA_DATA(a), RTA_PAYLOAD(a));
	return true;
}

static bool mac_read(struct uccl_routes *w)
{
	struct ifreq req = {0};
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	bool ok;

	if (fd < 0)
		fd = socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return false;
	memcpy(req.ifr_name, w->ifname, sizeof(w->ifname));
	ok = !ioctl(fd, SIOCGIFHWADDR, &req) && req.ifr_hwaddr.sa_family == ARPHRD_ETHER;
	if (ok)
		memcpy(w->mac, req.ifr_hwaddr.sa_data, sizeof(w->mac));
	close(fd);
	return ok;
}

/* The kernel's choice for packets from us to there: by our interface, and to whom first? */
static bool route_ask(struct uccl_routes *w, const struct uccl_nic_addr *to, struct uccl_nic_addr *hop)
{
	_Alignas(struct nlmsghdr) uint8_t answer[UCCL_NETLINK_ROOM];
	const struct nlmsghdr *h = (const struct nlmsghdr *)answer;
	struct question q = {.h = {.nlmsg_len = NLMSG_LENGTH(sizeof(struct rtmsg)), .nlmsg_type = RTM_GETROUTE}};
	uint32_t scope = uccl_nic_addr_scope_id(to);
	uint8_t len = ip_len(to);
	const struct rtmsg *route;
	const struct rtattr *a;
	int left, index = 0;
	bool plain = true;

	if (len != ip_len(&w->from) || (scope && scope != (uint32_t)w->ifindex))
		return false;
	q.body.route.rtm_family = len == 4 ? AF_INET : AF_INET6;
	q.body.route.rtm_dst_len = q.body.route.rtm_src_len = (uint8_t)(len * 8);
	uccl_netlink_add(&q, RTA_DST, ip_of(to), len);
	uccl_netlink_add(&q, RTA_SRC, ip_of(&w->from), len);
	if (scope)
		uccl_netlink_add(&q, RTA_OIF, &w->ifindex, sizeof(w->ifindex));
	if (uccl_netlink_ask(w->ask_fd, &q.h, answer, sizeof(answer), RTM_NEWROUTE))
		return false;
	if (h->nlmsg_len < NLMSG_LENGTH(sizeof(*route)))
		return false;
	route = NLMSG_DATA(h);
	*hop = *to;
	hop->port = 0;
	left = (int)(h->nlmsg_len - NLMSG_LENGTH(sizeof(*route)));
	for (a = RTM_RTA(route); RTA_OK(a, left); a = RTA_NEXT(a, left)) {
		if (a->rta_type == RTA_OIF && RTA_PAYLOAD(a) >= sizeof(index))
			memcpy(&index, RTA_DATA(a), sizeof(index));
		else if (a->rta_type == RTA_GATEWAY)
			plain &= ip_read(hop, a, route->rtm_family);
		else if (a->rta_type == RTA_VIA || a->rta_type == RTA_ENCAP)
			plain = false; /* a router of another family, or a tunnel */
	}
	return plain && route->rtm_type == RTN_UNICAST && index == w->ifindex;
}

static bool neighbour_ask(struct uccl_routes *w, const struct uccl_nic_addr *hop, uint8_t *mac)
{
	_Alignas(struct nlmsghdr) uint8_t answer[UCCL_NETLINK_ROOM];
	const struct nlmsghdr *h = (const struct nlmsghdr *)answer;
	struct question q = {.h = {.nlmsg_len = NLMSG_LENGTH(sizeof(struct ndmsg)), .nlmsg_type = RTM_GETNEIGH}};
	const struct ndmsg *n;
	const struct rtattr *a;
	bool found = false;
	int left;

	q.body.neighbour.ndm_family = ip_len(hop) == 4 ? AF_INET : AF_INET6;
	q.body.neighbour.ndm_ifindex = w->ifindex;
	uccl_netlink_add(&q, NDA_DST, ip_of(hop), ip_len(hop));
	if (uccl_netlink_ask(w->ask_fd, &q.h, answer, sizeof(answer), RTM_NEWNEIGH) ||
	    h->nlmsg_len < NLMSG_LENGTH(sizeof(*n)))
		return false;
	n = NLMSG_DATA(h);
	if (!(n->ndm_state & (NUD_REACHABLE | NUD_STALE | NUD_DELAY | NUD_PROBE | NUD_PERMANENT)))
		return false;
	left = (int)(h->nlmsg_len - NLMSG_LENGTH(sizeof(*n)));
	for (a = (const struct rtattr *)(n + 1); RTA_OK(a, left); a = RTA_NEXT(a, left))
		if (a->rta_type == NDA_LLADDR && RTA_PAYLOAD(a) == UCCL_MAC_LEN) {
			memcpy(mac, RTA_DATA(a), UCCL_MAC_LEN);
			found = true;
		}
	return found;
}

static void entry_ask(struct uccl_routes *w, struct entry *e, uint64_t now)
{
	e->again = e->ready = false;
	e->until = now + ELSEWHERE_NS;
	if (!route_ask(w, &e->to, &e->hop))
		return;
	e->until = now + NOBODY_NS;
	if (!neighbour_ask(w, &e->hop, e->route.to_mac))
		return;
	e->until = now + GOOD_NS;
	memcpy(e->route.from_mac, w->mac, sizeof(w->mac));
	e->route.from = w->from;
	e->ready = true;
}

static struct entry *set_of(struct uccl_routes *w, const struct uccl_nic_addr *to)
{
	uint64_t a, b;

	memcpy(&a, to->ip, sizeof(a));
	memcpy(&b, to->ip + 8, sizeof(b));
	a = (a ^ uccl_nic_addr_scope_id(to)) * 0x9e3779b97f4a7c15ull + b;
	/* What differs most between hosts stands in the highest bits. */
	a = (a ^ a >> 32) * 0xbf58476d1ce4e5b9ull;
	return w->entry[a >> 40 & (SETS - 1)];
}

const struct uccl_frame_route *uccl_routes_find(struct uccl_routes *w, const struct uccl_nic_addr *to, uint64_t now)
{
	struct entry *set = set_of(w, to), *oldest = set;

	for (struct entry *e = set; e < set + PLACES; e++) {
		bool detour;

		if (!e->used) {
			oldest = e;
			break;
		}
		if (e->until < oldest->until)
			oldest = e;
		if (memcmp(e->to.ip, to->ip, sizeof(to->ip)) || e->to.scope != uccl_nic_addr_scope_id(to))
			continue;
		if (now < e->until && !e->again)
			return e->ready ? &e->route : NULL;
		detour = e->ready && !e->again;
		entry_ask(w, e, now);
		return e->ready && !detour ? &e->route : NULL;
	}
	/* Too many at a time: better by a socket than a question for every packet. */
	if (oldest->used && now < oldest->until)
		return NULL;
	memset(oldest, 0, sizeof(*oldest));
	oldest->used = true;
	oldest->to = *to;
	oldest->to.port = 0;
	oldest->to.scope = uccl_nic_addr_scope_id(to);
	entry_ask(w, oldest, now);
	return oldest->ready ? &oldest->route : NULL;
}

bool uccl_routes_ours(struct uccl_routes *w, const struct uccl_nic_addr *to)
{
	struct uccl_nic_addr hop;

	return route_ask(w, to, &hop);
}

/* Changes. */

/* NULL: all entries. */
static void entries_renew(struct uccl_routes *w, const struct uccl_nic_addr *hop)
{
	for (int s = 0; s < SETS; s++)
		for (struct entry *e = w->entry[s]; e < w->entry[s] + PLACES; e++)
			e->again |= e->used && (!hop || !memcmp(e->hop.ip, hop->ip, sizeof(hop->ip)));
}

static void neighbour_news(struct uccl_routes *w, const struct nlmsghdr *h)
{
	const struct ndmsg *n = NLMSG_DATA(h);
	const struct rtattr *a;
	struct uccl_nic_addr hop;
	int left;

	if (h->nlmsg_len < NLMSG_LENGTH(sizeof(*n)) || n->ndm_ifindex != w->ifindex)
		return;
	left = (int)(h->nlmsg_len - NLMSG_LENGTH(sizeof(*n)));
	for (a = (const struct rtattr *)(n + 1); RTA_OK(a, left); a = RTA_NEXT(a, left))
		if (a->rta_type == NDA_DST && ip_read(&hop, a, n->ndm_family))
			entries_renew(w, &hop);
}

static void link_news(struct uccl_routes *w, const struct nlmsghdr *h)
{
	const struct ifinfomsg *link = NLMSG_DATA(h);

	if (h->nlmsg_len < NLMSG_LENGTH(sizeof(*link)) || link->ifi_index != w->ifindex)
		return;
	(void)mac_read(w);
	entries_renew(w, NULL);
}

void uccl_routes_poll(struct uccl_routes *w)
{
	_Alignas(struct nlmsghdr) uint8_t events[UCCL_NETLINK_ROOM];

	for (int i = 0; i < EVENTS_AT_ONCE; i++) {
		ssize_t got = recv(w->netlink_fd, events, sizeof(events), 0);
		const struct nlmsghdr *h = (const struct nlmsghdr *)events;
		uint32_t left = (uint32_t)got;

		if (got < 0 && errno == ENOBUFS)
			entries_renew(w, NULL); /* some were lost */
		if (got < 0)
			return;
		for (; NLMSG_OK(h, left); h = NLMSG_NEXT(h, left)) {
			if (h->nlmsg_type == RTM_NEWNEIGH || h->nlmsg_type == RTM_DELNEIGH)
				neighbour_news(w, h);
			else if (h->nlmsg_type == RTM_NEWLINK || h->nlmsg_type == RTM_DELLINK)
				link_news(w, h);
			else
				entries_renew(w, NULL);
		}
	}
}

void uccl_routes_close(struct uccl_routes *w)
{
	if (w->ask_fd >= 0)
		close(w->ask_fd);
	if (w->netlink_fd >= 0)
		close(w->netlink_fd);
	free(w);
}

int uccl_routes_open(int ifindex, const char *ifname, const struct uccl_nic_addr *from, struct uccl_routes **out)
{
	struct uccl_routes *w = calloc(1, sizeof(*w));
	int err = 0;

	if (!w)
		return -FI_ENOMEM;
	w->ifindex = ifindex;
	strncpy(w->ifname, ifname, sizeof(w->ifname) - 1);
	w->from = *from;
	w->from.port = 0;
	w->netlink_fd = uccl_netlink_open(CHANGES);
	w->ask_fd = uccl_netlink_open(0);
	if (w->netlink_fd < 0 || w->ask_fd < 0)
		err = w->netlink_fd < 0 ? w->netlink_fd : w->ask_fd;
	else if (!mac_read(w))
		err = -FI_EINVAL;
	if (err) {
		uccl_routes_close(w);
		return err;
	}
	*out = w;
	return 0;
}
