/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Inside of the fake verbs: fake_verbs.c has the objects, fake_wire.c what moves. Nobody else includes this. */
#ifndef UCCL_TEST_FAKE_IMPL_H
#define UCCL_TEST_FAKE_IMPL_H

#include <sys/queue.h>

#include "fake_verbs.h"

#define FAKE_DEVS 4
#define FAKE_CALLS 64
#define FAKE_EVENTS 64

struct fake_context {
	struct ibv_context ctx; /* first, as in all of these */
	struct fake_dev *dev;
	bool detached;
	int users;
	TAILQ_ENTRY(fake_context) all;
};

struct fake_pd {
	struct ibv_pd pd;
	int users;
};

struct fake_mr {
	struct ibv_mr mr;
	uint64_t iova; /* what the peer must name for mr.addr */
	int access;
	void *map; /* of a dmabuf */
	size_t map_len;
	int windows; /* that are bound to it */
	TAILQ_ENTRY(fake_mr) all;
};

struct fake_mw {
	struct ibv_mw mw;
	uint32_t rkey;	    /* as the NIC has it */
	struct fake_mr *mr; /* NULL: not bound */
	uint64_t addr, len;
	uint32_t qpn; /* of type 2: through which it is bound */
	TAILQ_ENTRY(fake_mw) all;
};

struct fake_cq;

struct fake_channel {
	struct ibv_comp_channel channel;
	struct fake_cq *told[FAKE_EVENTS]; /* ring of events: whose they are */
	unsigned int first, n;
	int users;
};

struct fake_cqe {
	struct ibv_wc wc;
	uint32_t retires; /* entries of the send queue that are free again when this is read */
};

struct fake_cq {
	struct ibv_cq cq;
	struct fake_cqe *entry; /* ring */
	int head, n;
	bool armed, overrun, broken;
	unsigned int unacked;
	int users;
};

/* A receive as posted. */
struct fake_rwr {
	uint64_t wr_id;
	int nsge;
	struct ibv_sge sge[4];
};

struct fake_rq {
	struct fake_rwr *wr; /* ring of max */
	uint32_t head, n, max;
};

struct fake_srq {
	struct ibv_srq srq;
	struct fake_rq rq;
	int users;
};

struct fake_ah {
	struct ibv_ah ah;
	struct ibv_ah_attr attr;
	int users; /* sends that are not done */
};

/* A send as posted. */
struct fake_wr {
	struct ibv_send_wr wr;
	struct ibv_sge sge[4];
	uint8_t *inlined; /* payload of IBV_SEND_INLINE */
	TAILQ_ENTRY(fake_wr) all;
};

struct fake_qp {
	struct ibv_qp qp;
	struct fake_dev *dev;
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;
	struct fake_rq rq;
	TAILQ_HEAD(, fake_wr) sq; /* posted, not done */
	uint32_t sq_used;	  /* entries that no completion which was read has freed */
	uint32_t unsignalled;	  /* done since the last that made a completion */
	bool wedged;
	TAILQ_ENTRY(fake_qp) all;
};

/* What travels. */
struct fake_message {
	struct fake_packet view;
	struct fake_dev *src;
	struct fake_port *src_port;
	union ibv_gid dgid, sgid;
	uint16_t dlid;
	bool global, v4;
	uint32_t qkey, imm, rkey;
	uint64_t raddr;
	uint32_t whole; /* bytes that arrive: less than len if a packet is missing */
	TAILQ_ENTRY(fake_message) all;
	uint8_t data[];
};

struct fake_event {
	struct fake_context *ctx;
	struct ibv_async_event event;
	TAILQ_ENTRY(fake_event) all;
};

struct fake_call {
	const char *name;
	unsigned int count, left;
	int err;
	bool once;
};

struct fake {
	struct fake_verbs pub; /* first */
	struct fake_dev *dev[FAKE_DEVS];
	int ndevs, lists, unacked;
	uint32_t next_key;
	struct fake_call call[FAKE_CALLS];
	int ncalls;
	TAILQ_HEAD(, fake_context) contexts;
	TAILQ_HEAD(, fake_mr) mrs;
	TAILQ_HEAD(, fake_mw) mws;
	TAILQ_HEAD(, fake_qp) qps;
	TAILQ_HEAD(fake_held, fake_message) held;
	TAILQ_HEAD(, fake_event) events;
};

extern struct fake *fake_now;

void fake_violation(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
struct fake_qp *fake_qp_find(const struct fake_dev *d, uint32_t qpn); /* d NULL: any device */
void fake_qp_error(struct fake_qp *q);
void fake_wr_free(struct fake_wr *w);
void fake_mw_unbind(struct fake_mw *w);
int fake_cq_poll(struct fake_cq *cq, int n, struct ibv_wc *wc);
int fake_send(struct fake_qp *q, struct ibv_send_wr *wr, struct ibv_send_wr **bad);
int fake_recv(struct fake_rq *rq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);

#endif
