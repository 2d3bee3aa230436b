/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "../world.h"

#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

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

/* The warning that this value of FI_PROVIDER causes; the empty text: none. */
static const char *filter_warning(const char *filter, const char *alias)
{
	if (filter)
		setenv("FI_PROVIDER", filter, 1);
	world_listen(FI_LOG_WARN);
	assert_true(uccl_persona_begin(alias));
	unsetenv("FI_PROVIDER");
	return world_heard();
}

static bool hidden(const char *filter, const char *alias)
{
	return strstr(filter_warning(filter, alias), "leaves out");
}

TEST(persona__both_variables)
{
	assert_non_null(strstr(filter_warning(NULL, "tcp"), "set FI_PROVIDER=tcp, too"));
	assert_non_null(strstr(filter_warning("", "efa"), "set FI_PROVIDER=efa, too"));
	assert_string_equal(filter_warning("tcp", "tcp"), "");
	assert_string_equal(filter_warning(NULL, ""), "");
	become_uccl();
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

/* A socket of a genuine tcp endpoint, which listens; its address. */
static int listen_tcp(struct sockaddr_in *at)
{
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	socklen_t len = sizeof(*at);

	*at = (struct sockaddr_in){ .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	assert_int_equal(bind(fd, (struct sockaddr *)at, len), 0);
	assert_int_equal(listen(fd, 4), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)at, &len), 0);
	return fd;
}

/* Open an endpoint that looks like one of tcp; its address. */
static void tcp_open(struct world *w, struct node *n, struct sockaddr_in *at)
{
	struct fi_cq_attr cq = { .format = FI_CQ_FORMAT_TAGGED };
	struct fi_av_attr av = { .type = FI_AV_TABLE };
	struct fi_info *hints = world_hints();
	size_t len = sizeof(*at);

	hints->addr_format = FI_SOCKADDR_IN;
	hints->caps = FI_MSG;
	hints->tx_attr->op_flags = FI_DELIVERY_COMPLETE;
	setenv("FI_UCCL_ALIAS", "tcp", 1);
	world_open_with(w, hints);
	assert_int_equal(w->info->ep_attr->protocol, FI_PROTO_XNET);
	assert_int_equal(fi_endpoint(w->domain, w->info, &n->ep, NULL), 0);
	assert_int_equal(fi_cq_open(w->domain, &cq, &n->cq, NULL), 0);
	assert_int_equal(fi_av_open(w->domain, &av, &n->av, NULL), 0);
	assert_int_equal(fi_ep_bind(n->ep, &n->av->fid, 0), 0);
	assert_int_equal(fi_ep_bind(n->ep, &n->cq->fid, FI_TRANSMIT | FI_RECV), 0);
	assert_int_equal(fi_enable(n->ep), 0);
	assert_int_equal(fi_getname(&n->ep->fid, at, &len), 0);
	assert_int_equal(len, sizeof(*at));
}

/* What is sent to a genuine endpoint ends with an error, and without a connection there. */
TEST(persona__genuine_peer)
{
	uint64_t end = uccl_clock() + PATIENCE_NS;
	struct fi_cq_err_entry err = { 0 };
	struct fi_cq_tagged_entry entry;
	struct sockaddr_in own, peer;
	struct pollfd there = { .fd = listen_tcp(&peer), .events = POLLIN };
	struct world w;
	struct node n;
	fi_addr_t to;
	ssize_t rc;

	setenv("FI_UCCL_PEER_TIMEOUT", "2,connect=1", 1);
	tcp_open(&w, &n, &own);
	assert_int_equal(fi_av_insert(n.av, &peer, 1, &to, 0, NULL), 1);
	assert_int_equal(fi_send(n.ep, "hello", 5, NULL, to, &n), 0);
	while ((rc = fi_cq_read(n.cq, &entry, 1)) == -FI_EAGAIN && uccl_clock() < end)
		;
	assert_int_equal(rc, -FI_EAVAIL);
	assert_int_equal(fi_cq_readerr(n.cq, &err, 0), 1);
	assert_true(err.err > 0);
	assert_ptr_equal(err.op_context, &n);
	assert_int_equal(poll(&there, 1, 0), 0);
	node_close(&n);
	world_close(&w);
	close(there.fd);
	unsetenv("FI_UCCL_PEER_TIMEOUT");
	become_uccl();
}

/* A genuine endpoint that connects is refused, or gets an end when it speaks. */
TEST(persona__genuine_connection)
{
	uint64_t end = uccl_clock() + PATIENCE_NS;
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	struct fi_cq_tagged_entry entry;
	struct sockaddr_in own;
	char hello[64] = { 1 };
	struct world w;
	struct node n;
	ssize_t rc = 0;

	tcp_open(&w, &n, &own);
	if (!connect(fd, (struct sockaddr *)&own, sizeof(own))) {
		send(fd, hello, sizeof(hello), MSG_NOSIGNAL);
		do {
			assert_int_equal(fi_cq_read(n.cq, &entry, 1), -FI_EAGAIN);
			rc = recv(fd, hello, sizeof(hello), MSG_DONTWAIT);
		} while ((rc > 0 || (rc < 0 && errno == EAGAIN)) && uccl_clock() < end);
		assert_true(rc == 0 || (rc < 0 && errno == ECONNRESET));
	} else {
		assert_int_equal(errno, ECONNREFUSED);
	}
	close(fd);
	node_close(&n);
	world_close(&w);
	become_uccl();
}

TESTS_MAIN
