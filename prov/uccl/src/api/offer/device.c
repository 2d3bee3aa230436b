/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "api/offer/device.h"

#include <stdio.h>
#include <string.h>

const struct uccl_hmem_ops *uccl_device_find(const struct uccl_params *p)
{
	return !strcmp(p->nic.cuda, "off") ? NULL : uccl_hmem_find();
}

void uccl_device_why_not(const struct uccl_params *p, char *buf, size_t size)
{
	if (!strcmp(p->nic.cuda, "off"))
		snprintf(buf, size, "FI_UCCL_CUDA is off");
	else
		snprintf(buf, size, "%s is missing", uccl_hmem_missing());
}
