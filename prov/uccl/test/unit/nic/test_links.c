/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Interfaces as the kernel describes them, in a namespace of the test's own. Without privileges, the host's. */
#include "nic/links.h"

#include "../tests.h"

#include <rdma/fi_errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "nic/ifaddr.h"

static const struct uccl_netif *find(const struct uccl_netif *list, int n, const char *name)
{
	for (int i = 0; i < n; i++)
		if (!strcmp(list[i].name, name))
			return &list[i];
	return NULL;
}

static bool alone(void)
{
	static int ok = -1;

	if (ok < 0)
		ok = !unshare(CLONE_NEWNET) && !system("ip link set lo up");
	return ok;
}

TEST(read__loopback)
{
	struct uccl_netif *list;
	int n = uccl_links_read(&list);
	const struct uccl_netif *lo = find(list, n, "lo");

	assert_true(n > 0);
	assert_non_null(lo);
	assert_true(lo->loopback && lo->index > 0 && !lo->device && !lo->route);
	assert_int_equal(uccl_ifclass_of(list, n, "lo"), UCCL_IF_LOOPBACK);
	free(list);
	assert_false(uccl_links_device("lo"));
	assert_false(uccl_links_device("no-such"));
}

/* Each fact, from real interfaces. */
TEST(read__facts)
{
	const struct uccl_netif *eth, *br, *port, *upper;
	struct uccl_netif *list;
	int n;

	if (!alone() || system("ip link add br9 type bridge && ip link add e9 type veth peer name p9 && "
			       "ip link set p9 master br9 up && ip link set br9 up && ip link set e9 up && "
			       "ip addr add 10.77.0.1/24 dev e9 && "
			       "ip route add default via 10.77.0.2 && "
			       "ip link add link e9 name m9 type macvlan"))
		skip();
	n = uccl_links_read(&list);
	eth = find(list, n, "e9");
	br = find(list, n, "br9");
	port = find(list, n, "p9");
	upper = find(list, n, "m9");
	assert_true(eth && br && port && upper);
	assert_string_equal(eth->kind, "veth");
	assert_string_equal(br->kind, "bridge");
	assert_string_equal(upper->kind, "macvlan");
	assert_int_equal(port->master, br->index);
	assert_int_equal(upper->lower, eth->index);
	assert_int_equal(br->master, 0);
	assert_true(eth->route && !br->route && !upper->route && !eth->loopback);
	assert_int_equal(uccl_ifclass_of(list, n, "e9"), UCCL_IF_PHYSICAL);
	free(list);
	/* A route with two routers, beside one that is not for all. */
	assert_int_equal(system("ip route del default; ip addr add 10.78.0.1/24 dev br9; ip route add 10.99.0.0/16 via "
				"10.77.0.2; ip route add default nexthop via 10.78.0.2 nexthop via 10.78.0.3"),
			 0);
	n = uccl_links_read(&list);
	assert_true(find(list, n, "br9")->route);
	assert_false(find(list, n, "e9")->route);
	free(list);
	assert_int_equal(system("ip link del br9; ip link del e9"), 0);
}

/* More interfaces than one answer of the kernel holds. */
TEST(read__many)
{
	struct uccl_netif *list;
	int n;

	if (!alone() || system("for i in $(seq 80); do echo link add d$i type bridge; done | ip -batch -"))
		skip();
	n = uccl_links_read(&list);
	assert_true(n >= 81);
	assert_non_null(find(list, n, "d1"));
	assert_non_null(find(list, n, "d80"));
	free(list);
	assert_int_equal(system("for i in $(seq 80); do echo link del d$i; done | ip -batch -"), 0);
}

/* The list of addresses has a bridge's behind a NIC's, and a link-local one behind that of the same interface. */
TEST(read__order_of_addresses)
{
	static const char *const want[] = {"eth9", "docker9", "eth9"};
	struct uccl_ifaddr *v;
	int n, at = 0;

	if (!alone() || system("ip link add docker9 type bridge && ip link set docker9 up && "
			       "ip addr add 172.17.0.1/16 dev docker9 && "
			       "ip link add eth9 type veth peer name p9 && ip link set p9 up && ip link set eth9 up && "
			       "ip addr add 169.254.7.7/16 dev eth9 && ip addr add 10.77.0.1/24 dev eth9 && "
			       "ip route add default via 10.77.0.2"))
		skip();
	n = uccl_ifaddr_list(&v);
	for (int i = 0; i < n; i++)
		if (!v[i].loopback && uccl_ifaddr_is_v4(&v[i].addr)) {
			/* The link-local one is of the better class among those that hosts share. */
			assert_string_equal(v[i].name, at == 0 ? want[0] : at == 1 ? want[2] : want[1]);
			assert_int_equal(uccl_ifaddr_shared(&v[i]), at > 0);
			at++;
		}
	assert_int_equal(at, 3);
	assert_int_equal(v[0].addr.ip[12], 10);
	assert_int_equal(v[0].class, UCCL_IF_PHYSICAL);
	assert_true(v[0].link_nominal);
	free(v);
	assert_int_equal(system("ip link del docker9; ip link del eth9"), 0);
}

TESTS_MAIN
