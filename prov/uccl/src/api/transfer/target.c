/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* See target.h. */
#include "api/transfer/target.h"

#include "api/event/cntr.h"
#include "api/memory/mr.h"
#include "api/object/domain.h"
#include "api/transfer/report.h"

static int target_resolve(void *arg, const struct uccl_nic_addr *from, const struct uccl_seg *seg, uint32_t access,
			  struct iovec *iov, void **region)
{
	const struct uccl_ep *ep = arg;

	return uccl_mr_resolve(ep->domain, from, seg, access, ep->run.stage, iov, region);
}

static bool target_device(void *arg, const void *region)
{
	(void)arg;
	return ((const struct uccl_mr *)region)->device;
}

static bool target_sparse(void *arg, const void *region)
{
	(void)arg;
	return uccl_mr_sparse(region);
}

static void target_lock(void *arg)
{
	pthread_mutex_lock(&((struct uccl_ep *)arg)->domain->atomic_lock);
}

static void target_unlock(void *arg)
{
	pthread_mutex_unlock(&((struct uccl_ep *)arg)->domain->atomic_lock);
}

static bool target_claim(void *arg)
{
	return !atomic_exchange(&((struct uccl_ep *)arg)->domain->claimed, true);
}

static void target_release(void *arg)
{
	atomic_store(&((struct uccl_ep *)arg)->domain->claimed, false);
}

/*
 * A region counts every operation that changes it, also one that reads as well (fi_mr(3)); an endpoint takes that
 * one for a read (fi_endpoint(3)). Both kinds may lead to one counter, which then counts the operation once.
 */
static void region_count(const struct uccl_mr *mr, bool read, bool write)
{
	struct uccl_cntr *reads = read ? mr->cntr[0] : NULL, *writes = write ? mr->cntr[1] : NULL;

	if (writes)
		uccl_cntr_count(writes, true);
	if (reads && reads != writes)
		uccl_cntr_count(reads, true);
}

/* Remote CQ data becomes a completion, everything a count. */
static void target_event(void *arg, const struct uccl_rma_event *ev)
{
	struct uccl_ep *ep = arg;
	bool read = ev->fetch || !ev->write;
	struct uccl_cntr *cntr = ep->bound.cntr[read ? UCCL_CNTR_REMOTE_READ : UCCL_CNTR_REMOTE_WRITE];
	struct fi_cq_tagged_entry e = {
		.flags = FI_REMOTE_CQ_DATA | (ev->atomic ? FI_ATOMIC : FI_RMA) |
			 (read ? FI_REMOTE_READ : FI_REMOTE_WRITE),
		.len = ev->len,
		.data = ev->data,
	};

	if (ep->closing)
		return;
	if (ev->recv)
		uccl_report_recv_data(ev->recv, e.flags);
	else if (ev->has_data && ep->bound.rx_cq)
		uccl_report_arrived(ep, &e, ev->from);
	if (cntr)
		uccl_cntr_count(cntr, true);
	for (uint8_t i = 0; i < ev->nregions; i++) {
		struct uccl_mr *mr = ev->regions[i];
		bool again = false;

		/* One operation counts once, however many of its segments lie in one region. */
		for (uint8_t k = 0; k < i; k++)
			again |= ev->regions[k] == mr;
		if (!again)
			region_count(mr, read, ev->write);
	}
}

const struct uccl_target_ops uccl_ep_target = {
	.resolve = target_resolve,
	.device = target_device,
	.sparse = target_sparse,
	.lock = target_lock,
	.unlock = target_unlock,
	.claim = target_claim,
	.release = target_release,
	.event = target_event,
};
