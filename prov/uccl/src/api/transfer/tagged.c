/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* See tagged.h. Each form fills in what it has; xfer.h does the rest. */
#include "api/transfer/tagged.h"

#include "api/transfer/flags.h"
#include "api/transfer/xfer.h"

static ssize_t tagged_recv(struct fid_ep *ep, void *buf, size_t len, void *desc, fi_addr_t src_addr, uint64_t tag,
			   uint64_t ignore, void *context)
{
	struct uccl_ep_fid *f = uccl_ep_fid_of(&ep->fid);

	return uccl_xfer_recv_one(f, buf, len, desc, &(struct uccl_xfer){
		.addr = src_addr, .tag = tag, .ignore = ignore, .context = context,
		.flags = (f->rx_flags & ~FI_MULTI_RECV) | FI_TAGGED,
	});
}

static ssize_t tagged_recvv(struct fid_ep *ep, const struct iovec *iov, void **desc, size_t count,
			    fi_addr_t src_addr, uint64_t tag, uint64_t ignore, void *context)
{
	struct uccl_ep_fid *f = uccl_ep_fid_of(&ep->fid);
	struct uccl_xfer x = {
		.iov = iov, .desc = desc, .count = count, .addr = src_addr,
		.tag = tag, .ignore = ignore, .context = context, .flags = (f->rx_flags & ~FI_MULTI_RECV) | FI_TAGGED,
	};

	return uccl_xfer_recv(f, &x);
}

static ssize_t tagged_recvmsg(struct fid_ep *ep, const struct fi_msg_tagged *msg, uint64_t flags)
{
	struct uccl_ep_fid *f = uccl_ep_fid_of(&ep->fid);
	struct uccl_xfer x = {
		.iov = msg->msg_iov, .desc = msg->desc, .count = msg->iov_count, .addr = msg->addr,
		.tag = msg->tag, .ignore = msg->ignore, .context = msg->context, .flags = flags | FI_TAGGED,
	};
	int rc = uccl_flags_check(UCCL_CALL_TRECVMSG, flags);

	if (rc)
		return rc;
	if (flags & (FI_PEEK | FI_CLAIM | FI_DISCARD))
		return uccl_xfer_peek(f, &x);
	return uccl_xfer_recv(f, &x);
}

static ssize_t tagged_send(struct fid_ep *ep, const void *buf, size_t len, void *desc, fi_addr_t dest_addr,
			   uint64_t tag, void *context)
{
	struct uccl_ep_fid *f = uccl_ep_fid_of(&ep->fid);

	return uccl_xfer_send_one(f, buf, len, desc, &(struct uccl_xfer){
		.addr = dest_addr, .tag = tag, .context = context, .flags = f->tx_flags | FI_TAGGED,
	});
}

static ssize_t tagged_sendv(struct fid_ep *ep, const struct iovec *iov, void **desc, size_t count,
			    fi_addr_t dest_addr, uint64_t tag, void *context)
{
	struct uccl_ep_fid *f = uccl_ep_fid_of(&ep->fid);
	struct uccl_xfer x = {
		.iov = iov, .desc = desc, .count = count, .addr = dest_addr,
		.tag = tag, .context = context, .flags = f->tx_flags | FI_TAGGED,
	};

	return uccl_xfer_send(f, &x);
}

static ssize_t tagged_sendmsg(struct fid_ep *ep, const struct fi_msg_tagged *msg, uint64_t flags)
{
	struct uccl_xfer x = {
		.iov = msg->msg_iov, .desc = msg->desc, .count = msg->iov_count, .addr = msg->addr,
		.tag = msg->tag, .data = msg->data, .context = msg->context, .flags = flags | FI_TAGGED,
	};
	int rc = uccl_flags_check(UCCL_CALL_TSENDMSG, flags);

	return rc ? rc : uccl_xfer_send(uccl_ep_fid_of(&ep->fid), &x);
}

static ssize_t tagged_inject(struct fid_ep *ep, const void *buf, size_t len, fi_addr_t dest_addr, uint64_t tag)
{
	return uccl_xfer_send_one(uccl_ep_fid_of(&ep->fid), buf, len, NULL, &(struct uccl_xfer){
		.addr = dest_addr, .tag = tag, .flags = FI_INJECT | FI_TAGGED, .quiet = true,
	});
}

static ssize_t tagged_senddata(struct fid_ep *ep, const void *buf, size_t len, void *desc, uint64_t data,
			       fi_addr_t dest_addr, uint64_t tag, void *context)
{
	struct uccl_ep_fid *f = uccl_ep_fid_of(&ep->fid);

	return uccl_xfer_send_one(f, buf, len, desc, &(struct uccl_xfer){
		.addr = dest_addr, .tag = tag, .data = data, .context = context,
		.flags = f->tx_flags | FI_REMOTE_CQ_DATA | FI_TAGGED,
	});
}

static ssize_t tagged_injectdata(struct fid_ep *ep, const void *buf, size_t len, uint64_t data, fi_addr_t dest_addr,
				 uint64_t tag)
{
	return uccl_xfer_send_one(uccl_ep_fid_of(&ep->fid), buf, len, NULL, &(struct uccl_xfer){
		.addr = dest_addr, .tag = tag, .data = data, .flags = FI_INJECT | FI_REMOTE_CQ_DATA | FI_TAGGED,
		.quiet = true,
	});
}

struct fi_ops_tagged uccl_tagged_ops = {
	.size = sizeof(struct fi_ops_tagged),
	.recv = tagged_recv,
	.recvv = tagged_recvv,
	.recvmsg = tagged_recvmsg,
	.send = tagged_send,
	.sendv = tagged_sendv,
	.sendmsg = tagged_sendmsg,
	.inject = tagged_inject,
	.senddata = tagged_senddata,
	.injectdata = tagged_injectdata,
};
