/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Tagged messages: fi_tsend, fi_trecv and their kin. */
#ifndef UCCL_API_TAGGED_H
#define UCCL_API_TAGGED_H

#include <rdma/fi_tagged.h>

extern struct fi_ops_tagged uccl_tagged_ops;

#endif
