/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* fi_read, fi_write and their forms. */
#ifndef UCCL_API_RMA_H
#define UCCL_API_RMA_H

#include <rdma/fi_rma.h>

extern struct fi_ops_rma uccl_rma_ops;

#endif
