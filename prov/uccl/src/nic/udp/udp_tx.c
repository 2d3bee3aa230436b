/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Sending on UDP sockets. Neighbours of one label go down in one system call; neighbours of one size to one place
 * become one train that the kernel or the NIC cuts (UDP_SEGMENT). The kernel copies everything before the call returns.
 */
#include <errno.h>
#include <netinet/udp.h>
#include <stdlib.h>
#include <string.h>

#include <rdma/fi_errno.h>

#include "base/log.h"
#include "nic/gso.h"
#include "nic/udp/udp_reports.h"

#define TX_TRIES 3 /* of one message after errors that belong to an earlier one */
/* A queue that stays full for so long is none: the interface takes no packet of this length. */
#define FULL_MAX_NS (20 * UCCL_NS_PER_MS)

enum verdict { TX_AGAIN, TX_LOST, TX_FULL, TX_REBUILD, TX_BAD };

static bool same_place(const struct uccl_tx *a, const struct uccl_tx *b)
{
	return a->to == b->to || uccl_ifaddr_equal(a->to, b->to);
}

static int packet_gather(struct iovec *iov, struct uccl_tx *t)
{
	int n = 0;

	if (t->hdr_len)
		iov[n++] = (struct iovec){.iov_base = t->hdr, .iov_len = t->hdr_len};
	if (t->payload_len)
		iov[n++] = (struct iovec){.iov_base = (void *)t->payload, .iov_len = t->payload_len};
	if (t->tail_len)
		iov[n++] = (struct iovec){.iov_base = t->tail, .iov_len = t->tail_len};
	return n;
}

/* The parts of n packets that leave together. Those that follow another one differ from it in place only. */
static int train_gather(struct iovec *iov, struct uccl_tx *v, int n)
{
	const struct uccl_tx *end = v + n;
	uint32_t payload_len = v->payload_len;
	struct iovec *at = iov + packet_gather(iov, v);

	for (v++; v < end; v++)
		if (v->burst == UCCL_BURST_FOLLOWS && v->payload_len == payload_len && !v->tail_len) {
			at[0] = (struct iovec){.iov_base = v->hdr, .iov_len = v->hdr_len};
			at[1] = (struct iovec){.iov_base = (void *)v->payload, .iov_len = payload_len};
			at += 2;
		} else {
			at += packet_gather(at, v);
		}
	return (int)(at - iov);
}

/*
 * A short train of payload that we may read as one piece, at `flat`, which has `room` bytes. A copy within the cache
 * costs less than what the kernel takes for two pieces a packet. Returns its bytes; 0: it stays where it is.
 */
static uint32_t train_flatten(uint8_t *flat, uint32_t room, const struct uccl_tx *v, int n)
{
	uint8_t *p = flat;

	if ((uint32_t)n * uccl_tx_len(v) > room)
		return 0;
	for (int i = 0; i < n; i++)
		if (!v[i].ours)
			return 0;
	for (int i = 0; i < n; i++) {
		memcpy(p, v[i].hdr, v[i].hdr_len);
		p += v[i].hdr_len;
		if (v[i].payload_len)
			memcpy(p, v[i].payload, v[i].payload_len);
		p += v[i].payload_len;
		memcpy(p, v[i].tail, v[i].tail_len);
		p += v[i].tail_len;
	}
	return (uint32_t)(p - flat);
}

/* Add a control message to those of h, which lie in `control`. */
static void control_add(struct msghdr *h, uint8_t *control, int level, int type, const void *value, size_t len)
{
	struct cmsghdr *c = (struct cmsghdr *)(control + h->msg_controllen);

	h->msg_control = control;
	h->msg_controllen += CMSG_SPACE(len);
	c->cmsg_level = level;
	c->cmsg_type = type;
	c->cmsg_len = CMSG_LEN(len);
	memcpy(CMSG_DATA(c), value, len);
}

static void segment_add(struct msghdr *h, uint8_t *control, uint32_t size)
{
	uint16_t value = (uint16_t)size;

	control_add(h, control, IPPROTO_UDP, UDP_SEGMENT, &value, sizeof(value));
}

/* Another TOS byte than that of the socket. */
static void tos_add(struct msghdr *h, uint8_t *control, const struct uccl_nic_addr *to, int tos)
{
	if (uccl_ifaddr_is_v4(to))
		control_add(h, control, IPPROTO_IP, IP_TOS, &tos, sizeof(tos));
	else
		control_add(h, control, IPPROTO_IPV6, IPV6_TCLASS, &tos, sizeof(tos));
}

/* Make messages of the first packets of v that share a label. Returns how many messages. */
static int batch_build(struct udp *u, struct uccl_tx *v, int n)
{
	struct udp_tx_batch *b = u->tx.batch;
	struct sockaddr_storage *name = NULL;
	socklen_t name_len = 0;
	int i = 0, m = 0, niov = 0;
	uint32_t used = 0, flat;
	uint8_t tos;

	_Static_assert(CMSG_SPACE(sizeof(uint16_t)) + CMSG_SPACE(sizeof(int)) <= UDP_TX_CONTROL, "control room");
	while (i < n && i < UDP_TX_BATCH && v[i].label == v[0].label && v[i].answer == v[0].answer) {
		struct msghdr *h = &b->msg[m].msg_hdr;
		int left = n < UDP_TX_BATCH ? n - i : UDP_TX_BATCH - i;
		int end = i + uccl_train_len(&v[i], left, u->tx.gso ? UCCL_TRAIN_BYTES : 0);

		if (!m || !same_place(&v[i - 1], &v[i])) {
			name = &b->name[m];
			name_len = uccl_ifaddr_to_sock(name, v[i].to, u->family);
		}
		h->msg_name = name_len ? name : NULL;
		h->msg_namelen = name_len;
		h->msg_iov = &b->iov[niov];
		h->msg_control = NULL;
		h->msg_controllen = 0;
		h->msg_flags = 0;
		flat = 0;
		if (end - i > 1) {
			segment_add(h, b->control[m], uccl_tx_len(&v[i]));
			flat = train_flatten(b->flat + used, UDP_TX_FLAT - used, &v[i], end - i);
		}
		tos = uccl_udp_tos(u, &v[i]);
		if (tos != u->tos)
			tos_add(h, b->control[m], v[i].to, tos);
		b->first[m++] = i;
		if (flat) {
			b->iov[niov++] = (struct iovec){.iov_base = b->flat + used, .iov_len = flat};
			used += flat;
		} else {
			niov += train_gather(&b->iov[niov], &v[i], end - i);
		}
		i = end;
		h->msg_iovlen = (size_t)(&b->iov[niov] - h->msg_iov);
	}
	b->first[m] = i;
	return m;
}

/*
 * ENOBUFS: a queue of the host was full and dropped the packet. That passes; but a link between virtual machines whose
 * other side takes no packets of this length (MTU) reports the same for ever, and would stop all packets behind it.
 */
static enum verdict dropped_judge(struct udp *u, uint32_t len)
{
	uint64_t now;

	if (len >= u->tx.refused_len)
		return TX_LOST;
	now = uccl_udp_now();
	if (!u->tx.full_since)
		u->tx.full_since = now;
	if (now - u->tx.full_since < FULL_MAX_NS)
		return TX_FULL;
	u->tx.full_since = 0;
	u->tx.refused_len = len;
	return TX_LOST;
}

static void packet_taken(struct udp *u, uint32_t len)
{
	u->tx.full_since = 0;
	if (len >= u->tx.refused_len)
		u->tx.refused_len = UINT32_MAX;
}

/* `len`: bytes of one packet of the message, which is a `train` or not. */
static enum verdict error_judge(struct udp *u, struct udp_sock *s, bool train, uint32_t len, int error, int tries)
{
	switch (error) {
	case EAGAIN:
	case ENOMEM:
		return TX_FULL;
	case ENOBUFS:
		return dropped_judge(u, len);
	case EINTR:
		return TX_AGAIN;
	case EFAULT:
		return TX_BAD;
	case EIO:
	case EINVAL:
		if (!train)
			return TX_LOST;
		/* No checksum offload on the way out, or packets too long: the kernel cannot cut the train. */
		u->tx.gso = false;
		u->tx.gso_doubt = true;
		return TX_REBUILD;
	default:
		/*
		 * Often the report of an earlier packet (ICMP), for which this call sent nothing. If it is EMSGSIZE
		 * again, the interface carries less than before: losses will show it.
		 */
		uccl_udp_errors(u, s);
		return tries < TX_TRIES ? TX_AGAIN : TX_LOST;
	}
}

static void lost_log(struct udp *u, int error)
{
	u->tx.errors++;
	if (!(u->tx.errors & (u->tx.errors - 1)))
		UCCL_LOG(UCCL_LOG_INFO, "the system refused to send: error %d, %llu times so far", error,
			 (unsigned long long)u->tx.errors);
}

/* A packet left that the kernel would not take as part of a train. */
static void gso_judge(struct udp *u)
{
	if (!u->tx.gso_doubt)
		return;
	u->tx.gso_doubt = false;
	UCCL_LOG(UCCL_LOG_INFO, "UDP segmentation refused, sending packet by packet");
}

/*
 * Answers to unauthenticated hosts leave at our port, by a socket without reports (no RECVERR). At a label's socket
 * each report of a closed port would be the error of the next packet to a peer. PROTOCOL R157
 */
static struct udp_sock answer_sock(const struct udp *u)
{
	int fd = u->handshake.socket[UDP_HANDSHAKE_UNAUTHENTICATED].fd;

	return (struct udp_sock){.fd = fd >= 0 ? fd : u->rx_fd};
}

/*
 * Send the packets at v that share a label. Returns how many were taken; *stop says why not more: the queue has no
 * room (1), or the next packet's payload is not memory that we may read (-FI_EFAULT).
 */
static int batch_send(struct udp *u, struct uccl_tx *v, int n, int *stop)
{
	struct udp_sock answer = answer_sock(u);
	struct udp_sock *s = v[0].answer ? &answer : uccl_udp_sock(u, v[0].label);
	struct udp_tx_batch *b = u->tx.batch;
	int m = 0, tries = 0, count = batch_build(u, v, n), sent, error;

	while (m < count) {
		uint32_t len = uccl_tx_len(&v[b->first[m]]);

		if (!b->msg[m].msg_hdr.msg_name) {
			lost_log(u, EAFNOSUPPORT); /* an address that our sockets cannot name */
			m++;
			continue;
		}
		if (count - m == 1)
			sent = sendmsg(s->fd, &b->msg[m].msg_hdr, MSG_DONTWAIT | MSG_NOSIGNAL) < 0 ? -1 : 1;
		else
			sent = sendmmsg(s->fd, &b->msg[m], (unsigned int)(count - m), MSG_DONTWAIT | MSG_NOSIGNAL);
		if (sent > 0) {
			gso_judge(u);
			packet_taken(u, len);
			m += sent;
			tries = 0;
			continue;
		}
		error = errno;
		switch (error_judge(u, s, b->first[m + 1] - b->first[m] > 1, len, error, tries++)) {
		case TX_AGAIN:
			break;
		case TX_LOST:
			/* The train was not the reason. */
			u->tx.gso |= u->tx.gso_doubt && error == EMSGSIZE;
			u->tx.gso_doubt &= !u->tx.gso;
			lost_log(u, error);
			m++;
			tries = 0;
			break;
		case TX_FULL:
			*stop = 1;
			return b->first[m];
		case TX_BAD:
			*stop = -FI_EFAULT;
			return b->first[m];
		case TX_REBUILD:
			return b->first[m];
		}
	}
	return b->first[count];
}

int uccl_udp_tx_open(struct udp *u)
{
	socklen_t len = sizeof(int);
	int value;

	u->tx.refused_len = UINT32_MAX;
	u->tx.gso = !getsockopt(u->labels.sock[0].fd, IPPROTO_UDP, UDP_SEGMENT, &value, &len);
	u->tx.batch = calloc(1, sizeof(*u->tx.batch));
	return u->tx.batch ? 0 : -FI_ENOMEM;
}

void uccl_udp_tx_trains_off(struct udp *u)
{
	u->tx.gso = false;
}

int uccl_udp_tx(struct uccl_nic *nic, struct uccl_tx *v, int n)
{
	struct udp *u = udp_of(nic);
	int done = 0, stop = 0;

	uccl_udp_reports_sent(u);
	while (done < n && !stop)
		done += batch_send(u, v + done, n - done, &stop);
	/* What was taken comes first; the error is the answer to the call that begins with its cause. */
	return done || stop >= 0 ? done : stop;
}
