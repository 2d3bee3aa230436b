/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Inside of the verbs-ud back end: verbs_ud.c opens and closes, verbs_ud_tx.c sends, verbs_ud_rx.c receives,
 * verbs_ud_device_rx.c puts payload into memory of a device, verbs_ud_event.c hears what the NIC says of itself. Only
 * what builds on it includes this.
 *
 * One UD queue pair receives; its number is the endpoint's place on the NIC. Others send: a label is one of them
 * together with a flow label, of which the network makes its choice of path. One more receives if memory of a device
 * was lent: headers into memory of the host, payload into that.
 *
 * A place in a struct uccl_nic_addr: ip is the GID; the low 24 bits of scope are the queue pair; pad is the LID on
 * InfiniBand, and 0xc000 | 13 random bits on RoCE (no LID is so high), with 0x2000 if somebody listens on TCP at the
 * port; port, not 0, and the high bits of scope are random. All that is random makes the Q_Key, without which the NIC
 * drops a packet.
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

#define UD_GRH 40	   /* bytes that the NIC puts before each packet received */
#define UD_SKEW 24	   /* a receive buffer's start, so that the packet in it lies at a multiple of 64 */
#define UD_CHAIN 32	   /* requests a doorbell, at most */
#define UD_RX_BATCH 32	   /* packets that one call of rx() hands up, at most */
#define UD_PARTS 3	   /* of a packet whose payload is elsewhere: header, payload, tail */
#define UD_QPS 64	   /* that send data, at most */
#define UD_CONTROL_QPS 4   /* that send control packets */
#define UD_TX_SLOTS 512	   /* packets on their way into the NIC */
#define UD_GONE 16	   /* peers whose end is told at once, at most */
#define UD_ROCE_PAD 0xc000 /* pad of RoCE addresses begins here */
#define UD_LISTENS 0x2000  /* in such a pad: only if its process is gone are TCP connections refused there */
#define UD_ASKS 32	   /* places that are asked for at once, where nobody has answered yet, at most */
#define UD_QPN_MASK 0xffffffu
#define UD_QPN_LEAST 2
#define UD_DEVICE_RX 0x80000000u /* requests for slots of memory that was lent have numbers from here on */

/*
 * What wait_fd watches, a bit each, as its epoll says; the last ones are of the back end on top. To read one in vain is
 * a system call each: who sleeps asks for all of them by one.
 */
enum ud_ready {
	UD_READY_KICK = 1,
	UD_READY_CHANNEL = 2, /* completions */
	UD_READY_ASYNC = 4,   /* what the NIC says of itself */
	UD_READY_LIVE = 8,
	UD_READY_UC_KICK = 16,
	UD_READY_UC_CHANNEL = 32,
	UD_READY_UC_ASYNC = 64,
	UD_READY_ALL = 127,
};
#define UD_READY_BITS 7

struct uccl_verbs_ud_stats {
	uint64_t tx_lost;   /* packets that could not go: no handle, no queue pair, a bad address */
	uint64_t tx_errors; /* completions in error of sends */
	uint64_t rx_errors; /* of receives */
	uint64_t rx_bad;    /* packets without a source that can be read, or of an impossible length */
	uint64_t qp_renewed, rx_revived, cq_renewed;
	uint64_t link_lost; /* how often it was not up any more */
	uint64_t doorbells;
};

/* A peer that is watched, or asked for. */
struct ud_watch {
	struct uccl_nic_addr to;
	struct uccl_udp_live_peer *live;
	bool ask;
};

/* HELLO that left. */
struct ud_hello {
	struct uccl_nic_addr to;
	uint8_t hdr[UCCL_HDR_LEN];
};

/* A place to which HELLO went, and nobody was there yet. */
struct ud_ask {
	struct ud_watch w;
	uint64_t at;	/* the latest HELLO; 0: this entry is unused */
	uint32_t hellos;
	bool refused;	/* its host says that nobody listens there; to be told */
	uint8_t hdr[UCCL_HDR_LEN]; /* of the latest HELLO */
};

/* A queue pair that receives, and its pieces, which are numbered from 0 on. */
struct ud_rq {
	struct ibv_qp *qp;  /* NULL: there is none */
	uint32_t count;	    /* pieces, */
	uint32_t depth;	    /* of which the NIC has so many at most, */
	bool *posted;	    /* these now */
	uint32_t *returned; /* pieces that are to be posted again */
	uint32_t nreturned;
	uint32_t out;	    /* pieces that the caller has until it gives them back */
	bool broken;
	uint64_t revive_at;
};

/* Memory of a device, cut into slots; slot i is the second half of piece i, whose first is a header. */
struct ud_device_rx {
	uint8_t *mem;
	struct ibv_mr *mr;
	struct uccl_verbs_slab headers;
};

struct ud {
	struct uccl_nic nic;
	const struct uccl_verbs *lib;
	struct uccl_verbs_port port;
	struct uccl_nic_addr self;
	uint64_t (*clock)(void); /* ns, coarse */
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	struct ibv_comp_channel *channel;
	struct ibv_cq *tx_cq, *rx_cq;
	struct uccl_verbs_ud_stats stats;
	struct uccl_verbs_mark mark[2]; /* data, control */

	/* Sending. */
	struct uccl_verbs_sq qp[UD_QPS + UD_CONTROL_QPS]; /* data first */
	uint16_t qps;				  /* of data */
	uint32_t flows, flow_base;		  /* flow labels in use; 1: they make no difference here */
	uint32_t signal_every;
	struct uccl_verbs_ahs *ahs;
	struct uccl_verbs_slab tx;
	struct ibv_send_wr wr[UD_CHAIN];
	struct ibv_sge sge[UD_CHAIN][UD_PARTS];
	struct uccl_verbs_gpus gpus;
	struct uccl_verbs_gpu_keep gpu_sources; /* memory of devices that packets are sent from */
	struct uccl_verbs_sq *chain[UD_CHAIN]; /* queue pairs that this call has something for */
	int nchains;

	/* Receiving. */
	struct ud_rq rq;
	struct uccl_verbs_slab rx;
	uint32_t lent[UD_RX_BATCH]; /* pieces that the caller looks at until the next call */
	uint32_t nlent;
	struct ud_rq device_rq;	/* whose slots the caller has until it gives them back */
	struct ud_device_rx device;
	bool armed;	/* an event was asked for */
	int wait_fd;	/* epoll of the channel and of kick_fd, made by the first wait_fd(); -1 */
	int kick_fd;	/* readable: rx() has more than it handed up; -1 */
	uint32_t ready; /* which of those that wait_fd has something to read, as the latest look saw: UD_READY_ */
	uint32_t calls; /* of rx() */

	/* The NIC itself. */
	enum uccl_link link;
	bool link_changed; /* the caller of rx() has not been told */
	bool shown;	  /* the host shows the device in sysfs, so we see it when it is no more */
	uint64_t check_at; /* when to look next */
	/* Where GIDs are IP addresses: connections that hosts hold, at the port of the place. NULL: none. */
	struct uccl_udp_live *live;
	uint64_t live_at; /* when to look at them next */
	struct uccl_nic_addr gone[UD_GONE]; /* to be told */
	int ngone;
	struct ud_hello hello[UD_ASKS]; /* since the latest look; more are sent again */
	int nhellos;
	struct ud_ask ask[UD_ASKS];
	int nrefused; /* of those, to be told */
};

static inline struct ud *ud_of(struct uccl_nic *nic)
{
	return uccl_container_of(nic, struct ud, nic);
}

/* The Q_Key of a place: 31 bits, as those with the highest one are the kernel's. */
static inline uint32_t ud_qkey(const struct uccl_nic_addr *a)
{
	uint64_t x = a->scope >> 24 | (uint64_t)a->port << 8;

	if (a->pad >= UD_ROCE_PAD)
		x |= (uint64_t)a->pad << 24;
	return (uint32_t)(x * 0x9e3779b97f4a7c15ull >> 33);
}

/* With another table and clock, for tests. */
int uccl_verbs_ud_open(const struct uccl_verbs *lib, uint64_t (*clock)(void), const struct uccl_nic_attr *attr,
		       struct uccl_nic **nic);
/* Of the product: monotonic, coarse. */
uint64_t uccl_ud_clock(void);
/* Lives as long as the back end. */
const struct uccl_verbs_ud_stats *uccl_verbs_ud_stats(struct uccl_nic *nic);

/* Can packets of several parts be sent? */
static inline bool ud_gathers(const struct ud *u)
{
	return u->port.max_sge >= UD_PARTS;
}

/* Move a new queue pair to RTS (sends) or RTR. verbs_ud_port.c */
int uccl_ud_qp_start(struct ud *u, struct ibv_qp *qp, bool sends, uint32_t qkey);
/* Make the queue pair of a sender; 0 or an error. verbs_ud_tx.c */
int uccl_ud_qp_make(struct ud *u, struct uccl_verbs_sq *q);
/* Take in what the NIC says of sends. verbs_ud_tx.c */
void uccl_ud_reap(struct ud *u);
/* A queue pair broke without a completion that says so. False: it is none of ours. verbs_ud_tx.c */
bool uccl_ud_qp_broke(struct ud *u, const struct ibv_qp *qp);
/* The completion queue of sends broke: a new one, and new queue pairs. 0 or an error. verbs_ud_tx.c */
int uccl_ud_tx_renew(struct ud *u);
/* Take in what the NIC says of itself, and see whether it is still there. verbs_ud_event.c */
void uccl_ud_events(struct ud *u);
/* Is there a time at which that looks, and has it come? */
bool uccl_ud_events_due(const struct ud *u);
/* Its link is so from now on; `why` is for the log. verbs_ud_port.c */
void uccl_ud_link_set(struct ud *u, enum uccl_link link, const char *why);
/* It is of no use any more. verbs_ud_port.c */
void uccl_ud_gone(struct ud *u, const char *why);
/* The caller of rx() is told how the NIC is; false: it knows. verbs_ud_port.c */
bool uccl_ud_link_tell(struct ud *u, struct uccl_rx *r);
/* Listen for those who watch us, at a port that becomes that of our place. verbs_ud_event.c */
void uccl_ud_live_open(struct ud *u, const struct uccl_ports *ports);
/* Watch the process behind a place; NULL: that cannot be. verbs_ud_event.c */
struct ud_watch *uccl_ud_watch(struct ud *u, const struct uccl_nic_addr *to);
/* NULL is well. verbs_ud_event.c */
void uccl_ud_unwatch(struct ud *u, struct ud_watch *w);
/* The caller of rx() is told who is gone, or was never there; false: nobody is. verbs_ud_event.c */
bool uccl_ud_gone_tell(struct ud *u, struct uccl_rx *r);
/* Memory for the accounts of a queue that is to have so many pieces; -FI_ENOMEM. verbs_ud_rx.c */
int uccl_ud_rq_init(struct ud_rq *q, uint32_t count, uint32_t depth);
/* Its queue pair, of receives in so many parts, and all that it holds is posted. 0 or an error. verbs_ud_rx.c */
int uccl_ud_rq_open(struct ud *u, struct ud_rq *q, uint32_t parts);
/* Also of one that was never opened. verbs_ud_rx.c */
void uccl_ud_rq_close(struct ud *u, struct ud_rq *q);
/* Memory that was lent is free; also without any. verbs_ud_device_rx.c */
void uccl_ud_device_rx_close(struct ud *u);

/* Pieces that the NIC has, as far as none is in our hands. */
static inline uint32_t ud_rq_posted(const struct ud_rq *q)
{
	return q->count - q->nreturned - q->out;
}

/* Piece i is to be posted again. */
static inline void ud_rq_return(struct ud_rq *q, uint32_t i)
{
	q->returned[q->nreturned++] = i;
}

/* Bytes of each slot: whoever sends the longest packet that the port carries must not break the queue pair. */
static inline uint32_t ud_device_rx_each(const struct ud *u)
{
	return (u->port.mtu - UCCL_HDR_LEN + 63) & ~63u;
}

static inline uint8_t *ud_device_rx_header(const struct ud *u, uint32_t slot)
{
	return uccl_verbs_piece(&u->device.headers, slot) + UD_SKEW;
}

int uccl_ud_tx(struct uccl_nic *nic, struct uccl_tx *v, int n);
int uccl_ud_source(struct uccl_nic *nic, const void *buf, uint64_t len, const struct uccl_nic_device *device,
		   void **source);
void uccl_ud_source_put(struct uccl_nic *nic, void *source);
int uccl_ud_rx(struct uccl_nic *nic, struct uccl_rx *v, int n, const struct uccl_rx_placement *hints, int nhints);
int uccl_ud_lend(struct uccl_nic *nic, void *mem, const struct uccl_nic_device *device, uint32_t *key);
void uccl_ud_reuse(struct uccl_nic *nic, uint32_t slot);
int uccl_ud_wait_fd(struct uccl_nic *nic);
/* Watch a descriptor, too. 0, or an errno value. */
int uccl_ud_wait_add(int wait_fd, int fd, enum ud_ready bit);

#endif

#endif
