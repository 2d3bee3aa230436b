/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "nic/ifclass.h"

#include "../tests.h"

#include <stdio.h>
#include <string.h>

/* An interface of a host that is made up. */
struct made {
	const char *name, *kind, *lower, *master, *facts; /* facts: of "device", "route", "loopback" */
	enum uccl_ifclass want;
};

static int index_of(const struct made *host, const char *name)
{
	for (int i = 0; name && host[i].name; i++)
		if (!strcmp(host[i].name, name))
			return i + 1;
	return 0;
}

static int host_make(const struct made *host, struct uccl_netif *list)
{
	int n = 0;

	for (; host[n].name; n++) {
		const char *facts = host[n].facts ? host[n].facts : "";

		list[n] = (struct uccl_netif){
			.index = n + 1,
			.lower = index_of(host, host[n].lower),
			.master = index_of(host, host[n].master),
			.device = strstr(facts, "device"),
			.route = strstr(facts, "route"),
			.loopback = strstr(facts, "loopback"),
		};
		snprintf(list[n].name, sizeof(list[n].name), "%s", host[n].name);
		snprintf(list[n].kind, sizeof(list[n].kind), "%s", host[n].kind ? host[n].kind : "");
	}
	return n;
}

/* Each interface of the host has the class that its line says. */
static void judged(const struct made *host)
{
	struct uccl_netif list[32];
	int n = host_make(host, list);

	for (int i = 0; i < n; i++) {
		enum uccl_ifclass got = uccl_ifclass_of(list, n, host[i].name);

		if (got != host[i].want)
			fail_msg("%s is %s, not %s", host[i].name, uccl_ifclass_text(got),
				 uccl_ifclass_text(host[i].want));
	}
}

TEST(of__server_with_containers)
{
	static const struct made host[] = {
		{"lo", .facts = "loopback", .want = UCCL_IF_LOOPBACK},
		{"ens1", .facts = "device,route", .want = UCCL_IF_PHYSICAL},
		{"ib0", "ipoib", .facts = "device", .want = UCCL_IF_PHYSICAL},
		{"docker0", "bridge", .want = UCCL_IF_CONTAINER},
		{"br-1a2b3c", "bridge", .want = UCCL_IF_CONTAINER},
		{"virbr0", "bridge", .want = UCCL_IF_CONTAINER},
		{"lab", "bridge", .want = UCCL_IF_LONE_BRIDGE},
		{"veth1", "veth", .master = "docker0", .want = UCCL_IF_VIRTUAL},
		{"vnet0", "tun", .master = "virbr0", .want = UCCL_IF_VIRTUAL},
		{"tap9", "tun", .master = "lab", .want = UCCL_IF_VIRTUAL},
		{"wg0", "wireguard", .want = UCCL_IF_VIRTUAL},
		{"dummy0", "dummy", .want = UCCL_IF_VIRTUAL},
		{"flannel.1", "vxlan", "ens1", .want = UCCL_IF_VIRTUAL},
		{0},
	};

	judged(host);
}

TEST(of__stacked)
{
	static const struct made host[] = {
		{"eth0", .facts = "device", .master = "bond0", .want = UCCL_IF_PHYSICAL},
		{"eth1", .facts = "device", .master = "bond0", .want = UCCL_IF_PHYSICAL},
		{"eth2", .facts = "device", .want = UCCL_IF_PHYSICAL},
		{"eth3", .facts = "device", .master = "br0", .want = UCCL_IF_PHYSICAL},
		{"bond0", "bond", .want = UCCL_IF_STACKED},
		{"bond1", "bond", .want = UCCL_IF_VIRTUAL}, /* no member */
		{"bond0.7", "vlan", "bond0", .want = UCCL_IF_STACKED},
		{"mv0", "macvlan", "eth2", .want = UCCL_IF_STACKED},
		{"br0", "bridge", .want = UCCL_IF_BRIDGE},
		{"br0.9", "vlan", "br0", .want = UCCL_IF_BRIDGE},
		{"br1", "bridge", .want = UCCL_IF_BRIDGE},
		{"eth2.5", "vlan", "eth2", "br1", .want = UCCL_IF_STACKED},
		{"docker0", "bridge", .want = UCCL_IF_CONTAINER},
		{"docker0.3", "vlan", "docker0", .want = UCCL_IF_CONTAINER},
		/* made on an interface of another namespace */
		{"net1", "macvlan", .want = UCCL_IF_STACKED},
		{"docker1", "bridge", .want = UCCL_IF_BRIDGE}, /* a name says less than a port */
		{"eth4", .facts = "device", .master = "docker1", .want = UCCL_IF_PHYSICAL},
		{0},
	};

	judged(host);
}

/* Open vSwitch: a bridge is an interface of its own, ports belong to the data path. */
TEST(of__open_vswitch)
{
	static const struct made lone[] = {
		{"ovs-system", "openvswitch", .want = UCCL_IF_LONE_BRIDGE},
		{"br-int", "openvswitch", .want = UCCL_IF_CONTAINER},
		{0},
	};
	static const struct made host[] = {
		{"ovs-system", "openvswitch", .want = UCCL_IF_BRIDGE},
		{"eth0", .facts = "device", .master = "ovs-system", .want = UCCL_IF_PHYSICAL},
		{"br-ex", "openvswitch", .want = UCCL_IF_BRIDGE},
		{0},
	};

	judged(lone);
	judged(host);
}

/* The interface of the default route is the NIC, whatever it is made of. */
TEST(of__container)
{
	static const struct made pod[] = {
		{"lo", .facts = "loopback", .want = UCCL_IF_LOOPBACK},
		{"eth0", "veth", .facts = "route", .want = UCCL_IF_PHYSICAL},
		{"net1", "veth", .want = UCCL_IF_VIRTUAL},
		{"docker0", "bridge", .want = UCCL_IF_CONTAINER},
		{0},
	};
	static const struct made rootless[] = {
		{"tap0", "tun", .facts = "route", .want = UCCL_IF_PHYSICAL},
		{0},
	};

	struct uccl_netif list[8];

	judged(pod);
	judged(rootless);
	assert_int_equal(uccl_ifclass_made(list, host_make(pod, list), "eth0"), UCCL_IF_VIRTUAL);
	assert_int_equal(uccl_ifclass_made(list, host_make(pod, list), "none"), UCCL_IF_PHYSICAL);
}

/* A VPN with the default route sends its packets through the NIC. */
TEST(of__vpn)
{
	static const struct made host[] = {
		{"wlan0", .facts = "device", .want = UCCL_IF_PHYSICAL},
		{"tun0", "tun", .facts = "route", .want = UCCL_IF_VIRTUAL},
		{"br0", "bridge", .facts = "route", .want = UCCL_IF_PHYSICAL},
		{0},
	};

	judged(host);
}

/* Kernels and sandboxes that tell no kind. */
TEST(of__names)
{
	static const struct made host[] = {
		{"eth0", .want = UCCL_IF_PHYSICAL},
		{"venet0", .want = UCCL_IF_PHYSICAL},
		{"docker0", .want = UCCL_IF_CONTAINER},
		{"cni0", .want = UCCL_IF_CONTAINER},
		{"veth12", .want = UCCL_IF_VIRTUAL},
		{"tun0", .want = UCCL_IF_VIRTUAL},
		{"docker1", .facts = "device", .want = UCCL_IF_PHYSICAL},
		{0},
	};

	judged(host);
	assert_int_equal(uccl_ifclass_of(NULL, 0, "eth9"), UCCL_IF_PHYSICAL);
	assert_int_equal(uccl_ifclass_of(NULL, -5, "eth9"), UCCL_IF_PHYSICAL);
}

/* Interfaces made on each other end, even where the numbers make a circle. */
TEST(of__circles)
{
	struct uccl_netif list[2] = {
		{.index = 1, .lower = 2, .name = "a", .kind = "vlan"},
		{.index = 2, .lower = 1, .name = "b", .kind = "vlan"},
	};

	assert_int_equal(uccl_ifclass_of(list, 2, "a"), UCCL_IF_VIRTUAL);
	list[0].lower = 1;
	assert_int_equal(uccl_ifclass_of(list, 2, "a"), UCCL_IF_STACKED);
	strcpy(list[0].kind, "bridge");
	list[0].master = 1;
	assert_int_equal(uccl_ifclass_of(list, 1, "a"), UCCL_IF_LONE_BRIDGE);
}

TEST(shared__classes)
{
	for (int c = UCCL_IF_PHYSICAL; c <= UCCL_IF_LOOPBACK; c++) {
		assert_int_equal(uccl_ifclass_shared((enum uccl_ifclass)c),
				 c == UCCL_IF_LONE_BRIDGE || c == UCCL_IF_CONTAINER);
		assert_true(*uccl_ifclass_text((enum uccl_ifclass)c));
	}
}

TESTS_MAIN
