/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Checks of the flags argument of calls. A flag is accepted if the manual pages define it for the call and the provider
 * implements it. All others are refused, so that no flag is ignored on which a program relies. An endpoint's default
 * flags are checked when they are set (uccl_attr_tx_flags(), uccl_attr_rx_flags()). A call ignores defaults that do not
 * apply to it.
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

/* The slow part of uccl_flags_check(). */
int uccl_flags_combined(enum uccl_call call, uint64_t flags);

/* Flags that are allowed only with certain others. */
#define UCCL_FLAGS_COMBINED (FI_FENCE | FI_TRIGGER | FI_PEEK | FI_CLAIM | FI_DISCARD)

/*
 * 0; -FI_EBADFLAGS: the call does not accept one of the flags; -FI_EINVAL: two flags contradict each other;
 * -FI_EOPNOTSUPP: the provider does not implement this combination. The reason is logged at info level.
 */
static inline int uccl_flags_check(enum uccl_call call, uint64_t flags)
{
	return flags & (~uccl_flags_of[call] | UCCL_FLAGS_COMBINED) ? uccl_flags_combined(call, flags) : 0;
}

#endif
