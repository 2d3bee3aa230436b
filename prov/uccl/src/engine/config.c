/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "engine/config.h"

#include "base/defaults.h"
#include "base/units.h"
#include "flow/policy.h"

void uccl_config_default(struct uccl_config *c)
{
	/* Who has no RDMA NIC, or does not say. */
	*c = (struct uccl_config){
		.cc = UCCL_UDP_CC,
		.path = UCCL_UDP_PATH,
		.credit = UCCL_UDP_CREDIT,
		.paths = UCCL_UDP_PATHS,
		.host_cc = true,
		.host_credit = true,
		.host_paths = UCCL_PATHS_MAX,
		.chunk_bytes = UCCL_CHUNK,
		.eager_bytes = 65536,
		.inject_bytes = 4096,
		.window_chunks = UCCL_WINDOW,
		.unexpected_bytes = 64u << 20,
		.peer_timeout_ns = 600 * UCCL_NS_PER_S,
		.connect_timeout_ns = 600 * UCCL_NS_PER_S,
		.keepalive_ns = UCCL_NS_PER_S,
		.linger_ns = 200 * UCCL_NS_PER_MS,
	};
}

bool uccl_config_pulls(const struct uccl_config *c)
{
	const struct uccl_credit_ops *credit = uccl_credit_find(c->credit);

	return credit && credit->pull;
}
