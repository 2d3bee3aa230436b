/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The paths of the packets of each source port, as paris-traceroute finds them: all that the network hashes stays the
 * same but for the hop limit, and routers tell where it ran out. The first hop is this host's own choice of route.
 */
#include <errno.h>
#include <netinet/icmp6.h>
#include <netinet/in.h>
#include <netinet/ip_icmp.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#include <linux/errqueue.h> /* needs struct timespec */

#include "base/units.h"
#include "uccl_doctor_side.h"

#define TRIES 3
#define ROUND_MS 200	/* a router that says anything does so within */
#define SILENT_ROUNDS 3 /* hops in a row of which nobody says anything: they will not */

static uint64_t hop_number(const struct uccl_nic_addr *a)
{
	uint64_t x = 1469598103934665603ull; /* FNV-1a */

	for (size_t i = 0; i < sizeof(a->ip); i++)
		x = (x ^ a->ip[i]) * 1099511628211ull;
	return x ? x : 1;
}

static bool time_exceeded(const struct sock_extended_err *e)
{
	return (e->ee_origin == SO_EE_ORIGIN_ICMP && e->ee_type == ICMP_TIME_EXCEEDED) ||
	       (e->ee_origin == SO_EE_ORIGIN_ICMP6 && e->ee_type == ICMP6_TIME_EXCEEDED);
}

/*
 * Read the ICMP errors about a source port's packets. Returns the router that dropped one with this hop limit, 0: none.
 * Routers give back at least the UDP header; where they give more the hop limit is in it and is compared.
 */
static uint64_t errors_read(struct doctor_side *s, int fd, uint8_t ttl)
{
	_Alignas(struct cmsghdr) uint8_t control[512];
	struct doctor_probe probe;
	uint8_t data[256];
	uint64_t found = 0;
	bool right;

	for (int i = 0; i < 64; i++) {
		struct iovec iov = { .iov_base = data, .iov_len = sizeof(data) };
		struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = control,
				    .msg_controllen = sizeof(control) };
		ssize_t n = recvmsg(fd, &m, MSG_ERRQUEUE | MSG_DONTWAIT);

		if (n < 0)
			break;
		for (struct cmsghdr *c = CMSG_FIRSTHDR(&m); c; c = CMSG_NXTHDR(&m, c)) {
			struct {
				struct sock_extended_err e;
				struct sockaddr_in6 from; /* or sockaddr_in */
			} error = { 0 };
			struct uccl_nic_addr router;

			if (!(c->cmsg_level == IPPROTO_IP && c->cmsg_type == IP_RECVERR) &&
			    !(c->cmsg_level == IPPROTO_IPV6 && c->cmsg_type == IPV6_RECVERR))
				continue;
			memcpy(&error, CMSG_DATA(c), uccl_min(sizeof(error), c->cmsg_len - CMSG_LEN(0)));
			if (!time_exceeded(&error.e) ||
			    uccl_ifaddr_from_sock(&router, (struct sockaddr *)&error.from, sizeof(error.from)))
				continue;
			if (doctor_get_probe(data, (size_t)n, s->token, &probe, &right) && probe.ttl != ttl)
				continue;
			router.scope = 0;
			found = hop_number(&router);
		}
	}
	return found;
}

/* Note the source ports whose packets arrived, by the peer's answers. */
static void answers_read(struct doctor_side *s, struct doctor_paths *p, uint8_t ttl)
{
	struct doctor_probe probe;
	uint8_t ecn;
	bool right;

	while (doctor_probe_take(s, &probe, &ecn, &right)) {
		if (probe.kind != DOCTOR_PONG || probe.ttl != ttl || probe.label >= p->n || probe.seq != ttl)
			continue;
		p->trail[probe.label].arrived = true;
	}
}

static bool label_done(const struct doctor_trail *t, int at)
{
	return t->arrived || t->hop[at];
}

/* One hop limit, one try: false if somebody has not answered. `at` is the place of this hop in the trails. */
static bool round_run(struct doctor_side *s, struct doctor_paths *p, uint8_t ttl, int at)
{
	uint64_t end = doctor_now_ms() + ROUND_MS, now;
	struct pollfd pf[DOCTOR_LABELS + 1];
	bool all = false;

	for (int i = 0; i < p->n; i++) {
		pf[i] = (struct pollfd){ .fd = s->label[i] };
		if (!label_done(&p->trail[i], at))
			doctor_ping_send(s, i, ttl, ttl);
	}
	pf[p->n] = (struct pollfd){ .fd = s->rx, .events = POLLIN };
	while (!all && (now = doctor_now_ms()) < end) {
		poll(pf, (nfds_t)p->n + 1, (int)(end - now));
		answers_read(s, p, ttl);
		all = true;
		for (int i = 0; i < p->n; i++) {
			if (pf[i].revents & POLLERR) {
				uint64_t hop = errors_read(s, s->label[i], ttl);

				if (hop && !p->trail[i].arrived)
					p->trail[i].hop[at] = hop;
			}
			all = all && label_done(&p->trail[i], at);
		}
	}
	return all;
}

/* Trails that have not arrived get one hop more. Returns how many did, and whether anybody said anything. */
static int hop_close(struct doctor_paths *p, int at, bool *said)
{
	int arrived = 0;

	*said = false;
	for (int i = 0; i < p->n; i++) {
		if (p->trail[i].arrived) {
			arrived++;
			continue;
		}
		p->trail[i].n = (uint8_t)(at + 1);
		*said |= p->trail[i].hop[at] != 0;
	}
	return arrived;
}

void doctor_trace(struct doctor_side *s, struct doctor_paths *p)
{
	int silent = 0, first = 0;
	uint8_t ttl = 1;

	memset(p, 0, sizeof(*p));
	p->n = (uint16_t)s->nlabels;
	for (int i = 0; i < p->n; i++) {
		struct uccl_nic_addr from = s->self;
		struct doctor_route route;

		from.port = s->label_port[i];
		errors_read(s, s->label[i], 0);
		doctor_route(&from, &s->peer, &route);
		p->trail[i].hop[0] = route.hop;
		p->next_hops = (uint16_t)route.next_hops;
		first |= p->trail[i].hop[0] != 0;
	}
	for (int i = 0; i < p->n; i++)
		p->trail[i].n = (uint8_t)first;
	for (int at = first; at < DOCTOR_HOPS && silent < SILENT_ROUNDS; at++, ttl++) {
		bool said;

		for (int i = 0; i < TRIES && !round_run(s, p, ttl, at); i++)
			;
		if (hop_close(p, at, &said) == p->n)
			break;
		silent = said ? 0 : silent + 1;
	}
}
