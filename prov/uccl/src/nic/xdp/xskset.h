/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The queues of an interface that an endpoint and its lanes have together. A NIC spreads packets over its queues by
 * their ports, so what is for one of them comes by all of these queues; and a frame can only be handed to a socket of
 * the queue that it came by. So each member sends by a queue of its own and receives by those of all, by a socket for
 * each. Every call is made by the member's own thread; members of a set may have different ones.
 */
#ifndef UCCL_NIC_XDP_XSKSET_H
#define UCCL_NIC_XDP_XSKSET_H

#include "nic/nic.h"
#include "nic/xdp/xdp_prog.h"
#include "nic/xdp/xsk.h"

struct uccl_xsk_set;
struct uccl_xsk_member;

/*
 * A new member, without a queue yet. *shared: the set, NULL as long as there is none; the first one opens the program
 * (uccl_xdp_prog_open) and makes the set, and with the last one it goes, and *shared is NULL again. `shared` may be
 * NULL: a set of its own. `at`: where the member is. Of one set, members come and go one after the other. *what as
 * that of uccl_xdp_prog_open.
 */
int uccl_xsk_join(struct uccl_xsk_set **shared, int ifindex, enum uccl_xdp_mode mode, const struct uccl_nic_addr *at,
		  struct uccl_xsk_member **out, const char **what);
/* No frames come any more. Memory that others may use stays until the last one has left. */
void uccl_xsk_leave(struct uccl_xsk_member *m);

/* Its set's program. */
const struct uccl_xdp_prog *uccl_xsk_prog(const struct uccl_xsk_member *m);

/*
 * Take a queue to send by, once, and receive by it and by those that others have or will have. Errors and *what as
 * those of uccl_xsk_open, which `parts` is for; then it receives nothing. The rule's `most` is that of the queue.
 */
int uccl_xsk_take(struct uccl_xsk_member *m, bool parts, const struct uccl_xdp_rule *rule, const char **what);
/* To send by; NULL before uccl_xsk_take(). */
struct uccl_xsk *uccl_xsk_own(const struct uccl_xsk_member *m);
/* Another rule for what is for it. */
int uccl_xsk_rule(struct uccl_xsk_member *m, const struct uccl_xdp_rule *rule);

/* Frames from all queues, as uccl_xsk_rx(): at most UCCL_XSK_FRAMES_LENT. */
int uccl_xsk_member_rx(struct uccl_xsk_member *m, struct uccl_xsk_frame *v, int n);
/* Its sockets wake who waits for this epoll descriptor, also those that it will have. */
int uccl_xsk_watch(struct uccl_xsk_member *m, int epoll_fd);
/* How many queues it hears. */
uint32_t uccl_xsk_heard(const struct uccl_xsk_member *m);
/* As uccl_xsk_dropped(), by all queues. */
uint64_t uccl_xsk_member_dropped(const struct uccl_xsk_member *m);

#endif
