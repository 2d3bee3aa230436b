/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Addresses and interfaces of this host. Only set-up code and error paths come here, but for the two conversions. */
#include "nic/ifaddr.h"

#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <rdma/fi_errno.h>

#include "nic/links.h"

static const uint8_t v4_prefix[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};

static uint32_t interface_mtu(int sock, const char *name)
{
	struct ifreq req = {0};

	if (strlen(name) >= sizeof(req.ifr_name))
		return 0;
	memcpy(req.ifr_name, name, strlen(name) + 1);
	if (ioctl(sock, SIOCGIFMTU, &req) || req.ifr_mtu <= 0)
		return 0;
	return (uint32_t)req.ifr_mtu;
}

/* The kernel writes Mbit/s, -1 or an error for devices without a speed. */
uint64_t uccl_ifaddr_link_bps(const char *name)
{
	char path[64 + UCCL_IFADDR_NAME], text[32];
	ssize_t got;
	long mbps;
	int fd;

	snprintf(path, sizeof(path), "/sys/class/net/%s/speed", name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return 0;
	got = read(fd, text, sizeof(text) - 1);
	close(fd);
	if (got <= 0)
		return 0;
	text[got] = '\0';
	mbps = strtol(text, NULL, 10);
	return mbps > 0 ? (uint64_t)mbps * 1000000ull : 0;
}

/* Its rate, and whether that is a device's: interfaces that are software alone say some, and carry what they can. */
static void link_read(struct uccl_ifaddr *i)
{
	i->link_bps = uccl_ifaddr_link_bps(i->name);
	i->link_real = uccl_links_device(i->name);
}

/* Fills *out from one entry; false if it is not an IP address of an interface that is up. */
static bool entry_read(int sock, const struct ifaddrs *entry, struct uccl_ifaddr *out)
{
	socklen_t len;

	if (!entry->ifa_addr || !(entry->ifa_flags & IFF_UP))
		return false;
	len = entry->ifa_addr->sa_family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6);
	memset(out, 0, sizeof(*out));
	if (uccl_ifaddr_from_sock(&out->addr, entry->ifa_addr, len))
		return false;
	snprintf(out->name, sizeof(out->name), "%.*s", (int)strcspn(entry->ifa_name, ":"), entry->ifa_name);
	out->addr.port = 0;
	out->loopback = entry->ifa_flags & IFF_LOOPBACK;
	out->mtu = interface_mtu(sock, out->name);
	return out->mtu != 0;
}

static bool link_local(const struct uccl_nic_addr *a)
{
	return a->ip[0] == 0xfe && (a->ip[1] & 0xc0) == 0x80;
}

/* Appends what belongs to one of the four groups that make the order of the list. */
static int group_append(int sock, const struct ifaddrs *all, bool loopback, bool v4, struct uccl_ifaddr *v)
{
	const struct ifaddrs *e;
	int n = 0;

	for (e = all; e; e = e->ifa_next) {
		if (!entry_read(sock, e, &v[n]) || v[n].loopback != loopback || uccl_ifaddr_is_v4(&v[n].addr) != v4 ||
		    link_local(&v[n].addr))
			continue;
		link_read(&v[n]);
		n++;
	}
	return n;
}

/* Opens what reading entries takes; the caller closes both. */
static int entries_open(int *sock, struct ifaddrs **all)
{
	int err;

	*sock = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (*sock < 0)
		*sock = socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (*sock < 0)
		return -errno;
	if (getifaddrs(all)) {
		err = -errno;
		close(*sock);
		return err;
	}
	return 0;
}

/* Classes of addresses; those that cannot be found out are as if physical. */
static void classes_read(struct uccl_ifaddr *v, int n)
{
	struct uccl_netif *links;
	int nlinks = uccl_links_read(&links);

	for (int i = 0; i < n; i++) {
		v[i].class = uccl_ifclass_of(links, nlinks, v[i].name);
		v[i].link_nominal = uccl_ifclass_made(links, nlinks, v[i].name) > UCCL_IF_BRIDGE;
		if (v[i].loopback)
			v[i].class = UCCL_IF_LOOPBACK;
	}
	free(links);
}

/* True if a peer should hear of `a` rather than of `b`, both in one group of the list. */
static bool better(const struct uccl_ifaddr *a, const struct uccl_ifaddr *b)
{
	bool a_shared = uccl_ifaddr_shared(a), b_shared = uccl_ifaddr_shared(b);

	if (a->loopback != b->loopback || uccl_ifaddr_is_v4(&a->addr) != uccl_ifaddr_is_v4(&b->addr))
		return false;
	return a_shared != b_shared ? b_shared : a->class < b->class;
}

/* Stable, for some ten addresses. */
static void better_first(struct uccl_ifaddr *v, int n)
{
	for (int i = 1; i < n; i++)
		for (int k = i; k > 0 && better(&v[k], &v[k - 1]); k--) {
			struct uccl_ifaddr t = v[k];

			v[k] = v[k - 1];
			v[k - 1] = t;
		}
}

int uccl_ifaddr_list(struct uccl_ifaddr **list)
{
	struct uccl_ifaddr *v;
	struct ifaddrs *all, *e;
	size_t room = 1; /* entry_read needs room for each entry */
	int sock, err, n;

	*list = NULL;
	err = entries_open(&sock, &all);
	if (err)
		return err;
	for (e = all; e; e = e->ifa_next)
		room++;
	v = calloc(room, sizeof(*v));
	if (!v) {
		n = -FI_ENOMEM;
		goto out;
	}
	n = group_append(sock, all, false, true, v);
	n += group_append(sock, all, false, false, v + n);
	n += group_append(sock, all, true, true, v + n);
	n += group_append(sock, all, true, false, v + n);
	classes_read(v, n);
	better_first(v, n);
	if (n)
		*list = v;
	else
		free(v);
out:
	freeifaddrs(all);
	close(sock);
	return n;
}

int uccl_ifaddr_find(const struct uccl_nic_addr *addr, struct uccl_ifaddr *out)
{
	uint32_t scope = uccl_nic_addr_scope_id(addr);
	struct uccl_ifaddr one;
	struct ifaddrs *all, *e;
	int sock, err;
	bool hit;

	err = entries_open(&sock, &all);
	if (err)
		return err;
	err = -FI_EADDRNOTAVAIL;
	for (e = all; e && err; e = e->ifa_next) {
		if (!entry_read(sock, e, &one))
			continue;
		hit = !memcmp(one.addr.ip, addr->ip, sizeof(addr->ip)) &&
		      (!scope || one.addr.scope == scope);
		if (!hit && !(one.loopback && uccl_ifaddr_is_v4(&one.addr) && uccl_ifaddr_is_v4(addr) &&
			      uccl_ifaddr_is_loopback(addr)))
			continue;
		link_read(&one);
		classes_read(&one, 1);
		*out = one;
		err = 0;
	}
	freeifaddrs(all);
	close(sock);
	return err;
}

bool uccl_ifaddr_shared(const struct uccl_ifaddr *ifa)
{
	const uint8_t *ip = ifa->addr.ip + 12;

	return uccl_ifclass_shared(ifa->class) || (uccl_ifaddr_is_v4(&ifa->addr) && ip[0] == 169 && ip[1] == 254);
}

int uccl_ifaddr_towards(const struct uccl_nic_addr *to, struct uccl_nic_addr *out)
{
	struct uccl_nic_addr at = *to;
	int family = uccl_ifaddr_is_v4(to) ? AF_INET : AF_INET6, err;
	int fd = socket(family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	struct sockaddr_storage sa;
	socklen_t len;

	if (fd < 0)
		return -errno;
	at.port = 9; /* nothing is sent there */
	len = uccl_ifaddr_to_sock(&sa, &at, family);
	err = connect(fd, (struct sockaddr *)&sa, len) ? -errno : 0;
	len = sizeof(sa);
	if (!err && getsockname(fd, (struct sockaddr *)&sa, &len))
		err = -errno;
	close(fd);
	if (!err)
		err = uccl_ifaddr_from_sock(out, (struct sockaddr *)&sa, len);
	out->port = 0;
	return err;
}

bool uccl_ifaddr_is_v4(const struct uccl_nic_addr *addr)
{
	return uccl_nic_addr_v4(addr);
}

bool uccl_ifaddr_is_any(const struct uccl_nic_addr *addr)
{
	static const uint8_t zero[16];

	if (uccl_ifaddr_is_v4(addr))
		return !memcmp(addr->ip + 12, zero, 4);
	return !memcmp(addr->ip, zero, 16);
}

bool uccl_ifaddr_is_loopback(const struct uccl_nic_addr *addr)
{
	if (uccl_ifaddr_is_v4(addr))
		return addr->ip[12] == 127;
	return !memcmp(addr->ip, &in6addr_loopback, 16);
}

bool uccl_ifaddr_equal(const struct uccl_nic_addr *a, const struct uccl_nic_addr *b)
{
	return a->port == b->port && a->scope == b->scope && !memcmp(a->ip, b->ip, sizeof(a->ip));
}

socklen_t uccl_ifaddr_to_sock(struct sockaddr_storage *out, const struct uccl_nic_addr *addr, int family)
{
	bool v4 = uccl_ifaddr_is_v4(addr);
	struct sockaddr_in6 in6 = {.sin6_family = AF_INET6, .sin6_port = htons(addr->port),
				   .sin6_scope_id = addr->scope};
	struct sockaddr_in in = {.sin_family = AF_INET, .sin_port = htons(addr->port)};

	if (family == AF_UNSPEC)
		family = v4 ? AF_INET : AF_INET6;
	if (family == AF_INET && !v4)
		return 0;
	/* Copied: a store through another type of pointer may be moved behind a caller's load of ss_family. */
	if (family == AF_INET) {
		memcpy(&in.sin_addr, addr->ip + 12, 4);
		memcpy(out, &in, sizeof(in));
		return sizeof(in);
	}
	memcpy(&in6.sin6_addr, addr->ip, 16);
	memcpy(out, &in6, sizeof(in6));
	return sizeof(in6);
}

int uccl_ifaddr_from_sock(struct uccl_nic_addr *out, const struct sockaddr *sa, socklen_t len)
{
	const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)sa;
	const struct sockaddr_in *in = (const struct sockaddr_in *)sa;

	memset(out, 0, sizeof(*out));
	if (len >= (socklen_t)sizeof(*in) && sa->sa_family == AF_INET) {
		memcpy(out->ip, v4_prefix, sizeof(v4_prefix));
		memcpy(out->ip + 12, &in->sin_addr, 4);
		out->port = ntohs(in->sin_port);
		return 0;
	}
	if (len >= (socklen_t)sizeof(*in6) && sa->sa_family == AF_INET6) {
		memcpy(out->ip, &in6->sin6_addr, 16);
		out->port = ntohs(in6->sin6_port);
		if (link_local(out))
			out->scope = in6->sin6_scope_id;
		return 0;
	}
	return -FI_EINVAL;
}
