/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "api/offer/place.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rdma/fi_errno.h>

#include "api/offer/hwloc.h"
#include "api/offer/joined.h"
#include "api/offer/near.h"
#include "api/offer/sysfs.h"
#include "base/units.h"
#include "nic/verbs/verbs_dev.h"

bool uccl_place_rdma(const struct uccl_params *p)
{
	return !strncmp(p->nic.backend, "verbs", 5);
}

bool uccl_place_joined(const struct uccl_params *p, const char *name)
{
	return name && strchr(name, '+') && strcmp(p->nic.backend, "xdp");
}

void uccl_place_auto(struct uccl_params *p, const char *opened)
{
	struct uccl_ifaddr *list = NULL;
	char name[UCCL_IFADDR_NAME] = "";
	unsigned int *distance;
	struct uccl_near near;
	bool joined = false;
	int n, kept = 0;

	if (strcmp(p->nic.names, "auto"))
		return;
	*p->nic.names = '\0';
	if (opened) {
		if (uccl_place_joined(p, opened))
			snprintf(p->nic.names, sizeof(p->nic.names), "%s", opened);
		return;
	}
	if (strcmp(p->nic.backend, "udp"))
		return;
	n = uccl_ifaddr_list(&list);
	distance = calloc((size_t)uccl_max(n, 1), sizeof(*distance));
	uccl_near_here(UCCL_SYSFS, &near);
	for (int i = 0; distance && i < n; i++) {
		if (!uccl_sysfs_running(UCCL_SYSFS, list[i].name))
			continue;
		if (uccl_near_bound(&near))
			distance[kept] = uccl_near_distance(
				&near, uccl_near_nic(UCCL_SYSFS, uccl_hwloc_find(), list[i].name));
		list[kept++] = list[i];
	}
	if (distance)
		joined = uccl_joined_auto(list, distance, kept, name);
	if (joined)
		snprintf(p->nic.names, sizeof(p->nic.names), "%s", name);
	if (n >= 0)
		free(list);
	free(distance);
}

/* The part of a name like "mlx5_0+mlx5_1" that begins here: its length. */
static size_t rail_len(const char *s)
{
	return strcspn(s, "+,");
}

/* NICs that FI_UCCL_NIC joins as rails; how many such names there are at most. */
static int rails_wanted(const struct uccl_params *p)
{
	int n = 0;

	for (const char *s = strchr(p->nic.names, '+'); s; s = strchr(s + 1, '+'))
		n++;
	return n;
}

static void port_place(const struct uccl_verbs_port *port, struct uccl_ifaddr *out)
{
	_Static_assert(sizeof(out->name) >= sizeof(port->name), "room for a device's name");
	snprintf(out->name, sizeof(out->name), "%s", port->name);
	out->addr = port->addr;
	out->mtu = port->mtu;
	out->link_bps = port->link_bps;
}

/* A name of two rails and more, as many as can be joined, none of which has no name or is named twice. */
static bool rails_distinct(const char *s, size_t len)
{
	const char *end = s + len;
	int parts = 0;

	for (const char *part = s;; part += rail_len(part) + 1, parts++) {
		size_t n = rail_len(part);

		for (const char *before = s; before < part; before += rail_len(before) + 1)
			if (rail_len(before) == n && !strncmp(before, part, n))
				return false;
		if (!n)
			return false;
		if (part + n == end)
			return parts > 0 && parts < UCCL_RAILS_MAX;
	}
}

/*
 * One NIC of the name s[0..len), which joins several of list[0..n). 0: it does not, or one of them is not there. The
 * first of them is the place that peers know, so it has a link (`up`; NULL: all have one); others may get theirs later.
 * PROTOCOL R252
 */
static int rails_join(const struct uccl_ifaddr *list, const bool *up, int n, const char *s, size_t len,
		      struct uccl_ifaddr *out)
{
	const char *end = s + len;

	if (len >= sizeof(out->name) || !rails_distinct(s, len))
		return 0;
	memset(out, 0, sizeof(*out));
	for (const char *part = s; part < end; part += rail_len(part) + 1) {
		int i;

		for (i = 0; i < n; i++)
			if (strlen(list[i].name) == rail_len(part) && !strncmp(list[i].name, part, rail_len(part)))
				break;
		if (i == n || (part == s && up && !up[i]))
			return 0;
		if (part == s) {
			*out = list[i];
			continue;
		}
		out->mtu = (uint32_t)uccl_min(out->mtu, list[i].mtu);
		out->link_bps += list[i].link_bps;
		out->link_real &= list[i].link_real;
		out->link_nominal |= list[i].link_nominal;
	}
	memcpy(out->name, s, len);
	out->name[len] = '\0';
	return 1;
}

/* Drop from (*list)[0..n) the NICs that are not `up` (NULL: all are), and add the NICs that FI_UCCL_NIC joins. */
static int rails_add(const struct uccl_params *p, struct uccl_ifaddr **list, const bool *up, int n)
{
	struct uccl_ifaddr *all = calloc((size_t)(n + rails_wanted(p)), sizeof(*all));
	int kept = 0;

	if (!all)
		return -FI_ENOMEM;
	for (int i = 0; i < n; i++)
		if (!up || up[i])
			all[kept++] = (*list)[i];
	for (const char *s = p->nic.names; *s;) {
		size_t len = strcspn(s, ",");

		kept += rails_join(*list, up, n, s, len, &all[kept]);
		s += len + (s[len] == ',');
	}
	free(*list);
	*list = all;
	return kept;
}

static int rdma_list(const struct uccl_params *p, struct uccl_ifaddr **list)
{
	struct uccl_verbs_port *ports;
	int n = uccl_verbs_list(NULL, rails_wanted(p), &ports), all = -FI_ENOMEM;
	bool *up;

	*list = NULL;
	if (n <= 0)
		return n;
	*list = calloc((size_t)n, sizeof(**list));
	up = calloc((size_t)n, sizeof(*up));
	for (int i = 0; *list && up && i < n; i++) {
		port_place(&ports[i], &(*list)[i]);
		up[i] = ports[i].up;
	}
	if (*list && up)
		all = rails_add(p, list, up, n);
	free(ports);
	free(up);
	if (all <= 0) {
		free(*list);
		*list = NULL;
	}
	return all;
}

/* Interfaces with an address are up. */
static int socket_list(const struct uccl_params *p, struct uccl_ifaddr **list)
{
	int n = uccl_ifaddr_list(list), all;

	if (n <= 0 || !rails_wanted(p))
		return n;
	all = rails_add(p, list, NULL, n);
	if (all < 0) {
		free(*list);
		*list = NULL;
	}
	return all;
}

/* The loopback interface has no queues and no frames. */
static int ether_list(struct uccl_ifaddr **list)
{
	int n = uccl_ifaddr_list(list), kept = 0;

	for (int i = 0; i < n; i++)
		if (!(*list)[i].loopback)
			(*list)[kept++] = (*list)[i];
	if (n <= 0 || kept)
		return n < 0 ? n : kept;
	free(*list);
	*list = NULL;
	return 0;
}

int uccl_place_list(const struct uccl_params *p, struct uccl_ifaddr **list)
{
	if (uccl_place_rdma(p))
		return rdma_list(p, list);
	return strcmp(p->nic.backend, "xdp") ? socket_list(p, list) : ether_list(list);
}

static int rail_open(const struct uccl_params *p, const struct uccl_nic_attr *attr, struct uccl_nic **nic)
{
	static const struct {
		const char *name;
		int (*open)(const struct uccl_nic_attr *attr, struct uccl_nic **nic);
	} ends[] = {
		{"udp", uccl_nic_udp_open},
		{"xdp", uccl_nic_xdp_open},
		{"verbs-ud", uccl_nic_verbs_ud_open},
		{"verbs-uc", uccl_nic_verbs_uc_open},
		{"verbs-rc", uccl_nic_verbs_rc_open},
	};
	struct uccl_nic_attr near = *attr;

	/* What sockets receive is copied by a processor: it is near to whose thread comes first, and shall be. */
	if (attr->ifname && uccl_place_rdma(p))
		near.nodes = uccl_near_nic(UCCL_SYSFS, uccl_hwloc_find(), attr->ifname);
	for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++)
		if (!strcmp(p->nic.backend, ends[i].name))
			return ends[i].open(&near, nic);
	return -FI_EINVAL;
}

int uccl_place_open(const struct uccl_params *p, const struct uccl_nic_attr *attr, struct uccl_nic **nic)
{
	struct uccl_nic_attr one = *attr;
	struct uccl_nic *rail[UCCL_RAILS_MAX];
	struct uccl_nic_addr first;
	char name[UCCL_IFADDR_NAME];
	int n = 0, rc = 0;

	if (!uccl_place_joined(p, attr->ifname))
		return rail_open(p, attr, nic);
	one.ifname = name;
	for (const char *s = attr->ifname; *s && !rc; s += rail_len(s) + (s[rail_len(s)] == '+')) {
		snprintf(name, sizeof(name), "%.*s", (int)rail_len(s), s);
		rc = n < UCCL_RAILS_MAX ? rail_open(p, &one, &rail[n]) : -FI_EINVAL;
		if (rc == -FI_EADDRINUSE && n) {
			one.bind.port = 0;
			rc = rail_open(p, &one, &rail[n]);
		}
		n += !rc;
		/* The address that was asked for is of the first, and peers know it alone. PROTOCOL R252 */
		memset(&one.bind, 0, sizeof(one.bind));
		if (n && !uccl_place_rdma(p)) {
			/* The second rail is known by the same port. PROTOCOL R379 */
			rail[0]->ops->addr(rail[0], &first);
			one.bind.port = first.port;
		}
		one.linkless = true;
		one.liveness = false;
	}
	if (!rc)
		return uccl_nic_rails_open(rail, n, nic);
	while (n--)
		rail[n]->ops->close(rail[n]);
	return rc;
}

uccl_lane_set_open_fn *uccl_place_lanes(void)
{
#ifdef HAVE_LANES
	return uccl_lane_set_open;
#else
	return NULL;
#endif
}
