/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The interface of a back end. One `struct uccl_nic` serves one engine. Only the engine's owner calls it, one call at a
 * time; there is no lock inside. Errors are -FI_Exxx.
 */
#ifndef UCCL_NIC_NIC_H
#define UCCL_NIC_NIC_H

#include <stdatomic.h>

#include "base/slot_unit.h"
#include "flow/wire/io.h"
#include "flow/observe/stats.h"
#include "nic/ports.h"

/* What a back end can do; constant after open. */
struct uccl_nic_caps {
	uint32_t mtu;		/* most bytes of one packet that can arrive: header + payload + tail */
	uint32_t write_max;	/* most bytes of one remote write, 0: no remote writes */
	bool write_brittle;	/* a path breaks if a packet of a write of several packets is lost */
	uint16_t labels;	/* number of distinct entropy labels (source ports, QPs); label 0 costs nothing */
	bool two_way;		/* label 0 is the port to which peers send, so both directions can be one 5-tuple */
	bool connect_early;	/* connect() opens a liveness connection only, so a peer need not have answered yet */
	bool tx_sync;		/* the payload of packets may be reused when tx() returns */
	bool write_async;	/* the payload of writes may be reused only after UCCL_RX_SENT, despite tx_sync */
	bool placements;	/* rx() can put payload to predicted places (its argument `places`) */
	bool find_mtu;		/* the path MTU may be less than the NIC's, so the engine must discover it (RFC 8899) */
	bool marks;		/* packets are sent as ECN capable, and rx() says which ones were marked (RFC 3168) */
	uint32_t train_bytes;	/* most bytes of a packet train (nic/gso.h); 0: no trains */
	bool dereg_fences;	/* when dereg() returns, no earlier write can touch the memory */
	uint32_t rx_slots;	/* packets of `mtu` bytes that the receive queue holds for sure */
	struct uccl_slot_queue queue;	/* the same in slots of bytes, if the queue is of bytes */
	uint32_t device_rx_slots;	/* device_rx_open(): most slots that the owner may hold at a time; 0: none */
	uint64_t device_rx_bytes;	/* device_rx_open(): bytes of the memory */
	uint64_t link_bps;	/* line rate, bits per second; 0: unknown */
	uint8_t rails;		/* several NICs as one: so many, label l is of number l % rails; else 0 */
	bool link_real;		/* link_bps is the rate of a physical link; a virtual interface may report any rate */
	uint64_t delay_ns;	/* normal fabric delay of this kind of NIC, base of the delay target */
	uint64_t rto_min_ns;	/* floor of the retransmission time-out */
};

/* A common limit on queue pairs for direct writes, for all back ends of a process, in any thread. Zero at first. */
struct uccl_qp_budget {
	_Atomic uint32_t used;	/* queue pairs that exist */
	_Atomic bool wanted;	/* a back end found none left, so back ends with idle ones destroy them */
};

/* Where the program of the xdp back end runs. */
enum uccl_xdp_mode {
	UCCL_XDP_AUTO,	  /* in the driver if it can, else in the generic hook of the kernel */
	UCCL_XDP_NATIVE,  /* in the driver */
	UCCL_XDP_GENERIC, /* in the generic hook of the kernel */
};

/* Whether a peer that may write to memory gets a memory window of it, on NICs that have windows. */
enum uccl_windows {
	UCCL_WINDOWS_AUTO, /* yes, if the NIC also enforces the bounds of windows */
	UCCL_WINDOWS_OFF,  /* no: memory is registered for each write */
	UCCL_WINDOWS_ON,   /* yes */
};

struct uccl_xsk_set;

/* Whether to keep a kernel-held liveness connection to every peer. */
enum uccl_nic_liveness {
	UCCL_LIVENESS_OFF,
	UCCL_LIVENESS_ON,   /* if its port is taken, the NIC opens without, and a line for people says so */
	UCCL_LIVENESS_MUST, /* if bind.port is taken for it, -FI_EADDRINUSE: the caller tries another one */
};

/* How to open a back end. Strings are borrowed for the call. */
struct uccl_nic_attr {
	const char *ifname;		/* interface or device; NULL: any (bind to the wildcard address) */
	struct uccl_nic_addr bind;	/* local address; ip all zero: that of the interface; port 0: ephemeral */
	bool linkless;			/* RDMA NICs: a NIC without link opens without error */
	bool packets;			/* RDMA NICs: send packets only, no direct writes */
	bool device_rx;			/* the owner may call device_rx_open() */
	uint32_t mtu;			/* cap on the packet size, bytes; 0: from the interface */
	uint32_t rx_bytes;		/* requested size of the receive queue, bytes; 0: default */
	uint64_t nodes;			/* NUMA nodes near the NIC, one bit each, for its memory; 0: unknown */
	struct uccl_ports ports;	/* range for the ports of all sockets but bind.port; all zero: any */
	uint16_t labels;		/* most entropy labels, if labels cost ports; 0: what the back end has */
	enum uccl_nic_liveness liveness;
	bool timestamps;		/* fill uccl_rx.age_ns */
	bool ecn;			/* send packets as ECN capable, if the back end can */
	enum uccl_xdp_mode xdp_mode;
	struct uccl_xsk_set **queues;	/* xdp: set of queues; NICs that point to the same share it. NULL: none */
	uint64_t seed;			/* of the fault wrapper and of the choice of ports */
	/* Of data and of control packets: the TOS byte without the ECN bits, and InfiniBand's service level. */
	uint8_t data_class, data_level;
	uint8_t control_class, control_level;
	uint32_t max_qp;		/* most queue pairs for direct writes, to all peers; 0: the default */
	uint32_t write_bytes;		/* most bytes of one direct write; 0: what suits the NIC */
	uint32_t srq_depth;		/* posted receives for direct writes, of all endpoints; 0: enough */
	enum uccl_windows windows;
	struct uccl_qp_budget *budget;	/* max_qp limits all NICs with this budget together; outlives them. NULL: own */
};

/* Least buffer size, bytes, for a record of uccl_nic_ops.offer(). */
#define UCCL_NIC_RECORD 64

/* The header fields of packets to this endpoint, for a filter (docs/protocol/packets.md). */
struct uccl_nic_guard {
	uint16_t magic;
	uint8_t version;
	uint8_t former;	      /* the first version; its INIT comes, too. HELLO and COOKIE come of all versions */
	uint8_t hello, cookie, init; /* types; the record of INIT has the incarnation */
	uint32_t types;	      /* bit i: packets of type i exist, and carry a token of this endpoint */
	uint16_t token_top;   /* highest 16 bits of this endpoint's tokens */
	uint64_t incarnation; /* of this endpoint */
};

/* A device, such as a GPU, and the operations on its memory. */
struct uccl_nic_device {
	int number; /* of the device on this host */
	/* As the functions of the same names in uccl_device_ops. */
	int (*dmabuf)(void *arg, const void *p, uint64_t len, uint64_t *off);
	int (*range)(void *arg, const void *p, uintptr_t *start, uint64_t *len, uint64_t *id);
	void *arg;
};

struct uccl_nic;

struct uccl_nic_ops {
	const char *name;
	bool tx_rows; /* tx() makes the packets of a row (uccl_tx.row) */
	bool rx_one;  /* rx() of one event takes less than rx() of several that finds one */
	/*
	 * Send v[0..n). Returns how many the NIC took: the first k; they may still be lost. May reorder v. 0: the queue
	 * is full, try again after rx(). -FI_EFAULT: the payload of v[0] is not readable; v[0] never leaves. Of a row
	 * that was not taken some packets may have left: v says which are left.
	 */
	int (*tx)(struct uccl_nic *nic, struct uccl_tx *v, int n);
	/* Collect up to n events; returns their number. Never blocks. places[i], i < nplaces: placement for v[i]. */
	int (*rx)(struct uccl_nic *nic, struct uccl_rx *v, int n, const struct uccl_rx_placement *places, int nplaces);
	/*
	 * Most bytes of one packet to this address; NULL: caps.mtu. *known becomes the path MTU that this host has
	 * heard of, which is at most the result and may be wrong.
	 */
	uint32_t (*path_mtu)(struct uccl_nic *nic, const struct uccl_nic_addr *to, uint32_t *known);
	/*
	 * Does what goes to this address stay in the kernel of this host? Then only the queue of its receiver can be
	 * full. NULL: no.
	 */
	bool (*same_host)(struct uccl_nic *nic, const struct uccl_nic_addr *to);
	/* The number of packets of `bytes` that the receive queue holds for sure; NULL: caps.rx_slots. */
	uint32_t (*slots)(struct uccl_nic *nic, uint32_t bytes);
	/*
	 * Give the NIC page-aligned memory of a device, caps.device_rx_bytes long, until it is closed. Payload that
	 * peers send to the queue *key (uccl_tx.queue) goes there, and rx() reports it as UCCL_RX_DEVICE. Called at
	 * most once. 0, or -FI_Exxx: not this memory. NULL, with device_rx_free(): the NIC cannot do this.
	 */
	int (*device_rx_open)(struct uccl_nic *nic, void *mem, const struct uccl_nic_device *device, uint32_t *key);
	/* Give a slot of that memory back to the NIC (uccl_rx.imm); its payload is not needed any more. */
	void (*device_rx_free)(struct uccl_nic *nic, uint32_t slot);
	/* Make a handle for a peer with `paths` paths. Events of it carry `id` in uccl_rx.peer_id. 0 or an error. */
	int (*connect)(struct uccl_nic *nic, const struct uccl_nic_addr *to, uint64_t id, uint16_t paths,
		       struct uccl_nic_peer **peer);
	void (*disconnect)(struct uccl_nic *nic, struct uccl_nic_peer *peer);
	/* True if the peer's kernel is known to hold a connection of its process with us. NULL: never known. */
	bool (*alive)(struct uccl_nic *nic, struct uccl_nic_peer *peer);
	/*
	 * True if the peer's kernel took a liveness connection at which the process has said nothing yet: the process
	 * is there, and makes no calls. NULL: never known.
	 */
	bool (*held)(struct uccl_nic *nic, struct uccl_nic_peer *peer);
	/* Begin to make earlier writes on a path harmless; UCCL_RX_FENCED reports the end. NULL: no direct writes. */
	int (*fence)(struct uccl_nic *nic, struct uccl_nic_peer *peer, uint16_t path);
	/*
	 * Let nothing be read for writes to this peer any more, whatever becomes of them: UCCL_RX_SENT reports each
	 * that was under way. NULL: no write waits for the peer.
	 */
	void (*stop_writes)(struct uccl_nic *nic, struct uccl_nic_peer *peer);
	/* Register buf[0..len) for writes of peers; *rkey and *raddr are the key and the address that the peer uses. */
	int (*reg)(struct uccl_nic *nic, void *buf, uint64_t len, void **mr, uint64_t *rkey, uint64_t *raddr);
	/*
	 * As reg(), for memory of a device: by a dmabuf, or by address if the kernel knows the memory. -FI_EOPNOTSUPP:
	 * this NIC cannot, and the device is not tried again. NULL: this NIC reaches no device.
	 */
	int (*reg_device)(struct uccl_nic *nic, void *buf, uint64_t len, const struct uccl_nic_device *device,
			  void **mr, uint64_t *rkey, uint64_t *raddr);
	/* End a registration. `settled`: no write to the memory is under way, if peers are honest. */
	void (*dereg)(struct uccl_nic *nic, void *mr, bool settled);
	/*
	 * Let the NIC read payload from memory of a device: set uccl_tx.mr of its packets and writes to *source, until
	 * source_put(). The NIC may read later than tx() promises, so it keeps the registration as long as needed.
	 * -FI_Exxx: not this memory, or not now, so the processor must copy the payload to the host. NULL, all: never.
	 * source_stop(): for packets that were handed over nothing is read there any more, whatever becomes of them.
	 */
	int (*source)(struct uccl_nic *nic, const void *buf, uint64_t len, const struct uccl_nic_device *device,
		      void **source);
	void (*source_put)(struct uccl_nic *nic, void *source);
	void (*source_stop)(struct uccl_nic *nic, void *source);
	/*
	 * The next five are for back ends whose two sides must agree before they write: all are set, or none. The two
	 * sides exchange records. The open flow delivers each record once, in any order. NULL: writes can go at once.
	 * Rails without direct writes have offer() and accept() alone.
	 */
	/* This peer shall be granted a write to us: begin what is needed. 0: ready; -FI_EAGAIN: not yet, call again. */
	int (*prepare)(struct uccl_nic *nic, struct uccl_nic_peer *peer);
	/* The grant after a successful prepare() has ended: the peer writes nothing any more. */
	void (*finish)(struct uccl_nic *nic, struct uccl_nic_peer *peer);
	/* Put the next record for the peer into buf[0..n), n >= UCCL_NIC_RECORD; returns its bytes. 0: none. */
	uint32_t (*offer)(struct uccl_nic *nic, struct uccl_nic_peer *peer, uint8_t *buf, uint32_t n);
	/* A record of the peer arrived. 0, or -FI_EINVAL: it is invalid, and nothing changed. */
	int (*accept)(struct uccl_nic *nic, struct uccl_nic_peer *peer, const uint8_t *buf, uint32_t len);
	/*
	 * Writes on this path seem to be lost: replace the path, by another route through the network unless `stays`;
	 * or keep it, if another try may help. UCCL_RX_WRITE_ON reports when it can be used.
	 */
	void (*renew)(struct uccl_nic *nic, struct uccl_nic_peer *peer, uint16_t path, bool stays);
	/* Bytes that were handed to the device and are not sent. Some may be counted late. NULL: unknown. */
	uint64_t (*backlog)(struct uccl_nic *nic);
	/* Set the counters in *s that the NIC keeps. NULL: none. */
	void (*count)(struct uccl_nic *nic, struct uccl_stats *s);
	/* Called once, before tx() and rx(): the NIC may drop packets that do not match. NULL: it drops none. */
	void (*guard)(struct uccl_nic *nic, const struct uccl_nic_guard *guard);
	/* A descriptor that polls readable when rx() has something. Belongs to the NIC. -FI_ENOSYS: there is none. */
	int (*wait_fd)(struct uccl_nic *nic);
	/*
	 * As wait_fd(), for a short nap: it need only become readable for packets of peers. It may be cheaper, since
	 * the descriptor of wait_fd() costs something with each packet once it exists. NULL: use wait_fd().
	 */
	int (*nap_fd)(struct uccl_nic *nic);
	/* When rx() must be called even if wait_fd() is not readable, ns; 0: at once; UCCL_NEVER. NULL: never. */
	uint64_t (*expiry)(struct uccl_nic *nic);
	/* The address to which peers send. */
	void (*addr)(struct uccl_nic *nic, struct uccl_nic_addr *out);
	void (*close)(struct uccl_nic *nic);
};

struct uccl_nic {
	const struct uccl_nic_ops *ops;
	struct uccl_nic_caps caps;
	bool watched; /* set by the owner: a thread sleeps on wait_fd, or is about to */
	bool empty;   /* set by the owner: wait_fd is not readable, so rx() need not read the socket */
};

/* Back ends. uccl_nic_udp_open(): kernel UDP sockets. 0, or an error of the system. */
int uccl_nic_udp_open(const struct uccl_nic_attr *attr, struct uccl_nic **nic);
/*
 * AF_XDP: UDP packets that bypass the kernel, on a queue of the Ethernet NIC attr->ifname. If it cannot be opened, the
 * reason is logged. -FI_ENODEV: attr->ifname is NULL, or names no interface.
 */
int uccl_nic_xdp_open(const struct uccl_nic_attr *attr, struct uccl_nic **nic);
/*
 * Packets by UD queue pairs of an RDMA NIC. attr->ifname is a device, a device and port ("mlx5_0:1"), a network
 * interface, or NULL (the first). attr->bind.ip is the GID to use, or zero; attr->bind.port is 0. -FI_ENODEV: no such
 * NIC, or no libibverbs. -FI_EADDRNOTAVAIL: the NIC does not have this GID, or a port was given.
 */
int uccl_nic_verbs_ud_open(const struct uccl_nic_attr *attr, struct uccl_nic **nic);
/*
 * As uccl_nic_verbs_ud_open(), and unless attr->packets also direct writes: RDMA WRITE over unreliable (UC) or reliable
 * (RC) connected queue pairs. -FI_ENOSYS: the NIC has no queue pairs of that kind.
 */
int uccl_nic_verbs_uc_open(const struct uccl_nic_attr *attr, struct uccl_nic **nic);
int uccl_nic_verbs_rc_open(const struct uccl_nic_attr *attr, struct uccl_nic **nic);

/*
 * Join rails to one NIC: two or more, either all with direct writes or all sockets. Packets use all rails. Direct
 * writes use the first rail only, whose address is the one that peers know. Takes the NICs over: they are closed with
 * the new one, or if this fails. -FI_EINVAL: another number of NICs, or some that do not go together.
 */
int uccl_nic_rails_open(struct uccl_nic *const *rail, int n, struct uccl_nic **nic);

/*
 * Fault wrapper: drops, delays, duplicates, reorders and corrupts packets before it hands them to inner.tx, by a seeded
 * random generator. Takes `inner` over (closed with the wrapper). `spec` is the text of FI_UCCL_FAULT, for example
 * "drop=0.01,dup=0.001,reorder=0.01,delay_us=500,corrupt=0,blackhole=3@2000-5000,seed=7" (nic/fault/faultspec.h).
 * clock(clock_arg) gives the time in ns. -FI_EINVAL: a bad `spec`; *why says what is wrong, a static text.
 */
int uccl_nic_fault_open(struct uccl_nic *inner, const char *spec, uint64_t (*clock)(void *), void *clock_arg,
			struct uccl_nic **nic, const char **why);

#endif
