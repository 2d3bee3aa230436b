/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* See named.h. */
#include "api/offer/named.h"

#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <rdma/fi_errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "api/lib/lib.h"
#include "api/offer/address.h"
#include "api/offer/place.h"
#include "base/units.h"
#include "engine/engine.h"
#include "nic/ifaddr.h"
#include "nic/ownfd.h"
#include "progress/thread.h"
#include "progress/wait.h"

#define PLACES_MAX 64
/* Of one name: more addresses of a host are not asked. */
#define ASK_MAX 8
/* Between two questions: twice as long each time. */
#define ASK_FIRST_NS (20 * UCCL_NS_PER_MS)
#define ASK_LAST_NS (320 * UCCL_NS_PER_MS)

struct uccl_named {
	pthread_t thread;
	bool running;
	unsigned int forks;		/* uccl_forks when it was opened: a child has no thread */
	int n;
	struct pollfd fd[1 + PLACES_MAX]; /* the first is readable when the thread is to end */
	uint8_t address[UCCL_ADDR_LEN];
	_Atomic uint64_t refused[UCCL_DROP_COUNT];
};

bool uccl_named_allowed(const struct uccl_params *p)
{
	struct uccl_config config;

	uccl_params_config(p, &config);
	return p->conn.security_keyless != UCCL_SWITCH_NO && !config.security;
}

static bool same_ip(const struct uccl_nic_addr *a, const struct uccl_nic_addr *b)
{
	return !memcmp(a->ip, b->ip, sizeof(a->ip));
}

/* The address of an RDMA NIC of this host that is not `own`. */
static bool of_another(const struct uccl_nic_addr *a, const struct uccl_nic_addr *own, const struct uccl_ifaddr *nics,
		       int n)
{
	if (same_ip(a, own))
		return false;
	for (int i = 0; i < n; i++)
		if (same_ip(a, &nics[i].addr))
			return true;
	return false;
}

int uccl_named_places(const struct uccl_params *p, const struct uccl_nic_addr *own, struct uccl_nic_addr **list)
{
	struct uccl_ifaddr *all = NULL, *nics = NULL;
	int nall = uccl_ifaddr_list(&all), nnics = uccl_place_list(p, &nics), n = 0;
	struct uccl_nic_addr *v = calloc((size_t)uccl_max(nall, 1), sizeof(*v));

	for (int i = 0; v && i < nall; i++) {
		if (of_another(&all[i].addr, own, nics, nnics))
			continue;
		v[n] = all[i].addr;
		v[n].port = own->port;
		if (same_ip(&v[n], own)) {
			struct uccl_nic_addr t = v[0];

			v[0] = v[n];
			v[n] = t;
		}
		n++;
	}
	if (nall > 0)
		free(all);
	if (nnics > 0)
		free(nics);
	*list = v;
	return v ? n : -FI_ENOMEM;
}

static int socket_new(int family)
{
	int one = 1, fd = uccl_own_socket(family, SOCK_DGRAM | SOCK_NONBLOCK);

	if (fd >= 0 && family == AF_INET6)
		(void)setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &one, sizeof(one));
	return fd < 0 ? -errno : fd;
}

/* A socket bound there. The descriptor or a negative error. */
static int socket_bound(const struct uccl_nic_addr *at)
{
	struct sockaddr_storage ss;
	socklen_t len = uccl_ifaddr_to_sock(&ss, at, AF_UNSPEC);
	int fd = socket_new(ss.ss_family), err;

	if (fd < 0 || !bind(fd, (struct sockaddr *)&ss, len))
		return fd;
	err = -errno;
	uccl_own_close(fd);
	return err;
}

/* A socket connected to there, from a port of the range. The descriptor or a negative error. */
static int socket_connected(const struct uccl_nic_addr *at, const struct uccl_ports *ports)
{
	struct uccl_ports_walk walk = uccl_ports_walk();
	struct sockaddr_storage ss, any = {0};
	socklen_t len = uccl_ifaddr_to_sock(&ss, at, AF_UNSPEC);
	int fd = socket_new(ss.ss_family), err;

	if (fd < 0)
		return fd;
	any.ss_family = ss.ss_family;
	err = uccl_ports_bind(fd, &any, len, ports, &walk);
	if (err == -FI_EADDRINUSE)
		uccl_warn(FI_LOG_EP_CTRL, "FI_UCCL_PORTS=%u-%u: no port is free to ask for a name, all %u were tried; "
					  "give a larger range\n",
			  ports->first, ports->last, uccl_ports_count(ports));
	if (!err && connect(fd, (struct sockaddr *)&ss, len))
		err = -errno;
	if (!err)
		return fd;
	uccl_own_close(fd);
	return err;
}

/* PROTOCOL R115 */
static void named_hear(struct uccl_named *nd, int fd)
{
	uint8_t buf[UCCL_NAME_LEN + 1];
	struct sockaddr_storage from;
	socklen_t len = sizeof(from);
	ssize_t n = recvfrom(fd, buf, sizeof(buf), 0, (struct sockaddr *)&from, &len);
	enum uccl_drop reason;

	if (n < 0)
		return;
	reason = uccl_name_answer(buf, buf, (size_t)n, nd->address);
	if (reason == UCCL_DROP_COUNT)
		(void)sendto(fd, buf, UCCL_NAME_LEN, 0, (struct sockaddr *)&from, len); /* lost: it is asked again */
	else
		atomic_fetch_add_explicit(&nd->refused[reason], 1, memory_order_relaxed);
}

static void *named_main(void *arg)
{
	struct uccl_named *nd = arg;

	for (;;) {
		if (poll(nd->fd, (nfds_t)nd->n, -1) < 0)
			continue;
		if (nd->fd[0].revents)
			return NULL;
		for (int i = 1; i < nd->n; i++)
			if (nd->fd[i].revents)
				named_hear(nd, nd->fd[i].fd);
	}
}

static void named_note(const char *what, const struct uccl_nic_addr *at, int err)
{
	char place[UCCL_ADDRESS_TEXT];

	uccl_address_place_text(at, place, sizeof(place));
	uccl_info(FI_LOG_EP_CTRL, "%s %s: %s\n", what, place, strerror(err));
}

int uccl_named_open(const struct uccl_nic_addr *at, int n, const struct uccl_addr *address, struct uccl_named **out)
{
	struct uccl_named *nd = calloc(1, sizeof(*nd));
	int rc = n > 0 ? 0 : -FI_EADDRNOTAVAIL;

	if (!nd)
		return -FI_ENOMEM;
	nd->forks = uccl_forks;
	uccl_addr_encode(nd->address, address);
	nd->fd[0] = (struct pollfd){ .fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK), .events = POLLIN };
	nd->n = 1;
	if (nd->fd[0].fd < 0)
		rc = -errno;
	for (int i = 0; i < n && i < PLACES_MAX && !rc; i++) {
		int fd = socket_bound(&at[i]);

		if (fd >= 0) {
			nd->fd[nd->n++] = (struct pollfd){ .fd = fd, .events = POLLIN };
			continue;
		}
		named_note("peers cannot ask for this endpoint at", &at[i], -fd);
		rc = i ? 0 : fd;
	}
	if (!rc && uccl_thread_start(&nd->thread, named_main, nd))
		rc = -FI_EAGAIN;
	nd->running = !rc;
	if (rc) {
		uccl_named_close(nd, NULL);
		return rc;
	}
	*out = nd;
	return 0;
}

void uccl_named_close(struct uccl_named *nd, struct uccl_engine *e)
{
	if (!nd)
		return;
	if (nd->running && nd->forks == uccl_forks) {
		eventfd_write(nd->fd[0].fd, 1);
		pthread_join(nd->thread, NULL);
	}
	if (nd->fd[0].fd >= 0)
		close(nd->fd[0].fd);
	for (int i = 1; i < nd->n; i++)
		uccl_own_close(nd->fd[i].fd);
	for (int i = 0; e && i < UCCL_DROP_COUNT; i++)
		uccl_engine_refuse(e, (enum uccl_drop)i, nd->refused[i]);
	free(nd);
}

/* Send the question again, and wait for an answer. True: *out is one. PROTOCOL R116 */
static bool ask_once(struct pollfd *fd, int n, uint64_t nonce, uint64_t until, struct uccl_addr *out)
{
	uint8_t buf[UCCL_NAME_LEN + 1];
	uint64_t now;

	uccl_name_ask(buf, nonce);
	/* What is wrong with a place now may be right at the next question: its owner may just be starting. */
	for (int i = 0; i < n; i++)
		(void)send(fd[i].fd, buf, UCCL_NAME_LEN, 0);
	while ((now = uccl_clock()) < until) {
		if (poll(fd, (nfds_t)n, (int)((until - now) / UCCL_NS_PER_MS) + 1) <= 0)
			continue;
		for (int i = 0; i < n; i++) {
			ssize_t len = fd[i].revents ? recv(fd[i].fd, buf, sizeof(buf), 0) : -1;

			if (len >= 0 && uccl_name_read(out, buf, (size_t)len, nonce) == UCCL_DROP_COUNT)
				return true;
		}
	}
	return false;
}

int uccl_named_ask(const struct uccl_nic_addr *at, int n, const struct uccl_ports *ports, uint64_t patience_ns,
		   struct uccl_addr *out)
{
	uint64_t end = uccl_clock() + patience_ns, wait = ASK_FIRST_NS, nonce = 0;
	struct pollfd fd[ASK_MAX];
	bool found = false;
	int nfds = 0;

	while (!nonce)
		if (getrandom(&nonce, sizeof(nonce), 0) != sizeof(nonce))
			nonce = 0;
	for (int i = 0; i < n && nfds < ASK_MAX; i++) {
		if (!at[i].port)
			continue;
		fd[nfds] = (struct pollfd){ .fd = socket_connected(&at[i], ports), .events = POLLIN };
		if (fd[nfds].fd >= 0)
			nfds++;
		else
			named_note("cannot ask at", &at[i], -fd[nfds].fd);
	}
	for (uint64_t now = uccl_clock(); nfds && !found && now < end; now = uccl_clock()) {
		found = ask_once(fd, nfds, nonce, uccl_min(end, now + wait), out);
		wait = uccl_min(2 * wait, ASK_LAST_NS);
	}
	while (nfds)
		uccl_own_close(fd[--nfds].fd);
	return found ? 0 : -FI_ENODATA;
}
