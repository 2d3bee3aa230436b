/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* What the uccl provider offers to programs beyond libfabric's own headers. */
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
 * fi_info.addr_format of the provider's own addresses: FI_UCCL_ADDR_LEN opaque bytes that hold the place, the
 * incarnation and the connect key of one endpoint. Copy them as they are. The highest bit is the one that libfabric
 * leaves to providers: 1.x calls it FI_PROV_SPECIFIC, 2.x has no name for it.
 */
#define FI_ADDR_UCCL ((1u << 31) | 0x7563636cu)
#define FI_UCCL_ADDR_LEN 56

/* fi_ep_attr.protocol and .protocol_version. */
#define FI_PROTO_UCCL ((1u << 31) | 0x7563636cu)
#define FI_UCCL_PROTO_VERSION 1

/*
 * What an endpoint does, as a program can see it at any time after fi_enable:
 *
 *   struct fi_uccl_ops_ep *ops;
 *   fi_open_ops(&ep->fid, FI_UCCL_OPS_EP, 0, (void **)&ops, NULL);
 *
 * Later versions add fields at the end of the structs only. The caller passes the size of the struct that it knows, and
 * no more is written. A call takes a snapshot. It costs some microseconds, and as much again for each peer. Any thread
 * that may use the endpoint may call. -FI_EOPBADSTATE: the endpoint is not enabled.
 */
#define FI_UCCL_OPS_EP "uccl_ep_1"

/* Counters since the endpoint was enabled. */
struct fi_uccl_stats {
	uint64_t tx_packets, tx_bytes;		/* packets sent; payload sent for the first time */
	uint64_t rx_packets, rx_bytes;		/* packets accepted; payload delivered */
	uint64_t rtx_packets, rtx_bytes;	/* sent again */
	uint64_t spurious;			/* sent again although they had arrived */
	uint64_t timeouts;			/* retransmission time-outs */
	uint64_t quarantined;			/* paths taken out of service */
	uint64_t connects, peers_dead, peers_closed;
	uint64_t unexpected;			/* messages that came before their receive */
	uint64_t dropped;			/* packets and messages refused, for all reasons */
	uint64_t peers, peers_open;		/* known now; connected now */
};

enum fi_uccl_peer_state { FI_UCCL_PEER_CONNECTING, FI_UCCL_PEER_OPEN, FI_UCCL_PEER_ENDED };

/* One peer. Times in ns. */
struct fi_uccl_peer {
	uint8_t ip[16];				/* IPv4 mapped to IPv6; of an RDMA NIC its GID */
	uint16_t port;				/* UDP port, host order; of an RDMA NIC 0 */
	uint16_t paths, paths_usable;		/* paths that carried something; paths in service */
	uint8_t state;				/* enum fi_uccl_peer_state */
	uint8_t reserved;
	uint64_t srtt_ns, min_rtt_ns;		/* smoothed and least round-trip time; UINT64_MAX: no sample yet */
	uint64_t heard_ago_ns;			/* time since the last packet from it */
	uint64_t inflight_bytes, window_bytes;	/* in flight; allowed by congestion control */
	uint64_t lost;				/* chunks that were found lost, on all paths */
};

struct fi_uccl_ops_ep {
	size_t size;	/* of this struct */
	/* 0. Writes at most `size` bytes. */
	int (*stats)(struct fid_ep *ep, struct fi_uccl_stats *stats, size_t size);
	/*
	 * Fills the array `peers`, which has `count` entries of `size` bytes, in no particular order. Returns how many
	 * peers there are, which may be more than `count`. -FI_ENOMEM.
	 */
	ssize_t (*peers)(struct fid_ep *ep, void *peers, size_t count, size_t size);
	/* The i-th reason for refusing a packet, and how many it refused. -FI_ENODATA: there is no i-th reason. */
	int (*dropped)(struct fid_ep *ep, unsigned int i, const char **why, uint64_t *count);
};

#endif
