/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "api/memory/device.h"

#include "api/memory/mr.h"

uint16_t uccl_device_mask(const struct uccl_ep *ep, const struct iovec *iov, size_t n, void *const *desc)
{
	uint16_t mask = 0;

	for (size_t i = 0; i < n && i < UCCL_IOV_LIMIT; i++) {
		const struct uccl_mr *mr = desc ? desc[i] : NULL;

		if (!iov[i].iov_len || (mr ? !mr->device : ep->attr.hmem->where(iov[i].iov_base) < 0))
			continue;
		mask |= (uint16_t)(1u << i);
		if (!mr)
			ep->attr.hmem->sync(iov[i].iov_base);
	}
	return mask;
}
