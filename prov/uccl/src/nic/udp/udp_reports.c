/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What the network and peers' kernels report to the udp back end: ICMP errors, which the kernel queues at the label
 * sockets, and liveness connections that ended. Both are polled rarely. Each report is an event, which waits for rx().
 */
#include <netinet/icmp6.h>
#include <netinet/ip_icmp.h>
#include <poll.h>
#include <string.h>
#include <time.h>

#include <linux/errqueue.h> /* needs struct timespec */

#include "base/log.h"
#include "nic/udp/udp_reports.h"

#define ERRORS_EVERY_NS (50 * UCCL_NS_PER_MS)
/* While packets arrive, all that was sent may be answered: no reason to poll. But other peers may be gone. */
#define ERRORS_ANYWAY_NS (350 * UCCL_NS_PER_MS)
/* An answer takes a moment: many endpoints that send now and then would poll each time. */
#define ERRORS_ASKED_NS (5 * UCCL_NS_PER_MS)
#define ERRORS_LINGER_NS UCCL_NS_PER_S /* an ICMP answer comes sooner or is not waited for */
#define ERRORS_AT_ONCE 64	       /* read from one queue at a time */
#define LIVE_EVERY_SLEEPER_NS UCCL_NS_PER_MS /* the owner sleeps on wait_fd: do not keep it awake for nothing */

/* Events. */

static bool event_same(const struct udp_event *a, const struct udp_event *b)
{
	return a->kind == b->kind && a->bytes == b->bytes && uccl_ifaddr_equal(&a->src, &b->src) &&
	       a->quote_len == b->quote_len && !memcmp(a->quote, b->quote, a->quote_len);
}

bool uccl_udp_event(struct udp *u, const struct udp_event *event)
{
	int i;

	for (i = 0; i < u->reports.nevents; i++)
		if (event_same(&u->reports.event[i], event))
			return true;
	if (u->reports.nevents == UDP_EVENTS)
		return false;
	u->reports.event[u->reports.nevents++] = *event;
	return true;
}

int uccl_udp_events_take(struct udp *u, struct uccl_rx *v, int n)
{
	int i, k = u->reports.nevents < n ? u->reports.nevents : n;

	for (i = 0; i < k; i++) {
		const struct udp_event *e = &u->reports.event[i];

		memset(&v[i], 0, sizeof(v[i]));
		v[i].kind = e->kind;
		v[i].peer = e->peer;
		v[i].peer_id = v[i].peer ? v[i].peer->id : 0;
		v[i].src = e->src;
		v[i].imm = e->bytes;
		memcpy(u->reports.quotes[i], e->quote, e->quote_len);
		v[i].data = u->reports.quotes[i];
		v[i].len = e->quote_len;
	}
	u->reports.nevents -= k;
	memmove(u->reports.event, u->reports.event + k, (size_t)u->reports.nevents * sizeof(u->reports.event[0]));
	return k;
}

void uccl_udp_events_forget(struct udp *u, const struct uccl_nic_peer *peer)
{
	struct udp_reports *r = &u->reports;
	int i, kept = 0;

	for (i = 0; i < r->nevents; i++)
		if (r->event[i].peer != peer)
			r->event[kept++] = r->event[i];
	r->nevents = kept;
}

/* Error queues. */

/* Only this proves that the host is there and the port is closed; a lost route or host may come back. */
static bool port_unreachable(const struct sock_extended_err *e)
{
	if (e->ee_origin == SO_EE_ORIGIN_ICMP)
		return e->ee_type == ICMP_DEST_UNREACH && e->ee_code == ICMP_PORT_UNREACH;
	if (e->ee_origin == SO_EE_ORIGIN_ICMP6)
		return e->ee_type == ICMP6_DST_UNREACH && e->ee_code == ICMP6_DST_UNREACH_NOPORT;
	return false;
}

/* A router that names no length (RFC 1191 section 4) reports 0. */
static bool too_long(const struct sock_extended_err *e)
{
	if (e->ee_origin == SO_EE_ORIGIN_ICMP)
		return e->ee_type == ICMP_DEST_UNREACH && e->ee_code == ICMP_FRAG_NEEDED;
	if (e->ee_origin == SO_EE_ORIGIN_ICMP6)
		return e->ee_type == ICMP6_PACKET_TOO_BIG;
	return false;
}

static void error_read(struct udp *u, struct msghdr *h, size_t quoted)
{
	struct udp_event event = {.kind = UCCL_RX_UNREACH, .quote_len = (uint8_t)uccl_min(quoted, UCCL_HDR_LEN)};
	struct cmsghdr *c;

	if (uccl_ifaddr_from_sock(&event.src, h->msg_name, h->msg_namelen))
		return;
	memcpy(event.quote, h->msg_iov->iov_base, event.quote_len);
	for (c = CMSG_FIRSTHDR(h); c; c = CMSG_NXTHDR(h, c)) {
		struct sock_extended_err e;

		if (!(c->cmsg_level == IPPROTO_IP && c->cmsg_type == IP_RECVERR) &&
		    !(c->cmsg_level == IPPROTO_IPV6 && c->cmsg_type == IPV6_RECVERR))
			continue;
		memcpy(&e, CMSG_DATA(c), sizeof(e));
		if (too_long(&e)) {
			event.kind = UCCL_RX_TOO_LONG;
			event.bytes = e.ee_info - (uint32_t)uccl_min(e.ee_info, uccl_udp_headers(&event.src));
		} else if (!port_unreachable(&e)) {
			continue;
		}
		if (!uccl_udp_event(u, &event))
			UCCL_LOG(UCCL_LOG_DEBUG, "a report of the network was not passed on: too many at once");
	}
}

void uccl_udp_errors(struct udp *u, struct udp_sock *s)
{
	_Alignas(size_t) uint8_t control[256];
	uint8_t quote[UCCL_HDR_LEN];
	struct iovec iov = {.iov_base = quote, .iov_len = sizeof(quote)};
	struct sockaddr_storage name;
	struct msghdr h;
	ssize_t got;
	int i;

	for (i = 0; i < ERRORS_AT_ONCE; i++) {
		memset(&h, 0, sizeof(h));
		h.msg_name = &name;
		h.msg_namelen = sizeof(name);
		h.msg_control = control;
		h.msg_controllen = sizeof(control);
		h.msg_iov = &iov;
		h.msg_iovlen = 1;
		/* The payload of the packet that the report quotes, as much of it as there is. */
		got = recvmsg(s->fd, &h, MSG_ERRQUEUE | MSG_DONTWAIT);
		if (got < 0)
			return;
		error_read(u, &h, (size_t)got);
	}
}

/* One poll() for all sockets that send says which queues are worth a call; it is expensive with many sockets. */
static void errors_poll(struct udp *u)
{
	struct pollfd p[UDP_LABELS + UDP_CONNECTED];
	struct udp_sock *s[UDP_LABELS + UDP_CONNECTED];
	nfds_t n = 0;

	u->reports.errors_due = false;
	u->reports.errors_at = uccl_udp_now() + u->reports.errors_every;
	u->reports.errors_every = uccl_min(2 * u->reports.errors_every, ERRORS_ANYWAY_NS);
	for (int i = 0; i < u->labels.nsocks; i++)
		s[n++] = &u->labels.sock[i];
	for (int i = 0; i < UDP_CONNECTED && u->connected.open; i++)
		if (u->connected.socket[i].sock.fd >= 0)
			s[n++] = &u->connected.socket[i].sock;
	for (nfds_t i = 0; i < n; i++)
		p[i] = (struct pollfd){.fd = s[i]->fd};
	if (poll(p, n, 0) <= 0)
		return;
	for (nfds_t i = 0; i < n; i++)
		if (p[i].revents & POLLERR)
			uccl_udp_errors(u, s[i]);
}

/* Liveness. */

static void live_poll(struct udp *u, uint64_t now)
{
	void *gone[UDP_EVENTS];
	int i, n;

	u->reports.live_at = now;
	n = uccl_udp_live_poll(u->live, now, gone, UDP_EVENTS - u->reports.nevents);
	for (i = 0; i < n; i++) {
		struct uccl_nic_peer *p = gone[i];

		uccl_udp_event(u, &(struct udp_event){.kind = UCCL_RX_GONE, .peer = p, .src = p->to});
	}
}

void uccl_udp_reports_poll_now(struct udp *u)
{
	uint64_t now = uccl_udp_now();

	if (u->reports.sent || u->reports.sent_answered)
		u->reports.errors_until = now + ERRORS_LINGER_NS;
	u->reports.sent_answered = false;
	if (u->reports.sent) {
		u->reports.sent = false;
		if (!u->reports.unanswered) {
			u->reports.asked_at = now;
			u->reports.errors_every = ERRORS_EVERY_NS;
		}
		u->reports.unanswered = true;
	}
	u->reports.errors_due = now >= u->reports.errors_at && now < u->reports.errors_until;
	if (u->reports.errors_due && now >= u->reports.errors_at + ERRORS_ANYWAY_NS)
		errors_poll(u);
	u->reports.errors_due = u->reports.errors_due && now >= u->reports.asked_at + ERRORS_ASKED_NS;
	if (u->live && now >= u->reports.live_at + UDP_REPORTS_EVERY_NS)
		live_poll(u, now);
	u->reports.polled_at = now;
}

/*
 * No packets arrived, but the owner may have been woken: perhaps by a liveness connection, which must not wake it
 * again. If packets arrived, the next call is soon enough.
 */
static bool live_may_have_woken(const struct udp *u)
{
	return u->live && u->wait_fd >= 0 && u->reports.polled_at >= u->reports.live_at + LIVE_EVERY_SLEEPER_NS;
}

bool uccl_udp_reports_poll_empty(struct udp *u)
{
	bool polled = false;

	/* What was sent waits for an answer: from now on time counts. */
	if (u->reports.sent) {
		uccl_udp_reports_poll_now(u);
		polled = u->reports.nevents > 0;
	}
	if (u->reports.unanswered && u->reports.errors_due) {
		errors_poll(u);
		polled = true;
	}
	if (!u->nic.empty && live_may_have_woken(u)) {
		live_poll(u, u->reports.polled_at);
		polled = true;
	}
	return polled;
}

uint64_t uccl_udp_reports_expiry(const struct udp *u)
{
	uint64_t at = u->live ? uccl_udp_live_expiry(u->live) : UCCL_NEVER;

	/* Before that rx() does not look. */
	return at == UCCL_NEVER ? at : uccl_max(at, u->reports.live_at + UDP_REPORTS_EVERY_NS);
}

void uccl_udp_reports_live_soon(struct udp *u)
{
	u->reports.live_at = 0;
}
