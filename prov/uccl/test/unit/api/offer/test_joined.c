/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "api/offer/joined.h"

#include "../../tests.h"

#include <stdio.h>
#include <string.h>

#include "base/units.h"

#define MOST 12

static struct uccl_ifaddr list[MOST];
static unsigned int distance[MOST];
static int n;

/* One more interface of 10.0.n.1. */
static void add(const char *name, uint64_t gbps, unsigned int far)
{
	struct uccl_ifaddr *a = &list[n];

	memset(a, 0, sizeof(*a));
	snprintf(a->name, sizeof(a->name), "%s", name);
	a->addr.ip[10] = a->addr.ip[11] = 0xff;
	a->addr.ip[12] = 10;
	a->addr.ip[14] = (uint8_t)n;
	a->addr.ip[15] = 1;
	a->link_bps = gbps * 1000000000;
	a->class = UCCL_IF_PHYSICAL;
	distance[n++] = far;
}

static void joined_are(const char *want)
{
	char name[UCCL_IFADDR_NAME];

	assert_int_equal(uccl_joined_auto(list, distance, n, name), strchr(want, '+') != NULL);
	assert_string_equal(name, want);
}

TEST(joined__fastest)
{
	n = 0;
	add("eth0", 25, 10);
	add("eth1", 100, 10);
	add("eth2", 100, 10);
	joined_are("eth1+eth2");
	/* One alone is not joined. */
	list[2].link_bps = 0;
	joined_are("eth1");
}

TEST(joined__nearest)
{
	n = 0;
	add("eth0", 25, 10);
	add("eth1", 100, 20);
	add("eth2", 25, 10);
	joined_are("eth0+eth2");
}

/* Of one kind; each once. */
TEST(joined__alike)
{
	n = 0;
	add("eth0", 25, 10);
	add("eth1", 25, 10);
	add("eth1", 25, 10);
	add("br0", 25, 10);
	add("eth2", 25, 10);
	add("eth3", 25, 10);
	add("lo", 25, 10);
	list[3].class = UCCL_IF_BRIDGE;
	memset(list[4].addr.ip, 0x20, 16); /* IPv6 */
	list[5].addr.ip[12] = 169; /* 169.254.5.1 is of many hosts */
	list[5].addr.ip[13] = 254;
	list[6].loopback = true;
	joined_are("eth0+eth1");
	n = 0;
	assert_false(uccl_joined_auto(list, distance, 0, list[0].name));
}

TEST(joined__bounded)
{
	n = 0;
	for (int i = 0; i < 10; i++) {
		char name[16];

		snprintf(name, sizeof(name), "e%d", i);
		add(name, 25, 10);
	}
	joined_are("e0+e1+e2+e3+e4+e5+e6+e7");
	for (int i = 0; i < n; i++)
		snprintf(list[i].name, sizeof(list[i].name), "enp%dlonglonglonglonglong", i);
	joined_are("enp0longlonglonglonglong+enp1longlonglonglonglong");
}

TESTS_MAIN
