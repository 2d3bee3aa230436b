/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Receiving from UD queue pairs, and who sent: the NIC puts 40 bytes before each packet, the GRH of InfiniBand and
 * of RoCE over IPv6, or an IPv4 header in their last 20. Also sleeping.
 */
#include "nic/verbs/ud_state.h"

#ifdef HAVE_VERBS

#include <errno.h>
#include <stdlib.h>
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

int uccl_ud_rq_init(struct ud_rq *q, uint32_t count, uint32_t depth)
{
	q->posted = calloc(count, sizeof(*q->posted));
	q->returned = calloc(count, sizeof(*q->returned));
	q->count = count;
	q->depth = depth;
	return q->posted && q->returned ? 0 : -FI_ENOMEM;
}

/* So many can be posted now. */
static uint32_t rq_ready(const struct ud_rq *q)
{
	return (uint32_t)uccl_min(q->nreturned, q->depth - ud_rq_posted(q));
}

/* Where the NIC puts n packets, in these pieces. */
static void host_parts(const struct ud *u, const uint32_t *piece, uint32_t n, struct ibv_recv_wr *wr,
		       struct ibv_sge *sge)
{
	for (uint32_t i = 0; i < n; i++, sge++) {
		sge->addr = (uintptr_t)piece_at(u, piece[i]);
		sge->length = u->rx.stride - UD_SKEW;
		sge->lkey = u->rx.mr->lkey;
		wr[i] = (struct ibv_recv_wr){.wr_id = piece[i], .next = &wr[i + 1], .sg_list = sge, .num_sge = 1};
	}
}

/* The same where their payload is for the device. */
static void device_rx_parts(const struct ud *u, const uint32_t *piece, uint32_t n, struct ibv_recv_wr *wr,
			    struct ibv_sge *sge)
{
	for (uint32_t i = 0; i < n; i++, sge += 2) {
		sge[0].addr = (uintptr_t)ud_device_rx_header(u, piece[i]);
		sge[0].length = UD_GRH + UCCL_HDR_LEN;
		sge[0].lkey = u->device.headers.mr->lkey;
		sge[1].addr = (uintptr_t)u->device.mem + (uint64_t)piece[i] * ud_device_rx_each(u);
		sge[1].length = ud_device_rx_each(u);
		sge[1].lkey = u->device.mr->lkey;
		wr[i] = (struct ibv_recv_wr){.wr_id = UD_DEVICE_RX | piece[i],
					     .next = &wr[i + 1],
					     .sg_list = sge,
					     .num_sge = 2};
	}
}

/* Post up to UD_CHAIN pieces, of which there is one. False: not all. */
static bool chain_post(struct ud *u, struct ud_rq *q)
{
	struct ibv_recv_wr wr[UD_CHAIN], *bad = wr;
	struct ibv_sge sge[2 * UD_CHAIN];
	uint32_t n = (uint32_t)uccl_min(rq_ready(q), UD_CHAIN), i;
	uint32_t *take = &q->returned[q->nreturned - n];
	int err;

	if (q == &u->rq)
		host_parts(u, take, n, wr, sge);
	else
		device_rx_parts(u, take, n, wr, sge);
	wr[n - 1].next = NULL;
	err = u->lib->post_recv(q->qp, wr, &bad);
	for (i = 0; i < n && (!err || &wr[i] != bad); i++)
		q->posted[take[i]] = true;
	/* What was refused stays: those at the end of the list that were taken go. */
	memmove(take, take + i, (n - i) * sizeof(*take));
	q->nreturned -= i;
	if (err)
		UCCL_LOG(UCCL_LOG_INFO, "%s: the NIC refuses receives: %s", u->port.name, strerror(err));
	return !err;
}

static void rq_post(struct ud *u, struct ud_rq *q)
{
	while (rq_ready(q) && !q->broken)
		if (!chain_post(u, q))
			return;
}

/* It sends nothing. Its number is told to peers, so it must outlive the queue that belongs to sends. */
int uccl_ud_rq_open(struct ud *u, struct ud_rq *q, uint32_t parts)
{
	struct ibv_qp_init_attr init = {.send_cq = u->rx_cq, .recv_cq = u->rx_cq, .qp_type = IBV_QPT_UD};
	int err;

	init.cap.max_recv_wr = q->depth;
	init.cap.max_recv_sge = parts;
	init.cap.max_send_wr = 1;
	init.cap.max_send_sge = 1;
	q->qp = u->lib->create_qp(u->pd, &init);
	if (!q->qp)
		return uccl_verbs_error();
	if (q->qp->qp_num < UD_QPN_LEAST || q->qp->qp_num > UD_QPN_MASK)
		return -FI_EIO;
	for (uint32_t i = 0; i < q->count; i++)
		ud_rq_return(q, i);
	err = uccl_ud_qp_start(u, q->qp, false, ud_qkey(&u->self));
	if (err)
		return err;
	rq_post(u, q);
	return ud_rq_posted(q) < q->depth ? -FI_EIO : 0;
}

void uccl_ud_rq_close(struct ud *u, struct ud_rq *q)
{
	if (q->qp)
		u->lib->destroy_qp(q->qp);
	free(q->posted);
	free(q->returned);
	*q = (struct ud_rq){.qp = NULL};
}

/* The queue of a piece that the NIC names, and which one it is. NULL: told of twice, or of a life that RESET ended. */
static inline struct ud_rq *rq_of(struct ud *u, uint64_t name, uint64_t *piece)
{
	struct ud_rq *q = &u->rq;

	if (name >= UD_DEVICE_RX) {
		name -= UD_DEVICE_RX;
		q = &u->device_rq;
	}
	if (name >= q->count || !q->posted[name])
		return NULL;
	q->posted[name] = false;
	*piece = name;
	return q;
}

/*
 * A queue pair that receives broke. Its number is known to peers, so it is not made anew but goes through RESET, which
 * forgets what was posted. Packets that came meanwhile are lost, also those of another one, which the protocol copes
 * with.
 */
static void rq_revive(struct ud *u, struct ud_rq *q)
{
	struct ibv_qp_attr reset = {.qp_state = IBV_QPS_RESET};
	struct ibv_wc stale[UD_RX_BATCH];
	uint64_t piece;
	uint32_t i;
	int err, got;

	if (u->clock() < q->revive_at)
		return;
	q->revive_at = u->clock() + REVIVE_NS;
	err = u->lib->modify_qp(q->qp, &reset, IBV_QP_STATE);
	/* What completed up to now: the same pieces are posted again below. */
	while (!err && (got = u->lib->poll_cq(u->rx_cq, UD_RX_BATCH, stale)) > 0) {
		for (int k = 0; k < got; k++) {
			struct ud_rq *of = rq_of(u, stale[k].wr_id, &piece);

			if (of)
				ud_rq_return(of, (uint32_t)piece);
		}
	}
	if (!err)
		err = -uccl_ud_qp_start(u, q->qp, false, ud_qkey(&u->self));
	if (err) {
		UCCL_LOG(UCCL_LOG_WARN, "%s: cannot start the receiving queue pair again: %s", u->port.name,
			 strerror(err));
		return;
	}
	for (i = 0; i < q->count; i++) {
		if (!q->posted[i])
			continue;
		q->posted[i] = false;
		ud_rq_return(q, i);
	}
	q->broken = false;
	u->stats.rx_revived++;
	rq_post(u, q);
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

/* What the NIC put before it, at `grh`, and says. False: nothing that can be handed up. */
static bool packet_read(struct ud *u, const struct ibv_wc *wc, const uint8_t *grh, struct uccl_rx *r)
{
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

/* Its payload is where only the device can read it. False: it has not even a header. */
static bool device_rx_read(struct ud *u, uint32_t slot, struct uccl_rx *r)
{
	if (r->len < UCCL_HDR_LEN) {
		u->stats.rx_bad++;
		return false;
	}
	r->kind = UCCL_RX_DEVICE;
	r->body = u->device.mem + (uint64_t)slot * ud_device_rx_each(u);
	r->body_len = r->len - UCCL_HDR_LEN;
	r->imm = slot;
	return true;
}

static const uint8_t *packet_at(const struct ud *u, const struct ud_rq *q, uint32_t piece)
{
	return q == &u->rq ? piece_at(u, piece) : ud_device_rx_header(u, piece);
}

static void receive_failed(struct ud *u, struct ud_rq *q, const struct ibv_wc *wc)
{
	if (!q->broken)
		UCCL_LOG(UCCL_LOG_INFO, "%s: a receive failed: status %d, vendor error %u", u->port.name, wc->status,
			 wc->vendor_err);
	u->stats.rx_errors++;
	q->broken = true;
}

static int batch_receive(struct ud *u, struct uccl_rx *v, int n)
{
	struct ibv_wc wc[UD_RX_BATCH];
	int i, k = 0, got;

	got = u->lib->poll_cq(u->rx_cq, n < UD_RX_BATCH ? n : UD_RX_BATCH, wc);
	for (i = 0; i < got; i++) {
		uint64_t name;
		struct ud_rq *q = rq_of(u, wc[i].wr_id, &name);
		uint32_t piece;

		if (!q)
			continue;
		piece = (uint32_t)name;
		if (wc[i].status != IBV_WC_SUCCESS) {
			receive_failed(u, q, &wc[i]);
		} else if (packet_read(u, &wc[i], packet_at(u, q, piece), &v[k])) {
			if (q == &u->rq) {
				u->lent[u->nlent++] = piece;
				k++;
				continue;
			}
			if (device_rx_read(u, piece, &v[k])) {
				q->out++;
				k++;
				continue;
			}
		}
		ud_rq_return(q, piece);
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

static void rq_idle(struct ud *u, struct ud_rq *q)
{
	if (q->broken)
		rq_revive(u, q);
	rq_post(u, q);
}

int uccl_ud_rx(struct uccl_nic *nic, struct uccl_rx *v, int n, const struct uccl_rx_placement *hints, int nhints)
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
		ud_rq_return(&u->rq, u->lent[--u->nlent]);
	if (u->rq.nreturned >= UD_CHAIN)
		rq_post(u, &u->rq);
	if (u->device_rq.qp && rq_ready(&u->device_rq) >= UD_CHAIN)
		rq_post(u, &u->device_rq);
	do
		k = batch_receive(u, v, n);
	while (k < 0);
	if (k)
		return k;
	/* Nothing to do: time for the rest. */
	rq_idle(u, &u->rq);
	if (u->device_rq.qp)
		rq_idle(u, &u->device_rq);
	return u->wait_fd >= 0 ? receive_or_arm(u, v, n) : 0;
}

#endif
