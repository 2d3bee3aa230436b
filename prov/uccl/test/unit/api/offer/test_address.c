/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "../world.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include "api/offer/address.h"
#include "../../tests.h"

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

TEST(format__which)
{
	static const uint32_t socks[] = { FI_SOCKADDR, FI_SOCKADDR_IN, FI_SOCKADDR_IN6 };
	struct uccl_addr a = v4("192.0.2.1", 1), b = v6("2001:db8::1", 1);

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

static const char *filter;

/* As libfabric 2.7 answers; earlier ones know no such variable. */
static int get_filter(struct fi_provider *prov, const char *name, void *value)
{
	assert_null(prov);
	assert_string_equal(name, "addr_format");
	*(const char **)value = filter;
	return filter ? 0 : -FI_ENODATA;
}

TEST(format_default__filter_of_the_library)
{
	int (*usual)(struct fi_provider *, const char *, void *) = uccl_lib.param_get;

	assert_int_equal(uccl_address_format_default(), FI_ADDR_UCCL);
	uccl_lib.param_get = get_filter;
	filter = NULL;
	assert_int_equal(uccl_address_format_default(), FI_ADDR_UCCL);
	filter = "FI_SOCKADDR_IN";
	assert_int_equal(uccl_address_format_default(), FI_SOCKADDR_IN);
	filter = "fi_sockaddr_in6";
	assert_int_equal(uccl_address_format_default(), FI_SOCKADDR_IN6);
	filter = "FI_SOCKADDR";
	assert_int_equal(uccl_address_format_default(), FI_SOCKADDR);
	filter = "FI_ADDR_STR";
	assert_int_equal(uccl_address_format_default(), FI_ADDR_UCCL);
	uccl_lib.param_get = usual;
}

/* There and back; only the provider's own form carries incarnation and key. */
TEST(pack__there_and_back)
{
	static const uint32_t formats[] = { FI_ADDR_UCCL, FI_SOCKADDR, FI_SOCKADDR_IN, FI_SOCKADDR_IN6 };
	const struct uccl_addr in[] = { v4("192.0.2.1", 7000), v6("2001:db8::1", 7001), v4("127.0.0.1", 0) };

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

TEST(pack__too_small)
{
	struct uccl_addr a = v4("192.0.2.1", 7000);
	uint8_t whole[56], part[57];
	size_t len = sizeof(whole);

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

TEST(unpack__refuses)
{
	struct uccl_addr a = v4("192.0.2.1", 7000), out;
	uint8_t buf[56], flip[56];
	struct sockaddr_in6 sa = { .sin6_family = AF_INET6, .sin6_port = 1 };
	size_t len = sizeof(buf), used;

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

TEST(resolve__numbers)
{
	struct uccl_addr a = v4("192.0.2.1", 7000), b = v6("2001:db8::1", 0), lo = v4("127.0.0.1", 9);
	struct uccl_nic_addr out[8];

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

TEST(resolve__nonsense)
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

	for (size_t i = 0; i < uccl_array_len(bad); i++)
		assert_int_equal(uccl_address_resolve(bad[i].node, bad[i].service, bad[i].format, true, false, out, 8),
				 -FI_ENODATA);
}

TEST(text__forms)
{
	struct uccl_addr a = v4("192.0.2.1", 7000), b = v6("2001:db8::1", 65535), qp = v6("fe80::1", 0);
	char buf[UCCL_ADDRESS_TEXT], small[8];

	assert_int_equal(uccl_address_text(&a, buf, sizeof(buf)), 46);
	assert_string_equal(buf, "fi_addr_uccl://192.0.2.1:7000/0000000000000123");
	uccl_address_text(&b, buf, sizeof(buf));
	assert_string_equal(buf, "fi_addr_uccl://[2001:db8::1]:65535/0000000000000456");
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

/* As ofi_straddr() of libfabric 1.17 and 2.x writes them: programs parse and compare these. */
TEST(straddr__formats)
{
	const struct {
		uint32_t format;
		struct uccl_addr a;
		const char *text;
	} good[] = {
		{ FI_SOCKADDR_IN, v4("127.0.0.1", 4711), "fi_sockaddr_in://127.0.0.1:4711" },
		{ FI_SOCKADDR, v4("192.0.2.1", 0), "fi_sockaddr_in://192.0.2.1:0" },
		{ FI_SOCKADDR, v6("2001:db8::1", 65535), "fi_sockaddr_in6://[2001:db8::1]:65535" },
		{ FI_SOCKADDR_IN6, v6("::1", 1), "fi_sockaddr_in6://[::1]:1" },
		{ FI_SOCKADDR_IN6, v4("192.0.2.1", 7000), "fi_sockaddr_in6://[::ffff:192.0.2.1]:7000" },
		{ FI_ADDR_UCCL, v4("192.0.2.1", 7000), "fi_addr_uccl://192.0.2.1:7000/0000000000000123" },
	};
	struct sockaddr_in other = { .sin_family = AF_UNIX };
	char buf[UCCL_ADDRESS_TEXT], cut[UCCL_ADDRESS_TEXT];
	uint8_t raw[64] = { 0 };

	for (size_t i = 0; i < uccl_array_len(good); i++) {
		size_t len = sizeof(raw), want = strlen(good[i].text);

		assert_int_equal(uccl_address_pack(good[i].format, &good[i].a, raw, &len), 0);
		assert_int_equal(uccl_address_straddr(good[i].format, raw, buf, sizeof(buf)), want);
		assert_string_equal(buf, good[i].text);
		/* Cut to any room, always with an end; the whole length is told. */
		for (size_t room = 0; room <= want; room++) {
			memset(cut, 0xaa, sizeof(cut));
			assert_int_equal(uccl_address_straddr(good[i].format, raw, room ? cut : NULL, room), want);
			assert_true(!room || (!cut[room - 1] && !memcmp(cut, buf, room - 1)));
			assert_int_equal((uint8_t)cut[room], 0xaa);
		}
	}
	uccl_address_straddr(FI_SOCKADDR, &other, buf, sizeof(buf));
	assert_string_equal(buf, "fi_sockaddr://(not an address)");
	memset(raw, 0, sizeof(raw));
	uccl_address_straddr(FI_ADDR_UCCL, raw, buf, sizeof(buf));
	assert_string_equal(buf, "fi_addr_uccl://(not an address)");
}

/* Texts of addresses, as FI_ADDR_STR in fi_getinfo(3): what straddr() writes is read. */
TEST(resolve__texts)
{
	static const struct {
		const char *text;
		uint32_t format;
	} bad[] = {
		{ "fi_sockaddr_in://[::1]:1", FI_SOCKADDR }, { "fi_sockaddr_in6://127.0.0.1:1", FI_SOCKADDR },
		{ "fi_sockaddr_in6://[::1]:1", FI_SOCKADDR_IN }, { "fi_sockaddr_in://127.0.0.1:1", FI_SOCKADDR_IN6 },
		{ "fi_sockaddr_in://127.0.0.1:", FI_SOCKADDR }, { "fi_sockaddr_in://127.0.0.1:70000", FI_SOCKADDR },
		{ "fi_sockaddr_in6://[::1", FI_SOCKADDR }, { "fi_sockaddr_in6://[::1]7", FI_SOCKADDR },
		{ "fi_sockaddr://127.0.0.1:1?qos=3", FI_SOCKADDR }, { "fi_sockaddr://127.0.0.1:1/x", FI_SOCKADDR },
		{ "fi_sockaddr://127.0.0.1/x", FI_SOCKADDR }, { "fi_sockaddr://", FI_SOCKADDR },
		{ "fi_addr_uccl://127.0.0.1:1/0123456789abcdef", FI_ADDR_UCCL }, { "http://127.0.0.1:1", FI_SOCKADDR },
		{ "fi_sockaddr_i://127.0.0.1:1", FI_SOCKADDR }, { "://127.0.0.1:1", FI_SOCKADDR },
	};
	struct uccl_addr in[] = { v4("192.0.2.1", 7000), v6("2001:db8::1", 65535) }, lo = v4("127.0.0.1", 9);
	static const uint32_t formats[] = { FI_SOCKADDR, FI_SOCKADDR_IN, FI_SOCKADDR_IN6 };
	char text[UCCL_ADDRESS_TEXT], long_one[2048];
	struct uccl_nic_addr out[8];
	uint8_t raw[64];

	for (size_t i = 0; i < uccl_array_len(in); i++) {
		for (size_t f = 0; f < uccl_array_len(formats); f++) {
			size_t len = sizeof(raw);

			if (uccl_address_pack(formats[f], &in[i], raw, &len))
				continue;
			uccl_address_straddr(formats[f], raw, text, sizeof(text));
			assert_int_equal(uccl_address_resolve(text, NULL, formats[f], true, false, out, 8), 1);
			assert_true(uccl_nic_addr_equal(&out[0], &in[i].nic));
			assert_int_equal(uccl_address_resolve(text, "7", formats[f], true, false, out, 8), -FI_ENODATA);
		}
	}
	assert_int_equal(uccl_address_resolve("fi_sockaddr://127.0.0.1:9", NULL, FI_ADDR_UCCL, true, false, out, 8), 1);
	assert_true(uccl_nic_addr_equal(&out[0], &lo.nic));
	assert_int_equal(uccl_address_resolve("fi_sockaddr_in://:9", NULL, FI_SOCKADDR, true, false, out, 8), 1);
	assert_true(uccl_nic_addr_equal(&out[0], &lo.nic));
	assert_int_equal(uccl_address_resolve("fi_sockaddr_in://127.0.0.1", NULL, FI_SOCKADDR, true, false, out, 8), 1);
	assert_int_equal(out[0].port, 0);
	for (size_t i = 0; i < uccl_array_len(bad); i++)
		assert_int_equal(uccl_address_resolve(bad[i].text, NULL, bad[i].format, true, false, out, 8),
				 -FI_ENODATA);
	for (int i = 0; i < 2; i++) {
		memset(long_one, '1', sizeof(long_one));
		strcpy(long_one + sizeof(long_one) - 3, ":1");
		memcpy(long_one, i ? "fi_sockaddr://1:" : "fi_sockaddr://", i ? 16 : 14);
		assert_int_equal(uccl_address_resolve(long_one, NULL, FI_SOCKADDR, true, false, out, 8), -FI_ENODATA);
	}
}

int main(void)
{
	fi_prov_ini();
	return tests_run(NULL, NULL);
}
