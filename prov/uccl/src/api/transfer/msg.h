/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Untagged messages: fi_send, fi_recv and their kin. */
#ifndef UCCL_API_MSG_H
#define UCCL_API_MSG_H

#include <rdma/fi_endpoint.h>

extern struct fi_ops_msg uccl_msg_ops;

#endif
