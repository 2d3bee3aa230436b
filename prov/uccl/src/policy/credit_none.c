/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* No credits: the sender's congestion control alone decides. */
#include "policy/policies.h"

static uint64_t none_limit(const void *cs)
{
	(void)cs;
	return UINT64_MAX;
}

static uint64_t none_grant(void *cs, uint64_t received, uint64_t demand, uint64_t now)
{
	(void)cs;
	(void)received;
	(void)demand;
	(void)now;
	return 0;
}

const struct uccl_credit_ops uccl_credit_none = {
	.name = "none",
	.limit = none_limit,
	.grant = none_grant,
};
