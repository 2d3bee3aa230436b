/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* peer_log.c: log messages about peers. */
#ifndef UCCL_ENGINE_OBSERVE_PEER_LOG_IMPL_H
#define UCCL_ENGINE_OBSERVE_PEER_LOG_IMPL_H

#include <stdbool.h>
#include <stdint.h>

struct conn;
struct uccl_engine;
struct uccl_nic_addr;
struct uccl_peer;

/* A part of the engine. */
struct engine_peer_log {
	bool mtu_reported;		/* a warning said that the network carries shorter packets */
	bool trains_reported;		/* a warning said that trains are lost */
	uint64_t version_ns;		/* when a peer of another version was last named; 0: never */
	void (*ended)(void *arg, const struct uccl_peer *p, int err); /* uccl_engine_attr */
	void *ended_arg;
};

/* The peer ended, for this reason (FI_Exxx). */
void conn_end_reported(struct conn *c, int err, uint64_t now);
/* What the kernel of a silent peer's host says of its process. */
enum silent_process {
	SILENT_UNKNOWN,  /* nothing */
	SILENT_COMPUTES, /* it is there, and makes no calls */
	SILENT_ANSWERS,	 /* it is there, and answers by TCP, before it was ever connected */
};

/* The peer has not answered for silent_ns. */
void conn_silent_reported(struct conn *c, uint64_t silent_ns, enum silent_process process);
/* The peer answered after all. `warned`: a warning had said that it does not. */
void conn_answered_reported(struct conn *c, uint64_t silent_ns, bool warned);
/* Trains to this peer ended, or began again. */
void conn_trains(struct conn *c);
/* A peer at this address speaks another version of the protocol, and was refused. */
void engine_version_reported(struct uccl_engine *e, const struct uccl_nic_addr *at, uint8_t version, uint64_t now);
/* Packets to this peer have another length now. */
void conn_pmtu(struct conn *c);

#endif
