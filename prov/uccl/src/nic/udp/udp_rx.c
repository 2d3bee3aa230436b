/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Receiving from the UDP socket: one recvmmsg a call of rx(), payloads scattered to hinted places. Trains that the
 * kernel merged (UDP_GRO) go up as they are. Also the seldom work: error queues and liveness.
 */
#include <errno.h>
#include <time.h>
#include <netinet/icmp6.h>
#include <netinet/ip.h>
#include <netinet/ip_icmp.h>
#include <netinet/udp.h>
#include <poll.h>
#include <string.h>

#include <linux/errqueue.h> /* needs struct timespec */

#include "base/log.h"
#include "nic/udp/udp_state.h"

#define ERRORS_EVERY_NS (50 * UCCL_NS_PER_MS)
/* If somebody answers, all that is sent may be answered: that is no reason to look, but then others may be gone. */
#define ERRORS_ANYWAY_NS (350 * UCCL_NS_PER_MS)
/* An answer takes a moment, too: many endpoints that send now and then would look each time. */
#define ERRORS_ASKED_NS (5 * UCCL_NS_PER_MS)
#define ERRORS_LINGER_NS UCCL_NS_PER_S /* an ICMP answer comes sooner or is not waited for */
#define ERRORS_AT_ONCE 64	       /* read from one queue at a time */
#define LIVE_EVERY_NS (10 * UCCL_NS_PER_MS)
#define LIVE_EVERY_SLEEPER_NS UCCL_NS_PER_MS /* the owner sleeps on wait_fd: do not keep it awake for nothing */
#define CLOCK_EVERY 64			     /* calls of rx() without a tx() */
/* Pieces of a message: as much of a row as has a place and the rest; head, place of its payload and the rest. */
enum { ROW = 2, SPLIT = 3 };

#define AGE_MAX_NS (10 * UCCL_NS_PER_S)	     /* beyond: the clock was set */

/* Events. */

static bool event_same(const struct udp_event *a, const struct udp_event *b)
{
	return a->kind == b->kind && a->bytes == b->bytes && uccl_ifaddr_equal(&a->src, &b->src) &&
	       a->quote_len == b->quote_len && !memcmp(a->quote, b->quote, a->quote_len);
}

bool uccl_udp_event(struct udp *u, const struct udp_event *event)
{
	int i;

	for (i = 0; i < u->nevents; i++)
		if (event_same(&u->event[i], event))
			return true;
	if (u->nevents == UDP_EVENTS)
		return false;
	u->event[u->nevents++] = *event;
	return true;
}

static int events_emit(struct udp *u, struct uccl_rx *v, int n)
{
	int i, k = u->nevents < n ? u->nevents : n;

	for (i = 0; i < k; i++) {
		const struct udp_event *e = &u->event[i];

		memset(&v[i], 0, sizeof(v[i]));
		v[i].kind = e->kind;
		v[i].peer = e->peer;
		v[i].peer_id = v[i].peer ? v[i].peer->id : 0;
		v[i].src = e->src;
		v[i].imm = e->bytes;
		memcpy(u->quotes[i], e->quote, e->quote_len);
		v[i].data = u->quotes[i];
		v[i].len = e->quote_len;
	}
	u->nevents -= k;
	memmove(u->event, u->event + k, (size_t)u->nevents * sizeof(u->event[0]));
	return k;
}

/* Error queues. */

/* Only this says that the host is there and the port is not; a lost route or host may come back. */
static bool port_unreachable(const struct sock_extended_err *e)
{
	if (e->ee_origin == SO_EE_ORIGIN_ICMP)
		return e->ee_type == ICMP_DEST_UNREACH && e->ee_code == ICMP_PORT_UNREACH;
	if (e->ee_origin == SO_EE_ORIGIN_ICMP6)
		return e->ee_type == ICMP6_DST_UNREACH && e->ee_code == ICMP6_DST_UNREACH_NOPORT;
	return false;
}

/* A router that speaks of no length (RFC 1191 section 4) says 0. */
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

/* One poll() for all label sockets says which queues are worth a call; with many of them that is dear. */
static void errors_poll(struct udp *u)
{
	struct pollfd p[UDP_LABELS];
	int i;

	u->errors_due = false;
	u->errors_at = uccl_udp_now() + u->errors_every;
	u->errors_every = uccl_min(2 * u->errors_every, ERRORS_ANYWAY_NS);
	for (i = 0; i < u->nsocks; i++)
		p[i] = (struct pollfd){.fd = u->sock[i].fd};
	if (poll(p, (nfds_t)u->nsocks, 0) <= 0)
		return;
	for (i = 0; i < u->nsocks; i++)
		if (p[i].revents & POLLERR)
			uccl_udp_errors(u, &u->sock[i]);
}

/* Liveness. */

static void live_poll(struct udp *u, uint64_t now)
{
	void *gone[UDP_EVENTS];
	int i, n;

	u->live_at = now;
	n = uccl_udp_live_poll(u->live, now, gone, UDP_EVENTS - u->nevents);
	for (i = 0; i < n; i++) {
		struct uccl_nic_peer *p = gone[i];

		uccl_udp_event(u, &(struct udp_event){.kind = UCCL_RX_GONE, .peer = p, .src = p->to});
	}
}

/* The work that need not be done in every call. */
static void seldom(struct udp *u)
{
	uint64_t now = uccl_udp_now();

	if (u->tx_seen) {
		u->tx_seen = false;
		u->errors_until = now + ERRORS_LINGER_NS;
		if (!u->unanswered) {
			u->asked_at = now;
			u->errors_every = ERRORS_EVERY_NS;
		}
		u->unanswered = true;
	}
	u->errors_due = now >= u->errors_at && now < u->errors_until;
	if (u->errors_due && now >= u->errors_at + ERRORS_ANYWAY_NS)
		errors_poll(u);
	u->errors_due = u->errors_due && now >= u->asked_at + ERRORS_ASKED_NS;
	if (u->live && now >= u->live_at + LIVE_EVERY_NS)
		live_poll(u, now);
	u->seldom_at = now;
}

/*
 * Nothing came, though the owner may have been woken: perhaps what woke him is there, and it must not do so again.
 * With packets that is soon enough the next time.
 */
static bool live_may_have_woken(const struct udp *u)
{
	return u->live && u->wait_fd >= 0 && u->seldom_at >= u->live_at + LIVE_EVERY_SLEEPER_NS;
}

/* Packets. */

static uint64_t realtime_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_REALTIME, &t);
	return (uint64_t)t.tv_sec * UCCL_NS_PER_S + (uint64_t)t.tv_nsec;
}

/* What lies where a row was predicted: packets of that length, or it is moved to where it would be otherwise. */
static void message_row(struct udp_slot *s, struct uccl_rx *r)
{
	uint32_t body = (uint32_t)uccl_min(r->len, s->iov[0].iov_len);

	if (r->each != s->gro_size) {
		memcpy(s->buf, s->iov[0].iov_base, body);
		return;
	}
	uccl_rx_run_at(r, s->iov[0].iov_base, body);
}

/* Put the pieces of a scattered message together in its own buffer: head, hinted part, rest. */
static void message_join(struct udp_bank *b, int i, uint32_t len)
{
	struct udp_slot *s = &b->slot[i];
	uint32_t body = len - UCCL_HDR_LEN, rest;

	if (b->msg[i].msg_hdr.msg_iovlen != SPLIT || len <= UCCL_HDR_LEN)
		return;
	if (body > s->iov[1].iov_len)
		body = (uint32_t)s->iov[1].iov_len;
	rest = len - UCCL_HDR_LEN - body;
	memmove(s->buf + UCCL_HDR_LEN + body, s->buf + UCCL_HDR_LEN, rest);
	memcpy(s->buf + UCCL_HDR_LEN, s->iov[1].iov_base, body);
	/* From here on an ordinary message. */
	b->msg[i].msg_hdr.msg_iovlen = 1;
}

/* Message i, with what the kernel says about it; `realtime` of its receive, 0: no time stamps. */
static void message_take(struct udp_bank *b, int i, uint64_t realtime, struct uccl_rx *r)
{
	struct mmsghdr *m = &b->msg[i];
	struct udp_slot *s = &b->slot[i];
	uint32_t segment = 0;
	struct cmsghdr *h;

	memset(r, 0, offsetof(struct uccl_rx, src));
	r->kind = UCCL_RX_PACKET;
	r->data = s->buf;
	r->len = m->msg_len;
	uccl_ifaddr_from_sock(&r->src, m->msg_hdr.msg_name, m->msg_hdr.msg_namelen);
	for (h = CMSG_FIRSTHDR(&m->msg_hdr); h; h = CMSG_NXTHDR(&m->msg_hdr, h)) {
		if (h->cmsg_level == IPPROTO_UDP && h->cmsg_type == UDP_GRO) {
			int value;

			memcpy(&value, CMSG_DATA(h), sizeof(value));
			segment = value > 0 ? (uint32_t)value : 0;
		} else if ((h->cmsg_level == IPPROTO_IP && h->cmsg_type == IP_TOS) ||
			   (h->cmsg_level == IPPROTO_IPV6 && h->cmsg_type == IPV6_TCLASS)) {
			/* One byte, or an int of the host's order. Those of a train are all of one class. */
			int value = 0;

			memcpy(&value, CMSG_DATA(h), h->cmsg_type == IP_TOS ? 1 : sizeof(value));
			r->marked = IPTOS_ECN(value) == IPTOS_ECN_CE;
		} else if (h->cmsg_level == SOL_SOCKET && h->cmsg_type == SCM_TIMESTAMPNS) {
			struct timespec t;
			uint64_t at;

			memcpy(&t, CMSG_DATA(h), sizeof(t));
			at = (uint64_t)t.tv_sec * UCCL_NS_PER_S + (uint64_t)t.tv_nsec;
			if (at < realtime && realtime - at <= AGE_MAX_NS)
				r->age_ns = realtime - at;
		}
	}
	if (segment && segment < r->len) {
		r->each = segment;
		message_join(b, i, r->len);
	}
	if (m->msg_hdr.msg_iovlen == ROW)
		message_row(s, r);
	if (m->msg_hdr.msg_iovlen == SPLIT && r->len > UCCL_HDR_LEN) {
		r->split = true;
		r->body = s->iov[1].iov_base;
		r->body_len = (uint32_t)uccl_min(r->len - UCCL_HDR_LEN, s->iov[1].iov_len);
		r->rest = s->buf + UCCL_HDR_LEN;
		r->rest_len = r->len - UCCL_HDR_LEN - r->body_len;
	}
}

static void bank_prepare(struct udp_bank *b, const struct uccl_rx_placement *hints, int nhints)
{
	int i, all = nhints > b->hinted ? nhints : b->hinted;

	for (i = 0; i < b->used; i++) {
		struct msghdr *h = &b->msg[i].msg_hdr;

		h->msg_namelen = sizeof(b->slot[i].name);
		h->msg_controllen = h->msg_control ? UDP_RX_CONTROL : 0;
	}
	b->used = 0;
	for (i = 0; i < all; i++) {
		struct udp_slot *s = &b->slot[i];
		bool hint = i < nhints && hints[i].len;

		s->iov[0] = (struct iovec){.iov_base = s->buf, .iov_len = hint ? UCCL_HDR_LEN : UDP_RX_BYTES};
		b->msg[i].msg_hdr.msg_iovlen = hint ? SPLIT : 1;
		if (!hint)
			continue;
		if (hints[i].each) {
			s->gro_size = hints[i].each;
			s->iov[0] = (struct iovec){.iov_base = hints[i].dst, .iov_len = hints[i].len};
			/* Where it would be if the row had been received here, too. */
			s->iov[1] = (struct iovec){.iov_base = s->buf + hints[i].len,
						   .iov_len = UDP_RX_BYTES - hints[i].len};
			b->msg[i].msg_hdr.msg_iovlen = ROW;
			continue;
		}
		s->iov[1] = (struct iovec){.iov_base = hints[i].dst, .iov_len = hints[i].len};
		s->iov[2] = (struct iovec){.iov_base = s->buf + UCCL_HDR_LEN, .iov_len = UDP_RX_BYTES - UCCL_HDR_LEN};
	}
	b->hinted = nhints;
}

/* Up to n messages of the kernel. Their number, 0, or a negative error. */
static int batch_receive(struct udp *u, int n, const struct uccl_rx_placement *hints, int nhints)
{
	struct udp_bank *b = u->bank;
	int got;

	if (n > UDP_RX_BATCH)
		n = UDP_RX_BATCH;
	bank_prepare(b, hints, nhints < n ? nhints : n);
	do {
		got = recvmmsg(u->rx_fd, b->msg, (unsigned int)n, MSG_DONTWAIT, NULL);
	} while (got < 0 && errno == EINTR);
	if (got <= 0) {
		/* Short of memory: packets are lost, and the protocol copes with that. */
		if (!got || errno == EAGAIN || errno == ENOMEM || errno == ENOBUFS)
			return 0;
		UCCL_LOG(UCCL_LOG_WARN, "receiving failed: %s", strerror(errno));
		return -errno;
	}
	b->used = got;
	return got;
}

int uccl_udp_rx(struct uccl_nic *nic, struct uccl_rx *v, int n, const struct uccl_rx_placement *hints, int nhints)
{
	struct udp *u = udp_of(nic);
	uint64_t realtime;
	int k = 0, got;

	if (u->tx_seen || u->wait_fd >= 0 || ++u->calls % CLOCK_EVERY == 0)
		seldom(u);
	if (u->nevents)
		k = events_emit(u, v, n);
	if (k == n)
		return k;
	got = nic->empty ? 0 : batch_receive(u, n - k, nhints > k ? hints + k : NULL, nhints > k ? nhints - k : 0);
	if (got < 0)
		return k ? k : got;
	if (got) {
		u->unanswered = false;
	} else if (u->unanswered && u->errors_due) {
		errors_poll(u);
		k += events_emit(u, v + k, n - k);
	}
	if (nic->empty)
		return k;
	if (!got && live_may_have_woken(u)) {
		live_poll(u, u->seldom_at);
		k += events_emit(u, v + k, n - k);
	}
	realtime = got && u->timestamps ? realtime_ns() : 0;
	for (int i = 0; i < got; i++, k++) {
		message_take(u->bank, i, realtime, &v[k]);
		if (u->guard.version && !uccl_udp_guard_may(u, &v[k]))
			v[k].kind = UCCL_RX_REFUSED;
	}
	return uccl_udp_handshake_rx(u, v, k, n, !k);
}
