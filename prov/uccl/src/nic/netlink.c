/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "nic/netlink.h"

#include <errno.h>
#include <linux/rtnetlink.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <rdma/fi_errno.h>

#define STALE_MAX 16 /* answers to earlier questions that are passed over */

int uccl_netlink_open(uint32_t groups)
{
	struct sockaddr_nl at = {.nl_family = AF_NETLINK, .nl_groups = groups};
	int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_ROUTE), err;

	if (fd < 0)
		return -errno;
	if (bind(fd, (struct sockaddr *)&at, sizeof(at))) {
		err = -errno;
		close(fd);
		return err;
	}
	return fd;
}

void uccl_netlink_add(void *message, uint16_t type, const void *value, uint16_t len)
{
	struct nlmsghdr *h = message;
	struct rtattr *a = (struct rtattr *)((uint8_t *)message + NLMSG_ALIGN(h->nlmsg_len));

	a->rta_type = type;
	a->rta_len = (uint16_t)RTA_LENGTH(len);
	memcpy(RTA_DATA(a), value, len);
	h->nlmsg_len = (uint32_t)(NLMSG_ALIGN(h->nlmsg_len) + RTA_ALIGN(a->rta_len));
}

/* What arrived as `got` bytes. 1: an answer to something else. */
static int answer_judge(const uint8_t *answer, uint32_t got, uint32_t seq, uint16_t want)
{
	const struct nlmsghdr *h = (const struct nlmsghdr *)answer;
	struct nlmsgerr error;

	if (!NLMSG_OK(h, got))
		return -FI_EIO;
	if (h->nlmsg_seq != seq)
		return 1;
	if (h->nlmsg_type == want)
		return 0;
	if (h->nlmsg_type != NLMSG_ERROR || h->nlmsg_len < NLMSG_LENGTH(sizeof(error)))
		return -FI_EIO;
	memcpy(&error, NLMSG_DATA(h), sizeof(error));
	return error.error < 0 ? error.error : -FI_EIO;
}

static uint32_t sequence_next(void)
{
	static _Atomic uint32_t last;

	return ++last;
}

int uccl_netlink_ask(int fd, struct nlmsghdr *ask, uint8_t *answer, uint32_t room, uint16_t want)
{
	struct sockaddr_nl from;
	socklen_t len;
	ssize_t got;
	int rc;

	ask->nlmsg_flags = NLM_F_REQUEST;
	ask->nlmsg_seq = sequence_next();
	if (send(fd, ask, ask->nlmsg_len, 0) < 0)
		return -errno;
	/* The kernel answers while it is asked. */
	for (int i = 0; i < STALE_MAX; i++) {
		len = sizeof(from);
		got = recvfrom(fd, answer, room, MSG_TRUNC, (struct sockaddr *)&from, &len);
		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return -errno;
		if (from.nl_pid)
			continue; /* another process, not the kernel */
		if ((size_t)got > room)
			return -FI_EIO;
		rc = answer_judge(answer, (uint32_t)got, ask->nlmsg_seq, want);
		if (rc <= 0)
			return rc;
	}
	return -FI_EIO;
}

/* The answers in one datagram. 1: more follow. */
static int list_part(const uint8_t *part, uint32_t left, uint32_t seq, void (*each)(void *, const struct nlmsghdr *),
		     void *arg)
{
	const struct nlmsghdr *h = (const struct nlmsghdr *)part;
	struct nlmsgerr error;

	for (; NLMSG_OK(h, left); h = NLMSG_NEXT(h, left)) {
		if (h->nlmsg_seq != seq)
			continue;
		if (h->nlmsg_type == NLMSG_DONE)
			return 0;
		if (h->nlmsg_type != NLMSG_ERROR) {
			each(arg, h);
			continue;
		}
		if (h->nlmsg_len < NLMSG_LENGTH(sizeof(error)))
			return -FI_EIO;
		memcpy(&error, NLMSG_DATA(h), sizeof(error));
		return error.error < 0 ? error.error : -FI_EIO;
	}
	return 1;
}

int uccl_netlink_list(int fd, uint16_t type, void (*each)(void *arg, const struct nlmsghdr *h), void *arg)
{
	_Alignas(struct nlmsghdr) uint8_t part[2 * UCCL_NETLINK_ROOM];
	struct {
		struct nlmsghdr h;
		struct rtgenmsg body;
	} ask = {.h = {.nlmsg_len = NLMSG_LENGTH(sizeof(ask.body)), .nlmsg_type = type}};
	int rc = 1;

	ask.h.nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP;
	ask.h.nlmsg_seq = sequence_next();
	if (send(fd, &ask, ask.h.nlmsg_len, 0) < 0)
		return -errno;
	/* The kernel fills the next part while this one is taken, so there always is one until the end. */
	while (rc > 0) {
		struct sockaddr_nl from;
		socklen_t len = sizeof(from);
		ssize_t got = recvfrom(fd, part, sizeof(part), MSG_TRUNC, (struct sockaddr *)&from, &len);

		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return errno == EAGAIN ? -FI_EIO : -errno;
		if (from.nl_pid)
			continue; /* another process, not the kernel */
		rc = (size_t)got > sizeof(part) ? -FI_EIO : list_part(part, (uint32_t)got, ask.h.nlmsg_seq, each, arg);
	}
	return rc;
}
