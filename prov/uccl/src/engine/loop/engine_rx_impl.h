/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* engine_rx.c: packets and events of the NIC find their connection. */
#ifndef UCCL_ENGINE_LOOP_ENGINE_RX_IMPL_H
#define UCCL_ENGINE_LOOP_ENGINE_RX_IMPL_H

#include <stdbool.h>
#include <stdint.h>

#define RX_BATCH 16

struct uccl_engine;
struct uccl_engine_attr;

/* A part of struct uccl_engine. */
struct engine_rx {
	int refused;			/* packets of this poll that went to nobody */
	uint64_t first_age_ns;		/* how old the first packet of the last poll was; 0: none came, or unknown */
	uint32_t chunks;		/* packets with chunks that came, from any peer */
	bool more;			/* the last poll left something in the NIC's queue */
	uint64_t empty_ns;		/* when the last poll was, if it found nothing; else 0 */
	uint8_t *bounce;		/* mispredicted payloads, or rows, of one round */
};

/* -FI_ENOMEM. */
int engine_rx_open(struct engine_rx *r, const struct uccl_engine_attr *attr);
void engine_rx_close(struct engine_rx *r);
/* Returns how many packets and events came; sets e->rx.more. */
int engine_rx(struct uccl_engine *e, uint64_t now);

#endif
