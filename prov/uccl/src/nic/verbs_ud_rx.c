/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Receiving from the UD queue pair, and who sent: the NIC puts 40 bytes before each packet, the GRH of InfiniBand and
 * of RoCE over IPv6, or an IPv4 header in their last 20. Also sleeping.
 */
#include "nic/verbs_ud.h"

#ifdef HAVE_VERBS

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <rdma/fi_errno.h>

#include "base/log.h"

#define REVIVE_NS (100 * UCCL_NS_PER_MS)
#define SELDOM_EVERY 1024 /* calls of rx() */

/* Buffers. */

static uint8_t *piece_at(const struct ud *u, uint32_t i)
{
	return uccl_verbs_piece(&u->rx, i) + UD_SKEW;
}

/* Post up to UD_CHAIN pieces. False: not all. */
static bool chain_post(struct ud *u)
{
	struct ibv_recv_wr wr[UD_CHAIN], *bad = wr;
	struct ibv_sge sge[UD_CHAIN];
	uint32_t n = (uint32_t)uccl_min(u->nreturned, UD_CHAIN), i;
	int err;

	for (i = 0; i < n; i++) {
		uint32_t piece = u->returned[u->nreturned - n + i];

		sge[i].addr = (uintptr_t)piece_at(u, piece);
		sge[i].length = u->rx.stride - UD_SKEW;
		sge[i].lkey = u->rx.mr->lkey;
		wr[i].wr_id = piece;
		wr[i].next = i + 1 < n ? &wr[i + 1] : NULL;
		wr[i].sg_list = &sge[i];
		wr[i].num_sge = 1;
	}
	err = u->lib->post_recv(u->rx_qp, wr, &bad);
	for (i = 0; i < n && (!err || &wr[i] != bad); i++)
		u->posted[wr[i].wr_id] = true;
	/* What was refused stays: those at the end of the list that were taken go. */
	memmove(&u->returned[u->nreturned - n], &u->returned[u->nreturned - n + i], (n - i) * sizeof(u->returned[0]));
	u->nreturned -= i;
	if (err)
		UCCL_LOG(UCCL_LOG_INFO, "%s: the NIC refuses receives: %s", u->port.name, strerror(err));
	return !err;
}

void uccl_ud_post(struct ud *u)
{
	while (u->nreturned && !u->rx_broken)
		if (!chain_post(u))
			return;
}

/*
 * The receiving queue pair broke. Its number is our address, so it is not made anew but goes through RESET, which
 * forgets what was posted. Packets that came meanwhile are lost, which the protocol copes with.
 */
static void receiver_revive(struct ud *u)
{
	struct ibv_qp_attr reset = {.qp_state = IBV_QPS_RESET};
	struct ibv_wc stale[UD_RX_BATCH];
	uint32_t i;
	int err;

	if (u->clock() < u->revive_at)
		return;
	u->revive_at = u->clock() + REVIVE_NS;
	err = u->lib->modify_qp(u->rx_qp, &reset, IBV_QP_STATE);
	/* What completed up to now: the same pieces are posted again below. */
	while (!err && u->lib->poll_cq(u->rx_cq, UD_RX_BATCH, stale) > 0)
		;
	if (!err)
		err = -uccl_ud_qp_start(u, u->rx_qp, false, ud_qkey(&u->self));
	if (err) {
		UCCL_LOG(UCCL_LOG_WARN, "%s: cannot start the receiving queue pair again: %s", u->port.name,
			 strerror(err));
		return;
	}
	for (i = 0; i < u->rx.count; i++) {
		if (!u->posted[i])
			continue;
		u->posted[i] = false;
		u->returned[u->nreturned++] = i;
	}
	u->rx_broken = false;
	u->stats.rx_revived++;
	uccl_ud_post(u);
}

/* Sources. */

/* 0 over a whole IPv4 header. */
static uint16_t ip_sum(const uint8_t *p)
{
	uint32_t sum = 0;
	int i;

	for (i = 0; i < 20; i += 2)
		sum += (uint32_t)p[i] << 8 | p[i + 1];
	sum = (sum & 0xffff) + (sum >> 16);
	sum += sum >> 16;
	return (uint16_t)~sum;
}

/*
 * The GID that the packet came from. Before an IPv4 header lies anything, which may look like IPv6: then the header's
 * own sum decides. False: neither.
 */
static bool source_read(const struct ud *u, const uint8_t *grh, uint8_t ip[16])
{
	const uint8_t *v4 = grh + 20;
	bool six = grh[0] >> 4 == 6, four = u->port.roce_v2 && v4[0] == 0x45;

	if (four && (!six || !ip_sum(v4))) {
		memset(ip, 0, 10);
		ip[10] = ip[11] = 0xff;
		memcpy(ip + 12, v4 + 12, 4);
		return true;
	}
	if (six)
		memcpy(ip, grh + 8, 16);
	return six;
}

/* False: nothing that can be handed up. */
static bool packet_read(struct ud *u, const struct ibv_wc *wc, struct uccl_rx *r)
{
	const uint8_t *grh = piece_at(u, (uint32_t)wc->wr_id);

	memset(r, 0, sizeof(*r));
	if (!(wc->wc_flags & IBV_WC_GRH) || wc->byte_len < UD_GRH || wc->byte_len - UD_GRH > u->nic.caps.mtu ||
	    !source_read(u, grh, r->src.ip)) {
		u->stats.rx_bad++;
		return false;
	}
	r->kind = UCCL_RX_PACKET;
	r->src.scope = wc->src_qp & UD_QPN_MASK;
	r->src.pad = u->port.infiniband ? wc->slid : UD_ROCE_PAD;
	r->data = grh + UD_GRH;
	r->len = wc->byte_len - UD_GRH;
	return true;
}

static int batch_receive(struct ud *u, struct uccl_rx *v, int n)
{
	struct ibv_wc wc[UD_RX_BATCH];
	int i, k = 0, got;

	got = u->lib->poll_cq(u->rx_cq, n < UD_RX_BATCH ? n : UD_RX_BATCH, wc);
	for (i = 0; i < got; i++) {
		uint32_t piece = (uint32_t)wc[i].wr_id;

		/* Told of twice, or of an earlier life that RESET ended. */
		if (wc[i].wr_id >= u->rx.count || !u->posted[piece])
			continue;
		u->posted[piece] = false;
		if (wc[i].status != IBV_WC_SUCCESS) {
			if (!u->rx_broken)
				UCCL_LOG(UCCL_LOG_INFO, "%s: a receive failed: status %d, vendor error %u",
					 u->port.name, wc[i].status, wc[i].vendor_err);
			u->stats.rx_errors++;
			u->rx_broken = true;
		} else if (packet_read(u, &wc[i], &v[k])) {
			u->lent[u->nlent++] = piece;
			k++;
			continue;
		}
		u->returned[u->nreturned++] = piece;
	}
	return got > 0 && !k ? -1 : k;
}

/* Sleeping. */

/* Which of the descriptors that wake us have something to read. */
static void ready_look(struct ud *u)
{
	struct epoll_event v[UD_READY_BITS];
	int n = epoll_wait(u->wait_fd, v, UD_READY_BITS, 0);

	u->ready = n < 0 ? UD_READY_ALL : 0;
	for (int i = 0; i < n; i++)
		u->ready |= v[i].data.u32;
}

/* Empty the channel and ask for the next event. There is one for each time that one was asked for. */
static void channel_arm(struct ud *u)
{
	struct ibv_cq *cq;
	void *user;

	if (u->ready & UD_READY_CHANNEL && !u->lib->get_cq_event(u->channel, &cq, &user)) {
		u->lib->ack_cq_events(cq, 1);
		u->armed = false;
	}
	if (!u->armed)
		u->armed = !u->lib->req_notify_cq(u->rx_cq, 0);
}

int uccl_ud_wait_add(int wait_fd, int fd, enum ud_ready bit)
{
	struct epoll_event ev = {.events = EPOLLIN, .data.u32 = bit};

	return epoll_ctl(wait_fd, EPOLL_CTL_ADD, fd, &ev) && errno != EEXIST ? errno : 0;
}

/*
 * From the first call on an event is asked for: for each packet that would cost, so those that nobody sleeps for
 * are not.
 */
int uccl_ud_wait_fd(struct uccl_nic *nic)
{
	struct ud *u = ud_of(nic);
	int fd, err;

	if (u->wait_fd >= 0)
		return u->wait_fd;
	if (u->kick_fd < 0)
		u->kick_fd = eventfd(1, EFD_CLOEXEC | EFD_NONBLOCK);
	fd = u->kick_fd < 0 ? -1 : epoll_create1(EPOLL_CLOEXEC);
	if (fd < 0)
		return -errno;
	err = uccl_ud_wait_add(fd, u->channel->fd, UD_READY_CHANNEL);
	if (!err)
		err = uccl_ud_wait_add(fd, u->kick_fd, UD_READY_KICK);
	if (!err)
		err = uccl_ud_wait_add(fd, u->ctx->async_fd, UD_READY_ASYNC);
	if (!err && u->live)
		err = uccl_ud_wait_add(fd, uccl_udp_live_fd(u->live), UD_READY_LIVE);
	if (err) {
		close(fd);
		return -err;
	}
	u->wait_fd = fd;
	return fd;
}

/* Nothing was found: ask for the next event, and look again, as what came before that makes none. */
static int receive_or_arm(struct ud *u, struct uccl_rx *v, int n)
{
	uint64_t count = 1;
	int k;

	ready_look(u);
	if (u->ready & UD_READY_KICK && read(u->kick_fd, &count, sizeof(count)) < 0 && errno != EAGAIN)
		return 0;
	if (u->ready & (UD_READY_ASYNC | UD_READY_LIVE) || uccl_ud_events_due(u))
		uccl_ud_events(u);
	if (uccl_ud_link_tell(u, v) || uccl_ud_gone_tell(u, v))
		return 1;
	channel_arm(u);
	do
		k = batch_receive(u, v, n);
	while (k < 0);
	/* Perhaps not all of it, and the rest has no event of its own: stay awake. */
	count = 1;
	if (k == n && write(u->kick_fd, &count, sizeof(count)) < 0)
		UCCL_LOG(UCCL_LOG_INFO, "%s: a wake-up was lost: %s", u->port.name, strerror(errno));
	return k;
}

int uccl_ud_rx(struct uccl_nic *nic, struct uccl_rx *v, int n, const struct uccl_rx_hint *hints, int nhints)
{
	struct ud *u = ud_of(nic);
	int k;

	(void)hints;
	(void)nhints;
	if (uccl_ud_link_tell(u, v) || uccl_ud_gone_tell(u, v))
		return 1;
	if (u->link == UCCL_LINK_GONE)
		return 0;
	if (++u->calls % SELDOM_EVERY == 0) {
		uccl_ud_reap(u);
		uccl_ud_events(u);
	}
	while (u->nlent)
		u->returned[u->nreturned++] = u->lent[--u->nlent];
	if (u->nreturned >= UD_CHAIN)
		uccl_ud_post(u);
	do
		k = batch_receive(u, v, n);
	while (k < 0);
	if (k)
		return k;
	/* Nothing to do: time for the rest. */
	if (u->rx_broken)
		receiver_revive(u);
	uccl_ud_post(u);
	return u->wait_fd >= 0 ? receive_or_arm(u, v, n) : 0;
}

#endif
