/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Receives from UD queue pairs, and waits for packets. The NIC puts 40 bytes before each packet, from which the
 * sender's address is read: the GRH of InfiniBand and of RoCE over IPv6, or an IPv4 header in the last 20 bytes.
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

#define RX_BYTES (4u << 20) /* of receive buffers, unless the user sets it */
#define RX_MIN 128	    /* with fewer receive buffers the back end is of no use */
#define RX_MAX 16384
#define REVIVE_NS (100 * UCCL_NS_PER_MS)
#define SELDOM_EVERY 1024 /* calls of rx() */

/* Buffers. */

static uint8_t *buffer_at(const struct ud *u, uint32_t i)
{
	return uccl_verbs_buffer(&u->rx.slab, i) + UD_SKEW;
}

/* Buffers that can be posted now. */
static uint32_t rq_ready(const struct ud_rq *q)
{
	return (uint32_t)uccl_min(q->nreturned, q->depth - ud_rq_posted(q));
}

/* Fill n receives into these buffers. */
static void host_receives(const struct ud *u, const uint32_t *buffer, uint32_t n, struct ibv_recv_wr *wr,
			  struct ibv_sge *sge)
{
	for (uint32_t i = 0; i < n; i++, sge++) {
		sge->addr = (uintptr_t)buffer_at(u, buffer[i]);
		sge->length = u->rx.slab.stride - UD_SKEW;
		sge->lkey = u->rx.slab.mr->lkey;
		wr[i] = (struct ibv_recv_wr){.wr_id = buffer[i], .next = &wr[i + 1], .sg_list = sge, .num_sge = 1};
	}
}

/* Fill n receives whose payload goes into device memory. */
static void device_receives(const struct ud *u, const uint32_t *buffer, uint32_t n, struct ibv_recv_wr *wr,
			    struct ibv_sge *sge)
{
	for (uint32_t i = 0; i < n; i++, sge += 2) {
		sge[0].addr = (uintptr_t)ud_device_rx_header(u, buffer[i]);
		sge[0].length = UD_GRH + UCCL_HDR_LEN;
		sge[0].lkey = u->device.headers.mr->lkey;
		sge[1].addr = (uintptr_t)u->device.mem + (uint64_t)buffer[i] * ud_device_rx_slot_bytes(u);
		sge[1].length = ud_device_rx_slot_bytes(u);
		sge[1].lkey = u->device.mr->lkey;
		wr[i] = (struct ibv_recv_wr){.wr_id = UD_DEVICE_RX | buffer[i],
					     .next = &wr[i + 1],
					     .sg_list = sge,
					     .num_sge = 2};
	}
}

/* Post up to UD_CHAIN buffers; there is at least one. False: not all. */
static bool chain_post(struct ud *u, struct ud_rq *q)
{
	struct ibv_recv_wr wr[UD_CHAIN], *bad = wr;
	struct ibv_sge sge[2 * UD_CHAIN];
	uint32_t n = (uint32_t)uccl_min(rq_ready(q), UD_CHAIN), i;
	uint32_t *take = &q->returned[q->nreturned - n];
	int err;

	if (q == &u->rx.rq)
		host_receives(u, take, n, wr, sge);
	else
		device_receives(u, take, n, wr, sge);
	wr[n - 1].next = NULL;
	err = u->lib->post_recv(q->qp, wr, &bad);
	for (i = 0; i < n && (!err || &wr[i] != bad); i++)
		q->posted[take[i]] = true;
	/* What was refused stays in the list. */
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

/* It sends nothing. Peers know its number, so it must outlive the completion queue of sends. */
int uccl_ud_rq_open(struct ud *u, struct ud_rq *q, uint32_t count, uint32_t depth, uint32_t sges)
{
	struct ibv_qp_init_attr init = {.send_cq = u->rx.cq, .recv_cq = u->rx.cq, .qp_type = IBV_QPT_UD};
	int err;

	q->posted = calloc(count, sizeof(*q->posted));
	q->returned = calloc(count, sizeof(*q->returned));
	q->count = count;
	q->depth = depth;
	if (!q->posted || !q->returned)
		return -FI_ENOMEM;
	init.cap.max_recv_wr = depth;
	init.cap.max_recv_sge = sges;
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

/*
 * The queue of a completed receive, and its buffer. NULL: the NIC reports it twice, or it was posted before a RESET.
 */
static inline struct ud_rq *rq_of(struct ud *u, uint64_t name, uint64_t *buffer)
{
	struct ud_rq *q = &u->rx.rq;

	if (name >= UD_DEVICE_RX) {
		name -= UD_DEVICE_RX;
		q = &u->device.rq;
	}
	if (name >= q->count || !q->posted[name])
		return NULL;
	q->posted[name] = false;
	*buffer = name;
	return q;
}

/*
 * A queue pair that receives broke. Peers know its number, so it is not replaced but goes through RESET, which forgets
 * what was posted. Packets that came meanwhile are lost, also those of the other queue pair that receives. The protocol
 * sends them again.
 */
static void rq_revive(struct ud *u, struct ud_rq *q)
{
	struct ibv_qp_attr reset = {.qp_state = IBV_QPS_RESET};
	struct ibv_wc stale[UD_RX_BATCH];
	uint64_t buffer;
	uint32_t i;
	int err, got;

	if (u->clock() < q->revive_at)
		return;
	q->revive_at = u->clock() + REVIVE_NS;
	err = u->lib->modify_qp(q->qp, &reset, IBV_QP_STATE);
	/* What completed up to now: the same buffers are posted again below. */
	while (!err && (got = u->lib->poll_cq(u->rx.cq, UD_RX_BATCH, stale)) > 0) {
		for (int k = 0; k < got; k++) {
			struct ud_rq *of = rq_of(u, stale[k].wr_id, &buffer);

			if (of)
				ud_rq_return(of, (uint32_t)buffer);
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
	u->rx.revived++;
	rq_post(u, q);
}

int uccl_ud_rx_open(struct ud *u, const struct uccl_nic_attr *attr)
{
	struct ud_rx *r = &u->rx;
	uint32_t most = (uint32_t)uccl_min(uccl_min(u->port.max_qp_wr, u->port.max_cqe), RX_MAX), receives;
	/* A peer may send the largest packet that the port carries: it must not break the queue pair. */
	struct uccl_verbs_slab_attr slab = {.stride = UD_SKEW + UD_GRH + ((u->port.mtu + 63) & ~63u), .least = RX_MIN,
					    .nodes = u->nodes, .access = IBV_ACCESS_LOCAL_WRITE};
	int err;

	r->wait_fd = r->kick_fd = -1;
	if (most < RX_MIN)
		return -FI_ENOSPC;
	slab.count = (uint32_t)uccl_clamp((attr->rx_bytes ? attr->rx_bytes : RX_BYTES) / slab.stride, RX_MIN, most);
	err = uccl_verbs_slab_open(u->lib, u->pd, u->port.name, &r->slab, &slab);
	if (!err)
		err = uccl_verbs_channel_open(u->lib, u->ctx, &r->channel);
	if (err)
		return err;
	/* What comes into device memory takes receives of its own, as many. No queue overflows. */
	receives = r->slab.count;
	if (attr->device_rx && u->port.max_sge >= 2 && 2 * receives <= u->port.max_cqe)
		r->device_slots = receives;
	r->cq = u->lib->create_cq(u->ctx, (int)(receives + r->device_slots), NULL, r->channel, 0);
	return r->cq ? uccl_ud_rq_open(u, &r->rq, receives, receives, 1) : uccl_verbs_error();
}

/* After the end of all other queue pairs. */
void uccl_ud_rx_close(struct ud *u)
{
	struct ud_rx *r = &u->rx;

	uccl_ud_rq_close(u, &r->rq);
	if (r->cq)
		u->lib->destroy_cq(r->cq);
	if (r->channel) {
		u->lib->destroy_comp_channel(r->channel);
		if (r->wait_fd >= 0)
			close(r->wait_fd);
		if (r->kick_fd >= 0)
			close(r->kick_fd);
	}
	uccl_verbs_slab_close(u->lib, &r->slab);
}

/* Sources. */

/* The checksum of an IPv4 header; 0 if the header has the right one. */
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
 * The GID that the packet came from. The bytes before an IPv4 header are undefined and may look like IPv6: then the
 * checksum of the IPv4 header decides. False: the header is neither.
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

/* Describe a packet by its completion, and by what the NIC put before it at `grh`. False: it is unusable. */
static bool packet_read(struct ud *u, const struct ibv_wc *wc, const uint8_t *grh, struct uccl_rx *r)
{
	memset(r, 0, sizeof(*r));
	if (!(wc->wc_flags & IBV_WC_GRH) || wc->byte_len < UD_GRH || wc->byte_len - UD_GRH > u->nic.caps.mtu ||
	    !source_read(u, grh, r->src.ip)) {
		u->rx.bad++;
		return false;
	}
	r->kind = UCCL_RX_PACKET;
	r->src.scope = wc->src_qp & UD_QPN_MASK;
	r->src.pad = u->port.infiniband ? wc->slid : UD_ROCE_PAD;
	r->data = grh + UD_GRH;
	r->len = wc->byte_len - UD_GRH;
	return true;
}

/* The payload is in device memory. False: the packet is shorter than a header. */
static bool device_rx_read(struct ud *u, uint32_t slot, struct uccl_rx *r)
{
	if (r->len < UCCL_HDR_LEN) {
		u->rx.bad++;
		return false;
	}
	r->kind = UCCL_RX_DEVICE;
	r->body = u->device.mem + (uint64_t)slot * ud_device_rx_slot_bytes(u);
	r->body_len = r->len - UCCL_HDR_LEN;
	r->imm = slot;
	return true;
}

static const uint8_t *packet_at(const struct ud *u, const struct ud_rq *q, uint32_t buffer)
{
	return q == &u->rx.rq ? buffer_at(u, buffer) : ud_device_rx_header(u, buffer);
}

static void receive_failed(struct ud *u, struct ud_rq *q, const struct ibv_wc *wc)
{
	if (!q->broken)
		UCCL_LOG(UCCL_LOG_INFO, "%s: a receive failed: status %d, vendor error %u", u->port.name, wc->status,
			 wc->vendor_err);
	u->rx.errors++;
	q->broken = true;
}

static int batch_receive(struct ud *u, struct uccl_rx *v, int n)
{
	struct ibv_wc wc[UD_RX_BATCH];
	int i, k = 0, got;

	got = u->lib->poll_cq(u->rx.cq, n < UD_RX_BATCH ? n : UD_RX_BATCH, wc);
	for (i = 0; i < got; i++) {
		uint64_t name;
		struct ud_rq *q = rq_of(u, wc[i].wr_id, &name);
		uint32_t buffer;

		if (!q)
			continue;
		buffer = (uint32_t)name;
		if (wc[i].status != IBV_WC_SUCCESS) {
			receive_failed(u, q, &wc[i]);
		} else if (packet_read(u, &wc[i], packet_at(u, q, buffer), &v[k])) {
			if (q == &u->rx.rq) {
				u->rx.last[u->rx.nlast++] = buffer;
				k++;
				continue;
			}
			if (device_rx_read(u, buffer, &v[k])) {
				q->out++;
				k++;
				continue;
			}
		}
		ud_rq_return(q, buffer);
	}
	return got > 0 && !k ? -1 : k;
}

/* Sleeping. */

/* Find out which descriptors are readable. */
static void ready_poll(struct ud *u)
{
	struct epoll_event v[UD_READY_BITS];
	int n = epoll_wait(u->rx.wait_fd, v, UD_READY_BITS, 0);

	u->rx.ready = n < 0 ? UD_READY_ALL : 0;
	for (int i = 0; i < n; i++)
		u->rx.ready |= v[i].data.u32;
}

/* Empty the channel and ask for the next event. Each request yields one event. */
static void channel_arm(struct ud *u)
{
	struct ibv_cq *cq;
	void *user;

	if (u->rx.ready & UD_READY_CHANNEL && !u->lib->get_cq_event(u->rx.channel, &cq, &user)) {
		u->lib->ack_cq_events(cq, 1);
		u->rx.armed = false;
	}
	if (!u->rx.armed)
		u->rx.armed = !u->lib->req_notify_cq(u->rx.cq, 0);
}

int uccl_ud_wait_add(int wait_fd, int fd, enum ud_ready bit)
{
	struct epoll_event ev = {.events = EPOLLIN, .data.u32 = bit};

	return epoll_ctl(wait_fd, EPOLL_CTL_ADD, fd, &ev) && errno != EEXIST ? errno : 0;
}

/* Events are asked for only from the first call on: each costs, and without this descriptor nobody sleeps. */
int uccl_ud_wait_fd(struct uccl_nic *nic)
{
	struct ud *u = ud_of(nic);
	int fd, err;

	if (u->rx.wait_fd >= 0)
		return u->rx.wait_fd;
	if (u->rx.kick_fd < 0)
		u->rx.kick_fd = eventfd(1, EFD_CLOEXEC | EFD_NONBLOCK);
	fd = u->rx.kick_fd < 0 ? -1 : epoll_create1(EPOLL_CLOEXEC);
	if (fd < 0)
		return -errno;
	err = uccl_ud_wait_add(fd, u->rx.channel->fd, UD_READY_CHANNEL);
	if (!err)
		err = uccl_ud_wait_add(fd, u->rx.kick_fd, UD_READY_KICK);
	if (!err)
		err = uccl_ud_wait_add(fd, u->ctx->async_fd, UD_READY_ASYNC);
	if (!err && u->live.udp)
		err = uccl_ud_wait_add(fd, uccl_udp_live_fd(u->live.udp), UD_READY_LIVE);
	if (err) {
		close(fd);
		return -err;
	}
	u->rx.wait_fd = fd;
	return fd;
}

/* Nothing was found: ask for the next event, and poll again, since what came before makes no event. */
static int receive_or_arm(struct ud *u, struct uccl_rx *v, int n)
{
	uint64_t count = 1;
	int k;

	ready_poll(u);
	if (u->rx.ready & UD_READY_KICK && read(u->rx.kick_fd, &count, sizeof(count)) < 0 && errno != EAGAIN)
		return 0;
	if (u->rx.ready & (UD_READY_ASYNC | UD_READY_LIVE) || uccl_ud_events_due(u))
		uccl_ud_events(u);
	if (uccl_ud_link_report(u, v) || uccl_ud_gone_report(u, v))
		return 1;
	channel_arm(u);
	do
		k = batch_receive(u, v, n);
	while (k < 0);
	/* There may be more, which makes no event: stay awake. */
	count = 1;
	if (k == n && write(u->rx.kick_fd, &count, sizeof(count)) < 0)
		UCCL_LOG(UCCL_LOG_INFO, "%s: a wake-up was lost: %s", u->port.name, strerror(errno));
	return k;
}

static void rq_idle(struct ud *u, struct ud_rq *q)
{
	if (q->broken)
		rq_revive(u, q);
	rq_post(u, q);
}

int uccl_ud_rx(struct uccl_nic *nic, struct uccl_rx *v, int n, const struct uccl_rx_placement *places, int nplaces)
{
	struct ud *u = ud_of(nic);
	int k;

	(void)places;
	(void)nplaces;
	if (uccl_ud_link_report(u, v) || uccl_ud_gone_report(u, v))
		return 1;
	if (u->link.state == UCCL_LINK_GONE)
		return 0;
	if (++u->rx.calls % SELDOM_EVERY == 0) {
		uccl_ud_reap(u);
		uccl_ud_events(u);
	}
	while (u->rx.nlast)
		ud_rq_return(&u->rx.rq, u->rx.last[--u->rx.nlast]);
	if (u->rx.rq.nreturned >= UD_CHAIN)
		rq_post(u, &u->rx.rq);
	if (u->device.rq.qp && rq_ready(&u->device.rq) >= UD_CHAIN)
		rq_post(u, &u->device.rq);
	do
		k = batch_receive(u, v, n);
	while (k < 0);
	if (k)
		return k;
	/* Nothing to do: time for the rest. */
	rq_idle(u, &u->rx.rq);
	if (u->device.rq.qp)
		rq_idle(u, &u->device.rq);
	return u->rx.wait_fd >= 0 ? receive_or_arm(u, v, n) : 0;
}

#endif
