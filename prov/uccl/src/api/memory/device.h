/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Memory of devices (FI_HMEM): which buffers are of that kind. */
#ifndef UCCL_API_MEMORY_DEVICE_H
#define UCCL_API_MEMORY_DEVICE_H

#include <sys/uio.h>

#include "api/object/ep_object.h"
#include "hmem/hmem.h"

/* Is this address memory of a device? False for endpoints without FI_HMEM. */
static inline bool uccl_device_has(const struct uccl_ep *ep, const void *buf)
{
	return ep->hmem && ep->hmem->where(buf) >= 0;
}

/*
 * Which of n buffers are: bit i is for the i-th. A descriptor says it, and without one the device's driver; desc, and
 * each of its entries, may be NULL.
 */
uint16_t uccl_device_mask(const struct uccl_ep *ep, const struct iovec *iov, size_t n, void *const *desc);

#endif
