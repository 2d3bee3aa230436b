/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Requests to the kernel's networking (rtnetlink(7)), with one answer each, or with a list of answers. */
#ifndef UCCL_NIC_NETLINK_H
#define UCCL_NIC_NETLINK_H

#include <linux/netlink.h>
#include <stdbool.h>
#include <stdint.h>

#define UCCL_NETLINK_ROOM 16384 /* bytes that are enough for any answer about one object */

/* Open a nonblocking socket that also receives changes of `groups` (RTMGRP_...). A descriptor or a negative error. */
int uccl_netlink_open(uint32_t groups);

/*
 * Send the request `ask` and read its answer into answer[0..room): a complete message of type `want`. 0, the kernel's
 * error (negative), or -FI_EIO: another answer, or none.
 */
int uccl_netlink_ask(int fd, struct nlmsghdr *ask, uint8_t *answer, uint32_t room, uint16_t want);

/*
 * Ask for all objects of a kind (`type`: RTM_GETLINK, RTM_GETROUTE), of every address family, and hand each one to
 * `each`. 0, the kernel's error (negative), or -FI_EIO: the list has no end.
 */
int uccl_netlink_list(int fd, uint16_t type, void (*each)(void *arg, const struct nlmsghdr *h), void *arg);

/* Append an attribute to `message`, which begins with a struct nlmsghdr and has room behind it. */
void uccl_netlink_add(void *message, uint16_t type, const void *value, uint16_t len);

#endif
