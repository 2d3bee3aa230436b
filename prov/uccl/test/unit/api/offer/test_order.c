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

/* A bridge of containers says 10 Gbit/s, a NIC of a virtual machine says nothing. */
TEST(sort__class_before_speed)
{
	struct uccl_candidate c[] = {nic("docker0", 10, 10), nic("wg0", 20, 10), nic("eth0", 0, 21),
				     nic("bond0", 100, 10), nic("eth1", 1, 10), nic("br0", 40, 10)};

	c[0].ifa.class = UCCL_IF_CONTAINER;
	c[1].ifa.class = UCCL_IF_VIRTUAL;
	c[3].ifa.class = UCCL_IF_STACKED;
	c[5].ifa.class = UCCL_IF_BRIDGE;
	assert_string_equal(sorted(c, 6), "eth1 eth0 bond0 br0 wg0 docker0");
}

/* The veth of a pod says 10 Gbit/s, a NIC that was given to the pod says nothing or less. */
TEST(sort__nominal_rates)
{
	struct uccl_candidate c[] = {nic("eth0", 10, 10), nic("net2", 1, 10), nic("net1", 0, 10)};

	c[0].ifa.link_nominal = true;
	assert_string_equal(sorted(c, 3), "net2 eth0 net1");
}

/* FI_UCCL_NIC decides before classes, and classes before families. */
TEST(sort__names_class_family)
{
	struct uccl_candidate c[] = {nic("v4", 10, 10), nic("v6", 1, 10), nic("named", 1, 10)};

	c[0].ifa.class = UCCL_IF_VIRTUAL;
	c[0].rank = c[1].rank = 1;
	c[1].ifa.addr.ip[10] = 0;
	c[2].ifa.class = UCCL_IF_CONTAINER;
	assert_string_equal(sorted(c, 3), "named v6 v4");
}

struct iface {
	const char *name;
	enum uccl_ifclass class;
	bool v6, shared;
};

#define NIC(name) {name, UCCL_IF_PHYSICAL, false, false}
#define NIC6(name) {name, UCCL_IF_PHYSICAL, true, false}
#define DOCKER(name) {name, UCCL_IF_CONTAINER, false, true}
#define LAB(name) {name, UCCL_IF_LONE_BRIDGE, false, true}
#define VPN(name) {name, UCCL_IF_VIRTUAL, false, false}
#define LO {"lo", UCCL_IF_LOOPBACK, false, false}

/* What is kept of a host's interfaces, "a b c". */
static const char *kept(const struct iface *f, const struct uccl_asked *asked)
{
	static char text[2048];
	struct uccl_candidate c[8];
	int n = 0;

	for (; f[n].name; n++) {
		c[n] = nic(f[n].name, 1, 10);
		c[n].ifa.class = f[n].class;
		c[n].ifa.loopback = f[n].class == UCCL_IF_LOOPBACK;
		c[n].shared = f[n].shared;
		if (f[n].v6)
			c[n].ifa.addr.ip[10] = 0;
	}
	n = uccl_order_keep(c, n, asked);
	*text = '\0';
	for (int i = 0; i < n; i++)
		snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s%s", i ? " " : "", c[i].ifa.name);
	return text;
}

TEST(keep__table)
{
	static const struct uccl_asked nothing, dest = {.dest = true}, sources = {.sources = true},
				       named = {.named = true}, rdma = {.rdma = true};
	static const struct {
		struct iface host[6];
		const struct uccl_asked *asked;
		const char *want;
	} t[] = {
		/* a better one exists */
		{{DOCKER("docker0"), NIC("eth0"), LO}, &nothing, "eth0"},
		{{DOCKER("docker0"), VPN("wg0")}, &nothing, "wg0"},
		{{DOCKER("docker0"), LAB("lab")}, &nothing, "lab"},
		{{{"usb0", UCCL_IF_PHYSICAL, false, true}, NIC("eth0")}, &nothing, "eth0"},
		{{{"usb0", UCCL_IF_PHYSICAL, false, true}, DOCKER("docker0")}, &nothing, "usb0"},
		{{DOCKER("docker0"), NIC("eth0"), LO}, &dest, "eth0 lo"},
		{{DOCKER("docker0"), NIC("eth0")}, &sources, "eth0"},
		{{DOCKER("docker0"), NIC("eth0")}, &rdma, "eth0"},
		{{DOCKER("docker0"), NIC6("eth0")}, &nothing, "eth0"},
		/* none does */
		{{DOCKER("docker0"), LO}, &nothing, "docker0"},
		{{DOCKER("docker0"), DOCKER("virbr0")}, &nothing, "docker0 virbr0"},
		{{LO}, &nothing, "lo"},
		/* it is named */
		{{DOCKER("docker0"), NIC("eth0"), LO}, &named, "docker0 eth0 lo"},
		/* families */
		{{NIC("eth0"), NIC6("eth1")}, &nothing, "eth0"},
		{{NIC("eth0"), NIC6("eth1")}, &sources, "eth0 eth1"},
		{{NIC("eth0"), NIC6("eth1")}, &rdma, "eth0 eth1"},
		{{VPN("wg0"), NIC6("eth0")}, &nothing, "eth0"},
		{{VPN("wg0"), NIC6("eth0")}, &named, "wg0"},
		{{{"vlan", UCCL_IF_STACKED, false, false}, NIC6("eth0")}, &nothing, "vlan"},
	};

	for (size_t i = 0; i < sizeof(t) / sizeof(t[0]); i++)
		if (strcmp(kept(t[i].host, t[i].asked), t[i].want))
			fail_msg("%zu: %s, not %s", i, kept(t[i].host, t[i].asked), t[i].want);
}

TESTS_MAIN
