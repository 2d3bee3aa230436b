/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Payload that comes to memory of a device by itself: one more queue pair, whose receives have the header in memory of
 * the host and the rest in a slot of memory that was lent. The header of every packet of a flow has one length, so that
 * is exact. There are more slots than receives: those that the caller keeps, because they are being copied from, take
 * no place of the queue away. PROTOCOL R291 R293
 */
#include "nic/verbs/ud_state.h"

#ifdef HAVE_VERBS

#include <string.h>

#include <rdma/fi_errno.h>

#include "base/log.h"

#define HEADER_STRIDE 128 /* UD_SKEW, UD_GRH and a header */

_Static_assert(UD_SKEW + UD_GRH + UCCL_HDR_LEN == HEADER_STRIDE, "headers lie at multiples of 64");

static int device_rx_open(struct ud *u, uint8_t *mem, const struct uccl_nic_device *device)
{
	struct ud_device_rx *l = &u->device;
	uint32_t slots = (uint32_t)(u->nic.caps.lend_bytes / ud_device_rx_each(u));
	int err;

	/* Nobody else may write there, nor read. PROTOCOL R292 */
	err = uccl_verbs_gpu_reg(&u->gpus, u->lib, u->pd, u->port.name, mem, u->nic.caps.lend_bytes, (uintptr_t)mem,
				 IBV_ACCESS_LOCAL_WRITE, device, &l->mr);
	if (err) {
		l->mr = NULL;
		return err;
	}
	l->mem = mem;
	l->headers.nodes = u->rx.nodes;
	err = uccl_verbs_slab_open(u->lib, u->pd, u->port.name, &l->headers, HEADER_STRIDE, slots, slots,
				   IBV_ACCESS_LOCAL_WRITE, false);
	if (!err)
		err = uccl_ud_rq_init(&u->device_rq, slots, u->nic.caps.lend_slots);
	return err ? err : uccl_ud_rq_open(u, &u->device_rq, 2);
}

int uccl_ud_lend(struct uccl_nic *nic, void *mem, const struct uccl_nic_device *device, uint32_t *key)
{
	struct ud *u = ud_of(nic);
	int err;

	if (!u->nic.caps.lend_slots || u->device_rq.qp)
		return -FI_EOPNOTSUPP;
	err = device_rx_open(u, mem, device);
	if (err) {
		UCCL_LOG(UCCL_LOG_INFO, "%s: payload for GPU %d is copied there: %s", u->port.name, device->number,
			 strerror(-err));
		uccl_ud_device_rx_close(u);
		return err;
	}
	*key = u->device_rq.qp->qp_num;
	return 0;
}

void uccl_ud_reuse(struct uccl_nic *nic, uint32_t slot)
{
	struct ud_rq *q = &ud_of(nic)->device_rq;

	q->out--;
	ud_rq_return(q, slot);
}

void uccl_ud_device_rx_close(struct ud *u)
{
	struct ud_device_rx *l = &u->device;

	uccl_ud_rq_close(u, &u->device_rq);
	uccl_verbs_slab_close(u->lib, &l->headers);
	if (l->mr)
		uccl_verbs_dereg(u->lib, l->mr, u->port.name);
	*l = (struct ud_device_rx){.mem = NULL};
}

#endif
