/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "tap.h"

#include <arpa/inet.h>
#include <dlfcn.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <string.h>
#include <sys/socket.h>

#ifndef UDP_SEGMENT
#define UDP_SEGMENT 103
#endif

#define PUBLIC __attribute__((visibility("default")))
#define PORTS 65536

static struct {
	uint64_t packets, bytes;
} sent[PORTS];
static struct tap_packet *keep;
static size_t keep_max, kept;
static uint16_t keep_port;

uint64_t tap_count(uint16_t port, uint64_t *bytes)
{
	if (bytes)
		*bytes = sent[port].bytes;
	return sent[port].packets;
}

void tap_keep(uint16_t port, struct tap_packet *v, size_t n)
{
	keep = v;
	keep_max = n;
	keep_port = port;
	kept = 0;
}

size_t tap_kept(void)
{
	return kept;
}

static int port_of(const struct msghdr *h)
{
	const struct sockaddr *sa = h->msg_name;

	if (!sa)
		return -1;
	if (sa->sa_family == AF_INET)
		return ntohs(((const struct sockaddr_in *)sa)->sin_port);
	if (sa->sa_family == AF_INET6)
		return ntohs(((const struct sockaddr_in6 *)sa)->sin6_port);
	return -1;
}

static uint32_t segment_of(struct msghdr *h)
{
	struct cmsghdr *c;

	for (c = h->msg_control ? CMSG_FIRSTHDR(h) : NULL; c; c = CMSG_NXTHDR(h, c)) {
		uint16_t v;

		if (c->cmsg_level != IPPROTO_UDP || c->cmsg_type != UDP_SEGMENT)
			continue;
		memcpy(&v, CMSG_DATA(c), sizeof(v));
		return v;
	}
	return 0;
}

/* Bytes [off, off + len) of a message. */
static void gather(const struct msghdr *h, size_t off, uint8_t *out, size_t len)
{
	for (size_t i = 0; i < h->msg_iovlen && len; i++) {
		size_t have = h->msg_iov[i].iov_len, n;

		if (off >= have) {
			off -= have;
			continue;
		}
		n = have - off < len ? have - off : len;
		memcpy(out, (const uint8_t *)h->msg_iov[i].iov_base + off, n);
		out += n;
		len -= n;
		off = 0;
	}
}

static void note(struct msghdr *h)
{
	int port = port_of(h);
	uint32_t seg = segment_of(h);
	size_t len = 0;

	if (port < 0)
		return;
	for (size_t i = 0; i < h->msg_iovlen; i++)
		len += h->msg_iov[i].iov_len;
	sent[port].packets += seg && len ? (len + seg - 1) / seg : 1;
	sent[port].bytes += len;
	if (port != keep_port || !keep)
		return;
	if (!seg)
		seg = (uint32_t)len;
	for (size_t off = 0; off < len && kept < keep_max; off += seg) {
		struct tap_packet *p = &keep[kept++];

		p->full = (uint32_t)(len - off < seg ? len - off : seg);
		p->len = p->full < sizeof(p->data) ? (uint16_t)p->full : (uint16_t)sizeof(p->data);
		p->port = (uint16_t)port;
		gather(h, off, p->data, p->len);
	}
}

PUBLIC ssize_t sendmsg(int fd, const struct msghdr *h, int flags)
{
	static ssize_t (*next)(int, const struct msghdr *, int);
	struct msghdr copy = *h;
	ssize_t rc;

	if (!next)
		*(void **)&next = dlsym(RTLD_NEXT, "sendmsg");
	rc = next(fd, h, flags);
	if (rc >= 0)
		note(&copy);
	return rc;
}

PUBLIC int sendmmsg(int fd, struct mmsghdr *v, unsigned int n, int flags)
{
	static int (*next)(int, struct mmsghdr *, unsigned int, int);
	int rc;

	if (!next)
		*(void **)&next = dlsym(RTLD_NEXT, "sendmmsg");
	rc = next(fd, v, n, flags);
	for (int i = 0; i < rc; i++)
		note(&v[i].msg_hdr);
	return rc;
}
