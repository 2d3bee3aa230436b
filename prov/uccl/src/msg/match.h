/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Matching of messages and receives by libfabric's rules: receives in the order they were posted, messages in the
 * order they came; tagged and untagged apart; ignore masks; directed receives.
 */
#ifndef UCCL_MSG_MATCH_H
#define UCCL_MSG_MATCH_H

#include "base/cover.h"
#include "base/hash.h"

#include "msg/op.h"

/* A message on its way in; from its envelope until it is in the application's buffer. */
struct uccl_msg_rx {
	TAILQ_ENTRY(uccl_msg_rx) link;	/* unexpected or claimed list */
	TAILQ_ENTRY(uccl_msg_rx) plink;	/* all of its peer */
	struct uccl_peer *peer;
	uint64_t tag, data;
	uint64_t len;			/* of the message */
	uint64_t eager;			/* bytes that come without CTS */
	uint64_t got;			/* bytes of the message that arrived, */
	struct uccl_cover cover;	/* and which */
	uint64_t limit;			/* matched: bytes that have a place in the buffer */
	uint64_t hi;			/* matched: end of the furthest byte that arrived */
	uint64_t mseq;
	uint8_t flags;			/* UCCL_ENV_* */
	bool have_env;
	bool in_order;			/* passed the message order: unexpected or matched */
	bool listed;			/* in the unexpected list */
	bool hashed;
	bool held;			/* counts as such */
	bool failed;			/* its sender died before all of it came */
	bool discarded;			/* nobody wants it: bytes are dropped as they come */
	bool finished;			/* the receive is complete; waits for records to be acknowledged */
	bool fencing;
	uint32_t send_id;		/* sender's handle */
	uint32_t id;			/* our handle, 0: none */
	uint32_t doubts;		/* direct writes that may still land */
	uint8_t *buf;			/* payload that came before it was matched */
	uint64_t buf_len;
	struct uccl_op *op;		/* the receive it matched */
	const struct iovec *iov;	/* matched: where it belongs; else NULL */
	uint8_t niov;
	uint16_t device;		/* which of iov are memory of a device */
	struct uccl_copy copy;		/* of payload on its way there */
	struct uccl_serve *serve;	/* it is a request for our memory */
	struct uccl_op *read;		/* it is what comes back for this operation */
	struct uccl_op *self;		/* a message to ourselves: the send */
	void *claim;			/* context that claimed it */
	void *mr;			/* direct: registration of the receive buffer */
	struct uccl_item cts, fin;
	UT_hash_handle hh;		/* in its peer's table, by message sequence */
};

TAILQ_HEAD(uccl_msg_rx_list, uccl_msg_rx);

/* Messages of different kinds never meet. Those of collectives and of connections have tags of their own. */
enum uccl_match_kind { UCCL_KIND_UNTAGGED, UCCL_KIND_TAGGED, UCCL_KIND_COLL, UCCL_KIND_CM, UCCL_KINDS };

static inline enum uccl_match_kind uccl_op_kind(const struct uccl_op *op)
{
	if (op->flags & (UCCL_OPF_COLL | UCCL_OPF_CM))
		return op->flags & UCCL_OPF_CM ? UCCL_KIND_CM : UCCL_KIND_COLL;
	return op->flags & UCCL_OPF_TAGGED ? UCCL_KIND_TAGGED : UCCL_KIND_UNTAGGED;
}

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
void uccl_match_post(struct uccl_match *m, struct uccl_op *recv);
void uccl_match_unpost(struct uccl_match *m, struct uccl_op *recv);
void uccl_match_list(struct uccl_match *m, struct uccl_msg_rx *rx);
void uccl_match_unlist(struct uccl_match *m, struct uccl_msg_rx *rx);
/* Keep a listed message for `context`; take it again. */
void uccl_match_claim(struct uccl_match *m, struct uccl_msg_rx *rx, void *context);
struct uccl_msg_rx *uccl_match_claimed(struct uccl_match *m, const void *context);

#endif
