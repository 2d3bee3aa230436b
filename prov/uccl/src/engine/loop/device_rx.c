/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Memory of a device that the NIC is lent, so that payload comes there by itself: slots, from which the device copies
 * it to where it belongs. It exists from the first message on that could use it, for one device, until the end.
 */
#include <rdma/fi_errno.h>
#include <stdlib.h>

#include "engine/impl.h"

/* Memory of this device, and the NIC takes it. False: not now, nor later. */
static bool device_rx_open(struct uccl_engine *e, const void *buf, int device)
{
	const struct uccl_device_ops *ops = e->msg_ep.device.ops;
	struct uccl_nic_device of = {.number = device, .arg = e->msg_ep.device.arg, .dmabuf = ops->dmabuf};
	struct engine_device_rx *l = &e->device_rx;

	l->tried = true;
	l->slots = calloc(e->nic->caps.device_rx_slots, sizeof(*l->slots));
	l->mem = l->slots ? ops->slab(of.arg, buf, e->nic->caps.device_rx_bytes) : NULL;
	if (l->mem && !e->nic->ops->device_rx_open(e->nic, l->mem, &of, &l->queue)) {
		l->device = device;
		return true;
	}
	l->queue = 0;
	if (l->mem)
		ops->slab_free(of.arg, l->mem);
	l->mem = NULL;
	return false;
}

uint32_t engine_device_rx_queue(struct uccl_engine *e, const void *buf)
{
	const struct uccl_device_ops *ops = e->msg_ep.device.ops;
	const struct engine_device_rx *l = &e->device_rx;
	int device;

	if (!e->nic->caps.device_rx_slots || !e->nic->ops->device_rx_open || !ops->direct || !ops->slab ||
	    (l->tried && !l->queue))
		return 0;
	device = ops->direct(e->msg_ep.device.arg, buf);
	if (device < 0 || (!l->tried && !device_rx_open(e, buf, device)) || l->device != device)
		return 0;
	/* Copies do not keep up: more would be refused, and come again. PROTOCOL R293 */
	return l->n > e->nic->caps.device_rx_slots / 2 ? 0 : l->queue;
}

enum uccl_drop engine_device_rx_may(struct uccl_engine *e)
{
	struct engine_device_rx *l = &e->device_rx;

	if (l->n == e->nic->caps.device_rx_slots)
		return UCCL_DROP_MEMORY;
	if (!l->seen && l->queue) {
		l->seen = !e->msg_ep.device.ops->flush(e->msg_ep.device.arg, l->mem);
		/* What nobody can say that the device sees comes again, by the usual way. */
		if (!l->seen)
			l->queue = 0;
	}
	return l->seen ? UCCL_DROP_COUNT : UCCL_DROP_MEMORY;
}

void engine_device_rx_keep(struct uccl_engine *e, uint32_t slot, uint64_t before)
{
	struct engine_device_rx *l = &e->device_rx;

	if (e->msg_ep.device.queued == before) {
		e->nic->ops->device_rx_free(e->nic, slot);
		return;
	}
	l->slots[(l->first + l->n++) % e->nic->caps.device_rx_slots] =
		(struct engine_device_rx_slot){.ticket = e->msg_ep.device.queued, .slot = slot};
}

void engine_device_rx_settle(struct uccl_engine *e)
{
	struct engine_device_rx *l = &e->device_rx;

	while (l->n && l->slots[l->first].ticket <= e->msg_ep.device.done) {
		e->nic->ops->device_rx_free(e->nic, l->slots[l->first].slot);
		l->first = (l->first + 1) % e->nic->caps.device_rx_slots;
		l->n--;
	}
}

void engine_device_rx_close(struct uccl_engine *e)
{
	if (e->device_rx.mem)
		e->msg_ep.device.ops->slab_free(e->msg_ep.device.arg, e->device_rx.mem);
	free(e->device_rx.slots);
}
