/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The interface of a back end. One `struct uccl_nic` serves one engine; every call is made by the
 * engine's owner only (no locking inside). Errors are -FI_Exxx.
 */
#ifndef UCCL_NIC_NIC_H
#define UCCL_NIC_NIC_H

#include <stdatomic.h>

#include "flow/wire/io.h"
#include "flow/observe/stats.h"
#include "nic/ports.h"

/* What a back end can do; constant after open. */
struct uccl_nic_caps {
	uint32_t mtu;		/* most bytes of one packet that can arrive: header + payload + tail */
	uint32_t write_max;	/* most bytes of one remote write, 0: no remote writes */
	bool write_brittle;	/* a path ends here when a part of a write of several packets is lost */
	uint16_t labels;	/* how many distinct entropy labels (source ports, QPs) exist; using 0 costs nothing */
	bool tx_sync;		/* payload may be reused when tx() returns, */
	bool write_async;	/* but that of writes only after UCCL_RX_SENT */
	bool placements;	/* rx() can scatter to hinted places */
	bool find_mtu;		/* the network may carry less than the NIC: the engine finds out how much */
	bool reliable;		/* the NIC itself retransmits (RC) */
	bool marks;		/* packets say that the network may mark them (ECN), and rx() tells which it did */
	uint32_t train_bytes;	/* neighbours to one place with one label leave as one up to this; 0: each by itself */
	bool dereg_fences;	/* when dereg() returns, no earlier write can touch the memory */
	uint32_t rx_slots;	/* packets of `mtu` bytes that the receive queue holds for sure */
	uint32_t lend_slots;	/* lend(): most slots that the owner may have at a time; 0: it takes no memory, */
	uint64_t lend_bytes;	/* and otherwise so much */
	uint64_t link_bps;	/* line rate, bits per second; 0 unknown */
	bool link_real;		/* there is such a link: a virtual interface says any rate */
	uint64_t delay_ns;	/* a fabric delay that is normal here: base of the delay target */
	uint64_t rto_min_ns;	/* floor of the retransmission time-out */
};

/*
 * Queue pairs for direct writes of all back ends of a process together, whatever thread each belongs to. Zero at first.
 */
struct uccl_qp_budget {
	_Atomic uint32_t used;
	_Atomic bool wanted;	/* somebody found none left: who has idle ones gives them back */
};

/* Who runs the program of the xdp back end. */
enum uccl_xdp_mode {
	UCCL_XDP_AUTO,	  /* the driver if it can, else the kernel */
	UCCL_XDP_NATIVE,  /* the driver */
	UCCL_XDP_GENERIC, /* the kernel */
};

/* Who may write to memory gets a window of it, where the NIC has such. */
enum uccl_windows {
	UCCL_WINDOWS_AUTO, /* if it also keeps their bounds */
	UCCL_WINDOWS_OFF,  /* memory is registered each time */
	UCCL_WINDOWS_ON,
};

struct uccl_xsk_set;

/* How to open one. Strings are borrowed for the call. */
struct uccl_nic_attr {
	const char *ifname;		/* interface or device; NULL: any (bind to the wildcard address) */
	struct uccl_nic_addr bind;	/* local address; all zero ip: of the interface; port 0: ephemeral */
	bool linkless;			/* RDMA NICs: to open one that has no link now is no error */
	bool packets;			/* RDMA NICs: only these, also of back ends that write remote memory */
	bool lends;			/* memory of a device may be lent to it */
	uint32_t mtu;			/* cap on the packet size; 0: from the interface */
	uint32_t rx_bytes;		/* wish for the receive queue, bytes; 0: default */
	uint64_t nodes;			/* NUMA nodes near the NIC, a bit each, for memory that it uses; 0: unknown */
	struct uccl_ports ports;	/* of all sockets, but for bind.port; all zero: any */
	uint16_t labels;		/* most entropy labels, where they cost ports; 0: what the back end has */
	bool liveness;			/* keep a kernel-held liveness connection to every peer */
	bool timestamps;		/* fill uccl_rx.age_ns */
	bool ecn;			/* ask the network for marks, if the back end can */
	enum uccl_xdp_mode xdp_mode;
	struct uccl_xsk_set **queues;	/* of xdp, shared by those that name the same; or NULL */
	uint64_t seed;			/* fault wrapper, port choice */
	/* Of data and of control packets: the TOS byte, without ECN, and InfiniBand's service level. */
	uint8_t data_class, data_level;
	uint8_t control_class, control_level;
	uint32_t max_qp;		/* queue pairs for direct writes, to all peers together; 0: the default */
	uint32_t write_bytes;		/* most bytes of one direct write; 0: what suits the NIC */
	uint32_t srq_depth;		/* receives for direct writes, of all endpoints; 0: enough */
	enum uccl_windows windows;
	struct uccl_qp_budget *budget;	/* and of all back ends with this one together; lives longer; NULL: its own */
};

/* The least room for a record that a back end sends to its like. */
#define UCCL_NIC_RECORD 64

/* What packets to this endpoint have in their header (docs/protocol/packets.md). */
struct uccl_nic_guard {
	uint16_t magic;
	uint8_t version;
	uint8_t former;	      /* the version before, of which handshakes come, too */
	uint8_t hello, init;  /* types; init has the incarnation in its record */
	uint32_t types;	      /* a bit for each other type; these have a token of this endpoint */
	uint16_t token_top;   /* its highest 16 bits */
	uint64_t incarnation; /* of this endpoint */
};

/* Memory of a device, and who owns it. */
struct uccl_nic_device {
	int number; /* of the device on this host */
	/* As those of uccl_device_ops. */
	int (*dmabuf)(void *arg, const void *p, uint64_t len, uint64_t *off);
	int (*range)(void *arg, const void *p, uintptr_t *start, uint64_t *len, uint64_t *id);
	void *arg;
};

struct uccl_nic;

struct uccl_nic_ops {
	const char *name;
	/* Send v[0..n): returns how many were taken (the first k), or a negative error. Taken packets may
	 * still be lost; v may be in another order then. 0 means the queue is full: try again after rx().
	 * -FI_EFAULT: the payload of v[0] is not readable memory; v[0] will never leave. */
	int (*tx)(struct uccl_nic *nic, struct uccl_tx *v, int n);
	/* Collect up to n events. hints[i] belongs to v[i]; nhints may be 0. Never blocks. */
	int (*rx)(struct uccl_nic *nic, struct uccl_rx *v, int n, const struct uccl_rx_placement *hints, int nhints);
	/*
	 * Most bytes of one packet to this place; NULL: caps.mtu. *known: what this host has heard of the way there, no
	 * more than that and perhaps not true.
	 */
	uint32_t (*path_mtu)(struct uccl_nic *nic, const struct uccl_nic_addr *to, uint32_t *known);
	/* How many packets of `bytes` the receive queue holds for sure; NULL: caps.rx_slots. */
	uint32_t (*slots)(struct uccl_nic *nic, uint32_t bytes);
	/*
	 * Memory of a device, caps.lend_bytes of it from a multiple of a page on: payload of packets to *key, by which
	 * peers that are told of it name it (uccl_tx.queue), comes there by itself, as UCCL_RX_DEVICE. It is lent until
	 * the NIC is closed. Once; -FI_Exxx: it cannot be. NULL, both: never.
	 */
	int (*lend)(struct uccl_nic *nic, void *mem, const struct uccl_nic_device *device, uint32_t *key);
	/* What came to this slot is needed no more. */
	void (*reuse)(struct uccl_nic *nic, uint32_t slot);
	/* A handle for a peer with `paths` paths; uccl_rx.peer_id carries `id` in its events. */
	int (*connect)(struct uccl_nic *nic, const struct uccl_nic_addr *to, uint64_t id, uint16_t paths,
		       struct uccl_nic_peer **peer);
	void (*disconnect)(struct uccl_nic *nic, struct uccl_nic_peer *peer);
	/* Does the peer's kernel hold a connection to its process, as far as we know? NULL: never. */
	bool (*alive)(struct uccl_nic *nic, struct uccl_nic_peer *peer);
	/* Start to make earlier writes on a path harmless; UCCL_RX_FENCED follows. NULL without writes. */
	int (*fence)(struct uccl_nic *nic, struct uccl_nic_peer *peer, uint16_t path);
	/* Register memory that peers may write; *rkey and *raddr are what the peer must use. */
	int (*reg)(struct uccl_nic *nic, void *buf, uint64_t len, void **mr, uint64_t *rkey, uint64_t *raddr);
	/*
	 * The same for memory of a device, by a dmabuf, or by its address where the kernel knows that. -FI_EOPNOTSUPP:
	 * not on this NIC, and that device is not tried again. NULL: this NIC reaches no device.
	 */
	int (*reg_device)(struct uccl_nic *nic, void *buf, uint64_t len, const struct uccl_nic_device *device,
			  void **mr, uint64_t *rkey, uint64_t *raddr);
	/* `settled`: no write to it is under way, as far as peers are honest. */
	void (*dereg)(struct uccl_nic *nic, void *mr, bool settled);
	/*
	 * Let the NIC read payload of packets and writes from memory of a device: then uccl_tx.mr of these is *source,
	 * until source_put(). The NIC may read it for longer than tx() says; the memory is held for it. -FI_Exxx: not
	 * this memory, or not now; the processor has to bring the payload. NULL, both: it always has to.
	 */
	int (*source)(struct uccl_nic *nic, const void *buf, uint64_t len, const struct uccl_nic_device *device,
		      void **source);
	void (*source_put)(struct uccl_nic *nic, void *source);
	/*
	 * Back ends whose two sides must agree before they write: what they say to each other, in records that the open
	 * flow brings once, in any order. NULL: writes can go at once. All five or none.
	 */
	/* A write to here from this peer is wanted: begin what is needed. 0: it can be granted; -FI_EAGAIN: not yet. */
	int (*prepare)(struct uccl_nic *nic, struct uccl_nic_peer *peer);
	/* What was granted after prepare() has ended: nothing will be written any more. */
	void (*finish)(struct uccl_nic *nic, struct uccl_nic_peer *peer);
	/* What is to be said next: bytes put into buf[0..n), n >= UCCL_NIC_RECORD; 0: nothing. */
	uint32_t (*offer)(struct uccl_nic *nic, struct uccl_nic_peer *peer, uint8_t *buf, uint32_t n);
	/* What the peer said. -FI_EINVAL: nonsense, of which nothing was taken. */
	int (*accept)(struct uccl_nic *nic, struct uccl_nic_peer *peer, const uint8_t *buf, uint32_t len);
	/*
	 * Writes on this path seem to be swallowed: make it anew, by another way through the network unless it
	 * `stays`; or let it be tried again as it is, where that may help. UCCL_RX_WRITE_ON follows then.
	 */
	void (*renew)(struct uccl_nic *nic, struct uccl_nic_peer *peer, uint16_t path, bool stays);
	/* Bytes that the device was handed and has not sent. Some may be counted late. NULL: it does not tell. */
	uint64_t (*backlog)(struct uccl_nic *nic);
	/* Fill in the counters that the NIC keeps. NULL: none. */
	void (*count)(struct uccl_nic *nic, struct uccl_stats *s);
	/* Told once, before the rest: other packets may be thrown away unseen. NULL: the NIC hands up everything. */
	void (*guard)(struct uccl_nic *nic, const struct uccl_nic_guard *guard);
	/* A descriptor that polls readable when rx() has something; -FI_ENOSYS without one. */
	int (*wait_fd)(struct uccl_nic *nic);
	/*
	 * Likewise, for who sleeps for a moment and wants to wake for packets of peers; it may cost less than wait_fd,
	 * which is paid for with every packet once it is there. NULL: wait_fd.
	 */
	int (*nap_fd)(struct uccl_nic *nic);
	/* When rx() must be called though wait_fd says nothing; 0: at once; UCCL_NEVER. NULL: never. */
	uint64_t (*expiry)(struct uccl_nic *nic);
	/* Where packets to this NIC must go. */
	void (*addr)(struct uccl_nic *nic, struct uccl_nic_addr *out);
	void (*close)(struct uccl_nic *nic);
};

struct uccl_nic {
	const struct uccl_nic_ops *ops;
	struct uccl_nic_caps caps;
	bool watched; /* its owner says: somebody sleeps on wait_fd, or is about to */
	bool empty;   /* its owner says: wait_fd was asked, and is not readable: rx() may leave its look */
};

/* Back ends. */
int uccl_nic_udp_open(const struct uccl_nic_attr *attr, struct uccl_nic **nic);
/*
 * The same packets past the kernel, on a queue of the Ethernet NIC attr->ifname (AF_XDP). The reason is logged when it
 * cannot be opened. -FI_ENODEV: no interface was named, or there is none of that name.
 */
int uccl_nic_xdp_open(const struct uccl_nic_attr *attr, struct uccl_nic **nic);
/*
 * Packets by UD queue pairs of an RDMA NIC. attr->ifname is a device, a device and port ("mlx5_0:1"), a network
 * interface, or NULL; attr->bind.ip is the GID to use, or zero, and its port is 0. -FI_ENODEV: there is no such NIC,
 * or no libibverbs; -FI_EADDRNOTAVAIL: not with that GID, or a port was asked for.
 */
int uccl_nic_verbs_ud_open(const struct uccl_nic_attr *attr, struct uccl_nic **nic);
/*
 * The same, and large messages by RDMA WRITE over unreliable (UC) or reliable (RC) connected queue pairs, unless
 * attr->packets. -FI_ENOSYS: the NIC has none of that kind.
 */
int uccl_nic_verbs_uc_open(const struct uccl_nic_attr *attr, struct uccl_nic **nic);
int uccl_nic_verbs_rc_open(const struct uccl_nic_attr *attr, struct uccl_nic **nic);

/*
 * Two or three NICs that write remote memory as one, the first for those writes and as the place that peers know, all
 * for packets. Takes them over (closed with it, or when it fails). -FI_EINVAL: not so many, or none of that kind.
 */
int uccl_nic_rails_open(struct uccl_nic *const *rail, int n, struct uccl_nic **nic);

/*
 * Fault wrapper: takes over `inner` (closed with it) and drops, delays, duplicates, reorders and corrupts what
 * inner.tx is given, packet by packet, from a seeded generator. `spec` is the text of FI_UCCL_FAULT, for example
 * "drop=0.01,dup=0.001,reorder=0.01,delay_us=500,corrupt=0,blackhole=3@2000-5000,seed=7" (man fi_uccl).
 * `clock` gives the time in ns for delays. Returns -FI_EINVAL with *why set to a static text on a bad spec.
 */
int uccl_nic_fault_open(struct uccl_nic *inner, const char *spec, uint64_t (*clock)(void *), void *clock_arg,
			struct uccl_nic **nic, const char **why);

#endif
