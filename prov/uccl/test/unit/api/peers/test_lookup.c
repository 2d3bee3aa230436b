/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "../world.h"

#include <netinet/in.h>

#include "api/peers/av.h"
#include "api/peers/lookup.h"
#include "progress/thread.h"
#include "../../tests.h"

#define MS UCCL_NS_PER_MS

static char out[64], in[64];

/* A domain whose addresses name places, or endpoints. */
static void open_world(struct world *w, uint32_t format)
{
	struct fi_info *h = world_hints();

	h->addr_format = format;
	h->caps = FI_MSG | FI_SOURCE | FI_DIRECTED_RECV;
	world_open_with(w, h);
}

/* An endpoint at `at`, of which the port may be 0: then it is told. */
static void open_at(struct node *n, struct world *w, struct sockaddr_in *at)
{
	struct fi_cq_attr cq_attr = { .format = FI_CQ_FORMAT_TAGGED };
	struct fi_av_attr av_attr = { .type = FI_AV_TABLE };
	struct fi_info *info = fi_dupinfo(w->info);
	size_t len = sizeof(*at);

	assert_non_null(info);
	free(info->src_addr);
	info->src_addr = malloc(sizeof(*at));
	assert_non_null(info->src_addr);
	memcpy(info->src_addr, at, sizeof(*at));
	info->src_addrlen = sizeof(*at);
	assert_int_equal(fi_endpoint(w->domain, info, &n->ep, NULL), 0);
	fi_freeinfo(info);
	assert_int_equal(fi_cq_open(w->domain, &cq_attr, &n->cq, NULL), 0);
	assert_int_equal(fi_av_open(w->domain, &av_attr, &n->av, NULL), 0);
	assert_int_equal(fi_ep_bind(n->ep, &n->av->fid, 0), 0);
	assert_int_equal(fi_ep_bind(n->ep, &n->cq->fid, FI_TRANSMIT | FI_RECV), 0);
	assert_int_equal(fi_enable(n->ep), 0);
	assert_int_equal(fi_getname(&n->ep->fid, at, &len), 0);
}

static struct sockaddr_in loopback(void)
{
	return (struct sockaddr_in){ .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
}

/* `n` looks at what came for so long. */
static void look(struct node *n, uint64_t ns)
{
	for (uint64_t end = uccl_clock() + ns; uccl_clock() < end;)
		(void)fi_cq_read(n->cq, NULL, 0);
}

static void talk(struct node *client, fi_addr_t to, struct node *server)
{
	assert_int_equal(fi_recv(server->ep, in, sizeof(in), NULL, FI_ADDR_UNSPEC, in), 0);
	assert_int_equal(fi_send(client->ep, out, sizeof(out), NULL, to, out), 0);
	node_expect(server, client, in, FI_RECV | FI_MSG);
	node_expect(client, server, out, FI_SEND | FI_MSG);
}

/* A server at `at`, and a client that has talked to it there: the client's handle of that place. */
static fi_addr_t open_pair(struct world *w, struct node *client, struct node *server, struct sockaddr_in *at)
{
	struct sockaddr_in here = loopback();
	fi_addr_t to;

	open_world(w, FI_SOCKADDR_IN);
	open_at(server, w, at);
	open_at(client, w, &here);
	assert_int_equal(fi_av_insert(client->av, at, 1, &to, 0, NULL), 1);
	talk(client, to, server);
	return to;
}

/*
 * A server goes and comes back at its place. Nothing was under way when it went: so the next call tells of it, once,
 * and the one after that reaches who is there then. PROTOCOL R295
 */
static void place_used_again(void)
{
	struct sockaddr_in at = loopback();
	struct node client, server;
	struct world w;
	fi_addr_t to;

	to = open_pair(&w, &client, &server, &at);
	for (int life = 0; life < 3; life++) {
		node_close(&server);
		look(&client, 20 * MS);
		assert_int_equal(fi_send(client.ep, out, sizeof(out), NULL, to, out), -FI_ECONNABORTED);
		open_at(&server, &w, &at);
		talk(&client, to, &server);
	}
	node_close(&client);
	node_close(&server);
	world_close(&w);
}

TEST(lookup__a_place)
{
	place_used_again();
}

/* A receive that names it ends with the error: that is told, and no call says it again. */
static void receive_tells(void)
{
	struct sockaddr_in at = loopback();
	struct fi_cq_tagged_entry e;
	struct fi_cq_err_entry err;
	struct node client, server;
	struct world w;
	fi_addr_t to;

	to = open_pair(&w, &client, &server, &at);
	/* Posted while it lives, and when it has ended and nothing told of that yet. */
	for (int late = 0; late < 2; late++) {
		if (!late)
			assert_int_equal(fi_recv(client.ep, in, sizeof(in), NULL, to, &err), 0);
		node_close(&server);
		look(&client, 20 * MS);
		if (late)
			assert_int_equal(fi_recv(client.ep, in, sizeof(in), NULL, to, &err), 0);
		assert_int_equal(node_wait(&client, NULL, &e, NULL), -FI_EAVAIL);
		memset(&err, 0, sizeof(err));
		assert_int_equal(fi_cq_readerr(client.cq, &err, 0), 1);
		assert_int_equal(err.err, FI_ECONNABORTED);
		open_at(&server, &w, &at);
		/* A receive from whoever comes there next waits. */
		assert_int_equal(fi_recv(client.ep, in, sizeof(in), NULL, to, &e), 0);
		look(&client, MS);
		assert_int_equal(fi_cancel(&client.ep->fid, &e), 0);
		assert_int_equal(fi_cq_readerr(client.cq, &err, 0), 1);
		assert_int_equal(err.err, FI_ECANCELED);
		talk(&client, to, &server);
	}
	node_close(&client);
	node_close(&server);
	world_close(&w);
}

TEST(lookup__told_by_a_receive)
{
	receive_tells();
}

/* A client asks for a server that has not started: a send ends, and one that follows the start arrives. */
static void server_starts_late(void)
{
	struct iovec iov = { .iov_base = out, .iov_len = sizeof(out) };
	struct fi_msg msg = { .msg_iov = &iov, .iov_count = 1 };
	struct fi_cq_err_entry err = { .err = 0 };
	struct sockaddr_in at = loopback(), here = loopback();
	struct fi_cq_tagged_entry e;
	struct node client, server;
	char text[64], want[64];
	size_t len = sizeof(text);
	struct world w;
	fi_addr_t to;

	open_world(&w, FI_SOCKADDR_IN);
	open_at(&server, &w, &at);
	node_close(&server);
	open_at(&client, &w, &here);
	assert_int_equal(fi_av_insert(client.av, &at, 1, &to, 0, NULL), 1);
	snprintf(want, sizeof(want), "fi_sockaddr_in://127.0.0.1:%d", ntohs(at.sin_port));
	assert_string_equal(fi_av_straddr(client.av, &at, text, &len), want);
	msg.addr = to;
	assert_int_equal(fi_sendmsg(client.ep, &msg, FI_DELIVERY_COMPLETE), 0);
	assert_int_equal(node_wait(&client, NULL, &e, NULL), -FI_EAVAIL);
	assert_int_equal(fi_cq_readerr(client.cq, &err, 0), 1);
	assert_int_equal(err.err, FI_EHOSTUNREACH);
	open_at(&server, &w, &at);
	talk(&client, to, &server);
	node_close(&client);
	node_close(&server);
	world_close(&w);
}

/* Peers end, start late and come back in the same way under each name that the provider can borrow. */
TEST(lookup__under_each_name)
{
	static const char *const names[] = { "tcp", "tcp;ofi_rxm", "verbs;ofi_rxm", "sockets", "efa", "cxi" };

	setenv("FI_UCCL_PEER_TIMEOUT", "2,connect=1", 1);
	for (size_t i = 0; i < uccl_array_len(names); i++) {
		setenv("FI_PROVIDER", names[i], 1);
		setenv("FI_UCCL_ALIAS", names[i], 1);
		server_starts_late();
		place_used_again();
		receive_tells();
	}
	unsetenv("FI_UCCL_PEER_TIMEOUT");
	unsetenv("FI_UCCL_ALIAS");
	unsetenv("FI_PROVIDER");
	fi_prov_ini();
}

/* An address that names an endpoint has ended with that, for good. */
TEST(lookup__an_endpoint)
{
	struct node client, server;
	struct world w;
	fi_addr_t to;

	open_world(&w, FI_FORMAT_UNSPEC);
	node_open(&server, &w);
	node_open(&client, &w);
	to = node_insert(&client, &server);
	talk(&client, to, &server);
	node_close(&server);
	look(&client, 20 * MS);
	for (int i = 0; i < 3; i++)
		assert_int_equal(fi_send(client.ep, out, sizeof(out), NULL, to, out), -FI_ECONNABORTED);
	assert_int_equal(fi_av_remove(client.av, &to, 1, 0), 0);
	assert_int_equal(fi_send(client.ep, out, sizeof(out), NULL, to, out), -FI_EINVAL);
	to = node_insert(&client, &server);
	assert_int_equal(fi_send(client.ep, out, sizeof(out), NULL, to, out), -FI_ECONNABORTED);
	node_close(&client);
	world_close(&w);
}

/* These two hold the endpoint's lock, as each call of the program does. */
static int lookup(struct uccl_ep *ep, fi_addr_t to)
{
	struct uccl_peer *peer;
	int rc;

	uccl_driver_lock(&ep->driver);
	rc = uccl_ep_peer_lookup(ep, to, true, &peer);
	uccl_driver_unlock(&ep->driver);
	return rc;
}

static void forget(struct uccl_ep *ep)
{
	uccl_driver_lock(&ep->driver);
	uccl_ep_forget(ep);
	uccl_driver_unlock(&ep->driver);
}

/* A removed handle lets go of its peer, and of no other; too many removals at once let go of all. */
TEST(forget__what_was_removed)
{
	struct sockaddr_in at = loopback(), here = loopback();
	struct uccl_peer *keep;
	struct node client;
	fi_addr_t to[100];
	struct world w;
	struct uccl_ep *ep;

	open_world(&w, FI_SOCKADDR_IN);
	open_at(&client, &w, &here);
	ep = uccl_ep_fid_of(&client.ep->fid)->ep;
	for (int i = 0; i < 100; i++) {
		at.sin_port = htons((uint16_t)(1000 + i));
		assert_int_equal(fi_av_insert(client.av, &at, 1, &to[i], 0, NULL), 1);
		assert_int_equal(lookup(ep, to[i]), 0);
	}
	keep = ep->cache.peers[0];
	assert_int_equal(fi_av_remove(client.av, &to[98], 2, 0), 0);
	forget(ep);
	assert_null(ep->cache.peers[98]);
	assert_null(ep->cache.peers[99]);
	for (int i = 0; i < 98; i++)
		assert_non_null(ep->cache.peers[i]);
	assert_ptr_equal(ep->cache.peers[0], keep);
	assert_true(uccl_peer_user(keep) == to[0]);
	/* More than are remembered one by one. */
	assert_int_equal(fi_av_remove(client.av, &to[1], 97, 0), 0);
	forget(ep);
	for (int i = 0; i < 100; i++)
		assert_null(ep->cache.peers[i]);
	node_close(&client);
	world_close(&w);
}

TESTS_MAIN
