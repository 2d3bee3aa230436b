/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The state of an engine, its peers and their paths, for people and tools: the only structure that tells them.
 * uccl_engine_snapshot writes it. FI_UCCL_STATS prints it (report.c), the functions of fi_ext_uccl.h answer from it
 * (api/endpoint/openops.c), and api/watch/live.c keeps it in a file. util/observe/snapshot_file.h reads such files for
 * uccl_top, and util/observe/stall_report.h finds in them who is slow. It is one block of memory without pointers.
 * Only programs of the same build read it: `version` and `stats_bytes` tell.
 *
 *   struct uccl_snapshot, then npeers times: struct uccl_snapshot_peer and its npaths struct uccl_snapshot_path
 */
#ifndef UCCL_ENGINE_OBSERVE_SNAPSHOT_H
#define UCCL_ENGINE_OBSERVE_SNAPSHOT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "flow/observe/stall.h"
#include "flow/observe/stats.h"

struct uccl_engine;

#define UCCL_SNAPSHOT_MAGIC 0x776569564c434355ull /* "UCCLView" */
#define UCCL_SNAPSHOT_VERSION 4

enum uccl_snapshot_state { UCCL_SNAPSHOT_CONNECTING, UCCL_SNAPSHOT_OPEN, UCCL_SNAPSHOT_ENDED };

struct uccl_snapshot {
	uint64_t magic;
	uint32_t version;
	uint32_t stats_bytes;		/* sizeof(struct uccl_stats) */
	uint32_t seq;			/* the writer's: odd while it writes (live files) */
	uint32_t bytes;			/* of all of it */
	uint64_t at_ns;			/* CLOCK_MONOTONIC, or the simulator's */
	int64_t pid;			/* the writer's, 0: none */
	int64_t rank;			/* of the process in its job; -1: not known */
	char host[64];			/* of the process; may be empty */
	char interface[80];		/* of the endpoint; may be empty */
	char place[80];			/* where packets to this endpoint go; may be empty */
	char backend[32], cc[16], path[16], credit[16];
	uint8_t ip[16];			/* of this endpoint, and its port: as its peers see it */
	uint16_t port;
	uint16_t reserved[3];
	uint64_t nic_ns;		/* how long the NIC took no more although there was something to send */
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
	uint64_t stall_for_ns;		    /* how long this stall has lasted */
	uint64_t stall_ns[UCCL_STALL_COUNT]; /* total of each kind; their sum is the time since the peer became known */
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
 * Fill `size` bytes at `v`, aligned to 8, but pid, rank, host, seq, interface, place and backend, which are left alone.
 * Returns the bytes used; 0 if there is not even room for the head. Peers that do not fit are counted in left_out. By
 * the owner.
 */
size_t uccl_engine_snapshot(const struct uccl_engine *e, struct uccl_snapshot *v, size_t size, uint64_t now);

/* The first peer, and the one after; NULL: no more, or the block contradicts itself. */
const struct uccl_snapshot_peer *uccl_snapshot_first(const struct uccl_snapshot *v);
const struct uccl_snapshot_peer *uccl_snapshot_next(const struct uccl_snapshot *v, const struct uccl_snapshot_peer *p);
static inline const struct uccl_snapshot_path *uccl_snapshot_paths(const struct uccl_snapshot_peer *p)
{
	return (const struct uccl_snapshot_path *)(p + 1);
}

const char *uccl_snapshot_path_state(uint8_t state);
/* An IP address (IPv4 mapped into IPv6) as people write it; "?": the buffer is too short for it. */
#define UCCL_SNAPSHOT_IP_TEXT 46
void uccl_snapshot_ip_text(const uint8_t ip[16], char *buf, size_t size);

/* Print the counters and the first `peers_max` peers for a person. `each_path`: with all paths of each peer. */
void uccl_snapshot_print(const struct uccl_snapshot *v, int peers_max, bool each_path, FILE *f);

#endif
