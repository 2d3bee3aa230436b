/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Opening a domain (object/domain.h). */
#ifndef UCCL_API_DOMAIN_H
#define UCCL_API_DOMAIN_H

#include "api/object/domain.h"

int uccl_domain_open(struct fid_fabric *fabric, struct fi_info *info, struct fid_domain **domain, void *context);

/* The domain object behind a handle; NULL: another provider opened it. */
struct uccl_domain *uccl_domain_ours(struct fid_domain *domain);

#endif
