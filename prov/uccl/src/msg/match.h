/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Matching of messages and receives by libfabric's rules: receives in the order they were posted, messages in the
 * order they came; tagged and untagged apart; ignore masks; directed receives.
 */
#ifndef UCCL_MSG_MATCH_H
#define UCCL_MSG_MATCH_H

#include "msg/rx.h"

struct uccl_match {
	struct uccl_op_list posted[UCCL_KINDS];
	struct uccl_msg_rx_list unexpected[UCCL_KINDS];
	struct uccl_msg_rx_list claimed;
};

void uccl_match_init(struct uccl_match *m);
/* First posted receive that takes this message; it stays posted. NULL: none. */
struct uccl_op *uccl_match_posted(const struct uccl_match *m, enum uccl_match_kind kind, const struct uccl_peer *peer,
				  uint64_t tag);
/* First unexpected message that this receive takes; it stays listed. NULL: none. */
struct uccl_msg_rx *uccl_match_unexpected(struct uccl_match *m, const struct uccl_op *recv);
/* Posted receives that name a peer are found from that peer, too, in their order. */
void uccl_match_post(struct uccl_match *m, struct uccl_op *recv);
void uccl_match_unpost(struct uccl_match *m, struct uccl_op *recv);
/* Posted receives that name `p` name `first` from now on. */
void uccl_match_rename(struct uccl_peer *p, struct uccl_peer *first);
void uccl_match_list(struct uccl_match *m, struct uccl_msg_rx *rx);
void uccl_match_unlist(struct uccl_match *m, struct uccl_msg_rx *rx);
/* Keep a listed message for `context`; take it again. */
void uccl_match_claim(struct uccl_match *m, struct uccl_msg_rx *rx, void *context);
struct uccl_msg_rx *uccl_match_claimed(struct uccl_match *m, const void *context);

#endif
