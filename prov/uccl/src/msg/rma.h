/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * RMA and atomics. Requests are numbered with the messages of the pair of endpoints; the target executes them in that
 * order up to UCCL_ORDER_MAX bytes. rma.c is the initiator, serve.c the target, atomic.c the arithmetic.
 */
#ifndef UCCL_MSG_RMA_H
#define UCCL_MSG_RMA_H

#include "msg/mep.h"

/* A request for our memory that could not be executed when it came: its turn, its payload or a reply is missing. */
struct uccl_serve {
	struct uccl_req req;
	uint64_t data;
	bool has_data;
	bool queued;		/* its turn has come, or all of it but room: in the peer's list of requests */
	bool placed;		/* a large write that is in place and waits for room */
	uint8_t refusal;	/* its memory was revoked while the payload came */
	uint8_t nregions;
	uint8_t niov;
	void *regions[UCCL_SEG_MAX];
	struct iovec iov[UCCL_PIECES_MAX];
};

struct uccl_reply;

/* Payload on its way back: copies, so that nothing refers to memory that the application may take back. */
struct uccl_feed {
	struct uccl_reply *reply;
	struct uccl_req req;
	uint32_t gen;		/* message sequence of the request */
	uint64_t off;		/* bytes copied so far */
	uint64_t part_bytes, bytes;
	bool untold;		/* the region's owner hears of it when what is copied first is there */
	uint8_t nregions;
	void *regions[UCCL_SEG_MAX];
	uint8_t nparts, busy;
	struct uccl_feed_part {
		struct uccl_item item;
		struct iovec iov;
		struct uccl_copy copy;	/* from a device */
		uint64_t off;
		struct uccl_feed *feed;
	} part[4];
	uint8_t buf[];
};

/* What goes back for one request, until it is acknowledged. */
struct uccl_reply {
	TAILQ_ENTRY(uccl_reply) link;
	struct uccl_peer *peer;
	uint32_t id;		/* the initiator's handle */
	struct uccl_item resp;
	struct uccl_feed *feed;
};

/* Post. As uccl_msg_send. -FI_EMSGSIZE: more operands than UCCL_ORDER_MAX bytes. */
int uccl_msg_rma(struct uccl_mep *m, struct uccl_op *op, uint64_t now);
/* A region goes away: what still uses it on behalf of this peer is refused; nothing does when this returns. */
void uccl_msg_revoke(struct uccl_peer *p, const void *region, uint64_t now);

/* between the files of msg */
void msg_rma_submit(struct uccl_op *op);
/* The payload of a read is there. */
void msg_rma_read_done(struct uccl_op *op);
/* The operation ends: what was to come back is not expected any more. */
void msg_rma_read_end(struct uccl_op *op);
/* RESP, or FIN of a write. */
enum uccl_drop msg_rma_answer(struct uccl_op *op, const struct uccl_resp *resp);

enum uccl_drop msg_req(struct uccl_peer *p, const struct uccl_chunk_in *in, uint64_t now);
/* Its turn has come. */
void msg_serve_turn(struct uccl_msg_rx *rx, uint64_t now);
/* Go on with the requests of this peer, as far as possible. */
void msg_serve_run(struct uccl_peer *p, uint64_t now);
/* Go on with those that wait for room, as far as there is any, one peer after the other. */
void msg_serve_retry(struct uccl_mep *m, uint64_t now);
/* May remote data of this peer, or of ourselves, complete now? */
bool msg_data_room(const struct uccl_mep *m, const struct uccl_peer *p);
/* The receive that they take; NULL: none, they complete by themselves. */
struct uccl_op *msg_data_take(struct uccl_mep *m, const struct uccl_peer *p, uint64_t data, uint64_t len);
/* A large write is in place. */
void msg_serve_placed(struct uccl_msg_rx *rx, uint64_t now);
void msg_reply_acked(struct uccl_item *item, uint64_t now);
/* The peer is gone, the flow has forgotten its items. */
void msg_replies_free(struct uccl_peer *p, uint64_t now);
/* An operation on our own memory; it is told of here unless copies are under way. 0, or enum uccl_refusal. */
int msg_serve_self(struct uccl_mep *m, struct uccl_op *op, const struct uccl_req *req);
/* They are done now, and did not fail. */
void msg_serve_self_tell(struct uccl_mep *m, struct uccl_op *op, const struct uccl_req *req);

#endif
