/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Messages to peers, and to ourselves. See msg_ep.h for what programs ask for. */
#ifndef UCCL_MSG_SEND_SEND_H
#define UCCL_MSG_SEND_SEND_H

#include "msg/msg_ep.h"

/* A message to ourselves, which nobody takes: its send ends, 0 or with a positive FI_Exxx. */
void msg_self_drop(struct uccl_msg_rx *rx, int err);

#endif
