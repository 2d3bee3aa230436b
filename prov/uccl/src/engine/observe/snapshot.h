/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * A picture of an engine for people and tools: its counters, and what it knows of each peer and path. One block of
 * memory without pointers, so that it can lie in a file that another process of the same user reads (api/watch/live.h,
 * util/observe/uccl_top.c). Only programs of the same build read it: `version` and `stats_bytes` say so. What comes
 * from another process goes through uccl_snapshot_check before anything else looks at it.
 *
 *   struct uccl_snapshot, then npeers times: struct uccl_snapshot_peer and its npaths struct uccl_snapshot_path
 */
#ifndef UCCL_ENGINE_OBSERVE_SNAPSHOT_H
#define UCCL_ENGINE_OBSERVE_SNAPSHOT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "flow/observe/stall.h"
#include "flow/observe/stats.h"

struct uccl_engine;

#define UCCL_SNAPSHOT_MAGIC 0x776569564c434355ull /* "UCCLView" */
#define UCCL_SNAPSHOT_VERSION 2

enum uccl_snapshot_state { UCCL_SNAPSHOT_CONNECTING, UCCL_SNAPSHOT_OPEN, UCCL_SNAPSHOT_ENDED };

struct uccl_snapshot {
	uint64_t magic;
	uint32_t version;
	uint32_t stats_bytes;		/* sizeof(struct uccl_stats) */
	uint32_t seq;			/* the writer's: odd while it writes (live files) */
	uint32_t bytes;			/* of all of it */
	uint64_t at_ns;			/* CLOCK_MONOTONIC, or the simulator's */
	int64_t pid;			/* the writer's, 0: none */
	char interface[80];		/* likewise, may be empty */
	char place[80];			/* likewise: where packets to this endpoint go */
	char backend[32], cc[16], path[16], credit[16];
	uint8_t ip[16];			/* of this endpoint, and its port: as its peers see it */
	uint16_t port;
	uint16_t reserved[3];
	uint64_t nic_ns;		/* for so long the NIC took no more although there was something to send */
	uint32_t nconns, nopen;		/* peers, and those that are connected */
	uint32_t npeers;		/* that follow here */
	uint32_t left_out;		/* for want of room */
	struct uccl_stats stats;
};

struct uccl_snapshot_peer {
	uint8_t ip[16];
	uint16_t port;
	uint8_t state;			/* enum uccl_snapshot_state */
	uint8_t short_of_memory;	/* it asked for envelopes only */
	uint16_t npaths;		/* that follow: those that carried something */
	uint16_t nusable;		/* in service */
	uint32_t slots;			/* receive slots that it grants */
	uint32_t inflight_chunks;
	uint32_t backoff;		/* probes in a row without an answer */
	uint8_t stall;			/* what holds it back now: enum uccl_stall */
	uint8_t suspect;		/* its host said that its process is gone, or the liveness connection broke */
	uint8_t without_trains;		/* packet trains to it are lost: none are sent */
	uint8_t reserved;
	uint64_t inflight_bytes, window; /* bytes on the way, and what congestion control allows */
	uint64_t srtt_ns, min_rtt_ns;	/* min: UINT64_MAX without a sample */
	uint64_t heard_ago_ns;
	uint64_t credit_used, credit_limit; /* bytes since the beginning; limit UINT64_MAX: no credits */
	uint64_t stall_for_ns;		    /* so long already */
	uint64_t stall_ns[UCCL_STALL_COUNT]; /* so long each in all; together since the peer was first known */
};

struct uccl_snapshot_path {
	uint16_t index, label;
	uint8_t state;			/* enum uccl_path_state */
	uint8_t losses, strikes;	/* in a row; times in quarantine lately */
	uint8_t reserved;
	uint64_t packets, bytes, lost, rerolls;
	uint64_t srtt_ns, inflight;
};

/*
 * Fill `size` bytes at `v`, aligned to 8, but pid, seq, interface, place and backend, which are left alone. Returns the
 * bytes used; 0 if there is not even room for the head. Peers that do not fit are counted in left_out. By the owner.
 */
size_t uccl_engine_snapshot(const struct uccl_engine *e, struct uccl_snapshot *v, size_t size, uint64_t now);

/*
 * Can these `size` bytes, a copy that nobody changes any more, be believed? NULL, or why not. Then every text ends and
 * has printable characters only, every peer and path is inside, their number is right and every state is known.
 */
const char *uccl_snapshot_check(const struct uccl_snapshot *v, size_t size);

/* The first peer, and the one after; NULL: no more, or the block contradicts itself. */
const struct uccl_snapshot_peer *uccl_snapshot_first(const struct uccl_snapshot *v);
const struct uccl_snapshot_peer *uccl_snapshot_next(const struct uccl_snapshot *v, const struct uccl_snapshot_peer *p);
static inline const struct uccl_snapshot_path *uccl_snapshot_paths(const struct uccl_snapshot_peer *p)
{
	return (const struct uccl_snapshot_path *)(p + 1);
}

const char *uccl_snapshot_path_state(uint8_t state);
/* A peer's IP address as people write it; "?" if the buffer is shorter than UCCL_SNAPSHOT_IP_TEXT and too short. */
#define UCCL_SNAPSHOT_IP_TEXT 46
void uccl_snapshot_ip_text(const struct uccl_snapshot_peer *p, char *buf, size_t size);
/* The same for an address (IPv4 mapped into IPv6). */
void uccl_snapshot_addr_text(const uint8_t ip[16], char *buf, size_t size);

/* What a person reads of it: into buf, always terminated. Returns its length. */
size_t uccl_snapshot_text(const struct uccl_snapshot *v, char *buf, size_t size);

#endif
