/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Sending on UDP sockets. Neighbours of one label go down in one system call; neighbours of one size to one place
 * become one train that the kernel or the NIC cuts (UDP_SEGMENT). The kernel copies everything before the call returns.
 */
#include <errno.h>
#include <netinet/udp.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <rdma/fi_errno.h>

#include "base/log.h"
#include "nic/gso.h"
#include "nic/udp/udp_reports.h"

#define TX_FLAGS (MSG_DONTWAIT | MSG_NOSIGNAL)
#define TX_TRIES 3 /* of one message after errors that belong to an earlier one */
/* A queue that stays full for so long is none: the interface takes no packet of this length. */
#define FULL_MAX_NS (20 * UCCL_NS_PER_MS)

enum verdict { TX_AGAIN, TX_LOST, TX_FULL, TX_REBUILD, TX_BAD };

static bool same_place(const struct uccl_tx *a, const struct uccl_tx *b)
{
	return a->to == b->to || uccl_ifaddr_equal(a->to, b->to);
}

static struct iovec *packet_gather(struct iovec *at, struct uccl_tx *t)
{
	if (t->hdr_len)
		*at++ = (struct iovec){.iov_base = t->hdr, .iov_len = t->hdr_len};
	if (t->payload_len)
		*at++ = (struct iovec){.iov_base = (void *)t->payload, .iov_len = t->payload_len};
	if (t->tail_len)
		*at++ = (struct iovec){.iov_base = t->tail, .iov_len = t->tail_len};
	return at;
}

/* The parts of n packets of a row, from packet `from` on. Their headers go to hdr. */
static struct iovec *row_gather(struct iovec *at, uint8_t (*hdr)[UCCL_HDR_LEN], const struct uccl_tx *t, uint32_t from,
				uint32_t n)
{
	const uint8_t *payload = uccl_tx_row_payload(t, from);
	uint32_t len = t->payload_len;

	for (uint32_t end = from + n; from < end; from++, hdr++, payload += len) {
		uccl_tx_row_hdr(*hdr, t->hdr, from);
		*at++ = (struct iovec){.iov_base = *hdr, .iov_len = UCCL_HDR_LEN};
		*at++ = (struct iovec){.iov_base = (void *)payload, .iov_len = len};
	}
	return at;
}

/*
 * A short train of payload that we may read becomes one piece, at `flat`, which has `room` bytes. A copy within the
 * cache costs less than what the kernel takes for two pieces a packet. Returns its bytes; 0: it stays where it is.
 */
static uint32_t train_flatten(uint8_t *flat, uint32_t room, const struct iovec *iov, const struct iovec *end)
{
	uint32_t len = 0;

	for (const struct iovec *v = iov; v < end; v++)
		len += (uint32_t)v->iov_len;
	if (len > room)
		return 0;
	for (const struct iovec *v = iov; v < end; v++) {
		memcpy(flat, v->iov_base, v->iov_len);
		flat += v->iov_len;
	}
	return len;
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

/*
 * The next message, from `from` on, of at most `room` packets: where the one behind it begins, and its packets. A row
 * that is longer than a train may be is cut.
 */
static struct udp_tx_place message_end(const struct udp *u, const struct uccl_tx *v, int n, struct udp_tx_place from,
				       uint32_t room, uint32_t *packets)
{
	const struct uccl_tx *t = &v[from.at];
	uint32_t bytes = u->tx.gso && !t->single ? UCCL_TRAIN_BYTES : 0, most;

	most = bytes ? (uint32_t)uccl_clamp(bytes / uccl_max(uccl_tx_len(t), 1), 1, room) : 1;
	*packets = t->row + 1u - from.of;
	if (*packets > most) {
		*packets = most;
		return (struct udp_tx_place){from.at, from.of + most};
	}
	if (from.of)
		return (struct udp_tx_place){from.at + 1, 0};
	return (struct udp_tx_place){from.at + uccl_train_rows(t, n - from.at, room, bytes, packets), 0};
}

/* The parts of a message of so many packets. Those of packets of rows need headers, which are at *hdr. */
static struct iovec *message_gather(struct iovec *at, uint8_t (**hdr)[UCCL_HDR_LEN], struct uccl_tx *v,
				    struct udp_tx_place from, uint32_t packets)
{
	for (; packets; from = (struct udp_tx_place){from.at + 1, 0}) {
		struct uccl_tx *t = &v[from.at];
		uint32_t n = (uint32_t)uccl_min(packets, t->row + 1u - from.of);

		if (t->row) {
			at = row_gather(at, *hdr, t, from.of, n);
			*hdr += n;
		} else {
			at = packet_gather(at, t);
		}
		packets -= n;
	}
	return at;
}

static bool all_ours(const struct uccl_tx *v, struct udp_tx_place from, struct udp_tx_place end)
{
	for (int i = from.at; i < end.at + (end.of > 0); i++)
		if (!v[i].ours)
			return false;
	return true;
}

/*
 * Make messages of the first packets of v that share a label, or go to the peer of `connected`. Returns how many
 * messages.
 */
static int batch_build(struct udp *u, const struct udp_connected_socket *connected, struct uccl_tx *v, int n)
{
	struct udp_tx_batch *b = u->tx.batch;
	struct sockaddr_storage *name = NULL;
	struct udp_tx_place at = {0, 0}, end;
	uint8_t (*hdr)[UCCL_HDR_LEN] = b->hdr;
	struct iovec *iov = b->iov, *iov_end;
	socklen_t name_len = 0;
	uint32_t used = 0, flat, packets, room = UDP_TX_BATCH;
	int m = 0;
	uint8_t tos, base = connected ? connected->tos : u->tos;

	_Static_assert(CMSG_SPACE(sizeof(uint16_t)) + CMSG_SPACE(sizeof(int)) <= UDP_TX_CONTROL, "control room");
	for (; at.at < n && room; at = end, room -= packets) {
		struct uccl_tx *t = &v[at.at];
		struct msghdr *h = &b->msg[m].msg_hdr;

		/* A row waits for the next batch if it does not fit in this one. */
		if (t->label != v[0].label || t->answer != v[0].answer || (m && !at.of && t->row >= room) ||
		    (connected && (!same_place(&v[0], t) || t->control != UCCL_TX_PAYLOAD)))
			break;
		end = message_end(u, v, n, at, room, &packets);
		if (!m || (!at.of && !same_place(t - 1, t))) {
			name = &b->name[m];
			name_len = uccl_ifaddr_to_sock(name, t->to, u->family);
		}
		h->msg_name = name_len && !connected ? name : NULL;
		h->msg_namelen = connected ? 0 : name_len;
		h->msg_iov = iov;
		h->msg_control = NULL;
		h->msg_controllen = 0;
		h->msg_flags = 0;
		iov_end = message_gather(iov, &hdr, v, at, packets);
		flat = 0;
		if (packets > 1) {
			segment_add(h, b->control[m], uccl_tx_len(t));
			if (all_ours(v, at, end))
				flat = train_flatten(b->flat + used, UDP_TX_FLAT - used, iov, iov_end);
		}
		tos = uccl_udp_tos(u, t);
		if (tos != base)
			tos_add(h, b->control[m], t->to, tos);
		if (flat) {
			*iov = (struct iovec){.iov_base = b->flat + used, .iov_len = flat};
			iov_end = iov + 1;
			used += flat;
		}
		h->msg_iovlen = (size_t)(iov_end - iov);
		iov = iov_end;
		b->packets[m] = packets;
		b->first[m++] = at;
	}
	b->first[m] = at;
	return m;
}

/* Everything before message m has left. Returns how many of v that are. */
static int batch_left(const struct udp_tx_batch *b, struct uccl_tx *v, int m)
{
	if (b->first[m].of)
		uccl_tx_row_skip(&v[b->first[m].at], b->first[m].of);
	return b->first[m].at;
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
 * room (1), or the next packet's payload is not memory that we may read (-FI_EFAULT). `refused`: the kernel refused the
 * first one just now with this error; 0: it was not asked.
 */
static int batch_send(struct udp *u, struct uccl_tx *v, int n, int refused, int *stop)
{
	struct udp_connected_socket *connected = uccl_udp_connected(u, &v[0], uccl_udp_tos(u, &v[0]));
	struct udp_sock answer = answer_sock(u);
	struct udp_sock *s = v[0].answer ? &answer : connected ? &connected->sock : uccl_udp_sock(u, v[0].label);
	struct udp_tx_batch *b = u->tx.batch;
	int m = 0, tries = 0, count = batch_build(u, connected, v, n), sent, error;

	for (int i = 0; i < count; i++)
		uccl_udp_connected_left(u, connected, &v[b->first[i].at], b->packets[i]);
	while (m < count) {
		uint32_t len = uccl_tx_len(&v[b->first[m].at]);

		if (!b->msg[m].msg_hdr.msg_name && !connected) {
			lost_log(u, EAFNOSUPPORT); /* an address that our sockets cannot name */
			m++;
			continue;
		}
		if (refused)
			sent = -1;
		else if (count - m == 1)
			sent = sendmsg(s->fd, &b->msg[m].msg_hdr, TX_FLAGS) < 0 ? -1 : 1;
		else
			sent = sendmmsg(s->fd, &b->msg[m], (unsigned int)(count - m), TX_FLAGS);
		if (sent > 0) {
			gso_judge(u);
			packet_taken(u, len);
			m += sent;
			tries = 0;
			continue;
		}
		error = refused ? refused : errno;
		refused = 0;
		switch (error_judge(u, s, b->packets[m] > 1, len, error, tries++)) {
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
			return batch_left(b, v, m);
		case TX_BAD:
			*stop = -FI_EFAULT;
			return batch_left(b, v, m);
		case TX_REBUILD:
			return batch_left(b, v, m);
		}
	}
	return batch_left(b, v, count);
}

static void name_fill(struct udp_tx_name *name, const struct uccl_nic_addr *to, int family)
{
	struct sockaddr_storage sa = {0};

	name->to = *to;
	name->len = uccl_ifaddr_to_sock(&sa, to, family);
	memcpy(&name->name, &sa, sizeof(name->name));
	name->v4 = uccl_ifaddr_is_v4(to);
}

/* An address as the kernel knows it. Valid until the next call. */
static const struct udp_tx_name *name_find(const struct udp *u, const struct uccl_nic_addr *to)
{
	/* Peers differ in the last byte of their address, or in their ports. */
	struct udp_tx_name *name = &u->tx.lone->names[(to->port + to->ip[15]) % UDP_TX_NAMES];

	if (memcmp(&name->to, to, sizeof(*to)))
		name_fill(name, to, u->family);
	return name;
}

static void lone_control(const struct udp *u, struct udp_tx_lone *l, const struct uccl_nic_addr *to, uint8_t tos)
{
	l->msg.msg_control = NULL;
	l->msg.msg_controllen = 0;
	if (tos != u->tos)
		tos_add(&l->msg, l->control, to, tos);
}

/* Name in l->msg where a packet goes, and its TOS byte if that is not the socket's. False: our sockets cannot. */
static bool lone_address(const struct udp *u, struct udp_tx_lone *l, const struct uccl_nic_addr *to, uint8_t tos)
{
	const struct udp_tx_name *name = name_find(u, to);

	if (!name->len)
		return false;
	if (l->control_of != (tos | name->v4 << 8)) {
		lone_control(u, l, to, tos);
		l->control_of = (uint16_t)(tos | name->v4 << 8);
	}
	l->msg.msg_name = (void *)(uintptr_t)&name->name;
	l->msg.msg_namelen = name->len;
	return true;
}

/*
 * One packet and nothing else: as most of what short messages need. False: it is to go as a batch; *error: the kernel
 * has refused it with this error, or was not asked (0).
 */
static bool lone_send(struct udp *u, struct uccl_tx *t, int *error)
{
	struct udp_tx_lone *l = u->tx.lone;
	struct udp_connected_socket *connected;
	struct msghdr *h = &l->msg, plain = {.msg_iov = l->iov};
	uint8_t tos = uccl_udp_tos(u, t);
	int fd;

	*error = 0;
	if (t->row || t->answer)
		return false;
	connected = uccl_udp_connected(u, t, tos);
	if (connected) {
		h = &plain;
		fd = connected->sock.fd;
	} else {
		if (!lone_address(u, l, t->to, tos))
			return false;
		fd = uccl_udp_sock(u, t->label)->fd;
	}
	h->msg_iovlen = (size_t)(packet_gather(l->iov, t) - l->iov);
	if (sendmsg(fd, h, TX_FLAGS) < 0) {
		*error = errno;
		return false;
	}
	uccl_udp_connected_left(u, connected, t, 1);
	gso_judge(u);
	packet_taken(u, uccl_tx_len(t));
	return true;
}

int uccl_udp_tx_open(struct udp *u)
{
	socklen_t len = sizeof(int);
	int value;

	u->tx.refused_len = UINT32_MAX;
	u->tx.gso = !getsockopt(u->labels.sock[0].fd, IPPROTO_UDP, UDP_SEGMENT, &value, &len);
	u->tx.batch = calloc(1, sizeof(*u->tx.batch));
	u->tx.lone = calloc(1, sizeof(*u->tx.lone));
	if (!u->tx.batch || !u->tx.lone)
		return -FI_ENOMEM;
	u->tx.lone->msg.msg_iov = u->tx.lone->iov;
	u->tx.lone->control_of = UINT16_MAX;
	return 0;
}

void uccl_udp_tx_trains_off(struct udp *u)
{
	u->tx.gso = false;
}

int uccl_udp_tx(struct uccl_nic *nic, struct uccl_tx *v, int n)
{
	struct udp *u = udp_of(nic);
	int done = 0, stop = 0, refused = 0;

	uccl_udp_reports_sent(u);
	if (n == 1 && lone_send(u, v, &refused))
		return 1;
	for (; done < n && !stop; refused = 0)
		done += batch_send(u, v + done, n - done, refused, &stop);
	/* What was taken comes first; the error is the answer to the call that begins with its cause. */
	return done || stop >= 0 ? done : stop;
}
