/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Internals of the verbs-ud back end. Only back ends that build on it also include this. A file calls only those below
 * it. Each part of struct ud has an owner file, which alone writes its fields:
 *
 *	verbs_ud.c		opens and closes
 *	verbs_ud_device_rx.c	receives payload into device memory
 *	verbs_ud_rx.c		receives, and sleeps
 *	verbs_ud_event.c	reads events of the NIC
 *	verbs_ud_tx.c		sends
 *	verbs_ud_live.c		liveness connections to peers
 *	verbs_ud_port.c		has the link of the port
 *
 * One UD queue pair receives; its number is part of the endpoint's address. Other queue pairs send. An entropy label is
 * a sending queue pair together with a flow label, by which the network chooses a path. If the owner lends
 * device memory, one more queue pair receives: headers into host memory, payload into device memory.
 *
 * An address in a struct uccl_nic_addr: ip is the GID. The low 24 bits of scope are the queue pair number, the high 8
 * bits are random. port is random and not 0. pad is the LID on InfiniBand; on RoCE it is 0xc000 | 13 random bits (no
 * LID is so high), and its bit 0x2000 says that the endpoint listens on TCP at the port. The random bits yield the
 * Q_Key; the NIC drops a packet with another Q_Key.
 */
#ifndef UCCL_NIC_VERBS_UD_STATE_H
#define UCCL_NIC_VERBS_UD_STATE_H

#ifdef HAVE_VERBS

#include "base/units.h"
#include "nic/nic.h"
#include "nic/udp_live.h"
#include "nic/verbs/verbs_ah.h"
#include "nic/verbs/verbs_dev.h"
#include "nic/verbs/verbs_gpu.h"
#include "nic/verbs/verbs_lib.h"
#include "nic/verbs/verbs_sq.h"

#define UD_GRH 40	   /* bytes that the NIC puts before each received packet (GRH) */
#define UD_SKEW 24	   /* offset in a receive buffer, so that the packet behind the GRH is 64-byte aligned */
#define UD_CHAIN 32	   /* most requests of one doorbell */
#define UD_RX_BATCH 32	   /* most packets of one rx() */
#define UD_SGES 3	   /* scatter-gather entries of a packet that is sent without a copy: header, payload, tail */
#define UD_QPS 64	   /* most queue pairs that send data */
#define UD_CONTROL_QPS 4   /* queue pairs that send control packets */
#define UD_TX_SLOTS 512	   /* most packets at the NIC */
#define UD_GONE 16	   /* most peers whose end waits for rx() */
#define UD_ROCE_PAD 0xc000 /* least pad of a RoCE address */
#define UD_LISTENS 0x2000  /* bit of such a pad: the endpoint listens, so a refused connection proves its end */
#define UD_ASKS 32	   /* most addresses that got HELLO, have not answered, and are checked by a connection */
#define UD_QPN_MASK 0xffffffu
#define UD_QPN_LEAST 2
#define UD_DEVICE_RX 0x80000000u /* wr_id of receives into device memory begin here */

/*
 * The descriptors that wait_fd watches, one bit each. One epoll_wait() tells which are readable, which saves a vain
 * read of each. The UC ones belong to the back end on top (uc_state.h).
 */
enum ud_ready {
	UD_READY_KICK = 1,    /* ud_rx.kick_fd */
	UD_READY_CHANNEL = 2, /* completions */
	UD_READY_ASYNC = 4,   /* asynchronous events of the NIC */
	UD_READY_LIVE = 8,    /* liveness connections */
	UD_READY_UC_KICK = 16,
	UD_READY_UC_CHANNEL = 32,
	UD_READY_UC_ASYNC = 64,
	UD_READY_ALL = 127,
};
#define UD_READY_BITS 7

/* A liveness connection: to a peer, or to an address that has not answered (`ask`). */
struct ud_watch {
	struct uccl_nic_addr to;
	struct uccl_udp_live_peer *live;
	bool ask;
};

/* A HELLO that was sent. */
struct ud_hello {
	struct uccl_nic_addr to;
	uint8_t hdr[UCCL_HDR_LEN];
};

/* An address that got HELLO and has not answered. */
struct ud_ask {
	struct ud_watch w;
	uint64_t at;	 /* time of the latest HELLO, ns; 0: this entry is unused */
	uint32_t hellos; /* HELLOs sent */
	bool refused;	 /* the host refused the connection: nobody listens there. To be reported by rx() */
	uint8_t hdr[UCCL_HDR_LEN]; /* of the latest HELLO */
};

/* A receiving queue pair and its buffers, numbered from 0. Owner: verbs_ud_rx.c. */
struct ud_rq {
	struct ibv_qp *qp;  /* NULL: there is none */
	uint32_t count;	    /* buffers in all */
	uint32_t depth;	    /* most buffers that the NIC has at a time */
	bool *posted;	    /* by buffer: the NIC has it */
	uint32_t *returned; /* buffers to post again */
	uint32_t nreturned;
	uint32_t out;	    /* buffers that the caller has */
	bool broken;	    /* the queue pair is in error and has to be revived */
	uint64_t revive_at; /* it is not revived before this time, ns */
};

/* Sending. Owner: verbs_ud_tx.c. */
struct ud_tx {
	struct ibv_cq *cq;
	struct uccl_verbs_sq qp[UD_QPS + UD_CONTROL_QPS]; /* data first */
	uint64_t retry_at[UD_QPS + UD_CONTROL_QPS]; /* when to try again to make a queue pair, ns */
	uint32_t signal_every; /* every signal_every-th data request asks for a completion */
	struct uccl_verbs_ahs *ahs;
	struct uccl_verbs_slab slab;
	struct uccl_verbs_gpu_keep gpu_sources; /* registrations of device memory that packets are sent from */
	struct ibv_send_wr wr[UD_CHAIN];
	struct ibv_sge sge[UD_CHAIN][UD_SGES];
	struct uccl_verbs_sq *chain[UD_CHAIN]; /* queue pairs to which this tx() posts */
	int nchains;
	uint64_t lost;	 /* packets that could not be sent: no address handle, no queue pair, a bad address */
	uint64_t errors; /* sends that completed in error */
	uint64_t qp_renewed, cq_renewed; /* broken queue pairs and completion queues replaced */
	uint64_t doorbells;
};

/* Receiving. Owner: verbs_ud_rx.c. */
struct ud_rx {
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq;
	struct uccl_verbs_slab slab;
	struct ud_rq rq;
	uint32_t last[UD_RX_BATCH]; /* buffers that the caller has until the next rx() */
	uint32_t nlast;
	uint32_t device_slots; /* most receives into device memory; 0: none */
	bool armed;	/* the completion queue will signal its next completion on `channel` */
	int wait_fd;	/* epoll, made by the first wait_fd(); -1: none */
	int kick_fd;	/* readable: rx() has more than it returned; -1: none */
	uint32_t ready; /* descriptors that were readable at the latest poll, UD_READY_ bits */
	uint32_t calls; /* calls of rx() */
	uint64_t errors, revived; /* receives that completed in error; broken queue pairs restored */
	uint64_t bad; /* packets with an unreadable source, or of an impossible length */
};

/*
 * Device memory that the owner lends, cut into slots. Slot i has the payload of a packet whose header is in buffer i of
 * `headers`. Owner: verbs_ud_device_rx.c.
 */
struct ud_device_rx {
	uint8_t *mem;
	struct ibv_mr *mr;
	struct uccl_verbs_slab headers;
	struct ud_rq rq; /* the caller has a slot until uccl_nic_ops.device_rx_free() */
};

/* The link. Owner: verbs_ud_port.c. */
struct ud_link {
	enum uccl_link state;
	bool changed;  /* rx() has not reported it yet */
	uint64_t lost; /* times that it went down */
};

/* Liveness connections at the address's port. Owner: verbs_ud_live.c. */
struct ud_live {
	struct uccl_udp_live *udp; /* NULL: none, since GIDs are no IP addresses (RoCE v2), or no port was free */
	uint64_t poll_at; /* when to poll them next, ns */
	struct uccl_nic_addr gone[UD_GONE]; /* ended peers that rx() has to report */
	int ngone;
	struct ud_hello hello[UD_ASKS]; /* HELLOs sent since the latest poll; if full, further ones are not added */
	int nhellos;
	struct ud_ask ask[UD_ASKS];
	int nrefused; /* entries of `ask` that rx() has to report */
};

/* Owner of what is no part: verbs_ud.c, but for `port`, see uccl_verbs_port_state(). */
struct ud {
	struct uccl_nic nic;
	const struct uccl_verbs *lib;
	struct uccl_verbs_port port;
	struct uccl_nic_addr self;
	uint64_t (*clock)(void); /* ns, coarse */
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	struct uccl_verbs_gpus gpus;
	uint64_t nodes; /* as in uccl_nic_attr */
	struct uccl_verbs_mark mark[2]; /* data, control */
	uint16_t qps;		   /* queue pairs for data */
	uint32_t flows, flow_base; /* number of flow labels, and the first; 1: labels have no effect */
	bool shown;	   /* sysfs shows the device, so its removal can be seen */
	uint64_t check_at; /* verbs_ud_event.c: when to check the port next, ns */
	struct ud_tx tx;
	struct ud_rx rx;
	struct ud_device_rx device;
	struct ud_link link;
	struct ud_live live;
};

static inline struct ud *ud_of(struct uccl_nic *nic)
{
	return uccl_container_of(nic, struct ud, nic);
}

/* The Q_Key of an address: 31 bits, since Q_Keys with the highest bit set are privileged. */
static inline uint32_t ud_qkey(const struct uccl_nic_addr *a)
{
	uint64_t x = a->scope >> 24 | (uint64_t)a->port << 8;

	if (a->pad >= UD_ROCE_PAD)
		x |= (uint64_t)a->pad << 24;
	return (uint32_t)(x * 0x9e3779b97f4a7c15ull >> 33);
}

/* Open with another table and clock, for tests. */
int uccl_verbs_ud_open(const struct uccl_verbs *lib, uint64_t (*clock)(void), const struct uccl_nic_attr *attr,
		       struct uccl_nic **nic);
/* The clock outside of tests: monotonic and coarse, ns. */
uint64_t uccl_ud_clock(void);

/* verbs_ud_port.c */

/* Set the state of the link; `why` is for the log. UCCL_LINK_GONE: the NIC is gone for ever. */
void uccl_ud_link_set(struct ud *u, enum uccl_link link, const char *why);
/* Fill *r with the state of the link, if it changed. False: it did not. */
bool uccl_ud_link_report(struct ud *u, struct uccl_rx *r);
/* Move a new queue pair to the state RTS if it `sends`, else to RTR. 0 or an error. */
int uccl_ud_qp_start(struct ud *u, struct ibv_qp *qp, bool sends, uint32_t qkey);

/* verbs_ud_live.c */

/* Listen for liveness connections. Returns the TCP port, or 0: there are no liveness connections. */
uint16_t uccl_ud_live_open(struct ud *u, const struct uccl_ports *ports);
void uccl_ud_live_close(struct ud *u);
/* Watch the process behind an address. NULL: not possible. */
struct ud_watch *uccl_ud_watch(struct ud *u, const struct uccl_nic_addr *to);
/* Stop watching; NULL is allowed. */
void uccl_ud_unwatch(struct ud *u, struct ud_watch *w);
/* A HELLO was sent. If many get no answer, a connection finds out whether anybody listens there. */
void uccl_ud_hello(struct ud *u, const struct uccl_tx *t);
/* Poll the connections, if that is due. */
void uccl_ud_live_poll(struct ud *u);
/* When it must be called although no descriptor is readable, ns; UCCL_NEVER: no need. */
uint64_t uccl_ud_live_expiry(const struct ud *u);
/* Fill *r with a peer that has ended, or an address where nobody listens. False: none. */
bool uccl_ud_gone_report(struct ud *u, struct uccl_rx *r);

/* verbs_ud_tx.c */

/* Make the queues and one queue pair of each kind. 0 or an error; call uccl_ud_tx_close() in both cases. */
int uccl_ud_tx_open(struct ud *u);
void uccl_ud_tx_close(struct ud *u);
/* An asynchronous event says that `qp` broke. False: `u` does not send on this queue pair. */
bool uccl_ud_qp_broke(struct ud *u, const struct ibv_qp *qp);
/* The send completion queue broke: replace it and its queue pairs. 0 or an error. */
int uccl_ud_tx_renew(struct ud *u);
/* Read the completions of sends. */
void uccl_ud_reap(struct ud *u);
/* True if a packet can be sent from UD_SGES places, so without a copy. */
static inline bool ud_gathers(const struct ud *u)
{
	return u->port.max_sge >= UD_SGES;
}
int uccl_ud_tx(struct uccl_nic *nic, struct uccl_tx *v, int n);
int uccl_ud_source(struct uccl_nic *nic, const void *buf, uint64_t len, const struct uccl_nic_device *device,
		   void **source);
void uccl_ud_source_put(struct uccl_nic *nic, void *source);
void uccl_ud_source_stop(struct uccl_nic *nic, void *source);

/* verbs_ud_event.c */

/* Read the asynchronous events of the NIC, and check that it is still there. */
void uccl_ud_events(struct ud *u);
/* True if a check at a set time is due. */
bool uccl_ud_events_due(const struct ud *u);

/* verbs_ud_rx.c */

/* Make the queue pair that receives, and its queues. 0 or an error; call uccl_ud_rx_close() in both cases. */
int uccl_ud_rx_open(struct ud *u, const struct uccl_nic_attr *attr);
void uccl_ud_rx_close(struct ud *u);
/*
 * Make a queue of `count` buffers, up to `depth` of them at the NIC, and its queue pair, whose receives have `sges`
 * scatter-gather entries; post buffers. 0 or an error; call uccl_ud_rq_close() in both cases.
 */
int uccl_ud_rq_open(struct ud *u, struct ud_rq *q, uint32_t count, uint32_t depth, uint32_t sges);
void uccl_ud_rq_close(struct ud *u, struct ud_rq *q);
int uccl_ud_rx(struct uccl_nic *nic, struct uccl_rx *v, int n, const struct uccl_rx_placement *places, int nplaces);
int uccl_ud_wait_fd(struct uccl_nic *nic);
/* Add a descriptor to wait_fd; `bit` names it in ud_rx.ready. 0, or an errno value. */
int uccl_ud_wait_add(int wait_fd, int fd, enum ud_ready bit);

/* Buffers that the NIC has. */
static inline uint32_t ud_rq_posted(const struct ud_rq *q)
{
	return q->count - q->nreturned - q->out;
}

/* Buffer i is to be posted again. */
static inline void ud_rq_return(struct ud_rq *q, uint32_t i)
{
	q->returned[q->nreturned++] = i;
}

/* The caller gives buffer i back. */
static inline void ud_rq_give_back(struct ud_rq *q, uint32_t i)
{
	q->out--;
	ud_rq_return(q, i);
}

/* An asynchronous event reports that a queue pair broke. False: it is not that of this queue. */
static inline bool ud_rq_broke(struct ud_rq *q, const struct ibv_qp *qp)
{
	q->broken |= q->qp == qp;
	return q->qp == qp;
}

/* verbs_ud_device_rx.c */

int uccl_ud_device_rx_open(struct uccl_nic *nic, void *mem, const struct uccl_nic_device *device, uint32_t *key);
void uccl_ud_device_rx_free(struct uccl_nic *nic, uint32_t slot);
/* Release the device memory, if there is any. */
void uccl_ud_device_rx_close(struct ud *u);

/* Bytes of each slot: enough for the longest packet of the port, since a longer one would break the queue pair. */
static inline uint32_t ud_device_rx_slot_bytes(const struct ud *u)
{
	return (u->port.mtu - UCCL_HDR_LEN + 63) & ~63u;
}

static inline uint8_t *ud_device_rx_header(const struct ud *u, uint32_t slot)
{
	return uccl_verbs_buffer(&u->device.headers, slot) + UD_SKEW;
}

#endif

#endif
