/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "../world.h"

#include "api/offer/persona.h"
#include "../../tests.h"

#define EFA(n) (-(0xefa << 16) + (n))

/* What programs know each provider by, and a protocol that belongs to another one. */
static const struct look {
	const char *alias, *name, *prov_name;
	uint32_t protocol, foreign, format;
	const char *domain;
} looks[] = {
	{ "tcp", "tcp", NULL, FI_PROTO_XNET, FI_PROTO_EFA, FI_SOCKADDR_IN, "lo" },
	{ "tcp;ofi_rxm", "ofi_rxm", "tcp", FI_PROTO_RXM, FI_PROTO_XNET, FI_SOCKADDR_IN, "lo" },
	{ "verbs;ofi_rxm", "ofi_rxm", "verbs", FI_PROTO_RXM, FI_PROTO_RXM_TCP, FI_SOCKADDR_IN, "lo" },
	{ "sockets", "sockets", NULL, FI_PROTO_SOCK_TCP, FI_PROTO_XNET, FI_SOCKADDR_IN, "lo" },
	{ "efa", "efa", NULL, FI_PROTO_EFA, FI_PROTO_CXI, FI_ADDR_UCCL, "lo-rdm" },
	{ "cxi", "cxi", NULL, FI_PROTO_CXI, FI_PROTO_EFA, FI_ADDR_UCCL, "lo-rdm" },
	{ "another", "another", NULL, FI_PROTO_UCCL, FI_PROTO_XNET, FI_ADDR_UCCL, "lo" },
};

static struct fi_provider *become(const char *alias)
{
	setenv("FI_UCCL_ALIAS", alias, 1);
	return fi_prov_ini();
}

static void become_uccl(void)
{
	unsetenv("FI_UCCL_ALIAS");
	assert_string_equal(fi_prov_ini()->name, "uccl");
}

/* fi_getinfo on loopback with this protocol and name of a domain. */
static int ask(uint32_t protocol, const char *domain, struct fi_info **info)
{
	struct fi_info *h = world_hints();
	int rc;

	h->ep_attr->protocol = protocol;
	free(h->domain_attr->name);
	h->domain_attr->name = strdup(domain);
	rc = uccl_prov.getinfo(API, "127.0.0.1", NULL, FI_SOURCE, h, info);
	fi_freeinfo(h);
	return rc;
}

static void assert_protocol(uint32_t asked, uint32_t answer)
{
	struct fi_info *info;

	assert_int_equal(ask(asked, "lo", &info), 0);
	assert_int_equal(info->ep_attr->protocol, answer);
	fi_freeinfo(info);
}

TEST(persona__looks)
{
	for (size_t i = 0; i < uccl_array_len(looks); i++) {
		const struct look *l = &looks[i];
		struct fi_info *info;

		assert_string_equal(become(l->alias)->name, l->name);
		assert_int_equal(ask(FI_PROTO_UNSPEC, l->domain, &info), 0);
		assert_int_equal(info->addr_format, l->format);
		assert_string_equal(info->domain_attr->name, l->domain);
		if (l->prov_name)
			assert_string_equal(info->fabric_attr->prov_name, l->prov_name);
		else
			assert_null(info->fabric_attr->prov_name);
		fi_freeinfo(info);
		assert_protocol(FI_PROTO_UNSPEC, l->protocol);
		assert_protocol(l->protocol, l->protocol);
		assert_protocol(FI_PROTO_UCCL, FI_PROTO_UCCL);
		assert_protocol(FI_PROTO_UCCL_1_0, FI_PROTO_UCCL_1_0);
		assert_int_equal(ask(l->foreign, "lo", &info), -FI_ENODATA);
	}
	become_uccl();
}

TEST(persona__fits_into_an_int)
{
	assert_true((int)FI_PROTO_UCCL > FI_PROTO_UNSPEC);
	assert_protocol(FI_PROTO_UNSPEC, FI_PROTO_UCCL);
}

/* The library compares the name in the answer with the name in the hints: it must be the one that was asked for. */
TEST(persona__domain_names)
{
	struct fi_info *info;
	struct world w;

	become("efa");
	assert_int_equal(ask(FI_PROTO_UNSPEC, "lo", &info), 0);
	assert_string_equal(info->domain_attr->name, "lo");
	fi_freeinfo(info);
	assert_int_equal(ask(FI_PROTO_UNSPEC, "lo-rdm-rdm", &info), -FI_ENODATA);
	assert_int_equal(ask(FI_PROTO_UNSPEC, "-rdm", &info), -FI_ENODATA);
	world_open_with(&w, NULL);
	world_close(&w);
	become_uccl();
	assert_int_equal(ask(FI_PROTO_UNSPEC, "lo-rdm", &info), -FI_ENODATA);
}

TEST(persona__refused)
{
	static const char *const bad[] = { "shm", "udp;ofi_rxd", "tcp;", ";" };

	for (size_t i = 0; i < uccl_array_len(bad); i++) {
		world_listen(FI_LOG_WARN);
		assert_false(uccl_persona_begin(bad[i]));
		assert_non_null(strstr(world_heard(), bad[i]));
		assert_string_equal(uccl_persona_name(), "uccl");
	}
	become_uccl();
}

/* A layered provider is also asked for what other providers of its layer would carry. */
TEST(persona__layers)
{
	assert_true(uccl_persona_begin("tcp;ofi_rxm"));
	assert_true(uccl_persona_wanted(NULL));
	assert_true(uccl_persona_wanted("tcp;ofi_rxm"));
	assert_true(uccl_persona_wanted("TCP"));
	assert_true(uccl_persona_wanted("ofi_rxm"));
	assert_true(uccl_persona_wanted("tcp;^shm"));
	assert_false(uccl_persona_wanted("verbs;ofi_rxm"));
	assert_false(uccl_persona_wanted("tcpx"));
	assert_true(uccl_persona_begin("tcp"));
	assert_true(uccl_persona_wanted("tcp"));
	become_uccl();
}

static bool hidden(const char *filter, const char *alias)
{
	bool warned;

	setenv("FI_PROVIDER", filter, 1);
	world_listen(FI_LOG_WARN);
	assert_true(uccl_persona_begin(alias));
	warned = strstr(world_heard(), "leaves out");
	unsetenv("FI_PROVIDER");
	return warned;
}

TEST(persona__hidden_by_the_filter)
{
	assert_true(hidden("uccl", "tcp"));
	assert_true(hidden("^tcp", "tcp"));
	assert_true(hidden("tcp;ofi_rxm", "tcp"));
	assert_true(hidden("uccl,verbs", "tcp;ofi_rxm"));
	assert_false(hidden("uccl,tcp", "tcp"));
	assert_false(hidden("^uccl", "tcp"));
	assert_false(hidden("tcp;ofi_rxm", "tcp;ofi_rxm"));
	assert_false(hidden("tcp", "tcp;ofi_rxm"));
	assert_false(hidden("", "tcp"));
	become_uccl();
}

static bool told_at_the_end(const char *alias, bool asked)
{
	assert_true(uccl_persona_begin(alias));
	if (asked)
		uccl_persona_wanted(NULL);
	world_listen(FI_LOG_WARN);
	uccl_persona_end();
	return strstr(world_heard(), "had no effect");
}

TEST(persona__never_asked)
{
	assert_true(told_at_the_end("tcp", false));
	assert_false(told_at_the_end("tcp", true));
	assert_false(told_at_the_end("", false));
	become_uccl();
}

static int set_bool(int name, bool value)
{
	return uccl_persona_setopt(name, &value, sizeof(value));
}

TEST(persona__options)
{
	size_t retries = 7;
	bool value = false;

	assert_int_equal(uccl_persona_setopt(EFA(0), &retries, sizeof(retries)), -FI_ENOPROTOOPT);
	assert_int_equal(uccl_persona_getopt(EFA(2), &value), -FI_ENOPROTOOPT);
	assert_true(uccl_persona_begin("efa"));
	assert_int_equal(uccl_persona_setopt(EFA(0), &retries, sizeof(retries)), 0);
	assert_int_equal(uccl_persona_setopt(EFA(0), &retries, 1), -FI_EINVAL);
	retries = 3;
	assert_int_equal(uccl_persona_setopt(EFA(0), &retries, sizeof(retries)), -FI_EOPNOTSUPP);
	for (int n = 5; n <= 6; n++) {
		assert_int_equal(set_bool(EFA(n), false), 0);
		assert_int_equal(set_bool(EFA(n), true), -FI_EOPNOTSUPP);
	}
	assert_int_equal(set_bool(EFA(7), false), 0);
	assert_int_equal(set_bool(EFA(7), true), 0);
	assert_int_equal(set_bool(EFA(8), false), 0);
	assert_int_equal(set_bool(EFA(8), true), -FI_EOPNOTSUPP);
	assert_int_equal(set_bool(EFA(1), true), -FI_ENOPROTOOPT);
	assert_int_equal(set_bool(EFA(4), true), -FI_ENOPROTOOPT);
	assert_int_equal(set_bool(0, true), -FI_ENOPROTOOPT);
	for (int n = 1; n <= 3; n++) {
		value = false;
		assert_int_equal(uccl_persona_getopt(EFA(n), &value), 0);
		assert_true(value);
	}
	assert_int_equal(uccl_persona_getopt(EFA(0), &value), -FI_ENOPROTOOPT);
	become_uccl();
}

TESTS_MAIN
