/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Which next hop the kernel's routing gives to a UDP packet of these addresses and ports (rtnetlink). */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "uccl_doctor_side.h"

#define REPLY_MS 1000

struct request {
	struct nlmsghdr head;
	struct rtmsg route;
	uint8_t room[128];
};

static void attr_add(struct request *r, uint16_t type, const void *data, size_t n)
{
	struct rtattr *a = (struct rtattr *)((char *)r + NLMSG_ALIGN(r->head.nlmsg_len));

	if (NLMSG_ALIGN(r->head.nlmsg_len) + RTA_LENGTH(n) > sizeof(*r))
		return;
	a->rta_type = type;
	a->rta_len = (uint16_t)RTA_LENGTH(n);
	memcpy(RTA_DATA(a), data, n);
	r->head.nlmsg_len = NLMSG_ALIGN(r->head.nlmsg_len) + (uint32_t)RTA_LENGTH(n);
}

static void request_make(struct request *r, const struct uccl_nic_addr *from, const struct uccl_nic_addr *to,
			 uint32_t flags)
{
	bool v4 = uccl_ifaddr_is_v4(to);
	size_t off = v4 ? 12 : 0, len = v4 ? 4 : 16;
	uint16_t sport = htons(from->port), dport = htons(to->port);
	uint8_t proto = IPPROTO_UDP;

	memset(r, 0, sizeof(*r));
	r->head.nlmsg_len = NLMSG_LENGTH(sizeof(r->route));
	r->head.nlmsg_type = RTM_GETROUTE;
	r->head.nlmsg_flags = NLM_F_REQUEST;
	r->route.rtm_family = v4 ? AF_INET : AF_INET6;
	r->route.rtm_dst_len = r->route.rtm_src_len = (uint8_t)(len * 8);
	r->route.rtm_flags = flags;
	attr_add(r, RTA_DST, to->ip + off, len);
	attr_add(r, RTA_SRC, from->ip + off, len);
	attr_add(r, RTA_IP_PROTO, &proto, sizeof(proto));
	attr_add(r, RTA_SPORT, &sport, sizeof(sport));
	attr_add(r, RTA_DPORT, &dport, sizeof(dport));
	if (to->scope)
		attr_add(r, RTA_OIF, &to->scope, sizeof(to->scope));
}

/* Ask once. Returns the bytes of the reply's attributes and where they begin; 0: no such answer. */
static int ask(const struct request *r, uint8_t *buf, size_t size, struct rtattr **attr)
{
	struct sockaddr_nl kernel = { .nl_family = AF_NETLINK };
	struct timeval patience = { .tv_sec = REPLY_MS / 1000 };
	int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
	struct nlmsghdr *h = (struct nlmsghdr *)buf;
	ssize_t n = -1;

	if (fd < 0)
		return 0;
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	if (sendto(fd, r, r->head.nlmsg_len, 0, (struct sockaddr *)&kernel, sizeof(kernel)) > 0)
		n = recv(fd, buf, size, 0);
	close(fd);
	if (n < (ssize_t)NLMSG_LENGTH(sizeof(struct rtmsg)) || h->nlmsg_type != RTM_NEWROUTE ||
	    h->nlmsg_len > (size_t)n || h->nlmsg_len < NLMSG_LENGTH(sizeof(struct rtmsg)))
		return 0;
	*attr = RTM_RTA((struct rtmsg *)NLMSG_DATA(h));
	return (int)RTM_PAYLOAD(h);
}

static int hops_count(const struct rtattr *a)
{
	const struct rtnexthop *hop = RTA_DATA(a);
	int left = (int)RTA_PAYLOAD(a), n = 0;

	while (left >= (int)sizeof(*hop) && RTNH_OK(hop, left)) {
		n++;
		left -= (int)NLMSG_ALIGN(hop->rtnh_len);
		hop = RTNH_NEXT(hop);
	}
	return n;
}

static uint32_t metric_mtu(struct rtattr *metrics)
{
	struct rtattr *a = RTA_DATA(metrics);
	uint32_t mtu = 0;

	for (int left = (int)RTA_PAYLOAD(metrics); left > 0 && RTA_OK(a, left); a = RTA_NEXT(a, left))
		if (a->rta_type == RTAX_MTU && RTA_PAYLOAD(a) >= sizeof(mtu))
			memcpy(&mtu, RTA_DATA(a), sizeof(mtu));
	return mtu;
}

void doctor_route(const struct uccl_nic_addr *from, const struct uccl_nic_addr *to, struct doctor_route *out)
{
	_Alignas(struct nlmsghdr) uint8_t buf[8192];
	uint64_t x = 1469598103934665603ull; /* FNV-1a over interface and gateway */
	struct request r;
	struct rtattr *a;
	int left;

	memset(out, 0, sizeof(*out));
	/* The route as it stands in the table, with all of its next hops. */
	request_make(&r, from, to, RTM_F_FIB_MATCH);
	for (left = ask(&r, buf, sizeof(buf), &a); left > 0 && RTA_OK(a, left); a = RTA_NEXT(a, left)) {
		if (a->rta_type == RTA_MULTIPATH)
			out->next_hops = hops_count(a);
		else if (a->rta_type == RTA_OIF && !out->next_hops)
			out->next_hops = 1;
		else if (a->rta_type == RTA_METRICS)
			out->mtu = metric_mtu(a);
	}
	request_make(&r, from, to, 0);
	for (left = ask(&r, buf, sizeof(buf), &a); left > 0 && RTA_OK(a, left); a = RTA_NEXT(a, left)) {
		const uint8_t *data = RTA_DATA(a);

		if (a->rta_type == RTA_OIF && RTA_PAYLOAD(a) >= sizeof(out->oif))
			memcpy(&out->oif, data, sizeof(out->oif));
		else if (a->rta_type != RTA_GATEWAY && a->rta_type != RTA_VIA)
			continue;
		for (size_t i = 0; i < RTA_PAYLOAD(a); i++)
			x = (x ^ data[i]) * 1099511628211ull;
	}
	if (out->oif)
		out->hop = x ? x : 1;
}
