/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Which interfaces FI_UCCL_NIC=auto joins. */
#ifndef UCCL_API_JOINED_H
#define UCCL_API_JOINED_H

#include "nic/ifaddr.h"

/*
 * The name that joins the best of list[0..n), which is sorted as uccl_ifaddr_list() does: of the class and family of
 * the first, the nearest (distance[i] is that of list[i]), and of these the fastest, UCCL_RAILS_MAX at most. False:
 * there are no two of them.
 */
bool uccl_joined_auto(const struct uccl_ifaddr *list, const unsigned int *distance, int n, char name[UCCL_IFADDR_NAME]);

#endif
