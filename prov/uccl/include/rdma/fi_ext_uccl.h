/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The uccl provider's extensions to libfabric's interface. */
#ifndef FI_EXT_UCCL_H
#define FI_EXT_UCCL_H

#include <rdma/fabric.h>
#include <rdma/fi_endpoint.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define FI_UCCL_PROV_NAME "uccl"
#define FI_UCCL_FABRIC_NAME "uccl"

/*
 * fi_info.addr_format of the provider's own addresses. An address is FI_UCCL_ADDR_LEN opaque bytes: network address,
 * incarnation and connect key of one endpoint. A program copies them unchanged. The highest bit of the format marks
 * values of providers: libfabric 1.x calls it FI_PROV_SPECIFIC, 2.x has no name for it.
 */
#define FI_ADDR_UCCL ((1u << 31) | 0x7563636cu)
#define FI_UCCL_ADDR_LEN 56

/*
 * Values of fi_ep_attr.protocol and fi_ep_attr.protocol_version. The protocol is provisional until libfabric has it.
 * Programs keep such numbers in an int, so the highest bit is clear. Version 1.0 had it set; hints may still have it.
 */
#define FI_PROTO_UCCL 0x7563636cu
#define FI_PROTO_UCCL_1_0 ((1u << 31) | FI_PROTO_UCCL)
#define FI_UCCL_PROTO_VERSION 1

/*
 * fi_setopt, fi_getopt (level FI_OPT_ENDPOINT): a time limit in nanoseconds, uint64_t, for each operation that the
 * endpoint posts from then on: sends, reads, writes and atomics. 0: none. An operation that is not complete after this
 * time is taken back as by fi_cancel, and ends with FI_ETIMEDOUT. Its peer has not failed by that. At first it is
 * FI_UCCL_OP_TIMEOUT.
 */
#define FI_OPT_UCCL_OP_TIMEOUT ((int)((1u << 31) | 0x7563))

/*
 * fi_setopt, fi_getopt: an int, 0 or 1; 0 at first. 1: the event queue that is bound to a connectionless endpoint tells
 * of the end of each peer in its address vector, as an error entry (fi_eq_readerr): `fid` is the endpoint, `context`
 * its context, `data` the fi_addr_t of the peer, and `err` what became of it:
 *
 *	FI_ESHUTDOWN		it closed its endpoint
 *	FI_ECONNABORTED		its process ended, or said that it lost us
 *	FI_ECONNRESET		another process was the first to answer at its place
 *	FI_ETIMEDOUT		it was silent for FI_UCCL_PEER_TIMEOUT
 *	another			why there never was a connection, as operations report it
 *
 * A peer that is only paused has no entry. Operations to that peer end as usual, and the endpoint goes on. 4096 such
 * entries are kept; later ones are lost until some are read.
 */
#define FI_OPT_UCCL_PEER_EVENTS ((int)((1u << 31) | 0x7564))

/*
 * Statistics of an endpoint. A program may read them at any time after fi_enable:
 *
 *   struct fi_uccl_ops_ep *ops;
 *   fi_open_ops(&ep->fid, FI_UCCL_OPS_EP, 0, (void **)&ops, NULL);
 *
 * Later versions only add fields at the end of the structs. The caller passes the size of the struct that it was
 * compiled with, and a call writes no more than that. A call takes a snapshot, which costs some microseconds, and some
 * more for each peer. Any thread that may use the endpoint may call. -FI_EOPBADSTATE: the endpoint is not enabled.
 */
#define FI_UCCL_OPS_EP "uccl_ep_1"

/* Counters since the endpoint was enabled. */
struct fi_uccl_stats {
	uint64_t tx_packets, tx_bytes;		/* packets sent; payload bytes sent for the first time */
	uint64_t rx_packets, rx_bytes;		/* packets accepted; payload bytes delivered */
	uint64_t rtx_packets, rtx_bytes;	/* packets sent again; their payload bytes */
	uint64_t spurious;			/* packets sent again although the first copy had arrived */
	uint64_t timeouts;			/* retransmission time-outs */
	uint64_t quarantined;			/* times that a path was taken out of service */
	uint64_t connects, peers_dead, peers_closed; /* connections opened; peers lost; peers that closed */
	uint64_t unexpected;			/* messages that arrived before their receive was posted */
	uint64_t dropped;			/* packets and messages refused, for all reasons */
	uint64_t peers, peers_open;		/* peers known now; peers connected now */
};

enum fi_uccl_peer_state { FI_UCCL_PEER_CONNECTING, FI_UCCL_PEER_OPEN, FI_UCCL_PEER_ENDED };

/* One peer. */
struct fi_uccl_peer {
	uint8_t ip[16];				/* IPv6 address, or IPv4 mapped to IPv6; RDMA NIC: the GID */
	uint16_t port;				/* UDP port in host byte order; RDMA NIC: 0 */
	uint16_t paths, paths_usable;		/* paths that carried data; paths in service */
	uint8_t state;				/* enum fi_uccl_peer_state */
	uint8_t reserved;
	uint64_t srtt_ns, min_rtt_ns;		/* smoothed and least RTT, ns; UINT64_MAX: no sample yet */
	uint64_t heard_ago_ns;			/* ns since the last packet from the peer */
	uint64_t inflight_bytes, window_bytes;	/* bytes in flight; bytes that congestion control allows */
	uint64_t lost;				/* chunks found lost, on all paths */
};

struct fi_uccl_ops_ep {
	size_t size;	/* of this struct */
	/* Fill *stats; `size` is its size. 0, or an error. */
	int (*stats)(struct fid_ep *ep, struct fi_uccl_stats *stats, size_t size);
	/*
	 * Fill the array `peers` of `count` entries of `size` bytes each (struct fi_uccl_peer), in no particular order.
	 * Returns the number of peers, which may exceed `count`; only `count` entries are filled. -FI_ENOMEM.
	 */
	ssize_t (*peers)(struct fid_ep *ep, void *peers, size_t count, size_t size);
	/*
	 * The i-th reason for which packets and messages were refused: *why becomes its text (static), *count their
	 * number. -FI_ENODATA: there are no more reasons.
	 */
	int (*dropped)(struct fid_ep *ep, unsigned int i, const char **why, uint64_t *count);
};

/*
 * Rights of peers to a region that its owner takes back, for as long as the region is open:
 *
 *   struct fi_uccl_ops_mr *ops;
 *   fi_open_ops(&mr->fid, FI_UCCL_OPS_MR, 0, (void **)&ops, NULL);
 *
 * When a call returns 0, nothing that these peers did or will do changes or reads these bytes any more. What they had
 * begun there ends at their side with FI_EKEYREJECTED, as does what they begin later. To give the rights again,
 * register the memory again, with another key.
 */
#define FI_UCCL_OPS_MR "uccl_mr_1"

struct fi_uccl_ops_mr {
	size_t size;	/* of this struct */
	/* Bytes [offset, offset + len) of the region, of all peers. -FI_EINVAL: it does not have them, or len is 0. */
	int (*revoke)(struct fid_mr *mr, uint64_t offset, uint64_t len);
	/*
	 * All of the region, of the peer at this address of `ep`, which is enabled, and of the next peer at its place;
	 * by any endpoint of the domain.
	 */
	int (*revoke_peer)(struct fid_mr *mr, struct fid_ep *ep, fi_addr_t peer);
};

#endif
