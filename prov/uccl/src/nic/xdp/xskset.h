/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The queues of an interface that an endpoint and its lanes (the members of a set) share. A NIC spreads packets over
 * its queues by their ports, so packets for one member arrive by all of these queues. A frame can only be passed to a
 * socket of the queue by which it arrived. So each member owns one queue to send by, and has a socket on every queue of
 * the set to receive by. Only a member's own thread calls for it; members may have different threads.
 */
#ifndef UCCL_NIC_XDP_XSKSET_H
#define UCCL_NIC_XDP_XSKSET_H

#include "nic/nic.h"
#include "nic/xdp/xdp_prog.h"
#include "nic/xdp/xsk.h"

struct uccl_xsk_set;
struct uccl_xsk_member;

/*
 * Make a member at the address `at`, without a queue yet, in the set *shared. If that is NULL, the call opens the
 * program (uccl_xdp_prog_open()) and makes the set. The last member that leaves frees the set and makes *shared NULL.
 * `shared` NULL: a set for this member only. Calls that join and leave a set must not overlap. Errors and *what are
 * those of uccl_xdp_prog_open().
 */
int uccl_xsk_join(struct uccl_xsk_set **shared, int ifindex, enum uccl_xdp_mode mode, const struct uccl_nic_addr *at,
		  struct uccl_xsk_member **out, const char **what);
/* Leave the set; the member receives nothing any more. Memory that other members use stays until they have left. */
void uccl_xsk_leave(struct uccl_xsk_member *m);

/* The set's program. */
const struct uccl_xdp_prog *uccl_xsk_prog(const struct uccl_xsk_member *m);

/*
 * Take a queue to send by, and receive by it and by the queues of all other members, also future ones. Call it once.
 * uccl_xsk_open() gets `parts`, and its errors and *what are returned; after an error the member receives nothing. The
 * queue's `most` replaces the one in `rule`.
 */
int uccl_xsk_take(struct uccl_xsk_member *m, bool parts, const struct uccl_xdp_rule *rule, const char **what);
/* The member's own queue, to send by; NULL before uccl_xsk_take(). */
struct uccl_xsk *uccl_xsk_own(const struct uccl_xsk_member *m);
/* Replace the rule of the member's packets. 0 or a negative error. */
int uccl_xsk_rule(struct uccl_xsk_member *m, const struct uccl_xdp_rule *rule);

/* Receive frames from all queues, as uccl_xsk_rx(); at most UCCL_XSK_FRAMES_LENT. */
int uccl_xsk_member_rx(struct uccl_xsk_member *m, struct uccl_xsk_frame *v, int n);
/* Add the member's sockets, also future ones, to this epoll descriptor. 0 or a negative error. */
int uccl_xsk_watch(struct uccl_xsk_member *m, int epoll_fd);
/* The number of queues by which the member receives. */
uint32_t uccl_xsk_heard(const struct uccl_xsk_member *m);
/* uccl_xsk_dropped(), summed over all queues. */
uint64_t uccl_xsk_member_dropped(const struct uccl_xsk_member *m);

#endif
