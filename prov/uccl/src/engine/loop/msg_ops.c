/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* What msg asks of a peer: that it is connected, has a turn, and that its NIC may write to memory. */
#include <rdma/fi_errno.h>

#include "engine/impl.h"

static void ops_ready(struct uccl_peer *p)
{
	engine_ready(peer_conn(p));
}

static void ops_connect(struct uccl_peer *p, uint64_t now)
{
	struct conn *c = peer_conn(p);

	if (c->hs.state != UCCL_CONN_IDLE)
		return;
	conn_grant(c);
	uccl_conn_start(&c->hs, now);
	conn_asks(c, true);
	if (c->not_before_ns > now)
		uccl_conn_delay(&c->hs, c->not_before_ns);
	if (c->e->drain.began_ns)
		conn_drain_set(c, &c->e->drain.close_unsent);
	conn_stalled(c, UCCL_STALL_CONNECT, now);
	conn_due(c);
	conn_watch(c, now);
}

/* The peer, if it is still one, writes no more to what it was granted. */
static void finish(struct conn *c)
{
	const struct uccl_nic *nic = c->e->nic;

	if (nic->ops->finish && c->opened.nic_peer)
		nic->ops->finish(c->e->nic, c->opened.nic_peer);
}

static int reg(struct conn *c, void *buf, uint64_t len, const struct uccl_nic_device *device, void **mr,
	       uint64_t *rkey, uint64_t *raddr)
{
	struct uccl_nic *nic = c->e->nic;

	if (device)
		return nic->ops->reg_device(nic, buf, len, device, mr, rkey, raddr);
	return nic->ops->reg ? nic->ops->reg(nic, buf, len, mr, rkey, raddr) : -FI_ENOSYS;
}

static int ops_reg(struct uccl_peer *p, void *buf, uint64_t len, bool device, void **mr, uint64_t *rkey,
		   uint64_t *raddr)
{
	struct conn *c = peer_conn(p);
	struct uccl_nic *nic = c->e->nic;
	const struct uccl_device_ops *ops = c->e->msg_ep.device.ops;
	struct uccl_nic_device of = {.arg = c->e->msg_ep.device.arg};
	int rc;

	if (device) {
		of.number = nic->ops->reg_device && ops->direct ? ops->direct(of.arg, buf) : -FI_ENOSYS;
		if (of.number < 0)
			return of.number;
		of.dmabuf = ops->dmabuf;
	}
	if (nic->ops->prepare) {
		rc = nic->ops->prepare(nic, c->opened.nic_peer);
		conn_say(c);
		if (rc)
			return rc;
	}
	rc = reg(c, buf, len, device ? &of : NULL, mr, rkey, raddr);
	if (rc)
		finish(c);
	return rc;
}

static void ops_dereg(struct uccl_peer *p, void *mr, bool settled)
{
	struct conn *c = peer_conn(p);

	c->e->nic->ops->dereg(c->e->nic, mr, settled);
	finish(c);
}

/* A seal needs all bytes of a packet, which the processor cannot read there. PROTOCOL R223 */
static int ops_source(struct uccl_peer *p, const void *buf, uint64_t len, void **source)
{
	struct conn *c = peer_conn(p);
	struct uccl_nic *nic = c->e->nic;
	const struct uccl_device_ops *ops = c->e->msg_ep.device.ops;
	struct uccl_nic_device of = {.arg = c->e->msg_ep.device.arg};

	if (!nic->ops->source || !ops->source || c->opened.seal)
		return -FI_ENOSYS;
	of.number = ops->source(of.arg, buf);
	if (of.number < 0)
		return of.number;
	of.dmabuf = ops->dmabuf;
	of.range = ops->range;
	return nic->ops->source(nic, buf, len, &of, source);
}

static void ops_source_put(struct uccl_peer *p, void *source)
{
	struct uccl_nic *nic = peer_conn(p)->e->nic;

	nic->ops->source_put(nic, source);
}

static void ops_source_stop(struct uccl_peer *p, void *source)
{
	struct uccl_nic *nic = peer_conn(p)->e->nic;

	nic->ops->source_stop(nic, source);
}

/* Who seals needs the whole packet. PROTOCOL R223 R291 */
static uint32_t ops_queue(struct uccl_peer *p, const void *buf)
{
	struct conn *c = peer_conn(p);

	return c->opened.seal ? 0 : engine_device_rx_queue(c->e, buf);
}

static void ops_fence(struct uccl_peer *p, uint16_t path, uint64_t now)
{
	struct conn *c = peer_conn(p);

	(void)now;
	if (c->e->nic->ops->fence)
		c->e->nic->ops->fence(c->e->nic, c->opened.nic_peer, path);
}

static void ops_stop_writes(struct uccl_peer *p)
{
	struct uccl_nic *nic = peer_conn(p)->e->nic;

	if (nic->ops->stop_writes)
		nic->ops->stop_writes(nic, peer_conn(p)->opened.nic_peer);
}

static void ops_broken(struct uccl_peer *p, int err)
{
	conn_broken(peer_conn(p), err);
}

static void ops_settle(struct uccl_peer *p)
{
	struct conn *c = peer_conn(p);

	/* What was acknowledged in this poll is its owner's again. */
	engine_tx_settle(c->e);
	if (!engine_tx_flush(c->e))
		engine_tx_forget(c);
}

const struct uccl_engine_ops engine_msg_ops = {
	.ready = ops_ready,
	.connect = ops_connect,
	.reg = ops_reg,
	.dereg = ops_dereg,
	.queue = ops_queue,
	.source = ops_source,
	.source_put = ops_source_put,
	.source_stop = ops_source_stop,
	.fence = ops_fence,
	.stop_writes = ops_stop_writes,
	.settle = ops_settle,
	.broken = ops_broken,
};
