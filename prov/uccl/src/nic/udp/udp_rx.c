/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Receiving from the UDP socket: one recvmmsg or recvmsg a call of rx(), payloads scattered to predicted places. Trains
 * that the kernel merged (UDP_GRO) go up as they are.
 */
#include <errno.h>
#include <netinet/ip.h>
#include <netinet/udp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include <rdma/fi_errno.h>

#include "base/log.h"
#include "nic/udp/udp_reports.h"

/* Parts of a message: those of a GRO batch that have a place, and the rest; header, place of its payload, the rest. */
enum { GRO_BATCH = 2, SPLIT = 3 };

/* Slots are a little more than a power of two apart: else the headers of all would share one set of the cache. */
#define SLOT_STRIDE (UDP_RX_BYTES + 320)
#define AGE_MAX_NS (10 * UCCL_NS_PER_S)	     /* beyond: the clock was set */
#define CLOCK_APART_NS (20 * UCCL_NS_PER_US) /* two readings of both clocks that differ by less are right */
#define CLOCK_TRIES 3

/* Opening. */

void uccl_udp_rx_tune(struct udp *u, const struct uccl_nic_attr *attr)
{
	uccl_udp_queue_set(u->rx_fd, SO_RCVBUFFORCE, SO_RCVBUF, attr->rx_bytes ? attr->rx_bytes : UDP_RX_DEFAULT);
	u->rx.gro = uccl_udp_option_set(u->rx_fd, IPPROTO_UDP, UDP_GRO, 1);
	u->rx.timestamps = attr->timestamps && uccl_udp_option_set(u->rx_fd, SOL_SOCKET, SO_TIMESTAMPNS, 1);
}

void uccl_udp_rx_trains_off(struct udp *u)
{
	if (u->rx.gro)
		u->rx.gro = !uccl_udp_option_set(u->rx_fd, IPPROTO_UDP, UDP_GRO, 0);
}

static void bank_init(const struct udp *u)
{
	struct udp_bank *b = u->rx.bank;
	int i;

	for (i = 0; i < UDP_RX_BATCH; i++) {
		struct udp_slot *s = &b->slot[i];
		struct msghdr *h = &b->msg[i].msg_hdr;

		s->buf = u->rx.buffers + (size_t)i * SLOT_STRIDE;
		s->iov[0] = (struct iovec){.iov_base = s->buf, .iov_len = UDP_RX_BYTES};
		h->msg_iov = s->iov;
		h->msg_iovlen = 1;
		h->msg_name = &s->name;
		h->msg_namelen = sizeof(s->name);
		h->msg_control = u->rx.gro || u->rx.timestamps || u->ecn ? s->control : NULL;
		h->msg_controllen = h->msg_control ? sizeof(s->control) : 0;
	}
}

int uccl_udp_rx_open(struct udp *u)
{
	struct udp_rx *r = &u->rx;

	r->buffers_len = UDP_RX_BATCH * (size_t)SLOT_STRIDE;
	r->buffers = mmap(NULL, r->buffers_len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (r->buffers == MAP_FAILED)
		r->buffers = NULL;
	r->bank = calloc(1, sizeof(*r->bank));
	if (!r->buffers || !r->bank)
		return -FI_ENOMEM;
	bank_init(u);
	return 0;
}

void uccl_udp_rx_close(struct udp *u)
{
	if (u->rx.buffers)
		munmap(u->rx.buffers, u->rx.buffers_len);
	free(u->rx.bank);
}

/* Packets. */

static uint64_t clock_ns(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return (uint64_t)t.tv_sec * UCCL_NS_PER_S + (uint64_t)t.tv_nsec;
}

/*
 * The kernel tells arrivals by the one clock, the owner reckons by the other. This thread may lose its processor
 * between both readings, so they are taken again if their difference is another one than before. (A clock may have
 * been set.)
 */
static uint64_t realtime_ns(struct udp *u, uint64_t *read_ns)
{
	uint64_t realtime, apart;

	for (int i = 0;; i++) {
		*read_ns = clock_ns(CLOCK_MONOTONIC);
		realtime = clock_ns(CLOCK_REALTIME);
		apart = realtime - *read_ns;
		if (i == CLOCK_TRIES || apart - u->rx.clocks_apart + CLOCK_APART_NS <= 2 * CLOCK_APART_NS)
			break;
		u->rx.clocks_apart = apart;
	}
	return realtime;
}

/* At the place predicted for a GRO batch lie packets of the predicted length, or they are moved to the buffer. */
static void message_gro_batch(struct udp_slot *s, struct uccl_rx *r)
{
	uint32_t body = (uint32_t)uccl_min(r->len, s->iov[0].iov_len);

	if (r->each != s->gro_size) {
		memcpy(s->buf, s->iov[0].iov_base, body);
		return;
	}
	uccl_rx_run_at(r, s->iov[0].iov_base, body);
}

/* Put the parts of a scattered message together in its own buffer: header, predicted part, rest. */
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

/* What the kernel says about a message. `segment`: bytes of each packet if it was merged of several. */
static void message_control(const struct cmsghdr *h, uint64_t realtime, struct uccl_rx *r, uint32_t *segment)
{
	struct timespec t;
	uint64_t at;
	int value;

	switch (h->cmsg_level) {
	case SOL_SOCKET:
		if (h->cmsg_type != SCM_TIMESTAMPNS)
			break;
		memcpy(&t, CMSG_DATA(h), sizeof(t));
		at = (uint64_t)t.tv_sec * UCCL_NS_PER_S + (uint64_t)t.tv_nsec;
		if (at < realtime && realtime - at <= AGE_MAX_NS)
			r->age_ns = realtime - at;
		break;
	/* One byte, or an int of the host's order. Those of a train are all of one class. */
	case IPPROTO_IP:
		if (h->cmsg_type == IP_TOS)
			r->marked = IPTOS_ECN(CMSG_DATA(h)[0]) == IPTOS_ECN_CE;
		break;
	case IPPROTO_IPV6:
		if (h->cmsg_type != IPV6_TCLASS)
			break;
		memcpy(&value, CMSG_DATA(h), sizeof(value));
		r->marked = IPTOS_ECN(value) == IPTOS_ECN_CE;
		break;
	case IPPROTO_UDP:
		if (h->cmsg_type != UDP_GRO)
			break;
		memcpy(&value, CMSG_DATA(h), sizeof(value));
		*segment = value > 0 ? (uint32_t)value : 0;
		break;
	default:
		break;
	}
}

/* As CMSG_NXTHDR of what the kernel wrote, which needs fewer checks. */
static inline const struct cmsghdr *control_next(const struct msghdr *m, const struct cmsghdr *h)
{
	const uint8_t *next = (const uint8_t *)h + CMSG_ALIGN(h->cmsg_len);

	return next + sizeof(*h) <= (const uint8_t *)m->msg_control + m->msg_controllen ? (const void *)next : NULL;
}

/* Field by field: it takes fewer instructions than to clear all and then to set some. */
static void message_init(struct uccl_rx *r, const uint8_t *data, uint32_t len, uint64_t read_ns)
{
	r->kind = UCCL_RX_PACKET;
	r->split = r->run = r->marked = false;
	r->rail = 0;
	r->path = 0;
	r->len = len;
	r->body_len = r->rest_len = r->imm = r->each = 0;
	r->data = data;
	r->body = NULL;
	r->rest = NULL;
	r->age_ns = 0;
	r->read_ns = read_ns;
	r->peer = NULL;
	r->peer_id = r->cookie = 0;
}

/* Message i, with what the kernel says about it; `realtime` of its receive at read_ns, 0: no time stamps. */
static void message_take(struct udp_bank *b, int i, uint64_t realtime, uint64_t read_ns, struct uccl_rx *r)
{
	struct mmsghdr *m = &b->msg[i];
	struct udp_slot *s = &b->slot[i];
	uint32_t segment = 0;
	const struct cmsghdr *h;

	message_init(r, s->buf, m->msg_len, read_ns);
	uccl_ifaddr_from_sock(&r->src, m->msg_hdr.msg_name, m->msg_hdr.msg_namelen);
	for (h = CMSG_FIRSTHDR(&m->msg_hdr); h; h = control_next(&m->msg_hdr, h))
		message_control(h, realtime, r, &segment);
	if (segment && segment < r->len) {
		r->each = segment;
		message_join(b, i, r->len);
	}
	if (m->msg_hdr.msg_iovlen == GRO_BATCH)
		message_gro_batch(s, r);
	if (m->msg_hdr.msg_iovlen == SPLIT && r->len > UCCL_HDR_LEN) {
		r->split = true;
		r->body = s->iov[1].iov_base;
		r->body_len = (uint32_t)uccl_min(r->len - UCCL_HDR_LEN, s->iov[1].iov_len);
		r->rest = s->buf + UCCL_HDR_LEN;
		r->rest_len = r->len - UCCL_HDR_LEN - r->body_len;
	}
}

static void bank_prepare(struct udp_bank *b, const struct uccl_rx_placement *places, int nplaces)
{
	int i, all = nplaces > b->hinted ? nplaces : b->hinted;

	for (i = 0; i < b->used; i++) {
		struct msghdr *h = &b->msg[i].msg_hdr;

		h->msg_namelen = sizeof(b->slot[i].name);
		h->msg_controllen = h->msg_control ? UDP_RX_CONTROL : 0;
	}
	b->used = 0;
	for (i = 0; i < all; i++) {
		struct udp_slot *s = &b->slot[i];
		bool hint = i < nplaces && places[i].len;

		s->iov[0] = (struct iovec){.iov_base = s->buf, .iov_len = hint ? UCCL_HDR_LEN : UDP_RX_BYTES};
		b->msg[i].msg_hdr.msg_iovlen = hint ? SPLIT : 1;
		if (!hint)
			continue;
		if (places[i].each) {
			s->gro_size = places[i].each;
			s->iov[0] = (struct iovec){.iov_base = places[i].dst, .iov_len = places[i].len};
			/* Where it would be if the GRO batch had been received here, too. */
			s->iov[1] = (struct iovec){.iov_base = s->buf + places[i].len,
						   .iov_len = UDP_RX_BYTES - places[i].len};
			b->msg[i].msg_hdr.msg_iovlen = GRO_BATCH;
			continue;
		}
		s->iov[1] = (struct iovec){.iov_base = places[i].dst, .iov_len = places[i].len};
		s->iov[2] = (struct iovec){.iov_base = s->buf + UCCL_HDR_LEN, .iov_len = UDP_RX_BYTES - UCCL_HDR_LEN};
	}
	b->hinted = nplaces;
}

/* Up to n messages of the kernel: their number, or -1 and errno. For one there is a call that takes less. */
static int messages_receive(const struct udp *u, struct mmsghdr *m, int n)
{
	ssize_t len;

	if (n > 1)
		return recvmmsg(u->rx_fd, m, (unsigned int)n, MSG_DONTWAIT, NULL);
	len = recvmsg(u->rx_fd, &m->msg_hdr, MSG_DONTWAIT);
	if (len < 0)
		return -1;
	m->msg_len = (unsigned int)len;
	return 1;
}

/* Up to n messages of the kernel. Their number, 0, or a negative error. */
static int batch_receive(struct udp *u, int n, const struct uccl_rx_placement *places, int nplaces)
{
	struct udp_bank *b = u->rx.bank;
	int got;

	if (n > UDP_RX_BATCH)
		n = UDP_RX_BATCH;
	bank_prepare(b, places, nplaces < n ? nplaces : n);
	do {
		got = messages_receive(u, b->msg, n);
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

int uccl_udp_rx(struct uccl_nic *nic, struct uccl_rx *v, int n, const struct uccl_rx_placement *places, int nplaces)
{
	struct udp *u = udp_of(nic);
	uint64_t realtime = 0, read_ns = 0;
	int k = 0, got;

	uccl_udp_reports_poll(u);
	if (u->reports.nevents)
		k = uccl_udp_events_take(u, v, n);
	if (k == n)
		return k;
	got = nic->empty ? 0 : batch_receive(u, n - k, nplaces > k ? places + k : NULL, nplaces > k ? nplaces - k : 0);
	if (got < 0)
		return k ? k : got;
	if (got)
		uccl_udp_reports_received(u);
	else if (uccl_udp_reports_poll_empty(u))
		k += uccl_udp_events_take(u, v + k, n - k);
	if (nic->empty)
		return k;
	if (got && u->rx.timestamps)
		realtime = realtime_ns(u, &read_ns);
	uccl_udp_reports_read(u, read_ns);
	for (int i = 0; i < got; i++, k++) {
		message_take(u->rx.bank, i, realtime, read_ns, &v[k]);
		if (u->handshake.guard.version && !uccl_udp_guard_may(u, &v[k]))
			v[k].kind = UCCL_RX_REFUSED;
	}
	return k && uccl_udp_handshake_rests(&u->handshake) ? k : uccl_udp_handshake_rx(u, v, k, n, !k, read_ns);
}
