/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "base/defaults.h"

#include <stddef.h>
#include <string.h>

#include "base/units.h"

static const struct uccl_defaults table[] = {
	{
		.name = "udp",
		.cc = UCCL_UDP_CC,
		.path = UCCL_UDP_PATH,
		.credit = UCCL_UDP_CREDIT,
		.paths = UCCL_UDP_PATHS,
		.labels = UCCL_UDP_LABELS,
		.window = UCCL_WINDOW,
		.delay_ns = UCCL_UDP_DELAY_US * UCCL_NS_PER_US,
		.rto_min_ns = UCCL_UDP_RTO_MIN_US * UCCL_NS_PER_US,
		.trains = true,
		.marks = true,
	},
	{
		.name = "verbs",
		.cc = UCCL_VERBS_CC,
		.path = UCCL_VERBS_PATH,
		.credit = UCCL_VERBS_CREDIT,
		.paths = UCCL_VERBS_PATHS,
		.labels = UCCL_VERBS_LABELS,
		.write_bytes = UCCL_VERBS_WRITE,
		.window = UCCL_WINDOW,
		.delay_ns = UCCL_VERBS_DELAY_US * UCCL_NS_PER_US,
		.rto_min_ns = UCCL_VERBS_RTO_MIN_US * UCCL_NS_PER_US,
	},
};

const struct uccl_defaults *uccl_defaults_find(const char *kind)
{
	for (size_t i = 0; i < uccl_array_len(table); i++)
		if (!strcmp(table[i].name, kind))
			return &table[i];
	return NULL;
}
