/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * See cm.h. A connecting endpoint sends a request with a number to the listening endpoint. A third endpoint, at the
 * listener's side, answers with this number. Then both sides accept messages of their connection only.
 */
#include "api/endpoint/cm.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "api/endpoint/start.h"
#include "api/event/eq.h"
#include "api/object/domain.h"
#include "api/offer/address.h"
#include "api/offer/place.h"
#include "progress/thread.h"

enum state {
	IDLE,		/* no request sent or received */
	ASKED,		/* opened for a request that is not answered yet */
	CONNECTING,	/* asked; waits for ACCEPT or REJECT */
	ACCEPTING,	/* ACCEPT is on its way */
	CONNECTED,
	ENDED,
};

struct uccl_cm {
	enum state state;
	bool flush;		/* receives are to end */
	bool delivered;		/* CONNECTING: the listener has the request */
	uint64_t number;
	uint64_t at;		/* when CONNECTING fails, ns; UCCL_NEVER */
	struct uccl_addr peer;	/* the address to connect to, or of the requesting endpoint */
	struct uccl_peer *watched;
	struct uccl_addr name;	/* accepted: what the peer connected to */
	void (*receive)(void *arg, const struct uccl_cm_msg *m); /* listening endpoints only */
	void *arg;
	/* Buffers of receives that are always posted: from any peer, and from `watched`, so that its end is noticed. */
	uint8_t any[UCCL_CM_MAX], watch[UCCL_CM_MAX];
};

static void message_handle(struct uccl_ep *ep, const struct uccl_cm_msg *m);
static void peer_lost(struct uccl_ep *ep, const struct uccl_peer *peer, int err);
static void recv_done(struct uccl_op *op);

struct uccl_cm *uccl_cm_new(void)
{
	struct uccl_cm *cm = calloc(1, sizeof(*cm));

	if (cm)
		cm->at = UCCL_NEVER;
	return cm;
}

void uccl_cm_listen(struct uccl_ep *ep, void (*receive)(void *arg, const struct uccl_cm_msg *m), void *arg)
{
	ep->listens = true;
	ep->cm->receive = receive;
	ep->cm->arg = arg;
}

void uccl_cm_asked(struct uccl_ep *ep, uint64_t number, const struct uccl_addr *peer, const struct uccl_addr *listener)
{
	struct uccl_nic_addr src = ep->run.src;
	struct uccl_cm *cm = ep->cm;

	cm->state = ASKED;
	cm->number = number;
	cm->peer = *peer;
	cm->name = *listener;
	src.port = 0;	/* the listener has that one */
	uccl_ep_set_src(ep, &src, false, false);
}

bool uccl_cm_name(const struct uccl_ep *ep, struct uccl_addr *out)
{
	if (!ep->cm->name.incarnation)
		return false;
	*out = ep->cm->name;
	return true;
}

/* Post a receive of these messages; `peer` not NULL: from this peer only. */
static int recv_post(struct uccl_ep *ep, struct uccl_peer *peer)
{
	struct uccl_op *op = uccl_op_get(ep->driver.engine);
	int rc;

	if (!op)
		return -FI_EAGAIN;
	op->type = UCCL_OP_RECV;
	op->flags = UCCL_OPF_CM | (peer ? UCCL_OPF_DIRECTED : 0);
	op->peer = peer;
	op->recv.ignore = UINT64_MAX;
	op->iov[0] = (struct iovec){ .iov_base = peer ? ep->cm->watch : ep->cm->any, .iov_len = UCCL_CM_MAX };
	op->iov_count = 1;
	op->len = UCCL_CM_MAX;
	op->context = op->iov[0].iov_base;
	op->api = ep;
	op->api_more = peer;
	op->done = recv_done;
	if (peer)
		ep->cm->watched = peer;
	rc = uccl_engine_recv(ep->driver.engine, op, uccl_clock());
	if (rc)
		uccl_op_put(ep->driver.engine, op);
	return rc;
}

static void recv_done(struct uccl_op *op)
{
	struct uccl_ep *ep = op->api;
	struct uccl_peer *watched = op->api_more;
	struct uccl_cm_msg m = {
		.from = op->from,
		.type = op->tag,
		.number = op->flags & UCCL_OPF_DATA ? op->data : 0,
		.data = op->recv.done_buf,
		.len = op->done_len,
	};
	int err = op->err;

	uccl_op_put(ep->driver.engine, op);
	if (ep->closing || ep->cm->state == ENDED)
		return;
	if (!err && ep->cm->receive)
		ep->cm->receive(ep->cm->arg, &m);
	else if (!err)
		message_handle(ep, &m);
	else if (watched)
		peer_lost(ep, watched, err);
	/* This finds an op: the one that was just freed. */
	if (!err && ep->cm->state != ENDED && (!watched || watched == ep->cm->watched))
		(void)recv_post(ep, watched);
}

int uccl_cm_recv(struct uccl_ep *ep)
{
	return recv_post(ep, NULL);
}

static void sent_done(struct uccl_op *op)
{
	uccl_op_put(((struct uccl_ep *)op->api)->driver.engine, op);
}

/* The peer has the request or its answer, or the send failed. */
static void delivered(struct uccl_op *op)
{
	struct uccl_ep *ep = op->api;
	struct uccl_cm *cm = ep->cm;
	struct uccl_peer *to = op->peer;
	int err = op->err;

	uccl_op_put(ep->driver.engine, op);
	if (ep->closing || cm->state == ENDED)
		return;
	if (err) {
		peer_lost(ep, to, err);
	} else if (cm->state == CONNECTING) {
		cm->delivered = true;
		cm->at = UCCL_NEVER;
	} else if (cm->state == ACCEPTING) {
		cm->state = CONNECTED;
		uccl_eq_push_cm(ep->bound.eq, FI_CONNECTED, &ep->self.fid.fid, NULL, NULL, 0);
	}
}

/* Send a message whose data is in `count` buffers. */
static int message_send(struct uccl_ep *ep, struct uccl_peer *to, enum uccl_cm_type type, const struct iovec *iov,
			uint8_t count, void (*done)(struct uccl_op *op), uint64_t number)
{
	struct uccl_op *op = uccl_op_get(ep->driver.engine);
	int rc;

	if (!op)
		return -FI_EAGAIN;
	op->type = UCCL_OP_SEND;
	op->flags = UCCL_OPF_CM | UCCL_OPF_DATA | UCCL_OPF_INJECT | (done == delivered ? UCCL_OPF_DELIVERY : 0);
	op->peer = to;
	op->tag = type;
	op->data = number;
	for (uint8_t i = 0; i < count; i++) {
		op->iov[i] = iov[i];
		op->len += iov[i].iov_len;
	}
	op->iov_count = count;
	op->api = ep;
	op->done = done;
	rc = uccl_engine_send(ep->driver.engine, op, uccl_clock());
	if (rc)
		uccl_op_put(ep->driver.engine, op);
	else
		uccl_driver_kick(&ep->driver);
	return rc;
}

int uccl_cm_send(struct uccl_ep *ep, struct uccl_peer *to, enum uccl_cm_type type, uint64_t number, const void *data,
		size_t len)
{
	struct iovec iov = { .iov_base = (void *)(uintptr_t)data, .iov_len = len };

	return message_send(ep, to, type, &iov, len > 0, sent_done, number);
}

/* End the connection. The program's posted receives end in the next round. */
static void end(struct uccl_ep *ep)
{
	ep->cm->state = ENDED;
	ep->cm->at = UCCL_NEVER;
	ep->cm->flush = true;
	ep->sole = NULL;
}

static void failed(struct uccl_ep *ep, int err, const void *data, size_t len)
{
	end(ep);
	uccl_eq_push_cm_error(ep->bound.eq, &ep->self.fid.fid, err, data, len);
}

static void peer_shut(struct uccl_ep *ep)
{
	/* The end may arrive before the acknowledgement of our ACCEPT. */
	if (ep->cm->state == ACCEPTING)
		uccl_eq_push_cm(ep->bound.eq, FI_CONNECTED, &ep->self.fid.fid, NULL, NULL, 0);
	end(ep);
	uccl_eq_push_cm(ep->bound.eq, FI_SHUTDOWN, &ep->self.fid.fid, NULL, NULL, 0);
}

static void peer_lost(struct uccl_ep *ep, const struct uccl_peer *peer, int err)
{
	struct uccl_cm *cm = ep->cm;

	switch (cm->state) {
	case CONNECTING:
		/* A listener may close after it has passed the request on, and another endpoint answers. */
		if (cm->delivered && uccl_peer_closed(peer))
			cm->at = uccl_clock() + ep->domain->params.conn.peer_connect_ns;
		else
			failed(ep, err == FI_ETIMEDOUT || err == FI_EACCES ? err : FI_ECONNREFUSED, NULL, 0);
		break;
	case ACCEPTING:
		if (peer == ep->sole)
			failed(ep, FI_ECONNABORTED, NULL, 0);
		break;
	case CONNECTED:
		if (peer == ep->sole)
			peer_shut(ep);
		break;
	default:
		break;
	}
}

/* PROTOCOL R112 */
static void message_handle(struct uccl_ep *ep, const struct uccl_cm_msg *m)
{
	struct uccl_cm *cm = ep->cm;
	bool ours = cm->state == CONNECTING && m->number == cm->number && m->len <= UCCL_CM_DATA_MAX;

	if (m->type == UCCL_CM_ACCEPT && ours) {
		cm->state = CONNECTED;
		cm->at = UCCL_NEVER;
		ep->sole = m->from;
		uccl_peer_hold(m->from);
		uccl_engine_pair(ep->driver.engine, m->from);
		cm->watched = NULL;
		(void)uccl_engine_cancel(ep->driver.engine, cm->watch, uccl_clock());
		uccl_eq_push_cm(ep->bound.eq, FI_CONNECTED, &ep->self.fid.fid, NULL, m->data, m->len);
		if (recv_post(ep, m->from))
			peer_shut(ep);
	} else if (m->type == UCCL_CM_REJECT && ours) {
		failed(ep, FI_ECONNREFUSED, m->data, m->len);
	} else if (m->type == UCCL_CM_BYE && m->from == ep->sole && m->number == cm->number) {
		peer_shut(ep);
	} else {
		uccl_engine_refuse(ep->driver.engine, UCCL_DROP_STATE, 1);
	}
}

void uccl_cm_run(struct uccl_ep *ep, uint64_t now)
{
	struct uccl_cm *cm = ep->cm;

	if (now >= cm->at)
		failed(ep, FI_ETIMEDOUT, NULL, 0);
	if (cm->flush) {
		cm->flush = false;
		uccl_engine_shut(ep->driver.engine, FI_ECANCELED);
	}
}

uint64_t uccl_cm_expiry(const struct uccl_ep *ep)
{
	return ep->cm->flush ? 0 : ep->cm->at;
}

void uccl_cm_leave(struct uccl_ep *ep)
{
	struct uccl_peer *peer;

	if (ep->bound.eq)
		uccl_eq_forget(ep->bound.eq, &ep->self.fid.fid);
	if (ep->cm->state != ASKED || uccl_ep_start(ep, NULL))
		return;
	/* No endpoint will answer the request any more. */
	peer = uccl_engine_peer(ep->driver.engine, &ep->cm->peer, true);
	if (peer)
		(void)uccl_cm_send(ep, peer, UCCL_CM_REJECT, ep->cm->number, NULL, 0);
	ep->cm->state = ENDED;
}

/* 0: this call may be made now, and the endpoint is enabled. */
static int begin(struct uccl_ep *ep, enum state state, size_t paramlen)
{
	if (paramlen > UCCL_CM_DATA_MAX)
		return -FI_EINVAL;
	if (ep->driver.forks != uccl_forks || ep->cm->state != state)
		return -FI_EOPBADSTATE;
	if (!ep->bound.eq)
		return -FI_ENOEQ;
	return ep->enabled ? 0 : fi_enable(&ep->self.fid);
}

/* Receive messages of this peer, and of any peer. */
static int begin_recv(struct uccl_ep *ep, struct uccl_peer *peer)
{
	int rc = recv_post(ep, NULL);

	return rc ? rc : recv_post(ep, peer);
}

/* If it ended at once, an event reports that. */
static int begun(struct uccl_ep *ep, enum state state, int rc)
{
	if (!rc || ep->cm->state != state)
		return 0;
	end(ep);
	return rc;
}

static void number_make(struct uccl_cm *cm)
{
	while (!cm->number)
		if (getrandom(&cm->number, sizeof(cm->number), 0) != sizeof(cm->number))
			cm->number = 0;
}

static int connect_locked(struct uccl_ep *ep, const void *param, size_t paramlen)
{
	const struct uccl_addr *self = uccl_engine_addr(ep->driver.engine);
	uint8_t raw[UCCL_ADDR_LEN];
	struct iovec iov[2] = {
		{ .iov_base = raw, .iov_len = sizeof(raw) },
		{ .iov_base = (void *)(uintptr_t)param, .iov_len = paramlen },
	};
	struct uccl_cm *cm = ep->cm;
	struct uccl_peer *peer;
	int rc;

	if (uccl_nic_addr_equal(&cm->peer.nic, &self->nic))
		return -FI_ECONNREFUSED;
	peer = uccl_engine_peer(ep->driver.engine, &cm->peer, true);
	if (!peer)
		return -FI_ENOMEM;
	number_make(cm);
	uccl_addr_encode(raw, self);
	cm->state = CONNECTING;
	cm->at = uccl_clock() + ep->domain->params.conn.peer_connect_ns;
	rc = begin_recv(ep, peer);
	if (!rc)
		rc = message_send(ep, peer, UCCL_CM_REQ, iov, paramlen ? 2 : 1, delivered, cm->number);
	return begun(ep, CONNECTING, rc);
}

int uccl_cm_connect(struct fid_ep *fid, const void *addr, const void *param, size_t paramlen)
{
	struct uccl_ep *ep = uccl_ep_fid_of(&fid->fid)->ep;
	struct uccl_addr to;
	int rc;

	if (!addr || uccl_address_unpack(ep->attr.addr_format, addr, SIZE_MAX, &to, NULL) ||
	    !to.nic.pad == uccl_place_rdma(&ep->domain->params))
		return -FI_EINVAL;
	rc = begin(ep, IDLE, paramlen);
	if (rc)
		return rc;
	uccl_driver_lock(&ep->driver);
	ep->cm->peer = to;
	rc = connect_locked(ep, param, paramlen);
	uccl_driver_unlock(&ep->driver);
	return rc;
}

static int accept_locked(struct uccl_ep *ep, const void *param, size_t paramlen)
{
	struct iovec iov = { .iov_base = (void *)(uintptr_t)param, .iov_len = paramlen };
	struct uccl_peer *peer = uccl_engine_peer(ep->driver.engine, &ep->cm->peer, true);
	int rc;

	if (!peer)
		return -FI_ENOMEM;
	ep->cm->state = ACCEPTING;
	ep->sole = peer;
	uccl_engine_pair(ep->driver.engine, peer);
	rc = begin_recv(ep, peer);
	if (!rc)
		rc = message_send(ep, peer, UCCL_CM_ACCEPT, &iov, paramlen > 0, delivered, ep->cm->number);
	return begun(ep, ACCEPTING, rc);
}

int uccl_cm_accept(struct fid_ep *fid, const void *param, size_t paramlen)
{
	struct uccl_ep *ep = uccl_ep_fid_of(&fid->fid)->ep;
	int rc = begin(ep, ASKED, paramlen);

	if (rc)
		return rc;
	uccl_driver_lock(&ep->driver);
	rc = accept_locked(ep, param, paramlen);
	uccl_driver_unlock(&ep->driver);
	return rc;
}

/* What was sent before still arrives. */
static int shutdown_locked(struct uccl_ep *ep)
{
	struct uccl_peer *peer = ep->sole;

	if (ep->cm->state == ENDED)
		return 0;
	if (!peer)
		return -FI_ENOTCONN;
	peer_shut(ep);
	ep->cm->flush = false;
	uccl_engine_shut(ep->driver.engine, FI_ECANCELED);
	(void)uccl_cm_send(ep, peer, UCCL_CM_BYE, ep->cm->number, NULL, 0);
	return 0;
}

int uccl_cm_shutdown(struct fid_ep *fid, uint64_t flags)
{
	struct uccl_ep *ep = uccl_ep_fid_of(&fid->fid)->ep;
	int rc;

	if (flags)
		return -FI_EINVAL;
	if (ep->driver.forks != uccl_forks)
		return -FI_EOPBADSTATE;
	uccl_driver_lock(&ep->driver);
	rc = shutdown_locked(ep);
	uccl_driver_unlock(&ep->driver);
	return rc;
}

int uccl_cm_getpeer(struct fid_ep *fid, void *addr, size_t *addrlen)
{
	struct uccl_ep *ep = uccl_ep_fid_of(&fid->fid)->ep;

	return ep->sole ? uccl_address_pack(ep->attr.addr_format, &ep->cm->peer, addr, addrlen) : -FI_ENOTCONN;
}
