/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* See msg.h. Each form fills in what it has; xfer.h does the rest. */
#include "api/transfer/msg.h"

#include "api/transfer/flags.h"
#include "api/transfer/xfer.h"

static ssize_t msg_recv(struct fid_ep *ep, void *buf, size_t len, void *desc, fi_addr_t src_addr, void *context)
{
	struct uccl_ep_fid *f = uccl_ep_fid_of(&ep->fid);

	return uccl_xfer_recv_one(f, buf, len, desc, &(struct uccl_xfer){
		.addr = src_addr, .context = context, .flags = f->rx_flags | FI_MSG,
	});
}

static ssize_t msg_recvv(struct fid_ep *ep, const struct iovec *iov, void **desc, size_t count, fi_addr_t src_addr,
			 void *context)
{
	struct uccl_ep_fid *f = uccl_ep_fid_of(&ep->fid);
	struct uccl_xfer x = {
		.iov = iov, .desc = desc, .count = count, .addr = src_addr,
		.context = context, .flags = f->rx_flags | FI_MSG,
	};

	return uccl_xfer_recv(f, &x);
}

static ssize_t msg_recvmsg(struct fid_ep *ep, const struct fi_msg *msg, uint64_t flags)
{
	struct uccl_ep_fid *f = uccl_ep_fid_of(&ep->fid);
	struct uccl_xfer x = {
		.iov = msg->msg_iov, .desc = msg->desc, .count = msg->iov_count, .addr = msg->addr,
		.context = msg->context, .flags = flags | FI_MSG,
	};
	int rc = uccl_flags_check(UCCL_CALL_RECVMSG, flags);

	if (rc)
		return rc;
	if (flags & (FI_PEEK | FI_CLAIM | FI_DISCARD))
		return uccl_xfer_peek(f, &x);
	return uccl_xfer_recv(f, &x);
}

static ssize_t msg_send(struct fid_ep *ep, const void *buf, size_t len, void *desc, fi_addr_t dest_addr,
			void *context)
{
	struct uccl_ep_fid *f = uccl_ep_fid_of(&ep->fid);

	return uccl_xfer_send_one(f, buf, len, desc, &(struct uccl_xfer){
		.addr = dest_addr, .context = context, .flags = f->tx_flags | FI_MSG,
	});
}

static ssize_t msg_sendv(struct fid_ep *ep, const struct iovec *iov, void **desc, size_t count, fi_addr_t dest_addr,
			 void *context)
{
	struct uccl_ep_fid *f = uccl_ep_fid_of(&ep->fid);
	struct uccl_xfer x = {
		.iov = iov, .desc = desc, .count = count, .addr = dest_addr,
		.context = context, .flags = f->tx_flags | FI_MSG,
	};

	return uccl_xfer_send(f, &x);
}

static ssize_t msg_sendmsg(struct fid_ep *ep, const struct fi_msg *msg, uint64_t flags)
{
	struct uccl_xfer x = {
		.iov = msg->msg_iov, .desc = msg->desc, .count = msg->iov_count, .addr = msg->addr,
		.data = msg->data, .context = msg->context, .flags = flags | FI_MSG,
	};
	int rc = uccl_flags_check(UCCL_CALL_SENDMSG, flags);

	return rc ? rc : uccl_xfer_send(uccl_ep_fid_of(&ep->fid), &x);
}

static ssize_t msg_inject(struct fid_ep *ep, const void *buf, size_t len, fi_addr_t dest_addr)
{
	return uccl_xfer_send_one(uccl_ep_fid_of(&ep->fid), buf, len, NULL, &(struct uccl_xfer){
		.addr = dest_addr, .flags = FI_INJECT | FI_MSG, .quiet = true,
	});
}

static ssize_t msg_senddata(struct fid_ep *ep, const void *buf, size_t len, void *desc, uint64_t data,
			    fi_addr_t dest_addr, void *context)
{
	struct uccl_ep_fid *f = uccl_ep_fid_of(&ep->fid);

	return uccl_xfer_send_one(f, buf, len, desc, &(struct uccl_xfer){
		.addr = dest_addr, .data = data, .context = context,
		.flags = f->tx_flags | FI_REMOTE_CQ_DATA | FI_MSG,
	});
}

static ssize_t msg_injectdata(struct fid_ep *ep, const void *buf, size_t len, uint64_t data, fi_addr_t dest_addr)
{
	return uccl_xfer_send_one(uccl_ep_fid_of(&ep->fid), buf, len, NULL, &(struct uccl_xfer){
		.addr = dest_addr, .data = data, .flags = FI_INJECT | FI_REMOTE_CQ_DATA | FI_MSG, .quiet = true,
	});
}

struct fi_ops_msg uccl_msg_ops = {
	.size = sizeof(struct fi_ops_msg),
	.recv = msg_recv,
	.recvv = msg_recvv,
	.recvmsg = msg_recvmsg,
	.send = msg_send,
	.sendv = msg_sendv,
	.sendmsg = msg_sendmsg,
	.inject = msg_inject,
	.senddata = msg_senddata,
	.injectdata = msg_injectdata,
};
