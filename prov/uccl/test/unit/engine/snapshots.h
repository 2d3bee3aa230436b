/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Engines that have talked to each other, and room for a snapshot of the first. */
#ifndef UCCL_TEST_UNIT_ENGINE_SNAPSHOTS_H
#define UCCL_TEST_UNIT_ENGINE_SNAPSHOTS_H

#include "lan.h"

#include <string.h>

#include "engine/observe/snapshot.h"

static uint8_t src[100000], dst[100000];
static union {
	struct uccl_snapshot v;
	uint64_t words[4096];
} block;

static struct lan *talked(int nodes)
{
	struct lan *l = lan_new_open(nodes);

	for (int to = 1; to < nodes; to++) {
		lan_recv(l, to, dst, sizeof(dst), NULL);
		assert_int_equal(lan_send(l, 0, to, src, sizeof(src), NULL), 0);
		lan_run(l, UCCL_NS_PER_S);
	}
	memset(&block, 0x5a, sizeof(block));
	return l;
}

static uint32_t peers(const struct uccl_snapshot *v)
{
	uint32_t n = 0;

	for (const struct uccl_snapshot_peer *p = uccl_snapshot_first(v); p; p = uccl_snapshot_next(v, p))
		n++;
	return n;
}

#endif
