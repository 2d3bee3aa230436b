/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* peer_log.c: what a person is told. */
#ifndef UCCL_ENGINE_OBSERVE_PEER_LOG_IMPL_H
#define UCCL_ENGINE_OBSERVE_PEER_LOG_IMPL_H

#include <stdbool.h>

struct conn;

/* Of an engine. */
struct engine_peer_log {
	bool mtu_reported;		/* a person knows that a network is narrow */
	bool trains_reported;		/* a person knows that trains are broken here */
};

/* It ended, for this reason (FI_Exxx). */
void conn_end_reported(struct conn *c, int err);
/* Trains to this peer ended, or began again. */
void conn_trains(struct conn *c);
/* Packets to this peer have another length now. */
void conn_pmtu(struct conn *c);

#endif
