/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* liveness.c: is a peer there? From the first doubt to the proof of death. */
#ifndef UCCL_ENGINE_CONN_LIVENESS_IMPL_H
#define UCCL_ENGINE_CONN_LIVENESS_IMPL_H

#include <stdbool.h>

#include "flow/wire/wire.h"

struct conn;
struct uccl_engine;

/* A part of struct conn: proof of death, reports of the host, confirmed by silence. */
struct conn_liveness {
	uint32_t unreach;
	uint64_t unreach_ns;		/* first report since anything was heard */
	uint64_t unreach_last;
	uint64_t gone_ns;		/* the liveness connection broke */
	uint64_t suspect_at;		/* next probe of a suspect */
	uint64_t kept_ns;		/* last keepalive */
	uint64_t refreshed_ns;		/* last packet that only kept the 5-tuple alive */
	uint64_t checked_ns;		/* last scan while something was expected of it; 0: nothing is */
	uint64_t unanswered_ns;		/* how long the peer has let us wait, without our own absences */
	uint64_t init_ack_ns;		/* when INIT_ACK was sent last */
	int broken;			/* see conn_broken(); 0: it is not */
};

/* From now on scans find out whether the peer is there. */
void conn_watch(struct conn *c, uint64_t now);
/* The liveness connection to the process at `at` ended. */
void conn_gone(struct uccl_engine *e, const struct uccl_nic_addr *at, uint64_t now);
/* A report of the network (ICMP). UCCL_DROP_REPORT: what it quotes is none of our packets. */
enum uccl_drop conn_icmp(struct uccl_engine *e, const struct uccl_rx *rx, uint64_t now);
/* Somebody answered at the place of `c`: what was reported of it before is forgotten. */
void conn_reached(struct conn *c);
/* A COOKIE of a connected peer: its answer to our probe. */
enum uccl_drop conn_answer(struct conn *c, const struct uccl_hdr *h, uint64_t now);
/* Keepalives, time-outs, suspects; sets uccl_engine.scan_at. */
void conn_scan(struct uccl_engine *e, uint64_t now);

/* INIT_ACK is due. */
static inline void conn_init_acked(struct conn_liveness *l, uint64_t now)
{
	l->init_ack_ns = now;
}

#endif
