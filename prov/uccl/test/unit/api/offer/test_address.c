/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "../world.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include "api/offer/address.h"

static struct uccl_addr v4(const char *ip, uint16_t port)
{
	struct uccl_addr a = { .nic = { .port = port }, .incarnation = 0x123, .key = { 7 } };

	a.nic.ip[10] = a.nic.ip[11] = 0xff;
	assert_int_equal(inet_pton(AF_INET, ip, a.nic.ip + 12), 1);
	return a;
}

static struct uccl_addr v6(const char *ip, uint16_t port)
{
	struct uccl_addr a = { .nic = { .port = port }, .incarnation = 0x456, .key = { 8 } };

	assert_int_equal(inet_pton(AF_INET6, ip, a.nic.ip), 1);
	return a;
}

static void format__which(void **state)
{
	static const uint32_t socks[] = { FI_SOCKADDR, FI_SOCKADDR_IN, FI_SOCKADDR_IN6 };
	struct uccl_addr a = v4("192.0.2.1", 1), b = v6("2001:db8::1", 1);

	(void)state;
	for (size_t i = 0; i < uccl_array_len(socks); i++)
		assert_true(uccl_address_format_ok(socks[i]) && uccl_address_is_sock(socks[i]));
	assert_true(uccl_address_format_ok(FI_ADDR_UCCL) && !uccl_address_is_sock(FI_ADDR_UCCL));
	assert_false(uccl_address_format_ok(FI_ADDR_STR));
	assert_false(uccl_address_format_ok(FI_FORMAT_UNSPEC));
	assert_int_equal(uccl_address_len(FI_ADDR_UCCL, &a.nic), 56);
	assert_int_equal(uccl_address_len(FI_SOCKADDR, &a.nic), sizeof(struct sockaddr_in));
	assert_int_equal(uccl_address_len(FI_SOCKADDR, &b.nic), sizeof(struct sockaddr_in6));
	assert_int_equal(uccl_address_len(FI_SOCKADDR_IN, &b.nic), sizeof(struct sockaddr_in));
	assert_int_equal(uccl_address_len(FI_SOCKADDR_IN6, &a.nic), sizeof(struct sockaddr_in6));
}

/* There and back; only the provider's own form carries incarnation and key. */
static void pack__there_and_back(void **state)
{
	static const uint32_t formats[] = { FI_ADDR_UCCL, FI_SOCKADDR, FI_SOCKADDR_IN, FI_SOCKADDR_IN6 };
	const struct uccl_addr in[] = { v4("192.0.2.1", 7000), v6("2001:db8::1", 7001), v4("127.0.0.1", 0) };

	(void)state;
	for (size_t f = 0; f < uccl_array_len(formats); f++) {
		for (size_t i = 0; i < uccl_array_len(in); i++) {
			bool own = formats[f] == FI_ADDR_UCCL;
			struct uccl_addr out;
			uint8_t buf[64];
			size_t len = sizeof(buf), used = 0;

			if (formats[f] == FI_SOCKADDR_IN && i == 1) {
				assert_int_equal(uccl_address_pack(formats[f], &in[i], buf, &len), -FI_EINVAL);
				continue;
			}
			assert_int_equal(uccl_address_pack(formats[f], &in[i], buf, &len), 0);
			assert_int_equal(len, uccl_address_len(formats[f], &in[i].nic));
			assert_int_equal(uccl_address_unpack(formats[f], buf, len, &out, &used), 0);
			assert_int_equal(used, len);
			assert_true(uccl_nic_addr_equal(&out.nic, &in[i].nic));
			/* A port that is not known yet has no incarnation either. */
			assert_int_equal(out.incarnation, own && in[i].nic.port ? in[i].incarnation : 0);
			assert_int_equal(out.key[0], own ? in[i].key[0] : 0);
		}
	}
}

static void pack__too_small(void **state)
{
	struct uccl_addr a = v4("192.0.2.1", 7000);
	uint8_t whole[56], part[57];
	size_t len = sizeof(whole);

	(void)state;
	assert_int_equal(uccl_address_pack(FI_ADDR_UCCL, &a, whole, &len), 0);
	for (size_t room = 0; room < sizeof(whole); room++) {
		memset(part, 0xaa, sizeof(part));
		len = room;
		assert_int_equal(uccl_address_pack(FI_ADDR_UCCL, &a, room ? part : NULL, &len), -FI_ETOOSMALL);
		assert_int_equal(len, sizeof(whole));
		assert_memory_equal(part, whole, room);
		assert_int_equal(part[room], 0xaa);
	}
}

static void unpack__refuses(void **state)
{
	struct uccl_addr a = v4("192.0.2.1", 7000), out;
	uint8_t buf[56], flip[56];
	struct sockaddr_in6 sa = { .sin6_family = AF_INET6, .sin6_port = 1 };
	size_t len = sizeof(buf), used;

	(void)state;
	assert_int_equal(uccl_address_pack(FI_ADDR_UCCL, &a, buf, &len), 0);
	assert_int_equal(uccl_address_unpack(FI_ADDR_UCCL, NULL, 56, &out, NULL), -FI_EINVAL);
	assert_int_equal(uccl_address_unpack(FI_ADDR_UCCL, buf, 55, &out, &used), -FI_EINVAL);
	assert_int_equal(used, 56);
	for (size_t bit = 0; bit < 8 * sizeof(buf); bit++) {
		memcpy(flip, buf, sizeof(buf));
		flip[bit / 8] ^= (uint8_t)(1u << bit % 8);
		assert_int_equal(uccl_address_unpack(FI_ADDR_UCCL, flip, 56, &out, NULL), -FI_EINVAL);
	}
	/* Where the next of an array begins is told also of one that cannot be used. */
	assert_int_equal(uccl_address_unpack(FI_SOCKADDR_IN, &sa, SIZE_MAX, &out, &used), -FI_EINVAL);
	assert_int_equal(used, sizeof(struct sockaddr_in));
	assert_int_equal(uccl_address_unpack(FI_SOCKADDR, &sa, sizeof(sa) - 1, &out, &used), -FI_EINVAL);
	assert_int_equal(used, sizeof(sa));
	assert_int_equal(uccl_address_unpack(FI_SOCKADDR, &sa, 1, &out, NULL), -FI_EINVAL);
	assert_int_equal(uccl_address_unpack(FI_SOCKADDR, &sa, sizeof(sa), &out, NULL), 0);
	sa.sin6_family = AF_UNIX;
	assert_int_equal(uccl_address_unpack(FI_SOCKADDR, &sa, sizeof(sa), &out, NULL), -FI_EINVAL);
}

static void resolve__numbers(void **state)
{
	struct uccl_addr a = v4("192.0.2.1", 7000), b = v6("2001:db8::1", 0), lo = v4("127.0.0.1", 9);
	struct uccl_nic_addr out[8];

	(void)state;
	assert_int_equal(uccl_address_resolve("192.0.2.1", "7000", FI_ADDR_UCCL, true, false, out, 8), 1);
	assert_true(uccl_nic_addr_equal(&out[0], &a.nic));
	assert_int_equal(uccl_address_resolve("2001:db8::1", NULL, FI_SOCKADDR, true, false, out, 8), 1);
	assert_true(uccl_nic_addr_equal(&out[0], &b.nic));
	/* Without a node: the loopback address, or what everybody reaches. */
	assert_int_equal(uccl_address_resolve(NULL, "9", FI_SOCKADDR_IN, true, false, out, 8), 1);
	assert_true(uccl_nic_addr_equal(&out[0], &lo.nic));
	assert_int_equal(uccl_address_resolve(NULL, "9", FI_SOCKADDR_IN, true, true, out, 8), 1);
	assert_int_equal(out[0].ip[12], 0);
	assert_int_equal(out[0].port, 9);
	assert_true(uccl_address_resolve(NULL, "9", FI_SOCKADDR, true, false, out, 1) == 1);
}

static void resolve__nonsense(void **state)
{
	static const struct {
		const char *node, *service;
		uint32_t format;
	} bad[] = {
		{ "192.0.2.1", "70000", FI_ADDR_UCCL }, { "192.0.2.1", "99999999999999999999", FI_ADDR_UCCL },
		{ "192.0.2.1", "no-such-service", FI_ADDR_UCCL }, { "192.0.2.256", "1", FI_ADDR_UCCL },
		{ "not a number", "1", FI_ADDR_UCCL }, { "2001:db8::1", "1", FI_SOCKADDR_IN },
		{ "192.0.2.1", "1", FI_SOCKADDR_IN6 }, { "", "1", FI_ADDR_UCCL },
	};
	struct uccl_nic_addr out[8];

	(void)state;
	for (size_t i = 0; i < uccl_array_len(bad); i++)
		assert_int_equal(uccl_address_resolve(bad[i].node, bad[i].service, bad[i].format, true, false, out, 8),
				 -FI_ENODATA);
}

static void text__forms(void **state)
{
	struct uccl_addr a = v4("192.0.2.1", 7000), b = v6("2001:db8::1", 65535), qp = v6("fe80::1", 0);
	char buf[UCCL_ADDRESS_TEXT], small[8];

	(void)state;
	assert_int_equal(uccl_address_text(&a, buf, sizeof(buf)), 41);
	assert_string_equal(buf, "fi_uccl://192.0.2.1:7000/0000000000000123");
	uccl_address_text(&b, buf, sizeof(buf));
	assert_string_equal(buf, "fi_uccl://[2001:db8::1]:65535/0000000000000456");
	qp.nic.pad = 0xc001;
	qp.nic.scope = 0x7f000012;
	uccl_address_place_text(&qp.nic, buf, sizeof(buf));
	assert_string_equal(buf, "[fe80::1]/qp18");
	/* Cut off, with an end, and the length that it needs. */
	assert_int_equal(uccl_address_place_text(&a.nic, small, sizeof(small)), strlen("192.0.2.1:7000"));
	assert_string_equal(small, "192.0.2");
	uccl_address_ip_text(&a.nic, buf, sizeof(buf));
	assert_string_equal(buf, "192.0.2.1");
	uccl_address_ip_text(&a.nic, small, sizeof(small));
	assert_string_equal(small, "");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(format__which),   cmocka_unit_test(pack__there_and_back),
		cmocka_unit_test(pack__too_small), cmocka_unit_test(unpack__refuses),
		cmocka_unit_test(resolve__numbers), cmocka_unit_test(resolve__nonsense),
		cmocka_unit_test(text__forms),
	};

	fi_prov_ini();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
