/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "nic/ifaddr.h"

#include "../tests.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <rdma/fi_errno.h>
#include <stdlib.h>
#include <string.h>

static struct uccl_nic_addr addr_of(const char *text, uint16_t port)
{
	struct uccl_nic_addr a = {.port = port};

	if (inet_pton(AF_INET, text, a.ip + 12) == 1)
		a.ip[10] = a.ip[11] = 0xff;
	else
		assert_int_equal(inet_pton(AF_INET6, text, a.ip), 1);
	return a;
}

TEST(list__order)
{
	struct uccl_ifaddr *v;
	int i, n = uccl_ifaddr_list(&v);
	bool lo = false, v4_lo = false;

	assert_true(n > 0);
	for (i = 0; i < n; i++) {
		assert_true(v[i].mtu >= 68);
		assert_true(v[i].name[0] && !strchr(v[i].name, ':'));
		assert_int_equal(v[i].addr.port, 0);
		assert_false(uccl_ifaddr_is_any(&v[i].addr));
		assert_false(v[i].addr.ip[0] == 0xfe && (v[i].addr.ip[1] & 0xc0) == 0x80);
		assert_false(lo && !v[i].loopback);
		lo |= v[i].loopback;
		if (v[i].loopback)
			assert_int_equal(v[i].link_bps, 0);
		if (!strcmp(v[i].name, "lo") && uccl_ifaddr_is_v4(&v[i].addr))
			v4_lo = uccl_ifaddr_is_loopback(&v[i].addr);
	}
	assert_true(v4_lo);
	free(v);
}

TEST(find__loopback)
{
	static const char *const text[] = {"127.0.0.1", "127.1.2.3"};
	struct uccl_ifaddr got;
	struct uccl_nic_addr a;
	size_t i;

	for (i = 0; i < 2; i++) {
		a = addr_of(text[i], 9);
		assert_int_equal(uccl_ifaddr_find(&a, &got), 0);
		assert_string_equal(got.name, "lo");
		assert_true(got.loopback);
	}
}

TEST(find__nobody)
{
	struct uccl_nic_addr a = addr_of("198.51.100.77", 0);
	struct uccl_ifaddr got;

	assert_int_equal(uccl_ifaddr_find(&a, &got), -FI_EADDRNOTAVAIL);
}

TEST(find__each_of_list)
{
	struct uccl_ifaddr *v, got;
	int i, n = uccl_ifaddr_list(&v);

	for (i = 0; i < n; i++) {
		assert_int_equal(uccl_ifaddr_find(&v[i].addr, &got), 0);
		assert_int_equal(got.loopback, v[i].loopback);
		assert_int_equal(got.link_real, v[i].link_real);
		/* Behind an IPv4 address stands no scope id. PROTOCOL R379 */
		if (uccl_ifaddr_is_v4(&v[i].addr)) {
			v[i].addr.scope = 0x0203000a;
			assert_int_equal(uccl_ifaddr_find(&v[i].addr, &got), 0);
		}
		/* Software alone. */
		assert_false(got.loopback && got.link_real);
	}
	free(v);
}

TEST(towards__source)
{
	struct uccl_nic_addr to = addr_of("127.0.0.9", 5), got;

	assert_int_equal(uccl_ifaddr_towards(&to, &got), 0);
	assert_true(uccl_ifaddr_is_loopback(&got));
	assert_int_equal(got.port, 0);
	to = addr_of("255.255.255.255", 5);
	assert_true(uccl_ifaddr_towards(&to, &got) < 0);
}

TEST(shared__addresses)
{
	static const struct {
		const char *text;
		enum uccl_ifclass class;
		bool shared;
	} t[] = {
		{"10.0.0.1", UCCL_IF_PHYSICAL, false},	  {"169.254.3.1", UCCL_IF_PHYSICAL, true},
		{"169.253.3.1", UCCL_IF_PHYSICAL, false}, {"172.17.0.1", UCCL_IF_CONTAINER, true},
		{"fd00::1", UCCL_IF_LONE_BRIDGE, true},	  {"2001:db8::a9fe:1", UCCL_IF_VIRTUAL, false},
	};

	for (size_t i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		struct uccl_ifaddr a = {.addr = addr_of(t[i].text, 0), .class = t[i].class};

		assert_int_equal(uccl_ifaddr_shared(&a), t[i].shared);
	}
}

TEST(is__kinds)
{
	static const struct {
		const char *text;
		bool v4, any, loopback;
	} t[] = {
		{"0.0.0.0", true, true, false},	      {"::", false, true, false},
		{"127.0.0.1", true, false, true},     {"127.255.0.9", true, false, true},
		{"::1", false, false, true},	      {"192.0.2.1", true, false, false},
		{"2001:db8::1", false, false, false}, {"128.0.0.1", true, false, false},
	};
	size_t i;

	for (i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		struct uccl_nic_addr a = addr_of(t[i].text, 0);

		assert_int_equal(uccl_ifaddr_is_v4(&a), t[i].v4);
		assert_int_equal(uccl_ifaddr_is_any(&a), t[i].any);
		assert_int_equal(uccl_ifaddr_is_loopback(&a), t[i].loopback);
	}
}

TEST(equal__each_field)
{
	struct uccl_nic_addr a = addr_of("fe80::1", 7), b;

	a.scope = 2;
	b = a;
	b.pad = 99; /* not part of the address */
	assert_true(uccl_ifaddr_equal(&a, &b));
	b.port++;
	assert_false(uccl_ifaddr_equal(&a, &b));
	b = a;
	b.scope++;
	assert_false(uccl_ifaddr_equal(&a, &b));
	b = a;
	b.ip[15]++;
	assert_false(uccl_ifaddr_equal(&a, &b));
}

TEST(to_sock__families)
{
	struct uccl_nic_addr v4 = addr_of("192.0.2.1", 0x1234), v6 = addr_of("2001:db8::1", 0x1234);
	struct sockaddr_storage s;
	struct sockaddr_in6 *s6 = (struct sockaddr_in6 *)&s;
	struct sockaddr_in *s4 = (struct sockaddr_in *)&s;

	assert_int_equal(uccl_ifaddr_to_sock(&s, &v4, AF_UNSPEC), sizeof(*s4));
	assert_int_equal(s4->sin_family, AF_INET);
	assert_int_equal(ntohs(s4->sin_port), 0x1234);
	assert_int_equal(ntohl(s4->sin_addr.s_addr), 0xc0000201);
	assert_int_equal(uccl_ifaddr_to_sock(&s, &v4, AF_INET6), sizeof(*s6));
	assert_int_equal(s6->sin6_family, AF_INET6);
	assert_true(IN6_IS_ADDR_V4MAPPED(&s6->sin6_addr));
	assert_int_equal(uccl_ifaddr_to_sock(&s, &v6, AF_UNSPEC), sizeof(*s6));
	assert_memory_equal(&s6->sin6_addr, v6.ip, 16);
	assert_int_equal(uccl_ifaddr_to_sock(&s, &v6, AF_INET), 0);
}

TEST(from_sock__round_trip)
{
	static const char *const text[] = {"192.0.2.1", "2001:db8::1", "fe80::5"};
	struct sockaddr_storage s;
	struct uccl_nic_addr a, b;
	socklen_t len;
	size_t i;

	for (i = 0; i < 3; i++) {
		a = addr_of(text[i], 4711);
		a.scope = i == 2 ? 3 : 0;
		len = uccl_ifaddr_to_sock(&s, &a, AF_UNSPEC);
		assert_int_equal(uccl_ifaddr_from_sock(&b, (struct sockaddr *)&s, len), 0);
		assert_true(uccl_ifaddr_equal(&a, &b));
	}
	/* A scope says nothing about a global address. */
	a = addr_of("2001:db8::1", 1);
	a.scope = 3;
	len = uccl_ifaddr_to_sock(&s, &a, AF_INET6);
	assert_int_equal(uccl_ifaddr_from_sock(&b, (struct sockaddr *)&s, len), 0);
	assert_int_equal(b.scope, 0);
}

TEST(from_sock__refuses)
{
	struct sockaddr_storage s = {.ss_family = AF_UNIX};
	struct uccl_nic_addr a;

	assert_int_equal(uccl_ifaddr_from_sock(&a, (struct sockaddr *)&s, sizeof(s)), -FI_EINVAL);
	s.ss_family = AF_INET6;
	assert_int_equal(uccl_ifaddr_from_sock(&a, (struct sockaddr *)&s, sizeof(struct sockaddr_in)), -FI_EINVAL);
	s.ss_family = AF_INET;
	assert_int_equal(uccl_ifaddr_from_sock(&a, (struct sockaddr *)&s, 4), -FI_EINVAL);
}

TESTS_MAIN
