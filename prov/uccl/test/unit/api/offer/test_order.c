/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "../../tests.h"

#include <stdio.h>
#include <string.h>

#include "api/offer/order.h"

#define GBPS 1000000000ull

static struct uccl_candidate nic(const char *name, uint64_t gbps, unsigned int distance)
{
	static int order;
	struct uccl_candidate c = {.distance = distance, .order = order++};

	snprintf(c.ifa.name, sizeof(c.ifa.name), "%s", name);
	c.ifa.link_bps = gbps * GBPS;
	c.ifa.addr.ip[10] = c.ifa.addr.ip[11] = 0xff;
	c.ifa.addr.ip[12] = 10;
	return c;
}

/* The names in their new order, "a b c". */
static const char *sorted(struct uccl_candidate *c, int n)
{
	static char text[1024];

	uccl_order_sort(c, n);
	*text = '\0';
	for (int i = 0; i < n; i++)
		snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s%s", i ? " " : "", c[i].ifa.name);
	return text;
}

TEST(sort__nearest_of_one_rate)
{
	struct uccl_candidate c[] = {nic("far", 100, 21), nic("near", 100, 10), nic("middle", 100, 12)};

	assert_string_equal(sorted(c, 3), "near middle far");
}

/* A slow NIC beside the processor is no reason to leave the fast one. */
TEST(sort__faster_first)
{
	struct uccl_candidate c[] = {nic("slow", 1, 10), nic("unknown", 0, 10), nic("fast", 200, 32)};

	assert_string_equal(sorted(c, 3), "fast slow unknown");
}

TEST(sort__stable)
{
	struct uccl_candidate c[] = {nic("b", 100, 10), nic("a", 100, 10), nic("d", 100, 10), nic("c", 100, 10)};

	assert_string_equal(sorted(c, 4), "b a d c");
}

/* FI_UCCL_NIC decides before all else. */
TEST(sort__named_first)
{
	struct uccl_candidate c[] = {nic("second", 400, 10), nic("first", 1, 21)};

	c[0].rank = 1;
	assert_string_equal(sorted(c, 2), "first second");
}

TEST(sort__loopback_and_family)
{
	struct uccl_candidate c[] = {nic("lo", 400, 10), nic("v6", 400, 10), nic("v4", 1, 21)};

	c[0].last = true;
	c[1].ifa.addr.ip[10] = 0;
	assert_string_equal(sorted(c, 3), "v4 v6 lo");
	for (int i = 0; i < 3; i++) {
		c[i].rdma = true;
		c[i].last = false;
	}
	c[2].ifa.link_bps = 0;
	assert_string_equal(sorted(c, 3), "v6 v4 lo");
}

TESTS_MAIN
