/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * See atomic.h. Every form becomes one request: places and buffers in bytes instead of elements. xfer.h does the rest.
 */
#include "api/transfer/atomic.h"

#include "api/memory/device.h"
#include "api/transfer/flags.h"
#include "api/transfer/xfer.h"
#include "msg/rma/atomic_math.h"

/* Descriptors are not used: the address says where memory is. */
#pragma GCC diagnostic ignored "-Wunused-parameter"

_Static_assert((int)UCCL_INT8 == FI_INT8 && (int)UCCL_UINT64 == FI_UINT64 && (int)UCCL_FLOAT == FI_FLOAT &&
		       (int)UCCL_DOUBLE_COMPLEX == FI_DOUBLE_COMPLEX &&
		       (int)UCCL_LONG_DOUBLE_COMPLEX == FI_LONG_DOUBLE_COMPLEX && (int)UCCL_INT128 == FI_INT128 &&
		       (int)UCCL_UINT128 == FI_UINT128,
	       "types have libfabric's numbers");
_Static_assert((int)UCCL_MIN == FI_MIN && (int)UCCL_LXOR == FI_LXOR && (int)UCCL_ATOMIC_READ == FI_ATOMIC_READ &&
		       (int)UCCL_CSWAP == FI_CSWAP && (int)UCCL_MSWAP == FI_MSWAP,
	       "operations have libfabric's numbers");

/* The arguments of every form together. */
struct call {
	enum uccl_op_type type;
	enum fi_datatype datatype;
	enum fi_op op;
	const struct fi_ioc *operand, *compare;
	size_t noperand, ncompare;
	struct fi_ioc *result;
	size_t nresult;
	fi_addr_t dest;
	const struct fi_rma_ioc *rma;
	size_t nrma;
	uint64_t data, flags;
	void *context;
	struct fid_cntr *done_cntr;
	bool quiet;
};

/* Elements to bytes; false: too many pieces. */
static bool to_iov(struct iovec *iov, const struct fi_ioc *ioc, size_t n, size_t size)
{
	if (n > UCCL_IOV_MAX)
		return false;
	for (size_t i = 0; i < n; i++)
		iov[i] = (struct iovec){ .iov_base = ioc[i].addr, .iov_len = ioc[i].count * size };
	return true;
}

static uint64_t bytes(const struct iovec *iov, size_t n)
{
	uint64_t len = 0;

	for (size_t i = 0; i < n; i++)
		len += iov[i].iov_len;
	return len;
}

static uint16_t on_device(const struct uccl_ep *ep, const struct iovec *iov, uint8_t n)
{
	return ep && ep->attr.hmem ? uccl_device_mask(ep, iov, n, NULL) : 0;
}

static ssize_t post(struct fid_ep *ep, const struct call *c)
{
	struct iovec operand[UCCL_IOV_MAX], compare[UCCL_IOV_MAX], result[UCCL_IOV_MAX];
	size_t size = uccl_atomic_size(c->datatype);
	struct uccl_atomic_args args = { .operand = operand, .compare = compare };
	struct uccl_rma x = {
		.type = c->type, .datatype = (uint8_t)c->datatype, .atomic = (uint8_t)c->op, .args = &args,
		.iov = result, .count = c->nresult, .addr = c->dest, .data = c->data,
		.context = c->context, .flags = c->flags, .done_cntr = c->done_cntr,
		.quiet = c->quiet,
	};
	struct uccl_ep_fid *f = uccl_ep_fid_of(&ep->fid);
	uint64_t len = 0;

	if (!uccl_atomic_valid(c->type, c->datatype, c->op))
		return -FI_EOPNOTSUPP;
	if (c->nrma > UCCL_SEG_MAX || !to_iov(operand, c->operand, c->noperand, size) ||
	    !to_iov(compare, c->compare, c->ncompare, size) || !to_iov(result, c->result, c->nresult, size))
		return -FI_EINVAL;
	for (size_t i = 0; i < c->nrma; i++) {
		x.seg[i] = (struct uccl_seg){ .addr = c->rma[i].addr, .len = c->rma[i].count * size,
					      .key = c->rma[i].key };
		len += x.seg[i].len;
	}
	x.nseg = (uint8_t)c->nrma;
	/* A read has no operand, whatever was passed. */
	args.noperand = c->op == FI_ATOMIC_READ ? 0 : (uint8_t)c->noperand;
	args.ncompare = (uint8_t)c->ncompare;
	if ((c->op != FI_ATOMIC_READ && bytes(operand, args.noperand) != len) ||
	    (c->type == UCCL_OP_COMPARE && bytes(compare, args.ncompare) != len) ||
	    (c->type != UCCL_OP_ATOMIC && bytes(result, c->nresult) != len))
		return -FI_EINVAL;
	if (len > UCCL_ORDER_MAX)
		return -FI_EMSGSIZE;
	args.operand_device = on_device(f->ep, operand, args.noperand);
	args.compare_device = on_device(f->ep, compare, args.ncompare);
	return uccl_xfer_rma(f, &x);
}

static uint64_t rma_count(const struct fi_ioc *ioc, size_t n)
{
	uint64_t count = 0;

	for (size_t i = 0; i < n && i < UCCL_IOV_MAX; i++)
		count += ioc[i].count;
	return count;
}

static ssize_t atomic_writev(struct fid_ep *ep, const struct fi_ioc *iov, void **desc, size_t count,
			     fi_addr_t dest_addr, uint64_t addr, uint64_t key, enum fi_datatype datatype,
			     enum fi_op op, void *context)
{
	struct fi_rma_ioc rma = { .addr = addr, .count = rma_count(iov, count), .key = key };
	struct call c = {
		.type = UCCL_OP_ATOMIC, .datatype = datatype, .op = op, .operand = iov, .noperand = count,
		.dest = dest_addr, .rma = &rma, .nrma = 1, .context = context,
		.flags = uccl_ep_fid_of(&ep->fid)->tx_flags,
	};

	return post(ep, &c);
}

static ssize_t atomic_write(struct fid_ep *ep, const void *buf, size_t count, void *desc, fi_addr_t dest_addr,
			    uint64_t addr, uint64_t key, enum fi_datatype datatype, enum fi_op op, void *context)
{
	struct fi_ioc ioc = { .addr = (void *)buf, .count = count };

	return atomic_writev(ep, &ioc, NULL, 1, dest_addr, addr, key, datatype, op, context);
}

static ssize_t atomic_writemsg(struct fid_ep *ep, const struct fi_msg_atomic *msg, uint64_t flags)
{
	struct call c = {
		.type = UCCL_OP_ATOMIC, .datatype = msg->datatype, .op = msg->op, .operand = msg->msg_iov,
		.noperand = msg->iov_count, .dest = msg->addr, .rma = msg->rma_iov, .nrma = msg->rma_iov_count,
		.context = msg->context, .data = msg->data, .flags = flags,
	};
	int rc = uccl_flags_check(UCCL_CALL_ATOMICMSG, flags);

	return rc ? rc : post(ep, &c);
}

static ssize_t atomic_inject(struct fid_ep *ep, const void *buf, size_t count, fi_addr_t dest_addr, uint64_t addr,
			     uint64_t key, enum fi_datatype datatype, enum fi_op op)
{
	struct fi_ioc ioc = { .addr = (void *)buf, .count = count };
	struct fi_rma_ioc rma = { .addr = addr, .count = count, .key = key };
	struct call c = {
		.type = UCCL_OP_ATOMIC, .datatype = datatype, .op = op, .operand = &ioc, .noperand = 1,
		.dest = dest_addr, .rma = &rma, .nrma = 1, .flags = FI_INJECT, .quiet = true,
	};

	return post(ep, &c);
}

static ssize_t atomic_readwritev(struct fid_ep *ep, const struct fi_ioc *iov, void **desc, size_t count,
				 struct fi_ioc *resultv, void **result_desc, size_t result_count,
				 fi_addr_t dest_addr, uint64_t addr, uint64_t key, enum fi_datatype datatype,
				 enum fi_op op, void *context)
{
	struct fi_rma_ioc rma = { .addr = addr, .count = rma_count(resultv, result_count), .key = key };
	struct call c = {
		.type = UCCL_OP_FETCH, .datatype = datatype, .op = op, .operand = iov, .noperand = count,
		.result = resultv, .nresult = result_count, .dest = dest_addr, .rma = &rma, .nrma = 1,
		.context = context, .flags = uccl_ep_fid_of(&ep->fid)->tx_flags,
	};

	return post(ep, &c);
}

static ssize_t atomic_readwrite(struct fid_ep *ep, const void *buf, size_t count, void *desc, void *result,
				void *result_desc, fi_addr_t dest_addr, uint64_t addr, uint64_t key,
				enum fi_datatype datatype, enum fi_op op, void *context)
{
	struct fi_ioc ioc = { .addr = (void *)buf, .count = count }, to = { .addr = result, .count = count };

	return atomic_readwritev(ep, &ioc, NULL, 1, &to, NULL, 1, dest_addr, addr, key, datatype, op, context);
}

static ssize_t atomic_readwritemsg(struct fid_ep *ep, const struct fi_msg_atomic *msg, struct fi_ioc *resultv,
				   void **result_desc, size_t result_count, uint64_t flags)
{
	struct call c = {
		.type = UCCL_OP_FETCH, .datatype = msg->datatype, .op = msg->op, .operand = msg->msg_iov,
		.noperand = msg->iov_count, .result = resultv, .nresult = result_count, .dest = msg->addr,
		.rma = msg->rma_iov, .nrma = msg->rma_iov_count, .context = msg->context, .data = msg->data,
		.flags = flags,
	};
	int rc = uccl_flags_check(UCCL_CALL_FETCHMSG, flags);

	return rc ? rc : post(ep, &c);
}

static ssize_t atomic_compwritev(struct fid_ep *ep, const struct fi_ioc *iov, void **desc, size_t count,
				 const struct fi_ioc *comparev, void **compare_desc, size_t compare_count,
				 struct fi_ioc *resultv, void **result_desc, size_t result_count,
				 fi_addr_t dest_addr, uint64_t addr, uint64_t key, enum fi_datatype datatype,
				 enum fi_op op, void *context)
{
	struct fi_rma_ioc rma = { .addr = addr, .count = rma_count(iov, count), .key = key };
	struct call c = {
		.type = UCCL_OP_COMPARE, .datatype = datatype, .op = op, .operand = iov, .noperand = count,
		.compare = comparev, .ncompare = compare_count, .result = resultv, .nresult = result_count,
		.dest = dest_addr, .rma = &rma, .nrma = 1, .context = context,
		.flags = uccl_ep_fid_of(&ep->fid)->tx_flags,
	};

	return post(ep, &c);
}

static ssize_t atomic_compwrite(struct fid_ep *ep, const void *buf, size_t count, void *desc, const void *compare,
				void *compare_desc, void *result, void *result_desc, fi_addr_t dest_addr,
				uint64_t addr, uint64_t key, enum fi_datatype datatype, enum fi_op op,
				void *context)
{
	struct fi_ioc ioc = { .addr = (void *)buf, .count = count }, with = { .addr = (void *)compare, .count = count };
	struct fi_ioc to = { .addr = result, .count = count };

	return atomic_compwritev(ep, &ioc, NULL, 1, &with, NULL, 1, &to, NULL, 1, dest_addr, addr, key, datatype, op,
				 context);
}

static ssize_t atomic_compwritemsg(struct fid_ep *ep, const struct fi_msg_atomic *msg,
				   const struct fi_ioc *comparev, void **compare_desc, size_t compare_count,
				   struct fi_ioc *resultv, void **result_desc, size_t result_count, uint64_t flags)
{
	struct call c = {
		.type = UCCL_OP_COMPARE, .datatype = msg->datatype, .op = msg->op, .operand = msg->msg_iov,
		.noperand = msg->iov_count, .compare = comparev, .ncompare = compare_count, .result = resultv,
		.nresult = result_count, .dest = msg->addr, .rma = msg->rma_iov, .nrma = msg->rma_iov_count,
		.context = msg->context, .data = msg->data, .flags = flags,
	};
	int rc = uccl_flags_check(UCCL_CALL_COMPAREMSG, flags);

	return rc ? rc : post(ep, &c);
}

ssize_t uccl_atomic_work(const struct fi_deferred_work *w)
{
	const struct fi_op_compare_atomic *cmp = w->op.compare_atomic;
	const struct fi_op_fetch_atomic *fetch = w->op.fetch_atomic;
	const struct fi_op_atomic *base = w->op.atomic;
	/* Endpoint and message are the first fields of all three. */
	const struct fi_msg_atomic *msg = &base->msg;
	struct call c = {
		.type = UCCL_OP_ATOMIC, .datatype = msg->datatype, .op = msg->op, .operand = msg->msg_iov,
		.noperand = msg->iov_count, .dest = msg->addr, .rma = msg->rma_iov, .nrma = msg->rma_iov_count,
		.context = msg->context, .data = msg->data, .flags = base->flags, .done_cntr = w->completion_cntr,
	};

	if (w->op_type == FI_OP_FETCH_ATOMIC) {
		c.type = UCCL_OP_FETCH;
		c.result = fetch->fetch.msg_iov;
		c.nresult = fetch->fetch.iov_count;
		c.flags = fetch->flags;
	} else if (w->op_type == FI_OP_COMPARE_ATOMIC) {
		c.type = UCCL_OP_COMPARE;
		c.result = cmp->fetch.msg_iov;
		c.nresult = cmp->fetch.iov_count;
		c.compare = cmp->compare.msg_iov;
		c.ncompare = cmp->compare.iov_count;
		c.flags = cmp->flags;
	}
	return post(base->ep, &c);
}

/*
 * How many elements one operation may have. Those without a comparison may have twice as many, but programs take the
 * number of one kind for another's (MPICH, where a window's hints leave comparisons out).
 */
static int valid(enum uccl_op_type type, enum fi_datatype datatype, enum fi_op op, size_t *count)
{
	if (!uccl_atomic_valid(type, datatype, op))
		return -FI_EOPNOTSUPP;
	if (count)
		*count = UCCL_ORDER_MAX / 2 / uccl_atomic_size(datatype);
	return 0;
}

static int atomic_writevalid(struct fid_ep *ep, enum fi_datatype datatype, enum fi_op op, size_t *count)
{
	return valid(UCCL_OP_ATOMIC, datatype, op, count);
}

static int atomic_readwritevalid(struct fid_ep *ep, enum fi_datatype datatype, enum fi_op op, size_t *count)
{
	return valid(UCCL_OP_FETCH, datatype, op, count);
}

static int atomic_compwritevalid(struct fid_ep *ep, enum fi_datatype datatype, enum fi_op op, size_t *count)
{
	return valid(UCCL_OP_COMPARE, datatype, op, count);
}

int uccl_query_atomic(struct fid_domain *domain, enum fi_datatype datatype, enum fi_op op,
		      struct fi_atomic_attr *attr, uint64_t flags)
{
	enum uccl_op_type type = UCCL_OP_ATOMIC;
	int rc;

	if (flags & ~(FI_FETCH_ATOMIC | FI_COMPARE_ATOMIC | FI_TAGGED) ||
	    (flags & FI_FETCH_ATOMIC && flags & FI_COMPARE_ATOMIC))
		return -FI_EINVAL;
	if (flags & FI_TAGGED)
		return -FI_EOPNOTSUPP;
	if (flags & FI_FETCH_ATOMIC)
		type = UCCL_OP_FETCH;
	else if (flags & FI_COMPARE_ATOMIC)
		type = UCCL_OP_COMPARE;
	rc = valid(type, datatype, op, &attr->count);
	if (!rc)
		attr->size = uccl_atomic_size(datatype);
	return rc;
}

struct fi_ops_atomic uccl_atomic_ops = {
	.size = sizeof(struct fi_ops_atomic),
	.write = atomic_write,
	.writev = atomic_writev,
	.writemsg = atomic_writemsg,
	.inject = atomic_inject,
	.readwrite = atomic_readwrite,
	.readwritev = atomic_readwritev,
	.readwritemsg = atomic_readwritemsg,
	.compwrite = atomic_compwrite,
	.compwritev = atomic_compwritev,
	.compwritemsg = atomic_compwritemsg,
	.writevalid = atomic_writevalid,
	.readwritevalid = atomic_readwritevalid,
	.compwritevalid = atomic_compwritevalid,
};
