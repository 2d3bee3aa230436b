/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The entry point of the module. */
#ifndef UCCL_API_PROV_H
#define UCCL_API_PROV_H

#include <rdma/providers/fi_prov.h>

/* Called once by libfabric after it has opened the module. */
__attribute__((visibility("default"))) struct fi_provider *fi_prov_ini(void);

#endif
