/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The flags that a call takes as an argument. What the manual pages define for a call, and the provider does, is
 * accepted; everything else is refused, so that no flag is ignored that a program relies on. Default flags of an
 * endpoint are checked when they are set (uccl_attr_tx_flags, uccl_attr_rx_flags). A default that does not apply to a
 * call means nothing to it.
 */
#ifndef UCCL_API_FLAGS_H
#define UCCL_API_FLAGS_H

#include <rdma/fabric.h>
#include <rdma/fi_endpoint.h>

enum uccl_call {
	UCCL_CALL_SENDMSG, UCCL_CALL_TSENDMSG, UCCL_CALL_RECVMSG, UCCL_CALL_TRECVMSG, UCCL_CALL_READMSG,
	UCCL_CALL_WRITEMSG, UCCL_CALL_ATOMICMSG, UCCL_CALL_FETCHMSG, UCCL_CALL_COMPAREMSG, UCCL_CALL_COLLECTIVE,
	UCCL_CALL_JOIN, UCCL_CALLS
};

/* All flags that a call accepts, in some combination. */
extern const uint64_t uccl_flags_of[UCCL_CALLS];

/* The part of uccl_flags_check() for flags that not every combination allows. */
int uccl_flags_combined(enum uccl_call call, uint64_t flags);

/* Flags for which the others matter. */
#define UCCL_FLAGS_COMBINED (FI_FENCE | FI_TRIGGER | FI_PEEK | FI_CLAIM | FI_DISCARD)

/*
 * 0; -FI_EBADFLAGS: the call does not have one of these flags; -FI_EINVAL: they contradict each other; -FI_EOPNOTSUPP:
 * they make sense together, but not here. The reason is told at info level.
 */
static inline int uccl_flags_check(enum uccl_call call, uint64_t flags)
{
	return flags & (~uccl_flags_of[call] | UCCL_FLAGS_COMBINED) ? uccl_flags_combined(call, flags) : 0;
}

#endif
