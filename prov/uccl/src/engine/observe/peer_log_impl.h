/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* peer_log.c: what a person is told. */
#ifndef UCCL_ENGINE_OBSERVE_PEER_LOG_IMPL_H
#define UCCL_ENGINE_OBSERVE_PEER_LOG_IMPL_H

#include <stdbool.h>
#include <stdint.h>

struct conn;
struct uccl_engine;
struct uccl_nic_addr;

/* Of an engine. */
struct engine_peer_log {
	bool mtu_reported;		/* a person knows that a network is narrow */
	bool trains_reported;		/* a person knows that trains are broken here */
	uint64_t former_ns;		/* when a peer of the former version was last named; 0: never */
};

/* It ended, for this reason (FI_Exxx). */
void conn_end_reported(struct conn *c, int err);
/* Trains to this peer ended, or began again. */
void conn_trains(struct conn *c);
/* A peer at this address speaks the former version of the protocol, and was refused. */
void engine_former_reported(struct uccl_engine *e, const struct uccl_nic_addr *at, uint64_t now);
/* Packets to this peer have another length now. */
void conn_pmtu(struct conn *c);

#endif
