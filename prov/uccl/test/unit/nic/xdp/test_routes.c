/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Routes and neighbours as the kernel has them (ways.c, netlink.c). Without privileges nothing can be said here. */
#include "nic/xdp/routes.h"

#include "../../tests.h"

#include <arpa/inet.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <rdma/fi_errno.h>
#include <string.h>

#include "base/units.h"
#include "nic/netlink.h"
#include "../two_hosts.h"

static bool have_hosts;
static uint64_t now = UCCL_NS_PER_S;

static struct uccl_nic_addr at(const char *text)
{
	struct uccl_nic_addr a = {.port = 4791};

	if (inet_pton(AF_INET6, text, a.ip) != 1) {
		a.ip[10] = a.ip[11] = 0xff;
		assert_int_equal(inet_pton(AF_INET, text, a.ip + 12), 1);
	}
	return a;
}

static struct uccl_routes *open_at(const char *from)
{
	struct uccl_nic_addr a = at(from);
	struct uccl_routes *w = NULL;

	assert_true(on_host(0));
	assert_int_equal(uccl_routes_open((int)if_nametoindex("va"), "va", &a, &w), 0);
	return w;
}

static const struct uccl_frame_route *find(struct uccl_routes *w, const char *to)
{
	struct uccl_nic_addr a = at(to);

	now += UCCL_NS_PER_MS;
	return uccl_routes_find(w, &a, now);
}

static bool ours(struct uccl_routes *w, const char *to)
{
	struct uccl_nic_addr a = at(to);

	return uccl_routes_ours(w, &a);
}

static int setup(void **state)
{
	if (!have_hosts)
		return 0;
	return host_run(0, "ip route flush dev va proto static; ip neigh flush dev va nud all; "
			   "ip neigh replace 10.88.0.2 lladdr 02:00:00:00:00:02 dev va nud permanent; "
			   "ip neigh replace fd88::2 lladdr 02:00:00:00:06:02 dev va nud permanent") ?
		       0 :
		       -1;
}

#define NEED_HOSTS()                                                                                                   \
	do {                                                                                                           \
		(void)state;                                                                                           \
		if (!have_hosts)                                                                                       \
			skip();                                                                                        \
	} while (0)

TEST_IN(find__neighbour, setup, NULL)
{
	struct uccl_nic_addr from = at("10.88.0.1");
	const struct uccl_frame_route *route;
	struct uccl_routes *w;

	NEED_HOSTS();
	w = open_at("10.88.0.1");
	route = find(w, "10.88.0.2");
	assert_non_null(route);
	assert_memory_equal(route->to_mac, "\2\0\0\0\0\2", 6);
	assert_memory_equal(route->from.ip, from.ip, 16);
	assert_int_not_equal(route->from_mac[0] | route->from_mac[5], 0);
	uccl_routes_close(w);
	w = open_at("fd88::1");
	route = find(w, "fd88::2");
	assert_non_null(route);
	assert_memory_equal(route->to_mac, "\2\0\0\0\6\2", 6);
	uccl_routes_close(w);
}

/* An IPv4 place that tells its second rail is no other place for it. PROTOCOL R379 */
TEST_IN(find__second_rail, setup, NULL)
{
	struct uccl_nic_addr to = at("10.88.0.2");
	const struct uccl_frame_route *route;
	struct uccl_routes *w;

	NEED_HOSTS();
	w = open_at("10.88.0.1");
	route = find(w, "10.88.0.2");
	assert_non_null(route);
	to.scope = 0x0200590a;
	assert_ptr_equal(uccl_routes_find(w, &to, now), route);
	assert_true(uccl_routes_ours(w, &to));
	uccl_routes_close(w);
}

/* This host itself, another interface, nobody there yet, another family, a multicast group. */
TEST_IN(find__by_socket, setup, NULL)
{
	static const char *const others[] = {"10.88.0.1", "127.0.0.1", "10.88.0.9",
					     "192.0.2.1", "fd88::2",   "224.0.0.1"};
	struct uccl_routes *w;

	NEED_HOSTS();
	w = open_at("10.88.0.1");
	for (size_t i = 0; i < uccl_array_len(others); i++)
		assert_null(find(w, others[i]));
	assert_true(ours(w, "10.88.0.2"));
	assert_true(ours(w, "10.88.0.9"));
	assert_false(ours(w, "10.88.0.1"));
	assert_false(ours(w, "192.0.2.1"));
	uccl_routes_close(w);
}

TEST_IN(find__router, setup, NULL)
{
	const struct uccl_frame_route *route;
	struct uccl_routes *w;

	NEED_HOSTS();
	assert_true(host_run(0, "ip route add 192.0.2.0/24 via 10.88.0.2 proto static && "
				"ip -6 route add 2001:db8::/64 via fd88::2 proto static"));
	w = open_at("10.88.0.1");
	route = find(w, "192.0.2.77");
	assert_non_null(route);
	assert_memory_equal(route->to_mac, "\2\0\0\0\0\2", 6);
	assert_true(ours(w, "192.0.2.77"));
	uccl_routes_close(w);
	w = open_at("fd88::1");
	route = find(w, "2001:db8::5");
	assert_non_null(route);
	assert_memory_equal(route->to_mac, "\2\0\0\0\6\2", 6);
	uccl_routes_close(w);
}

/* One packet every other second goes by a socket, and nothing before. */
TEST_IN(find__detour, setup, NULL)
{
	struct uccl_routes *w;
	int detours = 0, first = 0;

	NEED_HOSTS();
	w = open_at("10.88.0.1");
	for (int ms = 0; ms < 10000; ms++)
		if (!find(w, "10.88.0.2")) {
			detours++;
			first = first ? first : ms;
		}
	assert_in_range(detours, 4, 5);
	assert_int_equal(first, 2000);
	uccl_routes_close(w);
}

/* Whoever comes later is found soon. */
TEST_IN(find__later, setup, NULL)
{
	const struct uccl_frame_route *route = NULL;
	struct uccl_routes *w;

	NEED_HOSTS();
	w = open_at("10.88.0.1");
	assert_null(find(w, "10.88.0.9"));
	assert_true(host_run(0, "ip neigh replace 10.88.0.9 lladdr 02:00:00:00:00:09 dev va nud permanent"));
	for (int ms = 0; ms < 10 && !route; ms++)
		route = find(w, "10.88.0.9");
	assert_non_null(route);
	assert_memory_equal(route->to_mac, "\2\0\0\0\0\11", 6);
	uccl_routes_close(w);
}

/* Another card, another router, no route: known at once, and no packet takes a socket because of news. */
TEST_IN(poll__changes, setup, NULL)
{
	const struct uccl_frame_route *route;
	struct uccl_routes *w;

	NEED_HOSTS();
	assert_true(host_run(0, "ip neigh replace 10.88.0.3 lladdr 02:00:00:00:00:03 dev va nud permanent && "
				"ip route add 192.0.2.0/24 via 10.88.0.2 proto static"));
	w = open_at("10.88.0.1");
	assert_non_null(find(w, "10.88.0.2"));
	assert_non_null(find(w, "192.0.2.7"));
	assert_true(host_run(0, "ip neigh replace 10.88.0.2 lladdr 02:00:00:00:07:07 dev va nud permanent"));
	route = find(w, "10.88.0.2");
	assert_memory_equal(route->to_mac, "\2\0\0\0\0\2", 6);
	uccl_routes_poll(w);
	route = find(w, "10.88.0.2");
	assert_non_null(route);
	assert_memory_equal(route->to_mac, "\2\0\0\0\7\7", 6);
	route = find(w, "192.0.2.7");
	assert_non_null(route);
	assert_memory_equal(route->to_mac, "\2\0\0\0\7\7", 6);
	assert_true(host_run(0, "ip route replace 192.0.2.0/24 via 10.88.0.3 proto static"));
	uccl_routes_poll(w);
	route = find(w, "192.0.2.7");
	assert_non_null(route);
	assert_memory_equal(route->to_mac, "\2\0\0\0\0\3", 6);
	assert_true(host_run(0, "ip route del 192.0.2.0/24"));
	uccl_routes_poll(w);
	assert_null(find(w, "192.0.2.7"));
	assert_true(host_run(0, "ip link set va address 02:00:00:00:aa:aa && "
				"ip neigh replace 10.88.0.2 lladdr 02:00:00:00:07:07 dev va nud permanent"));
	uccl_routes_poll(w);
	route = find(w, "10.88.0.2");
	assert_non_null(route);
	assert_memory_equal(route->from_mac, "\2\0\0\0\252\252", 6);
	uccl_routes_close(w);
}

/* More places at a time than there is room for: they go by sockets, the others not. */
TEST_IN(find__many, setup, NULL)
{
	struct uccl_routes *w;
	char text[32];
	int frames = 0, again = 0;

	NEED_HOSTS();
	assert_true(host_run(0, "ip route add 198.18.0.0/15 via 10.88.0.2 proto static"));
	w = open_at("10.88.0.1");
	for (int round = 0; round < 2; round++)
		for (int i = 0; i < 4000; i++) {
			struct uccl_nic_addr a;

			snprintf(text, sizeof(text), "198.18.%d.%d", i / 250, i % 250 + 1);
			a = at(text);
			*(round ? &again : &frames) += uccl_routes_find(w, &a, now) != NULL;
		}
	assert_in_range(frames, 900, 1024); /* some sets get more than others, and few get less than they hold */
	assert_int_equal(again, frames);
	uccl_routes_close(w);
}

TEST_IN(open__no_ethernet, setup, NULL)
{
	struct uccl_nic_addr from = at("127.0.0.1");
	struct uccl_routes *w;

	NEED_HOSTS();
	assert_true(on_host(0));
	assert_int_equal(uccl_routes_open((int)if_nametoindex("lo"), "lo", &from, &w), -FI_EINVAL);
}

/* The kernel's own error comes back, and the answer after it is that to the next question. */
TEST(ask__errors)
{
	struct {
		struct nlmsghdr h;
		struct ifinfomsg body;
	} ask = {.h = {.nlmsg_len = sizeof(ask), .nlmsg_type = RTM_GETLINK}, .body.ifi_index = 99999};
	_Alignas(struct nlmsghdr) uint8_t answer[UCCL_NETLINK_ROOM];
	int fd = uccl_netlink_open(0);

	assert_true(fd >= 0);
	assert_int_equal(uccl_netlink_ask(fd, &ask.h, answer, sizeof(answer), RTM_NEWLINK), -FI_ENODEV);
	ask.body.ifi_index = 1;
	assert_int_equal(uccl_netlink_ask(fd, &ask.h, answer, sizeof(answer), RTM_NEWROUTE), -FI_EIO);
	assert_int_equal(uccl_netlink_ask(fd, &ask.h, answer, sizeof(answer), RTM_NEWLINK), 0);
	assert_int_equal(uccl_netlink_ask(fd, &ask.h, answer, 64, RTM_NEWLINK), -FI_EIO);
	assert_int_equal(uccl_netlink_ask(fd, &ask.h, answer, sizeof(answer), RTM_NEWLINK), 0);
	close(fd);
}

int main(void)
{
	have_hosts = two_hosts();
	if (!have_hosts)
		print_message("no network namespaces here: most of this is skipped\n");
	return tests_run(NULL, NULL);
}
