/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* See source.h. */
#include "api/offer/source.h"

#include <rdma/fi_ext_uccl.h>
#include <stdlib.h>
#include <string.h>

#include "api/offer/address.h"
#include "api/offer/place.h"
#include "nic/ifaddr.h"

bool uccl_source_fits(uint32_t format, const struct uccl_nic_addr *a)
{
	bool v4 = uccl_ifaddr_is_v4(a);

	return format == FI_SOCKADDR_IN ? v4 : format == FI_SOCKADDR_IN6 ? !v4 : true;
}

int uccl_source(const struct fi_info *info, const struct uccl_params *params, struct uccl_nic_addr *src)
{
	const char *name = info->domain_attr ? info->domain_attr->name : NULL;
	uint32_t format = info->addr_format ? info->addr_format : FI_ADDR_UCCL;
	struct uccl_addr a = { 0 };
	struct uccl_ifaddr *list;
	bool found = false;
	int n;

	if (info->src_addr && uccl_address_unpack(format, info->src_addr, info->src_addrlen, &a, NULL))
		return -FI_EINVAL;
	*src = a.nic;
	if (info->src_addr && !uccl_ifaddr_is_any(src))
		return 0;
	/* The wildcard is no address that a peer could use: take the interface's. */
	n = uccl_place_list(params, &list);
	for (int i = 0; i < n && !found; i++) {
		if ((name && strcmp(name, list[i].name)) || !uccl_source_fits(format, &list[i].addr))
			continue;
		*src = list[i].addr;
		src->port = a.nic.port;
		found = true;
	}
	if (n >= 0)
		free(list);
	return found ? 0 : -FI_EINVAL;
}
