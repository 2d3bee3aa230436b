/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* device_rx.c: memory of devices that payload comes to. */
#ifndef UCCL_ENGINE_LOOP_DEVICE_RX_IMPL_H
#define UCCL_ENGINE_LOOP_DEVICE_RX_IMPL_H

#include <stdbool.h>
#include <stdint.h>

#include "flow/observe/stats.h"

struct uccl_engine;

/* A slot that a packet came to, and the last of the copies that may read it. */
struct engine_device_rx_slot {
	uint64_t ticket;
	uint32_t slot;
};

/* Memory of a device that the NIC was lent. */
struct engine_device_rx {
	void *mem;			/* NULL: none */
	int device;
	uint32_t queue;			/* by which peers name it; 0: none is told of it any more */
	bool tried;
	bool seen;			/* the device sees all that came up to the latest look at the NIC */
	/* Those that are copied from, a ring of caps.device_rx_slots in the order of their copies. */
	struct engine_device_rx_slot *slots;
	uint32_t first, n;
};

/* More may have come from the NIC. */
static inline void engine_device_rx_came(struct engine_device_rx *d)
{
	d->seen = false;
}

/* The NIC's queue that puts payload into memory of the device of `buf`; 0: none now. PROTOCOL R291 */
uint32_t engine_device_rx_queue(struct uccl_engine *e, const void *buf);
/* May the slot of a packet that came be copied from? UCCL_DROP_COUNT, or why not now. PROTOCOL R191 R293 */
enum uccl_drop engine_device_rx_may(struct uccl_engine *e);
/* The packet in it was taken in: it is the NIC's again when all is done that was queued since `before`. */
void engine_device_rx_keep(struct uccl_engine *e, uint32_t slot, uint64_t before);
/* Slots whose copies are done are the NIC's again. */
void engine_device_rx_settle(struct uccl_engine *e);
/* The NIC is closed. */
void engine_device_rx_close(struct uccl_engine *e);

#endif
