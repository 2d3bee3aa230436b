/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Device memory (FI_HMEM): which buffers of a call are in it. */
#ifndef UCCL_API_MEMORY_DEVICE_H
#define UCCL_API_MEMORY_DEVICE_H

#include <sys/uio.h>

#include "api/object/ep_object.h"
#include "hmem/hmem.h"

/* True if this address is in device memory. Always false for endpoints without FI_HMEM. */
static inline bool uccl_device_has(const struct uccl_ep *ep, const void *buf)
{
	return ep->attr.hmem && ep->attr.hmem->where(buf) >= 0;
}

/*
 * Bit i of the result: iov[i], i < n, is in device memory. If desc[i] is a descriptor, it decides; else the device's
 * driver is asked. `desc` and each of its entries may be NULL.
 */
uint16_t uccl_device_mask(const struct uccl_ep *ep, const struct iovec *iov, size_t n, void *const *desc);

#endif
