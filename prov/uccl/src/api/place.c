/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "api/place.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rdma/fi_errno.h>

#include "nic/verbs_dev.h"

bool uccl_place_rdma(const struct uccl_params *p)
{
	return !strncmp(p->backend, "verbs", 5);
}

static int rdma_list(struct uccl_ifaddr **list)
{
	struct uccl_verbs_port *ports;
	int n = uccl_verbs_list(NULL, &ports);

	*list = NULL;
	if (n <= 0)
		return n;
	*list = calloc((size_t)n, sizeof(**list));
	for (int i = 0; *list && i < n; i++) {
		struct uccl_ifaddr *a = &(*list)[i];

		_Static_assert(sizeof(a->name) >= sizeof(ports[i].name), "room for a device's name");
		snprintf(a->name, sizeof(a->name), "%s", ports[i].name);
		a->addr = ports[i].addr;
		a->mtu = ports[i].mtu;
		a->link_bps = ports[i].link_bps;
	}
	free(ports);
	return *list ? n : -FI_ENOMEM;
}

int uccl_place_list(const struct uccl_params *p, struct uccl_ifaddr **list)
{
	return uccl_place_rdma(p) ? rdma_list(list) : uccl_ifaddr_list(list);
}

int uccl_place_open(const struct uccl_params *p, const struct uccl_nic_attr *attr, struct uccl_nic **nic)
{
	static const struct {
		const char *name;
		int (*open)(const struct uccl_nic_attr *attr, struct uccl_nic **nic);
	} ends[] = {
		{"udp", uccl_nic_udp_open},
		{"verbs-ud", uccl_nic_verbs_ud_open},
		{"verbs-uc", uccl_nic_verbs_uc_open},
		{"verbs-rc", uccl_nic_verbs_rc_open},
	};

	for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++)
		if (!strcmp(p->backend, ends[i].name))
			return ends[i].open(attr, nic);
	return -FI_EINVAL;
}
