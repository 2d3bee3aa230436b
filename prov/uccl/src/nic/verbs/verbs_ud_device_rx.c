/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Receives payload straight into device memory, by one more queue pair. Its receives put the header into host memory
 * and the rest into a slot of the device memory that the owner lends; every packet of a flow has a header of the same
 * length. There are more slots than receives: a slot that the caller still copies from takes no receive away.
 * PROTOCOL R291 R293
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
	uint32_t slots = (uint32_t)(u->nic.caps.device_rx_bytes / ud_device_rx_slot_bytes(u));
	struct uccl_verbs_slab_attr headers = {.stride = HEADER_STRIDE, .count = slots, .least = slots,
					       .nodes = u->nodes, .access = IBV_ACCESS_LOCAL_WRITE};
	int err;

	/* Peers have no right to write or read there. PROTOCOL R292 */
	err = uccl_verbs_gpu_reg(&u->gpus, u->lib, u->pd, u->port.name, mem, u->nic.caps.device_rx_bytes,
				 (uintptr_t)mem, IBV_ACCESS_LOCAL_WRITE, device, &l->mr);
	if (err) {
		l->mr = NULL;
		return err;
	}
	l->mem = mem;
	err = uccl_verbs_slab_open(u->lib, u->pd, u->port.name, &l->headers, &headers);
	return err ? err : uccl_ud_rq_open(u, &l->rq, slots, u->nic.caps.device_rx_slots, 2);
}

int uccl_ud_device_rx_open(struct uccl_nic *nic, void *mem, const struct uccl_nic_device *device, uint32_t *key)
{
	struct ud *u = ud_of(nic);
	int err;

	if (!u->nic.caps.device_rx_slots || u->device.rq.qp)
		return -FI_EOPNOTSUPP;
	err = device_rx_open(u, mem, device);
	if (err) {
		UCCL_LOG(UCCL_LOG_INFO, "%s: payload for GPU %d is copied there: %s", u->port.name, device->number,
			 strerror(-err));
		uccl_ud_device_rx_close(u);
		return err;
	}
	*key = u->device.rq.qp->qp_num;
	return 0;
}

void uccl_ud_device_rx_free(struct uccl_nic *nic, uint32_t slot)
{
	ud_rq_give_back(&ud_of(nic)->device.rq, slot);
}

void uccl_ud_device_rx_close(struct ud *u)
{
	struct ud_device_rx *l = &u->device;

	uccl_ud_rq_close(u, &l->rq);
	uccl_verbs_slab_close(u->lib, &l->headers);
	if (l->mr)
		uccl_verbs_dereg(u->lib, l->mr, u->port.name);
	*l = (struct ud_device_rx){.mem = NULL};
}

#endif
