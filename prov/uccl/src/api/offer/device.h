/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Device memory (FI_HMEM): whether the variables allow it. */
#ifndef UCCL_API_OFFER_DEVICE_H
#define UCCL_API_OFFER_DEVICE_H

#include "api/offer/param.h"
#include "hmem/hmem.h"

/* The devices that these variables allow. NULL: they allow none, or there are none. The first call finds them. */
const struct uccl_hmem_ops *uccl_device_find(const struct uccl_params *p);
/* After NULL: the reason as a text for a person, at most UCCL_DEVICE_WHY bytes. */
#define UCCL_DEVICE_WHY 128
void uccl_device_why_not(const struct uccl_params *p, char *buf, size_t size);

#endif
