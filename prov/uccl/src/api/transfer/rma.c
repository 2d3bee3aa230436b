/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* See rma.h. Each form fills in what it has; xfer.h does the rest. */
#include "api/transfer/rma.h"

#include "api/transfer/flags.h"
#include "api/transfer/xfer.h"

static uint64_t bytes(const struct iovec *iov, size_t count)
{
	uint64_t len = 0;

	for (size_t i = 0; i < count && i < UCCL_IOV_MAX; i++)
		len += iov[i].iov_len;
	return len;
}

static ssize_t one(struct fid_ep *ep, struct uccl_rma *x, uint64_t addr, uint64_t key)
{
	x->seg[0] = (struct uccl_seg){ .addr = addr, .len = bytes(x->iov, x->count), .key = key };
	x->nseg = 1;
	return uccl_xfer_rma(uccl_ep_fid_of(&ep->fid), x);
}

static ssize_t rma_msg(struct fid_ep *ep, const struct fi_msg_rma *msg, struct uccl_rma *x)
{
	if (msg->rma_iov_count > UCCL_SEG_MAX)
		return -FI_EINVAL;
	x->iov = msg->msg_iov;
	x->desc = msg->desc;
	x->count = msg->iov_count;
	x->addr = msg->addr;
	x->context = msg->context;
	x->data = msg->data;
	x->nseg = (uint8_t)msg->rma_iov_count;
	for (uint8_t i = 0; i < x->nseg; i++) {
		const struct fi_rma_iov *r = &msg->rma_iov[i];

		x->seg[i] = (struct uccl_seg){ .addr = r->addr, .len = r->len, .key = r->key };
	}
	return uccl_xfer_rma(uccl_ep_fid_of(&ep->fid), x);
}

static ssize_t rma_readv(struct fid_ep *ep, const struct iovec *iov, void **desc, size_t count, fi_addr_t src_addr,
			 uint64_t addr, uint64_t key, void *context)
{
	struct uccl_rma x = {
		.type = UCCL_OP_READ, .iov = iov, .desc = desc, .count = count, .addr = src_addr,
		.context = context, .flags = uccl_ep_fid_of(&ep->fid)->tx_flags & ~FI_REMOTE_CQ_DATA,
	};

	return one(ep, &x, addr, key);
}

static ssize_t rma_read(struct fid_ep *ep, void *buf, size_t len, void *desc, fi_addr_t src_addr, uint64_t addr,
			uint64_t key, void *context)
{
	struct iovec iov = { .iov_base = buf, .iov_len = len };

	return rma_readv(ep, &iov, &desc, 1, src_addr, addr, key, context);
}

static ssize_t rma_readmsg(struct fid_ep *ep, const struct fi_msg_rma *msg, uint64_t flags)
{
	struct uccl_rma x = { .type = UCCL_OP_READ, .flags = flags };
	int rc = uccl_flags_check(UCCL_CALL_READMSG, flags);

	return rc ? rc : rma_msg(ep, msg, &x);
}

static ssize_t rma_writev(struct fid_ep *ep, const struct iovec *iov, void **desc, size_t count,
			  fi_addr_t dest_addr, uint64_t addr, uint64_t key, void *context)
{
	struct uccl_rma x = {
		.type = UCCL_OP_WRITE, .iov = iov, .desc = desc, .count = count, .addr = dest_addr,
		.context = context, .flags = uccl_ep_fid_of(&ep->fid)->tx_flags,
	};

	return one(ep, &x, addr, key);
}

static ssize_t rma_write(struct fid_ep *ep, const void *buf, size_t len, void *desc, fi_addr_t dest_addr,
			 uint64_t addr, uint64_t key, void *context)
{
	struct iovec iov = { .iov_base = (void *)buf, .iov_len = len };

	return rma_writev(ep, &iov, &desc, 1, dest_addr, addr, key, context);
}

static ssize_t rma_writemsg(struct fid_ep *ep, const struct fi_msg_rma *msg, uint64_t flags)
{
	struct uccl_rma x = { .type = UCCL_OP_WRITE, .flags = flags };
	int rc = uccl_flags_check(UCCL_CALL_WRITEMSG, flags);

	return rc ? rc : rma_msg(ep, msg, &x);
}

static ssize_t rma_inject(struct fid_ep *ep, const void *buf, size_t len, fi_addr_t dest_addr, uint64_t addr,
			  uint64_t key)
{
	struct iovec iov = { .iov_base = (void *)buf, .iov_len = len };
	struct uccl_rma x = {
		.type = UCCL_OP_WRITE, .iov = &iov, .count = 1, .addr = dest_addr,
		.flags = FI_INJECT, .quiet = true,
	};

	return one(ep, &x, addr, key);
}

static ssize_t rma_writedata(struct fid_ep *ep, const void *buf, size_t len, void *desc, uint64_t data,
			     fi_addr_t dest_addr, uint64_t addr, uint64_t key, void *context)
{
	struct iovec iov = { .iov_base = (void *)buf, .iov_len = len };
	struct uccl_rma x = {
		.type = UCCL_OP_WRITE, .iov = &iov, .desc = &desc, .count = 1, .addr = dest_addr, .data = data,
		.context = context, .flags = uccl_ep_fid_of(&ep->fid)->tx_flags | FI_REMOTE_CQ_DATA,
	};

	return one(ep, &x, addr, key);
}

static ssize_t rma_injectdata(struct fid_ep *ep, const void *buf, size_t len, uint64_t data, fi_addr_t dest_addr,
			      uint64_t addr, uint64_t key)
{
	struct iovec iov = { .iov_base = (void *)buf, .iov_len = len };
	struct uccl_rma x = {
		.type = UCCL_OP_WRITE, .iov = &iov, .count = 1, .addr = dest_addr, .data = data,
		.flags = FI_INJECT | FI_REMOTE_CQ_DATA, .quiet = true,
	};

	return one(ep, &x, addr, key);
}

struct fi_ops_rma uccl_rma_ops = {
	.size = sizeof(struct fi_ops_rma),
	.read = rma_read,
	.readv = rma_readv,
	.readmsg = rma_readmsg,
	.write = rma_write,
	.writev = rma_writev,
	.writemsg = rma_writemsg,
	.inject = rma_inject,
	.writedata = rma_writedata,
	.injectdata = rma_injectdata,
};
