/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* No credits: the sender's congestion control alone decides. Who asks for one is told to go on (flow/events.c). */
#include "policy/policies.h"

static uint64_t none_limit(const void *cs)
{
	(void)cs;
	return UINT64_MAX;
}

const struct uccl_credit_ops uccl_credit_none = {
	.name = "none",
	.limit = none_limit,
};
