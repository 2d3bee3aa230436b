/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "api/offer/device.h"

#include <string.h>

#include "api/offer/place.h"

const struct uccl_hmem_ops *uccl_device_find(const struct uccl_params *p)
{
	return uccl_place_rdma(p) || !strcmp(p->cuda, "off") ? NULL : uccl_hmem_find();
}
