/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Questions to the kernel's networking (rtnetlink): one answer each. */
#ifndef UCCL_NIC_XDP_NETLINK_H
#define UCCL_NIC_XDP_NETLINK_H

#include <linux/netlink.h>
#include <stdbool.h>
#include <stdint.h>

#define UCCL_NETLINK_ROOM 16384 /* enough for an answer about one thing */

/* A socket that also hears of changes in these groups (RTMGRP_...); it never blocks. A negative error. */
int uccl_netlink_open(uint32_t groups);

/*
 * Send one question and read its answer, a message of type `want`, which begins at `answer` and is whole. A negative
 * error is the kernel's, or -FI_EIO: no such answer.
 */
int uccl_netlink_ask(int fd, struct nlmsghdr *ask, uint8_t *answer, uint32_t room, uint16_t want);

/* Add an attribute to a message, which begins with a struct nlmsghdr; the caller made room behind it. */
void uccl_netlink_add(void *message, uint16_t type, const void *value, uint16_t len);

#endif
