/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* See flags.h. The table "Flags of an operation" of fi_uccl(7) says what each of them does. */
#include "api/transfer/flags.h"

#include <rdma/fi_errno.h>

#include "api/lib/lib.h"

/* When the completion comes, or whether; hints; waiting for a counter. */
#define ANY (FI_COMPLETION | FI_MORE | FI_TRIGGER)
#define LEVELS (FI_INJECT_COMPLETE | FI_TRANSMIT_COMPLETE | FI_DELIVERY_COMPLETE)
#define SEND (ANY | LEVELS | FI_MATCH_COMPLETE | FI_INJECT | FI_FENCE | FI_REMOTE_CQ_DATA)
/* Of a receive that is complete all data are visible, whatever less the program asks for. */
#define RECV (ANY | FI_TRANSMIT_COMPLETE | FI_DELIVERY_COMPLETE | FI_PEEK | FI_CLAIM | FI_DISCARD)
#define READ (ANY | LEVELS | FI_FENCE)
#define WRITE (READ | FI_INJECT | FI_REMOTE_CQ_DATA)

const uint64_t uccl_flags_of[UCCL_CALLS] = {
	[UCCL_CALL_SENDMSG] = SEND,
	[UCCL_CALL_TSENDMSG] = SEND,
	[UCCL_CALL_RECVMSG] = RECV | FI_MULTI_RECV,
	[UCCL_CALL_TRECVMSG] = RECV,
	[UCCL_CALL_READMSG] = READ,
	[UCCL_CALL_WRITEMSG] = WRITE,
	[UCCL_CALL_ATOMICMSG] = WRITE,
	[UCCL_CALL_FETCHMSG] = WRITE,
	[UCCL_CALL_COMPAREMSG] = WRITE,
	/* The result is complete here. Other members have completions of their own. */
	[UCCL_CALL_COLLECTIVE] = FI_COMPLETION | FI_MORE | FI_INJECT_COMPLETE | FI_TRANSMIT_COMPLETE,
	[UCCL_CALL_JOIN] = FI_COLLECTIVE,
};

static const char *const names[UCCL_CALLS] = {
	[UCCL_CALL_SENDMSG] = "fi_sendmsg",
	[UCCL_CALL_TSENDMSG] = "fi_tsendmsg",
	[UCCL_CALL_RECVMSG] = "fi_recvmsg",
	[UCCL_CALL_TRECVMSG] = "fi_trecvmsg",
	[UCCL_CALL_READMSG] = "fi_readmsg",
	[UCCL_CALL_WRITEMSG] = "fi_writemsg",
	[UCCL_CALL_ATOMICMSG] = "fi_atomicmsg",
	[UCCL_CALL_FETCHMSG] = "fi_fetch_atomicmsg",
	[UCCL_CALL_COMPAREMSG] = "fi_compare_atomicmsg",
	[UCCL_CALL_COLLECTIVE] = "a collective",
	[UCCL_CALL_JOIN] = "fi_join_collective",
};

static int refuse(enum uccl_call call, uint64_t flags, int err, const char *why)
{
	uccl_info(FI_LOG_EP_DATA, "%s: flags 0x%llx %s\n", names[call], (unsigned long long)flags, why);
	return err;
}

int uccl_flags_combined(enum uccl_call call, uint64_t flags)
{
	uint64_t unknown = flags & ~uccl_flags_of[call], ask = flags & (FI_PEEK | FI_CLAIM | FI_DISCARD);

	if (unknown)
		return refuse(call, unknown, -FI_EBADFLAGS, "are not supported");
	if (flags & FI_FENCE && flags & FI_MATCH_COMPLETE)
		/* fi_cq(3): it would promise that all messages before it were matched, too. */
		return refuse(call, flags, -FI_EOPNOTSUPP, "cannot be combined: a fence does not wait for matches");
	if (flags & FI_TRIGGER && flags & FI_INJECT)
		/* The buffer is read when the counter is there, and belongs to the program before. */
		return refuse(call, flags, -FI_EINVAL, "contradict each other: FI_TRIGGER and FI_INJECT");
	if (ask == FI_DISCARD || ask == (FI_PEEK | FI_CLAIM | FI_DISCARD))
		return refuse(call, flags, -FI_EINVAL, "are wrong: FI_DISCARD goes with one of FI_PEEK and FI_CLAIM");
	if (ask && flags & (FI_TRIGGER | FI_MULTI_RECV))
		return refuse(call, flags, -FI_EINVAL, "contradict each other: this is no receive that is posted");
	return 0;
}
